"""The Spark engine passes the contract of engines."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from contract.engine_suite import KINDS, EngineContract, EngineUnderTest
from support.effort import some
from support.spark_engine_cases import Spark


@pytest.fixture
def engine(spark: SparkSession) -> Spark:
    return Spark(spark)


class TestSpark(EngineContract):
    """The Spark engine."""

    # Each way of rows to their tasks at every push; how rows of a key are merged does not depend on the engine.
    @pytest.mark.parametrize("name", some(list(KINDS), 1, 2, 3, 6, 7, 9, 11, 12, 14))
    def test_a_table_of_every_kind_holds_the_rows(self, engine: EngineUnderTest, tmp_path: Path, name: str) -> None:
        super().test_a_table_of_every_kind_holds_the_rows(engine, tmp_path, name)
