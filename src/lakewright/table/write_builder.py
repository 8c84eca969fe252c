"""Write builders, `TableWrite`."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from lakewright.commit.commit_loop import CommitPrefetch
from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.commit_plan import select_partitions
from lakewright.commit.committer import Committer
from lakewright.commit.job_ids import JobRun
from lakewright.commit.table_commit import AfterCommit, BatchTableCommit, StreamTableCommit, WriteResult
from lakewright.compact.compaction_job import compact_after_commit
from lakewright.dml.distributed_write import CommitTarget
from lakewright.errors import CorruptTableError, InvalidInputError, NotFoundError, UnsupportedError
from lakewright.metadata.table_store import TableStore
from lakewright.metrics import StageTimer
from lakewright.spec import argument_checks
from lakewright.spec.snapshot import SeenSnapshot
from lakewright.spec.table_schema import BucketMode
from lakewright.table.update_builder import BatchTableUpdate, StreamTableUpdate
from lakewright.write.input_data import ArrowData, from_pandas, to_local_data
from lakewright.write.row_intake import RowKinds
from lakewright.write.table_writer import TableWriter, WriteJob, rerouting

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame
    from ray.data import Dataset


# ---- Builders, writes and commits ------------------------------------------------------------------------------------
# A batch write is prepared and committed once. A stream write is prepared many times, each time with an identifier,
# and keeps its commit user. Files that the messages of `prepare_commit` name belong to the caller; closing a writer
# removes only the others.


@dataclass(frozen=True, slots=True)
class CommitSettings:
    """How the builder of a write wants it committed, for engines that write and commit in one call."""

    commit_user: str | None = None
    static_partition: Mapping[str, object] | None = None  # what an overwrite replaces, {} without a spec; None: append
    early_look: CommitPrefetch | None = None  # at the table, which begins when the write is prepared
    stages: StageTimer = field(default_factory=StageTimer)  # where writers note how long they work
    keeps_messages: bool = False  # only the caller gets the messages, and they are committed once


class TableWrite:
    """Writes rows of one table; nothing is visible before the messages of `prepare_commit` are committed."""

    def __init__(
        self,
        store: TableStore,
        *,
        overwrite: bool = False,
        real_buckets: bool = False,
        settings: CommitSettings | None = None,
    ) -> None:
        self._store = store
        self._job = WriteJob.new(store, overwrite=overwrite, real_buckets=real_buckets)
        self._settings = settings or CommitSettings()
        self._writer: TableWriter | None = None
        self._closed = False

    @property
    def job(self) -> WriteJob:
        """The write as a value that workers can open writers from."""
        return self._job

    @property
    def commit_settings(self) -> CommitSettings:
        """How the builder of this write wants it committed."""
        return self._settings

    def with_write_type(self, write_cols: str | Sequence[str]) -> Self:
        """Say that the input has only these columns; the others become null or default, or stay with data evolution."""
        if self._writer is not None:
            raise InvalidInputError(
                f"table {self._store.name}: choose the columns to write before the first write", table=self._store.name
            )
        self._job = WriteJob.new(
            self._store,
            write_id=self._job.write_id,
            write_cols=argument_checks.check_names("write_cols", write_cols),
            overwrite=self._job.overwrite,
            real_buckets=self._job.real_buckets,
        )
        return self

    def write_arrow(self, data: ArrowData, bucket: int | None = None, row_kinds: RowKinds | None = None) -> Self:
        """Write a table, batch, reader, a list of these, or anything that exports an Arrow stream or array.

        A table with a primary key takes rows as upserts. `row_kinds` says otherwise: one of +I, -U, +U, -D (or 0 to 3)
        for all rows, or one for each.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> columns = pa.schema({"id": pa.int64(), "n": pa.int64()})
        >>> schema = lw.Schema.from_pyarrow_schema(columns, primary_keys=["id"], options={"bucket": 1})
        >>> catalog.create_table("d.t", schema)
        >>> table = catalog.get_table("d.t")
        >>> builder = table.new_batch_write_builder()
        >>> with builder.new_write() as write, builder.new_commit() as commit:
        ...     _ = write.write_arrow(pa.table({"id": [1, 2], "n": [1, 2]}))
        ...     _ = write.write_arrow(pa.table({"id": [1, 2], "n": [7, 2]}), row_kinds=["+U", "-D"])
        ...     _ = commit.commit(write.prepare_commit())
        >>> lw.read_table(table).to_pylist()
        [{'id': 1, 'n': 7}]
        """
        place, since = argument_checks.check_optional(argument_checks.check_int, "bucket", bucket), perf_counter()
        self._open().write(data, bucket=place, row_kinds=row_kinds)
        self._settings.stages.add("write", since)
        return self

    def write_arrow_batch(self, data: ArrowData, bucket: int | None = None, row_kinds: RowKinds | None = None) -> Self:
        """Write one batch."""
        return self.write_arrow(data, bucket, row_kinds)

    def delete_arrow(self, keys: ArrowData) -> Self:
        """Delete the rows with these keys; columns besides the primary key and the partition may be missing.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> columns = pa.schema({"id": pa.int64(), "n": pa.int64()})
        >>> schema = lw.Schema.from_pyarrow_schema(columns, primary_keys=["id"], options={"bucket": 1})
        >>> catalog.create_table("d.t", schema)
        >>> table = catalog.get_table("d.t")
        >>> builder = table.new_batch_write_builder()
        >>> with builder.new_write() as write, builder.new_commit() as commit:
        ...     _ = write.write_arrow(pa.table({"id": [1, 2], "n": [1, 2]}))
        ...     _ = write.delete_arrow(pa.table({"id": [2]}))
        ...     _ = commit.commit(write.prepare_commit())
        >>> lw.read_table(table).to_pylist()
        [{'id': 1, 'n': 1}]
        """
        since = perf_counter()
        self._open().delete(keys)
        self._settings.stages.add("write", since)
        return self

    def write_pandas(self, dataframe: pd.DataFrame) -> Self:
        """Write a pandas frame; named levels of its index are columns, levels without a name are left out."""
        given = to_local_data(dataframe, self._store.name)
        return self.write_arrow(given if isinstance(given, pa.Table) else from_pandas(given, self._store.name))

    def write_spark(
        self,
        df: DataFrame,
        overwrite: bool = False,  # noqa: FBT001, FBT002 - a flag of one call, as its peers have it
        concurrency: int | None = None,
        spark_options: Mapping[str, str] | None = None,
    ) -> WriteResult:
        """Write a Spark frame with Spark's workers, commit it in one snapshot and return what was written."""
        from lakewright.spark.frame_write import write_spark  # noqa: PLC0415 - lazy

        return write_spark(self, df, overwrite=overwrite, concurrency=concurrency, spark_options=spark_options)

    def write_ray(
        self,
        dataset: Dataset,
        overwrite: bool = False,  # noqa: FBT001, FBT002 - a flag of one call, as its peers have it
        concurrency: int | None = None,
        ray_remote_args: Mapping[str, object] | None = None,
        hash_fixed_precluster: str = "auto",
        static_partition: Mapping[str, object] | None = None,
    ) -> WriteResult:
        """Write a Ray dataset with Ray's workers, commit it in one snapshot and return what was written.

        `static_partition` names a partition that the dataset replaces, whatever the builder says. Of a table with a
        fixed number of buckets `hash_fixed_precluster` says how rows reach their buckets: "map_groups" brings the rows
        of a bucket to one task, "off" lets each task add files to each bucket, "auto" follows the table's
        `lakewright.write-distribution`.
        """
        from lakewright.ray.dataset_write import Routed, write_ray  # noqa: PLC0415 - lazy

        routed = Routed(overwrite, static_partition, hash_fixed_precluster)
        return write_ray(self, dataset, routed, concurrency=concurrency, ray_remote_args=ray_remote_args)

    def close(self) -> None:
        """Release memory and remove files that no message of `prepare_commit` names."""
        self._closed = True
        if self._writer is not None:
            self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> TableWriter:
        if self._closed:
            raise InvalidInputError(f"table {self._store.name}: the writer is closed; make a new one from the builder")
        if self._writer is None:
            self._writer = self._job.open_writer()
        return self._writer

    def _prepare(self) -> list[CommitMessage]:
        writer, since = self._open(), perf_counter()
        look = self._settings.early_look or CommitPrefetch(self._store)
        if look.is_wanted:
            look.begin_commit()
        elif not self._settings.keeps_messages:
            look.begin()
        messages = writer.prepare()
        if messages and not self._settings.keeps_messages:
            messages = _with_seen(messages, look)
        self._settings.stages.add("flush", since)
        return messages


