"""Branches: lines of history beside a table's own, each a directory with schemas, snapshots and tags.

Names come in; a branch is made, dropped, renamed, or becomes the state of the current branch. Manifests and data files
are shared by all branches, so none is copied or removed here.

Always holds: on disks a branch appears and disappears in one step, by the renaming of its directory. An object store
cannot do that: there the schema with the lowest number is written last and deleted first, and a branch without it is
one whose creation or drop was cut short. The same call, made again, finishes it. A fast-forward publishes the new state
on top at once, goes back to the last common snapshot below it and then forward, and removes what it put on top.

Where a server owns the history, it does all of this.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lakewright.commit.files import prune_dropped_table
from lakewright.errors import (
    BranchAlreadyExistException,
    BranchNotExistException,
    CommitContentionError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from lakewright.maintenance.restore import is_pin, pinned, publish_above, remove_left_pins, until_undisturbed
from lakewright.maintenance.rollback import (
    CoverGoneError,
    check_covered,
    remove_changelogs,
    replace_between,
    uncover,
    write_hints,
)
from lakewright.metadata.refs import HIDDEN_BRANCH, Tags
from lakewright.metadata.schemas import Schemas
from lakewright.metadata.snapshots import Snapshots
from lakewright.metadata.store import TableStore
from lakewright.spec.snapshot import MAX_LONG, Snapshot, Tag, is_same_state, snapshot_from_json, to_json
from lakewright.storage.base import Storage
from lakewright.storage.layout import MAIN_BRANCH, Layout, check_name, numbered

_USES = ("scan.fallback-branch", "scan.primary-branch")  # options of a table that name a branch


def create_branch(store: TableStore, name: str, tag: str | None = None, *, snapshot_id: int | None = None) -> None:
    """Make a branch at the state of a tag or a snapshot; without one, an empty branch with the table's schemas."""
    check_name("branch", name)
    if tag is not None and snapshot_id is not None:
        raise InvalidInputError(f"{store.name}: a branch begins at a tag or at a snapshot, not at both", branch=name)
    if (owner := store.home.history) is not None:
        store.check_same_table()
        if snapshot_id is not None:
            raise UnsupportedError(
                f"{store.name}: the server makes branches of tags only; give snapshot {snapshot_id} a tag, and name it",
                table=store.name,
            )
        owner.create_branch(name, tag)
        return
    target = store.layout.for_branch(name)
    if _is_whole(store, target) or (store.storage.renames_atomically and name in _names(store)):
        raise _taken(store, name)
    source = _source(store, tag, snapshot_id)
    files = _first_files(store, tag, source)
    store.check_same_table()
    _install(store, target, files)
    try:
        store.check_same_table()
        _check_source(store, tag, snapshot_id, source)
    except NotFoundError:
        _remove(store, target)
        prune_dropped_table(store)
        raise


def drop_branch(store: TableStore, name: str) -> None:
    """Remove a branch. Files that only it named become orphans."""
    _check_given(store, name)
    used = [key for key in _USES if store.schema.options.get(key) == name]
    if used:
        raise InvalidInputError(
            f"{store.name}: branch {name!r} is the table's {used[0]!r}; remove the option before the branch",
            table=store.name,
            branch=name,
        )
    store.check_same_table()
    if (owner := store.home.history) is not None:
        owner.drop_branch(name)
        return
    _remove(store, store.layout.for_branch(name))


def rename_branch(store: TableStore, old: str, new: str) -> None:
    """Give a branch another name. On object stores its files are copied one by one: let no writer run meanwhile.

    There, if the last step fails, the branch has both names, and one of them can be dropped.
    """
    check_name("branch", new)
    _check_given(store, old)
    if (owner := store.home.history) is not None:
        store.check_same_table()
        owner.rename_branch(old, new)
        return
    source, target = store.layout.for_branch(old), store.layout.for_branch(new)
    if store.storage.renames_atomically:
        if new in _names(store):
            raise _taken(store, new)
        store.check_same_table()
        try:
            store.storage.rename_directory(source.branch_root, target.branch_root)
        except FileExistsError as cause:
            raise _taken(store, new) from cause
        except FileNotFoundError as cause:
            raise _missing(store, old, _names(store)) from cause
        return
    files = _content(store, source)
    if not _is_whole(store, source):
        raise _incomplete(store, old)
    store.check_same_table()
    if _is_whole(store, target):
        raise _taken(store, new)
    _install(store, target, files)
    _remove(store, source)


