"""What the statistics of a parquet row group say about its columns, as values of the format.

A reader skips row groups by them, and a writer takes the bounds of text columns from them.

Only bounds whose meaning is certain are used; everything else is unknown. Bounds may be cut short by the writer, which
leaves them bounds. Bounds of floats leave NaN out, which `may_match` allows for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Context, Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakewright.formats.base import StatsCollector
from lakewright.spec.arrow import to_arrow_type
from lakewright.spec.stats import COUNTS, NONE, ColumnStats, StatsMode
from lakewright.spec.types import AtomicType, DataField, Value

_UNITS = {"milliseconds": ("ms", 1_000_000), "microseconds": ("us", 1_000), "nanoseconds": ("ns", 1)}
_EXACT = Context(prec=80)
_TOLD_BYTES_MAX = 1024  # encoders leave out the bounds of values beyond 4096 bytes
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
        found = group.column(leaves[name]).statistics
        if found is None:
            return None
        nulls = found.null_count if found.has_null_count else None
        low = high = None
        if found.has_min_max:
            low, high = _value(found, found.min_raw, dtype), _value(found, found.max_raw, dtype)
        return ColumnStats(low, high, nulls)

    return of


def _value(stats: pq.Statistics, raw: Value, dtype: AtomicType) -> Value:
    """Return a bound as a value of the type, None if the file's own type leaves its meaning open."""
    physical, logical = stats.physical_type, stats.logical_type
    if dtype.root in _PLAIN:
        wanted, logicals = _PLAIN[dtype.root]
        return raw if physical == wanted and logical.type in logicals else None
    details = json.loads(logical.to_json())
    match dtype.root:
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            signed = logical.type == "NONE" or (logical.type == "INT" and details.get("isSigned") is True)
            return raw if physical in {"INT32", "INT64"} and signed else None
        case "CHAR" | "VARCHAR":
            return _text(raw) if physical == "BYTE_ARRAY" and logical.type == "STRING" else None
        case "DECIMAL":
            return _decimal(raw, dtype) if logical.type == "DECIMAL" and details.get("scale") == dtype.scale else None
        case "TIME" | "TIMESTAMP" | "TIMESTAMP_LTZ":
            return _time(raw, dtype, details)
        case _:
            return None


def _text(raw: Value) -> str | None:
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


class TextBounds:
    """Bounds of text and binary columns from the encoder, which has compared all values already.

    It is not asked about columns with long values, because it leaves their bounds out.
    """

    def __init__(self, types: Sequence[pa.DataType], leaf_counts: Sequence[int], modes: Sequence[StatsMode]) -> None:
        self._leaves: dict[int, int] = {}  # of each column that needs bounds its place among the leaves
        leaf = 0
        for index, (arrow, count, mode) in enumerate(zip(types, leaf_counts, modes, strict=True)):
            if (pa.types.is_string(arrow) or pa.types.is_binary(arrow)) and mode not in {NONE, COUNTS}:
                self._leaves[index] = leaf
            leaf += count

    def choose(self, table: pa.Table) -> frozenset[int]:
        """Return the columns of some rows of which the encoder can tell the bounds."""
        return frozenset(i for i in self._leaves if _longest(table.column(i)) <= _TOLD_BYTES_MAX)

    def tell(self, metadata: pq.FileMetaData, told: Iterable[int], stats: StatsCollector) -> None:
        """Hand over the bounds of these columns from the metadata of the encoded rows."""
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            for index in told:
                found = group.column(self._leaves[index]).statistics
                if (
                    found is None
                    or not found.has_null_count
                    or (found.null_count < group.num_rows and not found.has_min_max)
                ):
                    stats.tell(index, None, None)
                elif found.has_min_max:
                    stats.tell(index, *_bounds(found))


def _longest(column: pa.ChunkedArray) -> int:
    return pc.max(pc.binary_length(column)).as_py() or 0


def _bounds(stats: pq.Statistics) -> tuple[Value, Value]:
    if stats.logical_type.type != "STRING":
        return stats.min_raw, stats.max_raw
    low, high = _text(stats.min_raw), _text(stats.max_raw)
    return (None, None) if low is None or high is None else (low, high)
