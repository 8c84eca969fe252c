"""A run of tests ends and says why: tests that hang, processes that die, runs that take too long."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

CONFTEST = """
import pytest
from support.limits import Limits
from support.scheduler import ScopeScheduler

def pytest_configure(config):
    config.pluginmanager.register(Limits(config, MINUTES, grace=1))

def pytest_xdist_make_scheduler(config, log):
    return ScopeScheduler(config, log)
"""
PLAIN = "".join(f"def test_plain_{number}(): pass\n" for number in range(6))
DIES = "import os, signal\ndef test_dies_{0}(): os.kill(os.getpid(), signal.SIGKILL)\n"
HANGS = """
import signal, time
def test_hangs(): time.sleep(600)
def test_hangs_where_no_signal_is_seen():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(600)
"""


def run_tests(folder: Path, tests: str, *options: str, minutes: float = 10) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST.replace("MINUTES", str(minutes)))
    (folder / "test_it.py").write_text(tests)
    (folder / "pytest.ini").write_text("[pytest]\ntimeout = 2\n")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "LAKEWRIGHT_"))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "test_it.py"],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def test_a_process_that_dies_fails_its_test_and_the_rest_runs(tmp_path: Path) -> None:
    # The last test of the run is the hard case: what it leaves goes to a process that replaces the one that died.
    tests = DIES.format("first") + PLAIN + DIES.format("last")
    done = run_tests(tmp_path, tests, "-n", "2")
    for name in ("test_dies_first", "test_dies_last"):
        assert f"crashed while running 'test_it.py::{name}'" in done.stdout
    assert "2 failed, 6 passed" in done.stdout


def test_tests_that_hang_fail_and_the_rest_runs(tmp_path: Path) -> None:
    done = run_tests(tmp_path, HANGS + PLAIN, "-n", "2")
    assert "2 failed, 6 passed" in done.stdout
    assert "Timeout (>2.0s)" in done.stdout
    assert "in test_hangs_where_no_signal_is_seen" in done.stderr


@pytest.mark.parametrize("workers", [pytest.param("0", marks=pytest.mark.nightly), "1"])
def test_a_run_that_takes_too_long_ends_and_prints_what_runs(tmp_path: Path, workers: str) -> None:
    tests = "import time, pytest\n@pytest.mark.timeout(600)\ndef test_never_ends(): time.sleep(600)\n"
    for minutes in (0.05, 0.2, 0.8):  # on a busy machine the test may begin late
        done = run_tests(tmp_path, tests, "-n", workers, minutes=minutes)
        assert done.returncode != 0
        assert f"The run did not end within {minutes:g} minutes." in done.stderr
        if "in test_never_ends" in done.stderr:
            return
    pytest.fail(f"the threads of the test were not printed: {done.stderr}")
