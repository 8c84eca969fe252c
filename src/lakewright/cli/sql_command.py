"""`lakewright sql`."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
import pyarrow as pa

from lakewright.catalog.catalog import Catalog
from lakewright.cli.catalog_options import need_catalog
from lakewright.cli.cli_options import Arguments, CliArgument, CliCommand, CliOption, option, pairs, section
from lakewright.cli.cli_output import CommandOutput
from lakewright.cli.cli_results import (
    ROWS_MAX,
    Shown,
    format_of,
    open_output,
    render_table,
    result_options,
    width_of,
    write_rows,
)
from lakewright.cli.interrupts import run_interruptibly
from lakewright.errors import InvalidInputError, SQLSyntaxError, UnsupportedError
from lakewright.statements.parse_show import read_constant
from lakewright.statements.sql_text import Args, Fragment
from lakewright.statements.token_cursor import TokenCursor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakewright.statements.sql_context import Context


# ---- Parameters and rows of statements -------------------------------------------------------------------------------


def bound_args(given: Iterable[tuple[str, str]]) -> Args:
    """Return the values of parameters that are given as text."""
    return {name: argument(text) for name, text in given}


def argument(text: str) -> object:
    """Return what a text means: a constant of SQL is its value, anything else is the text itself.

    A number with leading zeros is a text, as it is more often a code than a number.

    >>> argument("5"), argument("'5'"), argument("05"), argument("2026-01-31"), argument("null")
    (5, '5', '05', '2026-01-31', None)
    """
    stripped = text.strip()
    if stripped.lstrip("-").startswith("0") and stripped.lstrip("-").isdecimal() and stripped != "0":
        return text
    try:
        cursor = TokenCursor(Fragment(text, 0, len(text)))
        value = read_constant(cursor)
        cursor.expect_end()
    except SQLSyntaxError:
        return text
    return value


def rows_of(rows: object, limit: int | None = None) -> tuple[pa.Table, bool]:
    """Return the rows that a context returned as an Arrow table, and whether a frame had more than a limit."""
    if isinstance(rows, pa.Table):
        return rows, False
    from lakewright.spark.frame_operations import to_arrow  # noqa: PLC0415 - lazy

    frame = cast("DataFrame", rows)
    if limit is None:
        return to_arrow(frame), False
    table = to_arrow(frame.limit(limit + 1))
    return table.slice(0, limit), table.num_rows > limit


def engine_message(error: Exception) -> str:
    """Return the message of an error of an engine without the plan and the stack that Spark adds."""
    return re.split(r"\n\nJVM stacktrace|;\n['+*]", str(error))[0].strip() or type(error).__name__


# ---- The command sql -------------------------------------------------------------------------------------------------
# Results go to stdout, or to a file, and everything else to stderr. In the format `table` every statement shows its
# rows, in the others the rows of the last statement are the result, so that a script prints one value.

_ENGINES = ("duckdb", "spark")
_ENGINE_MODULES = {"duckdb", "_duckdb", "pyspark", "py4j", "grpc"}


def _run(args: Arguments, output: CommandOutput) -> None:
    _check(args)
    is_prompt = args.statement is None and not args.file and sys.stdin.isatty()
    scripts = [] if is_prompt else _scripts(args)
    catalog = need_catalog(args)
    with _warnings_to_stderr(output), _context(args, catalog) as context, _engine_errors():
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


def _run_scripts(context: Context[Any], scripts: list[str], args: Arguments, output: CommandOutput) -> None:

    bound, last = bound_args(args.arg), pa.table({})
    as_table = args.format == "table"
    limit = ROWS_MAX if args.limit is None and as_table else args.limit
    lines: list[str] = []

    def run_all() -> None:
        nonlocal last, lines
        for rows in (rows for script in scripts for rows in context.each(script, bound)):
            last, is_cut = rows_of(rows, limit)
            if as_table:
                found = render_table(last, limit=limit, width=width_of(args), is_cut=is_cut)
                lines += _show(found, output, to_file=args.output is not None)

    run_interruptibly(context.interrupt, run_all)
    with open_output(args.output) as out:  # a statement that failed before leaves a file as it was
        if as_table:
            out.write("".join(lines).encode())
        else:
            write_rows(last if limit is None else last.slice(0, limit), args.format, out)
        out.flush()


def _show(found: Shown, output: CommandOutput, *, to_file: bool) -> list[str]:
    """Write a table for people; for a file, return its lines instead."""
    lines = [f"{line}\n" for line in found.lines]
    if not to_file:
        sys.stdout.buffer.writelines(line.encode("utf-8", "replace") for line in lines)
        sys.stdout.flush()
    for line in found.left_out:
        output.say(line)
    return lines if to_file else []


def _prompt(context: Context[Any], args: Arguments, output: CommandOutput) -> None:
    if args.format != "table" or args.output is not None:
        raise click.UsageError("the prompt shows tables: --format and --output belong to statements or a script")
    try:
        from lakewright.cli.sql_prompt import Prompt  # noqa: PLC0415 - lazy: it needs prompt_toolkit
    except ImportError as error:
        raise _missing(error, "cli") from error
    Prompt(context, dict(args.arg), limit=args.limit, quiet=output.quiet).run()


# ---- engines ---------------------------------------------------------------------------------------------------------


@contextmanager
def _context(args: Arguments, catalog: Catalog) -> Iterator[Context[Any]]:
    """Run a context of the engine that the arguments name."""
    if args.engine == "duckdb":
        try:
            from lakewright.statements.embedded.embedded_context import SQLContext  # noqa: PLC0415 - lazy
        except ImportError as error:
            raise _missing(error, "sql") from error
        yield SQLContext(catalog, args.database)
        return
    try:
        from lakewright.spark import spark_session  # noqa: PLC0415 - lazy
        from lakewright.spark.spark_sql_context import SQLContext as OnSpark  # noqa: PLC0415 - lazy
    except ImportError as error:
        raise _missing(error, "spark,sql") from error
    # Errors are told by this command; Spark would log some forty lines for every attempt of a task.
    config = ({} if args.debug else {"spark.log.level": "OFF"}) | dict(args.conf)
    session = spark_session.running("lakewright sql", args.master, args.remote, memory=args.memory, config=config)
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

        raise InvalidInputError(engine_message(error)) from error


@contextmanager
def _warnings_to_stderr(output: CommandOutput) -> Iterator[None]:
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


def _about_engines() -> tuple[CliOption, ...]:
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
    CliCommand(
        "sql",
        _run,
        CliArgument("statement", "[SQL]", "statements with ; between them; without any: a prompt", required=False),
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
