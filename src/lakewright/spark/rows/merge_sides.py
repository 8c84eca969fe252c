"""The two sides of a merge as frames: a source and a plan in, source rows with the positions of matching rows out.

Columns are named by their index, `s0`, ... of the source and `t0`, ... of the target, so that no names clash. What
always holds: rows match exactly if they match embedded; a condition that Spark cannot evaluate so is refused before a
row is read. A source that is much smaller than the table is persisted during an attempt: the bounds of its keys then
prune files, and if it is small enough for a broadcast, its keys filter rows of the target where they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import and_
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from lakewright.distributed.rows.groups import GROUP, POSITION
from lakewright.distributed.rows.merge import source_name
from lakewright.errors import UnsupportedError
from lakewright.lsm.keys import SortColumn
from lakewright.metadata.store import TableStore
from lakewright.spark.jobs.estimate import size_of
from lakewright.spark.jobs.frames import to_arrow
from lakewright.spark.jobs.types import arrow_schema_of, spark_type
from lakewright.spark.read.filters import is_exact, translated
from lakewright.spark.rows.group_rows import column_name
from lakewright.spec.arrow import from_arrow_type
from lakewright.spec.predicate.builder import PredicateBuilder
from lakewright.spec.predicate.comparison import common_type
from lakewright.spec.predicate.literals import check_comparable
from lakewright.spec.predicate.predicate import FALSE, TRUE, Predicate, and_predicates
from lakewright.spec.types import BINARY_ROOTS, FLOAT_ROOTS, AtomicType, DataField, DataType
from lakewright.update.merge.clauses import MergePlan, read_source
from lakewright.update.values import Side

_SMALLER = 4  # a source is persisted if the files of the table are so many times larger
BROADCAST_BYTES_MAX = 32 << 20  # the keys of a source up to this size are sent to every worker
_LISTED_MAX = 1000  # a predicate lists up to so many values of a partition column, and gives bounds for more
_UNBOUNDED = FLOAT_ROOTS | BINARY_ROOTS | {"TIMESTAMP_LTZ", "TIME"}  # types whose bounds are not used

Find: TypeAlias = Callable[[Sequence[str]], DataFrame]  # the rows of the target with these columns, as `located` does


def source_schema(df: DataFrame, table: str) -> pa.Schema:
    """Return the columns of a frame as the core reads them."""
    return read_source(arrow_schema_of(df.schema).empty_table(), table).schema


def has_plain_columns(df: DataFrame) -> bool:
    """Return whether each column has a name of its own, and texts are compared byte by byte."""
    names = [name.casefold() for name in df.columns]
    return len({*names}) == len(names) and "collate" not in df.schema.simpleString().casefold()


def plan_columns(df: DataFrame, plan: MergePlan, *others: Column) -> DataFrame:
    """Return the columns of a frame that a plan needs as `s0`, `s1`, ..., and others, of columns `c0`, `c1`, ..."""
    names = df.columns
    frame = df.toDF(*(f"c{at}" for at in range(len(names))))
    own = [F.col(f"c{names.index(name)}").alias(source_name(at)) for at, name in enumerate(plan.source_columns)]
    return frame.select(*own, *others)


@dataclass(frozen=True, slots=True)
class _Key:
    """A pair of columns that must be equal, and the type in which they are compared."""

    field: DataField
    dtype: AtomicType
    source: str  # the column of the source, in that type
    zeros_differ: bool  # 0.0 is not equal to -0.0

    def of_target(self, names: Sequence[str]) -> Column:
        return F.col(column_name(names.index(self.field.name))).cast(spark_type(self.dtype))

    def is_equal(self, names: Sequence[str]) -> Column:
        """Return the condition that both sides are equal."""
        equal = self.of_target(names) == F.col(self.source)
        if not self.tells_zeros:
            return equal
        return equal & (_is_negative_zero(self.of_target(names)) == _is_negative_zero(F.col(self.source)))

    @property
    def tells_zeros(self) -> bool:
        """Whether 0.0 and -0.0, which are equal to Spark, must be told apart."""
        return self.zeros_differ and self.dtype.root in FLOAT_ROOTS

    def parts(self) -> list[Column]:
        """Return columns that are equal in two rows of the source if their keys are."""
        column = F.col(self.source)
        return [column, _is_negative_zero(column)] if self.tells_zeros else [column]

    def has_bounds(self) -> bool:
        """Return whether bounds of the source column can prune by the target's column."""
        return has_bounds(self.field, self.dtype)

    def has_value(self) -> Column:
        """Return the condition that the source has a value, since null equals nothing."""
        return F.col(self.source).isNotNull()


