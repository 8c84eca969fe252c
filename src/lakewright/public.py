"""The public names of lakewright, from all rooms: loaded when a program first uses one of them."""

from lakewright.catalog.catalog import Catalog, Database
from lakewright.catalog.catalog_registry import CatalogFactory
from lakewright.catalog.database_compaction import DatabaseCompaction, compact_database
from lakewright.catalog.filesystem_catalog import FileSystemCatalog
from lakewright.catalog.listing import PagedList
from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.table_commit import (
    BatchTableCommit,
    CommitContext,
    CommitResult,
    StreamTableCommit,
    TableCommit,
    WriteResult,
)
from lakewright.compact.compaction_rounds import CompactResult, ManifestsResult, PartitionEstimate
from lakewright.diagnosis import Check, Diagnosis, diagnose
from lakewright.dml.assignments import ColumnRef, LiteralValue, lit, source_col, target_col
from lakewright.dml.merge import MergeBuilder
from lakewright.dml.row_changes import UpdateResult
from lakewright.engine.job_progress import Progress, ProgressCallback
from lakewright.errors import (
    AlreadyExistsError,
    BranchAlreadyExistException,
    BranchNotExistException,
    CatalogServerError,
    ColumnAlreadyExistException,
    ColumnNotExistException,
    CommitConflictError,
    CommitContentionError,
    CommitUnknownError,
    CorruptTableError,
    CredentialsError,
    DatabaseAlreadyExistException,
    DatabaseNoPermissionException,
    DatabaseNotEmptyException,
    DatabaseNotExistException,
    InvalidInputError,
    InvalidMessageError,
    LakewrightError,
    LakewrightWarning,
    NotAuthorizedError,
    NotFoundError,
    TableAlreadyExistException,
    TableNoPermissionException,
    TableNotExistException,
    TableReplacedError,
    TagAlreadyExistException,
    TagNotExistException,
    UnsupportedError,
)
from lakewright.ingestion.copy_table import CopyResult, copy_table
from lakewright.ingestion.create_table_from import create_table_from
from lakewright.ingestion.ingest_plan import ColumnChange, IngestPlan, IngestResult, SourceReport
from lakewright.ingestion.local_ingest import ingest
from lakewright.ingestion.migrate_table import MigrateResult, migrate
from lakewright.maintenance.branches import FastForwardResult
from lakewright.maintenance.global_indexes import DropIndexResult
from lakewright.maintenance.orphan_files import OrphanResult
from lakewright.maintenance.partition_lifecycle import PartitionExpireResult
from lakewright.maintenance.repair import RepairResult, RepairStep, UnexistingResult
from lakewright.maintenance.rollback import RollbackResult
from lakewright.maintenance.snapshot_expiry import ExpireResult, PurgeResult
from lakewright.maintenance.table_analysis import AnalyzeResult
from lakewright.maintenance.verify_findings import Finding, VerifyResult
from lakewright.metadata.table_statistics import ColumnStatistics, TableStatistics
from lakewright.metrics import EventKind, MetricsEvent, MetricsHook, add_metrics_hook, remove_metrics_hook
from lakewright.read.data_split import DataSplit, DeletionFile, Row
from lakewright.read.explain import ExplainResult, ExplainSplitInfo, PruningStat
from lakewright.read.read_builder import ReadBuilder
from lakewright.read.stream_read import StreamReadBuilder, StreamScan
from lakewright.read.table_read import TableRead
from lakewright.read.table_scan import Plan, TableScan
from lakewright.spec.argument_checks import (
    Distribution,
    DurationLike,
    IncrementalMode,
    SchemaMode,
    TimestampLike,
    WriteMode,
)
from lakewright.spec.filters import Filter
from lakewright.spec.identifier import Identifier
from lakewright.spec.manifest import DataFile, ManifestEntry, Partition, SimpleStats
from lakewright.spec.merge_engine import MergeEngine
from lakewright.spec.option_values import ConfigOption
from lakewright.spec.predicate import Predicate, PredicateBuilder
from lakewright.spec.schema import Move, Position, Schema, SchemaChange
from lakewright.spec.snapshot import CommitKind, Snapshot, Tag
from lakewright.spec.table_options import CoreOptions
from lakewright.spec.table_schema import BucketMode, TableSchema
from lakewright.spec.types import ArrayType, AtomicType, DataField, MapType, MultisetType, RowType, VectorType
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.open_table import open_table
from lakewright.table.table_views import (
    AuditLog,
    ReadableTable,
    SystemPlan,
    SystemReadBuilder,
    SystemSplit,
    SystemTable,
    SystemTableRead,
    SystemTableScan,
)
from lakewright.table.update_builder import (
    BatchTableUpdate,
    ShardTableUpdator,
    StreamTableUpdate,
    TableUpdate,
    WhenMatched,
    WhenNotMatched,
)
from lakewright.table.verbs import read_table, write_table
from lakewright.table.write_builder import (
    BatchTableWrite,
    BatchWriteBuilder,
    PostponeFixedBucketBatchTableWrite,
    PostponeFixedBucketWriteBuilder,
    StreamTableWrite,
    StreamWriteBuilder,
    TableWrite,
)
from lakewright.version import __version__
from lakewright.write.input_data import ArrowData