def fast_forward(store: TableStore, name: str) -> None:
    """Bring the current branch (the table itself, usually) to the state of another branch, which stays as it is.

    Snapshots, schemas and tags of the current branch that the other does not have, from the first snapshot of the
    other on, are removed. If the current branch does not have that first snapshot, the ones before it are not known to
    be its past, and are removed too.
    """
    try:
        until_undisturbed(store, lambda: _fast_forward(store, name))
    except FileNotFoundError:
        _check_given(store, name)  # it may have been dropped or renamed while it was read
        raise


def _fast_forward(store: TableStore, name: str) -> None:
    if name == store.layout.branch:
        raise InvalidInputError(f"{store.name} is branch {name!r} itself: give another one", branch=name)
    _check_given(store, name)
    if (owner := store.home.history) is not None:
        store.check_same_table()
        owner.fast_forward(name)
        return
    source = store.layout.for_branch(name)
    wanted = _snapshot_files(store, source)
    if not wanted:
        raise InvalidInputError(
            f"{store.name}: branch {name!r} has no snapshot to forward to; write to it first",
            table=store.name,
            branch=name,
        )
    if not _is_whole(store, source):
        raise _incomplete(store, name)
    target = _parsed(wanted[max(wanted)], source, max(wanted))
    store.manifests.without_cache().files_of(target)  # raises an error if it cannot be read
    schemas = _schema_files(store.storage, source)
    store.check_same_table()
    _add_schemas(store, schemas)
    own, tags = _schema_files(store.storage, store.layout), Tags(store.storage, source)
    remove_left_pins(tags)
    named = _tag_files(tags)  # read before anything changes: the other branch may be renamed or dropped meanwhile
    # A call that was cut short may have left tags of snapshots that are gone. They are read before the newest snapshot,
    # so that none of what is committed later is among them.
    before = store.tags.all()
    latest = store.snapshots.latest()
    first_id = _first_new(store, wanted, source)
    branch = _Forwarded(wanted, schemas, named, first_id)
    if first_id > target.id >= (0 if latest is None else latest.id):
        _replace_schemas(store, schemas)
        _move_tags(store, named, min(wanted), before)
    elif any(own.get(path) != data for path, data in schemas.items()):
        # Both branches have a schema of one number in different forms: the files of one cannot be read with the
        # other's, so the new state cannot be on top of the old ones, and the table goes through the states between.
        _move_snapshots(store, wanted, schemas, first_id)
        if first_id == min(wanted):
            _remove_below(store, first_id, schemas)
        remove_changelogs(store, first_id, MAX_LONG)
        _move_tags(store, named, min(wanted), store.tags.all())
        write_hints(store)
    else:
        with pinned(tags, target):
            cover = publish_above(store, target, latest, target.id)
            with suppress(CoverGoneError):
                _take_over(store, branch, target, cover, before)


@dataclass(frozen=True, slots=True)
class _Forwarded:
    """The other branch of a fast-forward: its files as they were when the call began."""

    snapshots: Mapping[int, bytes]
    schemas: Mapping[str, bytes]
    tags: Mapping[str, bytes]
    first_id: int  # the first snapshot that the current branch lacks, or has in another form


def _take_over(store: TableStore, branch: _Forwarded, target: Snapshot, cover: Snapshot, before: Iterable[Tag]) -> None:
    """Replace the history of the current branch by that of the other, below the snapshot on top that covers this."""
    first_id, earliest = branch.first_id, min(branch.snapshots)
    check_covered(store, cover)
    if first_id == earliest:
        _remove_below(store, first_id, branch.schemas)
    covers = replace_between(store, target, cover, first_id=first_id)
    _copy_snapshots(store, branch.snapshots, first_id)
    _replace_schemas(store, branch.schemas)
    remove_changelogs(store, first_id, cover.id)
    covered = [tag for tag in store.tags.all() if tag.snapshot.id < cover.id]
    _move_tags(store, branch.tags, earliest, [*before, *covered])
    uncover(store, target, covers)


