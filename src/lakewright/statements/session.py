"""The names and settings that statements share: catalogs, the current catalog and database; names in, tables out."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from lakewright.catalog.base import Catalog
from lakewright.catalog.factory import CatalogFactory
from lakewright.catalog.system.database import SYSTEM_DATABASE
from lakewright.compact.rounds import CompactResult
from lakewright.errors import DatabaseNotExistException, NotFoundError, UnsupportedError
from lakewright.maintenance.statistics.analyze import Columns
from lakewright.spec import arguments
from lakewright.spec.identifier import Identifier
from lakewright.statements.text import Args, Fragment, Name, placed_error
from lakewright.table.table import FileStoreTable

Catalogs: TypeAlias = Catalog | str | os.PathLike[str] | Mapping[str, object]

DEFAULT_CATALOG = "paimon"  # the name of a catalog that is given without one


class Session(ABC):
    """What a command may ask for and change; a context is one."""

    def __init__(self, catalog: Catalogs, database: str = "default") -> None:
        self.catalogs = _named_catalogs(catalog)
        self.catalog_name = next(iter(self.catalogs))
        self.database = arguments.text("database", database)

    @abstractmethod
    def compact(self, table: FileStoreTable, **arguments: object) -> CompactResult:
        """Compact a table as `table.compact` does, on the workers of the engine if it has some."""

    def moment(self, expression: Fragment, args: Args) -> int:
        """Return the moment that an expression gives, in epoch milliseconds; the engine evaluates it."""
        raise NotImplementedError

    def analyze(self, table: FileStoreTable, columns: Columns) -> None:
        """Record statistics as `table.analyze` does, on the workers of the engine if it has some."""
        table.analyze(columns)

    # ---- settings: what SET sets

    @abstractmethod
    def settings(self) -> dict[str, str]:
        """Return everything that is set, by its key."""

    @abstractmethod
    def set(self, key: str, value: str | None) -> None:
        """Set a key; None takes the setting back."""

    # ---- names

    @property
    def catalog(self) -> Catalog:
        """The current catalog."""
        return self.catalogs[self.catalog_name]

    def use(self, catalog: str | None = None, database: str | None = None) -> None:
        """Make a catalog and a database the current ones, after looking that they exist."""
        name = self.catalog_name if catalog is None else catalog
        if name not in self.catalogs:
            raise NotFoundError(_unknown(f"catalog {name!r}", name, self.catalogs), catalog=name)
        if database not in (None, SYSTEM_DATABASE) and database not in self.catalogs[name].list_databases():
            known = self.catalogs[name].list_databases()
            raise DatabaseNotExistException(_unknown(f"database {database!r}", database, known), database=database)
        self.catalog_name = name
        self.database = database or ("default" if catalog is not None else self.database)

    def resolve(self, name: Name) -> tuple[Catalog, Identifier]:
        """Return the catalog and the identifier that a name of one, two or three parts means; it need not exist."""
        match name.parts:
            case (table,):
                return self.catalog, Identifier(self.database, table)
            case (database, table):
                return self.catalog, Identifier(database, table)
            case (catalog, database, table) if catalog in self.catalogs:
                return self.catalogs[catalog], Identifier(database, table)
            case (catalog, _, _):
                raise name.place.error(_unknown(f"catalog {catalog!r}", catalog, self.catalogs), kind=NotFoundError)
        raise name.place.error(f"{name} has {len(name.parts)} parts; a table is named [catalog.][database.]table")

    def table(self, name: Name) -> FileStoreTable:
        """Return the table that a name means; if there is none, the error shows the place and the nearest name."""
        catalog, identifier = self.resolve(name)
        try:
            return catalog.get_table(identifier)
        except NotFoundError as error:
            raise self.not_found(name, error) from None

    def changeable(self, name: Name) -> FileStoreTable:
        """Return the table that a name means, to be changed; a system table is refused."""
        table = self.table(name)
        if isinstance(table, FileStoreTable):
            return table
        message = f"{name} is a system table, which can only be read: name the table itself"
        raise name.place.error(message, kind=UnsupportedError, table=str(name))

    def not_found(self, name: Name, error: NotFoundError) -> NotFoundError:
        """Return the error for a table that does not exist, with the names that are near to it."""
        catalog, identifier = self.resolve(name)
        database, near = identifier.get_database_name(), ""
        if database in (databases := catalog.list_databases()):
            near = nearest(identifier.get_table_name(), catalog.list_tables(database))
        else:
            near = nearest(database, databases)
        return placed_error(type(error), f"{error.message}{near}", name.place.whole, name.place.start, **error.facts)


def _named_catalogs(given: object) -> dict[str, Catalog]:
    """Return the catalogs of a context by their names."""
    if isinstance(given, Mapping) and given and not {"warehouse", "metastore"} & given.keys():
        return {arguments.text("the name of a catalog", name): _one_catalog(one) for name, one in given.items()}
    return {DEFAULT_CATALOG: _one_catalog(given)}


def _one_catalog(given: object) -> Catalog:
    if isinstance(given, Catalog):
        return given
    if isinstance(given, str | os.PathLike):
        return CatalogFactory.create({"warehouse": os.fspath(given)})
    if isinstance(given, Mapping) and given:
        return CatalogFactory.create(given)
    raise arguments.wrong("catalog", "a catalog, its options, the path of a warehouse, or several by name", given)


def _unknown(what: str, name: str, known: Mapping[str, object] | Sequence[str]) -> str:
    return f"there is no {what}{nearest(name, list(known))}"


def nearest(name: str, known: Sequence[str]) -> str:
    """Return the end of an error that proposes the nearest known name, or nothing."""
    hint = arguments.did_you_mean(name, known)
    return f"; {hint}" if hint.startswith("did") else ""
