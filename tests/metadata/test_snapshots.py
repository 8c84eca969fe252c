from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.faulty_storage import FaultyStorage
from lakewright.errors import CorruptTableError, NotFoundError
from lakewright.metadata.snapshot_files import BODY_READS_MAX, SnapshotFiles
from lakewright.spec.snapshot import CommitKind, Snapshot, to_json
from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.object_storage import ObjectStorage
from lakewright.storage.table_layout import Layout


@dataclass
class Table:
    """A snapshot directory with a clock that stands still."""

    root: Path
    waits: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.directory = self.root / "snapshot"
        self.directory.mkdir(exist_ok=True)
        self.snapshots = SnapshotFiles(LocalStorage(durable=False), Layout(str(self.root)), sleep=self.waits.append)

    def put(self, *ids: int, user: str = "user", watermark: int | None = None) -> None:
        for number in ids:
            snapshot = Snapshot(number, 0, "b", "d", user, 1, CommitKind.APPEND, number * 1000, watermark=watermark)
            (self.directory / f"snapshot-{number}").write_text(to_json(snapshot))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def test_a_table_never_written_has_no_snapshot(table: Table) -> None:
    found = table.snapshots
    assert (found.latest(), found.latest_id(), found.earliest(), found.earliest_id()) == (None, None, None, None)
    assert found.ids() == []
    assert found.of_user("user") is None


@pytest.mark.parametrize("hint", [None, "", "  ", "x", "-1", "0", "2", "3", "4", "5", "99", "9" * 30, "³"])
def test_whatever_the_hints_say_the_files_decide(table: Table, hint: str | None) -> None:
    table.put(3, 4)
    for name in ("LATEST", "EARLIEST"):
        if hint is not None:
            (table.directory / name).write_text(hint)
    assert table.snapshots.latest_id() == 4
    assert table.snapshots.earliest_id() == 3
    latest = table.snapshots.latest()
    assert latest is not None
    assert latest.id == 4


@pytest.mark.parametrize("hint", [5, 6, 9])
def test_nobody_follows_a_hint_below_a_gap(table: Table, hint: int) -> None:
    table.put(5, 6, 11, 12)
    table.snapshots.write_latest_hint(hint)
    latest = table.snapshots.latest()
    assert latest is not None
    assert (latest.id, table.snapshots.latest_id()) == (12, 12)


def test_a_hint_being_replaced_is_read_again(table: Table) -> None:
    table.snapshots.latest()
    assert table.waits == [0.001, 0.001]


@pytest.mark.parametrize(("seen", "newest"), [(4, 5), (9, 10), (95, 104), (2500, 2501), (9998, 10001), (2500, 2400)])
def test_on_a_remote_store_any_higher_id_is_found(seen: int, newest: int) -> None:
    storage = FaultyStorage(ObjectStorage("memory://"))
    snapshots = SnapshotFiles(storage, Layout(f"memory:///snapshots-{uuid.uuid4()}"))

    def put(number: int) -> None:
        snapshot = Snapshot(number, 0, "b", "d", "user", 1, CommitKind.APPEND, number * 1000)
        storage.replace(snapshots.layout.snapshot_file(number), to_json(snapshot).encode())

    put(2)
    put(seen)
    assert snapshots.latest_id() == seen
    storage.calls.clear()
    assert snapshots.latest() == snapshots.get(seen)
    assert sorted(call.verb for call in storage.calls[:-1]) == ["names", "read"]
    storage.delete(snapshots.layout.snapshot_file(seen))
    put(newest)
    found = snapshots.latest()
    assert found is not None
    assert (found.id, snapshots.latest_id()) == (newest, newest)


def test_a_hint_that_cannot_be_written_is_no_failure(table: Table) -> None:
    table.put(1)
    for name in ("LATEST", "EARLIEST"):
        (table.directory / name).mkdir()
    table.snapshots.write_latest_hint(1)
    table.snapshots.write_earliest_hint(1)


@pytest.mark.parametrize("requests", [1, 8])
def test_a_hint_is_not_read_whole(table: Table, monkeypatch: pytest.MonkeyPatch, requests: int) -> None:
    table.put(1, 2)
    for name in ("LATEST", "EARLIEST"):
        (table.directory / name).write_text("1" * 100_000)
    monkeypatch.setattr(LocalStorage, "requests_at_once", requests)
    read = LocalStorage.read

    def read_snapshots(self: LocalStorage, path: str) -> bytes:
        assert "snapshot-" in path
        return read(self, path)

    monkeypatch.setattr(LocalStorage, "read", read_snapshots)
    assert (table.snapshots.latest_id(), table.snapshots.earliest_id()) == (2, 1)


