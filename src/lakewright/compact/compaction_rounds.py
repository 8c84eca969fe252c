"""Plan and publish on the newest snapshot until nothing overtakes; estimates; manifests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

from lakewright.commit.commit_changes import delete_files_of, files_of_messages
from lakewright.commit.commit_loop import RetryPolicy, plan_and_publish
from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.commit_plan import PartitionSelection, live_files
from lakewright.commit.committer import NOT_PUBLISHED, Committer
from lakewright.compact.compaction_plan import CompactTask, PartitionBucket, vectors_of, vectors_of_files
from lakewright.compact.rewrite_output import fold_vectors
from lakewright.display import HtmlRepr
from lakewright.errors import CommitConflictError, CommitContentionError, LakewrightError
from lakewright.metadata.table_store import TableStore
from lakewright.metrics import MetricsEvent, StageTimer, emit, has_listeners
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.table_options import TableOptions

# ---- Compaction of manifests -----------------------------------------------------------------------------------------
# No data file is added, removed or read. Other writers go first: the manifests are merged again on what they
# published.

# Every small manifest, and every one that deletes files, is merged, however few they are.
_ALL = {
    TableOptions.manifest_full_compaction_threshold_size.key(): "1 b",
    TableOptions.manifest_merge_min_count.key(): "2",
}


@dataclass(frozen=True, slots=True)
class ManifestsResult(HtmlRepr):
    """What a manifest compaction did."""

    snapshot_id: int | None  # None: there was nothing to do
    manifests_before: int = 0
    manifests_after: int = 0
    seconds: float = 0.0

    @property
    def is_empty(self) -> bool:
        """Return whether there was nothing to do."""
        return self.snapshot_id is None


def compact_manifests(store: TableStore) -> ManifestsResult:
    """Merge the manifests of the newest snapshot."""
    started = time.monotonic()
    store.check_changeable()
    snapshot = store.snapshots.latest()
    store.check_same_table()
    before = [] if snapshot is None else store.manifests.files_of(snapshot)
    target = store.options.manifest_target_file_size
    small = [file for file in before if file.file_size < target or file.num_deleted_files]
    if len(before) < 2 or (len(small) < 2 and not any(file.num_deleted_files for file in small)):  # noqa: PLR2004
        return ManifestsResult(None, len(before), len(before), time.monotonic() - started)
    published: Snapshot = Committer(store.with_schema(store.schema.with_options(_ALL)), sole=True).compact_manifests()
    after = store.manifests.files_of(published)
    return ManifestsResult(published.id, len(before), len(after), time.monotonic() - started)


# ---- Rounds of planning and publishing -------------------------------------------------------------------------------
# Two functions in, one makes messages from the newest snapshot and the other publishes them; a result out. A commit
# that conflicts has published nothing, so its new files are removed before the next round. If the outcome of a commit
# is unknown, nothing is deleted. What came of it is a `CompactResult`.

ROUNDS_MAX = 10  # after so many rounds that were overtaken, the error is raised
OVERTAKEN = (CommitConflictError, CommitContentionError)
T = TypeVar("T")

Produce: TypeAlias = Callable[[Snapshot], list[CommitMessage]]
Publish: TypeAlias = Callable[[Sequence[CommitMessage], Snapshot], Snapshot | None]


@dataclass(frozen=True, slots=True)
class PartitionEstimate:
    """What a compaction would do to one partition, or to a table without partitions."""

    partition: str  # such as `day=2026-01-01`; empty for a table without partitions
    buckets: int
    files_before: int
    files_after: int  # about, as are the rows and bytes
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CompactResult(HtmlRepr):
    """What a compaction did to the table, or what it would do (`dry_run`: then files, rows and bytes are estimates)."""

    snapshot_id: int | None  # None: nothing was published
    buckets: int = 0
    files_before: int = 0
    files_after: int = 0
    rows: int = 0  # in the files that came out
    bytes: int = 0
    changelog_rows: int = 0
    seconds: float = 0.0
    partitions: int = 0
    dry_run: bool = False
    skipped: tuple[str, ...] = ()  # buckets that other writers changed again and again meanwhile: they stay as they are
    details: tuple[PartitionEstimate, ...] = ()  # of a dry run: each partition that would be compacted
    attempts: int = 1  # rounds of planning; more than one if other writers changed the same buckets meanwhile
    stages_ms: Mapping[str, float] = field(default_factory=dict, repr=False, compare=False)  # plan, rewrite, commit

    @property
    def is_empty(self) -> bool:
        """Return whether there was nothing to do."""
        return self.snapshot_id is None and not (self.dry_run and self.files_before)

    def __add__(self, later: CompactResult) -> CompactResult:
        stages = StageTimer()
        stages.join(self.stages_ms)
        stages.join(later.stages_ms)
        return CompactResult(
            later.snapshot_id if self.snapshot_id is None or later.snapshot_id is not None else self.snapshot_id,
            self.buckets + later.buckets,
            self.files_before + later.files_before,
            self.files_after + later.files_after,
            self.rows + later.rows,
            self.bytes + later.bytes,
            self.changelog_rows + later.changelog_rows,
            self.seconds + later.seconds,
            self.partitions + later.partitions,
            self.dry_run or later.dry_run,
            (*self.skipped, *later.skipped),
            (*self.details, *later.details),
            max(self.attempts, later.attempts),
            stages.millis,
        )


def run_rounds(store: TableStore, produce: Produce, publish: Publish) -> CompactResult:
    """Make messages from the newest snapshot and publish them; begin again when another commit comes in between."""
    started, began, stages = time.monotonic(), time.time_ns(), StageTimer()

    def work(base: Snapshot | None) -> list[CommitMessage]:
        since = time.perf_counter()
        made = [] if base is None else produce(base)
        stages.add("rewrite", since)
        return made

    def publish_or_delete(messages: Sequence[CommitMessage], base: Snapshot | None) -> Snapshot | None:
        since = time.perf_counter()
        try:
            return None if base is None or not messages else publish(messages, base)
        except OVERTAKEN:
            # Nothing was published, so no snapshot names these files.
            delete_files_of(store, files_of_messages(store, messages))
            raise
        finally:
            stages.add("commit", since)

    attempt = plan_and_publish(store, work, publish_or_delete, RetryPolicy(OVERTAKEN, ROUNDS_MAX - 1))
    snapshot_id = None if attempt.published is None else attempt.published.id
    counts = replace(result_of(attempt.made), snapshot_id=snapshot_id, seconds=time.monotonic() - started)
    result = replace(counts, attempts=attempt.number, stages_ms=stages.millis)
    tell_compaction(store, result, began)
    return result


def tell_compaction(store: TableStore, result: CompactResult, started_ns: int) -> None:
    """Tell listeners of a compaction that published a snapshot."""
    if result.snapshot_id is None or not has_listeners("compaction"):
        return
    emit(
        MetricsEvent(
            "compaction",
            store.name,
            "COMPACT",
            result.snapshot_id,
            result.rows,
            result.files_after,
            result.bytes,
            result.attempts,
            started_ns,
            result.seconds,
            result.stages_ms,
            {"files_before": result.files_before, "buckets": result.buckets, "skipped": len(result.skipped)},
        )
    )


def run_concurrently(
    store: TableStore, jobs: Sequence[T], work: Callable[[T, int], Iterable[CommitMessage]]
) -> list[CommitMessage]:
    """Do jobs in threads, each with its share of the memory; if one fails, the files of all of them are removed."""
    if not jobs:
        return []
    options = store.options
    threads = min(len(jobs), options.lakewright_write_threads)
    memory = max(1, options.lakewright_merge_memory // threads)
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(work, job, memory) for job in jobs]
        try:
            messages = [message for future in futures for message in future.result()]
        except BaseException:
            for future in futures:
                future.cancel()
            pool.shutdown(wait=True)
            delete_files_of(store, files_of_messages(store, _finished_messages(futures)))
            raise
    return [message for message in messages if not message.is_empty]


def _finished_messages(futures: Iterable[Future[Iterable[CommitMessage]]]) -> list[CommitMessage]:
    succeeded = (future for future in futures if not future.cancelled() and future.exception() is None)
    return [message for future in succeeded for message in future.result()]


def result_of(messages: Sequence[CommitMessage]) -> CompactResult:
    """Return what messages do, before they are published."""
    after = [file for message in messages for file in (*message.compact_after, *message.new_files)]
    return CompactResult(
        snapshot_id=None,
        buckets=len({(message.partition_bytes, message.bucket) for message in messages}),
        files_before=sum(len(message.compact_before) for message in messages),
        files_after=len(after),
        rows=sum(file.row_count for file in after),
        bytes=sum(file.file_size for file in after),
        changelog_rows=sum(file.row_count for message in messages for file in message.compact_changelog_files),
        partitions=len({message.partition_bytes for message in messages}),
    )


# ---- Publishing a compaction -----------------------------------------------------------------------------------------
# Other writers go first: a bucket from which they took a file away, or deleted rows, is left out, its new files are
# deleted and its place is returned. Invariant: no file is deleted that a snapshot names or may name.

_TRIES_MAX = 3  # to publish without those buckets that no longer fit


@dataclass(frozen=True, slots=True)
class RoundEnd:
    """What one round published, the buckets that it could not, and the error that said so."""

    result: CompactResult
    lost: frozenset[PartitionBucket] = frozenset()
    error: LakewrightError | None = None


def publish_fitting(store: TableStore, base: Snapshot, messages: Sequence[CommitMessage]) -> RoundEnd:
    """Publish the messages that were made on a snapshot, without those that other commits made impossible."""
    made, lost, last = list(messages), set[PartitionBucket](), None
    for _ in range(_TRIES_MAX):
        try:
            published = _publish(store, base, made)
        except OVERTAKEN as error:
            last = error
        else:
            counts = replace(result_of(made), snapshot_id=None if published is None else published.id)
            return RoundEnd(counts, frozenset(lost), last)
        newest = store.snapshots.latest()
        fitting = [] if newest is None or newest.id == base.id else _fitting(store, base, newest, made)
        gone = [message for message in made if message not in fitting]
        lost |= {_place(message) for message in gone}
        delete_files_of(store, files_of_messages(store, gone))
        made = fitting
        if not made or not gone or newest is None:
            break
        base = newest
    delete_files_of(store, files_of_messages(store, made))
    return RoundEnd(CompactResult(None), frozenset(lost | {_place(message) for message in made}), last)


def place_name(store: TableStore, place: PartitionBucket) -> str:
    """Return how a result names a bucket."""
    partition = store.partition_name(place[0])
    return f"{partition}, bucket {place[1]}" if store.schema.partition_keys else f"bucket {place[1]}"


def _publish(store: TableStore, base: Snapshot, made: Sequence[CommitMessage]) -> Snapshot | None:
    """Publish messages; if this is refused, their files stay, and others that were written for the commit do not."""
    ready = list(made) if store.schema.primary_keys else fold_vectors(store, base, made)
    try:
        return Committer(store, sole=True, keeps_files=True).commit(ready)
    except NOT_PUBLISHED as error:
        kept = set(files_of_messages(store, made)) if isinstance(error, OVERTAKEN) else set()
        with suppress(OSError):
            delete_files_of(store, [file for file in files_of_messages(store, ready) if file not in kept])
        raise


def _fitting(
    store: TableStore, base: Snapshot, newest: Snapshot, messages: Sequence[CommitMessage]
) -> list[CommitMessage]:
    """Return the messages whose files are all live still, with the same deleted rows."""
    partitions = PartitionSelection(partitions=frozenset(message.partition_bytes for message in messages))
    live: dict[PartitionBucket, set[str]] = {}
    for entry in live_files(store, newest, partitions):
        live.setdefault((entry.partition, entry.bucket), set()).add(entry.file.file_name)
    before, after = vectors_of(store, base), vectors_of(store, newest)

    def fits(message: CommitMessage) -> bool:
        place, names = _place(message), {file.file_name for file in message.compact_before}
        ranges = (
            {(file.file_name, *(file.deletion_ranges or ())) for file in vectors_of_files(some.get(place, ()), names)}
            for some in (before, after)
        )
        return names <= live.get(place, set()) and len({frozenset(some) for some in ranges}) == 1

    return [message for message in messages if fits(message)]


def _place(message: CommitMessage) -> PartitionBucket:
    return message.partition_bytes, message.bucket


# ---- Estimates -------------------------------------------------------------------------------------------------------


def estimate(store: TableStore, tasks: Sequence[CompactTask]) -> CompactResult:
    """Return how many files tasks would take, and about how many files, rows and bytes would come out."""
    by_partition: dict[bytes, list[CompactTask]] = {}
    for task in tasks:
        by_partition.setdefault(task.partition, []).append(task)
    details = tuple(_of_partition(store, partition, some) for partition, some in sorted(by_partition.items()))
    return CompactResult(
        snapshot_id=None,
        buckets=sum(one.buckets for one in details),
        files_before=sum(one.files_before for one in details),
        files_after=sum(one.files_after for one in details),
        rows=sum(one.rows for one in details),
        bytes=sum(one.bytes for one in details),
        partitions=len(details),
        dry_run=True,
        details=details,
    )


def _of_partition(store: TableStore, partition: bytes, tasks: Sequence[CompactTask]) -> PartitionEstimate:
    target = store.options.data_file_size(has_primary_key=bool(store.schema.primary_keys))
    counts = [_count_live_rows(task) for task in tasks]
    return PartitionEstimate(
        partition=store.partition_name(partition) if store.schema.partition_keys else "",
        buckets=len({task.bucket for task in tasks}),
        files_before=sum(len(task.files) for task in tasks),
        files_after=sum(-(-size // target) for _, size in counts),
        rows=sum(rows for rows, _ in counts),
        bytes=sum(size for _, size in counts),
    )


def _count_live_rows(task: CompactTask) -> tuple[int, int]:
    """Return how many rows of a task are not deleted, and their share of the bytes."""
    deleted = {r.data_file: r.cardinality or 0 for index in task.vectors for r in index.deletion_ranges or ()}
    rows = {file: max(0, file.row_count - deleted.get(file.file_name, 0)) for file in task.files}
    size = sum(-(-file.file_size * kept // max(1, file.row_count)) for file, kept in rows.items())
    return sum(rows.values()), size
