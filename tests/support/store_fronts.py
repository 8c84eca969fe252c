"""HTTP servers between a client and the emulator of a store: they lose answers, and speak what an emulator does not.

A front passes every request on and every answer back. Where a share of faults is set, a put with a condition, and a
rename in HDFS, is dropped or answered with 503, before or after the emulator has taken it: the client is left in doubt.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
import urllib.parse
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_CONDITIONS = ("If-None-Match", "x-goog-if-generation-match", "x-oss-forbid-overwrite")
# Headers that are of one connection: those of a request name the front as the host.
_OF_REQUEST = frozenset({"connection", "host", "keep-alive"})
_OF_ANSWER = frozenset({"connection", "transfer-encoding", "content-length", "keep-alive"})
_FAULTS = ("drop before", "drop after", "503 before", "503 after")
_TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class Answer:
    """What a server says to one request."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Front(ThreadingHTTPServer):
    """Passes requests on to a server on loopback."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), handler or Handler)
        self.target_port = port
        self.faults_share = 0.0
        self.faults: list[str] = []
        self.random = random.Random(7)

    @property
    def endpoint(self) -> str:
        """Return where clients find the front."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Return the answer to a request: that of the server behind."""
        return self.passed_on(method, path, headers, body)

    def passed_on(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send a request to the server behind, and return its answer."""
        kept = {name: value for name, value in headers.items() if name.lower() not in _OF_REQUEST}
        connection = http.client.HTTPConnection("127.0.0.1", self.target_port, timeout=_TIMEOUT_SECONDS)
        try:
            connection.request(method, path, body or None, kept)
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def fault(self) -> str | None:
        """Return what goes wrong with the next put, if anything."""
        if self.random.random() >= self.faults_share:
            return None
        self.faults.append(self.random.choice(_FAULTS))
        return self.faults[-1]

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: dropped connections are the point."""


class GcsFront(Front):
    """Turns the writes of Google's XML interface into those of its JSON interface, the only ones fake-gcs-server has.

    Whether a put with a condition wins is decided by the server behind alone.
    """

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._uploads: dict[str, dict[int, bytes]] = {}

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Return the answer to a request, in the form of the XML interface."""
        place, _, query = path.partition("?")
        parts = place.lstrip("/").split("/", 1)
        asked = {name: values[0] for name, values in urllib.parse.parse_qs(query, keep_blank_values=True).items()}
        if len(parts) < 2 or method not in {"PUT", "POST", "DELETE"} or parts[0] in {"storage", "batch", "upload"}:
            return self.passed_on(method, path, headers, body)
        bucket, key = map(urllib.parse.unquote, parts)
        if "uploads" in asked:
            upload = uuid.uuid4().hex
            self._uploads[upload] = {}
            begun = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            return Answer(200, {}, begun.encode())
        if "uploadId" in asked:
            return self._of_upload(method, bucket, key, asked, body)
        if "x-goog-copy-source" in headers:
            return self._copy(bucket, key, headers["x-goog-copy-source"])
        if method == "PUT":
            return self._put(bucket, key, headers.get("x-goog-if-generation-match"), body)
        return self.passed_on(method, path, headers, body)

    def _of_upload(self, method: str, bucket: str, key: str, asked: Mapping[str, str], body: bytes) -> Answer:
        if method == "DELETE":
            self._uploads.pop(asked["uploadId"], None)
            return Answer(204)
        if method == "PUT":
            self._uploads[asked["uploadId"]][int(asked["partNumber"])] = body
            return Answer(200, {"ETag": f'"{asked["partNumber"]}"'})
        parts = self._uploads.pop(asked["uploadId"])
        put = self._put(bucket, key, None, b"".join(parts[number] for number in sorted(parts)))
        done = '<CompleteMultipartUploadResult><ETag>"1"</ETag></CompleteMultipartUploadResult>'
        return Answer(put.status, put.headers, done.encode() if put.status == 200 else put.body)

    def _put(self, bucket: str, key: str, generation: str | None, body: bytes) -> Answer:
        query = {"uploadType": "media", "name": key} | ({} if generation is None else {"ifGenerationMatch": generation})
        path = f"/upload/storage/v1/b/{bucket}/o?{urllib.parse.urlencode(query)}"
        return _like_xml(self.passed_on("POST", path, {"Content-Type": "application/octet-stream"}, body))

    def _copy(self, bucket: str, key: str, source: str) -> Answer:
        origin, _, old = urllib.parse.unquote(source).lstrip("/").partition("/")
        places = [urllib.parse.quote(name, safe="") for name in (origin, old, bucket, key)]
        path = "/storage/v1/b/{}/o/{}/rewriteTo/b/{}/o/{}".format(*places)
        return _like_xml(self.passed_on("POST", path, {"Content-Type": "application/json"}, b"{}"))


def _like_xml(answer: Answer) -> Answer:
    """Return the answer of the JSON interface as the XML interface gives it."""
    if answer.status != 200:
        return Answer(answer.status, {}, answer.body)
    made = json.loads(answer.body)
    made = made.get("resource", made)
    return Answer(200, {"ETag": f'"{made["etag"]}"', "x-goog-generation": made["generation"]})


class Handler(BaseHTTPRequestHandler):
    """Answers the requests to a front."""

    protocol_version = "HTTP/1.1"
    server: Front

    def handle_any(self) -> None:
        """Answer one request of any method."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        decides = any(name in self.headers for name in _CONDITIONS) or "op=RENAME&" in self.path
        is_condition = self.command == "PUT" and decides
        fault = self.server.fault() if is_condition else None
        if fault in {"drop before", "503 before"}:
            answer = Answer(503)
        else:
            answer = self.server.answer(self.command, self.path, dict(self.headers.items()), body)
        if fault is not None and fault.startswith("drop"):
            self.drop()
            return
        self.send(Answer(503) if fault is not None else answer)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any  # noqa: N815 - the names are the base class's

    def drop(self) -> None:
        """Cut the connection."""
        self.close_connection = True
        self.connection.close()

    def send(self, answer: Answer, *, cut: bool = False) -> None:
        """Send an answer; with `cut` half of its body."""
        self.send_response_only(answer.status)
        size = str(len(answer.body))
        for name, value in answer.headers.items():
            if name.lower() == "content-length" and self.command == "HEAD":
                size = value
            if name.lower() not in _OF_ANSWER:
                self.send_header(name, value)
        self.send_header("Content-Length", size)
        self.end_headers()
        if cut:
            self.wfile.write(answer.body[: len(answer.body) // 2])
            self.drop()
        elif self.command != "HEAD":
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        pass

    def finish(self) -> None:
        """End the connection, which may be cut."""
        if not self.wfile.closed:
            try:
                super().finish()
            except OSError:
                return


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[None]:
    """Answer requests, in threads, until the block is left."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
