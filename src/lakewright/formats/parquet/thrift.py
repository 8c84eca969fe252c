"""Thrift structs in the compact form: bytes in, nested values out, and the same bytes back.

A struct is a dict from field numbers to `Field`s in the order of the bytes, without the meaning of the fields: a struct
that is read, changed in one place and written again keeps every field that is unknown here. The reader is strict: it
accepts only the shortest form of every number and header, which is what writers make, so that writing a struct that was
read gives the same bytes. Everything else is a ValueError, and so is a map: parquet has none.

The form, as far as parquet uses it. A number is a varint (seven bits per byte, the lowest first), signed ones are
zigzag coded first (0, -1, 1, -2 become 0, 1, 2, 3). A field starts with a byte of two halves: the difference of its
number to the last one, and its kind; if the difference is not 1 to 15, the first half is 0 and the number follows,
signed. A struct ends with a zero byte. A binary is its length and its bytes. A list starts with a byte of two halves,
length and kind; a length from 15 on follows as a number. A boolean field has its value in its kind, a boolean in a list
is a byte.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, TypeAlias

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, _MAP, STRUCT = range(1, 13)

_BITS = {I16: 16, I32: 32, I64: 64}
_VARINT_BYTES_MAX, _DOUBLE_BYTES = 10, 8
_MORE = 128  # this bit of a byte is set if another byte of the number follows
_SHORT_LENGTH_MAX = 14  # a longer list has 15 here and its length behind
_SHORT_STEP_MAX = 15
_DEPTH_MAX = 16


class Field(NamedTuple):
    """One value of a struct with its kind; `TRUE` and `FALSE` are kinds, their values are True and False."""

    kind: int
    value: Value


class Items(NamedTuple):
    """The elements of a list or a set, all of one kind; booleans and bytes are numbers here."""

    kind: int
    values: list[Value]


Struct: TypeAlias = dict[int, Field]
# A double is kept as its eight bytes, so that every NaN keeps its bits.
Value: TypeAlias = "bool | int | bytes | Items | Struct"


def read_struct(data: bytes | memoryview, at: int = 0, *, raw_from: int | None = None) -> tuple[Struct, int]:
    """Return the struct that starts at a position, and the position behind it.

    Structs that are nested in `raw_from` structs and lists stay bytes and are not checked, which is much faster.

    >>> read_struct(bytes.fromhex("150c18017800"))
    ({1: Field(kind=5, value=6), 2: Field(kind=8, value=b'x')}, 6)
    """
    try:
        return _read_struct(data, at, _Depth(0, raw_from))
    except IndexError:
        raise ValueError("a Thrift struct has no end") from None


def write_struct(fields: Struct) -> bytes:
    """Return the bytes of a struct.

    >>> write_struct({1: Field(I32, 6), 2: Field(BINARY, b"x")}).hex()
    '150c18017800'
    """
    out = bytearray()
    _write_struct(out, fields)
    return bytes(out)


def moved_struct(data: bytes, numbers: Collection[int], shift: int) -> bytes:
    """Return the bytes of a struct with `shift` added to the values of the fields with these numbers.

    >>> moved_struct(bytes.fromhex("150c18017800"), {1}, 2).hex()
    '151018017800'
    """
    out = bytearray()
    at = copied = number = 0
    while head := data[at]:
        at += 1
        kind = head & 15
        if head > kind:
            number += head >> 4
        else:
            number, at = _read_signed(data, at, I16)
        if number in numbers:
            out += data[copied:at]
            value, copied = _read_signed(data, at, kind)
            _write_unsigned(out, _zigzag(value + shift))
        at = at if kind in {TRUE, FALSE} else _skip(data, at, kind)
    return bytes(out + data[copied:])


def number_of(field: Field) -> int:
    """Return the number that a field holds."""
    if not isinstance(field.value, int):
        raise ValueError(f"a Thrift field has the kind {field.kind} instead of a number")  # noqa: TRY004 - bytes
    return field.value


def struct_of(field: Field) -> Struct:
    """Return the struct that a field holds."""
    if not isinstance(field.value, dict):
        raise ValueError(f"a Thrift field has the kind {field.kind} instead of a struct")  # noqa: TRY004 - bytes
    return field.value


def structs_of(field: Field) -> list[Struct]:
    """Return the structs of the list that a field holds."""
    values = field.value.values if isinstance(field.value, Items) else []
    return [value for value in values if isinstance(value, dict)]


class _Depth(NamedTuple):
    """The number of structs and lists around a value, and the depth at which structs are copied, not read."""

    at: int
    raw_from: int | None

    def below(self) -> _Depth:
        return _Depth(self.at + 1, self.raw_from)


def _read_struct(data: bytes | memoryview, at: int, depth: _Depth) -> tuple[Struct, int]:
    fields: Struct = {}
    number = 0
    below = depth.below()
    while head := data[at]:
        at += 1
        kind = head & 15
        if head > kind:
            number += head >> 4
        else:
            last = number
            number, at = _read_signed(data, at, I16)
            if 0 < number - last <= _SHORT_STEP_MAX or number in fields:
                raise ValueError(f"the number of field {number} of a Thrift struct is not in its shortest form")
        value: Value = kind == TRUE
        if kind not in {TRUE, FALSE}:
            value, at = _read_value(data, at, kind, below)
        fields[number] = Field(kind, value)
    return fields, at + 1


def _read_value(data: bytes | memoryview, at: int, kind: int, depth: _Depth) -> tuple[Value, int]:
    if kind in _BITS:
        return _read_signed(data, at, kind)
    if kind == BINARY:
        length, at = _read_unsigned(data, at)
        return _read_bytes(data, at, length)
    if kind == STRUCT and depth.at == depth.raw_from:
        end = _skip(data, at, kind)
        return bytes(data[at:end]), end
    if kind == STRUCT and depth.at <= _DEPTH_MAX:
        return _read_struct(data, at, depth)
    if kind in {LIST, SET} and depth.at <= _DEPTH_MAX:
        return _read_items(data, at, depth)
    if kind == DOUBLE:
        return _read_bytes(data, at, _DOUBLE_BYTES)
    if kind in {TRUE, FALSE, BYTE}:  # in a list
        return data[at], at + 1
    raise ValueError(f"a Thrift struct has a value of the kind {kind}, or is too deep")


def _read_items(data: bytes | memoryview, at: int, depth: _Depth) -> tuple[Items, int]:
    length, kind = data[at] >> 4, data[at] & 15
    at += 1
    if length > _SHORT_LENGTH_MAX:
        length, at = _read_unsigned(data, at)
        if length <= _SHORT_LENGTH_MAX:
            raise ValueError("the length of a Thrift list is not in its shortest form")
    values: list[Value] = []
    below = depth.below()
    for _ in range(length):  # an element takes at least one byte, so this ends with the data
        value, at = _read_value(data, at, kind, below)
        values.append(value)
    return Items(kind, values), at


def _skip(data: bytes | memoryview, at: int, kind: int) -> int:
    """Return the position behind a value, which must be well formed."""
    if kind in _BITS:
        while data[at] >= _MORE:
            at += 1
        return at + 1
    if kind == BINARY:
        length, at = _read_unsigned(data, at)
        return at + length
    if kind == STRUCT:
        while head := data[at]:
            kind = head & 15
            at = at + 1 if head > kind else _skip(data, at + 1, I16)
            if kind > FALSE:
                at = _skip(data, at, kind)
        return at + 1
    if kind in {LIST, SET}:
        length, kind = data[at] >> 4, data[at] & 15
        at += 1
        if length > _SHORT_LENGTH_MAX:
            length, at = _read_unsigned(data, at)
        for _ in range(length):
            at = _skip(data, at, kind)
        return at
    return at + (_DOUBLE_BYTES if kind == DOUBLE else 1)


def _read_bytes(data: bytes | memoryview, at: int, length: int) -> tuple[bytes, int]:
    if length > len(data) - at:
        raise ValueError("a Thrift binary has no end")
    return bytes(data[at : at + length]), at + length


def _read_signed(data: bytes | memoryview, at: int, kind: int) -> tuple[int, int]:
    number, at = _read_unsigned(data, at)
    if number >> _BITS[kind]:
        raise ValueError(f"a Thrift number has more than {_BITS[kind]} bits")
    return (number >> 1) ^ -(number & 1), at


def _read_unsigned(data: bytes | memoryview, at: int) -> tuple[int, int]:
    number = data[at]
    if number < _MORE:
        return number, at + 1
    number -= _MORE
    for place in range(1, _VARINT_BYTES_MAX):
        byte = data[at + place]
        number |= (byte & ~_MORE) << (7 * place)
        if byte < _MORE:
            if not byte:
                break
            return number, at + place + 1
    raise ValueError("a Thrift number is too long, or not in its shortest form")


def _write_struct(out: bytearray, fields: Struct) -> None:
    last = 0
    for number, field in fields.items():
        step = number - last
        last = number
        if 0 < step <= _SHORT_STEP_MAX:
            out.append(step << 4 | field.kind)
        else:
            out.append(field.kind)
            _write_unsigned(out, _zigzag(number))
        if field.kind > FALSE:
            _write_value(out, field.kind, field.value)
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Value) -> None:
    match value:
        case int() if kind in _BITS:
            _write_unsigned(out, _zigzag(value))
        case int() if kind <= BYTE:
            out.append(value)
        case bytes():
            if kind == BINARY:
                _write_unsigned(out, len(value))
            out += value
        case Items(inner, values):
            _write_items(out, inner, values)
        case dict():
            _write_struct(out, value)
        case _:
            raise ValueError(f"{value!r} cannot be written as a Thrift value of the kind {kind}")


def _write_items(out: bytearray, kind: int, values: list[Value]) -> None:
    out.append(min(len(values), _SHORT_LENGTH_MAX + 1) << 4 | kind)
    if len(values) > _SHORT_LENGTH_MAX:
        _write_unsigned(out, len(values))
    for value in values:
        _write_value(out, kind, value)


def _zigzag(number: int) -> int:
    return number << 1 if number >= 0 else ~(number << 1)


def _write_unsigned(out: bytearray, number: int) -> None:
    while number >= _MORE:
        out.append(number & 0xFF | _MORE)
        number >>= 7
    out.append(number)
