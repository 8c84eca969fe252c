"""Every way to the tasks that write gives the same rows: of one key the later row of the frame wins."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import lakewright as lw
from lakewright.commit.table_commit import WriteResult
from lakewright.dml.distributed_write import SEQUENCE_STRIDE
from lakewright.engine.engine import TaskId, TaskResult
from lakewright.errors import InvalidInputError
from lakewright.spark import bucket_shuffle as clustering
from lakewright.spark.bucket_shuffle import cluster
from lakewright.spark.spark_engine import PayloadTask, Task, parallelism, run_job, size_in, size_of
from lakewright.spark.spark_session import settings
from lakewright.spark.spark_verbs import write_table
from lakewright.spec.argument_checks import Distribution
from lakewright.table.file_store_table import FileStoreTable
from lakewright.write.table_writer import WriteJob
from support.effort import some

KEYED = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("p", pa.string(), nullable=False),
        pa.field("v", pa.int64()),
        pa.field("w", pa.int64()),
    ]
)
NewTable = Callable[..., FileStoreTable]


@pytest.fixture
def new_table(tmp_path: Path) -> NewTable:
    """Make tables with a key, a partition column and two values."""
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d", ignore_if_exists=True)

    def make(keys: tuple[str, ...] = ("k",), partitions: tuple[str, ...] = (), **options: object) -> FileStoreTable:
        named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
        name = f"d.t{len(catalog.list_tables('d'))}"
        catalog.create_table(
            name, lw.Schema.from_pyarrow_schema(KEYED, partitions, keys, named), ignore_if_exists=False
        )
        return catalog.get_table(name)

    return make


@pytest.fixture
def many_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give small frames as many tasks as those of unknown size."""
    monkeypatch.setattr(clustering, "size_of", lambda _: None)


def rows(spark: SparkSession, count: int = 300, keys: int = 70, *, parts: int = 3) -> DataFrame:
    """Return a frame in which keys come again in later parts; `v` and `w` tell where a row stood, or are null."""
    return spark.range(0, count, 1, parts).selectExpr(
        f"id % {keys} as k",
        f"concat('p', cast(id % {keys} % 3 as string)) as p",
        "if(id % 2 = 0, id, null) as v",
        "if(id % 3 = 0, null, id) as w",
    )


def as_arrow(df: DataFrame) -> pa.Table:
    """Return the rows of a frame in its order."""
    return pa.Table.from_pylist([row.asDict() for row in df.collect()], schema=KEYED)


def content(table: FileStoreTable) -> list[dict[str, object]]:
    found = lw.read_table(table).sort_by([("k", "ascending"), ("v", "ascending"), ("w", "ascending")])
    return list(found.to_pylist())


def latest(df: DataFrame) -> list[dict[str, object]]:
    """Return the last row of each key."""
    found = {row["k"]: row for row in as_arrow(df).to_pylist()}
    return [found[key] for key in sorted(found)]


KEYED_WAYS: Mapping[str, tuple[dict[str, object], Distribution | None, str]] = {
    "fixed": ({"bucket": 4}, None, "as blocks to 4 tasks, by bucket"),
    "in place": ({"bucket": 2}, "none", "in place as asked"),
    "partitions": ({"keys": ("k", "p"), "partitions": ("p",), "bucket": 2}, None, "as blocks to 4 tasks, by bucket"),
    "dynamic": ({"dynamic_bucket__initial_buckets": 2}, None, "as blocks to 2 tasks, by the assigner"),
    "dynamic, partitions": ({"keys": ("k", "p"), "partitions": ("p",)}, None, "as blocks to 4 tasks, by the assigner"),
    "across partitions": ({"partitions": ("p",)}, None, "as blocks to one task"),
}


@pytest.mark.usefixtures("many_writers")
@pytest.mark.parametrize("name", some(list(KEYED_WAYS), 1, 2, 3, 5))
def test_the_later_row_of_a_frame_wins(spark: SparkSession, new_table: NewTable, name: str) -> None:
    options, distribution, way = KEYED_WAYS[name]
    table = new_table(**options)
    frame = rows(spark)
    result = write_table(frame, table, distribution=distribution)
    assert result.method.startswith(way)
    assert content(table) == latest(frame)
    # A second frame updates what is there, deletes included, and adds keys.
    more = rows(spark, 200, 90, parts=2).selectExpr(
        "k", "p", "v + 1000 as v", "w", "if(k % 10 = 0, '-D', '+I') as _row_kind"
    )
    write_table(more, table, distribution=distribution)
    model = dict(zip(range(70), latest(frame), strict=True))
    for row in more.collect():
        said = row.asDict()
        if said.pop("_row_kind") == "-D":
            model.pop(row.k, None)
        else:
            model[row.k] = said
    assert content(table) == [model[key] for key in sorted(model)]


