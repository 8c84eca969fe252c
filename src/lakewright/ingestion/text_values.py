"""Texts to values of a type; the type of a column of texts.

A text becomes a value exactly, or it is refused with a reason; it never becomes null. Only for types other than text,
space around the value is ignored and an empty text is null.

A type is guessed only where writing the value gives the text back, for every value of a column:

    BIGINT          whole numbers without a plus sign or zeros in front
    DOUBLE          numbers with at most 15 digits, without an exponent, without zeros in front or at the end
    DECIMAL(p, s)   numbers with the same number of digits behind the point everywhere, such as 9.50 and 3.00
    BOOLEAN         true and false
    DATE            2026-01-31
    TIMESTAMP(6)    2026-01-31 12:00:00.5, all with a space or all with a T, and the same number of digits of a second
    TIMESTAMP_LTZ   the same with a Z behind it
    STRING          everything else: 00123, +49, 1e5, 12345678901234567890, 2026-01-31 12:00:00+01:00
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import InvalidInputError
from lakewright.spec.arrow_types import to_arrow_type
from lakewright.spec.types import (
    BYTES_ROOTS,
    INTEGER_BITS,
    TEXT_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    VectorType,
    time_unit,
)
from lakewright.write.array_conversion import TypeMismatch, ValueMismatch

STRING = AtomicType("STRING")

_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?"
_DAY = r"\d{4}-\d{1,2}-\d{1,2}"
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?"
_ZONE = r" ?(?:Z|UTC|[+-]\d{2}(?::?\d{2})?)"
_TYPE_PATTERNS = {
    "BOOLEAN": r"(?i)(?:t|true|y|yes|1|f|false|n|no|0)",
    "DECIMAL": _NUMBER,
    "FLOAT": rf"(?i)(?:{_NUMBER}|[+-]?inf(?:inity)?|nan)",
    "DOUBLE": rf"(?i)(?:{_NUMBER}|[+-]?inf(?:inity)?|nan)",
    "DATE": rf"{_DAY}(?:[T ]0{{1,2}}:00(?::00(?:\.0+)?)?Z?)?",  # a time of day would be lost
    "TIME": _CLOCK,
    "TIMESTAMP": rf"{_DAY}(?:[T ]{_CLOCK})?",  # a zone would be lost
    "TIMESTAMP_LTZ": rf"{_DAY}(?:[T ]{_CLOCK}(?:{_ZONE})?)?",
    **dict.fromkeys(INTEGER_BITS, r"[+-]?\d+"),
}
_EXPECTED = {
    "BOOLEAN": "true or false",
    "DATE": "a date such as 2026-01-31",
    "TIME": "a time such as 12:30:00",
    "TIMESTAMP": "a time such as 2026-01-31 12:30:00, without a zone",
    "TIMESTAMP_LTZ": "a time such as 2026-01-31T12:30:00Z",
    **dict.fromkeys(INTEGER_BITS, "a whole number"),
}
_TRUE = ["t", "true", "y", "yes", "1"]
_FRACTION = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_EXACT_DIGITS = {"FLOAT": 7, "DOUBLE": 15}  # every whole number of so many digits is a number of this type


@dataclass(frozen=True, slots=True)
class ParseSettings:
    """How texts are parsed: the caller's patterns, and the zone of times that name none."""

    zone: str = "UTC"
    date: str | None = None  # as strptime takes it
    timestamp: str | None = None
    binary: bool = True  # a text may fill a binary column, with its bytes

    @classmethod
    def of_options(cls, options: Mapping[str, str], *, zone: str = "UTC", binary: bool = True) -> ParseSettings:
        """Read the patterns from the options of a reader, under the names that Spark's has for them."""
        stamp = options.get("timestampNTZFormat", options.get("timestampFormat"))
        return cls(zone, _strptime(options.get("dateFormat")), _strptime(stamp), binary)


_PATTERN_PARTS = {
    "yyyy": "%Y", "yy": "%y", "MMMM": "%B", "MMM": "%b", "MM": "%m", "M": "%m", "dd": "%d", "d": "%d",
    "HH": "%H", "H": "%H", "hh": "%I", "mm": "%M", "ss": "%S", "a": "%p",
}  # fmt: skip


