"""Spark Connect: every verb against a server in a process of its own, with no JVM on the side of the client."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest

from lakewright.spark.spark_features import Feature
from lakewright.spark.spark_session import java_home
from support import connect_client
from support.jvm import SHORT_LIVED
from support.needs import needs

# A server and a client are processes of their own; what they share with a classic session is tested there.
pytestmark = [needs(Feature.CONNECT_PROGRESS), pytest.mark.nightly]

START_SECONDS_MAX = 180
CLIENT_SECONDS_MAX = 420
TESTS = Path(__file__).parent.parent
MODULES = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])


@contextmanager
def connect_server(log: Path, **variables: str) -> Iterator[str]:
    """Run a Connect server of the installed package on a free port of loopback, and stop it."""
    port = free_port()
    home = java_home(os.environ)
    environ = {
        **os.environ,
        **({} if home is None else {"JAVA_HOME": home}),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": MODULES,
        "SPARK_LOCAL_IP": "127.0.0.1",
        **variables,
    }
    conf = {
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": SHORT_LIVED,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(log.parent / "spark-warehouse"),
    }
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    settings = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    command = [str(submit), *settings, "--class", server, "spark-internal"]
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environ, stdout=out, stderr=out, cwd=log.parent)
    try:
        _wait_for(port, process, log)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def free_port() -> int:
    """Return a port of loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail(f"no Connect server: {log.read_text()[-3000:]}")


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("connect")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environ |= {"PYTHONPATH": MODULES, "PYTHONWARNINGS": "ignore"}
    with connect_server(root / "server.log") as remote:
        client = subprocess.run(
            [sys.executable, connect_client.__file__, remote, str(root)],
            env=environ,
            capture_output=True,
            text=True,
            timeout=CLIENT_SECONDS_MAX,
            check=False,
        )
    assert client.returncode == 0, client.stderr[-6000:]
    print(client.stderr[-2000:])
    found: dict[str, Any] = json.loads(client.stdout.splitlines()[-1])
    return found


PLAIN = [[0, "d0", 9], [1, "d1", 1], [3, "d1", 1], [5, "d1", 1]]
KEYED = [[n, f"d{n % 2}", 1 if n < 4 else 2] for n in range(2, 10)]
THREE = [[0, "d0", 1], [1, "d1", 1], [2, "d0", 1]]


def test_every_mode_writes_what_it_says(seen: dict[str, Any]) -> None:
    modes = seen["modes"]
    assert modes["appended"] == [6, 1]
    assert modes["replaced"] == [1, 2]
    assert modes["deleted"] == 3
    assert modes["plain"] == PLAIN
    assert modes["keyed"] == KEYED


def test_progress_is_heard_and_settings_are_put_back(seen: dict[str, Any]) -> None:
    ((rows, tasks, done),) = seen["modes"]["heard"]
    assert rows == 6
    assert tasks == done > 0
    before, after = seen["modes"]["settings"]
    assert before == after


@pytest.mark.parametrize(("name", "rows"), [("plain", PLAIN), ("keyed", KEYED)])
def test_both_ways_read_the_same(seen: dict[str, Any], name: str, rows: list[list[object]]) -> None:
    reads = seen["reads"]
    assert reads[name] == rows
    assert reads[f"{name} in tasks"] == rows
    assert reads[f"{name} filtered"] == [[row[0]] for row in rows if int(str(row[2])) > 1]
    assert reads[f"{name} earlier"] == {"plain": 6, "keyed": 8}[name]


def test_sql_runs_over_tables_and_views(seen: dict[str, Any]) -> None:
    found = seen["statements"]
    assert found["joined"] == found["joined in another way"] == [[3, 1, None], [5, 2, None]]
    assert (found["earlier"], found["set"], found["view"]) == (6, 6, [[6]])
    assert (found["merged"], found["deleted"]) == ([[3, 1, 2, 0]], [[1, 0, 0, 1]])
    assert found["made"] == [[0, 16], [1, 8], [2, 7], [3, 1]]
    assert found["wrong"] == ["TableNotExistException", "column_number", "line", "table"]


def test_a_job_id_commits_once(seen: dict[str, Any]) -> None:
    assert seen["once"] == {"replayed": [False, True], "snapshots": [1, 1], "rows": THREE}


def test_errors_arrive_as_ours_and_leave_nothing(seen: dict[str, Any]) -> None:
    errors = seen["errors"]
    assert errors["unknown"][0] == "InvalidInputError"
    assert errors["in_task"][0] == "InvalidInputError"
    assert "column" in errors["in_task"]
    assert errors["snapshot"] is None
    assert errors["stray"] == []


@pytest.mark.parametrize("name", ["changed", "changed by key"])
def test_rows_are_changed(seen: dict[str, Any], name: str) -> None:
    rows = [[2, "d0", 1], [3, "d1", 5], [4, "d0", 1], [5, "d1", 9], [6, "d0", 9], [7, "d1", 4], [8, "d0", 4]]
    assert seen["changes"][name] == rows
    # An upsert of whole rows by their key looks nothing up, so nobody knows how many of them were there.
    assert seen["changes"][f"{name}: counts"] == [2, 1, 1, 2, 2 if name == "changed" else None]


def test_the_server_finds_the_format_and_sql_reads_views(seen: dict[str, Any]) -> None:
    assert seen["door"] == {"loaded": THREE, "views": ["keyed", "plain"], "sql": [2, 3]}


def test_a_table_streams_into_another(seen: dict[str, Any]) -> None:
    assert seen["stream"] == {"ended": True, "error": "None", "rows": THREE}


def test_an_interrupt_stops_the_job_and_cleans_up(seen: dict[str, Any]) -> None:
    assert seen["interrupt"] == {"ended": "KeyboardInterrupt", "stray": [], "rows": THREE, "snapshot": 1}
