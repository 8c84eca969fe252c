"""`CommitMessage`: what one writer did to one bucket.

Messages cross processes and machines as bytes, never as pickled objects: a frame of magic, version, length and SHA-256
around a body in which every field is known and checked. A message that is foreign, cut, altered, too long or hostile is
refused with InvalidMessageError and nothing of it is used. Names in a message are single names, never paths; paths are
built by the storage layout.

    4 bytes LWCM | u16 version | u32 length of the body | 32 bytes SHA-256 of the body | body      big-endian
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace

from lakewright.commit.message_encoding import (
    MESSAGE_MEMBERS,
    MESSAGE_MEMBERS_3,
    FileChanges,
    decode_java,
    encode_java,
    from_bytes,
    record,
    to_bytes,
)
from lakewright.errors import CorruptTableError, InvalidInputError, InvalidMessageError
from lakewright.spec import argument_checks
from lakewright.spec.binary_row import canonical_row, decode_row, row_arity
from lakewright.spec.manifest import DataFile, IndexFile
from lakewright.spec.scalars import to_python
from lakewright.spec.snapshot import SeenSnapshot, Snapshot
from lakewright.spec.types import DataType, parse_type
from lakewright.storage.table_layout import is_path_to

MAGIC = b"LWCM"
VERSION = 4
BODY_BYTES_MAX = 256 << 20

_HEAD = struct.Struct(">4sHI32s")
_NAME = re.compile(r"\w[\w.=+@~ -]{0,254}")
_REMEDY = "write the data again"


class CallableFlag(int):
    """Yes or no: a number that is true or false, and that can also be called for it."""

    __slots__ = ()

    def __call__(self) -> bool:
        """Return it as a boolean."""
        return bool(self)

    def __repr__(self) -> str:
        return repr(bool(self))


@dataclass(frozen=True, slots=True)
class CommitMessage(FileChanges):
    """The files of one writer in one bucket, with what is needed to check that they belong to the table.

    >>> message = CommitMessage(partition_bytes=bytes(12), bucket=0, table="sales.orders", schema_id=0)
    >>> CommitMessage.deserialize(message.serialize()) == message
    True
    """

    table: str = ""  # the table's identity; empty in a message of another implementation
    schema_id: int | None = None  # the schema that the writer wrote with
    write_id: str = ""  # the write job
    attempt: str = ""  # which try of which task of the job
    partition_types: tuple[str, ...] = ()  # the types of the partition columns; empty where they are not known
    rows_in: int | None = None  # how many rows the writer was given
    base_snapshot: str | None = None  # the snapshot that the writer's sequence numbers follow, by `snapshot_key`
    hash_base: tuple[str, ...] | None = None  # dynamic buckets: the HASH files that the writer read, sorted
    planned_on: str | None = None  # the snapshot of `check_from_snapshot`, by `snapshot_key`; None: not known
    unchanged: str | None = None  # where others must not have written rows since then: one of `SCOPES`; None: nowhere
    reads: tuple[str, ...] = ()  # the columns that decided which rows change, and to what
    # A snapshot that was the newest before the message was complete: only later ones can have committed it.
    seen: SeenSnapshot | None = None  # None: not known

    @property
    def partition(self) -> tuple[object, ...]:
        """The partition's values as plain Python."""
        types = _types(self.partition_types)
        if not types and row_arity(self.partition_bytes):
            raise InvalidInputError(
                "the message came from another implementation and does not contain the types of its partition; "
                "pass partition_types to from_java"
            )
        values = decode_row(self.partition_bytes, types)
        return tuple(to_python(value, dtype) for value, dtype in zip(values, types, strict=True))

    @property
    def is_empty(self) -> CallableFlag:
        """Whether the message changes nothing; pypaimon's `is_empty()` works as well."""
        return CallableFlag(next(_data_files(self), None) is None and next(_index_files(self), None) is None)

    def serialize(self) -> bytes:
        """Return the message as bytes that `deserialize` checks."""
        body = to_bytes(self, _CODEC)
        if len(body) > BODY_BYTES_MAX:
            raise InvalidInputError(f"a commit message of {len(body)} bytes is too long; write fewer files at once")
        return _HEAD.pack(MAGIC, VERSION, len(body), hashlib.sha256(body).digest()) + body

    @classmethod
    def deserialize(cls, data: bytes) -> CommitMessage:
        """Read a message; raise InvalidMessageError unless it is complete, unaltered and names no paths."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise argument_checks.argument_error("a commit message", "bytes, as serialize() returns them", data)
        data = bytes(data)
        if len(data) < _HEAD.size or data[: len(MAGIC)] != MAGIC:
            raise InvalidMessageError(f"these bytes are not a commit message of lakewright; {_REMEDY}")
        _, version, length, digest = _HEAD.unpack_from(data)
        codec = _CODECS.get(version)
        if codec is None:
            raise InvalidMessageError(
                f"the commit message has version {version}, this lakewright knows {', '.join(map(str, _CODECS))}; use "
                "one release everywhere"
            )
        if length > BODY_BYTES_MAX or length != len(data) - _HEAD.size:
            message = f"the commit message says it has {length} bytes but has {len(data) - _HEAD.size}; {_REMEDY}"
            raise InvalidMessageError(message)
        body = data[_HEAD.size :]
        if hashlib.sha256(body).digest() != digest:
            raise InvalidMessageError(f"the commit message was altered on its way; {_REMEDY}")
        return _check_message(from_bytes(body, codec))

    def to_java(self) -> bytes:
        """Return the message as the body that Java and other implementations read, in version 14."""
        return encode_java(self)

    @classmethod
    def from_java(cls, data: bytes, version: int = 14, *, partition_types: tuple[str, ...] = ()) -> CommitMessage:
        """Read the body of another implementation's message.

        It names neither table nor schema. With `partition_types` the partition gets Java's form, which the messages of
        other implementations may lack.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise argument_checks.argument_error("a commit message", "bytes, as to_java() returns them", data)
        partition_types = argument_checks.check_names("partition_types", partition_types)
        changes = decode_java(bytes(data), argument_checks.check_int("version", version))
        members = {member.name: getattr(changes, member.name) for member in fields(changes)}
        try:
            types = _types(partition_types)
            if types:
                members["partition_bytes"] = canonical_row(changes.partition_bytes, types)
        except CorruptTableError as error:
            raise InvalidMessageError(f"the partition of the commit message cannot be read: {error}") from error
        # Writing and reading the message in the form of this library checks every number in it.
        message = cls(**members, partition_types=partition_types)
        return cls.deserialize(message.serialize())

    def __reduce__(self) -> tuple[object, tuple[bytes]]:
        # A plain function, because the picklers of engines would send the code of the class along with its method.
        return _deserialize, (self.serialize(),)


