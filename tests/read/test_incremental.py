"""What changed between snapshots, and the ways to ask; tests/test_golden.py reads the changes of all golden tables."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.errors import InvalidInputError, NotFoundError, UnsupportedError
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.read.read_builder import ReadBuilder
from lakewright.table.table_views import AuditLog
from lakewright.table.write_builder import BatchWriteBuilder
from support.golden import WAREHOUSE, expected, expected_rows, in_order, normalised, spelled
from support.java_splits import from_java, to_java
from support.keyed_tables import keyed_store
from support.read_tables import append, golden_store, new_table

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("x", pa.float64())])


def between(name: str, start: object, end: object, mode: str = "auto", **options: str) -> TableStore:
    given = {"incremental-between": f"{start},{end}", "incremental-between-scan-mode": mode, **options}
    return golden_store(name, given)


def rows_of(table: pa.Table, store: TableStore) -> list[list[Any]]:
    values = spelled(table, store.schema.fields)
    return [[kind, *row] for kind, row in zip(table["_row_kind"].to_pylist(), values, strict=True)]


def changes(store: TableStore) -> list[list[Any]]:
    return rows_of(ReadBuilder(store).with_include_row_kind().new_read().to_arrow(), store)


def told(spec: dict[str, Any], events: Iterable[tuple[str, int]], store: TableStore) -> list[list[Any]]:
    """Return the events of `expected.json` as rows that begin with their kind."""
    found = [(kind, expected_rows(spec, [number])) for kind, number in events]
    return [[kind, *normalised(rows, store.schema.fields)[0]] for kind, rows in found]


def test_an_update_of_some_columns_is_no_event_but_a_difference() -> None:
    first = golden_store("track.evolution", {"scan.snapshot-id": "1"})
    whole = ReadBuilder(first).with_include_row_kind().new_read().to_arrow()
    assert changes(between("track.evolution", 0, 1, "delta")) == rows_of(whole, first)
    with pytest.raises(UnsupportedError, match="diff"):
        changes(between("track.evolution", 1, 2, "delta"))


def test_the_difference_from_nothing_is_everything() -> None:
    spec = expected()["pk.dedup_deletes"]
    store = between("pk.dedup_deletes", 0, 3, "diff")
    assert in_order(changes(store)) == in_order(["+I", *row] for row in expected_rows(spec, spec["rows"]))


def test_keys_that_moved_with_the_bucket_count_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="2 and 3 buckets"):
        changes(between("pk.rescaled_bucket", 1, 2, "diff"))


# How to ask.


def test_the_mode_follows_the_producer_and_two_tags_are_compared() -> None:
    assert changes(between("changelog.lookup", 0, 4)) == changes(between("changelog.lookup", 0, 4, "changelog"))
    assert changes(between("changelog.lookup", 0, 4)) != changes(between("changelog.lookup", 0, 4, "delta"))
    assert changes(between("pk.dedup_level0", 0, 2)) == changes(between("pk.dedup_level0", 0, 2, "delta"))
    spec = expected()["meta.tags"]
    first, latest = (expected_rows(spec, spec["tags"][tag]) for tag in ("first", "latest"))
    want = in_order(["+I", *row] for row in latest if row not in first)
    assert in_order(changes(between("meta.tags", "first", "latest"))) == want
    assert in_order(changes(between("meta.tags", "first", "latest", "delta"))) == want
    assert in_order(changes(between("meta.tags", "first", 3))) == want


def test_without_a_kind_column_only_rows_that_stay_are_read() -> None:
    for mode in ("delta", "changelog", "diff"):
        store = between("changelog.input", 1, 3, mode)
        plain = spelled(ReadBuilder(store).new_read().to_arrow(), store.schema.fields)
        assert plain == [row[1:] for row in changes(store) if row[0] in {"+I", "+U"}]
        assert len(plain) < len(changes(store)) or mode == "diff"


def test_changelogs_outlive_their_snapshots() -> None:
    store = between("changelog.decoupled", 0, 3)
    spec = expected()["changelog.decoupled"]
    kept = [told(spec, snapshot["changelog"], store) for snapshot in spec["snapshots"]]
    got = changes(store)
    assert got[4:] == [row for rows in kept for row in rows]
    assert [row[0] for row in got[:4]] == ["+I"] * 4
    with pytest.raises(NotFoundError, match="snapshot 1 has expired") as caught:
        changes(between("changelog.decoupled", 0, 3, "delta"))
    assert caught.value.earliest_snapshot_id == 2


def test_times_name_the_snapshots_between_them() -> None:
    store = golden_store("pk.dedup_deletes")
    times = [store.snapshots.get(number).time_millis for number in (1, 2, 3)]
    assert times == sorted(set(times)), "the snapshots of this table have different times"

    def at(start: object, end: object) -> list[list[Any]]:
        return changes(golden_store("pk.dedup_deletes", {"incremental-between-timestamp": f"{start},{end}"}))

    assert at(times[0], times[2]) == changes(between("pk.dedup_deletes", 1, 3))
    assert at(times[0] - 1, times[1]) == changes(between("pk.dedup_deletes", 0, 2))
    assert at(0, times[2] + 10) == changes(between("pk.dedup_deletes", 0, 3))
    assert at(times[2], times[2] + 10) == []
    assert at("2020-01-01 00:00:00", "2100-01-01") == changes(between("pk.dedup_deletes", 0, 3))
    diff = golden_store(
        "pk.dedup_deletes",
        {"incremental-between-timestamp": f"{times[0]},{times[2]}", "incremental-between-scan-mode": "diff"},
    )
    assert changes(diff) == changes(between("pk.dedup_deletes", 1, 3, "diff"))


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("pk.dedup_deletes", {"incremental-between": "3,1"}, InvalidInputError, "from the older to the newer"),
        ("pk.dedup_deletes", {"incremental-between": "1,9"}, NotFoundError, "no snapshot 9 yet; the newest is 3"),
        ("pk.dedup_deletes", {"incremental-between": "1"}, InvalidInputError, "requires start"),
        ("pk.dedup_deletes", {"incremental-between": "1,2,3"}, InvalidInputError, "requires start"),
        ("pk.dedup_deletes", {"incremental-between": "-1,2"}, NotFoundError, "neither a snapshot id nor a tag"),
        ("meta.tags", {"incremental-between": "first,nope"}, NotFoundError, "first, latest, with ttl"),
        ("meta.expired", {"incremental-between": "1,4"}, NotFoundError, "snapshot 2 has expired.*left is 3"),
        (
            "meta.expired",
            {"incremental-between": "2,4", "incremental-between-scan-mode": "diff"},
            NotFoundError,
            "Snapshot id .2. doesn.t exist in .*: it has expired",
        ),
        ("append.no_snapshot", {"incremental-between": "0,1"}, NotFoundError, "the newest is none"),
        ("meta.expired", {"incremental-between-timestamp": "1,4000000000000"}, NotFoundError, "before 3.*expired"),
        ("meta.expired", {"incremental-between-timestamp": "1,2"}, NotFoundError, "before 3.*expired"),
        ("meta.expired", {"incremental-between-timestamp": "7,3"}, InvalidInputError, "from the older"),
        ("meta.expired", {"incremental-between-timestamp": "x,3"}, InvalidInputError, "must look like"),
        (
            "meta.expired",
            {"incremental-between": "3,4", "incremental-between-timestamp": "1,3"},
            InvalidInputError,
            "give one of",
        ),
        ("meta.expired", {"incremental-between": "3,4", "scan.snapshot-id": "3"}, InvalidInputError, "give one of"),
        (
            "meta.expired",
            {"incremental-between": "3,4", "incremental-between-scan-mode": "sideways"},
            InvalidInputError,
            "auto, delta, changelog or diff",
        ),
    ],
)
def test_ranges_that_cannot_be_read(
    name: str, options: Mapping[str, str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ReadBuilder(golden_store(name, options)).new_scan().plan()


def test_ranges_without_snapshots_and_the_oldest_that_is_left() -> None:
    assert changes(between("pk.dedup_deletes", 2, 2)) == []
    assert changes(between("pk.dedup_deletes", 2, 2, "diff")) == []
    assert changes(between("append.no_snapshot", 0, 0)) == []
    assert changes(between("append.no_snapshot", 0, 0, "diff")) == []
    assert len(changes(between("meta.expired", 2, 4))) == 2


# Filters, columns, shares, other processes.


@pytest.mark.parametrize("mode", ["delta", "changelog", "diff"])
def test_filters_and_columns_are_those_of_the_read_rows(mode: str) -> None:
    store = between("changelog.input", 1, 3, mode)
    whole = changes(store)
    for text, keep in (
        ("k = 2", lambda row: row[1] == 2),
        ("v = 'b' OR v = 'a3'", lambda row: row[2] in {"b", "a3"}),
        ("v > 'zzz'", lambda _: False),
    ):
        found = ReadBuilder(store).with_filter(text).with_include_row_kind().new_read().to_arrow()
        assert rows_of(found, store) == [row for row in whole if keep(row)]
    some = ReadBuilder(store).with_filter("k > 1").with_projection(["v"]).with_include_row_kind().new_read().to_arrow()
    assert some.schema.names == ["_row_kind", "v"]
    assert [list(row.values()) for row in some.to_pylist()] == [[row[0], row[2]] for row in whole if row[1] > 1]
    none = ReadBuilder(store).with_projection([]).new_read().to_arrow()
    assert none.num_rows == sum(row[0] in {"+I", "+U"} for row in whole)


def test_files_without_a_matching_row_are_not_planned() -> None:
    builder = ReadBuilder(between("pk.dedup_levels", 0, 8))
    whole = builder.new_scan().plan()
    pruned = builder.with_filter("k < 0").new_scan().plan()
    assert len(whole.splits()[0].files) == 5
    assert pruned.splits() == []
    assert pruned.funnel.files_after_stats == 0


@pytest.mark.parametrize("mode", ["delta", "diff"])
@pytest.mark.parametrize("name", ["pk.dedup_deletes", "append.unaware_compacted", "dv.append_compacted"])
def test_splits_travel_and_can_be_shared_out(name: str, mode: str) -> None:
    store = between(name, 1, expected()[name]["snapshots"][-1]["id"], mode)
    builder = ReadBuilder(store).with_include_row_kind()
    splits = builder.new_scan().plan().splits()
    assert splits
    for split in splits:
        assert DataSplit.deserialize(split.serialize()) == split
        assert pickle.loads(pickle.dumps(split)) == split  # noqa: S301 - our own
        if split.before is None:
            assert from_java(to_java(split), split.partition_types) == split
        else:
            with pytest.raises(UnsupportedError, match="two snapshots"):
                to_java(split)
    travelled = [pickle.loads(pickle.dumps(split)) for split in splits]  # noqa: S301
    assert rows_of(builder.new_read().to_arrow(travelled), store) == changes(store)
    shares = [builder.new_scan().with_shard(n, 3).plan().splits() for n in range(3)]
    parts = [rows_of(builder.new_read().to_arrow(share), store) for share in shares]
    assert in_order(itertools.chain(*parts)) == in_order(changes(store))
    first = builder.with_limit(2).new_read().to_arrow()
    assert rows_of(first, store) == changes(store)[:2]


def test_states_of_a_plain_read_are_inserts_in_the_kind_column() -> None:
    store = golden_store("pk.dedup_deletes")
    whole = ReadBuilder(store).with_include_row_kind().new_read().to_arrow()
    assert whole.schema.field(0) == pa.field("_row_kind", pa.string())
    assert set(whole["_row_kind"].to_pylist()) == {"+I"}
    counted = ReadBuilder(store).with_include_row_kind().with_projection([]).new_read().to_arrow()
    assert counted["_row_kind"].to_pylist() == whole["_row_kind"].to_pylist()


def test_a_column_of_the_kind_columns_name_is_refused(tmp_path: Path) -> None:
    store = new_table(tmp_path, pa.schema([("_row_kind", pa.string()), ("a", pa.int64())]))
    with pytest.raises(InvalidInputError, match="_row_kind"):
        ReadBuilder(store).with_include_row_kind()
    assert ReadBuilder(store).with_projection(["a"]).with_include_row_kind().read_type()[0].name == "_row_kind"


def test_deltas_of_an_append_table_come_in_commit_order(tmp_path: Path) -> None:
    store = new_table(tmp_path, SCHEMA, ["p"])
    for n in range(5):
        append(store, pa.table({"id": [n, n], "p": ["a", "b"], "x": [n / 2, None]}, schema=SCHEMA))
    some = store.with_schema(store.schema.with_options({"incremental-between": "1,4"}))
    found = ReadBuilder(some).with_filter("p = 'b'").new_read().to_arrow()
    assert found["id"].to_pylist() == [1, 2, 3]
    plan = ReadBuilder(some).with_filter("p = 'b'").new_scan().plan()
    assert plan.snapshot_id == 4
    assert [split.partition for split in plan.splits()] == [("b",)]
    assert "Snapshot:           4" in str(ReadBuilder(some).explain())


def test_deltas_leave_out_what_an_overwrite_wrote(tmp_path: Path) -> None:
    store = new_table(tmp_path, SCHEMA)
    for n in range(3):
        row = pa.table({"id": [n], "p": ["a"], "x": [None]}, schema=SCHEMA)
        builder = BatchWriteBuilder(store).overwrite() if n == 1 else BatchWriteBuilder(store)
        with builder.new_write() as write, builder.new_commit() as commit:
            write.write_arrow(row)
            commit.commit(write.prepare_commit())
    given = {"incremental-between": "0,3", "incremental-between-scan-mode": "delta"}
    found = ReadBuilder(store.with_schema(store.schema.with_options(given))).new_read().to_arrow()
    assert found["id"].to_pylist() == [0, 2]


@pytest.mark.parametrize("producer", ["input", "lookup", "full-compaction"])
def test_changes_of_a_key_come_in_order_also_over_several_files(tmp_path: Path, producer: str) -> None:
    options = {
        "bucket": "1",
        "changelog-producer": producer,
        "target-file-row-num": "3",
        "full-compaction.delta-commits": "1",
    }
    columns = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.int32())])
    store = keyed_store(tmp_path / "t", options, columns)
    state: dict[int, int] = {}
    seen = 0
    for keys in ([5, 4, 3, 2, 1], [1, 5, 2, 4, 3, 1, 1], [3, 1, 4]):  # not in the order in which keys rise
        builder = BatchWriteBuilder(store)
        with builder.new_write() as write, builder.new_commit() as commit:
            start = 10 * len(state) + len(keys)
            write.write_arrow(pa.table({"k": keys, "v": range(start, start + len(keys))}, schema=columns))
            commit.commit(write.prepare_commit())
        newest = store.snapshots.latest()
        assert newest is not None
        for number in range(seen + 1, newest.id + 1):
            given = {"incremental-between": f"{number - 1},{number}"}
            for row in changes(store.with_schema(store.schema.with_options(given))):
                if row[0] in {"+I", "+U"}:
                    state[row[1]] = row[2]
                else:
                    assert state.pop(row[1]) == row[2]
        seen = newest.id
        assert state == {row["k"]: row["v"] for row in ReadBuilder(store).new_read().to_arrow().to_pylist()}


def test_rows_of_rewritten_files_are_told_apart(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.string()))])
    store = new_table(tmp_path, schema, options={"row-tracking.enabled": "true"})
    append(store, pa.table({"id": [1], "tags": [["a"]]}, schema=schema))
    append(store, pa.table({"id": [2], "tags": [[]]}, schema=schema))
    builder = BatchWriteBuilder(store).overwrite()
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(pa.table({"id": [1, 2, 2, 3], "tags": [["a"], ["b"], ["b"], None]}, schema=schema))
        commit.commit(write.prepare_commit())

    def diff(start: int, end: int) -> ReadBuilder:
        mode = {"incremental-between": f"{start},{end}", "incremental-between-scan-mode": "diff"}
        return ReadBuilder(store.with_schema(store.schema.with_options(mode)))

    assert diff(1, 2).new_read().to_arrow().to_pylist() == [{"id": 2, "tags": []}]
    changed = diff(2, 3).with_include_row_kind().new_read().to_arrow().to_pylist()
    assert sorted(str(list(row.values())) for row in changed) == [
        "['+I', 2, ['b']]",
        "['+I', 2, ['b']]",
        "['+I', 3, None]",
        "['-D', 2, []]",
    ]
    assert diff(1, 2).with_projection(["id", "_ROW_ID"]).new_read().to_arrow()["_ROW_ID"].to_pylist() == [1]
    with pytest.raises(UnsupportedError, match="_ROW_ID belongs to a stored row"):
        diff(1, 3).with_projection(["_ROW_ID"]).new_read().to_arrow()


def test_rows_of_a_new_deletion_vector_are_a_difference(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    options = {"bucket": "-1", "deletion-vectors.enabled": "true"}
    schema = lw.Schema.from_pyarrow_schema(pa.schema([("id", pa.int64())]), options=options)
    catalog.create_table("d.t", schema)
    table = catalog.get_table("d.t")
    lw.write_table(pa.table({"id": [1, 2, 3]}), table)
    table.delete("id = 2")
    assert table.store.snapshots.get(2).index_manifest is not None  # the data file stays
    diff = lw.read_table(table, incremental=(1, 2), incremental_mode="diff", row_kinds=True)
    assert diff.to_pylist() == [{"_row_kind": "-D", "id": 2}]


def test_one_call_reads_what_changed() -> None:
    table = lw.open_table(str(WAREHOUSE / "changelog.db" / "input"))
    whole = lw.read_table(table, incremental=(1, 3), row_kinds=True)
    assert rows_of(whole, table.store) == changes(between("changelog.input", 1, 3))
    assert lw.read_table(table, incremental="1,3").equals(lw.read_table(table, incremental=("1", 3)))
    diff = lw.read_table(table, incremental=(1, 3), incremental_mode="diff", columns=["k"], filter="k > 2")
    assert diff.to_pylist() == [{"k": 4}]
    with pytest.raises(InvalidInputError, match="give one of"):
        lw.read_table(table, incremental=(1, 3), snapshot_id=2)


def test_the_audit_log_begins_with_row_kinds() -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(WAREHOUSE)})
    log = catalog.get_table("changelog.input$audit_log")
    assert isinstance(log, AuditLog)
    assert log.name == "changelog.input$audit_log"
    assert [field.name for field in log.fields] == ["rowkind", "k", "v"]
    assert set(log.to_arrow()["rowkind"].to_pylist()) == {"+I"}
    between_two = log.copy({"incremental-between": "1,2"}).to_arrow()
    assert between_two["rowkind"].to_pylist() == ["-U", "+U", "-D", "+I"]


def test_the_consumers_of_a_table_are_a_table() -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(WAREHOUSE)})
    consumers = catalog.get_table("meta.consumer$consumers").new_read_builder().new_read().to_arrow()
    assert consumers.to_pylist() == [{"consumer_id": "reader 1", "next_snapshot_id": 3}]
