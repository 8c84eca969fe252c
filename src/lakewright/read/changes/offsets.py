"""How far a stream of a table has read: offsets in and out, and the splits between two of them.

A stream reads steps: perhaps the whole state at one snapshot, then the changes of every snapshot after it. An offset
names the step that comes next and how many of its splits are done already. All that it needs is in the table, so the
same two offsets give the same rows, in this process or after a restart.

Always holds: a batch has at least one split where there is any, whatever the limits; a step that has expired, or whose
plan is not what it was, is an error and never a batch with fewer rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from lakewright.errors import InvalidInputError, NotFoundError
from lakewright.metadata.store import TableStore
from lakewright.read.changes.stream import StreamScan
from lakewright.read.splits.split import DataSplit
from lakewright.spec.predicate.predicate import TRUE, Predicate

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
        """Return the step that an offset lies in, or the next step that has splits; None: there is none yet."""
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
