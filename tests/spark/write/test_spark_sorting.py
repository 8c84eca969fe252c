"""Spark's workers sort one large partition together."""

from __future__ import annotations

from functools import partial

import pytest
from pyspark.sql import SparkSession

import lakewright.spark as lws
from support import spark_traps
from support.sort_cases import Compact, CompactDatabase, SortCases

assert spark_traps  # it sends the storages of traps to workers, which do not know the modules of tests


@pytest.fixture
def compact(spark: SparkSession) -> Compact:
    return partial(lws.compact, spark)


@pytest.fixture
def compact_database(spark: SparkSession) -> CompactDatabase:
    return partial(lws.compact_database, spark)


class TestSparkSorting(SortCases):
    """Spark."""
