"""The history of a table: its files in, the states to verify out, with findings about what leads to them.

A state is a snapshot, a tag or a kept changelog of a branch. Hints, gaps between snapshots, schema files, tags,
branches and consumers are checked here. What always holds: a file that cannot be read is a finding, and the others are
still returned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from lakewright.errors import CorruptTableError, LakewrightError, NotFoundError
from lakewright.maintenance.orphans import branch_layouts
from lakewright.metadata.consumers import Consumers
from lakewright.metadata.refs import Tags
from lakewright.metadata.schemas import Schemas
from lakewright.metadata.snapshots import Changelogs, Snapshots
from lakewright.metadata.store import TableStore, placed
from lakewright.spec.schema.table_schema import TableSchema
from lakewright.spec.snapshot import Snapshot, snapshot_from_json, state_of
from lakewright.storage.layout import Layout
from lakewright.verify.findings import Findings


@dataclass(frozen=True, slots=True)
class State:
    """One state of a branch: what a snapshot, tag or kept changelog says."""

    path: str  # of the file that says it
    snapshot: Snapshot
    name: str  # for messages: "snapshot 7", "tag v1"
    is_changelog: bool = False  # of it only the changelog is kept
    is_tag: bool = False  # Java removes the changelog of an expired snapshot even if a tag names it


@dataclass(slots=True)
class Branch:
    """One branch of a table: how to read it, its schemas, and its states, oldest first."""

    store: TableStore
    schemas: dict[int, TableSchema] = field(default_factory=dict)
    states: list[State] = field(default_factory=list)

    def check_schema(self, schema_id: int, findings: Findings, *, by: str = "the table") -> bool:
        """Say whether a schema can be read, and add a finding if not; `by` says what needs it."""
        if schema_id not in self.schemas:
            path = self.store.layout.schema_file(schema_id)
            try:
                self.schemas[schema_id] = self.store.schemas.get(schema_id)
            except NotFoundError:
                findings.add("missing-schema", path, f"{by} needs schema {schema_id}, whose file does not exist")
            except LakewrightError as error:
                findings.add("damaged-metadata", path, error.message)
        return schema_id in self.schemas


def branch_store(store: TableStore, name: str) -> TableStore:
    """Return the store of a branch of the table, with its newest schema."""
    if name == store.layout.branch:
        return store
    layout = store.layout.for_branch(name)
    schema = Schemas(store.storage, layout).latest()
    if schema is None:
        raise CorruptTableError(
            f"{store.name}: branch {name} has no schema, so nobody can say which files it uses",
            table=store.name,
            path=layout.schema_directory,
        )
    home = store.home.for_branch(name)
    return TableStore(store.name, store.storage, placed(layout, schema), schema, None, home)


def newest_state(store: TableStore, findings: Findings) -> list[Branch]:
    """Return the branch of the store with its newest state alone."""
    branch = Branch(store)
    snapshots = Snapshots(store.storage, store.layout, store.home.history)
    ids = snapshots.ids()
    _check_ids(store.layout, ids, findings)
    _check_hints(store, ids, findings)
    branch.check_schema(store.schema.id, findings)
    if snapshots.owner is not None:
        newest = snapshots.latest()
        if newest is not None:
            branch.states.append(_of_snapshot(store.layout, newest))
    elif ids:
        branch.states.extend(_read_snapshots(store, ids[-1:], findings))
    return [branch]


def all_states(store: TableStore, findings: Findings) -> list[Branch]:
    """Return all branches of the table with all their states."""
    found = []
    for layout in branch_layouts(store):
        with findings.noting("damaged-branch", layout.schema_directory):
            branch = Branch(branch_store(store, layout.branch))
            _check_schemas(branch, findings)
            branch.states.extend(_states_of(branch.store, findings))
            _check_consumers(branch.store, findings)
            found.append(branch)
    return found


def _states_of(store: TableStore, findings: Findings) -> Iterator[State]:
    """Yield the snapshots of a branch, oldest first, then the tags with other states, then the kept changelogs."""
    layout = store.layout
    snapshots = Snapshots(store.storage, layout, store.home.history)
    ids = snapshots.ids()
    _check_ids(layout, ids, findings)
    _check_hints(store, ids, findings)
    states = list(_read_snapshots(store, ids, findings))
    newest = None if snapshots.owner is None else snapshots.latest()
    if newest is not None and newest.id not in ids:  # a server may keep it
        states.append(_of_snapshot(layout, newest))
    yield from states
    seen = {state_of(state.snapshot) for state in states}
    for state in _read_tags(store, findings):
        if state_of(state.snapshot) not in seen:
            seen.add(state_of(state.snapshot))
            yield state
    for snapshot_id in Changelogs(store.storage, layout).ids():
        path = layout.changelog_file(snapshot_id)
        with findings.noting("damaged-metadata", path):
            snapshot = Changelogs(store.storage, layout).find(snapshot_id)
            if snapshot is not None:
                yield State(path, snapshot, f"changelog {snapshot_id}", is_changelog=True)


def _of_snapshot(layout: Layout, snapshot: Snapshot) -> State:
    return State(layout.snapshot_file(snapshot.id), snapshot, f"snapshot {snapshot.id}")


def _read_snapshots(store: TableStore, ids: list[int], findings: Findings) -> Iterator[State]:
    for snapshot_id in ids:
        path = store.layout.snapshot_file(snapshot_id)
        with findings.noting("damaged-metadata", path, state=path):
            snapshot = snapshot_from_json(store.storage.read(path), path=path)
            if snapshot.id != snapshot_id:
                raise CorruptTableError(f"{path} is the file of snapshot {snapshot.id}", path=path)
            yield State(path, snapshot, f"snapshot {snapshot_id}")


def _read_tags(store: TableStore, findings: Findings) -> Iterator[State]:
    """Yield the tags: those that are files and, where a server owns the history, its own."""
    layout = store.layout
    owners = (None,) if store.home.history is None else (None, store.home.history)
    for tags in (Tags(store.storage, layout, owner) for owner in owners):
        for name in tags.list():
            path = f"{layout.tag_directory}/tag-{name}"
            with findings.noting("damaged-tag", path, state=path):
                yield State(path, tags.get(name).snapshot, f"tag {name}", is_tag=True)


def _check_ids(layout: Layout, ids: list[int], findings: Findings) -> None:
    for before, after in pairwise(ids):
        if after != before + 1:
            gone = f"snapshot {before + 1}" if after == before + 2 else f"snapshots {before + 1} to {after - 1}"
            text = f"{gone} of branch {layout.branch} do not exist, though earlier and later ones do"
            findings.add("snapshot-gap", layout.snapshot_file(before + 1), text.replace("do not", "does not", 1))


def _check_hints(store: TableStore, ids: list[int], findings: Findings) -> None:
    """Compare the hints with the snapshots; readers only use them to look at the right place first."""
    if store.home.history is not None or not ids:
        return
    for path, expected in ((store.layout.latest_hint, ids[-1]), (store.layout.earliest_hint, ids[0])):
        try:
            text = store.storage.read(path).strip()
        except FileNotFoundError:
            continue  # a hint may be absent
        if text != b"%d" % expected:
            said = text[:20].decode(errors="replace")
            findings.add("hint", path, f"the hint {path} says {said!r} where the snapshot is {expected}")


def _check_schemas(branch: Branch, findings: Findings) -> None:
    schemas = branch.store.schemas
    ids = schemas.ids()
    for schema_id in ids:
        branch.check_schema(schema_id, findings)
    for schema_id in sorted(set(range(ids[-1] if ids else 0)) - set(ids)):
        path = branch.store.layout.schema_file(schema_id)
        findings.add("schema-gap", path, f"there is no schema {schema_id}, though there are later ones")


def _check_consumers(store: TableStore, findings: Findings) -> None:
    consumers = Consumers(store.storage, store.layout, sleep=lambda _: None)
    ids = Snapshots(store.storage, store.layout, store.home.history).ids()
    names = (info.path.rpartition("/")[2] for info in store.storage.list(store.layout.consumer_directory))
    for name in sorted(name.removeprefix("consumer-") for name in names if name.startswith("consumer-")):
        path = f"{store.layout.consumer_directory}/consumer-{name}"
        try:
            position = consumers.next_snapshot(name)
        except LakewrightError as error:
            findings.add("damaged-consumer", path, error.message)
            continue
        if position is not None and ids and not ids[0] <= position <= ids[-1] + 1:
            text = f"consumer {name} waits for snapshot {position}, and there are {ids[0]} to {ids[-1]}"
            findings.add("consumer", path, text)
