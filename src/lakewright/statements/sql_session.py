"""Catalogs, current database, settings; helpers of commands."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import pyarrow as pa

from lakewright.catalog.catalog import Catalog
from lakewright.catalog.catalog_registry import CatalogFactory
from lakewright.catalog.sys_database import SYSTEM_DATABASE
from lakewright.compact.compaction_rounds import CompactResult
from lakewright.errors import (
    DatabaseNotExistException,
    LakewrightError,
    NotFoundError,
    SQLSyntaxError,
    UnsupportedError,
)
from lakewright.maintenance.table_analysis import Columns
from lakewright.spec import argument_checks
from lakewright.spec.argument_checks import suggest_name
from lakewright.spec.identifier import Identifier
from lakewright.statements.sql_text import Args, Fragment, Name, error_at
from lakewright.table.file_store_table import FileStoreTable

# ---- Catalogs, names and settings ------------------------------------------------------------------------------------

Catalogs: TypeAlias = Catalog | str | os.PathLike[str] | Mapping[str, object]

DEFAULT_CATALOG = "paimon"  # the name of a catalog that is given without one


class Session(ABC):
    """What a command may ask for and change; a context is one."""

    def __init__(self, catalog: Catalogs, database: str = "default") -> None:
        self.catalogs = _named_catalogs(catalog)
        self.catalog_name = next(iter(self.catalogs))
        self.database = argument_checks.check_text("database", database)

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
        return error_at(type(error), f"{error.message}{near}", name.place.whole, name.place.start, **error.facts)


def _named_catalogs(given: object) -> dict[str, Catalog]:
    """Return the catalogs of a context by their names."""
    if isinstance(given, Mapping) and given and not {"warehouse", "metastore"} & given.keys():
        return {
            argument_checks.check_text("the name of a catalog", name): one_catalog(one) for name, one in given.items()
        }
    return {DEFAULT_CATALOG: one_catalog(given)}


def one_catalog(given: object) -> Catalog:
    """Return a catalog that is given as it is, by its options or by the path of its warehouse."""
    if isinstance(given, Catalog):
        return given
    if isinstance(given, str | os.PathLike):
        return CatalogFactory.create({"warehouse": os.fspath(given)})
    if isinstance(given, Mapping) and given:
        return CatalogFactory.create(given)
    raise argument_checks.argument_error(
        "catalog", "a catalog, its options, the path of a warehouse, or several by name", given
    )


def _unknown(what: str, name: str, known: Mapping[str, object] | Sequence[str]) -> str:
    return f"there is no {what}{nearest(name, list(known))}"


def nearest(name: str, known: Sequence[str]) -> str:
    """Return the end of an error that proposes the nearest known name, or nothing."""
    hint = argument_checks.suggest_name(name, known)
    return f"; {hint}" if hint.startswith("did") else ""


# ---- Helpers of commands ---------------------------------------------------------------------------------------------

NOTHING = pa.table({})  # what a command shows that has nothing to show
DEFAULT_DATABASE = "default"


@contextmanager
def with_position(place: Fragment, names: Mapping[str, Fragment] | None = None) -> Iterator[None]:
    """Show where in the text an error belongs: at the column or option that it is about, else at `place`."""
    try:
        yield
    except LakewrightError as error:
        facts = error.facts
        if "line" in facts:
            raise
        about = [facts.get("column"), facts.get("option")]
        about = about if any(about) else _texts(facts.get("columns"))
        found = next((names[name] for name in about if names and isinstance(name, str) and name in names), place)
        raise error_at(type(error), error.message, found.whole, found.start, **facts) from error


def _texts(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []


def command_rows(columns: Mapping[str, bool], rows: Iterable[Sequence[object]]) -> pa.Table:
    """Return rows of texts and booleans; a column is given by its name and whether it may hold nulls."""
    lists = list(zip(*rows, strict=True)) or [()] * len(columns)
    kinds = [pa.bool_() if any(isinstance(value, bool) for value in values) else pa.string() for values in lists]
    fields = [
        pa.field(name, pa.bool_() if name == "isTemporary" else kind, nullable=nullable)
        for (name, nullable), kind in zip(columns.items(), kinds, strict=True)
    ]
    return pa.table(
        [pa.array(list(values), f.type) for values, f in zip(lists, fields, strict=True)], pa.schema(fields)
    )


def matching(names: Iterable[str], pattern: str | None) -> list[str]:
    """Return the names that fit a pattern of SHOW: `*` is any text, `|` stands between patterns, case does not matter.

    >>> matching(["orders", "items", "ORDER_2"], "or*|x")
    ['orders', 'ORDER_2']
    """
    if pattern is None:
        return list(names)
    likes = [".*".join(map(re.escape, one.strip().split("*"))) for one in pattern.split("|")]
    return [name for name in names if any(re.fullmatch(like, name, re.IGNORECASE | re.DOTALL) for like in likes)]


def fold_case(name: str, known: Iterable[str]) -> str:
    """Return the name among the known ones that is the same but for capitals, if exactly one is; else the name."""
    choices = list(known)
    same = [one for one in choices if one.casefold() == name.casefold()]
    return same[0] if name not in choices and len(same) == 1 else name


def catalog_named(session: Session, name: str, place: Fragment) -> Catalog:
    """Return a catalog by its name."""
    if name not in session.catalogs:
        hint = suggest_name(name, session.catalogs)
        raise place.error(f"there is no catalog {name!r}; {hint}", kind=NotFoundError, catalog=name)
    return session.catalogs[name]


def database_of(session: Session, name: Name | None) -> tuple[str, str]:
    """Return the names of the catalog and of the database that a name of one or two parts means; None: the current."""
    if name is None:
        return session.catalog_name, session.database
    match name.parts:
        case (database,):
            return session.catalog_name, database
        case (catalog, database):
            catalog_named(session, catalog, name.place)
            return catalog, database
    raise name.place.error(f"{name} has too many parts; a database is named [catalog.]database", kind=SQLSyntaxError)


def has_database(catalog: Catalog, database: str) -> bool:
    """Return whether a database exists. The one named `default` always does: it is created when it is asked for."""
    if database == SYSTEM_DATABASE or database in catalog.list_databases():
        return True
    if database == DEFAULT_DATABASE:
        catalog.create_database(database, ignore_if_exists=True)
    return database == DEFAULT_DATABASE


def no_database(catalog: Catalog, database: str, place: Fragment) -> DatabaseNotExistException:
    """Return the error for a database that does not exist, with the nearest name."""
    hint = suggest_name(database, catalog.list_databases())
    message = f"the database {database!r} does not exist; {hint}"
    return place.error(message, kind=DatabaseNotExistException, database=database)
