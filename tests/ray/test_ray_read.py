"""Datasets of tables: the same rows and types as the embedded reader gives, and as much as possible known before."""

from __future__ import annotations

import copy
import functools
import random
import sys
import warnings
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import ray.data
from ray.data import Dataset

import lakewright as lw
from lakewright.errors import CorruptTableError, InvalidInputError, UnsupportedError
from lakewright.ray import read_table
from lakewright.ray.dataset_read import TableDatasource
from lakewright.read.read_builder import ReadRequest
from lakewright.read.table_read import TableRead
from lakewright.table.open_table import read_builder
from support.branch_tables import fallback_table
from support.effort import some
from support.ray_rows import arrow_of
from support.read_cases import COLUMNS, READS, read_catalog, sorted_rows


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> lw.Catalog:
    """Hold an append table of three snapshots and a keyed one of three, an empty one and one of a row per file."""
    made = read_catalog(tmp_path_factory.mktemp("warehouse"))
    made.create_table("d.empty", lw.Schema.from_pyarrow_schema(COLUMNS))
    made.create_table("d.files", lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64()})))
    for n in range(6):
        lw.write_table(pa.table({"n": [n, 100 + n]}), made.get_table("d.files"))
    return made


def _source(table: lw.FileStoreTable, **what: Any) -> TableDatasource:  # noqa: ANN401 - as `ReadRequest` takes them
    read = read_builder(table, ReadRequest(**what)).new_read()
    assert isinstance(read, TableRead)
    return TableDatasource(read, read.new_plan().splits())


@pytest.mark.nightly  # the contract of engines has a read of every kind
@pytest.mark.usefixtures("ray_session")
@pytest.mark.parametrize("name", ["append", "keyed"])
@pytest.mark.parametrize("what", READS, ids=str)
def test_a_read_means_what_it_means_embedded(catalog: lw.Catalog, name: str, what: dict[str, Any]) -> None:
    table = catalog.get_table(f"d.{name}")
    want = lw.read_table(table, **what)
    dataset = read_table(table, **what)
    assert dataset.schema().base_schema == want.schema
    got = arrow_of(dataset)
    assert got.schema == want.schema
    assert sorted_rows(got) == sorted_rows(want)


def test_a_dataset_without_columns_is_refused(catalog: lw.Catalog) -> None:
    with pytest.raises(InvalidInputError, match=r"d\.append: Ray drops the rows of a dataset without columns"):
        read_table(catalog.get_table("d.append"), columns=[])


VALUES: dict[str, tuple[pa.DataType, list[object]]] = {
    "flag": (pa.bool_(), [True, False, None]),
    "tiny": (pa.int8(), [-128, 127, None]),
    "small": (pa.int16(), [1, 2, None]),
    "float": (pa.float32(), [0.5, float("-inf"), None]),
    "double": (pa.float64(), [0.1, float("inf"), None]),
    "decimal": (pa.decimal128(38, 10), [Decimal("1.0000000001"), Decimal(-7), None]),
    "day": (pa.date32(), [date(1969, 12, 31), date(9999, 12, 31), None]),
    "time": (pa.time32("ms"), [0, 86_399_999, None]),
    "seconds": (pa.timestamp("s"), [0, 1, None]),
    "micros": (pa.timestamp("us"), [-1, 1, None]),
    "nanos": (pa.timestamp("ns"), [-1, 1, None]),
    "instant": (pa.timestamp("us", "UTC"), [datetime(2026, 1, 2, tzinfo=UTC), datetime(1900, 1, 1, tzinfo=UTC), None]),
    "bytes": (pa.binary(), [b"\x00\xff", b"", None]),
    "fixed": (pa.binary(3), [b"abc", b"\x00\x00\x00", None]),
    "text": (pa.string(), ["ä", "", None]),
    "list": (pa.list_(pa.decimal128(5, 2)), [[Decimal("1.50"), None], [], None]),
    "map": (pa.map_(pa.string(), pa.int32()), [[("a", 1), ("b", None)], [], None]),
    "row": (pa.struct({"a": pa.timestamp("ms", "UTC"), "b": pa.list_(pa.binary())}), [{"a": 5, "b": [b"x"]}, {}, None]),
}


