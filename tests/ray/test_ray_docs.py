"""The page about Ray is one program, and it runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent.parent / "docs" / "ray.md"
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.usefixtures("ray_session")
def test_the_snippets_of_the_page_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They run in an empty directory, on the Ray of all tests."""
    snippets = SNIPPET.findall(PAGE.read_text())
    assert len(snippets) > 5
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {"__name__": "page"}
    for number, code in enumerate(snippets):
        exec(compile(code, f"{PAGE.name}[{number}]", "exec"), scope)  # noqa: S102 - the page is ours
