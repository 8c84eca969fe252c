"""Raw parquet files through Spark's own scan; deleted rows as bitmaps."""

from __future__ import annotations

import errno
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql import types as sql

from lakewright.errors import LakewrightError, TableNotExistException
from lakewright.formats.deletion_vectors import Positions
from lakewright.lsm.sorted_runs import sections
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_file_reader import BucketReader, explain_missing_files
from lakewright.read.data_split import DataSplit
from lakewright.read.file_evolution import plan_evolution
from lakewright.read.manifest_scan import FileSchemas
from lakewright.read.projection import Projection
from lakewright.read.pruning import written_fields
from lakewright.read.split_sharing import cut_split, part_of
from lakewright.read.table_read import TableRead
from lakewright.spark.column_filters import column_at, hidden, to_column
from lakewright.spark.frame_operations import condition_of, from_arrow, union_all
from lakewright.spark.spark_features import Feature, has
from lakewright.spark.spark_session import is_connect, settings
from lakewright.spark.spark_types import COMMENT, spark_schema, spark_type
from lakewright.spec.comparison import is_float
from lakewright.spec.manifest import DataFile
from lakewright.spec.option_values import NativeScan
from lakewright.spec.predicate import TRUE
from lakewright.spec.scalars import to_text
from lakewright.spec.system_columns import INSERT, KIND_NAMES
from lakewright.spec.table_schema import KEY_PREFIX
from lakewright.spec.types import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    INTEGER_BITS,
    MICROS_PRECISION,
    TEXT_ROOTS,
    TIMESTAMP_ROOTS,
    UNBOUNDED,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    Value,
    VectorType,
)
from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.object_storage import ObjectStorage

# ---- Deleted rows as bitmaps -----------------------------------------------------------------------------------------
# A scan knows the position of each row in its file. The words of all files follow each other in one array, which is a
# scalar subquery over a local relation: Spark reads it once when a query runs, without a job, and looks up the bit of
# every row. So only a filter is added to the scan; columns that a query does not need are still not read, and filters
# that are pushed down apply besides the bits, never instead of them.
#
# The words of a file are found by the file's size: comparing a number costs a tenth of comparing a name. If files of
# a scan have the same size, they are found by name. A row of a file without words is an error.

Words: TypeAlias = NDArray[np.uint64]  # a bit for each row of a file, the lowest first, set if the row is left out

POSITION, NUMBER = "__lakewright_position", "__lakewright_number"
_SIZE, _NAME = "__lakewright_size", "__lakewright_file"
_START, _WORDS = "__lakewright_start", "__lakewright_words"
_WORD_BITS, _WORD_SHIFT = 64, 6
_CASES_MAX = 16  # more files are found faster by a join


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """A file of a scan that must be told from others, and its rows to leave out, if there are any."""

    name: str
    size: int
    words: Words = field(default_factory=lambda: np.empty(0, np.uint64))


def words_of(positions: Positions, row_count: int) -> Words:
    """Return positions as bits.

    >>> words_of(np.array([0, 65], np.uint64), 100).tolist()
    [1, 2]
    """
    marks = np.zeros(word_count(row_count) * _WORD_BITS, np.bool_)
    marks[positions.astype(np.int64)] = True
    return np.packbits(marks, bitorder="little").view("<u8")


def rows_in(words: Words) -> int:
    """Return how many rows are left out.

    >>> rows_in(words_of(np.array([0, 65], np.uint64), 100))
    2
    """
    return int(np.count_nonzero(np.unpackbits(words.view(np.uint8))))


