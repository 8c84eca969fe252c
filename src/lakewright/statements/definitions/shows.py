"""SHOW: catalogs, databases, tables, columns and properties, in the columns that Spark has for them; and ANALYZE."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakewright.maintenance.statistics.columns import has_statistics
from lakewright.statements.definitions.alter import changeable
from lakewright.statements.definitions.columns import real_path
from lakewright.statements.definitions.describe import information, properties
from lakewright.statements.definitions.partitions import PartitionSpec, partition_names
from lakewright.statements.definitions.placing import (
    NOTHING,
    catalog_named,
    database_of,
    has_database,
    matching,
    no_database,
    placing,
    shown,
)
from lakewright.statements.model import Command
from lakewright.statements.session import Session
from lakewright.statements.text import Args, Name

_TABLES = {"namespace": False, "tableName": False, "isTemporary": False}


@dataclass(frozen=True, slots=True)
class ShowCatalogs(Command):
    """SHOW CATALOGS [LIKE pattern]."""

    pattern: str | None = None

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Show the names of the catalogs."""
        return shown({"catalog": False}, [(name,) for name in matching(sorted(session.catalogs), self.pattern)])


@dataclass(frozen=True, slots=True)
class ShowCurrent(Command):
    """SHOW CURRENT NAMESPACE | DATABASE | SCHEMA."""

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Show the current catalog and database."""
        return shown({"catalog": False, "namespace": False}, [(session.catalog_name, session.database)])


@dataclass(frozen=True, slots=True)
class ShowDatabases(Command):
    """SHOW DATABASES [IN catalog] [LIKE pattern]."""

    catalog: Name | None = None
    pattern: str | None = None

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Show the names of the databases."""
        catalog = session.catalog
        if self.catalog is not None:
            catalog = catalog_named(session, str(self.catalog), self.catalog.place)
        return shown({"namespace": False}, [(name,) for name in matching(catalog.list_databases(), self.pattern)])


@dataclass(frozen=True, slots=True)
class ShowTables(Command):
    """SHOW TABLES | VIEWS [IN database] [LIKE pattern]; a catalog of ours has no views."""

    database: Name | None = None
    pattern: str | None = None
    views: bool = False

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Show the names of the tables."""
        database, names = _tables(session, self)
        columns = {"viewName" if self.views and name == "tableName" else name: null for name, null in _TABLES.items()}
        return shown(columns, [] if self.views else [(database, name, False) for name in names])


@dataclass(frozen=True, slots=True)
class ShowTableExtended(Command):
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
        return shown({**_TABLES, "information": False}, rows)


@dataclass(frozen=True, slots=True)
class ShowColumns(Command):
    """SHOW COLUMNS FROM table [FROM database]."""

    name: Name

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Show the names of the columns."""
        return shown({"column": True}, [(field.name,) for field in session.table(self.name).fields])


@dataclass(frozen=True, slots=True)
class ShowProperties(Command):
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
        return shown({"key": False, "value": False}, sorted(found.items()))


@dataclass(frozen=True, slots=True)
class Refresh(Command):
    """REFRESH TABLE name: every statement reads the newest snapshot already."""

    name: Name

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Look that the table exists."""
        session.table(self.name)
        return NOTHING


@dataclass(frozen=True, slots=True)
class Analyze(Command):
    """ANALYZE TABLE name COMPUTE STATISTICS [FOR COLUMNS a, b | FOR ALL COLUMNS]."""

    name: Name
    columns: tuple[Name, ...] = ()
    all_columns: bool = False

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Count the rows, and the values of the columns, and record them in a snapshot."""
        _, _, table = changeable(session, self.name)
        named = {real_path(table.fields, one.parts)[0]: one.place for one in self.columns}
        chosen = [field.name for field in table.fields if has_statistics(field.type)] if self.all_columns else named
        with placing(self.name.place, named):
            session.analyze(table, list(chosen))
        return NOTHING


def _tables(session: Session, command: ShowTables | ShowTableExtended) -> tuple[str, list[str]]:
    """Return the database that a command names, and its tables that fit the pattern."""
    catalog, database = database_of(session, command.database)
    place = command.text if command.database is None else command.database.place
    if not has_database(session.catalogs[catalog], database):
        raise no_database(session.catalogs[catalog], database, place)
    with placing(place):
        return database, matching(session.catalogs[catalog].list_tables(database), command.pattern)
