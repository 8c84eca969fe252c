"""Snapshots and tags, and their JSON.

Parses the JSON into frozen values and writes it. Absent keys are omitted, unknown keys are ignored. What lakewright
writes has one more key, `checksum`, which other implementations ignore: with it a flipped bit in the file is detected.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from lakewright.display import HtmlRepr
from lakewright.errors import CorruptTableError, InvalidInputError, UnsupportedError

MAX_LONG = 9223372036854775807  # the identifier of every batch commit
# Properties of the snapshots that a rollback or fast-forward publishes above the one that is to be the newest, whose id
# is the value: of those that change nothing and keep an id from being used, and of the one that brings that state.
COPY_OF = "lakewright.copy-of"
COVER_OF = "lakewright.cover-of"
MIN_LONG = -9223372036854775808
VERSION = 3  # of new snapshots; 1 and 2 lack some keys

_CHECKSUM = "checksum"
_REMEDY = "restore the file from a copy; or, to give up what it committed, delete the file and call table.repair()"


class CommitKind(StrEnum):
    """What a commit did to the live files."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


@dataclass(frozen=True, slots=True)
class Snapshot(HtmlRepr):
    """One immutable state of a table."""

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    commit_user: str
    commit_identifier: int
    commit_kind: CommitKind
    time_millis: int
    version: int = 3
    uuid: str | None = None
    base_manifest_list_size: int | None = None
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    index_manifest: str | None = None
    writer_version: str | None = None
    total_record_count: int | None = None
    delta_record_count: int | None = None
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    next_row_id: int | None = None
    operation: str | None = None


@dataclass(frozen=True, slots=True)
class Tag(HtmlRepr):
    """A snapshot with a name, whose files are kept after the snapshot itself has expired."""

    name: str
    snapshot: Snapshot
    create_time: datetime | None = None  # the writer's local wall clock, without a zone
    time_retained: timedelta | None = None  # None: for ever


# Key in the file, attribute, type; in the order of the file. `commitKind` and `properties` have types of their own.
_KEYS: tuple[tuple[str, str, type], ...] = (
    ("version", "version", int),
    ("uuid", "uuid", str),
    ("id", "id", int),
    ("schemaId", "schema_id", int),
    ("baseManifestList", "base_manifest_list", str),
    ("baseManifestListSize", "base_manifest_list_size", int),
    ("deltaManifestList", "delta_manifest_list", str),
    ("deltaManifestListSize", "delta_manifest_list_size", int),
    ("changelogManifestList", "changelog_manifest_list", str),
    ("changelogManifestListSize", "changelog_manifest_list_size", int),
    ("indexManifest", "index_manifest", str),
    ("commitUser", "commit_user", str),
    ("writerVersion", "writer_version", str),
    ("commitIdentifier", "commit_identifier", int),
    ("commitKind", "commit_kind", CommitKind),
    ("timeMillis", "time_millis", int),
    ("totalRecordCount", "total_record_count", int),
    ("deltaRecordCount", "delta_record_count", int),
    ("changelogRecordCount", "changelog_record_count", int),
    ("watermark", "watermark", int),
    ("statistics", "statistics", str),
    ("properties", "properties", dict),
    ("nextRowId", "next_row_id", int),
    ("operation", "operation", str),
)
_REQUIRED = frozenset(
    "id schemaId baseManifestList deltaManifestList commitUser commitIdentifier commitKind timeMillis".split()
)


def is_same_commit(one: Snapshot, other: Snapshot) -> bool:
    """Return whether two snapshots are the same commit, by the unique names of their manifest lists.

    Uuids do not tell: other writers, and some servers, leave them out.
    """
    return one.id == other.id and state_of(one) == state_of(other)


@dataclass(frozen=True, slots=True)
class SeenSnapshot:
    """The newest snapshot at some time: its id, and the names of its manifest lists, which no other snapshot has.

    A table without snapshots has the id 0 and no names.
    """

    id: int = 0
    base_manifest_list: str = ""
    delta_manifest_list: str = ""

    @classmethod
    def of(cls, snapshot: Snapshot | None) -> SeenSnapshot:
        """Return what identifies a snapshot; None stands for a table that has none."""
        return cls() if snapshot is None else cls(snapshot.id, *state_of(snapshot))


def state_of(snapshot: Snapshot) -> tuple[str, str]:
    """Return the names of the manifest lists, which no other commit has."""
    return (snapshot.base_manifest_list, snapshot.delta_manifest_list)


def to_json(snapshot: Snapshot) -> str:
    """Return the text of the snapshot file.

    >>> snapshot = Snapshot(1, 0, "manifest-list-a-0", "manifest-list-a-1", "user", 7, CommitKind.APPEND, 1700000000000)
    >>> snapshot_from_json(to_json(snapshot), path="snapshot-1") == snapshot
    True
    """
    return _with_checksum(snapshot_members(snapshot))


def snapshot_from_json(text: str | bytes, *, path: str) -> Snapshot:
    """Read the text of a snapshot file; `path` names it in errors."""
    return snapshot_from_members(_parse(text, path), path=path)


