"""One SQLite file for us and pypaimon: equal rows for equal verbs; each reads and writes the tables of the other."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from support.effort import some
from support.peers import Peers

pytestmark = pytest.mark.peers

COLUMNS = pa.schema([pa.field("p", pa.string()), pa.field("k", pa.int32(), nullable=False), pa.field("v", pa.string())])
OPTIONS = {"bucket": "2", "bucket-key": "k"}
ROWS = pa.Table.from_pylist([{"p": "a", "k": 1, "v": "one"}, {"p": "b", "k": 2, "v": None}], schema=COLUMNS)
MORE = pa.Table.from_pylist([{"p": "b", "k": 2, "v": "two"}, {"p": "b", "k": 3, "v": "three"}], schema=COLUMNS)


@dataclass(frozen=True)
class Shared:
    """A SQL catalog that both open."""

    peers: Peers
    ours: lw.Catalog
    uri: str

    def names(self, verb: str, *arguments: object) -> list[str]:
        """Call a verb of pypaimon's catalog."""
        answer = self.peers.ask(op="names", verb=verb, arguments=arguments, **self.place)
        found: list[str] = answer.get("names") or []
        return found

    @property
    def place(self) -> dict[str, object]:
        return {"warehouse": self.ours.warehouse, "catalog": {"metastore": "jdbc", "uri": self.uri}}

    def create(self, table: str) -> None:
        """Create a table with pypaimon."""
        schema = self.peers.put(ROWS.slice(0, 0))
        keys = {"partition_keys": ["p"], "primary_keys": ["p", "k"]}
        self.peers.ask(op="create", table=table, data=schema, options=OPTIONS, **keys, **self.place)

    def rows_about(self, name: str) -> list[list[tuple[object, ...]]]:
        """Return the rows of all SQL tables about a database or table, with its name left out, in order."""
        connection = sqlite3.connect(self.uri.removeprefix("jdbc:sqlite:"))
        tables = ("paimon_tables", "paimon_database_properties", "paimon_table_properties")
        found = [connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables]  # noqa: S608
        connection.close()
        return [
            sorted(tuple(str(cell).replace(name, "") for cell in row) for row in rows if name in row) for rows in found
        ]


@pytest.fixture
def shared(peers: Peers, tmp_path: Path) -> Shared:
    uri = f"jdbc:sqlite:{tmp_path}/names.db"
    options = {"metastore": "jdbc", "uri": uri, "warehouse": str(tmp_path / "lake")}
    return Shared(peers, lw.CatalogFactory.create(options), uri)


def schema() -> lw.Schema:
    return lw.Schema.from_pyarrow_schema(COLUMNS, ["p"], ["p", "k"], OPTIONS)


def test_the_same_verbs_make_the_same_rows(shared: Shared) -> None:
    properties = {"owner": "ann", "comment": "of ann"}
    shared.ours.create_database("ourdb", properties=properties)
    shared.names("create_database", "peerdb", False, properties)  # noqa: FBT003 - the peer's signature
    assert shared.rows_about("ourdb") == shared.rows_about("peerdb")
    shared.ours.create_table("ourdb.ourtable", schema())
    shared.create("ourdb.peertable")
    assert shared.rows_about("ourtable") == shared.rows_about("peertable")
    shared.ours.alter_table("ourdb.ourtable", lw.SchemaChange.set_option("target-file-size", "1 mb"))
    shared.names("set_option", "ourdb.peertable", "target-file-size", "1 mb")
    assert shared.rows_about("ourtable") == shared.rows_about("peertable")
    shared.ours.rename_table("ourdb.ourtable", "ourdb.ournew")
    shared.names("rename_table", "ourdb.peertable", "ourdb.peernew")
    assert shared.rows_about("ournew") == shared.rows_about("peernew")
    assert shared.rows_about("ourtable") == shared.rows_about("peertable") == [[], [], []]
    assert shared.ours.list_tables("ourdb") == sorted(shared.names("list_tables", "ourdb")) == ["ournew", "peernew"]
    shared.ours.drop_table("ourdb.peernew")
    shared.names("drop_table", "ourdb.ournew")
    assert shared.ours.list_tables("ourdb") == shared.names("list_tables", "ourdb") == []
    assert shared.ours.list_databases() == sorted(shared.names("list_databases")) == ["ourdb", "peerdb"]
    shared.ours.drop_database("peerdb")
    shared.names("drop_database", "ourdb")
    assert shared.ours.list_databases() == shared.names("list_databases") == []


@pytest.mark.parametrize("maker", some(["us", "peer"], 1))
def test_each_reads_and_writes_the_tables_of_the_other(shared: Shared, maker: str) -> None:
    shared.ours.create_database("d")
    if maker == "us":
        shared.ours.create_table("d.t", schema())
    else:
        shared.create("d.t")
    table = shared.ours.get_table("d.t")
    lw.write_table(ROWS, table)
    shared.peers.append("pypaimon", Path(shared.ours.warehouse), "d.t", MORE, catalog=shared.place["catalog"])
    expected = [("a", 1, "one"), ("b", 2, "two"), ("b", 3, "three")]
    assert rows_of(lw.read_table(table)) == expected
    assert rows_of(shared.peers._rows(op="read", peer="pypaimon", table="d.t", **shared.place)) == expected
    assert table.store.snapshots.ids() == [1, 2]


def rows_of(table: pa.Table | None) -> list[tuple[object, ...]]:
    assert table is not None
    return sorted(tuple(row.values()) for row in table.to_pylist())
