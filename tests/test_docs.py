"""The code in docs/ and in docstrings runs, and lists in the pages are complete."""

from __future__ import annotations

import doctest
import importlib
import os
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType

import pyarrow as pa
import pytest

import lakewright
from support.rest_server import running_rest

ROOT = Path(__file__).parent.parent
PACKAGE = Path(lakewright.__file__).parent
SNIPPET = re.compile(r"^```(python|sql|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _runs_here(page: Path) -> bool:
    """Return True if a page has Python or SQL that needs no engine; tests/spark and tests/ray run the others."""
    on_an_engine = page.parent.name == "spark" or page.name == "ray.md"
    return not on_an_engine and any(language != "text" for language, _ in SNIPPET.findall(page.read_text()))


PAGES = [
    pytest.param(page, id=page.stem, marks=[pytest.mark.processes] if "import subprocess" in page.read_text() else [])
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if _runs_here(page)
]


def _modules_with_examples() -> dict[str, list[str]]:
    """Return the modules whose docstrings have examples, by package."""
    packages: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if ">>> " in path.read_text():
            parts = path.relative_to(PACKAGE).with_suffix("").parts
            name = ".".join(["lakewright", *(part for part in parts if part != "__init__")])
            packages.setdefault(parts[0] if len(parts) > 1 else "lakewright", []).append(name)
    return packages


EXAMPLES = _modules_with_examples()


@pytest.fixture
def _server(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run a REST server for a page that connects to one."""
    page: Path = request.getfixturevalue("page")
    if "PAIMON_URI" not in page.read_text():
        yield
        return
    with running_rest(str(tmp_path / "server")) as server:
        monkeypatch.setenv("PAIMON_URI", server.uri)
        monkeypatch.setenv("PAIMON_TOKEN", server.token)
        yield


@pytest.mark.usefixtures("_server")
@pytest.mark.parametrize("page", PAGES)
def test_the_snippets_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the snippets of a page in order, as one program, in an empty directory.

    SQL runs in the context `ctx` of the page; a block of text after it shows the rows of its last statement.
    """
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {"__name__": "page"}
    shown = ""
    for number, (language, code) in enumerate(SNIPPET.findall(page.read_text())):
        if language == "python":
            if "import torch\n" in code and find_spec("torch") is None:
                continue
            exec(compile(code, f"{page.name}[{number}]", "exec"), scope)  # noqa: S102 - our own pages
        elif language == "sql":
            context = scope["ctx"]
            assert isinstance(context, lakewright.SQLContext)
            shown = _as_text(context.script(code)[-1])
        elif shown:
            assert shown == code, f"{page.name}[{number}]"
        shown = shown if language == "sql" else ""


def _as_text(rows: pa.Table) -> str:
    def text(value: object) -> str:
        return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    lines = [rows.column_names, *([text(value) for value in row.values()] for row in rows.to_pylist())]
    return "".join(" | ".join(line) + "\n" for line in lines)


@pytest.mark.parametrize("package", EXAMPLES)
def test_the_examples_in_docstrings_run(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[str] = []
    for number, name in enumerate(EXAMPLES[package]):
        directory = tmp_path / str(number)
        directory.mkdir()
        monkeypatch.chdir(directory)
        runner = doctest.DocTestRunner(verbose=False)
        for examples in doctest.DocTestFinder().find(importlib.import_module(name), name):
            runner.run(examples, out=failures.append)
    assert not failures, "".join(failures)


def test_the_page_lists_all_procedures_with_their_arguments(tmp_path: Path) -> None:
    listed = {}
    for name, arguments, _ in re.findall(
        r"^\| `(\w+)` \| ([^|]*) \| ([^|]+) \|$", (ROOT / "docs" / "sql-reference.md").read_text(), re.MULTILINE
    ):
        listed[name] = re.findall(r"`([\w?]+)`", arguments)
    ctx = lakewright.SQLContext({"warehouse": str(tmp_path)})
    known = {}
    for name in ctx.sql("SHOW PROCEDURES")["procedure_name"].to_pylist():
        lines = ctx.sql(f"DESCRIBE PROCEDURE sys.{name}")["procedure_description"].to_pylist()
        known[name] = [line.split()[0] for line in lines if line.startswith("  ")]
    assert listed == known


def test_public_names_have_docstrings() -> None:
    public = {name: getattr(lakewright, name) for name in lakewright.__all__}
    missing = [name for name, it in public.items() if isinstance(it, type | FunctionType) and not it.__doc__]
    assert missing == []


def test_no_file_names_a_local_path_or_a_package_registry() -> None:
    forbidden = re.compile(r"/work/|/tmp/w/|pypi\.org|maven\.org|crates\.io|proxy\.golang|registry\.npm")
    found = [
        str(path.relative_to(ROOT))
        for path in _project_files()
        if path != Path(__file__).resolve() and forbidden.search(path.read_text(errors="replace"))
    ]
    assert found == []


def _project_files() -> Iterator[Path]:
    """Yield the text files of the project, without those that tools and builds leave."""
    suffixes = {".py", ".md", ".toml", ".txt", ".java", ""}
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [it for it in folders if it not in ("target", "golden") and (it[0] != "." or it == ".github")]
        yield from (Path(folder, name) for name in files if Path(name).suffix in suffixes and name != ".git")
