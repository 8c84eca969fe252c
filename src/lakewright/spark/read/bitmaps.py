"""Rows to leave out, as bits: words of bits per file and a scan of those files in, the scan without these rows out.

A scan knows the position of each row in its file. The words of all files follow each other in one array, which is a
scalar subquery over a local relation: Spark reads it once when a query runs, without a job, and looks up the bit of
every row. So only a filter is added to the scan; columns that a query does not need are still not read, and filters
that are pushed down apply besides the bits, never instead of them.

The words of a file are found by the file's size: comparing a number costs a tenth of comparing a name. If files of a
scan have the same size, they are found by name. A row of a file without words is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from lakewright.formats.deletion_vectors import Positions
from lakewright.spark.jobs.capabilities import Feature, has
from lakewright.spark.jobs.frames import from_arrow

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
    """Say whether files can be told apart by their sizes."""
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


def numbered(spark: SparkSession, frame: DataFrame, files: Sequence[ScannedFile], numbers: Sequence[int]) -> DataFrame:
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
        return _joined(spark, frame, _NAME, what, dict(zip((file.name for file in files), values, strict=True)))
    if len(files) > _CASES_MAX:
        return _joined(spark, frame, _SIZE, what, dict(zip((file.size for file in files), values, strict=True)))
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


def _joined(
    spark: SparkSession, frame: DataFrame, column: str, what: str, values: Mapping[str, int] | Mapping[int, int]
) -> tuple[DataFrame, Column]:
    """Return the frame joined with the values, and a column with the value that belongs to the file of each row."""
    places, numbers = pa.array(list(values)), pa.array(list(values.values()), pa.int32())
    known = from_arrow(spark, pa.table({column: places, what: numbers}))
    joined = frame.join(F.broadcast(known), column, "left")
    return joined, F.coalesce(F.col(what), _unknown(column))
