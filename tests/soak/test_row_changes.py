"""Random changes of every kind of table against polars, for as many steps and seeds as one has time for."""

from __future__ import annotations

import os

import pytest

from support.row_changes import KINDS, Model

RUNS = int(os.environ.get("LAKEWRIGHT_CHANGE_RUNS", "25"))
STEPS = 40


@pytest.mark.parametrize("kind", KINDS)
def test_long_lives_of_tables(kind: str) -> None:
    for seed in range(1000, 1000 + RUNS):
        Model(kind, seed).run(STEPS)
