"""One table of a REST catalog in the hands of three implementations: `ours`, `pypaimon` and `java`.

Each verb takes who does it. Rows are lists of values in the order of the columns, and come back in order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import urllib3

import lakewright as lw
from support.java import Java
from support.java_rest import JavaRestServer
from support.peers import Peers

WHO = ("ours", "pypaimon", "java")
TYPES = {"INT": pa.int32(), "STRING": pa.string()}
COLUMNS = {"p": "STRING", "k": "INT", "v": "STRING"}
VECTORS = {"bucket": "2", "deletion-vectors.enabled": "true"}


@dataclass(frozen=True, slots=True)
class Kind:
    """What sort of table to make."""

    partitions: Sequence[str] = ()
    keys: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)


KINDS = {
    "append": Kind(),
    "append-partitioned": Kind(["p"]),
    "keyed": Kind([], ["k"], {"bucket": "2"}),
    "keyed-partitioned": Kind(["p"], ["p", "k"], {"bucket": "2"}),
    "vectors": Kind([], ["k"], VECTORS),
    "dynamic": Kind([], ["k"], {"bucket": "-1", "dynamic-bucket.target-row-num": "3"}),
}


@dataclass(slots=True)
class Shared:
    """A table of a server that all three write and read."""

    server: JavaRestServer
    peers: Peers
    java: Java
    name: str
    catalog: lw.Catalog = field(init=False)
    place: dict[str, str] = field(init=False)  # the options with which the others open the catalog

    def __post_init__(self) -> None:
        self.catalog = lw.CatalogFactory.create(self.server.options)
        self.place = {key: value for key, value in self.server.options.items() if not key.startswith("lakewright.")}

    def create(self, who: str, kind: Kind, columns: Mapping[str, str] = COLUMNS) -> None:
        """Make the table, and its database."""
        database = self.name.split(".")[0]
        if who == "java":
            described = ",".join(f"{name} {spelled}" for name, spelled in columns.items())
            keys = [",".join(kind.partitions), ",".join(kind.keys)]
            self._java("make", described, *keys, *(f"{key}={value}" for key, value in kind.options.items()))
            return
        schema = pa.schema([pa.field(name, TYPES[spelled], name not in kind.keys) for name, spelled in columns.items()])
        shape = {"partition_keys": kind.partitions, "primary_keys": kind.keys, "options": dict(kind.options)}
        if who == "ours":
            self.catalog.create_database(database, ignore_if_exists=True)
            self.catalog.create_table(self.name, lw.Schema.from_pyarrow_schema(schema, **shape))  # type: ignore[arg-type]
        else:
            self.peers.create(self.place, self.name, schema.empty_table(), **shape)

    def table(self, branch: str = "") -> lw.FileStoreTable:
        """Open the table with our catalog."""
        return self.catalog.get_table(self._spelled(branch))

    def write(self, who: str, *rows: Sequence[object], branch: str = "") -> None:
        """Add rows in one commit; in keyed tables they replace those of the same keys."""
        if who == "java":
            cells = ["|".join(["+I", *("" if cell is None else str(cell) for cell in row)]) for row in rows]
            self._java("write", *cells, branch=branch)
            return
        fields = self.table(branch).schema.fields
        schema = pa.schema([pa.field(f.name, TYPES[str(f.type.to_dict()).split()[0]], f.type.nullable) for f in fields])
        data = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
        if who == "ours":
            lw.write_table(data, self.table(branch))
        else:
            self.peers.append("pypaimon", self.place, self._spelled(branch), data)

    def read(self, who: str, branch: str = "", **options: str) -> list[list[Any]]:
        """Return all rows, read with dynamic options whose `_` stand for `-` and `.`."""
        spelled = {"scan." + key.replace("_", "-"): value for key, value in options.items()}
        if who == "java":
            rows = self.java.read(self.place, self._spelled(branch), **spelled)
        elif who == "ours":
            table = self.table(branch)
            rows = _listed(lw.read_table(table.copy(spelled) if spelled else table))
        else:
            rows = _listed(self.peers.read("pypaimon", self.place, self._spelled(branch), options=spelled))
        return sorted(rows)

    def agreed(self, branch: str = "", **options: str) -> list[list[Any]]:
        """Return the rows, after a check that all three read the same."""
        ours, python, java = (self.read(who, branch, **options) for who in WHO)
        assert ours == python == java
        return ours

    def alter(self, who: str, verb: str, *words: str) -> None:
        """Change the schema: `add_column NAME TYPE`, `rename_column OLD NEW`, `set_option KEY VALUE`."""
        if who == "java":
            given = ["=".join(words)] if verb == "set_option" else words
            self._java("set" if verb == "set_option" else verb.replace("_", ""), *given)
        elif who == "pypaimon":
            self._pypaimon("alter", changes=[[verb, *words]])
        else:
            made = [words[0], lw.AtomicType(words[1])] if verb == "add_column" else words
            self.catalog.alter_table(self.name, getattr(lw.SchemaChange, verb)(*made))

    def compact(self, who: str) -> None:
        """Compact the table fully: we or Java."""
        if who == "java":
            self.java.compact(self.place, self.name, **{"write-only": "false"})
        else:
            self.table().compact(full=True)

    def tag(self, who: str, name: str) -> None:
        """Tag the newest snapshot."""
        self._call(who, "tag", "create_tag", name)

    def branch(self, who: str, name: str) -> None:
        """Make an empty branch."""
        self._call(who, "branch", "create_branch", name)

    def forward(self, who: str, branch: str) -> None:
        """Bring the table to the state of a branch; what the branch does not have is lost."""
        if who == "ours":
            self.catalog.fast_forward(self.name, branch, allow_loss=True)
        else:
            self._call(who, "forward", "fast_forward", branch)

    def rollback(self, who: str, snapshot: int) -> None:
        """Make a snapshot the newest one."""
        if who == "java":
            self._java("rollback", str(snapshot))
        elif who == "pypaimon":
            self._pypaimon("rollback", snapshot=snapshot)
        else:
            self.catalog.rollback_to(self.name, snapshot)

    def counts(self) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
        """Return what the server counted: for the newest snapshot, and for each partition by its name."""
        newest = self._asked("snapshot")["snapshot"]
        parts = {str(part["spec"]): part for part in self._asked("partitions")["partitions"]}
        return _counted(newest), {name: _counted(part) for name, part in parts.items()}

    def sent(self) -> list[list[tuple[str, int, int, int]]]:
        """Return what each commit said of its partitions: name, rows, files, and buckets in all."""
        database, table = self.name.split(".")
        commits = [e for e in self.server.log if e.request.endswith(f"/{database}/tables/{table}/commit")]
        bodies = [json.loads(e.body) if isinstance(e.body, str) else e.body for e in commits]
        return [
            [(str(s["spec"]), s["recordCount"], s["fileCount"], s["totalBuckets"]) for s in body["statistics"]]
            for body in bodies
        ]

    def _asked(self, what: str) -> dict[str, Any]:
        database, table = self.name.split(".")
        path = f"{self.server.uri}/v1/{self.server.prefix}/databases/{database}/tables/{table}/{what}"
        answer = urllib3.request("GET", path, headers={"Authorization": f"Bearer {self.server.token}"})
        found: dict[str, Any] = answer.json()
        return found

    def ids(self) -> list[int]:
        """Return the ids of all snapshots."""
        found: list[int] = lw.read_table(self.catalog.get_table(f"{self.name}$snapshots"))["snapshot_id"].to_pylist()
        return sorted(found)

    def _call(self, who: str, command: str, verb: str, name: str) -> None:
        if who == "java":
            self._java(command, name)
        elif who == "pypaimon":
            self._pypaimon("names", verb=verb, arguments=[self.name, name])
        else:
            getattr(self.catalog, verb)(self.name, name)

    def _java(self, command: str, *words: str, branch: str = "") -> None:
        place = "|".join(f"{key}={value}" for key, value in self.place.items())
        self.java.ask(command, place, *self._spelled(branch).split("."), *words)

    def _pypaimon(self, op: str, **more: object) -> None:
        self.peers.ask(op=op, warehouse=self.place, table=self.name, **more)

    def _spelled(self, branch: str) -> str:
        system = branch.startswith("$")  # the name of a system table
        return f"{self.name}{branch}" if system or not branch else f"{self.name}$branch_{branch}"


def _listed(table: pa.Table | None) -> list[list[Any]]:
    return [] if table is None else [list(row.values()) for row in table.to_pylist()]


def _counted(members: Mapping[str, Any]) -> dict[str, int]:
    return {key: members[key] for key in ("recordCount", "fileCount")}
