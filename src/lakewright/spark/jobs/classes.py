"""Classes of PySpark that not every release has: where one is missing, an empty class has its name here.

So the modules that use them load on every release. No object of PySpark is an instance of an empty class, and nothing
of ours that derives from one is reached: the calls that lead there ask `capabilities` first.
"""

# ruff: noqa: PLC0414 - the aliases tell type checkers that these names are for others

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewright.spark.jobs.capabilities import imported

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
            globals()[_name] = imported(_module, _name) or type(_name, (), {})
