"""Rows as text, csv, JSON, parquet and Arrow.

A script can rely on stdout: it holds the result and nothing else, with `--json` one JSON value. In a terminal tables
are formatted by `rich` if it is installed, and a line on stderr says what long work does; a log gets no such line.
"""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

Row: TypeAlias = "Mapping[str, object]"
Say: TypeAlias = Callable[[str], None]

_TICK_SECONDS = 0.5
_ERASE = "\r\x1b[K"  # back to the start of the line, and clear it
_LINE_CHARACTERS = 70
_SHORT_CHARACTERS = 20  # such as a time: a cell of so many is not broken into lines


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """Where a command writes, and how."""

    as_json: bool = False
    quiet: bool = False

    @contextmanager
    def progress(self, what: str) -> Iterator[Say]:
        """Show on a terminal what is being done and for how long; what is yielded takes another text for it."""
        if self.quiet or not sys.stderr.isatty():
            yield lambda _: None
            return
        texts, done = [what], threading.Event()
        ticker = threading.Thread(target=_tick, args=(texts, done), daemon=True)
        ticker.start()
        try:
            yield texts.append
        finally:
            done.set()
            ticker.join()

    def say(self, line: str) -> None:
        """Write a line about the result to stderr, unless the command is quiet."""
        if not self.quiet:
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()

    def result(self, value: Row, text: str) -> None:
        """Write the result of the command."""
        sys.stdout.write(f"{_json(value) if self.as_json else text}\n")
        sys.stdout.flush()

    def report_done(self, table: str, kind: str, action: str, *names: str) -> None:
        """Write that something was done to what has these names."""
        facts = {"table": table, "action": action, "names": list(names)}
        self.result(facts, f"{table}: {kind} {action} {' '.join(names)}: done")

    def table(self, rows: Sequence[Row], *, empty: str) -> None:
        """Write a result of several rows with the same keys; without rows, write the line `empty` to stderr."""
        if self.as_json:
            sys.stdout.write(f"{_json(rows)}\n")
        elif not rows:
            self.say(empty)
        elif not sys.stdout.isatty():
            sys.stdout.write("\n".join(plain(rows)) + "\n")
        elif _least_width(rows) > (columns := shutil.get_terminal_size().columns):
            sys.stdout.write("\n\n".join(map(_record, rows)) + "\n")
        elif not _rich(rows, columns):
            sys.stdout.write("\n".join(plain(rows)) + "\n")
        sys.stdout.flush()


def _tick(texts: list[str], done: threading.Event) -> None:
    """Write the newest text and the time on one line of the terminal, again and again until the work is done."""
    begin = time.monotonic()
    while not done.wait(_TICK_SECONDS):
        sys.stderr.write(f"{_ERASE}{texts[-1][:_LINE_CHARACTERS]} ({time.monotonic() - begin:,.0f} s)")
        sys.stderr.flush()
    sys.stderr.write(_ERASE)
    sys.stderr.flush()


def fail(message: str, *, as_is: bool = False) -> None:
    """Write why a command failed to stderr, in one line; `as_is` keeps the lines, as a caret stands below its place."""
    sys.stderr.write(f"lakewright: {message if as_is else ' '.join(message.split())}\n")


def plain(rows: Sequence[Row]) -> list[str]:
    """Return a table as lines of text, numbers to the right.

    >>> for line in plain([{"name": "orders", "rows": 12000}, {"name": "x", "rows": None}]):
    ...     print(line)
    name      rows
    orders  12,000
    x            -
    """
    names = list(rows[0])
    cells = [names, *([_cell(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(names))]
    aligned = [_aligner(name, rows) for name in names]
    return ["  ".join(put(c, w) for put, c, w in zip(aligned, line, widths, strict=True)).rstrip() for line in cells]


def _aligner(name: str, rows: Sequence[Row]) -> Callable[[str, int], str]:
    return str.rjust if _is_number(name, rows) else str.ljust


def _is_number(name: str, rows: Sequence[Row]) -> bool:
    return any(isinstance(row[name], int | float) for row in rows)


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case list() | tuple():
            return ", ".join(map(str, value)) or "-"
        case _:
            return str(value)


def instant(millis: int) -> str:
    """Return a time as text.

    >>> instant(0)
    '1970-01-01 00:00:00Z'
    """
    return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _least_width(rows: Sequence[Row]) -> int:
    """Return how wide a terminal must be for a table: only long texts are broken into lines."""
    widths = [max(len(_cell(row[name])) for row in (*rows, {name: name})) for name in rows[0]]
    return sum(min(width, _SHORT_CHARACTERS) for width in widths) + 2 * (len(widths) - 1)


def _record(row: Row) -> str:
    """Return a row for a narrow terminal, a line for each value."""
    width = max(map(len, row))
    return "\n".join(f"{name:<{width}}  {_cell(value)}" for name, value in row.items())


def _rich(rows: Sequence[Row], columns: int) -> bool:
    """Write a table with rich, which fits it to the terminal; return whether rich is installed."""
    try:
        from rich.console import Console  # noqa: PLC0415 - lazy: it takes longer to load than most commands to run
        from rich.table import Table  # noqa: PLC0415 - lazy
    except ImportError:
        return False
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in rows[0]:
        is_short = max(len(_cell(row[name])) for row in rows) <= _SHORT_CHARACTERS
        side: Literal["left", "right"] = "right" if _is_number(name, rows) else "left"
        table.add_column(name, justify=side, overflow="fold", no_wrap=is_short)
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    Console(width=columns, height=25).print(
        table, markup=False
    )  # a terminal that says nothing of itself has a size, too
    return True


def _json(value: object) -> str:
    return json.dumps(value, default=str, indent=2)
