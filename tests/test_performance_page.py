"""The figures of docs/performance.md are those of the design note, and its formulas count what a storage sees."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from support.request_model import ARGUMENTS, MODEL

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "performance.md").read_text()
FORMULAS = dict(re.findall(r"^\| ([^|]+) \| `([^`]+)` \|", PAGE.split("## Requests", 1)[1], re.MULTILINE))
_FIGURE = re.compile(r"\d+\.\d+x? \(\d+\.\d+x?\)")
_SYMBOLS = re.compile(r"[A-Z]|\d+|[+* ]")


def _figures(text: str) -> dict[str, list[str]]:
    """Return the figures of each line of the table that compares libraries, by its case."""
    table = text.split("| case | lakewright s (cpu) |", 1)[1].split("\n\n", 1)[0]
    lines = [line for line in table.splitlines() if _FIGURE.search(line)]
    return {line.split("|")[1].strip(): _FIGURE.findall(line) for line in lines}


def test_the_figures_are_those_of_the_design_note() -> None:
    shown, measured = _figures(PAGE), _figures((ROOT / "design" / "0003-speed.md").read_text())
    assert shown == {case: measured[case] for case in shown}
    assert len(shown) >= 7


def test_the_formulas_count_the_requests_that_a_storage_sees() -> None:
    assert FORMULAS.keys() == MODEL.keys()
    wrong = []
    for name, (run, cases) in MODEL.items():
        for values in cases:
            counted = run(**{ARGUMENTS[letter]: value for letter, value in values.items()})
            if _evaluate(FORMULAS[name], values) != counted:
                wrong.append(f"{name}: {FORMULAS[name]} with {values}, but the storage saw {counted} requests")
    assert wrong == []


def _evaluate(formula: str, values: dict[str, int]) -> int:
    """Return the value of a sum of products such as `12 + 2 * F`."""
    assert "".join(_SYMBOLS.findall(formula)) == formula
    numbers = re.sub(r"[A-Z]", lambda letter: str(values[letter[0]]), formula)
    return sum(_product(term) for term in numbers.split("+"))


def _product(term: str) -> int:
    product = 1
    for factor in term.split("*"):
        product *= int(ast.literal_eval(factor.strip()))
    return product
