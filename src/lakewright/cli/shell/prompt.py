"""The prompt of `lakewright sql`: statements from a terminal in, their rows, counts and times out.

A statement ends with `;` and may have several lines. Ctrl-C drops the input, or stops the statement that runs; Ctrl-D
ends the prompt. What was entered is kept in the user's state directory.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output as Terminal

from lakewright.cli.base.interrupts import StillRunning, forget_interrupts, run_interruptibly
from lakewright.cli.base.results import shown
from lakewright.cli.shell.completion import Names, completions
from lakewright.cli.shell.statements import bound_args, engine_message, rows_of
from lakewright.errors import LakewrightError, SQLSyntaxError, counted
from lakewright.statements.context import Context
from lakewright.statements.parse.cursor import words_of

ROWS_MAX = 100
_QUIT = {"quit", "exit", r"\q"}
_BEGIN = "Statements end with ; and may have several lines; Enter runs them, Alt-Enter always begins a line."
_COMMANDS = {
    "help": "this text",
    r"\timing": "times on or off",
    "quit": "end, also Ctrl-D",
    "SHOW DATABASES; SHOW TABLES;": "what there is",
    "DESCRIBE t;": "columns of a table",
    "SHOW PROCEDURES;": "what CALL can do",
}
_END = "Ctrl-C drops the input, or stops the statement that runs. Tab completes names and words, arrow up goes back."


def help_text(columns: int) -> str:
    """Return the help of the prompt, wrapped by words to a number of columns."""
    wide = max(map(len, _COMMANDS))
    lines = [f"  {name:<{wide}}  {about}" for name, about in _COMMANDS.items()]
    return "\n".join([textwrap.fill(_BEGIN, columns), *lines, textwrap.fill(_END, columns)])


class Prompt:
    """Reads statements and shows their rows until the user ends it."""

    def __init__(
        self,
        context: Context[Any],
        args: Mapping[str, str] | None = None,
        *,
        limit: int | None = None,
        quiet: bool = False,
    ) -> None:
        self.context = context
        self._args = bound_args((args or {}).items())
        self._limit = ROWS_MAX if limit is None else limit
        self._quiet = quiet
        self._timing = True
        self._names = Names(context)

    def run(
        self, source: Input | None = None, terminal: Terminal | None = None, history: History | None = None
    ) -> None:
        """Read and run statements until Ctrl-D or `quit`; source, terminal and history are the user's own."""
        session: PromptSession[str] = PromptSession(
            history=_history() if history is None else history,
            completer=_Completer(self._names),
            complete_in_thread=True,
            complete_while_typing=False,
            multiline=Condition(lambda: not is_complete(session.default_buffer.document.text)),
            key_bindings=_keys(),
            prompt_continuation=lambda width, _line, _wrapped: "... ".rjust(width),
            input=source,
            output=terminal,
        )
        if not self._quiet:
            _say("Statements end with ';'. Enter 'help' for help, 'quit' to end.")
        while True:
            try:
                forget_interrupts()
                if not self.enter(session.prompt(f"{self.context.catalog_name}.{self.context.database}> ")):
                    return
            except StillRunning:  # a statement goes on: the prompt must not begin another beside it
                raise
            except KeyboardInterrupt:
                continue
            except EOFError:
                return

    def enter(self, text: str) -> bool:
        """Do what was entered, and return whether the prompt goes on."""
        word = text.strip().rstrip(";").strip().lower()
        if word in _QUIT:
            return False
        if word in {"help", r"\?", "?"}:
            _write(help_text(shutil.get_terminal_size().columns))
        elif word == r"\timing":
            self._timing = not self._timing
            _say(f"timing is {'on' if self._timing else 'off'}")
        elif word:
            self._run(text)
        return True

    def _run(self, text: str) -> None:
        try:
            run_interruptibly(self.context.interrupt, lambda: self._run_all(text))
        except StillRunning:
            raise
        except KeyboardInterrupt:
            _say("cancelled")
        except LakewrightError as error:
            _say(f"error: {error}")
        except Exception as error:  # noqa: BLE001 - one statement fails, the prompt goes on
            _say(f"error: {type(error).__name__}: {engine_message(error)}")
        self._names.forget()

    def _run_all(self, text: str) -> None:
        started = time.monotonic()
        for rows in self.context.each(text, self._args):
            table, is_cut = rows_of(rows, self._limit)
            self._show(table, time.monotonic() - started, is_cut=is_cut)
            started = time.monotonic()

    def _show(self, table: pa.Table, seconds: float, *, is_cut: bool) -> None:
        found = shown(table, limit=self._limit, width=shutil.get_terminal_size().columns, is_cut=is_cut)
        if found.lines:
            head, *rest = found.lines
            _write("\n".join([_bold(head), *rest, *found.left_out]))
        took = f" in {seconds:.2f} s" if self._timing else ""
        rows = f"more than {counted(self._limit, 'row')}" if is_cut else counted(table.num_rows, "row")
        _say(f"{rows}{took}" if table.num_columns else f"done{took}")


class _Completer(Completer):
    """Offers the words of `completions` to prompt_toolkit."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        """Yield what may stand at the cursor."""
        word, found = completions(document.text_before_cursor, self._names)
        yield from (Completion(one, start_position=-len(word)) for one in found)


def is_complete(text: str) -> bool:
    """Return whether Enter runs a text: it ends with `;`, or is a word of the prompt, or is empty.

    >>> is_complete("SELECT 1"), is_complete("SELECT 1; -- one"), is_complete("SELECT ';"), is_complete("quit")
    (False, True, False, True)
    """
    stripped = text.strip().lower()
    if not stripped or stripped.startswith("\\") or stripped in _QUIT | {"help", "?"}:
        return True
    try:
        words = words_of(text)
    except SQLSyntaxError:
        return False  # a quote or a comment is open
    return bool(words) and words[-1].text == ";" and not words[-1].is_text


def _keys() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        """Begin a line, also after `;`."""
        event.current_buffer.insert_text("\n")

    return bindings


def _history() -> History:
    """Return the history in the user's state directory; in memory if that cannot be written."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    place = Path(state).expanduser() / "lakewright"
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = place / "sql-history"
        file.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(file))


def _bold(text: str) -> str:
    is_plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb" or not sys.stdout.isatty()
    return text if is_plain else f"\x1b[1m{text}\x1b[0m"


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
