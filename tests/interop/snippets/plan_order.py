"""The order of splits and rows, the splits that may be read file by file, and the shares of workers."""

import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("order", False)


def write(table, rows):
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(rows)
    messages = writer.prepare_commit()
    print("wrote", [(message.partition, message.bucket) for message in messages])
    commit.commit(messages)
    writer.close()
    commit.close()


def show(table):
    builder = table.new_read_builder()
    splits = builder.new_scan().plan().splits()
    print([(split.partition.values, split.bucket, len(split.files), split.raw_convertible) for split in splits])
    print([tuple(row.values()) for row in builder.new_read().to_arrow(splits).to_pylist()])


def shares(table):
    builder = table.new_read_builder()
    for count in (2, 3, 5):
        for index in range(count):
            splits = builder.new_scan().with_shard(index, count).plan().splits()
            print(index, count, [(split.partition.values, split.bucket, split.row_count) for split in splits])
            print(builder.new_read().to_arrow(splits)["id"].to_pylist())


plain = pa.schema([("day", pa.string()), ("id", pa.int32())])
for name, partition_keys, options in (("days", ["day"], {}), ("buckets", [], {"bucket": "4", "bucket-key": "id"})):
    catalog.create_table(f"order.{name}", Schema.from_pyarrow_schema(plain, partition_keys=partition_keys, options=options), False)
    table = catalog.get_table(f"order.{name}")
    for days in ("zamza", "bza", "ab"):
        write(table, pa.table({"day": list(days), "id": pa.array(range(len(days)), pa.int32())}, schema=plain))
        show(table)
    shares(table)

keyed = pa.schema([pa.field("day", pa.string(), nullable=False), pa.field("id", pa.int32(), nullable=False), ("v", pa.int32())])
for number, (buckets, partition_keys) in enumerate((count, keys) for count in ("1", "3", "-1") for keys in ([], ["day"])):
    schema = Schema.from_pyarrow_schema(keyed, partition_keys, [*partition_keys, "id"], {"bucket": buckets})
    catalog.create_table(f"order.keyed{number}", schema, False)
    table = catalog.get_table(f"order.keyed{number}")
    for step in (3, 2, 1):
        ids = [number * step for number in range(10)]
        write(table, pa.table({"day": list("zamzazamza"), "id": pa.array(ids, pa.int32()), "v": pa.array([step] * 10, pa.int32())}, schema=keyed))
        show(table)
    shares(table)
    try:
        write(table, pa.table({"day": ["a"], "id": pa.array([None], pa.int32()), "v": pa.array([1], pa.int32())}))
    except RuntimeError as error:
        print("refused", "Primary key should not be null" in str(error))

catalog.create_table("order.apart", Schema.from_pyarrow_schema(keyed, [], ["id"], {"bucket": "1"}), False)
table = catalog.get_table("order.apart")
for start in (0, 10, 20):
    write(table, pa.table({"day": ["a"] * 3, "id": pa.array(range(start, start + 3), pa.int32()), "v": pa.array([1] * 3, pa.int32())}, schema=keyed))
    show(table)
shares(table)
