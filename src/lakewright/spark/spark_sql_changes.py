"""Queries and change queries on Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import and_
from typing import TypeAlias, cast

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from lakewright.dml.change_plan import CLAUSE, value_name
from lakewright.dml.change_runner import (
    GROUP,
    POSITION,
    SnapshotGroups,
)
from lakewright.dml.change_tasks import KeyedMergeTask, MergeTask, source_name
from lakewright.dml.keyed_strategy import keyed_job
from lakewright.dml.row_changes import PreparedChange, change_method
from lakewright.errors import SQLSyntaxError
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.spark.frame_operations import condition_of, persist_frame, sql_over
from lakewright.spark.frame_read import frame_of
from lakewright.spark.row_matching import (
    BROADCAST_BYTES_MAX,
    TASK,
    changed_groups,
    has_bounds,
    has_plain_columns,
    is_much_smaller,
    key_bounds,
    located_rows,
    merged_by_bucket,
    shuffle_by_group,
    source_schema,
    task_count,
    write_merged,
)
from lakewright.spark.spark_engine import SparkEngine, size_of
from lakewright.spark.spark_session import in_session_zone, is_connect, read_setting
from lakewright.spark.spark_types import arrow_schema_of, fields_of
from lakewright.spec.identifier import quote_identifier
from lakewright.spec.predicate import Predicate, and_predicates
from lakewright.spec.types import AtomicType, DataField
from lakewright.statements import change_query as planned
from lakewright.statements.bind_tables import BoundStatement, BoundTable, Evaluation, TableState
from lakewright.statements.change_pushdown import merge_of
from lakewright.statements.change_query import ChangeQuery, RowSource, Text
from lakewright.statements.change_statement import ChangeAttempt
from lakewright.statements.spark_grammar import FragmentKind, args_by_name, text_by_name
from lakewright.statements.sql_text import Args, Fragment
from lakewright.statements.statements import MergeInto
from lakewright.table.file_store_table import FileStoreTable

# ---- Queries over frames ---------------------------------------------------------------------------------------------
# Invariant: parameters are bound, never pasted. Those by place (`?`) become parameters by name, because the
# text that Spark gets has the slices in another order, and some of them twice.

_NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"
# The kind of a syntax error, what Spark says, and where; 3.5 leaves out the code in the middle.
_SAID = re.compile(
    r"^\s*\[[\w.]+\]\s*(?P<what>.*?)(SQLSTATE: \w+)?\s*\(line (?P<line>\d+), pos (?P<at>\d+)\)", re.DOTALL
)
_NO_COLUMN = "UNRESOLVED_COLUMN.WITH_SUGGESTION"

Written: TypeAlias = Callable[[str | Fragment], str]  # how own text, or a slice, is written for Spark


@dataclass(frozen=True, slots=True)
class SparkEvaluation(Evaluation):
    """Evaluates slices of one statement with a Spark session."""

    spark: SparkSession

    def query(self, query: Fragment, at: TableState | None = None) -> DataFrame:
        """Return the rows of a query."""
        return self.run(self.bind([(query, FragmentKind.QUERY)], at), lambda written: written(query))

    def run(
        self, bound: BoundStatement, compose: Callable[[Written], str], frames: Mapping[str, DataFrame] | None = None
    ) -> DataFrame:
        """Return the rows of text that `compose` makes of slices, over their relations and more frames by name."""
        every = {**frames_of(self.spark, bound.relations), **(frames or {})}
        numbers = {piece.fragment: number for number, piece in enumerate(bound.pieces)}

        def written(part: str | Fragment) -> str:
            if isinstance(part, str):
                return part.replace("{", "{{").replace("}", "}}") if every else part
            return text_by_name(
                bound.text(numbers[part], placeholder, escape_braces=bool(every)), part, self.statement, self.args
            )

        try:
            return evaluate_text(self.spark, compose(written), args_by_name(self.args), every)
        except AnalysisException as error:
            explain_missing(bound, error)
            raise


def evaluate_text(
    spark: SparkSession, text: str, args: Args, frames: Mapping[str, DataFrame] | None = None
) -> DataFrame:
    """Return the rows of text over frames, which it names in braces."""
    return sql_over(spark, text, cast("dict[str, object]", args) or None, frames or {})


def frames_of(spark: SparkSession, relations: Sequence[BoundTable]) -> dict[str, DataFrame]:
    """Return the rows of relations as frames, by the names that `placeholder` gives them."""
    return {_key(relation): frame_of(spark, relation.builder(), filters_again=True) for relation in relations}


def placeholder(relation: BoundTable) -> str:
    """Return how the text of a statement names the frame of a relation."""
    return "{" + _key(relation) + "}"


def _key(relation: BoundTable) -> str:
    return f"{relation.name}_rows"  # no name of an argument of spark.sql


def syntax_error(spark: SparkSession, statement: Fragment, error: ParseException) -> SQLSyntaxError:
    """Return the error of this library for a text that Spark cannot read, with its place in the user's own text."""
    found = error
    if not is_connect(spark):
        try:  # the text that Spark was given has other names of tables, and thus other places
            spark._jsparkSession.sessionState().sqlParser().parsePlan(statement.text)  # noqa: SLF001 - only to see where
        except ParseException as own:
            found = own
    said = _SAID.search(str(found))
    if said is None:
        return statement.error(str(found).strip().partition("\n")[0])
    lines = statement.text.split("\n")[: int(said["line"]) - 1]
    at = sum(len(line) + 1 for line in lines) + int(said["at"])
    return statement.error(said["what"].strip().rstrip("."), min(at, len(statement.text)) if found is not error else 0)


