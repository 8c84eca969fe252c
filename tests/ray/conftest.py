"""One Ray on loopback in the process that runs tests of the engine."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Never

import pytest

from support.ray_local import running_ray, stay_local

_HERE = Path(__file__).parent
_NO_RAY = "Ray is not installed: it has no wheel for this Python or platform, or the extra [ray] is missing"
_OF_RAY = (  # what Ray itself warns of, or leaves to the garbage collector
    "ignore:Use 'expr' instead of 'fn':UserWarning",
    "ignore:The maximum number of concurrent tasks:UserWarning",
    "ignore:The inplace keyword in DataFrame.reset_index:DeprecationWarning",
    "ignore:unclosed file .*/logs/ray-data/:ResourceWarning",
    "ignore:unclosed file .*/dev/null:ResourceWarning",
    "ignore:subprocess .* is still running:ResourceWarning",
)

stay_local()  # this file is imported before the modules of tests beside it, and they import Ray


class _Skipped(pytest.Module):
    """A module of tests that is not even imported."""

    def collect(self) -> Never:
        pytest.skip(_NO_RAY, allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Skip, and say why, where Ray cannot be imported."""
    found = importlib.util.find_spec("ray")
    missing = found is None or found.origin is None  # without an origin it is this folder, which has the same name
    return _Skipped.from_parent(parent, path=module_path) if missing else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Forgive what Ray itself does."""
    for item in items:
        if _HERE in item.path.parents:
            for wording in _OF_RAY:
                item.add_marker(pytest.mark.filterwarnings(wording))


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """Run Ray with two CPUs, reachable from this machine alone."""
    with running_ray():
        yield
