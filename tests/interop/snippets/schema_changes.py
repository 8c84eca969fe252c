"""Columns that come, go, move, get other names and wider types; rows written before and after."""

import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.schema.data_types import AtomicType
from pypaimon.schema.schema_change import Move, SchemaChange


def write(table, rows):
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(rows)
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


def show(table):
    builder = table.new_read_builder()
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    print(rows.schema.names, sorted(map(str, rows.to_pylist())))


catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("lab", False)
columns = pa.schema([("probe", pa.int32()), ("grade", pa.int32()), ("note", pa.string())])
catalog.create_table("lab.probes", Schema.from_pyarrow_schema(columns), False)
write(catalog.get_table("lab.probes"), pa.Table.from_pydict({"probe": [1, 2], "grade": [3, 4], "note": ["x", None]}, columns))

catalog.alter_table(
    "lab.probes",
    [
        SchemaChange.add_column("place", AtomicType("STRING")),
        SchemaChange.add_column("mass", AtomicType("DOUBLE"), comment="in grams"),
    ],
    ignore_if_not_exists=False,
)
table = catalog.get_table("lab.probes")
show(table)
print([(field.name, str(field.type), field.description) for field in table.fields])

catalog.alter_table("lab.probes", [SchemaChange.drop_column("note")], ignore_if_not_exists=False)
catalog.alter_table("lab.probes", [SchemaChange.rename_column("grade", "mark")])
catalog.alter_table("lab.probes", [SchemaChange.update_column_type("mark", AtomicType("BIGINT"))])
catalog.alter_table("lab.probes", [SchemaChange.update_column_comment("mark", "one is best")])
catalog.alter_table("lab.probes", [SchemaChange.update_column_position(Move.first("mass"))])
catalog.alter_table("lab.probes", [SchemaChange.set_option("snapshot.num-retained.min", "5")])
catalog.alter_table("lab.probes", [SchemaChange.update_comment("probes of the lab")])
table = catalog.get_table("lab.probes")
print([(field.id, field.name, str(field.type), field.description) for field in table.fields])
print(table.table_schema.id, table.table_schema.options["snapshot.num-retained.min"], table.comment())
write(table, pa.table({"mass": pa.array([0.5]), "probe": pa.array([3], pa.int32()), "mark": pa.array([2**40]), "place": pa.array(["b"])}))
show(table)

catalog.alter_table("lab.probes", [SchemaChange.remove_option("snapshot.num-retained.min")])
print("snapshot.num-retained.min" in catalog.get_table("lab.probes").table_schema.options)
