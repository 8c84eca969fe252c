"""Alibaba's OSS, as a store of ours answers that keeps to what OSS documents; see `support.oss` for what that shows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import lakewright as lw
from lakewright.storage import object_client
from lakewright.storage.credentials import Credentials
from lakewright.storage.object import ObjectStorage
from lakewright.storage.open import open_storage
from lakewright.testing.suites import StorageContract
from support.append_races import race_appends
from support.effort import examples
from support.oss import SECRET, OssServer, running_oss
from support.programs import free_port
from support.s3 import S3Server

RACERS = 8
RACES = examples(200)


@pytest.fixture
def oss(s3_server: S3Server) -> Iterator[OssServer]:
    with running_oss(s3_server) as server:
        yield server


class TestOss(StorageContract):
    @pytest.fixture
    def storage(self, oss: OssServer) -> ObjectStorage:
        return oss.storage()

    @pytest.fixture
    def root(self, storage: ObjectStorage) -> str:
        return f"{storage.url}/lake"


@pytest.mark.parametrize("share", [0.0, 0.2], ids=["", "answers lost"])
def test_of_racing_creators_one_wins(oss: OssServer, share: float) -> None:
    storage = oss.storage()
    oss.front.faults_share = share
    barrier = threading.Barrier(RACERS)

    def racer(number: int) -> list[bool]:
        won = []
        for race in range(RACES):
            barrier.wait(60)
            won.append(storage.create(f"{storage.url}/race/{race}", b"racer %d" % number))
        return won

    with ThreadPoolExecutor(RACERS) as pool:
        wins = list(zip(*pool.map(racer, range(RACERS)), strict=True))
    assert [sum(won) for won in wins] == [1] * RACES
    for race, won in enumerate(wins):
        assert storage.read(f"{storage.url}/race/{race}") == b"racer %d" % won.index(True)


@pytest.mark.processes
def test_processes_append(oss: OssServer, tmp_path: Path) -> None:
    oss.front.faults_share = 0.1
    race_appends(lw.CatalogFactory.create({**oss.options, "warehouse": f"{oss.new_bucket()}/race"}), tmp_path)


def test_a_bucket_that_keeps_versions_is_refused(oss: OssServer) -> None:
    storage = oss.storage()
    oss.front.keeps_versions = True
    with pytest.raises(lw.UnsupportedError, match=r"'x-oss-forbid-overwrite', .*versioning, .*REST") as caught:
        storage.create(f"{storage.url}/t/snapshot-1", b"1")
    assert "\n" not in str(caught.value)
    assert list(storage.walk(storage.url)) == []


def test_keys_that_renew_themselves_publish_too(oss: OssServer) -> None:
    keys = {"fs.oss.accessKeyId": "a", "fs.oss.accessKeySecret": "b", "fs.oss.securityToken": "c"}
    expires = datetime.now(UTC) + timedelta(hours=1)
    options, url = {"fs.oss.endpoint": oss.front.endpoint}, oss.new_bucket()
    storage, root = open_storage(f"{url}/t", options, Credentials.of(lambda: {**keys, "expires_at": expires}, url))
    assert storage.create(f"{root}/a", b"x")
    assert not storage.create(f"{root}/a", b"y")
    assert [info.path for info in storage.list(root)] == [f"{url}/t/a"]
    assert storage.read(f"{root}/a") == b"x"


def test_refused_keys_are_named_without_secrets(oss: OssServer) -> None:
    storage = oss.storage()
    oss.front.refused = {"PUT", "GET", "HEAD"}
    calls: list[Callable[[], object]] = [
        lambda: storage.create(f"{storage.url}/x", b"x"),
        lambda: storage.read(f"{storage.url}/x"),
        lambda: list(storage.list(storage.url)),
    ]
    for call in calls:
        with pytest.raises(PermissionError, match=r"403.*check the keys") as caught:
            call()
        assert SECRET not in f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}"


def test_a_missing_bucket_is_named(oss: OssServer) -> None:
    storage = ObjectStorage("oss://no-such-bucket-here", oss.options)
    with pytest.raises(lw.NotFoundError, match="oss://no-such-bucket-here does not exist"):
        storage.create("oss://no-such-bucket-here/x", b"x")


def test_an_endpoint_that_is_down_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_client, "PUT_ATTEMPTS_MAX", 1)
    options = {"fs.oss.endpoint": f"http://127.0.0.1:{free_port()}", "fs.oss.accessKeySecret": SECRET}
    storage = ObjectStorage("oss://lake", options | {"fs.oss.accessKeyId": "oss-access-key"})
    with pytest.raises(OSError, match=r"does not answer .*: check the endpoint and the network: 'oss:") as caught:
        storage.create("oss://lake/x", b"x")
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)
