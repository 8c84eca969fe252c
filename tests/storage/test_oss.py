"""Alibaba's OSS, played by a store on loopback that answers as OSS documents it where that is not S3.

The store is the S3 emulator behind a front of ours, made from what OSS documents and what its users report; no real OSS
was asked. `If-None-Match` on a put is not implemented, `x-oss-forbid-overwrite` is, unless the bucket keeps versions, a
deletion of several objects must carry `Content-MD5`, and a range that is not inside the object gives the whole object.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import lakewright as lw
from contract.storage_suite import StorageContract
from lakewright.storage import object_client
from lakewright.storage.credentials import Credentials
from lakewright.storage.object_storage import ObjectStorage
from lakewright.storage.storage_registry import open_storage
from support.append_races import race_appends
from support.effort import examples
from support.programs import free_port
from support.s3 import S3Server
from support.store_fronts import Answer, Front, serving

SECRET = "oss-secret-key"  # noqa: S105 - the emulator takes any
RACERS = 8
RACES = examples(100)


class OssFront(Front):
    """Turns what OSS does differently into requests of S3."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.keeps_versions = False
        self.refused: set[str] = set()  # methods that the keys have no right to
        self._puts = threading.Lock()

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Return the answer of OSS to a request."""
        lower = {name.lower(): value for name, value in headers.items()}
        if method in self.refused:
            return _error(403, "AccessDenied")
        if method == "PUT" and "if-none-match" in lower:
            return _error(501, "NotImplemented")
        if method == "POST" and path.endswith("?delete") and "content-md5" not in lower:
            return _error(400, "MissingArgument")
        if method == "PUT" and lower.get("x-oss-forbid-overwrite") == "true" and not self.keeps_versions:
            with self._puts:
                exists = self._head(path, lower).status == 200
                return _error(409, "FileAlreadyExists") if exists else self.passed_on(method, path, headers, body)
        if "range" in lower and not self._fits(path, lower):
            headers = {name: value for name, value in headers.items() if name.lower() != "range"}
        return self.passed_on(method, path, headers, body)

    def _fits(self, path: str, lower: Mapping[str, str]) -> bool:
        found = self._head(path, lower).headers
        size = int(next((value for name, value in found.items() if name.lower() == "content-length"), 0))
        first, _, last = lower["range"].removeprefix("bytes=").partition("-")
        return int(last) < size if first else int(last) <= size

    def _head(self, path: str, lower: Mapping[str, str]) -> Answer:
        return self.passed_on("HEAD", path, {"Authorization": lower["authorization"]}, b"")


@dataclass(frozen=True)
class OssServer:
    """A running store."""

    front: OssFront
    behind: S3Server
    options: dict[str, str] = field(repr=False)

    def new_bucket(self) -> str:
        """Make an empty bucket and return its URL."""
        return f"oss://{self.behind.make_bucket()}"

    def storage(self) -> ObjectStorage:
        """Return the storage of a new bucket."""
        return ObjectStorage(self.new_bucket(), self.options)


@contextmanager
def running_oss(behind: S3Server) -> Iterator[OssServer]:
    """Run the front of an S3 emulator until the block is left."""
    front = OssFront(int(behind.endpoint.rpartition(":")[2]))
    options = {
        "fs.oss.endpoint": front.endpoint,
        "fs.oss.accessKeyId": "oss-access-key",
        "fs.oss.accessKeySecret": SECRET,
    }
    with serving(front):
        yield OssServer(front, behind, options)


def _error(status: int, code: str) -> Answer:
    body = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>{code}</Message></Error>"
    return Answer(status, {"Content-Type": "application/xml"}, body.encode())


@pytest.fixture
def oss(s3_server: S3Server) -> Iterator[OssServer]:
    with running_oss(s3_server) as server:
        yield server


@pytest.mark.nightly  # all but creation is the object storage that `test_storage_contract` tests
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


@pytest.mark.nightly  # local processes race in `test_concurrent_processes`, creators on OSS above
@pytest.mark.processes
def test_processes_that_append_at_once_lose_nothing(oss: OssServer, tmp_path: Path) -> None:
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
