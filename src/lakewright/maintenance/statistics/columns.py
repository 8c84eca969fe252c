"""Statistics of columns: batches of rows in, counts, bounds, lengths and distinct values out; parts can be merged.

The numbers are those that Java's ANALYZE writes: texts and binary values have lengths and no bounds, other values have
bounds and the length of their type. NaN is the largest number, and both zeros are one value. No row is looked at in
Python.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.maintenance.statistics.sketch import DistinctSketch, lengths_of
from lakewright.metadata.statistics import ColumnStatistics
from lakewright.spec.rows.binary_row import decode_row, encode_row
from lakewright.spec.stats import is_nan
from lakewright.spec.types import BINARY_ROOTS, TEXT_ROOTS, TIMESTAMP_ROOTS, AtomicType, DataField, Value
from lakewright.spec.values import from_scalar, to_text

# The bytes of a value as Spark assumes them, by which Java's ANALYZE measures columns of fixed length, or of nulls.
_LENGTHS = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "BIGINT": 8, "FLOAT": 4, "DOUBLE": 8, "DATE": 4}
_LENGTHS |= {"TIME": 4} | dict.fromkeys(TIMESTAMP_ROOTS, 8)
_LENGTHS |= dict.fromkeys(TEXT_ROOTS, 20) | dict.fromkeys(BINARY_ROOTS, 100)
_VARIABLE = TEXT_ROOTS | BINARY_ROOTS
_NUMBERS = frozenset({"DATE", "TIME"})
_LONG_DECIMAL = 18  # digits that fit into eight bytes


def has_statistics(dtype: object) -> bool:
    """Say whether columns of a type can have statistics: nested and large values have none."""
    return isinstance(dtype, AtomicType) and (_length(dtype) > 0)


@dataclass(slots=True)
class ColumnCounts:
    """What is counted of one column."""

    column: DataField
    rows: int = 0
    nulls: int = 0
    low: Value = None
    high: Value = None
    length_total: int = 0
    length_max: int = 0
    distinct: DistinctSketch = field(default_factory=DistinctSketch)

    def add(self, values: pa.Array) -> None:
        """Take the next values of the column into account."""
        self.rows += len(values)
        self.nulls += values.null_count
        values = values.drop_null() if values.null_count else values
        if not len(values):
            return
        self.distinct.add(values)
        if self._dtype.root in _VARIABLE:
            lengths = lengths_of(values)
            self.length_total += pc.sum(lengths).as_py()
            self.length_max = max(self.length_max, pc.max(lengths).as_py())
        else:
            self._widen(*_bounds(values, self._dtype))

    def merge(self, other: ColumnCounts) -> None:
        """Take the values that another count has seen into account."""
        self.rows += other.rows
        self.nulls += other.nulls
        self.length_total += other.length_total
        self.length_max = max(self.length_max, other.length_max)
        self.distinct.merge(other.distinct)
        if other.low is not None:
            self._widen(other.low, other.high)

    def result(self) -> ColumnStatistics:
        """Return the statistics of all values so far."""
        dtype, values = self._dtype, self.rows - self.nulls
        average = longest = _length(dtype)
        if dtype.root in _VARIABLE and values:
            average, longest = -(-self.length_total // values), self.length_max
        return ColumnStatistics(
            column_id=self.column.id,
            distinct_count=self.distinct.count,
            min=_text(self.low, dtype),
            max=_text(self.high, dtype),
            null_count=self.nulls,
            avg_len=average,
            max_len=longest,
        )

    def to_members(self) -> dict[str, object]:
        """Return what is counted as members of JSON; bounds and hashes are bytes in base64."""
        bounds = encode_row([self.low, self.high], [self._dtype, self._dtype])
        return {
            "counts": [self.rows, self.nulls, self.length_total, self.length_max],
            "bounds": base64.b64encode(bounds).decode(),
            "hashes": base64.b64encode(self.distinct.hashes.tobytes()).decode(),
        }

    @classmethod
    def from_members(cls, column: DataField, members: dict[str, Any]) -> Self:
        """Return the count of a column that `to_members` wrote."""
        rows, nulls, total, longest = members["counts"]
        low, high = decode_row(base64.b64decode(members["bounds"]), [column.type, column.type])
        hashes = np.frombuffer(base64.b64decode(members["hashes"]), np.uint64)
        return cls(column, rows, nulls, low, high, total, longest, DistinctSketch(hashes))

    @property
    def _dtype(self) -> AtomicType:
        dtype = self.column.type
        if not isinstance(dtype, AtomicType):
            raise TypeError(f"{self.column.name} is a {dtype}, which has no statistics")
        return dtype

    def _widen(self, low: Value, high: Value) -> None:
        self.low = low if self.low is None else min(self.low, low, key=_order)
        self.high = high if self.high is None else max(self.high, high, key=_order)


@dataclass(slots=True)
class RowCounts:
    """What is counted of the rows of a table, or of a part of it."""

    columns: tuple[ColumnCounts, ...]
    rows: int = 0

    @classmethod
    def of(cls, columns: Iterable[DataField]) -> Self:
        """Return the count of no rows."""
        return cls(tuple(ColumnCounts(column) for column in columns))

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the next rows into account; a batch has the counted columns, and perhaps others."""
        self.rows += batch.num_rows
        for counts in self.columns:
            counts.add(batch.column(counts.column.name))

    def merge(self, other: RowCounts) -> None:
        """Take the rows of another part into account."""
        self.rows += other.rows
        for mine, theirs in zip(self.columns, other.columns, strict=True):
            mine.merge(theirs)

    def serialize(self) -> bytes:
        """Return what is counted as bytes that can travel to another process."""
        return json.dumps([self.rows, *(counts.to_members() for counts in self.columns)]).encode()

    @classmethod
    def deserialize(cls, data: bytes, columns: Sequence[DataField]) -> Self:
        """Return the count that `serialize` wrote of these columns."""
        rows, *members = json.loads(data)
        pairs = zip(columns, members, strict=True)
        return cls(tuple(ColumnCounts.from_members(column, one) for column, one in pairs), rows)


