"""Bytes of commit messages: our checked form and Java's."""

from __future__ import annotations

import binascii
import json
import operator
import re
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from lakewright.errors import CorruptTableError, InvalidMessageError, UnsupportedError
from lakewright.spec.binary_row import decode_body, encode_body
from lakewright.spec.java_encoding import JavaBytes, decode_file, encode_file
from lakewright.spec.manifest import DataFile, DeletionRange, GlobalIndex, IndexFile, SimpleStats
from lakewright.spec.scalars import NestedValue
from lakewright.spec.snapshot import SeenSnapshot
from lakewright.spec.types import JSON, ArrayType, AtomicType, DataField, DataType, RowType

# ---- Our encoding ----------------------------------------------------------------------------------------------------
# A codec encodes and decodes one kind of value. Decoding trusts nothing: a member that is missing or unknown, a
# number out of range or a text that is not base64 raises an InvalidMessageError that names the place. Bytes are in
# base64.

T = TypeVar("T")

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
SCOPES = ("bucket", "partition", "table")  # where no other writer may have written rows since a change was planned

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class FieldCodec(Generic[T]):
    """How one kind of value becomes JSON and is read back.

    `decode` also gets the place, which its errors name; None: the error is not shown.
    """

    encode: Callable[[T], JSON]
    decode: Callable[[object, str | None], T]


def integer(low: int, high: int) -> FieldCodec[int]:
    """Return the codec of numbers between two bounds, both included."""

    def decode(value: object, place: str | None) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise _invalid_value(value, place)
        return value

    return FieldCodec(operator.index, decode)


def one_of(texts: tuple[str, ...]) -> FieldCodec[str]:
    """Return the codec of texts that are known beforehand."""

    def decode(value: object, place: str | None) -> str:
        if not isinstance(value, str) or value not in texts:
            raise _invalid_value(value, place)
        return value

    return FieldCodec(str, decode)


def optional(inner: FieldCodec[T]) -> FieldCodec[T | None]:
    """Return the codec of values that may be missing."""
    return FieldCodec(
        lambda value: None if value is None else inner.encode(value),
        lambda value, place: None if value is None else inner.decode(value, place),
    )


def tuple_of(inner: FieldCodec[T]) -> FieldCodec[tuple[T, ...]]:
    """Return the codec of any number of values of one kind."""

    def decode(value: object, place: str | None) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise _invalid_value(value, place)
        if place is None:
            return tuple([inner.decode(item, None) for item in value])
        return tuple(inner.decode(item, f"{place}[{index}]") for index, item in enumerate(value))

    return FieldCodec(lambda values: [inner.encode(value) for value in values], decode)


def record(make: Callable[..., T], members: Mapping[str, FieldCodec[object]]) -> FieldCodec[T]:
    """Return the codec of frozen values with exactly these attributes."""

    def encode(value: T) -> JSON:
        return {name: codec.encode(getattr(value, name)) for name, codec in members.items()}

    def decode(value: object, place: str | None) -> T:
        if not isinstance(value, dict) or value.keys() != members.keys():
            raise _invalid_value(value, place)
        if place is None:
            return make(**{name: codec.decode(value[name], None) for name, codec in members.items()})
        return make(**{name: codec.decode(value[name], f"{place}.{name}") for name, codec in members.items()})

    return FieldCodec(encode, decode)


def to_bytes(value: T, codec: FieldCodec[T]) -> bytes:
    """Return a value as canonical JSON: equal values have equal bytes."""
    return _canonical(codec.encode(value))


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def from_bytes(data: bytes, codec: FieldCodec[T]) -> T:
    """Read a value from canonical JSON; any other form of the same value is refused."""
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidMessageError(f"the body of the commit message is not JSON: {error}") from error
    try:
        value = codec.decode(parsed, None)
    except InvalidMessageError:
        value = codec.decode(parsed, "message")  # says where
    # JSON in another form may contain more than was decoded, such as members named twice, so it is refused.
    if _canonical(parsed) != data:
        raise InvalidMessageError("the body of the commit message is not in the form that lakewright writes")
    return value


def _invalid_value(value: object, place: str | None) -> InvalidMessageError:
    shown = repr(value)[:80]
    return InvalidMessageError(f"the commit message has {shown} at {place}; write the data again", place=place)


