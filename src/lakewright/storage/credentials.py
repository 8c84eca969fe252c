"""Settings of stores and credentials that renew themselves."""

from __future__ import annotations

import importlib
import os
import pickle
import re
import sys
import threading
import time
import uuid
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import TypeAlias

from lakewright.errors import CredentialsError, InvalidInputError, LakewrightError
from lakewright.spec import argument_checks

# ---- Settings of object stores ---------------------------------------------------------------------------------------
# Option names are accepted in the spelling of Paimon (`s3.access-key`), pypaimon (`fs.s3.accessKeyId`), Hadoop
# (`fs.s3a.access.key`), the cloud's own environment variables (`AWS_ACCESS_KEY_ID`, in either case) and Iceberg
# (`s3.access-key-id`). If a setting is given under several names, the first in the table below wins.

# setting: its names among the options, in order of precedence
_S3 = {
    "access_key_id": "s3.access-key s3.access-key-id fs.s3a.access.key fs.s3a.access-key fs.s3.accesskeyid "
    "aws_access_key_id",
    "secret_access_key": "s3.secret-key s3.secret-access-key fs.s3a.secret.key fs.s3a.secret-key fs.s3.accesskeysecret "
    "aws_secret_access_key",
    "session_token": "s3.session.token s3.session-token s3.token fs.s3a.session.token fs.s3.securitytoken "
    "aws_session_token aws_token",
    "endpoint": "s3.endpoint fs.s3a.endpoint fs.s3.endpoint aws_endpoint_url_s3 aws_endpoint_url aws_endpoint",
    "region": "s3.region s3.endpoint.region client.region fs.s3a.endpoint.region fs.s3.region aws_region "
    "aws_default_region",
    "skip_signature": "s3.anonymous aws_skip_signature",
    "server_side_encryption": "aws_server_side_encryption",
    "sse_kms_key_id": "aws_sse_kms_key_id",
    "role_arn": "s3.role-arn client.role-arn fs.s3a.assumed.role.arn aws_role_arn",
    "conditional_put": "aws_conditional_put",
    "disable_bulk_delete": "aws_disable_bulk_delete",
}
_OSS = {  # Alibaba's store, which answers the requests of S3
    "access_key_id": "fs.oss.accesskeyid",
    "secret_access_key": "fs.oss.accesskeysecret",
    "session_token": "fs.oss.securitytoken",
    "endpoint": "fs.oss.endpoint",
    "region": "fs.oss.region",
}
_GCS = {
    "bearer_token": "gcs.oauth2.token google_bearer_token",
    "application_credentials": "google_application_credentials gs.application-credentials",
    "service_account": "google_service_account google_service_account_path",
    "service_account_key": "google_service_account_key gcs.service-account-key",
    "base_url": "gcs.service.host google_base_url",
    "skip_signature": "gcs.no-auth google_skip_signature",
}
_AZURE = {
    "account_name": "adls.account-name azure_storage_account_name azure.account-name account_name",
    "account_key": "adls.account-key azure_storage_account_key azure_storage_access_key azure.account-key account_key",
    "sas_key": "adls.sas-token azure_storage_sas_token azure_storage_sas_key sas_token",
    "tenant_id": "adls.tenant-id azure_storage_tenant_id azure_tenant_id",
    "client_id": "adls.client-id azure_storage_client_id azure_client_id",
    "client_secret": "adls.client-secret azure_storage_client_secret azure_client_secret",
    "token": "adls.token azure_storage_token",
    "endpoint": "adls.endpoint azure_storage_endpoint azure_endpoint",
    "use_emulator": "azure_storage_use_emulator",
}
HDFS_ADDRESS = ("dfs.namenode.http-address", "hadoop.dfs.namenode.http-address")
HDFS_USER = ("hadoop.user.name",)
_NAMES = {"s3": _S3, "oss": _OSS, "gs": _GCS, "az": _AZURE, "abfs": _AZURE, "abfss": _AZURE}
_PATH_STYLE = "s3.path.style.access s3.path-style-access fs.s3a.path.style.access".split()
_VIRTUAL_HOST = ["aws_virtual_hosted_style_request"]
_ALLOW_HTTP = "aws_allow_http allow_http azure_allow_http google_allow_http".split()
_SWITCHES = {"skip_signature", "use_emulator", "disable_bulk_delete"}
ENDPOINT_VARIABLES = ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
_SECRETS = frozenset(
    "access_key_id secret_access_key session_token bearer_token service_account_key account_key sas_key client_secret "
    "token".split()
)
_ADDRESS = re.compile(r"(\d+(\.\d+){3}|\[[0-9a-f:]+\]|localhost)(:\d+)?")
_OSS_REGION, _OSS_REGION_DEFAULT = re.compile(r"\boss-([a-z0-9-]+?)(?:-internal)?\."), "us-east-1"
Settings = tuple[tuple[str, str], ...]


