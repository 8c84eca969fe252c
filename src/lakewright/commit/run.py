"""One intent in, one published snapshot out: the loop of attempts of every commit.

    look whether it is published already -> plan on the newest snapshot -> renumber rows if need be -> write metadata
    -> check that the table is still the same -> publish -> look whether it is in the history -> wait and try again

Far away, calls that do not need each other's answers are made side by side (design/0012 draws the chain).

Always holds: metadata of an attempt is deleted only when the attempt is known to have lost the race. While the outcome
of an attempt is unknown, the loop ends in success or in `CommitUnknownError`, never in an error that says that nothing
was published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter, time_ns

from lakewright.commit.draft import Draft, Drafts, Environment
from lakewright.commit.files import WrittenFile, check_written
from lakewright.commit.plan import Intent, plan_on
from lakewright.commit.publish import Publisher, confirm_published
from lakewright.commit.replay import CommitSearch
from lakewright.errors import (
    CatalogException,
    CommitContentionError,
    CommitUnknownError,
    LakewrightError,
    NotAuthorizedError,
    TableNotExistException,
    counted,
)
from lakewright.metadata.early_look import EarlyLook
from lakewright.metadata.home import LostRace, Outcome, Published, Unknown
from lakewright.metadata.store import TableStore
from lakewright.metrics import EventKind, MetricsEvent, Stages, is_observed, tell
from lakewright.spec.manifest import ADD
from lakewright.spec.options import CoreOptions
from lakewright.spec.snapshot import MAX_LONG, Snapshot, is_same_state, state_of
from lakewright.storage.side_by_side import Errands

REFUSALS = (NotAuthorizedError, CatalogException)  # of a server: not published, and no use to try again
ATTEMPTS_MAX = 10_000  # the loop has an end, also for commits that only add files and are retried without limit
_DOUBLINGS_MAX = 4  # appends do not wait much longer after each lost race, as some append succeeds in every race
_DOUBLINGS_LIMIT = 40  # keeps the powers of two small
_JITTER = 0.2
_CHECK_MILLIS = 60_000  # an attempt that takes longer looks twice whether its files are there
_PATIENCE = 2  # an append waits at most this many times as long as its attempt took


@dataclass(slots=True)
class CommitRun:
    """The attempts to publish one intent."""

    store: TableStore
    intent: Intent
    files: Sequence[WrittenFile]  # checked before each attempt
    publisher: Publisher
    environment: Environment
    sole: bool = False  # nobody else holds the messages, and nobody will hand them in again
    early_look: EarlyLook | None = None
    search: CommitSearch = field(init=False)
    drafts: Drafts = field(init=False)
    doubts: list[Draft] = field(default_factory=list)  # drafts of unknown outcome: they may be visible, or become so
    cause: Exception | None = None  # why the last outcome is unknown
    stages: Stages = field(default_factory=Stages)
    attempts: int = 0
    _checked_at: int = 0  # when the files were last seen
    started_ns: int = field(default_factory=time_ns)
    replayed: bool = False  # the snapshot is of an earlier call, or of another process

    def __post_init__(self) -> None:
        self.drafts = Drafts(self.store, self.intent, self.environment)
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
        retries_max = self.store.options.get(CoreOptions.COMMIT_MAX_RETRIES)
        timeout = self.store.options.get(CoreOptions.COMMIT_TIMEOUT)
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
                case Unknown(is_gone=True):
                    pass  # its metadata stays for the orphans: it was visible, and others may have read it
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
        raise self._not_published(f"other writers were faster {counted(attempt + 1, 'time')}")

    def _newest(self) -> Snapshot | None:
        return self.store.snapshots.latest() if self.early_look is None else self.early_look.newest()

    def _draft_on(self, base: Snapshot | None, attempt: int) -> Draft | Snapshot:
        """Write the metadata of a commit on a base, or return the snapshot that published the commit before."""
        since = perf_counter()
        with Errands(self.store.storage) as errands:
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
        draft = next((d for d in self.doubts if existing is not None and is_same_state(existing, d.snapshot)), None)
        if draft is None or existing is None:
            return existing
        outcome = confirm_published(self.store, draft.base, draft.snapshot, draft.entries)
        if isinstance(outcome, Unknown):
            if not outcome.is_gone:
                raise self._unknown() from outcome.cause
            self.doubts.remove(draft)
            return None
        return existing

    def _confirm(self, draft: Draft) -> Outcome:
        """Look whether the snapshot belongs to the history, and do what follows the publishing."""
        with Errands(self.store.storage) as errands:
            hint = errands.start(partial(self.store.snapshots.write_latest_hint, draft.snapshot.id))
            outcome = confirm_published(self.store, draft.base, draft.snapshot, draft.entries)
            if not isinstance(outcome, Published):
                return outcome
            self._take_back_if_replaced(draft)
            self._drop_lost_drafts(draft.snapshot, published=True)
            hint.result()
            self.drafts.remove_unused_copies(draft.snapshot)
        return outcome

    def _check_files(self, metadata: Sequence[WrittenFile]) -> None:
        """Check that the files exist that the next snapshot will name and that this attempt does not write itself.

        Between two attempts others may have removed them: upkeep that took them for left-overs, a server that removes
        the files of a snapshot that is rolled back. So every attempt looks, while it does other things.
        """
        self._checked_at = self.environment.clock()
        check_written(self.store, (*self.files, *metadata))

    def _check_files_again(self, draft: Draft) -> None:
        """Check all files once more if the process was slow, or stopped, since it last looked."""
        if abs(self.environment.clock() - self._checked_at) > _CHECK_MILLIS:
            self._check_files((*self.drafts.kept_files(), *self.drafts.metadata_files(draft.files)))

    def _hand_in(self, draft: Draft) -> Outcome:
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

    def _take_back_if_replaced(self, draft: Draft) -> None:
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
            if current is not None and is_same_state(current, snapshot) and not snapshots.exists(snapshot.id + 1):
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
        self.drafts.remove_unused_copies(existing)
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
            if not is_same_state(winner, draft.snapshot):
                self.drafts.discard(draft, keep_marker=published)

    def _wait_seconds(self, attempt: int, took_millis: int) -> float:
        options = self.store.options
        shortest = options.get(CoreOptions.COMMIT_MIN_RETRY_WAIT)
        longest = options.get(CoreOptions.COMMIT_MAX_RETRY_WAIT)
        if self.intent.only_adds:
            # Where an attempt takes long, a wait that is short beside it would not keep writers apart.
            wait = max(shortest << min(attempt, _DOUBLINGS_MAX), _PATIENCE * took_millis)
            return min(wait, longest) * self.environment.random() / 1000
        wait = min(shortest << min(attempt, _DOUBLINGS_LIMIT), longest)
        return wait * (1 + _JITTER * self.environment.random()) / 1000

    def tell_published(self, snapshot: Snapshot, before_ms: Mapping[str, float]) -> None:
        """Tell listeners what was published; `before_ms` are the stages before the commit."""
        if not is_observed("commit"):
            return
        entries = self.intent.change.entries
        added = [entry.file for entry in entries if entry.kind == ADD]
        details = {"removed_files": len(entries) - len(added)} if len(entries) > len(added) else {}
        event = self._event("commit", {**details, "replayed": True} if self.replayed else details, before_ms)
        rows, size = sum(file.row_count for file in added), sum(file.file_size for file in added)
        tell(replace(event, snapshot_id=snapshot.id, rows=rows, files=len(added), bytes=size))

    def tell_failed(self, error: BaseException, before_ms: Mapping[str, float]) -> None:
        """Tell listeners that the run ended with an error."""
        if is_observed("failure"):
            tell(self._event("failure", {"error": type(error).__name__}, before_ms))

    def _tell_retry(self, outcome: Outcome, draft: Draft, wait: float) -> None:
        if is_observed("retry"):
            is_lost, is_gone = isinstance(outcome, LostRace), isinstance(outcome, Unknown) and outcome.is_gone
            why = "lost the race" if is_lost else "rolled back" if is_gone else "outcome unknown"
            details = {"why": why, "wanted_snapshot": draft.snapshot.id, "wait_ms": round(wait * 1000, 3)}
            tell(self._event("retry", details, {}))

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
        # it in time. If nobody else has the messages, it is deleted with the rest.
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
