"""What the face refuses although lakewright could do it, and the words of its errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
import lakewright.pypaimon as face
from lakewright.errors import InvalidInputError

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string())])
EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}


def _table(warehouse: Path, options: dict[str, str], keys: list[str] | None = None) -> face.FileStoreTable:
    catalog = face.CatalogFactory.create({"warehouse": str(warehouse)})
    catalog.create_database("d", ignore_if_exists=True)
    catalog.create_table("d.t", face.Schema.from_pyarrow_schema(COLUMNS, primary_keys=keys, options=options))
    table = catalog.get_table("d.t")
    builder = table.new_batch_write_builder()
    writer = builder.new_write()
    writer.write_arrow(pa.table({"id": [0, 1], "name": ["a", "b"]}, COLUMNS))
    builder.new_commit().commit(writer.prepare_commit())
    return table


def _ids(*ids: int) -> pa.Table:
    return pa.table({"_ROW_ID": pa.array(ids, pa.int64()), "name": ["x"] * len(ids)})


ROWS = pa.table({"id": [1], "name": ["x"]}, COLUMNS)
VERBS: list[tuple[str, Callable[[face.BatchTableUpdate], object]]] = [
    ("update_by_predicate requires", lambda update: update.update_by_predicate("id = 1", {"name": "x"})),
    ("upsert_by_arrow_with_key requires", lambda update: update.upsert_by_arrow_with_key(ROWS, ["id"])),
    ("upsert_by_key requires", lambda update: update.upsert_by_key([face.GenericRow([1, "x"])], ["id"])),
    ("delete requires", lambda update: update.delete_by_predicate("id = 1")),
    ("delete requires", lambda update: update.delete_by_row_id([0])),
    (
        "merge_into requires",
        lambda update: update.merge_into(ROWS, on=["id"], when_matched=[face.WhenMatched.update("*")]),
    ),
]


@pytest.mark.parametrize("keys", [None, ["id"]], ids=["append", "key"])
def test_row_changes_need_data_evolution(tmp_path: Path, keys: list[str] | None) -> None:
    table = _table(tmp_path, {"bucket": "1"} if keys else {}, keys)
    files = sorted(tmp_path.rglob("*"))
    for words, verb in VERBS:
        with pytest.raises(InvalidInputError, match=f"{words} 'data-evolution.enabled' = 'true'"):
            verb(table.new_batch_write_builder().new_update())
    assert sorted(tmp_path.rglob("*")) == files


def test_batches_of_the_same_rows_are_refused_and_leave_no_files(tmp_path: Path) -> None:
    table = _table(tmp_path, EVOLVING)
    files = sorted(tmp_path.rglob("*"))
    update = table.new_batch_write_builder().new_update()
    with pytest.raises(InvalidInputError, match="overlapping first_row_ids"):
        update.update_by_arrow_batches_with_row_id([_ids(0), _ids(1)])
    with pytest.raises(InvalidInputError, match="tables of pyarrow"):
        update.update_by_arrow_batches_with_row_id([_ids(0), 7])
    assert sorted(tmp_path.rglob("*")) == files
    assert update.update_by_arrow_batches_with_row_id([]) == []


def test_errors_of_the_core_have_the_words_of_pypaimon_and_their_facts(tmp_path: Path) -> None:
    table = _table(tmp_path, {"bucket": "1"}, ["id"])
    with pytest.raises(RuntimeError, match="Primary key should not be null") as null:
        table.new_batch_write_builder().new_write().write_arrow(pa.table({"id": [None], "name": ["x"]}, COLUMNS))
    assert isinstance(null.value, InvalidInputError)
    assert null.value.column == "id"
    table.create_tag("first")
    with pytest.raises(InvalidInputError, match=r"Tag 'first' already exists in .*; replace it") as tag:
        table.create_tag("first")
    assert tag.value.tag == "first"
    with pytest.raises(ValueError, match="Cannot change bucket number"):
        table.copy({"bucket": "2"})
    assert table.copy({"bucket": "1"}).total_buckets == 1


def test_errors_about_columns_begin_with_the_words_of_pypaimon(tmp_path: Path) -> None:
    table = _table(tmp_path, {})
    writer = table.new_batch_write_builder().new_write()
    fewer = pa.table({table.field_names[0]: pa.array([1], pa.int64())})
    with pytest.raises(ValueError, match=r"^Input schema isn't consistent with table schema and write cols"):
        writer.write_arrow(fewer)
    with pytest.raises(ValueError, match=r"^Input schema isn't consistent with table schema and write cols"):
        writer.write_row(face.GenericRow([1], table.fields))
    writer.close()


def test_system_tables_that_pypaimon_lacks_are_those_of_lakewright(tmp_path: Path) -> None:
    _table(tmp_path, {})
    catalog = face.CatalogFactory.create({"warehouse": str(tmp_path)})
    for name in ("statistics", "aggregation_fields"):
        system = catalog.get_table(f"d.t${name}")
        assert lw.read_table(system).schema.names[0] in {"snapshot_id", "field_name"}


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({"options": {"bucket": "2"}}, "set 'bucket-key' to the columns .* or 'bucket' to -1"),
        (
            {"primary_keys": ["k"], "partition_keys": ["p"], "options": {"bucket": "2"}},
            r"lacks the partition columns \['p'\].*add them to the primary key, or set 'bucket' to -1",
        ),
    ],
)
def test_tables_that_java_refuses_are_refused_with_what_to_set(
    tmp_path: Path, wish: dict[str, object], says: str
) -> None:
    catalog = face.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d", ignore_if_exists=True)
    schema = face.Schema.from_pyarrow_schema(pa.schema({"k": pa.int32(), "p": pa.int32()}), **wish)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=says):
        catalog.create_table("d.refused", schema)
