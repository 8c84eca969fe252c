"""Procedures that repair and copy tables."""

from __future__ import annotations

from lakewright.ingestion.move.copy import copy_table
from lakewright.statements.procedures.declare import Given, Rows, procedure
from lakewright.statements.procedures.history import DONE


@procedure(
    "remove_unexisting_files(table STRING, dry_run? BOOLEAN, parallelism? INT) -> fileName STRING NOT NULL",
    "Remove data files that do not exist from the newest snapshot, in one commit; with dry_run only list them.",
)
def remove_unexisting_files(given: Given) -> Rows:
    """See the declaration."""
    found = given.table().remove_unexisting_files(dry_run=given.flag("dry_run"))
    return [(path,) for path in found.paths]


@procedure(
    "copy(source_table STRING, target_table STRING, where? STRING) -> result BOOLEAN",
    "Copy the newest snapshot of a table to a new table, with its schemas, options and deletion vectors.",
)
def copy(given: Given) -> Rows:
    """See the declaration."""
    catalog, name = given.session.resolve(given.name_of_table("target_table"))
    copy_table(given.table("source_table"), catalog, name, where=given.optional_text("where"))
    return DONE


@procedure(
    "drop_global_index(table STRING, index_column STRING, index_type? STRING, partitions? PARTITIONS, "
    "dry_run? BOOLEAN) -> result BOOLEAN",
    "Drop the global indexes that another engine made of a column, so that the column can be updated.",
)
def drop_global_index(given: Given) -> Rows:
    """See the declaration."""
    given.table().drop_global_index(
        given.text("index_column"),
        given.optional_text("index_type"),
        partitions=given.partitions(),
        dry_run=given.flag("dry_run"),
    )
    return DONE


PROCEDURES = (remove_unexisting_files, copy, drop_global_index)
