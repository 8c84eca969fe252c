"""Frames written by Spark's workers are what the embedded engine would have written."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakewright as lw
from lakewright.calls import Progress
from lakewright.commit.committer import Committer
from lakewright.commit.message.message import CommitMessage
from lakewright.errors import (
    CommitConflictError,
    CommitUnknownError,
    InvalidInputError,
    LakewrightWarning,
    UnsupportedError,
)
from lakewright.spark import WriteResult, read_table, write_table
from lakewright.spark.jobs.run import run_job
from lakewright.spark.write import compaction
from lakewright.spark.write import frame as writing
from lakewright.spark.write.frame import write_micro_batch
from lakewright.spec.snapshot import CommitKind
from support.spark_writes import COLUMNS, assert_tidy, new_table, rows_of

_ROWS = [(i % 40, f"2026-01-0{i % 3 + 1}", i, f"row {i}") for i in range(120)]  # every key three times
_MORE = [(i % 50, f"2026-01-0{i % 3 + 1}", 1000 + i, None) for i in range(50)]
_SQL = "id long, day string, n long, text string"


@dataclass(frozen=True)
class Kind:
    """One kind of table."""

    keys: Sequence[str] = ()
    partitions: Sequence[str] = ()
    options: dict[str, str] = field(default_factory=dict)
    compacts: bool = False  # rows can be read only after a compaction


KINDS = {
    "append": Kind(),
    "append, partitioned": Kind(partitions=["day"]),
    "append, buckets": Kind(options={"bucket": "3", "bucket-key": "id"}),
    "append, buckets, partitioned": Kind(partitions=["day"], options={"bucket": "2", "bucket-key": "id"}),
    "keyed": Kind(["id"], options={"bucket": "3"}),
    "keyed, partitioned": Kind(["id", "day"], ["day"], {"bucket": "2"}),
    "keyed, dynamic": Kind(["id"], options={"bucket": "-1", "dynamic-bucket.target-row-num": "10"}),
    "keyed, dynamic, partitioned": Kind(["id", "day"], ["day"], {"bucket": "-1"}),
    "keyed, cross-partition": Kind(["id"], ["day"], {"bucket": "-1"}),
    "keyed, postponed": Kind(["id"], options={"bucket": "-2"}, compacts=True),
    "keyed, changelog of the input": Kind(["id"], options={"bucket": "2", "changelog-producer": "input"}),
    "keyed, deletion vectors": Kind(["id"], options={"bucket": "2", "deletion-vectors.enabled": "true"}),
    "first row": Kind(["id"], options={"bucket": "2", "merge-engine": "first-row"}),
    "partial update": Kind(["id"], options={"bucket": "2", "merge-engine": "partial-update"}),
    "sums": Kind(
        ["id"],
        options={
            "bucket": "2",
            "merge-engine": "aggregation",
            "fields.n.aggregate-function": "sum",
            "fields.text.aggregate-function": "last_non_null_value",
        },
    ),
    "sequence field": Kind(["id"], options={"bucket": "2", "sequence.field": "n"}),
}


def _arrow(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(COLUMNS.names, row, strict=True)) for row in rows], COLUMNS)


def _frame(spark: SparkSession, rows: Sequence[tuple[Any, ...]], parts: int = 3) -> DataFrame:
    """Return rows as a frame of some partitions, in their order."""
    size = -(-len(rows) // parts)
    pieces = [list(rows[start : start + size]) for start in range(0, len(rows), size)]
    return spark.createDataFrame(spark.sparkContext.parallelize(pieces, len(pieces)).flatMap(list), _SQL)


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_table_holds_what_the_embedded_engine_writes(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    kind = KINDS[name]
    ours, embedded = (
        new_table(tmp_path, keys=kind.keys, partitions=kind.partitions, options=kind.options, name=name)
        for name in ("ours", "embedded")
    )
    for rows in (_ROWS, _MORE):
        result = write_table(_frame(spark, rows), ours)
        lw.write_table(_arrow(rows), embedded)
        assert result.snapshot_id is not None
        assert not result.replayed
    if kind.compacts:
        assert ours.compact().rows == embedded.compact().rows
    assert rows_of(ours) == rows_of(embedded)
    assert len(rows_of(ours)) == (170 if not kind.keys else len({tuple(r[: len(kind.keys)]) for r in (*_ROWS, *_MORE)}))
    if "changelog-producer" in kind.options:
        changes = [
            lw.read_table(table, incremental=(0, table.store.snapshots.latest_id() or 0), row_kinds=True).num_rows
            for table in (ours, embedded)
        ]
        assert changes[0] == changes[1] > 0
    assert_tidy(ours)


@pytest.mark.parametrize("tracked", ["true", "false"])
def test_rows_keep_the_order_of_the_frame(spark: SparkSession, tmp_path: Path, tracked: str) -> None:
    table = new_table(tmp_path, options={"row-tracking.enabled": tracked, "target-file-row-num": "300"})
    frame = spark.range(0, 4000, numPartitions=4).selectExpr("id", "'d' AS day", "id AS n", "'x' AS text")
    assert write_table(frame, table).tasks == 4
    found = lw.read_table(table, columns=["n", "_ROW_ID"] if tracked == "true" else ["n"])
    for column in found.columns:
        assert column.to_pylist() == list(range(4000))


def test_the_result_tells_what_came_into_the_table(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, partitions=["day"])
    seen: list[Progress] = []
    result = write_table(_frame(spark, _ROWS, 2), table.table_path, progress=seen.append)
    snapshot = table.store.snapshots.get(result.snapshot_id or 0)
    files = [entry.file for entry in table.store.manifests.live(snapshot)]
    assert (result.rows, result.files, result.bytes) == (120, len(files), sum(file.file_size for file in files))
    assert (result.partitions, result.tasks) == (3, 2)
    assert result.seconds > 0
    assert result.way
    assert (seen[-1].rows, seen[-1].tasks, seen[-1].tasks_done) == (120, 2, 2)


def test_nothing_is_committed_of_an_empty_frame(spark: SparkSession, tmp_path: Path) -> None:
    for table in (new_table(tmp_path), new_table(tmp_path, keys=["id"], name="keyed", options={"bucket": "2"})):
        result = write_table(spark.createDataFrame([], _SQL), table)
        assert (result.snapshot_id, result.rows, result.files) == (None, 0, 0)
        assert table.store.snapshots.latest_id() is None


def test_deletes_and_row_kinds(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, keys=["id"], options={"bucket": "2"})
    write_table(_frame(spark, _ROWS), table, "upsert")
    assert write_table(spark.range(0, 10), table, "delete").rows == 10
    assert [row[0] for row in rows_of(table)] == sorted(range(10, 40), key=lambda i: repr((i,)))
    kinds = spark.sql("select * from values (10L, '-D'), (11L, '+U'), (99L, '+I') as t(id, _row_kind)")
    write_table(kinds, table)
    rows = {row[0]: row for row in rows_of(table)}
    assert 10 not in rows
    assert rows[11] == (11, None, None, None)
    assert 99 in rows
    with pytest.raises(InvalidInputError, match="row kind"):
        write_table(kinds.selectExpr("id", "'?' as _row_kind"), table)
    with pytest.raises(UnsupportedError, match="no primary key"):
        write_table(spark.range(3), new_table(tmp_path, name="append"), "delete")


def test_overwrites_replace_partitions_or_the_table(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, partitions=["day"])
    write_table(_frame(spark, _ROWS), table)
    day = "2026-01-01"
    write_table(_frame(spark, [(1, day, 1, "dynamic")]), table, "overwrite")
    assert [row[3] for row in rows_of(table) if row[1] == day] == ["dynamic"]
    assert len(rows_of(table)) == 81
    write_table(spark.createDataFrame([], _SQL), table, "overwrite", partitions={"day": day})
    assert len(rows_of(table)) == 80
    with pytest.raises(InvalidInputError, match="does not replace"):
        write_table(_frame(spark, _MORE), table, "overwrite", partitions={"day": day})
    assert_tidy(table)
    keyed = new_table(tmp_path, keys=["id"], options={"bucket": "2"}, name="keyed")
    write_table(_frame(spark, _ROWS), keyed)
    write_table(_frame(spark, _MORE[:2]), keyed, "overwrite")
    assert [row[0] for row in rows_of(keyed)] == [0, 1]
    assert_tidy(keyed)


def test_a_frame_may_read_the_table_that_it_overwrites(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, keys=["id"], options={"bucket": "2"})
    write_table(_frame(spark, _ROWS), table)
    before = rows_of(table)
    frame = read_table(spark, table).selectExpr("id", "day", "n + 1 as n", "text")
    write_table(frame, table, "overwrite")
    assert rows_of(table) == [(row[0], row[1], cast("int", row[2]) + 1, row[3]) for row in before]


def test_what_a_schema_tells_is_refused_before_a_job_starts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "run_job", lambda *_, **__: pytest.fail("a job was started"))
    table = new_table(tmp_path, keys=["id"], options={"bucket": "2"})
    frame = _frame(spark, _ROWS)
    for wrong, mode, message in (
        (frame.drop("id"), "append", "lacks the column 'id'"),
        (frame.selectExpr("*", "1 as extra"), "append", "extra"),
        (frame.selectExpr("id", "array(n) as n"), "append", "'n'"),
        (frame.drop("id"), "delete", "lacks the column 'id'"),
        (frame.selectExpr("*", "'+I' as _row_kind", "'+I' as row_kind"), "append", "both"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            write_table(wrong, table, cast("lw.WriteMode", mode))
    with pytest.raises(InvalidInputError, match="no Spark frame"):
        write_table(cast("DataFrame", _arrow(_ROWS)), table)
    with pytest.raises(InvalidInputError, match="write_stream"):
        write_table(spark.readStream.format("rate").load(), table)
    with pytest.raises(InvalidInputError, match=r"mode.*'merge'"):
        write_table(frame, table, "merge")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="overwrite replaces"):
        write_table(frame, table, partitions={"day": "x"})
    with pytest.raises(InvalidInputError, match="at least 1"):
        write_table(frame, table, concurrency=0)
    with pytest.raises(InvalidInputError, match="job id"):
        write_table(frame, table, job_id="")
    assert_tidy(table)


def test_what_rows_tell_is_refused_with_its_type_and_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    frame = _frame(spark, [*_ROWS, (None, "x", 1, "no key")])
    for options in ({"bucket": "2"}, {"bucket": "2", "lakewright.write-distribution": "none"}):
        table = new_table(tmp_path, keys=["id"], options=options, name=f"t{len(options)}")
        with pytest.raises(InvalidInputError, match="'id'") as raised:
            write_table(frame, table)
        assert raised.value.column == "id"
        assert table.store.snapshots.latest_id() is None
        assert_tidy(table)


def test_merging_schemas_adds_and_widens_columns(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, columns=pa.schema({"id": pa.int32()}))
    write_table(spark.sql("select 1 as id"), table)
    write_table(spark.range(2**40, 2**40 + 1).selectExpr("id", "'new' as text"), table, schema_mode="merge")
    assert rows_of(lw.open_table(table.table_path)) == [(1, None), (2**40, "new")]
    # The handle is older than the columns, and does not mind.
    write_table(spark.range(2**40 + 1, 2**40 + 2).selectExpr("id", "'more' as text"), table, schema_mode="merge")
    write_table(spark.sql("select 2 as id, 'plain' as text"), table)
    assert set(rows_of(table)) == {(1, None), (2, "plain"), (2**40, "new"), (2**40 + 1, "more")}


def test_concurrency_is_the_largest_number_of_tasks(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path)
    assert write_table(_frame(spark, _ROWS, 6), table, concurrency=2).tasks == 2
    assert write_table(_frame(spark, _ROWS, 2), table, concurrency=5).tasks == 2


# ---- the verb of builders --------------------------------------------------------------------------------------------


def test_builders_write_and_commit_frames(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, partitions=["day"])
    before = spark.conf.get("spark.sql.shuffle.partitions")
    frame = _frame(spark, _ROWS)
    with table.new_batch_write_builder().with_commit_user("me").new_write() as write:
        result = write.write_spark(frame, concurrency=2, spark_options={"spark.sql.shuffle.partitions": "2"})
    assert (result.rows, result.tasks) == (120, 2)
    assert table.store.snapshots.get(1).commit_user == "me"
    assert spark.conf.get("spark.sql.shuffle.partitions") == before
    table.new_batch_write_builder().new_write().write_spark(frame.where("day = '2026-01-01'"), overwrite=True)
    assert len(rows_of(table)) == 120
    static = table.copy({"dynamic-partition-overwrite": "false"}).new_batch_write_builder().overwrite()
    static.new_write().write_spark(frame.limit(1))
    assert len(rows_of(table)) == 1
    part = table.new_batch_write_builder().new_write().with_write_type(["id", "day"])
    part.write_spark(frame.select("id", "day"))
    assert len(rows_of(table)) == 121
    with pytest.raises(UnsupportedError, match="foreach_batch"):
        table.new_stream_write_builder().new_write().write_spark(frame)


# ---- once ------------------------------------------------------------------------------------------------------------


def test_a_job_id_commits_once(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path, partitions=["day"])
    first = write_table(_frame(spark, _ROWS), table, job_id="load 7")
    assert not first.replayed
    write_table(_frame(spark, _MORE), table, job_id="load 8")
    monkeypatch.setattr(writing, "run_job", lambda *_, **__: pytest.fail("a job was started"))
    again = write_table(_frame(spark, _MORE), table, job_id="load 7")
    assert again.replayed
    assert (again.snapshot_id, again.rows, again.files, again.bytes, again.partitions) == (
        first.snapshot_id,
        first.rows,
        first.files,
        first.bytes,
        first.partitions,
    )
    assert len(rows_of(table)) == 170


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_of_two_drivers_with_one_job_id_one_commits(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: lw.WriteMode
) -> None:
    """Both look for the job before either has committed; the slower one finds the other's snapshot when it commits."""
    table = new_table(tmp_path, keys=["id"], options={"bucket": "2"})
    both_wrote = threading.Barrier(2, timeout=120)

    def run_and_wait(*args: Any, **more: Any) -> Any:  # noqa: ANN401
        done = run_job(*args, **more)
        both_wrote.wait()
        return done

    monkeypatch.setattr(writing, "run_job", run_and_wait)
    results: list[WriteResult] = []
    frame = _frame(spark, _ROWS)
    drivers = [
        threading.Thread(target=lambda: results.append(write_table(frame, table, mode, job_id="one"))) for _ in range(2)
    ]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    assert sorted(result.replayed for result in results) == [False, True]
    assert {result.snapshot_id for result in results} == {1}
    assert [result.rows for result in results] == [40, 40]
    assert table.store.snapshots.latest_id() == 1
    assert_tidy(table)


