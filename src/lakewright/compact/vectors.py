"""The deletion vectors of one bucket during its compaction: those that were there, and rows found to be outdated.

A bucket has one index file with the vectors of all its data files. A compaction that changes any of them writes a new
file that is complete: vectors it did not touch are copied, those of files that it rewrote are left out.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt

from lakewright.compact.task import CompactTask, Place
from lakewright.errors import LakewrightError
from lakewright.formats.deletion_vectors import Positions, encode_deletion_vectors, read_deletion_vector
from lakewright.metadata.store import TableStore
from lakewright.read.split import DeletionFile
from lakewright.spec.datafile import DELETION_VECTORS, DeletionRange, IndexFile
from lakewright.spec.options import CoreOptions
from lakewright.storage.layout import check_file_name


def deletions_of(store: TableStore, place: Place, vectors: IndexFile | None) -> dict[tuple[bytes, str], DeletionFile]:
    """Return where a reader of a bucket finds the vectors of its files."""
    if vectors is None:
        return {}
    directory = store.layout.bucket_directory(store.partition_directory(place[0]), place[1])
    path = store.layout.index_file(vectors, directory)
    return {
        (place[0], r.data_file): DeletionFile(path, r.offset, r.length, r.cardinality)
        for r in vectors.deletion_ranges or ()
    }


class BucketVectors:
    """The vectors of a task's bucket."""

    def __init__(self, store: TableStore, task: CompactTask) -> None:
        self._store = store
        self._file = task.vectors
        found = () if task.vectors is None else task.vectors.deletion_ranges or ()
        self._ranges: Mapping[str, DeletionRange] = {r.data_file: r for r in found}
        partition = store.partition_directory(task.partition)
        self._directory = store.layout.bucket_directory(partition, task.bucket)
        self._outdated: dict[str, list[Positions]] = {}
        self._lock = threading.Lock()

    @property
    def masked(self) -> frozenset[str]:
        """The names of the data files that have deleted rows."""
        return frozenset(self._ranges)

    def mark(self, data_file: str, positions: npt.NDArray[np.int64]) -> None:
        """Note rows of a file that newer rows take the place of."""
        with self._lock:
            self._outdated.setdefault(data_file, []).append(positions.astype(np.uint64))

    def write(self, stem: str, rewritten: Collection[str]) -> IndexFile | None:
        """Write the new index file of the bucket, named `index-<stem>-0`; None where nothing changed.

        `rewritten` are data files that are no more.
        """
        if not self._outdated and not any(name in self._ranges for name in rewritten):
            return None
        left = [name for name in {**self._ranges, **self._outdated} if name not in rewritten]
        vectors = {name: self._positions(name) for name in left}
        bitmap64 = self._store.options.get(CoreOptions.DELETION_VECTORS_BITMAP64)
        data, ranges = encode_deletion_vectors(vectors, bitmap64=bitmap64)
        file = IndexFile(DELETION_VECTORS, check_file_name(f"index-{stem}-0"), len(data), len(ranges), ranges)
        path = self._store.layout.index_file(file, self._directory)
        if not self._store.storage.create(path, data):
            raise LakewrightError(f"{self._store.name}: {path} is there already; compact again", path=path)
        return file

    def path_of(self, file: IndexFile) -> str:
        """Return where an index file of the bucket lies."""
        return self._store.layout.index_file(file, self._directory)

    def _positions(self, name: str) -> Positions:
        parts = list(self._outdated.get(name, ()))
        place = self._ranges.get(name)
        if place is not None and self._file is not None:
            path = self.path_of(self._file)
            source = self._store.storage.open_input(path)
            try:
                parts.append(read_deletion_vector(source, place, path=path))
            finally:
                source.close()
        return np.unique(np.concatenate(parts))
