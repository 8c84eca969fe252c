"""Each extra of the wheel in dist/ by itself, in an environment of its own: it installs, and does what it is for.

`make nightly PART=extras` builds the wheel and runs this; `EXTRAS="sql cli"` chooses some. All of them load gigabytes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import lakewright
from support.rest_server import running_rest

ROOT = Path(__file__).parent.parent.parent
WHEEL = ROOT / "dist" / f"lakewright-{lakewright.__version__}-py3-none-any.whl"
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
CHOSEN = os.environ.get("EXTRAS", "").split() or [name for name in DECLARED if name != "dev"]
PROGRAM = Path(__file__).with_name("extras.py")


@pytest.mark.parametrize("extra", CHOSEN)
def test_an_extra_alone_does_what_it_is_for(extra: str, tmp_path: Path) -> None:
    python = str(tmp_path / "venv" / "bin" / "python")
    here = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(*command: str, **more: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=here | more, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    run(sys.executable, "-m", "venv", str(tmp_path / "venv"))
    run(python, "-m", "pip", "install", "--quiet", f"{WHEEL}[{extra}]")
    run(python, "-m", "pip", "check")
    with running_rest(str(tmp_path / "server")) as server:
        run(python, str(PROGRAM), extra, PAIMON_URI=server.uri, PAIMON_TOKEN=server.token)
    size = sum(file.stat().st_size for file in (tmp_path / "venv").rglob("*") if file.is_file())
    print(f"{extra}: {size / 1e6:.0f} MB installed")


def test_every_extra_has_something_to_do() -> None:
    missing = [extra for extra in DECLARED if extra != "dev" and f'    "{extra}": ' not in PROGRAM.read_text()]
    assert missing == []