def word_count(row_count: int) -> int:
    """Return how many words a file of so many rows takes."""
    return -(-row_count // _WORD_BITS)


def sizes_differ(files: Sequence[ScannedFile]) -> bool:
    """Return whether files can be told apart by their sizes."""
    return len({file.size for file in files}) == len(files)


def file_columns(files: Sequence[ScannedFile]) -> list[Column]:
    """Return the columns that a scan of these files needs for `leave_rows_out` and `numbered`."""
    place = F.col("_metadata.file_size").alias(_SIZE) if sizes_differ(files) else _name()
    return [F.col("_metadata.row_index").alias(POSITION), place]


def file_column_names(files: Sequence[ScannedFile]) -> list[str]:
    """Return the names of these columns."""
    return [POSITION, _SIZE if sizes_differ(files) else _NAME]


def leave_rows_out(spark: SparkSession, frame: DataFrame, files: Sequence[ScannedFile]) -> DataFrame:
    """Return a scan of files, with the columns of `file_columns`, without the rows that the files leave out."""
    if not has(Feature.SCALAR):
        return _leave_rows_out_by_join(spark, frame, files)
    starts = np.cumsum([0, *(len(file.words) for file in files)])[:-1].tolist()
    frame, start = _file_value(spark, frame, files, _START, starts)
    words = pa.array([np.concatenate([file.words for file in files]).view("<i8")], pa.list_(pa.int64()))
    bits = from_arrow(spark, pa.table({_WORDS: words})).scalar()
    at = F.shiftright(F.col(POSITION), _WORD_SHIFT).cast("int") + start
    return frame.where(F.getbit(F.get(bits, at), F.col(POSITION).bitwiseAND(_WORD_BITS - 1).cast("int")) == 0)


def _leave_rows_out_by_join(spark: SparkSession, frame: DataFrame, files: Sequence[ScannedFile]) -> DataFrame:
    """Return the same where frames have no scalar subqueries: a join brings each row the words of its file."""
    column = _SIZE if sizes_differ(files) else _NAME
    places = pa.array([file.size if sizes_differ(files) else file.name for file in files])
    words = pa.array([file.words.view("<i8") for file in files], pa.list_(pa.int64()))
    known = from_arrow(spark, pa.table({column: places, _WORDS: words}))
    word = F.get(F.col(_WORDS), F.shiftright(F.col(POSITION), _WORD_SHIFT).cast("int"))
    bit = F.getbit(word, F.col(POSITION).bitwiseAND(_WORD_BITS - 1).cast("int"))
    bit = F.when(F.col(_WORDS).isNull(), _unknown(column)).otherwise(bit)
    return frame.join(F.broadcast(known), column, "left").where(bit == 0).drop(_WORDS)


def scan_with_file_numbers(
    spark: SparkSession, frame: DataFrame, files: Sequence[ScannedFile], numbers: Sequence[int]
) -> DataFrame:
    """Return a scan of files with the number of its file in each row."""
    frame, number = _file_value(spark, frame, files, NUMBER, numbers)
    return frame.withColumn(NUMBER, number)


def _name() -> Column:
    return F.col("_metadata.file_name").alias(_NAME)


def _unknown(column: str) -> Column:
    text = F.concat(F.lit("the scan gave rows of a file that was not planned: "), F.col(column).cast("string"))
    return F.raise_error(text).cast("int")


def _file_value(
    spark: SparkSession, frame: DataFrame, files: Sequence[ScannedFile], what: str, values: Sequence[int]
) -> tuple[DataFrame, Column]:
    """Return the frame, and a column with the value that belongs to the file of each row."""
    if not sizes_differ(files):
        return _join_file_values(
            spark, frame, _NAME, what, dict(zip((file.name for file in files), values, strict=True))
        )
    if len(files) > _CASES_MAX:
        return _join_file_values(
            spark, frame, _SIZE, what, dict(zip((file.size for file in files), values, strict=True))
        )
    return frame, _case(files, values)


def _case(files: Sequence[ScannedFile], values: Sequence[int]) -> Column:
    """Return a column with the value that belongs to the file of each row, found by comparing sizes."""
    case = None
    for file, value in zip(files, values, strict=True):
        here = F.col(_SIZE) == F.lit(file.size)
        case = F.when(here, F.lit(value)) if case is None else case.when(here, F.lit(value))
    if case is None:
        raise AssertionError("a scan without files")
    return case.otherwise(_unknown(_SIZE))


def _join_file_values(
    spark: SparkSession, frame: DataFrame, column: str, what: str, values: Mapping[str, int] | Mapping[int, int]
) -> tuple[DataFrame, Column]:
    """Return the frame joined with the values, and a column with the value that belongs to the file of each row."""
    places, numbers = pa.array(list(values)), pa.array(list(values.values()), pa.int32())
    known = from_arrow(spark, pa.table({column: places, what: numbers}))
    joined = frame.join(F.broadcast(known), column, "left")
    return joined, F.coalesce(F.col(what), _unknown(column))


# ---- Columns of files ------------------------------------------------------------------------------------------------
# A column is converted here only where Spark's cast is the core's cast for every value, in every session: integers
# that grow wider, decimals that gain digits, text that is cut or left alone. `readable` says beforehand whether all
# columns of a read are of that kind; what is not goes through the core's own reader.

# What Spark's parquet reader gives as it was written. It knows no TIME of milliseconds, and nothing below microseconds.
_EXACT = TEXT_ROOTS | BINARY_ROOTS | FLOAT_ROOTS | frozenset(INTEGER_BITS) | {"BOOLEAN", "DECIMAL", "DATE"}
_WIDTH = {root: place for place, root in enumerate(INTEGER_BITS)}
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}  # that hold every value of an integer type
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"  # Spark reads this text as null
_SYSTEM_NAMES = frozenset({"_sequence_number", "_value_kind", "_row_id", "_metadata"})
_SYSTEM_PREFIXES = (KEY_PREFIX.lower(), "__paimon_")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def readable(written: Sequence[DataField], read: Sequence[DataField]) -> bool:
    """Return whether Spark reads files with these columns exactly as a read wants them."""
    if not (_names_are_plain(written) and _names_are_plain(read)):
        return False
    plan = plan_evolution(written, read)
    pairs = zip(plan.read_fields, plan.places, strict=True)
    return all(place is None or _converts(plan.file_fields[place].type, field.type) for field, place in pairs)


