"""Deletes and updates of primary-key tables: rows with kinds, whatever the buckets and the merge engine."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakewright as lw
from lakewright.commit.committer import Committer
from lakewright.dml.keyed_strategy import prepare_delete
from lakewright.dml.row_location import bind_condition
from lakewright.errors import CommitConflictError, InvalidInputError, LakewrightWarning, UnsupportedError
from lakewright.spec.snapshot import CommitKind
from support.effort import every_second

SCHEMA = pa.schema(
    [
        pa.field("p", pa.string(), nullable=False),
        pa.field("k", pa.int64(), nullable=False),
        pa.field("v", pa.string()),
        pa.field("n", pa.int64()),
        pa.field("d", pa.date32()),
    ]
)
KINDS: Mapping[str, Mapping[str, str]] = {
    "fixed": {"bucket": "2"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "5"},
    "cross-partition": {"bucket": "-1"},
    "postpone": {"bucket": "-2"},
    "vectors": {"bucket": "2", "deletion-vectors.enabled": "true"},
    "write-only": {"bucket": "2", "write-only": "true"},
    "lookup": {"bucket": "2", "changelog-producer": "lookup"},
    "input": {"bucket": "2", "changelog-producer": "input"},
    "thin": {"bucket": "2", "data-file.thin-mode": "true", "file.format": "orc"},
}


@pytest.fixture
def catalog(tmp_path: Path) -> lw.Catalog:
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    made.create_database("d")
    return made


def new_table(
    catalog: lw.Catalog, keys: list[str], options: Mapping[str, str], *, parts: bool = True
) -> lw.FileStoreTable:
    options = {"lakewright.write-threads": "1", "bucket": "1", **options}
    wanted = lw.Schema.from_pyarrow_schema(
        SCHEMA, partition_keys=["p"] if parts else None, primary_keys=keys, options=options
    )
    catalog.create_table("d.t", wanted, False)  # noqa: FBT003 - pypaimon's signature
    return catalog.get_table("d.t")


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    day = dt.date(2026, 1, 1)
    return pa.table(
        {
            "p": [f"p{n % 2}" for n in numbers],
            "k": list(numbers),
            "v": [f"v{n}" for n in numbers],
            "n": [n % 5 for n in numbers],
            "d": [day + dt.timedelta(days=n) for n in numbers],
        },
        schema=SCHEMA,
    )


def newest(table: lw.FileStoreTable) -> int:
    snapshot = table.snapshot()
    assert snapshot is not None
    return snapshot.id


def read(table: lw.FileStoreTable) -> pl.DataFrame:
    frame = pl.from_arrow(lw.read_table(table))
    assert isinstance(frame, pl.DataFrame)
    return frame.sort("k")


@pytest.mark.parametrize("kind", every_second(list(KINDS)))
def test_deletes_and_updates_equal_a_reference(catalog: lw.Catalog, kind: str) -> None:
    keys = ["k"] if kind == "cross-partition" else ["p", "k"]
    table = new_table(catalog, keys, KINDS[kind])
    lw.write_table(rows(0, 20), table)
    lw.write_table(rows(10, 20), table)
    if kind == "postpone":
        table.compact()
    expected = pl.from_arrow(rows(0, 30))
    assert isinstance(expected, pl.DataFrame)

    before = newest(table)
    gone = table.delete("n = 2 OR k IN (0, 99)")
    expected = expected.filter(~((pl.col("n") == 2) | (pl.col("k") == 0)))
    assert (gone.deleted, gone.updated, gone.inserted, gone.method, gone.attempts) == (7, 0, 0, "row kinds", 1)
    assert read(table).equals(expected)
    assert len(kinds_after(table, before)) == 1

    before = newest(table)
    changed = table.update({"n": pc.add(pc.field("n"), 10), "v": "new"}, "p = 'p1' AND k > 5")
    hit = (pl.col("p") == "p1") & (pl.col("k") > 5)
    expected = expected.with_columns(
        n=pl.when(hit).then(pl.col("n") + 10).otherwise(pl.col("n")),
        v=pl.when(hit).then(pl.lit("new")).otherwise(pl.col("v")),
    )
    assert (changed.deleted, changed.updated) == (0, expected.filter(hit).height)
    assert changed.partitions == 1
    assert read(table).equals(expected)
    assert kinds_after(table, before) == [CommitKind.APPEND]

    nothing = table.update({"v": None}, "k = 1000")
    assert nothing.is_empty
    nulls = table.update({"v": None, "d": None}, "k < 10")
    expected = expected.with_columns(
        v=pl.when(pl.col("k") < 10).then(None).otherwise(pl.col("v")),
        d=pl.when(pl.col("k") < 10).then(None).otherwise(pl.col("d")),
    )
    assert nulls.rows == expected.filter(pl.col("k") < 10).height
    assert read(table).equals(expected)
    everything = table.delete("true")
    assert everything.deleted == expected.height
    assert read(table).height == 0
    assert table.delete("true").is_empty
    lw.write_table(rows(3, 2), table)
    if kind == "postpone":
        table.compact()
    assert read(table)["k"].to_list() == [3, 4]


def kinds_after(table: lw.FileStoreTable, snapshot_id: int) -> list[CommitKind]:
    """Return the kinds of the snapshots since, without compactions."""
    ids = range(snapshot_id + 1, newest(table) + 1)
    kinds = [table.store.snapshots.get(i).commit_kind for i in ids]
    assert len(kinds) <= 2
    return [kind for kind in kinds if kind is not CommitKind.COMPACT]


def changes(table: lw.FileStoreTable, first: int, last: int) -> list[tuple[int, str, str | None]]:
    found = lw.read_table(table, incremental=(first, last), incremental_mode="changelog", row_kinds=True)
    return sorted((row["k"], row["_row_kind"], row["v"]) for row in found.to_pylist())


@pytest.mark.parametrize("producer", ["input", "lookup", "full-compaction"])
def test_the_changelog_tells_old_and_new_rows(catalog: lw.Catalog, producer: str) -> None:
    options = {"bucket": "1", "changelog-producer": producer, "full-compaction.delta-commits": "1"}
    table = new_table(catalog, ["k"], options, parts=False)
    lw.write_table(rows(0, 4), table)
    before = newest(table)
    table.update({"v": "new"}, "k IN (1, 2)")
    middle = newest(table)
    table.delete("k IN (2, 3)")
    assert changes(table, before, middle) == [(1, "+U", "new"), (1, "-U", "v1"), (2, "+U", "new"), (2, "-U", "v2")]
    assert changes(table, middle, newest(table)) == [(2, "-D", "new"), (3, "-D", "v3")]
    assert read(table)["v"].to_list() == ["v0", "new"]


@pytest.mark.parametrize("order", ["ascending", "descending"])
def test_a_row_that_is_changed_wins_over_what_it_was(catalog: lw.Catalog, order: str) -> None:
    options = {"bucket": "1", "sequence.field": "n,d", "sequence.field.sort-order": order}
    table = new_table(catalog, ["k"], options, parts=False)
    lw.write_table(rows(0, 4), table)
    lw.write_table(rows(3, 2).set_column(3, "n", pa.nulls(2, pa.int64())), table)
    table.update({"v": "same"}, "k = 1")
    sign = 1 if order == "ascending" else -1
    table.update({"n": 100 * sign}, "k = 2")
    table.update({"v": "from null"}, "k = 4")
    table.update({"n": 7}, "k = 4")
    found = {row["k"]: (row["v"], row["n"]) for row in read(table).to_dicts()}
    assert found == {0: ("v0", 0), 1: ("same", 1), 2: ("v2", 100 * sign), 3: ("v3", 3), 4: ("from null", 7)}
    before = newest(table)
    for older in ({"n": 50 * sign}, {"n": None}, {"n": 100 * sign, "d": dt.date(2000 if sign > 0 else 2050, 1, 1)}):
        with pytest.raises(InvalidInputError, match=r"'n'.* older .*'sequence\.field'"):
            table.update(older, "k = 2")
    assert newest(table) == before
    assert table.delete("k IN (2, 4)").deleted == 2
    assert read(table)["k"].to_list() == [0, 1, 3]


def test_commits_that_order_the_rows_order_changes_too(catalog: lw.Catalog) -> None:
    options = {"sequence.snapshot-ordering": "true", "write-only": "true", "changelog-producer": "input"}
    table = new_table(catalog, ["k"], options, parts=False)
    lw.write_table(rows(0, 3), table)
    table.update({"v": "one"}, "k < 2")
    table.update({"v": "two"}, "v = 'one' AND k = 1")
    table.delete("k = 2")
    assert read(table)["v"].to_list() == ["one", "two"]


def test_a_change_is_committed_only_on_the_rows_it_read(catalog: lw.Catalog) -> None:
    table = new_table(catalog, ["p", "k"], {"write-only": "true"})
    lw.write_table(rows(0, 4), table)
    base = table.snapshot()
    everything = bind_condition(table.store, None)
    mine = prepare_delete(table.store, base, bind_condition(table.store, "p = 'p0'")).planned_on(base)
    other = prepare_delete(table.store, base, everything).planned_on(base)
    table.update({"v": "theirs"}, "k = 1")
    with pytest.raises(CommitConflictError, match=r"rows of its bucket were written after snapshot 1") as caught:
        Committer(table.store).commit(other)
    assert caught.value.facts["snapshot_id"] == 2
    # Nobody wrote into the partition of the other change, and a compaction of it moves no row.
    table.copy({"write-only": "false"}).compact(full=True)
    Committer(table.store).commit(mine)
    assert read(table).select("k", "v").rows() == [(1, "theirs"), (3, "v3")]


def test_keys_and_partitions_stay(catalog: lw.Catalog) -> None:
    table = new_table(catalog, ["p", "k"], {})
    with pytest.raises(InvalidInputError, match="'p', 'k' cannot be assigned") as caught:
        table.update({"v": "x", "k": 1, "p": "y"}, None)
    assert caught.value.facts["columns"] == ("p", "k")


def test_columns_with_defaults_take_null(catalog: lw.Catalog) -> None:
    fields = [
        lw.DataField(0, "k", lw.AtomicType("INT", nullable=False)),
        lw.DataField(1, "v", lw.AtomicType("STRING"), default_value="x"),
        lw.DataField(2, "w", lw.AtomicType("INT")),
    ]
    catalog.create_table("d.t", lw.Schema(fields, None, ["k"], {"bucket": "1"}), False)  # noqa: FBT003
    table = catalog.get_table("d.t")
    lw.write_table(pa.table({"k": [1, 2], "v": ["a", None], "w": [0, 0]}), table)
    assert read(table)["v"].to_list() == ["a", "x"]
    table.update({"v": None}, "k = 1")
    table.update({"w": 5}, "k = 1")
    assert read(table).rows() == [(1, None, 5), (2, "x", 0)]


def test_the_column_of_kinds_says_what_was_done(catalog: lw.Catalog) -> None:
    table = new_table(catalog, ["k"], {"rowkind.field": "v"}, parts=False)
    lw.write_table(rows(0, 3).set_column(2, "v", pa.array(["+I"] * 3)), table)
    table.update({"n": 9}, "k = 1")
    table.delete("k = 2")
    assert read(table).select("k", "v", "n").rows() == [(0, "+I", 0), (1, "+U", 9)]
    with pytest.raises(InvalidInputError, match=r"'v' cannot be assigned.*rowkind\.field"):
        table.update({"v": "+I"}, None)


REFUSED = [
    ({"merge-engine": "first-row"}, "delete", "merge-engine", "overwrite"),
    ({"merge-engine": "first-row"}, "update", "merge-engine", "overwrite"),
    ({"merge-engine": "aggregation"}, "delete", "merge-engine", "aggregation.remove-record-on-delete"),
    ({"merge-engine": "aggregation"}, "update", "merge-engine", "overwrite"),
    ({"merge-engine": "partial-update"}, "delete", "merge-engine", "partial-update.remove-record-on-delete"),
    ({"ignore-delete": "true"}, "delete", "ignore-delete", "reset"),
    ({"merge-engine": "partial-update", "ignore-delete": "true"}, "delete", "ignore-delete", "reset"),
    (
        {"merge-engine": "partial-update", "fields.n.sequence-group": "v"},
        "update",
        "fields.n.sequence-group",
        "newer 'n'",
    ),
]


@pytest.mark.parametrize(("options", "verb", "option", "advice"), REFUSED)
def test_engines_that_cannot_express_it_refuse(
    catalog: lw.Catalog, options: dict[str, str], verb: str, option: str, advice: str
) -> None:
    table = new_table(catalog, ["k"], options, parts=False)
    lw.write_table(rows(0, 3), table)
    before = newest(table)
    with pytest.raises(UnsupportedError, match=advice) as caught:
        table.delete("k = 1") if verb == "delete" else table.update({"v": "x"}, "k = 1")
    assert caught.value.facts["option"] == option
    assert newest(table) == before


def test_partial_updates_set_values_and_refuse_nulls(catalog: lw.Catalog) -> None:
    options = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
    table = new_table(catalog, ["k"], options, parts=False)
    lw.write_table(rows(0, 4), table)
    lw.write_table(pa.table({"p": ["x", "x"], "k": [1, 2], "n": [50, None]}), table)
    table.update({"v": "new"}, "n = 50")
    assert table.delete("k = 0").deleted == 1
    found = read(table).select("k", "v", "n").rows()
    assert found == [(1, "new", 50), (2, "v2", 2), (3, "v3", 3)]
    with pytest.raises(UnsupportedError, match="'v' cannot become null") as caught:
        table.update({"v": None}, "k = 3")
    assert caught.value.facts["column"] == "v"
    # A row that comes after a delete begins anew.
    lw.write_table(pa.table({"p": ["y"], "k": [0], "n": [7]}), table)
    assert read(table).filter(pl.col("k") == 0).select("v", "n").rows() == [(None, 7)]


def test_groups_and_functions_of_other_columns_stay_as_they_are(catalog: lw.Catalog) -> None:
    options = {
        "merge-engine": "partial-update",
        "fields.d.sequence-group": "n",
        "fields.n.aggregate-function": "sum",
        "partial-update.remove-record-on-sequence-group": "d",
    }
    table = new_table(catalog, ["k"], options, parts=False)
    lw.write_table(rows(1, 3), table)
    lw.write_table(rows(1, 3), table)
    assert read(table)["n"].to_list() == [2, 4, 6]
    table.update({"v": "new"}, "k = 2")
    assert read(table).select("v", "n").rows() == [("v1", 2), ("new", 4), ("v3", 6)]
    assert table.delete("k = 3").deleted == 1
    assert read(table)["k"].to_list() == [1, 2]
    lw.write_table(pa.table({"p": ["x"], "k": [9], "v": ["no day"]}), table)
    with pytest.raises(UnsupportedError, match="without d"):
        table.delete("k = 9")


def test_aggregates_can_be_deleted_where_an_option_says_so(catalog: lw.Catalog) -> None:
    options = {
        "merge-engine": "aggregation",
        "fields.n.aggregate-function": "sum",
        "aggregation.remove-record-on-delete": "true",
    }
    table = new_table(catalog, ["k"], options, parts=False)
    lw.write_table(rows(1, 3), table)
    lw.write_table(rows(1, 3), table)
    assert table.delete("n = 4").deleted == 1
    assert read(table).select("k", "n").rows() == [(1, 2), (3, 6)]


@pytest.mark.filterwarnings("ignore::lakewright.LakewrightWarning")
def test_rows_that_no_read_sees_yet_are_changed_as_well(catalog: lw.Catalog) -> None:
    table = new_table(catalog, ["k"], {"deletion-vectors.enabled": "true"}, parts=False)
    lw.write_table(rows(0, 4), table)
    hidden = table.copy({"write-only": "true"})
    lw.write_table(rows(0, 2).set_column(2, "v", pa.array(["late", "late"])), hidden)
    # The newest version of row 1 says late, though no batch read shows it.
    assert hidden.update({"n": 77}, "v = 'late' AND k = 1").updated == 1
    assert hidden.update({"n": 88}, "v = 'v0'").is_empty
    with pytest.warns(LakewrightWarning, match="HIDDEN"):
        gone = hidden.delete("v = 'v2'")
    assert gone.deleted == 1
    assert read(table)["v"].to_list() == ["v0", "v1", "v2", "v3"]
    table.compact()
    assert read(table).select("k", "v", "n").rows() == [(0, "late", 0), (1, "late", 77), (3, "v3", 3)]


def test_rows_that_wait_for_a_bucket_get_one_before_they_are_changed(catalog: lw.Catalog) -> None:
    table = new_table(catalog, ["p", "k"], {"bucket": "-2"})
    lw.write_table(rows(0, 4), table)
    with pytest.raises(UnsupportedError, match=r"wait for a bucket.*compact"):
        table.copy({"write-only": "true"}).delete("k = 1")
    assert table.delete("k = 1").deleted == 1
    lw.write_table(rows(1, 1), table)
    assert table.update({"v": "new"}, "k = 1").updated == 1
    assert read(table)["v"].to_list() == ["v0", "new", "v2", "v3"]
