"""Fixtures that several rooms use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from support.s3 import S3Server, running_s3

# A busy machine is no failure: nothing here is judged by how long it takes.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """Run one S3 emulator for all tests that ask for it."""
    with running_s3() as server:
        yield server
