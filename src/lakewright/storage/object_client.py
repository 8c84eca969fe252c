"""Calls on one container through obstore; retries and errors.

A container is what S3 and GCS call a bucket; a bucket in this library is a part of a partition.

`put_once` is one conditional put. OSS does not know `If-None-Match`, so there the client of these puts sends the header
with which OSS overwrites nothing. The client's own retries are off for it: a repeated put whose first reply was lost
would find its own object and report a loss. Instead, when the reply to a put is lost, the object is read back: equal
bytes are a win, other bytes a loss, an absent object is put again, and if no answer can be had, an OSError is raised.
Two callers that put equal bytes could both read back a win, so contents that decide a race carry something unique.

Errors name the object and never a secret: secrets are removed from messages, and the client's own error is not
attached as the cause.
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
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar

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

from lakewright.errors import CredentialsError, InvalidInputError, NotFoundError, UnsupportedError
from lakewright.storage.credentials import CLIENT_PAUSE_SECONDS, Settings, StoreCredentials, secrets_of

if TYPE_CHECKING:
    from obstore import SuffixRange
    from obstore.store import ClientConfig, RetryConfig

P = ParamSpec("P")
T = TypeVar("T")

PUT_ATTEMPTS_MAX = 6
PARTS_AT_ONCE = 6  # of one object; more bring no speed on a store of 60 ms, and each is held in memory
_PAUSE_SECONDS = 0.05  # before the second attempt; doubles with each further one
_TIMEOUT = timedelta(seconds=120)
_RETRY_TIMEOUT = timedelta(seconds=60)
_LIST_ATTEMPTS = 3  # of a listing whose answer is cut
_READ_ATTEMPTS = 4  # of an object where the answer is cut
_CUT = re.compile(r"(request or response|decoding response) body")
_LIST_PAGE = 1000
_MESSAGE_CHARACTERS_MAX = 300
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_BODY = re.compile(r":?\s*<(\?xml|Error|!DOCTYPE|html)\b.*", re.DOTALL | re.IGNORECASE)
_QUERY = re.compile(r"\?\S*")  # signed URLs carry their secret here
_UNSENT = "error sending request"  # where the client tells that it has no connection, or lost it
_ASKED = "credential provider"  # where the client tells of an error of the callable that it was given
_FAILURES = (BaseError, OSError, NotImplementedError, ValueError)
_OSS = "oss://"
_AZURE = ("az://", "abfs://", "abfss://")
_OSS_ONCE = {"x-oss-forbid-overwrite": "true"}
_CLIENT_SETTINGS = frozenset({"allow_http"})
_CONFLICT = 409
_RETRIED = frozenset({408, 429, 500, 502, 503, 504})
_NOT_IMPLEMENTED = 501
_REFUSED = frozenset({401, 403})
_REFUSALS = (PermissionDeniedError, UnauthenticatedError, PermissionError)
_NO_CONTAINER = frozenset({"NoSuchBucket", "ContainerNotFound"})
_TAKEN = frozenset(
    {"BlobAlreadyExists", "FileAlreadyExists"}
)  # conflicts that are final, in the words of Azure and OSS
# Answers that say that credentials are no longer known, in the words of S3, OSS and Azure.
_OUTDATED = frozenset(
    "ExpiredToken InvalidToken InvalidAccessKeyId TokenRefreshRequired SecurityTokenExpired InvalidSecurityToken "
    "AuthenticationFailed ExpiredAuthenticationToken InvalidAuthenticationInfo".split()
)


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object as a listing shows it."""

    key: str
    size: int
    modified_millis: int


@dataclass(slots=True)
class _Runtime:
    """Whether the client's threads were started, and whether this process is a fork, which lacks them."""

    started: bool = False
    lost: bool = False

    def after_fork(self) -> None:
        self.lost = self.started


_RUNTIME = _Runtime()
os.register_at_fork(after_in_child=_RUNTIME.after_fork)


