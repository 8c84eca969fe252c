"""Everything that rests on the store, against the public emulators of Google's and Azure's; figures are printed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from contract.fault_enumerator import stray_files
from contract.storage_suite import StorageContract
from lakewright.catalog.filesystem_catalog import open_filesystem
from lakewright.storage.object_storage import PART_BYTES, ObjectStorage
from support.append_races import race_appends
from support.effort import examples
from support.programs import free_port
from support.stores import Store

RACES = examples(2_000)
RACERS = 8
ORDERS = pa.schema([("id", pa.int64()), ("day", pa.string())])


class TestEmulatedStorage(StorageContract):
    @pytest.fixture
    def storage(self, store: Store) -> ObjectStorage:
        return store.storage()

    @pytest.fixture
    def root(self, storage: ObjectStorage) -> str:
        return f"{storage.url}/lake"


def test_of_racing_creators_one_wins_every_time(store: Store) -> None:
    _race(store.storage())


def test_of_racing_creators_one_wins_when_answers_are_lost(store: Store) -> None:
    storage = store.storage()
    store.front.faults_share = 0.2
    _race(storage)
    print(f"{len(store.front.faults)} faults")
    assert len(set(store.front.faults)) == 4


def _race(storage: ObjectStorage) -> None:
    winners: list[list[int]] = [[] for _ in range(RACES)]
    barrier = threading.Barrier(RACERS)

    def racer(number: int) -> None:
        try:
            for race in range(RACES):
                barrier.wait(60)
                if storage.create(f"{storage.url}/race/{race}", b"racer %d" % number):
                    winners[race].append(number)
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(RACERS) as pool:
        for done in [pool.submit(racer, number) for number in range(RACERS)]:
            done.result()
    print(f"\n{RACES} races of {RACERS}: {sum(len(won) > 1 for won in winners)} double winners")
    assert [race for race, won in enumerate(winners) if len(won) != 1] == []
    for race in range(0, RACES, 20):
        assert storage.read(f"{storage.url}/race/{race}") == b"racer %d" % winners[race][0]
    assert len({won[0] for won in winners}) > 1  # it was a race


@pytest.mark.parametrize("share", [0.0, 0.2], ids=["", "answers lost"])
def test_processes_append(store: Store, tmp_path: Path, share: float) -> None:
    warehouse = {**store.options, "warehouse": f"{store.new_container()}/warehouse"}
    store.front.faults_share = share
    print()
    race_appends(lw.CatalogFactory.create(warehouse), tmp_path)
    assert bool(store.front.faults) == bool(share)


def test_the_life_of_a_table(store: Store) -> None:
    catalog = open_filesystem({**store.options, "warehouse": f"{store.new_container()}/warehouse"})
    catalog.create_database("d")
    schema = lw.Schema.from_pyarrow_schema(ORDERS, primary_keys=["id"], options={"bucket": "1"})
    catalog.create_table("d.orders", schema)
    table = catalog.get_table("d.orders")
    lw.write_table(pa.table({"id": [1, 2], "day": ["mon", "mon"]}, ORDERS), table)
    lw.write_table(pa.table({"id": [2, 3], "day": ["tue", "tue"]}, ORDERS), table)
    table.create_tag("two")
    table.compact()
    assert lw.read_table(table).sort_by("id").to_pydict() == {"id": [1, 2, 3], "day": ["mon", "tue", "tue"]}
    assert lw.read_table(table, snapshot_id=1).num_rows == 2
    catalog.alter_table("d.orders", [lw.SchemaChange.rename_column("day", "weekday")])
    assert lw.read_table(catalog.get_table("d.orders"), filter="weekday = 'mon'").num_rows == 1
    assert stray_files(table.store) == set()
    catalog.rename_table("d.orders", "d.kept")
    kept = catalog.get_table("d.kept")
    assert lw.read_table(kept, tag="two").num_rows == 3
    catalog.drop_table("d.kept")
    assert catalog.list_tables("d") == []
    assert list(catalog.storage.walk(kept.table_path)) == []


def test_a_large_object_goes_in_parts(store: Store) -> None:
    storage = store.storage()
    data = bytes(range(256)) * (5 * PART_BYTES // 512)
    output = storage.open_output(f"{storage.url}/large")
    output.write(data)
    output.close()
    with storage.open_input(f"{storage.url}/large") as file:
        file.seek(PART_BYTES - 3)
        assert file.read(10) == data[PART_BYTES - 3 :][:10]
        file.seek(0)
        assert file.read() == data


def test_a_missing_container_is_named(azure: Store) -> None:
    url = f"{azure.scheme}://no-such-container-here"
    catalog = open_filesystem({**azure.options, "warehouse": f"{url}/warehouse"})
    calls: list[Callable[[], object]] = [
        catalog.list_databases,
        lambda: catalog.create_database("d"),
        lambda: catalog.storage.create(f"{url}/x", b"x"),
        lambda: lw.open_table(f"{url}/d.db/t", azure.options),
    ]
    for call in calls:
        with pytest.raises(lw.NotFoundError, match=f"{url} does not exist") as caught:
            call()
        _is_one_line_without_secrets(caught.value, azure)


def test_a_server_that_is_down_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakewright.storage.object_client.PUT_ATTEMPTS_MAX", 1)
    down = f"127.0.0.1:{free_port()}"
    listening = store.front.endpoint.removeprefix("http://")
    options = {name: value.replace(listening, down) for name, value in store.options.items()}
    storage = ObjectStorage(store.new_container(), options)
    with pytest.raises(OSError, match=r"does not answer .*: check the endpoint and the network") as caught:
        storage.create(f"{storage.url}/x", b"x")
    _is_one_line_without_secrets(caught.value, store)


def _is_one_line_without_secrets(error: Exception, store: Store) -> None:
    shown = f"{error} {error!r} {error.__cause__!r} {error.__context__!r}"
    assert "\n" not in str(error)
    assert store.secret_key not in shown


def test_a_wrong_key_is_refused_and_not_shown(azure: Store) -> None:
    wrong = {**azure.options, "adls.account-key": "aHVzaC1odXNoLW5vdC10aGUta2V5"}
    storage = ObjectStorage(azure.new_container(), wrong)
    calls: list[Callable[[], object]] = [
        lambda: storage.create(f"{storage.url}/x", b"x"),
        lambda: storage.read(f"{storage.url}/x"),
        lambda: list(storage.list(storage.url)),
    ]
    for call in calls:
        with pytest.raises(PermissionError, match="check the keys") as caught:
            call()
        assert "aHVzaC" not in f"{caught.value} {caught.value!r} {caught.value.__cause__!r}"


def test_a_key_that_is_no_key_is_named(azure: Store) -> None:
    storage = ObjectStorage(azure.new_container(), {**azure.options, "adls.account-key": "not base 64!"})
    with pytest.raises(lw.InvalidInputError, match="do not make a client") as caught:
        storage.read(f"{storage.url}/x")
    assert "not base 64!" not in str(caught.value)
