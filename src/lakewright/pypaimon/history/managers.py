"""pypaimon's managers of snapshots, tags, branches, schemas, consumers and changelogs, over lakewright's stores.

A manager knows a storage, the path of a table, a branch and the home of its history, and looks anew in every call. One
that a program makes by hand has the files for a home, one that a table gives the home of the table. Where pypaimon
returns None for what is not there, so do these.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from typing import ClassVar, TypeAlias

from lakewright.catalog.open import open_at
from lakewright.errors import (
    BranchAlreadyExistException,
    BranchNotExistException,
    InvalidInputError,
    NotFoundError,
    TagNotExistException,
    UnsupportedError,
)
from lakewright.maintenance import branches
from lakewright.maintenance.alter import alter
from lakewright.maintenance.rollback import RollbackResult
from lakewright.metadata import refs
from lakewright.metadata.consumers import Consumers
from lakewright.metadata.home import FILES, Home
from lakewright.metadata.refs import Tags
from lakewright.metadata.schemas import Schemas
from lakewright.metadata.snapshots import Changelogs, Snapshots
from lakewright.metadata.store import TableStore
from lakewright.pypaimon.history.branches import BranchManager
from lakewright.pypaimon.history.values import Changelog, Consumer, Tag, check_rename
from lakewright.pypaimon.read.file_io import FileIO
from lakewright.pypaimon.values.changes import SchemaChange, core_changes
from lakewright.pypaimon.values.errors import SchemaExistsError, no_forward, warn_of_loss
from lakewright.pypaimon.values.schema import Schema
from lakewright.pypaimon.values.table_schema import TableSchema
from lakewright.pypaimon.values.words import NEW_TAG_WORDS, TABLE_WORDS, heard, speaking
from lakewright.spec import arguments
from lakewright.spec.arguments import Age, Moment
from lakewright.spec.identifier import Identifier
from lakewright.spec.schema import changes as core_change
from lakewright.spec.schema import declaration
from lakewright.spec.schema import table_schema as core_schema
from lakewright.spec.snapshot import Snapshot, to_json
from lakewright.storage.layout import MAIN_BRANCH, Layout, check_name
from lakewright.table import table

AnyChange: TypeAlias = SchemaChange | core_change.SchemaChange

TAG_PREFIX = "tag-"
EARLIEST_SNAPSHOT_DEFAULT_RETRY_NUM = 300  # pypaimon's; lakewright lists the snapshots instead


class _Manager:
    """The files of one branch of a table."""

    file_io: FileIO
    table_path: str
    branch: str

    def __init__(self, file_io: FileIO, table_path: str, branch: str | None = None, *, home: Home = FILES) -> None:
        self.file_io = file_io
        self._home = home
        self.table_path = table_path.rstrip("/")
        self.branch = BranchManager.normalize_branch(branch)
        self._layout = Layout(self.table_path, self.branch)
        self._storage = file_io.storage

    def _store(self) -> TableStore:
        """Open the table with its newest schema."""
        database, _, name = self.table_path.rpartition("/")
        identifier = Identifier.create(database.rpartition("/")[2].removesuffix(".db") or "default", name, self.branch)
        return replace(open_at(identifier, self._storage, Layout(self.table_path)).store, home=self._home)


class SnapshotManager(_Manager):
    """The snapshots of a table."""

    @property
    def snapshot_dir(self) -> str:
        """The directory of the snapshot files."""
        return self._layout.snapshot_directory

    @property
    def latest_file(self) -> str:
        """The hint to the newest snapshot."""
        return self._layout.latest_hint

    @property
    def _snapshots(self) -> Snapshots:
        return Snapshots(self._storage, self._layout, self._home.history)

    def copy_with_branch(self, branch_name: str) -> SnapshotManager:
        """Return the manager of another branch."""
        return SnapshotManager(self.file_io, self.table_path, branch_name, home=self._home.for_branch(branch_name))

    def get_latest_snapshot(self) -> Snapshot | None:
        """Return the newest snapshot."""
        return self._snapshots.latest()

    def read_latest_file(self, max_retries: int = 5) -> str:
        """Return the id of the newest snapshot as text."""
        del max_retries
        newest = self._snapshots.latest_id()
        if newest is None:
            raise NotFoundError(f"No snapshot content found in {self.snapshot_dir}", path=self.snapshot_dir)
        return str(newest)

    def get_snapshot_path(self, snapshot_id: int) -> str:
        """Return the path of a snapshot file."""
        return self._layout.snapshot_file(snapshot_id)

    def try_get_earliest_snapshot(self, stop_snapshot_id: int | None = None) -> Snapshot | None:
        """Return the oldest snapshot, if it is not after `stop_snapshot_id`."""
        oldest = self._snapshots.earliest()
        return None if oldest is None or (stop_snapshot_id is not None and oldest.id > stop_snapshot_id) else oldest

    def earlier_or_equal_time_mills(self, timestamp: int) -> Snapshot | None:
        """Return the last snapshot that is not later than a time in epoch milliseconds."""
        try:
            return self._snapshots.at_timestamp(timestamp)
        except NotFoundError:
            return None

    def list_snapshots(self) -> list[Snapshot]:
        """Return all snapshots, oldest first."""
        return [found for snapshot_id in self._snapshots.ids() if (found := self._snapshots.find(snapshot_id))]

    def later_or_equal_watermark(self, watermark: int) -> Snapshot | None:
        """Return the first snapshot whose watermark has reached one."""
        try:
            return self._snapshots.at_watermark(watermark)
        except NotFoundError:
            return None

    def get_snapshot_by_id(self, snapshot_id: int) -> Snapshot | None:
        """Return a snapshot."""
        return self._snapshots.find(snapshot_id)

    def get_snapshots_batch(self, snapshot_ids: Sequence[int], max_workers: int = 4) -> dict[int, Snapshot | None]:
        """Return several snapshots by their ids, None for those that do not exist."""
        if not snapshot_ids:
            return {}
        with ThreadPoolExecutor(min(len(snapshot_ids), max_workers)) as pool:
            return dict(zip(snapshot_ids, pool.map(self._snapshots.find, snapshot_ids), strict=True))

    def find_next_scannable(
        self,
        start_id: int,
        should_scan: Callable[[Snapshot], bool],
        lookahead_size: int = 10,
        max_workers: int = 4,
    ) -> tuple[Snapshot | None, int, int]:
        """Return the next snapshot that fulfils a condition, the id to look at next, and how many did not fulfil it."""
        found = self.get_snapshots_batch(range(start_id, start_id + lookahead_size), max_workers)
        for skipped, (snapshot_id, snapshot) in enumerate(found.items()):
            if snapshot is None:
                return None, snapshot_id, skipped
            if should_scan(snapshot):
                return snapshot, snapshot_id + 1, skipped
        return None, start_id + lookahead_size, len(found)


@speaking(TABLE_WORDS)
class TagManager(_Manager):
    """The tags of a table."""

    @property
    def _tags(self) -> Tags:
        return Tags(self._storage, self._layout, self._home.history)

    def tag_directory(self) -> str:
        """Return the directory of the tags."""
        return self._layout.tag_directory

    def tag_path(self, tag_name: str) -> str:
        """Return the path of a tag."""
        return self._layout.tag_file(tag_name)

    def tag_exists(self, tag_name: str) -> bool:
        """Say whether there is a tag of this name."""
        return self._tags.exists(tag_name)

    def get(self, tag_name: str) -> Tag | None:
        """Return a tag."""
        try:
            return self.get_or_throw(tag_name)
        except TagNotExistException:
            return None

    def get_or_throw(self, tag_name: str) -> Tag:
        """Return a tag, or raise an error."""
        return Tag.of(self._tags.get(tag_name))

    def create_tag(
        self,
        snapshot: Snapshot,
        tag_name: str,
        ignore_if_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
        time_retained: Age | None = None,
    ) -> None:
        """Give a snapshot a name."""
        retained = arguments.optional(arguments.age_millis, "time_retained", time_retained)
        self._tags.create(tag_name, snapshot, time_retained_millis=retained, ignore_if_exists=ignore_if_exists)

    def list_tags(self) -> list[str]:
        """Return the names of the tags."""
        return self._tags.list()

    def delete_tag(self, tag_name: str) -> bool:
        """Delete a tag, and say whether there was one."""
        try:
            self._tags.delete(tag_name)
        except TagNotExistException:
            return False
        return True

    def replace_tag(self, snapshot: Snapshot, tag_name: str, time_retained: Age | None = None) -> None:
        """Let an existing tag name another snapshot."""
        retained = arguments.optional(arguments.age_millis, "time_retained", time_retained)
        self._tags.replace(tag_name, snapshot, time_retained_millis=retained)

    def rename_tag(self, old_name: str, new_name: str) -> None:
        """Give a tag another name."""
        check_rename(old_name, new_name)
        self._tags.rename(old_name, new_name)


class SchemaManager(_Manager):
    """The schemas of a table."""

    schema_prefix: ClassVar[str] = "schema-"

    @property
    def branch_path(self) -> str:
        """The directory of the branch."""
        return self._layout.branch_root

    @property
    def schema_path(self) -> str:
        """The directory of the schema files."""
        return self._layout.schema_directory

    @property
    def _schemas(self) -> Schemas:
        return Schemas(self._storage, self._layout, home=self._home)

    def copy_with_branch(self, branch_name: str) -> SchemaManager:
        """Return the manager of another branch."""
        return SchemaManager(self.file_io, self.table_path, branch_name, home=self._home.for_branch(branch_name))

    def latest(self) -> TableSchema | None:
        """Return the newest schema."""
        newest = self._schemas.latest()
        return None if newest is None else TableSchema.of(newest)

    def list_all(self) -> list[TableSchema]:
        """Return all schemas, oldest first."""
        return [TableSchema.of(schema) for schema in self._schemas.all()]

    def get_schema(self, schema_id: int) -> TableSchema | None:
        """Return a schema."""
        try:
            return TableSchema.of(self._schemas.get(schema_id))
        except NotFoundError:
            return None

    def create_table(self, schema: declaration.Schema) -> TableSchema:
        """Make a table by its first schema."""
        self._check_files_decide()
        declared = schema.to_core() if isinstance(schema, Schema) else schema
        made = declaration.new_table_schema(declared, time_millis=_now())
        if self._schemas.ids() or not self._schemas.create(made):
            raise SchemaExistsError(
                f"Schema in filesystem exists, creation is not allowed: there is a table at {self.table_path}",
                path=self.table_path,
            )
        return TableSchema.of(made)

    def commit(self, new_schema: TableSchema | core_schema.TableSchema) -> bool:
        """Put a new schema; False means that another one has its number."""
        self._check_files_decide()
        return self._schemas.create(new_schema.to_core() if isinstance(new_schema, TableSchema) else new_schema)

    def _check_files_decide(self) -> None:
        if self._home.schemas is not None:
            raise UnsupportedError(
                f"the schemas of {self.table_path} belong to a server: call commit_changes, or catalog.alter_table",
                path=self.table_path,
            )

    def commit_changes(self, changes: AnyChange | Iterable[AnyChange]) -> TableSchema:
        """Change the newest schema, and return the result."""
        return TableSchema.of(alter(self._store(), core_changes(changes), time_millis=_now()))


@speaking(TABLE_WORDS)
class ConsumerManager(_Manager):
    """The positions of the readers of a table's stream."""

    CONSUMER_PREFIX: ClassVar[str] = "consumer-"

    @property
    def _consumers(self) -> Consumers:
        return Consumers(self._storage, self._layout)

    def consumer(self, consumer_id: str) -> Consumer | None:
        """Return a consumer's position."""
        if consumer_id in {".", ".."}:
            raise InvalidInputError(f"consumer_id cannot be a relative path component: {consumer_id}")
        position = self._consumers.next_snapshot(consumer_id)
        return None if position is None else Consumer(position)

    def reset_consumer(self, consumer_id: str, consumer: Consumer) -> None:
        """Record a consumer's position."""
        self._consumers.record(consumer_id, consumer.next_snapshot)

    def delete_consumer(self, consumer_id: str) -> None:
        """Delete a consumer."""
        self._consumers.delete(consumer_id)

    def min_next_snapshot(self) -> int | None:
        """Return the oldest snapshot that a consumer still has to read."""
        return self._consumers.min_next_snapshot()

    def expire(self, expire_datetime: datetime) -> None:
        """Delete the consumers whose position was recorded before a time."""
        self._consumers.expire(older_than_millis=arguments.moment_millis("expire_datetime", expire_datetime))

    def list_all_ids(self) -> list[str]:
        """Return the ids of the consumers."""
        return self._consumers.list()

    def consumers(self) -> dict[str, int]:
        """Return the position of every consumer."""
        return self._consumers.all()

    def clear_consumers(self, including_pattern: str, excluding_pattern: str | None = None) -> None:
        """Delete the consumers whose ids begin with a match of one regular expression, and of another one do not."""
        for consumer_id in self.list_all_ids():
            excluded = excluding_pattern and re.match(excluding_pattern, consumer_id)
            if re.match(including_pattern, consumer_id) and not excluded:
                self.delete_consumer(consumer_id)

    def with_branch(self, branch: str | None) -> ConsumerManager:
        """Return the manager of another branch."""
        return ConsumerManager(self.file_io, self.table_path, branch)


