"""Compactions of a table from plan to snapshot: asked for by a user, or after a commit.

A compaction runs on a published snapshot and becomes one COMPACT snapshot. If somebody took one of its files away in
the meantime, its new files are removed and it is planned again on the newest snapshot, so a concurrent upsert is never
hidden. A compaction that fails leaves the table as it is: no row depends on it, except that tables with deletion
vectors and first-row tables show new rows only after one.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from lakewright.commit.committer import Committer
from lakewright.commit.files import delete_written, files_of
from lakewright.commit.message import CommitMessage
from lakewright.compact.rewrite import run_task
from lakewright.compact.task import CompactTask, PartitionSpec, Place, check_compactable, plan_compaction
from lakewright.errors import CommitConflictError, CommitContentionError, LakewrightError, LakewrightWarning
from lakewright.formats.rolling import wall_clock_ms
from lakewright.lsm.pick import hides_level_0
from lakewright.metadata.store import TableStore
from lakewright.spec.options import CoreOptions
from lakewright.spec.snapshot import CommitKind, Snapshot

TRIES_MAX = 10  # plans that may be overtaken by others


@dataclass(frozen=True, slots=True)
class CompactResult:
    """What a compaction did to the table."""

    snapshot_id: int | None  # None: there was nothing to do
    buckets: int = 0
    files_before: int = 0
    files_after: int = 0
    rows: int = 0  # in the files that came out
    bytes: int = 0
    changelog_rows: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Work:
    """How compactions are planned, run and published; tests put their own committer in."""

    store: TableStore
    committer: Callable[[TableStore], Committer] = Committer
    tries_max: int = TRIES_MAX
    run: Callable[..., CommitMessage] = field(default=run_task)

    def compact(self, plan: Callable[[Snapshot], list[CompactTask]]) -> CompactResult:
        """Plan on the newest snapshot, do the work and publish it; plan again when others were faster."""
        started = time.monotonic()
        for left in reversed(range(self.tries_max)):
            snapshot = self.store.snapshots.latest()
            tasks = [] if snapshot is None else plan(snapshot)
            if not tasks:
                return CompactResult(None, seconds=time.monotonic() - started)
            messages = self._run_all(tasks)
            try:
                published = self.committer(self.store).commit(messages)
            except (CommitConflictError, CommitContentionError):
                # Nothing was published, and nobody else knows these files.
                delete_written(self.store, files_of(self.store, messages))
                if not left:
                    raise
                continue
            snapshot_id = None if published is None else published.id
            return replace(_result(messages), snapshot_id=snapshot_id, seconds=time.monotonic() - started)
        raise AssertionError("the last try returns or raises")

    def _run_all(self, tasks: Sequence[CompactTask]) -> list[CommitMessage]:
        """Run tasks side by side; if one fails, the files of all of them are removed."""
        options = self.store.options
        threads = min(len(tasks), options.get(CoreOptions.LAKEWRIGHT_WRITE_THREADS))
        memory = max(1, options.get(CoreOptions.LAKEWRIGHT_MERGE_MEMORY) // threads)
        done: list[CommitMessage] = []
        with ThreadPoolExecutor(threads) as pool:
            futures = [pool.submit(self.run, self.store, task, memory_bytes=memory) for task in tasks]
            try:
                done.extend(future.result() for future in futures)
            except BaseException:
                for future in futures:
                    future.cancel()
                pool.shutdown(wait=True)
                finished = [f.result() for f in futures if f.done() and not f.cancelled() and f.exception() is None]
                delete_written(self.store, files_of(self.store, finished))
                raise
        return [message for message in done if not message.is_empty]


def compact_table(
    store: TableStore, *, full: bool = False, partitions: Sequence[PartitionSpec] | None = None
) -> CompactResult:
    """Compact what is worth it, in all partitions or those that agree with a spec; with `full`, all to one level."""
    check_compactable(store)
    now = wall_clock_ms()

    def plan(snapshot: Snapshot) -> list[CompactTask]:
        return plan_compaction(store, snapshot, full=full, partitions=partitions, now_ms=now)

    return Work(store).compact(plan)


def after_commit(store: TableStore, snapshot: Snapshot, places: Collection[Place]) -> None:
    """Compact the buckets that a commit touched, as far as the options of the table ask for it.

    The commit stands, whatever happens here: a failure is a warning.
    """
    touched = frozenset(place for place in places if place[1] >= 0)
    if not touched or not store.schema.primary_keys:
        return
    if store.options.get(CoreOptions.WRITE_ONLY):
        if hides_level_0(store.options):
            _warn(
                f"{store.name}: snapshot {snapshot.id} is published, but its rows STAY HIDDEN from batch reads until "
                "somebody compacts: the table is 'write-only' and level 0 is invisible; call table.compact() or run a "
                "compaction elsewhere"
            )
        return
    try:
        due = due_for_full(store, snapshot, touched)
        now = wall_clock_ms()

        def plan(newest: Snapshot) -> list[CompactTask]:
            return plan_compaction(store, newest, full=due.__contains__, only=touched | due, now_ms=now)

        Work(store).compact(plan)
    except (LakewrightError, OSError) as error:
        hidden = ", and until then its rows STAY HIDDEN from batch reads" if hides_level_0(store.options) else ""
        _warn(
            f"{store.name}: snapshot {snapshot.id} is published, but the compaction after it failed: {error}. Call "
            f"table.compact() later{hidden}"
        )


def due_for_full(store: TableStore, snapshot: Snapshot, touched: Collection[Place]) -> frozenset[Place]:
    """Return the places that `full-compaction.delta-commits` wants compacted fully now.

    These are the places that the n-th newest commit touched and that got no file in their deepest level since.
    """
    commits = store.options.get(CoreOptions.FULL_COMPACTION_DELTA_COMMITS)
    if commits is None:
        return frozenset()
    if commits == 1:
        return frozenset(touched)
    deepest = store.options.num_levels() - 1
    settled: set[Place] = set()
    seen = 0
    for found in store.snapshots.walk_back(snapshot.id):
        seen += found.commit_kind is not CommitKind.COMPACT
        if seen < commits and found.commit_kind is not CommitKind.COMPACT:
            continue
        entries = store.manifests.delta(found)
        if seen == commits:
            return frozenset((e.partition, e.bucket) for e in entries if e.bucket >= 0) - settled
        settled |= {(e.partition, e.bucket) for e in entries if e.file.level >= deepest}
    return frozenset()


def _result(messages: Sequence[CommitMessage]) -> CompactResult:
    after = [file for message in messages for file in message.compact_after]
    return CompactResult(
        snapshot_id=None,
        buckets=len(messages),
        files_before=sum(len(message.compact_before) for message in messages),
        files_after=len(after),
        rows=sum(file.row_count for file in after),
        bytes=sum(file.file_size for file in after),
        changelog_rows=sum(file.row_count for message in messages for file in message.compact_changelog_files),
    )


def _warn(text: str) -> None:
    warnings.warn(text, LakewrightWarning, stacklevel=3)
