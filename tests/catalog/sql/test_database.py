"""Statements in one short transaction: done, refused, or perhaps done; lost connections are made anew."""

from __future__ import annotations

import sqlite3
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from lakewright.catalog import sql_database as module
from lakewright.catalog.sql_database import CatalogRows, Run, SqlDatabase, database
from lakewright.catalog.sql_drivers import Failure, driver_of, parse_address
from lakewright.errors import (
    CatalogServerError,
    CommitContentionError,
    InvalidInputError,
    LakewrightWarning,
    NotAuthorizedError,
    UnsupportedError,
)
from support.postgres import PASSWORD, PostgresServer, name_of
from support.warm_processes import LOADED

COUNT = "SELECT COUNT(*) FROM t"


def opened(options: dict[str, str]) -> SqlDatabase:
    made = database(parse_address(options))
    made.write(("CREATE TABLE t (k INTEGER PRIMARY KEY, v VARCHAR(1000))", ()))
    return made


def insert(key: int, value: str = "x") -> tuple[str, tuple[Any, ...]]:
    return "INSERT INTO t VALUES (?, ?)", (key, value)


def test_a_write_is_done_as_a_whole_or_not_at_all(sql: dict[str, str]) -> None:
    names = opened(sql)
    assert names.write(insert(1), insert(2)) == [1, 1]
    assert names.write(insert(3), insert(2)) is None  # a key is taken
    assert names.read(COUNT)[0][0] == 2
    assert names.write(("DELETE FROM t", ())) == [2]


def test_an_error_in_the_middle_of_a_transaction_leaves_nothing(sql: dict[str, str]) -> None:
    names = opened(sql)

    def work(run: Run) -> list[int]:
        run(*insert(1))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        names.transact(work)
    assert names.read(COUNT)[0][0] == 0
    assert names.write(insert(1)) == [1]


