"""`Committer`: commit, overwrite, truncate, abort.

How a call ends says what happened. It returns: the snapshot is published. It raises `CommitConflictError`,
`CommitContentionError`, `InvalidInputError` or `TableNotExistException` (the table was dropped, or another one has its
place): nothing was published. It raises `CommitUnknownError`: the snapshot may or may not be published, so that no file
may be deleted. Clock, sleep, random numbers and uuids are arguments, so that a test can repeat a run.
"""

from __future__ import annotations

import random
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import wraps
from typing import Concatenate, ParamSpec, TypeAlias

from lakewright.commit.commit_changes import (
    Change,
    MessageFile,
    TargetFacts,
    append_change,
    check_messages,
    check_table,
    compact_change,
    delete_files_of,
    files_of_messages,
    guards_of,
    hash_bases_of,
    prune_dropped_table,
    schema_ids_of,
)
from lakewright.commit.commit_loop import REFUSALS, CommitPrefetch, CommitRun, Publisher, publisher_of
from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.commit_plan import (
    CommitRequest,
    NewStatistics,
    Numbering,
    PartitionSelection,
    SnapshotDetails,
    crosses_partitions,
    files_outside,
    key_range_of,
    partition_selector,
    partitions_of_files,
    select_partitions,
    upgrade_files,
)
from lakewright.commit.commit_search import batch_user, first_seen, is_marked, is_published, marker_of
from lakewright.commit.snapshot_producer import CommitEnvironment
from lakewright.errors import (
    CommitConflictError,
    CommitContentionError,
    InvalidInputError,
    LakewrightWarning,
    TableNotExistException,
    with_table_name,
)
from lakewright.metadata.table_store import TableStore
from lakewright.metrics import StageTimer
from lakewright.spec.manifest import ADD
from lakewright.spec.schema_checks import check_supported_for_write, doubtful_keys, unkept_options
from lakewright.spec.snapshot import MAX_LONG, CommitKind, SeenSnapshot, Snapshot
from lakewright.spec.table_schema import POSTPONE

P = ParamSpec("P")
PartitionSpec: TypeAlias = Mapping[str, object]
# What a commit raises when it published nothing, unless the error names a snapshot (`published_id`).
NOT_PUBLISHED = (InvalidInputError, CommitConflictError, CommitContentionError, TableNotExistException, *REFUSALS)
# A table with one of these options asks for upkeep after each commit; others are never touched by it.
UPKEEP = frozenset(
    "snapshot.num-retained.min snapshot.num-retained.max snapshot.time-retained snapshot.expire.limit "
    "changelog.num-retained.min changelog.num-retained.max changelog.time-retained consumer.expiration-time "
    "partition.expiration-time tag.automatic-creation tag.default-time-retained".split()
)


def _now_millis() -> int:
    return time.time_ns() // 1_000_000


def _new_uuid() -> str:
    return str(uuid.uuid4())


def _removing_useless_files(
    verb: Callable[Concatenate[Committer, Sequence[CommitMessage], P], Snapshot | None],
) -> Callable[Concatenate[Committer, Sequence[CommitMessage], P], Snapshot | None]:
    """Make a verb delete the files of its messages if it fails, nothing was published and it cannot be retried."""

    @wraps(verb)
    def removing_useless_files(
        self: Committer, messages: Sequence[CommitMessage], /, *args: P.args, **more: P.kwargs
    ) -> Snapshot | None:
        try:
            return verb(self, messages, *args, **more)
        except NOT_PUBLISHED as error:
            useless = (self.sole and not self.keeps_files) or isinstance(error, TableNotExistException)
            kept = "published_id" in error.facts or (self.reroutes and error.facts.get("misrouted"))
            if useless and not kept:
                with suppress(OSError):
                    delete_files_of(self.store, files_of_messages(self.store, messages))
                    prune_dropped_table(self.store)
            raise

    return removing_useless_files


