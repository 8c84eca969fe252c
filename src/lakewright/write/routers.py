"""Which router a table needs: its bucket mode in, a fresh `Router` for one writer out."""

from __future__ import annotations

from lakewright.spec.schema import BucketMode
from lakewright.write.cross_partition import CrossPartitionRouter
from lakewright.write.dynamic import DynamicRouter
from lakewright.write.postpone import PostponeRouter, RealBucketsRouter
from lakewright.write.routing import HashRouter, Router
from lakewright.write.task import WriteTask


def router_of(task: WriteTask) -> Router:
    """Return the router of a table's bucket mode."""
    schema = task.store.schema
    match schema.bucket_mode:
        case BucketMode.UNAWARE | BucketMode.HASH_FIXED:
            return HashRouter(schema, table=task.store.name)
        case BucketMode.HASH_DYNAMIC:
            return DynamicRouter(task)
        case BucketMode.KEY_DYNAMIC:
            return CrossPartitionRouter(task)
        case BucketMode.POSTPONE:
            return RealBucketsRouter(task) if task.real_buckets else PostponeRouter(task)
