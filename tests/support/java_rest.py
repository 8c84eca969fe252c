"""Java Paimon's own REST catalog server as a process; the part interop-rest of `make nightly` compiles it.

It has the levers of the stand-in (`support.rest_server`), so that tests run on either.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.rest_server import COMMIT, Entry, kind

ROOT = Path(__file__).parent.parent.parent
SERVERS = Path(os.environ.get("LAKEWRIGHT_REST_SERVERS", str(ROOT / "target" / "rest-server")))
VERSIONS = ("1.4.2", "2.0.0")
_FLAGS = ["-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC"]
_LIMIT_SECONDS = 1800  # the server ends then, whatever became of the test


@dataclass
class JavaRestServer:
    """A running server of one version, with tables below a directory."""

    like: str
    home: Path
    warehouse: str = "wh"
    prefix: str = "paimon"
    defaults: Mapping[str, str] = field(default_factory=dict)  # of the configuration
    overrides: Mapping[str, str] = field(default_factory=dict)
    data_token_seconds: float | None = None
    dlf: tuple[str, str, str | None] | None = field(default=None, repr=False)  # id, secret, session
    scheme: str = ""  # `file:` puts this before the paths of tables
    token: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    uri: str = field(init=False)

    def __post_init__(self) -> None:
        assert (SERVERS / self.like).exists(), f"no server in {SERVERS}: run `make nightly PART=interop-rest`"
        self.home.mkdir(parents=True, exist_ok=True)
        self._log = self.home / "log.jsonl"
        said: dict[str, object] = {
            "version": self.like,
            "token": self.token,
            "warehouse": self.warehouse,
            "prefix": self.prefix,
            "limit": _LIMIT_SECONDS,
            "default": "\n".join(f"{key}={value}" for key, value in self.defaults.items()),
            "override": "\n".join(f"{key}={value}" for key, value in self.overrides.items()),
            "data": f"{self.scheme}{self.home / 'data'}",
            "log": self._log,
        }
        if self.data_token_seconds is not None:
            said["data-token"] = self.data_token_seconds
        if self.dlf is not None:
            keys = dict(zip(("dlf-id", "dlf-secret", "dlf-session"), self.dlf, strict=True))
            said |= {"dlf-region": "cn-hangzhou", **{k: v for k, v in keys.items() if v is not None}}
        classpath = f"{SERVERS}/{self.like}/classes:{SERVERS}/{self.like}/jars/*"
        arguments = [str(word) for pair in said.items() for word in pair]
        self._process = subprocess.Popen(
            ["java", *_FLAGS, "-cp", classpath, "RestServer", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.uri = json.loads(self._process.stdout.readline())["uri"]

    @property
    def options(self) -> dict[str, str]:
        """The options of a catalog on this server."""
        common = {"metastore": "rest", "uri": self.uri, "warehouse": self.warehouse, "lakewright.durable": "false"}
        return {**common, "token.provider": "bear", "token": self.token}

    def lose(self, number: int = 1, how: str = "500", match: str = COMMIT) -> None:
        """Carry out the next requests that match, and answer with a fault. Of commits only the successful count."""
        self._command(f"lose {number} {how} {match}")

    def fail(self, number: int, how: str, match: str = "") -> None:
        """Answer the next requests that match with a fault, without carrying them out."""
        self._command(f"fail {number} {how} {match}")

    def retry_after(self, value: str | None) -> None:
        """Add the header Retry-After to answers with a status that is a fault."""
        self._command(f"retry-after {value or ''}")

    def calm(self) -> None:
        """End all faults."""
        self._command("calm")
        self.retry_after(None)

    def deny(self, name: str) -> None:
        """Answer 403 for a database, or a table given as `database.table`."""
        self._command(f"deny {name}")

    def allow(self, name: str) -> None:
        """End `deny`."""
        self._command(f"allow {name}")

    def faults_left(self) -> int:
        """Return how many faults have not met a request yet."""
        left: int = self._command("left")["left"]
        return left

    @property
    def log(self) -> list[Entry]:
        """All requests and answers so far."""
        lines = [json.loads(line) for line in self._log.read_text().splitlines()]
        return [Entry(e["request"], e["headers"], e["body"], e["status"], e["answer"], e["note"]) for e in lines]

    def counts(self) -> Counter[str]:
        """Return the requests by kind and outcome since the start."""
        return Counter(f"{kind(e.request)} {re.split(':', e.note)[0] or e.status}" for e in self.log)

    @contextmanager
    def counting(self) -> Iterator[list[str]]:
        """Collect the kinds of the requests made inside the block."""
        begin = len(self.log)
        kinds: list[str] = []
        yield kinds
        kinds += [kind(entry.request) for entry in self.log[begin:]]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def _command(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert answer["ok"], answer
        return answer


@contextmanager
def running_java(version: str, home: Path, **settings: Any) -> Iterator[JavaRestServer]:  # noqa: ANN401 - the fields of a server
    """Run a server on a free port."""
    server = JavaRestServer(version, home, **settings)
    try:
        yield server
    finally:
        server.close()
