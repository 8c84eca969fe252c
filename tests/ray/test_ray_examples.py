"""Programs written for pypaimon's Ray verbs run after their import changes, and print the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.peers import PYTHON, ROOT

PROGRAM = ROOT / "tests" / "support" / "ray_program.py"
ROWS = [
    {"id": 1, "name": "a", "value": 1.5},
    {"id": 2, "name": "b", "value": 2.5},
    {"id": 3, "name": "c", "value": 3.5},
]
OTHERS = [{"id": 8, "name": "x", "value": 8.5}, {"id": 9, "name": "y", "value": 9.5}]
EXPECTED = [ROWS, OTHERS, 2, OTHERS[1:]]


def _answer(printed: str) -> object:
    (line,) = (line for line in printed.splitlines() if line.startswith("ANSWER"))
    return json.loads(line.removeprefix("ANSWER"))


@pytest.mark.usefixtures("ray_session")
def test_the_examples_run_as_written_for_the_peer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PROGRAM.read_text()
    changed = text.replace("from pypaimon import", "from lakewright import")
    assert changed != text
    monkeypatch.setattr(sys, "argv", [PROGRAM.name, str(tmp_path)])
    exec(compile(changed, PROGRAM.name, "exec"), {"__name__": "program"})  # noqa: S102 - the program is ours
    assert _answer(capsys.readouterr().out) == EXPECTED


def _peer_has_ray() -> bool:
    if not PYTHON.exists():
        return False
    found = subprocess.run([str(PYTHON), "-c", "import ray.data"], capture_output=True, check=False)
    return found.returncode == 0


@pytest.mark.nightly
@pytest.mark.peers
def test_the_peer_prints_the_same(tmp_path: Path) -> None:
    if not _peer_has_ray():
        pytest.skip("Ray is not in the peers' environment: `make bench CASE=ray` puts it there")
    done = subprocess.run(
        [str(PYTHON), str(PROGRAM), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert _answer(done.stdout) == EXPECTED
