"""Arrow data in, commit messages out: one task of one write job.

A `WriteJob` is a small value that travels to workers; each worker opens a `TableWriter` from it, feeds it and sends
the messages of `prepare` home. Nothing a writer does is visible before those messages are committed. Rows in equal
rows written, or `prepare` raises. A writer that failed half-way through a call takes no more data: closing it removes
every file that it did not hand out.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, Self, TypeAlias

import pyarrow as pa

from lakewright.commit.message import CommitMessage
from lakewright.errors import InvalidInputError, LakewrightError
from lakewright.formats.rolling import (
    FilePlan,
    FinishedFile,
    NewFile,
    RollingFile,
    SequenceNumbers,
    wall_clock_ms,
)
from lakewright.metadata.store import TableStore
from lakewright.spec.options import CoreOptions
from lakewright.spec.schema import BucketMode, check_supported_for_write
from lakewright.storage.layout import check_file_name
from lakewright.write.align import Aligner
from lakewright.write.buffer import BufferLimits, WriteBuffer
from lakewright.write.restore import LiveBuckets
from lakewright.write.routing import Routing, refuse_nan, route
from lakewright.write.task import Place

STAGE_BYTES = 16 << 20  # small batches are routed together, up to this much memory, and large ones in parts


class ArrowStream(Protocol):
    """Anything that can be read as an Arrow stream: tables, readers, polars, DuckDB and pandas frames."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the data."""


