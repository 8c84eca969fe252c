"""Proofs about commits on a REST server, for the stand-in and for Java's servers.

Each returns nothing and fails by an assertion. Tables are judged by what a new handle reads and by their files.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence

import lakewright as lw
from contract.catalog_names import InDatabase, ids_of, rows_of, together
from contract.fault_enumerator import stray_files
from lakewright.compact.compaction_plan import plan_compaction
from lakewright.compact.keyed_compaction import run_task
from lakewright.formats.data_file_writer import wall_clock_ms
from support.rest_protocol import RestServerUnderTest

LOST = ("500", "502", "503", "504", "429", "cut", "half", "garbage")
IMPATIENT = {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "20 ms"}


def assert_whole(table: lw.FileStoreTable, *, tidy: bool = False) -> None:
    """Check that the snapshots have no gaps, and that every one of them can be read; with `tidy` no file is left."""
    ids = table.store.snapshots.ids()
    assert ids == list(range(1, len(ids) + 1))
    newest = table.snapshot()
    assert (0 if newest is None else newest.id) == len(ids)
    for snapshot_id in ids:
        lw.read_table(table, snapshot_id=snapshot_id)
    if tidy:
        assert stray_files(table.store) == set()


def lose_answers(server: RestServerUnderTest, catalog: lw.Catalog, commits: int, kind: str = "append") -> None:
    """Lose the answer of every commit: each is there once, and no file is missing or left over."""
    db = InDatabase(catalog)
    table = db.create(kind=kind, **IMPATIENT, **{"write-only": "true"})
    for number in range(commits):
        server.lose(1, LOST[number % len(LOST)])
        result = lw.write_table(rows_of(number), table)
        assert (result.snapshot_id, server.faults_left()) == (number + 1, 0)
    fresh = catalog.get_table(db("t"))
    assert ids_of(fresh) == list(range(commits))
    assert_whole(fresh, tidy=True)


def lose_answers_in_a_race(server: RestServerUnderTest, catalog: lw.Catalog, writers: int, commits: int) -> None:
    """Lose the answers of about half of all commits while others commit: each is there once."""
    db, chance = InDatabase(catalog), random.Random(7)
    table = db.create(**IMPATIENT)
    stop = threading.Event()

    def lose() -> None:
        while not stop.wait(0.01):
            if server.faults_left() == 0:
                server.lose(1, chance.choice(LOST))

    def write(writer: int) -> None:
        for number in range(commits):
            lw.write_table(rows_of(writer * commits + number), table)

    thief = threading.Thread(target=lose)
    thief.start()
    try:
        together([lambda writer=writer: write(writer) for writer in range(writers)])  # type: ignore[misc]
    finally:
        stop.set()
        thief.join()
        server.calm()
    fresh = catalog.get_table(db("t"))
    assert ids_of(fresh) == list(range(writers * commits))
    assert_whole(fresh, tidy=True)
    assert len(fresh.store.snapshots.ids()) == writers * commits


def compaction_of(table: lw.FileStoreTable) -> list[lw.CommitMessage]:
    """Compact all of a table with primary keys, and return the messages, which are not committed."""
    newest = table.snapshot()
    assert newest is not None
    tasks = plan_compaction(table.store, newest, full=True, now_ms=wall_clock_ms())
    return [run_task(table.store, task, memory_bytes=1 << 24) for task in tasks]


def commit_of(table: lw.FileStoreTable, messages: Sequence[lw.CommitMessage]) -> int | None:
    """Commit messages, and return the id of the snapshot."""
    with table.new_batch_write_builder().new_commit() as commit:
        return commit.commit(messages).snapshot_id


def roll_back_a_compaction(catalog: lw.Catalog, after: Callable[[lw.FileStoreTable], object]) -> None:
    """Roll back a published compaction, as other clients do, let something happen, and commit the compaction again.

    No row is there twice and none is lost, whether the second commit is accepted or refused.
    """
    db = InDatabase(catalog)
    table = db.create(kind="keys", **IMPATIENT, **{"write-only": "true"})
    for number in range(3):
        lw.write_table(rows_of(number, number + 1), table)
    messages = compaction_of(table)
    assert commit_of(table, messages) == 4
    catalog.rollback_to(db("t"), 3, from_snapshot=4)
    after(table)
    expected = ids_of(catalog.get_table(db("t")))
    assert len(set(expected)) == len(expected)
    for _ in range(2):
        try:
            commit_of(table, messages)
        except (lw.CommitConflictError, lw.CommitContentionError, lw.NotFoundError, lw.InvalidInputError) as error:
            assert not isinstance(error, lw.CommitUnknownError)  # noqa: PT017 - any of these says that nothing happened
        fresh = catalog.get_table(db("t"))
        assert ids_of(fresh) == expected
        assert_whole(fresh)
    lw.write_table(rows_of(50), table)
    assert ids_of(catalog.get_table(db("t"))) == [*expected, 50]


# What happens between the rollback and the second commit.
AFTER_A_ROLLBACK: dict[str, Callable[[lw.FileStoreTable], object]] = {
    "nothing": ids_of,
    "a write": lambda table: lw.write_table(rows_of(20), table),
    "a write of the same keys": lambda table: lw.write_table(rows_of(1, 2), table),
    "another compaction": lambda table: commit_of(table, compaction_of(table)),
    "a rollback": lambda table: table.rollback_to(2),
}
