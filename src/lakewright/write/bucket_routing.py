"""Rows to groups of one partition and bucket: fixed and postponed buckets, live buckets."""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.commit.commit_loop import CommitPrefetch
from lakewright.commit.commit_message import snapshot_key
from lakewright.errors import InvalidInputError, UnsupportedError, pluralize
from lakewright.formats.avro_container import Codec
from lakewright.formats.avro_files import avro_schema
from lakewright.formats.data_file_writer import FilePlan
from lakewright.metadata.manifest_files import may_contain_partitions
from lakewright.metadata.table_store import TableStore
from lakewright.spec.arrow_take import take_rows
from lakewright.spec.binary_row import encode_row
from lakewright.spec.bucket_hash import bucket_ids, bucket_of, postponed_buckets
from lakewright.spec.column_stats import FULL, NONE
from lakewright.spec.manifest import EMPTY_ROW, IndexFile, ManifestEntry
from lakewright.spec.scalars import from_scalar
from lakewright.spec.system_columns import SEQUENCE_NUMBER
from lakewright.spec.table_options import TableOptions
from lakewright.spec.table_schema import POSTPONE, BucketMode, TableSchema
from lakewright.spec.types import AtomicType, DataField, DataType, Value
from lakewright.write.write_task import PartitionBucket, WriteTask

# ---- Fixed buckets ---------------------------------------------------------------------------------------------------
# A `Router` decides which rows go to which bucket; each bucket mode has its own. The router of this module takes the
# bucket from a hash of some columns, or puts all rows of a partition into one bucket.
#
# Invariant: every row is in exactly one group, and rows keep their order inside a group. All work is on whole
# columns: partition columns are dictionary-encoded, buckets are hashed, and one stable sort of small group numbers
# with one `take` brings the rows of a group together; partition columns, which then are runs of one value, are filled
# in. Python code runs per distinct partition, never per row.

_CODES_MAX = 2**62  # combined codes beyond this are numbered again before the next column joins
_RADIX_MAX = 2**16  # numpy sorts 16-bit numbers by radix, in linear time
_DIGIT_MAX = 2**8  # and 8-bit numbers in half of it
_BITS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}

Codes = npt.NDArray[np.integer]  # int32 as Arrow's dictionaries have them, int64 once columns are combined


@dataclass(frozen=True, slots=True)
class RowGroup:
    """The rows of one batch that go to one bucket of one partition."""

    partition: bytes
    bucket: int
    rows: pa.Table
    at: npt.NDArray[np.int64] | None = None  # only the rows at these positions belong to the group; None: all of them

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.rows.num_rows if self.at is None else len(self.at)


@dataclass(frozen=True, slots=True)
class IndexChange:
    """The index files that a router adds to the message of one bucket, and those that it read."""

    new_index_files: tuple[IndexFile, ...] = ()
    hash_base: tuple[str, ...] | None = None  # the HASH files of the partition that were read, sorted


class Router(Protocol):
    """Decides which rows of one writer go to which bucket. It is given the rows in order of arrival.

    The rows of a table with a primary key have a first column `_VALUE_KIND`, and so do the groups. A router may add
    rows (the delete of a key in its old partition) or drop some, but every group has its rows in the order in which
    they take effect.
    """

    def route(self, rows: pa.Table, *, bucket: int | None = None) -> list[RowGroup]:
        """Return the rows grouped by partition and bucket; with `bucket` all rows go to that one."""

    def total_buckets(self, partition: bytes) -> int | None:
        """Return the bucket count that the files of a partition are recorded with; None where it is not fixed."""

    def finish(self) -> Mapping[PartitionBucket, IndexChange]:
        """Return the index changes of the rows that were routed since the last call, for the messages.

        It is called after all rows of a commit are in files. Files that it wrote belong to the caller; if it raises, it
        deletes them. A bucket without rows may be named here: it gets a message of its own.
        """


