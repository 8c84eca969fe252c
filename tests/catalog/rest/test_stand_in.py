"""The stand-in for a REST server answers plain requests as Java's servers do, and its faults are those it names."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.rest_protocol import Asking, ServerContract
from support.rest_server import RestServer, running_rest


@pytest.fixture(scope="module", params=["1.4.2", "2.0.0"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    with running_rest(str(tmp_path_factory.mktemp("data")), like=request.param) as started:
        yield started


class TestStandIn(ServerContract):
    pass


def test_connections_are_refused_for_a_time(tmp_path: Path) -> None:
    with running_rest(str(tmp_path)) as server:
        asking = Asking(server)
        server.refuse_after(1, 0.2)
        assert asking.ask("GET", "databases")[0] == 200
        with pytest.raises(ConnectionRefusedError):
            asking.ask("GET", "databases")
        time.sleep(0.4)
        assert asking.ask("GET", "databases")[0] == 200


def test_a_reset_connection(tmp_path: Path) -> None:
    with running_rest(str(tmp_path)) as server:
        asking = Asking(server)
        server.fail(1, "reset", "databases$")
        with pytest.raises(ConnectionResetError):
            asking.ask("GET", "databases")
        assert server.log[-1].note == "refused"
        assert asking.ask("GET", "databases") == (200, {"databases": [asking.database], "nextPageToken": None})


def test_data_tokens_live_for_a_time(tmp_path: Path) -> None:
    with running_rest(str(tmp_path), data_token_seconds=0.3, data_token_options={"fs.s3.endpoint": "x"}) as server:
        asking = Asking(server)
        asking.create()
        one = asking.ask("GET", asking.table("t", "token"))[1]
        assert set(one["token"]) == {
            f"fs.s3.{k}" for k in ("accessKeyId", "accessKeySecret", "securityToken", "endpoint")
        }
        assert asking.ask("GET", asking.table("t", "token"))[1] == one
        time.sleep(0.4)
        other = asking.ask("GET", asking.table("t", "token"))[1]
        assert other["token"]["fs.s3.accessKeySecret"] != one["token"]["fs.s3.accessKeySecret"]
        assert other["expiresAtMillis"] > one["expiresAtMillis"]
        assert asking.ask("GET", asking.table("none", "token"))[0] == 404
        assert server.counts()["GET /v1/paimon/databases/D/tables/T/token 200"] == 3
        assert server.token not in str(server.log)


def test_the_signature_that_is_asked_for_is_the_published_one(tmp_path: Path) -> None:
    with running_rest(str(tmp_path), dlf=("access-key-id", "access-key-secret", "securityToken")) as server:
        handler = SimpleNamespace(command="POST", headers={"x-dlf-date": "20231203T121212Z"})
        body = b'{"name":"database","options":{"a":"b"}}'
        signed = server._signature(handler, "/v1/paimon/databases", {"k1": "v1", "k2": "v2"}, body)  # type: ignore[arg-type]
    assert signed.endswith("Signature=c72caf1d40b55b1905d891ee3e3de48a2f8bebefa7e39e4f277acc93c269c5e3")
