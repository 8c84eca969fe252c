"""Who calls: bearer tokens, signatures of Data Lake Formation, and where its keys come from."""

from __future__ import annotations

import json
import pickle
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from lakewright.catalog import rest_auth
from lakewright.catalog.rest_auth import (
    BearerAuth,
    DlfAuth,
    DlfKeys,
    GivenKeys,
    KeysInFile,
    KeysOfMachine,
    auth_of,
    current_keys,
    keys_from_json,
    renewal_time,
    signed_headers,
)
from lakewright.catalog.rest_http import Request
from lakewright.errors import InvalidInputError, NotAuthorizedError, UnsupportedError
from support.scripted_http import Answer, Script

NOON = datetime(2023, 12, 3, 12, 12, 12, tzinfo=UTC)
KEYS = DlfKeys("access-key-id", "access-key-secret", "securityToken")
DLF = {"uri": "http://host", "token.provider": "dlf", "dlf.region": "cn-hangzhou"}
STATIC = {"dlf.access-key-id": "an-id", "dlf.access-key-secret": "a-secret-text"}
FILE = {"AccessKeyId": "id-1", "AccessKeySecret": "secret-1", "SecurityToken": "session-1"}


def test_the_signature_of_the_known_request() -> None:
    request = Request("POST", "/v1/paimon/databases", "k1=v1&k2=v2", b'{"name":"database","options":{"a":"b"}}')
    headers = signed_headers(request, KEYS, "cn-hangzhou", NOON)
    assert headers["Authorization"] == (
        "DLF4-HMAC-SHA256 Credential=access-key-id/20231203/cn-hangzhou/DlfNext/aliyun_v4_request,"
        "Signature=c72caf1d40b55b1905d891ee3e3de48a2f8bebefa7e39e4f277acc93c269c5e3"
    )
    assert headers["x-dlf-security-token"] == "securityToken"
    assert headers["x-dlf-date"] == "20231203T121212Z"


def test_a_request_without_body_and_session_signs_fewer_headers() -> None:
    headers = signed_headers(Request("GET", "/v1/config"), DlfKeys("i", "s"), "cn-hangzhou", NOON)
    assert set(headers) == {"x-dlf-date", "x-dlf-content-sha256", "x-dlf-version", "Authorization"}


def test_a_bearer_token_is_sent_and_not_shown() -> None:
    auth = auth_of({"token.provider": "bear", "token": " secret-token\n"})
    assert auth.headers(Request("GET", "/")) == {"Authorization": "Bearer secret-token"}
    assert "secret" not in repr(auth)
    assert auth == BearerAuth("secret-token")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "token.provider"),
        ({"token.provider": "basic"}, "'bear' .* or 'dlf'"),
        ({"token.provider": "bear"}, "'token' is missing"),
        ({"token.provider": "bear", "token": "a\nb"}, "'token'"),
        ({**DLF}, "dlf.access-key-id"),
        ({**DLF, "dlf.access-key-id": "x"}, "dlf.access-key-secret"),
        ({**DLF, **STATIC, "dlf.region": ""}, "dlf.region"),
        ({**DLF, "dlf.token-loader": "magic"}, "'local_file' or 'ecs'"),
        ({**DLF, "dlf.token-loader": "local_file"}, "dlf.token-path"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidInputError, match=named):
        auth_of(options)


@pytest.mark.parametrize(
    "more",
    [{"dlf.signing-algorithm": "openapi"}, {"dlf.signing-algorithm": "openapi-v4"}, {"uri": "https://dlfnext.x.com"}],
)
def test_other_ways_to_sign_are_refused_by_name(more: dict[str, str]) -> None:
    with pytest.raises(UnsupportedError, match=r"dlf\.signing-algorithm.*openapi"):
        auth_of({**DLF, **STATIC, **more})


@pytest.mark.parametrize(
    ("uri", "region"),
    [
        ("http://cn-hangzhou-vpc.dlf.aliyuncs.com", "cn-hangzhou"),
        ("https://ap-southeast-1.dlf.aliyuncs.com", "ap-southeast-1"),
        ("http://pre-cn-beijing.dlf.com", "cn-beijing"),
    ],
)
def test_the_region_may_stand_in_the_address(uri: str, region: str) -> None:
    auth = auth_of({**DLF, **STATIC, "dlf.region": "", "uri": uri})
    assert isinstance(auth, DlfAuth)
    assert auth.region == region


