"""A handle stands for the table it was opened on: if that one was dropped, renamed or replaced, nothing changes."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.commit.commit_loop import FilePublisher
from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.committer import Committer
from lakewright.errors import TableNotExistException, TableReplacedError
from lakewright.maintenance.rollback import write_unchanged
from lakewright.metadata.authority import Outcome
from lakewright.metadata.table_store import TableStore
from lakewright.spec.manifest import ManifestEntry
from lakewright.spec.schema import SchemaChange
from lakewright.spec.snapshot import Snapshot, to_json
from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.table_layout import Layout
from support.golden import WAREHOUSE

OLD = pa.schema({"id": pa.int64(), "n": pa.int64()})
NEW = pa.schema({"id": pa.string(), "text": pa.string()})
ROWS = pa.table({"id": [1, 2], "n": [3, 4]}, schema=OLD)
NEW_ROWS = pa.table({"id": ["x"], "text": ["y"]}, schema=NEW)


@dataclass(frozen=True)
class Lake:
    """A catalog on disk with the table d.t, and what can happen to it."""

    catalog: lw.Catalog
    keys: tuple[str, ...]

    @property
    def options(self) -> dict[str, str]:
        return {"bucket": "2"} if self.keys else {"deletion-vectors.enabled": "true"}

    @property
    def root(self) -> Path:
        return Path(self.catalog.warehouse) / "d.db" / "t"

    def create(self, columns: pa.Schema = OLD) -> lw.FileStoreTable:
        self.catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, (), self.keys, self.options))
        return self.table()

    def table(self) -> lw.FileStoreTable:
        return self.catalog.get_table("d.t")

    def files(self) -> dict[str, bytes]:
        """Return every file of the table, and of whatever else stands in the database."""
        below = sorted(path for path in self.root.parent.rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in below}

    # What happens to the table.

    def make_again(self) -> None:
        self.catalog.drop_table("d.t")
        lw.write_table(NEW_ROWS, self.create(NEW))

    def make_again_the_same(self) -> None:
        self.catalog.drop_table("d.t")
        lw.write_table(ROWS, self.create())

    def make_again_empty(self) -> None:
        self.catalog.drop_table("d.t")
        self.create(NEW)

    def rename_and_make_again(self) -> None:
        self.catalog.rename_table("d.t", "d.moved")
        lw.write_table(NEW_ROWS, self.create(NEW))

    def drop(self) -> None:
        self.catalog.drop_table("d.t")

    def rename(self) -> None:
        self.catalog.rename_table("d.t", "d.moved")


@pytest.fixture(params=[(), ("id",)], ids=["append", "keyed"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path / "w")})
    catalog.create_database("d")
    made = Lake(catalog, request.param)
    table = made.create()
    for _ in range(2):
        lw.write_table(ROWS, table)
    table.create_tag("kept")
    return made


FATES: dict[str, tuple[Callable[[Lake], None], type[lw.LakewrightError]]] = {
    "made again": (Lake.make_again, TableReplacedError),
    "made again with the same columns": (Lake.make_again_the_same, TableReplacedError),
    "made again and empty": (Lake.make_again_empty, TableReplacedError),
    "renamed and made again": (Lake.rename_and_make_again, TableReplacedError),
    "dropped": (Lake.drop, TableNotExistException),
    "renamed": (Lake.rename, TableNotExistException),
}


def _overwrite(table: lw.FileStoreTable) -> object:
    return lw.write_table(ROWS, table, mode="overwrite")


def _stream_write(table: lw.FileStoreTable) -> object:
    builder = table.new_stream_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        return commit.commit(write.write_arrow(ROWS).prepare_commit(1), 1)


def _follow(table: lw.FileStoreTable) -> object:
    scan = table.new_stream_read_builder().new_streaming_scan()
    scan.restore(3)
    return scan.plan(), scan.plan()


def _record(table: lw.FileStoreTable) -> object:
    scan = table.new_stream_read_builder().with_consumer_id("c").new_streaming_scan()
    scan.notify_checkpoint_complete(2)
    return scan


def _merge(table: lw.FileStoreTable) -> object:
    return table.merge(ROWS, on="id").when_matched_update().when_not_matched_insert().execute()


VERBS: dict[str, Callable[[lw.FileStoreTable], object]] = {
    "append": lambda table: lw.write_table(ROWS, table),
    "overwrite": _overwrite,
    "truncate": lambda table: table.new_batch_write_builder().new_commit().truncate_table(),
    "stream write": _stream_write,
    "merge schema": lambda table: lw.write_table(ROWS.append_column("new", [[1, 2]]), table, schema_mode="merge"),
    "delete": lambda table: table.delete("id = 1"),
    "update": lambda table: table.update({"n": 7}, "id = 1"),
    "upsert": lambda table: table.upsert(ROWS, ["id"]),
    "merge": _merge,
    "compact": lambda table: table.compact(full=True),
    "rescale": lambda table: table.rescale(4),
    "expire": lambda table: table.expire_snapshots(retain_max=1, retain_min=1),
    "remove orphans": lambda table: table.remove_orphan_files(),
    "create tag": lambda table: table.create_tag("mine"),
    "create tag of an id": lambda table: table.create_tag("mine", snapshot_id=2),
    "replace tag": lambda table: table.replace_tag("kept"),
    "rename tag": lambda table: table.rename_tag("kept", "other"),
    "delete tag": lambda table: table.delete_tag("kept"),
    "record a consumer": _record,
    "read": lw.read_table,
    "read a filter": lambda table: lw.read_table(table, filter="n = 3"),
    "read a tag": lambda table: lw.read_table(table, tag="kept"),
    "read a snapshot": lambda table: lw.read_table(table, snapshot_id=2),
    "read changes": lambda table: lw.read_table(table, incremental=(1, 2)),
    "follow": _follow,
}


@pytest.mark.parametrize("fate", FATES)
def test_every_verb_of_an_old_handle_is_refused_and_changes_nothing(lake: Lake, fate: str) -> None:
    """Each verb has a handle of its own, opened before; as none may change a file, all share one table."""
    verbs = {name: verb for name, verb in VERBS.items() if name != "rescale" or lake.keys}  # append tables: one bucket
    handles = {name: lake.table() for name in verbs}
    happen, error = FATES[fate]
    happen(lake)
    before = lake.files()
    for name, verb in verbs.items():
        with pytest.raises(error) as caught:
            verb(handles[name])
        assert type(caught.value) is error, name
        assert "d.t" in str(caught.value), name
        assert "catalog" in str(caught.value), name
        assert lake.files() == before, f"{name} changed a file"
        assert lake.root.exists() == (error is TableReplacedError), name


def test_a_new_handle_writes_to_the_new_table(lake: Lake) -> None:
    lake.make_again()
    table = lake.table()
    lw.write_table(NEW_ROWS.set_column(0, "id", [["z"]]), table)
    assert sorted(lw.read_table(table)["id"].to_pylist()) == ["x", "z"]


def test_handles_that_travelled_and_handles_of_paths_know_their_table(lake: Lake) -> None:
    table = lake.table()
    handles = [
        pickle.loads(pickle.dumps(table)),  # noqa: S301 - our own
        lw.open_table(table.table_path),
        table.copy({"write-only": "true"}),
    ]
    for handle in handles:
        lw.write_table(ROWS, handle)
    lake.make_again()
    for handle in handles:
        with pytest.raises(TableReplacedError):
            lw.write_table(ROWS, handle)


def test_a_handle_of_an_altered_table_knows_its_table(lake: Lake) -> None:
    lake.catalog.alter_table("d.t", [SchemaChange.add_column("more", lw.AtomicType("INT"))])
    table = lake.table()
    lw.write_table(ROWS, table)
    lake.make_again_the_same()
    lake.catalog.alter_table("d.t", [SchemaChange.add_column("more", lw.AtomicType("INT"))])
    before = lake.files()
    with pytest.raises(TableReplacedError):
        lw.write_table(ROWS, table)
    assert lake.files() == before


def test_a_stale_handle_of_an_altered_table_is_still_of_that_table(lake: Lake) -> None:
    table = lake.table()
    lake.catalog.alter_table("d.t", [SchemaChange.add_column("more", lw.AtomicType("INT"))])
    assert lw.write_table(ROWS, table).snapshot_id is not None
    assert lw.read_table(table).num_rows == (2 if lake.keys else 6)


def test_messages_written_before_the_drop_are_refused_and_removed(lake: Lake) -> None:
    table = lake.table()
    builder = table.new_batch_write_builder()
    with builder.new_write() as write:
        messages = write.write_arrow(ROWS).prepare_commit()
    lake.make_again()
    before = lake.files()
    with pytest.raises(TableReplacedError):
        builder.new_commit().commit(messages)
    builder.new_commit().abort(messages)
    assert lake.files() == before
    with pytest.raises(lw.InvalidMessageError):  # nor does the new table take them
        lake.table().new_batch_write_builder().new_commit().commit(messages)
    assert lake.files() == before


def test_a_writer_that_is_open_while_the_table_is_dropped_leaves_nothing(lake: Lake) -> None:
    builder = lake.table().new_batch_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(ROWS)
        lake.drop()
        messages = write.prepare_commit()
        with pytest.raises(TableNotExistException):
            commit.commit(messages)
    assert not lake.root.exists()


def test_aborted_messages_of_a_dropped_table_leave_nothing(lake: Lake) -> None:
    builder = lake.table().new_batch_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        lake.drop()
        commit.abort(write.write_arrow(ROWS).prepare_commit())
    assert not lake.root.exists()


def _messages(store: TableStore) -> list[CommitMessage]:
    with lw.FileStoreTable(lw.Identifier.from_string("d.t"), store).new_batch_write_builder().new_write() as write:
        return write.write_arrow(ROWS).prepare_commit()


@pytest.mark.parametrize("fate", FATES)
def test_a_table_replaced_in_the_moment_of_publishing(lake: Lake, fate: str) -> None:
    """Between the last look and the publishing another table takes the place: our snapshot is taken back."""
    store = lake.table().store
    happen, error = FATES[fate]
    before: dict[str, bytes] = {}

    class Late(FilePublisher):
        def publish(self, snapshot: Snapshot, base: Snapshot | None, entries: Sequence[ManifestEntry] = ()) -> Outcome:
            happen(lake)
            before.update(lake.files())
            return super().publish(snapshot, base, entries)

    messages = _messages(store)
    with pytest.raises(error):
        Committer(store, publisher=Late(store.storage, store.layout)).commit(messages)
    assert lake.files() == before
    assert lake.root.exists() == (error is TableReplacedError)


def test_a_snapshot_that_others_built_upon_is_not_taken_back(lake: Lake) -> None:
    store = lake.table().store

    class Late(FilePublisher):
        def publish(self, snapshot: Snapshot, base: Snapshot | None, entries: Sequence[ManifestEntry] = ()) -> Outcome:
            lake.make_again_empty()
            outcome = super().publish(snapshot, base, entries)
            later = replace(write_unchanged(store, snapshot), id=snapshot.id + 1)
            self.storage.create(self.layout.snapshot_file(later.id), to_json(later).encode())
            return outcome

    with pytest.raises(TableReplacedError):
        Committer(store, publisher=Late(store.storage, store.layout)).commit(_messages(store))
    assert (lake.root / "snapshot" / "snapshot-3").exists()


def test_a_schema_made_in_the_moment_of_replacing_is_taken_back(lake: Lake) -> None:
    table = lake.table()

    class Late(LocalStorage):
        def create(self, path: str, data: bytes) -> bool:
            if "/schema-1" in path:
                lake.make_again()
            return super().create(path, data)

    before = lake.files()
    store = replace(table.store, storage=Late())
    wider = ROWS.append_column("new", [[1, 2]])
    with pytest.raises(TableReplacedError):
        lw.write_table(wider, replace(table, store=store), schema_mode="merge")
    assert lake.table().schema.id == 0
    assert set(lake.files()) - set(before) == {p for p in lake.files() if p not in before}
    assert lake.table().field_names == ["id", "text"]


@pytest.mark.parametrize("step", ["write", "prepare"])
def test_a_writer_whose_directory_is_dropped_says_so(lake: Lake, step: str) -> None:
    table = lake.table().copy({"write-buffer-size": "1 b", "write-buffer-spillable": "false"})

    class Gone(LocalStorage):
        def open_output(self, path: str) -> NoReturn:
            lake.drop()
            raise FileNotFoundError(2, "No such file or directory", path)

    rows = pa.concat_tables([ROWS] * (1 << 17 if step == "write" else 1))
    write = replace(table, store=replace(table.store, storage=Gone())).new_batch_write_builder().new_write()
    if step == "prepare":
        write.write_arrow(rows)
    with write, pytest.raises(TableNotExistException):
        write.write_arrow(rows) if step == "write" else write.prepare_commit()


def test_a_table_that_is_dropped_whenever_it_is_created_is_not_a_missing_file(tmp_path: Path) -> None:
    class Dropped(LocalStorage):
        def create(self, path: str, data: bytes) -> bool:
            raise FileNotFoundError(2, f"No such directory for {len(data)} bytes", path)

    catalog = lw.FileSystemCatalog(Dropped(), str(tmp_path))
    catalog.create_database("d")
    with pytest.raises(lw.CommitContentionError, match="create it again"):
        catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(ROWS.schema))


@pytest.mark.processes
def test_another_process_made_the_table_again(lake: Lake) -> None:
    table = lake.table()
    lw.write_table(ROWS, table)
    script = f"""
