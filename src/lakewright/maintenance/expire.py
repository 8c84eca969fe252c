"""Snapshot expiry: old snapshots go away, and with them the files that nothing else names.

At least `retain_min` snapshots stay, those beyond `retain_max` go, and in between a snapshot goes once its successor is
old enough. A time that the caller names (`older_than`) protects whatever is younger, also beyond `retain_max`: who says
"older than a week" does not expect to lose what was written today. The time of the table's options does not.
Tags, other branches and consumers protect what they need, and the result says which of them do.

Always holds: if anything that stays cannot be read, nothing is deleted. The snapshot files go first, oldest first, so a
reader of a snapshot that is going finds that it expired, and never a snapshot with holes; whoever is interrupted leaves
files that the removal of orphans finds. Paths are built from names, lie in the table, and are reached without a link.
Nothing expires by itself: a commit never does this, whatever the options say.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache

from lakewright.errors import CorruptTableError, InvalidInputError, NotFoundError, counted
from lakewright.maintenance.orphans import branch_layouts, check_inside, is_own
from lakewright.metadata.changelogs import Changelogs
from lakewright.metadata.consumers import Consumers
from lakewright.metadata.refs import Tags
from lakewright.metadata.snapshots import Snapshots
from lakewright.metadata.store import TableStore
from lakewright.spec.manifest import ADD, ManifestEntry, ManifestFile
from lakewright.spec.options import CoreOptions
from lakewright.spec.snapshot import CommitKind, Snapshot, to_json
from lakewright.spec.units import MAX_INT

_THREADS = 16
_FEW = 8  # below this starting threads costs more than it saves


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of the past stays: counts of snapshots, and the time before which one is old."""

    count_min: int
    count_max: int
    old_millis: int  # a snapshot is old when its successor was there before this time (epoch milliseconds)
    limit: int = MAX_INT  # how many go in one run

    @classmethod
    def of_options(
        cls,
        options: CoreOptions,
        now_millis: int,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: int | None = None,
        max_deletes: int | None = None,
    ) -> Retention:
        """Read what the table's options say, except where an argument says otherwise."""
        get = options.get
        count_min = get(CoreOptions.SNAPSHOT_NUM_RETAINED_MIN) if retain_min is None else retain_min
        count_max = get(CoreOptions.SNAPSHOT_NUM_RETAINED_MAX) if retain_max is None else retain_max
        limited = CoreOptions.SNAPSHOT_EXPIRE_LIMIT.key() in options.values
        if retain_min is None and retain_max is not None:
            count_min = min(count_min, retain_max)
        if count_min < 1 or count_max < count_min or (max_deletes is not None and max_deletes < 0):
            raise InvalidInputError(
                f"snapshots cannot expire down to at least {count_min} and at most {count_max}, {max_deletes} at once; "
                "at least one must stay, and the maximum cannot be below the minimum"
            )
        kept_millis = get(CoreOptions.SNAPSHOT_TIME_RETAINED)
        if max_deletes is None:
            max_deletes = get(CoreOptions.SNAPSHOT_EXPIRE_LIMIT) if limited else MAX_INT
        if older_than is None:
            return cls(count_min, count_max, now_millis - kept_millis, max_deletes)
        return cls(count_min, MAX_INT, older_than, max_deletes)

    def of_changelogs(self, options: CoreOptions, now_millis: int) -> Retention | None:
        """Return how much of the changelog stays where that is more than of the snapshots, else None."""
        count_min = options.get(CoreOptions.CHANGELOG_NUM_RETAINED_MIN)
        count_max = options.get(CoreOptions.CHANGELOG_NUM_RETAINED_MAX)
        kept_millis = options.get(CoreOptions.CHANGELOG_TIME_RETAINED)
        own = replace(
            self,
            count_min=self.count_min if count_min is None else count_min,
            count_max=self.count_max if count_max is None else count_max,
            old_millis=self.old_millis if kept_millis is None else now_millis - kept_millis,
        )
        longer = own.count_min > self.count_min or own.count_max > self.count_max or own.old_millis < self.old_millis
        return own if longer else None


