"""Rows deleted by deletion vectors: positions in, complete vectors of data files out, folded into index files.

A worker makes the whole vector of each file it changes: of the rows deleted before, and of those deleted now. The
driver folds all of them with those that stay. In a table without buckets the index files with vectors of changed files
are replaced, and what else they hold is copied as bytes; a bucket has one index file, which is replaced as a whole. A
file without a live row is taken out of the table, and its vector with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Self, TypeAlias

import numpy as np

from lakewright.commit.message.message import CommitMessage
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
from lakewright.read.splits.split import DataSplit
from lakewright.spec.datafile import DELETION_VECTORS, DataFile, IndexFile
from lakewright.spec.options import CoreOptions
from lakewright.spec.schema.table_schema import BucketMode
from lakewright.storage.layout import check_file_name
from lakewright.update.change import Applied, Bucket, ChangeJob, Positions, Vector, VectorFile, bucket_of

_Records: TypeAlias = dict[str, tuple[bytes, int]]  # by data file: the record, and how many rows it deletes
_SMALL_FILES_MAX = 16  # of one partition, until they are written as one


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
    out = _IndexFiles(job.store, f"index-{job.write_id}-{task}-{attempt}")
    with out:
        for bucket, found in _by_bucket(applied).items():
            if found.records:
                out.write(bucket, found.records)
    left = tuple(vector for vector in applied.vectors if vector.record is None)
    return replace(applied, vectors=left, vector_files=(*applied.vector_files, *out.written))


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
    out = _IndexFiles(store, f"index-{job.write_id}")
    with out:
        return [_folded(job, bucket, found, old.get(bucket[:2], ()), out) for bucket, found in changed.items()]


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
    job: ChangeJob, bucket: Bucket, changed: _Changed, old: Sequence[IndexFile], out: _IndexFiles
) -> CommitMessage:
    """Write the new index files of one bucket, or of one partition without buckets."""
    store = job.store
    touched = changed.names
    records = dict(changed.records)
    if _is_bucketed(store):
        replaced = list(old)
        for file in changed.files:
            records.update(_records_of(store, bucket, file))
    else:
        replaced = _replaced(store, old, touched)
    for file in replaced:
        records.update(_records_of(store, bucket, file, touched))
    written = out.write(bucket, records) if records or _is_bucketed(store) else []
    if _is_bucketed(store):
        remove(store, ((bucket, file) for file in changed.files))  # what they held was copied
    else:
        written += changed.files
    return job.message(bucket, new_index_files=written, deleted_index_files=replaced)


def _replaced(store: TableStore, old: Sequence[IndexFile], touched: Collection[str]) -> list[IndexFile]:
    """Return the index files to write anew: those with vectors that change, and small ones before they are many."""
    target = store.options.get(CoreOptions.DELETION_VECTOR_INDEX_FILE_TARGET_SIZE)
    small = [file for file in old if file.file_size < target]
    if len(small) >= _SMALL_FILES_MAX:
        touched = {*touched, *(place.data_file for file in small for place in file.deletion_ranges or ())}
    return [f for f in old if any(place.data_file in touched for place in f.deletion_ranges or ())]


def _records_of(store: TableStore, bucket: Bucket, file: IndexFile, without: Collection[str] = ()) -> _Records:
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


class _IndexFiles:
    """Index files that are being written; if anything fails in between, none of them stays."""

    def __init__(self, store: TableStore, stem: str) -> None:
        self.written: list[VectorFile] = []
        self._store = store
        self._stem = stem

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            remove(self._store, ((done.bucket, done.file) for done in self.written))

    def write(self, bucket: Bucket, records: _Records) -> list[IndexFile]:
        """Write records: into one file for a bucket, be it without any; elsewhere as many as their size asks for."""
        size_max = None if _is_bucketed(self._store) else self._target
        parts: list[_Records] = [{}]
        size = 0
        for name, (record, cardinality) in records.items():
            if size_max is not None and parts[-1] and size + len(record) > size_max:
                parts.append({})
                size = 0
            parts[-1][name] = record, cardinality
            size += len(record)
        return [self._write(bucket, part) for part in parts]

    @property
    def _target(self) -> int:
        return self._store.options.get(CoreOptions.DELETION_VECTOR_INDEX_FILE_TARGET_SIZE)

    def _write(self, bucket: Bucket, records: _Records) -> IndexFile:
        data, ranges = pack_records(records)
        name = check_file_name(f"{self._stem}-{len(self.written)}")
        file = IndexFile(DELETION_VECTORS, name, len(data), len(ranges), ranges)
        path = _path(self._store, bucket, file)
        if not self._store.storage.create(path, data):
            table = self._store.name
            raise LakewrightError(f"{table}: {path} is there already; try again", table=table, path=path)
        self.written.append(VectorFile(bucket, file))
        return file


def remove(store: TableStore, files: Iterable[tuple[Bucket, IndexFile]]) -> None:
    """Remove index files that no message will name; what stays is an orphan."""
    for bucket, file in files:
        with suppress(OSError):
            store.storage.delete(_path(store, bucket, file))


def _path(store: TableStore, bucket: Bucket, file: IndexFile) -> str:
    partition, number, _ = bucket
    return store.layout.index_file(file, store.layout.bucket_directory(store.partition_directory(partition), number))


def _is_bucketed(store: TableStore) -> bool:
    """Say whether a bucket has one index file; without buckets a partition has any number of them."""
    return store.schema.bucket_mode is not BucketMode.UNAWARE


def _is_64(store: TableStore) -> bool:
    return store.options.get(CoreOptions.DELETION_VECTORS_BITMAP64)