def test_a_batch_of_a_stream_commits_once(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, partitions=["day"])
    frame = _frame(spark, _ROWS)
    first = write_micro_batch(frame, table, 0, commit_user="stream")
    assert (first.rows, first.replayed) == (120, False)
    assert write_micro_batch(frame, table, 0, commit_user="stream").replayed
    assert write_micro_batch(_frame(spark, _MORE), table, 1, commit_user="stream").rows == 50
    assert write_micro_batch(frame, table, 0, commit_user="stream").replayed
    assert len(rows_of(table)) == 170
    complete = write_micro_batch(_frame(spark, _MORE[:1]), table, 2, commit_user="stream", mode="overwrite")
    assert complete.rows == 1
    assert rows_of(table) == _MORE[:1]
    write_micro_batch(spark.createDataFrame([], _SQL), table, 3, commit_user="stream", mode="overwrite")
    assert rows_of(table) == []
    assert write_micro_batch(frame, table, 3, commit_user="stream").replayed
    newest = table.store.snapshots.latest()
    assert newest is not None
    assert (newest.commit_user, newest.commit_identifier) == ("stream", 3)


# ---- the commit ------------------------------------------------------------------------------------------------------


def test_a_commit_that_is_refused_leaves_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise CommitConflictError("no")

    table = new_table(tmp_path)
    monkeypatch.setattr(Committer, "commit", refuse)
    with pytest.raises(CommitConflictError):
        write_table(_frame(spark, _ROWS), table)
    assert_tidy(table)


