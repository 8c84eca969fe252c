"""The files around the sources agree: one version, the Pythons we support."""

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


def test_the_pythons_that_we_support_are_those_that_are_tested() -> None:
    listed = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    assert PROJECT["project"]["requires-python"] == f">={listed[0]}"
    for workflow, tested in (("nightly", listed), ("test", [listed[0], listed[-1]])):
        named = re.search(r"python: \[(.*)\]", (ROOT / f".github/workflows/{workflow}.yml").read_text())
        assert named is not None
        assert re.findall(r'"(.*?)"', named[1]) == tested


def test_commands_that_the_project_files_name_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    pages = "".join((ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md", ".pre-commit-config.yaml"))
    named = set(re.findall(r"\bmake ([a-z0-9-]+)", pages))
    assert {"demo", "test", "release"} <= named
    assert {target for target in named if not re.search(rf"^{target}:", makefile, re.MULTILINE)} == set()


def test_the_nightly_workflow_runs_all_parts() -> None:
    listed = subprocess.run(
        [sys.executable, ROOT / "scripts" / "nightly.py", "list"], capture_output=True, text=True, check=True
    ).stdout.split("\n")
    workflow = (ROOT / ".github/workflows/nightly.yml").read_text()
    assert re.findall(r"^ +- ([a-z0-9.-]+)$", workflow, re.MULTILINE) == [line.split()[0] for line in listed if line]
