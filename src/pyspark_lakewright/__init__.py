"""Lets Spark find `format("lakewright")` by itself: it looks for a `DefaultSource` in modules named `pyspark_*`."""

from lakewright.spark.data_source import LakewrightSource as DefaultSource

__all__ = ["DefaultSource"]
