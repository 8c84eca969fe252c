"""Commands that create and drop tables: CREATE and REPLACE TABLE, with or without a query, LIKE, and DROP TABLE.

A table that replaces another is made beside it under a name of its own, filled, and then takes its place: the other one
is moved aside, the new one gets the name, and the other one is dropped. So a query may read the table that it replaces,
and a statement that fails leaves it as it was. The history of the replaced table ends: its snapshots and tags are gone.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakewright.catalog.base import Catalog
from lakewright.errors import (
    DatabaseNotExistException,
    NotFoundError,
    TableAlreadyExistException,
    TableNotExistException,
    naming,
)
from lakewright.spec.arrow import from_arrow_schema
from lakewright.spec.identifier import Identifier
from lakewright.spec.options import CoreOptions
from lakewright.spec.schema.declaration import Schema, new_table_schema
from lakewright.spec.types import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    RowType,
    with_nullable,
)
from lakewright.statements.definitions.columns import Column, refuse_same_name
from lakewright.statements.definitions.placing import NOTHING, folded, has_database, no_database, placing
from lakewright.statements.model import Command, CreatesTable
from lakewright.statements.session import Session
from lakewright.statements.text import Args, Fragment, Name


@dataclass(frozen=True, slots=True)
class TableClauses:
    """What stands behind the columns of CREATE TABLE."""

    options: Mapping[str, str] = field(default_factory=dict)
    partition_names: tuple[Name, ...] = ()
    partition_columns: tuple[Column, ...] = ()  # with types: they are columns of the table too
    comment: str | None = None
    places: Mapping[str, Fragment] = field(default_factory=dict)  # of the options, by their keys


@dataclass(frozen=True, slots=True)
class CreateTable(Command, CreatesTable):
    """CREATE [OR REPLACE] | REPLACE TABLE [IF NOT EXISTS] name (columns) clauses [AS query]."""

    name: Name
    columns: tuple[Column, ...]
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
        with placing(self.name.place):
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
        with placing(self.name.place):
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
                raise _taken(name, self.name, "write CREATE TABLE IF NOT EXISTS or CREATE OR REPLACE TABLE")
        elif not self.creates:
            message = f"the table {name.get_full_name()} does not exist; write CREATE OR REPLACE TABLE"
            missing = TableNotExistException(message, table=name.get_full_name())
            raise session.not_found(self.name, missing)
        made = self._beside(name) if self.replaces else name
        columns = [one.path for one in (*self.columns, *self.clauses.partition_columns)]
        places = {one.parts[-1]: one.place for one in (*self.keys, *self.clauses.partition_names, *columns)}
        with placing(self.name.place, {**places, **self.clauses.places}):
            schema = self._schema(fields)
            with naming(name.get_full_name()):  # what is wrong with it is said of the table that the user names
                new_table_schema(schema, time_millis=0)
            catalog.create_table(made, schema)
        return replace(self.name, parts=(*self.name.parts[:-1], made.table))

    def _beside(self, name: Identifier) -> Identifier:
        return Identifier(name.database, f"{name.table}__new_{self.mark}")

    def _schema(self, fields: Sequence[DataField]) -> Schema:
        names, clauses = [one.name for one in fields], self.clauses
        options, key = dict(clauses.options), CoreOptions.PRIMARY_KEY.key()
        if key in options:
            options[key] = ",".join(folded(one.strip(), names) for one in options[key].split(","))
        written = [*(n.parts[-1] for n in clauses.partition_names), *(c.name for c in clauses.partition_columns)]
        primary = [*(n.parts[-1] for n in self.keys), *(c.name for c in self.columns if c.is_key)]
        return Schema(
            fields,
            [folded(one, names) for one in written],
            [folded(one, names) for one in primary],
            options,
            clauses.comment,
        )


@dataclass(frozen=True, slots=True)
class CreateTableLike(Command):
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
            raise _taken(name, self.name, "write CREATE TABLE IF NOT EXISTS")
        with placing(self.name.place, self.clauses.places):
            own = {} if session.resolve(self.source)[1].is_system_table() else dict(source.schema.options)
            comment = self.clauses.comment if self.clauses.comment is not None else source.comment()
            keys = source.partition_keys, source.primary_keys
            catalog.create_table(name, Schema(source.fields, *keys, {**own, **self.clauses.options}, comment))
        return NOTHING


@dataclass(frozen=True, slots=True)
class DropTable(Command):
    """DROP TABLE [IF EXISTS] name [PURGE]."""

    name: Name
    if_exists: bool = False

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Drop the table with its files."""
        catalog, name = session.resolve(self.name)
        with placing(self.name.place):
            try:
                catalog.drop_table(name, self.if_exists)
            except NotFoundError as error:
                if not self.if_exists:
                    raise session.not_found(self.name, error) from None
        return NOTHING


@dataclass(frozen=True, slots=True)
class RenameTable(Command):
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
            raise _taken(target, new, "choose another name")
        with placing(self.name.place):
            catalog.rename_table(name, target)
        return NOTHING


def _exists(catalog: Catalog, name: Identifier, written: Name) -> bool:
    """Say whether there is such a table; its database must exist."""
    try:
        catalog.get_table(name)
    except DatabaseNotExistException:
        if not has_database(catalog, name.database):
            raise no_database(catalog, name.database, written.place) from None
        return False
    except NotFoundError:
        return False
    return True


def _taken(name: Identifier, written: Name, remedy: str) -> TableAlreadyExistException:
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
