"""Deletion vectors and their index files.

An index file is the version byte 1, then one record per data file: int32 BE size, the magic, the positions, int32 BE
CRC-32 of magic and positions. The magic tells the form, and `size` counts magic and positions:

- bitmap32: int32 BE 1581511376, then one portable roaring bitmap;
- bitmap64: int32 LE 1681511377, then int64 LE count and, for each, int32 LE high key and a portable roaring bitmap.

The length in the index manifest counts other bytes in each of the two forms, so the size in the record is used.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pyroaring import BitMap

from lakewright.errors import CorruptTableError, InvalidInputError, pluralize
from lakewright.formats.file_format import Input, corrupt_file_error, translate_decode_errors
from lakewright.spec.manifest import DeletionRange, IndexFile

Positions: TypeAlias = NDArray[np.uint64]  # ascending, each once
_Number = TypeVar("_Number", bound=np.integer)

VERSION = 1
_MAGIC32 = struct.pack(">i", 1581511376)
_MAGIC64 = struct.pack("<i", 1681511377)
_SIZE = struct.Struct(">i")
_CRC = struct.Struct(">I")
_COUNT = struct.Struct("<q")
_HIGH = struct.Struct("<i")
_MAGIC_BYTES = 4
_STEP_BYTES = 4 << 20
_COOKIE, _RUN_COOKIE = 0x303A, 0x303B  # without and with run containers
_CONTAINERS_MAX = 1 << 16
_OFFSETS_MIN = 4  # fewer containers with runs among them carry no offsets
_ARRAY_MAX = 4096  # members of an array container; a fuller one is a bit set
_BITS32 = np.uint64(32)
_LOW32 = np.uint64(0xFFFFFFFF)


def read_deletion_vector(source: Input, place: DeletionRange, *, path: str) -> Positions:
    """Return the deleted positions in a range of an index file; checksum and number of positions are verified."""
    with translate_decode_errors(path):
        source.seek(place.offset)
        head = bytes(source.read(_SIZE.size))
        if place.offset < 1 or len(head) < _SIZE.size:
            raise corrupt_file_error(path, f"no deletion vector at byte {place.offset}")
        (size,) = _SIZE.unpack(head)
        # bitmap32 counts `size` alone, bitmap64 the whole record; anything else is a damaged size or a wrong offset.
        if size < _MAGIC_BYTES or place.length not in {size, size + _SIZE.size + _CRC.size}:
            raise corrupt_file_error(path, f"the deletion vector at byte {place.offset} has the wrong length {size}")
        record = _read(source, size + _CRC.size)
        positions = decode_deletion_vector(head + record, path=path)
    if place.cardinality is not None and place.cardinality != len(positions):
        raise CorruptTableError(
            f"the deletion vector of {place.data_file} in {path} deletes {pluralize(len(positions), 'row')} where "
            f"the manifest announces {place.cardinality}",
            path=path,
            data_file=place.data_file,
        )
    return positions


def _read(source: Input, size: int) -> bytes:
    """Return the next bytes, fewer where the file ends; memory is taken only for bytes that exist."""
    out = bytearray()
    while len(out) < size and (piece := source.read(min(_STEP_BYTES, size - len(out)))):
        out += piece
    return bytes(out)


def decode_deletion_vector(record: bytes, *, path: str) -> Positions:
    """Return the deleted positions of one record, size and checksum included."""
    with translate_decode_errors(path):
        (size,) = _SIZE.unpack_from(record)
        end = _SIZE.size + size
        if size < _MAGIC_BYTES or end + _CRC.size != len(record):
            raise corrupt_file_error(path, "a deletion vector is cut short")
        body = record[_SIZE.size : end]
        if _CRC.unpack_from(record, end)[0] != zlib.crc32(body):
            raise corrupt_file_error(path, "the checksum of a deletion vector does not match")
        magic, data = body[:_MAGIC_BYTES], body[_MAGIC_BYTES:]
        if magic == _MAGIC32:
            return _members(data, _roaring_end(data, 0))
        if magic == _MAGIC64:
            return _decode64(data, path)
        raise corrupt_file_error(path, f"a deletion vector begins with the unknown magic {magic.hex()}")


def distinct(values: NDArray[_Number]) -> NDArray[_Number]:
    """Return numbers in order, each once; fast if they are in order already, as positions mostly are.

    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    ordered = np.sort(values, kind="stable")
    first = np.ones(len(ordered), dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered if first.all() else ordered[first]


def encode_deletion_vector(positions: ArrayLike, *, bitmap64: bool = False) -> bytes:
    """Return the record of one deletion vector.

    >>> encode_deletion_vector([3, 5]).hex()
    '000000185e43f2d03a30000001000000000001001000000003000500267e36de'
    """
    values = distinct(np.asarray(positions, dtype=np.uint64))
    if not bitmap64:
        if len(values) and values[-1] > _LOW32:
            raise InvalidInputError(
                f"the position {values[-1]} does not fit a 32-bit deletion vector; set deletion-vectors.bitmap64=true"
            )
        body = _MAGIC32 + BitMap(values.astype(np.uint32)).serialize()
    else:
        body = _MAGIC64 + b"".join(_encode64(values))
    return _SIZE.pack(len(body)) + body + _CRC.pack(zlib.crc32(body))


def encode_deletion_vectors(
    vectors: Mapping[str, ArrayLike], *, bitmap64: bool = False
) -> tuple[bytes, tuple[DeletionRange, ...]]:
    """Return the bytes of an index file with the vectors of some data files, and the place of each."""
    values = {name: distinct(np.asarray(positions, dtype=np.uint64)) for name, positions in vectors.items()}
    return pack_records(
        {name: (encode_deletion_vector(rows, bitmap64=bitmap64), len(rows)) for name, rows in values.items()}
    )


def pack_records(records: Mapping[str, tuple[bytes, int]]) -> tuple[bytes, tuple[DeletionRange, ...]]:
    """Return the bytes of an index file, and the places of the records in it.

    `records` maps the name of a data file to the bytes of its record and the number of rows that the record deletes.
    """
    out = bytearray([VERSION])
    ranges = []
    for data_file, (record, cardinality) in records.items():
        length = len(record) if is_bitmap64(record) else len(record) - _SIZE.size - _CRC.size
        ranges.append(DeletionRange(data_file, len(out), length, cardinality))
        out += record
    return bytes(out), tuple(ranges)


def is_bitmap64(record: bytes) -> bool:
    """Return whether a record has the form bitmap64."""
    return record[_SIZE.size : _SIZE.size + _MAGIC_BYTES] == _MAGIC64


def record_at(data: bytes, place: DeletionRange, *, path: str) -> bytes:
    """Return the bytes of one record of an index file, of which `data` are all bytes; its checksum is verified."""
    with translate_decode_errors(path):
        (size,) = _SIZE.unpack_from(data, place.offset)
        end = place.offset + _SIZE.size + size + _CRC.size
        if place.offset < 1 or size < _MAGIC_BYTES or end > len(data):
            raise corrupt_file_error(path, f"no deletion vector at byte {place.offset}")
        record = data[place.offset : end]
        if _CRC.unpack_from(record, _SIZE.size + size)[0] != zlib.crc32(record[_SIZE.size : -_CRC.size]):
            raise corrupt_file_error(path, "the checksum of a deletion vector does not match")
    return record


def live_mask(positions: Positions, first: int, count: int) -> NDArray[np.bool_]:
    """Return which of `count` rows from position `first` on are not deleted."""
    low, high = np.searchsorted(positions, np.array([first, first + count], dtype=np.uint64))
    mask = np.ones(count, dtype=np.bool_)
    mask[(positions[low:high] - np.uint64(first)).astype(np.int64)] = False
    return mask


def _members(data: bytes, end: int) -> Positions:
    """Decode a portable roaring bitmap that must end at `end`, the end of the data."""
    if end != len(data):
        raise ValueError(f"a roaring bitmap takes {end} of {len(data)} bytes")
    bitmap = BitMap.deserialize(data)
    return np.asarray(bitmap.to_array(), dtype=np.uint64)


def _decode64(data: bytes, path: str) -> Positions:
    (count,) = _COUNT.unpack_from(data)
    at = _COUNT.size
    parts: list[Positions] = []
    last = -1
    for _ in range(count):
        (high,) = _HIGH.unpack_from(data, at)
        at += _HIGH.size
        end = _roaring_end(data, at)
        if high <= last:
            raise corrupt_file_error(path, "the parts of a 64-bit deletion vector are out of order")
        parts.append(_members(data[at:end], end - at) | np.uint64(high) << _BITS32)
        at, last = end, high
    if at != len(data):
        raise corrupt_file_error(path, "a 64-bit deletion vector has bytes left over")
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)


