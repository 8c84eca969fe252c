"""One Ray on loopback in the process that runs tests of the engine."""

from __future__ import annotations

import importlib.util
import logging
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Never

import pytest

_HERE = Path(__file__).parent
_NO_RAY = "Ray is not installed: it has no wheel for this Python or platform, or the extra [ray] is missing"

# Ray reads these when it is imported, and this file is imported before every module of tests beside it. Without the
# first it takes the machine's own address even where it is told to take loopback.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_AUTH_MODE"] = "token"
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
os.environ["RAY_DATA_DISABLE_PROGRESS_BARS"] = "1"


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
    """Keep the tests of this folder in one process: they share one Ray."""
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("ray"))


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """Run Ray with two CPUs, reachable from this machine alone."""
    import ray  # noqa: PLC0415 - the tests of other folders need no Ray

    # The paths of its sockets must stay below 108 bytes.
    scratch = tempfile.mkdtemp(prefix="lw-", dir="/tmp" if Path("/tmp").is_dir() else None)  # noqa: S108 - made by mkdtemp
    ray.init(
        num_cpus=2,
        object_store_memory=400_000_000,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        _node_ip_address="127.0.0.1",
        _temp_dir=scratch,
    )
    yield
    ray.shutdown()
    shutil.rmtree(scratch, ignore_errors=True)
