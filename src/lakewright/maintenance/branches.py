"""Create, drop, rename, fast-forward branches.

Manifests and data files are shared by all branches, so none is copied or removed here.

Invariant: on disks a branch appears and disappears in one step, by the renaming of its directory. An object store
cannot do that: there the schema with the lowest number is written last and deleted first, and a branch without it is
one whose creation or drop was cut short. The same call, made again, finishes it. A fast-forward publishes the new state
on top at once, goes back to the last common snapshot below it and then forward, and removes what it put on top.

Invariant: no schema file is removed or changed, because commits, tags and branches that others make meanwhile may need
it. A schema of the other branch whose number the current branch gave to another schema gets a new number, and the
metadata that names it is written anew.

Where a server owns the history, it does all of this.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count

from lakewright.commit.commit_changes import prune_dropped_table
from lakewright.display import HtmlRepr
from lakewright.errors import (
    BranchAlreadyExistException,
    BranchNotExistException,
    CommitContentionError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
    pluralize,
)
from lakewright.maintenance.rollback import (
    below_cover,
    check_covered,
    fill_gaps,
    is_pin,
    pin_snapshot,
    publish_above,
    remove_changelogs,
    remove_left_pins,
    replace_below,
    replace_between,
    settle_jobs,
    uncover,
    until_undisturbed,
)
from lakewright.metadata.refs import HIDDEN_BRANCH, Tags
from lakewright.metadata.schema_files import SchemaFiles
from lakewright.metadata.snapshot_files import SnapshotFiles
from lakewright.metadata.table_store import TableStore
from lakewright.spec.manifest import ManifestFile
from lakewright.spec.snapshot import (
    MAX_LONG,
    CommitKind,
    Snapshot,
    Tag,
    is_same_commit,
    snapshot_from_json,
    state_of,
    tag_from_json,
    tag_to_json,
    to_json,
)
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import SYSTEM_FIELD_ID_MIN, renumber_fields
from lakewright.storage.storage import Storage
from lakewright.storage.table_layout import MAIN_BRANCH, Layout, check_name, parse_numbered_names

_FORWARDED = "lakewright.forwarded-from"  # a property: the delta list that a snapshot had on the other branch
_ROWS_STAY = frozenset({CommitKind.COMPACT, CommitKind.ANALYZE})
_SHOWN = 5  # ids or names in a message
_TRIES_MAX = 20  # how often others may change the schema first
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
        raise _branch_exists_error(store, name)
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
            raise _branch_exists_error(store, new)
        store.check_same_table()
        try:
            store.storage.rename_directory(source.branch_root, target.branch_root)
        except FileExistsError as cause:
            raise _branch_exists_error(store, new) from cause
        except FileNotFoundError as cause:
            raise _missing(store, old, _names(store)) from cause
        return
    files = _content(store, source)
    if not _is_whole(store, source):
        raise _incomplete(store, old)
    store.check_same_table()
    if _is_whole(store, target):
        raise _branch_exists_error(store, new)
    _install(store, target, files)
    _remove(store, source)


@dataclass(frozen=True, slots=True)
class FastForwardResult(HtmlRepr):
    """What a fast-forward removed, or would remove: snapshots and tags that the branch does not have."""

    branch: str
    snapshot_id: int | None  # the newest snapshot afterwards; None if only the server knows it
    snapshot_ids: tuple[int, ...] = ()  # removed snapshots
    lost_snapshot_ids: tuple[int, ...] = ()  # those of them whose changes the branch does not have
    tags: tuple[str, ...] = ()  # removed tags, and those that name another snapshot afterwards
    dry_run: bool = False

    @property
    def has_loss(self) -> bool:
        """Return True if changes of rows or tags of the table are removed."""
        return bool(self.lost_snapshot_ids or self.tags)

    @property
    def loss(self) -> str:
        """Return what is lost, for a message."""
        parts = []
        if self.lost_snapshot_ids:
            shown = ", ".join(str(one) for one in self.lost_snapshot_ids[:_SHOWN])
            more = ", ..." if len(self.lost_snapshot_ids) > _SHOWN else ""
            count = len(self.lost_snapshot_ids)
            parts.append(f"the changes of {pluralize(count, 'snapshot')} ({shown}{more})")
        if self.tags:
            more = ", ..." if len(self.tags) > _SHOWN else ""
            parts.append(f"{pluralize(len(self.tags), 'tag')} ({', '.join(self.tags[:_SHOWN])}{more})")
        return " and ".join(parts) or "nothing"


def fast_forward(store: TableStore, name: str, *, allow_loss: bool = False, dry_run: bool = False) -> FastForwardResult:
    """Bring the current branch (the table itself, usually) to the state of another branch, which stays as it is.

    Snapshots of the current branch that the other does not have, from the first snapshot of the other on, and their
    tags are removed. If the current branch does not have that first snapshot, the ones before it are not known to be
    its past, and are removed too. All schemas stay; the newest one afterwards is that of the other branch.

    Unless `allow_loss` is true, changes of rows or tags that the other branch does not have are an error.
    """
    try:
        removed = until_undisturbed(store, lambda: _fast_forward(store, name, allow_loss=allow_loss, dry_run=dry_run))
    except FileNotFoundError:
        _check_given(store, name)  # it may have been dropped or renamed while it was read
        raise
    if not dry_run:
        with suppress(OSError):
            settle_jobs(store, lost=removed.lost_snapshot_ids)
    return removed


def _fast_forward(store: TableStore, name: str, *, allow_loss: bool, dry_run: bool) -> FastForwardResult:
    if name == store.layout.branch:
        raise InvalidInputError(f"{store.name} is branch {name!r} itself: give another one", branch=name)
    _check_given(store, name)
    source = store.layout.for_branch(name)
    wanted = _snapshot_files(store, source)
    owner = store.home.history
    if not wanted and (owner is None or not allow_loss or dry_run):
        raise InvalidInputError(
            f"{store.name}: branch {name!r} has no snapshot to forward to; write to it first",
            table=store.name,
            branch=name,
        )
    if not wanted and owner is not None:  # the server keeps the snapshots of the branch to itself
        store.check_same_table()
        owner.fast_forward(name)
        return FastForwardResult(name, None)
    if owner is None and not _is_whole(store, source):
        raise _incomplete(store, name)
    newest = _parse_snapshot(wanted[max(wanted)], source, max(wanted))
    store.manifests.without_cache().files_of(newest)  # raises an error if it cannot be read
    store.check_same_table()
    tags = Tags(store.storage, source)
    if owner is None and not dry_run:
        remove_left_pins(tags)
    named = _tag_files(tags)  # read before anything changes: the other branch may be renamed or dropped meanwhile
    # A call that was cut short may have left tags of snapshots that are gone. They are read before the newest snapshot,
    # so that none of what is committed later is among them.
    before = store.tags.all()
    latest = store.snapshots.latest()
    first_id = _first_new(store, wanted, source)
    common = _Common(source, wanted, first_id)
    removed = _removed_by(store, name, common, named, before, latest)
    if dry_run:
        return replace(removed, dry_run=True)
    if removed.has_loss and not allow_loss:
        raise InvalidInputError(
            f"{store.name}: a fast-forward to branch {name!r} would remove {removed.loss}, which the branch does not "
            "have; pass allow_loss=True to remove them, or write the rows to the branch first",
            table=store.name,
            branch=name,
            snapshot_ids=removed.lost_snapshot_ids,
            tags=removed.tags,
        )
    if owner is not None:
        owner.fast_forward(name)
        return removed
    schemas = _take_schemas(store, source)
    if first_id > newest.id >= (0 if latest is None else latest.id):
        _make_newest(store, schemas.newest)
        _move_tags(store, schemas.tags(named), common, before)
        return removed
    target = store.snapshots.get(newest.id) if first_id > newest.id else schemas.snapshot(newest)
    with _pinned_on(store, source, newest):
        branch = _Forwarded(schemas.snapshots(wanted, first_id), schemas.newest, schemas.tags(named), common)
        cover = publish_above(store, target, latest, target.id, only_on_it=not allow_loss)
        with below_cover(store, cover, first_id):
            _take_over(store, branch, target, cover, before)
    return removed


@contextmanager
def _pinned_on(store: TableStore, source: Layout, newest: Snapshot) -> Iterator[None]:
    """Keep the files of the newest snapshot of another branch by a tag of that branch."""
    try:
        with pin_snapshot(Tags(store.storage, source), newest):
            yield
    except NotFoundError:
        # If the branch was dropped, the tag has made its directory anew on a disk.
        with suppress(OSError):
            if not _is_whole(store, source):
                store.storage.prune_directory(source.branch_root)
        raise


@dataclass(frozen=True, slots=True)
class _Common:
    """What the current branch has in common with the other one of a fast-forward."""

    source: Layout
    wanted: Mapping[int, bytes]  # the snapshots of the other branch
    first_id: int  # the first of them that the current branch lacks, or has in another form

    @property
    def earliest(self) -> int:
        return min(self.wanted)

    def keeps(self, tag: Tag) -> bool:
        """Return True if a tag of the current branch stays: its snapshot is in both, or before the other branch."""
        snapshot_id = tag.snapshot.id
        return snapshot_id < self.earliest or (snapshot_id < self.first_id and self._has(tag.snapshot))

    def _has(self, snapshot: Snapshot) -> bool:
        there = self.wanted.get(snapshot.id)
        if there is None:
            return False
        one = _parse_snapshot(there, self.source, snapshot.id)
        return is_same_commit(snapshot, one) or snapshot.properties.get(_FORWARDED) == one.delta_manifest_list

    def snapshots(self) -> list[Snapshot]:
        return [_parse_snapshot(data, self.source, snapshot_id) for snapshot_id, data in self.wanted.items()]


def _removed_by(
    store: TableStore,
    name: str,
    common: _Common,
    named: Mapping[str, bytes],
    own_tags: Iterable[Tag],
    latest: Snapshot | None,
) -> FastForwardResult:
    """Return what a fast-forward removes: the newest snapshots and tags of the current branch."""
    newest = max(common.wanted)
    is_line = common.first_id > common.earliest  # the snapshots before the first of the other branch stay
    ids = tuple(i for i in store.snapshots.ids() if i >= common.first_id or (not is_line and i < common.earliest))
    there = {one: tag_from_json(data, name=one, path=common.source.tag_file(one)) for one, data in named.items()}
    gone = []
    for tag in own_tags:
        moves = tag.name in there and not is_same_commit(there[tag.name].snapshot, tag.snapshot)
        if not is_pin(tag.name) and not common.keeps(tag) and (moves or tag.name not in there):
            gone.append(tag.name)
    lost: tuple[int, ...] = ()
    if latest is not None and ids and not _is_past(latest, common, there.values()):
        found = [(i, store.snapshots.find(i)) for i in ids]
        lost = tuple(i for i, one in found if one is None or one.commit_kind not in _ROWS_STAY)
        if lost and _has_same_files(store, latest, _parse_snapshot(common.wanted[newest], common.source, newest)):
            lost = ()
    return FastForwardResult(name, newest, ids, lost, tuple(gone))


def _is_past(latest: Snapshot, common: _Common, tags: Iterable[Tag]) -> bool:
    """Return True if the other branch has the newest snapshot of the current one, or a tag of it."""
    known = [*common.snapshots(), *(tag.snapshot for tag in tags)]
    return any(is_same_commit(latest, one) for one in known)


def _has_same_files(store: TableStore, one: Snapshot, other: Snapshot) -> bool:
    """Return True if two snapshots have the same rows, as after a fast-forward that was cut short."""
    if one.index_manifest != other.index_manifest:
        return False
    first, second = (
        {(entry.partition, entry.bucket, entry.file.file_name) for entry in store.manifests.live(snapshot)}
        for snapshot in (one, other)
    )
    return first == second


@dataclass(frozen=True, slots=True)
class _Forwarded:
    """The other branch of a fast-forward as the current branch takes it over."""

    snapshots: Mapping[int, bytes]
    schema: TableSchema  # the newest one
    tags: Mapping[str, bytes]
    common: _Common


def _take_over(store: TableStore, branch: _Forwarded, target: Snapshot, cover: Snapshot, before: Iterable[Tag]) -> None:
    """Replace the history of the current branch by that of the other, below the snapshot on top that covers this."""
    first_id, earliest = branch.common.first_id, branch.common.earliest
    check_covered(store, cover)
    if first_id == earliest:
        _remove_below(store, first_id)
        # All snapshots of the other branch may be older than the oldest one here.
        fill_gaps(store, target, cover)
    covers = replace_between(store, target, cover, first_id=first_id)
    _copy_snapshots(store, branch.snapshots, first_id, cover)
    _make_newest(store, branch.schema)
    remove_changelogs(store, first_id, cover.id)
    covered = [tag for tag in store.tags.all() if tag.snapshot.id < cover.id]
    _move_tags(store, branch.tags, branch.common, [*before, *covered])
    uncover(store, target, covers, first_id=first_id)


def _remove_below(store: TableStore, first_id: int) -> None:
    """Remove the own snapshots and changelogs below the first snapshot of the other branch: they are not its past."""
    for snapshot_id in store.snapshots.ids():  # oldest first, as they expire
        if snapshot_id < first_id:
            store.storage.delete(store.layout.snapshot_file(snapshot_id))
    remove_changelogs(store, 0, first_id)


def _copy_snapshots(store: TableStore, wanted: Mapping[int, bytes], first_id: int, cover: Snapshot) -> None:
    """Write the snapshots of the other branch over those of the current one; the state on top covers them."""
    own = [i for i in store.snapshots.ids() if first_id <= i <= max(wanted)]
    # Newest first: below the oldest snapshot of the current branch that makes no gap in the ids.
    for snapshot_id in sorted({*own, *(i for i in wanted if i >= first_id)}, reverse=True):
        path = store.layout.snapshot_file(snapshot_id)
        if snapshot_id in wanted:
            data = wanted[snapshot_id]
            replace_below(store, cover, _parse_snapshot(data, store.layout, snapshot_id), data)
        else:
            store.storage.delete(path)


def _first_new(store: TableStore, wanted: Mapping[int, bytes], source: Layout) -> int:
    """Return the first id of the other branch whose snapshot the current branch lacks, or has in another form."""
    for snapshot_id in sorted(wanted):
        own, there = store.snapshots.find(snapshot_id), _parse_snapshot(wanted[snapshot_id], source, snapshot_id)
        # An earlier fast-forward wrote the lists of a snapshot anew if the numbers of schemas differ.
        if own is None or (
            not is_same_commit(own, there) and own.properties.get(_FORWARDED) != there.delta_manifest_list
        ):
            return snapshot_id
    return max(wanted) + 1


# The schemas of the other branch, and what names them.


@dataclass(frozen=True, slots=True)
class _TakenSchemas:
    """The schemas of another branch in the current one: their numbers, and metadata with these numbers."""

    store: TableStore
    source: Layout
    numbers: Mapping[int, int]  # here, by those there
    newest: TableSchema  # as it is here
    _manifests: dict[str, list[ManifestFile]] = field(default_factory=dict)  # written anew, by their names there
    _lists: dict[str, tuple[str, int | None]] = field(default_factory=dict)

    @property
    def _are_renumbered(self) -> bool:
        return any(here != there for there, here in self.numbers.items())

    def snapshots(self, files: Mapping[int, bytes], first_id: int) -> dict[int, bytes]:
        """Return the files of snapshots, those from an id on with the numbers that the schemas have here."""
        return {i: data if i < first_id else self._snapshot_file(data, i) for i, data in files.items()}

    def _snapshot_file(self, data: bytes, snapshot_id: int) -> bytes:
        if not self._are_renumbered:
            return data
        return to_json(self.snapshot(_parse_snapshot(data, self.source, snapshot_id))).encode()

    def tags(self, files: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return the files of tags with the numbers that the schemas have here."""
        return {name: self._tag_file(name, data) for name, data in files.items()}

    def _tag_file(self, name: str, data: bytes) -> bytes:
        if not self._are_renumbered:
            return data
        tag = tag_from_json(data, name=name, path=self.source.tag_file(name))
        return tag_to_json(replace(tag, snapshot=self.snapshot(tag.snapshot))).encode()

    def snapshot(self, there: Snapshot) -> Snapshot:
        """Return a snapshot of the other branch with the numbers that the schemas have here.

        Its statistics are left out: they name a schema by the number there.
        """
        if not self._are_renumbered:
            return there
        base = self._list(there.base_manifest_list, there.base_manifest_list_size)
        delta = self._list(there.delta_manifest_list, there.delta_manifest_list_size)
        name, size = there.changelog_manifest_list, there.changelog_manifest_list_size
        changelog = (None, None) if name is None else self._list(name, size)
        if (base[0], delta[0]) == state_of(there) and self.numbers[there.schema_id] == there.schema_id:
            return there
        return replace(
            there,
            schema_id=self.numbers[there.schema_id],
            base_manifest_list=base[0],
            base_manifest_list_size=base[1],
            delta_manifest_list=delta[0],
            delta_manifest_list_size=delta[1],
            changelog_manifest_list=changelog[0],
            changelog_manifest_list_size=changelog[1],
            index_manifest=self._index(there.index_manifest),
            statistics=None,
            properties={**there.properties, _FORWARDED: there.delta_manifest_list},
        )

    def _list(self, name: str, size: int | None) -> tuple[str, int | None]:
        """Return the name and size of a manifest list, which is written anew if it names a renumbered schema."""
        if name not in self._lists:
            files = self.store.manifests.read_list(name)
            here = [one for file in files for one in self._manifest(file)]
            self._lists[name] = (name, size) if here == files else self.store.manifests.write_list(here)
        return self._lists[name]

    def _index(self, name: str | None) -> str | None:
        """Return an index manifest without indexes of columns, which name these by the numbers there."""
        entries = [] if name is None else self.store.manifests.read_index(name)
        if all(entry.file.global_index is None for entry in entries):
            return name
        return self.store.manifests.write_index(entry for entry in entries if entry.file.global_index is None)

    def _manifest(self, file: ManifestFile) -> list[ManifestFile]:
        if file.file_name not in self._manifests:
            manifests = self.store.manifests
            entries = manifests.read(file)
            here = [replace(e, file=replace(e.file, schema_id=self.numbers[e.file.schema_id])) for e in entries]
            schema_id = self.numbers.get(file.schema_id, self.newest.id)
            self._manifests[file.file_name] = [file] if here == entries else manifests.write(here, schema_id=schema_id)
        return self._manifests[file.file_name]


