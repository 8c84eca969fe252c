"""`WriteJob` and `TableWriter`: Arrow data to commit messages in one task; rows that lost a bucket race."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import pyarrow as pa

from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.table_commit import Reroute
from lakewright.errors import InvalidInputError, LakewrightError, with_table_name
from lakewright.formats.data_file_writer import (
    FilePlan,
    RollingFile,
    SequenceNumbers,
    preserved_fields,
    wall_clock_ms,
)
from lakewright.lsm.merge_rows import MergeRules
from lakewright.metadata.table_store import TableStore
from lakewright.read.blob_columns import storages_of
from lakewright.read.projection import ROW_KIND
from lakewright.read.read_builder import ReadBuilder
from lakewright.read.split_planning import split_of
from lakewright.spec.manifest import APPEND, count_rows
from lakewright.spec.option_values import ChangelogProducer
from lakewright.spec.schema_checks import check_supported_for_write
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.table_options import TableOptions
from lakewright.spec.table_schema import BucketMode
from lakewright.write.bucket_assignment import BUCKETS_MAX, Assigner
from lakewright.write.bucket_routing import (
    HashRouter,
    IndexChange,
    LiveBuckets,
    PostponeRouter,
    RealBucketsRouter,
    Router,
    RowGroup,
    postpone_plan,
)
from lakewright.write.cross_partition import CrossPartitionRouter
from lakewright.write.dynamic_buckets import DynamicRouter
from lakewright.write.input_data import ArrowData, batches_of, memory_bytes
from lakewright.write.keyed_buffer import KeyedBuffer
from lakewright.write.row_intake import GivenKinds, Intake, KeyedIntake, RowKinds
from lakewright.write.write_buffer import Buffer, BufferLimits, FinishedFiles, WriteBuffer
from lakewright.write.write_task import FileNames, PartitionBucket, WriteTask

# ---- The writer ------------------------------------------------------------------------------------------------------
# A `WriteJob` is a small value that is sent to workers; each worker opens a `TableWriter` from it, gives it rows and
# sends the messages that `prepare` returns to the committer. Nothing a writer does is visible before those messages
# are committed. As many rows are written as were given (a primary-key table merges those of one key), or `prepare`
# raises. A writer that failed half-way through a call takes no more data: closing it removes every file that is in no
# message yet.
#
# Every writer has the same three parts, chosen by the kind of table: an intake that aligns rows, a router that finds
# their buckets, and a buffer that writes them into files.

_CHUNKS_MAX = 4
STAGE_BYTES = 16 << 20  # small batches are routed together, up to this much memory, and large ones in parts


@dataclass(frozen=True, slots=True)
class WriteJob:
    """One write by any number of workers: all that a worker needs to open its writer. It holds no open file."""

    store: TableStore
    write_id: str
    table: str  # the table's identity, which every message repeats
    write_cols: tuple[str, ...] | None = None
    overwrite: bool = False
    real_buckets: bool = False  # write into numbered buckets although the table postpones its buckets
    keys_only: bool = False  # the input holds only the keys of rows to delete
    sequence_stride: int = 0  # where tasks share buckets: how far apart the sequence numbers of two tasks begin
    carries_ids: bool = False  # the rows come from other files and keep their row ids and sequence numbers
    # Dynamic buckets: all keys have been looked up in the index of this snapshot. Rows of keys that are there come
    # with their bucket, and rows without one have new keys. None: the writer looks up.
    looked_up_in: Snapshot | None = None
    retracts_first: bool = False  # of rows of one key, those that are added replace those that are taken away

    @classmethod
    def new(
        cls,
        store: TableStore,
        *,
        write_id: str | None = None,
        write_cols: Iterable[str] | None = None,
        overwrite: bool = False,
        real_buckets: bool = False,
        keys_only: bool = False,
    ) -> WriteJob:
        """Return a new job after a check that the table can be written; `write_id` is a new uuid unless given."""
        with with_table_name(store.name):
            check_supported_for_write(store.schema)
        store.check_changeable()
        if store.schema.primary_keys:
            MergeRules.of_schema(store.schema, table=store.name)  # raises for merge engines that are not supported
        columns = None if write_cols is None else _checked_columns(store, tuple(write_cols))
        return cls(store, write_id or str(uuid.uuid4()), store.identity, columns, overwrite, real_buckets, keys_only)

    def open_writer(self, task: int = 0, attempt: int = 0, *, assigner: Assigner | None = None) -> TableWriter:
        """Open the writer of one attempt at one task; the two numbers are part of every file name.

        Where several writers assign dynamic buckets to new keys, `assigner` says which of them this one is.
        """
        return TableWriter(self, task=task, attempt=attempt, assigner=assigner)

    def check_input(self, schema: pa.Schema) -> None:
        """Raise InvalidInputError if rows with this schema can never be written; nothing is read or written."""
        self.new_intake().take(schema.empty_table(), None, first_row=0)

    def new_intake(self) -> Intake:
        """Return the intake that aligns the rows of this write and finds their row kinds."""
        schema, name = self.store.schema, self.store.name
        if schema.primary_keys:
            return KeyedIntake(schema, table=name, write_cols=self.write_cols, keys_only=self.keys_only)
        columns = self.partial_columns
        fields = [field for field in schema.fields if columns is None or field.name in columns]
        return Intake(schema, fields, table=name, write_cols=self.write_cols)

    @property
    def file_plan(self) -> FilePlan:
        """What the files of an append table have in common."""
        if self.carries_ids:
            return FilePlan.for_copied_rows(
                self.store.schema, preserved_fields(self.store.schema, changes=True), source=APPEND
            )
        return FilePlan.of_schema(self.store.schema, self.partial_columns)

    @property
    def partial_columns(self) -> tuple[str, ...] | None:
        """The columns of files that hold only some of them, which only data evolution allows; None for all columns."""
        return self.write_cols if self.store.options.data_evolution_enabled else None


def _checked_columns(store: TableStore, columns: tuple[str, ...]) -> tuple[str, ...] | None:
    names = store.schema.field_names
    for name in columns:
        if name not in names:
            raise InvalidInputError(
                f"table {store.name}: the column {name!r} to write is not in table schema; it has {', '.join(names)}",
                table=store.name,
                column=name,
            )
    if not columns or len(set(columns)) != len(columns):
        raise InvalidInputError(
            f"table {store.name}: name each column to write once, and at least one", table=store.name
        )
    needs_keys = bool(store.schema.primary_keys) or store.options.data_evolution_enabled
    keys = (*store.schema.primary_keys, *store.schema.partition_keys) if needs_keys else ()
    missing = [key for key in keys if key not in columns]
    if missing:
        raise InvalidInputError(
            f"table {store.name}: the columns to write lack the key column {missing[0]!r}; add it",
            table=store.name,
            column=missing[0],
        )
    return None if set(columns) == set(names) else columns


class TableWriter:
    """Writes rows into data files that no snapshot names yet."""

    def __init__(
        self,
        job: WriteJob,
        *,
        task: int = 0,
        attempt: int = 0,
        assigner: Assigner | None = None,
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        store = job.store
        self._job = job
        self._store = store
        self._task = WriteTask(
            store,
            job.write_id,
            task,
            attempt,
            job.overwrite,
            clock_ms,
            job.real_buckets,
            job.sequence_stride,
            assigner or Assigner(),
            job.looked_up_in,
            job.retracts_first,
        )
        self._intake = job.new_intake()
        self._live = _live_buckets(job)
        self._router = _router_of(self._task)
        self._buffer = _buffer_of(job, self._task, self._live)
        self._stage_bytes = min(STAGE_BYTES, max(1 << 20, store.options.write_buffer_size) // 8)
        self._stage: list[pa.Table] = []
        self._staged_bytes = 0
        self._rows: dict[PartitionBucket, int] = {}
        self._poison: BaseException | None = None
        self._closed = False

    def write(self, data: ArrowData, *, bucket: int | None = None, row_kinds: RowKinds | None = None) -> int:
        """Take rows in any Arrow form and return how many there were; `bucket` overrides the bucket function.

        In a primary-key table a row replaces the row with its key, unless its row kind says otherwise.
        """
        self._check_open()
        self._begin_bucket(bucket)
        given = None if row_kinds is None else GivenKinds(row_kinds, table=self._store.name)
        if given is not None and isinstance(data, pa.Table | pa.RecordBatch):
            given.check_count(data.num_rows)
        return self._write(data, self._intake, bucket, given)

    @property
    def held_bytes(self) -> int:
        """How many bytes of rows are in memory and not yet in files."""
        return self._staged_bytes + self._buffer.held_bytes

    def take(self, rows: pa.Table) -> None:
        """Take rows that an intake of the same job has aligned and checked, perhaps in another process."""
        self._check_open()
        self._take(rows, None)

    def flush(self) -> None:
        """Write all rows in memory into files; rows that follow in the same buckets get new files."""
        self._check_open()
        self._unstage(None)
        try:
            self._buffer.flush_all()
        except BaseException as error:
            self._poison = error
            raise

    def delete(self, keys: ArrowData, *, bucket: int | None = None) -> int:
        """Delete the rows with these keys and return how many keys there were; other columns may be missing."""
        self._check_open()
        self._begin_bucket(bucket)
        if not self._store.schema.primary_keys:
            raise InvalidInputError(
                f"table {self._store.name} has no primary key, so no row can be deleted by its key; delete by a "
                "condition, or make a table with a primary key",
                table=self._store.name,
            )
        return self._write(keys, replace(self._job, keys_only=True).new_intake(), bucket, None)

    def prepare(self) -> list[CommitMessage]:
        """Finish all files and return one message per bucket that got rows, in the order of their first rows."""
        self._check_open()
        try:
            self._unstage(None)
            finished = self._buffer.finish()
            self._reconcile(finished)
            changes = self._router.finish()
        except BaseException as error:
            self._poison = error
            self._explain_missing_file(error)
            raise
        found = {*finished, *changes}
        places = [place for place in self._rows if place in found]  # as they first appeared among the rows
        places += sorted(found.difference(places))
        nothing, unchanged = FinishedFiles(()), IndexChange()
        messages = [self._message(p, finished.get(p, nothing), changes.get(p, unchanged)) for p in places]
        self._buffer.forget()  # the files are in the messages now, so closing this writer must not remove them
        self._rows = {}
        if self._live is not None and self._store.schema.primary_keys:
            self._live.forget()  # read again later, so that new numbers are above those others have committed meanwhile
        return messages

    def abort(self) -> None:
        """Stop, and remove every file that is in no message of `prepare`."""
        self._closed = True
        self._stage.clear()
        for file in self._buffer.discard():
            # A file that cannot be removed is an orphan, which the removal of orphans finds.
            with suppress(OSError):
                self._store.storage.delete(file.path)
        self._buffer.close()

    def close(self) -> None:
        """Free memory and threads; rows written since the last `prepare` are dropped, and their files removed."""
        if not self._closed:
            self.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- rows on their way in ----------------------------------------------------------------------------------------

    def _write(self, data: ArrowData, intake: Intake, bucket: int | None, given: GivenKinds | None) -> int:
        rows = 0
        try:
            for batch in batches_of(data, self._store.name):
                for piece in self._pieces(batch):
                    taken = intake.take(piece, given, first_row=rows)
                    rows += piece.num_rows
                    self._take(taken, bucket)
            if given is not None:
                given.check_count(rows)
            if bucket is not None:
                self._unstage(bucket)
        except BaseException as error:
            # If the call was refused before any of its rows was taken, the writer can still be used.
            if rows or not isinstance(error, InvalidInputError):
                self._poison = error
            self._explain_missing_file(error)
            raise
        return rows

    def _explain_missing_file(self, error: BaseException) -> None:
        """Raise a better error where the table was dropped, with its directory, while files were written."""
        if isinstance(error, FileNotFoundError) and not isinstance(error, LakewrightError):
            self._store.check_same_table()

    def _pieces(self, batch: pa.Table | pa.RecordBatch) -> Iterator[pa.Table | pa.RecordBatch]:
        """Cut a large batch into pieces, so that one piece is encoded while the next is checked."""
        size = memory_bytes(batch)
        if size <= 2 * STAGE_BYTES:
            yield batch
            return
        rows = max(1, batch.num_rows * STAGE_BYTES // size)
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)

    def _take(self, aligned: pa.Table, bucket: int | None) -> None:
        """Stage rows, so that small batches are routed together and large ones in parts."""
        size = aligned.nbytes
        if size == 0 and aligned.num_rows == 0:
            return
        rows = aligned.num_rows
        step = rows if size <= self._stage_bytes else max(1, rows * self._stage_bytes // size)
        for start in range(0, rows, step):
            part = aligned.slice(start, step)
            self._stage.append(part)
            self._staged_bytes += part.nbytes
            if self._staged_bytes >= self._stage_bytes // 2:
                self._unstage(bucket)

    def _unstage(self, bucket: int | None) -> None:
        """Route the staged rows and give them to the buffer."""
        if not self._stage:
            return
        try:
            self._buffer.add(self._route_rows(bucket))
        except BaseException as error:
            self._poison = error  # the staged rows are lost, also those of earlier calls
            raise

    def _route_rows(self, bucket: int | None) -> list[RowGroup]:
        table = pa.concat_tables(self._stage)
        if self._store.schema.primary_keys and table.num_columns and table.column(0).num_chunks > _CHUNKS_MAX:
            table = table.combine_chunks()  # rows are gathered in key order later, which is slow over many chunks
        self._stage.clear()
        self._staged_bytes = 0
        groups = self._router.route(table, bucket=bucket)
        if self._live is not None:
            self._live.look_up({group.partition for group in groups})
        for group in groups:
            place = (group.partition, group.bucket)
            self._rows[place] = self._rows.get(place, 0) + group.count
            if 0 < self._job.sequence_stride < self._rows[place]:
                raise InvalidInputError(
                    f"table {self._store.name}: task {self._task.number} has more rows for bucket {group.bucket} than "
                    f"the {self._job.sequence_stride} numbers between two tasks; write with more tasks",
                    table=self._store.name,
                )
        return groups

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidInputError(f"table {self._store.name}: the writer is closed; open a new one")
        self._buffer.raise_failure()
        if self._poison is not None:
            raise InvalidInputError(
                f"table {self._store.name}: an earlier call failed after some of its rows were taken; close this "
                f"writer and write everything again ({self._poison})",
                table=self._store.name,
            ) from self._poison

    def _begin_bucket(self, bucket: int | None) -> None:
        """Prepare for rows of a bucket that the caller chose, if it did."""
        if bucket is not None:
            self._check_bucket(bucket)
            self._unstage(None)  # earlier rows still go to the buckets that the bucket function gives

    def _check_bucket(self, bucket: int) -> None:
        """Raise InvalidInputError unless the table has a fixed number of buckets, and this one."""
        mode = self._store.schema.bucket_mode
        if self._job.looked_up_in is not None and mode is BucketMode.HASH_DYNAMIC and 0 <= bucket < BUCKETS_MAX:
            return
        if mode not in {BucketMode.HASH_FIXED, BucketMode.UNAWARE}:
            raise InvalidInputError(
                f"table {self._store.name}: a bucket can be chosen only where the table has a fixed number of them; "
                "leave the argument 'bucket' out",
                table=self._store.name,
                bucket=bucket,
            )
        limit = self._store.options.bucket if mode is BucketMode.HASH_FIXED else 1
        if not 0 <= bucket < limit:
            raise InvalidInputError(
                f"table {self._store.name}: there is no bucket {bucket}; it has the buckets 0 to {limit - 1}",
                table=self._store.name,
                bucket=bucket,
            )

    # ---- messages on their way out -----------------------------------------------------------------------------------

    def _message(self, place: PartitionBucket, written: FinishedFiles, change: IndexChange) -> CommitMessage:
        partition, bucket = place
        return CommitMessage(
            partition_bytes=partition,
            bucket=bucket,
            total_buckets=self._router.total_buckets(partition),
            new_files=tuple(file.facts for file in written.files),
            changelog_files=tuple(file.facts for file in written.changelog),
            new_index_files=change.new_index_files,
            table=self._job.table,
            schema_id=self._store.schema.id,
            write_id=self._job.write_id,
            attempt=self._task.label,
            partition_types=tuple(str(dtype) for dtype in self._store.partition_types),
            rows_in=self._rows.get(place, 0),
            base_snapshot=None if self._live is None else self._live.base,
            hash_base=change.hash_base,
        )

    def _reconcile(self, finished: dict[PartitionBucket, FinishedFiles]) -> None:
        """Check that no row was lost; a primary-key table merges rows of one key, so it may write fewer."""
        written = {place: count_rows(file.facts for file in out.files) for place, out in finished.items()}
        if written == self._rows:
            return
        keyed = bool(self._store.schema.primary_keys)
        if not keyed or any(count > self._rows.get(place, 0) for place, count in written.items()):
            raise LakewrightError(
                f"table {self._store.name}: {sum(self._rows.values())} rows came in but {sum(written.values())} were "
                "written; nothing was committed, write the data again",
                table=self._store.name,
            )


def _live_buckets(job: WriteJob) -> LiveBuckets | None:
    """Return a reader of bucket counts and sequence numbers; None where an overwrite or the bucket mode needs none."""
    match job.store.schema.bucket_mode:
        case _ if job.overwrite:
            return None
        case BucketMode.HASH_FIXED:
            return LiveBuckets(job.store, job.store.options.bucket)
        case BucketMode.HASH_DYNAMIC | BucketMode.KEY_DYNAMIC:
            return LiveBuckets(job.store, None)
        case BucketMode.POSTPONE if job.real_buckets:
            return LiveBuckets(job.store, None)
        case _:
            return None


# ---- the parts of a writer: which router and which buffer a table needs ----------------------------------------------


def _router_of(task: WriteTask) -> Router:
    """Return the router of a table's bucket mode."""
    schema = task.store.schema
    match schema.bucket_mode:
        case BucketMode.UNAWARE | BucketMode.HASH_FIXED:
            # Rows of a primary-key table are gathered in key order later, so they need not be gathered by bucket too.
            return HashRouter(schema, table=task.store.name, in_place=bool(schema.primary_keys))
        case BucketMode.HASH_DYNAMIC:
            return DynamicRouter(task, task.assigner)
        case BucketMode.KEY_DYNAMIC:
            return CrossPartitionRouter(task)
        case BucketMode.POSTPONE:
            return RealBucketsRouter(task) if task.real_buckets else PostponeRouter(task)


