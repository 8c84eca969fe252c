"""compact, expire, orphans, rollback, consumers, purge."""

from __future__ import annotations

from dataclasses import asdict

import click

from lakewright.catalog.database_compaction import chosen_tables, compact_each
from lakewright.cli.catalog_options import need_catalog, split_name, table_of
from lakewright.cli.cli_options import (
    Arguments,
    CliArgument,
    CliCommand,
    CliOption,
    confirm,
    delete_or_list,
    dry_run,
    flag,
    moment,
    option,
    pairs,
    past,
    split_names,
    table_argument,
    yes_option,
)
from lakewright.cli.cli_output import CommandOutput, plain
from lakewright.compact.compaction_job import STRATEGIES
from lakewright.compact.compaction_rounds import CompactResult
from lakewright.errors import LakewrightError, pluralize
from lakewright.maintenance.snapshot_expiry import ExpireResult
from lakewright.table.file_store_table import FileStoreTable

# ---- Expiry, tags, marks, purge --------------------------------------------------------------------------------------


def _expire(args: Arguments, output: CommandOutput) -> None:
    with output.progress(f"looking for what only old snapshots of {args.table} name"):
        expired = table_of(args).expire_snapshots(
            args.retain_max, args.retain_min, args.older_than, args.max_deletes, dry_run=args.dry_run
        )
    _show_expired(output, expired, "snapshot")


def _show_expired(output: CommandOutput, expired: ExpireResult, what: str) -> None:
    verb = "would remove" if expired.dry_run else "removed"
    ids = expired.snapshot_ids
    id_range = f" ({ids[0]} to {ids[-1]})" if ids else ""
    left = f"; {pluralize(expired.left, f'more {what}')} could go" if expired.left else ""
    for reason in expired.held_by:
        output.say(reason)
    output.result(
        asdict(expired), f"{verb} {pluralize(len(ids), what)}{id_range} and {pluralize(expired.files, 'file')}{left}"
    )


def _expire_changelogs(args: Arguments, output: CommandOutput) -> None:
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


def _expire_partitions(args: Arguments, output: CommandOutput) -> None:
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
        output.say(f"{pluralize(expired.undated, 'partition')} with values that say no time never expire by them")
    left = f"; {pluralize(expired.left, 'more partition')} could go" if expired.left else ""
    verb = "would remove" if expired.dry_run else "removed"
    output.result(asdict(expired), f"{verb} {pluralize(len(expired.partitions), 'partition')}{left}")


def _expire_tags(args: Arguments, output: CommandOutput) -> None:
    names = table_of(args).expire_tags(args.older_than, dry_run=args.dry_run)
    for name in names:
        output.say(name)
    verb = "would delete" if args.dry_run else "deleted"
    output.result({"tags": names, "dry_run": args.dry_run}, f"{verb} {pluralize(len(names), 'tag')}")


def _create_tags(args: Arguments, output: CommandOutput) -> None:
    names = table_of(args).create_due_tags()
    for name in names:
        output.say(name)
    output.result({"tags": names}, f"created {pluralize(len(names), 'tag')}")


def _mark_done(args: Arguments, output: CommandOutput) -> None:
    marked = table_of(args).mark_partition_done([dict(args.partition_spec)])
    output.result({"partitions": marked}, f"marked {pluralize(len(marked), 'partition')} as done")


def _purge(args: Arguments, output: CommandOutput) -> None:
    with output.progress(f"looking at the history of {args.table}"):
        gone = table_of(args).purge_files(dry_run=not args.delete)
    verb = "removed all rows with" if args.delete else "would remove (--delete does) all rows with"
    history = (
        f"{pluralize(gone.snapshots, 'snapshot')}, {pluralize(len(gone.tags), 'tag')}, {len(gone.branches)} branches"
    )
    output.result(asdict(gone), f"{verb} {history}, {pluralize(gone.files, 'file')}")


def _retention() -> tuple[CliOption, ...]:
    age = "only what is older than this goes, whatever --retain-max says: 7d, '12 hours', or an ISO time (UTC)"
    return (
        option("--retain-max", type=int, metavar="N", help="at most so many stay"),
        option("--retain-min", type=int, metavar="N", help="at least so many stay"),
        option("--older-than", type=past, metavar="AGE", help=age),
        option("--max-deletes", type=int, metavar="N", help="at most so many go in one call"),
        dry_run("remove nothing, say what would go"),
    )


