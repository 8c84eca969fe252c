"""The bounded loop of attempts: prefetch, plan, publish with three outcomes; changes that are planned again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter, time_ns
from typing import Generic, Protocol, TypeVar

from lakewright.commit.commit_changes import MessageFile, check_written
from lakewright.commit.commit_plan import CommitRequest, plan_on
from lakewright.commit.commit_search import CommitSearch
from lakewright.commit.snapshot_producer import CommitEnvironment, SnapshotProducer, UnpublishedSnapshot
from lakewright.errors import (
    CatalogException,
    CommitConflictError,
    CommitContentionError,
    CommitUnknownError,
    CorruptTableError,
    LakewrightError,
    NotAuthorizedError,
    NotFoundError,
    TableNotExistException,
    pluralize,
)
from lakewright.metadata.authority import (
    FILE_AUTHORITY,
    LostRace,
    Outcome,
    Published,
    SnapshotAuthority,
    TableAuthority,
    Unknown,
)
from lakewright.metadata.manifest_columns import SelectedEntries
from lakewright.metadata.table_store import TableStore
from lakewright.metrics import EventKind, MetricsEvent, StageTimer, emit, has_listeners
from lakewright.spec.manifest import ADD, DELETE, ManifestEntry, count_rows
from lakewright.spec.snapshot import MAX_LONG, Snapshot, is_same_commit, snapshot_from_json, state_of, to_json
from lakewright.spec.table_schema import TableSchema
from lakewright.storage.concurrency import CallGroup, DeferredCall
from lakewright.storage.storage import Storage, is_refusal
from lakewright.storage.table_layout import Layout

# ---- Publishing one snapshot -----------------------------------------------------------------------------------------
# Invariant: `Published` means that the snapshot file was created, or read back with its own manifest lists, or
# that the server which owns the table said so; `metadata.authority` says what the outcomes mean. A snapshot that turns
# out
# not to belong to the history is taken back (`confirm_published`).


class Publisher(Protocol):
    """What decides which of several writers gets a snapshot id: the table's storage, or the server of a catalog."""

    def publish(self, snapshot: Snapshot, base: Snapshot | None, entries: Sequence[ManifestEntry] = ()) -> Outcome:
        """Make a snapshot visible if it extends `base` (None: the table is empty) and no other commit did so first.

        `entries` are the files that it adds and deletes. An OSError means that it was refused: it is not and will
        not be visible.
        """


@dataclass(frozen=True, slots=True)
class FilePublisher:
    """Publishes by creating `snapshot-<id>` once, which is all that decides a race on a filesystem or object store."""

    storage: Storage
    layout: Layout
    home: TableAuthority = FILE_AUTHORITY

    def publish(
        self,
        snapshot: Snapshot,
        base: Snapshot | None,  # noqa: ARG002 - the name of the file says which base
        entries: Sequence[ManifestEntry] = (),  # noqa: ARG002
    ) -> Outcome:
        """Create the snapshot file unless it exists, and read it back if the answer is not certain."""
        with self.home.hold_lock():
            return self._create(snapshot)

    def _create(self, snapshot: Snapshot) -> Outcome:
        path = self.layout.snapshot_file(snapshot.id)
        try:
            created = self.storage.create(path, to_json(snapshot).encode())
        except OSError as cause:
            return self._read_back(path, snapshot, cause)
        # Where files can be renamed over each other, writers of other implementations can replace the file that we
        # just created; one small read tells. On object stores no client publishes that way, and a read is a round trip.
        if created and not self.storage.renames_atomically:
            return Published(snapshot.id)
        gone = FileNotFoundError(f"{path} was taken by another commit and is gone again")
        return self._read_back(path, snapshot, gone, created=created)

    def _read_back(self, path: str, snapshot: Snapshot, cause: OSError, *, created: bool = False) -> Outcome:
        """Return the outcome by the manifest lists of the snapshot that is at the path."""
        try:
            published = snapshot_from_json(self.storage.read(path), path=path)
        except FileNotFoundError:
            if created:
                return Published(snapshot.id)  # it was visible; others may have extended it before it expired
            if is_refusal(cause):
                raise cause from None
            return Unknown(cause)
        except (OSError, CorruptTableError) as unreadable:
            return Unknown(unreadable)
        if is_same_commit(published, snapshot):
            return Published(snapshot.id)
        return LostRace(snapshot.id)


