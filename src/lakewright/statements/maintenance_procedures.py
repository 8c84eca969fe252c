"""Procedures on compaction, expiry, orphans, repair, copy."""

from __future__ import annotations

import time
import warnings

from lakewright.compact.compaction_job import partition_predicate
from lakewright.errors import LakewrightError, LakewrightWarning
from lakewright.ingestion.copy_table import copy_table
from lakewright.maintenance import partition_lifecycle as parts
from lakewright.spec import argument_checks
from lakewright.spec.identifier import Identifier
from lakewright.statements.history_procedures import DONE, pattern
from lakewright.statements.procedure import ProcedureArguments, Rows, procedure
from lakewright.statements.sql_text import Name
from lakewright.table.file_store_table import FileStoreTable

# ---- Repair and copy -------------------------------------------------------------------------------------------------


@procedure(
    "remove_unexisting_files(table STRING, dry_run? BOOLEAN, parallelism? INT) -> fileName STRING NOT NULL",
    "Remove data files that do not exist from the newest snapshot, in one commit; with dry_run only list them.",
)
def remove_unexisting_files(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    found = given.table().remove_unexisting_files(dry_run=given.flag("dry_run"))
    return [(path,) for path in found.paths]


@procedure(
    "copy(source_table STRING, target_table STRING, where? STRING) -> result BOOLEAN",
    "Copy the newest snapshot of a table to a new table, with its schemas, options and deletion vectors.",
)
def copy(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    catalog, name = given.session.resolve(given.name_of_table("target_table"))
    copy_table(given.table("source_table"), catalog, name, where=given.optional_text("where"))
    return DONE


@procedure(
    "drop_global_index(table STRING, index_column STRING, index_type? STRING, partitions? PARTITIONS, "
    "dry_run? BOOLEAN) -> result BOOLEAN",
    "Drop the global indexes that another engine made of a column, so that the column can be updated.",
)
def drop_global_index(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    given.table().drop_global_index(
        given.text("index_column"),
        given.optional_text("index_type"),
        partitions=given.partitions(),
        dry_run=given.flag("dry_run"),
    )
    return DONE


REPAIR_PROCEDURES = (remove_unexisting_files, copy, drop_global_index)


# ---- Upkeep ----------------------------------------------------------------------------------------------------------

_ORDERS = ("none", "order", "zorder", "hilbert")


# ---- compaction ------------------------------------------------------------------------------------------------------


@procedure(
    "compact(table STRING, partitions? PARTITIONS, compact_strategy? STRING, order_strategy? STRING, order_by? STRING, "
    "where? STRING, options? OPTIONS, partition_idle_time? STRING) -> result BOOLEAN",
    "Merge the files of a table, or of some partitions; 'minor' only where it is worth it, 'full' all that can be.",
)
def compact(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    table, full = _with_options(given), _strategy(given) == "full"
    chosen: dict[str, object] = {"full": full, **_order(given)}
    specs, store = given.partitions(), table.refreshed().store
    if "where" in given.values and specs is not None:
        raise given.error("where", "give partitions or where, not both")
    where = given.convert_value("where", lambda _name, text: partition_predicate(store, str(text)))
    idle = given.convert_value("partition_idle_time", argument_checks.to_duration_millis)
    optional = {"partitions": specs, "where": where, "idle": idle}
    chosen |= {name: value for name, value in optional.items() if value is not None}
    given.session.compact(table, **chosen)
    return DONE


def _strategy(given: ProcedureArguments) -> str:
    return given.convert_value("compact_strategy", lambda name, it: _word(name, it, ("full", "minor"))) or "full"


def _word(name: str, value: object, allowed: tuple[str, ...]) -> str:
    return argument_checks.check_one_of(name, str(value).strip().lower(), allowed)


def _order(given: ProcedureArguments) -> dict[str, object]:
    """Return the arguments that sort rows; none if the files are only merged."""
    order = given.convert_value("order_strategy", lambda name, it: _word(name, it, _ORDERS)) or "none"
    columns = given.optional_text("order_by")
    if order == "none":
        if columns is not None:
            raise given.error("order_by", "order_by belongs to an order_strategy, which is not given")
        return {}
    if columns is None:
        raise given.error("order_strategy", f"order_strategy {order!r} needs order_by: the columns, such as 'a,b'")
    return {"strategy": order, "order_by": [name.strip() for name in columns.split(",")]}


def _with_options(given: ProcedureArguments) -> FileStoreTable:
    table, options = given.table(), given.options()
    return table.copy(options) if options else table


def _chosen_partitions(given: ProcedureArguments, table: FileStoreTable) -> list[dict[str, object]] | None:
    """Return the partitions that the arguments choose; None: the whole table."""
    specs, where = given.partitions(), given.optional_text("where")
    if where is None:
        return specs
    if specs is not None:
        raise given.error("where", "give partitions or where, not both")
    return given.convert_value("where", lambda _name, text: parts.partitions_where(table.refreshed().store, str(text)))


@procedure(
    "compact_database(including_databases? STRING, including_tables? STRING, excluding_tables? STRING, "
    "options? OPTIONS) -> result STRING",
    "Compact the tables whose databases and names, 'db.t', match regular expressions.",
)
def compact_database(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    databases, tables = pattern(given, "including_databases"), pattern(given, "including_tables")
    excluded, options = pattern(given, "excluding_tables"), given.options()
    catalog = given.session.catalogs[given.catalog or given.session.catalog_name]
    names = [
        Identifier.create(database, table)
        for database in catalog.list_databases()
        if databases is None or databases.fullmatch(database)
        for table in catalog.list_tables(database)
    ]
    done = failed = 0
    for name in names:
        full = name.get_full_name()
        if (tables is not None and not tables.fullmatch(full)) or (excluded is not None and excluded.fullmatch(full)):
            continue
        try:
            given.session.compact(catalog.get_table(name).copy(options), full=True)
            done += 1
        except LakewrightError as error:
            warnings.warn(f"{full} was not compacted: {error}", LakewrightWarning, stacklevel=2)
            failed += 1
    return [(f"Compact database finished. Success: {done}, Failed: {failed}",)]


@procedure(
    "compact_manifest(table STRING, options? OPTIONS) -> result BOOLEAN",
    "Merge the manifests of a table into few full ones.",
)
def compact_manifest(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    _with_options(given).compact_manifests()
    return DONE


@procedure(
    "materialize_deletion_vectors(table STRING, partitions? PARTITIONS, options? OPTIONS) -> result BOOLEAN",
    "Rewrite the files that have deletion vectors, without their deleted rows.",
)
def materialize_deletion_vectors(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    _with_options(given).materialize_deletion_vectors(partitions=given.partitions())
    return DONE


@procedure(
    "rescale(table STRING, bucket_num? INT, partitions? PARTITIONS, where? STRING, scan_parallelism? INT, "
    "sink_parallelism? INT) -> result BOOLEAN",
    "Rewrite a table, or some partitions, with another number of buckets; without one, that of its option 'bucket'.",
)
def rescale(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    table = given.table()
    specs = _chosen_partitions(given, table)
    if specs is None or specs:
        buckets = given.number("bucket_num")
        table.rescale(table.options.bucket() if buckets is None else buckets, partitions=specs)
    return DONE


# ---- expiry ----------------------------------------------------------------------------------------------------------


@procedure(
    "expire_snapshots(table STRING, retain_max? INT, retain_min? INT, older_than? STRING, max_deletes? INT, "
    "options? OPTIONS) -> deleted_snapshots_count INT NOT NULL",
    "Remove old snapshots and the files that only they name.",
)
def expire_snapshots(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    expired = _with_options(given).expire_snapshots(
        given.number("retain_max"),
        given.number("retain_min"),
        given.convert_value("older_than", _past),
        given.number("max_deletes"),
    )
    return [(len(expired.snapshot_ids),)]


@procedure(
    "expire_partitions(table STRING, expiration_time? STRING, timestamp_formatter? STRING, timestamp_pattern? STRING, "
    "expire_strategy? STRING, max_expires? INT, options? OPTIONS) -> expired_partitions STRING",
    "Remove all rows of the partitions whose own time, which their values say, is older than a duration.",
)
def expire_partitions(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    table = _with_options(given)
    expired = table.expire_partitions(
        given.convert_value("expiration_time", argument_checks.to_duration_millis),
        timestamp_formatter=given.optional_text("timestamp_formatter"),
        timestamp_pattern=given.optional_text("timestamp_pattern"),
        strategy=given.convert_value("expire_strategy", lambda name, it: _word(name, it, parts.STRATEGIES)),
        max_expires=given.number("max_expires"),
    )
    shown = [(", ".join(f"{key}={value}" for key, value in spec.items()),) for spec in expired.partitions]
    return shown or [("No expired partitions.",)]


@procedure(
    "expire_changelogs(table STRING, retain_max? INT, retain_min? INT, older_than? STRING, max_deletes? INT, "
    "delete_all? BOOLEAN) -> deleted_changelogs_count INT NOT NULL",
    "Remove old changelogs of expired snapshots, or all of them.",
)
def expire_changelogs(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    expired = given.table().expire_changelogs(
        given.number("retain_max"),
        given.number("retain_min"),
        given.convert_value("older_than", _past),
        given.number("max_deletes"),
        delete_all=given.flag("delete_all"),
    )
    return [(len(expired.snapshot_ids),)]


@procedure(
    "purge_files(table STRING) -> result STRING",
    "Remove all rows with their history: tags, branches, consumers and all snapshots but an empty one.",
)
def purge_files(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    given.table().purge_files()
    return [("Success",)]


# ---- files -----------------------------------------------------------------------------------------------------------


@procedure(
    "remove_orphan_files(table STRING, older_than? STRING, dry_run? BOOLEAN, parallelism? INT, mode? STRING) "
    "-> deletedFileCount BIGINT, deletedFileTotalLenInBytes BIGINT",
    "Remove files that nothing names and that are older than a day, or than a time; of a table, or of all: 'db.*'.",
)
def remove_orphan_files(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    given.convert_value("mode", lambda name, it: _word(name, it, ("local", "distributed")))
    older_than, dry_run = given.convert_value("older_than", _past), given.flag("dry_run")
    found = [one.remove_orphan_files(older_than=older_than, dry_run=dry_run) for one in _tables(given)]
    return [(sum(one.count for one in found), sum(one.bytes for one in found))]


def _tables(given: ProcedureArguments) -> list[FileStoreTable]:
    """Return the table that the argument names, or those of `db.*`."""
    name = given.name_of_table()
    if name.parts[-1] != "*":
        return [given.table()]
    *before, _ = name.parts
    catalog, example = given.session.resolve(Name((*before, "t"), name.place))
    database = example.get_database_name()
    return [catalog.get_table(Identifier.create(database, table)) for table in catalog.list_tables(database)]


@procedure(
    "mark_partition_done(table STRING, partitions PARTITIONS) -> result BOOLEAN",
    "Write the file _SUCCESS into the directories of partitions.",
)
def mark_partition_done(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    given.table().mark_partition_done(given.partitions() or [])
    return DONE


def _past(name: str, value: object) -> int:
    return argument_checks.to_past_epoch_millis(name, value, _now())


def _now() -> int:
    return int(time.time() * 1000)


UPKEEP_PROCEDURES = (
    compact,
    compact_database,
    compact_manifest,
    materialize_deletion_vectors,
    rescale,
    expire_snapshots,
    expire_partitions,
    expire_changelogs,
    purge_files,
    remove_orphan_files,
    mark_partition_done,
)
