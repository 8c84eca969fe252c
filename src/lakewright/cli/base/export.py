"""Rows to stdout or to a file, batch by batch: in a format for programs, or the first of them as a table for people."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click
import pyarrow as pa

from lakewright.cli.base.command import Arguments, Option, option
from lakewright.cli.base.output import Output
from lakewright.cli.base.results import BINARY, FORMATS, shown, write_batches
from lakewright.cli.base.values import count

ROWS_MAX = 1000  # of the format `table`
STDOUT = "-"  # as the name of a file
_SUFFIXES = {"csv": "csv", "json": "json", "jsonl": "jsonl", "ndjson": "jsonl", "parquet": "parquet", "arrow": "arrow"}
_SUFFIXES |= {"txt": "table"}


def result_options() -> tuple[Option, ...]:
    """Return `--format`, `--output` and `--limit`."""
    return (
        option(
            "--format",
            type=click.Choice(FORMATS),
            help="table, or what --json or the name of the output file says",
        ),
        option(
            "--output",
            "-o",
            metavar="F",
            type=click.Path(),
            help="write the rows to this file, whose ending may say the format; - is stdout",
        ),
        option("--limit", "-n", type=count, metavar="N", help=f"at most so many rows (table: {ROWS_MAX})"),
    )


def format_of(args: Arguments) -> str:
    """Return the format of the rows; raise a usage error if they cannot go where they should."""
    if args.output == STDOUT:
        args.output = None
    _check_output(args.output)
    suffix = "" if args.output is None else Path(args.output).suffix.lstrip(".").lower()
    form = args.format or ("json" if args.json else _SUFFIXES.get(suffix))
    if form is None and args.output is not None:
        raise click.UsageError(
            f"the name {args.output} says no format: end it with .{', .'.join(_SUFFIXES)}, or give --format"
        )
    if form in BINARY and args.output is None and sys.stdout.isatty():
        raise click.UsageError(f"{form} is no text: give --output, or send stdout elsewhere")
    return str(form or "table")


def _check_output(path: str | None) -> None:
    """Raise a usage error if there is no directory for a file, or if the file is a directory."""
    if path is None:
        return
    if not Path(path).absolute().parent.is_dir():
        raise click.UsageError(f"there is no directory for {path}: make it first")
    if Path(path).is_dir():
        raise click.UsageError(f"{path} is a directory: name a file in it")


def rows_asked(args: Arguments, form: str) -> int | None:
    """Return how many rows to read: for people one more than they see, to know whether there are more."""
    if form != "table":
        return None if args.limit is None else int(args.limit)
    return (ROWS_MAX if args.limit is None else int(args.limit)) + (args.limit is None)


def write_result(reader: pa.RecordBatchReader, args: Arguments, form: str, output: Output) -> int:
    """Write rows as they come; return how many. A file appears when all of them are written."""
    counter = _Counter()
    with opened(args.output) as out:
        if form == "table":
            counter.rows = _write_table(reader, args, out, output)
        else:
            write_batches(reader.schema, counter.counted(reader), form, out)
        out.flush()
    return counter.rows


def width_of(args: Arguments) -> int | None:
    """Return how wide a table may be; None: as wide as it is."""
    return shutil.get_terminal_size().columns if args.output is None and sys.stdout.isatty() else None


class _Counter:
    """Counts the rows of batches that pass."""

    def __init__(self) -> None:
        self.rows = 0

    def counted(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        for batch in reader:
            self.rows += batch.num_rows
            yield batch


def _write_table(reader: pa.RecordBatchReader, args: Arguments, out: BinaryIO, output: Output) -> int:
    rows = reader.read_all()
    limit = ROWS_MAX if args.limit is None else args.limit
    width = width_of(args)
    found = shown(rows.slice(0, limit), width=width, is_cut=rows.num_rows > limit)
    out.writelines(f"{line}\n".encode("utf-8", "replace") for line in found.lines)
    out.flush()
    for line in found.left_out:
        output.say(line)
    return int(min(rows.num_rows, limit))


@contextmanager
def opened(path: str | None) -> Iterator[BinaryIO]:
    """Open stdout, or a file that takes its name when it is whole; a run that fails leaves an older file as it was.

    A link is followed, and what is no regular file, such as /dev/null or a pipe, is written to: a file in its place
    would destroy it.
    """
    if path is None:
        yield sys.stdout.buffer
        return
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    part = target.with_name(f"{target.name}.part-{os.getpid()}")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
