"""README, the pages about Spark and the example on Spark run in the session of all tests."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakewright.spark as lws
from support.effort import some

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "spark").glob("*.md"))]
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _views(spark: SparkSession) -> Iterator[None]:
    """Drop the views that a test made, and take back what it installed."""
    yield
    lws.uninstall()
    for view in spark.catalog.listTables():
        if view.isTemporary:
            spark.catalog.dropTempView(view.name)


@pytest.mark.parametrize("page", some(PAGES, 0, -1), ids=lambda page: page.name)
def test_the_snippets_of_a_page_run_in_order(
    page: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snippets of one page are one program, run in an empty directory; `spark` is there."""
    snippets = SNIPPET.findall(page.read_text())
    assert snippets, f"{page} shows no code"
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {"__name__": "page", "spark": spark}
    for number, code in enumerate(snippets):
        exec(compile(code, f"{page.name}[{number}]", "exec"), scope)  # noqa: S102 - the pages are ours


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / "spark.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "deleted: 1000\nupdated: 1 inserted: 1\norders above 899.5: 4\n" in printed
    assert "| north|  3000|1349416.0|" in printed
