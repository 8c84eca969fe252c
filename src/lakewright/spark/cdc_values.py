"""The values of change events: their types, and the SQL that turns their JSON text into columns of a table.

The columns of an event are a map from names to texts: a scalar is its text, an object or array is JSON. What the format
of the event knows about a column is an `EventField`: a type, and an encoding where the text is not the value itself.
Everything here is a function from values to values; the SQL runs in Spark and never fails on a value: a text that a
column cannot hold exactly makes its `misfit_sql` true.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from itertools import count

from lakewright.spark.spark_types import spark_type
from lakewright.spec.schema_merging import is_wider
from lakewright.spec.types import (
    BINARY_ROOTS,
    MICROS_PRECISION,
    MILLIS_PRECISION,
    TEXT_ROOTS,
    UNBOUNDED,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    numbered_fields,
    with_nullable,
)

JSON_MAP, JSON_ARRAY = "map<string,string>", "array<string>"


class Encoding(Enum):
    """How the text of a value is to be read."""

    PLAIN = "plain"
    DAYS = "days"  # since 1970
    MILLIS = "millis"  # since 1970
    MICROS = "micros"
    NANOS = "nanos"
    TIME_MILLIS = "millis of the day"
    TIME_MICROS = "micros of the day"
    TIME_NANOS = "nanos of the day"
    UNSCALED = "unscaled"  # base64 of the bytes of an integer, which with the scale of the type is a decimal
    SCALED = "scaled"  # an object with a scale, and the same bytes
    LATIN1 = "latin1"  # bytes as characters


@dataclass(frozen=True, slots=True)
class EventField:
    """A column of an event, or a part of one: the fields of a ROW, the element of an ARRAY, the value of a MAP."""

    name: str
    type: DataType
    encoding: Encoding = Encoding.PLAIN
    parts: tuple[EventField, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether all texts are the values themselves."""
        return self.encoding is Encoding.PLAIN and all(part.is_plain for part in self.parts)

    def part(self, name: str) -> EventField | None:
        """Return the part of a name; arrays and maps have one part."""
        return next((part for part in self.parts if part.name == name), None)


ELEMENT, VALUE = "element", "value"
_DEPTH_MAX = 16  # of objects and arrays that become types

# ---- Types -----------------------------------------------------------------------------------------------------------

SHAPES = {
    "s": AtomicType("STRING"),
    "b": AtomicType("BOOLEAN"),
    "i": AtomicType("BIGINT"),
    "n": AtomicType("DECIMAL(38, 0)"),
    "d": AtomicType("DOUBLE"),
}


def type_of_shape(shape: str) -> DataType | None:
    """Return the type of a value whose scalars are replaced by the letters of `SHAPES`; None: nothing is known of it.

    >>> str(type_of_shape('{"zip": "s", "at": ["d"], "unknown": "z"}'))
    'ROW<`zip` STRING, `at` ARRAY<DOUBLE>>'
    """
    try:
        return _type_of(json.loads(shape) if shape[:1] in "{[" else shape)
    except (ValueError, RecursionError):
        return None


def _type_of(shape: object, depth: int = 0) -> DataType | None:
    if depth == _DEPTH_MAX and isinstance(shape, Mapping | list):
        return SHAPES["s"]  # as JSON
    if isinstance(shape, Mapping):
        found = [(str(name), _type_of(value, depth + 1)) for name, value in shape.items()]
        fields = [DataField(0, name, dtype) for name, dtype in found if dtype is not None]
        return RowType(True, numbered_fields(fields, count())) if fields else None  # noqa: FBT003 - pypaimon's order
    if isinstance(shape, list):
        elements = [dtype for value in shape if (dtype := _type_of(value, depth + 1)) is not None]
        return ArrayType(True, reduce(widen, elements)) if elements else None  # noqa: FBT003
    return SHAPES.get(str(shape))


def widen(known: DataType, given: DataType) -> DataType:
    """Return a type, with the fields that another one has in addition, and wider where the other is wider.

    >>> from lakewright.spec.types import parse_type
    >>> str(widen(parse_type("INT"), parse_type("BIGINT"))), str(widen(parse_type("INT"), parse_type("STRING")))
    ('BIGINT', 'INT')
    """
    match known, given:
        case RowType(), RowType():
            types = {field.name: field for field in known.fields}
            for field in given.fields:
                old = types.get(field.name)
                dtype = with_nullable(field.type, nullable=True) if old is None else widen(old.type, field.type)
                types[field.name] = DataField(0, field.name, dtype)
            return RowType(known.nullable, numbered_fields(types.values(), count()))
        case ArrayType(), ArrayType():
            return ArrayType(known.nullable, widen(known.element, given.element))
        case MapType(), MapType():
            return MapType(known.nullable, known.key, widen(known.value, given.value))
        case _ if is_wider(given, known):
            return with_nullable(given, known.nullable)
        case _:
            return known


