"""Write, upsert, delete and read a table in one process, and look at its history.

Run it in an empty directory: `python examples/embedded.py`.
"""

import pyarrow as pa

import lakewright as lw

catalog = lw.CatalogFactory.create({"warehouse": "warehouse"})
catalog.create_database("shop", ignore_if_exists=True)
orders = pa.table(
    {
        "id": [1, 2, 3, 4],
        "day": ["mon", "mon", "tue", "tue"],
        "item": ["tea", "salt", "oil", "rice"],
        "price": [9.5, 3.0, 7.25, 4.0],
    }
)
schema = lw.Schema.from_pyarrow_schema(orders.schema, partition_keys=["day"], primary_keys=["day", "id"])
catalog.create_table("shop.orders", schema, ignore_if_exists=True)
table = catalog.get_table("shop.orders")

print(lw.write_table(orders, table))  # one snapshot; rows with known keys would be replaced
table.create_tag("opening", ignore_if_exists=True)

cheaper = pa.table({"id": [1, 5], "day": ["mon", "tue"], "price": [8.0, 2.5]})
print(lw.write_table(cheaper, table, mode="upsert"))  # the column `item` stays as it is
print(table.delete("price < 3"))

print("\nOrders of Monday:")
for row in lw.read_table(table, filter="day = 'mon'", columns=["id", "item", "price"]).to_pylist():
    print(row)

print("\nOrders at the tag 'opening':", lw.read_table(table, tag="opening").num_rows)
print("\nSnapshots:")
history = catalog.get_table("shop.orders$snapshots")
for row in lw.read_table(history, columns=["snapshot_id", "commit_kind", "total_record_count"]).to_pylist():
    print(row)
