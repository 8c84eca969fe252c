"""Large objects are uploaded in parts: side by side, in bounded memory, and whole or not at all."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from lakewright.storage import object_storage as object_module
from lakewright.storage.object_client import PARTS_AT_ONCE
from lakewright.storage.object_storage import ObjectStorage
from support.s3 import s3_options

PART = 64 * 1024
PARTS = 40
DIES = """
import json, os, sys
from lakewright.storage import object_storage as object_module
object_module.PART_BYTES = 65536
output = object_module.ObjectStorage("s3://b", json.loads(sys.argv[1])).open_output("s3://b/x")
for _ in range(20):
    output.write(bytes(65537))
os._exit(9)
"""


@dataclass
class PartStore:
    """A store on loopback that knows S3's uploads in parts alone: what it has seen, and what it refuses."""

    options: dict[str, str] = field(default_factory=dict)
    wait_seconds: float = 0.0
    refused: frozenset[int] = frozenset()  # the numbers of the parts that fail
    refuses_end: bool = False  # whether the request that ends an upload fails
    under_way: int = 0
    under_way_max: int = 0
    parts: dict[int, int] = field(default_factory=dict)  # the sizes of parts by their numbers
    uploads: set[str] = field(default_factory=set)  # that were begun and neither ended nor aborted
    aborted: int = 0
    objects: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: PartStore

    def do_HEAD(self) -> None:
        size = self.store.objects.get(self._key)
        if size is None:
            self._answer(404)
            return
        self.send_response(200)
        for name, value in (
            ("Content-Length", str(size)),
            ("Last-Modified", "Wed, 01 Jul 2026 00:00:00 GMT"),
            ("ETag", '"x"'),
        ):
            self.send_header(name, value)
        self.end_headers()

    def do_POST(self) -> None:
        self._body()
        store = self.store
        if "delete" in self._query:  # the storage deletes one object at a time
            store.objects.clear()
            self._answer(200, "<DeleteResult></DeleteResult>")
        elif "uploads" in self._query:
            with store.lock:
                name = f"upload-{len(store.uploads)}-{time.monotonic_ns()}"
                store.uploads.add(name)
            self._answer(
                200, f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>"
            )
        elif store.refuses_end:
            self._answer(400, "<Error><Code>InvalidPart</Code></Error>")
        else:
            with store.lock:
                store.uploads.discard(self._query["uploadId"][0])
                store.objects[self._key] = sum(store.parts.values())
            self._answer(200, '<CompleteMultipartUploadResult><ETag>"x"</ETag></CompleteMultipartUploadResult>')

    def do_PUT(self) -> None:
        store, number = self.store, int(self._query["partNumber"][0])
        with store.lock:
            store.under_way += 1
            store.under_way_max = max(store.under_way_max, store.under_way)
        size = self._body()
        time.sleep(store.wait_seconds)
        with store.lock:
            store.under_way -= 1
            store.parts[number] = size
        if number in store.refused:
            self._answer(400, "<Error><Code>InvalidPart</Code></Error>")
        else:
            self._answer(200, headers={"ETag": f'"{number}"'})

    def do_DELETE(self) -> None:
        with self.store.lock:
            if "uploadId" in self._query:
                self.store.uploads.discard(self._query["uploadId"][0])
                self.store.aborted += 1
            else:
                self.store.objects.pop(self._key, None)
        self._answer(204)

    @property
    def _key(self) -> str:
        return urlsplit(self.path).path

    @property
    def _query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.path).query, keep_blank_values=True)

    def _body(self) -> int:
        return len(self.rfile.read(int(self.headers.get("Content-Length", "0"))))

    def _answer(self, status: int, body: str = "", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        with suppress(BrokenPipeError, ConnectionResetError):  # a client that gives up does not wait for other answers
            self.end_headers()
            self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@contextmanager
def running_part_store() -> Iterator[PartStore]:
    """Run a store while a block lasts."""
    store = PartStore()
    answers = type("Answers", (_Answers,), {"store": store})
    with ThreadingHTTPServer(("127.0.0.1", 0), answers) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        store.options = s3_options(f"http://127.0.0.1:{server.server_address[1]}")
        try:
            yield store
        finally:
            server.shutdown()


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[PartStore]:
    monkeypatch.setattr(object_module, "PART_BYTES", PART)
    with running_part_store() as running:
        yield running


def upload(store: PartStore) -> None:
    """Write an object as a writer of data files does."""
    output = ObjectStorage("s3://b", store.options).open_output("s3://b/x")
    try:
        for _ in range(PARTS):
            output.write(bytes(PART))
        output.close()
    except BaseException:
        output.discard()
        raise


def test_parts_are_sent_side_by_side_and_few_are_held(store: PartStore) -> None:
    store.wait_seconds = 0.1
    upload(store)
    assert store.objects == {"/b/x": PARTS * PART}
    assert 1 < store.under_way_max <= PARTS_AT_ONCE


@pytest.mark.parametrize("part", [1, 20, PARTS - 1, PARTS])
def test_if_a_part_is_refused_nothing_is_left(store: PartStore, part: int) -> None:
    store.refused = frozenset({part})
    with pytest.raises(OSError, match="s3://b/x"):
        upload(store)
    assert (store.objects, store.uploads) == ({}, set())
    assert store.aborted >= 1


def test_if_the_end_is_refused_nothing_is_left(store: PartStore) -> None:
    store.refuses_end = True
    with pytest.raises(OSError, match="s3://b/x"):
        upload(store)
    assert (store.objects, store.uploads) == ({}, set())
    assert store.aborted == 1


def test_if_the_process_dies_nothing_is_visible(store: PartStore) -> None:
    """The parts stay until a rule of the bucket removes them: nobody is left who could (docs/storage.md)."""
    command = [sys.executable, "-c", DIES, json.dumps(store.options)]
    died = subprocess.run(command, capture_output=True, text=True, check=False)
    assert died.returncode == 9, died.stderr
    assert store.objects == {}
    assert (len(store.uploads), store.aborted) == (1, 0)
    assert ObjectStorage("s3://b", store.options).size("s3://b/x") is None
