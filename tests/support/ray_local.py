"""A Ray that only this machine reaches, for tests."""

from __future__ import annotations

import importlib
import logging
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_OBJECT_STORE_BYTES = 400_000_000


def stay_local() -> None:
    """Set what Ray reads when it is imported, here and in the processes that it starts: call it before.

    Without the first of them Ray takes the machine's own address even where it is told to take loopback.
    """
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    os.environ["RAY_DATA_DISABLE_PROGRESS_BARS"] = "1"
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"  # as in releases to come; without it some warn


@contextmanager
def running_ray(cpus: int = 2) -> Iterator[None]:
    """Run Ray, without a dashboard and with a small object store."""
    stay_local()
    ray = importlib.import_module("ray")
    # The paths of its sockets must stay below 108 bytes.
    scratch = tempfile.mkdtemp(prefix="lw-", dir="/tmp" if Path("/tmp").is_dir() else None)  # noqa: S108 - made by mkdtemp
    ray.init(
        num_cpus=cpus,
        object_store_memory=_OBJECT_STORE_BYTES,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        _node_ip_address="127.0.0.1",
        _temp_dir=scratch,
    )
    try:
        yield
    finally:
        ray.shutdown()
        shutil.rmtree(scratch, ignore_errors=True)
