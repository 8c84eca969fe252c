"""Buckets that are chosen later, and writes that choose them at once."""

import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("late", False)
columns = pa.schema([("id", pa.int64()), ("v", pa.string())])
schema = Schema.from_pyarrow_schema(
    columns, primary_keys=["id"], options={"bucket": "-2", "postpone.default-bucket-num": "2"}
)
catalog.create_table("late.t", schema, False)
table = catalog.get_table("late.t")


def write(builder, ids):
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(pa.Table.from_pydict({"id": ids, "v": [f"v{each}" for each in ids]}, schema=columns))
    messages = writer.prepare_commit()
    print(sorted(message.bucket for message in messages))
    commit.commit(messages)
    writer.close()
    commit.close()


def show():
    reader = table.new_read_builder()
    print(sorted(reader.new_read().to_arrow(reader.new_scan().plan().splits())["id"].to_pylist()))


write(table.new_batch_write_builder(), [1, 2])
show()
write(table.new_postpone_fixed_bucket_write_builder(), [3, 4, 5, 6])
show()