class ChangelogManager(_Manager):
    """The expired snapshots of a table that are kept for their changelog."""

    CHANGELOG_PREFIX: ClassVar[str] = "changelog-"

    @property
    def _changelogs(self) -> Changelogs:
        return Changelogs(self._storage, self._layout)

    def latest_long_lived_changelog_id(self) -> int | None:
        """Return the id of the newest one."""
        return max(self._changelogs.ids(), default=None)

    def earliest_long_lived_changelog_id(self) -> int | None:
        """Return the id of the oldest one."""
        return min(self._changelogs.ids(), default=None)

    def long_lived_changelog_exists(self, snapshot_id: int) -> bool:
        """Say whether there is one of this id."""
        return self._storage.exists(self.long_lived_changelog_path(snapshot_id))

    def long_lived_changelog(self, snapshot_id: int) -> Changelog:
        """Return one, or raise an error."""
        found = self.try_get_changelog(snapshot_id)
        if found is None:
            path = self.long_lived_changelog_path(snapshot_id)
            raise NotFoundError(f"there is no long-lived changelog {snapshot_id} ({path})", path=path)
        return found

    changelog = long_lived_changelog

    def try_get_changelog(self, snapshot_id: int) -> Changelog | None:
        """Return one."""
        found = self._changelogs.find(snapshot_id)
        return None if found is None else Changelog.from_snapshot(found)

    def long_lived_changelog_path(self, snapshot_id: int) -> str:
        """Return the path of one."""
        return self._layout.changelog_file(snapshot_id)

    def changelog_directory(self) -> str:
        """Return the directory of all."""
        return self._layout.changelog_directory

    def commit_changelog(self, changelog: Snapshot, changelog_id: int) -> None:
        """Put one."""
        self._storage.replace(self.long_lived_changelog_path(changelog_id), to_json(changelog).encode())

    def commit_long_lived_changelog_latest_hint(self, snapshot_id: int) -> None:
        """Write the hint to the newest one."""
        self._storage.replace(f"{self.changelog_directory()}/LATEST", b"%d" % snapshot_id)

    def commit_long_lived_changelog_earliest_hint(self, snapshot_id: int) -> None:
        """Write the hint to the oldest one."""
        self._storage.replace(f"{self.changelog_directory()}/EARLIEST", b"%d" % snapshot_id)

    def changelogs(self) -> Iterator[Changelog]:
        """Yield all, oldest first."""
        found = (self.try_get_changelog(snapshot_id) for snapshot_id in self._changelogs.ids())
        return (changelog for changelog in found if changelog is not None)

    def safely_get_all_changelogs(self) -> list[Changelog]:
        """Return all, oldest first."""
        return list(self.changelogs())

    def delete_latest_hint(self) -> None:
        """Delete the hint to the newest one."""
        self._storage.delete(f"{self.changelog_directory()}/LATEST")

    def delete_earliest_hint(self) -> None:
        """Delete the hint to the oldest one."""
        self._storage.delete(f"{self.changelog_directory()}/EARLIEST")


