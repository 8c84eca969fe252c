"""Read builder, splits, data files."""

from __future__ import annotations

import dataclasses
import itertools
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import ColumnNotExistException, InvalidInputError, LakewrightWarning, UnsupportedError
from lakewright.formats.blob_values import BlobType
from lakewright.metadata.table_store import TableStore
from lakewright.pypaimon.compat_blobs import BlobRef
from lakewright.pypaimon.compat_errors import TABLE_WORDS, translate_errors
from lakewright.pypaimon.compat_predicates import PredicateBuilder
from lakewright.pypaimon.compat_values import GenericRow, Range, RowKind, Timestamp
from lakewright.read import data_split, stream_read, table_read, table_scan
from lakewright.read import data_split as core_split
from lakewright.read import explain as plans
from lakewright.read import read_builder as core_read_builder
from lakewright.read.data_split import DeletionFile
from lakewright.read.manifest_scan import keys_are_once
from lakewright.read.projection import ROW_KIND, plan_projection
from lakewright.read.split_planning import shard_splits
from lakewright.spec.binary_row import decode_row
from lakewright.spec.filters import Filter
from lakewright.spec.manifest import EMPTY_ROW, DataFile
from lakewright.spec.manifest import SimpleStats as Stats
from lakewright.spec.predicate import TRUE, resolve_path
from lakewright.spec.scalars import to_python
from lakewright.spec.table_schema import BucketMode
from lakewright.spec.types import TEXT_ROOTS, TIMESTAMP_ROOTS, AtomicType, DataField, MapType

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame
    from ray.data import Dataset
    from torch.utils.data import Dataset as TorchDataset


# ---- Projections of map keys -----------------------------------------------------------------------------------------
# The whole MAP is read; the value of a key, or null, becomes a column of its own.

