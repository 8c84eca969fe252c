"""Merges bucket by bucket: tasks that get the rows of their buckets leave the table as an embedded merge does."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.dml.bucket_merge import BucketMerge, BucketReceivers, BucketRoute, in_reach
from lakewright.dml.change_plan import ChangePlan
from lakewright.dml.change_runner import run_change, verify_change
from lakewright.dml.change_tasks import guarded_keyed_merge, source_name
from lakewright.dml.keyed_strategy import plan_merged_splits
from lakewright.dml.merge import MergeBuilder, merge
from lakewright.dml.merge_clauses import read_source
from lakewright.dml.row_changes import PreparedChange, UpdateResult
from lakewright.dml.upsert import plan_upsert
from lakewright.engine.engine import TaskId
from lakewright.engine.local_engine import LocalResults
from lakewright.errors import InvalidInputError
from lakewright.formats.hash_index import Hashes
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.spec.bucket_hash import row_hashes
from lakewright.spec.manifest import EMPTY_ROW, IndexEntry
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.table_schema import BucketMode
from lakewright.spec.types import AtomicType
from lakewright.write.bucket_routing import RowGroup
from lakewright.write.dynamic_buckets import HashFiles
from support.effort import each_once, pairwise, some

Clauses: TypeAlias = Callable[[MergeBuilder], MergeBuilder]

SMALL_BUCKETS = {"bucket": "-1", "dynamic-bucket.target-row-num": "30"}
KEYS = 150
TEXT = [f"customer-{number:05}" for number in range(KEYS)]


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
    numbers = chance.choices(range(KEYS), k=count) if twice else chance.sample(range(KEYS), count)
    texts = pa.types.is_string(key)
    return pa.table(
        {
            "k": pa.array([TEXT[number] for number in numbers] if texts else numbers, key),
            "p": pa.array([number % 2 for number in numbers], pa.int32()),
            "n": [chance.randrange(1000) for _ in numbers],
            "s": [chance.choice("abc") for _ in numbers],
        }
    )


def by_bucket(
    store: TableStore,
    plan: ChangePlan,
    source: pa.Table,
    *,
    newest: bool = False,
    tasks: tuple[int, int] = (2, 1),
    again: bool = False,
    meanwhile: Callable[[], None] = lambda: None,
) -> UpdateResult:
    """Merge as an engine with two senders does; `tasks` are the receivers and the assigners of a partition.

    With `again` every task has failed once, after its work, and runs a second time. `meanwhile` is what others do
    before the commit.
    """
    route = BucketRoute.of(store, plan, source.schema)
    assert route is not None

    def prepare(base: Snapshot | None) -> PreparedChange:
        work, receivers = BucketMerge.of(store, plan, source.schema, base, newest=newest), BucketReceivers(*tasks)
        shipped = work.for_tasks(receivers, threads=False)
        places: dict[tuple[bytes, int], tuple[list[DataSplit], list[pa.Table]]] = {}
        for split in [] if base is None else plan_merged_splits(store, base, plan.prunes):
            places.setdefault((split.partition_bytes, split.bucket), ([], []))[0].append(split)
        named = source.select(list(plan.source_columns))
        named = named.rename_columns([source_name(at) for at in range(named.num_columns)])
        half = named.num_rows // 2
        for part in (named.slice(0, half), named.slice(half)):
            for group in shipped.grouping(route)(shipped.to_wire_types(part)):
                places.setdefault((group.partition, group.bucket), ([], []))[1].append(group.rows)
        results = []
        for number in range(receivers.count):
            own = [
                (bucket, *some)
                for (partition, bucket), some in sorted(places.items())
                if receivers.of(RowGroup(partition, bucket, pa.table({})), BucketMode.HASH_FIXED) == number
            ]
            for attempt in range(2 if again else 1):
                result = shipped.run(TaskId(number, attempt), own)
            results.append(result)
        meanwhile()
        return guarded_keyed_merge(store, plan, verify_change(work.job, LocalResults(results)))

    return run_change(store, prepare, operation="MERGE")


def found(table: lw.FileStoreTable) -> list[dict[str, object]]:
    return sorted(lw.read_table(table).to_pylist(), key=lambda row: (row["k"], row["p"]))


@dataclass(frozen=True)
class Target:
    """A table to merge into: the type of its key, that of the key of the source, and options."""

    key: pa.DataType
    given: pa.DataType
    partitioned: bool
    options: dict[str, str]


TARGETS = [
    Target(pa.int64(), pa.int64(), False, {}),  # noqa: FBT003
    Target(pa.int64(), pa.int32(), True, {"changelog-producer": "input"}),  # noqa: FBT003
    Target(pa.int32(), pa.int64(), False, {"deletion-vectors.enabled": "true"}),  # noqa: FBT003
    Target(
        pa.string(),
        pa.string(),
        True,  # noqa: FBT003
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    ),
    Target(pa.string(), pa.string(), False, {"sequence.field": "n"}),  # noqa: FBT003
]


@pytest.mark.parametrize(
    ("target", "clauses", "buckets"), pairwise(TARGETS, [upserting, mixed, by_source], [{}, SMALL_BUCKETS])
)
def test_a_merge_by_bucket_is_the_embedded_merge(
    tmp_path: str, target: Target, clauses: Clauses, buckets: dict[str, str]
) -> None:
    key, given, partitioned = target.key, target.given, target.partitioned
    chance = random.Random(str((key, given, partitioned)))
    options = target.options | buckets
    tables = [table_of(str(tmp_path), name, key=key, partitioned=partitioned, options=options) for name in ("a", "b")]
    for _ in range(2):
        data = rows(chance, 70, key)
        for table in tables:
            lw.write_table(data, table)
    on = ["k", "p"] if partitioned else ["k"]
    for attempt, tasks in enumerate(some([(2, 1), (5, 2)], TARGETS.index(target) % 2)):
        source = read_source(rows(chance, 50, given), "d.a")
        if options.get("sequence.field"):
            source = source.set_column(
                2, "n", pa.array(range(2000 * (attempt + 1), 2000 * (attempt + 1) + source.num_rows), pa.int64())
            )
        builder = clauses(merge(tables[0].store, source, on))
        plan = builder.plan(source.schema)
        one = builder.execute()
        other = by_bucket(tables[1].store, plan, source, tasks=tasks)
        assert (one.deleted, one.updated, one.inserted) == (other.deleted, other.updated, other.inserted)
        assert found(tables[0]) == found(tables[1])
    assert tables[1].verify(full=True).findings == ()


def test_an_upsert_that_looks_rows_up_takes_the_newest_row_of_each_key(tmp_path: str) -> None:
    chance = random.Random(7)
    tables = [table_of(str(tmp_path), name, key=pa.int64(), partitioned=False, options={}) for name in ("a", "b")]
    data = rows(chance, 100, pa.int64())
    for table in tables:
        lw.write_table(data, table)
    source = read_source(rows(chance, 300, pa.int64(), twice=True).select(["k", "n"]), "d.a")
    tables[0].upsert(source)
    by_bucket(tables[1].store, plan_upsert(tables[1].store, source.schema, ["k"]), source, newest=True)
    assert found(tables[0]) == found(tables[1])


def test_keys_that_match_nothing_are_skipped_and_keys_that_match_twice_refused(tmp_path: str) -> None:
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
    assert route("t.k = s.k AND t.p = s.p", dynamic.store) is not None
    assert route("t.k = s.k", dynamic.store) is None
    assert route("t.k = s.k AND t.p = s.p", dynamic.store, k=lw.lit(1)) is None
    postponed = table_of(str(tmp_path), "postponed", key=pa.int64(), partitioned=True, options={"bucket": "-2"})
    assert route("t.k = s.k AND t.p = s.p", postponed.store) is None
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
    splits = plan_merged_splits(table.store, base)
    source = pa.table({"k": [1010, 1050], "n": [1, 2]})
    plan = merge(table.store, source, "k").when_matched_delete().plan(source.schema)
    reached = in_reach(table.store, splits, plan.matcher(source).pruning_predicate())
    assert [file.row_count for split in reached for file in split.files] == [100]
    assert sum(len(split.files) for split in splits) == 3


# ---- dynamic buckets -------------------------------------------------------------------------------------------------


def upsert_plan(table: lw.FileStoreTable, source: pa.Table, on: list[str]) -> ChangePlan:
    return upserting(merge(table.store, source, on)).plan(source.schema)


def keyed_rows(keys: Iterable[int], n: int, p: int = 0) -> pa.Table:
    ids = list(keys)
    return pa.table(
        {
            "k": pa.array(ids, pa.int64()),
            "p": pa.array([p] * len(ids), pa.int32()),
            "n": [n] * len(ids),
            "s": ["x"] * len(ids),
        }
    )


def buckets_of(table: lw.FileStoreTable) -> dict[int, set[int]]:
    """Return the hashes of each bucket of a table without partitions, by its index."""
    index = HashFiles.newest(table.store)
    return {bucket: {*hashes.tolist()} for bucket, hashes in index.read(index.of_partition(EMPTY_ROW)).items()}


@pytest.mark.parametrize(("tasks", "partitioned"), each_once([(1, 1), (3, 1), (4, 4), (7, 3)], [False, True]))
def test_keys_come_into_an_empty_table_and_into_new_partitions(
    tmp_path: str, tasks: tuple[int, int], partitioned: bool
) -> None:
    table = table_of(str(tmp_path), "a", key=pa.int64(), partitioned=partitioned, options=SMALL_BUCKETS)
    on = ["k", "p"] if partitioned else ["k"]
    expected: dict[tuple[object, object], object] = {}
    for step, p in ((0, 0), (1, 0), (2, 1)):
        source = keyed_rows(range(step * 50, step * 50 + 100), step, p)
        by_bucket(table.store, upsert_plan(table, source, on), source, tasks=tasks, again=step == 1)
        expected |= {(row["k"], row["p"] if partitioned else 0): row["n"] for row in source.to_pylist()}
        assert {(row["k"], row["p"] if partitioned else 0): row["n"] for row in found(table)} == expected
        assert table.verify(full=True).findings == ()
    lw.write_table(keyed_rows(range(400), 9), table)  # a writer that follows finds every key in its bucket
    assert table.verify(full=True).findings == ()
    assert len(found(table)) == 400 + (100 if partitioned else 0)


def test_a_key_that_was_deleted_comes_back_into_its_bucket(tmp_path: str) -> None:
    table = table_of(str(tmp_path), "a", key=pa.int64(), partitioned=False, options=SMALL_BUCKETS)
    lw.write_table(keyed_rows(range(100), 1), table)
    before = buckets_of(table)
    assert len(before) == 4
    table.delete("k >= 50")
    source = keyed_rows(range(40, 60), 2)
    done = by_bucket(table.store, upsert_plan(table, source, ["k"]), source, tasks=(3, 2))
    assert (done.updated, done.inserted) == (10, 10)
    assert buckets_of(table) == before
    assert [row["n"] for row in found(table)] == [1] * 40 + [2] * 20
    assert table.verify(full=True).findings == ()


def test_keys_with_one_hash_share_a_bucket(tmp_path: str) -> None:
    numbers = np.random.default_rng(3).integers(1 << 40, 1 << 60, 300_000)
    hashes = row_hashes([pa.array(numbers)], [AtomicType("BIGINT")])
    order = np.argsort(hashes, kind="stable")
    same = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])[:3]
    pairs = [(int(numbers[order[at]]), int(numbers[order[at + 1]])) for at in same.tolist()]
    assert len(pairs) == 3
    table = table_of(str(tmp_path), "a", key=pa.int64(), partitioned=False, options=SMALL_BUCKETS)
    lw.write_table(keyed_rows([*(first for first, _ in pairs), *range(400_000, 400_060)], 1), table)
    before = buckets_of(table)
    new = keyed_rows([*(second for _, second in pairs), 500_000, 500_001], 2)
    done = by_bucket(table.store, upsert_plan(table, new, ["k"]), new, tasks=(4, 3))
    assert (done.updated, done.inserted) == (0, 5)
    after = buckets_of(table)
    assert sum(map(len, after.values())) == sum(map(len, before.values())) + 2
    assert table.verify(full=True).findings == ()


def test_new_keys_fill_the_buckets_with_room_and_then_new_ones(tmp_path: str) -> None:
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "30", "dynamic-bucket.max-buckets": "3"}
    table = table_of(str(tmp_path), "a", key=pa.int64(), partitioned=False, options=options)
    lw.write_table(keyed_rows(range(40), 1), table)
    sizes = []
    for first in (40, 70, 100):
        source = keyed_rows(range(first - 10, first + 30), 2)
        by_bucket(table.store, upsert_plan(table, source, ["k"]), source)
        sizes.append([len(hashes) for _, hashes in sorted(buckets_of(table).items())])
        assert table.verify(full=True).findings == ()
    assert sizes[0] == [30, 30, 10]
    assert [sum(some) for some in sizes] == [70, 100, 130]
    assert len(sizes[-1]) == 3
    assert len(found(table)) == 130


def test_a_task_reads_the_index_only_of_buckets_that_grow(tmp_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(str(tmp_path), "a", key=pa.int64(), partitioned=False, options=SMALL_BUCKETS)
    lw.write_table(keyed_rows(range(100), 1), table)  # three full buckets, and one with room
    read: list[int] = []
    real = HashFiles.read

    def counted(self: HashFiles, entries: Sequence[IndexEntry]) -> dict[int, Hashes]:
        read.extend(entry.bucket for entry in entries)
        return real(self, entries)

    monkeypatch.setattr(HashFiles, "read", counted)
    source = keyed_rows(range(90, 110), 2)
    by_bucket(table.store, upsert_plan(table, source, ["k"]), source)
    assert sorted(read) == [0, 0, 1, 1, 2, 2, 3, 3, 3]  # both senders read all files, and the task that adds keys one
    read.clear()
    known = keyed_rows(range(20), 3)
    by_bucket(table.store, upsert_plan(table, known, ["k"]), known)
    assert sorted(read) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_writer_meanwhile_disturbs_inserts_but_no_updates_of_other_buckets(tmp_path: str) -> None:
    table = table_of(str(tmp_path), "a", key=pa.int64(), partitioned=False, options=SMALL_BUCKETS)
    lw.write_table(keyed_rows(range(100), 1), table)
    others = iter([[200], [300], []])

    def meanwhile() -> None:
        keys = next(others)
        if keys:
            lw.write_table(keyed_rows(keys, 7), table)  # into the last bucket, which has room

    in_first = [
        key for key, number in zip(range(100), _hashes(range(100)), strict=True) if number in buckets_of(table)[0]
    ]
    source = keyed_rows(in_first[:5], 2)
    done = by_bucket(table.store, upsert_plan(table, source, ["k"]), source, meanwhile=meanwhile)
    assert (done.updated, done.inserted, done.attempts) == (5, 0, 1)
    new = keyed_rows([300, 301], 3)
    done = by_bucket(table.store, upsert_plan(table, new, ["k"]), new, meanwhile=meanwhile)
    assert (done.updated, done.inserted, done.attempts) == (1, 1, 2)
    assert {row["k"]: row["n"] for row in found(table)} == {
        **dict.fromkeys(range(100), 1),
        **dict.fromkeys(in_first[:5], 2),
        200: 7,
        300: 3,
        301: 3,
    }
    assert table.verify(full=True).findings == ()


def _hashes(keys: Iterable[int]) -> list[int]:
    return [int(number) for number in row_hashes([pa.array(list(keys), pa.int64())], [AtomicType("BIGINT")])]
