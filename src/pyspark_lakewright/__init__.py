"""Lets Spark find `format("lakewright")` by itself: it looks for a `DefaultSource` in modules named `pyspark_*`."""

from lakewright.spark.datasource.format import LakewrightSource as DefaultSource

__all__ = ["DefaultSource"]
