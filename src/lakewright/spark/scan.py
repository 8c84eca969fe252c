"""Raw parquet files through Spark's own scan: splits in, a frame in the columns of the read out.

Spark's reader is vectorised, prunes columns and skips row groups by itself, so whatever it reads *exactly as the core
does* goes this way, and nothing else does. Files are read with the column names and types that their own schema gave
them, one scan per schema, and are then renamed and cast to the schema of the read. Partition columns come from the path
of a file, which the manifest decides, never from what lies in the file. Rows that a deletion vector deletes are told by
their position in the file, against a bitmap that travels with the plan.

What always holds: a frame pins files, not directories; no setting of the session changes what it gives, neither when
it is made nor when it runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import types as sql

from lakewright.formats.deletion_vectors import Positions
from lakewright.lsm.runs import sections
from lakewright.metadata.store import TableStore
from lakewright.read.builder import TableRead
from lakewright.read.evolve import plan_evolution
from lakewright.read.files import BucketFiles
from lakewright.read.projection import Projection
from lakewright.read.prune import written_fields
from lakewright.read.scan import FileSchemas
from lakewright.read.split import DataSplit
from lakewright.spark.evolved import converted, partition_column, partition_is_told, partition_type, readable
from lakewright.spark.filters import column_at, to_column
from lakewright.spark.session import settings
from lakewright.spark.types import spark_type
from lakewright.spec.datafile import DataFile
from lakewright.spec.keyed import INSERT, KIND_NAMES
from lakewright.spec.predicate import TRUE
from lakewright.spec.types import DataField
from lakewright.storage.local import LocalStorage

_PARQUET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.parquet")  # names that Spark neither hides nor escapes
_GLOB, _ESCAPED = re.compile(r"([\\\[\]{}*?])"), r"\\\1"
# A list of files is not worth a job: the driver looks each of them up.
_LISTING = {"spark.sql.sources.parallelPartitionDiscovery.threshold": "2147483647"}
_OPTIONS = {
    "mergeSchema": "false",
    "recursiveFileLookup": "false",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
_POSITION, _FILE, _BITS = "__lakewright_position", "__lakewright_file", "__lakewright_bits"
_METADATA = "_metadata"
_WORD, _WORD_SHIFT = 64, 6


def native_splits(
    store: TableStore, splits: Iterable[DataSplit], projection: Projection
) -> tuple[list[DataSplit], list[DataSplit]]:
    """Part splits into what Spark's own scan reads exactly as the core does, and what it does not."""
    reach = _Reach(store, projection, FileSchemas(store))
    native: list[DataSplit] = []
    rest: list[DataSplit] = []
    for split in splits:
        numbers = reach.files_of(split)
        if len(numbers) == len(split.files):
            native.append(replace(split, raw_convertible=True))
            continue
        if numbers:
            native.append(replace(_part(split, numbers), raw_convertible=True))
        others = [at for at in range(len(split.files)) if at not in numbers]
        rest.append(_part(split, others) if numbers else split)
    return native, rest


def native_scan(
    spark: SparkSession,
    read: TableRead,
    splits: Sequence[DataSplit],
    losers: Mapping[str, Positions] | None = None,
) -> DataFrame:
    """Return the rows of files that Spark can read as a frame in the columns of the read, filtered.

    `losers` names rows that do not count, by file and position, beside those that deletion vectors delete.
    """
    schemas = FileSchemas(read.store)
    groups: dict[tuple[int, bool], _Group] = {}
    for split in splits:
        for at, file in enumerate(split.files):
            gone = _gone(read.store, schemas, split, at, losers or {})
            key = file.schema_id, gone is not None
            group = groups.setdefault(key, _Group(written_fields(schemas.fields_of(file.schema_id), file.write_cols)))
            group.add(split.file_paths[at], file, gone)
    frames = [_scanned(spark, read, group) for group in groups.values()]
    return reduce(DataFrame.union, frames)


@dataclass(frozen=True, slots=True)
class _Reach:
    """Tells which files of a table Spark can read for one projection."""

    store: TableStore
    projection: Projection
    schemas: FileSchemas
    _known: dict[int, bool] = field(default_factory=dict)

    def files_of(self, split: DataSplit) -> frozenset[int]:
        """Return the numbers of a split's files that Spark's own scan may read."""
        events = split.streaming and bool(self.store.schema.primary_keys)
        if split.before is not None or events or not isinstance(self.store.storage, LocalStorage):
            return frozenset()
        if not partition_is_told(self.store, split.partition_bytes):
            return frozenset()
        return frozenset(group[0] for group in self._raw_groups(split) if self._reads(split, group))

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
            and (file.external_path is None or not self.store.schema.partition_keys)
            and file.write_cols is None
            and self._reads_schema(file.schema_id)
        )

    def _reads_schema(self, schema_id: int) -> bool:
        if schema_id not in self._known:
            keys = self.store.schema.partition_keys
            fields = [f for f in self.projection.read_fields if f.name not in keys]
            self._known[schema_id] = readable(self.schemas.fields_of(schema_id), fields)
        return self._known[schema_id]


