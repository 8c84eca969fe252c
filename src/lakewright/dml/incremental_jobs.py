"""Jobs that bring what changed in one table into another, each change once.

find the last commit of the job in the target -> plan what changed in the source since the snapshot it names
    -> [the engine reads, calls the function of the user, writes] -> commit under the job and the snapshot of the source

The commit user is the job and the commit identifier is the id of the source snapshot, so rows and progress are one
snapshot. Its property `lakewright.transform` identifies the source snapshot exactly, as ids are used again after a
rollback. The record of the job in the target (design/0014) remembers the progress when the snapshot expires, and a
consumer in the source keeps the snapshot that the next run compares with.

Invariant: every change of the source is in the target once, whenever a run dies, and whoever runs the job at the same
time. Where that can no longer be ensured, the run raises FullRefreshRequiredError before it writes.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol, TypeVar

from lakewright.commit.job_ids import find_last_commit, record_begin, user_of_job
from lakewright.commit.table_commit import CommitResult
from lakewright.display import HtmlRepr
from lakewright.dml.distributed_write import CommitTarget, new_job
from lakewright.errors import (
    CommitConflictError,
    CommitUnknownError,
    FullRefreshRequiredError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.read.incremental import IncrementalPlan, plan_difference, plan_events
from lakewright.read.read_builder import ReadBuilder
from lakewright.read.table_read import TableRead
from lakewright.read.time_travel import ChangeMode, has_time_travel, is_incremental
from lakewright.spec import argument_checks
from lakewright.spec.option_values import WriteDistribution
from lakewright.spec.snapshot import CommitKind, SeenSnapshot, Snapshot
from lakewright.spec.table_options import TableOptions
from lakewright.spec.table_schema import BucketMode
from lakewright.write.row_intake import kind_column
from lakewright.write.table_writer import WriteJob

Frame = TypeVar("Frame")  # an engine's own kind of data

_PROPERTY = "lakewright.transform"
_KEEPS_ROWS = frozenset({CommitKind.COMPACT, CommitKind.ANALYZE})
_REMEDY = "run it with full_refresh=True, which writes the rows of the job anew"


@dataclass(frozen=True, slots=True)
class TransformResult(HtmlRepr):
    """What one run of an incremental job did."""

    commits: tuple[CommitResult, ...]  # none if there was nothing new
    source_snapshot_id: int | None  # up to which the target has the changes; None: the source was never written
    seconds: float

    @property
    def snapshot_id(self) -> int | None:
        """The last snapshot that the run made in the target; None if there was nothing new."""
        return self.commits[-1].snapshot_id if self.commits else None

    @property
    def rows(self) -> int:
        """How many rows were written; with a primary key also those that replace or delete others."""
        return sum(commit.rows for commit in self.commits)


class TransformEngine(Protocol[Frame]):
    """What an engine does for a job: it reads and writes, and decides nothing."""

    def read(self, read: TableRead, splits: Sequence[DataSplit]) -> Frame:
        """Return the rows of splits as a frame."""

    def column_names(self, frame: Frame) -> Sequence[str]:
        """Return the names of the columns of a frame; none where the frame has no rows and does not know them."""

    def write(self, frame: Frame, job: WriteJob, publication: CommitTarget) -> CommitResult:
        """Write a frame and commit it once; `replayed` says that another run was faster."""


@dataclass(frozen=True, slots=True)
class IncrementalJob:
    """One job: a source, a target, and the name that all its runs share."""

    source: TableStore
    target: TableStore
    job_id: str
    user: str  # of the commits

    @classmethod
    def of(cls, source: TableStore, target: TableStore, job_id: str) -> IncrementalJob:
        """Return a job after checking that the two tables can be its source and its target."""
        user = user_of_job(target, job_id)
        if is_incremental(source.options) or has_time_travel(source):
            raise InvalidInputError(
                f"{source.name}: the source of a job is the table as it grows; give a handle without options for time "
                "travel",
                table=source.name,
            )
        if source.identity == target.identity:
            raise InvalidInputError(f"{target.name}: a job cannot write into its own source", table=target.name)
        target.check_changeable()
        if target.schema.bucket_mode is BucketMode.POSTPONE:
            raise UnsupportedError(
                f"{target.name}: a table with bucket=-2 gives its rows an order only when it is compacted, so a job "
                "cannot delete rows from it; use a fixed number of buckets, or bucket=-1",
                table=target.name,
            )
        options = {TableOptions.snapshot_ignore_empty_commit.key(): "false"}  # an empty commit is progress too
        if target.schema.primary_keys:
            options[TableOptions.lakewright_write_distribution.key()] = WriteDistribution.AUTO.value
        return cls(source, target.with_schema(target.schema.with_options(options)), job_id, user)

    @property
    def consumer_id(self) -> str:
        """The consumer of the source that keeps the snapshot which the next run compares with."""
        return f"transform-{re.sub(r'[^0-9A-Za-z_.]+', '-', self.job_id)[:60]}-{self.user[:8]}"

    def lost(self, why: str) -> FullRefreshRequiredError:
        """Return the error for a job that cannot go on where it stopped."""
        return FullRefreshRequiredError(
            f"the job {self.job_id!r} from {self.source.name} to {self.target.name} cannot go on where it stopped: "
            f"{why}; {_REMEDY}",
            table=self.target.name,
            source=self.source.name,
            job_id=self.job_id,
        )


# ---- Progress --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Progress:
    """What a commit of a job records: up to where it has processed the source."""

    source: str  # the identity of the source
    seen: SeenSnapshot  # of the source
    only_ours: int | None  # all rows of the target up to this snapshot were of the job; None: others wrote too

    def to_text(self) -> str:
        seen = [self.seen.id, self.seen.base_manifest_list, self.seen.delta_manifest_list]
        return json.dumps({"source": self.source, "seen": seen, "only_ours": self.only_ours})

    @classmethod
    def of(cls, snapshot: Snapshot) -> _Progress:
        members = json.loads(snapshot.properties[_PROPERTY])
        return cls(members["source"], SeenSnapshot(*members["seen"]), members["only_ours"])


def _find_progress(job: IncrementalJob) -> tuple[Snapshot | None, _Progress | None]:
    """Return the newest snapshot of the target, and how far the job has come; None if it never committed."""
    try:
        found = find_last_commit(job.target, job.user, job.job_id)
    except CommitUnknownError as error:
        raise job.lost(f"{error.message}") from error
    if found.last is not None:
        return found.newest, _Progress.of(found.last)
    if not found.is_whole and job.source.consumers.next_snapshot(job.consumer_id) is not None:
        raise job.lost(f"the snapshots of {job.target.name} that record how far it came have expired")
    return found.newest, None


def _find_processed_snapshot(job: IncrementalJob, progress: _Progress) -> Snapshot:
    """Return the snapshot of the source up to which a job has come."""
    if progress.source != job.source.identity:
        raise job.lost("its last run read another table, or the source was dropped and created again")
    snapshot = job.source.snapshots.find(progress.seen.id)
    if snapshot is None:
        raise job.lost(f"snapshot {progress.seen.id} of {job.source.name}, up to which it came, has expired")
    if SeenSnapshot.of(snapshot) != progress.seen:
        raise job.lost(f"snapshot {progress.seen.id} of {job.source.name}, up to which it came, was rolled back")
    return snapshot


def _check_only_ours(job: IncrementalJob, newest: Snapshot | None) -> int | None:
    """Return the newest snapshot of the target if all rows in it are of the job; None if others wrote too.

    A commit of the job records this, so that the snapshots before it need not be read, nor be there.
    """
    if newest is None:
        return 0
    known = 0  # the rows up to this snapshot are of the job
    oldest = newest
    for oldest in job.target.snapshots.walk_back(newest.id):
        if oldest.id <= known or oldest.total_record_count == 0:
            return newest.id
        if oldest.commit_user == job.user and _PROPERTY in oldest.properties:
            known = max(known, _Progress.of(oldest).only_ours or 0)
        elif oldest.commit_kind not in _KEEPS_ROWS:
            return None
    return newest.id if oldest.id - 1 <= known else None


# ---- Planning --------------------------------------------------------------------------------------------------------


def _ranges(
    job: IncrementalJob, before: Snapshot | None, newest: Snapshot, commit_every: int | None
) -> Iterator[tuple[Snapshot | None, Snapshot]]:
    """Yield the ranges of source snapshots that a run commits: the whole state first, or changes."""
    if before is None or commit_every is None:
        yield before, newest
        return
    ids = [number for number in job.source.snapshots.ids() if before.id < number < newest.id]
    ends = [job.source.snapshots.get(number) for number in ids[commit_every - 1 :: commit_every]]
    yield from pairwise([before, *ends, newest])


def _plan(job: IncrementalJob, before: Snapshot | None, after: Snapshot) -> tuple[TableRead, Sequence[DataSplit]]:
    """Plan the reading of the whole source at a snapshot, or of what changed between two."""
    store = job.source
    if before is None:
        pinned = store.schema.with_options({TableOptions.scan_snapshot_id.key(): str(after.id)})
        store = store.with_schema(pinned)
    builder = ReadBuilder(store)
    read = (builder.with_include_row_kind() if store.schema.primary_keys else builder).new_read()
    if before is None:
        return read, read.new_plan().splits()
    try:
        return read, _plan_changes(job, before, after).splits
    except (NotFoundError, UnsupportedError) as error:
        if isinstance(error, FullRefreshRequiredError):
            raise
        raise job.lost(error.message) from error


def _plan_changes(job: IncrementalJob, before: Snapshot, after: Snapshot) -> IncrementalPlan:
    """Plan the net changes of a table with a primary key, or the new rows of one without."""
    store = job.source
    if store.schema.primary_keys:
        return plan_difference(store, before, after)
    snapshots = [store.snapshots.get(number) for number in range(before.id + 1, after.id + 1)]
    for snapshot in snapshots:
        if snapshot.commit_kind is CommitKind.OVERWRITE:
            raise job.lost(
                f"snapshot {snapshot.id} of {store.name} changed or removed rows, and without a primary key the rows "
                "made from them cannot be found"
            )
    return plan_events(store, snapshots, ChangeMode.DELTA)


# ---- Running ---------------------------------------------------------------------------------------------------------


def run_incremental_job(
    engine: TransformEngine[Frame],
    job: IncrementalJob,
    function: Callable[[Frame], Frame],
    *,
    full_refresh: bool,
    commit_every: int | None,
) -> TransformResult:
    """Process what changed in the source since the last run, or all of it, and commit it in the target."""
    started = time.monotonic()
    argument_checks.check_bool("full_refresh", full_refresh)
    argument_checks.check_optional(argument_checks.check_positive, "commit_every", commit_every)
    base = job.target.snapshots.latest()  # before the look for the job: the commit looks at all that follow
    before = None
    if not full_refresh:
        base, progress = _find_progress(job)
        before = None if progress is None else _find_processed_snapshot(job, progress)
    elif _check_only_ours(job, base) is None:
        raise InvalidInputError(
            f"{job.target.name}: others have written into this table too, and a full refresh of the job "
            f"{job.job_id!r} would remove their rows; truncate the table first if all rows may go, or let the job "
            "write into a table of its own",
            table=job.target.name,
            job_id=job.job_id,
        )
    newest = job.source.snapshots.latest()
    since, commits = SeenSnapshot.of(base), []
    for start, end in (
        _ranges(job, before, newest, commit_every)
        if newest is not None and (before is None or before.id != newest.id)
        else ()
    ):
        read, splits = _plan(job, start, end)
        if not splits and not full_refresh:
            continue
        if start is None and job.source.consumers.next_snapshot(job.consumer_id) is None:
            job.source.consumers.record(job.consumer_id, end.id)
        frame = function(engine.read(read, splits))
        _check_columns(job, engine.column_names(frame))
        record_begin(job.target, job.user, since)
        commit = _commit(engine, job, frame, end, since, replaces=full_refresh)
        commits.append(commit)
        published = job.target.snapshots.find(commit.snapshot_id or 0)
        if published is None:
            break  # it expired already, and the expiry has recorded it
        job.target.jobs.complete(job.user, published)
        job.source.consumers.record(job.consumer_id, end.id)
        since = SeenSnapshot.of(published)
    return TransformResult(tuple(commits), None if newest is None else newest.id, time.monotonic() - started)


def _commit(
    engine: TransformEngine[Frame],
    job: IncrementalJob,
    frame: Frame,
    end: Snapshot,
    since: SeenSnapshot,
    *,
    replaces: bool,
) -> CommitResult:
    """Write and commit the rows that lead to a snapshot of the source."""
    base = job.target.snapshots.latest()
    only_ours = _check_only_ours(job, base)
    progress = _Progress(job.source.identity, SeenSnapshot.of(end), only_ours)
    target = job.target.with_snapshot_properties({_PROPERTY: progress.to_text()})
    replaced: dict[str, object] | None = {} if replaces else None
    write = replace(new_job(target, "overwrite" if replaces else "append", partitions=replaced), retracts_first=True)
    publication = CommitTarget(
        job.user, end.id, replaced, since, only_run=True, unchanged_since=since.id if replaces else None
    )
    commit = engine.write(frame, write, publication)
    if commit.replayed:
        raise CommitConflictError(
            f"{target.name}: another run of the job {job.job_id!r} committed snapshot {commit.snapshot_id} while this "
            "one ran; this run published nothing, run it again to process what is new since",
            table=target.name,
            job_id=job.job_id,
            snapshot_id=commit.snapshot_id,
        )
    return commit


def _check_columns(job: IncrementalJob, names: Sequence[str]) -> None:
    """Refuse a result that says nothing of deleted rows where the target could delete them, or the reverse."""
    source, target = job.source.schema, job.target.schema
    kinds = kind_column(names, target.field_names, table=job.target.name)
    if kinds is not None and not target.primary_keys:
        raise InvalidInputError(
            f"{job.target.name} has no primary key, so the job {job.job_id!r} cannot delete or replace rows in it: "
            f"return rows without the column {kinds!r}, or under another name, or give the table a primary key",
            table=job.target.name,
            column=kinds,
        )
    says_kinds = kinds is not None or target.table_options.rowkind_field is not None
    if names and source.primary_keys and target.primary_keys and not says_kinds:
        raise InvalidInputError(
            f"{job.target.name}: the function of the job {job.job_id!r} dropped the column '_row_kind', without which "
            "deleted rows would be written as new ones; return it too",
            table=job.target.name,
            column="_row_kind",
        )
