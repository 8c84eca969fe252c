"""Roll back to a snapshot or tag; restore a past state as the newest."""

from __future__ import annotations

import re
import time
import uuid
import warnings
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from lakewright.commit.commit_changes import record_count
from lakewright.commit.commit_loop import confirm_published, publisher_of
from lakewright.display import HtmlRepr
from lakewright.errors import (
    CommitConflictError,
    CommitContentionError,
    CommitUnknownError,
    CorruptTableError,
    LakewrightError,
    LakewrightWarning,
    NotFoundError,
)
from lakewright.metadata.authority import LostRace, Outcome, Published, Unknown
from lakewright.metadata.job_records import is_removed
from lakewright.metadata.refs import Tags
from lakewright.metadata.snapshot_files import run_start
from lakewright.metadata.table_store import TableStore
from lakewright.spec.manifest import ADD, DELETE, ManifestEntry
from lakewright.spec.snapshot import (
    COPY_OF,
    COVER_OF,
    MAX_LONG,
    CommitKind,
    SeenSnapshot,
    Snapshot,
    is_same_commit,
    to_json,
)
from lakewright.storage.concurrency import map_concurrently
from lakewright.version import __version__

# ---- Restoring a past state as the newest ----------------------------------------------------------------------------
# The new snapshot is an OVERWRITE: it deletes the files that only the newest snapshot has and adds those that only
# the wanted one has, so that writers, readers of changes and expiry see what happened. Nothing is removed. Index
# files and statistics are those of the wanted state, and so is the schema that it records.
#
# Invariant: the snapshot is published like any commit, by creating the file of the next id, so of two writers one
# wins. While it is being made, a tag with a name of its own pins the wanted state (`pinned`), so that no expiry
# deletes its files. A call that is cut short leaves that tag; it goes with a later call, or after a day with the
# expired tags. What a call found out about the table before it published holds until then: if another call has
# changed the history in between, it begins again (`until_undisturbed`).

T = TypeVar("T")
_TRIES_MAX = 20  # how often others may commit first, or change the history
_PIN = re.compile(r"rollback-of-\d+-[0-9a-f]{8}")
_PIN_MILLIS = 24 * 60 * 60 * 1000  # how long expiry keeps what a call has pinned that was cut short
_LEFT_MILLIS = 60 * 60 * 1000  # a pin that is older belongs to a call that was cut short


class HistoryChangedError(Exception):
    """Another call has removed or replaced snapshots, so what was found out about the table holds no longer."""


def until_undisturbed(store: TableStore, call: Callable[[], T]) -> T:
    """Make a call on the history; if it finds that another one has changed it meanwhile, make it again."""
    for _ in range(_TRIES_MAX):
        with suppress(HistoryChangedError):
            return call()
    raise CommitContentionError(
        f"{store.name}: other calls change its history all the time; let them end, and try again", table=store.name
    )


def is_pin(tag: str) -> bool:
    """Return whether the name of a tag is one that `pinned` gives."""
    return _PIN.fullmatch(tag) is not None


@contextmanager
def pin_snapshot(tags: Tags, snapshot: Snapshot) -> Iterator[str]:
    """Keep the files of a snapshot by a tag until the block ends, and yield the name of the tag.

    A snapshot that has expired is a NotFoundError.
    """
    name = f"rollback-of-{snapshot.id}-{uuid.uuid4().hex[:8]}"
    tags.create(name, snapshot, time_retained_millis=_PIN_MILLIS)
    try:
        yield name
    finally:
        with suppress(OSError):  # it goes with a later call, or when it expires
            tags.storage.delete(tags.layout.tag_file(name))


def remove_left_pins(tags: Tags) -> None:
    """Remove the tags of calls that were cut short more than an hour ago."""
    limit = time.time_ns() // 1_000_000 - _LEFT_MILLIS
    for info in tags.storage.list(tags.layout.tag_directory):
        if info.modified_millis < limit and is_pin(info.path.rpartition("/")[2].removeprefix("tag-")):
            tags.storage.delete(info.path)


