"""Traps in the workers of Spark, which do not know the modules of tests."""

from __future__ import annotations

from pathlib import Path

from pyspark import cloudpickle

from support import traps
from support.traps import TrapStorage, caught, trapped

__all__ = ["TrapStorage", "caught", "executor_of", "trapped"]
cloudpickle.register_pickle_by_value(traps)  # type: ignore[no-untyped-call]


def executor_of(worker: int) -> int:
    """Return the process of the JVM in which the task of a Python worker runs."""
    process = worker
    for _ in range(5):
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        if "CoarseGrainedExecutorBackend" in Path(f"/proc/{process}/cmdline").read_text():
            return process
    message = f"process {worker} belongs to no executor"
    raise AssertionError(message)
