"""One Spark session for all tests of the engine: they run in one process, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lakewright.spark.session import local_session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of this folder in one worker, so that one session serves them all."""
    for item in items:
        if "/tests/spark/" in str(item.path):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Run a local session in which a failed task is tried again, as on a cluster."""
    session = local_session("tests", master="local[2,3]", config={"spark.sql.shuffle.partitions": "4"})
    yield session
    session.stop()