@dataclass(frozen=True, slots=True)
class Routing:
    """What decides the groups of rows: partition columns, bucket keys, bucket function and bucket count.

    `buckets` is -1 in tables without buckets: all rows go to bucket 0.
    """

    table: str
    partition_fields: tuple[DataField, ...]
    bucket_fields: tuple[DataField, ...] = ()
    buckets: int = -1
    function: str = "default"
    memo: dict[tuple[Value, ...], bytes] = field(default_factory=dict, compare=False, repr=False)

    @property
    def trivial(self) -> bool:
        """Return whether every row goes to the one bucket of the one partition."""
        return not self.partition_fields and self.buckets <= 1


class HashRouter:
    """The router of fixed buckets, and of append tables without buckets, where every row goes to bucket 0.

    With `in_place` the groups of a table without partitions may share rows (`Group.at`), so that sorting them
    moves each row once.
    """

    def __init__(self, schema: TableSchema, *, table: str, in_place: bool = False) -> None:
        options = schema.table_options
        fixed = schema.bucket_mode is BucketMode.HASH_FIXED
        self._routing = Routing(
            table,
            schema.partition_fields,
            schema.bucket_fields if fixed else (),
            options.bucket,
            options.bucket_function_type,
        )
        self._buckets = options.bucket if fixed else None
        self._in_place = in_place and not schema.partition_fields and options.bucket > 1

    def route(self, rows: pa.Table, *, bucket: int | None = None) -> list[RowGroup]:
        """Return the rows grouped by partition and bucket."""
        if self._in_place and bucket is None and rows.num_rows:
            return _grouped_in_place(rows, _buckets(rows, self._routing))
        return route(rows, self._routing, bucket=bucket)

    def total_buckets(self, partition: bytes) -> int | None:  # noqa: ARG002 - all partitions have as many
        """Return the bucket count of the table."""
        return self._buckets

    def finish(self) -> Mapping[PartitionBucket, IndexChange]:
        """Return nothing: the bucket of a row follows from its values, without an index."""
        return {}


def refuse_chosen_bucket(table: str, bucket: int | None) -> None:
    """Raise InvalidInputError if the caller chose a bucket, although buckets are dynamic."""
    if bucket is not None:
        raise InvalidInputError(
            f"table {table}: its buckets are dynamic, so a caller cannot choose bucket {bucket} for a row; "
            "write without naming a bucket",
            table=table,
            bucket=bucket,
        )


