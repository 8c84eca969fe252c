"""Commands about data that grows old: snapshots, changelogs, partitions, tags, marks of partitions, a purge."""

from __future__ import annotations

from dataclasses import asdict

import click

from lakewright.cli.base.command import (
    Arguments,
    Command,
    Option,
    delete_or_list,
    dry_run,
    flag,
    option,
    pairs,
    table_argument,
)
from lakewright.cli.base.output import Output
from lakewright.cli.base.place import table_of
from lakewright.cli.base.values import past
from lakewright.errors import counted
from lakewright.maintenance.expire import ExpireResult


def _expire(args: Arguments, output: Output) -> None:
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


def _expire_changelogs(args: Arguments, output: Output) -> None:
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


def _expire_partitions(args: Arguments, output: Output) -> None:
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


def _expire_tags(args: Arguments, output: Output) -> None:
    names = table_of(args).expire_tags(args.older_than, dry_run=args.dry_run)
    for name in names:
        output.say(name)
    verb = "would delete" if args.dry_run else "deleted"
    output.result({"tags": names, "dry_run": args.dry_run}, f"{verb} {counted(len(names), 'tag')}")


def _create_tags(args: Arguments, output: Output) -> None:
    names = table_of(args).create_due_tags()
    for name in names:
        output.say(name)
    output.result({"tags": names}, f"created {counted(len(names), 'tag')}")


def _mark_done(args: Arguments, output: Output) -> None:
    marked = table_of(args).mark_partition_done([dict(args.partition_spec)])
    output.result({"partitions": marked}, f"marked {counted(len(marked), 'partition')} as done")


def _purge(args: Arguments, output: Output) -> None:
    with output.progress(f"looking at the history of {args.table}"):
        gone = table_of(args).purge_files(dry_run=not args.delete)
    verb = "removed all rows with" if args.delete else "would remove (--delete does) all rows with"
    history = f"{counted(gone.snapshots, 'snapshot')}, {counted(len(gone.tags), 'tag')}, {len(gone.branches)} branches"
    output.result(asdict(gone), f"{verb} {history}, {counted(gone.files, 'file')}")


def _retention() -> tuple[Option, ...]:
    age = "only what is older than this goes, whatever --retain-max says: 7d, '12 hours', or an ISO time (UTC)"
    return (
        option("--retain-max", type=int, metavar="N", help="at most so many stay"),
        option("--retain-min", type=int, metavar="N", help="at least so many stay"),
        option("--older-than", type=past, metavar="AGE", help=age),
        option("--max-deletes", type=int, metavar="N", help="at most so many go in one call"),
        dry_run("remove nothing, say what would go"),
    )


COMMANDS = (
    Command("expire", _expire, table_argument(), *_retention()),
    Command(
        "expire-changelogs",
        _expire_changelogs,
        table_argument(),
        *_retention(),
        flag("--all", help="all that no consumer needs"),
    ),
    Command(
        "expire-partitions",
        _expire_partitions,
        table_argument(),
        option("--expiration-time", metavar="AGE", help="how long a partition is kept: 7d, '12 hours'"),
        option("--timestamp-formatter", metavar="F", help="how values say a time, in Java: yyyyMMdd"),
        option("--timestamp-pattern", metavar="P", help="how the values are put together: '$day $hour'"),
        option(
            "--strategy", type=click.Choice(("values-time", "update-time")), help="what says the age of a partition"
        ),
        option("--max-expires", type=int, metavar="N", help="at most so many go"),
        dry_run("change nothing, say what would go"),
    ),
    Command(
        "expire-tags",
        _expire_tags,
        table_argument(),
        option(
            "--older-than",
            type=past,
            metavar="AGE",
            help="also tags that were created before: 7d, or an ISO time (UTC)",
        ),
        dry_run("change nothing, say what would go"),
    ),
    Command("create-tags", _create_tags, table_argument()),
    Command(
        "mark-done",
        _mark_done,
        table_argument(),
        pairs("--partition-spec", required=True, help="the partition that is done"),
    ),
    Command(
        "purge",
        _purge,
        table_argument(),
        *delete_or_list("remove everything but the schema"),
        exclusive=[("--delete", "--dry-run")],
    ),
)
