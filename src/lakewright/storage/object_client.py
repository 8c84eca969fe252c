"""One bucket behind `obstore`: keys and bytes in, bytes or OSErrors out.

`put_once` is one conditional put. The client's own retries are off for it: a repeated put whose first reply was lost
would meet its own object and report a loss. Instead, whenever a reply is in doubt, the object is read back: equal bytes
are a win, other bytes a loss, an absent object is tried again, and what stays in doubt is an OSError. Where two callers
may put equal bytes such doubt can make winners of both, so contents that decide a race carry something unique.

Errors name the object and never a secret: they are scrubbed, and raised without the client's own error as their cause.
"""

from __future__ import annotations

import errno
import os
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import ObjectStore, from_url

from lakewright.errors import InvalidInputError, NotFoundError, UnsupportedError
from lakewright.storage.settings import Settings, secrets_of

if TYPE_CHECKING:  # the client names these for type checkers only
    from obstore.store import ClientConfig, RetryConfig

P = ParamSpec("P")
T = TypeVar("T")

PUT_ATTEMPTS_MAX = 6
_PAUSE_SECONDS = 0.05  # before the second attempt; doubles with each further one
_TIMEOUT = timedelta(seconds=120)
_RETRY_TIMEOUT = timedelta(seconds=60)
_LIST_PAGE = 1000
_MESSAGE_CHARACTERS_MAX = 300
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_BODY = re.compile(r":?\s*<(\?xml|Error|!DOCTYPE|html)\b.*", re.DOTALL | re.IGNORECASE)
_QUERY = re.compile(r"\?\S*")  # signed URLs carry their secret here
_FAILURES = (BaseError, OSError, NotImplementedError, ValueError)
_CLIENT_SETTINGS = frozenset({"allow_http"})
_CONFLICT = 409
_WORTH_A_RETRY = frozenset({408, 429, 500, 502, 503, 504})
_NOT_IMPLEMENTED = 501
_REFUSED = frozenset({401, 403})
_REFUSALS = (PermissionDeniedError, UnauthenticatedError, PermissionError)
_NO_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound"})


@dataclass(frozen=True, slots=True)
class Listed:
    """One object as a listing shows it."""

    key: str
    size: int
    modified_millis: int


@dataclass(slots=True)
class _Runtime:
    """Whether the client's threads were started, and whether a fork left them behind."""

    started: bool = False
    lost: bool = False

    def after_fork(self) -> None:
        self.lost = self.started


_RUNTIME = _Runtime()
os.register_at_fork(after_in_child=_RUNTIME.after_fork)


