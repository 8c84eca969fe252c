"""What row changes, merges, writers and commits refuse: the kind of exception, and the words that callers look for."""

import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.schema.data_types import AtomicType, DataField
from pypaimon.table.data_evolution_merge_into import WhenMatched, WhenNotMatched, lit, source_col, target_col
from pypaimon.table.row.generic_row import GenericRow

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("db", False)
columns = pa.schema([("k", pa.int64()), ("v", pa.string()), ("n", pa.int32())])
tracked = {"row-tracking.enabled": "true"}
evolving = {**tracked, "data-evolution.enabled": "true"}
deletable = {**evolving, "deletion-vectors.enabled": "true"}
keyed = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string()), ("n", pa.int32())])


def create(name, options, partition_keys=None, primary_keys=None, schema=columns):
    declared = Schema.from_pyarrow_schema(schema, partition_keys, primary_keys, options)
    catalog.create_table(f"db.{name}", declared, False)
    table = catalog.get_table(f"db.{name}")
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(rows([1, 2], schema))
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()
    return table


def rows(keys, schema=columns, **others):
    values = {"k": keys, "v": [f"v{key}" for key in keys], "n": keys, **others}
    return pa.Table.from_pydict({name: values[name] for name in schema.names}, schema=schema)


def ids(*numbers, **others):
    return pa.table({"_ROW_ID": pa.array(numbers, pa.int64()), **others})


plain = create("plain", {})
only_tracked = create("tracked", tracked)
evolved = create("evolved", evolving)
vectors = create("vectors", deletable)
parted = create("parted", deletable, ["v"])
plain_parted = create("plain_parted", {"dynamic-partition-overwrite": "false"}, ["v"])
primary = create("primary", {"bucket": "1"}, None, ["k"], keyed)


def update(table):
    return table.new_batch_write_builder().new_update()


def where(table, key=1):
    return table.new_read_builder().new_predicate_builder().equal("k", key)


def text(number):
    return pa.array(["x"] * number)


def overlapping():
    updater = update(evolved).new_update_by_row_id()
    updater.update_columns(ids(0, v=text(1)), ["v"])
    updater.update_columns(ids(1, v=text(1)), ["v"])


def merge(table, source=None, on="k", **clauses):
    clauses = clauses or {"when_matched": [WhenMatched.update("*")]}
    return update(table).merge_into(rows([1, 3]) if source is None else source, on=on, **clauses)


def shard(count):
    updator = update(evolved)
    updator.with_read_projection(["k"])
    updator = updator.with_update_type(["v"]).new_shard_updator(0, 1)
    updator.update_by_arrow_batch(pa.record_batch([text(count)], names=["v"]))
    updator.prepare_commit()


def twice(table):
    writer = table.new_batch_write_builder().new_write()
    writer.prepare_commit()
    writer.prepare_commit()


def commit_twice(table):
    commit = table.new_batch_write_builder().new_commit()
    commit.commit([])
    commit.commit([])


def write(table, data, *arguments):
    writer = table.new_batch_write_builder().new_write()
    writer.write_arrow(data, *arguments)
    writer.prepare_commit()


def write_some(table):
    writer = table.new_batch_write_builder().new_write().with_write_type(["k", "v"])
    writer.write_arrow(rows([1], keyed).select(["k", "v"]))


def overwrite(table, partition, data):
    builder = table.new_batch_write_builder().overwrite(partition)
    writer = builder.new_write()
    writer.write_arrow(data)
    builder.new_commit().commit(writer.prepare_commit())


def truncate(table, partitions):
    table.new_batch_write_builder().new_commit().truncate_partitions(partitions)


key_field, other_field = DataField(0, "k", AtomicType("BIGINT")), DataField(7, "z", AtomicType("BIGINT"))
value_field = DataField(1, "v", AtomicType("STRING"))
one_row = GenericRow([1], [key_field])
matched = [WhenMatched.update("*")]

