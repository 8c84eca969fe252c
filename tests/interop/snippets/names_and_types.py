"""Names of tables, data types, schemas and changes of schemas as values: how they compare, print and become JSON."""

import pickle
import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.catalog.catalog_exception import CatalogException, TableNotExistException, TagNotExistException
from pypaimon.common.identifier import Identifier
from pypaimon.common.json_util import JSON
from pypaimon.schema.data_types import (
    ArrayType,
    AtomicInteger,
    AtomicType,
    DataField,
    DataType,
    DataTypeParser,
    MapType,
    MultisetType,
    PyarrowFieldParser,
    RowType,
    VectorType,
    current_highest_field_id,
    reassign_field_id,
)
from pypaimon.schema.schema_change import Move, SchemaChange


def refused(action, *kinds):
    try:
        print(action())
    except Exception as error:
        print("refused", [kind.__name__ for kind in kinds or (ValueError,) if isinstance(error, kind)])


for parts in (
    *(("d", "t"), ("d", "t", "main"), ("d", "t", "MAIN"), ("d", "t", "b"), ("d", "t", None, "files")),
    *(("d", "t", "b", "files"), ("unknown", "t"), ("d", "t$files"), ("d", "t$branch_b"), ("d", "t$branch_b$files")),
):
    name = Identifier(*parts)
    print(repr(name), str(name), name.object, name.get_full_name(), name.get_table_name(), name.branch)
    print(name.get_branch_name_or_default(), name.get_system_table_name(), name.is_system_table())
    print(JSON.to_json(name), JSON.from_json(JSON.to_json(name), Identifier) == name)
    print(pickle.loads(pickle.dumps(name)) == name)
print(Identifier("d", "t", "main") == Identifier("d", "t"), Identifier("d", "t") == "d.t")
print(hash(Identifier("d", "t", "main")) == hash(Identifier("d", "t")))
for text in ("d.t", "d.t.x", "`d`.`t.x`", "a.b.c$files", "d", "", "  ", "`a.t"):
    refused(lambda text=text: Identifier.from_string(text))
refused(lambda: Identifier("d", "a$b$c").get_table_name())
name = Identifier("d", "t$files")
name.branch = "x"
print(name, name.branch)

for text in ("INT", "VARCHAR(10)", "DECIMAL(10, 2)", "TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", "STRING", "BYTES", "CHAR(3)"):
    one = AtomicType(text, nullable=False)
    print(one, one.to_dict(), AtomicType.from_dict(text) == AtomicType(text), one == AtomicType(text))
    print(DataTypeParser.parse_data_type(f"{text} NOT NULL") == one, PyarrowFieldParser.from_paimon_type(one))
row = RowType(
    True,
    [
        DataField(0, "a", AtomicType("STRING"), "words"),
        DataField(1, "b", ArrayType(False, MapType(True, AtomicType("INT"), AtomicType("BIGINT")))),
    ],
)
print(row, row.to_dict(), RowType.from_dict(row.to_dict()) == row, row.get_field_index("b"), isinstance(row, DataType))
refused(lambda: row.get_field_index("z"))
print(VectorType(True, AtomicType("FLOAT"), 3), MultisetType(False, AtomicType("INT")))
refused(lambda: VectorType(True, AtomicType("STRING"), 3))
refused(lambda: VectorType(True, AtomicType("INT"), 0))
print(current_highest_field_id([DataField(3, "x", row)]), reassign_field_id(row, AtomicInteger(5)).to_dict())
refused(lambda: current_highest_field_id([DataField(1, "x", row)]))
refused(lambda: DataTypeParser.parse_data_field({"name": "x", "type": "INT"}))
print(DataTypeParser.parse_data_field({"name": "x", "type": "INT"}, AtomicInteger(3)).to_dict())
changed = AtomicType("INT")
changed.nullable = False
print(changed, changed == AtomicType("INT", False), DataField(0, "x", changed, default_value="3").to_dict())

columns = pa.schema([("a", pa.int32()), ("b", pa.string())])
fields = PyarrowFieldParser.to_paimon_schema(columns)
print([(field.id, field.name, str(field.type)) for field in fields])
keyed = Schema.from_pyarrow_schema(columns, primary_keys=["a"], options={"bucket": "1"}, comment="c")
print(JSON.to_json(keyed), JSON.from_json(JSON.to_json(keyed), Schema) == keyed)
refused(lambda: Schema(fields, options={"changelog-producer": "input"}))
refused(lambda: Schema(fields, options={"primary-key.nullable": "true"}))
refused(lambda: Schema.from_pyarrow_schema(pa.schema([("a", pa.uint8())])))
for change in (
    SchemaChange.set_option("a", "b"),
    SchemaChange.drop_column(["a", "b"]),
    SchemaChange.rename_column("a", "z"),
    SchemaChange.update_comment("all"),
):
    print(change, JSON.to_json(change))
print(Move.after("x", "a"), Move.first("x") == Move.first("x"))

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("d", False)
catalog.create_table("d.t", keyed, False)
print(catalog.get_table("d.t").identifier)
catalog.alter_table(
    "d.t",
    [
        SchemaChange.add_column("x", AtomicType("INT"), "comment", Move.first("x")),
        SchemaChange.set_option("my.option", "v"),
    ],
)
print([(field.id, field.name, str(field.type), field.description) for field in catalog.get_table("d.t").fields])
for change in (
    SchemaChange.add_column("x", AtomicType("INT")),
    SchemaChange.drop_column("zz"),
    SchemaChange.rename_column("x", "b"),
    SchemaChange.drop_column("a"),
    SchemaChange.update_column_type("b", ArrayType(True, AtomicType("INT"))),
    SchemaChange.update_column_nullability("b", False),
    SchemaChange.add_column("nn", AtomicType("INT", False)),
):
    refused(lambda change=change: catalog.alter_table("d.t", [change]), RuntimeError)
for missing in ("d.zz", "zz.t", "d.t$nothing", "d.t$branch_z"):
    try:
        catalog.get_table(missing)
    except TableNotExistException as error:
        print(error.identifier, isinstance(error, CatalogException), "does not exist" in str(error))
print(TagNotExistException("v1").tag, TableNotExistException(Identifier("d", "t")).identifier)
