"""Java's `DataOutput` bytes; a data file as one row, as splits and messages contain it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from typing import ClassVar, TypeVar, cast

from lakewright.errors import CorruptTableError, InvalidMessageError
from lakewright.spec.binary_row import decode_body, encode_body
from lakewright.spec.manifest import DataFile, SimpleStats
from lakewright.spec.scalars import NestedValue
from lakewright.spec.types import ArrayType, AtomicType, DataField, DataType, RowType

# ---- DataOutput ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class JavaBytes:
    """Bytes that are read from front to back."""

    what: ClassVar[str] = "data"  # for errors

    data: bytes
    position: int = 0

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise InvalidMessageError(f"the {self.what} is cut or damaged at byte {self.position}")
        piece = self.data[self.position : end]
        self.position = end
        return piece

    def read_int(self) -> int:
        """Return a number of 4 bytes."""
        return int.from_bytes(self.take(4), "big", signed=True)

    def read_long(self) -> int:
        """Return a number of 8 bytes."""
        return int.from_bytes(self.take(8), "big", signed=True)

    def length_prefixed(self) -> bytes:
        """Return bytes whose length stands before them."""
        return self.take(self.read_int())

    def read_text(self) -> str:
        """Return text whose length in two bytes stands before it."""
        return from_modified_utf8(self.take(int.from_bytes(self.take(2), "big")))


def modified_utf8(text: str) -> bytes:
    r"""Encode text as Java does: NUL in two bytes, characters beyond the first plane as two surrogates.

    >>> modified_utf8("a\0").hex()
    '61c080'
    """
    units = struct.unpack(f">{len(text.encode('utf-16-be')) // 2}H", text.encode("utf-16-be"))
    return b"".join(b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass") for unit in units)


def from_modified_utf8(data: bytes) -> str:
    """Decode text that Java encoded."""
    halves = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return halves.encode("utf-16-be", "surrogatepass").decode("utf-16-be")


# ---- A data file as one row ------------------------------------------------------------------------------------------
# The row has 21 fields in the order of `DataFile`; older writers leave out the last. Damaged rows raise
# `CorruptTableError`.

T = TypeVar("T")

_STRING, _BYTES, _BIGINT = AtomicType("STRING"), AtomicType("BYTES"), AtomicType("BIGINT")
_STRINGS, _LONGS = ArrayType(nullable=True, element_type=_STRING), ArrayType(nullable=True, element_type=_BIGINT)
_STATS_PARTS: tuple[DataType, ...] = (_BYTES, _BYTES, _LONGS)
_STATS = RowType(nullable=True, fields=[DataField(i, f"f{i}", t) for i, t in enumerate(_STATS_PARTS)])
FILE_TYPES: tuple[DataType, ...] = (
    *(_STRING, _BIGINT, _BIGINT, _BYTES, _BYTES, _STATS, _STATS, _BIGINT, _BIGINT, _BIGINT, AtomicType("INT")),
    *(_STRINGS, AtomicType("TIMESTAMP(3)"), _BIGINT, _BYTES, AtomicType("TINYINT"), _STRINGS, _STRING, _BIGINT),
    *(_STRINGS, _LONGS),
)
_NAMES = tuple(field.name for field in fields(DataFile))
_CREATION_TIME = _NAMES.index("creation_time")
_REQUIRED = _CREATION_TIME  # all fields before it have a value
_MILLI_NANOS = 1_000_000
_LISTS = {"extra_files": str, "value_stats_cols": str, "write_cols": str, "write_cols_sequences": int}


def encode_file(file: DataFile, *, field_count: int = len(FILE_TYPES)) -> bytes:
    """Return the facts of a file as a row; older readers take rows with fewer fields."""
    values: list[NestedValue] = list(astuple(file))
    if file.creation_time is not None:
        values[_CREATION_TIME] = file.creation_time * _MILLI_NANOS
    return encode_body(values[:field_count], FILE_TYPES[:field_count])


def decode_file(row: bytes, *, field_count: int = len(FILE_TYPES)) -> DataFile:
    """Read the facts of a file from a row."""
    values = decode_body(row, FILE_TYPES[:field_count])
    if any(value is None for value in values[:_REQUIRED]):
        raise CorruptTableError("a row of file facts lacks a value that every file has")
    facts: dict[str, object] = dict(zip(_NAMES, values, strict=False))
    for name, kind in _LISTS.items():
        facts[name] = _tuple(facts.get(name), kind)
    for name in ("key_stats", "value_stats"):
        facts[name] = _stats(cast("Sequence[NestedValue]", facts[name]))
    created = cast("int | None", facts["creation_time"])
    facts["creation_time"] = None if created is None else created // _MILLI_NANOS
    return DataFile(**facts)  # type: ignore[arg-type]  # the types of the row say what each fact is


def _stats(values: Sequence[NestedValue]) -> SimpleStats:
    low, high, nulls = values
    if low is None or high is None:
        raise CorruptTableError("a row of statistics lacks its bounds")
    return SimpleStats(cast("bytes", low), cast("bytes", high), tuple(cast("Sequence[int | None]", nulls or ())))


def _tuple(value: object, kind: type[T]) -> tuple[T, ...] | None:
    if value is None:
        return None
    items = tuple(cast("Sequence[T]", value))
    if not all(isinstance(item, kind) for item in items):
        raise CorruptTableError("a list in a row of file facts has null elements")
    return items
