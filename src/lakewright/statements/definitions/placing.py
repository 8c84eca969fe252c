"""What commands share: errors shown at their place in the text, rows, patterns of names, names of databases."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from lakewright.catalog.base import Catalog
from lakewright.catalog.system.database import SYSTEM_DATABASE
from lakewright.errors import DatabaseNotExistException, LakewrightError, NotFoundError, SQLSyntaxError
from lakewright.spec.arguments import did_you_mean
from lakewright.statements.session import Session
from lakewright.statements.text import Fragment, Name, placed_error

NOTHING = pa.table({})  # what a command shows that has nothing to show
DEFAULT_DATABASE = "default"


@contextmanager
def placing(place: Fragment, names: Mapping[str, Fragment] | None = None) -> Iterator[None]:
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
        raise placed_error(type(error), error.message, found.whole, found.start, **facts) from error


def _texts(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []


def shown(columns: Mapping[str, bool], rows: Iterable[Sequence[object]]) -> pa.Table:
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


def folded(name: str, known: Iterable[str]) -> str:
    """Return the name among the known ones that is the same but for capitals, if exactly one is; else the name."""
    choices = list(known)
    same = [one for one in choices if one.casefold() == name.casefold()]
    return same[0] if name not in choices and len(same) == 1 else name


def catalog_named(session: Session, name: str, place: Fragment) -> Catalog:
    """Return a catalog by its name."""
    if name not in session.catalogs:
        hint = did_you_mean(name, session.catalogs)
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
    """Say whether a database exists. The one named `default` always does: it is created when it is asked for."""
    if database == SYSTEM_DATABASE or database in catalog.list_databases():
        return True
    if database == DEFAULT_DATABASE:
        catalog.create_database(database, ignore_if_exists=True)
    return database == DEFAULT_DATABASE


def no_database(catalog: Catalog, database: str, place: Fragment) -> DatabaseNotExistException:
    """Return the error for a database that does not exist, with the nearest name."""
    hint = did_you_mean(database, catalog.list_databases())
    message = f"the database {database!r} does not exist; {hint}"
    return place.error(message, kind=DatabaseNotExistException, database=database)
