"""`lakewright table`: list, create, describe, alter, rename and drop tables."""

from __future__ import annotations

from dataclasses import replace

import click

from lakewright.cli.base.ask import confirm, yes_option
from lakewright.cli.base.command import Argument, Arguments, Command, Group, flag, option, pairs, table_argument
from lakewright.cli.base.output import Output
from lakewright.cli.base.place import named_table
from lakewright.cli.base.values import names
from lakewright.cli.look.tables import database_argument, describe, show_table, show_tables
from lakewright.cli.objects.columns import column, data_type
from lakewright.errors import InvalidInputError, NotFoundError, counted
from lakewright.ingestion.local import schema_of_files
from lakewright.spec.identifier import Identifier
from lakewright.spec.schema.changes import Move, SchemaChange
from lakewright.spec.schema.declaration import Schema
from lakewright.spec.types import DataField

_REMARK = "'name TYPE [NOT NULL] [COMMENT '...']', such as 'id BIGINT NOT NULL'; may be repeated"


# ---- create ----------------------------------------------------------------------------------------------------------


def _create(args: Arguments, output: Output) -> None:
    if not args.column and args.source is None:
        raise click.UsageError(
            "give the columns (--column 'id BIGINT NOT NULL', repeated) or a file that has them (--from)"
        )
    catalog, name = named_table(args, may_be_new=args.if_not_exists)
    schema = Schema(_columns(args), args.partition_by, args.primary_key, dict(args.option), args.comment)
    identifier = Identifier.from_string(name)
    if args.if_not_exists:
        catalog.create_database(identifier.get_database_name(), ignore_if_exists=True)
    try:
        catalog.create_table(identifier, schema, args.if_not_exists)
    except NotFoundError as error:
        database = identifier.get_database_name()
        raise type(error)(f"{error}; make it with lakewright db create {database}", **error.facts) from None
    show_table(catalog.get_table(identifier), output)


def _columns(args: Arguments) -> list[DataField]:
    """Return the columns of a file, with those that are given in place of or behind them."""
    found: dict[str, DataField] = {}
    if args.source is not None:
        read = schema_of_files(args.source, format=args.input_format, header=not args.no_header)
        found = {field.name: field for field in read}
    for text in args.column:
        field = column(text)
        if field.name in found and args.source is None:
            raise InvalidInputError(f"the column {field.name!r} is given twice", column=field.name)
        found[field.name] = field
    return [replace(field, id=number) for number, field in enumerate(found.values())]


# ---- alter -----------------------------------------------------------------------------------------------------------


def _alter(args: Arguments, output: Output) -> None:
    changes = _changes(args)
    if not changes:
        raise click.UsageError("alter needs a change, such as --add-column 'note STRING' or --option bucket=4")
    catalog, name = named_table(args)
    catalog.alter_table(name, changes)
    table = catalog.get_table(name)
    facts = {"table": table.name, "schema_id": table.schema.id, "changes": len(changes)}
    output.result(facts, f"{table.name}: schema {table.schema.id}, {counted(len(changes), 'change')}")


def _changes(args: Arguments) -> list[SchemaChange]:
    """Return the changes in the order in which they are applied: renames first, so that the others use new names."""
    changes = [SchemaChange.rename_column(old, new) for old, new in args.rename_column]
    changes += [SchemaChange.drop_column(name) for name in args.drop_column]
    for text in args.add_column:
        field = column(text)
        move = Move.first(field.name) if args.first else None
        move = Move.after(field.name, args.after) if args.after is not None else move
        changes.append(SchemaChange.add_column(field.name, field.type, field.description, move))
    changes += [
        SchemaChange.update_column_type(
            name, data_type(text, name), keep_nullability=True, allow_lossy=args.allow_lossy
        )
        for name, text in args.retype
    ]
    changes += [SchemaChange.update_column_nullability(name, new_nullability=False) for name in args.not_null]
    changes += [SchemaChange.update_column_nullability(name, new_nullability=True) for name in args.nullable]
    changes += [SchemaChange.update_column_comment(name, text or None) for name, text in args.column_comment]
    changes += [SchemaChange.set_option(key, value) for key, value in args.option]
    changes += [SchemaChange.remove_option(key) for key in args.remove_option]
    if args.comment is not None:
        changes.append(SchemaChange.update_comment(args.comment or None))
    return changes