@pytest.mark.parametrize(
    ("more", "source"),
    [
        ({}, GivenKeys(DlfKeys("an-id", "a-secret-text"))),
        ({"security-token": "s"}, GivenKeys(DlfKeys("an-id", "a-secret-text", "s"))),
        ({"token-path": "/x"}, KeysInFile("/x")),
        ({"token-path": "/x", "token-loader": "ecs"}, KeysOfMachine()),
        (
            {"token-loader": "ecs", "token-ecs-role-name": "r", "token-ecs-metadata-url": "http://m/"},
            KeysOfMachine("http://m/", "r"),
        ),
    ],
)
def test_the_first_source_of_keys_that_is_named_wins(more: dict[str, str], source: object) -> None:
    auth = auth_of({**DLF, **STATIC, **{f"dlf.{key}": value for key, value in more.items()}})
    assert isinstance(auth, DlfAuth)
    assert auth.source == source


def test_keys_are_pickled_and_not_shown() -> None:
    auth = auth_of({**DLF, **STATIC, "dlf.security-token": "session-text"})
    assert pickle.loads(pickle.dumps(auth)) == auth  # noqa: S301 - our own bytes
    assert "secret" not in repr(auth)
    assert "session-text" not in repr(auth)
    assert auth.secrets() == ("a-secret-text", "session-text")


def test_a_file_is_read_again_when_it_is_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "token"
    path.write_text('{"AccessKeyId": "id')
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            path.write_text(json.dumps(FILE))

    monkeypatch.setattr(
        rest_auth, "time", SimpleNamespace(sleep=sleep, time=time.time)
    )  # other threads sleep as they do
    assert KeysInFile(str(path)).load() == DlfKeys("id-1", "secret-1", "session-1")
    assert pauses == [1, 2]
    path.unlink()
    with pytest.raises(NotAuthorizedError, match=r"dlf\.token-path"):
        KeysInFile(str(path)).load()
    assert pauses[2:] == [1, 2, 3, 4]


def test_the_metadata_address_gives_the_role_and_its_keys(script: Script) -> None:
    script.will(Answer(body=b"my-role\n"), Answer(body=FILE), Answer(body=FILE))
    keys = DlfKeys("id-1", "secret-1", "session-1")
    assert KeysOfMachine(f"{script.uri}/creds/").load() == keys
    assert KeysOfMachine(f"{script.uri}/creds/", "other").load() == keys
    assert script.names == ["GET /creds/", "GET /creds/my-role", "GET /creds/other"]


def test_a_metadata_address_without_keys_is_an_error(script: Script) -> None:
    script.will(Answer(404))
    with pytest.raises(NotAuthorizedError, match="'ecs'"):
        KeysOfMachine(f"{script.uri}/creds/", "r").load()


def test_keys_are_loaded_again_shortly_before_they_expire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_auth, "_LOADED", {})
    monkeypatch.setattr(rest_auth, "time", SimpleNamespace(sleep=lambda _: None, time=time.time))
    path = tmp_path / "token"

    def write(number: int, minutes: int) -> None:
        end = f"1970-01-01T{minutes // 60:02}:{minutes % 60:02}:00Z"
        path.write_text(json.dumps({"AccessKeyId": f"id-{number}", "AccessKeySecret": "s", "Expiration": end}))

    source = KeysInFile(str(path))
    write(1, 10)
    assert current_keys(source, 0).key_id == "id-1"
    write(2, 20)
    assert current_keys(source, 479).key_id == "id-1"  # of ten minutes, a fifth is left at 480 seconds
    assert current_keys(source, 480).key_id == "id-2"
    path.unlink()
    assert current_keys(source, 1190).key_id == "id-2"  # no new ones, and the old ones are still good
    with pytest.raises(NotAuthorizedError):
        current_keys(source, 1200)


def test_long_lives_end_an_hour_early_and_unending_ones_never() -> None:
    assert renewal_time(0, 86_400) == 82_800
    assert renewal_time(0, None) == float("inf")
    assert renewal_time(100, 50) == 50


def test_an_expiry_without_zone_is_in_utc() -> None:
    data = {**FILE, "Expiration": "1970-01-01T00:01:00"}
    assert keys_from_json(json.dumps(data).encode()).expires == 60


@pytest.mark.parametrize("data", ["[]", "{}", '{"AccessKeyId": "i\\n", "AccessKeySecret": "s"}', "x"])
def test_what_holds_no_keys_is_refused_without_its_content(data: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - of any wording
        keys_from_json(data.encode())
    assert "i\n" not in str(error.value)
