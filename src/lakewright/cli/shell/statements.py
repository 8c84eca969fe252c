"""What a command and the prompt share about statements: values of parameters, and the rows of any engine as Arrow."""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from lakewright.errors import SQLSyntaxError
from lakewright.statements.context import Context
from lakewright.statements.parse.calls import read_constant
from lakewright.statements.parse.cursor import Cursor
from lakewright.statements.text import Args, Fragment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def bound_args(given: Iterable[tuple[str, str]]) -> Args:
    """Return the values of parameters that are given as text."""
    return {name: argument(text) for name, text in given}


def argument(text: str) -> object:
    """Return what a text means: a constant of SQL is its value, anything else is the text itself.

    A number with leading zeros is a text, as it is more often a code than a number.

    >>> argument("5"), argument("'5'"), argument("05"), argument("2026-01-31"), argument("null")
    (5, '5', '05', '2026-01-31', None)
    """
    stripped = text.strip()
    if stripped.lstrip("-").startswith("0") and stripped.lstrip("-").isdecimal() and stripped != "0":
        return text
    try:
        cursor = Cursor(Fragment(text, 0, len(text)))
        value = read_constant(cursor)
        cursor.expect_end()
    except SQLSyntaxError:
        return text
    return value


def rows_of(rows: object, limit: int | None = None) -> tuple[pa.Table, bool]:
    """Return the rows that a context returned as an Arrow table, and whether a frame had more than a limit."""
    if isinstance(rows, pa.Table):
        return rows, False
    from lakewright.spark.jobs.frames import to_arrow  # noqa: PLC0415 - a door

    frame = cast("DataFrame", rows)
    if limit is None:
        return to_arrow(frame), False
    table = to_arrow(frame.limit(limit + 1))
    return table.slice(0, limit), table.num_rows > limit


def engine_message(error: Exception) -> str:
    """Return the message of an error of an engine without the plan and the stack that Spark adds."""
    return re.split(r"\n\nJVM stacktrace|;\n['+*]", str(error))[0].strip() or type(error).__name__


def interruptibly(context: Context[Any], work: Callable[[], None]) -> None:
    """Run statements so that Ctrl-C stops them: DuckDB holds the thread in which a query runs until it is done.

    They run in a thread of their own, and this one waits for the keys. If they were done all the same, nothing is
    raised; else KeyboardInterrupt.
    """
    done, failed = False, list[BaseException]()

    def run() -> None:
        nonlocal done
        with suppress(KeyboardInterrupt):  # it may come at the very end
            try:
                work()
                done = True
            except BaseException as error:  # noqa: BLE001 - it is raised again below
                failed.append(error)

    worker = threading.Thread(target=run, name="lakewright sql")
    worker.start()
    stopped = 0
    while worker.is_alive():
        try:
            worker.join(0.1)
            if stopped == 1 and worker.is_alive():  # it is not the engine that works
                stopped += 1
                _raise_in(worker)
        except KeyboardInterrupt:
            stopped = 1
            context.interrupt()
    if not done:
        raise KeyboardInterrupt if stopped or not failed else failed[0]


def _raise_in(worker: threading.Thread) -> None:
    """Raise KeyboardInterrupt in another thread, at its next step in Python."""
    number = ctypes.c_ulong(worker.ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(KeyboardInterrupt))
