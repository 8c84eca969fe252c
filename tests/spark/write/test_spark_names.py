"""Names of columns on Spark: they resolve as `spark.sql.caseSensitive` says, wherever a frame is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import lakewright as lw
from lakewright.errors import ColumnNotExistException, InvalidInputError
from lakewright.spark import foreach_batch, update_by_row_id, upsert, write_stream, write_table
from lakewright.spark.frame_columns import CASE_SENSITIVE
from lakewright.spark.spark_features import Feature
from support.needs import needs
from support.spark_writes import new_table, rows_of

_INNER = pa.struct([("a", pa.int32()), ("b", pa.string())])
_COLUMNS = pa.schema(
    {"id": pa.int64(), "a": pa.int64(), "d": _INNER, "l": pa.list_(_INNER), "m": pa.map_(pa.string(), _INNER)}
)
_SHOUTED = """
    SELECT id AS ID, 10 * id AS A, named_struct('A', int(id), 'B', 'x') AS D,
        array(named_struct('a', 1, 'B', 'y')) AS L, map('k', named_struct('B', 'z', 'A', 2)) AS m
    FROM range(1, 3)
"""
_ROWS = [(i, 10 * i, {"a": i, "b": "x"}, [{"a": 1, "b": "y"}], [("k", {"a": 2, "b": "z"})]) for i in (1, 2)]


@pytest.fixture
def case_sensitive(spark: SparkSession) -> Iterator[None]:
    """Let names that differ in case alone be different names."""
    spark.conf.set(CASE_SENSITIVE, "true")
    yield
    spark.conf.unset(CASE_SENSITIVE)


def _append(df: DataFrame, table: lw.FileStoreTable, _root: Path) -> None:
    write_table(df, table)


def _merge_schema(df: DataFrame, table: lw.FileStoreTable, _root: Path) -> None:
    write_table(df, table, schema_mode="merge")


def _upsert(df: DataFrame, table: lw.FileStoreTable, _root: Path) -> None:
    upsert(df, table, ["ID"])


def _builder(df: DataFrame, table: lw.FileStoreTable, _root: Path) -> None:
    with table.new_batch_write_builder().new_write() as write:
        write.write_spark(df)


def _batch(df: DataFrame, table: lw.FileStoreTable, root: Path) -> None:
    stream = df.sparkSession.readStream.schema(df.schema).parquet(_as_files(df, root))
    query = write_stream(stream, table, checkpoint=str(root / "checkpoint"), trigger={"availableNow": True})
    assert query.awaitTermination(120)


def _sink(df: DataFrame, table: lw.FileStoreTable, _root: Path) -> None:
    df.write.format("lakewright").mode("append").save(_path(table))


def _merging_sink(df: DataFrame, table: lw.FileStoreTable, _root: Path) -> None:
    df.write.format("lakewright").mode("append").option("mergeSchema", "true").save(_path(table))


def _stream_sink(df: DataFrame, table: lw.FileStoreTable, root: Path) -> None:
    stream = df.sparkSession.readStream.schema(df.schema).parquet(_as_files(df, root))
    writer = stream.writeStream.format("lakewright").option("checkpointLocation", str(root / "checkpoint"))
    query = writer.trigger(availableNow=True).start(_path(table))
    assert query.awaitTermination(120)


_WAYS = [
    _append,
    _merge_schema,
    _upsert,
    _builder,
    _batch,
    pytest.param(_sink, marks=needs(Feature.PYTHON_SOURCE)),
    pytest.param(_merging_sink, marks=needs(Feature.PYTHON_SOURCE)),
    pytest.param(_stream_sink, marks=needs(Feature.STREAM_SINK)),
]


@pytest.mark.parametrize("way", _WAYS)
def test_columns_and_fields_match_whatever_their_case(
    spark: SparkSession, tmp_path: Path, way: Callable[[DataFrame, lw.FileStoreTable, Path], None]
) -> None:
    table = new_table(tmp_path, columns=_COLUMNS)
    way(spark.sql(_SHOUTED), table, tmp_path)
    assert rows_of(table) == _ROWS
    assert table.refreshed().field_names == _COLUMNS.names


def test_only_new_columns_are_added(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, columns=pa.schema({"id": pa.int64(), "d": _INNER}))
    frame = spark.sql("SELECT 1L AS ID, named_struct('A', 1, 'B', 'x', 'C', 2L) AS D, 3 AS New")
    write_table(frame, table, schema_mode="merge")
    assert rows_of(table) == [(1, {"a": 1, "b": "x", "C": 2}, 3)]
    assert table.refreshed().field_names == ["id", "d", "New"]


def test_rows_of_a_key_meet_whatever_the_case_of_the_frame(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(
        tmp_path,
        keys=["id"],
        options={"bucket": "1"},
        columns=pa.schema({"id": pa.int64(), "n": pa.int64(), "s": pa.string()}),
    )
    write_table(spark.sql("SELECT id AS Id, id AS N, 'old' AS S FROM range(3)"), table)
    upsert(spark.sql("SELECT 1L AS ID, 7L AS N"), table)
    write_table(spark.sql("SELECT 2L AS ID"), table, mode="delete")
    foreach_batch(table, checkpoint=str(tmp_path))  # keeps no names
    assert rows_of(table) == [(0, 0, "old"), (1, 7, "old")]


def test_rows_are_found_by_ids_whatever_the_case_of_the_frame(spark: SparkSession, tmp_path: Path) -> None:
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    table = new_table(tmp_path, columns=pa.schema({"id": pa.int64(), "n": pa.int64()}), options=options)
    write_table(spark.sql("SELECT id, id AS n FROM range(2)").coalesce(1), table)
    update_by_row_id(spark.sql("SELECT 1L AS _row_id, 5L AS N, 0 AS other"), table, ["N"])
    assert rows_of(table) == [(0, 0), (1, 5)]


@pytest.mark.parametrize(
    ("columns", "frame", "names"),
    [
        (["id"], "SELECT 1L AS id, 2L AS ID", "'id' and 'ID'"),
        (["id", "ID"], "SELECT 1L AS id, 2L AS ID", "'id' and 'ID'"),
        (["id"], "SELECT 1L AS id, 2L AS x, 3L AS X", "'x' and 'X'"),
        (["id", "ID"], "SELECT 1L AS Id", "'id' or 'ID'"),
        (["d"], "SELECT named_struct('a', 1, 'A', 2) AS D", "'D.a' and 'D.A'"),
    ],
)
def test_an_ambiguous_name_is_refused(
    spark: SparkSession, tmp_path: Path, columns: list[str], frame: str, names: str
) -> None:
    types = {"d": _INNER}
    table = new_table(tmp_path, columns=pa.schema({name: types.get(name, pa.int64()) for name in columns}))
    for mode in ("merge", None):
        with pytest.raises(InvalidInputError, match=names):
            write_table(spark.sql(frame), table, schema_mode=mode)
    assert table.refreshed().field_names == columns


def test_a_name_that_the_table_spells_alike_is_meant_exactly(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, columns=pa.schema({"id": pa.int64(), "ID": pa.int64()}))
    write_table(spark.sql("SELECT 3L AS ID"), table)
    assert rows_of(table) == [(None, 3)]


@pytest.mark.usefixtures("case_sensitive")
def test_names_are_exact_where_spark_says_so(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, columns=pa.schema({"id": pa.int64()}))
    shouted = spark.sql("SELECT 1L AS ID")
    with pytest.raises(InvalidInputError, match="did you mean 'id'"):
        write_table(shouted, table)
    with pytest.raises(ColumnNotExistException, match="did you mean 'id'"):
        upsert(spark.sql("SELECT 1L AS id"), table, ["ID"])
    write_table(spark.sql("SELECT 1L AS id, 2L AS ID"), table, schema_mode="merge")
    assert table.refreshed().field_names == ["id", "ID"]
    assert rows_of(table) == [(1, 2)]


@needs(Feature.PYTHON_SOURCE)
@pytest.mark.usefixtures("case_sensitive")
def test_names_are_exact_in_a_sink_where_spark_says_so(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, columns=pa.schema({"id": pa.int64()}))
    with pytest.raises(PySparkException, match="did you mean 'id'"):
        _sink(spark.sql("SELECT 1L AS ID"), table, tmp_path)
    assert rows_of(table) == []


def _path(table: lw.FileStoreTable) -> str:
    return table.table_path


def _as_files(df: DataFrame, root: Path) -> str:
    """Write a frame as parquet files that a stream reads."""
    path = str(root / "in")
    df.coalesce(1).write.parquet(path)
    return path