def _strptime(pattern: str | None) -> str | None:
    """Return a pattern of letters such as `dd.MM.yyyy` as `strptime` takes it.

    >>> _strptime("dd.MM.yyyy'T'HH:mm")
    '%d.%m.%YT%H:%M'
    """
    if pattern is None:
        return None
    out = []
    for part in re.finditer(r"'(?P<quoted>[^']*)'|(?P<letters>([A-Za-z])\3*)|(?P<rest>[^A-Za-z']+)", pattern):
        letters = part["letters"]
        if letters is not None and letters not in _PATTERN_PARTS:
            raise InvalidInputError(
                f"the pattern {pattern!r} has {letters!r}; use {', '.join(_PATTERN_PARTS)}", pattern=pattern
            )
        out.append(_PATTERN_PARTS[letters] if letters is not None else (part["quoted"] or part["rest"] or ""))
    return "".join(out)


# ---- values ----------------------------------------------------------------------------------------------------------


def as_text(dtype: DataType) -> DataType:
    """Return the type of texts that become values of a type: text in place of every value.

    >>> str(as_text(ArrayType(True, AtomicType("INT"))))
    'ARRAY<STRING>'
    """
    match dtype:
        case ArrayType() | VectorType():
            return ArrayType(dtype.nullable, as_text(dtype.element))
        case MapType():
            return MapType(dtype.nullable, replace(STRING, nullable=False), as_text(dtype.value))
        case RowType():
            return RowType(dtype.nullable, [DataField(f.id, f.name, as_text(f.type)) for f in dtype.fields])
        case _:
            return STRING


