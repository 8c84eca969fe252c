"""Runs programs, each in a fork of a process that has loaded the library: lines of JSON in, exit codes out.

Argument: `ours` for lakewright behind pypaimon's names, `peers` for pypaimon itself.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
import traceback
from pathlib import Path

LOADED = ("pandas", "pyarrow.dataset", "pyarrow.parquet", "pypaimon")


def run(program: str, warehouse: str, printed: str) -> int:
    """Run one program in a process of its own and return its exit code.

    What it prints goes to a file, warnings and errors to another beside it.
    """
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with Path(printed).open("w") as out, Path(f"{printed}.errors").open("w") as errors:
        os.dup2(out.fileno(), 1)
        os.dup2(errors.fileno(), 2)
        sys.argv = [program, warehouse]
        code = 0
        try:
            runpy.run_path(program, run_name="__main__")
        except BaseException:  # noqa: BLE001 - the parent reports what happened
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    if sys.argv[1] == "ours":
        importlib.import_module("lakewright.pypaimon").install()
    for name in LOADED:
        importlib.import_module(name)
    for line in sys.stdin:
        print(run(*json.loads(line)), flush=True)
