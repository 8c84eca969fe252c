"""CREATE, ALTER, DROP TABLE; partitions; tags."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pyarrow as pa

from lakewright.catalog.catalog import Catalog
from lakewright.catalog.listing import entries_by_partition
from lakewright.errors import (
    ColumnAlreadyExistException,
    DatabaseNotExistException,
    InvalidInputError,
    NotFoundError,
    TableAlreadyExistException,
    TableNotExistException,
    TagAlreadyExistException,
    TagNotExistException,
    with_table_name,
)
from lakewright.spec.argument_checks import suggest_name
from lakewright.spec.arrow_types import from_arrow_schema
from lakewright.spec.identifier import Identifier
from lakewright.spec.scalars import cast_text, to_python
from lakewright.spec.schema import Move, Position, Schema, SchemaChange, new_table_schema
from lakewright.spec.table_options import TableOptions
from lakewright.spec.types import ArrayType, DataField, DataType, MapType, MultisetType, RowType, Value, with_nullable
from lakewright.statements.sql_session import (
    NOTHING,
    Session,
    command_rows,
    fold_case,
    has_database,
    no_database,
    with_position,
)
from lakewright.statements.sql_text import Args, Fragment, Name
from lakewright.statements.statements import CatalogCommand, CreatesTable
from lakewright.statements.token_cursor import literal_text
from lakewright.storage.table_layout import partition_text
from lakewright.table.file_store_table import FileStoreTable

# ---- Columns by path -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """The definition of a column: `path type [NOT NULL] [DEFAULT value] [COMMENT text] [FIRST | AFTER column]`."""

    path: Name
    type: DataType
    comment: str | None = None
    default: str | None = None
    move: Move | None = None
    is_key: bool = False  # PRIMARY KEY behind the column

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.parts[-1]


def real_path(fields: Sequence[DataField], path: Sequence[str]) -> tuple[str, ...]:
    """Return a path with the names as the table has them: names that differ only in capitals are the same."""
    out: list[str] = []
    for part in path:
        inner = fields_inside(fields, out)
        out.append(fold_case(part, [field.name for field in inner]))
    return tuple(out)


def fields_inside(fields: Sequence[DataField], path: Sequence[str]) -> Sequence[DataField]:
    """Return the fields that are at a path: those of a STRUCT, or the one part of an array or a map; none elsewhere."""
    for part in path:
        found = next((field.type for field in fields if field.name == part), None)
        fields = () if found is None else _parts(found)
    return fields


def _parts(dtype: DataType) -> Sequence[DataField]:
    match dtype:
        case RowType():
            return dtype.fields
        case ArrayType() | MultisetType():
            return (DataField(-1, "element", dtype.element),)
        case MapType():
            return (DataField(-1, "key", dtype.key), DataField(-1, "value", dtype.value))
        case _:
            return ()


def real_move(siblings: Sequence[DataField], move: Move | None, name: str) -> Move | None:
    """Return a move with the names as the table has them."""
    if move is None or move.reference_field_name is None:
        return None if move is None else Move(name, None, move.position)
    return Move(name, fold_case(move.reference_field_name, [field.name for field in siblings]), move.position)


def after(reference: str | None) -> Move:
    """Return FIRST (None) or AFTER a column, of a column that is named later."""
    return Move("_", reference, Position.FIRST if reference is None else Position.AFTER)


def refuse_same_name(name: str, taken: Sequence[str], place: Fragment) -> None:
    """Raise an error if a column has the name already, capitals or not: Spark could not tell them apart."""
    if name.casefold() in {one.casefold() for one in taken}:
        message = f"the column {name!r} is there twice: choose another name"
        raise place.error(message, kind=ColumnAlreadyExistException, column=name)


# ---- ALTER TABLE -----------------------------------------------------------------------------------------------------
# All actions of a statement become one list of changes, so that they take effect together or not at all.

COMMENT = "comment"  # the property that is the comment of the table


class TableAction(ABC):
    """One part of ALTER TABLE."""

    __slots__ = ()

    @abstractmethod
    def changes(self, fields: Sequence[DataField]) -> list[SchemaChange]:
        """Return the changes of a table of these columns."""

    @abstractmethod
    def names(self, fields: Sequence[DataField]) -> dict[str, Fragment]:
        """Return where columns and options stand in the text."""


@dataclass(frozen=True, slots=True)
class AlterTable(CatalogCommand):
    """ALTER TABLE name action, and COMMENT ON TABLE."""

    name: Name
    actions: tuple[TableAction, ...]

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Change the schema once."""
        catalog, identifier, table = changeable(session, self.name)
        changes = [change for action in self.actions for change in action.changes(table.fields)]
        names = {k: v for action in self.actions for k, v in action.names(table.fields).items()}
        place = next(iter(names.values())) if len(names) == 1 else self.name.place
        with with_position(place, names):
            if changes:
                catalog.alter_table(identifier, changes)
        return NOTHING