@pytest.mark.nightly
@pytest.mark.usefixtures("ray_session")
def test_partitions_of_a_fallback_branch(tmp_path: Path) -> None:
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    made.create_database("d")
    table = fallback_table(made)
    for what in ({}, {"filter": "k = 1"}, {"columns": ["r.a", "p"]}):
        dataset = read_table(table, **what)
        assert sorted_rows(arrow_of(dataset)) == sorted_rows(lw.read_table(table, **what))
    assert read_table(table).count() == 5


@pytest.mark.usefixtures("ray_session")
def test_every_type_comes_as_the_embedded_reader_gives_it(tmp_path: Path) -> None:
    fields = [pa.field(name, dtype) for name, (dtype, _) in VALUES.items()]
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False), *fields])
    data = pa.table([pa.array([1, 2, 3], pa.int32()), *(pa.array(v, t) for t, v in VALUES.values())], schema)
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    made.create_database("d")
    made.create_table("d.t", lw.Schema.from_pyarrow_schema(schema))
    table = made.get_table("d.t")
    lw.write_table(data, table)
    want = lw.read_table(table)
    dataset = read_table(table)
    assert dataset.schema().base_schema == want.schema
    assert arrow_of(dataset).equals(want)
    (batch,) = dataset.iter_batches(batch_format="pyarrow")
    assert batch == want


# What is known before


@pytest.mark.usefixtures("ray_session")
def test_schema_and_count_are_answered_without_reading(tmp_path: Path) -> None:
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    made.create_database("d")
    made.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, partition_keys=["p"]))
    table = made.get_table("d.t")
    for p in "ab":
        lw.write_table(pa.table({"id": [1, 2, 3], "p": [p] * 3, "r": [None] * 3}, COLUMNS), table)
    whole, part, few = (
        read_table(table),
        read_table(table, filter="p = 'b'", columns=["id"]),
        read_table(table, limit=4),
    )
    files = _remove_data_files(tmp_path)
    assert (whole.count(), part.count(), few.count()) == (6, 3, 4)
    assert whole.schema().base_schema == few.schema().base_schema == COLUMNS
    assert part.schema().names == ["id"]
    assert sorted(whole.input_files()) == files
    assert part.input_files() == [path for path in files if "p=b" in path]
    with pytest.raises(CorruptTableError, match="which is missing") as caught:
        whole.materialize()
    assert caught.value.table == "d.t"


def _remove_data_files(warehouse: Path) -> list[str]:
    found = sorted(warehouse.rglob("data-*"))
    for path in found:
        path.unlink()
    return [str(path) for path in found]


def _told(source: TableDatasource, parallelism: int = 1) -> list[int | None]:
    return [task.metadata.num_rows for task in source.get_read_tasks(parallelism)]


def test_rows_are_told_only_where_they_are_known(catalog: lw.Catalog) -> None:
    append, keyed = catalog.get_table("d.append"), catalog.get_table("d.keyed")
    assert _told(_source(append)) == [6]
    assert sorted(rows or 0 for rows in _told(_source(append), 6)) == [1] * 6
    assert _told(_source(append, limit=4)) == [4]
    assert _told(_source(append, filter="p = 'x'")) == [3]  # the partition alone tells
    assert _told(_source(append, filter="id < 5")) == [None]
    assert _told(_source(keyed)) == [None]
    assert _told(_source(keyed, incremental=(1, 2), incremental_mode="delta")) == [None]
    assert _told(_source(append, incremental=(1, 3), incremental_mode="diff")) == [None]


def test_deleted_rows_are_not_counted(tmp_path: Path) -> None:
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    made.create_database("d")
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    schema = pa.schema({"id": pa.int64()})
    made.create_table("d.t", lw.Schema.from_pyarrow_schema(schema, primary_keys=["id"], options=options))
    table = made.get_table("d.t")
    lw.write_table(pa.table({"id": range(10)}), table)
    table.compact(full=True)
    lw.write_table(pa.table({"id": [3, 4]}), table, mode="delete")
    table.compact()
    source = _source(table)
    assert sum(rows or 0 for rows in _told(source)) == lw.read_table(table).num_rows == 8


