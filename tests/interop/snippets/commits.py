"""Commits that are empty, aborted, repeated, recorded with properties, or in each other's way."""

import sys
from pathlib import Path

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("c", False)
columns = pa.schema([("id", pa.int32()), ("v", pa.string())])
evolving = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"}


def new_table(name, options=None, primary_keys=None):
    catalog.create_table(f"c.{name}", Schema.from_pyarrow_schema(columns, primary_keys=primary_keys, options=options), False)
    return catalog.get_table(f"c.{name}")


def prepared(builder, ids, v="x"):
    writer = builder.new_write()
    writer.write_arrow(pa.Table.from_pydict({"id": ids, "v": [v] * len(ids)}, schema=columns))
    messages = writer.prepare_commit()
    writer.close()
    return messages


def write(table, ids):
    builder = table.new_batch_write_builder()
    commit = builder.new_commit()
    commit.commit(prepared(builder, ids))
    commit.close()


def show(table):
    builder = table.new_read_builder()
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist()
    latest = table.snapshot_manager().get_latest_snapshot()
    print(None if latest is None else latest.id, sorted(tuple(row.values()) for row in rows))


def attempt(call):
    try:
        call()
        print("done")
    except Exception as error:
        phrases = ("multiple 'MERGE INTO'", "Deletion vector index conflict", "one-time committing")
        print(isinstance(error, RuntimeError), [phrase for phrase in phrases if phrase in str(error)])


plain = new_table("plain")
builder = plain.new_batch_write_builder()
commit = builder.new_commit()
commit.commit([])
show(plain)
write(plain, [1])
builder = plain.new_batch_write_builder()
commit = builder.new_commit()
messages = prepared(builder, [2])
print([(m.partition, m.bucket, m.is_empty(), m.check_from_snapshot, len(m.compact_before), len(m.changelog_files)) for m in messages])
commit.commit(messages, snapshot_properties={"origin": "here"})
print(plain.snapshot_manager().get_latest_snapshot().properties)
attempt(lambda: commit.commit(messages))
attempt(commit.truncate_table)
commit.close()
show(plain)

builder = plain.new_batch_write_builder()
commit = builder.new_commit()
messages = prepared(builder, [3])
files = [Path(sys.argv[1], "c.db", "plain", "bucket-0", file.file_name) for m in messages for file in m.new_files]
print([file.exists() for file in files])
commit.abort(messages)
print([file.exists() for file in files])
commit.close()
show(plain)

stream = plain.new_stream_write_builder()
commit = stream.new_commit()
commit.commit([], 1)
show(plain)
commit.commit([], 2)
commit.close()
show(plain)

table = new_table("rows", evolving)
write(table, [1, 2])
write(table, [3])
first, second = table.new_batch_write_builder(), table.new_batch_write_builder()
rows = pa.table({"_ROW_ID": pa.array([0], pa.int64()), "v": ["a"]})
one = first.new_update().with_update_type(["v"]).update_by_arrow_with_row_id(rows)
two = second.new_update().with_update_type(["v"]).update_by_arrow_with_row_id(rows)
print(one[0].check_from_snapshot)
attempt(lambda: first.new_commit().commit(one))
attempt(lambda: second.new_commit().commit(two))
show(table)

first, second = table.new_batch_write_builder(), table.new_batch_write_builder()
one = first.new_update().delete_by_row_id([0])
two = second.new_update().delete_by_row_id([1])
attempt(lambda: first.new_commit().commit(one))
attempt(lambda: second.new_commit().commit(two))
show(table)

other = table.new_batch_write_builder()
insert = prepared(other, [9])
commit = table.new_batch_write_builder().new_commit()
commit.truncate_table()
commit.close()
attempt(lambda: other.new_commit().commit(insert))
show(table)
