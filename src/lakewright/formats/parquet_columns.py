"""Leaf columns of a parquet schema and their statistics."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakewright.spec.arrow_types import to_arrow_type
from lakewright.spec.column_stats import ColumnStats
from lakewright.spec.option_values import MIB
from lakewright.spec.types import ArrayType, AtomicType, DataField, DataType, MapType, MultisetType, RowType, Value

# ---- Leaf columns ----------------------------------------------------------------------------------------------------
# Also which leaves are nanosecond timestamps, and for which a dictionary makes a file smaller.

_SAMPLE_ROWS = 2048
_SAMPLE_STRETCHES = 16
_DICTIONARY_BYTES = MIB // 2  # the encoder stops using a dictionary that becomes larger than a mebibyte


def leaf_types(arrow: pa.DataType) -> Iterator[pa.DataType]:
    """Yield the types of the leaves of a column."""
    if not pa.types.is_nested(arrow):
        yield arrow
        return
    for number in range(arrow.num_fields):
        yield from leaf_types(arrow.field(number).type)


def leaf_count(arrow: pa.DataType) -> int:
    """Return the number of leaves of a column."""
    return sum(1 for _ in leaf_types(arrow))


def leaf_arrays(path: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Yield the leaves of a column with their paths inside a parquet schema, without elements of vectors.

    Those hardly repeat, and there are many of them.
    """
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if pa.types.is_struct(array.type):
        for field, child in zip(array.type, array.flatten(), strict=True):
            yield from leaf_arrays(f"{path}.{field.name}", child)
    elif pa.types.is_map(array.type):
        yield from leaf_arrays(f"{path}.key_value.key", array.keys)
        yield from leaf_arrays(f"{path}.key_value.value", array.items)
    elif pa.types.is_list(array.type):
        yield from leaf_arrays(f"{path}.list.element", array.flatten())
    elif not pa.types.is_fixed_size_list(array.type):
        yield path, array


def select_leaves(arrow: pa.DataType, dtype: DataType, first: int) -> list[int]:
    """Return the leaves of a column that hold the fields of `dtype`; `first` is the number of its first leaf."""
    if pa.types.is_struct(arrow) and isinstance(dtype, RowType):
        types = {field.name: field.type for field in dtype.fields}
        chosen: list[int] = []
        leaf = first
        for field in arrow:
            if field.name in types:
                chosen += select_leaves(field.type, types[field.name], leaf)
            leaf += leaf_count(field.type)
        return chosen or [first]  # one leaf is enough to know which rows are null
    if pa.types.is_map(arrow) and isinstance(dtype, MapType | MultisetType):
        keys = leaf_count(arrow.key_type)
        inner = dtype.value if isinstance(dtype, MapType) else AtomicType("INT")
        return [*range(first, first + keys), *select_leaves(arrow.item_type, inner, first + keys)]
    if pa.types.is_list(arrow) and isinstance(dtype, ArrayType):
        return select_leaves(arrow.value_type, dtype.element, first)
    return list(range(first, first + leaf_count(arrow)))


def nanosecond_leaves(schema: pa.Schema) -> frozenset[int]:
    """Return which leaves of a schema are nanosecond timestamps."""
    types = [leaf for field in schema for leaf in leaf_types(field.type)]
    return frozenset(number for number, arrow in enumerate(types) if is_nanoseconds(arrow))


def is_nanoseconds(arrow: pa.DataType) -> bool:
    """Return whether a type is a timestamp of nanoseconds."""
    return bool(pa.types.is_timestamp(arrow) and arrow.unit == "ns")


