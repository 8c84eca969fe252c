"""Small tables and commit messages for tests of the commit room; the contents of the files do not matter."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from uuid import UUID

from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.committer import Committer
from lakewright.metadata.schema_files import SchemaFiles
from lakewright.metadata.table_store import TableStore
from lakewright.spec.binary_row import encode_row
from lakewright.spec.manifest import ADD, DataFile
from lakewright.spec.schema import Schema, new_table_schema
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.types import AtomicType, DataField, Value
from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.storage import Storage
from lakewright.storage.table_layout import Layout
from support import facts

NOW = 1_780_000_000_000


def new_store(
    root: Path | str,
    *,
    storage: Storage | None = None,
    partition_keys: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
) -> TableStore:
    """Make a table with the columns dt, hour, v."""
    fields = [
        DataField(0, "dt", AtomicType("STRING")),
        DataField(1, "hour", AtomicType("INT")),
        DataField(2, "v", AtomicType("BIGINT")),
    ]
    schema = new_table_schema(Schema(fields, partition_keys, None, options), time_millis=1)
    store = TableStore("db.t", storage or LocalStorage(durable=False), Layout(f"{root}/t"), schema)
    assert SchemaFiles(store.storage, store.layout).create(schema)
    return store


def data_file(name: str, rows: int = 1, **more: object) -> DataFile:
    """Return the facts of a data file of ten bytes."""
    file = replace(facts.data_file(name, rows=rows), file_size=10, max_sequence_number=0, creation_time=NOW)
    return replace(file, **more)  # type: ignore[arg-type]


_counter = itertools.count()


def message(store: TableStore, *names: str, partition: Sequence[Value] = (), **more: object) -> CommitMessage:
    """Write files of ten bytes and return the message that names them."""
    row = encode_row(partition, store.partition_types)
    files = tuple(data_file(f"{name}.parquet") for name in names)
    place = store.partition_directory(row)
    for file in files:
        store.storage.create(store.layout.data_file(place, 0, file), b"0123456789")
    made = CommitMessage(
        partition_bytes=row,
        bucket=0,
        total_buckets=store.options.bucket,
        new_files=files,
        table=store.identity,
        schema_id=0,
        write_id=str(UUID(int=next(_counter))),
        rows_in=len(files),
    )
    return replace(made, **more)  # type: ignore[arg-type]


def live_names(store: TableStore, snapshot: Snapshot | None = None) -> list[str]:
    """Return the names of the live files, without their extension."""
    newest = snapshot or store.snapshots.latest()
    entries = [] if newest is None else store.manifests.live(newest)
    assert all(e.kind == ADD for e in entries)
    return sorted(e.file.file_name.removesuffix(".parquet") for e in entries)


def metadata_names(store: TableStore) -> set[str]:
    """Return the names of all files in the manifest directory."""
    return {info.path.rpartition("/")[2] for info in store.storage.list(store.layout.manifest_directory)}


def used_metadata_names(store: TableStore) -> set[str]:
    """Return the names of all metadata files that the snapshots name."""
    used: set[str] = set()
    for snapshot_id in store.snapshots.ids():
        s = store.snapshots.get(snapshot_id)
        used |= {s.base_manifest_list, s.delta_manifest_list}
        used |= {m.file_name for m in store.manifests.files_of(s)}
        if s.changelog_manifest_list:
            used |= {s.changelog_manifest_list}
            used |= {m.file_name for m in store.manifests.read_list(s.changelog_manifest_list)}
        used |= {s.index_manifest} if s.index_manifest else set()
    return used


@dataclass
class Ticks:
    """A clock that moves when somebody sleeps, and numbers that a seed decides."""

    seed: int = 0
    now: int = NOW
    slept: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = Random(self.seed)

    def clock(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += int(seconds * 1000) + 1

    def uuid(self) -> str:
        return str(UUID(int=self.dice.getrandbits(128)))


def committer(store: TableStore, *, user: str | None = None, ticks: Ticks | None = None) -> Committer:
    """Return a committer in a world of its own."""
    ticks = ticks or Ticks(next(_counter))
    return Committer(
        store,
        commit_user=user,
        clock=ticks.clock,
        sleep=ticks.sleep,
        random=ticks.dice.random,
        new_uuid=ticks.uuid,
    )


class Hooked:
    """A local storage that lets a test act, or fail, around the creation of snapshot files."""

    renames_atomically = True
    requests_at_once = 1

    def __init__(self, inner: Storage | None = None) -> None:
        self.inner = inner or LocalStorage(durable=False)
        self.before: list[Callable[[], object]] = []  # one is called before each creation of a snapshot
        self.after: list[Callable[[], object]] = []  # one is called after each creation of a snapshot

    def create(self, path: str, data: bytes) -> bool:
        if "/snapshot/snapshot-" not in path:
            return self.inner.create(path, data)
        if self.before:
            self.before.pop(0)()
        created = self.inner.create(path, data)
        if self.after:
            self.after.pop(0)()
        return created

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


def hooked(root: Path, **more: object) -> tuple[TableStore, Hooked, TableStore]:
    """Return a table behind a hooked storage, the storage, and the same table as everybody else sees it."""
    plain = new_store(root, **more)  # type: ignore[arg-type]
    hooks = Hooked(plain.storage)
    return replace(plain, storage=hooks), hooks, plain  # type: ignore[arg-type]
