"""Commands about databases: CREATE, DROP, ALTER, DESCRIBE and USE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from lakewright.errors import DatabaseNotEmptyException, DatabaseNotExistException, counted
from lakewright.statements.definitions.placing import (
    NOTHING,
    catalog_named,
    database_of,
    has_database,
    no_database,
    placing,
    shown,
)
from lakewright.statements.model import Command
from lakewright.statements.session import Session
from lakewright.statements.text import Args, Name

_INFO = {"info_name": False, "info_value": True}


@dataclass(frozen=True, slots=True)
class CreateDatabase(Command):
    """CREATE DATABASE [IF NOT EXISTS] name [COMMENT text] [WITH DBPROPERTIES (...)]."""

    name: Name
    if_not_exists: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Create the database."""
        catalog, database = database_of(session, self.name)
        with placing(self.name.place):
            session.catalogs[catalog].create_database(database, self.if_not_exists, self.properties or None)
        return NOTHING


@dataclass(frozen=True, slots=True)
class DropDatabase(Command):
    """DROP DATABASE [IF EXISTS] name [RESTRICT | CASCADE]."""

    name: Name
    if_exists: bool = False
    cascade: bool = False

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Drop the database; one with tables only with CASCADE."""
        name, database = database_of(session, self.name)
        catalog, place = session.catalogs[name], self.name.place
        try:
            with placing(place):
                catalog.drop_database(database, self.if_exists, self.cascade)
        except DatabaseNotExistException:
            raise no_database(catalog, database, place) from None
        except DatabaseNotEmptyException as error:
            tables = catalog.list_tables(database)
            message = (
                f"the database {database!r} holds {counted(len(tables), 'table')} ({', '.join(tables[:5])}): drop them,"
                " or write DROP DATABASE ... CASCADE"
            )
            raise place.error(message, kind=type(error), database=database, tables=tuple(tables)) from None
        return NOTHING


@dataclass(frozen=True, slots=True)
class AlterDatabase(Command):
    """ALTER DATABASE name SET | UNSET DBPROPERTIES (...), and COMMENT ON DATABASE; None removes a property."""

    name: Name
    changes: Mapping[str, str | None]

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Change properties of the database."""
        name, database = database_of(session, self.name)
        catalog = session.catalogs[name]
        if database not in catalog.list_databases():
            raise no_database(catalog, database, self.name.place)
        with placing(self.name.place):
            catalog.alter_database(database, self.changes)
        return NOTHING


@dataclass(frozen=True, slots=True)
class DescribeDatabase(Command):
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
        return shown(_INFO, rows)


@dataclass(frozen=True, slots=True)
class DescribeCatalog(Command):
    """DESCRIBE CATALOG name."""

    name: Name

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Show the catalog."""
        catalog = catalog_named(session, str(self.name), self.name.place)
        return shown(_INFO, [("Catalog Name", str(self.name)), ("Warehouse", catalog.warehouse)])


@dataclass(frozen=True, slots=True)
class Use(Command):
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
