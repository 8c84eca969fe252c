"""Two operations on the history of a table, one stopped in the middle of the other: as if one came after the other."""

from __future__ import annotations

import pytest

from support.effort import thinned
from support.histories import VERBS, Scene

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore::lakewright.LakewrightWarning")]

PAIRS = [(first, second) for first in VERBS for second in VERBS if {first, second} - {"append", "upsert", "overwrite"}]


@pytest.mark.parametrize("keys", [None, ["k"]], ids=["append", "keyed"])
def test_two_operations_on_a_history_are_one_after_the_other(keys: list[str] | None) -> None:
    scene = Scene(keys)
    schedules = [(*pair, stop) for pair in PAIRS for stop in range(1, scene.stops(pair[0]) + 1)]
    few = schedules if thinned(schedules) is schedules else schedules[1 + bool(keys) :: 401]
    for first, second, stop in few:
        scene.check(first, second, stop)
    scene.memory.clear()