def store_settings(
    scheme: str, container: str, options: Mapping[str, str], newer: Mapping[str, str] | None = None
) -> Settings:
    """Return the settings that the options give to the client of an object store, sorted by name.

    A setting that `newer` options give wins, whatever its name is there.

    >>> store_settings("s3", "lake", {"s3.endpoint": "http://127.0.0.1:9000", "other": "x"})
    (('allow_http', 'true'), ('endpoint', 'http://127.0.0.1:9000'))
    """
    known = {name.lower(): value for name, value in options.items() if isinstance(value, str)}
    later = {name.lower(): value for name, value in (newer or {}).items()}
    settings = {}
    for setting, names in _NAMES.get(scheme, {}).items():
        value = _first(later, names.split()) or _first(known, names.split())
        if value:
            settings[setting] = _switch(value, setting) if setting in _SWITCHES else value
    known |= later
    if scheme == "s3":
        _place_endpoint(settings, container, known)
    if scheme == "oss":
        _place_oss(settings, container)
    endpoint = settings.get("endpoint") or settings.get("base_url") or ""
    if scheme == "s3" and not endpoint:  # the client reads these variables too, but plain HTTP must be allowed here
        endpoint = next((os.environ[name] for name in ENDPOINT_VARIABLES if name in os.environ), "")
    allow_http = _first(known, _ALLOW_HTTP)
    if endpoint.startswith("http://") or (allow_http and _switch(allow_http, "allow_http") == "true"):
        settings["allow_http"] = "true"
    return tuple(sorted(settings.items()))


@cache
def setting_names() -> frozenset[str]:
    """Return every option name that is a setting of an object store or of HDFS, in lower case."""
    names = [text for store in (_S3, _OSS, _GCS, _AZURE) for text in store.values()]
    return frozenset((*" ".join(names).split(), *_PATH_STYLE, *_VIRTUAL_HOST, *_ALLOW_HTTP, *HDFS_ADDRESS, *HDFS_USER))


@cache
def public_names() -> frozenset[str]:
    """Return the option names, in lower case, of settings that are no secrets."""
    stores = (_S3, _OSS, _GCS, _AZURE)
    secrets = " ".join(names for store in stores for setting, names in store.items() if setting in _SECRETS)
    return setting_names() - frozenset(secrets.split())


def split_secrets(settings: Settings) -> tuple[Settings, Settings]:
    """Return the settings that are no secrets, and those that are."""
    public = tuple(pair for pair in settings if pair[0] not in _SECRETS)
    return public, tuple(pair for pair in settings if pair[0] in _SECRETS)


def secrets_of(settings: Settings) -> tuple[str, ...]:
    """Return the values that no message may contain."""
    return tuple(value for name, value in settings if name in _SECRETS)


def _place_endpoint(settings: dict[str, str], container: str, known: Mapping[str, str]) -> None:
    """Set the endpoint as a URL; with virtual-hosted addressing, the container is part of the host."""
    endpoint = settings.get("endpoint")
    if endpoint is not None and "://" not in endpoint:
        endpoint = f"https://{endpoint}"
    path_style, virtual = _first(known, _PATH_STYLE), _first(known, _VIRTUAL_HOST)
    in_host = path_style is not None and _switch(path_style, _PATH_STYLE[0]) == "false"
    if virtual is not None:
        in_host = _switch(virtual, _VIRTUAL_HOST[0]) == "true"
    if in_host:
        settings["virtual_hosted_style_request"] = "true"
        endpoint = endpoint and _with_container(endpoint, container)
    if endpoint is not None:
        settings["endpoint"] = endpoint


