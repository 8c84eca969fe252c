"""System tables of the face: a class for each, and the texts that pypaimon shows."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright import pypaimon

COLUMNS = pa.schema([("day", pa.string()), pa.field("id", pa.int64(), nullable=False), ("k", pa.string())])


@pytest.fixture
def catalog(tmp_path: Path) -> pypaimon.Catalog:
    made = pypaimon.CatalogFactory.create({"warehouse": str(tmp_path)})
    made.create_database("d", True)  # noqa: FBT003 - pypaimon's signature
    schema = pypaimon.Schema.from_pyarrow_schema(
        COLUMNS, partition_keys=["day"], primary_keys=["day", "id", "k"], options={"bucket": "2"}
    )
    made.create_table("d.t", schema)
    rows = pa.table({"day": ["a", "a", "b"], "id": [1, 2, 3], "k": ["x", "y", "z"]}, schema=COLUMNS)
    lw.write_table(rows, made.get_table("d.t"))
    return made


def _rows(table: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - used as scripts use it
    builder = table.new_read_builder()
    rows: list[dict[str, Any]] = builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist()
    return rows


def test_each_system_table_is_of_its_class(catalog: pypaimon.Catalog) -> None:
    for name, kind in pypaimon.SYSTEM_TABLE_LOADERS.items():
        table: Any = catalog.get_table(f"d.t${name}")
        assert type(table) is kind
        assert table.system_table_name() == name
        assert table.base_table.table_path == table.table_path
        assert table.identifier.get_system_table_name() == name
        assert table.file_io.exists(table.table_path)
        assert _rows(pickle.loads(pickle.dumps(table))) == _rows(table)  # noqa: S301 - our own bytes
        with pytest.raises(NotImplementedError, match="System table is read-only"):
            table.new_batch_write_builder()
    assert pypaimon.load("nothing", catalog.get_table("d.t")) is None
    with pytest.raises(pypaimon.TableNotExistException):
        catalog.get_table("d.t$nothing")


def test_keys_are_json_and_sources_numbers(catalog: pypaimon.Catalog) -> None:
    files = _rows(catalog.get_table("d.t$files"))
    assert sorted(json.loads(row["min_key"]) for row in files if row["partition"] == "day=b") == [[3, "z"]]
    assert {row["file_source"] for row in files} == {"0"}
    ranges = _rows(catalog.get_table("d.t$file_key_ranges"))
    assert [row["max_key"] for row in ranges] == [row["max_key"] for row in files]


def test_partitions_without_a_value_and_their_buckets(tmp_path: Path) -> None:
    catalog = pypaimon.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d", True)  # noqa: FBT003 - pypaimon's signature
    columns = pa.schema([("day", pa.string()), ("id", pa.int64())])
    catalog.create_table("d.t", pypaimon.Schema.from_pyarrow_schema(columns, partition_keys=["day"]))
    lw.write_table(pa.table({"day": [None, "a"], "id": [1, 2]}, schema=columns), catalog.get_table("d.t"))
    assert sorted(row["partition"] for row in _rows(catalog.get_table("d.t$buckets"))) == ["day=__NULL__", "day=a"]
    partitions = {row["partition"]: row["total_buckets"] for row in _rows(catalog.get_table("d.t$partitions"))}
    assert partitions == {"day=None": 1, "day=a": 1}


def test_unknown_columns_are_left_out_with_a_warning(catalog: pypaimon.Catalog) -> None:
    builder: Any = catalog.get_table("d.t$snapshots").new_read_builder()
    with pytest.warns(lw.LakewrightWarning, match="no column 'nothing'"):
        builder.with_projection(["snapshot_id", "nothing"])
    assert builder.new_read().to_arrow().to_pylist() == [{"snapshot_id": 1}]
    assert len(builder.with_projection([]).read_type()) == 15
