"""`install()` and the names of each pypaimon module."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from lakewright.errors import InvalidInputError

# ---- Names of pypaimon's modules -------------------------------------------------------------------------------------
# Every name is an attribute of `lakewright.pypaimon`; `install` makes a module of each line. A module of pypaimon
# that has a module of its own here (`pypaimon.ray`) is not in this table.

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
data                                  variant_get variant_to_pylist
data.generic_variant                  GenericVariant
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
table.row.blob                        Blob BlobData BlobDescriptor BlobRef
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


# ---- install() -------------------------------------------------------------------------------------------------------
# The modules are made when they are imported. A path that pypaimon has and this library has not is a
# ModuleNotFoundError that says so, never a half-filled module.

_PEER = "pypaimon"
_FACE = "lakewright.pypaimon"
# Modules of pypaimon that modules of the compatibility layer stand for, imported when a script asks for them.
_ROOMS = {
    "ray": "ray",
    "ray.data_evolution_merge_into": "ray",
    "ray.ray_paimon": "ray",
    "write.ray_datasink": "ray",
}


def install() -> None:
    """Make `import pypaimon`, in this process, give lakewright's names; a script for pypaimon then runs unchanged.

    A second call does nothing. Where the real pypaimon is imported already, its objects are in use: that is an error.

    >>> import lakewright.pypaimon
    >>> lakewright.pypaimon.install()
    >>> from pypaimon.schema.data_types import AtomicType
    >>> str(AtomicType("INT"))
    'INT'
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    if _PEER in sys.modules:
        raise InvalidInputError(
            f"the real pypaimon is imported already, from {getattr(sys.modules[_PEER], '__file__', 'somewhere')}: "
            "call lakewright.pypaimon.install() before the first import of pypaimon"
        )
    sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Answers for `pypaimon` and every module below it, so that none of the real one is mixed in."""

    def __init__(self) -> None:
        self._names = module_names()
        paths = (*self._names, *_ROOMS)
        self._packages = {"", *(".".join(path.split(".")[:n]) for path in paths for n in range(1, path.count(".") + 1))}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del target
        if fullname != _PEER and not fullname.startswith(f"{_PEER}."):
            return None
        inner = fullname.removeprefix(_PEER).removeprefix(".")
        is_package = inner in self._packages or inner in _ROOMS
        if inner in self._names or is_package:
            return ModuleSpec(fullname, _FaceLoader(inner, self._names.get(inner, ())), is_package=is_package)
        if path:  # a directory was added to this package
            return None
        raise ModuleNotFoundError(
            f"lakewright stands in for pypaimon here and has no module {fullname!r}; it has: "
            f"{', '.join(sorted(f'{_PEER}.{known}' for known in self._names if known))}",
            name=fullname,
        )


class _FaceLoader(Loader):
    """Fills one module with names of the compatibility layer."""

    def __init__(self, inner: str, names: tuple[str, ...]) -> None:
        self._inner = inner
        self._names = names

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        del spec
        return None

    def exec_module(self, module: ModuleType) -> None:
        if self._inner in _ROOMS:
            room = importlib.import_module(f"{_FACE}.{_ROOMS[self._inner]}")
            module.__dict__.update({name: getattr(room, name) for name in room.__all__}, __all__=list(room.__all__))
            return
        face = importlib.import_module(_FACE)
        module.__dict__.update({name: getattr(face, name) for name in self._names}, __all__=list(self._names))