def test_temporary_files_are_not_snapshots(table: Table) -> None:
    table.put(2)
    for name in ("snapshot-3.tmp-x", ".snapshot-4.x.tmp", "snapshot-", "snapshot-05", "snapshot-x", "LATEST"):
        (table.directory / name).write_text("9")
    assert table.snapshots.ids() == [2]


def test_a_missing_snapshot_says_why(table: Table) -> None:
    table.put(3, 4)
    with pytest.raises(NotFoundError, match="has expired; the earliest that is left is 3") as caught:
        table.snapshots.get(2)
    assert caught.value.snapshot_id == 2
    with pytest.raises(NotFoundError, match="never existed; the newest is 4"):
        table.snapshots.get(5)
    with pytest.raises(NotFoundError, match="never existed"):
        table.snapshots.get(0)
    assert (table.snapshots.exists(3), table.snapshots.exists(5)) == (True, False)


def test_walking_back_passes_over_ids_that_a_rollback_removed(table: Table) -> None:
    table.put(2, 4, 5)
    assert [s.id for s in table.snapshots.walk_back(6)] == [5, 4, 2]
    assert [s.id for s in table.snapshots.walk_back(1)] == []


def test_the_newest_snapshot_of_a_user(table: Table) -> None:
    table.put(1, 2, user="me")
    table.put(3, user="you")
    found = table.snapshots.of_user("me")
    assert found is not None
    assert found.id == 2
    assert table.snapshots.of_user("nobody") is None


@given(
    ids=st.sets(st.integers(1, 12), min_size=1),
    millis=st.integers(0, 14_000) | st.integers(0, 13).map(lambda second: second * 1000),  # often the very time of one
)
def test_at_a_time_the_newest_that_is_not_newer(
    tmp_path_factory: pytest.TempPathFactory, ids: set[int], millis: int
) -> None:
    table = Table(tmp_path_factory.mktemp("t"))
    table.put(*ids)
    older = [number for number in ids if number * 1000 <= millis]
    if older:
        assert table.snapshots.at_timestamp(millis).id == max(older)
    else:
        with pytest.raises(NotFoundError, match=str(min(ids) * 1000)) as caught:
            table.snapshots.at_timestamp(millis)
        assert caught.value.earliest_millis == min(ids) * 1000


def test_at_a_time_of_an_empty_table(table: Table) -> None:
    with pytest.raises(NotFoundError, match="no snapshot at all"):
        table.snapshots.at_timestamp(5)


def test_at_a_watermark_the_oldest_that_reached_it(table: Table) -> None:
    table.put(1)
    table.put(2, watermark=-(2**63))
    table.put(3, watermark=10)
    table.put(4, 5, watermark=20)
    assert table.snapshots.at_watermark(-5).id == 3
    assert table.snapshots.at_watermark(11).id == 4
    with pytest.raises(NotFoundError, match="the highest is 20"):
        table.snapshots.at_watermark(21)


@pytest.mark.parametrize("content", [b"", b"{", b'{"version": 3, "id": 2,'])
def test_a_cut_snapshot_is_awaited_then_reported(table: Table, content: bytes) -> None:
    table.put(1)
    (table.directory / "snapshot-2").write_bytes(content)
    with pytest.raises(CorruptTableError, match=r"snapshot-2.*restore"):
        table.snapshots.latest()
    assert table.waits.count(0.2) == BODY_READS_MAX


def test_a_snapshot_that_is_being_written_is_read_once_it_is_whole(table: Table) -> None:
    table.put(1)
    whole = (table.directory / "snapshot-1").read_bytes()
    states: Iterator[bytes] = iter([whole[:40], whole])
    (table.directory / "snapshot-1").write_bytes(b"")

    def wait(_: float) -> None:
        (table.directory / "snapshot-1").write_bytes(next(states))

    assert replace(table.snapshots, sleep=wait).get(1).id == 1


def test_a_damaged_snapshot_is_reported_at_once(table: Table) -> None:
    table.put(1, 2)
    path = table.directory / "snapshot-2"
    path.write_text(path.read_text().replace("user", "usar"))
    with pytest.raises(CorruptTableError, match="snapshot-2 does not match its checksum") as caught:
        table.snapshots.latest()
    assert caught.value.path == str(path)
    path.write_text((table.directory / "snapshot-1").read_text())
    with pytest.raises(CorruptTableError, match="is the file of snapshot 1"):
        table.snapshots.get(2)
    assert 0.2 not in table.waits


def test_an_expiry_that_moves_the_earliest_is_followed(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.put(4, 5)
    monkeypatch.setattr(SnapshotFiles, "earliest_id", lambda _: 2)
    found = table.snapshots.earliest()
    assert found is not None
    assert found.id == 4