def changeable(session: Session, name: Name) -> tuple[Catalog, Identifier, FileStoreTable]:
    """Return a table to be changed; a system table is refused."""
    return *session.resolve(name), session.changeable(name)


@dataclass(frozen=True, slots=True)
class AddColumns(TableAction):
    """ADD COLUMNS (...)."""

    columns: tuple[ColumnDefinition, ...]

    def changes(self, fields: Sequence[DataField]) -> list[SchemaChange]:
        """Add each column in its place; rows that exist have null in it."""
        out: list[SchemaChange] = []
        added: dict[tuple[str, ...], list[str]] = {}
        for column in self.columns:
            parents = real_path(fields, column.path.parts[:-1])
            siblings = fields_inside(fields, parents)
            new = added.setdefault(parents, [])
            refuse_same_name(column.name, [*(one.name for one in siblings), *new], column.path.place)
            new.append(column.name)
            path, move = (*parents, column.name), real_move(siblings, column.move, column.name)
            out.append(SchemaChange.add_column(path, column.type, column.comment, move))
        return out

    def names(self, fields: Sequence[DataField]) -> dict[str, Fragment]:
        """Return where the columns stand."""
        return _places(fields, [column.path for column in self.columns])


@dataclass(frozen=True, slots=True)
class DropColumns(TableAction):
    """DROP COLUMNS [IF EXISTS] (...)."""

    paths: tuple[Name, ...]
    if_exists: bool = False

    def changes(self, fields: Sequence[DataField]) -> list[SchemaChange]:
        """Drop each column."""
        paths = [real_path(fields, path.parts) for path in self.paths]
        if self.if_exists:
            paths = [p for p in paths if p[-1] in {one.name for one in fields_inside(fields, p[:-1])}]
        return [SchemaChange.drop_column(path) for path in paths]

    def names(self, fields: Sequence[DataField]) -> dict[str, Fragment]:
        """Return where the columns stand."""
        return _places(fields, self.paths)


@dataclass(frozen=True, slots=True)
class RenameColumnAction(TableAction):
    """RENAME COLUMN path TO name."""

    path: Name
    new_name: str

    def changes(self, fields: Sequence[DataField]) -> list[SchemaChange]:
        """Rename the column."""
        return [SchemaChange.rename_column(real_path(fields, self.path.parts), self.new_name)]

    def names(self, fields: Sequence[DataField]) -> dict[str, Fragment]:
        """Return where the column stands."""
        return _places(fields, [self.path])


