from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.lsm import merge_rows
from lakewright.lsm.key_groups import KeyGroups
from lakewright.lsm.merge_rows import MergeRules, drop_retracts, merge_order
from lakewright.spec.merge_engine import MergeEngine
from lakewright.spec.system_columns import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from lakewright.spec.table_options import KNOWN_OPTIONS
from support.effort import examples
from support.merging import Row, is_retract, keyed_of, reference_fold, rows_of, schema_of, spec_of

COLUMNS = {"k": "STRING", "l": "INT", "s": "BIGINT", "t": "STRING", "v": "INT"}
_LOOKUP = [{"changelog-producer": "lookup"}, {"deletion-vectors.enabled": "true"}, {"force-lookup": "true"}]


def rows_with(kinds: list[int]) -> st.SearchStrategy[list[Row]]:
    """Return rows of few keys; `v` numbers them."""
    row = st.fixed_dictionaries(
        {
            "_SEQUENCE_NUMBER": st.integers(0, 6),
            "_VALUE_KIND": st.sampled_from(kinds),
            "_LEVEL": st.sampled_from([0, 0, 1, 2, 5]),
            "k": st.sampled_from(["", "a", "ab", "a key of more than one word", None]),
            "l": st.sampled_from([-1, 0, None]),
            "s": st.sampled_from([None, -(2**63), 0, 1, 2**63 - 1]),
            "t": st.sampled_from([None, "", "x", "xy"]),
        }
    )
    return st.lists(row, max_size=40).map(lambda rows: [{**r, "v": number} for number, r in enumerate(rows)])


any_rows = rows_with([INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE])
sequences = st.sampled_from(
    [
        {},
        {"sequence.field": "s"},
        {"sequence.field": "s,t"},
        {"sequence.field": "t", "sequence.field.sort-order": "descending"},
        {"sequence.field": "t,s", "sequence.field.sort-order": "descending"},
    ]
)


def _distinct(rows: list[Row]) -> list[Row]:
    """Give rows that nothing else tells apart other sequence numbers; equal ones have no order."""
    return [{**row, "_SEQUENCE_NUMBER": 100 * int(str(row["_SEQUENCE_NUMBER"])) + n} for n, row in enumerate(rows)]


def _check(rows: list[Row], spec: MergeRules, *, level: bool) -> None:
    if not level:
        rows = [{name: value for name, value in row.items() if name != "_LEVEL"} for row in rows]
    folded = spec.fold(keyed_of(rows, spec.schema, level=level))
    assert rows_of(folded, spec.schema) == reference_fold(rows, spec)
    assert folded.column_names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", *COLUMNS]


@given(any_rows, sequences, st.booleans(), st.sampled_from([("k",), ("k", "l"), ("l",)]))
@settings(max_examples=examples(300))
def test_deduplicating_is_as_the_reference(
    rows: list[Row], sequence: dict[str, str], ignore: bool, key: tuple[str, ...]
) -> None:
    options = {**sequence, "ignore-delete": str(ignore).lower()}
    _check(_distinct(rows), spec_of(COLUMNS, key, options), level=False)


@given(any_rows, sequences)
@settings(max_examples=examples(100))
def test_rows_that_tie_keep_the_order_they_came_in(rows: list[Row], sequence: dict[str, str]) -> None:
    _check(rows, spec_of(COLUMNS, ("k",), sequence), level=False)


@given(rows_with([INSERT, UPDATE_AFTER]), st.booleans())
@settings(max_examples=examples(100))
def test_keeping_first_rows_is_as_the_reference(rows: list[Row], ignore: bool) -> None:
    options = {"merge-engine": "first-row", "ignore-delete": str(ignore).lower()}
    _check(_distinct(rows), spec_of(COLUMNS, ("k",), options), level=False)


@given(any_rows)
@settings(max_examples=examples(150))
def test_first_row_without_its_retracts(rows: list[Row]) -> None:
    spec = spec_of(COLUMNS, ("k",), {"merge-engine": "first-row", "ignore-delete": "true"})
    _check(_distinct(rows), spec, level=False)


@given(any_rows, sequences, st.sampled_from([{}, *_LOOKUP]))
@settings(max_examples=examples(300))
def test_rows_of_deep_levels_are_hidden_where_a_lookup_took_them_in(
    rows: list[Row], sequence: dict[str, str], lookup: dict[str, str]
) -> None:
    spec = spec_of(COLUMNS, ("k", "l"), {**sequence, **lookup})
    assert spec.needs_lookup == bool(lookup)
    _check(_distinct(rows), spec, level=True)


@given(any_rows, sequences, st.integers(0, 40))
@settings(max_examples=examples(100))
def test_folding_in_two_steps_gives_the_same(rows: list[Row], sequence: dict[str, str], cut: int) -> None:
    spec = spec_of(COLUMNS, ("k",), sequence)
    all_rows = keyed_of(_distinct(rows), spec.schema)
    twice = spec.fold(pa.concat_tables([spec.fold(all_rows.slice(0, cut)), all_rows.slice(cut)]))
    assert twice.equals(spec.fold(all_rows))


@pytest.mark.parametrize("options", _LOOKUP)
def test_first_row_tables_need_no_lookup(options: dict[str, str]) -> None:
    schema = schema_of(COLUMNS, options={"merge-engine": "first-row"}).with_options(options)  # others may make it so
    assert not MergeRules.of_schema(schema).needs_lookup


