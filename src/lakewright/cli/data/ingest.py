"""`lakewright ingest`: files, tables or patterns into a table, in this process or on Spark, in one commit."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from lakewright.calls import check_mode
from lakewright.catalog.base import Catalog
from lakewright.cli.base.command import (
    Argument,
    Arguments,
    Command,
    Option,
    dry_run,
    flag,
    names_of,
    option,
    pairs,
    section,
)
from lakewright.cli.base.output import Output
from lakewright.cli.base.place import catalog_of, is_path, split_name
from lakewright.cli.base.values import names
from lakewright.distributed.write import snapshot_of_job
from lakewright.errors import InvalidInputError, UnsupportedError, counted
from lakewright.ingestion.files import why_spark_is_needed
from lakewright.ingestion.local import LOCAL_BYTES_MAX, ingest
from lakewright.ingestion.plan import IngestResult, check_matches_table, find_target, make_call
from lakewright.ingestion.sources import ARROW, Source, find_sources

_EXAMPLES = """\
Parquet, csv, json or orc files, or other tables, are aligned to the schema of the table, written by this process or by
Spark's workers, and visible in one commit.

\b
Examples:
  lakewright ingest *.parquet --table sales.orders --create --primary-keys id
  lakewright ingest day.csv --table sales.orders --mode upsert --rename ID=id
  lakewright ingest day.csv -t sales.log -m overwrite --partition-spec dt=9
  lakewright ingest gone.csv -t sales.orders -m delete --job-id gone-2026-01
"""


def settings_of(args: Arguments, catalog: Catalog | None) -> dict[str, Any]:
    """Return the arguments of a command as those of `lakewright.ingest`."""
    return {
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
    }


def _run(args: Arguments, output: Output) -> None:
    named, target = split_name(args.table)
    catalog = catalog_of(args, named)
    if catalog is None and not is_path(target):
        raise InvalidInputError(
            f"{args.table} is a name: say of which catalog with --warehouse or --catalog-option, or give its path"
        )
    given = settings_of(args, catalog) | {"say": output.say}
    # Wrong arguments are refused before Spark is started.
    call = make_call(given)
    table = find_target(target, catalog, create=args.create).table
    if table is not None:
        check_mode(table, args.mode, args.schema_mode)
        check_matches_table(table, call.creation, call.types)
    done = table is not None and args.job_id is not None and snapshot_of_job(table.store, args.job_id) is not None
    sources = args.source if done else find_sources(args.source, format=args.format, catalog=catalog)
    if done or not _on_spark(args, [one for one in sources if isinstance(one, Source)]):
        result = ingest(sources, target, **given)
    else:
        result = _ingest_on_spark(args, sources, {**given, "table": target}, quiet=output.quiet)
    output.result(result.to_dict(), summary(result, args.job_id))


def _on_spark(args: Arguments, sources: Sequence[Source]) -> bool:
    """Return whether Spark ingests: the caller asked for it, only Spark can read a source, or the sources are large."""
    if args.engine != "auto":
        return bool(args.engine == "spark")
    settings = (args.master, args.remote, args.memory, args.concurrency, args.distribution, args.conf)
    if any(settings) or "PYSPARK_GATEWAY_PORT" in os.environ:  # set by spark-submit
        return True
    if any(one.format == ARROW for one in sources):
        return False
    options = [{**one.reader_options, **dict(args.source_option)} for one in sources]
    if any(map(why_spark_is_needed, sources, options)):
        return True
    return sum(LOCAL_BYTES_MAX if one.bytes is None else one.bytes for one in sources) >= LOCAL_BYTES_MAX


def _ingest_on_spark(
    args: Arguments, sources: Sequence[Source], given: Mapping[str, Any], *, quiet: bool
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
            concurrency=args.concurrency,
            distribution=args.distribution,
            progress=None if sys.stderr.isatty() and not quiet else False,
            **given,
        )


def summary(result: IngestResult, job_id: str | None) -> str:
    """Return the result of an ingest in one line.

    >>> from types import SimpleNamespace
    >>> done = dict(dry_run=False, replayed=False, snapshot_id=3, rows=10000, files=2, bytes=5e6, seconds=2.0)
    >>> summary(SimpleNamespace(**done, bad_rows=0, duplicates=0), None)
    'snapshot 3: 10,000 rows in 2 files, 5.0 MB, 2.0 s (5,000 rows/s)'
    >>> summary(SimpleNamespace(**done, bad_rows=1, bad_rows_file="b.jsonl", duplicates=3), None)[50:]
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


