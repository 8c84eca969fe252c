"""The REST catalog servers of Java Paimon: one process per version for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from support.java import Java
from support.java_rest import SERVERS, VERSIONS, JavaRestServer, running_java
from support.peers import Peers
from support.rest_peers import Shared

_numbers = count()


@pytest.fixture(scope="session", params=VERSIONS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaRestServer]:
    """Run one server."""
    with running_java(request.param, tmp_path_factory.mktemp("server")) as started:
        yield started


@pytest.fixture(scope="session")
def java(server: JavaRestServer) -> Iterator[Java]:
    """Run Java of the server's version: a server of 2.0.0 refuses every commit of 1.4.2 after one of 2.0."""
    started = Java(SERVERS / server.like)
    yield started
    started.close()


@pytest.fixture
def shared(server: JavaRestServer, peers: Peers, java: Java) -> Shared:
    """Name a table in a database of its own."""
    return Shared(server, peers, java, f"d{next(_numbers)}.t")
