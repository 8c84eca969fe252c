from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.errors import CorruptTableError
from lakewright.lsm import sorted_runs as module
from lakewright.lsm.merge_rows import MergeRules
from lakewright.lsm.sorted_runs import merge_runs, windows
from support.effort import examples
from support.merging import Row, keyed_of, reference_fold, rows_of, shown, spec_of

COLUMNS = {"k": "STRING", "l": "DOUBLE", "s": "INT", "v": "INT"}
_KEY = ("k", "l")


@st.composite
def runs_of_rows(draw: st.DrawFn) -> list[list[Row]]:
    """Return runs of rows in key order, each key once in a run; `v` numbers all rows."""
    spec = spec_of(COLUMNS, _KEY)
    row = st.fixed_dictionaries(
        {
            "_VALUE_KIND": st.integers(0, 3),
            "_LEVEL": st.sampled_from([0, 1, 5]),
            "k": st.sampled_from([None, "", "a", "ab", "some text of more than a word"]),
            "l": st.sampled_from([None, float("nan"), -0.0, 0.0, 1.0]),
            "s": st.sampled_from([None, 0, 1, 2]),
        }
    )
    runs = draw(st.lists(st.lists(row, max_size=12), min_size=1, max_size=5))
    number = 0
    out = []
    for rows in runs:
        numbered = [{**r, "_SEQUENCE_NUMBER": number + at, "v": number + at} for at, r in enumerate(rows)]
        number += len(rows)
        out.append(reference_fold(numbered, spec))
    levels = draw(st.lists(st.sampled_from([0, 1, 5]), min_size=len(runs), max_size=len(runs)))
    return [[{**r, "_LEVEL": level} for r in rows] for rows, level in zip(out, levels, strict=True)]


def _chunks(data: st.DataObject, table: pa.Table) -> list[pa.Table]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(table)), max_size=5)))
    return [table.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, len(table)], strict=True)]


@given(
    runs_of_rows(),
    st.sampled_from([{}, {"sequence.field": "s"}, {"force-lookup": "true"}, {"ignore-delete": "true"}]),
    st.sampled_from([0, 200, 2000, 1 << 30]),
    st.data(),
)
@settings(max_examples=examples(300))
def test_windows_give_what_one_fold_gives(
    runs: list[list[Row]], options: dict[str, str], memory: int, data: st.DataObject
) -> None:
    spec = spec_of(COLUMNS, _KEY, options)
    tables = [_chunks(data, keyed_of(rows, spec.schema, level=True)) for rows in runs]
    with (
        patch.object(module, "_PIECE_ROWS", data.draw(st.sampled_from([1, 4, 1 << 14]))),
        patch.object(module, "_FOLD_ROWS", data.draw(st.sampled_from([1, 3, 1 << 18]))),
    ):
        merged = list(merge_runs([iter(run) for run in tables], spec, memory_bytes=memory))
        whole = list(windows(tables, spec, memory_bytes=memory))
    found = [row for table in merged for row in rows_of(table, spec.schema)]
    expected = reference_fold([row for rows in runs for row in rows], spec)
    assert shown(found) == shown(expected)
    assert all("_LEVEL" not in table.column_names and len(table) for table in merged)
    folded = [row for table in whole for row in rows_of(spec.fold(table), spec.schema)]
    assert shown(folded) == shown(expected)
    assert sum(map(len, whole)) == sum(map(len, runs))


def _spec() -> MergeRules:
    return spec_of({"k": "BIGINT", "v": "BIGINT"})


def _rows(keys: Sequence[int], sequence: int = 0) -> pa.Table:
    keyed: list[Row] = [{"_SEQUENCE_NUMBER": sequence, "_VALUE_KIND": 0, "k": k, "v": sequence} for k in keys]
    return keyed_of(keyed, _spec().schema)


