"""Manifests and entries that may hold matching rows.

A scan pins one snapshot. Manifests are pruned by the partitions they name, decoded in parallel, and their entries are
pruned by partition, bucket and statistics. An ADD and the DELETE that cancels it share partition and bucket, so both
are pruned or neither is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np

from lakewright.errors import with_table_name
from lakewright.formats.avro_columns import Mask
from lakewright.metadata.manifest_columns import SelectedEntries
from lakewright.metadata.table_store import TableStore
from lakewright.read.projection import ROW_TRACKING_FIELDS
from lakewright.read.pruning import (
    EntryPruner,
    KeyedRules,
    ManifestRanges,
    Narrowing,
    is_hidden,
    manifest_may_match,
    prune_groups,
    prune_keyed,
)
from lakewright.spec.manifest import ManifestEntry, ManifestFile
from lakewright.spec.predicate import FALSE, TRUE, Predicate, project_columns
from lakewright.spec.schema_checks import check_options_for_read
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.table_schema import POSTPONE, BucketMode
from lakewright.spec.types import DataField


@dataclass(frozen=True, slots=True)
class Funnel:
    """How many manifests and files a scan began with, and how many each kind of pruning left."""

    manifests_total: int = 0
    manifests_read: int = 0
    files_total: int = 0
    files_after_partition: int = 0
    files_after_bucket: int = 0
    files_after_stats: int = 0

    def __add__(self, other: Funnel) -> Funnel:
        return Funnel(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True, slots=True)
class ScanResult:
    """The live entries that may hold matching rows, in manifest order."""

    found: tuple[ManifestEntry, ...] | SelectedEntries  # objects are made later where they are many
    funnel: Funnel
    partitions: frozenset[bytes] = frozenset()  # that have visible files and fulfil the filter; only where asked for

    @property
    def entries(self) -> tuple[ManifestEntry, ...]:
        """The entries as objects."""
        return tuple(self.found.entries()) if isinstance(self.found, SelectedEntries) else self.found


def scan(
    store: TableStore,
    snapshot: Snapshot,
    predicate: Predicate = TRUE,
    *,
    without: frozenset[bytes] = frozenset(),
    list_partitions: bool = False,
) -> ScanResult:
    """Return the live files of a snapshot that may hold rows fulfilling a predicate, but none of some partitions."""
    check_readable(store)
    pruner = entry_pruner(store, predicate)
    asks_partitions = pruner.asks_partitions or bool(without)

    def keep(partition: bytes, _bucket: int, _total_buckets: int, _level: int) -> bool:
        return partition not in without and pruner.residual(partition) != FALSE

    narrowing = _narrowing(store, pruner, list_partitions=list_partitions)
    with store.checking_same_table():  # after the snapshot was read, so that it is one of this table
        manifests = _Manifests.of(store, pruner, store.manifests.files_of(snapshot))
        live = store.manifests.live_of(
            manifests.read,
            snapshot,
            keep=keep if asks_partitions else None,
            all_are_here=not manifests.has_gaps,
        )
    found: tuple[ManifestEntry, ...] | SelectedEntries
    if isinstance(live, SelectedEntries):
        found = _prune_chosen(store, narrowing.choose(live), narrowing)
    else:
        narrowing.live = len(live)
        live = visible(store, live) if store.schema.primary_keys else live
        narrowing.shown = len(live)
        if list_partitions:
            narrowing.partitions = frozenset(entry.partition for entry in live)
        live = [entry for entry in live if pruner.bucket_may_match(entry)]
        narrowing.in_bucket = len(live)
        found = tuple(live if predicate == TRUE else _prune_by_stats(store, live, pruner))
    return ScanResult(found, manifests.funnel(narrowing, len(found)), narrowing.partitions)


def _prune_chosen(
    store: TableStore, narrowed: tuple[SelectedEntries, Mask], narrowing: Narrowing
) -> tuple[ManifestEntry, ...] | SelectedEntries:
    """Look at those of many entries as objects about which the columns alone do not decide."""
    chosen, sure = narrowed
    if narrowing.pruner.predicate == TRUE or (sure.all() and narrowing.decides_alone):
        return chosen
    if not narrowing.decides_alone:
        return tuple(_prune_by_stats(store, chosen.entries(), narrowing.pruner))
    doubtful = np.flatnonzero(~sure)
    entries = chosen.at(doubtful)
    kept = {id(entry) for entry in _prune_by_stats(store, entries, narrowing.pruner)}
    left = np.ones(len(chosen), np.bool_)
    left[doubtful] = [id(entry) in kept for entry in entries]
    return chosen.where(left)


@dataclass(frozen=True, slots=True)
class _Manifests:
    """The manifests of a snapshot that a scan reads, and how many live files they and the others name."""

    total: int
    read: tuple[ManifestFile, ...]
    files: int  # of all, but for those that are skipped because they are below the levels that are read
    out_of_range: int  # of those that are skipped by their buckets or row ids
    has_gaps: bool  # whether files may be deleted in one that is read and added in one that is not

    @classmethod
    def of(cls, store: TableStore, pruner: EntryPruner, manifests: Sequence[ManifestFile]) -> _Manifests:
        """Decide by what the manifest list says of each manifest.

        What is skipped here is left out among the entries too, so that no file comes back whose deletion is skipped.
        """
        partitions = project_columns(pruner.predicate, store.schema.partition_keys)
        lowest = lowest_level(store) if store.schema.primary_keys else None
        ranges = ManifestRanges.of(pruner, store.schema)
        read: list[ManifestFile] = []
        files = out_of_range = 0
        has_gaps = False
        for manifest in manifests:
            count = manifest.num_added_files - manifest.num_deleted_files
            files += count
            if not manifest_may_match(partitions, manifest, store.schema.partition_fields):
                continue
            if lowest is not None and is_hidden(manifest, lowest):
                files, has_gaps = files - count, True
            elif not ranges.may_match(manifest):
                out_of_range, has_gaps = out_of_range + count, True
            else:
                read.append(manifest)
        return cls(len(manifests), tuple(read), files, out_of_range, has_gaps)

    def funnel(self, narrowing: Narrowing, left: int) -> Funnel:
        """Return how many manifests and files each kind of pruning left."""
        files = max(narrowing.shown, self.files - narrowing.live + narrowing.shown)
        return Funnel(
            manifests_total=self.total,
            manifests_read=len(self.read),
            files_total=files,
            files_after_partition=min(files, narrowing.shown + self.out_of_range),
            files_after_bucket=narrowing.in_bucket,
            files_after_stats=left,
        )


def _narrowing(store: TableStore, pruner: EntryPruner, *, list_partitions: bool) -> Narrowing:
    """Return what leaves out entries of a large table before they become objects."""
    schema = store.schema
    if schema.primary_keys:  # files with values that do not match may hold rows that hide others
        fields: tuple[DataField, ...] = schema.trimmed_primary_key_fields
        asked, stats, lowest = (
            project_columns(pruner.predicate, [f.name for f in fields]),
            "_KEY_STATS",
            lowest_level(store),
        )
    else:
        fields, asked, stats, lowest = schema.fields, pruner.predicate, "_VALUE_STATS", None
    evolves = store.options.data_evolution_enabled
    if evolves:
        asked = TRUE  # several files hold columns of the same rows
    known = {f.name for f in fields} | set(schema.partition_keys)
    decides_alone = not evolves and pruner.predicate.columns() <= known
    return Narrowing(pruner, asked, fields, stats, schema.id, lowest, list_partitions, decides_alone)


def entry_pruner(store: TableStore, predicate: Predicate) -> EntryPruner:
    """Return what decides about the entries of a table."""
    schema = store.schema
    function = store.options.bucket_function_type
    # In other modes the bucket of a key is where it was first written, not what a function says.
    bucket_fields = schema.bucket_fields if schema.bucket_mode is BucketMode.HASH_FIXED else ()
    tracked = ROW_TRACKING_FIELDS if store.options.row_tracking_enabled else ()
    return EntryPruner(predicate, schema.partition_fields, bucket_fields, function, (*schema.fields, *tracked))


def check_readable(store: TableStore) -> None:
    """Raise UnsupportedError for a table whose reads cannot be planned."""
    with with_table_name(store.name):
        check_options_for_read(store.schema)


def visible(store: TableStore, entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """Return the files that a batch read of a primary-key table sees: all but those of bucket -2 (postponed).

    Level 0 is not seen either if keys are made unique when files are compacted: a fresh file may hold a key again.
    """
    lowest = lowest_level(store)
    return [entry for entry in entries if entry.bucket != POSTPONE and entry.file.level >= lowest]


def lowest_level(store: TableStore) -> int:
    """Return the lowest level that a batch read of a primary-key table sees."""
    if store.options.lakewright_read_optimized:
        return store.options.level_count - 1
    return 1 if keys_are_once(store) else 0


def keys_are_once(store: TableStore) -> bool:
    """Return whether no two files that a batch read sees hold live rows of one key."""
    return store.options.hides_level_0 and not store.options.lakewright_read_level_0


def _prune_by_stats(store: TableStore, entries: Sequence[ManifestEntry], pruner: EntryPruner) -> list[ManifestEntry]:
    schemas = FileSchemas(store)
    if store.schema.primary_keys:
        wins = store.options.merge_engine.traits.keeps_one_row
        rules = KeyedRules(store.schema.trimmed_primary_key_fields, keys_are_once(store), wins)
        return prune_keyed(entries, pruner, rules, schemas.fields_of)
    if store.options.data_evolution_enabled:
        return prune_groups(entries, pruner, schemas.fields_of)
    return [entry for entry in entries if pruner.stats_may_match(entry, schemas.fields_of(entry.file.schema_id))]


class FileSchemas:
    """The columns of the schemas that data files were written with, each schema read once."""

    def __init__(self, store: TableStore, opened: dict[str, int] | None = None) -> None:
        self._store = store
        self._fields: dict[int, tuple[DataField, ...]] = {store.schema.id: store.schema.fields}
        self.opened = opened  # names and sizes of the files that were opened, for who asks

    def fields_of(self, schema_id: int) -> tuple[DataField, ...]:
        """Return the columns of a schema."""
        fields = self._fields.get(schema_id)
        if fields is None:
            fields = self._fields[schema_id] = self._store.schemas.get(schema_id).fields
        return fields
