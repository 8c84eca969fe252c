"""The commands that docs/command-line.md and docs/operate.md show print what the pages say.

`PYTHONPATH=tests python -m cli.test_sessions_of_docs` writes the sessions that run in a shell anew. A command is a line
that begins with `$ `, and goes on with lines that begin with `> `; it runs in bash, with `lakewright` on its path.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewright.cli.cli_options import ENTRIES
from lakewright.cli.main import main
from support.warm_commands import serving

ROOT = Path(__file__).parent.parent.parent
COMMAND_LINE, OPERATE = ROOT / "docs" / "command-line.md", ROOT / "docs" / "operate.md"
# Each page with the headings between which a shell runs its commands; the rest of the first page runs in this process.
SESSIONS = ((COMMAND_LINE, "## A first session\n", "## Which table\n"), (OPERATE, "## Backup and recovery\n", None))
_BLOCK = re.compile(r"(^```console\n)(.*?)(^```)", re.MULTILINE | re.DOTALL)
# What differs from run to run, and what stands for it.
_VARIES = (
    (r"data-[0-9a-f-]{36}-\d+-\d+-\d+", "data-ID"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ?", "TIME"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "ID"),
    (r"\d[\d,.]* (MB|bytes|s\b|rows/s)", r"N \1"),
    (r"\b\d,\d{3}\b", "N"),
    (r"[ \t]+", " "),
)


def session_of(page: Path, begin: str, end: str | None) -> str:
    """Return the part of a page that is one session in a shell."""
    text = page.read_text()
    first = text.index(begin)
    return text[first : None if end is None else text.index(end, first)]


def commands_of(block: str) -> Iterator[str]:
    """Yield the commands of a block without their prompts."""
    command: list[str] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            if command:
                yield "\n".join(command)
            command = [line[2:]]
        elif line.startswith("> ") and command:
            command.append(line[2:])
    if command:
        yield "\n".join(command)


def replay(text: str, directory: Path) -> str:
    """Run the commands of a session in a directory, and return the text with what they print."""
    tools = directory / ".tools"
    tools.mkdir()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("LAKEWRIGHT_")} | {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "XDG_CONFIG_HOME": str(directory / ".config"),
    }

    def run(command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        shown = command.replace("\n", "\n> ")
        printed = done.stdout.replace("\r\n", "\n").replace(f"{directory}/", "")
        return f"$ {shown}\n{printed}"

    with serving(tools):
        return _BLOCK.sub(lambda found: found[1] + "".join(map(run, commands_of(found[2]))) + found[3], text)


def without_varying_parts(text: str) -> str:
    """Return a text with marks in place of ids, times and sizes."""
    for pattern, mark in _VARIES:
        text = re.sub(pattern, mark, text)
    return text


@pytest.mark.processes
@pytest.mark.parametrize(("page", "begin", "end"), SESSIONS, ids=[page.name for page, *_ in SESSIONS])
def test_a_session_in_a_shell_prints_what_the_page_shows(
    page: Path, begin: str, end: str | None, tmp_path: Path
) -> None:
    text = session_of(page, begin, end)
    assert "```console" in text
    again = replay(text, tmp_path)
    for shown, expected in zip(
        without_varying_parts(again).split("\n"), without_varying_parts(text).split("\n"), strict=True
    ):
        assert shown == expected


def test_the_commands_of_the_reference_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = COMMAND_LINE.read_text()
    reference = text[text.index("## Which table\n") :]
    for code in re.findall(r"^```python\n(.*?)^```", reference, re.MULTILINE | re.DOTALL):
        exec(compile(code, COMMAND_LINE.name, "exec"), {})  # noqa: S102 - the page is ours
    blocks = re.findall(r"^```console\n(.*?)^```", reference, re.MULTILINE | re.DOTALL)
    commands = [part for block in blocks for part in block.split("$ lakewright ")[1:]]
    assert len(commands) > 6
    for command in commands:
        line, _, expected = command.partition("\n")
        main(shlex.split(line))
        printed = capsys.readouterr()
        shown = printed.err + printed.out if "--dry-run" in line else printed.out + printed.err
        if not doctest.OutputChecker().check_output(expected, shown.replace("\r\n", "\n"), doctest.ELLIPSIS):
            assert shown == expected, line
    assert (tmp_path / "orders.parquet").is_file()


def test_the_reference_names_every_command() -> None:
    text = COMMAND_LINE.read_text()
    assert [name for name in ENTRIES if f"`{name}`" not in text] == []


if __name__ == "__main__":
    for page, begin, end in SESSIONS:
        with tempfile.TemporaryDirectory() as place:
            session = session_of(page, begin, end)
            page.write_text(page.read_text().replace(session, replay(session, Path(place).resolve())))
