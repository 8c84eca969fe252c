"""A catalog whose names are in a SQL database: databases with properties, tables, rows, renames."""

import sqlite3
import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.catalog.catalog_exception import DatabaseNotExistException, TableNotExistException
from pypaimon.catalog.rest.property_change import PropertyChange
from pypaimon.common.options.config import CatalogOptions, JdbcCatalogOptions

options = {
    CatalogOptions.METASTORE.key(): "jdbc",
    CatalogOptions.URI.key(): f"jdbc:sqlite:{sys.argv[1]}/names.db",
    CatalogOptions.WAREHOUSE.key(): f"{sys.argv[1]}/lake",
    JdbcCatalogOptions.CATALOG_KEY.key(): "team",
}
catalog = CatalogFactory.create(options)
print(type(catalog).__name__, catalog.supports_version_management())
catalog.create_database("shop", False, {"owner": "ann"})
catalog.alter_database("shop", [PropertyChange.set_property("team", "x"), PropertyChange.remove_property("owner")])
print({k: v for k, v in catalog.get_database("shop").options.items() if k in {"owner", "team"}})
columns = pa.schema([("id", pa.int64()), ("n", pa.int64())])
catalog.create_table("shop.orders", Schema.from_pyarrow_schema(columns, options={"bucket": "-1"}), False)
print(catalog.list_databases(), catalog.list_tables("shop"))

builder = catalog.get_table("shop.orders").new_batch_write_builder()
writer, commit = builder.new_write(), builder.new_commit()
writer.write_arrow(pa.Table.from_pydict({"id": [1, 2], "n": [3, 4]}, schema=columns))
commit.commit(writer.prepare_commit())
writer.close()
commit.close()
catalog.rename_table("shop.orders", "shop.sales")
table = catalog.get_table("shop.sales")
reading = table.new_read_builder()
print(reading.new_read().to_arrow(reading.new_scan().plan().splits()).to_pylist())
print(table.snapshot_manager().get_latest_snapshot().id)

for name in ("shop.orders", "nowhere.t"):
    try:
        catalog.get_table(name)
    except (TableNotExistException, DatabaseNotExistException) as error:
        print(type(error).__name__)
with sqlite3.connect(f"{sys.argv[1]}/names.db") as names:
    print(names.execute("SELECT * FROM paimon_tables ORDER BY 1, 2, 3").fetchall())
catalog.drop_table("shop.sales", False)
catalog.drop_database("shop", False, False)
print(catalog.list_databases())
catalog.close()
