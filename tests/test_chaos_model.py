"""The model that chaos runs compare tables with allows what happened, and no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.chaos.journal import DONE, FAILED, UNKNOWN, Operation
from support.chaos.model import History, Past, allowed_rows


def _done(uid: str, verb: str, begin: float, end: float, **facts: Any) -> Operation:  # noqa: ANN401 - facts of a role
    return Operation(uid, verb, "t", begin, facts, end, DONE)


def _branch(*operations: Operation) -> dict[int, frozenset[str | None]] | None:
    """Return what the branch `b` may hold."""
    known = sorted(operations, key=lambda one: one.begin)
    return History(Past({1: "old"}, latest_id=10), known).branches["b"].state()


APPEND = _done("slow", "append", 1, 6, puts=[2], id=12)
OTHERS = [_done(f"quick-{number}", "append", number / 10, number / 10, puts=[number], id=number) for number in (11, 13)]
BRANCH = _done("branch", "branch", 2, 3, name="b", of=13)


def test_a_branch_has_the_commits_below_its_snapshot() -> None:
    state = _branch(APPEND, *OTHERS, BRANCH)
    assert state is not None
    assert state[2] == {"slow"}


def test_a_commit_may_get_an_id_that_a_later_rollback_gave_back_and_then_is_not_in_the_branch() -> None:
    state = _branch(APPEND, *OTHERS, BRANCH, _done("back", "rollback", 4, 5, of=11))
    assert state is not None
    assert state[2] == {"slow", None}
    assert state[11] == {"quick-11"}
    assert state[13] == {"quick-13"}


def test_a_commit_that_had_ended_before_the_branch_is_in_it_whatever_is_rolled_back_later() -> None:
    state = _branch(_done("early", "append", 1, 1.1, puts=[2], id=12), BRANCH, _done("back", "rollback", 4, 5, of=11))
    assert state is not None
    assert state[2] == {"early"}


def test_what_is_below_the_newest_snapshot_of_a_forwarded_branch_is_unknown() -> None:
    first = _done("branch", "branch", 2, 3, name="a", of=12)
    own = _done("own", "append", 3.1, 3.2, branch="a", puts=[7], id=13)
    forward = _done("forward", "forward", 4, 5, name="a")
    quick = [
        _done(f"quick-{number}", "append", number / 10, number / 10, puts=[number], id=number) for number in (11, 12)
    ]
    assert _branch(*quick, first, own, forward, _done("again", "branch", 6, 7, name="b", of=12)) is None


def _main(*operations: Operation, acknowledged: frozenset[str] = frozenset()) -> dict[int, frozenset[str | None]]:
    """Return what the table may hold."""
    known = sorted(operations, key=lambda one: one.begin)
    state = History(Past({1: "old"}, latest_id=10), known, acknowledged).state()
    assert state is not None
    return state


@pytest.mark.parametrize(("begin", "end", "values"), [(3, 4, {"own"}), (3, 6, {"own", None}), (6, 7, {"own", None})])
def test_a_forward_may_miss_what_is_committed_to_the_branch_meanwhile(
    begin: float, end: float, values: set[str | None]
) -> None:
    branch = _done("branch", "branch", 1, 2, name="a", of=10)
    own = _done("own", "append", begin, end, branch="a", puts=[7], id=11)
    assert _main(branch, own, _done("forward", "forward", 5, 8, name="a"))[7] == values


def test_a_replay_may_commit_what_was_refused_or_unknown_before() -> None:
    refused = replace(_done("job", "job", 1, 2, puts=[2]), outcome=FAILED)
    replay = _done("again", "replay", 3, 4, of="job", puts=[2], id=11)
    unknown = replace(replay, outcome=UNKNOWN, facts={"of": "job", "puts": [2]})
    assert _main(refused, replay)[2] == {"job"}
    assert _main(refused, unknown)[2] == {"job", None}
    assert _main(replay)[2] == {"job", None}  # it was unknown in an earlier epoch
    assert 2 not in _main(replay, acknowledged=frozenset({"job"}))


@pytest.mark.parametrize(("begin", "values"), [(1, {"put", "update"}), (3, {"update"})])
def test_an_update_may_miss_a_row_that_is_added_meanwhile(begin: float, values: set[str | None]) -> None:
    put = _done("put", "upsert", 0.5, 2, puts=[2], id=11)
    assert _main(put, _done("update", "update", begin, 4, updates=[2], id=12))[2] == values


def test_a_snapshot_of_a_forwarded_branch_of_an_earlier_epoch_may_be_older_than_its_state() -> None:
    past = Past({1: "old"}, latest_id=10, branches={"a": (5, 14, {1: "old", 2: "branch"})})
    forward, tag = _done("forward", "forward", 1, 2, name="a"), _done("tag", "tag", 3, 4, name="v", of=12)
    history = History(past, [forward, tag, _done("newest", "tag", 5, 6, name="w", of=14)])
    assert history.tags["v"] == (12, None)
    assert history.tags["w"] == (14, allowed_rows({1: "old", 2: "branch"}))
