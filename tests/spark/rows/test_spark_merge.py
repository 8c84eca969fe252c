"""Merge and upsert of frames into append tables: what embedded verbs make of the same rows, in one snapshot."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

import lakewright as lw
import lakewright.spark as lws
from lakewright.dml.merge import MergeBuilder
from lakewright.dml.row_changes import UpdateResult
from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.spark import spark_verbs as merging
from lakewright.spark.frame_operations import from_arrow
from lakewright.spark.row_matching import MergeSides, changed_groups, source_schema
from lakewright.table.file_store_table import FileStoreTable
from support.effort import some
from support.spark_writes import assert_tidy

VECTORS = {"deletion-vectors.enabled": "true"}
TRACKED = {"row-tracking.enabled": "true"}
EVOLUTION = {**TRACKED, "data-evolution.enabled": "true"}
COLUMNS = pa.schema({"id": pa.int64(), "p": pa.string(), "n": pa.float64(), "x": pa.string()})
CHANGES = pa.table(
    {
        "id": [2, 3, 11, 25, 26, 40, 41, None],
        "p": ["a", "b", "b", "b", "a", "a", "b", "a"],
        "n": [1.5, 2.5, None, 4.5, 5.5, 6.5, 7.5, 8.5],
    }
)


def _table(
    path: Path, options: Mapping[str, str] | None = None, partitioned: Sequence[str] = (), files: int = 3
) -> FileStoreTable:
    """Make a table with ten rows in each file; where there are vectors, two rows are deleted."""
    catalog = lw.CatalogFactory.create({"warehouse": str(path)})
    catalog.create_database("d", ignore_if_exists=True)
    schema = lw.Schema.from_pyarrow_schema(COLUMNS, partition_keys=list(partitioned), options=dict(options or {}))
    catalog.create_table("d.t", schema)
    table = catalog.get_table("d.t")
    for first in range(0, files * 10, 10):
        ids = range(first, first + 10)
        columns = [list(ids), ["ab"[i % 2] for i in ids], [float(i) for i in ids], [f"x{i}" for i in ids]]
        lw.write_table(pa.table(columns, schema=COLUMNS), table)
    if "deletion-vectors.enabled" in (options or {}):
        table.delete("id IN (3, 14)")
    return table


def _rows(table: FileStoreTable, *more: str) -> list[dict[str, object]]:
    rows = lw.read_table(table, columns=[*COLUMNS.names, *more])
    found: list[dict[str, object]] = rows.sort_by([("id", "ascending"), ("n", "ascending")]).to_pylist()
    return found


def _said(builder: MergeBuilder) -> MergeBuilder:
    """Say a merge with a clause of every kind."""
    new = {name: lw.source_col(name) for name in ("id", "p", "n")}
    return (
        builder.when_matched_delete(condition="s.n IS NULL")
        .when_matched_update({"n": pc.field("t.n") + pc.field("s.n")}, condition="t.id <> 26")
        .when_not_matched_insert(new, condition="s.n < 8")
    )


def _counts(result: UpdateResult) -> tuple[int | None, int | None, int | None]:
    return result.deleted, result.updated, result.inserted


TABLES = {
    "plain": ({}, ()),
    "vectors": (VECTORS, ()),
    "fixed buckets": ({"bucket": "2", "bucket-key": "id"}, ()),
    "data evolution": ({**EVOLUTION, **VECTORS}, ()),
    "partitioned orc": ({"file.format": "orc"}, ("p",)),
}


@pytest.mark.parametrize("kind", some(list(TABLES), 1, 3))
def test_a_merge_is_what_it_is_embedded(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    options, partitioned = TABLES[kind]
    one, other = (_table(tmp_path / name, options, partitioned) for name in ("embedded", "spark"))
    embedded = _said(one.merge(CHANGES, on="id")).execute()
    result = _said(other.merge(from_arrow(spark, CHANGES), on="id")).execute()
    assert _rows(other) == _rows(one)
    assert _counts(result) == _counts(embedded)
    assert result.method == embedded.method
    assert result.snapshot_id == embedded.snapshot_id  # one commit


def test_rows_that_no_source_row_matches_are_changed_in_every_file(spark: SparkSession, tmp_path: Path) -> None:
    one, other = (_table(tmp_path / name, {**TRACKED, **VECTORS}) for name in ("embedded", "spark"))
    on = "t.id = s.id AND (t.p <> s.p OR s.n >= t.n OR t._ROW_ID = 2)"
    changes = CHANGES.append_column("n32", CHANGES.column("id").cast(pa.int32()))
    builders = one.merge(changes, on=on), lws.merge(from_arrow(spark, changes), other, on)
    embedded, result = (
        builder.when_matched_delete(condition="s.n32 > 11")
        .when_not_matched_by_source_update({"x": "alone"}, condition="t.n < 16")
        .when_not_matched_by_source_delete(condition="t.id > 20")
        .execute()
        for builder in builders
    )
    assert _rows(other) == _rows(one)
    assert _counts(result) == _counts(embedded)


def test_keys_of_a_small_source_say_which_files_matter(spark: SparkSession, tmp_path: Path) -> None:
    table = _table(tmp_path, {**TRACKED, **VECTORS}, ("p",))
    source = from_arrow(spark, pa.table({"id": [11, 17], "p": ["b", "b"], "f": [0.5, float("nan")]}))
    on = "t.id = s.id AND t.p = s.p AND t.n = s.f AND t._ROW_ID > 0"
    plan = lws.merge(source, table, on).when_matched_delete().plan(source_schema(source, "t"))
    with MergeSides.of(table.store, source, plan).persisted_if_small(1 << 40) as sides:
        assert sides.is_persisted
        assert str(sides.pruning()) == "id BETWEEN 11 AND 17 AND p IN ('b') AND _ROW_ID > 0"
    with MergeSides.of(table.store, source, plan).persisted_if_small(10) as sides:
        assert not sides.is_persisted  # the table is no larger


def test_of_equal_keys_in_the_frame_the_last_counts(spark: SparkSession, tmp_path: Path) -> None:
    one, other = (_table(tmp_path / name, {**TRACKED, **VECTORS}, ("p",)) for name in ("embedded", "spark"))
    ids = [1, 1, 50, 50, None, None, 12, 1]
    rows = pa.table({"id": pa.array(ids, pa.int32()), "p": list("bbaaaaab"), "n": [float(n) for n in range(8)]})
    embedded = one.upsert(rows, ["id", "p"])
    result = other.upsert(from_arrow(spark, rows).repartition(1), ["id", "p"])
    assert _rows(other) == _rows(one)
    assert _counts(result) == _counts(embedded) == (0, 2, 3)
    moved = lw.read_table(other, columns=["id", "_ROW_ID"], filter="id IN (1, 12)").to_pylist()
    assert moved == lw.read_table(one, columns=["id", "_ROW_ID"], filter="id IN (1, 12)").to_pylist()


def test_an_insert_takes_effect_after_a_change_of_its_key(spark: SparkSession, tmp_path: Path) -> None:
    source = pa.table({"id": [1, 1], "v": [10, 99]})
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int64())])
    for name, given in (("embedded", source), ("spark", from_arrow(spark, source))):
        catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path / name)})
        catalog.create_database("d")
        catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(schema, primary_keys=["id"], options={"bucket": "2"}))
        table = catalog.get_table("d.t")
        lw.write_table(pa.table({"id": [1, 2], "v": [10, 20]}), table, mode="upsert")
        merge = table.merge(given, "t.v = s.v").when_matched_update({"v": pc.field("t.v") + 1})
        merge.when_not_matched_insert().execute()
        assert lw.read_table(table).sort_by("id")["v"].to_pylist() == [99, 20]


def test_a_table_without_a_snapshot_gets_new_rows(spark: SparkSession, tmp_path: Path) -> None:
    table = _table(tmp_path, files=0)
    result = lws.upsert(from_arrow(spark, CHANGES), table, ["id"])
    assert (result.snapshot_id, _counts(result)) == (1, (0, 0, 8))
    assert len(_rows(table)) == 8


def test_two_source_rows_for_one_row_are_an_error_and_leave_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = _table(tmp_path, VECTORS)
    before = table.store.snapshots.latest_id()
    twice = spark.createDataFrame([(5, "one"), (5, "two"), (99, "new")], "id long, x string")
    said = lws.merge(twice, table, "id").when_matched_update({"x": lw.source_col("x")}).when_not_matched_insert()
    with pytest.raises(InvalidInputError, match="id = 5 is matched by 2 rows of the source"):
        said.execute()
    assert table.store.snapshots.latest_id() == before
    assert_tidy(table)


def test_what_spark_compares_in_another_way_is_refused_or_spelled_out(spark: SparkSession, tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    columns = pa.schema({"f": pa.float64(), "t": pa.timestamp("ns"), "n": pa.int64()})
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns))
    table = catalog.get_table("d.t")
    lw.write_table(pa.table([[0.0, float("nan"), None, 2.5], [1, 2, 3, 4], [0, 1, 2, 3]], schema=columns), table)
    source = from_arrow(spark, pa.table({"f": [-0.0, float("nan"), None, 2.5], "n": [10, 11, 12, 13]}))
    result = lws.merge(source, table, "f").when_matched_update({"n": lw.source_col("n")}).execute()
    assert result.updated == 3  # the zeros are one number, NaN equals NaN, null matches nothing
    assert sorted(lw.read_table(table).column("n").to_pylist()) == [2, 10, 11, 13]
    times = source.selectExpr("timestamp_ntz'2020-01-01 00:00:00' AS t", "n")
    with pytest.raises(UnsupportedError, match="cannot match 't'"):
        lws.merge(times, table, "t").when_matched_delete().execute()
    with pytest.raises(UnsupportedError, match="cannot ask"):
        lws.merge(times, table, "t.n = s.n AND t.t > s.t").when_matched_delete().execute()


def test_a_merge_that_lost_a_race_begins_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _table(tmp_path, VECTORS)
    new, real = lw.read_table(table, filter="id = 7").set_column(0, "id", pa.array([41])), changed_groups

    def overtaken(*args: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever is given
        if len(_rows(table)) == 28:
            lw.write_table(new, table)
        return real(*args, **named)

    monkeypatch.setattr(merging, "changed_groups", overtaken)
    result = lws.upsert(from_arrow(spark, CHANGES), table, ["id"])
    assert result.attempts == 2
    assert _counts(result) == (0, 5, 3)  # 41 is not inserted any more
    assert_tidy(table)


def _dies_once(rows: pa.Table) -> pa.ChunkedArray:
    """Give new values, but kill the first worker that gets rows of the last file."""
    context = TaskContext.get()
    if context is not None and context.attemptNumber() == 0 and pc.max(rows.column("t.n")).as_py() >= 20:
        os._exit(1)
    return rows.column("s.n")


def test_a_worker_that_dies_leaves_no_file_behind(spark: SparkSession, tmp_path: Path) -> None:
    table = _table(tmp_path)
    said = table.merge(from_arrow(spark, CHANGES), on="id").when_matched_update({"n": _dies_once})
    result = said.when_not_matched_insert().execute()
    assert _counts(result) == (0, 5, 3)
    assert len(_rows(table)) == 33
    assert_tidy(table)


def test_rows_are_changed_by_their_ids_wherever_they_are(spark: SparkSession, tmp_path: Path) -> None:
    """In files that imply the ids of their rows, and in those of moved rows that carry them."""
    tables = [_table(tmp_path / name, {**TRACKED, **VECTORS}) for name in ("embedded", "spark")]
    for table in tables:
        table.update({"x": "moved"}, where="id IN (5, 25)")
    values = pa.table({"_ROW_ID": [25, 5, 8, 19], "n": [0.1, 0.2, 0.3, 0.4], "y": [1, 2, 3, 4]})
    one, other = tables
    embedded = one.update_by_row_id(values, ["n"])
    result = other.update_by_row_id(from_arrow(spark, values), ["n"])
    assert _counts(result) == _counts(embedded) == (0, 4, 0)
    gone = pa.table({"_ROW_ID": [5, 3, 8, 1, 1]})
    embedded, result = one.delete_by_row_id(gone), other.delete_by_row_id(from_arrow(spark, gone))
    assert _counts(result) == _counts(embedded) == (3, 0, 0)  # 3 was deleted before
    assert _rows(other, "_ROW_ID") == _rows(one, "_ROW_ID")


def test_ids_that_are_unknown_null_deleted_or_there_twice_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = _table(tmp_path, {**EVOLUTION, **VECTORS})
    before = table.store.snapshots.latest_id()

    def refused(ids: Sequence[int | None], match: str) -> None:
        frame = from_arrow(spark, pa.table({"_ROW_ID": pa.array(ids, pa.int64()), "n": [1.0] * len(ids)}))
        with pytest.raises(InvalidInputError, match=match):
            lws.update_by_row_id(frame, table)

    refused([1, 99, 30], "the row ids 30, 99 are unknown")
    refused([1, None], "1 row ids are null")
    refused([1, 2, 2], "the row id 2 is there twice")
    refused([1, 3], "the row id 3 is deleted")
    assert table.store.snapshots.latest_id() == before
    assert_tidy(table)
    with pytest.raises(UnsupportedError, match="does not track its rows"):
        lws.delete_by_row_id(spark.range(1), _table(tmp_path / "plain", files=0))
