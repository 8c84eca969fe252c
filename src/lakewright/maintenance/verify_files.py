"""Data and index files, opened and checked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import CorruptTableError, LakewrightError, UnsupportedError, pluralize
from lakewright.formats.blob_files import TAIL_BYTES, check_entries, read_blob_index
from lakewright.formats.file_format import FileReader, StatsCollector, translate_decode_errors
from lakewright.formats.format_registry import file_format_of, open_reader
from lakewright.formats.hash_index import Hashes, decode_hashes
from lakewright.formats.index_kinds import INDEX_KINDS
from lakewright.lsm.key_order import Key, KeyOrder
from lakewright.maintenance.verify_findings import FULL_DEPTH, FileReport, FileTask, Finding, IdRun, finding, is_damage
from lakewright.maintenance.verify_states import IndexNeeded, branch_store
from lakewright.metadata.table_store import TableStore
from lakewright.read.projection import ROW_TRACKING_FIELDS
from lakewright.read.pruning import written_fields
from lakewright.spec.binary_row import decode_row, encode_row
from lakewright.spec.bucket_hash import bucket_ids, row_hashes
from lakewright.spec.column_stats import FULL, ColumnStats, field_stats
from lakewright.spec.manifest import APPEND, HASH, DataFile, IndexEntry, count_rows, is_blob_file, is_side_file
from lakewright.spec.scalars import from_scalar
from lakewright.spec.system_columns import KEYED_FIELDS, RETRACTS, ROW_ID, SEQUENCE_NUMBER, VALUE_KIND, key_copies
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import AtomicType, DataField, Value

# ---- Checks of rows --------------------------------------------------------------------------------------------------
# Every check looks at batches one after the other and keeps only what it must compare: bounds, counts, the last key.
# No row is looked at in Python.

Fault: TypeAlias = tuple[str, str]  # a kind of finding, and what is wrong
_SECOND = 10**9
_VALUES_MAX = 8  # distinct values of a partition column that are looked at


class RowCheck(Protocol):
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
    said = f"the column {column.name} has values from {_format_value(low)} to {_format_value(high)}, where"
    said = f"{said} {_format_value(recorded.min)} to {_format_value(recorded.max)} is recorded"
    if low is not None and (_below(low, recorded.min, slack) or _below(recorded.max, high, slack)):
        yield "column-statistics", said
    elif not orc and root != "CHAR" and (actual.all_null or low is not None) and _too_wide(recorded, actual):
        yield "wide-statistics", said


def _format_value(value: Value) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."  # noqa: PLR2004 - what fits a line


def _below(value: Value, bound: Value, slack: int) -> bool:
    """Return whether a value is below another, both known."""
    if value is None or bound is None:
        return False
    if slack and isinstance(value, int):
        value += slack
    return value < bound  # type: ignore[operator]  # both are of one type


def _too_wide(recorded: ColumnStats, actual: ColumnStats) -> bool:
    """Return whether bounds are not values of the column, or truncated ones."""
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
class KeyCheck:
    """Keys ascend, each is there once, and the first and the last are the recorded ones; see `lsm.key_order`."""

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
    return ", ".join(_format_value(part[0] if part else None) for part in key or ())  # type: ignore[arg-type]


def _shown_row(values: Sequence[Value]) -> str:
    return ", ".join(map(_format_value, values))


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
    """Return whether floating-point columns are equal, NaN to NaN."""
    if not pa.types.is_floating(one.type):
        return False
    return bool(np.array_equal(one.to_numpy(), other.to_numpy(), equal_nan=True))


@dataclass(slots=True)
class PartitionCheck:
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
                    self._wrong.setdefault(
                        column.name, f"{_format_value(there)} where its partition has {_format_value(value)}"
                    )

    def faults(self) -> Iterator[Fault]:
        """Yield the columns with values of other partitions."""
        for column, text in self._wrong.items():
            yield "wrong-partition", f"rows have in the partition column {column} the value {text}"


@dataclass(slots=True)
class BucketCheck:
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


# ---- Checks of data files --------------------------------------------------------------------------------------------
# An error of the storage that is not about this one file is raised; everything else that is wrong with the file is a
# finding in the report.

BATCH_ROWS = 1 << 17
_INDEX_MAGIC = (1493475289347502).to_bytes(8, "big")  # begins the side file of file indexes


@dataclass(slots=True)
class FileChecker:
    """Checks files of one table; threads may share it."""

    store: TableStore
    depth: str
    _stores: dict[str, TableStore] = field(default_factory=dict)
    _schemas: dict[tuple[str, int], TableSchema] = field(default_factory=dict)

    def check(self, task: FileTask) -> FileReport:
        """Return what is wrong with one file."""
        findings: list[Finding] = []
        file = task.file
        report = FileReport()
        with _noting(findings, self.store.layout.root):
            store = self._store(task.branch)
            path = store.layout.data_file(store.partition_directory(task.partition), task.bucket, file)
            with _noting(findings, path):
                report = self._check_file(store, task, path, findings)
        return FileReport(tuple(findings), report.rows, file.file_size, report.id_runs)

    def _store(self, branch: str) -> TableStore:
        if branch not in self._stores:
            self._stores[branch] = branch_store(self.store, branch)
        return self._stores[branch]

    def _schema(self, store: TableStore, schema_id: int) -> TableSchema:
        key = store.layout.branch, schema_id
        if key not in self._schemas:
            self._schemas[key] = store.schemas.get(schema_id)
        return self._schemas[key]

    def _check_file(self, store: TableStore, task: FileTask, path: str, findings: list[Finding]) -> FileReport:
        file = task.file
        if is_blob_file(file):
            self._check_blobs(store, file, path, findings)
            return FileReport()
        with translate_decode_errors(path), _open_data_file(store, file, path, ()) as reader:
            if reader.row_count != file.row_count:
                text = f"{path} has {pluralize(reader.row_count, 'row')} where {file.row_count} are recorded"
                findings.append(finding("row-count", path, text))
            stored = reader.stored_columns
        for name in file.extra_files:
            if name.endswith(".index"):
                _check_side_index(store, f"{path.rpartition('/')[0]}/{name}", findings)
        if self.depth != FULL_DEPTH:
            return FileReport(rows=count_rows([file]))
        schema = self._schema(store, file.schema_id)
        columns = _columns_to_read(schema, file, stored)
        checks = list(_checks(store, schema, task, columns, stored))
        with translate_decode_errors(path), _open_data_file(store, file, path, columns) as reader:
            count = _read_all(reader, checks)
        if count not in {reader.row_count, file.row_count}:
            findings.append(finding("row-count", path, f"{path} gave {pluralize(count, 'row')}"))
        findings += [finding(kind, path, f"{path}: {text}") for one in checks for kind, text in one.faults()]
        runs = next((tuple(one.runs) for one in checks if isinstance(one, RowIds)), ())
        return FileReport(rows=0 if is_side_file(file) else count, id_runs=runs)

    def _check_blobs(self, store: TableStore, file: DataFile, path: str, findings: list[Finding]) -> None:
        """Check the index of a `.blob` file, and in full depth the checksum of every value."""
        with store.storage.open_input(path, size=file.file_size, end_bytes=TAIL_BYTES) as source:
            index = read_blob_index(source, path=path, size=file.file_size)
            if index.row_count != file.row_count:
                text = f"{path} has {pluralize(index.row_count, 'row')} where {file.row_count} are recorded"
                findings.append(finding("row-count", path, text))
            if self.depth == FULL_DEPTH:
                check_entries(source, index, path=path)


@contextmanager
def _noting(findings: list[Finding], path: str) -> Iterator[None]:
    """Turn what damage raises into a finding about a file."""
    try:
        yield
    except UnsupportedError as error:
        findings.append(finding("not-opened", path, f"{path} was not read: {error.message}"))
    except LakewrightError as error:
        kind = "missing-column" if "it lacks the column" in error.message else "damaged-file"
        findings.append(finding(kind, path, error.message))
    except OSError as error:
        if not is_damage(error):
            raise
        kind = "missing-file" if isinstance(error, FileNotFoundError) else "damaged-file"
        findings.append(finding(kind, path, f"{path} cannot be read: {error}"))


@contextmanager
def _open_data_file(store: TableStore, file: DataFile, path: str, fields: Sequence[DataField]) -> Iterator[FileReader]:
    source = store.storage.open_input(path, size=file.file_size)
    reader = open_reader(file_format_of(file.file_name), source, path=path, size=file.file_size, fields=fields)
    try:
        yield reader
    finally:
        reader.close()


def _read_all(reader: FileReader, checks: Sequence[RowCheck]) -> int:
    count = 0
    for _, batch in reader.batches(batch_rows=BATCH_ROWS):
        count += batch.num_rows
        if batch.num_rows:
            table = pa.Table.from_batches([batch])
            for one in checks:
                one.add(table)
    return count


def _check_side_index(store: TableStore, path: str, findings: list[Finding]) -> None:
    with _noting(findings, path):
        source = store.storage.open_input(path)
        try:
            head = source.read(len(_INDEX_MAGIC))
        finally:
            source.close()
        if head != _INDEX_MAGIC:
            raise CorruptTableError(f"{path} does not begin like a file index", path=path)


def _columns_to_read(schema: TableSchema, file: DataFile, stored: Sequence[str]) -> tuple[DataField, ...]:
    """Return the columns to read: those of the file's schema, and the system columns that the file holds."""
    system: tuple[DataField, ...] = ROW_TRACKING_FIELDS
    if schema.primary_keys:
        system = (*key_copies(schema), *KEYED_FIELDS)
    return (*(f for f in system if f.name in stored), *written_fields(schema.fields, file.write_cols))


