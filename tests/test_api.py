"""Code written for pypaimon works after changing the import: the names, arguments and defaults its users rely on."""

from __future__ import annotations

import inspect
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.errors import DatabaseAlreadyExistException, DatabaseNotExistException, TableNotExistException
from lakewright.spec.table_options import CoreOptions

# `name(argument, argument=default)`; more arguments may follow as keywords. What later steps bring is not listed.
SURFACE = {
    "TableWrite": [
        "close()",
        "with_write_type(write_cols)",
        "write_arrow(data, bucket=None, row_kinds=None)",
        "write_arrow_batch(data, bucket=None, row_kinds=None)",
        "delete_arrow(keys)",
        "write_pandas(dataframe)",
    ],
    "BatchWriteBuilder": ["new_commit()", "new_update()", "new_write()", "overwrite(static_partition=None)"],
    "BatchTableUpdate": [
        "delete_by_predicate(predicate)",
        "delete_by_row_id(row_ids)",
        "merge_into(source, on, when_matched=(), when_not_matched=())",
        "update_by_arrow_with_row_id(table)",
        "update_by_predicate(predicate, assignments, read_columns=None)",
        "upsert_by_arrow_with_key(table, upsert_keys)",
    ],
    "TableUpdate": [
        "new_predicate_builder()",
        "new_shard_updator(shard_num, total_shard_count)",
        "with_read_projection(projection)",
        "with_update_type(update_cols)",
    ],
    "StreamTableUpdate": [
        "delete_by_predicate(predicate, commit_identifier)",
        "delete_by_row_id(row_ids, commit_identifier)",
        "update_by_arrow_with_row_id(table, commit_identifier)",
        "update_by_predicate(predicate, assignments, commit_identifier, read_columns=None)",
        "upsert_by_arrow_with_key(table, upsert_keys, commit_identifier)",
    ],
    "ShardTableUpdator": ["arrow_reader()", "prepare_commit()", "update_by_arrow_batch(data)"],
    "WhenMatched": ["delete(condition=None)", "update(update='*', condition=None)"],
    "FileStoreTable": [
        "comment()",
        "compact(full=False, partitions=None, where=None, order_by=None, strategy=None, idle=None, dry_run=False)",
        "copy(options)",
        "create_tag(tag_name, snapshot_id=None, ignore_if_exists=False, time_retained=None)",
        "expire_snapshots(retain_max=None, retain_min=None, older_than=None, max_deletes=None)",
        "list_tags()",
        "merge(source, on)",
        "new_batch_write_builder()",
        "new_read_builder()",
        "new_postpone_fixed_bucket_write_builder()",
        "new_stream_read_builder()",
        "new_stream_write_builder()",
        "new_write_builder()",
        "rename_tag(old_name, new_name)",
        "replace_tag(tag_name, snapshot_id=None, time_retained=None)",
        "rescale(buckets, partitions=None)",
        "row_type()",
        "snapshot(snapshot_id=None)",
        "upsert(data, keys=None)",
    ],
    "MergeBuilder": [
        "execute()",
        "when_matched_delete(condition=None)",
        "when_matched_update(assignments=None, condition=None)",
        "when_not_matched_by_source_delete(condition=None)",
        "when_not_matched_by_source_update(assignments, condition=None)",
        "when_not_matched_insert(assignments=None, condition=None)",
    ],
    "TableCommit": ["abort(commit_messages)", "add_commit_callback(callback)", "close()"],
    "BatchTableCommit": [
        "commit(commit_messages, snapshot_properties=None)",
        "overwrite(messages, static_partitions=None)",
        "truncate_partitions(partitions)",
        "truncate_table()",
    ],
    "BatchTableWrite": ["prepare_commit()"],
    "StreamTableWrite": ["prepare_commit(commit_identifier)"],
    "StreamWriteBuilder": ["new_commit()", "new_update()", "new_write()"],
    "PostponeFixedBucketWriteBuilder": ["new_commit()", "new_write()"],
    "PostponeFixedBucketBatchTableWrite": [
        "close()",
        "delete_arrow(keys)",
        "prepare_commit()",
        "write_arrow(data, bucket=None)",
        "write_arrow_batch(data, bucket=None)",
    ],
    "StreamTableCommit": [
        "commit(commit_messages, commit_identifier, snapshot_properties=None)",
        "filter_and_commit(commit_messages)",
    ],
    "StreamReadBuilder": [
        "new_predicate_builder()",
        "new_read()",
        "new_streaming_scan()",
        "read_type()",
        "with_bucket_filter(bucket_filter)",
        "with_buckets(bucket_ids)",
        "with_consumer_id(consumer_id)",
        "with_filter(predicate)",
        "with_include_row_kind(include=True)",
        "with_poll_interval_ms(poll_interval_ms)",
        "with_projection(projection)",
    ],
    "StreamScan": [
        "checkpoint()",
        "notify_checkpoint_complete(next_snapshot)",
        "plan()",
        "restore(next_snapshot)",
        "stream()",
        "stream_sync()",
    ],
    "TableRead": [
        "to_arrow(splits, parallelism=None)",
        "to_duckdb(splits, table_name, connection=None, parallelism=None)",
        "to_iterator(splits)",
        "to_pandas(splits, parallelism=None)",
        "to_arrow_batch_reader(splits)",
    ],
    "FileSystemCatalog": [
        "alter_table(identifier, changes, ignore_if_not_exists=False)",
        "create_database(name, ignore_if_exists, properties=None)",
        "create_table(identifier, schema, ignore_if_exists)",
        "create_tag(identifier, tag_name, snapshot_id=None, time_retained=None, ignore_if_exists=False)",
        "delete_tag(identifier, tag_name)",
        "drop_partitions(identifier, partitions)",
        "get_database(name)",
        "get_table(identifier)",
        "get_tag(identifier, tag_name)",
        "list_branches(identifier)",
        "list_partitions_paged(identifier, max_results=None, page_token=None, partition_name_pattern=None)",
        "list_tables(database_name)",
        "list_tags_paged(identifier, max_results=None, page_token=None, tag_name_prefix=None)",
    ],
    "ReadBuilder": [
        "explain(verbose=False)",
        "new_predicate_builder()",
        "new_read()",
        "new_scan()",
        "read_type()",
        "with_filter(predicate)",
        "with_include_row_kind(include=True)",
        "with_limit(limit)",
        "with_projection(projection)",
        "with_shard(idx_of_this_subtask, number_of_para_subtasks)",
    ],
    "Schema": [
        "__init__(fields=None, partition_keys=None, primary_keys=None, options=None, comment=None)",
        "from_pyarrow_schema(pa_schema, partition_keys=None, primary_keys=None, options=None, comment=None)",
    ],
    "TableScan": [
        "plan()",
        "with_chunk_shuffle(seed, chunk_size)",
        "with_shard(idx_of_this_subtask, number_of_para_subtasks)",
        "with_slice(start_pos, end_pos)",
    ],
    "Plan": ["splits()"],
    "PredicateBuilder": [
        "and_predicates(predicates)",
        "between(field, included_lower_bound, included_upper_bound)",
        "contains(field, pattern_literal)",
        "endswith(field, pattern_literal)",
        "equal(field, literal)",
        "greater_or_equal(field, literal)",
        "greater_than(field, literal)",
        "is_in(field, literals)",
        "is_not_in(field, literals)",
        "is_not_null(field)",
        "is_null(field)",
        "less_or_equal(field, literal)",
        "less_than(field, literal)",
        "like(field, pattern_literal)",
        "not_between(field, included_lower_bound, included_upper_bound)",
        "not_equal(field, literal)",
        "or_predicates(predicates)",
        "startswith(field, pattern_literal)",
    ],
    "Identifier": [
        "__init__(database, object=None, branch=None, system_table=None)",
        "create(database, table, branch=None, system_table=None)",
        "from_string(full_name)",
        "get_branch_name()",
        "get_branch_name_or_default()",
        "get_database_name()",
        "get_full_name()",
        "get_system_table_name()",
        "get_table_name()",
        "is_system_table()",
    ],
    "CatalogFactory": ["create(catalog_options)"],
    "DataField": ["__init__(id, name, type, description=None, default_value=None)", "from_dict(data)"],
    "AtomicType": ["__init__(type, nullable=True)"],
    "ArrayType": ["__init__(nullable, element_type)", "from_dict(data)", "to_dict()"],
    "MultisetType": ["__init__(nullable, element_type)", "from_dict(data)", "to_dict()"],
    "MapType": ["__init__(nullable, key_type, value_type)", "from_dict(data)", "to_dict()"],
    "RowType": ["__init__(nullable, fields)", "from_dict(data)", "to_dict()"],
    "SchemaChange": [
        "add_column(field_name, data_type, comment=None, move=None)",
        "drop_column(field_name)",
        "rename_column(field_name, new_name)",
        "set_option(key, value)",
        "update_column_nullability(field_name, new_nullability)",
        "update_column_position(move)",
        "update_column_type(field_name, new_data_type, keep_nullability=False)",
    ],
    "Move": ["first(field_name)"],
    "ConfigOption": ["key()"],
    "DataSplit": ["merged_row_count()", "serialize()", "deserialize(data)"],
    "CoreOptions": [
        "bucket(default=None)",
        "deletion_vectors_enabled(default=None)",
        "from_dict(options)",
        "merge_engine(default=None)",
    ],
    "Predicate": ["to_arrow(schema=None)"],
    "CommitMessage": ["serialize()", "deserialize(data)", "to_java()", "from_java(data, version=14)"],
}
IMPORTABLE = """
ArrayType AtomicType BranchAlreadyExistException BranchNotExistException CatalogFactory CoreOptions DataField
DatabaseAlreadyExistException DatabaseNotExistException ExplainResult Identifier MapType MergeEngine Move
MultisetType Predicate PredicateBuilder RowType Schema SchemaChange TableNotExistException
TagAlreadyExistException TagNotExistException WhenMatched WhenNotMatched lit source_col target_col CommitMessage
read_table write_table open_table
""".split()
_REST = {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}


