"""Merges read by Spark's own scan: the rows of the core, outdated rows found once, nothing read that is not needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lakewright import CatalogFactory, FileStoreTable, SchemaChange
from lakewright.lsm.merge_rows import MergeRules
from lakewright.read.data_split import DataSplit
from lakewright.spark import computed_vectors, native_scan
from lakewright.spark.computed_vectors import (
    DividedSplits,
    OutdatedFinder,
    clear_outdated_cache,
    divide_splits,
    merge_way,
    outdated_rows,
)
from lakewright.spark.frame_read import read_table
from lakewright.spark.native_scan import ScannedFile, file_columns, leave_rows_out, native_splits, words_of
from lakewright.spec.filter_text import parse_predicate
from lakewright.spec.predicate import TRUE
from lakewright.spec.schema import Schema
from lakewright.spec.types import AtomicType
from support.effort import some

COLUMNS = pa.schema([("k", pa.int64()), ("p", pa.int32()), ("v", pa.int32()), ("s", pa.string())])
SHOWN = {"lakewright.read-level-0": "true"}
TABLES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "sequence": {"sequence.field": "v"},
    "ignore-delete": {"ignore-delete": "true"},
    "first-row": {"merge-engine": "first-row", "ignore-delete": "true", **SHOWN},
    "vectors": {"deletion-vectors.enabled": "true", "write-only": "false", **SHOWN},
    "partial-update": {"merge-engine": "partial-update", "ignore-delete": "true"},
}


@pytest.fixture(autouse=True)
def _nothing_is_kept() -> Iterator[None]:
    clear_outdated_cache()
    yield
    clear_outdated_cache()


def new_table(
    root: Path, options: dict[str, str] | None = None, keys: Sequence[str] = ("k",), partitions: Sequence[str] = ()
) -> FileStoreTable:
    catalog = CatalogFactory.create({"warehouse": str(root)})
    catalog.create_database("db", ignore_if_exists=True)
    made = {"bucket": "2", "write-only": "true", **(options or {})}
    wish = Schema.from_pyarrow_schema(COLUMNS, list(partitions), list(keys), made)
    catalog.create_table("db.t", wish, ignore_if_exists=False)
    return catalog.get_table("db.t")


def upsert(table: FileStoreTable, keys: range, shift: int, kinds: Sequence[str] | None = None) -> None:
    columns = {
        "k": list(keys),
        "p": [key % 2 for key in keys],
        "v": [(key * 7 + shift * 11) % 50 for key in keys],
        "s": [f"{shift}-{key}" for key in keys],
    }
    builder = table.new_batch_write_builder()
    with builder.new_write() as write:
        write.write_arrow(pa.table(columns, COLUMNS), row_kinds=None if kinds is None else list(kinds))
        builder.new_commit().commit(write.prepare_commit())


def fill(table: FileStoreTable) -> FileStoreTable:
    upsert(table, range(80), 0)
    upsert(table, range(20, 100, 3), 1)
    upsert(table, range(0, 60, 5), 2, [("-D", "+U", "+I")[n % 3] for n in range(12)])
    upsert(table, range(1000, 1010), 3)  # meets no other file: it is read as it is
    return table


def same_rows(spark: SparkSession, table: FileStoreTable, where: str | None = None) -> DataFrame:
    """Check that Spark gives what the core gives."""
    builder = table.new_read_builder().with_filter(where)
    expected = sorted(tuple(row.values()) for row in builder.new_read().to_arrow().to_pylist())
    frame = read_table(spark, table, filter=where)
    assert sorted(tuple(row) for row in frame.collect()) == expected
    assert expected
    return frame


def planned(table: FileStoreTable) -> list[DataSplit]:
    return table.new_read_builder().new_scan().plan().splits()


def divided(spark: SparkSession, table: FileStoreTable) -> DividedSplits:
    """Part what is to be merged by the way it is read."""
    read = table.new_read_builder().new_read()
    _, rest = native_splits(read.store, planned(table), read.projection)
    return divide_splits(spark, read, rest)


@pytest.mark.filterwarnings("ignore:.*STAY HIDDEN.*")
@pytest.mark.parametrize("kind", some(list(TABLES), 1, 4, 5))
def test_the_same_rows_as_embedded(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    table = fill(new_table(tmp_path, TABLES[kind]))
    same_rows(spark, table)
    # An older version may match where the newest does not.
    same_rows(spark, table, "v < 20 AND s LIKE '0-%'")
    assert divided(spark, table).way.by_bits == (kind != "partial-update")


def test_partitions_and_composite_keys(spark: SparkSession, tmp_path: Path) -> None:
    table = fill(new_table(tmp_path, keys=("p", "s", "k"), partitions=["p"]))
    upsert(table, range(20, 100, 3), 1, ["-D"] * 27)
    same_rows(spark, table, "p = 1")


def test_schemas_may_change_between_versions(spark: SparkSession, tmp_path: Path) -> None:
    fill(new_table(tmp_path))
    catalog = CatalogFactory.create({"warehouse": str(tmp_path)})
    changes = [
        SchemaChange.rename_column("k", "key"),
        SchemaChange.add_column("more", AtomicType("STRING")),
        SchemaChange.update_column_type("v", AtomicType("BIGINT")),
    ]
    catalog.alter_table("db.t", changes, ignore_if_not_exists=False)
    table = catalog.get_table("db.t")
    builder = table.new_batch_write_builder()
    with builder.new_write() as write:
        rows = {
            "key": [1, 2, 500],
            "p": [1, 0, 0],
            "v": [1 << 40, 2, 3],
            "s": ["x", "y", "z"],
            "more": ["a", "b", None],
        }
        write.write_arrow(pa.table(rows, table.schema.arrow_schema))
        builder.new_commit().commit(write.prepare_commit())
    found = same_rows(spark, table, "more IS NULL")
    assert {row["key"] for row in found.where("key < 3 OR key = 500").collect()} == {500}


def test_a_query_reads_only_what_it_needs(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = fill(new_table(tmp_path))
    read_table(spark, table).where("v > 3").groupBy().max("v").explain()
    plan = capsys.readouterr().out
    assert "ReadSchema: struct<v:int>" in plan
    assert "GreaterThan(v,3)" in plan
    assert "struct<k" not in plan
    assert "Join" not in plan
    assert "MapInArrow" not in plan


def test_rows_are_found_once_and_only_where_files_changed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = fill(new_table(tmp_path))
    asked: list[int] = []
    find = OutdatedFinder.outdated

    def counted(finder: OutdatedFinder, split: DataSplit) -> object:
        asked.append(split.bucket)
        return find(finder, split)

    monkeypatch.setattr(OutdatedFinder, "outdated", counted)
    first = divided(spark, table)
    assert sorted(asked) == [0, 1]
    second = divided(spark, table)
    assert (len(asked), second.way.reason) == (2, "the outdated rows are known from an earlier read")
    assert {name: words.tolist() for name, words in first.outdated.items()} == {
        name: words.tolist() for name, words in second.outdated.items()
    }
    upsert(table, range(33, 34), 5)
    divided(spark, table)
    assert len(asked) == 3
    same_rows(spark, table)
    other = table.copy({"ignore-delete": "true"})  # other rows are outdated
    same_rows(spark, other)
    assert len(asked) == 5


def test_tasks_find_what_the_driver_would(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = fill(new_table(tmp_path))
    store = table.new_read_builder().new_read().store
    sections = divided(spark, table).by_bits
    here = outdated_rows(spark, store, sections)
    clear_outdated_cache()
    monkeypatch.setattr(computed_vectors, "_DRIVER_BYTES_MAX", 0)
    there = outdated_rows(spark, store, sections)
    assert {n: w.tolist() for n, w in here.items()} == {n: w.tolist() for n, w in there.items()}
    assert here


@pytest.mark.parametrize(("cases_max", "alike"), some([(16, True), (0, False), (16, False), (0, True)], 0, 1))
def test_files_are_told_apart(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cases_max: int, alike: bool
) -> None:
    monkeypatch.setattr(native_scan, "_CASES_MAX", cases_max)
    table = new_table(tmp_path, {"bucket": "1"})
    for shift in range(4):
        upsert(table, range(9) if alike else range(9 + 3 * shift), 0 if alike else shift)
    sizes = [file.file_size for split in planned(table) for file in split.files]
    assert (len(set(sizes)) < len(sizes)) == alike
    same_rows(spark, table)


def test_a_file_that_was_not_planned_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "rows.parquet")
    spark.range(100).coalesce(1).write.parquet(path)
    files = [ScannedFile("other.parquet", 3, words_of(np.array([1], np.uint64), 100))]
    frame = spark.read.parquet(path)
    with pytest.raises(PySparkException, match="was not planned"):
        leave_rows_out(spark, frame.select("*", *file_columns(files)), files).collect()


def test_the_way_is_chosen_by_plain_facts(tmp_path: Path) -> None:
    schema = new_table(tmp_path).schema
    spec = MergeRules.of_schema(schema)
    on_key, on_value = (parse_predicate(text, schema.fields) for text in ("k = 3", "v = 3"))
    assert merge_way(spec, TRUE, 1000, known=False).by_bits
    assert merge_way(spec, on_value, 1000, known=False).by_bits
    assert not merge_way(spec, on_key, 1000, known=False).by_bits
    assert merge_way(spec, on_key, 1000, known=True).by_bits
    assert not merge_way(spec, TRUE, 1 << 40, known=True).by_bits


def test_what_is_kept_is_bounded_and_shared() -> None:
    kept = computed_vectors._Cache(100_000)
    words = np.zeros(1000, np.uint64)
    for number in range(40):
        kept.put((number,), {"file": words})
        kept.get((0,))
    assert kept.get((0,)) is not None  # asked for all the time
    assert kept.get((1,)) is None
    assert sum(kept.get((number,)) is not None for number in range(40)) == 100_000 // (8000 + 1024)
    for number in range(1000):
        kept.put(("empty", number), {})
    assert sum(kept.get(("empty", number)) is not None for number in range(1000)) <= 100_000 // 512
    with ThreadPoolExecutor(8) as pool:
        for number in range(2000):
            pool.submit(kept.put, (number,), {"file": words})
            pool.submit(kept.get, (number - 1,))
    assert kept._bytes == sum(computed_vectors._size(found) for found in kept._entries.values()) <= 100_000
