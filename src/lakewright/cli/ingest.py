"""`lakewright ingest`: files, tables or patterns into a table, in this process or on Spark, in one commit."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from lakewright.calls import check_mode
from lakewright.cli.command import Command, catalog_of, names, pair
from lakewright.cli.output import Output
from lakewright.distributed.write import snapshot_of_job
from lakewright.errors import InvalidInputError, UnsupportedError, counted
from lakewright.ingestion.files import why_spark_is_needed
from lakewright.ingestion.local import LOCAL_BYTES_MAX, ingest
from lakewright.ingestion.plan import IngestResult, check_matches_table, find_target, make_call
from lakewright.ingestion.sources import Source, find_sources

_EXAMPLES = """\
examples:
  lakewright ingest orders/*.parquet --table sales.orders --create --primary-keys id --option bucket=4
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
    parser.add_argument(
        "--engine",
        choices=("auto", "local", "spark"),
        default="auto",
        help=f"auto: Spark for more than {LOCAL_BYTES_MAX >> 20} MB, and for what only Spark reads",
    )
    parser.add_argument(
        "--bad-rows", metavar="DIR", help="rows that cannot be read go to a file there, with file, line and reason"
    )
    parser.add_argument("--job-id", metavar="ID", help="commit once: a second run with the same id writes nothing")
    _about_sources(parser.add_argument_group("the sources"))
    _about_columns(parser.add_argument_group("the columns"))
    _about_creation(parser.add_argument_group("a new table"))
    _about_spark(parser.add_argument_group("Spark"))


def _about_sources(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--format", help="parquet, csv, json, orc or table; guessed from names otherwise")
    group.add_argument("--no-header", action="store_true", help="csv files begin with data: columns go by their order")
    group.add_argument(
        "--source-option", type=pair, action="append", default=[], metavar="K=V", help="of the reader, as sep=;"
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
    group.add_argument("--primary-keys", "--primary-key", type=names, default=[], metavar="A,B", help="columns")
    group.add_argument(
        "--partition-keys", "--partition", type=names, default=[], metavar="A,B", help="partition columns"
    )
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
    catalog = catalog_of(args)
    if catalog is None and "/" not in args.table:
        raise InvalidInputError(
            f"{args.table} is a name: say of which catalog with --warehouse or --catalog-option, or give its path"
        )
    given: dict[str, Any] = {
        "catalog": catalog,
        "mode": args.mode,
        "format": args.format,
        "reader_options": dict(args.source_option),
        "header": not args.no_header,
        "columns": args.columns,
        "renames": dict(args.rename),
        "ignore_extra": args.ignore_extra,
        "partitions": dict(args.partition_spec) or None,
        "create": args.create,
        "types": dict(args.type),
        "primary_keys": args.primary_keys,
        "partition_keys": args.partition_keys,
        "options": dict(args.option),
        "schema_mode": args.schema_mode,
        "bad_rows": args.bad_rows,
        "job_id": args.job_id,
        "dry_run": args.dry_run,
        "say": output.say,
    }
    # Wrong arguments are refused before Spark is started.
    call = make_call(given)
    table = find_target(args.table, catalog, create=args.create).table
    if table is not None:
        check_mode(table, args.mode, args.schema_mode)
        check_matches_table(table, call.creation, call.types)
    done = table is not None and args.job_id is not None and snapshot_of_job(table, args.job_id) is not None
    sources = args.source if done else find_sources(args.source, format=args.format, catalog=catalog)
    if done or not _on_spark(args, [one for one in sources if isinstance(one, Source)]):
        result = ingest(sources, args.table, **given)
    else:
        result = _ingest_on_spark(args, sources, given, quiet=output.quiet)
    output.result(result.to_dict(), _summary(result, args.job_id))


def _on_spark(args: argparse.Namespace, sources: Sequence[Source]) -> bool:
    """Return whether Spark ingests: the caller asked for it, only Spark can read a source, or the sources are large."""
    if args.engine != "auto":
        return bool(args.engine == "spark")
    settings = (args.master, args.remote, args.memory, args.concurrency, args.distribution, args.conf)
    if any(settings) or "PYSPARK_GATEWAY_PORT" in os.environ:  # set by spark-submit
        return True
    options = [{**one.reader_options, **dict(args.source_option)} for one in sources]
    if any(map(why_spark_is_needed, sources, options)):
        return True
    return sum(LOCAL_BYTES_MAX if one.bytes is None else one.bytes for one in sources) >= LOCAL_BYTES_MAX


def _ingest_on_spark(
    args: argparse.Namespace, sources: Sequence[Source], given: Mapping[str, Any], *, quiet: bool
) -> IngestResult:
    try:
        from lakewright.spark.ingestion import run  # noqa: PLC0415 - a door
        from lakewright.spark.jobs import launch  # noqa: PLC0415 - a door
    except ImportError as error:
        raise UnsupportedError(
            f"this ingest needs Spark, and {error.name} is not installed: pip install 'lakewright[spark]' (or "
            "'lakewright[spark-jre]' on a machine without Java); local files can do without (--engine local)"
        ) from error
    # This command reports an error in one line; Spark would log some forty lines for every attempt of a task.
    config = ({} if args.debug else {"spark.log.level": "OFF"}) | dict(args.conf)
    session = launch.running("lakewright ingest", args.master, args.remote, memory=args.memory, config=config)
    with session as spark:
        return run.ingest(
            spark,
            sources,
            args.table,
            concurrency=args.concurrency,
            distribution=args.distribution,
            progress=None if sys.stderr.isatty() and not quiet else False,
            **given,
        )


def _summary(result: IngestResult, job_id: str | None) -> str:
    """Return the result of an ingest in one line.

    >>> from types import SimpleNamespace
    >>> done = dict(dry_run=False, replayed=False, snapshot_id=3, rows=10000, files=2, bytes=5e6, seconds=2.0)
    >>> _summary(SimpleNamespace(**done, bad_rows=0, duplicates=0), None)
    'snapshot 3: 10,000 rows in 2 files, 5.0 MB, 2.0 s (5,000 rows/s)'
    >>> _summary(SimpleNamespace(**done, bad_rows=1, bad_rows_file="b.jsonl", duplicates=3), None)[50:]
    '(5,000 rows/s); 3 rows had the key of another; 1 bad row in b.jsonl'
    """
    if result.dry_run:
        return "nothing was written: this was a dry run"
    if result.replayed:
        return f"job {job_id!r} was committed before as snapshot {result.snapshot_id}: nothing was written"
    bad = f"; {counted(result.bad_rows, 'bad row')} in {result.bad_rows_file}" if result.bad_rows else ""
    if result.snapshot_id is None:
        return f"nothing was written: the sources hold no rows{' that fit' if bad else ''}{bad}"
    speed = result.rows / max(result.seconds, 1e-9)
    again = f"; {counted(result.duplicates, 'row')} had the key of another" if result.duplicates else ""
    return (
        f"snapshot {result.snapshot_id}: {counted(result.rows, 'row')} in {counted(result.files, 'file')}, "
        f"{result.bytes / 1e6:,.1f} MB, {result.seconds:,.1f} s ({speed:,.0f} rows/s){again}{bad}"
    )


INGEST = Command(
    "ingest",
    "load files or tables into a table, in one commit",
    _arguments,
    _run,
    "Load parquet, csv, json or orc files, or other tables, into a table: aligned to its schema, written by this "
    "process or by Spark's workers, visible in one commit.",
)
