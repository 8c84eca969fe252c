"""`format("lakewright")`: what the verbs and SQL of Spark can do with a table, and what they say where they cannot."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import LongType, StructField, StructType

import lakewright as lw
from lakewright.engine.engine import TaskId, TaskResult
from lakewright.errors import InvalidInputError, LakewrightError, LakewrightWarning, UnsupportedError
from lakewright.spark import read_table
from lakewright.spark.data_sinks import SparkTableSink, TaskWritten
from lakewright.spark.data_source import LakewrightSource
from lakewright.spark.source_options import READ, SourceOptions
from lakewright.spark.spark_engine import SparkTaskResult
from lakewright.spark.spark_features import Feature
from lakewright.spark.spark_types import spark_schema
from support.needs import needs

pytestmark = needs(Feature.PYTHON_SOURCE)

DOOR = "lakewright"


@pytest.fixture
def catalog(tmp_path: Path) -> lw.Catalog:
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    made.create_database("d")
    return made


def _table(catalog: lw.Catalog, columns: pa.Schema, **given: object) -> lw.FileStoreTable:
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, **given))  # type: ignore[arg-type]
    return catalog.get_table("d.t")


PAIRS = pa.schema([pa.field("id", pa.int64()), pa.field("n", pa.int64())])
DAYS = pa.schema([pa.field("id", pa.int64()), pa.field("day", pa.string())])


def _pairs(catalog: lw.Catalog, **options: str) -> lw.FileStoreTable:
    return _table(catalog, PAIRS, primary_keys=["id"], options={"bucket": "2", **options})


def _days(catalog: lw.Catalog) -> lw.FileStoreTable:
    table = _table(catalog, DAYS, partition_keys=["day"])
    lw.write_table(pa.table({"id": [1, 2, 3], "day": ["a", "a", "b"]}), table)
    return table


def _rows(table: lw.FileStoreTable) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in lw.read_table(table).to_pylist())


def _files(table: lw.FileStoreTable) -> set[str]:
    return {path.name for path in Path(table.table_path).rglob("data-*")}


def _named(table: lw.FileStoreTable) -> set[str]:
    splits = table.new_read_builder().new_scan().plan().splits()
    return {file.file_name for split in splits for file in split.files}


def _read(options: Mapping[str, str], schema: StructType | None = None) -> list[dict[str, object]]:
    """Read through the door as Spark does, but in this process."""
    source = LakewrightSource(dict(options))
    wanted = schema or source.schema()
    reader = LakewrightSource(dict(options)).reader(schema=wanted)
    return [
        row
        for part in reader.partitions()
        for batch in reader.read(part)
        for row in batch.to_pylist()  # type: ignore[union-attr]
    ]


# ---- options ---------------------------------------------------------------------------------------------------------


def test_an_option_that_means_nothing_is_refused_with_what_was_meant() -> None:
    with pytest.raises(InvalidInputError, match="no option 'snapshot-id'; did you mean 'snapshot_id'"):
        SourceOptions.of({"path": "/t", "snapshot-id": "3"}, READ)
    with pytest.raises(InvalidInputError, match=r"did you mean 'scan.snapshot-id'"):
        SourceOptions.of({"path": "/t", "scan.snapshot_id": "3"}, READ)


def test_options_are_sorted_by_what_they_are_for() -> None:
    given = {"Path": "/t", "Filter": "id > 1", "scan.tag-name": "x", "s3.secret-key": "hidden", "fs.s3a.endpoint": "e"}
    said = SourceOptions.of(given, READ)
    assert (said.place, said.words, said.table) == ({"path": "/t"}, {"filter": "id > 1"}, {"scan.tag-name": "x"})
    assert set(said.storage) == {"s3.secret-key", "fs.s3a.endpoint"}
    assert "hidden" not in repr(said)
    assert said.travels


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "got no path of a table.*CREATE TEMPORARY VIEW"),
        ({"paths": '["/a","/b"]'}, "one table at a time"),
        ({"path": "/t", "table": "d.t"}, "not both"),
        ({"warehouse": "/w"}, "'table' is missing"),
        ({"table": "d.t"}, "'warehouse' is missing"),
        ({"path": "/nowhere/at/all"}, "there is no table at /nowhere/at/all"),
    ],
)
def test_options_that_name_no_table_say_what_is_missing(options: dict[str, str], message: str) -> None:
    with pytest.raises(LakewrightError, match=message):
        LakewrightSource(options).schema()


@pytest.mark.parametrize(
    ("word", "value", "message"),
    [
        ("snapshot_id", "three", "whole number, not 'three'"),
        ("row_kinds", "maybe", "true or false, not 'maybe'"),
        ("columns", "[1]", "a list of names"),
        ("columns", "[", "no JSON list"),
        ("num_partitions", "0", "at least 1, not 0"),
        ("filter", "nothing = 1", "there is no column 'nothing'"),
    ],
)
def test_words_that_make_no_sense_are_refused(catalog: lw.Catalog, word: str, value: str, message: str) -> None:
    with pytest.raises(LakewrightError, match=message):
        _read({"path": _days(catalog).table_path, word: value})


def test_a_table_is_found_by_path_or_by_name(catalog: lw.Catalog) -> None:
    table = _days(catalog)
    by_name = {"warehouse": catalog.warehouse, "table": "d.t"}
    assert _read(by_name) == _read({"path": table.table_path}) == lw.read_table(table).to_pylist()
    assert LakewrightSource(by_name).schema() == spark_schema(table.fields)


def test_the_words_of_a_read(catalog: lw.Catalog) -> None:
    table = _pairs(catalog)
    for rows in ({"id": [1, 2], "n": [1, 1]}, {"id": [2, 3], "n": [2, 2]}, {"id": [3], "n": [3]}):
        lw.write_table(pa.table(rows), table)
    table.create_tag("first", snapshot_id=1)
    moments = [table.store.snapshots.get(at).time_millis for at in (1, 2, 3)]
    here = {"path": table.table_path}

    def values(**words: str) -> list[tuple[object, ...]]:
        return sorted(tuple(row.values()) for row in _read({**here, **words}))

    assert values() == [(1, 1), (2, 2), (3, 3)]
    assert values(snapshot_id="1") == values(tag="first") == values(timestamp=str(moments[0])) == [(1, 1), (2, 1)]
    assert values(**{"scan.snapshot-id": "2"}) == values(**{"scan.timestamp-millis": str(moments[1])})
    local = dt.datetime.fromtimestamp(moments[1] / 1000).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]  # noqa: DTZ006 - as Paimon's
    assert values(timestamp=local) == [(1, 1), (2, 2), (3, 2)]
    assert values(incremental="1,3", incremental_mode="diff", row_kinds="true") == [
        ("+I", 3, 3), ("+U", 2, 2), ("-U", 2, 1),
    ]  # fmt: skip
    assert values(columns="n", filter="id > 1") == [(2,), (3,)]
    assert values(columns='["n", "id"]', filter="id = 3") == [(3, 3)]
    with pytest.raises(InvalidInputError, match="give one of snapshot_id, tag"):
        values(snapshot_id="1", tag="first")


def test_a_schema_of_the_user_leaves_columns_out_and_changes_none(catalog: lw.Catalog) -> None:
    table = _days(catalog)
    here = {"path": table.table_path}
    ids = StructType([StructField("id", LongType())])
    assert [row["id"] for row in _read(here, ids)] == [1, 2, 3]
    turned = StructType(LakewrightSource(here).schema().fields[::-1])
    assert list(_read(here, turned)[0]) == ["day", "id"]
    with pytest.raises(InvalidInputError, match=r"'id' is bigint, not bigint NOT NULL.*cast them afterwards"):
        _read(here, StructType([StructField("id", LongType(), nullable=False)]))
    with pytest.raises(LakewrightError, match="there is no column 'ids'; did you mean 'id'"):
        _read(here, StructType([StructField("ids", LongType())]))
    kinds = {**here, "row_kinds": "true"}
    assert list(_read(kinds, ids)[0]) == ["id"]


def test_system_tables_can_be_read(catalog: lw.Catalog) -> None:
    _days(catalog)
    here = {"warehouse": catalog.warehouse}
    assert [row["snapshot_id"] for row in _read({**here, "table": "d.t$snapshots"})] == [1]
    only = _read({**here, "table": "d.t$files", "columns": "bucket,level", "filter": "level = 0"})
    assert {tuple(row) for row in only} == {("bucket", "level")}
    assert {row["rowkind"] for row in _read({**here, "table": "d.t$audit_log"})} == {"+I"}
    with pytest.raises(InvalidInputError, match="shows the table as it is"):
        _read({**here, "table": "d.t$snapshots", "snapshot_id": "1"})
    with pytest.raises(UnsupportedError, match="a system table, which can only be read"):
        LakewrightSource({**here, "table": "d.t$files"}).writer(StructType(), overwrite=False)


# ---- the sink, without Spark -----------------------------------------------------------------------------------------


def _sink(
    table: lw.FileStoreTable, options: Mapping[str, str] | None = None, *, overwrite: bool = False
) -> SparkTableSink:
    source = LakewrightSource({"path": table.table_path, **(options or {})})
    sink = source.writer(spark_schema(table.fields), overwrite)
    assert isinstance(sink, SparkTableSink)
    return sink


def _written(sink: SparkTableSink, task: int, rows: pa.Table) -> TaskWritten:
    with sink._job.open_writer(task, task) as writer:
        writer.write(rows)
        return TaskWritten(
            sink._job.write_id, SparkTaskResult(TaskId(task, task), TaskResult(writer.prepare()).to_bytes())
        )


def test_a_commit_waits_for_every_task(catalog: lw.Catalog) -> None:
    table = _pairs(catalog)
    sink = _sink(table)
    first = _written(sink, 0, pa.table({"id": [1], "n": [1]}))
    with pytest.raises(LakewrightError, match="1 of 2 tasks sent no message; nothing was committed"):
        sink.commit([first, None])
    assert table.snapshot() is None
    _written(sink, 1, pa.table({"id": [2], "n": [2]}))  # of a task whose message was lost
    assert len(_files(table)) == 2
    sink.abort([first, None])
    assert _files(table) == set()


def test_nothing_is_removed_of_what_was_published(catalog: lw.Catalog) -> None:
    """Spark calls `abort` with all messages when a commit raises, even where only its reply was lost."""
    table = _pairs(catalog)
    sink = _sink(table)
    written = [_written(sink, task, pa.table({"id": [task], "n": [task]})) for task in (0, 1)]
    sink.commit(written)
    before = _files(table)
    sink.abort(written)
    assert _files(table) == before
    assert _rows(table) == [(0, 0), (1, 1)]


def test_a_commit_that_failed_before_it_published_leaves_nothing(catalog: lw.Catalog) -> None:
    table = _days(catalog)
    before = _files(table)
    sink = _sink(table, {"partitions": "day=a"}, overwrite=True)
    written = [_written(sink, 0, pa.table({"id": [9], "day": ["b"]}))]
    with pytest.raises(InvalidInputError, match="does not replace"):
        sink.commit(written)
    sink.abort(written)
    assert _files(table) == before


def test_what_an_overwrite_replaces_is_said_once(catalog: lw.Catalog) -> None:
    table = _days(catalog)

    def replaced(**options: str) -> object:
        return _sink(
            table, {name.replace("_", "-"): value for name, value in options.items()}, overwrite=True
        )._replaced

    with pytest.raises(InvalidInputError, match="give one of them"):
        replaced(partitionoverwritemode="dynamic", partitions="day=a")
    with pytest.raises(InvalidInputError, match="static or dynamic, not 'some'"):
        replaced(partitionoverwritemode="some")
    with pytest.raises(InvalidInputError, match="a JSON object or"):
        replaced(partitions="a")
    assert replaced(partitions='{"day": "a"}') == replaced(partitions="day=a") != replaced()
    assert replaced(dynamic_partition_overwrite="true") == replaced(partitionoverwritemode="DYNAMIC") != replaced()


def test_a_view_of_the_past_cannot_be_written(catalog: lw.Catalog) -> None:
    table = _days(catalog)
    for word, value in {"snapshot_id": "1", "scan.tag-name": "x", "filter": "id = 1", "columns": "id"}.items():
        with pytest.raises(InvalidInputError, match="cannot be written"):
            _sink(table, {word: value})


# ---- through Spark ---------------------------------------------------------------------------------------------------

EVERY = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("b", pa.bool_()),
        pa.field("i8", pa.int8()),
        pa.field("f", pa.float32()),
        pa.field("s", pa.string()),
        pa.field("raw", pa.binary()),
        pa.field("d", pa.date32()),
        pa.field("dec", pa.decimal128(12, 3)),
        pa.field("t", pa.time32("ms")),
        pa.field("ts", pa.timestamp("us")),
        pa.field("ltz", pa.timestamp("us", tz="UTC")),
        pa.field("list", pa.list_(pa.field("element", pa.int32(), nullable=False))),
        pa.field("map", pa.map_(pa.string(), pa.int64())),
        pa.field("row", pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.string())])),
    ]
)


def test_every_type_goes_in_and_comes_out(spark: SparkSession, catalog: lw.Catalog) -> None:
    table = _table(catalog, EVERY)
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
    full = {
        "id": 1, "b": True, "i8": -7, "f": 1.5, "s": "ä", "raw": b"\x00\xff", "d": moment.date(),
        "dec": Decimal("12.345"), "t": dt.time(23, 59, 59, 999000), "ts": moment.replace(tzinfo=None), "ltz": moment,
        "list": [1, 2], "map": [("a", 1), ("b", None)], "row": {"x": 1, "y": None},
    }  # fmt: skip
    rows = pa.Table.from_pylist([full, {"id": 2}], EVERY)
    lw.write_table(rows, table)
    frame = spark.read.format(DOOR).load(table.table_path)
    assert frame.schema == spark_schema(table.fields)
    frame.write.format(DOOR).mode("append").save(table.table_path)
    assert lw.read_table(table, snapshot_id=2).slice(2).to_pylist() == rows.to_pylist()
    assert frame.count() == 2  # the frame stays at the snapshot of its first use


def test_overwrites_replace_what_they_say(spark: SparkSession, catalog: lw.Catalog) -> None:
    table = _days(catalog)
    new = spark.createDataFrame([(9, "a")], "id bigint, day string").coalesce(1)
    write = new.write.format(DOOR).mode("overwrite")
    write.option("partitionOverwriteMode", "dynamic").save(table.table_path)
    assert _rows(table) == [(3, "b"), (9, "a")]
    new.write.format(DOOR).mode("overwrite").option("partitions", "day=a").save(table.table_path)
    assert _rows(table) == [(3, "b"), (9, "a")]
    new.write.format(DOOR).mode("overwrite").save(table.table_path)
    assert _rows(table) == [(9, "a")]


def test_a_view_takes_inserts_and_stays_where_it_is(spark: SparkSession, catalog: lw.Catalog) -> None:
    table = _pairs(catalog)
    options = f"OPTIONS (warehouse '{catalog.warehouse}', `table` 'd.t')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW door_view USING lakewright {options}")
    # Four rows in two tasks; the later row of a key wins, whichever task has it.
    spark.sql("INSERT INTO door_view VALUES (1, 1), (2, 2), (3, 3), (1, 10)")
    assert spark.table("door_view").orderBy("id").collect() == [Row(id=1, n=10), Row(id=2, n=2), Row(id=3, n=3)]
    spark.sql("INSERT OVERWRITE door_view (id) VALUES (7)")
    assert _rows(table) == [(7, None)]
    assert spark.table("door_view").count() == 3
    spark.catalog.dropTempView("door_view")


def test_a_column_of_kinds_deletes_and_updates(spark: SparkSession, catalog: lw.Catalog) -> None:
    table = _pairs(catalog)
    lw.write_table(pa.table({"id": [1, 2], "n": [1, 2]}), table)
    changes = spark.createDataFrame([("-D", 1, 1), ("+U", 2, 20), ("+I", 3, 3)], "_row_kind string, id long, n long")
    changes.write.format(DOOR).mode("append").save(table.table_path)
    assert _rows(table) == [(2, 20), (3, 3)]


def test_a_frame_is_whole_wherever_it_is_used(spark: SparkSession, catalog: lw.Catalog) -> None:
    """Spark would keep a pushed filter for other uses of the frame, so none is pushed even where it is allowed."""
    table = _days(catalog)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = spark.read.format(DOOR).load(table.table_path)
        both = frame.where("id > 2").union(frame).collect()
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert sorted(row.id for row in both) == [1, 2, 3, 3]


def test_columns_come_with_the_frame_where_that_is_asked_for(spark: SparkSession, catalog: lw.Catalog) -> None:
    table = _pairs(catalog)
    frame = spark.createDataFrame([(1, 1, "x")], "id long, n long, extra string").coalesce(1)
    with pytest.raises(PySparkException, match="there is no column 'extra' to write") as refused:
        frame.write.format(DOOR).mode("append").save(table.table_path)
    assert "lakewright.errors.InvalidInputError" in str(refused.value)
    frame.write.format(DOOR).mode("append").option("mergeSchema", "true").save(table.table_path)
    assert _rows(catalog.get_table("d.t")) == [(1, 1, "x")]


def test_what_spark_cannot_do_here_is_said(spark: SparkSession, catalog: lw.Catalog) -> None:
    table = _table(catalog, PAIRS, primary_keys=["id"])  # dynamic buckets
    frame = spark.range(4).selectExpr("id", "id AS n").repartition(2)
    write = frame.write.format(DOOR)
    with pytest.raises(PySparkException, match=r"dynamic buckets.*lakewright\.spark\.write_table"):
        write.mode("append").save(table.table_path)
    assert table.snapshot() is None
    assert _files(table) == set()
    frame.coalesce(1).write.format(DOOR).mode("append").save(table.table_path)
    assert _rows(table) == [(n, n) for n in range(4)]
    with pytest.raises(PySparkException, match=r"Append.*Overwrite"):
        write.mode("error").save(table.table_path)
    with pytest.raises(PySparkException, match=r"CREATE TABLE \.\.\. USING lakewright is not supported"):
        spark.sql(f"CREATE TABLE door_table USING lakewright OPTIONS (path '{table.table_path}')")
    assert not spark.catalog.tableExists("door_table")
    spark.sql("CREATE TABLE door_table (id bigint) USING lakewright")
    try:
        with pytest.raises(PySparkException, match=r"Spark forgets their options.*lakewright\.spark\.attach"):
            spark.table("door_table").collect()
    finally:
        spark.sql("DROP TABLE door_table")


@pytest.fixture
def flaky(tmp_path: Path) -> Path:
    """Hold the attempts of tasks that failed so far."""
    made = tmp_path / "attempts"
    made.mkdir()
    return made


@pytest.mark.parametrize("failures", [1, 9])
def test_tasks_that_fail_leave_nothing_behind(
    spark: SparkSession, catalog: lw.Catalog, flaky: Path, failures: int
) -> None:
    table = _table(catalog, PAIRS, options={"bucket": "-1"})
    place = str(flaky)

    def fail_late(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if batch.column("id").to_pylist()[-1] == 3 and len(list(Path(place).iterdir())) < failures:
                Path(place, str(len(list(Path(place).iterdir())))).touch()
                raise OSError("the disk went away")

    frame = spark.range(4).select("id", F.col("id").alias("n")).repartition(2).mapInArrow(fail_late, "id long, n long")
    write = frame.sortWithinPartitions("id").write.format(DOOR).mode("append")
    if failures == 1:
        write.save(table.table_path)
        assert _rows(table) == [(n, n) for n in range(4)]
        assert _files(table) == _named(table)
    else:
        with pytest.raises(PySparkException, match="the disk went away"):
            write.save(table.table_path)
        assert table.snapshot() is None
        assert _files(table) == set()


# ---- options of other implementations --------------------------------------------------------------------------------

WORDS = frozenset({"columns", "mergeschema", "maxfilespertrigger"})


def test_keys_of_java_are_found_in_lower_case() -> None:
    given = {
        "variant.infershreddingschema": "true",
        "write.merge-schema": "true",
        "Read.Stream.MaxFilesPerTrigger": "3",
    }
    options = SourceOptions.of({**given, "cache-enabled": "false", "S3.Endpoint": "e"}, WORDS)
    assert options.table == {"variant.inferShreddingSchema": "true"}
    assert options.words == {"mergeschema": "true", "maxfilespertrigger": "3"}
    assert options.storage == {"cache-enabled": "false", "s3.endpoint": "e"}


@pytest.mark.parametrize("by_name", [False, True])
def test_options_are_checked_like_those_of_copy(catalog: lw.Catalog, *, by_name: bool) -> None:
    path = _pairs(catalog).table_path
    place = {"warehouse": catalog.warehouse, "table": "d.t"} if by_name else {"path": path}
    fine = {"read.stream.maxtriggerdelayms": "1", "scan.mode": "latest", "lakewright.durable": "false"}
    assert SourceOptions.of({**place, **fine}, WORDS).open().schema.options["scan.mode"] == "latest"
    for key, value in (("read.allow.fullscan", "false"), ("query-auth.enabled", "true"), ("case-sensitive", "false")):
        with pytest.raises(UnsupportedError, match=rf"(?i)'{key}' = '{value}' is not supported"):
            SourceOptions.of({**place, key: value}, WORDS).open()


def test_spark_hears_of_options_that_cannot_be_ignored(spark: SparkSession, catalog: lw.Catalog) -> None:
    table = _pairs(catalog, **{"partition.end-input-to-done": "true"})
    frame = spark.createDataFrame([(1, 2)], "id long, n long")
    with pytest.warns(LakewrightWarning, match="'partition.end-input-to-done' = 'true'"):
        lw.write_table(frame, table)
    lw.write_table(frame, table)
    with pytest.raises(PySparkException, match=r"'query-auth.enabled' = 'true' is not supported"):
        spark.read.format(DOOR).option("query-auth.enabled", "true").load(table.table_path).collect()
    asks = lw.FileStoreTable(table.identifier, table.store.with_schema(table.schema.with_options({"scan.bucket": 1})))
    with pytest.raises(UnsupportedError, match=r"'scan.bucket' = '1' is not supported"):
        read_table(spark, asks)
