"""Many Avro blocks decoded at once into columns (manifests).

A record can be decoded only after the one before it, because its fields have no fixed width. Blocks do not depend on
each other: numpy decodes the first records of all blocks together, then the second ones, and so on. With hundreds of
blocks that takes a tenth of the time of decoding record by record.

Invariant: the columns are what decoding record by record gives. Where the blocks are too few or too uneven to gain
anything, and where a block has anything unusual in it, damage among it, the answer is None, and the caller decodes
record by record, which also says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lakewright.formats.avro_container import Block, FileSchema

Longs: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]
Mask: TypeAlias = npt.NDArray[np.bool_]
# Positions of a field in some blocks and the numbers of the records in, positions of the next field out.
_Read: TypeAlias = Callable[[Longs, Longs], Longs]

LANES_MIN = 48  # blocks at work on average; with fewer, decoding record by record is faster
_ITEMS_MAX = 10_000  # of one array
_PADDING = 16
_WORD_BYTES = 8

_STOPS = np.uint64(0x8080808080808080)  # the bits that are 0 in the last byte of a number
_ONE = np.uint64(1)
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, with about as many ones as zeros
_LOW_BYTES = np.array([(1 << 8 * count) - 1 for count in range(_WORD_BYTES + 1)], np.uint64)
# How groups of 7 bits, one in each byte of a word, move together: what stays, what moves, and how far.
_CLOSE = tuple(
    tuple(map(np.uint64, step))
    for step in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)


@dataclass(frozen=True, slots=True)
class DecodedColumn:
    """The values of one field: of numbers the values, of everything else where their bytes lie.

    `valid` says which records have a value, None: all. The bytes of an array are its items as they are in the file.
    """

    values: Longs  # numbers, or where the bytes begin
    sizes: Longs | None = None  # how many bytes, of fields that are no numbers
    valid: Mask | None = None

    def part(self, records: slice, start: int) -> DecodedColumn:
        """Return the values of some records, whose bytes begin at a position."""
        valid = None if self.valid is None else self.valid[records].copy()
        if valid is not None and not valid.any():  # as in most manifests of a third of the fields
            zeros = np.broadcast_to(np.zeros(1, np.int64), len(valid))
            return DecodedColumn(zeros, None if self.sizes is None else zeros, np.broadcast_to(valid[:1], len(valid)))
        if self.sizes is None:
            return DecodedColumn(self.values[records].copy(), None, valid)
        values = self.values[records] - start
        if valid is not None:
            np.maximum(values, 0, out=values)  # nulls have no bytes, and begin at 0
        return DecodedColumn(values, self.sizes[records].copy(), valid)


@dataclass(frozen=True, slots=True)
class Columns:
    """All fields of many records, in the order of the blocks; the names of nested fields have dots."""

    data: bytes
    count: int
    fields: dict[str, DecodedColumn]
    records: dict[str, Mask]  # of nested records that may be null, which of them are not

    @property
    def size(self) -> int:
        """How many bytes of memory it takes."""
        arrays = [array for column in self.fields.values() for array in (column.values, column.sizes, column.valid)]
        arrays += self.records.values()
        return len(self.data) + sum(array.nbytes for array in arrays if array is not None and any(array.strides))

    def part(self, records: slice, data: slice) -> Columns:
        """Return some neighbouring records, whose bytes are a stretch of all, with nothing in memory but their own."""
        if data.stop - data.start >= len(self.data) - _PADDING:
            return self
        fields = {name: column.part(records, data.start) for name, column in self.fields.items()}
        masks = {name: mask[records].copy() for name, mask in self.records.items()}
        stretch = b"".join([memoryview(self.data)[data], bytes(_PADDING)])
        return Columns(stretch, records.stop - records.start, fields, masks)

    def words(self, at: Longs) -> Words:
        """Return the 8 bytes from each of some positions on, as little-endian numbers; beyond the end, anything."""
        return _words_of(self.data)[np.minimum(at, len(self.data) - _PADDING)]

    def digests(self, name: str) -> tuple[Words, bool]:
        """Return a number for the bytes of a field in each record, equal where these are; and whether all are ASCII."""
        digests, seen = np.zeros(self.count, np.uint64), np.uint64(0)
        for word, is_there in self._field_words(name):
            mixed = (digests ^ word) * _MIX
            digests = np.where(is_there, mixed ^ (mixed >> np.uint64(29)), digests)
            seen |= np.bitwise_or.reduce(word, initial=0)
        return digests, not seen & _STOPS

    def run_starts(self, name: str) -> Longs:
        """Return the numbers of the records whose bytes of a field differ from those of the record before."""
        sizes = self.fields[name].sizes
        differs = np.ones(self.count, np.bool_)
        if sizes is not None and self.count:
            differs[1:] = sizes[1:] != sizes[:-1]
        for word, _ in self._field_words(name):
            differs[1:] |= word[1:] != word[:-1]
        return np.flatnonzero(differs)

    def _field_words(self, name: str) -> Iterator[tuple[Words, Mask]]:
        """Yield the bytes of a field in all records, 8 at a time, with zeros behind the last; and where any are."""
        column = self.fields[name]
        if column.sizes is None:
            raise TypeError(f"{name} holds numbers")
        for at in range(0, int(column.sizes.max(initial=0)), _WORD_BYTES):
            left = np.clip(column.sizes - at, 0, _WORD_BYTES)
            yield self.words(column.values + at) & _LOW_BYTES[left], left > 0

    def slices(self, name: str, rows: Longs) -> list[bytes]:
        """Return the bytes of a field in some records; of one that is null, no bytes."""
        column, data = self.fields[name], self.data
        if column.sizes is None:
            raise TypeError(f"{name} holds numbers")
        starts = column.values.take(rows)
        ends = starts + column.sizes.take(rows)
        return [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    def numbers(self, name: str, rows: Longs) -> list[int | None]:
        """Return the numbers of a field in some records; None where they are null, or where the file lacks it."""
        column = self.fields.get(name)
        if column is None:
            return [None] * len(rows)
        values: list[int | None] = column.values.take(rows).tolist()
        if column.valid is not None:
            for at in np.flatnonzero(~column.valid.take(rows)).tolist():
                values[at] = None
        return values


def digests_of(values: Sequence[bytes]) -> Words:
    """Return the number of each value that `Columns.digests` gives it."""
    sizes = np.fromiter(map(len, values), np.int64)
    column = DecodedColumn(np.cumsum(sizes) - sizes, sizes)
    return Columns(b"".join([*values, bytes(_PADDING)]), len(values), {"": column}, {}).digests("")[0]


def decode_columns(blocks: Sequence[Block], schema: FileSchema) -> Columns | None:
    """Return the columns of blocks, which all have this schema; None: decode them record by record."""
    count, longest = sum(block.count for block in blocks), max((block.count for block in blocks), default=0)
    if count < LANES_MIN * longest or not longest:
        return None
    decoder = _Decoder.of(blocks, count)
    try:
        read = decoder.reader(schema.entry, "")
        # A damaged number can lead out of the blocks, and be too large to add to.
        with np.errstate(over="ignore"):
            decoder.run(read, longest)
        decoder.finish()
    except (_UnusualError, IndexError):
        return None
    return Columns(decoder.data, count, decoder.fields, decoder.records)


def _words_of(data: bytes) -> Words:
    """Return the 8 bytes from each position on, as one number."""
    return np.ndarray((len(data) - _WORD_BYTES,), "<u8", data, strides=(1,))


class _UnusualError(Exception):
    """Something that is left to the decoding of single records."""


@dataclass(slots=True)
class _Decoder:
    """The state of one decoding; the lanes are the blocks, those with the most records first."""

    data: bytes
    bytes: npt.NDArray[np.uint8]
    words: Words
    starts: Longs  # of each lane
    ends: Longs
    counts: Longs
    numbers: Longs  # of the first record of each lane
    total: int
    fields: dict[str, DecodedColumn] = field(default_factory=dict)
    records: dict[str, Mask] = field(default_factory=dict)
    arrays: set[str] = field(default_factory=set)  # fields whose sizes were counted, not read

    @classmethod
    def of(cls, blocks: Sequence[Block], total: int) -> _Decoder:
        data = b"".join([*(block.data for block in blocks), bytes(_PADDING)])
        sizes = np.array([len(block.data) for block in blocks], np.int64)
        counts = np.array([block.count for block in blocks], np.int64)
        ends, numbers = np.cumsum(sizes), np.cumsum(counts) - counts
        order = np.argsort(-counts, kind="stable")
        view = np.frombuffer(data, np.uint8)
        return cls(
            data, view, _words_of(data), (ends - sizes)[order], ends[order], counts[order], numbers[order], total
        )

    def run(self, read: _Read, longest: int) -> None:
        """Decode the n-th records of all lanes that have so many, for every n."""
        at = self.starts.copy()
        active = np.searchsorted(-self.counts, -np.arange(longest), side="left").tolist()
        for number, lanes in enumerate(active):
            at[:lanes] = read(at[:lanes].copy(), self.numbers[:lanes] + number)
            if (at[:lanes] > self.ends[:lanes]).any():
                raise _UnusualError
        if (at != self.ends).any():
            raise _UnusualError

    # Readers of fields. Each returns new positions, or changes those that it was given.

    def reader(self, schema: Any, name: str, *, keep: bool = True) -> _Read:  # noqa: ANN401 - a checked schema
        """Return what reads a value; with `keep` it fills a column."""
        match schema:
            case [first, second] if "null" in schema:
                inner, null_branch = (second, 0) if first == "null" else (first, 1)
                return self._optional(inner, null_branch, name, keep=keep)
            case {"type": "record", "fields": members}:
                return self._record(members, name, keep=keep)
            case {"type": "array", "items": items}:
                return self._array(items, name, keep=keep)
            case {"type": "int" | "long"} | "int" | "long":
                return self._long(name, keep=keep)
            case "bytes" | "string" | {"type": "bytes" | "string"}:
                return self._read_sized(name, keep=keep)
            case _:
                raise _UnusualError

    def _long(self, name: str, *, keep: bool) -> _Read:
        if not keep:
            return lambda at, _: self._number(at)[1]
        values = np.zeros(self.total, np.int64)
        self.fields[name] = DecodedColumn(values)

        def read(at: Longs, rows: Longs) -> Longs:
            values[rows], at = self._number(at)
            return at

        return read

    def _read_sized(self, name: str, *, keep: bool) -> _Read:
        starts, sizes = np.zeros((2, self.total if keep else 0), np.int64)
        if keep:
            self.fields[name] = DecodedColumn(starts, sizes)

        def read(at: Longs, rows: Longs) -> Longs:
            size, at = self._number(at)
            if keep:
                starts[rows], sizes[rows] = at, size
            at += size >> 1
            return at

        return read

    def finish(self) -> None:
        """Turn the numbers of all fields from zigzag form into what they stand for."""
        for name, column in self.fields.items():
            if column.sizes is None:
                np.bitwise_xor(column.values >> 1, -(column.values & 1), out=column.values)
            elif name not in self.arrays:
                if np.bitwise_or.reduce(column.sizes) & 1:  # below zero
                    raise _UnusualError
                np.right_shift(column.sizes, 1, out=column.sizes)

    def _record(self, members: Sequence[dict[str, Any]], name: str, *, keep: bool) -> _Read:
        prefix = f"{name}." if name else ""
        readers = [self.reader(member["type"], f"{prefix}{member['name']}", keep=keep) for member in members]

        def read(at: Longs, rows: Longs) -> Longs:
            for one in readers:
                at = one(at, rows)
            return at

        return read

    def _optional(self, inner: object, null_branch: int, name: str, *, keep: bool) -> _Read:
        read_inner = self.reader(inner, name, keep=keep)
        valid = np.zeros(self.total if keep else 0, np.bool_)
        column = self.fields.get(name)
        if keep and column is not None:
            self.fields[name] = DecodedColumn(column.values, column.sizes, valid)
        elif keep:
            self.records[name] = valid
        some_byte = 2 * (1 - null_branch)  # how the number of the other branch is stored

        def read(at: Longs, rows: Longs) -> Longs:
            branch = self.bytes[at]
            low, high = np.minimum.reduce(branch), np.maximum.reduce(branch)
            at = at + 1
            if low == high == some_byte:
                if keep:
                    valid[rows] = True
                return read_inner(at, rows)
            if np.bitwise_or.reduce(branch) & 0xFD:
                raise _UnusualError
            if low != high:
                (some,) = (branch == some_byte).nonzero()
                chosen = rows[some]
                if keep:
                    valid[chosen] = True
                at[some] = read_inner(at[some], chosen)
            return at

        return read

    def _array(self, items: object, name: str, *, keep: bool) -> _Read:
        """Return what finds the end of an array: blocks of items, each after its count, up to a count of 0."""
        skip = self.reader(items, name, keep=False)
        starts, sizes = np.zeros((2, self.total if keep else 0), np.int64)
        if keep:
            self.fields[name] = DecodedColumn(starts, sizes)
            self.arrays.add(name)

        def read(at: Longs, rows: Longs) -> Longs:
            begin = at
            count, at = self._number(at)
            (open_,) = count.nonzero()
            while len(open_):
                left = count[open_]
                if np.bitwise_or.reduce(left) & 1 or np.maximum.reduce(left) > 2 * _ITEMS_MAX:  # below zero; or damage
                    raise _UnusualError
                at[open_] = self._items(skip, at[open_], left >> 1)
                count[open_], at[open_] = self._number(at[open_])
                open_ = open_[count[open_] != 0]
            if keep:
                starts[rows], sizes[rows] = begin, at - begin
            return at

        return read

    @staticmethod
    def _items(skip: _Read, at: Longs, left: Longs) -> Longs:
        least = int(left.min())
        for _ in range(least):
            at = skip(at, at)
        for number in range(least, int(left.max())):
            some = np.flatnonzero(left > number)
            at[some] = skip(at[some], some)
        return at

    def _number(self, at: Longs) -> tuple[Longs, Longs]:
        """Return the numbers at some positions, of 7 bits in each byte and still in zigzag form, and what follows."""
        first = self.bytes[at]
        if np.maximum.reduce(first) < 0x80:  # noqa: PLR2004 - most numbers have one byte
            return first.astype(np.int64), at + 1
        word = self.words[at]
        stops = ~word & _STOPS
        if not stops.all():
            raise _UnusualError
        last = stops & (~stops + _ONE)
        word &= last - _ONE
        for stays, moves, step in _CLOSE:
            word = (word & stays) | ((word & moves) >> step)
        size = np.frexp(last.astype(np.float64))[1] >> 3
        return word.view(np.int64), at + size
