"""Write a Ray dataset to a table, read it back with a filter, and merge changes on Ray's workers.

Run it in an empty directory: `python examples/on_ray.py`. On a cluster, every node must reach the warehouse.
"""

import os

os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # Ray stays on loopback, see "Security" in docs/ray.md

import pyarrow as pa
import ray

import lakewright as lw
import lakewright.ray as lwr

if not ray.is_initialized():
    ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1")
ray.data.DataContext.get_current().enable_progress_bars = False

catalog = lw.CatalogFactory.create({"warehouse": "warehouse"})
catalog.create_database("sales", ignore_if_exists=True)
columns = pa.schema({"id": pa.int64(), "region": pa.string(), "price": pa.float64()})
schema = lw.Schema.from_pyarrow_schema(columns, primary_keys=["id"], options={"bucket": "2"})
catalog.create_table("sales.parcels", schema, ignore_if_exists=True)
table = catalog.get_table("sales.parcels")


def parcels(batch: pa.Table) -> pa.Table:
    """Return a row for each number of a batch."""
    ids = batch["id"].to_pylist()
    rows = {"id": ids, "region": [("north", "south")[n % 2] for n in ids], "price": [n / 10 for n in ids]}
    return pa.table(rows, schema=columns)


dataset = ray.data.range(5000, override_num_blocks=4).map_batches(parcels, batch_format="pyarrow")
result = lwr.write_table(dataset, table, job_id="parcels of monday")  # committed once, however often this runs
print(f"wrote {result.rows} rows in snapshot {result.snapshot_id}: {result.method}")

changes = ray.data.from_arrow(pa.table({"id": [1, 9000], "region": ["west", "west"], "price": [1.0, 2.0]}))
merged = lwr.merge(changes, table, "id").when_matched_update().when_not_matched_insert().execute()
print("updated:", merged.updated, "inserted:", merged.inserted)

dear = lwr.read_table(table, filter="price > 400 OR region = 'west'", columns=["region", "price"])
rows = pa.concat_tables(ray.get(dear.to_arrow_refs()))
print("rows by region:", rows.group_by("region").aggregate([("price", "count")]).sort_by("region").to_pydict())
