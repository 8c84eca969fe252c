"""Commands about data that grows old: snapshots, changelogs, partitions, tags, marks of partitions, a purge."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from lakewright.cli.command import Command, delete_or_list, dry_run, moment, one_table, pair, table_of
from lakewright.cli.output import Output
from lakewright.errors import counted
from lakewright.maintenance.expire import ExpireResult


def _retention_arguments(parser: argparse.ArgumentParser) -> None:
    one_table(parser)
    parser.add_argument("--retain-max", type=int, metavar="N", help="at most so many stay")
    parser.add_argument("--retain-min", type=int, metavar="N", help="at least so many stay")
    parser.add_argument(
        "--older-than",
        type=moment,
        metavar="AGE",
        help="only what is older than this goes, whatever --retain-max says: 7d, '12 hours', or an ISO time (UTC)",
    )
    parser.add_argument("--max-deletes", type=int, metavar="N", help="at most so many go in one call")
    dry_run(parser, "remove nothing, say what would go")


def _expire(args: argparse.Namespace, output: Output) -> None:
    with output.progress(f"looking for what only old snapshots of {args.table} name"):
        expired = table_of(args).expire_snapshots(
            args.retain_max, args.retain_min, args.older_than, args.max_deletes, dry_run=args.dry_run
        )
    _show_expired(output, expired, "snapshot")


def _show_expired(output: Output, expired: ExpireResult, what: str) -> None:
    verb = "would remove" if expired.dry_run else "removed"
    ids = expired.snapshot_ids
    id_range = f" ({ids[0]} to {ids[-1]})" if ids else ""
    left = f"; {counted(expired.left, f'more {what}')} could go" if expired.left else ""
    for reason in expired.held_by:
        output.say(reason)
    output.result(
        asdict(expired), f"{verb} {counted(len(ids), what)}{id_range} and {counted(expired.files, 'file')}{left}"
    )


def _changelogs_arguments(parser: argparse.ArgumentParser) -> None:
    _retention_arguments(parser)
    parser.add_argument("--all", action="store_true", help="all that no consumer needs")


def _expire_changelogs(args: argparse.Namespace, output: Output) -> None:
    with output.progress(f"looking for old changelogs of {args.table}"):
        expired = table_of(args).expire_changelogs(
            args.retain_max,
            args.retain_min,
            args.older_than,
            args.max_deletes,
            delete_all=args.all,
            dry_run=args.dry_run,
        )
    _show_expired(output, expired, "changelog")


def _expire_partitions_arguments(parser: argparse.ArgumentParser) -> None:
    one_table(parser)
    parser.add_argument("--expiration-time", metavar="AGE", help="how long a partition is kept: 7d, '12 hours'")
    parser.add_argument("--timestamp-formatter", metavar="F", help="how values say a time, in Java: yyyyMMdd")
    parser.add_argument("--timestamp-pattern", metavar="P", help="how the values are put together: '$day $hour'")
    parser.add_argument("--strategy", choices=("values-time", "update-time"), help="what says the age of a partition")
    parser.add_argument("--max-expires", type=int, metavar="N", help="at most so many go")
    dry_run(parser, "change nothing, say what would go")


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
        "--older-than", type=moment, metavar="AGE", help="also tags that were created before: 7d, or an ISO time (UTC)"
    )
    dry_run(parser, "change nothing, say what would go")


def _expire_tags(args: argparse.Namespace, output: Output) -> None:
    names = table_of(args).expire_tags(args.older_than, dry_run=args.dry_run)
    for name in names:
        output.say(name)
    verb = "would delete" if args.dry_run else "deleted"
    output.result({"tags": names, "dry_run": args.dry_run}, f"{verb} {counted(len(names), 'tag')}")


def _create_tags(args: argparse.Namespace, output: Output) -> None:
    names = table_of(args).create_due_tags()
    for name in names:
        output.say(name)
    output.result({"tags": names}, f"created {counted(len(names), 'tag')}")


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
    delete_or_list(parser, "remove everything but the schema")


def _purge(args: argparse.Namespace, output: Output) -> None:
    with output.progress(f"looking at the history of {args.table}"):
        gone = table_of(args).purge_files(dry_run=not args.delete)
    verb = "removed all rows with" if args.delete else "would remove (--delete does) all rows with"
    history = f"{counted(gone.snapshots, 'snapshot')}, {counted(len(gone.tags), 'tag')}, {len(gone.branches)} branches"
    output.result(asdict(gone), f"{verb} {history}, {counted(gone.files, 'file')}")


EXPIRE = Command("expire", "remove old snapshots and the files that only they name", _retention_arguments, _expire)
EXPIRE_CHANGELOGS = Command(
    "expire-changelogs", "remove changelogs of expired snapshots", _changelogs_arguments, _expire_changelogs
)
EXPIRE_PARTITIONS = Command(
    "expire-partitions", "remove the rows of old partitions", _expire_partitions_arguments, _expire_partitions
)
EXPIRE_TAGS = Command("expire-tags", "delete the tags whose time is over", _expire_tags_arguments, _expire_tags)
CREATE_TAGS = Command("create-tags", "create the tags that tag.automatic-creation asks for", one_table, _create_tags)
MARK_DONE = Command("mark-done", "mark a partition as complete", _mark_done_arguments, _mark_done)
PURGE = Command("purge", "remove all rows of a table with their history and files", _purge_arguments, _purge)
