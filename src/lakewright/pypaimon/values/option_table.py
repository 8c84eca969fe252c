"""The options of tables that pypaimon's `CoreOptions` has: their keys, the types of their values, their defaults.

A line without a default is an option without one.
"""

from __future__ import annotations

OPTION_TABLE = """
add-column-before-partition                             bool               false
auto-create                                             bool               false
blob-as-descriptor                                      bool               false
blob-descriptor-field                                   str
blob-field                                              str
blob-view-field                                         str
blob-view.resolve.enabled                               bool               true
blob.copy-buffer-size                                   size               4 kb
blob.target-file-size                                   size               256 mb
branch                                                  str                main
bucket                                                  int                -1
bucket-key                                              str
changelog-file.format                                   str
changelog-producer                                      ChangelogProducer  none
commit.max-retries                                      int                10
commit.max-retry-wait                                   time               10000 ms
commit.min-retry-wait                                   time               10 ms
commit.native.enabled                                   bool               false
commit.timeout                                          time
commit.user-prefix                                      str
data-evolution.enabled                                  bool               false
data-evolution.row-id-conflict-rewrite.max-size         size               256 mb
data-evolution.row-sidecar.enabled                      bool               false
data-evolution.row-sidecar.max-selected-rows            int                4096
data-evolution.row-sidecar.max-selection-ratio          float              0.05
data-evolution.write-cols-optimization.enabled          bool               false
data-file.external-paths                                str
data-file.external-paths.specific-fs                    str
data-file.external-paths.strategy                       str                none
data-file.external-paths.weights                        str
data-file.path-directory                                str
data-file.prefix                                        str                data-
deletion-vectors.enabled                                bool               false
deletion-vectors.merge-on-read                          bool               false
dynamic-bucket.max-buckets                              int                -1
dynamic-bucket.target-row-num                           int                2000000
dynamic-partition-overwrite                             bool               true
file.block-size                                         size
file.compression                                        str                zstd
file.compression.per.level                              map
file.compression.zstd-level                             int                1
file.format                                             str                parquet
file.format.per.level                                   map
ignore-delete                                           bool               false
incremental-between-timestamp                           str
index-file-in-data-file-dir                             bool               false
manifest-sort.enabled                                   bool               false
manifest.compression                                    str                zstd
manifest.sidecar.enabled                                bool
manifest.target-file-size                               size               8 mb
merge-engine                                            MergeEngine        deduplicate
metadata.stats-mode                                     str                none
parquet.filter.columnindex.enabled                      bool               true
parquet.write-page-index.enabled                        bool
partition.default-name                                  str                __DEFAULT_PARTITION__
partition.legacy-name                                   bool               true
path                                                    str
postpone.batch-write-fixed-bucket                       bool               true
postpone.batch-write-fixed-bucket.max-parallelism       int                2048
postpone.default-bucket-num                             int
postpone.target-row-num-per-bucket                      int
postpone.target-size-per-bucket                         size               1 gb
primary-key.nullable                                    bool               false
query-auth.enabled                                      bool               false
read.batch-size                                         int                1024
read.native.enabled                                     bool               false
read.parallelism                                        int
row-tracking.enabled                                    bool               false
row-tracking.partition-group-on-commit                  bool               true
scan.creation-time-millis                               int
scan.fallback-branch                                    str
scan.file-creation-time-millis                          int
scan.manifest.parallelism                               int                16
scan.mode                                               StartupMode        default
scan.native-plan.enabled                                bool               false
scan.snapshot-id                                        int
scan.tag-name                                           str
scan.timestamp                                          str
scan.timestamp-millis                                   int
scan.version                                            str
scan.watermark                                          int
sequence.field                                          str
sequence.field.sort-order                               SortOrder          ascending
snapshot.ignore-empty-commit                            bool               true
source.split.open-file-cost                             size               4 mb
source.split.target-size                                size               128 mb
target-file-row-num                                     int                9223372036854775807
target-file-size                                        size
type                                                    str                table
variant.shreddingSchema                                 str
write.native.enabled                                    bool               false
"""

# The keys that cannot be changed once a table has snapshots.
IMMUTABLE_OPTIONS = frozenset(
    """
    type bucket-key bucket-function.type data-file.path-directory merge-engine sequence.snapshot-ordering
    aggregation.remove-record-on-delete partial-update.remove-record-on-delete
    partial-update.remove-record-on-sequence-group rowkind.field primary-key primary-key.nullable partition
    dynamic-bucket.initial-buckets force-lookup row-tracking.enabled data-evolution.enabled index-file-in-data-file-dir
    blob-field video-frame-field blob-descriptor-field blob-view-field pk-clustering-override
    """.split()
)
