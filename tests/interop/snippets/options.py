"""Options as values: keys, defaults, the methods of CoreOptions on an empty and on a full map, sizes and durations."""

import sys
from datetime import timedelta
from enum import Enum

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.common.memory_size import MemorySize
from pypaimon.common.options import ConfigOption, ConfigOptions, Options
from pypaimon.common.options.core_options import ChangelogProducer, CoreOptions, MergeEngine, StartupMode
from pypaimon.common.options.options_utils import OptionsUtils
from pypaimon.common.time_utils import parse_duration

OPTIONS = (
    "ADD_COLUMN_BEFORE_PARTITION AUTO_CREATE BLOB_AS_DESCRIPTOR BLOB_VIEW_FIELD BLOB_VIEW_RESOLVE_ENABLED "
    "BRANCH BUCKET BUCKET_KEY CHANGELOG_FILE_FORMAT CHANGELOG_PRODUCER COMMIT_MAX_RETRIES "
    "COMMIT_MAX_RETRY_WAIT COMMIT_MIN_RETRY_WAIT COMMIT_NATIVE_ENABLED COMMIT_TIMEOUT COMMIT_USER_PREFIX "
    "DATA_EVOLUTION_ENABLED DATA_EVOLUTION_ROW_ID_CONFLICT_REWRITE_MAX_SIZE "
    "DATA_EVOLUTION_ROW_SIDECAR_ENABLED DATA_EVOLUTION_ROW_SIDECAR_MAX_SELECTED_ROWS "
    "DATA_EVOLUTION_ROW_SIDECAR_MAX_SELECTION_RATIO DATA_EVOLUTION_WRITE_COLS_OPTIMIZATION_ENABLED "
    "DATA_FILE_EXTERNAL_PATHS DATA_FILE_EXTERNAL_PATHS_SPECIFIC_FS DATA_FILE_EXTERNAL_PATHS_WEIGHTS "
    "DATA_FILE_PATH_DIRECTORY DATA_FILE_PREFIX DELETION_VECTORS_ENABLED DELETION_VECTORS_MERGE_ON_READ "
    "DYNAMIC_BUCKET_MAX_BUCKETS DYNAMIC_BUCKET_TARGET_ROW_NUM DYNAMIC_PARTITION_OVERWRITE FILE_BLOCK_SIZE "
    "FILE_COMPRESSION FILE_COMPRESSION_PER_LEVEL FILE_COMPRESSION_ZSTD_LEVEL FILE_FORMAT "
    "FILE_FORMAT_PER_LEVEL IGNORE_DELETE INCREMENTAL_BETWEEN_TIMESTAMP INDEX_FILE_IN_DATA_FILE_DIR "
    "MANIFEST_COMPRESSION MANIFEST_SIDECAR_ENABLED MANIFEST_SORT_ENABLED MERGE_ENGINE METADATA_STATS_MODE "
    "PARQUET_COLUMN_INDEX_ENABLED PARQUET_WRITE_PAGE_INDEX_ENABLED PARTITION_DEFAULT_NAME "
    "PARTITION_GENERATE_LEGACY_NAME PATH POSTPONE_BATCH_WRITE_FIXED_BUCKET "
    "POSTPONE_BATCH_WRITE_FIXED_BUCKET_MAX_PARALLELISM POSTPONE_DEFAULT_BUCKET_NUM "
    "POSTPONE_TARGET_ROW_NUM_PER_BUCKET POSTPONE_TARGET_SIZE_PER_BUCKET PRIMARY_KEY_NULLABLE "
    "READ_BATCH_SIZE READ_NATIVE_ENABLED READ_PARALLELISM ROW_TRACKING_ENABLED "
    "ROW_TRACKING_PARTITION_GROUP_ON_COMMIT SCAN_CREATION_TIME_MILLIS SCAN_FALLBACK_BRANCH "
    "SCAN_FILE_CREATION_TIME_MILLIS SCAN_MANIFEST_PARALLELISM SCAN_MODE SCAN_NATIVE_PLAN_ENABLED "
    "SCAN_SNAPSHOT_ID SCAN_TAG_NAME SCAN_TIMESTAMP SCAN_TIMESTAMP_MILLIS SCAN_VERSION SCAN_WATERMARK "
    "SEQUENCE_FIELD SNAPSHOT_IGNORE_EMPTY_COMMIT SOURCE_SPLIT_OPEN_FILE_COST SOURCE_SPLIT_TARGET_SIZE "
    "TARGET_FILE_ROW_NUM TYPE WRITE_NATIVE_ENABLED "
).split()
METHODS = (
    "add_column_before_partition auto_create batch_scan_skip_level0 blob_as_descriptor "
    "blob_view_resolve_enabled branch bucket bucket_key changelog_file_format changelog_producer "
    "commit_max_retries commit_max_retry_wait commit_min_retry_wait commit_timeout commit_user_prefix "
    "data_evolution_enabled data_evolution_row_id_conflict_rewrite_max_size "
    "data_evolution_row_sidecar_enabled data_evolution_row_sidecar_max_selected_rows "
    "data_evolution_row_sidecar_max_selection_ratio data_evolution_write_cols_optimization_enabled "
    "data_file_external_paths data_file_external_paths_specific_fs data_file_external_paths_weights "
    "data_file_path_directory data_file_prefix deletion_vectors_enabled dynamic_bucket_max_buckets "
    "dynamic_bucket_target_row_num dynamic_partition_overwrite file_block_size file_compression "
    "file_compression_per_level file_compression_zstd_level file_format file_format_per_level "
    "ignore_delete incremental_between_timestamp index_file_in_data_file_dir manifest_compression "
    "manifest_sidecar_enabled manifest_sort_enabled manifest_target_size merge_engine "
    "metadata_stats_enabled native_commit_enabled native_plan_enabled native_read_enabled "
    "native_write_enabled parquet_column_index_enabled parquet_write_page_index_enabled path "
    "postpone_batch_write_fixed_bucket postpone_batch_write_fixed_bucket_max_parallelism "
    "postpone_default_bucket_num postpone_target_row_num_per_bucket postpone_target_size_per_bucket "
    "primary_key_nullable read_batch_size read_parallelism row_tracking_enabled "
    "row_tracking_partition_group_on_commit scan_fallback_branch scan_manifest_parallelism scan_mode "
    "scan_snapshot_id scan_tag_name scan_timestamp scan_timestamp_millis scan_watermark sequence_field "
    "snapshot_ignore_empty_commit source_split_open_file_cost source_split_target_size startup_mode "
    "target_file_row_num type "
).split()


