"""Every storage call of the verbs of the lifecycle fails once: the table stays sound, and the next call finishes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from contract.fault_enumerator import SIX_FAULTS, Operation, enumerate_faults
from contract.faulty_storage import FaultKind, MemoryStorage
from lakewright.catalog.filesystem_catalog import FileSystemCatalog
from lakewright.maintenance.tag_lifecycle import create_due_tags
from lakewright.maintenance.upkeep import run_upkeep
from lakewright.maintenance.verify_findings import ERROR
from lakewright.spec.snapshot import to_json
from support.effort import is_thin

DAY_MILLIS = 24 * 60 * 60 * 1000
COLUMNS = pa.schema({"day": pa.string(), "n": pa.int64()})
BEFORE, AFTER = "before", "after"


@dataclass(frozen=True)
class State:
    """What a user sees of a table."""

    rows: tuple[int, ...]
    snapshots: int
    tags: tuple[str, ...]
    branches: tuple[str, ...]
    changelogs: int
    marks: tuple[str, ...] = ()  # of complete partitions and tags
    hints: tuple[bytes, ...] = ()


def opened(catalog: lw.Catalog) -> lw.FileStoreTable:
    return catalog.get_table("d.t")


def make(
    catalog: lw.Catalog,
    options: dict[str, str] | None = None,
    keys: list[str] | None = None,
    days: Sequence[str] = ("2020-01-01", "2020-01-02", "2999-01-01"),
) -> lw.FileStoreTable:
    """Make a table with a snapshot for each day: two days of the past and one to come."""
    catalog.create_database("d")
    given = {"bucket": "1" if keys else "-1", **(options or {})}
    schema = lw.Schema.from_pyarrow_schema(COLUMNS, partition_keys=["day"], primary_keys=keys, options=given)
    catalog.create_table("d.t", schema)
    table = opened(catalog)
    for n, day in enumerate(days):
        lw.write_table(pa.table({"day": [day], "n": [n]}), table.copy({"write-only": "true"}))
    return table


def look(catalog: lw.Catalog) -> State:
    """Return what a user sees, after all rows of all states were verified."""
    table = opened(catalog)
    store = table.store
    errors = [one for one in table.verify(full=True, snapshots="all").findings if one.severity == ERROR]
    # A power cut may undo one deletion and not the next one: the next expiry removes the rest, and nothing is lost.
    assert {one.kind for one in errors} <= {"snapshot-gap"}, errors
    # For the same reason the mark of a deleted tag may come back.
    marks = [info.path.rpartition("/")[2] for info in store.storage.walk(store.layout.root) if "_SUCCESS" in info.path]
    tags = tuple(table.list_tags())
    return State(
        tuple(sorted(lw.read_table(table)["n"].to_pylist())),
        len(store.snapshots.ids()),
        tags,
        tuple(table.list_branches()),
        len(store.changelogs.ids()),
        tuple(sorted(name for name in marks if name.removesuffix("_SUCCESS") in {"", *tags})),
    )


@dataclass(frozen=True)
class Verb:
    """A verb: how the table is made, the call, and how a user looks at it. States between are sound too."""

    prepare: Callable[[lw.Catalog], object]
    run: Callable[[lw.Catalog], object]
    look: Callable[[lw.Catalog], State] = look
    kinds: tuple[FaultKind, ...] = SIX_FAULTS


def prepare_tags(catalog: lw.Catalog) -> None:
    table = make(catalog, {"tag.create-success-file": "true"})
    for name in ("a", "b"):
        table.create_tag(name, 1, time_retained="1 ms")
    table.create_tag("kept", 2)


def prepare_due(catalog: lw.Catalog) -> None:
    options = {"tag.automatic-creation": "process-time", "tag.create-success-file": "true", "tag.num-retained-max": "2"}
    shift(make(catalog, options))


def shift(table: lw.FileStoreTable) -> None:
    """Let the snapshots be of some days ago."""
    store = table.store
    for snapshot_id in store.snapshots.ids():
        snapshot = store.snapshots.get(snapshot_id)
        older = replace(snapshot, time_millis=snapshot.time_millis - (9 - snapshot_id) * DAY_MILLIS)
        store.storage.replace(store.layout.snapshot_file(snapshot_id), to_json(older).encode())


def prepare_purge(catalog: lw.Catalog) -> None:
    table = make(catalog, days=("2020-01-01", "2020-01-02"))
    table.create_tag("v", 1)
    table.create_branch("b", "v")


def prepare_changelogs(catalog: lw.Catalog) -> None:
    table = make(catalog, {"changelog-producer": "input", "changelog.num-retained.max": "9"}, ["day", "n"])
    table.expire_snapshots(retain_max=1)
    assert len(table.store.changelogs.ids()) == 2


def prepare_repair(catalog: lw.Catalog) -> None:
    table = make(catalog)
    layout, storage = table.store.layout, table.store.storage
    table.create_tag("kept", 2)
    storage.replace(layout.latest_hint, b"2")
    storage.replace(layout.earliest_hint, b"9")
    storage.replace(layout.tag_file("cut"), b"{")


def look_at_broken(catalog: lw.Catalog) -> State:
    """Return what a user sees of a table with a tag that cannot be read, which is no sound one."""
    store = opened(catalog).store
    if "cut" in store.tags.list():
        return State((), 0, ("cut",), (), 0)
    hints = tuple(store.storage.read(path) for path in (store.layout.latest_hint, store.layout.earliest_hint))
    return replace(look(catalog), hints=hints)


def prepare_upkeep(catalog: lw.Catalog) -> None:
    options = {
        "snapshot.num-retained.min": "1",
        "snapshot.num-retained.max": "2",
        "lakewright.expire.grace": "0 s",
        "tag.automatic-creation": "process-time",
        "partition.expiration-time": "3 d",
    }
    shift(make(catalog, options))


def look_beside_tags(catalog: lw.Catalog) -> State:
    """Return what a user sees but for the tags: if upkeep runs twice, the snapshot of the first run gets one too."""
    return replace(look(catalog), tags=())


def upkeep(catalog: lw.Catalog) -> None:
    """Do what follows a commit; what only warns there is an error here."""
    failures = run_upkeep(opened(catalog).store)
    if failures:
        raise OSError(failures)


# With a full disk a deletion succeeds, and the power cut that follows may bring the tag back.
KINDS_OF_DELETIONS = tuple(kind for kind in SIX_FAULTS if kind is not FaultKind.DISK_FULL)
VERBS = {
    "expire partitions": Verb(make, lambda catalog: opened(catalog).expire_partitions("1 d")),
    "expire tags": Verb(prepare_tags, lambda catalog: opened(catalog).expire_tags(), kinds=KINDS_OF_DELETIONS),
    "automatic tags": Verb(
        prepare_due, lambda catalog: create_due_tags(opened(catalog).store), kinds=KINDS_OF_DELETIONS
    ),
    "mark partitions": Verb(make, lambda catalog: opened(catalog).mark_partition_done([{"day": "2020-01-01"}])),
    "purge": Verb(prepare_purge, lambda catalog: opened(catalog).purge_files()),
    "expire changelogs": Verb(prepare_changelogs, lambda catalog: opened(catalog).expire_changelogs(delete_all=True)),
    "repair": Verb(prepare_repair, lambda catalog: opened(catalog).repair(), look_at_broken),
    "upkeep": Verb(prepare_upkeep, upkeep, look_beside_tags),
}


# Its parts are verbs of their own: expiries of snapshots and partitions, and automatic tags.
NIGHTLY = pytest.param("upkeep", marks=pytest.mark.nightly)


@pytest.mark.long
@pytest.mark.parametrize("name", [*(name for name in VERBS if name != "upkeep"), NIGHTLY])
def test_every_fault_leaves_a_sound_table_and_the_next_call_finishes(name: str) -> None:
    verb, memory = VERBS[name], MemoryStorage(f"lifecycle-{name.replace(' ', '-')}")
    catalog = FileSystemCatalog(memory, f"{memory.root}/w", {})
    verb.prepare(catalog)
    before = verb.look(catalog)
    verb.run(catalog)
    done = verb.look(catalog)
    assert before != done
    memory.clear()

    def observe(catalog: lw.Catalog) -> object:
        return AFTER if verb.look(catalog) == done else BEFORE

    report = enumerate_faults(Operation(name, verb.prepare, verb.run, verb.run), observe, verb.kinds, thin=is_thin())
    assert report.calls > 0
    assert report.failures == ()


EXIT = """
import sys, time, pyarrow as pa, lakewright as lw
from lakewright.storage.local_storage import LocalStorage

table = lw.open_table(sys.argv[1])
read = LocalStorage.read
LocalStorage.read = lambda self, path: (time.sleep(0.01), read(self, path))[1]
builder = table.new_stream_write_builder()
write, commit = builder.new_write(), builder.new_commit()
write.write_arrow(pa.table({"day": ["2999-01-01"], "n": [99]}))
commit.commit(write.prepare_commit(1), 1)
"""


@pytest.mark.processes
def test_a_process_that_ends_after_a_commit_does_what_follows_it(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    counts = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"}
    table = make(catalog, {**counts, "lakewright.expire.grace": "0 s"})
    for n in range(9):
        lw.write_table(pa.table({"day": ["2999-01-01"], "n": [n]}), table.copy({"write-only": "true"}))
    done = subprocess.run([sys.executable, "-c", EXIT, table.table_path], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert table.store.snapshots.ids() == [12, 13]
    assert 99 in lw.read_table(table)["n"].to_pylist()
