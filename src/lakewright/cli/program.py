"""The click group, error output and exit codes.

0: done, now or by an earlier run. 1: failed; nothing was changed unless the message says so. 1 of `verify` means that
the table is damaged. 2: wrong arguments. 130 and 143: stopped by Ctrl-C and by SIGTERM.

Only the module of the command that runs is loaded; help and completion load none.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import NoReturn, cast

import click
from click.shell_completion import CompletionItem, shell_complete

from lakewright.cli.cli_options import (
    ENTRIES,
    SECTIONS,
    SHARED_SECTION,
    CliSession,
    check_known,
    option,
    shared_options,
    write_options,
)
from lakewright.cli.cli_output import fail
from lakewright.cli.interrupts import ignore_interrupts, interrupts_noted, was_interrupted
from lakewright.errors import LakewrightError
from lakewright.version import __version__

REFUSED, WRONG, INTERRUPTED, ENDED = 1, 2, 130, 143
NAME = "lakewright"
COMPLETE = "_LAKEWRIGHT_COMPLETE"  # set by the scripts of shells
_REMEDIES: dict[type[OSError], str] = {
    PermissionError: "; ask for the right to it, or name another place",
    FileNotFoundError: "; check the path",
}
_NO_SPACE = "; make room, or name another place"


class Program(click.Group):
    """All commands; the module of one is loaded when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - that of click
        """Return the names of the commands."""
        return list(ENTRIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - that of click
        """Load the command of a name; None: there is none."""
        entry = ENTRIES.get(cmd_name)
        if entry is None:
            return None
        module = importlib.import_module(f"{__package__}.{entry.module}")
        return cast("click.Command", next(one for one in module.COMMANDS if one.name == cmd_name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or name the nearest one."""
        check_known(ctx, args[0], ENTRIES)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands and options that begin with a text, without loading a command."""
        found = [entry for name, entry in ENTRIES.items() if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(entry.name, help=entry.help) for entry in found), *options]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by what they are for, then the options."""
        width = max(map(len, ENTRIES))
        for heading, entries in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{entry.name:<{width}}", entry.help) for entry in entries])
        write_options(self, ctx, formatter)


def _show_version(ctx: click.Context, _param: click.Parameter, value: object) -> None:
    if value:
        sys.stdout.write(f"{NAME} {__version__}\n")
        ctx.exit()


def _show_help_alone(**_: object) -> int:
    """Write what can be done if the program is called without a command."""
    ctx = click.get_current_context()
    if ctx.invoked_subcommand is None:
        sys.stderr.write(f"{ctx.get_help()}\n")
    return WRONG


_VERSION = option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_show_version, help="show the version"
)
_VERSION.section = SHARED_SECTION
_BEGIN = """\b
To begin, with a csv file and a directory for the tables:
  lakewright import shop.orders orders.csv --create -w ./warehouse
  lakewright read shop.orders --limit 10 -w ./warehouse

'lakewright COMMAND --help' lists the arguments of a command."""
PROGRAM = Program(
    NAME,
    params=[*shared_options(), _VERSION],
    callback=_show_help_alone,
    help="Apache Paimon tables from the command line.",
    epilog=_BEGIN,
    no_args_is_help=False,
    invoke_without_command=True,
    subcommand_metavar="COMMAND ...",
)


def run(argv: Sequence[str]) -> int:
    """Run the command that the arguments name and return its exit code; wrong arguments raise SystemExit."""
    argv = [_as_utf8(word) for word in argv]
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what the locale of a terminal lacks is no error
    if COMPLETE in os.environ:
        return shell_complete(PROGRAM, {}, NAME, COMPLETE, os.environ[COMPLETE])
    session = CliSession()
    with warnings.catch_warnings(), _ended_by_signal(), interrupts_noted():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
        warnings.showwarning = partial(_show_warning, argv)
        try:
            return _run(list(argv), session)
        except BrokenPipeError:
            # The reader of the output, such as `head`, has closed it; without this Python reports it again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except click.exceptions.Exit as ended:
            raise SystemExit(ended.exit_code) from None
        except click.ClickException as error:
            _fail(argv, _usage_text(error))
            raise SystemExit(WRONG) from None
        except (KeyboardInterrupt, click.Abort):
            return _fail_interrupted()
        except Exception as error:  # noqa: BLE001 - a user of a command gets one line; --debug shows the rest
            if was_interrupted() and _may_be_an_interrupt(error):
                return _fail_interrupted()
            if session.debug:
                sys.stderr.write(_hidden(argv, traceback.format_exc()))
            has_caret = isinstance(error, LakewrightError) and "column_number" in error.facts
            _fail(argv, _error_text(error), as_is=has_caret)
            return REFUSED
    return 0


def _fail_interrupted() -> int:
    ignore_interrupts()
    sys.stderr.write("\n" if sys.stderr.isatty() else "")  # the terminal wrote ^C
    fail("interrupted")
    return INTERRUPTED


def _may_be_an_interrupt(error: Exception) -> bool:
    """Return True if an error may be a KeyboardInterrupt that an import has replaced."""
    return not isinstance(error, LakewrightError) or isinstance(error.__cause__, ImportError)


def _as_utf8(word: str) -> str:
    """Return an argument that Python could not read in the locale of the user as UTF-8, if it is that."""
    try:
        return word if word.isprintable() else os.fsencode(word).decode()
    except UnicodeError:
        return word


def _run(argv: list[str], session: CliSession) -> int:
    with PROGRAM.make_context(NAME, argv, obj=session) as ctx:
        return int(PROGRAM.invoke(ctx) or 0)


def _show_warning(argv: Sequence[str], message: Warning | str, *_: object, **__: object) -> None:
    """Write a warning in one line, without the place in the program."""
    if not {"--quiet", "-q"} & set(argv):
        fail(f"warning: {_hidden(argv, str(message))}")


def _fail(argv: Sequence[str], message: str, *, as_is: bool = False) -> None:
    fail(_hidden(argv, message), as_is=as_is)


def _hidden(argv: Sequence[str], text: str) -> str:
    """Return a text without the secrets of this run."""
    from lakewright.cli.catalog_options import SECRETS  # noqa: PLC0415 - lazy: help and usage do without numpy

    SECRETS.note_words(argv)
    return SECRETS.hidden(text)


def _usage_text(error: click.ClickException) -> str:
    """Return what is wrong with the arguments, and where to look.

    >>> ctx = click.Context(click.Command("read"), info_name="lakewright read")
    >>> _usage_text(click.UsageError("No such option: --limt.", ctx))
    'no such option: --limt (see lakewright read --help)'
    """
    text = error.format_message().strip().rstrip(".")
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    path = NAME if ctx is None else ctx.command_path
    start = text[:1] if text[1:2].isupper() else text[:1].lower()
    return f"{start}{text[1:]} (see {path} --help)"


def _error_text(error: Exception) -> str:
    """Return an error as a message for the user."""
    if isinstance(error, LakewrightError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        what = "the output" if error.filename is None else error.filename
        return f"{what}: {error.strerror}{_REMEDIES.get(type(error), _NO_SPACE if error.errno == errno.ENOSPC else '')}"
    if isinstance(error, OSError):
        return str(error)
    if isinstance(error, UnicodeEncodeError):
        return f"{error}; the locale of this shell is not UTF-8: export LC_ALL=C.UTF-8"
    return f"{type(error).__name__}: {error}; this is a defect of lakewright, run again with --debug to see where"


@contextmanager
def _ended_by_signal() -> Iterator[None]:
    """Raise SystemExit on SIGTERM, so that a running write removes its files."""

    def end(_signal: int, _frame: FrameType | None) -> NoReturn:
        fail("told to end")
        raise SystemExit(ENDED)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
