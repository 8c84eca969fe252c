"""Every storage call of the verbs of branches and of a rollback fails once, in every way: the table stays whole."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from contract.fault_enumerator import OPTIONS, SIX_FAULTS, Operation, enumerate_faults
from contract.faulty_storage import Crash, Fault, FaultKind, FaultyStorage, MemoryStorage
from lakewright.maintenance.rollback import is_pin
from support.effort import is_thin, some

pytestmark = pytest.mark.long

COLUMNS = pa.schema({"k": pa.int64(), "v": pa.string()})
State = dict[str, object]


def write(table: lw.FileStoreTable, key: int) -> None:
    lw.write_table(pa.table({"k": [key], "v": ["x"]}, schema=COLUMNS), table)


def prepare(catalog: lw.Catalog) -> None:
    """Make a table with the snapshots 1 to 4 (tags: v1, v4), and a branch of v1 with two of its own."""
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS))
    table = catalog.get_table("d.t")
    write(table, 1)
    table.create_tag("v1")
    table.create_branch("b", "v1")
    for key in (2, 3, 4):
        write(table, key)
    table.create_tag("v4")
    branch = catalog.get_table("d.t$branch_b")
    for key in (20, 30):
        write(branch, key)


def rows(table: lw.FileStoreTable) -> list[int]:
    """Return the keys of the newest snapshot, after every other snapshot and tag has been read as well."""
    for snapshot_id in table.store.snapshots.ids():
        lw.read_table(table, snapshot_id=snapshot_id)
    for tag in table.list_tags():
        lw.read_table(table, tag=tag)
    return sorted(lw.read_table(table)["k"].to_pylist())


def observe(catalog: lw.Catalog) -> State:
    table = catalog.get_table("d.t")
    branches = {name: rows(catalog.get_table(f"d.t$branch_{name}")) for name in table.list_branches()}
    return {"rows": rows(table), **branches}


def create(catalog: lw.Catalog) -> None:
    catalog.create_branch("d.t", "new", "v1")


def drop(catalog: lw.Catalog) -> None:
    catalog.drop_branch("d.t", "b")


def rename(catalog: lw.Catalog) -> None:
    catalog.rename_branch("d.t", "b", "c")


def forward(catalog: lw.Catalog) -> None:
    catalog.fast_forward("d.t", "b", allow_loss=True)


def back(catalog: lw.Catalog) -> None:
    catalog.rollback_to("d.t", 2)


def back_to_tag(catalog: lw.Catalog) -> None:
    catalog.rollback_to("d.t", "v1")


def create_from_snapshot(catalog: lw.Catalog) -> None:
    catalog.get_table("d.t").create_branch("new", snapshot_id=3)


def restore(catalog: lw.Catalog) -> None:
    catalog.get_table("d.t").rollback_to_as_latest(2)


@pytest.mark.parametrize("run", [create, create_from_snapshot, drop, rename, restore])
def test_every_fault_of_a_branch_verb_leaves_the_branch_as_it_was_or_will_be(
    run: Callable[[lw.Catalog], None],
) -> None:
    report = enumerate_faults(Operation(run.__name__, prepare, run), observe, thin=is_thin())
    assert report.calls > 0
    assert report.failures == ()


def again(run: Callable[[lw.Catalog], None]) -> Callable[[lw.Catalog], None]:
    """Return the same operation two hours later, after which the snapshots and tags that it removes are gone."""

    def run_again(catalog: lw.Catalog) -> None:
        table = catalog.get_table("d.t")
        memory = table.store.storage
        assert isinstance(memory, MemoryStorage)
        memory.age(2 * 60 * 60 * 1000)
        run(catalog)
        assert (table.store.snapshots.ids(), table.list_tags()) == REMAINING[run]

    return run_again


REMAINING: dict[Callable[[lw.Catalog], None], tuple[list[int], list[str]]] = {
    forward: ([1, 2, 3], ["v1"]),
    back: ([1, 2], ["v1"]),
    back_to_tag: ([1], ["v1"]),
}


WAYS = [(forward, False), (back, True), (back_to_tag, True), (forward, True), (back, False), (back_to_tag, False)]


@pytest.mark.parametrize(("run", "renames"), some(WAYS, 0, 1))
def test_every_fault_of_a_forward_or_rollback_leaves_the_state_before_or_after(
    run: Callable[[lw.Catalog], None], *, renames: bool
) -> None:
    operation = Operation(run.__name__, prepare, run, again(run))
    report = enumerate_faults(operation, observe, tuple(some(SIX_FAULTS, 3)), renames=renames)
    assert report.calls > 0
    assert report.failures == ()


@pytest.mark.parametrize("kind", [FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER])
def test_a_forward_to_another_schema_that_is_killed_is_finished_by_the_same_call(kind: FaultKind) -> None:
    """Both branches have a schema 1, in different forms, and the table has more snapshots and tags than the branch."""
    memory = MemoryStorage("forward-to-another-schema")
    catalog = lw.FileSystemCatalog(memory, f"{memory.root}/w", OPTIONS)
    prepare(catalog)
    catalog.alter_table("d.t", [lw.SchemaChange.add_column("x", lw.AtomicType("INT"))])
    catalog.alter_table("d.t$branch_b", [lw.SchemaChange.add_column("y", lw.AtomicType("STRING"))])
    start = memory.image()
    counted = FaultyStorage(memory)
    forward(lw.FileSystemCatalog(counted, f"{memory.root}/w", OPTIONS))
    changes = [n for n, call in enumerate(counted.calls, 1) if call.verb in {"create", "replace", "delete"}]
    assert len(changes) > 5
    for call in changes:
        memory.restore(start)
        with pytest.raises(Crash):
            forward(lw.FileSystemCatalog(FaultyStorage(memory, [Fault(call, kind)]), f"{memory.root}/w", OPTIONS))
        forward(catalog)
        table = catalog.get_table("d.t")
        assert (table.store.snapshots.ids(), table.list_tags()) == REMAINING[forward], call
        assert (rows(table), [field.name for field in table.fields]) == ([1, 20, 30], ["k", "v", "y"]), call
    memory.clear()


def test_a_deleted_tag_does_not_come_back_after_a_power_cut() -> None:
    memory = MemoryStorage("deleted-tag")
    catalog = lw.FileSystemCatalog(memory, f"{memory.root}/w", OPTIONS)
    prepare(catalog)
    table = catalog.get_table("d.t")
    table.create_tag("v2", 2)
    start = memory.image()
    for seed in range(8):
        memory.restore(start)
        table.delete_tag("v2")
        table.rollback_to(3)
        memory.crash(seed)
        assert [tag for tag in table.list_tags() if not is_pin(tag)] == ["v1"], seed
    memory.clear()


def whole_or_dropped(catalog: lw.Catalog) -> State:
    """Return the rows of every branch that can be opened; one cut short lacks its first schema."""
    table = catalog.get_table("d.t")
    layout = table.store.layout
    whole = [n for n in table.list_branches() if table.store.storage.exists(layout.for_branch(n).schema_file(0))]
    return {"rows": rows(table), **{name: rows(catalog.get_table(f"d.t$branch_{name}")) for name in whole}}


def create_again(catalog: lw.Catalog) -> None:
    if "new" not in whole_or_dropped(catalog):
        create(catalog)


def drop_again(catalog: lw.Catalog) -> None:
    if "b" in catalog.list_branches("d.t"):
        drop(catalog)


@pytest.mark.parametrize(("run", "again"), [(create, create_again), (drop, drop_again)])
def test_on_an_object_store_the_same_call_finishes_a_creation_or_drop(
    run: Callable[[lw.Catalog], None], again: Callable[[lw.Catalog], None]
) -> None:
    operation = Operation(run.__name__, prepare, run, again)
    report = enumerate_faults(operation, whole_or_dropped, renames=False, thin=is_thin())
    assert report.calls > 0
    assert report.failures == ()


def prepare_expired(catalog: lw.Catalog) -> None:
    """Make a table whose oldest snapshot is newer than those of a branch and of a tag."""
    prepare(catalog)
    catalog.drop_branch("d.t", "b")
    catalog.create_branch("d.t", "b", "v1")
    write(catalog.get_table("d.t$branch_b"), 20)
    table = catalog.get_table("d.t")
    for key in (5, 6):
        write(table, key)
    table.expire_snapshots(retain_max=2, retain_min=1)
    assert table.store.snapshots.ids() == [5, 6]


@pytest.mark.parametrize("run", [forward, back_to_tag])
def test_a_cut_forward_or_rollback_to_what_has_expired_leaves_no_gap_in_the_ids(
    run: Callable[[lw.Catalog], None],
) -> None:
    memory = MemoryStorage(f"no-gaps-{run.__name__}")
    catalog = lw.FileSystemCatalog(memory, f"{memory.root}/w", OPTIONS)
    prepare_expired(catalog)
    start = memory.image()
    counted = FaultyStorage(memory)
    run(lw.FileSystemCatalog(counted, f"{memory.root}/w", OPTIONS))
    for number in range(1, len(counted.calls) + 1):
        memory.restore(start)
        killed = FaultyStorage(memory, [Fault(number, FaultKind.CRASH_BEFORE)])
        with pytest.raises(Crash):
            run(lw.FileSystemCatalog(killed, f"{memory.root}/w", OPTIONS))
        ids = catalog.get_table("d.t").store.snapshots.ids()
        assert ids == list(range(ids[0], ids[-1] + 1)), number
    memory.clear()


def forward_with_drop(catalog: lw.Catalog, stop: int) -> list[str]:
    """Drop the branch in the middle of a storage call of a forward to it (0: never); return the paths of the calls."""
    prepare(catalog)
    table = catalog.get_table("d.t")

    def drop_meanwhile() -> None:
        table.drop_branch("b")

    stopping = FaultyStorage(table.store.storage, [Fault(stop, FaultKind.SLOW)], pause=drop_meanwhile)
    with suppress(lw.NotFoundError, lw.InvalidInputError):
        replace(table, store=replace(table.store, storage=stopping)).fast_forward("b", allow_loss=True)
    return [call.path for call in stopping.calls]


def test_a_branch_that_is_dropped_during_a_forward_stays_dropped_on_a_disk(tmp_path: Path) -> None:
    def catalog(name: str) -> lw.Catalog:
        return lw.CatalogFactory.create({"warehouse": str(tmp_path / name), **OPTIONS})

    paths = forward_with_drop(catalog("undisturbed"), 0)
    pin = 1 + next(number for number, path in enumerate(paths) if "/branch-b/tag/tag-rollback-of" in path)
    for stop in range(pin - 5, pin + 5):
        dropped = catalog(str(stop))
        forward_with_drop(dropped, stop)
        assert dropped.get_table("d.t").list_branches() == [], stop


def prepare_other_schema(catalog: lw.Catalog) -> None:
    """Make a table and a branch of it whose newest schemas differ."""
    prepare(catalog)
    catalog.alter_table("d.t", [lw.SchemaChange.add_column("x", lw.AtomicType("INT"))])
    catalog.alter_table("d.t$branch_b", [lw.SchemaChange.add_column("y", lw.AtomicType("STRING"))])


@pytest.mark.parametrize("run", [forward, back, back_to_tag, restore])
def test_an_error_of_a_forward_or_rollback_that_has_changed_the_state_says_unknown(
    run: Callable[[lw.Catalog], None],
) -> None:
    """Any other error of the library may say that nothing was changed, as a lock does that is held by others."""
    memory = MemoryStorage(f"says-unknown-{run.__name__}")
    catalog = lw.FileSystemCatalog(memory, f"{memory.root}/w", OPTIONS)
    prepare_other_schema(catalog)
    start, before = memory.image(), rows(catalog.get_table("d.t"))
    counted = FaultyStorage(memory)
    run(lw.FileSystemCatalog(counted, f"{memory.root}/w", OPTIONS))
    for number in range(1, len(counted.calls) + 1):
        memory.restore(start)
        failing = FaultyStorage(memory, [Fault(number, FaultKind.ERROR_BEFORE)])
        says_unchanged = False
        try:
            run(lw.FileSystemCatalog(failing, f"{memory.root}/w", OPTIONS))
        except (lw.LakewrightError, OSError) as error:
            says_unchanged = not isinstance(error, lw.CommitUnknownError)
        if says_unchanged:
            assert rows(catalog.get_table("d.t")) == before, (number, counted.calls[number - 1])
    memory.clear()