def route(table: pa.Table, routing: Routing, *, bucket: int | None = None) -> list[RowGroup]:
    """Return the rows of an aligned table grouped by partition and bucket, in the order in which these first appear.

    `bucket` overrides the bucket function. The partition columns hold no NaN (see `write.row_intake`).
    """
    if table.num_rows == 0:
        return []
    if routing.trivial:
        return [RowGroup(EMPTY_ROW, 0 if bucket is None else bucket, table)]
    codes = _partition_codes(table, routing)
    buckets = None
    if routing.buckets > 1 and bucket is None:
        buckets = _buckets(table, routing)
        codes = _dense_if_over(codes, _CODES_MAX // routing.buckets) * routing.buckets + buckets
    grouped, order, bounds = _contiguous(table, codes, routing)
    starts = bounds[:-1]
    partitions = _partition_rows(grouped, starts, routing)
    of_bucket = [bucket or 0] * len(starts)
    if buckets is not None:
        of_bucket = buckets[starts if order is None else order[starts]].tolist()
    return _groups(grouped, order, bounds, list(zip(partitions, of_bucket, strict=True)))


def number_partitions(table: pa.Table, routing: Routing) -> tuple[Codes, list[bytes]]:
    """Return the number of each row's partition, counted from 0 as they first appear, and the partitions themselves."""
    if not routing.partition_fields or table.num_rows == 0:
        return np.zeros(table.num_rows, dtype=np.int32), [EMPTY_ROW] if table.num_rows else []
    encoded = pa.array(_partition_codes(table, routing)).dictionary_encode()
    numbers: Codes = encoded.indices.to_numpy(zero_copy_only=False)
    firsts = np.zeros(len(encoded.dictionary), dtype=np.int64)
    firsts[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)  # of equal numbers the one written last stays
    return numbers, _partition_rows(table, firsts, routing)


def group_rows(
    table: pa.Table, routing: Routing, partitions: tuple[Codes, list[bytes]], buckets: Codes
) -> list[RowGroup]:
    """Return rows grouped by partition and bucket, both known for every row, as by `number_partitions`."""
    if table.num_rows == 0:
        return []
    numbers, rows = partitions
    width = int(buckets.max()) + 1
    grouped, order, bounds = _contiguous(table, numbers.astype(np.int64) * width + buckets, routing)
    firsts = bounds[:-1] if order is None else order[bounds[:-1]]
    places = zip((rows[n] for n in numbers[firsts].tolist()), buckets[firsts].tolist(), strict=True)
    return _groups(grouped, order, bounds, list(places))


def stable_order(codes: Codes) -> Codes:
    """Return an order that brings equal codes together and keeps the order among them; few codes sort by radix."""
    low, high = int(codes.min()), int(codes.max())
    if high - low < _RADIX_MAX:
        small = np.uint8 if high - low < _DIGIT_MAX else np.uint16
        return np.argsort((codes - low).astype(small), kind="stable")
    dense = pa.array(codes).dictionary_encode()
    if len(dense.dictionary) <= _RADIX_MAX:
        return np.argsort(dense.indices.to_numpy(zero_copy_only=False).astype(np.uint16), kind="stable")
    return np.argsort(codes, kind="stable")


def run_bounds(codes: Codes) -> Codes:
    """Return where runs of equal codes begin, and the number of codes."""
    return np.concatenate(([0], np.flatnonzero(codes[1:] != codes[:-1]) + 1, [len(codes)]))


# ---- partitions ------------------------------------------------------------------------------------------------------


def _partition_codes(table: pa.Table, routing: Routing) -> Codes:
    """Return a number for the partition of each row: equal partitions have equal numbers."""
    codes: Codes | None = None
    for part in routing.partition_fields:
        encoded = _encode(_as_array(table.column(part.name)), part)
        indices: Codes = encoded.indices.to_numpy(zero_copy_only=False)
        size = max(1, len(encoded.dictionary))
        codes = indices if codes is None else _dense_if_over(codes, _CODES_MAX // size) * size + indices
    return np.zeros(table.num_rows, dtype=np.int32) if codes is None else codes


def _dense_if_over(codes: Codes, limit: int) -> Codes:
    """Return the codes in 64 bits, counted again from 0 where the largest is too large to be multiplied."""
    if int(codes.max()) < limit:
        return codes.astype(np.int64, copy=False)
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)


def _encode(array: pa.Array, part: DataField) -> pa.DictionaryArray:
    """Dictionary-encode one partition column; nulls are a value of their own."""
    if _is_float(part):
        # Arrow's hash takes -0.0 and 0.0 for one value; as bits they stay two.
        array = array.view(_BITS[array.type])
    return array.dictionary_encode(null_encoding="encode")


def _partition_rows(grouped: pa.Table, starts: Codes, routing: Routing) -> list[bytes]:
    """Return the serialised partition row of the group that begins at each start."""
    if not routing.partition_fields:
        return [EMPTY_ROW] * len(starts)
    first = pa.array(starts)
    columns = [
        [from_scalar(scalar, part.type) for scalar in grouped.column(part.name).take(first)]
        for part in routing.partition_fields
    ]
    types = [part.type for part in routing.partition_fields]
    return [_encode_memoised(values, types, routing) for values in zip(*columns, strict=True)]


def _encode_memoised(values: tuple[Value, ...], types: Sequence[DataType], routing: Routing) -> bytes:
    # 0.0 and -0.0 are equal keys of a dict, so the sign of a zero must be part of the key.
    key = tuple(repr(value) if isinstance(value, float) else value for value in values)
    row = routing.memo.get(key)
    if row is None:
        row = routing.memo[key] = encode_row(values, types)
    return row


# ---- buckets and groups ----------------------------------------------------------------------------------------------


def _buckets(table: pa.Table, routing: Routing) -> Codes:
    if not routing.bucket_fields:  # all rows have the same key, which is empty
        bucket = bucket_of((), (), function=routing.function, buckets=routing.buckets)
        return np.full(table.num_rows, bucket, dtype=np.int64)
    columns = [_as_array(table.column(key.name)) for key in routing.bucket_fields]
    types = [key.type for key in routing.bucket_fields]
    return bucket_ids(columns, types, function=routing.function, buckets=routing.buckets).astype(np.int64)


def _is_float(part: DataField) -> bool:
    return isinstance(part.type, AtomicType) and part.type.root in {"FLOAT", "DOUBLE"}


def _as_array(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _groups(grouped: pa.Table, order: Codes | None, bounds: Codes, places: Sequence[PartitionBucket]) -> list[RowGroup]:
    """Return the runs of a table as groups, in the order of their first rows before the table was ordered."""
    runs = range(len(places)) if order is None else np.argsort(order[bounds[:-1]]).tolist()
    cuts = bounds.tolist()
    return [RowGroup(*places[run], grouped.slice(cuts[run], cuts[run + 1] - cuts[run])) for run in runs]


def _grouped_in_place(table: pa.Table, buckets: Codes) -> list[RowGroup]:
    """Return the groups of a table without partitions, as positions of rows that stay where they are."""
    order = stable_order(buckets).astype(np.int64, copy=False)
    bounds = run_bounds(buckets[order])
    cuts, of_bucket = bounds.tolist(), buckets[order[bounds[:-1]]].tolist()
    table = table.combine_chunks()  # rows of many chunks are gathered slowly
    runs = np.argsort(order[bounds[:-1]]).tolist()
    return [RowGroup(EMPTY_ROW, of_bucket[run], table, order[cuts[run] : cuts[run + 1]]) for run in runs]


def _contiguous(table: pa.Table, codes: Codes, routing: Routing) -> tuple[pa.Table, Codes | None, Codes]:
    """Return the table with equal codes side by side, the order taken (None: as it was), and the bounds of the runs."""
    if bool((codes[1:] >= codes[:-1]).all()):
        return table, None, run_bounds(codes)
    order = stable_order(codes)
    bounds = run_bounds(codes[order])
    table = table.combine_chunks()
    constant = [part.name for part in routing.partition_fields]
    taken = take_rows(table.drop_columns(constant), order)
    ends, firsts = pa.array(bounds[1:], pa.int32()), pa.array(order[bounds[:-1]])
    columns = [
        pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, _as_array(table.column(name)).take(firsts)))
        if name in constant
        else taken.column(name)
        for name in table.column_names
    ]
    return pa.Table.from_arrays(columns, schema=table.schema), order, bounds


