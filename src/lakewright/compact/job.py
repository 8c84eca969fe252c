"""Compactions of a table from plan to snapshot: asked for by a user, or after a commit.

A compaction runs on a published snapshot and becomes one COMPACT snapshot. If another commit deleted one of its files
meanwhile, its new files are deleted and it is planned again on the newest snapshot. A compaction that fails leaves the
table as it is; only tables with deletion vectors and first-row tables show new rows after a compaction and not before.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from lakewright.commit.committer import Committer
from lakewright.commit.message.message import CommitMessage
from lakewright.compact.append import plan_append
from lakewright.compact.postpone import distribute
from lakewright.compact.rewrite import run_task
from lakewright.compact.rounds import CompactResult, in_rounds, side_by_side
from lakewright.compact.task import CompactTask, PartitionSpec, Place, check_compactable, plan_compaction
from lakewright.compact.vectors import fold_vectors
from lakewright.datafiles.rolling import wall_clock_ms
from lakewright.errors import LakewrightError, LakewrightWarning
from lakewright.metadata.store import TableStore
from lakewright.spec.options import CoreOptions
from lakewright.spec.schema.table_schema import BucketMode
from lakewright.spec.snapshot import CommitKind, Snapshot

# How an engine runs tasks on its workers: a message for each, or an error and none of their files.
RunTasks: TypeAlias = Callable[[TableStore, Sequence[CompactTask]], list[CommitMessage]]


def compact_table(
    store: TableStore,
    *,
    full: bool = False,
    partitions: Sequence[PartitionSpec] | None = None,
    run: RunTasks | None = None,
) -> CompactResult:
    """Compact what is worth it, in all partitions or those that agree with a spec; with `full`, all that can be.

    `run` is how an engine runs the tasks on its workers; without it they run in threads.
    """
    check_compactable(store)
    now = wall_clock_ms()

    def plan(snapshot: Snapshot) -> list[CompactTask]:
        if not store.schema.primary_keys:
            return plan_append(store, snapshot, full=full, partitions=partitions)
        return plan_compaction(store, snapshot, full=full, partitions=partitions, now_ms=now)

    first = CompactResult(None)
    if store.schema.bucket_mode is BucketMode.POSTPONE:
        first = distribute(store, partitions=partitions)
    return first + run_plan(store, plan, run)


def run_plan(
    store: TableStore, plan: Callable[[Snapshot], list[CompactTask]], run: RunTasks | None = None
) -> CompactResult:
    """Plan on the newest snapshot, run the tasks, in threads unless told how, and publish one COMPACT snapshot."""
    run_all = run or _in_threads

    def produce(snapshot: Snapshot) -> list[CommitMessage]:
        tasks = plan(snapshot)
        messages = [message for message in run_all(store, tasks) if not message.is_empty] if tasks else []
        return messages if store.schema.primary_keys else fold_vectors(store, snapshot, messages)

    return in_rounds(store, produce, lambda messages, _: Committer(store, sole=True).commit(messages))


def _in_threads(store: TableStore, tasks: Sequence[CompactTask]) -> list[CommitMessage]:
    return side_by_side(store, tasks, lambda task, memory: [run_task(store, task, memory_bytes=memory)])


def after_commit(
    store: TableStore, snapshot: Snapshot, places: Collection[Place], *, run: RunTasks | None = None
) -> None:
    """Compact the buckets that a commit touched, as far as the options of the table ask for it.

    `run` is how an engine runs the tasks on its workers. The commit is published before, so that a failure of the
    compaction is only a warning.
    """
    touched = frozenset(place for place in places if place[1] >= 0)
    if not touched or not store.schema.primary_keys:
        return
    if store.options.get(CoreOptions.WRITE_ONLY):
        if store.options.hides_level_0():
            _warn(
                f"{store.name}: snapshot {snapshot.id} is published, but its rows STAY HIDDEN from batch reads until "
                "somebody compacts: the table is 'write-only' and level 0 is invisible; call table.compact() or run a "
                "compaction elsewhere"
            )
        return
    if store.options.get(CoreOptions.COMMIT_FORCE_COMPACT):
        forced = {CoreOptions.COMPACTION_FORCE_UP_LEVEL_0.key(): "true"}
        store = store.with_schema(store.schema.with_options(forced))
    try:
        due = due_for_full(store, snapshot, touched)
        now = wall_clock_ms()

        def plan(newest: Snapshot) -> list[CompactTask]:
            return plan_compaction(store, newest, full=due.__contains__, only=touched | due, now_ms=now)

        run_plan(store, plan, run)
    except (LakewrightError, OSError) as error:
        hidden = ", and until then its rows STAY HIDDEN from batch reads" if store.options.hides_level_0() else ""
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
    compacted: set[Place] = set()
    seen = 0
    for earlier in store.snapshots.walk_back(snapshot.id):
        seen += earlier.commit_kind is not CommitKind.COMPACT
        if seen < commits and earlier.commit_kind is not CommitKind.COMPACT:
            continue
        entries = store.manifests.delta(earlier)
        if seen == commits:
            return frozenset((e.partition, e.bucket) for e in entries if e.bucket >= 0) - compacted
        compacted |= {(e.partition, e.bucket) for e in entries if e.file.level >= deepest}
    return frozenset()


def _warn(text: str) -> None:
    # Past the hook and the commit object, to the line that committed.
    warnings.warn(text, LakewrightWarning, stacklevel=7)
