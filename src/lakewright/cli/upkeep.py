"""Keeping a table healthy: compaction, expiry of snapshots, removal of orphans. No engine is needed."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict

from lakewright.cli.command import Command, pair, table_of
from lakewright.cli.output import Output
from lakewright.errors import InvalidInputError
from lakewright.spec.options import parse_duration_millis


def _age(text: str) -> int:
    try:
        return parse_duration_millis(text)
    except InvalidInputError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _one_table(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="DB.T", help="the table: db.t, or its path")


def _compact_arguments(parser: argparse.ArgumentParser) -> None:
    _one_table(parser)
    parser.add_argument(
        "--full",
        action="store_true",
        help="even two small files, and every file with deleted rows; with a primary key, all to one level",
    )
    parser.add_argument(
        "--partition-spec", type=pair, action="append", default=[], metavar="K=V", help="only of this partition"
    )


def _compact(args: argparse.Namespace, output: Output) -> None:
    spec = dict(args.partition_spec)
    done = table_of(args).compact(full=args.full, partitions=[spec] if spec else None)
    text = (
        "there was nothing to compact"
        if done.is_empty
        else f"snapshot {done.snapshot_id}: {done.files_before:,} files became {done.files_after:,}, "
        f"{done.bytes / 1e6:,.1f} MB, {done.seconds:,.1f} s"
    )
    output.result(asdict(done), text)


def _expire_arguments(parser: argparse.ArgumentParser) -> None:
    _one_table(parser)
    parser.add_argument("--retain-max", type=int, metavar="N", help="at most so many snapshots stay")
    parser.add_argument("--retain-min", type=int, metavar="N", help="at least so many stay")
    parser.add_argument("--older-than", type=_age, metavar="AGE", help="only what is older, such as '1 h' or '7 d'")
    parser.add_argument("--dry-run", action="store_true", help="remove nothing, say what would go")


def _expire(args: argparse.Namespace, output: Output) -> None:
    limit = None if args.older_than is None else int(time.time() * 1000) - args.older_than
    gone = table_of(args).expire_snapshots(args.retain_max, args.retain_min, limit, dry_run=args.dry_run)
    verb = "would remove" if gone.dry_run else "removed"
    ids = gone.snapshot_ids
    which = f" ({ids[0]} to {ids[-1]})" if ids else ""
    output.result(asdict(gone), f"{verb} {len(ids):,} snapshots{which} and {gone.files:,} files")


def _orphans_arguments(parser: argparse.ArgumentParser) -> None:
    _one_table(parser)
    parser.add_argument(
        "--older-than", type=_age, metavar="AGE", help="only files older than this ('1 d'); beyond the longest write"
    )
    parser.add_argument("--delete", action="store_true", help="remove them; without this they are only listed")


def _orphans(args: argparse.Namespace, output: Output) -> None:
    limit = None if args.older_than is None else int(time.time() * 1000) - args.older_than
    found = table_of(args).remove_orphan_files(older_than_millis=limit, dry_run=not args.delete)
    for path in found.paths:
        output.say(path)
    verb = "removed" if args.delete else "found (--delete removes them):"
    output.result(asdict(found), f"{verb} {found.count:,} files that nothing names, {found.bytes / 1e6:,.1f} MB")


COMPACT = Command("compact", "merge small files, and drop deleted rows", _compact_arguments, _compact)
EXPIRE = Command("expire", "remove old snapshots and the files that only they name", _expire_arguments, _expire)
ORPHANS = Command("remove-orphans", "find files that nothing names; remove them if asked", _orphans_arguments, _orphans)