# ---- Live buckets of a table -----------------------------------------------------------------------------------------
# The newest snapshot is read when the first rows of a partition arrive. An overwrite replaces the live files, so it
# needs neither. Other writers may commit meanwhile: the commit messages name the snapshot that was read, and the
# committer compares it with the newest one.


class LiveBuckets:
    """The bucket counts and highest sequence numbers of the partitions that a writer has looked up."""

    def __init__(self, store: TableStore, buckets: int | None) -> None:
        """Begin with no partition; `buckets` is the number that every partition must have, None where it may grow."""
        self.base: str | None = None  # the name of the oldest snapshot that was read since the last `forget`
        self._store = store
        self._buckets = buckets
        self._totals: dict[bytes, int] = {}
        self._sequences: dict[tuple[bytes, int], int] = {}
        self._waiting: dict[bytes, dict[str, int]] = {}  # rows of the postpone bucket, by file
        self._known: set[bytes] = set()
        self._complete = False
        self._early_look = CommitPrefetch(store)
        self._early_look.begin()

    def look_up(self, partitions: Collection[bytes]) -> None:
        """Read the facts of new partitions; raise InvalidInputError for one with another number of buckets."""
        new = set() if self._complete else set(partitions) - self._known
        if new:
            # The first partitions are looked up alone; where more follow, one full read is cheaper than many.
            for entry in self._read(None if self._known else new):
                self._note(entry)
            self._complete = bool(self._known)
            self._known |= new
        for partition in partitions:
            self._check(partition)

    def forget(self) -> None:
        """Forget which partitions were read, so that the next rows read the newest snapshot."""
        self.base = None
        self._known.clear()
        self._complete = False

    def total(self, partition: bytes) -> int | None:
        """Return how many buckets a partition that was looked up has; None where it has no fixed number of them."""
        return self._totals.get(partition)

    def waiting(self, partition: bytes) -> int:
        """Return how many rows of a partition that was looked up wait for their bucket."""
        return sum(self._waiting.get(partition, {}).values())

    def next_sequence(self, partition: bytes, bucket: int) -> int:
        """Return the first free sequence number of a bucket."""
        return self._sequences.get((partition, bucket), -1) + 1

    def _read(self, partitions: set[bytes] | None) -> list[ManifestEntry]:
        snapshot = self._early_look.newest()
        self.base = snapshot_key(snapshot) if self.base is None else self.base
        if snapshot is None:
            return []
        if partitions is None:
            return self._store.manifests.live(snapshot)
        types = self._store.partition_types
        values = [self._store.partition_values(partition) for partition in partitions]
        return self._store.manifests.live(
            snapshot,
            keep=lambda partition, _bucket, _total, _level: partition in partitions,
            keep_manifest=lambda manifest: may_contain_partitions(manifest.partition_stats, values, types),
        )

    def _note(self, entry: ManifestEntry) -> None:
        if entry.total_buckets > 0:
            self._totals[entry.partition] = entry.total_buckets
        if entry.bucket == POSTPONE:
            self._waiting.setdefault(entry.partition, {})[entry.file.file_name] = entry.file.row_count
        place = (entry.partition, entry.bucket)
        self._sequences[place] = max(self._sequences.get(place, -1), entry.file.max_sequence_number)

    def _check(self, partition: bytes) -> None:
        total = self._totals.get(partition)
        if total is not None and self._buckets is not None and total != self._buckets:
            name = self._store.name
            where = self._store.partition_name(partition) or "the table"
            raise InvalidInputError(
                f"table {name}: {where} has {pluralize(total, 'bucket')}, "
                f"but the option 'bucket' says {self._buckets}; "
                f"overwrite it or call table.rescale({self._buckets}) to change its buckets, or write "
                f"with bucket={total}",
                table=name,
                partition=where,
                buckets=total,
            )