@dataclass(frozen=True, slots=True)
class MergeSides:
    """The two sides of a merge: the source frame, and the table whose rows may match it."""

    store: TableStore
    plan: MergePlan
    source: DataFrame  # the columns of the plan, and those that keys are compared by
    keys: tuple[_Key, ...]
    bytes: int | None  # size of the source, if it is known
    is_persisted: bool = False  # the source can be read several times without computing it again

    @classmethod
    def of(
        cls, store: TableStore, df: DataFrame, plan: MergePlan, *, last_by: Sequence[SortColumn] | None = None
    ) -> MergeSides:
        """Name the columns of a source.

        With `last_by` only its last row of each key counts, in the order of these columns and then of the frame.
        """
        names, schema = df.columns, source_schema(df, store.name)
        keys, columns = [], []
        for at, (field, name) in enumerate(plan.on):
            place, dtype = names.index(name), _compared_in(store, field, schema.field(name))
            if df.schema[place].dataType == spark_type(dtype):
                keys.append(_Key(field, dtype, source_name(plan.source_columns.index(name)), plan.finds_keys))
                continue
            keys.append(_Key(field, dtype, f"k{at}", plan.finds_keys))
            columns.append(F.col(f"c{place}").cast(spark_type(dtype)).alias(f"k{at}"))
        frame = plan_columns(df, plan, *columns)
        if last_by is not None:
            order = [
                _newest_first(column, source_name(plan.source_columns.index(column.field.name))) for column in last_by
            ]
            frame = _last(frame, keys, order)
        sides = cls(store, plan, frame, tuple(keys), size_of(df))
        sides._condition(sides._target_names())
        return sides

    @property
    def columns(self) -> list[str]:
        """The columns that tasks need of source rows: group, position, and the columns of the plan."""
        return [GROUP, POSITION, *(source_name(at) for at in range(len(self.plan.source_columns)))]

    @contextmanager
    def persisted_if_small(self, target_bytes: int) -> Iterator[MergeSides]:
        """Persist the source within a `with` block, if it is much smaller than the files of the table."""
        if not is_much_smaller(self.bytes, target_bytes):
            yield self
            return
        kept = self.source.persist()
        try:
            yield replace(self, source=kept, is_persisted=True)
        finally:
            kept.unpersist()

    def pruning(self) -> Predicate:
        """Return a predicate that every target row with a match fulfils; a query of the source finds its bounds."""
        return and_predicates((self._bounds(), self.plan.prunes))

    def without_matches(self) -> DataFrame:
        """Return the rows of the source, none of them with a match."""
        nowhere = [F.lit(None).cast("int").alias(GROUP), F.lit(None).cast("long").alias(POSITION)]
        return self.source.select("*", *nowhere)

    def join_target(self, find: Find) -> DataFrame:
        """Return the rows of the source with group and position of each row that they match, or nulls."""
        names = self._target_names()
        target = find(names)
        if not self.plan.not_matched:
            return self.source.join(target, self._condition(names))
        if self.is_persisted and (self.bytes or 0) <= BROADCAST_BYTES_MAX:
            # Target rows without a match are dropped where they are read, instead of being shuffled to the source.
            known = F.broadcast(self.source.select(*{key.source for key in self.keys}))
            target = target.join(known, reduce(and_, (key.is_equal(names) for key in self.keys)), "left_semi")
        return self.source.join(target, self._condition(names), "left")

    def task_of_row(self, tasks: int) -> Column:
        """Return the number of the task for each row of the source."""
        return F.pmod(F.hash(*(key.source for key in self.keys)), F.lit(tasks))

    def _bounds(self) -> Predicate:
        """Query the bounds of the source's keys, and the values of those that are partition columns."""
        bounded = [(key.field, key.source) for key in self.keys if key.has_bounds()]
        return key_bounds(self.source, bounded, self.store.schema.partition_keys)

    def _target_names(self) -> list[str]:
        refs = () if self.plan.residual is None else self.plan.residual.refs
        residual = sorted(ref.name for ref in refs if ref.side is Side.TARGET)
        return list(dict.fromkeys([*(field.name for field, _ in self.plan.on), *residual]))

    def _condition(self, names: Sequence[str]) -> Column:
        """Return the condition that a source row matches a target row."""
        parts = [key.is_equal(names) for key in self.keys]
        if self.plan.residual is None:
            return reduce(and_, parts)
        residual = self.plan.residual.predicate
        exact = all(is_exact(leaf.dtype) or leaf.method in {"isNull", "isNotNull"} for leaf in residual.leaves())
        condition = translated(residual, partial(self._column, names)) if exact else None
        if condition is None:
            raise UnsupportedError(
                f"{self.store.name}: Spark cannot ask {residual} exactly; merge embedded, with df.toArrow(), or move "
                "it to the condition of a clause",
                table=self.store.name,
            )
        return reduce(and_, [*parts, condition])

    def _column(self, names: Sequence[str], path: tuple[str, ...]) -> Column:
        side, name, *inside = path
        own = side == Side.TARGET
        column = F.col(column_name(names.index(name)) if own else source_name(self.plan.source_columns.index(name)))
        return reduce(lambda outer, inner: outer.getField(inner), inside, column)


