"""pypaimon's catalog verbs for branches, tags, rollbacks, partitions and properties of databases.

They are lakewright's, with pypaimon's arguments, laxness and results: blank patterns and limits below 1 count as none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, ClassVar, NoReturn

from lakewright.catalog.base import Catalog
from lakewright.catalog.listing import PagedList, entries_by_partition
from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.maintenance.branches import FastForwardResult
from lakewright.metadata.store import TableStore
from lakewright.pypaimon.history.values import (
    GetTagResponse,
    Instant,
    Partition,
    PropertyChange,
    SnapshotInstant,
    TableSnapshot,
    TagInstant,
)
from lakewright.pypaimon.values.errors import no_forward, warn_of_loss
from lakewright.pypaimon.values.identifier import Identifier
from lakewright.pypaimon.values.table_schema import TableSchema
from lakewright.spec import identifier as core_identifier
from lakewright.spec import manifest
from lakewright.spec.arguments import Age
from lakewright.spec.manifest import ManifestEntry
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.values import to_python
from lakewright.storage.layout import check_name, database_directory
from lakewright.table.table import Partitions

AnyIdentifier = str | core_identifier.Identifier


class CatalogHistory(Catalog):
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
        time_retained: Age | None = None,
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
        """Say whether the catalog itself keeps snapshots: it does not, files do."""
        return False

    def create_partitions(
        self,
        identifier: AnyIdentifier,
        partitions: Partitions,
        ignore_if_exists: bool = True,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Raise UnsupportedError: a partition exists once it has rows."""
        del identifier, partitions, ignore_if_exists
        self._unsupported("create partitions: one exists as soon as rows are written to it")

    def load_snapshot(self, identifier: AnyIdentifier) -> TableSnapshot | None:
        """Raise UnsupportedError: snapshots are files."""
        del identifier
        self._unsupported("support load_snapshot: use table.snapshot_manager().get_latest_snapshot()")

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
        self._unsupported("commit snapshots: tables commit them as files")

    def auth_table_query(self, identifier: AnyIdentifier, select: Sequence[str] | None = None) -> NoReturn:
        """Raise UnsupportedError: whoever can read the files can read the table."""
        del identifier, select
        self._unsupported("authorise queries: rights are those of the files")

    def _unsupported(self, what: str) -> NoReturn:
        raise UnsupportedError(f"a {self._kind} catalog does not {what}")


class DirectoryPaths(CatalogHistory):
    """Where a catalog has its tables that lie below a warehouse."""

    __slots__ = ()

    def get_database_path(self, name: str) -> str:
        """Return the directory of a database."""
        return database_directory(self.warehouse, name)

    def get_table_path(self, identifier: AnyIdentifier) -> str:
        """Return the directory of a table."""
        name = Identifier.of(identifier)
        return f"{self.get_database_path(name.get_database_name())}/{check_name('table', name.get_table_name())}"


def parts_of(catalog: Catalog) -> dict[str, Any]:
    """Return the fields of a catalog by their names, to make one of pypaimon's of the same kind."""
    return {part.name: getattr(catalog, part.name) for part in fields(catalog)}  # type: ignore[arg-type]


def _partition(store: TableStore, row: bytes, entries: Sequence[ManifestEntry]) -> Partition:
    values = zip(store.schema.partition_fields, store.partition_values(row), strict=True)
    return Partition(
        spec={field.name: str(to_python(value, field.type)) for field, value in values},
        record_count=sum(entry.file.row_count for entry in entries),
        file_size_in_bytes=sum(entry.file.file_size for entry in entries),
        file_count=len(entries),
        last_file_creation_time=max(entry.file.creation_time or 0 for entry in entries),
        total_buckets=len({entry.bucket for entry in entries}),
    )


def _name(spec: Iterable[tuple[str, str]]) -> str:
    return ",".join(f"{key}={value}" for key, value in spec)
