"""How many requests each verb costs on an object store. A number that grows is a regression; lower it when you can."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

import lakewright as lw
from contract.faulty_storage import FaultyStorage
from lakewright.catalog.filesystem_catalog import FileSystemCatalog
from lakewright.commit.commit_loop import FilePublisher
from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.committer import Committer
from lakewright.metadata.authority import Outcome
from lakewright.spec.manifest import ManifestEntry
from lakewright.spec.snapshot import Snapshot
from lakewright.storage.object_storage import ObjectStorage
from support.s3 import S3Server

# Whoever commits or plans reads the schema file that its handle was opened with once more: no other file tells whether
# the table was dropped and made again since. A commit does so right before each put of a snapshot, a plan while it
# reads the lists. A builder looks for a newer schema (BUILDER), so that no handle is too old to use.
BUILDER = 1
# The ids, the newest, schemas; manifest, file size, 2 lists, schema, snapshot, the base, the ids above it, LATEST. The
# process keeps the lists that it wrote itself.
COMMIT = 12
LOST_RACE = 13  # more: the lost put, whose is it, drop a list; the ids, the winner, 2 lists; a list, the schema;
# and beside these, whether the data file, the manifest and the list of the first attempt are still there, and whether
# the snapshot that the first attempt extended still is the one of its id
READ_PLAN = 3  # the ids, the newest, the schema; and once in a process, lists and each manifest
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
ROWS = pa.table({"id": [1, 2], "name": ["a", "b"]}, schema=SCHEMA)
_numbers = itertools.count()


class Counted:
    """A table on an object store in memory whose calls are counted: each is one request of a real store."""

    def __init__(self) -> None:
        self.storage = FaultyStorage(ObjectStorage("memory://"))
        self.catalog = FileSystemCatalog(self.storage, f"memory:///requests-{next(_numbers)}")
        self.catalog.create_database("d")
        self.catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(SCHEMA))
        self.table = self.open()
        self.commit(self.write())

    def open(self) -> lw.FileStoreTable:
        table = self.catalog.get_table("d.t")
        assert isinstance(table, lw.FileStoreTable)
        return table

    def write(self) -> list[CommitMessage]:
        with self.table.new_batch_write_builder().new_write() as write:
            return write.write_arrow(ROWS).prepare_commit()

    def commit(self, messages: list[CommitMessage]) -> None:
        self.table.new_batch_write_builder().new_commit().commit(messages)

    def requests(self) -> list[str]:
        """Return the calls since the last time."""
        shown = [f"{call.verb} {call.path.partition('/d.db/')[2]}" for call in self.storage.calls]
        self.storage.calls.clear()
        return shown


@pytest.fixture
def counted() -> Counted:
    made = Counted()
    made.requests()
    return made


def test_requests_to_open_a_table(counted: Counted) -> None:
    counted.open()
    assert counted.requests() == ["list t/schema", "read t/schema/schema-0"]


def test_writing_a_small_file_is_one_put(counted: Counted) -> None:
    counted.write()
    requests = counted.requests()
    # Beside the put, the newest snapshot is looked up: the message names it, so that a replay is found from there on.
    looks = {"names t/snapshot", "read t/snapshot/snapshot-1"}
    assert looks <= set(requests)
    look, *put = [request.split()[0] for request in requests if request not in looks]
    assert look == "exists"
    assert set(put) == {"open_output", "write", "close"}


def test_requests_of_an_append(counted: Counted) -> None:
    for _ in range(5):
        messages = counted.write()
        counted.requests()
        counted.commit(messages)
        requests = counted.requests()
        assert len(requests) <= BUILDER + COMMIT, requests
        # Nothing but the base, and what is above it, is asked for twice.
        assert len(requests) - len(set(requests)) <= 2, requests


def test_requests_of_the_first_append(counted: Counted) -> None:
    counted.catalog.create_table("d.empty", lw.Schema.from_pyarrow_schema(SCHEMA))
    table = counted.catalog.get_table("d.empty")
    assert isinstance(table, lw.FileStoreTable)
    builder = table.new_batch_write_builder()
    messages = builder.new_write().write_arrow(ROWS).prepare_commit()
    counted.requests()
    builder.new_commit().commit(messages)
    requests = counted.requests()
    assert len(requests) <= COMMIT - 1, requests


@pytest.mark.parametrize("races", [1, 4])
def test_requests_of_a_lost_race(counted: Counted, races: int) -> None:
    store = counted.table.store
    others = [counted.write() for _ in range(races)]
    mine = counted.write()

    class Late(FilePublisher):
        def publish(self, snapshot: Snapshot, base: Snapshot | None, entries: Sequence[ManifestEntry] = ()) -> Outcome:
            if others:
                Committer(replace(store, storage=counted.storage.inner)).commit(others.pop())
            return super().publish(snapshot, base, entries)

    counted.requests()
    Committer(store, publisher=Late(store.storage, store.layout), sleep=lambda _: None).commit(mine)
    requests = counted.requests()
    assert len(requests) <= COMMIT + races * LOST_RACE, requests
    assert len(store.snapshots.ids()) == 2 + races


def test_requests_of_planning_and_reading(counted: Counted) -> None:
    for _ in range(3):
        counted.commit(counted.write())
    counted.requests()
    read = counted.table.new_read_builder()
    splits = read.new_scan().plan().splits()
    requests = counted.requests()
    assert len(requests) <= BUILDER + READ_PLAN + 4, requests
    assert counted.table.new_read_builder().new_scan().plan().splits() == splits
    requests = counted.requests()
    assert len(requests) <= BUILDER + READ_PLAN, requests
    assert read.new_read().to_arrow(splits).num_rows == 8
    requests = counted.requests()
    assert [request.split()[0] for request in requests] == ["open_input"] * 4


def test_each_call_is_one_request(s3_server: S3Server) -> None:
    """What the storage counts is what the server sees."""
    options = {**s3_server.options, "warehouse": f"s3://{s3_server.make_bucket()}/w"}
    catalog = lw.CatalogFactory.create(options)
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(SCHEMA))
    table = catalog.get_table("d.t")
    assert isinstance(table, lw.FileStoreTable)
    lw.write_table(ROWS, table)
    s3_server.requests.clear()
    lw.write_table(ROWS, table)
    assert len(s3_server.requests) <= 1 + BUILDER + COMMIT, s3_server.requests
    s3_server.requests.clear()
    assert lw.read_table(table).num_rows == 4
    assert len(s3_server.requests) <= BUILDER + READ_PLAN + 2 + 2, s3_server.requests
