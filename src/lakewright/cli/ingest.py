"""`lakewright ingest`: files, tables or patterns into a table, on Spark, in one commit."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from lakewright.cli.command import Command, catalog_of, names, pair
from lakewright.cli.output import Output
from lakewright.distributed import snapshot_of_job
from lakewright.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:  # a command line without Spark must still show its help
    from lakewright.spark.ingest import IngestResult

_EXAMPLES = """\
examples:
  lakewright ingest orders/*.parquet --table sales.orders --create --primary-key id --option bucket=4
  lakewright ingest day.csv --table sales.orders --mode upsert --rename ID=id
  lakewright ingest day.csv --table sales.log --mode overwrite --partition-spec dt=2026-01-01
  lakewright ingest gone.csv --table sales.orders --mode delete --job-id gone-2026-01-01
"""


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.add_argument("source", nargs="+", metavar="SOURCE", help="file, directory, pattern, table path or db.t")
    parser.add_argument("--table", "-t", required=True, metavar="DB.T", help="the table: db.t, or its path")
    parser.add_argument("--mode", "-m", default="append", choices=("append", "upsert", "overwrite", "delete"))
    parser.add_argument("--dry-run", action="store_true", help="show the plan; write and create nothing")
    parser.add_argument("--job-id", metavar="ID", help="commit once: a second run with the same id writes nothing")
    _about_sources(parser.add_argument_group("the sources"))
    _about_columns(parser.add_argument_group("the columns"))
    _about_creation(parser.add_argument_group("a new table"))
    _about_spark(parser.add_argument_group("Spark"))


def _about_sources(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--format", help="parquet, csv, json, orc or table; guessed from names otherwise")
    group.add_argument(
        "--source-option", type=pair, action="append", default=[], metavar="K=V", help="of Spark's reader, as sep=;"
    )


def _about_columns(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--rename", type=pair, action="append", default=[], metavar="A=B", help="column A becomes B")
    group.add_argument("--columns", type=names, metavar="A,B", help="take these columns of the source only")
    group.add_argument("--ignore-extra", action="store_true", help="leave out columns that the table lacks")
    group.add_argument("--schema-mode", choices=("merge",), help="merge: add columns that the table lacks")
    group.add_argument(
        "--partition-spec",
        type=pair,
        action="append",
        default=[],
        metavar="K=V",
        help="value of a partition column that the source lacks; what overwrite replaces",
    )


def _about_creation(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--create", action="store_true", help="make the table if it is not there")
    group.add_argument("--primary-key", type=names, default=[], metavar="A,B")
    group.add_argument("--partition", type=names, default=[], metavar="A,B", help="partition columns")
    group.add_argument("--option", type=pair, action="append", default=[], metavar="K=V", help="of the table")
    group.add_argument("--type", type=pair, action="append", default=[], metavar="A=T", help="type of a column")


def _about_spark(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--master", metavar="URL", help="local[*] unless said, or what spark-submit says")
    group.add_argument("--remote", metavar="URL", help="a Spark Connect server, as sc://host:15002")
    group.add_argument("--memory", metavar="SIZE", help="of a local session, as 4g")
    group.add_argument("--conf", type=pair, action="append", default=[], metavar="K=V", help="setting of the session")
    group.add_argument("--concurrency", type=int, metavar="N", help="at most so many tasks write")
    group.add_argument("--distribution", metavar="WAY", help="how rows are brought together for the tasks")


def _run(args: argparse.Namespace, output: Output) -> None:
    try:
        from lakewright.spark import ingest, inputs, launch  # noqa: PLC0415 - the door to the engine
    except ImportError as error:
        raise UnsupportedError(
            f"ingest runs on Spark, and {error.name} is not installed: pip install 'lakewright[spark]' (or "
            "'lakewright[spark-jre]' on a machine without Java)"
        ) from error
    catalog = catalog_of(args)
    if catalog is None and "/" not in args.table:
        raise InvalidInputError(f"{args.table} is a name: say of which catalog with --warehouse, or give its path")
    # What is wrong with the call is said at once, not after Spark has started.
    table = ingest.find_target(args.table, catalog, create=args.create).table
    done = table is not None and args.job_id is not None and snapshot_of_job(table, args.job_id) is not None
    sources = args.source if done else inputs.find_sources(args.source, format=args.format, catalog=catalog)
    session = launch.running("lakewright ingest", args.master, args.remote, memory=args.memory, config=dict(args.conf))
    with session as spark:
        result = ingest.pipeline(
            spark,
            sources,
            args.table,
            catalog=catalog,
            mode=args.mode,
            format=args.format,
            reader_options=dict(args.source_option),
            columns=args.columns,
            renames=dict(args.rename),
            ignore_extra=args.ignore_extra,
            partitions=dict(args.partition_spec) or None,
            create=args.create,
            types=dict(args.type),
            primary_key=args.primary_key,
            partition_by=args.partition,
            options=dict(args.option),
            schema_mode=args.schema_mode,
            concurrency=args.concurrency,
            distribution=args.distribution,
            job_id=args.job_id,
            dry_run=args.dry_run,
            progress=None if sys.stderr.isatty() and not output.quiet else False,
            say=output.say,
        )
    output.result(result.to_dict(), _summary(result, args.job_id))


def _summary(result: IngestResult, job_id: str | None) -> str:
    """Return one line that says what happened.

    >>> from types import SimpleNamespace
    >>> done = dict(dry_run=False, replayed=False, snapshot_id=3, rows=10000, files=2, bytes=5e6, seconds=2.0)
    >>> _summary(SimpleNamespace(**done), None)
    'snapshot 3: 10,000 rows in 2 files, 5.0 MB, 2.0 s (5,000 rows/s)'
    """
    if result.dry_run:
        return "nothing was written: this was a dry run"
    if result.replayed:
        return f"job {job_id!r} was committed before as snapshot {result.snapshot_id}: nothing was written"
    if result.snapshot_id is None:
        return "nothing was written: the sources hold no rows"
    speed = result.rows / max(result.seconds, 1e-9)
    files = f"{result.files:,} file{'' if result.files == 1 else 's'}"
    return (
        f"snapshot {result.snapshot_id}: {result.rows:,} rows in {files}, {result.bytes / 1e6:,.1f} MB, "
        f"{result.seconds:,.1f} s ({speed:,.0f} rows/s)"
    )


INGEST = Command(
    "ingest",
    "load files or tables into a table, with Spark, in one commit",
    _arguments,
    _run,
    "Load parquet, csv, json or orc files, or other tables, into a table: aligned to its schema, written by Spark's "
    "workers, visible in one commit.",
)
