"""Changes by SQL leave the rows that they leave in Delta Lake, after every statement.

A failing script is printed whole. `LAKEWRIGHT_DML_SEEDS` says how many random scripts run, `LAKEWRIGHT_DML_FIRST` with
which seed they begin, and `LAKEWRIGHT_DML_SHRINK=1` leaves out what a failing script does not need.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.delta_peer import DifferenceError, Script, Templates, compare, delta_session, shrunk
from support.dml_cases import CASES, FILL
from support.dml_scripts import KINDS, Kind, script

# PySpark before 4.2 leaves the socket of a frame's rows to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

SEEDS = int(os.environ.get("LAKEWRIGHT_DML_SEEDS", "18"))
FIRST = int(os.environ.get("LAKEWRIGHT_DML_FIRST", "0"))
SHRINK = os.environ.get("LAKEWRIGHT_DML_SHRINK") == "1"

_APPEND = [kind for kind in KINDS.values() if not kind.keys and not kind.partitions]
_PARTED = [kind for kind in KINDS.values() if not kind.keys and kind.partitions]
_KEYED = [kind for kind in KINDS.values() if kind.keys and not kind.partitions]


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Templates]:
    with delta_session(tmp_path_factory.mktemp("home")) as spark:
        yield Templates(spark, tmp_path_factory.mktemp("templates"), FILL)


@pytest.mark.parametrize("name", CASES)
def test_a_hard_case_leaves_the_rows_of_delta(name: str, templates: Templates, tmp_path: Path) -> None:
    case = CASES[name]
    made = Script(case.statements, _kinds_of(name), filled=case.filled)
    compare(templates, tmp_path, made)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_a_random_script_leaves_the_rows_of_delta(seed: int, templates: Templates, tmp_path: Path) -> None:
    kind = list(KINDS.values())[seed % len(KINDS)]
    made = Script(script(seed, kind), [kind])
    try:
        compare(templates, tmp_path / "all", made)
    except DifferenceError:
        if SHRINK:
            compare(templates, tmp_path / "least", shrunk(templates, tmp_path / "shrunk", made))
        raise


def _kinds_of(name: str) -> list[Kind]:
    """Return the kinds of table on which a case runs: in turn, so that each kind meets cases of every sort."""
    case, at = CASES[name], list(CASES).index(name)
    if case.partitioned:
        return [_PARTED[at % len(_PARTED)]]
    kinds = [(_APPEND + _PARTED)[at % len(_APPEND + _PARTED)]]
    return [*kinds, _KEYED[at % len(_KEYED)]] if case.keyed else kinds
