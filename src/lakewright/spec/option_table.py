"""The table of all option keys that implementations of Paimon know, and how each is handled.

A key is honoured, harmless, refused when written or read, or warned about, so that no option is ignored in silence; an
unknown key causes a warning with the most similar known one. The options that `TableOptions` declares are honoured
unless this table says otherwise; their type, default and when they can change are in the declaration. `docs/options.md`
is made from both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from lakewright.spec.option_values import ConfigOption
from lakewright.spec.table_options import KNOWN_OPTIONS


class Handling(StrEnum):
    """What lakewright does about an option."""

    HONOURED = "honoured"
    HARMLESS = "harmless"  # ignoring it changes no rows, no files that others must see, and no promise
    REFUSED = "refused when read or written"
    REFUSED_WHEN_READ = "refused when read"
    REFUSED_WHEN_WRITTEN = "refused when written"
    WARNED = "warned"  # others do something at a commit that lakewright does not do


class OptionScope(StrEnum):
    """Whose option it is: that of a table, or of a catalog."""

    TABLE = "table"
    CATALOG = "catalog"


@dataclass(frozen=True, slots=True)
class OptionRule:
    """What lakewright does about one key, why, and what the user can do instead."""

    handling: Handling
    reason: str = ""
    idle: frozenset[str] = frozenset()  # values, in lower case, that ask for nothing: they are never refused
    scope: OptionScope = OptionScope.TABLE
    by_compactors: bool = False  # others leave it to the job that compacts if a table is `write-only`
    metastores: frozenset[str] = frozenset()  # the kinds of catalog that honour it; empty: all of them

    def asks_nothing(self, value: str) -> bool:
        """Return whether an option with this value means the same as no option."""
        return value.strip().lower().replace("_", "-") in self.idle

    def is_idle_in(self, metastore: str) -> bool:
        """Return whether a catalog of this kind does nothing about an option that others honour."""
        return bool(self.metastores) and metastore not in self.metastores


# Paragraphs: what is done, why, and indented the keys; behind a key's `=` stand the values that ask for nothing.
_TABLE = """\
honoured
    parquet.enable.dictionary variant.shreddingSchema

refused when read or written: manifests of other formats than Avro are not read here: read the table with Java, and
make it again without the option
    manifest.format=avro

refused when read or written: a table of another type (format, object, lance or iceberg table) has no files of this
format: open it with the engine that made it
    type=table|materialized-table

refused when read or written: a chain table is put together from two branches, which is not implemented: read it with
Java, or read the branches one by one as db.t$branch_name
    chain-table.enabled=false scan.fallback-snapshot-branch scan.fallback-delta-branch

harmless: what an engine records of a materialized table that it refreshes; its rows are those of any table
    materialized-table.definition-query materialized-table.interval-freshness
    materialized-table.logical-refresh-mode materialized-table.refresh-mode materialized-table.refresh-status
    materialized-table.refresh-handler-description materialized-table.refresh-handler-bytes

harmless: only for chain tables, which 'chain-table.enabled' refuses
    chain-table.chain-partition-keys chain-table.split.key-range-enabled chain-table.streaming.merge-snapshot

refused when read or written: a catalog server decides which rows and columns a user may see, and lakewright would
show all of them: read the table with an engine that asks the server
    query-auth.enabled=false

refused when read or written: the files of such a table are not sorted by key, so that they cannot be merged here; use
another engine for them
    pk-clustering-override=false

refused when read or written: BLOB values of other kinds than bytes and descriptors are not implemented; read and write
the table with the engine that made it
    blob-view-field video-frame-field

honoured
    blob-field blob-descriptor-field blob-as-descriptor blob.target-file-size vector.file.format
    vector.target-file-size

harmless: `.blob` files are kept when other files are compacted, and every reader reads them
    blob-compaction.enabled

harmless: how BLOB values are copied and counted; it changes neither rows nor files
    blob-descriptor.source-table blob.copy-buffer-size blob.split-by-file-size lookup.blob-as-descriptor
    cache.blob-index.max-size

