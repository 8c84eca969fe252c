"""BinaryRow, the row format of the metadata: encode and decode rows and columns."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakewright.errors import CorruptTableError, InvalidInputError, UnsupportedError
from lakewright.spec.arrow_types import to_arrow_type
from lakewright.spec.binary_slots import (
    COMPACT_DECIMAL_MAX,
    DECIMAL_BYTES,
    INLINE_BYTES_MAX,
    INLINE_MARK,
    MILLI_NANOS,
    SLOT_BYTES,
    header_bytes,
    read_row,
    slot_of,
    write_row,
)
from lakewright.spec.scalars import NestedValue
from lakewright.spec.types import (
    BYTES_ROOTS,
    MILLIS_PRECISION,
    TEXT_ROOTS,
    TIMESTAMP_ROOTS,
    UNIT_NANOS,
    AtomicType,
    DataType,
    Value,
)

# ---- Rows ------------------------------------------------------------------------------------------------------------
# A serialised row is its arity as a big-endian i32, then the row itself, little-endian throughout (see `slots`). A
# row without that prefix is called a body: commit messages embed bodies, and hashes are taken over them. Rows are
# written in Java's form, which reserves room for a null DECIMAL beyond 18 digits and a null TIMESTAMP beyond
# precision 3, so that equal rows have equal bytes. Damaged rows raise `CorruptTableError`, whatever is wrong with
# them.

ARITY_BYTES = 4

Words: TypeAlias = npt.NDArray[np.uint64]
Longs: TypeAlias = npt.NDArray[np.int64]

_ARITY = struct.Struct(">i")
_U64 = np.dtype("<u8")
_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(9)], _U64)  # the low n bytes of a word
_LOW_BITS = {"BOOLEAN": 8, "TINYINT": 8, "SMALLINT": 16, "INT": 32, "DATE": 32, "TIME": 32, "FLOAT": 32}
_UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_FEW_WORDS = 32  # a numpy call for each of so many words is cheaper than an index of all of them
_MILLIS_IN = {"s": 1000, "ms": 1}


def encode_row(values: Sequence[NestedValue], types: Sequence[DataType]) -> bytes:
    """Return a serialised row, arity prefix included.

    >>> encode_row(["abc"], [AtomicType("STRING")]).hex()
    '0000000100000000000000006162630000000083'
    """
    return _ARITY.pack(len(types)) + encode_body(values, types)


def decode_row(data: bytes, types: Sequence[DataType]) -> tuple[Value, ...]:
    """Return the values of a serialised row of scalars.

    >>> types = [AtomicType("INT"), AtomicType("DATE")]
    >>> decode_row(encode_row([7, None], types), types)
    (7, None)
    """
    if row_arity(data) != len(types):
        raise CorruptTableError(f"a row of {row_arity(data)} fields is stored where {len(types)} fields are expected")
    return decode_body(data[ARITY_BYTES:], types)  # type: ignore[return-value]  # the types are scalar


def encode_body(values: Sequence[NestedValue], types: Sequence[DataType]) -> bytes:
    """Return a row without arity prefix.

    Nested values are lists for ARRAY, sequences in field order for ROW, mappings or pairs for MAP and MULTISET, and
    (value, metadata) for VARIANT.
    """
    return write_row(values, [slot_of(t) for t in types])


def decode_body(data: bytes, types: Sequence[DataType]) -> tuple[NestedValue, ...]:
    """Return the values of a row without arity prefix; arrays come as lists, rows as tuples, maps as lists of pairs."""
    return read_row(data, [slot_of(t) for t in types])


def row_arity(data: bytes) -> int:
    """Return how many fields a serialised row says it has."""
    if len(data) < ARITY_BYTES + SLOT_BYTES:
        raise CorruptTableError(f"a serialised row cannot have {len(data)} bytes")
    arity: int = _ARITY.unpack_from(data)[0]
    if arity < 0 or ARITY_BYTES + header_bytes(arity) + SLOT_BYTES * arity > len(data):
        raise CorruptTableError(f"a serialised row of {len(data)} bytes cannot hold {arity} fields")
    return arity


def decode_field(data: bytes, index: int, dtype: DataType) -> Value:
    """Return one value of a serialised row without looking at the others."""
    arity = row_arity(data)
    if not 0 <= index < arity:
        raise CorruptTableError(f"a row of {arity} fields has no field {index}")
    body = data[ARITY_BYTES:]
    if body[(8 + index) >> 3] & (1 << (index & 7)):
        return None
    at = header_bytes(arity) + SLOT_BYTES * index
    return slot_of(dtype).read(body, at)  # type: ignore[return-value]  # the type is scalar


def canonical_row(data: bytes, types: Sequence[DataType]) -> bytes:
    """Return a serialised row of scalars in Java's form; the same object if it already has that form."""
    encoded = encode_row(decode_row(data, types), types)
    return data if encoded == data else encoded