# ---- Postponed buckets -----------------------------------------------------------------------------------------------
# Rows of the postpone bucket (-2) of a partition are stored in order of arrival with their kinds, neither sorted nor
# merged, and no batch read shows them. A later job moves them into real buckets (`compact.postponed_rows`). It reads
# the
# files of each writer in their order, and knows the writer of a file by its name:
#
#     <prefix>-u-<user>-s-<writer number>-w-<anything that makes the name unique>
#
# A batch write may also write to real buckets at once. Then a partition keeps the number of buckets that it began
# with.

_UNNUMBERED = -1  # rows get their sequence numbers when they are distributed
_USER = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def postpone_plan(task: WriteTask) -> FilePlan:
    """Return the plan of files of the postpone bucket: in Avro, which is quick to write, if it has the column types."""
    schema = task.store.schema
    options = schema.table_options
    writer = f"-u-{_user(task.write_id)}-s-{task.number}-w-"
    changed = {TableOptions.data_file_prefix.key(): options.data_file_prefix + writer}
    plan = FilePlan.for_keyed_rows(schema.with_options(changed), level=0)
    if _fits_avro(plan):
        changed[TableOptions.file_format_per_level.key()] = "0:avro"
        later = (*plan.later, (plan.file_format, plan.options))
        plan = replace(FilePlan.for_keyed_rows(schema.with_options(changed), level=0), later=later)
    columns = plan.columns and replace(plan.columns, modes=(NONE,) * len(schema.fields))
    stats = tuple(FULL if field == SEQUENCE_NUMBER else NONE for field in plan.fields)
    return replace(plan, columns=columns, options=replace(plan.options, stats=stats))


