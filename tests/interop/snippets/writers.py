"""What writers take and refuse: columns, frames, rows, the columns to write, a second preparation, an abort."""

import sys

import pandas as pd
import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.table.row.generic_row import GenericRow

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("d", False)
columns = pa.schema(
    [
        *(("a", pa.int32()), ("s", pa.string()), ("m", pa.map_(pa.string(), pa.string())), ("l", pa.list_(pa.int64()))),
        *(("b", pa.binary()), ("t", pa.timestamp("ms"))),
    ]
)
catalog.create_table("d.t", Schema.from_pyarrow_schema(columns), False)
table = catalog.get_table("d.t")
base = {"a": [1], "s": ["x"], "m": [[("k", "v")]], "l": [[1]], "b": [b"y"], "t": pd.to_datetime(["2024-01-01"])}
whole = pa.Table.from_pydict(base, schema=columns)


def read():
    builder = table.new_read_builder()
    return builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist()


def attempt(name, action, words=""):
    before = len(read())
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    try:
        action(writer)
        commit.commit(writer.prepare_commit())
        print(name, read()[before:])
    except (ValueError, KeyError, TypeError) as error:
        print(name, "refused", words in str(error))
    finally:
        writer.close()
        commit.close()


schema_words = "Input schema isn't consistent with table schema and write cols"
attempt("whole", lambda writer: writer.write_arrow(whole))
attempt("batch", lambda writer: writer.write_arrow_batch(whole.to_batches()[0]))
attempt("other order", lambda writer: writer.write_arrow(whole.select(["s", "a", "m", "l", "b", "t"])), schema_words)
attempt("fewer", lambda writer: writer.write_arrow(whole.select(["a", "s"])), schema_words)
attempt("more", lambda writer: writer.write_arrow(whole.append_column("z", pa.array([1]))), schema_words)
wide = whole.set_column(0, "a", pa.array([1], pa.int64()))
attempt("wider", lambda writer: writer.write_arrow(wide), schema_words)
attempt("large text", lambda writer: writer.write_arrow(whole.set_column(1, "s", pa.array(["x"], pa.large_string()))))
attempt("frame", lambda writer: writer.write_pandas(pd.DataFrame(base)))
attempt("frame with more", lambda writer: writer.write_pandas(pd.DataFrame({**base, "z": [1]})))
attempt("frame with fewer", lambda writer: writer.write_pandas(pd.DataFrame({"a": [1]})), "is not found in the columns")
attempt("dict as map", lambda writer: writer.write_pandas(pd.DataFrame({**base, "m": [{"k": "v"}]})))
attempt("whole floats", lambda writer: writer.write_pandas(pd.DataFrame({**base, "a": [1.0]})))
attempt("fractions", lambda writer: writer.write_pandas(pd.DataFrame({**base, "a": [1.5]})))
attempt("numbers as text", lambda writer: writer.write_pandas(pd.DataFrame({**base, "s": [5]})))
attempt("unknown column", lambda writer: writer.with_write_type(["a", "z"]), "is not in table schema")
some = whole.select(["a", "s"])
attempt("some columns", lambda writer: writer.with_write_type(["a", "s"]).write_arrow(some))
attempt("some in other order", lambda writer: writer.with_write_type(["s", "a"]).write_arrow(some), schema_words)
attempt("some of a frame", lambda writer: writer.with_write_type(["a"]).write_pandas(pd.DataFrame({"a": [5]})))
attempt("row", lambda writer: writer.write_row(GenericRow([7, "r", {"k": "v"}, [1, 2], b"", None], table.fields)))
attempt("half a row", lambda writer: writer.write_row(GenericRow([7, "r"], table.fields[:2])), "requires row field(s)")
attempt("aborted", lambda writer: (writer.write_arrow(whole), writer.abort()))

builder = table.new_batch_write_builder()
writer = builder.new_write()
print(writer.commit_user == builder.commit_user, writer.static_partition, writer.table_pyarrow_schema.names)
writer.write_arrow(whole)
messages = writer.prepare_commit()
print([(message.is_empty(), message.bucket, message.partition, len(message.new_files)) for message in messages])
try:
    writer.prepare_commit()
except RuntimeError as error:
    print("only supports one-time committing" in str(error))
writer.close()
writer.close()
print(builder.new_write().prepare_commit())
streaming = table.new_stream_write_builder()
writer = streaming.new_write()
writer.write_arrow(whole)
print(len(writer.prepare_commit(3)))
writer.write_arrow(whole)
print(len(writer.prepare_commit(2)), type(streaming.commit_user) is str)
writer.close()
