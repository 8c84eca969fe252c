"""Fixtures that several rooms use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings
from xdist.scheduler import LoadGroupScheduling  # type: ignore[import-untyped]

from support.s3 import S3Server, running_s3

# Tests that share an engine or a server run in one process; everything else goes where there is room.
_TOGETHER = ("tests/spark", "tests/ray", "tests/interop")

# A busy machine is no failure: nothing here is judged by how long it takes.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """Run one S3 emulator for all tests that ask for it."""
    with running_s3() as server:
        yield server


class FoldersTogether(LoadGroupScheduling):  # type: ignore[misc] # xdist has no types
    """Gives all tests of some folders to one process, and the others one by one."""

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in _TOGETHER if nodeid.startswith(f"{folder}/")), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FoldersTogether:
    """Start each engine once, which the marks of xdist do not do with pytest 9.2: it ignores where xdist puts them."""
    return FoldersTogether(config, log)