refused when written: a BLOB that refers to a missing file is an error here: remove the option
    blob-write-null-on-fetch-failure=false blob-write-null-on-missing-file=false

harmless: only for BLOB columns of kinds that are refused
    blob-view.resolve.enabled

harmless: how a writer infers the typed columns of a VARIANT; files without them hold the same values
    variant.inferShreddingSchema
    variant.shredding.adaptive.maxInferBufferRow variant.shredding.adaptive.retentionRatio
    variant.shredding.inferenceMode variant.shredding.maxInferBufferRow variant.shredding.maxSchemaDepth
    variant.shredding.maxSchemaWidth variant.shredding.minFieldCardinalityRatio

harmless: only for format tables, which 'type' refuses
    format-table.commit-hive-sync-url format-table.file.compression format-table.implementation
    format-table.partition-path-only-value format-table.scan.list-parallelism
    format-table.repair.collect-statistics format-table.statistics.parallelism

refused when written: new ORC files hold TIMESTAMP WITH LOCAL TIME ZONE as the others expect by default: remove the
option, or use 'file.format' = parquet
    orc.timestamp-ltz.legacy.type=true

harmless: how densely an ORC file is packed; every reader reads both
    orc.column.encoding.direct orc.dictionary.key.threshold

harmless: statistics of changelog files, by which no reader skips rows
    changelog-file.stats-mode

refused when read: rows that still wait for their bucket cannot be merged on read; remove the option, or compact the
table first
    postpone.merge-on-read=false

warned: a batch write puts its rows into 'bucket-postpone', where reads see them after table.compact(); to write into
real buckets at once, use table.new_postpone_fixed_bucket_write_builder()
    postpone.batch-write-fixed-bucket=false

harmless: how many buckets a partition gets, which is a matter of speed
    postpone.batch-write-fixed-bucket.rescale-load-factor dynamic-bucket.assigner-parallelism

harmless: rows of a bucket always keep their order
    bucket-append-ordered

harmless: the buckets of keys are looked up anew for each write, so that none is forgotten
    cross-partition-upsert.bootstrap-parallelism cross-partition-upsert.index-ttl

harmless: a delete always writes the changelog that the table has
    delete.force-produce-changelog

harmless: how row-level changes of such tables are planned; rows and their ids are the same
    data-evolution.compaction.rewrite-row-ids data-evolution.merge-into.file-pruning
    data-evolution.merge-into.source-persist data-evolution.reassign.skip-contiguous-row-count
    data-evolution.row-id-conflict-rewrite.max-size data-evolution.row-sidecar.enabled
    data-evolution.row-sidecar.max-selected-rows data-evolution.row-sidecar.max-selection-ratio
    data-evolution.write-cols-optimization.enabled write.data-evolution.update-conflict-retry.max-attempts
    write.data-evolution.update-conflict-retry.wait-ms

harmless: no commit adds a file a second time
    commit.discard-duplicate-files

harmless: how manifests are arranged, which is a matter of size and speed
    manifest.delete-file-drop-stats manifest-sort.enabled manifest-sort.max-rewrite-size
    manifest-sort.partition-field manifest.merge-optimize.enabled manifest.sidecar.enabled

harmless: buffers, sorting and spilling of another engine
    async-file-write cache-page-size page-size local-kv-db.block-size local-merge-buffer-size
    local-sort.max-num-file-handles sort-engine sort-spill-buffer-size sort-spill-threshold spill-compression
    spill-compression.zstd-level write-buffer-for-append write-buffer-spill.max-disk-size
    write-max-writers-to-spill write.batch-memory write.batch-size partition.sink-strategy
    file-operation.thread-num write.use-v2-write write.native.enabled commit.native.enabled tmp.dir
    application.parallelism

refused when written: columns are added where the call says so: schema_mode='merge' of write_table, or the option
mergeSchema of a Spark write
    write.merge-schema=false write.merge-schema.explicit-cast=false write.merge-schema.type-widening=false

