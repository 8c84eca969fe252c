"""Sizes and durations as pypaimon spells them: text in, a `MemorySize` or milliseconds out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakewright.errors import InvalidInputError
from lakewright.spec import units
from lakewright.spec.units import GIB, KIB, MAX_LONG, MIB, TIB, parse_memory

_UNITS = ((TIB, "tb"), (GIB, "gb"), (MIB, "mb"), (KIB, "kb"), (1, "bytes"))


@dataclass(frozen=True, order=True, repr=False)
class MemorySize:
    """A number of bytes.

    >>> MemorySize.parse("8 mb"), str(MemorySize(1024))
    (MemorySize(8388608), '1 kb')
    """

    ZERO: ClassVar[MemorySize]
    MAX_VALUE: ClassVar[MemorySize]
    bytes: int

    def __post_init__(self) -> None:
        if self.bytes < 0:
            raise InvalidInputError(f"bytes must be >= 0, not {self.bytes}")

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """Return so many MiB."""
        return MemorySize(mebi_bytes * MIB)

    @staticmethod
    def of_kibi_bytes(kibi_bytes: int) -> MemorySize:
        """Return so many KiB."""
        return MemorySize(kibi_bytes * KIB)

    @staticmethod
    def of_bytes(bytes: int) -> MemorySize:  # noqa: A002 - pypaimon's name
        """Return so many bytes."""
        return MemorySize(bytes)

    @staticmethod
    def parse(text: str) -> MemorySize:
        """Read text such as `8 mb`."""
        return MemorySize(MemorySize.parse_bytes(text))

    @staticmethod
    def parse_bytes(text: str) -> int:
        """Read text such as `8 mb` as a number of bytes."""
        try:
            return parse_memory(text)
        except (AttributeError, TypeError) as error:
            raise InvalidInputError(f"a size is a text such as '8 mb', not {text!r}") from error

    def get_bytes(self) -> int:
        """Return the number of bytes."""
        return self.bytes

    def get_kibi_bytes(self) -> int:
        """Return the whole KiB."""
        return self.bytes // KIB

    def get_mebi_bytes(self) -> int:
        """Return the whole MiB."""
        return self.bytes // MIB

    def get_gibi_bytes(self) -> int:
        """Return the whole GiB."""
        return self.bytes // GIB

    def get_tebi_bytes(self) -> int:
        """Return the whole TiB."""
        return self.bytes // TIB

    def format_to_string(self) -> str:
        """Return it in the largest unit of which it is a whole number."""
        unit, name = next(one for one in _UNITS if (self.bytes and self.bytes % one[0] == 0) or one[0] == 1)
        return f"{self.bytes // unit} {name}"

    def __str__(self) -> str:
        return self.format_to_string()

    def __repr__(self) -> str:
        return f"MemorySize({self.bytes})"


MemorySize.ZERO = MemorySize(0)
MemorySize.MAX_VALUE = MemorySize(MAX_LONG)


def parse_duration(text: str) -> int:
    """Read text such as `10 min` as milliseconds."""
    return parse_duration_nanos(text) // 10**6


def parse_duration_nanos(text: str) -> int:
    """Read text such as `10 min` as nanoseconds; a bare number is milliseconds."""
    try:
        return units.parse_duration_nanos(text)
    except (AttributeError, TypeError) as error:
        raise InvalidInputError(f"a duration is a text such as '10 min', not {text!r}") from error