def test_threads_share_one_connection(sql: dict[str, str]) -> None:
    names = opened(sql)
    threads = [threading.Thread(target=names.write, args=(insert(n),)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names.read(COUNT)[0][0] == 16
    assert database(parse_address(sql)) is names


def test_a_locked_file_is_contention_and_names_the_database(sql: dict[str, str], tmp_path: Path) -> None:
    if "sqlite" not in sql["uri"]:
        pytest.skip("only SQLite locks the whole file")
    names = opened({**sql, "jdbc.busy_timeout": "20"})
    other = sqlite3.connect(tmp_path / "names.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(CommitContentionError, match=r"names\.db.*nothing was changed"):
        names.write(insert(1))
    other.execute("ROLLBACK")
    other.close()
    assert names.write(insert(1)) == [1]


def test_a_file_that_can_only_be_read(tmp_path: Path) -> None:
    opened({"uri": f"jdbc:sqlite:{tmp_path}/names.db"}).close()
    names = database(parse_address({"uri": f"jdbc:sqlite:file:{tmp_path}/names.db?mode=ro"}))
    assert names.read(COUNT)[0][0] == 0
    with pytest.raises(NotAuthorizedError, match="rights to read and write"):
        names.write(insert(1))
    names.close()


def test_a_file_in_no_directory_and_a_file_that_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="make the database, or the directory"):
        opened({"uri": f"jdbc:sqlite:{tmp_path}/nowhere/names.db"})
    (tmp_path / "text.db").write_text("this is no database, " * 100)
    with pytest.raises(CatalogServerError, match=r"text\.db.*not a database"):
        opened({"uri": f"jdbc:sqlite:{tmp_path}/text.db"})


def test_a_property_that_the_driver_lacks_is_said(tmp_path: Path) -> None:
    with pytest.warns(LakewrightWarning, match="has no property cipher"):
        opened({"uri": f"jdbc:sqlite:{tmp_path}/names.db?journal_mode=WAL", "jdbc.cipher": "x"}).close()
    with sqlite3.connect(tmp_path / "names.db") as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    other.close()
    with pytest.raises(InvalidInputError, match="one word"):
        opened({"uri": f"jdbc:sqlite:{tmp_path}/names.db", "jdbc.synchronous": "OFF; DROP TABLE t"})


@pytest.mark.processes
def test_wrong_password_missing_database_and_nobody_listening(
    postgres: dict[str, str], postgres_server: PostgresServer
) -> None:
    wrong = database(parse_address({**postgres, "jdbc.password": "wr0ng-word"}))
    with pytest.raises(NotAuthorizedError, match=r"jdbc\.password") as caught:
        wrong.read("SELECT 1")
    assert "wr0ng-word" not in str(caught.value)
    missing = postgres["uri"].rsplit("/", 1)[0] + "/nowhere"
    with pytest.raises(InvalidInputError, match="does not exist"):
        database(parse_address({**postgres, "uri": missing})).read("SELECT 1")
    away = postgres["uri"].replace(str(postgres_server.port), "1")
    with pytest.raises(CatalogServerError, match="nothing was changed") as refused:
        database(parse_address({**postgres, "uri": away})).write(("SELECT 1", ()))
    assert not refused.value.perhaps_done
    assert PASSWORD not in str(refused.value) + repr(refused.value.facts)


@pytest.mark.processes
def test_a_dropped_connection_is_made_anew_where_nothing_can_be_done_twice(
    postgres: dict[str, str], postgres_server: PostgresServer
) -> None:
    names = opened(postgres)
    mine = f"datname = '{name_of(postgres)}'"
    cut = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {mine}"  # noqa: S608 - our own name
    postgres_server.run("postgres", cut)
    assert names.read(COUNT)[0][0] == 0
    postgres_server.run("postgres", cut)
    assert names.write(insert(1)) == [1]

    def work(run: Run) -> list[int]:
        run(*insert(2))
        postgres_server.run("postgres", cut)
        return [run(*insert(3))[0]]

    with pytest.raises(CatalogServerError) as before_commit:
        names.transact(work)
    assert not before_commit.value.perhaps_done

    def last(run: Run) -> list[int]:
        run(*insert(4))
        postgres_server.run("postgres", cut)
        return []

    with pytest.raises(CatalogServerError, match="look before trying again") as at_commit:
        names.transact(last)
    assert at_commit.value.perhaps_done
    assert names.read(COUNT)[0][0] == 1


@pytest.mark.processes
def test_a_value_that_is_too_long_for_postgres(postgres: dict[str, str]) -> None:
    names = opened(postgres)
    with pytest.raises(InvalidInputError, match="too long"):
        names.write(insert(1, "x" * 1001))
    assert names.write(insert(1, "x" * 1000)) == [1]


_FORKED = """
import os, sys
from lakewright.catalog.sql_database import database
from lakewright.catalog.sql_drivers import parse_address
options = dict(pair.split("=", 1) for pair in sys.argv[1:])
names = database(parse_address(options))
names.write(("CREATE TABLE t (k INTEGER PRIMARY KEY, v VARCHAR(1000))", ()))
child = os.fork()
mine = database(parse_address(options))
assert (mine is names) == (child != 0)
for n in range(20):
    mine.write(("INSERT INTO t VALUES (?, ?)", (2 * n + (child == 0), "x")))
if child:
    assert os.waitpid(child, 0)[1] == 0
    assert mine.read("SELECT COUNT(*) FROM t")[0][0] == 40
    mine.close()
else:
    mine.close()
    os._exit(0)
"""


@pytest.mark.processes
def test_a_forked_process_makes_its_own_connection(sql: dict[str, str]) -> None:
    words = [f"{key}={value}" for key, value in sql.items() if key not in {"metastore", "warehouse"}]
    done = LOADED.run(_FORKED, *words)
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(("uri", "extra"), [("postgresql", "postgres"), ("mysql", "mysql")])
def test_a_missing_driver_names_the_extra(uri: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("psycopg", "pymysql"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UnsupportedError, match=rf"pip install 'lakewright\[{extra}\]'"):
        database(parse_address({"uri": f"jdbc:{uri}://localhost/lake"})).read("SELECT 1")


class _Cursor:
    """Writes down the statements of a MySQL connection that does not exist."""

    rowcount = 1
    description = None

    def __init__(self, seen: list[tuple[str, tuple[Any, ...]]]) -> None:
        self.seen = seen

    def execute(self, statement: str, values: tuple[Any, ...]) -> None:
        assert statement.count("%s") == len(values)
        assert "?" not in statement
        self.seen.append((statement, values))

    def close(self) -> None:
        pass


class _Connection:
    def __init__(self) -> None:
        self.seen: list[tuple[str, tuple[Any, ...]]] = []

    def cursor(self) -> _Cursor:
        return _Cursor(self.seen)

    def close(self) -> None:
        pass


def test_statements_for_mysql_have_its_placeholders(monkeypatch: pytest.MonkeyPatch) -> None:
    address = parse_address({"uri": "jdbc:mysql://localhost/lake"})
    connection = _Connection()
    monkeypatch.setitem(module._databases, address, SqlDatabase(address, _connection=connection))
    rows = CatalogRows(address, "jdbc")
    rows.prepare(properties=True, lock_key_max=255)
    assert rows.create_database("d", {"owner": "ann"})
    assert rows.insert_table("d", "t", {"bucket": "1"})
    rows.rename_table(("d", "t"), ("d", "u"))
    rows.delete_table("d", "u")
    words = [statement.split()[0] for statement, _ in connection.seen]
    assert words.count("BEGIN") == words.count("COMMIT") > 0
    assert {"INSERT", "DELETE", "UPDATE", "CREATE"} <= set(words)


@pytest.mark.parametrize(
    ("code", "meaning"),
    [(1062, Failure.KEY_TAKEN), (1045, Failure.DENIED), (2013, Failure.LOST), (1213, Failure.BUSY), (9, Failure.OTHER)],
)
def test_errors_of_mysql_by_their_numbers(code: int, meaning: Failure) -> None:
    assert driver_of(parse_address({"uri": "jdbc:mysql://h/lake"})).failure(Exception(code, "text")) is meaning
