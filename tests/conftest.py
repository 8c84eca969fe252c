"""Fixtures that several rooms use."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings
from xdist.scheduler import LoadGroupScheduling  # type: ignore[import-untyped]

from support import budget

# Why the tests of a folder are slow. They share an engine or a server, so xdist gives each folder to one process.
_MARKS = {"tests/spark": "spark", "tests/ray": "ray", "tests/interop": "peers"}

# How much of a long proof runs, in per cent of what `make soak` runs (see `support.effort`), for `make quick`,
# `make test` and `make soak`. A busy machine is no failure: nothing here is judged by how long it takes.
for _name, _percent in (("quick", 10), ("test", 12), ("soak", 100)):
    settings.register_profile(_name, deadline=None, max_examples=_percent)
settings.load_profile("test")  # `--hypothesis-profile` on the command line replaces it


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of slow folders, and those that ask for the S3 emulator."""
    for item in items:
        folder = _folder_of(item.nodeid)
        if folder is not None:
            item.add_marker(_MARKS[folder])
        if "s3_server" in getattr(item, "fixturenames", ()):
            item.add_marker("s3")
    budget.in_order(items)


def pytest_configure() -> None:
    """Let the time of a budget begin."""
    budget.begin()


def pytest_runtest_setup() -> None:
    """Begin no test once the budget is used up."""
    budget.skip_if_over()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what a budget left out."""
    skipped = terminalreporter.stats.get("skipped", [])
    line = budget.summary(sum(budget.REASON in str(report.longrepr) for report in skipped))
    if line is not None:
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[object]:
    """Run one S3 emulator for all tests that ask for it; its modules take seconds to import, so only they do."""
    with importlib.import_module("support.s3").running_s3() as server:
        yield server


class FoldersTogether(LoadGroupScheduling):  # type: ignore[misc] # xdist has no types
    """Gives all tests of some folders to one process, and the others one by one."""

    def _split_scope(self, nodeid: str) -> str:
        return _folder_of(nodeid) or nodeid


def _folder_of(nodeid: str) -> str | None:
    """Return the folder of an engine or of the peers that a test lies in."""
    return next((folder for folder in _MARKS if nodeid.startswith(f"{folder}/")), None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Run one process more than there are cores: about half of the time tests wait, for JVMs and other processes."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FoldersTogether:
    """Start each engine once, which the marks of xdist do not do with pytest 9.2: it ignores where xdist puts them."""
    return FoldersTogether(config, log)
