"""Everything that rests on the store, against a real S3 server. Figures are printed, not asserted: see `pytest -s`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lakewright as lw
from contract.fault_enumerator import stray_files
from contract.faulty_storage import FaultyStorage
from contract.storage_suite import StorageContract
from lakewright.catalog.filesystem_catalog import open_filesystem
from lakewright.errors import TableNotExistException
from lakewright.storage.object_client import ObjectClient
from lakewright.storage.object_storage import ObjectStorage
from support.append_races import race_appends
from support.rows import NANOSECONDS, nested_fields, nested_rows, scalar_fields, scalar_rows
from support.s3 import S3Server

RACES = 20_000
RACERS = 8
TRACKS = 8  # races at the same time: whoever waits for a lock in the server only waits
LARGE_ROWS = 10_000_000
MILLION = 1_000_000
ORDERS = pa.schema([("id", pa.int64()), ("day", pa.string()), ("price", pa.float64())])


class TestMinioStorage(StorageContract):
    @pytest.fixture
    def storage(self, minio: S3Server) -> ObjectStorage:
        return ObjectStorage(f"s3://{minio.make_bucket()}", minio.options)

    @pytest.fixture
    def root(self, storage: ObjectStorage) -> str:
        return f"{storage.url}/lake"


def test_of_racing_creators_one_wins_every_time(minio: S3Server) -> None:
    storage = ObjectStorage(f"s3://{minio.make_bucket()}", minio.options)
    winners: list[list[int]] = [[] for _ in range(RACES)]

    def racer(number: int, races: range, barrier: threading.Barrier) -> None:
        try:
            for race in races:
                barrier.wait(60)
                if storage.create(f"{storage.url}/race/{race}", b"racer %d" % number):
                    winners[race].append(number)
        except BaseException:
            barrier.abort()
            raise

    started = time.perf_counter()
    with ThreadPoolExecutor(TRACKS * RACERS) as pool:
        running = []
        for track in range(TRACKS):
            barrier, races = threading.Barrier(RACERS), range(track, RACES, TRACKS)
            running += [pool.submit(racer, number, races, barrier) for number in range(RACERS)]
        for done in running:
            done.result()
    seconds = time.perf_counter() - started
    double = sum(len(won) > 1 for won in winners)
    print(f"\n{RACES} races of {RACERS}: {double} double winners, {seconds:.0f} s")
    assert [race for race, won in enumerate(winners) if len(won) != 1] == []
    for race in range(0, RACES, 20):
        assert storage.read(f"{storage.url}/race/{race}") == b"racer %d" % winners[race][0]
    assert len({won[0] for won in winners}) == RACERS  # it was a race: everybody wins now and then


def test_eight_processes_append(warehouse: dict[str, str], tmp_path: Path) -> None:
    print()
    race_appends(lw.CatalogFactory.create(warehouse), tmp_path)


def test_the_life_of_a_table(warehouse: dict[str, str]) -> None:
    catalog = open_filesystem(warehouse)
    table = _table(catalog, ORDERS, "d.orders", ["day"])
    assert catalog.list_databases() == ["d"]
    lw.write_table(_orders([1, 2], "mon"), table)
    lw.write_table(_orders([3], "tue"), table)
    table.create_tag("two-days")
    lw.write_table(_orders([9], "mon"), table, mode="overwrite")
    assert _ids(table) == [3, 9]
    with table.new_batch_write_builder().new_commit() as commit:
        commit.truncate_partitions([{"day": "tue"}])
    assert _ids(table) == [9]
    changes = [
        lw.SchemaChange.add_column("note", lw.AtomicType("STRING")),
        lw.SchemaChange.rename_column("price", "amount"),
        lw.SchemaChange.update_column_type("id", lw.AtomicType("STRING")),
    ]
    catalog.alter_table("d.orders", changes)
    table = _open(catalog, "d.orders")
    assert lw.read_table(table).to_pylist() == [{"id": "9", "day": "mon", "amount": 1.0, "note": None}]
    with table.new_batch_write_builder().new_commit() as commit:
        commit.truncate_table()
    assert lw.read_table(table).num_rows == 0
    assert [lw.read_table(table, snapshot_id=n).num_rows for n in range(1, 6)] == [2, 3, 2, 1, 0]
    assert sorted(lw.read_table(table, tag="two-days")["id"].to_pylist()) == [1, 2, 3]
    third = table.snapshot(3)
    assert third is not None
    assert lw.read_table(table, timestamp=third.time_millis).num_rows == 2
    assert lw.read_table(catalog.get_table("d.orders$snapshots")).num_rows == 5
    assert stray_files(table.store) == set()
    catalog.rename_table("d.orders", "d.kept")
    assert catalog.list_tables("d") == ["kept"]
    kept = _open(catalog, "d.kept")
    assert sorted(lw.read_table(kept, tag="two-days")["id"].to_pylist()) == [1, 2, 3]
    catalog.drop_table("d.kept")
    assert catalog.list_tables("d") == []
    assert list(catalog.storage.walk(kept.table_path)) == []
    with pytest.raises(TableNotExistException):
        catalog.get_table("d.kept")
    catalog.drop_database("d")
    assert catalog.list_databases() == []


def test_messages_travel_and_a_replay_is_harmless(warehouse: dict[str, str]) -> None:
    table = _table(open_filesystem(warehouse), ORDERS, "d.t", ["day"])
    builder = table.new_batch_write_builder()
    sent: list[bytes] = []
    for part in range(3):
        with builder.new_write() as write:
            write.write_arrow(_orders([part], f"day {part}"))
            sent += [message.serialize() for message in write.prepare_commit()]
    messages = [lw.CommitMessage.deserialize(data) for data in sent]
    elsewhere = lw.open_table(table.table_path, warehouse).new_batch_write_builder()
    assert builder.new_commit().commit(messages).snapshot_id == 1
    assert elsewhere.new_commit().commit(messages).snapshot_id == 1
    assert _ids(table) == [0, 1, 2]
    with builder.new_write() as write:
        write.write_arrow(_orders([7], "lost"))
        unwanted = write.prepare_commit()
    builder.new_commit().abort(unwanted)
    assert stray_files(table.store) == set()


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_every_type_comes_back(warehouse: dict[str, str], file_format: str) -> None:
    catalog = open_filesystem(warehouse)
    catalog.create_database("d")
    scalars = scalar_fields(skip=NANOSECONDS if file_format == "avro" else ())
    nested = nested_fields(multiset=True)
    for name, fields, rows in [
        ("d.scalars", scalars, scalar_rows(scalars, file_format)),
        ("d.nested", nested, nested_rows(nested)),
    ]:
        catalog.create_table(name, lw.Schema(fields, options={"file.format": file_format}))
        table = _open(catalog, name)
        lw.write_table(rows, table)
        assert lw.read_table(table).sort_by("id").equals(rows)
        assert lw.read_table(table, filter="id > 2").num_rows == 2


def test_a_large_file_goes_in_parts_and_filters_fetch_ranges(
    minio: S3Server, warehouse: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = pa.schema([("id", pa.int64()), ("noise", pa.int64())])
    options = {"file.compression": "none", "parquet.enable.dictionary": "false"}
    table = _table(open_filesystem(warehouse), schema, "d.t", options=options)
    noise = np.random.default_rng(7).integers(-(2**63), 2**63 - 1, LARGE_ROWS)
    rows = pa.table({"id": np.arange(LARGE_ROWS), "noise": noise})
    started = time.perf_counter()
    result = lw.write_table(rows, table)
    print(f"\n{result.bytes / 1e6:.0f} MB in {result.files} file(s) written in {time.perf_counter() - started:.1f} s")
    assert result.bytes / result.files > 64 * 1024 * 1024
    assert any("-" in etag for etag in _etags(minio, warehouse["warehouse"])), "no object was uploaded in parts"
    started = time.perf_counter()
    assert lw.read_table(table).sort_by("id").equals(rows)
    print(f"read back in {time.perf_counter() - started:.1f} s")
    fetched = _count_bytes(monkeypatch)
    for wanted, condition, columns in [
        (100, "id >= 5000000 and id < 5000100", None),
        (1, f"id = {LARGE_ROWS - 1}", ["noise"]),
        (0, "id < 0", None),
    ]:
        fetched.clear()
        found = lw.read_table(table, filter=condition, columns=columns)
        print(f"{condition}: {len(fetched)} requests, {sum(fetched) / 1e6:.1f} MB of {result.bytes / 1e6:.0f}")
        assert found.num_rows == wanted
        assert sum(fetched) < result.bytes / 4
    assert lw.read_table(table, filter="id = 5000000")["noise"].to_pylist() == [noise[5_000_000]]


@pytest.mark.parametrize("key", ["s3.secret-key", "s3.access-key"])
def test_wrong_keys_are_refused_and_not_shown(warehouse: dict[str, str], key: str) -> None:
    table = _table(open_filesystem(warehouse), ORDERS, "d.t")
    wrong = {**warehouse, key: "hush-hush-not-the-key"}
    catalog = open_filesystem(wrong)
    secrets = [wrong["s3.secret-key"], warehouse["s3.secret-key"], "hush-hush"]
    calls: list[Callable[[], object]] = [
        catalog.list_databases,
        lambda: catalog.create_database("e"),
        lambda: catalog.get_table("d.t"),
        lambda: lw.open_table(table.table_path, wrong),
        lambda: catalog.storage.read(f"{table.table_path}/schema/schema-0"),
        lambda: catalog.storage.create(f"{table.table_path}/x", b"x"),
        lambda: catalog.storage.delete(f"{table.table_path}/schema/schema-0"),
    ]
    for call in calls:
        with pytest.raises(PermissionError, match="check the keys") as caught:
            call()
        shown = f"{caught.value} {caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r} {catalog!r}"
        assert not [secret for secret in secrets if secret in shown]
    assert lw.read_table(table).num_rows == 0


def test_a_missing_bucket_is_named(warehouse: dict[str, str]) -> None:
    catalog = open_filesystem({**warehouse, "warehouse": "s3://no-such-bucket-here/warehouse"})
    calls: list[Callable[[], object]] = [
        catalog.list_databases,
        lambda: catalog.create_database("d"),
        lambda: catalog.get_table("d.t"),
        lambda: catalog.storage.create("s3://no-such-bucket-here/x", b"x"),
        lambda: lw.open_table("s3://no-such-bucket-here/d.db/t", warehouse),
    ]
    for call in calls:
        with pytest.raises(lw.NotFoundError, match="s3://no-such-bucket-here does not exist"):
            call()


def test_figures(minio: S3Server, warehouse: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Print what commits, writes and reads cost here."""
    table = _table(open_filesystem(warehouse), ORDERS, "d.small")
    lw.write_table(_orders([0], "mon"), table)
    counted = FaultyStorage(table.store.storage)
    watched = replace(table, store=replace(table.store, storage=counted))
    commits = []
    for n in range(20):
        with table.new_batch_write_builder().new_write() as write:
            messages = write.write_arrow(_orders([n], "mon")).prepare_commit()
        commits.append(watched.new_batch_write_builder().new_commit().commit(messages).seconds)
    millis, requests = 1000 * float(np.median(commits)), len(counted.calls) / len(commits)
    print(f"\na commit: {millis:.0f} ms (median of {len(commits)}), {requests:.1f} requests")
    started = time.perf_counter()
    assert lw.read_table(table).num_rows == 21
    print(f"a read of 21 small files: {time.perf_counter() - started:.3f} s")
    big = _table(open_filesystem(warehouse), ORDERS, "d.big")
    dice = np.random.default_rng(1)
    days = pa.array([f"2026-11-{day:02}" for day in range(1, 31)]).take(pa.array(dice.integers(0, 30, MILLION)))
    rows = pa.table({"id": np.arange(MILLION), "day": days, "price": dice.random(MILLION)}, schema=ORDERS)
    started = time.perf_counter()
    result = lw.write_table(rows, big)
    print(f"1 M rows, {result.bytes / 1e6:.0f} MB written: {time.perf_counter() - started:.2f} s")
    fetched = _count_bytes(monkeypatch)
    started = time.perf_counter()
    assert lw.read_table(big).num_rows == MILLION
    print(f"1 M rows read: {time.perf_counter() - started:.2f} s, {len(fetched)} ranges, {sum(fetched) / 1e6:.0f} MB")
    assert minio.endpoint.startswith("http://127.0.0.1:")


