"""Sessions of managed services, which refuse most settings and to persist frames."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakewright as lw
import lakewright.spark as lws
from lakewright.errors import InvalidInputError
from lakewright.spark.spark_features import Feature
from lakewright.spark.spark_session import settings
from spark.test_connect import MODULES, TESTS, connect_server, free_port
from support import connect_client
from support.managed_sessions import REMOTE, refuse_in_process, refusing_proxy
from support.needs import needs
from support.spark_writes import new_table, rows_of

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int64())])
SECONDS_MAX = 1500


@pytest.fixture
def managed(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    refuse_in_process(spark, monkeypatch)
    return spark


def test_verbs_and_statements_do_without_settings_and_persisting(managed: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, keys=["id"], options={"bucket": "2"}, columns=COLUMNS)
    lws.write_table(managed.range(6).selectExpr("id", "id * 10 AS n"), table)
    source = managed.sql("SELECT * FROM VALUES (1L, 11L), (7L, 70L) AS s(id, n)")
    lws.merge(source, table, on="id").when_matched_update().when_not_matched_insert().execute()
    lws.delete(managed, table, "id < 1")
    context = lws.SQLContext(managed, str(tmp_path / "warehouse"), "d")
    context.sql("UPDATE t SET n = 0 WHERE id = 5")
    context.sql("SET spark.paimon.d.t.scan.snapshot-id=1")
    assert [list(row) for row in context.sql("SELECT count(*) FROM t").collect()] == [[6]]
    context.sql("RESET spark.paimon.d.t.scan.snapshot-id")
    assert lws.read_table(managed, table).count() == 6
    assert rows_of(table) == [(1, 11), (2, 20), (3, 30), (4, 40), (5, 0), (7, 70)]


def test_names_of_directories_stay_text_when_files_are_loaded(managed: SparkSession, tmp_path: Path) -> None:
    for kind, text in {"csv": "id\n1\n", "json": '{"id": 1}\n'}.items():
        (tmp_path / kind / "day=007").mkdir(parents=True)
        (tmp_path / kind / "day=007" / f"a.{kind}").write_text(text)
    managed.range(1, 2).write.parquet(str(tmp_path / "parquet" / "day=007"))
    catalog = {"warehouse": str(tmp_path / "warehouse")}
    lw.CatalogFactory.create(catalog).create_database("d", ignore_if_exists=True)
    for kind in ("csv", "json", "parquet"):
        lws.ingest(managed, str(tmp_path / kind), f"d.{kind}", catalog=catalog, create=True, format=kind)
        (row,) = lws.read_table(managed, str(tmp_path / "warehouse" / "d.db" / kind)).collect()
        assert (int(row.id), row.day) == (1, "007"), kind


def test_a_setting_that_was_asked_for_is_refused_and_one_for_speed_is_skipped_once(
    managed: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    values = {"spark.sql.files.maxPartitionNum": "7", "spark.sql.session.timeZone": "UTC"}
    with caplog.at_level(logging.DEBUG, "lakewright.spark"):
        for _ in range(2):
            with settings(managed, values, optional=True):
                assert managed.conf.get("spark.sql.session.timeZone") == "UTC"
    assert [record.args for record in caplog.records] == [("spark.sql.files.maxPartitionNum",)]
    with pytest.raises(InvalidInputError, match="maxPartitionNum"), settings(managed, values):
        pass


# ---- a Connect server behind a proxy that refuses --------------------------------------------------------------------


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    beside = os.pathsep.join([str(TESTS / "support" / "beside_server"), MODULES])
    variables = {"PYTHONPATH": beside, REMOTE: f"sc://127.0.0.1:{port}"}
    log = tmp_path_factory.mktemp("managed") / "server.log"
    with connect_server(log, **variables) as server, refusing_proxy(server, port) as proxy:
        yield proxy


def _run(remote: str, *command: str) -> str:
    """Run Python in a process that has no classic session, and return what it prints."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environ |= {"PYTHONPATH": MODULES, "PYTHONWARNINGS": "ignore", REMOTE: remote}
    done = subprocess.run(
        [sys.executable, *command], env=environ, cwd=TESTS.parent, capture_output=True, text=True, timeout=SECONDS_MAX,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return done.stdout


@pytest.mark.nightly
@pytest.mark.timeout(SECONDS_MAX)
@needs(Feature.CONNECT_PROGRESS)
@pytest.mark.parametrize("contract", ["test_spark_contract.py", "test_plain_calls.py"])
def test_a_contract_holds_on_a_server_that_refuses(remote: str, contract: str) -> None:
    _run(remote, "-m", "pytest", "-q", "-n0", f"tests/spark/{contract}")


@pytest.mark.nightly
@pytest.mark.timeout(SECONDS_MAX)
@needs(Feature.CONNECT_PROGRESS)
def test_streams_sql_and_the_format_run_on_a_server_that_refuses(remote: str, tmp_path: Path) -> None:
    chapters = ("modes", "reads", "statements", "changes", "door", "stream")
    seen = json.loads(_run(remote, connect_client.__file__, remote, str(tmp_path), *chapters).splitlines()[-1])
    assert seen["statements"]["made"] == [[0, 16], [1, 8], [2, 7], [3, 1]]
    assert seen["stream"] == {"ended": True, "error": "None", "rows": [[0, "d0", 1], [1, "d1", 1], [2, "d0", 1]]}