def _length(dtype: AtomicType) -> int:
    if dtype.root == "DECIMAL":
        return 8 if dtype.precision <= _LONG_DECIMAL else 16
    return _LENGTHS.get(dtype.root, 0)


def _bounds(values: pa.Array, dtype: AtomicType) -> tuple[Value, Value]:
    """Return the smallest and the largest value; NaN is larger than all numbers."""
    if not pa.types.is_floating(values.type):
        extremes = pc.min_max(values)
        return from_scalar(extremes["min"], dtype), from_scalar(extremes["max"], dtype)
    numbers = values.filter(pc.invert(pc.is_nan(values)))
    extremes = pc.min_max(numbers)
    nan = float("nan")
    low = nan if not len(numbers) else from_scalar(extremes["min"], dtype)
    return low, nan if len(numbers) < len(values) else from_scalar(extremes["max"], dtype)


def _text(bound: Value, dtype: AtomicType) -> str | None:
    """Return a bound as statistics files have it: days and times of a day are numbers, all else is Java's text.

    >>> _text(19782, AtomicType("DATE")), _text(1.5, AtomicType("DOUBLE"))
    ('19782', '1.5')
    """
    if bound is None or dtype.root in _NUMBERS:
        return None if bound is None else str(bound)
    text = to_text(bound, dtype)
    # Java cannot read the sign of a year beyond 9999 or before 0, and then reads no statistics of the table at all.
    return None if dtype.root in TIMESTAMP_ROOTS and text[0] in "+-" else text


def _order(value: Value) -> tuple[bool, Value]:
    """Return a sort key in which NaN is the largest number."""
    return (True, 0.0) if is_nan(value) else (False, value)
