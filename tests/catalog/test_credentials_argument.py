"""The argument `credentials` of catalogs and `open_table`: tables whose keys expire while they are written and read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import lakewright as lw
from support.s3 import S3Server
from support.sessions import SessionProvider, Sessions, running_sessions, session_options

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int64())])

pytestmark = pytest.mark.s3


@pytest.fixture
def checked() -> Iterator[tuple[S3Server, Sessions, str]]:
    with running_sessions(1.0) as (server, sessions):
        yield server, sessions, server.make_bucket()


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "n": [number * 2 for number in ids]}, COLUMNS)


def test_a_table_is_written_read_and_compacted_over_several_lives(checked: tuple[S3Server, Sessions, str]) -> None:
    server, sessions, bucket = checked
    options = {**session_options(server), "warehouse": f"s3://{bucket}/wh"}
    catalog = lw.CatalogFactory.create(options, credentials=SessionProvider(server.endpoint))
    catalog.create_database("d")
    schema = lw.Schema.from_pyarrow_schema(COLUMNS, primary_keys=["id"], options={"bucket": "2"})
    catalog.create_table("d.t", schema)
    table = catalog.get_table("d.t")
    end, written = time.time() + 2.2, 0
    while time.time() < end:
        lw.write_table(rows(written, written + 1), table, mode="upsert")
        written += 1
        assert lw.read_table(table).num_rows == written + 1
    table.compact(full=True)
    opened = lw.open_table(table.table_path, session_options(server), credentials=SessionProvider(server.endpoint))
    assert lw.read_table(opened).num_rows == written + 1
    catalog.drop_table("d.t")
    assert sessions.refusals == []
    assert sessions.most_calls_per_life() == 1
    assert len(sessions.calls) <= 6
    assert not [key for key in sessions.secrets if key in repr((catalog, table, opened, opened.store))]


def test_threads_share_the_credentials_of_their_process(checked: tuple[S3Server, Sessions, str]) -> None:
    server, sessions, bucket = checked
    options = {**session_options(server), "warehouse": f"s3://{bucket}/wh"}
    catalog = lw.CatalogFactory.create(options, credentials=SessionProvider(server.endpoint))
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS))
    table = catalog.get_table("d.t")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: lw.write_table(rows(number), table), range(12)))
    assert lw.read_table(table).num_rows == 12
    assert sessions.refusals == []
    assert sessions.most_calls_per_life() == 1


@pytest.mark.parametrize("wrong", ["module:name", {"s3.access-key": "a"}, 5])
def test_credentials_are_a_function(wrong: object) -> None:
    with pytest.raises(lw.InvalidInputError, match="credentials takes a function"):
        lw.CatalogFactory.create({"warehouse": "s3://lake/wh"}, credentials=wrong)  # type: ignore[arg-type]
    with pytest.raises(lw.InvalidInputError, match="credentials takes a function"):
        lw.open_table("s3://lake/wh/t", credentials=wrong)  # type: ignore[arg-type]


def test_the_store_of_wrong_credentials_is_named() -> None:
    catalog = lw.CatalogFactory.create({"warehouse": "s3://lake/wh"}, credentials=lambda: {"s3.access-key": "hush"})
    with pytest.raises(lw.CredentialsError, match=r"s3://lake/wh: .* lacks secret_access_key") as caught:
        catalog.list_databases()
    assert "hush" not in str(caught.value)
