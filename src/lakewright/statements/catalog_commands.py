"""Databases, SHOW and DESCRIBE."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from lakewright.errors import DatabaseNotEmptyException, DatabaseNotExistException, pluralize
from lakewright.maintenance.table_analysis import has_statistics
from lakewright.spec.identifier import quote_identifier
from lakewright.spec.table_options import TableOptions
from lakewright.spec.table_schema import column_not_found
from lakewright.spec.types import (
    UNBOUNDED,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
)
from lakewright.statements.sql_session import (
    NOTHING,
    Session,
    catalog_named,
    command_rows,
    database_of,
    has_database,
    matching,
    no_database,
    with_position,
)
from lakewright.statements.sql_text import Args, Name
from lakewright.statements.statements import CatalogCommand
from lakewright.statements.table_commands import PartitionSpec, changeable, fields_inside, partition_names, real_path
from lakewright.table.file_store_table import FileStoreTable

# ---- Databases -------------------------------------------------------------------------------------------------------

_INFO = {"info_name": False, "info_value": True}


@dataclass(frozen=True, slots=True)
class CreateDatabase(CatalogCommand):
    """CREATE DATABASE [IF NOT EXISTS] name [COMMENT text] [WITH DBPROPERTIES (...)]."""

    name: Name
    if_not_exists: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Create the database."""
        catalog, database = database_of(session, self.name)
        with with_position(self.name.place):
            session.catalogs[catalog].create_database(database, self.if_not_exists, self.properties or None)
        return NOTHING


@dataclass(frozen=True, slots=True)
class DropDatabase(CatalogCommand):
    """DROP DATABASE [IF EXISTS] name [RESTRICT | CASCADE]."""

    name: Name
    if_exists: bool = False
    cascade: bool = False

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Drop the database; one with tables only with CASCADE."""
        name, database = database_of(session, self.name)
        catalog, place = session.catalogs[name], self.name.place
        try:
            with with_position(place):
                catalog.drop_database(database, self.if_exists, self.cascade)
        except DatabaseNotExistException:
            raise no_database(catalog, database, place) from None
        except DatabaseNotEmptyException as error:
            tables = catalog.list_tables(database)
            message = (
                f"the database {database!r} holds {pluralize(len(tables), 'table')} "
                f"({', '.join(tables[:5])}): drop them,"
                " or write DROP DATABASE ... CASCADE"
            )
            raise place.error(message, kind=type(error), database=database, tables=tuple(tables)) from None
        return NOTHING


@dataclass(frozen=True, slots=True)
class AlterDatabase(CatalogCommand):
    """ALTER DATABASE name SET | UNSET DBPROPERTIES (...), and COMMENT ON DATABASE; None removes a property."""

    name: Name
    changes: Mapping[str, str | None]

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Change properties of the database."""
        name, database = database_of(session, self.name)
        catalog = session.catalogs[name]
        if database not in catalog.list_databases():
            raise no_database(catalog, database, self.name.place)
        with with_position(self.name.place):
            catalog.alter_database(database, self.changes)
        return NOTHING


@dataclass(frozen=True, slots=True)
class DescribeDatabase(CatalogCommand):
    """DESCRIBE DATABASE [EXTENDED] name."""

    name: Name
    extended: bool = False

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Show the database."""
        name, database = database_of(session, self.name)
        catalog = session.catalogs[name]
        try:
            found = catalog.get_database(database)
        except DatabaseNotExistException:
            raise no_database(catalog, database, self.name.place) from None
        known = {"Comment": found.comment, "Location": found.options.get("location")}
        known["Owner"] = found.options.get("owner")
        rows = [("Catalog Name", name), ("Namespace Name", database)]
        rows += [(what, value) for what, value in known.items() if value is not None]
        if self.extended:
            others = sorted((k, v) for k, v in found.options.items() if k not in {"comment", "location", "owner"})
            rows.append(("Properties", f"({', '.join(f'({k},{v})' for k, v in others)})" if others else ""))
        return command_rows(_INFO, rows)


@dataclass(frozen=True, slots=True)
class DescribeCatalog(CatalogCommand):
    """DESCRIBE CATALOG name."""

    name: Name

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Show the catalog."""
        catalog = catalog_named(session, str(self.name), self.name.place)
        return command_rows(_INFO, [("Catalog Name", str(self.name)), ("Warehouse", catalog.warehouse)])


