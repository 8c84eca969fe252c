"""MERGE INTO with clauses for rows that match and for those that do not."""

import sys

import pandas as pd
import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.table.data_evolution_merge_into import WhenMatched, WhenNotMatched, lit, source_col, target_col

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("bank", False)
columns = pa.schema([("id", pa.int32()), ("name", pa.string()), ("sum", pa.int32())])
options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"}


def new_table(name, data):
    catalog.create_table(f"bank.{name}", Schema.from_pyarrow_schema(columns, options=options), False)
    table = catalog.get_table(f"bank.{name}")
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(pa.Table.from_pydict(data, schema=columns))
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()
    return table


def merge(table, source, **clauses):
    builder = table.new_batch_write_builder()
    update, commit = builder.new_update(), builder.new_commit()
    commit.commit(update.merge_into(source, **clauses))
    commit.close()
    show(table)


def show(table):
    builder = table.new_read_builder()
    print(sorted(tuple(row.values()) for row in builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist()))


table = new_table("one", {"id": [1, 2], "name": ["ann", "bob"], "sum": [30, 25]})
source = pa.Table.from_pydict({"id": [2, 3], "name": ["bobby", "cy"], "sum": [26, 28]}, schema=columns)
merge(table, source, on=["id"], when_matched=[WhenMatched.update("*")], when_not_matched=[WhenNotMatched(insert="*")])

renamed = pa.table({"key": pa.array([1, 9], pa.int32()), "label": ["A", "I"], "more": pa.array([5, 6], pa.int32())})
merge(
    table,
    renamed,
    on={"id": "key"},
    when_matched=[WhenMatched.update({"sum": source_col("more"), "name": target_col("name")})],
    when_not_matched=[WhenNotMatched(insert={"id": source_col("key"), "name": source_col("label"), "sum": lit(0)})],
)
merge(table, pd.DataFrame({"id": [9], "name": ["nine"], "sum": [99]}).astype({"id": "int32", "sum": "int32"}), on=["id"], when_matched=[WhenMatched.update("*")])
merge(
    table,
    renamed,
    on={"id": "key"},
    when_matched=[WhenMatched.update({"name": "s.label", "sum": 7})],
)
merge(
    table,
    pa.Table.from_pydict({"id": [1, 2, 3], "name": ["", "", ""], "sum": [-1, 100, 100]}, schema=columns),
    on=["id"],
    when_matched=[WhenMatched.delete(condition="s.sum < 0"), WhenMatched.update({"sum": "s.sum"}, condition="t.sum < 28")],
)
other = new_table("two", {"id": [2, 50], "name": ["deux", "cinquante"], "sum": [2, 50]})
merge(table, other, on=["id"], when_matched=[WhenMatched.update("*")], when_not_matched=[WhenNotMatched("*", condition="s.sum > 49")])

merge(table, table, on=["_ROW_ID"], when_matched=[WhenMatched.update({"name": "s.name", "sum": lit(1)})])
merge(table, table, on=["_ROW_ID"], when_matched=[WhenMatched.delete(condition="t.id = 50")])

stream = table.new_stream_write_builder()
update, commit = stream.new_update(), stream.new_commit()
messages = update.merge_into(source, on=["id"], when_matched=[WhenMatched.update("*")], commit_identifier=1)
commit.commit(messages, commit_identifier=1)
commit.close()
show(table)

twice = pa.Table.from_pydict({"id": [2, 2], "name": ["x", "y"], "sum": [1, 2]}, schema=columns)
update = table.new_batch_write_builder().new_update()
for call in (
    lambda: update.merge_into(twice, on=["id"], when_matched=[WhenMatched.update("*")]),
    lambda: update.merge_into(source, on=["id"]),
    lambda: update.merge_into(source, on=[], when_matched=[WhenMatched.update("*")]),
    lambda: update.merge_into(source, on=["nothing"], when_matched=[WhenMatched.update("*")]),
    lambda: update.merge_into(source, on=["id"], when_matched=[WhenMatched.update({"nothing": 1})]),
    lambda: update.merge_into(source, on=["id"], when_matched=[WhenMatched.update({"sum": "s.nothing"})]),
    lambda: update.merge_into(renamed, on={"id": "key"}, when_matched=[WhenMatched.update("*")]),
    lambda: update.merge_into(source, on=["id"], when_not_matched=[WhenNotMatched("*", condition="t.sum > 1")]),
    lambda: WhenMatched.update("all"),
):
    try:
        call()
        print("no error")
    except ValueError:
        print("refused")
