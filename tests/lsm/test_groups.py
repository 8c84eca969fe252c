from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.lsm import key_groups as module
from lakewright.lsm.key_groups import KeyGroups, take_sorted_rows
from support.effort import examples


@given(
    st.lists(st.lists(st.text(max_size=3) | st.none(), max_size=8), min_size=1, max_size=5),
    st.sampled_from([1, 50, 1 << 30]),
    st.data(),
)
@settings(max_examples=examples(200))
def test_rows_are_taken_from_any_chunks(chunks: list[list[str | None]], limit: int, data: st.DataObject) -> None:
    texts = pa.chunked_array(chunks, pa.string())
    table = pa.table({"n": list(range(len(texts))), "t": texts})
    positions = data.draw(st.permutations(range(len(table))))[: data.draw(st.integers(0, len(table)))]
    with patch.object(module, "_TAKE_BYTES_MAX", limit):
        taken = take_sorted_rows(table, np.array(positions, np.int64))
    assert taken.column("n").to_pylist() == positions
    assert taken.column("t").to_pylist() == [texts[n].as_py() for n in positions]


def test_rows_that_follow_each_other_are_not_copied() -> None:
    table = pa.table({"n": list(range(100))})
    taken = take_sorted_rows(table, np.arange(20, 90))
    assert taken.column("n").chunk(0).buffers()[1].address == table.column("n").chunk(0).buffers()[1].address
    assert take_sorted_rows(table, np.array([0, 2, 1, 3])).column("n").to_pylist() == [0, 2, 1, 3]


@pytest.mark.parametrize("rows_max", [1, 3, 10, 1000])
def test_parts_cut_no_key(rows_max: int) -> None:
    sizes = np.array([1, 4, 1, 1, 2, 7, 1])
    ends = np.cumsum(sizes)
    rows = pa.table({"n": list(range(17))})
    whole = KeyGroups(rows, np.arange(17)[::-1].copy(), ends - sizes, ends)
    parts = [part.gather_rows() for part in whole.parts(rows_max)]
    assert np.concatenate([part.ends - part.starts for part in parts]).tolist() == sizes.tolist()
    assert [n for part in parts for n in part.rows.column("n").to_pylist()] == list(range(16, -1, -1))
    assert len(parts) == 1 or max(len(part.order) for part in parts) < rows_max + 7
