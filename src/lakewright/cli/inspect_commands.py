"""tables, files, partitions, schemas, report, verify, doctor."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import click
import pyarrow as pa

from lakewright.catalog.catalog import Catalog
from lakewright.cli.catalog_options import catalog_of, need_catalog, shown_options, table_of, table_or_view_of
from lakewright.cli.cli_options import (
    STATES,
    Arguments,
    CliArgument,
    CliCommand,
    CliOption,
    flag,
    limit,
    names_of,
    older_states,
    option,
    table_argument,
)
from lakewright.cli.cli_output import CommandOutput, instant, plain
from lakewright.diagnosis import Check, Diagnosis, diagnose
from lakewright.errors import CorruptTableError, InvalidInputError, LakewrightError, pluralize, with_table_name
from lakewright.maintenance.verify_findings import ERROR, Finding, VerifyResult
from lakewright.maintenance.verify_table import ALL, LATEST, check_depth, verify_table
from lakewright.read.read_builder import ReadRequest
from lakewright.report.gather_facts import gather
from lakewright.report.report_facts import TableFacts
from lakewright.report.report_page import page, write_report
from lakewright.spec.snapshot import Snapshot
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.system_tables import system_table
from lakewright.table.table_views import RowView, SystemTable, ViewOfTable

# ---- doctor ----------------------------------------------------------------------------------------------------------

UNHEALTHY = 1
_MARKS = {"ok": "ok     ", "warning": "WARNING", "failed": "FAILED ", "skipped": "skipped"}


def _diagnose(args: Arguments, output: CommandOutput) -> int:
    with output.progress("looking at this environment") as say:
        found = _with_spark(args, say) if _wants_spark(args) else diagnose(catalog_of(args), say=say)
    checks = [asdict(check) for check in found.checks]
    output.result({"is_healthy": found.is_healthy, "checks": checks}, _format_diagnosis(found, quiet=output.quiet))
    return 0 if found.is_healthy else UNHEALTHY


def _wants_spark(args: Arguments) -> bool:
    return bool(args.spark or args.master or args.remote)


def _with_spark(args: Arguments, say: object) -> Diagnosis:
    from lakewright.spark.spark_session import running  # noqa: PLC0415 - lazy

    with ExitStack() as stack:
        try:
            spark = stack.enter_context(running("lakewright doctor", args.master, args.remote))
        except Exception as error:  # noqa: BLE001 - whatever a session raises at its start is what the check found
            found = diagnose(catalog_of(args), say=say)  # type: ignore[arg-type] # as below
            others = (check for check in found.checks if check.name != "spark.workers")
            return Diagnosis((*others, _no_session(error)))
        return diagnose(catalog_of(args), spark=spark, say=say)  # type: ignore[arg-type] # a function of the output


def _no_session(error: Exception) -> Check:
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    remedy = "see the check of java; a cluster is named by --master, a Spark Connect server by --remote"
    return Check("spark.workers", "failed", f"no session started: {type(error).__name__}: {first[:300]}", remedy)


def _format_diagnosis(found: Diagnosis, *, quiet: bool) -> str:
    lines = []
    for check in found.checks:
        if quiet and check.status in ("ok", "skipped"):
            continue
        lines.append(f"{_MARKS[check.status]} {check.name}: {check.found}")
        if check.remedy:
            lines.append(f"        {check.remedy}")
    failed = sum(check.status == "failed" for check in found.checks)
    warned = sum(check.status == "warning" for check in found.checks)
    ending = f", {pluralize(warned, 'warning')}" if warned else ""
    verdict = f"all is well{ending}" if found.is_healthy else f"{pluralize(failed, 'check')} failed{ending}"
    return "\n".join([*lines, verdict])


_DOCTOR_COMMANDS = (
    CliCommand(
        "doctor",
        _diagnose,
        flag("--spark", help="also start Spark here and ask its workers"),
        option("--master", metavar="URL", help="ask the workers of this Spark master"),
        option("--remote", metavar="URL", help="ask the workers of this Spark Connect server, such as sc://host"),
        more="With a warehouse or a catalog, its storage is tried with a scratch file. 1 is returned if a check fails.",
        exclusive=[("--master", "--remote")],
    ),
)


# ---- files, schemas, partitions --------------------------------------------------------------------------------------

_ROWS_MAX = 100


def _files(args: Arguments, output: CommandOutput) -> None:
    table = _at(args)
    rows = _rows(table, "files")
    shown = [
        {
            "partition": row["partition"],
            "bucket": row["bucket"],
            "level": row["level"],
            "rows": row["record_count"],
            "bytes": row["file_size_in_bytes"],
            "source": row["file_source"],
            "file": row["file_path"],
        }
        for row in rows
    ]
    _show(args, output, rows, shown, empty=f"{table.name} has no data files")
    if rows and not output.as_json:
        rows_of, size = (sum(int(str(row[name])) for row in shown) for name in ("rows", "bytes"))
        output.say(f"{pluralize(len(rows), 'file')}, {pluralize(rows_of, 'record')}, {size:,} bytes")


def _partitions(args: Arguments, output: CommandOutput) -> None:
    table = _at(args)
    rows = _rows(table, "partitions")
    shown = [
        {
            "partition": row["partition"],
            "rows": row["record_count"],
            "files": row["file_count"],
            "bytes": row["file_size_in_bytes"],
            "buckets": row["total_buckets"],
            "updated": None if row["last_update_time"] is None else str(row["last_update_time"])[:19],
        }
        for row in rows
    ]
    keys = "" if table.partition_keys else ": it is not partitioned"
    shown_all = shown if table.partition_keys else []
    _show(args, output, rows, shown_all, empty=f"{table.name} has no partitions{keys}")


def _schemas(args: Arguments, output: CommandOutput) -> None:
    table = table_of(args)
    schemas = sorted(table.store.schemas.all(), key=lambda one: one.id, reverse=True)
    facts = [
        {
            "schema": one.id,
            "time": instant(one.time_millis),
            "columns": [{"column": f.name, "type": str(f.type), "comment": f.description} for f in one.fields],
            "primary_keys": list(one.primary_keys),
            "partition_keys": list(one.partition_keys),
            "options": shown_options(one.options),
            "comment": one.comment,
        }
        for one in schemas
    ]
    shown = [
        {
            "schema": one.id,
            "time": instant(one.time_millis),
            "columns": ", ".join(f"{f.name} {f.type}" for f in one.fields),
            "primary_keys": list(one.primary_keys),
            "options": ", ".join(f"{key}={value}" for key, value in shown_options(one.options).items()) or None,
        }
        for one in schemas
    ]
    _show(args, output, facts, shown, empty=f"{table.name} has no schema")


def _at(args: Arguments) -> FileStoreTable:
    """Return the table at the state that the arguments name."""
    table = table_of(args)
    options = ReadRequest(snapshot_id=args.snapshot, tag=args.tag, timestamp=args.at).travel_options(table.name)
    return table.copy(options) if options else table


def _rows(table: FileStoreTable, view: str) -> list[dict[str, object]]:
    found = system_table(table, view).to_arrow()
    rows: list[dict[str, object]] = pa.Table.to_pylist(found)
    return rows


def _show(
    args: Arguments,
    output: CommandOutput,
    facts: Sequence[Mapping[str, object]],
    shown: Sequence[Mapping[str, object]],
    *,
    empty: str,
) -> None:
    """Write all facts as JSON, or the first rows for people."""
    if output.as_json:
        output.table(list(facts), empty=empty)
        return
    rows_max = _ROWS_MAX if args.limit is None else args.limit
    output.table(list(shown[:rows_max]), empty=empty)
    if len(shown) > rows_max:
        output.say(f"... {pluralize(len(shown) - rows_max, 'more row')}; --limit shows more, --json all")


def _states() -> tuple[CliOption, ...]:
    return (
        *older_states(),
        limit(f"at most so many rows for people ({_ROWS_MAX})"),
    )


_FILE_COMMANDS = (
    CliCommand("files", _files, table_argument(), *_states(), exclusive=STATES),
    CliCommand("partitions", _partitions, table_argument(), *_states(), exclusive=STATES),
    CliCommand("schemas", _schemas, table_argument(), limit(f"at most so many rows for people ({_ROWS_MAX})")),
)


# ---- report, verify --------------------------------------------------------------------------------------------------

_STDOUT = "-"
_MARK = b"<!DOCTYPE html>"


def _write_report(args: Arguments, output: CommandOutput) -> None:
    table = table_of(args).refreshed()
    default = None if output.as_json else f"{table.identifier.get_table_name()}-report.html"
    path = args.output or default
    if path not in (None, _STDOUT) and not args.force:
        _check_replaceable(Path(path))
    with output.progress(f"reading the metadata of {table.name}"):
        facts = gather(table.store, orphans=args.orphans)
    if path == _STDOUT and not output.as_json:
        sys.stdout.write(page(facts))
        sys.stdout.flush()
        return
    if path not in (None, _STDOUT):
        write_report(facts, path)
    output.result({"path": path, **asdict(facts)}, _summarize_report(facts, path))


def _check_replaceable(path: Path) -> None:
    """Raise InvalidInputError if a file is there that looks like something else than an earlier report."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        if file.read(len(_MARK)) != _MARK:
            raise InvalidInputError(f"{path} is there already and is no report; --force replaces it", path=str(path))


