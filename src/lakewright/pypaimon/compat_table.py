"""`FileStoreTable` and the managers of its history."""

from __future__ import annotations

import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import ClassVar, Protocol, TypeAlias, cast

from lakewright.errors import (
    BranchAlreadyExistException,
    BranchNotExistException,
    InvalidInputError,
    LakewrightError,
    NotFoundError,
    TableNotExistException,
    TagNotExistException,
    UnsupportedError,
)
from lakewright.maintenance import branches
from lakewright.maintenance.rollback import RollbackResult
from lakewright.maintenance.schema_alteration import alter
from lakewright.metadata import refs
from lakewright.metadata.authority import FILE_AUTHORITY, TableAuthority
from lakewright.metadata.refs import Consumers, Tags
from lakewright.metadata.schema_files import SchemaFiles
from lakewright.metadata.snapshot_files import Changelogs, SnapshotFiles
from lakewright.metadata.table_store import TableStore, apply_layout_options
from lakewright.pypaimon.compat_errors import (
    NEW_TAG_WORDS,
    TABLE_WORDS,
    SchemaExistsError,
    no_forward,
    translate_errors,
    translate_method_errors,
    warn_of_loss,
)
from lakewright.pypaimon.compat_file_io import FileIO
from lakewright.pypaimon.compat_options import CoreOptions
from lakewright.pypaimon.compat_read import ReadBuilder, StreamReadBuilder
from lakewright.pypaimon.compat_types import (
    BucketMode,
    Schema,
    SchemaChange,
    ShownSchema,
    TableSchema,
    core_changes,
    field_from_core,
)
from lakewright.pypaimon.compat_values import Identifier as IdentifierCompat
from lakewright.pypaimon.compat_write import BatchWriteBuilder, PostponeFixedBucketWriteBuilder, StreamWriteBuilder
from lakewright.read import read_builder, stream_read
from lakewright.read.time_travel import has_time_travel, with_snapshot_schema
from lakewright.spec import argument_checks, manifest, schema
from lakewright.spec import schema as core_change
from lakewright.spec import schema as core_schema
from lakewright.spec import snapshot as core_snapshot
from lakewright.spec import table_schema as core_table_schema
from lakewright.spec.argument_checks import DurationLike, TimestampLike
from lakewright.spec.identifier import Identifier
from lakewright.spec.snapshot import Snapshot, snapshot_from_json, to_json
from lakewright.spec.types import DataField
from lakewright.storage.storage_registry import open_storage
from lakewright.storage.table_layout import MAIN_BRANCH, Layout, check_name
from lakewright.table import file_store_table
from lakewright.table.open_table import open_layout

# ---- Branch managers -------------------------------------------------------------------------------------------------

BRANCH_PREFIX = "branch-"


