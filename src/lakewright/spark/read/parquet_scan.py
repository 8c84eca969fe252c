"""Raw parquet files through Spark's own scan: splits in, a frame in the columns of the read out.

Spark's reader is vectorised, prunes columns and skips row groups by itself, so whatever it reads *exactly as the core
does* goes this way, and nothing else does. Files are read with the column names and types that their own schema gave
them, one scan per schema, and are then renamed and cast to the schema of the read. Partition columns come from the path
of a file, which the manifest decides, never from what lies in the file. Deleted rows are left out by their position in
the file, with a bitmap that is part of the plan.

What always holds: a frame pins files, not directories; no setting of the session changes what it gives, neither when
it is made nor when it runs.
"""

from __future__ import annotations

import errno
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import types as sql

from lakewright.lsm.runs import sections
from lakewright.metadata.store import TableStore
from lakewright.read.builder import TableRead
from lakewright.read.evolve import plan_evolution
from lakewright.read.files import BucketFiles, missing_files_explained
from lakewright.read.projection import Projection
from lakewright.read.pruning.prune import written_fields
from lakewright.read.scan import FileSchemas
from lakewright.read.splits.shares import part_of, pieces
from lakewright.read.splits.split import DataSplit
from lakewright.spark.jobs.frames import condition_of, union_all
from lakewright.spark.jobs.session import is_connect, settings
from lakewright.spark.jobs.types import COMMENT, spark_schema, spark_type
from lakewright.spark.read.bitmaps import (
    NUMBER,
    POSITION,
    ScannedFile,
    Words,
    file_column_names,
    file_columns,
    leave_rows_out,
    numbered,
    rows_in,
    words_of,
)
from lakewright.spark.read.columns import converted, partition_column, partition_is_readable, partition_type, readable
from lakewright.spark.read.filters import column_at, hidden, to_column
from lakewright.spec.datafile import DataFile
from lakewright.spec.keyed_rows import INSERT, KIND_NAMES
from lakewright.spec.options import CoreOptions, NativeScan
from lakewright.spec.predicate.comparison import is_float
from lakewright.spec.predicate.predicate import TRUE
from lakewright.spec.types import DataField
from lakewright.storage.local import LocalStorage
from lakewright.storage.object import ObjectStorage

_PARQUET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.parquet")  # names that Spark neither hides nor escapes
_GLOB, _ESCAPED = re.compile(r"([\\\[\]{}*?])"), r"\\\1"
_SCHEMES = {"s3": "s3a"}  # of object stores that have another name in Spark
_REMOTE_SCHEMES = frozenset({"s3", "gs", "abfs", "abfss"})  # an az: location says less than Spark needs to know
# Spark looks every file up when a scan is made, and for more than 32 it starts a job with a task for each, which costs
# far more than the look: on a disk the driver does it alone, in an object store some dozen tasks.
_LISTING_LOCAL = {"spark.sql.sources.parallelPartitionDiscovery.threshold": "2147483647"}
_LISTING_REMOTE = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "48"}
_PATHS_AS_TEXT = 500
_OPTIONS = {
    "parquet.page.verify-checksum.enabled": "true",
    "mergeSchema": "false",
    "recursiveFileLookup": "false",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}


def native_splits(
    store: TableStore, splits: Iterable[DataSplit], projection: Projection
) -> tuple[list[DataSplit], list[DataSplit]]:
    """Divide splits into what Spark's own scan reads exactly as the core does, and what it does not."""
    rules = _NativeRules(store, projection, FileSchemas(store))
    native: list[DataSplit] = []
    rest: list[DataSplit] = []
    for split in splits:
        numbers = rules.files_of(split)
        if len(numbers) == len(split.files):
            native.append(replace(split, raw_convertible=True))
            continue
        if numbers:
            native.append(replace(part_of(split, sorted(numbers)), raw_convertible=True))
        others = [at for at in range(len(split.files)) if at not in numbers]
        rest.append(part_of(split, others) if numbers else split)
    return native, rest


