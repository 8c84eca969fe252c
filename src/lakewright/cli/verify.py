"""`lakewright verify`: a table in, findings with their remedies out; the exit code says whether the table is sound."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from lakewright.cli.command import Command, one_table, table_of
from lakewright.cli.output import Output
from lakewright.errors import counted, naming
from lakewright.verify.arguments import check_depth
from lakewright.verify.findings import ERROR, Finding, VerifyResult
from lakewright.verify.run import ALL, LATEST, verify_table

UNSOUND = 1


def _arguments(parser: argparse.ArgumentParser) -> None:
    one_table(parser)
    depth = parser.add_mutually_exclusive_group()
    depth.add_argument("--fast", action="store_true", help="metadata alone: no data file is opened")
    depth.add_argument("--full", action="store_true", help="read all rows, and prove statistics, keys and checksums")
    parser.add_argument(
        "--snapshots",
        choices=(LATEST, ALL),
        default=LATEST,
        help="the newest snapshot, or all snapshots, tags, changelogs and branches, and files that nothing names",
    )


def _verify(args: argparse.Namespace, output: Output) -> int:
    store = table_of(args).refreshed().store
    with naming(store.name):
        depth, states = check_depth(args.full, fast=args.fast, snapshots=args.snapshots)
        result = verify_table(store, depth=depth, states=states, say=output.say)
    output.result({"is_sound": result.is_sound, **asdict(result)}, _text(result))
    return 0 if result.is_sound else UNSOUND


def _text(result: VerifyResult) -> str:
    lines = [line for one in result.findings for line in _lines(one)]
    errors = sum(one.severity == ERROR for one in result.findings)
    verdict = "the table is sound" if result.is_sound else f"the table is damaged: {counted(errors, 'error')}"
    seen = f"{counted(result.snapshots, 'snapshot')}, {counted(result.manifests, 'manifest')}"
    files = f"{counted(result.data_files, 'file')}, {counted(result.rows, 'row')}, {result.bytes / 1e6:,.1f} MB"
    return "\n".join([*lines, f"{verdict}; looked at {seen}, {files} in {result.seconds:,.1f} s"])


def _lines(one: Finding) -> list[str]:
    return [f"{one.severity}: {one.kind}: {one.path}", f"    {one.message}", f"    {one.remedy}"]


VERIFY = Command("verify", "prove that a table's files hold what its metadata says", _arguments, _verify)
