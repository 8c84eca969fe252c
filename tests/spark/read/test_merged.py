"""Splits through `mapInArrow`: the same rows as embedded, in tasks of equal size, of the snapshot that was planned."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from lakewright import CatalogFactory, FileStoreTable
from lakewright.read.read_builder import ReadBuilder
from lakewright.read.split_sharing import cut_split, share_splits
from lakewright.spark import core_scan as merged
from lakewright.spark.core_scan import merged_scan
from lakewright.spec.schema import Schema
from support.effort import some

COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.int32()), ("s", pa.string())])
ENGINES = {
    "deduplicate": {},
    "sequence": {"sequence.field": "v"},
    "first-row": {"merge-engine": "first-row", "lakewright.read-level-0": "true"},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "orc": {"file.format": "orc"},
    "avro": {"file.format": "avro"},
}


def new_table(root: Path, options: dict[str, str] | None = None, name: str = "t") -> FileStoreTable:
    catalog = CatalogFactory.create({"warehouse": str(root)})
    catalog.create_database("db", ignore_if_exists=True)
    made = {"bucket": "2", "write-only": "true", **(options or {})}
    schema = Schema.from_pyarrow_schema(COLUMNS, primary_keys=["k"], options=made)
    catalog.create_table(f"db.{name}", schema, ignore_if_exists=False)
    return catalog.get_table(f"db.{name}")


def upsert(table: FileStoreTable, keys: range, shift: int, kinds: list[str] | None = None) -> None:
    values = [(key * 7 + shift) % 50 for key in keys]
    data = pa.table({"k": list(keys), "v": values, "s": [f"{shift}-{key}" for key in keys]}, COLUMNS)
    builder = table.new_batch_write_builder()
    with builder.new_write() as write:
        write.write_arrow(data, row_kinds=kinds)
        builder.new_commit().commit(write.prepare_commit())


def filled(root: Path, options: dict[str, str] | None = None) -> FileStoreTable:
    table = new_table(root, options)
    upsert(table, range(60), 0)
    upsert(table, range(20, 80, 3), 1)
    upsert(table, range(30, 40), 2)
    return table


def same_rows(spark: SparkSession, builder: ReadBuilder, partitions: int | None = None) -> list[tuple[object, ...]]:
    """Check that a merged scan gives what the core gives, and return that."""
    read, splits = builder.new_read(), builder.new_scan().plan().splits()
    frame = merged_scan(spark, read, splits, partitions=partitions)
    expected = sorted((tuple(row.values()) for row in read.to_arrow(splits).to_pylist()), key=repr)
    assert frame.columns == [field.name for field in read.read_type()]
    assert sorted((tuple(row) for row in frame.collect()), key=repr) == expected
    return expected


@pytest.mark.filterwarnings("ignore:.*STAY HIDDEN.*")
@pytest.mark.parametrize("engine", some(list(ENGINES), 3, 6))
def test_the_same_rows_as_embedded(spark: SparkSession, tmp_path: Path, engine: str) -> None:
    table = filled(tmp_path, ENGINES[engine])
    builder = table.new_read_builder().with_filter("v < 25 AND k > 3").with_projection(["s", "k"])
    assert len(same_rows(spark, builder)) > 10


def test_changes_come_with_their_kinds(spark: SparkSession, tmp_path: Path) -> None:
    table = filled(tmp_path)
    upsert(table, range(5), 3, ["-D"] * 5)
    changes = table.copy({"incremental-between": "1,4", "incremental-between-scan-mode": "diff"})
    found = same_rows(spark, changes.new_read_builder().with_include_row_kind(column="kind"))
    assert {row[0] for row in found} == {"+I", "-U", "+U", "-D"}


def test_a_frame_is_pinned_and_lazy(spark: SparkSession, tmp_path: Path) -> None:
    table = filled(tmp_path)
    builder = table.new_read_builder()
    splits = builder.new_scan().plan().splits()
    frame = merged_scan(spark, builder.new_read(), splits)
    before = {row["k"]: row["s"] for row in frame.collect()}
    upsert(table, range(100), 9)
    assert {row["k"]: row["s"] for row in frame.collect()} == before
    for path in splits[0].file_paths:
        Path(path).unlink()
    again = merged_scan(spark, builder.new_read(), splits)  # nothing is opened before an action runs
    with pytest.raises(Exception, match="missing"):
        again.collect()


def test_sections_of_a_bucket_go_to_several_tasks(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, {"bucket": "1"})
    for first in (0, 1000, 2000):
        upsert(table, range(first, first + 20), 0)
        upsert(table, range(first + 10, first + 30), 1)
    builder = table.new_read_builder()
    (split,) = builder.new_scan().plan().splits()
    frame = merged_scan(spark, builder.new_read(), [split], partitions=8)
    tasks = frame.groupBy(F.spark_partition_id()).count().collect()
    assert sorted(row["count"] for row in tasks) == [30, 30, 30]
    assert [len(part.files) for part in cut_split(builder.new_read().store, split)] == [2, 2, 2]
    assert [len(share) for share in share_splits(builder.new_read().store, [split], at_least=2)] == [2, 1]


def test_many_splits_travel_as_rows(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merged, "_CLOSURE_BYTES_MAX", 0)
    assert same_rows(spark, filled(tmp_path).new_read_builder(), partitions=2)


def test_no_column_no_split_and_a_limit(spark: SparkSession, tmp_path: Path) -> None:
    table = filled(tmp_path)
    builder = table.new_read_builder()
    assert merged_scan(spark, builder.new_read(), []).collect() == []
    splits = builder.new_scan().plan().splits()
    limited = merged_scan(spark, builder.with_limit(3).new_read(), splits, partitions=1)
    assert limited.count() == 3


def test_spark_is_told_how_many_rows_may_come(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    large = merged._one_row_per_task(spark, 3, 1 << 24).mapInArrow(lambda batches: batches, "task bigint")
    assert sorted(row.task for row in large.collect()) == [0, 1, 2]
    spark.range(1 << 28).join(large, F.col("id") == F.col("task")).explain()
    assert "Broadcast" not in capsys.readouterr().out
