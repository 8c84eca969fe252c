"""Which names each module of pypaimon offers. A module path in, the names that scripts import from it out.

Every name is an attribute of `lakewright.pypaimon`; `install` makes a module of each line. A module of pypaimon that
has a room of its own here (`pypaimon.ray`) is not in this table.
"""

from __future__ import annotations

_TABLE = """
                                      CatalogFactory Schema Tag TagManager
api.api_response                      GetTagResponse PagedList Partition
branch                                BranchManager DEFAULT_MAIN_BRANCH FileSystemBranchManager
branch.branch_manager                 BRANCH_PREFIX BranchManager DEFAULT_MAIN_BRANCH
branch.filesystem_branch_manager      FileSystemBranchManager
catalog.catalog                       Catalog
catalog.catalog_exception             BranchAlreadyExistException BranchNotExistException CatalogException
                                      ColumnAlreadyExistException ColumnNotExistException
                                      DatabaseAlreadyExistException DatabaseNoPermissionException
                                      DatabaseNotExistException IllegalArgumentError IllegalStateError
                                      TableAlreadyExistException TableNoPermissionException TableNotExistException
                                      TagAlreadyExistException TagNotExistException
catalog.catalog_factory               CatalogFactory
catalog.database                      Database
catalog.filesystem_catalog            FileSystemCatalog
catalog.jdbc_catalog                  JdbcCatalog
catalog.rest.property_change          PropertyChange RemoveProperty SetProperty
catalog.rest.rest_catalog             RESTCatalog
changelog                             Changelog ChangelogManager
changelog.changelog                   Changelog
changelog.changelog_manager           ChangelogManager
common.file_io                        FileIO
common.identifier                     DEFAULT_MAIN_BRANCH Identifier SYSTEM_BRANCH_PREFIX SYSTEM_TABLE_SPLITTER
                                      UNKNOWN_DATABASE
common.json_util                      JSON
common.memory_size                    MemorySize
common.options                        ConfigOption ConfigOptions CoreOptions Description Options
common.options.config                 CatalogOptions FileIOOptions FuseOptions GcsOptions HdfsOptions
                                      JdbcCatalogOptions OssOptions PVFSOptions S3Options SecurityOptions
common.options.config_option          ConfigOption Description
common.options.config_options         ConfigOptions
common.options.core_options           ChangelogProducer CoreOptions ExternalPathStrategy MergeEngine
                                      NestedKeyNullStrategy SortOrder StartupMode
common.options.options                Options
common.options.options_utils          OptionsUtils
common.predicate                      Predicate
common.predicate_builder              PredicateBuilder
common.time_utils                     duration_to_iso8601 duration_to_json_seconds json_array_to_local_datetime
                                      json_seconds_to_duration local_datetime_to_json_array local_datetime_to_millis
                                      local_datetime_to_system_zone_millis parse_duration parse_duration_nanos
consumer                              Consumer ConsumerManager
consumer.consumer                     Consumer
consumer.consumer_manager             ConsumerManager
data.timestamp                        Timestamp
filesystem.local_file_io              LocalFileIO
manifest.schema.data_file_meta        DataFileMeta
manifest.schema.simple_stats          SimpleStats
read.explain                          ExplainResult ExplainSplitInfo PruningStat render_explain
read.plan                             Plan
read.read_builder                     ROW_KIND_COLUMN ReadBuilder
read.split                            DataSplit Split
read.stream_read_builder              StreamReadBuilder
read.streaming_table_scan             AsyncStreamingTableScan
read.table_read                       ROW_KIND_COLUMN TableRead
read.table_scan                       TableScan
schema.data_types                     ArrayType AtomicInteger AtomicType DataField DataType DataTypeParser Keyword
                                      MapType MultisetType PyarrowFieldParser RowType SYSTEM_FIELD_ID_START VectorType
                                      collect_field_ids current_highest_field_id is_array_blob_type is_blob_file_field
                                      is_blob_file_type is_blob_type is_map_blob_type is_system_field_id
                                      is_variant_struct reassign_field_id
schema.schema                         Schema
schema.schema_change                  Actions AddColumn DropColumn Move MoveType RemoveOption RenameColumn
                                      SchemaChange SetOption UpdateColumnComment UpdateColumnDefaultValue
                                      UpdateColumnNullability UpdateColumnPosition UpdateColumnType UpdateComment
schema.schema_manager                 SchemaManager
schema.table_schema                   TableSchema
snapshot.snapshot                     BATCH_COMMIT_IDENTIFIER Snapshot
snapshot.snapshot_manager             EARLIEST_SNAPSHOT_DEFAULT_RETRY_NUM SnapshotManager
snapshot.table_snapshot               TableSnapshot
table.bucket_mode                     BucketMode
table.data_evolution_merge_into       BATCH_COMMIT_IDENTIFIER WhenMatched WhenNotMatched lit merge_into source_col
                                      target_col
table.file_store_table                FileStoreTable
table.instant                         Instant SnapshotInstant TagInstant
table.row.generic_row                 GenericRow GenericRowDeserializer GenericRowSerializer
table.row.internal_row                InternalRow RowKind
table.row.offset_row                  OffsetRow
table.row.row_kind                    RowKind
table.source.deletion_file            DeletionFile
table.system.branches_table           BranchesTable
table.system.buckets_table            BucketsTable
table.system.consumers_table          ConsumersTable
table.system.file_key_ranges_table    FileKeyRangesTable
table.system.files_table              FilesTable
table.system.manifests_table          ManifestsTable
table.system.options_table            OptionsTable
table.system.partitions_table         PartitionsTable
table.system.schemas_table            SchemasTable
table.system.snapshots_table          SnapshotsTable
table.system.system_table             SystemReadBuilder SystemTable
table.system.system_table_loader      SYSTEM_TABLES SYSTEM_TABLE_LOADERS load
table.system.system_table_read        SystemTableRead
table.system.system_table_scan        SystemSplit SystemTableScan
table.system.table_indexes_table      TableIndexesTable
table.system.tags_table               TagsTable
tag                                   Tag TagManager
tag.tag                               Tag
tag.tag_manager                       TAG_PREFIX TagManager
utils.range                           Range
write.commit_callback                 CommitCallback CommitCallbackContext
write.commit_message                  CommitMessage
write.commit_message_serializer       VERSION deserialize_commit_message serialize_commit_message
write.postpone_batch_table_write      PostponeFixedBucketBatchTableWrite
write.table_commit                    BatchTableCommit StreamTableCommit TableCommit
write.table_delete                    TableDeleteByRowId
write.table_update                    BatchTableUpdate ShardTableUpdator StreamTableUpdate TableUpdate
write.table_update_by_row_id          TableUpdateByRowId
write.table_upsert_by_key             TableUpsertByKey
write.table_write                     BatchTableWrite StreamTableWrite TableWrite
write.write_builder                   BatchWriteBuilder StreamWriteBuilder WriteBuilder
"""


def module_names() -> dict[str, tuple[str, ...]]:
    """Return the names of each module of the table, by module path below `pypaimon`; "" is `pypaimon` itself."""
    names: dict[str, tuple[str, ...]] = {}
    path = ""
    for line in _TABLE.strip("\n").splitlines():
        first, *rest = line.split()
        if line.startswith(" "):
            names[path] = (*names.get(path, ()), first, *rest)
        else:
            path = first
            names[path] = tuple(rest)
    return names
