"""The formulas of docs/scale.md count what a storage sees: when one of them fails, correct the page."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from support.request_model import ARGUMENTS, MODEL

PAGE = (Path(__file__).parent.parent / "docs" / "scale.md").read_text()
FORMULAS = dict(re.findall(r"^\| ([^|]+) \| `([^`]+)` \|", PAGE, re.MULTILINE))
_SYMBOLS = re.compile(r"[A-Z]|\d+|[+* ]")


def worked_out(formula: str, values: dict[str, int]) -> int:
    """Return the value of a sum of products such as `12 + 2 * F`."""
    assert "".join(_SYMBOLS.findall(formula)) == formula
    numbers = re.sub(r"[A-Z]", lambda letter: str(values[letter[0]]), formula)
    return sum(_product(term) for term in numbers.split("+"))


def _product(term: str) -> int:
    product = 1
    for factor in term.split("*"):
        product *= int(ast.literal_eval(factor.strip()))
    return product


@pytest.mark.parametrize(
    ("name", "values"), [(name, values) for name, (_, cases) in MODEL.items() for values in cases], ids=str
)
def test_a_formula_is_what_a_storage_sees(name: str, values: dict[str, int]) -> None:
    counted = MODEL[name][0](**{ARGUMENTS[letter]: value for letter, value in values.items()})
    assert worked_out(FORMULAS[name], values) == counted, f"{name} with {values}: mend the formula in docs/scale.md"


def test_every_formula_of_the_page_is_counted() -> None:
    assert set(FORMULAS) == set(MODEL)
