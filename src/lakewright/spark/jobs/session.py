"""Sessions: a local one that needs no preparation, and settings that hold for the time of one job."""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyspark import SparkContext
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakewright.errors import InvalidInputError, LakewrightWarning
from lakewright.spark.jobs.capabilities import Feature, has
from lakewright.spark.jobs.classes import PySparkLogger
from lakewright.spark.jobs.java import java_home, quiet_home
from lakewright.spec.options import CoreOptions
from lakewright.spec.schema.option_keys import SECRET_KEYS
from lakewright.table.table import FileStoreTable

LOOPBACK = "127.0.0.1"
WORKER_PYTHON = "spark.sql.execution.pyspark.python"

_ALL_CORES = "local[*]"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_MEMORY = "spark.driver.memory"
_MEGABYTE = 1 << 20
_MEMORY_MIN, _MEMORY_MAX = 1024, 4096  # megabytes, where the caller gives none
_MEMORY_SHARE = 4  # one part in four: the Python workers and the files' cache live beside the JVM
_UNSET_PYTHON = "python3"  # what Spark starts workers with where none is set


def local_session(
    app_name: str = "lakewright",
    *,
    master: str = _ALL_CORES,
    memory: str | None = None,
    config: Mapping[str, str] | None = None,
    **options: object,
) -> SparkSession:
    """Return a Spark session in this process that needs no preparation, or the one that runs already.

    A Java of at least version 17 is found: JAVA_HOME, then the PATH, then the package of `lakewright[spark-jre]`.
    Workers run under this interpreter unless PYSPARK_PYTHON names another. `memory` is the JVM's, such as "2g": a
    quarter of the machine's, from 1g to 4g, unless given. The session listens on loopback only, serves no web page and
    prints errors only, unless `config`, which has the last word, says otherwise. Settings of Spark may also be given as
    arguments: `**{"spark.sql.shuffle.partitions": 4}`. JAVA_HOME, PYSPARK_PYTHON and SPARK_LOCAL_IP of this process are
    set where they are missing.
    """
    asked = {**({} if memory is None else {_MEMORY: memory}), **(config or {}), **_spark_settings(options)}
    running = _running_session()
    if running is not None:
        _warn_of_differences(running, asked if master == _ALL_CORES else {"spark.master": master, **asked})
        return running
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    home = java_home(os.environ)
    if home is not None:
        os.environ["JAVA_HOME"] = home
    builder = SparkSession.builder.master(master).appName(app_name)
    for key, value in local_settings(asked, os.environ, memory_of_machine()).items():
        builder = builder.config(key, value)
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger") if has(Feature.QUERY_LOG) else ():
        # These loggers print each error of a query as a line of JSON with its stack trace, before it is raised.
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    with _home_for_start(quiet_home(os.environ) if home is None else None):
        return builder.getOrCreate()


@contextmanager
def _home_for_start(home: str | None) -> Iterator[None]:
    """Let a process that is started in this block find Java in a directory; None: where it is found anyway."""
    before = os.environ.get("JAVA_HOME")
    if home is not None:
        os.environ["JAVA_HOME"] = home
    try:
        yield
    finally:
        if home is not None:
            os.environ.pop("JAVA_HOME") if before is None else os.environ.update(JAVA_HOME=before)


