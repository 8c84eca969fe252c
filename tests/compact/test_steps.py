"""Which files of a task are moved and which are merged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakewright.compact.compaction_plan import CompactTask
from lakewright.compact.keyed_compaction import MergeStep, MoveStep, RewriteOptions, Step, plan_steps
from lakewright.lsm.key_order import KeyOrder
from lakewright.spec.binary_row import encode_row
from lakewright.spec.manifest import EMPTY_ROW, DataFile
from lakewright.spec.option_values import ChangelogProducer
from lakewright.spec.types import AtomicType, DataField
from support.facts import data_file

KEY = KeyOrder([DataField(0, "k", AtomicType("INT", nullable=False))])
PLAIN = RewriteOptions(
    looks_up=False,
    vectors=False,
    producer=ChangelogProducer.NONE,
    first_row=False,
    last_wins=True,
    folds_alone=False,
    file_format="parquet",
    file_bytes_min=100,
)
LOOKUP = replace(PLAIN, looks_up=True)


def _file(
    low: int, high: int, *, size: int = 100, level: int = 0, deletes: int | None = 0, end: str = "parquet"
) -> DataFile:
    bounds = [encode_row([k], [field.type for field in KEY.fields]) for k in (low, high)]
    return replace(
        data_file(f"data-{low}-{high}-{level}.{end}", level=level),
        file_size=size,
        min_key=bounds[0],
        max_key=bounds[1],
        delete_row_count=deletes,
    )


def _task(*files: DataFile, deeper: tuple[DataFile, ...] = (), drops: bool = True, all_: bool = False) -> CompactTask:
    return CompactTask(EMPTY_ROW, 0, 1, 1, files, (), deeper, 5, 5, drops, all_)


def _names(steps: list[Step]) -> list[object]:
    return [
        step.file.file_name if isinstance(step, MoveStep) else [[f.file_name for f in run] for run in step.runs]
        for step in steps
    ]


SMALL, LARGE = _file(1, 2, size=99), _file(1, 2)


@pytest.mark.parametrize(
    ("file", "moves"),
    [(LARGE, True), (SMALL, True), (_file(1, 2, deletes=1), False), (_file(1, 2, deletes=None), False)],
)
def test_a_lone_file_moves_unless_its_rows_delete(file: DataFile, moves: bool) -> None:
    (step,) = plan_steps(_task(file), PLAIN, KEY, frozenset())
    assert isinstance(step, MoveStep) == moves
    (step,) = plan_steps(_task(file, drops=False), PLAIN, KEY, frozenset())
    assert isinstance(step, MoveStep)
    (step,) = plan_steps(_task(file, all_=True), PLAIN, KEY, frozenset())
    assert isinstance(step, MergeStep)
    (step,) = plan_steps(_task(file), PLAIN, KEY, frozenset({file.file_name}))
    assert isinstance(step, MergeStep)


def test_small_neighbours_are_merged_and_large_files_part_them() -> None:
    a, b, c, d = _file(1, 5, size=9), _file(6, 8, size=9), _file(20, 30, size=100), _file(40, 41, size=9)
    assert _names(plan_steps(_task(d, c, b, a), PLAIN, KEY, frozenset())) == [
        [[a.file_name, b.file_name]],
        c.file_name,
        d.file_name,
    ]


def test_sections_are_stacked_into_runs_that_rise() -> None:
    a, b = _file(1, 5), _file(3, 9, level=1)
    c, d, e = _file(20, 25), _file(20, 22, level=1), _file(21, 30, level=2)
    steps = plan_steps(_task(a, b, c, d, e), PLAIN, KEY, frozenset())
    assert _names(steps) == [[[a.file_name, d.file_name], [b.file_name, c.file_name], [e.file_name]]]


def test_lookup_moves_level_0_only_where_nothing_is_to_be_merged() -> None:
    fresh, below = _file(1, 5), _file(4, 9, level=5)
    away = _file(6, 9, level=5)
    asked = _task(fresh, deeper=(below,))
    assert isinstance(plan_steps(asked, LOOKUP, KEY, frozenset())[0], MoveStep)
    folds = replace(LOOKUP, last_wins=False)
    assert isinstance(plan_steps(asked, folds, KEY, frozenset())[0], MergeStep)
    assert isinstance(plan_steps(_task(fresh, deeper=(away,)), folds, KEY, frozenset())[0], MoveStep)
    other_format = _file(1, 5, end="avro")
    assert isinstance(plan_steps(_task(other_format), LOOKUP, KEY, frozenset())[0], MergeStep)
    assert isinstance(plan_steps(_task(other_format), PLAIN, KEY, frozenset())[0], MoveStep)
    deeper_level = _file(1, 5, level=2, end="avro")
    assert isinstance(plan_steps(_task(deeper_level), LOOKUP, KEY, frozenset())[0], MoveStep)


def test_a_changelog_is_told_where_rows_are_new() -> None:
    lookup = replace(LOOKUP, producer=ChangelogProducer.LOOKUP)
    full = replace(PLAIN, producer=ChangelogProducer.FULL_COMPACTION)
    task = _task(_file(1, 2))
    fresh, old, middle = _file(1, 2), _file(1, 2, level=5), _file(1, 2, level=3)
    assert lookup.writes_changelog([fresh, old], task)
    assert not lookup.writes_changelog([middle, old], task)
    assert full.writes_changelog([middle], task)
    assert not full.writes_changelog([old], task)
    assert not full.writes_changelog([fresh], replace(task, output_level=4))
    assert not PLAIN.writes_changelog([fresh], task)
    assert not PLAIN.needs_deeper()
    assert not LOOKUP.needs_deeper()
    assert lookup.needs_deeper()
    assert replace(LOOKUP, vectors=True).needs_deeper()
