"""Commands that show tables of a catalog, a table's columns and options, its snapshots. No engine is needed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from lakewright.catalog.base import Catalog
from lakewright.catalog.system.views import RowsView, SystemTable, ViewOfTable
from lakewright.cli.base.command import Argument, Arguments, Command, limit, names_of, table_argument
from lakewright.cli.base.output import Output, instant, plain
from lakewright.cli.base.place import need_catalog, table_of, table_or_view_of
from lakewright.cli.base.secrets import shown_options
from lakewright.errors import CorruptTableError, LakewrightError, counted
from lakewright.spec.snapshot import Snapshot
from lakewright.table.table import FileStoreTable


def database_argument() -> Argument:
    """Return the argument that may name one database."""
    about = "one database; all of them otherwise"
    return Argument("database", "[DB]", about, required=False, shell_complete=names_of("database"))


def show_tables(args: Arguments, output: Output) -> None:
    """List the tables of a catalog, or of one database."""
    catalog = need_catalog(args)
    databases = catalog.list_databases() if args.database is None else [args.database]
    names = [(db, name) for db in databases for name in catalog.list_tables(db)]
    rows = [_overview(catalog, db, name) for db, name in names]
    bad = [row for row in rows if row["error"] is not None]
    shown = rows if bad or output.as_json else [{k: v for k, v in row.items() if k != "error"} for row in rows]
    output.table(shown, empty=f"there are no tables in {catalog.warehouse or 'the catalog'}")
    if bad:
        raise CorruptTableError(f"{counted(len(bad), 'table')} of {len(rows):,} cannot be read; see the column 'error'")


def _overview(catalog: Catalog, database: str, name: str) -> dict[str, object]:
    """Return one table as a row; one that cannot be read has an error in it, so that the others are still listed."""
    row: dict[str, object] = dict.fromkeys(("table", "primary_keys", "partition_keys", "snapshot", "written", "error"))
    row["table"] = f"{database}.{name}"
    try:
        table = catalog.get_table(f"`{database}`.`{name}`")
        newest = table.snapshot()
    except (LakewrightError, OSError) as error:
        return row | {"error": " ".join(str(error).split())}
    row |= {"table": table.name, "primary_keys": table.primary_keys, "partition_keys": table.partition_keys}
    return row if newest is None else row | {"snapshot": newest.id, "written": instant(newest.time_millis)}


def describe(args: Arguments, output: Output) -> None:
    """Show the table that the arguments name."""
    show_table(table_or_view_of(args), output)


def show_table(table: FileStoreTable | SystemTable | RowsView, output: Output) -> None:
    """Show the columns, keys and options of a table."""
    facts, options = _facts(table) if isinstance(table, FileStoreTable) else (_view_facts(table), {})
    columns = [{"column": f.name, "type": str(f.type), "comment": f.description} for f in table.fields]
    lines = [f"{name:<15} {_shown(value)}" for name, value in facts.items() if value not in (None, [])]
    lines += ["", *plain(columns)]
    if options:
        lines += ["", *plain([{"option": key, "value": value} for key, value in options.items()])]
    output.result({**facts, "columns": columns, "options": options}, "\n".join(lines))


def _facts(table: FileStoreTable) -> tuple[dict[str, object], dict[str, str]]:
    """Return the facts about a table besides its columns, and its options."""
    newest = table.snapshot()
    facts: dict[str, object] = {
        "table": table.name,
        "path": table.table_path,
        "comment": table.comment(),
        "schema_id": table.schema.id,
        "primary_keys": table.primary_keys,
        "partition_keys": table.partition_keys,
        "snapshot": None if newest is None else newest.id,
        # Of all data files: with a primary key a row counts once for every file that has a version of it.
        "records": None if newest is None else newest.total_record_count,
        "tags": table.list_tags(),
    }
    return facts, shown_options(table.options.to_map())


def _view_facts(view: SystemTable | RowsView) -> dict[str, object]:
    owner = {"system table of": view.table.name} if isinstance(view, ViewOfTable) else {}
    return {"table": view.name, **owner, "primary_keys": view.primary_keys}


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _snapshots(args: Arguments, output: Output) -> None:
    table = table_of(args)
    newest = itertools.islice(_newest_first(table), args.limit)
    output.table([_snapshot_row(one) for one in newest], empty=f"{table.name} has no snapshot: nothing was written yet")


def _newest_first(table: FileStoreTable) -> Iterator[Snapshot]:
    newest = table.snapshot()
    return iter(()) if newest is None else table.store.snapshots.walk_back(newest.id)


def _snapshot_row(one: Snapshot) -> dict[str, object]:
    return {
        "snapshot": one.id,
        "time": instant(one.time_millis),
        "kind": one.commit_kind.value,
        "records": one.total_record_count,
        "added": one.delta_record_count,
        "schema": one.schema_id,
        "user": one.commit_user,
    }


_RECORDS = "'records' counts what the data files hold: with a primary key a row counts once for every file that has it."
COMMANDS = (
    Command("tables", show_tables, database_argument()),
    Command("describe", describe, table_argument()),
    Command("snapshots", _snapshots, table_argument(), limit("the newest so many (20)", 20), more=_RECORDS),
)