@dataclass(frozen=True, slots=True)
class Use(CatalogCommand):
    """USE [catalog.]database, USE catalog, USE CATALOG catalog."""

    name: Name
    is_catalog: bool = False

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Make the catalog or the database the current one."""
        first = self.name.parts[0]
        if self.is_catalog or (len(self.name.parts) == 1 and first in session.catalogs):
            catalog_named(session, str(self.name), self.name.place)
            session.use(catalog=first)
            return NOTHING
        catalog, database = database_of(session, self.name)
        if not has_database(session.catalogs[catalog], database):
            raise no_database(session.catalogs[catalog], database, self.name.place)
        session.use(catalog=catalog, database=database)
        return NOTHING


# ---- SQL texts of names and types ------------------------------------------------------------------------------------
# Invariant: a statement with these texts is read back to the same values.

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPED = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_RENAMED = {"TIMESTAMP_LTZ": "TIMESTAMP_LTZ", "TIMESTAMP": "TIMESTAMP_NTZ"}
_MICROS = 6


def quoted_name(name: str) -> str:
    """Return a name as it is written, in backticks if it has to be.

    >>> quoted_name("day"), quoted_name("a b")
    ('day', '`a b`')
    """
    return name if _PLAIN.fullmatch(name) else quote_identifier(name)


def quoted_text(text: str) -> str:
    r"""Return a text in quotes.

    >>> quoted_text("it's")
    "'it\\'s'"
    """
    return f"'{''.join(_ESCAPED.get(character, character) for character in text)}'"


def type_text(dtype: DataType) -> str:
    """Return a type as CREATE TABLE has it, without its own NOT NULL.

    >>> type_text(ArrayType(True, "TIMESTAMP(6) WITH LOCAL TIME ZONE"))
    'ARRAY<TIMESTAMP>'
    """
    match dtype:
        case AtomicType():
            return _atomic_text(dtype)
        case ArrayType() | MultisetType():
            return f"{dtype.keyword}<{_part_text(dtype.element, nullable=True)}>"
        case MapType():
            return f"MAP<{_part_text(dtype.key, nullable=False)}, {_part_text(dtype.value, nullable=True)}>"
        case RowType():
            return f"STRUCT<{', '.join(_field_text(field) for field in dtype.fields)}>"
        case VectorType():
            return f"VECTOR<{type_text(dtype.element)}, {dtype.length}>"


def shown_type(dtype: DataType) -> str:
    """Return a type as DESCRIBE shows it: Spark's name, in small letters."""
    match dtype:
        case AtomicType():
            return _shown_atomic(dtype)
        case ArrayType():
            return f"array<{shown_type(dtype.element)}>"
        case MapType() | MultisetType():
            return f"map<{shown_type(dtype.key)},{shown_type(dtype.value)}>"
        case RowType():
            return f"struct<{','.join(f'{field.name}:{shown_type(field.type)}' for field in dtype.fields)}>"
        case VectorType():
            return type_text(dtype).lower()


def _shown_atomic(dtype: AtomicType) -> str:
    if dtype.root in {"BINARY", "VARBINARY"}:
        return "binary"
    if dtype.root in _RENAMED:
        return "timestamp" if dtype.root == "TIMESTAMP_LTZ" else "timestamp_ntz"
    return dtype.type.lower().replace(", ", ",")


def _atomic_text(dtype: AtomicType) -> str:
    if dtype.root == "VARBINARY" and dtype.length == UNBOUNDED:
        return "BINARY"
    if dtype.root == "TIMESTAMP_LTZ" and dtype.precision == _MICROS:
        return "TIMESTAMP"
    if dtype.root in _RENAMED:
        name = _RENAMED[dtype.root]
        return name if dtype.precision == _MICROS else f"{name}({dtype.precision})"
    return dtype.type.replace(", ", ",")


