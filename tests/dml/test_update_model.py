"""Random changes of every kind of table leave exactly the rows that polars says, each change in one snapshot."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakewright as lw
from support.effort import examples
from support.row_changes import KINDS, Model, new_table

RUNS = examples(14)  # of each kind
STEPS = 6


@pytest.mark.parametrize("seed", range(RUNS))
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_polars(kind: str, seed: int) -> None:
    Model(kind, seed).run(STEPS)


def test_every_way_is_among_them() -> None:
    """The kinds of tables are only worth something if they are changed in different ways."""
    ways = set()
    for kind in KINDS:
        table = new_table(kind)
        lw.write_table(pa.table({"id": [1, 2], "p": [0, 0], "n": [1, 2]}), table)
        ways.add(table.update({"n": 5}, "id = 1").method)
    assert ways == {"copied files", "deletion vectors", "column files", "row kinds"}
