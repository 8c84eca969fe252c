"""The figures of reads: batches in, the same batches out, and an event once they are read, if anybody listens."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence

import pyarrow as pa

from lakewright.metrics import MetricsEvent, tell
from lakewright.read.splits.split import DataSplit


def told(
    batches: Iterator[pa.RecordBatch],
    table: str,
    columns: Sequence[str],
    splits: Sequence[DataSplit],
    opened: Mapping[str, int] | None,
) -> Iterator[pa.RecordBatch]:
    """Return batches, and tell listeners how many rows of which columns and files they were once they are read.

    `opened` are the names and sizes of the files that were opened until then; None: nobody listens.
    """
    return batches if opened is None else _counted(batches, table, columns, splits, opened)


def _counted(
    batches: Iterator[pa.RecordBatch],
    table: str,
    columns: Sequence[str],
    splits: Sequence[DataSplit],
    opened: Mapping[str, int],
) -> Generator[pa.RecordBatch]:
    began, started, rows = time.time_ns(), time.perf_counter(), 0
    try:
        for batch in batches:
            rows += batch.num_rows
            yield batch
    finally:
        tell(
            MetricsEvent(
                "read",
                table,
                snapshot_id=splits[0].snapshot_id if splits else None,
                rows=rows,
                files=len(opened),  # a read that ends early opens some of the files of its plan alone
                bytes=sum(tuple(opened.values())),  # a copy: threads may still open files
                started_ns=began,
                seconds=time.perf_counter() - started,
                details={"columns": tuple(columns), "splits": len(splits)},
            )
        )