def _summarize_report(facts: TableFacts, path: str | None) -> str:
    lines = [f"{path}: the report of {facts.head.name}"]
    lines += [f"{'! ' if advice.urgent else '- '}{advice.title}" for advice in facts.advice]
    return "\n".join(lines)


UNSOUND = 1


def _verify(args: Arguments, output: CommandOutput) -> int:
    store = table_of(args).refreshed().store
    with with_table_name(store.name), output.progress(f"reading the metadata of {store.name}") as say:
        depth, states = check_depth(args.full, fast=args.fast, snapshots=args.snapshots)
        result = verify_table(store, depth=depth, states=states, say=say)
    output.result({"is_sound": result.is_sound, **asdict(result)}, _verify_text(result))
    return 0 if result.is_sound else UNSOUND


def _verify_text(result: VerifyResult) -> str:
    lines = [line for one in result.findings for line in _lines(one)]
    errors = sum(one.severity == ERROR for one in result.findings)
    verdict = "the table is sound" if result.is_sound else f"the table is damaged: {pluralize(errors, 'error')}"
    seen = f"{pluralize(result.snapshots, 'snapshot')}, {pluralize(result.manifests, 'manifest')}"
    files = f"{pluralize(result.data_files, 'file')}, {pluralize(result.rows, 'row')}, {result.bytes / 1e6:,.1f} MB"
    return "\n".join([*lines, f"{verdict}; looked at {seen}, {files} in {result.seconds:,.1f} s"])


