"""A session for a program of its own: here, on a cluster, on a Connect server, or as spark-submit says."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from lakewright.spark.jobs.session import local_session

_SUBMITTED = "PYSPARK_GATEWAY_PORT"  # set by spark-submit, which has started a JVM and knows the master
_QUIET = {"spark.log.level": "ERROR"}  # what goes wrong is said by the program


@contextmanager
def running(
    name: str,
    master: str | None = None,
    remote: str | None = None,
    *,
    memory: str | None = None,
    config: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Run a session: on all cores of this machine, unless a master or a Connect server is named.

    A session that this process has already is used, and stays.
    """
    existing = SparkSession.getActiveSession()
    session = existing or _start(name, master, remote, memory, dict(config or {}))
    try:
        yield session
    finally:
        if existing is None:
            session.stop()


def _start(
    name: str, master: str | None, remote: str | None, memory: str | None, config: dict[str, str]
) -> SparkSession:
    if remote is None and _SUBMITTED not in os.environ and (master is None or master.startswith("local")):
        return local_session(name, master=master or "local[*]", memory=memory, config=config)
    builder = SparkSession.builder.appName(name)
    if remote is not None:
        builder = builder.remote(remote)
    elif master is not None:
        builder = builder.master(master)
    for key, value in (config if remote is not None else _QUIET | config).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
