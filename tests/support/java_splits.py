"""Splits as Java and the other implementations exchange them.

    i64 "SPLIT_V1" | i32 1 | i32 1 (a data split)
    i64 magic | i32 version | i64 snapshot | i32 length, partition row | i32 bucket | text bucket path
    u8 1 and i32 total buckets, or u8 0 | i32 0 (files before) | u8 0 (their deletion vectors)
    i32 count, and for each file i32 length and a row without arity prefix
    u8 0, or u8 1, i32 count, and for each file u8 0, or u8 1, text path, i64 offset, i64 length, i64 cardinality or -1
    u8 streaming | u8 raw convertible

All integers are big-endian; text is a u16 length and Java's modified UTF-8. The frame carries no checksum: bytes that
do not fit are refused. The types of the partition are not in it; a reader takes them from the table.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from lakewright.errors import CorruptTableError, InvalidMessageError, UnsupportedError
from lakewright.read.data_split import DataSplit, DeletionFile
from lakewright.spec.java_encoding import JavaBytes, decode_file, encode_file, modified_utf8
from lakewright.spec.manifest import DataFile
from lakewright.spec.types import DataType

FRAME_MAGIC = 0x53504C49545F5631
SPLIT_MAGIC = -2394839472490812314
NEWEST_VERSION = 9
FIELD_COUNTS = {8: 20, 9: 21}  # how many facts of a file each version carries
_FRAME_VERSION = 1
_DATA_SPLIT = 1
_TEXT_BYTES_MAX = 65535

_BOOL, _SHORT, _INT, _LONG = struct.Struct(">B"), struct.Struct(">H"), struct.Struct(">i"), struct.Struct(">q")


def to_java(split: DataSplit, *, version: int = NEWEST_VERSION) -> bytes:
    """Return a split in Java's bytes. A split that reads only some rows of a file cannot be said in them."""
    if version not in FIELD_COUNTS:
        raise UnsupportedError(f"splits of version {version} are not supported, only {sorted(FIELD_COUNTS)}")
    if split.row_ranges:
        raise UnsupportedError("a split with row ranges has no form that other implementations know")
    if split.branch is not None:
        raise UnsupportedError(f"a split of the branch {split.branch} has no form that all implementations know")
    if split.before is not None:
        raise UnsupportedError("a split between two snapshots has no form that all implementations know")
    parts = [
        struct.pack(">qii", FRAME_MAGIC, _FRAME_VERSION, _DATA_SPLIT),
        struct.pack(">qiq", SPLIT_MAGIC, version, split.snapshot_id),
        _sized(split.partition_bytes),
        _INT.pack(split.bucket),
        _text(split.bucket_path),
        struct.pack(">Bi", 1, split.total_buckets),
        struct.pack(">iB", 0, 0),
        _INT.pack(len(split.files)),
        *(_sized(encode_file(file, field_count=FIELD_COUNTS[version])) for file in split.files),
        _deletions(split),
        struct.pack(">BB", split.streaming, split.raw_convertible),
    ]
    return b"".join(parts)


def from_java(data: bytes, partition_types: Sequence[DataType] = ()) -> DataSplit:
    """Read a split from Java's bytes, of version 8 or 9."""
    source = _Source(data)
    if source.read_long() != FRAME_MAGIC or source.read_int() != _FRAME_VERSION:
        raise InvalidMessageError("these bytes are no split of version 1")
    if (kind := source.read_int()) != _DATA_SPLIT:
        raise UnsupportedError(f"splits of type {kind} are not supported, only data splits (1)")
    if source.read_long() != SPLIT_MAGIC or (version := source.read_int()) not in FIELD_COUNTS:
        raise InvalidMessageError(f"the split has no version that lakewright knows ({sorted(FIELD_COUNTS)})")
    try:
        return _data_split(source, FIELD_COUNTS[version], tuple(partition_types))
    except (CorruptTableError, UnicodeDecodeError) as error:
        raise InvalidMessageError(f"the split cannot be read: {error}") from error


def _data_split(source: _Source, field_count: int, partition_types: tuple[DataType, ...]) -> DataSplit:
    snapshot_id, partition, bucket, bucket_path = (
        source.read_long(),
        source.length_prefixed(),
        source.read_int(),
        source.read_text(),
    )
    total_buckets = source.read_int() if source.read_bool() else -1
    if source.files(field_count) or source.deletions(0):
        raise UnsupportedError("splits between two snapshots are not supported")
    files = source.files(field_count)
    deletions = source.deletions(len(files))
    streaming, raw = source.read_bool(), source.read_bool()
    source.end()
    return DataSplit(
        snapshot_id,
        bucket,
        total_buckets,
        files,
        tuple(file.external_path or f"{bucket_path}/{file.file_name}" for file in files),
        partition_bytes=partition,
        partition_types=partition_types,
        bucket_path=bucket_path,
        raw_convertible=raw,
        deletion_files=deletions,
        streaming=streaming,
    )


def _deletions(split: DataSplit) -> bytes:
    if not split.has_deletions:
        return _BOOL.pack(0)
    parts = [_BOOL.pack(1), _INT.pack(len(split.deletion_files))]
    for deletion in split.deletion_files:
        if deletion is None:
            parts.append(_BOOL.pack(0))
            continue
        cardinality = -1 if deletion.cardinality is None else deletion.cardinality
        parts += [
            _BOOL.pack(1),
            _text(deletion.path),
            struct.pack(">qqq", deletion.offset, deletion.length, cardinality),
        ]
    return b"".join(parts)


def _sized(data: bytes) -> bytes:
    return _INT.pack(len(data)) + data


def _text(text: str) -> bytes:
    data = modified_utf8(text)
    if len(data) > _TEXT_BYTES_MAX:
        raise UnsupportedError(f"a text of {len(data)} bytes is too long for a split of Java")
    return _SHORT.pack(len(data)) + data


class _Source(JavaBytes):
    """The bytes of a split."""

    __slots__ = ()
    what = "split"

    def read_bool(self) -> bool:
        flag = self.take(1)[0]
        if flag > 1:
            raise InvalidMessageError(f"the split has {flag} where it may have 0 or 1, at byte {self.position - 1}")
        return flag == 1

    def files(self, field_count: int) -> tuple[DataFile, ...]:
        count = self._count()
        return tuple(decode_file(self.length_prefixed(), field_count=field_count) for _ in range(count))

    def deletions(self, file_count: int) -> tuple[DeletionFile | None, ...]:
        if not self.read_bool():
            return ()
        count = self._count()
        if count != file_count:
            raise InvalidMessageError(f"the split has {count} deletion vectors for {file_count} files")
        return tuple(self._deletion() if self.read_bool() else None for _ in range(count))

    def end(self) -> None:
        if self.position != len(self.data):
            raise InvalidMessageError(f"the split has {len(self.data) - self.position} bytes too many")

    def _count(self) -> int:
        count = self.read_int()
        # Each element takes at least one byte, so a count cannot ask for more than there is.
        if not 0 <= count <= len(self.data) - self.position:
            raise InvalidMessageError(f"the split claims {count} elements at byte {self.position}")
        return count

    def _deletion(self) -> DeletionFile:
        path, offset, length, cardinality = self.read_text(), self.read_long(), self.read_long(), self.read_long()
        return DeletionFile(path, offset, length, None if cardinality < 0 else cardinality)
