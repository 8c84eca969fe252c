"""Credentials that renew themselves: one call per life, providers that fail or answer wrongly, refusals, secrets."""

from __future__ import annotations

import pickle
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar, cast

import pytest

from lakewright.errors import CredentialsError, InvalidInputError
from lakewright.storage import credentials as credentials_module
from lakewright.storage.credentials import Credentials, CredentialsNotSentError, StoreCredentials, named_provider
from lakewright.storage.object_storage import PART_BYTES, ObjectStorage
from lakewright.storage.storage_registry import open_storage
from support.s3 import S3Server
from support.sessions import SessionProvider, Sessions, environment_keys, running_sessions, session_options

HUSH = "hush-hush-secret"


@dataclass
class Clock:
    """A clock that moves when told to, or when somebody sleeps."""

    now: float = 1_800_000_000.0

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(credentials_module, "time", clock)
    return clock


@dataclass(eq=False)
class Issuer:
    """A provider that issues new keys at every call, or the same until they expire."""

    clock: Clock
    life: float | None = 100.0
    same: bool = False
    failing: bool = False
    calls: list[float] = field(default_factory=list)
    number: int = 0
    expires: float = 0.0

    def __call__(self) -> Mapping[str, object]:
        self.calls.append(self.clock.now)
        if self.failing:
            raise RuntimeError(HUSH)
        if not (self.same and self.clock.now < self.expires):
            self.number += 1
            self.expires = self.clock.now + (self.life or 0)
        keys: dict[str, object] = {"s3.access-key": f"K{self.number}", "s3.secret-key": HUSH}
        return keys if self.life is None else {**keys, "expiresAtMillis": int(self.expires * 1000)}


T = TypeVar("T")


def _sent(value: T) -> T:
    """Return a value as another process gets it."""
    return cast("T", pickle.loads(pickle.dumps(value)))  # noqa: S301 - made in this line


def _key(credentials: Credentials) -> str:
    return credentials.current().options["s3.access-key"]


def test_credentials_are_asked_for_once_per_life(clock: Clock) -> None:
    issuer = Issuer(clock)
    credentials = Credentials.of(issuer, "s3://lake")
    for _ in range(3000):
        assert credentials.current().expires > clock.now
        clock.now += 0.1
    assert len(issuer.calls) == 4  # three lives, each renewed after nine tenths
    assert min(b - a for a, b in zip(issuer.calls, issuer.calls[1:], strict=False)) > 89.9


@pytest.mark.parametrize("same", [True, False])
def test_credentials_of_seconds_are_asked_for_when_the_old_ones_expire(clock: Clock, same: bool) -> None:
    issuer = Issuer(clock, life=5.0, same=same)
    credentials = Credentials.of(issuer, "s3://lake")
    for _ in range(500):
        assert credentials.current().expires > clock.now + 0.2
        clock.now += 0.1
    assert len(issuer.calls) > 9
    assert min(b - a for a, b in zip(issuer.calls, issuer.calls[1:], strict=False)) >= 5


def test_an_issuer_that_does_not_renew_early_is_asked_at_the_end(clock: Clock) -> None:
    issuer = Issuer(clock, same=True)
    credentials = Credentials.of(issuer, "s3://lake")
    for _ in range(5000):
        assert credentials.current().expires > clock.now
        clock.now += 0.1
    assert len(issuer.calls) <= 5 + 1 + 1  # the first life, in which it shows, has two


def test_credentials_without_an_end_are_asked_for_once(clock: Clock) -> None:
    issuer = Issuer(clock, life=None)
    credentials = Credentials.of(issuer, "s3://lake")
    for _ in range(10):
        clock.now += 1e6
        assert _key(credentials) == "K1"
    assert len(issuer.calls) == 1


def test_a_failed_renewal_keeps_good_credentials_and_is_tried_again(clock: Clock) -> None:
    issuer = Issuer(clock)
    credentials = Credentials.of(issuer, "s3://lake")
    assert _key(credentials) == "K1"
    clock.now += 95
    issuer.failing = True
    assert [_key(credentials) for _ in range(5)] == ["K1"] * 5
    assert len(issuer.calls) == 2
    clock.now += 2
    assert _key(credentials) == "K1"
    assert len(issuer.calls) == 3
    clock.now += 3
    with pytest.raises(CredentialsError, match=r"s3://lake.*RuntimeError") as caught:
        credentials.current()
    assert isinstance(caught.value, PermissionError)
    assert HUSH not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None
    issuer.failing = False
    assert _key(credentials) == "K2"