def test_names_are_importable_from_the_top() -> None:
    assert [name for name in IMPORTABLE if not hasattr(lw, name)] == []
    assert [name for name in IMPORTABLE if getattr(lw, name) is None] == []


def test_signatures_are_those_of_pypaimon() -> None:
    problems = [
        f"{owner}.{signature}: {problem}"
        for owner, signatures in SURFACE.items()
        for signature in signatures
        if (problem := _difference(owner, signature)) is not None
    ]
    assert not problems, "\n".join(["", *problems])


def _difference(owner: str, signature: str) -> str | None:
    """Return how a method differs from a signature that users rely on; None where calls made for it work."""
    name, _, rest = signature.partition("(")
    wanted = [part.split("=") for part in rest.removesuffix(")").split(", ") if part]
    function = getattr(getattr(lw, owner), name, None)
    if function is None:
        return "there is no such method"
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    given = [p.name for p in parameters]
    if given[: len(wanted)] != [part[0] for part in wanted]:
        return f"its arguments are {given}"
    defaults = {p.name: repr(p.default) for p in parameters}
    others = [f"{part[0]}={defaults[part[0]]}" for part in wanted if part[1:] not in ([], [defaults[part[0]]])]
    if others:
        return f"it has {others}"
    more = [p.name for p in parameters[len(wanted) :] if p.default is p.empty and p.kind not in _REST]
    return f"it also needs {more}" if more else None


