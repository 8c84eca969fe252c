"""Compactions of a table from plan to snapshot: asked for by a user, or after a commit.

A compaction runs on a published snapshot and becomes one COMPACT snapshot. If another commit deleted one of the files
of a bucket meanwhile, the new files of that bucket are deleted and it is planned again on the newest snapshot. A
compaction that fails leaves the table as it is; only tables with deletion vectors and first-row tables show new rows
after a compaction and not before.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from lakewright.commit.message.message import CommitMessage
from lakewright.compact.append import AppendRules, append_tasks, plan_append, plan_order
from lakewright.compact.postpone import distribute, postponed_tasks
from lakewright.compact.publish import place_name, publish_fitting
from lakewright.compact.request.choice import CompactChoice
from lakewright.compact.request.estimate import estimate
from lakewright.compact.rewrite import run_task
from lakewright.compact.rounds import ROUNDS_MAX, CompactResult, side_by_side, tell_compaction
from lakewright.compact.task import (
    CompactTask,
    Partitions,
    PartitionSpec,
    Place,
    check_compactable,
    live_buckets,
    plan_compaction,
)
from lakewright.datafiles.rolling import wall_clock_ms
from lakewright.errors import LakewrightError, LakewrightWarning, UnsupportedError
from lakewright.metadata.store import TableStore
from lakewright.metrics import Stages
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
    choice = CompactChoice(full=full, partitions=None if partitions is None else tuple(partitions))
    return compact_chosen(store, choice, run)


def compact_chosen(store: TableStore, choice: CompactChoice, run: RunTasks | None = None) -> CompactResult:
    """Compact what a caller chose; with `dry_run` say only what would be done."""
    check_compactable(store)
    if not choice.order_by and not choice.only_deleted:
        _check_unclustered(store)
    now = wall_clock_ms()

    def plan(snapshot: Snapshot) -> list[CompactTask]:
        partitions = choice.selection(store, snapshot)
        if choice.order_by:
            return plan_order(store, snapshot, choice.order_by, choice.strategy, partitions=partitions)
        if choice.only_deleted:
            return plan_deleted(store, snapshot, partitions)
        if not store.schema.primary_keys:
            return plan_append(store, snapshot, full=choice.full, partitions=partitions)
        return plan_compaction(store, snapshot, full=choice.full, partitions=partitions, now_ms=now)

    postpones = store.schema.bucket_mode is BucketMode.POSTPONE
    if choice.dry_run:
        snapshot = store.snapshots.latest()
        store.check_same_table()
        if snapshot is None:
            return CompactResult(None, dry_run=True)
        waiting = postponed_tasks(store, snapshot, choice.selection(store, snapshot)) if postpones else []
        return estimate(store, [*waiting, *plan(snapshot)])
    first = CompactResult(None)
    if postpones:
        first = distribute(store, partitions=partial(choice.selection, store))
    return first + run_plan(store, plan, run)


def _check_unclustered(store: TableStore) -> None:
    """Raise UnsupportedError for tables whose files are clustered step by step: a merge of files undoes their order."""
    if store.schema.primary_keys or not store.options.get(CoreOptions.CLUSTERING_INCREMENTAL):
        return
    columns = store.options.get(CoreOptions.CLUSTERING_COLUMNS)
    raise UnsupportedError(
        f"{store.name} has 'clustering.incremental': merging its files would undo the order that they are in; sort the "
        f"whole table by compact(order_by={list(columns)}), cluster it with Java, or remove the option",
        table=store.name,
        option=CoreOptions.CLUSTERING_INCREMENTAL.key(),
    )


def materialize_vectors(
    store: TableStore, *, partitions: Sequence[PartitionSpec] | None = None, run: RunTasks | None = None
) -> CompactResult:
    """Rewrite the files that have deletion vectors, without their deleted rows."""
    unable = None
    if store.options.data_evolution_enabled():
        unable = "has 'data-evolution.enabled', so that deleted rows keep their places and ids"
    elif not store.options.deletion_vectors_enabled():
        unable = "has no deletion vectors: 'deletion-vectors.enabled' is not true"
    if unable is not None:
        raise UnsupportedError(f"{store.name} {unable}", table=store.name)
    chosen = None if partitions is None else tuple(partitions)
    return compact_chosen(store, CompactChoice(partitions=chosen, only_deleted=True), run)


def plan_deleted(store: TableStore, snapshot: Snapshot, partitions: Partitions) -> list[CompactTask]:
    """Return tasks that rewrite the files with deletion vectors; of a primary-key table the buckets that have some."""
    buckets = live_buckets(store, snapshot, partitions=partitions)
    masked = [bucket for bucket in buckets if bucket.deleted_rows]
    if not store.schema.primary_keys:
        rules = replace(AppendRules.of(store.options, full=True), small_bytes=0, rewrites_all=False)
        return append_tasks(store, snapshot, rules, masked)
    places = {bucket.place for bucket in masked}
    return plan_compaction(store, snapshot, full=True, only=places) if places else []


def run_plan(
    store: TableStore,
    plan: Callable[[Snapshot], list[CompactTask]],
    run: RunTasks | None = None,
    newest: Snapshot | None = None,
) -> CompactResult:
    """Plan on the newest snapshot, run the tasks, in threads unless told how, and publish one COMPACT snapshot.

    `newest` is the newest snapshot, if the caller knows it.

    If other commits took away files of some buckets meanwhile, the other buckets are published all the same, and these
    are planned again in a further round, up to `ROUNDS_MAX`.
    """
    started, began, stages, rounds = time.monotonic(), time.time_ns(), Stages(), 0
    result, only = CompactResult(None), None
    for left in reversed(range(ROUNDS_MAX)):
        since, rounds = time.perf_counter(), rounds + 1
        base, newest = newest or store.snapshots.latest(), None
        with store.checking_same_table():
            tasks = [] if base is None else plan(base)
        tasks = [task for task in tasks if only is None or (task.partition, task.bucket) in only]
        since = stages.add("plan", since)
        messages = [message for message in (run or _in_threads)(store, tasks) if not message.is_empty] if tasks else []
        since = stages.add("rewrite", since)
        if base is None or not messages:
            break
        done = publish_fitting(store, base, messages)
        stages.add("commit", since)
        result = result + done.result
        if done.error is None:
            break
        if not left and result.snapshot_id is None:
            raise done.error
        only = done.lost
        result = replace(result, skipped=() if left else tuple(map(partial(place_name, store), sorted(only))))
    result = replace(result, seconds=time.monotonic() - started, attempts=rounds, stages_ms=stages.millis)
    tell_compaction(store, result, began)
    return result


def _in_threads(store: TableStore, tasks: Sequence[CompactTask]) -> list[CommitMessage]:
    if len(tasks) >= store.options.get(CoreOptions.LAKEWRIGHT_WRITE_THREADS):
        # Every thread has a task of its own, so that more threads within a task would only get in the way of others.
        one = store.with_schema(store.schema.with_options({CoreOptions.LAKEWRIGHT_WRITE_THREADS.key(): "1"}))
    else:
        one = store
    return side_by_side(store, tasks, lambda task, memory: [run_task(one, task, memory_bytes=memory)])


def after_commit(
    store: TableStore,
    snapshot: Snapshot,
    places: Collection[Place],
    *,
    run: RunTasks | None = None,
    is_newest: bool = False,
) -> None:
    """Compact the buckets that a commit touched, as far as the options of the table ask for it.

    `run` is how an engine runs the tasks on its workers. With `is_newest` the commit was published just now, so that
    nobody need be asked for the newest snapshot. The commit is published before, so that a failure of the compaction
    is only a warning.
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

        run_plan(store, plan, run, snapshot if is_newest else None)
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
