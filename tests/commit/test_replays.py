"""Messages that are committed again change nothing, whatever the clocks say and however the history changed since."""

from __future__ import annotations

import hashlib
import json
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.commit.commit_loop import FilePublisher
from lakewright.commit.commit_message import MAGIC
from lakewright.commit.table_commit import CommitResult
from lakewright.metadata.authority import Outcome
from lakewright.spec.manifest import ManifestEntry
from lakewright.spec.snapshot import SeenSnapshot, Snapshot

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())])


@dataclass(frozen=True)
class Place:
    """A table, reached through a new handle each time."""

    catalog: lw.Catalog
    has_keys: bool

    def table(self) -> lw.FileStoreTable:
        table = self.catalog.get_table("d.t")
        assert isinstance(table, lw.FileStoreTable)
        return table

    def write(self, number: int, value: int = 0, *, job_id: str | None = None) -> None:
        lw.write_table(row(number, value), self.table(), "upsert" if self.has_keys else "append", job_id=job_id)

    def rows(self) -> list[tuple[int, int]]:
        return sorted((r["id"], r["v"]) for r in lw.read_table(self.table()).to_pylist())

    def written(self) -> list[bytes]:
        writer = self.table().new_batch_write_builder().new_write()
        return [m.serialize() for m in writer.write_arrow(row(1, 1)).prepare_commit()]

    def commit(self, data: Sequence[bytes], *, overwrite: bool = False) -> CommitResult:
        builder = self.table().new_batch_write_builder()
        builder = builder.overwrite() if overwrite else builder
        return builder.new_commit().commit(messages(data))


def row(number: int, value: int) -> pa.Table:
    return pa.table({"id": [number], "v": [value]}, schema=SCHEMA)


def messages(data: Sequence[bytes]) -> list[lw.CommitMessage]:
    return [lw.CommitMessage.deserialize(one) for one in data]


@pytest.fixture(params=[False, True], ids=["append", "keyed"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    keys, options = (["id"], {"bucket": "1"}) if request.param else ([], {})
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(SCHEMA, primary_keys=keys, options=options))
    return Place(catalog, request.param)


def shift_clock(monkeypatch: pytest.MonkeyPatch, hours: float) -> None:
    real, real_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: real() + hours * 3600)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + int(hours * 3600) * 10**9)


