"""The catalog and the table that a command names; secrets in its arguments."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from lakewright.catalog.catalog import Catalog
from lakewright.catalog.catalog_registry import CATALOG, CatalogFactory, named_catalogs
from lakewright.catalog.filesystem_catalog import FileSystemCatalog
from lakewright.cli.cli_options import WAREHOUSE, Arguments
from lakewright.errors import InvalidInputError, NotFoundError
from lakewright.spec.identifier import Identifier
from lakewright.spec.option_checks import SECRET_KEYS, redact_secret
from lakewright.spec.table_options import TableOptions
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.open_table import open_table
from lakewright.table.system_tables import system_table
from lakewright.table.table_views import RowView, SystemTable

# ---- Secrets in arguments --------------------------------------------------------------------------------------------

_SHORTEST = 3  # shorter values stand in too many words by chance
_STARS = "***"
_PAIR = re.compile(r"(?:--?[\w-]+=)?([^=\s]+)=(.+)", re.DOTALL)


class Secrets:
    """The secrets that a run of the program came across."""

    def __init__(self) -> None:
        self._values: set[str] = set()

    def note_options(self, options: Mapping[str, str]) -> None:
        """Remember the values of options whose keys say that they are secret."""
        for key, value in options.items():
            if re.search(SECRET_KEYS, key) and len(value) >= _SHORTEST:
                self._values.add(value)

    def note_words(self, words: Sequence[str]) -> None:
        """Remember the values of words such as `token=...` of a command line."""
        found = (_PAIR.fullmatch(word) for word in words)
        self.note_options({match[1]: match[2] for match in found if match is not None})

    def hidden(self, text: str) -> str:
        """Return a text with stars in place of secrets, and of users and passwords of URIs."""
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, _STARS)
        return redact_secret("", text)


SECRETS = Secrets()  # of this process, which runs one command


def shown_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return options as they may be shown, in the order of their keys.

    >>> shown_options({"token": "abc", "bucket": "1"})
    {'bucket': '1', 'token': '***'}
    """
    return {key: redact_secret(key, value) for key, value in sorted(options.items())}


# ---- The catalog and the table of a command --------------------------------------------------------------------------
# A table is `db.t` of the catalog, `NAME.db.t` of a catalog that a file or a variable names, or a path or URI. The
# catalog is, in this order: what the arguments say (`--catalog`, `--warehouse`, `--catalog-option`),
# `$LAKEWRIGHT_CATALOG`, `$LAKEWRIGHT_WAREHOUSE`, and the default of `lakewright.toml`.

_PART = r"(?:`(?:[^`]|``)*`|[^.`/]+)"
_FULL_NAME = re.compile(rf"({_PART})\.({_PART}\.{_PART})")


def catalog_of(args: Arguments, name: str | None = None) -> Catalog | None:
    """Return the catalog that a name or the arguments say, or None. A server may do without a warehouse."""
    options = _options(args, name)
    SECRETS.note_options(options)
    return CatalogFactory.create(options) if {"warehouse", "metastore"} & options.keys() else None


def _options(args: Arguments, name: str | None) -> dict[str, str]:
    given = dict(args.catalog_option)
    if args.warehouse:
        given["warehouse"] = args.warehouse
    chosen = name or args.catalog
    if chosen is None and not given.keys() & {"warehouse", "metastore"}:
        warehouse = os.environ.get(WAREHOUSE)
        if warehouse and not os.environ.get(CATALOG):
            return {"warehouse": warehouse, **given}
        chosen = named_catalogs().default
    return given if chosen is None else {**named_catalogs().of(chosen), **given}


def need_catalog(args: Arguments, name: str | None = None, *, may_be_new: bool = False) -> Catalog:
    """Return the catalog; raise an error if the arguments name none, or if its warehouse does not exist."""
    catalog = catalog_of(args, name)
    if catalog is None:
        raise InvalidInputError(_no_catalog(args, name))
    if not may_be_new and not _exists(catalog):
        raise NotFoundError(
            f"there is no warehouse {catalog.warehouse}: check the path (--warehouse or ${WAREHOUSE}), or make it with "
            "lakewright db create",
            warehouse=catalog.warehouse,
        )
    return catalog