def _take_schemas(store: TableStore, source: Layout) -> _TakenSchemas:
    """Write the schemas of another branch that the current one lacks, and return the numbers that they have here."""
    there = {schema.id: schema for schema in SchemaFiles(store.storage, source).all()}
    if not there:  # a drop or a rename of the branch removes its files one by one
        raise FileNotFoundError(source.schema_directory)
    for _ in range(_TRIES_MAX):
        own = {schema.id: schema for schema in store.schemas.all()}
        numbers, missing = number_schemas(own, there)
        here = {**own, **{schema.id: schema for schema in missing}}
        newest = here[numbers[max(there)]]
        if store.home.schemas is not None and (missing or _following(newest, [*own.values()]) is not None):
            raise UnsupportedError(
                f"{store.name}: the newest schema of branch {source.branch!r} is not that of the table, and the server "
                "owns the schemas; alter the table in the same way first",
                table=store.name,
                branch=source.branch,
            )
        if all(_put_schema(store, schema) for schema in missing):
            return _TakenSchemas(store, source, numbers, newest)
    raise _schemas_contention(store)


def number_schemas(
    own: Mapping[int, TableSchema], there: Mapping[int, TableSchema]
) -> tuple[dict[int, int], list[TableSchema]]:
    """Return the numbers that the schemas of another branch have in the current one, and those to write for that.

    Up to the first number that both gave to different schemas, the numbers are the same. From there on schemas get new
    numbers, and so do their columns that came after that: a column id means one column in all schemas of a table.
    """
    apart = min((i for i in there if own.get(i) != there[i] and (i in own or i < max(own))), default=MAX_LONG)
    missing = [there[i] for i in sorted(there) if i < apart and i not in own]
    numbers = {i: i for i in there if i < apart}
    if apart == MAX_LONG:
        return numbers, missing
    common = max((there[i].highest_field_id for i in numbers), default=-1)
    highest = max(schema.highest_field_id for schema in own.values())
    left = sorted(i for i in there if i >= apart)
    # An earlier call may have written some of them, with column ids that followed the highest of that time.
    shifts = dict.fromkeys(own[i].highest_field_id - there[left[0]].highest_field_id for i in own)
    shift, known = highest - common, dict[int, int]()
    for one in shifts:
        found = {i: _number_of(_renumber(there[i], 0, common, one), own) for i in left}
        if found[left[0]] is not None:
            shift, known = one, {i: number for i, number in found.items() if number is not None}
            break
    following = count(max(own) + 1)
    for i in left:
        numbers[i] = known[i] if i in known else next(following)
        if i not in known:
            missing.append(_renumber(there[i], numbers[i], common, shift))
    return numbers, missing


