"""Questions before something is removed that nothing brings back."""

from __future__ import annotations

import sys

from lakewright.cli.base.command import Arguments, Option, flag
from lakewright.errors import InvalidInputError


def yes_option() -> Option:
    """Return `--yes`."""
    return flag("--yes", "-y", help="do it without asking")


def confirm(args: Arguments, question: str) -> None:
    """Ask unless `--yes` was given; raise InvalidInputError if the answer is not yes, or if nobody answers."""
    if args.yes:
        return
    if sys.stdin.isatty():
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
    try:
        answer = sys.stdin.readline()
    except OSError:  # there is no stdin
        answer = ""
    if answer.strip().lower() not in {"y", "yes"}:
        asked = "" if sys.stdin.isatty() else f"{question} "
        raise InvalidInputError(f"{asked}Nothing was changed, as nobody said yes; --yes does it without asking")
