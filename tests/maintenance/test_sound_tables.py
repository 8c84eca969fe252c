"""Sound tables: those that Java wrote and those of every shape that lakewright writes have no error and no warning."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import lakewright as lw
from lakewright.maintenance.verify_findings import INFO, VerifyResult
from lakewright.maintenance.verify_table import verify_table
from support.effort import thinned
from support.golden import WAREHOUSE, expected
from support.verify_tables import SHAPES, make_table

FAR_MILLIS = 10 * 24 * 60 * 60 * 1000
# What a rollback leaves behind is an orphan, as it should be.
LEFT_BEHIND = {"meta.rollback"}


def _everything(table: lw.FileStoreTable, *, old: bool = True) -> VerifyResult:
    """Verify all rows of all states, and take every file for old enough to be an orphan."""
    now = time.time_ns() // 1_000_000 + (FAR_MILLIS if old else 0)
    return verify_table(table.store, depth="full", states="all", now_millis=now)


def _assert_clean(result: VerifyResult, kinds: frozenset[str] = frozenset()) -> None:
    assert [f for f in result.findings if f.severity != INFO and f.kind not in kinds] == []
    assert result.is_sound


def test_golden_tables_have_no_error_and_no_warning() -> None:
    for name in thinned(sorted(expected())):
        table = lw.open_table(str(WAREHOUSE / f"{name.replace('.', '.db/')}"))
        result = _everything(table)
        _assert_clean(result, frozenset({"orphan"}) if name in LEFT_BEHIND else frozenset())


@pytest.mark.parametrize("shape", thinned(list(SHAPES)))
def test_tables_of_every_shape_have_no_error_and_no_warning(shape: str, tmp_path: Path) -> None:
    table = make_table(tmp_path, shape)
    result = _everything(table)
    _assert_clean(result)
    for depth in ("fast", "footers"):
        _assert_clean(verify_table(table.store, depth=depth, states="all"))
    assert _everything(table, old=False).data_files == result.data_files