def test_bytes_follow_the_columns_that_are_read(catalog: lw.Catalog) -> None:
    table = catalog.get_table("d.append")
    whole, narrow = _source(table), _source(table, columns=["id"])
    assert narrow.estimate_inmemory_data_size() == 6 * 8
    assert whole.estimate_inmemory_data_size() > 6 * (8 + 4)
    assert whole.estimate_inmemory_data_size() == sum(t.metadata.size_bytes or 0 for t in whole.get_read_tasks(3))


def test_a_filter_leaves_out_files(catalog: lw.Catalog) -> None:
    source = _source(catalog.get_table("d.files"), filter="n = 3")
    files = [path for task in source.get_read_tasks(9) for path in task.metadata.input_files or ()]
    assert len(files) == 4  # of six: 3 lies between the least and the greatest number of these


# Tasks and blocks


def test_a_task_streams(tmp_path: Path) -> None:
    """The first block is there before the second file was looked at."""
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    made.create_database("d")
    made.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64()})))
    for n in range(2):
        lw.write_table(pa.table({"n": [n]}), made.get_table("d.t"))
    (task,) = _source(made.get_table("d.t")).get_read_tasks(1)
    (_, second) = task.metadata.input_files or ()
    Path(second).unlink()
    blocks = iter(task())
    assert next(blocks) == pa.table({"n": [0]})
    with pytest.raises(CorruptTableError, match="which is missing"):
        next(blocks)


@pytest.mark.nightly
def test_a_task_holds_a_bounded_number_of_bytes(tmp_path: Path) -> None:
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    made.create_database("d")
    made.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"s": pa.string()})))
    text = random.Random(7).randbytes(70_000_000).hex()
    data = pa.table({"s": [text[at : at + 1000] for at in range(0, len(text), 1000)]})
    lw.write_table(data, made.get_table("d.t"))
    (task,) = _source(made.get_table("d.t")).get_read_tasks(1)
    sizes = [block.nbytes for block in task()]
    assert sum(sizes) > 140_000_000
    assert max(sizes) < 72 << 20  # row groups are read together up to 64 MB


@pytest.mark.usefixtures("ray_session")
@pytest.mark.parametrize(("blocks", "made"), some([(None, 1), (1, 1), (2, 2), (4, 4), (6, 6), (12, 12)], 3))
def test_a_dataset_has_the_blocks_that_were_asked_for(catalog: lw.Catalog, blocks: int | None, made: int) -> None:
    """The plan has one split of six files: it is cut where more tasks are wanted, and Ray cuts their blocks further."""
    builder = catalog.get_table("d.files").new_read_builder()
    splits = builder.new_scan().plan().splits()
    assert len(splits) == 1
    found = builder.new_read().to_ray(splits, override_num_blocks=blocks).materialize()
    assert found.num_blocks() == made
    assert sorted(row["n"] for row in found.take_all()) == [*range(6), *range(100, 106)]


def test_tasks_have_about_equal_bytes(catalog: lw.Catalog) -> None:
    tasks = _source(catalog.get_table("d.files")).get_read_tasks(3)
    assert [task.metadata.num_rows for task in tasks] == [4, 4, 4]


@pytest.mark.usefixtures("ray_session")
@pytest.mark.parametrize("limit", some([0, 1, 5, 12, 100], 2))
def test_a_limit_holds_over_all_tasks(catalog: lw.Catalog, limit: int) -> None:
    dataset = read_table(catalog.get_table("d.files"), limit=limit, override_num_blocks=6)
    assert len(dataset.take_all()) == min(limit, 12)