@dataclass(frozen=True, slots=True)
class AlterColumn(TableAction):
    """ALTER COLUMN path TYPE ... COMMENT ... SET | DROP NOT NULL, FIRST | AFTER, SET | DROP DEFAULT."""

    path: Name
    type: DataType | None = None
    nullable: bool | None = None
    comment: str | None = None
    move: Move | None = None
    default: str | None = None
    drop_default: bool = False

    def changes(self, fields: Sequence[DataField]) -> list[SchemaChange]:
        """Change the type, the nullability, the comment, the default and the place, as far as they are named."""
        path = real_path(fields, self.path.parts)
        out: list[SchemaChange] = []
        if self.type is not None:
            out.append(SchemaChange.update_column_type(path, self.type, keep_nullability=True))
        if self.nullable is not None:
            out.append(SchemaChange.update_column_nullability(path, self.nullable))
        if self.comment is not None:
            out.append(SchemaChange.update_column_comment(path, self.comment))
        if self.default is not None or self.drop_default:
            out.append(SchemaChange.update_column_default_value(path, self.default))
        move = real_move(fields_inside(fields, path[:-1]), self.move, path[-1])
        if move is not None:
            out.append(SchemaChange.update_column_position(move, inside=path[:-1] or None))
        return out

    def names(self, fields: Sequence[DataField]) -> dict[str, Fragment]:
        """Return where the column stands."""
        return _places(fields, [self.path])


@dataclass(frozen=True, slots=True)
class ReplaceColumns(TableAction):
    """REPLACE COLUMNS (...): a column of the same name stays with its values, the others are dropped or added."""

    columns: tuple[ColumnDefinition, ...]

    def changes(self, fields: Sequence[DataField]) -> list[SchemaChange]:
        """Return what makes these the columns, in this order."""
        seen: list[str] = []
        out: list[SchemaChange] = []
        old = {one.name: one for one in fields}
        for column in self.columns:
            refuse_same_name(column.name, seen, column.path.place)
            seen.append(column.name)
        kept = {real_path(fields, (name,))[0] for name in seen}
        for number, column in enumerate(self.columns):
            name = real_path(fields, (column.name,))[0]
            move = Move.first(name) if number == 0 else Move.after(name, real_path(fields, (seen[number - 1],))[0])
            if name in old:
                out += _replace_changes(old[name], column)
                out.append(SchemaChange.update_column_position(move))
            else:
                out.append(SchemaChange.add_column(name, column.type, column.comment, move))
        return [*out, *(SchemaChange.drop_column(name) for name in old if name not in kept)]

    def names(self, fields: Sequence[DataField]) -> dict[str, Fragment]:
        """Return where the columns stand."""
        return _places(fields, [column.path for column in self.columns])


def _replace_changes(old: DataField, column: ColumnDefinition) -> list[SchemaChange]:
    """Return what makes a column of the table the one that REPLACE COLUMNS names."""
    out: list[SchemaChange] = []
    if with_nullable(old.type, column.type.nullable) != column.type and not _same_type(old.type, column.type):
        out.append(SchemaChange.update_column_type(old.name, column.type, keep_nullability=True))
    if old.type.nullable != column.type.nullable:
        out.append(SchemaChange.update_column_nullability(old.name, column.type.nullable))
    if old.description != column.comment:
        out.append(SchemaChange.update_column_comment(old.name, column.comment))
    return out


def _same_type(one: DataType, other: DataType) -> bool:
    """Return whether two types read the same; the ids of fields inside do not count."""
    return str(with_nullable(one, nullable=True)) == str(with_nullable(other, nullable=True))


@dataclass(frozen=True, slots=True)
class SetOptions(TableAction):
    """SET and UNSET TBLPROPERTIES; None removes an option, and `comment` is the comment of the table."""

    options: Mapping[str, str | None]
    places: Mapping[str, Fragment] = field(default_factory=dict)

    def changes(self, fields: Sequence[DataField]) -> list[SchemaChange]:  # noqa: ARG002 - options only
        """Set and remove the options."""
        return [
            SchemaChange.update_comment(value)
            if key == COMMENT
            else SchemaChange.remove_option(key)
            if value is None
            else SchemaChange.set_option(key, value)
            for key, value in self.options.items()
        ]

    def names(self, fields: Sequence[DataField]) -> dict[str, Fragment]:  # noqa: ARG002 - options only
        """Return where the options stand."""
        return dict(self.places)


def _places(fields: Sequence[DataField], paths: Sequence[Name]) -> dict[str, Fragment]:
    return {".".join(real_path(fields, path.parts)): path.place for path in paths}


