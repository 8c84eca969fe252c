"""Data of other libraries that has one meaning: categories, lazy frames and dicts of columns."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.errors import ColumnNotExistException
from lakewright.write.input_data import memory_bytes


@pytest.fixture
def table(tmp_path: Path) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": tmp_path})
    catalog.create_database("d")
    catalog.create_table("d.t", pa.schema({"c": pa.string(), "l": pa.list_(pa.string())}))
    return catalog.get_table("d.t")


@pytest.mark.parametrize(
    "data",
    [
        pl.DataFrame({"c": pl.Series(["a", None, "b"], dtype=pl.Categorical)}),
        pl.DataFrame({"c": pl.Series(["a", None, "b"], dtype=pl.Enum(["b", "a"]))}),
        pl.DataFrame({"c": ["a", None, "b"]}).lazy(),
        pl.DataFrame({"c": pl.Series(["a", None, "b"], dtype=pl.Categorical)}).lazy(),
        pd.DataFrame({"c": pd.Categorical(["a", None, "b"])}),
        pd.DataFrame({"c": pd.array(["a", None, "b"], dtype="string")}),
        {"c": ["a", None, "b"]},
    ],
    ids=lambda data: type(data).__name__,
)
def test_large_viewed_and_encoded_text_is_text(table: lw.FileStoreTable, data: object) -> None:
    assert lw.write_table(data, table).rows == 3  # type: ignore[arg-type]
    assert lw.read_table(table, columns="c")["c"].to_pylist() == ["a", None, "b"]


def test_categories_inside_lists(table: lw.FileStoreTable) -> None:
    inside = pl.Series([["a", "b"], None, []], dtype=pl.List(pl.Categorical))
    lw.write_table(pl.DataFrame({"l": inside}), table)
    assert lw.read_table(table)["l"].to_pylist() == [["a", "b"], None, []]


def test_text_as_views_in_many_pieces(table: lw.FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakewright.write.table_writer.STAGE_BYTES", 1_000)
    text = [f"text number {n}, which is too long to be in the view itself" for n in range(100)]
    lw.write_table(pa.table({"c": pa.array(text, pa.string_view())}), table)
    assert lw.read_table(table, columns="c")["c"].to_pylist() == text


class _Uncounted:
    """A table of views as Arrow 18 to 23 have it."""

    def __init__(self, size: int) -> None:
        self._size = size

    @property
    def nbytes(self) -> int:
        raise pa.ArrowTypeError("Extracting byte ranges not supported for type string_view")

    def get_total_buffer_size(self) -> int:
        return self._size


def test_where_arrow_cannot_count_the_bytes_of_views_those_of_their_buffers_count() -> None:
    rows = pa.table({"c": ["abc", "d"]})
    assert memory_bytes(rows) == rows.nbytes > 0
    assert memory_bytes(_Uncounted(77)) == 77


def test_what_has_no_meaning_names_the_column(table: lw.FileStoreTable) -> None:
    for wrong in ({"c": ["a"], "l": []}, {"c": object()}, pd.DataFrame({"c": ["a", 1, object()]})):
        with pytest.raises(lw.InvalidInputError, match=r"d\.t.*(c|equal length)"):
            lw.write_table(wrong, table)
    assert table.snapshot() is None


def test_wrong_filters_say_what_to_write(table: lw.FileStoreTable) -> None:
    with pytest.raises(lw.InvalidInputError, match="text stands in single quotes: 'a'"):
        lw.read_table(table, filter='c = "a"')
    with pytest.raises(lw.InvalidInputError, match="the function 'lower' cannot be used"):
        lw.read_table(table, filter="lower(c) = 'a'")
    with pytest.raises(ColumnNotExistException, match="did you mean 'c'"):
        lw.read_table(table, filter="C = 'a'")
