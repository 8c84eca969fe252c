"""How one value is stored inside a BinaryRow or BinaryArray.

A region is the bytes of one row (without arity prefix) or one array. It starts with its null bits, then one slot per
field or element, then a variable part whose pieces are padded to 8 bytes; offsets count from the start of the region:

    row    header byte (row kind), null bits from bit 8 on, padded to 8 bytes | 8-byte slots | variable part
    array  i32 count | null bits, padded to 4 bytes | slots of the element's width, padded to 8 bytes | variable part
    map    i32 byte length of the key array | key array | value array

Readers trust the types and nothing else: every offset, length and count is checked against the region before it is
used, and the variable pieces of a region may not be longer together than the region, so that no small input grows into
a large one. What does not fit raises `CorruptTableError`.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache

from lakewright.errors import CorruptTableError, InvalidInputError
from lakewright.spec.scalars import DAY_MILLIS, NestedValue, decimal_of, unscaled_of
from lakewright.spec.types import (
    BYTES_ROOTS,
    MILLIS_PRECISION,
    TEXT_ROOTS,
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
)

SLOT_BYTES = 8
INLINE_BYTES_MAX = 7
INLINE_MARK = 0x80  # in the last byte of a slot that holds its text or bytes itself
DECIMAL_BYTES = 16  # the variable part of a wide decimal, whatever its length
COMPACT_DECIMAL_MAX = 18  # decimals up to this precision fit their slot
MILLI_NANOS = 1_000_000

_LONG = struct.Struct("<q")
_PAIR = struct.Struct("<II")  # low half of a slot, high half of a slot
_COUNT = struct.Struct("<i")
_FORMATS = {"TINYINT": "<b", "SMALLINT": "<h", "INT": "<i", "BIGINT": "<q", "FLOAT": "<f", "DOUBLE": "<d", "DATE": "<i"}


def header_bytes(arity: int) -> int:
    """Return how many bytes the header and the null bits of a row take."""
    return (arity + 8 + 63) // 64 * 8


def pad_length(length: int) -> int:
    """Return a length rounded up to a multiple of 8."""
    return (length + 7) & ~7


class Slot(ABC):
    """How the values of one type are written to, and read from, a slot at a place of a region."""

    width = SLOT_BYTES  # of one element in an array

    @abstractmethod
    def write(self, region: bytearray, at: int, value: NestedValue) -> None:
        """Put a value that is not null, growing the region by its variable part."""

    @abstractmethod
    def read(self, region: bytes, at: int) -> NestedValue:
        """Return the value; `at` is inside the region."""

    def write_null(self, region: bytearray, at: int) -> None:  # noqa: B027 - for most types nothing is reserved
        """Reserve what the format reserves for a null field of a row; the slot is zero already."""

    def variable_bytes(self, region: bytes, at: int) -> int:  # noqa: ARG002 - only some types have a variable part
        """Return how many bytes of the variable part the value takes."""
        return 0


class _Number(Slot):
    """BOOLEAN, integers, DATE, FLOAT and DOUBLE: the low bytes of the slot."""

    def __init__(self, form: str) -> None:
        self._struct = struct.Struct(form)
        self.width = self._struct.size

    def write(self, region: bytearray, at: int, value: NestedValue) -> None:
        self._struct.pack_into(region, at, value)

    def read(self, region: bytes, at: int) -> NestedValue:
        value: int | float = self._struct.unpack_from(region, at)[0]
        return value


class _Time(_Number):
    """TIME: milliseconds of the day."""

    def read(self, region: bytes, at: int) -> NestedValue:
        value: int = self._struct.unpack_from(region, at)[0]
        if not 0 <= value < DAY_MILLIS:
            raise CorruptTableError(f"a row holds {value} as milliseconds of a day")
        return value


class _Boolean(Slot):
    width = 1

    def write(self, region: bytearray, at: int, value: NestedValue) -> None:
        region[at] = 1 if value else 0

    def read(self, region: bytes, at: int) -> NestedValue:
        return region[at] != 0


class _Millis(Slot):
    """TIMESTAMP up to precision 3: milliseconds."""

    def write(self, region: bytearray, at: int, value: NestedValue) -> None:
        millis, rest = divmod(_integer(value), MILLI_NANOS)
        if rest:
            raise InvalidInputError(f"the timestamp {value} ns holds less than a millisecond, which its type cannot")
        _LONG.pack_into(region, at, millis)

    def read(self, region: bytes, at: int) -> NestedValue:
        millis: int = _LONG.unpack_from(region, at)[0]
        return millis * MILLI_NANOS


class _Nanos(Slot):
    """TIMESTAMP beyond precision 3: milliseconds in the variable part, nanoseconds of the millisecond in the slot."""

    def write(self, region: bytearray, at: int, value: NestedValue) -> None:
        millis, nanos = divmod(_integer(value), MILLI_NANOS)
        _PAIR.pack_into(region, at, nanos, len(region))
        region += _LONG.pack(millis)

    def read(self, region: bytes, at: int) -> NestedValue:
        nanos, offset = _PAIR.unpack_from(region, at)
        if offset + SLOT_BYTES > len(region) or nanos >= MILLI_NANOS:
            raise CorruptTableError(f"a timestamp of a row has {nanos} ns at offset {offset} of {len(region)} bytes")
        millis: int = _LONG.unpack_from(region, offset)[0]
        return millis * MILLI_NANOS + int(nanos)

    def write_null(self, region: bytearray, at: int) -> None:
        # Java reserves 8 bytes for a null too, and compares partitions by their bytes.
        _PAIR.pack_into(region, at, 0, len(region))
        region += bytes(SLOT_BYTES)


class _CompactDecimal(Slot):
    """DECIMAL up to precision 18: the unscaled integer."""

    def __init__(self, dtype: AtomicType) -> None:
        self._type = dtype
        self._limit = 10**dtype.precision

    def write(self, region: bytearray, at: int, value: NestedValue) -> None:
        _LONG.pack_into(region, at, unscaled_of(_decimal(value), self._type))

    def read(self, region: bytes, at: int) -> NestedValue:
        return self._check_digits(_LONG.unpack_from(region, at)[0])

    def _check_digits(self, unscaled: int) -> Decimal:
        if abs(unscaled) >= self._limit:
            raise CorruptTableError(f"a row holds {unscaled} as the digits of a {self._type}")
        return decimal_of(unscaled, self._type.scale)


class _WideDecimal(_CompactDecimal):
    """DECIMAL beyond precision 18: the shortest big-endian two's complement, in 16 reserved bytes."""

    def write(self, region: bytearray, at: int, value: NestedValue) -> None:
        unscaled = unscaled_of(_decimal(value), self._type)
        # One sign bit on top of the magnitude, as Java's BigInteger counts it.
        length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
        _PAIR.pack_into(region, at, length, len(region))
        region += unscaled.to_bytes(length, "big", signed=True).ljust(DECIMAL_BYTES, b"\0")

    def read(self, region: bytes, at: int) -> NestedValue:
        length, offset = _PAIR.unpack_from(region, at)
        if not 1 <= length <= DECIMAL_BYTES or offset + length > len(region):
            raise CorruptTableError(f"a decimal of a row has {length} bytes at {offset} of {len(region)} bytes")
        return self._check_digits(int.from_bytes(region[offset : offset + length], "big", signed=True))

    def write_null(self, region: bytearray, at: int) -> None:
        _PAIR.pack_into(region, at, 0, len(region))  # as for timestamps
        region += bytes(DECIMAL_BYTES)


