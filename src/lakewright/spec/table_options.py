"""The options of tables: `TableOptions` declares each of them once and holds those of one table, parsed.

`CoreOptions` is the same in the form that pypaimon has.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Generic

from lakewright.errors import InvalidInputError
from lakewright.spec.merge_engine import MergeEngine
from lakewright.spec.option_values import (
    GIB,
    MAX_INT,
    MAX_LONG,
    MIB,
    ChangelogProducer,
    ConfigOption,
    E,
    ExternalPathStrategy,
    Mutability,
    NativeScan,
    OptionKind,
    SortOrder,
    T,
    WriteDistribution,
    option_text,
    parse_duration_millis,
    parse_memory,
    read_option,
)
from lakewright.spec.scalars import zone_of


def option_texts(options: Mapping[str, object]) -> dict[str, str]:
    """Return a map of options as schema files have it: numbers and booleans become text."""
    if not isinstance(options, Mapping):
        raise InvalidInputError(f"options are a dict of keys and values, not {type(options).__name__}")
    return {_key(key): option_text(key, value) for key, value in options.items()}


def _key(key: object) -> str:
    if not isinstance(key, str) or not key.strip():
        raise InvalidInputError(f"the key of an option is a text, not {key if isinstance(key, int) else type(key)!r}")
    return str(key)


@dataclass(frozen=True, slots=True)
class _WholeNumber:
    low: int
    high: int

    def __call__(self, text: str) -> int:
        # int() also accepts underscores and digits of other scripts, which Java refuses.
        if not re.fullmatch(r"\s*[+-]?[0-9]+\s*", text, re.ASCII) or not self.low <= int(text) <= self.high:
            raise ValueError(text)
        return int(text)


def _buckets(text: str) -> int:
    number = _WholeNumber(-2, MAX_INT)(text)
    if number == 0:
        raise ValueError(text)
    return number


@dataclass(frozen=True, slots=True)
class _OneOf(Generic[E]):
    members: type[E]

    def __call__(self, text: str) -> E:
        return self.members(text.strip().lower().replace("_", "-"))


def _boolean(text: str) -> bool:
    try:
        return {"true": True, "false": False}[text.strip().lower()]
    except KeyError:
        raise ValueError(text) from None


def _ratio(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError(text)
    return value


def _zone(text: str) -> str:
    zone_of(text)
    return text


def _lower(text: str) -> str:
    if not text.strip():
        raise ValueError(text)
    return text.strip().lower()


def _stats_mode(text: str) -> str:
    mode = text.strip().lower()
    if not re.fullmatch(r"none|counts|full|truncate\([1-9][0-9]{0,8}\)", mode):
        raise ValueError(text)
    return mode


def _names(text: str) -> tuple[str, ...]:
    # Java takes no notice of commas at the end, so stored options may have them.
    names = tuple(name.strip() for name in text.rstrip(",").split(",")) if text.strip(" ,") else ()
    if not all(names):
        raise ValueError(text)
    return names


def _bucket_key(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))  # blanks around the commas belong to the names


def _weights(text: str) -> tuple[int, ...]:
    return tuple(map(_WholeNumber(1, MAX_INT), text.rstrip(",").split(",")))


def _per_level(text: str) -> Mapping[int, str]:
    pairs = (part.split(":", 1) for part in text.split(",") if part.strip())
    return MappingProxyType({int(pair[0]): pair[1].strip().lower() for pair in pairs if _is_pair(pair)})


def _is_pair(pair: list[str]) -> bool:
    if len(pair) != 2:  # noqa: PLR2004 - a pair
        raise ValueError(pair)
    return True


def _one_of(members: type[E]) -> OptionKind[E]:
    return OptionKind("enum", "one of " + ", ".join(members), _OneOf(members))


def _words(*words: str) -> OptionKind[str]:
    return OptionKind(
        "str", "one of " + ", ".join(words), lambda text: words[words.index(text.strip().lower().replace("_", "-"))]
    )


_INT = OptionKind("int", "a whole number", _WholeNumber(-MAX_INT - 1, MAX_INT))
_COUNT = OptionKind("int", "a whole number of at least 1", _WholeNumber(1, MAX_INT))
_LONG_COUNT = OptionKind("int", "a whole number of at least 1", _WholeNumber(1, MAX_LONG))
_LONG = OptionKind("int", "a whole number", _WholeNumber(-MAX_LONG - 1, MAX_LONG))
_BOOL = OptionKind("bool", "true or false", _boolean)
_RATIO = OptionKind("float", "a number from 0 to 1", _ratio)
_SIZE = OptionKind("size", "a size such as 8 mb", parse_memory)
_TIME = OptionKind("time", "a duration such as 10 min, 1 h or PT1H", parse_duration_millis)
_TEXT = OptionKind("str", "a text", str)
_WORD = OptionKind("str", "a word", _lower)
_ZONE = OptionKind("str", "a time zone such as UTC, Europe/Berlin or +02:00", _zone)
_STATS = OptionKind("str", "none, counts, full or truncate(n)", _stats_mode)
_NAMES = OptionKind("str", "names with commas between them, none of them blank", _names)
_BUCKET_KEY = OptionKind("str", "names with commas between them", _bucket_key)
_LEVELS = OptionKind("map", "a list such as 0:avro,5:parquet", _per_level)
_WEIGHTS = OptionKind("str", "a list of whole numbers of at least 1, separated by commas", _weights)
_BUCKET = OptionKind("int", "a number of buckets of at least 1, or -1 (dynamic), or -2 (postpone)", _buckets)
_NO_NAMES: tuple[str, ...] = ()
_NO_LEVELS: Mapping[int, str] = MappingProxyType({})
_CPUS = os.cpu_count() or 1


def _unset(key: str, kind: OptionKind[T], mutability: Mutability = Mutability.ALWAYS) -> ConfigOption[T | None]:
    """Return an option without a default."""
    return ConfigOption(key, kind, None, mutability=mutability)


class TableOptions:
    """The options of one table, parsed once, as attributes: the name of each follows from its key.

    The attribute of an option that is not set has its default. A value that cannot be read raises InvalidInputError
    where its attribute is read and nowhere else, so a table with a bad value in an option that is not needed can be
    used.

    >>> options = TableOptions({"bucket": "4", "snapshot.time-retained": "2 h"})
    >>> options.bucket, options.snapshot_time_retained, options.merge_engine
    (4, 7200000, <MergeEngine.DEDUPLICATE: 'deduplicate'>)
    >>> TableOptions.snapshot_time_retained.key()
    'snapshot.time-retained'
    """

    values: Mapping[str, str]  # the text of each option that is set

    # Where a table is and what it is.
    path = _unset("path", _TEXT, mutability=Mutability.NEVER)
    type = ConfigOption("type", _WORD, "table", mutability=Mutability.NEVER)
    branch = ConfigOption("branch", _TEXT, "main")
    primary_key = _unset("primary-key", _NAMES, mutability=Mutability.NEVER)
    partition = _unset("partition", _NAMES, mutability=Mutability.NEVER)
    primary_key_nullable = ConfigOption("primary-key.nullable", _BOOL, default=False, mutability=Mutability.BEFORE_DATA)
    add_column_before_partition = ConfigOption("add-column-before-partition", _BOOL, default=False)
    alter_column_null_to_not_null_disabled = ConfigOption("alter-column-null-to-not-null.disabled", _BOOL, default=True)
    disable_explicit_type_casting = ConfigOption("disable-explicit-type-casting", _BOOL, default=False)

    # Buckets and partitions.
    bucket = ConfigOption("bucket", _BUCKET, -1)
    bucket_key = ConfigOption("bucket-key", _BUCKET_KEY, _NO_NAMES, mutability=Mutability.BEFORE_DATA)
    bucket_function_type = ConfigOption("bucket-function.type", _WORD, "default", mutability=Mutability.BEFORE_DATA)
    bucket_append_ordered = ConfigOption("bucket-append-ordered", _BOOL, default=True)
    dynamic_bucket_target_row_num = ConfigOption("dynamic-bucket.target-row-num", _LONG, 2_000_000)
    dynamic_bucket_initial_buckets = _unset("dynamic-bucket.initial-buckets", _INT, mutability=Mutability.BEFORE_DATA)
    dynamic_bucket_max_buckets = ConfigOption("dynamic-bucket.max-buckets", _INT, -1)
    postpone_default_bucket_num = _unset("postpone.default-bucket-num", _INT)
    postpone_target_size_per_bucket = ConfigOption("postpone.target-size-per-bucket", _SIZE, GIB)
    postpone_target_row_num_per_bucket = _unset("postpone.target-row-num-per-bucket", _LONG_COUNT)
    postpone_batch_write_fixed_bucket_max_parallelism = ConfigOption(
        "postpone.batch-write-fixed-bucket.max-parallelism", _COUNT, 2048
    )
    postpone_batch_write_fixed_bucket = ConfigOption("postpone.batch-write-fixed-bucket", _BOOL, default=True)
    postpone_merge_on_read = ConfigOption("postpone.merge-on-read", _BOOL, default=False)
    partition_default_name = ConfigOption("partition.default-name", _TEXT, "__DEFAULT_PARTITION__")
    partition_legacy_name = ConfigOption("partition.legacy-name", _BOOL, default=True)
    dynamic_partition_overwrite = ConfigOption("dynamic-partition-overwrite", _BOOL, default=True)

    # Data files.
    file_format = ConfigOption("file.format", _WORD, "parquet")
    file_format_per_level = ConfigOption("file.format.per.level", _LEVELS, _NO_LEVELS)
    file_compression = ConfigOption("file.compression", _WORD, "zstd")
    file_compression_per_level = ConfigOption("file.compression.per.level", _LEVELS, _NO_LEVELS)
    file_compression_zstd_level = ConfigOption("file.compression.zstd-level", _INT, 1)
    file_block_size = _unset("file.block-size", _SIZE)
    file_suffix_include_compression = ConfigOption("file.suffix.include.compression", _BOOL, default=False)
    data_file_prefix = ConfigOption("data-file.prefix", _TEXT, "data-")
    # Thin files have no copies of the key columns: every reader takes the key from the columns of the table.
    data_file_thin_mode = ConfigOption("data-file.thin-mode", _BOOL, default=True)
    data_file_path_directory = _unset("data-file.path-directory", _TEXT, mutability=Mutability.BEFORE_DATA)
    data_file_external_paths = _unset("data-file.external-paths", _TEXT)
    data_file_external_paths_strategy = ConfigOption(
        "data-file.external-paths.strategy", _one_of(ExternalPathStrategy), ExternalPathStrategy.NONE
    )
    data_file_external_paths_specific_fs = _unset("data-file.external-paths.specific-fs", _WORD)
    data_file_external_paths_weights = _unset("data-file.external-paths.weights", _WEIGHTS)
    changelog_file_prefix = ConfigOption("changelog-file.prefix", _TEXT, "changelog-")
    changelog_file_format = _unset("changelog-file.format", _WORD)
    changelog_file_compression = _unset("changelog-file.compression", _WORD)
    target_file_size = _unset("target-file-size", _SIZE)
    target_file_row_num = ConfigOption("target-file-row-num", _LONG, MAX_LONG)
    index_file_in_data_file_dir = ConfigOption(
        "index-file-in-data-file-dir", _BOOL, default=False, mutability=Mutability.BEFORE_DATA
    )
    file_index_read_enabled = ConfigOption("file-index.read.enabled", _BOOL, default=True)
    file_index_in_manifest_threshold = ConfigOption("file-index.in-manifest-threshold", _SIZE, 500)
    blob_field = _unset("blob-field", _NAMES, mutability=Mutability.BEFORE_DATA)
    blob_descriptor_field = _unset("blob-descriptor-field", _NAMES, mutability=Mutability.BEFORE_DATA)
    blob_view_field = _unset("blob-view-field", _NAMES, mutability=Mutability.BEFORE_DATA)
    blob_as_descriptor = ConfigOption("blob-as-descriptor", _BOOL, default=False)
    blob_target_file_size = _unset("blob.target-file-size", _SIZE)
    vector_field = _unset("vector-field", _NAMES)
    vector_file_format = _unset("vector.file.format", _WORD)
    vector_target_file_size = _unset("vector.target-file-size", _SIZE)

    # Statistics.
    metadata_stats_mode = ConfigOption("metadata.stats-mode", _STATS, "truncate(16)")
    metadata_stats_mode_per_level = ConfigOption("metadata.stats-mode.per.level", _LEVELS, _NO_LEVELS)
    metadata_stats_dense_store = ConfigOption("metadata.stats-dense-store", _BOOL, default=True)
    metadata_stats_keep_first_n_columns = ConfigOption("metadata.stats-keep-first-n-columns", _INT, -1)

    # Writing.
    write_only = ConfigOption("write-only", _BOOL, default=False, old_names=("write.compaction-skip",))
    write_buffer_size = ConfigOption("write-buffer-size", _SIZE, 256 * MIB)
    write_buffer_spillable = ConfigOption("write-buffer-spillable", _BOOL, default=True)
    write_sequence_number_init_mode = ConfigOption("write.sequence-number-init-mode", _WORD, "scan")
    overwrite_upgrade = ConfigOption("overwrite-upgrade", _BOOL, default=True)

    # Merging.
    merge_engine = ConfigOption(
        "merge-engine", _one_of(MergeEngine), MergeEngine.DEDUPLICATE, mutability=Mutability.BEFORE_DATA
    )
    sequence_field = ConfigOption("sequence.field", _NAMES, _NO_NAMES)
    sequence_field_sort_order = ConfigOption("sequence.field.sort-order", _one_of(SortOrder), SortOrder.ASCENDING)
    sequence_snapshot_ordering = ConfigOption(
        "sequence.snapshot-ordering", _BOOL, default=False, mutability=Mutability.BEFORE_DATA
    )
    rowkind_field = _unset("rowkind.field", _TEXT, mutability=Mutability.BEFORE_DATA)
    ignore_delete = ConfigOption(
        "ignore-delete",
        _BOOL,
        default=False,
        old_names=tuple(f"{engine}.ignore-delete" for engine in MergeEngine),
        mutability=Mutability.TURN_ON,
    )
    ignore_update_before = ConfigOption("ignore-update-before", _BOOL, default=False, mutability=Mutability.TURN_ON)
    partial_update_remove_record_on_delete = ConfigOption(
        "partial-update.remove-record-on-delete", _BOOL, default=False, mutability=Mutability.BEFORE_DATA
    )
    partial_update_remove_record_on_sequence_group = _unset(
        "partial-update.remove-record-on-sequence-group", _TEXT, mutability=Mutability.BEFORE_DATA
    )
    aggregation_remove_record_on_delete = ConfigOption(
        "aggregation.remove-record-on-delete", _BOOL, default=False, mutability=Mutability.BEFORE_DATA
    )
    fields_default_aggregate_function = _unset("fields.default-aggregate-function", _WORD)
    changelog_producer = ConfigOption("changelog-producer", _one_of(ChangelogProducer), ChangelogProducer.NONE)
    changelog_producer_row_deduplicate = ConfigOption("changelog-producer.row-deduplicate", _BOOL, default=False)
    changelog_producer_row_deduplicate_ignore_fields = ConfigOption(
        "changelog-producer.row-deduplicate-ignore-fields", _NAMES, _NO_NAMES
    )
    pk_clustering_override = ConfigOption(
        "pk-clustering-override", _BOOL, default=False, mutability=Mutability.BEFORE_DATA
    )

    # Compaction.
    num_sorted_run_compaction_trigger = ConfigOption("num-sorted-run.compaction-trigger", _COUNT, 5)
    num_sorted_run_stop_trigger = _unset("num-sorted-run.stop-trigger", _COUNT)
    num_levels = _unset("num-levels", _COUNT)
    compaction_max_size_amplification_percent = ConfigOption("compaction.max-size-amplification-percent", _INT, 200)
    compaction_size_ratio = ConfigOption("compaction.size-ratio", _INT, 1)
    compaction_force_up_level_0 = ConfigOption("compaction.force-up-level-0", _BOOL, default=False)
    compaction_optimization_interval = _unset("compaction.optimization-interval", _TIME)
    compaction_total_size_threshold = _unset("compaction.total-size-threshold", _SIZE)
    compaction_incremental_size_threshold = _unset("compaction.incremental-size-threshold", _SIZE)
    compaction_min_file_num = ConfigOption("compaction.min.file-num", _COUNT, 5)
    compaction_small_file_ratio = ConfigOption("compaction.small-file-ratio", _RATIO, 0.7)
    compaction_delete_ratio_threshold = ConfigOption("compaction.delete-ratio-threshold", _RATIO, 0.2)
    compaction_force_rewrite_all_files = ConfigOption("compaction.force-rewrite-all-files", _BOOL, default=False)
    full_compaction_delta_commits = _unset("full-compaction.delta-commits", _COUNT)
    lookup_wait = ConfigOption("lookup-wait", _BOOL, default=True)
    lookup_compact = ConfigOption("lookup-compact", _WORD, "radical")
    force_lookup = ConfigOption("force-lookup", _BOOL, default=False, mutability=Mutability.BEFORE_DATA)
    record_level_expire_time = _unset("record-level.expire-time", _TIME)
    record_level_time_field = _unset("record-level.time-field", _TEXT)
    clustering_columns = ConfigOption("clustering.columns", _NAMES, _NO_NAMES)
    clustering_incremental = ConfigOption("clustering.incremental", _BOOL, default=False)

    # Deletion vectors, row tracking.
    deletion_vectors_enabled = ConfigOption("deletion-vectors.enabled", _BOOL, default=False)
    deletion_vectors_bitmap64 = ConfigOption("deletion-vectors.bitmap64", _BOOL, default=False)
    deletion_vectors_merge_on_read = ConfigOption("deletion-vectors.merge-on-read", _BOOL, default=False)
    deletion_vectors_modifiable = ConfigOption("deletion-vectors.modifiable", _BOOL, default=False)
    deletion_vector_index_file_target_size = ConfigOption("deletion-vector.index-file.target-size", _SIZE, 2 * MIB)
    row_tracking_enabled = ConfigOption("row-tracking.enabled", _BOOL, default=False, mutability=Mutability.BEFORE_DATA)
    row_tracking_partition_group_on_commit = ConfigOption("row-tracking.partition-group-on-commit", _BOOL, default=True)
    data_evolution_enabled = ConfigOption(
        "data-evolution.enabled", _BOOL, default=False, mutability=Mutability.BEFORE_DATA
    )

    # Manifests and commits.
    manifest_target_file_size = ConfigOption("manifest.target-file-size", _SIZE, 8 * MIB)
    manifest_merge_min_count = ConfigOption("manifest.merge-min-count", _COUNT, 30)
    manifest_full_compaction_threshold_size = ConfigOption("manifest.full-compaction-threshold-size", _SIZE, 16 * MIB)
    manifest_compression = ConfigOption("manifest.compression", _WORD, "zstd")
    manifest_delete_file_drop_stats = ConfigOption("manifest.delete-file-drop-stats", _BOOL, default=False)
    manifest_sort_enabled = ConfigOption("manifest-sort.enabled", _BOOL, default=False)
    commit_max_retries = ConfigOption("commit.max-retries", _INT, 10)
    commit_timeout = _unset("commit.timeout", _TIME)
    commit_min_retry_wait = ConfigOption("commit.min-retry-wait", _TIME, 10)
    commit_max_retry_wait = ConfigOption("commit.max-retry-wait", _TIME, 10_000)
    commit_user_prefix = _unset("commit.user-prefix", _TEXT)
    commit_force_compact = ConfigOption("commit.force-compact", _BOOL, default=False)
    commit_force_create_snapshot = ConfigOption("commit.force-create-snapshot", _BOOL, default=False)
    commit_discard_duplicate_files = ConfigOption("commit.discard-duplicate-files", _BOOL, default=False)
    commit_strict_mode_last_safe_snapshot = _unset("commit.strict-mode.last-safe-snapshot", _LONG)
    lock_enabled = _unset("lock.enabled", _BOOL)
    lock_type = _unset("lock.type", _WORD)
    lock_acquire_timeout = ConfigOption("lock-acquire-timeout", _TIME, 8 * 60 * 1000)
    lock_check_max_sleep = ConfigOption("lock-check-max-sleep", _TIME, 8 * 1000)

    # Snapshots, changelogs, tags and consumers.
    snapshot_num_retained_min = ConfigOption("snapshot.num-retained.min", _COUNT, 10)
    snapshot_num_retained_max = ConfigOption("snapshot.num-retained.max", _COUNT, MAX_INT)
    snapshot_time_retained = ConfigOption("snapshot.time-retained", _TIME, 60 * 60 * 1000)
    snapshot_expire_limit = ConfigOption("snapshot.expire.limit", _COUNT, 50)
    snapshot_clean_empty_directories = ConfigOption("snapshot.clean-empty-directories", _BOOL, default=False)
    snapshot_ignore_empty_commit = _unset("snapshot.ignore-empty-commit", _BOOL)
    changelog_num_retained_min = _unset("changelog.num-retained.min", _COUNT)
    changelog_num_retained_max = _unset("changelog.num-retained.max", _COUNT)
    changelog_time_retained = _unset("changelog.time-retained", _TIME)
    tag_default_time_retained = _unset("tag.default-time-retained", _TIME)
    tag_num_retained_max = _unset("tag.num-retained-max", _COUNT)
    tag_automatic_creation = ConfigOption(
        "tag.automatic-creation", _words("none", "process-time", "watermark", "batch"), "none"
    )
    tag_automatic_completion = ConfigOption("tag.automatic-completion", _BOOL, default=False)
    tag_creation_period = ConfigOption("tag.creation-period", _words("daily", "hourly", "two-hours"), "daily")
    tag_creation_period_duration = _unset("tag.creation-period-duration", _TIME)
    tag_creation_delay = ConfigOption("tag.creation-delay", _TIME, 0)
    tag_period_formatter = ConfigOption(
        "tag.period-formatter", _words("with-dashes", "without-dashes", "without-dashes-and-spaces"), "with-dashes"
    )
    tag_batch_customized_name = _unset("tag.batch.customized-name", _TEXT)
    tag_create_success_file = ConfigOption("tag.create-success-file", _BOOL, default=False)
    tag_time_expire_enabled = ConfigOption("tag.time-expire-enabled", _BOOL, default=True)
    sink_process_time_zone = _unset("sink.process-time-zone", _ZONE)
    sink_watermark_time_zone = ConfigOption("sink.watermark-time-zone", _ZONE, "UTC")
    partition_expiration_time = _unset("partition.expiration-time", _TIME)
    partition_expiration_check_interval = ConfigOption("partition.expiration-check-interval", _TIME, 60 * 60 * 1000)
    partition_expiration_strategy = ConfigOption("partition.expiration-strategy", _TEXT, "values-time")
    partition_expiration_max_num = ConfigOption("partition.expiration-max-num", _COUNT, 100)
    partition_expiration_batch_size = _unset("partition.expiration-batch-size", _COUNT)
    partition_timestamp_formatter = _unset("partition.timestamp-formatter", _TEXT)
    partition_timestamp_pattern = _unset("partition.timestamp-pattern", _TEXT)
    partition_mark_done_action = ConfigOption("partition.mark-done-action", _TEXT, "success-file")
    partition_mark_done_action_http_url = _unset("partition.mark-done-action.http.url", _TEXT)
    partition_mark_done_action_http_params = _unset("partition.mark-done-action.http.params", _TEXT)
    end_input_check_partition_expire = ConfigOption("end-input.check-partition-expire", _BOOL, default=False)
    consumer_id = _unset("consumer-id", _TEXT)
    consumer_ignore_progress = ConfigOption("consumer.ignore-progress", _BOOL, default=False)
    consumer_expiration_time = _unset("consumer.expiration-time", _TIME)
    consumer_changelog_only = ConfigOption("consumer.changelog-only", _BOOL, default=False)

    # Reading.
    source_split_target_size = ConfigOption("source.split.target-size", _SIZE, 128 * MIB)
    source_split_open_file_cost = ConfigOption("source.split.open-file-cost", _SIZE, 4 * MIB)
    read_parallelism = _unset("read.parallelism", _COUNT)
    read_batch_size = ConfigOption("read.batch-size", _COUNT, 1024)
    scan_mode = ConfigOption("scan.mode", _WORD, "default")
    scan_snapshot_id = _unset("scan.snapshot-id", _LONG)
    scan_tag_name = _unset("scan.tag-name", _TEXT)
    scan_timestamp_millis = _unset("scan.timestamp-millis", _LONG)
    scan_timestamp = _unset("scan.timestamp", _TEXT)
    scan_watermark = _unset("scan.watermark", _LONG)
    scan_version = _unset("scan.version", _TEXT)
    scan_file_creation_time_millis = _unset("scan.file-creation-time-millis", _LONG)
    scan_creation_time_millis = _unset("scan.creation-time-millis", _LONG)
    # A branch that gives the partitions which this one lacks; or one whose partitions are read before this one's.
    scan_fallback_branch = _unset("scan.fallback-branch", _TEXT)
    scan_primary_branch = _unset("scan.primary-branch", _TEXT)
    incremental_between = _unset("incremental-between", _TEXT)
    incremental_between_timestamp = _unset("incremental-between-timestamp", _TEXT)
    incremental_between_scan_mode = ConfigOption("incremental-between-scan-mode", _WORD, "auto")
    streaming_read_overwrite = ConfigOption("streaming-read-overwrite", _BOOL, default=False)
    streaming_read_append_overwrite = ConfigOption("streaming-read-append-overwrite", _BOOL, default=False)

    # Options of this library, which other implementations ignore.
    lakewright_durable = ConfigOption("lakewright.durable", _BOOL, default=True)  # fsync on local disks
    # How long expiry after commits leaves a snapshot alone, whatever the counts: writers may have planned on it.
    lakewright_expire_grace = ConfigOption("lakewright.expire.grace", _TIME, 60 * 60 * 1000)
    lakewright_job_id_retention = ConfigOption("lakewright.job-id.retention", _TIME, 90 * 24 * 60 * 60 * 1000)
    lakewright_write_threads = ConfigOption("lakewright.write-threads", _COUNT, _CPUS)
    lakewright_write_distribution = ConfigOption(
        "lakewright.write-distribution", _one_of(WriteDistribution), WriteDistribution.AUTO
    )
    lakewright_merge_memory = ConfigOption("lakewright.merge-memory", _SIZE, 256 * MIB)  # rows of one merge in memory
    # Of decoded manifests, lists and index manifests, for all tables of the process together; 0 keeps none.
    lakewright_manifest_cache = ConfigOption("lakewright.manifest-cache", _SIZE, 128 * MIB)
    # Rows of level 0 are read, and merged, also where only compacted rows are visible.
    lakewright_read_level_0 = ConfigOption("lakewright.read-level-0", _BOOL, default=False)
    # Of a table with a primary key only rows of the highest level are read, which need no merge: `db.t$ro`.
    lakewright_read_optimized = ConfigOption("lakewright.read-optimized", _BOOL, default=False)
    lakewright_read_threads = ConfigOption("lakewright.read-threads", _COUNT, _CPUS)
    # The zone of times in filters and conditions that name none, for columns WITH LOCAL TIME ZONE.
    lakewright_time_zone = ConfigOption("lakewright.time-zone", _ZONE, "UTC")
    lakewright_native_scan = ConfigOption("lakewright.native-scan", _one_of(NativeScan), NativeScan.LOCAL)

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        values = {} if values is None else values
        # An instance attribute hides the ConfigOption of its name. Without one, the ConfigOption raises the error.
        attributes = self.__dict__
        attributes.update(_DEFAULTS)
        attributes["values"] = values
        for name in {_ATTRIBUTES[key] for key in values.keys() & _ATTRIBUTES.keys()}:
            try:
                attributes[name] = read_option(values, _BY_ATTRIBUTE[name])
            except InvalidInputError:
                del attributes[name]

    @classmethod
    def from_dict(cls, options: Mapping[str, object]) -> TableOptions:
        """Take a map of options; numbers and booleans become text."""
        return cls(option_texts(options))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"options are not changed: cannot set {name!r}; make a table schema with other options")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableOptions) and dict(self.values) == dict(other.values)

    __hash__ = None  # type: ignore[assignment]  # a mapping has no hash

    def __reduce__(self) -> tuple[object, ...]:
        return TableOptions, (dict(self.values),)

    def get(self, option: ConfigOption[T]) -> T:
        """Return the value of an option that is chosen at run time."""
        return read_option(self.values, option)

    def check(self) -> None:
        """Raise InvalidInputError if the value of a known option cannot be read."""
        for name in _BY_ATTRIBUTE:
            getattr(self, name)

    @cached_property
    def hides_level_0(self) -> bool:
        """Whether a batch read leaves level 0 out, so that new rows show only after a compaction."""
        if self.merge_engine.traits.needs_lookup:
            return True
        return self.deletion_vectors_enabled and not self.deletion_vectors_merge_on_read

    @cached_property
    def needs_lookup(self) -> bool:
        """Whether a compaction of level 0 looks up the rows that its keys have in deeper levels."""
        return (
            self.deletion_vectors_enabled
            or self.merge_engine.traits.needs_lookup
            or self.changelog_producer is ChangelogProducer.LOOKUP
            or self.force_lookup
        )

    @cached_property
    def deletes_remove_rows(self) -> bool:
        """Whether a delete removes the row of its key from a primary-key table."""
        traits = self.merge_engine.traits
        if not traits.accepts_deletes or traits.delete_option is None:
            return traits.accepts_deletes
        return self.get(ConfigOption(traits.delete_option, _BOOL, default=False))

    @cached_property
    def read_threads(self) -> int:
        """The number of threads that read the splits of a call that names no number itself."""
        return self.read_parallelism or self.lakewright_read_threads

    @cached_property
    def level_count(self) -> int:
        """The number of levels of the tree in each bucket."""
        return self.num_levels or self.num_sorted_run_compaction_trigger + 1

    def data_file_size(self, *, has_primary_key: bool) -> int:
        """Return the size in bytes at which a data file is closed and the next one begins."""
        return self.target_file_size or (128 if has_primary_key else 256) * MIB

    def stats_mode(self, column: str) -> str:
        """Return the statistics mode of one column, as text."""
        return self.values.get(f"fields.{column}.stats-mode") or self.metadata_stats_mode


_BY_ATTRIBUTE: dict[str, ConfigOption[object]] = {
    name: option for name, option in vars(TableOptions).items() if isinstance(option, ConfigOption)
}
_DEFAULTS = {name: option.default for name, option in _BY_ATTRIBUTE.items()}
_ATTRIBUTES = {key: name for name, option in _BY_ATTRIBUTE.items() for key in (option.name, *option.old_names)}
KNOWN_OPTIONS = tuple(_BY_ATTRIBUTE.values())


class _OptionNames(type):
    """Lets `CoreOptions.WRITE_BUFFER_SIZE` be the option of `TableOptions.write_buffer_size`."""

    def __getattr__(cls, name: str) -> ConfigOption[Any]:
        option = _BY_ATTRIBUTE.get(name.lower()) if name.isupper() else None
        if option is None:
            raise AttributeError(f"there is no option CoreOptions.{name}; docs/options.md lists all keys")
        return option

    def __dir__(cls) -> list[str]:
        return [*super().__dir__(), *(name.upper() for name in _BY_ATTRIBUTE)]


@dataclass(frozen=True, slots=True)
class CoreOptions(metaclass=_OptionNames):
    """The options of one table in pypaimon's form: a map that returns the value of an option.

    >>> options = CoreOptions.from_dict({"bucket": "4", "snapshot.time-retained": "2 h"})
    >>> options.bucket(), options.get(CoreOptions.SNAPSHOT_TIME_RETAINED), options.merge_engine()
    (4, 7200000, <MergeEngine.DEDUPLICATE: 'deduplicate'>)
    """

    values: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, options: Mapping[str, object]) -> CoreOptions:
        """Take a map of options; numbers and booleans become text."""
        return cls(option_texts(options))

    def to_map(self) -> dict[str, str]:
        """Return a copy of the text map."""
        return dict(self.values)

    def get(self, option: ConfigOption[T], default: T | None = None) -> T:
        """Return the value of an option; where it is not set, the given default, else the option's own."""
        if not isinstance(option, ConfigOption):
            raise InvalidInputError(f"an option is one of CoreOptions, such as CoreOptions.BUCKET, not {type(option)}")
        return read_option(self.values, option, default)

    def bucket(self, default: int | None = None) -> int:
        """Return the number of buckets; -1 means dynamic or no buckets, -2 postponed ones."""
        return self.get(TableOptions.bucket, default)

    def bucket_key(self) -> tuple[str, ...]:
        """Return the names in `bucket-key`. Blanks around the commas belong to the names."""
        return self.get(TableOptions.bucket_key)

    def merge_engine(self, default: MergeEngine | None = None) -> MergeEngine:
        """Return how rows of one key are merged."""
        return self.get(TableOptions.merge_engine, default)

    def deletion_vectors_enabled(self, default: bool | None = None) -> bool:  # noqa: FBT001 - pypaimon's signature
        """Return whether deletes are kept as deletion vectors."""
        return self.get(TableOptions.deletion_vectors_enabled, default)

    def row_tracking_enabled(self, default: bool | None = None) -> bool:  # noqa: FBT001 - pypaimon's signature
        """Return whether every row has an id of its own."""
        return self.get(TableOptions.row_tracking_enabled, default)

    def data_evolution_enabled(self, default: bool | None = None) -> bool:  # noqa: FBT001 - pypaimon's signature
        """Return whether columns of the same rows may be stored in different files."""
        return self.get(TableOptions.data_evolution_enabled, default)

    def file_format(self, default: str | None = None) -> str:
        """Return the format of new data files."""
        return self.get(TableOptions.file_format, default)

    def file_compression(self, default: str | None = None) -> str:
        """Return the compression of new data files."""
        return self.get(TableOptions.file_compression, default)


# Options that let a handle show another snapshot than the newest one.
TRAVEL = tuple(
    option.key()
    for option in (
        TableOptions.scan_snapshot_id,
        TableOptions.scan_tag_name,
        TableOptions.scan_timestamp_millis,
        TableOptions.scan_timestamp,
        TableOptions.scan_version,
        TableOptions.scan_watermark,
    )
)
LATEST_MODES = frozenset({"default", "latest-full", "full", "latest"})  # values of `scan.mode` that show the newest one
