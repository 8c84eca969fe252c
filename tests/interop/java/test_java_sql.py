"""One SQLite file for us and Java: equal rows for equal verbs, each reads and writes the other's tables, one lock."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from support.java import Java, JavaError

COLUMNS = pa.schema(
    [
        pa.field("p", pa.string(), nullable=False),
        pa.field("k", pa.int32(), nullable=False),
        pa.field("v", pa.string()),
    ]
)
OPTIONS = {"bucket": "2"}
TABLES = ("paimon_tables", "paimon_database_properties", "paimon_table_properties")
LOCK = "INSERT INTO paimon_distributed_locks (lock_id, expire_time_seconds) VALUES ('jdbc.d.t', 480)"


@pytest.fixture(scope="module")
def java() -> Iterator[Java]:
    started = Java()
    yield started
    started.close()


@dataclass(frozen=True)
class Shared:
    """A SQL catalog, with the lock, that both open."""

    java: Java
    ours: lw.Catalog
    file: Path

    @property
    def place(self) -> str:
        """The options of the catalog as Java takes them."""
        options = {key: value for key, value in self.ours.options.items() if key != "lakewright.durable"}
        return "|".join(f"{key}={value}" for key, value in options.items())

    def ask(self, command: str, *words: str) -> list[str]:
        names: list[str] = self.java.ask(command, self.place, *words).get("names", [])
        return sorted(names)

    def run(self, statement: str) -> list[tuple[object, ...]]:
        connection = sqlite3.connect(self.file)
        rows = connection.execute(statement).fetchall()
        connection.commit()
        connection.close()
        return rows

    def rows_about(self, name: str) -> list[list[tuple[object, ...]]]:
        """Return the rows of all SQL tables about a database or table, with its name left out, in order."""
        found = [self.run(f"SELECT * FROM {table}") for table in TABLES]  # noqa: S608 - our own names
        return [
            sorted(tuple(str(cell).replace(name, "") for cell in row) for row in rows if name in row) for rows in found
        ]


@pytest.fixture
def shared(java: Java, tmp_path: Path) -> Shared:
    options = {
        "metastore": "jdbc",
        # In its default mode SQLite lets nobody commit while a reader has rows open, and Java 1.4.2 leaves some open.
        "uri": f"jdbc:sqlite:{tmp_path}/names.db?journal_mode=WAL",
        "warehouse": str(tmp_path / "lake"),
        "lock.enabled": "true",
        "lock-acquire-timeout": "60 s",
    }
    return Shared(java, lw.CatalogFactory.create(options), tmp_path / "names.db")


def schema() -> lw.Schema:
    return lw.Schema.from_pyarrow_schema(COLUMNS, ["p"], ["p", "k"], OPTIONS)


def rows(*keys: int) -> pa.Table:
    return pa.Table.from_pylist([{"p": "a", "k": key, "v": f"v{key}"} for key in keys], schema=COLUMNS)


def test_the_same_verbs_make_the_same_rows(shared: Shared) -> None:
    shared.ours.create_database("ourdb", properties={"owner": "ann"})
    shared.ask("createdb", "javadb", "owner=ann")
    assert shared.rows_about("ourdb") == shared.rows_about("javadb")
    shared.ours.create_table("ourdb.ourtable", schema())
    shared.ask("create", "ourdb", "javatable", "bucket=2")
    assert shared.rows_about("ourtable") == shared.rows_about("javatable")
    shared.ours.alter_table("ourdb.ourtable", lw.SchemaChange.set_option("target-file-size", "1 mb"))
    shared.ask("set", "ourdb", "javatable", "target-file-size=1 mb")
    assert shared.rows_about("ourtable") == shared.rows_about("javatable")
    shared.ours.rename_table("ourdb.ourtable", "ourdb.ournew")
    shared.ask("rename", "ourdb", "javatable", "javanew")
    assert shared.rows_about("ournew") == shared.rows_about("javanew")
    assert shared.rows_about("ourtable") == shared.rows_about("javatable") == [[], [], []]
    assert shared.ours.list_tables("ourdb") == shared.ask("tables", "ourdb") == ["javanew", "ournew"]
    shared.ours.drop_table("ourdb.javanew")
    shared.ask("drop", "ourdb", "ournew")
    assert shared.ours.list_tables("ourdb") == shared.ask("tables", "ourdb") == []
    assert shared.ours.list_databases() == shared.ask("databases") == ["javadb", "ourdb"]
    shared.ours.drop_database("javadb")
    shared.ask("dropdb", "ourdb")
    assert shared.ours.list_databases() == shared.ask("databases") == []
    assert shared.run("SELECT * FROM paimon_distributed_locks") == []


@pytest.mark.parametrize("maker", ["us", "java"])
def test_each_reads_and_writes_the_tables_of_the_other(shared: Shared, maker: str) -> None:
    shared.ours.create_database("d")
    shared.ours.create_table("d.source", schema())
    lw.write_table(rows(2, 3), shared.ours.get_table("d.source"))
    if maker == "us":
        shared.ours.create_table("d.t", schema())
    else:
        shared.ask("create", "d", "t", "bucket=2")
    table = shared.ours.get_table("d.t")
    lw.write_table(rows(1, 2), table)
    shared.ask("copy", "d", "source", "t")
    expected = [["a", 1, "v1"], ["a", 2, "v2"], ["a", 3, "v3"]]
    assert sorted(shared.java.ask("read", shared.place, "d", "t")["rows"]) == expected
    assert sorted([list(row.values()) for row in lw.read_table(table).to_pylist()]) == expected
    assert table.store.snapshots.ids() == [1, 2]


def test_who_holds_the_lock_keeps_the_other_waiting(shared: Shared) -> None:
    """Java waits for a row that we would have written, and we for one of Java's: nobody publishes meanwhile."""
    shared.ours.create_database("d")
    shared.ours.create_table("d.source", schema())
    shared.ours.create_table("d.t", schema())
    lw.write_table(rows(1), shared.ours.get_table("d.source"))
    table = shared.ours.get_table("d.t")
    shared.run(LOCK)
    waiting = [
        threading.Thread(target=shared.ask, args=("copy", "d", "source", "t"), daemon=True),
        threading.Thread(target=lw.write_table, args=(rows(2), table), daemon=True),
    ]
    for thread in waiting:
        thread.start()
    waiting[0].join(4)
    assert [thread.is_alive() for thread in waiting] == [True, True]
    assert table.store.snapshots.ids() == []
    shared.run("DELETE FROM paimon_distributed_locks")
    for thread in waiting:
        thread.join(60)
    assert table.store.snapshots.ids() == [1, 2]
    assert shared.run("SELECT * FROM paimon_distributed_locks") == []