@dataclass(frozen=True, slots=True)
class _Draft:
    snapshot: Snapshot
    entries: tuple[ManifestEntry, ...]
    files: tuple[str, ...]  # the metadata files that were written for it


def publish_state(
    store: TableStore,
    target: Snapshot,
    since: Snapshot | None,
    *,
    from_snapshot: int | None = None,
    only_on_it: bool = False,
    is_cover: bool = False,
) -> Snapshot:
    """Publish a snapshot on top of the newest one that has the state of another, and return it.

    `since` is the snapshot that was the newest when the target was chosen: if it was removed or replaced in the
    meantime, nothing is published, and a HistoryChangedError is raised; with `only_on_it` also if others have committed
    on it. With `from_snapshot` only if that is the id of the newest. With `is_cover` a property names the target.
    """
    publisher = publisher_of(store)
    for _ in range(_TRIES_MAX):
        latest = store.snapshots.latest()
        _check_unchanged(store, latest, since)
        if only_on_it and (None if latest is None else latest.id) != (None if since is None else since.id):
            raise HistoryChangedError
        check_newest(store, latest, from_snapshot)
        draft = _draft(store, latest, target, {COVER_OF: str(target.id)} if is_cover else {})
        try:
            store.check_same_table()
            outcome = publisher.publish(draft.snapshot, latest, draft.entries)
        except Exception:
            _discard(store, draft)
            raise
        if _is_ours(store, target, outcome):
            _is_ours(store, target, confirm_published(store, latest, draft.snapshot, draft.entries))
            store.snapshots.write_latest_hint(draft.snapshot.id)
            return draft.snapshot
        _discard(store, draft)
    raise _contention(store, target)


def _check_unchanged(store: TableStore, latest: Snapshot | None, since: Snapshot | None) -> None:
    if since is None or (latest is not None and is_same_commit(latest, since)) or store.home.history is not None:
        return
    if not store.snapshots.holds(since):
        raise HistoryChangedError


def publish_above(
    store: TableStore, target: Snapshot, since: Snapshot | None, above: int, *, only_on_it: bool = False
) -> Snapshot:
    """Publish the state of another snapshot on top, under an id that is higher than a given one, and return it.

    If the next id is not high enough, the state is published again under each of the following ids, so that no commit
    gets an id in between.
    """
    publisher = publisher_of(store)
    for _ in range(_TRIES_MAX):
        cover = publish_state(store, target, since, only_on_it=only_on_it, is_cover=True)
        copy = None
        while cover.id <= above:
            copy = copy or write_unchanged(store, target)
            following = replace(copy, id=cover.id + 1, commit_user=str(uuid.uuid4()), uuid=str(uuid.uuid4()))
            if not _is_ours(store, target, publisher.publish(following, cover)):
                break
            _is_ours(store, target, confirm_published(store, cover, following, ()))
            cover = following
        else:
            store.snapshots.write_latest_hint(cover.id)
            return cover
    raise _contention(store, target)


def write_unchanged(store: TableStore, target: Snapshot) -> Snapshot:
    """Write the manifest lists of a snapshot that has the state of another one and changes nothing, and return it.

    A property marks it: it may come after a snapshot of another state.
    """
    manifests = store.manifests
    copy = _with_lists(
        target,
        manifests.write_list(manifests.without_cache().files_of(target)),
        manifests.write_list([]),
        record_count(()),
    )
    return replace(copy, properties={**copy.properties, COPY_OF: str(target.id)})


def _is_ours(store: TableStore, target: Snapshot, outcome: Outcome) -> bool:
    """Return whether a snapshot was published; False if another one was first. An unknown outcome is an error."""
    match outcome:
        case Published():
            return True
        case LostRace():
            return False
        case Unknown(is_gone=True):
            raise HistoryChangedError
        case Unknown(cause):
            raise CommitUnknownError(
                f"{store.name}: it is not known whether the state of snapshot {target.id} was published ({cause}); "
                "look at the newest snapshot, and try again",
                table=store.name,
                snapshot_id=target.id,
            ) from cause


