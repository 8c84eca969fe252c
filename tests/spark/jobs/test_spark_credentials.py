"""Credentials that renew themselves, on Spark's workers: jobs that outlive them, one call per process and life."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakewright as lw
from lakewright.spark.frame_read import read_table
from lakewright.spark.spark_session import map_in_arrow
from lakewright.spark.spark_verbs import compact, delete, write_table
from lakewright.table.file_store_table import FileStoreTable
from support.data_tokens import running_token_server
from support.s3 import S3Server
from support.sessions import SessionProvider, Sessions, running_sessions, session_options

LIFE_SECONDS = 2.0
COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int64())])

pytestmark = pytest.mark.s3


@pytest.fixture(scope="module")
def checked() -> Iterator[tuple[S3Server, Sessions, str]]:
    with running_sessions(LIFE_SECONDS) as (server, sessions):
        yield server, sessions, server.make_bucket()


def new_table(server: S3Server, bucket: str, name: str, options: dict[str, str], keys: list[str]) -> FileStoreTable:
    """Make a table with the owner's keys and return it with keys that expire."""
    catalog = lw.CatalogFactory.create({**server.options, "warehouse": f"s3://{bucket}/{name}"})
    catalog.create_database("d", ignore_if_exists=True)
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, primary_keys=keys, options=options))
    path = catalog.get_table("d.t").table_path
    return lw.open_table(path, session_options(server), credentials=SessionProvider(server.endpoint, name))


def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Hand rows on after a while."""
    time.sleep(0.4)
    yield from batches


def test_a_job_outlives_its_credentials(spark: SparkSession, checked: tuple[S3Server, Sessions, str]) -> None:
    server, sessions, bucket = checked
    table = new_table(server, bucket, "append", {"lakewright.native-scan": "always"}, [])
    begin = time.time()
    rows = map_in_arrow(spark.range(0, 2000, 1, 32), slowly, "id long").selectExpr("id", "id * 2 as n")
    write_table(rows, table)
    assert time.time() - begin > 3 * LIFE_SECONDS
    frame = read_table(spark, table)
    assert "FileScan" not in frame._jdf.queryExecution().toString(), "Spark's own scan cannot renew credentials"
    assert frame.selectExpr("count(*)", "sum(n)").first() == (2000, 1999 * 2000)
    delete(spark, table, "id < 1000")
    compact(spark, table)
    assert read_table(spark, table).count() == 1000
    assert sessions.refusals == []
    assert sessions.most_calls_per_life() == 1
    processes = {call.process for call in sessions.calls if call.scope == "append"}
    assert os.getpid() in processes
    assert len(processes) >= 3, "the driver and two workers"


@pytest.mark.nightly
def test_workers_ask_a_server_for_tokens(spark: SparkSession) -> None:
    with running_token_server(LIFE_SECONDS) as (server, _, sessions):
        catalog = lw.CatalogFactory.create(server.options)
        catalog.create_database("d")
        options = {"bucket": "2"}
        catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, primary_keys=["id"], options=options))
        table = catalog.get_table("d.t")
        rows = map_in_arrow(spark.range(0, 2000, 1, 12), slowly, "id long").selectExpr("id", "id * 2 as n")
        for _ in range(2):
            write_table(rows, table, mode="upsert")
        assert read_table(spark, table).selectExpr("count(*)", "sum(n)").first() == (2000, 1999 * 2000)
        assert sessions.refusals == []
        assert sessions.most_calls_per_life() == 1
        assert len({call.process for call in sessions.calls}) >= 2, "the driver and a worker"
        assert sum("/v1/config" in entry.request for entry in server.log) == 1


class Unsendable:
    """A provider with something in it that stays in its process."""

    def __init__(self, provider: SessionProvider) -> None:
        self.provider = provider
        self.lock = threading.Lock()

    def __call__(self) -> Mapping[str, object]:
        return self.provider()


def test_a_provider_that_cannot_be_sent_is_refused_before_the_job(
    spark: SparkSession, checked: tuple[S3Server, Sessions, str]
) -> None:
    server, _, bucket = checked
    path = new_table(server, bucket, "unsent", {}, []).table_path
    provider = Unsendable(SessionProvider(server.endpoint, "unsent"))
    table = lw.open_table(path, session_options(server), credentials=provider)
    with pytest.raises(lw.InvalidInputError, match="cannot be sent to other processes"):
        write_table(spark.range(5).selectExpr("id", "id as n"), table)
