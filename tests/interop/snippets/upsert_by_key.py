"""Update or insert by a key of one's own."""

import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.table.row.generic_row import GenericRow

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("club", False)
columns = pa.schema([("id", pa.int32()), ("name", pa.string()), ("age", pa.int32())])
options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
catalog.create_table("club.members", Schema.from_pyarrow_schema(columns, options=options), False)
table = catalog.get_table("club.members")


def show(table):
    builder = table.new_read_builder()
    print(sorted(tuple(row.values()) for row in builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist()))


def append(table, rows):
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(rows)
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


append(table, pa.Table.from_pydict({"id": [1, 2], "name": ["ann", "bob"], "age": [30, 25]}, schema=columns))

builder = table.new_batch_write_builder()
update, commit = builder.new_update(), builder.new_commit()
rows = pa.Table.from_pydict({"id": [1, 3, 3], "name": ["ann2", "cy", "cyd"], "age": [31, 28, 29]}, schema=columns)
commit.commit(update.upsert_by_arrow_with_key(rows, upsert_keys=["id"]))
commit.close()
show(table)

builder = table.new_batch_write_builder()
update, commit = builder.new_update().with_update_type(["age"]), builder.new_commit()
rows = pa.Table.from_pydict({"id": [1, 4], "name": ["not used", "dee"], "age": [99, 22]}, schema=columns)
commit.commit(update.upsert_by_arrow_with_key(rows, upsert_keys=["id"]))
commit.close()
show(table)

builder = table.new_batch_write_builder()
update, commit = builder.new_update(), builder.new_commit()
rows = [GenericRow([2, "bert", 5], table.fields), GenericRow([6, "fay", 6], table.fields)]
commit.commit(update.upsert_by_key(rows, ["id"]))
commit.close()
show(table)

stream = table.new_stream_write_builder()
update, commit = stream.new_update(), stream.new_commit()
for number, key in enumerate((2, 7), start=1):
    rows = pa.Table.from_pydict({"id": [key], "name": [f"s{key}"], "age": [key]}, schema=columns)
    commit.commit(update.upsert_by_arrow_with_key(rows, upsert_keys=["id"], commit_identifier=number), number)
commit.close()
show(table)

by_place = pa.schema([("id", pa.int32()), ("name", pa.string()), ("place", pa.string())])
catalog.create_table("club.places", Schema.from_pyarrow_schema(by_place, partition_keys=["place"], options=options), False)
places = catalog.get_table("club.places")
append(places, pa.Table.from_pydict({"id": [1, 1], "name": ["a", "b"], "place": ["N", "S"]}, schema=by_place))
builder = places.new_batch_write_builder()
update, commit = builder.new_update(), builder.new_commit()
rows = pa.Table.from_pydict({"id": [1, 2], "name": ["A", "C"], "place": ["N", "W"]}, schema=by_place)
commit.commit(update.upsert_by_arrow_with_key(rows, upsert_keys=["id"]))
commit.close()
show(places)

for call in (
    lambda: table.new_batch_write_builder().new_update().upsert_by_arrow_with_key(rows, ["nothing"]),
    lambda: table.new_batch_write_builder().new_update().upsert_by_arrow_with_key(rows.drop_columns(["id"]), ["id"]),
    lambda: table.new_batch_write_builder().new_update().upsert_by_arrow_with_key(rows, []),
    lambda: places.new_batch_write_builder().new_update().upsert_by_arrow_with_key(rows.drop_columns(["place"]), ["id"]),
):
    try:
        call()
        print("no error")
    except ValueError:
        print("refused")