def native_sections(
    store: TableStore, splits: Iterable[DataSplit], projection: Projection
) -> tuple[list[DataSplit], list[DataSplit]]:
    """Divide splits, cut into sections, into what Spark could scan without the outdated rows, and what it could not."""
    rules = _NativeRules(store, projection, FileSchemas(store))
    parts = [part for split in splits for part in (pieces(store, split) if split.needs_merge else [split])]
    scanned = [rules.can_scan(part) for part in parts]
    return list(compress(parts, scanned)), [part for part, can in zip(parts, scanned, strict=True) if not can]


def native_scan(
    spark: SparkSession,
    read: TableRead,
    splits: Sequence[DataSplit],
    outdated: Mapping[str, Words] | None = None,
    *,
    numbers: Mapping[str, int] | None = None,
) -> DataFrame:
    """Return the rows of files that Spark can read as a frame in the columns of the read, filtered.

    `outdated` names rows to leave out, by file, with those among them that deletion vectors delete. If `numbers` gives
    files a number, by their paths, the frame begins with two more columns: the number of a row's file, and the position
    of the row in it.
    """
    schemas = FileSchemas(read.store)
    groups: dict[tuple[int, str, int, bool], _Group] = {}
    seen: Counter[object] = Counter()  # sizes and names of files that the scan must tell apart
    for split in splits:
        for at, file in enumerate(split.files):
            left_out = _left_out(read.store, schemas, split, at, outdated or {})
            if left_out is not None and rows_in(left_out) == file.row_count:
                continue
            key = file.schema_id, "whole", 0, False
            if left_out is not None or numbers is not None:
                # Files are told apart by their sizes, and only where these are the same by their names.
                size = file.schema_id, file.file_size, left_out is not None
                key = file.schema_id, "by name" if seen[size] else "by size", seen[file.file_name], left_out is not None
                seen.update([size, file.file_name])
            written = written_fields(schemas.fields_of(file.schema_id), file.write_cols)
            group = groups.setdefault(key, _Group(written, split.snapshot_id))
            group.add(split.file_paths[at], file, left_out)
            if numbers is not None:
                group.numbers.append(numbers[split.file_paths[at]])
    frames = [_scanned(spark, read, group) for group in groups.values()]
    if frames:
        return union_all(frames)
    places = {} if numbers is None else {NUMBER: sql.IntegerType(), POSITION: sql.LongType()}
    first = [sql.StructField(name, dtype) for name, dtype in places.items()]
    return spark.createDataFrame([], sql.StructType([*first, *spark_schema(read.projection.fields)]))


@dataclass(frozen=True, slots=True)
class _NativeRules:
    """Which files of a table Spark can read for one projection."""

    store: TableStore
    projection: Projection
    schemas: FileSchemas
    _known: dict[int, bool] = field(default_factory=dict)

    def files_of(self, split: DataSplit) -> frozenset[int]:
        """Return the numbers of a split's files that Spark's own scan may read."""
        is_events = split.streaming and bool(self.store.schema.primary_keys)
        if split.before is not None or is_events or not self._reads_storage():
            return frozenset()
        if not partition_is_readable(self.store, split.partition_bytes):
            return frozenset()
        return frozenset(group[0] for group in self._raw_groups(split) if self._reads(split, group))

    def can_scan(self, split: DataSplit) -> bool:
        """Say whether Spark's own scan could read all files of a split that is merged."""
        raw = replace(split, raw_convertible=True)
        return split.needs_merge and split.before is None and len(self.files_of(raw)) == len(split.files)

    def _reads_storage(self) -> bool:
        """Say whether Spark reads the storage of the table by itself."""
        asked = self.store.options.get(CoreOptions.LAKEWRIGHT_NATIVE_SCAN)
        storage = self.store.storage
        if isinstance(storage, LocalStorage):
            return asked is not NativeScan.NEVER
        if isinstance(storage, ObjectStorage) and storage.renewing is not None:
            return False  # Spark's own scan has no credentials that renew themselves
        return asked is NativeScan.ALWAYS and self.store.layout.root.partition("://")[0] in _REMOTE_SCHEMES

    def _raw_groups(self, split: DataSplit) -> Iterator[tuple[int, ...]]:
        """Yield files whose rows are not merged with those of others."""
        if not split.needs_merge:
            yield from split.row_groups()
            return
        number_of = {file: at for at, file in enumerate(split.files)}
        types = [field.type for field in self.store.schema.trimmed_primary_key_fields]
        for section in sections(split.files, types):
            if len(section.files) == 1 and not section.files[0].delete_row_count:
                yield (number_of[section.files[0]],)

    def _reads(self, split: DataSplit, group: Sequence[int]) -> bool:
        file = split.files[group[0]]
        return (
            len(group) == 1
            and split.range_of(group) == (0, file.row_count)
            and _PARQUET.fullmatch(file.file_name) is not None
            and file.external_path is None
            and file.write_cols is None
            and self._reads_schema(file.schema_id)
        )

    def _reads_schema(self, schema_id: int) -> bool:
        if schema_id not in self._known:
            keys = self.store.schema.partition_keys
            fields = [f for f in self.projection.read_fields if f.name not in keys]
            # The files may hold such MAPs as structs; the core's reader looks into each and refuses it by name.
            may_spread = any(f"fields.{f.name}.map.storage-layout" in self.store.schema.options for f in fields)
            self._known[schema_id] = not may_spread and readable(self.schemas.fields_of(schema_id), fields)
        return self._known[schema_id]


