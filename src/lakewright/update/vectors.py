"""Rows deleted by deletion vectors: positions in, complete vectors of data files out, folded into index files.

A worker makes the whole vector of each file it changes: of the rows deleted before, and of those deleted now. The
driver folds all of them with those that stay. In a table without buckets the index files with vectors of changed files
are replaced, and what else they hold is copied as bytes; a bucket has one index file, which is replaced as a whole. A
file without a live row is taken out of the table, and its vector with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from lakewright.commit.message import CommitMessage
from lakewright.errors import LakewrightError
from lakewright.formats.deletion_vectors import (
    Positions as Deleted,
)
from lakewright.formats.deletion_vectors import (
    decode_deletion_vector,
    distinct,
    encode_deletion_vector,
    is_bitmap64,
    pack_records,
    record_at,
)
from lakewright.metadata.store import TableStore
from lakewright.read.files import BucketFiles
from lakewright.read.scan import FileSchemas
from lakewright.read.split import DataSplit
from lakewright.spec.datafile import DELETION_VECTORS, DataFile, IndexFile
from lakewright.spec.options import CoreOptions
from lakewright.spec.schema import BucketMode
from lakewright.storage.layout import check_file_name
from lakewright.update.change import Applied, Bucket, ChangeJob, Positions, Vector, VectorFile, bucket_of

_Records = dict[str, tuple[bytes, int]]  # by data file: the record, and how many rows it deletes


def anchor_of(part: DataSplit) -> DataFile:
    """Return the file of a group that its vector hangs on: the oldest."""
    return min(part.files, key=lambda file: (file.max_sequence_number, file.file_name))


def deleted_of(store: TableStore, part: DataSplit) -> Deleted | None:
    """Return the positions of a group's rows that are deleted already; None where none is."""
    deletion = part.deletion_of(range(len(part.files)))
    if deletion is None:
        return None
    files = BucketFiles(store, FileSchemas(store), part.partition_bytes, part.bucket)
    return files.deleted(anchor_of(part), deletion)


def mark(job: ChangeJob, part: DataSplit, positions: Positions) -> Applied:
    """Delete rows of a group: it gets a vector of all rows deleted so far, or goes where none is left."""
    before = deleted_of(job.store, part)
    gone = positions if before is None else distinct(np.concatenate([before.astype(np.int64), positions]))
    anchor = anchor_of(part)
    if len(gone) >= anchor.row_count:
        return drop(job, part)
    record = encode_deletion_vector(gone, bitmap64=_is_64(job.store))
    return Applied(vectors=(Vector(bucket_of(part), anchor.file_name, len(gone), record),))


def drop(job: ChangeJob, part: DataSplit) -> Applied:
    """Take the files of a group out of the table, and their vector with them."""
    bucket = bucket_of(part)
    return Applied((job.message(bucket, deleted_files=part.files),), forget(part))


def forget(part: DataSplit) -> tuple[Vector, ...]:
    """Return what takes the vector of a group away whose files leave the table."""
    with_vector = (file for file, found in zip(part.files, part.deletion_files, strict=False) if found is not None)
    return tuple(Vector(bucket_of(part), file.file_name, 0, None) for file in with_vector)


def store_vectors(job: ChangeJob, applied: Applied, task: int, attempt: int) -> Applied:
    """Put the vectors of a worker into index files, so that only their places travel to the driver."""
    names = (f"index-{job.write_id}-{task}-{attempt}-{number}" for number in range(1 << 31))
    files: list[VectorFile] = []
    for bucket, found in _by_bucket(applied).items():
        files += [VectorFile(bucket, file) for file in _written(job.store, bucket, found.records, names)]
    left = tuple(vector for vector in applied.vectors if vector.record is None)
    return replace(applied, vectors=left, vector_files=(*applied.vector_files, *files))


def fold(job: ChangeJob, applied: Applied) -> list[CommitMessage]:
    """Write the index files that the table has after a change, and return the messages that replace the old ones."""
    store = job.store
    changed = _by_bucket(applied)
    if not changed:
        return []
    manifest = job.snapshot.index_manifest
    entries = [] if manifest is None else store.manifests.read_index(manifest)
    old: dict[tuple[bytes, int], list[IndexFile]] = {}
    for entry in entries:
        if entry.file.index_type == DELETION_VECTORS:
            old.setdefault((entry.partition, entry.bucket), []).append(entry.file)
    names = (f"index-{job.write_id}-{number}" for number in range(1 << 31))
    messages = []
    try:
        for bucket, found in changed.items():
            messages.append(_folded(job, bucket, found, old.get(bucket[:2], ()), names))
    except BaseException:
        remove(store, ((bucket_of_message(m), f) for m in messages for f in m.new_index_files))
        raise
    return messages