def _encode64(values: Positions) -> Iterator[bytes]:
    highs = (values >> _BITS32).astype(np.int64)
    keys, starts = np.unique(highs, return_index=True)
    yield _COUNT.pack(len(keys))
    for key, part in zip(keys.tolist(), np.split(values, starts[1:]), strict=False):
        bitmap = BitMap((part & _LOW32).astype(np.uint32))
        bitmap.run_optimize()
        yield _HIGH.pack(key) + bitmap.serialize()


def _roaring_end(data: bytes, at: int) -> int:
    """Return where the portable roaring bitmap that begins at `at` ends."""
    cookie, count = struct.unpack_from("<II", data, at)
    runs = b""
    if cookie == _COOKIE:
        at += 8
    elif cookie & 0xFFFF == _RUN_COOKIE:
        count = (cookie >> 16) + 1
        runs = data[at + 4 : at + 4 + (count + 7) // 8]
        at += 4 + len(runs)
    else:
        raise ValueError(f"a roaring bitmap begins with the unknown cookie {cookie:#x}")
    if count > _CONTAINERS_MAX:
        raise ValueError(f"a roaring bitmap announces {count} containers")
    heads = np.frombuffer(data, dtype="<u2", count=2 * count, offset=at)
    cardinalities = heads[1::2].astype(np.int64) + 1
    at += 4 * count + (0 if runs and count < _OFFSETS_MIN else 4 * count)
    for index, cardinality in enumerate(cardinalities.tolist()):
        if runs and runs[index // 8] >> index % 8 & 1:
            at += 2 + 4 * int(struct.unpack_from("<H", data, at)[0])
        else:
            at += 2 * cardinality if cardinality <= _ARRAY_MAX else 8192
    return at


# ---- Verification ----------------------------------------------------------------------------------------------------


def check_deletion_vectors(source: Input, file: IndexFile, rows: Mapping[str, int], path: str) -> Iterator[str]:
    """Yield what is wrong with the vectors of an index file; `rows` are the row counts of data files, where known."""
    if source.read(1) != bytes([VERSION]):
        raise corrupt_file_error(path, "it does not begin like a file of deletion vectors")
    for vector in file.deletion_ranges or ():
        try:
            positions = read_deletion_vector(source, vector, path=path)
        except CorruptTableError as error:
            yield error.message
            continue
        last = int(positions[-1]) if len(positions) else -1
        if last >= rows.get(vector.data_file, last + 1):
            yield f"{path} deletes row {last} of {vector.data_file}, which has {rows[vector.data_file]}"
