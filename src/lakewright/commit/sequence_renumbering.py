"""Sequence numbers in commit order.

Of two rows with one key the one with the higher sequence number is the latest. A writer numbers its rows above those
that it found in the bucket; if another commit wrote to the bucket since, both may have used the same numbers. So every
attempt compares the lowest number of each bucket's new files with the highest of the base. Where it is not higher, the
new files of that bucket, and their changelog, are written again with a constant added to all numbers.

Invariant: original files are deleted only after a snapshot that names their copies is published, and copies only
when no snapshot names them or can still name them. The name of a copy contains that of its original, so that a replay
of the same messages finds the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.commit.commit_changes import Change, MessageFile, copy_name, origin_name
from lakewright.commit.commit_message import snapshot_key
from lakewright.commit.commit_plan import CommitPlan, CommitRequest
from lakewright.commit.conflicts import WRITE_AGAIN, Conflict, conflict_error
from lakewright.errors import InvalidMessageError, NotFoundError, pluralize
from lakewright.formats.data_file_writer import FilePlan
from lakewright.formats.file_format import FileReader, FileWriter
from lakewright.formats.format_registry import file_format_of, open_reader, open_writer
from lakewright.metadata.manifest_files import may_contain_partitions
from lakewright.metadata.table_store import TableStore
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.column_stats import NONE
from lakewright.spec.manifest import ADD, DataFile, ManifestEntry, ManifestFile, with_file_name
from lakewright.spec.snapshot import MAX_LONG, CommitKind, Snapshot
from lakewright.spec.system_columns import KEYED_FIELDS, SEQUENCE_NUMBER
from lakewright.spec.table_schema import KEY_PREFIX, POSTPONE, TableSchema

Place: TypeAlias = tuple[bytes, int]  # a partition and a bucket

_DELTAS_MAX = 16  # beyond so many snapshots reading all live files of the buckets is cheaper
# A gap for commits that are published while the copies are written: without it a slow commit might copy its files again
# and again. It is random, so that of several commits that copy at the same time not all need another copy.
_ROOM_BITS, _ROOM_BITS_MORE = 20, 12
_CHUNK_BYTES = 64 << 20
_THREADS = 4


class HighestNumbers:
    """The highest sequence numbers of some buckets, on one snapshot after the other."""

    def __init__(self, store: TableStore, places: frozenset[Place], since: str | None) -> None:
        self._store = store
        self._places = places
        self._since = since  # what was added up to this snapshot is in `_highest`, or known to be low enough
        self._highest: dict[Place, int] = {}

    def in_snapshot(self, base: Snapshot) -> Mapping[Place, int]:
        """Return the highest number of each bucket in a snapshot; a bucket may be missing if no number is too high."""
        between = self._between(base)
        try:
            deltas = [] if between is None else [self._delta(snapshot) for snapshot in between]
        except NotFoundError:  # a snapshot expired while its delta was read
            between = None
        if between is None:
            self._highest = {}
            deltas = [self._store.manifests.live(base, keep=self._keep, keep_manifest=self._may_name)]
        for entries in deltas:
            self._take_highest(entries)
        self._since = snapshot_key(base)
        return self._highest

    def _delta(self, snapshot: Snapshot) -> list[ManifestEntry]:
        # A compaction keeps sequence numbers, except where it moves rows out of the postpone bucket.
        if snapshot.commit_kind is CommitKind.COMPACT and self._store.options.bucket != POSTPONE:
            return []
        return self._store.manifests.delta(snapshot, keep=self._keep)

    def _between(self, base: Snapshot) -> list[Snapshot] | None:
        """Return the snapshots after the one whose numbers are known; None if they are too many or some expired."""
        if self._since is None:
            return None
        snapshots: list[Snapshot] = []
        for snapshot in self._back_from(base):
            if snapshot_key(snapshot) == self._since:
                return snapshots
            if len(snapshots) == _DELTAS_MAX:
                return None
            snapshots.append(snapshot)
        return snapshots if not self._since and snapshots[-1].id == 1 else None

    def _back_from(self, base: Snapshot) -> Iterator[Snapshot]:
        yield base
        yield from self._store.snapshots.walk_back(base.id - 1)

    def _take_highest(self, entries: Sequence[ManifestEntry]) -> None:
        for entry in entries:
            if entry.kind == ADD:
                place, highest = (entry.partition, entry.bucket), entry.file.max_sequence_number
                self._highest[place] = max(self._highest.get(place, highest), highest)

    def _keep(self, partition: bytes, bucket: int, _total: int, _level: int) -> bool:
        return (partition, bucket) in self._places

    def _may_name(self, manifest: ManifestFile) -> bool:
        low, high = manifest.min_bucket, manifest.max_bucket
        places = [p for p in self._places if low is None or high is None or low <= p[1] <= high]
        values = [self._store.partition_values(partition) for partition, _ in places]
        return may_contain_partitions(manifest.partition_stats, values, self._store.partition_types)


@dataclass(frozen=True, slots=True)
class _Copies:
    """The new files of one bucket, renumbered."""

    lowest: int  # number of their rows
    files: Mapping[str, DataFile]  # by the names of the originals


@dataclass(slots=True)
class Renumbering:
    """Copies new files of one intent as often as a base has sequence numbers that are too high."""

    store: TableStore
    intent: CommitRequest
    random: Callable[[], float]
    new_uuid: Callable[[], str]
    _places: Mapping[Place, tuple[ManifestEntry, ...]] = field(init=False)
    _highest_numbers: HighestNumbers | None = field(init=False)
    _copies: dict[Place, _Copies] = field(default_factory=dict)
    _made: dict[str, str] = field(default_factory=dict)  # the path of every copy that may exist, by its name
    _named: dict[str, Change] = field(default_factory=dict)  # the change of each snapshot that may be published

    def __post_init__(self) -> None:
        numbering = self.intent.numbering
        self._places = {} if numbering is None else _by_place(self.intent.change.entries)
        since = None if numbering is None else numbering.since
        self._highest_numbers = HighestNumbers(self.store, frozenset(self._places), since) if self._places else None

    def apply(self, plan: CommitPlan, *, keep: bool) -> CommitPlan:
        """Return the plan with files whose numbers are above those of its base.

        Copies whose numbers are too low by now are deleted at once, unless an attempt of unknown outcome may name them
        (`keep`).
        """
        if self._highest_numbers is None or plan.base is None:
            return plan
        floors = self._highest_numbers.in_snapshot(plan.base)
        for place, entries in self._places.items():
            floor = floors.get(place)
            copies = self._copies.get(place)
            if copies is not None and (floor is None or copies.lowest > floor):
                continue
            self._copies.pop(place, None)
            if not keep:
                self._delete([] if copies is None else [file.file_name for file in copies.files.values()])
            lowest = min(e.file.min_sequence_number for e in entries)
            if floor is not None and lowest <= floor:
                self._copies[place] = self._renumber_bucket(place, entries, plan.base, floor + 1 - lowest)
        if not self._copies:
            return plan
        entries, changelog = (
            self._substitute_entries(plan.change.entries),
            self._substitute_entries(plan.change.changelog),
        )
        return replace(plan, change=replace(plan.change, entries=entries, changelog=changelog))

    def remember(self, snapshot: Snapshot, plan: CommitPlan) -> None:
        """Remember which files a snapshot names, before it is published."""
        if self._made:
            self._named[snapshot_key(snapshot)] = plan.change

    def remove_unused_copies(self, published: Snapshot, *, with_originals: bool) -> None:
        """Delete copies that a published snapshot does not name, and with them originals of those that it names.

        Originals that an earlier commit of the messages may have named stay: a branch or tag may have that snapshot.
        """
        change = self._named.get(snapshot_key(published), Change())
        named = {e.file.file_name for e in (*change.entries, *change.changelog)}
        replaced = [e for e in (*change.entries, *change.changelog) if e.file.file_name in self._made]
        self._delete([name for name in self._made if name not in named])
        for entry in replaced if with_originals else ():
            original = with_file_name(entry.file, origin_name(entry.file.file_name))
            with suppress(OSError):
                self.store.storage.delete(self._path(entry, original))

    def copies(self) -> list[MessageFile]:
        """Return the copies that the next snapshot names unless their numbers are too low by then."""
        files = [file for copies in self._copies.values() for file in copies.files.values()]
        return [MessageFile(file.file_name, self._made[file.file_name], file.file_size) for file in files]

    def remove_all_copies(self) -> None:
        """Delete all copies, once it is known that nothing was published and nothing will be."""
        self._delete(list(self._made))

    def _renumber_bucket(self, place: Place, entries: Sequence[ManifestEntry], base: Snapshot, shift: int) -> _Copies:
        """Write the files of one bucket again, with higher numbers."""
        self._check_renamable(entries, base)
        changelog = tuple(e for e in self.intent.change.changelog if (e.partition, e.bucket) == place)
        shift += int(2 ** (_ROOM_BITS + _ROOM_BITS_MORE * self.random()))
        originals = [(entry, False) for entry in entries] + [(entry, True) for entry in changelog]
        if max(entry.file.max_sequence_number for entry, _ in originals) + shift > MAX_LONG:
            raise InvalidMessageError(
                f"{self.store.name}: no sequence numbers are left above those of bucket {place[1]}; compact the table "
                "and write the data again",
                table=self.store.name,
            )
        unique = self.new_uuid().replace("-", "")[:12]

        def copy_file(original: tuple[ManifestEntry, bool]) -> DataFile:
            entry, is_changelog = original
            name = copy_name(entry.file.file_name, unique)
            path = self._path(entry, with_file_name(entry.file, name))
            self._made[name] = path  # before it exists: deleting a file that is missing does no harm
            source = self._path(entry, entry.file)
            size = _copy(self.store, entry.file, (source, path), shift=shift, changelog=is_changelog)
            return _shift_sequence_numbers(replace(with_file_name(entry.file, name), file_size=size), shift)

        if sum(entry.file.file_size for entry, _ in originals) < _CHUNK_BYTES:
            copies = [copy_file(original) for original in originals]
        else:
            with ThreadPoolExecutor(min(_THREADS, len(originals))) as pool:
                copies = list(pool.map(copy_file, originals))
        files = {entry.file.file_name: copy for (entry, _), copy in zip(originals, copies, strict=True)}
        return _Copies(min(copy.min_sequence_number for copy in copies), files)

    def _check_renamable(self, entries: Sequence[ManifestEntry], base: Snapshot) -> None:
        fixed = frozenset() if self.intent.numbering is None else self.intent.numbering.fixed
        named = tuple(e.file.file_name for e in entries if e.file.file_name in fixed)
        if named:
            conflict = Conflict("the new rows must come after those of another commit", named, WRITE_AGAIN)
            intent = self.intent
            raise conflict_error(conflict, table=self.store.name, user=intent.user, kind=intent.kind, other=base)

    def _substitute_entries(self, entries: Sequence[ManifestEntry]) -> tuple[ManifestEntry, ...]:
        return tuple(self._substitute(entry) for entry in entries)

    def _substitute(self, entry: ManifestEntry) -> ManifestEntry:
        copies = self._copies.get((entry.partition, entry.bucket))
        file = None if copies is None or entry.kind != ADD else copies.files.get(entry.file.file_name)
        return entry if file is None else replace(entry, file=file)

    def _path(self, entry: ManifestEntry, file: DataFile) -> str:
        return self.store.layout.data_file(self.store.partition_directory(entry.partition), entry.bucket, file)

    def _delete(self, names: Sequence[str]) -> None:
        """Delete copies that nothing refers to. What cannot be deleted is left to the removal of orphans."""
        for name in names:
            with suppress(OSError):
                self.store.storage.delete(self._made.pop(name))


def _by_place(entries: Sequence[ManifestEntry]) -> dict[Place, tuple[ManifestEntry, ...]]:
    places: dict[Place, tuple[ManifestEntry, ...]] = {}
    for entry in entries:
        # Rows of the postpone bucket are numbered when they get real buckets, and deeper levels count as older.
        if entry.kind == ADD and entry.bucket >= 0 and entry.file.level == 0:
            place = (entry.partition, entry.bucket)
            places[place] = (*places.get(place, ()), entry)
    return places


def _shift_sequence_numbers(file: DataFile, shift: int) -> DataFile:
    low, high = file.min_sequence_number + shift, file.max_sequence_number + shift
    return replace(file, min_sequence_number=low, max_sequence_number=high)


def _copy(store: TableStore, file: DataFile, paths: tuple[str, str], *, shift: int, changelog: bool) -> int:
    """Write a file again with all its sequence numbers shifted; return the size of the copy."""
    source, target = paths
    schema = _schema_of(store, file)
    plan = FilePlan.for_keyed_rows(schema, level=file.level, changelog=changelog)
    file_format = file_format_of(file.file_name)
    options = replace(plan.options, stats=tuple(NONE for _ in plan.fields))
    fields = (*KEYED_FIELDS, *schema.fields)
    opened = store.storage.open_input(source, size=file.file_size)
    reader = open_reader(file_format, opened, path=source, size=file.file_size, fields=fields)
    try:
        writer = open_writer(file_format, store.storage.open_output(target), plan.fields, options)
        try:
            columns = [field.name.removeprefix(KEY_PREFIX) for field in plan.fields]
            _copy_rows(reader, writer, _Shift(store.name, file, columns, to_arrow_schema(plan.fields), shift))
        except BaseException:
            writer.discard()
            raise
        return writer.close().size
    finally:
        reader.close()


def _schema_of(store: TableStore, file: DataFile) -> TableSchema:
    if file.schema_id == store.schema.id:
        return store.schema
    return store.schemas.get(file.schema_id).with_options(store.schema.options)


@dataclass(frozen=True, slots=True)
class _Shift:
    """How the rows of one file become those of its copy."""

    table: str
    file: DataFile
    columns: Sequence[str]  # of the file, under the names of the columns they hold
    schema: pa.Schema
    shift: int

    def apply(self, rows: pa.Table) -> pa.Table:
        """Return rows as the copy stores them."""
        numbers = rows.column(SEQUENCE_NUMBER.name)
        bounds = pc.min_max(numbers).as_py()
        low, high = self.file.min_sequence_number, self.file.max_sequence_number
        if bounds["min"] is None or bounds["min"] < low or bounds["max"] > high:
            self.refuse(f"has sequence numbers from {bounds['min']} to {bounds['max']}, not from {low} to {high}")
        place = rows.column_names.index(SEQUENCE_NUMBER.name)
        rows = rows.set_column(place, SEQUENCE_NUMBER.name, pc.add_checked(numbers, self.shift))
        return pa.Table.from_arrays([rows.column(name) for name in self.columns], schema=self.schema)

    def refuse(self, what: str) -> None:
        """Refuse a file that is not as its message says."""
        raise InvalidMessageError(
            f"{self.table}: {self.file.file_name} {what}, as its message says; write the data again",
            table=self.table,
            files=(self.file.file_name,),
        )


def _copy_rows(reader: FileReader, writer: FileWriter, shift: _Shift) -> None:
    """Move all rows from one file to another, in parts that make row groups of a good size."""
    count, held_bytes = 0, 0
    held: list[pa.RecordBatch] = []
    for _, batch in reader.batches():
        count += batch.num_rows
        held.append(batch)
        held_bytes += batch.nbytes
        if held_bytes >= _CHUNK_BYTES:
            writer.write(shift.apply(pa.Table.from_batches(held)))
            held, held_bytes = [], 0
    if held:
        writer.write(shift.apply(pa.Table.from_batches(held)))
    if count != shift.file.row_count:
        shift.refuse(f"has {pluralize(count, 'row')}, not {shift.file.row_count}")
