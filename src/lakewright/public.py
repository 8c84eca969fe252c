"""The public names of lakewright, from all rooms: loaded when a program first uses one of them."""

from lakewright.calls import Progress, ProgressCallback, read_table, write_table
from lakewright.catalog.base import Catalog, Database
from lakewright.catalog.compaction import DatabaseCompaction, compact_database
from lakewright.catalog.factory import CatalogFactory
from lakewright.catalog.filesystem import FileSystemCatalog
from lakewright.catalog.listing import PagedList
from lakewright.catalog.open import open_table
from lakewright.catalog.system.views import (
    AuditLog,
    ReadableTable,
    SystemPlan,
    SystemReadBuilder,
    SystemSplit,
    SystemTable,
    SystemTableRead,
    SystemTableScan,
)
from lakewright.commit.message.message import CommitMessage
from lakewright.commit.table_commit import (
    BatchTableCommit,
    CommitContext,
    CommitResult,
    StreamTableCommit,
    TableCommit,
    WriteResult,
)
from lakewright.compact.manifests import ManifestsResult
from lakewright.compact.rounds import CompactResult, PartitionEstimate
from lakewright.diagnosis.checks import Check, Diagnosis
from lakewright.diagnosis.run import diagnose
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
from lakewright.ingestion.columns import ColumnChange
from lakewright.ingestion.create import create_table_from
from lakewright.ingestion.local import ingest
from lakewright.ingestion.move.copy import CopyResult, copy_table
from lakewright.ingestion.move.migrate import MigrateResult, migrate
from lakewright.ingestion.plan import IngestPlan, IngestResult, SourceReport
from lakewright.maintenance.branches import FastForwardResult
from lakewright.maintenance.expire import ExpireResult
from lakewright.maintenance.global_indexes import DropIndexResult
from lakewright.maintenance.orphans import OrphanResult
from lakewright.maintenance.partitions import PartitionExpireResult
from lakewright.maintenance.purge import PurgeResult
from lakewright.maintenance.repair import RepairResult, RepairStep
from lakewright.maintenance.rollback import RollbackResult
from lakewright.maintenance.statistics.analyze import AnalyzeResult
from lakewright.maintenance.unexisting import UnexistingResult
from lakewright.metadata.statistics import ColumnStatistics, TableStatistics
from lakewright.metrics import EventKind, MetricsEvent, MetricsHook, add_metrics_hook, remove_metrics_hook
from lakewright.read.builder import Plan, ReadBuilder, TableRead, TableScan
from lakewright.read.changes.stream import StreamReadBuilder, StreamScan
from lakewright.read.explain import ExplainResult, ExplainSplitInfo, PruningStat
from lakewright.read.splits.split import DataSplit, DeletionFile, Row
from lakewright.spec.arguments import Age, Distribution, IncrementalMode, Moment, SchemaMode, WriteMode
from lakewright.spec.datafile import DataFile, SimpleStats
from lakewright.spec.identifier import Identifier
from lakewright.spec.manifest import ManifestEntry, Partition
from lakewright.spec.options import ConfigOption, CoreOptions, MergeEngine
from lakewright.spec.predicate.builder import PredicateBuilder
from lakewright.spec.predicate.filters import Filter
from lakewright.spec.predicate.predicate import Predicate
from lakewright.spec.schema.changes import Move, Position, SchemaChange
from lakewright.spec.schema.declaration import Schema
from lakewright.spec.schema.table_schema import BucketMode, TableSchema
from lakewright.spec.snapshot import CommitKind, Snapshot, Tag
from lakewright.spec.types import ArrayType, AtomicType, DataField, MapType, MultisetType, RowType, VectorType
from lakewright.table.table import FileStoreTable
from lakewright.table.update_builder import (
    BatchTableUpdate,
    ShardTableUpdator,
    StreamTableUpdate,
    TableUpdate,
    WhenMatched,
    WhenNotMatched,
)
from lakewright.table.write_builder import (
    BatchTableWrite,
    BatchWriteBuilder,
    PostponeFixedBucketBatchTableWrite,
    PostponeFixedBucketWriteBuilder,
    StreamTableWrite,
    StreamWriteBuilder,
    TableWrite,
)
from lakewright.update.merge.merge import MergeBuilder
from lakewright.update.result import UpdateResult
from lakewright.update.values import ColumnRef, LiteralValue, lit, source_col, target_col
from lakewright.verify.findings import Finding, VerifyResult
from lakewright.version import __version__
from lakewright.write.input.frames import ArrowData

__all__ = [
    "Age",
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
    "Moment",
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
