"""Streams into tables and out of them: every row once, over restarts, replays, failures and kills."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.streaming.query import StreamingQuery

import lakewright as lw
from contract.fault_enumerator import stray_files
from lakewright.engine.engine import TaskId, TaskResult
from lakewright.spark import stream_verbs
from lakewright.spark.data_sinks import StreamSink, TaskWritten, stream_user
from lakewright.spark.spark_engine import SparkTaskResult
from lakewright.spark.spark_features import Feature
from lakewright.spark.spark_types import spark_schema
from lakewright.spark.stream_verbs import foreach_batch, read_stream, write_stream
from lakewright.spec.argument_checks import TimestampLike
from support.effort import some
from support.needs import needs
from support.spark_writes import new_table

COLUMNS = pa.schema({"id": pa.int64(), "n": pa.int64()})
NOW = {"availableNow": True}
SECONDS_MAX = 120


class Place:
    """A directory with tables, files that a stream reads, and checkpoints."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.catalog = lw.CatalogFactory.create({"warehouse": str(root / "warehouse")})
        self.catalog.create_database("d")
        (root / "in").mkdir()
        self.files = 0

    def table(
        self, name: str, keys: list[str] | None = None, options: Mapping[str, str] | None = None
    ) -> lw.FileStoreTable:
        schema = lw.Schema.from_pyarrow_schema(COLUMNS, primary_keys=keys, options=dict(options or {}))
        self.catalog.create_table(f"d.{name}", schema)
        return self.catalog.get_table(f"d.{name}")

    def add(self, *rows: tuple[int, int]) -> None:
        """Add a file with rows to what the stream reads."""
        data = pa.table(dict(zip(COLUMNS.names, map(list, zip(*rows, strict=True)), strict=True)), COLUMNS)
        path = self.root / "in" / f"{self.files:04}.parquet"
        pq.write_table(data, path)
        os.utime(path, (1_700_000_000 + self.files,) * 2)  # Spark takes files in the order of their times
        self.files += 1

    def frame(self, spark: SparkSession, files: int = 1) -> DataFrame:
        reader = spark.readStream.schema("id long, n long").option("maxFilesPerTrigger", str(files))
        return reader.parquet(str(self.root / "in"))

    def checkpoint(self, name: str = "c") -> str:
        return str(self.root / "checkpoints" / name)

    def forget(self, log: str, *batches: int) -> None:
        """Take batches out of a log of Spark's, as if the driver had died before it wrote them."""
        for batch in batches:
            for name in (f"{batch}", f".{batch}.crc"):
                (Path(self.checkpoint()) / log / name).unlink()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def _done(query: StreamingQuery) -> None:
    assert query.awaitTermination(SECONDS_MAX), "the query does not end"


def _sink(df: DataFrame, table: lw.FileStoreTable, checkpoint: str, mode: str = "append") -> None:
    writer = df.writeStream.format("lakewright").outputMode(mode).option("checkpointLocation", checkpoint)
    _done(writer.trigger(availableNow=True).start(table.table_path))


def _each(df: DataFrame, table: lw.FileStoreTable, checkpoint: str) -> None:
    _done(write_stream(df, table, checkpoint=checkpoint, trigger=NOW))


WAYS = pytest.mark.parametrize("write", [_sink, _each])


def _rows(table: lw.FileStoreTable) -> list[tuple[int, int]]:
    return sorted(zip(*lw.read_table(table).to_pydict().values(), strict=True))


def _commits(table: lw.FileStoreTable) -> list[tuple[str, int]]:
    found = table.store.snapshots.walk_back(table.store.snapshots.latest_id() or 0)
    return [(s.commit_user, s.commit_identifier) for s in found if s.commit_kind != "COMPACT"][::-1]


def _collected(df: DataFrame, checkpoint: str) -> list[list[tuple[object, ...]]]:
    """Return the rows of a stream, batch by batch."""
    batches: list[list[tuple[object, ...]]] = []

    def keep(batch: DataFrame, _: int) -> None:
        batches.append([tuple(row) for row in batch.collect()])

    writer = df.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint)
    _done(writer.trigger(availableNow=True).start())
    return batches


# ---- into a table ----------------------------------------------------------------------------------------------------