def _place_oss(settings: dict[str, str], container: str) -> None:
    """Set the endpoint with the container in its host, which OSS demands, and the region of the signature."""
    endpoint = settings.get("endpoint")
    if endpoint is None:
        raise InvalidInputError(
            f"the option 'fs.oss.endpoint' is missing for oss://{container}", option=_OSS["endpoint"]
        )
    endpoint = endpoint if "://" in endpoint else f"https://{endpoint}"
    host = endpoint.partition("://")[2].partition("/")[0]
    if _ADDRESS.fullmatch(host) is None:  # an address has no room for a name
        settings["virtual_hosted_style_request"] = "true"
        endpoint = _with_container(endpoint, container)
    region = _OSS_REGION.search(host)
    settings.setdefault("region", region[1] if region else _OSS_REGION_DEFAULT)
    settings["endpoint"] = endpoint


def _with_container(endpoint: str, container: str) -> str:
    transport, _, host = endpoint.partition("://")
    return endpoint if host.startswith(f"{container}.") else f"{transport}://{container}.{host}"


def _first(known: Mapping[str, str], names: list[str]) -> str | None:
    return next((known[name] for name in names if name in known), None)


def _switch(value: str, name: str) -> str:
    word = value.strip().lower()
    if word not in {"true", "false", "1", "0"}:
        raise InvalidInputError(f"the option {name!r} is either true or false, not {value!r}", option=name)
    return "true" if word in {"true", "1"} else "false"


# ---- Credentials that renew themselves -------------------------------------------------------------------------------
# A process asks for credentials once per life. They are renewed a little early, by one thread, while the others go on
# with the old ones; if that fails, the old ones are kept as long as they are good. Credentials that live for less
# than a minute, and those of an issuer that gives the same ones until they expire, are renewed when they do: early
# calls would be wasted. The credentials of a process are found by a key that travels with the value, so that all
# tasks of a worker process share them; the credentials themselves do not travel.
#
# Secrets are never part of a `repr` or an error. What a callable of a user raises may hold some, so that an error of
# ours names only its class.

Provider: TypeAlias = Callable[[], Mapping[str, object]]

EXPIRES_AT, EXPIRES_AT_MILLIS = "expires_at", "expiresAtMillis"
_NEVER = float("inf")
_SHORT_SECONDS = 60.0  # credentials that live shorter than this are not renewed early
_EARLY_SHARE, _EARLY_SECONDS_MAX = 0.1, 600.0  # how long before their end the others are
_LAST_SHARE, _LAST_SECONDS_MIN, _LAST_SECONDS_MAX = 0.05, 0.15, 1.0  # of what is not renewed early, the end is not used
_DOUBT_SECONDS = 10.0  # after which credentials that replaced refused ones may be refused once more
_PAUSE_SHARE = 0.2  # of the time that is left: when a renewal that failed is tried again
_HOLDERS_MAX = 1000  # beyond it, those with credentials that are no longer good are forgotten
# The client keeps what it was given for a tenth of a second, and longer only if it expires in more than five minutes.
# So it is told that everything expires sooner, and asks here, where the credentials are kept, before its requests.
_CLIENT_KEEPS = timedelta(minutes=1)
CLIENT_PAUSE_SECONDS = 0.12  # after which the client has new credentials for sure

