"""One attempt at one task of a write, and the names of its files.

Invariant: no two attempts ever give two files the same name, so files that one leaves behind disturb no other.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from lakewright.formats.data_file_writer import FilePlan, NewFile, wall_clock_ms
from lakewright.metadata.table_store import TableStore
from lakewright.spec.snapshot import Snapshot
from lakewright.storage.table_layout import check_file_name
from lakewright.write.bucket_assignment import Assigner

PartitionBucket: TypeAlias = tuple[bytes, int]  # partition and bucket


@dataclass(frozen=True, slots=True)
class WriteTask:
    """One attempt at one task of a write job."""

    store: TableStore
    write_id: str
    number: int = 0
    attempt: int = 0
    overwrite: bool = False  # live files are replaced: their bucket counts, sequence numbers and indexes do not count
    clock_ms: Callable[[], int] = wall_clock_ms
    real_buckets: bool = False  # write into numbered buckets although the table postpones its buckets
    sequence_stride: int = 0  # task n of a bucket's writers numbers its rows from the first free number + n * stride
    assigner: Assigner = field(default_factory=Assigner)  # dynamic buckets: which of them may get new keys
    looked_up_in: Snapshot | None = None  # as in `WriteJob`
    retracts_first: bool = False  # as in `WriteJob`

    @property
    def stem(self) -> str:
        """The part of every file name that no other attempt has; a number follows it."""
        return f"{self.write_id}-{self.number}-{self.attempt}"

    @property
    def label(self) -> str:
        """The name of the attempt in commit messages: its task and its number."""
        return f"{self.number}-{self.attempt}"


class FileNames:
    """Names the data files of one attempt, and opens them."""

    def __init__(self, task: WriteTask, *plans: FilePlan) -> None:
        """Check that files of these plans can be named before any row is taken in."""
        if task.store.layout.external_directories:
            task.store.check_new_files()
        for plan in plans:
            check_file_name(plan.file_name(task.stem))
        self._task = task
        self._counter = itertools.count()

    def new_file(self, place: PartitionBucket, plan: FilePlan) -> NewFile:
        """Open the next file of a bucket."""
        store = self._task.store
        number = next(self._counter)
        name = check_file_name(plan.file_name(f"{self._task.stem}-{number}"))
        path, external = store.new_data_file(place, name, number)
        return NewFile(name, path, store.storage.open_output(path), external)
