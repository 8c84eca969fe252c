"""Procedures of other engines that are known and cannot be called: their names, and why not or what to do instead."""

from __future__ import annotations

_LATER = "it is not built yet"
_VIEWS = "it is not built yet: the catalogs keep no views and functions"
_METASTORE = "it reads a Hive metastore, which needs a JVM; `lakewright ingest` loads the files of a table"
_SERVER = "it asks a server for its rules of access: use the tools of the server"
_INDEX = "it is not built yet: such indexes are neither written nor used"

REFUSED = {
    "merge_branch": _LATER,
    "rollback_to_as_latest": "it is not built yet: rollback removes the snapshots after the one that it goes back to",
    "compact_manifest": "it is not built yet: every commit merges small manifests as the options manifest.* say",
    "compact_chain_table": _LATER,
    "materialize_deletion_vectors": "it is not built yet: compact rewrites files with deleted rows",
    "remove_unexisting_manifests": "it is not built yet: roll the table back to a snapshot whose files exist",
    "remove_orphan_blobs": _LATER,
    "repair": "it brings a Hive metastore in line with the files; the catalogs here read the files themselves",
    "repair_earliest_snapshot": "it is not needed: the files say which snapshot is the earliest, not the hint",
    "migrate_database": _METASTORE,
    "migrate_table": _METASTORE,
    "migrate_file": _METASTORE,
    "import_files": "it is not built yet: COPY INTO and `lakewright ingest` load files",
    "rewrite_file_index": _INDEX,
    "create_global_index": _INDEX,
    "drop_global_index": _INDEX,
    "reassign_row_id": _LATER,
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
