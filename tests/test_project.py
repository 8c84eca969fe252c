"""What the files around the sources say of the project agrees: its version and the Pythons it supports."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import lakewright
from lakewright.cli.main import main

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_version_is_written_in_one_file() -> None:
    """Everything else takes it from there; the change log names it as a heading."""
    place = PROJECT["tool"]["hatch"]["version"]["path"]
    assert "version" in PROJECT["project"]["dynamic"]
    stated = re.compile(rf"['\"]{re.escape(lakewright.__version__)}['\"]")
    files = [ROOT / "pyproject.toml", *(ROOT / "src").rglob("*.py")]
    assert [str(file.relative_to(ROOT)) for file in files if stated.search(file.read_text())] == [place]
    assert f"## {lakewright.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_command_line_says_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"lakewright {lakewright.__version__}\n"


def test_python_runs_the_package_as_the_command_line() -> None:
    done = subprocess.run([sys.executable, "-m", "lakewright", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"lakewright {lakewright.__version__}\n"


def test_the_classifiers_begin_with_the_oldest_python() -> None:
    listed = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    assert PROJECT["project"]["requires-python"] == f">={listed[0]}"
