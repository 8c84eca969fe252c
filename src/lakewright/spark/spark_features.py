"""What the installed PySpark can do.

from lakewright.spark.jobs.capabilities import Feature, has, require

    if has(Feature.PLACEMENT): ...                                # take the way of newer releases, else the other way
    require(Feature.TIME, f"the column {name!r} is TIME", column=name)   # or raise UnsupportedError with the remedy

A feature is found by looking for it, never by a version number: releases of vendors carry features of later versions.
Only the Javas that a Spark runs on are told by its version, since nothing else says them. The answers are found once in
a process. What `Feature.since` says is for messages and for the table in the documentation; `make nightly` checks
that it is right. Operations that take another way where a feature is missing are in `frames`.

So the modules that use them load on every release. No object of PySpark is an instance of an empty class, and nothing
of ours that derives from one is reached: the calls that lead there ask `capabilities` first.
"""

# ruff: noqa: PLC0414 - the aliases tell type checkers that these names are for others

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache, partial
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql import DataFrame

from lakewright.errors import UnsupportedError

# ---- Features of PySpark ---------------------------------------------------------------------------------------------


def import_name(module: str, name: str) -> object | None:
    """Return what a module of PySpark calls by a name, such as `SparkSession.sql`; None if there is no such thing."""
    try:
        value: object = import_module(module)
    except ImportError:
        return None
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


@dataclass(frozen=True, slots=True)
class _Facts:
    what: str  # as a message and the documentation call it
    since: str  # the first release of PySpark that has it
    instead: str  # what to do, or what is done, where it is missing
    is_there: Callable[[], bool]
    is_replaced: bool = False  # without it everything works, in another way


def _has(module: str, name: str) -> Callable[[], bool]:
    return partial(_is_found, f"pyspark.{module}", name)


def _is_found(module: str, name: str) -> bool:
    return import_name(module, name) is not None


def _hints_take_columns() -> bool:
    return "Column" in str(DataFrame.hint.__annotations__.get("parameters"))


def _connect_formats_sql() -> bool:
    # Importing the client of Connect takes a second, and what it needs may not be installed.
    return files("pyspark.sql").joinpath("connect", "sql_formatter.py").is_file()


class Feature(Enum):
    """What not every supported release of PySpark has."""

    PYTHON_SOURCE = _Facts(
        'data sources written in Python (format("lakewright"), read_stream, attach(writable=True))',
        "4.0",
        "use lakewright.spark.read_table, write_table, write_stream and foreach_batch",
        _has("sql.datasource", "DataSourceArrowWriter"),
    )
    STREAM_SINK = _Facts(
        'streaming sinks written in Python (writeStream.format("lakewright"))',
        "4.1",
        "use lakewright.spark.write_stream or foreach_batch",
        _has("sql.datasource", "DataSourceStreamArrowWriter"),
    )
    RATE_LIMITS = _Facts(
        "limits of a batch for sources written in Python (read_stream(max_files_per_trigger=...))",
        "4.2",
        "leave the limits out",
        _has("sql.streaming.datasource", "ReadMaxFiles"),
    )
    TIME = _Facts(
        "a type for columns of TIME",
        "4.1",
        "leave such columns out with columns=[...], or read and write the table without Spark",
        _has("sql.types", "TimeType"),
    )
    VARIANT = _Facts(
        "a type for columns of VARIANT",
        "4.0",
        "leave such columns out with columns=[...], or read and write the table without Spark",
        _has("sql.types", "VariantType"),
    )
    PLACEMENT = _Facts(
        "shuffles to a task by its number (DataFrame.repartitionById)",
        "4.1",
        "rows are shuffled by numbers whose hashes lead to the same tasks",
        _has("sql", "DataFrame.repartitionById"),
        is_replaced=True,
    )
    REBALANCE = _Facts(
        "hints that name columns (rebalance)",
        "4.0",
        'distribution="partition" brings a large partition to one task rather than to several',
        _hints_take_columns,
        is_replaced=True,
    )
    ARROW_FUNCTION = _Facts(
        "column functions over Arrow arrays (arrow_udf)",
        "4.1",
        "mapInArrow computes the column",
        _has("sql.pandas.functions", "arrow_udf"),
        is_replaced=True,
    )
    ARROW_ROWS = _Facts(
        "Arrow tables from and to frames (DataFrame.toArrow, createDataFrame)",
        "4.0",
        "mapInArrow carries them",
        _has("sql", "DataFrame.toArrow"),
        is_replaced=True,
    )
    SCALAR = _Facts(
        "scalar subqueries of frames (DataFrame.scalar)",
        "4.0",
        "deleted rows are looked up by a broadcast join",
        _has("sql", "DataFrame.scalar"),
        is_replaced=True,
    )
    ERROR_CONDITION = _Facts(
        "conditions of errors (PySparkException.getCondition)",
        "4.0",
        "the same under its older name",
        _has("errors", "PySparkException.getCondition"),
        is_replaced=True,
    )
    QUERY_LOG = _Facts(
        "logs of failed queries (pyspark.logger)",
        "4.0",
        "there is nothing to silence",
        _has("logger", "PySparkLogger"),
        is_replaced=True,
    )
    CONNECT_PROGRESS = _Facts(
        "progress of queries over Spark Connect",
        "4.0",
        "progress is told once, at the end",
        _has("sql", "SparkSession.registerProgressHandler"),
        is_replaced=True,
    )
    CONNECT_SQL_FRAMES = _Facts(
        "frames in the text of a query over Spark Connect (SparkSession.sql)",
        "4.0",
        "temporary views named lakewright_... carry them, until the session ends",
        _connect_formats_sql,
        is_replaced=True,
    )

    @property
    def what(self) -> str:
        """The feature as a message calls it."""
        return self.value.what

    @property
    def since(self) -> str:
        """The first release of PySpark that has it."""
        return self.value.since

    @property
    def instead(self) -> str:
        """What to do where it is missing, or what is done then."""
        return self.value.instead

    @property
    def is_replaced(self) -> bool:
        """Whether everything works without it, in another way."""
        return self.value.is_replaced


