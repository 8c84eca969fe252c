"""Programs in the shape of pypaimon's documentation: one source text, run with pypaimon and with `install()` alone.

Both runs print what they see; the printed lines must be the same.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.peers import PYTHON, ROOT

pytestmark = pytest.mark.peers

SNIPPETS = Path(__file__).parent / "snippets"
_RUN_INSTALLED = """
import runpy, sys
import lakewright.pypaimon
lakewright.pypaimon.install()
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def _printed(command: list[str], name: str, warehouse: Path) -> str:
    """Run a snippet on a new warehouse and return what it printed, without the parts that differ in every run."""
    warehouse.mkdir()
    done = subprocess.run(
        [*command, str(SNIPPETS / f"{name}.py"), str(warehouse)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode == 0, done.stderr
    return _UUID.sub("UUID", done.stdout.replace(str(warehouse), "WAREHOUSE"))


@pytest.mark.parametrize("name", sorted(path.stem for path in SNIPPETS.glob("*.py")))
def test_both_libraries_print_the_same(name: str, tmp_path: Path) -> None:
    ours = _printed([sys.executable, "-c", _RUN_INSTALLED], name, tmp_path / "ours")
    assert ours == _printed([str(PYTHON)], name, tmp_path / "peers")
