"""How the rows of a frame reach the task that writes their bucket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame

from lakewright.spark.jobs import Task, TaskId, pack
from lakewright.write.writer import WriteJob


@dataclass(frozen=True, slots=True)
class Clustered:
    """A frame whose tasks can write, and what they do."""

    frame: DataFrame
    task: Task
    way: str
    settings: Mapping[str, str] = field(default_factory=dict)


def cluster(df: DataFrame, job: WriteJob, *, concurrency: int | None, distribution: str | None) -> Clustered:
    """Return the frame as it is: every task writes the rows it has."""
    del distribution
    frame = df if concurrency is None else df.coalesce(concurrency)

    def task(this: TaskId, batches: Iterator[pa.RecordBatch]) -> bytes:
        with job.open_writer(this.number, this.attempt) as writer:
            for batch in batches:
                writer.write(batch)
            return pack(writer.prepare())

    return Clustered(frame, task, "as they come")
