"""The entry point of the command line: the process, its signals and its streams."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import NoReturn

_NO_CLICK = "lakewright: the command line needs the package click: pip install 'lakewright[cli]'\n"
_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name and return its exit code; None: run that of the process, and end it."""
    if argv is None:
        _run_process()
    try:
        from lakewright.cli.program import run  # noqa: PLC0415 - lazy: it needs click
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.stderr.write(_NO_CLICK)
        return 1
    return run(argv)


def _run_process() -> NoReturn:
    """Run the command of this process, and end the process.

    The interpreter is not taken down: a thread of Arrow that still drops the bytes of a read that was left early, as
    `lakewright read t | head` does, would end the process with SIGABRT.
    """
    _open_closed_streams()
    try:
        _import_program()
        code = main(sys.argv[1:])
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except KeyboardInterrupt:  # before the command begins, or as it ends
        sys.stderr.write("lakewright: interrupted\n")
        code = _INTERRUPTED
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    atexit._run_exitfuncs()  # noqa: SLF001 - what packages asked to be done at the end
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


def _import_program() -> None:
    """Import what runs commands; Ctrl-C ends the process at once, as imports may drop or replace KeyboardInterrupt."""

    def end(_signal: int, _frame: FrameType | None) -> NoReturn:
        os.write(2, b"lakewright: interrupted\n")
        os._exit(_INTERRUPTED)

    before = signal.getsignal(signal.SIGINT)
    if callable(before):
        signal.signal(signal.SIGINT, end)
    with suppress(ModuleNotFoundError):  # it is reported by `main`
        import lakewright.cli.program  # noqa: F401, PLC0415 - a door: it needs click
    if callable(before):
        signal.signal(signal.SIGINT, before)


def _open_closed_streams() -> None:
    """Give a process that was started without stdin, stdout or stderr an empty one."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - it stays open