# ---- CREATE and DROP TABLE -------------------------------------------------------------------------------------------
# A table that replaces another is made beside it under a name of its own, filled, and then takes its place: the other
# one is moved aside, the new one gets the name, and the other one is dropped. So a query may read the table that it
# replaces, and a statement that fails leaves it as it was. The history of the replaced table ends: its snapshots and
# tags are gone.


@dataclass(frozen=True, slots=True)
class TableClauses:
    """What stands behind the columns of CREATE TABLE."""

    options: Mapping[str, str] = field(default_factory=dict)
    partition_names: tuple[Name, ...] = ()
    partition_columns: tuple[ColumnDefinition, ...] = ()  # with types: they are columns of the table too
    comment: str | None = None
    places: Mapping[str, Fragment] = field(default_factory=dict)  # of the options, by their keys


@dataclass(frozen=True, slots=True)
class CreateTable(CatalogCommand, CreatesTable):
    """CREATE [OR REPLACE] | REPLACE TABLE [IF NOT EXISTS] name (columns) clauses [AS query]."""

    name: Name
    columns: tuple[ColumnDefinition, ...]
    keys: tuple[Name, ...]  # of PRIMARY KEY (...)
    clauses: TableClauses
    if_not_exists: bool = False
    replaces: bool = False
    creates: bool = True  # False: REPLACE TABLE, which needs one that exists
    mark: str = field(default_factory=lambda: uuid.uuid4().hex[:8])  # of the tables beside this one

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Create the table, or let it take the place of another."""
        columns = (*self.columns, *self.clauses.partition_columns)
        seen: list[str] = []
        for column in columns:
            refuse_same_name(column.name, seen, column.path.place)
            seen.append(column.name)
        fields = [DataField(n, c.name, c.type, c.comment, c.default) for n, c in enumerate(columns)]
        if self._create(session, fields) is not None:
            self.finish(session)
        return NOTHING

    def create_as(self, session: Session, columns: pa.Schema) -> Name | None:
        """Create the table of the columns of a query, all of which may hold nulls."""
        with with_position(self.name.place):
            fields = from_arrow_schema(columns)
        return self._create(session, [replace(one, type=_nullable(one.type)) for one in fields])

    def finish(self, session: Session) -> None:
        """Give a table that replaces another its name, and drop the other."""
        if not self.replaces:
            return
        catalog, name = session.resolve(self.name)
        made, old = self._beside(name), Identifier(name.database, f"{name.table}__old_{self.mark}")
        if not _exists(catalog, name, self.name):
            catalog.rename_table(made, name)
            return
        with with_position(self.name.place):
            catalog.rename_table(name, old)
            try:
                catalog.rename_table(made, name)
            except BaseException:
                catalog.rename_table(old, name)
                raise
            catalog.drop_table(old)

    def undo(self, session: Session) -> None:
        """Drop the table that was made."""
        catalog, name = session.resolve(self.name)
        catalog.drop_table(self._beside(name) if self.replaces else name, ignore_if_not_exists=True)

    def _create(self, session: Session, fields: Sequence[DataField]) -> Name | None:
        """Create the table, beside the one that it replaces; None: it exists, and stays as it is."""
        catalog, name = session.resolve(self.name)
        if _exists(catalog, name, self.name):
            if self.if_not_exists:
                return None
            if not self.replaces:
                raise _table_exists_error(
                    name, self.name, "write CREATE TABLE IF NOT EXISTS or CREATE OR REPLACE TABLE"
                )
        elif not self.creates:
            message = f"the table {name.get_full_name()} does not exist; write CREATE OR REPLACE TABLE"
            missing = TableNotExistException(message, table=name.get_full_name())
            raise session.not_found(self.name, missing)
        made = self._beside(name) if self.replaces else name
        columns = [one.path for one in (*self.columns, *self.clauses.partition_columns)]
        places = {one.parts[-1]: one.place for one in (*self.keys, *self.clauses.partition_names, *columns)}
        with with_position(self.name.place, {**places, **self.clauses.places}):
            schema = self._schema(fields)
            with with_table_name(
                name.get_full_name()
            ):  # what is wrong with it is said of the table that the user names
                new_table_schema(schema, time_millis=0)
            catalog.create_table(made, schema)
        return replace(self.name, parts=(*self.name.parts[:-1], made.table))

    def _beside(self, name: Identifier) -> Identifier:
        return Identifier(name.database, f"{name.table}__new_{self.mark}")

    def _schema(self, fields: Sequence[DataField]) -> Schema:
        names, clauses = [one.name for one in fields], self.clauses
        options, key = dict(clauses.options), TableOptions.primary_key.key()
        if key in options:
            options[key] = ",".join(fold_case(one.strip(), names) for one in options[key].split(","))
        written = [*(n.parts[-1] for n in clauses.partition_names), *(c.name for c in clauses.partition_columns)]
        primary = [*(n.parts[-1] for n in self.keys), *(c.name for c in self.columns if c.is_key)]
        return Schema(
            fields,
            [fold_case(one, names) for one in written],
            [fold_case(one, names) for one in primary],
            options,
            clauses.comment,
        )


@dataclass(frozen=True, slots=True)
class CreateTableLike(CatalogCommand):
    """CREATE TABLE [IF NOT EXISTS] name LIKE table [TBLPROPERTIES (...)]: its columns, keys, options and comment."""

    name: Name
    source: Name
    clauses: TableClauses
    if_not_exists: bool = False

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Create an empty table in the shape of another."""
        source = session.table(self.source)
        catalog, name = session.resolve(self.name)
        if _exists(catalog, name, self.name):
            if self.if_not_exists:
                return NOTHING
            raise _table_exists_error(name, self.name, "write CREATE TABLE IF NOT EXISTS")
        with with_position(self.name.place, self.clauses.places):
            own = {} if session.resolve(self.source)[1].is_system_table() else dict(source.schema.options)
            comment = self.clauses.comment if self.clauses.comment is not None else source.comment()
            keys = source.partition_keys, source.primary_keys
            catalog.create_table(name, Schema(source.fields, *keys, {**own, **self.clauses.options}, comment))
        return NOTHING


