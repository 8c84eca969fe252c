"""A column computed from others, share by share."""

import sys

import pyarrow as pa
import pyarrow.compute as pc
from pypaimon import CatalogFactory, Schema

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("calc", False)
columns = pa.schema([("a", pa.int32()), ("b", pa.int32()), ("c", pa.int32()), ("sum", pa.int32())])
options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
catalog.create_table("calc.t", Schema.from_pyarrow_schema(columns, options=options), False)
table = catalog.get_table("calc.t")
for start in (1, 5, 9):
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write().with_write_type(["a", "b", "c"]), builder.new_commit()
    numbers = pa.array(range(start, start + 3), pa.int32())
    writer.write_arrow(pa.table({"a": numbers, "b": numbers, "c": numbers}))
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()

builder = table.new_batch_write_builder()
update = builder.new_update()
update.with_read_projection(["a", "b"])
update.with_update_type(["sum"])
messages = []
for share in range(2):
    shard = update.new_shard_updator(share, 2)
    for batch in shard.arrow_reader():
        total = pc.add(batch.column("a"), batch.column("b"))
        shard.update_by_arrow_batch(pa.RecordBatch.from_arrays([total], schema=pa.schema([("sum", pa.int32())])))
    messages += shard.prepare_commit()
commit = builder.new_commit()
commit.commit(messages)
commit.close()
reader = table.new_read_builder()
print([tuple(row.values()) for row in reader.new_read().to_arrow(reader.new_scan().plan().splits()).to_pylist()])
