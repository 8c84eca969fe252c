"""Computed deletion vectors: sections that need a merge in, bits of their outdated rows out, cached for the next query.

`read.outdated` finds the rows: few bytes are read by threads of the driver, without a job, many by Spark's tasks.
The result is cached in the driver's memory by table and files of a section. Files never change, so it stays right; a
later upsert changes only the sections that it wrote to. When the cache is full, the entries that were
not used for longest are removed. `merge_way` is the only place that decides how a merge is read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakewright.lsm.merge import MergeSpec
from lakewright.metadata.store import TableStore
from lakewright.read.builder import TableRead
from lakewright.read.outdated import OutdatedFinder
from lakewright.read.splits.shares import shares
from lakewright.read.splits.split import DataSplit
from lakewright.spark.read.bitmaps import Words, words_of
from lakewright.spark.read.core_reader import over_shares
from lakewright.spark.read.parquet_scan import native_sections
from lakewright.spec.options import CoreOptions
from lakewright.spec.predicate.evaluation import project
from lakewright.spec.predicate.predicate import TRUE, Predicate

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


def merge_way(spec: MergeSpec, predicate: Predicate, rows: int, *, known: bool) -> MergeWay:
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
    if project(predicate, spec.key.names) != TRUE:
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
    spec = MergeSpec.of_schema(store.schema, table=store.name)
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
    spec = MergeSpec.of_schema(store.schema, table=store.name)
    rule = (
        spec.engine,
        spec.ignore_delete,
        spec.needs_lookup,
        tuple((column.field.id, column.descending) for column in spec.sequence),
        store.options.get(CoreOptions.SEQUENCE_SNAPSHOT_ORDERING),
    )
    table = store.identity
    return [
        (table, rule, part.partition_bytes, part.bucket, tuple(f.file_name for f in part.files), part.deletion_files)
        for part in sections
    ]


def _find(spark: SparkSession, store: TableStore, parts: Sequence[DataSplit]) -> dict[str, Words]:
    if sum(part.file_size for part in parts) > _DRIVER_BYTES_MAX:
        return _find_in_tasks(spark, store, parts)
    threads = store.options.get(CoreOptions.LAKEWRIGHT_READ_THREADS)
    finder = OutdatedFinder.of(store, threads=1 if len(parts) >= threads else threads)
    with ThreadPoolExecutor(threads, thread_name_prefix="lakewright-outdated") as pool:
        by_part = list(pool.map(lambda part: _words(finder, part), parts))
    return {name: words for part_words in by_part for name, words in part_words.items()}


def _words(finder: OutdatedFinder, part: DataSplit) -> dict[str, Words]:
    rows_of = {file.file_name: file.row_count for file in part.files}
    return {name: words_of(lost, rows_of[name]) for name, lost in finder.outdated(part).items()}


def _find_in_tasks(spark: SparkSession, store: TableStore, parts: Sequence[DataSplit]) -> dict[str, Words]:
    frame: DataFrame = over_shares(spark, shares(store, parts, at_least=len(parts)), _Finding(store), _SCHEMA)
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