def _with_seen(messages: Sequence[CommitMessage], look: CommitPrefetch) -> list[CommitMessage]:
    """Return messages that name a snapshot from before they were complete: a replay is searched for from there on."""
    try:
        seen = SeenSnapshot.of(look.seen_snapshot())
    except (OSError, CorruptTableError, NotFoundError):
        return list(messages)  # their files are written, and the commit can do without
    return [replace(message, seen=seen) for message in messages]


class BatchTableWrite(TableWrite):
    """A write that is prepared once."""

    def __init__(
        self,
        store: TableStore,
        *,
        overwrite: bool = False,
        real_buckets: bool = False,
        settings: CommitSettings | None = None,
    ) -> None:
        super().__init__(store, overwrite=overwrite, real_buckets=real_buckets, settings=settings)
        self._prepared = False

    def prepare_commit(self) -> list[CommitMessage]:
        """Finish the files and return the messages to commit."""
        if self._prepared:
            raise InvalidInputError(
                f"table {self._store.name}: a batch write is prepared once; make a new writer, or use a stream write",
                table=self._store.name,
            )
        messages = self._prepare()
        self._prepared = True
        return messages

    def _open(self) -> TableWriter:
        if self._prepared:
            raise InvalidInputError(
                f"table {self._store.name}: the write was prepared already; make a new writer from the builder",
                table=self._store.name,
            )
        return super()._open()


