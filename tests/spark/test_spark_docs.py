"""README and the pages about Spark are executed, in the session of all tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "spark").glob("*.md"))]
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_snippets_of_a_page_run_in_order(
    page: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snippets of one page are one program, run in an empty directory; `spark` is there."""
    snippets = SNIPPET.findall(page.read_text())
    assert snippets, f"{page} shows no code"
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {"__name__": "page", "spark": spark}
    try:
        for number, code in enumerate(snippets):
            exec(compile(code, f"{page.name}[{number}]", "exec"), scope)  # noqa: S102 - the pages are ours
    finally:
        for view in spark.catalog.listTables():
            if view.isTemporary:
                spark.catalog.dropTempView(view.name)