@dataclass(frozen=True, slots=True)
class DropTable(CatalogCommand):
    """DROP TABLE [IF EXISTS] name [PURGE]."""

    name: Name
    if_exists: bool = False

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Drop the table with its files."""
        catalog, name = session.resolve(self.name)
        with with_position(self.name.place):
            try:
                catalog.drop_table(name, self.if_exists)
            except NotFoundError as error:
                if not self.if_exists:
                    raise session.not_found(self.name, error) from None
        return NOTHING


@dataclass(frozen=True, slots=True)
class RenameTable(CatalogCommand):
    """ALTER TABLE name RENAME TO [database.]name."""

    name: Name
    new_name: Name

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Give the table another name; without a database it stays in its own."""
        session.table(self.name)
        catalog, name = session.resolve(self.name)
        new = self.new_name
        if len(new.parts) > 2:  # noqa: PLR2004 - a database and a table
            raise new.place.error(f"{new} names a catalog: a table stays in its own, write RENAME TO [database.]table")
        database = new.parts[0] if len(new.parts) > 1 else name.database
        target = Identifier(database, new.parts[-1])
        if _exists(catalog, target, new):
            raise _table_exists_error(target, new, "choose another name")
        with with_position(self.name.place):
            catalog.rename_table(name, target)
        return NOTHING


def _exists(catalog: Catalog, name: Identifier, written: Name) -> bool:
    """Return whether there is such a table; its database must exist."""
    try:
        catalog.get_table(name)
    except DatabaseNotExistException:
        if not has_database(catalog, name.database):
            raise no_database(catalog, name.database, written.place) from None
        return False
    except NotFoundError:
        return False
    return True


def _table_exists_error(name: Identifier, written: Name, remedy: str) -> TableAlreadyExistException:
    full = name.get_full_name()
    message = f"the table {full} already exists; {remedy}"
    return written.place.error(message, kind=TableAlreadyExistException, table=full)