@pytest.mark.parametrize("hours", [-1000, -48, 20, 27, 48, 10000])
def test_the_clock_of_the_writer_does_not_matter(place: Place, hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(0)
    with monkeypatch.context() as patch:
        shift_clock(patch, hours)
        data = place.written()
    first = place.commit(data)
    place.write(2)
    place.write(3)
    assert place.commit(data).snapshot_id == first.snapshot_id
    assert place.rows() == [(0, 0), (1, 1), (2, 0), (3, 0)]


@pytest.mark.parametrize("minutes", [-600, -25, 25])
def test_the_clock_of_other_writers_does_not_matter(
    place: Place, minutes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write(0)
    data = place.written()
    first = place.commit(data)
    with monkeypatch.context() as patch:
        shift_clock(patch, minutes / 60)
        place.write(2)
    assert place.commit(data).snapshot_id == first.snapshot_id
    assert place.rows() == [(0, 0), (1, 1), (2, 0)]


def age(place: Place, keep: str) -> list[tuple[int, int]]:
    """Let the first snapshot expire after a compaction, with its files still on disk unless `keep` is empty."""
    if keep == "tag":
        place.table().create_tag("keep", 1)
    elif keep == "branch":
        place.table().create_branch("keep", snapshot_id=1)
    for number in (2, 3, 4):
        place.write(number)
    if place.has_keys:
        place.write(1, 99)
    place.table().compact(full=True)
    place.table().expire_snapshots(retain_max=1, retain_min=1)
    return place.rows()


@pytest.mark.parametrize("keep", ["", "tag", "branch"])
@pytest.mark.parametrize("overwrite", [False, True], ids=["insert", "overwrite"])
def test_a_replay_after_its_snapshot_expired_changes_nothing(place: Place, keep: str, *, overwrite: bool) -> None:
    data = place.written()
    place.commit(data, overwrite=overwrite)
    rows = age(place, keep)
    with pytest.raises(lw.LakewrightError) as caught:
        place.commit(data, overwrite=overwrite)
    assert not keep or isinstance(caught.value, lw.CommitUnknownError)
    assert place.rows() == rows


@pytest.mark.parametrize("keep", ["tag", "branch"])
@pytest.mark.parametrize("filters", [False, True], ids=["commit", "filter_and_commit"])
def test_a_replayed_stream_commit_after_expiry_changes_nothing(place: Place, keep: str, *, filters: bool) -> None:
    builder = place.table().new_stream_write_builder().with_commit_user("stream")
    writer = builder.new_write()
    writer.write_arrow(row(1, 1))
    data = [m.serialize() for m in writer.prepare_commit(7)]

    def commit() -> object:
        commit = place.table().new_stream_write_builder().with_commit_user("stream").new_commit()
        return commit.filter_and_commit({7: messages(data)}) if filters else commit.commit(messages(data), 7)

    commit()
    rows = age(place, keep)
    with pytest.raises(lw.CommitUnknownError, match="first ones have expired"):
        commit()
    assert place.rows() == rows


def test_a_first_commit_whose_snapshot_expired_meanwhile_is_unknown(place: Place) -> None:
    """Nobody can tell it from a replay."""
    place.write(0)
    data = place.written()
    place.write(2)
    place.table().expire_snapshots(retain_max=1, retain_min=1)
    with pytest.raises(lw.CommitUnknownError, match="snapshot 1, after which it was prepared, has expired"):
        place.commit(data)
    assert place.rows() == [(0, 0), (2, 0)]


def test_a_rollback_takes_the_commit_away_and_a_replay_brings_it_once(place: Place) -> None:
    for number in (10, 11):
        place.write(number)
    data = place.written()
    place.write(12)
    place.table().rollback_to(1)
    assert place.commit(data).snapshot_id == 2
    place.write(13)
    assert place.commit(data).snapshot_id == 2
    assert place.rows() == [(1, 1), (10, 0), (13, 0)]


@pytest.mark.parametrize("with_job", [False, True], ids=["messages", "job"])
def test_a_replay_that_overtakes_over_a_rollback_is_found(
    place: Place, monkeypatch: pytest.MonkeyPatch, *, with_job: bool
) -> None:
    """Two processes commit the same; between two attempts of the first the table is rolled back below its base."""
    for number in range(10, 20):
        place.write(number)
    data = [] if with_job else place.written()

    def commit() -> None:
        if with_job:
            place.write(1, 1, job_id="job")
        else:
            place.commit(data)

    original = FilePublisher.publish

    def busy(
        self: FilePublisher, snapshot: Snapshot, base: Snapshot | None, entries: Sequence[ManifestEntry] = ()
    ) -> Outcome:
        monkeypatch.setattr(FilePublisher, "publish", original)
        place.write(20)
        outcome = original(self, snapshot, base, entries)
        place.table().rollback_to(5)
        commit()
        return outcome

    monkeypatch.setattr(FilePublisher, "publish", busy)
    commit()
    assert place.rows() == [(1, 1), *((number, 0) for number in range(10, 15))]


def test_messages_of_version_3_are_still_read(place: Place) -> None:
    place.write(0)
    data = [_as_version_3(one) for one in place.written()]
    assert [m.seen for m in messages(data)] == [None]
    first = place.commit(data)
    place.write(2)
    assert place.commit(data).snapshot_id == first.snapshot_id


def _as_version_3(data: bytes) -> bytes:
    members = json.loads(data[42:])
    del members["seen"]
    body = json.dumps(members, sort_keys=True, separators=(",", ":")).encode()
    return struct.pack(">4sHI", MAGIC, 3, len(body)) + hashlib.sha256(body).digest() + body


def test_messages_name_what_their_writer_saw(place: Place) -> None:
    assert {m.seen for m in messages(place.written())} == {SeenSnapshot()}
    place.write(0)
    assert {m.seen for m in messages(place.written())} == {SeenSnapshot.of(place.table().store.snapshots.get(1))}


def test_abort_keeps_files_that_an_expired_snapshot_may_have_committed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = place.written()
    place.commit(data)
    with monkeypatch.context() as patch:
        shift_clock(patch, -1)
        rows = age(place, "tag")
    place.table().new_batch_write_builder().new_commit().abort(messages(data))
    assert place.rows() == rows
    assert [r["v"] for r in lw.read_table(place.table(), tag="keep").to_pylist()] == [1]


def test_a_replay_with_new_sequence_numbers_leaves_the_files_of_a_branch(tmp_path: Path) -> None:
    """The first commit was rolled back after a branch had been made of it; the replay writes the rows anew."""
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    columns = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, primary_keys=["k"], options={"bucket": "1"}))
    table = catalog.get_table("d.t")
    lw.write_table(pa.table({"k": [1], "v": ["first"]}, schema=columns), table)
    builder = table.new_batch_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(pa.table({"k": [1], "v": ["messages"]}, schema=columns))
        messages = write.prepare_commit()
        commit.commit(messages)
    table.create_branch("b", snapshot_id=2)
    table.rollback_to(1)
    lw.write_table(pa.table({"k": [1], "v": ["other"]}, schema=columns), table)
    with builder.new_commit() as again:
        again.commit(messages)
    assert lw.read_table(table)["v"].to_pylist() == ["messages"]
    assert lw.read_table(catalog.get_table("d.t$branch_b"))["v"].to_pylist() == ["messages"]
