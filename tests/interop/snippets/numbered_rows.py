"""The columns of one row come from two writers, which number the rows themselves."""

import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("lab", False)
columns = pa.schema([("id", pa.int32()), ("name", pa.string()), ("score", pa.int64())])
options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
catalog.create_table("lab.t", Schema.from_pyarrow_schema(columns, options=options), False)
table = catalog.get_table("lab.t")


def write(first_row_id, **values):
    builder = table.new_batch_write_builder()
    messages = []
    for names in (["id", "name"], ["score"]):
        chosen = [name for name in names if name in values]
        if chosen:
            writer = builder.new_write().with_write_type(chosen)
            writer.write_arrow(
                pa.table({name: values[name] for name in chosen}, pa.schema([columns.field(n) for n in chosen]))
            )
            messages += writer.prepare_commit()
            writer.close()
    for message in messages:
        for file in message.new_files:
            file.first_row_id = first_row_id
    commit = builder.new_commit()
    commit.commit(messages)
    commit.close()


def show():
    builder = table.new_read_builder().with_projection(["_ROW_ID", "id", "name", "score"])
    print(builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist())


write(0, id=[1, 2], name=["a", "b"], score=[10, 20])
show()
write(0, score=[100, 200])
show()
write(2, id=[3], name=["c"], score=[30])
show()
