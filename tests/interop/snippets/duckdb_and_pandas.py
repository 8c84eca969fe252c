"""Splits as tables of DuckDB and frames of pandas."""

import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("q", False)
columns = pa.schema([("f0", pa.int32()), ("f1", pa.string())])
catalog.create_table("q.t", Schema.from_pyarrow_schema(columns), False)
table = catalog.get_table("q.t")
builder = table.new_batch_write_builder()
writer, commit = builder.new_write(), builder.new_commit()
writer.write_arrow(pa.Table.from_pydict({"f0": [1, 2, 3], "f1": ["a", "b", None]}, schema=columns))
commit.commit(writer.prepare_commit())
writer.close()
commit.close()

read_builder = table.new_read_builder()
splits = read_builder.new_scan().plan().splits()
read = read_builder.new_read()
connection = read.to_duckdb(splits, "things")
print(connection.query("SELECT count(*), sum(f0) FROM things").fetchall())
print(connection.query("SELECT * FROM things WHERE f0 = 1").fetchall())
again = read.to_duckdb(splits, "others", connection=connection)
print(again.query("SELECT f1 FROM others ORDER BY f0").fetchall(), again is connection)
frame = read.to_pandas(splits)
print(frame.shape, list(frame.columns), frame["f0"].tolist(), str(frame["f0"].dtype))
