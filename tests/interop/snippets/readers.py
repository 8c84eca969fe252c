"""The same splits as Arrow, batches, rows, pandas; shares of a read."""

import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("web", False)
columns = pa.schema([("user", pa.int64()), ("item", pa.int64()), ("act", pa.string()), ("dt", pa.string())])
catalog.create_table("web.clicks", Schema.from_pyarrow_schema(columns, partition_keys=["dt"]), False)
table = catalog.get_table("web.clicks")
for data in (
    {"user": [1, 2, 3, 4, 5, 6], "item": [11, 12, 13, 14, 15, 16], "act": list("abc") + [None, "e", "f"], "dt": ["p1", "p2"] * 3},
    {"user": [7, 8, 9], "item": [17, 18, 19], "act": list("xyz"), "dt": ["p1", "p1", "p2"]},
):
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(pa.Table.from_pydict(data, schema=columns))
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()

read_builder = table.new_read_builder()
splits = read_builder.new_scan().plan().splits()
read = read_builder.new_read()
for split in splits:
    print(split.partition.to_dict(), split.bucket, split.row_count, split.raw_convertible, len(split.files), len(split.file_paths))
everything = read.to_arrow(splits)
print(everything.num_rows, everything.schema)
print(sorted(everything["user"].to_pylist()))
print(sorted(row[0] for batch in read.to_arrow_batch_reader(splits) for row in zip(*batch.to_pydict().values())))
print(sorted((row.get_field(0), str(row.get_field(2))) for row in read.to_iterator(splits)))
frame = read.to_pandas(splits)
print(sorted(frame["user"].tolist()), list(frame.columns))

shares = [read_builder.new_scan().with_shard(each, 3).plan().splits() for each in range(3)]
print([read.to_arrow(share).num_rows for share in shares])
print(sorted(user for share in shares for user in read.to_arrow(share)["user"].to_pylist()))
print(read.to_arrow([]).num_rows)