def test_first_row_refuses_retracts_of_keys_that_have_more_rows() -> None:
    spec = spec_of({"k": "INT"}, options={"merge-engine": "first-row"})
    rows = [{"_SEQUENCE_NUMBER": n, "_VALUE_KIND": kind, "k": k} for n, (k, kind) in enumerate([(1, 0), (2, 3)])]
    assert len(spec.fold(keyed_of(rows, spec.schema))) == 2
    rows.append({"_SEQUENCE_NUMBER": 9, "_VALUE_KIND": DELETE, "k": 1})
    with pytest.raises(InvalidInputError, match=r"'db.t'.*'ignore-delete'") as caught:
        spec.fold(keyed_of(rows, spec.schema))
    assert caught.value.table == "db.t"


@given(any_rows)
@settings(max_examples=examples(50))
def test_dropping_retracts_keeps_the_other_rows(rows: list[Row]) -> None:
    schema = schema_of(COLUMNS)
    kept = drop_retracts(keyed_of(rows, schema))
    assert [row["v"] for row in rows_of(kept, schema)] == [row["v"] for row in rows if not is_retract(row)]


def test_rows_that_stay_as_they_are_are_not_copied() -> None:
    spec = spec_of({"k": "INT"})
    rows = [{"_SEQUENCE_NUMBER": n, "_VALUE_KIND": INSERT, "k": n} for n in range(100)]
    table = keyed_of(rows, spec.schema)
    before, after = table.column("k").chunk(0), spec.fold(table).column("k").chunk(0)
    assert before.buffers()[1].address == after.buffers()[1].address
    assert drop_retracts(table) is table


def test_needed_columns_come_in_schema_order() -> None:
    assert spec_of(COLUMNS, ("k",), {"sequence.field": "t,s"}).needed_columns(["v", "l"]) == ("k", "l", "s", "t", "v")
    assert spec_of(COLUMNS, ("l",)).needed_columns([]) == ("l",)


@dataclass(frozen=True)
class _Counter:
    """A merge function that counts: `v` becomes the number of rows of the key."""

    keeps_apart = False

    def merge_apart(self, groups: KeyGroups) -> list[pa.Table]:
        return [self.merge(groups)]

    def needed_columns(self, columns: AbstractSet[str]) -> AbstractSet[str]:
        return {"t"} if "v" in columns else frozenset()

    def check_kinds(self, kinds: AbstractSet[int]) -> None:
        assert kinds <= {0, 1, 2, 3}

    def merge(self, groups: KeyGroups) -> pa.Table:
        assert int((groups.ends - groups.starts).min()) >= 2
        last = groups.rows.take(pa.array(groups.order[groups.ends - 1]))
        at = last.column_names.index("v")
        return last.set_column(at, "v", pa.array((groups.ends - groups.starts).astype(np.int32)))


@given(any_rows)
@settings(max_examples=examples(150))
def test_functions_see_only_keys_of_two_rows_and_more(rows: list[Row]) -> None:
    spec = replace(spec_of(COLUMNS), function=_Counter())
    rows = [{name: value for name, value in row.items() if name != "_LEVEL"} for row in _distinct(rows)]
    counts: dict[object, int] = {}
    for row in rows:
        counts[row["k"]] = counts.get(row["k"], 0) + 1
    expected = [
        {**row, "v": counts[row["k"]] if counts[row["k"]] > 1 else row["v"]}
        for row in reference_fold(rows, spec_of(COLUMNS))
    ]
    assert rows_of(spec.fold(keyed_of(rows, spec.schema)), spec.schema) == expected


def test_every_engine_that_folds_has_a_merge_function_and_known_options() -> None:
    folding = {engine for engine in MergeEngine if not engine.traits.keeps_one_row}
    assert merge_rows.MERGE_FUNCTIONS.keys() == folding
    assert {engine.traits.delete_option for engine in folding} <= {option.key() for option in KNOWN_OPTIONS}


def test_functions_are_made_from_the_schema() -> None:
    schema = schema_of(COLUMNS, options={"merge-engine": "aggregation"})
    with patch.object(merge_rows, "MERGE_FUNCTIONS", {}), pytest.raises(UnsupportedError, match="aggregation"):
        MergeRules.of_schema(schema)
    with patch.object(
        merge_rows,
        "MERGE_FUNCTIONS",
        {MergeEngine.AGGREGATION: merge_rows.FoldingEngine(lambda _: _Counter(), lambda _: None)},
    ):
        spec = MergeRules.of_schema(schema)
    assert spec.needed_columns(["v"]) == ("k", "t", "v")


def test_groups_hold_the_rows_of_a_key_from_the_oldest_to_the_latest() -> None:
    spec = spec_of({"k": "INT", "s": "INT"}, options={"sequence.field": "s"})
    rows = [(1, 5, 9), (2, 0, 1), (1, None, 3), (1, 5, 2)]
    table = keyed_of([{"_SEQUENCE_NUMBER": q, "_VALUE_KIND": 0, "k": k, "s": s} for k, s, q in rows], spec.schema)
    groups = merge_order(table, spec)
    assert [groups.order[a:b].tolist() for a, b in zip(groups.starts, groups.ends, strict=True)] == [[2, 3, 0], [1]]