def _part_text(dtype: DataType, *, nullable: bool) -> str:
    if dtype.nullable == nullable:
        return type_text(dtype)
    return f"{type_text(dtype)}{' NULL' if dtype.nullable else ' NOT NULL'}"


def _field_text(field: DataField) -> str:
    comment = "" if field.description is None else f" COMMENT {quoted_text(field.description)}"
    return f"{quoted_name(field.name)}: {_part_text(field.type, nullable=True)}{comment}"


# ---- DESCRIBE, SHOW CREATE TABLE -------------------------------------------------------------------------------------

PROVIDER = "paimon"
_COLUMNS = {"col_name": False, "data_type": False, "comment": True}
_BARE = re.compile(r"[+-]?\d+(\.\d+)?|true|false", re.IGNORECASE)  # defaults that need no quotes
_BARE_ROOTS = {"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"}


@dataclass(frozen=True, slots=True)
class DescribeTable(CatalogCommand):
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
        return command_rows(_COLUMNS, rows)


@dataclass(frozen=True, slots=True)
class ShowCreateTable(CatalogCommand):
    """SHOW CREATE TABLE name."""

    name: Name

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Show a statement that creates such a table."""
        catalog, identifier = session.resolve(self.name)
        own = next(name for name, one in session.catalogs.items() if one is catalog)
        parts = own, identifier.get_database_name(), identifier.get_object_name()
        text = _create_text(session.table(self.name), ".".join(map(quoted_name, parts)))
        return command_rows({"createtab_stmt": False}, [(text,)])


def describe_columns(columns: Iterable[tuple[str, str]]) -> pa.Table:
    """Return what DESCRIBE QUERY shows of columns that are given by their names and types."""
    return command_rows(_COLUMNS, [(name, dtype, None) for name, dtype in columns])


def properties(table: FileStoreTable) -> dict[str, str]:
    """Return the options of a table as properties, its primary key and its place among them."""
    found = dict(table.options.to_map())
    found.setdefault(TableOptions.path.key(), table.table_path)
    if table.primary_keys:
        found[TableOptions.primary_key.key()] = ",".join(table.primary_keys)
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
        with with_position(column.place):
            raise column_not_found(str(column), [one.name for one in siblings or table.fields])
    info = [("col_name", field.name), ("data_type", shown_type(field.type))]
    return command_rows({"info_name": False, "info_value": False}, [*info, ("comment", field.description or "NULL")])


def _create_text(table: FileStoreTable, name: str) -> str:
    columns = ",\n".join(f"  {_column_text(field)}" for field in table.fields)
    lines = [f"CREATE TABLE {name} (\n{columns})", f"USING {PROVIDER}"]
    if table.partition_keys:
        lines.append(f"PARTITIONED BY ({', '.join(map(quoted_name, table.partition_keys))})")
    if table.comment() is not None:
        lines.append(f"COMMENT {quoted_text(table.comment() or '')}")
    options = {key: value for key, value in properties(table).items() if key != TableOptions.path.key()}
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


# ---- SHOW, ANALYZE ---------------------------------------------------------------------------------------------------

_TABLES = {"namespace": False, "tableName": False, "isTemporary": False}


@dataclass(frozen=True, slots=True)
class ShowCatalogs(CatalogCommand):
    """SHOW CATALOGS [LIKE pattern]."""

    pattern: str | None = None

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Show the names of the catalogs."""
        return command_rows({"catalog": False}, [(name,) for name in matching(sorted(session.catalogs), self.pattern)])


@dataclass(frozen=True, slots=True)
class ShowCurrent(CatalogCommand):
    """SHOW CURRENT NAMESPACE | DATABASE | SCHEMA."""

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Show the current catalog and database."""
        return command_rows({"catalog": False, "namespace": False}, [(session.catalog_name, session.database)])


@dataclass(frozen=True, slots=True)
class ShowDatabases(CatalogCommand):
    """SHOW DATABASES [IN catalog] [LIKE pattern]."""

    catalog: Name | None = None
    pattern: str | None = None

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Show the names of the databases."""
        catalog = session.catalog
        if self.catalog is not None:
            catalog = catalog_named(session, str(self.catalog), self.catalog.place)
        return command_rows(
            {"namespace": False}, [(name,) for name in matching(catalog.list_databases(), self.pattern)]
        )


