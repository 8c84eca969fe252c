"""Tests that need a feature which not every PySpark has: skipped where it is missing, with the reason."""

from __future__ import annotations

import pyspark
import pytest

from lakewright.spark.spark_features import Feature, has


def needs(feature: Feature) -> pytest.MarkDecorator:
    """Return the mark of a test that needs a feature."""
    reason = f"PySpark {pyspark.__version__} lacks {feature.what}: {feature.since} is the first"
    return pytest.mark.skipif(not has(feature), reason=reason)
