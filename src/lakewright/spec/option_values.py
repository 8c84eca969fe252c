"""Kinds of option values: sizes, durations, limits and enums, parsed from text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, Self, TypeVar, overload

from lakewright.errors import InvalidInputError

# ---- Kinds of values -------------------------------------------------------------------------------------------------
# Every option is text on disk. A `ConfigOption` holds its key, the keys it had in older releases, a function that
# reads the text, and a default; `spec.table_options.TableOptions` holds those of one table.

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
E = TypeVar("E", bound=StrEnum)


class ChangelogProducer(StrEnum):
    """What produces the changelog of a primary-key table."""

    NONE = "none"
    INPUT = "input"
    FULL_COMPACTION = "full-compaction"
    LOOKUP = "lookup"


class WriteDistribution(StrEnum):
    """How an engine with many tasks brings rows together before they are written."""

    AUTO = "auto"
    NONE = "none"
    PARTITION = "partition"


class NativeScan(StrEnum):
    """Which raw files an engine may read with a reader of its own."""

    LOCAL = "local"  # those on a disk that all its workers see
    ALWAYS = "always"  # those of object stores too, which the engine opens with its own client and keys
    NEVER = "never"


class ExternalPathStrategy(StrEnum):
    """Which of the external paths a new data file goes to."""

    NONE = "none"  # it stays inside the table
    SPECIFIC_FS = "specific-fs"
    ROUND_ROBIN = "round-robin"
    ENTROPY_INJECT = "entropy-inject"
    WEIGHT_ROBIN = "weight-robin"


class SortOrder(StrEnum):
    """Which end of the sequence fields is the newest."""

    ASCENDING = "ascending"
    DESCENDING = "descending"


@dataclass(frozen=True, slots=True)
class OptionKind(Generic[T_co]):
    """A kind of option value: its type, what values are allowed, for errors, and a function that reads its text."""

    type_name: str  # bool, int, float, str, enum, size, time or map
    allowed: str
    read: Callable[[str], T_co]


class Mutability(StrEnum):
    """When the option of an existing table can get another value."""

    ALWAYS = "always"
    BEFORE_DATA = "before data"  # not once there is a snapshot: files were written with the old value
    TURN_ON = "turn on"  # once there is a snapshot, it can be turned on but not off
    NEVER = "never"


class HasOptionTexts(Protocol):
    """What holds the options of one table."""

    @property
    def values(self) -> Mapping[str, str]:
        """The text of each option that is set."""


@dataclass(frozen=True, slots=True, eq=False)
class ConfigOption(Generic[T]):
    """One option: its key, the kind of its value and its default.

    >>> from lakewright.spec.table_options import TableOptions
    >>> TableOptions.write_buffer_size.key(), TableOptions.write_buffer_size.parse("8 mb")
    ('write-buffer-size', 8388608)
    """

    name: str
    kind: OptionKind[T]
    default: T
    old_names: tuple[str, ...] = ()
    mutability: Mutability = Mutability.ALWAYS

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: HasOptionTexts, owner: type) -> T: ...
    def __get__(self, instance: HasOptionTexts | None, owner: type) -> Self | T:
        """Return the option itself for a class, or its value in the options of one table.

        The options of a table hold parsed values as attributes, which Python finds first: this is only called for a
        value that could not be parsed, and raises the error that says so.
        """
        return self if instance is None else read_option(instance.values, self)

    def key(self) -> str:
        """Return the key of the option."""
        return self.name

    def default_value(self) -> T:
        """Return the value that holds when the option is not set."""
        return self.default

    def parse(self, text: str) -> T:
        """Read a value of this option."""
        if not isinstance(text, str):
            raise InvalidInputError(f"the value of the option {self.name!r} is a text, not {type(text).__name__}")
        try:
            return self.kind.read(text)
        except ValueError:
            raise InvalidInputError(
                f"the option {self.name!r} cannot be {text!r}: it takes {self.kind.allowed}",
                option=self.name,
                value=text,
            ) from None


def read_option(values: Mapping[str, str], option: ConfigOption[T], default: T | None = None) -> T:
    """Return the value of an option in a map of texts; if it is not set, the given default, else the option's own."""
    for key in (option.name, *option.old_names):
        if (text := values.get(key)) is not None:
            return option.parse(text)
    return option.default if default is None else default