def _decode_text(value: object, place: str | None) -> str:
    # JSON allows half of a surrogate pair, which cannot be encoded in UTF-8.
    if not isinstance(value, str) or (not value.isascii() and _SURROGATE.search(value)):
        raise _invalid_value(value, place)
    return sys.intern(value)  # thousands of messages of one write repeat the same texts


def _decode_blob(value: object, place: str | None) -> bytes:
    text = _decode_text(value, place)
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise _invalid_value(value, place) from error
    if _encode_blob(data) != text:  # bits behind the last byte may differ
        raise _invalid_value(value, place)
    return data


def _encode_blob(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode()


TEXT: FieldCodec[str] = FieldCodec(str, _decode_text)
BLOB: FieldCodec[bytes] = FieldCodec(_encode_blob, _decode_blob)
LONG = integer(-LONG_MAX - 1, LONG_MAX)
NATURAL = integer(0, LONG_MAX)
NATURAL_INT = integer(0, INT_MAX)
BUCKET = integer(-2, INT_MAX)  # -2 is the postponed bucket; as a total also -1, buckets without a fixed number
TEXTS = tuple_of(TEXT)


def _members(**codecs: object) -> Mapping[str, FieldCodec[object]]:
    """Gather codecs of different kinds; a record gives each codec only values of its kind."""
    return cast("Mapping[str, FieldCodec[object]]", codecs)


_STATS = record(SimpleStats, _members(min_values=BLOB, max_values=BLOB, null_counts=tuple_of(optional(NATURAL))))

DATA_FILE = record(
    DataFile,
    _members(
        file_name=TEXT,
        file_size=NATURAL,
        row_count=NATURAL,
        min_key=BLOB,
        max_key=BLOB,
        key_stats=_STATS,
        value_stats=_STATS,
        min_sequence_number=LONG,
        max_sequence_number=LONG,
        schema_id=NATURAL,
        level=NATURAL_INT,
        extra_files=TEXTS,
        creation_time=optional(LONG),
        delete_row_count=optional(NATURAL),
        embedded_file_index=optional(BLOB),
        file_source=optional(integer(0, 127)),
        value_stats_cols=optional(TEXTS),
        external_path=optional(TEXT),
        first_row_id=optional(NATURAL),
        write_cols=optional(TEXTS),
        write_cols_sequences=optional(tuple_of(LONG)),
    ),
)

_RANGE = record(
    DeletionRange,
    _members(data_file=TEXT, offset=NATURAL_INT, length=NATURAL_INT, cardinality=optional(NATURAL)),
)
_GLOBAL_INDEX = record(
    GlobalIndex,
    _members(
        row_range_start=NATURAL,
        row_range_end=NATURAL,
        index_field_id=NATURAL_INT,
        extra_field_ids=optional(tuple_of(NATURAL_INT)),
        index_meta=optional(BLOB),
        source_meta=optional(BLOB),
    ),
)
INDEX_FILE = record(
    IndexFile,
    _members(
        index_type=TEXT,
        file_name=TEXT,
        file_size=NATURAL,
        row_count=NATURAL,
        deletion_ranges=optional(tuple_of(_RANGE)),
        external_path=optional(TEXT),
        global_index=optional(_GLOBAL_INDEX),
    ),
)

_SEEN = record(SeenSnapshot, _members(id=NATURAL, base_manifest_list=TEXT, delta_manifest_list=TEXT))

_FILES = tuple_of(DATA_FILE)
_INDEX_FILES = tuple_of(INDEX_FILE)

# The attributes of a message of version 3, by name; `message` defines the class that has them.
MESSAGE_MEMBERS_3 = _members(
    partition_bytes=BLOB,
    bucket=BUCKET,
    total_buckets=optional(BUCKET),
    new_files=_FILES,
    deleted_files=_FILES,
    changelog_files=_FILES,
    compact_before=_FILES,
    compact_after=_FILES,
    compact_changelog_files=_FILES,
    new_index_files=_INDEX_FILES,
    deleted_index_files=_INDEX_FILES,
    compact_new_index_files=_INDEX_FILES,
    compact_deleted_index_files=_INDEX_FILES,
    check_from_snapshot=optional(LONG),
    table=TEXT,
    schema_id=optional(NATURAL),
    write_id=TEXT,
    attempt=TEXT,
    partition_types=TEXTS,
    rows_in=optional(NATURAL),
    base_snapshot=optional(TEXT),
    hash_base=optional(TEXTS),
    planned_on=optional(TEXT),
    unchanged=optional(one_of(SCOPES)),
    reads=TEXTS,
)
MESSAGE_MEMBERS = {**MESSAGE_MEMBERS_3, **_members(seen=optional(_SEEN))}


# ---- The encoding of Java --------------------------------------------------------------------------------------------
# The bytes carry no version and no checksum; the protocol around them says which version they are. Version 14 is
#
#     i32 length | partition row | i32 bucket | u8 1 and i32 total buckets, or u8 0
#     new, deleted, changelog files | new, deleted index files              the data increment
#     before, after, changelog files | new, deleted index files             the compact increment
#     u8 1 and i64 check-from snapshot, or u8 0                             not in version 13
#
# where a list is an i32 count and, for each element, an i32 length and a row without arity prefix. All integers here
# are big-endian; rows are little-endian inside. Bytes that do not fit are refused with InvalidMessageError.

NEWEST_VERSION = 14
OLDEST_VERSION = 13


_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The files that one writer added to, and took from, one bucket of one partition."""

    partition_bytes: bytes  # serialised BinaryRow in Java's form
    bucket: int
    total_buckets: int | None = None  # None: what the table's option says
    new_files: tuple[DataFile, ...] = ()
    deleted_files: tuple[DataFile, ...] = ()
    changelog_files: tuple[DataFile, ...] = ()
    compact_before: tuple[DataFile, ...] = ()
    compact_after: tuple[DataFile, ...] = ()
    compact_changelog_files: tuple[DataFile, ...] = ()
    new_index_files: tuple[IndexFile, ...] = ()
    deleted_index_files: tuple[IndexFile, ...] = ()
    compact_new_index_files: tuple[IndexFile, ...] = ()
    compact_deleted_index_files: tuple[IndexFile, ...] = ()
    check_from_snapshot: int | None = None  # a row-level change read this snapshot


def encode_java(changes: FileChanges) -> bytes:
    """Return the changes as bytes of version 14."""
    check = changes.check_from_snapshot
    return b"".join(
        [
            _length_prefixed(changes.partition_bytes),
            _INT.pack(changes.bucket),
            b"\0" if changes.total_buckets is None else b"\1" + _INT.pack(changes.total_buckets),
            _list(changes.new_files, encode_file),
            _list(changes.deleted_files, encode_file),
            _list(changes.changelog_files, encode_file),
            _list(changes.new_index_files, _index_row),
            _list(changes.deleted_index_files, _index_row),
            _list(changes.compact_before, encode_file),
            _list(changes.compact_after, encode_file),
            _list(changes.compact_changelog_files, encode_file),
            _list(changes.compact_new_index_files, _index_row),
            _list(changes.compact_deleted_index_files, _index_row),
            b"\0" if check is None else b"\1" + _LONG.pack(check),
        ]
    )


def decode_java(data: bytes, version: int) -> FileChanges:
    """Read bytes of version 13 or 14."""
    if not OLDEST_VERSION <= version <= NEWEST_VERSION:
        raise UnsupportedError(
            f"commit messages of version {version} are not supported, only {OLDEST_VERSION} and {NEWEST_VERSION}",
            version=version,
        )
    source = _Source(data)
    try:
        changes = FileChanges(
            partition_bytes=source.length_prefixed(),
            bucket=source.read_int(),
            total_buckets=source.optional(source.read_int),
            new_files=source.read_list(decode_file),
            deleted_files=source.read_list(decode_file),
            changelog_files=source.read_list(decode_file),
            new_index_files=source.read_list(_index_file),
            deleted_index_files=source.read_list(_index_file),
            compact_before=source.read_list(decode_file),
            compact_after=source.read_list(decode_file),
            compact_changelog_files=source.read_list(decode_file),
            compact_new_index_files=source.read_list(_index_file),
            compact_deleted_index_files=source.read_list(_index_file),
            check_from_snapshot=source.optional(source.read_long) if version >= NEWEST_VERSION else None,
        )
    except (CorruptTableError, TypeError) as error:
        raise InvalidMessageError(f"the commit message has a row that cannot be read: {error}") from error
    source.end()
    return changes


def _row(*types: DataType) -> RowType:
    return RowType(nullable=True, fields=[DataField(i, f"f{i}", dtype) for i, dtype in enumerate(types)])


_STRING, _BYTES, _BIGINT, _INTEGER = AtomicType("STRING"), AtomicType("BYTES"), AtomicType("BIGINT"), AtomicType("INT")
_RANGES = ArrayType(nullable=True, element_type=_row(_STRING, _INTEGER, _INTEGER, _BIGINT))
_GLOBAL = _row(_BIGINT, _BIGINT, _INTEGER, ArrayType(nullable=True, element_type=_INTEGER), _BYTES, _BYTES)
# In the order of the fields of `IndexFile`.
_INDEX_TYPES: tuple[DataType, ...] = (_STRING, _STRING, _BIGINT, _BIGINT, _RANGES, _STRING, _GLOBAL)


def _index_row(file: IndexFile) -> bytes:
    g = file.global_index
    ranges = file.deletion_ranges
    values: list[NestedValue] = [
        file.index_type,
        file.file_name,
        file.file_size,
        file.row_count,
        None if ranges is None else [(r.data_file, r.offset, r.length, r.cardinality) for r in ranges],
        file.external_path,
        None
        if g is None
        else (
            g.row_range_start,
            g.row_range_end,
            g.index_field_id,
            g.extra_field_ids,
            g.index_meta,
            g.source_meta,
        ),
    ]
    return encode_body(values, _INDEX_TYPES)


def _index_file(row: bytes) -> IndexFile:
    kind, name, size, rows, ranges, external, index = decode_body(row, _INDEX_TYPES)
    _no_nulls((kind, name, size, rows), "index file")
    return IndexFile(
        cast("str", kind),
        cast("str", name),
        cast("int", size),
        cast("int", rows),
        None if ranges is None else tuple(_range(r) for r in cast("Sequence[NestedValue]", ranges)),
        cast("str | None", external),
        None if index is None else _global_index(cast("Sequence[NestedValue]", index)),
    )


def _range(value: NestedValue) -> DeletionRange:
    name, offset, length, cardinality = cast("Sequence[NestedValue]", value)
    _no_nulls((name, offset, length), "deletion vector")
    return DeletionRange(cast("str", name), cast("int", offset), cast("int", length), cast("int | None", cardinality))


def _global_index(values: Sequence[NestedValue]) -> GlobalIndex:
    start, end, field_id, extra, meta, source = values
    _no_nulls((start, end, field_id), "global index")
    return GlobalIndex(
        cast("int", start),
        cast("int", end),
        cast("int", field_id),
        _tuple(extra, int),
        cast("bytes | None", meta),
        cast("bytes | None", source),
    )


def _tuple(value: NestedValue, kind: type[T]) -> tuple[T, ...] | None:
    if value is None:
        return None
    items = cast("Sequence[NestedValue]", value)
    if not all(isinstance(item, kind) for item in items):
        raise InvalidMessageError("a list of the commit message has null elements")
    return tuple(cast("Sequence[T]", items))


def _no_nulls(values: Sequence[NestedValue], what: str) -> None:
    if any(value is None for value in values):
        raise InvalidMessageError(f"a {what} of the commit message lacks a value that every {what} has")


def _length_prefixed(data: bytes) -> bytes:
    return _INT.pack(len(data)) + data


def _list(items: Sequence[T], encode: Callable[[T], bytes]) -> bytes:
    return _INT.pack(len(items)) + b"".join(_length_prefixed(encode(item)) for item in items)


class _Source(JavaBytes):
    """The bytes of a commit message."""

    __slots__ = ()
    what = "commit message"

    def optional(self, read: Callable[[], T]) -> T | None:
        match self.take(1):
            case b"\0":
                return None
            case b"\1":
                return read()
            case flag:
                raise InvalidMessageError(f"the commit message has {flag!r} where it may have 0 or 1")

    def read_list(self, decode: Callable[[bytes], T]) -> tuple[T, ...]:
        # Each element has at least a length, so the bytes that are left limit the count.
        count = self.read_int()
        if count < 0 or count * _INT.size > len(self.data) - self.position:
            raise InvalidMessageError(f"the commit message claims {count} files at byte {self.position}")
        return tuple(decode(self.length_prefixed()) for _ in range(count))

    def end(self) -> None:
        if self.position != len(self.data):
            raise InvalidMessageError(f"the commit message has {len(self.data) - self.position} bytes too many")