def dictionary_columns(table: pa.Table) -> list[str]:
    """Return the leaves that a dictionary makes smaller: those whose values repeat in a sample of the rows.

    A dictionary of values that hardly repeat costs time and bytes, and the encoder stops using one that becomes too
    large. The sample is a few short stretches, so values that repeat only in neighbouring rows count as well.
    """
    step = max(1, table.num_rows // _SAMPLE_STRETCHES)
    rows = _SAMPLE_ROWS // _SAMPLE_STRETCHES
    small = table.num_rows <= _SAMPLE_ROWS
    sample = table if small else pa.concat_tables(table.slice(at, rows) for at in range(0, table.num_rows, step))
    share = table.num_rows / max(1, sample.num_rows)
    chosen: list[str] = []
    for field, column in zip(table.schema, sample.columns, strict=True):
        for path, leaf in leaf_arrays(field.name, column.combine_chunks()):
            if not pa.types.is_boolean(leaf.type) and _repeats(leaf, share):
                chosen.append(path)
    return chosen


def _repeats(sample: pa.Array, share: float) -> bool:
    """Tell whether a column has few enough distinct values, by a sample; it has `share` times as many rows as that."""
    sample = sample.drop_null()
    values = len(sample)
    if values == 0:
        return False
    counts = sample.value_counts().field(1).to_numpy()
    # A dictionary of at most this many values is worth it. If all were equally frequent, a sample of this size would
    # show the number of distinct values that is computed below.
    most = min(values * share / 2, _DICTIONARY_BYTES * values / max(1, sample.nbytes))
    if len(counts) > most * -math.expm1(-values / most):
        return False
    # A single frequent value must not hide that the others are rare. From the number of values that occur once and
    # twice, estimate how many values the sample does not show.
    once, twice = np.bincount(counts, minlength=3)[1:3].tolist()
    hidden = once * (once - 1) / (2 * (twice + 1))
    unseen = hidden * -math.expm1((1 - share) * once / hidden) if hidden else 0
    return bool(len(counts) + unseen <= most)


# ---- Statistics of row groups ----------------------------------------------------------------------------------------
# Only bounds whose meaning is certain are used; everything else is unknown. Writers may truncate bounds, which remain
# valid bounds. Bounds of floats leave NaN out, which `may_match` allows for.

_UNITS = {"milliseconds": ("ms", 1_000_000), "microseconds": ("us", 1_000), "nanoseconds": ("ns", 1)}
_EXACT = Context(prec=80)
_PLAIN = {
    "BOOLEAN": ("BOOLEAN", {"NONE"}),
    "FLOAT": ("FLOAT", {"NONE"}),
    "DOUBLE": ("DOUBLE", {"NONE"}),
    "DATE": ("INT32", {"DATE"}),
    "BINARY": ("BYTE_ARRAY", {"NONE"}),
    "VARBINARY": ("BYTE_ARRAY", {"NONE"}),
}


def group_stats(
    group: pq.RowGroupMetaData, fields: Sequence[DataField], leaves: Mapping[str, int]
) -> Callable[[str], ColumnStats | None]:
    """Return a function from a column's name to its statistics in a row group; None where nothing is known."""
    types = {field.name: field.type for field in fields}

    def of(name: str) -> ColumnStats | None:
        dtype = types.get(name)
        # A dot may mean a path into a ROW, which is another column.
        if name not in leaves or "." in name or not isinstance(dtype, AtomicType):
            return None
        stored = group.column(leaves[name]).statistics
        if stored is None:
            return None
        nulls = stored.null_count if stored.has_null_count else None
        low = high = None
        if stored.has_min_max:
            low, high = _value(stored, stored.min_raw, dtype), _value(stored, stored.max_raw, dtype)
        return ColumnStats(low, high, nulls)

    return of


def _value(stats: pq.Statistics, raw: Value, dtype: AtomicType) -> Value:
    """Return a bound as a value of the type, None if the file's type leaves its meaning open."""
    physical, logical = stats.physical_type, stats.logical_type
    if dtype.root in _PLAIN:
        expected, logicals = _PLAIN[dtype.root]
        return raw if physical == expected and logical.type in logicals else None
    details = json.loads(logical.to_json())
    match dtype.root:
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            signed = logical.type == "NONE" or (logical.type == "INT" and details.get("isSigned") is True)
            return raw if physical in {"INT32", "INT64"} and signed else None
        case "CHAR" | "VARCHAR":
            return text_bound(raw) if physical == "BYTE_ARRAY" and logical.type == "STRING" else None
        case "DECIMAL":
            return _decimal(raw, dtype) if logical.type == "DECIMAL" and details.get("scale") == dtype.scale else None
        case "TIME" | "TIMESTAMP" | "TIMESTAMP_LTZ":
            return _time(raw, dtype, details)
        case _:
            return None


def text_bound(raw: Value) -> str | None:
    """Return a bound as text, None if its bytes are no text."""
    try:
        return raw.decode() if isinstance(raw, bytes) else None
    except UnicodeDecodeError:
        return None


def _decimal(raw: Value, dtype: AtomicType) -> Decimal | None:
    unscaled = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
    return Decimal(unscaled).scaleb(-dtype.scale, _EXACT) if isinstance(unscaled, int) else None


def _time(raw: Value, dtype: AtomicType, details: Mapping[str, object]) -> int | None:
    unit, nanos = _UNITS.get(str(details.get("timeUnit")), ("", 0))
    if not isinstance(raw, int) or unit != to_arrow_type(dtype).unit:
        return None
    kind = "Time" if dtype.root == "TIME" else "Timestamp"
    if details.get("Type") != kind:
        return None
    return raw if kind == "Time" else raw * nanos