def _no_catalog(args: Arguments, name: str | None) -> str:
    """Return what is missing: the place of a catalog that has a name, or any catalog."""
    named = named_catalogs()
    chosen = name or args.catalog or named.default
    if chosen is not None:
        known = ", ".join(sorted(named.options.get(chosen, {}))) or "none"
        where = " and ".join(named.files) or "the environment"
        return (
            f"the catalog {chosen!r} of {where} has neither 'warehouse' nor 'metastore' (its options: {known}); add one"
        )
    return (
        f"no catalog is given: say where the databases are with --warehouse DIR (or ${WAREHOUSE}), or name one of "
        "lakewright.toml with --catalog, or give its options (--catalog-option metastore=rest --catalog-option "
        "uri=http://...)"
    )


def _exists(catalog: Catalog) -> bool:
    """Return whether a warehouse exists: a directory, or on an object store a prefix of at least one object."""
    if not isinstance(catalog, FileSystemCatalog):
        return True
    if "://" not in catalog.warehouse:
        return Path(catalog.warehouse).is_dir()
    listings = (catalog.storage.list_directories(catalog.warehouse), catalog.storage.list(catalog.warehouse))
    return any(True for listing in listings for _ in listing)


def split_name(text: str) -> tuple[str | None, str]:
    """Return the catalog of a name with three parts, and the rest.

    >>> split_name("prod.sales.orders"), split_name("sales.orders"), split_name("/lake/sales.db/a.b.c")
    (('prod', 'sales.orders'), (None, 'sales.orders'), (None, '/lake/sales.db/a.b.c'))
    """
    match = None if "/" in text else _FULL_NAME.fullmatch(text.strip())
    return (None, text) if match is None else (match[1].strip("`"), match[2])


def is_path(text: str) -> bool:
    """Return whether a text is the path of a table, not its name."""
    return "/" in text


def named_table(args: Arguments, *, may_be_new: bool = False) -> tuple[Catalog, str]:
    """Return the catalog of a table that is named, and its name there; a path is an error."""
    if is_path(args.table):
        raise InvalidInputError(f"{args.table!r} is a path: give the name of the table, db.t, and --warehouse")
    catalog, name = split_name(args.table)
    return need_catalog(args, catalog, may_be_new=may_be_new), name


def names_like(args: Arguments, what: str, text: str) -> list[str]:
    """Return the catalogs, the databases, or for a table the databases and behind a dot the tables like a text."""
    if what == "catalog":
        return sorted(name for name in named_catalogs().options if name.startswith(text))
    catalog = catalog_of(args)
    database, dot, table = text.partition(".")
    if catalog is None or is_path(text):
        return []
    if what == "database":
        return [name for name in catalog.list_databases() if name.startswith(text)]
    if not dot:
        return [f"{name}." for name in catalog.list_databases() if name.startswith(database)]
    return [f"{database}.{name}" for name in catalog.list_tables(database) if name.startswith(table)]


def table_of(args: Arguments) -> FileStoreTable:
    """Return the table that the argument `table` names: a path, or `db.t` of the catalog."""
    table = table_or_view_of(args)
    if not isinstance(table, FileStoreTable):
        raise InvalidInputError(
            f"{table.name} is a system table, which can only be described and read; name the table itself",
            table=table.name,
        )
    return table


def table_or_view_of(args: Arguments) -> FileStoreTable | SystemTable | RowView:
    """Return the table that the argument `table` names, or a system table such as `db.t$files`."""
    if not is_path(args.table):
        catalog, full_name = named_table(args)
        return catalog.get_table(full_name)
    path, _, last = args.table.rstrip("/").rpartition("/")
    name = Identifier.from_string(f"`d`.{last}") if "$" in last else Identifier.create("d", last)
    branch, view = name.get_branch_name(), name.get_system_table_name()
    options = _options_of_path(args)
    SECRETS.note_options(options)
    table = open_table(
        f"{path}/{name.get_table_name()}", options | ({} if branch is None else {TableOptions.branch.key(): branch})
    )
    return table if view is None else system_table(table, view)


def _options_of_path(args: Arguments) -> dict[str, str]:
    """Return the options for a path: those of the storage of a catalog that is named, and those that are given."""
    named = {} if args.catalog is None else named_catalogs().of(args.catalog)
    return {**{key: value for key, value in named.items() if key != "warehouse"}, **dict(args.catalog_option)}
