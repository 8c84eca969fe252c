"""Reading what was written: limits, iterators, damaged and missing files, expired snapshots."""

from __future__ import annotations

import builtins
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewright.errors import (
    ColumnNotExistException,
    CorruptTableError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from lakewright.metadata.table_store import TableStore
from lakewright.read import split_reader as reader_module
from lakewright.read.data_split import Row
from lakewright.read.projection import plan_projection
from lakewright.read.read_builder import ReadBuilder
from lakewright.spec.filter_text import parse_predicate
from lakewright.spec.identifier import Identifier
from lakewright.spec.types import AtomicType, DataField, RowType
from lakewright.table.file_store_table import FileStoreTable
from support.read_tables import append, golden_store, new_table

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.int32()), ("name", pa.string())])
ROWS = pa.table({"id": list(range(10)), "p": [n % 2 for n in range(10)], "name": [f"n{n}" for n in range(10)]}, SCHEMA)


@pytest.fixture
def store(tmp_path: Path) -> TableStore:
    made = new_table(tmp_path, SCHEMA, ["p"])
    append(made, ROWS.slice(0, 6))
    append(made, ROWS.slice(6))
    return made


def _data_file(store: TableStore) -> Path:
    return Path(ReadBuilder(store).new_scan().plan().splits()[0].file_paths[0])


def test_an_empty_table_has_its_schema(tmp_path: Path) -> None:
    store = new_table(tmp_path, SCHEMA)
    builder = ReadBuilder(store)
    plan = builder.new_scan().plan()
    assert (plan.splits(), plan.snapshot_id, plan.row_count) == ([], None, 0)
    assert builder.new_read().to_arrow([]).schema == store.schema.arrow_schema
    assert builder.new_read().to_arrow().num_rows == 0
    assert list(builder.new_read().to_iterator()) == []
    assert pa.table(builder).schema == store.schema.arrow_schema
    assert builder.explain().snapshot_id is None


@pytest.mark.parametrize("limit", [0, 1, 4, 100])
def test_a_limit_holds_before_and_after_a_filter(store: TableStore, limit: int) -> None:
    assert ReadBuilder(store).with_limit(limit).new_read().to_arrow().num_rows == min(limit, 10)
    filtered = ReadBuilder(store).with_filter("id > 2").with_limit(limit).new_read().to_arrow()
    assert filtered.num_rows == min(limit, 7)
    assert min(filtered["id"].to_pylist(), default=9) > 2


def test_a_small_limit_plans_few_splits(tmp_path: Path) -> None:
    store = new_table(tmp_path, SCHEMA, options={"source.split.target-size": "1 b"})
    for n in range(5):
        append(store, ROWS.slice(n, 2))
    assert len(ReadBuilder(store).new_scan().plan().splits()) == 5
    assert len(ReadBuilder(store).with_limit(3).new_scan().plan().splits()) == 2
    assert len(ReadBuilder(store).with_limit(3).with_filter("id > 2").new_scan().plan().splits()) == 3


def test_filters_add_up_and_rows_are_tuples(store: TableStore) -> None:
    builder = ReadBuilder(store).with_filter("id > 2").with_filter(None)
    builder.with_filter(builder.new_predicate_builder().equal("p", 1))
    with builder, builder.new_read() as read:
        rows = sorted(read.to_iterator())
    assert rows == [(n, 1, f"n{n}") for n in (3, 5, 7, 9)]
    assert isinstance(rows[0], Row)
    assert rows[0].get_field(2) == "n3"


def test_reads_travel_to_other_processes(store: TableStore) -> None:
    builder = ReadBuilder(store).with_filter("id > 2").with_projection(["name"])
    read = pickle.loads(pickle.dumps(builder.new_read()))  # noqa: S301
    splits = pickle.loads(pickle.dumps(builder.new_scan().plan().splits()))  # noqa: S301
    assert sorted(read.to_arrow(splits)["name"].to_pylist()) == [f"n{n}" for n in range(3, 10)]


def test_shards_hold_every_row_once(store: TableStore) -> None:
    parts = [ReadBuilder(store).with_shard(n, 3).new_read().to_arrow() for n in range(3)]
    assert sorted(i for part in parts for i in part["id"].to_pylist()) == list(range(10))


def test_unknown_columns_and_wrong_limits_are_refused(store: TableStore) -> None:
    builder = ReadBuilder(store)
    with pytest.raises(ColumnNotExistException, match="did you mean 'name'"):
        builder.with_projection(["nme"])
    with pytest.raises(ColumnNotExistException):
        builder.with_projection(["_ROW_ID"])
    with pytest.raises(InvalidInputError, match="list of names"):
        builder.with_projection(5)  # type: ignore[arg-type]
    assert [field.name for field in ReadBuilder(store).with_projection("name").read_type()] == ["name"]
    with pytest.raises(InvalidInputError, match="limit"):
        builder.with_limit(-1)
    with pytest.raises(InvalidInputError, match="parallelism"):
        builder.new_read().to_arrow(parallelism=0)


def test_partition_values_come_from_the_manifest(store: TableStore) -> None:
    only = ReadBuilder(store).with_projection(["p"]).new_read().to_arrow()
    assert sorted(only["p"].to_pylist()) == [0] * 5 + [1] * 5
    assert only.schema == pa.schema([SCHEMA.field("p")])