def plain(value):
    return value.value if isinstance(value, Enum) else value


empty = CoreOptions.from_dict({})
full = CoreOptions.from_dict(
    {
        "bucket": "4",
        "merge-engine": "partial-update",
        "changelog-producer": "input",
        "file.format": "orc",
        "source.split.target-size": "8 mb",
        "commit.timeout": "3 s",
        "commit.min-retry-wait": "20 ms",
        "sequence.field": "a, b",
        "scan.snapshot-id": "3",
        "data-file.external-paths": "file:///a, file:///b",
        "deletion-vectors.enabled": "true",
        "ignore-delete": "true",
        "target-file-size": "1 mb",
        "manifest.target-file-size": "2 mb",
        "primary-key.nullable": "yes",
        "metadata.stats-mode": "full",
    }
)
for name in OPTIONS:
    option = getattr(CoreOptions, name)
    print(name, option.key(), plain(option.default_value()) if name != "SNAPSHOT_IGNORE_EMPTY_COMMIT" else "")
for name in METHODS:
    print(name, plain(getattr(empty, name)()), plain(getattr(full, name)()))
print(empty.target_file_size(True), empty.target_file_size(False), full.target_file_size(True))
print(empty.bucket(7), full.bucket(7), full.merge_engine() == MergeEngine.PARTIAL_UPDATE, full.options.to_map()["bucket"])
print(full.changelog_producer() is ChangelogProducer.INPUT, full.startup_mode() is StartupMode.FROM_SNAPSHOT)
print(MergeEngine.AGGREGATE.value, MergeEngine("aggregation") is MergeEngine.AGGREGATE)

number = ConfigOptions.key("a.b").int_type().default_value(3).with_description("a number")
held = Options({"a.b": "5", "c": "x"})
print(number.key(), number.default_value(), number.has_default_value(), number.get_clazz() is int, number)
print(held.get(number), held.contains(number), held.contains_key("c"), Options.from_none().get(number), held.get(number, 9))
held.set(number, 8)
print(held.to_map(), held.copy().to_map() == held.to_map(), number == ConfigOption("a.b", int, None, 3))
for value, kind in (("true", bool), ("off", bool), (" 7 ", int), ("1.5", float), ("2 kb", MemorySize), ("2 min", timedelta)):
    print(OptionsUtils.convert_value(value, kind))
print(OptionsUtils.convert_value("Input", ChangelogProducer).value)
for wrong in (("maybe", bool), ("x", int), ("x", MemorySize), ("odd", ChangelogProducer)):
    try:
        print(OptionsUtils.convert_value(*wrong))
    except ValueError:
        print("refused")
print(MemorySize.of_mebi_bytes(3), MemorySize.parse("5 kb").get_bytes(), MemorySize(5) < MemorySize(6), repr(MemorySize(7)))
print(MemorySize.parse("1 gb").get_mebi_bytes(), MemorySize(1500), parse_duration("3 s"), parse_duration("2 h"))

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("d", True)
schema = Schema.from_pyarrow_schema(pa.schema([("a", pa.int64())]), primary_keys=["a"], options={"bucket": "2"})
catalog.create_table("d.t", schema, False)
options = catalog.get_table("d.t").options
print(options.bucket(), options.options.get(CoreOptions.BUCKET), options.deletion_vectors_enabled(), options.file_format())