def _buffer_of(job: WriteJob, task: WriteTask, live: LiveBuckets | None) -> Buffer:
    """Return the buffer of one writer. Sequence numbers follow those in `live`."""
    schema = task.store.schema
    if schema.bucket_mode is BucketMode.POSTPONE and not task.real_buckets:
        return _append_buffer(task, postpone_plan(task), live)
    if schema.primary_keys:
        return _keyed_buffer(task, live)
    return _append_buffer(task, job.file_plan, live)


def _limits_of(options: TableOptions) -> BufferLimits:
    """Return how much memory and how many threads a buffer may use, by the options of the table."""
    budget = max(1 << 20, options.write_buffer_size)
    spillable = options.write_buffer_spillable
    # Where snapshots order the rows, one commit must not write a key twice, so all rows of a commit are merged.
    spillable = spillable or options.sequence_snapshot_ordering
    return BufferLimits(
        budget_bytes=budget - budget // 4,  # the rest is for staged rows, their copy by routing, and the encoders
        threads=options.lakewright_write_threads,
        spillable=spillable,
    )


def _append_buffer(task: WriteTask, plan: FilePlan, live: LiveBuckets | None) -> Buffer:
    names = FileNames(task, plan)
    numbers: dict[PartitionBucket, SequenceNumbers] = {}
    storages = storages_of(task.store)

    def rolling_file(place: PartitionBucket) -> RollingFile:
        if place not in numbers:
            numbers[place] = SequenceNumbers(_first_sequence(task, live, place))
        return RollingFile(plan, partial(names.new_file, place), numbers[place], task.clock_ms, storages)

    return WriteBuffer(rolling_file, _limits_of(task.store.options))


