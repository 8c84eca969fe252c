"""Three operations that change the history of a table, at the same time, taking turns at storage calls: as if in a row.

Each schedule says whose turn it is and for how many calls: most let one operation pause until others have ended. The
search is bounded and seeded; `SEED` and `SCHEDULES` of the environment give another one, or a larger one.
"""

from __future__ import annotations

import os
import random
import time

import pytest

from support.effort import is_thin
from support.histories import VERBS, Scene

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore::lakewright.LakewrightWarning")]

SEED = os.environ.get("SEED", "31")
SCHEDULES = int(os.environ.get("SCHEDULES", "60" if is_thin() else "4000"))
SECONDS_MAX = 4 if is_thin() else 240  # for each kind of tables; a test has 300
SWITCHES_MAX = 5
REWINDS = ("rollback", "rollback to a tag", "restore", "forward")
OF_SNAPSHOT_2 = ("rollback", "restore", "tag", "branch of a snapshot")  # in an old table a rewind at work has one


def _names(dice: random.Random, *, is_old: bool) -> list[str]:
    """Return three different operations: at least one writes, and mostly one goes back or expires."""
    verbs = [name for name in VERBS if not is_old or name not in OF_SNAPSHOT_2]
    rewinds = [name for name in REWINDS if name in verbs]
    names = [dice.choice(["append", "upsert", "overwrite"]), dice.choice([*rewinds, "expire", "expire"])]
    names.append(dice.choice([name for name in verbs if name not in names]))
    dice.shuffle(names)
    return names


@pytest.mark.parametrize(
    ("keys", "is_old"), [(None, False), (["k"], False), (None, True)], ids=["append", "keyed", "old"]
)
def test_three_operations_at_the_same_time_are_one_after_the_other(keys: list[str] | None, *, is_old: bool) -> None:
    scene, dice = Scene(keys, is_old=is_old), random.Random(f"{SEED} {keys}{' old' * is_old}")
    ends = time.monotonic() + SECONDS_MAX
    for _ in range(SCHEDULES):
        names = _names(dice, is_old=is_old)
        stops = [scene.stops(name) for name in names]
        turns = [dice.randrange(3) for _ in range(dice.randint(2, SWITCHES_MAX))]
        schedule = [(who, dice.randint(1, stops[who])) for who in turns]
        scene.take_turns(names, schedule)
        if time.monotonic() > ends:
            break
    scene.memory.clear()