def tag_to_json(tag: Tag) -> str:
    """Return the text of the tag file: the snapshot, the time when the tag was made and how long it is kept."""
    members = snapshot_members(tag.snapshot)
    if tag.create_time is not None:
        t = tag.create_time
        members["tagCreateTime"] = [t.year, t.month, t.day, t.hour, t.minute, t.second, t.microsecond * 1000]
    if tag.time_retained is not None:
        members["tagTimeRetained"] = tag.time_retained.total_seconds()
    return _with_checksum(members)


def tag_from_json(text: str | bytes, *, name: str, path: str) -> Tag:
    """Read the text of a tag file; `path` names it in errors."""
    members = _parse(text, path)
    snapshot = snapshot_from_members(members, path=path)
    return Tag(name, snapshot, _create_time(members, path), _time_retained(members, path))


def snapshot_members(snapshot: Snapshot) -> dict[str, object]:
    """Return the members of the file in its order, without the absent ones and without the checksum."""
    members: dict[str, object] = {}
    for key, attribute, _ in _KEYS:
        value = getattr(snapshot, attribute)
        if value is not None:
            members[key] = value
    if not snapshot.properties:
        del members["properties"]
    else:
        members["properties"] = dict(snapshot.properties)
    return members


def _with_checksum(members: dict[str, object]) -> str:
    text = json.dumps({**members, _CHECKSUM: json_checksum(members)}, indent=2, ensure_ascii=False)
    if not _is_unicode(text):
        raise InvalidInputError("a user, property or other text of the snapshot is not valid Unicode")
    return text


def _is_unicode(text: str) -> bool:
    """Return whether a text can be stored: JSON can spell half of a surrogate pair, files cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def json_checksum(members: Mapping[str, object]) -> str:
    """Return the checksum of a JSON file of metadata; it does not depend on white space or the order of keys."""
    canonical = json.dumps(members, sort_keys=True, separators=(",", ":"))
    return f"crc32:{zlib.crc32(canonical.encode()):08x}"


def _parse(text: str | bytes, path: str) -> dict[str, object]:
    """Return the members of a file whose checksum, where it has one, is right."""
    if not text.strip():
        raise CorruptTableError(f"{path} is empty; {_REMEDY}", path=path)
    try:
        members = json.loads(text if isinstance(text, str) else text.decode())
    except (ValueError, RecursionError) as error:
        raise CorruptTableError(f"{path} is cut or damaged: {error}; {_REMEDY}", path=path) from error
    if not isinstance(members, dict):
        raise CorruptTableError(f"{path} does not hold a JSON object; {_REMEDY}", path=path)
    if not _is_unicode(json.dumps(members, ensure_ascii=False)):
        raise CorruptTableError(f"{path} has a text that is not valid Unicode; {_REMEDY}", path=path)
    expected = members.pop(_CHECKSUM, None)
    if expected is not None and expected != json_checksum(members):
        raise CorruptTableError(f"{path} does not match its checksum {expected!r}; {_REMEDY}", path=path)
    return members


def snapshot_from_members(members: Mapping[str, object], *, path: str) -> Snapshot:
    """Read the members of a snapshot file; `path` says in errors where they stood."""
    missing = sorted(key for key in _REQUIRED if members.get(key) is None)
    if missing:
        raise CorruptTableError(f"{path} lacks {', '.join(missing)}; {_REMEDY}", path=path)
    values = {
        attribute: _check_value(members[key], kind, key, path)
        for key, attribute, kind in _KEYS
        if members.get(key) is not None
    }
    version = values.setdefault("version", 1)
    if version not in range(1, VERSION + 1):
        raise UnsupportedError(f"{path} has version {version}; lakewright knows versions up to {VERSION}", path=path)
    return Snapshot(**values)  # type: ignore[arg-type]


def _check_value(value: object, kind: type, key: str, path: str) -> object:
    """Return the value of one key, which must be of the type that the format says."""
    if kind is CommitKind:
        valid = isinstance(value, str) and value in set(CommitKind)
        value = CommitKind(str(value)) if valid else value
    elif kind is dict:
        valid = isinstance(value, dict) and all(isinstance(v, str) for v in value.values())
    elif kind is int:
        valid = isinstance(value, int) and not isinstance(value, bool) and MIN_LONG <= value <= MAX_LONG
    else:
        valid = isinstance(value, kind)
    if not valid:
        raise CorruptTableError(f"{path} has {value!r} as {key}; {_REMEDY}", path=path)
    return value


def _create_time(members: Mapping[str, object], path: str) -> datetime | None:
    parts = members.get("tagCreateTime")
    if parts is None:
        return None
    try:
        if not isinstance(parts, list):
            raise TypeError("not an array")  # noqa: TRY301 - one message for every way to be wrong
        # Trailing zeros may be left out; the last part counts nanoseconds.
        year, month, day, hour, minute, second, nanos = (*parts, 0, 0, 0, 0)[:7]
        return datetime(year, month, day, hour, minute, second, nanos // 1000)  # noqa: DTZ001 - a wall clock by design
    except (TypeError, ValueError, OverflowError) as error:
        raise CorruptTableError(f"{path} has {parts!r} as tagCreateTime; {_REMEDY}", path=path) from error


def _time_retained(members: Mapping[str, object], path: str) -> timedelta | None:
    seconds = members.get("tagTimeRetained")
    if seconds is None:
        return None
    try:
        return timedelta(seconds=seconds)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError) as error:
        raise CorruptTableError(f"{path} has {seconds!r} as tagTimeRetained; {_REMEDY}", path=path) from error
