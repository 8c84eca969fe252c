"""Every storage call of a commit that renumbers fails once, in every way: the later commit wins or is absent."""

from __future__ import annotations

import itertools
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest

from contract.fault_enumerator import SIX_FAULTS
from contract.faulty_storage import Crash, Fault, FaultKind, FaultyStorage, MemoryStorage
from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.committer import Committer
from lakewright.errors import CommitConflictError, CommitContentionError, CommitUnknownError, InvalidInputError
from lakewright.maintenance.orphan_files import remove_orphans
from lakewright.metadata.table_store import TableStore
from lakewright.read.read_builder import ReadBuilder
from lakewright.spec.schema import Schema, new_table_schema
from lakewright.storage.table_layout import Layout
from lakewright.table.write_builder import BatchWriteBuilder
from support.effort import is_thin

pytestmark = pytest.mark.long

COLUMNS = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.int64())])
DAY_MILLIS = 24 * 60 * 60 * 1000
FAR = 2**42
_names = itertools.count()


def new_store(memory: MemoryStorage) -> TableStore:
    options = {
        "bucket": "1",
        "write-only": "true",
        "changelog-producer": "input",
        "commit.max-retries": "3",
        "lakewright.write-threads": "1",
    }
    wish = Schema.from_pyarrow_schema(COLUMNS, primary_keys=["k"], options=options)
    schema, layout = new_table_schema(wish, time_millis=1), Layout(f"{memory.root}/t")
    assert memory.create(layout.schema_file(0), schema.to_json().encode())
    return TableStore("db.t", memory, layout, schema)


def prepared(store: TableStore, keys: list[int], value: int) -> list[CommitMessage]:
    rows = pa.table([pa.array(keys, pa.int32()), pa.array([value] * len(keys), pa.int64())], schema=COLUMNS)
    with BatchWriteBuilder(store).new_write() as write:
        write.write_arrow(rows)
        return write.prepare_commit()


def committer(store: TableStore) -> Committer:
    return Committer(store, sleep=lambda _seconds: None, random=Random(7).random)


def read(store: TableStore) -> dict[int, int]:
    reader = ReadBuilder(store)
    rows = reader.new_read().to_arrow(reader.new_scan().plan().splits()).to_pylist()
    return {row["k"]: row["v"] for row in rows}


def named(store: TableStore) -> set[str]:
    """Return the names of all data and changelog files that some snapshot added."""
    snapshots = [store.snapshots.get(snapshot_id) for snapshot_id in store.snapshots.ids()]
    entries = (e for s in snapshots for e in (*store.manifests.delta(s), *store.manifests.changelog(s)))
    return {e.file.file_name for e in entries}


def run(store: TableStore, messages: list[CommitMessage]) -> bool | None:
    """Return whether the commit says that it happened, None where it cannot say."""
    try:
        committer(store).commit(messages)
    except (Crash, CommitUnknownError):
        return None
    except (CommitContentionError, CommitConflictError, InvalidInputError):
        return False
    return True


def check(store: TableStore, *, happened: bool | None) -> None:
    there = len(store.snapshots.ids()) == 3
    assert happened is None or there == happened
    assert read(store) == ({1: 1, 2: 1, 3: 2} if there else {1: 2, 2: 0, 3: 2})


def calls_to_fail(count: int, kind: FaultKind) -> range:
    """Return the numbers of the calls to fail in a way: every third, so that each fails in two; at night, all."""
    return range(1 + SIX_FAULTS.index(kind) % 3, count + 1, 3) if is_thin() else range(1, count + 1)


@pytest.mark.parametrize("kind", SIX_FAULTS, ids=lambda kind: kind.name)
def test_whatever_call_fails_a_renumbering_happened_or_did_not(kind: FaultKind) -> None:
    memory = MemoryStorage(f"renumber-faults-{next(_names)}")
    plain = new_store(memory)
    committer(plain).commit(prepared(plain, [1, 2], 0))
    mine = prepared(plain, [1, 2], 1)
    committer(plain).commit(prepared(plain, [1, 3], 2))
    start = memory.image()
    counted = FaultyStorage(memory)
    assert run(replace(plain, storage=counted), mine)
    assert read(plain) == {1: 1, 2: 1, 3: 2}
    for call in calls_to_fail(len(counted.calls), kind):
        memory.restore(start)
        happened = run(replace(plain, storage=FaultyStorage(memory, [Fault(call, kind)])), mine)
        if happened is None:
            memory.crash(call)
        check(plain, happened=happened)
        for _ in range(2):
            assert run(plain, mine), (call, counted.calls[call - 1])
            check(plain, happened=True)
        committer(plain).abort(mine)
        remove_orphans(plain, now=FAR, older_than_millis=FAR - DAY_MILLIS)
        check(plain, happened=True)
        assert {info.path.rpartition("/")[2] for info in memory.list(f"{plain.layout.root}/bucket-0")} == named(plain)
    memory.clear()


@pytest.mark.parametrize("kind", SIX_FAULTS, ids=lambda kind: kind.name)
def test_a_commit_that_failed_for_sure_can_be_aborted(kind: FaultKind) -> None:
    memory = MemoryStorage(f"renumber-faults-{next(_names)}")
    plain = new_store(memory)
    mine = prepared(plain, [1, 2], 1)
    committer(plain).commit(prepared(plain, [1, 3], 2))
    start = memory.image()
    counted = FaultyStorage(memory)
    assert run(replace(plain, storage=counted), mine)
    aborted = 0
    for call in calls_to_fail(len(counted.calls), kind):
        memory.restore(start)
        try:
            committer(replace(plain, storage=FaultyStorage(memory, [Fault(call, kind)]))).commit(mine)
        except (CommitContentionError, CommitConflictError, InvalidInputError):
            committer(plain).abort(mine)
            aborted += 1
        except (Crash, CommitUnknownError):
            memory.crash(call)
        assert read(plain) in ({1: 2, 3: 2}, {1: 1, 2: 1, 3: 2})
    assert aborted or kind in {FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER}
    memory.clear()