def _contention(store: TableStore, target: Snapshot) -> CommitContentionError:
    return CommitContentionError(
        f"{store.name}: others commit all the time, so it was not brought to the state of snapshot {target.id}; "
        "try again",
        table=store.name,
        snapshot_id=target.id,
    )


def check_newest(store: TableStore, latest: Snapshot | None, expected: int | None) -> None:
    """Raise CommitConflictError if a newest snapshot is expected that has another id."""
    newest = None if latest is None else latest.id
    if expected is not None and newest != expected:
        raise CommitConflictError(
            f"{store.name} was not rolled back: its newest snapshot is {newest}, not {expected}",
            table=store.name,
            snapshot_id=newest,
        )


def _draft(store: TableStore, latest: Snapshot | None, target: Snapshot, properties: Mapping[str, str]) -> _Draft:
    """Write the metadata of the snapshot that brings the newest state to another one."""
    live, entries = _difference(store, latest, target)
    manifests, schema_id = store.manifests, target.schema_id
    # The files of the newest state are listed anew. On top of its own manifests, a file that it had deleted would be
    # added again, and an engine that merges only the last manifests refuses an addition after a deletion.
    base = manifests.write(live, schema_id=schema_id)
    delta = manifests.write(entries, schema_id=schema_id)
    base_list, delta_list = manifests.write_list(base), manifests.write_list(delta)
    snapshot = replace(
        _with_lists(target, base_list, delta_list, record_count(entries)),
        id=1 if latest is None else latest.id + 1,
        next_row_id=max(target.next_row_id or 0, 0 if latest is None else latest.next_row_id or 0),
    )
    snapshot = replace(snapshot, properties={**snapshot.properties, **properties})
    names = (base_list[0], delta_list[0], *(file.file_name for file in (*base, *delta)))
    return _Draft(snapshot, entries, names)


def _with_lists(target: Snapshot, base: tuple[str, int], delta: tuple[str, int], changed: int) -> Snapshot:
    """Return a new commit with the state of a snapshot, and its own manifest lists (names and sizes)."""
    return replace(
        target,
        base_manifest_list=base[0],
        base_manifest_list_size=base[1],
        delta_manifest_list=delta[0],
        delta_manifest_list_size=delta[1],
        changelog_manifest_list=None,
        changelog_manifest_list_size=None,
        changelog_record_count=None,
        delta_record_count=changed,
        commit_user=str(uuid.uuid4()),
        commit_identifier=MAX_LONG,
        commit_kind=CommitKind.OVERWRITE,
        time_millis=time.time_ns() // 1_000_000,
        uuid=str(uuid.uuid4()),
        writer_version=f"lakewright-{__version__}",
        operation=None,
        properties={key: value for key, value in target.properties.items() if key not in {COPY_OF, COVER_OF}},
    )


def _difference(
    store: TableStore, latest: Snapshot | None, target: Snapshot
) -> tuple[list[ManifestEntry], tuple[ManifestEntry, ...]]:
    """Return the files of the newest state, and what changes it into the other one.

    Where the newest state cannot be read, the files of the other one, and no change: going back must be possible.
    """
    wanted = {entry.identity: entry for entry in store.manifests.live(target)}
    if latest is not None:
        with suppress(CorruptTableError, NotFoundError, FileNotFoundError):
            live = {entry.identity: entry for entry in store.manifests.live(latest)}
            gone = [replace(entry, kind=DELETE) for key, entry in live.items() if key not in wanted]
            back = [entry for key, entry in wanted.items() if key not in live]
            return list(live.values()), (*gone, *back)
    return list(wanted.values()), ()


def _discard(store: TableStore, draft: _Draft) -> None:
    for name in draft.files:
        with suppress(OSError):
            store.manifests.delete(name)