@dataclass(frozen=True, slots=True)
class _Group:
    """Files of one schema, all with rows that do not count or all without."""

    written: tuple[DataField, ...]
    paths: list[str] = field(default_factory=list)
    files: list[DataFile] = field(default_factory=list)
    gone: list[Positions] = field(default_factory=list)

    def add(self, path: str, file: DataFile, gone: Positions | None) -> None:
        """Take one more file."""
        self.paths.append(path)
        self.files.append(file)
        if gone is not None:
            self.gone.append(gone)


def _part(split: DataSplit, numbers: Iterable[int]) -> DataSplit:
    """Return a split with some of its files."""
    kept = sorted(numbers)
    return replace(
        split,
        files=tuple(split.files[at] for at in kept),
        file_paths=tuple(split.file_paths[at] for at in kept),
        deletion_files=tuple(split.deletion_files[at] for at in kept) if split.deletion_files else (),
        row_ranges=tuple(split.row_ranges[at] for at in kept) if split.row_ranges else (),
    )


def _gone(
    store: TableStore, schemas: FileSchemas, split: DataSplit, at: int, losers: Mapping[str, Positions]
) -> Positions | None:
    """Return the positions of a file's rows that do not count; None where all do."""
    file = split.files[at]
    deletion = split.deletion_files[at] if split.deletion_files else None
    deleted = None
    if deletion is not None:
        deleted = BucketFiles(store, schemas, split.partition_bytes, split.bucket).deleted(file, deletion)
    lost = losers.get(file.file_name)
    if lost is None or not len(lost):
        return deleted
    return lost if deleted is None else np.union1d(lost, deleted)


def _scanned(spark: SparkSession, read: TableRead, group: _Group) -> DataFrame:
    """Return the rows of one group in the columns of the read."""
    store, projection = read.store, read.projection
    keys = store.schema.partition_keys
    plan = plan_evolution(group.written, [f for f in projection.read_fields if f.name not in keys])
    # A scan without any column of the files would be none.
    stored = plan.file_fields or tuple(f for f in group.written if f.name not in keys)[:1]
    frame = _loaded(spark, store, stored, group)
    if group.gone:
        extra = [F.col(f"{_METADATA}.row_index").alias(_POSITION), F.col(f"{_METADATA}.file_name").alias(_FILE)]
        frame = frame.select("*", *extra)
    places = dict(zip((f.id for f in plan.read_fields), plan.places, strict=True))
    columns = []
    for wanted in projection.read_fields:
        place = places.get(wanted.id)
        if wanted.name in keys:
            column = partition_column(store, wanted)
        elif place is None:
            column = F.lit(None).cast(spark_type(wanted.type))
        else:
            column = converted(column_at([stored[place].name]), stored[place].type, wanted.type)
        columns.append(column.alias(wanted.name))
    carried = [_POSITION, _FILE] if group.gone else []
    frame = frame.select(*columns, *carried)
    condition = None if read.predicate == TRUE else to_column(read.predicate, projection.read_fields)
    if condition is not None:
        frame = frame.where(condition)
    if group.gone:
        frame = _without(spark, frame, group)
    return frame.select(*_outputs(projection))


def _outputs(projection: Projection) -> list[Column]:
    """Return the columns of the result."""
    out = []
    for path, wanted in zip(projection.paths, projection.fields, strict=True):
        is_kind = path == (projection.kind,)
        out.append((F.lit(KIND_NAMES[INSERT]) if is_kind else column_at(path)).alias(wanted.name))
    return out


def _loaded(spark: SparkSession, store: TableStore, stored: Sequence[DataField], group: _Group) -> DataFrame:
    """Return a scan of files with the columns that lie in them, and those that their paths tell."""
    told = [sql.StructField(f.name, partition_type(store, f)) for f in store.schema.partition_fields]
    inside = [sql.StructField(f.name, spark_type(f.type, column=f.name)) for f in stored]
    reader = spark.read.schema(sql.StructType([*inside, *told])).options(**_OPTIONS)
    if told:
        reader = reader.option("basePath", f"file:{store.layout.data_root}")
    with settings(spark, _LISTING):
        return reader.parquet(*(f"file:{_GLOB.sub(_ESCAPED, path)}" for path in group.paths))


def _without(spark: SparkSession, frame: DataFrame, group: _Group) -> DataFrame:
    """Return a frame without the rows of its files that do not count."""
    words = [_bits(gone, file.row_count) for gone, file in zip(group.gone, group.files, strict=True)]
    offsets = np.cumsum([0, *(len(some) for some in words)])
    arrays = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(np.concatenate(words)))
    names = pa.array([file.file_name for file in group.files])
    bitmaps = spark.createDataFrame(pa.table({_FILE: names, _BITS: arrays}))
    word = F.get(F.col(_BITS), F.shiftright(F.col(_POSITION), _WORD_SHIFT).cast("int"))
    unknown = F.raise_error(F.concat(F.lit("the scan gave rows of an unknown file "), F.col(_FILE)))
    is_gone = F.getbit(F.coalesce(word, unknown.cast("long")), (F.col(_POSITION) % _WORD).cast("int"))
    return frame.join(F.broadcast(bitmaps), _FILE, "left").where(is_gone == 0)


def _bits(positions: Positions, row_count: int) -> NDArray[np.int64]:
    """Return positions as bits of words, the lowest bit first."""
    marks = np.zeros(-(-row_count // _WORD) * _WORD, np.uint8)
    marks[positions.astype(np.int64)] = 1
    return np.packbits(marks, bitorder="little").view("<i8")
