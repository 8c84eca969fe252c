"""What a read would do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakewright.display import HtmlRepr
from lakewright.metadata.table_statistics import TableStatistics
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.read.manifest_scan import Funnel
from lakewright.spec.manifest import DataFile
from lakewright.spec.predicate import TRUE, Predicate
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.table_schema import BucketMode

_KIB = 1024


@dataclass(frozen=True, slots=True)
class PruningStat:
    """How many files one kind of pruning began with, and how many it left."""

    before: int
    after: int

    @property
    def pruned(self) -> int:
        """How many files it took away."""
        return self.before - self.after

    def format(self) -> str:
        """Return the numbers as a line of a plan shows them."""
        return f"{self.before} -> {self.after}  (pruned {self.pruned})"

    def __str__(self) -> str:
        return self.format()


@dataclass(frozen=True, slots=True)
class ExplainSplitInfo:
    """One split of a plan: which rows it has, and the facts of its files."""

    partition: dict[str, object]
    bucket: int
    file_count: int
    row_count: int
    merged_row_count: int | None
    file_size: int
    raw_convertible: bool
    has_deletion_vectors: bool
    level_histogram: dict[int, int]
    deletion_file_count: int
    file_paths: list[str]
    data_files: list[DataFile]
    branch: str | None = None  # of a split that another branch of the table gives


@dataclass(frozen=True, slots=True)
class ExplainResult(HtmlRepr):
    """The plan of a read. `str()` shows it; None as a pruning means that it had nothing to decide."""

    table_identifier: str
    is_primary_key_table: bool
    bucket_mode: str
    deletion_vectors_enabled: bool
    data_evolution_enabled: bool
    snapshot_id: int | None
    schema_id: int | None
    predicate: str | None
    projection: list[str] | None
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
    files_per_split_min: int
    files_per_split_max: int
    files_per_split_avg: float
    split_size_min: int
    split_size_max: int
    split_size_avg: float
    split_size_p50: int
    split_size_p95: int
    splits: list[ExplainSplitInfo] | None  # with `verbose`
    statistics: TableStatistics | None = None  # what ANALYZE recorded of the table

    def __str__(self) -> str:
        return "\n".join(["== Scan plan ==", *self._head(), "", *self._pruning(), "", *self._shape(), *self._details()])

    def _head(self) -> list[str]:
        kinds = ["PK" if self.is_primary_key_table else "Append", self.bucket_mode]
        kinds += ["dv=on"] * self.deletion_vectors_enabled + ["data-evolution=on"] * self.data_evolution_enabled
        none, columns = "<none>  (table is empty or has no snapshot)", ", ".join(self.projection or ())
        snapshot = none if self.snapshot_id is None else f"{self.snapshot_id}  (schema {self.schema_id})"
        return [
            f"Table:              {self.table_identifier} ({', '.join(kinds)})",
            f"Snapshot:           {snapshot}",
            f"Predicate:          {self.predicate or '<none>'}",
            f"Projection:         {f'[{columns}]' if columns else '<all columns>'}",
            f"Limit:              {'<none>' if self.limit is None else self.limit}",
        ]

    def _pruning(self) -> list[str]:
        return [
            f"Manifests:          {self.manifests}",
            f"Partition pruning:  {_format_pruning(self.partition_pruning)}",
            f"Bucket pruning:     {_format_pruning(self.bucket_pruning)}",
            f"File skipping:      {_format_pruning(self.file_skipping)}",
        ]

    def _shape(self) -> list[str]:
        lines = [f"Splits:             {self.split_count}"]
        if self.split_count:
            files = f"min={self.files_per_split_min}  max={self.files_per_split_max}"
            sizes = (self.split_size_min, self.split_size_p50, self.split_size_p95, self.split_size_max)
            shown = (f"{name}={_size(size)}" for name, size in zip(("min", "p50", "p95", "max"), sizes, strict=True))
            lines += [
                f"  raw-convertible:  {self.splits_raw_convertible} / {self.split_count}",
                f"  with DV:          {self.splits_with_deletion_vectors} / {self.split_count}",
                f"  all-above-L0:     {self.splits_all_above_l0} / {self.split_count}",
                f"  files/split:      {files}  avg={self.files_per_split_avg:.2f}",
                f"  size/split:       {'  '.join(shown)}",
            ]
        merged = "" if self.estimated_merged_row_count is None else f"   (merged: {self.estimated_merged_row_count:,})"
        lines += [
            "",
            f"Files:              {self.file_count}",
            f"Total size:         {_size(self.total_file_size)}",
            f"Estimated rows:     {self.estimated_row_count:,}{merged}",
        ]
        if self.statistics is not None:
            known = self.statistics
            counts = f"{known.row_count or 0:,} rows, {_size(known.size or 0)}"
            lines.append(f"Statistics:         {counts}, of snapshot {known.snapshot_id}")
        lines += [f"Level histogram:    {_levels(self.level_histogram)}"] * bool(self.level_histogram)
        return [*lines, f"Deletion files:     {self.deletion_file_count}"]

    def _details(self) -> list[str]:
        lines = ["", "Splits[]"] if self.splits else []
        for number, split in enumerate(self.splits or ()):
            facts = f"partition={split.partition} bucket={split.bucket} files={split.file_count}"
            rows = f"rows={split.row_count} raw={split.raw_convertible} dv={split.has_deletion_vectors}"
            lines.append(f"  [{number}] {facts} size={_size(split.file_size)} {rows}")
            lines += [f"      levels: {_levels(split.level_histogram)}"] * bool(split.level_histogram)
            lines += [f"      file: {path}" for path in split.file_paths]
        return lines


def explain(
    store: TableStore,
    snapshot: Snapshot | None,
    funnel: Funnel,
    splits: Sequence[DataSplit],
    predicate: Predicate,
    statistics: TableStatistics | None = None,
) -> ExplainResult:
    """Return the facts about a plan; the caller adds projection, limit and the splits themselves."""
    schema = store.schema
    filtered = predicate != TRUE
    partitioned = filtered and bool(schema.partition_keys)
    bucketed = filtered and schema.bucket_mode == BucketMode.HASH_FIXED
    counts, sizes = [len(split.files) for split in splits] or [0], [split.file_size for split in splits] or [0]
    return ExplainResult(
        table_identifier=store.name,
        is_primary_key_table=bool(schema.primary_keys),
        bucket_mode=schema.bucket_mode.value,
        snapshot_id=None if snapshot is None else snapshot.id,
        deletion_vectors_enabled=store.options.deletion_vectors_enabled,
        data_evolution_enabled=store.options.data_evolution_enabled,
        schema_id=None if snapshot is None else schema.id,
        predicate=str(predicate) if filtered else None,
        projection=None,
        limit=None,
        manifests=PruningStat(funnel.manifests_total, funnel.manifests_read),
        partition_pruning=PruningStat(funnel.files_total, funnel.files_after_partition) if partitioned else None,
        bucket_pruning=PruningStat(funnel.files_after_partition, funnel.files_after_bucket) if bucketed else None,
        file_skipping=PruningStat(funnel.files_after_bucket, funnel.files_after_stats) if filtered else None,
        file_count=sum(counts),
        total_file_size=sum(sizes),
        estimated_row_count=sum(split.row_count for split in splits),
        estimated_merged_row_count=_merged_rows(snapshot, splits, statistics),
        deletion_file_count=sum(deletion is not None for split in splits for deletion in split.deletion_files),
        level_histogram=_histogram(file for split in splits for file in split.files),
        split_count=len(splits),
        splits_raw_convertible=sum(split.raw_convertible for split in splits),
        splits_with_deletion_vectors=sum(split.has_deletions for split in splits),
        splits_all_above_l0=sum(all(file.level > 0 for file in split.files) for split in splits),
        files_per_split_min=min(counts),
        files_per_split_max=max(counts),
        files_per_split_avg=sum(counts) / len(counts),
        split_size_min=min(sizes),
        split_size_max=max(sizes),
        split_size_avg=sum(sizes) / len(sizes),
        split_size_p50=_percentile(sizes, 0.50),
        split_size_p95=_percentile(sizes, 0.95),
        splits=None,
        statistics=statistics,
    )


def _merged_rows(
    snapshot: Snapshot | None, splits: Sequence[DataSplit], statistics: TableStatistics | None
) -> int | None:
    """Return how many rows the splits have after merging: as their files say, else as statistics let expect."""
    merged = [split.merged_row_count() for split in splits]
    if merged and None not in merged:
        return sum(count or 0 for count in merged)
    total = None if snapshot is None else snapshot.total_record_count
    if not merged or not total or statistics is None or statistics.row_count is None:
        return None
    share = min(1.0, statistics.row_count / total)
    known = zip(splits, merged, strict=True)
    return round(sum(split.row_count * share if count is None else count for split, count in known))


def split_info(split: DataSplit, partition_keys: Sequence[str]) -> ExplainSplitInfo:
    """Return the facts about one split."""
    return ExplainSplitInfo(
        partition=dict(zip(partition_keys, split.partition, strict=True)),
        bucket=split.bucket,
        file_count=len(split.files),
        row_count=split.row_count,
        merged_row_count=split.merged_row_count(),
        file_size=split.file_size,
        raw_convertible=split.raw_convertible,
        has_deletion_vectors=split.has_deletions,
        level_histogram=_histogram(split.files),
        deletion_file_count=sum(deletion is not None for deletion in split.deletion_files),
        file_paths=list(split.file_paths),
        data_files=list(split.files),
        branch=split.branch,
    )


def _format_pruning(stat: PruningStat | None) -> str:
    return "n/a" if stat is None else stat.format()


def _histogram(files: Iterable[DataFile]) -> dict[int, int]:
    """Return how many files are at each level."""
    return dict(sorted(Counter(file.level for file in files).items()))


def _levels(histogram: Mapping[int, int]) -> str:
    return "  ".join(f"L{level}={count}" for level, count in sorted(histogram.items()))


def _percentile(values: Sequence[int], share: float) -> int:
    """Return the value that so many of the others do not exceed."""
    return sorted(values)[round(share * (len(values) - 1))]


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < _KIB:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= _KIB
    return f"{size:.1f} TiB"
