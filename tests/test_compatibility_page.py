"""Every test that docs/compatibility.md names is there, in the folder of the implementation that the line speaks of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "compatibility.md").read_text()
LINES = [
    [cell.strip() for cell in line.strip("| \n").split("|")] for line in PAGE.splitlines() if line.count(" | ") == 4
][2:]
SAYS = {"both", "reads ours", "the same", "the format", "not tried"}


def _tests(folder: str) -> set[str]:
    files = (ROOT / "tests" / "interop" / folder).glob("test_*.py")
    return {name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)}


JAVA, PEERS = _tests("java") | _tests("rest"), _tests(".") | _tests("rest")


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[0])
def test_a_line_names_tests_that_exist(line: list[str]) -> None:
    feature, java, *peers, tests = line
    named = set(re.findall(r"`(test_\w+)`", tests))
    assert {java, *peers} <= SAYS, feature
    assert named - JAVA - PEERS == set(), feature
    assert java in {"not tried", "the format"} or named & JAVA, f"{feature}: no test with Java"
    assert set(peers) == {"not tried"} or named & PEERS, f"{feature}: no test with the Python implementations"


def test_the_versions_are_those_of_the_tests() -> None:
    pinned = (ROOT / "tests" / "interop" / "requirements-peers.txt").read_text()
    for name in ("pypaimon", "pypaimon-rust"):
        version = re.search(rf"^{name}==(.*)$", pinned, re.MULTILINE)
        assert version is not None
        assert f"{name} {version[1]}" in PAGE
    assert "PAIMON_1.4.2" in (ROOT / "Makefile").read_text()
    assert len(LINES) > 15
