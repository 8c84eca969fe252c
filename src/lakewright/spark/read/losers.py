"""Computed deletion vectors: sections that need a merge in, bits of the rows that lose out, kept for the next query.

`read.losers` finds the rows. Few bytes are read by threads of the driver, which spares a job; many by Spark's tasks.
What was found is kept in the driver's memory by table and files of a section. Files never change, so it stays right;
a later upsert makes sections anew only where it wrote. The oldest that was not asked for goes first when the bound is
reached. `merge_way` is the only place that decides which way a merge is read.
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
from lakewright.read.losers import LoserFinder
from lakewright.read.splits.shares import shares
from lakewright.read.splits.split import DataSplit
from lakewright.spark.read.bitmaps import Words, words_of
from lakewright.spark.read.core_reader import over_shares
from lakewright.spark.read.parquet_scan import native_sections
from lakewright.spec.options import CoreOptions
from lakewright.spec.predicate.evaluation import project
from lakewright.spec.predicate.predicate import TRUE, Predicate

Found: TypeAlias = Mapping[str, Words]  # by file name; files that lose nothing are absent
_Key: TypeAlias = tuple[object, ...]
_SCHEMA = "file string, words binary"
_KEPT_BYTES_MAX = 128 << 20  # a bit per row: a billion rows
_ENTRY_BYTES = 512
_DRIVER_BYTES_MAX = 512 << 20  # of files; their keys are a fraction of it
_ROWS_MAX = 1 << 27  # whose bits, 16 MB, still travel with a plan


@dataclass(frozen=True, slots=True)
class MergeWay:
    """How rows that must be merged reach Spark, and why."""

    by_bits: bool  # Spark's own scan without the rows that lose; else the core's merge in Spark's tasks
    reason: str


def merge_way(spec: MergeSpec, predicate: Predicate, rows: int, *, known: bool) -> MergeWay:
    """Decide how sections of so many rows that Spark could scan are read.

    Spark's own scan without the rows that lose is mostly faster than a merge in Python even when they are still to be
    found: keys are all that is read for that, and a query may need few columns. A filter on the key is the exception,
    because a merge skips to the keys that are asked for.
    """
    if not spec.keeps_rows:
        return MergeWay(by_bits=False, reason=f"the merge engine {spec.engine.value} computes rows: tasks merge them")
    if rows > _ROWS_MAX:
        return MergeWay(by_bits=False, reason=f"the bits of {rows} rows are too many for a plan: tasks merge them")
    if known:
        return MergeWay(by_bits=True, reason="the rows that lose are known from an earlier read")
    if project(predicate, spec.key.names) != TRUE:
        return MergeWay(by_bits=False, reason="the filter asks for some keys: tasks merge these alone")
    return MergeWay(by_bits=True, reason="one row of a key wins as it is, so the keys tell which rows lose")


@dataclass(frozen=True, slots=True)
class Parted:
    """Splits parted by the way they are read."""

    by_bits: tuple[DataSplit, ...]  # sections for Spark's own scan
    losers: Found  # the rows of their files that do not count
    merged: tuple[DataSplit, ...]  # what tasks read with the core's reader
    way: MergeWay


def part_by_way(spark: SparkSession, read: TableRead, splits: Sequence[DataSplit]) -> Parted:
    """Part splits that Spark cannot scan as they are, and find the rows that lose where that is the way."""
    store = read.store
    sections, rest = native_sections(store, splits, read.projection)
    if not sections:
        way = MergeWay(by_bits=False, reason="Spark's own scan does not read these files as they must be read")
        return Parted((), {}, tuple(splits), way)
    spec = MergeSpec.of_schema(store.schema, table=store.name)
    rows = sum(section.row_count for section in sections)
    way = merge_way(spec, read.predicate, rows, known=_all_known(store, sections))
    if not way.by_bits:
        return Parted((), {}, tuple(splits), way)
    return Parted(tuple(sections), losing_rows(spark, store, sections), tuple(rest), way)


def losing_rows(spark: SparkSession, store: TableStore, sections: Sequence[DataSplit]) -> dict[str, Words]:
    """Return which rows of the files of sections a merge does not give, as bits by file name."""
    keys = _keys(store, sections)
    found = {key: _KEPT.get(key) for key in keys}
    missing = {key: section for key, section in zip(keys, sections, strict=True) if found[key] is None}
    if missing:
        new = _find(spark, store, list(missing.values()))
        for key, section in missing.items():
            names = [file.file_name for file in section.files]
            found[key] = kept = {name: new[name] for name in names if name in new}
            _KEPT.put(key, kept)
    return {name: words for some in found.values() if some is not None for name, words in some.items()}


def forget_losers() -> None:
    """Let go of all that is kept."""
    _KEPT.clear()


def _all_known(store: TableStore, sections: Sequence[DataSplit]) -> bool:
    return all(_KEPT.get(key) is not None for key in _keys(store, sections))


def _keys(store: TableStore, sections: Sequence[DataSplit]) -> list[_Key]:
    """Return what decides, for each section, which of its rows lose."""
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
    finder = LoserFinder.of(store, threads=1 if len(parts) >= threads else threads)
    with ThreadPoolExecutor(threads, thread_name_prefix="lakewright-losers") as pool:
        found = list(pool.map(lambda part: _words(finder, part), parts))
    return {name: words for some in found for name, words in some.items()}


def _words(finder: LoserFinder, part: DataSplit) -> dict[str, Words]:
    rows_of = {file.file_name: file.row_count for file in part.files}
    return {name: words_of(lost, rows_of[name]) for name, lost in finder.losers(part).items()}


def _find_in_tasks(spark: SparkSession, store: TableStore, parts: Sequence[DataSplit]) -> dict[str, Words]:
    frame: DataFrame = over_shares(spark, shares(store, parts, at_least=len(parts)), _Finding(store), _SCHEMA)
    return {row["file"]: np.frombuffer(row["words"], "<u8") for row in frame.collect()}


@dataclass(frozen=True, slots=True)
class _Finding:
    """Finds the losing rows of splits on an executor."""

    store: TableStore

    def __call__(self, splits: Sequence[DataSplit]) -> Iterator[pa.RecordBatch]:
        finder = LoserFinder.of(self.store)
        for split in splits:
            for name, words in _words(finder, split).items():
                yield pa.RecordBatch.from_arrays([pa.array([name]), pa.array([words.tobytes()])], ["file", "words"])


class _Kept:
    """What was found, up to a bound; it can be shared by threads."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._found: OrderedDict[_Key, Found] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, key: _Key) -> Found | None:
        """Return what is kept of a section."""
        with self._lock:
            found = self._found.get(key)
            if found is not None:
                self._found.move_to_end(key)
            return found

    def put(self, key: _Key, found: Found) -> None:
        """Keep what was found, and let go of what was not asked for longest."""
        with self._lock:
            before = self._found.pop(key, None)
            self._bytes += _size(found) - (0 if before is None else _size(before))
            self._found[key] = found
            while self._bytes > self._bytes_max:
                _, gone = self._found.popitem(last=False)
                self._bytes -= _size(gone)

    def clear(self) -> None:
        """Let go of everything."""
        with self._lock:
            self._found.clear()
            self._bytes = 0


def _size(found: Found) -> int:
    """Return about how many bytes are kept; keys and names count too."""
    return _ENTRY_BYTES * (1 + len(found)) + sum(words.nbytes for words in found.values())


_KEPT = _Kept(_KEPT_BYTES_MAX)
