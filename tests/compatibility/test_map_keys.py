"""Projections of keys of a MAP, and columns whose Arrow types pypaimon reads in another unit."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright.pypaimon as face
from lakewright.errors import LakewrightWarning

COLUMNS = pa.schema(
    {"id": pa.int64(), "tags": pa.map_(pa.string(), pa.int32()), "tags_a": pa.string(), "at": pa.timestamp("s")}
)
MOMENT = dt.datetime(2024, 1, 2, 3, 4, 5)  # noqa: DTZ001 - a local time
ROWS = [
    {"id": 1, "tags": [("a", 1), ("b.c", 2)], "tags_a": "x", "at": MOMENT},
    {"id": 2, "tags": None, "tags_a": None, "at": None},
]


@pytest.fixture
def table(tmp_path: Path) -> face.FileStoreTable:
    catalog = face.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", face.Schema.from_pyarrow_schema(COLUMNS))
    made = catalog.get_table("d.t")
    builder = made.new_batch_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(pa.Table.from_pylist(ROWS, schema=COLUMNS))
        commit.commit(write.prepare_commit())
    return made


def test_keys_of_a_map_become_columns_with_names_of_their_own(table: face.FileStoreTable) -> None:
    builder = table.new_read_builder().with_projection(["tags['b.c']", "id", 'tags["a"]', "tags['none']"])
    splits = builder.new_scan().plan().splits()
    read = builder.new_read().to_arrow(splits)
    assert read.column_names == ["tags_b_c", "id", "tags_a__0", "tags_none"]
    assert [tuple(row.values()) for row in read.to_pylist()] == [(2, 1, 1, None), (None, 2, None, None)]
    assert builder.new_read().to_arrow_batch_reader(splits).read_all().equals(read)
    assert [tuple(row) for row in builder.new_read().to_iterator(splits)] == [(2, 1, 1, None), (None, 2, None, None)]
    assert [field.name for field in builder.read_type()] == ["tags", "id"]


def test_keys_of_what_is_no_map_are_left_out(table: face.FileStoreTable) -> None:
    with pytest.warns(LakewrightWarning, match=r"id\['a'\]"):
        builder = table.new_read_builder().with_projection(["id['a']", "tags['a']"])
    assert builder.new_read().to_arrow(builder.new_scan().plan().splits()).column_names == ["tags_a__0"]


def test_seconds_are_read_as_seconds(table: face.FileStoreTable) -> None:
    builder = table.new_read_builder().with_projection(["at"])
    splits = builder.new_scan().plan().splits()
    read = builder.new_read().to_arrow(splits)
    assert (read.schema.field("at").type, read["at"].to_pylist()) == (pa.timestamp("s"), [MOMENT, None])
    assert builder.new_read().to_arrow_batch_reader(splits).schema == read.schema
