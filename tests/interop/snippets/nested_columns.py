"""Parts of nested columns: fields of rows, keys of maps."""

import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("deep", False)
columns = pa.schema(
    [
        ("id", pa.int64()),
        ("info", pa.struct([("name", pa.string()), ("age", pa.int32()), ("home", pa.struct([("zip", pa.string())]))])),
        ("tags", pa.map_(pa.string(), pa.string())),
        ("val", pa.string()),
    ]
)
rows = [
    {"id": 1, "info": {"name": "ann", "age": 3, "home": {"zip": "01"}}, "tags": [("a.b", "x"), ("c", "y")], "val": "p"},
    {"id": 2, "info": None, "tags": None, "val": None},
]
for name, keys, options in (("plain", None, None), ("keyed", ["id"], {"bucket": "1"})):
    catalog.create_table(f"deep.{name}", Schema.from_pyarrow_schema(columns, primary_keys=keys, options=options), False)
    table = catalog.get_table(f"deep.{name}")
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    data = columns if keys is None else columns.set(0, pa.field("id", pa.int64(), nullable=False))
    writer.write_arrow(pa.Table.from_pylist(rows, schema=data))
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()
    for projection in (
        ["info.name", "val"],
        ["info.home.zip", "id"],
        ["info.age", "info.name"],
        ["id", "tags['a.b']"],
        ["tags['c']", "tags['none']"],
    ):
        reader = table.new_read_builder().with_projection(projection)
        read = reader.new_read().to_arrow(reader.new_scan().plan().splits())
        print(projection, read.schema.names, [str(field.type) for field in read.schema], read.to_pylist())
