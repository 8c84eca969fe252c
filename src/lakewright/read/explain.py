"""What a read would do, as facts and as text: the snapshot, the pruning funnel, the splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lakewright.metadata.store import TableStore
from lakewright.read.scan import Funnel
from lakewright.read.splits.split import DataSplit
from lakewright.spec.predicate.predicate import TRUE, Predicate
from lakewright.spec.schema.table_schema import BucketMode
from lakewright.spec.snapshot import Snapshot

_KIB = 1024


@dataclass(frozen=True, slots=True)
class PruningStat:
    """How many files one kind of pruning began with, and how many it left."""

    before: int
    after: int

    def __str__(self) -> str:
        return f"{self.before} -> {self.after}  (pruned {self.before - self.after})"


@dataclass(frozen=True, slots=True)
class ExplainResult:
    """The plan of a read. `str()` shows it; None as a pruning means that it had nothing to decide."""

    table_identifier: str
    is_primary_key_table: bool
    bucket_mode: str
    snapshot_id: int | None
    schema_id: int
    predicate: str | None
    projection: tuple[str, ...] | None
    limit: int | None
    manifests: PruningStat
    partition_pruning: PruningStat | None
    bucket_pruning: PruningStat | None
    file_skipping: PruningStat | None
    file_count: int
    total_file_size: int
    estimated_row_count: int
    estimated_merged_row_count: int | None
    deletion_file_count: int
    level_histogram: dict[int, int]
    split_count: int
    splits_raw_convertible: int
    splits_with_deletion_vectors: int
    splits_all_above_l0: int
    splits: tuple[DataSplit, ...] | None  # with `verbose`

    def __str__(self) -> str:
        kind = "Primary key" if self.is_primary_key_table else "Append"
        levels = "  ".join(f"L{level}={count}" for level, count in self.level_histogram.items()) or "none"
        merged = "unknown" if self.estimated_merged_row_count is None else self.estimated_merged_row_count
        lines = [
            "== Scan plan ==",
            f"Table:              {self.table_identifier} ({kind}, {self.bucket_mode})",
            f"Snapshot:           {self.snapshot_id or 'none'}  (schema {self.schema_id})",
            f"Predicate:          {self.predicate or '<none>'}",
            f"Projection:         {', '.join(self.projection) if self.projection else '<all columns>'}",
            f"Limit:              {'<none>' if self.limit is None else self.limit}",
            "",
            f"Manifests:          {self.manifests}",
            f"Partition pruning:  {self.partition_pruning or 'n/a'}",
            f"Bucket pruning:     {self.bucket_pruning or 'n/a'}",
            f"File skipping:      {self.file_skipping or 'n/a'}",
            "",
            f"Splits:             {self.split_count}",
            f"  raw-convertible:  {self.splits_raw_convertible} / {self.split_count}",
            f"  with DV:          {self.splits_with_deletion_vectors} / {self.split_count}",
            f"  all-above-L0:     {self.splits_all_above_l0} / {self.split_count}",
            "",
            f"Files:              {self.file_count}",
            f"Total size:         {_size(self.total_file_size)}",
            f"Records in files:   {self.estimated_row_count}   (rows after merging: {merged})",
            f"Level histogram:    {levels}",
            f"Deletion files:     {self.deletion_file_count}",
        ]
        for number, split in enumerate(self.splits or ()):
            lines += _show_split(number, split)
        return "\n".join(lines)


def explain(
    store: TableStore,
    snapshot: Snapshot | None,
    funnel: Funnel,
    splits: Sequence[DataSplit],
    predicate: Predicate,
) -> ExplainResult:
    """Return the facts about a plan; the caller adds projection, limit and the splits themselves."""
    schema = store.schema
    filtered = predicate != TRUE
    partitioned = filtered and bool(schema.partition_keys)
    bucketed = filtered and schema.bucket_mode == BucketMode.HASH_FIXED
    merged = [split.merged_row_count() for split in splits]
    levels = Counter(file.level for split in splits for file in split.files)
    return ExplainResult(
        table_identifier=store.name,
        is_primary_key_table=bool(schema.primary_keys),
        bucket_mode=schema.bucket_mode.value,
        snapshot_id=None if snapshot is None else snapshot.id,
        schema_id=schema.id,
        predicate=str(predicate) if filtered else None,
        projection=None,
        limit=None,
        manifests=PruningStat(funnel.manifests_total, funnel.manifests_read),
        partition_pruning=PruningStat(funnel.files_total, funnel.files_after_partition) if partitioned else None,
        bucket_pruning=PruningStat(funnel.files_after_partition, funnel.files_after_bucket) if bucketed else None,
        file_skipping=PruningStat(funnel.files_after_bucket, funnel.files_after_stats) if filtered else None,
        file_count=sum(len(split.files) for split in splits),
        total_file_size=sum(split.file_size for split in splits),
        estimated_row_count=sum(split.row_count for split in splits),
        estimated_merged_row_count=None if None in merged else sum(count or 0 for count in merged),
        deletion_file_count=sum(deletion is not None for split in splits for deletion in split.deletion_files),
        level_histogram=dict(sorted(levels.items())),
        split_count=len(splits),
        splits_raw_convertible=sum(split.raw_convertible for split in splits),
        splits_with_deletion_vectors=sum(split.has_deletions for split in splits),
        splits_all_above_l0=sum(all(file.level > 0 for file in split.files) for split in splits),
        splits=None,
    )


def _show_split(number: int, split: DataSplit) -> list[str]:
    facts = f"partition={tuple(split.partition)} bucket={split.bucket} files={len(split.files)}"
    rows = f"records={split.row_count} raw={split.raw_convertible} dv={split.has_deletions}"
    first = f"  [{number}] {facts} size={_size(split.file_size)} {rows}"
    return [first, *(f"      file: {path}" for path in split.file_paths)]


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < _KIB:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= _KIB
    return f"{size:.1f} TiB"