def _number_of(schema: TableSchema, own: Mapping[int, TableSchema]) -> int | None:
    return next((i for i in own if replace(schema, id=i) == own[i]), None)


def _renumber(schema: TableSchema, number: int, above: int, shift: int) -> TableSchema:
    """Return a schema under another number, with other ids for the columns whose ids are above one."""

    def new_id(field_id: int) -> int:
        return field_id + shift if above < field_id < SYSTEM_FIELD_ID_MIN else field_id

    fields = renumber_fields(schema.fields, new_id)
    return replace(schema, id=number, fields=fields, highest_field_id=new_id(schema.highest_field_id))


def _make_newest(store: TableStore, schema: TableSchema) -> None:
    """Make a schema of the table the newest one, by writing it once more under the next number if it is not."""
    for _ in range(_TRIES_MAX):
        following = _following(schema, store.schemas.all())
        if following is None or store.home.schemas is not None:  # a server has another one since then: it decides
            return
        if _put_schema(store, following):
            store.home.schema_changed(following)
            return
    raise _schemas_contention(store)


def _following(schema: TableSchema, own: Sequence[TableSchema]) -> TableSchema | None:
    """Return a schema as the one after all others of a table; None if the newest one says the same."""
    last = max(own, key=lambda one: one.id)
    highest = max(one.highest_field_id for one in own)
    same = replace(schema, id=last.id, highest_field_id=last.highest_field_id, time_millis=last.time_millis)
    return None if same == last else replace(schema, id=last.id + 1, highest_field_id=highest)


