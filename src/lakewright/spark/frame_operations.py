"""Operations on frames that not every PySpark has.

A release that has an operation (`capabilities`) runs it; for an older one it is made of operations that all have. What
always holds: rows, types and the task that gets a row are the same on both ways, on classic sessions and over Connect.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias, cast
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import DataType, StructField, StructType

from lakewright.engine.engine import TaskId
from lakewright.errors import LakewrightError
from lakewright.spark.spark_features import Feature, has, import_name
from lakewright.spark.spark_session import REFUSALS, has_spark_executors, is_connect, map_in_arrow, own_calls
from lakewright.spark.spark_types import arrow_schema_of, spark_schema
from lakewright.spec.arrow_types import from_arrow_schema

_SEED = 42  # of the hash by which Spark shuffles
_MESSAGE = "rows"
_ATTEMPT_BITS = 39  # below `INSERTING`, which tells the second writer of an attempt

TASK_NUMBER = "__lakewright_task"
TaskFunction: TypeAlias = Callable[[TaskId, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def repartition_by_task(frame: DataFrame, tasks: int, target: str, *order: str) -> DataFrame:
    """Shuffle rows to so many tasks, each row to the task whose number a column of type INT has, and sort them there.

    Without Spark's executors a shuffle may bring the rows of several numbers together; they are kept apart by the
    column `TASK_NUMBER`, by which `map_tasks` calls its function once for each number.
    """
    if not has_spark_executors(frame.sparkSession):
        numbered = frame.select("*", F.col(target).alias(TASK_NUMBER))
        shuffled = numbered.repartition(tasks, F.col(TASK_NUMBER))
        return map_in_arrow(shuffled, partial(_sort_rows, (TASK_NUMBER, *order)), shuffled.schema)
    if has(Feature.PLACEMENT):
        frame = frame.repartitionById(tasks, F.col(target))
    else:
        # Spark hashes what it shuffles by, so each number is replaced by one whose hash leads to the task.
        numbers = ",".join(map(str, numbers_of_tasks(tasks)))
        number = F.element_at(F.expr(f"array({numbers})"), F.pmod(F.col(target), F.lit(tasks)) + 1)
        frame = frame.repartition(tasks, number)
    return frame.sortWithinPartitions(*order) if order else frame


def rebalance(frame: DataFrame, column: str) -> DataFrame:
    """Bring rows with the same value of a column together; if there are very many of them, Spark may split them."""
    if has(Feature.REBALANCE) and has_spark_executors(frame.sparkSession):
        return frame.hint("rebalance", column)
    return frame.repartition(F.col(column))


def map_tasks(frame: DataFrame, function: TaskFunction, schema: str) -> DataFrame:
    """Return what a function makes of the rows of each task of a frame, given the number of the task and its attempt.

    Without Spark's executors a task without rows has no number, and the function is not called for it.
    """
    if has_spark_executors(frame.sparkSession):
        return map_in_arrow(frame, partial(_call_in_task, function), schema)
    if TASK_NUMBER not in frame.columns:
        frame = frame.select("*", F.spark_partition_id().alias(TASK_NUMBER))
    return map_in_arrow(frame, partial(_call_by_number, function), schema)


def split_runs(batches: Iterator[pa.RecordBatch], column: str) -> Iterator[tuple[int | None, pa.RecordBatch]]:
    """Split batches where the value of a column of integers changes."""
    for batch in batches:
        runs = pc.run_end_encode(batch.column(column))
        ends = runs.run_ends.to_pylist()
        for value, start, end in zip(runs.values.to_pylist(), [0, *ends], ends, strict=False):
            yield value, batch.slice(start, end - start)


def _sort_rows(names: Sequence[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition sorted; Sail drops `sortWithinPartitions` below a function, which promises less."""
    held = list(batches)
    if held:
        rows = pa.Table.from_batches(held)
        keys = [(name, "ascending") for name in names]
        yield from rows.take(pc.sort_indices(rows.select(names), keys, null_placement="at_start")).to_batches()