class _Bytes(Slot):
    """BINARY and VARBINARY: up to 7 bytes in the slot, longer ones in the variable part."""

    def write(self, region: bytearray, at: int, value: NestedValue) -> None:
        if not isinstance(value, bytes):
            raise InvalidInputError(f"{value!r} is no value of a binary type")
        _put_bytes(region, at, value)

    def read(self, region: bytes, at: int) -> NestedValue:
        return self._piece(region, at)

    def _piece(self, region: bytes, at: int) -> bytes:
        mark = region[at + INLINE_BYTES_MAX]
        if not mark & INLINE_MARK:
            return _variable(region, at)
        if mark & ~INLINE_MARK > INLINE_BYTES_MAX:
            raise CorruptTableError(f"a slot of a row claims to hold {mark & ~INLINE_MARK} bytes itself")
        return region[at : at + (mark & ~INLINE_MARK)]

    def variable_bytes(self, region: bytes, at: int) -> int:
        inline = region[at + INLINE_BYTES_MAX] & INLINE_MARK
        return 0 if inline else int(_PAIR.unpack_from(region, at)[0])


class _Unknown(_Bytes):
    """A value of a type that is not known, such as a bound of a column: it is not read."""

    def read(self, region: bytes, at: int) -> NestedValue:  # noqa: ARG002 - as for other slots
        return None

    def variable_bytes(self, region: bytes, at: int) -> int:  # noqa: ARG002 - as for other slots
        return 0


