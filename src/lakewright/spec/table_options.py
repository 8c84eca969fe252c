"""`CoreOptions`: the options of one table, as typed values of their text.

Every option is text on disk. A `ConfigOption` holds its key, the keys it had in older releases, a function that reads
the text, and a default; a `CoreOptions` holds the options of one table as text and returns typed values. A text is
parsed only when its option is needed, so a table with a bad value in an option that is not needed can still be read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic

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
    NativeScan,
    OptionKind,
    SortOrder,
    T,
    WriteDistribution,
    option_text,
    parse_duration_millis,
    parse_memory,
)
from lakewright.spec.scalars import zone_of


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
    return OptionKind("one of " + ", ".join(members), _OneOf(members))


def _words(*words: str) -> OptionKind[str]:
    return OptionKind(
        "one of " + ", ".join(words), lambda text: words[words.index(text.strip().lower().replace("_", "-"))]
    )


_INT = OptionKind("a whole number", _WholeNumber(-MAX_INT - 1, MAX_INT))
_COUNT = OptionKind("a whole number of at least 1", _WholeNumber(1, MAX_INT))
_LONG_COUNT = OptionKind("a whole number of at least 1", _WholeNumber(1, MAX_LONG))
_LONG = OptionKind("a whole number", _WholeNumber(-MAX_LONG - 1, MAX_LONG))
_BOOL = OptionKind("true or false", _boolean)
_RATIO = OptionKind("a number from 0 to 1", _ratio)
_SIZE = OptionKind("a size such as 8 mb", parse_memory)
_TIME = OptionKind("a duration such as 10 min, 1 h or PT1H", parse_duration_millis)
_TEXT = OptionKind("a text", str)
_WORD = OptionKind("a word", _lower)
_ZONE = OptionKind("a time zone such as UTC, Europe/Berlin or +02:00", _zone)
_STATS = OptionKind("none, counts, full or truncate(n)", _stats_mode)
_NAMES = OptionKind("names with commas between them, none of them blank", _names)
_LEVELS = OptionKind("a list such as 0:avro,5:parquet", _per_level)
_WEIGHTS = OptionKind("a list of whole numbers of at least 1, separated by commas", _weights)
_BUCKET = OptionKind("a number of buckets of at least 1, or -1 (dynamic), or -2 (postpone)", _buckets)
_NO_NAMES: tuple[str, ...] = ()
_NO_LEVELS: Mapping[int, str] = MappingProxyType({})
_CPUS = os.cpu_count() or 1


def _unset(key: str, kind: OptionKind[T]) -> ConfigOption[T | None]:
    """Return an option without a default."""
    return ConfigOption(key, kind, None)


@dataclass(frozen=True, slots=True)
class CoreOptions:
    """The options of one table.

    >>> options = CoreOptions.from_dict({"bucket": "4", "snapshot.time-retained": "2 h"})
    >>> options.bucket(), options.get(CoreOptions.SNAPSHOT_TIME_RETAINED), options.merge_engine()
    (4, 7200000, <MergeEngine.DEDUPLICATE: 'deduplicate'>)
    """

    values: Mapping[str, str] = field(default_factory=dict)

    # Where a table is and what it is.
    PATH = _unset("path", _TEXT)
    TYPE = ConfigOption("type", _WORD, "table")
    BRANCH = ConfigOption("branch", _TEXT, "main")
    PRIMARY_KEY = _unset("primary-key", _NAMES)
    PARTITION = _unset("partition", _NAMES)
    PRIMARY_KEY_NULLABLE = ConfigOption("primary-key.nullable", _BOOL, default=False)
    ADD_COLUMN_BEFORE_PARTITION = ConfigOption("add-column-before-partition", _BOOL, default=False)
    ALTER_COLUMN_NULL_TO_NOT_NULL_DISABLED = ConfigOption("alter-column-null-to-not-null.disabled", _BOOL, default=True)
    DISABLE_EXPLICIT_TYPE_CASTING = ConfigOption("disable-explicit-type-casting", _BOOL, default=False)

    # Buckets and partitions.
    BUCKET = ConfigOption("bucket", _BUCKET, -1)
    BUCKET_KEY = _unset("bucket-key", _TEXT)
    BUCKET_FUNCTION_TYPE = ConfigOption("bucket-function.type", _WORD, "default")
    BUCKET_APPEND_ORDERED = ConfigOption("bucket-append-ordered", _BOOL, default=True)
    DYNAMIC_BUCKET_TARGET_ROW_NUM = ConfigOption("dynamic-bucket.target-row-num", _LONG, 2_000_000)
    DYNAMIC_BUCKET_INITIAL_BUCKETS = _unset("dynamic-bucket.initial-buckets", _INT)
    DYNAMIC_BUCKET_MAX_BUCKETS = ConfigOption("dynamic-bucket.max-buckets", _INT, -1)
    POSTPONE_DEFAULT_BUCKET_NUM = _unset("postpone.default-bucket-num", _INT)
    POSTPONE_TARGET_SIZE_PER_BUCKET = ConfigOption("postpone.target-size-per-bucket", _SIZE, GIB)
    POSTPONE_TARGET_ROW_NUM_PER_BUCKET = _unset("postpone.target-row-num-per-bucket", _LONG_COUNT)
    POSTPONE_BATCH_WRITE_FIXED_BUCKET_MAX_PARALLELISM = ConfigOption(
        "postpone.batch-write-fixed-bucket.max-parallelism", _COUNT, 2048
    )
    POSTPONE_BATCH_WRITE_FIXED_BUCKET = ConfigOption("postpone.batch-write-fixed-bucket", _BOOL, default=True)
    POSTPONE_MERGE_ON_READ = ConfigOption("postpone.merge-on-read", _BOOL, default=False)
    PARTITION_DEFAULT_NAME = ConfigOption("partition.default-name", _TEXT, "__DEFAULT_PARTITION__")
    PARTITION_LEGACY_NAME = ConfigOption("partition.legacy-name", _BOOL, default=True)
    DYNAMIC_PARTITION_OVERWRITE = ConfigOption("dynamic-partition-overwrite", _BOOL, default=True)

    # Data files.
    FILE_FORMAT = ConfigOption("file.format", _WORD, "parquet")
    FILE_FORMAT_PER_LEVEL = ConfigOption("file.format.per.level", _LEVELS, _NO_LEVELS)
    FILE_COMPRESSION = ConfigOption("file.compression", _WORD, "zstd")
    FILE_COMPRESSION_PER_LEVEL = ConfigOption("file.compression.per.level", _LEVELS, _NO_LEVELS)
    FILE_COMPRESSION_ZSTD_LEVEL = ConfigOption("file.compression.zstd-level", _INT, 1)
    FILE_BLOCK_SIZE = _unset("file.block-size", _SIZE)
    FILE_SUFFIX_INCLUDE_COMPRESSION = ConfigOption("file.suffix.include.compression", _BOOL, default=False)
    DATA_FILE_PREFIX = ConfigOption("data-file.prefix", _TEXT, "data-")
    DATA_FILE_THIN_MODE = ConfigOption("data-file.thin-mode", _BOOL, default=False)
    DATA_FILE_PATH_DIRECTORY = _unset("data-file.path-directory", _TEXT)
    DATA_FILE_EXTERNAL_PATHS = _unset("data-file.external-paths", _TEXT)
    DATA_FILE_EXTERNAL_PATHS_STRATEGY = ConfigOption(
        "data-file.external-paths.strategy", _one_of(ExternalPathStrategy), ExternalPathStrategy.NONE
    )
    DATA_FILE_EXTERNAL_PATHS_SPECIFIC_FS = _unset("data-file.external-paths.specific-fs", _WORD)
    DATA_FILE_EXTERNAL_PATHS_WEIGHTS = _unset("data-file.external-paths.weights", _WEIGHTS)
    CHANGELOG_FILE_PREFIX = ConfigOption("changelog-file.prefix", _TEXT, "changelog-")
    CHANGELOG_FILE_FORMAT = _unset("changelog-file.format", _WORD)
    CHANGELOG_FILE_COMPRESSION = _unset("changelog-file.compression", _WORD)
    TARGET_FILE_SIZE = _unset("target-file-size", _SIZE)
    TARGET_FILE_ROW_NUM = ConfigOption("target-file-row-num", _LONG, MAX_LONG)
    INDEX_FILE_IN_DATA_FILE_DIR = ConfigOption("index-file-in-data-file-dir", _BOOL, default=False)
    FILE_INDEX_READ_ENABLED = ConfigOption("file-index.read.enabled", _BOOL, default=True)
    FILE_INDEX_IN_MANIFEST_THRESHOLD = ConfigOption("file-index.in-manifest-threshold", _SIZE, 500)
    BLOB_FIELD = _unset("blob-field", _NAMES)
    BLOB_DESCRIPTOR_FIELD = _unset("blob-descriptor-field", _NAMES)
    BLOB_VIEW_FIELD = _unset("blob-view-field", _NAMES)
    VECTOR_FIELD = _unset("vector-field", _NAMES)

    # Statistics.
    METADATA_STATS_MODE = ConfigOption("metadata.stats-mode", _STATS, "truncate(16)")
    METADATA_STATS_MODE_PER_LEVEL = ConfigOption("metadata.stats-mode.per.level", _LEVELS, _NO_LEVELS)
    METADATA_STATS_DENSE_STORE = ConfigOption("metadata.stats-dense-store", _BOOL, default=True)
    METADATA_STATS_KEEP_FIRST_N_COLUMNS = ConfigOption("metadata.stats-keep-first-n-columns", _INT, -1)

    # Writing.
    WRITE_ONLY = ConfigOption("write-only", _BOOL, default=False, old_names=("write.compaction-skip",))
    WRITE_BUFFER_SIZE = ConfigOption("write-buffer-size", _SIZE, 256 * MIB)
    WRITE_BUFFER_SPILLABLE = ConfigOption("write-buffer-spillable", _BOOL, default=True)
    WRITE_SEQUENCE_NUMBER_INIT_MODE = ConfigOption("write.sequence-number-init-mode", _WORD, "scan")
    OVERWRITE_UPGRADE = ConfigOption("overwrite-upgrade", _BOOL, default=True)

    # Merging.
    MERGE_ENGINE = ConfigOption("merge-engine", _one_of(MergeEngine), MergeEngine.DEDUPLICATE)
    SEQUENCE_FIELD = ConfigOption("sequence.field", _NAMES, _NO_NAMES)
    SEQUENCE_FIELD_SORT_ORDER = ConfigOption("sequence.field.sort-order", _one_of(SortOrder), SortOrder.ASCENDING)
    SEQUENCE_SNAPSHOT_ORDERING = ConfigOption("sequence.snapshot-ordering", _BOOL, default=False)
    ROWKIND_FIELD = _unset("rowkind.field", _TEXT)
    IGNORE_DELETE = ConfigOption(
        "ignore-delete", _BOOL, default=False, old_names=tuple(f"{engine}.ignore-delete" for engine in MergeEngine)
    )
    IGNORE_UPDATE_BEFORE = ConfigOption("ignore-update-before", _BOOL, default=False)
    PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE = ConfigOption(
        "partial-update.remove-record-on-delete", _BOOL, default=False
    )
    PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP = _unset("partial-update.remove-record-on-sequence-group", _TEXT)
    AGGREGATION_REMOVE_RECORD_ON_DELETE = ConfigOption("aggregation.remove-record-on-delete", _BOOL, default=False)
    FIELDS_DEFAULT_AGGREGATE_FUNCTION = _unset("fields.default-aggregate-function", _WORD)
    CHANGELOG_PRODUCER = ConfigOption("changelog-producer", _one_of(ChangelogProducer), ChangelogProducer.NONE)
    CHANGELOG_PRODUCER_ROW_DEDUPLICATE = ConfigOption("changelog-producer.row-deduplicate", _BOOL, default=False)
    CHANGELOG_PRODUCER_ROW_DEDUPLICATE_IGNORE_FIELDS = ConfigOption(
        "changelog-producer.row-deduplicate-ignore-fields", _NAMES, _NO_NAMES
    )
    PK_CLUSTERING_OVERRIDE = ConfigOption("pk-clustering-override", _BOOL, default=False)

    # Compaction.
    NUM_SORTED_RUN_COMPACTION_TRIGGER = ConfigOption("num-sorted-run.compaction-trigger", _COUNT, 5)
    NUM_SORTED_RUN_STOP_TRIGGER = _unset("num-sorted-run.stop-trigger", _COUNT)
    NUM_LEVELS = _unset("num-levels", _COUNT)
    COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT = ConfigOption("compaction.max-size-amplification-percent", _INT, 200)
    COMPACTION_SIZE_RATIO = ConfigOption("compaction.size-ratio", _INT, 1)
    COMPACTION_FORCE_UP_LEVEL_0 = ConfigOption("compaction.force-up-level-0", _BOOL, default=False)
    COMPACTION_OPTIMIZATION_INTERVAL = _unset("compaction.optimization-interval", _TIME)
    COMPACTION_TOTAL_SIZE_THRESHOLD = _unset("compaction.total-size-threshold", _SIZE)
    COMPACTION_INCREMENTAL_SIZE_THRESHOLD = _unset("compaction.incremental-size-threshold", _SIZE)
    COMPACTION_MIN_FILE_NUM = ConfigOption("compaction.min.file-num", _COUNT, 5)
    COMPACTION_SMALL_FILE_RATIO = ConfigOption("compaction.small-file-ratio", _RATIO, 0.7)
    COMPACTION_DELETE_RATIO_THRESHOLD = ConfigOption("compaction.delete-ratio-threshold", _RATIO, 0.2)
    COMPACTION_FORCE_REWRITE_ALL_FILES = ConfigOption("compaction.force-rewrite-all-files", _BOOL, default=False)
    FULL_COMPACTION_DELTA_COMMITS = _unset("full-compaction.delta-commits", _COUNT)
    LOOKUP_WAIT = ConfigOption("lookup-wait", _BOOL, default=True)
    LOOKUP_COMPACT = ConfigOption("lookup-compact", _WORD, "radical")
    FORCE_LOOKUP = ConfigOption("force-lookup", _BOOL, default=False)
    RECORD_LEVEL_EXPIRE_TIME = _unset("record-level.expire-time", _TIME)
    RECORD_LEVEL_TIME_FIELD = _unset("record-level.time-field", _TEXT)
    CLUSTERING_COLUMNS = ConfigOption("clustering.columns", _NAMES, _NO_NAMES)
    CLUSTERING_INCREMENTAL = ConfigOption("clustering.incremental", _BOOL, default=False)

    # Deletion vectors, row tracking.
    DELETION_VECTORS_ENABLED = ConfigOption("deletion-vectors.enabled", _BOOL, default=False)
    DELETION_VECTORS_BITMAP64 = ConfigOption("deletion-vectors.bitmap64", _BOOL, default=False)
    DELETION_VECTORS_MERGE_ON_READ = ConfigOption("deletion-vectors.merge-on-read", _BOOL, default=False)
    DELETION_VECTORS_MODIFIABLE = ConfigOption("deletion-vectors.modifiable", _BOOL, default=False)
    DELETION_VECTOR_INDEX_FILE_TARGET_SIZE = ConfigOption("deletion-vector.index-file.target-size", _SIZE, 2 * MIB)
    ROW_TRACKING_ENABLED = ConfigOption("row-tracking.enabled", _BOOL, default=False)
    ROW_TRACKING_PARTITION_GROUP_ON_COMMIT = ConfigOption("row-tracking.partition-group-on-commit", _BOOL, default=True)
    DATA_EVOLUTION_ENABLED = ConfigOption("data-evolution.enabled", _BOOL, default=False)

    # Manifests and commits.
    MANIFEST_TARGET_FILE_SIZE = ConfigOption("manifest.target-file-size", _SIZE, 8 * MIB)
    MANIFEST_MERGE_MIN_COUNT = ConfigOption("manifest.merge-min-count", _COUNT, 30)
    MANIFEST_FULL_COMPACTION_THRESHOLD_SIZE = ConfigOption("manifest.full-compaction-threshold-size", _SIZE, 16 * MIB)
    MANIFEST_COMPRESSION = ConfigOption("manifest.compression", _WORD, "zstd")
    MANIFEST_DELETE_FILE_DROP_STATS = ConfigOption("manifest.delete-file-drop-stats", _BOOL, default=False)
    MANIFEST_SORT_ENABLED = ConfigOption("manifest-sort.enabled", _BOOL, default=False)
    COMMIT_MAX_RETRIES = ConfigOption("commit.max-retries", _INT, 10)
    COMMIT_TIMEOUT = _unset("commit.timeout", _TIME)
    COMMIT_MIN_RETRY_WAIT = ConfigOption("commit.min-retry-wait", _TIME, 10)
    COMMIT_MAX_RETRY_WAIT = ConfigOption("commit.max-retry-wait", _TIME, 10_000)
    COMMIT_USER_PREFIX = _unset("commit.user-prefix", _TEXT)
    COMMIT_FORCE_COMPACT = ConfigOption("commit.force-compact", _BOOL, default=False)
    COMMIT_FORCE_CREATE_SNAPSHOT = ConfigOption("commit.force-create-snapshot", _BOOL, default=False)
    COMMIT_DISCARD_DUPLICATE_FILES = ConfigOption("commit.discard-duplicate-files", _BOOL, default=False)
    COMMIT_STRICT_MODE_LAST_SAFE_SNAPSHOT = _unset("commit.strict-mode.last-safe-snapshot", _LONG)
    LOCK_ENABLED = _unset("lock.enabled", _BOOL)
    LOCK_TYPE = _unset("lock.type", _WORD)
    LOCK_ACQUIRE_TIMEOUT = ConfigOption("lock-acquire-timeout", _TIME, 8 * 60 * 1000)
    LOCK_CHECK_MAX_SLEEP = ConfigOption("lock-check-max-sleep", _TIME, 8 * 1000)

    # Snapshots, changelogs, tags and consumers.
    SNAPSHOT_NUM_RETAINED_MIN = ConfigOption("snapshot.num-retained.min", _COUNT, 10)
    SNAPSHOT_NUM_RETAINED_MAX = ConfigOption("snapshot.num-retained.max", _COUNT, MAX_INT)
    SNAPSHOT_TIME_RETAINED = ConfigOption("snapshot.time-retained", _TIME, 60 * 60 * 1000)
    SNAPSHOT_EXPIRE_LIMIT = ConfigOption("snapshot.expire.limit", _COUNT, 50)
    SNAPSHOT_CLEAN_EMPTY_DIRECTORIES = ConfigOption("snapshot.clean-empty-directories", _BOOL, default=False)
    SNAPSHOT_IGNORE_EMPTY_COMMIT = _unset("snapshot.ignore-empty-commit", _BOOL)
    CHANGELOG_NUM_RETAINED_MIN = _unset("changelog.num-retained.min", _COUNT)
    CHANGELOG_NUM_RETAINED_MAX = _unset("changelog.num-retained.max", _COUNT)
    CHANGELOG_TIME_RETAINED = _unset("changelog.time-retained", _TIME)
    TAG_DEFAULT_TIME_RETAINED = _unset("tag.default-time-retained", _TIME)
    TAG_NUM_RETAINED_MAX = _unset("tag.num-retained-max", _COUNT)
    TAG_AUTOMATIC_CREATION = ConfigOption(
        "tag.automatic-creation", _words("none", "process-time", "watermark", "batch"), "none"
    )
    TAG_AUTOMATIC_COMPLETION = ConfigOption("tag.automatic-completion", _BOOL, default=False)
    TAG_CREATION_PERIOD = ConfigOption("tag.creation-period", _words("daily", "hourly", "two-hours"), "daily")
    TAG_CREATION_PERIOD_DURATION = _unset("tag.creation-period-duration", _TIME)
    TAG_CREATION_DELAY = ConfigOption("tag.creation-delay", _TIME, 0)
    TAG_PERIOD_FORMATTER = ConfigOption(
        "tag.period-formatter", _words("with-dashes", "without-dashes", "without-dashes-and-spaces"), "with-dashes"
    )
    TAG_BATCH_CUSTOMIZED_NAME = _unset("tag.batch.customized-name", _TEXT)
    TAG_CREATE_SUCCESS_FILE = ConfigOption("tag.create-success-file", _BOOL, default=False)
    TAG_TIME_EXPIRE_ENABLED = ConfigOption("tag.time-expire-enabled", _BOOL, default=True)
    SINK_PROCESS_TIME_ZONE = _unset("sink.process-time-zone", _ZONE)
    SINK_WATERMARK_TIME_ZONE = ConfigOption("sink.watermark-time-zone", _ZONE, "UTC")
    PARTITION_EXPIRATION_TIME = _unset("partition.expiration-time", _TIME)
    PARTITION_EXPIRATION_CHECK_INTERVAL = ConfigOption("partition.expiration-check-interval", _TIME, 60 * 60 * 1000)
    PARTITION_EXPIRATION_STRATEGY = ConfigOption("partition.expiration-strategy", _TEXT, "values-time")
    PARTITION_EXPIRATION_MAX_NUM = ConfigOption("partition.expiration-max-num", _COUNT, 100)
    PARTITION_EXPIRATION_BATCH_SIZE = _unset("partition.expiration-batch-size", _COUNT)
    PARTITION_TIMESTAMP_FORMATTER = _unset("partition.timestamp-formatter", _TEXT)
    PARTITION_TIMESTAMP_PATTERN = _unset("partition.timestamp-pattern", _TEXT)
    PARTITION_MARK_DONE_ACTION = ConfigOption("partition.mark-done-action", _TEXT, "success-file")
    PARTITION_MARK_DONE_ACTION_HTTP_URL = _unset("partition.mark-done-action.http.url", _TEXT)
    PARTITION_MARK_DONE_ACTION_HTTP_PARAMS = _unset("partition.mark-done-action.http.params", _TEXT)
    END_INPUT_CHECK_PARTITION_EXPIRE = ConfigOption("end-input.check-partition-expire", _BOOL, default=False)
    CONSUMER_ID = _unset("consumer-id", _TEXT)
    CONSUMER_IGNORE_PROGRESS = ConfigOption("consumer.ignore-progress", _BOOL, default=False)
    CONSUMER_EXPIRATION_TIME = _unset("consumer.expiration-time", _TIME)
    CONSUMER_CHANGELOG_ONLY = ConfigOption("consumer.changelog-only", _BOOL, default=False)

    # Reading.
    SOURCE_SPLIT_TARGET_SIZE = ConfigOption("source.split.target-size", _SIZE, 128 * MIB)
    SOURCE_SPLIT_OPEN_FILE_COST = ConfigOption("source.split.open-file-cost", _SIZE, 4 * MIB)
    READ_PARALLELISM = _unset("read.parallelism", _COUNT)
    READ_BATCH_SIZE = ConfigOption("read.batch-size", _COUNT, 1024)
    SCAN_MODE = ConfigOption("scan.mode", _WORD, "default")
    SCAN_SNAPSHOT_ID = _unset("scan.snapshot-id", _LONG)
    SCAN_TAG_NAME = _unset("scan.tag-name", _TEXT)
    SCAN_TIMESTAMP_MILLIS = _unset("scan.timestamp-millis", _LONG)
    SCAN_TIMESTAMP = _unset("scan.timestamp", _TEXT)
    SCAN_WATERMARK = _unset("scan.watermark", _LONG)
    SCAN_VERSION = _unset("scan.version", _TEXT)
    SCAN_FILE_CREATION_TIME_MILLIS = _unset("scan.file-creation-time-millis", _LONG)
    SCAN_CREATION_TIME_MILLIS = _unset("scan.creation-time-millis", _LONG)
    # A branch that gives the partitions which this one lacks; or one whose partitions are read before this one's.
    SCAN_FALLBACK_BRANCH = _unset("scan.fallback-branch", _TEXT)
    SCAN_PRIMARY_BRANCH = _unset("scan.primary-branch", _TEXT)
    INCREMENTAL_BETWEEN = _unset("incremental-between", _TEXT)
    INCREMENTAL_BETWEEN_TIMESTAMP = _unset("incremental-between-timestamp", _TEXT)
    INCREMENTAL_BETWEEN_SCAN_MODE = ConfigOption("incremental-between-scan-mode", _WORD, "auto")
    STREAMING_READ_OVERWRITE = ConfigOption("streaming-read-overwrite", _BOOL, default=False)
    STREAMING_READ_APPEND_OVERWRITE = ConfigOption("streaming-read-append-overwrite", _BOOL, default=False)

    # Options of this library, which other implementations ignore.
    LAKEWRIGHT_DURABLE = ConfigOption("lakewright.durable", _BOOL, default=True)  # fsync on local disks
    # How long expiry after commits leaves a snapshot alone, whatever the counts: writers may have planned on it.
    LAKEWRIGHT_EXPIRE_GRACE = ConfigOption("lakewright.expire.grace", _TIME, 60 * 60 * 1000)
    LAKEWRIGHT_JOB_ID_RETENTION = ConfigOption("lakewright.job-id.retention", _TIME, 90 * 24 * 60 * 60 * 1000)
    LAKEWRIGHT_WRITE_THREADS = ConfigOption("lakewright.write-threads", _COUNT, _CPUS)
    LAKEWRIGHT_WRITE_DISTRIBUTION = ConfigOption(
        "lakewright.write-distribution", _one_of(WriteDistribution), WriteDistribution.AUTO
    )
    LAKEWRIGHT_MERGE_MEMORY = ConfigOption("lakewright.merge-memory", _SIZE, 256 * MIB)  # rows of one merge in memory
    # Of decoded manifests, lists and index manifests, for all tables of the process together; 0 keeps none.
    LAKEWRIGHT_MANIFEST_CACHE = ConfigOption("lakewright.manifest-cache", _SIZE, 128 * MIB)
    # Rows of level 0 are read, and merged, also where only compacted rows are visible.
    LAKEWRIGHT_READ_LEVEL_0 = ConfigOption("lakewright.read-level-0", _BOOL, default=False)
    # Of a table with a primary key only rows of the highest level are read, which need no merge: `db.t$ro`.
    LAKEWRIGHT_READ_OPTIMIZED = ConfigOption("lakewright.read-optimized", _BOOL, default=False)
    LAKEWRIGHT_READ_THREADS = ConfigOption("lakewright.read-threads", _COUNT, _CPUS)
    # The zone of times in filters and conditions that name none, for columns WITH LOCAL TIME ZONE.
    LAKEWRIGHT_TIME_ZONE = ConfigOption("lakewright.time-zone", _ZONE, "UTC")
    LAKEWRIGHT_NATIVE_SCAN = ConfigOption("lakewright.native-scan", _one_of(NativeScan), NativeScan.LOCAL)

    @classmethod
    def from_dict(cls, options: Mapping[str, object]) -> CoreOptions:
        """Take a map of options; numbers and booleans become text."""
        if not isinstance(options, Mapping):
            raise InvalidInputError(f"options are a dict of keys and values, not {type(options).__name__}")
        return cls({_key(key): option_text(key, value) for key, value in options.items()})

    def to_map(self) -> dict[str, str]:
        """Return a copy of the text map."""
        return dict(self.values)

    def get(self, option: ConfigOption[T], default: T | None = None) -> T:
        """Return the value of an option; where it is not set, the given default, else the option's own."""
        if not isinstance(option, ConfigOption):
            raise InvalidInputError(f"an option is one of CoreOptions, such as CoreOptions.BUCKET, not {type(option)}")
        for key in (option.name, *option.old_names):
            if (text := self.values.get(key)) is not None:
                return option.parse(text)
        return option.default if default is None else default

    def check(self) -> None:
        """Raise InvalidInputError if the value of a known option cannot be read."""
        for option in KNOWN_OPTIONS:
            self.get(option)

    def bucket(self, default: int | None = None) -> int:
        """Return the number of buckets; -1 means dynamic or no buckets, -2 postponed ones."""
        return self.get(CoreOptions.BUCKET, default)

    def bucket_key(self) -> tuple[str, ...]:
        """Return the names in `bucket-key`. Blanks around the commas belong to the names."""
        text = self.get(CoreOptions.BUCKET_KEY)
        return () if text is None else tuple(text.split(","))

    def merge_engine(self, default: MergeEngine | None = None) -> MergeEngine:
        """Return how rows of one key are merged."""
        return self.get(CoreOptions.MERGE_ENGINE, default)

    def deletion_vectors_enabled(self, default: bool | None = None) -> bool:  # noqa: FBT001 - pypaimon's signature
        """Return whether deletes are kept as deletion vectors."""
        return self.get(CoreOptions.DELETION_VECTORS_ENABLED, default)

    def hides_level_0(self) -> bool:
        """Return whether a batch read leaves level 0 out, so that new rows show only after a compaction."""
        if self.merge_engine() is MergeEngine.FIRST_ROW:
            return True
        return self.deletion_vectors_enabled() and not self.get(CoreOptions.DELETION_VECTORS_MERGE_ON_READ)

    def needs_lookup(self) -> bool:
        """Return whether a compaction of level 0 looks up the rows that its keys have in deeper levels."""
        return (
            self.deletion_vectors_enabled()
            or self.merge_engine() is MergeEngine.FIRST_ROW
            or self.get(CoreOptions.CHANGELOG_PRODUCER) is ChangelogProducer.LOOKUP
            or self.get(CoreOptions.FORCE_LOOKUP)
        )

    def row_tracking_enabled(self, default: bool | None = None) -> bool:  # noqa: FBT001 - pypaimon's signature
        """Return whether every row has an id of its own."""
        return self.get(CoreOptions.ROW_TRACKING_ENABLED, default)

    def data_evolution_enabled(self, default: bool | None = None) -> bool:  # noqa: FBT001 - pypaimon's signature
        """Return whether columns of the same rows may lie in different files."""
        return self.get(CoreOptions.DATA_EVOLUTION_ENABLED, default)

    def file_format(self, default: str | None = None) -> str:
        """Return the format of new data files."""
        return self.get(CoreOptions.FILE_FORMAT, default)

    def file_compression(self, default: str | None = None) -> str:
        """Return the compression of new data files."""
        return self.get(CoreOptions.FILE_COMPRESSION, default)

    def target_file_size(self, *, has_primary_key: bool) -> int:
        """Return the size in bytes at which a data file is closed and the next one begins."""
        if not isinstance(has_primary_key, bool):
            raise InvalidInputError(f"has_primary_key is True or False, not {type(has_primary_key).__name__}")
        return self.get(CoreOptions.TARGET_FILE_SIZE) or (128 if has_primary_key else 256) * MIB

    def read_threads(self) -> int:
        """Return how many threads read the splits of one call that names no number itself."""
        return self.get(CoreOptions.READ_PARALLELISM) or self.get(CoreOptions.LAKEWRIGHT_READ_THREADS)

    def num_sorted_runs_stop_trigger(self) -> int:
        """Return the number of sorted runs at which a writer waits for compaction."""
        trigger = self.get(CoreOptions.NUM_SORTED_RUN_COMPACTION_TRIGGER)
        return self.get(CoreOptions.NUM_SORTED_RUN_STOP_TRIGGER) or trigger + 3

    def num_levels(self) -> int:
        """Return the number of levels of the tree in each bucket."""
        return self.get(CoreOptions.NUM_LEVELS) or self.get(CoreOptions.NUM_SORTED_RUN_COMPACTION_TRIGGER) + 1

    def stats_mode(self, column: str) -> str:
        """Return the statistics mode of one column, as text."""
        return self.values.get(f"fields.{column}.stats-mode") or self.get(CoreOptions.METADATA_STATS_MODE)


KNOWN_OPTIONS: tuple[ConfigOption[object], ...] = tuple(
    option for option in vars(CoreOptions).values() if isinstance(option, ConfigOption)
)
# Options that let a handle show another snapshot than the newest one.
TRAVEL = tuple(
    option.key()
    for option in (
        CoreOptions.SCAN_SNAPSHOT_ID,
        CoreOptions.SCAN_TAG_NAME,
        CoreOptions.SCAN_TIMESTAMP_MILLIS,
        CoreOptions.SCAN_TIMESTAMP,
        CoreOptions.SCAN_VERSION,
        CoreOptions.SCAN_WATERMARK,
    )
)
LATEST_MODES = frozenset({"default", "latest-full", "full", "latest"})  # values of `scan.mode` that show the newest one
