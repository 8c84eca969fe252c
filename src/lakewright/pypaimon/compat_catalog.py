"""Catalogs."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, NoReturn, TypeAlias, cast

import pyarrow as pa

from lakewright.catalog import catalog_registry, filesystem_catalog
from lakewright.catalog.catalog import Catalog as CoreCatalog
from lakewright.catalog.listing import PagedList, entries_by_partition
from lakewright.errors import (
    BranchNotExistException,
    ColumnNotExistException,
    DatabaseNotExistException,
    InvalidInputError,
    LakewrightWarning,
    TableNotExistException,
    UnsupportedError,
)
from lakewright.maintenance.branches import FastForwardResult
from lakewright.metadata.table_store import TableStore
from lakewright.pypaimon.compat_errors import (
    CATALOG_WORDS,
    AlterTableError,
    no_forward,
    rewrite_message,
    translate_errors,
    warn_of_loss,
)
from lakewright.pypaimon.compat_system_tables import load
from lakewright.pypaimon.compat_table import (
    FileStoreTable,
    GetTagResponse,
    Instant,
    Partition,
    PropertyChange,
    SnapshotInstant,
    TableSnapshot,
    TagInstant,
)
from lakewright.pypaimon.compat_types import Schema, SchemaChange, TableSchema, core_changes
from lakewright.pypaimon.compat_values import Identifier
from lakewright.spec import argument_checks, manifest, schema
from lakewright.spec import identifier as core_identifier
from lakewright.spec import schema as core_change
from lakewright.spec import schema as core_schema
from lakewright.spec.argument_checks import DurationLike
from lakewright.spec.manifest import ManifestEntry, count_rows
from lakewright.spec.scalars import to_python
from lakewright.spec.snapshot import Snapshot
from lakewright.storage.credentials import Provider
from lakewright.storage.table_layout import check_name, database_directory
from lakewright.table import file_store_table as core_file_store_table
from lakewright.table import table_views
from lakewright.table.file_store_table import Partitions

# ---- Branches, tags, partitions --------------------------------------------------------------------------------------
# They are lakewright's, with pypaimon's arguments, laxness and results: blank patterns and limits below 1 count as
# none.

AnyIdentifier = str | core_identifier.Identifier


class CatalogHistory(CoreCatalog):
    """The verbs of any catalog about the history and partitions of its tables; a kind of catalog is mixed in."""

    __slots__ = ()

    _kind: ClassVar[str]
    DB_SUFFIX: ClassVar[str] = ".db"
    DEFAULT_DATABASE: ClassVar[str] = "default"
    SYSTEM_DATABASE_NAME: ClassVar[str] = "sys"
    DB_LOCATION_PROP: ClassVar[str] = "location"
    COMMENT_PROP: ClassVar[str] = "comment"
    OWNER_PROP: ClassVar[str] = "owner"

    def get_table_schema(self, identifier: AnyIdentifier) -> TableSchema:
        """Return the newest schema of a table."""
        return TableSchema.of(self._table(Identifier.of(identifier)).store.schema)

    # Tags and branches.

    def create_tag(
        self,
        identifier: AnyIdentifier,
        tag_name: str,
        snapshot_id: int | None = None,
        time_retained: DurationLike | None = None,
        ignore_if_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Give a snapshot a name: the newest one, unless an id is given."""
        super().create_tag(Identifier.of(identifier), tag_name, snapshot_id, time_retained, ignore_if_exists)

    def get_tag(self, identifier: AnyIdentifier, tag_name: str) -> GetTagResponse:  # type: ignore[override] # pypaimon's
        """Describe a tag, or raise TagNotExistException."""
        return GetTagResponse.of(super().get_tag(Identifier.of(identifier), tag_name))

    def delete_tag(self, identifier: AnyIdentifier, tag_name: str) -> None:
        """Delete a tag, or raise TagNotExistException."""
        super().delete_tag(Identifier.of(identifier), tag_name)

    def list_tags_paged(
        self,
        identifier: AnyIdentifier,
        max_results: int | None = None,
        page_token: str | None = None,
        tag_name_prefix: str | None = None,
    ) -> PagedList[str]:
        """Return a page of the names of the tags, in order."""
        limit = max_results if max_results is not None and max_results > 0 else None
        return super().list_tags_paged(Identifier.of(identifier), limit, page_token or None, tag_name_prefix or None)

    def create_branch(self, identifier: AnyIdentifier, branch_name: str, tag_name: str | None = None) -> None:
        """Make a branch at the state of a tag; without a tag, an empty one with the table's schemas."""
        super().create_branch(Identifier.of(identifier), branch_name, tag_name)

    def drop_branch(self, identifier: AnyIdentifier, branch_name: str) -> None:
        """Drop a branch."""
        super().drop_branch(Identifier.of(identifier), branch_name)

    def rename_branch(self, identifier: AnyIdentifier, from_branch: str, to_branch: str) -> None:
        """Give a branch another name."""
        super().rename_branch(Identifier.of(identifier), from_branch, to_branch)

    def fast_forward(
        self,
        identifier: AnyIdentifier,
        branch_name: str,
        allow_loss: bool = True,  # noqa: FBT001, FBT002 - pypaimon does not ask
        dry_run: bool = False,  # noqa: FBT001, FBT002
    ) -> FastForwardResult:
        """Bring a table to the state of a branch; warn if rows or tags are lost by that."""
        try:
            result = super().fast_forward(Identifier.of(identifier), branch_name, allow_loss, dry_run)
        except InvalidInputError as error:
            raise no_forward(branch_name, error) from error
        warn_of_loss(str(identifier), result)
        return result

    def list_branches(self, identifier: AnyIdentifier) -> list[str]:
        """Return the names of the branches beside `main`."""
        return super().list_branches(Identifier.of(identifier))

    def rollback_to(
        self, identifier: AnyIdentifier, instant: Instant | int | str, from_snapshot: int | None = None
    ) -> None:
        """Bring a table back to a snapshot or tag."""
        match instant:
            case SnapshotInstant(snapshot_id=target) | TagInstant(tag_name=target) | (int() | str() as target):
                super().rollback_to(Identifier.of(identifier), target, from_snapshot)
            case _:
                raise InvalidInputError(f"a rollback needs Instant.snapshot(id) or Instant.tag(name), not {instant!r}")

    # Partitions.

    def list_partitions_paged(  # type: ignore[override] # pypaimon's partitions
        self,
        identifier: AnyIdentifier,
        max_results: int | None = None,
        page_token: str | None = None,
        partition_name_pattern: str | None = None,
    ) -> PagedList[Partition]:
        """Return a page of the partitions of the newest snapshot; their names are `k1=v1,k2=v2`, in order.

        In a pattern such as `dt=2024-02*` the character `*` stands for any text.
        """
        store = self._table(Identifier.of(identifier)).store
        found = [_partition(store, row, entries) for row, entries in entries_by_partition(store).items()]
        if partition_name_pattern:
            pattern = re.compile(".*".join(map(re.escape, partition_name_pattern.split("*"))))
            found = [partition for partition in found if pattern.fullmatch(_name(partition.spec.items()))]
        found.sort(key=lambda partition: _name(sorted(partition.spec.items())))
        start = int(page_token) if page_token is not None and page_token.isdecimal() else 0
        end = len(found) if max_results is None or max_results < 1 else min(start + max_results, len(found))
        return PagedList(found[start:end], str(end) if end < len(found) else None)

    def drop_partitions(self, identifier: AnyIdentifier, partitions: Partitions) -> None:
        """Remove all rows of some partitions in one snapshot."""
        if not partitions:
            raise InvalidInputError("Partitions list cannot be empty.")
        super().drop_partitions(Identifier.of(identifier), partitions)

    # Properties of databases.

    def alter_database(self, name: str, changes: Sequence[PropertyChange]) -> None:  # type: ignore[override]
        """Set and remove properties of a database, where the catalog stores any."""
        given, removed = PropertyChange.get_set_properties_to_remove_keys(changes)
        super().alter_database(name, {**given, **dict.fromkeys(removed)})

    # What only a server does.

    def supports_version_management(self) -> bool:
        """Return whether the catalog itself keeps snapshots: it does not, files do."""
        return False

    def create_partitions(
        self,
        identifier: AnyIdentifier,
        partitions: Partitions,
        ignore_if_exists: bool = True,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Raise UnsupportedError: a partition exists once it has rows."""
        del identifier, partitions, ignore_if_exists
        self._raise_unsupported("create partitions: one exists as soon as rows are written to it")

    def load_snapshot(self, identifier: AnyIdentifier) -> TableSnapshot | None:
        """Raise UnsupportedError: snapshots are files."""
        del identifier
        self._raise_unsupported("support load_snapshot: use table.snapshot_manager().get_latest_snapshot()")

    def commit_snapshot(
        self,
        identifier: AnyIdentifier,
        table_uuid: str | None,
        base_snapshot_uuid: str | None,
        snapshot: Snapshot,
        statistics: Sequence[manifest.Partition],
    ) -> bool:
        """Raise UnsupportedError: snapshots are committed as files."""
        del identifier, table_uuid, base_snapshot_uuid, snapshot, statistics
        self._raise_unsupported("commit snapshots: tables commit them as files")

    def auth_table_query(self, identifier: AnyIdentifier, select: Sequence[str] | None = None) -> NoReturn:
        """Raise UnsupportedError: every process that can read the files can read the table."""
        del identifier, select
        self._raise_unsupported("authorise queries: rights are those of the files")

    def _raise_unsupported(self, what: str) -> NoReturn:
        raise UnsupportedError(f"a {self._kind} catalog does not {what}")


class DirectoryPaths(CatalogHistory):
    """Where a catalog has its tables that are below a warehouse."""

    __slots__ = ()

    def get_database_path(self, name: str) -> str:
        """Return the directory of a database."""
        return database_directory(self.warehouse, name)

    def get_table_path(self, identifier: AnyIdentifier) -> str:
        """Return the directory of a table."""
        name = Identifier.of(identifier)
        return f"{self.get_database_path(name.get_database_name())}/{check_name('table', name.get_table_name())}"


def parts_of(catalog: CoreCatalog) -> dict[str, Any]:
    """Return the fields of a catalog by their names, to make one of pypaimon's of the same kind."""
    return {part.name: getattr(catalog, part.name) for part in fields(catalog)}  # type: ignore[arg-type]


def _partition(store: TableStore, row: bytes, entries: Sequence[ManifestEntry]) -> Partition:
    values = zip(store.schema.partition_fields, store.partition_values(row), strict=True)
    return Partition(
        spec={field.name: str(to_python(value, field.type)) for field, value in values},
        record_count=count_rows(entry.file for entry in entries),
        file_size_in_bytes=sum(entry.file.file_size for entry in entries),
        file_count=len(entries),
        last_file_creation_time=max(entry.file.creation_time or 0 for entry in entries),
        total_buckets=len({entry.bucket for entry in entries}),
    )


def _name(spec: Iterable[tuple[str, str]]) -> str:
    return ",".join(f"{key}={value}" for key, value in spec)


# ---- Catalogs --------------------------------------------------------------------------------------------------------

AnyChange: TypeAlias = SchemaChange | core_change.SchemaChange
_KINDS = ("filesystem", "rest", "jdbc")


class Catalog(CatalogHistory):
    """What every catalog of pypaimon does, whatever kind of catalog is mixed in: its tables have pypaimon's shapes."""

    __slots__ = ()

    def get_table(self, identifier: str | core_identifier.Identifier) -> FileStoreTable:
        """Return a table with pypaimon's shapes; `db.t$snapshots` names a system table, `db.t$branch_b` a branch."""
        name = Identifier.of(identifier)
        try:
            table = super().get_table(name)
        except (DatabaseNotExistException, BranchNotExistException) as error:
            raise TableNotExistException(str(error), table=name.get_full_name(), identifier=name) from error
        except TableNotExistException as error:
            error.facts["identifier"] = name
            raise
        if isinstance(table, core_file_store_table.FileStoreTable):
            return FileStoreTable(name, table.store)
        shown: object = table
        if isinstance(shown, table_views.TableSystemTable):
            owner = FileStoreTable(Identifier.of(shown.table.identifier), shown.table.store)
            # Those that pypaimon does not know are lakewright's own.
            return cast("FileStoreTable", load(shown.system_name, owner) or shown)  # read as a table is
        return table

    def create_table(
        self,
        identifier: str | core_identifier.Identifier,
        schema: schema.Schema | pa.Schema,
        ignore_if_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Create a table."""
        declared = schema.to_core() if isinstance(schema, Schema) else schema
        given = declared.options if isinstance(declared, core_schema.Schema) else {}
        if str(given.get("auto-create", "false")).lower() == "true":
            raise InvalidInputError("The value of auto-create property should be False: create the table, then write")
        if str(given.get("target-file-row-num", "1")) == "0":
            raise InvalidInputError("target-file-row-num should be at least 1, not 0")
        super().create_table(Identifier.of(identifier), declared, ignore_if_exists)  # type: ignore[safe-super] # mixed in

    def alter_table(
        self,
        identifier: str | core_identifier.Identifier,
        changes: AnyChange | Iterable[AnyChange],
        ignore_if_not_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Change the schema. A new type that values do not fit is taken with a warning, as pypaimon takes it."""
        name, asked = Identifier.of(identifier), core_changes(changes)
        try:
            self._alter(name, asked, ignore_if_not_exists)
        except (InvalidInputError, ColumnNotExistException, UnsupportedError) as error:
            full = name.get_full_name()
            rewrite_message(error, CATALOG_WORDS)
            raise AlterTableError(f"Failed to alter table {full}: {error}", **error.facts) from error

    def _alter(self, name: Identifier, asked: list[core_change.SchemaChange], ignore: bool) -> None:  # noqa: FBT001
        try:
            super().alter_table(name, asked, ignore)
        except InvalidInputError as error:
            lossy = [replace(c, allow_lossy=True) if isinstance(c, core_change.UpdateType) else c for c in asked]
            if lossy == asked or "example" not in error.facts:
                raise
            warnings.warn(f"{error}; pypaimon changes the type all the same", LakewrightWarning, stacklevel=3)
            super().alter_table(name, lossy, ignore)


@translate_errors(CATALOG_WORDS)
class FileSystemCatalog(DirectoryPaths, Catalog, filesystem_catalog.FileSystemCatalog):
    """Databases and tables below one directory, as pypaimon has them."""

    __slots__ = ()
    _kind: ClassVar[str] = "filesystem"

    def create_database(
        self,
        name: str,
        ignore_if_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
        properties: Mapping[str, object] | None = None,
    ) -> None:
        """Create a database, which is in the warehouse."""
        if self.DB_LOCATION_PROP in (properties or {}):
            raise InvalidInputError("Cannot specify location for a database when using fileSystem catalog.")
        super().create_database(name, ignore_if_exists, properties)


class CatalogFactory:
    """Creates catalogs from Paimon's option keys."""

    @staticmethod
    def create(catalog_options: Mapping[str, object], *, credentials: Provider | None = None) -> Catalog:
        """Open a catalog: `metastore` says which kind, `warehouse` where, storage options how to get there.

        `credentials` is a function that returns keys of an object store, as `lakewright.CatalogFactory.create` has it.

        >>> import tempfile
        >>> CatalogFactory.create({"warehouse": tempfile.mkdtemp()}).list_databases()
        []
        """
        given = argument_checks.check_mapping("catalog_options", catalog_options)
        kind = str(given.get("metastore", "filesystem"))
        if kind not in _KINDS:
            raise UnsupportedError(f"Unknown catalog identifier: {kind}. Use {', '.join(_KINDS)}", metastore=kind)
        if "warehouse" not in given:
            raise InvalidInputError("Paimon 'warehouse' path must be set: give the directory of the databases")
        opened = catalog_registry.CatalogFactory.create(catalog_options, credentials=credentials)
        if isinstance(opened, filesystem_catalog.FileSystemCatalog):
            return FileSystemCatalog(**parts_of(opened))
        made: Catalog = on_server(type(opened).__name__)(**parts_of(opened))
        return made


def on_server(name: str) -> Any:  # noqa: ANN401 - a class of catalogs, which is loaded here
    """Return a class of catalogs on servers or in SQL databases; most scripts do not need what it loads."""
    if name not in {"RESTCatalog", "JdbcCatalog"}:
        raise AttributeError(f"module 'lakewright.pypaimon' has no attribute {name!r}")
    from lakewright.pypaimon import compat_server_catalogs  # noqa: PLC0415 - lazy, for HTTP clients and database drivers

    return getattr(compat_server_catalogs, name)
