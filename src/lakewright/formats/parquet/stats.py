"""The statistics of a parquet row group in, bounds and null counts as values of the format out.

Only bounds whose meaning is certain are used; everything else is unknown. Writers may truncate bounds, which remain
valid bounds. Bounds of floats leave NaN out, which `may_match` allows for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal

import pyarrow.parquet as pq

from lakewright.spec.arrow import to_arrow_type
from lakewright.spec.stats import ColumnStats
from lakewright.spec.types import AtomicType, DataField, Value

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
