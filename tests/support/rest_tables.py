"""What the stand-in of a REST catalog server knows: databases, tables, branches and their newest snapshots.

A call (method, names of the path, query, body) comes in; the JSON of the answer goes out, or `RefusedError` with the
code of the protocol. Names live in memory, tables are files below a data directory. Quirks of the Java servers that a
client must bear are kept: a page may be empty, a table is listed once more per branch, snapshot ids are not checked.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeAlias

from contract.fault_enumerator import _used_files, stray_files
from lakewright.catalog.listing import partitions_of
from lakewright.errors import (
    BranchAlreadyExistException,
    BranchNotExistException,
    ColumnAlreadyExistException,
    ColumnNotExistException,
    LakewrightError,
    NotFoundError,
    TagAlreadyExistException,
    TagNotExistException,
)
from lakewright.maintenance.branches import create_branch, drop_branch, fast_forward, rename_branch
from lakewright.maintenance.rollback import rollback
from lakewright.metadata.refs import branches
from lakewright.metadata.schema_files import SchemaFiles
from lakewright.metadata.table_store import TableStore, apply_layout_options, format_partition_spec
from lakewright.spec.option_values import parse_duration_millis
from lakewright.spec.schema import Move, Position, Schema, SchemaChange, new_table_schema
from lakewright.spec.schema_evolution import apply_changes
from lakewright.spec.snapshot import _KEYS, Snapshot, to_json
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import DataField, DataType, parse_type
from lakewright.storage.storage import Storage
from lakewright.storage.storage_registry import open_storage
from lakewright.storage.table_layout import MAIN_BRANCH, Layout

JSON: TypeAlias = dict[str, Any]
PAGE = 100  # the most names in one page
UNSTORED = {"2.0.0": {"writerVersion"}, "1.4.2": {"writerVersion", "uuid", "operation"}}  # members that a server drops
_COUNTS = ("recordCount", "fileSizeInBytes", "fileCount")


class RefusedError(Exception):
    """A call was answered with an error. `status` is that of HTTP where it differs from the code in the body."""

    def __init__(
        self, code: int, kind: str | None = None, name: str | None = None, text: str = "", *, status: int | None = None
    ) -> None:
        super().__init__(text or f"{kind} {name}")
        self.code, self.kind, self.name, self.status = code, kind, name, status or code


class CrashedError(Exception):
    """The server did not foresee the request, and cuts the connection without an answer."""


@dataclass
class Table:
    """One table: its identity, its place and, by branch, the newest snapshot and the counts of partitions."""

    id: str
    database: str
    name: str
    path: str
    external: bool
    layout: Layout
    made: int
    declared: TableSchema  # what the schema is until a file says it, as for a new external table
    latest: dict[str, JSON] = field(default_factory=dict)
    partitions: dict[str, dict[str, JSON]] = field(default_factory=dict)


@dataclass
class Tables:
    """All databases and tables of one warehouse."""

    data: str
    like: str = "2.0.0"
    storage_options: Mapping[str, str] = field(default_factory=lambda: {"lakewright.durable": "false"})
    defaults: Mapping[str, str] = field(default_factory=dict)  # of the configuration; `table-default.*` are obeyed
    databases: dict[str, dict[str, str]] = field(default_factory=dict)
    tables: dict[tuple[str, str], Table] = field(default_factory=dict)
    denied: set[str] = field(default_factory=set)
    rollback_removes_files: bool = False  # those of removed snapshots; Java's servers leave them to the next cleaning
    storage: Storage = field(init=False)
    root: str = field(init=False)

    def __post_init__(self) -> None:
        self.storage, self.root = open_storage(self.data, self.storage_options)

    def call(self, method: str, names: Sequence[str], query: Mapping[str, str], body: JSON) -> JSON | None:
        """Carry out one call below the prefix and return its answer."""
        match (method, *names):
            case ("GET", "databases"):
                return _page("databases", sorted(self.databases), query, "databaseNamePattern")
            case ("POST", "databases"):
                return self._create_database(body)
            case (_, "databases", database, *rest):
                return self._in_database(method, database, rest, query, body)
            case ("GET", "tables"):
                wanted = sorted(f"{table.database}\0{table.name}" for table in self.tables.values())
                page = _page("tables", wanted, query, "tableNamePattern")
                split = [name.split("\0") for name in page["tables"]]
                return {**page, "tables": [{"database": database, "object": name} for database, name in split]}
            case ("GET", "tables", "id", table_id):
                found = [table for table in self.tables.values() if table.id == table_id]
                if not found:
                    raise RefusedError(404, "TABLE", table_id)
                return self._described(found[0], MAIN_BRANCH)
            case ("POST", "tables", "rename"):
                return self._rename(body["source"], body["destination"])
        raise RefusedError(404)

    # Databases.

    def _create_database(self, body: JSON) -> JSON | None:
        name = body["name"]
        if name in self.databases:
            raise RefusedError(409, "DATABASE", name)
        if body.get("options") is None:
            raise CrashedError("options are null")
        self.databases[name] = dict(body["options"])
        return None

    def _in_database(
        self, method: str, database: str, rest: Sequence[str], query: Mapping[str, str], body: JSON
    ) -> JSON | None:
        if database in self.denied:
            raise RefusedError(403, "DATABASE", database)
        if database not in self.databases:
            raise RefusedError(404, "DATABASE", database)
        options = self.databases[database]
        match (method, *rest):
            case ("GET",):
                audit = {"owner": "stand-in", "createdAt": 0, "createdBy": "stand-in", "updatedAt": 0, "updatedBy": ""}
                location = f"{self.data}/{_folder(database)}.db"
                return {"id": database, "name": database, "location": location, "options": options, **audit}
            case ("POST",):
                missing = [key for key in body.get("removals") or () if key not in options]
                removed = [key for key in body.get("removals") or () if options.pop(key, None) is not None]
                options.update(body.get("updates") or {})
                return {"removed": removed, "updated": sorted(body.get("updates") or {}), "missing": missing}
            case ("DELETE",):
                for key in [key for key in self.tables if key[0] == database]:
                    self._drop(self.tables[key])
                del self.databases[database]
                return None
            case ("GET", "tables"):
                return _page("tables", self._names(database), query, "tableNamePattern")
            case ("GET", "table-details"):
                page = _page("tableDetails", self._names(database), query, "tableNamePattern")
                found = [self._described(self.tables[database, name], MAIN_BRANCH) for name in page["tableDetails"]]
                for details in found:
                    details["schema"]["options"]["path"] = details["path"]
                return {**page, "tableDetails": found}
            case ("POST", "tables"):
                return self._create_table(body)
            case (_, "tables", name, *inner):
                return self._in_table(method, (database, name), inner, query, body)
        raise RefusedError(404)

    def _names(self, database: str) -> list[str]:
        """Return the names of the tables; one with branches stands there once more for each."""
        own = [table for table in self.tables.values() if table.database == database]
        return sorted(t.name for t in own for _ in range(1 + len(branches(self.storage, t.layout))))

    # Tables.

    def _create_table(self, body: JSON) -> JSON | None:
        database, name = body["identifier"]["database"], body["identifier"]["object"]
        if database not in self.databases:
            raise RefusedError(404, "DATABASE", database)
        if (database, name) in self.tables:
            raise RefusedError(409, "TABLE", name)
        options = dict(body["schema"].get("options") or {})
        given = options.pop("path", None)
        prefix = "table-default."
        options = {k.removeprefix(prefix): v for k, v in self.defaults.items() if k.startswith(prefix)} | options
        folder = f"{_folder(database)}.db/{_folder(name)}"
        scheme = "file:" if self.data.startswith("file:") else ""
        path = given or f"{scheme}{self.root}/{folder}"
        layout = Layout(open_storage(given, self.storage_options)[1] if given else f"{self.root}/{folder}")
        schema = _first_schema(body["schema"], options)
        if given is None:
            SchemaFiles(self.storage, layout).create(schema)
        self.tables[database, name] = Table(
            str(uuid.uuid4()), database, name, path, given is not None, layout, _now(), schema
        )
        return None

    def _in_table(
        self, method: str, key: tuple[str, str], inner: Sequence[str], query: Mapping[str, str], body: JSON
    ) -> JSON | None:
        plain, branch = _branch_of(key[1])
        if f"{key[0]}.{plain}" in self.denied:
            raise RefusedError(403, "TABLE", plain)
        table = self.tables.get((key[0], plain))
        if table is None or (branch != MAIN_BRANCH and branch not in branches(self.storage, table.layout)):
            raise RefusedError(404, "TABLE", key[1])
        match (method, *inner):
            case ("GET",):
                return self._described(table, branch)
            case ("POST",):
                return self._alter(table, branch, body["changes"])
            case ("DELETE",):
                return self._drop(table)
            case (_, "snapshot" | "snapshots" | "commit" | "rollback", *_):
                return self._history(method, table, branch, inner, body)
            case (_, "partitions", *_):
                return self._partitions(table, branch, inner, query, body)
            case (_, "tags", *_):
                return self._tags(method, table, branch, inner, query, body)
            case (_, "branches", *_):
                return self._branches(method, table, inner, body)
            case ("POST", "auth"):
                return {}
        raise RefusedError(404)

    def _described(self, table: Table, branch: str) -> JSON:
        schema = self.store(table, branch).schema
        members = json.loads(schema.to_json())
        kept = {k: members[k] for k in ("fields", "partitionKeys", "primaryKeys", "options", "comment") if k in members}
        if branch != MAIN_BRANCH:
            kept["options"]["branch"] = branch
        return {
            "id": table.id,
            "database": table.database,
            "name": table.name if branch == MAIN_BRANCH else f"{table.name}$branch_{branch}",
            "path": table.path,
            "isExternal": table.external,
            "schemaId": schema.id,
            "schema": kept,
            "owner": "stand-in",
            "createdAt": table.made,
            "createdBy": "stand-in",
            "updatedAt": table.made,
            "updatedBy": "stand-in",
        }

    def store(self, table: Table, branch: str = MAIN_BRANCH) -> TableStore:
        """Return a branch of a table, as its files describe it."""
        layout = table.layout.for_branch(branch)
        schema = SchemaFiles(self.storage, layout).latest() or table.declared
        return TableStore(f"{table.database}.{table.name}", self.storage, apply_layout_options(layout, schema), schema)

    def _alter(self, table: Table, branch: str, changes: Sequence[JSON]) -> JSON | None:
        store = self.store(table, branch)
        try:
            parsed = [_change(change) for change in changes]
            has_snapshot = branch in table.latest
            changed = apply_changes(store.schema, parsed, has_snapshot=has_snapshot, time_millis=_now())
        except ColumnNotExistException as error:
            raise RefusedError(404, "COLUMN", str(error.facts.get("column")), str(error)) from error
        except ColumnAlreadyExistException as error:
            raise RefusedError(409, "COLUMN", str(error.facts.get("column")), str(error)) from error
        if changed is not store.schema:
            store.schemas.create(changed)
        return None

    def _drop(self, table: Table) -> JSON | None:
        del self.tables[table.database, table.name]
        if not table.external:
            self.storage.delete_directory(table.layout.root)
        return None

    def _rename(self, source: JSON, target: JSON) -> JSON | None:
        table = self.tables.get((source["database"], source["object"]))
        key = (target["database"], target["object"])
        if table is None:
            raise RefusedError(404, "TABLE", source["object"])
        if key[0] not in self.databases:
            raise RefusedError(404, "DATABASE", key[0])
        if key in self.tables:
            raise RefusedError(409, "TABLE", key[1])
        del self.tables[table.database, table.name]
        table.database, table.name = key
        self.tables[key] = table
        if not table.external:
            folder = f"{_folder(key[0])}.db/{_folder(key[1])}"
            self.storage.make_directory(f"{self.root}/{_folder(key[0])}.db")
            self.storage.rename_directory(table.layout.root, f"{self.root}/{folder}")
            table.layout = Layout(f"{self.root}/{folder}")
            table.path = f"{'file:' if self.data.startswith('file:') else ''}{self.root}/{folder}"
        return None

    # Snapshots.

    def _history(self, method: str, table: Table, branch: str, inner: Sequence[str], body: JSON) -> JSON | None:
        if table.external and inner[0] == "snapshot":
            raise RefusedError(501, "TABLE", table.name, status=404)
        match (method, *inner):
            case ("GET", "snapshot"):
                if branch not in table.latest:
                    raise RefusedError(404, "SNAPSHOT", table.name)
                stats = list(table.partitions.get(branch, {}).values())
                sums = {key: sum(stat[key] for stat in stats) for key in _COUNTS}
                newest = max((stat["lastFileCreationTime"] for stat in stats), default=0)
                return {"snapshot": {"snapshot": table.latest[branch], **sums, "lastFileCreationTime": newest}}
            case ("GET", "snapshots"):
                store = self.store(table, branch)
                found = [_members(store.snapshots.get(i)) for i in store.snapshots.ids()]
                return {"snapshots": found, "nextPageToken": None}
            case ("GET", "snapshots", version):
                return {"snapshot": self._version(table, branch, version)}
            case ("POST", "commit"):
                return {"success": self._commit(table, branch, body)}
            case ("POST", "rollback"):
                return self._roll_back(table, branch, body)
        raise RefusedError(404)

    def _version(self, table: Table, branch: str, version: str) -> JSON:
        store = self.store(table, branch)
        latest = table.latest.get(branch)
        if version == "LATEST" and latest is not None:
            return latest
        if version == "EARLIEST" and (earliest := store.snapshots.earliest()) is not None:
            return _members(earliest)
        if version.isdecimal() and (found := store.snapshots.find(int(version))) is not None:
            return _members(found)
        try:
            return _members(store.tags.get(version).snapshot)
        except LakewrightError as error:
            raise RefusedError(404, "SNAPSHOT", version) from error

    def _commit(self, table: Table, branch: str, body: JSON) -> bool:
        if body.get("tableId") is None:
            raise CrashedError("tableId is null")
        if body["tableId"] != table.id:
            raise RefusedError(404, "TABLE", table.name)
        store, latest = self.store(table, branch), table.latest.get(branch)
        sent = body["snapshot"]
        if self.like == "2.0.0" and body.get("baseSnapshotUuid") != (latest or {}).get("uuid"):
            return False
        kept = {key: sent[key] for key, _, _ in _KEYS if sent.get(key) is not None and key not in UNSTORED[self.like]}
        path = store.layout.snapshot_file(kept["id"])
        if not self.storage.create(path, json.dumps(kept, indent=2, ensure_ascii=False).encode()):
            return False
        table.latest[branch] = kept
        store.snapshots.write_latest_hint(kept["id"])
        self._count(table.partitions.setdefault(branch, {}), body.get("statistics") or [])
        return True

    @staticmethod
    def _count(known: dict[str, JSON], stats: Sequence[JSON]) -> None:
        for stat in stats:
            name = format_partition_spec(stat["spec"])
            old = known.get(name) or {**stat, **dict.fromkeys(_COUNTS, 0)}
            new = {**stat, **{key: old[key] + stat[key] for key in _COUNTS}}
            known[name] = new
            if all(new[key] <= 0 for key in _COUNTS):
                del known[name]

    def _roll_back(self, table: Table, branch: str, body: JSON) -> JSON | None:
        store, instant = self.store(table, branch), body["instant"]
        latest = table.latest.get(branch)
        expected = body.get("fromSnapshot")
        if expected is not None and (latest is None or latest["id"] != expected):
            raise RefusedError(500, None, None, "the newest snapshot is another one")
        tag = instant["type"] == "tag"
        named = _used_files(store)
        try:
            rollback(store, instant["tagName"] if tag else instant["snapshotId"])
        except NotFoundError as error:
            kind, name = ("TAG", instant["tagName"]) if tag else ("SNAPSHOT", str(instant["snapshotId"]))
            raise RefusedError(404, kind, name) from error
        for path in named & stray_files(self.store(table)) if self.rollback_removes_files else ():
            self.storage.delete(path)
        self._reload(table, branch)
        return None

    def _reload(self, table: Table, branch: str) -> None:
        """Take the newest snapshot of a branch, and the counts of its partitions, from the files."""
        store = self.store(table, branch)
        latest = store.snapshots.latest()
        if latest is None:
            table.latest.pop(branch, None)
            return
        table.latest[branch] = _members(latest)
        table.partitions[branch] = {
            format_partition_spec(p.spec): {
                "spec": dict(p.spec),
                "recordCount": p.record_count,
                "fileSizeInBytes": p.file_size_in_bytes,
                "fileCount": p.file_count,
                "lastFileCreationTime": p.last_file_creation_time,
                "totalBuckets": p.total_buckets,
            }
            for p in partitions_of(store)
        }

    # Partitions, tags, branches.

    def _partitions(
        self, table: Table, branch: str, inner: Sequence[str], query: Mapping[str, str], body: JSON
    ) -> JSON | None:
        if self.store(table, branch).schema.options.get("metastore.partitioned-table") != "true":
            raise RefusedError(501, "TABLE", table.name)
        known = table.partitions.get(branch, {})
        audit = {"done": False, "createdAt": 0, "createdBy": "", "updatedAt": 0, "updatedBy": "", "options": None}
        match inner[1:]:
            case []:
                page = _page("partitions", sorted(known, reverse=True), query, "partitionNamePattern")
                names = page["partitions"]
            case ["list-by-names"]:
                page, names = {}, [n for spec in body["specs"] if (n := format_partition_spec(spec)) in known]
            case ["list-by-filter"] if self.like == "2.0.0":
                page, names = {}, sorted(known, reverse=True)
            case ["mark"]:
                return None
            case _:
                raise RefusedError(404)
        return {**page, "partitions": [{**known[name], **audit} for name in names]}

    def _tags(
        self, method: str, table: Table, branch: str, inner: Sequence[str], query: Mapping[str, str], body: JSON
    ) -> JSON | None:
        store = self.store(table, branch)
        try:
            match (method, *inner[1:]):
                case ("GET",):
                    return _page("tags", store.tags.list(), query, "tagNamePrefix")
                case ("POST",):
                    wanted = body.get("snapshotId") or table.latest.get(branch, {}).get("id")
                    snapshot = None if wanted is None else store.snapshots.find(wanted)
                    if snapshot is None:
                        raise RefusedError(404, "SNAPSHOT", str(wanted))
                    text = body.get("timeRetained")
                    millis = None if text is None else parse_duration_millis(text)
                    store.tags.create(body["tagName"], snapshot, time_retained_millis=millis)
                    return None
                case ("GET", name):
                    tag = store.tags.get(name)
                    kept = tag.time_retained
                    made = None if kept is None or tag.create_time is None else int(tag.create_time.timestamp() * 1000)
                    retained = None if kept is None else _iso(kept)
                    snapshot_members = _members(tag.snapshot)
                    return {
                        "tagName": name,
                        "snapshot": snapshot_members,
                        "tagCreateTime": made,
                        "tagTimeRetained": retained,
                    }
                case ("DELETE", name):
                    store.tags.delete(name)
                    return None
        except TagNotExistException as error:
            raise RefusedError(404, "TAG", str(error.facts.get("tag"))) from error
        except TagAlreadyExistException as error:
            raise RefusedError(409, "TAG", str(error.facts.get("tag"))) from error
        raise RefusedError(404)

    def _branches(self, method: str, table: Table, inner: Sequence[str], body: JSON) -> JSON | None:
        store = self.store(table)
        try:
            match (method, *inner[1:]):
                case ("GET",):
                    return {"branches": branches(self.storage, table.layout) or None}
                case ("POST",):
                    if body.get("fromTag") is None:
                        create_branch(store, body["branch"])
                    else:
                        self._branch_at_tag(table, body["branch"], body["fromTag"])
                    return None
                case ("DELETE", name):
                    drop_branch(store, name)
                    table.latest.pop(name, None)
                    table.partitions.pop(name, None)
                    return None
                case ("POST", name, "forward"):
                    fast_forward(store, name, allow_loss=True)
                    self._reload(table, MAIN_BRANCH)
                    return None
                case ("POST", name, "rename"):
                    if self.like == "1.4.2":  # the newer server answers 200 and does nothing
                        rename_branch(store, name, body["toBranch"])
                        self._reload(table, body["toBranch"])
                        table.latest.pop(name, None)
                    return None
        except BranchNotExistException as error:
            raise RefusedError(404, "BRANCH", str(error.facts.get("branch"))) from error
        except TagNotExistException as error:
            raise RefusedError(404, "TAG", str(error.facts.get("tag"))) from error
        except BranchAlreadyExistException as error:
            raise RefusedError(409, "BRANCH", str(error.facts.get("branch"))) from error
        raise RefusedError(404)

    def _branch_at_tag(self, table: Table, branch: str, tag_name: str) -> None:
        """Make a branch as Java does: by copies of files, without a look into the manifests of the snapshot."""
        store = self.store(table)
        snapshot = store.tags.get(tag_name).snapshot
        create_branch(store, branch)
        target = table.layout.for_branch(branch)
        tag = self.storage.read(table.layout.tag_file(tag_name))
        self.storage.create(target.tag_file(tag_name), tag)
        self.storage.create(target.snapshot_file(snapshot.id), to_json(snapshot).encode())
        table.latest[branch] = _members(snapshot)


def _page(member: str, names: Sequence[str], query: Mapping[str, str], pattern_key: str) -> JSON:
    """Return one page of names. A page that is full has a token, even if nothing comes after it."""
    size = min(int(query.get("maxResults") or PAGE), PAGE)
    token, pattern = query.get("pageToken"), query.get(pattern_key)
    start = 0 if token is None else int(token)  # opaque to clients
    if pattern is not None:
        prefix = re.fullmatch(r"((?:[^%_\\]|\\.)*)%?", pattern, re.DOTALL)
        if prefix is None:
            raise RefusedError(400, None, None, f"only a prefix and % can be a pattern: {pattern}")
        text = re.sub(r"\\(.)", r"\1", prefix[1], flags=re.DOTALL)
        names = [n for n in names if (n.startswith(text) if pattern.endswith("%") else n == text)]
    kept = list(names[start : start + size])
    return {member: kept, "nextPageToken": str(start + size) if len(kept) == size else None}


def _branch_of(name: str) -> tuple[str, str]:
    plain, mark, branch = name.partition("$branch_")
    return (plain, branch) if mark else (name, MAIN_BRANCH)


def _folder(name: str) -> str:
    """Return the directory of a name. A slash is spelled %2F there: clients must not decode paths."""
    return name.replace("/", "%2F")


def _first_schema(members: JSON, options: Mapping[str, str]) -> TableSchema:
    fields = [DataField.from_dict(item) for item in members["fields"]]
    keys = members.get("partitionKeys") or (), members.get("primaryKeys") or ()
    return new_table_schema(Schema(fields, *keys, options, members.get("comment")), time_millis=_now())


def _change(change: JSON) -> SchemaChange:
    names: Sequence[str] = change.get("fieldNames") or ()
    makers: dict[str, Callable[[], SchemaChange]] = {
        "setOption": lambda: SchemaChange.set_option(change["key"], change["value"]),
        "removeOption": lambda: SchemaChange.remove_option(change["key"]),
        "updateComment": lambda: SchemaChange.update_comment(change.get("comment")),
        "addColumn": lambda: SchemaChange.add_column(
            names, _type(change["dataType"]), change.get("comment"), _move(change.get("move"))
        ),
        "renameColumn": lambda: SchemaChange.rename_column(names, change["newName"]),
        "dropColumn": lambda: SchemaChange.drop_column(names),
        "dropPrimaryKey": SchemaChange.drop_primary_key,
        "updateColumnType": lambda: SchemaChange.update_column_type(
            names, _type(change["newDataType"]), bool(change.get("keepNullability")), allow_lossy=True
        ),
        "updateColumnNullability": lambda: SchemaChange.update_column_nullability(names, change["newNullability"]),
        "updateColumnComment": lambda: SchemaChange.update_column_comment(names, change.get("newComment")),
        "updateColumnDefaultValue": lambda: SchemaChange.update_column_default_value(names, change["newDefaultValue"]),
        "updateColumnPosition": lambda: SchemaChange.update_column_position(_move(change["move"]) or Move.first("")),
    }
    return makers[change["action"]]()


def _type(data: Any) -> DataType:  # noqa: ANN401 - JSON
    return parse_type(data)


def _move(move: JSON | None) -> Move | None:
    if move is None:
        return None
    return Move(move["fieldName"], move.get("referenceFieldName"), Position(move["type"]))


def _iso(kept: timedelta) -> str:
    """Return a duration as Java spells it, such as PT24H or PT1M30S."""
    minutes, seconds = divmod(kept.total_seconds(), 60)
    hours, minutes = divmod(int(minutes), 60)
    parts = [f"{number:g}{unit}" for number, unit in ((hours, "H"), (minutes, "M"), (seconds, "S")) if number]
    return f"PT{''.join(parts) or '0S'}"


def _members(snapshot: Snapshot) -> JSON:
    members: JSON = json.loads(to_json(snapshot))
    del members["checksum"]
    return members


def _now() -> int:
    return int(time.time() * 1000)
