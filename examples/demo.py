"""The main job on local files: make a table, write a million orders, change them, read them back at several times."""

from __future__ import annotations

import tempfile
import time

import numpy as np
import pyarrow as pa

import lakewright as lw

ROWS = 1_000_000
DAYS = [f"2026-11-{day:02d}" for day in range(1, 9)]


def orders(rows: int, seed: int) -> pa.Table:
    """Return random orders spread over eight days."""
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "id": pa.array(np.arange(rows)),
            "day": pa.array(np.array(DAYS)[random.integers(0, len(DAYS), rows)]),
            "customer": pa.array(random.integers(0, 50_000, rows)),
            "price": pa.array(np.round(random.gamma(2.0, 20.0, rows), 2)),
        }
    )


def say(what: str, started: float) -> None:
    """Print one line of the story with its time."""
    print(f"{time.perf_counter() - started:6.2f} s  {what}")


def prices(catalog: lw.FileSystemCatalog, data: pa.Table) -> None:
    """Keep the newest price of each order in a table with a primary key."""
    options = {"bucket": "2", "changelog-producer": "lookup"}
    newest = data.select(["id", "price"])
    catalog.create_table("sales.prices", lw.Schema.from_pyarrow_schema(newest.schema, [], ["id"], options))
    table = catalog.get_table("sales.prices")
    lw.write_table(newest, table)
    before = table.snapshot()

    started = time.perf_counter()
    reduced = newest.slice(0, 1000).set_column(1, "price", pa.compute.multiply(newest["price"].slice(0, 1000), 0.5))
    lw.write_table(reduced, table, mode="upsert")
    lw.write_table(newest.slice(1000, 500).select(["id"]), table, mode="delete")
    say(f"upserted {reduced.num_rows:,} of {newest.num_rows:,} keys, deleted 500", started)

    started = time.perf_counter()
    after = table.snapshot()
    assert before is not None
    assert after is not None
    changes = lw.read_table(table, incremental=(before.id, after.id), row_kinds=True)
    kinds = {row["values"]: row["counts"] for row in changes["_row_kind"].value_counts().to_pylist()}
    say(f"read what changed: {kinds}", started)

    started = time.perf_counter()
    result = table.compact(full=True)
    say(f"compacted {result.files_before} files to {result.files_after}, {result.rows:,} rows left", started)
    assert result.rows == newest.num_rows - 500


def main() -> None:
    """Run the story in a temporary warehouse."""
    with tempfile.TemporaryDirectory() as warehouse:
        catalog = lw.CatalogFactory.create({"warehouse": warehouse})
        catalog.create_database("sales")
        data = orders(ROWS, seed=1)
        catalog.create_table("sales.orders", lw.Schema.from_pyarrow_schema(data.schema, partition_keys=["day"]))
        table = catalog.get_table("sales.orders")

        started = time.perf_counter()
        result = lw.write_table(data, table)
        say(f"appended {result.rows:,} rows in {result.files} files: snapshot {result.snapshot_id}", started)
        table.create_tag("as-delivered")

        started = time.perf_counter()
        second = data.filter(pa.compute.equal(data["day"], DAYS[1])).slice(0, 1000)
        result = lw.write_table(second, table, mode="overwrite")
        say(f"overwrote partition {DAYS[1]} with {result.rows:,} rows: snapshot {result.snapshot_id}", started)

        started = time.perf_counter()
        rows = lw.read_table(table, filter=f"day >= '{DAYS[4]}' and price > 200", columns=["id", "price"])
        say(f"read {rows.num_rows:,} large orders of the last four days", started)
        print(table.new_read_builder().with_filter(f"day >= '{DAYS[4]}' and price > 200").explain())

        started = time.perf_counter()
        before, now = lw.read_table(table, tag="as-delivered"), lw.read_table(table)
        say(f"{before.num_rows:,} rows as delivered, {now.num_rows:,} now", started)
        assert before.num_rows == ROWS

        prices(catalog, data)
        history = lw.read_table(catalog.get_table("sales.orders$snapshots"), columns=["snapshot_id", "commit_kind"])
        print(history.to_pandas().to_string(index=False))


if __name__ == "__main__":
    main()