@dataclass(frozen=True, slots=True)
class ShowTables(CatalogCommand):
    """SHOW TABLES | VIEWS [IN database] [LIKE pattern]; a catalog of ours has no views."""

    database: Name | None = None
    pattern: str | None = None
    views: bool = False

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Show the names of the tables."""
        database, names = _tables(session, self)
        columns = {"viewName" if self.views and name == "tableName" else name: null for name, null in _TABLES.items()}
        return command_rows(columns, [] if self.views else [(database, name, False) for name in names])


@dataclass(frozen=True, slots=True)
class ShowTableExtended(CatalogCommand):
    """SHOW TABLE EXTENDED [IN database] LIKE pattern [PARTITION (...)]."""

    database: Name | None
    pattern: str | None
    partition: PartitionSpec | None = None

    def run(self, session: Session, args: Args) -> pa.Table:
        """Show the tables, or the partition of a table, with what there is to know about them."""
        database, names = _tables(session, self)
        catalog_name, _ = database_of(session, self.database)
        rows: list[tuple[str, str, bool, str]] = []
        for name in names:
            table = session.catalogs[catalog_name].get_table(f"`{database}`.`{name}`")
            if self.partition is None:
                rows.append((database, name, False, information(table, catalog_name)))
                continue
            found = partition_names(table, self.partition.of(table, args))
            rows += [(database, name, False, f"Partition Values: [{', '.join(one.split('/'))}]\n") for one in found]
        return command_rows({**_TABLES, "information": False}, rows)


@dataclass(frozen=True, slots=True)
class ShowColumns(CatalogCommand):
    """SHOW COLUMNS FROM table [FROM database]."""

    name: Name

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Show the names of the columns."""
        return command_rows({"column": True}, [(field.name,) for field in session.table(self.name).fields])


@dataclass(frozen=True, slots=True)
class ShowProperties(CatalogCommand):
    """SHOW TBLPROPERTIES table [(key)]."""

    name: Name
    key: str | None = None

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Show the options with their values; one that is not set says so."""
        table = session.table(self.name)
        found = properties(table)
        if self.key is not None:
            catalog, identifier = session.resolve(self.name)
            own = next(name for name, one in session.catalogs.items() if one is catalog)
            missing = f"Table {own}.{identifier.get_full_name()} does not have property: {self.key}"
            found = {self.key: found.get(self.key, missing)}
        return command_rows({"key": False, "value": False}, sorted(found.items()))


@dataclass(frozen=True, slots=True)
class Refresh(CatalogCommand):
    """REFRESH TABLE name: every statement reads the newest snapshot already."""

    name: Name

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Look that the table exists."""
        session.table(self.name)
        return NOTHING


@dataclass(frozen=True, slots=True)
class Analyze(CatalogCommand):
    """ANALYZE TABLE name COMPUTE STATISTICS [FOR COLUMNS a, b | FOR ALL COLUMNS]."""

    name: Name
    columns: tuple[Name, ...] = ()
    all_columns: bool = False

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Count the rows, and the values of the columns, and record them in a snapshot."""
        _, _, table = changeable(session, self.name)
        named = {real_path(table.fields, one.parts)[0]: one.place for one in self.columns}
        chosen = [field.name for field in table.fields if has_statistics(field.type)] if self.all_columns else named
        with with_position(self.name.place, named):
            session.analyze(table, list(chosen))
        return NOTHING


def _tables(session: Session, command: ShowTables | ShowTableExtended) -> tuple[str, list[str]]:
    """Return the database that a command names, and its tables that fit the pattern."""
    catalog, database = database_of(session, command.database)
    place = command.text if command.database is None else command.database.place
    if not has_database(session.catalogs[catalog], database):
        raise no_database(session.catalogs[catalog], database, place)
    with with_position(place):
        return database, matching(session.catalogs[catalog].list_tables(database), command.pattern)