def _put_schema(store: TableStore, schema: TableSchema) -> bool:
    """Write a schema file, or find that it is there; False if another schema has the number."""
    with store.home.hold_lock():
        return store.schemas.create(schema) or store.schemas.get(schema.id) == schema


def _schemas_contention(store: TableStore) -> CommitContentionError:
    return CommitContentionError(
        f"{store.name}: others changed its schema {_TRIES_MAX} times in a row; try again", table=store.name
    )


def _tag_files(tags: Tags) -> dict[str, bytes]:
    return {name: tags.storage.read(tags.layout.tag_file(name)) for name in tags.list() if not is_pin(name)}


def _move_tags(store: TableStore, files: Mapping[str, bytes], common: _Common, own: Iterable[Tag]) -> None:
    """Take over the tags of the other branch, and remove the own ones of snapshots that it has otherwise."""
    for tag in own:
        if not common.keeps(tag) and tag.name not in files and not is_pin(tag.name):
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
    if source is not None and (kept is None or not is_same_commit(kept, source)):
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
        **_schemas_at(store, source),
    }


def _files_of_tag(store: TableStore, tag_name: str) -> dict[str, bytes]:
    """Return the files of a branch at a tag: the tag, its snapshot and the schemas up to that of the snapshot."""
    layout, tag = store.layout, store.tags.get(tag_name)
    snapshot_id = tag.snapshot.id
    data = to_json(tag.snapshot).encode()  # the snapshot file itself may have expired
    with suppress(FileNotFoundError):
        stored = store.storage.read(layout.snapshot_file(snapshot_id))
        data = stored if is_same_commit(_parse_snapshot(stored, layout, snapshot_id), tag.snapshot) else data
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
        **_schemas_at(store, tag.snapshot),
    }