# ---- Sizes, durations and limits -------------------------------------------------------------------------------------

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1
KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40

_MEMORY_UNITS = {
    **dict.fromkeys(("", "b", "byte", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kib", "kibibyte", "kibibytes"), KIB),
    **dict.fromkeys(("m", "mb", "mib", "mebibyte", "mebibytes"), MIB),
    **dict.fromkeys(("g", "gb", "gib", "gibibyte", "gibibytes"), GIB),
    **dict.fromkeys(("t", "tb", "tib", "tebibyte", "tebibytes"), TIB),
}
_NANOS = {  # of one unit of time
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1),
    **dict.fromkeys(("us", "µs", "micro", "micros", "microsecond", "microseconds"), 10**3),
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 10**6),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 10**9),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60 * 10**9),
    **dict.fromkeys(("h", "hour", "hours"), 3600 * 10**9),
    **dict.fromkeys(("d", "day", "days"), 86400 * 10**9),
}
_NUMBER_AND_UNIT = re.compile(r"\s*([0-9]+)\s*([a-zµ]*)\s*", re.IGNORECASE)
_ISO_DURATION = re.compile(
    r"\s*P(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)(?:\.([0-9]{1,9}))?S)?)?\s*", re.IGNORECASE
)


def parse_memory(text: str) -> int:
    """Return the number of bytes that a text such as `8 mb`, `64kb` or `1024` means.

    >>> parse_memory("8 mb"), parse_memory("1024"), parse_memory("2 kibibytes")
    (8388608, 1024, 2048)
    """
    match = _NUMBER_AND_UNIT.fullmatch(text)
    unit = None if match is None else _MEMORY_UNITS.get(match[2].lower())
    if match is None or unit is None or int(match[1]) * unit > MAX_LONG:
        raise InvalidInputError(f"{text!r} is not a size: write a whole number and b, kb, mb, gb or tb", value=text)
    return int(match[1]) * unit


def parse_duration_millis(text: str) -> int:
    """Return the milliseconds that a text such as `1 h`, `500 ms` or `PT1H30M` means; a bare number is milliseconds.

    >>> parse_duration_millis("1 h"), parse_duration_millis("250"), parse_duration_millis("PT1M")
    (3600000, 250, 60000)
    """
    return parse_duration_nanos(text) // 10**6


def parse_duration_nanos(text: str) -> int:
    """Return the nanoseconds that a text such as `1 h`, `500 ns` or `PT1H30M` means; a bare number is milliseconds.

    >>> parse_duration_nanos("7 ns"), parse_duration_nanos("250")
    (7, 250000000)
    """
    iso = _ISO_DURATION.fullmatch(text)
    if iso is not None and any(iso.groups()):
        days, hours, minutes, seconds = (int(part or 0) for part in iso.groups()[:4])
        return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 10**9 + int((iso[5] or "").ljust(9, "0"))
    match = _NUMBER_AND_UNIT.fullmatch(text)
    unit = None if match is None else _NANOS.get(match[2].lower())
    if match is None or unit is None or int(match[1]) * unit // 10**6 > MAX_LONG:
        raise InvalidInputError(
            f"{text!r} is not a duration: write a whole number and ms, s, min, h or d, or ISO text such as PT1H",
            value=text,
        )
    return int(match[1]) * unit


def option_text(key: str, value: object) -> str:
    """Return an option value as the schema file spells it: text; numbers and booleans of Python are converted.

    >>> option_text("bucket", 4), option_text("write-only", True)
    ('4', 'true')
    """
    match value:
        case bool():
            return "true" if value else "false"
        case StrEnum():
            return value.value
        case str():
            return value
        case int() | float() if abs(value) < 10**100:
            return str(value)
        case _:
            raise InvalidInputError(
                f"the option {key!r} needs a text, a number or a boolean as value, not a {type(value).__name__}",
                option=key,
                value=value,
            )