class _Text(_Bytes):
    """CHAR and VARCHAR: UTF-8."""

    def write(self, region: bytearray, at: int, value: NestedValue) -> None:
        if not isinstance(value, str):
            raise InvalidInputError(f"{value!r} is no value of a text type")
        try:
            _put_bytes(region, at, value.encode())
        except UnicodeEncodeError:
            raise InvalidInputError(f"{value!r} holds half of a surrogate pair") from None

    def read(self, region: bytes, at: int) -> NestedValue:
        try:
            return self._piece(region, at).decode()
        except UnicodeDecodeError as error:
            raise CorruptTableError(f"a text of a row is no UTF-8: {error}") from None


class _Nested(Slot):
    """Values that are always in the variable part: arrays, maps, rows and variants."""

    def write(self, region: bytearray, at: int, value: NestedValue) -> None:
        content = self.encode(value)
        _PAIR.pack_into(region, at, len(content), len(region))
        region += content.ljust(pad_length(len(content)), b"\0")

    def read(self, region: bytes, at: int) -> NestedValue:
        return self.decode(_variable(region, at))

    def variable_bytes(self, region: bytes, at: int) -> int:
        return int(_PAIR.unpack_from(region, at)[0])

    @abstractmethod
    def encode(self, value: NestedValue) -> bytes:
        """Return the bytes of a value that is not null."""

    @abstractmethod
    def decode(self, region: bytes) -> NestedValue:
        """Return the value of those bytes."""


class _Row(_Nested):
    def __init__(self, slots: tuple[Slot, ...]) -> None:
        self._slots = slots

    def encode(self, value: NestedValue) -> bytes:
        return write_row(_items(value), self._slots)

    def decode(self, region: bytes) -> NestedValue:
        return read_row(region, self._slots)


class _Array(_Nested):
    """ARRAY as a list. Null elements leave a zero slot."""

    def __init__(self, element: Slot) -> None:
        self._element = element

    def encode(self, value: NestedValue) -> bytes:
        values, element = _items(value), self._element
        first = 4 + (len(values) + 31) // 32 * 4
        region = bytearray(pad_length(first + len(values) * element.width))
        _COUNT.pack_into(region, 0, len(values))
        for i, item in enumerate(values):
            if item is None:
                region[4 + (i >> 3)] |= 1 << (i & 7)
            else:
                element.write(region, first + i * element.width, item)
        return bytes(region)

    def decode(self, region: bytes) -> NestedValue:
        count = int(_COUNT.unpack_from(region)[0]) if len(region) >= _COUNT.size else -1
        first = 4 + (count + 31) // 32 * 4
        if count < 0 or first + count * self._element.width > len(region):
            raise CorruptTableError(f"an array of {len(region)} bytes cannot hold {count} elements")
        out: list[NestedValue] = []
        spare = len(region)
        for i in range(count):
            if region[4 + (i >> 3)] & (1 << (i & 7)):
                out.append(None)
                continue
            at = first + i * self._element.width
            spare = _spend(spare, self._element.variable_bytes(region, at), region)
            out.append(self._element.read(region, at))
        return out


class _Map(_Nested):
    """MAP and MULTISET as a list of pairs, which keeps the order and allows keys of every type."""

    def __init__(self, key: Slot, value: Slot) -> None:
        self._keys = _Array(key)
        self._values = _Array(value)

    def encode(self, value: NestedValue) -> bytes:
        pairs = value.items() if isinstance(value, Mapping) else [tuple(_items(pair)) for pair in _items(value)]
        keys = self._keys.encode([k for k, _ in pairs])
        return _COUNT.pack(len(keys)) + keys + self._values.encode([v for _, v in pairs])

    def decode(self, region: bytes) -> NestedValue:
        length = int(_COUNT.unpack_from(region)[0]) if len(region) >= _COUNT.size else -1
        if not 0 <= length <= len(region) - _COUNT.size:
            raise CorruptTableError(f"a map of {len(region)} bytes claims {length} bytes of keys")
        keys = _items(self._keys.decode(region[4 : 4 + length]))
        values = _items(self._values.decode(region[4 + length :]))
        if len(keys) != len(values):
            raise CorruptTableError(f"a map has {len(keys)} keys and {len(values)} values")
        return list(zip(keys, values, strict=True))


class _Variant(_Nested):
    """VARIANT as the pair of its value and its metadata."""

    def encode(self, value: NestedValue) -> bytes:
        match value:
            case (bytes() as content, bytes() as metadata):
                return _COUNT.pack(len(content)) + content + metadata
            case _:
                raise InvalidInputError(f"{value!r} is no variant: a pair of value and metadata bytes is needed")

    def decode(self, region: bytes) -> NestedValue:
        length = int(_COUNT.unpack_from(region)[0]) if len(region) >= _COUNT.size else -1
        if not 0 <= length <= len(region) - _COUNT.size:
            raise CorruptTableError(f"a variant of {len(region)} bytes claims a value of {length} bytes")
        return region[4 : 4 + length], region[4 + length :]