def _schemas_at(store: TableStore, snapshot: Snapshot) -> dict[str, bytes]:
    """Return the schema files of a branch that begins at a snapshot, whose schema is the newest one there.

    A state of the past that was published again names files of later schemas, which it deletes. Then the branch gets
    all schemas, and that of the snapshot once more after them.
    """
    named = max((manifest.schema_id for manifest in store.manifests.files_of(snapshot)), default=0)
    if named <= snapshot.schema_id:
        return _schema_files(store.storage, store.layout, snapshot.schema_id)
    schemas = store.schemas.all()
    newest = _following(store.schemas.get(snapshot.schema_id), schemas)
    files = _schema_files(store.storage, store.layout)
    if newest is None:
        return files
    return {_inner(store.layout, store.layout.schema_file(newest.id)): newest.to_json().encode(), **files}


def _schema_files(storage: Storage, layout: Layout, newest: int | None = None) -> dict[str, bytes]:
    """Return the schema files, those up to a number if one is given, the highest number first."""
    ids = [i for i in SchemaFiles(storage, layout).ids() if newest is None or i <= newest]
    paths = (layout.schema_file(schema_id) for schema_id in reversed(ids))
    return {_inner(layout, path): storage.read(path) for path in paths}


def _snapshot_files(store: TableStore, layout: Layout) -> dict[int, bytes]:
    ids = SnapshotFiles(store.storage, layout).ids()
    return {snapshot_id: store.storage.read(layout.snapshot_file(snapshot_id)) for snapshot_id in ids}