CASES = [
    # updates by a condition
    (ValueError, "'data-evolution.enabled' = 'true'", lambda: update(plain).update_by_predicate(where(plain), {"v": "x"})),
    (ValueError, "'data-evolution.enabled' = 'true'", lambda: update(primary).update_by_predicate(where(primary), {"v": "x"})),
    (ValueError, "update_by_predicate requires", lambda: update(only_tracked).update_by_predicate(None, {"v": "x"})),
    (ValueError, "assignments must not be empty", lambda: update(evolved).update_by_predicate(where(evolved), {})),
    (ValueError, "read_columns requires a callable assignment", lambda: update(evolved).update_by_predicate(None, {"v": "x"}, ["k"])),
    (ValueError, "Callable assignments require read_columns", lambda: update(evolved).update_by_predicate(None, {"v": lambda t: t["v"]})),
    (ValueError, "Callable assignments cannot be combined", lambda: update(evolved).update_by_predicate(None, {"v": lambda t: t["v"], "n": pa.array([1, 2])}, ["v"])),
    (ValueError, "Read column z is not in table schema", lambda: update(evolved).update_by_predicate(None, {"v": lambda t: t["v"]}, ["z"])),
    (ValueError, "Column z is not in table schema", lambda: update(evolved).update_by_predicate(None, {"z": 1})),
    (ValueError, "does not support updating partition column 'v'", lambda: update(parted).update_by_predicate(None, {"v": "x"})),
    (ValueError, "Callable assignment for v must return", lambda: update(evolved).update_by_predicate(None, {"v": lambda t: ["x"]}, ["v"])),
    (ValueError, "Assignment array length must match matched row count: 1 != 2", lambda: update(evolved).update_by_predicate(None, {"v": text(1)})),
    (ValueError, "Assignment array length must match matched row count: 3 != 2", lambda: update(evolved).update_by_predicate(None, {"v": lambda t: text(3)}, ["v"])),
    (ValueError, "Column z is not in table schema", lambda: update(evolved).with_update_type(["z"])),
    # updates by row ids
    (ValueError, "Input data must contain _ROW_ID column", lambda: update(evolved).update_by_arrow_with_row_id(rows([1]))),
    (ValueError, "duplicate _ROW_ID", lambda: update(evolved).update_by_arrow_with_row_id(ids(0, 0, v=text(2)))),
    (ValueError, "Row ID 99 does not belong to any valid range", lambda: update(evolved).update_by_arrow_with_row_id(ids(99, v=text(1)))),
    (ValueError, "does not belong to any valid range", lambda: update(plain).update_by_arrow_with_row_id(ids(0, v=text(1)))),
    (ValueError, "column_names cannot be empty", lambda: update(evolved).update_by_arrow_with_row_id(ids(0))),
    (ValueError, "Column z not found in table schema", lambda: update(evolved).update_by_arrow_with_row_id(ids(0, z=text(1)))),
    (ValueError, "column_names cannot be empty", lambda: update(evolved).new_update_by_row_id().update_columns(ids(0, v=text(1)), [])),
    (ValueError, "Column z not found in table schema", lambda: update(evolved).new_update_by_row_id().update_columns(ids(0, z=text(1)), ["z"])),
    (ValueError, "overlapping first_row_ids", overlapping),
    (ValueError, "overlapping first_row_ids", lambda: update(evolved).update_by_arrow_batches_with_row_id([ids(0, v=text(1)), ids(0, v=text(1))])),
    (ValueError, "overlapping first_row_ids", lambda: update(evolved).update_by_arrow_batches_with_row_id([ids(0, v=text(1)), ids(1, v=text(1))])),
    (ValueError, "rows and row_ids_by_row must have the same length", lambda: update(evolved).new_update_by_row_id().update_rows_columns([one_row], [], ["k"])),
    (ValueError, "column_names cannot be empty", lambda: update(evolved).new_update_by_row_id().update_rows_columns([one_row], [[0]], [])),
    # updates of a shard
    (RuntimeError, "No more row ranges to write", lambda: shard(3)),
    # upserts
    (ValueError, "upsert_by_arrow_with_key requires 'data-evolution.enabled' = 'true'", lambda: update(plain).upsert_by_arrow_with_key(rows([1]), ["k"])),
    (ValueError, "'data-evolution.enabled' = 'true'", lambda: update(only_tracked).upsert_by_arrow_with_key(rows([1]), ["k"])),
    (ValueError, "'data-evolution.enabled' = 'true'", lambda: update(primary).upsert_by_arrow_with_key(rows([1]), ["k"])),
    (ValueError, "upsert_keys must not be empty", lambda: update(evolved).upsert_by_arrow_with_key(rows([1]), [])),
    (ValueError, "upsert_key 'z' is not in table schema", lambda: update(evolved).upsert_by_arrow_with_key(rows([1]), ["z"])),
    (ValueError, "upsert_key 'k' is not in input data columns", lambda: update(evolved).upsert_by_arrow_with_key(rows([1]).select(["v", "n"]), ["k"])),
    (ValueError, "must contain all partition key", lambda: update(parted).upsert_by_arrow_with_key(rows([1]).select(["k", "n"]), ["k"])),
    (ValueError, "Missing: ['v']", lambda: update(parted).upsert_by_arrow_with_key(rows([1]).select(["k", "n"]), ["k"])),
    (ValueError, "Input data is empty", lambda: update(evolved).upsert_by_arrow_with_key(rows([]), ["k"])),
    (ValueError, "upsert_by_key requires 'data-evolution.enabled' = 'true'", lambda: update(plain).upsert_by_key([one_row], ["k"])),
    (ValueError, "rows must not be empty", lambda: update(evolved).upsert_by_key([], ["k"])),
    (ValueError, "upsert_keys must not be empty", lambda: update(evolved).upsert_by_key([one_row], [])),
    (ValueError, "upsert_key 'z' is not in table schema", lambda: update(evolved).upsert_by_key([one_row], ["z"])),
    (ValueError, "got row field(s) ['z']", lambda: update(evolved).upsert_by_key([GenericRow([1, 2], [key_field, other_field])], ["k"])),
    (ValueError, "upsert_by_key requires row field(s) ['k']", lambda: update(evolved).upsert_by_key([GenericRow(["x"], [value_field])], ["k"])),
    (ValueError, "same field set", lambda: update(evolved).upsert_by_key([GenericRow([8], [key_field]), GenericRow([9, "x"], [key_field, value_field])], ["k"])),
    # deletes
    (ValueError, "delete requires 'data-evolution.enabled' = 'true'", lambda: update(plain).delete_by_row_id([0])),
    (ValueError, "delete requires 'data-evolution.enabled' = 'true'", lambda: update(primary).delete_by_row_id([0])),
    (ValueError, "delete requires 'data-evolution.enabled' = 'true'", lambda: update(only_tracked).delete_by_predicate(where(only_tracked))),
    (ValueError, "delete requires 'deletion-vectors.enabled' = 'true'", lambda: update(evolved).delete_by_predicate(where(evolved))),
    (ValueError, "delete requires 'deletion-vectors.enabled' = 'true'", lambda: update(evolved).delete_by_predicate(None)),
    (ValueError, "delete requires 'deletion-vectors.enabled' = 'true'", lambda: update(evolved).delete_by_row_id([0])),
    (ValueError, "Row ID 99 does not belong to any valid range", lambda: update(vectors).delete_by_row_id([99])),
    (ValueError, "_ROW_ID value must not be null", lambda: update(vectors).delete_by_row_id([None])),
    # merges
    (ValueError, "At least one of when_matched or when_not_matched must be non-empty", lambda: merge(evolved, when_matched=[])),
    (ValueError, "Only the last when_matched clause may omit its condition", lambda: merge(evolved, when_matched=[*matched, *matched])),
    (ValueError, "Only the last when_not_matched clause may omit", lambda: merge(evolved, when_not_matched=[WhenNotMatched("*"), WhenNotMatched("*")])),
    (ValueError, "merge_into requires 'data-evolution.enabled' = 'true' on target table", lambda: merge(plain)),
    (ValueError, "merge_into requires 'data-evolution.enabled' = 'true'", lambda: merge(only_tracked)),
    (ValueError, "merge_into requires 'data-evolution.enabled' = 'true'", lambda: merge(primary)),
    (ValueError, "merge_into DELETE requires 'deletion-vectors.enabled' =", lambda: merge(evolved, when_matched=[WhenMatched.delete()])),
    (ValueError, "does not support updating partition columns ['v']", lambda: merge(parted, when_matched=[WhenMatched.update({"v": "s.v"})])),
    (ValueError, "does not support updating partition columns ['v']", lambda: merge(parted, on=["k", "v"])),
    (ValueError, "must not reference target columns (t.*)", lambda: merge(evolved, when_not_matched=[WhenNotMatched("*", condition="t.n > 1")])),
    (ValueError, "does not support WHEN NOT MATCHED clauses", lambda: merge(evolved, evolved, ["_ROW_ID"], when_matched=[WhenMatched.update({"v": lit("x")})], when_not_matched=[WhenNotMatched("*")])),
    (ValueError, "unknown source column 'z'", lambda: merge(evolved, when_matched=[WhenMatched.update("*", condition="s.z > 1")])),
    (ValueError, "unknown target column 'z'", lambda: merge(evolved, when_matched=[WhenMatched.update("*", condition="t.z > 1")])),
    (ValueError, "MERGE matched multiple source rows to the same target _ROW_ID", lambda: merge(evolved, rows([1, 1]))),
    (TypeError, "source must be a pyarrow.Table, a pandas.DataFrame", lambda: merge(evolved, [1])),
    (TypeError, "source must be a pyarrow.Table", lambda: merge(evolved, "db.t")),
    (ValueError, "missing from source schema", lambda: merge(evolved, rows([1]).select(["v", "n"]))),
    (ValueError, "on", lambda: merge(evolved, on=[])),
    (ValueError, "z", lambda: merge(evolved, on=["z"])),
    (ValueError, "z", lambda: merge(evolved, when_matched=[WhenMatched.update({"z": "s.v"})])),
    (ValueError, "z", lambda: merge(evolved, when_matched=[WhenMatched.update({"v": source_col("z")})])),
    (ValueError, "z", lambda: merge(evolved, when_matched=[WhenMatched.update({"v": target_col("z")})])),
    (ValueError, "n", lambda: merge(evolved, rows([1]).select(["k", "v"]))),
    (ValueError, "target", lambda: merge(evolved, when_not_matched=[WhenNotMatched({"k": target_col("k")})])),
    (ValueError, "must be 'update' or 'delete'", lambda: WhenMatched("insert")),
    (ValueError, "WhenMatched.update requires an update spec", lambda: WhenMatched("update")),
    (ValueError, "WhenMatched.delete must not specify update", lambda: WhenMatched("delete", update={"v": "s.v"})),
    # writers and commits
    (ValueError, "Column z is not in table schema", lambda: plain.new_batch_write_builder().new_write().with_write_type(["z"])),
    (ValueError, "Input schema isn't consistent with table schema and write cols", lambda: write(plain, rows([1]).select(["k"]))),
    (NotImplementedError, "with_write_type is not yet supported on primary-key", lambda: write_some(primary)),
    (ValueError, "Precomputed bucket writes are only valid for", lambda: write(plain, rows([1]), 0)),
    (ValueError, "Bucket id must be between 0 and 0", lambda: write(primary, rows([1], keyed), 1)),
    (RuntimeError, "Primary key should not be null", lambda: write(primary, rows([None]))),
    (RuntimeError, "BatchTableWrite only supports one-time committing", lambda: twice(plain)),
    (RuntimeError, "BatchTableCommit only supports one-time committing", lambda: commit_twice(plain)),
    (ValueError, "Partitions list cannot be empty", lambda: truncate(parted, [])),
    (ValueError, "Partition spec key 'z' is not a partition column", lambda: truncate(parted, [{"z": "x"}])),
    (RuntimeError, "does not belong to this partition", lambda: overwrite(plain_parted, {"v": "v1"}, rows([2]))),
]

for kind, words, call in CASES:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - the kind is what is looked at
        print(kind.__name__, isinstance(error, kind), repr(words), words in str(error))
    else:
        print(kind.__name__, repr(words), "accepted")