@dataclass(slots=True)
class Committer:
    """Publishes changes of one table, each as one snapshot, or as two where writers also compacted.

    `commit_user`: the name of a stream, the same after every restart. Without it each batch gets a name of its own,
    made from its messages, so that committing them again finds the first snapshot.

    `once_since`: user and identifier alone tell a commit, whatever its files. The caller has looked for it in the
    snapshots up to this one; if it was published after that, the committer returns that snapshot. With `only_run`
    it raises CommitConflictError if the user published another identifier after that.

    `sole`: no other process has the messages and they are not committed again, so that after a failure their files
    are deleted if they are surely not published.

    `upkeep`: expiry and tags that the options of the table ask for follow each commit, in the thread of the caller.
    """

    store: TableStore
    _: KW_ONLY
    commit_user: str | None = None
    clock: Callable[[], int] = _now_millis
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random
    new_uuid: Callable[[], str] = _new_uuid
    publisher: Publisher | None = None
    once_since: SeenSnapshot | None = None
    only_run: bool = False
    sole: bool = False
    keeps_files: bool = False  # a caller that is alone with the messages deletes their files itself
    upkeep: bool = True
    early_look: CommitPrefetch | None = None  # for the newest snapshot, while the files were written
    reroutes: bool = False  # after a conflict over buckets the caller reads the files again, and deletes them itself
    before: StageTimer = field(
        default_factory=StageTimer, repr=False
    )  # what was done before the commit, such as writing files
    spent: StageTimer = field(default_factory=StageTimer, repr=False)  # by the commits of the last call
    attempts: int = 0  # of the commits of the last call
    _begun: set[MessageFile] = field(default_factory=set, repr=False)  # perhaps published, so never deleted

    @_removing_useless_files
    def commit(
        self,
        messages: Sequence[CommitMessage],
        identifier: int = MAX_LONG,
        *,
        properties: Mapping[str, str] | None = None,
        operation: str | None = None,
        watermark: int | None = None,
        ignore_empty: bool = True,
    ) -> Snapshot | None:
        """Publish what the writers did, and return the last snapshot that this made; None if there was nothing to do.

        An empty commit makes a snapshot only with `ignore_empty=False`.
        """
        self._check(messages)
        append = append_change(messages, self.store.options.bucket)
        compact = compact_change(messages, self.store.options.bucket)
        details = SnapshotDetails(properties or {}, operation, watermark)
        appended = None
        if not append.is_empty or (compact.is_empty and not ignore_empty):
            intent = self._intent(messages, identifier, append, kind=append.kind, details=details)
            intent = replace(
                intent,
                check_live=self._may_clash(append),
                guards=guards_of(messages),
                hash_bases=hash_bases_of(messages),
                numbering=self._numbering(messages, append),
            )
            appended = self._publish(intent, files_of_messages(self.store, messages))
        return self._compact(messages, identifier, compact, appended)

    @_removing_useless_files
    def overwrite(
        self,
        messages: Sequence[CommitMessage],
        identifier: int = MAX_LONG,
        *,
        static_partition: PartitionSpec | None = None,
        dynamic: bool | None = None,
        if_unchanged_since: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Replace the rows of partitions by what the writers added, in one snapshot.

        With `dynamic` (the table's `dynamic-partition-overwrite` unless given) these are the partitions that have new
        files; without new files nothing happens. Otherwise these are all partitions that agree with
        `static_partition`, the whole table without it, even if there are no new files. With `if_unchanged_since` the
        call raises CommitConflictError if one of them changed after that snapshot.
        """
        self._check(messages)
        appended = append_change(messages, self.store.options.bucket)
        new = Change(
            tuple(e for e in appended.entries if e.kind == ADD), (), tuple(e for e in appended.index if e.kind == ADD)
        )
        replaced = self._replaced_partitions(new, static_partition, dynamic=dynamic)
        new = self._raise_level(new)
        snapshot = None
        if replaced is not None:
            intent = self._intent(
                messages,
                identifier,
                new,
                kind=CommitKind.OVERWRITE,
                details=SnapshotDetails(properties or {}),
                replaced=replaced,
            )
            intent = replace(intent, unchanged_since=if_unchanged_since, guards=guards_of(messages))
            snapshot = self._publish(intent, files_of_messages(self.store, messages))
        compact = compact_change(messages, self.store.options.bucket)
        return self._compact(messages, identifier, compact, snapshot)

    def truncate(self, specs: Sequence[PartitionSpec] | None = None, identifier: int = MAX_LONG) -> Snapshot:
        """Remove all rows, or those of the partitions that agree with one of the specs."""
        self._check(())
        replaced = select_partitions(self.store, specs)
        if specs is not None and not all(specs):
            raise InvalidInputError(
                f"{self.store.name}: an empty partition spec is the whole table; truncate the table if you mean that",
                table=self.store.name,
            )
        if not replaced.specs:
            raise InvalidInputError(
                f"{self.store.name}: name at least one partition to truncate", table=self.store.name
            )
        return self._publish(self._removal(replaced, identifier), ())

    def drop_partitions(self, partitions: Iterable[bytes], *, if_unchanged_since: int | None = None) -> Snapshot:
        """Remove all rows of partitions, given by their rows of bytes.

        With `if_unchanged_since` the call raises CommitConflictError if one of them changed after that snapshot.
        """
        self._check(())
        intent = self._removal(PartitionSelection(partitions=frozenset(partitions)), MAX_LONG)
        return self._publish(replace(intent, unchanged_since=if_unchanged_since), ())

    def name_statistics(self, file: MessageFile, *, of: Snapshot, schema_id: int) -> Snapshot:
        """Publish a snapshot that names a statistics file, which it deletes if it surely does not, and has all else.

        It raises CommitConflictError if the columns changed since, or the snapshot that was analyzed was rolled back.
        """
        self._check(())
        details = SnapshotDetails(statistics=NewStatistics(file.name, of, schema_id))
        intent = self._intent((), MAX_LONG, Change(), kind=CommitKind.ANALYZE, details=details)
        try:
            return self._publish(intent, (file,))
        except NOT_PUBLISHED:
            with suppress(OSError):
                delete_files_of(self.store, (file,))
            raise

    def compact_manifests(self) -> Snapshot:
        """Publish a COMPACT snapshot of the same files, whose manifests are merged as the options say."""
        self._check(())
        intent = self._intent((), MAX_LONG, Change(), kind=CommitKind.COMPACT, details=SnapshotDetails())
        return self._publish(intent, ())

    def filter_committed(self, identifiers: Iterable[int]) -> list[int]:
        """Return, in order, the identifiers that this user has not committed yet."""
        if self.commit_user is None:
            raise InvalidInputError(
                f"{self.store.name}: only a stable commit user can be asked what it committed", table=self.store.name
            )
        newest = self.store.snapshots.of_user(self.commit_user)
        done = None if newest is None else newest.commit_identifier
        return sorted(i for i in set(identifiers) if done is None or i > done)

    def abort(self, messages: Sequence[CommitMessage], identifier: int = MAX_LONG) -> None:
        """Delete the files of messages that were not committed and will not be.

        Nothing is deleted if any process began to commit the messages and is not known to have failed. `identifier` is
        the number under which a stream would have committed them.
        """
        check_table(messages, self._target(messages))
        files = files_of_messages(self.store, messages)
        if not self._begun.intersection(files) and not self._may_be_published(messages, files, identifier):
            delete_files_of(self.store, files)
            prune_dropped_table(self.store)

    def _may_be_published(
        self, messages: Sequence[CommitMessage], files: Sequence[MessageFile], identifier: int
    ) -> bool:
        """Return whether any process began to commit the messages and is not known to have failed."""
        buckets = self.store.options.bucket
        changes = (append_change(messages, buckets), compact_change(messages, buckets))
        numbers = {identifier, MAX_LONG}
        marks = (
            (c, marker_of(messages, number, c, kind)) for c in changes for kind in CommitKind for number in numbers
        )
        if any(is_marked(self.store, change, marker) for change, marker in marks):
            return True
        # The marker of a stream's commit depends on its identifier, which the caller may not have given, and an old
        # marker may have been deleted since.
        partitions = frozenset(message.partition_bytes for message in messages)
        return is_published(self.store, frozenset(file.name for file in files), partitions, first_seen(messages))

    def _check(self, messages: Sequence[CommitMessage]) -> None:
        with with_table_name(self.store.name):
            check_supported_for_write(self.store.schema)
        schema, on_server = self.store.schema, self.store.home.history is not None
        unkept = unkept_options(schema, self.store.layout.root, on_server=on_server)
        for doubt in (*doubtful_keys(schema), *unkept):
            warnings.warn(f"table {self.store.name}: {doubt}", LakewrightWarning, stacklevel=2)
        check_messages(messages, self._target(messages))

    def _target(self, messages: Sequence[CommitMessage]) -> TargetFacts:
        options, schema = self.store.options, self.store.schema
        schema_ids = frozenset({schema.id})
        with self._nothing_published():
            identity = self.store.identity
            if not schema_ids_of(messages) <= schema_ids:
                schema_ids = frozenset(self.store.schemas.ids())
        return TargetFacts(
            table=self.store.name,
            identity=identity,
            schema_ids=schema_ids,
            buckets=options.bucket,
            has_primary_key=bool(schema.primary_keys),
            row_tracking=options.row_tracking_enabled,
            crosses_partitions=crosses_partitions(self.store),
        )

    def _intent(
        self,
        messages: Sequence[CommitMessage],
        identifier: int,
        change: Change,
        *,
        kind: CommitKind,
        details: SnapshotDetails,
        replaced: PartitionSelection | None = None,
    ) -> CommitRequest:
        user = self.commit_user or self._batch_user(messages)
        return CommitRequest(
            user=user,
            identifier=identifier,
            kind=kind,
            change=change,
            marker=marker_of(messages, identifier, change, kind),
            seen=first_seen(messages),
            once_since=self.once_since,
            only_run=self.only_run,
            replaced=replaced,
            details=replace(details, properties={**self.store.snapshot_properties, **details.properties}),
        )

    def _batch_user(self, messages: Sequence[CommitMessage]) -> str:
        prefix = self.store.options.commit_user_prefix
        user = batch_user(messages) or self.new_uuid()
        return f"{prefix}_{user}" if prefix else user

    def _may_clash(self, append: Change) -> bool:
        """Return whether an append must be compared with live files: bucket counts, keys of deeper levels, columns."""
        buckets = self.store.options.bucket
        if self.store.options.data_evolution_enabled:
            return any(e.file.first_row_id is not None for e in append.entries)
        if self.store.schema.primary_keys and any(e.file.level > 0 for e in append.entries):
            return True
        if buckets == POSTPONE:  # every partition has a number of buckets of its own
            return any(e.total_buckets > 0 for e in append.entries)
        if buckets < 1:
            return False
        with self._nothing_published():
            schemas = self.store.schemas.all() if self.early_look is None else self.early_look.schemas()
            return any(schema.table_options.bucket != buckets for schema in schemas)

    def _numbering(self, messages: Sequence[CommitMessage], change: Change) -> Numbering | None:
        """Return what keeps new rows in the order of the commits; None without keys, or where snapshot ids do that."""
        schema, options = self.store.schema, self.store.options
        if not schema.primary_keys or options.sequence_snapshot_ordering:
            return None
        bases = {m.base_snapshot for m in messages if not m.is_empty}
        vectors = (place.data_file for e in change.index for place in e.file.deletion_ranges or ())
        compacted = (file.file_name for m in messages for file in m.compact_before)
        return Numbering(bases.pop() if len(bases) == 1 else None, frozenset((*vectors, *compacted)))

    @contextmanager
    def _nothing_published(self) -> Iterator[None]:
        """Turn a failure of the storage into an error that says: nothing was published."""
        try:
            yield
        except OSError as error:
            raise CommitContentionError(
                f"{self.store.name}: storage failed before anything was published: {error}; "
                f"{'run it again' if self.sole else 'commit the same messages again'}",
                table=self.store.name,
            ) from error

    def _replaced_partitions(
        self, new: Change, spec: PartitionSpec | None, *, dynamic: bool | None
    ) -> PartitionSelection | None:
        """Return the partitions that an overwrite replaces; None if there are none."""
        if dynamic is None:
            dynamic = self.store.options.dynamic_partition_overwrite
        dynamic = dynamic and bool(self.store.schema.partition_keys)
        by_spec = select_partitions(self.store, [spec] if spec else None)
        outside = files_outside(new, partition_selector(self.store, by_spec))
        if outside:
            place = self.store.partition_name(outside[0].partition)
            raise InvalidInputError(
                f"{self.store.name}: {outside[0].file.file_name} lies in partition {place}, which the overwrite of "
                f"{dict(spec or {})!r} does not replace; write only rows of the partitions to replace",
                table=self.store.name,
                partition=place,
            )
        if not dynamic:
            return by_spec
        if spec and not (new.entries and len(spec) == len(self.store.schema.partition_keys)):
            warnings.warn(
                f"{self.store.name}: 'dynamic-partition-overwrite' is on, so the overwrite of {dict(spec)!r} replaces "
                "only the partitions that the new rows are in; set it to false to replace all that the spec names",
                LakewrightWarning,
                stacklevel=4,
            )
        return partitions_of_files(new) if new.entries else None

    def _raise_level(self, new: Change) -> Change:
        """Return the new files of an overwrite on the level where they are seen at once."""
        schema, options = self.store.schema, self.store.options
        if not schema.primary_keys or not options.overwrite_upgrade:
            return new
        return replace(new, entries=upgrade_files(new.entries, options.level_count - 1, key_range_of(self.store)))

    def _compact(
        self, messages: Sequence[CommitMessage], identifier: int, compact: Change, before: Snapshot | None
    ) -> Snapshot | None:
        """Publish the compaction part of a commit after its first part."""
        if compact.is_empty:
            return before
        intent = self._intent(messages, identifier, compact, kind=CommitKind.COMPACT, details=SnapshotDetails())
        if any(e.kind == ADD and e.file.level == 0 for e in compact.entries):  # rows that get their buckets only now
            intent = replace(intent, numbering=self._numbering(messages, compact))
        if before is None:
            intent = replace(intent, guards=guards_of(messages))
            return self._publish(intent, files_of_messages(self.store, messages))
        try:
            return self._publish_and_notify(intent, ())
        except NOT_PUBLISHED as error:
            # The new rows are published: an error that denied it would make the caller write them again.
            raise type(error)(
                f"{error} (snapshot {before.id} with the new rows is published, only the compaction is not)",
                **{**error.facts, "published_id": before.id},
            ) from error

    def _publish(self, intent: CommitRequest, files: Sequence[MessageFile]) -> Snapshot:
        known_before = self._begun.intersection(files)
        self._begun.update(files)
        try:
            snapshot = self._publish_and_notify(intent, files)
        except NOT_PUBLISHED:
            self._begun.difference_update(set(files) - known_before)
            raise
        if self.once_since is not None and self.commit_user is not None:
            with suppress(OSError):  # later runs still find the snapshot itself, until it expires
                self.store.jobs.complete(self.commit_user, snapshot, is_job=intent.identifier == MAX_LONG)
        if not UPKEEP.isdisjoint(self.store.options.values) and self.upkeep:
            from lakewright.maintenance.upkeep import upkeep_after_commit  # noqa: PLC0415 - lazy

            upkeep_after_commit(self.store, intent.identifier)
        return snapshot

    def _publish_and_notify(self, intent: CommitRequest, files: Sequence[MessageFile]) -> Snapshot:
        """Publish an intent, and tell listeners how that went."""
        run, before_ms = self._run(intent, files), self.before.take_stages()
        try:
            snapshot = run.publish()
        except BaseException as error:
            run.tell_failed(error, before_ms)
            raise
        finally:
            self.attempts += run.attempts
            self.spent.join(before_ms)
            self.spent.join(run.stages.millis)
        run.tell_published(snapshot, before_ms)
        return snapshot

    def _removal(self, replaced: PartitionSelection, identifier: int) -> CommitRequest:
        details = SnapshotDetails(operation="TRUNCATE")
        return self._intent((), identifier, Change(), kind=CommitKind.OVERWRITE, details=details, replaced=replaced)

    def _run(self, intent: CommitRequest, files: Sequence[MessageFile]) -> CommitRun:
        publisher = self.publisher or publisher_of(self.store)
        environment = CommitEnvironment(self.clock, self.sleep, self.random, self.new_uuid)
        run = CommitRun(self.store, intent, files, publisher, environment, sole=self.sole)
        run.early_look = self.early_look
        return run
