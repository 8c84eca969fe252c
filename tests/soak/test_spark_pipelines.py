"""A declarative pipeline of Spark reads a table as a stream and writes to another one, over a restart."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.spark.spark_session import java_home

RUN_SECONDS_MAX = 600
SPECIFICATION = """\
name: orders
storage: file://{root}/storage
libraries:
  - glob:
      include: transformations/**
"""
TRANSFORMATION = """\
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
dp.create_sink("paid", "lakewright", {{"path": "{target}"}})


@dp.append_flow(target="paid", name="paid_orders")
def paid_orders():
    return spark.readStream.format("lakewright").load("{source}").where("state = 'paid'")
"""


def run_pipeline(root: Path) -> None:
    """Run all flows of a pipeline until they have read what there is."""
    home = java_home(os.environ)
    environ = {
        **os.environ,
        **({} if home is None else {"JAVA_HOME": home}),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYTHONWARNINGS": "ignore",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    program = str(Path(sys.executable).with_name("spark-pipelines"))
    with (root / "log").open("ab") as log:
        command = [program, "run", "--spec", "spark-pipeline.yml"]
        status = subprocess.run(
            command, cwd=root, env=environ, stdout=log, stderr=log, timeout=RUN_SECONDS_MAX, check=False
        ).returncode
    assert status == 0, (root / "log").read_text()[-4000:]


@pytest.mark.timeout(3 * RUN_SECONDS_MAX)
def test_a_sink_gets_each_new_row_once_over_restarts(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path / "warehouse")})
    catalog.create_database("shop")
    columns = pa.schema({"id": pa.int64(), "state": pa.string()})
    for name in ("orders", "paid"):
        catalog.create_table(f"shop.{name}", lw.Schema.from_pyarrow_schema(columns))
    orders, paid = catalog.get_table("shop.orders"), catalog.get_table("shop.paid")
    (tmp_path / "transformations").mkdir()
    (tmp_path / "spark-pipeline.yml").write_text(SPECIFICATION.format(root=tmp_path))
    text = TRANSFORMATION.format(source=orders.table_path, target=paid.table_path)
    (tmp_path / "transformations/orders.py").write_text(text)

    for first in (1, 3):
        lw.write_table(pa.table({"id": [first, first + 1], "state": ["new", "paid"]}, schema=columns), orders)
        run_pipeline(tmp_path)
    run_pipeline(tmp_path)  # nothing is new

    assert sorted(lw.read_table(paid)["id"].to_pylist()) == [2, 4]
