"""Transport: what is repeated and what is not, how far a failed request came, pauses, pools and headers."""

from __future__ import annotations

import os
import pickle
import socket
import ssl
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from urllib3 import exceptions

from lakewright.catalog import rest_http
from lakewright.catalog.rest_auth import BearerAuth
from lakewright.catalog.rest_http import (
    CallFailed,
    NeverSent,
    NoAnswer,
    Patience,
    Refused,
    Request,
    Server,
    pause_seconds,
    retry_after_seconds,
    server_at,
)
from lakewright.errors import InvalidInputError
from support.scripted_http import Answer, Script

READ = Request("GET", "/v1/x", reads_only=True)
CHANGE = Request("POST", "/v1/x", body=b'{"a": 1}')
QUICK = Patience(connect_seconds=2, read_seconds=0.3, pause_first=0.001)


def _server(script: Script, patience: Patience = QUICK) -> Server:
    return server_at(script.uri, {"X-Team": "lake"}, BearerAuth("a-very-secret-token"), patience)


def _refused(code: int, headers: dict[str, str] | None = None) -> Answer:
    return Answer(code, {"message": "no", "resourceType": None, "resourceName": None, "code": code}, headers or {})


@pytest.mark.parametrize("answer", [_refused(code) for code in (429, 502, 503, 504)] + [Answer(fault="cut")])
def test_a_read_is_repeated_after_a_failure_that_passes(script: Script, answer: Answer) -> None:
    script.will(answer, answer, Answer(body={"ok": 1}))
    assert _server(script).send(READ) == {"ok": 1}
    assert script.names == ["GET /v1/x"] * 3


def test_a_read_is_repeated_five_times_at_most(script: Script) -> None:
    script.will(*[_refused(503)] * 9)
    with pytest.raises(Refused) as failure:
        _server(script).send(READ)
    assert (len(script.requests), failure.value.body.code) == (6, 503)


@pytest.mark.parametrize("code", [400, 401, 403, 404, 409, 500, 501])
def test_other_errors_are_not_repeated(script: Script, code: int) -> None:
    script.will(_refused(code))
    with pytest.raises(Refused):
        _server(script).send(READ)
    assert len(script.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [_refused(code) for code in (429, 500, 502, 503, 504)]
    + [Answer(fault=fault, body={"success": True}) for fault in ("cut", "half", "hang")]
    + [Answer(body=b"<html>"), Answer(body=[1])],
    ids=lambda answer: f"{answer.status}{answer.fault}",
)
def test_a_change_is_sent_once_and_may_have_been_carried_out(script: Script, answer: Answer) -> None:
    script.will(answer, Answer())
    with pytest.raises(CallFailed) as failure:
        _server(script).send(CHANGE)
    assert failure.value.perhaps_done
    assert len(script.requests) == 1


@pytest.mark.parametrize("code", [400, 401, 403, 404, 409, 501])
def test_a_change_that_is_refused_for_good_was_not_carried_out(script: Script, code: int) -> None:
    script.will(_refused(code))
    with pytest.raises(Refused) as failure:
        _server(script).send(CHANGE)
    assert not failure.value.perhaps_done


