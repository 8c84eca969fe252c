"""A change is prepared on the newest snapshot, run, committed, and prepared again on conflict."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Self, TypeAlias, TypeVar

import pyarrow as pa

from lakewright.commit.commit_changes import delete_files_of, files_of_messages
from lakewright.commit.commit_loop import CommitPrefetch, RetryPolicy, plan_and_publish
from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.committer import Committer
from lakewright.commit.job_ids import JobRun, fact
from lakewright.compact.compaction_job import TaskRunner, compact_after_commit
from lakewright.compact.compaction_plan import with_schema_of
from lakewright.dml import file_group_strategy, row_changes, vector_updates
from lakewright.dml.distributed_write import earlier_result, with_one_thread, with_shared_buckets
from lakewright.dml.row_changes import (
    AppliedChanges,
    Bucket,
    ChangeJob,
    GroupChange,
    Prepare,
    PreparedChange,
    UpdateResult,
    Vector,
    VectorFile,
)
from lakewright.dml.vector_updates import store_vectors
from lakewright.engine.engine import Engine, Job, TaskId, TaskResult, TaskResults, Work
from lakewright.engine.engine_job import run_tasks, verified_messages
from lakewright.errors import InvalidInputError, with_table_name
from lakewright.metadata.table_store import TableStore
from lakewright.metrics import StageTimer
from lakewright.read.data_split import DataSplit
from lakewright.read.split_sharing import share_splits
from lakewright.spec.manifest import DELETION_VECTORS, count_rows
from lakewright.spec.schema_checks import check_supported_for_write
from lakewright.spec.snapshot import Snapshot
from lakewright.write.table_writer import TableWriter, WriteJob

# ---- Preparing, committing, and retrying a change --------------------------------------------------------------------
# newest snapshot -> prepare: find, decide, apply -> commit -> conflict? remove the files, start again
#
# Invariant: if no row has to change there is no snapshot; files of an attempt are removed only if it is
# certain that no snapshot names them; if it is unknown whether a commit was published, nothing is removed.

Decide: TypeAlias = Callable[[DataSplit], GroupChange | None]


def run_change(
    store: TableStore, prepare: Prepare, *, operation: str, run: TaskRunner | None = None, job: JobRun | None = None
) -> UpdateResult:
    """Prepare a change on the newest snapshot and commit it; do it again if others changed the same rows meanwhile.

    `operation` is recorded in the snapshot: DELETE, UPDATE, MERGE or WRITE. An engine may pass `run`, which runs the
    compactions that follow. Of several runs of a job one commits; the others remove what they wrote.
    """
    with with_table_name(store.name):
        check_supported_for_write(store.schema)
    store.check_changeable(stored_too=True)
    if job is not None and job.earlier is not None:
        return _earlier(store, job.earlier, run)
    started, early_look = time.monotonic(), CommitPrefetch(store)
    before, spent = StageTimer(), StageTimer()

    def prepare_on(base: Snapshot | None) -> PreparedChange:
        early_look.begin_commit(base)
        since = time.perf_counter()
        prepared = prepare(base)
        prepared = replace(prepared, messages=prepared.planned_on(base))
        before.add("prepare", since)
        return prepared

    def publish(prepared: PreparedChange, _: Snapshot | None) -> Snapshot | None:
        committer = Committer(store, sole=True) if job is None else job.committer(store)
        properties = None if job is None else job.properties(_facts(prepared))
        messages = prepared.messages
        committer.early_look, committer.before, committer.spent = early_look, before, spent
        return committer.commit(messages, operation=operation, properties=properties) if messages else None

    attempt = plan_and_publish(store, prepare_on, publish, RetryPolicy.of(store))
    prepared, published = attempt.made, attempt.published
    if job is not None and (other := job.done_by_another(store, published)) is not None:
        delete_files_of(store, files_of_messages(store, prepared.messages))
        return _earlier(store, other, run)
    if published is not None and store.schema.primary_keys:
        places = frozenset((m.partition_bytes, m.bucket) for m in prepared.messages)
        compact_after_commit(store, published, places, run=run, is_newest=True)
    done = _result(published, prepared, attempt.number, time.monotonic() - started)
    return replace(done, stages_ms={**before.millis, **spent.millis})


def _facts(prepared: PreparedChange) -> dict[str, object]:
    """Return the facts that the snapshot records for later runs of the job."""
    counts = {"deleted": prepared.deleted, "updated": prepared.updated, "inserted": prepared.inserted}
    return {"method": str(prepared.method), **(counts if prepared.counted else {})}


def _earlier(store: TableStore, snapshot: Snapshot, run: TaskRunner | None) -> UpdateResult:
    """Return the result of another run of the same job, from its snapshot; counts that it did not record are None."""
    done = earlier_result(store, snapshot, run=run)
    facts = {key: fact(snapshot, key) for key in ("deleted", "updated", "inserted")}
    counts = {key: None if text is None else int(text) for key, text in facts.items()}
    return UpdateResult(
        snapshot.id,
        counts["deleted"],
        counts["updated"],
        counts["inserted"],
        files=done.files,
        bytes=done.bytes,
        seconds=done.seconds,
        partitions=done.partitions,
        method=fact(snapshot, "method") or "",
        written=done.rows,
        replayed=True,
    )


def _result(published: Snapshot | None, prepared: PreparedChange, attempts: int, seconds: float) -> UpdateResult:
    files = [file for message in prepared.messages for file in message.new_files]
    return UpdateResult(
        snapshot_id=None if published is None else published.id,
        deleted=prepared.deleted if prepared.counted else None,
        updated=prepared.updated if prepared.counted else None,
        inserted=prepared.inserted if prepared.counted else None,
        written=count_rows(files),
        files=len(files),
        bytes=sum(file.file_size for file in files),
        seconds=seconds,
        partitions=len({message.partition_bytes for message in prepared.messages}),
        method=str(prepared.method),
        attempts=attempts,
    )


def change_groups(
    job: ChangeJob, parts: Sequence[DataSplit], decide: Decide, workers: Engine[Work] | None = None
) -> PreparedChange:
    """Decide how the rows of groups change and apply it, in threads or on the workers of an engine.

    `decide` is called in the thread, or on the worker, that has the group.
    """
    known = with_all_columns(job, parts)

    def decide_part(part: DataSplit) -> GroupChange | None:
        decision = decide(part)
        if decision is not None:
            check_columns_unchanged(job.store, known.store, decision)
        return decision

    if workers is None:
        return fold_applied(job, _in_threads(known, parts, decide_part))
    if not parts:
        return fold_applied(job, ())
    shares = share_splits(known.store, parts, at_least=workers.tasks_at_once)
    blobs = [[part.serialize() for part in share] for share in shares]
    share_out = partial(workers.share_out, blobs, description=description(known.store))
    return _change_by_tasks(workers, job, known, partial(_decide_splits, decide_part), share_out)


def fold_applied(job: ChangeJob, parts: Iterable[AppliedChanges]) -> PreparedChange:
    """Fold the vectors that workers wrote into those of the table, and return everything to commit."""
    applied = AppliedChanges.sum_of(parts)
    try:
        folded = vector_updates.fold_vectors(job, applied)
    except BaseException:
        remove_written(job.store, applied)
        raise
    return PreparedChange(
        (*applied.messages, *folded), applied.deleted, applied.updated, method=str(row_changes.change_method(job.store))
    )


def with_all_columns(job: ChangeJob, parts: Sequence[DataSplit]) -> ChangeJob:
    """Return the job with a schema that has all columns of its files, so that rewriting a file loses none."""
    store = with_schema_of(job.store, (file for part in parts for file in part.files))
    return job if store is job.store else replace(job, store=store)


def check_columns_unchanged(seen: TableStore, written: TableStore, change: GroupChange) -> None:
    """Raise InvalidInputError if an assigned column was changed since the table was opened."""
    if seen is written or change.values is None:
        return
    was, now = ({field.name: field for field in store.schema.fields} for store in (seen, written))
    for name in change.values.column_names:
        if name not in now or (now[name].id, now[name].type) != (was[name].id, was[name].type):
            raise InvalidInputError(
                f"{seen.name}: the column {name!r} was changed since the table was opened; get the table again from "
                "its catalog",
                table=seen.name,
                column=name,
            )


def _in_threads(job: ChangeJob, parts: Sequence[DataSplit], decide: Decide) -> list[AppliedChanges]:
    """Change groups in threads, each taking the next group; if one fails, the files of all are removed."""
    threads = min(len(parts), job.store.options.lakewright_write_threads)
    left = iter(parts)
    lock = threading.Lock()
    failed = threading.Event()

    def changes() -> Iterator[GroupChange]:
        while not failed.is_set():
            with lock:
                part = next(left, None)
            if part is None:
                return
            decision = decide(part)
            if decision is not None and not decision.is_empty:
                yield decision

    def work(task: int) -> AppliedChanges:
        try:
            return file_group_strategy.apply_group_changes(job, changes(), task)
        except BaseException:
            failed.set()
            raise

    if threads <= 1:
        return [work(0)] if parts else []
    with ThreadPoolExecutor(threads, thread_name_prefix="lakewright-update") as pool:
        futures = [pool.submit(work, task) for task in range(threads)]
        try:
            return [future.result() for future in futures]
        except BaseException:
            failed.set()
            pool.shutdown(wait=True)
            remove_written(job.store, *(_successful_results(futures)))
            raise


def _successful_results(futures: Sequence[Future[AppliedChanges]]) -> list[AppliedChanges]:
    return [future.result() for future in futures if future.exception() is None]


def remove_written(store: TableStore, *applied: AppliedChanges) -> None:
    """Remove the files of changes that will not be committed."""
    delete_files_of(store, files_of_messages(store, [message for some in applied for message in some.messages]))
    vector_updates.remove(store, [(stored.bucket, stored.file) for some in applied for stored in some.vector_files])


# ---- Groups of files on workers --------------------------------------------------------------------------------------
# A task takes some groups, finds the rows that change, and applies the change before it takes the next group, so rows
# never travel. Workers write deletion vectors into index files, so the driver gets only names of files. If the job
# fails, every file with its write id is removed.

GROUP, POSITION = "group", "position"  # columns of rows that are matched: the number of a group, the place in it

# The groups that a task gets, each with rows that say how it changes; rows without a group come first, with None.
MatchedRows: TypeAlias = Iterable[tuple[DataSplit | None, Iterable[pa.RecordBatch]]]
Changes: TypeAlias = Iterable[GroupChange | pa.Table]  # changes of groups, and tables of new rows
Rows = TypeVar("Rows")  # what a task gets
GroupTask: TypeAlias = Callable[[TaskId, Rows], TaskResult]

# Added to an attempt in the names of files with new rows, since the attempt may also write files of rows that move.
INSERTING = 1 << 40


@dataclass(frozen=True, slots=True)
class ChangeResults:
    """The results of all tasks of a job."""

    messages: Sequence[CommitMessage]
    applied: tuple[AppliedChanges, ...]
    inserted: int


def _decide_splits(decide: Decide, blobs: Iterator[bytes]) -> Iterator[GroupChange]:
    for blob in blobs:
        change = decide(DataSplit.deserialize(blob))
        if change is not None and not change.is_empty:
            yield change


@dataclass(frozen=True, slots=True)
class SnapshotGroups:
    """Groups of files of one snapshot of an append table, in which rows may change."""

    store: TableStore
    base: Snapshot | None  # None: the table has no snapshot, and there are no groups
    parts: Sequence[DataSplit]

    def change(
        self,
        workers: Engine[Work],
        changes: Callable[[TableStore], Callable[[Rows], Changes]],
        work: Callable[[GroupTask[Rows]], Work],
    ) -> PreparedChange:
        """Have tasks change groups, and insert new rows, as the rows say that they get.

        `changes` returns what makes changes of such rows, given the table with the schema in which files are written;
        `work` returns what the engine runs for the function of a task.
        """
        if self.base is None:
            return _insert_first(workers, WriteJob.new(self.store), changes(self.store), work)
        job = ChangeJob.on(self.store, self.base)
        known = with_all_columns(job, self.parts)
        return _change_by_tasks(workers, job, known, changes(known.store), work)


def _change_by_tasks(
    workers: Engine[Work],
    job: ChangeJob,
    known: ChangeJob,
    changes: Callable[[Rows], Changes],
    work: Callable[[GroupTask[Rows]], Work],
) -> PreparedChange:
    """Have tasks apply the changes that `changes` makes of what they get; `known` writes all columns of the files."""
    inserting = _share_buckets(WriteJob.new(job.store, write_id=job.write_id))

    def task(this: TaskId, rows: Rows) -> TaskResult:
        return _apply(known, inserting, this, changes(rows))

    done = run_tasks(workers, Job(known.store, known.write_id, work(task)), partial(_verify, known))
    return replace(fold_applied(job, done.applied), inserted=done.inserted)


def _insert_first(
    workers: Engine[Work],
    job: WriteJob,
    changes: Callable[[Rows], Changes],
    work: Callable[[GroupTask[Rows]], Work],
) -> PreparedChange:
    """Insert rows into a table that has no snapshot."""
    inserting = _share_buckets(job)

    def task(this: TaskId, rows: Rows) -> TaskResult:
        with InsertedRows(inserting, this) as new:
            for change in new.write_inserts(changes(rows)):
                raise AssertionError(f"there is nothing to change yet in {change.part}")
            return TaskResult(new.finish(), (0, 0, new.rows))

    return run_tasks(workers, Job(job.store, job.write_id, work(task)), partial(verify_change, job))


def verify_change(job: WriteJob, answers: TaskResults) -> PreparedChange:
    """Return what tasks wrote; those that count rows count what they deleted, updated and inserted."""
    results = answers.results
    counts = (result.counts for result in results if result.counts)
    deleted, updated, inserted = map(sum, zip((0, 0, 0), *counts, strict=True))
    messages = tuple(verified_messages(job, results))
    return PreparedChange(messages, deleted, updated, inserted, str(row_changes.change_method(job.store)))


def description(store: TableStore) -> str:
    """Return what an engine shows about tasks that change rows."""
    return f"change rows of {store.name}"


def _share_buckets(job: WriteJob) -> WriteJob:
    return with_shared_buckets(with_one_thread(job))


def _apply(job: ChangeJob, inserting: WriteJob, this: TaskId, made: Changes) -> TaskResult:
    """Apply the changes of one task and write its new rows; count the rows deleted, updated and inserted."""
    with InsertedRows(inserting, this) as new:
        applied = file_group_strategy.apply_group_changes(job, new.write_inserts(made), this.number, this.attempt)
        applied = store_vectors(job, applied + AppliedChanges(tuple(new.finish())), this.number, this.attempt)
        return TaskResult(_messages(job, applied), (applied.deleted, applied.updated, new.rows))


class InsertedRows:
    """Writes the rows that one attempt at a task inserts."""

    def __init__(self, job: WriteJob, this: TaskId) -> None:
        self.rows = 0
        self._job = job
        self._task = this
        self._writer: TableWriter | None = None

    def write_inserts(self, made: Changes) -> Iterator[GroupChange]:
        """Write new rows, and pass changes on."""
        for one in made:
            if isinstance(one, GroupChange):
                yield one
                continue
            if self._writer is None:
                self._writer = self._job.open_writer(self._task.number, self._task.attempt + INSERTING)
            self._writer.write(one)
            self.rows += one.num_rows

    def finish(self) -> list[CommitMessage]:
        """Finish the files and return what to commit."""
        return [] if self._writer is None else self._writer.prepare()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove files that `finish` did not return."""
        if self._writer is not None:
            self._writer.close()