@dataclass(frozen=True, slots=True)
class ServerCommits:
    """Publishes by asking the server that owns the history."""

    store: TableStore
    owner: SnapshotAuthority

    def publish(self, snapshot: Snapshot, base: Snapshot | None, entries: Sequence[ManifestEntry] = ()) -> Outcome:
        """Send the snapshot with what it adds to each partition."""
        return self.owner.commit(snapshot, base, self.store.partition_counts(entries))


def publisher_of(store: TableStore) -> Publisher:
    """Return what publishes the snapshots of a table: its files, or the server that owns its history."""
    owner = store.home.history
    return FilePublisher(store.storage, store.layout, store.home) if owner is None else ServerCommits(store, owner)


def confirm_published(
    store: TableStore, base: Snapshot | None, own: Snapshot, entries: Sequence[ManifestEntry]
) -> Outcome:
    """Look whether a snapshot that was just created belongs to the history; if not, take it back: it has lost.

    A writer may be paused between planning and publishing. Meanwhile the snapshot that it planned on may be rolled
    back, or its own id may be used by others and expire, so that creating the file succeeds all the same. The history
    is the run of ids that ends at the highest one (design/0013). So a snapshot is in it if its base is there and no
    higher id exists, or if the next one was made on top of it. `entries` are the files that it adds and deletes.
    """
    if store.home.history is not None:
        return _confirm_on_server(store, store.home.history, base, own, entries)
    snapshots = store.snapshots
    try:
        with CallGroup(store.storage) as errands:
            found = None if base is None else errands.start(partial(snapshots.find, base.id))
            listed = errands.start(partial(snapshots.ids_above, own.id - 1))
            kept = None if found is None else found.result()
            is_in_line = _is_in_line(store, base, kept, own, entries, listed.result())
        if is_in_line is None:
            gone = FileNotFoundError(f"{store.layout.snapshot_file(own.id)} and the snapshot after it are gone")
            return Unknown(gone, is_gone=False)
        if not is_in_line and snapshots.holds(own):
            store.storage.delete(store.layout.snapshot_file(own.id))
    except (OSError, CorruptTableError, NotFoundError) as cause:
        return Unknown(cause)
    # Its metadata stays for the removal of orphans: the snapshot was visible, and a reader may be using it.
    return Published(own.id) if is_in_line else Unknown(OSError("it was taken back"), is_gone=True)


def _confirm_on_server(
    store: TableStore,
    owner: SnapshotAuthority,
    base: Snapshot | None,
    own: Snapshot,
    entries: Sequence[ManifestEntry],
) -> Outcome:
    """Look whether a server that does not check the base of a commit took one whose base was rolled back or replaced.

    Servers up to 1.4.2 compare only ids, and drop the uuid by which newer ones recognise the base. Higher ids than its
    own that were not made on top of it came with a fast-forward, and the server is asked to go back to the newest.
    """
    if base is None or base.uuid is not None:
        return Published(own.id)
    try:
        kept = store.snapshots.find(base.id)
        if kept is not None and is_same_commit(kept, base):
            return Published(own.id)
        ids = store.snapshots.ids_above(0)
        following = store.snapshots.find(own.id + 1)
        is_extended = following is not None and is_built_on(store, following, own, entries)
        was_forwarded = ids[-1:] > [own.id] and not is_extended
        others = ids if was_forwarded else [found for found in ids if found < own.id]
        if not others:
            return Published(own.id)  # the base has expired since: expiry removes the oldest first
        owner.rollback(others[-1], own.id)  # refused if others have committed on top
        if was_forwarded and store.snapshots.holds(own):
            store.storage.delete(store.layout.snapshot_file(own.id))  # it is below the forwarded ones
    except (OSError, LakewrightError) as cause:
        return Unknown(cause)
    return Unknown(OSError("it was taken back, as its base was rolled back"), is_gone=True)


