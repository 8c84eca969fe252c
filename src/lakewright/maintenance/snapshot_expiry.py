"""Expire snapshots and changelogs; purge."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import TypeVar

from lakewright.commit.committer import Committer
from lakewright.display import HtmlRepr
from lakewright.errors import (
    CommitConflictError,
    CorruptTableError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
    pluralize,
)
from lakewright.maintenance.branches import drop_branch
from lakewright.maintenance.external_directories import deletable
from lakewright.maintenance.orphan_files import (
    KnownFiles,
    branch_layouts,
    check_inside,
    kept_tags,
    own_directories,
    remove_orphans,
    while_named,
)
from lakewright.metadata.manifest_files import Manifests
from lakewright.metadata.refs import Consumers
from lakewright.metadata.snapshot_files import Changelogs, SnapshotFiles
from lakewright.metadata.table_store import TableStore
from lakewright.spec.manifest import ADD, ManifestEntry, ManifestFile
from lakewright.spec.option_values import MAX_INT
from lakewright.spec.snapshot import (
    COPY_OF,
    COVER_OF,
    MAX_LONG,
    CommitKind,
    SeenSnapshot,
    Snapshot,
    is_same_commit,
    snapshot_from_json,
    to_json,
)
from lakewright.spec.table_options import TableOptions
from lakewright.storage.concurrency import CallGroup, map_concurrently
from lakewright.storage.table_layout import MAIN_BRANCH

# ---- Expiry of snapshots ---------------------------------------------------------------------------------------------
# At least `retain_min` snapshots stay, those beyond `retain_max` expire, and in between a snapshot expires once its
# successor is old enough. A time that the caller gives (`older_than`) keeps every younger snapshot, even beyond
# `retain_max`: a caller who says "older than a week" does not expect to lose what was written today. The time of the
# table's options does not. After commits, snapshots younger than `lakewright.expire.grace` stay as well. Tags, other
# branches and consumers keep what they need, and the result lists those that do.
#
# Invariant: if anything that stays cannot be read, nothing is deleted. The snapshot files are deleted first,
# oldest first, so a reader of an expiring snapshot finds that it expired, and never a snapshot without some of its
# files; an interrupted expiry leaves files that the removal of orphans finds. Paths are built from names, lie in the
# table, and are reached without a link. `after_commit` lets expiry follow commits where the options of a table ask
# for it.

T = TypeVar("T")
R = TypeVar("R")

_THREADS = 16
_BLOCK = 32  # the changes of so many snapshots are in memory at a time
_THREADED_MIN = 8  # below this starting threads costs more than it saves


@dataclass(frozen=True, slots=True)
class Retention:
    """How many snapshots stay: counts, and the time before which a snapshot is old."""

    count_min: int
    count_max: int
    old_millis: int  # a snapshot is old if its successor was published before this time (epoch milliseconds)
    limit: int = MAX_INT  # how many expire in one run
    by_successor: int = 1  # 0: a snapshot is old if it was published itself before that time
    young_millis: int | None = None  # a snapshot that was published after this time stays, whatever the counts

    @classmethod
    def of_options(
        cls,
        options: TableOptions,
        now_millis: int,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: int | None = None,
        max_deletes: int | None = None,
    ) -> Retention:
        """Read the table's options; arguments take precedence over them."""
        count_min = options.snapshot_num_retained_min if retain_min is None else retain_min
        count_max = options.snapshot_num_retained_max if retain_max is None else retain_max
        limited = TableOptions.snapshot_expire_limit.key() in options.values
        stored_min = TableOptions.snapshot_num_retained_min.key() in options.values
        if retain_min is None and (retain_max is not None or not stored_min):
            count_min = min(count_min, count_max)
        if count_min < 1 or count_max < count_min or (max_deletes is not None and max_deletes < 0):
            raise InvalidInputError(
                f"snapshots cannot expire down to at least {count_min} and at most {count_max}"
                f"{'' if max_deletes is None else f', {max_deletes} at once'}; "
                "at least one must stay, and the maximum cannot be below the minimum"
            )
        kept_millis = options.snapshot_time_retained
        if max_deletes is None:
            max_deletes = options.snapshot_expire_limit if limited else MAX_INT
        if older_than is None:
            return cls(count_min, count_max, now_millis - kept_millis, max_deletes)
        return cls(count_min, MAX_INT, older_than, max_deletes)

    def of_changelogs(self, options: TableOptions, now_millis: int) -> Retention | None:
        """Return the retention of changelogs if it is longer than that of snapshots, else None."""
        count_min = options.changelog_num_retained_min
        count_max = options.changelog_num_retained_max
        kept_millis = options.changelog_time_retained
        own = replace(
            self,
            count_min=self.count_min if count_min is None else count_min,
            count_max=self.count_max if count_max is None else count_max,
            old_millis=self.old_millis if kept_millis is None else now_millis - kept_millis,
        )
        longer = own.count_min > self.count_min or own.count_max > self.count_max or own.old_millis < self.old_millis
        return own if longer else None


