"""Runs and sections: which files of a bucket must be merged together."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.errors import CorruptTableError
from lakewright.lsm.sorted_runs import Section, max_level, runs_of, sections
from lakewright.spec.binary_row import decode_row, encode_row
from lakewright.spec.manifest import EMPTY_ROW, DataFile
from lakewright.spec.table_options import TableOptions
from lakewright.spec.types import AtomicType, Value
from support.facts import data_file

INT = (AtomicType("INT", nullable=False),)


def keyed_file(name: str, low: Value, high: Value, *, level: int = 0, sequence: int = 0, size: int = 10) -> DataFile:
    dtype = INT[0] if isinstance(low, int) else AtomicType("DOUBLE")
    return replace(
        data_file(name),
        min_key=encode_row([low], [dtype]),
        max_key=encode_row([high], [dtype]),
        level=level,
        file_size=size,
        min_sequence_number=sequence,
        max_sequence_number=sequence,
    )


def span(file: DataFile) -> tuple[int, int]:
    (low,), (high,) = decode_row(file.min_key, INT), decode_row(file.max_key, INT)
    assert isinstance(low, int)
    assert isinstance(high, int)
    return low, high


def names(found: list[tuple[DataFile, ...]] | tuple[tuple[DataFile, ...], ...]) -> list[list[str]]:
    return [[file.file_name for file in files] for files in found]


def test_runs_stand_from_youngest_to_oldest() -> None:
    files = [
        keyed_file("deep", 0, 9, level=5),
        keyed_file("old", 0, 9, sequence=3),
        keyed_file("one-a", 0, 4, level=1),
        keyed_file("young", 0, 9, sequence=8),
        keyed_file("one-b", 5, 9, level=1),
    ]
    runs = runs_of(files)
    assert names([run.files for run in runs]) == [["young"], ["old"], ["one-a", "one-b"], ["deep"]]
    assert [run.level for run in runs] == [0, 0, 1, 5]
    assert runs[2].size == 20


def test_fresh_files_with_equal_numbers_have_one_order() -> None:
    first = replace(keyed_file("a", 0, 1, sequence=5), min_sequence_number=1, creation_time=None)
    second = replace(keyed_file("c", 0, 1, sequence=5), min_sequence_number=2, creation_time=7)
    third = replace(keyed_file("b", 0, 1, sequence=5), min_sequence_number=2, creation_time=8)
    fourth = replace(keyed_file("d", 0, 1, sequence=5), min_sequence_number=2, creation_time=8)
    assert names([run.files for run in runs_of([fourth, third, second, first])]) == [["a"], ["c"], ["b"], ["d"]]


def test_sections_are_cut_where_no_key_is_shared() -> None:
    files = [
        keyed_file("d", 7, 9),
        keyed_file("a", 0, 3),
        keyed_file("c", 4, 5, level=2),
        keyed_file("b", 2, 4),
        keyed_file("e", 6, 6),
    ]
    found = sections(files, INT)
    assert [names(section.runs) for section in found] == [[["a", "c"], ["b"]], [["e"]], [["d"]]]
    assert [section.size for section in found] == [30, 10, 10]


def test_equal_bounds_overlap() -> None:
    (section,) = sections([keyed_file("a", 0, 3), keyed_file("b", 3, 5)], INT)
    assert names(section.runs) == [["a"], ["b"]]


def test_bounds_are_ordered_as_keys_not_as_bytes() -> None:
    found = sections([keyed_file("b", 1, 300), keyed_file("a", -5, -1)], INT)
    assert [names(section.runs) for section in found] == [[["a"]], [["b"]]]


def test_floating_point_bounds_follow_the_key_order() -> None:
    nan = float("nan")
    files = [keyed_file("nan", nan, nan), keyed_file("zero", 0.0, 1.0), keyed_file("minus", -1.0, -0.0)]
    found = sections(files, [AtomicType("DOUBLE")])
    assert [names(section.runs) for section in found] == [[["minus"]], [["zero"]], [["nan"]]]


def test_no_files_have_no_sections_and_no_runs() -> None:
    assert sections([], INT) == []
    assert runs_of([]) == []


def test_the_deepest_level_is_that_of_the_options_or_deeper() -> None:
    assert max_level(TableOptions({}), []) == 5
    assert max_level(TableOptions({"num-levels": "3"}), [keyed_file("a", 0, 1, level=1)]) == 2
    assert max_level(TableOptions({"num-levels": "3"}), [keyed_file("a", 0, 1, level=4)]) == 4


def test_ages_are_apart_where_no_two_runs_share_numbers() -> None:
    def section(*numbers: tuple[int, int]) -> Section:
        files = [keyed_file("f", 0, 1)] * len(numbers)
        return Section(
            tuple(
                (replace(file, min_sequence_number=low, max_sequence_number=high),)
                for file, (low, high) in zip(files, numbers, strict=True)
            )
        )

    assert section((5, 9), (0, 4), (10, 10)).ages_are_apart
    assert not section((5, 9), (0, 5)).ages_are_apart
    assert not section((0, 9), (3, 4)).ages_are_apart


def test_damaged_bounds_name_their_file() -> None:
    with pytest.raises(CorruptTableError, match="first or the last key of the data file broken"):
        sections([replace(keyed_file("broken", 0, 1), max_key=EMPTY_ROW)], INT)


ranges = st.lists(
    st.tuples(st.integers(-20, 20), st.integers(0, 8), st.integers(0, 5)).map(lambda r: (r[0], r[0] + r[1], r[2])),
    max_size=14,
)


@given(ranges)
def test_files_of_a_run_never_meet_and_sections_share_no_key(bounds: list[tuple[int, int, int]]) -> None:
    files = [keyed_file(f"f{at}", low, high, level=level) for at, (low, high, level) in enumerate(bounds)]
    found = sections(files, INT)
    assert sorted(file.file_name for section in found for file in section.files) == sorted(f.file_name for f in files)
    spans = []
    for section in found:
        assert all(span(before)[1] < span(after)[0] for run in section.runs for before, after in pairwise(run))
        inside = [span(file) for file in section.files]
        spans.append((min(low for low, _ in inside), max(high for _, high in inside)))
        # As few runs as possible: as many as files that share one key.
        deepest = max(sum(low <= at <= high for low, high in inside) for at, _ in inside)
        assert len(section.runs) == deepest
    assert all(before[1] < after[0] for before, after in pairwise(spans))
