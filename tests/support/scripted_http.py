"""A tiny HTTP server on loopback that answers what a test wrote down, and keeps the requests that it got."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from lakewright.catalog.rest_http import Patience

QUICK = Patience(connect_seconds=2, read_seconds=2, pause_first=0.001)


@dataclass(frozen=True)
class Answer:
    """One answer: a status and a JSON value (bytes are sent as they are), or a fault in place of it.

    A fault is `cut` (the connection is closed without an answer), `half` (only half of the body is sent) or `hang`
    (nothing is sent until the server stops).
    """

    status: int = 200
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""


@dataclass(frozen=True)
class Got:
    """One request as it arrived."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: object


@dataclass
class Script:
    """The answers to come, in order, and the requests so far. What is asked beyond the script is answered 200."""

    port: int = 0
    answers: list[Answer] = field(default_factory=list)
    requests: list[Got] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def will(self, *answers: Answer) -> Script:
        self.answers += answers
        return self

    @property
    def names(self) -> list[str]:
        return [f"{got.method} {got.target}" for got in self.requests]


@contextmanager
def scripted() -> Iterator[Script]:
    """Run a server in a thread of this process."""
    script = Script()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            pass

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            data = self.rfile.read(length)
            body = json.loads(data) if data else None
            script.requests.append(Got(self.command, self.path, dict(self.headers.items()), body))
            answer = script.answers.pop(0) if script.answers else Answer()
            if answer.fault == "hang":
                script.stopped.wait(10)
            if answer.fault in {"cut", "hang"}:
                self.close_connection = True
                return
            plain = answer.body is None or isinstance(answer.body, bytes)
            content = (answer.body or b"") if plain else json.dumps(answer.body).encode()
            assert isinstance(content, bytes)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if answer.fault == "half":
                content, self.close_connection = content[: len(content) // 2], True
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - the names of the base class

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        script.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield script
        finally:
            script.stopped.set()
            server.shutdown()
            thread.join()
