"""The prompt of `lakewright sql`, and its completion."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output as Terminal

from lakewright.cli.cli_results import render_table
from lakewright.cli.interrupts import StillRunning, forget_interrupts, run_interruptibly
from lakewright.cli.sql_command import bound_args, engine_message, rows_of
from lakewright.errors import LakewrightError, SQLSyntaxError, pluralize
from lakewright.spec.table_options import KNOWN_OPTIONS
from lakewright.statements.call_statement import PROCEDURES
from lakewright.statements.sql_context import Context
from lakewright.statements.sql_session import Session
from lakewright.statements.sql_text import Fragment, Name
from lakewright.statements.token_cursor import words_of

# ---- Completion ------------------------------------------------------------------------------------------------------
# Invariant: a catalog that fails or is slow costs a prompt its names, never an error; names are remembered
# for some seconds.

T = TypeVar("T")

KEYWORDS = tuple(
    "ADD ALL ALTER AND AS ASC BETWEEN BY CALL CASE CAST COLUMN COLUMNS COMMENT COPY COUNT CREATE CROSS DATABASE "
    "DATABASES DELETE DESC DESCRIBE DISTINCT DROP ELSE END EXCEPT EXISTS EXPLAIN EXTENDED FALSE FIRST FROM FULL GROUP "
    "HAVING IF IN INNER INSERT INTERSECT INTO IS JOIN LEFT LIKE LIMIT MATCHED MERGE NOT NULL OF ON OPTIONS OR ORDER "
    "OUTER OVER OVERWRITE PARTITION PARTITIONED PARTITIONS PROCEDURE PROCEDURES RENAME REPLACE RIGHT SELECT SET SHOW "
    "TABLE TABLES TAG TAGS TBLPROPERTIES TEMPORARY THEN TIMESTAMP TO TRUE TRUNCATE UNION UNSET UPDATE USE USING VALUES "
    "VERSION VIEW WHEN WHERE WITH".split()
)
_WORD = re.compile(r"[\w.`$-]*$")
_TABLE_COMES = re.compile(
    r"\b(?:FROM|JOIN|INTO|UPDATE|TABLE|OVERWRITE|USING|DESCRIBE|DESC|TRUNCATE)\s+(?:(?:IF|NOT|EXISTS|TABLE|EXTENDED)\s+)*$",
    re.IGNORECASE,
)
_DATABASE_COMES = re.compile(
    r"\b(?:USE|DATABASE|SCHEMA|(?:TABLES|COLUMNS)\s+(?:IN|FROM))\s+(?:(?:IF|NOT|EXISTS)\s+)*$", re.IGNORECASE
)
_IN_CALL = re.compile(r"\bCALL\s+(?:\w+\.)?sys\.(\w+)\s*\((?P<inside>[^;]*)$", re.IGNORECASE)
_CALL_COMES = re.compile(r"\bCALL\s+$|\bPROCEDURE\s+$", re.IGNORECASE)
_OPTION_COMES = re.compile(r"\b(?:TBLPROPERTIES|OPTIONS)\s*\((?:[^()']|'[^']*')*'$", re.IGNORECASE)
_TABLE_NAMES = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE|TABLE|USING)\s+([\w.`$-]+)", re.IGNORECASE)
_REMEMBERED_SECONDS = 10.0
OPTION_KEYS = tuple(sorted(option.key() for option in KNOWN_OPTIONS))


@dataclass
class CompletionNames:
    """The names of a session: databases, tables, columns; looked up when they are asked for."""

    session: Session
    clock: Callable[[], float] = time.monotonic
    _known: dict[object, tuple[float, object]] = field(default_factory=dict)

    def databases(self) -> list[str]:
        """Return the databases of the current catalog."""
        return self._look_up_cached("databases", self.session.catalog.list_databases, [])

    def tables(self, database: str | None = None) -> list[str]:
        """Return the tables of a database, of the current one unless one is named."""
        name = database or self.session.database
        return self._look_up_cached(("tables", name), lambda: self.session.catalog.list_tables(name), [])

    def columns(self, table: str) -> list[str]:
        """Return the columns of a table as it is named in a statement."""
        parts = tuple(part.strip("`") for part in table.split("."))
        name = Name(parts, Fragment(table, 0, len(table)))
        key = ("columns", self.session.database, parts)
        return self._look_up_cached(key, lambda: list(self.session.table(name).field_names), [])

    def forget(self) -> None:
        """Look everything up again: a statement may have changed it."""
        self._known.clear()

    def _look_up_cached(self, key: object, look: Callable[[], T], none: T) -> T:
        kept = self._known.get((self.session.catalog_name, key))
        if kept is not None and self.clock() - kept[0] < _REMEMBERED_SECONDS:
            return kept[1]  # type: ignore[return-value]
        found = none
        with suppress(LakewrightError, OSError):
            found = look()
        self._known[(self.session.catalog_name, key)] = (self.clock(), found)
        return found


def completions(before: str, names: CompletionNames) -> tuple[str, list[str]]:
    """Return the word that is being written, and the words that may stand there, in order."""
    text = before[before.rfind(";") + 1 :]
    word = (_WORD.search(text) or re.match("", text))[0]  # type: ignore[index]
    lead = text[: len(text) - len(word)]
    found = dict.fromkeys(one for one in _candidates(text, lead, word, names) if _fits(one, word))
    return word, [one for one in found if one != word]


def _fits(candidate: str, word: str) -> bool:
    return candidate.lower().startswith(word.lower().replace("`", ""))


def _candidates(text: str, lead: str, word: str, names: CompletionNames) -> Iterator[str]:
    call = _IN_CALL.search(lead)
    if _OPTION_COMES.search(lead):
        yield from OPTION_KEYS
    elif call is not None:
        yield from _arguments_of(call[1], call["inside"])
    elif _CALL_COMES.search(lead):
        yield from (f"sys.{name}" for name in PROCEDURES)
    elif _DATABASE_COMES.search(lead):
        yield from names.databases()
    elif _TABLE_COMES.search(lead):
        yield from _tables(word, names)
        yield from _match_case(("TABLE", "DATABASE", "EXTENDED"), word)
    else:
        yield from _columns(text, word, names)
        yield from _match_case(KEYWORDS, word)


def _arguments_of(procedure: str, inside: str) -> Iterator[str]:
    """Yield the arguments of a procedure that are not given yet, where one may stand."""
    known = PROCEDURES.get(procedure.lower())
    if known is not None and inside.count("'") % 2 == 0 and re.search(r"(^|,)\s*$", inside):
        given = {name.lower() for name in re.findall(r"(\w+)\s*=>", inside)}
        yield from (f"{one.name} => " for one in known.parameters if one.name.lower() not in given)


def _tables(word: str, names: CompletionNames) -> Iterator[str]:
    database, dot, _ = word.rpartition(".")
    if dot:
        yield from (f"{database}.{table}" for table in names.tables(database.strip("`")))
        return
    yield from names.tables()
    yield from (f"{one}." for one in names.databases())


def _columns(text: str, word: str, names: CompletionNames) -> Iterator[str]:
    """Yield the columns of the tables that the statement names; after `alias.`, with that."""
    if not word:
        return
    alias, dot, _ = word.rpartition(".")
    for table in dict.fromkeys(_TABLE_NAMES.findall(text)):
        yield from (f"{alias}{dot}{column}" for column in names.columns(table))


def _match_case(words: Iterable[str], word: str) -> Iterator[str]:
    """Yield keywords once something is written, in its case."""
    if word:
        yield from (one.lower() if word.islower() else one for one in words)


# ---- The prompt ------------------------------------------------------------------------------------------------------
# A statement ends with `;` and may have several lines. Ctrl-C drops the input, or stops the statement that runs;
# Ctrl-D ends the prompt. What was entered is kept in the user's state directory.

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
        self._names = CompletionNames(context)

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
        found = render_table(table, limit=self._limit, width=shutil.get_terminal_size().columns, is_cut=is_cut)
        if found.lines:
            head, *rest = found.lines
            _write("\n".join([_bold(head), *rest, *found.left_out]))
        took = f" in {seconds:.2f} s" if self._timing else ""
        rows = f"more than {pluralize(self._limit, 'row')}" if is_cut else pluralize(table.num_rows, "row")
        _say(f"{rows}{took}" if table.num_columns else f"done{took}")


class _Completer(Completer):
    """Offers the words of `completions` to prompt_toolkit."""

    def __init__(self, names: CompletionNames) -> None:
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
