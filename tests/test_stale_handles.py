"""A handle that is older than the table does all that a new one would: others add columns, widen types, set options."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.spec.schema import SchemaChange
from lakewright.storage.local_storage import LocalStorage

COLUMNS = pa.schema({"id": pa.int64(), "n": pa.int32()})
ROWS = pa.table({"id": [1, 2], "n": [3, 4]}, schema=COLUMNS)
WIDER = ROWS.append_column("x", pa.array([5, 6]))
ADD_X = SchemaChange.add_column("x", lw.AtomicType("BIGINT"))


class Lake:
    """A catalog with the table d.t, and a handle from before the table was changed."""

    def __init__(self, root: Path, keys: tuple[str, ...], options: dict[str, str]) -> None:
        self.catalog = lw.CatalogFactory.create({"warehouse": str(root)})
        self.catalog.create_database("d")
        self.catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, (), keys, options))
        self.old = self.catalog.get_table("d.t")
        lw.write_table(ROWS, self.old)

    def alter(self, *changes: SchemaChange) -> None:
        self.catalog.alter_table("d.t", list(changes))

    def table(self) -> lw.FileStoreTable:
        return self.catalog.get_table("d.t")

    def rows(self) -> list[dict[str, object]]:
        return sorted(lw.read_table(self.table()).to_pylist(), key=repr)


@pytest.fixture(params=["append", "keyed", "evolving"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    tracked = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    options = {"append": {}, "keyed": {"bucket": "1"}, "evolving": tracked}[request.param]
    return Lake(tmp_path, ("id",) if request.param == "keyed" else (), options)


def _builder(table: lw.FileStoreTable) -> object:
    builder = table.new_batch_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        return commit.commit(write.write_arrow(WIDER).prepare_commit())


def _stream(table: lw.FileStoreTable) -> object:
    builder = table.new_stream_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        return commit.commit(write.write_arrow(WIDER).prepare_commit(1), 1)


def _follow(table: lw.FileStoreTable) -> object:
    builder = table.new_stream_read_builder().with_projection(["x"])
    plan = builder.new_streaming_scan().plan()
    assert plan is not None
    return builder.new_read().to_arrow(plan.splits())


VERBS: dict[str, Callable[[lw.FileStoreTable], object]] = {
    "write": lambda table: lw.write_table(WIDER, table),
    "write and merge the schema": lambda table: lw.write_table(WIDER, table, schema_mode="merge"),
    "overwrite": lambda table: lw.write_table(WIDER, table, mode="overwrite"),
    "builder": _builder,
    "stream": _stream,
    "update": lambda table: table.update({"x": 9}, "id = 1"),
    "update where": lambda table: table.update({"n": 9}, "x IS NULL"),
    "delete": lambda table: table.delete("x IS NULL"),
    "upsert": lambda table: table.upsert(WIDER, ["id"]),
    "merge": lambda table: table.merge(WIDER, on="id").when_matched_update({"x": lw.source_col("x")}).execute(),
    "compact": lambda table: table.compact(full=True),
    "read": lambda table: lw.read_table(table, columns=["x"]),
    "filter": lambda table: lw.read_table(table, filter="x IS NULL"),
    "explain": lambda table: table.new_read_builder().with_filter("x = 1").explain(),
    "follow": _follow,
}


@pytest.mark.parametrize("verb", VERBS)
def test_an_old_handle_knows_a_new_column(lake: Lake, verb: str) -> None:
    if verb == "delete" and "data-evolution.enabled" in lake.old.schema.options:
        pytest.skip("data evolution deletes rows by deletion vectors only")
    lake.alter(ADD_X)
    lw.write_table(WIDER.slice(1), lake.table())
    expected, old = VERBS[verb](lake.table()), lake.old
    assert type(VERBS[verb](old)) is type(expected)
    assert old.field_names == ["id", "n"]  # a handle is a value
    assert old.refreshed().field_names == ["id", "n", "x"]


def test_rows_of_an_old_handle_have_the_new_column(lake: Lake) -> None:
    lake.alter(ADD_X)
    lw.write_table(WIDER, lake.old, mode="overwrite")
    assert lw.read_table(lake.old).to_pylist() == WIDER.to_pylist()


def test_merging_the_schema_twice_with_one_handle(lake: Lake) -> None:
    for _ in range(3):
        lw.write_table(WIDER, lake.old, mode="overwrite", schema_mode="merge")
    assert lake.table().schema.id == 1
    assert lake.rows() == WIDER.to_pylist()


def test_an_old_handle_takes_values_of_a_widened_type(lake: Lake) -> None:
    lake.alter(SchemaChange.update_column_type("n", lw.AtomicType("BIGINT")))
    big = pa.table({"id": [1], "n": [1 << 40]})
    lw.write_table(big, lake.old, mode="overwrite")
    lake.old.update({"n": 1 << 41})
    assert lake.rows() == [{"id": 1, "n": 1 << 41}]


def test_an_old_handle_knows_new_options_and_keeps_its_own(lake: Lake) -> None:
    own = lake.old.copy({"snapshot.num-retained.min": "7", "scan.mode": "latest-full"})
    lake.alter(SchemaChange.set_option("snapshot.num-retained.max", "9"), ADD_X)
    fresh = own.refreshed()
    assert fresh.schema.options["snapshot.num-retained.max"] == "9"
    assert fresh.schema.options["snapshot.num-retained.min"] == "7"
    assert fresh.field_names == ["id", "n", "x"]
    lake.alter(SchemaChange.set_option("snapshot.num-retained.max", "8"))
    assert fresh.refreshed().schema.options["snapshot.num-retained.max"] == "8"


def test_an_old_handle_of_a_rescaled_table(tmp_path: Path) -> None:
    lake = Lake(tmp_path, ("id",), {"bucket": "1"})
    lake.table().rescale(4)
    lw.write_table(ROWS, lake.old)
    lake.old.compact(full=True)
    assert lake.rows() == ROWS.to_pylist()
    assert lake.old.rescale(2).rows == 2
    lw.write_table(ROWS, lake.old)
    assert lake.rows() == ROWS.to_pylist()


def test_a_dropped_column_is_unknown_to_an_old_handle_too(lake: Lake) -> None:
    lake.alter(SchemaChange.drop_column("n"))
    with pytest.raises(lw.InvalidInputError, match="'n'"):
        lw.write_table(ROWS, lake.old)
    assert lw.read_table(lake.old).column_names == ["id"]


class Rival(LocalStorage):
    """A storage on which somebody else changes the schema right before this one does."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__()
        object.__setattr__(self, "acts", [act])

    def create(self, path: str, data: bytes) -> bool:
        acts: list[Callable[[], object]] = self.acts  # type: ignore[attr-defined]
        if "/schema/" in path and acts:
            acts.pop()()
        return super().create(path, data)


