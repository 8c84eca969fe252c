"""The verbs of the package take Spark frames, and have Spark's workers do the work."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import lakewright as lw
import lakewright.spark as lws
from lakewright.engine.job_progress import Progress
from lakewright.errors import InvalidInputError
from lakewright.spark.spark_features import Feature
from support.effort import some
from support.needs import needs
from support.spark_writes import assert_tidy, new_table, rows_of

_ROWS = "select id, concat('day ', id % 2) as day, id * 10 as n, 'x' as text from range({}, {}, 1, 3)"


def test_one_call_writes_frames_with_the_workers(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, keys=["id", "day"], partitions=["day"], options={"bucket": "1"})
    seen: list[Progress] = []
    first = lw.write_table(spark.sql(_ROWS.format(0, 6)), table, progress=seen.append, concurrency=2, job_id="one")
    assert isinstance(first, lws.WriteResult)
    assert (first.snapshot_id, first.rows, first.tasks) == (1, 6, 1)
    assert seen[-1].rows == 6
    again = lw.write_table(spark.sql(_ROWS.format(0, 6)), table, job_id="one")
    assert (again.replayed, again.snapshot_id, again.rows) == (True, 1, 6)
    lw.write_table(spark.sql(_ROWS.format(4, 8)), table.table_path, "upsert")
    lw.write_table(spark.sql("select 0L as id, 'day 0' as day"), table, mode="delete")
    nothing = spark.createDataFrame([], "id long, day string")
    lw.write_table(nothing, table, mode="overwrite", partitions={"day": "day 1"})
    lw.write_table(spark.sql(_ROWS.format(8, 9) + " ").selectExpr("*", "1 as m"), table, schema_mode="merge")
    assert [row[0] for row in rows_of(lw.open_table(table.table_path))] == [2, 4, 6, 8]
    assert_tidy(table)


def test_an_embedded_run_and_one_on_spark_are_the_same_job(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path)
    lw.write_table(pa.table({"id": [1]}), table, job_id="one")
    assert lw.write_table(spark.range(5), table, job_id="one").replayed
    lw.write_table(spark.range(5), table, job_id="two")
    assert lw.write_table(pa.table({"id": [1]}), table, job_id="two").replayed
    assert lw.read_table(table).num_rows == 6


def test_builders_refuse_frames_with_the_remedy(spark: SparkSession, tmp_path: Path) -> None:
    table, df = new_table(tmp_path, keys=["id"], options={"bucket": "1"}), spark.range(3)
    update: Any = table.new_batch_write_builder().new_update()
    with table.new_batch_write_builder().new_write() as write:
        calls: list[Any] = [write.write_arrow, write.write_arrow_batch, write.write_pandas, write.delete_arrow]
        calls += [
            lambda frame: lw.write_table([frame], table),
            lambda frame: update.upsert_by_arrow_with_key(frame, ["id"]),
        ]
        for call in calls:
            with pytest.raises(InvalidInputError, match=r"write_spark.*toArrow"):
                call(df)
    assert table.snapshot() is None


def test_compaction_runs_on_the_workers(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, keys=["id"], options={"bucket": "2", "write-only": "true"})
    for first in range(3):
        lw.write_table(pa.table({"id": [first, first + 1], "n": [first, first]}), table)
    before, jobs = rows_of(table), _jobs(spark)
    result = lws.compact(spark, table.table_path, full=True)
    assert (result.files_before > result.files_after, result.rows) == (True, 4)
    assert rows_of(table) == before
    assert _jobs(spark) > jobs
    assert lws.compact(spark, table, full=True).is_empty
    assert_tidy(table)


def _jobs(spark: SparkSession) -> int:
    """Return how many jobs a session has started so far."""
    return int(spark._jsparkSession.sparkContext().dagScheduler().numTotalJobs())


_WRITE: dict[str, tuple[dict[str, Any], str]] = {
    "a mode": ({"mode": "merge"}, r"mode.*'merge'"),
    "a schema mode": ({"schema_mode": ["merge"]}, "schema_mode"),
    "no overwrite": ({"partitions": {"day": "x"}}, "overwrite replaces"),
    "no column": ({"mode": "overwrite", "partitions": {"n": 1}}, "'n' in the partition spec"),
    "no spec": ({"mode": "overwrite", "partitions": "day=x"}, "mapping"),
    "no tasks": ({"concurrency": 0}, "at least 1"),
    "tasks as text": ({"concurrency": "2"}, "at least 1"),
    "a distribution": ({"distribution": "everywhere", "schema_mode": "merge"}, "write-distribution"),
    "a distribution that is no text": ({"distribution": 3}, "distribution takes"),
    "a job id": ({"job_id": 7}, "job id"),
    "progress": ({"progress": "yes"}, "progress is a function"),
}


def test_wrong_arguments_of_a_write_start_no_job(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, partitions=["day"])
    df = spark.sql("select 1L as id, 'x' as day, 1 as more")
    before = _jobs(spark)
    for name, (arguments, said) in _WRITE.items():
        with pytest.raises(InvalidInputError, match=said):
            pytest.fail(f"{name}: {lws.write_table(df, table, **arguments)}")
    assert _jobs(spark) == before
    assert table.snapshot() is None
    assert lw.open_table(table.table_path).schema.id == 0, "the schema is as it was"


def test_wrong_arguments_of_other_verbs_start_no_job(spark: SparkSession, tmp_path: Path) -> None:
    kinds = {"append": {}, "keyed": {"keys": ["id"], "options": {"bucket": "1"}}}
    tables = [new_table(tmp_path, name=name, **kind) for name, kind in kinds.items()]  # type: ignore[arg-type]
    df, session = spark.sql("select 1L as id, 'x' as day"), cast("Any", spark)
    for table in tables:
        lw.write_table(pa.table({"id": [1], "day": ["x"], "n": [1]}), table)
        before = _jobs(spark)
        calls: list[Any] = [
            lambda table=table: lws.delete(table, session, "id = 1"),
            lambda table=table: lws.delete(spark, table, "no_such = 1"),
            lambda table=table: lws.delete(spark, table, "id +"),
            lambda table=table: lws.update(table, session, {"n": 1}),
            lambda table=table: lws.update(spark, table, {"no_such": 1}),
            lambda table=table: lws.update(spark, table, {"n": lw.lit("text")}),
            lambda table=table: lws.update(spark, table, {}),
            lambda table=table: lws.update(spark, table, {"n": 1}, "no_such = 1"),
            lambda table=table: lws.upsert(df, table, ["no_such"]),
            lambda table=table: lws.upsert(df.selectExpr("*", "1 as no_such"), table, ["id"]),
            lambda table=table: lws.merge(df, table, on="no_such").when_matched_delete().execute(),
            lambda table=table: lws.merge(df, table, on="t.id > s.id").when_matched_delete().execute(),
            lambda table=table: lws.merge(df, table, on="id").execute(),
            lambda table=table: lws.merge(df, table, on="id").when_matched_update({"n": lw.lit("x")}).execute(),
            lambda table=table: lws.merge(df, table, on="id").when_matched_update({"day": "s.day"}).execute(),
            lambda table=table: lws.merge(df, table, on="id").when_matched_delete("s.no_such = 1").execute(),
            lambda table=table: lws.delete(spark, table, cast("Any", None)),
            lambda table=table: lws.delete(spark, table, "id = 1", job_id=""),
            lambda table=table: lws.compact(table, session),
            lambda table=table: lws.compact(spark, table, partitions=[{"n": 1}]),
            lambda table=table: table.new_batch_write_builder().new_write().write_spark(df, concurrency="x"),
            lambda table=table: table.new_batch_write_builder().new_write().write_spark(df, spark_options="x"),
            lambda table=table: table.new_batch_write_builder().overwrite({"n": 1}).new_write().write_spark(df),
            lambda table=table: lws.foreach_batch(table, checkpoint=""),
            lambda table=table: lws.foreach_batch(table, checkpoint="x", concurrency=0),
            lambda table=table: lws.write_stream(df, table, checkpoint="x"),
        ]
        for number, call in enumerate(calls):
            with pytest.raises(lw.LakewrightError):
                pytest.fail(f"call {number} of {table.name} returned {call()}")
        assert _jobs(spark) == before
        assert table.store.snapshots.latest_id() == 1
        assert_tidy(table)


def test_streams_are_checked_before_the_query_starts(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path)
    stream = spark.readStream.format("rate").load()
    for df, more, said in (
        (stream, {}, "timestamp"),
        (stream.selectExpr("value as id"), {"trigger": "now"}, "trigger is a mapping"),
        (stream.selectExpr("value as id"), {"mode": "merge"}, r"mode.*'merge'"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            lws.write_stream(df, table, checkpoint=str(tmp_path / "checkpoint"), **more)  # type: ignore[arg-type]
    assert not (tmp_path / "checkpoint").exists()
    assert spark.streams.active == []


@pytest.mark.parametrize(
    ("mode", "options", "said"),
    some(
        [
            ("append", {"partitions": "day=x"}, "overwrite replaces"),
            ("overwrite", {"partitions": "n=1"}, "partition column"),
            ("overwrite", {"partitions": "day"}, "JSON object or"),
            ("overwrite", {"partitionOverwriteMode": "some"}, "static or dynamic"),
            ("append", {"mergeSchema": "maybe"}, "true or false"),
            ("append", {"merge-schema": "true"}, "no option"),
            ("append", {"snapshot_id": "1"}, "cannot be written"),
            ("append", {"file.format": "text"}, "file.format"),
        ],
        *(1, 5),
    ),
)
@needs(Feature.PYTHON_SOURCE)
def test_options_of_the_format_are_checked_before_a_job_starts(
    spark: SparkSession, tmp_path: Path, mode: str, options: dict[str, str], said: str
) -> None:
    table = new_table(tmp_path, partitions=["day"])
    df = spark.sql("select 1L as id, 'x' as day")
    before = _jobs(spark)
    with pytest.raises(AnalysisException, match=said):
        df.write.format("lakewright").options(**options).mode(mode).save(table.table_path)
    assert _jobs(spark) == before
    assert table.snapshot() is None


_TRACKED = {"row-tracking.enabled": "true", "deletion-vectors.enabled": "true"}


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_changes_with_a_job_id_are_made_once(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    keyed = kind == "keyed"
    table = new_table(tmp_path, keys=["id"] if keyed else [], options={"bucket": "1"} if keyed else _TRACKED)
    lw.write_table(spark.sql(_ROWS.format(0, 8)).coalesce(1), table)
    new = spark.sql("select 2L as id, 'x' as day, 7L as n union all select 20L, 'y', 8L")
    ids = spark.sql("select 3L as _ROW_ID, 'z' as text")
    calls: list[Any] = [
        lambda job: lws.delete(spark, table, "id = 1", job_id=job),
        lambda job: lws.update(spark, table, {"n": 1}, "id > 4", job_id=job),
        lambda job: table.upsert(new, ["id"], job_id=job),
        lambda job: table.merge(new, "id").when_matched_delete().execute(job_id=job),
        *([] if keyed else [lambda job: table.update_by_row_id(ids, job_id=job)]),
        *([] if keyed else [lambda job: table.delete_by_row_id(ids, job_id=job)]),
    ]
    first = [call(f"job {number}") for number, call in enumerate(calls)]
    rows, newest, jobs = rows_of(table), table.store.snapshots.latest_id(), _jobs(spark)
    for number, (call, once) in enumerate(zip(calls, first, strict=True)):
        again = call(f"job {number}")
        assert (again.replayed, again.snapshot_id) == (True, once.snapshot_id)
        assert (again.deleted, again.updated, again.inserted) == (once.deleted, once.updated, once.inserted)
    assert (rows_of(table), table.store.snapshots.latest_id(), _jobs(spark)) == (rows, newest, jobs)
    assert table.delete("id = 4", job_id="job 0").replayed, "embedded, the job is the same"
    assert_tidy(table)


def test_an_insert_takes_its_key_from_the_frame(spark: SparkSession, tmp_path: Path) -> None:
    for keys, options in (([], {}), (["id"], {"bucket": "1"})):
        table = new_table(tmp_path, keys=keys, options=options, name=f"t{len(keys)}")
        df = spark.sql("select 5L as id, 'x' as day")
        lws.merge(df, table, "id").when_not_matched_insert({"day": lw.source_col("day")}).execute()
        assert [row[:2] for row in rows_of(table)] == [(5, "x")]