refused when written: what an overwrite replaces is said by 'dynamic-partition-overwrite', or by the partitions of the
call: use these
    write.hive-style-dynamic-partition.enabled=false

refused when written: other engines find rows by an index that their compaction builds, and would not find those that
lakewright writes: write the table with Java, or remove the option
    pk-bitmap.index.columns pk-btree.index.columns pk-full-text.index.columns pk-multivalue.index.columns
    pk-vector.index.columns

harmless: indexes are neither written nor read: reads look at the rows themselves
    file-index.in-manifest-threshold file-index.read.enabled full-text-index.search-mode
    global-index.build.max-parallelism global-index.build.max-shard global-index.enabled
    global-index.external-path global-index.row-count-per-shard global-index.search-mode global-index.thread-num
    scalar-index.search-mode vector-index.search-mode vector-search.distribute.enabled
    vector-search.lateral-join.batch-size vector-search.lateral-join.parallelism

harmless: a change of a column that has a global index is always refused
    global-index.column-update-action

harmless: when and in which portions another engine compacts; rows are the same
    num-sorted-run.stop-trigger compaction.file-num-limit compaction.offpeak-ratio compaction.offpeak.start.hour
    compaction.offpeak.end.hour
    compaction.skip-expired-partitions sort-compaction.local-sample.magnification sort-compaction.range-strategy
    zorder.var-length-contribution clustering.history-partition.idle-to-full-sort
    clustering.history-partition.limit clustering.incremental.mode clustering.incremental.optimize-write
    clustering.strategy

harmless: a write that looks rows up waits for its compaction, without a cache on disk
    lookup-wait lookup-compact lookup-compact.max-interval lookup.cache-file-retention lookup.cache-max-disk-size
    lookup.cache-max-memory-size lookup.cache-rows lookup.cache-spill-compression
    lookup.cache.bloom.filter.enabled lookup.cache.bloom.filter.fpp lookup.cache.high-priority-pool-ratio
    lookup.continuous.discovery-interval lookup.hash-load-factor lookup.merge-buffer-size
    lookup.merge-records-threshold lookup.remote-file.enabled lookup.remote-file.level-threshold

warned: neither a write nor a plain table.compact() sorts rows by these columns; reads return the same rows, and skip
fewer files until table.compact(order_by=...) or another engine sorts them
    clustering.columns

warned: table.compact() is refused, because merging files would undo the order that they are in, until
table.compact(order_by=...) or another engine sorts them
    clustering.incremental=false

harmless: expiry after a commit runs in the call that commits, and removes no empty directories, which are never read
    snapshot.expire.execution-mode snapshot.clean-empty-directories

harmless: only for a class of Java, in place of which a function is given, for formats that are always strict here,
and for snapshots that were not asked for
    partition.timestamp-format.strict partition.mark-done-action.custom.class
    partition.idle-time-to-report-statistic snapshot.watermark-idle-timeout

warned: no commit of lakewright marks a partition as done: call table.mark_partition_done after the commit
    partition.end-input-to-done=false partition.idle-time-to-done

warned: classes of Java are not called: do the same after the commit, or with TableCommit.add_commit_callback
    commit.callbacks tag.callbacks

harmless: only for the classes that the option of callbacks names
    commit.callback.#.param tag.callback.#.param

warned: a commit returns when its snapshot is published; it does not wait until rows are compacted
    visibility-callback.enabled=false

harmless: only for 'visibility-callback.enabled'
    visibility-callback.check-interval visibility-callback.timeout

warned: no commit of lakewright writes Iceberg's metadata, so that readers of Iceberg do not see its rows: let Java
commit to the table once more, or read it as a Paimon table
    metadata.iceberg.storage=disabled

