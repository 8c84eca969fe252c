"""The commands of docs/command-line.md print what the page shows."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

from lakewright.cli.main import main
from lakewright.cli.registry import ENTRIES

PAGE = (Path(__file__).parent.parent.parent / "docs" / "command-line.md").read_text()


def test_the_commands_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for code in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(compile(code, "command-line.md", "exec"), {})  # noqa: S102 - the page is ours
    blocks = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    commands = [part for block in blocks for part in block.split("$ lakewright ")[1:]]
    assert len(commands) > 6
    for command in commands:
        line, _, expected = command.partition("\n")
        main(shlex.split(line))
        said = capsys.readouterr()
        shown = said.err + said.out if "--dry-run" in line else said.out + said.err
        if not doctest.OutputChecker().check_output(expected, shown.replace("\r\n", "\n"), doctest.ELLIPSIS):
            assert shown == expected, line
    assert (tmp_path / "orders.parquet").is_file()


def test_the_page_names_every_command() -> None:
    assert [name for name in ENTRIES if f"`{name}`" not in PAGE] == []
