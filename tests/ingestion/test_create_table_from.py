"""A table of data at hand, in one call: it holds the rows, or it does not exist."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.errors import TableAlreadyExistException
from lakewright.write.input_data import ArrowData

ROWS = {"id": [1, 2, 3], "day": ["a", "a", "b"], "n": [1.5, None, 2.5]}
TABLE = pa.table(ROWS)


def _forms() -> Iterator[object]:
    yield TABLE
    yield ROWS
    yield TABLE.to_batches()[0]
    yield [TABLE.slice(0, 1), TABLE.slice(1)]
    yield pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches())
    yield pl.DataFrame(TABLE)
    yield pd.DataFrame(ROWS)
    yield pl.LazyFrame(ROWS)
    yield TABLE.to_pylist()
    yield [{"day": "a", "id": 1, "n": 1.5}, {"id": 2, "day": "a"}, {"id": 3, "day": "b", "n": 2.5}]
    yield [{"id": [1, 2], "day": ["a", "a"], "n": [1.5, None]}, {"id": [3], "day": ["b"], "n": [2.5]}]
    yield duckdb.sql("SELECT * FROM (VALUES (1, 'a', 1.5::DOUBLE), (2, 'a', NULL), (3, 'b', 2.5)) AS t(id, day, n)")


@pytest.mark.parametrize("data", list(_forms()), ids=lambda data: type(data).__name__)
def test_data_of_any_form_becomes_a_table(tmp_path: Path, data: ArrowData) -> None:
    made = lw.create_table_from(data, "d.t", catalog=tmp_path, primary_keys=["day", "id"], partition_keys="day")
    assert (made.name, made.primary_keys, made.partition_keys) == ("d.t", ["day", "id"], ["day"])
    rows = lw.read_table(made).sort_by("id").to_pydict()
    assert rows["id"] == [1, 2, 3]
    assert rows["n"][2] == 2.5
    snapshot = made.snapshot()
    assert snapshot is not None
    assert snapshot.id == 1


def test_a_table_of_a_catalog_its_options_or_a_path(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    made = lw.create_table_from(ROWS, "d.one", catalog=catalog, options={"bucket": 2, "bucket-key": "id"}, comment="c")
    assert (made.options.bucket(), made.comment()) == (2, "c")
    lw.create_table_from(ROWS, "d.two", catalog={"warehouse": str(tmp_path)})
    lw.create_table_from(ROWS, tmp_path / "e.db" / "three")
    assert (catalog.list_tables("d"), catalog.list_tables("e")) == (["one", "two"], ["three"])


def test_data_without_rows_makes_a_table_without_a_snapshot(tmp_path: Path) -> None:
    made = lw.create_table_from(TABLE.slice(0, 0), "d.t", catalog=tmp_path)
    assert made.field_names == ["id", "day", "n"]
    assert made.snapshot() is None


def test_a_table_that_exists_stays_as_it_is(tmp_path: Path) -> None:
    made = lw.create_table_from(ROWS, "d.t", catalog=tmp_path)
    with pytest.raises(TableAlreadyExistException, match=r"d\.t exists already"):
        lw.create_table_from(ROWS, "d.t", catalog=tmp_path)
    assert lw.read_table(made).num_rows == 3


def _broken() -> Iterator[pa.RecordBatch]:
    yield TABLE.to_batches()[0]
    raise OSError("the source went away")


@pytest.mark.parametrize("database", [True, False])
def test_a_failure_leaves_no_table_and_no_file(tmp_path: Path, database: bool) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    if database:
        catalog.create_database("d")
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, _broken())
    with pytest.raises(OSError, match="the source went away"):
        lw.create_table_from(reader, "d.t", catalog=catalog)
    assert catalog.list_databases() == (["d"] if database else [])
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert lw.read_table(lw.create_table_from(ROWS, "d.t", catalog=catalog)).num_rows == 3


def test_rows_that_do_not_fit_leave_no_table(tmp_path: Path) -> None:
    with pytest.raises(lw.InvalidInputError, match="day"):
        lw.create_table_from(
            {"id": [1, 2], "day": ["a", None]}, "d.t", catalog=tmp_path, primary_keys=["day"], options={"bucket": 1}
        )
    assert lw.CatalogFactory.create({"warehouse": str(tmp_path)}).list_databases() == []


def test_what_others_wrote_meanwhile_is_kept(tmp_path: Path) -> None:
    def interrupted() -> Iterator[pa.RecordBatch]:
        lw.write_table(TABLE, tmp_path / "d.db" / "t")
        raise OSError("stopped")
        yield

    reader = pa.RecordBatchReader.from_batches(TABLE.schema, interrupted())
    with pytest.raises(OSError, match="stopped"):
        lw.create_table_from(reader, "d.t", catalog=tmp_path)
    assert lw.read_table(tmp_path / "d.db" / "t").num_rows == 3


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("rows.parquet", "lakewright.ingest"),
        ([], "no columns"),
        ({}, "no columns"),
        (3, "cannot write a value of the type int"),
        ({"a": object()}, "dict"),
        ({"a": [1, 2], "b": [1]}, "length"),
        ([{"a": 1}, {"a": "x"}], "x"),
        (pl.Series("a", [1]), "a series or an array has no columns"),
        (pd.Series([1], name="a"), "a series or an array has no columns"),
        ({"a": [1], "b": [None]}, r"table d\.t: the column 'b'"),
        (pl.DataFrame({"a": pl.Series([object()], dtype=pl.Object)}), "'a' holds Python objects"),
        (pl.LazyFrame({"a": pl.Series([object()], dtype=pl.Object)}), "'a' holds Python objects"),
    ],
)
def test_other_data_is_refused_and_nothing_is_created(tmp_path: Path, data: object, words: str) -> None:
    with pytest.raises(lw.InvalidInputError, match=words):
        lw.create_table_from(data, "d.t", catalog=tmp_path)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_field_named_as_a_type_of_polars_is_no_object(tmp_path: Path) -> None:
    rows = pl.DataFrame({"a": [{"Object": 1}]})
    assert lw.read_table(lw.create_table_from(rows, "d.t", catalog=tmp_path)).to_pylist() == [{"a": {"Object": 1}}]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([[("a", 1)], None, [("a text of more than twelve bytes", 2), ("c", None)]], pa.map_(pa.string(), pa.int64())),
        ([None, [(b"k", b"v")], []], pa.map_(pa.binary(), pa.binary())),
        ([None, [(1, ["b", None])]], pa.map_(pa.int64(), pa.list_(pa.string()))),
        ([{"m": [("a", "b")]}, None], pa.struct({"m": pa.map_(pa.string(), pa.string())})),
    ],
)
def test_maps_of_polars_with_texts_and_nulls_are_written(
    tmp_path: Path, values: list[object], dtype: pa.DataType
) -> None:
    """Texts of polars are views, which Arrow cannot take from maps."""
    frame = pl.DataFrame(pl.from_arrow(pa.table({"v": pa.array(values, dtype)})))
    for number, rows in enumerate((frame, frame.slice(1))):
        made = lw.create_table_from(rows, f"d.t{number}", catalog=tmp_path)
        assert lw.read_table(made)["v"].to_pylist() == values[number:]


_UUID = uuid.UUID(int=5)
_WIDENED: dict[str, tuple[ArrowData, str, object]] = {
    "unsigned": (pa.table({"a": pa.array([2**32 - 1], pa.uint32())}), "BIGINT", 2**32 - 1),
    "unsigned of 64 bits": (pl.DataFrame({"a": pl.Series([2**64 - 1], dtype=pl.UInt64)}), "DECIMAL(20, 0)", 2**64 - 1),
    "half floats": (pd.DataFrame({"a": np.array([1.5], "float16")}), "FLOAT", 1.5),
    "large binary": (pa.table({"a": pa.array([b"x"], pa.large_binary())}), "BYTES", b"x"),
    "uuids": (pa.table({"a": pa.array([_UUID.bytes], pa.uuid())}), "BINARY(16)", _UUID.bytes),
    "large integers in pandas": (pd.DataFrame({"a": [-(2**70)], "b": "x"}), "DECIMAL(38, 0)", -(2**70)),
    "large integers in a dict": ({"a": [2**70]}, "DECIMAL(38, 0)", 2**70),
    "large integers in rows": ([{"a": 2**70}], "DECIMAL(38, 0)", 2**70),
    "large integers in polars": (pl.DataFrame({"a": [2**70]}, schema={"a": pl.Int128}), "DECIMAL(38, 0)", 2**70),
}


@pytest.mark.parametrize("name", _WIDENED)
def test_types_that_the_format_lacks_are_widened_without_loss(tmp_path: Path, name: str) -> None:
    data, dtype, value = _WIDENED[name]
    made = lw.create_table_from(data, "d.t", catalog=tmp_path)
    assert str(made.fields[0].type) == dtype
    assert lw.read_table(made)["a"].to_pylist() == [value]


@pytest.mark.parametrize(
    "data",
    [
        {"a": [2**200]},
        {"a": [2**70, "text"]},
        pd.DataFrame({"a": [2**200]}),
        pl.DataFrame({"a": [2**126 + 2**125 + 2**124]}, schema={"a": pl.Int128}),
    ],
    ids=["digits", "mixed", "pandas", "polars"],
)
def test_integers_that_no_decimal_holds_are_refused_by_column(tmp_path: Path, data: ArrowData) -> None:
    with pytest.raises(lw.InvalidInputError, match=r"'a'.*(text|String)"):
        lw.create_table_from(data, "d.t", catalog=tmp_path)
    assert not (tmp_path / "d.db").exists()


def test_a_merge_of_columns_leaves_a_column_of_nulls_as_it_is(tmp_path: Path) -> None:
    made = lw.create_table_from({"id": [1], "name": ["a"]}, "d.t", catalog=tmp_path)
    lw.write_table(pd.DataFrame({"id": [2], "name": [None]}), made, schema_mode="merge")
    assert lw.read_table(made)["name"].to_pylist() == ["a", None]