class StreamTableWrite(TableWrite):
    """A write that is prepared again and again."""

    def prepare_commit(self, commit_identifier: int) -> list[CommitMessage]:
        """Finish the files so far and return the messages to commit under an identifier that grows."""
        commit_identifier = argument_checks.check_int("commit_identifier", commit_identifier)
        last = self._last_identifier
        if last is not None and commit_identifier <= last:
            raise InvalidInputError(
                f"table {self._store.name}: identifiers grow, and {commit_identifier} does not follow {last}",
                table=self._store.name,
            )
        messages = self._prepare()
        self._last_identifier = commit_identifier
        return messages

    _last_identifier: int | None = None


class BatchWriteBuilder:
    """Starts batch writes: any number of writers, one commit."""

    _commit_type = BatchTableCommit
    _write_type = BatchTableWrite

    def __init__(self, store: TableStore) -> None:
        store.check_changeable()
        self._store = store
        self._commit_user: str | None = None
        self._static_partition: dict[str, object] | None = None
        self._job: JobRun | None = None
        self._keeps_messages = False
        self._early_look = CommitPrefetch(store)
        self._stages = StageTimer()

    @property
    def commit_user(self) -> str | None:
        """The name under which the commit is recorded; None lets the commit derive one from its messages."""
        return self._commit_user

    def with_commit_user(self, commit_user: str) -> Self:
        """Record the commit under a name of your own. It must not be used by two batch commits."""
        self._commit_user = argument_checks.check_text("commit_user", commit_user)
        return self

    def keeping_messages(self) -> Self:
        """Say that the caller commits the messages at once and does not pass them on.

        Their files are then removed if the commit fails.
        """
        self._keeps_messages = True
        return self

    def with_job(self, job: JobRun) -> Self:
        """Commit as one of several runs of a job; only the first of them is committed."""
        self._job = argument_checks.check_instance("job", job, JobRun, "a run of a job")
        return self.with_commit_user(job.user)

    def overwrite(self, static_partition: Mapping[str, object] | None = None) -> Self:
        """Replace rows of the table: the partitions of the new rows, or those that a partition spec names.

        A value is text or a Python value: `{"day": "2026-01-09"}`, a `date` or a pandas Timestamp mean the same.
        """
        given = {} if static_partition is None else static_partition
        self._static_partition = argument_checks.check_mapping("static_partition", given)
        select_partitions(self._store, [self._static_partition])  # a wrong spec is an error here, before any work
        return self

    def with_overwrite(self, static_partition: Mapping[str, object] | None = None) -> Self:
        """Replace rows as `overwrite` does, under pypaimon-rust's name."""
        return self.overwrite(static_partition)

    def new_write(self) -> BatchTableWrite:
        """Open a writer."""
        return self._write_type(self._store, overwrite=self._static_partition is not None, settings=self._settings)

    def new_update(self) -> BatchTableUpdate:
        """Return the verbs that change rows of the table, under pypaimon's names."""
        return BatchTableUpdate(self._store)

    @property
    def _settings(self) -> CommitSettings:
        keeps_messages = self._keeps_messages or self._job is not None
        return CommitSettings(self._commit_user, self._static_partition, self._early_look, self._stages, keeps_messages)

    def new_commit(self) -> BatchTableCommit:
        """Open the commit."""
        return self._commit_type(
            self._store,
            commit_user=self._commit_user,
            overwrite=self._static_partition,
            committer=(committer := self._committer()),
            after_commit=_compaction_of(self._store),
            reroute=rerouting(self._store) if committer.sole and self._store.schema.primary_keys else None,
        )

    def _committer(self) -> Committer:
        if self._job is not None:
            committer = self._job.committer(self._store)
        else:
            committer = Committer(self._store, commit_user=self._commit_user, sole=self._keeps_messages)
        committer.early_look, committer.before = self._early_look, self._stages
        self._early_look.is_wanted = True
        return committer