@pytest.mark.parametrize(
    "run",
    [
        [_rows([1, 2, 2, 3])],
        [_rows([1, 3, 2])],
        [_rows([1, 2]), _rows([2, 3])],
        [_rows([1, 5]), _rows([]), _rows([4, 6])],
    ],
)
@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("piece", [1, 100])
def test_runs_that_are_not_sorted_are_refused(run: list[pa.Table], others: int, piece: int) -> None:
    runs = [run, *[[_rows([2, 9])]] * others]
    with (
        patch.object(module, "_PIECE_ROWS", piece),
        pytest.raises(CorruptTableError, match=r"'db.t'.*\['k'\]") as caught,
    ):
        list(merge_runs(runs, _spec(), memory_bytes=1))
    assert caught.value.table == "db.t"


class _Watched:
    """A run of many tables that counts what it gave, and whether it was closed."""

    def __init__(self, first: int, tables: int, *, fails_at: int | None = None, step: int = 100) -> None:
        self.given, self.closed = 0, False
        self._first, self._tables, self._fails_at, self._step = first, tables, fails_at, step

    def __iter__(self) -> Iterator[pa.Table]:
        try:
            for number in range(self._tables):
                if number == self._fails_at:
                    raise OSError("the disk is gone")
                low = self._first + number * self._step
                self.given += 1
                yield _rows(range(low, low + self._step), sequence=self._first)
        finally:
            self.closed = True


def test_runs_are_read_as_they_are_needed() -> None:
    runs = [_Watched(0, 50), _Watched(50, 50), _Watched(10**6, 50)]
    size = _rows(range(100)).nbytes
    with patch.object(module, "_PIECE_ROWS", 1):
        merged = merge_runs(runs, _spec(), memory_bytes=20 * size)
        rows = len(next(merged))
        while rows < 1_000:
            rows += len(next(merged))
        assert runs[2].given == 1
        assert runs[0].given + runs[1].given <= 20 + 12
        rows += sum(map(len, merged))
    assert rows == 5_050 + 5_000
    assert all(run.closed for run in runs)


def test_one_table_may_be_larger_than_the_memory() -> None:
    runs = [[_rows(range(0, 3_000, 2), 1)], [_rows(range(0, 3_000, 3), 2)]]
    merged = pa.concat_tables(merge_runs(runs, _spec(), memory_bytes=0))
    assert merged.column("k").to_pylist() == sorted({*range(0, 3_000, 2), *range(0, 3_000, 3)})


def test_all_runs_are_closed_when_one_fails_or_nobody_wants_more() -> None:
    runs = [_Watched(0, 5), _Watched(50, 5, fails_at=2), _Watched(70, 5)]
    with patch.object(module, "_PIECE_ROWS", 1), pytest.raises(OSError, match="disk"):
        list(merge_runs(runs, _spec(), memory_bytes=0))
    assert all(run.closed for run in runs)
    runs = [_Watched(0, 5), _Watched(50, 5), _Watched(70, 5)]
    with patch.object(module, "_PIECE_ROWS", 1):
        merged = merge_runs(runs, _spec(), memory_bytes=0)
        next(merged)
        assert not any(run.closed for run in runs)
        del merged
        gc.collect()
    assert all(run.closed for run in runs)


def test_runs_that_do_not_meet_pass_without_a_merge() -> None:
    runs = [_Watched(0, 5), _Watched(1_000, 5), _Watched(5_000, 5)]
    with patch.object(MergeRules, "fold", side_effect=AssertionError):
        merged = pa.concat_tables(merge_runs(runs, _spec(), memory_bytes=1 << 30))
    keys = merged.column("k").to_numpy()
    assert len(keys) == 1_500
    assert bool(np.all(keys[1:] > keys[:-1]))


def test_no_runs_give_no_rows() -> None:
    assert list(merge_runs([], _spec(), memory_bytes=1)) == []
    assert list(merge_runs([[], [_rows([])]], _spec(), memory_bytes=1)) == []
