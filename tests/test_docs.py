"""Everything README, docs and docstrings show is executed."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import pyarrow as pa
import pytest

import lakewright
from support.rest_server import running_rest

ROOT = Path(__file__).parent.parent
# README and the pages about Spark run in tests/spark, in one session for all of them, that about Ray in tests/ray, and
# the sessions in a terminal in tests/cli.
_ELSEWHERE = {"ray.md", "terminal.md", "recovery.md"}
PAGES = sorted(
    page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "spark" and page.name not in _ELSEWHERE
)
_NOT_OURS = {".git", ".hypothesis", "target"}
SNIPPET = re.compile(r"^```(python|sql|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NAMES = [m.name for m in pkgutil.walk_packages(lakewright.__path__, "lakewright.")]


@pytest.fixture
def _server(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run a server for the page about servers."""
    if request.getfixturevalue("page").name != "rest-catalog.md":
        yield
        return
    with running_rest(str(tmp_path / "server")) as server:
        monkeypatch.setenv("PAIMON_URI", server.uri)
        monkeypatch.setenv("PAIMON_TOKEN", server.token)
        yield


@pytest.mark.usefixtures("_server")
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_snippets_of_a_page_run_in_order(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The snippets of one page are one program, run in an empty directory.

    Statements of SQL run in its context `ctx`; a text after them shows the rows of the last one.
    """
    snippets = SNIPPET.findall(page.read_text())
    assert snippets, f"{page} shows no code"
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {"__name__": "page"}
    shown = ""
    for number, (language, code) in enumerate(snippets):
        if language == "python":
            exec(compile(code, f"{page.name}[{number}]", "exec"), scope)  # noqa: S102 - the pages are ours
        elif language == "sql":
            context = scope["ctx"]
            assert isinstance(context, lakewright.SQLContext)
            shown = _shown(context.script(code)[-1])
        elif shown:
            assert shown == code, f"{page.name}[{number}]"
        shown = shown if language == "sql" else ""


def _shown(rows: pa.Table) -> str:
    def text(value: object) -> str:
        return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    lines = [rows.column_names, *([text(value) for value in row.values()] for row in rows.to_pylist())]
    return "".join(" | ".join(line) + "\n" for line in lines)


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_of_a_module_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if name.startswith("lakewright.ray"):
        pytest.importorskip("ray.data", reason="Ray has no wheel for this Python or platform")
    if name == "lakewright.torch":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    failures, _ = doctest.testmod(importlib.import_module(name), raise_on_error=False)
    assert failures == 0


def test_the_page_about_procedures_has_all_of_them_with_their_arguments(tmp_path: Path) -> None:
    shown = {}
    for name, arguments, _ in re.findall(
        r"^\| `(\w+)` \| ([^|]*) \| ([^|]+) \|$", (ROOT / "docs" / "sql-procedures.md").read_text(), re.MULTILINE
    ):
        shown[name] = re.findall(r"`([\w?]+)`", arguments)
    ctx = lakewright.SQLContext({"warehouse": str(tmp_path)})
    known = {}
    for name in ctx.sql("SHOW PROCEDURES")["procedure_name"].to_pylist():
        lines = ctx.sql(f"DESCRIBE PROCEDURE sys.{name}")["procedure_description"].to_pylist()
        known[name] = [line.split()[0] for line in lines if line.startswith("  ")]
    assert shown == known


def test_public_names_have_docstrings() -> None:
    public = {name: getattr(lakewright, name) for name in lakewright.__all__}
    missing = [name for name, it in public.items() if isinstance(it, type | FunctionType) and not it.__doc__]
    assert missing == []


def test_the_project_names_no_machine() -> None:
    """No path of the workplace, no registry's address, in anything that is checked in."""
    forbidden = re.compile(r"/work/|/tmp/w/|pypi\.org|maven\.org|crates\.io|proxy\.golang|registry\.npm")
    here = Path(__file__).resolve()
    suffixes = {".py", ".md", ".toml", ".txt", ".java", ""}
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        if parts[0].startswith(".v") or parts[0] in _NOT_OURS or "golden" in parts or path == here:
            continue
        if (
            path.is_file()
            and path.suffix in suffixes
            and not any(p.startswith(".") and p.endswith("cache") for p in parts)
        ):
            assert not forbidden.search(path.read_text(errors="replace")), path
