"""Follow a table as it grows."""

import asyncio
import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("live", False)
columns = pa.schema([("id", pa.int64()), ("v", pa.string()), ("t", pa.int64())])
catalog.create_table("live.events", Schema.from_pyarrow_schema(columns, options={"bucket": "2", "bucket-key": "id"}), False)
table = catalog.get_table("live.events")


def append(*ids):
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(pa.Table.from_pydict({"id": ids, "v": [f"v{each}" for each in ids], "t": ids}, schema=columns))
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


append(1, 2)
builder = table.new_stream_read_builder()
builder.with_poll_interval_ms(10)
scan, read = builder.new_streaming_scan(), builder.new_read()
print(scan.next_snapshot_id)
for number, plan in enumerate(scan.stream_sync()):
    print(sorted(read.to_arrow(plan.splits())["id"].to_pylist()), scan.next_snapshot_id)
    if number == 2:
        break
    append(10 + number, 20 + number)


async def follow():
    scan = builder.new_streaming_scan()
    scan.next_snapshot_id = 2
    seen = 0
    async for plan in scan.stream():
        for split in plan.splits():
            seen += read.to_arrow([split]).num_rows
        if seen >= 4:
            return seen


print(asyncio.run(follow()))

filtered = table.new_stream_read_builder()
filtered.with_poll_interval_ms(10)
filtered.with_filter(filtered.new_predicate_builder().greater_than("t", 5))
filtered.with_projection(["id", "v"])
scan, read = filtered.new_streaming_scan(), filtered.new_read()
plan = next(iter(scan.stream_sync()))
print(sorted(map(tuple, (row.values() for row in read.to_arrow(plan.splits()).to_pylist()))))

shares = []
for bucket in range(2):
    one = table.new_stream_read_builder()
    one.with_buckets([bucket]).with_poll_interval_ms(10)
    scan = one.new_streaming_scan()
    scan.next_snapshot_id = 1
    plan = next(iter(scan.stream_sync()))
    shares.append(sorted(one.new_read().to_arrow(plan.splits())["id"].to_pylist()))
print(shares)
even = table.new_stream_read_builder()
even.with_bucket_filter(lambda bucket: bucket % 2 == 0)
scan = even.new_streaming_scan()
scan.next_snapshot_id = 2
plan = next(iter(scan.stream_sync()))
print(sorted(even.new_read().to_arrow(plan.splits())["id"].to_pylist()))

kinds = table.new_stream_read_builder()
kinds.with_include_row_kind(True)
plan = next(iter(kinds.new_streaming_scan().stream_sync()))
rows = kinds.new_read().to_arrow(plan.splits())
print(rows.schema.names, sorted({row["_row_kind"] for row in rows.to_pylist()}))
