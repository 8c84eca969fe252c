"""Two operations on the history of a table, one stopped in the middle of the other: as if one came after the other."""

from __future__ import annotations

import pytest

from contract.faulty_storage import Fault, FaultKind, FaultyStorage
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


def test_a_restored_state_is_acknowledged_although_its_snapshot_expires_meanwhile() -> None:
    """The tag that protects the state is made after it was published; what expires then must not make it an error."""
    scene = Scene(None)
    restored = scene.after("restore")["main"]

    def expire() -> None:
        scene.act("expire", scene.table)

    for stop in range(1, scene.stops("restore") + 1):
        scene.reset()
        stopping = FaultyStorage(scene.memory, [Fault(stop, FaultKind.SLOW)], pause=expire)
        is_acknowledged = scene.act("restore", scene.through(stopping))
        assert is_acknowledged == (scene.observe()["main"] == restored), stop
    scene.memory.clear()


@pytest.mark.parametrize(
    "calls", [(60, 10**6), (86, 20)], ids=["the expiry goes on later", "the forward goes on first"]
)
def test_an_expiry_during_a_forward_leaves_its_state_and_no_gap(calls: tuple[int, int]) -> None:
    """The snapshots of the branch are older than those of the table: an expiry may see some of them, and not the rest.

    It begins while they are written, and is stopped before it removes what it has seen.
    """
    scene = Scene(None, is_old=True)
    for stop in range(60, 92, 4):
        for names in (["forward", "expire"], ["forward", "expire", "append"]):
            append = [(2, 10**6)] if "append" in names else []
            scene.take_turns(names, [(0, stop), *append, (0, 2), (1, calls[0]), (0, calls[1]), (1, 10**6)])
    scene.memory.clear()


def test_a_rollback_during_a_forward_is_not_followed_by_a_part_of_the_branch() -> None:
    """The forward is stopped while it writes the snapshots of the branch, newest first, and goes on afterwards."""
    scene = Scene(None, is_old=True)
    for stop in range(91, 101):
        scene.take_turns(["rollback to a tag", "forward"], [(1, stop), (0, 10**6)])
    scene.memory.clear()


def test_a_commit_that_others_extend_while_its_base_is_uncovered_leaves_no_gap() -> None:
    """It is stopped before it publishes, and before it confirms; the rollback removes its base in between."""
    scene = Scene(None)
    before_publishing = scene.stops("append") - 6
    for stop in range(50, 62):
        turns = [(0, stop), (1, before_publishing), (0, 3), (1, 3), (2, 10**6), (1, 10**6)]
        scene.take_turns(["rollback", "append", "upsert"], turns)
    scene.memory.clear()