@dataclass(frozen=True, slots=True)
class ExpireResult(HtmlRepr):
    """What an expiry removed, or would remove: ids of snapshots, and numbers of files."""

    snapshot_ids: tuple[int, ...] = ()
    data_files: int = 0
    changelog_files: int = 0
    index_files: int = 0
    metadata_files: int = 0  # manifests, manifest lists, index manifests and statistics
    dry_run: bool = False
    left: int = 0  # snapshots beyond the retention that stay because of a limit or a consumer
    held_by: tuple[str, ...] = ()  # why more snapshots, or their files, stay, in words

    @property
    def files(self) -> int:
        """How many files were removed, besides the snapshots themselves."""
        return self.data_files + self.changelog_files + self.index_files + self.metadata_files


def expire_snapshots(
    store: TableStore, retention: Retention | None = None, *, dry_run: bool = False, now_millis: int | None = None
) -> ExpireResult:
    """Remove expired snapshots (by default as the table's options say), and the files that only they name."""
    now = time.time_ns() // 1_000_000 if now_millis is None else now_millis
    retention = retention or Retention.of_options(store.options, now)
    changelogs = retention.of_changelogs(store.options, now)
    with CallGroup(store.storage) as errands:
        listed = errands.start(store.snapshots.ids)
        store.check_same_table()
        ids = listed.result()
    if not ids:
        return ExpireResult(dry_run=dry_run)
    times = _times(store, ids)
    consumers = {} if _ignores_consumers(store, changelogs) else _next_snapshots(store, now, dry_run=dry_run)
    kept_id = _first_kept(ids, retention, min(consumers.values(), default=None), times)
    known = _read_all(store, ids if bisect_left(ids, kept_id) else [])
    covered = _covered_state(known)
    kept_id = min(kept_id, covered or kept_id)
    place = bisect_left(ids, kept_id)
    expiring = [snapshot for snapshot in known if snapshot.id < kept_id]
    remaining = [snapshot for snapshot in known if snapshot.id >= kept_id]
    files = _FilesToDelete(store)
    if expiring:
        if not remaining or remaining[0].id != kept_id:
            remaining.insert(0, store.snapshots.get(kept_id))  # raises: it is not there
        files.add_snapshots(expiring, remaining, keep_changelogs=changelogs is not None)
    if changelogs is not None:
        files.add_changelogs(_old_changelogs(store, changelogs, expiring, ids[-1]))
    files.keep_referenced()
    files.check()
    left, held_by = _held_back(ids, kept_id, retention, consumers, times)
    if covered == kept_id and left:
        held_by.append(f"a rollback or fast-forward to snapshot {covered} is at work, or was cut short: repeat it")
    result = replace(
        files.counts(),
        snapshot_ids=tuple(snapshot.id for snapshot in expiring),
        dry_run=dry_run,
        left=left,
        held_by=(*held_by, *files.keepers()),
    )
    if dry_run:
        return result
    with CallGroup(store.storage) as errands:
        same = errands.start(store.check_same_table)  # another table at this path would have snapshots of the same ids
        if (oldest_kept := files.oldest_kept) is not None:
            settled = errands.start(lambda: _settle_jobs(store, expiring, remaining))
            _check_kept(store, oldest_kept, None, 0)
            settled.result()
        same.result()
    if files.oldest_kept is not None:
        _remove_snapshots(store, expiring, files.oldest_kept, keep_changelogs=changelogs is not None)
    files.keep_referenced()  # a tag may have been made of a snapshot before its file was deleted
    files.keep_new(frozenset(ids[place:]))
    files.delete()
    return result


