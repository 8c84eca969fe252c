"""Commands that README, docs and notes name: each exists, with the options that are shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from lakewright.cli.program import PROGRAM

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / "design").glob("*.md"), *ROOT.glob("*.md")])
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`(lakewright [^`]+)`")
_IN_A_LINE = re.compile(r"(?:^|[$|(&;] ?|\* {2})(lakewright [a-z][^|&#]*)")


def commands(text: str) -> Iterator[str]:
    """Yield the commands that a page shows, in its lines and in blocks of a shell."""
    for language, block in _FENCED.findall(text):
        if language in ("console", "sh", "text", "", "bash"):
            for line in block.splitlines():
                yield from _IN_A_LINE.findall(line)
    yield from _SPAN.findall(_FENCED.sub("", text))


def wrong(command: str) -> list[str]:
    """Return what a command names and the program does not have."""
    words = re.sub(r"\"[^\"]*\"|'[^']*'", "TEXT", command).split()[1:]
    context = click.Context(PROGRAM)
    found: click.Command | None = PROGRAM
    if words and not words[0].startswith(("-", "COMMAND")):
        found = PROGRAM.get_command(context, words[0])
    if found is None:
        return [words[0]]
    if isinstance(found, click.Group) and found is not PROGRAM and len(words) > 1 and not words[1].startswith("-"):
        if (inner := found.get_command(context, words[1])) is None:
            return [f"{words[0]} {words[1]}"]
        found = inner
    known = {name for it in (*PROGRAM.params, *found.params) for name in (*it.opts, *it.secondary_opts)} | {"--help"}
    return [word for word in words if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in known]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_page_exist(page: Path) -> None:
    assert {command: found for command in commands(page.read_text()) if (found := wrong(command))} == {}


def test_wrong_commands_are_found() -> None:
    page = "`lakewright compress t` `lakewright tag make t x`\n```console\n$ lakewright compact t --fully -q\n```\n"
    assert [wrong(command) for command in commands(page)] == [["--fully"], ["compress"], ["tag make"]]