def _table(
    catalog: lw.Catalog,
    schema: pa.Schema,
    name: str,
    partition_keys: list[str] | None = None,
    options: dict[str, str] | None = None,
) -> lw.FileStoreTable:
    catalog.create_database("d", ignore_if_exists=True)
    made = lw.Schema.from_pyarrow_schema(schema, partition_keys=partition_keys, options=options)
    catalog.create_table(name, made)
    return _open(catalog, name)


def _open(catalog: lw.Catalog, name: str) -> lw.FileStoreTable:
    table = catalog.get_table(name)
    assert isinstance(table, lw.FileStoreTable)
    return table


def _orders(ids: list[int], day: str) -> pa.Table:
    return pa.table({"id": ids, "day": [day] * len(ids), "price": [1.0] * len(ids)}, schema=ORDERS)


def _ids(table: lw.FileStoreTable) -> list[int]:
    return sorted(lw.read_table(table)["id"].to_pylist())


def _etags(minio: S3Server, location: str) -> Iterator[str]:
    """Yield the tags of all objects; those of objects that were uploaded in parts end in the number of parts."""
    bucket = location.removeprefix("s3://").partition("/")[0]
    for page in minio.client().get_paginator("list_objects_v2").paginate(Bucket=bucket):
        yield from (found["ETag"] for found in page.get("Contents", ()))


def _count_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that takes the size of everything that is fetched of data files from now on."""
    fetched: list[int] = []
    get_range, get_tail = ObjectClient.get_range, ObjectClient.get_tail

    def counted_range(self: ObjectClient, key: str, start: int, end: int) -> bytes:
        data = get_range(self, key, start, end)
        fetched.append(len(data))
        return data

    def counted_tail(self: ObjectClient, key: str, length: int, size: int | None = None) -> tuple[int, bytes]:
        found, data = get_tail(self, key, length, size)
        fetched.append(len(data))
        return found, data

    monkeypatch.setattr(ObjectClient, "get_range", counted_range)
    monkeypatch.setattr(ObjectClient, "get_tail", counted_tail)
    return fetched
