"""A REST catalog server whose tables are in an S3 emulator that checks sessions: its data tokens are the only keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.rest_server import RestServer
from support.s3 import S3Server
from support.sessions import Sessions, running_sessions, session_options

_TOKEN = re.compile(r"GET .*/tables/([^/]+)/token$")


@dataclass
class TokenServer(RestServer):
    """The stand-in, which hands out keys that the emulator knows."""

    sessions: Sessions | None = field(default=None, repr=False)
    _caller: int = 0  # the process of the request; requests are carried out one at a time

    def _carry_out(self, handler: Any, body: bytes) -> tuple[int, Any]:  # noqa: ANN401 - of the base class's own
        if handler.path.endswith("/token"):
            self._caller = process_at(handler.client_address[1])
        return super()._carry_out(handler, body)

    def _data_token(self, table: str) -> dict[str, Any]:
        assert self.sessions is not None
        issued = self.sessions.issue(table, self._caller)
        return {"expiresAtMillis": int(issued.pop("expiresAtMillis")), "token": {**issued, **self.data_token_options}}

    def token_calls(self) -> int:
        """Return how many tokens were asked for."""
        return sum(_TOKEN.match(entry.request) is not None for entry in list(self.log))


def process_at(port: int) -> int:
    """Return the process on this machine that has a connection at a port; the port itself where nobody tells that."""
    table = Path("/proc/net/tcp")
    lines = table.read_text().splitlines()[1:] if table.exists() else []
    ends = [line.split() for line in lines]
    sockets = {f"socket:[{end[9]}]" for end in ends if int(end[1].rpartition(":")[2], 16) == port}
    for descriptor in Path("/proc").glob("[0-9]*/fd/*") if sockets else ():
        with suppress(OSError):  # of a process that has ended
            if str(descriptor.readlink()) in sockets:
                return int(descriptor.parts[2])
    return port


@contextmanager
def running_token_server(life_seconds: float) -> Iterator[tuple[TokenServer, S3Server, Sessions]]:
    """Run both."""
    with running_sessions(life_seconds) as (store, sessions):
        server = TokenServer(
            f"s3://{store.make_bucket()}/wh",
            storage_options=store.options,
            defaults=session_options(store),
            data_token_seconds=life_seconds,
            sessions=sessions,
        )
        try:
            yield server, store, sessions
        finally:
            server.close()