# ---- rename, drop ----------------------------------------------------------------------------------------------------


def _rename(args: Arguments, output: Output) -> None:
    catalog, name = named_table(args)
    source = Identifier.from_string(name)
    target = args.new_name if "." in args.new_name else f"`{source.get_database_name()}`.`{args.new_name}`"
    catalog.rename_table(name, target)
    full_name = Identifier.from_string(target).get_full_name()
    output.result({"table": full_name, "action": "rename"}, f"{name}: is {full_name} now")


def _drop(args: Arguments, output: Output) -> None:
    catalog, name = named_table(args)
    if Identifier.from_string(name).get_system_table_name() or Identifier.from_string(name).get_branch_name():
        raise InvalidInputError(f"{name} is not a table of its own: drop the table, or a branch with branch drop")
    try:
        newest = catalog.get_table(name).snapshot()
    except NotFoundError:
        if not args.if_exists:
            raise
        output.result({"table": name, "action": "none"}, f"{name}: is not there")
        return
    rows = 0 if newest is None else newest.total_record_count or 0
    confirm(args, f"Drop {name} with {counted(rows, 'record')}, its history and its files?")
    catalog.drop_table(name, args.if_exists)
    output.result({"table": name, "action": "drop"}, f"{name}: dropped")


def _creating() -> Command:
    return Command(
        "create",
        _create,
        table_argument("the new table, db.t"),
        option("--column", multiple=True, metavar="COLUMN", help=_REMARK),
        option(
            "source",
            "--from",
            metavar="FILE",
            type=click.Path(),
            help="take the columns of this file; --column replaces some of them",
        ),
        option("--input-format", metavar="F", help="of the file: csv, parquet, ...; guessed from its name otherwise"),
        flag("--no-header", help="the csv file begins with data: columns are c0, c1, ..."),
        option("--primary-key", "--primary-keys", type=names, default=(), metavar="A,B", help="primary key columns"),
        option("--partition-by", "--partition-keys", type=names, default=(), metavar="A,B", help="partition columns"),
        pairs("--option", help="option of the table, such as bucket=4; may be repeated"),
        option("--comment", metavar="TEXT", help="what the table is for"),
        flag("--if-not-exists", help="do nothing if it is there; make its database too"),
        help="create a table of columns, or of those that a file has",
    )


def _altering() -> Command:
    return Command(
        "alter",
        _alter,
        table_argument(),
        option("--add-column", multiple=True, metavar="COLUMN", help=_REMARK),
        flag("--first", help="added columns come first"),
        option("--after", metavar="A", help="added columns come behind this one"),
        option("--drop-column", multiple=True, metavar="A", help="drop a column; may be repeated"),
        pairs("--rename-column", metavar="A=B", help="column A becomes B"),
        pairs("--retype", metavar="A=TYPE", help="give column A another type"),
        flag("--allow-lossy", help="a new type may lose values"),
        option("--not-null", multiple=True, metavar="A", help="column A may not hold NULL any more"),
        option("--nullable", multiple=True, metavar="A", help="column A may hold NULL"),
        pairs("--column-comment", metavar="A=TEXT", help="what column A is; nothing behind = removes it"),
        pairs("--option", help="set an option of the table"),
        option("--remove-option", multiple=True, metavar="K", help="remove an option, so that its default holds"),
        option("--comment", metavar="TEXT", help="what the table is for; '' removes it"),
        exclusive=[("--first", "--after")],
        help="change columns and options of a table, all at once or none",
    )


COMMANDS = (
    Group(
        "table",
        Command(
            "list",
            show_tables,
            database_argument(),
            help="list the tables of a catalog",
        ),
        _creating(),
        Command(
            "describe",
            describe,
            table_argument(),
            help="show the columns, keys and options of a table",
        ),
        _altering(),
        Command(
            "rename",
            _rename,
            table_argument(),
            Argument("new_name", "NEW", "its new name: t, or db.t"),
            help="give a table another name",
        ),
        Command(
            "drop",
            _drop,
            table_argument(),
            flag("--if-exists", help="do nothing if it is not there"),
            yes_option(),
            help="remove a table with its files; asks first",
        ),
        default="describe",
    ),
)