_PICKLERS = ("pyspark.cloudpickle", "ray.cloudpickle", "pickle")  # the engines' own send more kinds of functions
# What the client of a store is given: the name there, the setting, whether it must be issued. The first that fits.
_S3_KEYS = [[("access_key_id", True), ("secret_access_key", True), ("session_token", False)]]
_KEYS: dict[str, list[list[tuple[str, bool]]]] = {
    "s3": _S3_KEYS,
    "oss": _S3_KEYS,
    "gs": [[("bearer_token", True)]],
    "az": [[("token", True)], [("sas_key", True)], [("account_key", True)]],
}
_KEYS |= {"abfs": _KEYS["az"], "abfss": _KEYS["az"]}
_CLIENT_NAMES = {
    "session_token": "token",
    "bearer_token": "token",
    "sas_key": "sas_token",
    "account_key": "access_key",
}


@dataclass(frozen=True, slots=True, eq=False)
class Issued:
    """Options with keys as they were issued, and when they expire, in seconds since 1970."""

    options: Mapping[str, str] = field(repr=False)
    expires: float = _NEVER


@dataclass(frozen=True, slots=True)
class Credentials:
    """Where the credentials of a store come from. Those with equal keys share what was issued in a process."""

    provider: Provider = field(repr=False, compare=False)
    key: Hashable = field(repr=False)
    place: str = field(compare=False)  # the store or table, as errors name it

    @classmethod
    def of(cls, provider: Provider, place: str) -> Credentials:
        """Return the credentials that a callable issues; equal callables have the same, here and in other processes."""
        try:
            key = _key_of(provider)
        except TypeError:  # it cannot be hashed
            key = uuid.uuid4().hex
        return cls(provider, key, place)

    def __reduce__(self) -> tuple[object, ...]:
        """Send the provider along, not what it issued; CredentialsNotSentError if it cannot be sent."""
        reason = _why_not_sent(self.provider)
        if reason is not None:
            raise CredentialsNotSentError(
                f"the provider of credentials for {self.place} cannot be sent to other processes ({reason}): use a "
                "function of a module, or an object that holds only plain values and opens its connections when called",
                store=self.place,
            )
        return Credentials, (self.provider, self.key, self.place)

    def current(self) -> Issued:
        """Return credentials that are good; they are issued anew if necessary. CredentialsError where that fails."""
        return _holder(self.key).current(self)

    def renew(self, refused: Issued) -> bool:
        """Ask for other credentials, because a store refused these before their time; return whether there are any."""
        return _holder(self.key).renew_refused(self, refused)

    def secrets(self) -> tuple[str, ...]:
        """Return the keys that were issued lately, which no message may contain."""
        lately = [pair for issued in _holder(self.key).lately for pair in issued.options.items()]
        return tuple(value for name, value in lately if value and name.lower() not in public_names())

    def failure(self) -> LakewrightError | None:
        """Return why the last renewal failed."""
        return _holder(self.key).failure

    def issue(self) -> Issued:
        """Call the provider and check its answer."""
        issued = self._issue()
        if issued.expires <= time.time():  # it may have expired on its way here
            issued = self._issue()
        if issued.expires <= time.time():
            end = datetime.fromtimestamp(issued.expires, UTC).isoformat(timespec="seconds")
            raise self.error(f"the issued credentials expired already, at {end}: check the clocks of both machines")
        return issued

    def error(self, reason: str) -> CredentialsError:
        """Return the error that names the store."""
        return CredentialsError(f"no credentials for {self.place}: {reason}", store=self.place)

    def _issue(self) -> Issued:
        failure: LakewrightError | None = None
        try:
            answer = self.provider()
        except LakewrightError as error:  # of this library, without secrets
            failure = self.error(str(error))
            failure.__cause__ = error
        except Exception as error:  # noqa: BLE001 - a provider may raise anything, and its message may hold secrets
            failure = self.error(f"their provider raised {type(error).__name__}; call it by itself to see its message")
        if failure is not None:
            raise failure
        return self._check_answer(answer)

    def _check_answer(self, answer: object) -> Issued:
        if not isinstance(answer, Mapping):
            raise self.error(f"their provider returned {type(answer).__name__}, not a mapping of options")
        given = {key: value for key, value in answer.items() if value is not None}
        ends = [given.pop(name) for name in (EXPIRES_AT, EXPIRES_AT_MILLIS) if name in given]
        wrong = [key for key, value in given.items() if not (isinstance(key, str) and isinstance(value, str))]
        if wrong:
            raise self.error(f"the options {sorted(map(str, wrong))} of their provider are not text")
        return Issued(given, self._end(ends[0]) if ends else _NEVER)

    def _end(self, value: object) -> float:
        if isinstance(value, datetime):
            if value.tzinfo is None:
                raise self.error(f"{EXPIRES_AT!r} of their provider has no time zone: use datetime.now(timezone.utc)")
            return value.timestamp()
        if isinstance(value, int) and not isinstance(value, bool):
            return value / 1000
        raise self.error(
            f"their provider says when they expire as {type(value).__name__}: {EXPIRES_AT!r} is a datetime with a "
            f"zone, {EXPIRES_AT_MILLIS!r} the milliseconds since 1970"
        )


