"""Object stores: doubt about a put, endpoints without conditions, foreign objects, secrets."""

from __future__ import annotations

import logging
import pickle
import re
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lakewright.errors import InvalidInputError, LakewrightError, NotFoundError, UnsupportedError
from lakewright.storage import object_client
from lakewright.storage import object_storage as object_module
from lakewright.storage.credentials import ENDPOINT_VARIABLES, store_settings
from lakewright.storage.object_storage import ObjectStorage
from lakewright.storage.storage_registry import open_storage
from support.effort import examples
from support.s3 import ACCESS_KEY, SECRET_KEY, S3Server, s3_options

# What the scripted server does with one put: take it or not, and what it answers; None drops the connection.
TAKE, DROP_AFTER, DROP_BEFORE = (True, 200), (True, None), (False, None)


class ScriptedServer(ThreadingHTTPServer):
    """A store of one bucket whose puts follow a script; past its end it behaves well."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ScriptedHandler)
        self.objects: dict[str, bytes] = {}
        self.script: list[tuple[bool, int | None]] = []
        self.honours_conditions = True
        self.taken = (412, b"")  # the answer to a put whose condition does not hold
        self.puts = 0
        self.lock = threading.Lock()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class ScriptedHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedServer

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.server.puts += 1
            conditional = self.headers.get("If-None-Match") == "*" and self.server.honours_conditions
            if conditional and self.path in self.server.objects:
                self._answer(*self.server.taken)
                return
            scripted = self.server.script and "create-once" not in self.path
            take, status = self.server.script.pop(0) if scripted else TAKE
            if take:
                self.server.objects[self.path] = body
        self._answer(status)

    def do_GET(self) -> None:
        found = self.server.objects.get(self.path)
        self._answer(404 if found is None else 200, found or b"")

    def do_DELETE(self) -> None:
        self.server.objects.pop(self.path, None)
        self._answer(204)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        keys = re.findall("<Key>(.*?)</Key>", body)
        for key in keys:
            self.server.objects.pop(f"/lake/{key}", None)
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())

    def _answer(self, status: int | None, body: bytes = b"") -> None:
        if status is None:
            self.close_connection = True
            self.connection.close()
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Sun, 15 Nov 2026 11:00:00 GMT")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        pass

    def finish(self) -> None:
        if not self.wfile.closed:
            try:
                super().finish()
            except OSError:
                return


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    server = ScriptedServer()
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # dropped connections are the point
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def scripted(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> ObjectStorage:
    monkeypatch.setattr(object_client, "_PAUSE_SECONDS", 0.0)
    return ObjectStorage("s3://lake", s3_options(server.endpoint))


@pytest.mark.parametrize(
    ("script", "puts"),
    [
        ([], 1),
        ([(False, 409)], 2),
        ([(False, 409), (False, 409), (False, 503)], 4),
        ([(True, 503)], 1),
        ([(True, 500)], 1),
        ([(False, 503)], 2),
        ([DROP_AFTER], 1),
        ([DROP_BEFORE], 2),
        ([DROP_BEFORE, DROP_AFTER], 2),
    ],
)
def test_a_put_in_doubt_is_found_to_have_won(
    scripted: ObjectStorage, server: ScriptedServer, script: list[tuple[bool, int | None]], puts: int
) -> None:
    server.script = script
    assert scripted.create("s3://lake/t/snapshot-1", b"mine") is True
    assert server.objects["/lake/t/snapshot-1"] == b"mine"
    assert server.puts == puts + 2  # two that prove the condition


def test_a_new_file_whose_put_is_repeated_by_a_gateway_is_found_to_be_there(
    scripted: ObjectStorage, server: ScriptedServer
) -> None:
    """The answer that arrives is that of the second request: the object exists."""
    server.script = [(True, 412)]
    output = scripted.open_output("s3://lake/t/data-1")
    output.write(b"mine")
    output.close()
    assert server.objects["/lake/t/data-1"] == b"mine"


@pytest.mark.parametrize("code", ["BlobAlreadyExists", "FileAlreadyExists"])
def test_a_conflict_that_is_final_is_a_loss(scripted: ObjectStorage, server: ScriptedServer, code: str) -> None:
    server.taken = (409, f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>".encode())
    server.objects["/lake/t/snapshot-1"] = b"theirs"
    assert scripted.create("s3://lake/t/snapshot-1", b"mine") is False
    assert server.puts == 1 + 2  # two that prove the condition


@pytest.mark.parametrize("first", [(False, 409), (False, 503), DROP_BEFORE])
def test_a_put_in_doubt_is_found_to_have_lost(
    scripted: ObjectStorage, server: ScriptedServer, first: tuple[bool, int | None]
) -> None:
    server.script = [first]
    original = ScriptedHandler.do_PUT

    def overtaken(handler: ScriptedHandler) -> None:
        original(handler)
        server.objects.setdefault("/lake/t/snapshot-1", b"theirs")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptedHandler, "do_PUT", overtaken)
        assert scripted.create("s3://lake/t/snapshot-1", b"mine") is False
    assert server.objects["/lake/t/snapshot-1"] == b"theirs"


def test_a_put_that_arrives_after_it_was_looked_for_is_found_to_have_won(
    scripted: ObjectStorage, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script = [DROP_BEFORE]
    original = ScriptedHandler.do_PUT

    def delayed(handler: ScriptedHandler) -> None:
        if "create-once" not in handler.path and not server.script:  # the second put: the first has arrived by now
            server.objects[handler.path] = b"mine"
        original(handler)

    monkeypatch.setattr(ScriptedHandler, "do_PUT", delayed)
    assert scripted.create("s3://lake/t/snapshot-1", b"mine") is True


@pytest.mark.parametrize("answer", [(False, 503), (False, 409)])
def test_what_stays_in_doubt_is_an_error(
    scripted: ObjectStorage, server: ScriptedServer, answer: tuple[bool, int]
) -> None:
    server.script = [answer] * 100
    with pytest.raises(OSError, match=r"snapshot-1") as raised:
        scripted.create("s3://lake/t/snapshot-1", b"mine")
    assert not isinstance(raised.value, FileNotFoundError)
    assert server.puts == 2 + object_client.PUT_ATTEMPTS_MAX


def test_a_loss_is_a_loss_even_with_equal_bytes(scripted: ObjectStorage) -> None:
    assert scripted.create("s3://lake/t/schema-0", b"same") is True
    assert scripted.create("s3://lake/t/schema-0", b"same") is False


def test_an_endpoint_that_ignores_the_condition_is_refused(scripted: ObjectStorage, server: ScriptedServer) -> None:
    server.honours_conditions = False
    with pytest.raises(UnsupportedError, match="If-None-Match"):
        scripted.create("s3://lake/t/snapshot-1", b"mine")
    assert "/lake/t/snapshot-1" not in server.objects


@pytest.mark.parametrize("options", [{"AWS_CONDITIONAL_PUT": "disabled"}, {}])
def test_an_endpoint_without_conditional_puts_is_refused(server: ScriptedServer, options: dict[str, str]) -> None:
    server.script = [(False, 501)] * 5
    storage = ObjectStorage("s3://lake", s3_options(server.endpoint) | options)
    with pytest.raises(UnsupportedError, match="s3://lake"):
        storage.create("s3://lake/t/snapshot-1", b"mine")
    assert "/lake/t/snapshot-1" not in server.objects


@pytest.mark.parametrize("status", [400, 403, 404])
def test_a_refused_put_is_not_repeated(scripted: ObjectStorage, server: ScriptedServer, status: int) -> None:
    server.script = [(False, status)]
    kind = {403: PermissionError, 404: FileNotFoundError}.get(status, OSError)
    with pytest.raises(kind):
        scripted.create("s3://lake/t/snapshot-1", b"mine")
    assert server.puts == 3


def test_amazon_needs_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENDPOINT_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert not ObjectStorage("s3://lake")._is_unproven_endpoint()
    assert not ObjectStorage("s3://lake", {"s3.endpoint": "s3.eu-west-1.amazonaws.com"})._is_unproven_endpoint()
    assert not ObjectStorage("gs://lake")._is_unproven_endpoint()
    assert ObjectStorage("s3://lake", {"s3.endpoint": "https://s3.example.org"})._is_unproven_endpoint()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    assert ObjectStorage("s3://lake")._is_unproven_endpoint()


def test_racing_clients_have_one_winner_each(s3_server: S3Server) -> None:
    """Eight clients that share nothing but the server, whose puts are made atomic, race for each of many names."""
    bucket, races, runners = s3_server.make_bucket(), examples(200), 8
    wins: list[int] = []
    barrier = threading.Barrier(runners)

    def run(runner: int) -> None:
        options = s3_server.options | {"AWS_SKIP_SIGNATURE": "false", "s3.session.token": f"runner-{runner}"}
        storage = ObjectStorage(f"s3://{bucket}", options)
        for race in range(races):
            barrier.wait()
            if storage.create(f"s3://{bucket}/race-{race}", b"%d" % runner):
                wins.append(race)

    threads = [threading.Thread(target=run, args=(runner,)) for runner in range(runners)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(wins) == list(range(races))


def test_keys_are_spelled_as_others_spell_them(s3_server: S3Server) -> None:
    name = s3_server.make_bucket()
    storage = ObjectStorage(f"s3a://{name}", s3_server.options)
    storage.create(f"s3://{name}/t/dt=a b%2Fc/日本", b"1")
    assert storage.read(f"s3a://{name}/t/dt=a b%2Fc/日本") == b"1"
    listed = s3_server.client().list_objects_v2(Bucket=name)["Contents"]
    assert [found["Key"] for found in listed] == ["t/dt=a b%2Fc/日本"]


def test_markers_of_others_are_no_files(s3_server: S3Server) -> None:
    name = s3_server.make_bucket()
    client = s3_server.client()
    client.put_object(Bucket=name, Key="t/", Body=b"")
    client.put_object(Bucket=name, Key="t/file", Body=b"1")
    storage = ObjectStorage(f"s3://{name}", s3_server.options)
    assert [info.path for info in storage.list(f"s3://{name}/t")] == [f"s3://{name}/t/file"]
    assert [info.path for info in storage.walk(f"s3://{name}/t")] == [f"s3://{name}/t/file"]
    assert list(storage.list_directories(f"s3://{name}")) == [f"s3://{name}/t"]


def test_a_discarded_upload_leaves_no_parts(s3_server: S3Server) -> None:
    name = s3_server.make_bucket()
    output = ObjectStorage(f"s3://{name}", s3_server.options).open_output(f"s3://{name}/large")
    output.write(bytes(3 * object_module.PART_BYTES))
    client = s3_server.client()
    assert len(client.list_multipart_uploads(Bucket=name)["Uploads"]) == 1
    output.discard()
    assert "Uploads" not in client.list_multipart_uploads(Bucket=name)
    assert "Contents" not in client.list_objects_v2(Bucket=name)


def test_a_small_file_is_read_in_one_request(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    name = s3_server.make_bucket()
    storage = ObjectStorage(f"s3://{name}", s3_server.options)
    storage.create(f"s3://{name}/file", bytes(range(200)) * 300)
    monkeypatch.delattr(object_client.ObjectClient, "get_range")
    monkeypatch.delattr(object_client.ObjectClient, "head")
    with storage.open_input(f"s3://{name}/file") as file:
        assert file.read() == bytes(range(200)) * 300


def test_a_missing_bucket_is_named(s3_server: S3Server) -> None:
    storage = ObjectStorage("s3://no-such-bucket", s3_server.options)
    calls: list[Callable[[], object]] = [
        lambda: storage.read("s3://no-such-bucket/x"),
        lambda: storage.create("s3://no-such-bucket/x", b"x"),
        lambda: storage.replace("s3://no-such-bucket/x", b"x"),
        lambda: list(storage.list("s3://no-such-bucket/t")),
        lambda: list(storage.walk("s3://no-such-bucket/t")),
    ]
    for call in calls:
        with pytest.raises(NotFoundError, match=r"s3://no-such-bucket does not exist \(404 NoSuchBucket\)"):
            call()


@pytest.mark.parametrize(("status", "word"), [(403, "SignatureDoesNotMatch"), (401, "AccessDenied")])
def test_a_refusal_says_what_the_store_said(server: ScriptedServer, status: int, word: str) -> None:
    storage = ObjectStorage("s3://lake", s3_options(server.endpoint))

    def refuse(handler: ScriptedHandler) -> None:
        handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        handler._answer(status, f"<?xml?>\n<Error><Code>{word}</Code><Message>long</Message></Error>".encode())

    with pytest.MonkeyPatch.context() as patch:
        for verb in ("PUT", "GET"):
            patch.setattr(ScriptedHandler, f"do_{verb}", refuse, raising=False)
        calls: list[Callable[[], object]] = [
            lambda: storage.read("s3://lake/x"),
            lambda: storage.create("s3://lake/x", b"x"),
            lambda: list(storage.list("s3://lake/t")),
        ]
        for call in calls:
            with pytest.raises(PermissionError, match=rf"refuses access \({status} {word}\): check the keys"):
                call()


def test_an_endpoint_of_the_environment_may_be_plain_http(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {name: value for name, value in s3_options(server.endpoint).items() if name != "s3.endpoint"}
    for name in ENDPOINT_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    assert ObjectStorage("s3://lake", options).create("s3://lake/t/file", b"1")


@pytest.mark.parametrize("path", ["s3://other/x", "/x", "s3://lakes/x", "memory:///x"])
def test_paths_of_other_stores_are_refused(path: str) -> None:
    with pytest.raises(UnsupportedError, match="outside"):
        ObjectStorage("s3://lake").read(path)


@pytest.mark.parametrize("path", ["s3://lake", "s3://lake/", "s3://lake/a/../b", "s3://lake/./b", "s3://lake/a/"])
def test_paths_that_name_no_object_are_refused(path: str) -> None:
    for call in (ObjectStorage("s3://lake").delete, ObjectStorage("s3://lake").delete_directory):
        with pytest.raises(InvalidInputError):
            call(path)


def test_a_storage_travels_to_other_processes(scripted: ObjectStorage) -> None:
    copy = pickle.loads(pickle.dumps(scripted))  # noqa: S301 - made one line above
    assert copy == scripted
    assert hash(copy) == hash(scripted)
    assert copy.create("s3://lake/t/file", b"1")
    assert scripted.read("s3://lake/t/file") == b"1"


def _calls(storage: ObjectStorage) -> list[Callable[[], object]]:
    path = "s3://lake/t/x"
    return [
        lambda: storage.create(path, b"1"),
        lambda: storage.read(path),
        lambda: storage.open_input(path),
        lambda: storage.replace(path, b""),
        lambda: list(storage.list("s3://lake/t")),
        lambda: list(storage.walk("s3://lake/t")),
        lambda: storage.delete(path),
        lambda: storage.size(path),
    ]


@pytest.mark.parametrize("status", [400, 403, 401])
def test_secrets_are_never_shown(
    server: ScriptedServer, status: int, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    token = "hush-session-token"  # noqa: S105 - a made-up one
    storage = ObjectStorage("s3://lake", s3_options(server.endpoint) | {"s3.session.token": token})

    def echo(handler: ScriptedHandler) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        handler.rfile.read(length)
        handler._answer(status, f"<Error>{SECRET_KEY} {ACCESS_KEY} {token}</Error>".encode())

    shown = [repr(storage), str(storage), f"{storage!r:>5}"]
    with pytest.MonkeyPatch.context() as patch:
        for verb in ("PUT", "GET", "DELETE", "HEAD", "POST"):
            patch.setattr(ScriptedHandler, f"do_{verb}", echo, raising=False)
        for call in _calls(storage):
            try:
                call()
            except (OSError, LakewrightError) as error:
                chain = [error, error.__cause__, error.__context__]
                shown += [repr(one) + str(one) + "".join(traceback.format_exception(one)) for one in chain if one]
    text = "".join([*shown, caplog.text, *capfd.readouterr()])
    assert len(shown) > 8
    assert not [secret for secret in (SECRET_KEY, ACCESS_KEY, token) if secret in text]


def test_options_that_make_no_client_do_not_show_secrets() -> None:
    for url, options in {
        "s3://lake": {"s3.secret-key": "hush-hush", "AWS_CONDITIONAL_PUT": "hush-hush"},
        "gs://lake": {"GOOGLE_SERVICE_ACCOUNT_KEY": "hush-hush"},
        "az://lake": {"adls.account-name": "acme", "adls.account-key": "hush-hush"},
    }.items():
        with pytest.raises((InvalidInputError, OSError)) as raised:
            ObjectStorage(url, options).read(f"{url}/x")
        assert "hush-hush" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize(
    "names",
    [
        ("s3.access-key", "s3.secret-key", "s3.session.token", "s3.region"),
        ("s3.access-key-id", "s3.secret-access-key", "s3.session-token", "client.region"),
        ("fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.session.token", "fs.s3a.endpoint.region"),
        ("fs.s3.accessKeyId", "fs.s3.accessKeySecret", "fs.s3.securityToken", "fs.s3.region"),
        ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION"),
        ("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "aws_default_region"),
    ],
)
def test_everyones_names_for_credentials_are_known(names: tuple[str, ...]) -> None:
    options = dict(zip(names, ("id", "secret", "token", "eu-west-1"), strict=True))
    assert dict(store_settings("s3", "lake", options)) == {
        "access_key_id": "id",
        "secret_access_key": "secret",
        "session_token": "token",
        "region": "eu-west-1",
    }


def test_endpoints_are_spelled_as_urls() -> None:
    def endpoint(**options: str) -> dict[str, str]:
        return dict(store_settings("s3", "lake", {name.replace("_", "."): value for name, value in options.items()}))

    assert endpoint(s3_endpoint="minio:9000") == {"endpoint": "https://minio:9000"}
    assert endpoint(s3_endpoint="http://minio:9000", s3_path_style_access="true") == {
        "endpoint": "http://minio:9000",
        "allow_http": "true",
    }
    assert endpoint(s3_endpoint="https://minio", s3_path_style_access="false") == {
        "endpoint": "https://lake.minio",
        "virtual_hosted_style_request": "true",
    }
    with pytest.raises(InvalidInputError, match="either true or false"):
        endpoint(s3_path_style_access="perhaps")


def test_google_and_azure_are_opened_by_their_own_names() -> None:
    assert dict(store_settings("gs", "lake", {"GOOGLE_APPLICATION_CREDENTIALS": "/key.json"})) == {
        "application_credentials": "/key.json"
    }
    assert dict(store_settings("abfss", "c@a.dfs.core.windows.net", {"AZURE_STORAGE_ACCOUNT_KEY": "k"})) == {
        "account_key": "k"
    }
    storage, location = open_storage("abfss://files@acme.dfs.core.windows.net/lake/t", {"adls.account-key": "a2V5"})
    assert location == "abfss://files@acme.dfs.core.windows.net/lake/t"
    assert isinstance(storage, ObjectStorage)
    assert storage._client.path("x") == "abfss://files@acme.dfs.core.windows.net/x"


@pytest.mark.processes
def test_a_forked_process_is_told_to_spawn() -> None:
    program = """
import os
from lakewright.errors import UnsupportedError
from lakewright.storage.object_storage import ObjectStorage
storage = ObjectStorage("memory://")
storage.create("memory:///a", b"1")
if os.fork() == 0:
    try:
        storage.read("memory:///a")
    except UnsupportedError as error:
        os._exit(7 if "spawn" in str(error) else 8)
    os._exit(9)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "7"