harmless: only for 'metadata.iceberg.storage'
    metadata.iceberg.compaction.max.file-num metadata.iceberg.compaction.min.file-num metadata.iceberg.database
    metadata.iceberg.delete-after-commit.enabled metadata.iceberg.format-version
    metadata.iceberg.glue.skip-archive metadata.iceberg.hadoop-conf-dir metadata.iceberg.hive-client-class
    metadata.iceberg.hive-conf-dir metadata.iceberg.hive-skip-update-stats metadata.iceberg.manifest-compression
    metadata.iceberg.manifest-legacy-version metadata.iceberg.previous-versions-max
    metadata.iceberg.storage-location metadata.iceberg.table metadata.iceberg.uri

warned: no commit of lakewright registers partitions or tags in a metastore, but a REST server does so itself: repair
the table there after the commit
    metastore.partitioned-table=false metastore.tag-to-partition metastore.tag-to-partition.preview=none

refused when read: a read shows the rows of all buckets: filter by the bucket key, or read the splits whose bucket is
the wanted one
    scan.bucket

refused when read: a stream has no end here: stop it when its rows are late enough
    scan.bounded.watermark

refused when read: a read creates no tag: call table.create_tag(name, time_retained=...) and read it with
'scan.tag-name'
    scan.plan-auto-tag-for-read.time-retained

refused when read: rows come in no promised order: sort them by the partition columns
    scan.plan-sort-partition=false

refused when read: name the two ends of the changes with 'incremental-between'
    incremental-to-auto-tag incremental-between-tag-to-snapshot=false

refused when read: rows have no column for it: name _SEQUENCE_NUMBER among the columns of a table with row tracking,
or read db.t$audit_log
    table-read.sequence-number.enabled=false key-value.sequence_number.enabled=false

refused when read: another engine sets it for one of its own jobs, and no rows of a plain read are those of such a job
    batch-scan-mode=none stream-scan-mode=none

refused when read: name the partitions in the filter of the read
    scan.partitions

refused when read: read changes with incremental=... and row_kinds=True
    read.changelog=false

refused when read: a read without a filter is not stopped: check the filter before the read, or remove the option
    read.allow.fullScan=true

refused when read: a TIMESTAMP stays one without a time zone on Spark: cast it in the query
    legacy-timestamp-mapping.enabled=false

harmless: a file that is lost or damaged, and a branch that cannot be read, are always an error
    scan.ignore-corrupt-files scan.ignore-lost-files scan.fallback-branch.read-fail-fast

harmless: how another engine plans reads, and how many rows it takes at a time
    file-reader-async-threshold read.batch-size scan.manifest.parallelism scan.max-splits-per-task auto-create
    scan.native-plan.enabled read.native.enabled source.split.target-size-with-column-pruning
    requiredSparkConfsCheck.enabled file-format.metadata-cache.max-size file-io.read-coalesce.max-block
    file-io.read-coalesce.max-gap

harmless: the pace of a stream of another engine; every row arrives. On Spark the limits hold as options of readStream
    consumer.mode continuous.discovery-interval streaming.read.snapshot.delay read.stream.maxBytesPerTrigger
    read.stream.maxFilesPerTrigger read.stream.maxRowsPerTrigger read.stream.maxTriggerDelayMs
    read.stream.minRowsPerTrigger

harmless: settings of Flink's sources and sinks, and words that catalogs of engines store with their tables
    connector owner provider location external comment transient_lastDdlTime sink.parallelism scan.parallelism
    scan.infer-parallelism scan.remove-normalize scan.watermark.alignment.group precommit-compact
    partition.time-interval lookup.async lookup.async-thread-number streaming-read-mode
"""
_CATALOG = """\
honoured
    warehouse metastore

honoured by rest jdbc
    uri

honoured by rest
    token token.provider prefix data-token.enabled

honoured by jdbc
    catalog-key sync-all-properties=true client-pool-size lock-acquire-timeout lock-check-max-sleep
    lock-key-max-length

honoured by jdbc: elsewhere no lock is taken. A filesystem catalog publishes a snapshot by one atomic step of the
storage, so that on an object store no other engine may commit at the same time that relies on the lock; the server
of a rest catalog needs none
    lock.enabled=false lock.type

refused when read or written: names of databases and tables are always compared with their case: write them as they
are
    case-sensitive=true

