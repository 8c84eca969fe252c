"""`lakewright db`: list, create, describe, alter and drop databases."""

from __future__ import annotations

import click

from lakewright.cli.base.ask import confirm, yes_option
from lakewright.cli.base.command import Argument, Arguments, Command, Group, flag, names_of, option, pairs
from lakewright.cli.base.output import Output, plain
from lakewright.cli.base.place import need_catalog
from lakewright.cli.base.secrets import shown_options
from lakewright.errors import InvalidInputError, NotFoundError, counted


def _list(args: Arguments, output: Output) -> None:
    catalog = need_catalog(args)
    rows = [{"database": name, "tables": len(catalog.list_tables(name))} for name in catalog.list_databases()]
    output.table(rows, empty=f"there are no databases in {catalog.warehouse or 'the catalog'}")


def _create(args: Arguments, output: Output) -> None:
    catalog = need_catalog(args, may_be_new=True)
    if args.if_not_exists and args.name in catalog.list_databases():
        output.result({"database": args.name, "action": "none"}, f"{args.name}: is there already")
        return
    catalog.create_database(args.name, args.if_not_exists, dict(args.property) or None)
    output.result({"database": args.name, "action": "create"}, f"{args.name}: created")


def _describe(args: Arguments, output: Output) -> None:
    catalog = need_catalog(args)
    found = catalog.get_database(args.name)
    options = shown_options({key: str(value) for key, value in found.options.items()})
    tables = catalog.list_tables(args.name)
    facts = {"database": args.name, "tables": tables, "comment": found.comment, "properties": options}
    lines = [f"database  {args.name}", f"tables    {', '.join(tables) or '-'}"]
    if options:
        lines += ["", *plain([{"property": key, "value": value} for key, value in options.items()])]
    output.result(facts, "\n".join(lines))


def _alter(args: Arguments, output: Output) -> None:
    changes: dict[str, object | None] = {**dict(args.property), **dict.fromkeys(args.remove_property)}
    if not changes:
        raise click.UsageError("alter needs --property K=V or --remove-property K")
    need_catalog(args).alter_database(args.name, changes)
    output.result({"database": args.name, "action": "alter"}, f"{args.name}: changed")


def _drop(args: Arguments, output: Output) -> None:
    catalog = need_catalog(args)
    try:
        tables = catalog.list_tables(args.name)
    except NotFoundError:
        if not args.if_exists:
            raise
        output.result({"database": args.name, "action": "none", "tables": []}, f"{args.name}: is not there")
        return
    if tables and not args.cascade:
        raise InvalidInputError(
            f"database {args.name} holds {counted(len(tables), 'table')} ({', '.join(tables[:5])}): drop them first, "
            "or give --cascade",
            database=args.name,
        )
    held = f" with {counted(len(tables), 'table')} and their files" if tables else ""
    confirm(args, f"Drop the database {args.name}{held}?")
    catalog.drop_database(args.name, args.if_exists, args.cascade)
    output.result({"database": args.name, "action": "drop", "tables": tables}, f"{args.name}: dropped")


def _name() -> Argument:
    return Argument("name", "NAME", "the database", shell_complete=names_of("database"))


COMMANDS = (
    Group(
        "db",
        Command("list", _list, help="list the databases of a catalog"),
        Command(
            "create",
            _create,
            _name(),
            flag("--if-not-exists", help="do nothing if it is there"),
            pairs("--property", help="property of the database, where the catalog keeps them"),
            help="create a database",
        ),
        Command("describe", _describe, _name(), help="show the tables and properties of a database"),
        Command(
            "alter",
            _alter,
            _name(),
            pairs("--property", help="set this property"),
            option("--remove-property", multiple=True, metavar="K", help="remove this property"),
            help="set and remove properties of a database",
        ),
        Command(
            "drop",
            _drop,
            _name(),
            flag("--cascade", help="with its tables and their files"),
            flag("--if-exists", help="do nothing if it is not there"),
            yes_option(),
            help="remove a database; asks first",
        ),
    ),
)
