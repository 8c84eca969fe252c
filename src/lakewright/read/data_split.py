"""`DataSplit`: a piece of a plan that one worker reads.

`serialize` and `pickle` put a split into a checked frame: magic, version, length, SHA-256, then JSON. Bytes that were
cut, changed or made by something else are refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from lakewright.errors import CorruptTableError, InvalidMessageError, LakewrightError
from lakewright.spec import argument_checks
from lakewright.spec.binary_row import decode_row
from lakewright.spec.java_encoding import decode_file, encode_file
from lakewright.spec.manifest import EMPTY_ROW, DataFile, is_side_file
from lakewright.spec.scalars import to_python
from lakewright.spec.types import DataType, parse_type

_MAGIC = b"LWSPLIT\n"
_VERSION = 1
_HEAD = struct.Struct(">8sIQ32s")  # magic, version, length of the body, its SHA-256


class Row(tuple[object, ...]):
    """Python values in column order: a tuple that also answers by pypaimon's names.

    >>> Row([1, "a"]).get_field(1)
    'a'
    """

    __slots__ = ()

    @property
    def values(self) -> list[object]:
        """The values as a list."""
        return list(self)

    def get_field(self, pos: int) -> object:
        """Return the value at a position."""
        return self[pos]


@dataclass(frozen=True, slots=True)
class DeletionFile:
    """Where the deletion vector of one data file lies."""

    path: str
    offset: int
    length: int
    cardinality: int | None


Deletions: TypeAlias = Mapping[tuple[bytes, str], DeletionFile]  # by partition and name of the data file


class _Deferrable:
    """A frozen value whose fields are filled when one of them is first asked for."""

    __slots__ = ("_first", "_last", "_make")
    _make: Callable[[int, int], object] | None  # returns an equal, filled value for the two numbers
    _first: int
    _last: int

    if not TYPE_CHECKING:  # to a type checker all fields are always there

        def __getattr__(self, name: str) -> object:
            """Fill the fields of a value that was deferred; Python asks here only for what is not there."""
            if name not in self.__match_args__:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            make = object.__getattribute__(self, "_make")
            if make is not None:  # else another thread has just filled it
                made = make(self._first, self._last)
                for slot in self.__match_args__:
                    object.__setattr__(self, slot, getattr(made, slot))
                object.__setattr__(self, "_make", None)
            return object.__getattribute__(self, name)


@dataclass(frozen=True, slots=True)
class DataSplit(_Deferrable):
    """Some files of one bucket of one partition, at one snapshot.

    The tuples beside `files` have one element per file, or are empty if no file has such an element. A row range
    counts the rows of its file in file order: only those from the first number up to the second are read.

    The rows of a `streaming` split are events: they come in file order, with their kinds and not merged. A
    split with `before` gives the difference between that state of the bucket and its own.

    >>> DataSplit(7, 0, 1, (), (), bucket_path="/lake/sales.db/orders/bucket-0")
    DataSplit('/lake/sales.db/orders/bucket-0', partition=(), bucket=0, files=0, rows=0, bytes=0, snapshot=7)
    """

    snapshot_id: int
    bucket: int
    total_buckets: int
    files: tuple[DataFile, ...]
    file_paths: tuple[str, ...]
    partition_bytes: bytes = EMPTY_ROW
    partition_types: tuple[DataType, ...] = ()
    bucket_path: str = ""
    raw_convertible: bool = True
    deletion_files: tuple[DeletionFile | None, ...] = ()
    row_ranges: tuple[tuple[int, int] | None, ...] = ()
    streaming: bool = False
    before: DataSplit | None = None
    branch: str | None = None  # of another branch than that of the table that was read

    def __repr__(self) -> str:
        """Say which bucket it is and how much is in it: all facts of all files would fill a screen."""
        facts = {"partition": self._shown_partition(), "bucket": self.bucket, "files": len(self.files)}
        sizes = {"rows": self.row_count, "bytes": self.file_size, "snapshot": self.snapshot_id}
        flags = {"merged": self.needs_merge, "deletions": self.has_deletions, "streaming": self.streaming}
        said = {**facts, **sizes, **{flag: True for flag, is_so in flags.items() if is_so}}
        branch = "" if self.branch is None else f", branch={self.branch!r}"
        named = ", ".join(f"{key}={value}" for key, value in said.items())
        return f"DataSplit({self.bucket_path!r}, {named}{branch})"

    def _shown_partition(self) -> str:
        try:
            return str(tuple(self.partition))
        except (LakewrightError, ValueError, LookupError, struct.error):  # a foreign split may hold any bytes
            return repr(self.partition_bytes)

    @property
    def partition(self) -> Row:
        """The partition as Python values, in partition key order."""
        values = decode_row(self.partition_bytes, self.partition_types)
        return Row(to_python(value, dtype) for value, dtype in zip(values, self.partition_types, strict=True))

    @property
    def row_count(self) -> int:
        """How many rows the files hold, deleted ones included, and those of the state before."""
        rows = sum(end - start for start, end in map(self.range_of, self.row_groups()))
        return rows if self.before is None else rows + self.before.row_count

    @property
    def file_size(self) -> int:
        """How many bytes the files have."""
        return sum(file.file_size for file in self.files)

    @property
    def has_deletions(self) -> bool:
        """Whether any row of the files is deleted by a vector."""
        return any(self.deletion_files)

    @property
    def needs_merge(self) -> bool:
        """Whether the files hold versions of one row that are still to be merged, or rows that delete."""
        # The columns of rows that are in several files are put side by side, which is no merge: such rows have ids.
        merges = not self.raw_convertible and all(file.first_row_id is None for file in self.files)
        return merges or self.before is not None

    def merged_row_count(self) -> int | None:
        """Return how many rows a read without a filter gives; None where that is not known without reading."""
        if self.needs_merge:
            return None
        total = 0
        for group in self.row_groups():
            deletion = self.deletion_of(group)
            if deletion is not None and (deletion.cardinality is None or self._cut(group)):
                return None
            start, end = self.range_of(group)
            total += end - start - (deletion.cardinality or 0 if deletion else 0)
        return total

    def row_groups(self) -> list[tuple[int, ...]]:
        """Return which files hold columns of the same rows: their numbers, group by group; mostly one file each."""
        return group_by_rows(self.files)

    def range_of(self, group: Sequence[int]) -> tuple[int, int]:
        """Return the positions of a group's rows that belong to the split."""
        try:
            all_rows = 0, self.files[group[0]].row_count
        except (TypeError, LookupError) as error:
            raise argument_checks.argument_error(
                "group", "the numbers of files of the split, as in row_groups()", group
            ) from error
        return (self.row_ranges[group[0]] or all_rows) if self.row_ranges else all_rows

    def ranges(self) -> dict[str, range]:
        """Return the positions that belong to the split of the files of which only some rows do, by their names."""
        pairs = zip(self.files, self.row_ranges, strict=False)
        return {file.file_name: range(*rows) for file, rows in pairs if rows is not None}

    def deletion_of(self, group: Sequence[int]) -> DeletionFile | None:
        """Return the deletion vector of a group, which belongs to its oldest file."""
        if not self.deletion_files:
            return None
        normal = [at for at in group if not is_side_file(self.files[at])]
        anchor = min(normal, key=lambda at: (self.files[at].max_sequence_number, self.files[at].file_name))
        return self.deletion_files[anchor]

    def deletions(self) -> Deletions:
        """Return the deletion vectors of the files that have one."""
        pairs = zip(self.files, self.deletion_files, strict=False)
        return {(self.partition_bytes, file.file_name): deletion for file, deletion in pairs if deletion is not None}

    def slice_rows(self, start: int, end: int) -> DataSplit | None:
        """Return the split with its rows from `start` up to `end` alone, None where that is none of them.

        Rows that must be merged have no positions yet: such a split is given whole to the slice with its first row.
        """
        start, end = argument_checks.check_int("start", start), argument_checks.check_int("end", end)
        if self.needs_merge:
            return self if start <= 0 < end else None
        kept: list[int] = []
        ranges: list[tuple[int, int] | None] = []
        position = 0
        for group in self.row_groups():
            first, last = self.range_of(group)
            low, high = max(first, first + start - position), min(last, first + end - position)
            position += last - first
            if low < high:
                kept.extend(group)
                is_all = (low, high) == (0, self.files[group[0]].row_count)
                ranges.extend([None if is_all else (low, high)] * len(group))
        if not kept:
            return None
        return replace(
            self,
            files=tuple(self.files[at] for at in kept),
            file_paths=tuple(self.file_paths[at] for at in kept),
            deletion_files=tuple(self.deletion_files[at] for at in kept) if self.deletion_files else (),
            row_ranges=tuple(ranges) if any(ranges) else (),
        )

    def _cut(self, group: Sequence[int]) -> bool:
        return bool(self.row_ranges) and self.row_ranges[group[0]] is not None

    def serialize(self) -> bytes:
        """Return the split as bytes in a checked frame."""
        body = json.dumps(_to_json(self), separators=(",", ":")).encode()
        return _HEAD.pack(_MAGIC, _VERSION, len(body), hashlib.sha256(body).digest()) + body

    @classmethod
    def deserialize(cls, data: bytes) -> DataSplit:
        """Read a split from bytes that `serialize` made."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise argument_checks.argument_error("a split", "bytes, as serialize() returns them", data)
        data = bytes(data)
        if len(data) < _HEAD.size or data[: len(_MAGIC)] != _MAGIC:
            raise InvalidMessageError("these bytes are no split of lakewright")
        _, version, length, digest = _HEAD.unpack_from(data)
        body = data[_HEAD.size :]
        if version != _VERSION:
            raise InvalidMessageError(f"the split has version {version}, but lakewright reads {_VERSION}")
        if length != len(body) or digest != hashlib.sha256(body).digest():
            raise InvalidMessageError("the split was cut or changed on its way")
        try:
            return _from_json(json.loads(body))
        except (KeyError, TypeError, ValueError, RecursionError, CorruptTableError, binascii.Error) as error:
            raise InvalidMessageError(f"the split cannot be read: {error}") from error

    def __reduce__(self) -> tuple[object, ...]:
        # A plain function, because engines' picklers take a method of a class for code to be sent along.
        return _deserialize, (self.serialize(),)


def deferred_splits(make: Callable[[int, int], DataSplit], ranges: Iterable[tuple[int, int]]) -> list[DataSplit]:
    """Return the splits that a function makes of ranges of files; it is called when a split is first looked at.

    A plan of a hundred thousand files has tens of thousands of splits, of which a worker reads a few.
    """
    splits = []
    new, put = object.__new__, object.__setattr__
    for first, last in ranges:
        split = new(DataSplit)
        put(split, "_make", make)
        put(split, "_first", first)
        put(split, "_last", last)
        splits.append(split)
    return splits


def _deserialize(data: bytes) -> DataSplit:
    return DataSplit.deserialize(data)


def group_by_rows(files: Sequence[DataFile]) -> list[tuple[int, ...]]:
    """Return the numbers of neighbouring files that hold columns of the same rows, group by group.

    These are normal files that begin at the same row id, and the BLOB and VECTOR files that follow them.
    """
    groups: list[tuple[int, ...]] = []
    for at, file in enumerate(files):
        first = file.first_row_id
        if groups and first is not None and (files[groups[-1][0]].first_row_id == first or is_side_file(file)):
            groups[-1] = (*groups[-1], at)
        else:
            groups.append((at,))
    return groups


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _to_json(split: DataSplit) -> dict[str, object]:
    return {
        "snapshotId": split.snapshot_id,
        "bucket": split.bucket,
        "totalBuckets": split.total_buckets,
        "files": [_text(encode_file(file)) for file in split.files],
        "filePaths": list(split.file_paths),
        "partition": _text(split.partition_bytes),
        "partitionTypes": [dtype.to_dict() for dtype in split.partition_types],
        "bucketPath": split.bucket_path,
        "rawConvertible": split.raw_convertible,
        "deletionFiles": [d and [d.path, d.offset, d.length, d.cardinality] for d in split.deletion_files],
        "rowRanges": [r and list(r) for r in split.row_ranges],
        "streaming": split.streaming,
        "before": None if split.before is None else _to_json(split.before),
        "branch": split.branch,
    }


def _from_json(data: Mapping[str, Any]) -> DataSplit:
    split = DataSplit(
        snapshot_id=data["snapshotId"],
        bucket=data["bucket"],
        total_buckets=data["totalBuckets"],
        files=tuple(decode_file(_bytes(row)) for row in data["files"]),
        file_paths=tuple(data["filePaths"]),
        partition_bytes=_bytes(data["partition"]),
        partition_types=tuple(parse_type(dtype) for dtype in data["partitionTypes"]),
        bucket_path=data["bucketPath"],
        raw_convertible=data["rawConvertible"],
        deletion_files=tuple(None if d is None else DeletionFile(*d) for d in data["deletionFiles"]),
        row_ranges=tuple(None if r is None else (int(r[0]), int(r[1])) for r in data["rowRanges"]),
        streaming=data["streaming"],
        before=None if data["before"] is None else _from_json(data["before"]),
        branch=data.get("branch"),
    )
    count = len(split.files)
    if len(split.file_paths) != count or {len(split.deletion_files), len(split.row_ranges)} - {0, count}:
        raise ValueError("the lists of a split do not belong together")
    return split
