"""Following a table: stream scan, offsets, limits.

builder = table.new_stream_read_builder().with_include_row_kind().with_consumer_id("billing")
    read = builder.new_read()
    for plan in builder.new_streaming_scan().stream_sync():
        process(read.to_arrow(plan.splits()))

All that a stream remembers is the next snapshot to look at: `checkpoint` gives that number, `restore` sets it. A plan
counts as processed once the caller asks for the next one; only then is a consumer's position moved on, so that after a
crash a plan comes again and is never lost. Nothing is skipped silently: where the next snapshot has expired the stream
ends with an error.

A stream reads steps: perhaps the whole state at one snapshot, then the changes of every snapshot after it. An offset
names the step that comes next and how many of its splits are done already. All that it needs is in the table, so the
same two offsets give the same rows, in this process or after a restart.

Invariant: a batch has at least one split where there is any, whatever the limits; a step that has expired, or whose
plan is not what it was, is an error and never a batch with fewer rows.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, replace
from typing import ClassVar, Self, TypeAlias

from lakewright.errors import InvalidInputError, NotFoundError, UnsupportedError, with_table_name
from lakewright.lsm.sorted_runs import max_level
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.read.incremental import IncrementalPlan, KeepBucket, has_events, plan_difference, plan_events
from lakewright.read.manifest_scan import check_readable, scan
from lakewright.read.read_builder import ReadBuilder
from lakewright.read.split_planning import deletions_of, plan_splits
from lakewright.read.table_read import TableRead
from lakewright.read.table_scan import Plan
from lakewright.read.time_travel import (
    CREATION_MODES,
    created_since,
    event_mode,
    find_snapshot,
    first_id_since,
    first_since_creation,
    is_incremental,
    local_millis,
    resolve_snapshot,
)
from lakewright.spec import argument_checks
from lakewright.spec.filters import Filter
from lakewright.spec.manifest import ManifestEntry
from lakewright.spec.option_values import ChangelogProducer
from lakewright.spec.predicate import TRUE, Predicate, PredicateBuilder
from lakewright.spec.snapshot import CommitKind, Snapshot
from lakewright.spec.table_options import TableOptions
from lakewright.spec.types import DataField

# ---- Following a table -----------------------------------------------------------------------------------------------

Sleep: TypeAlias = Callable[[float], None]

POLL_INTERVAL_MS = 1000
_FULL_MODES = frozenset({"latest-full", "full", "from-snapshot-full", "compacted-full", *CREATION_MODES})
_CHANGE_MODES = frozenset({"latest", "from-snapshot", "from-timestamp"})


class StreamScan:
    """Plans a table as it grows. `plan` does one step; `stream` and `stream_sync` never end."""

    def __init__(
        self,
        store: TableStore,
        predicate: Predicate = TRUE,
        *,
        keep_bucket: KeepBucket | None = None,
        consumer_id: str | None = None,
        poll_interval_ms: int = POLL_INTERVAL_MS,
    ) -> None:
        self._store = store
        self._predicate = predicate
        self._keep_bucket = keep_bucket
        self._consumer_id = consumer_id
        self._poll_seconds = poll_interval_ms / 1000
        self._next: int | None = None  # None: nothing was planned yet
        self._recorded: int | None = None
        self._mode = event_mode(store)
        check_readable(store)
        _start_mode(store)
        self._resume()

    # One step.

    def plan(self) -> Plan | None:
        """Return the next plan, None where the table has nothing new yet."""
        if self._next is None:
            first = self._first()
            if first is not None or self._next is None:
                return first
        return self._follow_up()

    @property
    def next_snapshot_id(self) -> int | None:
        """The next snapshot to look at, as `checkpoint` gives it; to set it is to `restore` it."""
        return self._next

    @next_snapshot_id.setter
    def next_snapshot_id(self, next_snapshot: int | None) -> None:
        self.restore(next_snapshot)

    def checkpoint(self) -> int | None:
        """Return the next snapshot to look at, after all that was planned; None before the first plan."""
        return self._next

    def restore(self, next_snapshot: int | None) -> None:
        """Go on at a snapshot that `checkpoint` gave; None begins again."""
        with with_table_name(self._store.name):
            self._next = None if next_snapshot is None else argument_checks.check_int("next_snapshot", next_snapshot, 1)

    def notify_checkpoint_complete(self, next_snapshot: int | None) -> None:
        """Record that everything before a snapshot was processed; without a consumer id nothing is recorded."""
        if next_snapshot is not None:
            argument_checks.check_int("next_snapshot", next_snapshot, 1)
        if self._consumer_id is None or next_snapshot is None or next_snapshot == self._recorded:
            return
        self._store.check_same_table()
        self._store.consumers.record(self._consumer_id, next_snapshot)
        self._recorded = next_snapshot

    # The same steps, for callers that keep their position themselves.

    def begin(self) -> tuple[int, bool] | None:
        """Return the snapshot a stream begins at, and whether it reads its whole state or what it changed.

        None: the state of the newest snapshot is to be read, but the table was never written.
        """
        if self._next is not None:
            return self._next, False
        mode = _start_mode(self._store)
        first = first_since_creation(self._store) if mode == "from-creation-timestamp" else None
        if first is not None:
            return first.id, False
        if mode not in _FULL_MODES:
            return _first_changes(self._store, mode), False
        snapshot = resolve_snapshot(self._store)
        return None if snapshot is None else (snapshot.id, True)

    def plan_state(self, snapshot_id: int) -> Plan:
        """Plan the whole state at a snapshot, as a stream that begins there reads it."""
        snapshot_id = argument_checks.check_int("snapshot_id", snapshot_id)
        snapshot = self._store.snapshots.find(snapshot_id)
        if snapshot is None:  # a tag may keep it, and the options may name that tag
            picked = resolve_snapshot(self._store)
            snapshot = picked if picked is not None and picked.id == snapshot_id else None
        return self._full(snapshot or self._store.snapshots.get(snapshot_id))

    # The endless forms.

    def stream_sync(self, sleep: Sleep = time.sleep) -> Iterator[Plan]:
        """Yield plan after plan, waiting where the table has nothing new; the caller leaves when it has enough."""
        while True:
            plan = self.plan()
            if plan is not None:
                yield plan
            # The caller asks for the next plan, or there was none to process: all plans so far are processed.
            self.notify_checkpoint_complete(self._next)
            if plan is None:
                sleep(self._poll_seconds)

    async def stream(self, sleep: Callable[[float], Awaitable[object]] | None = None) -> AsyncIterator[Plan]:
        """Yield plan after plan like `stream_sync`, planning in a thread so that the event loop stays free."""
        import asyncio  # noqa: PLC0415 - lazy, for event loops: large, and few programs have one

        sleep = sleep or asyncio.sleep
        while True:
            plan = await asyncio.to_thread(self.plan)
            if plan is not None:
                yield plan
            await asyncio.to_thread(self.notify_checkpoint_complete, self._next)
            if plan is None:
                await sleep(self._poll_seconds)

    # Where to begin.

    def _resume(self) -> None:
        """Go on at the recorded position of the consumer, unless it has none or the options ignore it."""
        if self._consumer_id is None:
            return
        recorded = self._store.consumers.next_snapshot(self._consumer_id)
        if recorded is not None and not self._store.options.consumer_ignore_progress:
            self._next = self._recorded = recorded

    def _first(self) -> Plan | None:
        """Plan the state to begin with where the mode asks for one, and find the snapshot to go on at."""
        start = self.begin()
        if start is None:
            return None
        snapshot_id, full = start
        if not full:
            self._next = snapshot_id
            return None
        self._next = snapshot_id + 1
        return self.plan_state(snapshot_id)

    def _full(self, snapshot: Snapshot) -> Plan:
        """Plan the state of a snapshot, without rows whose changes come later in a changelog.

        A batch read may leave out level 0 until it is compacted, but no later snapshot gives a stream these rows.
        """
        fresh = {TableOptions.lakewright_read_level_0.key(): "true"}
        store = self._store.with_schema(self._store.schema.with_options(fresh))
        scanned = created_since(store, scan(store, snapshot, self._predicate))
        entries = [entry for entry in scanned.entries if self._keep_bucket is None or self._keep_bucket(entry.bucket)]
        index = [] if snapshot.index_manifest is None else store.manifests.read_index(snapshot.index_manifest)
        splits = plan_splits(store, snapshot.id, _announced_files(store, entries), deletions_of(store, index))
        return Plan(snapshot.id, tuple(splits), snapshot, scanned.funnel)

    # What comes after.

    def _follow_up(self) -> Plan | None:
        """Plan the next snapshot with changes; snapshots without changes are skipped."""
        while self._next is not None:
            snapshot = find_snapshot(self._store, self._next, self._mode)
            if snapshot is None:
                self._check_not_rolled_back(self._next)
                return None
            changes = self._changes(snapshot)
            self._next = snapshot.id + 1
            if changes is not None:
                return Plan(snapshot.id, changes.splits, snapshot, changes.funnel)
        return None

    def _changes(self, snapshot: Snapshot) -> IncrementalPlan | None:
        """Plan what one snapshot changed; None if a stream gives nothing for it."""
        store = self._store
        if snapshot.commit_kind == CommitKind.OVERWRITE:
            keyed = bool(store.schema.primary_keys)
            asked = store.options.streaming_read_overwrite
            if not asked and (keyed or not store.options.streaming_read_append_overwrite):
                return None
            if keyed:
                return self._overwritten(snapshot)
            # Replaced rows of an append table have no key by which they could be retracted: only new rows are given.
            snapshot = replace(snapshot, commit_kind=CommitKind.APPEND)
        if not has_events(snapshot, self._mode):
            return None
        return plan_events(store, [snapshot], self._mode, self._predicate, keep_bucket=self._keep_bucket)

    def _overwritten(self, snapshot: Snapshot) -> IncrementalPlan:
        """Plan what an overwrite changed, by comparing with the snapshot before it."""
        before = None if snapshot.id == 1 else self._store.snapshots.get(snapshot.id - 1)
        return plan_difference(self._store, before, snapshot, self._predicate, keep_bucket=self._keep_bucket)

    def _check_not_rolled_back(self, next_snapshot: int) -> None:
        newest = self._store.snapshots.latest_id() or 0
        if next_snapshot > newest + 1:
            self._store.check_same_table()
            raise NotFoundError(
                f"{self._store.name}: the stream has read up to snapshot {next_snapshot - 1}, but the newest is "
                f"{newest or 'none'}: the table was rolled back. Read the whole table anew, with a new consumer id",
                table=self._store.name,
                snapshot_id=next_snapshot,
                latest_snapshot_id=newest,
            )


def _start_mode(store: TableStore) -> str:
    """Return how a stream begins, from `scan.mode` and what the other options imply."""
    options = store.options
    if is_incremental(options):
        raise InvalidInputError(
            f"{store.name}: a stream has no end, so it does not go together with the 'incremental-between' options",
            table=store.name,
        )
    mode = options.scan_mode
    if mode == "default":
        if {TableOptions.scan_timestamp_millis.key(), TableOptions.scan_timestamp.key()} & options.values.keys():
            return "from-timestamp"
        named = {TableOptions.scan_snapshot_id.key(), TableOptions.scan_tag_name.key(), TableOptions.scan_version.key()}
        created = (mode for mode, key in CREATION_MODES.items() if key in options.values)
        return "from-snapshot" if named & options.values.keys() else next(created, "latest-full")
    if mode not in _FULL_MODES | _CHANGE_MODES:
        raise UnsupportedError(
            f"{store.name}: a stream knows no 'scan.mode' {mode!r}; use one of "
            f"{', '.join(sorted(_FULL_MODES | _CHANGE_MODES))}",
            table=store.name,
            option="scan.mode",
        )
    return mode


def _first_changes(store: TableStore, mode: str) -> int:
    """Return the first snapshot whose changes are read where no state is read before them."""
    newest = store.snapshots.latest_id() or 0
    if mode == "latest":
        return newest + 1
    if mode == "from-timestamp":
        return first_id_since(store, _wanted_millis(store), event_mode(store))
    first = store.options.scan_snapshot_id
    if first is not None:
        if not 1 <= first <= newest + 1:
            raise NotFoundError(
                f"{store.name}: a stream begins at a snapshot that exists or comes next, not at {first}; the newest "
                f"is {newest or 'none'}",
                table=store.name,
                snapshot_id=first,
            )
        return first
    snapshot = resolve_snapshot(store)
    return 1 if snapshot is None else snapshot.id


def _wanted_millis(store: TableStore) -> int:
    options = store.options
    millis = options.scan_timestamp_millis
    if millis is not None:
        return millis
    key = TableOptions.scan_timestamp.key()
    text = options.scan_timestamp
    if text is None:
        raise InvalidInputError(
            f"{store.name}: 'scan.mode' 'from-timestamp' needs 'scan.timestamp-millis' or {key!r}",
            table=store.name,
            option="scan.mode",
        )
    return local_millis(text, key)


def _announced_files(store: TableStore, entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """Return the files whose rows are in the changelog already; rows of the others come with a later compaction."""
    match store.options.changelog_producer if store.schema.primary_keys else None:
        case ChangelogProducer.LOOKUP:
            return [entry for entry in entries if entry.file.level > 0]
        case ChangelogProducer.FULL_COMPACTION:
            deepest = max_level(store.options, (entry.file for entry in entries))
            return [entry for entry in entries if entry.file.level == deepest]
        case _:
            return list(entries)


class StreamReadBuilder:
    """Says what of a table to follow: a filter, some columns, some buckets, and under which name."""

    _builder_class: ClassVar[type[ReadBuilder]] = ReadBuilder
    _scan_class: ClassVar[type[StreamScan]] = StreamScan

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self._rows = self._builder_class(store)
        self._keep_bucket: KeepBucket | None = None
        self._consumer_id = store.options.consumer_id
        self._poll_interval_ms = POLL_INTERVAL_MS

    def with_filter(self, predicate: Filter | None) -> Self:
        """Keep changes whose row fulfils a predicate, or a filter text; calls add up."""
        self._rows.with_filter(predicate)
        return self

    def with_projection(self, projection: str | Sequence[str] | Mapping[str, str] | None) -> Self:
        """Read some columns, in this order."""
        self._rows.with_projection(projection)
        return self

    def with_read_type(self, read_type: Sequence[DataField]) -> Self:
        """Read the columns of these fields."""
        self._rows.with_read_type(read_type)
        return self

    def with_include_row_kind(self, include: bool = True) -> Self:  # noqa: FBT001, FBT002 - pypaimon's signature
        """Begin the result with `_row_kind`: `+I`, `-U`, `+U` or `-D`. Only with it -U and -D are read."""
        self._rows.with_include_row_kind(include)
        return self

    def with_poll_interval_ms(self, poll_interval_ms: int) -> Self:
        """Set how long to wait before looking for a new snapshot again."""
        self._poll_interval_ms = argument_checks.check_non_negative("poll_interval_ms", poll_interval_ms)
        return self

    def with_consumer_id(self, consumer_id: str) -> Self:
        """Go on where the consumer of this id stopped, and record its progress; snapshots it needs are kept."""
        with with_table_name(self._store.name):
            self._store.layout.consumer_file(consumer_id)  # an id that cannot be a file is refused here
        self._consumer_id = consumer_id
        return self

    def with_buckets(self, bucket_ids: Collection[int]) -> Self:
        """Read some buckets only, so that several readers can share a table."""
        given = list(bucket_ids) if isinstance(bucket_ids, AbstractSet) else bucket_ids
        buckets = argument_checks.items("bucket_ids", given, "a list of buckets")
        return self.with_bucket_filter(
            frozenset(argument_checks.check_int("bucket_ids", one) for one in buckets).__contains__
        )

    def with_bucket_filter(self, bucket_filter: Callable[[int], bool] | None) -> Self:
        """Read only the buckets for which a function says True."""
        if bucket_filter is not None:
            argument_checks.check_callable("bucket_filter", bucket_filter)
        self._keep_bucket = bucket_filter
        return self

    def new_predicate_builder(self) -> PredicateBuilder:
        """Return a builder of predicates on the table's columns."""
        return self._rows.new_predicate_builder()

    def read_type(self) -> list[DataField]:
        """Return the columns of the result."""
        return self._rows.read_type()

    def new_streaming_scan(self) -> StreamScan:
        """Return what plans the table as it grows."""
        return self._scan_class(
            self._store,
            self._rows.predicate,
            keep_bucket=self._keep_bucket,
            consumer_id=self._consumer_id,
            poll_interval_ms=self._poll_interval_ms,
        )

    def new_read(self) -> TableRead:
        """Return what reads the splits of the plans."""
        return self._rows.new_read()


