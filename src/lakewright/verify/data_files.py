"""Data files: a task in, a report out. The file is opened, its rows are counted or all read, and nothing is raised.

An error of the storage that is not about this one file is raised; everything else that is wrong with the file is a
finding in the report.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import pyarrow as pa

from lakewright.errors import CorruptTableError, LakewrightError, UnsupportedError, counted
from lakewright.formats.base import FORMATS, FileReader, decoding, file_format_of
from lakewright.formats.hash_index import decode_hashes
from lakewright.formats.open import open_reader
from lakewright.lsm.keys import KeyOrder
from lakewright.metadata.store import TableStore
from lakewright.read.projection import ROW_TRACKING_FIELDS
from lakewright.read.pruning.prune import written_fields
from lakewright.spec.datafile import APPEND, DataFile, is_side_file
from lakewright.spec.keyed_rows import KEYED_FIELDS, SEQUENCE_NUMBER, VALUE_KIND, key_copies
from lakewright.spec.options import CoreOptions
from lakewright.spec.schema.table_schema import TableSchema
from lakewright.spec.types import DataField
from lakewright.verify import rows
from lakewright.verify.findings import Finding, finding, is_damage
from lakewright.verify.history import branch_store
from lakewright.verify.rows import Check
from lakewright.verify.tasks import FULL, FileReport, FileTask

BATCH_ROWS = 1 << 17
_INDEX_MAGIC = (1493475289347502).to_bytes(8, "big")  # begins the side file of file indexes


@dataclass(slots=True)
class FileChecker:
    """Checks files of one table; threads may share it."""

    store: TableStore
    depth: str
    _stores: dict[str, TableStore] = field(default_factory=dict)
    _schemas: dict[tuple[str, int], TableSchema] = field(default_factory=dict)

    def check(self, task: FileTask) -> FileReport:
        """Return what is wrong with one file."""
        findings: list[Finding] = []
        file = task.file
        report = FileReport()
        with _noting(findings, self.store.layout.root):
            store = self._store(task.branch)
            path = store.layout.data_file(store.partition_directory(task.partition), task.bucket, file)
            with _noting(findings, path):
                report = self._checked(store, task, path, findings)
        return FileReport(tuple(findings), report.rows, file.file_size, report.id_runs)

    def _store(self, branch: str) -> TableStore:
        if branch not in self._stores:
            self._stores[branch] = branch_store(self.store, branch)
        return self._stores[branch]

    def _schema(self, store: TableStore, schema_id: int) -> TableSchema:
        key = store.layout.branch, schema_id
        if key not in self._schemas:
            self._schemas[key] = store.schemas.get(schema_id)
        return self._schemas[key]

    def _checked(self, store: TableStore, task: FileTask, path: str, findings: list[Finding]) -> FileReport:
        file = task.file
        if is_side_file(file):
            return FileReport()  # blobs and vectors are files of their own kinds
        file_format = file_format_of(file.file_name)
        with decoding(path), _opened(store, file, path, ()) as reader:
            if reader.row_count != file.row_count:
                text = f"{path} has {counted(reader.row_count, 'row')} where {file.row_count} are recorded"
                findings.append(finding("row-count", path, text))
            stored = reader.stored_columns
        for name in file.extra_files:
            if name.endswith(".index"):
                _check_side_index(store, f"{path.rpartition('/')[0]}/{name}", findings)
        if self.depth != FULL or file_format not in FORMATS:
            return FileReport(rows=reader.row_count)
        schema = self._schema(store, file.schema_id)
        columns = _held(schema, file, stored)
        checks = list(_checks(store, schema, task, columns, stored))
        with decoding(path), _opened(store, file, path, columns) as reader:
            count = _read_all(reader, checks)
        if count not in {reader.row_count, file.row_count}:
            findings.append(finding("row-count", path, f"{path} gave {counted(count, 'row')}"))
        findings += [finding(kind, path, f"{path}: {text}") for one in checks for kind, text in one.faults()]
        runs = next((tuple(one.runs) for one in checks if isinstance(one, rows.RowIds)), ())
        return FileReport(rows=count, id_runs=runs)


@contextmanager
def _noting(findings: list[Finding], path: str) -> Iterator[None]:
    """Turn what damage raises into a finding about a file."""
    try:
        yield
    except UnsupportedError as error:
        findings.append(finding("not-opened", path, f"{path} was not read: {error.message}"))
    except LakewrightError as error:
        kind = "missing-column" if "it lacks the column" in error.message else "damaged-file"
        findings.append(finding(kind, path, error.message))
    except OSError as error:
        if not is_damage(error):
            raise
        kind = "missing-file" if isinstance(error, FileNotFoundError) else "damaged-file"
        findings.append(finding(kind, path, f"{path} cannot be read: {error}"))


@contextmanager
def _opened(store: TableStore, file: DataFile, path: str, fields: Sequence[DataField]) -> Iterator[FileReader]:
    source = store.storage.open_input(path, size=file.file_size)
    reader = open_reader(file_format_of(file.file_name), source, path=path, size=file.file_size, fields=fields)
    try:
        yield reader
    finally:
        reader.close()


def _read_all(reader: FileReader, checks: Sequence[Check]) -> int:
    count = 0
    for _, batch in reader.batches(batch_rows=BATCH_ROWS):
        count += batch.num_rows
        if batch.num_rows:
            table = pa.Table.from_batches([batch])
            for one in checks:
                one.add(table)
    return count


def _check_side_index(store: TableStore, path: str, findings: list[Finding]) -> None:
    with _noting(findings, path):
        source = store.storage.open_input(path)
        try:
            head = source.read(len(_INDEX_MAGIC))
        finally:
            source.close()
        if head != _INDEX_MAGIC:
            raise CorruptTableError(f"{path} does not begin like a file index", path=path)


def _held(schema: TableSchema, file: DataFile, stored: Sequence[str]) -> tuple[DataField, ...]:
    """Return the columns to read: those of the file's schema, and the system columns that the file holds."""
    system: tuple[DataField, ...] = ROW_TRACKING_FIELDS
    if schema.primary_keys:
        system = (*key_copies(schema), *KEYED_FIELDS)
    return (*(f for f in system if f.name in stored), *written_fields(schema.fields, file.write_cols))