def _is_negative_zero(column: Column) -> Column:
    """Return whether a floating-point column is -0.0, which Spark compares, joins and groups as 0.0."""
    return F.when(column == 0, column.cast("string") == "-0.0").otherwise(F.lit(False))  # noqa: FBT003 - a value


def is_much_smaller(source_bytes: int | None, target_bytes: int) -> bool:
    """Return whether a source is so much smaller than the files of the table that it is worth to persist it."""
    return source_bytes is not None and source_bytes * _SMALLER <= target_bytes


def has_bounds(field: DataField, other: DataType) -> bool:
    """Return whether bounds of a column of another type can prune by a column of the target."""
    own = field.type
    if not isinstance(own, AtomicType) or not isinstance(other, AtomicType):
        return False
    return own.type == other.type and own.root not in _UNBOUNDED


def key_bounds(source: DataFrame, keys: Sequence[tuple[DataField, str]], partition_keys: Sequence[str]) -> Predicate:
    """Query the bounds of columns of a source, and the values of those that match partition columns of the target.

    Every row of the target that a row of the source matches fulfils the predicate.
    """
    if not keys:
        return TRUE
    listed = [(field, name) for field, name in keys if field.name in partition_keys]
    aggregates = [aggregate(name) for _, name in keys for aggregate in (F.min, F.max)]
    aggregates += [F.collect_set(name) for _, name in listed]
    row = [column[0] for column in to_arrow(source.select(*aggregates)).columns]
    values = {field.name: values.values for (field, _), values in zip(listed, row[2 * len(keys) :], strict=True)}
    return and_predicates(
        _within(field, low, high, values.get(field.name))
        for (field, _), low, high in zip(keys, row[::2], row[1::2], strict=False)
    )


def _within(field: DataField, low: pa.Scalar, high: pa.Scalar, values: pa.Array | None) -> Predicate:
    """Return a predicate that all values of a column fulfil: a list of them, or their bounds."""
    if not low.is_valid:
        return FALSE
    builder = PredicateBuilder([field])
    if values is not None and len(values) <= _LISTED_MAX:
        return builder.is_in(field.name, list(values))
    return builder.between(field.name, low, high)


def _compared_in(store: TableStore, field: DataField, given: pa.Field) -> AtomicType:
    """Return the type in which a column of the target and one of the source are compared."""
    own = check_comparable(field.type, field.name)
    other = check_comparable(from_arrow_type(given.type, column=given.name), given.name)
    common = common_type(own, other)
    if common is None or not is_exact(own) or not is_exact(common):
        raise UnsupportedError(
            f"{store.name}: Spark cannot match {field.name!r} ({own}) with {given.name!r} ({other}) exactly; merge "
            "embedded, with df.toArrow()",
            table=store.name,
            column=field.name,
        )
    return common


def _newest_first(column: SortColumn, name: str) -> Column:
    """Return the sort order of a sequence field in which the newest row comes first; nulls are the oldest."""
    sequence = F.col(name).cast(spark_type(column.field.type))
    return sequence.asc_nulls_last() if column.descending else sequence.desc_nulls_last()


def _last(frame: DataFrame, keys: Sequence[_Key], order: Sequence[Column]) -> DataFrame:
    """Return the newest, or last, row of each key, and all rows with null in their key."""
    frame = frame.withColumn("order", F.monotonically_increasing_id())
    equal = Window.partitionBy(*(part for key in keys for part in key.parts()))
    later = F.row_number().over(equal.orderBy(*order, F.col("order").desc()))
    complete = reduce(and_, (key.has_value() for key in keys))
    return frame.withColumn("later", later).where((F.col("later") == 1) | ~complete).drop("order", "later")
