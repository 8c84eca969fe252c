"""Compactions from request to snapshot, on any engine."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, TypeAlias

from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.commit_plan import PartitionSelection, live_files, select_partitions
from lakewright.compact.compaction_plan import (
    AppendRules,
    CompactTask,
    PartitionBucket,
    Partitions,
    PartitionSpec,
    append_tasks,
    check_compactable,
    live_buckets,
    plan_append,
    plan_compaction,
    plan_order,
)
from lakewright.compact.compaction_rounds import (
    ROUNDS_MAX,
    CompactResult,
    estimate,
    place_name,
    publish_fitting,
    run_concurrently,
    tell_compaction,
)
from lakewright.compact.keyed_compaction import run_task
from lakewright.compact.postponed_rows import distribute, postponed_tasks
from lakewright.errors import InvalidInputError, LakewrightError, LakewrightWarning, UnsupportedError, with_table_name
from lakewright.formats.data_file_writer import wall_clock_ms
from lakewright.metadata.table_store import TableStore
from lakewright.metrics import StageTimer
from lakewright.spec import argument_checks
from lakewright.spec.argument_checks import DurationLike
from lakewright.spec.filters import Filter, to_predicate
from lakewright.spec.predicate import Predicate, matches_values
from lakewright.spec.snapshot import CommitKind, Snapshot
from lakewright.spec.table_options import TableOptions
from lakewright.spec.table_schema import BucketMode
from lakewright.spec.types import AtomicType

# ---- Arguments of a compaction ---------------------------------------------------------------------------------------
# A condition and an idle time are applied to the snapshot that is compacted, not to the one that was there when the
# call began. Reads metadata alone.

Strategy: TypeAlias = Literal["order", "zorder", "hilbert"]
STRATEGIES: Final = ("order", "zorder", "hilbert")
_COLUMNS_MAX = 32  # a curve gives each column at least two bits


@dataclass(frozen=True, slots=True)
class CompactChoice:
    """What is to be compacted, and how: the arguments of a call after they were checked."""

    full: bool = False
    partitions: tuple[PartitionSpec, ...] | None = None
    where: Predicate | None = None  # on partition columns alone
    idle_millis: int | None = None
    order_by: tuple[str, ...] = ()  # rows are sorted by these columns
    strategy: str = ""
    dry_run: bool = False
    only_deleted: bool = False  # files with deletion vectors, and nothing else

    def selection(self, store: TableStore, snapshot: Snapshot) -> Partitions:
        """Return the partitions of a snapshot that are meant."""
        if self.where is None and self.idle_millis is None:
            return self.partitions
        newest: dict[bytes, int] = {}
        for entry in live_files(store, snapshot, select_partitions(store, self.partitions)):
            newest[entry.partition] = max(newest.get(entry.partition, 0), entry.file.creation_time or 0)
        chosen = newest.keys() if self.where is None else matching(store, self.where, newest)
        if self.idle_millis is not None:
            limit = wall_clock_ms() - self.idle_millis
            chosen = [partition for partition in chosen if newest[partition] < limit]
        return PartitionSelection(partitions=frozenset(chosen))


@dataclass(frozen=True, slots=True)
class CompactRequest:
    """The arguments of a compaction as a caller gave them."""

    full: bool = False
    partitions: Mapping[str, object] | Sequence[Mapping[str, object]] | None = None
    where: Filter | None = None
    order_by: str | Sequence[str] | None = None
    strategy: Strategy | None = None
    idle: DurationLike | None = None
    dry_run: bool = False

    def check_arguments(self, store: TableStore) -> CompactChoice:
        """Check the arguments against a table."""
        with with_table_name(store.name):
            order_by, strategy = self._order(store)
            idle = argument_checks.check_optional(argument_checks.to_duration_millis, "idle", self.idle)
            if idle is not None and not store.schema.partition_keys:
                raise InvalidInputError(
                    f"{store.name} has no partitions that could be idle; leave 'idle' out", argument="idle"
                )
            return CompactChoice(
                argument_checks.check_bool("full", self.full),
                argument_checks.check_optional(argument_checks.check_partition_specs, "partitions", self.partitions),
                None if self.where is None else partition_predicate(store, self.where),
                idle,
                order_by,
                strategy,
                argument_checks.check_bool("dry_run", self.dry_run),
            )

    def _order(self, store: TableStore) -> tuple[tuple[str, ...], str]:
        names = argument_checks.check_optional(argument_checks.check_names, "order_by", self.order_by)
        if names is None and self.strategy is None:
            return (), ""
        if not names:
            raise InvalidInputError(
                f"strategy={argument_checks.describe_value(self.strategy)} sorts rows by columns: "
                "name them in order_by",
                argument="order_by",
            )
        strategy = argument_checks.check_one_of(
            "strategy", "order" if self.strategy is None else self.strategy, STRATEGIES
        )
        _check_order(store, names)
        return names, strategy


def _check_order(store: TableStore, names: Sequence[str]) -> None:
    """Raise an error if rows of the table cannot be sorted by some columns."""
    schema = store.schema
    unsortable = None
    if schema.primary_keys:
        unsortable = "has a primary key, which orders its rows"
    elif schema.bucket_mode is not BucketMode.UNAWARE:
        unsortable = f"has bucket={store.options.bucket}, and rows of a bucket stay in the order they were written"
    elif store.options.data_evolution_enabled:
        unsortable = "has 'data-evolution.enabled', and the ids of its rows count up in the order of the rows"
    if unsortable is not None:
        raise UnsupportedError(
            f"order_by is for append tables without buckets (bucket=-1), and {store.name} {unsortable}; compact it "
            "without order_by",
            argument="order_by",
        )
    for name in names:
        field = next((field for field in schema.fields if field.name == name), None)
        if field is None:
            near = argument_checks.suggest_name(name, [field.name for field in schema.fields])
            raise InvalidInputError(f"order_by names {name!r}, which is no column; {near}", argument="order_by")
        if not isinstance(field.type, AtomicType) or field.type.root == "VARIANT":
            raise InvalidInputError(
                f"order_by names {name!r} of the type {field.type}, whose values have no order", argument="order_by"
            )
        if name in schema.partition_keys:
            raise InvalidInputError(
                f"order_by names {name!r}, a partition column: it is the same in all rows of a partition; name others",
                argument="order_by",
            )
    if len(set(names)) < len(names) or len(names) > _COLUMNS_MAX:
        raise InvalidInputError(
            f"order_by takes up to {_COLUMNS_MAX} columns, each once, not {', '.join(names)}", argument="order_by"
        )


def partition_predicate(store: TableStore, where: Filter) -> Predicate:
    """Return a condition on the partition columns; one on other columns is an error."""
    keys = store.schema.partition_keys
    if not keys:
        raise InvalidInputError(
            f"{store.name} has no partitions that a condition could choose; leave 'where' out", argument="where"
        )
    predicate = to_predicate(where, store.schema.fields, store.options.lakewright_time_zone)
    others = sorted(predicate.columns() - set(keys))
    if others:
        raise InvalidInputError(
            f"the condition may only use the partition columns {', '.join(keys)}, because whole partitions are "
            f"chosen; it uses {', '.join(others)}",
            argument="where",
        )
    return predicate


def matching(store: TableStore, where: Predicate, partitions: Iterable[bytes]) -> list[bytes]:
    """Return the partitions that fulfil a condition on the partition columns, in order."""
    names = store.schema.partition_keys
    return [
        partition
        for partition in partitions
        if matches_values(where, dict(zip(names, store.partition_values(partition), strict=True)))
    ]


# ---- Compactions from plan to snapshot -------------------------------------------------------------------------------
# A compaction runs on a published snapshot and becomes one COMPACT snapshot. If another commit deleted one of the
# files of a bucket meanwhile, the new files of that bucket are deleted and it is planned again on the newest
# snapshot. A compaction that fails leaves the table as it is; only tables with deletion vectors and first-row tables
# show new rows after a compaction and not before.

# How an engine runs tasks on its workers: a message for each, or an error and none of their files.
TaskRunner: TypeAlias = Callable[[TableStore, Sequence[CompactTask]], list[CommitMessage]]


def compact_table(
    store: TableStore,
    *,
    full: bool = False,
    partitions: Sequence[PartitionSpec] | None = None,
    run: TaskRunner | None = None,
) -> CompactResult:
    """Compact what is worth it, in all partitions or those that agree with a spec; with `full`, all that can be.

    `run` is how an engine runs the tasks on its workers; without it they run in threads.
    """
    choice = CompactChoice(full=full, partitions=None if partitions is None else tuple(partitions))
    return compact_request(store, choice, run)


def compact_request(store: TableStore, choice: CompactChoice, run: TaskRunner | None = None) -> CompactResult:
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
    if store.schema.primary_keys or not store.options.clustering_incremental:
        return
    columns = store.options.clustering_columns
    raise UnsupportedError(
        f"{store.name} has 'clustering.incremental': merging its files would undo the order that they are in; sort the "
        f"whole table by compact(order_by={list(columns)}), cluster it with Java, or remove the option",
        table=store.name,
        option=TableOptions.clustering_incremental.key(),
    )


def materialize_vectors(
    store: TableStore, *, partitions: Sequence[PartitionSpec] | None = None, run: TaskRunner | None = None
) -> CompactResult:
    """Rewrite the files that have deletion vectors, without their deleted rows."""
    unable = None
    if store.options.data_evolution_enabled:
        unable = "has 'data-evolution.enabled', so that deleted rows keep their places and ids"
    elif not store.options.deletion_vectors_enabled:
        unable = "has no deletion vectors: 'deletion-vectors.enabled' is not true"
    if unable is not None:
        raise UnsupportedError(f"{store.name} {unable}", table=store.name)
    chosen = None if partitions is None else tuple(partitions)
    return compact_request(store, CompactChoice(partitions=chosen, only_deleted=True), run)


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
    run: TaskRunner | None = None,
    newest: Snapshot | None = None,
) -> CompactResult:
    """Plan on the newest snapshot, run the tasks, in threads unless told how, and publish one COMPACT snapshot.

    `newest` is the newest snapshot, if the caller knows it.

    If other commits took away files of some buckets meanwhile, the other buckets are published all the same, and these
    are planned again in a further round, up to `ROUNDS_MAX`.
    """
    started, began, stages, rounds = time.monotonic(), time.time_ns(), StageTimer(), 0
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
    if len(tasks) >= store.options.lakewright_write_threads:
        # Every thread has a task of its own, so that more threads within a task would only get in the way of others.
        one = store.with_schema(store.schema.with_options({TableOptions.lakewright_write_threads.key(): "1"}))
    else:
        one = store
    return run_concurrently(store, tasks, lambda task, memory: [run_task(one, task, memory_bytes=memory)])


def compact_after_commit(
    store: TableStore,
    snapshot: Snapshot,
    places: Collection[PartitionBucket],
    *,
    run: TaskRunner | None = None,
    is_newest: bool = False,
) -> None:
    """Compact the buckets that a commit touched, as far as the options of the table ask for it.

    `run` is how an engine runs the tasks on its workers. With `is_newest` the commit was published just now, so that
    the newest snapshot need not be looked up. The commit is published before, so that a failure of the compaction
    is only a warning.
    """
    touched = frozenset(place for place in places if place[1] >= 0)
    if not touched or not store.schema.primary_keys:
        return
    if store.options.write_only:
        if store.options.hides_level_0:
            _warn(
                f"{store.name}: snapshot {snapshot.id} is published, but its rows STAY HIDDEN from batch reads until "
                "somebody compacts: the table is 'write-only' and level 0 is invisible; call table.compact() or run a "
                "compaction elsewhere"
            )
        return
    if store.options.commit_force_compact:
        forced = {TableOptions.compaction_force_up_level_0.key(): "true"}
        store = store.with_schema(store.schema.with_options(forced))
    try:
        due = due_for_full(store, snapshot, touched)
        now = wall_clock_ms()

        def plan(newest: Snapshot) -> list[CompactTask]:
            return plan_compaction(store, newest, full=due.__contains__, only=touched | due, now_ms=now)

        run_plan(store, plan, run, snapshot if is_newest else None)
    except (LakewrightError, OSError) as error:
        hidden = ", and until then its rows STAY HIDDEN from batch reads" if store.options.hides_level_0 else ""
        _warn(
            f"{store.name}: snapshot {snapshot.id} is published, but the compaction after it failed: {error}. Call "
            f"table.compact() later{hidden}"
        )


def due_for_full(
    store: TableStore, snapshot: Snapshot, touched: Collection[PartitionBucket]
) -> frozenset[PartitionBucket]:
    """Return the places that `full-compaction.delta-commits` wants compacted fully now.

    These are the places that the n-th newest commit touched and that got no file in their deepest level since.
    """
    commits = store.options.full_compaction_delta_commits
    if commits is None:
        return frozenset()
    if commits == 1:
        return frozenset(touched)
    deepest = store.options.level_count - 1
    compacted: set[PartitionBucket] = set()
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
