"""HTTP requests: retries, failures, errors."""

from __future__ import annotations

import json
import os
import random
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Protocol
from urllib.parse import urlsplit

from lakewright.errors import (
    AlreadyExistsError,
    BranchAlreadyExistException,
    BranchNotExistException,
    CatalogServerError,
    ColumnAlreadyExistException,
    ColumnNotExistException,
    DatabaseAlreadyExistException,
    DatabaseNoPermissionException,
    DatabaseNotExistException,
    InvalidInputError,
    LakewrightError,
    NotAuthorizedError,
    NotFoundError,
    TableAlreadyExistException,
    TableNoPermissionException,
    TableNotExistException,
    TagAlreadyExistException,
    TagNotExistException,
    UnsupportedError,
)
from lakewright.spec.types import JSON
from lakewright.version import __version__

# ---- Failures of requests --------------------------------------------------------------------------------------------
# A request was never sent, or was sent and got no answer, or was refused with an error of the server. The first had
# no effect, the second may have had one, and the code of the third says which. The body of an error is shown only if
# it is the JSON of the protocol: anything else may hold secrets.

BAD_REQUEST, NOT_AUTHORIZED, FORBIDDEN, NOT_FOUND, NOT_ALLOWED, EXISTS = 400, 401, 403, 404, 405, 409
TOO_MANY, SERVER_FAILED, NOT_IMPLEMENTED, BAD_GATEWAY, UNAVAILABLE, GATEWAY_TIMEOUT = 429, 500, 501, 502, 503, 504

# After these the server has done nothing, and will not do it when asked again.
_FINAL = frozenset({BAD_REQUEST, NOT_AUTHORIZED, FORBIDDEN, NOT_FOUND, NOT_ALLOWED, EXISTS, NOT_IMPLEMENTED})
# After these alone is a commit certainly not published. Anything else is a doubt, also "exists" and "not allowed": if a
# gateway sends a commit twice, the second one can be refused because the first one was carried out.
_NOT_PUBLISHED = frozenset({BAD_REQUEST, NOT_AUTHORIZED, FORBIDDEN, NOT_FOUND, NOT_IMPLEMENTED})
# The server, or what stands before it, asks to come again later.
_PASSING = frozenset({TOO_MANY, BAD_GATEWAY, UNAVAILABLE, GATEWAY_TIMEOUT})

# Kind of the resource that the server names: what an error calls it, and the errors for a missing and a taken name.
_RESOURCES: Mapping[str, tuple[str, type[NotFoundError], type[AlreadyExistsError]]] = {
    "DATABASE": ("database", DatabaseNotExistException, DatabaseAlreadyExistException),
    "TABLE": ("table", TableNotExistException, TableAlreadyExistException),
    "COLUMN": ("column", ColumnNotExistException, ColumnAlreadyExistException),
    "TAG": ("tag", TagNotExistException, TagAlreadyExistException),
    "BRANCH": ("branch", BranchNotExistException, BranchAlreadyExistException),
    "SNAPSHOT": ("snapshot", NotFoundError, AlreadyExistsError),
    "PARTITION": ("partition", NotFoundError, AlreadyExistsError),
}


class CallFailed(Exception):  # noqa: N818 - the name of what happened; it never leaves this room
    """A request without a usable answer; `reason` is a clause that says why."""

    perhaps_done = False
    is_passing = False

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class NeverSent(CallFailed):
    """No connection came about, so the server never saw the request."""


class NoAnswer(CallFailed):
    """The request was sent, at least in part, and no answer came that can be read."""

    perhaps_done = True

    def __init__(self, reason: str, *, is_passing: bool) -> None:
        super().__init__(reason)
        self.is_passing = is_passing  # whether a request that changes nothing is worth repeating


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """The error that a server describes in its answer."""

    code: int
    resource_type: str | None = None
    resource_name: str | None = None
    message: str = ""
    request_id: str | None = None
    status: int | None = None  # of HTTP, where the body gives another code


class Refused(CallFailed):
    """The server answered with an error."""

    def __init__(self, body: ErrorBody, retry_after: float | None = None) -> None:
        said = f": {body.message}" if body.message else ""
        request = f" (request id {body.request_id})" if body.request_id else ""
        super().__init__(f"the server answered {body.code}{said}{request}")
        self.body = body
        self.retry_after = retry_after
        self.perhaps_done = body.code not in _FINAL
        self.is_passing = body.code in _PASSING


