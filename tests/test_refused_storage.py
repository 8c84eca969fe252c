"""A full or read-only disk: a call that publishes and fails says what happened and leaves nothing behind."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from contract.faulty_storage import Fault, FaultKind, FaultyStorage, MemoryStorage
from lakewright.catalog.catalog import Catalog
from lakewright.catalog.filesystem_catalog import FileSystemCatalog
from lakewright.spec.schema import SchemaChange

COLUMNS = pa.schema({"id": pa.int64(), "n": pa.int64()})
ROWS = pa.table({"id": [1, 2, 3], "n": [3, 4, 5]}, schema=COLUMNS)
ADD = SchemaChange.add_column("x", lw.AtomicType("INT"))
_numbers = itertools.count()


class Lake:
    """A table in memory whose storage refuses to write from some call on."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.memory = MemoryStorage(f"refused-{next(_numbers)}")
        options = {"bucket": "1"} if keys else {"deletion-vectors.enabled": "true"}
        catalog = self.catalog(self.memory)
        catalog.create_database("d")
        catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, (), keys, options))
        for _ in range(2):
            lw.write_table(ROWS, catalog.get_table("d.t"))
        self.image = self.memory.image()

    def catalog(self, storage: MemoryStorage | FaultyStorage) -> Catalog:
        return FileSystemCatalog(storage, f"{self.memory.root}/w")

    def fails(self, act: Callable[[Catalog], object], kind: FaultKind) -> Iterator[Exception]:
        """Let the storage fail at each call of an act in turn, and yield what is raised, until nothing is."""
        for call in range(1, 200):
            self.memory.restore(self.image)
            storage = FaultyStorage(self.memory, [Fault(call, kind)])
            try:
                act(self.catalog(storage))
            except (lw.LakewrightError, OSError) as error:
                yield error
            if len(storage.calls) < call:
                return

    def files(self) -> dict[str, bytes]:
        return dict(self.memory.image().files)


@pytest.fixture(params=[(), ("id",)], ids=["append", "keyed"])
def lake(request: pytest.FixtureRequest) -> Iterator[Lake]:
    made = Lake(request.param)
    yield made
    made.memory.clear()


def _of(verb: Callable[[lw.FileStoreTable], object]) -> Callable[[Catalog], object]:
    return lambda catalog: verb(catalog.get_table("d.t"))


VERBS: dict[str, Callable[[Catalog], object]] = {
    "write": _of(lambda table: lw.write_table(ROWS, table)),
    "overwrite": _of(lambda table: lw.write_table(ROWS, table, mode="overwrite")),
    "write with a job id": _of(lambda table: lw.write_table(ROWS, table, job_id="j")),
    "delete": _of(lambda table: table.delete("id = 1")),
    "update": _of(lambda table: table.update({"n": 7}, "id = 1")),
    "upsert": _of(lambda table: table.upsert(ROWS, ["id"])),
    "compact": _of(lambda table: table.compact(full=True)),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_full_disk_leaves_nothing_and_says_run_it_again(lake: Lake, verb: str) -> None:
    seen = set()
    for error in lake.fails(VERBS[verb], FaultKind.DISK_FULL):
        left = {path: data for path, data in lake.files().items() if "/_lakewright-jobs/begun-" not in path}
        assert left == dict(lake.image.files), error  # a job remembers that it began
        seen.add(type(error))
        if isinstance(error, lw.LakewrightError):
            assert "run it again" in str(error)
            assert "messages" not in str(error)
    # What cannot even be written fails as the storage says it.
    assert seen <= {lw.CommitContentionError, OSError}
    assert OSError in seen


def test_altering_on_a_full_disk_did_nothing_and_says_so(lake: Lake) -> None:
    errors = list(lake.fails(lambda catalog: catalog.alter_table("d.t", [ADD]), FaultKind.DISK_FULL))
    assert errors
    assert {type(error) for error in errors} == {lw.CommitContentionError}
    assert all("was not changed" in str(error) and "d.t" in str(error) for error in errors)


def test_messages_of_a_builder_survive_a_full_disk(lake: Lake) -> None:
    def act(catalog: Catalog) -> None:
        builder = lake.catalog(lake.memory).get_table("d.t").new_batch_write_builder()
        messages = builder.new_write().write_arrow(ROWS).prepare_commit()
        catalog.get_table("d.t").new_batch_write_builder().new_commit().commit(messages)

    for error in lake.fails(act, FaultKind.DISK_FULL):
        assert isinstance(error, lw.CommitContentionError)
        assert "commit the same messages again" in str(error)
        assert len([path for path in lake.files() if path.endswith(".parquet")]) >= 3


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a file system of 1 MB, where this process may mount one."""
    place, mount = tmp_path / "disk", shutil.which("mount")
    place.mkdir()
    done = mount is not None and subprocess.run([mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], check=False)
    if not done or done.returncode:
        pytest.skip("file systems cannot be mounted here")
    yield place
    subprocess.run([shutil.which("umount") or "umount", place], check=True)


def test_calls_on_a_full_file_system_leave_nothing(small_disk: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(small_disk / "w")})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS))
    table = catalog.get_table("d.t")
    lw.write_table(ROWS, table)
    before = sorted(path for path in small_disk.rglob("*") if path.is_file())
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * shutil.disk_usage(small_disk).free)
    acts: list[Callable[[], object]] = [
        lambda: lw.write_table(ROWS, table),
        lambda: table.delete("id = 1"),
        lambda: catalog.alter_table("d.t", [ADD]),
        lambda: catalog.create_table("d.other", lw.Schema.from_pyarrow_schema(COLUMNS)),
        lambda: table.create_tag("x"),
    ]
    for act in acts:
        with pytest.raises((lw.CommitContentionError, OSError)) as caught:
            act()
        assert not isinstance(caught.value, lw.CommitUnknownError)
        assert sorted(path for path in small_disk.rglob("*") if path.is_file() and path != filler) == before
    filler.unlink()
    lw.write_table(ROWS, table)
    assert lw.read_table(table).num_rows == 6
