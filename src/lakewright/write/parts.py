"""The parts of a writer: which router and which buffer a table needs.

A bucket mode decides how rows find their buckets, a primary key whether they are folded and sorted on their way into
files or written as they come.
"""

from __future__ import annotations

from functools import partial

from lakewright.datafiles.file_plan import FilePlan
from lakewright.datafiles.rolling import RollingFile, SequenceNumbers
from lakewright.lsm.merge import MergeSpec
from lakewright.spec.options import ChangelogProducer, CoreOptions
from lakewright.spec.schema.table_schema import BucketMode
from lakewright.storage.layout import check_file_name
from lakewright.write.buckets.cross_partition import CrossPartitionRouter
from lakewright.write.buckets.dynamic import DynamicRouter
from lakewright.write.buckets.postpone import PostponeRouter, RealBucketsRouter, postpone_plan
from lakewright.write.buckets.routing import HashRouter, Router
from lakewright.write.buffer import Buffer, BufferLimits, WriteBuffer
from lakewright.write.keyed_buffer import KeyedBuffer
from lakewright.write.live_buckets import LiveBuckets
from lakewright.write.task import FileNames, Place, WriteTask


def router_of(task: WriteTask) -> Router:
    """Return the router of a table's bucket mode."""
    schema = task.store.schema
    match schema.bucket_mode:
        case BucketMode.UNAWARE | BucketMode.HASH_FIXED:
            return HashRouter(schema, table=task.store.name)
        case BucketMode.HASH_DYNAMIC:
            return DynamicRouter(task, task.assigner)
        case BucketMode.KEY_DYNAMIC:
            return CrossPartitionRouter(task)
        case BucketMode.POSTPONE:
            return RealBucketsRouter(task) if task.real_buckets else PostponeRouter(task)


def buffer_of(task: WriteTask, live: LiveBuckets | None, plan: FilePlan) -> Buffer:
    """Return the buffer for one writer; numbers go on from `live`, or begin at 0. The plan is that of append tables."""
    schema = task.store.schema
    if schema.bucket_mode is BucketMode.POSTPONE and not task.real_buckets:
        return _append_buffer(task, postpone_plan(task), live)
    if schema.primary_keys:
        return _keyed_buffer(task, live)
    return _append_buffer(task, plan, live)


def limits_of(options: CoreOptions) -> BufferLimits:
    """Return how much a buffer may use, of the memory that the options give to a writer."""
    budget = max(1 << 20, options.get(CoreOptions.WRITE_BUFFER_SIZE))
    spillable = options.get(CoreOptions.WRITE_BUFFER_SPILLABLE)
    # Where commits order the rows, one commit must not write a key twice.
    spillable = spillable or options.get(CoreOptions.SEQUENCE_SNAPSHOT_ORDERING)
    return BufferLimits(
        budget_bytes=budget - budget // 4,  # the stage, its copy by routing and the encoders need the rest
        threads=options.get(CoreOptions.LAKEWRIGHT_WRITE_THREADS),
        spillable=spillable,
    )


def _append_buffer(task: WriteTask, plan: FilePlan, live: LiveBuckets | None) -> Buffer:
    names = _names(task, plan)
    numbers: dict[Place, SequenceNumbers] = {}

    def rolling_file(place: Place) -> RollingFile:
        if place not in numbers:
            numbers[place] = SequenceNumbers(_first_sequence(task, live, place))
        return RollingFile(plan, partial(names.new_file, place, plan), numbers[place], task.clock_ms)

    return WriteBuffer(rolling_file, limits_of(task.store.options))


def _keyed_buffer(task: WriteTask, live: LiveBuckets | None) -> Buffer:
    store = task.store
    data = FilePlan.keyed(store.schema, level=0)
    changelog = FilePlan.keyed(store.schema, level=0, changelog=True)
    names = _names(task, data, changelog)
    # An overwrite replaces rows that no changelog would mention, so it has none.
    producer = store.options.get(CoreOptions.CHANGELOG_PRODUCER)
    with_changelog = producer is ChangelogProducer.INPUT and not task.overwrite

    def rolling_file(place: Place, plan: FilePlan) -> RollingFile:
        return RollingFile(plan, partial(names.new_file, place, plan), None, task.clock_ms)

    def new_files(place: Place) -> tuple[RollingFile, RollingFile | None]:
        return rolling_file(place, data), rolling_file(place, changelog) if with_changelog else None

    spec = MergeSpec.of_schema(store.schema, table=store.name)
    return KeyedBuffer(spec, new_files, partial(_first_sequence, task, live), limits_of(store.options))


def _first_sequence(task: WriteTask, live: LiveBuckets | None, place: Place) -> int:
    """Return the number of a task's first row in a bucket: above those that are there, and those of earlier tasks."""
    return (0 if live is None else live.next_sequence(*place)) + task.number * task.sequence_stride


def _names(task: WriteTask, *plans: FilePlan) -> FileNames:
    for plan in plans:
        check_file_name(plan.file_name(task.stem))
    return FileNames(task)
