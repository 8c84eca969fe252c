"""The role of a program on Spark: a driver in this process, with a session of its own and two Python workers."""

from __future__ import annotations

from pyspark.sql import DataFrame

from lakewright.spark import write_table
from lakewright.spark.spark_session import local_session
from support.chaos.roles import Plan, Role, rows_of
from support.jvm import SHORT_LIVED

_CONFIG = {
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": SHORT_LIVED,
}


class SparkWriter(Role):
    """Writes with Spark's workers: appends, jobs, upserts, deletes by key and overwrites of its own partition."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.spark = local_session("chaos", master="local[2]", memory="1g", config=_CONFIG)

    def step(self) -> None:
        """Run one of them."""
        kind, keys = self.any_table(), self.fresh_keys()
        match self.dice.choice(["append", "job", "upsert", "upsert", "delete", "overwrite"]):
            case "job":
                self.change(
                    "job",
                    kind,
                    lambda uid: write_table(self._frame(keys, uid), self.table(kind), job_id=uid),
                    puts=keys,
                )
            case "upsert" if kind.keyed:
                keys = sorted({*keys, *self.known_keys(kind)})
                self.change(
                    "upsert",
                    kind,
                    lambda uid: write_table(self._frame(keys, uid), self.table(kind), "upsert"),
                    puts=keys,
                )
            case "delete" if kind.keyed and (drops := self.known_keys(kind)):
                self.change(
                    "delete",
                    kind,
                    lambda uid: write_table(self._frame(drops, uid), self.table(kind), "delete"),
                    drops=drops,
                )
            case "overwrite" if kind.partitioned:
                slot = self.plan.slot
                self.change(
                    "overwrite",
                    kind,
                    lambda uid: write_table(
                        self._frame(keys, uid), self.table(kind), "overwrite", partitions={"p": slot}
                    ),
                    puts=keys,
                    clear=slot,
                )
            case _:
                self.change(
                    "append", kind, lambda uid: write_table(self._frame(keys, uid), self.table(kind)), puts=keys
                )

    def close(self) -> None:
        """End the session."""
        self.spark.stop()

    def _frame(self, keys: list[int], value: str) -> DataFrame:
        rows = [tuple(row.values()) for row in rows_of(keys, value).to_pylist()]
        return self.spark.createDataFrame(rows, "p int, k long, v string")
