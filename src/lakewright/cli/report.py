"""The command that draws a table: one page for people, or its facts as JSON."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from lakewright.cli.command import Command, one_table, table_of
from lakewright.cli.output import Output
from lakewright.errors import InvalidInputError
from lakewright.report.facts import TableFacts
from lakewright.report.gather import gather
from lakewright.report.page import page, write_report

_STDOUT = "-"
_MARK = b"<!DOCTYPE html>"


def _arguments(parser: argparse.ArgumentParser) -> None:
    one_table(parser)
    parser.add_argument(
        "--output",
        "-o",
        metavar="F",
        help="write the page to this file (TABLE-report.html); - is stdout. An earlier report is replaced",
    )
    parser.add_argument("--force", action="store_true", help="replace a file that is not a page of HTML, too")
    parser.add_argument(
        "--orphans", action="store_true", help="also count files that nothing names: lists the whole table"
    )


def _run(args: argparse.Namespace, output: Output) -> None:
    table = table_of(args).refreshed()
    default = None if output.as_json else f"{table.identifier.get_table_name()}-report.html"
    path = args.output or default
    if path not in (None, _STDOUT) and not args.force:
        _check_replaceable(Path(path))
    facts = gather(table.store, orphans=args.orphans)
    if path == _STDOUT and not output.as_json:
        sys.stdout.write(page(facts))
        return
    if path not in (None, _STDOUT):
        write_report(facts, path)
    output.result({"path": path, **asdict(facts)}, _text(facts, path))


def _check_replaceable(path: Path) -> None:
    """Raise InvalidInputError if a file is there that looks like something else than an earlier report."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        if file.read(len(_MARK)) != _MARK:
            raise InvalidInputError(f"{path} is there already and is no report; --force replaces it", path=str(path))


def _text(facts: TableFacts, path: str | None) -> str:
    lines = [f"{path}: the report of {facts.head.name}"]
    lines += [f"{'! ' if advice.urgent else '- '}{advice.title}" for advice in facts.advice]
    return "\n".join(lines)


REPORT = Command("report", "draw a table: one page with its history, files and what to do", _arguments, _run)
