"""Uris as Java's drivers have them become addresses; wrong ones say how to write them, and show no password."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from lakewright.catalog.sql_drivers import Address, Dialect, mysql_settings, parse_address, postgres_settings
from lakewright.errors import InvalidInputError, LakewrightError, UnsupportedError

SECRET = "hunter2"  # noqa: S105 - a word to look for


def address(uri: str, **properties: str) -> Address:
    return parse_address({"uri": uri, **{f"jdbc.{key}": value for key, value in properties.items()}})


def test_files_are_absolute_so_that_every_process_opens_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert address("jdbc:sqlite:names.db").database == f"{tmp_path}/names.db"
    assert address("jdbc:sqlite:a/../names.db").database == f"{tmp_path}/names.db"
    assert address("jdbc:sqlite:/lake/names.db").database == "/lake/names.db"
    assert address("jdbc:sqlite:/lake/a%20b.db").database == "/lake/a%20b.db"  # a path, not a uri
    assert address("jdbc:sqlite:file:names.db").database == f"file:{tmp_path}/names.db"
    assert address("jdbc:sqlite:file:/lake/names.db?mode=ro").database == "file:/lake/names.db?mode=ro"
    assert address("jdbc:sqlite:file:///lake/names.db").database == "file:/lake/names.db"
    assert address("jdbc:sqlite:file://localhost/lake/names.db").database == "file:/lake/names.db"


def test_parameters_and_options_become_properties_and_options_win() -> None:
    found = address(f"jdbc:postgresql://db:5/lake?user=ann&sslmode=require&password={SECRET}", user="bob")
    assert dict(found.properties) == {"user": "bob", "password": SECRET, "sslmode": "require"}
    assert (found.dialect, found.database, found.hosts) == (Dialect.POSTGRESQL, "lake", (("db", 5),))
    assert dict(address("jdbc:sqlite:/x.db?busy_timeout=50").properties) == {"busy_timeout": "50"}


@pytest.mark.parametrize(
    ("uri", "hosts", "name"),
    [
        ("jdbc:postgresql://h/lake", [("h", 5432)], "lake"),
        ("jdbc:postgresql:lake", [("localhost", 5432)], "lake"),
        ("jdbc:postgresql:///lake", [("localhost", 5432)], "lake"),
        ("jdbc:postgresql://a:1,b:2/my%20lake", [("a", 1), ("b", 2)], "my lake"),
        ("jdbc:postgresql://[::1]:7/lake", [("::1", 7)], "lake"),
        ("jdbc:mysql://h/lake", [("h", 3306)], "lake"),
    ],
)
def test_hosts_ports_and_names_of_servers(uri: str, hosts: list[tuple[str, int]], name: str) -> None:
    found = address(uri)
    assert list(found.hosts) == hosts
    assert found.database == name


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "names.db",
        f"postgresql://ann:{SECRET}@h/lake",
        f"jdbc:oracle:thin:ann/{SECRET}@h:1521:lake",
        f"jdbc:postgresql://ann:{SECRET}@h/lake",
        f"jdbc:postgresql://h:5432?password={SECRET}",
        f"jdbc:postgresql://h:port/lake?password={SECRET}",
        f"jdbc:postgresql://h:99999/lake?password={SECRET}",
        f"jdbc:mysql://h/a/b?password={SECRET}",
        "jdbc:sqlite",
        "jdbc:sqlite:file://elsewhere/names.db",
        "jdbc:sqlite:/a\nb.db",
    ],
)
def test_a_wrong_uri_shows_the_right_spelling_and_no_password(uri: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        address(uri)
    assert "jdbc:" in str(caught.value) or "ports are" in str(caught.value)
    assert SECRET not in repr(caught.value.facts) + str(caught.value)


@pytest.mark.parametrize("uri", ["jdbc:sqlite:", "jdbc:sqlite::memory:", "jdbc:sqlite:file:x?mode=memory"])
def test_databases_in_memory_are_refused_since_no_other_process_sees_them(uri: str) -> None:
    with pytest.raises(UnsupportedError, match="name a file"):
        address(uri)


def test_an_address_travels_and_never_shows_its_password() -> None:
    found = address(f"jdbc:postgresql://h/lake?password={SECRET}", user="ann")
    assert pickle.loads(pickle.dumps(found)) == found  # noqa: S301 - our own bytes
    assert SECRET not in f"{found!r} {found}"
    assert "ann" not in repr(found)


def test_the_settings_of_java_s_postgres_driver_become_those_of_libpq() -> None:
    settings = postgres_settings(
        address("jdbc:postgresql://a,b:6/lake?currentSchema=x, y&ApplicationName=etl&ssl=true&connectTimeout=3")
    )
    assert settings == {
        "host": "a,b",
        "port": "5432,6",
        "dbname": "lake",
        "options": "-c search_path=x,y",
        "application_name": "etl",
        "sslmode": "verify-full",
        "connect_timeout": "3",
    }


def test_the_settings_of_java_s_mysql_driver_become_those_of_pymysql() -> None:
    found = address("jdbc:mysql://h:1/lake?useSSL=false&socketTimeout=5000&cachePrepStmts=true", user="ann")
    settings, unused = mysql_settings(found)
    assert settings == {
        "host": "h",
        "port": 1,
        "database": "lake",
        "user": "ann",
        "connect_timeout": 20,
        "read_timeout": 5,
        "write_timeout": 5,
        "ssl_disabled": True,
    }
    assert unused == ["cachePrepStmts"]


def test_errors_of_addresses_are_of_the_library() -> None:
    with pytest.raises(LakewrightError, match="milliseconds"):
        mysql_settings(address("jdbc:mysql://h/lake?connectTimeout=soon"))
