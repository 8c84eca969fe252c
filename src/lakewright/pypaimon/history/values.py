"""The values that pypaimon's managers and catalogs take and return: tags, consumers, instants, partitions.

They hold facts of lakewright's values under pypaimon's names.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import ClassVar, Protocol

from lakewright.errors import InvalidInputError
from lakewright.spec import arguments, manifest
from lakewright.spec import snapshot as core
from lakewright.spec.snapshot import Snapshot, snapshot_from_json


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
    def of(tag: core.Tag) -> Tag:
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
    def of(tag: core.Tag) -> GetTagResponse:
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
                return SnapshotInstant(arguments.whole("snapshotId", data.get("snapshotId")))
            case Instant.TYPE_TAG:
                return TagInstant(arguments.text("tagName", data.get("tagName")))
            case other:
                raise InvalidInputError(f"Unknown instant type: {arguments.shown(other)}; it is 'snapshot' or 'tag'")


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
