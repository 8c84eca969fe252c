"""The figures of reads: batches in, the same batches out, and an event once they are read, if anybody listens."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence

import pyarrow as pa

from lakewright.metrics import MetricsEvent, is_observed, tell
from lakewright.read.splits.split import DataSplit


def told(
    batches: Iterator[pa.RecordBatch], table: str, columns: Sequence[str], splits: Sequence[DataSplit]
) -> Iterator[pa.RecordBatch]:
    """Return batches, and tell listeners how many rows of which columns and files they were once they are read."""
    return _counted(batches, table, columns, splits) if is_observed("read") else batches


def _counted(
    batches: Iterator[pa.RecordBatch], table: str, columns: Sequence[str], splits: Sequence[DataSplit]
) -> Generator[pa.RecordBatch]:
    began, started, rows = time.time_ns(), time.perf_counter(), 0
    try:
        for batch in batches:
            rows += batch.num_rows
            yield batch
    finally:
        files = [file for split in splits for file in split.files]
        tell(
            MetricsEvent(
                "read",
                table,
                snapshot_id=splits[0].snapshot_id if splits else None,
                rows=rows,
                files=len(files),
                bytes=sum(file.file_size for file in files),
                started_ns=began,
                seconds=time.perf_counter() - started,
                details={"columns": tuple(columns), "splits": len(splits)},
            )
        )