# ---- Rollback --------------------------------------------------------------------------------------------------------
# First a tag pins the target, and a new snapshot with the wanted state is published on top, so that readers see that
# state at once and writers that are at work plan again on it. Below it the snapshots after the target are replaced by
# copies of the wanted state, and long-lived changelogs and tags are removed. Then the new snapshot and the copies are
# removed, newest first, so that the target is the newest one and there is never a gap in the ids. Manifests and data
# files stay until the removal of orphans, so a reader that has planned on a removed snapshot finishes its read.
#
# Invariant: readers see the state before or the target, never one between, also if the rollback is cut short; the
# same rollback, called again, finishes it. The target is read, with its manifests, before anything is removed. What
# a commit on top of the new snapshot or of a copy stays, and then those below it stay too. A commit of
# lakewright that was planned on a removed snapshot finds that out and plans again; other engines do not look, so let
# their writers rest. Of two calls that change the history, the one whose snapshot on top came later decides: the
# other ends when it finds its own gone.
#
# Where a server owns the history, it removes the later snapshots itself.

RESTORED = "rollback-to-as-latest-"  # begins the names of tags that protect a state which was published again


@dataclass(frozen=True, slots=True)
class RollbackResult(HtmlRepr):
    """What a rollback removed, or would remove: ids of snapshots and names of tags after the target."""

    snapshot_id: int  # the newest snapshot afterwards, unless others committed in the meantime
    snapshot_ids: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    dry_run: bool = False


def rollback(
    store: TableStore, target: int | str, *, from_snapshot: int | None = None, dry_run: bool = False
) -> RollbackResult:
    """Bring a table back to a snapshot (by its id) or a tag (by its name).

    With `from_snapshot` only if that is the id of the newest snapshot.
    """
    snapshot = _target(store, target)
    store.manifests.without_cache().files_of(snapshot)  # raises an error if the target cannot be read
    owner = store.home.history
    if dry_run or owner is not None:
        check_newest(store, store.snapshots.latest(), from_snapshot)
        store.check_same_table()
    if dry_run:
        return _removed_by(store, snapshot.id, dry_run=True)
    if owner is not None:
        before = _removed_by(store, snapshot.id, dry_run=False)
        owner.rollback(target, from_snapshot)
        result = _without(before, _removed_by(store, snapshot.id, dry_run=False))
    else:
        # The target is the same in every try, also if another call gives its id to another snapshot.
        result = until_undisturbed(store, lambda: _rollback(store, snapshot, from_snapshot))
    with suppress(OSError):  # a record of a removed snapshot is recognised as long as that has not expired
        settle_jobs(store, snapshot)
    _warn_of_consumers(store, snapshot.id)
    return result