def _lines(one: Finding) -> list[str]:
    return [f"{one.severity}: {one.kind}: {one.path}", f"    {one.message}", f"    {one.remedy}"]


_OUTPUT = "write the page to this file (TABLE-report.html); - is stdout. An earlier report is replaced"
_STATES = "the newest snapshot, or all snapshots, tags, changelogs and branches, and files that nothing names"
_REPORT_COMMANDS = (
    CliCommand(
        "report",
        _write_report,
        table_argument(),
        option("--output", "-o", metavar="F", type=click.Path(), help=_OUTPUT),
        flag("--force", help="replace a file that is not a page of HTML, too"),
        flag("--orphans", help="also count files that nothing names: lists the whole table"),
    ),
    CliCommand(
        "verify",
        _verify,
        table_argument(),
        flag("--fast", help="metadata alone: no data file is opened"),
        flag("--full", help="read all rows, and prove statistics, keys and checksums"),
        option("--snapshots", type=click.Choice((LATEST, ALL)), default=LATEST, help=_STATES),
        exclusive=[("--fast", "--full")],
    ),
)


# ---- tables, describe, snapshots -------------------------------------------------------------------------------------


def database_argument() -> CliArgument:
    """Return the argument that may name one database."""
    about = "one database; all of them otherwise"
    return CliArgument("database", "[DB]", about, required=False, shell_complete=names_of("database"))


def show_tables(args: Arguments, output: CommandOutput) -> None:
    """List the tables of a catalog, or of one database."""
    catalog = need_catalog(args)
    databases = catalog.list_databases() if args.database is None else [args.database]
    names = [(db, name) for db in databases for name in catalog.list_tables(db)]
    rows = [_overview(catalog, db, name) for db, name in names]
    bad = [row for row in rows if row["error"] is not None]
    shown = rows if bad or output.as_json else [{k: v for k, v in row.items() if k != "error"} for row in rows]
    output.table(shown, empty=f"there are no tables in {catalog.warehouse or 'the catalog'}")
    if bad:
        raise CorruptTableError(
            f"{pluralize(len(bad), 'table')} of {len(rows):,} cannot be read; see the column 'error'"
        )


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


def describe(args: Arguments, output: CommandOutput) -> None:
    """Show the table that the arguments name."""
    show_table(table_or_view_of(args), output)


def show_table(table: FileStoreTable | SystemTable | RowView, output: CommandOutput) -> None:
    """Show the columns, keys and options of a table."""
    facts, options = _facts(table) if isinstance(table, FileStoreTable) else (_view_facts(table), {})
    columns = [{"column": f.name, "type": str(f.type), "comment": f.description} for f in table.fields]
    lines = [f"{name:<15} {_format_value(value)}" for name, value in facts.items() if value not in (None, [])]
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


def _view_facts(view: SystemTable | RowView) -> dict[str, object]:
    owner = {"system table of": view.table.name} if isinstance(view, ViewOfTable) else {}
    return {"table": view.name, **owner, "primary_keys": view.primary_keys}


def _format_value(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _snapshots(args: Arguments, output: CommandOutput) -> None:
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
_TABLE_COMMANDS = (
    CliCommand("tables", show_tables, database_argument()),
    CliCommand("describe", describe, table_argument()),
    CliCommand("snapshots", _snapshots, table_argument(), limit("the newest so many (20)", 20), more=_RECORDS),
)


COMMANDS = (*_DOCTOR_COMMANDS, *_FILE_COMMANDS, *_REPORT_COMMANDS, *_TABLE_COMMANDS)