@dataclass(slots=True)
class ObjectClient:
    """The calls on one container; each process makes its own with `open_client`."""

    url: str
    secrets: tuple[str, ...] = field(repr=False)
    retrying: ObjectStore = field(repr=False)  # repeats a failed call where that is safe
    single_try: ObjectStore = field(repr=False)  # never repeats a call, for conditional puts
    renewing: StoreCredentials | None = None  # credentials that renew themselves
    conditional_put_proven: bool = False

    def get(self, key: str) -> bytes:
        """Return a whole object."""
        return self._read(key, lambda: bytes(obstore.get(self.retrying, key).bytes()))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return the bytes from `start` up to but not including `end`."""
        return self._read(key, lambda: bytes(obstore.get_range(self.retrying, key, start=start, end=end)))

    def get_tail(self, key: str, length: int, size: int | None = None) -> tuple[int, bytes]:
        """Return the size of an object and, where one request gives both, up to `length` of its last bytes.

        `size` is what the caller believes it to be. Azure accepts no ranges counted from the end, so that there the
        last bytes come with the first request only if the size is right, or the object is small.
        """
        counted_from_end = not self.url.startswith(_AZURE)
        end = size or length
        start = max(0, end - length)

        def size_and_tail() -> tuple[int, bytes]:
            wanted: SuffixRange | tuple[int, int] = {"suffix": length} if counted_from_end else (start, end)
            response = obstore.get(self.retrying, key, options={"range": wanted})
            found = response.meta["size"]
            has_tail = counted_from_end or found == end or (start == 0 and found < end)
            return found, bytes(response.bytes()) if has_tail else b""

        try:
            return self._read(key, size_and_tail)
        except (FileNotFoundError, PermissionError):
            raise
        except (OSError, UnsupportedError):  # also an empty object, which has no range at all
            return self.head(key).size, b""

    def head(self, key: str) -> ObjectInfo:
        """Return what a listing shows of one object."""
        return _object_info(self._call(key, obstore.head, self.retrying, key))

    def put(self, key: str, data: bytes) -> None:
        """Put a whole object, replacing one that exists."""
        self._call(key, obstore.put, self.retrying, key, data, use_multipart=False)

    def put_once(self, key: str, data: bytes) -> bool:
        """Put a whole object only where none exists. False means that another process was first."""
        unknown: OSError | None = None  # the error of a put whose outcome is unknown
        for attempt in range(PUT_ATTEMPTS_MAX):
            if attempt:
                time.sleep(_PAUSE_SECONDS * 2**attempt * random.uniform(0.5, 1.0))  # noqa: S311 - not a secret
            outcome = self._renewing(lambda: self._try_put_once(key, data))
            if outcome is True:
                return True
            if outcome is False and unknown is None:
                return False
            if isinstance(outcome, OSError):
                unknown = outcome
            if unknown is not None and (stored := self._get_or_none(key)) is not None:
                return stored == data
        raise unknown or OSError(errno.EAGAIN, "the store kept reporting a conflict", self.path(key))

    def open_writer(self, key: str, part_bytes: int) -> obstore.WritableFile:
        """Begin an upload in parts, of which some are sent at the same time and no more are held in memory.

        If a part is refused, a call on the upload fails and the store is told to remove the others.
        """
        more = PARTS_AT_ONCE - 1  # beside the part that the client sends before it counts
        return self._call(key, obstore.open_writer, self.retrying, key, buffer_size=part_bytes, max_concurrency=more)

    def call_translated(self, key: str, call: Callable[[], T]) -> T:
        """Make a call on an upload, with its errors translated like those of all other calls.

        A call that is refused is not repeated: parts of it may have been sent.
        """
        return self._call_once(key, call)

    def list(self, prefix: str, *, offset: str | None = None) -> Iterator[ObjectInfo]:
        """Yield every object below a prefix that is a directory, by key, those whose key comes after `offset`."""
        last, cuts = offset, 0
        while True:
            # The client repeats a request that is refused, but not one whose answer is cut.
            pages = self._pages(prefix, last)
            try:
                while (page := self._call(prefix, next, pages, None)) is not None:
                    yield from map(_object_info, page)
                    last = page[-1]["path"]
            except OSError as error:
                cuts += 1
                if error.errno != errno.EIO or cuts == _LIST_ATTEMPTS:
                    raise
                time.sleep(CLIENT_PAUSE_SECONDS)
            else:
                return

    def _pages(self, prefix: str, after: str | None) -> Iterator[Sequence[obstore.ObjectMeta]]:
        return iter(
            self._call(
                prefix,
                lambda: obstore.list(self.retrying, prefix or None, offset=after, chunk_size=_LIST_PAGE),
            )
        )

    def list_level(self, prefix: str) -> tuple[Iterable[ObjectInfo], Sequence[str]]:
        """Return the objects and the directories directly inside a directory."""
        for attempt in range(_LIST_ATTEMPTS):
            try:
                level = self._call(prefix, obstore.list_with_delimiter, self.retrying, prefix or None)
                break
            except OSError as error:
                if error.errno != errno.EIO or attempt == _LIST_ATTEMPTS - 1:
                    raise
            time.sleep(CLIENT_PAUSE_SECONDS)
        return map(_object_info, level["objects"]), level["common_prefixes"]

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; a store may answer with FileNotFoundError where one does not exist."""
        self._call(keys[0], obstore.delete, self.retrying, keys)

    def copy(self, key: str, target: str) -> None:
        """Copy an object inside the store."""
        self._call(key, obstore.copy, self.retrying, key, target)

    def path(self, key: str) -> str:
        """Return the full location of a key."""
        return f"{self.url}/{key}"

    @property
    def _mode_once(self) -> Literal["create", "overwrite"]:
        """How the client is asked for a put that replaces nothing; the headers of OSS say it for every put."""
        return "overwrite" if self.url.startswith(_OSS) else "create"

    def _get_or_none(self, key: str) -> bytes | None:
        try:
            return self.get(key)
        except FileNotFoundError:
            return None

    def _try_put_once(self, key: str, data: bytes) -> bool | OSError | None:
        """Put an object if none exists, in one request.

        Returns True if the object was put, False if another one exists, None for a conflict after which nothing was
        put, and an OSError where it is unknown whether the object was put.
        """
        try:
            obstore.put(self._ready(self.single_try), key, data, mode=self._mode_once, use_multipart=False)
        except (AlreadyExistsError, PreconditionError) as error:
            return None if _status(error) == _CONFLICT and _code(error) not in _TAKEN else False
        except _FAILURES as error:
            status = _status(error)
            failure = self._failure(error, key)
            is_unknown = isinstance(failure, OSError) and isinstance(error, BaseError) and not _is_definite(error)
        else:
            return True
        if status in _RETRIED or (is_unknown and status is None):
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

    def _read(self, key: str, call: Callable[[], T]) -> T:
        """Read bytes of an object, again if the answer is cut.

        The client itself reads on where bytes of the object are missing, but not where those of an error are, as the
        one that says that there is no such object.
        """
        for _ in range(_READ_ATTEMPTS - 1):
            try:
                return self._call(key, call)
            except OSError as error:
                if error.errno != errno.EIO or not _CUT.search(str(error)):
                    raise
            time.sleep(CLIENT_PAUSE_SECONDS)
        return self._call(key, call)

    def _call(self, key: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self.renewing is None:
            return self._call_once(key, call, *args, **kwargs)
        return self._renewing(lambda: self._call_once(key, call, *args, **kwargs))

    def _renewing(self, call: Callable[[], T]) -> T:
        """Make a call; if it is refused because the credentials are outdated, renew them and make it once more."""
        if self.renewing is None:
            return call()
        # Here they are renewed in the thread of the caller, whom an error of theirs reaches as it is.
        used = self.renewing.credentials.current()
        try:
            return call()
        except _OutdatedError:
            if not self.renewing.credentials.renew(used):
                raise
        time.sleep(CLIENT_PAUSE_SECONDS)
        return call()

    def _call_once(self, key: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self._ready(self.retrying)
        try:
            return call(*args, **kwargs)
        except _FAILURES as error:
            failure = self._failure(error, key)
        raise failure  # outside the handler: the client's error would otherwise be shown as the context

    def _failure(self, error: Exception, key: str) -> Exception:
        """Return the error of this library for an error of the client, without secrets in its message."""
        asked = self.renewing.credentials.failure() if self.renewing and _ASKED in str(error) else None
        if asked is not None:  # the client asked for credentials in the middle of an upload
            return CredentialsError(asked.message, **asked.facts)
        status, code, path = _status(error), _code(error), self.path(key)
        message = self._message(error)
        if code in _NO_CONTAINER:
            return NotFoundError(
                f"{self.url} does not exist ({status} {code}): make it, or correct the location and the endpoint",
                url=self.url,
                path=path,
            )
        match error:
            case FileNotFoundError():
                return FileNotFoundError(errno.ENOENT, "no such object", path)
            case _ if isinstance(error, _REFUSALS) or status in _REFUSED:
                return self._refusal(message, status, code, path)
            case NotImplementedError() | NotSupportedError():
                return UnsupportedError(f"{self.url} cannot do what {path} needs: {message}", path=path)
            case InvalidPathError():
                return OSError(errno.EINVAL, message, path)
            case ValueError():
                return InvalidInputError(f"{path!r} is no path of an object store: {message}", path=path)
        if status == _NOT_IMPLEMENTED:
            return UnsupportedError(f"{self.url} cannot do what {path} needs: {message}", path=path)
        return OSError(errno.EIO, message, path)

    def _message(self, error: Exception) -> str:
        """Return one line about an error of the client, without secrets."""
        message = _BODY.sub("", str(error)).partition("\n")[0]
        for secret in (*self.secrets, *(self.renewing.credentials.secrets() if self.renewing else ())):
            message = message.replace(secret, "***")
        message = _QUERY.sub("?***", message)[:_MESSAGE_CHARACTERS_MAX]
        if _status(error) is None and _UNSENT in message:
            return f"the store does not answer ({message}): check the endpoint and the network"
        return message

    def _refusal(self, message: str, status: int | None, code: str | None, path: str) -> PermissionError:
        answer = message if status is None else f"{status} {code or ''}".strip()
        remedy = "check the keys, their rights and the region"
        # The answer to a HEAD says no code.
        is_outdated = code in _OUTDATED or (code is None and status in _REFUSED)
        kind = _OutdatedError if is_outdated and self.renewing else PermissionError
        return kind(errno.EACCES, f"the store refuses access ({answer}): {remedy}", path)


class _OutdatedError(PermissionError):
    """A store refused credentials that it may no longer know."""


@lru_cache(maxsize=1024)
def open_client(url: str, settings: Settings, renewing: StoreCredentials | None = None) -> ObjectClient:
    """Return the client of this process for a container; equal arguments give the same client."""
    retrying = _object_store(url, settings, {"timeout": _TIMEOUT}, {"retry_timeout": _RETRY_TIMEOUT}, renewing)
    once: ClientConfig = {"timeout": _TIMEOUT}
    if url.startswith(_OSS):
        once["default_headers"] = _OSS_ONCE
    single_try = _object_store(url, settings, once, {"max_retries": 0}, renewing) if _is_remote(url) else retrying
    return ObjectClient(url, secrets_of(settings), retrying, single_try, renewing)


def _is_remote(url: str) -> bool:
    return not url.startswith(("memory:", "file:"))


def _object_store(
    url: str, settings: Settings, client: ClientConfig, retry: RetryConfig, renewing: StoreCredentials | None
) -> ObjectStore:
    if not _is_remote(url):
        return from_url(f"{url}/")
    if ("allow_http", "true") in settings:
        client["allow_http"] = True
    config = {name: value for name, value in settings if name not in _CLIENT_SETTINGS}
    place = f"s3://{url.removeprefix(_OSS)}/" if url.startswith(_OSS) else f"{url}/"
    keys = {} if renewing is None else {"credential_provider": renewing}
    try:
        return from_url(place, config=config, client_options=client, retry_config=retry, **keys)  # type: ignore[call-overload,no-any-return]
    except (BaseError, ValueError) as error:
        message = str(error).partition("\n")[0]
        for secret in secrets_of(settings):
            message = message.replace(secret, "***")
    raise InvalidInputError(f"the options for {url} do not make a client: {message}", url=url)


def _object_info(meta: obstore.ObjectMeta) -> ObjectInfo:
    return ObjectInfo(meta["path"], meta["size"], int(meta["last_modified"].timestamp() * 1000))


def _status(error: Exception) -> int | None:
    match = _STATUS.search(str(error))
    return None if match is None else int(match[1])


def _code(error: Exception) -> str | None:
    """Return the error code in the store's answer, such as `NoSuchBucket`."""
    match = _CODE.search(str(error))
    return None if match is None else match[1]


def _is_definite(error: Exception) -> bool:
    """Return whether the error means that the store did nothing."""
    refusals = PermissionDeniedError | UnauthenticatedError | NotSupportedError | InvalidPathError
    return isinstance(error, refusals)
