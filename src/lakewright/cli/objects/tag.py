"""`lakewright tag`: list, create, delete and rename the tags of a table."""

from __future__ import annotations

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
