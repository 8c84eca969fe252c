"""What a read would do, before it does it."""

import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("plan", False)
columns = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.int64())])
schema = Schema.from_pyarrow_schema(columns, partition_keys=["dt"], primary_keys=["dt", "id"], options={"bucket": "2"})
catalog.create_table("plan.events", schema, False)
table = catalog.get_table("plan.events")
builder = table.new_batch_write_builder()
writer, commit = builder.new_write(), builder.new_commit()
writer.write_arrow(pa.Table.from_pydict({"dt": ["d1", "d2", "d3"] * 4, "id": list(range(12)), "v": list(range(12))}, schema=columns))
commit.commit(writer.prepare_commit())
writer.close()
commit.close()

read_builder = table.new_read_builder()
read_builder = read_builder.with_filter(read_builder.new_predicate_builder().equal("dt", "d2"))
result = read_builder.explain(verbose=True)
print(result.snapshot_id, result.split_count, result.file_count, result.splits_raw_convertible, result.level_histogram)
print(result.partition_pruning, result.bucket_pruning, result.file_skipping)
print(result.splits_with_deletion_vectors, result.splits_all_above_l0, result.estimated_row_count)
print(sorted((split.bucket, split.file_count, split.row_count) for split in result.splits))
for line in str(read_builder.explain()).splitlines():
    if not any(word in line for word in ("size", "Total size")):
        print(line)