@dataclass(frozen=True, slots=True)
class _Group:
    """Files of one schema, all with rows to leave out or all without."""

    written: tuple[DataField, ...]
    snapshot_id: int
    paths: list[str] = field(default_factory=list)
    files: list[DataFile] = field(default_factory=list)
    left_out: list[ScannedFile] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)

    @property
    def marked(self) -> list[ScannedFile]:
        """The files that the scan must tell apart."""
        return self.left_out or (
            [ScannedFile(file.file_name, file.file_size) for file in self.files] if self.numbers else []
        )

    def add(self, path: str, file: DataFile, left_out: Words | None) -> None:
        """Add a file."""
        self.paths.append(path)
        self.files.append(file)
        if left_out is not None:
            self.left_out.append(ScannedFile(file.file_name, file.file_size, left_out))


def _left_out(
    store: TableStore, schemas: FileSchemas, split: DataSplit, at: int, outdated: Mapping[str, Words]
) -> Words | None:
    """Return the bits of a file's rows that are left out; None if all are read."""
    file = split.files[at]
    if file.file_name in outdated:
        return outdated[file.file_name]
    deletion = split.deletion_files[at] if split.deletion_files else None
    if deletion is None:
        return None
    deleted = BucketFiles(store, schemas, split.partition_bytes, split.bucket).deleted(file, deletion)
    return None if deleted is None else words_of(deleted, file.row_count)


def _scanned(spark: SparkSession, read: TableRead, group: _Group) -> DataFrame:
    """Return the rows of one group in the columns of the read."""
    store, projection = read.store, read.projection
    keys = store.schema.partition_keys
    plan = plan_evolution(group.written, [f for f in projection.read_fields if f.name not in keys])
    # A scan needs at least one column of the files.
    stored = plan.file_fields or tuple(f for f in group.written if f.name not in keys)[:1]
    frame = _loaded(spark, store, stored, group)
    marked = group.marked
    if marked:
        frame = frame.select("*", *file_columns(marked))
    places = dict(zip((f.id for f in plan.read_fields), plan.places, strict=True))
    condition = None if read.predicate == TRUE else to_column(read.predicate, projection.read_fields)
    if not marked and not keys and stored == tuple(projection.read_fields) and _are_outputs(projection):
        return frame if condition is None else frame.where(condition)
    columns = []
    for needed in projection.read_fields:
        place = places.get(needed.id)
        if needed.name in keys:
            column = partition_column(store, needed).alias(needed.name)
        elif place is None:
            column = F.lit(None).cast(spark_type(needed.type)).alias(needed.name)
        else:
            column = converted(column_at([stored[place].name]), stored[place].type, needed.type)
            column = column if stored[place] == needed else column.alias(needed.name)
        columns.append(column)
    frame = frame.select(*columns, *(file_column_names(marked) if marked else []))
    if condition is not None:
        frame = frame.where(condition)
    if group.left_out:
        frame = leave_rows_out(spark, frame, group.left_out)
    if group.numbers:
        frame = numbered(spark, frame, marked, group.numbers)
        return frame.select(NUMBER, POSITION, *_outputs(projection))
    if not marked and _are_outputs(projection):
        return frame
    return frame.select(*_outputs(projection))