def error_body(status: int, data: bytes, headers: Mapping[str, str]) -> ErrorBody:
    """Read an answer that is no success. The code of the body goes before the HTTP status."""
    request_id = _request_id(headers)
    try:
        members = json.loads(data)
    except (ValueError, RecursionError):
        members = None
    if not isinstance(members, dict):
        return ErrorBody(status, request_id=request_id)
    code = members.get("code")
    return ErrorBody(
        code if isinstance(code, int) and code >= BAD_REQUEST else status,
        _text(members.get("resourceType")),
        _text(members.get("resourceName")),
        _text(members.get("message")) or "",
        request_id,
        status,
    )


def public_error(failure: CallFailed, request: str, facts: Mapping[str, object]) -> LakewrightError:
    """Return the error of the public tree for a failed request.

    `facts` names what the request was about: `database`, `table` and `identifier` if it has them.
    """
    if isinstance(failure, Refused) and failure.body.code in _FINAL:
        return _final_error(failure, request, facts)
    code = failure.body.code if isinstance(failure, Refused) else None
    doubt = "; it may have been carried out all the same" if failure.perhaps_done and not _reads(request) else ""
    return CatalogServerError(
        f"{request}: {failure.reason}{doubt}",
        **facts,
        code=code,
        perhaps_done=failure.perhaps_done,
        retry_after=failure.retry_after if isinstance(failure, Refused) else None,
    )


def commit_error(failure: CallFailed, request: str, facts: Mapping[str, object]) -> LakewrightError:
    """Return the error for a failed commit: a CatalogServerError with `perhaps_done` unless it was not published."""
    if not isinstance(failure, Refused):
        return public_error(failure, request, facts)
    # A gateway may put its own status over the body of a server, so both must say that nothing was published.
    if {failure.body.code, failure.body.status or failure.body.code} <= _NOT_PUBLISHED:
        return public_error(failure, request, facts)
    return CatalogServerError(
        f"{request}: {failure.reason}; it may have been carried out all the same",
        **facts,
        code=failure.body.code,
        perhaps_done=True,
        retry_after=failure.retry_after,
    )


def _final_error(failure: Refused, request: str, facts: Mapping[str, object]) -> LakewrightError:
    body, told = failure.body, f"{request}: {failure.reason}"
    match body.code:
        case 401:
            return NotAuthorizedError(
                f"{told}; the credentials of the catalog are wrong or have expired: set 'token', or the keys of "
                "'dlf', to valid ones",
                **facts,
            )
        case 403:
            about_table = "table" in facts and body.resource_type != "DATABASE"
            kind = TableNoPermissionException if about_table else DatabaseNoPermissionException
            return kind(f"{told}; the credentials of the catalog do not allow it", **_add_resource_name(body, facts))
        case 404:
            _, missing, _ = _RESOURCES.get(body.resource_type or "", ("", NotFoundError, AlreadyExistsError))
            return missing(_format_name_error(body, told, facts, "does not exist"), **_add_resource_name(body, facts))
        case 409:
            _, _, taken = _RESOURCES.get(body.resource_type or "", ("", NotFoundError, AlreadyExistsError))
            return taken(_format_name_error(body, told, facts, "already exists"), **_add_resource_name(body, facts))
        case 501 | 405:
            return UnsupportedError(f"{told}; the server of the catalog does not implement it", **facts)
        case _:
            return InvalidInputError(told, **facts)


def _format_name_error(body: ErrorBody, told: str, facts: Mapping[str, object], state: str) -> str:
    """Return the message about a name that is missing or taken: the name first, then what the server said."""
    kind, named = _RESOURCES.get(body.resource_type or "", ("",))[0], _add_resource_name(body, facts)
    if kind in {"table", "database"} and kind in named:
        return f"{kind} {named[kind]} {state} ({told})"
    return f"the {kind} {body.resource_name!r} {state} ({told})" if kind and body.resource_name else told


def _add_resource_name(body: ErrorBody, facts: Mapping[str, object]) -> dict[str, object]:
    """Return the facts with the name of the resource; a request that names it too tells more of it."""
    kind = _RESOURCES.get(body.resource_type or "", ("",))[0]
    named = {kind: body.resource_name} if kind and body.resource_name else {}
    fuller = {} if kind == "database" else facts  # of a renamed table either database may be missing
    return {**facts, **named, **fuller, "code": body.code}


def _reads(request: str) -> bool:
    return request.startswith("GET ")


def _request_id(headers: Mapping[str, str]) -> str | None:
    found = {name.lower(): value for name, value in headers.items() if "request-id" in name.lower()}
    return found.get("x-request-id") or next(iter(found.values()), None)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


# ---- Requests --------------------------------------------------------------------------------------------------------
# One pool of connections per process and host; it is never pickled and never shared with a forked process. The pool
# gets bare paths, because urllib3 folds `..` in whole URLs. Each attempt is signed anew. A request is repeated if it
# reads only and the failure is one that passes, or if it was never sent; any other request is sent once.

