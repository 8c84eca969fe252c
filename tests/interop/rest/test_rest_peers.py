"""pypaimon, Java and we in one table of a REST catalog: created, written, changed and read by each in turn."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from support.rest_peers import KINDS, WHO, Shared

pytestmark = pytest.mark.peers


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("maker", WHO)
def test_a_table_of_each_is_written_by_all_in_turn(shared: Shared, maker: str, kind: str) -> None:
    shared.create(maker, KINDS[kind])
    rows = [["x" if number % 2 else "y", number, WHO[number % 3]] for number in range(6)]
    for who, row in zip(WHO * 2, rows, strict=True):
        shared.write(who, row)
        if kind == "vectors" and who == "pypaimon":
            shared.table().compact()  # nobody reads what pypaimon wrote before it is compacted
        assert row in shared.read("ours")
    assert shared.agreed() == sorted(rows)
    assert shared.ids() == list(range(1, len(shared.ids()) + 1))


@pytest.mark.parametrize("kind", [name for name in KINDS if KINDS[name].keys and name != "vectors"])
def test_each_replaces_rows_of_the_others(shared: Shared, kind: str) -> None:
    shared.create("ours", KINDS[kind])
    for turn in range(3):
        for number in range(3):
            shared.write(WHO[(number + turn) % 3], ["x", number, f"{number} {turn}"], ["x", number + 3, str(turn)])
    assert shared.agreed() == [["x", n, f"{n} 2"] for n in range(3)] + [["x", n, "2"] for n in range(3, 6)]


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_all_write_at_once(shared: Shared, kind: str) -> None:
    shared.create("ours", KINDS[kind])
    shared.alter("ours", "set_option", "write-only", "true")  # or Java compacts as it writes, and gives up in a race

    def write(number: int, who: str) -> None:
        for turn in range(5):
            shared.write(who, ["x", number * 10 + turn, who])

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(write, number, who) for number, who in enumerate(WHO)]:
            done.result()
    assert shared.agreed() == [["x", n * 10 + turn, who] for n, who in enumerate(WHO) for turn in range(5)]
    assert shared.ids() == list(range(1, len(shared.ids()) + 1))


@pytest.mark.parametrize("kind", ["append", "keyed"])
@pytest.mark.parametrize("turn", range(3), ids=WHO)
def test_a_changed_schema_is_seen_by_the_others(shared: Shared, turn: int, kind: str) -> None:
    first, second, third = (WHO[(turn + number) % 3] for number in range(3))
    shared.create(second, KINDS[kind])
    shared.write(third, ["x", 1, "a"])
    shared.alter(first, "add_column", "n", "INT")
    shared.write(second, ["x", 2, "b", 20])
    shared.alter(first, "rename_column", "v", "w")
    shared.alter(first, "set_option", "write-only", "true")
    shared.write(third, ["x", 3, "c", 30])
    assert shared.agreed() == [["x", 1, "a", None], ["x", 2, "b", 20], ["x", 3, "c", 30]]
    assert shared.table().field_names == ["p", "k", "w", "n"]
    assert ["write-only", "true"] in shared.agreed("$options")


ODD = ["a b", "50%", "100%25", "grün", "a+b", "a~b", "a&b=c;d", "a?b#c"]


@pytest.mark.parametrize("name", ODD)
def test_names_that_urls_spell_otherwise(shared: Shared, name: str) -> None:
    for number, maker in enumerate(WHO):
        shared.name = f"{name} {shared.name.split('.')[0]}.{name}{number}"
        shared.create(maker, KINDS["append"])
        for who in WHO:
            shared.write(who, ["x", number, who])
        assert shared.agreed() == sorted(["x", number, who] for who in WHO)


def test_a_database_with_a_dollar_in_its_name(shared: Shared) -> None:
    shared.name = f"a$b {shared.name}"
    shared.create("ours", KINDS["append"])
    for who in WHO:
        shared.write(who, ["x", 1, who])
    assert len(shared.agreed()) == 3
