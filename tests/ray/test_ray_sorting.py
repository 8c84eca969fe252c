"""Ray's workers sort one large partition together."""

from __future__ import annotations

import pytest

import lakewright.ray as lwr
from support import ray_child
from support.sort_cases import Compact, CompactDatabase, SortCases

assert ray_child  # it sends the storages of traps to workers, which do not know the modules of tests
pytestmark = pytest.mark.usefixtures("ray_session")


@pytest.fixture
def compact() -> Compact:
    return lwr.compact


@pytest.fixture
def compact_database() -> CompactDatabase:
    return lwr.compact_database


class TestRaySorting(SortCases):
    """Ray."""
