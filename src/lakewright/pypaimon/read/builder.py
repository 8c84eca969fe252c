"""pypaimon's reads: lakewright's builders, scans and reads, with pypaimon's arguments, shapes and laxness.

A column that the table lacks is left out of a projection with a warning; a second filter replaces the first.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow as pa

from lakewright.errors import ColumnNotExistException, InvalidInputError, LakewrightWarning, UnsupportedError
from lakewright.pypaimon.read.map_keys import MapKeys, map_key
from lakewright.pypaimon.read.splits import DataFileMeta, DataSplit, Plan, plain_splits, shown_plan
from lakewright.pypaimon.rows import GenericRow, RowKind
from lakewright.pypaimon.values.predicate import PredicateBuilder
from lakewright.pypaimon.values.ranges import Range
from lakewright.pypaimon.values.words import TABLE_WORDS, speaking
from lakewright.read import builder as core
from lakewright.read import explain as plans
from lakewright.read.changes import stream
from lakewright.read.projection import ROW_KIND, plan_projection
from lakewright.read.splits import split
from lakewright.read.splits.plan import sharded
from lakewright.spec.options import CoreOptions
from lakewright.spec.predicate.builder import resolve_path
from lakewright.spec.predicate.filters import Filter
from lakewright.spec.predicate.predicate import TRUE
from lakewright.spec.schema.table_schema import BucketMode
from lakewright.spec.types import TIMESTAMP_ROOTS, AtomicType, DataField

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame
    from ray.data import Dataset
    from torch.utils.data import Dataset as TorchDataset

_BUCKET_MODES = {
    BucketMode.UNAWARE: "BUCKET_UNAWARE",
    BucketMode.KEY_DYNAMIC: "CROSS_PARTITION",
    BucketMode.POSTPONE: "POSTPONE_MODE",
}


@speaking(TABLE_WORDS)
class TableScan(core.TableScan):
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
        return self._shaped(partial(self._share, index=idx_of_this_subtask, count=number_of_para_subtasks))

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
        """Plan only the rows whose `_ROW_ID` lies in one of the ranges."""
        if not self._store.options.get(CoreOptions.ROW_TRACKING_ENABLED):
            raise InvalidInputError("Row ranges are only supported for data evolution tables")
        return super().with_row_ranges([(one.from_, one.to) if isinstance(one, Range) else one for one in row_ranges])

    def plan(self) -> Plan:  # type: ignore[override] # the same plan in pypaimon's form
        """Pick the snapshot and plan its splits."""
        return shown_plan(self.core_plan(), self._store)

    def core_plan(self) -> core.Plan:
        """Return the plan in lakewright's form."""
        self._check_shapes()
        return super().plan()

    def _share(self, splits: Sequence[split.DataSplit], index: int, count: int) -> list[split.DataSplit]:
        """Return the share of a worker: whole buckets of a keyed table; chunks as they are; other splits to the row."""
        if self._store.schema.primary_keys:
            return [one for one in splits if one.bucket % count == index]
        if not self._shuffled:
            return sharded(splits, index, count)
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


class TableRead(core.TableRead):
    """Turns splits into rows."""

    map_keys: MapKeys | None = None  # of a projection such as `tags['a']`

    def new_plan(self) -> core.Plan:
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
        return self._shown(super().to_arrow(plain_splits(splits), parallelism))  # type: ignore[arg-type]

    def to_arrow_batch_reader(  # type: ignore[override] # splits in pypaimon's form, and its order of arguments
        self,
        splits: Sequence[DataSplit] | None = None,
        blob_parallelism: int | None = None,
        parallelism: int | None = None,
    ) -> pa.RecordBatchReader:
        """Read splits lazily, batch by batch."""
        _check_blob_parallelism(blob_parallelism)
        read = super().to_arrow_batch_reader(plain_splits(splits), parallelism)  # type: ignore[arg-type]
        schema = self._shown(read.schema.empty_table()).schema
        if schema.equals(read.schema):
            return read
        shown = (batch for one in read for batch in self._shown(pa.Table.from_batches([one])).to_batches())
        return pa.RecordBatchReader.from_batches(schema, shown)

    def _shown(self, rows: pa.Table) -> pa.Table:
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
        """Yield rows with their kinds, which are not a column here."""
        given = self.new_plan().splits() if splits is None else plain_splits(splits)
        read = self if self._projection.kind is not None else self._with_kinds()
        keys = self.map_keys
        fields = read.projection.fields[1:] if keys is None else keys.fields(read.projection.fields[1:])
        for batch in core.TableRead.to_arrow_batch_reader(read, given):  # type: ignore[arg-type]
            rows = pa.Table.from_batches([batch]).select(range(1, batch.num_columns))
            kinds = batch.column(0).to_pylist()
            columns = [column.to_pylist() for column in (rows if keys is None else keys.apply(rows)).columns]
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
        return TableRead(self._store, self._projection.with_kinds(ROW_KIND), self._predicate, self._limit, self._scan)

    def _threads(self, parallelism: int | None) -> int:
        if isinstance(parallelism, int) and parallelism < 1:
            raise InvalidInputError(f"parallelism must be >= 1, got {parallelism}")
        return super()._threads(parallelism)


class ReadBuilder(core.ReadBuilder):
    """Says what to read; a second filter replaces the first, and unknown columns are left out with a warning."""

    _scan_class: ClassVar[type[core.TableScan]] = TableScan
    _read_class: ClassVar[type[core.TableRead]] = TableRead
    _row_filter: Filter | None = None
    _partition_filter: Filter | None = None
    _map_keys: MapKeys | None = None

    def with_filter(self, predicate: Filter | None) -> Self:
        """Keep rows that fulfil a predicate, in place of one that was given before."""
        self._row_filter = predicate
        return self._filtered()

    def with_partition_filter(self, partition_filter: Filter | None) -> Self:
        """Read only partitions that fulfil a predicate."""
        self._partition_filter = partition_filter
        return self._filtered()

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
        zone = self._store.options.get(CoreOptions.LAKEWRIGHT_TIME_ZONE)
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

    def _filtered(self) -> Self:
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


class AsyncStreamingTableScan(stream.StreamScan):
    """Plans a table as it grows."""

    def plan(self) -> Plan | None:  # type: ignore[override] # the same plan in pypaimon's form
        """Return the next plan, None where the table has nothing new yet."""
        plan = super().plan()
        return None if plan is None else shown_plan(plan, self._store)


class StreamReadBuilder(stream.StreamReadBuilder):
    """Says what of a table to follow."""

    _builder_class: ClassVar[type[core.ReadBuilder]] = ReadBuilder
    _scan_class: ClassVar[type[stream.StreamScan]] = AsyncStreamingTableScan


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
