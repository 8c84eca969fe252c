"""db, table, branch, tag."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from lakewright.cli.catalog_options import named_table, need_catalog, shown_options, table_of
from lakewright.cli.cli_options import (
    Arguments,
    CliArgument,
    CliCommand,
    Group,
    confirm,
    dry_run,
    flag,
    names_of,
    option,
    pairs,
    split_names,
    table_argument,
    yes_option,
)
from lakewright.cli.cli_output import CommandOutput, instant, plain
from lakewright.cli.inspect_commands import database_argument, describe, show_table, show_tables
from lakewright.errors import InvalidInputError, NotFoundError, SQLSyntaxError, UnsupportedError, pluralize
from lakewright.ingestion.local_ingest import schema_of_files
from lakewright.spec.identifier import Identifier
from lakewright.spec.schema import Move, Schema, SchemaChange
from lakewright.spec.types import DataField, DataType, to_type

if TYPE_CHECKING:
    from lakewright.statements.table_commands import ColumnDefinition


# ---- branch ----------------------------------------------------------------------------------------------------------


def _list_branches(args: Arguments, output: CommandOutput) -> None:
    table = table_of(args)
    output.table([{"branch": one} for one in table.list_branches()], empty=f"{table.name} has no branches")


def _create_branch(args: Arguments, output: CommandOutput) -> None:
    table = table_of(args)
    table.create_branch(args.name, args.tag, snapshot_id=args.snapshot)
    if args.tag is None and args.snapshot is None and table.snapshot() is not None:
        output.say(
            f"warning: branch {args.name!r} is empty: it has the columns of {table.name}, but no rows; "
            "--tag or --snapshot begins it at a state of the table"
        )
    output.report_done(table.name, "branch", "create", args.name)


def _describe_branch(args: Arguments, output: CommandOutput) -> None:
    show_table(table_of(Arguments(**{**vars(args), "table": f"{args.table}$branch_{args.name}"})), output)


def _drop_branch(args: Arguments, output: CommandOutput) -> None:
    table = table_of(args)
    table.drop_branch(args.name)
    output.report_done(table.name, "branch", "drop", args.name)


def _rename_branch(args: Arguments, output: CommandOutput) -> None:
    table = table_of(args)
    table.rename_branch(args.name, args.new_name)
    output.report_done(table.name, "branch", "rename", args.name, args.new_name)


def _fast_forward(args: Arguments, output: CommandOutput) -> None:
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
    gone = f"{pluralize(len(plan.snapshot_ids), 'snapshot')} and {pluralize(len(plan.tags), 'tag')}"
    end = f"{verb} {gone}" if plan.snapshot_ids or plan.tags else f"{verb} nothing"
    output.result(
        {**asdict(plan), "has_loss": plan.has_loss},
        f"{table.name}: fast-forward to branch {args.name!r} {end}",
    )


def _branch_argument() -> CliArgument:
    return CliArgument("name", "NAME", "the branch")


_BRANCH_COMMANDS = (
    Group(
        "branch",
        CliCommand("list", _list_branches, table_argument(), help="list the branches of a table"),
        CliCommand(
            "create",
            _create_branch,
            table_argument(),
            _branch_argument(),
            option("--tag", metavar="TAG", help="at the state of this tag"),
            option("--snapshot", type=int, metavar="N", help="at the state of this snapshot"),
            exclusive=[("--tag", "--snapshot")],
            help="begin a line of history beside that of the table",
        ),
        CliCommand(
            "describe",
            _describe_branch,
            table_argument(),
            _branch_argument(),
            help="show the columns and the state of a branch",
        ),
        CliCommand("drop", _drop_branch, table_argument(), _branch_argument(), help="remove a branch with its history"),
        CliCommand(
            "rename",
            _rename_branch,
            table_argument(),
            _branch_argument(),
            CliArgument("new_name", "NEW", "its new name"),
            help="give a branch another name",
        ),
        CliCommand(
            "fast-forward",
            _fast_forward,
            table_argument(),
            _branch_argument(),
            dry_run("remove nothing, say what would go"),
            yes_option(),
            help="make the state of a branch that of the table",
            more="Asks before it removes rows or tags that the branch does not have, unless --yes is given.",
        ),
        default="list",
    ),
)


# ---- Definitions of columns ------------------------------------------------------------------------------------------

_COLUMN = re.compile(
    r"\s*(?:`((?:[^`]|``)+)`|([^\s`]+))\s+(.+?)(?:\s+COMMENT\s+'((?:[^']|'')*)')?\s*", re.IGNORECASE | re.DOTALL
)


def column(text: str) -> DataField:
    """Return the column that a text defines; its id is 0.

    >>> found = column("`order id` DECIMAL(10, 2) NOT NULL COMMENT 'of it'")
    >>> found.name, str(found.type), found.description
    ('order id', 'DECIMAL(10, 2) NOT NULL', 'of it')
    """
    match = _COLUMN.fullmatch(text)
    if match is None:
        raise InvalidInputError(f"a column is written 'name TYPE', such as 'id BIGINT NOT NULL', not {text!r}")
    name = match[2] if match[1] is None else match[1].replace("``", "`")
    comment = None if match[4] is None else match[4].replace("''", "'")
    return DataField(0, name, data_type(match[3], name), comment)


def data_type(text: str, name: str) -> DataType:
    """Return a type that is written as text; nested types are read as in SQL."""
    if "<" in text:
        return _sql_column(f"`x` {text}", name).type
    try:
        return to_type("type", text)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"column {name!r}: {error}; types are such as INT, BIGINT, STRING, DECIMAL(10, 2), DATE, TIMESTAMP(3), "
            "ARRAY<INT>",
            column=name,
        ) from None


def _sql_column(text: str, name: str) -> ColumnDefinition:
    try:
        from lakewright.statements.parse_columns import read_column  # noqa: PLC0415 - lazy: it needs sqlglot
        from lakewright.statements.sql_text import Fragment  # noqa: PLC0415 - lazy
        from lakewright.statements.token_cursor import TokenCursor  # noqa: PLC0415 - lazy
    except ImportError as error:
        raise UnsupportedError(
            f"column {name!r}: nested types are read by {error.name}, which is not installed: pip install "
            "'lakewright[sql]'"
        ) from error
    cursor = TokenCursor(Fragment(text, 0, len(text)))
    try:
        found = read_column(cursor)
        cursor.expect_end()
    except SQLSyntaxError as error:
        reason = str(error).splitlines()[0]
        raise InvalidInputError(f"column {name!r}: the type cannot be read: {reason}", column=name) from None
    return found


# ---- db --------------------------------------------------------------------------------------------------------------


def _list_databases(args: Arguments, output: CommandOutput) -> None:
    catalog = need_catalog(args)
    rows = [{"database": name, "tables": len(catalog.list_tables(name))} for name in catalog.list_databases()]
    output.table(rows, empty=f"there are no databases in {catalog.warehouse or 'the catalog'}")


def _create_database(args: Arguments, output: CommandOutput) -> None:
    catalog = need_catalog(args, may_be_new=True)
    if args.if_not_exists and args.name in catalog.list_databases():
        output.result({"database": args.name, "action": "none"}, f"{args.name}: is there already")
        return
    catalog.create_database(args.name, args.if_not_exists, dict(args.property) or None)
    output.result({"database": args.name, "action": "create"}, f"{args.name}: created")


def _describe_database(args: Arguments, output: CommandOutput) -> None:
    catalog = need_catalog(args)
    found = catalog.get_database(args.name)
    options = shown_options({key: str(value) for key, value in found.options.items()})
    tables = catalog.list_tables(args.name)
    facts = {"database": args.name, "tables": tables, "comment": found.comment, "properties": options}
    lines = [f"database  {args.name}", f"tables    {', '.join(tables) or '-'}"]
    if options:
        lines += ["", *plain([{"property": key, "value": value} for key, value in options.items()])]
    output.result(facts, "\n".join(lines))


def _alter_database(args: Arguments, output: CommandOutput) -> None:
    changes: dict[str, object | None] = {**dict(args.property), **dict.fromkeys(args.remove_property)}
    if not changes:
        raise click.UsageError("alter needs --property K=V or --remove-property K")
    need_catalog(args).alter_database(args.name, changes)
    output.result({"database": args.name, "action": "alter"}, f"{args.name}: changed")


def _drop_database(args: Arguments, output: CommandOutput) -> None:
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
            f"database {args.name} holds {pluralize(len(tables), 'table')} ({', '.join(tables[:5])}): drop them first, "
            "or give --cascade",
            database=args.name,
        )
    held = f" with {pluralize(len(tables), 'table')} and their files" if tables else ""
    confirm(args, f"Drop the database {args.name}{held}?")
    catalog.drop_database(args.name, args.if_exists, args.cascade)
    output.result({"database": args.name, "action": "drop", "tables": tables}, f"{args.name}: dropped")


def _database_name_argument() -> CliArgument:
    return CliArgument("name", "NAME", "the database", shell_complete=names_of("database"))


_DATABASE_COMMANDS = (
    Group(
        "db",
        CliCommand("list", _list_databases, help="list the databases of a catalog"),
        CliCommand(
            "create",
            _create_database,
            _database_name_argument(),
            flag("--if-not-exists", help="do nothing if it is there"),
            pairs("--property", help="property of the database, where the catalog keeps them"),
            help="create a database",
        ),
        CliCommand(
            "describe",
            _describe_database,
            _database_name_argument(),
            help="show the tables and properties of a database",
        ),
        CliCommand(
            "alter",
            _alter_database,
            _database_name_argument(),
            pairs("--property", help="set this property"),
            option("--remove-property", multiple=True, metavar="K", help="remove this property"),
            help="set and remove properties of a database",
        ),
        CliCommand(
            "drop",
            _drop_database,
            _database_name_argument(),
            flag("--cascade", help="with its tables and their files"),
            flag("--if-exists", help="do nothing if it is not there"),
            yes_option(),
            help="remove a database; asks first",
        ),
    ),
)


# ---- table -----------------------------------------------------------------------------------------------------------

_REMARK = "'name TYPE [NOT NULL] [COMMENT '...']', such as 'id BIGINT NOT NULL'; may be repeated"


# ---- create ----------------------------------------------------------------------------------------------------------


def _create_table(args: Arguments, output: CommandOutput) -> None:
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


def _alter_table(args: Arguments, output: CommandOutput) -> None:
    changes = _changes(args)
    if not changes:
        raise click.UsageError("alter needs a change, such as --add-column 'note STRING' or --option bucket=4")
    catalog, name = named_table(args)
    catalog.alter_table(name, changes)
    table = catalog.get_table(name)
    facts = {"table": table.name, "schema_id": table.schema.id, "changes": len(changes)}
    output.result(facts, f"{table.name}: schema {table.schema.id}, {pluralize(len(changes), 'change')}")


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


def _rename_table(args: Arguments, output: CommandOutput) -> None:
    catalog, name = named_table(args)
    source = Identifier.from_string(name)
    target = args.new_name if "." in args.new_name else f"`{source.get_database_name()}`.`{args.new_name}`"
    catalog.rename_table(name, target)
    full_name = Identifier.from_string(target).get_full_name()
    output.result({"table": full_name, "action": "rename"}, f"{name}: is {full_name} now")


def _drop_table(args: Arguments, output: CommandOutput) -> None:
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
    confirm(args, f"Drop {name} with {pluralize(rows, 'record')}, its history and its files?")
    catalog.drop_table(name, args.if_exists)
    output.result({"table": name, "action": "drop"}, f"{name}: dropped")


def _creating() -> CliCommand:
    return CliCommand(
        "create",
        _create_table,
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
        option(
            "--primary-key", "--primary-keys", type=split_names, default=(), metavar="A,B", help="primary key columns"
        ),
        option(
            "--partition-by", "--partition-keys", type=split_names, default=(), metavar="A,B", help="partition columns"
        ),
        pairs("--option", help="option of the table, such as bucket=4; may be repeated"),
        option("--comment", metavar="TEXT", help="what the table is for"),
        flag("--if-not-exists", help="do nothing if it is there; make its database too"),
        help="create a table of columns, or of those that a file has",
    )


def _altering() -> CliCommand:
    return CliCommand(
        "alter",
        _alter_table,
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


_TABLE_COMMANDS = (
    Group(
        "table",
        CliCommand(
            "list",
            show_tables,
            database_argument(),
            help="list the tables of a catalog",
        ),
        _creating(),
        CliCommand(
            "describe",
            describe,
            table_argument(),
            help="show the columns, keys and options of a table",
        ),
        _altering(),
        CliCommand(
            "rename",
            _rename_table,
            table_argument(),
            CliArgument("new_name", "NEW", "its new name: t, or db.t"),
            help="give a table another name",
        ),
        CliCommand(
            "drop",
            _drop_table,
            table_argument(),
            flag("--if-exists", help="do nothing if it is not there"),
            yes_option(),
            help="remove a table with its files; asks first",
        ),
        default="describe",
    ),
)


# ---- tag -------------------------------------------------------------------------------------------------------------


def _list_tags(args: Arguments, output: CommandOutput) -> None:
    table = table_of(args)
    rows = [
        {"tag": tag.name, "snapshot": tag.snapshot.id, "committed": instant(tag.snapshot.time_millis)}
        for tag in table.store.tags.all()
    ]
    output.table(rows, empty=f"{table.name} has no tags")


def _create_tag(args: Arguments, output: CommandOutput) -> None:
    table = table_of(args)
    table.create_tag(args.name, args.snapshot, time_retained=args.retain)
    output.report_done(table.name, "tag", "create", args.name)


def _describe_tag(args: Arguments, output: CommandOutput) -> None:
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


def _alter_tag(args: Arguments, output: CommandOutput) -> None:
    if args.snapshot is None and args.retain is None:
        raise click.UsageError("alter needs --snapshot N or --retain AGE")
    table = table_of(args)
    snapshot = table.store.tags.get(args.name).snapshot.id if args.snapshot is None else args.snapshot
    table.replace_tag(args.name, snapshot, time_retained=args.retain)
    output.report_done(table.name, "tag", "alter", args.name)


def _delete(args: Arguments, output: CommandOutput) -> None:
    table = table_of(args)
    table.delete_tag(args.name)
    output.report_done(table.name, "tag", "delete", args.name)


def _rename_tag(args: Arguments, output: CommandOutput) -> None:
    table = table_of(args)
    table.rename_tag(args.name, args.new_name)
    output.report_done(table.name, "tag", "rename", args.name, args.new_name)


def _tag_argument() -> CliArgument:
    return CliArgument("name", "NAME", "the tag")


_TAG_COMMANDS = (
    Group(
        "tag",
        CliCommand("list", _list_tags, table_argument(), help="list the tags of a table"),
        CliCommand(
            "create",
            _create_tag,
            table_argument(),
            _tag_argument(),
            option("--snapshot", type=int, metavar="N", help="of this snapshot (the newest)"),
            option("--retain", metavar="AGE", help="how long it stays, such as 7d (for ever)"),
            help="give a snapshot a name that keeps it",
        ),
        CliCommand(
            "describe", _describe_tag, table_argument(), _tag_argument(), help="show the snapshot that a tag keeps"
        ),
        CliCommand(
            "alter",
            _alter_tag,
            table_argument(),
            _tag_argument(),
            option("--snapshot", type=int, metavar="N", help="let it name this snapshot (as before)"),
            option("--retain", metavar="AGE", help="how long it stays, from now on, such as 7d (for ever)"),
            help="let a tag name another snapshot, or stay for another time",
        ),
        CliCommand("delete", _delete, table_argument(), _tag_argument(), help="delete a tag"),
        CliCommand("drop", _delete, table_argument(), _tag_argument(), help="delete a tag"),
        CliCommand(
            "rename",
            _rename_tag,
            table_argument(),
            _tag_argument(),
            CliArgument("new_name", "NEW", "its new name"),
            help="give a tag another name",
        ),
        default="list",
    ),
)


COMMANDS = (*_BRANCH_COMMANDS, *_DATABASE_COMMANDS, *_TABLE_COMMANDS, *_TAG_COMMANDS)