def _remove_below(store: TableStore, first_id: int, schemas: Mapping[str, bytes]) -> None:
    """Remove the own snapshots and changelogs below the first snapshot of the other branch: they are not its past.

    Tags of them stay, but for those whose schema the other branch has not, or has in another form.
    """
    for snapshot_id in store.snapshots.ids():  # oldest first, as they expire
        if snapshot_id < first_id:
            store.storage.delete(store.layout.snapshot_file(snapshot_id))
    remove_changelogs(store, 0, first_id)
    own = _schema_files(store.storage, store.layout)
    for tag in store.tags.all():
        path = _inner(store.layout, store.layout.schema_file(tag.snapshot.schema_id))
        if tag.snapshot.id < first_id and not is_pin(tag.name) and schemas.get(path) != own.get(path):
            store.storage.delete(store.layout.tag_file(tag.name), durable=True)


def _copy_snapshots(store: TableStore, wanted: Mapping[int, bytes], first_id: int) -> None:
    """Write the snapshots of the other branch over those of the current one; the state on top covers them."""
    own = [i for i in store.snapshots.ids() if first_id <= i <= max(wanted)]
    for snapshot_id in sorted({*own, *(i for i in wanted if i >= first_id)}):
        path = store.layout.snapshot_file(snapshot_id)
        if snapshot_id in wanted:
            store.storage.replace(path, wanted[snapshot_id])
        else:
            store.storage.delete(path)


def _first_new(store: TableStore, wanted: Mapping[int, bytes], source: Layout) -> int:
    """Return the first id of the other branch whose snapshot the current branch lacks, or has in another form."""
    for snapshot_id in sorted(wanted):
        own = store.snapshots.find(snapshot_id)
        if own is None or not is_same_state(own, _parsed(wanted[snapshot_id], source, snapshot_id)):
            return snapshot_id
    return max(wanted) + 1


def _move_snapshots(
    store: TableStore, wanted: Mapping[int, bytes], schemas: Mapping[str, bytes], first_id: int
) -> None:
    """Go back to the last common snapshot, and then forward through those of the other branch.

    Without a common snapshot the oldest one is replaced in place, so that the table is never empty in between.
    """
    storage, layout = store.storage, store.layout
    earliest = min(wanted)
    in_place = earliest == first_id and not any(i < earliest for i in store.snapshots.ids())
    if in_place:
        storage.create(layout.snapshot_file(earliest), wanted[earliest])
        first_id = earliest + 1
    for snapshot_id in reversed([i for i in store.snapshots.ids() if i >= first_id]):
        storage.delete(layout.snapshot_file(snapshot_id))
    _replace_schemas(store, schemas)
    if in_place:
        storage.replace(layout.snapshot_file(earliest), wanted[earliest])
    for snapshot_id in sorted(i for i in wanted if i >= first_id):
        if not storage.create(layout.snapshot_file(snapshot_id), wanted[snapshot_id]):
            raise CommitContentionError(
                f"{store.name}: others commit while it is being forwarded; stop the writers and try again",
                table=store.name,
                snapshot_id=snapshot_id,
            )


def _add_schemas(store: TableStore, schemas: Mapping[str, bytes]) -> None:
    """Add the schemas of the other branch that the current one lacks: a schema may be newer than all snapshots."""
    for path, data in schemas.items():
        store.storage.create(f"{store.layout.branch_root}/{path}", data)


def _replace_schemas(store: TableStore, schemas: Mapping[str, bytes]) -> None:
    """Replace the schemas that both branches have in different forms, and remove those that only the current one has.

    Only removed snapshots were written with them: the schemas of a common snapshot are common too. A call that was cut
    short may have left a tag of such a snapshot.
    """
    own = _schema_files(store.storage, store.layout)
    gone = [path for path in own if path not in schemas]  # newest first
    for tag in store.tags.all() if gone else ():
        if is_pin(tag.name) and _inner(store.layout, store.layout.schema_file(tag.snapshot.schema_id)) in gone:
            store.storage.delete(store.layout.tag_file(tag.name), durable=True)
    for path in gone:
        store.storage.delete(f"{store.layout.branch_root}/{path}")
    for path, data in schemas.items():
        if own.get(path) not in {None, data}:
            store.storage.replace(f"{store.layout.branch_root}/{path}", data)


def _tag_files(tags: Tags) -> dict[str, bytes]:
    return {name: tags.storage.read(tags.layout.tag_file(name)) for name in tags.list() if not is_pin(name)}