@dataclass(frozen=True, slots=True)
class ExpireResult:
    """What an expiry removed, or would remove: ids of snapshots, and numbers of files."""

    snapshot_ids: tuple[int, ...] = ()
    data_files: int = 0
    changelog_files: int = 0
    index_files: int = 0
    metadata_files: int = 0  # manifests, manifest lists, index manifests and statistics
    dry_run: bool = False
    left: int = 0  # snapshots that are too many or old enough, and stay because of a limit or a consumer
    held_by: tuple[str, ...] = ()  # what keeps more snapshots, or their files, from going, in words

    @property
    def files(self) -> int:
        """How many files they are, besides the snapshots themselves."""
        return self.data_files + self.changelog_files + self.index_files + self.metadata_files


def expire_snapshots(
    store: TableStore, retention: Retention | None = None, *, dry_run: bool = False, now_millis: int | None = None
) -> ExpireResult:
    """Remove the snapshots that need not stay (by default as the table's options say), and the files only they name."""
    now = time.time_ns() // 1_000_000 if now_millis is None else now_millis
    retention = retention or Retention.of_options(store.options, now)
    changelogs = retention.of_changelogs(store.options, now)
    store.check_same_table()
    ids = store.snapshots.ids()
    if not ids:
        return ExpireResult(dry_run=dry_run)
    times = _times(store, ids)
    consumers = {} if _ignores_consumers(store, changelogs) else _waiting(store, now, dry_run=dry_run)
    kept_id = _first_kept(ids, retention, min(consumers.values(), default=None), times)
    place = bisect_left(ids, kept_id)
    going = _read_all(store, ids[:place])
    doomed = _Doomed(store)
    if going:
        doomed.gather(
            going,
            [store.snapshots.get(kept_id), *_read_all(store, ids[place + 1 :])],
            keep_changelogs=changelogs is not None,
        )
    if changelogs is not None:
        doomed.gather_changelogs(_old_changelogs(store, changelogs, going, ids[-1]))
    doomed.spare_new()
    doomed.check()
    left, held_by = _held_back(ids, kept_id, retention, consumers, times)
    result = replace(
        doomed.counts(),
        snapshot_ids=tuple(snapshot.id for snapshot in going),
        dry_run=dry_run,
        left=left,
        held_by=(*held_by, *doomed.sparers()),
    )
    if dry_run:
        return result
    store.check_same_table()  # the numbers of snapshots are the same in every table
    _remove_snapshots(store, going, kept_id, keep_changelogs=changelogs is not None)
    doomed.spare_new()  # somebody may have given a name to a snapshot while it was still there
    doomed.delete()
    return result


def _read_all(store: TableStore, ids: Sequence[int]) -> list[Snapshot]:
    """Return some snapshots; another expiry may have taken some of them away in the meantime."""

    def read(snapshot_id: int) -> Snapshot | None:
        try:
            return store.snapshots.get(snapshot_id)
        except NotFoundError:
            return None

    if len(ids) <= _FEW:
        found = [read(snapshot_id) for snapshot_id in ids]
    else:
        with ThreadPoolExecutor(_THREADS) as pool:
            found = list(pool.map(read, ids))
    return [snapshot for snapshot in found if snapshot is not None]


def _times(store: TableStore, ids: Sequence[int]) -> Callable[[int], int]:
    """Return what tells the time of the first snapshot from an id on."""

    @cache
    def time_of(snapshot_id: int) -> int:
        return store.snapshots.get(ids[min(bisect_left(ids, snapshot_id), len(ids) - 1)]).time_millis

    return time_of


def _first_kept(ids: Sequence[int], retention: Retention, wanted: int | None, time_of: Callable[[int], int]) -> int:
    """Return the oldest of some ids that stays."""
    earliest, latest = ids[0], ids[-1]
    first = max(latest - retention.count_max + 1, earliest)
    end = min(latest - retention.count_min + 1, earliest + retention.limit, latest if wanted is None else wanted)
    end = next((i for i in range(first, end) if retention.old_millis <= time_of(i + 1)), end)
    return ids[min(bisect_left(ids, end), len(ids) - 1)]