def test_writers_of_both_lose_nothing(shared: Shared) -> None:
    shared.ours.create_database("d")
    shared.ours.create_table("d.source", schema())
    shared.ours.create_table("d.t", schema())
    lw.write_table(rows(*range(100, 103)), shared.ours.get_table("d.source"))

    def copy() -> None:
        for _ in range(5):
            shared.ask("copy", "d", "source", "t")

    other = threading.Thread(target=copy, daemon=True)
    other.start()
    table = shared.ours.get_table("d.t").copy({"write-only": "true"})
    for key in range(10):
        lw.write_table(rows(key), table)
    other.join(120)
    assert sorted(lw.read_table(table)["k"].to_pylist()) == [*range(10), *range(100, 103)]
    assert shared.run("SELECT * FROM paimon_distributed_locks") == []


def test_a_branch_is_opened_by_us_though_java_refuses(shared: Shared) -> None:
    shared.ours.create_database("d")
    shared.ours.create_table("d.t", schema())
    lw.write_table(rows(1), shared.ours.get_table("d.t"))
    shared.ours.create_tag("d.t", "v1")
    shared.ours.create_branch("d.t", "dev", "v1")
    lw.write_table(rows(2), shared.ours.get_table("d.t$branch_dev"))
    assert lw.read_table(shared.ours.get_table("d.t$branch_dev")).num_rows == 2
    with pytest.raises(JavaError):
        shared.java.ask("read", shared.place, "d", "t$branch_dev")
