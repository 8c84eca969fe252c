"""Verification on Spark's workers: a table in, what is wrong with it out."""

from __future__ import annotations

from typing import Literal

from pyspark.sql import SparkSession

from lakewright.catalog.open import opened
from lakewright.distributed.verification import checking_on
from lakewright.errors import naming
from lakewright.spark.jobs.session import check_session
from lakewright.spark.jobs.workers import SparkWorkers
from lakewright.spec.arguments import Path
from lakewright.table.table import FileStoreTable
from lakewright.verify.arguments import check_depth
from lakewright.verify.findings import VerifyResult
from lakewright.verify.run import verify_table


def verify(
    spark: SparkSession,
    table: FileStoreTable | Path,
    *,
    full: bool = False,
    snapshots: Literal["latest", "all"] = "latest",
    fast: bool = False,
) -> VerifyResult:
    """Prove that the files of a table hold what its metadata says, on Spark's workers: see `table.verify`."""
    check_session(spark)
    store = opened(table).store
    with naming(store.name):
        depth, states = check_depth(full, fast=fast, snapshots=snapshots)
        return verify_table(store, depth=depth, states=states, run=checking_on(SparkWorkers(spark)))