@WAYS
@needs(Feature.STREAM_SINK)
def test_a_batch_that_is_run_again_is_committed_once(spark: SparkSession, place: Place, write: object) -> None:
    assert callable(write)
    table = place.table("t")
    place.add((1, 1), (2, 2))
    place.add((3, 3))
    write(place.frame(spark), table, place.checkpoint())
    assert [number for _, number in _commits(table)] == [0, 1]
    # The driver dies after our commit and before Spark's.
    place.forget("commits", 1)
    place.add((4, 4))
    write(place.frame(spark), table, place.checkpoint())
    assert _rows(table) == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert [number for _, number in _commits(table)] == [0, 1, 2]
    assert len({user for user, _ in _commits(table)}) == 1
    assert stray_files(table.store) == set(), "the files of the batch that came again are gone"


@needs(Feature.STREAM_SINK)
def test_the_two_ways_of_one_query_have_one_name(spark: SparkSession, place: Place) -> None:
    table = place.table("t", ["id"], {"bucket": "2"})
    place.add((1, 1), (2, 2))
    _sink(place.frame(spark), table, place.checkpoint())
    place.forget("commits", 0)
    _each(place.frame(spark), table, place.checkpoint())
    assert len(_commits(table)) == 1


@pytest.mark.nightly
@needs(Feature.STREAM_SINK)
def test_a_stream_without_its_checkpoint_is_another_stream(spark: SparkSession, place: Place) -> None:
    table = place.table("t")
    place.add((1, 1))
    _sink(place.frame(spark), table, place.checkpoint())
    shutil.rmtree(place.checkpoint())
    _sink(place.frame(spark), table, place.checkpoint())
    assert _rows(table) == [(1, 1), (1, 1)], "rows are not dropped because an older query had a batch of that number"


@pytest.mark.parametrize("write", some([_sink, _each], 0))
@needs(Feature.STREAM_SINK)
def test_an_empty_batch_makes_no_snapshot(spark: SparkSession, place: Place, write: object) -> None:
    assert callable(write)
    table = place.table("t")
    place.add((1, 1))
    place.add((5, 5))
    write(place.frame(spark).where("id > 2"), table, place.checkpoint())
    assert [number for _, number in _commits(table)] == [1]


@needs(Feature.STREAM_SINK)
def test_rows_of_a_key_in_one_batch_keep_their_order(spark: SparkSession, place: Place) -> None:
    table = place.table("t", ["id"], {"bucket": "2"})
    for number in range(4):
        place.add(*((key, number) for key in range(8)))
    # Each file is read by a task of its own, the last by the last.
    _sink(place.frame(spark, files=4).repartitionByRange(4, "n"), table, place.checkpoint())
    assert len(_commits(table)) == 1
    assert _rows(table) == [(key, 3) for key in range(8)]


@needs(Feature.STREAM_SINK)
def test_complete_mode_replaces_the_table(spark: SparkSession, place: Place) -> None:
    table = place.table("t")
    counts = place.frame(spark).groupBy("id").agg(F.sum("n").alias("n"))
    place.add((1, 1), (2, 2))
    place.add((1, 10))
    _sink(counts, table, place.checkpoint(), "complete")
    assert _rows(table) == [(1, 11), (2, 2)]
    place.forget("commits", 1)
    _sink(counts, table, place.checkpoint(), "complete")
    assert _rows(table) == [(1, 11), (2, 2)]


@pytest.mark.parametrize("options", some([{"bucket": "2"}, {"bucket": "-1"}], 1), ids=str)
def test_an_aggregation_in_update_mode_equals_the_batch(
    spark: SparkSession, place: Place, options: Mapping[str, str]
) -> None:
    table = place.table("t", ["id"], options)
    dice = random.Random(3)
    rows = [(dice.randrange(6), dice.randrange(100)) for _ in range(40)]
    for start in range(0, 40, 20):
        place.add(*rows[start : start + 20])
    sums = place.frame(spark).groupBy("id").agg(F.sum("n").alias("n"))
    _done(write_stream(sums, table, checkpoint=place.checkpoint(), mode="upsert", trigger=NOW, query_name="sums"))
    expected = Counter[int]()
    for key, number in rows:
        expected[key] += number
    assert _rows(table) == sorted(expected.items())


def test_a_batch_may_upsert_and_delete(spark: SparkSession, place: Place) -> None:
    table = place.table("t", ["id"], {"bucket": "1"})
    place.add((1, 1), (2, 2), (3, 3))
    place.add((1, -1), (4, 4))
    checkpoint = place.checkpoint()
    upserts = foreach_batch(table, checkpoint=checkpoint, mode="upsert")
    deletes = foreach_batch(table, checkpoint=checkpoint, mode="delete")

    def both(batch: DataFrame, batch_id: int) -> None:
        upserts(batch.where("n > 0"), batch_id)
        deletes(batch.where("n < 0").select("id"), batch_id)

    writer = place.frame(spark).writeStream.foreachBatch(both).option("checkpointLocation", checkpoint)
    _done(writer.trigger(availableNow=True).start())
    assert _rows(table) == [(2, 2), (3, 3), (4, 4)]


