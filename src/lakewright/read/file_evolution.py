"""From the schema that a file was written with to today's; casts of old values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.formats.arrow_conform import rebuild_list, rebuild_struct
from lakewright.spec.arrow_types import to_arrow_schema, to_arrow_type
from lakewright.spec.scalars import cast_text as parse_text
from lakewright.spec.scalars import from_scalar, to_text
from lakewright.spec.types import (
    TEXT_ROOTS,
    UNBOUNDED,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    Value,
    VectorType,
)

# ---- Casts -----------------------------------------------------------------------------------------------------------
# Integers wrap when narrowed; floats are cut and held at the limits of the integer type; decimals are rounded half up
# and become null where they do not fit; text is Java's canonical text; times lose digits they have no room for. Text
# that names no value of the new type is an error. Rare pairs are cast one distinct value at a time.

_Cast: TypeAlias = Callable[[pa.Array, AtomicType, AtomicType], pa.Array]

_STRING = AtomicType("STRING")
INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")  # from narrow to wide
_FLOATS = ("FLOAT", "DOUBLE")
_TEXT = ("CHAR", "VARCHAR")
_BINARY = ("BINARY", "VARBINARY")
_TIMESTAMPS = ("TIMESTAMP", "TIMESTAMP_LTZ")
_NUMPY: dict[pa.DataType, type[np.generic]] = {
    pa.int8(): np.int8,
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
}
_NANOS = {"ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY_MILLIS = 86_400_000
_MILLI_NANOS = 1_000_000
_MILLIS_PRECISION = 3
_NANOS_PRECISION = 9
_WIDE_DIGITS = 76  # of decimal256: any decimal rescaled to any other fits
_WIDE = Context(prec=200)
_WHOLE = re.compile(r"\s*([+-]?[0-9]+)(?:\.[0-9]*)?\s*", re.ASCII)
_NUMBER = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?\s*", re.ASCII)


def cast_array(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    """Return an array of one scalar type as one of another; nullability plays no part."""
    if source.type == target.type:
        return array
    family = _family(source), _family(target)
    cast = _CASTS.get(family)
    if cast is None:
        raise UnsupportedError(
            f"a column of {source} cannot be read as {target}", source=str(source), target=str(target)
        )
    return cast(array, source, target)


def nested_to_text(array: pa.Array, dtype: DataType) -> pa.Array:
    """Return an array of any type as text: `{1, x}` for a ROW, `[1, 2]` for an ARRAY, `{k -> 7}` for a MAP.

    >>> nested_to_text(pa.array([[1, None], []], pa.list_(pa.int32())), ArrayType(True, AtomicType("INT"))).to_pylist()
    ['[1, null]', '[]']
    """
    match dtype:
        case AtomicType():
            return cast_array(array, dtype, _STRING)
        case RowType():
            fields = [_part_text(array.field(i), field.type) for i, field in enumerate(dtype.fields)]
            return _frame_texts(array, pc.binary_join_element_wise(*fields, ", "), "{", "}")
        case ArrayType():
            return _frame_texts(array, _join_list_texts(array, _part_text(array.values, dtype.element)), "[", "]")
        case MapType():
            parts = _part_text(array.keys, dtype.key), _part_text(array.items, dtype.value)
            return _frame_texts(array, _join_list_texts(array, pc.binary_join_element_wise(*parts, " -> ")), "{", "}")
        case _:
            raise UnsupportedError(f"a column of {dtype} cannot be read as text", source=str(dtype))


def _part_text(array: pa.Array, dtype: DataType) -> pa.Array:
    return pc.fill_null(nested_to_text(array, dtype), "null")


def _join_list_texts(array: pa.Array, texts: pa.Array) -> pa.Array:
    """Put the texts of the parts of each list together."""
    return pc.binary_join(rebuild_list(array, pa.list_(pa.string()), texts), ", ")


def _frame_texts(array: pa.Array, texts: pa.Array, start: str, end: str) -> pa.Array:
    framed = pc.binary_join_element_wise(start, texts, end, "")
    return pc.if_else(array.is_valid(), framed, pa.scalar(None, pa.string()))


def scalar_stats_safe(old: AtomicType, new: AtomicType) -> bool:
    """Return whether bounds of the old type hold for values cast to the new one: only when integers grow wider.

    >>> narrow = AtomicType("INT")
    >>> scalar_stats_safe(narrow, AtomicType("BIGINT")), scalar_stats_safe(narrow, AtomicType("STRING"))
    (True, False)
    """
    if old.type == new.type:
        return True
    if old.root in INTEGERS and new.root in INTEGERS:
        return INTEGERS.index(old.root) <= INTEGERS.index(new.root)
    return False


def _family(dtype: AtomicType) -> str:
    for name, roots in (
        ("integer", INTEGERS),
        ("float", _FLOATS),
        ("text", _TEXT),
        ("binary", _BINARY),
        ("timestamp", _TIMESTAMPS),
    ):
        if dtype.root in roots:
            return name
    return dtype.root.lower()


# Numbers.


def _to_narrower_or_wider(array: pa.Array, _: AtomicType, target: AtomicType) -> pa.Array:
    return pc.cast(array, to_arrow_type(target), safe=False)


def _integer_to_integer(array: pa.Array, _: AtomicType, target: AtomicType) -> pa.Array:
    kind = to_arrow_type(target)
    return _rebuilt(array, _numbers(array).astype(_NUMPY[kind]), kind)


def _float_to_integer(array: pa.Array, _: AtomicType, target: AtomicType) -> pa.Array:
    kind = to_arrow_type(target)
    values = _numbers(array).astype(np.float64)
    # Java goes by way of INT to the narrow types, so these are held at INT's limits and then wrap.
    bits = 64 if target.root == "BIGINT" else 32
    limit = float(2 ** (bits - 1))
    inside = np.where(np.isnan(values), 0.0, np.clip(values, -limit, limit))
    top = inside >= limit
    integers = np.where(top, 0.0, inside).astype(np.int64)
    integers[top] = 2 ** (bits - 1) - 1
    return _rebuilt(array, integers.astype(_NUMPY[kind]), kind)


def _to_boolean(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    if source.root == "DECIMAL":
        return pc.not_equal(array, pa.scalar(Decimal(0), array.type))
    return pc.cast(array, to_arrow_type(target), safe=False)


def _from_boolean(array: pa.Array, _: AtomicType, target: AtomicType) -> pa.Array:
    numbers = pc.cast(array, pa.int8())
    if target.root == "DECIMAL":
        return _rescale_decimals(numbers.cast(pa.decimal256(_WIDE_DIGITS, 0)), target)
    return numbers.cast(to_arrow_type(target))


def _to_decimal(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    return _rescale_decimals(array.cast(pa.decimal256(_WIDE_DIGITS, source.scale)), target)


def _rescale_decimals(wide: pa.Array, target: AtomicType) -> pa.Array:
    """Round half up to the target's scale; what has too many digits then becomes null."""
    if wide.type.scale > target.scale:
        wide = pc.round(wide, target.scale, round_mode="half_towards_infinity")
    limit = pa.scalar(Decimal(10) ** (target.precision - target.scale), wide.type)
    fits = pc.less(pc.abs(wide), limit)
    kept = pc.if_else(fits, wide, pa.scalar(None, wide.type))
    return kept.cast(pa.decimal256(_WIDE_DIGITS, target.scale)).cast(to_arrow_type(target))