def _move_tags(store: TableStore, files: Mapping[str, bytes], first_id: int, own: Iterable[Tag]) -> None:
    """Take over the tags of the other branch, and remove the own ones of snapshots that it has otherwise."""
    for tag in own:
        if first_id <= tag.snapshot.id and tag.name not in files and not is_pin(tag.name):
            store.storage.delete(store.layout.tag_file(tag.name), durable=True)
    for name, data in files.items():
        store.storage.replace(store.layout.tag_file(name), data)


# What a branch consists of: relative paths and bytes, in the order in which they are written.


def _source(store: TableStore, tag: str | None, snapshot_id: int | None) -> Snapshot | None:
    """Return the snapshot at which a new branch begins, None for an empty one."""
    if tag is not None:
        return store.tags.get(tag).snapshot
    return None if snapshot_id is None else store.snapshots.get(snapshot_id)


def _check_source(store: TableStore, tag: str | None, snapshot_id: int | None, source: Snapshot | None) -> None:
    """Raise NotFoundError if the tag or snapshot of a new branch is not there any more.

    Then an expiry that did not see the branch may have deleted files of it.
    """
    kept = _source(store, tag, snapshot_id)
    if source is not None and (kept is None or not is_same_state(kept, source)):
        raise NotFoundError(
            f"{store.name}: snapshot {source.id} was replaced while a branch was made of it; try again",
            table=store.name,
            snapshot_id=source.id,
        )


def _first_files(store: TableStore, tag: str | None, source: Snapshot | None) -> dict[str, bytes]:
    """Return the files of a new branch."""
    if tag is not None:
        return _files_of_tag(store, tag)
    if source is None:
        return _schema_files(store.storage, store.layout)
    return {
        _inner(store.layout, store.layout.snapshot_file(source.id)): to_json(source).encode(),
        **_schema_files(store.storage, store.layout, source.schema_id),
    }


def _files_of_tag(store: TableStore, tag_name: str) -> dict[str, bytes]:
    """Return the files of a branch at a tag: the tag, its snapshot and the schemas up to that of the snapshot."""
    layout, tag = store.layout, store.tags.get(tag_name)
    snapshot_id = tag.snapshot.id
    data = to_json(tag.snapshot).encode()  # the snapshot file itself may have expired
    with suppress(FileNotFoundError):
        stored = store.storage.read(layout.snapshot_file(snapshot_id))
        data = stored if is_same_state(_parsed(stored, layout, snapshot_id), tag.snapshot) else data
    try:
        body = store.storage.read(layout.tag_file(tag_name))
    except FileNotFoundError as cause:
        raise NotFoundError(
            f"{store.name}: the tag {tag_name!r} was deleted or renamed while a branch was made of it; try again",
            table=store.name,
            tag=tag_name,
        ) from cause
    return {
        _inner(layout, layout.tag_file(tag_name)): body,
        _inner(layout, layout.snapshot_file(snapshot_id)): data,
        **_schema_files(store.storage, layout, tag.snapshot.schema_id),
    }


def _schema_files(storage: Storage, layout: Layout, newest: int | None = None) -> dict[str, bytes]:
    """Return the schema files, those up to a number if one is given, the highest number first."""
    ids = [i for i in Schemas(storage, layout).ids() if newest is None or i <= newest]
    paths = (layout.schema_file(schema_id) for schema_id in reversed(ids))
    return {_inner(layout, path): storage.read(path) for path in paths}


def _snapshot_files(store: TableStore, layout: Layout) -> dict[int, bytes]:
    ids = Snapshots(store.storage, layout).ids()
    return {snapshot_id: store.storage.read(layout.snapshot_file(snapshot_id)) for snapshot_id in ids}


def _content(store: TableStore, layout: Layout) -> dict[str, bytes]:
    """Return all files of a branch, the schema with the lowest number last."""
    paths = [info.path for info in store.storage.walk(layout.branch_root)]
    files = {_inner(layout, path): store.storage.read(path) for path in paths}
    schemas = numbered((path.removeprefix("schema/") for path in files), "schema-")
    if schemas:
        last = f"schema/schema-{schemas[0]}"
        files[last] = files.pop(last)
    return files


def _inner(layout: Layout, path: str) -> str:
    return path.removeprefix(f"{layout.branch_root}/")


