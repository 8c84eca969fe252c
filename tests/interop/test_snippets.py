"""Programs in the shape of pypaimon's documentation: one source text, run with pypaimon and with `install()` alone.

Both runs print what they see; the printed lines must be the same.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from support.effort import is_thin
from support.peers import PYTHON, ROOT

pytestmark = pytest.mark.peers

SNIPPETS = Path(__file__).parent / "snippets"
RUNNER = Path(__file__).parent / "snippet_runner.py"
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
Run: TypeAlias = Callable[[str, Path], str]


@contextmanager
def _running(python: str, library: str) -> Iterator[Run]:
    """Start a process that has loaded a library once, and runs snippets on new warehouses in forks of it."""
    process = subprocess.Popen(
        [python, str(RUNNER), library],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    asked, answers = process.stdin, process.stdout

    def run(name: str, warehouse: Path) -> str:
        """Return what a snippet printed, without the parts that differ in every run."""
        warehouse.mkdir()
        printed = warehouse.with_suffix(".txt")
        asked.write(json.dumps([str(SNIPPETS / f"{name}.py"), str(warehouse), str(printed)]) + "\n")
        asked.flush()
        code = answers.readline().strip()
        assert code == "0", Path(f"{printed}.errors").read_text()
        return _UUID.sub("UUID", printed.read_text().replace(str(warehouse), "WAREHOUSE"))

    try:
        yield run
    finally:
        asked.close()
        process.wait(30)
        answers.close()


@pytest.fixture(scope="module")
def ours() -> Iterator[Run]:
    with _running(sys.executable, "ours") as run:
        yield run


@pytest.fixture(scope="module")
def peers() -> Iterator[Run]:
    with _running(str(PYTHON), "peers") as run:
        yield run


PROGRAMS = sorted(path.stem for path in SNIPPETS.glob("*.py"))


@pytest.mark.parametrize(
    "name", PROGRAMS if not is_thin() else ["start_here", "merge_into", "streaming_reads", "readers", "writers"]
)
def test_both_libraries_print_the_same(name: str, ours: Run, peers: Run, tmp_path: Path) -> None:
    assert ours(name, tmp_path / "ours") == peers(name, tmp_path / "peers")
