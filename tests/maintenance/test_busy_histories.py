"""Rollbacks and fast-forwards beside a writer at work: what it was told is published stays, and can be read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.metadata.snapshot_files import SnapshotFiles
from lakewright.storage.local_storage import LocalStorage


@pytest.fixture
def catalog(tmp_path: Path) -> lw.Catalog:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"id": pa.int64()})))
    return catalog


def opened(catalog: lw.Catalog, name: str = "d.t") -> lw.FileStoreTable:
    table = catalog.get_table(name)
    assert isinstance(table, lw.FileStoreTable)
    return table


def append(catalog: lw.Catalog, number: int, name: str = "d.t") -> None:
    lw.write_table(pa.table({"id": pa.array([number], pa.int64())}), opened(catalog, name))


def ids(catalog: lw.Catalog, tag: str | None = None) -> list[int]:
    return sorted(lw.read_table(opened(catalog), tag=tag)["id"].to_pylist())


def at_first_write(monkeypatch: pytest.MonkeyPatch, where: str, act: Callable[[], None], number: int = 1) -> None:
    """Let others act right before the next file is written whose path contains a text, or before a later one."""
    left = number

    def hooked(verb: str) -> None:
        original = getattr(LocalStorage, verb)

        def call(self: LocalStorage, path: str, *args: object, **more: object) -> object:
            nonlocal left
            if where in path and left:
                left -= 1
                if not left:
                    act()
            return original(self, path, *args, **more)

        monkeypatch.setattr(LocalStorage, verb, call)

    for verb in ("create", "replace"):
        hooked(verb)


@pytest.mark.parametrize("number", range(1, 7))
def test_a_late_hint_after_a_busy_rollback_misleads_nobody(
    catalog: lw.Catalog, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A writer is paused before it writes the hint LATEST; meanwhile its snapshot is rolled back, beside a commit."""
    for n in range(1, 6):
        append(catalog, n)
    late: list[Callable[[], None]] = []
    with monkeypatch.context() as patch:
        original = SnapshotFiles.write_latest_hint
        patch.setattr(SnapshotFiles, "write_latest_hint", lambda self, n: late.append(lambda: original(self, n)))
        append(catalog, 6)
    for n in range(7, 11):
        append(catalog, n)
    with monkeypatch.context() as patch:
        at_first_write(patch, "/snapshot/snapshot-", lambda: append(catalog, 100), number)
        opened(catalog).rollback_to(5)
    rows = ids(catalog)
    assert rows[:5] == [1, 2, 3, 4, 5]
    assert 100 in rows or number == 1  # committed before the rollback began to publish, and rolled back with the rest
    assert opened(catalog).verify().is_sound
    late[0]()
    assert ids(catalog) == rows
    append(catalog, 101)
    assert ids(catalog) == sorted([*rows, 101])
    snapshots = opened(catalog).store.snapshots.ids()
    assert snapshots == list(range(1, len(snapshots) + 1))
    assert opened(catalog).verify(snapshots="all").is_sound


@pytest.mark.parametrize("where", ["/schema/schema-", "/snapshot/snapshot-"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_fast_forward_keeps_the_schemas_that_a_writer_at_work_needs(
    catalog: lw.Catalog, monkeypatch: pytest.MonkeyPatch, where: str, number: int
) -> None:
    """The branch lacks the newest schema of the table, and the writer commits with that schema meanwhile."""
    append(catalog, 1)
    opened(catalog).create_branch("b", snapshot_id=1)
    append(catalog, 2, "d.t$branch_b")
    catalog.alter_table("d.t", [lw.SchemaChange.add_column("price", lw.AtomicType("INT"))])
    lw.write_table({"id": [3], "price": [7]}, opened(catalog))
    published: list[int | None] = []

    def act() -> None:
        published.append(lw.write_table({"id": [4], "price": [8]}, opened(catalog)).snapshot_id)
        opened(catalog).create_tag("mine")

    with monkeypatch.context() as patch:
        at_first_write(patch, where, act, number)
        opened(catalog).fast_forward("b", allow_loss=True)
    rows = ids(catalog)
    assert set(rows) >= {1, 2}
    if "mine" in opened(catalog).list_tags():
        assert 4 in ids(catalog, tag="mine")
    append(catalog, 5)
    assert ids(catalog) == sorted([*rows, 5])
    assert opened(catalog).verify(snapshots="all").is_sound


class KilledError(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("forward", [False, True], ids=["rollback", "fast-forward"])
def test_what_a_killed_rollback_or_fast_forward_leaves_is_sound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, forward: bool
) -> None:
    for number in range(1, 30):
        catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path / str(number))})
        catalog.create_database("d")
        catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"id": pa.int64()})))
        append(catalog, 1)
        append(catalog, 2)
        opened(catalog).create_branch("b", snapshot_id=2)
        append(catalog, 50, "d.t$branch_b")
        for n in range(3, 7):
            append(catalog, n)
        reached = False

        def kill() -> None:
            nonlocal reached
            reached = True
            raise KilledError

        with monkeypatch.context() as patch:
            at_first_write(patch, "/snapshot/", kill, number)
            with contextlib.suppress(KilledError):
                opened(catalog).fast_forward("b", allow_loss=True) if forward else opened(catalog).rollback_to(2)
        if not reached:
            break
        found = [f for f in opened(catalog).verify(snapshots="all").findings if f.severity == "error"]
        assert found == [], number
    assert 3 < number < 29