def _keyed_buffer(task: WriteTask, live: LiveBuckets | None) -> Buffer:
    store = task.store
    data = FilePlan.for_keyed_rows(store.schema, level=0)
    changelog = FilePlan.for_keyed_rows(store.schema, level=0, changelog=True)
    names = FileNames(task, data, changelog)
    # The changelog of an overwrite would lack the rows that it replaces, so none is written.
    producer = store.options.changelog_producer
    with_changelog = producer is ChangelogProducer.INPUT and not task.overwrite

    def rolling_file(place: PartitionBucket, plan: FilePlan) -> RollingFile:
        return RollingFile(plan, partial(names.new_file, place), None, task.clock_ms)

    def new_files(place: PartitionBucket) -> tuple[RollingFile, RollingFile | None]:
        return rolling_file(place, data), rolling_file(place, changelog) if with_changelog else None

    spec = MergeRules.of_schema(store.schema, table=store.name)
    limits, first_sequence = _limits_of(store.options), partial(_first_sequence, task, live)
    return KeyedBuffer(spec, new_files, first_sequence, limits, retracts_first=task.retracts_first)


def _first_sequence(task: WriteTask, live: LiveBuckets | None, place: PartitionBucket) -> int:
    """Return the sequence number of a task's first row in a bucket, above those of live files and earlier tasks."""
    return (0 if live is None else live.next_sequence(*place)) + task.number * task.sequence_stride