@dataclass(frozen=True, slots=True)
class RowImages:
    """Many rows without arity prefix, one after the other; row i is `buffer[offsets[i]:offsets[i + 1]]`."""

    buffer: npt.NDArray[np.uint8]
    offsets: Longs

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def row(self, index: int) -> bytes:
        """Return the bytes of one row."""
        return self.buffer[self.offsets[index] : self.offsets[index + 1]].tobytes()


@dataclass(frozen=True, slots=True)
class ColumnSlots:
    """One column of many rows, cut into slots and pieces of the variable part (counted in words of 8 bytes)."""

    slots: Words  # a slot that points to a piece has its offset not yet in its high half
    nulls: npt.NDArray[np.bool_] | None
    piece_words: Longs | int = 0  # per row
    pieces: Words | None = None  # of all rows, in order
    points: npt.NDArray[np.bool_] | None = None  # rows whose slot points to a piece; None: all

    @property
    def even(self) -> bool:
        """Whether this column takes the same number of bytes in every row."""
        return isinstance(self.piece_words, int) and self.points is None


def column_slots(columns: Sequence[pa.Array], types: Sequence[DataType]) -> list[ColumnSlots]:
    """Return columns cut into slots; rows are assembled from slots, and rows of fixed width are hashed by them."""
    if len(columns) != len(types) or len({len(c) for c in columns}) > 1:
        raise InvalidInputError(f"{len(types)} types need as many columns of equal length, not {len(columns)}")
    return [_column_slots(plain_column(c, t), t) for c, t in zip(columns, types, strict=True)]


