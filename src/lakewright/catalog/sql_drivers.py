"""Drivers of SQLite, PostgreSQL and MySQL, and JDBC addresses."""

from __future__ import annotations

import os
import re
import sqlite3
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum, StrEnum, auto
from typing import Any, Protocol
from urllib.parse import parse_qsl, quote, unquote

from lakewright.errors import InvalidInputError, LakewrightWarning, UnsupportedError

# ---- JDBC addresses --------------------------------------------------------------------------------------------------
# The uris are those of Java's drivers: `jdbc:sqlite:names.db`, `jdbc:postgresql://host/database`, `jdbc:mysql://...`.
# Messages show an address without its parameters, since a password may be among them.

PROPERTY = "jdbc."  # before a property of the driver in the options of a catalog

_SPELLING = (
    "write jdbc:sqlite:/path/to/names.db, jdbc:postgresql://host:5432/database or jdbc:mysql://host:3306/database; "
    "user and password go into the options 'jdbc.user' and 'jdbc.password'"
)
_HOST = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^:\[\]@/]+)?(:(?P<port>[0-9]{1,5}))?")
_PORT_MAX = 65_535


class Dialect(StrEnum):
    """The kind of a database, as uris name it."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"
    MYSQL = "mysql"


_PORTS = {Dialect.POSTGRESQL: 5432, Dialect.MYSQL: 3306}


@dataclass(frozen=True, slots=True)
class Address:
    """One database: its kind, where it is and how to log in. A process has one connection for equal addresses."""

    dialect: Dialect
    database: str  # the name of the database; of SQLite, an absolute path or a `file:` uri with one
    hosts: tuple[tuple[str, int], ...] = ()
    properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # of the driver, the password among them

    def __str__(self) -> str:
        """Return the uri without parameters."""
        if not self.hosts:
            return f"jdbc:{self.dialect}:{self.database.partition('?')[0]}"
        return f"jdbc:{self.dialect}://{','.join(f'{host}:{port}' for host, port in self.hosts)}/{self.database}"


def parse_address(options: Mapping[str, str]) -> Address:
    """Return the address that the options `uri` and `jdbc.<property>` of a catalog give.

    >>> parse_address({"uri": "jdbc:sqlite:/lake/names.db"}).database
    '/lake/names.db'
    >>> str(parse_address({"uri": "jdbc:postgresql://db.example/lake?password=hidden", "jdbc.user": "ann"}))
    'jdbc:postgresql://db.example:5432/lake'
    """
    uri = options.get("uri", "").strip()
    given = {key.removeprefix(PROPERTY): value for key, value in options.items() if key.startswith(PROPERTY)}
    if not uri:
        raise InvalidInputError(f"the catalog option 'uri' is missing: {_SPELLING}")
    prefix, _, rest = uri.partition(":")
    kind, separator, place = rest.partition(":")
    if prefix != "jdbc" or not separator or kind not in set(Dialect) or any(ord(c) < ord(" ") for c in uri):
        # What comes after the second colon may hold a password.
        seen = f"{prefix}:{kind}:" if prefix == "jdbc" and separator else f"{prefix}:"
        raise InvalidInputError(f"the catalog option 'uri' starts with {seen[:40]!r}: {_SPELLING}")
    dialect = Dialect(kind)
    return _file(place, given) if dialect is Dialect.SQLITE else _server(dialect, place, given)


def _file(place: str, given: dict[str, str]) -> Address:
    path, _, query = place.partition("?")
    if not path or path.startswith((":", "file::memory:")) or "mode=memory" in query:
        raise UnsupportedError(
            f"'jdbc:sqlite:{path}' is a database in the memory of one process, which no other process or worker sees: "
            "name a file, as in jdbc:sqlite:/path/to/names.db"
        )
    if not path.startswith("file:"):
        found = dict(parse_qsl(query, keep_blank_values=True)) | given
        return Address(Dialect.SQLITE, os.path.abspath(path), properties=_sort_properties(found))  # noqa: PTH100 - keeps no `..`
    path = path.removeprefix("file:")
    if path.startswith("//"):
        host, slash, path = path.removeprefix("//").partition("/")
        if host not in {"", "localhost"} or not slash:
            raise InvalidInputError(
                f"'jdbc:sqlite:file://{host}' names a host: write jdbc:sqlite:file:/path or file:///path"
            )
        path = "/" + path
    if not path.startswith("/"):
        path = f"{quote(os.getcwd())}/{path}"  # noqa: PTH109 - a text is needed
    return Address(Dialect.SQLITE, f"file:{path}{'?' if query else ''}{query}", properties=_sort_properties(given))


def _server(dialect: Dialect, place: str, given: dict[str, str]) -> Address:
    place, _, query = place.partition("?")
    if place.startswith("//"):
        netloc, _, name = place.removeprefix("//").partition("/")
    else:
        netloc, name = "", place.removeprefix("/")
    hosts = [_HOST.fullmatch(text) for text in netloc.split(",")]
    if not name or "/" in name or None in hosts:
        kind = {Dialect.POSTGRESQL: "PostgreSQL", Dialect.MYSQL: "MySQL"}[dialect]
        raise InvalidInputError(
            f"the catalog option 'uri' is not the address of a {kind} database: "
            f"write jdbc:{dialect}://host:{_PORTS[dialect]}/database; "
            "user and password go into the options 'jdbc.user' and 'jdbc.password'"
        )
    found = dict(parse_qsl(query, keep_blank_values=True)) | given
    places = tuple(_place(dialect, host) for host in hosts if host is not None)
    return Address(dialect, unquote(name), places, _sort_properties(found))


def _place(dialect: Dialect, match: re.Match[str]) -> tuple[str, int]:
    port = int(match["port"] or _PORTS[dialect])
    if not 0 < port <= _PORT_MAX:
        raise InvalidInputError(f"the catalog option 'uri' names the port {port}: ports are 1 to {_PORT_MAX}")
    return (match["host"] or "localhost").strip("[]"), port


def _sort_properties(properties: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(properties.items()))


# ---- Drivers ---------------------------------------------------------------------------------------------------------
# The module of a driver is imported when the first connection is made; SQLite's is part of Python.

_BUSY_MILLIS = 20_000  # how long SQLite waits for another writer
_CONNECT_SECONDS = 20
_PRAGMAS = ("journal_mode", "synchronous")  # properties of Java's SQLite driver that hold for the connection
_FLAG = re.compile(r"[A-Za-z0-9_]+")


class DriverCursor(Protocol):
    """What a cursor of any driver can do."""

    rowcount: int

    def execute(self, statement: Any, values: Any = ..., /) -> object:  # noqa: ANN401 - each driver has types of its own
        """Run one statement."""

    def fetchall(self) -> Sequence[tuple[Any, ...]]:
        """Return the rows of the statement."""

    def close(self) -> None:
        """Free the rows."""


class Connection(Protocol):
    """What a connection of any driver can do. It commits each statement that no BEGIN comes before."""

    def cursor(self) -> Any:  # noqa: ANN401 - each driver has a class of its own
        """Return a new cursor."""

    def close(self) -> None:
        """End the connection; an open transaction is rolled back."""


class Failure(Enum):
    """What an error of a driver means."""

    KEY_TAKEN = auto()  # a row with this key, or a table of this name, exists
    BUSY = auto()  # another transaction is in the way; trying again may help
    LOST = auto()  # the connection could not be made, or ended
    DENIED = auto()  # wrong password, no rights, a file that can only be read
    MISSING = auto()  # there is no such database, or its file cannot be opened
    TOO_LONG = auto()
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class Driver:
    """How to talk to one kind of database."""

    connect: Callable[[Address], Connection]
    failure: Callable[[Exception], Failure]
    begin: str
    mark: str  # stands for a value in a statement
    tables: str  # a query for the names of the tables
    age: str  # the seconds since a lock was acquired, by the clock of the database
    checks_lengths: bool  # a text longer than its column is refused


def driver_of(address: Address) -> Driver:
    """Return the driver of an address."""
    return _DRIVERS[address.dialect]


# SQLite.


def _connect_sqlite(address: Address) -> Connection:
    properties = {key.lower(): value for key, value in address.properties}
    timeout = _milliseconds(properties.pop("busy_timeout", str(_BUSY_MILLIS)), "busy_timeout")
    settings = {name: properties.pop(name) for name in _PRAGMAS if name in properties}
    _warn_of_unused(address, [key for key in properties if key not in {"user", "password"}])
    for name, value in settings.items():
        if not _FLAG.fullmatch(value):
            raise InvalidInputError(f"{PROPERTY}{name} is {value!r}: give one word, such as WAL", option=name)
    connection = sqlite3.connect(
        address.database,
        timeout=timeout / 1000,
        isolation_level=None,
        check_same_thread=False,
        uri=address.database.startswith("file:"),
    )
    for name, value in settings.items():
        connection.execute(f"PRAGMA {name} = {value}")
    return connection


_SQLITE_TAKEN = frozenset({sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE})
_SQLITE_FAILURES = {
    sqlite3.SQLITE_BUSY: Failure.BUSY,
    sqlite3.SQLITE_LOCKED: Failure.BUSY,
    sqlite3.SQLITE_IOERR: Failure.LOST,
    sqlite3.SQLITE_READONLY: Failure.DENIED,
    sqlite3.SQLITE_PERM: Failure.DENIED,
    sqlite3.SQLITE_CANTOPEN: Failure.MISSING,
}


def _sqlite_failure(error: Exception) -> Failure:
    if isinstance(error, sqlite3.ProgrammingError):  # the connection is closed
        return Failure.LOST
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return Failure.KEY_TAKEN if code in _SQLITE_TAKEN else _SQLITE_FAILURES.get(code & 0xFF, Failure.OTHER)


# PostgreSQL.

_POSTGRES_NAMES = {
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "loginTimeout": "connect_timeout",
}


def _connect_postgres(address: Address) -> Connection:
    try:
        import psycopg  # noqa: PLC0415 - lazy, for an extra
        from psycopg import pq  # noqa: PLC0415 - the same door
    except ImportError as cause:
        raise _no_driver(address, "postgres") from cause
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    given = postgres_settings(address)
    _warn_of_unused(address, [key for key in given if key not in known])
    connection = psycopg.connect(
        "",
        autocommit=True,
        prepare_threshold=None,  # prepared statements do not survive a pooler between us and the server
        **{key: value for key, value in given.items() if key in known},  # type: ignore[arg-type]
    )
    # Java's driver sets its local zone too. Times of locks are stored without one, so that sessions in different zones
    # would see each other's locks as hours older than they are, and take them over.
    zone = datetime.now(UTC).astimezone().strftime("%z")
    connection.execute(f"SET TIME ZONE INTERVAL '{zone[:3]}:{zone[3:5]}' HOUR TO MINUTE".encode())
    return connection


def postgres_settings(address: Address) -> dict[str, str]:
    """Return the settings of libpq for an address; names of Java's driver are translated where both have the setting.

    >>> from lakewright.catalog.sql_drivers import parse_address
    >>> postgres_settings(parse_address({"uri": "jdbc:postgresql://a,b:1/lake?currentSchema=x"}))["options"]
    '-c search_path=x'
    """
    settings = {
        "host": ",".join(host for host, _ in address.hosts),
        "port": ",".join(str(port) for _, port in address.hosts),
        "dbname": address.database,
        "connect_timeout": str(_CONNECT_SECONDS),
    }
    for key, value in address.properties:
        if key == "currentSchema":
            settings["options"] = f"{settings.get('options', '')} -c search_path={value.replace(' ', '')}".strip()
        elif key == "ssl":
            settings.setdefault("sslmode", "prefer" if value.lower() == "false" else "verify-full")
        elif key == "options":
            settings["options"] = f"{value} {settings.get('options', '')}".strip()
        else:
            settings[_POSTGRES_NAMES.get(key, key)] = value
    return settings


_POSTGRES_FAILURES = {
    "23505": Failure.KEY_TAKEN,
    "42P07": Failure.KEY_TAKEN,
    "42710": Failure.KEY_TAKEN,
    "22001": Failure.TOO_LONG,
    "42501": Failure.DENIED,
    "28P01": Failure.DENIED,
    "28000": Failure.DENIED,
    "25006": Failure.DENIED,
    "3D000": Failure.MISSING,
    "40001": Failure.BUSY,
    "40P01": Failure.BUSY,
    "55P03": Failure.BUSY,
}
# An error of connecting has no code; the texts are those of servers that speak English, others count as LOST.
_POSTGRES_DENIED = ("password authentication failed", "no password supplied", "no pg_hba.conf entry", 'role "')
_POSTGRES_MISSING = re.compile(r'database ".*" does not exist')


def _postgres_failure(error: Exception) -> Failure:
    state = getattr(error, "sqlstate", None)
    if state is not None:
        lost = state.startswith(("08", "57P"))
        return _POSTGRES_FAILURES.get(state, Failure.LOST if lost else Failure.OTHER)
    if any(text in str(error) for text in _POSTGRES_DENIED):
        return Failure.DENIED
    if _POSTGRES_MISSING.search(str(error)):
        return Failure.MISSING
    return Failure.LOST if type(error).__name__ in {"OperationalError", "InterfaceError"} else Failure.OTHER


# MySQL.

_MYSQL_MILLIS = {
    "connectTimeout": ("connect_timeout",),
    "socketTimeout": ("read_timeout", "write_timeout"),
}
_MYSQL_NAMES = ("user", "password")


def _connect_mysql(address: Address) -> Connection:
    try:
        import pymysql  # noqa: PLC0415 - lazy, for an extra
    except ImportError as cause:
        raise _no_driver(address, "mysql") from cause
    known, unused = mysql_settings(address)
    _warn_of_unused(address, unused)
    connection: Connection = pymysql.connect(**known, autocommit=True, charset="utf8mb4")
    return connection


def mysql_settings(address: Address) -> tuple[dict[str, Any], list[str]]:
    """Return the arguments of pymysql for an address, and the properties that have no counterpart."""
    host, port = address.hosts[0]
    settings: dict[str, Any] = {"host": host, "port": port, "database": address.database}
    settings["connect_timeout"] = _CONNECT_SECONDS
    unused = []
    for key, value in address.properties:
        if key in _MYSQL_NAMES:
            settings[key] = value
        elif key in _MYSQL_MILLIS:
            settings |= dict.fromkeys(_MYSQL_MILLIS[key], max(1, _milliseconds(value, key) // 1000))
        elif key == "useSSL":
            settings["ssl_disabled"] = value.lower() == "false"
        elif key == "sslMode":
            settings["ssl_disabled"] = value.upper() == "DISABLED"
            settings["ssl_verify_cert"] = value.upper() in {"VERIFY_CA", "VERIFY_IDENTITY"}
            settings["ssl_verify_identity"] = value.upper() == "VERIFY_IDENTITY"
        else:
            unused.append(key)
    return settings, unused


_MYSQL_FAILURES = {
    1062: Failure.KEY_TAKEN,
    1050: Failure.KEY_TAKEN,
    1406: Failure.TOO_LONG,
    1044: Failure.DENIED,
    1045: Failure.DENIED,
    1142: Failure.DENIED,
    1290: Failure.DENIED,
    1698: Failure.DENIED,
    1049: Failure.MISSING,
    1205: Failure.BUSY,
    1213: Failure.BUSY,
    2003: Failure.LOST,
    2006: Failure.LOST,
    2013: Failure.LOST,
    2055: Failure.LOST,
    0: Failure.LOST,
}


def _mysql_failure(error: Exception) -> Failure:
    code = error.args[0] if error.args else None
    return _MYSQL_FAILURES.get(code, Failure.OTHER) if isinstance(code, int) else Failure.OTHER


# What the three share.


def _milliseconds(text: str, name: str) -> int:
    if not text.strip().isdecimal():
        raise InvalidInputError(f"{PROPERTY}{name} is {text!r}: give a number of milliseconds", option=name)
    return int(text)


def _warn_of_unused(address: Address, names: Sequence[str]) -> None:
    """Warn of properties that have no effect here; Java's drivers know many more."""
    if names:
        listed = ", ".join(sorted(names))
        warnings.warn(f"{address}: the Python driver has no property {listed}", LakewrightWarning, stacklevel=2)


