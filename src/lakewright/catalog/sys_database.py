"""The database `sys`.

Who owns a table and when it was made is known where a catalog keeps it among the options of the table, as servers do.
A table that cannot be opened is listed by its name alone; one that is dropped meanwhile is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from lakewright.catalog.listing import partitions_of
from lakewright.errors import InvalidInputError, LakewrightError, NotFoundError, TableNotExistException
from lakewright.metadata.table_store import format_partition_spec
from lakewright.spec.identifier import Identifier
from lakewright.spec.option_checks import redact_secret
from lakewright.spec.table_options import CoreOptions
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.system_tables import fields_of
from lakewright.table.table_views import SystemTable

SYSTEM_DATABASE = "sys"
_TYPE, _OWNER = "type", "owner"
_CHANGES = ("createdAt", "createdBy", "updatedAt", "updatedBy")  # options that servers give to tables
_Row = tuple[object, ...]


class CatalogNames(Protocol):
    """What these tables ask a catalog."""

    @property
    def warehouse(self) -> str:
        """Where its tables lie."""

    @property
    def options(self) -> Mapping[str, str]:
        """With which it was opened."""

    def list_databases(self) -> list[str]:
        """Return the names of the databases."""

    def list_tables(self, database_name: str) -> list[str]:
        """Return the names of the tables of a database."""

    def get_table(self, identifier: str | Identifier) -> FileStoreTable:
        """Return a table."""


def tables(catalog: CatalogNames) -> Iterator[_Row]:
    """Yield each table; the number of its rows is that of all its data files."""
    for name, table in _open_tables(catalog):
        database, own = name.get_database_name(), name.get_table_name()
        if table is None:
            yield (database, own, *[None] * 12)
            continue
        options, snapshot = table.schema.options, table.snapshot()
        owner, (made_at, made_by, changed_at, changed_by) = options.get(_OWNER), map(options.get, _CHANGES)
        yield (
            database,
            own,
            options.get(_TYPE, "table"),
            bool(table.partition_keys),
            bool(table.primary_keys),
            owner,
            _number(made_at),
            made_by,
            _number(changed_at),
            changed_by,
            None if snapshot is None else snapshot.total_record_count,
            None,
            None,
            None,
        )


def partitions(catalog: CatalogNames) -> Iterator[_Row]:
    """Yield each partition of each table that has partition columns."""
    for name, table in _open_tables(catalog):
        if table is None or not table.partition_keys:
            continue
        found = {format_partition_spec(one.spec): one for one in partitions_of(table.store)}
        for partition, one in sorted(found.items()):
            counts = one.record_count, one.file_size_in_bytes, one.file_count, one.last_file_creation_time
            yield (name.get_database_name(), name.get_table_name(), partition, *counts, False)


def all_table_options(catalog: CatalogNames) -> Iterator[_Row]:
    """Yield each option of each table, and where it lies as the option `path`."""
    for name, table in _open_tables(catalog):
        if table is not None:
            given = {**table.schema.options, "path": table.table_path}
            for key, value in sorted(given.items()):
                yield (name.get_database_name(), name.get_table_name(), key, redact_secret(key, value))


def catalog_options(catalog: CatalogNames) -> Iterator[_Row]:
    """Yield the options with which the catalog was opened; secrets are not shown."""
    for key, value in sorted(catalog.options.items()):
        yield key, redact_secret(key, value)


_ROWS: dict[str, Callable[[CatalogNames], Iterator[_Row]]] = {
    "tables": tables,
    "partitions": partitions,
    "all_table_options": all_table_options,
    "catalog_options": catalog_options,
}


@dataclass(frozen=True, slots=True)
class CatalogTable(SystemTable):
    """One table of the database `sys`."""

    catalog: CatalogNames

    @property
    def name(self) -> str:
        """The full name, `sys.name`."""
        return f"{SYSTEM_DATABASE}.{self.system_name}"

    @property
    def identifier(self) -> Identifier:
        """The name in its parts."""
        return Identifier.create(SYSTEM_DATABASE, self.system_name)

    @property
    def options(self) -> CoreOptions:
        """No options."""
        return CoreOptions.from_dict({})

    @property
    def table_path(self) -> str:
        """Where the tables of the catalog lie."""
        return self.catalog.warehouse

    def _gather_rows(self) -> Iterator[_Row]:
        return _ROWS[self.system_name](self.catalog)


def catalog_table(catalog: CatalogNames, name: Identifier) -> CatalogTable | None:
    """Return the table of the database `sys` that a name stands for; None: the name is of another database."""
    if name.get_database_name() != SYSTEM_DATABASE:
        return None
    known = name.get_object_name()
    if known not in _ROWS:
        there = ", ".join(system_database_tables())
        raise TableNotExistException(
            f"the table {name.get_full_name()} does not exist: {SYSTEM_DATABASE} has {there}",
            table=name.get_full_name(),
            identifier=name,
        )
    fields = fields_of(f"{SYSTEM_DATABASE}.{known}")
    keys = ("database_name", "table_name", "partition_name", "key")
    return CatalogTable(known, fields, tuple(field.name for field in fields if field.name in keys), catalog)


def system_database_tables() -> list[str]:
    """Return the names of the tables of `sys`, in order."""
    return sorted(_ROWS)


def is_system(database: object) -> bool:
    """Return whether a name is that of the database of the catalog itself."""
    return isinstance(database, str) and database == SYSTEM_DATABASE


def check_not_system(database: str) -> None:
    """Raise InvalidInputError for the database that belongs to the catalog itself."""
    if database == SYSTEM_DATABASE:
        raise InvalidInputError(
            f"the database {database!r} belongs to the catalog, which shows its tables there: choose another name",
            database=database,
        )


def _open_tables(catalog: CatalogNames) -> Iterator[tuple[Identifier, FileStoreTable | None]]:
    """Yield the names of all tables with the tables; None for one that cannot be opened."""
    names = [Identifier.create(db, one) for db in catalog.list_databases() for one in catalog.list_tables(db)]
    for name in names:
        try:
            yield name, catalog.get_table(name)
        except NotFoundError:
            continue
        except (LakewrightError, OSError):
            yield name, None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
