"""URL schemes and the storages that open them.

Every later path begins with the returned location, so each file has one spelling: local paths are absolute and without
`..`, object stores have one scheme each and no slash at the end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TypeAlias

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.spec.option_values import read_option
from lakewright.spec.table_options import TableOptions
from lakewright.storage.credentials import Credentials
from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.object_storage import SCHEME_ALIASES, ObjectStorage
from lakewright.storage.storage import Storage

Factory: TypeAlias = Callable[[str, Mapping[str, str]], tuple[Storage, str]]

_OBJECT_SCHEMES = frozenset({"s3", "oss", "gs", "az", "abfs", "abfss"})
_KEYS_BEFORE_HOST = frozenset({"s3", "oss", "gs"})  # where `name@` is a key pair; Azure puts the container there
_HDFS_SCHEMES = frozenset({"hdfs", "webhdfs", "swebhdfs"})
_REGISTERED: dict[str, Factory] = {}


def register_scheme(scheme: str, factory: Factory) -> None:
    """Open all locations of one more scheme with a factory; registering a scheme again replaces its factory."""
    _REGISTERED[scheme] = factory


def open_storage(
    location: str, options: Mapping[str, str], credentials: Credentials | None = None
) -> tuple[Storage, str]:
    """Return the storage of a location, and the location as that storage spells it.

    `credentials` are those of an object store; a disk needs none.

    >>> open_storage("file:///lake/../lake/sales/", {})
    (LocalStorage(durable=True), '/lake/sales')
    >>> open_storage("s3a://lake/sales/", {})
    (ObjectStorage(url='s3://lake'), 's3://lake/sales')
    """
    if not location or any(ord(character) < ord(" ") for character in location):
        raise InvalidInputError(f"not a location: {location!r}")
    scheme, separator, rest = location.partition("://")
    if location.startswith("file:"):
        return _open_local(_file_path(location), options)
    if not separator:
        return _open_local(location, options)
    scheme = SCHEME_ALIASES.get(scheme.lower(), scheme.lower())
    if scheme in _REGISTERED:
        return _REGISTERED[scheme](location, options)
    if scheme in _OBJECT_SCHEMES:
        return _open_object(scheme, rest, options, credentials)
    if scheme in _HDFS_SCHEMES:
        return _open_hdfs(scheme, rest, options)
    raise UnsupportedError(
        f"cannot open a location of scheme {scheme!r}: use a local path, file:, s3:, s3a:, s3n:, oss:, gs:, abfs:, "
        "abfss:, az:, hdfs:, webhdfs: or swebhdfs:",
        scheme=scheme,
    )


def _open_local(path: str, options: Mapping[str, str]) -> tuple[Storage, str]:
    # abspath keeps two slashes at the start, which mean nothing on the systems supported here.
    durable = read_option(options, TableOptions.lakewright_durable)
    absolute = os.path.abspath(path)  # noqa: PTH100 - Path.absolute keeps `..`
    return LocalStorage(durable=durable), "/" + absolute.lstrip("/")


def _file_path(location: str) -> str:
    rest = location.removeprefix("file:")
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in {"", "localhost"}:
            raise InvalidInputError(f"{location!r} names a host: a file location is file:/path or file:///path")
        rest = slash + path
    if not rest.startswith("/"):
        raise InvalidInputError(f"{location!r} is not absolute: write file:/path or a plain relative path")
    return rest


def _open_object(
    scheme: str, rest: str, options: Mapping[str, str], credentials: Credentials | None
) -> tuple[Storage, str]:
    container, _, path = rest.partition("/")
    if scheme in _KEYS_BEFORE_HOST and "@" in container:
        raise InvalidInputError(f"a {scheme}: location holds keys before its bucket: pass them as options instead")
    if not container:
        raise InvalidInputError(f"'{scheme}://{rest}' names no bucket")
    path = _whole(scheme, rest, path)
    storage = ObjectStorage(f"{scheme}://{container}", options, credentials)
    return storage, f"{storage.url}/{path}" if path else storage.url


def _open_hdfs(scheme: str, rest: str, options: Mapping[str, str]) -> tuple[Storage, str]:
    from lakewright.storage.hdfs_storage import HdfsStorage  # noqa: PLC0415 - lazy, for a client of HTTP

    authority, _, path = rest.partition("/")
    if "@" in authority:
        raise InvalidInputError(f"a {scheme}: location holds a user before its host: use the option 'hadoop.user.name'")
    path = _whole(scheme, rest, path)
    storage = HdfsStorage.of(scheme, authority, options)
    return storage, f"{storage.hdfs.url}/{path}" if path else storage.hdfs.url


def _whole(scheme: str, rest: str, path: str) -> str:
    """Return a path without the slash at its end; InvalidInputError where a part of it is empty or relative."""
    path = path.rstrip("/")
    if path and not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise InvalidInputError(f"'{scheme}://{rest}' has an empty or relative part in its path")
    return path