def _no_driver(address: Address, extra: str) -> UnsupportedError:
    return UnsupportedError(
        f"{address}: the driver for this database is not installed: pip install 'lakewright[{extra}]'", extra=extra
    )


_DRIVERS: Mapping[Dialect, Driver] = {
    Dialect.SQLITE: Driver(
        _connect_sqlite,
        _sqlite_failure,
        begin="BEGIN IMMEDIATE",  # a transaction that reads first and writes later could fail in between
        mark="?",
        tables="SELECT name FROM sqlite_master WHERE type = 'table'",
        age="CAST(strftime('%s', 'now') AS INTEGER) - CAST(strftime('%s', acquired_at) AS INTEGER)",
        checks_lengths=False,
    ),
    Dialect.POSTGRESQL: Driver(
        _connect_postgres,
        _postgres_failure,
        begin="BEGIN",
        mark="%s",
        tables="SELECT tablename FROM pg_tables WHERE schemaname = ANY (current_schemas(false))",
        age="EXTRACT(EPOCH FROM AGE(NOW(), acquired_at))",
        checks_lengths=True,
    ),
    Dialect.MYSQL: Driver(
        _connect_mysql,
        _mysql_failure,
        begin="BEGIN",
        mark="%s",
        tables="SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()",
        age="TIMESTAMPDIFF(SECOND, acquired_at, NOW())",
        checks_lengths=True,
    ),
}