def test_a_batch_may_bring_new_columns(spark: SparkSession, place: Place) -> None:
    table = place.table("t", ["id"], {"bucket": "1"})
    place.add((1, 1))
    write = foreach_batch(table, checkpoint=place.checkpoint(), mode="upsert", schema_mode="merge")
    wider = place.frame(spark).selectExpr("id", "n", "struct(n AS inside) AS more")
    writer = wider.writeStream.foreachBatch(write).option("checkpointLocation", place.checkpoint())
    _done(writer.trigger(availableNow=True).start())
    assert lw.read_table(table).to_pylist() == [{"id": 1, "n": 1, "more": {"inside": 1}}]


@needs(Feature.STREAM_SINK)
def test_a_failed_attempt_leaves_nothing(spark: SparkSession, place: Place) -> None:
    table = place.table("t")
    place.add(*((number, number) for number in range(10)))

    def stumble(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0:
            raise OSError("the first attempt fails after its rows")

    _sink(place.frame(spark).mapInArrow(stumble, "id long, n long"), table, place.checkpoint())
    assert _rows(table) == [(number, number) for number in range(10)]
    assert stray_files(table.store) == set()


@needs(Feature.STREAM_SINK)
def test_a_batch_that_fails_leaves_nothing(spark: SparkSession, place: Place) -> None:
    table = place.table("t")
    place.add(*((number, number) for number in range(10)))
    # One task: Spark does not wait for others that still run, and a file that one of them makes later is an orphan.
    broken = place.frame(spark).repartitionByRange(1, "id").withColumn("n", F.expr("if(id = 9, raise_error('no'), n)"))
    with pytest.raises(StreamingQueryException, match="no"):
        _sink(broken, table, place.checkpoint())
    assert table.snapshot() is None
    assert stray_files(table.store) == set()


@pytest.mark.parametrize(
    ("keys", "select", "said"),
    some(
        [
            (["id"], "id, n", "lakewright.spark.foreach_batch"),  # dynamic buckets
            (None, "id, n, 1 AS extra", "extra"),
            (None, "id, 'x' AS n", "n"),
        ],
        0,
    ),
)
@needs(Feature.STREAM_SINK)
def test_what_the_sink_refuses(
    spark: SparkSession, place: Place, keys: list[str] | None, select: str, said: str
) -> None:
    table = place.table("t", keys, {"bucket": "-1"})
    place.add((1, 1))
    with pytest.raises(StreamingQueryException, match=said):
        _sink(place.frame(spark).selectExpr(*select.split(", ")), table, place.checkpoint())
    assert table.snapshot() is None


def test_the_checkpoint_must_be_that_of_the_query(spark: SparkSession, place: Place) -> None:
    table = place.table("t")
    place.add((1, 1))
    writes = foreach_batch(table, checkpoint=place.checkpoint("another"))
    writer = place.frame(spark).writeStream.foreachBatch(writes).option("checkpointLocation", place.checkpoint())
    with pytest.raises(StreamingQueryException, match="the same location as the option checkpointLocation"):
        _done(writer.trigger(availableNow=True).start())


def test_what_the_verbs_refuse(spark: SparkSession, place: Place) -> None:
    table = place.table("t")
    with pytest.raises(lw.errors.InvalidInputError, match="no stream"):
        write_stream(spark.range(1), table, checkpoint=place.checkpoint())
    with pytest.raises(lw.errors.UnsupportedError, match="no primary key"):
        foreach_batch(table, checkpoint=place.checkpoint(), mode="upsert")
    with pytest.raises(lw.errors.InvalidInputError, match="one of from_snapshot"):
        read_stream(spark, table, from_snapshot=1, latest=True)
    with pytest.raises(lw.errors.LakewrightError, match="nothing"):
        read_stream(spark, table, columns=["nothing"])


def test_a_function_for_foreach_batch_travels(place: Place) -> None:
    writes = foreach_batch(place.table("t"), checkpoint=place.checkpoint(), concurrency=3)
    assert cloudpickle.loads(cloudpickle.dumps(writes)) == writes  # type: ignore[no-untyped-call]


# ---- the sink without Spark ------------------------------------------------------------------------------------------


def _attempt(table: lw.FileStoreTable, *ids: int) -> tuple[StreamSink, TaskWritten]:
    sink = StreamSink(table, spark_schema(table.fields), overwrite=False)
    with sink._job.open_writer() as writer:
        writer.write(pa.table({"id": ids, "n": ids}, COLUMNS))
        return sink, TaskWritten(
            sink._job.write_id, SparkTaskResult(TaskId(0, 0), TaskResult(writer.prepare()).to_bytes()), "q"
        )


@needs(Feature.STREAM_SINK)
def test_of_two_drivers_one_commits(place: Place) -> None:
    table = place.table("t")
    (first, one), (second, other) = _attempt(table, 1), _attempt(table, 1)
    first.commit([one], 0)
    second.commit([other], 0)
    second.abort([other], 0)
    first.abort([one], 0)
    assert _commits(table) == [(stream_user("q"), 0)]
    assert _rows(table) == [(1, 1)]
    assert stray_files(table.store) == set()


@needs(Feature.STREAM_SINK)
def test_aborting_takes_back_only_what_nobody_began_to_publish(place: Place) -> None:
    table = place.table("t")
    sink, written = _attempt(table, 1)
    sink.abort([written], 0)
    assert stray_files(table.store) == set()
    sink, written = _attempt(table, 2)
    sink.abort([written, None], 0)
    assert stray_files(table.store) == set()
    sink, written = _attempt(table, 3)
    with pytest.raises(lw.errors.LakewrightError, match="1 of 2 tasks of batch 0 sent no message"):
        sink.commit([written, None], 0)
    assert table.snapshot() is None


# ---- out of a table --------------------------------------------------------------------------------------------------


@needs(Feature.PYTHON_SOURCE)
def test_a_stream_reads_the_state_then_the_changes(spark: SparkSession, place: Place) -> None:
    table = place.table("t", ["id"], {"bucket": "2"})
    lw.write_table(pa.table({"id": [1, 2, 3], "n": [1, 2, 3]}, COLUMNS), table)
    lw.write_table(pa.table({"id": [3], "n": [30]}, COLUMNS), table)
    door = spark.readStream.format("lakewright").load(table.table_path)
    assert [sorted(batch) for batch in _collected(door, place.checkpoint())] == [[(1, 1), (2, 2), (3, 30)]]
    lw.write_table(pa.table({"id": [4], "n": [4]}, COLUMNS), table)
    lw.write_table(pa.table({"id": [1]}), table, mode="delete")
    frame = read_stream(spark, table, row_kinds=True, columns=["n", "id"], filter="id < 4", from_snapshot=3)
    assert frame.columns == ["_row_kind", "n", "id"]
    assert _collected(frame, place.checkpoint("kinds")) == [[("-D", None, 1)]]
    assert [sorted(batch) for batch in _collected(door, place.checkpoint())] == [[(4, 4)]]


@needs(Feature.STREAM_SINK)
def test_a_table_flows_into_another(spark: SparkSession, place: Place) -> None:
    source = place.table("a", ["id"], {"bucket": "2", "changelog-producer": "input"})
    target = place.table("b", ["id"], {"bucket": "1"})
    dice = random.Random(11)
    for number in range(3):
        for _ in range(3):
            rows = {"id": [dice.randrange(20) for _ in range(8)], "n": [dice.randrange(100) for _ in range(8)]}
            lw.write_table(pa.table(rows, COLUMNS), source)
        lw.write_table(pa.table({"id": [dice.randrange(20) for _ in range(3)]}), source, mode="delete")
        frame = read_stream(spark, source, row_kinds=True)
        if number == 1:
            writer = frame.writeStream.format("lakewright").option("checkpointLocation", place.checkpoint())
            _done(writer.trigger(availableNow=True).start(target.table_path))
        else:
            _done(write_stream(frame, target, checkpoint=place.checkpoint(), mode="upsert", trigger=NOW))
        assert _rows(target) == _rows(source)


@needs(Feature.RATE_LIMITS)
@needs(Feature.PYTHON_SOURCE)
def test_a_stream_goes_on_in_the_middle(spark: SparkSession, place: Place) -> None:
    table = place.table("t", None, {"source.split.target-size": "1 b", "source.split.open-file-cost": "1 b"})
    for number in range(4):
        lw.write_table(pa.table({"id": [number], "n": [number]}, COLUMNS), table)
    frame = read_stream(spark, table, max_files_per_trigger=1)
    checkpoint = place.checkpoint()
    assert _collected(frame, checkpoint) == [[(number, number)] for number in range(4)]
    # The driver dies while batch 2 runs: its offsets are known, and it gives the same rows again.
    place.forget("offsets", 3)
    place.forget("commits", 2, 3)
    lw.write_table(pa.table({"id": [4], "n": [4]}, COLUMNS), table)
    assert _collected(frame, checkpoint) == [[(2, 2)], [(3, 3)], [(4, 4)]]


@needs(Feature.PYTHON_SOURCE)
def test_a_consumer_keeps_what_it_has_to_read(spark: SparkSession, place: Place) -> None:
    table = place.table("t")
    for number in range(2):
        lw.write_table(pa.table({"id": [number], "n": [number]}, COLUMNS), table)
    frame = read_stream(spark, table, consumer_id="billing")
    _collected(frame, place.checkpoint())
    lw.write_table(pa.table({"id": [2], "n": [2]}, COLUMNS), table)
    _collected(frame, place.checkpoint())
    recorded = table.store.consumers.next_snapshot("billing")
    assert recorded is not None
    for number in range(3, 8):
        lw.write_table(pa.table({"id": [number], "n": [number]}, COLUMNS), table)
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert [len(batch) for batch in _collected(frame, place.checkpoint())] == [5]


@pytest.mark.nightly
@needs(Feature.PYTHON_SOURCE)
def test_a_stream_whose_next_snapshot_expired_says_so(spark: SparkSession, place: Place) -> None:
    table = place.table("t")
    lw.write_table(pa.table({"id": [0], "n": [0]}, COLUMNS), table)
    frame = read_stream(spark, table)
    _collected(frame, place.checkpoint())
    for number in range(4):
        lw.write_table(pa.table({"id": [number], "n": [number]}, COLUMNS), table)
    table.expire_snapshots(retain_max=1, retain_min=1)
    with pytest.raises(StreamingQueryException, match="snapshot 2 has expired"):
        _collected(frame, place.checkpoint())


@needs(Feature.PYTHON_SOURCE)
def test_a_stream_keeps_the_columns_it_began_with(spark: SparkSession, place: Place) -> None:
    table = place.table("t")
    lw.write_table(pa.table({"id": [0], "n": [0]}, COLUMNS), table)
    frame = read_stream(spark, table)
    changes = [
        lw.SchemaChange.add_column("extra", lw.AtomicType("STRING")),
        lw.SchemaChange.update_column_nullability("n", True),  # noqa: FBT003 - pypaimon's signature
    ]
    place.catalog.alter_table("d.t", changes)
    newer = place.catalog.get_table("d.t")
    lw.write_table(pa.table({"id": [1], "n": [1], "extra": ["x"]}), newer)
    assert _collected(frame, place.checkpoint()) == [[(0, 0), (1, 1)]]
    assert read_stream(spark, table.table_path).columns == ["id", "n", "extra"]


@pytest.mark.parametrize(
    ("options", "rows"),
    some(
        [
            ({"scan.snapshot-id": "1"}, [(0, 0), (1, 1)]),
            ({"scan.timestamp-millis": "0"}, [(0, 0), (1, 1)]),
            ({"scan.mode": "latest"}, []),
            ({"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2"}, [(0, 0), (1, 1)]),
            ({"scan.snapshot-id": "3"}, []),
        ],
        3,
    ),
    ids=str,
)
@needs(Feature.PYTHON_SOURCE)
def test_where_the_door_begins(
    spark: SparkSession, place: Place, options: dict[str, str], rows: list[tuple[int, int]]
) -> None:
    table = place.table("t")
    lw.write_table(pa.table({"id": [0], "n": [0]}, COLUMNS), table)
    place.catalog.alter_table("d.t", [lw.SchemaChange.add_column("extra", lw.AtomicType("STRING"))])
    lw.write_table(pa.table({"id": [1], "n": [1], "extra": ["x"]}), place.catalog.get_table("d.t"))
    door = spark.readStream.format("lakewright").options(**options).load(table.table_path).select("id", "n")
    assert sorted(row for batch in _collected(door, place.checkpoint()) for row in batch) == rows


@pytest.mark.parametrize(
    "moment", [1767960000000, "2026-01-09T12:00:00Z", datetime(2026, 1, 9, 13, tzinfo=timezone(timedelta(hours=1)))]
)
def test_the_time_that_a_stream_begins_at_is_given_in_any_form(tmp_path: Path, moment: TimestampLike) -> None:
    started = stream_verbs._start(new_table(tmp_path), None, moment, latest=False)
    assert started == {"scan.mode": "from-timestamp", "scan.timestamp-millis": "1767960000000"}


def test_filters_of_arrow_and_polars_are_handed_on_as_text(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    assert {stream_verbs._text(table, given) for given in (pc.field("id") > 3, pl.col("id") > 3)} == {"id > 3"}