def local_settings(asked: Mapping[str, str], environ: Mapping[str, str], machine_bytes: int) -> dict[str, str]:
    """Return the settings with which a local session starts; what was asked for has the last word."""
    share = min(max(machine_bytes // _MEGABYTE // _MEMORY_SHARE, _MEMORY_MIN), _MEMORY_MAX)
    chosen = {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        _MEMORY: f"{share}m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.redaction.regex": SECRET_KEYS,  # in plans and event logs
        "spark.sql.timeType.enabled": "true",  # columns of type TIME can be compared and grouped
        **asked,
    }
    if "SPARK_CONF_DIR" not in environ:  # such a folder decides what is logged
        quiet = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
        chosen[_JAVA_OPTIONS] = f"{quiet} {asked.get(_JAVA_OPTIONS, '')}".strip()
    return chosen


def _spark_settings(options: Mapping[str, object]) -> dict[str, str]:
    """Return settings as Spark spells them; a name that is none of Spark's is a mistake."""
    wrong = [name for name in options if not name.startswith("spark.")]
    if wrong:
        raise InvalidInputError(
            f"local_session has no argument {wrong[0]!r}: it takes app_name, master, memory, config and settings of "
            'Spark, such as **{"spark.sql.shuffle.partitions": 4}',
            setting=wrong[0],
        )
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}


def memory_of_machine() -> int:
    """Return the bytes of memory that this process may use: the machine's, or its container's."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
    limit = Path("/sys/fs/cgroup/memory.max")
    with suppress(OSError, ValueError):  # no container, or no limit ("max")
        return min(total, int(limit.read_text()))
    return total


def is_connect(spark: SparkSession) -> bool:
    """Say whether a session talks to a Spark Connect server."""
    return "connect" in type(spark).__module__


def check_session(spark: SparkSession) -> None:
    """Raise InvalidInputError unless this is a session of Spark that was not stopped."""
    if not hasattr(spark, "createDataFrame") or not hasattr(spark, "conf"):
        raise InvalidInputError(
            f"the first argument is a Spark session, not a {type(spark).__name__}: give the session that you have, or "
            "lakewright.spark.local_session()"
        )
    # Spark's own calls end in an AssertionError without a text then.
    if not is_connect(spark) and getattr(getattr(spark, "sparkContext", None), "_jsc", True) is None:
        raise InvalidInputError(
            "the Spark session was stopped: start another one, such as with lakewright.spark.local_session(), and make "
            "tables, frames and contexts anew with it"
        )


def in_session_zone(spark: SparkSession, table: FileStoreTable) -> FileStoreTable:
    """Return a table whose filters and conditions take a time without a zone as a time in the zone of the session."""
    check_session(spark)
    return table.copy({CoreOptions.LAKEWRIGHT_TIME_ZONE.key(): str(spark.conf.get("spark.sql.session.timeZone"))})


def heal_workers(spark: SparkSession) -> None:
    """Let the workers of a local session run under this interpreter, unless another one is set.

    Spark takes `python3` from the PATH, which in a virtual environment that is not activated is another Python. On a
    cluster the interpreters are not known here, so nothing is changed.
    """
    if is_connect(spark):
        # The server is on this machine only if this process has started it.
        default = "SPARK_LOCAL_REMOTE" in os.environ
    else:
        default = spark.sparkContext.pythonExec == _UNSET_PYTHON
    named = os.environ.get("PYSPARK_PYTHON", sys.executable) != sys.executable
    if not default or named or not str(spark.conf.get("spark.master", "")).startswith("local"):
        return
    if spark.conf.get(WORKER_PYTHON, None) is None and spark.conf.get("spark.pyspark.python", None) is None:
        spark.conf.set(WORKER_PYTHON, sys.executable)


def map_in_arrow(
    df: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: str | StructType
) -> DataFrame:
    """Return what a function makes of the batches of a frame.

    PySpark 4.3 warns of pandas 3 at every such call, although pandas is not used: the warning is suppressed, because
    users can do nothing about it.
    """
    with _quiet, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        return df.mapInArrow(function, schema)


_quiet = threading.Lock()  # the filters of warnings belong to all threads


# ---- settings for the time of one job --------------------------------------------------------------------------------


@dataclass(slots=True)
class _Setting:
    """One setting of one session while jobs set it: the user's own value, and that of each job, the newest last."""

    before: str | None
    requests: list[tuple[object, str]] = field(default_factory=list)


_held: dict[tuple[object, str], _Setting] = {}
_holding = threading.RLock()


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Set run-time settings of a session for the time of a block, and restore the values that they had before.

    Jobs of several threads may overlap: the last one that ends restores the value from before the first.
    """
    holder, session = object(), _identity(spark)
    try:
        for key, value in values.items():
            _hold(spark, session, key, (holder, str(value)))
        yield
    finally:
        for key in values:
            _release(spark, session, key, holder)


def _hold(spark: SparkSession, session: object, key: str, request: tuple[object, str]) -> None:
    with _holding:
        before = spark.conf.get(key, None) if (session, key) not in _held else None
        try:
            spark.conf.set(key, request[1])
        except AnalysisException as error:
            raise InvalidInputError(
                f"the Spark setting {key!r} cannot be {request[1]!r} while a session runs: give it when the session "
                "starts (local_session(config={...}), or --conf of spark-submit)",
                setting=key,
            ) from error
        _held.setdefault((session, key), _Setting(before)).requests.append(request)


def _release(spark: SparkSession, session: object, key: str, holder: object) -> None:
    with _holding:
        setting = _held.get((session, key))
        if setting is None or holder not in [owner for owner, _ in setting.requests]:
            return  # it was never set
        setting.requests = [request for request in setting.requests if request[0] is not holder]
        value = setting.requests[-1][1] if setting.requests else setting.before
        if not setting.requests:
            del _held[session, key]
        # If the session has ended this fails, and that must not hide why it ended.
        with suppress(Exception):
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def _identity(spark: SparkSession) -> object:
    """Return what is the same for all Python objects of one session, to which settings belong."""
    return spark.session_id if is_connect(spark) else spark._jsparkSession  # type: ignore[attr-defined] # noqa: SLF001 - no public name


def _running_session() -> SparkSession | None:
    """Return the classic session that runs in this process, whichever thread made it."""
    if SparkContext._active_spark_context is None:  # noqa: SLF001 - the public call would start one
        return None
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def _warn_of_differences(spark: SparkSession, asked: Mapping[str, str]) -> None:
    other = {key: actual for key, value in asked.items() if (actual := spark.conf.get(key, None)) != str(value)}
    if other:
        differences = ", ".join(f"{key} is {actual}" for key, actual in sorted(other.items()))
        warnings.warn(
            f"a Spark session runs already and is used as it is, though other settings were asked for ({differences}): "
            "stop it first (spark.stop()) to start one with these",
            LakewrightWarning,
            stacklevel=3,
        )
