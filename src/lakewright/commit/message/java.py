"""What a writer did to one bucket, and the bytes in which Java and the other implementations exchange it.

The bytes carry no version and no checksum; the protocol around them says which version they are. Version 14 is

    i32 length | partition row | i32 bucket | u8 1 and i32 total buckets, or u8 0
    new, deleted, changelog files | new, deleted index files              the data increment
    before, after, changelog files | new, deleted index files             the compact increment
    u8 1 and i64 check-from snapshot, or u8 0                             not in version 13

where a list is an i32 count and, for each element, an i32 length and a row without arity prefix. All integers here are
big-endian; rows are little-endian inside. Bytes that do not fit are refused with InvalidMessageError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from lakewright.errors import CorruptTableError, InvalidMessageError, UnsupportedError
from lakewright.spec.datafile import DataFile, DeletionRange, GlobalIndex, IndexFile
from lakewright.spec.java_bytes import JavaBytes
from lakewright.spec.rows.binary_row import decode_body, encode_body
from lakewright.spec.rows.data_file_row import decode_file, encode_file
from lakewright.spec.types import ArrayType, AtomicType, DataField, DataType, RowType
from lakewright.spec.values import NestedValue

NEWEST_VERSION = 14
OLDEST_VERSION = 13

T = TypeVar("T")

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
            _sized(changes.partition_bytes),
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
            partition_bytes=source.sized(),
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


def _sized(data: bytes) -> bytes:
    return _INT.pack(len(data)) + data


def _list(items: Sequence[T], encode: Callable[[T], bytes]) -> bytes:
    return _INT.pack(len(items)) + b"".join(_sized(encode(item)) for item in items)


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
        return tuple(decode(self.sized()) for _ in range(count))

    def end(self) -> None:
        if self.position != len(self.data):
            raise InvalidMessageError(f"the commit message has {len(self.data) - self.position} bytes too many")
