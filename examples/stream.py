"""Follow the changes of a table with a consumer, which continues where it stopped.

Run it in an empty directory: `python examples/stream.py`.
"""

import pyarrow as pa

import lakewright as lw

catalog = lw.CatalogFactory.create({"warehouse": "warehouse"})
catalog.create_database("shop", ignore_if_exists=True)
columns = pa.schema({"id": pa.int64(), "stock": pa.int64()})
# A changelog producer lets readers see which rows an update replaced.
options = {"bucket": "1", "changelog-producer": "lookup"}
schema = lw.Schema.from_pyarrow_schema(columns, primary_keys=["id"], options=options)
catalog.create_table("shop.items", schema, ignore_if_exists=True)
table = catalog.get_table("shop.items")


def follow(consumer: str) -> None:
    """Print the changes that a consumer has not seen yet, and store its progress in the table."""
    stream = table.new_stream_read_builder().with_include_row_kind().with_consumer_id(consumer)
    read, scan = stream.new_read(), stream.new_streaming_scan()
    while (plan := scan.plan()) is not None:  # None: no new snapshot; a service would wait and ask again
        for row in read.to_arrow(plan.splits()).to_pylist():
            print(" ", row["_row_kind"], row["id"], row["stock"])
        scan.notify_checkpoint_complete(scan.checkpoint())  # processed: snapshots before may expire


lw.write_table(pa.table({"id": [1, 2, 3], "stock": [5, 7, 9]}), table)
print("The table:")
follow("billing")

lw.write_table(pa.table({"id": [2], "stock": [6]}), table)
lw.write_table(pa.table({"id": [3]}), table, mode="delete")
print("What changed:")
follow("billing")

print("Nothing new:")
follow("billing")
print("Consumers of the table:", lw.read_table(catalog.get_table("shop.items$consumers")).to_pylist())
