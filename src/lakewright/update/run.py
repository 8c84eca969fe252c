"""One verb, one snapshot: pin, prepare, commit, and from the start again when somebody changed the same rows.

    newest snapshot -> prepare: find, decide, apply -> commit -> conflict? take back what was written, begin again

What always holds: where nothing has to be changed there is no snapshot; files of an attempt are removed only when it is
known that no snapshot names them; when nobody can say whether a commit happened, nothing is removed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import TypeAlias

from lakewright.commit.committer import Committer
from lakewright.commit.files import delete_written, files_of
from lakewright.commit.message import CommitMessage, guarded
from lakewright.compact.job import after_commit
from lakewright.errors import CommitConflictError, CommitContentionError
from lakewright.metadata.store import TableStore
from lakewright.read.split import DataSplit
from lakewright.spec.options import CoreOptions
from lakewright.spec.snapshot import Snapshot
from lakewright.update import vectors, ways
from lakewright.update.change import Applied, ChangeJob, GroupChange
from lakewright.update.result import UpdateResult


@dataclass(frozen=True, slots=True)
class Prepared:
    """One attempt at a verb, ready to be committed."""

    messages: tuple[CommitMessage, ...] = ()
    deleted: int = 0
    updated: int = 0
    inserted: int = 0
    way: str = ""
    unchanged: str | None = None  # where nobody may have written rows since: "bucket", "partition" or "table"
    reads: tuple[str, ...] = ()  # the columns that conditions and expressions saw

    def planned_on(self, base: Snapshot | None) -> tuple[CommitMessage, ...]:
        """Return the messages, to be committed only if what was read of a snapshot still holds."""
        return tuple(
            guarded(message, base, unchanged=self.unchanged, reads=self.reads)
            for message in self.messages
            if not message.is_empty
        )


Prepare: TypeAlias = Callable[[Snapshot | None], Prepared]
Decide: TypeAlias = Callable[[DataSplit], GroupChange | None]


def change(store: TableStore, prepare: Prepare, *, operation: str) -> UpdateResult:
    """Prepare a change on the newest snapshot and commit it, as often as others change the same rows first.

    `operation` is what the snapshot says of itself: DELETE, UPDATE, MERGE or WRITE.
    """
    started = time.monotonic()
    retries_max = store.options.get(CoreOptions.COMMIT_MAX_RETRIES)
    timeout = store.options.get(CoreOptions.COMMIT_TIMEOUT)
    attempts = 0
    while True:
        base = store.snapshots.latest()
        prepared = prepare(base)
        messages = prepared.planned_on(base)
        attempts += 1
        committer = Committer(store)
        try:
            published = committer.commit(messages, operation=operation) if messages else None
        except CommitConflictError as error:
            committer.abort(messages)
            late = timeout is not None and (time.monotonic() - started) * 1000 >= timeout
            if attempts > retries_max or late or "published_id" in error.facts:
                raise
            continue
        except CommitContentionError:
            committer.abort(messages)
            raise
        if published is not None and store.schema.primary_keys:
            after_commit(store, published, frozenset((m.partition_bytes, m.bucket) for m in messages))
        return _result(published, replace(prepared, messages=messages), attempts, time.monotonic() - started)


def _result(published: Snapshot | None, prepared: Prepared, attempts: int, seconds: float) -> UpdateResult:
    files = [file for message in prepared.messages for file in message.new_files]
    return UpdateResult(
        snapshot_id=None if published is None else published.id,
        deleted=prepared.deleted,
        updated=prepared.updated,
        inserted=prepared.inserted,
        files=len(files),
        bytes=sum(file.file_size for file in files),
        seconds=seconds,
        partitions=len({message.partition_bytes for message in prepared.messages}),
        way=str(prepared.way),
        attempts=attempts,
    )


def change_groups(job: ChangeJob, parts: Sequence[DataSplit], decide: Decide) -> Prepared:
    """Decide of groups what becomes of their rows and do it, in threads; `decide` is called in any of them."""
    applied = reduce(add, _in_threads(job, parts, decide), Applied())
    try:
        folded = vectors.fold(job, applied)
    except BaseException:
        _take_back(job.store, applied)
        raise
    return Prepared((*applied.messages, *folded), applied.deleted, applied.updated, way=str(ways.way_of(job.store)))


def _in_threads(job: ChangeJob, parts: Sequence[DataSplit], decide: Decide) -> list[Applied]:
    """Have each thread take the next group as long as there is one; if one fails, the files of all are removed."""
    threads = min(len(parts), job.store.options.get(CoreOptions.LAKEWRIGHT_WRITE_THREADS))
    left = iter(parts)
    lock = threading.Lock()
    failed = threading.Event()

    def changes() -> Iterator[GroupChange]:
        while not failed.is_set():
            with lock:
                part = next(left, None)
            if part is None:
                return
            found = decide(part)
            if found is not None and not found.is_empty:
                yield found

    def work(task: int) -> Applied:
        try:
            return ways.apply(job, changes(), task)
        except BaseException:
            failed.set()
            raise

    if threads <= 1:
        return [work(0)] if parts else []
    with ThreadPoolExecutor(threads, thread_name_prefix="lakewright-update") as pool:
        futures = [pool.submit(work, task) for task in range(threads)]
    if failed.is_set():
        _take_back(job.store, *(_done(futures)))
    return [future.result() for future in futures]


def _done(futures: Sequence[Future[Applied]]) -> list[Applied]:
    return [future.result() for future in futures if future.exception() is None]


def _take_back(store: TableStore, *applied: Applied) -> None:
    """Remove the files of work that nobody will commit."""
    delete_written(store, files_of(store, [message for some in applied for message in some.messages]))
    vectors.remove(store, [(found.bucket, found.file) for some in applied for found in some.vector_files])