def header_words(columns: Sequence[ColumnSlots]) -> list[Words | None]:
    """Return the header of each row, as one entry per word; None: zero in all rows."""
    words: list[Words | None] = [None] * (header_bytes(len(columns)) // SLOT_BYTES)
    for i, column in enumerate(columns):
        if column.nulls is not None:
            word, bit = divmod(8 + i, 64)
            bits = column.nulls.astype(_U64) << np.uint64(bit)
            before = words[word]
            words[word] = bits if before is None else before | bits
    return words


def assemble_rows(columns: Sequence[ColumnSlots]) -> RowImages:
    """Return rows put together from their columns, in Java's form and without arity prefix."""
    headers = header_words(columns)
    count = len(columns[0].slots) if columns else 0
    first_piece = len(headers) + len(columns)
    sizes = np.full(count, first_piece, np.int64)
    for column in columns:
        sizes += column.piece_words
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    rows = ends[:-1]
    buffer = np.zeros(ends[-1], _U64)
    for i, word in enumerate(headers):
        if word is not None:
            buffer[rows + i] = word
    at = np.full(count, first_piece, np.int64)  # where the next piece of each row begins
    for i, column in enumerate(columns):
        slots = column.slots
        if column.pieces is not None:
            offsets = (at * SLOT_BYTES).astype(_U64) << np.uint64(32)
            slots = slots | (offsets if column.points is None else np.where(column.points, offsets, np.uint64(0)))
            _put_pieces(buffer, rows + at, column)
        buffer[rows + (len(headers) + i)] = slots
        at += column.piece_words
    return RowImages(buffer.view(np.uint8), ends * SLOT_BYTES)


def _put_pieces(buffer: Words, at: Longs, column: ColumnSlots) -> None:
    if column.pieces is None:
        return
    words = column.piece_words
    if isinstance(words, int) and words <= _FEW_WORDS:
        for k in range(words):
            buffer[at + k] = column.pieces[k::words]
        return
    buffer[_spread(at, np.full(len(at), words, np.int64) if isinstance(words, int) else words)] = column.pieces


def _spread(starts: Longs, counts: Longs, step: int = 1) -> Longs:
    """Return start, start + step, ... for each run, all runs in one array."""
    before = np.cumsum(counts) - counts
    total = int(counts.sum())
    return np.repeat(starts - before * step, counts) + np.arange(0, total * step, step, dtype=np.int64)


def plain_column(column: pa.Array | pa.ChunkedArray, dtype: DataType) -> pa.Array:
    """Return a column as one array with a layout that can be cut into slots; narrower types of a kind are widened."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # too long for one array of this type
            column = pa.concat_arrays([chunk.cast(_large(chunk.type)) for chunk in column.chunks])
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not isinstance(dtype, AtomicType) or dtype.root == "VARIANT":
        raise UnsupportedError(f"a column of the type {dtype} cannot be part of a key, a bucket key or a partition")
    target = _plain_type(column.type, dtype)
    if target == column.type:
        return column
    try:
        return column.cast(target)
    except pa.ArrowException as error:
        raise InvalidInputError(f"a column of Arrow's {column.type} does not fit the type {dtype}: {error}") from error


def _large(arrow: pa.DataType) -> pa.DataType:
    return {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(arrow, arrow)


def _plain_type(arrow: pa.DataType, dtype: AtomicType) -> pa.DataType:
    """Return the Arrow type that slots are cut from; InvalidInputError if it is of another kind than `dtype`."""
    kinds, root = pa.types, dtype.root
    if root in TEXT_ROOTS and (kinds.is_string(arrow) or kinds.is_large_string(arrow)):
        return arrow
    if root in TEXT_ROOTS and kinds.is_string_view(arrow):
        return pa.large_string()
    if root in BYTES_ROOTS and (kinds.is_binary(arrow) or kinds.is_large_binary(arrow)):
        return arrow
    if root in BYTES_ROOTS and (kinds.is_fixed_size_binary(arrow) or kinds.is_binary_view(arrow)):
        return pa.large_binary()
    if root in TIMESTAMP_ROOTS and kinds.is_timestamp(arrow) and (arrow.tz is None) == (root == "TIMESTAMP"):
        return arrow
    target = to_arrow_type(dtype)
    same_kind = arrow == target or (
        (kinds.is_integer(target) and kinds.is_integer(arrow))
        or (kinds.is_float64(target) and kinds.is_floating(arrow))
        or (kinds.is_decimal(target) and kinds.is_decimal(arrow))
        or (kinds.is_date(target) and kinds.is_date(arrow))
        or (kinds.is_time(target) and kinds.is_time(arrow))
        or kinds.is_null(arrow)
    )
    if not same_kind:
        raise InvalidInputError(f"a column of Arrow's {arrow} does not hold values of the type {dtype}")
    return target


def null_mask(column: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Return which values are null; None where none is."""
    if column.null_count == 0:
        return None
    mask: npt.NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return mask


def fixed_values(column: pa.Array, dtype: npt.DTypeLike, width: int = 1) -> npt.NDArray[np.generic]:
    """Return the memory of a fixed-width array as a numpy array; where a value is null, its content is arbitrary."""
    data = column.buffers()[1]
    if data is None or len(column) == 0:
        return np.zeros(len(column) * width, dtype)
    size = np.dtype(dtype).itemsize * width
    view = data.slice(column.offset * size, len(column) * size)
    return np.frombuffer(view, dtype)


def _column_slots(column: pa.Array, dtype: DataType) -> ColumnSlots:
    root = dtype.root if isinstance(dtype, AtomicType) else ""
    nulls = null_mask(column)
    if root in TEXT_ROOTS or root in BYTES_ROOTS:
        return _bytes_slots(column, nulls)
    if isinstance(dtype, AtomicType) and root in TIMESTAMP_ROOTS:
        return _timestamp_slots(column, dtype, nulls)
    if isinstance(dtype, AtomicType) and root == "DECIMAL":
        return _decimal_slots(column, dtype, nulls)
    if root == "BOOLEAN":
        column = column.cast(pa.uint8())
    raw = fixed_values(column, _UNSIGNED[_LOW_BITS.get(root, 64)])
    return ColumnSlots(_without(raw.astype(_U64), nulls), nulls)


def _without(values: npt.NDArray[np.generic], nulls: npt.NDArray[np.bool_] | None) -> Words:
    """Return 64-bit values as words, zero where null."""
    words = values.view(_U64)
    if nulls is None:
        return words
    return np.where(nulls, np.uint64(0), words)


def _timestamp_slots(column: pa.Array, dtype: AtomicType, nulls: npt.NDArray[np.bool_] | None) -> ColumnSlots:
    ticks = _without(fixed_values(column, np.int64), nulls).view(np.int64)
    unit = column.type.unit
    if unit in _MILLIS_IN:
        factor = _MILLIS_IN[unit]
        if len(ticks) and max(-int(ticks.min()), int(ticks.max())) > (2**63 - 1) // factor:
            raise InvalidInputError(f"a timestamp is out of the range of the type {dtype}")
        millis, nanos = ticks * factor, np.zeros(len(ticks), np.int64)
    else:
        tick = UNIT_NANOS[unit]
        millis = np.floor_divide(ticks, MILLI_NANOS // tick)
        nanos = (ticks - millis * (MILLI_NANOS // tick)) * tick
    if dtype.precision > MILLIS_PRECISION:
        return ColumnSlots(nanos.view(_U64), nulls, 1, millis.view(_U64))
    if nanos.any():
        raise InvalidInputError(f"a timestamp has a fraction of a millisecond, which the type {dtype} cannot hold")
    return ColumnSlots(millis.view(_U64), nulls)


def _decimal_slots(column: pa.Array, dtype: AtomicType, nulls: npt.NDArray[np.bool_] | None) -> ColumnSlots:
    halves = fixed_values(column, _U64, 2).reshape(-1, 2).view(_U64)
    if dtype.precision <= COMPACT_DECIMAL_MAX:
        return ColumnSlots(_without(np.ascontiguousarray(halves[:, 0]), nulls), nulls)
    big = np.ascontiguousarray(halves).view(np.uint8)[:, ::-1]  # 16 bytes per row, big-endian
    if nulls is not None:
        big = np.where(nulls[:, None], np.uint8(0), big)
    sign = big[:, :1] >> 7
    # A leading byte is dropped if it only repeats the sign that the next byte shows too.
    idle = (big[:, :-1] == sign * np.uint8(255)) & (big[:, 1:] >> 7 == sign)
    dropped = np.logical_and.accumulate(idle, axis=1).sum(axis=1)
    source = np.arange(DECIMAL_BYTES) + dropped[:, None]
    moved = np.take_along_axis(big, np.minimum(source, DECIMAL_BYTES - 1), axis=1)
    pieces = np.ascontiguousarray(np.where(source < DECIMAL_BYTES, moved, np.uint8(0))).view(_U64).reshape(-1)
    lengths = _without((DECIMAL_BYTES - dropped).astype(_U64), nulls)
    return ColumnSlots(lengths, nulls, DECIMAL_BYTES // SLOT_BYTES, pieces)


def text_layout(column: pa.Array) -> tuple[Longs, Longs, npt.NDArray[np.uint8]]:
    """Return where each text or binary value begins, its length (0 where null), and all bytes followed by 8 zeros."""
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    kind = np.dtype(np.int64 if large else np.int32)
    _, index, content = column.buffers()
    if len(column) == 0 or index is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(SLOT_BYTES, np.uint8)
    view = index.slice(column.offset * kind.itemsize, (len(column) + 1) * kind.itemsize)
    ends = np.frombuffer(view, kind).astype(np.int64)
    first, last = int(ends[0]), int(ends[-1])
    data = np.zeros(last - first + SLOT_BYTES, np.uint8)
    if last > first:
        data[: last - first] = np.frombuffer(content.slice(first, last - first), np.uint8)
    lengths = np.diff(ends)
    nulls = null_mask(column)
    return ends[:-1] - first, lengths if nulls is None else np.where(nulls, 0, lengths), data


def _words_anywhere(data: npt.NDArray[np.uint8]) -> Words:
    """Return the 8-byte word that begins at each byte, except the last seven bytes."""
    return np.ndarray((max(len(data) - 7, 0),), _U64, data, strides=(1,))


def _bytes_slots(column: pa.Array, nulls: npt.NDArray[np.bool_] | None) -> ColumnSlots:
    starts, lengths, data = text_layout(column)
    if nulls is None and len(lengths) and lengths[0] > INLINE_BYTES_MAX and bool((lengths == lengths[0]).all()):
        return _even_bytes_slots(len(lengths), int(lengths[0]), data)
    words = _words_anywhere(data)
    long = lengths > INLINE_BYTES_MAX
    short_lengths = np.where(long, 0, lengths)
    marks = (short_lengths | INLINE_MARK).astype(_U64) << np.uint64(56)
    slots = (words[starts] & _MASKS[short_lengths]) | marks
    slots = np.where(long, lengths.astype(_U64), slots)
    if nulls is not None:
        slots = np.where(nulls, np.uint64(0), slots)
    if not long.any():
        return ColumnSlots(slots, nulls)
    counts = np.where(long, (lengths + 7) >> 3, 0)
    pieces = words[_spread(starts, counts, SLOT_BYTES)]
    last = np.cumsum(counts)[long] - 1
    pieces[last] &= _MASKS[((lengths[long] - 1) & 7) + 1]
    return ColumnSlots(slots, nulls, counts, pieces, long)


def _even_bytes_slots(count: int, length: int, data: npt.NDArray[np.uint8]) -> ColumnSlots:
    """Return the slots of texts that are all of one length and are one after the other."""
    words = (length + 7) >> 3
    pieces = np.ndarray((count, words), _U64, data, strides=(length, SLOT_BYTES)).copy()
    pieces[:, -1] &= _MASKS[((length - 1) & 7) + 1]
    return ColumnSlots(np.full(count, length, _U64), None, words, pieces.reshape(-1))


# ---- One field of many rows ------------------------------------------------------------------------------------------
# Invariant: the values are those that `decode_field` gives, row by row. Where that is not sure, because a row is
# damaged or the type is decoded row by row only, the answer is None; `decode_field` then says what is wrong.

Mask: TypeAlias = npt.NDArray[np.bool_]

_NUMBERS = {"TINYINT": "<i1", "SMALLINT": "<i2", "INT": "<i4", "DATE": "<i4", "BIGINT": "<i8", "FLOAT": "<f4"}
_NUMBERS |= {"DOUBLE": "<f8"}
_MILLIS_MAX = (2**63 - 1) // MILLI_NANOS  # beyond it, nanoseconds do not fit 64 bits
_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)


class RowColumns:
    """Serialised rows of scalars, all with as many fields.

    >>> from lakewright.spec.binary_row import encode_row
    >>> types = [AtomicType("INT"), AtomicType("STRING")]
    >>> rows = RowColumns([encode_row([7, "seven"], types), encode_row([None, "a longer text"], types)], 2)
    >>> [rows.values(index, dtype) for index, dtype in enumerate(types)]
    [[7, None], ['seven', 'a longer text']]
    """

    def __init__(self, rows: Sequence[bytes], arity: int) -> None:
        self._data = b"".join([*rows, bytes(2 * SLOT_BYTES)])
        self._words = np.ndarray((len(self._data) - SLOT_BYTES,), "<u8", self._data, strides=(1,))
        self._bytes = np.frombuffer(self._data, np.uint8)
        sizes = np.fromiter(map(len, rows), np.int64, len(rows))
        self._ends = np.cumsum(sizes)
        self._bodies = self._ends - sizes + ARITY_BYTES
        self._arity = arity
        self.is_sound = self._are_sound(sizes)  # whether every row has as many fields, and room for them

    def _are_sound(self, sizes: Longs) -> bool:
        least = ARITY_BYTES + header_bytes(self._arity) + SLOT_BYTES * self._arity
        stored = int.from_bytes(self._arity.to_bytes(ARITY_BYTES, "big"), "little")
        return bool((sizes >= least).all() and ((self._word(self._bodies - ARITY_BYTES) & _LOW_HALF) == stored).all())

    def values(self, index: int, dtype: DataType) -> list[Any] | None:
        """Return the values of a field, None for null; or None instead of all: take `decode_field`."""
        if not self.is_sound or not isinstance(dtype, AtomicType) or not 0 <= index < self._arity:
            return None
        read = self._reader(dtype)
        if read is None:
            return None
        at, bit = divmod(8 + index, 8)
        nulls = (self._bytes[self._bodies + at] >> bit) & 1 != 0
        found = read(self._bodies + header_bytes(self._arity) + SLOT_BYTES * index, nulls)
        if found is not None and nulls.any():
            for row in np.flatnonzero(nulls).tolist():
                found[row] = None
        return found

    def _reader(self, dtype: AtomicType) -> Callable[[Longs, Mask], list[Any] | None] | None:
        """Return what reads the values from the places of their slots."""
        if form := _NUMBERS.get(dtype.root):
            return lambda at, _: (
                self._word(at).astype("<u8").view(form)[:: SLOT_BYTES // np.dtype(form).itemsize].tolist()
            )
        if dtype.root == "BOOLEAN":
            return lambda at, _: (self._bytes[at] != 0).tolist()
        if dtype.root in TIMESTAMP_ROOTS:
            return self._millis if dtype.precision <= MILLIS_PRECISION else self._nanos
        if dtype.root in TEXT_ROOTS:
            return self._texts
        return self._pieces if dtype.root in BYTES_ROOTS else None

    def _word(self, at: Longs) -> Words:
        return self._words[np.clip(at, 0, len(self._words) - 1)]

    def _millis(self, at: Longs, nulls: Mask) -> list[Any] | None:
        return _in_nanos(self._word(at).view(np.int64), np.zeros(len(at), np.int64), nulls)

    def _nanos(self, at: Longs, nulls: Mask) -> list[Any] | None:
        slots = self._word(at)
        places = self._bodies + (slots >> _HALF).astype(np.int64)
        rest = (slots & _LOW_HALF).astype(np.int64)
        if ((places + SLOT_BYTES > self._ends) | (rest >= MILLI_NANOS))[~nulls].any():
            return None
        return _in_nanos(self._word(places).view(np.int64), rest, nulls)

    def _texts(self, at: Longs, nulls: Mask) -> list[Any] | None:
        pieces = self._pieces(at, nulls)
        try:
            return None if pieces is None else [piece.decode() for piece in pieces]
        except UnicodeDecodeError:
            return None

    def _pieces(self, at: Longs, nulls: Mask) -> list[bytes] | None:
        """Return the bytes of a field: inside of the slot if they are few, and else where the slot says."""
        slots = self._word(at)
        marks = (slots >> np.uint64(56)).astype(np.int64)
        is_inline = marks >= INLINE_MARK
        sizes = np.where(is_inline, marks & ~INLINE_MARK, (slots & _LOW_HALF).astype(np.int64))
        starts = np.where(is_inline, at, self._bodies + (slots >> _HALF).astype(np.int64))
        if (np.where(is_inline, sizes > INLINE_BYTES_MAX, starts + sizes > self._ends) & ~nulls).any():
            return None
        starts, sizes = np.where(nulls, 0, starts), np.where(nulls, 0, sizes)
        data = self._data
        return [data[start:end] for start, end in zip(starts.tolist(), (starts + sizes).tolist(), strict=True)]


def _in_nanos(millis: Longs, rest: Longs, nulls: Mask) -> list[Any] | None:
    """Return moments in nanoseconds; None: some are too far away for 64 bits."""
    known = np.where(nulls, 0, millis)
    if (known >= _MILLIS_MAX).any() or (known <= -_MILLIS_MAX).any():
        return None
    found: list[Any] = (known * MILLI_NANOS + rest).tolist()
    return found