__all__ = [
    "AlreadyExistsError",
    "AnalyzeResult",
    "ArrayType",
    "ArrowData",
    "AtomicType",
    "AuditLog",
    "BatchTableCommit",
    "BatchTableUpdate",
    "BatchTableWrite",
    "BatchWriteBuilder",
    "BranchAlreadyExistException",
    "BranchNotExistException",
    "BucketMode",
    "Catalog",
    "CatalogFactory",
    "CatalogServerError",
    "Check",
    "ColumnAlreadyExistException",
    "ColumnChange",
    "ColumnNotExistException",
    "ColumnRef",
    "ColumnStatistics",
    "CommitConflictError",
    "CommitContentionError",
    "CommitContext",
    "CommitKind",
    "CommitMessage",
    "CommitResult",
    "CommitUnknownError",
    "CompactResult",
    "ConfigOption",
    "CopyResult",
    "CoreOptions",
    "CorruptTableError",
    "CredentialsError",
    "DataField",
    "DataFile",
    "DataSplit",
    "Database",
    "DatabaseAlreadyExistException",
    "DatabaseCompaction",
    "DatabaseNoPermissionException",
    "DatabaseNotEmptyException",
    "DatabaseNotExistException",
    "DeletionFile",
    "Diagnosis",
    "Distribution",
    "DropIndexResult",
    "DurationLike",
    "EventKind",
    "ExpireResult",
    "ExplainResult",
    "ExplainSplitInfo",
    "FastForwardResult",
    "FileStoreTable",
    "FileSystemCatalog",
    "Filter",
    "Finding",
    "Identifier",
    "IncrementalMode",
    "IngestPlan",
    "IngestResult",
    "InvalidInputError",
    "InvalidMessageError",
    "LakewrightError",
    "LakewrightWarning",
    "LiteralValue",
    "ManifestEntry",
    "ManifestsResult",
    "MapType",
    "MergeBuilder",
    "MergeEngine",
    "MetricsEvent",
    "MetricsHook",
    "MigrateResult",
    "Move",
    "MultisetType",
    "NotAuthorizedError",
    "NotFoundError",
    "OrphanResult",
    "PagedList",
    "Partition",
    "PartitionEstimate",
    "PartitionExpireResult",
    "Plan",
    "Position",
    "PostponeFixedBucketBatchTableWrite",
    "PostponeFixedBucketWriteBuilder",
    "Predicate",
    "PredicateBuilder",
    "Progress",
    "ProgressCallback",
    "PruningStat",
    "PurgeResult",
    "ReadBuilder",
    "ReadableTable",
    "RepairResult",
    "RepairStep",
    "RollbackResult",
    "Row",
    "RowType",
    "Schema",
    "SchemaChange",
    "SchemaMode",
    "ShardTableUpdator",
    "SimpleStats",
    "Snapshot",
    "SourceReport",
    "StreamReadBuilder",
    "StreamScan",
    "StreamTableCommit",
    "StreamTableUpdate",
    "StreamTableWrite",
    "StreamWriteBuilder",
    "SystemPlan",
    "SystemReadBuilder",
    "SystemSplit",
    "SystemTable",
    "SystemTableRead",
    "SystemTableScan",
    "TableAlreadyExistException",
    "TableCommit",
    "TableNoPermissionException",
    "TableNotExistException",
    "TableRead",
    "TableReplacedError",
    "TableScan",
    "TableSchema",
    "TableStatistics",
    "TableUpdate",
    "TableWrite",
    "Tag",
    "TagAlreadyExistException",
    "TagNotExistException",
    "TimestampLike",
    "UnexistingResult",
    "UnsupportedError",
    "UpdateResult",
    "VectorType",
    "VerifyResult",
    "WhenMatched",
    "WhenNotMatched",
    "WriteMode",
    "WriteResult",
    "__version__",
    "add_metrics_hook",
    "compact_database",
    "copy_table",
    "create_table_from",
    "diagnose",
    "ingest",
    "lit",
    "migrate",
    "open_table",
    "read_table",
    "remove_metrics_hook",
    "source_col",
    "target_col",
    "write_table",
]
