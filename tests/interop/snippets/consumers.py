"""Consumers: where each stands, and how they are reset and cleared."""

import sys
from datetime import datetime, timedelta

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.consumer.consumer import Consumer

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("feed", False)
catalog.create_table("feed.t", Schema.from_pyarrow_schema(pa.schema([("n", pa.int32())])), False)
table = catalog.get_table("feed.t")
manager = table.consumer_manager()
print(manager.consumer("nobody"), manager.min_next_snapshot(), manager.consumers())
for name, position in (("test_a", 3), ("test_b", 9), ("prod_a", 5)):
    manager.reset_consumer(name, Consumer(next_snapshot=position))
consumer = manager.consumer("test_a")
print(consumer.next_snapshot)
print(sorted(manager.consumers().items()), sorted(manager.list_all_ids()), manager.min_next_snapshot())
manager.reset_consumer("test_a", Consumer(next_snapshot=4))
print(manager.consumer("test_a").next_snapshot)
manager.delete_consumer("test_b")
print(sorted(manager.list_all_ids()))
manager.expire(datetime.now() - timedelta(days=1))
print(sorted(manager.list_all_ids()))
manager.clear_consumers("test_.*")
print(sorted(manager.list_all_ids()))
manager.reset_consumer("tmp", Consumer(next_snapshot=1))
manager.clear_consumers(".*", "prod_.*")
print(sorted(manager.list_all_ids()))
