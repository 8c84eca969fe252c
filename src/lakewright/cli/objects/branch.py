"""`lakewright branch`: list, create, drop, rename the branches of a table, and fast-forward to one."""

from __future__ import annotations

from dataclasses import asdict

from lakewright.cli.base.ask import confirm, yes_option
from lakewright.cli.base.command import Argument, Arguments, Command, Group, dry_run, option, table_argument
from lakewright.cli.base.output import Output
from lakewright.cli.base.place import table_of
from lakewright.cli.look.tables import show_table
from lakewright.errors import counted


def _list(args: Arguments, output: Output) -> None:
    table = table_of(args)
    output.table([{"branch": one} for one in table.list_branches()], empty=f"{table.name} has no branches")


def _create(args: Arguments, output: Output) -> None:
    table = table_of(args)
    table.create_branch(args.name, args.tag, snapshot_id=args.snapshot)
    if args.tag is None and args.snapshot is None and table.snapshot() is not None:
        output.say(
            f"warning: branch {args.name!r} is empty: it has the columns of {table.name}, but no rows; "
            "--tag or --snapshot begins it at a state of the table"
        )
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
    plan = table.fast_forward(args.name, dry_run=True)
    if not args.dry_run:
        if plan.has_loss:
            confirm(args, f"Remove {plan.loss} of {table.name}, which branch {args.name!r} does not have?")
        plan = table.fast_forward(args.name, allow_loss=plan.has_loss)
    verb = "would remove" if plan.dry_run else "removed"
    for what, names in (("snapshot", plan.snapshot_ids), ("tag", plan.tags)):
        for name in names:
            output.say(f"{verb} {what} {name}")
    gone = f"{counted(len(plan.snapshot_ids), 'snapshot')} and {counted(len(plan.tags), 'tag')}"
    end = f"{verb} {gone}" if plan.snapshot_ids or plan.tags else f"{verb} nothing"
    output.result(
        {**asdict(plan), "has_loss": plan.has_loss},
        f"{table.name}: fast-forward to branch {args.name!r} {end}",
    )


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
            dry_run("remove nothing, say what would go"),
            yes_option(),
            help="make the state of a branch that of the table",
            more="Asks before it removes rows or tags that the branch does not have, unless --yes is given.",
        ),
        default="list",
    ),
)
