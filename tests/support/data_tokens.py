"""A REST catalog server whose tables lie in an S3 emulator that checks sessions: its data tokens are the only keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from support.rest_server import RestServer
from support.s3 import S3Server
from support.sessions import Sessions, running_sessions, session_options

_TOKEN = re.compile(r"GET .*/tables/([^/]+)/token$")


@dataclass
class TokenServer(RestServer):
    """The stand-in, which hands out keys that the emulator knows."""

    sessions: Sessions | None = field(default=None, repr=False)

    def _data_token(self, table: str) -> dict[str, Any]:
        assert self.sessions is not None
        issued = self.sessions.issue(table, 0)
        return {"expiresAtMillis": int(issued.pop("expiresAtMillis")), "token": {**issued, **self.data_token_options}}

    def token_calls(self) -> int:
        """Return how many tokens were asked for."""
        return sum(_TOKEN.match(entry.request) is not None for entry in list(self.log))


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