def _checks(
    store: TableStore, schema: TableSchema, task: FileTask, columns: Sequence[DataField], stored: Sequence[str]
) -> Iterator[Check]:
    """Yield what the rows of a file must fulfil."""
    file = task.file
    held = [f for f in columns if f.name in stored]
    names = {f.name for f in held}
    yield rows.Statistics(file, schema.fields, [f for f in held if f in schema.fields])
    parts = list(zip(schema.partition_fields, store.partition_values(task.partition), strict=True))
    known = [(column, value) for column, value in parts if column.name in names]
    if known:
        yield rows.Partition([column for column, _ in known], [value for _, value in known])
    function = store.options.get(CoreOptions.BUCKET_FUNCTION_TYPE)
    bucket_fields = schema.bucket_fields
    if task.total_buckets > 0 and task.bucket >= 0 and bucket_fields and names.issuperset(schema.bucket_keys):
        yield rows.Bucket(bucket_fields, function, task.bucket, task.total_buckets)
    if schema.primary_keys:
        yield from _key_checks(store, schema, task, names)
    elif ROW_TRACKING_FIELDS[0].name in names:
        yield rows.RowIds(file.first_row_id is not None)


def _key_checks(store: TableStore, schema: TableSchema, task: FileTask, names: set[str]) -> Iterator[Check]:
    file, key = task.file, schema.trimmed_primary_key_fields
    if VALUE_KIND.name in names:
        yield rows.Kinds(file)
    pairs = [(f.name, copy.name) for f, copy in zip(key, key_copies(schema), strict=True) if copy.name in names]
    if pairs:
        yield rows.KeyCopies(pairs)
    if task.bucket < 0:
        return  # rows of the postponed bucket are as they came
    options = store.options
    if not task.is_changelog and not options.get(CoreOptions.PK_CLUSTERING_OVERRIDE):
        yield rows.Keys(file, KeyOrder(key), strict=True)
    yield rows.Statistics.of_keys(file, key)
    stamped = file.file_source == APPEND and options.get(CoreOptions.SEQUENCE_SNAPSHOT_ORDERING)
    if SEQUENCE_NUMBER.name in names and not stamped and not task.is_changelog:
        yield rows.Sequences(file)
    if task.hash_index is not None and not task.is_changelog:
        directory = store.layout.bucket_directory(store.partition_directory(task.partition), task.bucket)
        with suppress(LakewrightError, FileNotFoundError):  # the check of the index file itself reports it
            path = store.layout.index_file(task.hash_index, directory)
            hashes = decode_hashes(store.storage.read(path), task.hash_index, path=path)
            yield rows.HashIndex(key, hashes, path)
