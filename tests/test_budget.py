"""A run of tests with a budget ends in time, in an order that can be repeated, and says what it left out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from support import budget

TESTS = Path(__file__).parent
CONFTEST = """
from support import budget

def pytest_configure(): budget.begin()
def pytest_collection_modifyitems(items): budget.in_order(items)
def pytest_runtest_setup(): budget.skip_if_over()
def pytest_terminal_summary(terminalreporter):
    skipped = terminalreporter.stats.get("skipped", [])
    line = budget.summary(sum(budget.REASON in str(report.longrepr) for report in skipped))
    if line is not None:
        terminalreporter.write_line(line)
"""


def run(folder: Path, *arguments: str, **environment: str) -> str:
    (folder / "conftest.py").write_text(CONFTEST)
    for module in "abcdefgh":
        (folder / f"test_{module}.py").write_text("def test_one(): ...\ndef test_two(): ...\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", *arguments, str(folder)]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("LAKEWRIGHT_BUDGET")}
    made = subprocess.run(
        command,
        env=clean | {"PYTHONPATH": str(TESTS)} | environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return made.stdout


def order_of(output: str) -> list[str]:
    return re.findall(r"test_([a-h])\.py::test_one", output)


@pytest.mark.processes
def test_without_a_budget_nothing_changes(tmp_path: Path) -> None:
    output = run(tmp_path)
    assert order_of(output) == list("abcdefgh")
    assert "16 passed" in output
    assert "budget:" not in output


@pytest.mark.processes
def test_a_budget_that_suffices_runs_everything_in_the_order_of_its_seed(tmp_path: Path) -> None:
    outputs = [run(tmp_path, LAKEWRIGHT_BUDGET_MINUTES="60", LAKEWRIGHT_BUDGET_SEED=seed) for seed in "112"]
    assert all("16 passed" in output for output in outputs)
    first, again, other = map(order_of, outputs)
    assert first == again != other
    assert sorted(first) == list("abcdefgh")
    assert "budget: 60 minutes, LAKEWRIGHT_BUDGET_SEED=1, 0 tests left out" in outputs[0]


@pytest.mark.processes
@pytest.mark.parametrize("processes", [[], ["-n", "2"]], ids=["alone", "xdist"])
def test_a_budget_that_is_used_up_leaves_the_rest_out(tmp_path: Path, processes: list[str]) -> None:
    output = run(tmp_path, *processes, LAKEWRIGHT_BUDGET_MINUTES="0")
    assert "16 skipped" in output
    assert "16 tests left out" in output


def test_the_end_is_fixed_once() -> None:
    with patch.dict(os.environ, {budget.MINUTES: "1", budget.SEED: "3"}):
        os.environ.pop(budget.UNTIL, None)
        budget.begin()
        until = os.environ[budget.UNTIL]
        os.environ[budget.MINUTES] = "100"
        budget.begin()
        assert os.environ[budget.UNTIL] == until
