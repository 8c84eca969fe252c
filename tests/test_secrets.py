"""Secrets of servers, databases and stores stand in no repr, error, log, commit message or split.

Everything that may be shown is gathered as text or bytes and searched for every secret that went in or was issued.
"""

from __future__ import annotations

import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.catalog import rest_http
from lakewright.spec.types import JSON
from support.data_tokens import TokenServer, running_token_server
from support.rest_server import RestServer
from support.s3 import SECRET_KEY, S3Server
from support.scripted_http import Answer, scripted
from support.sessions import Sessions

BEARER, HEADER, PASSWORD = "bearer-4c1f-hush", "header-77d0-hush", "password-0b6e-hush"
DLF = ("dlf-id-88aa-hush", "dlf-secret-19fc-hush", "dlf-session-5d2e-hush")
COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int64())])


class Traces:
    """What was shown so far."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.caplog = caplog
        self.shown: list[bytes] = []

    def show(self, *values: object) -> None:
        """Note values as a person would see them, and as bytes if they are some."""
        for value in values:
            self.shown.append(value if isinstance(value, bytes) else f"{value} {value!r}".encode())

    def failing(self, call: Callable[[], object]) -> None:
        """Note the error of a call, with all that it carries; a call that succeeds is a mistake of the test."""
        with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is, it is searched
            call()
        error: BaseException | None = caught.value
        self.show("".join(traceback.format_exception(caught.value)))
        while error is not None:
            self.show(error, error.args, getattr(error, "facts", None))
            error = error.__cause__ or error.__context__
        logging.getLogger("program").error("failed", exc_info=caught.value)

    def holding(self, *secrets: str) -> list[str]:
        """Return the secrets that were shown, also by any logger at any level."""
        text = b"\n".join([*self.shown, self.caplog.text.encode(), *map(repr_of, self.caplog.records)])
        return [secret for secret in secrets if secret.encode() in text]


def repr_of(record: logging.LogRecord) -> bytes:
    return repr((record.msg, record.args)).encode()


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat refused requests at once."""
    monkeypatch.setattr(rest_http, "pause_seconds", lambda *_: 0.001)


@pytest.fixture
def traces(caplog: pytest.LogCaptureFixture) -> Iterator[Traces]:
    with caplog.at_level(logging.DEBUG):
        for name in ("boto3", "botocore", "moto", "werkzeug"):  # the tests' own client, and the server
            caplog.set_level(logging.WARNING, name)
        yield Traces(caplog)


def use(catalog: lw.Catalog, traces: Traces) -> lw.FileStoreTable:
    """Create, write and read a table, and show all that can be shown of it."""
    catalog.create_database("d", ignore_if_exists=True)
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS))
    table = catalog.get_table("d.t")
    write = table.new_batch_write_builder().new_write()
    write.write_arrow(pa.table({"id": [1], "n": [2]}, COLUMNS))
    messages = write.prepare_commit()
    table.new_batch_write_builder().new_commit().commit(messages)
    builder = table.new_read_builder()
    splits = builder.new_scan().plan().splits()
    traces.show(catalog, table, table.store, table.store.storage, table.store.home, write, builder)
    traces.show(builder.explain(verbose=True), *messages, *splits, pickle.dumps(messages), pickle.dumps(splits))
    traces.show(*(message.serialize() for message in messages), *(split.serialize() for split in splits))
    assert lw.read_table(table).num_rows == 1
    traces.failing(lambda: catalog.get_table("d.missing"))
    traces.failing(lambda: catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS)))
    return table


@pytest.mark.s3
def test_data_tokens_of_a_server_are_never_shown(traces: Traces) -> None:
    with running_token_server(3600) as (server, store, sessions):
        _check_tokens(server, store, sessions, traces)


def _check_tokens(server: TokenServer, store: S3Server, sessions: Sessions, traces: Traces) -> None:
    server.token = BEARER
    catalog = lw.CatalogFactory.create(server.options)
    table = use(catalog, traces)
    sessions.refusal = lambda environ: "AccessDenied"  # type: ignore[method-assign] # noqa: ARG005 - and echoes what was sent
    traces.failing(lambda: lw.read_table(table))
    server.deny("d.t")
    traces.failing(lambda: catalog.get_table("d.t"))
    server.allow("d.t")
    server.fail(100, "500")
    traces.failing(lambda: catalog.create_database("other"))
    server.calm()
    server.token = "changed"  # noqa: S105
    traces.failing(lambda: catalog.get_table("d.t"))
    assert len(sessions.secrets) >= 3
    assert traces.holding(BEARER, HEADER, SECRET_KEY, *sessions.secrets) == []
    assert traces.caplog.records, "nothing was logged, so that nothing was shown"
    assert store.endpoint


def test_keys_of_signed_requests_are_never_shown(traces: Traces, tmp_path: Path) -> None:
    server = RestServer(str(tmp_path), dlf=DLF)
    try:
        catalog = lw.CatalogFactory.create(server.options)
        use(catalog, traces)
        server.dlf = ("other", "keys", None)
        traces.failing(lambda: catalog.get_table("d.t"))
    finally:
        server.close()
    assert traces.holding(*DLF) == []


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 500, 501])
def test_secrets_that_a_server_echoes_are_never_shown(traces: Traces, status: int) -> None:
    options = {"metastore": "rest", "warehouse": "wh", "token.provider": "bear", "token": BEARER}
    with scripted() as script:
        script.will(Answer(body={"defaults": {"prefix": "p"}, "overrides": {"header.x-api-key": HEADER}}))
        catalog = lw.CatalogFactory.create({**options, "uri": script.uri})
        bodies: list[JSON | bytes] = [
            {"message": f"the token {BEARER} is wrong", "code": status},
            {"Authorization": f"Bearer {BEARER}"},
            f"<html>{BEARER} {HEADER}</html>".encode(),
        ]
        for body in bodies:
            script.answers[:] = [Answer(status, body)] * 20
            traces.failing(lambda: catalog.get_table("d.t"))
            traces.failing(lambda: catalog.drop_database("d"))
    traces.show(catalog)
    assert traces.holding(BEARER, HEADER) == []


def test_the_password_of_a_database_is_never_shown(traces: Traces, tmp_path: Path) -> None:
    options = {"metastore": "jdbc", "warehouse": str(tmp_path), "jdbc.user": "ann", "jdbc.password": PASSWORD}
    catalog = lw.CatalogFactory.create({**options, "uri": f"jdbc:sqlite:{tmp_path}/names.db"})
    use(catalog, traces)
    for address in ("jdbc:postgresql://127.0.0.1:1/lake", f"jdbc:postgresql://127.0.0.1:1/lake?password={PASSWORD}"):
        traces.failing(lambda address=address: lw.CatalogFactory.create({**options, "uri": address}))  # type: ignore[misc]
    assert traces.holding(PASSWORD) == []


@pytest.mark.s3
def test_keys_of_a_store_are_never_shown(traces: Traces, s3_server: S3Server) -> None:
    bucket = s3_server.make_bucket()
    catalog = lw.CatalogFactory.create({**s3_server.options, "warehouse": f"s3://{bucket}/wh"})
    use(catalog, traces)
    assert traces.holding(SECRET_KEY, s3_server.options["s3.access-key"]) == []