_EXPIRY_COMMANDS = (
    CliCommand("expire", _expire, table_argument(), *_retention()),
    CliCommand(
        "expire-changelogs",
        _expire_changelogs,
        table_argument(),
        *_retention(),
        flag("--all", help="all that no consumer needs"),
    ),
    CliCommand(
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
    CliCommand(
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
    CliCommand("create-tags", _create_tags, table_argument()),
    CliCommand(
        "mark-done",
        _mark_done,
        table_argument(),
        pairs("--partition-spec", required=True, help="the partition that is done"),
    ),
    CliCommand(
        "purge",
        _purge,
        table_argument(),
        *delete_or_list("remove everything but the schema"),
        exclusive=[("--delete", "--dry-run")],
    ),
)


# ---- Compaction, statistics, orphan files ----------------------------------------------------------------------------

_PARTITIONS_SHOWN = 20  # of a dry run


def _compact(args: Arguments, output: CommandOutput) -> None:
    if args.table.endswith(".*") and "/" not in args.table:
        _compact_all(args, output)
        return
    with output.progress(f"compacting {args.table}"):
        result = _compact_one(table_of(args), args)
    output.result(asdict(result), _format_compaction(result))


def _compact_one(table: FileStoreTable, args: Arguments) -> CompactResult:
    spec = dict(args.partition_spec)
    return table.compact(
        full=args.full,
        partitions=[spec] if spec else None,
        where=args.where,
        order_by=args.order_by,
        strategy=args.strategy,
        idle=args.idle,
        dry_run=args.dry_run,
    )


def _format_compaction(result: CompactResult) -> str:
    """Return what a compaction did as a line."""
    if result.is_empty:
        return "there was nothing to compact"
    size = f"{pluralize(result.rows, 'row')}, {result.bytes / 1e6:,.1f} MB"
    if result.dry_run:
        total = (
            f"{pluralize(result.files_before, 'file')} in {pluralize(result.buckets, 'bucket')} of "
            f"{pluralize(result.partitions, 'partition')} would become about {result.files_after:,}, {size}"
        )
        return "\n".join([total, *_format_planned_compaction(result)])
    skipped = f"; other writers changed {', '.join(result.skipped)} meanwhile" if result.skipped else ""
    return (
        f"snapshot {result.snapshot_id}: {pluralize(result.files_before, 'file')} became {result.files_after:,}, "
        f"{size}, "
        f"{result.seconds:,.1f} s{skipped}"
    )


def _format_planned_compaction(result: CompactResult) -> list[str]:
    """Return what a compaction would do to each partition, a line each; of very many partitions the first ones."""
    named = [one for one in result.details if one.partition]
    lines = [
        f"  {one.partition}: {pluralize(one.files_before, 'file')} would become about {one.files_after:,}, "
        f"{pluralize(one.rows, 'row')}, {one.bytes / 1e6:,.1f} MB"
        for one in named[:_PARTITIONS_SHOWN]
    ]
    left = len(named) - len(lines)
    return [*lines, f"  and {pluralize(left, 'partition')} more; --json shows all"] if left else lines


def _compact_all(args: Arguments, output: CommandOutput) -> None:
    """Compact the tables of a database, and say of each what was done."""
    named, name = split_name(args.table)
    catalog = need_catalog(args, named)

    def compact(table: FileStoreTable) -> CompactResult:
        # As in `compact_database`: a table without partitions is compacted as it is.
        idle = args.idle if table.partition_keys else None
        result = _compact_one(table, Arguments(**{**vars(args), "idle": idle}))
        output.say(f"{table.name}: {_format_compaction(result)}")
        return result

    done = compact_each(catalog, chosen_tables(catalog, name.removesuffix(".*")), compact)
    for name, reason in done.failed.items():
        output.say(f"{name} was not compacted: {reason}")
    text = f"{pluralize(len(done.tables), 'table')} done, {len(done.failed)} failed"
    output.result({"tables": {n: asdict(r) for n, r in done.tables.items()}, "failed": dict(done.failed)}, text)
    if done.failed:
        raise LakewrightError(f"{pluralize(len(done.failed), 'table')} could not be compacted")


def _compact_manifests(args: Arguments, output: CommandOutput) -> None:
    with output.progress(f"compacting the manifests of {args.table}"):
        result = table_of(args).compact_manifests()
    text = (
        "there was nothing to compact"
        if result.is_empty
        else f"snapshot {result.snapshot_id}: {pluralize(result.manifests_before, 'manifest')} became "
        f"{result.manifests_after:,}, {result.seconds:,.1f} s"
    )
    output.result(asdict(result), text)


def _materialize(args: Arguments, output: CommandOutput) -> None:
    spec = dict(args.partition_spec)
    with output.progress(f"rewriting files of {args.table}"):
        result = table_of(args).materialize_deletion_vectors(partitions=[spec] if spec else None)
    output.result(asdict(result), _format_compaction(result))


def _rescale(args: Arguments, output: CommandOutput) -> None:
    spec = dict(args.partition_spec)
    with output.progress(f"rewriting {args.table}"):
        result = table_of(args).rescale(args.buckets, partitions=[spec] if spec else None)
    where = "nothing was written yet" if result.snapshot_id is None else f"snapshot {result.snapshot_id}"
    output.result(
        asdict(result),
        f"{where}: {pluralize(result.rows, 'row')} in {pluralize(args.buckets, 'bucket')} a partition, "
        f"{pluralize(result.files_after, 'file')}, {result.bytes / 1e6:,.1f} MB, {result.seconds:,.1f} s",
    )


def _orphans(args: Arguments, output: CommandOutput) -> None:
    with output.progress(f"listing the files of {args.table}"):
        orphans = table_of(args).remove_orphan_files(older_than=args.older_than, dry_run=not args.delete)
    for path in orphans.paths:
        output.say(path)
    verb = "removed" if args.delete else "found (--delete removes them):"
    output.result(
        asdict(orphans), f"{verb} {pluralize(orphans.count, 'file')} that nothing names, {orphans.bytes / 1e6:,.1f} MB"
    )


def _analyze(args: Arguments, output: CommandOutput) -> None:
    found = table_of(args).analyze("all" if args.all_columns else args.columns)
    where = "there is no snapshot yet" if found.snapshot_id is None else f"snapshot {found.snapshot_id}"
    counts = f"{pluralize(found.rows, 'row')}, {found.size / 1e6:,.1f} MB"
    columns = [{"column": name, **asdict(column)} for name, column in found.columns.items()]
    shown = plain([{k: v for k, v in column.items() if k != "column_id"} for column in columns]) if columns else []
    output.result(asdict(found), "\n".join([f"{where}: {counts}, {found.seconds:,.1f} s", *shown]))


def _partition_spec() -> CliOption:
    return pairs("--partition-spec", help="only of this partition")


_COMPACTION_COMMANDS = (
    CliCommand(
        "compact",
        _compact,
        table_argument("db.t, or the path of a table; or db.* for all tables of a database"),
        flag(
            "--full",
            help="even two small files, and every file with deleted rows; with a primary key, all to one level",
        ),
        _partition_spec(),
        option("--where", metavar="CONDITION", help="only of partitions that fulfil it: \"dt < '2026-01-01'\""),
        option("--idle", metavar="AGE", help="only of partitions that were not written for so long: 1d"),
        option("--order-by", type=split_names, metavar="A,B", help="sort the rows by these columns"),
        option("--strategy", type=click.Choice(STRATEGIES), help="how they are sorted (order)"),
        dry_run("write nothing, say what would be done"),
    ),
    CliCommand("compact-manifests", _compact_manifests, table_argument()),
    CliCommand("materialize-deletion-vectors", _materialize, table_argument(), _partition_spec()),
    CliCommand(
        "rescale",
        _rescale,
        table_argument(),
        CliArgument("buckets", "N", "how many buckets each partition gets", type=int),
        _partition_spec(),
    ),
    CliCommand(
        "remove-orphans",
        _orphans,
        table_argument(),
        option(
            "--older-than", type=past, metavar="AGE", help="only files older than this (1d); beyond the longest write"
        ),
        *delete_or_list("remove them"),
        exclusive=[("--delete", "--dry-run")],
    ),
    CliCommand(
        "analyze",
        _analyze,
        table_argument(),
        option("--columns", type=split_names, metavar="A,B", help="columns whose values are counted too"),
        flag("--all-columns", help="count the values of all columns but nested ones"),
        exclusive=[("--columns", "--all-columns")],
    ),
)


# ---- rollback, consumer ----------------------------------------------------------------------------------------------

_ACTIONS = ("list", "reset", "clear")


def _rollback(args: Arguments, output: CommandOutput) -> None:
    table = table_of(args)
    target = _target(args, table)
    if args.as_latest and not args.dry_run:
        snapshot = table.rollback_to_as_latest(target)
        output.result({"snapshot_id": snapshot.id}, f"snapshot {snapshot.id} has the state of {target}")
        return
    if not args.dry_run:
        plan = table.rollback_to(target, dry_run=True)
        lost = f"{pluralize(len(plan.snapshot_ids), 'snapshot')} and {pluralize(len(plan.tags), 'tag')}"
        confirm(args, f"Remove {lost} of {table.name} after snapshot {plan.snapshot_id}?")
    result = table.rollback_to(target, dry_run=args.dry_run)
    verb = "would remove" if result.dry_run else "removed"
    for what, names in (("snapshot", result.snapshot_ids), ("tag", result.tags)):
        for name in () if args.as_latest else names:
            output.say(f"{verb} {what} {name}")
    gone = f"{pluralize(len(result.snapshot_ids), 'snapshot')} and {pluralize(len(result.tags), 'tag')}"
    text = "nothing would go" if args.as_latest else f"{verb} {gone} after snapshot {result.snapshot_id}"
    output.result(asdict(result), text)


def _target(args: Arguments, table: FileStoreTable) -> int | str:
    given = [one for one in (args.target, args.timestamp, args.watermark) if one is not None]
    if len(given) != 1:
        raise click.UsageError("rollback takes one of TARGET, --timestamp and --watermark")
    if args.watermark is not None:
        return table.store.snapshots.up_to_watermark(args.watermark).id
    if args.timestamp is not None:
        found = table.snapshot(timestamp=args.timestamp)
        return 0 if found is None else found.id
    return int(args.target) if args.target.isdecimal() else str(args.target)


def _consumer(args: Arguments, output: CommandOutput) -> None:
    table = table_of(args)
    match args.action:
        case "reset":
            if args.name is None:
                raise click.UsageError("reset needs the name of a consumer")
            table.reset_consumer(args.name, args.next)
            output.result({"consumer": args.name, "next_snapshot": args.next}, f"consumer {args.name}: done")
        case "clear":
            cleared = table.clear_consumers(args.name)
            output.result({"cleared": cleared}, f"forgot {pluralize(len(cleared), 'consumer')}")
        case _:
            rows = [{"consumer": name, "next_snapshot": number} for name, number in table.list_consumers().items()]
            output.table(rows, empty=f"{table.name} has no consumers")


_ACTION = "list, reset (on to another snapshot) or clear"
_HISTORY_COMMANDS = (
    CliCommand(
        "rollback",
        _rollback,
        table_argument(),
        CliArgument("target", "[TARGET]", "the id of a snapshot, or the name of a tag", required=False),
        option(
            "--timestamp",
            type=moment,
            metavar="TIME",
            help="to the state at a time: 2026-01-31T12:00:00+01:00, UTC without a zone, or an age such as 2h",
        ),
        option("--watermark", type=int, metavar="N", help="to the last snapshot with no higher watermark"),
        flag("--as-latest", help="publish that state as a new snapshot, remove nothing"),
        dry_run("remove nothing, say what would go"),
        yes_option(),
        more="Asks before it removes snapshots, unless --yes is given.",
    ),
    CliCommand(
        "consumer",
        _consumer,
        table_argument(),
        CliArgument("action", "[ACTION]", _ACTION, type=click.Choice(_ACTIONS), default="list"),
        CliArgument("name", "[NAME]", "reset: the consumer; clear: a regular expression", required=False),
        option("--next", type=int, metavar="N", help="reset: the snapshot to go on at; without it, forget it"),
    ),
)


COMMANDS = (*_EXPIRY_COMMANDS, *_COMPACTION_COMMANDS, *_HISTORY_COMMANDS)
