"""The embedded engine passes the contract of engines, on tables of every kind of catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakewright as lw
from contract import engine_suite
from contract.engine_suite import Argument, EngineContract, Frame
from lakewright.commit.table_commit import CommitResult
from lakewright.dml.incremental_jobs import TransformResult
from lakewright.dml.merge import MergeBuilder
from lakewright.dml.row_changes import UpdateResult
from lakewright.storage.local_storage import LocalStorage
from support.rest_server import running_rest


class Embedded:
    """This process as an engine: a frame is a reader of batches."""

    def frame(self, rows: pa.Table, parts: int = 3) -> pa.RecordBatchReader:
        size = max(1, -(-rows.num_rows // parts))
        return _reader(rows.schema, iter(rows.combine_chunks().to_batches(max_chunksize=size)))

    def failing_frame(self, rows: pa.Table) -> pa.RecordBatchReader:
        def batches() -> Iterator[pa.RecordBatch]:
            yield from rows.to_batches()
            raise ValueError("the input is bad")

        return _reader(rows.schema, batches())

    def write(
        self, frame: Frame, table: lw.FileStoreTable | str, mode: Argument = "append", **arguments: Argument
    ) -> CommitResult:
        return lw.write_table(frame, table, mode, **arguments)

    def read(self, table: Argument, **arguments: Argument) -> pa.Table:
        return lw.read_table(table, **arguments)

    def pinned(self, table: lw.FileStoreTable) -> Callable[[], pa.Table]:
        builder = table.new_read_builder()
        splits = builder.new_scan().plan().splits()
        return lambda: builder.new_read().to_arrow(splits)

    def counts(self, table: lw.FileStoreTable, where: str | None) -> Mapping[str, int]:
        frame, relation = lw.scan_polars(table), lw.duckdb_relation(table)
        if where is not None:
            frame, relation = frame.filter(pl.sql_expr(where)), relation.filter(where)
        builder = table.new_read_builder().with_projection([])
        builder = builder if where is None else builder.with_filter(where)
        indices = frame.with_row_index().select("index")
        return {
            "Arrow": lw.read_table(table, columns=[], filter=where).num_rows,
            "Arrow stream": sum(batch.num_rows for batch in builder.new_read().to_arrow_batch_reader()),
            "polars": frame.select(pl.len()).collect().item(),
            "polars, row numbers": indices.collect().height,
            "polars, streaming": indices.collect(engine="streaming").height,
            "polars, a constant": frame.with_columns(one=pl.lit(1)).select("one").collect().height,
            "DuckDB": relation.aggregate("count(*)").fetchall()[0][0],
            "DuckDB, a constant": len(relation.project("1 AS one").fetchall()),
        }

    def delete(self, table: lw.FileStoreTable, where: str) -> UpdateResult:
        return table.delete(where)

    def update(self, table: lw.FileStoreTable, assignments: Mapping[str, object], where: str) -> UpdateResult:
        return table.update(assignments, where)

    def merge(self, frame: Frame, table: lw.FileStoreTable, on: str | Sequence[str]) -> MergeBuilder:
        return table.merge(frame.read_all(), on)

    def transform(
        self, source: lw.FileStoreTable, above: int, target: lw.FileStoreTable, **arguments: Argument
    ) -> TransformResult:
        return lw.transform(source, lambda rows: rows.filter(pc.field("n") > above), target, **arguments)

    def forbid_jobs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(LocalStorage, "open_output", lambda *_: pytest.fail("a file was written"))


def _reader(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(schema, batches)


@pytest.fixture
def engine() -> Embedded:
    return Embedded()


class TestEmbedded(EngineContract):
    """The embedded engine."""


@pytest.mark.nightly  # the contract of catalogs proves per push that servers and databases keep what is committed
class TestEmbeddedOnServer(EngineContract):
    """The embedded engine on tables whose history a REST server owns."""

    @pytest.fixture(autouse=True)
    def _on_server(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        with running_rest(str(tmp_path / "server")) as server:
            monkeypatch.setattr(engine_suite, "catalog_at", lambda _: lw.CatalogFactory.create(server.options))
            yield


@pytest.mark.nightly
class TestEmbeddedInDatabase(EngineContract):
    """The embedded engine on tables whose names a SQL database holds, under its lock."""

    @pytest.fixture(autouse=True)
    def _in_database(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        options = {
            "metastore": "jdbc",
            "uri": f"jdbc:sqlite:{tmp_path}/names.db",
            "warehouse": f"{tmp_path}/lake",
            "lock.enabled": "true",
            "lakewright.durable": "false",
        }
        monkeypatch.setattr(engine_suite, "catalog_at", lambda _: lw.CatalogFactory.create(options))