def _parsed(data: bytes, layout: Layout, snapshot_id: int) -> Snapshot:
    return snapshot_from_json(data, path=layout.snapshot_file(snapshot_id))


# Directories that appear and disappear.


def _install(store: TableStore, target: Layout, files: Mapping[str, bytes]) -> None:
    """Write the files of a new branch: aside and then renamed where that is one step, else in order."""
    storage = store.storage
    if storage.renames_atomically:
        staged = _hidden(target)
        try:
            for path, data in files.items():
                storage.create(f"{staged}/{path}", data)
            storage.rename_directory(staged, target.branch_root)
        except FileExistsError as cause:
            storage.delete_directory(staged)
            raise _taken(store, target.branch) from cause
        except FileNotFoundError as cause:
            store.check_same_table()
            raise _disturbed(store, target.branch) from cause
        if not files.keys() <= {_inner(target, info.path) for info in storage.walk(target.branch_root)}:
            _remove(store, target)
            raise _disturbed(store, target.branch)
        return
    *rest, last = files
    for path in rest:
        # A call that was cut short, or one that runs now, may have written the same file.
        whole = f"{target.branch_root}/{path}"
        if not storage.create(whole, files[path]) and storage.read(whole) != files[path]:
            raise _incomplete(store, target.branch)
    if {_inner(target, info.path) for info in storage.walk(target.branch_root)} - set(files):
        raise _incomplete(store, target.branch)
    if not storage.create(f"{target.branch_root}/{last}", files[last]):
        raise _taken(store, target.branch)


def _remove(store: TableStore, layout: Layout) -> None:
    storage = store.storage
    if storage.renames_atomically:
        hidden = _hidden(layout)
        with suppress(FileNotFoundError):  # another call has removed it
            storage.rename_directory(layout.branch_root, hidden)
        with suppress(OSError):  # the branch is gone; what is left of it goes with the orphans
            storage.delete_directory(hidden)
        return
    for schema_id in Schemas(storage, layout).ids()[:1]:
        storage.delete(layout.schema_file(schema_id))
    storage.delete_directory(layout.branch_root)


def _hidden(layout: Layout) -> str:
    return f"{layout.branches_directory}/{HIDDEN_BRANCH}{uuid.uuid4()}"


def _is_whole(store: TableStore, branch: Layout) -> bool:
    """Say whether a branch has its lowest schema, which is that of the table."""
    ids = Schemas(store.storage, branch).ids()
    return bool(ids) and ids[0] == min(Schemas(store.storage, store.layout).ids(), default=ids[0])


def is_cut_short(store: TableStore, branch: Layout) -> bool:
    """Say whether a branch lacks its lowest schema: its creation or its drop, on an object store, was cut short."""
    return not _is_whole(store, branch)


def _names(store: TableStore) -> list[str]:
    return store.branches()


def _check_given(store: TableStore, name: str) -> None:
    """Raise an error unless there is a branch of this name beside `main`."""
    if name == MAIN_BRANCH:
        raise InvalidInputError(f"{store.name}: {name!r} is the table itself, not a branch of it", branch=name)
    known = _names(store)
    if check_name("branch", name) not in known:
        raise _missing(store, name, known)


def _missing(store: TableStore, name: str, known: Sequence[str]) -> BranchNotExistException:
    others = f"its branches are {', '.join(known)}" if known else "it has no branches"
    return BranchNotExistException(
        f"{store.name}: branch {name!r} doesn't exist; {others}",
        table=store.name,
        branch=name,
        branches=tuple(known),
    )


def _taken(store: TableStore, name: str) -> BranchAlreadyExistException:
    return BranchAlreadyExistException(
        f"{store.name}: branch {name!r} already exists; drop it, or choose another name", table=store.name, branch=name
    )


def _disturbed(store: TableStore, name: str) -> CommitContentionError:
    return CommitContentionError(
        f"{store.name}: others removed files of branch {name!r} while it was made, as an orphan removal with a short "
        "'older_than' does; make the branch again",
        table=store.name,
        branch=name,
    )


def _incomplete(store: TableStore, name: str) -> InvalidInputError:
    return InvalidInputError(
        f"{store.name}: branch {name!r} is being made or was cut short with other content; drop it first",
        table=store.name,
        branch=name,
    )
