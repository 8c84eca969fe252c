"""The Spark engine passes the contract of engines on a server of Sail, which has no JVM."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakewright as lw
import lakewright.spark as lws
from contract.engine_suite import MORE, ROWS, EngineContract, arrow, new_table
from lakewright.errors import UnsupportedError
from lakewright.spark.frame_operations import from_arrow
from support.spark_engine_cases import Spark

START_SECONDS_MAX = 60
TESTS = Path(__file__).parent.parent


@dataclass(frozen=True)
class Sail(Spark):
    """A session of a Sail server as an engine."""

    def frame(self, rows: pa.Table, parts: int = 3) -> DataFrame:
        size = max(1, -(-rows.num_rows // parts))
        pieces = [rows.slice(start, size) for start in range(0, max(1, rows.num_rows), size)]
        return reduce(DataFrame.union, [from_arrow(self.session, piece) for piece in pieces])

    def counts(self, table: lw.FileStoreTable, where: str | None) -> Mapping[str, int]:
        frame = lws.read_table(self.session, table)
        frame = frame if where is None else frame.where(where)
        return {"count": frame.count(), "a constant": len(frame.selectExpr("1 AS one").collect())}


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sail]:
    """Run a server of Sail on a free port of loopback, and a session on it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("sail") / "log"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    command = [str(Path(sys.executable).with_name("sail")), "spark", "server", "--port", str(port)]
    with log.open("wb") as out:
        server = subprocess.Popen(command, env=environ, stdout=out, stderr=out, cwd=log.parent)
    try:
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if time.monotonic() > deadline or server.poll() is not None:
                pytest.fail(f"no server: {log.read_text()[-3000:]}")
            time.sleep(0.1)
        session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
        yield Sail(session)
        session.stop()
    finally:
        server.terminate()
        server.wait(60)


class TestSail(EngineContract):
    """The Spark engine, on Sail."""


def test_statements_change_and_show_tables(engine: Sail, tmp_path: Path) -> None:
    context = lws.SQLContext(engine.session, {"warehouse": str(tmp_path)})
    context.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, n INT)")
    context.sql("INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)")
    context.sql("DELETE FROM t WHERE id = 3")
    context.sql(
        "MERGE INTO t USING (SELECT 1L AS id, 11 AS n) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n"
    )
    assert context.sql("ALTER TABLE t ADD COLUMN more STRING").collect() == []
    rows = [tuple(row) for row in context.sql("SELECT * FROM t ORDER BY id").collect()]
    assert rows == [(1, 11, None), (2, 20, None)]


def test_files_are_sorted_on_workers(engine: Sail, tmp_path: Path) -> None:
    table = new_table(tmp_path, "append")
    for rows in (ROWS, MORE):
        engine.write(engine.frame(arrow(rows)), table)
    lws.compact(engine.session, table, full=True, order_by=["n"])
    numbers = lw.read_table(table)["n"].to_pylist()
    assert numbers == sorted(row[2] for row in [*ROWS, *MORE])


def test_a_source_without_rows_merges_nothing(engine: Sail, tmp_path: Path) -> None:
    table = new_table(tmp_path, "keys")
    result = engine.merge(engine.frame(arrow([])), table, "id").when_not_matched_insert().execute()
    assert (result.snapshot_id, result.inserted) == (None, 0)


def test_what_sail_lacks_is_refused_before_anything_starts(engine: Sail, tmp_path: Path) -> None:
    table = new_table(tmp_path, "append")
    stream = engine.session.readStream.format("rate").load()
    with pytest.raises(UnsupportedError, match="write_table"):
        lws.write_stream(stream, table, checkpoint=str(tmp_path / "checkpoint"))
    (tmp_path / "rows.csv").write_text("id\n1\n")
    with pytest.raises(UnsupportedError, match=r"lw\.ingest"):
        lws.ingest(engine.session, str(tmp_path / "rows.csv"), str(tmp_path / "d.db/new"), create=True)
