"""What a commit request adds and removes on top of a base snapshot; overwrites."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice, takewhile
from typing import TypeAlias

from lakewright.commit.commit_changes import Change, Guard
from lakewright.commit.commit_message import snapshot_key
from lakewright.commit.conflicts import (
    WRITE_AGAIN,
    Conflict,
    KeyRange,
    combine_index,
    conflict_error,
    find_broken_guard,
    find_conflict,
    mixed_buckets,
    moved_hashes,
    overlapping_files,
    range_conflict,
    stale_vectors,
)
from lakewright.errors import CommitConflictError, InvalidInputError, LakewrightError, NotFoundError
from lakewright.lsm.key_order import Key, KeyOrder
from lakewright.metadata.table_store import TableStore
from lakewright.spec.binary_row import decode_row
from lakewright.spec.manifest import ADD, DELETE, DELETION_VECTORS, DataFile, IndexEntry, ManifestEntry, ManifestFile
from lakewright.spec.scalars import cast_text, to_value
from lakewright.spec.snapshot import CommitKind, SeenSnapshot, Snapshot
from lakewright.spec.table_schema import POSTPONE, BucketMode
from lakewright.spec.types import DataField, Value

# ---- Overwrites ------------------------------------------------------------------------------------------------------
# A dynamic overwrite replaces the partitions that its new files are in. A static one replaces every partition that
# agrees with a spec (a value per partition column, possibly not for all of them; the empty spec is the whole table).
# What is replaced are the files that are live when the commit is published, so every attempt computes the change
# again.

Spec: TypeAlias = tuple[tuple[int, Value], ...]  # position among the partition columns, and the value there

Bounds: TypeAlias = tuple[Value, Value, int | None]  # least, greatest, and how many nulls


@dataclass(frozen=True, slots=True)
class PartitionSelection:
    """Some partitions of a table: the listed ones, or those that agree with one of the specs."""

    partitions: frozenset[bytes] | None = None
    specs: tuple[Spec, ...] = ()

    def selects(self, partition: bytes, values: Sequence[Value]) -> bool:
        """Return whether a partition is selected; `values` are those of its columns."""
        if self.partitions is not None:
            return partition in self.partitions
        return any(all(values[position] == value for position, value in spec) for spec in self.specs)

    def may_select(self, columns: Sequence[Bounds], values_of: Callable[[bytes], Sequence[Value]]) -> bool:
        """Return whether a partition inside these bounds, one per partition column, may be selected."""
        if self.partitions is None:
            specs: Iterable[Spec] = self.specs
        else:
            specs = (tuple(enumerate(values_of(partition))) for partition in self.partitions)
        return any(all(_within(value, columns[position]) for position, value in spec) for spec in specs)


WHOLE_TABLE = PartitionSelection(specs=((),))


def partitions_by_specs(
    specs: Iterable[Mapping[str, object]], fields: Sequence[DataField], *, default_name: str, table: str
) -> PartitionSelection:
    """Read partition specs as users write them: text or Python values; None or the default name means null."""
    return PartitionSelection(specs=tuple(_parse_spec(spec, fields, default_name, table) for spec in specs))


def partitions_of_files(new: Change) -> PartitionSelection:
    """Return the partitions that the new files are in."""
    return PartitionSelection(partitions=frozenset(e.partition for e in new.entries if e.kind == ADD))


def overwrite_change(
    new: Change,
    live: Iterable[ManifestEntry],
    index: Iterable[IndexEntry],
    selects: Callable[[bytes], bool],
    *,
    buckets: int,
) -> Change:
    """Delete the live files and index files of the replaced partitions and add the new ones.

    The changelog of an overwrite is dropped. In a table with real buckets the files of the postpone bucket stay.
    """
    gone = [
        replace(e, kind=DELETE)
        for e in live
        if e.kind == ADD and (e.bucket >= 0 or buckets == POSTPONE) and selects(e.partition)
    ]
    index_gone = [replace(e, kind=DELETE) for e in index if selects(e.partition)]
    return Change(
        (*gone, *(e for e in new.entries if e.kind == ADD)),
        (),
        (*index_gone, *(e for e in new.index if e.kind == ADD)),
    )


def upgrade_files(entries: tuple[ManifestEntry, ...], level: int, key_range: KeyRange) -> tuple[ManifestEntry, ...]:
    """Put new files on the deepest level, bucket by bucket, where they are all of level 0 and share no keys.

    They replace everything in the bucket, so nothing is left to merge them with. Files with deletes stay on level 0,
    because the deepest level holds none, and so do files of the postpone bucket, whose rows are in no order.
    """
    places: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for entry in entries:
        places.setdefault((entry.partition, entry.bucket), []).append(entry)

    def fit(place: tuple[bytes, int]) -> bool:
        files = places[place]
        if place[1] < 0 or any(e.file.level or e.file.delete_row_count for e in files):
            return False
        return overlapping_files([_on_level(e, level) for e in files], (), key_range) is None

    fitting = {place for place in places if level > 0 and fit(place)}
    return tuple(_on_level(e, level) if (e.partition, e.bucket) in fitting else e for e in entries)


def _on_level(entry: ManifestEntry, level: int) -> ManifestEntry:
    return replace(entry, file=replace(entry.file, level=level))


def files_outside(new: Change, selects: Callable[[bytes], bool]) -> tuple[ManifestEntry, ...]:
    """Return the new files that are in partitions which are not replaced."""
    return tuple(e for e in new.entries if e.kind == ADD and not selects(e.partition))


def _parse_spec(spec: Mapping[str, object], fields: Sequence[DataField], default_name: str, table: str) -> Spec:
    places = {field.name: position for position, field in enumerate(fields)}
    out: list[tuple[int, Value]] = []
    for name, given in spec.items():
        if name not in places:
            known = ", ".join(places) or "none: the table is not partitioned"
            raise InvalidInputError(
                f"{table}: {name!r} in the partition spec {dict(spec)!r} is not a partition column ({known})",
                table=table,
                column=name,
            )
        field = fields[places[name]]
        try:
            out.append((places[name], _spec_value(given, field, default_name)))
        except InvalidInputError as error:
            raise InvalidInputError(
                f"{table}: the partition column {name!r}: {error}", table=table, column=name
            ) from error
    return tuple(sorted(out, key=lambda pair: pair[0]))


def _spec_value(given: object, field: DataField, default_name: str) -> Value:
    if given is None or given == default_name:
        return None
    if isinstance(given, str):
        return cast_text(given, field.type)
    return to_value(given, field.type)


def _within(value: Value, bounds: Bounds) -> bool:
    """Return whether a value may be within bounds; only a certain no is a no."""
    low, high, nulls = bounds
    if value is None:
        return nulls != 0
    # NaN and the two zeros have an order of their own in bounds, so floats are not judged here.
    if low is None or high is None or isinstance(value, float):
        return True
    return low <= value <= high  # type: ignore[operator]  # the bounds of a column have the type of its values


# ---- Planning on a base snapshot -------------------------------------------------------------------------------------
# Reads metadata, writes nothing. An `Intent` is the same for every attempt. A `Plan` is made for one base: an
# overwrite looks up what it replaces, every check for conflicts runs against the live files of the base, and the
# index files are combined with those of the base.

_ADDING = frozenset({CommitKind.APPEND, CommitKind.ANALYZE})  # commits that take nothing away
_BLAME_MAX = 50  # snapshots searched for the one that deleted a file, only to name it in an error


@dataclass(frozen=True, slots=True)
class NewStatistics:
    """A statistics file that a commit makes known, and what it is about."""

    file_name: str
    of: Snapshot  # whose rows were counted
    schema_id: int  # of the columns that were counted


@dataclass(frozen=True, slots=True)
class SnapshotDetails:
    """What a snapshot records besides its files."""

    properties: Mapping[str, str] = field(default_factory=dict)
    operation: str | None = None
    watermark: int | None = None
    statistics: NewStatistics | None = None  # None: those of the base, while the schema stays


@dataclass(frozen=True, slots=True)
class Numbering:
    """What decides whether new rows of a primary-key table need higher sequence numbers, so that later commits win."""

    since: str | None  # the snapshot from which all writers read the highest sequence numbers; None: not known
    fixed: frozenset[str] = frozenset()  # new files that must keep their names, because index files name them


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """What one commit shall do, in a form that does not depend on the snapshot it is committed on."""

    user: str
    identifier: int
    kind: CommitKind
    change: Change
    marker: str  # the uuid in the name of the manifest of new files, the same whenever the same messages are committed
    replaced: PartitionSelection | None = None  # of an overwrite: the partitions emptied at commit time
    unchanged_since: int | None = None  # of an overwrite: raise a conflict if they changed after this snapshot
    check_live: bool = False  # of an append: compare it with live files, as is done for other changes
    guards: tuple[Guard, ...] = ()  # buckets, partitions or tables that must not have changed since the planning
    hash_bases: frozenset[tuple[bytes, tuple[str, ...]]] = (
        frozenset()
    )  # partition, and the index files its buckets come from
    numbering: Numbering | None = None  # of rows with keys: what keeps them in the order of the commits
    seen: SeenSnapshot | None = None  # before the messages were complete: no snapshot up to this one is the commit
    # User and identifier alone identify the commit, and no snapshot up to this one is it.
    once_since: SeenSnapshot | None = None
    only_run: bool = False  # raise a conflict if the user committed anything else after that snapshot
    details: SnapshotDetails = field(default_factory=SnapshotDetails)

    @property
    def only_adds(self) -> bool:
        """Return whether the change removes nothing; it is then retried as long as other commits keep succeeding."""
        return self.kind in _ADDING and self.replaced is None

    @property
    def fits_every_base(self) -> bool:
        """Return whether the change need not be compared with the live files of the base."""
        return self.only_adds and not self.check_live


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """What an intent changes on top of one base snapshot."""

    base: Snapshot | None
    change: Change
    index: tuple[IndexEntry, ...] | None  # all live index files afterwards; None: the same as in the base


def plan_on(store: TableStore, intent: CommitRequest, base: Snapshot | None) -> CommitPlan:
    """Return what the intent changes on top of a base, or raise CommitConflictError."""
    change, live = _change_on(store, intent, base)
    _refuse_unsafe(store, intent, base, change.partitions)
    conflict, replaces = None, intent.replaced is not None
    if store.options.bucket != -1:  # elsewhere no file has a number of buckets
        conflict = mixed_buckets((e for e in change.entries if not (replaces and e.kind == DELETE)), ())
    if conflict is None and not intent.fits_every_base:
        key_range = key_range_of(store) if store.schema.primary_keys else None
        conflict = find_conflict(change, live, replaces=replaces, key_range=key_range)
    if conflict is None and crosses_partitions(store):
        conflict = _moved_keys(store, intent, base) or _keys_elsewhere(store, intent, base)
    if conflict is None and not replaces and not intent.fits_every_base and store.options.data_evolution_enabled:
        # The change names rows of the base, whose columns may be in several files.
        next_row_id = 0 if base is None else base.next_row_id or 0
        compacts = intent.kind is CommitKind.COMPACT
        adds_rows = intent.only_adds and not intent.guards  # no part of it was made from rows of the base
        conflict = range_conflict(change, live, next_row_id=next_row_id, compacts=compacts, adds_rows=adds_rows)
    if conflict is not None:
        raise _error(store, intent, base, conflict)
    if intent.guards and (broken := find_broken_guard(store, intent.guards, base, change, live)) is not None:
        raise conflict_error(broken.conflict, table=store.name, user=intent.user, kind=intent.kind, other=broken.by)
    return CommitPlan(base, change, _index_on(store, intent, base, change, live))


def crosses_partitions(store: TableStore) -> bool:
    """Return whether a key may be in any partition: then writers read all keys, as no index file has them."""
    return store.schema.bucket_mode is BucketMode.KEY_DYNAMIC


def _moved_keys(store: TableStore, intent: CommitRequest, base: Snapshot | None) -> Conflict | None:
    """Return a conflict if another user wrote rows after the snapshot whose keys the writer read.

    Two writers at the same time may put one key into two partitions. `hash_bases` of such tables name that snapshot.
    """
    bases = {names for _, names in intent.hash_bases}  # those that the walk back has not reached yet
    reason, oldest_id = "another writer may have put keys into other partitions at the same time", 0
    for snapshot in store.snapshots.walk_back(base.id) if base is not None and bases else ():
        bases.discard((snapshot_key(snapshot),))
        if not bases:
            return None
        if snapshot.commit_user != intent.user and writes_rows(snapshot):
            return Conflict(f"{reason}, in snapshot {snapshot.id}", (), WRITE_AGAIN)
        oldest_id = snapshot.id
    # A writer that began with an empty table is safe only if all snapshots from the first on were checked above.
    bases -= {()} if oldest_id == 1 or base is None else frozenset()
    return Conflict(f"{reason}: the snapshot that the rows were written on is gone", (), WRITE_AGAIN) if bases else None


def _keys_elsewhere(store: TableStore, intent: CommitRequest, base: Snapshot | None) -> Conflict | None:
    """Return a conflict if an overwrite adds rows and keeps other partitions, which may have the same keys."""
    if intent.replaced is None or base is None or not any(e.kind == ADD for e in intent.change.entries):
        return None
    selects = partition_selector(store, intent.replaced)
    kept = store.manifests.live(base, keep=lambda partition, _bucket, _total, _level: not selects(partition))
    if not kept:
        return None
    place = store.partition_name(kept[0].partition)
    reason = f"a key lives in one partition alone, and keys of the new rows may be in {place}, which is not replaced"
    advice = "overwrite the whole table, or truncate the partitions to replace and upsert the new rows"
    return Conflict(reason, (), advice)


def writes_rows(snapshot: Snapshot) -> bool:
    """Return whether a snapshot may hold other rows than the one before it."""
    if snapshot.commit_kind is CommitKind.APPEND:
        return snapshot.delta_record_count != 0
    return snapshot.commit_kind is CommitKind.OVERWRITE


def select_partitions(
    store: TableStore, partitions: Sequence[Mapping[str, object]] | PartitionSelection | None
) -> PartitionSelection:
    """Read partition specs as users write them; None is the whole table, and a selection stays as it is."""
    if partitions is None:
        return WHOLE_TABLE
    if isinstance(partitions, PartitionSelection):
        return partitions
    default_name = store.options.partition_default_name
    return partitions_by_specs(partitions, store.schema.partition_fields, default_name=default_name, table=store.name)


def partition_selector(store: TableStore, selection: PartitionSelection) -> Callable[[bytes], bool]:
    """Return a function that says whether a partition is selected; it decodes each partition once."""

    @cache
    def selects(partition: bytes) -> bool:
        return selection.selects(partition, store.partition_values(partition))

    return selects


def _change_on(store: TableStore, intent: CommitRequest, base: Snapshot | None) -> tuple[Change, list[ManifestEntry]]:
    """Return the change with all that an overwrite removes, and the live files that it is compared with."""
    if intent.replaced is None:
        if base is None or intent.fits_every_base:
            return intent.change, []
        return intent.change, live_files(store, base, PartitionSelection(partitions=intent.change.partitions))
    selects = partition_selector(store, intent.replaced)
    if intent.unchanged_since is not None:
        _refuse_changed(store, intent, base, selects)
    if base is None:
        return overwrite_change(intent.change, (), (), selects, buckets=store.options.bucket), []
    live = live_files(store, base, intent.replaced)
    index = _index_of(store, base)
    return overwrite_change(intent.change, live, index, selects, buckets=store.options.bucket), live


def _index_on(
    store: TableStore, intent: CommitRequest, base: Snapshot | None, change: Change, live: Iterable[ManifestEntry]
) -> tuple[IndexEntry, ...] | None:
    removes_rows = any(e.kind == DELETE for e in change.entries)
    removes_rows = removes_rows or any(e.file.index_type == DELETION_VECTORS for e in change.index)
    hash_bases = frozenset() if crosses_partitions(store) else intent.hash_bases
    if not (change.index or removes_rows or hash_bases):
        return None
    previous = _index_of(store, base)
    # Buckets of a primary-key table have one file of each kind of index, also where their number is not fixed.
    bucketed = store.options.bucket > 0 or bool(store.schema.primary_keys)
    by_name = intent.kind is not CommitKind.COMPACT
    combined = moved_hashes(hash_bases, previous) or combine_index(
        previous, change.index, bucketed=bucketed, by_name=by_name
    )
    if isinstance(combined, Conflict):
        raise _error(store, intent, base, combined)
    conflict = stale_vectors(combined, change, live) if removes_rows else None
    if conflict is not None:
        raise _error(store, intent, base, conflict)
    return combined if change.index else None


def key_range_of(store: TableStore) -> KeyRange:
    """Return a function from a data file to its first and last key."""
    fields = store.schema.trimmed_primary_key_fields
    types, order = [field.type for field in fields], KeyOrder(fields)

    def key_range(file: DataFile) -> tuple[Key, Key]:
        return order.key_of(decode_row(file.min_key, types)), order.key_of(decode_row(file.max_key, types))

    return key_range


def live_files(store: TableStore, base: Snapshot, partitions: PartitionSelection) -> list[ManifestEntry]:
    """Return the live files of some partitions, reading only the manifests that may name them."""
    selects = partition_selector(store, partitions)
    types = store.partition_types

    def may_name(manifest: ManifestFile) -> bool:
        stats = manifest.partition_stats
        if not types or len(stats.null_counts) != len(types):
            return True
        lows, highs = decode_row(stats.min_values, types), decode_row(stats.max_values, types)
        return partitions.may_select(tuple(zip(lows, highs, stats.null_counts, strict=True)), store.partition_values)

    return store.manifests.live(
        base, keep=lambda partition, _bucket, _total, _level: selects(partition), keep_manifest=may_name
    )


def _refuse_changed(
    store: TableStore, intent: CommitRequest, base: Snapshot | None, selects: Callable[[bytes], bool]
) -> None:
    """Raise if a replaced partition got or lost rows after the snapshot that the caller has seen."""
    since = intent.unchanged_since or 0
    latest = 0 if base is None else base.id
    if since > latest:
        raise _error(store, intent, base, Conflict(f"the table has no snapshot {since}"))
    before = None
    for snapshot_id in range(max(since, 1), latest + 1):
        try:
            snapshot = store.snapshots.get(snapshot_id)
        except NotFoundError:
            conflict = Conflict(f"snapshot {snapshot_id} expired, so it is unknown whether the table is unchanged")
            raise _error(store, intent, base, conflict) from None
        files = () if snapshot_id == since else _changed_files(store, snapshot, before, selects)
        if files:
            conflict = Conflict(f"the partitions to replace changed after snapshot {since}", files)
            raise conflict_error(conflict, table=store.name, user=intent.user, kind=intent.kind, other=snapshot)
        before = snapshot


def _refuse_unsafe(
    store: TableStore, intent: CommitRequest, base: Snapshot | None, partitions: frozenset[bytes]
) -> None:
    """In strict mode, raise if another user rewrote these partitions after the last safe snapshot.

    For an overwrite, appends of other users count too.
    """
    safe = store.options.commit_strict_mode_last_safe_snapshot
    if safe is None or safe < 0 or base is None:
        return
    unsafe_kinds = {CommitKind.COMPACT, CommitKind.OVERWRITE}
    if intent.kind is CommitKind.OVERWRITE:
        unsafe_kinds.add(CommitKind.APPEND)
    for snapshot in takewhile(lambda s: s.id > safe, store.snapshots.walk_back(base.id)):
        if snapshot.commit_user == intent.user or snapshot.commit_kind not in unsafe_kinds:
            continue
        entries = store.manifests.delta(snapshot)
        files = tuple(e.file.file_name for e in entries if e.partition in partitions and e.bucket >= 0)
        if files:
            conflict = Conflict(f"in strict mode the table counts as unsafe after snapshot {safe}", files)
            raise conflict_error(conflict, table=store.name, user=intent.user, kind=intent.kind, other=snapshot)


def _changed_files(
    store: TableStore, snapshot: Snapshot, before: Snapshot | None, selects: Callable[[bytes], bool]
) -> tuple[str, ...]:
    """Return the data and index files by which a snapshot changed the rows of some partitions."""
    if snapshot.commit_kind in {CommitKind.COMPACT, CommitKind.ANALYZE}:
        return ()
    files = [e.file.file_name for e in store.manifests.delta(snapshot) if selects(e.partition)]
    if before is None or snapshot.index_manifest != before.index_manifest:
        # Deleting rows by deletion vectors changes no data file.
        was, is_now = (
            {e.file.file_name for e in _index_of(store, s) if selects(e.partition)} for s in (before, snapshot)
        )
        files += sorted(was ^ is_now)
    return tuple(files)


def _index_of(store: TableStore, snapshot: Snapshot | None) -> list[IndexEntry]:
    if snapshot is None or snapshot.index_manifest is None:
        return []
    return store.manifests.read_index(snapshot.index_manifest)


def _error(store: TableStore, intent: CommitRequest, base: Snapshot | None, conflict: Conflict) -> CommitConflictError:
    other = _who_deleted(store, base, frozenset(conflict.files)) or base
    return conflict_error(conflict, table=store.name, user=intent.user, kind=intent.kind, other=other)


def _who_deleted(store: TableStore, base: Snapshot | None, names: frozenset[str]) -> Snapshot | None:
    """Return the snapshot that removed one of the files, if it is among the newest ones."""
    if base is None:
        return None
    try:
        for snapshot in islice(store.snapshots.walk_back(base.id), _BLAME_MAX):
            if any(e.kind == DELETE and e.file.file_name in names for e in store.manifests.delta(snapshot)):
                return snapshot
    except (LakewrightError, OSError):
        return None  # the conflict is raised without the name of a snapshot
    return None