def test_rows_that_wait_for_a_bucket_keep_their_order(spark: SparkSession, new_table: NewTable) -> None:
    table, frame = new_table(bucket=-2, postpone__default_bucket_num=2), rows(spark)
    result = write_table(frame, table)
    assert (result.tasks, result.method) == (3, "in place: the rows wait for their buckets")
    table.compact()
    assert content(table) == latest(frame)


ENGINES: Mapping[str, dict[str, object]] = {
    "partial-update": {"merge_engine": "partial-update"},
    "aggregation": {"merge_engine": "aggregation", "fields__v__aggregate_function": "last_value"},
    "first-row": {"merge_engine": "first-row"},
}


@pytest.mark.usefixtures("many_writers")
@pytest.mark.parametrize(
    ("engine", "distribution"), some([(engine, way) for engine in ENGINES for way in (None, "none")], 0, 5)
)
def test_engines_that_look_at_the_order_see_that_of_the_frame(
    spark: SparkSession, new_table: NewTable, engine: str, distribution: Distribution | None
) -> None:
    options = {"bucket": 2, **ENGINES[engine]}
    ours, embedded = new_table(**options), new_table(**options)
    frame = rows(spark)
    write_table(frame, ours, distribution=distribution)
    lw.write_table(as_arrow(frame), embedded)
    assert content(ours) == content(embedded)


