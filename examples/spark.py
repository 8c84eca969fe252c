"""Write, upsert, change and read a table on Spark, and query it with Spark SQL.

Run it in an empty directory: `python examples/spark.py`. On a cluster, use its session instead of `local_session`,
and a warehouse that all workers reach.
"""

import pyarrow as pa

import lakewright as lw
import lakewright.spark as lws

spark = lws.local_session("example")
catalog = lw.CatalogFactory.create({"warehouse": "warehouse"})
catalog.create_database("sales", ignore_if_exists=True)
columns = pa.schema({"id": pa.int64(), "region": pa.string(), "price": pa.float64()})
schema = lw.Schema.from_pyarrow_schema(columns, primary_keys=["id"], options={"bucket": "2"})
catalog.create_table("sales.orders", schema, ignore_if_exists=True)
table = catalog.get_table("sales.orders")

orders = spark.sql("SELECT id, if(id % 3 = 0, 'north', 'south') AS region, id * 1e-1 AS price FROM range(10000)")
result = lws.write_table(orders, table, job_id="orders of monday")  # committed once, however often this runs
print(f"wrote {result.rows} rows in snapshot {result.snapshot_id}: {result.method}")

cheaper = spark.sql("SELECT id, 1e0 AS price FROM range(100)")
lws.write_table(cheaper, table, mode="upsert")  # the column `region` stays as it is
print("deleted:", lws.delete(spark, table, "price >= 900").deleted)

closed = spark.sql("SELECT 1L AS id, 'closed' AS region UNION ALL SELECT 20000L, 'new'")
merge = lws.merge(closed, table, on="id").when_matched_update({"region": lw.source_col("region")})
merged = merge.when_not_matched_insert().execute()
print("updated:", merged.updated, "inserted:", merged.inserted)

dear = lws.read_table(spark, table, filter="price > 899.5", columns=["id", "price"])
print("orders above 899.5:", dear.count())
lws.attach(spark, catalog, "sales")
spark.sql(
    "SELECT region, count(*) AS orders, round(sum(price)) AS turnover FROM orders GROUP BY region ORDER BY 1"
).show()