def _checks(
    store: TableStore, schema: TableSchema, task: FileTask, columns: Sequence[DataField], stored: Sequence[str]
) -> Iterator[RowCheck]:
    """Yield what the rows of a file must fulfil."""
    file = task.file
    held = [f for f in columns if f.name in stored]
    names = {f.name for f in held}
    yield Statistics(file, schema.fields, [f for f in held if f in schema.fields])
    parts = list(zip(schema.partition_fields, store.partition_values(task.partition), strict=True))
    known = [(column, value) for column, value in parts if column.name in names]
    if known:
        yield PartitionCheck([column for column, _ in known], [value for _, value in known])
    function = store.options.bucket_function_type
    bucket_fields = schema.bucket_fields
    if task.total_buckets > 0 and task.bucket >= 0 and bucket_fields and names.issuperset(schema.bucket_keys):
        yield BucketCheck(bucket_fields, function, task.bucket, task.total_buckets)
    if schema.primary_keys:
        yield from _key_checks(store, schema, task, names)
    elif ROW_TRACKING_FIELDS[0].name in names:
        yield RowIds(file.first_row_id is not None)


def _key_checks(store: TableStore, schema: TableSchema, task: FileTask, names: set[str]) -> Iterator[RowCheck]:
    file, key = task.file, schema.trimmed_primary_key_fields
    if VALUE_KIND.name in names:
        yield Kinds(file)
    pairs = [(f.name, copy.name) for f, copy in zip(key, key_copies(schema), strict=True) if copy.name in names]
    if pairs:
        yield KeyCopies(pairs)
    if task.bucket < 0:
        return  # rows of the postponed bucket are as they came
    options = store.options
    if not task.is_changelog and not options.pk_clustering_override:
        yield KeyCheck(file, KeyOrder(key), strict=True)
    yield Statistics.of_keys(file, key)
    stamped = file.file_source == APPEND and options.sequence_snapshot_ordering
    if SEQUENCE_NUMBER.name in names and not stamped and not task.is_changelog:
        yield Sequences(file)
    if task.hash_index is not None and not task.is_changelog:
        directory = store.layout.bucket_directory(store.partition_directory(task.partition), task.bucket)
        with suppress(LakewrightError, FileNotFoundError):  # the check of the index file itself reports it
            path = store.layout.index_file(task.hash_index, directory)
            hashes = decode_hashes(store.storage.read(path), task.hash_index, path=path)
            yield HashIndex(key, hashes, path)