@speaking(TABLE_WORDS)
class FileSystemBranchManager(BranchManager):
    """The branches of a table."""

    def __init__(
        self,
        file_io: FileIO,
        table_path: str,
        snapshot_manager: SnapshotManager,
        tag_manager: TagManager,
        schema_manager: SchemaManager,
        current_branch: str = MAIN_BRANCH,
    ) -> None:
        self.file_io = file_io
        self.table_path = table_path.rstrip("/")
        self.snapshot_manager = snapshot_manager
        self.tag_manager = tag_manager
        self.schema_manager = schema_manager
        self.current_branch = BranchManager.normalize_branch(current_branch)

    def _store(self) -> TableStore:
        return self.schema_manager._store()  # noqa: SLF001 - the same module

    def branch_path(self, branch_name: str) -> str:  # type: ignore[override] # pypaimon's signature
        """Return the directory of a branch."""
        return BranchManager.branch_path(self.table_path, branch_name)

    def create_branch(
        self,
        branch_name: str,
        tag_name: str | None = None,
        ignore_if_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Make a branch at the state of a tag; without one, an empty branch with the table's schemas."""
        if ignore_if_exists and self.branch_exists(branch_name):
            return
        branches.create_branch(self._store(), branch_name, tag_name)

    def drop_branch(self, branch_name: str) -> None:
        """Drop a branch."""
        branches.drop_branch(self._store(), branch_name)

    def rename_branch(self, from_branch: str, to_branch: str) -> None:
        """Give a branch another name."""
        for side, name in (("Source", from_branch), ("Target", to_branch)):
            if not name.strip():
                raise InvalidInputError(f"{side} branch name shouldn't be blank.")
        if from_branch == MAIN_BRANCH:
            raise InvalidInputError("Cannot rename the main branch 'main': it is the table itself")
        try:
            check_name("branch", to_branch)
        except InvalidInputError as error:
            raise InvalidInputError(f"Invalid target branch name: {error}", **error.facts) from error
        if not self.branch_exists(from_branch):
            raise BranchNotExistException(f"Source branch '{from_branch}' doesn't exist.", branch=from_branch)
        if self.branch_exists(to_branch):
            raise BranchAlreadyExistException(f"Target branch '{to_branch}' already exists.", branch=to_branch)
        branches.rename_branch(self._store(), from_branch, to_branch)

    def fast_forward(self, branch_name: str) -> None:
        """Bring the current branch to the state of another one; warn if rows or tags are lost by that."""
        BranchManager.fast_forward_validate(branch_name, self.current_branch)
        try:
            store = self._store()
            result = branches.fast_forward(store, branch_name, allow_loss=True)
        except InvalidInputError as error:
            raise no_forward(branch_name, error) from error
        warn_of_loss(store.name, result)

    def branches(self) -> list[str]:
        """Return the names of the branches beside `main`."""
        owner = self.schema_manager._home.history  # noqa: SLF001 - the same module
        return refs.branches(self.file_io.storage, Layout(self.table_path)) if owner is None else owner.branches()

    def branch_exists(self, branch_name: str) -> bool:
        """Say whether there is a branch of this name."""
        return branch_name == MAIN_BRANCH or branch_name in self.branches()


def _now() -> int:
    return int(time.time() * 1000)


class ManagedTable(table.FileStoreTable):
    """A table with pypaimon's managers."""

    __slots__ = ()

    @property
    def file_io(self) -> FileIO:
        """The files of the storage in which the table lies."""
        return FileIO(self.store.storage)

    def current_branch(self) -> str:
        """Return the name of the branch, `main` for the table itself."""
        return self.store.layout.branch

    def snapshot_manager(self) -> SnapshotManager:
        """Return the manager of the snapshots."""
        return SnapshotManager(self.file_io, self.table_path, self.current_branch(), home=self.store.home)

    def tag_manager(self) -> TagManager:
        """Return the manager of the tags."""
        return TagManager(self.file_io, self.table_path, self.current_branch(), home=self.store.home)

    @property
    def schema_manager(self) -> SchemaManager:
        """The manager of the schemas."""
        return SchemaManager(self.file_io, self.table_path, self.current_branch(), home=self.store.home)

    def consumer_manager(self) -> ConsumerManager:
        """Return the manager of the consumers."""
        return ConsumerManager(self.file_io, self.table_path, self.current_branch())

    def changelog_manager(self) -> ChangelogManager:
        """Return the manager of the long-lived changelogs."""
        return ChangelogManager(self.file_io, self.table_path, self.current_branch())

    def branch_manager(self) -> FileSystemBranchManager:
        """Return the manager of the branches."""
        return FileSystemBranchManager(
            self.file_io,
            self.table_path,
            self.snapshot_manager(),
            self.tag_manager(),
            self.schema_manager,
            self.current_branch(),
        )

    create_tag = heard(table.FileStoreTable.create_tag, NEW_TAG_WORDS)

    def delete_tag(self, tag_name: str) -> bool:  # type: ignore[override] # pypaimon's result
        """Delete a tag, and say whether there was one."""
        try:
            super().delete_tag(tag_name)
        except TagNotExistException:
            return False
        return True

    def rename_tag(self, old_name: str, new_name: str) -> None:
        """Give a tag another name."""
        check_rename(old_name, new_name)
        super().rename_tag(old_name, new_name)

    def rollback_to_timestamp(self, timestamp_millis: Moment) -> RollbackResult:
        """Bring the table back to the last snapshot that is not later than a time."""
        return super().rollback_to_timestamp(timestamp_millis)
