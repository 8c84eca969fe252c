"""Commands that move files into tables, copy tables and repair them."""

from __future__ import annotations

from dataclasses import asdict

import click

from lakewright.catalog.factory import CatalogFactory
from lakewright.cli.base.command import (
    Argument,
    Arguments,
    Command,
    delete_or_list,
    dry_run,
    flag,
    option,
    pairs,
    table_argument,
)
from lakewright.cli.base.output import Output
from lakewright.cli.base.place import named_table, need_catalog, split_name, table_of
from lakewright.errors import counted
from lakewright.ingestion.move.copy import copy_table
from lakewright.ingestion.move.migrate import migrate


def _migrate(args: Arguments, output: Output) -> None:
    with output.progress(f"reading the footers of {args.source}"):
        catalog, name = named_table(args)
        done = migrate(
            catalog,
            name,
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


def _copy(args: Arguments, output: Output) -> None:
    options = {**dict(args.catalog_option), "warehouse": args.to}
    named, target = split_name(args.target)
    catalog = need_catalog(args, named) if args.to is None else CatalogFactory.create(options)
    with output.progress(f"copying {args.table}"):
        done = copy_table(
            table_of(args),
            catalog,
            target,
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


def _repair(args: Arguments, output: Output) -> None:
    done = table_of(args).repair(dry_run=args.dry_run)
    for step in done.steps:
        output.say(step.message)
    repaired = sum(step.repaired for step in done.steps)
    verb = "would repair" if done.dry_run else "repaired"
    text = (
        f"{verb} {counted(repaired, 'thing')}, {len(done.steps) - repaired} left" if done.steps else "all is in order"
    )
    output.result(asdict(done), text)


def _unexisting(args: Arguments, output: Output) -> None:
    with output.progress(f"looking for the data files of {args.table}"):
        done = table_of(args).remove_unexisting_files(dry_run=not args.delete)
    for path in done.paths:
        output.say(path)
    verb = "found (--delete removes them from the table):" if done.dry_run else "removed"
    output.result(
        asdict(done), f"{verb} {counted(done.count, 'missing file')} with {counted(done.rows, 'row')} that are lost"
    )


COMMANDS = (
    Command(
        "migrate",
        _migrate,
        Argument("source", "DIRECTORY", "where the parquet, orc or avro files are"),
        table_argument("the new table, db.t"),
        option("--format", type=click.Choice(("parquet", "orc", "avro")), help="every file must be one of these"),
        pairs(
            "--partition-type",
            metavar="COLUMN=TYPE",
            help="the type of a partition column, such as day=DATE; without it BIGINT, DATE or STRING is guessed",
        ),
        pairs("--option", help="option of the table"),
        flag("--copy", help="copy the files and leave the old ones"),
        dry_run("move nothing, say what the table would be"),
    ),
    Command(
        "copy",
        _copy,
        table_argument(),
        Argument("target", "DB.NEW", "the new table"),
        option("--to", metavar="W", help="the warehouse of the new table; without it, that of the old one"),
        option("--snapshot", type=int, metavar="N", help="the snapshot to copy, in place of the newest"),
        option("--tag", metavar="NAME", help="the tag to copy, in place of the newest snapshot"),
        option("--where", metavar="CONDITION", help="only partitions that fulfil it, such as \"day > '2026'\""),
        dry_run("copy nothing, say how much it would be"),
        exclusive=[("--snapshot", "--tag")],
    ),
    Command("repair", _repair, table_argument(), dry_run("change nothing, say what would be repaired")),
    Command(
        "remove-unexisting",
        _unexisting,
        table_argument(),
        *delete_or_list("remove them from the table"),
        exclusive=[("--delete", "--dry-run")],
    ),
)
