"""The wheel and the sdist in dist/, as `make release` builds them: what they hold, and that the wheel alone works."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

import lakewright

ROOT = Path(__file__).parent.parent.parent
STEM = f"lakewright-{lakewright.__version__}"
WHEEL = ROOT / "dist" / f"{STEM}-py3-none-any.whl"
SDIST = ROOT / "dist" / f"{STEM}.tar.gz"
SOURCES = {
    str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.*") if "__pycache__" not in path.parts
}
PACKAGES = {"lakewright", "pyspark_lakewright"}
NO_EXTRA = "lakewright: the command line needs the package click: pip install 'lakewright[cli]'\n"


def _names(sdist: Path) -> set[str]:
    """Return the files of a sdist, relative to its one folder."""
    with tarfile.open(sdist) as archive:
        return {str(Path(name).relative_to(STEM)) for name in archive.getnames()}


@pytest.fixture(scope="module")
def wheel() -> zipfile.ZipFile:
    return zipfile.ZipFile(WHEEL)


def test_dist_holds_these_two_files() -> None:
    assert set((ROOT / "dist").iterdir()) == {WHEEL, SDIST}
    for file in (WHEEL, SDIST):
        print(f"{file.name}: {file.stat().st_size:,} bytes")


def test_the_wheel_holds_the_sources_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    held = {name for name in wheel.namelist() if not name.startswith(f"{STEM}.dist-info/")}
    assert held == SOURCES
    assert {name.split("/")[0] for name in held} == PACKAGES
    assert {"lakewright/py.typed", "pyspark_lakewright/__init__.py"} <= held
    print(f"the wheel holds {len(held)} files of {', '.join(sorted(PACKAGES))}, py.typed among them, and no tests")


def test_the_sdist_holds_what_a_build_needs_and_no_tests() -> None:
    held = _names(SDIST)
    assert {f"src/{name}" for name in SOURCES} | {"pyproject.toml", "README.md", "LICENSE", "PKG-INFO"} <= held
    assert {name.split("/")[0] for name in held if "/" in name} == {"src", "docs"}


def test_the_metadata_name_the_version_the_licence_and_the_command(wheel: zipfile.ZipFile) -> None:
    facts: Message = Parser().parsestr(wheel.read(f"{STEM}.dist-info/METADATA").decode())
    assert facts["Version"] == lakewright.__version__
    assert facts["License-Expression"] == "Apache-2.0"
    assert f"{STEM}.dist-info/licenses/LICENSE" in wheel.namelist()
    assert "lakewright = lakewright.cli.main:main" in wheel.read(f"{STEM}.dist-info/entry_points.txt").decode()


def test_the_wheel_works_in_a_clean_environment(tmp_path: Path) -> None:
    """Nothing is there but the wheel and what it asks for: no extra, and not the folder of the sources."""
    programs = tmp_path / "venv" / "bin"
    python = str(programs / "python")
    here = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(*command: str) -> str:
        return subprocess.run(command, cwd=tmp_path, env=here, stdout=subprocess.PIPE, text=True, check=True).stdout

    run(sys.executable, "-m", "venv", str(tmp_path / "venv"))
    run(python, "-m", "pip", "install", "--quiet", str(WHEEL))
    run(python, "-m", "pip", "check")
    run(python, "-W", "error", str(Path(__file__).with_name("smoke.py")))
    assert run(python, "-W", "error", "-c", _first_snippet()).startswith("pyarrow.Table\nid: int64")
    assert run(python, "-c", "import lakewright; print(lakewright.__version__)") == f"{lakewright.__version__}\n"
    for command in ([str(programs / "lakewright")], [python, "-m", "lakewright"]):
        said = subprocess.run([*command, "--help"], cwd=tmp_path, env=here, capture_output=True, text=True, check=False)
        assert (said.returncode, said.stdout, said.stderr) == (1, "", NO_EXTRA)
    print("installed, written, read; the command says what it lacks")


def _first_snippet() -> str:
    """Return the first Python of the README."""
    return (ROOT / "README.md").read_text().split("```python\n")[1].split("```")[0]