def test_functions_of_one_call_take_the_usual_arguments() -> None:
    usual = {
        "read_table": "table filter columns limit snapshot_id tag timestamp incremental",
        "write_table": "data table mode",
        "open_table": "path",
    }
    given = {name: list(inspect.signature(getattr(lw, name)).parameters) for name in usual}
    assert {name: " ".join(given[name][: len(words.split())]) for name, words in usual.items()} == usual


def test_merge_engines_have_names() -> None:
    assert [engine.value for engine in lw.MergeEngine] == ["deduplicate", "partial-update", "aggregation", "first-row"]
    assert CoreOptions.from_dict({"merge-engine": "first_row"}).merge_engine() is lw.MergeEngine.FIRST_ROW


def test_the_verbs_of_a_primary_key_table(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    columns = pa.schema([("id", pa.int64()), ("n", pa.int64())])
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, primary_keys=["id"], options={"bucket": "1"}))
    table = catalog.get_table("d.t")
    assert table.primary_keys == ["id"]
    builder = table.new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(pa.table({"id": [1, 2], "n": [1, 2]}), row_kinds=["+I", "+I"])
    write.delete_arrow(pa.table({"id": [2]}))
    result = commit.commit(write.prepare_commit())
    assert (result.snapshot_id, result.rows, result.files) == (1, 2, 1)
    compacted = table.compact(full=True)
    assert (compacted.snapshot_id, compacted.rows) == (2, 1)
    reading = table.new_read_builder()
    (split,) = reading.new_scan().plan().splits()
    assert (split.bucket, split.raw_convertible, split.merged_row_count()) == (0, True, 1)
    assert reading.explain().splits_all_above_l0 == 1
    assert reading.new_read().to_arrow([split]).to_pylist() == [{"id": 1, "n": 1}]