# ---- Rows that lost a race for dynamic buckets -----------------------------------------------------------------------
# A writer of dynamic buckets puts keys where the index files of its partition say, and new keys where there is room.
# If another writer commits to the partition first, a new key of both could be in two buckets, so the commit is
# refused. The rows are in the files that were written: they are read back unmerged, with their row kinds, and written
# once more by a writer that reads the newest index. Rows of one key stay in order, because all of them are in one
# bucket.
#
# Two cases cannot be written again from the files alone, so the caller must write its rows again: messages that
# change or compact other files, and tables whose keys move between partitions, where deletes in one partition belong
# to rows in another.

_TASKS_FROM = 1 << 20  # the tasks of a write have lower numbers, so that the names of the files differ


def rerouting(store: TableStore) -> Reroute | None:
    """Return a function that writes rows again after a lost race for buckets; None for tables without such races."""
    if store.schema.bucket_mode is not BucketMode.HASH_DYNAMIC:
        return None

    def reroute(messages: Sequence[CommitMessage], lost: int) -> list[CommitMessage] | None:
        only_adds = not any(m.deleted_files or m.compact_before or m.compact_after for m in messages)
        return reroute_messages(store, messages, lost) if only_adds else None

    return reroute


def reroute_messages(store: TableStore, messages: Sequence[CommitMessage], attempt: int) -> list[CommitMessage]:
    """Write the rows of messages again, into the buckets that their keys have by now; the old files stay."""
    has_kind_column = store.options.rowkind_field is not None  # among the columns of the table
    job = WriteJob.new(store, write_id=messages[0].write_id)
    read = ReadBuilder(store).with_include_row_kind().new_read()
    with job.open_writer(_TASKS_FROM + attempt) as writer:
        for message in messages:
            files = tuple(sorted(message.new_files, key=lambda file: file.min_sequence_number))
            if not files:
                continue
            place = (message.partition_bytes, message.bucket, message.total_buckets or -1)
            split = replace(split_of(store, 0, place, [files], {}), streaming=True, raw_convertible=False)
            for batch in read.to_arrow_batch_reader([split]):
                writer.write(batch.drop_columns([ROW_KIND]) if has_kind_column else batch)
        return writer.prepare()
