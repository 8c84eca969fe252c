"""What a write is: a checked call, or a builder, in; a `WriteJob` for tasks and a `Publication` for the commit out."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace

from lakewright.commit.plan import select_partitions
from lakewright.errors import UnsupportedError
from lakewright.metadata.store import TableStore
from lakewright.spec import arguments
from lakewright.spec.options import CoreOptions
from lakewright.spec.schema.table_schema import BucketMode
from lakewright.spec.snapshot import SeenSnapshot
from lakewright.table.write_builder import BatchTableWrite, TableWrite
from lakewright.write.job_run import JobRun
from lakewright.write.writer import WriteJob

SEQUENCE_STRIDE = 1 << 31  # rows that one task may write into one bucket in place
# The bucket of a key is decided while it is written, by the one who writes all rows of the key.
ONE_WRITER = frozenset({BucketMode.HASH_DYNAMIC, BucketMode.KEY_DYNAMIC})

_DYNAMIC = CoreOptions.DYNAMIC_PARTITION_OVERWRITE.key()


@dataclass(frozen=True, slots=True)
class Publication:
    """Under which name, and in which way, a write becomes a snapshot."""

    user: str | None = None  # None: one that is derived from the messages
    identifier: int | None = None  # of a batch of a stream
    replaced: Mapping[str, object] | None = None  # what an overwrite replaces, {} without a spec; None: append
    once_since: SeenSnapshot | None = None  # commit only if no snapshot after this one has the same user and identifier


def new_publication(
    mode: str, *, partitions: Mapping[str, object] | None = None, run: JobRun | None = None
) -> Publication:
    """Return how a call in one of the modes is committed; a run of a job once."""
    replaced = dict(partitions or {}) if mode == "overwrite" else None
    if run is None:
        return Publication(replaced=replaced)
    return Publication(run.user, replaced=replaced, once_since=run.since)


def new_job(store: TableStore, mode: str, *, partitions: Mapping[str, object] | None = None) -> WriteJob:
    """Return the write of a call in one of the modes, as a value that workers open writers from."""
    if partitions is not None:
        store = replace(store, schema=store.schema.with_options({_DYNAMIC: "false"}))
    return WriteJob.new(store, overwrite=mode == "overwrite", keys_only=mode == "delete")


def job_of_builder(
    write: TableWrite, *, overwrite: bool, instead: str, static_partition: Mapping[str, object] | None = None
) -> tuple[WriteJob, Publication]:
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
        replaced = arguments.mapping("static_partition", static_partition)
    if replaced:
        select_partitions(store, [replaced])
    if overwrite and replaced is None:
        replaced = {}
    # Files of this job must not be mistaken for those of the writer, so it gets an id of its own.
    job = replace(write.job, write_id=str(uuid.uuid4()), overwrite=replaced is not None)
    return job, Publication(user=write.commit_settings.commit_user, replaced=replaced)


def sharing_buckets(job: WriteJob) -> WriteJob:
    """Return a write whose tasks add files to the same buckets: rows of a later task have the later numbers."""
    stride = SEQUENCE_STRIDE if job.store.schema.bucket_mode is BucketMode.HASH_FIXED else 0
    return replace(job, sequence_stride=stride)


def single_threaded(job: WriteJob) -> WriteJob:
    """Return the write with one thread per task, unless the table says otherwise: tasks share the cores already."""
    option, store = CoreOptions.LAKEWRIGHT_WRITE_THREADS, job.store
    if option.key() in store.schema.options:
        return job
    return replace(job, store=store.with_schema(store.schema.with_options({option.key(): "1"})))