def test_blocks_make_one_run_per_bucket_and_tasks_in_place_one_each(spark: SparkSession, new_table: NewTable) -> None:
    clustered, in_place = new_table(bucket=2), new_table(bucket=2, write_only=True)
    assert write_table(rows(spark), clustered).files == 2
    assert write_table(rows(spark), in_place, distribution="none").files == 6
    snapshot = in_place.store.snapshots.latest()
    assert snapshot is not None
    entries = in_place.store.manifests.live(snapshot)
    numbers = sorted((e.file.min_sequence_number, e.file.max_sequence_number) for e in entries if e.bucket == 0)
    assert [low // SEQUENCE_STRIDE for low, _ in numbers] == [0, 1, 2]
    assert all(high < low for (_, high), (low, _) in pairwise(numbers))


@pytest.mark.parametrize(
    ("options", "distribution", "files"),
    some(
        [
            ({"partitions": ("p",)}, None, 9),
            ({"partitions": ("p",)}, "partition", 3),
            ({"partitions": ("p",), "lakewright__write_distribution": "partition"}, None, 3),
            ({}, "partition", 3),  # there is nothing to cluster by
            ({"bucket": 2, "bucket_key": "k"}, None, 2),
            ({"bucket": 2, "bucket_key": "k"}, "none", 6),
        ],
        *(2, 5),
    ),
)
def test_append_tables_get_every_row_once(
    spark: SparkSession,
    new_table: NewTable,
    options: dict[str, object],
    distribution: Distribution | None,
    files: int,
) -> None:
    table, frame = new_table(keys=(), **options), rows(spark)
    with settings(spark, {"spark.sql.adaptive.enabled": "true"}):  # which puts small partitions together
        result = write_table(frame, table, distribution=distribution)
    assert (result.rows, result.files) == (300, files)
    order = [("k", "ascending"), ("v", "ascending"), ("w", "ascending")]
    assert content(table) == as_arrow(frame).sort_by(order).to_pylist()
    if "bucket" in options:  # rows of a bucket are read in the order in which they were written
        read = [row for row in lw.read_table(table).to_pylist() if row["k"] == 7]
        assert read == [row for row in as_arrow(frame).to_pylist() if row["k"] == 7]


def test_a_bucket_larger_than_memory_is_spilled(spark: SparkSession, new_table: NewTable) -> None:
    table = new_table(keys=("k", "p"), partitions=("p",), bucket=1, write_buffer_size="1 mb", write_only=True)
    frame = spark.range(0, 120_000, 1, 3).selectExpr(
        "id * 7919 % 100000 as k", "if(id % 10 = 0, 'small', 'large') as p", "id as v", "id as w"
    )
    result = write_table(frame, table)
    # One sorted run per bucket, though what was given to its writer is many times what may stay in memory.
    assert (result.files, result.partitions) == (2, 2)
    found = frame.groupBy("k", "p").agg({"v": "max"}).collect()
    read = lw.read_table(table)
    assert dict(zip(zip(*(read[c].to_pylist() for c in "kp"), strict=True), read["v"].to_pylist(), strict=True)) == {
        (row.k, row.p): row["max(v)"] for row in found
    }


def test_concurrency_is_the_largest_number_of_tasks(
    spark: SparkSession, new_table: NewTable, many_writers: None
) -> None:
    del many_writers
    asked: list[tuple[dict[str, object], Distribution | None]] = [
        ({"bucket": 4}, None),
        ({"bucket": 4}, "none"),
        ({"dynamic_bucket__initial_buckets": 4}, None),
        ({"keys": (), "partitions": ("p",)}, "partition"),
        ({"keys": ()}, None),
    ]
    results = [
        write_table(rows(spark), new_table(**options), concurrency=1, distribution=distribution)
        for options, distribution in asked
    ]
    assert [result.tasks for result in results] == [1] * 5
    assert results[1].method.startswith(
        "as blocks"
    )  # with fewer tasks than the frame has parts its order would be lost
    assert write_table(rows(spark, parts=2), new_table(keys=()), concurrency=5).tasks == 2


@pytest.mark.usefixtures("many_writers")
def test_keys_stay_in_the_buckets_that_other_assigners_gave_them(spark: SparkSession, new_table: NewTable) -> None:
    table = new_table(dynamic_bucket__target_row_num=20)
    model: dict[object, dict[str, object]] = {}
    for assigners, keys in ((1, 50), (2, 70), (1, 90)):
        frame = rows(spark, 200, keys)
        assert write_table(frame, table, concurrency=assigners).tasks == assigners
        model |= {row["k"]: row for row in latest(frame)}
        assert content(table) == [model[key] for key in sorted(model)]  # type: ignore[type-var]
    # The index of hashes names every key once, so a writer of another kind finds them all.
    lw.write_table(pa.Table.from_pylist(list(model.values()), schema=KEYED), table)
    assert len(content(table)) == len(model)


def test_what_cannot_be_written_is_refused_with_its_own_error(spark: SparkSession, new_table: NewTable) -> None:
    table = new_table(bucket=2)
    write_table(rows(spark), table)
    with pytest.raises(InvalidInputError, match="has 2 buckets, but the option 'bucket' says 3"):
        write_table(rows(spark), table.copy({"bucket": "3"}))
    nulls = rows(spark).selectExpr("if(k = 13, null, k) as k", "p", "v", "w")
    with pytest.raises(InvalidInputError, match=r"'k' .* cannot take the value None") as caught:
        write_table(nulls, table)
    assert caught.value.facts["column"] == "k"
    with pytest.raises(InvalidInputError, match="must come together"):
        write_table(rows(spark), new_table(), distribution="none")
    with pytest.raises(InvalidInputError, match="auto, none, partition"):
        write_table(rows(spark), table, distribution="hash")  # type: ignore[arg-type]
    assert content(table) == latest(rows(spark))


def _failing_at_first(task: Task, mark: Path) -> PayloadTask:
    def run(this: TaskId, batches: Iterator[pa.RecordBatch]) -> bytes:
        payload = task(this, batches).to_bytes()
        if not mark.exists():
            mark.touch()
            os._exit(1)
        return payload

    return run


def _failing_source(mark: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context = TaskContext.get()
        if context is not None and context.partitionId() == 1 and not mark.exists():
            mark.touch()
            os._exit(1)

    return run


def test_attempts_that_die_on_either_side_change_nothing(
    spark: SparkSession, new_table: NewTable, tmp_path: Path, many_writers: None
) -> None:
    del many_writers
    table, frame = new_table(bucket=2), rows(spark)
    dying = frame.mapInArrow(_failing_source(tmp_path / "sent"), frame.schema)
    job = WriteJob.new(table.store)
    clustered = cluster(dying, job, concurrency=None, distribution=None)
    task = _failing_at_first(clustered.task, tmp_path / "received")
    done = run_job(clustered.frame, task, group=job.write_id, description="test", settings=clustered.settings)
    assert (tmp_path / "sent").exists()
    assert (tmp_path / "received").exists()
    builder = table.new_batch_write_builder()
    builder.new_commit().commit([message for one in done for message in TaskResult.from_bytes(one.payload).messages])
    assert content(table) == latest(frame)


def test_deletes_travel_as_keys(spark: SparkSession, new_table: NewTable) -> None:
    table = new_table(bucket=2)
    write_table(rows(spark), table)
    result: WriteResult = write_table(spark.range(0, 35).selectExpr("id as k"), table, mode="delete")
    assert result.rows == 35
    assert content(table) == [row for row in latest(rows(spark)) if row["k"] >= 35]  # type: ignore[operator]


def test_spark_is_asked_for_sizes_without_running_anything(spark: SparkSession) -> None:
    assert size_of(spark.range(1000)) == 8000
    assert parallelism(spark) == 2
    plan = "== Optimized Logical Plan ==\nRange (0, 5), Statistics(sizeInBytes=7.8 KiB)\n"
    assert size_in(plan) == 7987
    assert size_in("Statistics(sizeInBytes=8.0 EiB)") is None
    assert size_in("nothing") is None
