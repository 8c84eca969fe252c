"""Bearer tokens and DLF signatures."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from lakewright.catalog.rest_http import Auth, CallFailed, Patience, Request, check_header, server_at
from lakewright.errors import InvalidInputError, NotAuthorizedError, UnsupportedError
from lakewright.spec.types import JSON

# ---- Signatures for Data Lake Formation ------------------------------------------------------------------------------
# A signature covers the method, the path and query as they are sent, and the date: each attempt needs one of its own.
# Keys that expire are loaded again before they do. A loaded token is kept per process, and a failure to load a new
# one is an error only once the old one has expired.

_ALGORITHM = "DLF4-HMAC-SHA256"
_UNSIGNED = "UNSIGNED-PAYLOAD"
_SCOPE_END = ("DlfNext", "aliyun_v4_request")
_REGION = re.compile(r"(?:pre-)?([a-z]+-[a-z]+(?:-\d+)?)")
_METADATA_URL = "http://100.100.100.200/latest/meta-data/Ram/security-credentials/"
_FILE_TRIES_MAX = 5
_EARLY_SECONDS = 3600.0  # keys are loaded again when they have less than this left,
_EARLY_SHARE = 0.2  # or less than this share of the life they had when they were loaded
_METADATA_PATIENCE = Patience(connect_seconds=10, read_seconds=10, repeats_max=3)


@dataclass(frozen=True, slots=True)
class DlfKeys:
    """A pair of keys, with a session if they are temporary."""

    key_id: str = field(repr=False)
    secret: str = field(repr=False)
    session: str | None = field(default=None, repr=False)
    expires: float | None = None  # epoch seconds


@dataclass(frozen=True, slots=True)
class GivenKeys:
    """Keys that stand in the options and are never loaded again."""

    keys: DlfKeys

    def load(self) -> DlfKeys:
        """Return the keys."""
        return self.keys


@dataclass(frozen=True, slots=True)
class KeysInFile:
    """Keys in a file that another process renews."""

    path: str

    def load(self) -> DlfKeys:
        """Read the file; a file that is missing or half written is read again."""
        for attempt in range(1, _FILE_TRIES_MAX + 1):
            try:
                return keys_from_json(Path(self.path).read_bytes())
            except (OSError, ValueError, RecursionError):
                if attempt == _FILE_TRIES_MAX:
                    break
            time.sleep(attempt)
        raise _not_loaded(f"the file {self.path} of 'dlf.token-path' cannot be read or does not hold them")


@dataclass(frozen=True, slots=True)
class KeysOfMachine:
    """Keys that an ECS machine gets from the metadata address of its cloud; without a role, of the role it has."""

    url: str = _METADATA_URL
    role: str | None = None

    def load(self) -> DlfKeys:
        """Ask the metadata address."""
        parts = urlsplit(self.url)
        server = server_at(f"{parts.scheme}://{parts.netloc}", {}, None, _METADATA_PATIENCE)
        try:
            role = self.role or server.fetch(Request("GET", parts.path, reads_only=True)).decode().strip()
            return keys_from_json(server.fetch(Request("GET", f"{parts.path}{role}", reads_only=True)))
        except (CallFailed, ValueError, RecursionError) as cause:
            raise _not_loaded("the metadata address of 'dlf.token-loader' = 'ecs' does not give them") from cause


KeySource: TypeAlias = GivenKeys | KeysInFile | KeysOfMachine


@dataclass(frozen=True, slots=True)
class DlfAuth:
    """A caller who signs each request with keys of Data Lake Formation."""

    region: str
    source: KeySource

    def headers(self, request: Request) -> Mapping[str, str]:
        """Return the headers of one attempt, signed at this moment."""
        return signed_headers(request, self._keys(), self.region, datetime.now(UTC))

    def secrets(self) -> tuple[str, ...]:
        """Return the secrets of the keys that are in use."""
        loaded = _LOADED.get(self.source)
        keys = self.source.keys if isinstance(self.source, GivenKeys) else None if loaded is None else loaded[0]
        return () if keys is None else tuple(text for text in (keys.secret, keys.session) if text)

    def _keys(self) -> DlfKeys:
        return self.source.keys if isinstance(self.source, GivenKeys) else current_keys(self.source, time.time())


_LOADED_MAX = 256
_LOADED: dict[KeySource, tuple[DlfKeys, float]] = {}  # the keys, and when to load them again
_LOADING = threading.Lock()


def _forget_lock() -> None:
    """Make the lock anew in a forked process: a thread of the parent may hold the old one."""
    global _LOADING  # noqa: PLW0603 - the one lock of the process
    _LOADING = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)


def current_keys(source: KeySource, now: float) -> DlfKeys:
    """Return keys that have not expired: those of this process, or new ones shortly before those expire."""
    loaded = _LOADED.get(source)
    if loaded is not None and now < loaded[1]:
        return loaded[0]
    with _LOADING:
        loaded = _LOADED.get(source)
        if loaded is not None and now < loaded[1]:
            return loaded[0]
        try:
            keys = source.load()
        except NotAuthorizedError:
            if loaded is None or (loaded[0].expires or now) <= now:
                raise
            keys = loaded[0]
        if len(_LOADED) >= _LOADED_MAX:
            _LOADED.clear()
        _LOADED[source] = keys, renewal_time(now, keys.expires)
        return keys


def renewal_time(now: float, expires: float | None) -> float:
    """Return when to replace what was got now and expires later, as epoch seconds.

    That is an hour before the end, or when a fifth of the life is left, whichever is later: what lives for minutes is
    not fetched for every request.

    >>> renewal_time(0, 24 * 3600.0), renewal_time(0, 100.0), renewal_time(0, None)
    (82800.0, 80.0, inf)
    """
    if expires is None:
        return float("inf")
    return expires - min(_EARLY_SECONDS, max(0.0, expires - now) * _EARLY_SHARE)


def keys_from_json(data: bytes) -> DlfKeys:
    """Read keys as files and metadata addresses give them; ValueError, without their content, if they are none."""
    members: JSON = json.loads(data)
    if not isinstance(members, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - one class for every way to be wrong
    key_id, secret, session = (members.get(k) for k in ("AccessKeyId", "AccessKeySecret", "SecurityToken"))
    if not isinstance(key_id, str) or not isinstance(secret, str):
        raise ValueError("no AccessKeyId or AccessKeySecret")  # noqa: TRY004 - as above
    session = session if isinstance(session, str) and session else None
    check_header("AccessKeyId", "Authorization", key_id)
    check_header("SecurityToken", "x-dlf-security-token", session or "")
    end = members.get("Expiration")
    expires = _utc(datetime.fromisoformat(end)).timestamp() if isinstance(end, str) else None
    return DlfKeys(key_id, secret, session, expires)


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def signed_headers(request: Request, keys: DlfKeys, region: str, now: datetime) -> dict[str, str]:
    """Return the headers of a request with its signature of version 4."""
    moment = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    signed = {"x-dlf-date": moment, "x-dlf-content-sha256": _UNSIGNED, "x-dlf-version": "v1"}
    if request.body is not None:
        digest = hashlib.md5(request.body, usedforsecurity=False).digest()
        signed |= {"content-type": "application/json", "content-md5": base64.b64encode(digest).decode()}
    if keys.session is not None:
        signed["x-dlf-security-token"] = keys.session
    lines = [f"{name}:{signed[name]}" for name in sorted(signed)]
    canonical = "\n".join((request.method, request.path, request.query, *lines, _UNSIGNED))
    scope = "/".join((moment[:8], region, *_SCOPE_END))
    text = "\n".join((_ALGORITHM, moment, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    key = f"aliyun_v4{keys.secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    return {**signed, "Authorization": f"{_ALGORITHM} Credential={keys.key_id}/{scope},Signature={signature}"}


def dlf_auth(options: Mapping[str, str]) -> DlfAuth:
    """Return the caller that the options `dlf.*` describe."""
    host = urlsplit(options["uri"] if "://" in options["uri"] else f"//{options['uri']}").netloc
    algorithm = options.get("dlf.signing-algorithm", "openapi" if "dlfnext" in host else "default")
    if algorithm != "default":
        raise UnsupportedError(
            f"requests would be signed with 'dlf.signing-algorithm' = {algorithm!r}, which is not implemented; only "
            "'default' is",
            option="dlf.signing-algorithm",
        )
    region = options.get("dlf.region") or _region_in(options["uri"])
    if region is None:
        raise InvalidInputError(
            "the option 'dlf.region' is missing, and 'uri' does not name a region such as cn-hangzhou",
            option="dlf.region",
        )
    return DlfAuth(region, _source(options))


def _region_in(uri: str) -> str | None:
    found = _REGION.search(uri)
    return None if found is None else found[1]


def _source(options: Mapping[str, str]) -> KeySource:
    """Return where the keys come from: the first that the options name."""
    loader = options.get("dlf.token-loader", "")
    path = options.get("dlf.token-path", "")
    if loader == "ecs":
        url = options.get("dlf.token-ecs-metadata-url") or _METADATA_URL
        return KeysOfMachine(url, options.get("dlf.token-ecs-role-name") or None)
    if loader not in {"", "local_file"}:
        raise InvalidInputError(
            f"the option 'dlf.token-loader' is {loader!r}; it takes 'local_file' or 'ecs'", option="dlf.token-loader"
        )
    if path:
        return KeysInFile(path)
    if loader:
        raise InvalidInputError("'dlf.token-loader' = 'local_file' needs 'dlf.token-path'", option="dlf.token-path")
    key_id, secret = (options.get(f"dlf.access-key-{part}", "").strip() for part in ("id", "secret"))
    if not key_id or not secret:
        raise InvalidInputError(
            "'token.provider' = 'dlf' needs 'dlf.access-key-id' and 'dlf.access-key-secret', 'dlf.token-path', or "
            "'dlf.token-loader' = 'ecs'",
            option="dlf.access-key-id",
        )
    session = options.get("dlf.security-token", "").strip() or None
    check_header("dlf.access-key-id", "Authorization", key_id)
    check_header("dlf.security-token", "x-dlf-security-token", session or "")
    return GivenKeys(DlfKeys(key_id, secret, session))


def _not_loaded(why: str) -> NotAuthorizedError:
    return NotAuthorizedError(f"there are no keys of Data Lake Formation: {why}")


# ---- Authentication chosen by the options ----------------------------------------------------------------------------

_PROVIDERS = "'bear' (a token) or 'dlf' (keys of Alibaba Data Lake Formation)"


@dataclass(frozen=True, slots=True)
class BearerAuth:
    """A caller with a token that the server knows."""

    token: str = field(repr=False)

    def headers(self, request: Request) -> Mapping[str, str]:
        """Return the header with the token; it is the same for every request."""
        del request
        return {"Authorization": f"Bearer {self.token}"}

    def secrets(self) -> tuple[str, ...]:
        """Return the token."""
        return (self.token,)


def auth_of(options: Mapping[str, str]) -> Auth:
    """Return the caller that the option `token.provider` asks for."""
    provider = options.get("token.provider", "").strip()
    match provider.lower():
        case "bear":
            token = options.get("token", "").strip()
            if not token:
                raise InvalidInputError(
                    "the option 'token' is missing: 'token.provider' = 'bear' needs the token of the server",
                    option="token",
                )
            check_header("token", "Authorization", token)
            return BearerAuth(token)
        case "dlf":
            return dlf_auth(options)
        case "":
            raise InvalidInputError(
                f"the option 'token.provider' is missing: a REST catalog needs {_PROVIDERS}", option="token.provider"
            )
        case _:
            raise InvalidInputError(
                f"the option 'token.provider' is {provider!r}; a REST catalog takes {_PROVIDERS}",
                option="token.provider",
            )
