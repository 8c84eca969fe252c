"""pypaimon, Java and we in one table of a REST catalog: tags, branches, compaction, rollback, expiry, statistics."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.rest_peers import KINDS, WHO, Kind, Shared

pytestmark = pytest.mark.peers

TURNS = pytest.mark.parametrize("turn", range(3), ids=WHO)
ONE, TWO, THREE = ["x", 1, "a"], ["x", 2, "b"], ["y", 3, "c"]


def in_turn(turn: int) -> tuple[str, str, str]:
    first, second, third = (WHO[(turn + number) % 3] for number in range(3))
    return first, second, third


def dense(shared: Shared, first: int = 1) -> bool:
    ids = shared.ids()
    return ids == list(range(first, first + len(ids)))


@pytest.mark.parametrize("kind", ["append", "keyed"])
@TURNS
def test_a_tag_is_read_by_all(shared: Shared, turn: int, kind: str) -> None:
    first, second, third = in_turn(turn)
    shared.create(second, KINDS[kind])
    shared.write(third, ONE)
    shared.tag(first, "one")
    shared.write(second, TWO)
    assert shared.agreed(tag_name="one") == [ONE]
    assert shared.agreed() == [ONE, TWO]


@pytest.mark.parametrize("kind", ["append", "keyed"])
@TURNS
def test_a_branch_is_written_and_becomes_the_table(shared: Shared, turn: int, kind: str) -> None:
    first, second, third = in_turn(turn)
    shared.create(second, KINDS[kind])
    shared.write(third, ONE)
    shared.branch(first, "b")
    shared.write(second, TWO, branch="b")
    shared.write(third, THREE, branch="b")
    assert shared.agreed("b") == [TWO, THREE]
    assert shared.agreed() == [ONE]
    # Not Java: the server points main's LATEST at the branch's newest snapshot, and Java's writer believes that.
    shared.write("ours", ["y", 4, "d"])
    assert shared.agreed() == [ONE, ["y", 4, "d"]]
    shared.forward(first, "b")
    assert shared.agreed() == [TWO, THREE]
    for number, who in enumerate((second, third, first)):
        shared.write(who, ["z", 10 + number, who])
    assert len(shared.agreed()) == 5
    assert dense(shared)


@pytest.mark.parametrize("kind", ["append", "keyed-partitioned", "vectors"])
def test_our_compaction_is_read_and_written_on(shared: Shared, kind: str) -> None:
    shared.create("java", KINDS[kind])
    for number, who in enumerate(WHO * 2):
        shared.write(who, ["x", number % 4, f"{number}"])
    assert not shared.table().compact(full=True).is_empty
    rows = shared.agreed()
    assert len(rows) == (6 if kind == "append" else 4)
    for number, who in enumerate(WHO):
        shared.write(who, ["x", 10 + number, who])
    shared.table().compact(full=True)
    assert shared.agreed() == sorted(rows + [["x", 10 + number, who] for number, who in enumerate(WHO)])
    assert dense(shared)


@pytest.mark.parametrize("kind", ["append", "keyed"])
@pytest.mark.parametrize("who", WHO)
def test_all_write_on_after_a_rollback(shared: Shared, who: str, kind: str) -> None:
    shared.create("ours", KINDS[kind])
    opened = shared.table()
    for row in (ONE, TWO, THREE):
        shared.write("ours", row)
    shared.rollback(who, 1)
    assert shared.agreed() == [ONE]
    for number, writer in enumerate(WHO):
        shared.write(writer, ["z", 10 + number, writer])
    assert shared.agreed() == [ONE, *(["z", 10 + number, writer] for number, writer in enumerate(WHO))]
    assert dense(shared)
    assert opened.refreshed().store.snapshots.latest() == shared.table().store.snapshots.latest()


def test_all_read_and_write_after_our_expiry(shared: Shared) -> None:
    shared.create("pypaimon", KINDS["keyed"])
    for number, who in enumerate(WHO * 2):
        shared.write(who, ["x", number, who])
        if number == 1:
            shared.tag("java", "two")
    rows = shared.agreed()
    shared.table().compact(full=True)
    shared.table().expire_snapshots(retain_max=1, retain_min=1)
    assert len(shared.ids()) == 1
    assert shared.agreed() == rows
    assert shared.agreed(tag_name="two") == rows[:2]
    for who in WHO:
        shared.write(who, ["x", 0, who])
    assert shared.agreed() == [["x", 0, "java"], *rows[1:]]
    assert dense(shared, shared.ids()[0])


@pytest.mark.parametrize("kind", ["append-partitioned", "keyed-partitioned"])
def test_the_server_counts_for_us_what_it_counts_for_java(shared: Shared, kind: str) -> None:
    own = KINDS[kind]
    made = Kind(own.partitions, own.keys, {**own.options, "metastore.partitioned-table": "true", "write-only": "true"})
    counts = []
    for who in ("ours", "java"):
        table = replace(shared, name=f"{shared.name}_{who}")
        table.create("ours", made)
        table.write(who, ONE, TWO, THREE)
        table.write(who, ["x", 5, "e"], ["z", None if kind.startswith("append") else 6, None])
        before = table.counts()
        if own.keys:
            table.write(who, ["x", 1, "new"])
            table.compact(who)
        newest, parts = table.counts()
        # What 1.4.2 has added up for partitions after a compaction differs from run to run, whoever compacts.
        counts.append((before, newest, {} if shared.server.like == "1.4.2" else parts, table.sent()))
    assert counts[0] == counts[1]
    newest, parts = counts[0][0]
    assert newest["recordCount"] == 5
    assert {name: part["recordCount"] for name, part in parts.items()} == {
        "{'p': 'x'}": 3,
        "{'p': 'y'}": 1,
        "{'p': 'z'}": 1,
    }
