"""Row changes of the face: pypaimon's extra calls, its clauses, its casts and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakewright.pypaimon as face
from lakewright.errors import LakewrightWarning

COLUMNS = pa.schema({"id": pa.int32(), "name": pa.string(), "rate": pa.float32()})
EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"}


@pytest.fixture
def table(tmp_path: Path) -> face.FileStoreTable:
    """Return a table with the ids 0 to 3 in two files; the row ids are the same numbers."""
    catalog = face.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", face.Schema.from_pyarrow_schema(COLUMNS, options=EVOLVING))
    made = catalog.get_table("d.t")
    for ids in ([0, 1], [2, 3]):
        builder = made.new_batch_write_builder()
        with builder.new_write() as write, builder.new_commit() as commit:
            write.write_arrow(pa.table({"id": ids, "name": ["x", "x"], "rate": [0.5, 0.5]}, schema=COLUMNS))
            commit.commit(write.prepare_commit())
    return made


def _commit(table: face.FileStoreTable, messages: list[face.CommitMessage]) -> list[tuple[object, ...]]:
    with table.new_batch_write_builder().new_commit() as commit:
        commit.commit(messages)
    builder = table.new_read_builder()
    read = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    return sorted((tuple(row.values()) for row in read.to_pylist()), key=str)


def _update(table: face.FileStoreTable) -> face.BatchTableUpdate:
    return table.new_batch_write_builder().new_update()


def test_the_extra_calls_of_pypaimon_change_rows(table: face.FileStoreTable) -> None:
    one = pa.table({"_ROW_ID": pa.array([0], pa.int64()), "name": ["a"]})
    two = pa.table({"_ROW_ID": pa.array([2], pa.int64()), "name": ["c"]})
    update = _update(table).with_update_type(["name"])
    rows = _commit(table, update.update_by_arrow_batches_with_row_id([one, two]))
    assert [name for _, name, _ in rows] == ["a", "x", "c", "x"]
    fields = table.store.schema.fields
    new = [face.GenericRow([1, "b", 1.0], fields), face.GenericRow([9, "n", 2.0], fields)]
    rows = _commit(table, _update(table).upsert_by_key(new, ["id"]))
    assert [name for _, name, _ in rows] == ["a", "b", "c", "x", "n"]
    updater = _update(table).new_update_by_row_id()
    updater.update_row_columns(face.GenericRow(["z"], [fields[1]]), [0, 1], ["name"])
    updater.update_columns(pa.table({"_ROW_ID": pa.array([3], pa.int64()), "name": ["y"]}), ["name"])
    rows = _commit(table, updater.commit_messages)
    assert [name for _, name, _ in rows] == ["z", "z", "c", "y", "n"]
    rows = _commit(table, face.TableDeleteByRowId(table).delete([0, 4]))
    assert [number for number, _, _ in rows] == [1, 2, 3]
    rows = _commit(
        table, face.TableUpsertByKey(table).upsert(pa.table({"id": [1], "name": ["u"], "rate": [9.0]}), ["id"])
    )
    assert rows[0] == (1, "u", 9.0)
    rows = _commit(table, _update(table).delete_by_predicate(None))
    assert rows == []


def test_batches_that_overlap_are_refused_and_their_files_are_removed(
    table: face.FileStoreTable, tmp_path: Path
) -> None:
    updater = face.TableUpdateByRowId(table, "me")
    updater.update_columns(pa.table({"_ROW_ID": pa.array([0], pa.int64()), "name": ["a"]}), ["name"])
    files = sorted(tmp_path.rglob("*.parquet"))
    with pytest.raises(ValueError, match="overlapping first_row_ids"):
        updater.update_columns(pa.table({"_ROW_ID": pa.array([1], pa.int64()), "name": ["b"]}), ["name"])
    assert sorted(tmp_path.rglob("*.parquet")) == files
    assert _commit(table, updater.commit_messages)[0][1] == "a"


def test_casts_are_those_of_pypaimon_with_a_warning(table: face.FileStoreTable) -> None:
    with pytest.warns(LakewrightWarning, match="double become FLOAT in the column 'rate'"):
        messages = _update(table).update_by_predicate("id = 0", {"rate": pa.array([0.1])})
    assert _commit(table, messages)[0][2] == pytest.approx(0.1)
    text = pa.table({"_ROW_ID": pa.array([1], pa.int64()), "rate": ["2.5"]})
    with pytest.warns(LakewrightWarning, match="string become FLOAT"):
        messages = _update(table).with_update_type(["rate"]).update_by_arrow_with_row_id(text)
    assert _commit(table, messages)[1][2] == 2.5
    source = pa.table({"id": pa.array([2], pa.int32()), "label": [7]})
    with pytest.warns(LakewrightWarning, match="int64 become STRING"):
        messages = _update(table).merge_into(
            source, on=["id"], when_matched=[face.WhenMatched.update({"name": face.source_col("label")})]
        )
    assert _commit(table, messages)[2][1] == "7"
    with pytest.raises(ValueError, match="'id'"):
        _update(table).update_by_predicate("id = 0", {"id": pa.array([2**40])})


def test_a_table_is_merged_into_itself_by_row_id(table: face.FileStoreTable) -> None:
    clauses = [face.WhenMatched.delete("t.id = 3"), face.WhenMatched.update({"name": "s.name", "rate": face.lit(4.0)})]
    messages = face.merge_into(table, table, on=["_ROW_ID"], when_matched=clauses, commit_user="me")
    assert _commit(table, messages) == [(0, "x", 4.0), (1, "x", 4.0), (2, "x", 4.0)]
    with pytest.raises(ValueError, match="WHEN NOT MATCHED"):
        _update(table).merge_into(table, on=["_ROW_ID"], when_not_matched=[face.WhenNotMatched("*")])


def test_clauses_have_the_attributes_of_pypaimon_and_fail_where_its_do(table: face.FileStoreTable) -> None:
    clause = face.WhenMatched("delete", condition="s.id > 1")
    assert (clause.__dict__["update"], clause.__dict__["delete"]) == (None, True)
    for wrong in ({"action": "erase"}, {"action": "update"}, {"action": "delete", "update": "*"}):
        with pytest.raises(ValueError, match="WhenMatched"):
            face.WhenMatched(**wrong)
    source = pa.table({"id": pa.array([1], pa.int32()), "name": ["s"], "rate": pa.array([1.0], pa.float32())})
    star = face.WhenMatched.update("*")
    update = _update(table)
    with pytest.raises(ValueError, match="Only the last when_matched clause may omit its condition"):
        update.merge_into(source, on=["id"], when_matched=[star, star])
    with pytest.raises(TypeError, match="not a function"):
        update.merge_into(source, on=["id"], when_matched=[face.WhenMatched.update({"name": lambda rows: rows})])
    with pytest.raises(TypeError, match="not str"):
        update.merge_into("d.t", on=["id"], when_matched=[star])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must not reference target columns"):
        update.merge_into(source, on=["id"], when_not_matched=[face.WhenNotMatched({"name": "t.name"})])
    renamed = pa.table({"key": pa.array([1], pa.int32()), "name": ["r"], "rate": pa.array([1.0], pa.float32())})
    assert _commit(table, update.merge_into(renamed, on={"id": "key"}, when_matched=[star]))[1] == (1, "r", 1.0)


def test_upserts_take_what_those_of_pypaimon_take(table: face.FileStoreTable) -> None:
    new = pa.table({"id": pa.array([None, 1], pa.int32()), "name": ["first", "one"], "rate": [1.0, 1.0]})
    _commit(table, _update(table).upsert_by_arrow_with_key(new, ["id"]))
    again = pa.table({"id": pa.array([None, None], pa.int32()), "name": ["lost", "second"], "more": [0, 0]})
    with pytest.warns(LakewrightWarning, match="more of the data are not in table schema"):
        messages = _update(table).upsert_by_arrow_with_key(again, ["id"])
    builder = table.new_read_builder()
    with table.new_batch_write_builder().new_commit() as commit:
        commit.commit(messages)
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist()
    assert [(row["name"], row["rate"]) for row in rows if row["id"] is None] == [("second", 1.0)]
    with pytest.raises(ValueError, match="Input data is empty"):
        _update(table).upsert_by_arrow_with_key(new.slice(0, 0), ["id"])


def test_literals_are_cast_as_in_pypaimon_with_a_warning(table: face.FileStoreTable) -> None:
    with pytest.warns(LakewrightWarning, match=r"2\.7 becomes 2 \(INT\) in the column 'id'"):
        messages = _update(table).update_by_predicate("id = 3", {"id": 2.7})
    assert [number for number, _, _ in _commit(table, messages)] == [0, 1, 2, 2]
    source = pa.table({"id": pa.array([0], pa.int32())})
    with pytest.warns(LakewrightWarning, match=r"1\.5 becomes 1"):
        _update(table).merge_into(source, on=["id"], when_matched=[face.WhenMatched.update({"id": face.lit(1.5)})])
    with pytest.raises(ValueError, match="'id'"):
        _update(table).update_by_predicate("id = 3", {"id": "text"})


def test_batches_may_have_different_columns_and_leave_no_files_if_one_is_wrong(
    table: face.FileStoreTable, tmp_path: Path
) -> None:
    first = pa.table({"_ROW_ID": pa.array([0], pa.int64()), "name": ["a"]})
    second = pa.table({"_ROW_ID": pa.array([2], pa.int64()), "rate": pa.array([9.0], pa.float32())})
    rows = _commit(table, _update(table).update_by_arrow_batches_with_row_id([first, second]))
    assert rows == [(0, "a", 0.5), (1, "x", 0.5), (2, "x", 9.0), (3, "x", 0.5)]
    files = sorted(tmp_path.rglob("*.parquet"))
    missing = pa.table({"_ROW_ID": pa.array([99], pa.int64()), "name": ["b"]})
    with pytest.raises(ValueError, match="99"):
        _update(table).update_by_arrow_batches_with_row_id([second, missing])
    assert sorted(tmp_path.rglob("*.parquet")) == files
    assert _update(table).update_by_arrow_batches_with_row_id([]) == []
    message = _update(table).update_by_arrow_with_row_id(first)[0]
    expected: object = ["name"]
    assert message.new_files[0].write_cols == expected
    with pytest.raises(ValueError, match="_ROW_ID"):
        _update(table).update_by_predicate(None, {"_ROW_ID": 1})


def test_conditions_of_a_merge_may_compute(table: face.FileStoreTable) -> None:
    source = pa.table({"id": pa.array([0, 1, 9], pa.int32()), "name": ["X", "o", "s.id + 1"], "rate": [1.0, 9.0, 2.0]})

    def merged(condition: str) -> list[face.CommitMessage]:
        clause = face.WhenMatched.update({"rate": "s.rate"}, condition=condition)
        insert = face.WhenNotMatched("*", condition="s.name || '' = 's.id + 1' AND s.id + 1 = 10")
        return _update(table).merge_into(source, on=["id"], when_matched=[clause], when_not_matched=[insert])

    rows = _commit(table, merged("upper(t.name) = s.name AND s.rate > t.rate + 0.25"))
    assert rows == [(0, "x", 1.0), (1, "x", 0.5), (2, "x", 0.5), (3, "x", 0.5), (9, "s.id + 1", 2.0)]
    for wrong, said in (
        ("s.rate + 1", "true or false for each row"),
        ("s.nothing + 1 > 2", "unknown source column 'nothing'"),
        ("upper(s.nothing) = 'X'", "s.nothing"),
        ("s.rate + > 2", "syntax error"),
        ("sum(s.rate) > 1", "true or false for each row"),
        ("1 + 1 IN (SELECT id FROM read_csv('x.csv'))", "disabled"),
    ):
        with pytest.raises(ValueError, match=said):
            merged(wrong)


def test_text_is_a_literal_whatever_it_reads_as(table: face.FileStoreTable) -> None:
    rows = _commit(table, _update(table).update_by_predicate("id = 1", {"name": "upper(name)"}))
    assert [name for _, name, _ in rows] == ["x", "upper(name)", "x", "x"]
    source = pa.table({"id": pa.array([1, 2], pa.int32())})
    clause = face.WhenMatched.update({"name": "name || '!'"})
    rows = _commit(table, _update(table).merge_into(source, on=["id"], when_matched=[clause]))
    assert [name for _, name, _ in rows] == ["x", "name || '!'", "name || '!'", "x"]
