"""A table of data at hand, in one call: it holds the rows, or it does not exist."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lakewright as lw

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


@pytest.mark.parametrize("data", list(_forms()), ids=lambda data: type(data).__name__)
def test_data_of_any_form_becomes_a_table(tmp_path: Path, data: lw.ArrowData) -> None:
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
    with pytest.raises(lw.TableAlreadyExistException, match=r"d\.t exists already"):
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
    [("rows.parquet", "lakewright.ingest"), ([], "no columns"), (3, "cannot write a int"), ({"a": object()}, "dict")],
)
def test_other_data_is_refused_and_nothing_is_created(tmp_path: Path, data: object, words: str) -> None:
    with pytest.raises(lw.InvalidInputError, match=words):
        lw.create_table_from(data, "d.t", catalog=tmp_path)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