@pytest.mark.nightly
@pytest.mark.usefixtures("ray_session")
def test_a_limit_counts_rows_that_match_and_were_merged(catalog: lw.Catalog) -> None:
    found = read_table(catalog.get_table("d.files"), filter="n >= 2 AND n < 103", limit=5, override_num_blocks=6)
    assert len(found.take_all()) == 5
    merged = read_table(catalog.get_table("d.keyed"), limit=10, override_num_blocks=2)
    assert len({row["id"] for row in merged.take_all()}) == 10
    assert merged.count() == 10


@pytest.mark.usefixtures("ray_session")
def test_an_empty_table_is_an_empty_dataset_with_its_columns(catalog: lw.Catalog) -> None:
    dataset = read_table(catalog.get_table("d.empty"))
    assert (dataset.count(), dataset.take_all()) == (0, [])
    assert dataset.schema().base_schema == dataset.materialize().schema().base_schema == COLUMNS


@pytest.mark.nightly
@pytest.mark.usefixtures("ray_session")
def test_tags_audit_logs_and_system_tables_are_read(catalog: lw.Catalog) -> None:
    table = catalog.get_table("d.append")
    assert len(read_table(table, tag="second").take_all()) == 4
    snapshots = read_table(catalog.get_table("d.append$snapshots"), columns=["snapshot_id"], filter="snapshot_id > 1")
    assert sorted(row["snapshot_id"] for row in snapshots.take_all()) == [2, 3]
    log = read_table(catalog.get_table("d.keyed$audit_log"), columns=["id", "rowkind"])
    assert {row["rowkind"] for row in log.take_all()} == {"+I"}
    with pytest.raises(InvalidInputError, match="only filter, columns and limit fit it"):
        read_table(catalog.get_table("d.append$snapshots"), tag="second")


# Arguments


@pytest.mark.usefixtures("ray_session")
def test_what_is_said_of_the_tasks_reaches_ray(catalog: lw.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    said: dict[str, object] = {}
    whole = ray.data.read_datasource

    @functools.wraps(whole)
    def heard(source: TableDatasource, **arguments: Any) -> Dataset:  # noqa: ANN401 - as Ray takes them
        said.update(copy.deepcopy(arguments))
        found: Dataset = whole(source, **arguments)
        return found

    monkeypatch.setattr(ray.data, "read_datasource", heard)
    read = catalog.get_table("d.files").new_read_builder().new_read()
    splits = read.new_plan().splits()
    dataset = read.to_ray(splits, {"num_cpus": 0.5}, concurrency=1, override_num_blocks=2, memory=1000)
    assert said == {"num_cpus": 0.5, "concurrency": 1, "override_num_blocks": 2, "memory": 1000}
    assert len(dataset.take_all()) == 12
    said.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray announces that the argument goes away
        read.to_ray(splits, {"max_retries": 2, "num_cpus": 1}, override_num_blocks=3)
    assert said == {
        "ray_remote_args": {"max_retries": 2},
        "num_cpus": 1,
        "concurrency": None,
        "override_num_blocks": 3,
    }


def test_rows_of_each_task_can_be_bounded(catalog: lw.Catalog) -> None:
    read = catalog.get_table("d.files").new_read_builder().new_read()
    source = TableDatasource(read, read.new_plan().splits(), task_rows=3)
    tasks = source.get_read_tasks(2)
    assert [task.metadata.num_rows for task in tasks] == [sum(map(len, task())) for task in tasks] == [3, 3]
    (task,) = source.get_read_tasks(1, per_task_row_limit=2)
    assert task.metadata.num_rows == sum(map(len, task())) == 2


def test_arguments_that_cannot_be_are_refused(catalog: lw.Catalog) -> None:
    read = catalog.get_table("d.files").new_read_builder().new_read()
    with pytest.raises(InvalidInputError, match=r"^colums, limit: no argument of to_ray"):
        read.to_ray(None, colums=["n"], limit=3)
    with pytest.raises(InvalidInputError, match="at least 1 block, not 0"):
        read.to_ray(None, override_num_blocks=0)


def test_without_ray_the_door_says_what_to_install(catalog: lw.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'lakewright\[ray\]'"):
        catalog.get_table("d.files").new_read_builder().new_read().to_ray(None)
