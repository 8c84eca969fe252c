"""Golden tables of the computing merge engines, folded from their data files without planning or reading of ours."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.lsm.merge_rows import MergeRules, drop_retracts
from lakewright.spec.table_schema import TableSchema
from support.golden import WAREHOUSE, expected, expected_rows, in_order, normalised, spelled

ENGINES = {"aggregation", "partial-update"}
HIDDEN = {"deletion-vectors.enabled"}  # whose rows are not all in the files
TABLES = sorted(
    name
    for name, spec in expected().items()
    if spec["options"].get("merge-engine") in ENGINES and not HIDDEN & spec["options"].keys()
)


def live_rows(name: str, spec: dict[str, Any], schema: TableSchema) -> pa.Table:
    """Return the rows of all live files of a table, with their levels."""
    database, table = name.split(".")
    columns = ["_SEQUENCE_NUMBER", "_VALUE_KIND", *schema.field_names]
    parts = []
    for file in spec["files"]:
        path = WAREHOUSE / f"{database}.db" / table / f"bucket-{file['bucket']}" / file["file"]
        part = pq.read_table(path, columns=columns).select(columns)
        level = pa.array([file["level"]] * len(part), pa.int8())
        values = part.select(list(schema.field_names)).cast(schema.arrow_schema)
        parts.append(
            pa.table(
                [part["_SEQUENCE_NUMBER"], part["_VALUE_KIND"].cast(pa.int8()), level, *values.columns],
                names=["_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", *schema.field_names],
            )
        )
    return pa.concat_tables(parts)


def test_there_are_golden_tables_of_both_engines() -> None:
    assert {expected()[name]["options"]["merge-engine"] for name in TABLES} == ENGINES
    assert len(TABLES) >= 10


@pytest.mark.parametrize("name", TABLES)
def test_files_fold_to_the_rows_java_reads(name: str) -> None:
    spec = expected()[name]
    database, table = name.split(".")
    path = max((WAREHOUSE / f"{database}.db" / table / "schema").iterdir())
    schema = TableSchema.from_json(path.read_text(), path=str(path))
    merged = drop_retracts(MergeRules.of_schema(schema).fold(live_rows(name, spec, schema)))
    loose = [n for n, field in enumerate(schema.fields) if field.name in spec.get("unorderedArrays", ())]
    wanted = normalised(expected_rows(spec, spec["rows"]), schema.fields)
    assert in_order(spelled(merged, schema.fields), loose) == in_order(wanted, loose)