def test_nothing_is_removed_while_nobody_knows_what_became_of_a_commit(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Committer.commit

    def lose_the_reply(self: Committer, messages: Sequence[CommitMessage], **more: Any) -> None:  # noqa: ANN401
        commit(self, messages, **more)
        raise CommitUnknownError("who knows")

    table = new_table(tmp_path)
    monkeypatch.setattr(Committer, "commit", lose_the_reply)
    with pytest.raises(CommitUnknownError):
        write_table(_frame(spark, _ROWS), table)
    assert len(rows_of(table)) == 120


def test_compactions_after_a_commit_run_on_workers(spark: SparkSession, tmp_path: Path) -> None:
    options = {"bucket": "2", "deletion-vectors.enabled": "true"}
    table = new_table(tmp_path, keys=["id"], options=options)
    write_table(_frame(spark, _ROWS), table)
    newest = table.store.snapshots.latest()
    assert newest is not None
    assert newest.commit_kind is CommitKind.COMPACT
    assert len(rows_of(table)) == 40  # level 0 is hidden, so somebody has compacted
    assert_tidy(table)


def test_a_compaction_that_fails_is_a_warning(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no disk")

    table = new_table(tmp_path, keys=["id"], options={"bucket": "1", "deletion-vectors.enabled": "true"})
    monkeypatch.setattr(compaction, "run_job", fail)
    with pytest.warns(LakewrightWarning, match="STAY HIDDEN"):
        result = write_table(_frame(spark, _ROWS), table, job_id="one")
    assert result.snapshot_id == 1
    assert_tidy(table)
    monkeypatch.undo()
    assert write_table(_frame(spark, _ROWS), table, job_id="one").replayed  # and the compaction is made up for
    assert len(rows_of(table)) == 40