@translate_errors(TABLE_WORDS)
class BranchManager:
    """What all managers of branches share: the verbs, and the rules of names and paths."""

    def create_branch(
        self,
        branch_name: str,  # noqa: ARG002 - subclasses use it
        tag_name: str | None = None,  # noqa: ARG002 - subclasses use it
        ignore_if_exists: bool = False,  # noqa: ARG002, FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Make a branch."""
        raise UnsupportedError("Subclasses must implement create_branch")

    def drop_branch(self, branch_name: str) -> None:  # noqa: ARG002 - subclasses use it
        """Drop a branch."""
        raise UnsupportedError("Subclasses must implement drop_branch")

    def rename_branch(self, from_branch: str, to_branch: str) -> None:  # noqa: ARG002 - subclasses use it
        """Give a branch another name."""
        raise UnsupportedError("Subclasses must implement rename_branch")

    def fast_forward(self, branch_name: str) -> None:  # noqa: ARG002 - subclasses use it
        """Bring the current branch to the state of another one."""
        raise UnsupportedError("Subclasses must implement fast_forward")

    def branches(self) -> list[str]:
        """Return the names of the branches."""
        raise UnsupportedError("Subclasses must implement branches")

    def branch_exists(self, branch_name: str) -> bool:
        """Return whether there is a branch of this name."""
        return branch_name in self.branches()

    @staticmethod
    def branch_path(table_path: str, branch: str) -> str:
        """Return the directory of a branch."""
        return table_path if branch == MAIN_BRANCH else f"{table_path}/branch/{BRANCH_PREFIX}{branch}"

    @staticmethod
    def normalize_branch(branch: str | None) -> str:
        """Return the name of a branch; none and blank ones stand for `main`."""
        return branch if branch and branch.strip() else MAIN_BRANCH

    @staticmethod
    def is_main_branch(branch: str) -> bool:
        """Return whether a branch is the table itself."""
        return branch == MAIN_BRANCH

    @staticmethod
    def validate_branch(branch_name: str) -> None:
        """Raise an error if a new branch cannot have this name."""
        check_name("branch", branch_name)

    @staticmethod
    def fast_forward_validate(branch_name: str, current_branch: str) -> None:
        """Raise an error if one branch cannot be forwarded to the other."""
        if branch_name == MAIN_BRANCH:
            raise InvalidInputError("Branch name 'main' do not use in fast-forward: give the branch to forward to")
        check_name("branch", branch_name)
        if branch_name == current_branch:
            raise InvalidInputError(f"Fast-forward from the current branch {current_branch!r} is not allowed.")


# ---- Values of managers ----------------------------------------------------------------------------------------------
# They hold facts of lakewright's values under pypaimon's names.


class TextFiles(Protocol):
    """Something that reads a file as text: `table.file_io`."""

    def read_file_utf8(self, path: str) -> str:
        """Return the text of a file."""


@dataclass(frozen=True, slots=True)
class Tag(Snapshot):
    """A tagged snapshot, with the time when the tag was made and how long it stays."""

    tag_create_time: datetime | None = None
    tag_time_retained: timedelta | None = None

    @staticmethod
    def from_snapshot_and_tag_ttl(
        snapshot: Snapshot, tag_time_retained: timedelta | None, tag_create_time: datetime | None
    ) -> Tag:
        """Make a tag of a snapshot."""
        return Tag(**_facts(snapshot), tag_create_time=tag_create_time, tag_time_retained=tag_time_retained)  # type: ignore[arg-type]

    @staticmethod
    def of(tag: core_snapshot.Tag) -> Tag:
        """Return a tag in this form."""
        return Tag.from_snapshot_and_tag_ttl(tag.snapshot, tag.time_retained, tag.create_time)

    def trim_to_snapshot(self) -> Snapshot:
        """Return the snapshot alone."""
        return Snapshot(**_facts(self))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Changelog(Snapshot):
    """An expired snapshot that is kept for its changelog."""

    @staticmethod
    def from_snapshot(snapshot: Snapshot) -> Changelog:
        """Make one of a snapshot."""
        return Changelog(**_facts(snapshot))  # type: ignore[arg-type]

    @staticmethod
    def from_json(json_str: str) -> Changelog:
        """Read the text of a changelog's file."""
        return Changelog.from_snapshot(snapshot_from_json(json_str, path="changelog"))

    @staticmethod
    def from_path(file_io: TextFiles, path: str) -> Changelog:
        """Read a changelog's file."""
        return Changelog.from_snapshot(snapshot_from_json(file_io.read_file_utf8(path), path=path))

    try_from_path = from_path


def _facts(snapshot: Snapshot) -> dict[str, object]:
    return {field.name: getattr(snapshot, field.name) for field in fields(Snapshot)}


@dataclass(frozen=True, slots=True)
class GetTagResponse:
    """A tag as a catalog describes it: times as epoch milliseconds and as an ISO-8601 duration such as `PT24H`."""

    FIELD_TAG_NAME: ClassVar[str] = "tagName"
    FIELD_SNAPSHOT: ClassVar[str] = "snapshot"
    FIELD_TAG_CREATE_TIME: ClassVar[str] = "tagCreateTime"
    FIELD_TAG_TIME_RETAINED: ClassVar[str] = "tagTimeRetained"

    tag_name: str | None = None
    snapshot: Snapshot | None = None
    tag_create_time: int | None = None
    tag_time_retained: str | None = None

    @staticmethod
    def of(tag: core_snapshot.Tag) -> GetTagResponse:
        """Describe a tag."""
        created, retained = tag.create_time, tag.time_retained
        return GetTagResponse(
            tag.name,
            tag.snapshot,
            None if created is None else round(created.timestamp() * 1000),
            None if retained is None else iso_duration(retained),
        )


def iso_duration(td: timedelta) -> str:
    """Write a duration in hours, minutes and seconds, as Java does.

    >>> iso_duration(timedelta(days=1)), iso_duration(timedelta(minutes=61, seconds=1.5)), iso_duration(timedelta(0))
    ('PT24H', 'PT1H1M1.5S', 'PT0S')
    """
    seconds, micros = divmod(td // timedelta(microseconds=1), 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{micros:06d}".rstrip("0") if micros else ""
    parts = (f"{hours}H" if hours else "", f"{minutes}M" if minutes else "")
    return f"PT{''.join(parts)}{f'{seconds}{fraction}S' if seconds or micros or not any(parts) else ''}"


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """The newest snapshot as a server describes it, with sums over the whole table."""

    snapshot: Snapshot
    record_count: int
    file_size_in_bytes: int
    file_count: int
    last_file_creation_time: int


@dataclass(slots=True)
class Consumer:
    """The position of a reader of a stream."""

    next_snapshot: int

    def to_json(self) -> str:
        """Return the text of the consumer's file."""
        return json.dumps({"nextSnapshot": self.next_snapshot})

    @staticmethod
    def from_json(json_str: str) -> Consumer:
        """Read the text of a consumer's file."""
        return Consumer(json.loads(json_str)["nextSnapshot"])

    @classmethod
    def from_path(cls, file_io: TextFiles, path: str) -> Consumer | None:
        """Read a consumer's file; None where there is none."""
        try:
            return cls.from_json(file_io.read_file_utf8(path))
        except FileNotFoundError:
            return None


class Instant(ABC):
    """What a table can be rolled back to: a snapshot or a tag."""

    FIELD_TYPE: ClassVar[str] = "type"
    TYPE_SNAPSHOT: ClassVar[str] = "snapshot"
    TYPE_TAG: ClassVar[str] = "tag"

    @staticmethod
    def snapshot(snapshot_id: int) -> SnapshotInstant:
        """Name a snapshot by its id."""
        return SnapshotInstant(snapshot_id)

    @staticmethod
    def tag(tag_name: str) -> TagInstant:
        """Name a tag."""
        return TagInstant(tag_name)

    @abstractmethod
    def to_dict(self) -> dict[str, object]:
        """Return it as JSON members."""

    @staticmethod
    def from_dict(data: Mapping[str, object]) -> Instant:
        """Read JSON members."""
        match data.get(Instant.FIELD_TYPE):
            case Instant.TYPE_SNAPSHOT:
                return SnapshotInstant(argument_checks.check_int("snapshotId", data.get("snapshotId")))
            case Instant.TYPE_TAG:
                return TagInstant(argument_checks.check_text("tagName", data.get("tagName")))
            case other:
                raise InvalidInputError(
                    f"Unknown instant type: {argument_checks.describe_value(other)}; it is 'snapshot' or 'tag'"
                )


@dataclass(frozen=True)
class SnapshotInstant(Instant):
    """A snapshot to roll back to."""

    snapshot_id: int
    FIELD_SNAPSHOT_ID: ClassVar[str] = "snapshotId"

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON members."""
        return {self.FIELD_TYPE: self.TYPE_SNAPSHOT, self.FIELD_SNAPSHOT_ID: self.snapshot_id}


@dataclass(frozen=True)
class TagInstant(Instant):
    """A tag to roll back to."""

    tag_name: str
    FIELD_TAG_NAME: ClassVar[str] = "tagName"

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON members."""
        return {self.FIELD_TYPE: self.TYPE_TAG, self.FIELD_TAG_NAME: self.tag_name}


@dataclass(frozen=True, slots=True)
class Partition(manifest.Partition):
    """A partition in the newest snapshot; a filesystem catalog knows nothing of who made it and when."""

    FIELD_DONE: ClassVar[str] = "done"
    FIELD_OPTIONS: ClassVar[str] = "options"

    done: bool = False
    created_at: int | None = None
    created_by: str | None = None
    updated_at: int | None = None
    updated_by: str | None = None
    options: Mapping[str, str] | None = None

    @classmethod
    def create(
        cls,
        partition_spec: Mapping[str, str] | None = None,
        record_count: int = 0,
        file_count: int = 0,
        file_size_in_bytes: int = 0,
        last_file_creation_time: int | None = None,
        total_buckets: int = 0,
    ) -> Partition:
        """Describe a partition; without a time its last file was made now."""
        made = last_file_creation_time or int(time.time() * 1000)
        return cls(partition_spec or {}, record_count, file_size_in_bytes, file_count, made, total_buckets)


@dataclass(frozen=True)
class PropertyChange:
    """A change of one property of a database."""

    property: str

    @staticmethod
    def set_property(property: str, value: str) -> SetProperty:  # noqa: A002 - pypaimon's name
        """Give a property a value."""
        return SetProperty(property, value)

    @staticmethod
    def remove_property(property: str) -> RemoveProperty:  # noqa: A002 - pypaimon's name
        """Remove a property."""
        return RemoveProperty(property)

    @staticmethod
    def get_set_properties_to_remove_keys(
        changes: Sequence[PropertyChange],
    ) -> tuple[dict[str, str], set[str]]:
        """Return the values that changes set, and the properties that they remove."""
        given = {change.property: change.value for change in changes if isinstance(change, SetProperty)}
        return given, {change.property for change in changes if isinstance(change, RemoveProperty)}


@dataclass(frozen=True)
class SetProperty(PropertyChange):
    """A property gets a value."""

    value: str


@dataclass(frozen=True)
class RemoveProperty(PropertyChange):
    """A property is removed."""


def check_rename(old_name: str, new_name: str) -> None:
    """Refuse blank names of tags."""
    for which, name in (("Old", old_name), ("New", new_name)):
        if not name.strip():
            raise InvalidInputError(f"{which} tag name shouldn't be blank.")


# ---- Managers --------------------------------------------------------------------------------------------------------
# A manager knows a storage, the path of a table, a branch and the home of its history, and looks anew in every call.
# One that a program makes by hand has the files for a home, one that a table gives the home of the table. Where
# pypaimon returns None for what is not there, so do these.

AnyChange: TypeAlias = SchemaChange | core_change.SchemaChange

TAG_PREFIX = "tag-"
EARLIEST_SNAPSHOT_DEFAULT_RETRY_NUM = 300  # pypaimon's; lakewright lists the snapshots instead


class _Manager:
    """The files of one branch of a table."""

    file_io: FileIO
    table_path: str
    branch: str

    def __init__(
        self, file_io: FileIO, table_path: str, branch: str | None = None, *, home: TableAuthority = FILE_AUTHORITY
    ) -> None:
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
        return replace(open_layout(identifier, self._storage, Layout(self.table_path)).store, home=self._home)


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
    def _snapshots(self) -> SnapshotFiles:
        return SnapshotFiles(self._storage, self._layout, self._home.history)

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


@translate_errors(TABLE_WORDS)
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
        """Return whether there is a tag of this name."""
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
        time_retained: DurationLike | None = None,
    ) -> None:
        """Give a snapshot a name."""
        retained = argument_checks.check_optional(argument_checks.to_duration_millis, "time_retained", time_retained)
        self._tags.create(tag_name, snapshot, time_retained_millis=retained, ignore_if_exists=ignore_if_exists)

    def list_tags(self) -> list[str]:
        """Return the names of the tags."""
        return self._tags.list()

    def delete_tag(self, tag_name: str) -> bool:
        """Delete a tag, and return whether there was one."""
        try:
            self._tags.delete(tag_name)
        except TagNotExistException:
            return False
        return True

    def replace_tag(self, snapshot: Snapshot, tag_name: str, time_retained: DurationLike | None = None) -> None:
        """Let an existing tag name another snapshot."""
        retained = argument_checks.check_optional(argument_checks.to_duration_millis, "time_retained", time_retained)
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
    def _schemas(self) -> SchemaFiles:
        return SchemaFiles(self._storage, self._layout, home=self._home)

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

    def create_table(self, schema: schema.Schema) -> TableSchema:
        """Make a table by its first schema."""
        self._check_files_decide()
        declared = schema.to_core() if isinstance(schema, Schema) else schema
        made = core_schema.new_table_schema(declared, time_millis=_now())
        if self._schemas.ids() or not self._schemas.create(made):
            raise SchemaExistsError(
                f"Schema in filesystem exists, creation is not allowed: there is a table at {self.table_path}",
                path=self.table_path,
            )
        return TableSchema.of(made)

    def commit(self, new_schema: TableSchema | core_table_schema.TableSchema) -> bool:
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


@translate_errors(TABLE_WORDS)
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
        self._consumers.expire(older_than_millis=argument_checks.to_epoch_millis("expire_datetime", expire_datetime))

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
        """Return whether there is one of this id."""
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


@translate_errors(TABLE_WORDS)
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
        """Return whether there is a branch of this name."""
        return branch_name == MAIN_BRANCH or branch_name in self.branches()


def _now() -> int:
    return int(time.time() * 1000)


class ManagedTable(file_store_table.FileStoreTable):
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

    create_tag = translate_method_errors(file_store_table.FileStoreTable.create_tag, NEW_TAG_WORDS)

    def delete_tag(self, tag_name: str) -> bool:  # type: ignore[override] # pypaimon's result
        """Delete a tag, and return whether there was one."""
        try:
            super().delete_tag(tag_name)
        except TagNotExistException:
            return False
        return True

    def rename_tag(self, old_name: str, new_name: str) -> None:
        """Give a tag another name."""
        check_rename(old_name, new_name)
        super().rename_tag(old_name, new_name)

    def rollback_to_timestamp(self, timestamp_millis: TimestampLike) -> RollbackResult:
        """Bring the table back to the last snapshot that is not later than a time."""
        return super().rollback_to_timestamp(timestamp_millis)


# ---- Tables ----------------------------------------------------------------------------------------------------------


@translate_errors(TABLE_WORDS)
class FileStoreTable(ManagedTable):
    """A table with pypaimon's shapes."""

    __slots__ = ()
    _read_builder_class: ClassVar[type[read_builder.ReadBuilder]] = ReadBuilder
    _stream_read_builder_class: ClassVar[type[stream_read.StreamReadBuilder]] = StreamReadBuilder

    @classmethod
    def from_path(cls, table_path: str, file_io_options: Mapping[str, object] | None = None) -> FileStoreTable:
        """Open the table at a path; the options are those of the storage. It is named `default.table`."""
        options = {key: str(value) for key, value in (file_io_options or {}).items()}
        storage, location = open_storage(table_path, options)
        name = IdentifierCompat.create("default", "table")
        try:
            return cls(name, open_layout(name, storage, Layout(location.rstrip("/"))).store)
        except TableNotExistException as error:
            raise InvalidInputError(f"No schema found at path: {table_path}", path=table_path) from error

    @property
    def schema(self) -> ShownSchema:
        """The schema that reads and writes use; `schema()` returns it in pypaimon's form."""
        return ShownSchema.of(self.store.schema)

    @property
    def table_schema(self) -> TableSchema:  # type: ignore[override] # pypaimon's form
        """The schema that reads and writes use, with the effective options."""
        return TableSchema.of(self.store.schema)

    @property
    def fields(self) -> list[DataField]:
        """The columns in order."""
        return [field_from_core(field) for field in self.store.schema.fields]

    def bucket_mode(self) -> BucketMode:
        """Return how the bucket of a row is chosen."""
        return BucketMode.of(self.store.schema.bucket_mode)

    def copy(self, options: Mapping[str, object]) -> FileStoreTable:
        """Return the same table with more options; None removes one.

        With options that name a snapshot the table has the columns of that snapshot.
        """
        table = self.copy_without_time_travel(options)
        if not has_time_travel(table.store):
            return table
        try:
            store = with_snapshot_schema(table.store)
        except LakewrightError:  # a read says what is wrong
            return table
        return table if store is None else replace(table, store=store)

    def copy_without_time_travel(self, options: Mapping[str, object]) -> FileStoreTable:
        """Return the same table with the same columns and more options; None removes one. Buckets stay as they are."""
        bucket = argument_checks.check_mapping("options", options).get("bucket") or self.total_buckets
        if str(bucket) != str(self.total_buckets):
            raise InvalidInputError(
                f"table {self.name}: Cannot change bucket number: it is {self.total_buckets}, and not {bucket}"
            )
        removed = {key for key, value in options.items() if value is None}
        kept = {key: value for key, value in self.store.schema.options.items() if key not in removed}
        schema = replace(self.store.schema, options=kept)
        base = replace(
            self, store=replace(self.store, schema=schema, layout=apply_layout_options(self.store.layout, schema))
        )
        given = {key: value for key, value in options.items() if value is not None}
        return cast("FileStoreTable", super(FileStoreTable, base).copy(given))

    def drop_global_index(  # type: ignore[override] # pypaimon's arguments and result
        self,
        index_column: str,
        index_type: str = "btree",
        partition_filter: object = None,
        partitions: Mapping[str, object] | Sequence[Mapping[str, object]] | None = None,
        dry_run: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> int:
        """Drop the global indexes of a column, and return the number of their files."""
        if partition_filter is not None:
            raise UnsupportedError(f"{self.name}: drop_global_index takes no partition_filter here; give partitions")
        dropped = super().drop_global_index(index_column, index_type, partitions=partitions, dry_run=dry_run)
        return len(dropped.files)

    def new_batch_write_builder(self) -> BatchWriteBuilder:
        """Start a batch write: one writer (or many), one commit."""
        return BatchWriteBuilder(self)

    def new_write_builder(self) -> BatchWriteBuilder:
        """Start a batch write, under pypaimon-rust's name."""
        return BatchWriteBuilder(self)

    def new_stream_write_builder(self) -> StreamWriteBuilder:
        """Start a stream write: many commits, each with an identifier."""
        return StreamWriteBuilder(self)

    def new_postpone_fixed_bucket_write_builder(self) -> PostponeFixedBucketWriteBuilder:
        """Start a batch write straight into real buckets of a table that postpones them (`bucket` = -2)."""
        return PostponeFixedBucketWriteBuilder(self)

    @property
    def options(self) -> CoreOptions:
        """The effective options."""
        return CoreOptions(self.store.options.values)

    @property
    def is_primary_key_table(self) -> bool:
        """Whether the table has a primary key."""
        return bool(self.schema.primary_keys)

    @property
    def total_buckets(self) -> int:
        """The number of buckets that the option `bucket` says."""
        return self.store.options.bucket

    @property
    def cross_partition_update(self) -> bool:
        """Whether an update may move a key to another partition."""
        return self.schema.crosses_partitions

    @property
    def trimmed_primary_keys(self) -> list[str]:
        """The primary key without the partition columns."""
        return list(self.schema.trimmed_primary_keys)

    @property
    def field_dict(self) -> dict[str, DataField]:
        """The columns by their names."""
        return {field.name: field for field in self.fields}

    @property
    def primary_keys_fields(self) -> list[DataField]:
        """The columns of the primary key."""
        return [self.field_dict[name] for name in self.primary_keys]

    @property
    def trimmed_primary_keys_fields(self) -> list[DataField]:
        """The columns of the primary key that are no partition columns."""
        return [self.field_dict[name] for name in self.trimmed_primary_keys]

    @property
    def partition_keys_fields(self) -> list[DataField]:
        """The partition columns."""
        return [self.field_dict[name] for name in self.partition_keys]
