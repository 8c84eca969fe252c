"""Data files that Java wrote, read with the schema they were written with and evolved to the latest one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakewright.errors import UnsupportedError
from lakewright.formats.base import file_format_of
from lakewright.formats.open import open_reader
from lakewright.read.evolve import plan_evolution
from lakewright.spec.types import AtomicType, DataField
from support.golden import WAREHOUSE, expected, expected_rows, in_order, normalised, spelled

TABLES = sorted(name for name in expected() if name.startswith(("types.", "evolve.")))
SEQUENCE = DataField(2147483646, "_SEQUENCE_NUMBER", AtomicType("BIGINT", nullable=False))
KIND = DataField(2147483645, "_VALUE_KIND", AtomicType("TINYINT", nullable=False))
DELETE = 3


def fields_of(root: Path, schema_id: int) -> list[DataField]:
    text = json.loads((root / "schema" / f"schema-{schema_id}").read_text())
    return [DataField.from_dict(field) for field in text["fields"]]


def read(path: Path, file_fields: list[DataField], read_fields: list[DataField]) -> pa.Table:
    plan = plan_evolution(file_fields, read_fields)
    source = path.open("rb")
    reader = open_reader(
        file_format_of(path.name), source, path=str(path), size=path.stat().st_size, fields=plan.file_fields
    )
    position = 0
    batches = []
    for first, batch in reader.batches():
        assert first == position
        position += batch.num_rows
        batches.append(plan.apply(batch))
    assert position == reader.row_count
    reader.close()
    return pa.Table.from_batches(batches, plan.schema)


def read_table(name: str, spec: dict[str, Any]) -> tuple[list[DataField], pa.Table]:
    root = WAREHOUSE / (name.replace(".", ".db/"))
    latest = max(int(path.name.removeprefix("schema-")) for path in (root / "schema").iterdir())
    fields = fields_of(root, latest)
    system = [SEQUENCE, KIND] if spec["primaryKeys"] else []
    tables = []
    for file in spec["files"]:
        path = next(root.rglob(file["file"]))
        table = read(path, fields_of(root, file["schemaId"]) + system, fields + system)
        assert table.num_rows == file["rows"]
        tables.append(table)
    return fields, pa.concat_tables(tables)


def newest(table: pa.Table, key: str) -> pa.Table:
    """Keep the newest row of each key that is not deleted."""
    order = table.sort_by(SEQUENCE.name)
    last = {value: index for index, value in enumerate(order[key].to_pylist())}
    rows = order.take(sorted(last.values()))
    return rows.filter(pc.not_equal(rows[KIND.name], DELETE)).drop_columns([SEQUENCE.name, KIND.name])


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_java_s(name: str) -> None:
    spec = expected()[name]
    try:
        fields, table = read_table(name, spec)
    except UnsupportedError:
        if spec.get("mayRefuse"):
            return
        raise
    if name == "types.variant":
        assert table.num_rows == len(spec["rows"])
        return
    if spec["primaryKeys"]:
        table = newest(table, spec["primaryKeys"][0])
    want = normalised(expected_rows(spec, spec["rows"]), fields)
    assert in_order(spelled(table, fields)) == in_order(want)