refused when read or written: drop_table deletes the files of every table: use another catalog for tables that must
outlive it
    table.type=managed

harmless: caches and threads of another catalog
    cache-enabled cache.deletion-vectors.max-num cache.expire-after-access cache.expire-after-write
    cache.manifest.max-memory cache.manifest.small-file-memory cache.manifest.small-file-threshold
    cache.manifest.soft-values cache.partition.max-num cache.snapshot.max-num-per-table file-io.allow-cache
    local-cache.block-size local-cache.dir local-cache.enabled local-cache.max-size
    local-cache.whitelist resolving-file-io.enabled

harmless: only for catalogs of another engine, and for tables of other types
    catalog-options-table.enabled format-table.enabled catalog.create-underlying-session-catalog defaultDatabase
    v1Function.enabled user.name
"""

# Keys with a part that the user chooses, as patterns.
FIELD_OPTION = re.compile(
    r"fields\.(?P<columns>.+)\.(?P<what>aggregate-function|ignore-retract|distinct|list-agg-delimiter|sequence-group"
    r"|nested-key|nested-sequence-field|count-limit|ts-field|stats-mode)"
)
FAMILIES: tuple[tuple[re.Pattern[str], str, OptionRule], ...] = (
    (
        FIELD_OPTION,
        "fields.<column>.aggregate-function, .sequence-group, .stats-mode, ...",
        OptionRule(Handling.HONOURED),
    ),
    (
        re.compile(r"fields\..+\.map\.(storage-layout|shared-shredding\.(max-columns|column-placement-policy))"),
        "fields.<column>.map.storage-layout, .map.shared-shredding.max-columns, ...",
        OptionRule(
            Handling.HARMLESS, "how a map is laid out in new files; each file says how its own maps are laid out"
        ),
    ),
    (
        re.compile(r"metadata\.iceberg\.rest\..+"),
        "metadata.iceberg.rest.*",
        OptionRule(Handling.HARMLESS, "only for 'metadata.iceberg.storage'"),
    ),
    (
        re.compile(r"parquet\.((block|page)\.size|variant\.shreddingSchema)"),
        "parquet.block.size, parquet.page.size, parquet.variant.shreddingSchema",
        OptionRule(Handling.HONOURED),
    ),
    (
        re.compile(r"(parquet|orc|avro|mosaic|lance|vortex)\..+"),
        "parquet.*, orc.*, avro.*",
        OptionRule(Handling.HARMLESS, "settings of another writer of the format; every reader reads both"),
    ),
    (
        re.compile(r"(file-index|global-index|btree-index|bitmap-index|sorted-index|pk-[a-z-]+\.index)\..+"),
        "file-index.<kind>.columns, btree-index.*, bitmap-index.*",
        OptionRule(Handling.HARMLESS, "indexes are neither written nor read: reads look at the rows themselves"),
    ),
    (
        re.compile(r"(commit|tag)\.callback\..+\.param"),
        "commit.callback.<class>.param, tag.callback.<class>.param",
        OptionRule(Handling.HARMLESS, "only for the classes that the option of callbacks names"),
    ),
    (
        re.compile(r"(sink|log|kafka|unaware-bucket|source\.checkpoint-align|scan\.watermark|filesystem)\..+"),
        "sink.*, log.*, kafka.*",
        OptionRule(Handling.HARMLESS, "settings of Flink's sources and sinks"),
    ),
    (
        re.compile(r"(spark|hive|flink|hadoop|fuse|hdfs|security\.kerberos)\..+"),
        "spark.*, hive.*, flink.*, hadoop.*",
        OptionRule(Handling.HARMLESS, "settings of another engine or service"),
    ),
    (
        re.compile(r"(dlf|header)\..+"),
        "dlf.access-key-id, dlf.region, ..., header.<name of a header>",
        OptionRule(Handling.HONOURED, scope=OptionScope.CATALOG, metastores=frozenset({"rest"})),
    ),
    (
        re.compile(r"jdbc\..+"),
        "jdbc.user, jdbc.password, ...",
        OptionRule(Handling.HONOURED, scope=OptionScope.CATALOG, metastores=frozenset({"jdbc"})),
    ),
)
TABLE_DEFAULT = "table-default."  # before an option in those of a catalog: new tables get it
STORAGE_PREFIXES = tuple("s3. fs. gs. gcs. adls. azure. oss. aws_ google_ azure_ client. dfs. hadoop.".split())
_DURABLE = "lakewright.durable"
OPENING = frozenset({_DURABLE, "branch"})  # options of tables that say how to open them
_STORAGE_WORDS = frozenset({"allow_http", "account_name", "account_key", "sas_token"})
# Others do this where a table is compacted: a `write-only` table is left to the job that compacts it.
_BY_COMPACTORS = ("snapshot.", "changelog.", "consumer.", "partition.expiration", "tag.auto", "record-level.")


def _rules() -> Iterator[tuple[str, OptionRule]]:
    unlisted = set(DECLARATIONS)
    for scope, text in ((OptionScope.TABLE, _TABLE), (OptionScope.CATALOG, _CATALOG)):
        for paragraph in text.strip().split("\n\n"):
            head, _, keys = paragraph.partition("\n    ")
            what, _, reason = " ".join(head.split()).partition(": ")
            handling, _, metastores = what.partition(" by ")
            for entry in keys.split():
                key, _, idle = entry.partition("=")
                values = frozenset(idle.split("|")) if idle else frozenset()
                by_compactors = key.startswith(_BY_COMPACTORS)
                kinds = frozenset(metastores.split())
                unlisted.discard(key)
                yield key, OptionRule(Handling(handling), reason, values, scope, by_compactors, kinds)
    for key in sorted(unlisted):
        yield key, OptionRule(Handling.HONOURED, by_compactors=key.startswith(_BY_COMPACTORS))


def _rules_with_handling(*handlings: Handling) -> Mapping[str, OptionRule]:
    return {key: rule for key, rule in RULES.items() if rule.handling in handlings}


# The declarations of the options that lakewright reads, by their keys and those of older releases.
DECLARATIONS: Mapping[str, ConfigOption[object]] = {
    key: option for option in KNOWN_OPTIONS for key in (option.key(), *option.old_names)
}
RULES: Mapping[str, OptionRule] = dict(_rules())
READ_REFUSED = _rules_with_handling(Handling.REFUSED, Handling.REFUSED_WHEN_READ)
WRITE_REFUSED = _rules_with_handling(Handling.REFUSED, Handling.REFUSED_WHEN_WRITTEN)
REFUSED: Mapping[str, OptionRule] = {**READ_REFUSED, **WRITE_REFUSED}
WARNED = _rules_with_handling(Handling.WARNED)
_SPELLED = {key.lower(): key for key in RULES}


@lru_cache(maxsize=4096)
def rule_of(key: str) -> OptionRule | None:
    """Return what is done about an option of a table or a catalog; None for an unknown key.

    >>> rule_of("bucket").handling, rule_of("fields.price.aggregate-function").handling, rule_of("bukcet")
    (<Handling.HONOURED: 'honoured'>, <Handling.HONOURED: 'honoured'>, None)
    """
    if key in RULES:
        return RULES[key]
    return next((rule for pattern, _, rule in FAMILIES if pattern.fullmatch(key)), None)


def spell_key(key: str) -> str:
    """Return a key in its own spelling, where an engine has turned it into lower case.

    >>> spell_key("read.allow.fullscan")
    'read.allow.fullScan'
    """
    return _SPELLED.get(key.lower(), key)


def is_of_storage(key: str) -> bool:
    """Return whether a key is a setting of a storage, such as `s3.endpoint`."""
    return key.lower().startswith(STORAGE_PREFIXES) or key.lower() in _STORAGE_WORDS


def storage_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return those options of a catalog that are settings of its storage, or say how files are written."""
    return {key: value for key, value in options.items() if is_of_storage(key) or key == _DURABLE}
