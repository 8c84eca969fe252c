"""Sessions of ours that run the corpus: embedded, and on Spark; and the files that COPY INTO reads."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import lakewright
from support.sql_corpus.running import plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class EmbeddedSession:
    def __init__(self, warehouse: Path) -> None:
        catalog = lakewright.CatalogFactory.create({"warehouse": str(warehouse)})
        catalog.create_database("default", ignore_if_exists=True)
        self._context = lakewright.SQLContext({"paimon": catalog})

    def sql(self, text: str, args: Mapping[str, Any] | None = None) -> tuple[list[str], list[list[Any]]]:
        table = self._context.sql(text, args)
        return table.column_names, arrow_rows(table)


class SparkCorpusSession:
    def __init__(self, spark: SparkSession, warehouse: Path) -> None:
        catalog = lakewright.CatalogFactory.create({"warehouse": str(warehouse)})
        catalog.create_database("default", ignore_if_exists=True)
        self._context = importlib.import_module("lakewright.spark").SQLContext(spark.newSession(), {"paimon": catalog})

    def sql(self, text: str, args: Mapping[str, Any] | None = None) -> tuple[list[str], list[list[Any]]]:
        frame = self._context.sql(text, args)
        return frame.columns, [plain(row) for row in frame.collect()]


def arrow_rows(table: pa.Table) -> list[list[Any]]:
    """Return the rows of an Arrow table as values that compare with those of Spark."""
    columns = [[_plain(value, field.type) for value in table[n].to_pylist()] for n, field in enumerate(table.schema)]
    return [list(row) for row in zip(*columns, strict=True)] if columns else []


def write_files(folder: Path) -> None:
    """Write the files that the COPY INTO statements of the corpus read."""
    texts = {
        "csv/people.csv": "1,ann\n2,ben\n",
        "header/people.csv": "id,name\n3,cid\n",
        "pipe/people.txt": "4|NULL\n5|eve\n",
        "pipe/other.log": "99|wrong\n",
        "bad/people.csv": "6,fay\nnot a number,x\n",
        "json/people.json": '{"name": "gil", "id": 7}\n{"id": 8}\n',
        "array/people.json": '[\n {"id": 9, "name": "hal"},\n {"id": 10, "name": "ivy"}\n]\n',
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "parquet").mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"name": ["jim"], "id": pa.array([11], pa.int32())}), folder / "parquet" / "people.parquet")


def _plain(value: Any, arrow: pa.DataType) -> Any:  # noqa: ANN401 values of every type
    if value is None:
        return None
    if pa.types.is_struct(arrow):
        return [_plain(value[field.name], field.type) for field in arrow]
    if pa.types.is_map(arrow):
        return sorted([_plain(key, arrow.key_type), _plain(item, arrow.item_type)] for key, item in value)
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return [_plain(item, arrow.value_type) for item in value]
    return plain(value)
