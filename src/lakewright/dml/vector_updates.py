"""Deleted positions folded into deletion vectors and index files.

A worker encodes the complete vector of each file it changes: of the rows deleted before, and of those deleted now. The
driver folds these into the index files of the table. In a table without buckets the index files with vectors of changed
files are replaced, and their other vectors are copied as bytes; a bucket has one index file, which is replaced. A file
without a live row is removed from the table, and its vector too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Self, TypeAlias

import numpy as np

from lakewright.commit.commit_message import CommitMessage
from lakewright.dml.row_changes import AppliedChanges, Bucket, ChangeJob, RowPositions, Vector, VectorFile, bucket_of
from lakewright.errors import LakewrightError
from lakewright.formats.deletion_vectors import Positions as Deleted
from lakewright.formats.deletion_vectors import (
    decode_deletion_vector,
    distinct,
    encode_deletion_vector,
    is_bitmap64,
    pack_records,
    record_at,
)
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_file_reader import BucketReader
from lakewright.read.data_split import DataSplit
from lakewright.read.manifest_scan import FileSchemas
from lakewright.spec.manifest import DELETION_VECTORS, DataFile, IndexFile, is_side_file
from lakewright.spec.table_schema import BucketMode
from lakewright.storage.table_layout import check_file_name

_Records: TypeAlias = dict[str, tuple[bytes, int]]  # by data file: the record, and how many rows it deletes
_SMALL_FILES_MAX = 16  # of one partition, until they are written as one


def anchor_of(part: DataSplit) -> DataFile:
    """Return the file of a group whose vector holds the deleted rows of the group: the oldest."""
    normal = (file for file in part.files if not is_side_file(file))
    return min(normal, key=lambda file: (file.max_sequence_number, file.file_name))


def deleted_positions(store: TableStore, part: DataSplit) -> Deleted | None:
    """Return the positions of a group's rows that are deleted already; None: no row is."""
    deletion = part.deletion_of(range(len(part.files)))
    if deletion is None:
        return None
    files = BucketReader(store, FileSchemas(store), part.partition_bytes, part.bucket)
    return files.deleted_positions(anchor_of(part), deletion)


def mark_deleted(job: ChangeJob, part: DataSplit, positions: RowPositions) -> AppliedChanges:
    """Delete rows of a group: encode a vector of all its deleted rows, or drop the group if no row is left."""
    before = deleted_positions(job.store, part)
    deleted = positions if before is None else distinct(np.concatenate([before.astype(np.int64), positions]))
    anchor = anchor_of(part)
    if len(deleted) >= anchor.row_count:
        return drop_group(job, part)
    record = encode_deletion_vector(deleted, bitmap64=_uses_bitmap64(job.store))
    return AppliedChanges(vectors=(Vector(bucket_of(part), anchor.file_name, len(deleted), record),))


def drop_group(job: ChangeJob, part: DataSplit) -> AppliedChanges:
    """Remove the files of a group, and their vector, from the table; BLOB files of other rows too stay."""
    bucket, anchor = bucket_of(part), anchor_of(part)
    first = anchor.first_row_id or 0
    files = [
        file
        for file in part.files
        if not is_side_file(file)
        or (first <= (file.first_row_id or 0) and (file.first_row_id or 0) + file.row_count <= first + anchor.row_count)
    ]
    return AppliedChanges((job.message(bucket, deleted_files=files),), vectors_to_drop(part))


def vectors_to_drop(part: DataSplit) -> tuple[Vector, ...]:
    """Return the vectors to remove with the files of a group, each without a record."""
    with_vector = (file for file, vector in zip(part.files, part.deletion_files, strict=False) if vector is not None)
    return tuple(Vector(bucket_of(part), file.file_name, 0, None) for file in with_vector)


def store_vectors(job: ChangeJob, applied: AppliedChanges, task: int, attempt: int) -> AppliedChanges:
    """Write the vectors of a worker into index files, so that only names of files travel to the driver."""
    out = _IndexFiles(job.store, f"index-{job.write_id}-{task}-{attempt}")
    with out:
        for bucket, changed in _by_bucket(applied).items():
            if changed.records:
                out.write(bucket, changed.records)
    dropped = tuple(vector for vector in applied.vectors if vector.record is None)
    return replace(applied, vectors=dropped, vector_files=(*applied.vector_files, *out.written))


def fold_vectors(job: ChangeJob, applied: AppliedChanges) -> list[CommitMessage]:
    """Write the index files of the table after a change, and return the messages that replace the old ones."""
    store = job.store
    buckets = _by_bucket(applied)
    if not buckets:
        return []
    manifest = job.snapshot.index_manifest
    entries = [] if manifest is None else store.manifests.read_index(manifest)
    old: dict[tuple[bytes, int], list[IndexFile]] = {}
    for entry in entries:
        if entry.file.index_type == DELETION_VECTORS:
            old.setdefault((entry.partition, entry.bucket), []).append(entry.file)
    out = _IndexFiles(store, f"index-{job.write_id}")
    with out:
        return [_fold_bucket(job, bucket, changed, old.get(bucket[:2], ()), out) for bucket, changed in buckets.items()]