class PostponeFixedBucketBatchTableWrite(BatchTableWrite):
    """A batch write into real buckets: its rows can be read as soon as they are committed."""

    def __init__(
        self,
        store: TableStore,
        *,
        overwrite: bool = False,
        real_buckets: bool = True,
        settings: CommitSettings | None = None,
    ) -> None:
        super().__init__(store, overwrite=overwrite, real_buckets=real_buckets, settings=settings)


class PostponeFixedBucketWriteBuilder(BatchWriteBuilder):
    """Starts batch writes into real buckets.

    A partition keeps the number of buckets it has. A new one gets as many as `postpone.default-bucket-num` says, else
    as many as its first rows fill at `postpone.target-size-per-bucket`.
    """

    _write_type = PostponeFixedBucketBatchTableWrite

    def __init__(self, store: TableStore) -> None:
        if store.schema.bucket_mode is not BucketMode.POSTPONE:
            raise InvalidInputError(
                f"table {store.name} does not postpone its buckets (bucket = -2); use new_batch_write_builder",
                table=store.name,
            )
        super().__init__(store)


class StreamWriteBuilder:
    """Starts stream writes: many commits of one user, each with an identifier that grows."""

    _commit_type = StreamTableCommit
    _write_type = StreamTableWrite

    def __init__(self, store: TableStore) -> None:
        store.check_changeable()
        self._store = store
        self._commit_user = str(uuid.uuid4())
        self._stages = StageTimer()

    @property
    def commit_user(self) -> str:
        """The name under which the commits are recorded; keep it over restarts so that nothing is committed twice."""
        return self._commit_user

    def with_commit_user(self, commit_user: str) -> Self:
        """Continue under the name of an earlier run."""
        self._commit_user = argument_checks.check_text("commit_user", commit_user)
        return self

    def new_write(self) -> StreamTableWrite:
        """Open a writer."""
        return self._write_type(self._store, settings=CommitSettings(stages=self._stages))

    def new_update(self) -> StreamTableUpdate:
        """Return the verbs that change rows of the table, under pypaimon's names."""
        return StreamTableUpdate(self._store)

    def new_commit(self) -> StreamTableCommit:
        """Open the commit."""
        committer = Committer(self._store, commit_user=self._commit_user, before=self._stages)
        user, after = self._commit_user, _compaction_of(self._store)
        return self._commit_type(self._store, commit_user=user, committer=committer, after_commit=after)


def _compaction_of(store: TableStore) -> AfterCommit | None:
    """Return the compaction that follows each commit of a primary-key table; None for append tables."""
    return partial(compact_after_commit, store, is_newest=True) if store.schema.primary_keys else None


# ---- The job of a builder --------------------------------------------------------------------------------------------


def job_of_builder(
    write: TableWrite, *, overwrite: bool, instead: str, static_partition: Mapping[str, object] | None = None
) -> tuple[WriteJob, CommitTarget]:
    """Return what a builder has chosen, for an engine that writes and commits; a stream should use `instead`.

    A static partition is replaced, whatever the builder says.
    """
    store = write.job.store
    if not isinstance(write, BatchTableWrite):
        raise UnsupportedError(
            f"{store.name}: a stream write has no identifier to commit this under; use a batch write builder{instead}",
            table=store.name,
        )
    replaced = write.commit_settings.static_partition
    if static_partition is not None:
        replaced = argument_checks.check_mapping("static_partition", static_partition)
    if replaced:
        select_partitions(store, [replaced])
    if overwrite and replaced is None:
        replaced = {}
    # Files of this job must not be mistaken for those of the writer, so it gets an id of its own.
    job = replace(write.job, write_id=str(uuid.uuid4()), overwrite=replaced is not None)
    return job, CommitTarget(user=write.commit_settings.commit_user, replaced=replaced)
