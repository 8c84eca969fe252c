"""Writes on Ray: a dataset in, one snapshot out.

    look for the job's own commit -> check the schema on the driver -> bring rows to the tasks that write their buckets
    -> run the tasks -> check the answers -> commit once, in this process -> compact on the workers

How rows reach the tasks that write them:

    append table without buckets     by a `Datasink`: the task that makes a block writes it; blocks that exist before
                                     go to tasks of our own, a few small ones or a part of a large one each
    postponed buckets                in place, by tasks of our own: later tasks have later rows
    everything else                  blocks go to one writer while they are few; else tasks take them apart by bucket
                                     (assigner, partition), and each writer gets its parts in the order of the dataset

Always holds: nothing is visible before the commit, and tasks never commit; rows keep the order of the dataset, and of
two rows with one key the later one wins. What fails before the commit leaves no file behind; once publishing has begun
and it is unknown how it ended, nothing is removed.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, pairwise
from typing import Any

import pyarrow as pa
import ray
from ray.data import Dataset, Datasink
from ray.data.dataset import MaterializedDataset

from lakewright.calls import ProgressCallback, merged_table
from lakewright.catalog.open import opened
from lakewright.commit.table_commit import WriteResult
from lakewright.distributed.call import check_call, check_concurrency, refuse_lookup
from lakewright.distributed.compaction import compacting_on
from lakewright.distributed.write import replayed, write_once
from lakewright.distributed.write_job import (
    Publication,
    job_of_builder,
    new_job,
    new_publication,
    sharing_buckets,
    single_threaded,
)
from lakewright.errors import InvalidInputError, LakewrightError
from lakewright.metadata.store import TableStore
from lakewright.ray.tasks import (
    RECEIVE,
    WRITE_PIECES,
    Piece,
    ProgressReport,
    RayAnswers,
    RayWorkers,
    TaskAnswer,
    Tasks,
    WriteSettings,
    answer_of,
    new_attempt,
    rows_of,
)
from lakewright.spec.arguments import Path, SchemaMode, WriteMode
from lakewright.spec.options import CoreOptions, WriteDistribution
from lakewright.spec.schema.table_schema import BucketMode
from lakewright.table.table import FileStoreTable
from lakewright.table.write_builder import TableWrite
from lakewright.write.buckets.assign import Assigner
from lakewright.write.job_run import JobRun
from lakewright.write.shuffle import receivers_for
from lakewright.write.writer import WriteJob

_ALONE_BYTES = 32 << 20  # of blocks that one writer writes alone; more are shared out
_TASK_BYTES = 64 << 20  # of blocks that are worth a task
_SEND_BYTES = 32 << 20  # of blocks that are taken apart together
_TASK_BYTES_MIN = 8 << 20  # of blocks that a task gets at least, where the dataset is small
_STARTING = threading.Lock()  # held while the settings of a dataset are changed


def write_table(  # noqa: PLR0913 - each argument is one choice of the caller
    dataset: Dataset,
    table: FileStoreTable | Path,
    mode: WriteMode = "append",
    *,
    partitions: Mapping[str, object] | None = None,
    schema_mode: SchemaMode | None = None,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
    job_id: str | None = None,
    progress: bool | ProgressCallback | None = None,
) -> WriteResult:
    """Write a dataset with Ray's workers and commit it in one snapshot.

    `mode` is append, upsert, overwrite or delete, as in `lakewright.write_table`: on a table with a primary key a row
    replaces the row with its key, and of two rows of one dataset the later one wins; `delete` takes the keys of rows to
    delete. An overwrite replaces the partitions of the rows, or those that `partitions` names, or the whole
    unpartitioned table. `schema_mode="merge"` first adds the columns, and widens the types, that the table lacks; Ray
    may have to run a part of the dataset to find them.

    A write with a `job_id` is committed once: if it is run again, after a crash or by another driver, it finds its
    snapshot, writes nothing, and says so (`replayed`). The id is known for as long as that snapshot lives.

    `concurrency` is the largest number of tasks that write at a time, and `ray_remote_args` are what `ray.remote` takes
    for them. `progress` is a callback, or False for no bars of Ray.
    """
    _check_dataset(dataset)
    target = opened(table)
    check_call(target, mode, partitions=partitions, schema_mode=schema_mode, concurrency=concurrency, progress=progress)
    settings = WriteSettings(concurrency, ray_remote_args, progress)
    run = None if job_id is None else JobRun.begin(target.store, job_id)
    if run is not None and run.earlier is not None:
        return replayed(target.store, run.earlier, run=compacting_on(RayWorkers(settings)))
    publication = new_publication(mode, partitions=partitions, run=run)
    if schema_mode == "merge":
        target = merged_table(target, _fetched_schema(dataset))
    if mode == "upsert" and (columns := _fetched_schema(dataset).names):  # a dataset without blocks has none
        refuse_lookup(target, columns)
    return _write(dataset, new_job(target, mode, partitions=partitions), publication, settings)


def write_ray(
    write: TableWrite,
    dataset: Dataset,
    *,
    overwrite: bool = False,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> WriteResult:
    """Write a dataset in the way that a builder has chosen, and commit it: what `TableWrite.write_ray` does."""
    _check_dataset(dataset)
    check_concurrency(concurrency)
    job, publication = job_of_builder(write, overwrite=overwrite, instead="")
    return _write(dataset, job, publication, WriteSettings(concurrency, ray_remote_args))


# ---- one write -------------------------------------------------------------------------------------------------------


def _write(dataset: Dataset, job: WriteJob, publication: Publication, settings: WriteSettings) -> WriteResult:
    """Take a dataset from its schema to a snapshot."""
    started = time.monotonic()
    known = dataset.schema(fetch_if_missing=False)
    if known is not None and isinstance(known.base_schema, pa.Schema) and known.names:
        job.check_input(known.base_schema)

    def work(_: TableStore) -> RayAnswers:
        with _bars(dataset, settings.progress):
            return _run(dataset, job, settings)

    return write_once(RayWorkers(settings), job, work, publication, started=started)


def _run(dataset: Dataset, job: WriteJob, settings: WriteSettings) -> RayAnswers:
    """Have the rows written in the way that fits the table, and say which one that was."""
    store, schema, report = job.store, job.store.schema, ProgressReport(settings.progress)
    distribution = store.options.get(CoreOptions.LAKEWRIGHT_WRITE_DISTRIBUTION)
    match schema.bucket_mode:
        case BucketMode.UNAWARE if distribution is not WriteDistribution.PARTITION or not schema.partition_keys:
            way = "in place: rows of this table may lie in any file"
            # Where Ray is set to skip blocks that failed, it would also skip those of a failed write.
            tolerant = dataset.context.max_errored_blocks != 0
            write = _in_place if tolerant or isinstance(dataset, MaterializedDataset) else _by_sink
            return RayAnswers(write(dataset, job, settings, report), way)
        case BucketMode.HASH_FIXED if distribution is WriteDistribution.NONE:
            way = "in place as asked: each task adds files to each bucket"
            return RayAnswers(_in_place(dataset, sharing_buckets(job), settings, report), way)
        case BucketMode.POSTPONE if not job.real_buckets and distribution is not WriteDistribution.PARTITION:
            way = "in place: the rows wait for their buckets"
            return RayAnswers(_in_place(dataset, job, settings, report), way)
        case _:
            return _together(dataset, job, settings, report)


# ---- by a sink -------------------------------------------------------------------------------------------------------


class TableSink(Datasink[TaskAnswer]):
    """Writes blocks in the tasks that make them, into files that no snapshot names yet.

    It only gathers the answers of the tasks. The commit follows after Ray's own write has ended, because Ray calls
    `on_write_failed` also where it is unknown how a commit ended, and does not call it for an interrupt.
    """

    def __init__(self, job: WriteJob) -> None:
        self._job = job
        self.answers: list[TaskAnswer] = []

    def write(self, blocks: Iterable[Any], ctx: Any) -> TaskAnswer:  # noqa: ANN401 - Ray's own types
        """Write the blocks of one task."""
        with self._job.open_writer(ctx.task_idx, new_attempt()) as writer:
            for rows in rows_of(blocks, self._job):
                writer.write(rows)
            return answer_of(ctx.task_idx, writer.prepare())

    def on_write_complete(self, write_result: Any) -> None:  # noqa: ANN401 - Ray's own type
        """Keep the answers of the tasks."""
        self.answers = sorted(write_result.write_returns, key=lambda answer: answer.number)

    def get_name(self) -> str:
        """Return the name under which Ray shows the write."""
        return "lakewright"


def _by_sink(dataset: Dataset, job: WriteJob, settings: WriteSettings, report: ProgressReport) -> list[TaskAnswer]:
    sink = TableSink(single_threaded(job))
    arguments = dict(settings.remote_args or {})
    with _in_order(dataset):  # Ray numbers its tasks as their blocks come, and the answers are put into that order
        dataset.write_datasink(sink, ray_remote_args=arguments, concurrency=settings.concurrency)
    if [answer.number for answer in sink.answers] != list(range(len(sink.answers))):
        raise LakewrightError(
            f"{job.store.name}: Ray brought the answers of some tasks home twice or not at all; nothing was committed, "
            "write the dataset again",
            table=job.store.name,
        )
    for answer in sink.answers:
        report.done(answer, len(sink.answers))
    return sink.answers


# ---- by tasks of our own ---------------------------------------------------------------------------------------------


def _in_place(dataset: Dataset, job: WriteJob, settings: WriteSettings, report: ProgressReport) -> list[TaskAnswer]:
    """Let each task write blocks that follow each other; later tasks have later rows."""
    shared, task_bytes = ray.put(single_threaded(job)), _TASK_BYTES
    if isinstance(dataset, MaterializedDataset):  # its size is known, so all can have the same share
        task_bytes = min(task_bytes, max(_TASK_BYTES_MIN, int(dataset.size_bytes()) // settings.running_max))
    with Tasks(settings, report) as tasks:
        for number, run in enumerate(_runs(_pieces(dataset), task_bytes)):
            tasks.start(WRITE_PIECES, shared, number, Assigner(), run)
        return tasks.finish()


def _together(dataset: Dataset, job: WriteJob, settings: WriteSettings, report: ProgressReport) -> RayAnswers:
    """Let each writer have all rows of its buckets."""
    pieces = _pieces(dataset)
    first, size, rows = [], 0, 0
    # The number of buckets for new keys is decided before the first of them gets one, so all rows are counted first.
    counts_all = job.store.schema.bucket_mode is BucketMode.HASH_DYNAMIC
    for piece in pieces:
        first.append(piece)
        size, rows = size + piece.bytes, rows + (piece.end or 0) - piece.start
        if size > _ALONE_BYTES and not counts_all:
            break
    writers = 1 if size <= _ALONE_BYTES else settings.running_max
    receivers = receivers_for(job, writers=writers, rows=rows)
    all_pieces = chain(first, pieces)
    with Tasks(settings, report) as tasks:
        if receivers.count == 1:
            tasks.start(WRITE_PIECES, ray.put(job), 0, Assigner(), list(all_pieces))
            return RayAnswers(tasks.finish(), "to one writer")
        shared = ray.put(single_threaded(job))
        sent = [tasks.send(shared, receivers, run) for run in _runs(all_pieces, _SEND_BYTES)]
        tasks.wait_for_sent()
        for number in range(receivers.count):
            parts = [to[number] for to in sent]
            tasks.start(RECEIVE, shared, number, receivers.assigner(number), parts)
        way = f"taken apart for {receivers.count} writers, each with buckets of its own"
        return RayAnswers(tasks.finish(), way)


def _pieces(dataset: Dataset) -> Iterator[Piece]:
    """Run the dataset and return references to its blocks, in the order of the dataset."""
    with _STARTING, _in_order(dataset):
        bundles = iter(dataset.iter_internal_ref_bundles())
    return (piece for bundle in bundles for piece in _blocks_of(bundle))


@contextmanager
def _in_order(dataset: Dataset) -> Iterator[None]:
    """Let executions that start in this block give blocks in the order of the dataset."""
    context = dataset.context
    theirs = context.execution_options
    if theirs.preserve_order:
        yield
        return
    ordered = copy.copy(theirs)
    ordered.preserve_order = True
    context.execution_options = ordered
    try:
        yield
    finally:
        context.execution_options = theirs


def _blocks_of(bundle: Any) -> Iterator[Piece]:  # noqa: ANN401 - Ray's own type
    cuts = getattr(bundle, "slices", None) or [None] * len(bundle.block_refs)
    for block, facts, cut in zip(bundle.block_refs, bundle.metadata, cuts, strict=True):
        start, end = (0, facts.num_rows) if cut is None else (cut.start_offset, cut.end_offset)
        yield Piece(block, start, end, facts.size_bytes)


def _runs(pieces: Iterable[Piece], task_bytes: int) -> Iterator[list[Piece]]:
    """Yield pieces that follow each other, in runs of about so many bytes; those that are far larger are cut."""
    run: list[Piece] = []
    size = 0
    for piece in chain.from_iterable(_cut(piece, task_bytes) for piece in pieces):
        run.append(piece)
        size += piece.bytes
        if size >= task_bytes * 7 // 8:
            yield run
            run, size = [], 0
    if run:
        yield run


def _cut(piece: Piece, task_bytes: int) -> Iterator[Piece]:
    """Yield a piece in parts of the same size, if it is too large for one task."""
    parts = 1 if piece.end is None else min(piece.end - piece.start, round(piece.bytes / task_bytes))
    if piece.end is None or parts <= 1:
        yield piece
        return
    ends = [piece.start + (piece.end - piece.start) * part // parts for part in range(parts + 1)]
    yield from (Piece(piece.block, start, end, piece.bytes // parts) for start, end in pairwise(ends))


@contextmanager
def _bars(dataset: Dataset, progress: bool | ProgressCallback | None) -> Iterator[None]:  # noqa: FBT001 - as above
    """Switch Ray's bars off if `progress` is False."""
    context = dataset.context
    before = context.enable_progress_bars
    if progress is False:
        context.enable_progress_bars = False
    try:
        yield
    finally:
        context.enable_progress_bars = before


# ---- the dataset -----------------------------------------------------------------------------------------------------


def _check_dataset(dataset: Dataset) -> None:
    if not isinstance(dataset, Dataset):
        raise InvalidInputError(
            f"a {type(dataset).__name__} is no dataset of Ray: write pandas, polars and Arrow data with "
            "lakewright.write_table, or make a dataset with ray.data.from_arrow"
        )


def _fetched_schema(dataset: Dataset) -> pa.Schema:
    """Return the columns of a dataset, all nullable, so that they can be added to a table that has rows."""
    known = dataset.schema()
    if known is None or not known.names:
        return pa.schema([])
    schema = known.base_schema
    if not isinstance(schema, pa.Schema):  # of pandas
        schema = pa.table(dataset.take_batch(1, batch_format="pyarrow")).schema
    return pa.schema([field.with_nullable(True) for field in schema])  # noqa: FBT003 - Arrow's own argument