_SELECTOR = re.compile(r"([^\[\]]+)\[(['\"])(.*)\2\]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class MapKey:
    """One key of a column: where the column is in the read, and how the result calls the value."""

    column: int
    key: str
    name: str


@dataclass(frozen=True, slots=True)
class MapKeys:
    """A projection with keys of maps: what is read, and for each column of the result where it comes from."""

    read: tuple[str, ...]
    columns: tuple[int | MapKey, ...]

    @classmethod
    def of(cls, projection: Sequence[str], known: Mapping[str, DataField]) -> MapKeys | None:
        """Return a projection that names keys of maps with text as keys; None: it names none."""
        found = {name: selector for name in projection if (selector := map_key(name, known)) is not None}
        if not found:
            return None
        read = list(dict.fromkeys(found[name][0] if name in found else name for name in projection))
        taken = set(known)
        columns: list[int | MapKey] = []
        for name in projection:
            if name not in found:
                columns.append(read.index(name))
                continue
            column, key = found[name]
            shown = _free(f"{column}_{key.replace('.', '_')}", taken)
            taken.add(shown)
            columns.append(MapKey(read.index(column), key, shown))
        return cls(tuple(read), tuple(columns))

    def fields(self, read: Sequence[DataField]) -> tuple[DataField, ...]:
        """Return the fields of the result."""
        return tuple(read[one] if isinstance(one, int) else _value_field(read[one.column], one) for one in self.columns)

    def apply(self, rows: pa.Table) -> pa.Table:
        """Return the result of a read."""
        names = [rows.column_names[one] if isinstance(one, int) else one.name for one in self.columns]
        arrays = [rows.column(one) if isinstance(one, int) else _looked_up(rows, one) for one in self.columns]
        return pa.Table.from_arrays(arrays, names=names)


def map_key(name: str, known: Mapping[str, DataField]) -> tuple[str, str] | None:
    """Return the column and the key that a name such as `tags['a']` means; None: it means something else."""
    match = None if name in known else _SELECTOR.fullmatch(name)
    dtype = known[match[1]].type if match is not None and match[1] in known else None
    if match is None or not isinstance(dtype, MapType) or not isinstance(dtype.key, AtomicType):
        return None
    return (match[1], match[3]) if dtype.key.root in TEXT_ROOTS else None


def _value_field(column: DataField, one: MapKey) -> DataField:
    return replace(column, name=one.name, type=column.type.value if isinstance(column.type, MapType) else column.type)


def _free(name: str, taken: set[str]) -> str:
    """Return a name that is not taken: itself, or with a number."""
    if name not in taken:
        return name
    return next(numbered for n in itertools.count() if (numbered := f"{name}__{n}") not in taken)


def _looked_up(rows: pa.Table, one: MapKey) -> pa.ChunkedArray:
    column = rows.column(one.column)
    return pc.map_lookup(column, pa.scalar(one.key, column.type.key_type), "first")


# ---- Splits and data files -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SimpleStats:
    """Bounds and null counts of some columns."""

    min_values: GenericRow
    max_values: GenericRow
    null_counts: list[int | None]

    @classmethod
    def empty_stats(cls) -> SimpleStats:
        """Return the statistics of no columns."""
        return cls(GenericRow((), ()), GenericRow((), ()), [])


class DataFileMeta:
    """One data file: the facts that a manifest records, and the path."""

    def __init__(self, file: DataFile, path: str, store: TableStore) -> None:
        self.file = file
        self.file_path = path
        self._store = store

    def __getattr__(self, name: str) -> object:
        """Return a fact that has the same name and form in both libraries, such as `file_name` or `row_count`."""
        if name in {field.name for field in dataclasses.fields(DataFile)}:
            return getattr(self.file, name)
        raise AttributeError(f"a data file has no {name!r}")

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)

    @property
    def min_key(self) -> GenericRow:
        """The smallest key; an empty row in tables without a primary key."""
        return self._key(self.file.min_key)

    @property
    def max_key(self) -> GenericRow:
        """The largest key; an empty row in tables without a primary key."""
        return self._key(self.file.max_key)

    @property
    def key_stats(self) -> SimpleStats:
        """The statistics of the key columns."""
        return _stats(self.file.key_stats, self._store.schema.trimmed_primary_key_fields)

    @property
    def value_stats(self) -> SimpleStats:
        """The statistics of the columns, or of those that `value_stats_cols` names."""
        fields = self._store.schemas.get(self.file.schema_id).fields
        named = self.file.value_stats_cols
        known = {field.name: field for field in fields}
        return _stats(self.file.value_stats, fields if named is None else [known[name] for name in named])

    @property
    def extra_files(self) -> list[str]:
        """The names of files that belong to this one."""
        return list(self.file.extra_files)

    @property
    def creation_time(self) -> Timestamp | None:
        """When the file was made."""
        return None if self.file.creation_time is None else Timestamp(self.file.creation_time)

    @property
    def embedded_index(self) -> bytes | None:
        """The index of the file that the manifest holds."""
        return self.file.embedded_file_index

    @property
    def value_stats_cols(self) -> list[str] | None:
        """The columns with statistics; None: all."""
        return None if self.file.value_stats_cols is None else list(self.file.value_stats_cols)

    @property
    def write_cols(self) -> list[str] | None:
        """The columns that the file has; None: all."""
        return None if self.file.write_cols is None else list(self.file.write_cols)

    def get_creation_time(self) -> Timestamp | None:
        """Return when the file was made."""
        return self.creation_time

    def creation_time_epoch_millis(self) -> int | None:
        """Return when the file was made, in milliseconds."""
        return self.file.creation_time

    def creation_time_as_datetime(self) -> datetime | None:
        """Return when the file was made, as a time without a zone."""
        made = self.creation_time
        return None if made is None else made.to_local_date_time()

    def physical_path(self) -> str:
        """Return where the file lies."""
        return self.file.external_path or self.file_path

    def row_id_range(self) -> Range | None:
        """Return the row ids of the file; None where the table does not track rows."""
        first = self.file.first_row_id
        return None if first is None else Range(first, first + self.file.row_count - 1)

    @staticmethod
    def is_blob_file(file_name: str) -> bool:
        """Return whether a file holds the large values of one column."""
        return file_name.endswith(".blob")

    def _key(self, key: bytes) -> GenericRow:
        fields = self._store.schema.trimmed_primary_key_fields
        return GenericRow(()) if key == EMPTY_ROW else _row(key, fields)