@cache
def present() -> frozenset[Feature]:
    """Return the features that the installed PySpark has."""
    return frozenset(feature for feature in Feature if feature.value.is_there())


def has(feature: Feature) -> bool:
    """Return whether the installed PySpark has a feature."""
    return feature in present()


def require(feature: Feature, subject: str, **facts: object) -> None:
    """Raise UnsupportedError unless the installed PySpark has a feature; the message begins with the subject."""
    if not has(feature):
        raise refusal(feature, subject, **facts)


def refusal(feature: Feature, subject: str, **facts: object) -> UnsupportedError:
    """Return the error for something that the installed PySpark cannot do."""
    return UnsupportedError(
        f"{subject}: PySpark {pyspark.__version__} lacks {feature.what}; PySpark {feature.since} is the first that "
        f"has it. Install that, or {feature.instead}",
        pyspark=pyspark.__version__,
        needs=feature.since,
        **facts,
    )


# ---- the Javas of a Spark --------------------------------------------------------------------------------------------

# With older releases of Arrow and Hadoop, newer Javas start a session, and fail as soon as rows or files are touched.
_JAVAS = (((4, 2), (17, None)), ((4, 0), (17, 21)), ((0, 0), (8, 17)))


def java_versions(spark_version: str = pyspark.__version__) -> tuple[int, int | None]:
    """Return the oldest and the newest Java that a release of Spark runs on; None where no newest one is known.

    >>> java_versions("3.5.7"), java_versions("4.1.4"), java_versions("4.10.0.dev1")
    ((8, 17), (17, 21), (17, None))
    """
    number = re.match(r"(\d+)\.(\d+)", spark_version)
    version = (0, 0) if number is None else (int(number[1]), int(number[2]))
    return next(javas for since, javas in _JAVAS if version >= since)


# ---- Classes of PySpark ----------------------------------------------------------------------------------------------

if TYPE_CHECKING:
    from pyspark.logger import PySparkLogger as PySparkLogger
    from pyspark.sql.datasource import DataSource as DataSource
    from pyspark.sql.datasource import DataSourceArrowWriter as DataSourceArrowWriter
    from pyspark.sql.datasource import DataSourceReader as DataSourceReader
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as DataSourceStreamArrowWriter
    from pyspark.sql.datasource import DataSourceStreamReader as DataSourceStreamReader
    from pyspark.sql.datasource import DataSourceStreamWriter as DataSourceStreamWriter
    from pyspark.sql.datasource import DataSourceWriter as DataSourceWriter
    from pyspark.sql.datasource import InputPartition as InputPartition
    from pyspark.sql.datasource import WriterCommitMessage as WriterCommitMessage
    from pyspark.sql.streaming.datasource import ReadAllAvailable as ReadAllAvailable
    from pyspark.sql.streaming.datasource import ReadLimit as ReadLimit
    from pyspark.sql.streaming.datasource import ReadMaxFiles as ReadMaxFiles
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as SupportsTriggerAvailableNow
    from pyspark.sql.types import CalendarIntervalType as CalendarIntervalType
    from pyspark.sql.types import TimeType as TimeType
    from pyspark.sql.types import VariantType as VariantType
else:
    _OF = {
        "pyspark.logger": "PySparkLogger",
        "pyspark.sql.datasource": (
            "DataSource DataSourceArrowWriter DataSourceReader DataSourceStreamArrowWriter DataSourceStreamReader "
            "DataSourceStreamWriter DataSourceWriter InputPartition WriterCommitMessage"
        ),
        "pyspark.sql.streaming.datasource": "ReadAllAvailable ReadLimit ReadMaxFiles SupportsTriggerAvailableNow",
        "pyspark.sql.types": "CalendarIntervalType TimeType VariantType",
    }
    for _module, _names in _OF.items():
        for _name in _names.split():
            globals()[_name] = import_name(_module, _name) or type(_name, (), {})
