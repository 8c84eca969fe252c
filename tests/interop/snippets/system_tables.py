"""Tables about a table."""

import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("meta", False)
columns = pa.schema([("part", pa.string()), ("id", pa.int64()), ("v", pa.string())])
schema = Schema.from_pyarrow_schema(columns, partition_keys=["part"], primary_keys=["part", "id"], options={"bucket": "1"})
catalog.create_table("meta.t", schema, False)
table = catalog.get_table("meta.t")
for part in ("a", "b"):
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(pa.Table.from_pydict({"part": [part] * 2, "id": [1, 2], "v": ["x", None]}, schema=columns))
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()
table.create_tag("now")
table.branch_manager().create_branch("side", tag_name="now")

SHOWN = {
    "snapshots": ["snapshot_id", "schema_id", "commit_kind", "total_record_count", "delta_record_count"],
    "schemas": ["schema_id", "partition_keys", "primary_keys", "comment"],
    "options": ["key", "value"],
    "manifests": ["num_added_files", "num_deleted_files", "schema_id", "min_row_id"],
    "files": ["partition", "bucket", "file_format", "level", "record_count", "min_key", "max_key"],
    "partitions": ["partition", "record_count", "file_count", "total_buckets", "done"],
    "tags": ["tag_name", "snapshot_id", "schema_id", "record_count"],
    "branches": ["branch_name"],
}
for name, shown in SHOWN.items():
    system = catalog.get_table(f"meta.t${name}")
    builder = system.new_read_builder()
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    print(name, system.primary_keys())
    print(" ", [(field.name, str(field.type)) for field in system.row_type().fields])
    print(" ", sorted(str(tuple(row.values())) for row in rows.select(shown).to_pylist()))
try:
    catalog.get_table("meta.t$nothing")
except Exception as error:
    print(type(error).__name__)
