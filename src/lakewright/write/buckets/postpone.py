"""The routers of tables with postponed buckets: rows in, groups of the postpone bucket or of real buckets out.

Rows of the postpone bucket (-2) of a partition are stored in order of arrival with their kinds, neither sorted nor
merged, and no batch read shows them. A later job moves them into real buckets (`compact.postpone`). It reads the files
of each writer in their order, and knows the writer of a file by its name:

    <prefix>-u-<user>-s-<writer number>-w-<anything that makes the name unique>

A batch write may also write to real buckets at once. Then a partition keeps the number of buckets that it began with.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakewright.datafiles.file_plan import FilePlan
from lakewright.errors import UnsupportedError
from lakewright.formats.avro.container import Codec
from lakewright.formats.avro.data_schema import avro_schema
from lakewright.spec.buckets import postponed_buckets
from lakewright.spec.keyed_rows import SEQUENCE_NUMBER
from lakewright.spec.options import CoreOptions
from lakewright.spec.schema.table_schema import POSTPONE
from lakewright.spec.stats import FULL, NONE
from lakewright.write.buckets.routing import Group, IndexChange, Routing, number_partitions, route
from lakewright.write.live_buckets import LiveBuckets
from lakewright.write.task import Place, WriteTask

_UNNUMBERED = -1  # rows get their sequence numbers when they are distributed
_USER = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def postpone_plan(task: WriteTask) -> FilePlan:
    """Return the plan of files of the postpone bucket: in Avro, which is quick to write, if it has the column types."""
    schema = task.store.schema
    options = schema.core_options
    writer = f"-u-{_user(task.write_id)}-s-{task.number}-w-"
    changed = {CoreOptions.DATA_FILE_PREFIX.key(): options.get(CoreOptions.DATA_FILE_PREFIX) + writer}
    plan = FilePlan.keyed(schema.with_options(changed), level=0)
    if _fits_avro(plan):
        changed[CoreOptions.FILE_FORMAT_PER_LEVEL.key()] = "0:avro"
        later = (*plan.later, (plan.file_format, plan.options))
        plan = replace(FilePlan.keyed(schema.with_options(changed), level=0), later=later)
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

    def route(self, rows: pa.Table, *, bucket: int | None = None) -> list[Group]:  # noqa: ARG002 - there is one only
        """Return the rows grouped by partition."""
        numbers = pa.array(np.full(rows.num_rows, _UNNUMBERED, np.int64))
        return route(rows.add_column(0, SEQUENCE_NUMBER.name, numbers), self._routing, bucket=POSTPONE)

    def total_buckets(self, partition: bytes) -> int | None:  # noqa: ARG002 - no partition has any
        """Return the number that stands for postponed buckets."""
        return POSTPONE

    def finish(self) -> Mapping[Place, IndexChange]:
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

    def route(self, rows: pa.Table, *, bucket: int | None = None) -> list[Group]:
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
        groups: list[Group] = []
        for count in np.unique(counts).tolist():
            some = rows if bool((counts == count).all()) else rows.filter(pa.array(counts[numbers] == count))
            groups += route(some, replace(self._routing, buckets=count), bucket=bucket)
        return groups

    def total_buckets(self, partition: bytes) -> int | None:
        """Return the number of buckets of a partition."""
        return self._counts.get(partition)

    def finish(self) -> Mapping[Place, IndexChange]:
        """Return nothing: the bucket of a row follows from its values, without an index."""
        return {}
