"""What a compaction would do: its tasks in, counts out. Nothing is read but metadata, and nothing is written."""

from __future__ import annotations

from collections.abc import Sequence

from lakewright.compact.rounds import CompactResult
from lakewright.compact.task import CompactTask
from lakewright.metadata.store import TableStore


def estimate(store: TableStore, tasks: Sequence[CompactTask]) -> CompactResult:
    """Return how many files tasks would take, and about how many files, rows and bytes would come out."""
    target = store.options.target_file_size(has_primary_key=bool(store.schema.primary_keys))
    counts = [_kept(task) for task in tasks]
    return CompactResult(
        snapshot_id=None,
        buckets=len({(task.partition, task.bucket) for task in tasks}),
        files_before=sum(len(task.files) for task in tasks),
        files_after=sum(-(-size // target) for _, size in counts),
        rows=sum(rows for rows, _ in counts),
        bytes=sum(size for _, size in counts),
        partitions=len({task.partition for task in tasks}),
        dry_run=True,
    )


def _kept(task: CompactTask) -> tuple[int, int]:
    """Return how many rows of a task are not deleted, and their share of the bytes."""
    deleted = {r.data_file: r.cardinality or 0 for index in task.vectors for r in index.deletion_ranges or ()}
    rows = {file: max(0, file.row_count - deleted.get(file.file_name, 0)) for file in task.files}
    size = sum(-(-file.file_size * kept // max(1, file.row_count)) for file, kept in rows.items())
    return sum(rows.values()), size