class ArrowArray(Protocol):
    """Anything that can be read as one Arrow batch."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> object:
        """Export the data."""


ArrowData: TypeAlias = "ArrowStream | ArrowArray | Sequence[ArrowStream | ArrowArray]"


@dataclass(frozen=True, slots=True)
class WriteJob:
    """One write over any number of workers: what they need to know, and nothing that is open."""

    store: TableStore
    write_id: str
    table: str  # the table's identity, which every message repeats
    write_cols: tuple[str, ...] | None = None
    overwrite: bool = False

    @classmethod
    def new(
        cls,
        store: TableStore,
        *,
        write_id: str | None = None,
        write_cols: Iterable[str] | None = None,
        overwrite: bool = False,
    ) -> WriteJob:
        """Check that the table can be written, and name the write."""
        check_supported_for_write(store.schema)
        columns = None if write_cols is None else _checked_columns(store, tuple(write_cols))
        return cls(store, write_id or str(uuid.uuid4()), store.identity, columns, overwrite)

    def open_writer(self, task: int = 0, attempt: int = 0) -> TableWriter:
        """Open the writer of one attempt at one task; the two numbers are part of every file name."""
        return TableWriter(self, task=task, attempt=attempt)

    @property
    def partial_columns(self) -> tuple[str, ...] | None:
        """The columns that the files hold where these are not all: only data evolution knows such files."""
        return self.write_cols if self.store.options.data_evolution_enabled() else None


def _checked_columns(store: TableStore, columns: tuple[str, ...]) -> tuple[str, ...] | None:
    names = store.schema.field_names
    for name in columns:
        if name not in names:
            raise InvalidInputError(
                f"table {store.name}: there is no column {name!r} to write; it has {', '.join(names)}",
                table=store.name,
                column=name,
            )
    if not columns or len(set(columns)) != len(columns):
        raise InvalidInputError(
            f"table {store.name}: name each column to write once, and at least one", table=store.name
        )
    missing = [key for key in store.schema.partition_keys if key not in columns]
    if missing and store.options.data_evolution_enabled():
        raise InvalidInputError(
            f"table {store.name}: the columns to write lack the partition column {missing[0]!r}; add it",
            table=store.name,
            column=missing[0],
        )
    return None if set(columns) == set(names) else columns


class TableWriter:
    """Writes rows into data files that no snapshot names yet."""

    def __init__(
        self, job: WriteJob, *, task: int = 0, attempt: int = 0, clock_ms: Callable[[], int] = wall_clock_ms
    ) -> None:
        schema, options = job.store.schema, job.store.options
        check_supported_for_write(schema)
        self._job = job
        self._store = job.store
        self._clock_ms = clock_ms
        self._plan = FilePlan.of_schema(schema, job.partial_columns)
        self._aligner = Aligner(self._plan.fields, table=job.store.name, write_cols=job.write_cols)
        self._total_buckets = options.bucket()
        self._fixed = schema.bucket_mode is BucketMode.HASH_FIXED
        self._routing = Routing(
            job.store.name,
            schema.partition_fields,
            schema.bucket_fields if self._fixed else (),
            self._total_buckets,
            options.get(CoreOptions.BUCKET_FUNCTION_TYPE),
        )
        self._live = LiveBuckets(job.store, self._total_buckets) if self._fixed and not job.overwrite else None
        self._numbers: dict[Place, SequenceNumbers] = {}
        self._counter = itertools.count()
        self._stem = f"{job.write_id}-{task}-{attempt}"
        check_file_name(self._plan.file_name(self._stem))
        budget = max(1 << 20, options.get(CoreOptions.WRITE_BUFFER_SIZE))
        self._stage_bytes = min(STAGE_BYTES, budget // 8)
        self._stage: list[pa.Table] = []
        self._staged_bytes = 0
        self._rows: dict[Place, int] = {}
        self._attempt = f"{task}-{attempt}"
        self._poison: BaseException | None = None
        self._closed = False
        limits = BufferLimits(
            budget_bytes=budget - budget // 4,  # the stage, its copy by routing and the encoders need the rest
            threads=options.get(CoreOptions.LAKEWRIGHT_WRITE_THREADS),
            spillable=options.get(CoreOptions.WRITE_BUFFER_SPILLABLE),
        )
        self._buffer = WriteBuffer(self._rolling_file, limits, ordered=self._fixed)

    def write(self, data: ArrowData, *, bucket: int | None = None) -> int:
        """Take rows in any Arrow form and return how many there were; `bucket` overrides the bucket function."""
        self._check_open()
        self._check_bucket(bucket)
        rows = 0
        try:
            for batch in batches_of(data, self._store.name):
                for piece in self._pieces(batch):
                    aligned = self._aligner.align(piece, first_row=rows)
                    refuse_nan(aligned, self._routing)
                    rows += aligned.num_rows
                    self._take(aligned, bucket)
            if bucket is not None:
                self._unstage(bucket)
        except BaseException as error:
            # A call that was refused before its first row got in leaves the writer as it was.
            if rows or not isinstance(error, InvalidInputError):
                self._poison = error
            raise
        return rows

    def prepare(self) -> list[CommitMessage]:
        """Finish all files and return one message per bucket that got rows; the writer then starts afresh."""
        self._check_open()
        try:
            self._unstage(None)
            finished = self._buffer.finish()
            self._reconcile(finished)
            messages = [self._message(place, files) for place, files in sorted(finished.items())]
        except BaseException as error:
            self._poison = error
            raise
        self._buffer.forget()  # from here on the files belong to whoever holds the messages
        self._rows = {}
        return messages

    def abort(self) -> None:
        """Stop, and remove every file that `prepare` did not hand out."""
        self._closed = True
        self._stage.clear()
        for done in self._buffer.discard():
            # What cannot be removed is an orphan, which the removal of orphans finds.
            with suppress(OSError):
                self._store.storage.delete(done.path)
        self._buffer.close()

    def close(self) -> None:
        """Let everything go; rows that were not prepared are dropped."""
        if not self._closed:
            self.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- rows on their way in ----------------------------------------------------------------------------------------

    def _pieces(self, batch: pa.Table | pa.RecordBatch) -> Iterator[pa.Table | pa.RecordBatch]:
        """Cut what is too large to be looked at in one go: the first piece is encoded while the next is checked."""
        size = batch.nbytes
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
        """Route what is staged and hand it to the buffer."""
        if not self._stage:
            return
        table = pa.concat_tables(self._stage)
        self._stage.clear()
        self._staged_bytes = 0
        groups = route(table, self._routing, bucket=bucket)
        del table
        if self._live is not None:
            self._live.look_up({group.partition for group in groups})
        for group in groups:
            place = (group.partition, group.bucket)
            self._rows[place] = self._rows.get(place, 0) + group.rows.num_rows
        self._buffer.add(groups)

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

    def _check_bucket(self, bucket: int | None) -> None:
        if bucket is None:
            return
        limit = self._total_buckets if self._fixed else 1
        if not 0 <= bucket < limit:
            raise InvalidInputError(
                f"table {self._store.name}: there is no bucket {bucket}; it has the buckets 0 to {limit - 1}",
                table=self._store.name,
                bucket=bucket,
            )
        self._unstage(None)

    # ---- files and messages on their way out -------------------------------------------------------------------------

    def _rolling_file(self, place: Place) -> RollingFile:
        numbers = self._numbers.get(place)
        if numbers is None:
            first = 0 if self._live is None else self._live.next_sequence(*place)
            numbers = self._numbers[place] = SequenceNumbers(first)
        directory = self._store.layout.bucket_directory(self._store.partition_directory(place[0]), place[1])
        return RollingFile(self._plan, lambda: self._new_file(directory), numbers, self._clock_ms)

    def _new_file(self, directory: str) -> NewFile:
        name = check_file_name(self._plan.file_name(f"{self._stem}-{next(self._counter)}"))
        path = f"{directory}/{name}"
        return NewFile(name, path, self._store.storage.open_output(path))

    def _message(self, place: Place, files: list[FinishedFile]) -> CommitMessage:
        partition, bucket = place
        return CommitMessage(
            partition_bytes=partition,
            bucket=bucket,
            total_buckets=self._total_buckets if self._fixed else None,
            new_files=tuple(done.facts for done in files),
            table=self._job.table,
            schema_id=self._store.schema.id,
            write_id=self._job.write_id,
            attempt=self._attempt,
            partition_types=tuple(str(dtype) for dtype in self._store.partition_types),
            rows_in=self._rows.get(place, 0),
        )

    def _reconcile(self, finished: dict[Place, list[FinishedFile]]) -> None:
        written = {place: sum(done.facts.row_count for done in files) for place, files in finished.items()}
        if written != self._rows:
            raise LakewrightError(
                f"table {self._store.name}: {sum(self._rows.values())} rows came in but {sum(written.values())} were "
                "written; nothing was committed, write the data again",
                table=self._store.name,
            )


def batches_of(data: object, table: str) -> Iterator[pa.Table | pa.RecordBatch]:
    """Return the data as Arrow batches, one at a time where it is a stream."""
    if isinstance(data, pa.Table | pa.RecordBatch):
        return iter((data,))
    if isinstance(data, pa.RecordBatchReader):
        return iter(data)
    if isinstance(data, list | tuple):
        return itertools.chain.from_iterable(batches_of(part, table) for part in data)
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return iter(pa.RecordBatchReader.from_stream(data))
        if hasattr(data, "__arrow_c_array__"):
            return iter((pa.record_batch(data),))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"table {table}: the data cannot be read as Arrow batches: {error}", table=table
        ) from error
    raise InvalidInputError(
        f"table {table}: cannot write a {type(data).__name__}; pass a pyarrow table, batch or reader, a list of these, "
        "or anything that exports an Arrow stream (polars, DuckDB, pandas)",
        table=table,
    )
