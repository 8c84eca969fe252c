"""Outdated rows: files of one section in, the positions of those rows out that a merge does not give.

If the merge function keeps one row of a key as it is (deduplicate and first-row), a merge only leaves rows out: other
versions of a key, deleted keys and the rows that delete them. Here these are called outdated. Their positions by file
work as deletion vectors, so a scan that cannot merge can read the files, with any columns and any filter. Only keys,
sequence fields and, if the ages of files overlap, the system columns are read to find them.

What always holds: the rows that are not outdated are exactly those that a merge gives. Files never change, so the
result stays right and can be cached. Memory is bounded as that of a merge, plus one byte per row of a section.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakewright.formats.deletion_vectors import Positions
from lakewright.lsm.merge import MergeSpec
from lakewright.lsm.runs import Section, sections
from lakewright.lsm.windows import in_key_order, key_ranges
from lakewright.metadata.store import TableStore
from lakewright.read.files import BucketFiles, missing_files_explained
from lakewright.read.keyed_files import POSITION, KeyedFiles
from lakewright.read.lanes import mapped
from lakewright.read.scan import FileSchemas
from lakewright.read.splits.split import DataSplit
from lakewright.spec.datafile import DataFile
from lakewright.spec.keyed_rows import DELETE, UPDATE_BEFORE, VALUE_KIND
from lakewright.spec.options import CoreOptions, MergeEngine
from lakewright.spec.types import AtomicType, DataField

_Longs: TypeAlias = npt.NDArray[np.int64]
_Flags: TypeAlias = npt.NDArray[np.bool_]
_Integers: TypeAlias = npt.NDArray[np.signedinteger]
_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_FEW_RUNS = 6  # each is searched for the keys of each; more are merged faster
_SEARCH_BYTES = 24  # of a row, while runs are searched


def can_find_outdated(store: TableStore) -> bool:
    """Say whether a merge of this table only leaves rows out, so that outdated rows can be found."""
    return bool(store.schema.primary_keys) and MergeSpec.of_schema(store.schema, table=store.name).keeps_rows


@dataclass(frozen=True, slots=True)
class OutdatedFinder:
    """Finds the outdated rows of splits of one table; it can be shared by threads."""

    store: TableStore
    schemas: FileSchemas
    spec: MergeSpec
    threads: int = 1  # that merge the keys of one section

    @classmethod
    def of(cls, store: TableStore, *, threads: int = 1) -> OutdatedFinder:
        """Return the finder of a table."""
        return cls(store, FileSchemas(store), MergeSpec.of_schema(store.schema, table=store.name), threads)

    def outdated(self, split: DataSplit) -> dict[str, Positions]:
        """Return which rows of a split's files a merge does not give, those that a deletion vector deletes included."""
        positions: dict[str, Positions] = {}
        for section in sections(split.files, [field.type for field in self.spec.key.fields]):
            if len(section.files) == 1 and not section.files[0].delete_row_count and not split.deletion_files:
                continue  # a file holds each of its keys once
            with missing_files_explained(self.store, split.snapshot_id):
                positions |= self._outdated_in(split, section)
        return positions

    def _outdated_in(self, split: DataSplit, section: Section) -> dict[str, Positions]:
        memory = self.store.options.get(CoreOptions.LAKEWRIGHT_MERGE_MEMORY)
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
            left_out, winner = (younger, older) if spec.engine is MergeEngine.FIRST_ROW else (older, younger)
            kept[left_out][_shared(keys[left_out], keys[winner])] = False
        return np.concatenate(kept)

    def _numbers(self, split: DataSplit, run: Sequence[DataFile]) -> _Integers | None:
        """Return the keys of a run; None if they do not ascend: a merge then raises the error that explains it."""
        source = BucketFiles(self.store, self.schemas, split.partition_bytes, split.bucket)
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
            runs = [stack.enter_context(closing(self._numbered(files, run, first_of))) for run in section.runs]
            ranges = key_ranges(runs, self.spec, memory_bytes=memory // self.threads)
            for winners in mapped(self.threads, partial(_winners, self.spec), stack.enter_context(closing(ranges))):
                kept[winners] = True
        return kept

    def _files(self, split: DataSplit, section: Section, chunk_bytes: int) -> KeyedFiles:
        columns = tuple(self.store.schema.field(name) for name in self.spec.needed(()))
        exact = not section.ages_are_apart
        place = split.partition_bytes, split.bucket
        return KeyedFiles(self.store, self.schemas, *place, columns, split.deletions(), chunk_bytes, exact)

    def _numbered(
        self, source: KeyedFiles, run: Sequence[DataFile], first_of: Mapping[DataFile, int]
    ) -> Generator[pa.Table]:
        """Yield the keys of a run, their positions counted over all files of the section."""
        for file in run:
            for rows in source.read(file, level=self.spec.needs_lookup, positions=True):
                here = rows.column(POSITION.name).to_numpy() + first_of[file]
                yield rows.set_column(rows.num_columns - 1, POSITION.name, pa.array(here))


def _root(field: DataField) -> str | None:
    return field.type.root if isinstance(field.type, AtomicType) else None


def _shared(keys: _Integers, others: _Integers) -> _Longs:
    """Return the positions of sorted keys that are among other sorted keys."""
    few, many = (keys, others) if len(keys) < len(others) else (others, keys)
    at = np.searchsorted(many, few)
    is_shared = at < len(many)
    is_shared[is_shared] = many.take(at[is_shared]) == few[is_shared]
    return np.flatnonzero(is_shared) if few is keys else at[is_shared]


def _winners(spec: MergeSpec, parts: Sequence[pa.Table]) -> _Longs:
    """Return the positions of the rows that a merge of some keys gives."""
    apart = in_key_order(parts, spec.key)
    rows = pa.concat_tables(parts)
    positions: _Longs = rows.column(POSITION.name).to_numpy()
    if apart is None:
        return positions.take(spec.winners(rows))
    kinds = rows.column(VALUE_KIND.name).to_numpy()
    retracts = (kinds == UPDATE_BEFORE) | (kinds == DELETE)
    return positions[~retracts] if retracts.any() else positions