def _are_outputs(projection: Projection) -> bool:
    """Say whether the columns that are read are those of the result: every call that builds a frame takes time."""
    plain = projection.fields == projection.read_fields and projection.kind is None
    return plain and not any(field.description is not None or is_float(field.type) for field in projection.fields)


def _outputs(projection: Projection) -> list[Column]:
    """Return the columns of the result.

    Numbers that may be NaN are hidden: Spark hands a `where` on the frame to its parquet reader, which would skip rows
    with NaN by bounds that know none.
    """
    out = []
    for path, output in zip(projection.paths, projection.fields, strict=True):
        is_kind = path == (projection.kind,)
        column = F.lit(KIND_NAMES[INSERT]) if is_kind else column_at(path)
        if is_float(output.type):
            column = hidden(column, output.type)
        if output.description is not None:
            column = column.alias(output.name, metadata={COMMENT: output.description})
        elif is_float(output.type) or is_kind or path != (output.name,):
            column = column.alias(output.name)
        out.append(column)
    return out


def _loaded(spark: SparkSession, store: TableStore, stored: Sequence[DataField], group: _Group) -> DataFrame:
    """Return a scan of files with the columns that they hold, and the partition columns of their paths."""
    partitions = [sql.StructField(f.name, partition_type(store, f)) for f in store.schema.partition_fields]
    inside = [sql.StructField(f.name, spark_type(f.type, column=f.name)) for f in stored]
    reader = spark.read.schema(sql.StructType([*inside, *partitions])).options(**_OPTIONS)
    if partitions:
        reader = reader.option("basePath", _location(store.layout.data_root))
    paths = [_GLOB.sub(_ESCAPED, _location(path)) for path in group.paths]
    local = isinstance(store.storage, LocalStorage)
    with (
        missing_files_explained(store, group.snapshot_id),
        settings(spark, _LISTING_LOCAL if local else _LISTING_REMOTE),
    ):
        try:
            frame = _parquet(spark, reader, paths)
            if is_connect(spark):
                frame.schema  # noqa: B018 - has the server look the files up now, and remember them
        except AnalysisException as error:
            if condition_of(error) != "PATH_NOT_FOUND":
                raise
            raise FileNotFoundError(errno.ENOENT, "no such file", _missing(store, group)) from error
    return frame


def _parquet(spark: SparkSession, reader: DataFrameReader, paths: Sequence[str]) -> DataFrame:
    """Return a scan of files.

    PySpark sends paths to the JVM one by one, and waits for an answer to each. Many of them go as one text instead.
    """
    if is_connect(spark) or len(paths) < _PATHS_AS_TEXT:
        return reader.parquet(*paths)
    jvm: Any = spark._jvm  # noqa: SLF001 - no public name
    found = jvm.java.util.regex.Pattern.compile("\0").split("\0".join(paths))
    return reader._df(reader._jreader.parquet(found))  # noqa: SLF001 - no public name


def _location(path: str) -> str:
    """Return a path as Spark spells it.

    >>> _location("/lake/t/bucket-0/a.parquet"), _location("s3://lake/t")
    ('file:/lake/t/bucket-0/a.parquet', 's3a://lake/t')
    """
    scheme, separator, rest = path.partition("://")
    return f"{_SCHEMES.get(scheme, scheme)}://{rest}" if separator else f"file:{path}"


def _missing(store: TableStore, group: _Group) -> str:
    return next((path for path in group.paths if not store.storage.exists(path)), group.paths[0])
