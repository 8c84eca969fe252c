"""Merge and upsert on Spark: a frame and clauses in, one snapshot and its counts out.

    frame  --left join-->  rows of the table by their keys, with the places where they lie
           --shuffle---->  tasks: first the rows that met none, which are inserted, then one group of files after the
                           other with the rows that met its rows: decided and changed by the core's own code

The frame runs once in an attempt, and its rows never come to the driver. A task needs memory for the rows that meet
one group. What always holds: what matches is what matches embedded, or the call is refused before a row is read; rows
that are inserted because they were absent are committed only if nobody wrote where they could have come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import and_

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from lakewright.catalog.open import open_table
from lakewright.errors import LakewrightError, UnsupportedError
from lakewright.metadata.store import TableStore
from lakewright.read.scan import FileSchemas
from lakewright.read.split import DataSplit
from lakewright.spark.filters import is_exact, translated
from lakewright.spark.groups import apply_on, insert_on
from lakewright.spark.located import GROUP, POSITION, TASK, by_group, column_name, groups_in, located, task_count
from lakewright.spark.types import arrow_schema_of, spark_type
from lakewright.spark.write import check_frame
from lakewright.spec.arrow import from_arrow_type
from lakewright.spec.comparison import common_type, is_float
from lakewright.spec.literals import check_comparable
from lakewright.spec.predicate import TRUE
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.types import AtomicType
from lakewright.table import FileStoreTable
from lakewright.update.change import ChangeJob, GroupChange, Positions
from lakewright.update.clauses import MergePlan, On, read_source
from lakewright.update.find import groups, locate
from lakewright.update.match import Pairs, joined
from lakewright.update.merge import MergeClauses, chunks, plan_upsert, scope_of_absence, upsert_keys
from lakewright.update.result import UpdateResult
from lakewright.update.run import Prepare, Prepared, change, check_assigned, concluded, knowing_all
from lakewright.update.values import Side
from lakewright.update.ways import way_of

_CHUNK_ROWS = 1 << 16  # new rows that are made at once


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeBuilder(MergeClauses):
    """A merge of a Spark frame."""

    source: DataFrame

    def prepare(self) -> Prepare:
        """Check the merge, and return what does it on a snapshot without committing it."""
        _check_append(self.store)
        source = _Source.of(self.source, self.store.name)
        return partial(_prepare, self.store, source, self.plan(source.schema))


def merge(df: DataFrame, table: FileStoreTable | str, on: On) -> MergeBuilder:
    """Begin a merge of a frame into a table: add clauses, then `execute()`.

    `on` names columns that both have, or is a condition such as `t.id = s.id AND s.day > t.day`.
    """
    check_frame(df)
    return MergeBuilder(store=_opened(table).store, source=df, on=on)


def upsert(df: DataFrame, table: FileStoreTable | str, keys: Sequence[str] | None = None) -> UpdateResult:
    """Update the rows whose keys the frame has, and insert the rest of it; of equal keys in the frame the last counts.

    Columns that the frame lacks stay as they are, or are null or their default in new rows.
    """
    check_frame(df)
    store = _opened(table).store
    names = upsert_keys(store, keys)
    _check_append(store)
    source = _Source.of(df, store.name)
    plan = plan_upsert(store, source.schema, names)
    return change(store, partial(_prepare, store, replace(source, last_of_keys=True), plan), operation="MERGE")


def _opened(table: FileStoreTable | str) -> FileStoreTable:
    return open_table(table) if isinstance(table, str) else table


def _check_append(store: TableStore) -> None:
    if store.schema.primary_keys:
        raise UnsupportedError(
            f"{store.name}: rows of a primary-key table are merged embedded: give the merge df.toArrow()",
            table=store.name,
        )


@dataclass(frozen=True, slots=True)
class _Source:
    """The frame of a merge, and what the core sees of it."""

    frame: DataFrame
    schema: pa.Schema
    last_of_keys: bool = False  # of rows with equal keys only the last counts

    @classmethod
    def of(cls, df: DataFrame, table: str) -> _Source:
        return cls(df, read_source(arrow_schema_of(df.schema).empty_table(), table).schema)


# ---- on the driver ---------------------------------------------------------------------------------------------------


def _prepare(store: TableStore, source: _Source, plan: MergePlan, base: Snapshot | None) -> Prepared:
    """Merge into a snapshot of an append table."""
    spark = source.frame.sparkSession
    sides = _Sides(store, source, plan)
    work = _Work(store, plan, plan.source_columns)
    if base is None:
        done = insert_on(spark, sides.alone().select(*_columns(plan)), store, work)
        prepared = Prepared(tuple(m for one in done.applied for m in one.messages), way=way_of(store))
    else:
        parts = groups(store, base, TRUE if plan.by_source else plan.prunes)
        job = ChangeJob.on(store, base)
        known = knowing_all(job, parts)
        tasks = task_count(spark, store, parts, source.frame)
        frame = sides.joined(spark, parts) if parts else sides.alone()
        spread = F.pmod(F.hash(*sides.keys()), F.lit(tasks)).alias(TASK)
        frame = by_group(frame.select(spread, *_columns(plan)), parts, tasks, POSITION)
        done = apply_on(spark, frame, known, replace(work, written=known.store), inserts=store)
        prepared = concluded(job, done.applied)
    return replace(
        prepared,
        inserted=done.inserted,
        unchanged=scope_of_absence(store, plan) if done.inserted else None,
        reads=tuple(name for name in plan.target_columns if name in store.schema.field_names),
    )


def _columns(plan: MergePlan) -> list[str]:
    return [GROUP, POSITION, *(_source_name(at) for at in range(len(plan.source_columns)))]


def _source_name(place: int) -> str:
    return f"s{place}"


@dataclass(frozen=True, slots=True)
class _Sides:
    """Both sides of a merge as frames with columns by place: `s0`, ... of the source, `t0`, ... of the target."""

    store: TableStore
    source: _Source
    plan: MergePlan

    def alone(self) -> DataFrame:
        """Return the rows of the source with the place of no row."""
        nowhere = [F.lit(None).cast("int").alias(GROUP), F.lit(None).cast("long").alias(POSITION)]
        return self._source().select("*", *nowhere)

    def joined(self, spark: SparkSession, parts: Sequence[DataSplit]) -> DataFrame:
        """Return the rows of the source with the places of the rows that they meet, or of none."""
        names = self._target_names()
        condition = self._condition(names)
        target = located(spark, self.store, dict(enumerate(parts)), names, self.plan.prunes)
        how = "left" if self.plan.not_matched else "inner"
        return self._source().join(target, condition, how)

    def keys(self) -> list[Column]:
        """Return the columns of the source that rows are joined by."""
        return [F.col(_key_name(at)) for at in range(len(self.plan.on))]

    def _source(self) -> DataFrame:
        frame, plan = self.source.frame, self.plan
        places = [frame.columns.index(name) for name in plan.source_columns]
        named = frame.toDF(*(f"c{at}" for at in range(len(frame.columns))))
        columns = [F.col(f"c{place}").alias(_source_name(at)) for at, place in enumerate(places)]
        keys = [
            F.col(f"c{frame.columns.index(name)}").cast(spark_type(dtype)).alias(_key_name(at))
            for at, ((_, name), dtype) in enumerate(zip(plan.on, self._key_types(), strict=True))
        ]
        named = named.select(*columns, *keys)
        return self._last(named) if self.source.last_of_keys else named

    def _last(self, frame: DataFrame) -> DataFrame:
        """Return the rows of which no later one has the same key; those without a key too."""
        frame = frame.withColumn("order", F.monotonically_increasing_id())
        later = F.row_number().over(Window.partitionBy(*self.keys()).orderBy(F.col("order").desc()))
        return frame.withColumn("later", later).where((F.col("later") == 1) | ~self._complete()).drop("order", "later")

    def _complete(self) -> Column:
        """Say whether a row has a key: null and NaN are no part of one."""
        parts = zip(self.keys(), self._key_types(), strict=True)
        return reduce(and_, (key.isNotNull() & ~F.isnan(key) if is_float(t) else key.isNotNull() for key, t in parts))

    def _key_types(self) -> list[AtomicType]:
        """Return for each pair of join columns the type in which they are compared."""
        found = []
        for field, name in self.plan.on:
            own = check_comparable(field.type, field.name)
            other = check_comparable(from_arrow_type(self.source.schema.field(name).type, column=name), name)
            common = common_type(own, other)
            if common is None or not is_exact(own) or not is_exact(common):
                raise UnsupportedError(
                    f"{self.store.name}: Spark cannot match {field.name!r} ({own}) with {name!r} ({other}) exactly; "
                    "merge embedded, with df.toArrow()",
                    table=self.store.name,
                    column=field.name,
                )
            found.append(common)
        return found

    def _target_names(self) -> list[str]:
        refs = () if self.plan.residual is None else self.plan.residual.refs
        asked = sorted(ref.name for ref in refs if ref.side is Side.TARGET)
        return list(dict.fromkeys([*(field.name for field, _ in self.plan.on), *asked]))

    def _condition(self, names: Sequence[str]) -> Column:
        """Return when a row of the source meets one of the target."""
        parts = []
        for at, ((field, _), dtype) in enumerate(zip(self.plan.on, self._key_types(), strict=True)):
            own = F.col(column_name(names.index(field.name))).cast(spark_type(dtype))
            parts.append(own == F.col(_key_name(at)))
            if is_float(dtype):
                parts.append(~F.isnan(own))
        residual = self.plan.residual
        if residual is None:
            return reduce(and_, parts)
        exact = all(
            is_exact(leaf.dtype) or leaf.method in {"isNull", "isNotNull"} for leaf in residual.predicate.leaves()
        )
        found = translated(residual.predicate, partial(self._column, names)) if exact else None
        if found is None:
            raise UnsupportedError(
                f"{self.store.name}: Spark cannot ask {residual.predicate} exactly; merge embedded, with df.toArrow(), "
                "or move it to the condition of a clause",
                table=self.store.name,
            )
        return reduce(and_, [*parts, found])

    def _column(self, names: Sequence[str], path: tuple[str, ...]) -> Column:
        side, name, *inside = path
        own = side == Side.TARGET
        found = F.col(column_name(names.index(name)) if own else _source_name(self.plan.source_columns.index(name)))
        return reduce(Column.getField, inside, found)


def _key_name(place: int) -> str:
    return f"k{place}"


# ---- on an executor --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Work:
    """Makes new rows, and changes of groups, of the rows that a task gets."""

    store: TableStore
    plan: MergePlan
    columns: tuple[str, ...]
    written: TableStore | None = None  # as changed files are written

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[GroupChange | pa.Table]:
        """Yield what becomes of rows that are ordered by group; those that meet none come first."""
        schemas = FileSchemas(self.store)
        for part, runs in groups_in(batches):
            if part is None:
                yield from self._inserts(runs)
                continue
            rows = pa.Table.from_batches(list(runs))
            found = self._change(part, rows, schemas) if rows.num_rows or self.plan.by_source else None
            if found is not None and not found.is_empty:
                check_assigned(self.store, self.written or self.store, found)
                yield found

    def _inserts(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        for rows in _gathered(batches):
            made = self.plan.inserts(self._source(rows), np.arange(rows.num_rows))
            if made is not None:
                yield made

    def _source(self, rows: pa.Table) -> pa.Table:
        """Return rows of the source in the types of the core."""
        named = rows.select([_source_name(at) for at in range(len(self.columns))]).rename_columns(list(self.columns))
        return read_source(named, self.store.name)

    def _change(self, part: DataSplit, rows: pa.Table, schemas: FileSchemas) -> GroupChange:
        """Return what becomes of one group, given the rows of the source that meet its rows."""
        met = rows.column(POSITION).to_numpy()
        source = self._source(rows)
        deleted: list[Positions] = []
        updated: list[Positions] = []
        values: list[pa.Table] = []
        left = len(met)
        for positions, target in chunks(locate(self.store, part, self.plan.target_columns, schemas=schemas)):
            first, end = np.searchsorted(met, (positions[0], positions[-1] + 1))
            here, found = met[first:end], (positions, target)
            left -= len(here)
            if not self.plan.by_source:
                keep = np.isin(positions, here)
                found = positions[keep], target.filter(pa.array(keep))
            pairs = Pairs(np.searchsorted(found[0], here), np.arange(len(here), dtype=np.int64))
            made = self.plan.decide(found[1], source.slice(first, len(here)), pairs)
            deleted.append(found[0][made.deleted])
            updated.append(found[0][made.updated])
            values.extend([] if made.values is None else [made.values])
        if left:
            raise LakewrightError(f"{self.store.name}: {left} rows of {part.files[0].file_name} were not found again")
        return GroupChange(part, joined(deleted), joined(updated), pa.concat_tables(values) if values else None)


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield rows together until there are enough of them."""
    some: list[pa.RecordBatch] = []
    for batch in batches:
        some.append(batch)
        if sum(one.num_rows for one in some) >= _CHUNK_ROWS:
            yield pa.Table.from_batches(some)
            some = []
    if some:
        yield pa.Table.from_batches(some)