@dataclass(slots=True)
class _Changed:
    """What changes of the vectors of one bucket."""

    records: _Records = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)  # data files that have no vector any more
    files: list[IndexFile] = field(default_factory=list)  # with vectors that workers have stored

    @property
    def names(self) -> set[str]:
        """The data files whose vectors change."""
        return {*self.records, *self.gone, *(r.data_file for f in self.files for r in f.deletion_ranges or ())}


def _by_bucket(applied: Applied) -> dict[Bucket, _Changed]:
    buckets: dict[Bucket, _Changed] = {}
    for vector in applied.vectors:
        found = buckets.setdefault(vector.bucket, _Changed())
        if vector.record is None:
            found.gone.add(vector.data_file)
        else:
            found.records[vector.data_file] = vector.record, vector.cardinality
    for stored in applied.vector_files:
        buckets.setdefault(stored.bucket, _Changed()).files.append(stored.file)
    return buckets


def _folded(
    job: ChangeJob, bucket: Bucket, changed: _Changed, old: Sequence[IndexFile], names: Iterator[str]
) -> CommitMessage:
    """Write the new index files of one bucket, or of one partition without buckets."""
    store = job.store
    bucketed = store.schema.bucket_mode is not BucketMode.UNAWARE
    touched = changed.names
    replaced = [f for f in old if bucketed or any(r.data_file in touched for r in f.deletion_ranges or ())]
    records = dict(changed.records)
    kept = [] if bucketed else changed.files
    for file in changed.files if bucketed else ():
        records.update(_records_of(store, bucket, file, frozenset()))
    for file in replaced:
        records.update(_records_of(store, bucket, file, touched))
    written = _written(store, bucket, records, names)
    if bucketed:
        remove(store, ((bucket, file) for file in changed.files))  # what they held was copied
    return job.message(bucket, new_index_files=(*kept, *written), deleted_index_files=replaced)


def _records_of(store: TableStore, bucket: Bucket, file: IndexFile, without: Iterable[str]) -> _Records:
    """Return the records of an index file but some, as they are; only those of the other form are made anew."""
    left = [found for found in file.deletion_ranges or () if found.data_file not in without]
    if not left:
        return {}
    path = _path(store, bucket, file)
    data = store.storage.read(path)
    out: _Records = {}
    for found in left:
        record, cardinality = record_at(data, found, path=path), found.cardinality
        if cardinality is None or is_bitmap64(record) != _is_64(store):
            positions = decode_deletion_vector(record, path=path)
            record, cardinality = encode_deletion_vector(positions, bitmap64=_is_64(store)), len(positions)
        out[found.data_file] = record, cardinality
    return out


def _written(store: TableStore, bucket: Bucket, records: _Records, names: Iterator[str]) -> list[IndexFile]:
    """Write records into index files: one for a bucket, even for no records; else as many as their size asks for."""
    if store.schema.bucket_mode is not BucketMode.UNAWARE:
        return [_write(store, bucket, next(names), records)]
    target = store.options.get(CoreOptions.DELETION_VECTOR_INDEX_FILE_TARGET_SIZE)
    files = []
    some: _Records = {}
    size = 0
    for name, (record, cardinality) in records.items():
        if some and size + len(record) > target:
            files.append(_write(store, bucket, next(names), some))
            some, size = {}, 0
        some[name] = record, cardinality
        size += len(record)
    return [*files, _write(store, bucket, next(names), some)] if some else files


def _write(store: TableStore, bucket: Bucket, name: str, records: Mapping[str, tuple[bytes, int]]) -> IndexFile:
    data, ranges = pack_records(records)
    file = IndexFile(DELETION_VECTORS, check_file_name(name), len(data), len(ranges), ranges)
    path = _path(store, bucket, file)
    if not store.storage.create(path, data):
        raise LakewrightError(f"{store.name}: {path} is there already; try again", table=store.name, path=path)
    return file


def remove(store: TableStore, files: Iterable[tuple[Bucket, IndexFile]]) -> None:
    """Remove index files that no message will name; what stays is an orphan."""
    for bucket, file in files:
        with suppress(OSError):
            store.storage.delete(_path(store, bucket, file))


def _path(store: TableStore, bucket: Bucket, file: IndexFile) -> str:
    partition, number, _ = bucket
    return store.layout.index_file(file, store.layout.bucket_directory(store.partition_directory(partition), number))


def bucket_of_message(message: CommitMessage) -> Bucket:
    """Return the bucket that a message speaks of."""
    return message.partition_bytes, message.bucket, message.total_buckets


def _is_64(store: TableStore) -> bool:
    return store.options.get(CoreOptions.DELETION_VECTORS_BITMAP64)
