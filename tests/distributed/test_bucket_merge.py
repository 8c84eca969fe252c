"""Merges bucket by bucket: tasks that get the rows of their buckets leave the table as an embedded merge does."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.distributed.job import TaskId
from lakewright.distributed.rows.bucket_merge import BucketMerge, BucketRoute, in_reach
from lakewright.distributed.rows.merge import guarded_keyed_merge, source_name, verify_keyed
from lakewright.errors import InvalidInputError
from lakewright.metadata.store import TableStore
from lakewright.read.splits.split import DataSplit
from lakewright.spec.snapshot import Snapshot
from lakewright.update.merge.clauses import MergePlan, read_source
from lakewright.update.merge.merge import MergeBuilder, merge
from lakewright.update.merge.upsert import plan_upsert
from lakewright.update.primary_key import merged_splits
from lakewright.update.result import UpdateResult
from lakewright.update.run import Prepared, change
from lakewright.write.shuffle import Receivers

Clauses: TypeAlias = Callable[[MergeBuilder], MergeBuilder]

TEXT = [f"customer-{number:05}" for number in range(400)]


def upserting(builder: MergeBuilder) -> MergeBuilder:
    return builder.when_matched_update().when_not_matched_insert()


def mixed(builder: MergeBuilder) -> MergeBuilder:
    return (
        builder.when_matched_delete("s.n < 40")
        .when_matched_update({"n": lw.target_col("n")}, "t.n > 900")
        .when_matched_update({"n": lw.source_col("n"), "s": lw.lit("updated")})
        .when_not_matched_insert(condition="s.n > 20")
    )


def by_source(builder: MergeBuilder) -> MergeBuilder:
    return (
        builder.when_matched_update()
        .when_not_matched_by_source_update({"s": lw.lit("left alone")}, "n > 500")
        .when_not_matched_by_source_delete("n < 100")
    )


@dataclass(frozen=True)
class Answered:
    """The answers of tasks that ran in this process."""

    payloads: list[bytes]
    way: str = ""

    def has_losers(self) -> bool:
        return False


def table_of(
    path: str, name: str, *, key: pa.DataType, partitioned: bool, options: dict[str, str]
) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": path})
    catalog.create_database("d", ignore_if_exists=True)
    columns = pa.schema({"k": key, "p": pa.int32(), "n": pa.int64(), "s": pa.string()})
    keys = ["k", "p"] if partitioned else ["k"]
    schema = lw.Schema.from_pyarrow_schema(
        columns, partition_keys=["p"] if partitioned else [], primary_keys=keys, options={"bucket": "3", **options}
    )
    catalog.create_table(f"d.{name}", schema)
    return catalog.get_table(f"d.{name}")


def rows(chance: random.Random, count: int, key: pa.DataType, *, twice: bool = False) -> pa.Table:
    numbers = chance.choices(range(400), k=count) if twice else chance.sample(range(400), count)
    texts = pa.types.is_string(key)
    return pa.table(
        {
            "k": pa.array([TEXT[number] for number in numbers] if texts else numbers, key),
            "p": pa.array([number % 2 for number in numbers], pa.int32()),
            "n": [chance.randrange(1000) for _ in numbers],
            "s": [chance.choice("abc") for _ in numbers],
        }
    )


def by_bucket(store: TableStore, plan: MergePlan, source: pa.Table, *, newest: bool = False) -> UpdateResult:
    """Merge as an engine with two senders and two receivers does."""
    route = BucketRoute.of(store, plan, source.schema)
    assert route is not None

    def prepare(base: Snapshot | None) -> Prepared:
        work = BucketMerge.of(store, plan, source.schema, newest=newest)
        shipped = work.shipped(threads=False)
        places: dict[tuple[bytes, int], tuple[list[DataSplit], list[pa.Table]]] = {}
        for split in [] if base is None else merged_splits(store, base, plan.prunes):
            places.setdefault((split.partition_bytes, split.bucket), ([], []))[0].append(split)
        named = source.select(list(plan.source_columns))
        named = named.rename_columns([source_name(at) for at in range(named.num_columns)])
        half = named.num_rows // 2
        for part in (named.slice(0, half), named.slice(half)):
            for group in route.groups(shipped.sent(part)):
                places.setdefault((group.partition, group.bucket), ([], []))[1].append(group.rows)
        receivers = Receivers(2)
        payloads = []
        for number in range(receivers.count):
            own = [some for (_, bucket), some in sorted(places.items()) if bucket % 2 == number]
            payloads.append(shipped.run(TaskId(number, number), own))
        return guarded_keyed_merge(store, plan, verify_keyed(work.job, Answered(payloads)))

    return change(store, prepare, operation="MERGE")


def found(table: lw.FileStoreTable) -> list[dict[str, object]]:
    return sorted(lw.read_table(table).to_pylist(), key=lambda row: (row["k"], row["p"]))


@pytest.mark.parametrize("clauses", [upserting, mixed, by_source])
@pytest.mark.parametrize(
    ("key", "given", "partitioned", "options"),
    [
        (pa.int64(), pa.int64(), False, {}),
        (pa.int64(), pa.int32(), True, {"changelog-producer": "input"}),
        (pa.int32(), pa.int64(), False, {"deletion-vectors.enabled": "true"}),
        (
            pa.string(),
            pa.string(),
            True,
            {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        ),
        (pa.string(), pa.string(), False, {"sequence.field": "n"}),
    ],
)
def test_a_merge_by_bucket_is_the_embedded_merge(
    tmp_path: str, clauses: Clauses, key: pa.DataType, given: pa.DataType, partitioned: bool, options: dict[str, str]
) -> None:
    chance = random.Random(str((key, given, partitioned)))
    tables = [table_of(str(tmp_path), name, key=key, partitioned=partitioned, options=options) for name in ("a", "b")]
    for _ in range(3):
        data = rows(chance, 150, key)
        for table in tables:
            lw.write_table(data, table)
    on = ["k", "p"] if partitioned else ["k"]
    for attempt in range(2):
        source = read_source(rows(chance, 120, given), "d.a")
        if options.get("sequence.field"):
            source = source.set_column(
                2, "n", pa.array(range(2000 * (attempt + 1), 2000 * (attempt + 1) + source.num_rows), pa.int64())
            )
        builder = clauses(merge(tables[0].store, source, on))
        plan = builder.plan(source.schema)
        one = builder.execute()
        other = by_bucket(tables[1].store, plan, source)
        assert (one.deleted, one.updated, one.inserted) == (other.deleted, other.updated, other.inserted)
        assert found(tables[0]) == found(tables[1])


def test_an_upsert_that_looks_rows_up_takes_the_newest_row_of_each_key(tmp_path: str) -> None:
    chance = random.Random(7)
    tables = [table_of(str(tmp_path), name, key=pa.int64(), partitioned=False, options={}) for name in ("a", "b")]
    data = rows(chance, 200, pa.int64())
    for table in tables:
        lw.write_table(data, table)
    source = read_source(rows(chance, 300, pa.int64(), twice=True).select(["k", "n"]), "d.a")
    tables[0].upsert(source)
    by_bucket(tables[1].store, plan_upsert(tables[1].store, source.schema, ["k"]), source, newest=True)
    assert found(tables[0]) == found(tables[1])


def test_keys_that_match_nothing_and_keys_that_match_twice(tmp_path: str) -> None:
    table = table_of(str(tmp_path), "a", key=pa.int32(), partitioned=False, options={})
    lw.write_table(rows(random.Random(1), 100, pa.int32()), table)
    before = found(table)
    far = pa.table({"k": pa.array([None, 1 << 40, -(1 << 35)], pa.int64()), "n": [1, 2, 3]})
    builder = merge(table.store, far, "k").when_matched_update({"n": lw.source_col("n")})
    assert by_bucket(table.store, builder.plan(far.schema), far).updated == 0
    assert found(table) == before
    key = before[0]["k"]
    again = pa.table({"k": pa.array([key, 1000, key], pa.int32()), "n": [1, 2, 3]})
    plan = merge(table.store, again, "k").when_matched_update({"n": lw.source_col("n")}).plan(again.schema)
    with pytest.raises(InvalidInputError, match="is matched by 2 rows of the source, which would all change it"):
        by_bucket(table.store, plan, again)
    told_apart = merge(table.store, again, "k").when_matched_update({"n": lw.source_col("n")}, "s.n = 3")
    assert by_bucket(table.store, told_apart.plan(again.schema), again).updated == 1
    with pytest.raises(InvalidInputError, match="it is not clear which one changes it; keep one source row"):
        by_bucket(table.store, replace(told_apart.plan(again.schema), strict=True), again)
    new = pa.table({"k": pa.array([2000, 2000], pa.int32()), "n": [1, 2]})
    inserting = merge(table.store, new, "k").when_not_matched_insert({"n": lw.source_col("n"), "p": lw.lit(0)})
    with pytest.raises(InvalidInputError, match="several rows with the key k = 2000 would be inserted"):
        by_bucket(table.store, inserting.plan(new.schema), new)


def test_the_bucket_of_a_match_must_follow_from_the_condition(tmp_path: str) -> None:
    table = table_of(str(tmp_path), "a", key=pa.int64(), partitioned=True, options={})
    source = pa.schema({"k": pa.int64(), "p": pa.int32(), "q": pa.int32(), "n": pa.int64(), "x": pa.float64()})

    def route(on: str, store: TableStore = table.store, **inserted: object) -> BucketRoute | None:
        builder = merge(store, source.empty_table(), on).when_matched_delete()
        if inserted:
            builder = builder.when_not_matched_insert({"s": lw.lit("a"), **inserted})
        return BucketRoute.of(store, builder.plan(source), source)

    assert route("t.k = s.k AND t.p = s.p") is not None
    assert route("t.k = s.k AND t.p = s.q") is not None
    assert route("t.k = s.k AND t.p = s.p", n=lw.source_col("n")) is not None
    assert route("t.k = s.k") is None
    assert route("t.n = s.n AND t.p = s.p") is None
    assert route("t.k = s.k AND t.p = s.x") is None
    assert route("t.k = s.k AND t.p = s.p", p=lw.source_col("q")) is None
    assert route("t.k = s.k AND t.p = s.p", k=lw.lit(1)) is None
    dynamic = table_of(str(tmp_path), "dynamic", key=pa.int64(), partitioned=True, options={"bucket": "-1"})
    assert route("t.k = s.k AND t.p = s.p", dynamic.store) is None
    floats = table_of(str(tmp_path), "floats", key=pa.float64(), partitioned=False, options={})
    assert route("t.k = s.x", floats.store) is None


def test_files_without_a_key_in_reach_are_not_read(tmp_path: str) -> None:
    table = table_of(
        str(tmp_path), "a", key=pa.int64(), partitioned=False, options={"bucket": "1", "write-only": "true"}
    )
    for first in (0, 1000, 2000):
        ids = list(range(first, first + 100))
        lw.write_table(pa.table({"k": ids, "p": pa.array([0] * 100, pa.int32()), "n": ids, "s": ["a"] * 100}), table)
    base = table.store.snapshots.latest()
    assert base is not None
    splits = merged_splits(table.store, base)
    source = pa.table({"k": [1010, 1050], "n": [1, 2]})
    plan = merge(table.store, source, "k").when_matched_delete().plan(source.schema)
    reached = in_reach(table.store, splits, plan.matcher(source).pruning_predicate())
    assert [file.row_count for split in reached for file in split.files] == [100]
    assert sum(len(split.files) for split in splits) == 3
