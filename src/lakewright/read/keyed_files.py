"""The files of one bucket of a primary-key table as keyed rows in today's schema; see `spec.keyed_rows`.

Rows come in file order, in chunks of about a row group; the values of partition columns come from the manifest, rows
that a deletion vector deletes are left out before rows are merged, and nothing is read before the first chunk is asked
for. Row kinds stay, also of rows that delete: the merge needs them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa

from lakewright.formats.deletion_vectors import live_mask
from lakewright.metadata.store import TableStore
from lakewright.read.files import BucketFiles
from lakewright.read.scan import FileSchemas
from lakewright.read.splits.split import Deletions
from lakewright.spec.datafile import APPEND, DataFile
from lakewright.spec.gather import filtered
from lakewright.spec.keyed_rows import INSERT, KEYED_FIELDS, LEVEL, SEQUENCE_NUMBER, VALUE_KIND
from lakewright.spec.options import CoreOptions
from lakewright.spec.predicate.evaluation import assume
from lakewright.spec.predicate.predicate import TRUE, Predicate
from lakewright.spec.types import AtomicType, DataField
from lakewright.spec.values import to_array
from lakewright.storage.base import Storage
from lakewright.storage.side_by_side import each

POSITION: Final = DataField(-2, "_POSITION", AtomicType("BIGINT", nullable=False))  # in memory alone
_DECODED_TIMES = 3  # how much larger rows mostly are in memory than in a file
_CHUNK_ROWS_MIN = 1024


@dataclass(frozen=True, slots=True)
class KeyedFiles:
    """Reads the files of one bucket of a partition; it can be shared by threads.

    `columns` are columns of the table, in schema order. Chunks have about `chunk_bytes` at most, if that is given: a
    merge of many runs holds a chunk of each. Without `exact` the system columns are only good enough to merge runs
    whose sequence numbers do not overlap: every row of a file has the file's highest number, and every add is an
    insert. Of files that are named in `ranges` only the rows at these positions are read.
    """

    store: TableStore
    schemas: FileSchemas
    partition: bytes
    bucket: int
    columns: tuple[DataField, ...]
    deletions: Deletions = field(default_factory=dict)
    chunk_bytes: int | None = None
    exact: bool = True
    ranges: Mapping[str, range] = field(default_factory=dict)

    def read(
        self, file: DataFile, *, skip: Predicate = TRUE, level: bool = False, positions: bool = False
    ) -> Generator[pa.Table]:
        """Yield the live rows of a file, with `_LEVEL` and, last, `_POSITION` (int64) where they are asked for.

        Rows that cannot fulfil `skip` may be left out. What hides other rows of its key must not be left out, so
        where rows are merged `skip` may ask for nothing but columns of the key.
        """
        keys = self.store.schema.partition_keys
        known = dict(zip(keys, self.store.partition_values(self.partition), strict=True))
        constants = self._system_constants(file) | {
            column.name: to_array([known[column.name]], column.type)[0]
            for column in self.columns
            if column.name in known
        }
        names = [*(f.name for f in KEYED_FIELDS), *([LEVEL.name] if level else []), *(f.name for f in self.columns)]
        stored = [column for column in (*KEYED_FIELDS, *self.columns) if column.name not in constants]
        files = BucketFiles(self.store, self.schemas, self.partition, self.bucket)
        deletion = self.deletions.get((self.partition, file.file_name))
        deleted = None if deletion is None else files.deleted(file, deletion)
        within = self.ranges.get(file.file_name)
        sizes = self._chunk_rows(file)
        for position, batch in files.rows(file, stored, assume(skip, known), batch_rows=sizes, within=within):
            rows = _completed(batch, names, constants)
            if positions:
                here = np.arange(position, position + batch.num_rows, dtype=np.int64)
                rows = rows.append_column(POSITION.name, pa.array(here))
            if deleted is not None:
                live = live_mask(deleted, position, batch.num_rows)
                rows = filtered(rows, pa.array(live), int(np.count_nonzero(live)))
            if rows.num_rows:
                yield rows

    def read_run(
        self, files: Sequence[DataFile], *, skip: Predicate = TRUE, level: bool = False, positions: bool = False
    ) -> Generator[pa.Table]:
        """Yield the live rows of files one after the other, as those of one sorted run."""
        for file in files:
            yield from self.read(file, skip=skip, level=level, positions=positions)

    def _chunk_rows(self, file: DataFile) -> int | None:
        """Return how many rows a chunk may have; None: as many as the reader of the format gives."""
        if self.chunk_bytes is None or not file.row_count:
            return None
        rows = self.chunk_bytes * file.row_count // (_DECODED_TIMES * max(1, file.file_size))
        return None if rows >= file.row_count else max(_CHUNK_ROWS_MIN, rows)

    def _system_constants(self, file: DataFile) -> dict[str, pa.Scalar]:
        """Return the system columns that all rows of a file have in common, and that need not be read."""
        constants = {LEVEL.name: pa.scalar(file.level, pa.int8())}
        if not self.exact:
            constants[SEQUENCE_NUMBER.name] = pa.scalar(file.max_sequence_number, pa.int64())
            if file.delete_row_count == 0:
                constants[VALUE_KIND.name] = pa.scalar(INSERT, pa.int8())
        if file.file_source == APPEND and self.store.options.get(CoreOptions.SEQUENCE_SNAPSHOT_ORDERING):
            # All rows of a commit have the number that their snapshot was given.
            constants[SEQUENCE_NUMBER.name] = pa.scalar(file.min_sequence_number, pa.int64())
        return constants


def begun(storage: Storage, runs: Sequence[Iterator[pa.Table]]) -> list[Iterator[pa.Table]]:
    """Return runs of which the first chunks are read side by side where the storage is far away.

    A merge holds a chunk of each run anyway, and begins with all of them.
    """
    if storage.requests_at_once == 1:
        return list(runs)
    firsts = each(storage, lambda run: next(run, None), runs)
    return [iter(()) if first is None else chain([first], run) for first, run in zip(firsts, runs, strict=True)]


def _completed(batch: pa.RecordBatch, names: Sequence[str], constants: Mapping[str, pa.Scalar]) -> pa.Table:
    """Return a batch as a table of these columns; those that it lacks are constants."""
    stored = set(batch.schema.names)
    columns = [batch.column(name) if name in stored else pa.repeat(constants[name], batch.num_rows) for name in names]
    return pa.table(columns, names=list(names))
