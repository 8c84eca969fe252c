from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.commit.commit_loop import FilePublisher, confirm_published
from lakewright.metadata.authority import LostRace, Published, Unknown
from lakewright.spec.snapshot import CommitKind, Snapshot, to_json
from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.table_layout import Layout

OURS = Snapshot(1, 0, "b", "d", "me", 1, CommitKind.APPEND, 0, uuid="ours")
THEIRS = replace(OURS, commit_user="them", uuid="theirs", base_manifest_list="b2", delta_manifest_list="d2")


class Scripted:
    """A storage whose creations and reads do what a test says."""

    def __init__(self, root: Path, *, renames: bool = True) -> None:
        self.inner = LocalStorage(durable=False)
        self.renames_atomically = renames
        self.requests_at_once = 1
        self.path = Layout(str(root)).snapshot_file(1)
        self.before: OSError | None = None
        self.after: OSError | None = None
        self.read_error: OSError | None = None
        self.meanwhile: bytes | None = None
        self.reads = 0

    def create(self, path: str, data: bytes) -> bool:
        if self.before:
            raise self.before
        created = self.inner.create(path, data)
        if self.meanwhile is not None:
            self.inner.replace(path, self.meanwhile)
        if self.after:
            raise self.after
        return created

    def read(self, path: str) -> bytes:
        self.reads += 1
        if self.read_error:
            raise self.read_error
        return self.inner.read(path)


def publisher(storage: Scripted, root: Path) -> FilePublisher:
    return FilePublisher(storage, Layout(str(root)))  # type: ignore[arg-type]


def test_the_first_is_published_and_the_second_lost(tmp_path: Path) -> None:
    storage = Scripted(tmp_path)
    assert publisher(storage, tmp_path).publish(OURS, None) == Published(1)
    assert publisher(storage, tmp_path).publish(THEIRS, None) == LostRace(1)
    assert storage.inner.read(storage.path) == to_json(OURS).encode()


def test_our_own_earlier_try_is_recognised(tmp_path: Path) -> None:
    storage = Scripted(tmp_path)
    storage.inner.create(storage.path, to_json(OURS).encode())
    assert publisher(storage, tmp_path).publish(OURS, None) == Published(1)


def test_our_own_snapshot_is_recognised_without_its_uuid(tmp_path: Path) -> None:
    """Servers and other writers drop members that they do not know."""
    storage = Scripted(tmp_path)
    storage.inner.create(storage.path, to_json(replace(OURS, uuid=None)).encode())
    assert publisher(storage, tmp_path).publish(OURS, None) == Published(1)
    assert publisher(storage, tmp_path).publish(replace(THEIRS, uuid=None), None) == LostRace(1)


def test_a_lost_reply_is_looked_up(tmp_path: Path) -> None:
    storage = Scripted(tmp_path)
    storage.after = TimeoutError("no reply")
    assert publisher(storage, tmp_path).publish(OURS, None) == Published(1)
    assert publisher(storage, tmp_path).publish(THEIRS, None) == LostRace(1)


def test_what_cannot_be_looked_up_is_unknown(tmp_path: Path) -> None:
    storage = Scripted(tmp_path)
    storage.before = TimeoutError("no reply")
    assert publisher(storage, tmp_path).publish(OURS, None) == Unknown(storage.before)
    storage.before = None
    storage.after = TimeoutError("no reply")
    storage.read_error = PermissionError("not now")
    assert publisher(storage, tmp_path).publish(OURS, None) == Unknown(storage.read_error)


@pytest.mark.parametrize("bytes_there", [b"", b"{", b'{"id": 1}'])
def test_a_damaged_file_in_our_place_is_unknown(tmp_path: Path, bytes_there: bytes) -> None:
    storage = Scripted(tmp_path)
    storage.inner.create(storage.path, bytes_there)
    assert isinstance(publisher(storage, tmp_path).publish(OURS, None), Unknown)


def test_a_foreign_rename_over_our_snapshot_is_noticed_where_renames_exist(tmp_path: Path) -> None:
    storage = Scripted(tmp_path)
    storage.meanwhile = to_json(THEIRS).encode()
    assert publisher(storage, tmp_path).publish(OURS, None) == LostRace(1)


def test_object_stores_are_spared_the_second_look(tmp_path: Path) -> None:
    storage = Scripted(tmp_path, renames=False)
    assert publisher(storage, tmp_path).publish(OURS, None) == Published(1)
    assert storage.reads == 0


@pytest.mark.parametrize(
    ("gone", "newest", "taken_back"),
    [
        ((), 3, False),
        ((2,), 3, True),  # an older one is left: the base was rolled back
        ((1, 2), 3, False),  # none is left: the base has expired
        ((2,), 4, False),  # somebody built on ours
    ],
)
def test_a_snapshot_is_taken_back_only_if_its_base_was_rolled_back(
    tmp_path: Path, gone: tuple[int, ...], newest: int, *, taken_back: bool
) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", pa.schema({"n": pa.int64()}))
    table = catalog.get_table("d.t")
    for number in range(newest):
        lw.write_table(pa.table({"n": [number]}), table)
    store = table.store
    base, own = store.snapshots.get(2), store.snapshots.get(3)
    for snapshot_id in gone:
        store.storage.delete(store.layout.snapshot_file(snapshot_id))
    outcome = confirm_published(store, base, own, list(store.manifests.delta(own)))
    assert isinstance(outcome, Unknown if taken_back else Published)
    assert store.snapshots.exists(3) is not taken_back
