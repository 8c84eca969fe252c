"""Commands that move files into tables, copy tables and repair them."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from lakewright.cli.command import Command, need_catalog, pair
from lakewright.cli.output import Output
from lakewright.errors import counted
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
    parser.add_argument("--dry-run", action="store_true", help="move nothing, say what the table would be")


def _migrate(args: argparse.Namespace, output: Output) -> None:
    output.say(f"reading the footers of {args.source}")
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