try:
    import urllib3
    from urllib3 import exceptions
except ImportError as missing:
    raise UnsupportedError(
        "the REST catalog needs the package urllib3: pip install 'lakewright[rest]'", package="urllib3"
    ) from missing

_MASK = b"***"
_SUCCESS = frozenset({200, 202, 204})
_CONNECTIONS_MAX = 100  # kept open per host
# Reasons of TLS errors that come about before a request is sent.
_HANDSHAKES = ("WRONG_VERSION_NUMBER", "HANDSHAKE_FAILURE", "PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "HTTP_REQUEST")
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Request:
    """One call of the protocol; path and query are encoded already."""

    method: str
    path: str
    query: str = ""
    body: bytes | None = field(default=None, repr=False)
    reads_only: bool = False  # it changes nothing, so that it may be sent again whatever happened

    @property
    def name(self) -> str:
        """The request as errors name it."""
        return f"{self.method} {self.path}"


class Auth(Protocol):
    """Who calls: gives the headers of each attempt. Frozen, picklable, its secrets not in `repr`."""

    def headers(self, request: Request) -> Mapping[str, str]:
        """Return the headers that make the server accept a request that is sent now."""

    def secrets(self) -> tuple[str, ...]:
        """Return the values that no message may contain."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an attempt may take, how often one is made, and the pauses between them in seconds."""

    connect_seconds: float = 180.0
    read_seconds: float = 180.0
    repeats_max: int = 5  # of requests that only read
    unsent_repeats_max: int = 2  # of requests that no server saw
    pause_first: float = 1.0  # each pause is twice the one before
    pause_max: float = 64.0
    retry_after_max: float = 300.0  # of what a server may ask for


@dataclass(frozen=True, slots=True)
class Server:
    """Where a catalog's server is, who calls it, and with which headers of the user."""

    scheme: str
    host: str
    port: int
    root: str = ""  # a path before every path, without a slash at its end
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    auth: Auth | None = None
    patience: Patience = field(default=Patience(), repr=False)

    def send(self, request: Request) -> dict[str, JSON]:
        """Return the members of the JSON answer, none for an empty one; raise CallFailed."""
        return _members(self.fetch(request))

    def fetch(self, request: Request) -> bytes:
        """Return the body of the answer; raise CallFailed."""
        attempt = 0
        while True:
            try:
                return self._attempt(request)
            except CallFailed as failure:
                if attempt >= self._repeats(request, failure):
                    raise
                time.sleep(pause_seconds(self.patience, attempt, getattr(failure, "retry_after", None)))
            attempt += 1

    def _repeats(self, request: Request, failure: CallFailed) -> int:
        """Return how often a request may be repeated after a failure."""
        if isinstance(failure, NeverSent):
            return self.patience.unsent_repeats_max
        return self.patience.repeats_max if request.reads_only and failure.is_passing else 0

    def _attempt(self, request: Request) -> bytes:
        target = f"{self.root}{request.path}?{request.query}" if request.query else f"{self.root}{request.path}"
        limits = urllib3.Timeout(connect=self.patience.connect_seconds, read=self.patience.read_seconds)
        try:
            answer = _pool(self.scheme, self.host, self.port).urlopen(
                request.method,
                target,
                body=request.body,
                headers=self._headers(request),
                retries=False,
                redirect=False,
                assert_same_host=False,
                timeout=limits,
            )
        except exceptions.HTTPError as error:
            raise _classify_unanswered(error, f"{self.host}:{self.port}") from error
        if answer.status not in _SUCCESS:
            data = answer.data
            for secret in () if self.auth is None else self.auth.secrets():
                data = data.replace(secret.encode(), _MASK)
            body = error_body(answer.status, data, answer.headers)
            raise Refused(body, retry_after_seconds(answer.headers.get("Retry-After"), time.time()))
        return answer.data

    def _headers(self, request: Request) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": f"lakewright/{__version__}"}
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        return {**headers, **dict(self.headers), **({} if self.auth is None else self.auth.headers(request))}


def server_at(uri: str, headers: Mapping[str, str], auth: Auth | None, patience: Patience | None = None) -> Server:
    """Return the server at the address that the option `uri` gives; without a scheme it is `http`.

    >>> server_at("localhost:8080/", {}, None).port
    8080
    """
    whole = uri if "://" in uri else f"http://{uri}"
    try:
        parts = urlsplit(whole.removesuffix("/"))
        port = parts.port
    except ValueError:
        raise _wrong_uri("it is no URL") from None
    scheme = parts.scheme.lower()
    if scheme not in _DEFAULT_PORTS or not parts.hostname or any(c <= " " for c in whole):
        raise _wrong_uri("give it as http://host:port or https://host")
    if parts.username is not None or parts.query or parts.fragment:
        raise _wrong_uri("it holds a user, a query or a fragment; credentials are given by 'token' or 'dlf.*'")
    for name, value in headers.items():
        check_header(f"header.{name}", name, value)
    root, kept = parts.path.rstrip("/"), tuple(sorted(headers.items()))
    return Server(scheme, parts.hostname, port or _DEFAULT_PORTS[scheme], root, kept, auth, patience or Patience())


def _wrong_uri(why: str) -> InvalidInputError:
    return InvalidInputError(f"the option 'uri' is not the address of a REST catalog's server: {why}", option="uri")


def check_header(option: str, name: str, value: str) -> None:
    """Raise InvalidInputError, without the value, for what cannot be sent as a header."""
    named = name.isascii() and name.isprintable() and name and not set(name) & set(' :"(),/;<=>?@[\\]{}')
    if not named or not value.isascii() or not value.isprintable():
        raise InvalidInputError(
            f"the option {option!r} cannot be sent as an HTTP header: it needs printable ASCII characters, without line"
            " ends",
            option=option,
        )


@lru_cache(maxsize=64)
def _pool(scheme: str, host: str, port: int) -> urllib3.HTTPConnectionPool:
    if scheme == "https":
        return urllib3.HTTPSConnectionPool(host, port, maxsize=_CONNECTIONS_MAX, cert_reqs="CERT_REQUIRED")
    return urllib3.HTTPConnectionPool(host, port, maxsize=_CONNECTIONS_MAX)


# A forked process must not write into the connections of its parent.
os.register_at_fork(after_in_child=_pool.cache_clear)


def _classify_unanswered(error: exceptions.HTTPError, host: str) -> CallFailed:
    """Say how far a request came whose answer is missing; what is not certainly unsent counts as sent."""
    match error:
        case exceptions.NameResolutionError():
            return NeverSent(f"the host {host} is not known")
        case exceptions.NewConnectionError():
            return NeverSent(f"{host} cannot be reached")
        case exceptions.ConnectTimeoutError():  # the two above are this too
            return NeverSent(f"{host} did not accept a connection in time")
        case exceptions.SSLError():
            return _without_tls(error, host)
        case exceptions.LocationValueError():
            return NeverSent(f"{host} is no address")
        case exceptions.ReadTimeoutError():
            return NoAnswer(f"{host} did not answer in time", is_passing=False)
        case _:
            return NoAnswer(f"the connection to {host} was cut before the whole answer came", is_passing=True)


def _without_tls(error: exceptions.SSLError, host: str) -> CallFailed:
    cause = error.args[0] if error.args else None
    if isinstance(cause, ssl.SSLCertVerificationError):
        return NeverSent(f"the certificate of {host} is not trusted: {getattr(cause, 'verify_message', '')}")
    reason = getattr(cause, "reason", None) or "no reason given"  # some errors lack the attribute
    if reason.endswith(_HANDSHAKES):
        return NeverSent(f"{host} does not speak TLS as we do ({reason}); check the 'uri'")
    return NoAnswer(f"the connection to {host} broke ({reason})", is_passing=True)


def _members(data: bytes) -> dict[str, JSON]:
    if not data.strip():
        return {}
    try:
        members = json.loads(data)
    except (ValueError, RecursionError):
        members = None
    if not isinstance(members, dict):
        raise NoAnswer("the server's answer is not a JSON object", is_passing=False)
    return members


def pause_seconds(patience: Patience, attempt: int, retry_after: float | None) -> float:
    """Return how long to wait after an attempt, counted from 0: what the server asks for, else ever longer.

    >>> 4.0 <= pause_seconds(Patience(), 2, None) <= 4.4
    True
    """
    if retry_after is not None and retry_after > 0:
        return min(retry_after, patience.retry_after_max)
    pause: float = min(patience.pause_first * 2**attempt, patience.pause_max)
    return pause * (1 + random.random() / 10)  # noqa: S311 - so that clients do not come back all at once


def retry_after_seconds(value: str | None, now: float) -> float | None:
    """Return the seconds that the header `Retry-After` asks for, as a number or as a date.

    >>> retry_after_seconds("7", 0), retry_after_seconds("Thu, 01 Jan 1970 00:00:09 GMT", 2), retry_after_seconds("", 0)
    (7.0, 7.0, None)
    """
    text = (value or "").strip()
    if text.isascii() and text.isdecimal():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - datetime.fromtimestamp(now, UTC)).total_seconds()
