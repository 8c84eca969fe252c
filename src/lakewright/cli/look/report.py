"""Commands that look at a table: `report` draws it, `verify` lists what is wrong with it, each with its remedy."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from lakewright.cli.base.command import Arguments, Command, flag, option, table_argument
from lakewright.cli.base.output import Output
from lakewright.cli.base.place import table_of
from lakewright.errors import InvalidInputError, counted, naming
from lakewright.report.facts import TableFacts
from lakewright.report.gather import gather
from lakewright.report.page import page, write_report
from lakewright.verify.arguments import check_depth
from lakewright.verify.findings import ERROR, Finding, VerifyResult
from lakewright.verify.run import ALL, LATEST, verify_table

_STDOUT = "-"
_MARK = b"<!DOCTYPE html>"


def _run(args: Arguments, output: Output) -> None:
    table = table_of(args).refreshed()
    default = None if output.as_json else f"{table.identifier.get_table_name()}-report.html"
    path = args.output or default
    if path not in (None, _STDOUT) and not args.force:
        _check_replaceable(Path(path))
    with output.progress(f"reading the metadata of {table.name}"):
        facts = gather(table.store, orphans=args.orphans)
    if path == _STDOUT and not output.as_json:
        sys.stdout.write(page(facts))
        sys.stdout.flush()
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


UNSOUND = 1


def _verify(args: Arguments, output: Output) -> int:
    store = table_of(args).refreshed().store
    with naming(store.name), output.progress(f"reading the metadata of {store.name}") as say:
        depth, states = check_depth(args.full, fast=args.fast, snapshots=args.snapshots)
        result = verify_table(store, depth=depth, states=states, say=say)
    output.result({"is_sound": result.is_sound, **asdict(result)}, _verify_text(result))
    return 0 if result.is_sound else UNSOUND


def _verify_text(result: VerifyResult) -> str:
    lines = [line for one in result.findings for line in _lines(one)]
    errors = sum(one.severity == ERROR for one in result.findings)
    verdict = "the table is sound" if result.is_sound else f"the table is damaged: {counted(errors, 'error')}"
    seen = f"{counted(result.snapshots, 'snapshot')}, {counted(result.manifests, 'manifest')}"
    files = f"{counted(result.data_files, 'file')}, {counted(result.rows, 'row')}, {result.bytes / 1e6:,.1f} MB"
    return "\n".join([*lines, f"{verdict}; looked at {seen}, {files} in {result.seconds:,.1f} s"])


def _lines(one: Finding) -> list[str]:
    return [f"{one.severity}: {one.kind}: {one.path}", f"    {one.message}", f"    {one.remedy}"]


_OUTPUT = "write the page to this file (TABLE-report.html); - is stdout. An earlier report is replaced"
_STATES = "the newest snapshot, or all snapshots, tags, changelogs and branches, and files that nothing names"
COMMANDS = (
    Command(
        "report",
        _run,
        table_argument(),
        option("--output", "-o", metavar="F", type=click.Path(), help=_OUTPUT),
        flag("--force", help="replace a file that is not a page of HTML, too"),
        flag("--orphans", help="also count files that nothing names: lists the whole table"),
    ),
    Command(
        "verify",
        _verify,
        table_argument(),
        flag("--fast", help="metadata alone: no data file is opened"),
        flag("--full", help="read all rows, and prove statistics, keys and checksums"),
        option("--snapshots", type=click.Choice((LATEST, ALL)), default=LATEST, help=_STATES),
        exclusive=[("--fast", "--full")],
    ),
)
