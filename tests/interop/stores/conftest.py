"""The emulators of stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.stores import Store, running_azure, running_gcs


@pytest.fixture(scope="class")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Run fake-gcs-server, one for each class and each function of tests."""
    with running_gcs(tmp_path_factory.mktemp("gcs") / "log") as store:
        yield store


@pytest.fixture(scope="class")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Run Azurite, one for each class and each function of tests: it slows down with the number of its blobs."""
    with running_azure(tmp_path_factory.mktemp("azure") / "log") as store:
        yield store


@pytest.fixture(params=["gcs", "azure"])
def store(request: pytest.FixtureRequest) -> Store:
    """Return each emulator in turn."""
    found: Store = request.getfixturevalue(request.param)
    found.front.faults_share = 0.0
    found.front.faults.clear()
    return found