def _deserialize(data: bytes) -> CommitMessage:
    return CommitMessage.deserialize(data)


def snapshot_key(snapshot: Snapshot | None) -> str:
    """Return a name that no other snapshot has, also after a rollback; the empty text if there is no snapshot.

    Ids are used again after a rollback and not every writer gives uuids, but manifest lists have unique names.
    """
    return "" if snapshot is None else snapshot.delta_manifest_list


def with_guards(
    message: CommitMessage, snapshot: Snapshot | None, *, unchanged: str | None = None, reads: Iterable[str] = ()
) -> CommitMessage:
    """Return the message as one that was planned on a snapshot (None: on a table without any).

    It is committed only if no rows were written since in its bucket, its partition or the table, as `unchanged` says
    ("bucket", "partition" or "table"; None: only the files it names are checked). On a table with data evolution, the
    columns `reads` of its rows must not have changed either.
    """
    return replace(
        message,
        check_from_snapshot=0 if snapshot is None else snapshot.id,
        planned_on=snapshot_key(snapshot),
        unchanged=unchanged,
        reads=tuple(sorted(set(reads))),
        seen=SeenSnapshot.of(snapshot),
    )


_CODEC = record(CommitMessage, MESSAGE_MEMBERS)
_CODECS = {3: record(CommitMessage, MESSAGE_MEMBERS_3), VERSION: _CODEC}  # by version


def _data_files(message: FileChanges) -> Iterator[DataFile]:
    yield from _added_files(message)
    yield from message.deleted_files
    yield from message.compact_before


def _added_files(message: FileChanges) -> Iterator[DataFile]:
    yield from message.new_files
    yield from message.changelog_files
    yield from message.compact_after
    yield from message.compact_changelog_files


def _index_files(message: FileChanges) -> Iterator[IndexFile]:
    yield from _added_index_files(message)
    yield from message.deleted_index_files
    yield from message.compact_deleted_index_files


def _added_index_files(message: FileChanges) -> Iterator[IndexFile]:
    yield from message.new_index_files
    yield from message.compact_new_index_files


def _check_message(message: CommitMessage) -> CommitMessage:
    """Return the message after checking that its names are single names and its partition can be read."""
    for file in _data_files(message):
        for name in (file.file_name, *file.extra_files):
            _check_name(name)
    seen = (message.seen.base_manifest_list, message.seen.delta_manifest_list) if message.seen else ()
    snapshots = (name for name in (message.base_snapshot, message.planned_on, *seen) if name)
    for name in (*(message.hash_base or ()), *snapshots):
        _check_name(name)
    since = message.check_from_snapshot
    if message.unchanged is not None and (since is None or since < 0):
        raise InvalidMessageError(
            f"the commit message forbids changes of its {message.unchanged} but does not say since when; {_REMEDY}"
        )
    for index in _index_files(message):
        for name in (index.file_name, *(place.data_file for place in index.deletion_ranges or ())):
            _check_name(name)
    _check_places(message)
    _check_partition(message)
    return message


def _check_places(message: CommitMessage) -> None:
    for index in _added_index_files(message):
        # Removed files may have an external path, as the table records it; new index files are inside the table.
        if index.external_path is not None:
            raise InvalidMessageError(f"the commit message places {index.file_name} outside the table; {_REMEDY}")
    for added in _added_files(message):
        if added.external_path is not None and not is_path_to(added.external_path, added.file_name):
            raise InvalidMessageError(
                f"the commit message places {added.file_name} at {added.external_path!r}, which is no path to it; "
                f"{_REMEDY}"
            )


def _check_name(name: str) -> None:
    if _NAME.fullmatch(name) is None or ".." in name:
        raise InvalidMessageError(f"the commit message has {name[:80]!r} as a file name; {_REMEDY}", name=name)


def _check_partition(message: CommitMessage) -> None:
    try:
        arity = row_arity(message.partition_bytes)
        types = _types(message.partition_types)
        readable = not types or canonical_row(message.partition_bytes, types) == message.partition_bytes
    except (CorruptTableError, InvalidInputError) as error:
        raise InvalidMessageError(f"the partition of the commit message cannot be read: {error}; {_REMEDY}") from error
    if not readable or (types and arity != len(types)):
        raise InvalidMessageError(f"the partition of the commit message is not in the form of Java; {_REMEDY}")


def _types(texts: tuple[str, ...]) -> tuple[DataType, ...]:
    return tuple(parse_type(text) for text in texts)
