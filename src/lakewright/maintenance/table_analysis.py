"""ANALYZE: counts, bounds and distinct values, on any engine."""

from __future__ import annotations

import base64
import hashlib
import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.commit.commit_changes import MessageFile
from lakewright.commit.commit_loop import RetryPolicy, plan_and_publish
from lakewright.commit.committer import Committer
from lakewright.display import HtmlRepr
from lakewright.engine.engine import Engine, Job, TaskId, TaskResult, Work
from lakewright.errors import ColumnNotExistException, InvalidInputError, UnsupportedError
from lakewright.metadata.table_statistics import ColumnStatistics, TableStatistics
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.read.read_builder import ReadBuilder
from lakewright.read.split_sharing import share_splits
from lakewright.read.time_travel import has_time_travel
from lakewright.spec import argument_checks
from lakewright.spec.binary_row import decode_row, encode_row
from lakewright.spec.column_stats import is_nan
from lakewright.spec.manifest import count_rows
from lakewright.spec.scalars import from_scalar, to_text
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.types import BINARY_ROOTS, TEXT_ROOTS, TIMESTAMP_ROOTS, AtomicType, DataField, Value

# ---- Distinct values -------------------------------------------------------------------------------------------------
# Every value has a 64-bit hash, and the sketch keeps the smallest `KEPT` of them. A column with fewer distinct values
# is counted exactly (but for two values with one hash, which is as good as impossible below that number). With more
# of them, the largest hash that is kept says how densely hashes lie: the standard error is 1 / sqrt(KEPT), 0.8
# percent. Sketches of parts merge into the sketch of the whole, so that workers can count.

KEPT = 1 << 14
_WORD = 8
_LONG = 256  # bytes; longer values are hashed one by one, because few rows share their last words
_RANGE = 2.0**64
_STEP, _MIX_1, _MIX_2 = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))

Hashes = npt.NDArray[np.uint64]


@dataclass(slots=True)
class DistinctSketch:
    """The smallest hashes of the values seen so far, in order."""

    hashes: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))

    def add(self, values: pa.Array) -> None:
        """Take values without nulls into account."""
        self._add(value_hashes(values))

    def merge(self, other: DistinctSketch) -> None:
        """Take the values of another sketch into account."""
        self._add(other.hashes)

    def _add(self, hashes: Hashes) -> None:
        if len(self.hashes) == KEPT:
            hashes = hashes[hashes < self.hashes[-1]]
        if len(hashes):
            self.hashes = np.union1d(self.hashes, hashes)[:KEPT]

    @property
    def count(self) -> int:
        """How many distinct values there are: exact below `KEPT`, else an estimate."""
        if len(self.hashes) < KEPT:
            return len(self.hashes)
        return round((KEPT - 1) * _RANGE / (float(self.hashes[-1]) + 1))


def value_hashes(values: pa.Array) -> Hashes:
    """Return a 64-bit hash of each value of an array without nulls; equal values, such as both zeros, have one hash."""
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _byte_hashes(values.cast(pa.large_binary()))
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return _byte_hashes(values.cast(pa.large_binary()))
    if pa.types.is_decimal(kind):
        words = np.frombuffer(values.buffers()[1], np.uint64).reshape(-1, kind.byte_width // _WORD)
        words = words[values.offset : values.offset + len(values)]
        mixed = np.zeros(len(values), np.uint64)
        for column in words.T:
            mixed = _mix_hashes(mixed ^ column)
        return mixed
    if pa.types.is_floating(kind):
        numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0  # -0.0 becomes 0.0
        return _mix_hashes(np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64))
    if pa.types.is_boolean(kind):
        values = values.cast(pa.uint8())
    elif pa.types.is_temporal(kind):
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())  # noqa: PLR2004 - bits of a number
    return _mix_hashes(values.cast(pa.int64()).to_numpy(zero_copy_only=False).view(np.uint64))


