"""The session of docs/terminal.md prints what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.terminal import PAGE, commands_of, normal, replayed


@pytest.mark.processes
def test_the_session_of_the_page(tmp_path: Path) -> None:
    text = PAGE.read_text()
    again = replayed(text, tmp_path)
    for shown, expected in zip(normal(again).split("\n"), normal(text).split("\n"), strict=True):
        assert shown == expected


def test_a_session_goes_all_the_way() -> None:
    """The page keeps what a first session needs."""
    commands = "\n".join(commands_of(PAGE.read_text()))
    for word in ("table create", "--from", "import", "read", "--where", "files", "snapshots", "diff", "--tag"):
        assert word in commands
    for word in ("rollback", "verify", "report"):
        assert f"lakewright {word}" in commands