def about_sources(*spellings: str) -> tuple[Option, ...]:
    """Return the options that say how the sources are read; `spellings` are other names of `--format`."""
    formats = "parquet, csv, json, jsonl, orc, arrow or table; guessed from names otherwise"
    return section(
        "The sources",
        option("format", *spellings, "--format", metavar="F", help=formats),
        flag("--no-header", help="csv files begin with data: columns go by their order"),
        pairs("--source-option", help="how files are read, such as 'sep=;' or encoding=latin1; may be repeated"),
        option(
            "--bad-rows",
            metavar="DIR",
            type=click.Path(file_okay=False),
            help="rows that cannot be read go to a file there, with file, line and reason",
        ),
    )


def about_columns() -> tuple[Option, ...]:
    """Return the options that say which columns of the sources go where."""
    return section(
        "The columns",
        pairs("--rename", metavar="A=B", help="column A becomes B"),
        option("--columns", type=names, metavar="A,B", help="take these columns of the source only"),
        flag("--ignore-extra", help="leave out columns that the table lacks"),
        option("--schema-mode", type=click.Choice(("merge",)), help="merge: add columns that the table lacks"),
        pairs("--partition-spec", help="value of a partition column that the source lacks; what overwrite replaces"),
    )


def about_creation() -> tuple[Option, ...]:
    """Return the options that say how a table is made."""
    return section(
        "A new table",
        flag("--create", help="make the table if it is not there"),
        option("--primary-keys", "--primary-key", type=names, default=(), metavar="A,B", help="primary key columns"),
        option("--partition-keys", "--partition", type=names, default=(), metavar="A,B", help="partition columns"),
        pairs("--option", help="option of the table, such as bucket=4; may be repeated"),
        pairs("--type", metavar="A=T", help="type of a column, such as price='DECIMAL(10,2)', in place of a guess"),
    )


def _about_spark() -> tuple[Option, ...]:
    return section(
        "Spark",
        option("--master", metavar="URL", help="local[*] unless said, or what spark-submit says"),
        option("--remote", metavar="URL", help="a Spark Connect server, as sc://host:15002"),
        option("--memory", metavar="SIZE", help="of a local session, as 4g"),
        pairs("--conf", help="setting of the session"),
        option("--concurrency", type=int, metavar="N", help="at most so many tasks write"),
        option("--distribution", metavar="WAY", help="how rows are brought together for the tasks"),
    )


MODES = click.Choice(("append", "upsert", "overwrite", "delete"))
_ENGINE = f"auto: Spark for more than {LOCAL_BYTES_MAX >> 20} MB, and for what only Spark reads"
_SOURCE = "file, directory, pattern, table path or db.t"
COMMANDS = (
    Command(
        "ingest",
        _run,
        Argument(
            "source",
            "SOURCE...",
            _SOURCE,
            nargs=-1,
            required=True,
            type=click.Path(),
        ),
        option(
            "--table",
            "-t",
            required=True,
            metavar="TABLE",
            help="the table: db.t, or its path",
            shell_complete=names_of("table"),
        ),
        option("--mode", "-m", default="append", type=MODES, help="what is done with the rows (append)"),
        dry_run("show the plan; write and create nothing"),
        option("--engine", type=click.Choice(("auto", "local", "spark")), default="auto", help=_ENGINE),
        option("--job-id", metavar="ID", help="commit once: a second run with the same id writes nothing"),
        *about_sources(),
        *about_columns(),
        *about_creation(),
        *_about_spark(),
        more=_EXAMPLES,
    ),
)