# ---- Offsets ---------------------------------------------------------------------------------------------------------

PASSED_MAX = 10  # so many snapshots without changes, such as compactions, are passed by an empty batch
_KNOWN_STEPS_MAX = 4096


@dataclass(frozen=True, slots=True)
class Offset:
    """How far a stream has read: all earlier steps, and the first `split` of the `splits` of the step of a snapshot."""

    snapshot: int
    full: bool = False  # the step is the whole state at the snapshot, not what the snapshot changed
    split: int = 0
    splits: int = 0  # how many the step has; 0 where none of it is done

    def to_json(self) -> dict[str, object]:
        """Return the offset as Spark keeps it; equal offsets give equal texts.

        >>> Offset.from_json(Offset(7).to_json())
        Offset(snapshot=7, full=False, split=0, splits=0)
        """
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Offset:
        """Read an offset that `to_json` made."""
        match data:
            case {"snapshot": int(snapshot), "full": bool(full), "split": int(split), "splits": int(splits)}:
                return cls(snapshot, full, split, splits)
        raise InvalidInputError(f"{dict(data)!r} is no offset of a lakewright stream: use a new checkpoint location")


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one batch may hold; None is no limit."""

    files: int | None = None
    rows: int | None = None
    bytes: int | None = None


@dataclass(slots=True)
class _Batch:
    """What a batch holds so far."""

    limits: Limits
    files: int = 0
    rows: int = 0
    bytes: int = 0

    def take(self, splits: Sequence[DataSplit]) -> int:
        """Take as many of the first splits as there is room for, and return how many."""
        for number, split in enumerate(splits):
            first = self.files == 0
            self.files, self.rows = self.files + len(split.files), self.rows + split.row_count
            self.bytes += split.file_size
            limits = self.limits
            pairs = ((self.files, limits.files), (self.rows, limits.rows), (self.bytes, limits.bytes))
            if not first and any(most is not None and held > most for held, most in pairs):
                return number
        return len(splits)


@dataclass(frozen=True, slots=True)
class Step:
    """The splits of one step of a stream."""

    snapshot: int
    full: bool
    splits: tuple[DataSplit, ...]

    def offset(self, done: int) -> Offset:
        """Return the offset of a stream after so many splits of the step are done."""
        if done == len(self.splits):
            return Offset(self.snapshot + 1)
        return Offset(self.snapshot, self.full, done, len(self.splits) if done else 0)


class Steps:
    """Finds the steps of one table's stream."""

    def __init__(self, store: TableStore, predicate: Predicate = TRUE, consumer_id: str | None = None) -> None:
        self._store = store
        self._predicate = predicate
        self._consumer_id = consumer_id
        self._scan = StreamScan(store, predicate, consumer_id=consumer_id)
        self._known: dict[tuple[int, bool], Step] = {}

    def newest(self) -> int:
        """Return the id of the newest snapshot, 0 where there is none."""
        return self._store.snapshots.latest_id() or 0

    def begin(self) -> Offset:
        """Return where the stream begins, as the `scan.` options and the consumer's progress say."""
        start = StreamScan(self._store, self._predicate, consumer_id=self._consumer_id).begin()
        # Of a table without snapshots the changes of the first snapshot will be its whole state.
        return Offset(1) if start is None else Offset(*start)

    def advance(self, start: Offset, limits: Limits, last: int | None = None) -> Offset:
        """Return where a batch ends that holds as much as the limits allow, of snapshots up to `last`."""
        at, batch = start, _Batch(limits)
        while (step := self._step(at, last)) is not None:
            left = step.splits[at.split :]
            taken = batch.take(left)
            at = step.offset(at.split + taken)
            if taken < len(left):
                return at
        if batch.files or start.full:
            return at
        passed = max(at.snapshot, self._scan.checkpoint() or 0)
        passed = passed if last is None else min(passed, last + 1)
        return start if passed - start.snapshot < PASSED_MAX else Offset(passed)

    def between(self, start: Offset, end: Offset) -> list[DataSplit]:
        """Return the splits from one offset up to another, in order."""
        splits: list[DataSplit] = []
        at, last = start, end.snapshot if end.split else end.snapshot - 1
        while (at.snapshot, at.split) < (end.snapshot, end.split):
            step = self._step(at, last)
            if step is None:
                self._check_reached(end)
                break
            is_last = step.snapshot == end.snapshot
            if is_last:
                self._check_same(step, end)
            done = end.split if is_last else len(step.splits)
            splits += step.splits[at.split : done]
            at = step.offset(done)
        return splits

    def record(self, end: Offset) -> None:
        """Drop the plans of steps that are done, and record the position of the consumer, if there is one.

        While the first state is read nothing is recorded: a stream that resumed there would miss the rest of it.
        """
        self._known = {key: step for key, step in self._known.items() if step.snapshot >= end.snapshot}
        if not end.full:
            self._scan.notify_checkpoint_complete(end.snapshot)

    def _step(self, at: Offset, last: int | None) -> Step | None:
        """Return the step that an offset is in, or the next step that has splits; None: there is none yet."""
        step = self._known.get((at.snapshot, at.full)) or self._plan(at)
        if step is None:
            return None
        if at.split:
            self._check_same(step, at)
        if len(self._known) < _KNOWN_STEPS_MAX:
            self._known[at.snapshot, at.full] = step
        return None if last is not None and step.snapshot > last else step

    def _plan(self, at: Offset) -> Step | None:
        if at.full:
            return Step(at.snapshot, full=True, splits=tuple(self._scan.plan_state(at.snapshot).splits()))
        self._scan.restore(at.snapshot)
        plan = self._scan.plan()
        if plan is None or plan.snapshot_id is None:
            return None
        return Step(plan.snapshot_id, full=False, splits=tuple(plan.splits()))

    def _check_same(self, step: Step, offset: Offset) -> None:
        """Refuse to count splits of another plan than the one that the offset was made from."""
        if (step.snapshot, step.full, len(step.splits)) != (offset.snapshot, offset.full, offset.splits):
            raise InvalidInputError(
                f"{self._store.name}: the stream stands at split {offset.split} of {offset.splits} of snapshot "
                f"{offset.snapshot}, which now has {len(step.splits)} splits: filter, columns or 'source.split.*' "
                "options have changed. Go on with what the stream began with, or use a new checkpoint location",
                table=self._store.name,
                snapshot_id=offset.snapshot,
            )

    def _check_reached(self, end: Offset) -> None:
        """Refuse to end before an offset that the stream has seen: the table must have lost snapshots."""
        newest = self.newest()
        if end.split or end.snapshot > newest + 1:
            raise NotFoundError(
                f"{self._store.name}: the stream has planned a batch up to snapshot {end.snapshot}, but the newest is "
                f"{newest or 'none'}: the table was rolled back. Read it anew with a new checkpoint location",
                table=self._store.name,
                snapshot_id=end.snapshot,
                latest_snapshot_id=newest,
            )
