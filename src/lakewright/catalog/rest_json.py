"""JSON of the REST protocol.

A schema travels without the members that only its file has (`version`, `id`, `highestFieldId`, `timeMillis`), a
snapshot without our checksum: servers store both in their own way. Members that are not known are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from lakewright.errors import InvalidInputError, LakewrightError, UnsupportedError
from lakewright.spec.manifest import Partition
from lakewright.spec.option_values import parse_duration_nanos
from lakewright.spec.schema import (
    AddColumn,
    DropColumn,
    DropPrimaryKey,
    Move,
    RenameColumn,
    Schema,
    SchemaChange,
    SetOption,
    UpdateComment,
    UpdateDefault,
    UpdateDescription,
    UpdateNullability,
    UpdatePosition,
    UpdateType,
)
from lakewright.spec.snapshot import Snapshot, Tag, snapshot_from_members, snapshot_members
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import JSON, DataField

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list; the token asks for the next one, None: there is none."""

    elements: list[T]
    next_token: str | None = None


@dataclass(frozen=True, slots=True)
class ServerDatabase:
    """A database as the server describes it. `audit` holds who made and changed it and when, as far as it tells."""

    name: str
    options: Mapping[str, str]
    location: str | None = None
    audit: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerTable:
    """A table as the server describes it.

    `path` is where it lies, not percent-encoded. `schema` has no highest field id: changes are never computed from it.
    """

    id: str
    database: str
    name: str
    path: str
    is_external: bool
    schema_id: int
    schema: Mapping[str, JSON] = field(repr=False)
    audit: Mapping[str, str] = field(default_factory=dict)

    @property
    def options(self) -> Mapping[str, str]:
        """The options of the table, as text."""
        return _texts(self.schema.get("options"))

    @property
    def declared(self) -> Schema:
        """The columns with their ids, keys, options and comment."""
        return schema_from_json(self.schema)

    def agrees_with(self, schema: TableSchema) -> bool:
        """Return whether the table has these columns and keys, and at least these options."""
        wanted = schema_to_json(schema)
        same = all(self.schema.get(key) == wanted[key] for key in ("fields", "partitionKeys", "primaryKeys"))
        return same and schema.options.items() <= self.options.items()


@dataclass(frozen=True, slots=True)
class TableToken:
    """Credentials of the storage of one table, as options, and when they expire in epoch milliseconds."""

    options: Mapping[str, str] = field(repr=False)
    expires_at_millis: int


_AUDIT = ("owner", "createdAt", "createdBy", "updatedAt", "updatedBy")
_COUNTS = (
    ("recordCount", "record_count"),
    ("fileSizeInBytes", "file_size_in_bytes"),
    ("fileCount", "file_count"),
    ("lastFileCreationTime", "last_file_creation_time"),
    ("totalBuckets", "total_buckets"),
)


class Unreadable(ValueError):  # noqa: N818 - the api turns it into a public error
    """An answer of the server lacks a member or has one of another type."""


def member(members: Mapping[str, JSON], key: str, kind: type[T]) -> T:
    """Return a member that must be there and be of a type."""
    value = members.get(key)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise Unreadable(f"the answer of the server has no {key!r} that can be read")
    return value


def list_member(members: Mapping[str, JSON], key: str) -> list[JSON]:
    """Return a list that must be there; null stands for an empty one."""
    if key not in members:
        raise Unreadable(f"the answer of the server has no {key!r}")
    return [] if members[key] is None else member(members, key, list)


def optional_text(members: Mapping[str, JSON], key: str) -> str | None:
    """Return a text, None where it is absent or empty."""
    value = members.get(key)
    return value if isinstance(value, str) and value else None


def _texts(value: JSON) -> dict[str, str]:
    """Return an object of texts; nulls are left out."""
    given = value if isinstance(value, dict) else {}
    return {key: text if isinstance(text, str) else str(text) for key, text in given.items() if text is not None}


def option_map(members: Mapping[str, JSON], key: str) -> dict[str, str]:
    """Return an object of options; an absent one, or null, is empty."""
    return _texts(members.get(key))


def _audit(members: Mapping[str, JSON]) -> dict[str, str]:
    return {key: str(members[key]) for key in _AUDIT if members.get(key) is not None}


# Databases and tables.


def database_from_json(members: Mapping[str, JSON]) -> ServerDatabase:
    """Read the answer about a database."""
    return ServerDatabase(
        member(members, "name", str),
        option_map(members, "options"),
        optional_text(members, "location"),
        _audit(members),
    )


def table_from_json(members: Mapping[str, JSON]) -> ServerTable:
    """Read the answer about a table."""
    return ServerTable(
        id=member(members, "id", str),
        database=optional_text(members, "database") or "",
        name=member(members, "name", str),
        path=member(members, "path", str),
        is_external=members.get("isExternal") is True,
        schema_id=member(members, "schemaId", int),
        schema=member(members, "schema", dict),
        audit=_audit(members),
    )


def schema_to_json(schema: Schema | TableSchema) -> dict[str, JSON]:
    """Return a schema as a server takes it for a new table."""
    members: dict[str, JSON] = {
        "fields": [column.to_dict() for column in schema.fields],
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": dict(schema.options),
    }
    if schema.comment is not None:
        members["comment"] = schema.comment
    return members


