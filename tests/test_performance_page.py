"""The figures of docs/performance.md are those of the note that holds them, design/0003-speed.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FIGURE = re.compile(r"\d+\.\d+x? \(\d+\.\d+x?\)")


def _rows(page: str) -> dict[str, list[str]]:
    """Return the figures of each line of the first table of a page, by its case."""
    table = (ROOT / page).read_text().split("| --- |", 1)[1].split("\n\n", 1)[0]
    lines = [line for line in table.splitlines() if FIGURE.search(line)]
    return {line.split("|")[1].strip(): FIGURE.findall(line) for line in lines}


SHOWN, MEASURED = _rows("docs/performance.md"), _rows("design/0003-speed.md")


@pytest.mark.parametrize("case", SHOWN)
def test_figures_are_those_of_the_note(case: str) -> None:
    assert SHOWN[case] == MEASURED[case]


def test_enough_is_shown() -> None:
    assert len(SHOWN) >= 7