def settle_jobs(store: TableStore, kept: Snapshot | None = None, *, lost: Collection[int] = ()) -> None:
    """Forget the jobs whose snapshots were removed, and let those that were begun later be searched from `kept` on.

    `lost` are the ids of removed snapshots, where what is left does not show that they did not expire.
    """
    newest, ids = store.snapshots.latest(), store.snapshots.ids()

    def was_removed(recorded: Snapshot) -> bool:
        has_expired = bool(ids) and recorded.id < ids[0]
        if recorded.id in lost:
            return True
        return is_removed(newest, None if has_expired else store.snapshots.find(recorded.id), ids, recorded)

    store.jobs.forget_removed(was_removed, SeenSnapshot.of(kept), time.time_ns() // 1_000_000)
    for job in store.jobs.all_begun() if kept is not None else ():
        if kept is not None and job.since.id > kept.id:
            store.jobs.begin(replace(job, since=SeenSnapshot.of(kept)), again=True)


def _rollback(store: TableStore, snapshot: Snapshot, from_snapshot: int | None) -> RollbackResult:
    # This is looked up before the newest snapshot, so that nothing is in it that is committed or tagged later.
    result = _removed_by(store, snapshot.id, dry_run=False)
    latest = store.snapshots.latest()
    check_newest(store, latest, from_snapshot)
    store.check_same_table()
    remove_left_pins(store.tags)
    if latest is not None and is_same_commit(latest, snapshot):
        _remove_tags(store, result.tags)  # another engine may have gone back and left them
        remove_changelogs(store, snapshot.id + 1, MAX_LONG)
    else:
        with pin_snapshot(store.tags, snapshot):
            is_there = store.snapshots.holds(snapshot)
            cover = publish_state(store, snapshot, latest, from_snapshot=from_snapshot, is_cover=True)
            with below_cover(store, cover, snapshot.id):
                _go_back(store, snapshot, cover, result, is_there=is_there)
    return result


def _go_back(
    store: TableStore, snapshot: Snapshot, cover: Snapshot, removed: RollbackResult, *, is_there: bool
) -> None:
    """Make a snapshot the newest one, below the one on top that covers this."""
    if not is_there:  # the snapshot of the tag has expired, or another one has its id
        check_covered(store, cover)
        fill_gaps(store, snapshot, cover)
        store.storage.replace(store.layout.snapshot_file(snapshot.id), to_json(snapshot).encode())
    covers = replace_between(store, snapshot, cover)
    remove_changelogs(store, snapshot.id + 1, cover.id)
    _remove_tags(store, {*removed.tags, *_tags_between(store, snapshot.id, cover.id)})
    uncover(store, snapshot, covers)


def restore(store: TableStore, target: int | str, *, from_snapshot: int | None = None) -> Snapshot:
    """Publish the state of a snapshot or a tag as a new snapshot on top; all snapshots and tags stay.

    If that brings back files that a snapshot in between had removed, the state gets a tag: the expiry of Java deletes
    what an expiring snapshot removed, and does not see that a later one has it again. Java gives it such a tag too.
    """
    snapshot = _target(store, target)
    return until_undisturbed(store, lambda: _restore(store, snapshot, from_snapshot, tagged=isinstance(target, str)))


def _restore(store: TableStore, snapshot: Snapshot, from_snapshot: int | None, *, tagged: bool) -> Snapshot:
    latest = store.snapshots.latest()
    check_newest(store, latest, from_snapshot)
    if latest is not None and is_same_commit(latest, snapshot):
        return latest
    if store.home.history is not None:
        return publish_state(store, snapshot, latest, from_snapshot=from_snapshot)
    with pin_snapshot(store.tags, snapshot) as pin:
        published = publish_state(store, snapshot, latest, from_snapshot=from_snapshot)
        with _not_finished(store, published, "no tag protects it"):
            if not tagged and _brings_back(store, latest, published):
                # The snapshot itself may have expired by now. If a rollback has happened and removed the pin as well,
                # there is nothing left to protect; the state was published all the same.
                with suppress(NotFoundError):
                    store.tags.create(f"{RESTORED}{snapshot.id}-{uuid.uuid4()}", snapshot, kept_by=pin)
        return published


def _brings_back(store: TableStore, latest: Snapshot | None, published: Snapshot) -> bool:
    """Return whether a snapshot has files that the newest one before it did not have."""
    index, statistics = (None, None) if latest is None else (latest.index_manifest, latest.statistics)
    if published.index_manifest not in {None, index} or published.statistics not in {None, statistics}:
        return True
    return any(entry.kind == ADD for entry in store.manifests.delta(published))


class CoverGoneError(Exception):
    """The snapshot that covers the changes below it is gone: others have changed the history after it."""


@contextmanager
def below_cover(store: TableStore, cover: Snapshot, first_id: int) -> Iterator[None]:
    """Change snapshots from an id on below the one on top that covers them; stop, and tidy up, once that is gone."""
    try:
        with _not_finished(store, cover, "what it replaces was not removed"):
            yield
    except CoverGoneError:
        _remove_below_gap(store, first_id)


@contextmanager
def _not_finished(store: TableStore, published: Snapshot, what: str) -> Iterator[None]:
    """Raise CommitUnknownError for every error, which may say that nothing was changed: the state was published."""
    try:
        yield
    except (LakewrightError, OSError) as cause:
        raise CommitUnknownError(
            f"{store.name}: snapshot {published.id} has the wanted state, but {what} ({cause}); make the same call "
            "again to finish it",
            table=store.name,
            snapshot_id=published.id,
        ) from cause


def check_covered(store: TableStore, cover: Snapshot) -> None:
    """Raise CoverGoneError if the snapshot that covers changes is gone."""
    if not store.snapshots.holds(cover):
        raise CoverGoneError


def replace_between(
    store: TableStore, kept: Snapshot, cover: Snapshot, *, first_id: int | None = None
) -> list[Snapshot]:
    """Replace the snapshots between the one that is to be the newest and the one on top by copies of the wanted state.

    With `first_id` those from that id on, which may be below the one that is to be the newest. So no id becomes free
    while others may plan on the snapshot on top, there is never a gap in the ids, and whatever others extend of it has
    the wanted state. Return the snapshots to remove in the end, newest first.
    """
    check_covered(store, cover)
    first_id = kept.id + 1 if first_id is None else first_id
    between = [snapshot_id for snapshot_id in store.snapshots.ids() if first_id <= snapshot_id < cover.id]
    if not between:
        return [cover]
    state = write_unchanged(store, kept)
    copies = [replace(state, id=snapshot_id) for snapshot_id in reversed(between)]

    map_concurrently(store.storage, lambda copy: replace_below(store, cover, copy, to_json(copy).encode()), copies)
    return [cover, *(copy for copy in copies if copy.id > kept.id)]


def replace_below(store: TableStore, cover: Snapshot, snapshot: Snapshot, data: bytes) -> None:
    """Write the file of a snapshot below the one on top, or raise CoverGoneError and leave none."""
    check_covered(store, cover)
    store.storage.replace(store.layout.snapshot_file(snapshot.id), data)
    if not store.snapshots.holds(cover):  # another call was faster, and the id may be free by its will
        if store.snapshots.holds(snapshot):
            store.storage.delete(store.layout.snapshot_file(snapshot.id), durable=True)
        raise CoverGoneError


def uncover(store: TableStore, kept: Snapshot, covers: Sequence[Snapshot], *, first_id: int | None = None) -> None:
    """Remove the snapshots that covered the changes below them, newest first, until others have committed on top.

    Then an expiry may have removed some of them; those that it left below, from `first_id` on, are removed as well.
    """
    check_covered(store, covers[0])
    filled = fill_gaps(store, kept, covers[0])
    write_hints(store)  # makes what was changed below durable: a power cut must not bring it back uncovered
    by_id = {cover.id: cover for cover in (*covers, *filled)}
    removed: list[Snapshot] = []
    for cover_id, cover in sorted(by_id.items(), reverse=True):
        newest = store.snapshots.latest_id() or 0
        if newest > cover_id or (newest == cover_id and not store.snapshots.holds(cover)):
            break
        if newest == cover_id:  # else an expiry has removed it
            store.storage.delete(store.layout.snapshot_file(cover_id), durable=True)
            removed.append(cover)
    newest = store.snapshots.latest_id() or 0
    for cover in removed:
        if cover.id < newest:  # a commit that was planned on it came in the same moment: no gap shall be below that
            store.storage.create(store.layout.snapshot_file(cover.id), to_json(cover).encode())
    if newest > kept.id:
        _remove_below_gap(store, kept.id if first_id is None else first_id)
    else:
        _put_back(store, kept)
    write_hints(store)


def fill_gaps(store: TableStore, kept: Snapshot, cover: Snapshot) -> list[Snapshot]:
    """Put back a snapshot that an expiry has removed, and copies of it below the one on top.

    Its files are pinned. The newest is put first, so that this makes no gap in the ids. An expiry removes the oldest
    snapshots first: if there is an older one, a rollback went back to that. Return the copies, newest first.
    """
    ids = store.snapshots.ids()
    missing = sorted({*range(kept.id + 1, cover.id)} - {*ids}, reverse=True)
    state = write_unchanged(store, kept) if missing else kept
    copies = [replace(state, id=snapshot_id) for snapshot_id in missing]
    for snapshot in (*copies, kept) if ids and ids[0] > kept.id else copies:
        store.storage.create(store.layout.snapshot_file(snapshot.id), to_json(snapshot).encode())
    return copies


def _remove_below_gap(store: TableStore, first_id: int) -> None:
    """Remove the snapshots from an id on that are below a gap, oldest first: they are not in the history."""
    ids = store.snapshots.ids()
    for snapshot_id in ids[bisect_left(ids, first_id) : bisect_left(ids, run_start(ids))]:
        store.storage.delete(store.layout.snapshot_file(snapshot_id))


def _put_back(store: TableStore, kept: Snapshot) -> None:
    """Put back a snapshot that an expiry at work has removed, unless others have committed meanwhile."""
    if not store.snapshots.ids():
        store.storage.create(store.layout.snapshot_file(kept.id), to_json(kept).encode())


def remove_changelogs(store: TableStore, first_id: int, end: int) -> None:
    """Remove the long-lived changelogs from an id on, those below another id, newest first."""
    ids = store.changelogs.ids()
    newer = [snapshot_id for snapshot_id in ids if first_id <= snapshot_id < end]
    for snapshot_id in reversed(newer):
        store.storage.delete(store.layout.changelog_file(snapshot_id))
    kept = [snapshot_id for snapshot_id in ids if snapshot_id not in newer]
    if newer and kept:
        store.storage.replace(f"{store.layout.changelog_directory}/LATEST", b"%d" % kept[-1])
    elif newer:
        for hint in ("LATEST", "EARLIEST"):  # Java takes a hint for true, and looks for a changelog below it
            store.storage.delete(f"{store.layout.changelog_directory}/{hint}", durable=True)


def write_hints(store: TableStore) -> None:
    """Write both hints of the snapshots that exist; this makes the removal of the others durable as well."""
    ids = store.snapshots.ids()
    if ids:
        store.storage.replace(store.layout.earliest_hint, b"%d" % ids[0], durable=False)
        store.storage.replace(store.layout.latest_hint, b"%d" % ids[-1])


def _removed_by(store: TableStore, kept_id: int, *, dry_run: bool) -> RollbackResult:
    ids = tuple(snapshot_id for snapshot_id in store.snapshots.ids() if snapshot_id > kept_id)
    return RollbackResult(kept_id, ids, _tags_between(store, kept_id, MAX_LONG), dry_run)


def _without(before: RollbackResult, left: RollbackResult) -> RollbackResult:
    """Return what a server removed: of what came after the target before the call, what is gone now."""
    ids = tuple(snapshot_id for snapshot_id in before.snapshot_ids if snapshot_id not in left.snapshot_ids)
    return RollbackResult(before.snapshot_id, ids, tuple(name for name in before.tags if name not in left.tags))


def _tags_between(store: TableStore, first_id: int, end: int) -> tuple[str, ...]:
    tags = store.tags.all()
    return tuple(tag.name for tag in tags if first_id < tag.snapshot.id < end and not is_pin(tag.name))


def _remove_tags(store: TableStore, names: Iterable[str]) -> None:
    for name in names:
        store.storage.delete(store.layout.tag_file(name), durable=True)


def _target(store: TableStore, target: int | str) -> Snapshot:
    if isinstance(target, str):
        return store.tags.get(target).snapshot
    snapshot = store.snapshots.find(target)
    if snapshot is not None:
        return snapshot
    tags = store.tags.all()
    tagged = next((tag.snapshot for tag in tags if tag.snapshot.id == target), None)
    if tagged is not None:
        return tagged
    ids = sorted({*store.snapshots.ids(), *(tag.snapshot.id for tag in tags)})
    below = max((i for i in ids if i < target), default=None)
    above = min((i for i in ids if i > target), default=None)
    near = " and ".join(str(i) for i in (below, above) if i is not None)
    raise NotFoundError(
        f"{store.name}: snapshot {target} doesn't exist; {f'the nearest: {near}' if near else 'there is none at all'}",
        table=store.name,
        snapshot_id=target,
        snapshots=tuple(ids),
    )


def _warn_of_consumers(store: TableStore, kept_id: int) -> None:
    """Warn of consumers that would skip the next commits, because they wait for a snapshot that was removed."""
    with suppress(CorruptTableError, OSError):
        beyond = sorted(name for name, number in store.consumers.all().items() if number > kept_id + 1)
        if beyond:
            warnings.warn(
                f"{store.name}: the consumers {', '.join(beyond)} wait for snapshots after {kept_id + 1} and will not "
                "read what is committed before; reset or delete them",
                LakewrightWarning,
                stacklevel=4,
            )
