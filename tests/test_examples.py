"""The scripts of examples/ run in an empty directory; those on Spark and Ray run in tests/spark and tests/ray."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
PRINTED = {
    "embedded": ["{'id': 1, 'item': 'tea', 'price': 8.0}", "{'snapshot_id': 3,"],
    "sql": ["Ada   33.50", "1      9.50  19.00"],
    "stream": ["  -U 2 7\n  +U 2 6\n  -D 3 9\nNothing new:\n"],
    "pypaimon_code": ["splits of lakewright.pypaimon", "{'id': 2, 'name': 'cup', 'stock': 4}"],
}
ELSEWHERE = {"demo", "spark", "on_ray"}


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_runs_and_prints_its_rows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert [text for text in PRINTED[name] if text not in printed] == []


def test_every_example_has_a_test() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == PRINTED.keys() | ELSEWHERE