def _user(write_id: str) -> str:
    """Return the id of a write in the form that other implementations expect inside the name of a file."""
    return write_id if _USER.fullmatch(write_id) else str(uuid.uuid5(uuid.NAMESPACE_OID, write_id))


def _fits_avro(plan: FilePlan) -> bool:
    try:
        avro_schema(plan.fields)
        Codec.of(plan.options.compression)
    except UnsupportedError:
        return False
    return True


class PostponeRouter:
    """Puts all rows of a partition into its postpone bucket."""

    def __init__(self, task: WriteTask) -> None:
        self._routing = Routing(task.store.name, task.store.schema.partition_fields)

    def route(self, rows: pa.Table, *, bucket: int | None = None) -> list[RowGroup]:  # noqa: ARG002 - there is one only
        """Return the rows grouped by partition."""
        numbers = pa.array(np.full(rows.num_rows, _UNNUMBERED, np.int64))
        return route(rows.add_column(0, SEQUENCE_NUMBER.name, numbers), self._routing, bucket=POSTPONE)

    def total_buckets(self, partition: bytes) -> int | None:  # noqa: ARG002 - no partition has any
        """Return the number that stands for postponed buckets."""
        return POSTPONE

    def finish(self) -> Mapping[PartitionBucket, IndexChange]:
        """Return nothing."""
        return {}


class RealBucketsRouter:
    """Puts rows into real buckets: as many as the partition has, or as its first rows need."""

    def __init__(self, task: WriteTask) -> None:
        store = task.store
        options = store.options
        self._live = LiveBuckets(store, None)
        self._options = options
        self._counts: dict[bytes, int] = {}
        self._routing = Routing(
            store.name,
            store.schema.partition_fields,
            store.schema.bucket_fields,
            1,
            "default",  # as rows of the postpone bucket are moved, whatever 'bucket-function.type' says
        )

    def route(self, rows: pa.Table, *, bucket: int | None = None) -> list[RowGroup]:
        """Return the rows grouped by partition and bucket."""
        numbers, partitions = number_partitions(rows, self._routing)
        self._live.look_up([p for p in partitions if p not in self._counts])
        row_bytes = rows.nbytes / max(1, rows.num_rows)
        row_counts = np.bincount(numbers, minlength=len(partitions)).tolist()
        for partition, count in zip(partitions, row_counts, strict=True):
            if partition not in self._counts:
                rows_soon = count + self._live.waiting(partition)
                needed = postponed_buckets(self._options, rows_soon, rows_soon * row_bytes)
                self._counts[partition] = self._live.total(partition) or needed
        counts = np.array([self._counts[p] for p in partitions], np.int64)
        groups: list[RowGroup] = []
        for count in np.unique(counts).tolist():
            some = rows if bool((counts == count).all()) else rows.filter(pa.array(counts[numbers] == count))
            groups += route(some, replace(self._routing, buckets=count), bucket=bucket)
        return groups

    def total_buckets(self, partition: bytes) -> int | None:
        """Return the number of buckets of a partition."""
        return self._counts.get(partition)

    def finish(self) -> Mapping[PartitionBucket, IndexChange]:
        """Return nothing: the bucket of a row follows from its values, without an index."""
        return {}
