"""One stream writer and one stream commit for several rounds."""

import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("flow", False)
columns = pa.schema([("id", pa.int64()), ("word", pa.string())])
catalog.create_table("flow.words", Schema.from_pyarrow_schema(columns, primary_keys=["id"], options={"bucket": "1"}), False)
table = catalog.get_table("flow.words")

builder = table.new_stream_write_builder()
writer, commit = builder.new_write(), builder.new_commit()
for number, words in enumerate((["a", "b"], ["c", "d"], ["e"]), start=1):
    writer.write_arrow(pa.Table.from_pydict({"id": list(range(len(words))), "word": words}, schema=columns))
    commit.commit(writer.prepare_commit(number), number)
writer.close()
commit.close()

manager = table.snapshot_manager()
latest = manager.get_latest_snapshot()
print(latest.id, latest.commit_identifier, latest.commit_kind)
print([manager.get_snapshot_by_id(each).commit_identifier for each in range(1, latest.id + 1)])
reader = table.new_read_builder()
print(reader.new_read().to_arrow(reader.new_scan().plan().splits()).to_pylist())