def schema_from_json(members: Mapping[str, JSON]) -> Schema:
    """Read the schema of an answer; the fields keep their ids."""
    fields = [_field(column) for column in list_member(members, "fields")]
    keys = {key: [str(name) for name in list_member(members, key)] for key in ("partitionKeys", "primaryKeys")}
    comment = members.get("comment")
    return Schema(
        fields,
        keys["partitionKeys"],
        keys["primaryKeys"],
        option_map(members, "options"),
        comment if isinstance(comment, str) else None,
    )


def _field(column: JSON) -> DataField:
    if not isinstance(column, dict):
        raise Unreadable("the answer of the server has a column that is no object")
    return DataField.from_dict(column)


def change_to_json(change: SchemaChange) -> dict[str, JSON]:  # noqa: C901, PLR0912 - one case per change
    """Return a change of a schema as the server takes it."""
    match change:
        case SetOption(key, None):
            return {"action": "removeOption", "key": key}
        case SetOption(key, value):
            return {"action": "setOption", "key": key, "value": value}
        case UpdateComment(comment):
            return {"action": "updateComment", "comment": comment}
        case AddColumn(path, data_type, comment, move):
            return {
                "action": "addColumn",
                "fieldNames": list(path),
                "dataType": data_type.to_dict(),
                "comment": comment,
                "move": None if move is None else _move(move),
            }
        case RenameColumn(path, new_name):
            return {"action": "renameColumn", "fieldNames": list(path), "newName": new_name}
        case DropColumn(path):
            return {"action": "dropColumn", "fieldNames": list(path)}
        case UpdateType(path, data_type, keep_nullability):
            return {
                "action": "updateColumnType",
                "fieldNames": list(path),
                "newDataType": data_type.to_dict(),
                "keepNullability": keep_nullability,
            }
        case UpdateNullability(path, nullable):
            return {"action": "updateColumnNullability", "fieldNames": list(path), "newNullability": nullable}
        case UpdateDescription(path, comment):
            return {"action": "updateColumnComment", "fieldNames": list(path), "newComment": comment}
        case UpdateDefault(path, default):
            return {"action": "updateColumnDefaultValue", "fieldNames": list(path), "newDefaultValue": default}
        case UpdatePosition(move, inside=()):
            return {"action": "updateColumnPosition", "move": _move(move)}
        case DropPrimaryKey():
            return {"action": "dropPrimaryKey"}
        case _:
            raise UnsupportedError(f"a REST catalog cannot make the change {change!r}")


def _move(move: Move) -> dict[str, JSON]:
    return {
        "fieldName": move.field_name,
        "referenceFieldName": move.reference_field_name,
        "type": move.position.value,
    }


# Snapshots, tags, partitions.


def snapshot_to_json(snapshot: Snapshot) -> dict[str, object]:
    """Return a snapshot as a commit sends it."""
    return snapshot_members(snapshot)


def snapshot_from_json(members: Mapping[str, JSON]) -> Snapshot:
    """Read a snapshot of an answer."""
    try:
        return snapshot_from_members(members, path="the server's snapshot")
    except UnsupportedError:
        raise
    except LakewrightError as cause:
        raise Unreadable(str(cause)) from cause


def tag_from_json(members: Mapping[str, JSON]) -> Tag:
    """Read the answer about a tag."""
    created = members.get("tagCreateTime")
    return Tag(
        member(members, "tagName", str),
        snapshot_from_json(member(members, "snapshot", dict)),
        # The clock without a zone is what files of tags have.
        datetime.fromtimestamp(created / 1000) if isinstance(created, int) else None,  # noqa: DTZ006
        _parse_retention(members.get("tagTimeRetained")),
    )


def _parse_retention(value: JSON) -> timedelta | None:
    if value is None:
        return None
    try:
        return timedelta(microseconds=parse_duration_nanos(str(value)) // 1000)
    except (InvalidInputError, OverflowError) as cause:
        raise Unreadable(f"the answer of the server has {value!r} as tagTimeRetained") from cause


def partition_to_json(change: Partition) -> dict[str, JSON]:
    """Return what a commit changes in one partition."""
    counts: dict[str, JSON] = {key: getattr(change, attribute) for key, attribute in _COUNTS}
    return {"spec": dict(change.spec), **counts}


def partition_from_json(members: JSON) -> Partition:
    """Read one partition of an answer."""
    if not isinstance(members, dict):
        raise Unreadable("the answer of the server has a partition that is no object")
    counts = {attribute: members.get(key) for key, attribute in _COUNTS}
    whole = {key: value if isinstance(value, int) else 0 for key, value in counts.items()}
    return Partition(_texts(members.get("spec")), **whole)


def token_from_json(members: Mapping[str, JSON]) -> TableToken:
    """Read the answer about the credentials of a table."""
    return TableToken(_texts(member(members, "token", dict)), member(members, "expiresAtMillis", int))


def names(values: Sequence[JSON]) -> list[str]:
    """Return names, each once: a server may list a table once more per branch."""
    return list(dict.fromkeys(str(value) for value in values))
