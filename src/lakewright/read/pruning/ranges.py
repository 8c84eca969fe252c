"""Which manifests need not be read: what a manifest list says of their buckets, levels and row ids in, yes or no out.

Every answer is conservative, and no stronger than what is asked of the entries afterwards. So a file whose deletion is
recorded in a manifest that is skipped does not come back: it is left out by its own bucket, level or row ids.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.read.projection import ROW_ID
from lakewright.read.pruning.prune import EntryPruner, matching_buckets
from lakewright.spec.manifest import ManifestFile
from lakewright.spec.options import CoreOptions
from lakewright.spec.predicate.evaluation import may_match, project
from lakewright.spec.predicate.predicate import TRUE, Predicate
from lakewright.spec.schema.table_schema import POSTPONE, TableSchema
from lakewright.spec.stats import ColumnStats


def is_hidden(manifest: ManifestFile, lowest_level: int) -> bool:
    """Say whether a batch read of a primary-key table sees no file that a manifest names, whatever it asks for."""
    below = manifest.max_level is not None and manifest.max_level < lowest_level
    return below or (manifest.max_bucket is not None and manifest.max_bucket <= POSTPONE)


@dataclass(frozen=True, slots=True)
class ManifestRanges:
    """What of a predicate can be asked of the buckets and row ids of a manifest."""

    buckets: frozenset[int] | None  # that matching rows are in; None: any
    row_ids: Predicate

    @classmethod
    def of(cls, pruner: EntryPruner, schema: TableSchema) -> ManifestRanges:
        """Find out what to ask of manifests.

        A manifest does not record how many buckets there were when its files were written. Only as long as the table
        has its first schema that is surely the number of today.
        """
        buckets = None
        if pruner.bucket_fields and schema.id == 0 and pruner.predicate != TRUE:
            total = schema.core_options.get(CoreOptions.BUCKET)
            buckets = matching_buckets(pruner.predicate, pruner.bucket_fields, pruner.bucket_function, total)
        has_ids = any(field.name == ROW_ID.name for field in pruner.read_fields)
        return cls(buckets, project(pruner.predicate, [ROW_ID.name]) if has_ids else TRUE)

    def may_match(self, manifest: ManifestFile) -> bool:
        """Say whether a manifest may name a file with matching rows."""
        return self._bucket_may_match(manifest) and self._row_id_may_match(manifest)

    def _bucket_may_match(self, manifest: ManifestFile) -> bool:
        low, high = manifest.min_bucket, manifest.max_bucket
        if self.buckets is None or low is None or high is None:
            return True
        return any(low <= bucket <= high for bucket in self.buckets)

    def _row_id_may_match(self, manifest: ManifestFile) -> bool:
        first, last = manifest.min_row_id, manifest.max_row_id
        if self.row_ids == TRUE or first is None or last is None:
            return True
        stats = ColumnStats(first, last, 0)
        return may_match(self.row_ids, lambda _: stats, last - first + 1)
