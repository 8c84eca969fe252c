"""Credentials that renew themselves, in processes of Ray: jobs that outlive them, one call per process and life."""

from __future__ import annotations

import json
import os
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
import pytest
import ray

import lakewright as lw
import lakewright.ray as lwr
from support.s3 import S3Server
from support.sessions import ISSUE, SessionProvider, Sessions, running_sessions, session_options

LIFE_SECONDS = 2.0
COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int64())])

pytestmark = [pytest.mark.s3, pytest.mark.usefixtures("ray_session")]


def provider_of(server: S3Server) -> Callable[[], Mapping[str, object]]:
    """Return a function that lies in no module: Ray sends its code along."""
    url = f"{server.endpoint}{ISSUE}?scope=lake&process="

    def keys() -> Mapping[str, object]:
        with urllib.request.urlopen(f"{url}{os.getpid()}", timeout=10) as answer:  # noqa: S310 - loopback
            issued = json.load(answer)
        return {**issued, "expiresAtMillis": int(issued["expiresAtMillis"])}

    return keys


@pytest.fixture
def checked() -> Iterator[tuple[S3Server, Sessions, lw.FileStoreTable]]:
    with running_sessions(LIFE_SECONDS) as (server, sessions):
        options = {**session_options(server), "warehouse": f"s3://{server.make_bucket()}/wh"}
        catalog = lw.CatalogFactory.create(options, credentials=provider_of(server))
        catalog.create_database("d")
        catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS))
        yield server, sessions, catalog.get_table("d.t")


def test_a_job_outlives_its_credentials(checked: tuple[S3Server, Sessions, lw.FileStoreTable]) -> None:
    _, sessions, table = checked

    def slowly(rows: pa.Table) -> pa.Table:
        time.sleep(0.4)
        return pa.table({"id": rows["id"], "n": rows["id"]})

    begin = time.time()
    while time.time() - begin < 2.2 * LIFE_SECONDS:
        dataset = ray.data.range(400, override_num_blocks=4).map_batches(slowly, batch_format="pyarrow")
        lwr.write_table(dataset, table)
    rounds = lw.read_table(table).num_rows // 400
    assert rounds >= 1
    assert lwr.read_table(table).sum("n") == rounds * sum(range(400))
    lwr.compact(table)
    assert sessions.refusals == []
    assert sessions.most_calls_per_life() == 1
    assert len({call.process for call in sessions.calls}) >= 2, "the driver and a worker"


class Unsendable:
    """A provider with something in it that stays in its process."""

    def __init__(self, provider: SessionProvider) -> None:
        self.provider = provider
        self.lock = threading.Lock()

    def __call__(self) -> Mapping[str, object]:
        return self.provider()


def test_a_provider_that_cannot_be_sent_is_refused(checked: tuple[S3Server, Sessions, lw.FileStoreTable]) -> None:
    server, _, table = checked
    provider = Unsendable(SessionProvider(server.endpoint))
    opened = lw.open_table(table.table_path, session_options(server), credentials=provider)
    with pytest.raises(lw.InvalidInputError, match="cannot be sent to other processes"):
        lwr.write_table(ray.data.range(5).add_column("n", lambda rows: rows["id"]), opened)
