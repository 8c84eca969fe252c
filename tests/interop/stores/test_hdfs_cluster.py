"""HDFS: everything that rests on the storage, against the cluster in one process that Hadoop has for its own tests."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from contract.fault_enumerator import stray_files
from contract.storage_suite import StorageContract
from lakewright.catalog.filesystem_catalog import open_filesystem
from lakewright.storage.hdfs_storage import HdfsStorage
from lakewright.storage.storage import Storage
from lakewright.storage.storage_registry import open_storage
from support.append_races import race_appends
from support.effort import examples
from support.programs import free_port, running
from support.store_fronts import Front, serving

HOME = Path(__file__).parents[3] / "target" / "stores" / "hdfs"
RACES = examples(1_000)
RACERS = 8
USER = {"hadoop.user.name": "ada"}
ORDERS = pa.schema([("id", pa.int64()), ("day", pa.string())])


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """Run an HDFS, behind a front that can lose the answers of its namenode."""
    assert (HOME / ".made").exists(), f"{HOME} is missing: run `make nightly PART=interop-stores`, which builds it"
    home, port = tmp_path_factory.mktemp("hdfs"), free_port()
    front = Front(port)
    command = ["java", "-cp", f"{HOME}/classes:{HOME}/jars/*", "MiniHdfs", str(home / "data"), str(port)]
    url = f"http://127.0.0.1:{port}/webhdfs/v1/open?op=GETFILESTATUS"
    with running(command, url, home / "log", {**os.environ, "HADOOP_USER_NAME": "root"}), serving(front):
        yield front


@pytest.fixture
def options(front: Front) -> dict[str, str]:
    front.faults_share = 0.0
    front.faults.clear()
    return {"dfs.namenode.http-address": front.endpoint, **USER}


@pytest.fixture
def root() -> str:
    return f"hdfs://cluster/open/{uuid.uuid4().hex}"


@pytest.fixture
def storage(options: dict[str, str], root: str) -> Storage:
    return open_storage(root, options)[0]


class TestHdfs(StorageContract):
    pass


@pytest.mark.parametrize("share", [0.0, 0.2], ids=["", "answers lost"])
def test_of_racing_creators_one_wins_every_time(storage: Storage, root: str, front: Front, share: float) -> None:
    front.faults_share = share
    barrier = threading.Barrier(RACERS)

    def racer(number: int) -> list[bool]:
        won = []
        for race in range(RACES):
            barrier.wait(120)
            won.append(storage.create(f"{root}/race/{race}", b"racer %d" % number))
        return won

    with ThreadPoolExecutor(RACERS) as pool:
        wins = list(zip(*pool.map(racer, range(RACERS)), strict=True))
    print(f"\n{RACES} races of {RACERS}, {len(front.faults)} faults")
    assert [race for race, won in enumerate(wins) if sum(won) != 1] == []
    front.faults_share = 0.0
    assert len(list(storage.walk(root))) == RACES  # no temporary file stayed
    for race, won in enumerate(wins):
        assert storage.read(f"{root}/race/{race}") == b"racer %d" % won.index(True)


@pytest.mark.parametrize("share", [0.0, 0.1], ids=["", "answers lost"])
def test_processes_append(options: dict[str, str], root: str, front: Front, tmp_path: Path, share: float) -> None:
    catalog = lw.CatalogFactory.create({**options, "warehouse": f"{root}/warehouse"})
    front.faults_share = share
    print()
    race_appends(catalog, tmp_path)
    assert bool(front.faults) == bool(share)


def test_the_life_of_a_table(options: dict[str, str], root: str) -> None:
    catalog = open_filesystem({**options, "warehouse": f"{root}/warehouse"})
    catalog.create_database("d")
    schema = lw.Schema.from_pyarrow_schema(
        ORDERS, partition_keys=["day"], primary_keys=["id", "day"], options={"bucket": "1"}
    )
    catalog.create_table("d.orders", schema)
    table = catalog.get_table("d.orders")
    lw.write_table(pa.table({"id": [1, 2], "day": ["a b", "12:30"]}, ORDERS), table)
    lw.write_table(pa.table({"id": [1, 3], "day": ["a b", "a b"]}, ORDERS), table)
    table.create_tag("two")
    table.compact()
    assert lw.read_table(table).sort_by("id")["id"].to_pylist() == [1, 2, 3]
    assert lw.read_table(table, filter="day = '12:30'")["id"].to_pylist() == [2]
    assert stray_files(table.store) == set()
    catalog.rename_table("d.orders", "d.kept")
    assert lw.read_table(catalog.get_table("d.kept"), tag="two").num_rows == 3
    catalog.drop_table("d.kept")
    assert catalog.list_tables("d") == []


def test_an_upload_that_another_one_was_faster_than_is_refused(storage: Storage, root: str) -> None:
    first, second = storage.open_output(f"{root}/a"), storage.open_output(f"{root}/a")
    first.write(b"first")
    first.close()
    second.write(b"second")
    with pytest.raises(FileExistsError):
        second.close()
    second.discard()
    assert storage.read(f"{root}/a") == b"first"


def test_a_user_without_rights_is_named(storage: Storage) -> None:
    calls: list[Callable[[], object]] = [
        lambda: storage.create("hdfs://cluster/closed/x", b"x"),
        lambda: storage.make_directory("hdfs://cluster/closed"),
    ]
    for call in calls:
        with pytest.raises(PermissionError, match=r"refuses access to the user 'ada'.*hadoop\.user\.name") as caught:
            call()
        assert "\n" not in str(caught.value)


def test_a_namenode_that_is_down_is_passed_over(storage: Storage, root: str) -> None:
    assert isinstance(storage, HdfsStorage)
    hdfs = storage.hdfs
    both = HdfsStorage(replace(hdfs, namenodes=(f"http://127.0.0.1:{free_port()}", *hdfs.namenodes)))
    assert both.create(f"{root}/a", b"1")
    assert both.read(f"{root}/a") == b"1"
