"""The files that a rewrite of a bucket makes: rows in, finished files out, all of them deleted if it fails."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress

import pyarrow as pa

from lakewright.datafiles.file_plan import FilePlan
from lakewright.datafiles.rolling import NewFile, Piece, RollingFile, SequenceNumbers, wall_clock_ms
from lakewright.metadata.store import TableStore
from lakewright.read.lanes import mapped
from lakewright.spec.datafile import DataFile
from lakewright.storage.layout import check_file_name

GROUP_BYTES = 16 << 20  # rows are handed to a file in groups of this much memory


class BucketOutput:
    """The new files of one bucket: gives them names, and can delete them all."""

    def __init__(
        self,
        store: TableStore,
        place: tuple[bytes, int],
        clock_ms: Callable[[], int] = wall_clock_ms,
        new_uuid: Callable[[], uuid.UUID | str] = uuid.uuid4,
    ) -> None:
        store.check_new_files()
        self._store = store
        self._place = place
        self.directory = store.layout.bucket_directory(store.partition_directory(place[0]), place[1])
        self._clock_ms = clock_ms
        self.stem = str(new_uuid())
        self._counter = itertools.count()
        self._open: list[GroupedRows] = []
        self._other_paths: list[str] = []

    def open(
        self, plan: FilePlan, *, group_bytes: int = GROUP_BYTES, numbers: SequenceNumbers | None = None
    ) -> GroupedRows:
        """Return a sink of rows that become files of a plan; `numbers` are for rows without sequence numbers."""
        rolling = RollingFile(plan, lambda: self._new_file(plan), numbers, self._clock_ms)
        sink = GroupedRows(rolling, min(group_bytes, GROUP_BYTES))
        self._open.append(sink)
        return sink

    def add_path(self, path: str) -> None:
        """Let `discard` delete a file too that was written by other means."""
        self._other_paths.append(path)

    def discard(self) -> None:
        """Remove everything that was written."""
        for sink in self._open:
            sink.rolling.discard()
        finished = [done.path for sink in self._open for done in sink.rolling.files]
        for path in (*finished, *self._other_paths):
            # What cannot be removed is an orphan, which the removal of orphans finds.
            with suppress(OSError):
                self._store.storage.delete(path)

    def _new_file(self, plan: FilePlan) -> NewFile:
        number = next(self._counter)
        name = check_file_name(plan.file_name(f"{self.stem}-{number}"))
        path, external = self._store.new_data_file(self._place, name, number)
        return NewFile(name, path, self._store.storage.open_output(path), external)


class GroupedRows:
    """Gathers rows, so that what comes in small pieces is not written in small row groups."""

    def __init__(self, rolling: RollingFile, group_bytes: int) -> None:
        self.rolling = rolling
        self._group_bytes = group_bytes
        self._waiting: list[pa.Table] = []
        self._bytes = 0

    def write(self, rows: pa.Table) -> None:
        """Take rows in the order of the file."""
        if rows.num_rows == 0:
            return
        self._waiting.append(rows)
        self._bytes += rows.nbytes
        if self._bytes >= self._group_bytes:
            self._flush()

    def write_encoded(self, groups: Iterator[pa.Table], threads: int) -> None:
        """Write large groups of rows, each a row group or more; threads encode some of them while others are made."""
        self._flush()
        for piece in mapped(threads, _encoded, self._pieces(groups)):
            self.rolling.append(piece)

    def _pieces(self, groups: Iterator[pa.Table]) -> Iterator[Piece]:
        for rows in groups:
            start = 0
            while start < rows.num_rows:
                piece = self.rolling.next_piece(rows.slice(start))
                start += piece.rows.num_rows
                yield piece

    def finish(self) -> tuple[DataFile, ...]:
        """Write what waits, close the file and return all of them."""
        self._flush()
        self.rolling.finish()
        return tuple(done.facts for done in self.rolling.files)

    def _flush(self) -> None:
        if self._waiting:
            self.rolling.write(pa.concat_tables(self._waiting))
        self._waiting, self._bytes = [], 0


def _encoded(piece: Piece) -> Piece:
    piece.encode()
    return piece
