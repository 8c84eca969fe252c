"""What the rows of a file must fulfil: batches of rows in, faults out, each a kind of finding and a sentence.

Every check looks at batches one after the other and keeps only what it must compare: bounds, counts, the last key. No
row is looked at in Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import CorruptTableError
from lakewright.formats.base import StatsCollector, file_format_of
from lakewright.formats.hash_index import Hashes
from lakewright.lsm.keys import Key, KeyOrder
from lakewright.read.projection import ROW_ID
from lakewright.spec.buckets import bucket_ids, row_hashes
from lakewright.spec.datafile import DataFile
from lakewright.spec.keyed_rows import RETRACTS, SEQUENCE_NUMBER, VALUE_KIND
from lakewright.spec.rows.binary_row import decode_row, encode_row
from lakewright.spec.stats import FULL, ColumnStats, field_stats
from lakewright.spec.types import AtomicType, DataField, Value
from lakewright.spec.values import from_scalar
from lakewright.verify.tasks import IdRun

Fault: TypeAlias = tuple[str, str]  # a kind of finding, and what is wrong
_SECOND = 10**9
_VALUES_MAX = 8  # distinct values of a partition column that are looked at


class Check(Protocol):
    """One thing that the rows of a file must fulfil."""

    def add(self, rows: pa.Table) -> None:
        """Take the next rows of the file into account."""

    def faults(self) -> Iterator[Fault]:
        """Yield what is wrong, after the last rows."""


class Statistics:
    """The recorded null counts and bounds of columns are those of the rows."""

    def __init__(self, file: DataFile, schema_fields: Sequence[DataField], held: Sequence[DataField]) -> None:
        self._recorded: dict[str, ColumnStats] = {}
        self._broken: list[str] = []
        for column in held:
            try:
                stats = field_stats(file, column.name, schema_fields)
            except CorruptTableError as error:
                self._broken.append(error.message)
            else:
                self._recorded.update({} if stats is None else {column.name: stats})
        self._fields = [column for column in held if column.name in self._recorded]
        self._orc = file_format_of(file.file_name) == "orc"
        self._collector = StatsCollector(self._fields, [FULL] * len(self._fields))

    @classmethod
    def of_keys(cls, file: DataFile, key: Sequence[DataField]) -> Statistics:
        """Return the check of the statistics of the key columns, which are recorded apart."""
        return cls(replace(file, value_stats=file.key_stats, value_stats_cols=None, write_cols=None), key, key)

    def add(self, rows: pa.Table) -> None:
        """Take rows into account."""
        self._collector.add(rows.select([f.name for f in self._fields]))

    def faults(self) -> Iterator[Fault]:
        """Yield the columns whose statistics are wrong."""
        for text in self._broken:
            yield "column-statistics", text
        for column, actual in zip(self._fields, self._collector.result(), strict=True):
            recorded = self._recorded[column.name]
            if actual is None:
                continue
            if recorded.null_count is not None and recorded.null_count != actual.null_count:
                text = (
                    f"{actual.null_count} nulls in the column {column.name}, where {recorded.null_count} are recorded"
                )
                yield "column-statistics", text
            yield from _bound_faults(column, recorded, actual, orc=self._orc)


def _bound_faults(column: DataField, recorded: ColumnStats, actual: ColumnStats, *, orc: bool) -> Iterator[Fault]:
    root = column.type.root if isinstance(column.type, AtomicType) else ""
    if orc and root == "TIMESTAMP_LTZ":
        return  # the file has the times of the writer's zone, the statistics have not
    # ORC files lose the sign of a fraction in the second before 1970.
    slack = _SECOND if orc and root == "TIMESTAMP" else 0
    low, high = actual.min, actual.max
    said = f"the column {column.name} has values from {_shown(low)} to {_shown(high)}, where"
    said = f"{said} {_shown(recorded.min)} to {_shown(recorded.max)} is recorded"
    if low is not None and (_below(low, recorded.min, slack) or _below(recorded.max, high, slack)):
        yield "column-statistics", said
    elif not orc and root != "CHAR" and (actual.all_null or low is not None) and _too_wide(recorded, actual):
        yield "wide-statistics", said


def _shown(value: Value) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."  # noqa: PLR2004 - what fits a line


def _below(value: Value, bound: Value, slack: int) -> bool:
    """Say whether a value is below another, both known."""
    if value is None or bound is None:
        return False
    if slack and isinstance(value, int):
        value += slack
    return value < bound  # type: ignore[operator]  # both are of one type


def _too_wide(recorded: ColumnStats, actual: ColumnStats) -> bool:
    """Say whether bounds are not values of the column, or truncated ones."""
    low, high = recorded.min, recorded.max
    if actual.all_null:
        return low is not None or high is not None
    if low is not None and _below(low, actual.min, 0):
        cut = isinstance(low, str | bytes) and actual.min[: len(low)] == low  # type: ignore[index]  # a text as well
        if not cut:
            return True
    if high is not None and _below(actual.max, high, 0):
        whole = actual.max
        rounded = isinstance(high, str | bytes) and isinstance(whole, str | bytes) and len(high) > 0
        return not (rounded and len(whole) >= len(high) and whole[: len(high) - 1] == high[:-1])  # type: ignore[arg-type, index]
    return False


@dataclass(slots=True)
class Keys:
    """Keys ascend, each is there once, and the first and the last are the recorded ones; see `lsm.keys`."""

    file: DataFile
    order: KeyOrder
    strict: bool  # False: keys may repeat or be in any order, as in a changelog
    _first: Key | None = None
    _last: Key | None = None
    _ascend: bool = True

    def add(self, rows: pa.Table) -> None:
        """Take rows into account."""
        first, last = self.order.key_at(rows, 0), self.order.key_at(rows, rows.num_rows - 1)
        if self._first is None:
            self._first = first
        elif self._last is not None and first <= self._last:
            self._ascend = False
        self._ascend = self._ascend and self.order.is_ascending(rows)
        self._last = last

    def faults(self) -> Iterator[Fault]:
        """Yield faults of order and range."""
        if self.strict and not self._ascend:
            yield "key-order", "its keys are not in order, or one is there twice"
        types = [f.type for f in self.order.fields]
        bounds = []
        for name, data in (("first", self.file.min_key), ("last", self.file.max_key)):
            try:
                bounds.append(decode_row(data, types))
            except CorruptTableError as error:
                yield "key-range", f"its recorded {name} key cannot be read: {error}"
                return
        if self._first is not None and (self._first, self._last) != tuple(map(self.order.key_of, bounds)):
            text = (
                f"its keys go from {_key_text(self._first)} to {_key_text(self._last)}, where {_shown_row(bounds[0])}"
            )
            yield "key-range", f"{text} to {_shown_row(bounds[1])} is recorded"


def _key_text(key: Key | None) -> str:
    return ", ".join(_shown(part[0] if part else None) for part in key or ())  # type: ignore[arg-type]


def _shown_row(values: Sequence[Value]) -> str:
    return ", ".join(map(_shown, values))


@dataclass(slots=True)
class Sequences:
    """The recorded range of sequence numbers is that of the rows."""

    file: DataFile
    _low: int | None = None
    _high: int | None = None

    def add(self, rows: pa.Table) -> None:
        """Take rows into account."""
        bounds = pc.min_max(rows.column(SEQUENCE_NUMBER.name)).as_py()
        if bounds["min"] is not None:
            self._low = bounds["min"] if self._low is None else min(self._low, bounds["min"])
            self._high = bounds["max"] if self._high is None else max(self._high, bounds["max"])

    def faults(self) -> Iterator[Fault]:
        """Yield a wrong range."""
        recorded = (self.file.min_sequence_number, self.file.max_sequence_number)
        if self._low is not None and (self._low, self._high) != recorded:
            text = f"its sequence numbers go from {self._low} to {self._high}, where {recorded[0]} to {recorded[1]}"
            yield "sequence-range", f"{text} is recorded"


@dataclass(slots=True)
class Kinds:
    """The recorded number of rows that delete is that of the rows, and every row kind is known."""

    file: DataFile
    _deletes: int = 0
    _unknown: int = 0

    def add(self, rows: pa.Table) -> None:
        """Take rows into account."""
        kinds = np.asarray(rows.column(VALUE_KIND.name).fill_null(-1))
        self._deletes += int(np.isin(kinds, list(RETRACTS)).sum())
        self._unknown += int(((kinds < 0) | (kinds > 3)).sum())  # noqa: PLR2004 - four kinds, from 0 on

    def faults(self) -> Iterator[Fault]:
        """Yield a wrong count."""
        recorded = self.file.delete_row_count
        if recorded is not None and recorded != self._deletes:
            yield "delete-count", f"{self._deletes} of its rows delete, where {recorded} are recorded"
        if self._unknown:
            yield "row-kinds", f"{self._unknown} of its rows have no row kind that the format knows"


@dataclass(slots=True)
class KeyCopies:
    """The copies of the key columns have the values of the key columns."""

    pairs: Sequence[tuple[str, str]]  # a key column, and its copy
    _wrong: set[str] = field(default_factory=set)

    def add(self, rows: pa.Table) -> None:
        """Take rows into account."""
        for column, copy in self.pairs:
            if not rows.column(column).equals(rows.column(copy)) and not _equal_bits(
                rows.column(column), rows.column(copy)
            ):
                self._wrong.add(column)

    def faults(self) -> Iterator[Fault]:
        """Yield the columns with other values than their copy."""
        for column in sorted(self._wrong):
            yield "key-copies", f"the column {column} and its copy among the keys have different values"


def _equal_bits(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    """Say whether floating-point columns are equal, NaN to NaN."""
    if not pa.types.is_floating(one.type):
        return False
    return bool(np.array_equal(one.to_numpy(), other.to_numpy(), equal_nan=True))


@dataclass(slots=True)
class Partition:
    """The partition columns have the values of the partition in which the manifest places the file."""

    fields: Sequence[DataField]  # those that the file holds
    values: Sequence[Value]
    _wrong: dict[str, str] = field(default_factory=dict)

    def add(self, rows: pa.Table) -> None:
        """Take rows into account."""
        for column, value in zip(self.fields, self.values, strict=True):
            found = pc.unique(rows.column(column.name))
            expected = encode_row([value], [column.type])
            for scalar in found[:_VALUES_MAX]:
                there = from_scalar(scalar, column.type)
                if encode_row([there], [column.type]) != expected:
                    self._wrong.setdefault(column.name, f"{_shown(there)} where its partition has {_shown(value)}")

    def faults(self) -> Iterator[Fault]:
        """Yield the columns with values of other partitions."""
        for column, text in self._wrong.items():
            yield "wrong-partition", f"rows have in the partition column {column} the value {text}"


@dataclass(slots=True)
class Bucket:
    """Every row belongs to the bucket in which the manifest places the file."""

    fields: Sequence[DataField]
    function: str
    bucket: int
    total_buckets: int
    _wrong: int = 0

    def add(self, rows: pa.Table) -> None:
        """Take rows into account."""
        columns = [rows.column(f.name) for f in self.fields]
        ids = bucket_ids(columns, [f.type for f in self.fields], function=self.function, buckets=self.total_buckets)
        self._wrong += int((ids != self.bucket).sum())

    def faults(self) -> Iterator[Fault]:
        """Yield rows of other buckets."""
        if self._wrong:
            yield "wrong-bucket", f"{self._wrong} of its rows belong to another bucket than {self.bucket}"


@dataclass(slots=True)
class HashIndex:
    """The hash of every key is in the index file of the bucket."""

    fields: Sequence[DataField]
    hashes: Hashes
    name: str
    _missing: int = 0

    def add(self, rows: pa.Table) -> None:
        """Take rows into account."""
        found = row_hashes([rows.column(f.name) for f in self.fields], [f.type for f in self.fields])
        self._missing += int((~np.isin(found, self.hashes)).sum())

    def faults(self) -> Iterator[Fault]:
        """Yield keys that the index lacks."""
        if self._missing:
            yield "hash-index", f"the index file {self.name} lacks the hashes of {self._missing} of its keys"


@dataclass(slots=True)
class RowIds:
    """Every row of a file that holds row ids has one; which ids these are is kept as runs."""

    has_first: bool
    runs: list[IdRun] = field(default_factory=list)
    _position: int = 0
    _nulls: int = 0

    def add(self, rows: pa.Table) -> None:
        """Take rows into account."""
        column = rows.column(ROW_ID.name)
        self._nulls += column.null_count
        ids = np.asarray(column.fill_null(-1))
        starts = np.concatenate(([0], np.flatnonzero(np.diff(ids) != 1) + 1, [len(ids)]))
        for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            if ids[start] >= 0:
                self.runs.append((self._position + start, int(ids[start]), end - start))
        self._position += len(ids)

    def faults(self) -> Iterator[Fault]:
        """Yield rows without an id."""
        if self._nulls and not self.has_first:
            yield "row-ids", f"{self._nulls} of its rows have no row id, and the file has no first one"
