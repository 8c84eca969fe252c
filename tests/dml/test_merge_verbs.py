"""Merge and upsert as their users see them: which clause applies, what is refused, and what a lost race leads to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakewright as lw
from contract.fault_enumerator import stray_files
from lakewright.dml.change_plan import ChangePlan
from lakewright.dml.matching import Longs
from lakewright.dml.row_changes import UpdateResult
from lakewright.dml.row_location import LocatedRows, locate_rows
from lakewright.errors import ColumnNotExistException, InvalidInputError, UnsupportedError
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.read.manifest_scan import FileSchemas
from support.row_changes import KINDS, TRACKED, new_table

APPEND = [kind for kind, (_, keys, _) in KINDS.items() if not keys]
ROWS = pa.table({"id": [1, 2, 3, None], "p": [0, 0, 1, 1], "n": [10, 20, 30, 40], "name": ["a", "b", "c", "d"]})


def table_of(kind: str = "vectors", rows: pa.Table = ROWS) -> lw.FileStoreTable:
    table = new_table(kind)
    lw.write_table(rows, table)
    return table


def rows_of(table: lw.FileStoreTable, *columns: str) -> list[tuple[object, ...]]:
    found = lw.read_table(table, columns=list(columns) or ["id", "n", "name"])
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


def counts(result: UpdateResult) -> tuple[int | None, int | None, int | None]:
    return result.deleted, result.updated, result.inserted


def snapshots(table: lw.FileStoreTable) -> int:
    return table.store.snapshots.latest_id() or 0


@pytest.mark.parametrize("kind", ["plain", "vectors", "evolution, vectors", "keyed"])
def test_the_first_clause_that_applies_wins(kind: str) -> None:
    table = table_of(kind, ROWS.slice(0, 3))
    source = pa.table({"id": [1, 2, 3, 4, 5], "p": [0] * 5, "n": [1, 2, 3, 4, 5], "name": list("vwxyz")})
    result = (
        table.merge(source, "id")
        .when_matched_update({"name": "first"}, "s.n = 1")
        .when_matched_delete("s.n < 3")
        .when_matched_update({"n": lw.source_col("n"), "name": lw.lit("last")})
        .when_matched_delete()
        .when_not_matched_insert({"id": lw.source_col("id"), "p": 0, "name": "new"}, "n = 4")
        .when_not_matched_insert()
        .execute()
    )
    assert counts(result) == (1, 2, 2)
    assert rows_of(table) == [(1, 10, "first"), (3, 3, "last"), (4, None, "new"), (5, 5, "z")]
    assert snapshots(table) == 2


def test_rows_without_a_pair_are_not_matched_by_source() -> None:
    table = table_of("plain")
    result = (
        table.merge(pa.table({"id": [1]}), ["id"])
        .when_not_matched_by_source_update({"n": pc.field("n") + 1}, "t.name = 'b'")
        .when_not_matched_by_source_delete("id IS NOT NULL")
        .execute()
    )
    assert counts(result) == (1, 1, 0)
    assert rows_of(table) == [(1, 10, "a"), (2, 21, "b"), (None, 40, "d")]


def test_a_builder_can_be_used_again_and_branched() -> None:
    table = table_of("plain")
    start = table.merge(pa.table({"id": [1, 9], "p": [0, 0], "n": [1, 9], "name": ["x", "y"], "tag": [0, 0]}), "id")
    both = start.when_matched_update().when_not_matched_insert()
    assert counts(both.execute()) == (0, 1, 1)
    assert counts(both.execute()) == (0, 2, 0)
    assert counts(start.when_matched_delete().execute()) == (2, 0, 0)
    with pytest.raises(InvalidInputError, match="without clauses changes nothing"):
        start.execute()


@pytest.mark.parametrize("kind", ["plain", "vectors", "keyed"])
def test_nothing_to_do_makes_no_snapshot(kind: str) -> None:
    table = table_of(kind, ROWS.slice(0, 3))
    result = table.merge(pa.table({"id": [77]}), "id").when_matched_delete().execute()
    assert result.is_empty
    assert snapshots(table) == 1
    empty = new_table(kind)
    assert table.merge(ROWS.slice(0, 0), "id").when_matched_update({"n": 1}).execute().is_empty
    assert empty.merge(ROWS.slice(0, 2), "id").when_matched_delete().execute().is_empty
    result = empty.merge(ROWS.slice(0, 2), "id").when_matched_delete().when_not_matched_insert().execute()
    assert counts(result) == (0, 0, 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda rows: rows,
        lambda rows: rows.to_reader(),
        lambda rows: rows.to_batches(),
        pl.from_arrow,
        lambda rows: pd.DataFrame(rows.to_pydict()),
        lambda rows: rows.set_column(3, "name", rows["name"].cast(pa.string()).dictionary_encode()),
    ],
    ids=["table", "reader", "batches", "polars", "pandas", "dictionary"],
)
def test_sources_of_every_kind(make: Callable[[pa.Table], lw.FileStoreTable]) -> None:
    table = table_of("vectors")
    source = make(pa.table({"id": [2, 5], "p": [0, 0], "n": [7, 8], "name": ["é", None]}))
    result = table.merge(source, "t.id = s.id AND t.n < 100").when_matched_delete("s.name = 'é'")
    assert counts(result.when_not_matched_insert().execute()) == (1, 0, 1)


def test_a_table_may_be_the_source() -> None:
    table, other = table_of("vectors"), table_of("keyed", ROWS.slice(0, 2))
    assert counts(table.merge(other, "id").when_matched_delete().execute()) == (2, 0, 0)


# ---- several rows of the source -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "vectors", "evolution", "keyed"])
def test_two_source_rows_for_one_row_are_refused_and_nothing_is_left(kind: str) -> None:
    table = table_of(kind, ROWS.slice(0, 3))
    source = pa.table({"id": [2, 2, 1, 9], "n": [1, 2, 3, 4]})
    builder = table.merge(source, "id").when_matched_update({"n": lw.source_col("n")})
    with pytest.raises(InvalidInputError, match=r"id = 2 is matched by 2 rows of the source") as caught:
        builder.execute()
    assert (caught.value.key, caught.value.times) == ({"id": 2}, 2)
    assert snapshots(table) == 1
    assert not stray_files(table.store)


def test_conditions_may_tell_source_rows_apart() -> None:
    table = table_of("vectors")
    source = pa.table({"id": [2, 2, 1, 1], "n": [1, 2, 3, 4]})
    one = table.merge(source, "id").when_matched_update({"n": lw.source_col("n")}, "s.n IN (2, 3)")
    assert counts(one.execute()) == (0, 2, 0)
    assert rows_of(table)[:2] == [(1, 3, "a"), (2, 2, "b")]
    other = table.merge(source, "t.id = s.id AND s.n > t.n").when_matched_delete()
    assert counts(other.execute()) == (1, 0, 0)


def test_rows_that_match_but_meet_no_clause_are_not_inserted() -> None:
    table = table_of("vectors")
    builder = table.merge(pa.table({"id": [2, 2, 8], "p": [0, 0, 0]}), "id").when_matched_delete("s.id = 5")
    assert counts(builder.when_not_matched_insert().execute()) == (0, 0, 1)


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on", "says"),
    [
        ("t.id > s.id", "join by at least one equality"),
        ("t.id = s.id OR t.n = s.n", "join by at least one equality"),
        ("t.id = 3", "join by at least one equality"),
        ([], "joins nothing"),
        ([3], "joins nothing"),
        ("nothing", "no column 'nothing'"),
        ("name", "the source has no column 'name' to match by"),
        (["nothing"], "has no column 'nothing' to match by"),
        (["name"], "the source has no column 'name' to match by"),
        (["ID"], "the table has no column 'ID' to match by; did you mean 'id'?"),
        ("t.id = s.text", "cannot be compared"),
        ("t.id =", "found the end"),
    ],
)
def test_conditions_that_join_nothing_are_refused(on: str | list[str], says: str) -> None:
    table = table_of("plain")
    source = pa.table({"id": [1], "n": [1], "text": ["x"]})
    with pytest.raises((InvalidInputError, ColumnNotExistException)) as caught:
        table.merge(source, on).when_matched_delete().execute()
    assert says in str(caught.value)
    assert "d.t" in str(caught.value)


def test_clauses_that_cannot_be_say_which_and_why() -> None:
    table = table_of("plain")
    start = table.merge(pa.table({"id": [1], "n": ["text"], "x": [1]}), "id")
    for builder, says in [
        (start.when_matched_update(), "when_matched_update without assignments .* lacks 'p'"),
        (start.when_matched_update({"n": lw.source_col("n")}), "when_matched_update: .*'n' is BIGINT"),
        (start.when_matched_update({"m": 1}), "when_matched_update: there is no column 'm'"),
        (start.when_matched_update({}), "nothing to assign"),
        (start.when_matched_delete("s.zz = 1"), "the condition of when_matched_delete: .*'zz'"),
        (start.when_not_matched_insert({"n": lw.target_col("n")}), "when_not_matched_insert: "),
        (start.when_not_matched_insert(condition="t.n = 1"), "no row of the target"),
        (start.when_not_matched_by_source_delete("s.x = 1"), "no row of the source"),
        (start.when_not_matched_by_source_update({"n": lw.source_col("x")}), "the source has no column 'x'"),
    ]:
        with pytest.raises((InvalidInputError, ColumnNotExistException), match=says):
            builder.execute()
    with pytest.raises(InvalidInputError, match="give assignments"):
        start.when_not_matched_by_source_update(None)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="a mapping"):
        start.when_matched_update([("n", 1)])  # type: ignore[arg-type]
    assert snapshots(table) == 1


def test_inserts_need_a_value_for_every_column_that_takes_no_null(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    fields = [
        lw.DataField(0, "id", lw.AtomicType("INT", nullable=False)),
        lw.DataField(1, "n", lw.AtomicType("INT", nullable=False)),
        lw.DataField(2, "with_default", lw.AtomicType("INT", nullable=False), default_value="5"),
    ]
    catalog.create_table("d.t", lw.Schema(fields))
    table = catalog.get_table("d.t")
    lw.write_table(pa.table({"id": [1], "n": [1]}), table)
    with pytest.raises(ColumnNotExistException, match=r"when_not_matched_insert without .* lacks 'n'"):
        table.merge(pa.table({"id": [2]}), "id").when_not_matched_insert().execute()
    with pytest.raises(InvalidInputError, match="gives no value to 'n'"):
        table.merge(pa.table({"id": [2]}), "id").when_not_matched_insert({"id": 3}).execute()
    # A null is only seen in the rows, when the files of the updates are written already.
    builder = table.merge(pa.table({"id": [1, 2], "n": [7, None]}), "id").when_matched_update({"n": 3})
    with pytest.raises(InvalidInputError, match="NOT NULL"):
        builder.when_not_matched_insert().execute()
    assert not stray_files(table.store)
    assert counts(table.upsert(pa.table({"id": [2], "n": [8]}), ["id"])) == (0, 0, 1)
    assert lw.read_table(table).to_pylist()[-1] == {"id": 2, "n": 8, "with_default": 5}


def test_primary_keys_cannot_be_assigned() -> None:
    table = table_of("keyed", ROWS.slice(0, 3))
    with pytest.raises(InvalidInputError, match="'id' cannot be assigned"):
        table.merge(ROWS, "n").when_matched_update({"id": 5}).execute()
    firsts = new_table("keyed", **{"merge-engine": "first-row"})
    lw.write_table(ROWS.slice(0, 3), firsts)
    with pytest.raises(UnsupportedError, match="merge-engine"):
        firsts.merge(ROWS, "id").when_matched_delete().execute()


# ---- upsert ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", APPEND)
def test_the_last_duplicate_of_the_input_wins(kind: str) -> None:
    table = table_of(kind) if not KINDS[kind][0] else table_of(kind, ROWS.slice(0, 3))
    result = table.upsert(pa.table({"id": [2, 7, 2, 7], "p": [0, 0, 0, 0], "n": [1, 2, 3, 4]}), ["id", "p"])
    assert counts(result) == (0, 1, 1)
    assert (2, 3, "b") in rows_of(table)
    assert (7, 4, None) in rows_of(table)
    assert len(rows_of(table)) == (5 if not KINDS[kind][0] else 4)


def test_upserts_by_null_insert() -> None:
    table = table_of("plain")
    assert counts(
        table.upsert(pa.table({"id": [None, None], "n": [1, 2]}, pa.schema({"id": pa.int32(), "n": pa.int64()})), "id")
    ) == (0, 0, 2)
    assert len(rows_of(table)) == 6


def test_upserts_that_only_have_keys_update_nothing() -> None:
    table = table_of("plain")
    assert counts(table.upsert(pa.table({"id": [1, 5]}), ["id"])) == (0, 0, 1)


def test_upserts_of_primary_key_tables_find_rows_by_the_key() -> None:
    table = table_of("keyed", ROWS.slice(0, 3))
    result = table.upsert(pa.table({"id": [2, 2, 6], "p": [0, 0, 0], "n": [1, 2, 3]}))
    assert (counts(result), result.method) == ((0, 1, 1), "row kinds")
    assert rows_of(table) == [(1, 10, "a"), (2, 2, "b"), (3, 30, "c"), (6, 3, None)]
    assert table.upsert(pa.table({"id": [2, 7]}).to_reader(), ["id"]).snapshot_id == 3
    with pytest.raises(InvalidInputError, match="by the primary key"):
        table.upsert(ROWS, ["n"])


def test_upserts_that_cannot_be() -> None:
    table = table_of("plain")
    for data, keys, says in [
        (ROWS, None, "has no primary key: name the columns"),
        (ROWS, [], "has no primary key: name the columns"),
        (ROWS, ["nothing"], "no column 'nothing'"),
        (ROWS.drop_columns(["id"]), ["id"], "the source has no column 'id'"),
        (ROWS.append_column("more", pa.array([1, 2, 3, 4])), ["id"], "no column 'more' to write"),
        (ROWS.append_column("id", pa.array([1, 2, 3, 4])), ["id"], "two columns named 'id'"),
        (7, ["id"], "cannot write a value of the type int"),
    ]:
        with pytest.raises((InvalidInputError, ColumnNotExistException), match=says):
            table.upsert(data, keys)
    assert snapshots(table) == 1


# ---- ids and races ---------------------------------------------------------------------------------------------------


def ids_of(table: lw.FileStoreTable) -> dict[int, int]:
    return {row["id"]: row["_ROW_ID"] for row in lw.read_table(table, columns=["id", "_ROW_ID"]).to_pylist()}


@pytest.mark.parametrize("kind", [kind for kind in APPEND if KINDS[kind][2].items() >= TRACKED.items()])
def test_updated_rows_keep_their_ids(kind: str) -> None:
    table = table_of(kind, ROWS.slice(0, 3))
    before = ids_of(table)
    table.upsert(pa.table({"id": [2, 8], "p": [0, 0], "n": [1, 1]}), ["id", "p"])
    table.merge(pa.table({"id": [3], "p": [1]}), ["id", "p"]).when_matched_update({"n": 5}).execute()
    after = ids_of(table)
    assert {key: after[key] for key in before} == before
    assert after[8] not in before.values()


def test_rows_can_be_joined_by_their_ids() -> None:
    table = table_of("tracked", ROWS.slice(0, 3))
    source = pa.table({"_ROW_ID": [ids_of(table)[2]], "n": [99]})
    builder = table.merge(source, "_ROW_ID").when_matched_update({"n": lw.source_col("n")})
    assert counts(builder.execute()) == (0, 1, 0)
    assert rows_of(table)[1] == (2, 99, "b")


@pytest.fixture
def rivals(monkeypatch: pytest.MonkeyPatch) -> list[tuple[lw.FileStoreTable, pa.Table]]:
    """Return a list of writes that somebody does while a merge decides what to insert."""
    waiting: list[tuple[lw.FileStoreTable, pa.Table]] = []
    decide = ChangePlan.inserts

    def racing(plan: ChangePlan, source: pa.Table, rows: Longs) -> pa.Table | None:
        while waiting:
            table, data = waiting.pop()
            lw.write_table(data, table)
        return decide(plan, source, rows)

    monkeypatch.setattr(ChangePlan, "inserts", racing)
    return waiting


@pytest.mark.parametrize("kind", ["plain", "vectors", "vectors of 64 bits, partitions", "keyed", "keyed, dynamic"])
def test_what_was_absent_and_came_is_not_inserted_twice(
    kind: str, rivals: list[tuple[lw.FileStoreTable, pa.Table]]
) -> None:
    """Somebody inserts the same key between the read and the commit: the merge begins again, and updates it."""
    table = table_of(kind, ROWS.slice(0, 3))
    rivals.append((table, pa.table({"id": [5], "p": [1], "n": [1], "name": ["rival"]})))
    source = pa.table({"id": [5, 6], "p": [1, 1], "n": [100, 100], "name": ["mine", "mine"]})
    builder = table.merge(source, ["id", "p"]).when_matched_update({"n": lw.source_col("n")})
    result = builder.when_not_matched_insert().execute()
    assert (result.attempts, counts(result)) == (2, (0, 1, 1))
    assert {row for row in rows_of(table) if row[0] in {5, 6}} == {(5, 100, "rival"), (6, 100, "mine")}
    assert not stray_files(table.store)


def test_other_partitions_do_not_matter_where_the_keys_name_theirs(
    rivals: list[tuple[lw.FileStoreTable, pa.Table]],
) -> None:
    table = table_of("vectors of 64 bits, partitions", ROWS.slice(0, 3))
    rivals.append((table, pa.table({"id": [5], "p": [2], "n": [1]})))
    assert table.upsert(pa.table({"id": [5], "p": [1], "n": [7]}), ["id", "p"]).attempts == 1
    rivals.append((table, pa.table({"id": [5], "p": [2], "n": [1]})))
    assert table.upsert(pa.table({"id": [6], "p": [1], "n": [7]}), ["id"]).attempts == 2


def test_files_that_cannot_match_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of("vectors", pa.table({"id": [1, 2], "n": [1, 2]}))
    lw.write_table(pa.table({"id": [100, 200], "n": [1, 2]}), table)
    seen = []

    def noting(
        store: TableStore, part: DataSplit, columns: Sequence[str], *, schemas: FileSchemas | None = None
    ) -> Iterator[LocatedRows]:
        seen.append(columns)
        return locate_rows(store, part, columns, schemas=schemas)

    monkeypatch.setattr("lakewright.dml.merge.locate_rows", noting)
    assert counts(table.merge(pa.table({"id": [100]}), "id").when_matched_delete().execute()) == (1, 0, 0)
    assert seen == [("id",)]
    on = "t.id = s.id AND t.n > 1 AND t.id < 50"
    table.merge(pa.table({"id": [100, 1]}), on).when_matched_delete().execute()
    assert seen == [("id",), ("id", "n")]
    table.merge(pa.table({"id": [100]}), "id").when_not_matched_by_source_delete("n = 77").execute()
    assert len(seen) == 4


def test_many_files_in_many_threads() -> None:
    table = new_table("vectors").copy({"lakewright.write-threads": "4"})
    for start in range(0, 60, 10):
        lw.write_table(pa.table({"id": range(start, start + 10), "n": [0] * 10}), table)
    source = pa.table({"id": range(5, 65), "n": [1] * 60})
    builder = table.merge(source, "id").when_matched_update({"n": lw.source_col("n")})
    assert counts(builder.when_not_matched_insert().execute()) == (0, 55, 5)
    assert rows_of(table, "id", "n") == sorted(((n, int(n >= 5)) for n in range(65)), key=repr)


@pytest.mark.parametrize("make", [pl.DataFrame, pa.Table.to_reader], ids=["polars", "reader"])
def test_a_source_without_rows(make: Callable[[pa.Table], lw.FileStoreTable]) -> None:
    table = table_of("plain")
    source = make(pa.table({"id": pa.array([], pa.int32())}))
    builder = table.merge(source, "id").when_matched_delete().when_not_matched_by_source_update({"n": 1}, "id = 1")
    assert counts(builder.execute()) == (0, 1, 0)


def test_rows_of_data_evolution_stay_in_their_partition() -> None:
    table = table_of("evolution, partitions", ROWS.slice(0, 3))
    with pytest.raises((InvalidInputError, UnsupportedError), match="'p'"):
        table.upsert(pa.table({"id": [1], "p": [2]}), ["id"])
    assert snapshots(table) == 1
