"""Every line of the pages for users of Delta Lake and Iceberg runs, with the library that they come from and with ours.

Each row of a table begins with the same two snapshots on both sides. Afterwards both tables have the same rows, and
where both expressions give rows, these are the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakewright as lw

deltalake = pytest.importorskip("deltalake")
pyiceberg_catalog = pytest.importorskip("pyiceberg.catalog")
pyiceberg_types = pytest.importorskip("pyiceberg.types")

DOCS = Path(__file__).parent.parent / "docs"
CODE = re.compile(r"`([^`]+)`")
ORDERS = pa.table({"id": [1, 2, 3], "day": ["mon", "mon", "tue"], "price": [9.5, 3.0, 7.25]})
LATER = pa.table({"id": [5], "day": ["tue"], "price": [2.0]})
DATA = pa.table({"id": [2], "day": ["mon"], "price": [4.0]})
SHARED = {"data": DATA, "wide": DATA.append_column("note", pa.array(["x"])), "pa": pa}
Side = tuple[dict[str, Any], Callable[[], pa.Table]]  # the names that a cell may use, and what reads the table


def rows_of_page(name: str) -> list[tuple[str, str]]:
    lines = (DOCS / name).read_text().splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| `")]
    return [(left, right) for left, right in cells]


def ours(tmp_path: Path) -> Side:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path / "ours")})
    catalog.create_database("sales")
    catalog.create_table("sales.orders", lw.Schema.from_pyarrow_schema(ORDERS.schema, partition_keys=["day"]))
    table = catalog.get_table("sales.orders")
    lw.write_table(ORDERS, table)
    lw.write_table(LATER, table)

    def read() -> pa.Table:
        (name,) = (one for one in catalog.list_tables("sales") if one != "new")
        return lw.read_table(catalog.get_table(f"sales.{name}"))

    return {"lw": lw, "catalog": catalog, "table": table, **SHARED}, read


def delta(tmp_path: Path) -> Side:
    path = str(tmp_path / "delta")
    deltalake.write_deltalake(path, ORDERS, partition_by=["day"])
    deltalake.write_deltalake(path, LATER, mode="append")
    names = {name: getattr(deltalake, name) for name in ("DeltaTable", "write_deltalake", "CommitProperties")}
    names |= {"dt": deltalake.DeltaTable(path), "path": path}
    return {**names, **SHARED}, lambda: deltalake.DeltaTable(path).to_pyarrow_table()


def iceberg(tmp_path: Path) -> Side:
    (tmp_path / "iceberg").mkdir()
    catalog = pyiceberg_catalog.load_catalog(
        "sql", type="sql", uri=f"sqlite:///{tmp_path}/iceberg.db", warehouse=(tmp_path / "iceberg").as_uri()
    )
    catalog.create_namespace("sales")
    table = catalog.create_table("sales.orders", schema=ORDERS.schema)
    with table.update_spec() as spec:
        spec.add_identity("day")
    table.append(ORDERS)
    first = table.current_snapshot().snapshot_id
    table.append(LATER)
    names = {"catalog": catalog, "table": table, "first": first, "StringType": pyiceberg_types.StringType}
    names["load_catalog"] = pyiceberg_catalog.load_catalog

    def read() -> pa.Table:
        (name,) = (name for _, name in catalog.list_tables("sales") if name != "new")
        return catalog.load_table(f"sales.{name}").scan().to_arrow()

    return {**names, **SHARED}, read


def run(cell: str, names: dict[str, Any]) -> object:
    """Evaluate the expressions of a cell and return the value of the last one."""
    return [eval(code, dict(names)) for code in CODE.findall(cell)][-1]  # noqa: S307 - our own pages


def plain(found: object) -> list[str] | None:
    """Return rows in an order of their own; None for what is no rows of the table."""
    if isinstance(found, pa.Table):
        rows = found.to_pylist()
    elif hasattr(found, "to_dicts"):
        rows = found.to_dicts()
    elif hasattr(found, "to_dict"):
        rows = found.to_dict("records")
    else:
        return None
    return sorted(repr(sorted(row.items())) for row in rows)


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("page", "cells"),
    [(page, cells) for page in ("from-delta.md", "from-iceberg.md") for cells in rows_of_page(page)],
    ids=lambda value: value[0][:70] if isinstance(value, tuple) else value,
)
def test_both_sides_of_a_line_do_the_same(
    page: str, cells: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    their_names, their_rows = (delta if page == "from-delta.md" else iceberg)(tmp_path)
    our_names, our_rows = ours(tmp_path)
    theirs, mine = run(cells[0], their_names), run(cells[1], our_names)
    assert plain(our_rows()) == plain(their_rows())
    about_files = "inspect" in cells[0] or "history" in cells[0]
    if plain(theirs) is not None and not about_files:
        assert plain(mine) == plain(theirs)
    elif isinstance(theirs, bool):
        assert mine is theirs


def test_the_pages_have_their_lines() -> None:
    assert len(rows_of_page("from-delta.md")) > 15
    assert len(rows_of_page("from-iceberg.md")) > 15
