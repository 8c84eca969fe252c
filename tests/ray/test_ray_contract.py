"""The Ray engine passes the contract of engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import ray.data
from ray.data import Dataset

import lakewright as lw
import lakewright.ray as lwr
from contract.engine_suite import KINDS, Argument, EngineContract, EngineUnderTest, Frame
from lakewright.commit.table_commit import CommitResult
from lakewright.dml.incremental_jobs import TransformResult
from lakewright.dml.merge import MergeBuilder
from lakewright.dml.row_changes import UpdateResult
from lakewright.ray import dataset_write, read_table, write_table
from support.effort import some
from support.ray_rows import arrow_of


class Ray:
    """A Ray on loopback as an engine."""

    def frame(self, rows: pa.Table, parts: int = 3) -> Dataset:
        step = max(1, -(-rows.num_rows // parts))
        return ray.data.from_arrow([rows.slice(start, step) for start in range(0, max(1, rows.num_rows), step)])

    def failing_frame(self, rows: pa.Table) -> Dataset:
        last = rows.column("n")[-1].as_py()

        def fail(block: pa.Table) -> pa.Table:
            if block.column("n")[-1].as_py() == last:
                raise ValueError("the input is bad")
            return block

        return self.frame(rows).map_batches(fail, batch_format="pyarrow", batch_size=None)

    def write(
        self, frame: Frame, table: lw.FileStoreTable | str, mode: Argument = "append", **arguments: Argument
    ) -> CommitResult:
        return write_table(frame, table, mode, **arguments)

    def read(self, table: Argument, **arguments: Argument) -> pa.Table:
        return arrow_of(read_table(table, **arguments))

    def pinned(self, table: lw.FileStoreTable) -> Callable[[], pa.Table]:
        dataset = read_table(table)
        return lambda: arrow_of(dataset)

    def counts(self, table: lw.FileStoreTable, where: str | None) -> Mapping[str, int]:
        def ones(batch: pa.Table) -> pa.Table:
            return pa.table({"one": pa.repeat(1, batch.num_rows)})

        dataset = read_table(table, filter=where)
        return {
            "count": dataset.count(),
            "no column": dataset.select_columns([]).count(),
            "a constant": len(arrow_of(dataset.map_batches(ones, batch_format="pyarrow"))),
        }

    def delete(self, table: lw.FileStoreTable, where: str) -> UpdateResult:
        return lwr.delete(table, where)

    def update(self, table: lw.FileStoreTable, assignments: Mapping[str, object], where: str) -> UpdateResult:
        return lwr.update(table, assignments, where)

    def merge(self, frame: Frame, table: lw.FileStoreTable, on: str | Sequence[str]) -> MergeBuilder:
        return lwr.merge(frame, table, on)

    def transform(
        self, source: lw.FileStoreTable, above: int, target: lw.FileStoreTable, **arguments: Argument
    ) -> TransformResult:
        def keep(rows: pa.Table) -> pa.Table:
            return rows.filter(pc.field("n") > above)

        return lwr.transform(source, lambda rows: rows.map_batches(keep, batch_format="pyarrow"), target, **arguments)

    def forbid_jobs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dataset_write, "run_write", lambda *_: pytest.fail("a task was started"))


pytestmark = pytest.mark.usefixtures("ray_session")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Ray:
    """Let several writers share even a few rows."""
    monkeypatch.setattr(dataset_write, "_ALONE_BYTES", 0)
    monkeypatch.setattr(dataset_write, "_SEND_BYTES", 1)
    monkeypatch.setattr(dataset_write, "_TASK_BYTES", 1)
    return Ray()


class TestRay(EngineContract):
    """The Ray engine."""

    # Each way of rows to their tasks at every push; how rows of a key are merged does not depend on the engine.
    @pytest.mark.parametrize("name", some(list(KINDS), 1, 6, 9, 12))
    def test_a_table_of_every_kind_holds_the_rows(self, engine: EngineUnderTest, tmp_path: Path, name: str) -> None:
        super().test_a_table_of_every_kind_holds_the_rows(engine, tmp_path, name)

    @pytest.mark.parametrize("kind", some(["append, partitions", "append, tracked", "keys", "dynamic"], 1, 2))
    def test_rows_are_deleted_updated_and_merged(self, engine: EngineUnderTest, tmp_path: Path, kind: str) -> None:
        super().test_rows_are_deleted_updated_and_merged(engine, tmp_path, kind)

    @pytest.mark.nightly  # a dozen runs, of more than a second each; the planning is the same for every engine
    def test_a_chain_of_jobs_follows_its_source(self, engine: EngineUnderTest, tmp_path: Path) -> None:
        super().test_a_chain_of_jobs_follows_its_source(engine, tmp_path)
