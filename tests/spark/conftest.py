"""One Spark session in each process that runs tests of the engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from lakewright.spark.spark_session import local_session
from support.effort import is_thin
from support.jvm import SHORT_LIVED, home_without_archive

_HERE = Path(__file__).parent
REMOTE = "LAKEWRIGHT_TEST_REMOTE"  # a Connect server, for processes that `jobs/test_managed_sessions.py` starts


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Forgive what Spark itself leaves open."""
    for item in items:
        if _HERE in item.path.parents:
            # Spark 4.1 leaves the sockets to its workers for the garbage collector to close.
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
            # Spark 3.5 compares versions with a module that Python has deprecated.
            item.add_marker(pytest.mark.filterwarnings("ignore:distutils:DeprecationWarning"))


@pytest.fixture(scope="session", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let every Spark of these tests start its Python processes fast."""
    with patch.dict(os.environ, SPARK_HOME=str(home_without_archive(tmp_path_factory.mktemp("home")))):
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Run a local session in which a failed task is tried again, as on a cluster; or use a server that a test runs."""
    if REMOTE in os.environ:
        yield SparkSession.builder.remote(os.environ[REMOTE]).getOrCreate()
        return
    # Workers find what a test module defines, and the daemon below.
    modules = [str(path) for path in (_HERE.parent, _HERE, *_HERE.iterdir()) if path.is_dir()]
    folders = os.pathsep.join([*modules, os.environ.get("PYTHONPATH", "")])
    as_for_users = str(not is_thin()).lower()
    with patch.dict(os.environ, PYTHONPATH=folders):
        session = local_session(
            "tests",
            master="local[2,3]",
            memory="2g",
            config={
                "spark.driver.extraJavaOptions": SHORT_LIVED,
                "spark.sql.shuffle.partitions": "4",
                # Frames are tiny: compiling, and planning again while a query runs, cost more than they save. At night
                # Spark does both, as it does for users.
                "spark.sql.codegen.wholeStage": as_for_users,
                "spark.sql.adaptive.enabled": as_for_users,
                "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
                "spark.python.daemon.module": "support.warm_daemon",
            },
        )
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _active(request: pytest.FixtureRequest) -> None:
    """Make the session the active one: up to 4.2 Spark looks formats up there, and an interrupt takes it away."""
    if "spark" in request.fixturenames:
        session: SparkSession = request.getfixturevalue("spark")
        if SparkSession.getActiveSession() is None:
            session.createDataFrame([], "n int")
