"""What all tests share: how much of them runs, their time limits, their processes, and no waiting for disks."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from support.effort import is_thin
from support.limits import RUN_MINUTES, Limits
from support.scheduler import ScopeScheduler, scope_of

# How much of a proof runs, in per cent of what `make nightly` runs (see `support.effort`). Busy machines are no
# failure: nothing is judged by how long it takes.
for _name, _percent in (("quick", 10), ("test", 12), ("nightly", 100)):
    settings.register_profile(_name, deadline=None, max_examples=_percent)
settings.load_profile("test")  # `--hypothesis-profile` on the command line replaces it

pytest.register_assert_rewrite("support.ingest_cases", "support.sort_cases")


def _no_sync(_descriptor: object) -> None:
    """Do nothing."""


# An append waits ten times for the disk. The tests of durability (tests/storage/test_local.py) record what is synced.
os.fsync = _no_sync  # type: ignore[assignment] # a name of an argument differs


def pytest_configure(config: pytest.Config) -> None:
    """Begin the time of the run."""
    minutes = float(os.environ.get(RUN_MINUTES, config.getini("run_minutes")))
    config.pluginmanager.register(Limits(config, minutes), "limits")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let pyproject.toml say how long a run may take."""
    parser.addini("run_minutes", "the whole run ends after so many minutes", default="45")


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by what they need, and leave those of the night out by day."""
    for item in items:
        scope = scope_of(item.nodeid)
        if scope is not None:
            item.add_marker(scope.split()[0])  # spark, ray or peers
        if "s3_server" in getattr(item, "fixturenames", ()):
            item.add_marker("s3")
    if is_thin():
        left_out = [item for item in items if item.get_closest_marker("nightly")]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if not item.get_closest_marker("nightly")]


@pytest.fixture(scope="session")
def s3_server() -> Iterator[object]:
    """Run one S3 emulator for all tests that ask for it; its modules take seconds to import, so only they do."""
    with importlib.import_module("support.s3").running_s3() as server:
        yield server


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Run one process more than there are cores: about half of the time tests wait, for JVMs and other processes."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ScopeScheduler:
    """Start each engine once."""
    return ScopeScheduler(config, log)
