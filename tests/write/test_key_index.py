"""A key has one slot, and two keys never share one, not even when their hashes are the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.spec.types import AtomicType, DataField
from lakewright.write import cross_partition
from lakewright.write.cross_partition import KeyIndex
from support.effort import examples

FIELDS = (DataField(0, "d", AtomicType("DOUBLE")), DataField(1, "s", AtomicType("STRING")))
KEYS = st.lists(
    st.tuples(
        st.sampled_from([None, 0.0, -0.0, 1.5, float("inf")]), st.sampled_from([None, "", "a", "b", "ä" * 9, "x" * 30])
    ),
    max_size=12,
    unique_by=repr,
)


def table(keys: Sequence[tuple[float | None, str | None]]) -> pa.Table:
    columns = [[key[n] for key in keys] for n in range(2)]
    return pa.table({"d": pa.array(columns[0], pa.float64()), "s": pa.array(columns[1], pa.string())})


@pytest.fixture(params=[False, True], ids=["hashes", "one hash for all"])
def clash(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_partition, "_RECENT_MIN", 4)
    if request.param:
        monkeypatch.setattr(
            cross_partition, "row_hashes", lambda columns, _types: np.full(len(columns[0]), -7, np.int32)
        )


@pytest.mark.usefixtures("clash")
def test_keys_find_their_slots_again() -> None:
    @given(loaded=KEYS, batches=st.lists(KEYS, max_size=6))
    @settings(max_examples=examples(60))
    def check(
        loaded: list[tuple[float | None, str | None]], batches: list[list[tuple[float | None, str | None]]]
    ) -> None:
        index = KeyIndex(FIELDS)
        index.load(table(loaded))
        model = {repr(key): slot for slot, key in enumerate(loaded)}
        for keys in batches:
            slots = index.slots(table(keys)).tolist()
            assert slots == [model.setdefault(repr(key), len(model)) for key in keys]
        assert len(index) == len(model)

    check()


def test_many_keys_keep_their_places() -> None:
    index = KeyIndex([DataField(0, "k", AtomicType("BIGINT"))])
    keys = np.random.default_rng(5).permutation(200_000)
    slots = [index.slots(pa.table({"k": part})) for part in np.split(keys, 20)]
    assert np.array_equal(np.concatenate(slots), np.arange(200_000))
    assert np.array_equal(index.slots(pa.table({"k": keys[::-1].copy()})), np.arange(200_000)[::-1])
