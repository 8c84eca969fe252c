"""`lakewright sql`: statements in, their rows out, embedded or on Spark; without a statement, a prompt.

Results go to stdout, or to a file, and everything else to stderr. In the format `table` every statement shows its rows,
in the others the rows of the last statement are the result, so that a script prints one value.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from lakewright.catalog.base import Catalog
from lakewright.cli.base.command import Argument, Arguments, Command, Option, option, pairs, section
from lakewright.cli.base.export import ROWS_MAX, format_of, opened, result_options, width_of
from lakewright.cli.base.interrupts import run_interruptibly
from lakewright.cli.base.output import Output
from lakewright.cli.base.place import need_catalog
from lakewright.cli.base.results import Shown, shown, write_rows
from lakewright.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from lakewright.statements.context import Context

_ENGINES = ("duckdb", "spark")
_ENGINE_MODULES = {"duckdb", "_duckdb", "pyspark", "py4j", "grpc"}


def _run(args: Arguments, output: Output) -> None:
    _check(args)
    is_prompt = args.statement is None and not args.file and sys.stdin.isatty()
    scripts = [] if is_prompt else _scripts(args)
    catalog = need_catalog(args)
    with _told(output), _context(args, catalog) as context, _engine_errors():
        if is_prompt:
            _prompt(context, args, output)
        else:
            _run_scripts(context, scripts, args, output)


def _check(args: Arguments) -> None:
    """End with a usage error if arguments do not fit together."""
    if args.statement is not None and args.file:
        raise click.UsageError("give statements or --file, not both")
    args.format = format_of(args)
    if args.engine != "spark" and any((args.master, args.remote, args.memory, args.conf)):
        raise click.UsageError("--master, --remote, --memory and --conf belong to --engine spark")


def _scripts(args: Arguments) -> list[str]:
    if args.statement is not None:
        return [args.statement]
    return [_script(name) for name in args.file or ["-"]]


def _script(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"the script {name} cannot be read: {error}", path=name) from error


# ---- running ---------------------------------------------------------------------------------------------------------


def _run_scripts(context: Context[Any], scripts: list[str], args: Arguments, output: Output) -> None:
    from lakewright.cli.shell.statements import bound_args, rows_of  # noqa: PLC0415 - a door: it needs sqlglot

    bound, last = bound_args(args.arg), pa.table({})
    as_table = args.format == "table"
    limit = ROWS_MAX if args.limit is None and as_table else args.limit
    lines: list[str] = []

    def run_all() -> None:
        nonlocal last, lines
        for rows in (rows for script in scripts for rows in context.each(script, bound)):
            last, is_cut = rows_of(rows, limit)
            if as_table:
                found = shown(last, limit=limit, width=width_of(args), is_cut=is_cut)
                lines += _show(found, output, to_file=args.output is not None)

    run_interruptibly(context.interrupt, run_all)
    with opened(args.output) as out:  # a statement that failed before leaves a file as it was
        if as_table:
            out.write("".join(lines).encode())
        else:
            write_rows(last if limit is None else last.slice(0, limit), args.format, out)
        out.flush()


def _show(found: Shown, output: Output, *, to_file: bool) -> list[str]:
    """Write a table for people; for a file, return its lines instead."""
    lines = [f"{line}\n" for line in found.lines]
    if not to_file:
        sys.stdout.buffer.writelines(line.encode("utf-8", "replace") for line in lines)
        sys.stdout.flush()
    for line in found.left_out:
        output.say(line)
    return lines if to_file else []


def _prompt(context: Context[Any], args: Arguments, output: Output) -> None:
    if args.format != "table" or args.output is not None:
        raise click.UsageError("the prompt shows tables: --format and --output belong to statements or a script")
    try:
        from lakewright.cli.shell.prompt import Prompt  # noqa: PLC0415 - a door: it needs prompt_toolkit
    except ImportError as error:
        raise _missing(error, "cli") from error
    Prompt(context, dict(args.arg), limit=args.limit, quiet=output.quiet).run()


# ---- engines ---------------------------------------------------------------------------------------------------------


@contextmanager
def _context(args: Arguments, catalog: Catalog) -> Iterator[Context[Any]]:
    """Run a context of the engine that the arguments name."""
    if args.engine == "duckdb":
        try:
            from lakewright.statements.embedded.context import SQLContext  # noqa: PLC0415 - a door
        except ImportError as error:
            raise _missing(error, "sql") from error
        yield SQLContext(catalog, args.database)
        return
    try:
        from lakewright.spark.jobs import launch  # noqa: PLC0415 - a door
        from lakewright.spark.statements.context import SQLContext as OnSpark  # noqa: PLC0415 - a door
    except ImportError as error:
        raise _missing(error, "spark,sql") from error
    # Errors are told by this command; Spark would log some forty lines for every attempt of a task.
    config = ({} if args.debug else {"spark.log.level": "OFF"}) | dict(args.conf)
    session = launch.running("lakewright sql", args.master, args.remote, memory=args.memory, config=config)
    with session as spark:
        yield OnSpark(spark, catalog, args.database)


@contextmanager
def _engine_errors() -> Iterator[None]:
    """Turn an error that the engine itself raised into one of ours: it is about the statement."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _ENGINE_MODULES:
            raise
        from lakewright.cli.shell.statements import engine_message  # noqa: PLC0415 - a door: it needs sqlglot

        raise InvalidInputError(engine_message(error)) from error


@contextmanager
def _told(output: Output) -> Iterator[None]:
    """Write warnings to stderr in one line each, without the place in the program."""

    def tell(message: Warning | str, *_: object, **__: object) -> None:
        output.say(f"warning: {message}")

    before = warnings.showwarning
    warnings.showwarning = tell
    try:
        yield
    finally:
        warnings.showwarning = before


def _missing(error: ImportError, extra: str) -> UnsupportedError:
    return UnsupportedError(f"{error.name} is not installed: pip install 'lakewright[{extra}]'", package=error.name)


def _about_engines() -> tuple[Option, ...]:
    return section(
        "The engine",
        option("--engine", type=click.Choice(_ENGINES), default="duckdb", help="duckdb, in this process, or spark"),
        option("--master", metavar="URL", help="of Spark: local[*] unless said"),
        option("--remote", metavar="URL", help="a Spark Connect server, as sc://host:15002"),
        option("--memory", metavar="SIZE", help="of a local Spark session, as 4g"),
        pairs("--conf", help="setting of the session"),
    )


_VALUE = "value of the parameter :K: a constant of SQL (5, true, '5', DATE '2026-01-31'), anything else is a text"
COMMANDS = (
    Command(
        "sql",
        _run,
        Argument("statement", "[SQL]", "statements with ; between them; without any: a prompt", required=False),
        *section(
            "What runs",
            option(
                "--file",
                "-f",
                multiple=True,
                metavar="F",
                type=click.Path(),
                help="run a script; - is stdin; may be repeated",
            ),
            option("--database", default="default", metavar="DB", help="the current database (default)"),
            pairs("--arg", help=_VALUE),
        ),
        *section("The result", *result_options()),
        *_about_engines(),
        more="Statements are in the dialect of Spark, and run in this process or on Spark. Without statements: a "
        "script from stdin, or on a terminal a prompt.",
    ),
)
