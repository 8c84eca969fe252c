"""The three examples of the Ray verbs as pypaimon's users write them: append, overwrite, read with a number of blocks.

Run as a program it imports pypaimon and prints the rows; `tests/ray` runs this same text with the import changed.
"""

# ruff: noqa: FBT003 - written as users write it
import json
import sys

import pyarrow as pa
import ray
from pypaimon import CatalogFactory, Schema  # type: ignore[import-not-found]  # it lives apart

if not ray.is_initialized():
    ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1")

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("default", True)
columns = pa.schema([("id", pa.int64()), ("name", pa.string()), ("value", pa.float64())])
catalog.create_table("default.my_table", Schema.from_pyarrow_schema(columns), False)
table = catalog.get_table("default.my_table")

# Append, by four tasks of one CPU each.
data = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"], "value": [1.5, 2.5, 3.5]}, schema=columns)
write_builder = table.new_batch_write_builder()
table_write = write_builder.new_write()
table_write.write_ray(ray.data.from_arrow(data), overwrite=False, concurrency=4, ray_remote_args={"num_cpus": 1})
table_write.close()

read_builder = table.new_read_builder()
splits = read_builder.new_scan().plan().splits()
appended = sorted(read_builder.new_read().to_ray(splits).take_all(), key=lambda row: row["id"])

# Overwrite.
write_builder = table.new_batch_write_builder().overwrite()
table_write = write_builder.new_write()
other = pa.table({"id": [8, 9], "name": ["x", "y"], "value": [8.5, 9.5]}, schema=columns)
table_write.write_ray(ray.data.from_arrow(other), overwrite=True)
table_write.close()

# Read with a chosen number of blocks, and work on it.
read_builder = table.new_read_builder()
splits = read_builder.new_scan().plan().splits()
table_read = read_builder.new_read()
dataset = table_read.to_ray(splits, override_num_blocks=4)
replaced = sorted(dataset.take_all(), key=lambda row: row["id"])
kept = dataset.filter(lambda row: row["value"] > 9).to_pandas()

print("ANSWER" + json.dumps([appended, replaced, dataset.count(), kept.to_dict("records")]))
