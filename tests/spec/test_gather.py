"""What is gathered is what Arrow takes, and what is filtered what Arrow filters, whatever the columns look like."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.spec.arrow_take import filter_rows, take_rows

KINDS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_gathers_as_arrow_takes(kind: pa.DataType, data: st.DataObject) -> None:
    length = data.draw(st.integers(0, 9))
    even = st.text(alphabet="abc", min_size=length, max_size=length)
    any_text = st.none() | st.text(alphabet="abc", max_size=5)
    texts = data.draw(st.lists(even if data.draw(st.booleans()) else any_text, min_size=1, max_size=30))
    column = pa.array(texts, pa.string()).cast(kind)
    cut = data.draw(st.integers(0, len(texts)))
    rows = pa.table(
        {"t": pa.chunked_array([column.slice(0, cut), column.slice(cut)]), "n": pa.array(np.arange(len(texts)))}
    )
    rows = rows.slice(data.draw(st.integers(0, len(texts) - 1)))
    positions = np.array(data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=40)), np.int64)

    found = take_rows(rows, positions)

    found.validate(full=True)
    assert found.equals(rows.take(pa.array(positions)))
    assert found.schema == rows.schema


def test_texts_of_one_length_with_one_of_another_length_are_told_apart() -> None:
    # As many bytes as if all were as long as the first.
    rows = pa.table({"t": ["ab", "c", "def", "gh"]})
    assert take_rows(rows, np.array([3, 2, 1, 0])).column("t").to_pylist() == ["gh", "def", "c", "ab"]
    chunks = pa.chunked_array([pa.array(["ab", "cd"]), pa.array([], pa.string()), pa.array(["efg"])])
    assert take_rows(pa.table({"t": chunks}), np.array([2, 0])).column("t").to_pylist() == ["efg", "ab"]


@given(
    st.lists(st.sampled_from([True, True, True, True, True, False, None]), min_size=1, max_size=60), st.integers(0, 5)
)
def test_rows_are_filtered_as_arrow_filters_them(flags: list[bool | None], skipped: int) -> None:
    texts = [None if at % 7 == 3 else "x" * (at % 4) for at in range(len(flags))]
    rows = pa.table(
        {
            "n": list(range(len(flags))),
            "t": texts,
            "l": [[at, None] if at % 3 else None for at in range(len(flags))],
            "s": [{"a": at, "b": text} for at, text in enumerate(texts)],
        }
    ).slice(skipped)
    mask = pa.array(flags, pa.bool_()).slice(skipped)
    kept = sum(flag is True for flag in flags[skipped:])
    assert filter_rows(rows, mask, kept).equals(rows.filter(mask))
    for batch in rows.to_batches():
        assert filter_rows(batch, mask, kept).equals(batch.filter(mask))
    none = rows.select([])
    assert filter_rows(none, mask, kept).num_columns == 0


@pytest.mark.parametrize("kind", KINDS)
def test_filters_texts_of_equal_length_as_arrow_does(kind: pa.DataType) -> None:
    texts = pa.array([f"{number:03d}" for number in range(64)], pa.string()).cast(kind).slice(5)
    batch = pa.record_batch({"t": texts, "n": pa.array(range(59))})
    odd, even = [n % 9 != 0 for n in range(59)], [None if n % 11 == 0 else True for n in range(59)]
    for mask in (pa.array(odd), pa.array(even)):
        kept = filter_rows(batch, mask, mask.true_count)
        kept.validate(full=True)
        assert kept.equals(batch.filter(mask))
