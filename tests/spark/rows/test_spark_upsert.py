"""Upserts of frames that lack columns: what embedded upserts make of the same rows, on every kind of table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakewright as lw
import lakewright.spark as lws
from lakewright.errors import UnsupportedError
from lakewright.spark.frame_operations import from_arrow
from support.effort import some
from support.spark_writes import assert_tidy, new_table, rows_of

_KINDS: dict[str, tuple[list[str], list[str], dict[str, str]]] = {  # key, partitions, options
    "fixed buckets": (["id"], [], {"bucket": "2"}),
    "partitions": (["id", "day"], ["day"], {"bucket": "2"}),
    "dynamic buckets": (["id"], [], {"bucket": "-1", "dynamic-bucket.target-row-num": "3"}),
    "across partitions": (["id"], ["day"], {"bucket": "-1"}),
    "deletion vectors": (["id"], [], {"bucket": "2", "deletion-vectors.enabled": "true"}),
    "changelog of the input": (["id"], [], {"bucket": "2", "changelog-producer": "input"}),
    "partial update": (["id"], [], {"bucket": "2", "merge-engine": "partial-update"}),
    "first row": (["id"], [], {"bucket": "2", "merge-engine": "first-row"}),
    "newest wins": (["id"], [], {"bucket": "2", "sequence.field": "n"}),
    "oldest wins": (["id"], [], {"bucket": "2", "sequence.field": "n", "sequence.field.sort-order": "descending"}),
}
_FIRST = pa.table(
    {
        "id": list(range(8)),
        "day": [f"d{i % 2}" for i in range(8)],
        "n": [10 * i if i % 3 else None for i in range(8)],
        "text": [f"text {i}" for i in range(8)],
    }
)
_THEN = pa.table(
    {
        "id": [1, 2, 3, 3, 9, 3, 10, 10],
        "day": ["d1", "d0", "d1", "d1", "d1", "d1", "d0", "d0"],
        "n": [5, None, 100, 300, 7, 200, 2, 1],
    }
)


@pytest.mark.parametrize("name", some(list(_KINDS), 2, 8))
def test_columns_that_a_frame_lacks_stay_as_they_are(spark: SparkSession, tmp_path: Path, name: str) -> None:
    keys, partitions, options = _KINDS[name]
    ours, embedded, written = (
        new_table(tmp_path, keys=keys, partitions=partitions, options=options, name=kind)
        for kind in ("ours", "embedded", "written")
    )
    for table in (ours, embedded, written):
        lw.write_table(_FIRST, table)
    df = from_arrow(spark, _THEN).coalesce(1)
    done, wanted = ours.upsert(df), embedded.upsert(_THEN)
    assert rows_of(ours) == rows_of(embedded)
    assert (done.deleted, done.updated, done.inserted) == (wanted.deleted, wanted.updated, wanted.inserted)
    result = lw.write_table(df, written, mode="upsert", job_id="once")
    again = lw.write_table(df, written, mode="upsert", job_id="once")
    assert rows_of(written) == rows_of(embedded)
    assert (again.replayed, again.snapshot_id, again.rows) == (True, result.snapshot_id, result.rows)
    assert {row[0]: row[3] for row in rows_of(ours)}[2] == "text 2"
    if partitions == ["day"] and keys == ["id"]:
        moved = pa.table({"id": [4, 5], "day": ["d1", "d9"]})
        assert ours.upsert(from_arrow(spark, moved)).updated == embedded.upsert(moved).updated == 2
        assert rows_of(ours) == rows_of(embedded)
    for table in (ours, written):
        assert_tidy(table)


def test_a_frame_with_all_columns_is_written_and_not_counted(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, keys=["id"], options={"bucket": "1"})
    result = table.upsert(from_arrow(spark, _FIRST))
    assert (result.snapshot_id, result.updated, result.inserted, result.written) == (1, None, None, 8)
    nothing = table.upsert(from_arrow(spark, _FIRST).where("id < 0"))
    assert (nothing.snapshot_id, nothing.updated, nothing.inserted) == (None, 0, 0)


def test_what_spark_cannot_look_up_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    last = {"bucket": "1", "merge-engine": "aggregation", "fields.text.aggregate-function": "last_value"}
    folding = new_table(tmp_path, keys=["id"], options=last, name="folding")
    plain = new_table(tmp_path, keys=["id"], options={"bucket": "1"}, name="plain")
    df = from_arrow(spark, _THEN)
    kinds = df.selectExpr("*", "'+I' as _row_kind")
    stream = spark.readStream.format("rate").load().selectExpr("value as id")
    for table, frame, said in ((folding, df, "merge engine"), (plain, kinds, "row kinds")):
        lw.write_table(_FIRST, table)
        with pytest.raises(UnsupportedError, match=f"{said}.*give all columns"):
            table.upsert(frame)
        with pytest.raises(UnsupportedError, match=f"{said}.*give all columns"):
            lws.write_table(frame, table, "upsert")
        with pytest.raises(UnsupportedError, match=r"lacks .*'text'.*mode='append'"):
            lws.write_stream(stream, table, checkpoint=str(tmp_path / "checkpoint"), mode="upsert")
        assert table.store.snapshots.latest_id() == 1
        assert_tidy(table)
