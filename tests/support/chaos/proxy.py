"""A proxy between processes and an S3 server that delays, loses, repeats and cuts at random.

What may happen to a request is what a network and the retries of others can do to it. Two things are left out, which no
client can stand on a store where a delete or an overwrite has no condition: a request that is carried out after its
sender has given it up and gone on, if it deletes a file or overwrites a snapshot, and a deleted snapshot that is
deleted once more. Puts with a condition, new files and hints may come as late as they like.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

from support.store_fronts import Answer, Front, Handler

LATENESS_SECONDS = 2.0  # after which nothing is carried out any more
_SNAPSHOT = re.compile(r"/snapshot/snapshot-\d+$")
_AT_ONCE = ("refused", "503 before", "slow")
_CARRIED_OUT = ("lost", "503 after", "500 after", "slow answer")


class FaultyProxy(Front):
    """Passes requests on to a server on loopback, most of the time."""

    def __init__(self, port: int, seed: str) -> None:
        super().__init__(port, _Handler)
        self.random = random.Random(f"{seed} proxy")
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._under_way = 0

    def misfortune(self, method: str, path: str, headers: Mapping[str, str]) -> str | None:
        """Return what goes wrong with a request, if anything."""
        with self._lock:
            if self.random.random() >= self.faults_share:
                return None
            kinds = [*_AT_ONCE, *_CARRIED_OUT]
            if method == "GET":
                kinds += ["cut", "cut"]
            deletes = method == "DELETE" or (method == "POST" and path.endswith("?delete"))
            at_snapshot = _SNAPSHOT.search(path.partition("?")[0]) is not None
            has_condition = "If-None-Match" in headers
            if method == "PUT" and (has_condition or not at_snapshot):
                kinds += ["late"]
            if not (deletes or (method == "PUT" and at_snapshot and not has_condition)):
                kinds += ["again"]
            kind = self.random.choice(kinds)
            self.counts[f"{method} {kind}"] += 1
            return kind

    def seconds(self) -> float:
        """Return a random time to wait."""
        with self._lock:
            return self.random.uniform(0.01, LATENESS_SECONDS)

    def passed_on(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send a request to the server behind, and return its answer."""
        with self._lock:
            self._under_way += 1
        try:
            return super().passed_on(method, path, headers, body)
        finally:
            with self._lock:
                self._under_way -= 1

    def pass_on_later(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> None:
        """Send a request some time later."""

        def late() -> None:
            with suppress(OSError):
                self.passed_on(method, path, headers, body)

        timer = threading.Timer(self.seconds(), late)
        timer.daemon = True
        timer.start()

    def wait_until_quiet(self) -> None:
        """Wait until nothing is under way; nobody may send anything."""
        time.sleep(LATENESS_SECONDS)
        while self._under_way:
            time.sleep(0.01)


class _Handler(Handler):
    server: FaultyProxy

    def handle_any(self) -> None:
        """Answer one request of any method, or do not."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = self.command, self.path, dict(self.headers.items()), body
        with suppress(OSError):  # the client is gone
            self._answer(request, self.server.misfortune(*request[:3]))

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any  # noqa: N815 - the names are the base class's

    def _answer(self, request: tuple[str, str, dict[str, str], bytes], kind: str | None) -> None:
        proxy = self.server
        match kind:
            case "refused":
                self.drop()
            case "503 before":
                self.send(Answer(503))
            case "late":
                proxy.pass_on_later(*request)
                self.drop()
            case "slow":
                time.sleep(proxy.seconds())
                self.send(proxy.answer(*request))
            case "slow answer":
                answer = proxy.answer(*request)
                time.sleep(proxy.seconds())
                self.send(answer)
            case "lost":
                proxy.answer(*request)
                self.drop()
            case "503 after" | "500 after":
                proxy.answer(*request)
                self.send(Answer(int(str(kind)[:3])))
            case "again":
                proxy.answer(*request)
                self.send(proxy.answer(*request))
            case "cut":
                self.send(proxy.answer(*request), cut=True)
            case _:
                self.send(proxy.answer(*request))
