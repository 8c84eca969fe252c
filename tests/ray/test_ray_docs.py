"""The page about Ray and the example on Ray run on the Ray of all tests."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "ray.md"
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.nightly
@pytest.mark.usefixtures("ray_session")
def test_the_snippets_of_the_page_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They run in an empty directory."""
    snippets = SNIPPET.findall(PAGE.read_text())
    assert len(snippets) > 5
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {"__name__": "page"}
    for number, code in enumerate(snippets):
        exec(compile(code, f"{PAGE.name}[{number}]", "exec"), scope)  # noqa: S102 - the page is ours


@pytest.mark.usefixtures("ray_session")
def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / "on_ray.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "wrote 5000 rows in snapshot 1" in printed
    assert "{'region': ['north', 'south', 'west'], 'price_count': [499, 500, 2]}" in printed
