"""Time limits: a run of tests always ends, and the threads of what did not end are printed.

pytest-timeout fails a test after its limit and prints all threads. A test that blocks outside Python (in a C library,
in a JVM) cannot be failed like that: some time later `faulthandler` prints the threads and ends the process, and the
scheduler gives the rest of its tests to a new one. The whole run has a limit as well.
"""

from __future__ import annotations

import faulthandler
import os
import threading
import time

import pytest

RUN_MINUTES = "LAKEWRIGHT_TEST_MINUTES"  # replaces `run_minutes` of pyproject.toml
_RUN_ENDS = "LAKEWRIGHT_TEST_RUN_ENDS"  # when; the processes of xdist inherit it
_RUN_ENDED = 3  # the exit code
_WORKERS_PRINT_SECONDS = 5


class Limits:
    """A plugin that ends a process whose test takes too long, and the run when its time is over.

    `grace` is how many seconds after pytest-timeout a test is ended with its process.
    """

    def __init__(self, config: pytest.Config, minutes: float, grace: float = 60) -> None:
        self._grace, self._minutes = grace, minutes
        self._is_worker = hasattr(config, "workerinput")
        self._ends = float(os.environ.setdefault(_RUN_ENDS, str(time.time() + 60 * minutes)))
        # While tests run their output is captured, but not what is written here.
        self._stderr = os.fdopen(os.dup(2), "w")
        if not self._is_worker:
            timer = threading.Timer(self._left(), self._end_run)
            timer.daemon = True
            timer.start()
        self._watch()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> object:
        """Watch one test and its fixtures."""
        marker = item.get_closest_marker("timeout")
        limit = marker.args[0] if marker else item.config.getini("timeout")
        self._watch(float(limit) + self._grace)
        try:
            return (yield)
        finally:
            self._watch()

    def pytest_unconfigure(self) -> None:
        """Stop watching."""
        faulthandler.cancel_dump_traceback_later()

    def _left(self) -> float:
        return max(1.0, self._ends - time.time())

    def _watch(self, seconds: float = float("inf")) -> None:
        if self._is_worker:
            seconds = min(seconds, self._left())
        if seconds == float("inf"):
            faulthandler.cancel_dump_traceback_later()
        else:
            faulthandler.dump_traceback_later(seconds, exit=True, file=self._stderr)

    def _end_run(self) -> None:
        print(f"\nThe run did not end within {self._minutes:g} minutes.", file=self._stderr, flush=True)
        time.sleep(_WORKERS_PRINT_SECONDS)  # workers print their threads and end by themselves
        faulthandler.dump_traceback(self._stderr)
        os._exit(_RUN_ENDED)
