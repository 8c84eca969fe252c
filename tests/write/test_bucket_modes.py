"""Primary-key tables of every bucket mode, written by fresh writers commit by commit, must equal a dict."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakewright.compact.compaction_job import compact_table
from lakewright.errors import CommitConflictError, InvalidMessageError, UnsupportedError
from lakewright.metadata.table_store import TableStore
from lakewright.read.read_builder import ReadBuilder
from lakewright.spec.table_schema import BucketMode
from lakewright.table.write_builder import BatchWriteBuilder, PostponeFixedBucketWriteBuilder, StreamWriteBuilder
from lakewright.write.cross_partition import CrossPartitionRouter
from support.bucket_tables import committed, keyed_store, new_task, read_all, with_kinds
from support.effort import every_second
from support.golden import expected
from support.read_tables import golden_store

SCHEMA = pa.schema([pa.field("p", pa.string()), pa.field("k", pa.int64()), pa.field("v", pa.int64())])
MODES = {
    "fixed": (["p", "k"], {"bucket": "3"}),
    "mod": (["p", "k"], {"bucket": "3", "bucket-function.type": "mod"}),
    "hive": (["p", "k"], {"bucket": "3", "bucket-function.type": "hive"}),
    "dynamic": (["p", "k"], {"bucket": "-1", "dynamic-bucket.target-row-num": "7"}),
    "dynamic, few buckets": (
        ["p", "k"],
        {"bucket": "-1", "dynamic-bucket.target-row-num": "7", "dynamic-bucket.max-buckets": "2"},
    ),
    "dynamic, beside the data": (["p", "k"], {"bucket": "-1", "index-file-in-data-file-dir": "true"}),
    "dynamic, deletion vectors": (
        ["p", "k"],
        {"bucket": "-1", "dynamic-bucket.target-row-num": "7", "deletion-vectors.enabled": "true"},
    ),
    "cross-partition": (["k"], {"bucket": "-1", "dynamic-bucket.target-row-num": "7"}),
    "cross-partition, write-only": (["k"], {"bucket": "-1", "write-only": "true"}),
    "cross-partition, deletion vectors": (["k"], {"bucket": "-1", "deletion-vectors.enabled": "true"}),
    "postpone": (["p", "k"], {"bucket": "-2", "postpone.default-bucket-num": "2"}),
}

Change = tuple[str, int, int, str]


def changes(seed: int) -> Iterator[list[Change]]:
    """Yield the rows of some commits."""
    rng = random.Random(seed)
    for _ in range(6):
        yield [
            (rng.choice("abc"), rng.randrange(60), rng.randrange(10**6), "-D" if rng.random() < 0.2 else "+I")
            for _ in range(rng.choice([1, 10, 50]))
        ]


def table(root: Path, mode: str) -> TableStore:
    keys, options = MODES[mode]
    return keyed_store(root, SCHEMA, (keys, ["p"]), options)


def builder_of(store: TableStore) -> BatchWriteBuilder:
    postponed = store.schema.bucket_mode is BucketMode.POSTPONE
    return PostponeFixedBucketWriteBuilder(store) if postponed else BatchWriteBuilder(store)


def rows(batch: list[Change]) -> pa.Table:
    columns = list(zip(*batch, strict=True))
    return pa.table([list(column) for column in columns[:3]], schema=SCHEMA)


def apply(model: dict[object, tuple[str, int, int]], batch: list[Change], *, crossing: bool) -> None:
    for p, k, v, kind in batch:
        key: object = k if crossing else (p, k)
        if kind == "-D":
            model.pop(key, None)
        else:
            model[key] = (p, k, v)


def found(store: TableStore) -> list[tuple[str, int, int]]:
    out = read_all(store)
    return sorted(zip(*(out[name].to_pylist() for name in ("p", "k", "v")), strict=True))


@pytest.mark.parametrize("mode", every_second(list(MODES)))
def test_batches_of_fresh_writers_equal_a_dict(mode: str, tmp_path: Path) -> None:
    store = table(tmp_path, mode)
    model: dict[object, tuple[str, int, int]] = {}
    for batch in changes(11):
        committed(builder_of(store), rows(batch), [change[3] for change in batch])
        apply(model, batch, crossing=mode.startswith("cross"))
        assert found(store) == sorted(model.values())


@pytest.mark.parametrize("mode", every_second([mode for mode in MODES if mode != "postpone"][::-1]))
def test_a_stream_that_commits_late_equals_a_dict(mode: str, tmp_path: Path) -> None:
    store = table(tmp_path, mode)
    model: dict[object, tuple[str, int, int]] = {}
    builder = StreamWriteBuilder(store)
    waiting = []
    with builder.new_write() as write, builder.new_commit() as commit:
        for number, batch in enumerate(changes(12)):
            write.write_arrow(rows(batch), row_kinds=[change[3] for change in batch])
            waiting.append((write.prepare_commit(number), number))
            apply(model, batch, crossing=mode.startswith("cross"))
            if number % 2:
                for messages, identifier in waiting:
                    commit.commit(messages, identifier)
                waiting = []
    assert found(store) == sorted(model.values())


@pytest.mark.parametrize("mode", ["dynamic", "dynamic, beside the data", "cross-partition"])
def test_an_overwrite_replaces_rows_and_index(mode: str, tmp_path: Path) -> None:
    store = table(tmp_path, mode)
    whole = store.with_schema(store.schema.with_options({"dynamic-partition-overwrite": "false"}))
    for batch in changes(13):
        committed(builder_of(store), rows(batch), [change[3] for change in batch])
    first = [("a", k, 1, "+I") for k in range(20)]
    committed(builder_of(whole).overwrite(), rows(first))
    more = [("a", k, 2, "+I") for k in range(10, 30)]
    committed(builder_of(store), rows(more))
    model: dict[object, tuple[str, int, int]] = {}
    apply(model, first + more, crossing=True)
    assert found(store) == sorted(model.values())


def test_an_overwrite_of_some_partitions_puts_no_key_into_two(tmp_path: Path) -> None:
    store = table(tmp_path, "cross-partition")
    committed(builder_of(store), rows([("a", 1, 1, "+I"), ("b", 2, 1, "+I")]))
    for row in [("a", 2, 9, "+I"), ("a", 3, 9, "+I"), ("c", 1, 9, "+I")]:
        with pytest.raises(CommitConflictError, match="truncate the partitions to replace and upsert"):
            committed(builder_of(store).overwrite(), rows([row]))
    assert found(store) == [("a", 1, 1), ("b", 2, 1)]
    with builder_of(store).new_commit() as commit:
        commit.truncate_partitions([{"p": "a"}])
    committed(builder_of(store), rows([("a", 2, 9, "+I")]))
    assert found(store) == [("a", 2, 9)]
    committed(builder_of(store).overwrite(), rows([("b", 1, 3, "+I"), ("a", 2, 3, "+I")]))
    assert found(store) == [("a", 2, 3), ("b", 1, 3)]


def test_a_key_cannot_move_where_deletes_are_ignored(tmp_path: Path) -> None:
    store = keyed_store(tmp_path, SCHEMA, (["k"], ["p"]), {"bucket": "-1", "ignore-delete": "true"})
    with pytest.raises(UnsupportedError, match="remove the option"):
        committed(builder_of(store), rows([("a", 1, 1, "+I"), ("b", 1, 2, "+I")]))


def test_rows_that_waited_and_rows_that_did_not_meet_in_one_bucket(tmp_path: Path) -> None:
    options = {"bucket": "-2", "postpone.default-bucket-num": "4", "bucket-function.type": "mod"}
    store = keyed_store(tmp_path, SCHEMA, (["p", "k"], ["p"]), options)
    committed(PostponeFixedBucketWriteBuilder(store), rows([("a", k, 1, "+I") for k in range(10)]))
    committed(BatchWriteBuilder(store), rows([("a", k, 2, "+I") for k in range(10)]))
    compact_table(store)
    assert found(store) == [("a", k, 2) for k in range(10)]


@pytest.mark.parametrize("commits", [1, 2])
def test_what_is_taken_from_an_unknown_key_stays_with_the_key(commits: int, tmp_path: Path) -> None:
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "deletion-vectors.enabled": "true"}
    store = keyed_store(tmp_path, SCHEMA, (["k"], ["p"]), {"bucket": "-1", **options})
    batch = [("a", 1, 5, "-D"), ("b", 1, 7, "+I")]
    for number in range(commits):
        part = batch if commits == 1 else batch[number : number + 1]
        committed(builder_of(store), rows(part), [change[3] for change in part])
    assert found(store) == [("a", 1, 2)]


def test_one_commit_of_a_cross_partition_table_has_one_writer(tmp_path: Path) -> None:
    store = table(tmp_path, "cross-partition")
    builder = BatchWriteBuilder(store)
    with builder.new_write() as first, builder.new_write() as second, builder.new_commit() as commit:
        first.write_arrow(rows([("a", 1, 1, "+I")]))
        second.write_arrow(rows([("b", 1, 2, "+I")]))
        messages = [*first.prepare_commit(), *second.prepare_commit()]
        with pytest.raises(InvalidMessageError, match="one writer"):
            commit.commit(messages)
    assert found(store) == []


def test_two_writers_of_one_dynamic_partition_conflict(tmp_path: Path) -> None:
    store = table(tmp_path, "dynamic")
    one, two = BatchWriteBuilder(store), BatchWriteBuilder(store)
    with one.new_write() as first, two.new_write() as second, one.new_commit() as a, two.new_commit() as b:
        first.write_arrow(rows([("a", 1, 1, "+I")]))
        second.write_arrow(rows([("a", 1, 2, "+I")]))
        prepared, late = first.prepare_commit(), second.prepare_commit()
        a.commit(prepared)
        with pytest.raises(CommitConflictError, match="chose buckets of the same partition"):
            b.commit(late)
    assert found(store) == [("a", 1, 1)]


def test_two_writers_of_a_cross_partition_table_conflict(tmp_path: Path) -> None:
    store = table(tmp_path, "cross-partition")
    builders = [BatchWriteBuilder(store) for _ in range(3)]
    prepared = []
    for number, builder in enumerate(builders):
        with builder.new_write() as write:
            write.write_arrow(rows([("abc"[number], 1, number, "+I")]))
            prepared.append(write.prepare_commit())
        if number == 1:
            with builders[1].new_commit() as commit:
                commit.commit(prepared[1])  # the third knows of it
    with builders[0].new_commit() as commit, pytest.raises(CommitConflictError, match="put keys into other partitions"):
        commit.commit(prepared[0])
    with builders[2].new_commit() as commit:
        commit.commit(prepared[2])
    assert found(store) == [("c", 1, 2)]


def test_a_cross_partition_stream_goes_on_from_its_own_commits(tmp_path: Path) -> None:
    store = table(tmp_path, "cross-partition")
    builder = StreamWriteBuilder(store)
    bases = []
    with builder.new_write() as write, builder.new_commit() as commit:
        for number in range(8):  # enough for a compaction in between
            write.write_arrow(rows([("abc"[number % 3], key, number, "+I") for key in range(3)]))
            messages = write.prepare_commit(number)
            bases.append({message.hash_base for message in messages})
            commit.commit(messages, number)
        assert len(set(map(frozenset, bases))) == 8
        assert bases[0] == {()}
        committed(BatchWriteBuilder(store), rows([("a", 9, 9, "+I")]))
        write.write_arrow(rows([("b", 9, 10, "+I")]))
        messages = write.prepare_commit(9)
        with pytest.raises(CommitConflictError, match="write the data again"):
            commit.commit(messages, 9)
    assert found(store) == [("a", 9, 9), *(("b", key, 7) for key in range(3))]


def test_a_writer_that_gives_up_leaves_no_index_file(tmp_path: Path) -> None:
    store = table(tmp_path, "dynamic")
    builder = BatchWriteBuilder(store)
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(rows([("a", 1, 1, "+I")]))
        messages = write.prepare_commit()
        commit.abort(messages)
    assert [path for path in (tmp_path / "index").rglob("*") if path.is_file()] == []


@pytest.mark.filterwarnings("ignore:.*STAY HIDDEN")
@pytest.mark.parametrize("engine", ["first-row", "deduplicate", "partial-update"])
def test_a_cross_partition_writer_knows_the_keys_of_level_0(engine: str, tmp_path: Path) -> None:
    options = {"bucket": "-1", "write-only": "true", "merge-engine": engine}
    store = keyed_store(tmp_path, SCHEMA, (["k"], ["p"]), options)
    committed(BatchWriteBuilder(store), rows([("a", 1, 1, "+I"), ("b", 2, 1, "+I")]))
    router = CrossPartitionRouter(new_task(store))
    groups = router.route(with_kinds(rows([("b", 1, 2, "+I"), ("b", 2, 2, "+I")])))
    out = sorted((*row.values(),) for group in groups for row in group.rows.to_pylist())
    assert (
        out
        == {
            "first-row": [(0, "b", 2, 2)],
            "deduplicate": [(0, "b", 1, 2), (0, "b", 2, 2), (3, "a", 1, 2)],
            "partial-update": [(0, "a", 1, 2), (0, "b", 2, 2)],
        }[engine]
    )


# ---- the bucket functions of primary-key tables, against tables that Java wrote --------------------------------------

GOLDEN = [
    name
    for name, spec in expected().items()
    if len(set(spec.get("buckets", ()))) > 1 and name != "pk.rescaled_bucket" and not spec["partitionKeys"]
]


def by_bucket(store: TableStore, columns: list[str]) -> dict[str, int]:
    builder = ReadBuilder(store).with_projection(columns)
    read = builder.new_read()
    out: dict[str, int] = {}
    for split in builder.new_scan().plan().splits():
        out |= {repr(row): split.bucket for row in read.to_arrow([split]).to_pylist()}
    return out


@pytest.mark.parametrize("name", GOLDEN)
def test_rows_lie_in_the_buckets_where_java_put_them(name: str, tmp_path: Path) -> None:
    java = golden_store(name)
    keys = list(java.schema.bucket_keys)
    options = {k: v for k, v in java.schema.options.items() if k in {"bucket", "bucket-function.type", "bucket-key"}}
    values = read_all(java).select(keys)
    nullable = any(column.null_count for column in values.columns)
    schema = pa.schema([*values.schema, pa.field("row", pa.int64())])
    more = {"primary-key.nullable": "true"} if nullable else {}
    store = keyed_store(tmp_path, schema, (keys, []), {**options, **more})
    committed(BatchWriteBuilder(store), values.append_column("row", pa.array(range(values.num_rows))))
    assert by_bucket(store, keys) == by_bucket(java, keys)