def convert_column(column: Column, file: DataType, read: DataType) -> Column:
    """Return a column of a file as the read wants it; `readable` has seen the types."""
    if _is_alike(file, read) or not isinstance(read, AtomicType):
        return column
    if read.root in {"VARCHAR", "VARBINARY"}:
        return F.substring(column, 1, read.length)
    return column.cast(spark_type(read))


def _names_are_plain(fields: Sequence[DataField]) -> bool:
    """Return whether Spark can tell columns apart, also if it ignores upper and lower case."""
    names = [field.name.lower() for field in fields]
    inside = [_names_are_plain(part.fields) for field in fields for part in _rows_inside(field.type)]
    taken = any(name in _SYSTEM_NAMES or name.startswith(_SYSTEM_PREFIXES) for name in names)
    return len(set(names)) == len(names) and not taken and all(inside)


def _rows_inside(dtype: DataType) -> list[RowType]:
    match dtype:
        case RowType():
            return [dtype]
        case ArrayType() | MultisetType():
            return _rows_inside(dtype.element)
        case MapType():
            return [*_rows_inside(dtype.key), *_rows_inside(dtype.value)]
        case _:
            return []


def _converts(file: DataType, read: DataType) -> bool:
    """Return whether values of a file become those of the read, by nothing or by a cast that is the core's own."""
    if _is_alike(file, read):
        return True
    if not isinstance(file, AtomicType) or not isinstance(read, AtomicType):
        return False
    pair = (file.root, read.root)
    if file.root in INTEGER_BITS:
        if read.root in INTEGER_BITS:
            return _WIDTH[file.root] <= _WIDTH[read.root]
        return read.root in FLOAT_ROOTS or (
            read.root == "DECIMAL" and read.precision - read.scale >= _DIGITS[file.root]
        )
    if pair == ("DECIMAL", "DECIMAL"):
        return read.scale >= file.scale and read.precision - read.scale >= file.precision - file.scale
    cut = (file.root in TEXT_ROOTS and read.root == "VARCHAR") or (
        file.root in BINARY_ROOTS and read.root == "VARBINARY"
    )
    return cut or pair == ("FLOAT", "DOUBLE")


