"""Merge engines, aggregate functions and sequence fields, in every bucket mode: rows, projections, filters, snapshots."""

import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("merge", False)
columns = pa.schema([pa.field("id", pa.int32(), nullable=False), ("a", pa.int64()), ("b", pa.string()), ("s", pa.int64())])


def write(table, *batches, replace=False):
    builder = table.new_batch_write_builder()
    builder = builder.overwrite() if replace else builder
    writer, commit = builder.new_write(), builder.new_commit()
    for batch in batches:
        writer.write_arrow(pa.Table.from_pylist([dict(zip(columns.names, row)) for row in batch], schema=columns))
    messages = writer.prepare_commit()
    print([(message.bucket, [(file.row_count, file.level) for file in message.new_files]) for message in messages])
    commit.commit(messages)
    writer.close()
    commit.close()


def read(table, predicate=None, projection=None):
    builder = table.new_read_builder()
    if projection:
        builder = builder.with_projection(projection)
    if predicate:
        builder = builder.with_filter(predicate)
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    print([tuple(row.values()) for row in rows.to_pylist()])


engines = {
    "last": {},
    "ignored": {"ignore-delete": "true"},
    "newest": {"sequence.field": "s"},
    "oldest": {"sequence.field": "s", "sequence.field.sort-order": "descending"},
    "filled": {"merge-engine": "partial-update"},
    "sums": {"fields.a.aggregate-function": "sum", "fields.b.aggregate-function": "last_non_null_value", "fields.s.aggregate-function": "max"},
    "lists": {"fields.a.aggregate-function": "min", "fields.b.aggregate-function": "listagg", "fields.s.aggregate-function": "product"},
    "firsts": {"fields.default-aggregate-function": "first_non_null_value"},
    "mixed": {"fields.a.aggregate-function": "first_value", "fields.b.aggregate-function": "last_value"},
}
for name, options in engines.items():
    if any("aggregate-function" in key for key in options):
        options = {**options, "merge-engine": "aggregation"}
    for number, buckets in enumerate(("1", "2", "-1")):
        schema = Schema.from_pyarrow_schema(columns, primary_keys=["id"], options={**options, "bucket": buckets})
        catalog.create_table(f"merge.{name}{number}", schema, False)
        table = catalog.get_table(f"merge.{name}{number}")
        print(name, buckets)
        write(table, [(1, 1, "x", 5), (2, 2, None, 5), (3, 3, "z", None)])
        write(table, [(1, 10, None, 4), (2, None, "q", 9), (4, 4, "n", 1), (4, 40, "m", 2)])
        write(table, [(1, 100, "y", 6)], [(1, 1000, "yy", 3)])
        read(table)
        read(table, projection=["b"])
        read(table, projection=["a", "id"])
        predicates = table.new_read_builder().new_predicate_builder()
        read(table, predicates.equal("id", 2))
        read(table, predicates.greater_than("a", 5), ["id", "a"])
        read(table, predicates.is_null("b"), ["id"])
        latest = table.snapshot_manager().get_latest_snapshot()
        print(latest.id, latest.total_record_count, latest.delta_record_count)
        write(table, [(7, 7, "x", 7)], replace=True)
        read(table)
