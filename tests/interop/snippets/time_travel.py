"""Older states of a table: snapshots, tags, what came between two of them, rollback."""

import sys
import time

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.catalog.catalog_exception import TagAlreadyExistException, TagNotExistException
from pypaimon.common.options.core_options import CoreOptions

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("log", False)
columns = pa.schema([("n", pa.int32())])
catalog.create_table("log.lines", Schema.from_pyarrow_schema(columns), False)
table = catalog.get_table("log.lines")


def append(value):
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(pa.Table.from_pydict({"n": [value]}, schema=columns))
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()
    time.sleep(0.01)


def numbers(table):
    builder = table.new_read_builder()
    return sorted(builder.new_read().to_arrow(builder.new_scan().plan().splits())["n"].to_pylist())


for value in (1, 2, 3):
    append(value)
manager = table.snapshot_manager()
first, second, third = (manager.get_snapshot_by_id(each).time_millis for each in (1, 2, 3))
print(numbers(table.copy({"incremental-between-timestamp": f"{first},{second}"})))
print(numbers(table.copy({"incremental-between-timestamp": f"{first},{third}"})))
print(numbers(table.copy({"scan.snapshot-id": "2"})))

table.create_tag("second", snapshot_id=2)
table.create_tag("newest")
try:
    table.create_tag("newest")
except ValueError:
    print("tag is there")
table.create_tag("newest", ignore_if_exists=True)
print(sorted(table.list_tags()))
print(numbers(table.copy({CoreOptions.SCAN_TAG_NAME.key(): "second"})))
print(table.delete_tag("newest"), sorted(table.list_tags()))
table.rename_tag("second", "two")
print(sorted(table.list_tags()))
catalog.create_tag("log.lines", "three", snapshot_id=3)
print(catalog.get_tag("log.lines", "three").snapshot.id)
print(sorted(catalog.list_tags_paged("log.lines").elements))
try:
    catalog.create_tag("log.lines", "three")
except TagAlreadyExistException as error:
    print("there", error.tag)
catalog.delete_tag("log.lines", "three")
try:
    catalog.delete_tag("log.lines", "three")
except TagNotExistException as error:
    print("gone", error.tag)

append(4)
table.rollback_to(3)
print(numbers(table), manager.get_latest_snapshot().id)
table.rollback_to("two")
print(numbers(table), manager.get_latest_snapshot().id)
append(5)
print(numbers(table), manager.get_latest_snapshot().id)
try:
    table.rollback_to("nothing")
except ValueError:
    print("no such tag")
try:
    table.rollback_to(77)
except ValueError:
    print("no such snapshot")
