"""A key stays in its bucket, and new keys fill buckets in order, whatever the batches look like."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.errors import InvalidInputError
from lakewright.spec.table_options import TableOptions
from lakewright.write import bucket_assignment
from lakewright.write.bucket_assignment import Assigner, BucketLimits, HashArray, KeyHashes, channels_of
from support.effort import examples

INT32 = st.one_of(st.integers(-5, 5), st.integers(-(2**31), 2**31 - 1), st.sampled_from([-(2**31), 2**31 - 1]))
BATCHES = st.lists(st.lists(INT32, max_size=30), max_size=6)


def hashes_of(numbers: Iterable[int]) -> HashArray:
    return np.array(list(numbers), np.int32)


class Model:
    """The rule, hash by hash."""

    def __init__(self, known: dict[int, list[int]], limit: int, assigner: Assigner) -> None:
        self.bucket_of = {h: b for b, hashes in known.items() for h in hashes}
        self.counts = {b: len(hashes) for b, hashes in known.items()}
        self.limit = limit
        self.assigner = assigner

    def assign(self, number: int) -> int:
        if number not in self.bucket_of:
            mine = [b for b in sorted(self.counts) if b % self.assigner.count == self.assigner.number]
            free = [b for b in mine if self.counts[b] < self.limit]
            unused = (b for b in range(self.assigner.number, 10**6, self.assigner.count) if b not in self.counts)
            bucket = free[0] if free else next(unused)
            self.counts[bucket] = self.counts.get(bucket, 0) + 1
            self.bucket_of[number] = bucket
        return self.bucket_of[number]


@given(
    known=st.lists(INT32, unique=True, max_size=20),
    buckets=st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True),
    batches=BATCHES,
    limit=st.integers(1, 7),
    assigner=st.sampled_from([Assigner(), Assigner(0, 2), Assigner(2, 3)]),
)
@settings(max_examples=examples(150))
def test_assigning_whole_batches_is_assigning_hash_by_hash(
    known: list[int], buckets: list[int], batches: list[list[int]], limit: int, assigner: Assigner
) -> None:
    start = {b: known[i :: len(buckets)] for i, b in enumerate(buckets)}
    model = Model(start, limit, assigner)
    keys = KeyHashes({b: hashes_of(hs) for b, hs in start.items()}, BucketLimits(limit, assigner=assigner))
    before = {b: sorted(hs) for b, hs in start.items()}
    for batch in batches:
        mine = [h for h in batch if abs(int(np.fmod(h, assigner.count))) == assigner.number]
        assert keys.assign(hashes_of(mine)).tolist() == [model.assign(h) for h in mine]
    after: dict[int, list[int]] = {}
    for number, bucket in sorted(model.bucket_of.items()):
        after.setdefault(bucket, []).append(number)
    grown = {b: hs for b, hs in after.items() if before.get(b) != hs}
    assert {b: sorted(hs.tolist()) for b, hs in keys.grown_buckets().items()} == grown
    keys.mark_written()
    assert keys.grown_buckets() == {}


def test_hashes_are_found_again_once_many_were_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_assignment, "_OVERLAY_MIN", 10)
    rng = np.random.default_rng(7)
    keys = KeyHashes({}, BucketLimits(100))
    hashes = rng.integers(-(2**31), 2**31, 2000).astype(np.int32)
    first = np.concatenate([keys.assign(part) for part in np.split(hashes, 40)])
    assert np.array_equal(keys.assign(hashes), first)
    assert first.max() == (len(np.unique(hashes)) - 1) // 100
    assert sum(len(part) for part in keys.grown_buckets().values()) == len(np.unique(hashes))


def test_when_no_bucket_may_be_added_the_hash_chooses_among_those_there_are() -> None:
    keys = KeyHashes({}, BucketLimits(2, buckets=3))
    buckets = keys.assign(hashes_of(range(100)))
    assert buckets[:6].tolist() == [0, 0, 1, 1, 2, 2]
    assert set(buckets.tolist()) == {0, 1, 2}
    assert np.array_equal(keys.assign(hashes_of(range(100))), buckets)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_several_assigners_never_share_a_bucket_or_a_key(count: int) -> None:
    hashes = np.random.default_rng(3).integers(-(2**31), 2**31, 1000).astype(np.int32)
    channels = channels_of(-12345, hashes, channels=4, assigners=count)
    start = 12345 % 4
    used: set[int] = set()
    for number in range(count):
        mine = hashes[channels == (start + number) % 4]
        buckets = KeyHashes({}, BucketLimits(50, assigner=Assigner(number, count))).assign(mine)
        assert set((buckets % count).tolist()) == {number}
        assert not used & set(buckets.tolist())
        used |= set(buckets.tolist())
    assert set(channels.tolist()) == {(start + number) % 4 for number in range(count)}


def test_keys_of_another_assigner_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="assigner 1 of 2 got keys of another"):
        KeyHashes({}, BucketLimits(5, assigner=Assigner(1, 2))).assign(hashes_of([3, 4]))


def test_every_assigner_needs_a_bucket() -> None:
    options = TableOptions.from_dict({"dynamic-bucket.max-buckets": "2"})
    assert BucketLimits.of_options(options, Assigner(1, 2)).buckets == 2
    with pytest.raises(InvalidInputError, match="no assigner 2 of 3"):
        BucketLimits.of_options(options, Assigner(2, 3))
