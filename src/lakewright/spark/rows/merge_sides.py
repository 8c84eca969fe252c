"""The two sides of a merge as frames: a source and a plan in, rows of the source with the rows that they meet out.

Columns are called by their places, `s0`, ... of the source and `t0`, ... of the target, so that no name is in the way.
What always holds: rows meet exactly if they do embedded; a condition that Spark cannot ask so is refused before a row
is read. A source that is much smaller than the table is kept for the time of an attempt: its keys then say which files
matter, and where they are few, which rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import and_
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from lakewright.errors import UnsupportedError
from lakewright.lsm.keys import SortColumn
from lakewright.metadata.store import TableStore
from lakewright.spark.jobs.estimate import size_of
from lakewright.spark.jobs.types import arrow_schema_of, spark_type
from lakewright.spark.read.filters import is_exact, translated
from lakewright.spark.rows.located import GROUP, POSITION, column_name
from lakewright.spec.arrow import from_arrow_type
from lakewright.spec.predicate.builder import PredicateBuilder
from lakewright.spec.predicate.comparison import common_type
from lakewright.spec.predicate.literals import check_comparable
from lakewright.spec.predicate.predicate import FALSE, TRUE, Predicate, and_predicates
from lakewright.spec.types import BINARY_ROOTS, FLOAT_ROOTS, AtomicType, DataField
from lakewright.update.merge.clauses import MergePlan, read_source
from lakewright.update.values import Side

_SMALLER = 4  # a source is kept if the files of the table are so many times larger
_FEW_BYTES = 32 << 20  # of a source whose keys every worker may have
_CHUNK_ROWS = 1 << 16  # rows that are looked at together
_LISTED_MAX = 1000  # so many values of a partition column are asked for by name, more by their bounds
_UNBOUNDED = FLOAT_ROOTS | BINARY_ROOTS | {"TIMESTAMP_LTZ", "TIME"}  # columns whose bounds are not asked for

Find: TypeAlias = Callable[[Sequence[str]], DataFrame]  # the rows of the target with these columns, as `located` does


def source_schema(df: DataFrame, table: str) -> pa.Schema:
    """Return what the core sees of a frame."""
    return read_source(arrow_schema_of(df.schema).empty_table(), table).schema


def source_name(place: int) -> str:
    """Return what a column of the source is called."""
    return f"s{place}"


def source_rows(plan: MergePlan, rows: pa.Table) -> pa.Table:
    """Return rows of the source that reached a task under their names, in the types of the core."""
    names = list(plan.source_columns)
    columns = rows.select([source_name(at) for at in range(len(names))])
    return read_source(columns.rename_columns(names), plan.table)


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield rows together until there are enough of them."""
    some: list[pa.RecordBatch] = []
    for batch in batches:
        some.append(batch)
        if sum(one.num_rows for one in some) >= _CHUNK_ROWS:
            yield pa.Table.from_batches(some)
            some = []
    if some:
        yield pa.Table.from_batches(some)


@dataclass(frozen=True, slots=True)
class _Key:
    """A pair of columns that must be equal: what each side has, and in which type they are compared."""

    field: DataField
    dtype: AtomicType
    source: str  # the column of the source, in that type

    def of_target(self, names: Sequence[str]) -> Column:
        return F.col(column_name(names.index(self.field.name))).cast(spark_type(self.dtype))

    def is_met(self, names: Sequence[str]) -> Column:
        """Return when both sides are equal."""
        return self.of_target(names) == F.col(self.source)

    def has_bounds(self) -> bool:
        """Say whether bounds of the source are bounds of the target's column."""
        own = self.field.type
        return isinstance(own, AtomicType) and own.type == self.dtype.type and own.root not in _UNBOUNDED

    def is_there(self) -> Column:
        """Return when the source has a value that can be equal to another."""
        return F.col(self.source).isNotNull()