def _settle_jobs(store: TableStore, expiring: Sequence[Snapshot], remaining: Sequence[Snapshot]) -> None:
    """Record what the snapshots that expire say about jobs that were begun, and forget jobs that are old enough.

    Of a job that committed none of them it is recorded that the first snapshot that stays is the one to search from. Of
    a stream that has none but expiring ones the newest is recorded: its driver may have died before it did so.
    """
    kept = remaining[0]
    jobs, users = store.jobs, {snapshot.commit_user: snapshot for snapshot in (*expiring, kept)}
    known = {SeenSnapshot.of(snapshot) for snapshot in expiring} | ({SeenSnapshot()} if expiring[0].id == 1 else set())
    retention = store.options.lakewright_job_id_retention
    for job in jobs.all_begun(expire_before_millis=time.time_ns() // 1_000_000 - retention):
        committed = users.get(job.user)
        if committed is not None and committed.id > job.since.id:  # a job that repeats has older commits too
            jobs.complete(job.user, committed)
        elif job.since in known:
            jobs.begin(replace(job, since=SeenSnapshot.of(kept)), again=True)
    streams = {snapshot.commit_user: snapshot for snapshot in expiring if snapshot.commit_identifier != MAX_LONG}
    for user in streams.keys() - {snapshot.commit_user for snapshot in remaining}:
        recorded = jobs.find_done(user)
        if recorded is None or recorded.commit_identifier < streams[user].commit_identifier:
            jobs.complete(user, streams[user], is_job=False)


def expire_changelogs(store: TableStore, retention: Retention, *, dry_run: bool = False) -> ExpireResult:
    """Remove the changelogs of expired snapshots that are beyond a retention, and the files that only they name."""
    store.check_same_table()
    latest_id = store.snapshots.latest_id()
    files = _FilesToDelete(store)
    expiring = [] if latest_id is None else _old_changelogs(store, retention, (), latest_id)
    files.add_changelogs(expiring)
    files.keep_referenced()
    files.check()
    result = replace(files.counts(), snapshot_ids=tuple(snapshot.id for snapshot in expiring), dry_run=dry_run)
    if not dry_run:
        files.delete()
    return result


def _read_all(store: TableStore, ids: Sequence[int]) -> list[Snapshot]:
    """Return some snapshots, without those that another expiry has removed meanwhile."""

    def read(snapshot_id: int) -> Snapshot | None:
        try:
            return store.snapshots.get(snapshot_id)
        except NotFoundError:
            return None

    return [snapshot for snapshot in _each(store, read, ids) if snapshot is not None]


def _each(store: TableStore, call: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return the answer to a call for each item; many calls on a disk run in threads too."""
    if store.storage.requests_at_once > 1 or len(items) <= _THREADED_MIN:
        return map_concurrently(store.storage, call, items)
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(call, items))


def _times(store: TableStore, ids: Sequence[int]) -> Callable[[int], int]:
    """Return a function that returns the time of the first snapshot whose id is at least the given one."""
    known: dict[int, int] = {}

    def time_of(snapshot_id: int) -> int:
        place = min(bisect_left(ids, snapshot_id), len(ids) - 1)
        if ids[place] not in known:
            block = ids[place : place + min(_THREADS, store.storage.requests_at_once)]  # often the next ones follow
            known.update((snapshot.id, snapshot.time_millis) for snapshot in _read_all(store, block))
        return known[ids[place]] if ids[place] in known else store.snapshots.get(ids[place]).time_millis

    return time_of


def _first_kept(
    ids: Sequence[int], retention: Retention, consumer_next: int | None, time_of: Callable[[int], int]
) -> int:
    """Return the oldest of some ids that stays."""
    earliest, latest = ids[0], ids[-1]
    first = max(latest - retention.count_max + 1, earliest)
    end = min(
        latest - retention.count_min + 1, earliest + retention.limit, latest if consumer_next is None else consumer_next
    )
    end = next((i for i in range(first, end) if retention.old_millis <= time_of(i + retention.by_successor)), end)
    young = retention.young_millis
    if young is not None:
        end = next((i for i in ids if i < end and time_of(i) > young), end)
    return ids[min(bisect_left(ids, end), len(ids) - 1)]


def _covered_state(known: Sequence[Snapshot]) -> int | None:
    """Return the id of the state that a rollback or fast-forward at work goes to, or of the first snapshot above it."""
    properties = known[-1].properties if known else {}
    target = properties.get(COVER_OF, properties.get(COPY_OF, ""))
    if not target.isdecimal():
        return None
    return next((snapshot.id for snapshot in known if snapshot.id >= int(target)), None)


def _ignores_consumers(store: TableStore, changelogs: Retention | None) -> bool:
    """Return whether consumers read changelogs only, which stay longer than the snapshots."""
    return changelogs is not None and store.options.consumer_changelog_only


def _next_snapshots(store: TableStore, now: int, *, dry_run: bool) -> dict[str, int]:
    """Return the snapshot that each consumer reads next; consumers beyond their expiration time are deleted."""
    consumers = Consumers(store.storage, store.layout)
    expiration = store.options.consumer_expiration_time
    if expiration is not None and not dry_run:
        consumers.expire(older_than_millis=now - expiration)
    return consumers.all()


def _held_back(
    ids: Sequence[int],
    kept_id: int,
    retention: Retention,
    consumers: Mapping[str, int],
    time_of: Callable[[int], int],
) -> tuple[int, list[str]]:
    """Return how many more snapshots are beyond counts and age, and why the oldest one that stays does not expire."""
    free_id = _first_kept(ids, replace(retention, limit=MAX_INT), None, time_of)
    left = bisect_left(ids, free_id) - bisect_left(ids, kept_id)
    reasons = [
        f"consumer {name!r} reads snapshot {number} next; if it is no longer used, delete it"
        for name, number in sorted(consumers.items(), key=lambda item: (item[1], item[0]))
        if number < free_id
    ]
    if left and kept_id >= ids[0] + retention.limit:
        reasons.append(f"no more than {pluralize(retention.limit, 'snapshot')} go at once (max_deletes): expire again")
    if free_id > ids[-1] - retention.count_min:
        reasons.append(f"the newest {pluralize(retention.count_min, 'snapshot')} must stay (retain_min)")
    elif len(ids) > 1:
        reasons.append(
            f"snapshot {free_id} is not old enough (older_than, snapshot.time-retained, lakewright.expire.grace)"
            if retention.young_millis is not None
            else f"snapshot {free_id} is not old enough (older_than, snapshot.time-retained)"
        )
    return left, reasons


def _old_changelogs(
    store: TableStore, retention: Retention, expiring: Sequence[Snapshot], latest_id: int
) -> list[Snapshot]:
    """Return the existing long-lived changelogs that expire, oldest first."""
    changelogs = Changelogs(store.storage, store.layout)
    existing = {i: found for i in changelogs.ids() if (found := changelogs.find(i)) is not None}
    ids = sorted(existing)
    if not ids:
        return []
    consumer_next = Consumers(store.storage, store.layout).min_next_snapshot()
    known = {**existing, **{snapshot.id: snapshot for snapshot in expiring}}
    order = sorted(known)

    def time_of(snapshot_id: int) -> int:
        place = bisect_left(order, snapshot_id)
        return known[order[place]].time_millis if place < len(order) else retention.old_millis

    kept = _first_kept([*ids, latest_id], retention, consumer_next, time_of)
    return [existing[i] for i in ids if i < kept]


def _remove_snapshots(
    store: TableStore, expiring: Sequence[Snapshot], kept: Snapshot, *, keep_changelogs: bool
) -> None:
    last: Snapshot | None = None  # what was removed last
    for removed, snapshot in enumerate(expiring):
        path = store.layout.snapshot_file(snapshot.id)
        if keep_changelogs:
            store.storage.create(store.layout.changelog_file(snapshot.id), to_json(snapshot).encode())
        data = store.storage.take(path)
        if data is None:
            _check_kept(store, kept, last, removed)  # or another expiry was faster
        elif not _is_same(data, snapshot, path):
            # A fast-forward has given the id to a snapshot of the other branch: it gets it back.
            store.storage.create(path, data)
            if last is not None:
                _remove_left(store, kept, snapshot.id)
            raise _rolled_back(store, removed)
        else:
            last = snapshot
    if expiring:
        _check_kept(store, kept, last, len(expiring))
        _remove_left(store, kept, kept.id)
        # This syncs the directory too: a power cut must not bring back a snapshot whose files are deleted.
        store.storage.replace(store.layout.earliest_hint, b"%d" % kept.id)


def _remove_left(store: TableStore, kept: Snapshot, end: int) -> None:
    """Remove the snapshots below an id that a rollback or fast-forward has put there meanwhile.

    They would be below a gap. What they alone name is left to the removal of orphans.
    """
    while left := [snapshot_id for snapshot_id in store.snapshots.ids() if snapshot_id < end]:
        for removed, snapshot_id in enumerate(left):
            path = store.layout.snapshot_file(snapshot_id)
            data = store.storage.take(path)
            if not store.snapshots.holds(kept):
                if data is not None:
                    store.storage.create(path, data)
                raise _rolled_back(store, removed)


def _is_same(data: bytes, snapshot: Snapshot, path: str) -> bool:
    with suppress(CorruptTableError):
        return is_same_commit(snapshot_from_json(data, path=path), snapshot)
    return False


def _check_kept(store: TableStore, kept: Snapshot, last: Snapshot | None, removed: int) -> None:
    """Raise CommitConflictError if the oldest snapshot that stays is gone: what may go was found out with its help.

    If a rollback to the snapshot that was removed last has removed all later ones, that is put back.
    """
    if store.snapshots.holds(kept):
        return
    if last is not None and not store.snapshots.ids():
        store.storage.create(store.layout.snapshot_file(last.id), to_json(last).encode())
    raise _rolled_back(store, removed)


def _rolled_back(store: TableStore, removed: int) -> CommitConflictError:
    return CommitConflictError(
        f"{store.name}: the table was rolled back or forwarded while snapshots expired; "
        f"{pluralize(removed, 'snapshot')} "
        "were removed, and no other file: expire again",
        table=store.name,
    )


@dataclass(slots=True)
class _FilesToDelete:
    """The files to delete, by path, with the names by which remaining snapshots would refer to them."""

    store: TableStore
    data: dict[str, str] = field(default_factory=dict)
    changelog: dict[str, str] = field(default_factory=dict)
    index: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    changelogs: dict[str, int] = field(default_factory=dict)  # the files of long-lived changelogs, with their ids
    _needed: set[str] = field(default_factory=set)  # names of files that something remaining refers to
    _seen: set[tuple[str, str, int]] = field(default_factory=set)  # tags and snapshots of branches that were read
    oldest_kept: Snapshot | None = None  # the oldest snapshot that stays, if others expire
    _keepers: dict[str, None] = field(default_factory=dict)  # the tags and branches that keep some of the files

    @property
    def _manifests(self) -> Manifests:
        """The manifests as the storage has them: an expiry removes files, so what cannot be read must stop it."""
        return self.store.manifests.without_cache()

    def add_snapshots(
        self, expiring: Sequence[Snapshot], remaining: Sequence[Snapshot], *, keep_changelogs: bool
    ) -> None:
        """Add the files that only expiring snapshots need; both lists are oldest first."""
        oldest = self.oldest_kept = remaining[0]
        removing = (*expiring[1:], oldest)
        names_of_oldest = partial(_add_metadata_names, self.store, oldest, self._needed)
        for first in range(0, len(expiring), _BLOCK):
            block = removing[first : first + _BLOCK]
            calls: list[Callable[[], list[ManifestEntry] | None]] = [
                *(partial(self._delta, snapshot, must=snapshot is oldest) for snapshot in block),
                *(
                    partial(self._add_metadata, snapshot, keep_changelogs=keep_changelogs)
                    for snapshot in expiring[first : first + _BLOCK]
                ),
                *((names_of_oldest,) if first + _BLOCK >= len(expiring) else ()),
            ]
            for delta in map_concurrently(self.store.storage, lambda call: call(), calls):
                # Files that a snapshot removed are needed only by earlier ones, unless a later one restored them.
                self._add_removed(delta or ())
        for snapshot in remaining[1:]:
            self._keep_restored(snapshot)
        for before, snapshot in pairwise((*expiring, *remaining)):
            if not _follows(before, snapshot):
                self._keep_live(max(snapshot, oldest, key=lambda one: one.id))

    def add_changelogs(self, expiring: Sequence[Snapshot]) -> None:
        """Add long-lived changelogs with their files."""
        for snapshot in expiring:
            self._add_changelog(snapshot)
            self.changelogs[self.store.layout.changelog_file(snapshot.id)] = snapshot.id

    def keep_referenced(self) -> None:
        """Keep the files that tags and other branches need, of those that were not read before."""
        if not any(self._groups()):
            return
        while_named(self.store, self._read_names)
        self._drop_needed()

    def keep_new(self, known: frozenset[int]) -> None:
        """Keep the files that snapshots need which were not there before: a state of the past may be one of them."""
        for snapshot_id in self.store.snapshots.ids() if any(self._groups()) else ():
            snapshot = None if snapshot_id in known else self.store.snapshots.find(snapshot_id)
            if snapshot is not None and (snapshot.commit_kind is CommitKind.OVERWRITE or snapshot_id < min(known)):
                self._keep_snapshot((self.store.layout.branch, "", snapshot_id), snapshot)
        self._drop_needed()

    def _drop_needed(self) -> None:
        for group in self._groups():
            for path in [path for path, name in group.items() if name in self._needed]:
                del group[path]

    def _read_names(self) -> None:
        with CallGroup(self.store.storage) as errands:
            main = replace(self.store.layout, branch=MAIN_BRANCH)
            of_main = errands.start(partial(kept_tags, self.store, main))
            layouts = branch_layouts(self.store)
            tags = [
                of_main.result(),
                *map_concurrently(self.store.storage, partial(kept_tags, self.store), layouts[1:]),
            ]
        for layout, found in zip(layouts, tags, strict=True):
            for tag in found:
                self._keep_snapshot((layout.branch, tag.name, tag.snapshot.id), tag.snapshot)
            snapshots = SnapshotFiles(self.store.storage, layout)
            for snapshot_id in [] if layout.branch == self.store.layout.branch else snapshots.ids():
                self._keep_snapshot((layout.branch, "", snapshot_id), snapshots.get(snapshot_id))
            changelogs = Changelogs(self.store.storage, layout)
            for snapshot_id in [] if layout.branch == self.store.layout.branch else changelogs.ids():
                self._keep_changelog(changelogs.find(snapshot_id))

    def keepers(self) -> tuple[str, ...]:
        """Return the tags and branches that keep files which nothing else needs, in words."""
        return tuple(self._keepers)

    def check(self) -> None:
        """Raise CorruptTableError if a file is outside the table."""
        for path in (path for group in self._groups() for path in group):
            check_inside(self.store, path)

    def counts(self) -> ExpireResult:
        """Return how many files will be deleted."""
        metadata = len(self.metadata) + len(self.changelogs)
        return ExpireResult((), len(self.data), len(self.changelog), len(self.index), metadata)

    def delete(self) -> None:
        """Delete the files, long-lived changelogs first. One that cannot be deleted is left to remove_orphans."""
        self._delete_changelogs()
        paths = [path for group in self._groups() for path in group]
        root = f"{self.store.layout.root.rstrip('/')}/"
        inside = [path for path in paths if path.startswith(root)]
        owned: list[str] = []
        with suppress(OSError):
            directories = own_directories(self.store, {path.rpartition("/")[0] for path in inside})
            owned += [path for path in inside if path.rpartition("/")[0] in directories]
        with suppress(OSError):
            owned += deletable(self.store, (path for path in paths if not path.startswith(root)))

        def delete(path: str) -> None:
            with suppress(OSError):
                self.store.storage.delete(path)

        _each(self.store, delete, owned)

    def _delete_changelogs(self) -> None:
        """Delete the files of long-lived changelogs, oldest first, before the files that they name."""
        for path in self.changelogs:
            self.store.storage.delete(path)
        if self.changelogs:
            # As with snapshots, this syncs the directory: a power cut must not bring back what lacks its files.
            hint = f"{self.store.layout.changelog_directory}/EARLIEST"
            self.store.storage.replace(hint, b"%d" % (max(self.changelogs.values()) + 1))

    def _groups(self) -> tuple[dict[str, str], ...]:
        return self.data, self.changelog, self.index, self.metadata

    def _delta(self, snapshot: Snapshot, *, must: bool) -> list[ManifestEntry]:
        try:
            return self._manifests.delta(snapshot)
        except (CorruptTableError, NotFoundError):
            if must:
                raise
            return []  # another expiry removed it already; the files that it left are orphans

    def _add_removed(self, delta: Sequence[ManifestEntry]) -> None:
        """Add the files that a snapshot removed, but not those that it also adds, as an upgrade of a level does."""
        for entry in delta:
            if entry.kind != ADD:
                self.data.update(dict.fromkeys(self._paths(entry), entry.file.file_name))
        for entry in delta:
            if entry.kind == ADD:
                for path in self._paths(entry):
                    self.data.pop(path, None)

    def _keep_restored(self, snapshot: Snapshot) -> None:
        """Keep what a snapshot restored: a rollback may be a new snapshot with files and indexes of an old one."""
        layout = self.store.layout
        index, statistics = snapshot.index_manifest, snapshot.statistics
        if index is not None and layout.manifest_file(index) in self.metadata and index not in self._needed:
            self._needed.add(index)
            self._needed.update(entry.file.file_name for entry in self._manifests.read_index(index))
        if statistics is not None:
            self._needed.add(statistics)
        if snapshot.commit_kind is CommitKind.OVERWRITE:
            delta = self._manifests.delta(snapshot)
            self._needed.update(entry.file.file_name for entry in delta if entry.kind == ADD)

    def _keep_live(self, snapshot: Snapshot) -> None:
        """Keep all files of a snapshot, where those that snapshots before it removed are not all that it lacks."""
        _add_metadata_names(self.store, snapshot, self._needed)
        self._needed.update(entry.file.file_name for entry in self._manifests.live(snapshot))

    def _add_metadata(self, snapshot: Snapshot, *, keep_changelogs: bool) -> None:
        manifests, layout = self._manifests, self.store.layout
        # Copies share their lists. A rollback at work may put back a copy, so these are left to the removal of orphans.
        with suppress(CorruptTableError, NotFoundError):
            lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
            self._add_lists(() if COPY_OF in snapshot.properties else lists, manifests.files_of(snapshot))
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
            files = self._manifests.read_list(name)
            for file in files:
                for entry in self._manifests.read(file):
                    self.changelog.update(dict.fromkeys(self._paths(entry), entry.file.file_name))
            self._add_lists((name,), files)

    def _add_lists(self, lists: Iterable[str], manifests: Iterable[ManifestFile]) -> None:
        for name in (*lists, *(manifest.file_name for manifest in manifests)):
            self.metadata[self.store.layout.manifest_file(name)] = name

    def _paths(self, entry: ManifestEntry) -> Iterator[str]:
        """Yield the paths of a data file and its extra files; a file at a place that is not the table's is left out."""
        place, external = self.store.partition_directory(entry.partition), entry.file.external_path
        if external is not None and not self.store.layout.is_external_file(place, entry.bucket, external):
            return
        yield self.store.layout.data_file(place, entry.bucket, entry.file)
        for name in entry.file.extra_files:
            yield self.store.layout.extra_file(place, entry.bucket, entry.file, name)

    def _keep_changelog(self, snapshot: Snapshot | None) -> None:
        """Keep the files of a long-lived changelog of another branch, which was made from the same snapshot."""
        name = None if snapshot is None else snapshot.changelog_manifest_list
        if name is None or name in self._needed:
            return
        self._needed.add(name)
        for manifest in self._manifests.read_list(name):
            self._needed.add(manifest.file_name)
            self._needed.update(entry.file.file_name for entry in self._manifests.read(manifest))

    def _keep_snapshot(self, key: tuple[str, str, int], snapshot: Snapshot) -> None:
        if key in self._seen:
            return
        self._seen.add(key)
        needed: set[str] = set()
        _add_metadata_names(self.store, snapshot, needed)
        for entry in (
            *self._manifests.live(snapshot),
            *self._manifests.changelog(snapshot),
        ):
            needed.add(entry.file.file_name)
        self._needed |= needed
        if any(name in needed for group in self._groups() for name in group.values()):
            branch, tag, snapshot_id = key
            what = f"tag {tag!r}" if tag else f"branch {branch!r}"
            self._keepers[f"{what} keeps files of snapshot {snapshot_id}"] = None


def _follows(before: Snapshot, snapshot: Snapshot) -> bool:
    """Return whether one snapshot was made on top of another, as far as their numbers tell.

    A fast-forward of Java may leave snapshots of the table below those of a branch that were not made on top of them.
    """
    total, added, sum_before = snapshot.total_record_count, snapshot.delta_record_count, before.total_record_count
    is_sum = total is None or added is None or sum_before is None or total == sum_before + added
    return snapshot.id == before.id + 1 and is_sum


def _add_metadata_names(store: TableStore, snapshot: Snapshot, names: set[str]) -> None:
    """Add the names of all metadata and index files that a snapshot needs. A file that cannot be read is an error."""
    manifests = store.manifests.without_cache()
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


# ---- Purge -----------------------------------------------------------------------------------------------------------
# The steps are in an order that leaves a whole table behind if one of them fails or the process is killed: branches
# go, a snapshot without rows is published, and only then is removed what nothing names. Calling it again finishes it.
#
# Invariant: only files of commits that were visible are deleted, however young, and files that nothing names once
# they are a day old. A writer that has written its files and not committed them keeps them: its commit comes after
# the purge.

_CHANGELOGS = ("changelog.num-retained.", "changelog.time-retained")


@dataclass(frozen=True, slots=True)
class PurgeResult(HtmlRepr):
    """What a purge removed, or would remove."""

    snapshot_id: int | None = None  # the empty snapshot that is left; None: the table was never written
    snapshots: int = 0
    tags: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    consumers: tuple[str, ...] = ()
    changelogs: int = 0
    files: int = 0  # of rows, indexes and metadata; those of a dry run are not counted
    dry_run: bool = False


def purge(store: TableStore, *, dry_run: bool = False) -> PurgeResult:
    """Remove all rows, tags, branches, consumers, changelogs and snapshots but an empty one, with all their files."""
    if store.home.history is not None:
        raise UnsupportedError(
            f"{store.name}: a server owns the history, and removes it; drop the table, or truncate it", table=store.name
        )
    if store.layout.branch != MAIN_BRANCH:
        raise InvalidInputError(
            f"{store.name} is a branch, which cannot be purged by itself: drop it, or purge the table", table=store.name
        )
    store.check_same_table()
    tags, branches, consumers = tuple(store.tags.list()), tuple(store.branches()), tuple(store.consumers.list())
    ids, changelogs = store.snapshots.ids(), store.changelogs.ids()
    planned = PurgeResult(None, len(ids), tags, branches, consumers, len(changelogs), dry_run=dry_run)
    if dry_run or not ids:
        return planned
    known = KnownFiles(store)
    known.look()
    for branch in branches:
        drop_branch(store, branch)
    empty = Committer(store, sole=True, upkeep=False).truncate()
    known.look()  # at what was committed in the meantime, and tagged
    layout = store.layout
    # Whole directories: their deletion is synced, and a power cut must not bring back a tag whose files are deleted.
    for directory in (
        layout.tag_directory,
        layout.consumer_directory,
        layout.changelog_directory,
        layout.job_directory,
    ):
        store.storage.delete_directory(directory)
    gone = expire_snapshots(_without_changelogs(store), Retention(1, 1, 0, MAX_INT))
    orphans = remove_orphans(store, committed=known.names)
    return PurgeResult(
        empty.id, len(gone.snapshot_ids), tags, branches, consumers, len(changelogs), gone.files + orphans.count
    )


def _without_changelogs(store: TableStore) -> TableStore:
    """Return the table without the options that keep changelogs longer than snapshots."""
    options = {key: value for key, value in store.schema.options.items() if not key.startswith(_CHANGELOGS)}
    return store.with_schema(replace(store.schema, options=options))