def _ignores_consumers(store: TableStore, changelogs: Retention | None) -> bool:
    """Say whether consumers are content with changelogs, which outlive the snapshots."""
    return changelogs is not None and store.options.get(CoreOptions.CONSUMER_CHANGELOG_ONLY)


def _waiting(store: TableStore, now: int, *, dry_run: bool) -> dict[str, int]:
    """Return the snapshot that each consumer reads next; consumers that went silent are forgotten."""
    consumers = Consumers(store.storage, store.layout)
    patience = store.options.get(CoreOptions.CONSUMER_EXPIRATION_TIME)
    if patience is not None and not dry_run:
        consumers.expire(older_than_millis=now - patience)
    return consumers.all()


def _held_back(
    ids: Sequence[int],
    kept_id: int,
    retention: Retention,
    consumers: Mapping[str, int],
    time_of: Callable[[int], int],
) -> tuple[int, list[str]]:
    """Return how many more snapshots the numbers and the age let go, and what keeps the oldest one that stays."""
    free_id = _first_kept(ids, replace(retention, limit=MAX_INT), None, time_of)
    left = bisect_left(ids, free_id) - bisect_left(ids, kept_id)
    reasons = [
        f"consumer {name!r} reads snapshot {number} next; if it is no longer used, delete it"
        for name, number in sorted(consumers.items(), key=lambda item: (item[1], item[0]))
        if number < free_id
    ]
    if left and kept_id >= ids[0] + retention.limit:
        reasons.append(f"no more than {counted(retention.limit, 'snapshot')} go at once (max_deletes): expire again")
    if free_id > ids[-1] - retention.count_min:
        reasons.append(f"the newest {counted(retention.count_min, 'snapshot')} must stay (retain_min)")
    elif len(ids) > 1:
        reasons.append(f"snapshot {free_id} is not old enough (older_than, snapshot.time-retained)")
    return left, reasons


def _old_changelogs(
    store: TableStore, retention: Retention, going: Sequence[Snapshot], latest_id: int
) -> list[Snapshot]:
    """Return the long-lived changelogs that need not stay, oldest first, of those that are there already."""
    changelogs = Changelogs(store.storage, store.layout)
    there = {i: found for i in changelogs.ids() if (found := changelogs.find(i)) is not None}
    ids = sorted(there)
    if not ids:
        return []
    wanted = Consumers(store.storage, store.layout).min_next_snapshot()
    known = {**there, **{snapshot.id: snapshot for snapshot in going}}
    order = sorted(known)

    def time_of(snapshot_id: int) -> int:
        place = bisect_left(order, snapshot_id)
        return known[order[place]].time_millis if place < len(order) else retention.old_millis

    kept = _first_kept([*ids, latest_id], retention, wanted, time_of)
    return [there[i] for i in ids if i < kept]


def _remove_snapshots(store: TableStore, going: Sequence[Snapshot], kept_id: int, *, keep_changelogs: bool) -> None:
    for snapshot in going:
        if keep_changelogs:
            store.storage.create(store.layout.changelog_file(snapshot.id), to_json(snapshot).encode())
        store.storage.delete(store.layout.snapshot_file(snapshot.id))
    if going:
        # Synced, and with it the directory: a power cut must not bring back a snapshot whose files are gone.
        store.storage.replace(store.layout.earliest_hint, b"%d" % kept_id)


