"""BLOB columns of rows that have row ids: which file has the value of each row, as descriptors; and their bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from lakewright.formats.blob_files import PLACEHOLDER, TAIL_BYTES, BlobIndex, read_blob_index
from lakewright.formats.blob_values import BlobStorages, BlobType, fetch_blobs
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_file_reader import BucketReader
from lakewright.spec.argument_checks import BlobForm
from lakewright.spec.blob_descriptors import encode_descriptors
from lakewright.spec.manifest import DataFile
from lakewright.spec.types import DataField, blob_fields
from lakewright.storage.concurrency import map_concurrently
from lakewright.storage.storage import Storage

_PIECE_BYTES = 7 << 20  # of values that are fetched at a time from a disk: less than is asked for at a time
_REMOTE_PIECE_BYTES = 64 << 20  # from a remote storage, with several requests


def storages_of(store: TableStore) -> BlobStorages:
    """Return the storages that hold the values of a table's BLOB columns."""
    return BlobStorages(store.layout.root, store.storage, store.options.values)


@dataclass(frozen=True)
class BlobColumn:
    """The values of one BLOB column for the rows of a group, in `.blob` files.

    A row has the value of the newest file that covers it and does not have a placeholder for it. `files` are the files
    of this column, newest first; `first_row_id` is that of the group, and `rows` are the positions to read.
    """

    source: BucketReader
    files: tuple[DataFile, ...]
    first_row_id: int
    rows: range

    def descriptors(self, position: int, count: int) -> pa.Array:
        """Return where the values of consecutive rows are stored."""
        low = position - self.rows.start
        file_of, places = self._resolved
        return encode_descriptors(self._uris, file_of[low : low + count], places[low : low + count])

    @cached_property
    def _uris(self) -> list[str]:
        return [_to_uri(self.source.path_of(file)) for file in self.files]

    @cached_property
    def _resolved(self) -> tuple[np.ndarray, np.ndarray]:
        """For each row the number of the file that has its value, -1 for null, and offset and length there."""
        indexes = map_concurrently(self.source.store.storage, self._index, self.files)
        file_of = np.full(len(self.rows), -1, dtype=np.int64)
        places = np.full((len(self.rows), 2), -1, dtype=np.int64)
        open_rows = np.ones(len(self.rows), dtype=bool)
        for number, (file, index) in enumerate(zip(self.files, indexes, strict=True)):
            first = (file.first_row_id or 0) - self.first_row_id
            start, stop = max(first, self.rows.start), min(first + file.row_count, self.rows.stop)
            if start >= stop:
                continue
            here = slice(start - self.rows.start, stop - self.rows.start)
            there = slice(start - first, stop - first)
            lengths = index.lengths[there]
            decided = open_rows[here] & (lengths != PLACEHOLDER)
            stored = decided & (lengths > 0)
            file_of[here][stored] = number
            places[here][stored] = index.payloads()[there][stored]
            open_rows[here] &= ~decided
        return file_of, places

    def _index(self, file: DataFile) -> BlobIndex:
        with self.source.opened_input(file, end_bytes=TAIL_BYTES) as (source, path):
            index = read_blob_index(source, path=path, size=file.file_size)
            self.source.check_row_count(file, index.row_count, path)
        return index


def _to_uri(path: str) -> str:
    return f"file:{path}" if path.startswith("/") else path


def in_form(
    batch: pa.RecordBatch, fields: Sequence[DataField], form: BlobForm, storages: BlobStorages
) -> Iterator[pa.RecordBatch]:
    """Yield a batch whose BLOB columns are descriptors with these columns in another form.

    Of batches with many bytes several smaller ones are made.
    """
    names = [field.name for field in blob_fields(fields)]
    if not names or form == "descriptor":
        yield batch
    elif form == "lazy":
        storages.register()
        yield _with_columns(batch, {name: BlobType().wrap_array(batch.column(name)) for name in names})
    else:
        yield from _with_bytes(batch, names, storages)


def _with_bytes(batch: pa.RecordBatch, names: Sequence[str], storages: BlobStorages) -> Iterator[pa.RecordBatch]:
    name, others = names[0], names[1:]
    start = 0
    for rows, values in fetch_blobs(batch.column(name), storages, _piece_bytes(storages.storage)):
        piece = _with_columns(batch.slice(start, rows), {name: values})
        start += rows
        if others:
            yield from _with_bytes(piece, others, storages)
        else:
            yield piece


def _piece_bytes(storage: Storage | None) -> int:
    return _PIECE_BYTES if storage is None or storage.requests_at_once == 1 else _REMOTE_PIECE_BYTES


def _with_columns(batch: pa.RecordBatch, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    for name, values in columns.items():
        at = batch.schema.get_field_index(name)
        batch = batch.set_column(at, batch.schema.field(at).with_type(values.type), values)
    return batch
