"""How rows before and after become a changelog."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakewright.lsm.changelog import changelog_rows
from lakewright.lsm.key_order import KeyOrder
from lakewright.spec.system_columns import DELETE, INSERT, KIND_NAMES, UPDATE_AFTER
from lakewright.spec.types import AtomicType, DataField

KEY = KeyOrder([DataField(0, "k", AtomicType("INT", nullable=False))])
Row = tuple[int, int, int, str | None]  # sequence number, kind, key, value


def _keyed(rows: list[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [(), (), (), ()]
    types = {"_SEQUENCE_NUMBER": pa.int64(), "_VALUE_KIND": pa.int8(), "k": pa.int32(), "v": pa.string()}
    arrays = [pa.array(column, dtype) for column, dtype in zip(columns, types.values(), strict=True)]
    return pa.table(arrays, names=list(types))


def _rows(table: pa.Table) -> list[Row]:
    return [tuple(row.values()) for row in table.to_pylist()]


def test_every_change_has_its_kind() -> None:
    before = _keyed([(1, INSERT, 1, "a"), (2, INSERT, 2, "b"), (3, DELETE, 3, "c"), (4, INSERT, 4, "d")])
    after = _keyed([(9, UPDATE_AFTER, 1, "x"), (8, DELETE, 2, None), (7, INSERT, 3, "y"), (6, INSERT, 5, "z")])
    assert [
        (KIND_NAMES[kind], seq, k, v)
        for seq, kind, k, v in _rows(changelog_rows(before, after, KEY, deduplicate=False))
    ] == [
        ("-U", 1, 1, "a"),
        ("+U", 9, 1, "x"),
        ("-D", 2, 2, "b"),
        ("+I", 7, 3, "y"),
        ("-D", 4, 4, "d"),
        ("+I", 6, 5, "z"),
    ]


def test_equal_rows_are_left_out_where_asked() -> None:
    before = _keyed([(1, INSERT, 1, "a"), (2, INSERT, 2, None), (3, INSERT, 3, "c")])
    after = _keyed([(9, UPDATE_AFTER, 1, "a"), (8, INSERT, 2, None), (7, INSERT, 3, None)])
    assert [row[2] for row in _rows(changelog_rows(before, after, KEY, deduplicate=True))] == [3, 3]
    assert len(changelog_rows(before, after, KEY, deduplicate=False)) == 6


def test_nothing_changes_nothing() -> None:
    empty = _keyed([])
    assert len(changelog_rows(empty, empty, KEY, deduplicate=True)) == 0
    gone = _keyed([(1, DELETE, 1, None)])
    assert len(changelog_rows(gone, gone, KEY, deduplicate=False)) == 0


values = st.one_of(st.none(), st.sampled_from(["a", "b"]))
sides = st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, 3), values))


@given(old=sides, new=sides, deduplicate=st.booleans())
def test_replaying_the_changes_on_the_old_rows_gives_the_new_ones(
    old: dict[int, tuple[int, str | None]], new: dict[int, tuple[int, str | None]], deduplicate: bool
) -> None:
    before, after = (_keyed([(n, kind, k, v) for n, (k, (kind, v)) in enumerate(side.items())]) for side in (old, new))
    state = {k: v for k, (kind, v) in old.items() if kind in {INSERT, UPDATE_AFTER}}
    for _, kind, k, v in _rows(changelog_rows(before, after, KEY, deduplicate=deduplicate)):
        if kind in {INSERT, UPDATE_AFTER}:
            assert kind == UPDATE_AFTER or k not in state
            state[k] = v
        else:
            assert state.pop(k) == v
    assert state == {k: v for k, (kind, v) in new.items() if kind in {INSERT, UPDATE_AFTER}}
