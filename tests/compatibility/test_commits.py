"""Commits of the face: once for a batch, callbacks with pypaimon's context."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
import lakewright.pypaimon as face

COLUMNS = pa.schema({"part": pa.string(), "n": pa.int32()})


class Listener(face.CommitCallback):
    def __init__(self) -> None:
        self.heard: list[face.CommitCallbackContext] = []
        self.closed = False

    def call(self, context: face.CommitCallbackContext) -> None:
        self.heard.append(context)

    def close(self) -> None:
        self.closed = True


class Broken(face.CommitCallback):
    def call(self, context: face.CommitCallbackContext) -> None:
        raise ArithmeticError(str(context.snapshot.id))


def _table(tmp_path: Path) -> face.FileStoreTable:
    catalog = face.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", face.Schema.from_pyarrow_schema(COLUMNS, partition_keys=["part"]))
    return catalog.get_table("d.t")


def _messages(builder: face.BatchWriteBuilder, part: str) -> list[face.CommitMessage]:
    with builder.new_write() as write:
        write.write_arrow(pa.table({"part": [part], "n": pa.array([1], pa.int32())}))
        return write.prepare_commit()


def test_callbacks_get_the_entries_of_the_commit_and_are_closed(tmp_path: Path) -> None:
    table, listener = _table(tmp_path), Listener()
    builder = table.new_batch_write_builder()
    with builder.new_commit() as commit:
        assert (commit.table, commit.commit_user, commit.overwrite_partition) == (table, builder.commit_user, None)
        commit.add_commit_callback(listener)  # type: ignore[arg-type]
        commit.commit(_messages(builder, "a"))
    (context,) = listener.heard
    (entry,) = context.commit_entries
    assert (context.snapshot.id, context.identifier, entry.kind, entry.file.row_count) == (1, 2**63 - 1, 0, 1)
    assert (entry.partition.values, entry.partition.to_dict()) == (["a"], {"part": "a"})
    assert listener.closed


def test_a_callback_that_fails_raises_after_the_snapshot_is_published(tmp_path: Path) -> None:
    table = _table(tmp_path)
    builder = table.new_batch_write_builder()
    commit = builder.new_commit()
    commit.add_commit_callback(Broken())  # type: ignore[arg-type]
    with pytest.raises(ArithmeticError, match="1"):
        commit.commit(_messages(builder, "a"))
    assert table.snapshot() is not None


def test_a_batch_commit_commits_once_and_a_builder_makes_several(tmp_path: Path) -> None:
    table = _table(tmp_path)
    builder = table.new_batch_write_builder()
    for part in ("a", "b"):
        commit = builder.new_commit()
        commit.commit(_messages(builder, part))
    again = _messages(builder, "c")
    with pytest.raises(RuntimeError, match="one-time committing"):
        commit.commit(again)
    with pytest.raises(RuntimeError, match="one-time committing"):
        commit.truncate_table()
    with pytest.raises(RuntimeError, match="one-time committing"):
        commit.truncate_partitions([{"part": "a"}])
    newest = table.snapshot()
    assert newest is not None
    assert newest.id == 2


def test_builders_of_streams_and_their_changes_have_the_shapes_of_pypaimon(tmp_path: Path) -> None:
    builder = _table(tmp_path).new_stream_write_builder()
    assert isinstance(builder.new_commit(), face.StreamTableCommit)
    assert isinstance(builder.new_update(), face.StreamTableUpdate)
    assert builder.new_commit().commit_user == builder.commit_user


def test_a_stream_commit_without_messages_makes_no_snapshot(tmp_path: Path) -> None:
    table = _table(tmp_path)
    with table.new_stream_write_builder().new_commit() as commit:
        commit.commit([], 1)
    assert table.snapshot() is None


def test_messages_go_through_the_bytes_that_implementations_exchange(tmp_path: Path) -> None:
    table = _table(tmp_path)
    builder = table.new_batch_write_builder()
    fields = table.store.schema.partition_fields
    data = [face.serialize_commit_message(message, fields) for message in _messages(builder, "a")]
    read = [face.deserialize_commit_message(each, fields) for each in data]
    assert [message.partition for message in read] == [("a",)]
    with builder.new_commit() as commit:
        assert commit.commit(read).snapshot_id == 1


def test_rows_are_written_as_bytes_and_read_back(tmp_path: Path) -> None:
    fields = _table(tmp_path).store.schema.fields
    row = face.GenericRow(["a", 7], fields, face.RowKind.from_string("-D"))
    again = face.GenericRowDeserializer.from_bytes(face.GenericRowSerializer.to_bytes(row), fields)
    assert (again.values, again.to_dict()) == (["a", 7], {"part": "a", "n": 7})
    assert (row.get_row_kind(), row.get_row_kind().is_add(), len(row)) == (face.RowKind.DELETE, False, 2)
    with pytest.raises(ValueError, match=r"\+X"):
        face.RowKind.from_string("+X")


def _numbered(table: face.FileStoreTable, first_row_id: int, **values: list[int]) -> int:
    """Write columns of rows, each with a writer of its own, from a row id on; return the next free id."""
    builder, messages = table.new_batch_write_builder(), []
    for name, numbers in values.items():
        with builder.new_write().with_write_type([name]) as write:
            write.write_arrow(pa.table({name: pa.array(numbers, pa.int64())}))
            messages += write.prepare_commit()
    for message in messages:
        for file in message.new_files:
            file.first_row_id = first_row_id  # type: ignore[misc]
    with builder.new_commit() as commit:
        commit.commit(messages)
    newest = table.snapshot()
    assert newest is not None
    return newest.next_row_id or 0


def test_rows_that_writers_number_follow_those_that_exist(tmp_path: Path) -> None:
    catalog = face.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    evolving = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    columns = pa.schema({"a": pa.int64(), "b": pa.int64()})
    catalog.create_table("d.t", face.Schema.from_pyarrow_schema(columns, options=evolving))
    table = catalog.get_table("d.t")
    assert _numbered(table, 0, a=[1, 2], b=[10, 20]) == 2
    assert _numbered(table, 0, b=[11, 21]) == 2
    assert _numbered(table, 2, a=[3], b=[30]) == 3
    for first in (4, 1):  # rows that do not exist, and a part of a file's rows
        with pytest.raises(RuntimeError):
            _numbered(table, first, b=[0])
    builder = table.new_batch_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(pa.table({"a": [4], "b": [40]}))
        commit.commit(write.prepare_commit())
    rows = lw.read_table(table, columns=["_ROW_ID", "a", "b"])
    assert rows.to_pydict() == {"_ROW_ID": [0, 1, 2, 3], "a": [1, 2, 3, 4], "b": [11, 21, 30, 40]}


@pytest.mark.parametrize(("options", "newest"), [({}, 7), ({"num-sorted-run.compaction-trigger": "3"}, 10)])
def test_commits_compact_only_where_the_table_asks_for_it(tmp_path: Path, options: dict[str, str], newest: int) -> None:
    catalog = face.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int64())])
    schema = face.Schema.from_pyarrow_schema(columns, primary_keys=["id"], options={"bucket": "1", **options})
    catalog.create_table("d.t", schema)
    table = catalog.get_table("d.t")
    for n in range(7):
        builder = table.new_batch_write_builder()
        with builder.new_write() as write, builder.new_commit() as commit:
            write.write_arrow(pa.table({"id": [1, n + 2], "n": [n, n]}, columns))
            commit.commit(write.prepare_commit())
    snapshot = table.snapshot()
    assert snapshot is not None
    assert snapshot.id == newest
    assert lw.read_table(table, filter="id = 1").to_pylist() == [{"id": 1, "n": 6}]
