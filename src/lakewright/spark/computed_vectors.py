"""Rows that a merge drops, computed as deletion vectors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from threading import Lock
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakewright.formats.deletion_vectors import Positions
from lakewright.lsm.merge_rows import MergeRules
from lakewright.lsm.sorted_runs import Section, in_key_order, key_ranges, sections
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_file_reader import POSITION, BucketReader, KeyedFiles, explain_missing_files
from lakewright.read.data_split import DataSplit
from lakewright.read.manifest_scan import FileSchemas
from lakewright.read.split_sharing import share_splits
from lakewright.read.table_read import TableRead
from lakewright.spark.core_scan import over_shares
from lakewright.spark.native_scan import Words, native_sections, words_of
from lakewright.spec.manifest import DataFile
from lakewright.spec.predicate import TRUE, Predicate, project_columns
from lakewright.spec.system_columns import DELETE, UPDATE_BEFORE, VALUE_KIND
from lakewright.spec.types import AtomicType, DataField
from lakewright.storage.concurrency import map_in_order

# ---- Outdated rows of a section --------------------------------------------------------------------------------------
# If the merge function keeps one row of a key as it is (deduplicate and first-row), a merge only leaves rows out:
# other versions of a key, deleted keys and the rows that delete them. Here these are called outdated. Their positions
# by file work as deletion vectors, so a scan that cannot merge can read the files, with any columns and any filter.
# Only keys, sequence fields and, if the ages of files overlap, the system columns are read to find them.
#
# Invariant: the rows that are not outdated are exactly those that a merge gives. Files never change, so the
# result stays right and can be cached. Memory is bounded as that of a merge, plus one byte per row of a section.

_Longs: TypeAlias = npt.NDArray[np.int64]
_Flags: TypeAlias = npt.NDArray[np.bool_]
_Integers: TypeAlias = npt.NDArray[np.signedinteger]
_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_FEW_RUNS = 6  # each is searched for the keys of each; more are merged faster
_SEARCH_BYTES = 24  # of a row, while runs are searched


def can_find_outdated(store: TableStore) -> bool:
    """Return whether a merge of this table only leaves rows out, so that outdated rows can be found."""
    return bool(store.schema.primary_keys) and MergeRules.of_schema(store.schema, table=store.name).keeps_rows


@dataclass(frozen=True, slots=True)
class OutdatedFinder:
    """Finds the outdated rows of splits of one table; it can be shared by threads."""

    store: TableStore
    schemas: FileSchemas
    spec: MergeRules
    threads: int = 1  # that merge the keys of one section

    @classmethod
    def of(cls, store: TableStore, *, threads: int = 1) -> OutdatedFinder:
        """Return the finder of a table."""
        return cls(store, FileSchemas(store), MergeRules.of_schema(store.schema, table=store.name), threads)

    def outdated(self, split: DataSplit) -> dict[str, Positions]:
        """Return which rows of a split's files a merge does not give, those that a deletion vector deletes included."""
        positions: dict[str, Positions] = {}
        for section in sections(split.files, [field.type for field in self.spec.key.fields]):
            if len(section.files) == 1 and not section.files[0].delete_row_count and not split.deletion_files:
                continue  # a file holds each of its keys once
            with explain_missing_files(self.store, split.snapshot_id):
                positions |= self._outdated_in(split, section)
        return positions

    def _outdated_in(self, split: DataSplit, section: Section) -> dict[str, Positions]:
        memory = self.store.options.lakewright_merge_memory
        kept = self._winners_by_number(split, section, memory)
        kept = self._winners_by_merge(split, section, memory) if kept is None else kept
        parts = np.split(kept, np.cumsum([file.row_count for file in section.files])[:-1])
        outdated = (np.flatnonzero(~part).astype(np.uint64) for part in parts)
        return {file.file_name: some for file, some in zip(section.files, outdated, strict=True) if len(some)}

    def _winners_by_number(self, split: DataSplit, section: Section, memory: int) -> _Flags | None:
        """Say which rows of a section a merge keeps, if keys are single integers and each run is older than the next.

        Then a row is outdated if a younger run has its key, or an older one for first-row, which is a search in sorted
        numbers: half of the work of a merge. None: another case, or too many rows to hold their keys in memory.
        """
        spec, rows = self.spec, sum(file.row_count for file in section.files)
        plain = (
            spec.keeps_rows
            and not (spec.sequence or spec.needs_lookup or split.has_deletions)
            and [_root(field) in _INTEGERS for field in spec.key.fields] == [True]
            and section.ages_are_apart
            and not any(file.delete_row_count for file in section.files)
        )
        if not plain or len(section.runs) > _FEW_RUNS or rows * _SEARCH_BYTES > memory:
            return None
        runs = [self._numbers(split, run) for run in section.runs]
        if any(run is None for run in runs):
            return None
        keys = [run for run in runs if run is not None]
        kept = [np.ones(len(run), np.bool_) for run in keys]
        for older, younger in combinations(range(len(keys)), 2):
            left_out, winner = (younger, older) if spec.engine.traits.keeps_first_row else (older, younger)
            kept[left_out][_shared_positions(keys[left_out], keys[winner])] = False
        return np.concatenate(kept)

    def _numbers(self, split: DataSplit, run: Sequence[DataFile]) -> _Integers | None:
        """Return the keys of a run; None if they do not ascend: a merge then raises the error that explains it."""
        source = BucketReader(self.store, self.schemas, split.partition_bytes, split.bucket)
        columns = [batch.column(0) for file in run for _, batch in source.rows(file, self.spec.key.fields)]
        if not columns or any(column.null_count for column in columns):
            return None
        keys: _Integers = np.concatenate([column.to_numpy() for column in columns])
        return keys if bool((keys[1:] > keys[:-1]).all()) else None

    def _winners_by_merge(self, split: DataSplit, section: Section, memory: int) -> _Flags:
        """Say which rows of a section a merge gives."""
        ends = np.cumsum([file.row_count for file in section.files]).tolist()
        first_of = dict(zip(section.files, [0, *ends[:-1]], strict=True))
        kept = np.zeros(ends[-1], np.bool_)
        files = self._files(split, section, memory // len(section.runs))
        with ExitStack() as stack:
            runs = [stack.enter_context(closing(self._number_keys(files, run, first_of))) for run in section.runs]
            ranges = key_ranges(runs, self.spec, memory_bytes=memory // self.threads)
            for winners in map_in_order(
                self.threads, partial(_winners, self.spec), stack.enter_context(closing(ranges))
            ):
                kept[winners] = True
        return kept

    def _files(self, split: DataSplit, section: Section, chunk_bytes: int) -> KeyedFiles:
        columns = tuple(self.store.schema.field(name) for name in self.spec.needed_columns(()))
        exact = not section.ages_are_apart
        place = split.partition_bytes, split.bucket
        return KeyedFiles(self.store, self.schemas, *place, columns, split.deletions(), chunk_bytes, exact)

    def _number_keys(
        self, source: KeyedFiles, run: Sequence[DataFile], first_of: Mapping[DataFile, int]
    ) -> Generator[pa.Table]:
        """Yield the keys of a run, their positions counted over all files of the section."""
        for file in run:
            for rows in source.read(file, level=self.spec.needs_lookup, positions=True):
                here = rows.column(POSITION.name).to_numpy() + first_of[file]
                yield rows.set_column(rows.num_columns - 1, POSITION.name, pa.array(here))


def _root(field: DataField) -> str | None:
    return field.type.root if isinstance(field.type, AtomicType) else None


def _shared_positions(keys: _Integers, others: _Integers) -> _Longs:
    """Return the positions of sorted keys that are among other sorted keys."""
    few, many = (keys, others) if len(keys) < len(others) else (others, keys)
    at = np.searchsorted(many, few)
    is_shared = at < len(many)
    is_shared[is_shared] = many.take(at[is_shared]) == few[is_shared]
    return np.flatnonzero(is_shared) if few is keys else at[is_shared]


def _winners(spec: MergeRules, parts: Sequence[pa.Table]) -> _Longs:
    """Return the positions of the rows that a merge of some keys gives."""
    apart = in_key_order(parts, spec.key)
    rows = pa.concat_tables(parts)
    positions: _Longs = rows.column(POSITION.name).to_numpy()
    if apart is None:
        return positions.take(spec.winners(rows))
    kinds = rows.column(VALUE_KIND.name).to_numpy()
    retracts = (kinds == UPDATE_BEFORE) | (kinds == DELETE)
    return positions[~retracts] if retracts.any() else positions


# ---- Computed deletion vectors ---------------------------------------------------------------------------------------
# `spark.computed_vectors` finds the rows: few bytes are read by threads of the driver, without a job, many by Spark's
# tasks.
# The result is cached in the driver's memory by table and files of a section. Files never change, so it stays right;
# a later upsert changes only the sections that it wrote to. When the cache is full, the entries that were not used
# for longest are removed. `merge_way` is the only place that decides how a merge is read.

OutdatedWords: TypeAlias = Mapping[str, Words]  # by file name; files without outdated rows are absent
_Key: TypeAlias = tuple[object, ...]
_SCHEMA = "file string, words binary"
_CACHE_BYTES_MAX = 128 << 20  # a bit per row: a billion rows
_ENTRY_BYTES = 512
_DRIVER_BYTES_MAX = 512 << 20  # of files; their keys are a fraction of it
_ROWS_MAX = 1 << 27  # whose bits, 16 MB, still travel with a plan


@dataclass(frozen=True, slots=True)
class MergeWay:
    """How rows that must be merged are read on Spark, and why."""

    by_bits: bool  # Spark's own scan without outdated rows; else the core's merge in Spark's tasks
    reason: str


def merge_way(spec: MergeRules, predicate: Predicate, rows: int, *, known: bool) -> MergeWay:
    """Decide how sections of so many rows that Spark could scan are read.

    Spark's own scan without outdated rows is mostly faster than a merge in Python, even when these rows must be found
    first: only keys are read for that, and a query may need few columns. A filter on the key is the exception, because
    a merge skips to the keys that it asks for.
    """
    if not spec.keeps_rows:
        return MergeWay(by_bits=False, reason=f"the merge engine {spec.engine.value} computes rows: tasks merge them")
    if rows > _ROWS_MAX:
        return MergeWay(by_bits=False, reason=f"the bits of {rows} rows are too many for a plan: tasks merge them")
    if known:
        return MergeWay(by_bits=True, reason="the outdated rows are known from an earlier read")
    if project_columns(predicate, spec.key.names) != TRUE:
        return MergeWay(by_bits=False, reason="the filter asks for some keys: tasks merge these alone")
    return MergeWay(by_bits=True, reason="one row of a key is kept as it is, so the keys show which rows are outdated")


@dataclass(frozen=True, slots=True)
class DividedSplits:
    """Splits divided by how they are read."""

    by_bits: tuple[DataSplit, ...]  # sections for Spark's own scan
    outdated: OutdatedWords  # the rows of their files that are left out
    merged: tuple[DataSplit, ...]  # what tasks read with the core's reader
    way: MergeWay


def divide_splits(spark: SparkSession, read: TableRead, splits: Sequence[DataSplit]) -> DividedSplits:
    """Divide splits that Spark cannot scan as they are; find outdated rows of those that it can scan without them."""
    store = read.store
    sections, rest = native_sections(store, splits, read.projection)
    if not sections:
        way = MergeWay(by_bits=False, reason="Spark's own scan does not read these files as they must be read")
        return DividedSplits((), {}, tuple(splits), way)
    spec = MergeRules.of_schema(store.schema, table=store.name)
    rows = sum(section.row_count for section in sections)
    way = merge_way(spec, read.predicate, rows, known=_all_known(store, sections))
    if not way.by_bits:
        return DividedSplits((), {}, tuple(splits), way)
    return DividedSplits(tuple(sections), outdated_rows(spark, store, sections), tuple(rest), way)


def outdated_rows(spark: SparkSession, store: TableStore, sections: Sequence[DataSplit]) -> dict[str, Words]:
    """Return which rows of the files of sections a merge does not give, as bits by file name."""
    keys = _keys(store, sections)
    by_section = {key: _CACHE.get(key) for key in keys}
    missing = {key: section for key, section in zip(keys, sections, strict=True) if by_section[key] is None}
    if missing:
        new = _find(spark, store, list(missing.values()))
        for key, section in missing.items():
            names = [file.file_name for file in section.files]
            by_section[key] = kept = {name: new[name] for name in names if name in new}
            _CACHE.put(key, kept)
    return {name: words for entry in by_section.values() if entry is not None for name, words in entry.items()}


def clear_outdated_cache() -> None:
    """Empty the cache."""
    _CACHE.clear()


def _all_known(store: TableStore, sections: Sequence[DataSplit]) -> bool:
    return all(_CACHE.get(key) is not None for key in _keys(store, sections))


def _keys(store: TableStore, sections: Sequence[DataSplit]) -> list[_Key]:
    """Return, for each section, all that decides which of its rows are outdated; keys of the cache."""
    spec = MergeRules.of_schema(store.schema, table=store.name)
    rule = (
        spec.engine,
        spec.ignore_delete,
        spec.needs_lookup,
        tuple((column.field.id, column.descending) for column in spec.sequence),
        store.options.sequence_snapshot_ordering,
    )
    table = store.identity
    return [
        (table, rule, part.partition_bytes, part.bucket, tuple(f.file_name for f in part.files), part.deletion_files)
        for part in sections
    ]


def _find(spark: SparkSession, store: TableStore, parts: Sequence[DataSplit]) -> dict[str, Words]:
    if sum(part.file_size for part in parts) > _DRIVER_BYTES_MAX:
        return _find_in_tasks(spark, store, parts)
    threads = store.options.lakewright_read_threads
    finder = OutdatedFinder.of(store, threads=1 if len(parts) >= threads else threads)
    with ThreadPoolExecutor(threads, thread_name_prefix="lakewright-outdated") as pool:
        by_part = list(pool.map(lambda part: _words(finder, part), parts))
    return {name: words for part_words in by_part for name, words in part_words.items()}


def _words(finder: OutdatedFinder, part: DataSplit) -> dict[str, Words]:
    rows_of = {file.file_name: file.row_count for file in part.files}
    return {name: words_of(lost, rows_of[name]) for name, lost in finder.outdated(part).items()}


def _find_in_tasks(spark: SparkSession, store: TableStore, parts: Sequence[DataSplit]) -> dict[str, Words]:
    frame: DataFrame = over_shares(spark, share_splits(store, parts, at_least=len(parts)), _Finding(store), _SCHEMA)
    return {row["file"]: np.frombuffer(row["words"], "<u8") for row in frame.collect()}


@dataclass(frozen=True, slots=True)
class _Finding:
    """Finds the outdated rows of splits on an executor."""

    store: TableStore

    def __call__(self, splits: Sequence[DataSplit]) -> Iterator[pa.RecordBatch]:
        finder = OutdatedFinder.of(self.store)
        for split in splits:
            for name, words in _words(finder, split).items():
                yield pa.RecordBatch.from_arrays([pa.array([name]), pa.array([words.tobytes()])], ["file", "words"])


class _Cache:
    """Outdated rows of sections, up to a number of bytes; it can be shared by threads."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._entries: OrderedDict[_Key, OutdatedWords] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, key: _Key) -> OutdatedWords | None:
        """Return the outdated rows of a section, None if they are not in the cache."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
            return entry

    def put(self, key: _Key, entry: OutdatedWords) -> None:
        """Add the outdated rows of a section, and remove those that were not used for longest if the cache is full."""
        with self._lock:
            before = self._entries.pop(key, None)
            self._bytes += _size(entry) - (0 if before is None else _size(before))
            self._entries[key] = entry
            while self._bytes > self._bytes_max:
                _, gone = self._entries.popitem(last=False)
                self._bytes -= _size(gone)

    def clear(self) -> None:
        """Remove everything."""
        with self._lock:
            self._entries.clear()
            self._bytes = 0


def _size(entry: OutdatedWords) -> int:
    """Return about how many bytes an entry takes, with its key and names."""
    return _ENTRY_BYTES * (1 + len(entry)) + sum(words.nbytes for words in entry.values())


_CACHE = _Cache(_CACHE_BYTES_MAX)
