"""HDFS locations and answers, with scripted namenodes; `tests/interop/stores` has a real one."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.storage import hdfs_storage
from lakewright.storage import hdfs_storage as hdfs_module
from lakewright.storage.hdfs_storage import HdfsStorage
from lakewright.storage.storage_registry import open_storage
from support.programs import free_port
from support.store_fronts import serving

LOST = (0, "")


class Namenode(ThreadingHTTPServer):
    """Answers from a script, one entry for each request: a status and a body; LOST drops the connection."""

    daemon_threads = True

    def __init__(self, script: list[tuple[int, str]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        self.asked: list[str] = []
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: dropped connections are the point."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Namenode

    def handle_any(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                self.rfile.read(size + 2)
            self.rfile.readline()
        with self.server.lock:
            self.server.asked.append(f"{self.command} {self.path}")
            status, body = self.server.script.pop(0)
        if status == 0:
            self.close_connection = True
            self.connection.close()
            return
        self.send_response(status)
        if status == 307:
            self.send_header("Location", body)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    do_GET = do_PUT = do_DELETE = handle_any  # noqa: N815 - the names are the base class's

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        pass

    def finish(self) -> None:
        if not self.wfile.closed:
            try:
                super().finish()
            except OSError:
                return


def _remote(status: int, name: str, message: str = "words\n\tat a.stack") -> tuple[int, str]:
    return status, json.dumps({"RemoteException": {"exception": name, "message": message}})


ABSENT = _remote(404, "FileNotFoundException")
TAKEN = _remote(403, "FileAlreadyExistsException")
STATUS = (200, json.dumps({"FileStatus": {"type": "FILE", "length": 4, "pathSuffix": ""}}))
DONE = (200, '{"boolean": true}')


@pytest.fixture
def namenode(monkeypatch: pytest.MonkeyPatch) -> Iterator[Namenode]:
    monkeypatch.setattr(hdfs_module, "_CREATE_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(hdfs_storage, "_RETRY_PAUSE_SECONDS", 0.0)
    server = Namenode([])
    with serving(server):
        yield server


@pytest.fixture
def storage(namenode: Namenode) -> HdfsStorage:
    return HdfsStorage.of("hdfs", "nn", {"dfs.namenode.http-address": namenode.address, "hadoop.user.name": "ada"})


def _upload(namenode: Namenode) -> list[tuple[int, str]]:
    """Return the answers to a look for the target and to a whole upload of the temporary file."""
    return [ABSENT, (307, f"http://{namenode.address}/data"), (201, "")]


@pytest.mark.parametrize(
    ("renames", "won"),
    [
        ([DONE], True),
        ([TAKEN, DONE], False),  # the temporary file is removed
        ([LOST, ABSENT], True),  # the temporary file is gone: it was renamed
        ([LOST, STATUS, DONE], True),
        ([LOST, STATUS, TAKEN, STATUS, DONE], False),
        ([LOST, STATUS, TAKEN, ABSENT], True),  # the first rename came late
        ([LOST, STATUS, ABSENT], True),
        ([_remote(403, "SafeModeException"), STATUS, DONE], True),
    ],
)
def test_the_temporary_file_tells_how_a_rename_ended(
    storage: HdfsStorage, namenode: Namenode, renames: list[tuple[int, str]], won: bool
) -> None:
    namenode.script = _upload(namenode) + renames
    assert storage.create("hdfs://nn/t/snapshot-1", b"mine") is won
    assert namenode.script == []
    assert all("user.name=ada" in asked for asked in namenode.asked if "/webhdfs/" in asked)


def test_a_rename_that_is_never_answered_is_told(storage: HdfsStorage, namenode: Namenode) -> None:
    namenode.script = [*_upload(namenode), *([LOST, STATUS] * 4), LOST, DONE]
    with pytest.raises(OSError, match=r"does not answer .*check 'dfs\.namenode\.http-address'") as caught:
        storage.create("hdfs://nn/t/snapshot-1", b"mine")
    assert "\n" not in str(caught.value)
    assert namenode.asked[-1].startswith("DELETE")


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (ABSENT, FileNotFoundError, "no such file: 'hdfs://nn/t/a'"),
        (_remote(403, "AccessControlException"), PermissionError, r"user 'ada' \(words\): set 'hadoop\.user\.name'"),
        ((401, "<html>"), UnsupportedError, "asks for Kerberos"),
        ((404, "<html>"), OSError, r"no WebHDFS at .*\(status 404\): check 'dfs\.namenode\.http-address'"),
        (_remote(403, "StandbyException"), OSError, "is active: name all in"),
        (_remote(500, "IOException"), OSError, "words: 'hdfs://nn/t/a'"),
    ],
)
def test_answers_become_errors_of_one_line(
    storage: HdfsStorage, namenode: Namenode, answer: tuple[int, str], error: type[Exception], message: str
) -> None:
    namenode.script = [answer]
    with pytest.raises(error, match=message) as caught:
        storage.read("hdfs://nn/t/a")
    assert "\n" not in str(caught.value)


def test_a_full_quota_is_a_refusal(storage: HdfsStorage, namenode: Namenode) -> None:
    namenode.script = [_remote(403, "DSQuotaExceededException", "the quota is full")]
    with pytest.raises(OSError, match=r"the quota is full: 'hdfs://nn/t/a'"):
        storage.make_directory("hdfs://nn/t/a")


def test_reads_are_repeated_when_a_connection_is_lost(storage: HdfsStorage, namenode: Namenode) -> None:
    namenode.script = [LOST, (307, f"http://{namenode.address}/data"), LOST, (307, f"http://{namenode.address}/data")]
    namenode.script.append((200, "bytes"))
    assert storage.read("hdfs://nn/t/a") == b"bytes"


def test_a_namenode_in_standby_is_passed_over(storage: HdfsStorage, namenode: Namenode) -> None:
    standby = Namenode([_remote(403, "StandbyException")])
    with serving(standby):
        both = {"hadoop.dfs.namenode.http-address": f"{standby.address}, {namenode.address}", "hadoop.user.name": "x"}
        namenode.script = [DONE]
        open_storage("hdfs://service/t", both)[0].make_directory("hdfs://service/t")
    assert standby.script == namenode.script == []
    assert storage.renames_atomically


def test_a_short_answer_is_an_error(storage: HdfsStorage, namenode: Namenode) -> None:
    namenode.script = [STATUS, (200, "abc")]
    with pytest.raises(OSError, match="gave 3 of 4 bytes"):
        storage.open_input("hdfs://nn/t/a")


def test_a_cluster_that_is_down_is_told() -> None:
    address = f"127.0.0.1:{free_port()}"
    storage = HdfsStorage.of("hdfs", "nn", {"dfs.namenode.http-address": address})
    with pytest.raises(OSError, match=f"does not answer at http://{address} .*: check"):
        storage.make_directory("hdfs://nn/t")


@pytest.mark.parametrize(
    ("location", "url", "namenodes"),
    [
        ("hdfs://nn/a/b/", "hdfs://nn", ("http://nn:9870",)),
        ("hdfs://nn:8020/a/b", "hdfs://nn:8020", ("http://nn:9870",)),
        ("webhdfs://nn:50070/a/b", "webhdfs://nn:50070", ("http://nn:50070",)),
        ("swebhdfs://nn/a/b", "swebhdfs://nn", ("https://nn:9870",)),
    ],
)
def test_locations_name_the_namenode(location: str, url: str, namenodes: tuple[str, ...]) -> None:
    storage, spelled = open_storage(location, {})
    assert isinstance(storage, HdfsStorage)
    assert spelled == f"{url}/a/b"
    assert storage.hdfs.namenodes == namenodes
    assert pickle.loads(pickle.dumps(storage)) == storage  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("hdfs:///a", "names no namenode"),
        ("hdfs://ada@nn/a", r"hadoop\.user\.name"),
        ("hdfs://nn/a/../b", "relative part"),
        ("hdfs://nn/a//b", "empty or relative part"),
    ],
)
def test_wrong_locations_are_refused(location: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        open_storage(location, {})


def test_paths_outside_are_refused(storage: HdfsStorage) -> None:
    with pytest.raises(UnsupportedError, match="lies outside hdfs://nn"):
        storage.read("hdfs://other/a")
    with pytest.raises(InvalidInputError, match="names no file"):
        storage.delete_directory("hdfs://nn/")