def _byte_hashes(values: pa.Array) -> Hashes:
    """Return the hashes of byte strings: word by word, of all rows that have another word."""
    offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
    starts, lengths = offsets[:-1], np.diff(offsets)
    stored = values.buffers()[2]
    data = np.frombuffer(stored, np.uint8) if stored is not None and stored.size else np.zeros(1, np.uint8)
    hashes = _mix_hashes(lengths.astype(np.uint64))
    active = np.flatnonzero((lengths > 0) & (lengths <= _LONG))
    for first in range(0, _LONG, _WORD):
        active = active[lengths[active] > first]
        if not len(active):
            break
        at = np.arange(first, first + _WORD)
        inside = at < lengths[active, None]
        places = np.where(inside, starts[active, None] + at, 0)
        words = np.where(inside, data[places], 0).astype(np.uint8).view(np.uint64)[:, 0]
        hashes[active] = _mix_hashes(hashes[active] ^ words)
    for row in np.flatnonzero(lengths > _LONG).tolist():
        digest = hashlib.blake2b(data[starts[row] : offsets[row + 1]].tobytes(), digest_size=_WORD).digest()
        hashes[row] = int.from_bytes(digest, "little")
    return hashes


def _mix_hashes(words: Hashes) -> Hashes:
    """Spread the bits of each word over the whole of it, one to one; overflow wraps, as it shall."""
    mixed = words + _STEP
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX_1
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX_2
    return mixed ^ (mixed >> np.uint64(31))