@pytest.mark.parametrize("request_", [READ, CHANGE], ids=["read", "change"])
def test_a_request_that_cannot_be_sent_is_repeated_twice(request_: Request, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    pauses: list[float] = []
    monkeypatch.setattr(rest_http, "time", SimpleNamespace(sleep=pauses.append, time=time.time))
    with pytest.raises(NeverSent, match=f"127.0.0.1:{port} cannot be reached") as failure:
        server_at(f"http://127.0.0.1:{port}", {}, None).send(request_)
    assert not failure.value.perhaps_done
    assert [round(pause) for pause in pauses] == [1, 2]


def test_a_host_that_does_not_exist_is_named() -> None:
    patience = replace(QUICK, unsent_repeats_max=0)
    with pytest.raises(NeverSent, match=r"the host nowhere\.invalid:80 is not known"):
        server_at("nowhere.invalid", {}, None, patience).send(READ)


def test_a_server_without_tls_is_told_and_gets_no_request(script: Script) -> None:
    patience = replace(QUICK, unsent_repeats_max=0)
    with pytest.raises(NeverSent, match=r"does not speak TLS .*'uri'"):
        server_at(script.uri.replace("http:", "https:"), {}, None, patience).send(CHANGE)
    assert script.requests == []


def test_a_certificate_that_is_not_trusted_stops_a_request() -> None:
    cause = ssl.SSLCertVerificationError("self-signed")
    cause.verify_message = "self-signed certificate"
    failure = rest_http._classify_unanswered(exceptions.SSLError(cause), "h:443")
    assert isinstance(failure, NeverSent)
    assert "self-signed certificate" in failure.reason
    assert rest_http._classify_unanswered(exceptions.SSLError(ssl.SSLError(1, "broken")), "h:443").perhaps_done


def test_a_read_that_times_out_is_not_repeated(script: Script) -> None:
    script.will(Answer(fault="hang"))
    begin = time.monotonic()
    with pytest.raises(NoAnswer, match="did not answer in time"):
        _server(script).send(READ)
    assert time.monotonic() - begin < 2
    assert len(script.requests) == 1


def test_the_server_says_how_long_to_wait(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(rest_http, "time", SimpleNamespace(sleep=pauses.append, time=time.time))
    script.will(_refused(503, {"Retry-After": "7"}), _refused(429), Answer())
    _server(script, Patience()).send(READ)
    assert pauses[0] == 7
    assert 2 <= pauses[1] <= 2.2


def test_pauses_double_up_to_a_minute() -> None:
    for attempt, expected in enumerate((1, 2, 4, 8, 16, 32, 64, 64)):
        assert expected <= pause_seconds(Patience(), attempt, None) <= expected * 1.1
    assert pause_seconds(Patience(), 0, 86_400.0) == 300
    assert 1 <= pause_seconds(Patience(), 0, 0.0) <= 1.1


def test_a_date_says_how_long_to_wait() -> None:
    assert retry_after_seconds("Wed, 21 Oct 2015 07:28:00 GMT", 1445412470) == 10
    assert retry_after_seconds("soon", 0) is None
    assert retry_after_seconds(None, 0) is None


def test_every_attempt_is_signed_anew(script: Script) -> None:
    class Counting:
        signed = 0

        def headers(self, request: Request) -> dict[str, str]:
            del request
            self.signed += 1
            return {"Authorization": f"n {self.signed}"}

        def secrets(self) -> tuple[str, ...]:
            return ()

    script.will(_refused(503), Answer(fault="cut"), Answer())
    server_at(script.uri, {}, Counting(), QUICK).send(READ)
    assert [got.headers["Authorization"] for got in script.requests] == ["n 1", "n 2", "n 3"]


def test_headers_say_who_calls_and_what_is_sent(script: Script) -> None:
    _server(script).send(CHANGE)
    _server(script).send(READ)
    change, read = (got.headers for got in script.requests)
    assert change["Content-Type"] == change["Accept"] == "application/json"
    assert "Content-Type" not in read
    assert (read["X-Team"], read["Authorization"]) == ("lake", "Bearer a-very-secret-token")
    assert read["User-Agent"].startswith("lakewright/")


def test_paths_are_sent_as_they_are(script: Script) -> None:
    _server(script).send(Request("GET", "/v1/a+b%2F..%2F*/../x", "q=%25"))
    assert script.names == ["GET /v1/a+b%2F..%2F*/../x?q=%25"]


def test_a_path_in_the_address_stands_before_every_path(script: Script) -> None:
    server_at(f"{script.uri}/catalogs/", {}, None).send(READ)
    assert script.names == ["GET /catalogs/v1/x"]


def test_a_redirect_is_an_error(script: Script) -> None:
    script.will(Answer(307, headers={"Location": f"{script.uri}/elsewhere"}))
    with pytest.raises(Refused, match="307"):
        _server(script).send(READ)
    assert len(script.requests) == 1


@pytest.mark.parametrize("body", [b"secret html", b"[1]", b"", b'{"message": 7, "code": "x"}'])
def test_a_body_that_is_no_error_of_the_protocol_is_not_shown(script: Script, body: bytes) -> None:
    script.will(Answer(500, body))
    with pytest.raises(Refused) as failure:
        _server(script).send(READ)
    assert str(failure.value) == "the server answered 500"


def test_the_code_of_the_body_goes_before_the_status(script: Script) -> None:
    script.will(Answer(404, {"code": 501, "message": "not here"}, {"X-Request-Id": "r-1"}))
    with pytest.raises(Refused, match=r"answered 501: not here \(request id r-1\)") as failure:
        _server(script).send(READ)
    assert failure.value.body.code == 501


def test_a_secret_that_the_server_repeats_is_not_shown(script: Script) -> None:
    script.will(Answer(401, {"code": 401, "message": "the token a-very-secret-token is unknown"}))
    with pytest.raises(Refused, match=r"the token \*\*\* is unknown"):
        _server(script).send(READ)


def test_a_server_is_pickled_without_its_connections_and_shows_no_secret(script: Script) -> None:
    server = _server(script)
    server.send(READ)
    again = pickle.loads(pickle.dumps(server))  # noqa: S301 - our own bytes
    assert again == server
    assert hash(again) == hash(server)
    again.send(READ)
    assert "secret" not in repr(server)
    assert "lake" not in repr(server)


def test_a_forked_process_makes_connections_of_its_own(script: Script) -> None:
    server = _server(script)
    server.send(READ)
    mine = rest_http._pool("http", "127.0.0.1", script.port)
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        os._exit(0 if rest_http._pool("http", "127.0.0.1", script.port) is not mine else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert rest_http._pool("http", "127.0.0.1", script.port) is mine


@pytest.mark.parametrize(
    "uri", ["", "ftp://h", "http://", "http://user:pw@h", "http://h/?a=b", "http://h:x", "http://h h", "http://h\n"]
)
def test_an_address_that_is_none_is_refused_without_its_secrets(uri: str) -> None:
    with pytest.raises(InvalidInputError, match="'uri'") as error:
        server_at(uri, {}, None)
    assert "pw" not in str(error.value)


@pytest.mark.parametrize(("name", "value"), [("X", "a\nb"), ("X Y", "a"), ("X", "ü"), ("", "a")])
def test_what_cannot_be_a_header_is_refused_without_its_value(name: str, value: str) -> None:
    with pytest.raises(InvalidInputError, match=r"'header\.") as error:
        server_at("http://h", {name: value}, None)
    assert "\n" not in str(error.value)
