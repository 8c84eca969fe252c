"""Commands that rewrite the files of a table, and that remove files which nothing names. No engine is needed."""

from __future__ import annotations

from dataclasses import asdict

import click

from lakewright.catalog.compaction import chosen_tables, compact_each
from lakewright.cli.base.command import (
    Argument,
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
from lakewright.cli.base.output import Output, plain
from lakewright.cli.base.place import need_catalog, split_name, table_of
from lakewright.cli.base.values import names, past
from lakewright.compact.request.choice import STRATEGIES
from lakewright.compact.rounds import CompactResult
from lakewright.errors import LakewrightError, counted
from lakewright.table.table import FileStoreTable

_PARTITIONS_SHOWN = 20  # of a dry run


def _compact(args: Arguments, output: Output) -> None:
    if args.table.endswith(".*") and "/" not in args.table:
        _compact_all(args, output)
        return
    with output.progress(f"compacting {args.table}"):
        result = _compact_one(table_of(args), args)
    output.result(asdict(result), _compacted(result))


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


def _compacted(result: CompactResult) -> str:
    """Return what a compaction did as a line."""
    if result.is_empty:
        return "there was nothing to compact"
    size = f"{counted(result.rows, 'row')}, {result.bytes / 1e6:,.1f} MB"
    if result.dry_run:
        total = (
            f"{counted(result.files_before, 'file')} in {counted(result.buckets, 'bucket')} of "
            f"{counted(result.partitions, 'partition')} would become about {result.files_after:,}, {size}"
        )
        return "\n".join([total, *_planned(result)])
    skipped = f"; other writers changed {', '.join(result.skipped)} meanwhile" if result.skipped else ""
    return (
        f"snapshot {result.snapshot_id}: {counted(result.files_before, 'file')} became {result.files_after:,}, {size}, "
        f"{result.seconds:,.1f} s{skipped}"
    )


def _planned(result: CompactResult) -> list[str]:
    """Return what a compaction would do to each partition, a line each; of very many partitions the first ones."""
    named = [one for one in result.details if one.partition]
    lines = [
        f"  {one.partition}: {counted(one.files_before, 'file')} would become about {one.files_after:,}, "
        f"{counted(one.rows, 'row')}, {one.bytes / 1e6:,.1f} MB"
        for one in named[:_PARTITIONS_SHOWN]
    ]
    left = len(named) - len(lines)
    return [*lines, f"  and {counted(left, 'partition')} more; --json shows all"] if left else lines


def _compact_all(args: Arguments, output: Output) -> None:
    """Compact the tables of a database, and say of each what was done."""
    named, name = split_name(args.table)
    catalog = need_catalog(args, named)

    def compact(table: FileStoreTable) -> CompactResult:
        # As in `compact_database`: a table without partitions is compacted as it is.
        idle = args.idle if table.partition_keys else None
        result = _compact_one(table, Arguments(**{**vars(args), "idle": idle}))
        output.say(f"{table.name}: {_compacted(result)}")
        return result

    done = compact_each(catalog, chosen_tables(catalog, name.removesuffix(".*")), compact)
    for name, reason in done.failed.items():
        output.say(f"{name} was not compacted: {reason}")
    text = f"{counted(len(done.tables), 'table')} done, {len(done.failed)} failed"
    output.result({"tables": {n: asdict(r) for n, r in done.tables.items()}, "failed": dict(done.failed)}, text)
    if done.failed:
        raise LakewrightError(f"{counted(len(done.failed), 'table')} could not be compacted")


def _compact_manifests(args: Arguments, output: Output) -> None:
    with output.progress(f"compacting the manifests of {args.table}"):
        result = table_of(args).compact_manifests()
    text = (
        "there was nothing to compact"
        if result.is_empty
        else f"snapshot {result.snapshot_id}: {counted(result.manifests_before, 'manifest')} became "
        f"{result.manifests_after:,}, {result.seconds:,.1f} s"
    )
    output.result(asdict(result), text)


def _materialize(args: Arguments, output: Output) -> None:
    spec = dict(args.partition_spec)
    with output.progress(f"rewriting files of {args.table}"):
        result = table_of(args).materialize_deletion_vectors(partitions=[spec] if spec else None)
    output.result(asdict(result), _compacted(result))


def _rescale(args: Arguments, output: Output) -> None:
    spec = dict(args.partition_spec)
    with output.progress(f"rewriting {args.table}"):
        result = table_of(args).rescale(args.buckets, partitions=[spec] if spec else None)
    where = "nothing was written yet" if result.snapshot_id is None else f"snapshot {result.snapshot_id}"
    output.result(
        asdict(result),
        f"{where}: {counted(result.rows, 'row')} in {counted(args.buckets, 'bucket')} a partition, "
        f"{counted(result.files_after, 'file')}, {result.bytes / 1e6:,.1f} MB, {result.seconds:,.1f} s",
    )


def _orphans(args: Arguments, output: Output) -> None:
    with output.progress(f"listing the files of {args.table}"):
        orphans = table_of(args).remove_orphan_files(older_than=args.older_than, dry_run=not args.delete)
    for path in orphans.paths:
        output.say(path)
    verb = "removed" if args.delete else "found (--delete removes them):"
    output.result(
        asdict(orphans), f"{verb} {counted(orphans.count, 'file')} that nothing names, {orphans.bytes / 1e6:,.1f} MB"
    )


def _analyze(args: Arguments, output: Output) -> None:
    found = table_of(args).analyze("all" if args.all_columns else args.columns)
    where = "there is no snapshot yet" if found.snapshot_id is None else f"snapshot {found.snapshot_id}"
    counts = f"{counted(found.rows, 'row')}, {found.size / 1e6:,.1f} MB"
    columns = [{"column": name, **asdict(column)} for name, column in found.columns.items()]
    shown = plain([{k: v for k, v in column.items() if k != "column_id"} for column in columns]) if columns else []
    output.result(asdict(found), "\n".join([f"{where}: {counts}, {found.seconds:,.1f} s", *shown]))


def _partition_spec() -> Option:
    return pairs("--partition-spec", help="only of this partition")


COMMANDS = (
    Command(
        "compact",
        _compact,
        table_argument("db.t, or the path of a table; or db.* for all tables of a database"),
        flag(
            "--full",
            help="even two small files, and every file with deleted rows; with a primary key, all to one level",
        ),
        _partition_spec(),
        option("--where", metavar="CONDITION", help="only of partitions that fulfil it: \"dt < '2026-01-01'\""),
        option("--idle", metavar="AGE", help="only of partitions that nobody wrote to for so long: 1d"),
        option("--order-by", type=names, metavar="A,B", help="sort the rows by these columns"),
        option("--strategy", type=click.Choice(STRATEGIES), help="how they are sorted (order)"),
        dry_run("write nothing, say what would be done"),
    ),
    Command("compact-manifests", _compact_manifests, table_argument()),
    Command("materialize-deletion-vectors", _materialize, table_argument(), _partition_spec()),
    Command(
        "rescale",
        _rescale,
        table_argument(),
        Argument("buckets", "N", "how many buckets each partition gets", type=int),
        _partition_spec(),
    ),
    Command(
        "remove-orphans",
        _orphans,
        table_argument(),
        option(
            "--older-than", type=past, metavar="AGE", help="only files older than this (1d); beyond the longest write"
        ),
        *delete_or_list("remove them"),
        exclusive=[("--delete", "--dry-run")],
    ),
    Command(
        "analyze",
        _analyze,
        table_argument(),
        option("--columns", type=names, metavar="A,B", help="columns whose values are counted too"),
        flag("--all-columns", help="count the values of all columns but nested ones"),
        exclusive=[("--columns", "--all-columns")],
    ),
)
