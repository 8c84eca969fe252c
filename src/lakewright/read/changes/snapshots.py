"""Which snapshots a read of changes covers: the `incremental-between` options in, a range of snapshots and a mode out.

A range (a, b] leaves a out. Its ends are ids, tags or times. Always holds: where a snapshot of a range has expired, the
read is an error that names what is left; nothing of a range is left out silently.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum

from lakewright.errors import InvalidInputError, NotFoundError
from lakewright.metadata.store import TableStore
from lakewright.read.scan import local_millis
from lakewright.spec.options import TRAVEL, ChangelogProducer, CoreOptions
from lakewright.spec.snapshot import Snapshot

READERS_MAX = 8  # snapshots that are read at the same time
SCAN_MODE = CoreOptions.INCREMENTAL_BETWEEN_SCAN_MODE.key()
_BETWEEN = CoreOptions.INCREMENTAL_BETWEEN.key()
_BETWEEN_TIMES = CoreOptions.INCREMENTAL_BETWEEN_TIMESTAMP.key()


class ChangeMode(StrEnum):
    """What counts as a change."""

    DELTA = "delta"  # rows that were written
    CHANGELOG = "changelog"  # rows of the changelog that a producer wrote
    DIFF = "diff"  # rows that differ between the two states


@dataclass(frozen=True, slots=True)
class Between:
    """A range of snapshots without its first; the states at both ends are known where they are compared."""

    mode: ChangeMode
    snapshots: tuple[Snapshot, ...] = ()  # those of the range, oldest first; unless the mode is `diff`
    before: Snapshot | None = None  # None: nothing was written yet
    after: Snapshot | None = None


def asks_for_changes(options: CoreOptions) -> bool:
    """Say whether options ask for what changed between snapshots."""
    return _BETWEEN in options.values or _BETWEEN_TIMES in options.values


def resolve_between(store: TableStore) -> Between:
    """Find the snapshots that the options name."""
    options = store.options
    given = [key for key in (_BETWEEN, _BETWEEN_TIMES, *TRAVEL) if key in options.values]
    if len(given) > 1:
        raise InvalidInputError(f"{store.name}: give one of {' and '.join(map(repr, given))}", table=store.name)
    if _BETWEEN_TIMES in options.values:
        return _between_times(store, str(options.get(CoreOptions.INCREMENTAL_BETWEEN_TIMESTAMP)))
    names = _two(store, _BETWEEN, str(options.get(CoreOptions.INCREMENTAL_BETWEEN)))
    ends = [_end(store, name) for name in names]
    tagged = all(isinstance(end, Snapshot) for end in ends)
    mode = _mode(store, ChangeMode.DIFF if tagged else None)
    start, end = (one.id if isinstance(one, Snapshot) else one for one in ends)
    if start > end:
        raise InvalidInputError(
            f"{store.name}: {_BETWEEN!r} runs from the older to the newer, not from snapshot {start} to {end}",
            table=store.name,
            option=_BETWEEN,
        )
    if mode is not ChangeMode.DIFF:
        return Between(mode, _range(store, start, end, mode))
    return Between(mode, before=_state(store, ends[0]), after=_state(store, ends[1]))


def _mode(store: TableStore, default: ChangeMode | None) -> ChangeMode:
    text = store.options.get(CoreOptions.INCREMENTAL_BETWEEN_SCAN_MODE)
    if text == "auto":
        return default or event_mode(store)
    try:
        return ChangeMode(text)
    except ValueError:
        raise InvalidInputError(
            f"{store.name}: {SCAN_MODE!r} is auto, delta, changelog or diff, not {text!r}",
            table=store.name,
            option=SCAN_MODE,
        ) from None


def event_mode(store: TableStore) -> ChangeMode:
    """Return how changes are read by default: from the changelog where one is produced, else as they were written."""
    produced = store.options.get(CoreOptions.CHANGELOG_PRODUCER) is not ChangelogProducer.NONE
    return ChangeMode.CHANGELOG if produced and store.schema.primary_keys else ChangeMode.DELTA


def _two(store: TableStore, option: str, text: str) -> tuple[str, str]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(parts):  # noqa: PLR2004 - from and to
        raise InvalidInputError(
            f"{store.name}: {option} requires start(exclusive),end(inclusive), such as '3,7', got: {text}",
            table=store.name,
            option=option,
        )
    return parts[0], parts[1]


def _end(store: TableStore, name: str) -> int | Snapshot:
    """Return the id that an end of a range names, or the snapshot where it is a tag."""
    if store.tags.exists(name):
        return store.tags.get(name).snapshot
    if name.isdecimal():
        return int(name)
    tags = ", ".join(store.tags.list()) or "none"
    raise NotFoundError(
        f"{store.name}: {name!r} is neither a snapshot id nor a tag (there are {tags})", table=store.name, tag=name
    )


def _range(store: TableStore, start: int, end: int, mode: ChangeMode) -> tuple[Snapshot, ...]:
    newest = store.snapshots.latest_id() or 0
    if end > newest:
        raise NotFoundError(
            f"{store.name}: there is no snapshot {end} yet; the newest is {newest or 'none'}",
            table=store.name,
            snapshot_id=end,
        )
    return _snapshots(store, range(start + 1, end + 1), mode)


def _snapshots(store: TableStore, ids: Iterable[int], mode: ChangeMode) -> tuple[Snapshot, ...]:
    with ThreadPoolExecutor(READERS_MAX) as pool:
        snapshots = pool.map(lambda number: find_snapshot(store, number, mode) or store.snapshots.get(number), ids)
        return tuple(snapshots)


def find_snapshot(store: TableStore, snapshot_id: int, mode: ChangeMode) -> Snapshot | None:
    """Return a snapshot whose changes can be read, also an expired one with a changelog; None: not committed yet.

    One that expired is an error that names the oldest that is left.
    """
    snapshot = store.snapshots.find(snapshot_id)
    if snapshot is None and mode is ChangeMode.CHANGELOG:
        snapshot = store.changelogs.find(snapshot_id)
    newest = 0 if snapshot else store.snapshots.latest_id() or 0
    if snapshot is not None or snapshot_id > newest:
        return snapshot
    snapshot = store.snapshots.find(snapshot_id)  # it may have been committed meanwhile
    if snapshot is not None:
        return snapshot
    earliest = next((number for number in changed_ids(store, mode) if number > snapshot_id), newest)
    raise NotFoundError(
        f"{store.name}: snapshot {snapshot_id} has expired, and its changes with it; the earliest that is left is "
        f"{earliest}. Begin at {earliest - 1} or later, or read the whole table anew; a consumer id, a tag or a longer "
        "'snapshot.time-retained' keeps snapshots for readers",
        table=store.name,
        snapshot_id=snapshot_id,
        earliest_snapshot_id=earliest,
    )


def changed_ids(store: TableStore, mode: ChangeMode) -> list[int]:
    """Return the ids of the snapshots whose changes can be read, in order."""
    kept = store.changelogs.ids() if mode is ChangeMode.CHANGELOG else ()
    return sorted({*store.snapshots.ids(), *kept})


def _state(store: TableStore, end: int | Snapshot) -> Snapshot | None:
    """Return the snapshot to compare; None stands for a table before its first snapshot."""
    if isinstance(end, Snapshot):
        return end
    return None if end == 0 else store.snapshots.get(end)


def _between_times(store: TableStore, text: str) -> Between:
    start, end = (_millis(part) for part in _two(store, _BETWEEN_TIMES, text))
    if start > end:
        raise InvalidInputError(
            f"{store.name}: {_BETWEEN_TIMES!r} runs from the older to the newer: Ending timestamp {end} should be >= "
            f"starting timestamp {start}",
            table=store.name,
            option=_BETWEEN_TIMES,
        )
    mode = _mode(store, None)
    low, high = first_id_since(store, start + 1, mode), first_id_since(store, end + 1, mode, whole=False)
    inside = _snapshots(store, range(low, high), mode)
    if not inside:
        return Between(mode)
    first = inside[0]
    if mode is not ChangeMode.DIFF:
        return Between(mode, inside)
    return Between(mode, before=None if first.id == 1 else store.snapshots.get(first.id - 1), after=inside[-1])


def first_id_since(store: TableStore, millis: int, mode: ChangeMode, *, whole: bool = True) -> int:
    """Return the first snapshot of a moment or later, or the id that the next one will have.

    Expired snapshots may be of that moment too: with `whole` that is an error.
    """
    ids = changed_ids(store, mode)

    def is_late(number: int) -> bool:
        snapshot = find_snapshot(store, number, mode)
        return snapshot is not None and snapshot.time_millis >= millis

    place = bisect_left(ids, True, key=is_late)  # noqa: FBT003
    if place == len(ids):
        return ids[-1] + 1 if ids else 1
    if whole and place == 0 and ids[0] > 1:
        earliest = _snapshots(store, ids[:1], mode)[0].time_millis
        raise NotFoundError(
            f"{store.name}: snapshots before {ids[0]}, of {earliest} ms, have expired, so not all changes since "
            f"{millis} ms are left; begin after {earliest} ms, or read the whole table anew",
            table=store.name,
            earliest_snapshot_id=ids[0],
            earliest_millis=earliest,
        )
    return ids[place]


def _millis(text: str) -> int:
    return int(text) if text.lstrip("-").isdecimal() else local_millis(text, _BETWEEN_TIMES)