class DataSplit:
    """A piece of a plan that one worker reads by itself."""

    def __init__(self, split: core_split.DataSplit, store: TableStore) -> None:
        self.split = split
        self._store = store

    @property
    def files(self) -> list[DataFileMeta]:
        """The data files."""
        pairs = zip(self.split.files, self.split.file_paths, strict=True)
        return [DataFileMeta(file, path, self._store) for file, path in pairs]

    @property
    def file_paths(self) -> list[str]:
        """Where the data files lie."""
        return list(self.split.file_paths)

    @property
    def partition(self) -> GenericRow:
        """The values of the partition columns."""
        return GenericRow(self.split.partition, self._store.schema.partition_fields)

    @property
    def bucket(self) -> int:
        """The bucket of the files."""
        return self.split.bucket

    @property
    def total_buckets(self) -> int:
        """How many buckets the partition had when the files were written."""
        return self.split.total_buckets

    @property
    def bucket_path(self) -> str:
        """The directory of the bucket."""
        return self.split.bucket_path

    @property
    def snapshot_id(self) -> int:
        """The snapshot of the plan."""
        return self.split.snapshot_id

    @property
    def row_count(self) -> int:
        """How many rows the files hold, deleted ones included."""
        return self.split.row_count

    @property
    def file_size(self) -> int:
        """How many bytes the files have."""
        return self.split.file_size

    @property
    def raw_convertible(self) -> bool:
        """Whether the files can be read one by one: a lone file, or files of one level that is not the first."""
        one = self.split
        levels = {file.level for file in one.files}
        alone = len(one.files) == 1 or keys_are_once(self._store) or (len(levels) == 1 and 0 not in levels)
        return one.raw_convertible and (alone or not self._store.schema.primary_keys)

    @property
    def is_streaming(self) -> bool:
        """Whether the rows are events, with their kinds."""
        return self.split.streaming

    @property
    def data_deletion_files(self) -> list[DeletionFile | None] | None:
        """The deletion vector of each file; None where no file has one."""
        return list(self.split.deletion_files) or None

    def merged_row_count(self) -> int | None:
        """Return how many rows a read gives; None where that is not known without reading."""
        return self.split.merged_row_count()

    def filter_file(self, func: Callable[[DataFileMeta], bool]) -> DataSplit | None:
        """Return the split with only the files for which a function says True; None where it says so for none."""
        kept = [at for at, file in enumerate(self.files) if func(file)]
        if not kept:
            return None
        one = self.split
        return DataSplit(
            dataclasses.replace(
                one,
                files=tuple(one.files[at] for at in kept),
                file_paths=tuple(one.file_paths[at] for at in kept),
                deletion_files=tuple(one.deletion_files[at] for at in kept) if one.deletion_files else (),
                row_ranges=tuple(one.row_ranges[at] for at in kept) if one.row_ranges else (),
            ),
            self._store,
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """The splits of a read, at one snapshot."""

    _splits: list[DataSplit]
    snapshot_id: int | None = None

    def splits(self) -> list[DataSplit]:
        """Return the splits in reading order."""
        return list(self._splits)


def shown_plan(plan: table_scan.Plan, store: TableStore) -> Plan:
    """Return a plan of lakewright in pypaimon's form."""
    return Plan([DataSplit(split, store) for split in plan.splits()], plan.snapshot_id)


def plain_splits(splits: Sequence[object] | None) -> list[object] | None:
    """Return splits as lakewright's readers take them."""
    return None if splits is None else [one.split if isinstance(one, DataSplit) else one for one in splits]


def _row(data: bytes, fields: Sequence[DataField]) -> GenericRow:
    values = decode_row(data, [field.type for field in fields])
    pairs = zip(values, fields, strict=True)
    return GenericRow([None if value is None else to_python(value, field.type) for value, field in pairs], fields)


def _stats(stats: Stats, fields: Sequence[DataField]) -> SimpleStats:
    if stats.min_values == EMPTY_ROW:
        return SimpleStats(GenericRow(()), GenericRow(()), list(stats.null_counts))
    return SimpleStats(_row(stats.min_values, fields), _row(stats.max_values, fields), list(stats.null_counts))


# ---- Builders, scans and reads ---------------------------------------------------------------------------------------
# A column that the table lacks is left out of a projection with a warning; a second filter replaces the first.

_BUCKET_MODES = {
    BucketMode.UNAWARE: "BUCKET_UNAWARE",
    BucketMode.KEY_DYNAMIC: "CROSS_PARTITION",
    BucketMode.POSTPONE: "POSTPONE_MODE",
}


@translate_errors(TABLE_WORDS)
class TableScan(table_scan.TableScan):
    """Plans a read."""

    _cuts_buckets = False
    _shuffled = False
    _cuts: str | None = None  # how the plan is cut: `with_shard` or `with_slice`

    def with_shard(self, idx_of_this_subtask: int, number_of_para_subtasks: int) -> Self:
        """Plan the share of one of several workers only."""
        self._cut("with_shard")
        if number_of_para_subtasks <= 0:
            raise InvalidInputError("number_of_para_subtasks must be a positive integer")
        if idx_of_this_subtask < 0:
            raise InvalidInputError("idx_of_this_subtask must be a non-negative integer")
        if idx_of_this_subtask >= number_of_para_subtasks:
            raise InvalidInputError("idx_of_this_subtask must be less than number_of_para_subtasks")
        return self._add_shape(partial(self._share, index=idx_of_this_subtask, count=number_of_para_subtasks))

    def with_slice(self, start_pos: int, end_pos: int) -> Self:
        """Plan only the rows from one position of the whole plan up to another."""
        self._cut("with_slice")
        if start_pos < 0 or start_pos >= end_pos:
            raise InvalidInputError("start_pos must be non-negative and less than end_pos; both must be integers")
        return super().with_slice(start_pos, end_pos)

    def with_chunk_shuffle(self, seed: int, chunk_size: int) -> Self:
        """Plan chunks of so many rows in an order that only the seed decides; shares are taken of the chunks."""
        if chunk_size <= 0:
            raise InvalidInputError("chunk_shuffle chunk_size must be a positive int")
        super().with_chunk_shuffle(seed, chunk_size)
        self._shapes.insert(0, self._shapes.pop())
        self._shuffled = True
        return self

    def with_row_ranges(self, row_ranges: Sequence[Range | tuple[int, int]]) -> Self:
        """Plan only the rows whose `_ROW_ID` is in one of the ranges."""
        if not self._store.options.row_tracking_enabled:
            raise InvalidInputError("Row ranges are only supported for data evolution tables")
        return super().with_row_ranges([(one.from_, one.to) if isinstance(one, Range) else one for one in row_ranges])

    def plan(self) -> Plan:  # type: ignore[override] # the same plan in pypaimon's form
        """Pick the snapshot and plan its splits."""
        return shown_plan(self.core_plan(), self._store)

    def core_plan(self) -> table_scan.Plan:
        """Return the plan in lakewright's form."""
        self._check_shapes()
        return super().plan()

    def _share(self, splits: Sequence[data_split.DataSplit], index: int, count: int) -> list[data_split.DataSplit]:
        """Return the share of a worker: whole buckets of a keyed table; chunks as they are; other splits to the row."""
        if self._store.schema.primary_keys:
            return [one for one in splits if one.bucket % count == index]
        if not self._shuffled:
            return shard_splits(splits, index, count)
        chunks, more = divmod(len(splits), count)
        start, end = (number * chunks + min(number, more) for number in (index, index + 1))
        return list(splits[start:end])

    def _cut(self, way: str) -> None:
        if self._cuts not in (None, way):
            raise InvalidInputError(f"{way} and {self._cuts} cannot be used simultaneously")
        self._cuts = way

    def _check_shapes(self) -> None:
        keyed = bool(self._store.schema.primary_keys)
        if keyed and self._cuts == "with_slice":
            raise UnsupportedError("Primary key tables do not support with_slice(); use with_shard instead")
        if not self._shuffled:
            return
        if keyed:
            raise UnsupportedError("chunk_shuffle only supports append tables")
        if self._cuts == "with_slice":
            raise InvalidInputError("chunk_shuffle cannot combine with with_slice")
        if self._limit is not None:
            raise InvalidInputError("chunk_shuffle cannot combine with limit")
        others = sorted(self._predicate.columns() - set(self._store.schema.partition_keys))
        if others:
            raise InvalidInputError(
                f"chunk_shuffle predicate must reference only partition keys; got non-partition fields: {others}"
            )


class TableRead(table_read.TableRead):
    """Turns splits into rows."""

    map_keys: MapKeys | None = None  # of a projection such as `tags['a']`

    def new_plan(self) -> table_scan.Plan:
        """Plan the read on the newest snapshot, or the one that the table's options name."""
        return self._scan.core_plan() if isinstance(self._scan, TableScan) else super().new_plan()

    def to_arrow(  # type: ignore[override] # splits in pypaimon's form
        self,
        splits: Sequence[DataSplit] | None = None,
        parallelism: int | None = None,
        blob_parallelism: int | None = None,
    ) -> pa.Table:
        """Read splits into one Arrow table in plan order."""
        _check_blob_parallelism(blob_parallelism)
        return self._to_compat_table(super().to_arrow(plain_splits(splits), parallelism))  # type: ignore[arg-type]

    def to_arrow_batch_reader(  # type: ignore[override] # splits in pypaimon's form, and its order of arguments
        self,
        splits: Sequence[DataSplit] | None = None,
        blob_parallelism: int | None = None,
        parallelism: int | None = None,
    ) -> pa.RecordBatchReader:
        """Read splits lazily, batch by batch."""
        _check_blob_parallelism(blob_parallelism)
        read = super().to_arrow_batch_reader(plain_splits(splits), parallelism)  # type: ignore[arg-type]
        schema = self._to_compat_table(read.schema.empty_table()).schema
        if schema.equals(read.schema):
            return read
        shown = (batch for one in read for batch in self._to_compat_table(pa.Table.from_batches([one])).to_batches())
        return pa.RecordBatchReader.from_batches(schema, shown)

    def _to_compat_table(self, rows: pa.Table) -> pa.Table:
        """Return rows with the columns and types that pypaimon gives."""
        schema = _in_seconds(rows.schema, self.projection.fields)
        rows = rows if schema is rows.schema else rows.cast(schema)
        return rows if self.map_keys is None else self.map_keys.apply(rows)

    def to_pandas(  # type: ignore[override] # splits in pypaimon's form
        self,
        splits: Sequence[DataSplit] | None = None,
        parallelism: int | None = None,
        *,
        arrow_backed: bool = False,
    ) -> pd.DataFrame:
        """Read splits into a pandas DataFrame; with `arrow_backed` columns keep the types and the nulls of Arrow."""
        return super().to_pandas(splits, parallelism, arrow_backed=arrow_backed)  # type: ignore[arg-type] # to_arrow

    def to_iterator(self, splits: Sequence[DataSplit] | None = None) -> Iterator[GenericRow]:  # type: ignore[override]
        """Yield rows with their kinds, which are not a column here; values of BLOB columns are `Blob` objects."""
        given = self.new_plan().splits() if splits is None else plain_splits(splits)
        read = self if self._projection.kind is not None else self._with_kinds()
        keys = self.map_keys
        fields = read.projection.fields[1:] if keys is None else keys.fields(read.projection.fields[1:])
        for batch in table_read.TableRead.to_arrow_batch_reader(read, given):  # type: ignore[arg-type]
            rows = pa.Table.from_batches([batch]).select(range(1, batch.num_columns))
            kinds = batch.column(0).to_pylist()
            columns = [_values(column) for column in (rows if keys is None else keys.apply(rows)).columns]
            values = zip(*columns, strict=True) if columns else ((),) * len(kinds)
            for kind, row in zip(kinds, values, strict=True):
                yield GenericRow(row, fields, RowKind.from_string(kind))

    def to_spark(  # type: ignore[override] # splits in pypaimon's form
        self, splits: Sequence[DataSplit] | None = None, override_num_partitions: int | None = None
    ) -> DataFrame:
        """Read splits as a frame of the active Spark session."""
        return super().to_spark(plain_splits(splits), override_num_partitions)  # type: ignore[arg-type]

    def to_ray(  # type: ignore[override] # splits in pypaimon's form
        self,
        splits: Sequence[DataSplit] | None = None,
        ray_remote_args: Mapping[str, object] | None = None,
        concurrency: int | None = None,
        override_num_blocks: int | None = None,
        **read_args: object,
    ) -> Dataset:
        """Read splits as a dataset of Ray."""
        if override_num_blocks is not None and override_num_blocks < 1:
            raise InvalidInputError(f"override_num_blocks must be at least 1, got {override_num_blocks}")
        return super().to_ray(
            plain_splits(splits),  # type: ignore[arg-type]
            ray_remote_args,
            concurrency,
            override_num_blocks,
            **read_args,  # type: ignore[arg-type] # Ray's own arguments
        )

    def to_torch(  # type: ignore[override] # splits in pypaimon's form
        self,
        splits: Sequence[DataSplit] | None = None,
        streaming: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
        prefetch_concurrency: int = 1,
        **settings: object,
    ) -> TorchDataset[object]:
        """Return a PyTorch dataset of splits."""
        return super().to_torch(plain_splits(splits), streaming, prefetch_concurrency, **settings)  # type: ignore[arg-type]

    def _with_kinds(self) -> TableRead:
        projection = replace(self._projection.with_kinds(ROW_KIND), blobs="lazy")
        return TableRead(self._store, projection, self._predicate, self._limit, self._scan)

    def _threads(self, parallelism: int | None) -> int:
        if isinstance(parallelism, int) and parallelism < 1:
            raise InvalidInputError(f"parallelism must be >= 1, got {parallelism}")
        return super()._threads(parallelism)


def _values(column: pa.ChunkedArray) -> list[object]:
    """Return the Python values of a column."""
    values: list[Any] = column.to_pylist()
    return [BlobRef(v) if v is not None else None for v in values] if column.type == BlobType() else values


class ReadBuilder(core_read_builder.ReadBuilder):
    """Says what to read; a second filter replaces the first, and unknown columns are left out with a warning."""

    _scan_class: ClassVar[type[table_scan.TableScan]] = TableScan
    _read_class: ClassVar[type[table_read.TableRead]] = TableRead
    _row_filter: Filter | None = None
    _partition_filter: Filter | None = None
    _map_keys: MapKeys | None = None

    def with_filter(self, predicate: Filter | None) -> Self:
        """Keep rows that fulfil a predicate, in place of one that was given before."""
        self._row_filter = predicate
        return self._apply_filters()

    def with_partition_filter(self, partition_filter: Filter | None) -> Self:
        """Read only partitions that fulfil a predicate."""
        self._partition_filter = partition_filter
        return self._apply_filters()

    def with_projection(self, projection: str | Sequence[str] | Mapping[str, str] | None) -> Self:
        """Read some columns, in this order; those that the table lacks are left out."""
        self._map_keys = None
        if isinstance(projection, Mapping):
            if not projection:
                raise InvalidInputError("Projection expression mapping must not be empty")
            return super().with_projection(projection)
        if projection is None or isinstance(projection, str):
            return super().with_projection(projection)
        known = {field.name: field for field in self._all_fields()}
        names = known_columns(self._store.name, projection, known)
        self._map_keys = MapKeys.of(names, known)
        return super().with_projection(names if self._map_keys is None else self._map_keys.read)

    def new_read(self) -> TableRead:
        """Return what reads the splits of a plan."""
        read = super().new_read()
        assert isinstance(read, TableRead)  # noqa: S101 - the class of reads of this builder
        read.map_keys = self._map_keys
        return read

    def with_limit(self, limit: int | None) -> Self:
        """Read no more than this many rows; a negative number means none."""
        return super().with_limit(limit if limit is None else max(limit, 0))

    def read_type(self) -> list[DataField]:
        """Return the columns that are read, a ROW with only the fields that are asked for."""
        made = plan_projection(self._store.schema.fields, self._columns, hidden=self._hidden_fields())
        parts = {field.name: field for field in made.read_fields}
        return [parts[name] for name in dict.fromkeys(path[0] for path in made.paths)]

    def new_predicate_builder(self) -> PredicateBuilder:
        """Return a builder of predicates on the columns; fields of a ROW have the names of the projection too."""
        zone = self._store.options.lakewright_time_zone
        paths = self._projection().paths
        aliases = {"_".join(path): path for path in paths if len(path) > 1}
        return PredicateBuilder(self._all_fields(), zone, aliases)

    def explain(self, verbose: bool = False) -> ExplainResult:  # noqa: FBT001, FBT002 - pypaimon's signature
        """Plan the read and say what it would do."""
        shown = super().explain(verbose)
        facts: dict[str, Any] = {
            field.name: _peer_form(getattr(shown, field.name)) for field in dataclasses.fields(shown)
        }
        splits = None if shown.splits is None else [self._shown_split(one) for one in shown.splits]
        mode = _BUCKET_MODES.get(BucketMode(shown.bucket_mode), shown.bucket_mode)
        return ExplainResult(**{**facts, "splits": splits, "bucket_mode": mode})

    def _shown_split(self, one: plans.ExplainSplitInfo) -> plans.ExplainSplitInfo:
        pairs = zip(one.data_files, one.file_paths, strict=True)
        files: list[object] = [DataFileMeta(file, path, self._store) for file, path in pairs]
        return dataclasses.replace(one, data_files=files)  # type: ignore[arg-type]

    def _apply_filters(self) -> Self:
        self._predicate = TRUE
        super().with_filter(self._row_filter)
        return super().with_partition_filter(self._partition_filter)


@dataclass(frozen=True, slots=True)
class PruningStat(plans.PruningStat):
    """How many files one kind of pruning began with, and how many it left."""

    def __str__(self) -> str:
        return f"PruningStat(before={self.before}, after={self.after})"


class ExplainResult(plans.ExplainResult):
    """The plan of a read. `str()` shows it as pypaimon does."""

    __slots__ = ()

    def __str__(self) -> str:
        lines = super().__str__().splitlines()
        return "\n".join(["== PyPaimon Scan Plan ==", *(one for one in lines[1:] if not one.startswith("Manifests:"))])


def render_explain(result: plans.ExplainResult) -> str:
    """Return a plan as text."""
    return str(result)


class AsyncStreamingTableScan(stream_read.StreamScan):
    """Plans a table as it grows."""

    def plan(self) -> Plan | None:  # type: ignore[override] # the same plan in pypaimon's form
        """Return the next plan, None where the table has nothing new yet."""
        plan = super().plan()
        return None if plan is None else shown_plan(plan, self._store)


class StreamReadBuilder(stream_read.StreamReadBuilder):
    """Says what of a table to follow."""

    _builder_class: ClassVar[type[core_read_builder.ReadBuilder]] = ReadBuilder
    _scan_class: ClassVar[type[stream_read.StreamScan]] = AsyncStreamingTableScan


def known_columns(table: str, names: Sequence[str], known: Mapping[str, DataField]) -> list[str]:
    """Return the names, or paths into a ROW, that a table has, and warn of the others."""
    kept = [name for name in names if _is_known(name, known)]
    if len(kept) < len(names):
        missing = ", ".join(repr(name) for name in names if name not in kept)
        warnings.warn(
            f"{table} has no column {missing}: the read leaves it out, as pypaimon does",
            LakewrightWarning,
            stacklevel=3,
        )
    return kept


def _is_known(name: str, known: Mapping[str, DataField]) -> bool:
    if map_key(name, known) is not None:
        return True
    try:
        resolve_path(known, name)
    except ColumnNotExistException:
        return False
    return True


def _peer_form(fact: object) -> object:
    return PruningStat(fact.before, fact.after) if isinstance(fact, plans.PruningStat) else fact


def _in_seconds(schema: pa.Schema, fields: Sequence[DataField]) -> pa.Schema:
    """Return the schema of a read with seconds where pypaimon has them: in TIMESTAMP(0), which the core reads in ms."""
    types = {field.name: field.type for field in fields}
    for at, column in enumerate(schema):
        dtype = types.get(column.name)
        if isinstance(dtype, AtomicType) and dtype.root in TIMESTAMP_ROOTS and not dtype.precision:
            schema = schema.set(at, column.with_type(pa.timestamp("s", column.type.tz)))
    return schema


def _check_blob_parallelism(given: int | None) -> None:
    if given is not None and given < 1:
        raise InvalidInputError(f"blob_parallelism must be >= 1, got {given}")
