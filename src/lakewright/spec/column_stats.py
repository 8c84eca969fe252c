"""Statistics of columns as manifests record them.

A bound is never tighter than the data; where no correct bound exists it is None, which means unknown. So a column with
NaN has no bounds, zeros are widened to -0.0 and 0.0, a truncated maximum is rounded up, and bounds of other writers
that are known to be wrong (see `field_stats`) are widened or dropped.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import CorruptTableError, InvalidInputError
from lakewright.spec.arrow_types import to_arrow_type
from lakewright.spec.binary_row import ARITY_BYTES, decode_field, decode_row, encode_row, plain_column
from lakewright.spec.manifest import EMPTY_ROW, EMPTY_STATS, DataFile, SimpleStats
from lakewright.spec.scalars import from_scalar
from lakewright.spec.types import AtomicType, DataField, DataType, Value

_TRUNCATE = re.compile(r"truncate\s*\(\s*([0-9]{1,9})\s*\)", re.IGNORECASE)
_BLANK = re.compile("[\x00-\x20]")
_UNBOUNDED_ROOTS = frozenset({"VARIANT", "BLOB", "GEOMETRY", "GEOGRAPHY"})
_SURROGATE_FIRST, _CODE_POINT_MAX, _BYTE_MAX = 0xD800, 0x10FFFF, 0xFF


@dataclass(frozen=True, slots=True)
class StatsMode:
    """How much a writer records of a column: `none`, `counts`, `full`, or `truncate` to a length."""

    kind: str
    length: int = 0  # of truncated bounds, in code points or bytes

    def __str__(self) -> str:
        return f"truncate({self.length})" if self.kind == "truncate" else self.kind


NONE, COUNTS, FULL = StatsMode("none"), StatsMode("counts"), StatsMode("full")


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """The bounds and the null count of one column; None means unknown."""

    min: Value
    max: Value
    null_count: int | None
    # A column of nulls has no values to bound: unlike an unknown bound, that does not make merged bounds unknown.
    all_null: bool = field(default=False, compare=False)


def parse_stats_mode(text: str) -> StatsMode:
    """Return the mode that an option such as `metadata.stats-mode` names.

    >>> parse_stats_mode("truncate(16)")
    StatsMode(kind='truncate', length=16)
    """
    word = text.strip().lower()
    if word in {"none", "counts", "full"}:
        return StatsMode(word)
    match = _TRUNCATE.fullmatch(word)
    if match is None or int(match[1]) == 0:
        raise InvalidInputError(f"{text!r} is no statistics mode: use none, counts, full or truncate(16)")
    return StatsMode("truncate", int(match[1]))


def column_stats(array: pa.Array | pa.ChunkedArray, dtype: DataType, mode: StatsMode) -> ColumnStats:
    """Return the statistics of one column; nested columns have a null count and no bounds.

    Some file formats have no bounds for some types (parquet: TIMESTAMP beyond microseconds); the caller handles that.
    """
    if mode == NONE or (isinstance(dtype, AtomicType) and dtype.root == "VARIANT"):
        return ColumnStats(None, None, None)
    null_count, count = array.null_count, len(array)
    if null_count == count:
        return ColumnStats(None, None, null_count, all_null=True)
    if mode == COUNTS or not isinstance(dtype, AtomicType) or dtype.root in _UNBOUNDED_ROOTS:
        return ColumnStats(None, None, null_count)
    # A column of the canonical type keeps its chunks, because combining them would copy it.
    column = array if array.type == to_arrow_type(dtype) else plain_column(array, dtype)
    low, high = _bounds(column, dtype)
    stats = ColumnStats(low, high, null_count)
    return truncate(stats, mode.length) if mode.kind == "truncate" else stats


def _bounds(array: pa.Array | pa.ChunkedArray, dtype: AtomicType) -> tuple[Value, Value]:
    if pa.types.is_floating(array.type) and _has_nan(array):
        return None, None
    extremes = pc.min_max(array)
    return _widen_zero_bounds(from_scalar(extremes["min"], dtype), from_scalar(extremes["max"], dtype))


def _has_nan(array: pa.Array | pa.ChunkedArray) -> bool:
    # The sum is NaN if a value is, and takes a quarter of the time; it also is if infinities cancel each other.
    total = pc.sum(array).as_py()
    return total is not None and math.isnan(total) and bool(pc.any(pc.is_nan(array)).as_py())


def _widen_zero_bounds(low: Value, high: Value) -> tuple[Value, Value]:
    """Return bounds of floating-point numbers in which a zero covers both zeros."""
    if isinstance(low, float) and low == 0:
        low = -0.0
    if isinstance(high, float) and high == 0:
        high = 0.0
    return low, high


def truncate(stats: ColumnStats, length: int) -> ColumnStats:
    """Return text and binary bounds truncated to a length, still around all values; None for both if impossible.

    >>> truncate(ColumnStats("abcd", "abzz", 0), 3)
    ColumnStats(min='abc', max='ab{', null_count=0, all_null=False)
    """
    low, high = stats.min, stats.max
    if isinstance(low, str | bytes):
        low = low[:length]
    if isinstance(high, str) and len(high) > length:
        high = _rounded_up(high[:length])
    elif isinstance(high, bytes) and len(high) > length:
        high = _rounded_up_bytes(high[:length])
    if stats.max is not None and high is None:
        low = None
    return replace(stats, min=low, max=high)


def _rounded_up(text: str) -> str | None:
    """Return the least text that is above all texts with this prefix; None where there is none."""
    for end in range(len(text), 0, -1):
        code = ord(text[end - 1]) + 1
        if code <= _CODE_POINT_MAX and code != _SURROGATE_FIRST:  # surrogates are no characters
            return text[: end - 1] + chr(code)
    return None


def _rounded_up_bytes(data: bytes) -> bytes | None:
    kept = data.rstrip(bytes([_BYTE_MAX]))
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def merge_column_stats(a: ColumnStats, b: ColumnStats) -> ColumnStats:
    """Return the statistics of two parts of a column together; a fact that is unknown for one part stays unknown.

    >>> merge_column_stats(ColumnStats(1, 5, 0), ColumnStats(3, 9, 2))
    ColumnStats(min=1, max=9, null_count=2, all_null=False)
    """
    nulls = None if a.null_count is None or b.null_count is None else a.null_count + b.null_count
    if a.all_null or b.all_null:
        other = b if a.all_null else a
        return replace(other, null_count=nulls)
    low = None if a.min is None or b.min is None else _lesser(a.min, b.min)
    high = None if a.max is None or b.max is None else _lesser(b.max, a.max, greater=True)
    return ColumnStats(low, high, nulls)


def _lesser(a: Value, b: Value, *, greater: bool = False) -> Value:
    """Return the lesser (or greater) of two values of one type."""
    return a if (a > b if greater else a < b) else b  # type: ignore[operator]  # both are of one type


def to_simple_stats(
    stats: Sequence[ColumnStats | None], fields: Sequence[DataField], *, dense: bool
) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """Return the statistics of a file and the columns they cover, as a manifest records both.

    Dense storage leaves out columns without statistics; the columns are None when none is left out.
    """
    if len(stats) != len(fields):
        raise InvalidInputError(f"{len(fields)} columns cannot have {len(stats)} statistics")
    unknown = ColumnStats(None, None, None)
    pairs = [(s or unknown, f) for s, f in zip(stats, fields, strict=True)]
    kept = [(s, f) for s, f in pairs if s != unknown] if dense else pairs
    columns = None if len(kept) == len(pairs) else tuple(f.name for _, f in kept)
    return _simple_stats([s for s, _ in kept], [f.type for _, f in kept]), columns


def _simple_stats(stats: Sequence[ColumnStats], types: Sequence[DataType]) -> SimpleStats:
    if not stats:
        return EMPTY_STATS
    return SimpleStats(
        encode_row([s.min for s in stats], types),
        encode_row([s.max for s in stats], types),
        tuple(s.null_count for s in stats),
    )


def field_stats(file: DataFile, field_name: str, fields_of_file_schema: Sequence[DataField]) -> ColumnStats | None:
    """Return the statistics of one column of a file in a manifest, by the column's name in the file's own schema.

    None means that nothing is known. Bounds that some writers get wrong are corrected: NaN is no bound; a maximum of
    text that ends in `?` may replace a lost surrogate and be below the data; a CHAR bound may be padded with blanks.
    """
    columns = file.value_stats_cols
    if columns is None:
        columns = file.write_cols or tuple(f.name for f in fields_of_file_schema)
    dtype = next((f.type for f in fields_of_file_schema if f.name == field_name), None)
    if dtype is None or field_name not in columns:
        return None
    try:
        return _stats_at(file.value_stats, columns.index(field_name), len(columns), dtype)
    except CorruptTableError as error:
        message = f"the statistics of the column {field_name} of the data file {file.file_name} are damaged: {error}"
        raise CorruptTableError(message, files=(file.file_name,), column=field_name) from error


def _stats_at(stats: SimpleStats, index: int, arity: int, dtype: DataType) -> ColumnStats | None:
    if stats.min_values == EMPTY_ROW and not stats.null_counts:
        return None
    prefix = arity.to_bytes(ARITY_BYTES, "big")
    if not (stats.min_values.startswith(prefix) and stats.max_values.startswith(prefix)) or (
        len(stats.null_counts) != arity
    ):
        raise CorruptTableError(f"they do not cover {arity} columns")
    if not isinstance(dtype, AtomicType):
        return ColumnStats(None, None, stats.null_counts[index])
    low, high = decode_field(stats.min_values, index, dtype), decode_field(stats.max_values, index, dtype)
    return ColumnStats(*corrected_bounds(low, high, dtype), stats.null_counts[index])


def corrected_bounds(low: Value, high: Value, dtype: DataType) -> tuple[Value, Value]:
    """Return bounds as `field_stats` corrects them.

    >>> corrected_bounds("a", "b?", AtomicType("STRING")), corrected_bounds(0.0, math.nan, AtomicType("DOUBLE"))
    (('a', None), (None, None))
    """
    if is_nan(low) or is_nan(high):
        low, high = None, None  # a writer that uses NaN as a bound did not compare the other numbers correctly
    low, high = _widen_zero_bounds(low, high)
    if isinstance(high, str) and high.endswith("?"):
        high = None
    if isinstance(dtype, AtomicType) and dtype.root == "CHAR" and isinstance(low, str):
        # A padded bound is the value and blanks. All values, padded or not, are at or above the part before the first
        # character that is not above a blank. The padded maximum is above all of them already.
        low = _BLANK.split(low, maxsplit=1)[0]
    return low, high


def is_nan(value: object) -> bool:
    """Return whether a value is the floating-point NaN."""
    return isinstance(value, float) and math.isnan(value)


def partition_stats(partitions: Iterable[bytes], types: Sequence[DataType]) -> SimpleStats:
    """Return the statistics of the partitions of some manifest entries, one serialised row per entry."""
    counts = Counter(partitions)
    rows = [decode_row(partition, types) for partition in counts]
    stats = [_value_stats([row[i] for row in rows], list(counts.values())) for i in range(len(types))]
    return _simple_stats(stats, types)


def _value_stats(values: Sequence[Value], counts: Sequence[int]) -> ColumnStats:
    nulls = sum(count for value, count in zip(values, counts, strict=True) if value is None)
    known = [value for value in values if value is not None]
    if not known or any(map(is_nan, known)):
        return ColumnStats(None, None, nulls)
    low, high = _widen_zero_bounds(min(known), max(known))
    return ColumnStats(low, high, nulls)
