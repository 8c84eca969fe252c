"""What a command is, and the arguments that commands share."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass

from lakewright.catalog.filesystem import CatalogFactory, FileSystemCatalog
from lakewright.catalog.open import open_table
from lakewright.cli.output import Output
from lakewright.errors import InvalidInputError
from lakewright.table import FileStoreTable

WAREHOUSE = "LAKEWRIGHT_WAREHOUSE"  # the variable that stands for --warehouse


@dataclass(frozen=True, slots=True)
class Command:
    """One command: how it is called, and what it does."""

    name: str
    help: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Output], None]
    description: str | None = None


def pair(text: str) -> tuple[str, str]:
    """Read `key=value`."""
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not key=value")
    return key.strip(), value


def names(text: str) -> list[str]:
    """Read `a,b`."""
    found = [name.strip() for name in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of names such as a,b")
    return found


def common() -> argparse.ArgumentParser:
    """Return the arguments that every command has."""
    parser = argparse.ArgumentParser(add_help=False)
    place = parser.add_argument_group("where and how")
    place.add_argument("--warehouse", "-w", metavar="W", help=f"directory of the databases (or ${WAREHOUSE})")
    place.add_argument(
        "--catalog-option",
        type=pair,
        action="append",
        default=[],
        metavar="K=V",
        help="option of the catalog or its storage, such as s3.endpoint=http://...; may be repeated",
    )
    place.add_argument("--json", action="store_true", help="write the result as JSON")
    place.add_argument("--quiet", "-q", action="store_true", help="write nothing but the result and errors")
    return parser


def catalog_of(args: argparse.Namespace) -> FileSystemCatalog | None:
    """Return the catalog that the arguments name, None where they name none."""
    options = dict(args.catalog_option)
    warehouse = args.warehouse or os.environ.get(WAREHOUSE) or options.get("warehouse")
    return CatalogFactory.create({**options, "warehouse": warehouse}) if warehouse else None


def need_catalog(args: argparse.Namespace) -> FileSystemCatalog:
    """Return the catalog, or say how to name one."""
    catalog = catalog_of(args)
    if catalog is None:
        raise InvalidInputError(f"give --warehouse, or set ${WAREHOUSE}: the directory of the databases")
    return catalog


def table_of(args: argparse.Namespace) -> FileStoreTable:
    """Return the table that the argument `table` names: a path, or `db.t` of the catalog."""
    if "/" in args.table:
        return open_table(args.table, dict(args.catalog_option))
    return need_catalog(args).get_table(args.table)