@dataclass(slots=True)
class _Doomed:
    """The files that go, by path, with the name under which something that stays would name them."""

    store: TableStore
    data: dict[str, str] = field(default_factory=dict)
    changelog: dict[str, str] = field(default_factory=dict)
    index: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    _spared: set[str] = field(default_factory=set)  # names that something needs which stays
    _seen: set[tuple[str, str, int]] = field(default_factory=set)  # tags and snapshots of branches looked at
    _sparers: dict[str, None] = field(default_factory=dict)  # the tags and branches that keep some of the files

    def gather(self, going: Sequence[Snapshot], staying: Sequence[Snapshot], *, keep_changelogs: bool) -> None:
        """Note what only the snapshots that go need, both oldest first."""
        oldest = staying[0]
        for snapshot in (*going[1:], oldest):
            # What a snapshot took away was needed only by those before it, unless a later one brought it back.
            self._follow(self._delta(snapshot, must=snapshot is oldest))
        for snapshot in going:
            self._add_metadata(snapshot, keep_changelogs=keep_changelogs)
        _note_metadata(self.store, oldest, self._spared)
        for snapshot in staying[1:]:
            self._spare_returned(snapshot)

    def gather_changelogs(self, going: Sequence[Snapshot]) -> None:
        """Note long-lived changelogs with their files."""
        for snapshot in going:
            self._add_changelog(snapshot)
            path = self.store.layout.changelog_file(snapshot.id)
            self.metadata[path] = path

    def spare_new(self) -> None:
        """Keep whatever tags and other branches need, of those that were not looked at before."""
        if not any(self._groups()):
            return
        for layout in branch_layouts(self.store):
            for tag in Tags(self.store.storage, layout).all():
                self._spare_once((layout.branch, tag.name, tag.snapshot.id), tag.snapshot)
            snapshots = Snapshots(self.store.storage, layout)
            for snapshot_id in [] if layout.branch == self.store.layout.branch else snapshots.ids():
                self._spare_once((layout.branch, "", snapshot_id), snapshots.get(snapshot_id))
        for group in self._groups():
            for path in [path for path, name in group.items() if name in self._spared]:
                del group[path]

    def sparers(self) -> tuple[str, ...]:
        """Return the tags and branches that keep files which nothing else needs, in words."""
        return tuple(self._sparers)

    def check(self) -> None:
        """Refuse to go on if a file lies outside the table."""
        for path in (path for group in self._groups() for path in group):
            check_inside(self.store, path)

    def counts(self) -> ExpireResult:
        """Return how many files go."""
        return ExpireResult((), len(self.data), len(self.changelog), len(self.index), len(self.metadata))

    def delete(self) -> None:
        """Delete the files. What cannot be deleted is left to the removal of orphans."""
        paths = [path for group in self._groups() for path in group]
        owned = cache(lambda directory: is_own(self.store, directory))

        def delete(path: str) -> None:
            with suppress(OSError):
                if owned(path.rpartition("/")[0]):
                    self.store.storage.delete(path)

        if len(paths) <= _FEW:
            for path in paths:
                delete(path)
            return
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(delete, paths))

    def _groups(self) -> tuple[dict[str, str], ...]:
        return self.data, self.changelog, self.index, self.metadata

    def _delta(self, snapshot: Snapshot, *, must: bool) -> list[ManifestEntry]:
        try:
            return self.store.manifests.delta(snapshot)
        except (CorruptTableError, NotFoundError):
            if must:
                raise
            return []  # another expiry was here before: what it left behind are orphans

    def _follow(self, delta: Sequence[ManifestEntry]) -> None:
        """Note the files that a snapshot took away, and forget those that it has: an upgrade deletes and adds one."""
        for entry in delta:
            if entry.kind != ADD:
                self.data.update(dict.fromkeys(self._paths(entry), entry.file.file_name))
        for entry in delta:
            if entry.kind == ADD:
                for path in self._paths(entry):
                    self.data.pop(path, None)

    def _spare_returned(self, snapshot: Snapshot) -> None:
        """Keep what a snapshot brought back: a rollback may be a new snapshot with files and indexes of an old one."""
        layout = self.store.layout
        index, statistics = snapshot.index_manifest, snapshot.statistics
        if index is not None and layout.manifest_file(index) in self.metadata and index not in self._spared:
            self._spared.add(index)
            self._spared.update(entry.file.file_name for entry in self.store.manifests.read_index(index))
        if statistics is not None:
            self._spared.add(statistics)
        if snapshot.commit_kind is CommitKind.OVERWRITE:
            delta = self.store.manifests.delta(snapshot)
            self._spared.update(entry.file.file_name for entry in delta if entry.kind == ADD)

    def _add_metadata(self, snapshot: Snapshot, *, keep_changelogs: bool) -> None:
        manifests, layout = self.store.manifests, self.store.layout
        with suppress(CorruptTableError, NotFoundError):
            self._add_lists((snapshot.base_manifest_list, snapshot.delta_manifest_list), manifests.files_of(snapshot))
        if not keep_changelogs:
            self._add_changelog(snapshot)
        with suppress(CorruptTableError, NotFoundError):
            for entry in [] if snapshot.index_manifest is None else manifests.read_index(snapshot.index_manifest):
                place = layout.bucket_directory(self.store.partition_directory(entry.partition), entry.bucket)
                if entry.file.external_path is None:
                    self.index[layout.index_file(entry.file, place)] = entry.file.file_name
        if snapshot.index_manifest is not None:
            self.metadata[layout.manifest_file(snapshot.index_manifest)] = snapshot.index_manifest
        if snapshot.statistics is not None:
            self.metadata[layout.statistics_file(snapshot.statistics)] = snapshot.statistics

    def _add_changelog(self, snapshot: Snapshot) -> None:
        name = snapshot.changelog_manifest_list
        if name is None:
            return
        with suppress(CorruptTableError, NotFoundError):
            files = self.store.manifests.read_list(name)
            for file in files:
                for entry in self.store.manifests.read(file):
                    self.changelog.update(dict.fromkeys(self._paths(entry), entry.file.file_name))
            self._add_lists((name,), files)

    def _add_lists(self, lists: Iterable[str], manifests: Iterable[ManifestFile]) -> None:
        for name in (*lists, *(manifest.file_name for manifest in manifests)):
            self.metadata[self.store.layout.manifest_file(name)] = name

    def _paths(self, entry: ManifestEntry) -> Iterator[str]:
        """Yield the paths of a data file and its side files; files outside the table are not ours to delete."""
        if entry.file.external_path is not None:
            return
        place = self.store.partition_directory(entry.partition)
        yield self.store.layout.data_file(place, entry.bucket, entry.file)
        for name in entry.file.extra_files:
            yield self.store.layout.extra_file(place, entry.bucket, entry.file, name)

    def _spare_once(self, key: tuple[str, str, int], snapshot: Snapshot) -> None:
        if key in self._seen:
            return
        self._seen.add(key)
        needed: set[str] = set()
        _note_metadata(self.store, snapshot, needed)
        for entry in (*self.store.manifests.live(snapshot), *self.store.manifests.changelog(snapshot)):
            needed.add(entry.file.file_name)
        self._spared |= needed
        if any(name in needed for group in self._groups() for name in group.values()):
            branch, tag, snapshot_id = key
            what = f"tag {tag!r}" if tag else f"branch {branch!r}"
            self._sparers[f"{what} keeps files of snapshot {snapshot_id}"] = None


def _note_metadata(store: TableStore, snapshot: Snapshot, names: set[str]) -> None:
    """Note the names of all metadata and index files that a snapshot needs. What cannot be read is an error."""
    manifests = store.manifests
    names.update((snapshot.base_manifest_list, snapshot.delta_manifest_list))
    names.update(file.file_name for file in manifests.files_of(snapshot))
    if snapshot.changelog_manifest_list is not None:
        names.add(snapshot.changelog_manifest_list)
        names.update(file.file_name for file in manifests.read_list(snapshot.changelog_manifest_list))
    if snapshot.index_manifest is not None:
        names.add(snapshot.index_manifest)
        names.update(entry.file.file_name for entry in manifests.read_index(snapshot.index_manifest))
    if snapshot.statistics is not None:
        names.add(snapshot.statistics)
