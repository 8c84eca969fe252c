"""Commands of the command line, and the arguments that they share."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lakewright.catalog.base import Catalog
from lakewright.catalog.factory import CatalogFactory
from lakewright.catalog.filesystem import FileSystemCatalog
from lakewright.catalog.open import open_table
from lakewright.catalog.system.tables import system_table
from lakewright.catalog.system.views import RowsView, SystemTable
from lakewright.cli.output import Output
from lakewright.errors import InvalidInputError, NotFoundError
from lakewright.spec import arguments
from lakewright.spec.identifier import Identifier
from lakewright.spec.options import CoreOptions
from lakewright.spec.units import parse_duration_millis
from lakewright.table.table import FileStoreTable

WAREHOUSE = "LAKEWRIGHT_WAREHOUSE"  # the variable that stands for --warehouse


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its name, its arguments, and the function that runs it."""

    name: str
    help: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Output], int | None]  # the exit code; None stands for 0
    description: str | None = None


def pair(text: str) -> tuple[str, str]:
    """Parse `key=value`."""
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not key=value")
    return key.strip(), value


def _catalog_option(text: str) -> tuple[str, str]:
    """Parse `key=value` of a catalog, which may be a secret: an error does not repeat it."""
    try:
        return pair(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError("what was given is not key=value") from None


def names(text: str) -> list[str]:
    """Parse `a,b`."""
    parsed = [name.strip() for name in text.split(",")]
    if not all(parsed):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of names such as a,b")
    return parsed


def moment(text: str) -> int:
    """Return the time, in epoch milliseconds, that an age (`7d`) or an ISO time says.

    >>> moment("1970-01-02"), moment("1970-01-01T01:00:00+01:00")
    (86400000, 0)
    """
    now = time.time_ns() // 1_000_000
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None and text.strip().isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} has no unit: write an age such as 7d or '12 hours'")
    if found is None:
        try:
            return now - parse_duration_millis(text)
        except InvalidInputError:
            message = (
                f"{text!r} is neither an age such as 7d or '12 hours' nor an ISO time such as 2026-01-31T12:00:00Z"
            )
            raise argparse.ArgumentTypeError(message) from None
    millis = arguments.moment_millis("--older-than", found if found.tzinfo else found.replace(tzinfo=UTC))
    if millis > now:
        raise argparse.ArgumentTypeError(f"{text!r} is in the future")
    return millis


def common() -> argparse.ArgumentParser:
    """Return the arguments that every command has."""
    parser = argparse.ArgumentParser(add_help=False)
    place = parser.add_argument_group("where and how")
    warehouse = f"directory of the databases, or the name that a server knows it by (or ${WAREHOUSE})"
    place.add_argument("--warehouse", "-w", metavar="W", help=warehouse)
    place.add_argument(
        "--catalog-option",
        type=_catalog_option,
        action="append",
        default=[],
        metavar="K=V",
        help="option of the catalog or its storage, such as metastore=rest, uri=http://... or s3.endpoint=http://...; "
        "may be repeated",
    )
    place.add_argument("--json", action="store_true", help="write the result as JSON")
    place.add_argument("--quiet", "-q", action="store_true", help="write nothing but the result and errors")
    place.add_argument("--debug", action="store_true", help="show where in the program an error arose")
    return parser


def one_table(parser: argparse.ArgumentParser) -> None:
    """Add the argument of commands that look at one table."""
    parser.add_argument("table", metavar="DB.T", help="the table: db.t, or its path")


def dry_run(parser: argparse.ArgumentParser, text: str) -> None:
    """Add `--dry-run`."""
    parser.add_argument("--dry-run", action="store_true", help=text)


def delete_or_list(parser: argparse.ArgumentParser, text: str) -> None:
    """Add `--delete`, without which a command that removes what nothing brings back only says what would go."""
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--delete", action="store_true", help=f"{text}; without this it is only said what would go")
    either.add_argument("--dry-run", action="store_true", help="only say what would go, which is the default")


def catalog_of(args: argparse.Namespace) -> Catalog | None:
    """Return the catalog that the arguments name; None: they name none. A server may do without a warehouse."""
    options = dict(args.catalog_option)
    warehouse = args.warehouse or os.environ.get(WAREHOUSE)
    if warehouse:
        options["warehouse"] = warehouse
    return CatalogFactory.create(options) if {"warehouse", "metastore"} & options.keys() else None


def need_catalog(args: argparse.Namespace) -> Catalog:
    """Return the catalog; raise an error if the arguments name none, or if its warehouse does not exist."""
    catalog = catalog_of(args)
    if catalog is None:
        raise InvalidInputError(
            f"give --warehouse, or set ${WAREHOUSE}: the directory of the databases; or give the options of another "
            "catalog (--catalog-option metastore=rest --catalog-option uri=http://...)"
        )
    if not _exists(catalog):
        raise NotFoundError(
            f"there is no warehouse {catalog.warehouse}: check the path (--warehouse or ${WAREHOUSE})",
            warehouse=catalog.warehouse,
        )
    return catalog


def _exists(catalog: Catalog) -> bool:
    """Return whether a warehouse exists: a directory, or on an object store a prefix of at least one object."""
    if not isinstance(catalog, FileSystemCatalog):
        return True
    if "://" not in catalog.warehouse:
        return Path(catalog.warehouse).is_dir()
    listings = (catalog.storage.list_directories(catalog.warehouse), catalog.storage.list(catalog.warehouse))
    return any(True for listing in listings for _ in listing)


def table_of(args: argparse.Namespace) -> FileStoreTable:
    """Return the table that the argument `table` names: a path, or `db.t` of the catalog."""
    table = table_or_view_of(args)
    if not isinstance(table, FileStoreTable):
        raise InvalidInputError(
            f"{table.name} is a system table, which can only be described and read; name the table itself",
            table=table.name,
        )
    return table


def table_or_view_of(args: argparse.Namespace) -> FileStoreTable | SystemTable | RowsView:
    """Return the table that the argument `table` names, or a system table such as `db.t$files`."""
    if "/" not in args.table:
        return need_catalog(args).get_table(args.table)
    path, _, last = args.table.rstrip("/").rpartition("/")
    name = Identifier.from_string(f"`d`.{last}") if "$" in last else Identifier.create("d", last)
    branch, view = name.get_branch_name(), name.get_system_table_name()
    options = {**dict(args.catalog_option), **({} if branch is None else {CoreOptions.BRANCH.key(): branch})}
    table = open_table(f"{path}/{name.get_table_name()}", options)
    return table if view is None else system_table(table, view)
