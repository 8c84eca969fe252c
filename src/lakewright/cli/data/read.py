"""`lakewright read` and `lakewright explain`: the rows of a table, and what reading them would do."""

from __future__ import annotations

from dataclasses import asdict, replace

from lakewright.catalog.open import read_builder
from lakewright.cli.base.command import Arguments, Command, Option, flag, option, section, table_argument
from lakewright.cli.base.export import format_of, result_options, rows_asked, write_result
from lakewright.cli.base.output import Output
from lakewright.cli.base.place import table_of, table_or_view_of
from lakewright.cli.base.states import STATES, older_states
from lakewright.cli.base.values import count, names
from lakewright.errors import counted
from lakewright.read.request import ReadRequest


def _read(args: Arguments, output: Output) -> None:
    form = format_of(args)
    request = replace(_request(args), limit=rows_asked(args, form))
    with read_builder(table_or_view_of(args), request).new_read().to_arrow_batch_reader() as reader:
        rows = write_result(reader, args, form, output)
    if args.output is not None:
        output.say(f"{counted(rows, 'row')} in {args.output}")


def _explain(args: Arguments, output: Output) -> None:
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


def _what() -> tuple[Option, ...]:
    return (
        option("--select", "-s", type=names, metavar="A,B", help="these columns, in this order"),
        option("--where", metavar="CONDITION", help="rows that fulfil it, such as \"id > 3 AND name LIKE 'a%'\""),
        *older_states(),
    )


COMMANDS = (
    Command(
        "read",
        _read,
        table_argument(),
        *_what(),
        *section("The result", *result_options()),
        exclusive=STATES,
        more="Rows are written as they are read, but for --format table. Files and parts of files that cannot hold "
        "rows of --where are not read.",
    ),
    Command(
        "explain",
        _explain,
        table_argument(),
        *_what(),
        option("--limit", "-n", type=count, metavar="N", help="as for read"),
        flag("--verbose", "-v", help="every split and its files"),
        exclusive=STATES,
    ),
)
