"""Which runs are compacted, and into which level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.compact.compaction_plan import PickedFiles, pick, pick_full
from lakewright.lsm.sorted_runs import SortedRun, runs_of
from lakewright.spec.manifest import COMPACT, EMPTY_ROW, EMPTY_STATS, DataFile
from lakewright.spec.table_options import TableOptions

Shape = Sequence[tuple[int, int]]  # level and size of each run


def _file(name: str, level: int, size: int, *, deletes: int | None = 0, created: int = 0) -> DataFile:
    return DataFile(
        file_name=name,
        file_size=size,
        row_count=1,
        min_key=EMPTY_ROW,
        max_key=EMPTY_ROW,
        key_stats=EMPTY_STATS,
        value_stats=EMPTY_STATS,
        min_sequence_number=0,
        max_sequence_number=0,
        schema_id=0,
        level=level,
        extra_files=(),
        creation_time=created,
        delete_row_count=deletes,
        embedded_file_index=None,
        file_source=COMPACT,
        value_stats_cols=None,
        external_path=None,
        first_row_id=None,
        write_cols=None,
    )


def _runs(shape: Shape) -> list[SortedRun]:
    return [SortedRun(level, (_file(f"f{n}", level, size),)) for n, (level, size) in enumerate(shape)]


def _picked(shape: Shape, options: Mapping[str, str] | None = None, max_level: int = 5) -> tuple[int, int] | None:
    """Return how many runs are picked, and the output level."""
    unit = pick(_runs(shape), TableOptions(options or {}), max_level=max_level)
    if unit is None:
        return None
    assert [f.file_name for f in unit.files] == [f"f{n}" for n in range(len(unit.files))]
    return len(unit.files), unit.output_level


LOOKUP = {"changelog-producer": "lookup"}
VECTORS = {"deletion-vectors.enabled": "true"}


@pytest.mark.parametrize(
    ("shape", "options", "picked"),
    [
        # Fewer runs than the trigger rest.
        ([], {}, None),
        ([(0, 1)], {}, None),
        ([(0, 1)] * 4, {}, None),
        ([(0, 1), (0, 1), (5, 100)], {}, None),
        # Five small files of level 0 become one of level 5.
        ([(0, 10)] * 5, {}, (5, 5)),
        # Size amplification: what is above outweighs the oldest run twice.
        ([(0, 1), (0, 1), (0, 1), (0, 198), (5, 100)], {}, (5, 5)),
        ([(0, 1), (0, 1), (0, 1), (0, 1), (5, 100)], {}, (4, 4)),
        ([(0, 10)] * 4 + [(5, 100)], {"compaction.max-size-amplification-percent": "39"}, (5, 5)),
        # Size ratio: runs are taken while the next one is not larger than all before it.
        ([(0, 10), (0, 10), (0, 20), (3, 41), (5, 1000)], {}, (3, 2)),
        ([(0, 10), (0, 10), (0, 20), (3, 40), (5, 1000)], {}, (4, 4)),
        ([(0, 10), (0, 10), (0, 20), (3, 44), (5, 1000)], {"compaction.size-ratio": "10"}, (4, 4)),
        # Nothing comes out in level 0: level 1 is taken along, and all of level 0.
        ([(0, 10), (0, 10), (0, 100), (1, 1000), (3, 9000)], {}, (4, 2)),
        ([(0, 10), (0, 50), (0, 100), (0, 1000), (1, 9000), (5, 99999)], {}, (5, 1)),
        # Too many runs, none of like size: the youngest are taken so that few enough stay.
        ([(0, 1), (0, 10), (0, 100), (2, 1000), (3, 10000), (5, 100000)], {}, (4, 2)),
        ([(0, 1), (2, 10), (3, 100), (4, 1000), (5, 10000)], {}, None),
        # Tables that look up take level 0 at once: first to the deepest level, later small ones just above it.
        ([(0, 10)], LOOKUP, (1, 5)),
        ([(0, 10)], VECTORS, (1, 5)),
        ([(0, 10)], {"merge-engine": "first-row"}, (1, 5)),
        ([(0, 10)], {"force-lookup": "true"}, (1, 5)),
        ([(0, 10)], {"compaction.force-up-level-0": "true"}, (1, 5)),
        ([(0, 10), (5, 1000)], LOOKUP, (1, 4)),
        ([(0, 10), (0, 10), (4, 30), (5, 1000)], VECTORS, (2, 3)),
        ([(0, 10), (4, 10), (5, 1000)], VECTORS, (2, 4)),
        ([(0, 10), (1, 30), (2, 1000), (5, 9000)], VECTORS, (2, 1)),
        ([(4, 10), (5, 1000)], VECTORS, None),
        # Early compactions.
        ([(0, 1), (5, 90)], {"compaction.total-size-threshold": "100 b"}, (2, 5)),
        ([(0, 1), (5, 99)], {"compaction.total-size-threshold": "100 b"}, None),
        ([(5, 9)], {"compaction.total-size-threshold": "100 b"}, None),
        ([(0, 60), (4, 50), (5, 999)], {"compaction.incremental-size-threshold": "100 b"}, (3, 5)),
        ([(0, 50), (4, 50), (5, 999)], {"compaction.incremental-size-threshold": "100 b"}, None),
    ],
)
def test_runs_are_picked_by_size_and_number(
    shape: Shape, options: Mapping[str, str], picked: tuple[int, int] | None
) -> None:
    assert _picked(shape, options) == picked


def test_the_interval_counts_from_the_last_file_of_the_deepest_level() -> None:
    options = TableOptions({"compaction.optimization-interval": "1 s"})
    runs = runs_of(
        [_file("a", 0, 1, created=9_000), _file("b", 5, 100, created=5_000), _file("c", 5, 1, created=4_000)]
    )
    assert pick(runs, options, max_level=5, now_ms=6_000) is None
    unit = pick(runs, options, max_level=5, now_ms=6_001)
    assert unit is not None
    assert (len(unit.files), unit.output_level) == (3, 5)
    assert pick(runs, options, max_level=5) is None


def test_a_full_compaction_takes_all_runs_to_the_deepest_level() -> None:
    assert pick_full([], max_level=5) is None
    runs = _runs([(0, 1), (4, 1), (5, 1)])
    assert pick_full(runs, max_level=5) == PickedFiles(tuple(f for r in runs for f in r.files), 5)
    assert pick_full(_runs([(4, 1)]), max_level=5) == PickedFiles((_file("f0", 4, 1),), 5)


def test_full_of_the_deepest_level_alone_takes_files_with_deleted_rows() -> None:
    files = [_file("a", 5, 1), _file("b", 5, 1), _file("c", 5, 1, deletes=1), _file("d", 5, 1, deletes=None)]
    runs = runs_of(files)
    assert pick_full(runs_of(files[:2]), max_level=5) is None
    assert pick_full(runs, max_level=5, masked={"b"}) == PickedFiles((files[1], files[2]), 5)
    assert pick_full(runs, max_level=5, rewrite_all=True) == PickedFiles(tuple(files), 5)


def test_what_needs_lookup_and_what_hides_level_0() -> None:
    assert not TableOptions({}).needs_lookup
    assert not TableOptions(LOOKUP).hides_level_0
    assert TableOptions(VECTORS).hides_level_0
    assert not TableOptions({**VECTORS, "deletion-vectors.merge-on-read": "true"}).hides_level_0
    assert TableOptions({"merge-engine": "first-row"}).hides_level_0


@st.composite
def _shapes(draw: st.DrawFn) -> Shape:
    sizes = st.integers(1, 10**6)
    fresh = draw(st.lists(sizes, max_size=9))
    levels = sorted(draw(st.sets(st.integers(1, 5))))
    return [*((0, size) for size in fresh), *((level, draw(sizes)) for level in levels)]


@given(
    shape=_shapes(),
    trigger=st.integers(1, 8),
    options=st.sampled_from([{}, LOOKUP, VECTORS, {"compaction.size-ratio": "50"}]),
)
def test_a_pick_keeps_older_rows_deeper(shape: Shape, trigger: int, options: Mapping[str, str]) -> None:
    given_options = {**options, "num-sorted-run.compaction-trigger": str(trigger), "num-levels": "6"}
    picked = _picked(shape, given_options)
    if picked is None:
        assert len(shape) <= trigger
        assert not TableOptions(given_options).needs_lookup or all(level > 0 for level, _ in shape)
        return
    count, output = picked
    taken, left = shape[:count], shape[count:]
    assert output > 0
    assert all(level <= output for level, _ in taken)
    assert all(level > output for level, _ in left)
    assert left or output == 5
    # What came out is one run, and the bucket does not grow worse.
    assert len(left) + 1 <= max(trigger, len(shape))
