"""Compaction of many tables.

Tables are compacted one after the other. One that fails is named in the result with the reason, and the next follows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from lakewright.catalog.catalog import Catalog
from lakewright.compact.compaction_job import CompactRequest, compact_request
from lakewright.compact.compaction_rounds import CompactResult
from lakewright.errors import InvalidInputError, LakewrightError
from lakewright.spec import argument_checks
from lakewright.spec.argument_checks import DurationLike
from lakewright.spec.identifier import Identifier
from lakewright.table.file_store_table import FileStoreTable


@dataclass(frozen=True, slots=True)
class DatabaseCompaction:
    """What the compaction of many tables did, by their full names."""

    tables: Mapping[str, CompactResult]
    failed: Mapping[str, str]  # tables that were not compacted, and why


def compact_database(  # noqa: PLR0913 - each argument is one choice of the caller
    catalog: Catalog,
    database: str | None = None,
    *,
    including: str | None = None,
    excluding: str | None = None,
    full: bool = False,
    idle: DurationLike | None = None,
    dry_run: bool = False,
) -> DatabaseCompaction:
    """Compact the tables of a database, or of all; `including` and `excluding` are patterns of names such as `db.t`.

    The patterns are regular expressions that match the whole name. `idle` leaves out partitions that were written
    lately, and is for partitioned tables: others are compacted as they are. With `dry_run` nothing is written, and the
    results are estimates.

    >>> import tempfile, pyarrow as pa, lakewright as lw
    >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
    >>> catalog.create_database("d")
    >>> for name in ("a", "b"):
    ...     catalog.create_table(f"d.{name}", lw.Schema.from_pyarrow_schema(pa.schema({"id": pa.int64()})))
    ...     for n in range(2):
    ...         _ = lw.write_table(pa.table({"id": [n]}), catalog.get_table(f"d.{name}"))
    >>> done = lw.compact_database(catalog, "d", excluding="d.b", full=True)
    >>> {name: result.files_after for name, result in done.tables.items()}
    {'d.a': 1}
    """
    request = DatabaseRequest(database, including, excluding, full, idle, dry_run)
    return request.run(catalog, lambda table, one: compact_request(table.store, one.check_arguments(table.store)))


@dataclass(frozen=True, slots=True)
class DatabaseRequest:
    """The arguments of a compaction of many tables, as a caller gave them."""

    database: str | None = None
    including: str | None = None
    excluding: str | None = None
    full: bool = False
    idle: DurationLike | None = None
    dry_run: bool = False

    def run(
        self, catalog: Catalog, compact: Callable[[FileStoreTable, CompactRequest], CompactResult]
    ) -> DatabaseCompaction:
        """Check the arguments, and have each table compacted by a function."""
        names = chosen_tables(catalog, self.database, including=self.including, excluding=self.excluding)
        full, dry_run = (
            argument_checks.check_bool("full", self.full),
            argument_checks.check_bool("dry_run", self.dry_run),
        )
        age = argument_checks.check_optional(argument_checks.to_duration_millis, "idle", self.idle)

        def compact_one(table: FileStoreTable) -> CompactResult:
            idle = age if table.partition_keys else None
            return compact(table, CompactRequest(full=full, idle=idle, dry_run=dry_run))

        return compact_each(catalog, names, compact_one)


def chosen_tables(
    catalog: Catalog, database: str | None, *, including: str | None = None, excluding: str | None = None
) -> list[Identifier]:
    """Return the tables of a database, or of all, whose full names match one pattern and do not match another."""
    if not isinstance(catalog, Catalog):
        raise argument_checks.argument_error("catalog", "a catalog", catalog)
    included, excluded = pattern("including", including), pattern("excluding", excluding)
    databases = catalog.list_databases() if database is None else [argument_checks.check_text("database", database)]
    names = [Identifier.create(one, table) for one in databases for table in catalog.list_tables(one)]
    return [
        name
        for name in names
        if (included is None or included.fullmatch(name.get_full_name()))
        and not (excluded is not None and excluded.fullmatch(name.get_full_name()))
    ]


def pattern(argument: str, value: object) -> re.Pattern[str] | None:
    """Return a regular expression; None where none is given."""
    if value is None:
        return None
    try:
        return re.compile(argument_checks.check_text(argument, value))
    except re.error as error:
        raise InvalidInputError(f"{argument} is no regular expression: {error}", argument=argument) from None


def compact_each(
    catalog: Catalog, names: Iterable[Identifier], compact: Callable[[FileStoreTable], CompactResult]
) -> DatabaseCompaction:
    """Compact tables one after the other."""
    tables: dict[str, CompactResult] = {}
    failed: dict[str, str] = {}
    for name in names:
        try:
            table = catalog.get_table(name)
            if isinstance(table, FileStoreTable):
                tables[name.get_full_name()] = compact(table)
        except LakewrightError as error:
            failed[name.get_full_name()] = str(error)
    return DatabaseCompaction(tables, failed)
