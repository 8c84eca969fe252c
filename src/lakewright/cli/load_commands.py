"""import, ingest, migrate, copy."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from lakewright.catalog.catalog import Catalog
from lakewright.catalog.catalog_registry import CatalogFactory
from lakewright.cli.catalog_options import catalog_of, is_path, named_table, need_catalog, split_name, table_of
from lakewright.cli.cli_options import (
    Arguments,
    CliArgument,
    CliCommand,
    CliOption,
    delete_or_list,
    dry_run,
    flag,
    names_of,
    option,
    pairs,
    section,
    split_names,
    table_argument,
)
from lakewright.cli.cli_output import CommandOutput
from lakewright.dml.distributed_write import snapshot_of_job
from lakewright.errors import InvalidInputError, LakewrightError, UnsupportedError, pluralize
from lakewright.ingestion.copy_table import copy_table
from lakewright.ingestion.ingest_plan import IngestResult, check_matches_table, find_target, make_call
from lakewright.ingestion.ingest_sources import ARROW, IngestSource, find_sources
from lakewright.ingestion.local_ingest import LOCAL_BYTES_MAX, ingest
from lakewright.ingestion.migrate_table import migrate
from lakewright.ingestion.source_files import why_spark_is_needed
from lakewright.table.verbs import check_write_mode

# ---- ingest ----------------------------------------------------------------------------------------------------------

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


def _ingest(args: Arguments, output: CommandOutput) -> None:
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
        check_write_mode(table, args.mode, args.schema_mode)
        check_matches_table(table, call.creation, call.types)
    done = table is not None and args.job_id is not None and snapshot_of_job(table.store, args.job_id) is not None
    sources = args.source if done else find_sources(args.source, format=args.format, catalog=catalog)
    if done or not _on_spark(args, [one for one in sources if isinstance(one, IngestSource)]):
        result = ingest(sources, target, **given)
    else:
        result = _ingest_on_spark(args, sources, {**given, "table": target}, quiet=output.quiet)
    output.result(result.to_dict(), summary(result, args.job_id))


def _on_spark(args: Arguments, sources: Sequence[IngestSource]) -> bool:
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
    args: Arguments, sources: Sequence[IngestSource], given: Mapping[str, Any], *, quiet: bool
) -> IngestResult:
    try:
        from lakewright.spark import spark_ingest, spark_session  # noqa: PLC0415 - lazy
    except ImportError as error:
        raise UnsupportedError(
            f"this ingest needs Spark, and {error.name} is not installed: pip install 'lakewright[spark]' (or "
            "'lakewright[spark-jre]' on a machine without Java); local files can do without (--engine local)"
        ) from error
    # This command reports an error in one line; Spark would log some forty lines for every attempt of a task.
    config = ({} if args.debug else {"spark.log.level": "OFF"}) | dict(args.conf)
    session = spark_session.running("lakewright ingest", args.master, args.remote, memory=args.memory, config=config)
    with session as spark:
        return spark_ingest.ingest(
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
    bad = f"; {pluralize(result.bad_rows, 'bad row')} in {result.bad_rows_file}" if result.bad_rows else ""
    if result.snapshot_id is None:
        return f"nothing was written: the sources hold no rows{' that fit' if bad else ''}{bad}"
    speed = result.rows / max(result.seconds, 1e-9)
    again = f"; {pluralize(result.duplicates, 'row')} had the key of another" if result.duplicates else ""
    return (
        f"snapshot {result.snapshot_id}: {pluralize(result.rows, 'row')} in {pluralize(result.files, 'file')}, "
        f"{result.bytes / 1e6:,.1f} MB, {result.seconds:,.1f} s ({speed:,.0f} rows/s){again}{bad}"
    )


def about_sources(*spellings: str) -> tuple[CliOption, ...]:
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


def about_columns() -> tuple[CliOption, ...]:
    """Return the options that say which columns of the sources go where."""
    return section(
        "The columns",
        pairs("--rename", metavar="A=B", help="column A becomes B"),
        option("--columns", type=split_names, metavar="A,B", help="take these columns of the source only"),
        flag("--ignore-extra", help="leave out columns that the table lacks"),
        option("--schema-mode", type=click.Choice(("merge",)), help="merge: add columns that the table lacks"),
        pairs("--partition-spec", help="value of a partition column that the source lacks; what overwrite replaces"),
    )


def about_creation() -> tuple[CliOption, ...]:
    """Return the options that say how a table is made."""
    return section(
        "A new table",
        flag("--create", help="make the table if it is not there"),
        option(
            "--primary-keys", "--primary-key", type=split_names, default=(), metavar="A,B", help="primary key columns"
        ),
        option(
            "--partition-keys", "--partition", type=split_names, default=(), metavar="A,B", help="partition columns"
        ),
        pairs("--option", help="option of the table, such as bucket=4; may be repeated"),
        pairs("--type", metavar="A=T", help="type of a column, such as price='DECIMAL(10,2)', in place of a guess"),
    )


def _about_spark() -> tuple[CliOption, ...]:
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
_INGEST_COMMANDS = (
    CliCommand(
        "ingest",
        _ingest,
        CliArgument(
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


# ---- import, write ---------------------------------------------------------------------------------------------------

_STDIN = "-"
_FILES = "files, directories, patterns; - is stdin"
_IMPORT_SUFFIXES = {
    "csv": "csv",
    "tsv": "tsv",
    "json": "json",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "parquet": "parquet",
}
_IMPORT_SUFFIXES |= {"orc": "orc", "arrow": "arrow"}


def _import_data(args: Arguments, output: CommandOutput) -> None:
    named, target = split_name(args.table)
    catalog = catalog_of(args) if is_path(target) else need_catalog(args, named, may_be_new=args.create)
    with _with_stdin(args.source, args.format) as (sources, stdin):
        settings = settings_of(args, catalog) | {"say": lambda line: output.say(_without_path(line, stdin))}
        try:
            with output.progress(f"writing to {args.table}"):
                result = ingest(sources, target, **settings)
        except LakewrightError as error:
            if stdin is None or stdin not in str(error):
                raise
            raise type(error)(_without_path(str(error), stdin), **error.facts) from None
    output.result(result.to_dict(), summary(result, args.job_id))


@contextmanager
def _with_stdin(sources: Sequence[str], form: str | None) -> Iterator[tuple[list[str], str | None]]:
    """Yield the sources, with a file in place of stdin, and the path of that file; None: stdin is not among them."""
    if _STDIN not in sources:
        yield list(sources), None
        return
    if form is None:
        raise click.UsageError("stdin has no name to guess a format from: give --input-format csv, or another")
    if form.lower() not in _IMPORT_SUFFIXES:
        raise click.UsageError(f"--input-format {form!r} is none of {', '.join(_IMPORT_SUFFIXES)}")
    if sys.stdin.isatty():
        raise click.UsageError("- reads from stdin, which is a terminal: send a file there, or name the file")
    if sources.count(_STDIN) > 1:
        raise click.UsageError("stdin can be read once: give - once")
    with tempfile.TemporaryDirectory(prefix="lakewright-") as place:
        path = Path(place, f"stdin.{_IMPORT_SUFFIXES[form.lower()]}")
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield [str(path) if one == _STDIN else one for one in sources], str(path)


def _without_path(text: str, stdin: str | None) -> str:
    return text if stdin is None else text.replace(stdin, "stdin")


def _command(name: str) -> CliCommand:
    return CliCommand(
        name,
        _import_data,
        table_argument(),
        CliArgument("source", "FILE...", _FILES, nargs=-1, required=True, type=click.Path()),
        option("--mode", "-m", default="append", type=MODES, help="append, upsert, overwrite or delete (by keys)"),
        dry_run("show the plan; write and create nothing"),
        option("--job-id", metavar="ID", help="commit once: a second run with the same id writes nothing"),
        *about_sources("--input-format"),
        *about_columns(),
        *about_creation(),
        more="Parquet, csv, json, jsonl, orc and Arrow files are aligned to the schema of the table. All of them "
        "become visible in one commit, or none. 'ingest' does the same on Spark.",
    )


_IMPORT_COMMANDS = (_command("import"), _command("write"))


# ---- migrate, copy, repair -------------------------------------------------------------------------------------------


def _migrate(args: Arguments, output: CommandOutput) -> None:
    with output.progress(f"reading the footers of {args.source}"):
        catalog, name = named_table(args)
        done = migrate(
            catalog,
            name,
            args.source,
            format=args.format,
            partition_types=dict(args.partition_type) or None,
            options=dict(args.option) or None,
            copy=args.copy,
            dry_run=args.dry_run,
        )
    for path in done.left:
        output.say(f"stays where it is: {path}")
    verb = "would move" if done.dry_run else "copied" if done.copied else "moved"
    where = "" if done.snapshot_id is None else f"snapshot {done.snapshot_id}: "
    output.result(
        asdict(done),
        f"{where}{verb} {pluralize(done.files, 'file')} with {pluralize(done.rows, 'row')} "
        f"({done.bytes / 1e6:,.1f} MB) "
        f"into {done.table} ({', '.join(done.columns)}), {done.seconds:,.1f} s",
    )


def _copy(args: Arguments, output: CommandOutput) -> None:
    options = {**dict(args.catalog_option), "warehouse": args.to}
    named, target = split_name(args.target)
    catalog = need_catalog(args, named) if args.to is None else CatalogFactory.create(options)
    with output.progress(f"copying {args.table}"):
        done = copy_table(
            table_of(args),
            catalog,
            target,
            snapshot_id=args.snapshot,
            tag=args.tag,
            where=args.where,
            dry_run=args.dry_run,
        )
    verb = "would copy" if done.dry_run else "copied"
    output.result(
        asdict(done),
        f"{verb} snapshot {done.source_snapshot_id} to {done.table}: {pluralize(done.files, 'file')} with "
        f"{pluralize(done.rows, 'row')}, {done.bytes / 1e6:,.1f} MB, {done.seconds:,.1f} s",
    )


def _repair(args: Arguments, output: CommandOutput) -> None:
    done = table_of(args).repair(dry_run=args.dry_run)
    for step in done.steps:
        output.say(step.message)
    repaired = sum(step.repaired for step in done.steps)
    verb = "would repair" if done.dry_run else "repaired"
    text = (
        f"{verb} {pluralize(repaired, 'thing')}, {len(done.steps) - repaired} left" if done.steps else "all is in order"
    )
    output.result(asdict(done), text)


def _unexisting(args: Arguments, output: CommandOutput) -> None:
    with output.progress(f"looking for the data files of {args.table}"):
        done = table_of(args).remove_unexisting_files(dry_run=not args.delete)
    for path in done.paths:
        output.say(path)
    verb = "found (--delete removes them from the table):" if done.dry_run else "removed"
    output.result(
        asdict(done), f"{verb} {pluralize(done.count, 'missing file')} with {pluralize(done.rows, 'row')} that are lost"
    )


_MOVE_COMMANDS = (
    CliCommand(
        "migrate",
        _migrate,
        CliArgument("source", "DIRECTORY", "where the parquet, orc or avro files are"),
        table_argument("the new table, db.t"),
        option("--format", type=click.Choice(("parquet", "orc", "avro")), help="every file must be one of these"),
        pairs(
            "--partition-type",
            metavar="COLUMN=TYPE",
            help="the type of a partition column, such as day=DATE; without it BIGINT, DATE or STRING is guessed",
        ),
        pairs("--option", help="option of the table"),
        flag("--copy", help="copy the files and leave the old ones"),
        dry_run("move nothing, say what the table would be"),
    ),
    CliCommand(
        "copy",
        _copy,
        table_argument(),
        CliArgument("target", "DB.NEW", "the new table"),
        option("--to", metavar="W", help="the warehouse of the new table; without it, that of the old one"),
        option("--snapshot", type=int, metavar="N", help="the snapshot to copy, in place of the newest"),
        option("--tag", metavar="NAME", help="the tag to copy, in place of the newest snapshot"),
        option("--where", metavar="CONDITION", help="only partitions that fulfil it, such as \"day > '2026'\""),
        dry_run("copy nothing, say how much it would be"),
        exclusive=[("--snapshot", "--tag")],
    ),
    CliCommand("repair", _repair, table_argument(), dry_run("change nothing, say what would be repaired")),
    CliCommand(
        "remove-unexisting",
        _unexisting,
        table_argument(),
        *delete_or_list("remove them from the table"),
        exclusive=[("--delete", "--dry-run")],
    ),
)


COMMANDS = (*_INGEST_COMMANDS, *_IMPORT_COMMANDS, *_MOVE_COMMANDS)
