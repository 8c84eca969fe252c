"""Data tokens: keys of a table's storage that a server issues, here and in other processes, and what goes wrong."""

from __future__ import annotations

import pickle
import time
import traceback
from collections.abc import Iterator, Mapping

import pytest

from lakewright.catalog.rest_api import RestApi
from lakewright.catalog.rest_catalog import issues_tokens, table_storage
from lakewright.catalog.rest_http import Patience
from lakewright.errors import CredentialsError, InvalidInputError
from lakewright.spec.identifier import Identifier
from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.object_storage import ObjectStorage
from support.data_tokens import TokenServer, running_token_server
from support.s3 import S3Server
from support.scripted_http import QUICK, Answer, Script
from support.sessions import Sessions
from support.warm_processes import LOADED

TABLE = Identifier.create("d", "t")
TOKEN = {"fs.s3.accessKeyId": "id-hush", "fs.s3.accessKeySecret": "secret-hush", "fs.s3.securityToken": "session-hush"}

Running = tuple[TokenServer, S3Server, Sessions]


@pytest.fixture
def running() -> Iterator[Running]:
    with running_token_server(1.0) as servers:
        server = servers[0]
        server.tables.call("POST", ["databases"], {}, {"name": "d", "options": {}})
        fields = [{"id": 0, "name": "a", "type": "INT"}]
        schema = {"fields": fields, "partitionKeys": [], "primaryKeys": [], "options": {}}
        body = {"identifier": {"database": "d", "object": "t"}, "schema": schema}
        server.tables.call("POST", ["databases", "d", "tables"], {}, body)
        yield servers


def _storage(server: TokenServer) -> tuple[ObjectStorage, str]:
    api = RestApi.connect(server.options, Patience(pause_first=0.01))
    table = api.get_table(TABLE)
    storage, location = table_storage(api, TABLE, table.path, is_external=table.is_external)
    assert isinstance(storage, ObjectStorage)
    return storage, location


@pytest.mark.s3
def test_a_token_is_asked_for_once_per_life_and_table(running: Running) -> None:
    server, _, sessions = running
    (storage, root), (again, _) = _storage(server), _storage(server)
    assert server.token_calls() == 0, "nothing was read yet"
    end = time.time() + 2.5
    while time.time() < end:
        assert storage.read(f"{root}/schema/schema-0") == again.read(f"{root}/schema/schema-0")
        time.sleep(0.02)
    assert sessions.most_calls_per_life() == 1
    assert server.token_calls() == len(sessions.calls) <= 3
    assert sessions.refusals == []


@pytest.mark.s3
def test_another_process_renews_without_asking_for_the_configuration(running: Running) -> None:
    server, _, sessions = running
    storage, root = _storage(server)
    sent = pickle.dumps((storage, f"{root}/schema/schema-0"))
    assert not [key for key in sessions.secrets if key.encode() in sent]
    program = (
        "import pickle, sys, time\n"
        "storage, path = pickle.loads(sys.stdin.buffer.read())\n"
        "end = time.time() + 1.5\n"
        "while time.time() < end:\n"
        "    storage.read(path); time.sleep(0.05)\n"
        "print('done')\n"
    )
    child = LOADED.run(program, stdin=sent)
    assert child.out == "done\n", child.err
    assert 2 <= server.token_calls() <= 3
    assert sum("/v1/config" in entry.request for entry in server.log) == 1


@pytest.mark.s3
def test_a_token_that_others_revoked_is_renewed(running: Running) -> None:
    server, _, sessions = running
    sessions.life_seconds = 3600
    storage, root = _storage(server)
    storage.read(f"{root}/schema/schema-0")
    sessions.revoke()
    assert storage.exists(f"{root}/schema/schema-0")
    assert server.token_calls() == 2


def test_external_tables_and_disks_need_no_token(api: RestApi, script: Script) -> None:
    options = {**api.options, "data-token.enabled": "true", "s3.access-key": "plain"}
    enabled = RestApi(api.server, api.prefix, api.warehouse, options)
    external, _ = table_storage(enabled, TABLE, "s3://b/t", is_external=True)
    assert isinstance(external, ObjectStorage)
    assert external.renewing is None
    assert ("access_key_id", "plain") in external.settings
    disk, location = table_storage(enabled, TABLE, "file:/x/a b%20", is_external=False)
    assert (location, isinstance(disk, LocalStorage)) == ("/x/a b%20", True)
    disabled, _ = table_storage(api, TABLE, "s3://b/t", is_external=False)
    assert isinstance(disabled, ObjectStorage)
    assert disabled.renewing is None
    assert script.requests == []


def _managed(
    api: RestApi, path: str = "s3://b/t", table: Identifier = TABLE, options: Mapping[str, str] | None = None
) -> ObjectStorage:
    enabled = {**api.options, "data-token.enabled": "true", **(options or {})}
    calls = RestApi(api.server, api.prefix, api.warehouse, enabled)
    storage, _ = table_storage(calls, table, path, is_external=False)
    assert isinstance(storage, ObjectStorage)
    return storage


def _good(**more: str) -> Answer:
    return Answer(body={"token": {**TOKEN, **more}, "expiresAtMillis": int((time.time() + 3600) * 1000)})


def test_the_endpoint_of_a_token_can_be_replaced(api: RestApi, script: Script) -> None:
    keys = {"fs.oss.accessKeyId": "a", "fs.oss.accessKeySecret": "b", "fs.oss.endpoint": "oss-cn-beijing.aliyuncs.com"}
    script.will(_good(**keys))
    inside = {"dlf.oss-endpoint": "oss-cn-beijing-internal.aliyuncs.com"}
    renewing = _managed(api, "oss://b/t", options=inside).renewing
    assert renewing is not None
    assert dict(renewing.settings())["endpoint"] == "https://b.oss-cn-beijing-internal.aliyuncs.com"


def test_a_branch_has_its_own_name_and_a_system_table_has_not(api: RestApi, script: Script) -> None:
    script.will(_good())
    renewing = _managed(api, table=Identifier("d", "t", "b1", "files")).renewing
    assert renewing is not None
    assert renewing()["access_key_id"] == "id-hush"
    assert script.names == ["GET /v1/p/databases/d/tables/t%24branch_b1/token"]


@pytest.mark.parametrize(
    "answer",
    [
        Answer(401),
        Answer(403, body={"message": "no", "resourceType": "TABLE", "resourceName": "t", "code": 403}),
        Answer(404, body={"message": "no", "resourceType": "TABLE", "resourceName": "t", "code": 404}),
        Answer(500, body={"token": TOKEN, "message": "a-very-secret-token"}),
        Answer(200, body={"token": None}),
        Answer(200, body={"token": TOKEN, "expiresAtMillis": "soon"}),
        Answer(200, body={"token": TOKEN, "expiresAtMillis": 1}),
    ],
)
def test_failures_name_the_table_and_no_secret(api: RestApi, script: Script, answer: Answer) -> None:
    for _ in range(2 * QUICK.repeats_max + 4):
        script.will(answer)
    storage = _managed(api)
    with pytest.raises(CredentialsError, match=r"table d\.t") as caught:
        storage.read("s3://b/t/x")
    shown = "".join(traceback.format_exception(caught.value)) + repr(storage) + repr(storage.renewing)
    assert "hush" not in shown
    assert "a-very-secret-token" not in shown


def test_a_switch_is_true_or_false() -> None:
    with pytest.raises(InvalidInputError, match=r"data-token\.enabled"):
        issues_tokens({"data-token.enabled": "yes"})
