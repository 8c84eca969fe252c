"""Commands of upkeep: compaction, expiry of snapshots, removal of orphans. No engine is needed."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict
from datetime import UTC, datetime

from lakewright.cli.command import Command, one_table, pair, table_of
from lakewright.cli.output import Output
from lakewright.errors import InvalidInputError, counted
from lakewright.spec import arguments
from lakewright.spec.units import parse_duration_millis


def _time(text: str) -> int:
    """Return the time, in epoch milliseconds, that an age (`7d`) or an ISO time says.

    >>> _time("1970-01-02"), _time("1970-01-01T01:00:00+01:00")
    (86400000, 0)
    """
    now = time.time_ns() // 1_000_000
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None and text.strip().isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} has no unit: write an age such as 7d or '12 hours'")
    if moment is None:
        try:
            return now - parse_duration_millis(text)
        except InvalidInputError:
            message = (
                f"{text!r} is neither an age such as 7d or '12 hours' nor an ISO time such as 2026-01-31T12:00:00Z"
            )
            raise argparse.ArgumentTypeError(message) from None
    millis = arguments.moment_millis("--older-than", moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    if millis > now:
        raise argparse.ArgumentTypeError(f"{text!r} is in the future")
    return millis


def _compact_arguments(parser: argparse.ArgumentParser) -> None:
    one_table(parser)
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
    result = table_of(args).compact(full=args.full, partitions=[spec] if spec else None)
    text = (
        "there was nothing to compact"
        if result.is_empty
        else f"snapshot {result.snapshot_id}: {counted(result.files_before, 'file')} became {result.files_after:,}, "
        f"{result.bytes / 1e6:,.1f} MB, {result.seconds:,.1f} s"
    )
    output.result(asdict(result), text)


def _expire_arguments(parser: argparse.ArgumentParser) -> None:
    one_table(parser)
    parser.add_argument("--retain-max", type=int, metavar="N", help="at most so many snapshots stay")
    parser.add_argument("--retain-min", type=int, metavar="N", help="at least so many stay")
    parser.add_argument(
        "--older-than",
        type=_time,
        metavar="AGE",
        help="only what is older than this goes, whatever --retain-max says: 7d, '12 hours', or an ISO time (UTC)",
    )
    parser.add_argument("--dry-run", action="store_true", help="remove nothing, say what would go")


def _expire(args: argparse.Namespace, output: Output) -> None:
    expired = table_of(args).expire_snapshots(args.retain_max, args.retain_min, args.older_than, dry_run=args.dry_run)
    verb = "would remove" if expired.dry_run else "removed"
    ids = expired.snapshot_ids
    id_range = f" ({ids[0]} to {ids[-1]})" if ids else ""
    left = f"; {counted(expired.left, 'more snapshot')} could go" if expired.left else ""
    for reason in expired.held_by:
        output.say(reason)
    output.result(
        asdict(expired), f"{verb} {counted(len(ids), 'snapshot')}{id_range} and {counted(expired.files, 'file')}{left}"
    )


def _orphans_arguments(parser: argparse.ArgumentParser) -> None:
    one_table(parser)
    parser.add_argument(
        "--older-than", type=_time, metavar="AGE", help="only files older than this (1d); beyond the longest write"
    )
    parser.add_argument("--delete", action="store_true", help="remove them; without this they are only listed")


def _orphans(args: argparse.Namespace, output: Output) -> None:
    orphans = table_of(args).remove_orphan_files(older_than=args.older_than, dry_run=not args.delete)
    for path in orphans.paths:
        output.say(path)
    verb = "removed" if args.delete else "found (--delete removes them):"
    output.result(
        asdict(orphans), f"{verb} {counted(orphans.count, 'file')} that nothing names, {orphans.bytes / 1e6:,.1f} MB"
    )


COMPACT = Command("compact", "merge small files, and drop deleted rows", _compact_arguments, _compact)
EXPIRE = Command("expire", "remove old snapshots and the files that only they name", _expire_arguments, _expire)
ORPHANS = Command("remove-orphans", "find files that nothing names; remove them if asked", _orphans_arguments, _orphans)