def _messages(job: ChangeJob, applied: AppliedChanges) -> list[CommitMessage]:
    """Return the results of a task as messages; its vectors are in messages with index files."""
    stored = (job.message(one.bucket, new_index_files=(one.file,)) for one in applied.vector_files)
    return [*applied.messages, *stored]


def _verify(job: ChangeJob, answers: TaskResults) -> ChangeResults:
    """Return the results of all tasks."""
    results = answers.results
    applied = tuple(_to_applied_changes(job, result) for result in results)
    messages = [message for some in applied for message in _messages(job, some)]
    return ChangeResults(messages, applied, sum(result.counts[2] for result in results))


def _to_applied_changes(job: ChangeJob, result: TaskResult) -> AppliedChanges:
    """Return what a task changed; the vectors of removed files are removed too."""
    deleted, updated, _ = result.counts
    plain = tuple(message for message in result.messages if not message.new_index_files)
    files = tuple(VectorFile(_bucket(m), file) for m in result.messages for file in m.new_index_files)
    manifest = job.snapshot.index_manifest
    index = job.store.manifests.read_index(manifest) if manifest and any(m.deleted_files for m in plain) else []
    masked = {
        (entry.partition, entry.bucket, vector.data_file)
        for entry in index
        if entry.file.index_type == DELETION_VECTORS
        for vector in entry.file.deletion_ranges or ()
    }
    dropped = tuple(
        Vector(_bucket(m), file.file_name, 0, None)
        for m in plain
        for file in m.deleted_files
        if (m.partition_bytes, m.bucket, file.file_name) in masked
    )
    return AppliedChanges(plain, dropped, files, deleted, updated)


def _bucket(message: CommitMessage) -> Bucket:
    return message.partition_bytes, message.bucket, message.total_buckets