def explain_missing(bound: BoundStatement, error: AnalysisException) -> None:
    """Raise an error of ours if Spark does not know a table or a column that we do not know either."""
    condition = condition_of(error)
    said = error.getMessageParameters() or {}
    if condition == _NO_COLUMN:
        proposed = [name.rpartition("`.`")[2].strip("` ") for name in said.get("proposal", "").split(",")]
        raise bound.missing_column(said.get("objectName", "").replace("`", ""), proposed) from error
    if condition != _NOT_FOUND:
        return
    for name in bound.left:
        spelled = ".".join(f"`{part.replace('`', '``')}`" for part in name.parts)
        if said.get("relationName", "").lower() == spelled.lower():
            raise bound.missing(name) from None


# ---- UPDATE, DELETE, MERGE -------------------------------------------------------------------------------------------
# rows of the table with their places, the source --change query of Spark--> rows that change, with their new values
#            --shuffle by group--> tasks apply them with the core's own code --> one commit
#
# Spark evaluates every expression of the user, except in statements that need no query: see
# `statements.change_statement`. Invariant: nothing of the rows comes to the driver but the bounds of the keys of a
# source.

_TARGET, _SOURCE = "lw_target", "lw_source"  # how the text of a change query names its frames
_PLACEHOLDERS = {RowSource.TARGET: "{lw_target}", RowSource.SOURCE: "{lw_source}"}
_HASHED_MAX = 3  # columns by which new rows are spread over the tasks


