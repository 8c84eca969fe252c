"""Which snapshot, or range of snapshots, a read covers: a value, resolved once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from lakewright.errors import InvalidInputError, NotFoundError, UnsupportedError
from lakewright.metadata.table_store import TableStore
from lakewright.read.manifest_scan import ScanResult
from lakewright.spec.manifest import ManifestEntry
from lakewright.spec.option_values import ChangelogProducer
from lakewright.spec.snapshot import CommitKind, Snapshot
from lakewright.spec.table_options import LATEST_MODES, TRAVEL, TableOptions

# ---- Snapshots of a read ---------------------------------------------------------------------------------------------
# A scan pins one snapshot. Manifests are pruned by the partitions they name, decoded in parallel, and their entries
# are pruned by partition, bucket and statistics. An ADD and the DELETE that cancels it share partition and bucket, so
# both are pruned or neither is.

_FILE_CREATION, _CREATION = TableOptions.scan_file_creation_time_millis, TableOptions.scan_creation_time_millis
CREATION_MODES = {"from-file-creation-time": _FILE_CREATION.key(), "from-creation-timestamp": _CREATION.key()}
_SNAPSHOT_MODES = frozenset({"from-snapshot", "from-snapshot-full"})


def resolve_snapshot(store: TableStore) -> Snapshot | None:
    """Return the snapshot that the `scan.` options name, the newest without them; None: the table was never written."""
    options = store.options
    given = [key for key in (*TRAVEL, _FILE_CREATION.key(), _CREATION.key()) if key in options.values]
    if len(given) > 1:
        raise InvalidInputError(
            f"{store.name}: Only one of the following parameters may be set: {', '.join(given)} ({' and '.join(given)} "
            "cannot both be set, as each of them names a snapshot)",
            table=store.name,
        )
    mode = options.scan_mode
    _check_mode(store.name, mode, given[0] if given else None)
    if given and given[0] in TRAVEL:
        with store.naming_replaced():
            return _travel(store)
    if given == [_CREATION.key()]:
        return first_since_creation(store) or store.snapshots.latest()
    return _last_compacted(store) if mode == "compacted-full" else store.snapshots.latest()


def has_time_travel(store: TableStore) -> bool:
    """Return whether options of the table name the snapshot to read."""
    return any(key in store.schema.options for key in TRAVEL)


def with_snapshot_schema(store: TableStore) -> TableStore | None:
    """Return a store with the schema of the snapshot that its options name; None if the table was never written."""
    snapshot = resolve_snapshot(store)
    if snapshot is None:
        return None
    stored = store.schemas.get(snapshot.schema_id)
    return store.with_schema(stored.with_options(store.schema.options))


def first_since_creation(store: TableStore) -> Snapshot | None:
    """Return the snapshot after the last one from before `scan.creation-time-millis`; None if one of the two is not."""
    millis = store.options.scan_creation_time_millis
    try:
        before = store.snapshots.at_timestamp((millis or 0) - 1)
    except NotFoundError:
        return None
    return store.snapshots.find(before.id + 1)


def created_since(store: TableStore, result: ScanResult) -> ScanResult:
    """Return only files that were made at or after the time that `scan.file-creation-time-millis` gives.

    `scan.creation-time-millis` means the same if no snapshot is known to have been the first after that time.
    """
    millis = store.options.scan_file_creation_time_millis
    if millis is None and _CREATION.key() in store.options.values and first_since_creation(store) is None:
        millis = store.options.scan_creation_time_millis
    if millis is None:
        return result
    kept = tuple(entry for entry in result.entries if _creation_millis(entry) >= millis)
    return replace(result, found=kept, funnel=replace(result.funnel, files_after_stats=len(kept)))


def _creation_millis(entry: ManifestEntry) -> int:
    """Return when a file was made, in epoch milliseconds; files record the clock of the local zone."""
    clock = datetime.fromtimestamp((entry.file.creation_time or 0) / 1000, UTC).replace(tzinfo=None)
    return round(clock.timestamp() * 1000)


def _check_mode(table: str, mode: str, given: str | None) -> None:
    expected: set[str] | None
    if mode in _SNAPSHOT_MODES:
        named = (TableOptions.scan_snapshot_id, TableOptions.scan_tag_name, TableOptions.scan_version)
        expected = {option.key() for option in named} | {TableOptions.scan_watermark.key()}
    elif mode in CREATION_MODES:
        expected = {CREATION_MODES[mode]}
    elif mode == "from-timestamp":
        expected = {TableOptions.scan_timestamp_millis.key(), TableOptions.scan_timestamp.key()}
    elif mode in LATEST_MODES or mode == "compacted-full":
        expected = None if mode == "default" else set()
    else:
        raise UnsupportedError(
            f"{table}: a batch read knows no 'scan.mode' {mode!r}; leave it out, or use latest-full, compacted-full, "
            "from-snapshot, from-timestamp, from-file-creation-time or from-creation-timestamp",
            table=table,
            option="scan.mode",
        )
    if expected is None or (given in expected if expected else given is None):
        return
    if given is None:
        wrong = f"scan.mode is {mode!r} but none of {', '.join(sorted(expected))} is set"
    else:
        wrong = f"scan.mode {mode!r} conflicts with: ['{given}']; leave one of the two out"
    raise InvalidInputError(f"{table}: {wrong}", table=table, option="scan.mode")


def _travel(store: TableStore) -> Snapshot:
    options = store.options
    if (snapshot_id := options.scan_snapshot_id) is not None:
        return store.snapshots.get(snapshot_id)
    if (tag := options.scan_tag_name) is not None:
        return store.tags.get(tag).snapshot
    if (millis := options.scan_timestamp_millis) is not None:
        return store.snapshots.at_timestamp(millis)
    if (text := options.scan_timestamp) is not None:
        return store.snapshots.at_timestamp(local_millis(text, TableOptions.scan_timestamp.key()))
    if (watermark := options.scan_watermark) is not None:
        return store.snapshots.at_watermark(watermark)
    return _version(store, str(options.scan_version))


def _version(store: TableStore, version: str) -> Snapshot:
    if store.tags.exists(version):
        return store.tags.get(version).snapshot
    watermark = version.removeprefix("watermark-")
    if watermark != version and watermark.isdecimal():
        return store.snapshots.at_watermark(int(watermark))
    if version.isdecimal():
        return store.snapshots.get(int(version))
    tags = store.tags.list()
    raise NotFoundError(
        f"{store.name}: Cannot find a time travel version for {version}: it is no tag (there are "
        f"{', '.join(tags) or 'none'}), no snapshot id and no 'watermark-<n>'",
        table=store.name,
        version=version,
    )


def local_millis(text: str, option: str) -> int:
    """Return the moment that the text of an option names, in epoch milliseconds."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidInputError(f"{option!r} must look like 2026-01-31 12:00:00, not {text!r}", option=option) from None
    return round(moment.timestamp() * 1000)  # a time without a zone is one of the local zone


