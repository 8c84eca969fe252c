"""Procedures of other engines that are known and cannot be called: their names, and why not or what to do instead."""

from __future__ import annotations

_LATER = "it is not built yet"
_VIEWS = "it is not built yet: the catalogs keep no views and functions"
_METASTORE = "it reads a Hive metastore, which needs a JVM; `lakewright migrate` makes a table of files"
_SERVER = "it asks a server for its rules of access: use the tools of the server"
_INDEX = "it is not built yet: such indexes are neither written nor used"

REFUSED = {
    "merge_branch": _LATER,
    "compact_chain_table": _LATER,
    "remove_unexisting_manifests": "it is not built yet: roll the table back to a snapshot whose files exist",
    "remove_orphan_blobs": _LATER,
    "repair": "it brings a Hive metastore in line with the files; `lakewright repair` mends a table",
    "repair_earliest_snapshot": "it is not needed: `lakewright repair` mends the hint, and reads do without",
    "migrate_database": _METASTORE,
    "migrate_table": _METASTORE,
    "migrate_file": _METASTORE,
    "import_files": "it is not built yet: COPY INTO and `lakewright ingest` load files",
    "rewrite_file_index": _INDEX,
    "create_global_index": _INDEX,
    "reassign_row_id": _LATER,
    "refresh_object_table": "it lists the files of an object table, which catalogs have no more",
    "alter_view_dialect": _VIEWS,
    "create_function": _VIEWS,
    "alter_function": _VIEWS,
    "drop_function": _VIEWS,
    "grant_permission": _SERVER,
    "revoke_permission": _SERVER,
    "list_permissions": _SERVER,
    "create_policy": _SERVER,
    "drop_policy": _SERVER,
    "list_policies": _SERVER,
}
