"""Callbacks that hear of each snapshot, and what they are told."""

import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.write.commit_callback import CommitCallback, CommitCallbackContext


class Log(CommitCallback):
    def call(self, context: CommitCallbackContext) -> None:
        print(f"snapshot {context.snapshot.id}, {len(context.commit_entries)} entries, identifier {context.identifier}")
        for entry in context.commit_entries:
            kind, file = entry.kind, entry.file
            print(" ", kind, entry.bucket, entry.total_buckets, entry.partition.to_dict(), file.row_count, file.first_row_id)
        print(" ", context.snapshot.commit_kind, context.snapshot.next_row_id)

    def close(self) -> None:
        print("closed")


class Bare(CommitCallback):
    def call(self, context):
        print("bare", context.snapshot.id)


catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("calls", False)
columns = pa.schema([("part", pa.string()), ("n", pa.int32())])
options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
catalog.create_table("calls.t", Schema.from_pyarrow_schema(columns, partition_keys=["part"], options=options), False)
table = catalog.get_table("calls.t")

for values in ([1, 2, 3], [4]):
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    commit.add_commit_callback(Log())
    commit.add_commit_callback(Bare())
    writer.write_arrow(pa.Table.from_pydict({"part": ["x"] * len(values), "n": values}, schema=columns))
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()

builder = table.new_stream_write_builder()
writer, commit = builder.new_write(), builder.new_commit()
commit.add_commit_callback(Log())
for number in (7, 8):
    writer.write_arrow(pa.Table.from_pydict({"part": ["y"], "n": [number]}, schema=columns))
    commit.commit(writer.prepare_commit(number), number)
writer.close()
commit.close()

builder = table.new_batch_write_builder().overwrite({"part": "x"})
writer, commit = builder.new_write(), builder.new_commit()
commit.add_commit_callback(Log())
writer.write_arrow(pa.Table.from_pydict({"part": ["x"], "n": [0]}, schema=columns))
commit.commit(writer.prepare_commit())
writer.close()
commit.close()

builder = table.new_batch_write_builder()
commit = builder.new_commit()
commit.add_commit_callback(Log())
commit.truncate_table()
commit.close()
