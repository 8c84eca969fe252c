"""`lakewright tag`: list, create, delete and rename the tags of a table."""

from __future__ import annotations

import click

from lakewright.cli.base.command import Argument, Arguments, Command, Group, option, table_argument
from lakewright.cli.base.output import Output, instant
from lakewright.cli.base.place import table_of


def _list(args: Arguments, output: Output) -> None:
    table = table_of(args)
    rows = [
        {"tag": tag.name, "snapshot": tag.snapshot.id, "committed": instant(tag.snapshot.time_millis)}
        for tag in table.store.tags.all()
    ]
    output.table(rows, empty=f"{table.name} has no tags")


def _create(args: Arguments, output: Output) -> None:
    table = table_of(args)
    table.create_tag(args.name, args.snapshot, time_retained=args.retain)
    output.done(table.name, "tag", "create", args.name)


def _describe(args: Arguments, output: Output) -> None:
    table = table_of(args)
    tag = table.store.tags.get(args.name)
    facts: dict[str, object] = {
        "table": table.name,
        "tag": tag.name,
        "snapshot": tag.snapshot.id,
        "committed": instant(tag.snapshot.time_millis),
        "records": tag.snapshot.total_record_count,
        "schema": tag.snapshot.schema_id,
        "created": None if tag.create_time is None else str(tag.create_time)[:19],
        "retained": None if tag.time_retained is None else str(tag.time_retained),
    }
    lines = [f"{name:<9}  {value}" for name, value in facts.items() if value is not None]
    output.result(facts, "\n".join(lines))


def _alter(args: Arguments, output: Output) -> None:
    if args.snapshot is None and args.retain is None:
        raise click.UsageError("alter needs --snapshot N or --retain AGE")
    table = table_of(args)
    snapshot = table.store.tags.get(args.name).snapshot.id if args.snapshot is None else args.snapshot
    table.replace_tag(args.name, snapshot, time_retained=args.retain)
    output.done(table.name, "tag", "alter", args.name)


def _delete(args: Arguments, output: Output) -> None:
    table = table_of(args)
    table.delete_tag(args.name)
    output.done(table.name, "tag", "delete", args.name)


def _rename(args: Arguments, output: Output) -> None:
    table = table_of(args)
    table.rename_tag(args.name, args.new_name)
    output.done(table.name, "tag", "rename", args.name, args.new_name)


def _name() -> Argument:
    return Argument("name", "NAME", "the tag")


COMMANDS = (
    Group(
        "tag",
        Command("list", _list, table_argument(), help="list the tags of a table"),
        Command(
            "create",
            _create,
            table_argument(),
            _name(),
            option("--snapshot", type=int, metavar="N", help="of this snapshot (the newest)"),
            option("--retain", metavar="AGE", help="how long it stays, such as 7d (for ever)"),
            help="give a snapshot a name that keeps it",
        ),
        Command("describe", _describe, table_argument(), _name(), help="show the snapshot that a tag keeps"),
        Command(
            "alter",
            _alter,
            table_argument(),
            _name(),
            option("--snapshot", type=int, metavar="N", help="let it name this snapshot (as before)"),
            option("--retain", metavar="AGE", help="how long it stays, from now on, such as 7d (for ever)"),
            help="let a tag name another snapshot, or stay for another time",
        ),
        Command("delete", _delete, table_argument(), _name(), help="delete a tag"),
        Command("drop", _delete, table_argument(), _name(), help="delete a tag"),
        Command(
            "rename",
            _rename,
            table_argument(),
            _name(),
            Argument("new_name", "NEW", "its new name"),
            help="give a tag another name",
        ),
        default="list",
    ),
)
