"""VECTOR columns: every way in and out, and changes of rows against a dict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakewright as lw
from lakewright.errors import InvalidInputError
from support.effort import examples

TRACKED = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"}
LAYOUTS: dict[str, dict[str, str]] = {
    "parquet": {},
    "avro": {"file.format": "avro"},
    "tracked": TRACKED,
    "deduplicate": {"bucket": "1"},
    "deduplicate, avro": {"bucket": "1", "file.format": "avro", "changelog-producer": "lookup"},
    "deletion vectors": {"bucket": "2", "deletion-vectors.enabled": "true"},
    "partial-update": {"bucket": "1", "merge-engine": "partial-update"},
    "aggregation": {"bucket": "1", "merge-engine": "aggregation"},
}
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("v", pa.list_(pa.field("element", pa.float32()), 3)),
        pa.field("r", pa.struct([("w", pa.list_(pa.field("element", pa.int8()), 2)), ("n", pa.int32())])),
    ]
)
VECTORS = st.none() | st.lists(st.floats(width=32, allow_nan=False), min_size=3, max_size=3)
ROWS = st.none() | st.fixed_dictionaries(
    {"w": st.none() | st.lists(st.integers(-128, 127), min_size=2, max_size=2), "n": st.none() | st.just(7)}
)
IDS = st.integers(0, 12)
CHANGES = st.lists(
    st.tuples(st.just("upsert"), st.dictionaries(IDS, st.tuples(VECTORS, ROWS), min_size=1, max_size=8))
    | st.tuples(st.just("update"), st.tuples(IDS, VECTORS))
    | st.tuples(st.just("delete"), IDS)
    | st.tuples(st.sampled_from(["compact", "evolve"]), st.none()),
    max_size=6,
)


@pytest.fixture
def catalog(tmp_path: Any) -> lw.Catalog:  # noqa: ANN401
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d", ignore_if_exists=True)
    return catalog


def rows_of(model: dict[int, tuple[Any, Any]]) -> pa.Table:
    return pa.Table.from_pylist([{"id": i, "v": v, "r": r} for i, (v, r) in model.items()], schema=COLUMNS)


class Model:
    """A table and the rows that it should have."""

    def __init__(self, catalog: lw.Catalog, options: dict[str, str]) -> None:
        keys = ["id"] if "bucket" in options else []
        schema = lw.Schema.from_pyarrow_schema(COLUMNS, primary_keys=keys, options=options)
        catalog.drop_table("d.t", ignore_if_not_exists=True)
        catalog.create_table("d.t", schema, ignore_if_exists=False)
        self.catalog, self.rows, self.column = catalog, dict[int, tuple[Any, Any]](), "v"
        self.keeps_old = options.get("merge-engine", "deduplicate") != "deduplicate"

    @property
    def table(self) -> lw.FileStoreTable:
        return self.catalog.get_table("d.t")

    def upsert(self, new: dict[int, tuple[Any, Any]]) -> None:
        self.table.upsert(rows_of(new).rename_columns(["id", self.column, "r"]), keys=["id"])
        for number, (vector, row) in new.items():
            old = self.rows.get(number, (None, None)) if self.keeps_old else (None, None)
            self.rows[number] = old[0] if vector is None else vector, old[1] if row is None else row

    def update(self, change: tuple[int, Any]) -> None:
        number, vector = change
        if self.keeps_old:
            return  # such tables take no updates by a condition
        self.table.update({self.column: vector}, f"id = {number}")
        if number in self.rows:
            self.rows[number] = vector, self.rows[number][1]

    def delete(self, number: int) -> None:
        if not self.keeps_old:
            self.table.delete(f"id = {number}")
            self.rows.pop(number, None)

    def compact(self, _: None) -> None:
        self.table.compact(full=True)

    def evolve(self, _: None) -> None:
        renamed = "u" if self.column == "v" else "v"
        self.catalog.alter_table("d.t", [lw.SchemaChange.rename_column(self.column, renamed)])
        self.column = renamed

    def check(self) -> None:
        found = lw.read_table(self.table).sort_by("id")
        assert found.schema.field(self.column).type == COLUMNS.field("v").type
        wanted = rows_of(dict(sorted(self.rows.items()))).rename_columns(found.column_names)
        assert repr(found.to_pylist()) == repr(wanted.to_pylist())  # 0.0 is not -0.0
        assert self.table.verify(full=True).is_sound


@pytest.mark.parametrize("layout", LAYOUTS)
def test_changes_of_vectors_agree_with_a_dict(catalog: lw.Catalog, layout: str) -> None:
    @settings(max_examples=examples(8))
    @given(CHANGES)
    def check(changes: list[tuple[str, Any]]) -> None:
        model = Model(catalog, LAYOUTS[layout])
        model.upsert(
            {1: ([0.0, -0.0, 1.5], {"w": [1, -1], "n": None}), 2: (None, None), 3: ([1.0] * 3, {"w": None, "n": 7})}
        )
        for name, change in changes:
            step: Callable[[Any], None] = getattr(model, name)
            step(change)
        model.check()

    check()


FORMS: dict[str, Callable[[], Any]] = {
    "vectors": lambda: pa.array([[1, 2, 3], None], pa.list_(pa.float32(), 3)),
    "lists": lambda: pa.array([[1.0, 2, 3], None]),
    "integers": lambda: pa.array([[1, 2, 3], None], pa.large_list(pa.int8())),
    "a slice": lambda: pa.array([[9, 9, 9], [1, 2, 3], None], pa.list_(pa.float32(), 3)).slice(1),
    "null elements under a null vector": lambda: pa.FixedSizeListArray.from_arrays(
        pa.array([1, 2, 3, None, None, None], pa.float32()), 3, mask=pa.array([False, True])
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_lists_of_the_right_length_become_vectors(catalog: lw.Catalog, form: str) -> None:
    model = Model(catalog, {})
    lw.write_table(pa.table({"id": [1, 2], "v": FORMS[form]()}), model.table)
    model.rows = {1: ([1.0, 2.0, 3.0], None), 2: (None, None)}
    model.check()


def test_two_dimensional_arrays_become_vectors(catalog: lw.Catalog) -> None:
    model = Model(catalog, {})
    vectors = np.arange(6, dtype="f4").reshape(2, 3)
    lw.write_table({"id": [1, 2], "v": vectors}, model.table)
    read = lw.read_table(model.table)["v"].combine_chunks()
    assert np.array_equal(read.flatten().to_numpy(zero_copy_only=True).reshape(-1, 3), vectors)
    only_nulls = pa.table({"id": [3], "v": pa.nulls(1, pa.list_(pa.float32()))})
    lw.write_table(only_nulls, model.table)
    assert lw.read_table(model.table, filter="v IS NULL")["id"].to_pylist() == [3]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([1.0, 2.0], "a list of 2 elements where a vector has 3"),
        ([], "a list of 0 elements"),
        ([1.0, None, 2.0], "a null element"),
        ([0.1, 0.2, 0.3], "no exact float value"),
    ],
)
def test_other_lists_are_refused_with_their_row(catalog: lw.Catalog, value: list[Any], reason: str) -> None:
    model = Model(catalog, {})
    rows = pa.table({"id": [1, 2, 3], "v": pa.array([[1.0, 2, 3], None, value])})
    with pytest.raises(InvalidInputError, match=rf"'v' \(VECTOR<FLOAT, 3>\).* of row 2: .*{reason}"):
        lw.write_table(rows, model.table)
    assert model.table.snapshot() is None


@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_a_vector_that_is_not_null_stands_in_a_row_that_is(catalog: lw.Catalog, file_format: str) -> None:
    inside = pa.struct([pa.field("w", pa.list_(pa.field("element", pa.int16()), 2), nullable=False)])
    columns = pa.schema([("id", pa.int64()), ("r", inside)])
    schema = lw.Schema.from_pyarrow_schema(columns, options={"file.format": file_format})
    catalog.create_table("d.t", schema)
    rows = pa.Table.from_pylist([{"id": 0}, {"id": 1, "r": {"w": [1, 2]}}, {"id": 2, "r": None}], columns)
    table = catalog.get_table("d.t")
    lw.write_table(rows.slice(1), table)
    assert lw.read_table(table).to_pylist() == rows.slice(1).to_pylist()
    lw.write_table(rows.slice(0, 1), table)
    table.compact(full=True)
    assert lw.read_table(table).sort_by("id").to_pylist() == rows.to_pylist()
    missing = pa.table({"id": [3], "r": pa.array([{"w": None}], pa.struct([("w", pa.list_(pa.int16(), 2))]))})
    with pytest.raises(InvalidInputError, match=r"'r'.*NOT NULL"):
        lw.write_table(missing, table)


def test_files_record_no_statistics_of_vectors(catalog: lw.Catalog) -> None:
    table = Model(catalog, {}).table
    lw.write_table(rows_of({1: ([1.0] * 3, None), 2: (None, None)}), table)
    snapshot = table.snapshot()
    assert snapshot is not None
    (entry,) = table.store.manifests.live(snapshot)
    assert entry.file.value_stats_cols == ("id", "r")
