"""The router of tables whose primary key lacks partition columns: rows in, groups out; a key has one partition.

Before the first row is routed, all keys of the newest snapshot are read into memory, with their partitions and buckets.
If a row names another partition than its key has, the merge engine decides: the key moves to the row's partition, the
row goes to the key's partition, or the row is dropped (see `write.buckets.partition_moves`).

Two writers at the same time could put one key into two partitions. So every message names the snapshot whose keys its
writer knew, and the committer raises a conflict if another writer has written since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakewright.commit.message.message import snapshot_name
from lakewright.commit.plan import writes_rows
from lakewright.lsm.keys import KeyOrder
from lakewright.metadata.store import TableStore
from lakewright.read.lanes import in_order
from lakewright.read.projection import plan_projection
from lakewright.read.reader import SplitReader
from lakewright.read.scan import FileSchemas
from lakewright.read.splits.plan import deletions_of, plan_splits
from lakewright.read.splits.split import DataSplit
from lakewright.spec.keyed_rows import DELETE, VALUE_KIND
from lakewright.spec.options import CoreOptions, MergeEngine
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.values import to_array
from lakewright.write.buckets.assign import Assigner, BucketFill, BucketLimits
from lakewright.write.buckets.key_index import KeyIndex
from lakewright.write.buckets.partition_moves import NOWHERE, MovePolicy, Moves, SortedRows, plan_moves
from lakewright.write.buckets.routing import (
    Group,
    IndexChange,
    Routing,
    number_partitions,
    place_rows,
    refuse_chosen_bucket,
    run_bounds,
)
from lakewright.write.task import Place, WriteTask

_MOVING = {MergeEngine.DEDUPLICATE: MovePolicy.MOVE, MergeEngine.FIRST_ROW: MovePolicy.DROP}

Longs: TypeAlias = npt.NDArray[np.int64]
Piece: TypeAlias = tuple[Place, pa.RecordBatch]


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
        engine = store.options.merge_engine()
        self._moving = _MOVING.get(engine, MovePolicy.STAY)
        self._deletes_remove = _deletes_remove(store.options, engine)
        self._index = KeyIndex(fields)
        self._place_of = np.empty(0, np.int32)  # by slot of the index
        self._places = _Places()
        self._fill: dict[int, BucketFill] = {}  # by partition
        self._base: str | None = None  # the snapshot whose keys are known, besides those that this writer added
        self._touched: set[Place] = set()  # since `finish`

    def route(self, rows: pa.Table, *, bucket: int | None = None) -> list[Group]:
        """Return the rows grouped by partition and bucket, with deletes for keys that move to another partition."""
        refuse_chosen_bucket(self._store.name, bucket)
        if rows.num_rows == 0:
            return []
        if not self._touched:
            self._read_newest()
        local, partitions = number_partitions(rows, self._routing)
        named = np.array([self._places.partition(row) for row in partitions], np.int64)[local]
        by_key = self._order.sorted(rows)
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
        groups = self._grouped(rows, sources[final], kinds[final], targets, named)
        self._touched.update((group.partition, group.bucket) for group in groups)
        return groups

    def total_buckets(self, partition: bytes) -> int | None:  # noqa: ARG002 - no partition has a fixed number
        """Return None: buckets are added as keys come."""
        return None

    def finish(self) -> Mapping[Place, IndexChange]:
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

    def _grouped(
        self, rows: pa.Table, sources: Longs, kinds: npt.NDArray[np.int8], places: Longs, named: Longs
    ) -> list[Group]:
        """Return the rows at some positions, which may repeat or lack some, grouped by partition and bucket."""
        numbers = self._places.partitions_of(places)
        if len(sources) != len(named) or bool((sources != np.arange(len(named))).any()):
            rows = rows.take(pa.array(sources))
        at = rows.column_names.index(VALUE_KIND.name)
        rows = rows.set_column(at, rows.schema.field(at), pa.array(kinds))
        if bool((numbers != named[sources]).any()):
            rows = self._in_partitions(rows, numbers)
        return place_rows(rows, self._routing, (numbers, self._places.rows), self._places.buckets_of(places))

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
            self._base = snapshot_name(newest)
        elif newest is not None and self._knows(newest):
            self._base = snapshot_name(newest)

    def _knows(self, newest: Snapshot) -> bool:
        """Say whether only this writer has written rows since the last snapshot that it read."""
        first = 0
        for snapshot in self._store.snapshots.walk_back(newest.id):
            if snapshot_name(snapshot) == self._base:
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


def _deletes_remove(options: CoreOptions, engine: MergeEngine) -> bool:
    """Say whether a delete removes a row from the table, rather than values from a row."""
    match engine:
        case MergeEngine.DEDUPLICATE:
            return True
        case MergeEngine.PARTIAL_UPDATE:
            return options.get(CoreOptions.PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE)
        case MergeEngine.AGGREGATION:
            return options.get(CoreOptions.AGGREGATION_REMOVE_RECORD_ON_DELETE)
        case _:
            return False


def _live_keys(store: TableStore, snapshot: Snapshot | None, names: tuple[str, ...]) -> Iterator[Piece]:
    """Yield the key columns of all live rows of a snapshot, level 0 included, with where they are."""
    if snapshot is None:
        return
    # A batch read may skip level 0 until it is compacted, but keys of level 0 are needed too.
    merging = store.with_schema(store.schema.with_options({CoreOptions.DELETION_VECTORS_MERGE_ON_READ.key(): "true"}))
    index = store.manifests.read_index(snapshot.index_manifest) if snapshot.index_manifest else []
    live = [entry for entry in store.manifests.live(snapshot) if entry.bucket >= 0]
    splits = plan_splits(merging, snapshot.id, live, deletions_of(store, index))
    reader = SplitReader(merging, FileSchemas(store), plan_projection(store.schema.fields, names))
    sources: list[Callable[[], Iterator[Piece]]] = [partial(_pieces, reader, split) for split in splits]
    yield from in_order(sources, threads=store.options.get(CoreOptions.LAKEWRIGHT_READ_THREADS), ahead_max=4)


def _pieces(reader: SplitReader, split: DataSplit) -> Iterator[Piece]:
    for batch in reader.read(split):
        yield (split.partition_bytes, split.bucket), batch