class CredentialsNotSentError(InvalidInputError, pickle.PicklingError):
    """The provider of credentials cannot be pickled, so that no other process can renew them."""


def credentials_of(provider: object, place: str) -> Credentials | None:
    """Return the credentials of the argument `credentials` of a call, None if it has none."""
    if provider is None:
        return None
    if not callable(provider):
        raise argument_checks.argument_error("credentials", "a function that returns options with keys", provider)
    return Credentials.of(provider, place)


def named_provider(name: str) -> Provider:
    """Return the function that a text such as `package.module:function` names, for options that hold only text."""
    module, _, attribute = name.partition(":")
    found: object = None
    with suppress(ImportError, ValueError):
        found = getattr(importlib.import_module(module), attribute, None)
    if not attribute or not callable(found):
        raise InvalidInputError(
            f"the option 'credentials' is the name of a function, 'package.module:function', and {name!r} names none "
            "that can be imported here",
            option="credentials",
        )
    return found


def _why_not_sent(provider: Provider) -> str | None:
    """Return the class of the error with which a provider cannot be pickled, by the engine that is loaded."""
    picklers = [sys.modules[name] for name in _PICKLERS if name in sys.modules]
    reason = None
    for pickler in picklers:
        try:
            pickler.dumps(provider)
        except Exception as error:  # noqa: BLE001 - an object may raise anything when it is pickled
            reason = type(error).__name__
        else:
            return None
    return reason


