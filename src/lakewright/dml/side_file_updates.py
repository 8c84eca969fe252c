"""New values of BLOB and VECTOR columns, in files beside those that have the old values.

A `.blob` file of an update has a placeholder for each row that keeps its value. Of VECTOR columns in files of their own
each touched file is written again, with the same columns, schema and format and for the same rows: other readers find
new values in no other form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakewright.compact.rewrite_output import BucketOutput
from lakewright.dml.row_changes import ChangeJob, GroupChange, with_updates
from lakewright.errors import UnsupportedError
from lakewright.formats.data_file_writer import FilePlan
from lakewright.formats.format_registry import file_format_of
from lakewright.read.manifest_scan import FileSchemas
from lakewright.read.projection import plan_projection
from lakewright.read.pruning import written_fields
from lakewright.read.split_reader import SplitReader
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.manifest import DataFile, is_blob_file, is_side_file
from lakewright.spec.types import DataField, VectorType

_UNBOUNDED = (1 << 62) - 1  # bytes of a file that must not be split


@dataclass(frozen=True, slots=True)
class SideColumns:
    """Which changed columns of a group have files of their own."""

    blobs: tuple[DataField, ...]
    vectors: tuple[DataField, ...]

    @classmethod
    def of(cls, job: ChangeJob, change: GroupChange, schemas: FileSchemas) -> SideColumns:
        """Find the columns. Those that normal files hold stay there, whatever the options say now."""
        schema, part = job.store.schema, change.part
        names = () if change.values is None else change.values.column_names
        changed = [schema.field(name) for name in names]
        inline, in_files = (
            {number for f in part.files if is_side_file(f) is side for number in _ids(schemas, f)}
            for side in (False, True)
        )
        apart = {field.id for field in schema.vector_file_fields(changed)} - inline
        vectors = (field for field in changed if isinstance(field.type, VectorType))
        return cls(schema.blob_file_fields(changed), tuple(f for f in vectors if f.id in in_files | apart))

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [field.name for field in (*self.blobs, *self.vectors)]


def write_side_files(
    job: ChangeJob, change: GroupChange, columns: SideColumns, schemas: FileSchemas, output: BucketOutput
) -> list[DataFile]:
    """Write the new values of columns that have files of their own."""
    files = [_write_blobs(job, change, field, schemas, output) for field in columns.blobs]
    if columns.vectors:
        files += _write_vectors(job, change, columns.vectors, schemas, output)
    return files


def _write_blobs(
    job: ChangeJob, change: GroupChange, field: DataField, schemas: FileSchemas, output: BucketOutput
) -> DataFile:
    """Write a `.blob` file for all rows of the group; rows that never had a value get nulls, not placeholders."""
    assert change.values is not None  # noqa: S101 - rows are updated
    rows = change.part.files[0].row_count
    kept = np.ones(rows, dtype=np.bool_)
    kept[change.updated] = False
    order = np.zeros(rows, dtype=np.int64)
    order[change.updated] = np.arange(len(change.updated))
    values = change.values.column(field.name).take(pa.array(order, mask=kept))
    older = [file for file in change.part.files if is_blob_file(file) and field.id in _ids(schemas, file)]
    plan = replace(FilePlan.of_blobs(job.store.schema, field), file_bytes_max=_UNBOUNDED)
    written = output.write_blobs(plan, pa.table({field.name: values}), kept if older else None)
    return _visible(job, older, replace(written, first_row_id=change.part.files[0].first_row_id))


def _write_vectors(
    job: ChangeJob, change: GroupChange, fields: Sequence[DataField], schemas: FileSchemas, output: BucketOutput
) -> list[DataFile]:
    """Write again the files that hold the changed columns of changed rows, or one file where no file holds them."""
    group = change.part.files[0]
    first, ids = group.first_row_id or 0, {field.id for field in fields}
    older = _newest(f for f in change.part.files if is_side_file(f) and _ids(schemas, f) & ids)
    if not older:
        plan = replace(FilePlan.of_vectors(job.store.schema, fields), file_bytes_max=_UNBOUNDED)
        rows = _new_rows(job, change, fields, schemas, range(group.row_count))
        return [replace(_write_rows(output, plan, rows), first_row_id=first)]
    written = []
    covered: dict[int, NDArray[np.bool_]] = {number: np.zeros(group.row_count, dtype=np.bool_) for number in ids}
    for file in older:
        start = (file.first_row_id or 0) - first
        if start < 0 or start + file.row_count > group.row_count:
            raise _vector_update_error(job, fields, f"{file.file_name} has columns of rows of several files")
        for number in ids & _ids(schemas, file):
            covered[number][start : start + file.row_count] = True
        low, high = np.searchsorted(change.updated, (start, start + file.row_count))
        if low == high:
            continue
        stored = written_fields(schemas.fields_of(file.schema_id), file.write_cols)
        plan = FilePlan.of_vectors(job.store.schema, stored, file_format_of(file.file_name))
        plan = replace(plan, schema_id=file.schema_id, file_bytes_max=_UNBOUNDED)
        rows = _new_rows(job, change, stored, schemas, range(start, start + file.row_count))
        new = replace(_write_rows(output, plan, rows), first_row_id=file.first_row_id)
        written.append(_visible(job, older, new))
    if not all(mask[change.updated].all() for mask in covered.values()):
        raise _vector_update_error(job, fields, "some of the rows have no file with them yet")
    return written


def _vector_update_error(job: ChangeJob, fields: Sequence[DataField], reason: str) -> UnsupportedError:
    return UnsupportedError(
        f"{job.store.name}: the VECTOR column {fields[0].name!r} cannot be updated, because {reason}; delete the rows "
        "and write them again",
        table=job.store.name,
        column=fields[0].name,
    )


def _new_rows(
    job: ChangeJob, change: GroupChange, stored: Sequence[DataField], schemas: FileSchemas, rows: range
) -> Iterator[pa.Table]:
    """Yield the columns of a file as they are after the change, under the names that they have in the file."""
    assert change.values is not None  # noqa: S101 - rows are updated
    today = {field.id: field for field in job.store.schema.fields}
    kept = [today[field.id] for field in stored if field.id in today]
    names = [field.name for field in kept]
    changed = [name for name in change.values.column_names if name in names]
    here = replace(change, values=change.values.select(changed))
    reader = SplitReader(job.store, schemas, plan_projection(job.store.schema.fields, names))
    schema = to_arrow_schema(stored)
    for position, batch, _ in reader.read_positions(change.part, range(len(change.part.files))):
        low, high = max(rows.start - position, 0), min(rows.stop - position, batch.num_rows)
        if low >= high:
            continue
        table = with_updates(batch, position, here).slice(low, high - low)
        columns = [
            table.column(today[field.id].name) if field.id in today else pa.nulls(high - low, schema.field(at).type)
            for at, field in enumerate(stored)
        ]
        yield pa.Table.from_arrays(columns, schema=schema)


def _write_rows(output: BucketOutput, plan: FilePlan, rows: Iterator[pa.Table]) -> DataFile:
    sink = output.open(plan)
    for table in rows:
        sink.write(table)
    (file,) = sink.finish()
    return file


def _ids(schemas: FileSchemas, file: DataFile) -> set[int]:
    return {field.id for field in written_fields(schemas.fields_of(file.schema_id), file.write_cols)}


def _newest(files: Iterable[DataFile]) -> list[DataFile]:
    """Return the newest of the files with the same rows and columns."""
    newest: dict[tuple[object, ...], DataFile] = {}
    for file in sorted(files, key=lambda f: (f.max_sequence_number, f.file_name)):
        newest[file.first_row_id, file.row_count, file.write_cols] = file
    return list(newest.values())


def _visible(job: ChangeJob, older: Iterable[DataFile], file: DataFile) -> DataFile:
    """Return a new file with a number above those of the files whose values it replaces.

    The commit numbers a file by its snapshot. Some writers count rows in place of snapshots, and their files would
    hide the new values.
    """
    highest = max((one.max_sequence_number for one in older), default=0)
    if highest <= job.snapshot.id:
        return file
    return replace(file, min_sequence_number=highest + 1, max_sequence_number=highest + 1)
