"""A prepared change in, one snapshot out; the change is prepared again if somebody changed the same rows.

    newest snapshot -> prepare: find, decide, apply -> commit -> conflict? remove the files, start again

What always holds: if no row has to change there is no snapshot; files of an attempt are removed only if it is certain
that no snapshot names them; if it is unknown whether a commit was published, nothing is removed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeAlias

from lakewright.commit.committer import Committer
from lakewright.commit.files import delete_written, files_of
from lakewright.commit.message.message import CommitMessage, guarded
from lakewright.commit.retry import Retries, publish_on_newest
from lakewright.compact.job import RunTasks, after_commit
from lakewright.compact.task import with_schema_of
from lakewright.errors import InvalidInputError, naming
from lakewright.metadata.early_look import EarlyLook
from lakewright.metadata.store import TableStore
from lakewright.metrics import Stages
from lakewright.read.splits.split import DataSplit
from lakewright.spec.options import CoreOptions
from lakewright.spec.schema.supported import check_supported_for_write
from lakewright.spec.snapshot import Snapshot
from lakewright.update import methods, vectors
from lakewright.update.change import Applied, ChangeJob, GroupChange
from lakewright.update.result import UpdateResult
from lakewright.write.job_run import JobRun, earlier_result, fact


@dataclass(frozen=True, slots=True)
class Prepared:
    """One attempt at a change of rows, ready to be committed."""

    messages: tuple[CommitMessage, ...] = ()
    deleted: int = 0
    updated: int = 0
    inserted: int = 0
    way: str = ""
    unchanged: str | None = None  # the guard: nobody wrote rows to the "bucket", the "partition" or the "table" since
    reads: tuple[str, ...] = ()  # the columns that conditions and expressions read
    counted: bool = True  # False: existing rows were not looked up, so the counts are unknown

    def planned_on(self, base: Snapshot | None) -> tuple[CommitMessage, ...]:
        """Return the messages with guards: they are committed only if what was read of the snapshot still holds."""
        return tuple(
            guarded(message, base, unchanged=self.unchanged, reads=self.reads)
            for message in self.messages
            if not message.is_empty
        )


Prepare: TypeAlias = Callable[[Snapshot | None], Prepared]
Decide: TypeAlias = Callable[[DataSplit], GroupChange | None]
RunGroups: TypeAlias = Callable[[ChangeJob, Sequence[DataSplit], Decide], Sequence[Applied]]  # how an engine does it


def change(
    store: TableStore, prepare: Prepare, *, operation: str, run: RunTasks | None = None, job: JobRun | None = None
) -> UpdateResult:
    """Prepare a change on the newest snapshot and commit it; do it again if others changed the same rows meanwhile.

    `operation` is recorded in the snapshot: DELETE, UPDATE, MERGE or WRITE. An engine may pass `run`, which runs the
    compactions that follow. Of several runs of a job one commits; the others remove what they wrote.
    """
    with naming(store.name):
        check_supported_for_write(store.schema)
    store.check_changeable(stored_too=True)
    if job is not None and job.earlier is not None:
        return _earlier(store, job.earlier, run)
    started, early_look = time.monotonic(), EarlyLook(store)
    before, spent = Stages(), Stages()

    def prepare_on(base: Snapshot | None) -> Prepared:
        early_look.begin_commit(base)
        since = time.perf_counter()
        prepared = prepare(base)
        prepared = replace(prepared, messages=prepared.planned_on(base))
        before.add("prepare", since)
        return prepared

    def publish(prepared: Prepared, _: Snapshot | None) -> Snapshot | None:
        committer = Committer(store, sole=True) if job is None else job.committer(store)
        properties = None if job is None else job.properties(_facts(prepared))
        messages = prepared.messages
        committer.early_look, committer.before, committer.spent = early_look, before, spent
        return committer.commit(messages, operation=operation, properties=properties) if messages else None

    attempt = publish_on_newest(store, prepare_on, publish, Retries.of(store))
    prepared, published = attempt.made, attempt.published
    if job is not None and (other := job.done_by_another(store, published)) is not None:
        delete_written(store, files_of(store, prepared.messages))
        return _earlier(store, other, run)
    if published is not None and store.schema.primary_keys:
        places = frozenset((m.partition_bytes, m.bucket) for m in prepared.messages)
        after_commit(store, published, places, run=run, is_newest=True)
    done = _result(published, prepared, attempt.number, time.monotonic() - started)
    return replace(done, stages_ms={**before.millis, **spent.millis})


def _facts(prepared: Prepared) -> dict[str, object]:
    """Return the facts that the snapshot records for later runs of the job."""
    counts = {"deleted": prepared.deleted, "updated": prepared.updated, "inserted": prepared.inserted}
    return {"way": str(prepared.way), **(counts if prepared.counted else {})}


def _earlier(store: TableStore, snapshot: Snapshot, run: RunTasks | None) -> UpdateResult:
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
        way=fact(snapshot, "way") or "",
        written=done.rows,
        replayed=True,
    )


def _result(published: Snapshot | None, prepared: Prepared, attempts: int, seconds: float) -> UpdateResult:
    files = [file for message in prepared.messages for file in message.new_files]
    return UpdateResult(
        snapshot_id=None if published is None else published.id,
        deleted=prepared.deleted if prepared.counted else None,
        updated=prepared.updated if prepared.counted else None,
        inserted=prepared.inserted if prepared.counted else None,
        written=sum(file.row_count for file in files),
        files=len(files),
        bytes=sum(file.file_size for file in files),
        seconds=seconds,
        partitions=len({message.partition_bytes for message in prepared.messages}),
        way=str(prepared.way),
        attempts=attempts,
    )


def change_groups(job: ChangeJob, parts: Sequence[DataSplit], decide: Decide, run: RunGroups | None = None) -> Prepared:
    """Decide how the rows of groups change and apply it, in threads or with `run` on the workers of an engine.

    `decide` is called in the thread, or on the worker, that has the group.
    """
    known = with_all_columns(job, parts)

    def decided(part: DataSplit) -> GroupChange | None:
        decision = decide(part)
        if decision is not None:
            check_columns_unchanged(job.store, known.store, decision)
        return decision

    return fold_applied(job, (run or _in_threads)(known, parts, decided))


def fold_applied(job: ChangeJob, parts: Iterable[Applied]) -> Prepared:
    """Fold the vectors that workers wrote into those of the table, and return everything to commit."""
    applied = Applied.joined(parts)
    try:
        folded = vectors.fold_vectors(job, applied)
    except BaseException:
        remove_written(job.store, applied)
        raise
    return Prepared(
        (*applied.messages, *folded), applied.deleted, applied.updated, way=str(methods.change_method(job.store))
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


def _in_threads(job: ChangeJob, parts: Sequence[DataSplit], decide: Decide) -> list[Applied]:
    """Change groups in threads, each taking the next group; if one fails, the files of all are removed."""
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
            decision = decide(part)
            if decision is not None and not decision.is_empty:
                yield decision

    def work(task: int) -> Applied:
        try:
            return methods.apply(job, changes(), task)
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
            remove_written(job.store, *(_done(futures)))
            raise


def _done(futures: Sequence[Future[Applied]]) -> list[Applied]:
    return [future.result() for future in futures if future.exception() is None]


def remove_written(store: TableStore, *applied: Applied) -> None:
    """Remove the files of changes that will not be committed."""
    delete_written(store, files_of(store, [message for some in applied for message in some.messages]))
    vectors.remove(store, [(stored.bucket, stored.file) for some in applied for stored in some.vector_files])
