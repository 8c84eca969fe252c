"""A standalone cluster of two workers on loopback, started from the pip package, whose Python lacks lakewright.

The driver ships the library as a zip (docs/spark/cluster.md), writes, upserts and reads; a task that straggles gets a
copy on the other worker, and an executor is killed while it writes.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest

import lakewright
from lakewright.spark.spark_session import java_home
from support import cluster_client

HOST = "127.0.0.1"
START_SECONDS_MAX = 180
CLIENT_SECONDS_MAX = 600
SOURCE = Path(lakewright.__file__).parent.parent
TESTS = Path(__file__).parent.parent


def zipped(root: Path) -> Path:
    """Pack the library as Spark ships it."""
    for package in ("lakewright", "pyspark_lakewright"):
        shutil.copytree(SOURCE / package, root / "zip" / package, ignore=shutil.ignore_patterns("__pycache__"))
    return Path(shutil.make_archive(str(root / "lakewright"), "zip", root / "zip"))


def bare_python(root: Path) -> Path:
    """Return an interpreter that has the packages of this one, but not those that are installed as editable."""
    venv.create(root / "bare", symlinks=True)
    python = root / "bare" / "bin" / "python"
    # Spark's workers see what is in this directory; its own .pth files, which name editable projects, are not read.
    (site,) = (root / "bare" / "lib").glob("python3*/site-packages")
    (site / "packages.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    probe = subprocess.run(
        [python, "-c", "import pyarrow, pyspark, lakewright"], capture_output=True, text=True, check=False
    )
    if "No module named 'lakewright'" not in probe.stderr:
        pytest.skip(f"needs lakewright installed as editable, so that workers can lack it: {probe.stderr[-500:]}")
    return python


@contextmanager
def cluster(root: Path) -> Iterator[str]:
    """Run a master and two workers of one core each, and stop them."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    master = f"spark://{HOST}:{port}"
    running = [_start(root, "master.Master", "--port", str(port))]
    try:
        _wait(lambda: "I have been elected leader" in _log(root, 0), root)
        for number in (1, 2):
            work = ["--work-dir", str(root / f"work{number}"), "--cores", "1", "--memory", "1g", master]
            running.append(_start(root, "worker.Worker", *work, number=number))
        _wait(lambda: _log(root, 0).count("Registering worker") == 2, root)
        yield master
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait(60)


def _start(root: Path, name: str, *words: str, number: int = 0) -> subprocess.Popen[bytes]:
    # A task gets no copy on the host it runs on, so each worker has a loopback address of its own.
    host = f"127.0.0.{number + 1}"
    home = java_home(os.environ)
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_", "PYTHON"))}
    environ |= {} if home is None else {"JAVA_HOME": home}
    environ |= {"SPARK_LOCAL_IP": host, "SPARK_LOCAL_DIRS": str(root / "local"), "SPARK_DAEMON_MEMORY": "256m"}
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with (root / f"log{number}").open("wb") as log:
        command = [str(program), f"org.apache.spark.deploy.{name}", "--host", host, "--webui-port", "0", *words]
        return subprocess.Popen(command, env=environ, stdout=log, stderr=log, cwd=root)


def _log(root: Path, number: int) -> str:
    return (root / f"log{number}").read_text()


def _wait(ready: Callable[[], bool], root: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while not ready():
        assert time.monotonic() < deadline, "".join(path.read_text()[-1500:] for path in sorted(root.glob("log*")))
        time.sleep(0.1)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("cluster")
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    environ |= {"PYTHONPATH": str(TESTS), "PYTHONWARNINGS": "ignore", "PYSPARK_PYTHON": str(bare_python(root))}
    started = time.monotonic()
    with cluster(root) as master:
        client = subprocess.run(
            [sys.executable, cluster_client.__file__, master, str(zipped(root)), str(root)],
            env=environ,
            capture_output=True,
            text=True,
            timeout=CLIENT_SECONDS_MAX,
            check=False,
        )
    assert client.returncode == 0, client.stderr[-6000:]
    print(f"{time.monotonic() - started:.0f} s: {client.stdout.splitlines()[-1]}")
    found: dict[str, Any] = json.loads(client.stdout.splitlines()[-1])
    return found


def test_workers_get_the_library_from_the_driver(seen: dict[str, Any]) -> None:
    assert seen["before"] == [[False]]
    assert seen["plain"] == [100, 100]
    assert seen["keyed"] == seen["in tasks"] == [100, 150]


def test_a_straggler_and_its_copy_give_one_result(seen: dict[str, Any]) -> None:
    told = seen["speculation"]
    assert told["begun"] > 0
    assert told["rows"] == cluster_client.MANY
    assert told["stray"] == 0


def test_a_killed_executor_costs_no_row_and_leaves_no_file(seen: dict[str, Any]) -> None:
    told = seen["executor lost"]
    assert told["begun"] > 0
    assert told["rows"] == cluster_client.MANY
    assert told["stray"] == 0
    assert seen["rows"] == 2 * cluster_client.MANY + 100