def test_a_missing_file_of_a_live_snapshot_is_damage(store: TableStore) -> None:
    splits = ReadBuilder(store).new_scan().plan().splits()
    victim = _data_file(store)
    victim.unlink()
    with pytest.raises(CorruptTableError, match="missing") as caught:
        ReadBuilder(store).new_read().to_arrow(splits)
    assert victim.name in str(caught.value)
    assert caught.value.snapshot_id == 2


def test_a_missing_file_of_an_expired_snapshot_says_so(store: TableStore) -> None:
    plan = ReadBuilder(store).new_scan().plan()
    append(store, ROWS)
    _data_file(store).unlink()
    Path(store.layout.snapshot_file(2)).unlink()
    with pytest.raises(NotFoundError, match="snapshot 2 has expired"):
        ReadBuilder(store).new_read().to_arrow(plan.splits())


@pytest.mark.parametrize("change", ["cut", "longer", "other"])
def test_a_file_that_is_not_what_the_manifest_says(store: TableStore, change: str) -> None:
    victim = _data_file(store)
    data = victim.read_bytes()
    other = next(p for p in victim.parent.iterdir() if p != victim)
    victim.write_bytes({"cut": data[:-20], "longer": data + b"x", "other": other.read_bytes()}[change])
    with pytest.raises(CorruptTableError, match=victim.name):
        ReadBuilder(store).new_read().to_arrow()


def test_the_row_count_is_checked(store: TableStore) -> None:
    split = ReadBuilder(store).new_scan().plan().splits()[0]
    payload: dict[str, Any] = {"files": tuple(_with_rows(f, f.row_count + 1) for f in split.files)}
    from_elsewhere = _replaced(split, payload)
    with pytest.raises(CorruptTableError, match="rows where the manifest says"):
        ReadBuilder(store).new_read().to_arrow([from_elsewhere])


def _with_rows(file: Any, rows: int) -> Any:  # noqa: ANN401
    return _replaced(file, {"row_count": rows})


def _replaced(value: Any, changes: Mapping[str, Any]) -> Any:  # noqa: ANN401
    return value.__class__(**{name: getattr(value, name) for name in value.__dataclass_fields__} | dict(changes))


def test_a_vector_beyond_the_file_is_damage() -> None:
    store = golden_store("dv.append_bitmap32")
    split = ReadBuilder(store).new_scan().plan().splits()[0]
    small = _replaced(split, {"files": tuple(_with_rows(f, 1) for f in split.files)})
    with pytest.raises(CorruptTableError, match="deletes row"):
        ReadBuilder(store).new_read().to_arrow([small])
    found = split.deletion_files[0]
    assert found is not None
    gone = _replaced(found, {"path": found.path + "x"})
    with pytest.raises(CorruptTableError, match="missing"):
        ReadBuilder(store).new_read().to_arrow([_replaced(split, {"deletion_files": (gone, None, None)})])


def test_optional_packages_are_named(store: TableStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__
    read = ReadBuilder(store).new_read()
    assert sorted(read.to_pandas()["id"]) == list(range(10))
    connection = read.to_duckdb(None, "t")
    assert connection.execute("select sum(id) from t").fetchone() == (45,)
    assert real is builtins.__import__
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(UnsupportedError, match=r"lakewright\[duckdb\]"):
        read.to_duckdb(None, "t")


def test_projection_reads_only_what_is_needed() -> None:
    inner = RowType(
        nullable=True,
        fields=[DataField(2, "x", AtomicType("INT", nullable=False)), DataField(3, "y", AtomicType("INT"))],
    )
    fields = [DataField(0, "id", AtomicType("INT")), DataField(1, "r", inner), DataField(4, "r_x", AtomicType("INT"))]
    predicate = parse_predicate("r.y > 1", fields)
    plan = plan_projection(fields, ["r.x"], predicate)
    assert [str(f.type) for f in plan.read_fields] == [str(inner)]
    assert [(f.id, f.name, str(f.type)) for f in plan.fields] == [(2, "r_x", "INT")]
    (only,) = plan_projection(fields, ["r.x"]).read_fields
    assert only.type == RowType(nullable=True, fields=inner.fields[:1])
    assert [f.name for f in plan_projection(fields, {"a": "r.y", "b": "id"}).fields] == ["a", "b"]
    assert [f.name for f in plan_projection(fields, ["id", "id"]).fields] == ["id"]
    with pytest.raises(InvalidInputError, match="two columns"):
        plan_projection(fields, ["r.x", "r_x"])
    batch = pa.RecordBatch.from_pylist([{"r": {"x": 1, "y": 2}}, {"r": None}])
    assert plan.apply(batch).to_pylist() == [{"r_x": 1}, {"r_x": None}]


def test_filters_on_files_with_deleted_rows_and_large_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a file with deleted ones are decoded a few at a time, also where a row group has more of them."""
    monkeypatch.setattr(reader_module, "_FILTERED_ROWS", 16)
    schema = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.string())])
    store = new_table(tmp_path, schema, options={"deletion-vectors.enabled": "true"})
    append(store, pa.table([list(range(100)), list(range(100)), [str(n) for n in range(100)]], schema=schema))
    FileStoreTable(Identifier("db", "t"), store).delete("id = 3")
    (split,) = ReadBuilder(store).new_scan().plan().splits()
    assert split.has_deletions
    for at in (0, 2, 3, 4, 15, 16, 17, 63, 98, 99):
        found = ReadBuilder(store).with_filter(f"id = {at}").new_read().to_arrow()
        assert found.to_pylist() == ([] if at == 3 else [{"id": at, "a": at, "b": str(at)}])