@dataclass(frozen=True, slots=True)
class SourceFrame:
    """The source of a merge in one attempt."""

    frame: DataFrame
    relations: tuple[BoundTable, ...]
    bytes: int | None = None
    is_persisted: bool = False

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return self.frame.columns

    def arrow_schema(self) -> pa.Schema:
        """Return its columns with their types."""
        return arrow_schema_of(self.frame.schema)

    @contextmanager
    def persisted_if_small(self, target_bytes: int) -> Iterator[SourceFrame]:
        """Persist the source within a `with` block, if it is much smaller than the files of the table."""
        if not is_much_smaller(self.bytes, target_bytes):
            yield self
            return
        with persist_frame(self.frame) as kept:
            yield self if kept is None else replace(self, frame=kept, is_persisted=True)

    def keys(self, plan: ChangeQuery) -> tuple[DataFrame, list[tuple[DataField, str]]]:
        """Return the columns that must be equal and have one type, so that bounds of one say something of the other.

        They come as a frame with columns `k0`, `k1`, ..., and with the columns of the target that they equal.
        """
        columns: list[Column] = []
        found: list[tuple[DataField, str]] = []
        known = {field.name: field for field in plan.store.schema.fields}
        for name, other in plan.equal:
            if name not in known or self.frame.columns.count(other) > 1:
                continue
            alias = f"k{len(found)}"
            column = F.col(quote_identifier(other)).alias(alias)
            if has_bounds(known[name], fields_of(self.frame.select(column).schema)[0].type):
                columns.append(column)
                found.append((known[name], alias))
        return self.frame.select(*columns), found


@dataclass(frozen=True, slots=True)
class SparkChanges:
    """Runs statements that change rows on Spark, which evaluates their expressions."""

    evaluation: SparkEvaluation

    inlines_source = False

    @property
    def workers(self) -> SparkEngine:
        """The workers of the session."""
        return SparkEngine(self.evaluation.spark)

    def in_zone(self, table: FileStoreTable) -> FileStoreTable:
        """Return a table whose conditions take a time without a zone as a time in the zone of the session."""
        return in_session_zone(self.evaluation.spark, table)

    def read_source(self, merge: MergeInto, at: TableState) -> SourceFrame:
        """Return the source of a merge."""
        bound = self.evaluation.bind([(merge.source, FragmentKind.RELATION)], at)
        query = planned.source_query(merge)
        frame = self.evaluation.run(bound, lambda written: "".join(written(part) for part in query))
        return SourceFrame(frame, bound.relations)

    def check(self, attempt: ChangeAttempt) -> None:
        """Do nothing: Spark checks the query when it runs."""

    def apply(self, attempt: ChangeAttempt, source: SourceFrame | None) -> PreparedChange:
        """Find the rows that change and apply what happens to them."""
        return _ChangeFrames(self.evaluation, attempt).prepare(source)


