"""`lakewright branch`: list, create, drop, rename the branches of a table, and fast-forward to one."""

from __future__ import annotations

from lakewright.cli.base.command import Argument, Arguments, Command, Group, option, table_argument
from lakewright.cli.base.output import Output
from lakewright.cli.base.place import table_of
from lakewright.cli.look.tables import show_table


def _list(args: Arguments, output: Output) -> None:
    table = table_of(args)
    output.table([{"branch": one} for one in table.list_branches()], empty=f"{table.name} has no branches")


def _create(args: Arguments, output: Output) -> None:
    table = table_of(args)
    table.create_branch(args.name, args.tag, snapshot_id=args.snapshot)
    output.done(table.name, "branch", "create", args.name)


def _describe(args: Arguments, output: Output) -> None:
    show_table(table_of(Arguments(**{**vars(args), "table": f"{args.table}$branch_{args.name}"})), output)


def _drop(args: Arguments, output: Output) -> None:
    table = table_of(args)
    table.drop_branch(args.name)
    output.done(table.name, "branch", "drop", args.name)


def _rename(args: Arguments, output: Output) -> None:
    table = table_of(args)
    table.rename_branch(args.name, args.new_name)
    output.done(table.name, "branch", "rename", args.name, args.new_name)


def _fast_forward(args: Arguments, output: Output) -> None:
    table = table_of(args)
    table.fast_forward(args.name)
    output.done(table.name, "branch", "fast-forward", args.name)


def _name() -> Argument:
    return Argument("name", "NAME", "the branch")


COMMANDS = (
    Group(
        "branch",
        Command("list", _list, table_argument(), help="list the branches of a table"),
        Command(
            "create",
            _create,
            table_argument(),
            _name(),
            option("--tag", metavar="TAG", help="at the state of this tag"),
            option("--snapshot", type=int, metavar="N", help="at the state of this snapshot"),
            exclusive=[("--tag", "--snapshot")],
            help="begin a line of history beside that of the table",
        ),
        Command("describe", _describe, table_argument(), _name(), help="show the columns and the state of a branch"),
        Command("drop", _drop, table_argument(), _name(), help="remove a branch with its history"),
        Command(
            "rename",
            _rename,
            table_argument(),
            _name(),
            Argument("new_name", "NEW", "its new name"),
            help="give a branch another name",
        ),
        Command(
            "fast-forward",
            _fast_forward,
            table_argument(),
            _name(),
            help="make the state of a branch that of the table",
        ),
        default="list",
    ),
)
