"""Conditions of a merge that compute, and updates by row id in batches that have different columns."""

import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.table.data_evolution_merge_into import WhenMatched, WhenNotMatched, lit

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("d", False)
columns = pa.schema([("id", pa.int32()), ("name", pa.string()), ("x", pa.int64())])
options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"}
source = pa.table(
    {
        "id": pa.array([1, 2, 3, 4, 5], pa.int32()),
        "name": ["Ann", "BOB", "cy", "it's", None],
        "x": pa.array([5, 45, 31, 7, None], pa.int64()),
    }
)


def new_table(name):
    catalog.create_table(f"d.{name}", Schema.from_pyarrow_schema(columns, options=options), False)
    table = catalog.get_table(f"d.{name}")
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    rows = {"id": [1, 2, 3], "name": ["ann", "bob", None], "x": [10, 20, 30]}
    writer.write_arrow(pa.Table.from_pydict(rows, schema=columns))
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()
    return table


def rows(table):
    builder = table.new_read_builder()
    read = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    return sorted((tuple(row.values()) for row in read.to_pylist()), key=lambda row: row[0])


def commit(table, prepare):
    builder = table.new_batch_write_builder()
    commit = builder.new_commit()
    commit.commit(prepare(builder.new_update()))
    commit.close()
    print(rows(table))


table = new_table("matched")
for condition in (
    "s.x > t.x + 10",
    "upper(s.name) = upper(t.name)",
    "CASE WHEN s.x > 40 THEN true ELSE false END",
    "s.name || '!' = 'Ann!'",
    "coalesce(t.name, 'none') = 'none' AND s.x % 2 = 1",
    "abs(s.x - t.x) < 6",
    "s.x / 2 > 15",
    "length(s.name) = 3 OR t.x IS NULL",
    "cast(s.x AS double) > 30.5",
    "s.name = 't.x + 1'",
):
    print(condition)
    clause = WhenMatched.update({"x": "s.x"}, condition=condition)
    commit(table, lambda update, clause=clause: update.merge_into(source, on=["id"], when_matched=[clause]))

table = new_table("both")
commit(
    table,
    lambda update: update.merge_into(
        source,
        on=["id"],
        when_matched=[
            WhenMatched.delete(condition="s.x + 0 = 5"),
            WhenMatched.update({"name": lit("big")}, condition="s.x > t.x + 10"),
            WhenMatched.update({"name": "s.name"}),
        ],
        when_not_matched=[
            WhenNotMatched({"id": "s.id", "name": lit("none")}, condition="s.x + 1 IS NULL"),
            WhenNotMatched("*", condition="upper(s.name) = 'IT''S'"),
        ],
    ),
)

update = table.new_batch_write_builder().new_update()
for condition in ("s.x + 1", "s.nothing + 1 > 2", "s.x + > 2", "s.x + 1 > 2; SELECT 1", "sum(s.x) > 1"):
    try:
        update.merge_into(source, on=["id"], when_matched=[WhenMatched.update("*", condition=condition)])
        print("no error")
    except Exception:
        print("refused")

table = new_table("batches")


def batch(row_id, **values):
    return pa.table({"_ROW_ID": pa.array([row_id], pa.int64()), **values})


commit(
    table,
    lambda update: update.update_by_arrow_batches_with_row_id(
        [batch(0, x=pa.array([7], pa.int64())), batch(1, name=["B"])]
    ),
)
try:
    update.update_by_arrow_batches_with_row_id(
        [batch(0, x=pa.array([8], pa.int64())), batch(1, x=pa.array([9], pa.int64()))]
    )
except ValueError:
    print("refused")
commit(table, lambda update: update.update_by_arrow_batches_with_row_id([]))
messages = (
    table.new_batch_write_builder()
    .new_update()
    .with_update_type(["x"])
    .update_by_arrow_with_row_id(batch(2, x=pa.array([1], pa.int64())))
)
print([file.write_cols == ["x"] for message in messages for file in message.new_files])
