"""Run code written for pypaimon: two lines install lakewright in its place, the rest stays as it is.

Run it in an empty directory: `python examples/pypaimon_code.py`.
"""

import lakewright.pypaimon

lakewright.pypaimon.install()

import pyarrow as pa  # after install()
from pypaimon import CatalogFactory, Schema

catalog = CatalogFactory.create({"warehouse": "warehouse"})
catalog.create_database("shop", ignore_if_exists=True)
columns = pa.schema([("id", pa.int64()), ("name", pa.string()), ("stock", pa.int64())])
schema = Schema.from_pyarrow_schema(columns, primary_keys=["id"], options={"bucket": "2"})
catalog.create_table("shop.goods", schema, ignore_if_exists=True)
table = catalog.get_table("shop.goods")

write_builder = table.new_batch_write_builder()
for data in (
    {"id": [1, 2, 3], "name": ["pen", "cup", "ink"], "stock": [5, 0, 7]},
    {"id": [2], "name": ["cup"], "stock": [4]},
):
    table_write, table_commit = write_builder.new_write(), write_builder.new_commit()
    table_write.write_arrow(pa.table(data, schema=columns))
    table_commit.commit(table_write.prepare_commit())
    table_write.close()
    table_commit.close()

read_builder = table.new_read_builder()
predicate = read_builder.new_predicate_builder().greater_than("stock", 3)
read_builder = read_builder.with_filter(predicate).with_projection(["id", "name", "stock"])
splits = read_builder.new_scan().plan().splits()
print(f"{len(splits)} splits of {type(table).__module__}")
for row in sorted(read_builder.new_read().to_arrow(splits).to_pylist(), key=lambda row: row["id"]):
    print(row)