def _is_in_line(
    store: TableStore,
    base: Snapshot | None,
    kept: Snapshot | None,
    own: Snapshot,
    entries: Sequence[ManifestEntry],
    listed: list[int],
) -> bool | None:
    """Return whether a snapshot belongs to the history; None if that cannot be known any more.

    `kept` is the snapshot that has the id of the base now, and `listed` are its own id and those that are higher.
    """
    is_same_base = base is None or (kept is not None and is_same_commit(kept, base))
    if listed and listed[-1] > own.id:
        following = store.snapshots.find(own.id + 1)
        if following is not None:
            is_built = is_built_on(store, following, own, entries)
            return is_same_base if is_built is None else is_built
        # Snapshots expire from the oldest on: if the next one has expired, so has ours, unless it is below a gap.
        return False if store.snapshots.exists(own.id) else None
    if own.id not in listed and not store.snapshots.exists(own.id):
        return False  # it was rolled back
    if is_same_base:
        return True
    # The base is gone, or another snapshot has its id. It has expired, or it was rolled back: then an older snapshot is
    # kept. One that is older than the hint EARLIEST says is a stray that was published too late.
    earliest = store.snapshots.hinted_earliest() or 1
    older = [snapshot_id for snapshot_id in store.snapshots.ids() if earliest <= snapshot_id < own.id]
    return not older


def is_built_on(store: TableStore, following: Snapshot, own: Snapshot, entries: Sequence[ManifestEntry]) -> bool | None:
    """Tell whether a snapshot was made on top of another one; None if that one changed no data file, so none tells."""
    manifests = store.manifests
    began_with = manifests.read_list(following.base_manifest_list)
    with suppress(NotFoundError, CorruptTableError):  # it has expired
        changed = {file.file_name for file in manifests.read_list(own.delta_manifest_list)}
        if changed and changed <= {file.file_name for file in began_with}:
            return True
    if not entries:
        return None
    # Manifests were merged, or written anew by a rollback: the files tell.
    partitions = {entry.partition for entry in entries}
    found = manifests.live_of(began_with, following, keep=lambda partition, *_: partition in partitions)
    live = {entry.identity for entry in (found.entries() if isinstance(found, SelectedEntries) else found)}
    added = {entry.identity for entry in entries if entry.kind == ADD}
    removed = {entry.identity for entry in entries if entry.kind == DELETE} - added
    return added <= live and live.isdisjoint(removed)


# ---- Changes that are planned again ----------------------------------------------------------------------------------
# newest snapshot -> check that the table is still the same -> prepare -> publish -> conflict? pause, begin again
#
# A commit that conflicts has published nothing and cannot be published later: what it is based on has changed. Always
# holds: the number of attempts is bounded, and an error that says nothing about the base ends the loop at once.
# The publisher removes what a lost attempt wrote.

