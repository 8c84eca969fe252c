"""Java's servers answer plain requests as the stand-in of `make test` does."""

from __future__ import annotations

from support.rest_protocol import ServerContract


class TestJavaServer(ServerContract):
    pass
