"""What a compaction would do: its tasks in, counts out. Nothing is read but metadata, and nothing is written."""

from __future__ import annotations

from collections.abc import Sequence

from lakewright.compact.rounds import CompactResult, PartitionEstimate
from lakewright.compact.task import CompactTask
from lakewright.metadata.store import TableStore


def estimate(store: TableStore, tasks: Sequence[CompactTask]) -> CompactResult:
    """Return how many files tasks would take, and about how many files, rows and bytes would come out."""
    by_partition: dict[bytes, list[CompactTask]] = {}
    for task in tasks:
        by_partition.setdefault(task.partition, []).append(task)
    details = tuple(_of_partition(store, partition, some) for partition, some in sorted(by_partition.items()))
    return CompactResult(
        snapshot_id=None,
        buckets=sum(one.buckets for one in details),
        files_before=sum(one.files_before for one in details),
        files_after=sum(one.files_after for one in details),
        rows=sum(one.rows for one in details),
        bytes=sum(one.bytes for one in details),
        partitions=len(details),
        dry_run=True,
        details=details,
    )


def _of_partition(store: TableStore, partition: bytes, tasks: Sequence[CompactTask]) -> PartitionEstimate:
    target = store.options.target_file_size(has_primary_key=bool(store.schema.primary_keys))
    counts = [_kept(task) for task in tasks]
    return PartitionEstimate(
        partition=store.partition_name(partition) if store.schema.partition_keys else "",
        buckets=len({task.bucket for task in tasks}),
        files_before=sum(len(task.files) for task in tasks),
        files_after=sum(-(-size // target) for _, size in counts),
        rows=sum(rows for rows, _ in counts),
        bytes=sum(size for _, size in counts),
    )


def _kept(task: CompactTask) -> tuple[int, int]:
    """Return how many rows of a task are not deleted, and their share of the bytes."""
    deleted = {r.data_file: r.cardinality or 0 for index in task.vectors for r in index.deletion_ranges or ()}
    rows = {file: max(0, file.row_count - deleted.get(file.file_name, 0)) for file in task.files}
    size = sum(-(-file.file_size * kept // max(1, file.row_count)) for file, kept in rows.items())
    return sum(rows.values()), size
