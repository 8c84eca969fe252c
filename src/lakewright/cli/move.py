"""Commands that move files into tables, copy tables and repair them."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from lakewright.catalog.factory import CatalogFactory
from lakewright.cli.command import Command, delete_or_list, dry_run, need_catalog, one_table, pair, table_of
from lakewright.cli.output import Output
from lakewright.errors import counted
from lakewright.ingestion.move.copy import copy_table
from lakewright.ingestion.move.migrate import migrate


def _migrate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="DIRECTORY", help="where the parquet, orc or avro files are")
    parser.add_argument("table", metavar="DB.T", help="the new table")
    parser.add_argument("--format", choices=("parquet", "orc", "avro"), help="every file must be one of these")
    parser.add_argument(
        "--partition-type",
        type=pair,
        action="append",
        default=[],
        metavar="COLUMN=TYPE",
        help="the type of a partition column, such as day=DATE; without it BIGINT, DATE or STRING is guessed",
    )
    parser.add_argument("--option", type=pair, action="append", default=[], metavar="K=V", help="option of the table")
    parser.add_argument("--copy", action="store_true", help="copy the files and leave the old ones")
    dry_run(parser, "move nothing, say what the table would be")


def _migrate(args: argparse.Namespace, output: Output) -> None:
    with output.progress(f"reading the footers of {args.source}"):
        done = migrate(
            need_catalog(args),
            args.table,
            args.source,
            format=args.format,
            partition_types=dict(args.partition_type) or None,
            options=dict(args.option) or None,
            copy=args.copy,
            dry_run=args.dry_run,
        )
    for path in done.left:
        output.say(f"stays where it is: {path}")
    verb = "would move" if done.dry_run else "copied" if done.copied else "moved"
    where = "" if done.snapshot_id is None else f"snapshot {done.snapshot_id}: "
    output.result(
        asdict(done),
        f"{where}{verb} {counted(done.files, 'file')} with {counted(done.rows, 'row')} ({done.bytes / 1e6:,.1f} MB) "
        f"into {done.table} ({', '.join(done.columns)}), {done.seconds:,.1f} s",
    )


MIGRATE = Command("migrate", "make a table of data files without copying them", _migrate_arguments, _migrate)


def _copy_arguments(parser: argparse.ArgumentParser) -> None:
    one_table(parser)
    parser.add_argument("target", metavar="DB.NEW", help="the new table")
    parser.add_argument("--to", metavar="W", help="the warehouse of the new table; without it, that of the old one")
    parser.add_argument("--snapshot", type=int, metavar="N", help="the snapshot to copy, in place of the newest")
    parser.add_argument("--tag", metavar="NAME", help="the tag to copy, in place of the newest snapshot")
    parser.add_argument("--where", metavar="CONDITION", help="only partitions that fulfil it, such as \"day > '2026'\"")
    dry_run(parser, "copy nothing, say how much it would be")


def _copy(args: argparse.Namespace, output: Output) -> None:
    options = {**dict(args.catalog_option), "warehouse": args.to}
    catalog = need_catalog(args) if args.to is None else CatalogFactory.create(options)
    with output.progress(f"copying {args.table}"):
        done = copy_table(
            table_of(args),
            catalog,
            args.target,
            snapshot_id=args.snapshot,
            tag=args.tag,
            where=args.where,
            dry_run=args.dry_run,
        )
    verb = "would copy" if done.dry_run else "copied"
    output.result(
        asdict(done),
        f"{verb} snapshot {done.source_snapshot_id} to {done.table}: {counted(done.files, 'file')} with "
        f"{counted(done.rows, 'row')}, {done.bytes / 1e6:,.1f} MB, {done.seconds:,.1f} s",
    )


def _repair_arguments(parser: argparse.ArgumentParser) -> None:
    one_table(parser)
    dry_run(parser, "change nothing, say what would be repaired")


def _repair(args: argparse.Namespace, output: Output) -> None:
    done = table_of(args).repair(dry_run=args.dry_run)
    for step in done.steps:
        output.say(step.message)
    repaired = sum(step.repaired for step in done.steps)
    verb = "would repair" if done.dry_run else "repaired"
    text = (
        f"{verb} {counted(repaired, 'thing')}, {len(done.steps) - repaired} left" if done.steps else "all is in order"
    )
    output.result(asdict(done), text)


def _unexisting_arguments(parser: argparse.ArgumentParser) -> None:
    one_table(parser)
    delete_or_list(parser, "remove them from the table")


def _unexisting(args: argparse.Namespace, output: Output) -> None:
    with output.progress(f"looking for the data files of {args.table}"):
        done = table_of(args).remove_unexisting_files(dry_run=not args.delete)
    for path in done.paths:
        output.say(path)
    verb = "found (--delete removes them from the table):" if done.dry_run else "removed"
    output.result(
        asdict(done), f"{verb} {counted(done.count, 'missing file')} with {counted(done.rows, 'row')} that are lost"
    )


COPY = Command("copy", "copy a snapshot of a table to a new table", _copy_arguments, _copy)
REPAIR = Command("repair", "repair hints, lost tags and left-overs of branches", _repair_arguments, _repair)
UNEXISTING = Command(
    "remove-unexisting",
    "find data files that do not exist; remove them from the table",
    _unexisting_arguments,
    _unexisting,
)