def test_one_thread_renews_while_the_others_go_on(clock: Clock) -> None:
    started, go_on = threading.Event(), threading.Event()
    calls = []

    def slow() -> dict[str, object]:
        calls.append(1)
        if len(calls) > 1:
            started.set()
            assert go_on.wait(10)
        expires = datetime.fromtimestamp(clock.now + 100, UTC)
        return {"s3.access-key": f"K{len(calls)}", "s3.secret-key": HUSH, "expires_at": expires}

    credentials = Credentials.of(slow, "s3://lake")
    assert _key(credentials) == "K1"
    clock.now += 95
    with ThreadPoolExecutor(1) as pool:
        renewal = pool.submit(_key, credentials)
        assert started.wait(10)
        assert [_key(credentials) for _ in range(5)] == ["K1"] * 5
        go_on.set()
        assert renewal.result() == "K2"
    assert (_key(credentials), len(calls)) == ("K2", 2)


def test_racing_threads_ask_once_at_first(clock: Clock) -> None:
    issuer = Issuer(clock)
    credentials = Credentials.of(issuer, "s3://lake")
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: _key(credentials), range(64))) == {"K1"}
    assert len(issuer.calls) == 1


def test_an_answer_that_expired_on_its_way_is_asked_for_again(clock: Clock) -> None:
    ends = [clock.now - 1, clock.now + 100]
    credentials = Credentials.of(lambda: {"a": "b", "expiresAtMillis": int(ends.pop(0) * 1000)}, "s3://lake")
    assert credentials.current().expires == clock.now + 100


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([("s3.access-key", HUSH)], "list, not a mapping"),
        (None, "NoneType, not a mapping"),
        ({"s3.access-key": 5}, r"\['s3.access-key'\] .* not text"),
        ({5: HUSH}, r"\['5'\] .* not text"),
        ({"s3.access-key": "a", "expires_at": datetime(2099, 1, 1)}, "no time zone"),  # noqa: DTZ001
        ({"s3.access-key": "a", "expires_at": "2099-01-01"}, "as str"),
        ({"s3.access-key": "a", "expiresAtMillis": True}, "as bool"),
        ({"s3.access-key": "a", "expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, "expired already, at 2020-01-01"),
        ({"s3.access-key": HUSH}, r"lacks secret_access_key \(its options: \['s3.access-key'\]\)"),
        ({}, "lacks access_key_id and secret_access_key"),
    ],
)
def test_wrong_answers_name_the_store(answer: object, message: str) -> None:
    storage, _ = open_storage("s3://lake/w", {}, Credentials.of(lambda: answer, "s3://lake/w"))  # type: ignore[arg-type,return-value]
    with pytest.raises(CredentialsError, match=f"s3://lake/w: .*{message}") as caught:
        storage.read("s3://lake/w/x")
    assert HUSH not in str(caught.value)


def test_equal_credentials_share_what_was_issued_also_in_other_processes(clock: Clock) -> None:
    provider = SessionProvider("http://127.0.0.1:1")
    one, other = Credentials.of(provider, "s3://lake"), Credentials.of(SessionProvider("http://127.0.0.1:1"), "s3://x")
    assert one == other == _sent(one)
    issuer = Issuer(clock)  # compared by identity, so that a copy of it would be another one
    mine = Credentials.of(issuer, "s3://lake")
    copied = _sent(mine)
    assert _key(mine) == _key(copied) == "K1"
    assert len(issuer.calls) == 1
    assert mine != one
    unhashable = Credentials.of(Unhashable(), "s3://lake")
    assert unhashable == _sent(unhashable)