def lengths_of(values: pa.Array) -> pa.Array:
    """Return the length of each text in characters, of each binary value in bytes."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return pc.utf8_length(values)
    return pc.binary_length(values)


# ---- Statistics of columns -------------------------------------------------------------------------------------------
# The numbers are those that Java's ANALYZE writes: texts and binary values have lengths and no bounds, other values
# have bounds and the length of their type. NaN is the largest number, and both zeros are one value. No row is looked
# at in Python.

# The bytes of a value as Spark assumes them, by which Java's ANALYZE measures columns of fixed length, or of nulls.
_LENGTHS = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "BIGINT": 8, "FLOAT": 4, "DOUBLE": 8, "DATE": 4}
_LENGTHS |= {"TIME": 4} | dict.fromkeys(TIMESTAMP_ROOTS, 8)
_LENGTHS |= dict.fromkeys(TEXT_ROOTS, 20) | dict.fromkeys(BINARY_ROOTS, 100)
_VARIABLE = TEXT_ROOTS | BINARY_ROOTS
_NUMBERS = frozenset({"DATE", "TIME"})
_LONG_DECIMAL = 18  # digits that fit into eight bytes


def has_statistics(dtype: object) -> bool:
    """Return whether columns of a type can have statistics: nested and large values have none."""
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


# ---- ANALYZE ---------------------------------------------------------------------------------------------------------
# Invariant: rows are counted as a reader sees them, merged and without deleted ones; a commit that comes
# between the count and the snapshot does not matter, but a change of the schema, or a rollback, has all counted
# again.

Columns: TypeAlias = str | Sequence[str] | None  # a name, names, or `all`
# How rows are counted: the table, splits, and the columns to count in; what was counted out.
CountRows: TypeAlias = Callable[[TableStore, Sequence[DataSplit], Sequence[DataField]], RowCounts]
ALL = "all"


@dataclass(frozen=True, slots=True)
class AnalyzeResult(HtmlRepr):
    """What was found, and the snapshot that records it."""

    snapshot_id: int | None  # None: the table has no snapshot yet, so there was nothing to analyze
    analyzed_id: int | None  # the snapshot whose rows were counted
    rows: int
    size: int  # bytes of the data files that these rows make up
    columns: Mapping[str, ColumnStatistics]
    seconds: float


@dataclass(frozen=True, slots=True)
class _Counted:
    """Statistics that are not published yet."""

    store: TableStore  # with the schema whose columns were counted
    of: Snapshot
    found: TableStatistics


def count_here(store: TableStore, splits: Sequence[DataSplit], columns: Sequence[DataField]) -> RowCounts:
    """Count the rows of splits, and the values of columns, in this process."""
    counts = RowCounts.of(columns)
    names = [column.name for column in columns] or [next(iter(store.schema.primary_keys), store.schema.fields[0].name)]
    reader = ReadBuilder(store).with_projection(names).new_read().to_arrow_batch_reader(splits)
    for batch in reader:
        counts.add(batch)
    return counts


def analyze_table(store: TableStore, columns: Columns, count: CountRows = count_here) -> AnalyzeResult:
    """Count the rows of the newest snapshot, and the values of columns, and publish what was counted."""
    if has_time_travel(store):
        raise InvalidInputError(
            f"{store.name}: statistics are those of the newest snapshot; analyze the table without its scan options",
            table=store.name,
        )
    started = time.monotonic()
    chosen_columns(store, columns)  # before any work

    def prepare(_: Snapshot | None) -> _Counted | None:
        newest = store.refreshed()
        plan = ReadBuilder(newest).new_scan().plan()
        if plan.snapshot is None:
            return None
        chosen = chosen_columns(newest, columns)
        return _Counted(newest, plan.snapshot, _statistics(newest, plan.snapshot, plan.splits(), chosen, count))

    def publish(made: _Counted | None, _: Snapshot | None) -> Snapshot | None:
        if made is None:
            return None
        file = write_statistics(made.store, made.found)
        return Committer(made.store, sole=True).name_statistics(file, of=made.of, schema_id=made.found.schema_id)

    attempt = plan_and_publish(store, prepare, publish, RetryPolicy.of(store))
    seconds = time.monotonic() - started
    if attempt.made is None or attempt.published is None:
        return AnalyzeResult(None, None, 0, 0, {}, seconds)
    found = attempt.made.found
    return AnalyzeResult(
        attempt.published.id, found.snapshot_id, found.row_count or 0, found.size or 0, found.columns, seconds
    )


def chosen_columns(store: TableStore, columns: object) -> tuple[DataField, ...]:
    """Return the columns that a caller names: None is no column, `all` all that can have statistics."""
    if columns is None:
        return ()
    if isinstance(columns, str) and columns == ALL and ALL not in {field.name for field in store.schema.fields}:
        return tuple(field for field in store.schema.fields if has_statistics(field.type))
    known = {field.name: field for field in store.schema.fields}
    names = argument_checks.check_names("columns", columns)
    for name in names:
        if name not in known:
            hint = argument_checks.suggest_name(name, list(known))
            raise ColumnNotExistException(f"{store.name} has no column {name!r}; {hint}", column=name)
        if not has_statistics(known[name].type):
            kind = known[name].type
            message = f"{store.name}: the column {name} is {kind}, and the format has no statistics of such values"
            raise UnsupportedError(f"{message}; leave it out", column=name)
    return tuple(known[name] for name in dict.fromkeys(names))


def _statistics(
    store: TableStore,
    snapshot: Snapshot,
    splits: Sequence[DataSplit],
    columns: Sequence[DataField],
    count: CountRows,
) -> TableStatistics:
    known = 0
    if not columns:  # the facts of files say how many rows most splits have
        merged = [(split, split.merged_row_count()) for split in splits]
        known = sum(rows or 0 for _, rows in merged)
        splits = [split for split, rows in merged if rows is None]
    counts = count(store, splits, columns) if splits else RowCounts.of(columns)
    rows = known + counts.rows
    found = {one.column.name: one.result() for one in counts.columns}
    return TableStatistics(snapshot.id, store.schema.id, rows, _size(store, snapshot, rows), found)


def _size(store: TableStore, snapshot: Snapshot, rows: int) -> int:
    """Return the bytes of the data files, in the share that the merged rows are of all rows in them."""
    files = [entry.file for entry in store.manifests.live(snapshot)]
    size, total = sum(file.file_size for file in files), count_rows(files)
    return size if rows >= total else size * rows // total


def write_statistics(store: TableStore, statistics: TableStatistics) -> MessageFile:
    """Write a statistics file, which no snapshot names yet."""
    name, data = f"stat-{uuid.uuid4()}-0", statistics.to_json().encode()
    path = store.layout.statistics_file(name)
    store.storage.create(path, data)
    return MessageFile(name, path, len(data))


# ---- On workers ------------------------------------------------------------------------------------------------------


def counting_on(workers: Engine[Work]) -> CountRows:
    """Return how rows are counted by workers."""
    return partial(_run, workers)


def _run(
    workers: Engine[Work], store: TableStore, splits: Sequence[DataSplit], columns: Sequence[DataField]
) -> RowCounts:
    parts = [
        [split.serialize() for split in share] for share in share_splits(store, splits, at_least=workers.tasks_at_once)
    ]
    what = f"analyze {store.name}"
    work = workers.share_out(parts, partial(_count, store, tuple(columns)), description=what)
    counts = RowCounts.of(columns)
    for result in workers.run(Job(store, str(uuid.uuid4()), work)).results:
        counts.merge(RowCounts.deserialize(result.data, columns))
    return counts


def _count(store: TableStore, columns: Sequence[DataField], _this: TaskId, splits: Iterator[bytes]) -> TaskResult:
    """Count the rows of one share, on a worker."""
    counts = count_here(store, [DataSplit.deserialize(split) for split in splits], columns)
    return TaskResult(data=counts.serialize())
