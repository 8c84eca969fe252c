"""Runs an operation with each storage call failing once, in every way, and checks the warehouse after each run.

An operation is prepared on a fresh memory storage, run once to count its calls, and then run again for each call and
each fault. After each run a power cut is simulated, the warehouse is opened again and checked:

- it can be read, and is in the state before or the state after the operation, never between;
- an operation that returned has happened, one whose error means that nothing was published has not;
- the same operation, run again, ends in the state after;
- after the removal of orphans the files of the table are exactly the files in use.

Many faults change no file. The checks after such a fault always have the same result, so they run once for each
operation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from contract.faulty_storage import Crash, Fault, FaultKind, FaultyStorage, MemoryImage, MemoryStorage
from lakewright.catalog.catalog import Catalog
from lakewright.catalog.filesystem_catalog import FileSystemCatalog
from lakewright.errors import (
    CommitConflictError,
    CommitContentionError,
    InvalidInputError,
    LakewrightError,
    NotFoundError,
)
from lakewright.metadata.refs import branches
from lakewright.metadata.snapshot_files import Changelogs
from lakewright.metadata.table_store import TableStore
from lakewright.spec.manifest import ManifestFile
from lakewright.storage.storage import Storage

SIX_FAULTS = (
    FaultKind.ERROR_BEFORE,
    FaultKind.ERROR_AFTER,
    FaultKind.CRASH_BEFORE,
    FaultKind.CRASH_AFTER,
    FaultKind.SHORT_WRITE,
    FaultKind.DISK_FULL,
)
OPTIONS = {
    "table-default.lakewright.write-threads": "1",
    "table-default.lakewright.read-threads": "1",
    "table-default.commit.max-retries": "3",
}
_NOTHING_HAPPENED = (CommitConflictError, CommitContentionError, InvalidInputError, NotFoundError)
_names = itertools.count()

State: TypeAlias = object
Action: TypeAlias = Callable[[Catalog], object]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of a user, and how the warehouse is prepared for it.

    `again` is how a user repeats the operation after a failure: by default the same call if the state is still the one
    before, and nothing if it is the one after.
    """

    name: str
    prepare: Action
    run: Action
    again: Action | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The number of calls and runs of an operation, and the failures of its checks."""

    operation: str
    calls: int
    runs: int
    failures: tuple[str, ...]


def enumerate_faults(
    operation: Operation,
    observe: Callable[[Catalog], State],
    kinds: tuple[FaultKind, ...] = SIX_FAULTS,
    *,
    renames: bool = True,
    at_once: int = 1,
    thin: bool = False,
) -> Report:
    """Run an operation with every call failing in every way; without `renames` on a storage like an object store.

    With `at_once` above 1 calls are made side by side: which call has which number then differs from run to run, but
    what is checked must hold all the same. With `thin` every call fails in one or two of the ways alone, its
    neighbours in others.
    """
    memory = MemoryStorage(f"enumerator-{next(_names)}", renames=renames, requests_at_once=at_once)
    operation.prepare(_open(memory))
    start = memory.image()
    before = observe(_open(memory))
    counted = FaultyStorage(memory)
    operation.run(_open(counted))
    after = observe(_open(memory))
    failures = []
    trial = _Trial(operation, observe, memory, start, before, after)
    faults = [Fault(call, kind) for call in range(1, len(counted.calls) + 1) for kind in kinds]
    if thin:
        # One less than the number of ways has no factor in common with it, so the ways follow each other in turn.
        faults = faults[:: max(1, len(kinds) - 1)]
    for seed, fault in enumerate(faults):
        memory.restore(start)
        failures += [f"{operation.name}, {fault.kind} at call {fault.call}: {text}" for text in trial.run(fault, seed)]
    memory.clear()
    return Report(operation.name, len(counted.calls), len(faults), tuple(failures))


@dataclass(slots=True)
class _Trial:
    operation: Operation
    observe: Callable[[Catalog], State]
    memory: MemoryStorage
    start: MemoryImage
    before: State
    after: State
    followed: bool = False  # whether the checks ran once after a fault that changed no file

    def run(self, fault: Fault, seed: int) -> Iterator[str]:
        """Yield the failures of the checks after one fault."""
        outcome = _outcome(self.operation.run, _open(FaultyStorage(self.memory, [fault])))
        if isinstance(outcome, str):
            yield outcome
        self.memory.crash(seed)
        if self.memory.image() == self.start:
            if self.followed:
                yield from self._judge(self.before, outcome)
                return
            self.followed = True
        catalog = _open(self.memory)
        try:
            state = self.observe(catalog)
        except Exception as error:  # noqa: BLE001 - any error is a failure of the check
            yield f"the warehouse cannot be read: {error!r}"
            return
        yield from self._judge(state, outcome)
        yield from self._repeat(state, catalog)
        yield from self._clean(catalog)

    def _judge(self, state: State, outcome: BaseException | str | None) -> Iterator[str]:
        if state not in (self.before, self.after):
            yield f"a state between: {state}"
        elif outcome is None and state != self.after:
            yield "acknowledged and lost"
        elif isinstance(outcome, _NOTHING_HAPPENED) and state != self.before:
            yield f"said that nothing happened, but it did: {outcome!r}"

    def _repeat(self, state: State, catalog: Catalog) -> Iterator[str]:
        if self.operation.again is None and state == self.after:
            return
        try:
            (self.operation.again or self.operation.run)(catalog)
        except Exception as error:  # noqa: BLE001 - any error is a failure of the check
            yield f"asked for again: {error!r}"
            return
        if self.observe(catalog) != self.after:
            yield f"asked for again, it ends in {self.observe(catalog)}"

    def _clean(self, catalog: Catalog) -> Iterator[str]:
        self.memory.age(7 * 24 * 60 * 60 * 1000)
        for database in catalog.list_databases():
            for name in catalog.list_tables(database):
                table = catalog.get_table(f"{database}.{name}")
                table.remove_orphan_files()
                stray = stray_files(table.store)
                if stray:
                    yield f"not in use after the clean-up: {sorted(stray)[:3]}"


def _open(storage: Storage) -> Catalog:
    memory = storage.inner if isinstance(storage, FaultyStorage) else storage
    assert isinstance(memory, MemoryStorage)
    return FileSystemCatalog(storage, f"{memory.root}/warehouse", OPTIONS)


def _outcome(run: Action, catalog: Catalog) -> BaseException | str | None:
    """Return None for a return, the error for one the library may raise, and text for any other."""
    try:
        run(catalog)
    except (LakewrightError, OSError, Crash) as error:
        return error
    except Exception as error:  # noqa: BLE001 - an error that is none of the library's is a failure
        return f"an error outside the tree: {error!r}"
    return None


def stray_files(store: TableStore) -> set[str]:
    """Return the files of a table that nothing names, without using the code that removes orphans."""
    found = {info.path for info in store.storage.walk(store.layout.root)}
    found = {path for path in found if not path.endswith("_SUCCESS")}  # these say that a partition or tag is complete
    names = branches(store.storage, store.layout)
    for layout in (store.layout, *map(store.layout.for_branch, names)):
        found -= _used_files(replace(store, layout=layout))
    return found


def _used_files(store: TableStore) -> set[str]:
    """Return the files that the snapshots and tags of one branch need, and those of the branch itself."""
    used = {store.layout.latest_hint, store.layout.earliest_hint, f"{store.layout.changelog_directory}/EARLIEST"}
    used |= {store.layout.schema_file(schema_id) for schema_id in store.schemas.ids()}
    used |= {store.layout.snapshot_file(snapshot_id) for snapshot_id in store.snapshots.ids()}
    used |= {store.layout.tag_file(name) for name in store.tags.list()}
    used |= {info.path for info in store.storage.list(store.layout.job_directory)}
    used |= {store.layout.consumer_file(name) for name in store.consumers.list()}
    snapshots = [store.snapshots.get(snapshot_id) for snapshot_id in store.snapshots.ids()]
    manifests: dict[str, ManifestFile] = {}  # by name: most are named by many snapshots, and are read only once
    snapshots += [store.tags.get(name).snapshot for name in store.tags.list()]
    lists = {name for s in snapshots for name in (s.base_manifest_list, s.delta_manifest_list)}
    changelogs = Changelogs(store.storage, store.layout)
    used |= {store.layout.changelog_file(snapshot_id) for snapshot_id in changelogs.ids()}
    logged = [*snapshots, *(changelogs.find(snapshot_id) for snapshot_id in changelogs.ids())]
    lists |= {s.changelog_manifest_list for s in logged if s is not None and s.changelog_manifest_list is not None}
    for name in lists:
        used.add(store.layout.manifest_file(name))
        manifests |= {manifest.file_name: manifest for manifest in store.manifests.read_list(name)}
    for manifest in manifests.values():
        used |= set(_named_by(store, manifest))
    for name in {s.index_manifest for s in snapshots if s.index_manifest is not None}:
        used |= set(_indexes_of(store, name))
    return used | {store.layout.statistics_file(s.statistics) for s in snapshots if s.statistics is not None}


def _indexes_of(store: TableStore, index_manifest: str) -> Iterator[str]:
    """Yield an index manifest and every index file that it names."""
    yield store.layout.manifest_file(index_manifest)
    for entry in store.manifests.read_index(index_manifest):
        place = store.layout.bucket_directory(store.partition_directory(entry.partition), entry.bucket)
        yield store.layout.index_file(entry.file, place)


def _named_by(store: TableStore, manifest: ManifestFile) -> Iterator[str]:
    """Yield a manifest and every file that it names."""
    yield store.layout.manifest_file(manifest.file_name)
    for entry in store.manifests.read(manifest):
        place = store.partition_directory(entry.partition)
        yield store.layout.data_file(place, entry.bucket, entry.file)
