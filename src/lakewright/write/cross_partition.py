"""The router of keys that may change partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.commit.commit_message import snapshot_key
from lakewright.commit.commit_plan import writes_rows
from lakewright.lsm.key_order import KeyOrder
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.read.manifest_scan import FileSchemas
from lakewright.read.projection import plan_projection
from lakewright.read.split_planning import deletions_of, plan_splits
from lakewright.read.split_reader import SplitReader
from lakewright.spec.bucket_hash import row_hashes
from lakewright.spec.merge_engine import MovePolicy
from lakewright.spec.scalars import to_array
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.system_columns import DELETE, INSERT, UPDATE_AFTER, VALUE_KIND
from lakewright.spec.table_options import TableOptions
from lakewright.spec.types import DataField
from lakewright.storage.concurrency import in_order
from lakewright.write.bucket_assignment import Assigner, BucketFill, BucketLimits
from lakewright.write.bucket_routing import (
    IndexChange,
    Routing,
    RowGroup,
    group_rows,
    number_partitions,
    refuse_chosen_bucket,
    run_bounds,
)
from lakewright.write.write_task import PartitionBucket, WriteTask

# ---- Slots of keys ---------------------------------------------------------------------------------------------------
# The index holds the keys themselves, so two keys never share a slot. Keys are looked up by their hashes, in sorted
# pairs of a hash and a slot, for a whole array of keys at a time. Keys with equal hashes are compared. No Python code
# runs per row.

Slots: TypeAlias = npt.NDArray[np.int64]
_Flags: TypeAlias = npt.NDArray[np.bool_]

_LOW = np.int64(0xFFFFFFFF)
_NOTHING: Slots = np.empty(0, np.int64)
_RECENT_MIN = 1 << 16  # so many new keys are kept in an array of their own before they are merged into the large one
_BITS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}


class KeyIndex:
    """The slots of keys, counted from 0 in the order in which the keys were added."""

    def __init__(self, fields: Sequence[DataField]) -> None:
        self._fields = tuple(fields)
        self._keys: list[pa.Table] = []  # by slot
        self._base = _NOTHING  # pairs of hash and slot, sorted
        self._recent = _NOTHING
        self._loaded: list[Slots] = []  # pairs that are not sorted yet
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def load(self, keys: pa.Table) -> None:
        """Add keys that are known to be new; they get the next slots."""
        plain = self._plain(keys)
        self._loaded.append(self._add(plain, self._hashes(keys)))

    def slots(self, keys: pa.Table) -> Slots:
        """Return the slots of keys, each given once; keys that are new get the next slots."""
        self._sort_loaded()
        hashes, plain = self._hashes(keys), self._plain(keys)
        slots = self._look_up(self._base, hashes, plain)
        left = np.flatnonzero(slots < 0)
        if len(left) and len(self._recent):
            slots[left] = self._look_up(self._recent, hashes[left], plain.take(pa.array(left)))
            left = left[slots[left] < 0]
        if len(left):
            new = self._add(plain if len(left) == len(slots) else plain.take(pa.array(left)), hashes[left])
            slots[left] = new & _LOW
            self._recent = _merge_slots(self._recent, np.sort(new))
            if len(self._recent) > max(_RECENT_MIN, len(self._base) // 8):
                self._base, self._recent = _merge_slots(self._base, self._recent), _NOTHING
        return slots

    def _hashes(self, keys: pa.Table) -> Slots:
        """Return the hash of each key, in the high half of a number."""
        types = [field.type for field in self._fields]
        return row_hashes([keys.column(field.name) for field in self._fields], types).astype(np.int64) << 32

    def _plain(self, keys: pa.Table) -> pa.Table:
        """Return the columns of the key, floats as their bits, because 0.0 and -0.0 are different keys."""
        columns = [keys.column(field.name).combine_chunks() for field in self._fields]
        columns = [column.view(_BITS[column.type]) if column.type in _BITS else column for column in columns]
        return pa.table(columns, names=[field.name for field in self._fields])

    def _add(self, plain: pa.Table, hashes: Slots) -> Slots:
        """Give keys the next slots, and return them as pairs."""
        pairs = hashes | np.arange(self._size, self._size + len(hashes), dtype=np.int64)
        self._size += len(hashes)
        self._keys.append(plain)
        # A table is joined to the one before it once it is as large, so that there are few tables and few copies.
        while len(self._keys) > 1 and len(self._keys[-1]) >= len(self._keys[-2]):
            last = self._keys.pop()
            self._keys[-1] = pa.concat_tables([self._keys[-1], last]).combine_chunks()
        return pairs

    def _sort_loaded(self) -> None:
        """Merge the pairs of loaded keys into the sorted ones."""
        if self._loaded:
            self._base = np.sort(np.concatenate([self._base, *self._loaded]))
            self._loaded = []

    def _look_up(self, pairs: Slots, hashes: Slots, plain: pa.Table) -> Slots:
        """Return the slots of keys among some pairs, -1 for keys that have none among them."""
        out = np.full(len(hashes), -1, np.int64)
        rows = np.arange(len(hashes))
        at = np.searchsorted(pairs, hashes)
        # Each turn looks at the next of the pairs with a key's hash; more than one is rare.
        while len(rows):
            inside = at < len(pairs)
            rows, at = rows[inside], at[inside]
            equal = pairs[at] & ~_LOW == hashes[rows]
            rows, at = rows[equal], at[equal]
            slots = pairs[at] & _LOW
            same = self._same(slots, plain, rows)
            out[rows[same]] = slots[same]
            rows, at = rows[~same], at[~same] + 1
        return out

    def _same(self, slots: Slots, plain: pa.Table, rows: Slots) -> _Flags:
        """Say where the key of a slot is the key of a row."""
        same = np.ones(len(rows), np.bool_)
        if len(rows) == 0:
            return same
        known = pa.concat_tables(self._keys).take(pa.array(slots))
        given = plain if len(rows) == len(plain) else plain.take(pa.array(rows))
        for left, right in zip(known.columns, given.columns, strict=True):
            equal = pc.fill_null(pc.equal(left, right), pc.and_(pc.is_null(left), pc.is_null(right)))
            same &= equal.to_numpy()
        return same


def _merge_slots(left: Slots, right: Slots) -> Slots:
    # A stable sort finds the two sorted runs and merges them in linear time.
    return np.sort(np.concatenate((left, right)), kind="stable")


# ---- Partitions of keys ----------------------------------------------------------------------------------------------
# Rows of one key are handled in order of arrival. For the first of them the key is where the table has it, for each
# later one where the row before it put it. `MovePolicy`, a trait of the merge engine, says what becomes of a
# row that names another partition than its key has. All rows are decided together on arrays, however often a key
# occurs.

Longs: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

NOWHERE = -1


@dataclass(frozen=True, slots=True)
class SortedRows:
    """Rows sorted by key, those of one key in order of arrival."""

    new: Flags  # where a new key begins
    kinds: npt.NDArray[np.int8]
    partitions: Longs  # that the row itself names, by number
    homes: Longs  # the partition in which the table has the row's key, by number, or NOWHERE


@dataclass(frozen=True, slots=True)
class Moves:
    """What to do with each row."""

    gets_bucket: Flags  # the row's key gets a bucket in the row's own partition
    source: Longs  # the row whose new bucket this row goes to; NOWHERE: it goes where the table has the key
    leaves_old: Flags  # the key must be deleted in the partition that the row before put it into
    removes: Flags  # the row removes its key from the table
    dropped: Flags
    ends: Longs  # the last row of each key
    gone: Flags  # of each key, whether the table is without it in the end


def plan_moves(rows: SortedRows, moving: MovePolicy, *, deletes_remove: bool) -> Moves:
    """Decide for sorted rows; `deletes_remove` says whether a delete (-D) takes the key out of the table."""
    count = len(rows.new)
    positions = np.arange(count, dtype=np.int64)
    first = _fill_forward(np.where(rows.new, positions, NOWHERE))  # the first row of each row's key
    adds = (rows.kinds == INSERT) | (rows.kinds == UPDATE_AFTER)
    removes = (rows.kinds == DELETE) & deletes_remove
    # A delete of a key that the table lacks counts for later rows: from then on the key has that row's partition.
    lasts = np.ones_like(adds) if moving is MovePolicy.STAY and not deletes_remove else adds
    # The last row before this one, of the same key, that decides whether the table has the key.
    event = _before(np.where(lasts | removes, positions, NOWHERE), first)
    seen = event != NOWHERE
    exists = np.where(seen, lasts[event], rows.homes != NOWHERE)
    if moving is MovePolicy.MOVE:
        lives_in = np.where(seen, rows.partitions[event], rows.homes)
        gets_bucket = adds & ~(exists & (lives_in == rows.partitions))
    else:
        gets_bucket = adds & ~exists
    # A delete of a key that the table lacks goes to the partition that it names.
    gets_bucket |= rows.new & ~adds & (rows.homes == NOWHERE)
    source = _since(np.where(gets_bucket, positions, NOWHERE), first)
    dropped = np.zeros(count, np.bool_)
    if moving is MovePolicy.DROP:
        home = np.where(source == NOWHERE, rows.homes, rows.partitions[source])
        dropped = adds & exists & (home != rows.partitions)
    ends = np.flatnonzero(np.append(rows.new[1:], [True] * min(1, count)))
    last = _since(np.where(lasts | removes, positions, NOWHERE), first)[ends]
    gone = np.where(last == NOWHERE, rows.homes[ends] == NOWHERE, removes[last])
    return Moves(gets_bucket, source, gets_bucket & adds & exists, removes & exists, dropped, ends, gone)


def _fill_forward(positions: Longs) -> Longs:
    """Return of each row the last position up to it."""
    return np.maximum.accumulate(positions) if len(positions) else positions


def _since(positions: Longs, first: Longs) -> Longs:
    """Return of each row the last position up to it that is not before the first row of its key."""
    filled = _fill_forward(positions)
    return np.where(filled >= first, filled, NOWHERE)


def _before(positions: Longs, first: Longs) -> Longs:
    """Return of each row the last position before it that is not before the first row of its key."""
    filled = np.append([NOWHERE], _fill_forward(positions)[:-1]) if len(positions) else positions
    return np.where(filled >= first, filled, NOWHERE)


# ---- The router ------------------------------------------------------------------------------------------------------
# Before the first row is routed, all keys of the newest snapshot are read into memory, with their partitions and
# buckets. If a row names another partition than its key has, the merge engine decides: the key moves to the row's
# partition, the row goes to the key's partition, or the row is dropped (see `write.cross_partition`).
#
# Two writers at the same time could put one key into two partitions. So every message names the snapshot whose keys
# its writer knew, and the committer raises a conflict if another writer has written since.

Piece: TypeAlias = tuple[PartitionBucket, pa.RecordBatch]


class CrossPartitionRouter:
    """Puts each key into the bucket that it has, in any partition, and new keys into a bucket with free space."""

    def __init__(self, task: WriteTask) -> None:
        store = task.store
        fields = [store.schema.field(name) for name in store.schema.primary_keys]
        self._task = task
        self._store = store
        self._routing = Routing(store.name, store.schema.partition_fields)
        self._order = KeyOrder(fields)
        self._limits = BucketLimits.of_options(store.options, Assigner())
        self._moving = store.options.merge_engine.traits.on_partition_change
        self._deletes_remove = store.options.deletes_remove_rows
        self._index = KeyIndex(fields)
        self._place_of = np.empty(0, np.int32)  # by slot of the index
        self._places = _Places()
        self._fill: dict[int, BucketFill] = {}  # by partition
        self._base: str | None = None  # the snapshot whose keys are known, besides those that this writer added
        self._touched: set[PartitionBucket] = set()  # since `finish`

    def route(self, rows: pa.Table, *, bucket: int | None = None) -> list[RowGroup]:
        """Return the rows grouped by partition and bucket, with deletes for keys that move to another partition."""
        refuse_chosen_bucket(self._store.name, bucket)
        if rows.num_rows == 0:
            return []
        if not self._touched:
            self._read_newest()
        local, partitions = number_partitions(rows, self._routing)
        named = np.array([self._places.partition(row) for row in partitions], np.int64)[local]
        by_key = self._order.sort_rows(rows)
        order, new = by_key.order, by_key.new
        slots = self._slots(rows.select(self._order.names).take(pa.array(order[new])))
        key_of = np.cumsum(new) - 1  # of each sorted row, the number of its key
        current = self._place_of[slots].astype(np.int64)[key_of]
        kinds = rows.column(VALUE_KIND.name).to_numpy()
        sorted_rows = SortedRows(new, kinds[order], named[order], self._places.partitions_of(current))
        moves = plan_moves(sorted_rows, self._moving, deletes_remove=self._deletes_remove)
        places = self._give_buckets(moves, sorted_rows, order, current)
        before = np.where(new, current, np.concatenate(([NOWHERE], places[:-1])))
        self._count(moves, sorted_rows, places, before)
        self._place_of[slots] = np.where(moves.gone, NOWHERE, places[moves.ends])
        kept = np.flatnonzero(~moves.dropped)
        left = np.flatnonzero(moves.leaves_old)
        # The delete of an old row comes before the new row; otherwise rows stay in order of arrival.
        sources = np.concatenate((order[left], order[kept]))
        final = np.argsort(sources, kind="stable")
        kinds = np.concatenate((np.full(len(left), DELETE, np.int8), kinds[order[kept]]))
        targets = np.concatenate((before[left], places[kept]))[final]
        groups = self._group_rows(rows, sources[final], kinds[final], targets, named)
        self._touched.update((group.partition, group.bucket) for group in groups)
        return groups

    def total_buckets(self, partition: bytes) -> int | None:  # noqa: ARG002 - no partition has a fixed number
        """Return None: buckets are added as keys come."""
        return None

    def finish(self) -> Mapping[PartitionBucket, IndexChange]:
        """Return the snapshot whose keys decided the buckets; there are no index files, as the rows have the keys."""
        known = None if self._base is None else (self._base,) if self._base else ()
        changes = {place: IndexChange(hash_base=known) for place in self._touched}
        self._touched = set()
        return changes

    def _slots(self, keys: pa.Table) -> Longs:
        """Return the slots of keys; the slots of new keys have no place yet."""
        slots = self._index.slots(keys)
        if len(self._index) > len(self._place_of):
            more = np.full(len(self._index), NOWHERE, np.int32)  # doubled, so that growing is rare
            self._place_of = np.concatenate((self._place_of, more))
        return slots

    def _give_buckets(self, moves: Moves, rows: SortedRows, order: Longs, current: Longs) -> Longs:
        """Return where each row goes, after giving buckets to new keys, and to keys that move, in order of arrival."""
        at = np.flatnonzero(moves.gets_bucket)
        at = at[np.lexsort((order[at], rows.partitions[at]))]
        given = np.full(len(order), NOWHERE, np.int64)
        for group in np.split(at, run_bounds(rows.partitions[at])[1:-1] if len(at) else []):
            if len(group):
                number = int(rows.partitions[group[0]])
                fill = self._fill.setdefault(number, BucketFill(self._limits, {}))
                given[group] = self._places.numbers(number, fill.place(group.astype(np.int32)))
        return np.where(moves.source == NOWHERE, current, given[moves.source])

    def _count(self, moves: Moves, rows: SortedRows, places: Longs, before: Longs) -> None:
        """Subtract keys that left their buckets from the counts of these buckets."""
        lost = moves.gets_bucket & (
            (rows.kinds & 1) == 1
        )  # a delete of a key that the table lacks leaves no key behind
        if self._moving is MovePolicy.STAY and not self._deletes_remove:
            lost = np.zeros_like(lost)
        gone = np.concatenate((before[moves.leaves_old], places[moves.removes], places[lost]))
        for place, count in zip(*np.unique(gone, return_counts=True), strict=True):
            partition, bucket = self._places.at(int(place))
            self._fill[partition].counts[bucket] -= int(count)

    def _group_rows(
        self, rows: pa.Table, sources: Longs, kinds: npt.NDArray[np.int8], places: Longs, named: Longs
    ) -> list[RowGroup]:
        """Return the rows at some positions, which may repeat or lack some, grouped by partition and bucket."""
        numbers = self._places.partitions_of(places)
        if len(sources) != len(named) or bool((sources != np.arange(len(named))).any()):
            rows = rows.take(pa.array(sources))
        at = rows.column_names.index(VALUE_KIND.name)
        rows = rows.set_column(at, rows.schema.field(at), pa.array(kinds))
        if bool((numbers != named[sources]).any()):
            rows = self._in_partitions(rows, numbers)
        return group_rows(rows, self._routing, (numbers, self._places.rows), self._places.buckets_of(places))

    def _in_partitions(self, rows: pa.Table, numbers: Longs) -> pa.Table:
        """Return rows with the partition columns set to the partitions that they go to."""
        values = [self._store.partition_values(row) for row in self._places.rows]
        for column, field in zip(zip(*values, strict=True), self._routing.partition_fields, strict=True):
            at = rows.column_names.index(field.name)
            distinct = to_array(list(column), field.type).cast(rows.schema.field(at).type)
            rows = rows.set_column(at, rows.schema.field(at), distinct.take(pa.array(numbers)))
        return rows

    # ---- keys of the table -------------------------------------------------------------------------------------------

    def _read_newest(self) -> None:
        """Read the keys of the newest snapshot when the first rows of a commit arrive; an overwrite needs none."""
        if self._task.overwrite:
            return
        newest = self._store.snapshots.latest()
        if self._base is None:
            self._load(newest)
            self._base = snapshot_key(newest)
        elif newest is not None and self._knows(newest):
            self._base = snapshot_key(newest)

    def _knows(self, newest: Snapshot) -> bool:
        """Return whether only this writer has written rows since the last snapshot that it read."""
        first = 0
        for snapshot in self._store.snapshots.walk_back(newest.id):
            if snapshot_key(snapshot) == self._base:
                return True
            first = snapshot.id
            if writes_rows(snapshot) and not all(
                self._task.stem in entry.file.file_name for entry in self._store.manifests.delta(snapshot)
            ):
                return False
        return first == 1 and not self._base  # it began with an empty table, and all snapshots are its own

    def _load(self, snapshot: Snapshot | None) -> None:
        """Read the keys of a snapshot."""
        counts: dict[int, dict[int, int]] = {}
        places: list[npt.NDArray[np.int32]] = [self._place_of]
        for (partition, bucket), batch in _live_keys(self._store, snapshot, self._order.names):
            number = self._places.partition(partition)
            place = self._places.numbers(number, np.array([bucket], np.int32))[0]
            self._index.load(pa.Table.from_batches([batch]))
            places.append(np.full(batch.num_rows, place, np.int32))
            buckets = counts.setdefault(number, {})
            buckets[bucket] = buckets.get(bucket, 0) + batch.num_rows
        self._place_of = np.concatenate(places)
        self._fill = {number: BucketFill(self._limits, buckets) for number, buckets in counts.items()}


class _Places:
    """Numbers for partitions, and for buckets of partitions."""

    def __init__(self) -> None:
        self.rows: list[bytes] = []  # the partitions, by number
        self._partitions: dict[bytes, int] = {}
        self._numbers: dict[tuple[int, int], int] = {}
        self._pairs: list[tuple[int, int]] = []

    def partition(self, row: bytes) -> int:
        """Return the number of a partition."""
        number = self._partitions.setdefault(row, len(self.rows))
        if number == len(self.rows):
            self.rows.append(row)
        return number

    def numbers(self, partition: int, buckets: npt.NDArray[np.int32]) -> Longs:
        """Return the numbers of buckets of one partition."""
        distinct, inverse = np.unique(buckets, return_inverse=True)
        return np.array([self._number((partition, bucket)) for bucket in distinct.tolist()], np.int64)[inverse]

    def _number(self, pair: tuple[int, int]) -> int:
        number = self._numbers.setdefault(pair, len(self._pairs))
        if number == len(self._pairs):
            self._pairs.append(pair)
        return number

    def at(self, place: int) -> tuple[int, int]:
        """Return the number of the partition, and the bucket."""
        return self._pairs[place]

    def partitions_of(self, places: Longs) -> Longs:
        """Return the numbers of partitions; NOWHERE stays nowhere."""
        return np.array([*(pair[0] for pair in self._pairs), NOWHERE], np.int64)[places]

    def buckets_of(self, places: Longs) -> Longs:
        """Return the buckets of places."""
        return np.array([*(pair[1] for pair in self._pairs), NOWHERE], np.int64)[places]


def _live_keys(store: TableStore, snapshot: Snapshot | None, names: tuple[str, ...]) -> Iterator[Piece]:
    """Yield the key columns of all live rows of a snapshot, level 0 included, with where they are."""
    if snapshot is None:
        return
    # A batch read may skip level 0 until it is compacted, but keys of level 0 are needed too.
    merging = store.with_schema(store.schema.with_options({TableOptions.deletion_vectors_merge_on_read.key(): "true"}))
    index = store.manifests.read_index(snapshot.index_manifest) if snapshot.index_manifest else []
    live = [entry for entry in store.manifests.live(snapshot) if entry.bucket >= 0]
    splits = plan_splits(merging, snapshot.id, live, deletions_of(store, index))
    reader = SplitReader(merging, FileSchemas(store), plan_projection(store.schema.fields, names))
    sources: list[Callable[[], Iterator[Piece]]] = [partial(_pieces, reader, split) for split in splits]
    yield from in_order(sources, threads=store.options.lakewright_read_threads, ahead_max=4)


def _pieces(reader: SplitReader, split: DataSplit) -> Iterator[Piece]:
    for batch in reader.read(split):
        yield (split.partition_bytes, split.bucket), batch