def widened_columns(known: Mapping[str, DataType], seen: Iterable[EventField]) -> dict[str, DataType]:
    """Return the columns that hold what events have, in the order of the events: new ones, and wider types."""
    columns = dict(known)
    for field in seen:
        old = columns.get(field.name)
        columns[field.name] = field.type if old is None else widen(old, field.type)
    return columns


# ---- SQL -------------------------------------------------------------------------------------------------------------

_EPOCH = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
_DAYS = (-719_162, 2_932_896)  # the years 1 to 9999, which all engines hold
_MICROS = (-62_135_596_800_000_000, 253_402_300_799_999_999)
_DAY_MICROS = (0, 86_399_999_999)
_LONG = (-(1 << 63), (1 << 63) - 1)
_UNITS = {  # by what a number is multiplied and divided to become microseconds
    Encoding.MILLIS: (1000, 1),
    Encoding.MICROS: (1, 1),
    Encoding.NANOS: (1, 1000),
    Encoding.TIME_MILLIS: (1000, 1),
    Encoding.TIME_MICROS: (1, 1),
    Encoding.TIME_NANOS: (1, 1000),
}
_OF_DAY = frozenset({Encoding.TIME_MILLIS, Encoding.TIME_MICROS, Encoding.TIME_NANOS})
_TEMPORAL = frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"})
_INSTANTS = _TEMPORAL - {"TIME"}
_TWO_64 = "18446744073709551616"
_DIGITS_MAX = 38
_INTEGER = "'^-?[0-9]+$'"
_DATED = "'^[0-9]{4}-'"
_ZONED = "'(Z|[+-][0-9]{2}:?[0-9]{2})$'"
_HOLDS = (
    frozenset("BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL CHAR VARCHAR BINARY VARBINARY".split())
    | _TEMPORAL
)


