"""DESCRIBE and SHOW CREATE TABLE: a table in, its columns and properties as rows or as a statement out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from lakewright.spec.options import CoreOptions
from lakewright.spec.schema.table_schema import column_not_found
from lakewright.spec.types import AtomicType, DataField, DataType
from lakewright.statements.definitions.columns import fields_inside, real_path
from lakewright.statements.definitions.partitions import PartitionSpec, partition_names
from lakewright.statements.definitions.placing import placing, shown
from lakewright.statements.definitions.wording import quoted_name, quoted_text, shown_type, type_text
from lakewright.statements.model import Command
from lakewright.statements.session import Session
from lakewright.statements.text import Args, Name
from lakewright.table.table import FileStoreTable

PROVIDER = "paimon"
_COLUMNS = {"col_name": False, "data_type": False, "comment": True}
_BARE = re.compile(r"[+-]?\d+(\.\d+)?|true|false", re.IGNORECASE)  # defaults that need no quotes
_BARE_ROOTS = {"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"}


@dataclass(frozen=True, slots=True)
class DescribeTable(Command):
    """DESCRIBE [TABLE] [EXTENDED | FORMATTED] name [PARTITION (...)] [column]."""

    name: Name
    extended: bool = False
    column: Name | None = None
    partition: PartitionSpec | None = None

    def run(self, session: Session, args: Args) -> pa.Table:
        """Show the columns, or one of them."""
        table = session.table(self.name)
        if self.column is not None:
            return _one_column(table, self.column)
        rows: list[tuple[str, str, str | None]] = [_row(field) for field in table.fields]
        keys = list(table.partition_keys)
        if keys:
            rows += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
            rows += [_row(field) for key in keys for field in table.fields if field.name == key]
        if self.partition is not None:
            names = partition_names(table, self.partition.of(table, args))
            rows += [("", "", ""), ("# Detailed Partition Information", "", "")]
            rows += [("Partition Values", f"[{', '.join(name.split('/'))}]", "") for name in names]
        if self.extended:
            rows += [("", "", ""), ("# Detailed Table Information", "", "")]
            rows += [(what, value, "") for what, value in _details(table).items()]
        return shown(_COLUMNS, rows)


@dataclass(frozen=True, slots=True)
class ShowCreateTable(Command):
    """SHOW CREATE TABLE name."""

    name: Name

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Show a statement that creates such a table."""
        catalog, identifier = session.resolve(self.name)
        own = next(name for name, one in session.catalogs.items() if one is catalog)
        parts = own, identifier.get_database_name(), identifier.get_object_name()
        text = _create_text(session.table(self.name), ".".join(map(quoted_name, parts)))
        return shown({"createtab_stmt": False}, [(text,)])


def described(columns: Iterable[tuple[str, str]]) -> pa.Table:
    """Return what DESCRIBE QUERY shows of columns that are given by their names and types."""
    return shown(_COLUMNS, [(name, dtype, None) for name, dtype in columns])


def properties(table: FileStoreTable) -> dict[str, str]:
    """Return the options of a table as properties, its primary key and its place among them."""
    found = dict(table.options.to_map())
    found.setdefault(CoreOptions.PATH.key(), table.table_path)
    if table.primary_keys:
        found[CoreOptions.PRIMARY_KEY.key()] = ",".join(table.primary_keys)
    return dict(sorted(found.items()))


def information(table: FileStoreTable, catalog: str) -> str:
    """Return what SHOW TABLE EXTENDED shows of a table."""
    details = {"Catalog": catalog, "Namespace": table.identifier.get_database_name()}
    details |= {"Table": table.identifier.get_object_name()} | _details(table)
    details.pop("Name")
    if table.partition_keys:
        details["Partition Columns"] = f"[{', '.join(map(quoted_name, table.partition_keys))}]"
    lines = [f"{what}: {value}" for what, value in details.items()]
    columns = [
        f" |-- {field.name}: {shown_type(field.type)} (nullable = {str(field.type.nullable).lower()})"
        for field in table.fields
    ]
    return "\n".join([*lines, "Schema: root", *columns, ""])


def _details(table: FileStoreTable) -> dict[str, str]:
    identifier, comment = table.identifier, table.comment()
    details = {"Name": f"{identifier.get_database_name()}.{identifier.get_object_name()}", "Type": "MANAGED"}
    if comment is not None:
        details["Comment"] = comment
    listed = ",".join(f"{key}={value}" for key, value in properties(table).items())
    return details | {"Provider": PROVIDER, "Table Properties": f"[{listed}]"}


def _row(field: DataField) -> tuple[str, str, str | None]:
    return field.name, shown_type(field.type), field.description


def _one_column(table: FileStoreTable, column: Name) -> pa.Table:
    path = real_path(table.fields, column.parts)
    siblings = fields_inside(table.fields, path[:-1])
    field = next((one for one in siblings if one.name == path[-1]), None)
    if field is None:
        with placing(column.place):
            raise column_not_found(str(column), [one.name for one in siblings or table.fields])
    info = [("col_name", field.name), ("data_type", shown_type(field.type))]
    return shown({"info_name": False, "info_value": False}, [*info, ("comment", field.description or "NULL")])


def _create_text(table: FileStoreTable, name: str) -> str:
    columns = ",\n".join(f"  {_column_text(field)}" for field in table.fields)
    lines = [f"CREATE TABLE {name} (\n{columns})", f"USING {PROVIDER}"]
    if table.partition_keys:
        lines.append(f"PARTITIONED BY ({', '.join(map(quoted_name, table.partition_keys))})")
    if table.comment() is not None:
        lines.append(f"COMMENT {quoted_text(table.comment() or '')}")
    options = {key: value for key, value in properties(table).items() if key != CoreOptions.PATH.key()}
    if options:
        listed = ",\n".join(f"  {quoted_text(key)} = {quoted_text(value)}" for key, value in options.items())
        lines.append(f"TBLPROPERTIES (\n{listed})")
    return "\n".join([*lines, ""])


def _column_text(field: DataField) -> str:
    text = f"{quoted_name(field.name)} {type_text(field.type)}"
    if not field.type.nullable:
        text += " NOT NULL"
    if field.default_value is not None:
        text += f" DEFAULT {_default_text(field.default_value, field.type)}"
    return text if field.description is None else f"{text} COMMENT {quoted_text(field.description)}"


def _default_text(default: str, dtype: DataType) -> str:
    """Return the default as a literal; quotes around a stored default are no part of its value."""
    if isinstance(dtype, AtomicType) and dtype.root in _BARE_ROOTS and _BARE.fullmatch(default):
        return default
    is_quoted = len(default) > 1 and default.startswith("'") and default.endswith("'")
    return quoted_text(default[1:-1] if is_quoted else default)
