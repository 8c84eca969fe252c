"""A first table: make it, write three rows, read two of them back."""

import sys
from pathlib import Path

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

catalog = CatalogFactory.create({"warehouse": Path(sys.argv[1]).as_uri()})
catalog.create_database("shop", ignore_if_exists=True)

columns = pa.schema([("sku", pa.int64()), ("title", pa.string()), ("stock", pa.int32())])
schema = Schema.from_pyarrow_schema(columns, options={"bucket": "-1"})
catalog.create_table("shop.items", schema, ignore_if_exists=False)
table = catalog.get_table("shop.items")

rows = pa.Table.from_pydict({"sku": [10, 11, 12], "title": ["nut", "bolt", "gear"], "stock": [5, 60, 7]}, schema=columns)
builder = table.new_batch_write_builder()
writer = builder.new_write()
commit = builder.new_commit()
try:
    writer.write_arrow(rows)
    commit.commit(writer.prepare_commit())
finally:
    writer.close()
    commit.close()

read_builder = table.new_read_builder()
low = read_builder.new_predicate_builder().less_than("stock", 10)
read_builder = read_builder.with_filter(low).with_projection(["sku", "title"])
splits = read_builder.new_scan().plan().splits()
result = read_builder.new_read().to_arrow(splits)
print(result.sort_by([("sku", "ascending")]).to_pylist())
print(result.schema)