def _content(store: TableStore, layout: Layout) -> dict[str, bytes]:
    """Return all files of a branch, the schema with the lowest number last."""
    paths = [info.path for info in store.storage.walk(layout.branch_root)]
    files = {_inner(layout, path): store.storage.read(path) for path in paths}
    schemas = parse_numbered_names((path.removeprefix("schema/") for path in files), "schema-")
    if schemas:
        last = f"schema/schema-{schemas[0]}"
        files[last] = files.pop(last)
    return files


def _inner(layout: Layout, path: str) -> str:
    return path.removeprefix(f"{layout.branch_root}/")


def _parse_snapshot(data: bytes, layout: Layout, snapshot_id: int) -> Snapshot:
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
            raise _branch_exists_error(store, target.branch) from cause
        except FileNotFoundError as cause:
            store.check_same_table()
            raise _removed_files_error(store, target.branch) from cause
        if not files.keys() <= {_inner(target, info.path) for info in storage.walk(target.branch_root)}:
            _remove(store, target)
            raise _removed_files_error(store, target.branch)
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
        raise _branch_exists_error(store, target.branch)


def _remove(store: TableStore, layout: Layout) -> None:
    storage = store.storage
    if storage.renames_atomically:
        hidden = _hidden(layout)
        with suppress(FileNotFoundError):  # another call has removed it
            storage.rename_directory(layout.branch_root, hidden)
        with suppress(OSError):  # the branch is gone; what is left of it goes with the orphans
            storage.delete_directory(hidden)
        return
    for schema_id in SchemaFiles(storage, layout).ids()[:1]:
        storage.delete(layout.schema_file(schema_id))
    storage.delete_directory(layout.branch_root)


def _hidden(layout: Layout) -> str:
    return f"{layout.branches_directory}/{HIDDEN_BRANCH}{uuid.uuid4()}"


def _is_whole(store: TableStore, branch: Layout) -> bool:
    """Return whether a branch has its lowest schema, which is that of the table."""
    ids = SchemaFiles(store.storage, branch).ids()
    return bool(ids) and ids[0] == min(SchemaFiles(store.storage, store.layout).ids(), default=ids[0])


def is_cut_short(store: TableStore, branch: Layout) -> bool:
    """Return whether a branch lacks its lowest schema: its creation or its drop, on an object store, was cut short."""
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


def _branch_exists_error(store: TableStore, name: str) -> BranchAlreadyExistException:
    return BranchAlreadyExistException(
        f"{store.name}: branch {name!r} already exists; drop it, or choose another name", table=store.name, branch=name
    )


def _removed_files_error(store: TableStore, name: str) -> CommitContentionError:
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