@dataclass(frozen=True, slots=True)
class _ChangeFrames:
    """The frames of one attempt at a statement."""

    evaluation: SparkEvaluation
    attempt: ChangeAttempt

    @property
    def store(self) -> TableStore:
        return self.attempt.store

    @property
    def plan(self) -> ChangeQuery:
        return self.attempt.plan

    def prepare(self, source: SourceFrame | None) -> PreparedChange:
        """Find the rows that change and apply what happens to them."""
        predicate = self.attempt.predicate
        if source is None:
            return self._apply(None, predicate)
        merged = self._merge_by_bucket(source.frame)
        if merged is not None:
            return merged
        sized = replace(source, bytes=size_of(source.frame))
        with sized.persisted_if_small(sum(self._bytes(part) for part in self.attempt.parts(predicate))) as kept:
            if kept.is_persisted and not self.plan.reaches_all:
                bounds = key_bounds(*kept.keys(self.plan), self.store.schema.partition_keys)
                predicate = and_predicates((bounds, predicate))
            return self._apply(kept, predicate)

    def _merge_by_bucket(self, frame: DataFrame) -> PreparedChange | None:
        """Merge bucket by bucket, without a query, if the merge of the library does what the statement says."""
        if not self.store.schema.primary_keys or not has_plain_columns(frame):
            return None
        source = source_schema(frame, self.store.name)
        plan = merge_of(self.plan, self.attempt.bound, source, self.evaluation.args, self.evaluation.lookup.zone)
        return None if plan is None else merged_by_bucket(frame, self.store, plan, self.attempt.base)

    def _bytes(self, part: DataSplit) -> int:
        return sum(file.file_size for file in part.files)

    def _apply(self, source: SourceFrame | None, predicate: Predicate) -> PreparedChange:
        store, plan = self.store, self.plan
        parts, base = self.attempt.parts(predicate), self.attempt.base
        frame = self._changes(source, parts, predicate)
        if not parts and not plan.inserts:
            return PreparedChange(method=change_method(store))
        tasks = task_count(self.evaluation.spark, store, parts, None if source is None else source.bytes)
        frame = frame.select(self._task_of_row(tasks).alias(TASK), *self._columns())
        if store.schema.primary_keys:
            task = KeyedMergeTask(store, plan.decided, keyed_job(store), predicate)
            like = frame if source is None else source.frame
            return write_merged(shuffle_by_group(frame, parts, tasks, POSITION), task, like=like)
        groups = SnapshotGroups(store, base, parts)
        frame = frame.drop(TASK) if base is None else shuffle_by_group(frame, parts, tasks, POSITION)
        return changed_groups(frame, groups, partial(MergeTask, store, plan.decided))

    # ---- frames

    def _changes(self, source: SourceFrame | None, parts: list[DataSplit], predicate: Predicate) -> DataFrame:
        """Return the rows of the change query."""
        spark, plan = self.evaluation.spark, self.plan
        asked = predicate if self.store.schema.primary_keys else self.attempt.predicate
        target = located_rows(spark, self.store, dict(enumerate(parts)), plan.reads, asked)
        target = target.toDF(planned.GROUP, planned.POSITION, *plan.reads)
        if source is not None and source.is_persisted and not plan.reaches_all:
            target = self._matching(target, source)
        frames = {_TARGET: target} | ({} if source is None else {_SOURCE: source.frame})
        text, values = plan.type_query()
        schema = self._run(text, frames).schema
        zone = self.evaluation.lookup.zone
        types = [field.type for field in arrow_schema_of(schema, time_zone=zone)][: len(values)]
        casts_fail = str(read_setting(spark, "spark.sql.ansi.enabled")).lower() == "true"
        return self._run(plan.query(types, casts_fail=casts_fail), frames)

    def _matching(self, target: DataFrame, source: SourceFrame) -> DataFrame:
        """Drop target rows without a match where they are read, instead of shuffling them to the source."""
        frame, keys = source.keys(self.plan)
        if not keys or (source.bytes or 0) > BROADCAST_BYTES_MAX:
            return target
        equal = [target[quote_identifier(field.name)] == frame[name] for field, name in keys]
        return target.join(F.broadcast(frame), reduce(and_, equal), "left_semi")

    def _run(self, text: Text, frames: dict[str, DataFrame]) -> DataFrame:
        def compose(written: Written) -> str:
            return self.plan.write(text, written, _PLACEHOLDERS.__getitem__)

        return self.evaluation.run(self.attempt.bound, compose, frames)

    def _columns(self) -> list[Column]:
        """Return group, position, and what the task needs of a changed row, by their names there."""
        values = [value_name(at) for at in range(len(self.plan.decided.values))]
        named = [F.col(name).alias(source_name(at)) for at, name in enumerate((CLAUSE, *values))]
        return [F.col("group").cast("int").alias(GROUP), F.col("position").cast("long").alias(POSITION), *named]

    def _task_of_row(self, tasks: int) -> Column:
        """Return the task of a row that has no group: rows with one primary key go to one task."""
        plan, keys = self.plan, self.store.schema.primary_keys
        plain = [field.name for field in self.store.schema.fields if isinstance(field.type, AtomicType)]
        asked = keys or [*(name for name, _ in plan.equal), *plain]
        names = list(dict.fromkeys(name for name in asked if name in plan.inserted))
        if not plan.inserts or not names:
            return F.lit(0)
        hashed = (value_name(plan.decided.values[name]) for name in (names if keys else names[:_HASHED_MAX]))
        return F.pmod(F.hash(*hashed), F.lit(tasks))
