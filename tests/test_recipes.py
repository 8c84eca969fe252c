"""The recipes of CONTRIBUTING.md work as they are written."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakewright as lw
from lakewright.catalog.catalog_registry import CATALOGS
from lakewright.lsm.aggregation import AGGREGATES
from lakewright.lsm.column_functions import FITS
from lakewright.statements.parser import GRAMMAR

PAGE = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text()
REGISTRIES: tuple[dict[str, object], ...] = (CATALOGS, AGGREGATES, FITS, GRAMMAR)  # type: ignore[assignment]


@pytest.fixture(autouse=True)
def _follow_the_recipes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    recipes = re.findall(r"```python\n(.*?)```", PAGE.partition("## Recipes")[2], re.DOTALL)
    assert len(recipes) == len(REGISTRIES) - 1
    known = [dict(registry) for registry in REGISTRIES]
    module = ModuleType("recipes")
    monkeypatch.setitem(sys.modules, "recipes", module)
    for recipe in recipes:
        exec(recipe, vars(module) | {"pa": pa, "pc": pc})  # noqa: S102
    yield
    for registry, before in zip(REGISTRIES, known, strict=True):
        registry.clear()
        registry.update(before)


def test_an_aggregate_function(tmp_path: Path) -> None:
    columns = pa.schema([pa.field("k", pa.int64(), nullable=False), ("name", pa.string())])
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.name.aggregate-function": "upper_of_last"}
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, primary_keys=["k"], options=options))
    for name in ("ada", "grace"):
        lw.write_table(pa.table({"k": [1], "name": [name]}), catalog.get_table("d.t"))
    assert lw.read_table(catalog.get_table("d.t")).to_pylist() == [{"k": 1, "name": "GRACE"}]


def test_a_catalog(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"metastore": "archive", "warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema([("n", pa.int64())])))
    with pytest.raises(lw.UnsupportedError, match=r"d\.t is in an archive"):
        catalog.drop_table("d.t")


def test_a_sql_command(tmp_path: Path) -> None:
    context = lw.SQLContext(tmp_path)
    context.sql("CREATE DATABASE shop")
    context.sql("CREATE TABLE shop.orders (id INT)")
    assert context.sql("COUNT TABLES IN shop").to_pylist() == [{"tables": 1}]