def _call_in_task(function: TaskFunction, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    context = TaskContext.get()
    if context is None:
        message = "a task of a Spark job can run only on an executor"
        raise LakewrightError(message)
    yield from function(TaskId(context.partitionId(), context.taskAttemptId()), batches)


def _call_by_number(function: TaskFunction, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for number, runs in groupby(split_runs(batches, TASK_NUMBER), key=itemgetter(0)):
        rows = (run.drop_columns([TASK_NUMBER]) for _, run in runs)
        yield from function(TaskId(cast("int", number), secrets.randbits(_ATTEMPT_BITS)), rows)


@lru_cache(maxsize=64)
def numbers_of_tasks(tasks: int) -> tuple[int, ...]:
    """Return for each task a number that Spark's shuffle by hash brings to this task.

    >>> [int(spark_hash(np.array([number], np.int32))[0]) % 3 for number in numbers_of_tasks(3)]
    [0, 1, 2]
    """
    numbers: dict[int, int] = {}
    start = 0
    while len(numbers) < tasks:
        tried = np.arange(start, start + 16 * tasks, dtype=np.int32)
        places = spark_hash(tried).astype(np.int64) % tasks
        for number, place in zip(tried.tolist(), places.tolist(), strict=True):
            numbers.setdefault(place, number)
        start += 16 * tasks
    return tuple(numbers[task] for task in range(tasks))


def spark_hash(numbers: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return what Spark's function `hash` gives for integers: Murmur3 in its 32-bit form, of one word.

    >>> spark_hash(np.array([0, 1, -1], np.int32)).tolist()
    [933211791, -559580957, -1604776387]
    """
    word = numbers.astype(np.uint32) * np.uint32(0xCC9E2D51)
    word = (word << np.uint32(15) | word >> np.uint32(17)) * np.uint32(0x1B873593)
    mixed = np.uint32(_SEED) ^ word
    mixed = (mixed << np.uint32(13) | mixed >> np.uint32(19)) * np.uint32(5) + np.uint32(0xE6546B64)
    mixed ^= np.uint32(4)  # the length in bytes
    mixed = (mixed ^ mixed >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    mixed = (mixed ^ mixed >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    hashed: NDArray[np.int32] = (mixed ^ mixed >> np.uint32(16)).view(np.int32)
    return hashed


def with_column(
    frame: DataFrame, name: str, dtype: DataType, function: Callable[[pa.Array], pa.Array], source: str
) -> DataFrame:
    """Return the frame with one more column, at its end, that a function computes from another column."""
    if has(Feature.ARROW_FUNCTION):
        to_udf: Any = import_name("pyspark.sql.pandas.functions", "arrow_udf")
        return frame.select("*", to_udf(function, dtype)(F.col(source)).alias(name))
    schema = StructType([*frame.schema.fields, StructField(name, dtype)])
    at = frame.columns.index(source)

    def append(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = [*batch.columns, function(batch.column(at))]
            yield pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, name])

    return map_in_arrow(frame, append, schema)


def from_arrow(spark: SparkSession, rows: pa.Table, schema: StructType | None = None) -> DataFrame:
    """Return a few rows as a frame; their types decide those of the frame unless a schema does."""
    if not rows.num_rows:  # of which Connect infers no types
        return spark.createDataFrame([], schema or spark_schema(from_arrow_schema(rows.schema)))
    if has(Feature.ARROW_ROWS):
        return spark.createDataFrame(rows) if schema is None else spark.createDataFrame(rows, schema)
    known = schema or spark_schema(from_arrow_schema(rows.schema))
    return map_in_arrow(spark.range(0, 1, 1, 1), _Carried(rows.to_batches()), known)


def to_arrow(frame: DataFrame) -> pa.Table:
    """Return all rows of a frame, which are few."""
    if has(Feature.ARROW_ROWS):
        return frame.toArrow()
    schema = arrow_schema_of(frame.schema)
    messages = map_in_arrow(frame, _messages, f"{_MESSAGE} binary").collect()
    tables = [pa.ipc.open_stream(message[0]).read_all().cast(schema) for message in messages]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def union_all(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of several frames with the same columns, in their order."""
    return reduce(lambda one, other: one.union(other), frames)


@contextmanager
def persist_frame(frame: DataFrame) -> Iterator[DataFrame | None]:
    """Persist a frame for the time of a block; None where the session refuses that."""
    try:
        kept = frame.persist()
    except REFUSALS:
        yield None
        return
    try:
        yield kept
    finally:
        kept.unpersist()


def sql_over(
    spark: SparkSession, text: str, args: dict[str, Any] | list[Any] | None, frames: Mapping[str, DataFrame]
) -> DataFrame:
    """Return the rows of a query over frames, which its text names in braces."""
    with own_calls():
        return _sql_over(spark, text, args, frames)


def _sql_over(
    spark: SparkSession, text: str, args: dict[str, Any] | list[Any] | None, frames: Mapping[str, DataFrame]
) -> DataFrame:
    if not frames or has(Feature.CONNECT_SQL_FRAMES) or not is_connect(spark):
        return spark.sql(text, args=args, **frames)
    # The text is looked up by the server whenever a frame over it is used, so the views have to stay.
    views = {key: f"lakewright_{uuid4().hex}" for key in frames}
    for key, frame in frames.items():
        frame.createTempView(views[key])
    return spark.sql(text.format(**views), args=args)


def condition_of(error: PySparkException) -> str | None:
    """Return what kind of error Spark says this is, such as PATH_NOT_FOUND."""
    return error.getCondition() if has(Feature.ERROR_CONDITION) else error.getErrorClass()


@dataclass(frozen=True, slots=True)
class _Carried:
    """Rows that travel with the function of a frame; pickling keeps their types."""

    batches: Sequence[pa.RecordBatch]

    def __call__(self, tasks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in tasks:
            yield from self.batches


def _messages(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()], pa.binary())], names=[_MESSAGE])