@dataclass(slots=True)
class _BucketVectors:
    """The vectors of one bucket that a change replaces or drops."""

    records: _Records = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)  # data files that have no vector any more
    files: list[IndexFile] = field(default_factory=list)  # with vectors that workers have written

    @property
    def names(self) -> set[str]:
        """The data files whose vectors change."""
        return {*self.records, *self.dropped, *(r.data_file for f in self.files for r in f.deletion_ranges or ())}


def _by_bucket(applied: AppliedChanges) -> dict[Bucket, _BucketVectors]:
    buckets: dict[Bucket, _BucketVectors] = {}
    for vector in applied.vectors:
        changed = buckets.setdefault(vector.bucket, _BucketVectors())
        if vector.record is None:
            changed.dropped.add(vector.data_file)
        else:
            changed.records[vector.data_file] = vector.record, vector.cardinality
    for stored in applied.vector_files:
        buckets.setdefault(stored.bucket, _BucketVectors()).files.append(stored.file)
    return buckets


def _fold_bucket(
    job: ChangeJob, bucket: Bucket, changed: _BucketVectors, old: Sequence[IndexFile], out: _IndexFiles
) -> CommitMessage:
    """Write the new index files of one bucket, or of one partition without buckets."""
    store = job.store
    touched = changed.names
    records = dict(changed.records)
    if _is_bucketed(store):
        replaced = list(old)
        for file in changed.files:
            records.update(_read_records(store, bucket, file))
    else:
        replaced = _files_to_replace(store, old, touched)
    for file in replaced:
        records.update(_read_records(store, bucket, file, touched))
    written = out.write(bucket, records) if records or _is_bucketed(store) else []
    if _is_bucketed(store):
        remove(store, ((bucket, file) for file in changed.files))  # their vectors were copied
    else:
        written += changed.files
    return job.message(bucket, new_index_files=written, deleted_index_files=replaced)


def _files_to_replace(store: TableStore, old: Sequence[IndexFile], touched: Collection[str]) -> list[IndexFile]:
    """Return the index files to replace: those with vectors that change, and small ones if there are many."""
    target = store.options.deletion_vector_index_file_target_size
    small = [file for file in old if file.file_size < target]
    if len(small) >= _SMALL_FILES_MAX:
        touched = {*touched, *(place.data_file for file in small for place in file.deletion_ranges or ())}
    return [f for f in old if any(place.data_file in touched for place in f.deletion_ranges or ())]


def _read_records(store: TableStore, bucket: Bucket, file: IndexFile, without: Collection[str] = ()) -> _Records:
    """Return the records of an index file but some; those of another bitmap format than the table's are recoded."""
    ranges = [one for one in file.deletion_ranges or () if one.data_file not in without]
    if not ranges:
        return {}
    path = _path(store, bucket, file)
    data = store.storage.read(path)
    out: _Records = {}
    for one in ranges:
        record, cardinality = record_at(data, one, path=path), one.cardinality
        if cardinality is None or is_bitmap64(record) != _uses_bitmap64(store):
            positions = decode_deletion_vector(record, path=path)
            record, cardinality = encode_deletion_vector(positions, bitmap64=_uses_bitmap64(store)), len(positions)
        out[one.data_file] = record, cardinality
    return out


class _IndexFiles:
    """Writes index files, and removes them all if the block that writes them fails."""

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
        """Write records: for a bucket into one file, even an empty one; without buckets into files up to a size."""
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
        return self._store.options.deletion_vector_index_file_target_size

    def _write(self, bucket: Bucket, records: _Records) -> IndexFile:
        data, ranges = pack_records(records)
        name = check_file_name(f"{self._stem}-{len(self.written)}")
        file = IndexFile(DELETION_VECTORS, name, len(data), len(ranges), ranges)
        path = _path(self._store, bucket, file)
        if not self._store.storage.create(path, data):
            table = self._store.name
            raise LakewrightError(f"{table}: {path} exists already; try again", table=table, path=path)
        self.written.append(VectorFile(bucket, file))
        return file


def remove(store: TableStore, files: Iterable[tuple[Bucket, IndexFile]]) -> None:
    """Remove index files that no message will name; one that cannot be removed is an orphan."""
    for bucket, file in files:
        with suppress(OSError):
            store.storage.delete(_path(store, bucket, file))


def _path(store: TableStore, bucket: Bucket, file: IndexFile) -> str:
    partition, number, _ = bucket
    return store.layout.index_file(file, store.layout.bucket_directory(store.partition_directory(partition), number))


def _is_bucketed(store: TableStore) -> bool:
    """Return whether the table has buckets, each with one index file; else a partition has any number of them."""
    return store.schema.bucket_mode is not BucketMode.UNAWARE


def _uses_bitmap64(store: TableStore) -> bool:
    return store.options.deletion_vectors_bitmap64
