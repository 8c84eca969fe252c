"""What there is: tables of a warehouse, a table's columns and options, its snapshots. No engine is needed."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from datetime import UTC, datetime

from lakewright.cli.command import Command, need_catalog, table_of
from lakewright.cli.output import Output, plain
from lakewright.spec.snapshot import Snapshot
from lakewright.table import FileStoreTable


def _tables_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("database", nargs="?", metavar="DB", help="one database; all of them otherwise")


def _tables(args: argparse.Namespace, output: Output) -> None:
    catalog = need_catalog(args)
    databases = catalog.list_databases() if args.database is None else [args.database]
    tables = [catalog.get_table(f"`{db}`.`{name}`") for db in databases for name in catalog.list_tables(db)]
    output.table([_overview(table) for table in tables], empty=f"there are no tables in {catalog.warehouse}")


def _overview(table: FileStoreTable) -> dict[str, object]:
    newest = table.snapshot()
    return {
        "table": table.name,
        "primary_key": table.primary_keys,
        "partitions": table.partition_keys,
        "snapshot": None if newest is None else newest.id,
        "written": None if newest is None else instant(newest.time_millis),
    }


def _one_table(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="DB.T", help="the table: db.t, or its path")


def _describe(args: argparse.Namespace, output: Output) -> None:
    table = table_of(args)
    newest = table.snapshot()
    facts: dict[str, object] = {
        "table": table.name,
        "path": table.table_path,
        "comment": table.comment(),
        "schema_id": table.schema.id,
        "primary_key": table.primary_keys,
        "partitions": table.partition_keys,
        "snapshot": None if newest is None else newest.id,
        "records": None if newest is None else newest.total_record_count,
        "tags": table.list_tags(),
    }
    columns = [{"column": f.name, "type": str(f.type), "comment": f.description} for f in table.fields]
    options = dict(sorted(table.options.to_map().items()))
    lines = [f"{name:<12} {_shown(value)}" for name, value in facts.items() if value not in (None, [])]
    lines += ["", *plain(columns)]
    if options:
        lines += ["", *plain([{"option": key, "value": value} for key, value in options.items()])]
    output.result({**facts, "columns": columns, "options": options}, "\n".join(lines))


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _snapshots_arguments(parser: argparse.ArgumentParser) -> None:
    _one_table(parser)
    parser.add_argument("--limit", "-n", type=int, default=20, metavar="N", help="the newest so many (20)")


def _snapshots(args: argparse.Namespace, output: Output) -> None:
    table = table_of(args)
    found = itertools.islice(_newest_first(table), max(args.limit, 0))
    output.table([_snapshot_row(one) for one in found], empty=f"{table.name} has no snapshot: nothing was written yet")


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


def instant(millis: int) -> str:
    """Return a time as text.

    >>> instant(0)
    '1970-01-01 00:00:00Z'
    """
    return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


TABLES = Command("tables", "list the tables of a warehouse", _tables_arguments, _tables)
DESCRIBE = Command("describe", "show the columns, keys and options of a table", _one_table, _describe)
SNAPSHOTS = Command("snapshots", "list the snapshots of a table, newest first", _snapshots_arguments, _snapshots)