def parse(array: pa.Array, dtype: DataType, settings: ParseSettings) -> pa.Array:
    """Return texts as values of a type.

    `ValueMismatch` is raised if one of them is not such a value, `TypeMismatch` if none can ever be.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    match dtype:
        case AtomicType():
            return _atomic(array, dtype, settings)
        case ArrayType() | VectorType() if pa.types.is_list(array.type):
            inside = parse(array.flatten(), dtype.element, settings)
            return pa.ListArray.from_arrays(_packed_offsets(array), inside, mask=array.is_null())
        case MapType() if pa.types.is_map(array.type):
            offsets = _packed_offsets(array)
            keys, items = _map_parts(array)
            keys, items = parse(keys, dtype.key, settings), parse(items, dtype.value, settings)
            maps = pa.MapArray.from_arrays(offsets, keys, items)
            return pc.if_else(array.is_valid(), maps, pa.scalar(None, maps.type)) if array.null_count else maps
        case RowType() if pa.types.is_struct(array.type):
            return _row(array, dtype, settings)
        case _:
            raise TypeMismatch(f"no text is a value of {dtype}; bring it in a json, parquet or orc file")


def _packed_offsets(array: pa.Array) -> pa.Array:
    """Return where the values of each list begin among those that `flatten` gives."""
    lengths = pc.fill_null(pc.list_value_length(array.cast(_as_list(array.type))), 0)
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])


def _as_list(arrow: pa.DataType) -> pa.DataType:
    return pa.list_(pa.struct([arrow.key_field, arrow.item_field])) if pa.types.is_map(arrow) else arrow


def _map_parts(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    pairs = array.cast(_as_list(array.type)).flatten()
    return pairs.field(0), pairs.field(1)


def _row(array: pa.Array, dtype: RowType, settings: ParseSettings) -> pa.Array:
    positions = {array.type.field(i).name: i for i in range(array.type.num_fields)}
    valid = array.is_valid()
    columns = []
    for field in dtype.fields:
        if field.name not in positions:
            columns.append(pa.nulls(len(array), to_arrow_type(field.type)))
            continue
        inside = array.field(positions[field.name])
        columns.append(parse(pc.if_else(valid, inside, pa.scalar(None, inside.type)), field.type, settings))
    fields = [pa.field(f.name, c.type) for f, c in zip(dtype.fields, columns, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=array.is_null())


def has_wrong_shape(array: pa.Array, dtype: DataType, settings: ParseSettings) -> pa.Array:
    """Return a flag for each text: True if its characters alone show that it is no value of the type."""
    root = dtype.root if isinstance(dtype, AtomicType) else ""
    if not pa.types.is_string(array.type) or root not in _TYPE_PATTERNS or _pattern(root, settings) is not None:
        return pa.repeat(pa.scalar(False), len(array))  # noqa: FBT003 - Arrow's own argument
    return pc.fill_null(pc.invert(_matches(_trim_texts(array), _TYPE_PATTERNS[root])), False)  # noqa: FBT003 - as above


def _atomic(array: pa.Array, dtype: AtomicType, settings: ParseSettings) -> pa.Array:
    root = dtype.root
    if not pa.types.is_string(array.type):
        raise TypeMismatch(f"the source holds {array.type} there")
    if root in TEXT_ROOTS:
        return array
    if root in BYTES_ROOTS and settings.binary:
        return array.cast(pa.binary())
    if root not in _TYPE_PATTERNS:
        raise TypeMismatch(f"no text is a value of {dtype}; bring it in a parquet or orc file")
    texts = _trim_texts(array)
    pattern = _pattern(root, settings)
    if pattern is None and not _all(_matches(texts, _TYPE_PATTERNS[root])):
        raise ValueMismatch(f"it is not {_EXPECTED.get(root, 'a number')}")
    try:
        return _by_pattern(texts, dtype, pattern, settings) if pattern else _value(texts, dtype, settings)
    except pa.ArrowInvalid as error:
        raise ValueMismatch(_reason(str(error), root)) from None


def _reason(message: str, root: str) -> str:
    if "data loss" in message or "would cause" in message or "precision" in message:
        return "digits would be lost"
    if root in INTEGER_BITS:
        return "it is out of range"
    return f"it is not {_EXPECTED.get(root, 'a number of this type')}, or out of range"


def _trim_texts(array: pa.Array) -> pa.Array:
    """Return texts without the space around them; a text of nothing but space is null."""
    texts = pc.utf8_trim_whitespace(array)
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


def _matches(texts: pa.Array, pattern: str) -> pa.Array:
    flags, body = ("(?i)", pattern.removeprefix("(?i)")) if pattern.startswith("(?i)") else ("", pattern)
    return pc.match_substring_regex(texts, f"{flags}^(?:{body})$")


def _all(flags: pa.Array) -> bool:
    return pc.all(flags).as_py() is not False


def _pattern(root: str, settings: ParseSettings) -> str | None:
    return {"DATE": settings.date, "TIMESTAMP": settings.timestamp, "TIMESTAMP_LTZ": settings.timestamp}.get(root)


def _by_pattern(texts: pa.Array, dtype: AtomicType, pattern: str, settings: ParseSettings) -> pa.Array:
    moments = pc.strptime(texts, format=pattern, unit="us")
    if dtype.root == "DATE":
        return moments.cast(pa.timestamp("s")).cast(pa.date32())
    plain = moments.cast(pa.timestamp(time_unit(dtype.precision)))
    return plain if dtype.root == "TIMESTAMP" else _localize_times(plain, settings.zone, dtype)


def _value(texts: pa.Array, dtype: AtomicType, settings: ParseSettings) -> pa.Array:
    match dtype.root:
        case "BOOLEAN":
            is_true = pc.is_in(pc.utf8_lower(texts), pa.array(_TRUE))
            return pc.if_else(texts.is_valid(), is_true, pa.scalar(None, pa.bool_()))
        case "DECIMAL":
            return _plain_number(texts).cast(to_arrow_type(dtype))
        case "FLOAT" | "DOUBLE":
            return _float(texts, dtype)
        case "DATE":
            return _pad_dates(pc.replace_substring_regex(texts, r"[T ].*$", "")).cast(pa.date32())
        case "TIME":
            clock = pc.replace_substring_regex(texts, r"^(\d):", r"0\1:")
            moments = pc.binary_join_element_wise("1970-01-01", _without_zeros(clock, 3), " ").cast(pa.timestamp("ms"))
            return moments.cast(pa.time32("ms"))
        case "TIMESTAMP":
            return _without_zeros(_pad_dates(texts), _digits(dtype)).cast(pa.timestamp(time_unit(dtype.precision)))
        case "TIMESTAMP_LTZ":
            return _with_zone(texts, dtype, settings.zone)
        case _:
            return _plain_number(texts).cast(pa.int64()).cast(to_arrow_type(dtype))


def _plain_number(texts: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(texts, r"^\+", "")


def _float(texts: pa.Array, dtype: AtomicType) -> pa.Array:
    """Return the nearest numbers; raise Misfit if digits of a whole number, or a finite number, would be lost."""
    plain = pc.replace_substring_regex(pc.utf8_lower(_plain_number(texts)), "infinity", "inf")
    values = plain.cast(pa.float64()).cast(to_arrow_type(dtype))
    if not _all(pc.or_(pc.is_finite(values), pc.match_substring_regex(plain, "inf|nan"))):
        raise ValueMismatch("it is out of range")
    long = pc.fill_null(_matches(plain, rf"-?\d{{{_EXACT_DIGITS[dtype.root] + 1},}}"), False)  # noqa: FBT003 - Arrow's
    pairs = zip(plain.filter(long).to_pylist(), values.filter(long).to_pylist(), strict=True)
    if any(int(text) != int(value) for text, value in pairs):
        raise ValueMismatch("digits would be lost")
    return values


def _pad_dates(texts: pa.Array) -> pa.Array:
    """Return 2026-1-5 7:00 as 2026-01-05 07:00."""
    days = pc.replace_substring_regex(texts, r"^(\d{4})-(\d)-", r"\1-0\2-")
    days = pc.replace_substring_regex(days, r"^(\d{4}-\d{2})-(\d)([T ]|$)", r"\1-0\2\3")
    return pc.replace_substring_regex(days, r"([T ])(\d):", r"\10\2:")


def _digits(dtype: AtomicType) -> int:
    return _FRACTION[time_unit(dtype.precision)]


def _without_zeros(texts: pa.Array, digits: int) -> pa.Array:
    """Remove zeros behind the digits of a second that the type has; the cast refuses other digits there."""
    cut = pc.replace_substring_regex(texts, rf"(\.\d{{{digits}}})0+($|[^0-9])", r"\1\2")
    return pc.replace_substring_regex(cut, r"\.($|[^0-9])", r"\1")


def _with_zone(texts: pa.Array, dtype: AtomicType, zone: str) -> pa.Array:
    unit = time_unit(dtype.precision)
    neat = _without_zeros(_pad_dates(pc.replace_substring_regex(texts, r" ?(?:UTC|Z)$", "Z")), _digits(dtype))
    neat = pc.replace_substring_regex(neat, r" ([+-]\d{2})", r"\1")
    named = pc.match_substring_regex(neat, r"[T ].*(?:Z|[+-]\d{2}(?::?\d{2})?)$")
    nothing = pa.scalar(None, pa.string())
    with_zone = pc.if_else(named, neat, nothing).cast(pa.timestamp(unit, "UTC"))
    without = pc.if_else(named, nothing, neat).cast(pa.timestamp(unit))
    return pc.coalesce(with_zone, _localize_times(without, zone, dtype))


def _localize_times(moments: pa.Array, zone: str, dtype: AtomicType) -> pa.Array:
    """Return times of a zone as instants; a time that occurs twice, when clocks go back, means the first."""
    zoned = pc.assume_timezone(moments, zone, ambiguous="earliest", nonexistent="latest")
    return zoned.cast(pa.timestamp(time_unit(dtype.precision), "UTC"))


# ---- types -----------------------------------------------------------------------------------------------------------

_WHOLE = r"-?[1-9]\d*|0"
_SHORT = r"-?(?:[1-9]\d*|0)(?:\.\d*[1-9])?"
_POINT = r"-?(?:[1-9]\d*|0)\.\d+"
_STAMP = r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?"
_DECIMAL_DIGITS_MAX = 38


@dataclass(frozen=True, slots=True)
class Guess:
    """Which types the texts seen so far may have. The sum of guesses for parts of a column is that of the column."""

    seen: bool = False  # at least one value was seen
    kinds: frozenset[str] = frozenset({"BOOLEAN", "BIGINT", "DOUBLE", "DECIMAL", "DATE", "TIMESTAMP", "TIMESTAMP_LTZ"})
    shapes: frozenset[str] = frozenset()  # of times, every digit as 0: separators and digits of a second
    digits: tuple[int, int] = (0, 0)  # the most digits before the point, and the most behind it
    least: int = _DECIMAL_DIGITS_MAX  # the fewest digits behind the point

    def __add__(self, other: Guess) -> Guess:
        if not (self.seen and other.seen):
            return self if self.seen else other
        digits = (max(self.digits[0], other.digits[0]), max(self.digits[1], other.digits[1]))
        least = min(self.least, other.least)
        return Guess(True, self.kinds & other.kinds, self.shapes | other.shapes, digits, least)  # noqa: FBT003

    def to_text(self) -> str:
        """Return the guess as text, which a worker sends to the driver."""
        return json.dumps([self.seen, sorted(self.kinds), sorted(self.shapes), self.digits, self.least])

    @classmethod
    def of_text(cls, text: str) -> Guess:
        """Read what `to_text` wrote."""
        seen, kinds, shapes, digits, least = json.loads(text)
        return cls(seen, frozenset(kinds), frozenset(shapes), (digits[0], digits[1]), least)

    @property
    def type(self) -> AtomicType:
        """The narrowest type whose values, written as text, are the texts again."""
        kinds = self.kinds if self.seen else frozenset()
        stamp = next((kind for kind in ("TIMESTAMP", "TIMESTAMP_LTZ") if kind in kinds), None)
        if "DECIMAL" in kinds - {"DOUBLE"} and self.least == self.digits[1] and sum(self.digits) <= _DECIMAL_DIGITS_MAX:
            return AtomicType(f"DECIMAL({18 if sum(self.digits) <= 18 else _DECIMAL_DIGITS_MAX}, {self.least})")  # noqa: PLR2004
        if stamp is not None and len(self.shapes) == 1:
            return AtomicType("TIMESTAMP(6)" if stamp == "TIMESTAMP" else "TIMESTAMP(6) WITH LOCAL TIME ZONE")
        return AtomicType(next((kind for kind in ("BOOLEAN", "BIGINT", "DOUBLE", "DATE") if kind in kinds), "STRING"))


def guess(texts: pa.Array) -> Guess:
    """Return which types some texts may have; nulls and empty texts are ignored.

    >>> [str(guess(pa.array(texts)).type) for texts in (["1", "-20"], ["007"], ["9.50", "3.00"], ["1.5", "2"], ["1e5"])]
    ['BIGINT', 'STRING', 'DECIMAL(18, 2)', 'DOUBLE', 'STRING']
    """
    texts = texts.filter(pc.not_equal(texts, ""))
    if not len(texts):
        return Guess()
    kinds = {kind for kind, holds in _IS_TYPE.items() if holds(texts)}
    shapes = frozenset[str]()
    if kinds & {"TIMESTAMP", "TIMESTAMP_LTZ"}:
        shapes = frozenset(pc.unique(pc.replace_substring_regex(texts, r"\d", "0")).to_pylist())
    digits, least = (0, 0), 0
    if "DECIMAL" in kinds:
        parts = pc.split_pattern(pc.utf8_ltrim(texts, characters="-"), ".")
        behind = pc.min_max(pc.utf8_length(pc.list_element(parts, 1)))
        digits = (pc.max(pc.utf8_length(pc.list_element(parts, 0))).as_py(), behind["max"].as_py())
        least = behind["min"].as_py()
    return Guess(True, frozenset(kinds), shapes, digits, least)  # noqa: FBT003 - a value was seen


def _can_cast(texts: pa.Array, arrow: pa.DataType) -> bool:
    try:
        texts.cast(arrow)
    except pa.ArrowInvalid:
        return False
    return True


def _has_few_digits(texts: pa.Array) -> bool:
    digits = pc.utf8_length(pc.replace_substring_regex(texts, r"[^0-9]", ""))
    return bool(pc.max(digits).as_py() <= _EXACT_DIGITS["DOUBLE"])


_IS_TYPE: dict[str, Callable[[pa.Array], bool]] = {
    "BOOLEAN": lambda texts: _all(_matches(texts, "true|false")),
    "BIGINT": lambda texts: _all(_matches(texts, _WHOLE)) and _can_cast(texts, pa.int64()),
    "DOUBLE": lambda texts: _all(_matches(texts, _SHORT)) and _has_few_digits(texts),
    "DECIMAL": lambda texts: _all(_matches(texts, _POINT)),
    "DATE": lambda texts: _all(_matches(texts, r"\d{4}-\d{2}-\d{2}")) and _can_cast(texts, pa.date32()),
    "TIMESTAMP": lambda texts: _all(_matches(texts, _STAMP)) and _can_cast(texts, pa.timestamp("us")),
    "TIMESTAMP_LTZ": lambda texts: _all(_matches(texts, f"{_STAMP}Z")) and _can_cast(texts, pa.timestamp("us", "UTC")),
}


def common_type(types: Iterable[AtomicType]) -> AtomicType:
    """Return a type for a column whose parts were guessed one by one."""
    return reduce(_common, types)


def _common(one: AtomicType, other: AtomicType) -> AtomicType:
    if one == other:
        return one
    if {one.root, other.root} == {"BIGINT", "DOUBLE"}:
        return one if one.root == "DOUBLE" else other
    return STRING
