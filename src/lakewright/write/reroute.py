"""Rows that lost a race for dynamic buckets: messages in, messages with the same rows in the right buckets out.

A writer of dynamic buckets puts keys where the index files of its partition say, and new keys where there is room. If
another writer commits to the partition first, a new key of both could be in two buckets, so the commit is refused. The
rows are in the files that were written: they are read back unmerged, with their row kinds, and written once more by a
writer that reads the newest index. Rows of one key stay in order, because all of them are in one bucket.

Two cases cannot be written again from the files alone, so the caller must write its rows again: messages that change or
compact other files, and tables whose keys move between partitions, where deletes in one partition belong to rows in
another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakewright.commit.message.message import CommitMessage
from lakewright.commit.table_commit import Reroute
from lakewright.metadata.store import TableStore
from lakewright.read.builder import ReadBuilder
from lakewright.read.projection import ROW_KIND
from lakewright.read.splits.plan import split_of
from lakewright.spec.options import CoreOptions
from lakewright.spec.schema.table_schema import BucketMode
from lakewright.write.writer import WriteJob

_TASKS_FROM = 1 << 20  # the tasks of a write have lower numbers, so that the names of the files differ


def rerouting(store: TableStore) -> Reroute | None:
    """Return a function that writes rows again after a lost race for buckets; None for tables without such races."""
    if store.schema.bucket_mode is not BucketMode.HASH_DYNAMIC:
        return None

    def reroute(messages: Sequence[CommitMessage], lost: int) -> list[CommitMessage] | None:
        only_adds = not any(m.deleted_files or m.compact_before or m.compact_after for m in messages)
        return rerouted(store, messages, lost) if only_adds else None

    return reroute


def rerouted(store: TableStore, messages: Sequence[CommitMessage], attempt: int) -> list[CommitMessage]:
    """Write the rows of messages again, into the buckets that their keys have by now; the old files stay."""
    has_kind_column = store.options.get(CoreOptions.ROWKIND_FIELD) is not None  # among the columns of the table
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