def _nullable(dtype: DataType) -> DataType:
    """Return the type with nulls allowed on every level, but for the keys of maps."""
    match dtype:
        case ArrayType():
            return ArrayType(nullable=True, element_type=_nullable(dtype.element))
        case MapType():
            key = with_nullable(dtype.key, nullable=False)
            return MapType(nullable=True, key_type=key, value_type=_nullable(dtype.value))
        case RowType():
            return RowType(nullable=True, fields=[replace(one, type=_nullable(one.type)) for one in dtype.fields])
        case _:
            return with_nullable(dtype, nullable=True)


# ---- Partitions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """PARTITION (column = value, ...); a column may stand there without a value."""

    values: Mapping[str, Fragment | None]
    place: Fragment

    def of(self, table: FileStoreTable, args: Args) -> dict[str, Value]:
        """Return the values by the names of the partition columns; columns without a value are left out."""
        keys = table.partition_keys
        if not keys:
            raise self.place.error(f"the table {table.name} has no partitions", kind=InvalidInputError)
        found: dict[str, Value] = {}
        for written, value in self.values.items():
            name = fold_case(written, keys)
            if name not in keys:
                message = f"{written!r} is no partition column of {table.name}; {suggest_name(written, keys)}"
                raise self.place.error(message, kind=InvalidInputError, column=written)
            if value is not None:
                found[name] = self._value(table, name, value, args)
        return found

    def _value(self, table: FileStoreTable, name: str, value: Fragment, args: Args) -> Value:
        text = literal_text(value, args, what=f"the value of {name}")
        with with_position(value):
            return None if text is None else cast_text(text, table.schema.field(name).type)


@dataclass(frozen=True, slots=True)
class ShowPartitions(CatalogCommand):
    """SHOW PARTITIONS name [PARTITION (...)]."""

    name: Name
    partition: PartitionSpec | None = None

    def run(self, session: Session, args: Args) -> pa.Table:
        """Show the names of the partitions, in order."""
        table = session.changeable(self.name)
        if not table.partition_keys:
            raise self.name.place.error(f"the table {table.name} has no partitions", kind=InvalidInputError)
        wanted = {} if self.partition is None else self.partition.of(table, args)
        return command_rows({"partition": False}, [(name,) for name in partition_names(table, wanted)])


@dataclass(frozen=True, slots=True)
class DropPartitions(CatalogCommand):
    """ALTER TABLE name DROP [IF EXISTS] PARTITION (...), ...; a spec may leave columns out."""

    name: Name
    partitions: tuple[PartitionSpec, ...]
    if_exists: bool = False

    def run(self, session: Session, args: Args) -> pa.Table:
        """Remove all rows of the partitions in one snapshot."""
        catalog, identifier, table = changeable(session, self.name)
        specs: list[dict[str, object]] = []
        for partition in self.partitions:
            spec = partition.of(table, args)
            if not spec:
                raise partition.place.error("name the value of at least one partition column", kind=InvalidInputError)
            if partition_names(table, spec):
                specs.append({name: to_python(v, table.schema.field(name).type) for name, v in spec.items()})
            elif not self.if_exists:
                known = partition_names(table, {})
                message = f"{table.name} has no such partition; there are {', '.join(known[:10]) or 'none'}"
                raise partition.place.error(f"{message}; or write DROP IF EXISTS", kind=NotFoundError)
        with with_position(self.name.place):
            if specs:
                catalog.drop_partitions(identifier, specs)
        return NOTHING


@dataclass(frozen=True, slots=True)
class Truncate(CatalogCommand):
    """TRUNCATE TABLE name [PARTITION (...)]."""

    name: Name
    partition: PartitionSpec | None = None

    def run(self, session: Session, args: Args) -> pa.Table:
        """Remove all rows of the table, or of the partitions that fit, in one snapshot."""
        _, _, table = changeable(session, self.name)
        spec = None if self.partition is None else self.partition.of(table, args)
        with with_position(self.name.place), table.new_batch_write_builder().new_commit() as commit:
            if spec:
                commit.truncate_partitions({n: to_python(v, table.schema.field(n).type) for n, v in spec.items()})
            else:
                commit.truncate_table()
        return NOTHING


