"""`lakewright import` and `lakewright write`: files or stdin into a table, by this process, in one commit."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from lakewright.cli.base.command import Argument, Arguments, Command, dry_run, option, table_argument
from lakewright.cli.base.output import Output
from lakewright.cli.base.place import catalog_of, is_path, need_catalog, split_name
from lakewright.cli.data.ingest import MODES, about_columns, about_creation, about_sources, settings_of, summary
from lakewright.errors import LakewrightError
from lakewright.ingestion.local import ingest

_STDIN = "-"
_FILES = "files, directories, patterns; - is stdin"
_SUFFIXES = {"csv": "csv", "tsv": "tsv", "json": "json", "jsonl": "jsonl", "ndjson": "jsonl", "parquet": "parquet"}
_SUFFIXES |= {"orc": "orc", "arrow": "arrow"}


def _run(args: Arguments, output: Output) -> None:
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
    if form.lower() not in _SUFFIXES:
        raise click.UsageError(f"--input-format {form!r} is none of {', '.join(_SUFFIXES)}")
    if sys.stdin.isatty():
        raise click.UsageError("- reads from stdin, which is a terminal: send a file there, or name the file")
    if sources.count(_STDIN) > 1:
        raise click.UsageError("stdin can be read once: give - once")
    with tempfile.TemporaryDirectory(prefix="lakewright-") as place:
        path = Path(place, f"stdin.{_SUFFIXES[form.lower()]}")
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield [str(path) if one == _STDIN else one for one in sources], str(path)


def _without_path(text: str, stdin: str | None) -> str:
    return text if stdin is None else text.replace(stdin, "stdin")


def _command(name: str) -> Command:
    return Command(
        name,
        _run,
        table_argument(),
        Argument("source", "FILE...", _FILES, nargs=-1, required=True, type=click.Path()),
        option("--mode", "-m", default="append", type=MODES, help="append, upsert, overwrite or delete (by keys)"),
        dry_run("show the plan; write and create nothing"),
        option("--job-id", metavar="ID", help="commit once: a second run with the same id writes nothing"),
        *about_sources("--input-format"),
        *about_columns(),
        *about_creation(),
        more="Parquet, csv, json, jsonl, orc and Arrow files are aligned to the schema of the table. All of them "
        "become visible in one commit, or none. 'ingest' does the same on Spark.",
    )


COMMANDS = (_command("import"), _command("write"))