def text_sql(text: str) -> str:
    """Return a text as a literal of Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def value_of(row: str, name: str) -> str:
    """Return the SQL of one value of a map of texts, null where the map lacks it."""
    return f"try_element_at({row}, {text_sql(name)})"


def can_hold(dtype: DataType) -> bool:
    """Return whether values of events can become values of a type."""
    match dtype:
        case AtomicType():
            return dtype.root in _HOLDS
        case RowType():
            return all(can_hold(field.type) for field in dtype.fields)
        case ArrayType():
            return can_hold(dtype.element)
        case MapType():
            return isinstance(dtype.key, AtomicType) and dtype.key.root in TEXT_ROOTS and can_hold(dtype.value)
        case _:
            return False


def value_sql(raw: str, dtype: DataType, field: EventField | None = None, depth: int = 0) -> str:
    """Return the SQL of the value that a text has in a column of a type; null where it does not fit."""
    match dtype:
        case AtomicType():
            return _atomic_sql(raw, dtype, field)
        case RowType():
            row = f"from_json({raw}, '{JSON_MAP}')"
            parts = [
                (text_sql(part.name), value_sql(value_of(row, part.name), part.type, _part(field, part.name), depth))
                for part in dtype.fields
            ]
            struct = ", ".join(f"{name}, {value}" for name, value in parts)
            return f"CASE WHEN {row} IS NOT NULL THEN named_struct({struct}) END"
        case ArrayType():
            element = value_sql(f"e{depth}", dtype.element, _part(field, ELEMENT), depth + 1)
            return f"transform(from_json({raw}, '{JSON_ARRAY}'), e{depth} -> {element})"
        case MapType():
            value = value_sql(f"v{depth}", dtype.value, _part(field, VALUE), depth + 1)
            return f"transform_values(from_json({raw}, '{JSON_MAP}'), (k{depth}, v{depth}) -> {value})"
        case _:
            raise AssertionError(dtype)  # `can_hold` says which types have values


def misfit_sql(raw: str, dtype: DataType, field: EventField | None = None, depth: int = 0) -> str:
    """Return the SQL that is true where a text is not null and a column of a type cannot hold it; never null."""
    if not can_hold(dtype):
        return f"({raw} IS NOT NULL)"
    match dtype:
        case RowType():
            row = f"from_json({raw}, '{JSON_MAP}')"
            inside = [f"{row} IS NULL", unknown_sql(row, [part.name for part in dtype.fields])]
            for part in dtype.fields:
                inside.append(misfit_sql(value_of(row, part.name), part.type, _part(field, part.name), depth))
                if not part.type.nullable:
                    inside.append(f"{value_of(row, part.name)} IS NULL")
        case ArrayType():
            texts = f"from_json({raw}, '{JSON_ARRAY}')"
            element = _misfit_or_null(f"e{depth}", dtype.element, _part(field, ELEMENT), depth)
            inside = [f"{texts} IS NULL", f"exists({texts}, e{depth} -> {element})"]
        case MapType():
            texts = f"from_json({raw}, '{JSON_MAP}')"
            value = _misfit_or_null(f"v{depth}", dtype.value, _part(field, VALUE), depth)
            inside = [f"{texts} IS NULL", f"exists(map_values({texts}), v{depth} -> {value})"]
        case AtomicType():
            value = _atomic_sql(raw, dtype, field)
            inside = [f"({value}) IS NULL", *_limits_sql(raw, value, dtype, field)]
    return f"({raw} IS NOT NULL AND coalesce({' OR '.join(inside)}, true))"


def unknown_sql(row: str, known: Sequence[str]) -> str:
    """Return the SQL that is true where a map of texts has a value under another name than those."""
    names = f"NOT k IN ({', '.join(map(text_sql, known))}) AND " if known else ""
    return f"size(map_filter({row}, (k, v) -> {names}v IS NOT NULL)) > 0"


def _part(field: EventField | None, name: str) -> EventField | None:
    return None if field is None else field.part(name)


def _misfit_or_null(raw: str, dtype: DataType, field: EventField | None, depth: int) -> str:
    misfit = misfit_sql(raw, dtype, field, depth + 1)
    return misfit if dtype.nullable else f"({raw} IS NULL OR {misfit})"


def _limits_sql(raw: str, value: str, dtype: AtomicType, field: EventField | None) -> list[str]:
    """Return the SQL of what else keeps a value out of a column: its length, or digits that would be lost."""
    if 0 < dtype.length < UNBOUNDED:
        return [f"{'length' if dtype.root in TEXT_ROOTS else 'octet_length'}({value}) > {dtype.length}"]
    if dtype.root == "DECIMAL":
        # Casts round. With all the digits behind the point that 38 leave room for, a rounded value is another one.
        exact = AtomicType(f"DECIMAL({_DIGITS_MAX}, {_DIGITS_MAX - dtype.precision + dtype.scale})")
        return [f"({value}) <> ({_atomic_sql(raw, exact, field)})"]
    digits = MILLIS_PRECISION if dtype.root == "TIME" else dtype.precision
    if dtype.root in _TEMPORAL - {"DATE"} and digits < MICROS_PRECISION:
        return [f"length(regexp_extract(cast(({value}) AS STRING), '[.]([0-9]+)$', 1)) > {digits}"]
    return []


def _atomic_sql(raw: str, dtype: AtomicType, field: EventField | None) -> str:
    cast, is_text = _sql_type(dtype), dtype.root in TEXT_ROOTS
    encoding = Encoding.PLAIN if field is None else field.encoding
    match encoding:
        case Encoding.UNSCALED | Encoding.SCALED:
            scale = field.type.scale if field is not None and isinstance(field.type, AtomicType) else 0
            text = _integer_text(raw, str(scale)) if encoding is Encoding.UNSCALED else _scaled_text(raw)
            return text if is_text else f"try_cast({text} AS {cast})"
        case Encoding.LATIN1 if dtype.root in BINARY_ROOTS:
            is_latin = f"{raw} RLIKE '^[\\\\x00-\\\\xff]*$'"
            return f"CASE WHEN {is_latin} THEN encode({raw}, 'ISO-8859-1') END"
        case Encoding.DAYS if is_text or dtype.root in _INSTANTS:
            return f"cast({_date_sql(raw)} AS {cast})"
        case _ if encoding in _UNITS and dtype.root in TEXT_ROOTS | _roots_of(encoding):
            return _moment_sql(raw, dtype, encoding)
    match dtype.root:
        case "DATE":  # a number is a count of days, which Spark would take for a year
            return f"CASE WHEN {raw} RLIKE {_INTEGER} THEN {_date_sql(raw)} ELSE try_cast({raw} AS DATE) END"
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            number = _moment_sql(raw, dtype, _unit_of(dtype.precision))
            # The cast would add today's date to a time of the day, and drop the zone where the column has none.
            is_moment = f"{raw} RLIKE {_DATED}"
            if dtype.root == "TIMESTAMP":
                is_moment += f" AND NOT {raw} RLIKE {_ZONED}"
            text = f"CASE WHEN {is_moment} THEN try_cast({raw} AS {cast}) END"
            return f"CASE WHEN {raw} RLIKE {_INTEGER} THEN {number} ELSE {text} END"
        case "BINARY" | "VARBINARY":
            return f"try_to_binary({raw}, 'base64')"
        case _:
            return raw if is_text else f"try_cast({raw} AS {cast})"


def _roots_of(unit: Encoding) -> frozenset[str]:
    return frozenset({"TIME"}) if unit in _OF_DAY else _INSTANTS


def _unit_of(precision: int) -> Encoding:
    """Return the unit of numbers in a column of timestamps, as Debezium chooses it by the precision."""
    if precision <= MILLIS_PRECISION:
        return Encoding.MILLIS
    return Encoding.MICROS if precision <= MICROS_PRECISION else Encoding.NANOS


def _date_sql(raw: str) -> str:
    days = f"try_cast({raw} AS INT)"
    return f"CASE WHEN {days} BETWEEN {_DAYS[0]} AND {_DAYS[1]} THEN date_from_unix_date({days}) END"


def _moment_sql(raw: str, dtype: AtomicType, unit: Encoding) -> str:
    """Return the SQL of a moment, or of a time of the day, that is a number; null where it is out of range."""
    number = f"try_cast({raw} AS BIGINT)"
    (times, by), of_day = _UNITS[unit], unit in _OF_DAY
    low, high = (limit * by // times for limit in (_DAY_MICROS if of_day else _MICROS))
    micros = f"{number} * {times} div {by}"
    # Sums with an interval depend on no time zone.
    seconds = f"cast(cast({micros} AS DECIMAL(20, 0)) / 1000000 AS DECIMAL(18, 6))"
    moment = f"({_EPOCH} + make_dt_interval(0, 0, 0, {seconds}))"
    if of_day:
        moment = f"substr(cast({moment} AS STRING), 12)"
    if dtype.root == "TIMESTAMP_LTZ" and not of_day:
        moment = f"timestamp_micros({micros})"
    elif dtype.root not in TEXT_ROOTS | {"TIMESTAMP"} or of_day:
        moment = f"try_cast({moment} AS {_sql_type(dtype)})"
    elif dtype.root in TEXT_ROOTS:
        moment = f"cast({moment} AS STRING)"
    return f"CASE WHEN {number} BETWEEN {max(low, _LONG[0] + 1)} AND {min(high, _LONG[1])} THEN {moment} END"


def _integer_text(raw: str, scale: str) -> str:
    """Return the SQL of the digits of a decimal: base64 of the bytes of an integer, of which some are the fraction."""
    digits = f"hex(try_to_binary({raw}, 'base64'))"
    negative = f"left({digits}, 1) >= '8'"
    padded = f"lpad({digits}, 32, CASE WHEN {negative} THEN 'F' ELSE '0' END)"
    high, low = (f"cast(conv(substr({padded}, {at}, 16), 16, 10) AS DECIMAL(20, 0))" for at in (1, 17))
    high = f"({high} - CASE WHEN {negative} THEN {_TWO_64} ELSE 0 END)"
    integer = f"cast(try_add(try_multiply({high}, {_TWO_64}), {low}) AS STRING)"
    fits = f"length({digits}) BETWEEN 2 AND 32"
    return f"CASE WHEN {fits} THEN {_with_point(integer, scale)} END"


def _scaled_text(raw: str) -> str:
    row = f"from_json({raw}, '{JSON_MAP}')"
    scale = f"try_cast({value_of(row, 'scale')} AS INT)"
    return f"CASE WHEN {scale} BETWEEN -38 AND 38 THEN {_integer_text(value_of(row, 'value'), scale)} END"


def _with_point(integer: str, scale: str) -> str:
    """Return the SQL of an integer's digits with a point in front of the last of them."""
    sign, digits = f"CASE WHEN left({integer}, 1) = '-' THEN '-' ELSE '' END", f"replace({integer}, '-', '')"
    padded = f"lpad({digits}, greatest(length({digits}), {scale} + 1), '0')"
    whole = f"left({padded}, length({padded}) - {scale})"
    point = f"concat({sign}, {whole}, '.', right({padded}, {scale}))"
    return f"CASE WHEN {scale} > 0 THEN {point} ELSE concat({integer}, repeat('0', -({scale}))) END"


def _sql_type(dtype: AtomicType) -> str:
    return spark_type(dtype).simpleString()
