"""Which files of an append table are compacted together: the rules alone, without a disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest

from lakewright.compact.compaction_plan import (
    AppendRules,
    AppendUnit,
    BucketFiles,
    pick_any,
    pick_neighbours,
    pick_ranges,
)
from lakewright.spec.manifest import DELETION_VECTORS, EMPTY_ROW, DataFile, DeletionRange, IndexFile
from lakewright.spec.table_options import TableOptions
from support.facts import data_file

TARGET = 1000


def _file(name: str, size: int, first: int = 0, rows: int = 10) -> DataFile:
    file = data_file(f"data-{name}.parquet", rows=rows)
    return replace(file, file_size=size, min_sequence_number=first, max_sequence_number=first + rows - 1)


def _rules(options: Mapping[str, object] = MappingProxyType({}), *, full: bool = False) -> AppendRules:
    wanted = {"target-file-size": f"{TARGET} b", "source.split.open-file-cost": "1 b", **options}
    return AppendRules.of(TableOptions.from_dict({key: str(value) for key, value in wanted.items()}), full=full)


def _bucket(*files: DataFile, deleted: dict[str, int | None] | None = None) -> BucketFiles:
    ranges = tuple(DeletionRange(f"data-{name}.parquet", 1, 9, count) for name, count in (deleted or {}).items())
    index = (IndexFile(DELETION_VECTORS, "index-1", 9, len(ranges), ranges),) if ranges else ()
    return BucketFiles((EMPTY_ROW, 0), -1, files, index)


def _names(bins: list[list[AppendUnit]]) -> list[str]:
    short = [[file.file_name.removeprefix("data-")[0] for unit in units for file in unit.files] for units in bins]
    return ["".join(some) for some in short]


def test_small_files_go_together_once_there_are_enough() -> None:
    files = [_file(name, 100) for name in "abcd"]
    assert pick_any(_rules(), _bucket(*files)) == []
    assert _names(pick_any(_rules(), _bucket(*files, _file("L", 700), _file("e", 699)))) == ["abcde"]
    assert _names(pick_any(_rules(full=True), _bucket(*files[:2], _file("L", 700)))) == ["ab"]
    assert pick_any(_rules(full=True), _bucket(files[0], _file("L", 700))) == []


def test_files_go_together_in_the_order_of_their_rows() -> None:
    files = [_file(name, size) for name, size in zip("abcdefgh", [600, 500, 10, 400, 600, 30, 600, 20], strict=True)]
    rules = _rules({"compaction.min.file-num": 2})
    # a to d make 1510 bytes and e fills the bin.
    assert _names(pick_any(rules, _bucket(*files))) == ["abcde", "fgh"]
    assert _names(pick_any(rules, _bucket(*files[:5], _file("L", 5000), files[5]))) == ["abcde"]
    assert _names(pick_any(rules, _bucket(*files[:5], _file("L", 5000), *files[5:7]))) == ["abcde", "fg"]


def test_opening_a_file_counts_as_bytes_unless_all_is_wanted() -> None:
    files = [_file(name, 1) for name in "abcdefghij"]
    costly = {"source.split.open-file-cost": "500 b", "compaction.min.file-num": 3}
    assert _names(pick_any(_rules(costly), _bucket(*files))) == ["abcd", "efgh"]
    assert _names(pick_any(_rules(costly, full=True), _bucket(*files))) == ["abcdefghij"]


@pytest.mark.parametrize(("count", "picked"), [(2, False), (3, True), (None, True)])
def test_many_deleted_rows_are_a_reason_of_their_own(count: int | None, *, picked: bool) -> None:
    bucket = _bucket(_file("L", 5000), _file("M", 5000), deleted={"L": count})
    assert _names(pick_any(_rules(), bucket)) == (["L"] if picked else [])
    assert _names(pick_any(_rules(full=True), bucket)) == ["L"]
    assert _names(pick_neighbours(_rules(), bucket)) == (
        ["LM"] if picked else []
    )  # their numbers do not tell them apart


def test_a_vector_without_rows_is_no_reason() -> None:
    assert pick_any(_rules(full=True), _bucket(_file("L", 5000), deleted={"L": 0})) == []


def test_a_file_with_rows_enough_is_not_small() -> None:
    files = [_file(name, 10, rows=70) for name in "abc"]
    assert pick_any(_rules({"target-file-row-num": 100}, full=True), _bucket(*files)) == []
    assert _names(pick_any(_rules({"target-file-row-num": 102}, full=True), _bucket(*files))) == ["abc"]


def test_everything_can_be_asked_for() -> None:
    files = [_file("L", 5000, 0), _file("M", 5000, 10), _file("a", 1, 20)]
    rules = _rules({"compaction.force-rewrite-all-files": "true"}, full=True)
    assert _names(pick_any(rules, _bucket(*files))) == ["L", "M", "a"]
    assert _names(pick_neighbours(rules, _bucket(*files))) == ["L", "M", "a"]
    lazy = _rules({"compaction.force-rewrite-all-files": "true"})
    assert pick_any(lazy, _bucket(*files)) == []


def test_neighbours_in_a_bucket_keep_their_order() -> None:
    small = [_file(name, 100, at * 10) for at, name in enumerate("abcde")]
    large = _file("L", 900, 20)
    assert _names(pick_neighbours(_rules(), _bucket(*reversed(small)))) == ["abcde"]
    torn = [*small[:2], large, *small[3:]]
    assert pick_neighbours(_rules(), _bucket(*torn)) == []
    assert _names(pick_neighbours(_rules(full=True), _bucket(*torn))) == ["ab", "de"]
    assert _names(pick_neighbours(_rules(), _bucket(*torn, deleted={"L": 9}))) == ["abLde"]


def test_files_whose_numbers_overlap_stay_together() -> None:
    files = [_file("a", 300, 0), _file("b", 300, 0), _file("c", 300, 5), _file("d", 100, 15), _file("e", 100, 25)]
    assert pick_neighbours(_rules({"compaction.min.file-num": 6}), _bucket(*files)) == []
    assert _names(pick_neighbours(_rules(), _bucket(*files))) == []  # together the first three are not small
    assert _names(pick_neighbours(_rules({"compaction.min.file-num": 3}), _bucket(*files))) == ["abcde"]
    assert _names(pick_neighbours(_rules(full=True), _bucket(*files))) == ["abcde"]
    # Of files of one row each that were written at the same time, a large one must not come before those joined.
    tied = [_file("a", 100, 5, rows=1), _file("b", 100, 5, rows=1), _file("L", 5000, 5, rows=1)]
    assert _names(pick_neighbours(_rules(full=True), _bucket(*tied))) == ["abL"]


def _columns(name: str, size: int, first: int, sequence: int) -> DataFile:
    return replace(_file(name, size), first_row_id=first, min_sequence_number=sequence, max_sequence_number=sequence)


def test_groups_go_together_where_their_ids_touch() -> None:
    files = [_columns("a", 100, 0, 1), _columns("b", 10, 0, 4), _columns("c", 100, 10, 2), _columns("d", 100, 30, 3)]
    assert pick_ranges(_rules(), _bucket(*files)) == []
    assert _names(pick_ranges(_rules({"compaction.min.file-num": 3}), _bucket(*files))) == ["bac"]
    assert _names(pick_ranges(_rules(full=True), _bucket(*reversed(files)))) == ["bac"]
    # Deleted rows stay, so they are no reason; files of which nobody knows the ids are left alone.
    assert pick_ranges(_rules(full=True), _bucket(files[3], _file("x", 1), deleted={"d": 9})) == []


def test_a_large_group_of_many_files_is_put_together() -> None:
    files = [_columns(name, 800, 0, at) for at, name in enumerate("abcde", 1)]
    assert _names(pick_ranges(_rules(), _bucket(*files))) == ["edcba"]
    assert pick_ranges(_rules(), _bucket(*files[1:])) == []
    assert _names(pick_ranges(_rules(full=True), _bucket(*files[3:]))) == ["ed"]


def test_large_values_and_clustered_files_are_left_alone() -> None:
    files = [_file("a", 1), replace(_file("b", 1), file_name="data-b.blob"), replace(_file("c", 1), level=1)]
    assert pick_any(_rules(full=True), _bucket(*files)) == []
