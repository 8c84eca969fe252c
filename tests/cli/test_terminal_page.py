"""The sessions of docs/terminal.md and docs/recovery.md print what the pages show."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.terminal import PAGES, commands_of, normal, replayed

FIRST_SESSION, RECOVERY = PAGES


@pytest.mark.processes
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_session_of_the_page(page: Path, tmp_path: Path) -> None:
    text = page.read_text()
    again = replayed(text, tmp_path)
    for shown, expected in zip(normal(again).split("\n"), normal(text).split("\n"), strict=True):
        assert shown == expected


def test_a_session_goes_all_the_way() -> None:
    """The page keeps what a first session needs."""
    commands = "\n".join(commands_of(FIRST_SESSION.read_text()))
    for word in ("table create", "--from", "import", "read", "--where", "files", "snapshots", "diff", "--tag"):
        assert word in commands
    for word in ("rollback", "verify", "report"):
        assert f"lakewright {word}" in commands


def test_the_drill_has_every_way_back() -> None:
    commands = "\n".join(commands_of(RECOVERY.read_text()))
    for word in ("copy", "rollback", "remove-unexisting", "repair", "verify"):
        assert f"lakewright {word}" in commands
    assert "cp -r lake/sales.db/orders/snapshot" in commands  # what names files is copied before the files