@lru_cache(maxsize=4096)
def slot_of(dtype: DataType) -> Slot:
    """Return how the values of a type are in a slot."""
    match dtype:
        case AtomicType():
            return _atomic_slot(dtype)
        case ArrayType() | VectorType():  # of vectors only nulls are stored, as bounds that they do not have
            return _Array(slot_of(dtype.element))
        case MapType() | MultisetType():
            return _Map(slot_of(dtype.key), slot_of(dtype.value))
        case RowType():
            return _Row(tuple(slot_of(f.type) for f in dtype.fields))


def _atomic_slot(dtype: AtomicType) -> Slot:
    root = dtype.root
    if root == "UNKNOWN":
        return _Unknown()
    if root in _FORMATS:
        return _Number(_FORMATS[root])
    if root in TEXT_ROOTS:
        return _Text()
    if root in BYTES_ROOTS:
        return _Bytes()
    if root in TIMESTAMP_ROOTS:
        return _Millis() if dtype.precision <= MILLIS_PRECISION else _Nanos()
    if root == "DECIMAL":
        return _CompactDecimal(dtype) if dtype.precision <= COMPACT_DECIMAL_MAX else _WideDecimal(dtype)
    if root == "TIME":
        return _Time("<i")
    return _Boolean() if root == "BOOLEAN" else _Variant()


def write_row(values: Sequence[NestedValue], slots: Sequence[Slot]) -> bytes:
    """Return the bytes of a row, without arity prefix and with the row kind +I."""
    if len(values) != len(slots):
        raise InvalidInputError(f"a row of {len(slots)} fields was given {len(values)} values")
    first = header_bytes(len(slots))
    region = bytearray(first + SLOT_BYTES * len(slots))
    for i, (value, slot) in enumerate(zip(values, slots, strict=True)):
        at = first + SLOT_BYTES * i
        try:
            if value is None:
                region[(8 + i) >> 3] |= 1 << (i & 7)
                slot.write_null(region, at)
            else:
                slot.write(region, at, value)
        except (struct.error, OverflowError, TypeError) as error:
            raise InvalidInputError(f"field {i} of a row cannot hold {value!r}: {error}") from None
    return bytes(region)


def read_row(region: bytes, slots: Sequence[Slot]) -> tuple[NestedValue, ...]:
    """Return the values of a row without arity prefix."""
    first = header_bytes(len(slots))
    if first + SLOT_BYTES * len(slots) > len(region):
        raise CorruptTableError(f"a row of {len(region)} bytes cannot hold {len(slots)} fields")
    out: list[NestedValue] = []
    spare = len(region)
    for i, slot in enumerate(slots):
        if region[(8 + i) >> 3] & (1 << (i & 7)):
            out.append(None)
            continue
        at = first + SLOT_BYTES * i
        spare = _spend(spare, slot.variable_bytes(region, at), region)
        out.append(slot.read(region, at))
    return tuple(out)


def _put_bytes(region: bytearray, at: int, content: bytes) -> None:
    length = len(content)
    if length <= INLINE_BYTES_MAX:
        region[at : at + length] = content
        region[at + INLINE_BYTES_MAX] = INLINE_MARK | length
    else:
        _PAIR.pack_into(region, at, length, len(region))
        region += content.ljust(pad_length(length), b"\0")


def _variable(region: bytes, at: int) -> bytes:
    """Return the piece of the variable part that a slot points to."""
    length, offset = _PAIR.unpack_from(region, at)
    if offset + length > len(region):
        raise CorruptTableError(f"a row points to {length} bytes at {offset}, beyond its {len(region)} bytes")
    return region[offset : offset + length]


def _spend(spare: int, length: int, region: bytes) -> int:
    """Subtract the length of one piece from the bytes that all pieces of a region may still take together."""
    if length > spare:
        raise CorruptTableError(f"the pieces of a row claim more bytes than its {len(region)}")
    return spare - length


def _integer(value: NestedValue) -> int:
    if not isinstance(value, int):
        raise InvalidInputError(f"{value!r} is no timestamp in nanoseconds")
    return value


def _decimal(value: NestedValue) -> Decimal:
    if not isinstance(value, Decimal | int):
        raise InvalidInputError(f"{value!r} is no decimal")
    return Decimal(value)


def _items(value: NestedValue) -> Sequence[NestedValue]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise InvalidInputError(f"{value!r} is no list of values")
    return value