@dataclass(slots=True)
class Bucket:
    """The calls on one bucket; each process makes its own with `open_bucket`."""

    url: str
    secrets: tuple[str, ...] = field(repr=False)
    patient: ObjectStore = field(repr=False)  # repeats what is safe to repeat
    hasty: ObjectStore = field(repr=False)  # never repeats, for conditional puts
    conditional_put_proven: bool = False

    def get(self, key: str) -> bytes:
        """Return a whole object."""
        return self._call(key, lambda: bytes(obstore.get(self.patient, key).bytes()))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return the bytes from `start` up to but not including `end`."""
        return self._call(key, lambda: bytes(obstore.get_range(self.patient, key, start=start, end=end)))

    def get_tail(self, key: str, length: int) -> tuple[int, bytes]:
        """Return the size of an object and, where one request gives both, up to `length` of its last bytes."""

        def both() -> tuple[int, bytes]:
            found = obstore.get(self.patient, key, options={"range": {"suffix": length}})
            return found.meta["size"], bytes(found.bytes())

        try:
            return self._call(key, both)
        except (FileNotFoundError, PermissionError):
            raise
        except (OSError, UnsupportedError):
            # Azure takes no ranges counted from the end, and an empty object has none anywhere.
            return self.head(key).size, b""

    def head(self, key: str) -> Listed:
        """Return what a listing would show of one object."""
        return _listed(self._call(key, obstore.head, self.patient, key))

    def put(self, key: str, data: bytes) -> None:
        """Put a whole object, whatever was there."""
        self._call(key, obstore.put, self.patient, key, data, use_multipart=False)

    def put_once(self, key: str, data: bytes) -> bool:
        """Put a whole object only where none exists. False means somebody else was first."""
        doubt: OSError | None = None
        for attempt in range(PUT_ATTEMPTS_MAX):
            if attempt:
                time.sleep(_PAUSE_SECONDS * 2**attempt * random.uniform(0.5, 1.0))  # noqa: S311 - spreads the crowd
            outcome = self._try_put_once(key, data)
            if outcome is True:
                return True
            if outcome is False and doubt is None:
                return False
            if isinstance(outcome, OSError):
                doubt = outcome
            if doubt is not None and (found := self._get_or_none(key)) is not None:
                return found == data
        raise doubt or OSError(errno.EAGAIN, "the store kept reporting a conflict", self.path(key))

    def open_writer(self, key: str, part_bytes: int) -> obstore.WritableFile:
        """Begin an upload in parts."""
        return self._call(key, obstore.open_writer, self.patient, key, buffer_size=part_bytes)

    def guarded(self, key: str, call: Callable[[], T]) -> T:
        """Make a call on an upload with the errors of this module."""
        return self._call(key, call)

    def list(self, prefix: str) -> Iterator[Listed]:
        """Yield every object below a prefix that is a directory, by key."""
        pages = iter(self._call(prefix, obstore.list, self.patient, prefix or None, chunk_size=_LIST_PAGE))
        while (page := self._call(prefix, lambda: next(pages, None))) is not None:
            yield from map(_listed, page)

    def list_level(self, prefix: str) -> tuple[Iterable[Listed], Sequence[str]]:
        """Return the objects and the directories directly inside a directory."""
        found = self._call(prefix, obstore.list_with_delimiter, self.patient, prefix or None)
        return map(_listed, found["objects"]), found["common_prefixes"]

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; FileNotFoundError if the store minds that one is not there."""
        self._call(keys[0], obstore.delete, self.patient, keys)

    def copy(self, key: str, target: str) -> None:
        """Copy an object inside the store."""
        self._call(key, obstore.copy, self.patient, key, target)

    def path(self, key: str) -> str:
        """Return the full location of a key."""
        return f"{self.url}/{key}"

    def _get_or_none(self, key: str) -> bytes | None:
        try:
            return self.get(key)
        except FileNotFoundError:
            return None

    def _try_put_once(self, key: str, data: bytes) -> bool | OSError | None:
        """Put once: True, False, None for a conflict without effect, or an OSError where the effect is in doubt."""
        try:
            obstore.put(self._ready(self.hasty), key, data, mode="create", use_multipart=False)
        except (AlreadyExistsError, PreconditionError) as error:
            return None if _status(error) == _CONFLICT else False
        except _FAILURES as error:
            status = _status(error)
            failure = self._failure(error, key)
            in_doubt = isinstance(failure, OSError) and isinstance(error, BaseError) and not _is_definite(error)
        else:
            return True
        if status in _WORTH_A_RETRY or (in_doubt and status is None):
            return failure if isinstance(failure, OSError) else None
        raise failure

    def _ready(self, store: ObjectStore) -> ObjectStore:
        if _RUNTIME.lost:
            raise UnsupportedError(
                f"{self.url} was opened before this process was forked, and its connections do not survive that: "
                "start worker processes with the 'spawn' or 'forkserver' method",
            )
        _RUNTIME.started = True
        return store

    def _call(self, key: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self._ready(self.patient)
        try:
            return call(*args, **kwargs)
        except _FAILURES as error:
            failure = self._failure(error, key)
        raise failure  # outside the handler, so that the client's error is no part of the chain

    def _failure(self, error: Exception, key: str) -> Exception:
        """Translate an error of the client into one of ours, without its secrets."""
        status, code, path = _status(error), _code(error), self.path(key)
        message = _BODY.sub("", str(error)).partition("\n")[0]
        for secret in self.secrets:
            message = message.replace(secret, "***")
        message = _QUERY.sub("?***", message)[:_MESSAGE_CHARACTERS_MAX]
        if code in _NO_BUCKET:
            return NotFoundError(
                f"{self.url} does not exist ({status} {code}): make it, or correct the location and the endpoint",
                url=self.url,
                path=path,
            )
        match error:
            case FileNotFoundError():
                return FileNotFoundError(errno.ENOENT, "no such object", path)
            case _ if isinstance(error, _REFUSALS) or status in _REFUSED:
                answer = message if status is None else f"{status} {code or ''}".strip()
                remedy = "check the keys, their rights and the region"
                return PermissionError(errno.EACCES, f"the store refuses access ({answer}): {remedy}", path)
            case NotImplementedError() | NotSupportedError():
                return UnsupportedError(f"{self.url} cannot do what {path} needs: {message}", path=path)
            case InvalidPathError():
                return OSError(errno.EINVAL, message, path)
            case ValueError():
                return InvalidInputError(f"{path!r} is no path of an object store: {message}", path=path)
        if _status(error) == _NOT_IMPLEMENTED:
            return UnsupportedError(f"{self.url} cannot do what {path} needs: {message}", path=path)
        return OSError(errno.EIO, message, path)


@lru_cache(maxsize=128)
def open_bucket(url: str, settings: Settings) -> Bucket:
    """Return this process's way to a bucket."""
    patient = _client(url, settings, retry={"retry_timeout": _RETRY_TIMEOUT})
    hasty = _client(url, settings, retry={"max_retries": 0}) if _is_remote(url) else patient
    return Bucket(url, secrets_of(settings), patient, hasty)


def _is_remote(url: str) -> bool:
    return not url.startswith(("memory:", "file:"))


def _client(url: str, settings: Settings, retry: RetryConfig) -> ObjectStore:
    if not _is_remote(url):
        return from_url(f"{url}/")
    client: ClientConfig = {"timeout": _TIMEOUT}
    if ("allow_http", "true") in settings:
        client["allow_http"] = True
    config = {name: value for name, value in settings if name not in _CLIENT_SETTINGS}
    try:
        return from_url(f"{url}/", config=config, client_options=client, retry_config=retry)  # type: ignore[call-overload,no-any-return]
    except (BaseError, ValueError) as error:
        message = str(error).partition("\n")[0]
        for secret in secrets_of(settings):
            message = message.replace(secret, "***")
    raise InvalidInputError(f"the options for {url} do not make a client: {message}", url=url)


def _listed(meta: obstore.ObjectMeta) -> Listed:
    return Listed(meta["path"], meta["size"], int(meta["last_modified"].timestamp() * 1000))


def _status(error: Exception) -> int | None:
    found = _STATUS.search(str(error))
    return None if found is None else int(found[1])


def _code(error: Exception) -> str | None:
    """Return the store's own word for what went wrong."""
    found = _CODE.search(str(error))
    return None if found is None else found[1]


def _is_definite(error: Exception) -> bool:
    """Say whether the store surely did nothing."""
    refusals = PermissionDeniedError | UnauthenticatedError | NotSupportedError | InvalidPathError
    return isinstance(error, refusals)