def _float_to_decimal(array: pa.Array, _: AtomicType, target: AtomicType) -> pa.Array:
    def cast(value: float) -> Decimal | None:
        return _half_up(Decimal(repr(value)), target)  # the digits that name the number, as Java takes them

    return _by_distinct(array.cast(pa.float64()), cast, target)


def _half_up(number: Decimal, target: AtomicType) -> Decimal | None:
    if not number.is_finite():
        raise InvalidInputError(f"{number} is no value of the type {target}")
    if number.adjusted() > target.precision - target.scale:
        return None
    rounded = number.quantize(Decimal(1).scaleb(-target.scale), rounding=ROUND_HALF_UP, context=_WIDE)
    return rounded if abs(rounded) < Decimal(10) ** (target.precision - target.scale) else None


def _decimal_to_integer(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    if source.precision - source.scale <= 18:  # noqa: PLR2004 - fits 64 bits
        integers = pc.trunc(array.cast(pa.decimal256(_WIDE_DIGITS, source.scale)))
        return _integer_to_integer(integers.cast(pa.int64()), source, target)

    def cast(value: Decimal) -> int:
        integers = int(value) & 0xFFFFFFFFFFFFFFFF
        return integers - (1 << 64) if integers >> 63 else integers

    return _integer_to_integer(_by_distinct(array, cast, AtomicType("BIGINT")), source, target)


def _decimal_to_float(array: pa.Array, _: AtomicType, target: AtomicType) -> pa.Array:
    return _by_distinct(array, float, AtomicType("DOUBLE")).cast(to_arrow_type(target), safe=False)


# Text and bytes.


def _to_text(array: pa.Array, source: AtomicType, _: AtomicType) -> pa.Array:
    if source.root in INTEGERS or source.root == "BOOLEAN":
        return array.cast(pa.string())
    encoded = array.dictionary_encode()
    words = [to_text(from_scalar(scalar, source), source) for scalar in encoded.dictionary]
    return pa.array(words, pa.string()).take(encoded.indices)


def _text_to_text(array: pa.Array, _: AtomicType, target: AtomicType) -> pa.Array:
    if target.length == UNBOUNDED:
        return array
    cut = pc.utf8_slice_codeunits(array, 0, target.length)
    return pc.utf8_rpad(cut, target.length, " ") if target.root == "CHAR" else cut


def _binary_to_binary(array: pa.Array, _: AtomicType, target: AtomicType) -> pa.Array:
    if target.length == UNBOUNDED:
        return array
    if target.root == "VARBINARY":
        return pc.binary_slice(array, 0, target.length)
    return _by_distinct(array, lambda value: value[: target.length].ljust(target.length, b"\0"), target)


def _text_to_binary(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    return _binary_to_binary(array.cast(pa.binary()), source, target)


def _from_text(array: pa.Array, _: AtomicType, target: AtomicType) -> pa.Array:
    def cast(text: str) -> Value:
        if target.root in INTEGERS:
            match = _WHOLE.fullmatch(text)
            if match is None:
                raise InvalidInputError(f"{text!r} is no whole number")
            return parse_text(match[1], target)  # a fraction is cut off
        if target.root == "DECIMAL" and _NUMBER.fullmatch(text):
            return _half_up(Decimal(text.strip()), target)
        return parse_text(text, target)

    return _by_distinct(array, cast, target)


def _text_to_timestamp(array: pa.Array, _: AtomicType, target: AtomicType) -> pa.Array:
    step = _NANOS[to_arrow_type(target).unit]
    fine = AtomicType(f"{target.root}({_NANOS_PRECISION})")

    def cast(text: str) -> int:
        nanos = parse_text(text, fine)
        return int(nanos or 0) // step

    units = _by_distinct(array, cast, AtomicType("BIGINT")).view(to_arrow_type(target))
    return _truncate_timestamps(units, target)


def _by_distinct(array: pa.Array, cast: Callable[[Any], object], target: AtomicType) -> pa.Array:
    """Cast every distinct value once."""
    encoded = array.dictionary_encode()
    values = [cast(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(values, to_arrow_type(target)).take(encoded.indices)


# Times.


def _timestamp_to_timestamp(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    source_nanos, target_nanos = _NANOS[array.type.unit], _NANOS[to_arrow_type(target).unit]
    numbers = _numbers(array)
    if source_nanos >= target_nanos:
        scaled = pc.multiply_checked(array.view(pa.int64()), source_nanos // target_nanos)
    else:
        scaled = _rebuilt(array, np.floor_divide(numbers, target_nanos // source_nanos), pa.int64())
    moved = scaled.view(to_arrow_type(target))
    return moved if source.precision <= target.precision else _truncate_timestamps(moved, target)


def _truncate_timestamps(array: pa.Array, target: AtomicType) -> pa.Array:
    """Cut the digits that the precision of a timestamp type has no room for."""
    numbers = _numbers(array)
    if target.precision <= _MILLIS_PRECISION:
        step = 10 ** (_MILLIS_PRECISION - target.precision)
        cut = numbers - np.fmod(numbers, step)  # towards 1970, as Java cuts milliseconds
    else:
        unit_digits = {"us": 6, "ns": 9}[array.type.unit]
        step = 10 ** (unit_digits - target.precision)
        cut = numbers - np.mod(numbers, step)
    return _rebuilt(array, cut, array.type)


def _millis(array: pa.Array) -> NDArray[np.int64]:
    out: NDArray[np.int64] = np.floor_divide(_numbers(array), _MILLI_NANOS // _NANOS[array.type.unit])
    return out


def _timestamp_to_date(array: pa.Array, _: AtomicType, target: AtomicType) -> pa.Array:
    millis = _millis(array)
    days = (millis - np.fmod(millis, _DAY_MILLIS)) // _DAY_MILLIS  # towards 1970, as Java divides
    return _rebuilt(array, days.astype(np.int32), to_arrow_type(target))


def _timestamp_to_time(array: pa.Array, _: AtomicType, target: AtomicType) -> pa.Array:
    return _rebuilt(array, np.mod(_millis(array), _DAY_MILLIS).astype(np.int32), to_arrow_type(target))


def _date_to_timestamp(array: pa.Array, _: AtomicType, target: AtomicType) -> pa.Array:
    return _millis_to_timestamp(array, _numbers(array).astype(np.int64) * _DAY_MILLIS, target)


def _time_to_timestamp(array: pa.Array, _: AtomicType, target: AtomicType) -> pa.Array:
    return _millis_to_timestamp(array, _numbers(array).astype(np.int64), target)


def _integer_to_timestamp(array: pa.Array, _: AtomicType, target: AtomicType) -> pa.Array:
    return _millis_to_timestamp(array, _numbers(array).astype(np.int64) * 1000, target)


def _timestamp_to_integer(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    millis = _millis(array)
    seconds = _rebuilt(array, (millis - np.fmod(millis, 1000)) // 1000, pa.int64())
    return _integer_to_integer(seconds, source, target)


def _millis_to_timestamp(array: pa.Array, millis: NDArray[np.int64], target: AtomicType) -> pa.Array:
    kind = to_arrow_type(target)
    units = pc.multiply_checked(_rebuilt(array, millis, pa.int64()), _MILLI_NANOS // _NANOS[kind.unit])
    return units.view(kind)


def _through(middle: AtomicType) -> _Cast:
    """Return a cast that goes by way of another type."""

    def cast(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
        return cast_array(cast_array(array, source, middle), middle, target)

    return cast


def _numbers(array: pa.Array) -> NDArray[Any]:
    """Return the stored numbers of a fixed-width array; what stands at nulls means nothing."""
    kind = array.type
    if pa.types.is_temporal(kind):
        array = array.view(pa.int32() if kind.bit_width == 32 else pa.int64())  # noqa: PLR2004 - bits
    dtype = _NUMPY[array.type]
    data = array.buffers()[1]
    if data is None:
        return np.zeros(len(array), dtype=dtype)
    return np.frombuffer(data, dtype=dtype)[array.offset : array.offset + len(array)]


def _rebuilt(array: pa.Array, numbers: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Return numbers as an array of a type, null where the old array is."""
    valid = array.is_valid().buffers()[1] if array.null_count else None
    data = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(kind, len(array), [valid, data], array.null_count)


_CASTS: dict[tuple[str, str], _Cast] = {
    ("integer", "integer"): _integer_to_integer,
    ("integer", "float"): _to_narrower_or_wider,
    ("integer", "decimal"): _to_decimal,
    ("integer", "boolean"): _to_boolean,
    ("integer", "timestamp"): _integer_to_timestamp,
    ("float", "integer"): _float_to_integer,
    ("float", "float"): _to_narrower_or_wider,
    ("float", "decimal"): _float_to_decimal,
    ("float", "boolean"): _to_boolean,
    ("decimal", "integer"): _decimal_to_integer,
    ("decimal", "float"): _decimal_to_float,
    ("decimal", "decimal"): _to_decimal,
    ("decimal", "boolean"): _to_boolean,
    ("boolean", "integer"): _from_boolean,
    ("boolean", "float"): _from_boolean,
    ("boolean", "decimal"): _from_boolean,
    ("text", "text"): _text_to_text,
    ("text", "binary"): _text_to_binary,
    ("text", "timestamp"): _text_to_timestamp,
    **{("text", other): _from_text for other in ("integer", "float", "decimal", "boolean", "date", "time")},
    **{(other, "text"): _to_text for other in ("integer", "float", "decimal", "boolean", "date", "time")},
    ("timestamp", "text"): _to_text,
    ("binary", "text"): _to_text,
    ("binary", "binary"): _binary_to_binary,
    ("timestamp", "timestamp"): _timestamp_to_timestamp,
    ("timestamp", "date"): _timestamp_to_date,
    ("timestamp", "time"): _timestamp_to_time,
    ("timestamp", "integer"): _timestamp_to_integer,
    ("date", "timestamp"): _date_to_timestamp,
    ("time", "timestamp"): _time_to_timestamp,
    ("date", "time"): _through(AtomicType("TIMESTAMP(3)")),
    ("time", "date"): _through(AtomicType("TIMESTAMP(3)")),
    ("timestamp", "float"): _through(AtomicType("BIGINT")),
    ("timestamp", "decimal"): _through(AtomicType("BIGINT")),
    ("float", "timestamp"): _through(AtomicType("BIGINT")),
    ("decimal", "timestamp"): _through(AtomicType("BIGINT")),
    ("time", "time"): lambda array, _source, _target: array,
}


# ---- From the written schema to the read schema ----------------------------------------------------------------------
# Columns are the same column if and only if they have the same id, whatever their names, on every level of ROWs; the
# elements of arrays and the keys and values of maps correspond by their place. What the file lacks reads as null, a
# type that has changed since is cast. Pure: file fields and read fields in, a plan out, which turns batches into
# batches.


@dataclass(frozen=True, slots=True)
class Evolution:
    """How batches of a file become batches of the read schema."""

    file_fields: tuple[DataField, ...]  # what to read of the file, in the file's own names and types
    read_fields: tuple[DataField, ...]
    places: tuple[int | None, ...]  # for each read field its place among the file fields; None where it is lacking
    schema: pa.Schema
    identity: bool

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of the file fields as one of the read fields."""
        if self.identity:
            return batch
        columns = []
        for field, target, place in zip(self.read_fields, self.schema, self.places, strict=True):
            if place is None:
                columns.append(pa.nulls(batch.num_rows, target.type))
                continue
            columns.append(_evolve(batch.column(place), self.file_fields[place].type, field))
        if not columns:
            return batch.select([])
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def plan_evolution(file_fields: Sequence[DataField], read_fields: Sequence[DataField]) -> Evolution:
    """Plan the reading of a file with other columns than it was written with.

    >>> old = [DataField(0, "id", AtomicType("INT")), DataField(1, "name", AtomicType("STRING"))]
    >>> new = [DataField(1, "title", AtomicType("STRING")), DataField(2, "size", AtomicType("INT"))]
    >>> plan = plan_evolution(old, new)
    >>> [field.name for field in plan.file_fields], plan.places
    (['name'], (0, None))
    """
    return _plan_evolution(tuple(file_fields), tuple(read_fields))


@lru_cache(maxsize=64)  # a table of many small files has few schemas
def _plan_evolution(file_fields: tuple[DataField, ...], read_fields: tuple[DataField, ...]) -> Evolution:
    by_id = {field.id: field for field in file_fields}
    kept: list[DataField] = []
    places: list[int | None] = []
    for field in read_fields:
        stored = by_id.get(field.id)
        if stored is None:
            places.append(None)
            continue
        places.append(len(kept))
        kept.append(_with_type(stored, _prune_type(stored.type, field.type)))
    schema = to_arrow_schema(read_fields)
    identity = None not in places and all(
        file.name == read.name and _same(file.type, read.type) for file, read in zip(kept, read_fields, strict=True)
    )
    # Equal names and types still differ in a description, which lives in the Arrow schema.
    identity = identity and to_arrow_schema(kept).equals(schema, check_metadata=True)
    return Evolution(tuple(kept), read_fields, tuple(places), schema, identity)


def stats_safe(old: DataType, new: DataType) -> bool:
    """Return whether statistics of the old type hold for values read as the new one."""
    if isinstance(old, AtomicType) and isinstance(new, AtomicType):
        return scalar_stats_safe(old, new)
    return False


def _with_type(field: DataField, dtype: DataType) -> DataField:
    return DataField(field.id, field.name, dtype, field.description, field.default_value)


def _prune_type(file: DataType, read: DataType) -> DataType:
    """Return the part of a file's type that is read. Of a ROW at least one field is kept, to know its nulls."""
    match file, read:
        case RowType(), RowType():
            types = {field.id: field.type for field in read.fields}
            kept = [_with_type(f, _prune_type(f.type, types[f.id])) for f in file.fields if f.id in types]
            return RowType(file.nullable, kept or file.fields[:1])
        case ArrayType(), ArrayType():
            return ArrayType(file.nullable, _prune_type(file.element, read.element))
        case MapType(), MapType():
            return MapType(file.nullable, _prune_type(file.key, read.key), _prune_type(file.value, read.value))
        case _:
            return file


def _same(file: DataType, read: DataType) -> bool:
    """Return whether values need no work: equal types, and ROW fields with equal ids and names in the same order."""
    match file, read:
        case RowType(), RowType():
            return len(file.fields) == len(read.fields) and all(
                a.id == b.id and a.name == b.name and _same(a.type, b.type)
                for a, b in zip(file.fields, read.fields, strict=True)
            )
        case ArrayType(), ArrayType():
            return _same(file.element, read.element)
        case MapType(), MapType():
            return _same(file.key, read.key) and _same(file.value, read.value)
        case VectorType(), VectorType():
            return file.length == read.length and _same(file.element, read.element)
        case AtomicType(), AtomicType():
            return file.type == read.type
        case _:
            return file == read


def _evolve(array: pa.Array, file: DataType, field: DataField) -> pa.Array:
    try:
        return _convert(array, file, field.type)
    except (InvalidInputError, UnsupportedError, pa.ArrowException) as error:
        kind = UnsupportedError if isinstance(error, UnsupportedError) else InvalidInputError
        raise kind(
            f"the column {field.name!r} was {file} in older files and is {field.type} now: {error}. Read it as it was, "
            "or change its type back",
            column=field.name,
        ) from error


def _convert(array: pa.Array, file: DataType, read: DataType) -> pa.Array:
    target = to_arrow_type(read)
    if array.type == target and _same(file, read):
        return array
    match file, read:
        case RowType(), RowType():
            return _convert_row(array, file, read)
        case ArrayType(), ArrayType():
            return rebuild_list(array, target, _convert(array.values, file.element, read.element))
        case MapType(), MapType():
            parts = [_convert(array.keys, file.key, read.key), _convert(array.items, file.value, read.value)]
            entries = pa.StructArray.from_arrays(parts, fields=[target.key_field, target.item_field])
            return rebuild_list(array, target, entries)
        case AtomicType(), AtomicType():
            return cast_array(array, file, read)
        case RowType() | ArrayType() | MapType(), AtomicType() if read.root in TEXT_ROOTS:
            return nested_to_text(array, file)
        case MultisetType(), MultisetType() if file.element == read.element:
            return array
        case _:
            raise UnsupportedError(f"{file} cannot be read as {read}", source=str(file), target=str(read))


def _convert_row(array: pa.Array, file: RowType, read: RowType) -> pa.Array:
    places = {field.id: index for index, field in enumerate(file.fields)}
    children = []
    for field in read.fields:
        place = places.get(field.id)
        if place is None:
            children.append(pa.nulls(len(array), to_arrow_type(field.type)))
        else:
            children.append(_convert(array.field(place), file.fields[place].type, field.type))
    return rebuild_struct(array, to_arrow_type(read), children)
