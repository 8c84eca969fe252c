"""New values for rows that are named by their ids, in batches and in a stream."""

import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("stars", False)
columns = pa.schema([("hue", pa.int8()), ("size", pa.int16()), ("name", pa.string())])
options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
catalog.create_table("stars.seen", Schema.from_pyarrow_schema(columns, options=options), False)
table = catalog.get_table("stars.seen")


def show(names=None):
    builder = table.new_read_builder()
    if names:
        builder = builder.with_projection(names)
    print(builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist())


for part in ({"hue": [1, 2], "size": [100, 200], "name": ["a", "b"]}, {"hue": [3], "size": [300], "name": ["c"]}):
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(pa.Table.from_pydict(part, schema=columns))
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()
show(["_ROW_ID", "hue", "size", "name"])

builder = table.new_batch_write_builder()
update = builder.new_update().with_update_type(["hue"])
commit = builder.new_commit()
rows = pa.Table.from_pydict({"_ROW_ID": [2, 0], "hue": [33, 11]}, schema=pa.schema([("_ROW_ID", pa.int64()), ("hue", pa.int8())]))
messages = update.update_by_arrow_with_row_id(rows)
print(sorted((m.partition, m.bucket, [(f.row_count, f.first_row_id, list(f.write_cols)) for f in m.new_files]) for m in messages))
commit.commit(messages)
commit.close()
show()

builder = table.new_batch_write_builder()
update = builder.new_update().with_update_type(["size", "name"])
parts = [
    pa.table({"_ROW_ID": pa.array([1], pa.int64()), "size": pa.array([2], pa.int16()), "name": pa.array(["bb"])}),
    pa.table({"_ROW_ID": pa.array([2], pa.int64()), "size": pa.array([3], pa.int16()), "name": pa.array(["cc"])}),
]
commit = builder.new_commit()
commit.commit(update.update_by_arrow_batches_with_row_id(iter(parts)))
commit.close()
show()

stream = table.new_stream_write_builder()
update = stream.new_update().with_update_type(["hue"])
commit = stream.new_commit()
for number, row_id in enumerate((0, 1), start=1):
    one = pa.table({"_ROW_ID": pa.array([row_id], pa.int64()), "hue": pa.array([50 + row_id], pa.int8())})
    commit.commit(update.update_by_arrow_with_row_id(one, commit_identifier=number), commit_identifier=number)
commit.close()
show()

builder = table.new_batch_write_builder()
updater = builder.new_update().new_update_by_row_id()
updater.update_columns(pa.table({"_ROW_ID": pa.array([0], pa.int64()), "name": ["A"]}), ["name"])
commit = builder.new_commit()
commit.commit(updater.commit_messages)
commit.close()
show()

predicates = table.new_read_builder().with_projection(["_ROW_ID", "name"]).new_predicate_builder()
for predicate in (
    predicates.equal("_ROW_ID", 0),
    predicates.is_in("_ROW_ID", [0, 2]),
    predicates.between("_ROW_ID", 1, 2),
):
    builder = table.new_read_builder().with_projection(["_ROW_ID", "name"]).with_filter(predicate)
    print(builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist())

for wrong in (
    pa.table({"_ROW_ID": pa.array([99], pa.int64()), "hue": pa.array([1], pa.int8())}),
    pa.table({"hue": pa.array([1], pa.int8())}),
    pa.table({"_ROW_ID": pa.array([1, 1], pa.int64()), "hue": pa.array([1, 2], pa.int8())}),
):
    try:
        table.new_batch_write_builder().new_update().with_update_type(["hue"]).update_by_arrow_with_row_id(wrong)
    except (ValueError, RuntimeError) as error:
        print("refused", isinstance(error, ValueError), "does not belong to any valid range" in str(error))
try:
    table.new_batch_write_builder().new_update().with_update_type(["colour"])
except ValueError as error:
    print("not in table schema" in str(error))
