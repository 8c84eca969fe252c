"""A writer that is paused between planning and publishing learns whether its snapshot belongs to the history."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest

import lakewright as lw
from contract.faulty_storage import FaultyStorage, MemoryStorage
from lakewright.storage.object_storage import ObjectStorage
from lakewright.storage.storage import Storage

FIELDS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("who", pa.string())])
STORES: dict[str, Callable[[], Storage]] = {
    "disk": lambda: MemoryStorage(f"confirm-{uuid.uuid4()}"),
    "object store": lambda: ObjectStorage("memory://"),
}


@dataclass
class Paused(FaultyStorage):
    """A storage that runs something once, right before or right after a snapshot file is created."""

    inner: Storage
    meanwhile: Callable[[], object] | None = field(default=None)
    after: Callable[[], object] | None = field(default=None)

    def __post_init__(self) -> None:
        super().__init__(self.inner)

    def create(self, path: str, data: bytes) -> bool:
        is_snapshot = path.rpartition("/")[2].startswith("snapshot-")
        if is_snapshot and self.meanwhile is not None:
            call, self.meanwhile = self.meanwhile, None
            call()
        created = super().create(path, data)
        if is_snapshot and self.after is not None:
            call, self.after = self.after, None
            call()
        return created


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "who": ["x"] * len(ids)}, schema=FIELDS)


class Scene:
    """A table with one row, and a second handle of it whose storage can be paused."""

    def __init__(self, store: str, keys: list[str] | None) -> None:
        inner = STORES[store]()
        root = f"{inner.root}/w" if isinstance(inner, MemoryStorage) else f"memory:///confirm-{uuid.uuid4()}"
        self.catalog = lw.FileSystemCatalog(inner, root, {})
        self.catalog.create_database("d")
        options = {"bucket": "1", "write-only": "true"} if keys else {}
        self.catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(FIELDS, primary_keys=keys, options=options))
        self.keys = keys
        self.paused = Paused(inner)
        self.write(0)
        opened = self.open()
        self.slow = replace(opened, store=replace(opened.store, storage=self.paused))

    def open(self) -> lw.FileStoreTable:
        table = self.catalog.get_table("d.t")
        assert isinstance(table, lw.FileStoreTable)
        return table

    def write(self, *ids: int, table: lw.FileStoreTable | None = None) -> None:
        table = table or self.open()
        lw.write_table(rows(*ids), table, mode="upsert" if self.keys else "append")

    def ids(self) -> list[int]:
        return sorted(lw.read_table(self.open())["id"].to_pylist())


@pytest.fixture(
    params=[(s, k) for s in STORES for k in (None, ["id"])], ids=lambda p: f"{p[0]}-{'keyed' if p[1] else 'append'}"
)
def scene(request: pytest.FixtureRequest) -> Scene:
    return Scene(*request.param)


@pytest.mark.parametrize("others", [1, 2, 3, 4])
@pytest.mark.parametrize("kept", [1, 2])
def test_an_id_that_was_used_and_has_expired_is_not_used_again(scene: Scene, others: int, kept: int) -> None:
    """The expired id is below a gap, or right below the oldest snapshot that is left, or it was not expired at all."""

    def meanwhile() -> None:
        for number in range(1, others + 1):
            scene.write(number)
        scene.open().expire_snapshots(retain_max=kept, retain_min=1)

    scene.paused.meanwhile = meanwhile
    scene.write(99, table=scene.slow)
    assert scene.ids() == [0, *range(1, others + 1), 99]
    scene.write(100)
    assert scene.ids() == [0, *range(1, others + 1), 99, 100]
    ids = scene.open().store.snapshots.ids()
    assert ids == list(range(ids[0], others + 4))


def test_a_base_that_expires_after_the_publishing_is_no_rollback(scene: Scene) -> None:
    scene.paused.after = lambda: scene.open().expire_snapshots(retain_max=1, retain_min=1)
    scene.write(99, table=scene.slow)
    assert (scene.ids(), scene.open().store.snapshots.ids()) == ([0, 99], [2])


def test_a_commit_that_others_extend_before_it_is_confirmed_stays(scene: Scene) -> None:
    def after() -> None:
        for number in (1, 2, 3):
            scene.write(number)
        scene.open().expire_snapshots(retain_max=3, retain_min=1)

    scene.paused.after = after
    scene.write(99, table=scene.slow)
    assert (scene.ids(), scene.open().store.snapshots.ids()) == ([0, 1, 2, 3, 99], [3, 4, 5])


def test_merged_manifests_on_top_still_show_that_a_commit_was_extended(scene: Scene) -> None:
    def after() -> None:
        merging = {"manifest.merge-min-count": "2", "manifest.full-compaction-threshold-size": "1 b"}
        scene.write(1, table=scene.open().copy(merging))

    scene.paused.after = after
    scene.write(99, table=scene.slow)
    assert (scene.ids(), scene.open().store.snapshots.ids()) == ([0, 1, 99], [1, 2, 3])


def test_a_base_that_was_rolled_back_is_not_extended(scene: Scene) -> None:
    scene.write(1)
    scene.paused.meanwhile = lambda: scene.open().rollback_to(1)
    scene.write(99, table=scene.slow)
    assert (scene.ids(), scene.open().store.snapshots.ids()) == ([0, 99], [1, 2])


def test_a_stray_below_the_oldest_snapshot_is_not_taken_for_the_target_of_a_rollback(scene: Scene) -> None:
    for number in (1, 2, 3):
        scene.write(number)
    store = scene.open().store
    stray = (
        store.storage.read(store.layout.snapshot_file(2))
        .replace(b'"id" : 2', b'"id" : 1')
        .replace(b'"id": 2', b'"id": 1')
    )
    scene.open().expire_snapshots(retain_max=1, retain_min=1)
    store.storage.replace(store.layout.snapshot_file(1), stray)
    scene.paused.after = lambda: store.storage.delete(store.layout.snapshot_file(4))  # its base expires
    scene.write(99, table=scene.slow)
    assert scene.ids() == [0, 1, 2, 3, 99]
