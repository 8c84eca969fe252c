"""Batches of every shape into one snapshot, and what overwrites replace."""

import sys

import pandas as pd
import pyarrow as pa
from pypaimon import CatalogFactory, Schema


def show(table):
    builder = table.new_read_builder()
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    print(sorted(map(tuple, (row.values() for row in rows.to_pylist()))))


def write(builder, rows):
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(rows)
    messages = writer.prepare_commit()
    print(sorted((message.partition, message.bucket, len(message.new_files)) for message in messages))
    commit.commit(messages)
    writer.close()
    commit.close()


catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("news", False)
columns = pa.schema([("day", pa.string()), ("page", pa.int32()), ("hits", pa.int64())])
catalog.create_table("news.views", Schema.from_pyarrow_schema(columns, partition_keys=["day"]), False)
table = catalog.get_table("news.views")

builder = table.new_batch_write_builder()
writer, commit = builder.new_write(), builder.new_commit()
frame = pd.DataFrame({"day": ["mon"], "page": pd.Series([1], dtype="int32"), "hits": [10]})
writer.write_pandas(frame)
writer.write_arrow(pa.Table.from_pydict({"day": ["mon", "tue"], "page": [2, 1], "hits": [20, 30]}, schema=columns))
writer.write_arrow_batch(pa.RecordBatch.from_pydict({"day": ["wed"], "page": [9], "hits": [1]}, schema=columns))
commit.commit(writer.prepare_commit())
writer.close()
commit.close()
show(table)
latest = table.snapshot_manager().get_latest_snapshot()
print(latest.id, latest.commit_kind, latest.total_record_count, latest.delta_record_count)

some = pa.Table.from_pydict({"day": ["tue"], "page": [5], "hits": [55]}, schema=columns)
write(table.new_batch_write_builder().overwrite({"day": "tue"}), some)
show(table)
write(table.new_batch_write_builder().overwrite(), some)
show(table)
print(table.snapshot_manager().get_latest_snapshot().commit_kind)

catalog.create_table(
    "news.totals",
    Schema.from_pyarrow_schema(columns, partition_keys=["day"], primary_keys=["day", "page"], options={"bucket": "2"}),
    False,
)
keyed = catalog.get_table("news.totals")
write(keyed.new_batch_write_builder(), pa.Table.from_pydict({"day": ["mon"] * 3, "page": [1, 2, 3], "hits": [1, 2, 3]}, columns))
write(keyed.new_batch_write_builder(), pa.Table.from_pydict({"day": ["mon", "tue"], "page": [2, 2], "hits": [22, 5]}, columns))
show(keyed)
commit = keyed.new_batch_write_builder().new_commit()
commit.truncate_partitions([{"day": "tue"}])
commit.close()
show(keyed)
commit = keyed.new_batch_write_builder().new_commit()
commit.truncate_table()
commit.close()
show(keyed)