def _is_alike(file: DataType, read: DataType) -> bool:
    """Return whether values need no work at all, and Spark reads them as they are."""
    match file, read:
        case AtomicType(), AtomicType():
            return _is_alike_atomic(file, read)
        case RowType(), RowType():
            return len(file.fields) == len(read.fields) and all(
                a.id == b.id and a.name == b.name and _is_alike(a.type, b.type)
                for a, b in zip(file.fields, read.fields, strict=True)
            )
        case ArrayType(), ArrayType():
            return _is_alike(file.element, read.element)
        case VectorType(), VectorType():
            return file.length == read.length and _is_alike(file.element, read.element)
        case MultisetType(), MultisetType():
            return _is_alike(file.element, read.element)
        case MapType(), MapType():
            return _is_alike(file.key, read.key) and _is_alike(file.value, read.value)
        case _:
            return False


def _is_alike_atomic(file: AtomicType, read: AtomicType) -> bool:
    if file.root in TIMESTAMP_ROOTS:
        return file.root == read.root and file.precision <= read.precision <= MICROS_PRECISION
    if file.root not in _EXACT:
        return False
    roots = TEXT_ROOTS if file.root in TEXT_ROOTS else BINARY_ROOTS if file.root in BINARY_ROOTS else frozenset()
    return file.type == read.type or (read.root in roots and read.length == UNBOUNDED)


# ---- Partition columns, whose values come from the path of a file ----------------------------------------------------


def partition_is_readable(store: TableStore, partition: bytes) -> bool:
    """Return whether Spark reads the partition from the path exactly; a null has a name that could be text."""
    legacy = store.options.partition_legacy_name
    values = store.partition_values(partition)
    return all(
        _value_is_readable(value, field, legacy=legacy)
        for value, field in zip(values, store.schema.partition_fields, strict=True)
    )


def _value_is_readable(value: Value, field: DataField, *, legacy: bool) -> bool:
    if value is None or not isinstance(field.type, AtomicType):
        return False
    root = field.type.root
    if root in TEXT_ROOTS:
        return isinstance(value, str) and bool(value.strip()) and value != _HIVE_NULL
    if root == "DATE":
        return legacy or _DATE.fullmatch(to_text(value, field.type)) is not None
    return root in INTEGER_BITS or root == "BOOLEAN"


def partition_type(store: TableStore, field: DataField) -> sql.DataType:
    """Return the type that Spark reads the text in a path as."""
    is_number = isinstance(field.type, AtomicType) and field.type.root == "DATE"
    if is_number and store.options.partition_legacy_name:
        return sql.IntegerType()
    return spark_type(field.type)


def partition_column(store: TableStore, field: DataField) -> Column:
    """Return a partition column as the read wants it."""
    column = column_at([field.name])
    if isinstance(partition_type(store, field), sql.IntegerType) and spark_type(field.type) == sql.DateType():
        return F.date_from_unix_date(column)
    return column


# ---- The scan --------------------------------------------------------------------------------------------------------
# Spark's reader is vectorised, prunes columns and skips row groups by itself, so whatever it reads *exactly as the
# core does* goes this way, and nothing else does. Files are read with the column names and types that their own
# schema gave them, one scan per schema, and are then renamed and cast to the schema of the read. Partition columns
# come from the path of a file, which the manifest decides, never from what is in the file. Deleted rows are left
# out by their position in the file, with a bitmap that is part of the plan.
#
# Invariant: a frame pins files, not directories; no setting of the session changes what it gives, neither
# when it is made nor when it runs.

_PARQUET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.parquet")  # names that Spark neither hides nor escapes
_GLOB, _ESCAPED = re.compile(r"([\\\[\]{}*?])"), r"\\\1"
_SCHEMES = {"s3": "s3a"}  # of object stores that have another name in Spark
_REMOTE_SCHEMES = frozenset({"s3", "gs", "abfs", "abfss"})  # an az: location says less than Spark needs to know
# Spark looks every file up when a scan is made, and for more than 32 it starts a job with a task for each, which costs
# far more than the look: on a disk the driver does it alone, in an object store some dozen tasks.
_LISTING_LOCAL = {"spark.sql.sources.parallelPartitionDiscovery.threshold": "2147483647"}
_LISTING_REMOTE = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "48"}
_PATHS_AS_TEXT = 500
_TABLES_MAX, _SNAPSHOTS_MAX = 256, 64
_scanned_tables: dict[str, tuple[TableStore, list[int]]] = {}  # by their roots, the last one scanned at the end
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
    parts = [part for split in splits for part in (cut_split(store, split) if split.needs_merge else [split])]
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
    frames = [_scan_group(spark, read, group) for group in groups.values()]
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
        """Return whether Spark's own scan could read all files of a split that is merged."""
        raw = replace(split, raw_convertible=True)
        return split.needs_merge and split.before is None and len(self.files_of(raw)) == len(split.files)

    def _reads_storage(self) -> bool:
        """Return whether Spark reads the storage of the table by itself."""
        asked = self.store.options.lakewright_native_scan
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
    deleted = BucketReader(store, schemas, split.partition_bytes, split.bucket).deleted_positions(file, deletion)
    return None if deleted is None else words_of(deleted, file.row_count)


