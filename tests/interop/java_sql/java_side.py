"""Java's connector 0.9.0 on Spark 3.5: runs the corpus, or reads the tables of a warehouse; writes its answers as JSON.

Run by test_java_sql_corpus.py with the Python of an environment that holds PySpark 3.5:
`java_side.py JAR run WAREHOUSE FILES OUT ANSWERS`, `java_side.py JAR read WAREHOUSE ANSWERS`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from support.sql_corpus.cases import corpus
from support.sql_corpus.running import Places, answers, plain, said


class JavaSession:
    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark.newSession()
        self._spark.sql("USE paimon")

    def sql(self, text: str, args: dict[str, Any] | None = None) -> tuple[list[str], list[list[Any]]]:
        frame = self._spark.sql(text, args) if args else self._spark.sql(text)
        return frame.columns, [plain(row) for row in frame.collect()]


def spark_with(jar: str, warehouse: str) -> SparkSession:
    settings = {
        "spark.driver.memory": "1g",
        "spark.jars": jar,
        "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
        "spark.sql.catalog.paimon.warehouse": warehouse,
        "spark.sql.catalog.paimon.cache-enabled": "false",
        "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
    }
    builder = SparkSession.builder.master("local[1]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def tables_of(session: JavaSession, warehouse: Path) -> dict[str, Any]:
    """Every row of every table, by database and table; of a table that cannot be read, the error."""
    found: dict[str, Any] = {}
    for database in sorted(path.stem for path in warehouse.glob("*.db")):
        tables = sorted(path.name for path in (warehouse / f"{database}.db").iterdir() if (path / "schema").is_dir())
        for table in tables:
            try:
                found[f"{database}.{table}"] = session.sql(f"TABLE `{database}`.`{table}`")[1]
            except Exception as error:  # noqa: BLE001 the reader compares what it says
                found[f"{database}.{table}"] = said(error)
    return found


def main() -> None:
    jar, mode, warehouse, *rest = sys.argv[1:]
    spark = spark_with(jar, warehouse)
    if mode == "read":
        Path(rest[0]).write_text(json.dumps(tables_of(JavaSession(spark), Path(warehouse))))
        return
    places = Places(Path(warehouse), Path(rest[0]), Path(rest[1]))
    found = {case.name: answer for case, answer in answers(corpus(*rest[3:]), places, lambda: JavaSession(spark))}
    Path(rest[2]).write_text(json.dumps(found, indent=1))


main()
