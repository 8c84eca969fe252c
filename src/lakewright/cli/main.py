"""The entry point of `lakewright`: looks that click is installed, then runs the program."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_NO_CLICK = "lakewright: the command line needs the package click: pip install 'lakewright[cli]'\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name and return its exit code."""
    try:
        from lakewright.cli.program import run  # noqa: PLC0415 - a door: it needs click
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.stderr.write(_NO_CLICK)
        return 1
    return run(sys.argv[1:] if argv is None else argv)
