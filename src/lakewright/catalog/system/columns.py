"""The columns and keys of system tables, and of those of the database `sys`: a name in, fields and key columns out."""

from __future__ import annotations

from lakewright.spec.types import ArrayType, AtomicType, DataField, DataType, RowType

_NOT_NULL = "!"  # after a type: the column is never null
_TEXT = AtomicType("STRING")
_RANGE = RowType(
    True,  # noqa: FBT003
    (
        DataField(0, "f0", AtomicType("STRING", False)),  # noqa: FBT003
        DataField(1, "f1", AtomicType("INT", False)),  # noqa: FBT003
        DataField(2, "f2", AtomicType("INT", False)),  # noqa: FBT003
        DataField(3, "_CARDINALITY", AtomicType("BIGINT")),
    ),
)
_NESTED: dict[str, DataType] = {"TEXTS": ArrayType(True, _TEXT), "RANGES": ArrayType(True, _RANGE)}  # noqa: FBT003

_FILE = """partition STRING, bucket INT!, file_path STRING!, file_format STRING!, schema_id BIGINT!, level INT!,
    record_count BIGINT!, file_size_in_bytes BIGINT!, min_key STRING, max_key STRING"""
_COUNTS = "record_count BIGINT!, file_size_in_bytes BIGINT!, file_count BIGINT!, last_update_time TIMESTAMP(3)"
_NAMES = "database_name STRING, table_name STRING"
_FILE_COUNTS = "record_count BIGINT, file_size_in_bytes BIGINT, file_count BIGINT, last_file_creation_time BIGINT"
_COLUMNS = {
    "snapshots": """snapshot_id BIGINT!, schema_id BIGINT!, commit_user STRING!, commit_identifier BIGINT!,
        commit_kind STRING!, commit_time TIMESTAMP(3)!, base_manifest_list STRING!, delta_manifest_list STRING!,
        changelog_manifest_list STRING, total_record_count BIGINT, delta_record_count BIGINT,
        changelog_record_count BIGINT, watermark BIGINT, next_row_id BIGINT, writer_version STRING""",
    "schemas": """schema_id BIGINT!, fields STRING!, partition_keys STRING!, primary_keys STRING!, options STRING!,
        comment STRING, update_time TIMESTAMP(3)!""",
    "options": "key STRING!, value STRING!",
    "manifests": """file_name STRING!, file_size BIGINT!, num_added_files BIGINT!, num_deleted_files BIGINT!,
        schema_id BIGINT!, min_partition_stats STRING, max_partition_stats STRING, min_row_id BIGINT,
        max_row_id BIGINT""",
    "files": f"""{_FILE}, null_value_counts STRING!, min_value_stats STRING!, max_value_stats STRING!,
        min_sequence_number BIGINT, max_sequence_number BIGINT, creation_time TIMESTAMP(3), deleteRowCount BIGINT,
        file_source STRING, first_row_id BIGINT, write_cols TEXTS""",
    "file_key_ranges": f"{_FILE}, first_row_id BIGINT",
    "partitions": f"""partition STRING, {_COUNTS}, created_at TIMESTAMP(3), created_by STRING, updated_by STRING,
        options STRING, total_buckets INT!, done BOOLEAN!, deleted_record_count BIGINT""",
    "buckets": f"partition STRING, bucket INT!, {_COUNTS}",
    "tags": """tag_name STRING!, snapshot_id BIGINT!, schema_id BIGINT!, commit_time TIMESTAMP(3)!,
        record_count BIGINT, create_time TIMESTAMP(3), time_retained STRING""",
    "branches": "branch_name STRING!, create_time TIMESTAMP(3)!",
    "consumers": "consumer_id STRING!, next_snapshot_id BIGINT!",
    "aggregation_fields": """field_name STRING!, field_type STRING!, function STRING, function_options STRING,
        comment STRING""",
    "statistics": """snapshot_id BIGINT!, schema_id BIGINT!, mergedRecordCount BIGINT, mergedRecordSize BIGINT,
        colstat STRING""",
    "table_indexes": """partition STRING, bucket INT!, index_type STRING!, file_name STRING!, file_size BIGINT!,
        row_count BIGINT!, dv_ranges RANGES, row_range_start BIGINT, row_range_end BIGINT, index_field_id INT,
        index_field_name STRING""",
    "sys.tables": f"""{_NAMES}, table_type STRING, partitioned BOOLEAN, primary_key BOOLEAN, owner STRING,
        created_at BIGINT, created_by STRING, updated_at BIGINT, updated_by STRING, {_FILE_COUNTS}""",
    "sys.partitions": f"{_NAMES}, partition_name STRING, {_FILE_COUNTS}, done BOOLEAN",
    "sys.all_table_options": f"{_NAMES}, key STRING, value STRING",
    "sys.catalog_options": "key STRING!, value STRING!",
}
_KEYS = {
    "buckets": ("partition", "bucket"),
    "file_key_ranges": ("file_path",),
    "files": ("file_path",),
    "table_indexes": ("file_name",),
}
_IDS = {"writer_version": 15}  # the id 14 belongs to a column that only other implementations show


def fields_of(name: str) -> tuple[DataField, ...]:
    """Return the columns of a system table in order.

    >>> [str(field.type) for field in fields_of("consumers")]
    ['STRING NOT NULL', 'BIGINT NOT NULL']
    """
    declared = (column.split() for column in _COLUMNS[name].split(","))
    return tuple(DataField(_IDS.get(column, at), column, _type(text)) for at, (column, text) in enumerate(declared))


def keys_of(name: str) -> tuple[str, ...]:
    """Return the columns that identify a row of a system table: the first one, unless others do.

    >>> keys_of("buckets"), keys_of("tags")
    (('partition', 'bucket'), ('tag_name',))
    """
    return _KEYS.get(name) or (fields_of(name)[0].name,)


def _type(text: str) -> DataType:
    return _NESTED.get(text) or AtomicType(text.removesuffix(_NOT_NULL), not text.endswith(_NOT_NULL))