def test_a_provider_that_cannot_be_sent_is_told_when_it_is_sent() -> None:
    lock = threading.Lock()
    storage, _ = open_storage("s3://lake/w", {}, Credentials.of(Locked(lock), "s3://lake/w"))
    with pytest.raises(CredentialsNotSentError, match=r"s3://lake/w cannot be sent .*TypeError") as caught:
        pickle.dumps(storage)
    assert isinstance(caught.value, pickle.PicklingError)
    assert isinstance(caught.value, InvalidInputError)


@dataclass(frozen=True)
class Locked:
    """A provider with something in it that stays in its process."""

    lock: threading.Lock

    def __call__(self) -> Mapping[str, object]:
        return {}


def test_a_provider_is_named_by_its_module() -> None:
    assert named_provider("support.sessions:environment_keys") is environment_keys
    for wrong in ("", "support.sessions", "support.sessions:", "support.sessions:nothing", "no.module:x", ":x"):
        with pytest.raises(InvalidInputError, match=r"package\.module:function"):
            named_provider(wrong)


class Unhashable(dict[str, object]):
    def __call__(self) -> Mapping[str, object]:
        return self


def test_issued_options_win_whatever_their_spelling_and_no_secret_is_kept() -> None:
    given = {"s3.access-key": HUSH, "s3.secret-key": HUSH, "s3.endpoint": "http://old", "s3.region": "eu"}
    issued = {"fs.s3.accessKeyId": "new", "fs.s3.accessKeySecret": "s", "fs.s3.endpoint": "http://new:1"}
    storage = ObjectStorage("s3://lake", given, Credentials.of(lambda: issued, "s3://lake"))
    assert storage.renewing is not None
    assert dict(storage.renewing.settings()) == {"allow_http": "true", "endpoint": "http://new:1", "region": "eu"}
    keys = storage.renewing()
    assert (keys["access_key_id"], keys["secret_access_key"], "token" in keys) == ("new", "s", False)
    assert HUSH.encode() not in pickle.dumps((storage.url, storage.settings, storage.renewing.options))
    assert repr(storage) == "ObjectStorage(url='s3://lake')"


@pytest.mark.parametrize(
    ("url", "issued", "keys"),
    [
        ("gs://b", {"gcs.oauth2.token": "t"}, {"token": "t"}),
        ("abfss://c@a.dfs.core.windows.net", {"adls.sas-token": "t"}, {"sas_token": "t"}),
        ("az://c", {"adls.token": "t"}, {"token": "t"}),
        ("az://c", {"adls.account-key": "t"}, {"access_key": "t"}),
        (
            "oss://b",
            {
                "fs.oss.accessKeyId": "a",
                "fs.oss.accessKeySecret": "b",
                "fs.oss.securityToken": "c",
                "fs.oss.endpoint": "oss-cn-hangzhou.aliyuncs.com",
            },
            {"access_key_id": "a", "secret_access_key": "b", "token": "c"},
        ),
    ],
)
def test_every_store_gets_its_own_keys(url: str, issued: dict[str, str], keys: dict[str, str]) -> None:
    found = StoreCredentials.of(Credentials.of(lambda: issued, url), url, {})()
    assert found.pop("expires_at") > datetime.now(UTC)  # type: ignore[operator]
    assert found == keys


def test_oss_has_its_bucket_in_the_host_name() -> None:
    with pytest.raises(InvalidInputError, match=r"fs\.oss\.endpoint"):
        open_storage("oss://lake/w", {})
    storage, location = open_storage("oss://lake/w/", {"fs.oss.endpoint": "oss-cn-hangzhou.aliyuncs.com"})
    assert location == "oss://lake/w"
    assert isinstance(storage, ObjectStorage)
    settings = dict(storage.settings)
    assert settings["endpoint"] == "https://lake.oss-cn-hangzhou.aliyuncs.com"
    assert (settings["region"], settings["virtual_hosted_style_request"]) == ("cn-hangzhou", "true")


# ---- With an emulator that checks sessions ---------------------------------------------------------------------------


@pytest.fixture
def checked() -> Iterator[tuple[S3Server, Sessions, str]]:
    with running_sessions(1.0) as (server, sessions):
        yield server, sessions, server.make_bucket()


