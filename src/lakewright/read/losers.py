"""Rows that lose: files of one section in, the positions of those rows out that a merge does not give.

Where one of the rows of a key wins as it is (deduplicate and first-row), a merge does nothing but leave rows out: older
versions, deleted keys and the rows that delete them. Told by file and position they are deletion vectors that nobody
wrote, so a scan that knows nothing of merging can read the files, with any columns and any filter. Only keys, sequence
fields and, where ages of files meet, the system columns are read to find them.

What always holds: the rows that are left are exactly those that a merge gives. What is found never changes, because
files do not: it can be kept. Memory is bounded as that of a merge, beside one byte per row of a section.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakewright.formats.deletion_vectors import Positions
from lakewright.lsm.merge import MergeSpec
from lakewright.lsm.runs import Section, sections
from lakewright.lsm.windows import in_key_order, key_ranges
from lakewright.metadata.store import TableStore
from lakewright.read.files import missing_files_explained
from lakewright.read.keyed import POSITION, KeyedFiles
from lakewright.read.lanes import mapped
from lakewright.read.scan import FileSchemas
from lakewright.read.split import DataSplit
from lakewright.spec.datafile import DataFile
from lakewright.spec.keyed import DELETE, UPDATE_BEFORE, VALUE_KIND
from lakewright.spec.options import CoreOptions

Losers: TypeAlias = Mapping[str, Positions]  # by file name; files that lose nothing are absent
_Longs: TypeAlias = npt.NDArray[np.int64]


def finds_losers(store: TableStore) -> bool:
    """Say whether a merge of this table only leaves rows out."""
    return bool(store.schema.primary_keys) and MergeSpec.of_schema(store.schema, table=store.name).keeps_rows


@dataclass(frozen=True, slots=True)
class LoserFinder:
    """Finds the losing rows of splits of one table; it can be shared by threads."""

    store: TableStore
    schemas: FileSchemas
    spec: MergeSpec
    threads: int = 1  # that merge the keys of one section

    @classmethod
    def of(cls, store: TableStore, *, threads: int = 1) -> LoserFinder:
        """Return the finder of a table."""
        return cls(store, FileSchemas(store), MergeSpec.of_schema(store.schema, table=store.name), threads)

    def losers(self, split: DataSplit) -> dict[str, Positions]:
        """Return which rows of a split's files a merge does not give, those that a deletion vector deletes included."""
        found: dict[str, Positions] = {}
        for section in sections(split.files, [field.type for field in self.spec.key.fields]):
            if len(section.files) == 1 and not section.files[0].delete_row_count and not split.deletion_files:
                continue  # a file holds each of its keys once
            with missing_files_explained(self.store, split.snapshot_id):
                found |= self._losers_of(split, section)
        return found

    def _losers_of(self, split: DataSplit, section: Section) -> dict[str, Positions]:
        ends = np.cumsum([file.row_count for file in section.files]).tolist()
        first_of = dict(zip(section.files, [0, *ends[:-1]], strict=True))
        wins = np.zeros(ends[-1], np.bool_)
        memory = self.store.options.get(CoreOptions.LAKEWRIGHT_MERGE_MEMORY)
        files = self._files(split, section, memory // len(section.runs))
        with ExitStack() as stack:
            runs = [stack.enter_context(closing(self._numbered(files, run, first_of))) for run in section.runs]
            ranges = key_ranges(runs, self.spec, memory_bytes=memory // self.threads)
            for winners in mapped(self.threads, partial(_winners, self.spec), stack.enter_context(closing(ranges))):
                wins[winners] = True
        parts = np.split(wins, ends[:-1])
        lost = (np.flatnonzero(~part).astype(np.uint64) for part in parts)
        return {file.file_name: some for file, some in zip(section.files, lost, strict=True) if len(some)}

    def _files(self, split: DataSplit, section: Section, chunk_bytes: int) -> KeyedFiles:
        columns = tuple(self.store.schema.field(name) for name in self.spec.needed(()))
        deletions = {
            (split.partition_bytes, file.file_name): found
            for file, found in zip(split.files, split.deletion_files, strict=False)
            if found is not None
        }
        exact = not section.ages_are_apart
        place = split.partition_bytes, split.bucket
        return KeyedFiles(self.store, self.schemas, *place, columns, deletions, chunk_bytes, exact)

    def _numbered(
        self, source: KeyedFiles, run: Sequence[DataFile], first_of: Mapping[DataFile, int]
    ) -> Generator[pa.Table]:
        """Yield the keys of a run, their positions counted over all files of the section."""
        for file in run:
            for rows in source.read(file, level=self.spec.needs_lookup, positions=True):
                here = rows.column(POSITION.name).to_numpy() + first_of[file]
                yield rows.set_column(rows.num_columns - 1, POSITION.name, pa.array(here))


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
