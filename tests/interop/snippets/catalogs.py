"""Databases and tables: make, list, look at, rename, drop, and what happens where they are missing."""

import sys

import pandas as pd
import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.catalog.catalog_exception import (
    DatabaseAlreadyExistException,
    DatabaseNotExistException,
    TableAlreadyExistException,
    TableNotExistException,
)
from pypaimon.common.identifier import Identifier

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database(name="plant", ignore_if_exists=False, properties={"owner": "ada"})
catalog.create_database("yard", True)
catalog.create_database("yard", True)
try:
    catalog.create_database("plant", False)
except DatabaseAlreadyExistException as error:
    print("database:", error.database)
print(sorted(catalog.list_databases()))
print(catalog.get_database("plant").name)
try:
    catalog.get_database("nowhere")
except DatabaseNotExistException as error:
    print("no database:", error.database)

frame = pd.DataFrame({"day": ["mon", "tue"], "hour": ["01", "02"], "machine": [7, 8], "state": ["on", "off"]})
schema = Schema.from_pyarrow_schema(
    pa_schema=pa.RecordBatch.from_pandas(frame).schema,
    partition_keys=["day", "hour"],
    primary_keys=["day", "hour", "machine"],
    options={"bucket": "2"},
    comment="what machines said",
)
catalog.create_table(identifier="plant.states", schema=schema, ignore_if_exists=True)
catalog.create_table("plant.states", schema, True)
try:
    catalog.create_table("plant.states", schema, False)
except TableAlreadyExistException as error:
    print("table:", error.identifier.get_full_name())
table = catalog.get_table("plant.states")
print(table.identifier.get_full_name(), table.primary_keys, table.partition_keys)
print([(field.id, field.name, str(field.type)) for field in table.fields])
print(table.comment(), table.options.bucket(), table.field_names)
print(table.table_schema.id, list(table.table_schema.primary_keys), table.is_primary_key_table)
try:
    catalog.get_table("plant.nothing")
except TableNotExistException as error:
    print("no table:", error.identifier.get_full_name())

print(sorted(catalog.list_tables("plant")))
catalog.rename_table("plant.states", "plant.reports")
print(sorted(catalog.list_tables("plant")))
catalog.drop_table(Identifier.create("plant", "reports"), ignore_if_not_exists=False)
catalog.drop_table("plant.reports", ignore_if_not_exists=True)
print(catalog.list_tables("plant"))
catalog.drop_database("yard", ignore_if_not_exists=False)
print(sorted(catalog.list_databases()))