def _storage(server: S3Server, bucket: str, options: dict[str, str] | None = None) -> ObjectStorage:
    credentials = Credentials.of(SessionProvider(server.endpoint), f"s3://{bucket}")
    return ObjectStorage(f"s3://{bucket}", options or session_options(server), credentials)


@pytest.mark.s3
def test_calls_of_all_kinds_go_on_over_several_lives(checked: tuple[S3Server, Sessions, str]) -> None:
    server, sessions, bucket = checked
    storage, root = _storage(server, bucket), f"s3://{bucket}/t"
    upload = storage.open_output(f"{root}/large")
    upload.write(bytes(PART_BYTES + 1))
    end, number = time.time() + 2.6, 0
    while time.time() < end:
        assert storage.create(f"{root}/{number}", b"x" * number)
        assert storage.size(f"{root}/{number}") == number
        assert storage.read(f"{root}/{number}") == b"x" * number
        number += 1
        time.sleep(0.02)
    upload.write(bytes(PART_BYTES))  # the upload began three lives ago
    upload.close()
    assert storage.size(f"{root}/large") == 2 * PART_BYTES + 1
    assert len(list(storage.list(root))) == number + 1
    storage.delete_directory(root)
    assert sessions.refusals == []
    assert sessions.most_calls_per_life() == 1


@pytest.mark.s3
def test_keys_that_others_revoked_are_renewed_once(checked: tuple[S3Server, Sessions, str]) -> None:
    server, sessions, bucket = checked
    sessions.life_seconds = 3600
    storage, root = _storage(server, bucket), f"s3://{bucket}/t"
    for revoked in range(1, 4):
        assert storage.create(f"{root}/{revoked}", b"x")
        sessions.revoke()
        steps: list[Callable[[], object]] = [
            lambda: storage.create(f"{root}/again", b"x"),
            lambda: storage.size(f"{root}/1"),
            lambda: storage.read(f"{root}/1"),
        ]
        assert steps[revoked - 1]()
        assert len(sessions.calls) == revoked + 1
        _forget_early_renewal(storage)


def _forget_early_renewal(storage: ObjectStorage) -> None:
    assert storage.renewing is not None
    credentials_module._holder(storage.renewing.credentials.key).trusted_until = 0.0


@pytest.mark.s3
def test_refused_keys_are_an_error_without_secrets(checked: tuple[S3Server, Sessions, str]) -> None:
    server, sessions, bucket = checked
    sessions.life_seconds, sessions.issues_same = 3600, True
    storage, root = _storage(server, bucket), f"s3://{bucket}/t"
    assert storage.create(f"{root}/a", b"x")
    sessions._known = dict.fromkeys(sessions._known, ("another session", time.time() + 3600))
    calls: list[Callable[[], object]] = [
        lambda: storage.read(f"{root}/a"),
        lambda: storage.create(f"{root}/b", b"x"),
        lambda: list(storage.list(root)),
    ]
    for call in calls:
        with pytest.raises(PermissionError, match=r"403") as caught:
            call()
        shown = "".join(traceback.format_exception(caught.value)) + repr(storage) + str(caught.value)
        assert not [secret for secret in sessions.secrets if secret in shown]
    assert len(sessions.calls) == 2  # one more, at the first refusal


@pytest.mark.s3
def test_a_renewal_that_fails_within_an_upload_is_told(checked: tuple[S3Server, Sessions, str]) -> None:
    server, _, bucket = checked
    provider = FailingLater(SessionProvider(server.endpoint))
    storage = ObjectStorage(f"s3://{bucket}", session_options(server), Credentials.of(provider, f"s3://{bucket}"))
    upload = storage.open_output(f"s3://{bucket}/large")
    upload.write(bytes(PART_BYTES + 1))
    provider.failing = True
    time.sleep(1.0)
    upload.write(bytes(PART_BYTES))
    with pytest.raises(CredentialsError, match=r"RuntimeError") as caught:
        upload.close()
    assert HUSH not in str(caught.value)
    provider.failing = False
    upload.discard()


@dataclass(eq=False)
class FailingLater:
    """A provider that can be made to fail."""

    provider: SessionProvider
    failing: bool = False

    def __call__(self) -> Mapping[str, object]:
        if self.failing:
            raise RuntimeError(HUSH)
        return self.provider()
