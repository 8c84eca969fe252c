"""The REST catalog servers of Java Paimon: one process per version for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.java_rest import VERSIONS, JavaRestServer, running_java


@pytest.fixture(scope="session", params=VERSIONS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaRestServer]:
    """Run one server."""
    with running_java(request.param, tmp_path_factory.mktemp("server")) as started:
        yield started
