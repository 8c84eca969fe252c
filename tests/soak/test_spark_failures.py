"""The whole matrix of failures of a Spark write: where it is hit, times what it writes; and speculative copies.

Every case starts a driver of its own, so this takes minutes.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from support.spark_child import ended, expected_rows, shows_the_frame, started_child, table_for
from support.spark_traps import caught, executor_of
from support.spark_writes import assert_tidy, assert_tidy_after_cleanup, rows_of

MODES = ("append", "upsert", "overwrite")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("name", "moment", "visible"),
    [
        ("manifest-", "before", False),
        ("manifest-", "after", False),
        ("snapshot-", "before", False),
        ("snapshot-", "after", True),
    ],
)
def test_a_driver_killed_at_its_commit(tmp_path: Path, mode: str, name: str, moment: str, visible: bool) -> None:
    table = table_for(mode, tmp_path)
    trap = {"call": "create", "name": name, "moment": moment, "deed": "kill", "marks": str(tmp_path / "marks")}
    said = {"table": table.table_path, "mode": mode, "job_id": "once"}
    with started_child(tmp_path / "first", trap=trap, **said) as child:
        assert ended(child, tmp_path / "first") == -signal.SIGKILL
    assert shows_the_frame(table) is visible
    with started_child(tmp_path / "second", **said) as again:
        assert ended(again, tmp_path / "second") == 0, (tmp_path / "second").read_text()[-2000:]
    assert (f'"replayed": {str(visible).lower()}' in (tmp_path / "second").read_text()) is True
    assert rows_of(table) == expected_rows()
    assert_tidy_after_cleanup(table)
    assert rows_of(table) == expected_rows()


@pytest.mark.parametrize("mode", MODES)
def test_a_driver_killed_while_tasks_write(tmp_path: Path, mode: str) -> None:
    table = table_for(mode, tmp_path)
    trap = {"deed": "wait", "marks": str(tmp_path / "marks")}
    said = {"table": table.table_path, "mode": mode, "job_id": "once"}
    with started_child(tmp_path / "first", trap=trap, **said):
        worker = caught(tmp_path / "marks")
    _wait_for_the_end_of(worker)
    assert not shows_the_frame(table)
    with started_child(tmp_path / "second", **said) as again:
        assert ended(again, tmp_path / "second") == 0, (tmp_path / "second").read_text()[-2000:]
    assert rows_of(table) == expected_rows()
    assert assert_tidy_after_cleanup(table) > 0


def _wait_for_the_end_of(process: int) -> None:
    deadline = time.monotonic() + 60
    while Path(f"/proc/{process}").exists():
        assert time.monotonic() < deadline, "a worker outlives its driver"
        time.sleep(0.1)


@pytest.mark.parametrize("mode", MODES)
def test_an_interrupted_driver(tmp_path: Path, mode: str) -> None:
    table = table_for(mode, tmp_path)
    trap = {"deed": "wait", "marks": str(tmp_path / "marks")}
    with started_child(tmp_path / "log", table=table.table_path, mode=mode, trap=trap) as child:
        caught(tmp_path / "marks")
        child.send_signal(signal.SIGINT)
        assert ended(child, tmp_path / "log") != 0
    assert not shows_the_frame(table)
    assert_tidy(table)


@pytest.mark.parametrize("mode", MODES)
def test_a_lost_executor(tmp_path: Path, mode: str) -> None:
    table = table_for(mode, tmp_path)
    trap = {"deed": "wait", "marks": str(tmp_path / "marks")}
    log = tmp_path / "log"
    said = {"table": table.table_path, "mode": mode, "trap": trap}
    with started_child(log, master="local-cluster[2,1,1024]", **said) as child:
        os.kill(executor_of(caught(tmp_path / "marks")), signal.SIGKILL)
        assert ended(child, log) == 0, log.read_text()[-2000:]
    assert rows_of(table) == expected_rows()
    assert_tidy(table)


# ---- speculative copies: only a cluster of two hosts runs them -------------------------------------------------------


@contextmanager
def _cluster(tmp_path: Path) -> Iterator[str]:
    """Run a standalone cluster of two workers on two loopback addresses, from the installed package."""
    port = _free_port()
    launcher = [str(Path(pyspark.__file__).parent / "bin" / "spark-class")]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    deploy = "org.apache.spark.deploy"
    master = [f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    commands = [(master, environment)]
    for host in ("127.0.0.1", "127.0.0.2"):
        worker = [f"{deploy}.worker.Worker", "--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0"]
        worker += ["--work-dir", str(tmp_path / host), f"spark://127.0.0.1:{port}"]
        commands.append((worker, {**environment, "SPARK_LOCAL_IP": host}))
    started = []
    try:
        for number, (command, env) in enumerate(commands):
            with (tmp_path / f"cluster-{number}").open("wb") as log:
                started.append(subprocess.Popen([*launcher, *command], env=env, stdout=log, stderr=log))
        yield f"spark://127.0.0.1:{port}"
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(60)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.parametrize("mode", MODES)
def test_speculative_copies(tmp_path: Path, mode: str) -> None:
    """One attempt hangs with an open file until a copy of it has won; then its worker is killed."""
    table, log = table_for(mode, tmp_path), tmp_path / "log"
    config = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.minTaskRuntime": "100ms",
        "spark.executor.memory": "600m",
        "spark.cores.max": "2",
    }
    trap = {"deed": "wait", "marks": str(tmp_path / "marks")}
    said = {"table": table.table_path, "mode": mode, "trap": trap, "config": config}
    with _cluster(tmp_path) as master, started_child(log, master=master, **said) as child:
        assert ended(child, log) == 0, log.read_text()[-2000:]
    assert (tmp_path / "marks" / "0").exists()
    assert rows_of(table) == expected_rows()
    assert_tidy(table)
