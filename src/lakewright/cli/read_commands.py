"""read, explain, diff."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace

import click
import pyarrow as pa

from lakewright.cli.catalog_options import table_of, table_or_view_of
from lakewright.cli.cli_options import (
    STATES,
    Arguments,
    CliArgument,
    CliCommand,
    CliOption,
    count,
    flag,
    older_states,
    option,
    section,
    split_names,
    table_argument,
)
from lakewright.cli.cli_output import CommandOutput
from lakewright.cli.cli_results import ROWS_MAX, format_of, json_rows, result_options, rows_asked, write_result
from lakewright.errors import pluralize
from lakewright.read.read_builder import ReadRequest
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.open_table import read_builder

# ---- read, explain ---------------------------------------------------------------------------------------------------


def _read(args: Arguments, output: CommandOutput) -> None:
    form = format_of(args)
    request = replace(_request(args), limit=rows_asked(args, form))
    with read_builder(table_or_view_of(args), request).new_read().to_arrow_batch_reader() as reader:
        rows = write_result(reader, args, form, output)
    if args.output is not None:
        output.say(f"{pluralize(rows, 'row')} in {args.output}")


def _explain(args: Arguments, output: CommandOutput) -> None:
    table = table_of(args)
    request = _request(args)
    options = request.travel_options(table.name)
    builder = request.apply_to((table.copy(options) if options else table).new_read_builder())
    plan = builder.explain(args.verbose)
    output.result(asdict(replace(plan, splits=None)) | {"splits": _splits(plan.splits)}, str(plan))


def _splits(splits: object) -> object:
    """Return the splits of a plan without the facts of each file that its paths stand for."""
    if not isinstance(splits, list):
        return None
    return [asdict(replace(one, data_files=[])) for one in splits]


def _request(args: Arguments) -> ReadRequest:
    return ReadRequest(
        filter=args.where,
        columns=args.select,
        limit=args.limit,
        snapshot_id=args.snapshot,
        tag=args.tag,
        timestamp=args.at,
    )


def _what() -> tuple[CliOption, ...]:
    return (
        option("--select", "-s", type=split_names, metavar="A,B", help="these columns, in this order"),
        option("--where", metavar="CONDITION", help="rows that fulfil it, such as \"id > 3 AND name LIKE 'a%'\""),
        *older_states(),
    )


_READ_COMMANDS = (
    CliCommand(
        "read",
        _read,
        table_argument(),
        *_what(),
        *section("The result", *result_options()),
        exclusive=STATES,
        more="Rows are written as they are read, but for --format table. Files and parts of files that cannot hold "
        "rows of --where are not read.",
    ),
    CliCommand(
        "explain",
        _explain,
        table_argument(),
        *_what(),
        option("--limit", "-n", type=count, metavar="N", help="as for read"),
        flag("--verbose", "-v", help="every split and its files"),
        exclusive=STATES,
    ),
)


# ---- diff ------------------------------------------------------------------------------------------------------------
# With a primary key rows are compared by key: `+I` is a new key, `-D` one that is gone, `-U` and `+U` a row before
# and after it changed. Without one, rows are `+I` or `-D`.

_KIND = "_row_kind"


def _diff(args: Arguments, output: CommandOutput) -> None:
    form = format_of(args)
    table = table_of(args)
    ends = (_end(args.first), _end(args.last))
    if _id(table, ends[0]) > _id(table, ends[1]):
        raise click.UsageError(f"SNAP1 is the older one: lakewright diff {args.table} {args.last} {args.first}")
    request = ReadRequest(
        filter=args.where, columns=args.select, incremental=ends, incremental_mode="diff", row_kinds=True
    )
    kinds: Counter[str] = Counter()
    with read_builder(table, request).new_read().to_arrow_batch_reader() as reader:
        rows_max = ROWS_MAX + 1 if form == "table" or output.as_json else None
        shown = pa.RecordBatchReader.from_batches(
            reader.schema, _count_kinds(reader, kinds, rows_max if args.limit is None else args.limit)
        )
        if output.as_json and args.format is None:
            _write_json(args, output, shown, kinds)
            return
        rows = shown.read_all().to_reader() if form == "table" else shown
        if form != "table" or kinds:
            write_result(rows, args, form, output)
    output.say(_summary(kinds))


def _write_json(args: Arguments, output: CommandOutput, shown: pa.RecordBatchReader, kinds: Counter[str]) -> None:
    rows = shown.read_all()
    left_out = max(rows.num_rows - ROWS_MAX, 0) if args.limit is None else 0
    facts = {
        "from": args.first,
        "to": args.last,
        **_counts(kinds),
        "rows": list(json_rows(rows.slice(0, rows.num_rows - left_out))),
        "is_cut": sum(kinds.values()) > rows.num_rows - left_out,
    }
    output.result(facts, "")


def _end(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _id(table: FileStoreTable, end: int | str) -> int:
    if end == 0:
        return 0  # before the first snapshot
    found = table.snapshot(end) if isinstance(end, int) else table.snapshot(tag=end)
    return 0 if found is None else found.id


def _count_kinds(reader: pa.RecordBatchReader, kinds: Counter[str], rows_max: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the first rows, and count the kinds of all."""
    seen = 0
    for batch in reader:
        for pair in batch.column(_KIND).value_counts().to_pylist():
            kinds[pair["values"]] += pair["counts"]
        left = batch.num_rows if rows_max is None else min(max(rows_max - seen, 0), batch.num_rows)
        seen += left
        if left:
            yield batch.slice(0, left)


def _counts(kinds: Counter[str]) -> dict[str, int]:
    return {"added": kinds["+I"], "removed": kinds["-D"], "changed": kinds["+U"]}


def _summary(kinds: Counter[str]) -> str:
    """Return the counts in words.

    >>> _summary(Counter({"+I": 2, "-U": 1, "+U": 1})), _summary(Counter())
    ('2 rows added, 0 removed, 1 changed', 'no row changed')
    """
    counts = _counts(kinds)
    if not any(counts.values()):
        return "no row changed"
    return f"{pluralize(counts['added'], 'row')} added, {counts['removed']:,} removed, {counts['changed']:,} changed"


_DIFF_COMMANDS = (
    CliCommand(
        "diff",
        _diff,
        table_argument(),
        CliArgument("first", "SNAP1", "the older snapshot, or a tag; 0 is the empty table"),
        CliArgument("last", "SNAP2", "the newer snapshot, or a tag"),
        option("--select", "-s", type=split_names, metavar="A,B", help="these columns"),
        option("--where", metavar="CONDITION", help='rows that fulfil it, such as "id > 3"'),
        *section("The result", *result_options()),
        more="+I is a row that was added, -D one that was removed; with a primary key -U and +U are a row before and "
        "after it changed.",
    ),
)


COMMANDS = (*_READ_COMMANDS, *_DIFF_COMMANDS)
