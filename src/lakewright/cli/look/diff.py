"""`lakewright diff`: the rows that changed between two snapshots, and how many.

With a primary key rows are compared by key: `+I` is a new key, `-D` one that is gone, `-U` and `+U` a row before and
after it changed. Without one, rows are `+I` or `-D`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import click
import pyarrow as pa

from lakewright.catalog.open import read_builder
from lakewright.cli.base.command import Argument, Arguments, Command, option, section, table_argument
from lakewright.cli.base.export import ROWS_MAX, format_of, result_options, write_result
from lakewright.cli.base.output import Output
from lakewright.cli.base.place import table_of
from lakewright.cli.base.results import json_rows
from lakewright.cli.base.values import names
from lakewright.errors import counted
from lakewright.read.request import ReadRequest
from lakewright.table.table import FileStoreTable

_KIND = "_row_kind"


def _diff(args: Arguments, output: Output) -> None:
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
            reader.schema, _counted(reader, kinds, rows_max if args.limit is None else args.limit)
        )
        if output.as_json and args.format is None:
            _write_json(args, output, shown, kinds)
            return
        rows = shown.read_all().to_reader() if form == "table" else shown
        if form != "table" or kinds:
            write_result(rows, args, form, output)
    output.say(_summary(kinds))


def _write_json(args: Arguments, output: Output, shown: pa.RecordBatchReader, kinds: Counter[str]) -> None:
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


def _counted(reader: pa.RecordBatchReader, kinds: Counter[str], rows_max: int | None) -> Iterator[pa.RecordBatch]:
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
    return f"{counted(counts['added'], 'row')} added, {counts['removed']:,} removed, {counts['changed']:,} changed"


COMMANDS = (
    Command(
        "diff",
        _diff,
        table_argument(),
        Argument("first", "SNAP1", "the older snapshot, or a tag; 0 is the empty table"),
        Argument("last", "SNAP2", "the newer snapshot, or a tag"),
        option("--select", "-s", type=names, metavar="A,B", help="these columns"),
        option("--where", metavar="CONDITION", help='rows that fulfil it, such as "id > 3"'),
        *section("The result", *result_options()),
        more="+I is a row that was added, -D one that was removed; with a primary key -U and +U are a row before and "
        "after it changed.",
    ),
)
