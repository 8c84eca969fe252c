"""The Spark engine as the contract of engines uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakewright as lw
import lakewright.spark as lws
from contract.engine_suite import Argument, Frame
from lakewright.commit.table_commit import CommitResult
from lakewright.dml.incremental_jobs import TransformResult
from lakewright.dml.merge import MergeBuilder
from lakewright.dml.row_changes import UpdateResult
from lakewright.spark import spark_engine
from lakewright.spark.frame_operations import from_arrow, to_arrow, union_all
from lakewright.spark.spark_session import is_connect


@dataclass(frozen=True)
class Spark:
    """A local session as an engine."""

    session: SparkSession

    def frame(self, rows: pa.Table, parts: int = 3) -> DataFrame:
        whole = from_arrow(self.session, rows)
        if rows.num_rows < parts:
            return whole
        size = -(-rows.num_rows // parts)
        if is_connect(self.session):
            slices = [rows.slice(start, size) for start in range(0, rows.num_rows, size)]
            return union_all([from_arrow(self.session, one).coalesce(1) for one in slices])
        pieces = [rows.slice(start, size).to_pylist() for start in range(0, rows.num_rows, size)]
        return self.session.createDataFrame(
            self.session.sparkContext.parallelize(pieces, len(pieces)).flatMap(list), whole.schema
        )

    def failing_frame(self, rows: pa.Table) -> DataFrame:
        def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from batches
            raise ValueError("the input is bad")

        frame = self.frame(rows)
        return frame.mapInArrow(fail, frame.schema)

    def write(
        self, frame: Frame, table: lw.FileStoreTable | str, mode: Argument = "append", **arguments: Argument
    ) -> CommitResult:
        return lws.write_table(frame, table, mode, **arguments)

    def read(self, table: Argument, **arguments: Argument) -> pa.Table:
        return to_arrow(lws.read_table(self.session, table, **arguments))

    def pinned(self, table: lw.FileStoreTable) -> Callable[[], pa.Table]:
        return partial(to_arrow, lws.read_table(self.session, table))

    def counts(self, table: lw.FileStoreTable, where: str | None) -> Mapping[str, int]:
        frame = lws.read_table(self.session, table)
        frame = frame if where is None else frame.where(where)
        source = self.session.read.format("lakewright").load(table.table_path)
        source = source if where is None else source.where(where)
        return {
            "count": frame.count(),
            "a constant": len(frame.selectExpr("1 AS one").collect()),
            "the data source": source.count(),
            "a constant of the data source": len(source.selectExpr("1 AS one").collect()),
        }

    def delete(self, table: lw.FileStoreTable, where: str) -> UpdateResult:
        return lws.delete(self.session, table, where)

    def update(self, table: lw.FileStoreTable, assignments: Mapping[str, object], where: str) -> UpdateResult:
        return lws.update(self.session, table, assignments, where)

    def merge(self, frame: Frame, table: lw.FileStoreTable, on: str | Sequence[str]) -> MergeBuilder:
        return lws.merge(frame, table, on)

    def transform(
        self, source: lw.FileStoreTable, above: int, target: lw.FileStoreTable, **arguments: Argument
    ) -> TransformResult:
        return lws.transform(self.session, source, lambda rows: rows.where(f"n > {above}"), target, **arguments)

    def forbid_jobs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(spark_engine, "run_job", lambda *_, **__: pytest.fail("a job was started"))
