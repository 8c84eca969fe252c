"""The schema of a table: its facts, its JSON, its declaration and its file; tables by path and at snapshots."""

import sys

import pyarrow as pa

from pypaimon import CatalogFactory, Schema
from pypaimon.common.identifier import Identifier
from pypaimon.common.json_util import JSON
from pypaimon.schema.data_types import AtomicType
from pypaimon.schema.schema_change import SchemaChange
from pypaimon.schema.table_schema import TableSchema
from pypaimon.table.file_store_table import FileStoreTable

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("d", True)
columns = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.list_(pa.int32()))])
catalog.create_table(
    Identifier.from_string("d.t"),
    Schema.from_pyarrow_schema(
        columns, partition_keys=["dt"], primary_keys=["dt", "id"], options={"bucket": "2"}, comment="some"
    ),
    False,
)
table = catalog.get_table(Identifier.from_string("d.t"))
schema = table.table_schema
schema.time_millis = 5
print([field.to_dict() for field in table.fields])
print(schema.version, schema.id, schema.highest_field_id, schema.partition_keys, schema.primary_keys)
print(schema.options, schema.comment, table.schema().primary_keys, table.comment())
print(JSON.to_json(schema))
print(TableSchema.from_json(JSON.to_json(schema)) == schema)
print(schema.bucket_keys, [field.name for field in schema.logical_bucket_key_fields], schema.cross_partition_update())
print(
    [field.name for field in schema.data_file_fields(["v", "unknown"])], schema.data_file_fields(None) == schema.fields
)
print(schema.partial_file_write_cols(None), schema.partial_file_write_cols(["v"]))
print(schema.copy(new_options={"a": "b"}).options, schema.options)
declared = TableSchema.from_schema(3, schema.to_schema())
print(declared.id, declared.highest_field_id, declared.primary_keys, declared.comment, declared.fields == schema.fields)
stored = TableSchema.from_path(table.file_io, table.schema_manager.schema_path + "/schema-0")
stored.time_millis = 5
print(stored == schema)
for wrong in ("{", "{}"):
    try:
        TableSchema.from_json(wrong)
    except RuntimeError:
        print("not a schema:", wrong)

newest = table.schema_manager.latest()
newest.id, newest.options["read.batch-size"] = 1, "10"
print(table.schema_manager.commit(newest))
print(catalog.get_table(Identifier.from_string("d.t")).table_schema.options, table.schema_manager.get_schema(9))

by_path = FileStoreTable.from_path(table.table_path)
print(by_path.identifier.get_full_name(), by_path.field_names, by_path.table_schema.id, by_path.bucket_mode().name)
try:
    FileStoreTable.from_path(sys.argv[1] + "/nothing")
except ValueError as error:
    print(error)


def write(rows):
    builder = catalog.get_table(Identifier.from_string("d.u")).new_batch_write_builder()
    writer = builder.new_write()
    writer.write_arrow(rows)
    builder.new_commit().commit(writer.prepare_commit())
    writer.close()


catalog.create_table(Identifier.from_string("d.u"), Schema.from_pyarrow_schema(pa.schema([("id", pa.int64())])), False)
write(pa.table({"id": [1]}))
catalog.alter_table(Identifier.from_string("d.u"), [SchemaChange.add_column("x", AtomicType("INT"))], False)
write(pa.table({"id": [2], "x": pa.array([1], pa.int32())}))
table = catalog.get_table(Identifier.from_string("d.u"))
past = table.copy({"scan.snapshot-id": "1"})
print(table.bucket_mode().name, table.field_names, past.field_names, past.table_schema.id)
print(table.copy_without_time_travel({"scan.snapshot-id": "1"}).field_names)
print(table.copy({"scan.snapshot-id": "77"}).field_names)
print(past.copy({"scan.snapshot-id": None}).table_schema.options.get("scan.snapshot-id"))
builder = past.new_read_builder()
print(builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist())
