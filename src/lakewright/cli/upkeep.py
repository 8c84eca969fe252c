"""Commands that rewrite the files of a table, and that remove files which nothing names. No engine is needed."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from lakewright.catalog.compaction import chosen_tables, compact_each
from lakewright.cli.command import (
    Command,
    delete_or_list,
    dry_run,
    moment,
    names,
    need_catalog,
    one_table,
    pair,
    table_of,
)
from lakewright.cli.output import Output, plain
from lakewright.compact.request.choice import STRATEGIES
from lakewright.compact.rounds import CompactResult
from lakewright.errors import LakewrightError, counted
from lakewright.table.table import FileStoreTable

_PARTITIONS_SHOWN = 20  # of a dry run


def _compact_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="DB.T", help="the table: db.t, or its path; or db.* for all of a database")
    parser.add_argument(
        "--full",
        action="store_true",
        help="even two small files, and every file with deleted rows; with a primary key, all to one level",
    )
    parser.add_argument(
        "--partition-spec", type=pair, action="append", default=[], metavar="K=V", help="only of this partition"
    )
    parser.add_argument("--where", metavar="CONDITION", help="only of partitions that fulfil it: \"dt < '2026-01-01'\"")
    parser.add_argument("--idle", metavar="AGE", help="only of partitions that nobody wrote to for so long: 1d")
    parser.add_argument("--order-by", type=names, metavar="A,B", help="sort the rows by these columns")
    parser.add_argument("--strategy", choices=STRATEGIES, help="how they are sorted (order)")
    dry_run(parser, "write nothing, say what would be done")


def _compact(args: argparse.Namespace, output: Output) -> None:
    if args.table.endswith(".*") and "/" not in args.table:
        _compact_all(args, output)
        return
    with output.progress(f"compacting {args.table}"):
        result = _compact_one(table_of(args), args)
    output.result(asdict(result), _compacted(result))


def _compact_one(table: FileStoreTable, args: argparse.Namespace) -> CompactResult:
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


def _compact_all(args: argparse.Namespace, output: Output) -> None:
    """Compact the tables of a database, and say of each what was done."""
    catalog = need_catalog(args)

    def compact(table: FileStoreTable) -> CompactResult:
        # As in `compact_database`: a table without partitions is compacted as it is.
        idle = args.idle if table.partition_keys else None
        result = _compact_one(table, argparse.Namespace(**{**vars(args), "idle": idle}))
        output.say(f"{table.name}: {_compacted(result)}")
        return result

    done = compact_each(catalog, chosen_tables(catalog, args.table.removesuffix(".*")), compact)
    for name, reason in done.failed.items():
        output.say(f"{name} was not compacted: {reason}")
    text = f"{counted(len(done.tables), 'table')} done, {len(done.failed)} failed"
    output.result({"tables": {n: asdict(r) for n, r in done.tables.items()}, "failed": dict(done.failed)}, text)
    if done.failed:
        raise LakewrightError(f"{counted(len(done.failed), 'table')} could not be compacted")


def _compact_manifests(args: argparse.Namespace, output: Output) -> None:
    with output.progress(f"compacting the manifests of {args.table}"):
        result = table_of(args).compact_manifests()
    text = (
        "there was nothing to compact"
        if result.is_empty
        else f"snapshot {result.snapshot_id}: {counted(result.manifests_before, 'manifest')} became "
        f"{result.manifests_after:,}, {result.seconds:,.1f} s"
    )
    output.result(asdict(result), text)


def _materialize_arguments(parser: argparse.ArgumentParser) -> None:
    one_table(parser)
    parser.add_argument(
        "--partition-spec", type=pair, action="append", default=[], metavar="K=V", help="only of this partition"
    )


def _materialize(args: argparse.Namespace, output: Output) -> None:
    spec = dict(args.partition_spec)
    with output.progress(f"rewriting files of {args.table}"):
        result = table_of(args).materialize_deletion_vectors(partitions=[spec] if spec else None)
    output.result(asdict(result), _compacted(result))


def _rescale_arguments(parser: argparse.ArgumentParser) -> None:
    one_table(parser)
    parser.add_argument("buckets", type=int, metavar="N", help="how many buckets each partition gets")
    parser.add_argument(
        "--partition-spec", type=pair, action="append", default=[], metavar="K=V", help="only of this partition"
    )


def _rescale(args: argparse.Namespace, output: Output) -> None:
    spec = dict(args.partition_spec)
    with output.progress(f"rewriting {args.table}"):
        result = table_of(args).rescale(args.buckets, partitions=[spec] if spec else None)
    where = "nothing was written yet" if result.snapshot_id is None else f"snapshot {result.snapshot_id}"
    output.result(
        asdict(result),
        f"{where}: {counted(result.rows, 'row')} in {counted(args.buckets, 'bucket')} a partition, "
        f"{counted(result.files_after, 'file')}, {result.bytes / 1e6:,.1f} MB, {result.seconds:,.1f} s",
    )


def _orphans_arguments(parser: argparse.ArgumentParser) -> None:
    one_table(parser)
    parser.add_argument(
        "--older-than", type=moment, metavar="AGE", help="only files older than this (1d); beyond the longest write"
    )
    delete_or_list(parser, "remove them")


def _orphans(args: argparse.Namespace, output: Output) -> None:
    with output.progress(f"listing the files of {args.table}"):
        orphans = table_of(args).remove_orphan_files(older_than=args.older_than, dry_run=not args.delete)
    for path in orphans.paths:
        output.say(path)
    verb = "removed" if args.delete else "found (--delete removes them):"
    output.result(
        asdict(orphans), f"{verb} {counted(orphans.count, 'file')} that nothing names, {orphans.bytes / 1e6:,.1f} MB"
    )


def _analyze_arguments(parser: argparse.ArgumentParser) -> None:
    one_table(parser)
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--columns", type=names, metavar="A,B", help="columns whose values are counted too")
    chosen.add_argument("--all-columns", action="store_true", help="count the values of all columns but nested ones")


def _analyze(args: argparse.Namespace, output: Output) -> None:
    found = table_of(args).analyze("all" if args.all_columns else args.columns)
    where = "there is no snapshot yet" if found.snapshot_id is None else f"snapshot {found.snapshot_id}"
    counts = f"{counted(found.rows, 'row')}, {found.size / 1e6:,.1f} MB"
    columns = [{"column": name, **asdict(column)} for name, column in found.columns.items()]
    shown = plain([{k: v for k, v in column.items() if k != "column_id"} for column in columns])
    output.result(asdict(found), "\n".join([f"{where}: {counts}, {found.seconds:,.1f} s", *shown]))


COMPACT = Command("compact", "merge small files, and drop deleted rows", _compact_arguments, _compact)
MANIFESTS = Command(
    "compact-manifests", "merge the manifests of a table into few full ones", one_table, _compact_manifests
)
VECTORS = Command(
    "materialize-deletion-vectors",
    "rewrite the files that have deleted rows, without these",
    _materialize_arguments,
    _materialize,
)
RESCALE = Command("rescale", "rewrite a table with another number of buckets", _rescale_arguments, _rescale)
ORPHANS = Command("remove-orphans", "find files that nothing names; remove them if asked", _orphans_arguments, _orphans)
ANALYZE = Command("analyze", "count rows and values, for planners of queries", _analyze_arguments, _analyze)
