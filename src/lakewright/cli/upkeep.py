"""Commands of upkeep: compaction, expiry, removal of orphans, marks of partitions, a purge. No engine is needed."""

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


def _dry_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="change nothing, say what would go")


def _expire_partitions_arguments(parser: argparse.ArgumentParser) -> None:
    one_table(parser)
    parser.add_argument("--expiration-time", metavar="AGE", help="how long a partition is kept: 7d, '12 hours'")
    parser.add_argument("--timestamp-formatter", metavar="F", help="how values say a time, in Java: yyyyMMdd")
    parser.add_argument("--timestamp-pattern", metavar="P", help="how the values are put together: '$day $hour'")
    parser.add_argument("--strategy", choices=("values-time", "update-time"), help="what says the age of a partition")
    parser.add_argument("--max-expires", type=int, metavar="N", help="at most so many go")
    _dry_run(parser)


def _expire_partitions(args: argparse.Namespace, output: Output) -> None:
    expired = table_of(args).expire_partitions(
        args.expiration_time,
        timestamp_formatter=args.timestamp_formatter,
        timestamp_pattern=args.timestamp_pattern,
        strategy=args.strategy,
        max_expires=args.max_expires,
        dry_run=args.dry_run,
    )
    for spec in expired.partitions:
        output.say("/".join(f"{key}={value}" for key, value in spec.items()))
    if expired.undated:
        output.say(f"{counted(expired.undated, 'partition')} with values that say no time never expire by them")
    left = f"; {counted(expired.left, 'more partition')} could go" if expired.left else ""
    verb = "would remove" if expired.dry_run else "removed"
    output.result(asdict(expired), f"{verb} {counted(len(expired.partitions), 'partition')}{left}")


def _expire_tags_arguments(parser: argparse.ArgumentParser) -> None:
    one_table(parser)
    parser.add_argument(
        "--older-than", type=_time, metavar="AGE", help="also tags that were created before: 7d, or an ISO time (UTC)"
    )
    _dry_run(parser)


def _expire_tags(args: argparse.Namespace, output: Output) -> None:
    names = table_of(args).expire_tags(args.older_than, dry_run=args.dry_run)
    for name in names:
        output.say(name)
    verb = "would delete" if args.dry_run else "deleted"
    output.result({"tags": names, "dry_run": args.dry_run}, f"{verb} {counted(len(names), 'tag')}")


def _mark_done_arguments(parser: argparse.ArgumentParser) -> None:
    one_table(parser)
    parser.add_argument(
        "--partition-spec", type=pair, action="append", required=True, metavar="K=V", help="the partition that is done"
    )


def _mark_done(args: argparse.Namespace, output: Output) -> None:
    marked = table_of(args).mark_partition_done([dict(args.partition_spec)])
    output.result({"partitions": marked}, f"marked {counted(len(marked), 'partition')} as done")


def _purge_arguments(parser: argparse.ArgumentParser) -> None:
    one_table(parser)
    _dry_run(parser)


def _purge(args: argparse.Namespace, output: Output) -> None:
    gone = table_of(args).purge_files(dry_run=args.dry_run)
    verb = "would remove all rows with" if gone.dry_run else "removed all rows with"
    history = f"{counted(gone.snapshots, 'snapshot')}, {counted(len(gone.tags), 'tag')}, {len(gone.branches)} branches"
    output.result(asdict(gone), f"{verb} {history}, {counted(gone.files, 'file')}")


COMPACT = Command("compact", "merge small files, and drop deleted rows", _compact_arguments, _compact)
EXPIRE = Command("expire", "remove old snapshots and the files that only they name", _expire_arguments, _expire)
ORPHANS = Command("remove-orphans", "find files that nothing names; remove them if asked", _orphans_arguments, _orphans)
EXPIRE_PARTITIONS = Command(
    "expire-partitions", "remove the rows of old partitions", _expire_partitions_arguments, _expire_partitions
)
EXPIRE_TAGS = Command("expire-tags", "delete the tags whose time is over", _expire_tags_arguments, _expire_tags)
MARK_DONE = Command("mark-done", "mark a partition as complete", _mark_done_arguments, _mark_done)
PURGE = Command("purge", "remove all rows of a table with their history and files", _purge_arguments, _purge)
