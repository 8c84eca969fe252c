"""A state of the past as the newest one: a snapshot in, a new snapshot on top that has the same files out.

The new snapshot is an OVERWRITE: it deletes the files that only the newest snapshot has and adds those that only the
wanted one has, so that writers, readers of changes and expiry see what happened. Nothing is removed. Index files and
statistics are those of the wanted state, and so is the schema that it records.

Always holds: the snapshot is published like any commit, by creating the file of the next id, so of two writers one
wins. While it is being made, a tag with a name of its own pins the wanted state (`pinned`), so that no expiry deletes
its files. A call that is cut short leaves that tag; it goes with a later call, or after a day with the expired tags.
What a call found out about the table before it published holds until then: if another call has changed the history in
between, it begins again (`until_undisturbed`).
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from lakewright.commit.changes import record_count
from lakewright.commit.publish import confirm_published, publisher_of
from lakewright.errors import (
    CommitConflictError,
    CommitContentionError,
    CommitUnknownError,
    CorruptTableError,
    NotFoundError,
)
from lakewright.metadata.home import LostRace, Outcome, Published, Unknown
from lakewright.metadata.refs import Tags
from lakewright.metadata.store import TableStore
from lakewright.spec.manifest import DELETE, ManifestEntry
from lakewright.spec.snapshot import COPY_OF, MAX_LONG, CommitKind, Snapshot, is_same_state
from lakewright.version import __version__

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
    """Say whether the name of a tag is one that `pinned` gives."""
    return _PIN.fullmatch(tag) is not None


@contextmanager
def pinned(tags: Tags, snapshot: Snapshot) -> Iterator[None]:
    """Keep the files of a snapshot by a tag until the block ends; a snapshot that has expired is a NotFoundError."""
    name = f"rollback-of-{snapshot.id}-{uuid.uuid4().hex[:8]}"
    tags.create(name, snapshot, time_retained_millis=_PIN_MILLIS)
    try:
        yield
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
) -> Snapshot:
    """Publish a snapshot on top of the newest one that has the state of another, and return it.

    `since` is the snapshot that was the newest when the target was chosen: if it was removed or replaced in the
    meantime, nothing is published, and a HistoryChangedError is raised; with `only_on_it` also if others have committed
    on it. With `from_snapshot` only if that is the id of the newest.
    """
    publisher = publisher_of(store)
    for _ in range(_TRIES_MAX):
        latest = store.snapshots.latest()
        _check_unchanged(store, latest, since)
        if only_on_it and (None if latest is None else latest.id) != (None if since is None else since.id):
            raise HistoryChangedError
        check_newest(store, latest, from_snapshot)
        draft = _draft(store, latest, target)
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
    if since is None or (latest is not None and is_same_state(latest, since)) or store.home.history is not None:
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
        cover = publish_state(store, target, since, only_on_it=only_on_it)
        copy = None
        while cover.id <= above:
            copy = copy or unchanged(store, target)
            following = replace(copy, id=cover.id + 1, commit_user=str(uuid.uuid4()), uuid=str(uuid.uuid4()))
            if not _is_ours(store, target, publisher.publish(following, cover)):
                break
            _is_ours(store, target, confirm_published(store, cover, following, ()))
            cover = following
        else:
            store.snapshots.write_latest_hint(cover.id)
            return cover
    raise _contention(store, target)


def unchanged(store: TableStore, target: Snapshot) -> Snapshot:
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
    """Say whether a snapshot was published; False if another one was first. An unknown outcome is an error."""
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


def _draft(store: TableStore, latest: Snapshot | None, target: Snapshot) -> _Draft:
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
        properties={key: value for key, value in target.properties.items() if key != COPY_OF},
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