def _last_compacted(store: TableStore) -> Snapshot | None:
    newest = store.snapshots.latest()
    if newest is None:
        return None
    compacted = (s for s in store.snapshots.walk_back(newest.id) if s.commit_kind == CommitKind.COMPACT)
    return next(compacted, None)


# ---- Ranges of snapshots ---------------------------------------------------------------------------------------------
# A range (a, b] leaves a out. Its ends are ids, tags or times. Invariant: where a snapshot of a range has expired,
# the read is an error that names what is left; nothing of a range is left out silently.

READERS_MAX = 8  # snapshots that are read at the same time
SCAN_MODE = TableOptions.incremental_between_scan_mode.key()
_BETWEEN = TableOptions.incremental_between.key()
_BETWEEN_TIMES = TableOptions.incremental_between_timestamp.key()


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


def is_incremental(options: TableOptions) -> bool:
    """Return whether options ask for what changed between snapshots."""
    return _BETWEEN in options.values or _BETWEEN_TIMES in options.values


def resolve_between(store: TableStore) -> Between:
    """Find the snapshots that the options name."""
    options = store.options
    given = [key for key in (_BETWEEN, _BETWEEN_TIMES, *TRAVEL) if key in options.values]
    if len(given) > 1:
        raise InvalidInputError(f"{store.name}: give one of {' and '.join(map(repr, given))}", table=store.name)
    if _BETWEEN_TIMES in options.values:
        return _between_times(store, str(options.incremental_between_timestamp))
    names = _two(store, _BETWEEN, str(options.incremental_between))
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
    text = store.options.incremental_between_scan_mode
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
    produced = store.options.changelog_producer is not ChangelogProducer.NONE
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
