"""A stand-in for a REST catalog server: HTTP on loopback in threads, with levers for faults and a log of the traffic.

It answers as Java's servers of 2.0.0 or 1.4.2 do as far as a client can see. What it proves is that our side keeps to
the protocol and survives its faults; whether the protocol is right is shown by `make nightly PART=interop-rest`
on Java's servers.
Requests are carried out one at a time.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qsl, quote_plus, unquote_plus

from lakewright.errors import LakewrightError
from support.rest_tables import CrashedError, RefusedError, Tables

COMMIT = r"^POST .*/commit$"


@dataclass
class Fault:
    """The next `left` requests that match are answered `how`; those with `carried` take place first."""

    left: int
    how: str
    match: str
    carried: bool


@dataclass(frozen=True)
class Entry:
    """One request and its answer. Status 0: nothing whole was sent."""

    request: str  # "GET /v1/..."
    headers: Mapping[str, str]
    body: Any
    status: int
    answer: Any
    note: str  # refused, lost, crashed: why; empty without a fault


@dataclass
class RestServer:
    """A running server. The levers may be used from any thread at any time."""

    data: str
    like: str = "2.0.0"
    token: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    warehouse: str = "wh"
    prefix: str = "paimon"
    defaults: dict[str, str] = field(default_factory=dict)  # of the configuration
    overrides: dict[str, str] = field(default_factory=dict)
    storage_options: dict[str, str] = field(default_factory=lambda: {"lakewright.durable": "false"}, repr=False)
    data_token_seconds: float | None = None
    data_token_options: dict[str, str] = field(default_factory=dict, repr=False)  # more members of each data token
    dlf: tuple[str, str, str | None] | None = field(default=None, repr=False)  # id, secret, session
    dlf_region: str = "cn-hangzhou"

    log: list[Entry] = field(default_factory=list, repr=False)
    data_tokens: list[dict[str, str]] = field(default_factory=list, repr=False)  # all that were given out
    tables: Tables = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.tables = Tables(self.data, self.like, self.storage_options, self.defaults)
        self._faults: list[Fault] = []
        self._actions: list[tuple[str, Callable[[], object]]] = []
        self._turn = threading.RLock()
        self._stopped = threading.Event()
        self._retry_after: str | None = None
        self._answers_until_refusing: tuple[int, float] | None = None
        self._given: dict[str, tuple[dict[str, str], int]] = {}
        self._port = 0
        self._http: ThreadingHTTPServer | None = None
        self._listen()

    # What a client needs.

    @property
    def uri(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def options(self) -> dict[str, str]:
        """The options of a catalog on this server."""
        common = {"metastore": "rest", "uri": self.uri, "warehouse": self.warehouse, "lakewright.durable": "false"}
        if self.dlf is None:
            return {**common, "token.provider": "bear", "token": self.token}
        keys = {"dlf.access-key-id": self.dlf[0], "dlf.access-key-secret": self.dlf[1], "dlf.region": self.dlf_region}
        session = {} if self.dlf[2] is None else {"dlf.security-token": self.dlf[2]}
        return {**common, "token.provider": "dlf", **keys, **session}

    # Levers.

    def lose(self, number: int = 1, how: str = "500", match: str = COMMIT) -> None:
        """Carry out the next requests that match, and answer them with a fault. Of commits only the successful count.

        `how`: a status, or one and another code in the body (`502 404`), `cut`, `reset`, `half` (of a body), `garbage`
        (a page of HTML), `hang`, or `again`: the request is sent twice by a proxy, and the answer is the second one.
        """
        with self._turn:
            self._faults.append(Fault(number, how, match, carried=True))

    def fail(self, number: int, how: str, match: str = "") -> None:
        """Answer the next requests that match with a fault, without carrying them out.

        `how`: as for `lose`; or `late 0.1`, which cuts the connection and carries the request out that much later.
        """
        with self._turn:
            self._faults.append(Fault(number, how, match, carried=False))

    def meanwhile(self, action: Callable[[], object], match: str = COMMIT) -> None:
        """Call a function once, after the next request that matches was handled and before it is answered."""
        with self._turn:
            self._actions.append((match, action))

    def retry_after(self, value: str | None) -> None:
        """Add the header Retry-After to answers with a status that is a fault."""
        self._retry_after = value

    def refuse_after(self, answers: int, seconds: float) -> None:
        """Answer so many more requests, then refuse connections for a time."""
        with self._turn:
            if answers:
                self._answers_until_refusing = (answers, seconds)
                return
        self._refuse(seconds)

    def listen(self) -> None:
        """Accept connections again, before the time is over."""
        with self._turn:
            self._answers_until_refusing = None
            if self._http is None and not self._stopped.is_set():
                self._listen()

    def calm(self) -> None:
        """End all faults."""
        with self._turn:
            self._faults.clear()
            self._retry_after = None
            self._answers_until_refusing = None

    def deny(self, name: str) -> None:
        """Answer 403 for a database, or a table given as `database.table`."""
        self.tables.denied.add(name)

    def allow(self, name: str) -> None:
        """End `deny`."""
        self.tables.denied.discard(name)

    def faults_left(self) -> int:
        """Return how many faults have not met a request yet."""
        with self._turn:
            return sum(fault.left for fault in self._faults)

    def counts(self) -> Counter[str]:
        """Return the requests by kind and outcome since the start, such as `GET /v1/p/databases/D/tables/T 200`."""
        return Counter(f"{kind(e.request)} {e.note.split(':')[0] or e.status}" for e in list(self.log))

    @contextmanager
    def counting(self) -> Iterator[list[str]]:
        """Collect the kinds of the requests made inside the block."""
        begin = len(self.log)
        kinds: list[str] = []
        yield kinds
        kinds += [kind(entry.request) for entry in self.log[begin:]]

    def renew_data_token(self, table: str, seconds: float) -> None:
        """Give out another data token for `database.table` from now on."""
        number = f"{len(self.data_tokens) + 1}-{secrets.token_hex(8)}"
        made = {
            "fs.s3.accessKeyId": f"data-id-{number}",
            "fs.s3.accessKeySecret": f"data-secret-{number}",
            "fs.s3.securityToken": f"data-session-{number}",
            **self.data_token_options,
        }
        self.data_tokens.append(made)
        self._given[table] = made, int((time.time() + seconds) * 1000)

    def close(self) -> None:
        """Stop."""
        self._stopped.set()
        self._unlisten()

    # Requests.

    def _listen(self) -> None:
        http = _Listener(("127.0.0.1", self._port), _Handler)
        http.rest = self
        self._http, self._port = http, http.server_address[1]
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()

    def _unlisten(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            http.shutdown()
            http.server_close()

    def _refuse(self, seconds: float) -> None:
        self._unlisten()
        timer = threading.Timer(seconds, self.listen)
        timer.daemon = True
        timer.start()

    def _answer(self, handler: _Handler, body: bytes) -> None:
        """Carry out one request and send its answer."""
        request = f"{handler.command} {handler.path}"
        with self._turn:
            refused = self._take(request, carried=False)
            note, status, answer, how = "", 0, None, None
            if refused is not None:
                note, how = "refused", refused.how
                if how.startswith("late "):
                    how = "cut"
                    self._carry_out_later(handler, body, float(refused.how.removeprefix("late ")))
            else:
                try:
                    status, answer = self._carry_out(handler, body)
                except CrashedError as error:
                    note, how = f"crashed: {error}", "cut"
                committed = not request.endswith("/commit") or answer == {"success": True}
                lost = self._take(request, carried=True) if committed else None
                if lost is not None:
                    note, how = "lost", lost.how
                    if how == "again":
                        (status, answer), how = self._carry_out(handler, body), None
            if how is not None:
                status = int(how.split()[0]) if how[0].isdecimal() else 0
            headers = {k.lower(): re.sub("^Bearer .*", "Bearer ...", v) for k, v in handler.headers.items()}
            self.log.append(Entry(request, headers, _parsed(body), status, answer, note))
            number = len(self.log)
            due = [action for match, action in self._actions if re.search(match, request)][:1]
            self._actions = [pair for pair in self._actions if pair[1] not in due]
        for action in due:
            action()
        self._maybe_refuse(handler)
        if how is None:
            handler.reply(status, answer)
        elif status:
            extra = {} if self._retry_after is None else {"Retry-After": self._retry_after}
            failure = {
                "message": "Service Failure",
                "resourceType": "TABLE",
                "resourceName": None,
                "code": int(how.split()[-1]),
            }
            handler.reply(status, failure, {"x-request-id": f"r-{number}", **extra})
        else:
            handler.misbehave(how, self._stopped)

    def _carry_out_later(self, handler: _Handler, body: bytes, seconds: float) -> None:
        def late() -> None:
            with self._turn:
                status, answer = self._carry_out(handler, body)
                self.log.append(Entry(f"{handler.command} {handler.path}", {}, _parsed(body), status, answer, "late"))

        timer = threading.Timer(seconds, late)
        timer.daemon = True
        timer.start()

    def _maybe_refuse(self, handler: _Handler) -> None:
        """Stop listening before the last answer is sent, so that the next request meets a refused connection."""
        with self._turn:
            if self._answers_until_refusing is None:
                return
            left, seconds = self._answers_until_refusing
            self._answers_until_refusing = (left - 1, seconds) if left > 1 else None
        if left <= 1:
            handler.close_connection = True
            self._refuse(seconds)

    def _take(self, request: str, *, carried: bool) -> Fault | None:
        for fault in self._faults:
            if fault.carried == carried and fault.left and re.search(fault.match, request):
                fault.left -= 1
                return fault
        return None

    def _carry_out(self, handler: _Handler, body: bytes) -> tuple[int, Any]:
        """Return status and answer of a request; None is an empty body."""
        raw, _, query_text = handler.path.partition("?")
        query = dict(parse_qsl(query_text, keep_blank_values=True))
        if not self._is_authorized(handler, raw, query, body):
            return 401, None
        names = [unquote_plus(name) for name in raw.split("/")[1:]]
        try:
            if names == ["v1", "config"]:
                return self._config(query)
            if names[:2] != ["v1", self.prefix]:
                return 404, None
            match names[2:]:
                case ["databases", database, "tables", table, "token"] if handler.command == "GET":
                    self.tables.call("GET", names[2:-1], {}, {})  # the errors of a table that does not exist
                    return 200, self._data_token(f"{database}.{table}")
            members = _parsed(body)
            return 200, self.tables.call(handler.command, names[2:], query, members or {})
        except RefusedError as error:
            if error.kind is None and error.code == 404:
                return 404, None
            message = {"message": str(error), "resourceType": error.kind, "resourceName": error.name}
            return error.status, {**message, "code": error.code}
        except LakewrightError as error:  # an invalid schema or change
            return 500, str(error)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CrashedError(repr(error)) from error

    def _config(self, query: Mapping[str, str]) -> tuple[int, Any]:
        if "warehouse" not in query:
            raise CrashedError("no warehouse")
        if query["warehouse"] != self.warehouse:
            return 404, None
        tokens = {} if self.data_token_seconds is None else {"data-token.enabled": "true"}
        return 200, {"defaults": {**self.defaults, "prefix": self.prefix}, "overrides": {**self.overrides, **tokens}}

    def _data_token(self, table: str) -> dict[str, Any]:
        given = self._given.get(table)
        if given is None or given[1] <= time.time() * 1000:
            self.renew_data_token(table, 3600 if self.data_token_seconds is None else self.data_token_seconds)
        token, expires = self._given[table]
        return {"token": token, "expiresAtMillis": expires}

    def _is_authorized(self, handler: _Handler, path: str, query: Mapping[str, str], body: bytes) -> bool:
        sent = handler.headers.get("Authorization", "")
        if self.dlf is None:
            return hmac.compare_digest(sent, f"Bearer {self.token}")
        return hmac.compare_digest(sent, self._signature(handler, path, query, body))

    def _signature(self, handler: _Handler, path: str, query: Mapping[str, str], body: bytes) -> str:
        """Return the header Authorization that a request signed with DLF's keys has."""
        assert self.dlf is not None
        key_id, secret, session = self.dlf
        now = handler.headers.get("x-dlf-date", "")
        signed = {"x-dlf-content-sha256": "UNSIGNED-PAYLOAD", "x-dlf-date": now, "x-dlf-version": "v1"}
        if body:
            signed["content-type"] = "application/json"
            signed["content-md5"] = base64.b64encode(hashlib.md5(body).digest()).decode()  # noqa: S324 - the protocol's
        if session is not None:
            signed["x-dlf-security-token"] = session
        pairs = "&".join(f"{key}={quote_plus(query[key], safe='*')}" for key in sorted(query))
        lines = [handler.command, path, pairs, *(f"{k}:{signed[k]}" for k in sorted(signed)), "UNSIGNED-PAYLOAD"]
        scope = f"{now[:8]}/{self.dlf_region}/DlfNext/aliyun_v4_request"
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        text = f"DLF4-HMAC-SHA256\n{now}\n{scope}\n{digest}"
        key = f"aliyun_v4{secret}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.new(key, text.encode(), "sha256").hexdigest()
        return f"DLF4-HMAC-SHA256 Credential={key_id}/{scope},Signature={signature}"


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    rest: RestServer

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing where a client goes away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        cast("_Listener", self.server).rest._answer(self, body)

    do_POST = do_DELETE = do_GET  # noqa: N815 - names of the standard library

    def reply(self, status: int, answer: object, headers: Mapping[str, str] | None = None) -> None:
        """Send an answer: JSON, a text as it is, or nothing."""
        text = "" if answer is None else answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        body = text.encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def misbehave(self, how: str, stopped: threading.Event) -> None:
        """Send no answer, or one that cannot be read."""
        self.close_connection = True
        match how:
            case "garbage":
                self.reply(200, "<html>a proxy was here</html>")
            case "half":
                half = b'{"success":true, "and": '
                self.send_response(200)
                self.send_header("Content-Length", str(2 * len(half)))
                self.end_headers()
                self.wfile.write(half)
            case "reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
            case "hang":
                stopped.wait(60)
            case "cut":
                pass
            case _:
                raise ValueError(how)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def running_rest(data: str, **settings: Any) -> Iterator[RestServer]:  # noqa: ANN401 - the fields of a server
    """Run a server on a free port, with tables below a directory or bucket."""
    server = RestServer(data, **settings)
    try:
        yield server
    finally:
        server.close()


def kind(request: str) -> str:
    """Return a request with letters in place of the names in it."""
    plain = re.sub(r"\?.*", "", request)
    plain = re.sub(r"/databases/[^/]+", "/databases/D", plain, count=1)
    plain = re.sub(r"/tables/(?!id/|rename)[^/]+", "/tables/T", plain, count=1)
    return re.sub(r"/(tags|snapshots|branches)/[^/]+", r"/\1/X", plain, count=1)


def _parsed(body: bytes) -> Any:  # noqa: ANN401 - JSON
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body.decode(errors="replace")
