"""A path, a name or a table to a table with its newest schema."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace

from lakewright.errors import BranchNotExistException, InvalidInputError, TableNotExistException, with_table_name
from lakewright.metadata.authority import FILE_AUTHORITY, TableAuthority
from lakewright.metadata.refs import branches
from lakewright.metadata.schema_files import SchemaFiles
from lakewright.metadata.table_store import TableStore, apply_layout_options
from lakewright.read.read_builder import ReadBuilder, ReadRequest
from lakewright.spec import argument_checks
from lakewright.spec.argument_checks import PathLike
from lakewright.spec.identifier import Identifier
from lakewright.spec.option_checks import check_catalog_options, warn_unknown_options
from lakewright.spec.option_table import OPENING, TABLE_DEFAULT, OptionScope, is_of_storage, rule_of
from lakewright.spec.table_options import TableOptions
from lakewright.storage.credentials import Provider, credentials_of, setting_names
from lakewright.storage.storage import Storage
from lakewright.storage.storage_registry import open_storage
from lakewright.storage.table_layout import Layout
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.table_views import ReadableTable, RowView, SystemReadBuilder, SystemTable

_NAME = re.compile(r"\w+\.\w+")  # of a table in a catalog


def open_table(
    path: PathLike, options: Mapping[str, object] | None = None, *, credentials: Provider | None = None
) -> FileStoreTable:
    """Open the table at a path, without a catalog.

    `options` are those of the storage, and those of the table as for `copy`. `credentials` is a function that returns
    the keys of an object store as options, and when they expire; see `CatalogFactory.create`.

    >>> import tempfile, lakewright
    >>> catalog = lakewright.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
    >>> catalog.create_database("d")
    >>> catalog.create_table("d.t", lakewright.Schema([lakewright.DataField(0, "a", lakewright.AtomicType("INT"))]))
    >>> lakewright.open_table(catalog.get_table("d.t").table_path).field_names
    ['a']
    """
    given = {} if options is None else argument_checks.check_text_mapping("options", options)
    _check_no_catalog(path, given)
    place = argument_checks.check_path("path", path)
    storage, location = open_storage(place, given, credentials_of(credentials, place))
    parts = location.rstrip("/").split("/")
    database = parts[-2].removesuffix(".db") if len(parts) > 1 and parts[-2].endswith(".db") else "default"
    branch = given.get(TableOptions.branch.key())
    try:
        table = open_layout(Identifier.create(database, parts[-1], branch), storage, Layout(location.rstrip("/")))
    except TableNotExistException as error:
        if not _NAME.fullmatch(place):
            raise
        hint = f"{place!r} is taken for a path: give catalog.get_table({place!r}), or the path of the table's directory"
        raise TableNotExistException(f"{error.message}; {hint}", **error.facts) from None
    own = {key: value for key, value in given.items() if _is_of_tables(key)}
    check_catalog_options(location, {key: value for key, value in given.items() if key not in own}, setting_names())
    return table.copy(own) if own else table


def _check_no_catalog(path: PathLike, options: Mapping[str, str]) -> None:
    """Refuse options of a catalog that owns the history of its tables: a path would be written past it."""
    metastore = options.get("metastore", "filesystem").strip().lower()
    if metastore != "filesystem":
        raise InvalidInputError(
            f"{str(path)!r} is a path, which is opened without a catalog, and the options name one (metastore "
            f"{metastore!r}): open the table by its name, CatalogFactory.create(options).get_table('db.t')",
            metastore=metastore,
        )


def _is_of_tables(key: str) -> bool:
    """Return whether a key among options of all kinds is for the table: known as such, or not known at all."""
    rule = rule_of(key)
    if rule is None:
        return not is_of_storage(key) and not key.startswith(TABLE_DEFAULT)
    return rule.scope is OptionScope.TABLE and key not in OPENING


def to_table(table: FileStoreTable | PathLike, snapshot_properties: object = None) -> FileStoreTable:
    """Return a table, given as itself or by its path, with its newest schema.

    Every snapshot that it publishes records the properties.
    """
    found = open_table(table) if isinstance(table, str | os.PathLike) else _table(table).refreshed()
    if snapshot_properties is None:
        return found
    with with_table_name(found.name):
        return replace(found, store=found.store.with_snapshot_properties(snapshot_properties))


def readable(table: ReadableTable | PathLike) -> ReadableTable:
    """Return a table to read, given as itself or by its path; it may be a system table."""
    if isinstance(table, str | os.PathLike):
        return open_table(table)
    return table if isinstance(table, SystemTable | RowView) else _table(table)


def read_builder(table: ReadableTable | PathLike, request: ReadRequest) -> ReadBuilder | SystemReadBuilder:
    """Return the read builder that a request describes, of a table, a system table or a path."""
    source = readable(table)
    if isinstance(source, SystemTable):
        return source.read_builder(request)
    options = request.travel_options(source.name)
    return request.apply_to((source.copy(options) if options else source).new_read_builder())


def pinned_builder(table: FileStoreTable | RowView, snapshot_id: int) -> ReadBuilder:
    """Return the read builder of one snapshot, with the columns of today: the option would bring those of then."""
    own = table.table if isinstance(table, RowView) else table
    pin = {TableOptions.scan_snapshot_id.key(): str(snapshot_id)}
    store = own.store.with_schema(own.schema.with_options(pin))
    return table.builder_of(store) if isinstance(table, RowView) else ReadBuilder(store)


def _table(table: object) -> FileStoreTable:
    return argument_checks.check_instance("table", table, FileStoreTable, "a table of a catalog or the path of one")


def open_layout(
    identifier: Identifier, storage: Storage, layout: Layout, home: TableAuthority = FILE_AUTHORITY
) -> FileStoreTable:
    """Open the table at a layout's root with its newest schema, on the branch that the identifier names."""
    name = identifier.get_full_name()
    branch = identifier.get_branch_name()
    if branch is not None and branch != "main":
        known = branches(storage, layout)
        if branch not in known:
            raise BranchNotExistException(
                f"{name}: the branch {branch} does not exist (branches: {known})", branch=branch
            )
        layout, home = layout.for_branch(branch), home.for_branch(branch)
    opened_schema = SchemaFiles(storage, layout).open_schema()
    if opened_schema is None:
        raise TableNotExistException(
            f"there is no table at {layout.root}: {name} does not exist, as it has no schema file",
            table=name,
            identifier=identifier,
        )
    schema, origin = opened_schema
    warn_unknown_options(f"table {name}", layout.root, schema.options)
    return FileStoreTable(
        identifier, TableStore(name, storage, apply_layout_options(layout, schema), schema, origin, home)
    )
