"""Rollback: the id of a snapshot or the name of a tag in; the table is at that state, and what came after it is gone.

First a tag pins the target, and a new snapshot with the wanted state is published on top, so that readers see that
state at once and writers that are at work plan again on it. Below it the snapshots after the target are replaced by
copies of the wanted state, and long-lived changelogs and tags are removed. Then the new snapshot and the copies are
removed, newest first, so that the target is the newest one and there is never a gap in the ids. Manifests and data
files stay until the removal of orphans, so a reader that has planned on a removed snapshot finishes its read.

Always holds: readers see the state before or the target, never one between, also if the rollback is cut short; the same
rollback, called again, finishes it. The target is read, with its manifests, before anything is removed. What somebody
commits on top of the new snapshot or of a copy stays, and then those below it stay too. A commit of lakewright that was
planned on a removed snapshot finds that out and plans again; other engines do not look, so let their writers rest. Of
two calls that change the history, the one whose snapshot on top came later decides: the other ends when it finds its
own gone.

Where a server owns the history, it removes the later snapshots itself.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from lakewright.display.notebook import InNotebook
from lakewright.errors import (
    CorruptTableError,
    LakewrightWarning,
    NotFoundError,
)
from lakewright.maintenance.restore import (
    check_newest,
    is_pin,
    pinned,
    publish_state,
    remove_left_pins,
    unchanged,
    until_undisturbed,
)
from lakewright.metadata.job_records import is_removed
from lakewright.metadata.store import TableStore
from lakewright.spec.manifest import ADD
from lakewright.spec.snapshot import MAX_LONG, SeenSnapshot, Snapshot, is_same_state, to_json
from lakewright.storage.side_by_side import each

RESTORED = "rollback-to-as-latest-"  # begins the names of tags that protect a state which was published again


@dataclass(frozen=True, slots=True)
class RollbackResult(InNotebook):
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


def settle_jobs(store: TableStore, kept: Snapshot | None = None) -> None:
    """Forget the jobs whose snapshots were removed, and let those that were begun later be searched from `kept` on."""
    newest, ids = store.snapshots.latest(), store.snapshots.ids()

    def was_removed(recorded: Snapshot) -> bool:
        has_expired = bool(ids) and recorded.id < ids[0]
        return is_removed(newest, None if has_expired else store.snapshots.find(recorded.id), ids, recorded)

    store.jobs.forget_removed(was_removed)
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
    if latest is not None and is_same_state(latest, snapshot):
        _remove_tags(store, result.tags)  # another engine may have gone back and left them
        remove_changelogs(store, snapshot.id + 1, MAX_LONG)
    else:
        with pinned(store.tags, snapshot):
            is_there = store.snapshots.holds(snapshot)
            cover = publish_state(store, snapshot, latest, from_snapshot=from_snapshot)
            with suppress(CoverGoneError):
                _go_back(store, snapshot, cover, result, is_there=is_there)
    return result


def _go_back(
    store: TableStore, snapshot: Snapshot, cover: Snapshot, removed: RollbackResult, *, is_there: bool
) -> None:
    """Make a snapshot the newest one, below the one on top that covers this."""
    if not is_there:  # the snapshot of the tag has expired, or another one has its id
        check_covered(store, cover)
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
    if latest is not None and is_same_state(latest, snapshot):
        return latest
    if store.home.history is not None:
        return publish_state(store, snapshot, latest, from_snapshot=from_snapshot)
    with pinned(store.tags, snapshot):
        published = publish_state(store, snapshot, latest, from_snapshot=from_snapshot)
        if not tagged and _brings_back(store, latest, published):
            store.tags.create(f"{RESTORED}{snapshot.id}-{uuid.uuid4()}", snapshot)
        return published


def _brings_back(store: TableStore, latest: Snapshot | None, published: Snapshot) -> bool:
    """Say whether a snapshot has files that the newest one before it did not have."""
    index, statistics = (None, None) if latest is None else (latest.index_manifest, latest.statistics)
    if published.index_manifest not in {None, index} or published.statistics not in {None, statistics}:
        return True
    return any(entry.kind == ADD for entry in store.manifests.delta(published))


class CoverGoneError(Exception):
    """The snapshot that covers the changes below it is gone: others have changed the history after it."""


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
    state = unchanged(store, kept)
    copies = [replace(state, id=snapshot_id) for snapshot_id in reversed(between)]

    def put(copy: Snapshot) -> None:
        check_covered(store, cover)
        store.storage.replace(store.layout.snapshot_file(copy.id), to_json(copy).encode())
        if not store.snapshots.holds(cover):  # another call was faster, and the id may be free by its will
            if store.snapshots.holds(copy):
                store.storage.delete(store.layout.snapshot_file(copy.id), durable=True)
            raise CoverGoneError

    each(store.storage, put, copies)
    return [cover, *(copy for copy in copies if copy.id > kept.id)]


def uncover(store: TableStore, kept: Snapshot, covers: Sequence[Snapshot]) -> None:
    """Remove the snapshots that covered the changes below them, newest first, until others have committed on top."""
    check_covered(store, covers[0])
    filled = _fill_gaps(store, kept, covers[0])
    write_hints(store)  # makes what was changed below durable: a power cut must not bring it back uncovered
    by_id = {cover.id: cover for cover in (*covers, *filled)}
    for _, cover in sorted(by_id.items(), reverse=True):
        if not _remove_newest(store, cover):
            break  # others have committed on top: what an expiry removes below them may go
    else:
        _put_back(store, kept)
    write_hints(store)


def _remove_newest(store: TableStore, cover: Snapshot) -> bool:
    """Remove a snapshot if it is the newest; False if others have committed on top of it, and it stays.

    A commit that was planned on it may come in the same moment. Then it is put back, so that there is no gap below.
    """
    newest = store.snapshots.latest_id() or 0
    if newest < cover.id:
        return True  # an expiry has removed it
    if newest > cover.id or not store.snapshots.holds(cover):
        return False
    path = store.layout.snapshot_file(cover.id)
    store.storage.delete(path, durable=True)
    if not store.snapshots.exists(cover.id + 1):
        return True
    store.storage.create(path, to_json(cover).encode())
    return False


def _fill_gaps(store: TableStore, kept: Snapshot, cover: Snapshot) -> list[Snapshot]:
    """Put back a snapshot that an expiry at work has removed, and copies of it below the one on top.

    Its files are pinned. The newest is put first, so that this makes no gap in the ids. An expiry removes the oldest
    snapshots first: if there is an older one, somebody went back to that. Return the copies, newest first.
    """
    ids = store.snapshots.ids()
    missing = sorted({*range(kept.id + 1, cover.id)} - {*ids}, reverse=True)
    state = unchanged(store, kept) if missing else kept
    copies = [replace(state, id=snapshot_id) for snapshot_id in missing]
    for snapshot in (*copies, kept) if ids and ids[0] > kept.id else copies:
        store.storage.create(store.layout.snapshot_file(snapshot.id), to_json(snapshot).encode())
    return copies


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
    with suppress(CorruptTableError):
        beyond = sorted(name for name, number in store.consumers.all().items() if number > kept_id + 1)
        if beyond:
            warnings.warn(
                f"{store.name}: the consumers {', '.join(beyond)} wait for snapshots after {kept_id + 1} and will not "
                "read what is committed before; reset or delete them",
                LakewrightWarning,
                stacklevel=4,
            )