@dataclass(slots=True)
class _Holder:
    """The credentials of this process under one key, and when to renew them."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    issued: Issued | None = None
    renew_at: float = 0.0  # from then on, the next caller renews them
    good_until: float = 0.0  # not used from then on
    renews_early: bool = True  # whether the issuer gives other credentials before the old ones expire
    trusted_until: float = 0.0  # until then, a refusal is not taken for a sign that the credentials are outdated
    failure: LakewrightError | None = None
    lately: tuple[Issued, ...] = ()

    def current(self, credentials: Credentials) -> Issued:
        held, now = self.issued, time.time()
        if held is not None and now < self.renew_at:
            return held
        if held is not None and now < self.good_until:
            if not self.lock.acquire(blocking=False):
                return held  # another thread renews them
        else:
            self.lock.acquire()
        try:
            return self._renew_issued(credentials)
        finally:
            self.lock.release()

    def renew_refused(self, credentials: Credentials, refused: Issued) -> bool:
        with self.lock:
            if self.issued is not refused:
                return True
            if time.time() < self.trusted_until:
                return False
            fresh = credentials.issue()
            self._keep(fresh)
            self.trusted_until = min(fresh.expires, time.time() + _DOUBT_SECONDS)
            return fresh.options != refused.options

    def _renew_issued(self, credentials: Credentials) -> Issued:
        held, now = self.issued, time.time()
        if held is not None and now < self.renew_at:  # another thread was first
            return held
        if held is not None and self.renew_at == self.good_until:
            time.sleep(max(0.0, held.expires - now))
        try:
            fresh = credentials.issue()
        except LakewrightError as error:
            self.failure = error
            left = self.good_until - time.time()
            if held is None or left <= 0:
                raise
            self.renew_at = self.good_until - left * (1 - _PAUSE_SHARE)
            return held
        self._keep(fresh)
        return fresh

    def _keep(self, fresh: Issued) -> None:
        held, now = self.issued, time.time()
        if held is not None and now < held.expires and fresh.expires <= held.expires:
            self.renews_early = False
        left = fresh.expires - now
        last = min(max(left * _LAST_SHARE, _LAST_SECONDS_MIN), _LAST_SECONDS_MAX)
        self.renew_at = self.good_until = fresh.expires - last
        if self.renews_early and left >= _SHORT_SECONDS:
            self.renew_at = fresh.expires - min(left * _EARLY_SHARE, _EARLY_SECONDS_MAX)
            self.good_until = fresh.expires
        self.issued, self.failure = fresh, None
        self.lately = (fresh, *self.lately[:2])


_HOLDERS: dict[Hashable, _Holder] = {}


@dataclass(slots=True)
class _Guard:
    """The lock of `_HOLDERS`; a fork gets new ones, as a thread that it lacks may hold the old ones."""

    lock: threading.Lock = field(default_factory=threading.Lock)

    def after_fork(self) -> None:
        self.lock = threading.Lock()
        _HOLDERS.clear()


_GUARD = _Guard()
os.register_at_fork(after_in_child=_GUARD.after_fork)


def _holder(key: Hashable) -> _Holder:
    holder = _HOLDERS.get(key)
    if holder is not None:
        return holder
    with _GUARD.lock:
        if len(_HOLDERS) >= _HOLDERS_MAX:
            now = time.time()
            for old in [old for old, holder in _HOLDERS.items() if holder.issued and holder.good_until < now]:
                del _HOLDERS[old]
            while len(_HOLDERS) >= _HOLDERS_MAX:  # the oldest gets new credentials when it is asked for again
                del _HOLDERS[next(iter(_HOLDERS))]
        return _HOLDERS.setdefault(key, _Holder())


@lru_cache(maxsize=_HOLDERS_MAX)
def _key_of(provider: Provider) -> str:  # noqa: ARG001 - the cache knows it
    """Return a new key for a callable; equal ones get the same."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class StoreCredentials:
    """The credentials of one container: what is issued is laid over the options that the storage was opened with."""

    credentials: Credentials
    url: str
    options: Settings = field(repr=False)  # without secrets

    @classmethod
    def of(cls, credentials: Credentials, url: str, options: Mapping[str, str]) -> StoreCredentials:
        """Return the credentials of a container, with those options that are settings of its client."""
        known = {key: value for key, value in options.items() if key.lower() in public_names()}
        return cls(credentials, url, tuple(sorted(known.items())))

    def settings(self) -> Settings:
        """Return the settings of the client at this moment, without secrets: an issued endpoint is among them."""
        return self._split_issued()[0]

    def __call__(self) -> dict[str, object]:
        """Return the keys in the words of the client, which calls this from threads of its own too."""
        return {**self._split_issued()[1], "expires_at": datetime.now(UTC) + _CLIENT_KEEPS}

    def _split_issued(self) -> tuple[Settings, Mapping[str, str]]:
        issued = self.credentials.current()
        public, keys, missing = _laid_over(self.url, self.options, issued)
        if missing:
            names = sorted(issued.options)
            raise self.credentials.error(f"what their provider returned lacks {missing} (its options: {names})")
        return public, keys


@lru_cache(maxsize=256)
def _laid_over(url: str, options: Settings, issued: Issued) -> tuple[Settings, Mapping[str, str], str]:
    """Return the settings of a client with issued options, the keys in its words, and which keys are missing."""
    scheme, _, container = url.partition("://")
    public, secrets = split_secrets(store_settings(scheme, container, dict(options), issued.options))
    keys = dict(secrets)
    for names in _KEYS[scheme]:
        if all(name in keys for name, is_needed in names if is_needed):
            return public, {_CLIENT_NAMES.get(name, name): keys[name] for name, _ in names if name in keys}, ""
    choices = [[name for name, is_needed in names if is_needed and name not in keys] for names in _KEYS[scheme]]
    return public, {}, " or ".join(" and ".join(choice) for choice in choices)