@pytest.fixture
def table(tmp_path: Path) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d", False)  # noqa: FBT003 - as pypaimon's users write it
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(schema, partition_keys=["p"]), False)  # noqa: FBT003
    return catalog.get_table("d.t")


def test_the_fields_that_users_read(table: lw.FileStoreTable) -> None:
    assert [field.name for field in table.fields] == ["id", "p"]
    assert table.partition_keys == ["p"]
    assert table.primary_keys == []
    assert table.table_path.endswith("/d.db/t")
    assert table.options.bucket() == -1
    builder = table.new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(pa.table({"id": [1, 2], "p": ["a", "a"]}))
    messages = write.prepare_commit()
    assert [(m.partition, m.bucket, m.total_buckets) for m in messages] == [(("a",), 0, None)]
    commit.commit(messages)
    write.close()
    commit.close()
    reading = table.new_read_builder()
    plan = reading.new_scan().plan()
    assert plan.snapshot_id == 1
    (split,) = plan.splits()
    assert (tuple(split.partition), split.bucket, split.row_count, split.raw_convertible) == (("a",), 0, 2, True)
    assert [path.rsplit("/", 1)[1] for path in split.file_paths] == [file.file_name for file in split.files]
    explained = reading.with_filter(reading.new_predicate_builder().equal("p", "a")).explain()
    assert explained.snapshot_id == 1
    assert (explained.split_count, explained.file_count, explained.splits_raw_convertible) == (1, 1, 1)
    assert explained.total_file_size == sum(file.file_size for file in split.files)
    assert explained.level_histogram == {0: 1}
    for name in (
        "predicate",
        "partition_pruning",
        "bucket_pruning",
        "file_skipping",
        "splits_with_deletion_vectors",
        "splits_all_above_l0",
    ):
        assert hasattr(explained, name)


def test_methods_that_only_the_rust_binding_has_work_too(table: lw.FileStoreTable) -> None:
    rows = pa.table({"id": [1, 2], "p": ["a", "b"]})
    builder = table.new_write_builder()
    with builder.new_write() as write:
        write.write_arrow(rows)
        builder.new_commit().commit(write.prepare_commit())
    replaced = table.new_write_builder().with_overwrite()
    with replaced.new_write() as write:
        write.write_arrow(rows.slice(0, 1))
        replaced.new_commit().commit(write.prepare_commit())
    assert sorted(lw.read_table(table)["id"].to_pylist()) == [1, 2]
    plain = table.copy({"dynamic-partition-overwrite": "false"}).new_write_builder()
    with plain.new_write() as write:
        write.write_arrow(rows.slice(1, 1))
        plain.new_commit().overwrite(write.prepare_commit(), static_partitions={"p": "b"})
    assert sorted(lw.read_table(table)["id"].to_pylist()) == [1, 2]
    with table.new_batch_write_builder().new_commit() as commit:
        commit.truncate_table()
    assert lw.read_table(table).num_rows == 0


def test_exceptions_keep_an_except_working(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    with pytest.raises(DatabaseNotExistException):
        catalog.get_table("nowhere.t")
    catalog.create_database("d")
    with pytest.raises(DatabaseAlreadyExistException):
        catalog.create_database("d")
    with pytest.raises(TableNotExistException) as caught:
        catalog.get_table("d.t")
    assert isinstance(caught.value, lw.NotFoundError)
    assert isinstance(caught.value, KeyError)
    assert caught.value.table == "d.t"
