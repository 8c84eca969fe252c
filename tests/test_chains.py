"""How many requests wait for each other on an object store. A chain that grows is a regression."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

import lakewright as lw
from contract.request_chain import TRIES_MAX, ChainStorage, drawn, shortest_chain
from lakewright.catalog.filesystem_catalog import FileSystemCatalog
from lakewright.storage.object_storage import ObjectStorage
from support.latency_cases import CASES, Case, Tables, append, keyed, plain

# How many rounds of requests each takes; `bench/latency.py` measures the first ten on a store that is slow.
DEPTHS = {
    "append, handle held open": 6,
    "append, opened anew": 8,
    "append into 4 partitions": 6,
    "upsert into 2 buckets": 11,
    "delete a key": 14,
    "create": 5,
    "plan": 4,
    "read one file of 36": 5,
    "read all 36": 6,
    "merge read of 3 runs": 5,
    "compact": 12,
    "expire": 28,  # of which nine take the snapshots away, the oldest first
}
_numbers = itertools.count()


def uncompacted(tables: Tables) -> None:
    """Leave a primary-key table with something to compact."""
    keyed(tables)
    write_only = tables.held["keyed"].copy({"write-only": "true"})
    lw.write_table(tables.next_rows(), write_only)


def compact(tables: Tables) -> None:
    """Bring all of each bucket to one level."""
    assert not tables.held["keyed"].compact(full=True).is_empty


def expire(tables: Tables) -> None:
    """Expire all snapshots but two."""
    tables.held["plain"].expire_snapshots(retain_max=2, retain_min=1)


def three_more(tables: Tables) -> None:
    """Append three times to an append table, of which an expiry leaves two snapshots."""
    plain(tables)
    for _ in range(3):
        append(tables)
    assert len(tables.held["plain"].store.snapshots.ids()) > 2


EVERY = (*CASES, Case("compact", 0, uncompacted, compact), Case("expire", 0, three_more, expire))


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
def test_a_chain_is_not_longer_than_before(case: Case) -> None:
    storage = ChainStorage(ObjectStorage("memory://"))
    place = f"memory:///chains-{next(_numbers)}"
    tables = Tables(lambda: FileSystemCatalog(storage, place), commits=8)
    chain = shortest_chain(storage, lambda: case.prepare(tables), lambda: case.run(tables), DEPTHS[case.name])
    assert len(chain) <= DEPTHS[case.name], f"{case.name}:\n{drawn(chain)}"


LARGE = pa.schema([(f"c{number}", pa.int64()) for number in range(5)])
LARGE_ROWS = 250_000
READS: dict[str, tuple[dict[str, object], int, int]] = {  # what is read; rounds and requests of the data file
    "all": ({}, 2, 4),
    "columns": ({"columns": ["c0", "c2", "c4"]}, 2, 8),
    "a filter": ({"columns": ["c0", "c2", "c4"], "filter": "c0 = 200000"}, 2, 4),
    "a filter without order": (
        {"columns": ["c0", "c2", "c4"], "filter": f"c2 > {1 << 59} and c2 < {(1 << 59) + 2}"},
        2,
        4,
    ),
}


@pytest.fixture(scope="module")
def large() -> tuple[ChainStorage, lw.FileStoreTable]:
    """Return a table of one file of 10 MB, in two row groups."""
    storage = ChainStorage(ObjectStorage("memory://"))
    catalog = FileSystemCatalog(storage, f"memory:///large-{next(_numbers)}")
    catalog.create_database("d")
    options = {"file.compression": "none", "parquet.enable.dictionary": "false"}
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(LARGE, options=options))
    table = catalog.get_table("d.t")
    assert isinstance(table, lw.FileStoreTable)
    dice = np.random.default_rng(5)
    columns = {name: dice.integers(0, 1 << 60, LARGE_ROWS) for name in LARGE.names[1:]}
    lw.write_table(pa.table({"c0": np.arange(LARGE_ROWS), **columns}, schema=LARGE), table)
    return storage, table


@pytest.mark.parametrize("name", READS)
def test_a_large_file_is_read_in_few_rounds(large: tuple[ChainStorage, lw.FileStoreTable], name: str) -> None:
    storage, table = large
    arguments, rounds, requests = READS[name]
    for attempt in range(TRIES_MAX):  # a busy machine may split a round in two
        storage.quiet_seconds = 0.02 * 2**attempt
        with storage:
            lw.read_table(table, **arguments)  # type: ignore[arg-type]
        of_data = [[call for call in calls if call.path.endswith(".parquet")] for calls in storage.rounds]
        of_data = [calls for calls in of_data if calls]
        if len(of_data) <= rounds:
            break
    assert len(of_data) == rounds, drawn(storage.rounds)
    assert sum(map(len, of_data)) <= requests, drawn(storage.rounds)


def test_every_case_has_a_depth() -> None:
    assert {case.name for case in EVERY} == set(DEPTHS)