def partition_names(table: FileStoreTable, wanted: Mapping[str, Value]) -> list[str]:
    """Return the names of the partitions with these values, such as `day=2026-01-31/hour=7`, in order."""
    fields = table.schema.partition_fields
    found = [table.store.partition_values(row) for row in entries_by_partition(table.store)]
    return sorted(
        partition_text(values, fields, default_name="null", legacy=False)
        for values in found
        if _fits(values, [one.name for one in fields], wanted)
    )


def _fits(values: Sequence[Value], names: Sequence[str], wanted: Mapping[str, Value]) -> bool:
    return all(value == wanted[name] for name, value in zip(names, values, strict=True) if name in wanted)


# ---- Tags ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SetTag(CatalogCommand):
    """CREATE [OR REPLACE] TAG [IF NOT EXISTS] | REPLACE TAG tag [AS OF VERSION snapshot] [RETAIN time]."""

    name: Name
    tag: str
    place: Fragment
    snapshot: int | None = None
    retained: timedelta | None = None
    creates: bool = True
    replaces: bool = False
    if_not_exists: bool = False

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Let the tag name a snapshot."""
        _, _, table = changeable(session, self.name)
        exists = self.tag in table.list_tags()
        if exists and not self.replaces:
            if self.if_not_exists:
                return NOTHING
            message = f"the tag {self.tag!r} of {table.name} already exists; write CREATE TAG IF NOT EXISTS or"
            raise self.place.error(f"{message} CREATE OR REPLACE TAG", kind=TagAlreadyExistException, tag=self.tag)
        if not exists and not self.creates:
            raise _no_tag(table, self.tag, self.place)
        with with_position(self.place):
            if exists:
                table.replace_tag(self.tag, self.snapshot, self.retained)
            else:
                table.create_tag(self.tag, self.snapshot, time_retained=self.retained)
        return NOTHING


@dataclass(frozen=True, slots=True)
class DeleteTags(CatalogCommand):
    """DELETE TAG [IF EXISTS] tag; several have commas between them."""

    name: Name
    tags: str
    place: Fragment
    if_exists: bool = False

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Delete the tags; if one of them does not exist, none is."""
        _, _, table = changeable(session, self.name)
        known = table.list_tags()
        tags = [self.tags] if self.tags in known else [tag.strip() for tag in self.tags.split(",")]
        missing = [tag for tag in tags if tag not in known]
        if missing and not self.if_exists:
            raise _no_tag(table, missing[0], self.place)
        with with_position(self.place):
            for tag in tags:
                if tag in known:
                    table.delete_tag(tag)
        return NOTHING


@dataclass(frozen=True, slots=True)
class RenameTag(CatalogCommand):
    """RENAME TAG tag TO name."""

    name: Name
    tag: str
    new_tag: str
    place: Fragment

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Give the tag another name."""
        _, _, table = changeable(session, self.name)
        if self.tag not in table.list_tags():
            raise _no_tag(table, self.tag, self.place)
        with with_position(self.place):
            table.rename_tag(self.tag, self.new_tag)
        return NOTHING


@dataclass(frozen=True, slots=True)
class ShowTags(CatalogCommand):
    """SHOW TAGS name, and SHOW BRANCHES name."""

    name: Name
    branches: bool = False

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Show the names, in order."""
        _, _, table = changeable(session, self.name)
        names = table.list_branches() if self.branches else table.list_tags()
        return command_rows({"branch" if self.branches else "tag": False}, [(name,) for name in sorted(names)])


def _no_tag(table: FileStoreTable, tag: str, place: Fragment) -> NotFoundError:
    hint = suggest_name(tag, table.list_tags())
    return place.error(f"{table.name} has no tag {tag!r}; {hint}", kind=TagNotExistException, tag=tag)
