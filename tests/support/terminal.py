"""Sessions of docs: the commands of a page in, the page with what they print out.

`python -m support.terminal` writes the pages anew.

A command is a line that begins with `$ `, and goes on with lines that begin with `> `. Every command runs in bash, with
`lakewright` on its path.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGES = (ROOT / "docs" / "terminal.md", ROOT / "docs" / "recovery.md")
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


def replayed(text: str, directory: Path) -> str:
    """Run the commands of a page in a directory, and return the page with what they print."""
    tools = directory / ".tools"
    tools.mkdir()
    program = tools / "lakewright"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lakewright "$@"\n')
    program.chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("LAKEWRIGHT_")} | {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
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
        said = done.stdout.replace("\r\n", "\n").replace(f"{directory}/", "")
        return f"$ {shown}\n{said}"

    return _BLOCK.sub(lambda found: found[1] + "".join(run(one) for one in commands_of(found[2])) + found[3], text)


def normal(text: str) -> str:
    """Return a page with marks in place of ids, times and sizes."""
    for pattern, mark in _VARIES:
        text = re.sub(pattern, mark, text)
    return text


if __name__ == "__main__":
    for page in PAGES:
        with tempfile.TemporaryDirectory() as place:
            page.write_text(replayed(page.read_text(), Path(place).resolve()))