_RETRY_DOUBLINGS_MAX = 10

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a change is tried again, how often, and how long it pauses before that."""

    on: tuple[type[LakewrightError], ...]  # what publishing raises when a new plan may succeed
    retries_max: int
    timeout_ms: int | None = None  # no attempt begins later than this after the first
    wait_ms: tuple[int, int] = (0, 0)  # the first pause, which doubles each time, and the longest

    @classmethod
    def of(cls, store: TableStore) -> RetryPolicy:
        """Return what the options of a table say of conflicts."""
        options = store.options
        return cls(
            (CommitConflictError,),
            options.commit_max_retries,
            options.commit_timeout,
            (options.commit_min_retry_wait, options.commit_max_retry_wait),
        )

    def pause_seconds(self, attempt: int) -> float:
        """Return how long to pause: random, and longer after each attempt, so that rivals do not collide again."""
        shortest, longest = self.wait_ms
        return min(shortest << min(attempt, _RETRY_DOUBLINGS_MAX), longest) * random.random() / 1000  # noqa: S311 - no secret


@dataclass(frozen=True, slots=True)
class Attempt(Generic[Made]):
    """The attempt that succeeded."""

    number: int  # from 1
    made: Made
    published: Snapshot | None  # None: there was nothing to publish


def plan_and_publish(
    store: TableStore,
    prepare: Callable[[Snapshot | None], Made],
    publish: Callable[[Made, Snapshot | None], Snapshot | None],
    retries: RetryPolicy,
) -> Attempt[Made]:
    """Prepare a change on the newest snapshot and publish it, from the start again as often as others publish first."""
    started, began = time.monotonic(), time.time_ns()
    for number in range(1, retries.retries_max + 2):
        with CallGroup(store.storage) as errands:
            same_table = errands.start(store.check_same_table)
            base = store.snapshots.latest()
            same_table.result()
        made = prepare(base)
        try:
            return Attempt(number, made, publish(made, base))
        except retries.on as error:
            why = type(error).__name__
            late = retries.timeout_ms is not None and (time.monotonic() - started) * 1000 >= retries.timeout_ms
            if number > retries.retries_max or late:
                raise
        pause = retries.pause_seconds(number)
        if has_listeners("retry"):
            details = {"why": why, "wait_ms": round(pause * 1000, 3)}
            spent = time.monotonic() - started
            emit(MetricsEvent("retry", store.name, attempts=number, started_ns=began, seconds=spent, details=details))
        time.sleep(pause)
    raise AssertionError("the last attempt returns or raises")


# ---- Prefetch --------------------------------------------------------------------------------------------------------
# A commit extends the newest snapshot, and compares its buckets with those of all schemas. On an object store it
# takes a round trip or two to find them, which the upload of the last files takes as well. An answer that is old is
# not used: others may have committed since, and then the commit would lose the race. Which answer is used decides
# nothing else, because publishing creates the next snapshot once.

_AGE_SECONDS_MAX = 2.0


@dataclass(slots=True)
class CommitPrefetch:
    """One look at a table: answers to `begin` are used once and while they are fresh; else the table is asked again."""

    store: TableStore
    is_wanted: bool = False  # by a commit of this process: messages may also be committed elsewhere
    _newest: DeferredCall[Snapshot | None] | None = field(default=None, repr=False)
    _schemas: DeferredCall[list[TableSchema]] | None = field(default=None, repr=False)
    _began: float = 0.0

    def begin(self) -> None:
        """Ask for the newest snapshot, if the storage is far away; a server that owns the history is asked later."""
        if self._is_far:
            self._began = time.monotonic()
            self._newest = DeferredCall(self.store.snapshots.latest, at_once=True)

    def begin_commit(self, newest: Snapshot | None = None) -> None:
        """Ask for all that a commit reads first, without the newest snapshot if the caller has just asked for it."""
        self.begin() if newest is None else self._know(newest)
        if self._is_far and self.store.options.bucket > 0:
            self._schemas = DeferredCall(self.store.schemas.all, at_once=True)

    def _know(self, newest: Snapshot) -> None:
        if self._is_far:
            self._began = time.monotonic()
            self._newest = DeferredCall(lambda: newest, at_once=False)

    def seen_snapshot(self) -> Snapshot | None:
        """Return a snapshot that was the newest at some time since `begin`; a commit may still use the answer."""
        return self.store.snapshots.latest() if self._newest is None else self._newest.result()

    def newest(self) -> Snapshot | None:
        """Return the newest snapshot."""
        asked, self._newest = self._newest, None
        return self.store.snapshots.latest() if asked is None or self._is_old else asked.result()

    def schemas(self) -> list[TableSchema]:
        """Return all schemas, in order."""
        asked, self._schemas = self._schemas, None
        return self.store.schemas.all() if asked is None or self._is_old else asked.result()

    @property
    def _is_far(self) -> bool:
        return self.store.storage.requests_at_once > 1 and self.store.home.history is None

    @property
    def _is_old(self) -> bool:
        return time.monotonic() - self._began > _AGE_SECONDS_MAX


# ---- The loop of attempts --------------------------------------------------------------------------------------------
# look whether it is published already -> plan on the newest snapshot -> renumber rows if need be -> write metadata
#     -> check that the table is still the same -> publish -> look whether it is in the history -> wait and try again
#
# On remote stores, calls that do not need each other's answers are made concurrently (design/0012 draws the chain).
#
# Invariant: metadata of an attempt is deleted only when the attempt is known to have lost the race. While the
# outcome of an attempt is unknown, the loop ends in success or in `CommitUnknownError`, never in an error that says
# that nothing was published.

REFUSALS = (NotAuthorizedError, CatalogException)  # of a server: not published, and no use to try again
ATTEMPTS_MAX = 10_000  # the loop has an end, also for commits that only add files and are retried without limit
_APPEND_DOUBLINGS_MAX = 4  # appends do not wait much longer after each lost race, as some append succeeds in every race
_DOUBLINGS_LIMIT = 40  # keeps the powers of two small
_JITTER = 0.2
_CHECK_MILLIS = 60_000  # an attempt that takes longer looks twice whether its files are there
_PATIENCE = 2  # an append waits at most this many times as long as its attempt took


@dataclass(slots=True)
class CommitRun:
    """The attempts to publish one intent."""

    store: TableStore
    intent: CommitRequest
    files: Sequence[MessageFile]  # checked before each attempt
    publisher: Publisher
    environment: CommitEnvironment
    sole: bool = False  # no other process holds the messages, and they are not handed in again
    early_look: CommitPrefetch | None = None
    search: CommitSearch = field(init=False)
    drafts: SnapshotProducer = field(init=False)
    doubts: list[UnpublishedSnapshot] = field(
        default_factory=list
    )  # drafts of unknown outcome: they may be visible, or become so
    cause: Exception | None = None  # why the last outcome is unknown, or that of a snapshot that is gone
    stages: StageTimer = field(default_factory=StageTimer)
    attempts: int = 0
    _checked_at: int = 0  # when the files were last seen
    started_ns: int = field(default_factory=time_ns)
    replayed: bool = False  # the snapshot is of an earlier call, or of another process

    def __post_init__(self) -> None:
        self.drafts = SnapshotProducer(self.store, self.intent, self.environment)
        claim = self.drafts.claim if self.drafts.can_claim else None
        self.search = CommitSearch(self.store, self.intent, self.environment.clock(), claim)

    def publish(self) -> Snapshot:
        """Publish the intent, or find that it is published already."""
        try:
            return self._publish()
        except CommitUnknownError:
            if not self.search.tried:  # what is unknown is another process's attempt; nothing names our files
                self.drafts.discard_rest(keep_marker=True)
            raise
        except Exception as error:
            if self.doubts:
                raise self._unknown() from error
            if isinstance(error, OSError) and not isinstance(error, REFUSALS):
                raise self._not_published(f"storage failed before anything was published: {error}") from error
            self.drafts.discard_rest()
            with suppress(OSError):
                self.store.check_same_table()  # in a table that replaced this one, any error is misleading
            raise

    def _publish(self) -> Snapshot:
        environment, started = self.environment, self.environment.clock()
        retries_max = self.store.options.commit_max_retries
        timeout = self.store.options.commit_timeout
        without_progress, last_id = 0, MAX_LONG
        for attempt in range(ATTEMPTS_MAX):
            began, since = environment.clock(), perf_counter()
            self.attempts = attempt + 1
            # The snapshot may exist although the reply was lost, so look before trying again.
            base = self._newest()
            self.stages.add("look", since)
            found = self._draft_on(base, attempt)
            if isinstance(found, Snapshot):
                return self._finish_published(found)
            draft, since = found, perf_counter()
            outcome = self._hand_in(draft)
            since = self.stages.add("publish", since)
            if isinstance(outcome, Published):
                outcome = self._confirm(draft)
                since = self.stages.add("confirm", since)
            match outcome:
                case Published():
                    return draft.snapshot
                case Unknown(cause, is_gone=True):
                    self.cause = cause  # its files stay for the orphans: it was visible, and others may have read it
                case LostRace(winner_id):
                    self.store.snapshots.expect(winner_id)
                    self.drafts.discard(draft)
                case Unknown(cause):
                    self.doubts.append(draft)
                    self.cause = cause
            progress = self.intent.only_adds and draft.snapshot.id > last_id
            without_progress = 0 if progress else without_progress + 1
            last_id = draft.snapshot.id
            if without_progress > retries_max or (timeout is not None and environment.clock() - started >= timeout):
                break
            wait = self._wait_seconds(attempt, took_millis=environment.clock() - began)
            self._tell_retry(outcome, draft, wait)
            since = perf_counter()
            environment.sleep(wait)
            self.stages.add("wait", since)
        if self.doubts:
            raise self._unknown() from self.cause
        raise self._not_published(f"other writers were faster {pluralize(attempt + 1, 'time')}")

    def _newest(self) -> Snapshot | None:
        return self.store.snapshots.latest() if self.early_look is None else self.early_look.newest()

    def _draft_on(self, base: Snapshot | None, attempt: int) -> UnpublishedSnapshot | Snapshot:
        """Write the metadata of a commit on a base, or return the snapshot that published the commit before."""
        since = perf_counter()
        with CallGroup(self.store.storage) as errands:
            self.drafts.ask_early(base, errands)
            files_checked = errands.start(partial(self._check_files, self.drafts.kept_files()))
            if (existing := self._find_published(base, attempt)) is not None:
                return existing
            self._drop_lost_drafts(base)
            files_checked.result()
            since = self.stages.add("check", since)
            plan = plan_on(self.store, self.intent, base)
            since = self.stages.add("plan", since)
            draft = self.drafts.draft(plan, in_doubt=bool(self.doubts))
            self._check_files_again(draft)
            self.stages.add("manifests", since)
            return draft

    def _find_published(self, base: Snapshot | None, attempt: int) -> Snapshot | None:
        """Return the snapshot that published the commit before, if there is one.

        If only this call has the messages, and its earlier attempts are known to have lost, there is none; snapshots
        that were published meanwhile may have expired since.
        """
        if self.sole and not self.doubts and self.intent.once_since is None:
            self.search.skip(base, is_first=not attempt)
            return None
        existing = self.search.find(base)
        draft = next((d for d in self.doubts if existing is not None and is_same_commit(existing, d.snapshot)), None)
        if draft is None or existing is None:
            return existing
        outcome = confirm_published(self.store, draft.base, draft.snapshot, draft.entries)
        if isinstance(outcome, Unknown):
            if not outcome.is_gone:
                raise self._unknown() from outcome.cause
            self.doubts.remove(draft)
            return None
        return existing

    def _confirm(self, draft: UnpublishedSnapshot) -> Outcome:
        """Look whether the snapshot belongs to the history, and do what follows the publishing."""
        with CallGroup(self.store.storage) as errands:
            hint = errands.start(partial(self.store.snapshots.write_latest_hint, draft.snapshot.id))
            outcome = confirm_published(self.store, draft.base, draft.snapshot, draft.entries)
            if not isinstance(outcome, Published):
                return outcome
            self._take_back_if_replaced(draft)
            self._drop_lost_drafts(draft.snapshot, published=True)
            hint.result()
            is_first = self.cause is None and (self.sole or self.search.is_first)
            self.drafts.remove_unused_copies(draft.snapshot, with_originals=is_first)
        return outcome

    def _check_files(self, metadata: Sequence[MessageFile]) -> None:
        """Check that the files exist that the next snapshot will name and that this attempt does not write itself.

        Between two attempts others may have removed them: upkeep that took them for left-overs, a server that removes
        the files of a snapshot that is rolled back. So every attempt looks, while it does other things.
        """
        self._checked_at = self.environment.clock()
        check_written(self.store, (*self.files, *metadata))

    def _check_files_again(self, draft: UnpublishedSnapshot) -> None:
        """Check all files once more if the process was slow, or stopped, since it last looked."""
        if abs(self.environment.clock() - self._checked_at) > _CHECK_MILLIS:
            self._check_files((*self.drafts.kept_files(), *self.drafts.metadata_files(draft.files)))

    def _hand_in(self, draft: UnpublishedSnapshot) -> Outcome:
        try:
            self.search.tried.add(state_of(draft.snapshot))
            return self.publisher.publish(draft.snapshot, draft.base, draft.entries)
        except (LakewrightError, OSError):
            self.drafts.discard(draft)
            raise
        except Exception as error:  # not a refusal: it may come from a library that broke after the request was sent
            self.doubts.append(draft)
            self.cause = error
            raise

    def _take_back_if_replaced(self, draft: UnpublishedSnapshot) -> None:
        """Remove the snapshot if the table was dropped and made again between the check and the publishing.

        This is checked on file systems, where reading one file costs next to nothing; on object stores a drop takes
        longer than the time between the two requests, and a server is told which table is meant. If another snapshot
        was made on top of it, it stays.
        """
        if not self.store.storage.renames_atomically or self._is_on_server:
            return
        try:
            with suppress(OSError):
                self.store.check_same_table()
        except TableNotExistException:
            snapshots, snapshot = self.store.snapshots, draft.snapshot
            current = snapshots.find(snapshot.id)
            if current is not None and is_same_commit(current, snapshot) and not snapshots.exists(snapshot.id + 1):
                self.store.storage.delete(self.store.layout.snapshot_file(snapshot.id))
                self.drafts.discard(draft)
            raise

    def _finish_published(self, existing: Snapshot) -> Snapshot:
        """Clean up if an earlier attempt, or another process with the same messages, published the commit."""
        self._drop_lost_drafts(existing, published=True)
        self.store.snapshots.write_latest_hint(existing.id)
        if state_of(existing) not in self.search.tried:
            self.replayed = True
            # The marker stays: it shows later replays that the messages were committed. If another process did the same
            # job with other files, they were not, and the marker is deleted.
            ours = self.intent.once_since is None or self.search.holds(existing)
            self.drafts.discard_rest(keep_marker=ours)
        self.drafts.remove_unused_copies(existing, with_originals=False)
        return existing

    @property
    def _is_on_server(self) -> bool:
        return self.store.home.history is not None

    def _drop_lost_drafts(self, newest: Snapshot | None, *, published: bool = False) -> None:
        """Discard drafts of unknown outcome whose snapshot id another commit has got."""
        taken = 0 if newest is None else newest.id
        for draft in [d for d in self.doubts if d.snapshot.id <= taken]:
            winner = newest if newest is not None and newest.id == draft.snapshot.id else None
            if winner is None:
                winner = self.store.snapshots.get(draft.snapshot.id)
            self.doubts.remove(draft)  # it stays in doubt if the snapshot of its id cannot be read
            if not is_same_commit(winner, draft.snapshot):
                self.drafts.discard(draft, keep_marker=published)

    def _wait_seconds(self, attempt: int, took_millis: int) -> float:
        options = self.store.options
        shortest = options.commit_min_retry_wait
        longest = options.commit_max_retry_wait
        if self.intent.only_adds:
            # Where an attempt takes long, a wait that is short beside it would not keep writers apart.
            wait = max(shortest << min(attempt, _APPEND_DOUBLINGS_MAX), _PATIENCE * took_millis)
            return min(wait, longest) * self.environment.random() / 1000
        wait = min(shortest << min(attempt, _DOUBLINGS_LIMIT), longest)
        return wait * (1 + _JITTER * self.environment.random()) / 1000

    def tell_published(self, snapshot: Snapshot, before_ms: Mapping[str, float]) -> None:
        """Tell listeners what was published; `before_ms` are the stages before the commit."""
        if not has_listeners("commit"):
            return
        entries = self.intent.change.entries
        added = [entry.file for entry in entries if entry.kind == ADD]
        details = {"removed_files": len(entries) - len(added)} if len(entries) > len(added) else {}
        event = self._event("commit", {**details, "replayed": True} if self.replayed else details, before_ms)
        rows, size = count_rows(added), sum(file.file_size for file in added)
        emit(replace(event, snapshot_id=snapshot.id, rows=rows, files=len(added), bytes=size))

    def tell_failed(self, error: BaseException, before_ms: Mapping[str, float]) -> None:
        """Tell listeners that the run ended with an error."""
        if has_listeners("failure"):
            emit(self._event("failure", {"error": type(error).__name__}, before_ms))

    def _tell_retry(self, outcome: Outcome, draft: UnpublishedSnapshot, wait: float) -> None:
        if has_listeners("retry"):
            is_lost, is_gone = isinstance(outcome, LostRace), isinstance(outcome, Unknown) and outcome.is_gone
            why = "lost the race" if is_lost else "rolled back" if is_gone else "outcome unknown"
            details = {"why": why, "wanted_snapshot": draft.snapshot.id, "wait_ms": round(wait * 1000, 3)}
            emit(self._event("retry", details, {}))

    def _event(self, kind: EventKind, details: Mapping[str, object], before_ms: Mapping[str, float]) -> MetricsEvent:
        return MetricsEvent(
            kind,
            self.store.name,
            str(self.intent.kind.value),
            attempts=self.attempts,
            started_ns=self.started_ns,
            seconds=(time_ns() - self.started_ns) / 1e9,
            stages_ms={**before_ms, **self.stages.millis},
            details=details,
        )

    def _unknown(self) -> CommitUnknownError:
        intent = self.intent
        advice = "commit the same messages again to find out, and delete none of their files"
        if self.sole:
            advice = "look for a snapshot of that user before you run it again, and delete none of its files"
        return CommitUnknownError(
            f"{self.store.name}: the commit {intent.identifier} of user {intent.user} ({intent.kind}) may or may not "
            f"have happened ({self.cause}); {advice}",
            **self._facts(),
        )

    def _not_published(self, why: str) -> CommitContentionError:
        intent = self.intent
        # The marker stays: another process with the same messages may have found it and published them under another
        # name, and without it the next try would not look for that. Nothing names it, so the removal of orphans deletes
        # it in time. If no other process has the messages, it is deleted with the rest.
        self.drafts.discard_rest(keep_marker=not self.sole)
        again = "run it again" if self.sole else "commit the same messages again"
        return CommitContentionError(
            f"{self.store.name}: the commit {intent.identifier} of user {intent.user} ({intent.kind}) was not "
            f"published: {why}; {again}",
            **self._facts(),
        )

    def _facts(self) -> dict[str, object]:
        intent = self.intent
        return {
            "table": self.store.name,
            "user": intent.user,
            "identifier": intent.identifier,
            "kind": intent.kind,
        }
