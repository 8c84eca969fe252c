"""Tables for reports: one with a history, and one whose names are hostile."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pyarrow as pa

import lakewright as lw

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _BROWSERS)), None)
PANELS = (
    "advice", "history", "upkeep", "partitions", "sizes", "levels", "reading", "deleted", "references", "schemas",
    "about",
)  # fmt: skip


def orders(warehouse: Path) -> lw.FileStoreTable:
    """Return a partitioned primary-key table with deletes, compactions, a tag, a branch and two schemas."""
    catalog = lw.CatalogFactory.create({"warehouse": str(warehouse)})
    catalog.create_database("shop")
    columns = {"id": pa.int64(), "day": pa.string(), "customer": pa.string(), "price": pa.float64()}
    options = {
        "bucket": "2",
        "write-only": "true",
        "snapshot.num-retained.min": "3",
        "snapshot.num-retained.max": "8",
        "num-sorted-run.compaction-trigger": "4",
    }
    schema = lw.Schema.from_pyarrow_schema(
        pa.schema(columns),
        partition_keys=["day"],
        primary_keys=["id", "day"],
        options=options,
        comment="Orders of the shop, one row for each",
    )
    catalog.create_table("shop.orders", schema)
    table = catalog.get_table("shop.orders")
    rng = random.Random(7)
    for number in range(12):
        ids = [rng.randint(0, 300) for _ in range(rng.randint(10, 120))]
        days = [f"2026-01-{1 + min(5, int(rng.expovariate(0.7))):02d}" for _ in ids]
        rows = {"id": ids, "day": days, "customer": [f"c{i % 9}" for i in ids], "price": [i / 7 for i in ids]}
        lw.write_table(pa.table(rows), table)
        if number == 4:
            table.compact(full=True)
            table.create_tag("january")
            table.create_branch("dev", "january")
            catalog.alter_table("shop.orders", [lw.SchemaChange.add_column("note", lw.AtomicType("STRING"))])
            table = catalog.get_table("shop.orders")
    lw.write_table(pa.table({"id": [1, 2], "day": ["2026-01-01"] * 2}), table, mode="delete")
    table.store.consumers.record("dashboard", 9)
    return table


def odd_table(warehouse: Path) -> lw.FileStoreTable:
    """Return a table whose names, comment, tag and values hold markup, and whose options hold a secret."""
    catalog = lw.CatalogFactory.create({"warehouse": str(warehouse)})
    catalog.create_database("d")
    hostile = "<script>alert(1)</script>"
    schema = lw.Schema.from_pyarrow_schema(
        pa.schema({hostile: pa.int64(), "p": pa.string()}),
        partition_keys=["p"],
        options={"s3.secret-key": "HUSH"},
        comment="<img src=x onerror=alert(2)> \"quoted\" & 'single'",
    )
    catalog.create_table("d.odd", schema)
    table = catalog.get_table("d.odd")
    lw.write_table(pa.table({hostile: [1, 2, 3], "p": ["<b>x</b>", "مرحبا بالعالم", "plain"]}), table)
    table.create_tag("<i>tag")
    return table
