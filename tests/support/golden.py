"""The golden tables, and rows in the spelling of their `expected.json`, so that readers of any kind can be compared.

A row is a list in column order: DECIMAL as text with its scale, binary as hex, DATE `YYYY-MM-DD`, TIME `HH:MM:SS.mmm`,
TIMESTAMP with nine digits (LTZ with a final Z), MAP and MULTISET as pairs, ROW as an object, non-finite floats as text.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewright import variant
from lakewright.spec.types import ArrayType, AtomicType, DataField, DataType, MapType, MultisetType, RowType, VectorType

GOLDEN = Path(__file__).parent.parent / "golden"
WAREHOUSE = GOLDEN / "warehouse"
MULTIMODAL = GOLDEN / "multimodal"
# Tables of every kind, for engines, which read through the same functions as tests/test_golden.py. The last is refused.
SAMPLE = (
    "append.no_snapshot",
    "append.unaware_compacted",
    "dv.append_bitmap32",
    "dv.pk_bitmap64",
    "engine.partial_update_groups",
    "evolve.types_parquet",
    "part.by_many",
    "pk.dedup_deletes",
    "track.evolution",
    "types.nested_parquet",
    "types.scalars_orc",
    "types.variant",
)


@functools.cache
def expected() -> dict[str, dict[str, Any]]:
    """Return what Java reads from every golden table."""
    tables: dict[str, dict[str, Any]] = json.loads((GOLDEN / "expected.json").read_text())["tables"]
    return tables


@functools.cache
def expected_multimodal() -> dict[str, dict[str, Any]]:
    """Return what its writer reads from every golden table of the newer types and kinds of files."""
    tables: dict[str, dict[str, Any]] = json.loads((MULTIMODAL / "expected.json").read_text())["tables"]
    return tables


def sampled(names: Iterable[str]) -> list[Any]:
    """Return parameters for names of tables: those of the sample, and at night all."""
    marks = {False: [pytest.mark.nightly], True: []}
    return [pytest.param(name, marks=marks[name in SAMPLE]) for name in names]


def expected_rows(spec: dict[str, Any], numbers: Iterable[int]) -> list[Any]:
    """Return rows of a table's pool."""
    return [spec["pool"][number] for number in numbers]


def spelled(table: pa.Table, fields: Sequence[DataField]) -> list[list[Any]]:
    """Return the rows of an Arrow table in the spelling of `expected.json`."""
    columns = [[_spell(value, field.type) for value in table[field.name]] for field in fields]
    return [list(row) for row in zip(*columns, strict=True)] if columns else []


def in_order(rows: Iterable[Any], unordered: Iterable[int] = ()) -> list[str]:
    """Return rows as sorted text: the order of rows, of map entries and of hash-set arrays has no meaning."""
    loose = frozenset(unordered)
    settled = ([_sorted(cell) if n in loose else cell for n, cell in enumerate(row)] for row in rows)
    return sorted(json.dumps(row, sort_keys=True) for row in settled)


def _sorted(cell: Any) -> Any:  # noqa: ANN401
    return sorted(cell, key=json.dumps) if isinstance(cell, list) else cell


def _spell(scalar: pa.Scalar, dtype: DataType) -> Any:  # noqa: ANN401
    if not scalar.is_valid:
        return None
    match dtype:
        case ArrayType(element=element) | VectorType(element=element):
            return [_spell(value, element) for value in scalar.values]
        case MapType(key=key, value=value):
            return _pairs(scalar, key, value)
        case MultisetType(element=element):
            return _pairs(scalar, element, AtomicType("INT"))
        case RowType(fields=fields):
            return {field.name: _spell(scalar[field.name], field.type) for field in fields}
        case AtomicType():
            return _atomic(scalar, dtype)


def _pairs(scalar: pa.Scalar, key: DataType, value: DataType) -> list[Any]:
    entries = scalar.values
    pairs = [[_spell(k, key), _spell(v, value)] for k, v in zip(entries.field(0), entries.field(1), strict=True)]
    return sorted(pairs, key=json.dumps)


def _atomic(scalar: pa.Scalar, dtype: AtomicType) -> Any:  # noqa: ANN401
    match dtype.root:
        case "FLOAT" | "DOUBLE":
            number = scalar.as_py()
            if math.isfinite(number):
                return number
            return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
        case "DECIMAL":
            return f"{scalar.as_py():f}"
        case "BINARY" | "VARBINARY" | "BLOB":
            return scalar.as_py().hex()
        case "DATE":
            return _day(scalar.cast(pa.int32()).as_py())
        case "TIME":
            millis = scalar.cast(pa.int32()).as_py()
            return f"{_clock(millis // 1000)}.{millis % 1000:03d}"
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[scalar.type.unit]
            seconds, fraction = divmod(scalar.value, per_second)
            days, rest = divmod(seconds, 86400)
            text = f"{_day(days)}T{_clock(rest)}.{fraction * (10**9 // per_second):09d}"
            return text + "Z" if dtype.root == "TIMESTAMP_LTZ" else text
        case "VARIANT":
            return {"json": json.loads(variant.to_json(pa.array([scalar.as_py()], scalar.type))[0].as_py())}
        case _:
            return scalar.as_py()


def _day(days: int) -> str:
    return (date(1970, 1, 1) + timedelta(days=days)).isoformat()


def _clock(seconds: int) -> str:
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def normalised(rows: Iterable[Any], fields: Sequence[DataField]) -> list[list[Any]]:
    """Return expected rows with their map entries sorted, as `spelled` gives them."""
    return [[_settled(cell, field.type) for cell, field in zip(row, fields, strict=True)] for row in rows]


def _settled(cell: Any, dtype: DataType) -> Any:  # noqa: ANN401
    if cell is None:
        return None
    match dtype:
        case ArrayType(element=element) | VectorType(element=element):
            return [_settled(value, element) for value in cell]
        case MapType(key=key, value=value):
            return sorted(([_settled(k, key), _settled(v, value)] for k, v in cell), key=json.dumps)
        case MultisetType(element=element):
            return sorted(([_settled(k, element), v] for k, v in cell), key=json.dumps)
        case RowType(fields=fields):
            return {field.name: _settled(cell[field.name], field.type) for field in fields}
        case AtomicType(root="VARIANT"):
            return {"json": json.loads(cell["json"])}
        case AtomicType(root="FLOAT" | "DOUBLE") if isinstance(cell, int):
            return float(cell)
        case _:
            return cell