# ---- Checks of index files -------------------------------------------------------------------------------------------


def check_ranges(needed: IndexNeeded) -> Iterator[Finding]:
    """Yield what is wrong with the recorded places of deletion vectors, without opening the file."""
    rows = dict(needed.rows)
    for vector in needed.file.deletion_ranges or ():
        end = vector.offset + vector.length
        if vector.offset < 1 or vector.length < 0 or end > needed.file.file_size:
            text = f"{needed.path}: the deletion vector of {vector.data_file} lies outside of the file"
            yield finding("deletion-vector", needed.path, text)
        elif (vector.cardinality or 0) > rows.get(vector.data_file, vector.cardinality or 0):
            text = f"{needed.path}: the deletion vector of {vector.data_file} deletes {vector.cardinality} rows"
            yield finding("deletion-vector", needed.path, f"{text}, and the file has {rows[vector.data_file]}")


def check_index_file(store: TableStore, needed: IndexNeeded) -> list[Finding]:
    """Return what is wrong with the content of an index file; it is opened."""
    path, kind = needed.path, INDEX_KINDS.get(needed.file.index_type)
    out: list[Finding] = []
    if kind is None:
        return out
    try:
        with closing(store.storage.open_input(path)) as source:
            faults = kind.faults(source, needed.file, dict(needed.rows), path)
            out += (finding(kind.finding, path, text) for text in faults)
    except LakewrightError as error:
        out.append(finding("damaged-file", path, error.message))
    except OSError as error:
        if not is_damage(error):
            raise
        out.append(finding("missing-file", path, f"{path} cannot be read: {error}"))
    return out


def check_hashes_apart(store: TableStore, entries: Iterable[IndexEntry]) -> list[Finding]:
    """Return the index files of one partition that share a hash: a key has one bucket in a partition."""
    partitions: dict[bytes, list[tuple[str, Hashes]]] = defaultdict(list)
    for entry in entries:
        if entry.file.index_type != HASH:
            continue
        directory = store.layout.bucket_directory(store.partition_directory(entry.partition), entry.bucket)
        path = store.layout.index_file(entry.file, directory)
        try:
            partitions[entry.partition].append((path, decode_hashes(store.storage.read(path), entry.file, path=path)))
        except (LakewrightError, FileNotFoundError):
            continue  # the check of the file itself reports it
    return [
        finding("hash-index", path, f"{path} and {other} share the hash of a key, which has one bucket")
        for files in partitions.values()
        for (other, one), (path, two) in combinations(files, 2)
        if len(np.intersect1d(one, two))
    ]
