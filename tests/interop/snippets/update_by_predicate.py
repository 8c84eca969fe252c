"""UPDATE ... SET ... WHERE: literals, functions of the rows, arrays with one value for each row."""

import sys

import pyarrow as pa
import pyarrow.compute as pc
from pypaimon import CatalogFactory, Schema

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("staff", False)
columns = pa.schema([("id", pa.int32()), ("name", pa.string()), ("pay", pa.int32())])
options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"}
catalog.create_table("staff.people", Schema.from_pyarrow_schema(columns, options=options), False)
table = catalog.get_table("staff.people")


def append(ids):
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    rows = {"id": ids, "name": [f"n{each}" for each in ids], "pay": [each * 10 for each in ids]}
    writer.write_arrow(pa.Table.from_pydict(rows, schema=columns))
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


def show():
    builder = table.new_read_builder()
    print([tuple(row.values()) for row in builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist()])


def change(predicate_of, assignments, **more):
    builder = table.new_batch_write_builder()
    update = builder.new_update()
    predicate = predicate_of(update.new_predicate_builder())
    messages = update.update_by_predicate(predicate, assignments, **more)
    commit = builder.new_commit()
    commit.commit(messages)
    commit.close()
    show()


append([1, 2, 3])
append([4, 5])
change(lambda p: p.is_in("id", [1, 4]), {"pay": 99})
change(lambda p: p.equal("id", 2), {"name": "two", "pay": None})
change(lambda p: None, {"name": "all"})
change(lambda p: p.greater_than("id", 3), {"pay": pa.array([44, 55], pa.int32())})
change(lambda p: p.less_than("id", 3), {"pay": pa.chunked_array([[1], [2]], pa.int64()), "name": pa.array(["x", "y"])})
change(lambda p: p.equal("id", 3), {"pay": pa.scalar(7)})
change(
    lambda p: p.greater_or_equal("id", 3),
    {"pay": lambda rows: pc.multiply(rows["id"], 1000)},
    read_columns=["id"],
)
change(lambda p: p.equal("id", 77), {"pay": pa.array([1, 2, 3])})

update = table.new_batch_write_builder().new_update()
one = update.new_predicate_builder().equal("id", 1)
for call in (
    lambda: update.update_by_predicate(one, {"pay": pa.array([1, 2], pa.int32())}),
    lambda: update.update_by_predicate(one, {}),
    lambda: update.update_by_predicate(one, {"none": 1}),
    lambda: update.update_by_predicate(one, {"pay": 1}, read_columns=["id"]),
    lambda: update.update_by_predicate(one, {"pay": lambda rows: rows["id"]}),
    lambda: update.update_by_predicate(one, {"pay": lambda rows: 5}, read_columns=["id"]),
    lambda: update.update_by_predicate(one, {"pay": lambda rows: rows["id"]}, read_columns=["none"]),
    lambda: update.update_by_predicate(one, {"pay": lambda r: r["id"], "name": pa.array(["q"])}, read_columns=["id"]),
):
    try:
        call()
        print("no error")
    except ValueError as error:
        print("refused", "not in table schema" in str(error))

stream = table.new_stream_write_builder()
update, commit = stream.new_update(), stream.new_commit()
messages = update.update_by_predicate(update.new_predicate_builder().equal("id", 2), {"name": "B"}, commit_identifier=1)
commit.commit(messages, commit_identifier=1)
commit.close()
show()

builder = table.new_batch_write_builder()
update, commit = builder.new_update(), builder.new_commit()
commit.commit(update.delete_by_predicate(update.new_predicate_builder().is_in("id", [1, 5])))
commit.close()
show()
builder = table.new_batch_write_builder()
commit = builder.new_commit()
commit.commit(builder.new_update().delete_by_row_id([1]))
commit.close()
show()
change(lambda p: None, {"pay": pa.array([3, 4], pa.int8())})