def _scan_group(spark: SparkSession, read: TableRead, group: _Group) -> DataFrame:
    """Return the rows of one group in the columns of the read."""
    store, projection = read.store, read.projection
    keys = store.schema.partition_keys
    plan = plan_evolution(group.written, [f for f in projection.read_fields if f.name not in keys])
    # A scan needs at least one column of the files.
    stored = plan.file_fields or tuple(f for f in group.written if f.name not in keys)[:1]
    frame = _load_files(spark, store, stored, group)
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
            column = convert_column(column_at([stored[place].name]), stored[place].type, needed.type)
            column = column if stored[place] == needed else column.alias(needed.name)
        columns.append(column)
    frame = frame.select(*columns, *(file_column_names(marked) if marked else []))
    if condition is not None:
        frame = frame.where(condition)
    if group.left_out:
        frame = leave_rows_out(spark, frame, group.left_out)
    if group.numbers:
        frame = scan_with_file_numbers(spark, frame, marked, group.numbers)
        return frame.select(NUMBER, POSITION, *_outputs(projection))
    if not marked and _are_outputs(projection):
        return frame
    return frame.select(*_outputs(projection))


def _are_outputs(projection: Projection) -> bool:
    """Return whether the columns that are read are those of the result: every call that builds a frame takes time."""
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


def _load_files(spark: SparkSession, store: TableStore, stored: Sequence[DataField], group: _Group) -> DataFrame:
    """Return a scan of files with the columns that they hold, and the partition columns of their paths."""
    _remember(store, group.snapshot_id)
    partitions = [sql.StructField(f.name, partition_type(store, f)) for f in store.schema.partition_fields]
    inside = [sql.StructField(f.name, spark_type(f.type, column=f.name)) for f in stored]
    reader = spark.read.schema(sql.StructType([*inside, *partitions])).options(**_OPTIONS)
    if partitions:
        reader = reader.option("basePath", _location(store.layout.data_root))
    paths = [_GLOB.sub(_ESCAPED, _location(path)) for path in group.paths]
    local = isinstance(store.storage, LocalStorage)
    with (
        explain_missing_files(store, group.snapshot_id),
        settings(spark, _LISTING_LOCAL if local else _LISTING_REMOTE, optional=True),
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


def _remember(store: TableStore, snapshot_id: int) -> None:
    """Note which snapshots of a table were scanned, for `missing_file_error`."""
    root = _location(store.layout.data_root)
    _, ids = _scanned_tables.pop(root, (store, []))
    _scanned_tables[root] = store, [*(one for one in ids if one != snapshot_id), snapshot_id][-_SNAPSHOTS_MAX:]
    while len(_scanned_tables) > _TABLES_MAX:
        del _scanned_tables[next(iter(_scanned_tables))]


def missing_file_error(path: str) -> LakewrightError | None:
    """Return why a file that Spark was to scan is missing: its table was dropped, or its snapshot has expired.

    Spark names the path alone, so the snapshot is the last of those scanned in this process that does not exist.
    """
    path = path.replace("file:///", "file:/", 1)
    found = next((one for root, one in list(_scanned_tables.items()) if path.startswith(f"{root}/")), None)
    if found is None:
        return None
    store, ids = found
    if store.snapshots.latest_id() is None:
        return TableNotExistException(f"{store.name} was dropped: make the frame anew", table=store.name)
    gone = [one for one in ids if not store.snapshots.exists(one)]
    try:
        with explain_missing_files(store, (gone or ids)[-1]):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
    except LakewrightError as error:
        return error


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
