"""The names of pypaimon by which rows are changed work on every kind of table; `tests/interop` asks the peer itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakewright as lw
from lakewright.table.update_builder import BatchTableUpdate

COLUMNS = pa.schema({"k": pa.int64(), "v": pa.int64(), "s": pa.string()})
KINDS = {
    "plain": {},
    "vectors": {"deletion-vectors.enabled": "true"},
    "tracked": {"row-tracking.enabled": "true"},
    "evolving": {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"},
    "keyed": {"bucket": "1"},
}
Update = Callable[[BatchTableUpdate], list[lw.CommitMessage]]


def _table(tmp_path: Path, kind: str) -> lw.FileStoreTable:
    """Return a table with the keys 0 to 19 in two files; v is ten times k."""
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    keys = ["k"] if kind == "keyed" else None
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, primary_keys=keys, options=KINDS[kind]))
    table = catalog.get_table("d.t")
    for low in (0, 10):
        k = np.arange(low, low + 10)
        lw.write_table(pa.table({"k": k, "v": 10 * k, "s": [str(n) for n in k]}), table)
    return table


def _values(table: lw.FileStoreTable) -> dict[int, int]:
    read = lw.read_table(table)
    return dict(zip(read["k"].to_pylist(), read["v"].to_pylist(), strict=True))


def _commit(table: lw.FileStoreTable, work: Update) -> list[lw.CommitMessage]:
    builder = table.new_batch_write_builder()
    messages = work(builder.new_update())
    with builder.new_commit() as commit:
        commit.commit(messages)
    return messages


@pytest.mark.parametrize("kind", KINDS)
def test_the_names_work_on_every_kind_of_table(tmp_path: Path, kind: str) -> None:
    table = _table(tmp_path, kind)
    want = {k: 10 * k for k in range(20)}
    _commit(table, lambda u: u.delete_by_predicate(u.new_predicate_builder().less_than("k", 3)))
    want = {k: v for k, v in want.items() if k >= 3}
    _commit(table, lambda u: u.update_by_predicate("k >= 17", {"v": 5}))
    want |= {17: 5, 18: 5, 19: 5}
    _commit(table, lambda u: u.update_by_predicate("k = 4", {"v": lambda rows: pc.negate(rows["v"])}, ["v"]))
    want[4] = -40
    new = pa.table({"k": [5, 40], "v": [50, 400], "s": ["u", "u"]})
    _commit(table, lambda u: u.upsert_by_arrow_with_key(new, ["k"]))
    want |= {5: 50, 40: 400}
    source = pa.table({"k": [6, 7, 41], "v": [1, 2, 3], "s": ["m", "m", "m"]})
    clauses = [lw.WhenMatched.delete("s.v > 1"), lw.WhenMatched.update({"v": "s.v"})]
    _commit(
        table,
        lambda u: u.merge_into(
            source, on="k", when_matched=clauses, when_not_matched=[lw.WhenNotMatched("*", "s.k > 0")]
        ),
    )
    want |= {6: 1, 41: 3}
    del want[7]
    assert _values(table) == want
    snapshot = table.snapshot()
    assert snapshot is not None
    _commit(table, lambda u: u.delete_by_predicate("k = 1000"))
    assert table.snapshot() == snapshot  # nothing to change, no snapshot


def test_messages_that_were_overtaken_are_a_conflict(tmp_path: Path) -> None:
    table = _table(tmp_path, "evolving")
    builder = table.new_batch_write_builder()
    messages = builder.new_update().update_by_predicate("k = 4", {"v": 1})
    table.update({"v": 2}, "k = 5")  # another row of the same file, and the same column
    with builder.new_commit() as commit, pytest.raises(lw.CommitConflictError):
        commit.commit(messages)
    assert _values(table)[4] == 40


def test_two_changes_of_one_column_of_a_group_are_not_committed_at_once(tmp_path: Path) -> None:
    table = _table(tmp_path, "evolving")
    builder = table.new_batch_write_builder()
    update = builder.new_update()
    one, two = (update.update_by_predicate(f"k = {k}", {"v": -1}) for k in (4, 5))
    other = update.update_by_predicate("k = 5", {"s": "beside"})
    with builder.new_commit() as commit, pytest.raises(lw.CommitConflictError, match="two changes of one column"):
        commit.commit([*one, *two])
    with builder.new_commit() as commit:
        commit.commit([*one, *other])
    assert lw.read_table(table, filter="k IN (4, 5)").to_pylist() == [
        {"k": 4, "v": -1, "s": "4"},
        {"k": 5, "v": 50, "s": "beside"},
    ]


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_shards_give_every_live_row_its_own_value(tmp_path: Path, chunk: int) -> None:
    table = _table(tmp_path, "evolving")
    table.delete("k IN (2, 3, 12)")
    builder = table.new_batch_write_builder()
    update = builder.new_update().with_read_projection(["k", "v"]).with_update_type(["v"])
    messages = []
    for updator in [update.new_shard_updator(shard, 3) for shard in range(3)]:
        rows = updator.arrow_reader().read_all()
        for start in range(0, rows.num_rows, chunk):
            some = rows.slice(start, chunk)
            updator.update_by_arrow_batch(pa.table({"v": pc.add(some["v"], some["k"]), "other": some["k"]}))
        messages += updator.prepare_commit()
    with builder.new_commit() as commit:
        commit.commit(messages)
    assert _values(table) == {k: 11 * k for k in range(20) if k not in {2, 3, 12}}


def test_shards_refuse_too_few_and_too_many_values(tmp_path: Path) -> None:
    table = _table(tmp_path, "evolving")
    update = table.new_batch_write_builder().new_update().with_update_type(["v"])
    updator = update.new_shard_updator(0, 1)
    rows = updator.arrow_reader().read_all()
    updator.update_by_arrow_batch(rows.slice(0, 15).select(["v"]))
    with pytest.raises(lw.InvalidInputError, match="5 rows of those that were read got no values"):
        updator.prepare_commit()
    with pytest.raises(lw.InvalidInputError, match="5 values came for no row that was read"):
        updator.update_by_arrow_batch(rows.slice(0, 10).select(["v"]))
    updator.close()
    with pytest.raises(lw.InvalidInputError, match="lack the column 'v'"):
        update.new_shard_updator(0, 1).update_by_arrow_batch(rows.select(["k"]))
    with pytest.raises(lw.InvalidInputError, match="shard 2 of 2"):
        update.new_shard_updator(2, 2)
    assert _values(table) == {k: 10 * k for k in range(20)}
    assert len(list(Path(table.table_path).rglob("data-*"))) == 2  # what was written for the share is gone


def test_a_share_that_was_only_read_changes_nothing(tmp_path: Path) -> None:
    table = _table(tmp_path, "evolving")
    updator = table.new_batch_write_builder().new_update().with_update_type(["v"]).new_shard_updator(0, 1)
    assert updator.arrow_reader().read_all().num_rows == 20
    assert updator.prepare_commit() == []


@pytest.mark.parametrize("kind", ["plain", "vectors", "tracked", "keyed"])
def test_only_column_files_are_updated_in_shares(tmp_path: Path, kind: str) -> None:
    with pytest.raises(lw.UnsupportedError, match="update_by_predicate"):
        _table(tmp_path, kind).new_batch_write_builder().new_update().new_shard_updator(0, 1)


def test_messages_travel_as_bytes(tmp_path: Path) -> None:
    table = _table(tmp_path, "evolving")
    builder = table.new_batch_write_builder()
    messages = builder.new_update().delete_by_row_id([3, 15])
    copies = [lw.CommitMessage.deserialize(message.serialize()) for message in messages]
    with builder.new_commit() as commit:
        commit.commit(copies)
    assert sorted(_values(table)) == [k for k in range(20) if k not in {3, 15}]


def test_shares_are_balanced(tmp_path: Path) -> None:
    table = _table(tmp_path, "evolving")
    builder = table.new_batch_write_builder()
    builder.new_commit().truncate_table()
    for rows in (10, 11):
        lw.write_table(pa.table({"k": range(rows), "v": range(rows)}), table)
    update = builder.new_update().with_read_projection(["k"])
    for count, wanted in ((1, [21]), (2, [10, 11]), (3, [10, 11, 0])):
        shares = [update.new_shard_updator(n, count).arrow_reader().read_all().num_rows for n in range(count)]
        assert shares == wanted
    scan = table.new_read_builder().new_scan
    rows_of = [sum(s.row_count for s in scan().with_shard(n, 2).plan().splits()) for n in range(2)]
    assert rows_of == [11, 10]


@pytest.mark.parametrize("kind", ["plain", "vectors", "tracked", "evolving"])
def test_an_array_has_one_value_for_each_matched_row_in_the_order_of_a_read(tmp_path: Path, kind: str) -> None:
    table = _table(tmp_path, kind)
    _commit(table, lambda u: u.delete_by_predicate("k = 8"))
    where = "k >= 7 AND k <= 12"
    read = lw.read_table(table, filter=where)["k"].to_pylist()
    values = pa.array([1000 + n for n in range(len(read))], pa.int64())
    names = pa.chunked_array([[f"n{k}" for k in read[:2]], [f"n{k}" for k in read[2:]]])
    _commit(table, lambda u: u.update_by_predicate(where, {"v": values, "s": names}))
    want = {k: 10 * k for k in range(20) if k != 8} | {k: 1000 + at for at, k in enumerate(read)}
    assert _values(table) == want
    assert lw.read_table(table, filter=where, columns=["s"])["s"].to_pylist() == [f"n{k}" for k in read]


def test_an_array_of_another_length_changes_nothing_and_leaves_no_file(tmp_path: Path) -> None:
    table = _table(tmp_path, "evolving")
    before = sorted(tmp_path.rglob("*"))
    update = table.new_batch_write_builder().new_update()
    with pytest.raises(lw.InvalidInputError, match=r"'v' has the length 2, and 3 rows matched"):
        update.update_by_predicate("k >= 9 AND k <= 11", {"v": pa.array([1, 2])})
    assert sorted(tmp_path.rglob("*")) == before
    assert update.update_by_predicate("k = 99", {"v": pa.array([1, 2])}) == []


def test_arrays_are_refused_where_rows_have_no_order_or_the_change_is_made_again(tmp_path: Path) -> None:
    keyed = _table(tmp_path / "keyed", "keyed")
    with pytest.raises(lw.UnsupportedError, match="no order that an array of values could follow"):
        keyed.new_batch_write_builder().new_update().update_by_predicate("k = 1", {"v": pa.array([1])})
    plain = _table(tmp_path / "plain", "plain")
    with pytest.raises(lw.InvalidInputError, match="'v'"):
        plain.update({"v": pa.array([1])}, "k = 1")
