"""The door through which a batch goes straight to the real buckets of a table that postpones them."""

from __future__ import annotations

from lakewright.errors import InvalidInputError
from lakewright.metadata.store import TableStore
from lakewright.spec.schema import BucketMode
from lakewright.write.builder import BatchTableWrite, BatchWriteBuilder


class PostponeFixedBucketBatchTableWrite(BatchTableWrite):
    """A batch write into real buckets: its rows can be read as soon as they are committed."""

    def __init__(self, store: TableStore, *, overwrite: bool = False) -> None:
        super().__init__(store, overwrite=overwrite, real_buckets=True)


class PostponeFixedBucketWriteBuilder(BatchWriteBuilder):
    """Starts batch writes into real buckets.

    A partition keeps the number of buckets it has. A new one gets as many as `postpone.default-bucket-num` says, else
    as many as its first rows fill at `postpone.target-size-per-bucket`.
    """

    def __init__(self, store: TableStore) -> None:
        if store.schema.bucket_mode is not BucketMode.POSTPONE:
            raise InvalidInputError(
                f"table {store.name} does not postpone its buckets (bucket = -2); use new_batch_write_builder",
                table=store.name,
            )
        super().__init__(store)

    def new_write(self) -> PostponeFixedBucketBatchTableWrite:
        """Open a writer."""
        return PostponeFixedBucketBatchTableWrite(self._store, overwrite=self._static_partition is not None)