@dataclass(frozen=True, slots=True)
class Sides:
    """A source and a table, about to meet."""

    store: TableStore
    plan: MergePlan
    source: DataFrame  # the columns of the plan, and those that keys are compared by
    keys: tuple[_Key, ...]
    bytes: int | None  # of the source, if somebody knows
    is_kept: bool = False  # the source is there for a second use

    @classmethod
    def of(
        cls, store: TableStore, df: DataFrame, plan: MergePlan, *, last_by: Sequence[SortColumn] | None = None
    ) -> Sides:
        """Name the columns of a source.

        With `last_by` only its last row of each key counts, in the order of these columns and then of the frame.
        """
        names, schema = df.columns, source_schema(df, store.name)
        frame = df.toDF(*(f"c{at}" for at in range(len(names))))
        columns = [F.col(f"c{names.index(name)}").alias(source_name(at)) for at, name in enumerate(plan.source_columns)]
        keys = []
        for at, (field, name) in enumerate(plan.on):
            place, dtype = names.index(name), _compared_in(store, field, schema.field(name))
            if df.schema[place].dataType == spark_type(dtype):
                keys.append(_Key(field, dtype, source_name(plan.source_columns.index(name))))
                continue
            keys.append(_Key(field, dtype, f"k{at}"))
            columns.append(F.col(f"c{place}").cast(spark_type(dtype)).alias(f"k{at}"))
        frame = frame.select(*columns)
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
        """What tasks need of the rows of the source: where they belong, and the columns of the plan."""
        return [GROUP, POSITION, *(source_name(at) for at in range(len(self.plan.source_columns)))]

    @contextmanager
    def keeping(self, target_bytes: int) -> Iterator[Sides]:
        """Keep the source for more than one use where that is little against the table."""
        if self.bytes is None or self.bytes * _SMALLER > target_bytes:
            yield self
            return
        kept = self.source.persist()
        try:
            yield replace(self, source=kept, is_kept=True)
        finally:
            kept.unpersist()

    def pruning(self) -> Predicate:
        """Return what every row of the target fulfils that may meet one of the source, which runs for it."""
        return and_predicates((self._bounds(), self.plan.prunes))

    def alone(self) -> DataFrame:
        """Return the rows of the source with the place of no row."""
        nowhere = [F.lit(None).cast("int").alias(GROUP), F.lit(None).cast("long").alias(POSITION)]
        return self.source.select("*", *nowhere)

    def joined(self, find: Find) -> DataFrame:
        """Return the rows of the source with the places of the rows that they meet, or of none."""
        names = self._target_names()
        target = find(names)
        if not self.plan.not_matched:
            return self.source.join(target, self._condition(names))
        if self.is_kept and (self.bytes or 0) <= _FEW_BYTES:
            # Rows that meet nothing are dropped where they are read, instead of being sent to where the source is.
            known = F.broadcast(self.source.select(*{key.source for key in self.keys}))
            target = target.join(known, reduce(and_, (key.is_met(names) for key in self.keys)), "left_semi")
        return self.source.join(target, self._condition(names), "left")

    def spread(self, tasks: int) -> Column:
        """Return a task for each row of the source."""
        return F.pmod(F.hash(*(key.source for key in self.keys)), F.lit(tasks))

    def _bounds(self) -> Predicate:
        """Look up what the keys of the source are: their bounds, and the values of partition columns."""
        asked = [key for key in self.keys if key.has_bounds()]
        if not asked:
            return TRUE
        listed = [key for key in asked if key.field.name in self.store.schema.partition_keys]
        wanted = [made(key.source) for key in asked for made in (F.min, F.max)]
        wanted += [F.collect_set(key.source) for key in listed]
        found = [column[0] for column in self.source.select(*wanted).toArrow().columns]
        values = {key.field.name: values.values for key, values in zip(listed, found[2 * len(asked) :], strict=True)}
        return and_predicates(
            _within(key.field, low, high, values.get(key.field.name))
            for key, low, high in zip(asked, found[::2], found[1::2], strict=False)
        )

    def _target_names(self) -> list[str]:
        refs = () if self.plan.residual is None else self.plan.residual.refs
        asked = sorted(ref.name for ref in refs if ref.side is Side.TARGET)
        return list(dict.fromkeys([*(field.name for field, _ in self.plan.on), *asked]))

    def _condition(self, names: Sequence[str]) -> Column:
        """Return when a row of the source meets one of the target."""
        parts = [key.is_met(names) for key in self.keys]
        if self.plan.residual is None:
            return reduce(and_, parts)
        asked = self.plan.residual.predicate
        exact = all(is_exact(leaf.dtype) or leaf.method in {"isNull", "isNotNull"} for leaf in asked.leaves())
        found = translated(asked, partial(self._column, names)) if exact else None
        if found is None:
            raise UnsupportedError(
                f"{self.store.name}: Spark cannot ask {asked} exactly; merge embedded, with df.toArrow(), or move it "
                "to the condition of a clause",
                table=self.store.name,
            )
        return reduce(and_, [*parts, found])

    def _column(self, names: Sequence[str], path: tuple[str, ...]) -> Column:
        side, name, *inside = path
        own = side == Side.TARGET
        found = F.col(column_name(names.index(name)) if own else source_name(self.plan.source_columns.index(name)))
        return reduce(Column.getField, inside, found)


def _within(field: DataField, low: pa.Scalar, high: pa.Scalar, values: pa.Array | None) -> Predicate:
    """Return a predicate that the values of a column fulfil."""
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
    """Return the order in which the newest row of a table's sequence field comes first; nulls are the oldest."""
    found = F.col(name).cast(spark_type(column.field.type))
    return found.asc_nulls_last() if column.descending else found.desc_nulls_last()


def _last(frame: DataFrame, keys: Sequence[_Key], order: Sequence[Column]) -> DataFrame:
    """Return the rows of which no newer or later one has the same key; those without a key too."""
    frame = frame.withColumn("order", F.monotonically_increasing_id())
    equal = Window.partitionBy(*(key.source for key in keys))
    later = F.row_number().over(equal.orderBy(*order, F.col("order").desc()))
    complete = reduce(and_, (key.is_there() for key in keys))
    return frame.withColumn("later", later).where((F.col("later") == 1) | ~complete).drop("order", "later")
