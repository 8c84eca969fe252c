"""`lakewright files`, `schemas` and `partitions`: what the metadata of a table says. No data file is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakewright.catalog.system.tables import system_table
from lakewright.cli.base.command import Arguments, Command, Option, limit, table_argument
from lakewright.cli.base.output import Output, instant
from lakewright.cli.base.place import table_of
from lakewright.cli.base.secrets import shown_options
from lakewright.cli.base.states import STATES, older_states
from lakewright.errors import counted
from lakewright.read.request import ReadRequest
from lakewright.table.table import FileStoreTable

_ROWS_MAX = 100


def _files(args: Arguments, output: Output) -> None:
    table = _at(args)
    rows = _rows(table, "files")
    shown = [
        {
            "partition": row["partition"],
            "bucket": row["bucket"],
            "level": row["level"],
            "rows": row["record_count"],
            "bytes": row["file_size_in_bytes"],
            "source": row["file_source"],
            "file": row["file_path"],
        }
        for row in rows
    ]
    _show(args, output, rows, shown, empty=f"{table.name} has no data files")
    if rows and not output.as_json:
        rows_of, size = (sum(int(str(row[name])) for row in shown) for name in ("rows", "bytes"))
        output.say(f"{counted(len(rows), 'file')}, {counted(rows_of, 'record')}, {size:,} bytes")


def _partitions(args: Arguments, output: Output) -> None:
    table = _at(args)
    rows = _rows(table, "partitions")
    shown = [
        {
            "partition": row["partition"],
            "rows": row["record_count"],
            "files": row["file_count"],
            "bytes": row["file_size_in_bytes"],
            "buckets": row["total_buckets"],
            "updated": None if row["last_update_time"] is None else str(row["last_update_time"])[:19],
        }
        for row in rows
    ]
    keys = "" if table.partition_keys else ": it is not partitioned"
    shown_all = shown if table.partition_keys else []
    _show(args, output, rows, shown_all, empty=f"{table.name} has no partitions{keys}")


def _schemas(args: Arguments, output: Output) -> None:
    table = table_of(args)
    schemas = sorted(table.store.schemas.all(), key=lambda one: one.id, reverse=True)
    facts = [
        {
            "schema": one.id,
            "time": instant(one.time_millis),
            "columns": [{"column": f.name, "type": str(f.type), "comment": f.description} for f in one.fields],
            "primary_keys": list(one.primary_keys),
            "partition_keys": list(one.partition_keys),
            "options": shown_options(one.options),
            "comment": one.comment,
        }
        for one in schemas
    ]
    shown = [
        {
            "schema": one.id,
            "time": instant(one.time_millis),
            "columns": ", ".join(f"{f.name} {f.type}" for f in one.fields),
            "primary_keys": list(one.primary_keys),
            "options": ", ".join(f"{key}={value}" for key, value in shown_options(one.options).items()) or None,
        }
        for one in schemas
    ]
    _show(args, output, facts, shown, empty=f"{table.name} has no schema")


def _at(args: Arguments) -> FileStoreTable:
    """Return the table at the state that the arguments name."""
    table = table_of(args)
    options = ReadRequest(snapshot_id=args.snapshot, tag=args.tag, timestamp=args.at).travel_options(table.name)
    return table.copy(options) if options else table


def _rows(table: FileStoreTable, view: str) -> list[dict[str, object]]:
    found = system_table(table, view).to_arrow()
    rows: list[dict[str, object]] = pa.Table.to_pylist(found)
    return rows


def _show(
    args: Arguments,
    output: Output,
    facts: Sequence[Mapping[str, object]],
    shown: Sequence[Mapping[str, object]],
    *,
    empty: str,
) -> None:
    """Write all facts as JSON, or the first rows for people."""
    if output.as_json:
        output.table(list(facts), empty=empty)
        return
    rows_max = _ROWS_MAX if args.limit is None else args.limit
    output.table(list(shown[:rows_max]), empty=empty)
    if len(shown) > rows_max:
        output.say(f"... {counted(len(shown) - rows_max, 'more row')}; --limit shows more, --json all")


def _states() -> tuple[Option, ...]:
    return (
        *older_states(),
        limit(f"at most so many rows for people ({_ROWS_MAX})"),
    )


COMMANDS = (
    Command("files", _files, table_argument(), *_states(), exclusive=STATES),
    Command("partitions", _partitions, table_argument(), *_states(), exclusive=STATES),
    Command("schemas", _schemas, table_argument(), limit(f"at most so many rows for people ({_ROWS_MAX})")),
)
