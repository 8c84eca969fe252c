"""The uri of a SQL catalog and the properties of its driver in, the address of a database out.

The uris are those of Java's drivers: `jdbc:sqlite:names.db`, `jdbc:postgresql://host/database`, `jdbc:mysql://...`.
Messages show an address without its parameters, since a password may be among them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import parse_qsl, quote, unquote

from lakewright.errors import InvalidInputError, UnsupportedError

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
        return Address(Dialect.SQLITE, os.path.abspath(path), properties=_sorted(found))  # noqa: PTH100 - keeps no `..`
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
    return Address(Dialect.SQLITE, f"file:{path}{'?' if query else ''}{query}", properties=_sorted(given))


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
    return Address(dialect, unquote(name), places, _sorted(found))


def _place(dialect: Dialect, match: re.Match[str]) -> tuple[str, int]:
    port = int(match["port"] or _PORTS[dialect])
    if not 0 < port <= _PORT_MAX:
        raise InvalidInputError(f"the catalog option 'uri' names the port {port}: ports are 1 to {_PORT_MAX}")
    return (match["host"] or "localhost").strip("[]"), port


def _sorted(properties: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(properties.items()))
