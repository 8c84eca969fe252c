"""How a request can fail, as exceptions inside this room; and those exceptions in, errors of the public tree out.

A request was never sent, or was sent and got no answer, or was refused with an error of the server. The first had no
effect, the second may have had one, and the code of the third says which. The body of an error is shown only if it is
the JSON of the protocol: anything else may hold secrets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

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
            return kind(f"{told}; the credentials of the catalog do not allow it", **_named(body, facts))
        case 404:
            _, missing, _ = _RESOURCES.get(body.resource_type or "", ("", NotFoundError, AlreadyExistsError))
            return missing(_said(body, told, facts, "does not exist"), **_named(body, facts))
        case 409:
            _, _, taken = _RESOURCES.get(body.resource_type or "", ("", NotFoundError, AlreadyExistsError))
            return taken(_said(body, told, facts, "already exists"), **_named(body, facts))
        case 501 | 405:
            return UnsupportedError(f"{told}; the server of the catalog does not implement it", **facts)
        case _:
            return InvalidInputError(told, **facts)


def _said(body: ErrorBody, told: str, facts: Mapping[str, object], state: str) -> str:
    """Return the message about a name that is missing or taken: the name first, then what the server said."""
    kind, named = _RESOURCES.get(body.resource_type or "", ("",))[0], _named(body, facts)
    if kind in {"table", "database"} and kind in named:
        return f"{kind} {named[kind]} {state} ({told})"
    return f"the {kind} {body.resource_name!r} {state} ({told})" if kind and body.resource_name else told


def _named(body: ErrorBody, facts: Mapping[str, object]) -> dict[str, object]:
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
