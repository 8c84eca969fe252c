"""Rounds of planning and publishing on the newest snapshot, until one round is not overtaken by another commit.

Two functions in, one makes messages from the newest snapshot and the other publishes them; a result out. A commit that
conflicts has published nothing, so its new files are removed before the next round. If the outcome of a commit is
unknown, nothing is deleted. What came of it is a `CompactResult`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

from lakewright.commit.files import delete_written, files_of
from lakewright.commit.message.message import CommitMessage
from lakewright.commit.retry import Retries, publish_on_newest
from lakewright.display.notebook import InNotebook
from lakewright.errors import CommitConflictError, CommitContentionError
from lakewright.metadata.store import TableStore
from lakewright.metrics import MetricsEvent, Stages, is_observed, tell
from lakewright.spec.options import CoreOptions
from lakewright.spec.snapshot import Snapshot

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
class CompactResult(InNotebook):
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
        """Say whether there was nothing to do."""
        return self.snapshot_id is None and not (self.dry_run and self.files_before)

    def __add__(self, later: CompactResult) -> CompactResult:
        stages = Stages()
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


def in_rounds(store: TableStore, produce: Produce, publish: Publish) -> CompactResult:
    """Make messages from the newest snapshot and publish them; begin again when another commit comes in between."""
    started, began, stages = time.monotonic(), time.time_ns(), Stages()

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
            delete_written(store, files_of(store, messages))
            raise
        finally:
            stages.add("commit", since)

    attempt = publish_on_newest(store, work, publish_or_delete, Retries(OVERTAKEN, ROUNDS_MAX - 1))
    snapshot_id = None if attempt.published is None else attempt.published.id
    counts = replace(result_of(attempt.made), snapshot_id=snapshot_id, seconds=time.monotonic() - started)
    result = replace(counts, attempts=attempt.number, stages_ms=stages.millis)
    tell_compaction(store, result, began)
    return result


def tell_compaction(store: TableStore, result: CompactResult, started_ns: int) -> None:
    """Tell listeners of a compaction that published a snapshot."""
    if result.snapshot_id is None or not is_observed("compaction"):
        return
    tell(
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


def side_by_side(
    store: TableStore, jobs: Sequence[T], work: Callable[[T, int], Iterable[CommitMessage]]
) -> list[CommitMessage]:
    """Do jobs in threads, each with its share of the memory; if one fails, the files of all of them are removed."""
    if not jobs:
        return []
    options = store.options
    threads = min(len(jobs), options.get(CoreOptions.LAKEWRIGHT_WRITE_THREADS))
    memory = max(1, options.get(CoreOptions.LAKEWRIGHT_MERGE_MEMORY) // threads)
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(work, job, memory) for job in jobs]
        try:
            messages = [message for future in futures for message in future.result()]
        except BaseException:
            for future in futures:
                future.cancel()
            pool.shutdown(wait=True)
            delete_written(store, files_of(store, _finished(futures)))
            raise
    return [message for message in messages if not message.is_empty]


def _finished(futures: Iterable[Future[Iterable[CommitMessage]]]) -> list[CommitMessage]:
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
