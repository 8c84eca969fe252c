"""An S3 emulator that checks sessions: it issues keys that live for some seconds and refuses all others.

Keys are asked for at the emulator itself, over HTTP, so that processes of engines can do it; every call is noted with
the process that made it. A request to the store is refused as Amazon does: 403 with `InvalidAccessKeyId` for a key that
nobody knows, `InvalidToken` for one with another session, `ExpiredToken` for one whose time is over.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
import urllib.parse
import urllib.request
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias
from unittest.mock import patch

from moto.moto_server.werkzeug_app import DomainDispatcherApplication

from support.s3 import S3Server, running_s3

Environ: TypeAlias = dict[str, str]
StartResponse: TypeAlias = Callable[[str, list[tuple[str, str]]], object]

_ISSUE = "/issue-session"
_KEY_ID = re.compile(r"Credential=([^/]+)/")
SESSION_VARIABLE = "LAKEWRIGHT_TEST_SESSIONS"
OWNER = "AKIA-TEST-ACCESS"  # whose keys are good for ever: with them a test looks behind the storage's back


@dataclass(frozen=True)
class Call:
    """One call for keys."""

    scope: str  # what they are for, such as a table
    process: int
    at: float
    expires: float


@dataclass
class Sessions:
    """The keys that an emulator knows."""

    life_seconds: float
    port: int = 0
    issues_same: bool = False  # gives the same keys until they expire, as the Java server does
    calls: list[Call] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)  # every key, secret and session that was ever issued
    _known: dict[str, tuple[str, float]] = field(default_factory=dict)
    _given: dict[str, dict[str, str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def issue(self, scope: str, process: int) -> dict[str, str]:
        """Return new keys."""
        with self._lock:
            now = time.time()
            given = self._given.get(scope)
            if not self.issues_same or given is None or self._known[given["fs.s3.accessKeyId"]][1] <= now:
                name = uuid.uuid4().hex
                given = {
                    "fs.s3.accessKeyId": f"ASIA{name[:16].upper()}",
                    "fs.s3.accessKeySecret": f"secret-{name[16:]}",
                    "fs.s3.securityToken": f"session-{uuid.uuid4().hex}",
                }
                self._known[given["fs.s3.accessKeyId"]] = given["fs.s3.securityToken"], now + self.life_seconds
                self._given[scope] = given
                self.secrets += given.values()
            expires = self._known[given["fs.s3.accessKeyId"]][1]
            self.calls.append(Call(scope, process, now, expires))
            return {**given, "expiresAtMillis": str(int(expires * 1000))}

    def revoke(self) -> None:
        """Forget all keys before their time."""
        with self._lock:
            self._known.clear()
            self._given.clear()

    def refusal(self, environ: Environ) -> str | None:
        """Return the code with which a request is refused."""
        key = _KEY_ID.search(environ.get("HTTP_AUTHORIZATION", ""))
        if key is None or key[1] == OWNER:
            return None if key else "AccessDenied"
        token, expires = self._known.get(key[1], ("", 0.0))
        if not token:
            return "InvalidAccessKeyId"
        if token != environ.get("HTTP_X_AMZ_SECURITY_TOKEN"):
            return "InvalidToken"
        # What counts is when the request was signed, in whole seconds: on a busy machine it may take long to get here.
        signed = datetime.strptime(environ["HTTP_X_AMZ_DATE"], "%Y%m%dT%H%M%S%z").timestamp()
        return "ExpiredToken" if expires <= min(signed, time.time()) else None

    def calls_by_process(self) -> Counter[tuple[str, int]]:
        """Return how many calls there were for each scope and process."""
        return Counter((call.scope, call.process) for call in self.calls)

    def most_calls_per_life(self) -> int:
        """Return how often a process called within one life at most."""
        moments: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
        for call in self.calls:
            moments[call.scope, call.process].append(call.at)
        life = self.life_seconds - 0.01  # of milliseconds, in the answer
        return max(sum(begin <= at < begin + life for at in some) for some in moments.values() for begin in some)


@dataclass(frozen=True)
class SessionProvider:
    """Asks a running emulator for keys; a value that can be sent to other processes."""

    endpoint: str
    scope: str = "lake"

    def __call__(self) -> dict[str, object]:
        """Return keys and when they expire."""
        query = urllib.parse.urlencode({"scope": self.scope, "process": os.getpid()})
        with urllib.request.urlopen(f"{self.endpoint}{_ISSUE}?{query}", timeout=10) as answer:  # noqa: S310 - loopback
            keys: dict[str, object] = json.load(answer)
        return {**keys, "expiresAtMillis": int(str(keys["expiresAtMillis"]))}


def environment_keys() -> dict[str, object]:
    """Ask the emulator that a variable of the environment names for keys; a provider that text can name."""
    return SessionProvider(os.environ[SESSION_VARIABLE], "environment")()


@contextmanager
def running_sessions(life_seconds: float) -> Iterator[tuple[S3Server, Sessions]]:
    """Run an emulator that checks sessions, on a free port."""
    sessions = Sessions(life_seconds)
    answer = DomainDispatcherApplication.__call__

    def checked(self: DomainDispatcherApplication, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if int(environ["SERVER_PORT"]) != sessions.port:
            return answer(self, environ, start_response)  # type: ignore[no-any-return]
        if environ["PATH_INFO"] == _ISSUE:
            asked = urllib.parse.parse_qs(environ["QUERY_STRING"])
            keys = sessions.issue(asked["scope"][0], int(asked["process"][0]))
            start_response("200 OK", [("Content-Type", "application/json")])
            return [json.dumps(keys).encode()]
        code = sessions.refusal(environ)
        if code is None:
            return answer(self, environ, start_response)  # type: ignore[no-any-return]
        sessions.refusals.append(f"{code} {environ['REQUEST_METHOD']} {environ['PATH_INFO']}")
        # The body of an answer that names what was sent, as careless servers do.
        sent = environ.get("HTTP_X_AMZ_SECURITY_TOKEN", "")
        start_response("403 Forbidden", [("Content-Type", "application/xml"), ("Connection", "close")])
        return [f"<Error><Code>{code}</Code><Message>{sent}</Message></Error>".encode()]

    with running_s3() as server, patch.object(DomainDispatcherApplication, "__call__", checked):
        sessions.port = int(server.endpoint.rpartition(":")[2])
        yield server, sessions


def session_options(server: S3Server) -> dict[str, str]:
    """Return the options that reach the emulator, without keys."""
    return {key: value for key, value in server.options.items() if key not in {"s3.access-key", "s3.secret-key"}}
