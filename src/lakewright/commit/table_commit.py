"""The commit objects that users hold, and `CommitResult`.

A batch commit is for messages that are committed once. A stream commit belongs to one commit user, who commits again
and again under growing identifiers. What follows a published commit (a compaction, callbacks, expiry and tags that the
table's options ask for) may warn, but it never raises: a published commit does not look like a failed one.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Protocol, Self, TypeAlias

from lakewright.commit.commit_changes import delete_files_of, files_of_messages
from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.committer import Committer, PartitionSpec
from lakewright.display import HtmlRepr
from lakewright.errors import CommitConflictError, InvalidInputError, LakewrightWarning
from lakewright.metadata.table_store import TableStore, check_properties
from lakewright.spec import argument_checks
from lakewright.spec.manifest import ManifestEntry, count_rows
from lakewright.spec.snapshot import MAX_LONG, Snapshot

REROUTES_MAX = 10  # how often others may choose buckets first


@dataclass(frozen=True, slots=True)
class CommitResult(HtmlRepr):
    """What a commit brought into the table."""

    snapshot_id: int | None  # None: there was nothing to commit
    rows: int  # in the new data files; with a primary key also rows that replace or delete others
    files: int
    bytes: int
    seconds: float
    partitions: int
    replayed: bool = False  # an earlier run or another process committed the same job before
    attempts: int = 1  # how often publishing was tried; more than once if other writers were faster
    # Where the time went: `write` and `flush` of the writers, then the stages of the commit.
    stages_ms: Mapping[str, float] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class WriteResult(CommitResult):
    """What a write by an engine brought into the table, and how."""

    tasks: int = 0
    method: str = ""  # how the rows reached the tasks that wrote them


@dataclass(frozen=True, slots=True)
class CommitContext:
    """What a callback is given: the published snapshot, and the messages that made it."""

    table: str
    snapshot: Snapshot
    messages: tuple[CommitMessage, ...]
    identifier: int
    _read_entries: Callable[[], Sequence[ManifestEntry]] = field(default=tuple, repr=False, compare=False)

    @property
    def commit_entries(self) -> list[ManifestEntry]:
        """The files that the snapshot added and deleted, read from its manifests when asked for."""
        return list(self._read_entries())


class CommitCallback(Protocol):
    """An object whose `call` runs after every commit; its `close`, if it has one, runs when the commit is closed."""

    def call(self, context: CommitContext) -> None:
        """Do something about a commit that was published."""


Callback: TypeAlias = CommitCallback | Callable[[CommitContext], None]
Place: TypeAlias = tuple[bytes, int]  # a partition and a bucket
# Messages that conflict over dynamic buckets, and how often they did so far, in; messages with the same rows in other
# files out, or None where that is impossible.
Reroute: TypeAlias = Callable[[Sequence[CommitMessage], int], Sequence[CommitMessage] | None]
AfterCommit: TypeAlias = Callable[[Snapshot, frozenset[Place]], None]  # the snapshot, and the places it touched


class TableCommit:
    """Publishes what writers prepared. Close it, or use it as a context manager.

    `after_commit` runs after each published commit: it compacts the buckets that the commit touched.
    """

    def __init__(
        self,
        store: TableStore,
        *,
        commit_user: str | None = None,
        committer: Committer | None = None,
        after_commit: AfterCommit | None = None,
    ) -> None:
        self._store = store
        self._committer = committer or Committer(store, commit_user=commit_user)
        self._after_commit = after_commit
        self._callbacks: list[Callback] = []
        self._closed = False

    def abort(self, commit_messages: Sequence[CommitMessage]) -> None:
        """Delete the files of messages that will not be committed. Files that may be published are kept."""
        self._committer.abort(_messages(commit_messages))

    def add_commit_callback(self, callback: Callback) -> None:
        """Call a function, or the `call` of an object, with a `CommitContext` after every published commit."""
        if not callable(callback) and not callable(getattr(callback, "call", None)):
            raise InvalidInputError(f"a commit callback is a function or has a method 'call', not {callback!r}")
        self._callbacks.append(callback)

    def close(self) -> None:
        """Close the callbacks, and let further calls of `commit` raise InvalidInputError."""
        if self._closed:
            return
        self._closed = True
        for callback in self._callbacks:
            close = getattr(callback, "close", None)
            if callable(close):
                self._warn_on_failure(f"{self._store.name}: closing a commit callback failed", close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _finish(
        self,
        snapshot: Snapshot | None,
        messages: Sequence[CommitMessage],
        identifier: int,
        started: float,
    ) -> CommitResult:
        files = [f for m in messages for f in m.new_files]
        result = CommitResult(
            snapshot_id=None if snapshot is None else snapshot.id,
            rows=count_rows(files),
            files=len(files),
            bytes=sum(f.file_size for f in files),
            seconds=time.monotonic() - started,
            partitions=len({m.partition_bytes for m in messages if m.new_files}),
            attempts=max(1, self._committer.attempts),
            stages_ms=self._committer.spent.take_stages(),
        )
        self._committer.attempts = 0
        if snapshot is not None:
            self._follow_up(snapshot, messages, identifier)
        return result

    def _follow_up(self, snapshot: Snapshot, messages: Sequence[CommitMessage], identifier: int) -> None:
        """Do what follows a commit: first compact its buckets, then call the callbacks."""
        after = self._after_commit
        if after is not None:
            places = frozenset((m.partition_bytes, m.bucket) for m in messages if not m.is_empty)
            if places:
                failure = f"{self._store.name}: snapshot {snapshot.id} is published, but the work after it failed"
                self._warn_on_failure(failure, partial(after, snapshot, places))
        read_entries = partial(self._store.manifests.delta, snapshot)
        self._tell(CommitContext(self._store.name, snapshot, tuple(messages), identifier, read_entries))

    def _tell(self, context: CommitContext) -> None:
        published = f"{self._store.name}: snapshot {context.snapshot.id} is published, but"
        for callback in self._callbacks:
            call = callback if callable(callback) else callback.call
            self._warn_on_failure(f"{published} a commit callback failed", partial(call, context))

    @staticmethod
    def _warn_on_failure(failure: str, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - the commit is published, whatever fails after it
            warnings.warn(f"{failure}: {error!r}", LakewrightWarning, stacklevel=6)

    def _ignore_empty(self, *, default: bool) -> bool:
        if self._store.options.commit_force_create_snapshot:
            return False
        chosen = self._store.options.snapshot_ignore_empty_commit
        return default if chosen is None else chosen

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidInputError(
                f"{self._store.name}: this commit is closed; make a new one", table=self._store.name
            )


class BatchTableCommit(TableCommit):
    """Commits the messages of batch writes. With `overwrite`, `commit` replaces partitions instead of adding to them.

    Committing the same messages again, through this object or in another process, finds the snapshot of the first time.
    """

    def __init__(
        self,
        store: TableStore,
        *,
        overwrite: PartitionSpec | None = None,
        commit_user: str | None = None,
        committer: Committer | None = None,
        after_commit: AfterCommit | None = None,
        reroute: Reroute | None = None,
    ) -> None:
        super().__init__(store, commit_user=commit_user, committer=committer, after_commit=after_commit)
        self._overwrite = overwrite
        self._reroute = reroute
        self._committer.reroutes = reroute is not None

    def commit(
        self, commit_messages: Sequence[CommitMessage], snapshot_properties: Mapping[str, str] | None = None
    ) -> CommitResult:
        """Publish the messages as one snapshot, and return what it brought; no snapshot if there is nothing to commit.

        Raises CommitConflictError if the table changed in a way that the messages do not fit, CommitContentionError if
        other writers were always faster, and CommitUnknownError if the storage did not return whether the snapshot
        exists.
        """
        if self._overwrite is not None:
            return self._replace(commit_messages, self._overwrite, snapshot_properties)
        self._check_open()
        started, messages = time.monotonic(), tuple(_messages(commit_messages))
        properties, ignore_empty = _text_map(snapshot_properties), self._ignore_empty(default=True)
        for lost in itertools.count(1):
            try:
                snapshot = self._committer.commit(messages, properties=properties, ignore_empty=ignore_empty)
                break
            except CommitConflictError as error:
                messages = self._reroute_messages(messages, error, lost)
        return self._finish(snapshot, messages, MAX_LONG, started)

    def _reroute_messages(
        self, messages: tuple[CommitMessage, ...], error: CommitConflictError, lost: int
    ) -> tuple[CommitMessage, ...]:
        """Return messages with the same rows in the buckets of the newest snapshot, or raise the conflict."""
        if self._reroute is None or not error.facts.get("misrouted"):
            raise error
        try:
            fresh = self._reroute(messages, lost) if lost <= REROUTES_MAX else None
        finally:
            delete_files_of(self._store, files_of_messages(self._store, messages))  # no other process has the messages
        if fresh is None:
            raise error
        return tuple(fresh)

    def overwrite(
        self, messages: Sequence[CommitMessage], static_partitions: PartitionSpec | None = None
    ) -> CommitResult:
        """Replace the partitions of the new files, or those that agree with a spec, by the messages."""
        return self._replace(messages, _spec(static_partitions), None)

    def truncate_table(self) -> CommitResult:
        """Remove all rows of the table in one snapshot."""
        self._check_open()
        started = time.monotonic()
        return self._finish(self._committer.truncate(), (), MAX_LONG, started)

    def truncate_partitions(self, partitions: PartitionSpec | Sequence[PartitionSpec]) -> CommitResult:
        """Remove all rows of the partitions that agree with one of the specs, which may leave columns out."""
        self._check_open()
        started = time.monotonic()
        specs = argument_checks.check_partition_specs("partitions", partitions)
        return self._finish(self._committer.truncate(specs), (), MAX_LONG, started)

    def _replace(
        self, commit_messages: Sequence[CommitMessage], spec: PartitionSpec, properties: Mapping[str, str] | None
    ) -> CommitResult:
        self._check_open()
        started, messages = time.monotonic(), _messages(commit_messages)
        snapshot = self._committer.overwrite(messages, static_partition=spec, properties=_text_map(properties))
        return self._finish(snapshot, messages, MAX_LONG, started)


class StreamTableCommit(TableCommit):
    """Commits the messages of one stream under growing identifiers. The commit user stays the same over restarts."""

    def __init__(
        self,
        store: TableStore,
        *,
        commit_user: str,
        committer: Committer | None = None,
        after_commit: AfterCommit | None = None,
    ) -> None:
        super().__init__(store, commit_user=commit_user, committer=committer, after_commit=after_commit)

    def commit(
        self,
        commit_messages: Sequence[CommitMessage],
        commit_identifier: int,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> CommitResult:
        """Publish the messages of one identifier; without messages the snapshot records that the stream got so far."""
        self._check_open()
        started, messages, identifier = time.monotonic(), _messages(commit_messages), _identifier(commit_identifier)
        snapshot = self._committer.commit(
            messages,
            identifier,
            properties=_text_map(snapshot_properties),
            ignore_empty=self._ignore_empty(default=False),
        )
        return self._finish(snapshot, messages, identifier, started)

    def overwrite(
        self,
        commit_messages: Sequence[CommitMessage],
        commit_identifier: int,
        static_partitions: PartitionSpec | None = None,
        *,
        if_unchanged_since: int | None = None,
    ) -> CommitResult:
        """Replace the partitions of the new files, or those that agree with a spec, under one identifier.

        With `if_unchanged_since` it raises CommitConflictError if one of them changed after that snapshot.
        """
        self._check_open()
        started, messages, identifier = time.monotonic(), _messages(commit_messages), _identifier(commit_identifier)
        spec = _spec(static_partitions)
        since = argument_checks.check_optional(argument_checks.check_positive, "if_unchanged_since", if_unchanged_since)
        snapshot = self._committer.overwrite(messages, identifier, static_partition=spec, if_unchanged_since=since)
        return self._finish(snapshot, messages, identifier, started)

    def filter_and_commit(self, commit_messages: Mapping[int, Sequence[CommitMessage]]) -> int:
        """Commit what this user has not committed yet, in the order of the identifiers; return how many there were."""
        self._check_open()
        if not isinstance(commit_messages, Mapping):
            raise argument_checks.argument_error(
                "commit_messages", "a dict from identifiers to messages", commit_messages
            )
        given = {_identifier(identifier): _messages(messages) for identifier, messages in commit_messages.items()}
        pending = self._committer.filter_committed(given)
        for identifier in pending:
            self.commit(given[identifier], identifier)
        return len(pending)


def _messages(given: object) -> tuple[CommitMessage, ...]:
    expected = "commit messages, as prepare_commit() returns them"
    return argument_checks.check_instances("commit_messages", given, CommitMessage, expected)


def _identifier(given: object) -> int:
    return argument_checks.check_int("commit_identifier", given)


def _spec(given: object) -> dict[str, object]:
    return {} if given is None else argument_checks.check_mapping("static_partitions", given)


def _text_map(properties: Mapping[str, str] | None) -> Mapping[str, str] | None:
    return None if properties is None else check_properties(properties)
