"""`lakewright`: arguments in, one command run, an exit code out.

0: done, now or by an earlier run. 1: failed; nothing was changed unless the message says so. 1 of `verify` means that
the table is damaged. 2: wrong arguments. 130 and 143: stopped by Ctrl-C and by SIGTERM. A new command is one more entry
in `COMMANDS`.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from lakewright.cli.command import common
from lakewright.cli.history import BRANCH, CONSUMER, ROLLBACK, TAG
from lakewright.cli.ingest import INGEST
from lakewright.cli.lifecycle import (
    CREATE_TAGS,
    EXPIRE,
    EXPIRE_CHANGELOGS,
    EXPIRE_PARTITIONS,
    EXPIRE_TAGS,
    MARK_DONE,
    PURGE,
)
from lakewright.cli.move import COPY, MIGRATE, REPAIR, UNEXISTING
from lakewright.cli.output import Output, fail
from lakewright.cli.report import REPORT, VERIFY
from lakewright.cli.sql import SQL
from lakewright.cli.tables import DESCRIBE, SNAPSHOTS, TABLES
from lakewright.cli.upkeep import ANALYZE, COMPACT, MANIFESTS, ORPHANS, RESCALE, VECTORS
from lakewright.errors import LakewrightError
from lakewright.version import __version__

# In the order in which help shows them: to read and write, to look, to keep in order, to keep history short, to mend.
COMMANDS = (
    INGEST,
    SQL,
    TABLES,
    DESCRIBE,
    SNAPSHOTS,
    REPORT,
    VERIFY,
    ANALYZE,
    COMPACT,
    MANIFESTS,
    VECTORS,
    RESCALE,
    EXPIRE,
    EXPIRE_CHANGELOGS,
    EXPIRE_PARTITIONS,
    EXPIRE_TAGS,
    CREATE_TAGS,
    MARK_DONE,
    ORPHANS,
    UNEXISTING,
    REPAIR,
    MIGRATE,
    COPY,
    PURGE,
    BRANCH,
    TAG,
    ROLLBACK,
    CONSUMER,
)

OK, REFUSED, INTERRUPTED, ENDED = 0, 1, 130, 143


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name and return its exit code."""
    args = parser().parse_args(argv)
    output = Output(args.json, args.quiet)
    with warnings.catch_warnings(), _ended_by_signal():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
        try:
            return int(args.command.run(args, output) or OK)
        except BrokenPipeError:
            # The reader of the output, such as `head`, has closed it; without this Python reports it again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except KeyboardInterrupt:
            fail("interrupted")
            return INTERRUPTED
        except Exception as error:  # noqa: BLE001 - a user of a command gets one line; --debug shows the rest
            if args.debug:
                traceback.print_exc()
            fail(_error_text(error), as_is=isinstance(error, LakewrightError) and "column_number" in error.facts)
            return REFUSED
    return OK


def _error_text(error: Exception) -> str:
    """Return an error as a message for the user."""
    if isinstance(error, LakewrightError | OSError):
        return str(error)
    return f"{type(error).__name__}: {error}; this is a defect of lakewright, run again with --debug to see where"


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = argparse.ArgumentParser(prog="lakewright", description="Apache Paimon tables from the command line.")
    top.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = top.add_subparsers(dest="name", metavar="COMMAND", required=True)
    shared = common()
    for command in COMMANDS:
        one = commands.add_parser(
            command.name, help=command.help, description=command.description or command.help, parents=[shared]
        )
        command.arguments(one)
        one.set_defaults(command=command)
    return top


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