import pyarrow as pa, lakewright as lw
catalog = lw.CatalogFactory.create({{"warehouse": {lake.catalog.warehouse!r}}})
catalog.drop_table("d.t")
catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({{"other": pa.string()}})))
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    before = lake.files()
    with pytest.raises(TableReplacedError):
        lw.write_table(ROWS, table)
    assert lake.files() == before


def test_a_handle_of_a_branch_is_refused_once_its_table_is_replaced(lake: Lake) -> None:
    layout = Layout(str(lake.root))
    branch = Path(layout.for_branch("b").branch_root)
    shutil.copytree(lake.root / "schema", branch / "schema")
    shutil.copytree(lake.root / "snapshot", branch / "snapshot")
    table = lake.catalog.get_table("d.t$branch_b")
    assert lw.write_table(ROWS, table).snapshot_id == 3
    lake.make_again()
    with pytest.raises(TableNotExistException):
        lw.write_table(ROWS, table)
    assert not branch.exists()
    shutil.copytree(lake.root / "schema", branch / "schema")
    before = lake.files()
    with pytest.raises(TableReplacedError):
        lw.write_table(ROWS, table)
    assert lake.files() == before


def test_tables_of_other_writers_are_known_by_their_own_bytes(tmp_path: Path) -> None:
    source = min(p.parent.parent for p in WAREHOUSE.glob("*.db/*/schema/schema-0"))
    place = tmp_path / "w" / "d.db" / "t"
    shutil.copytree(source, place)
    table = lw.open_table(str(place))
    table.new_batch_write_builder().new_commit().truncate_table()
    assert lw.read_table(table).num_rows == 0
    newest = place / "schema" / f"schema-{table.schema.id}"
    newest.write_text(newest.read_text().replace('"timeMillis" : ', '"timeMillis" : 1'))
    with pytest.raises(TableReplacedError):
        table.new_batch_write_builder().new_commit().truncate_table()