def _racing(lake: Lake, theirs: pa.Table, ours: pa.Table) -> None:
    """Merge the schema with our rows, while another writer does with theirs in the same moment."""
    other = lake.table()
    storage = Rival(lambda: lw.write_table(theirs, other, schema_mode="merge"))
    mine = replace(lake.old, store=replace(lake.old.store, storage=storage))
    lw.write_table(ours, mine, schema_mode="merge")


def test_two_writers_add_the_same_column(lake: Lake) -> None:
    _racing(lake, WIDER.slice(0, 1), WIDER.slice(1))
    assert lake.table().field_names == ["id", "n", "x"]
    assert [row["x"] for row in lake.rows() if row["x"] is not None] == [5, 6]


def test_two_writers_add_different_columns(lake: Lake) -> None:
    _racing(lake, WIDER.slice(0, 1).rename_columns(["id", "n", "y"]), WIDER.slice(1))
    assert lake.table().field_names == ["id", "n", "y", "x"]


@pytest.mark.parametrize("narrow_first", [True, False])
def test_two_writers_add_a_column_in_two_widths(lake: Lake, narrow_first: bool) -> None:
    narrow = ROWS.append_column("x", pa.array([5, 6], pa.int16())).slice(0, 1)
    wide = WIDER.slice(1)
    _racing(lake, *((narrow, wide) if narrow_first else (wide, narrow)))
    assert str(lake.table().fields[2].type) == "BIGINT"
    assert sorted(row["x"] for row in lake.rows() if row["x"] is not None) == [5, 6]  # type: ignore[type-var]


def test_two_writers_add_a_column_of_types_that_do_not_fit(lake: Lake) -> None:
    text = ROWS.append_column("x", pa.array(["a", "b"]))
    with pytest.raises(lw.InvalidInputError, match=r"'x'.*BIGINT.*string"):
        _racing(lake, WIDER, text)


@pytest.mark.processes
@pytest.mark.nightly  # the tests above stop a writer in the moment that matters
def test_two_processes_merge_the_schema(tmp_path: Path) -> None:
    lake = Lake(tmp_path, ("id",), {"bucket": "1"})
    script = f"""
import pyarrow as pa, lakewright as lw
catalog = lw.CatalogFactory.create({{"warehouse": {lake.catalog.warehouse!r}}})
table = catalog.get_table("d.t")
input()
rows = pa.table({{"id": [1, 2], "n": pa.array([3, 4], pa.int32()), "x": [5, 6]}})
for _ in range(2):
    lw.write_table(rows, table, schema_mode="merge")
"""
    command = [sys.executable, "-c", script]
    workers = [subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    outcomes: list[bytes] = []
    threads = [threading.Thread(target=lambda w=w: outcomes.append(w.communicate(b"\n")[1])) for w in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [worker.returncode for worker in workers] == [0, 0], outcomes
    assert lake.table().schema.id == 1
