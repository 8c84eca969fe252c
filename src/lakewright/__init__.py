"""Apache Paimon tables from Python, in one process or on a Spark cluster, installed by pip alone."""

from lakewright.calls import Progress, read_table, write_table
from lakewright.catalog.filesystem import CatalogFactory, Database, FileSystemCatalog
from lakewright.catalog.listing import PagedList, Partition
from lakewright.catalog.open import open_table
from lakewright.catalog.system import SystemTable
from lakewright.commit.message.message import CommitMessage
from lakewright.commit.table_commit import BatchTableCommit, CommitResult, StreamTableCommit, TableCommit
from lakewright.errors import (
    AlreadyExistsError,
    BranchAlreadyExistException,
    BranchNotExistException,
    ColumnAlreadyExistException,
    ColumnNotExistException,
    CommitConflictError,
    CommitContentionError,
    CommitUnknownError,
    CorruptTableError,
    DatabaseAlreadyExistException,
    DatabaseNotEmptyException,
    DatabaseNotExistException,
    InvalidInputError,
    InvalidMessageError,
    LakewrightError,
    LakewrightWarning,
    NotFoundError,
    TableAlreadyExistException,
    TableNotExistException,
    TableReplacedError,
    TagAlreadyExistException,
    TagNotExistException,
    UnsupportedError,
)
from lakewright.ingestion.local import ingest
from lakewright.ingestion.plan import IngestResult
from lakewright.read.builder import Plan, ReadBuilder, TableRead, TableScan
from lakewright.read.changes.stream import StreamReadBuilder, StreamScan
from lakewright.read.explain import ExplainResult
from lakewright.read.splits.split import DataSplit
from lakewright.spec.arguments import Age, Distribution, IncrementalMode, Moment, SchemaMode, WriteMode
from lakewright.spec.datafile import DataFile
from lakewright.spec.identifier import Identifier
from lakewright.spec.options import ConfigOption, CoreOptions, MergeEngine
from lakewright.spec.predicate.predicate import Predicate, PredicateBuilder
from lakewright.spec.schema.evolution import SchemaChange
from lakewright.spec.schema.moves import Move
from lakewright.spec.schema.table_schema import Schema, TableSchema
from lakewright.spec.snapshot import Snapshot, Tag
from lakewright.spec.types import ArrayType, AtomicType, DataField, MapType, MultisetType, RowType
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
from lakewright.update.values import lit, source_col, target_col
from lakewright.version import __version__

__all__ = [
    "Age",
    "AlreadyExistsError",
    "ArrayType",
    "AtomicType",
    "BatchTableCommit",
    "BatchTableUpdate",
    "BatchTableWrite",
    "BatchWriteBuilder",
    "BranchAlreadyExistException",
    "BranchNotExistException",
    "CatalogFactory",
    "ColumnAlreadyExistException",
    "ColumnNotExistException",
    "CommitConflictError",
    "CommitContentionError",
    "CommitMessage",
    "CommitResult",
    "CommitUnknownError",
    "ConfigOption",
    "CoreOptions",
    "CorruptTableError",
    "DataField",
    "DataFile",
    "DataSplit",
    "Database",
    "DatabaseAlreadyExistException",
    "DatabaseNotEmptyException",
    "DatabaseNotExistException",
    "Distribution",
    "ExplainResult",
    "FileStoreTable",
    "FileSystemCatalog",
    "Identifier",
    "IncrementalMode",
    "IngestResult",
    "InvalidInputError",
    "InvalidMessageError",
    "LakewrightError",
    "LakewrightWarning",
    "MapType",
    "MergeBuilder",
    "MergeEngine",
    "Moment",
    "Move",
    "MultisetType",
    "NotFoundError",
    "PagedList",
    "Partition",
    "Plan",
    "PostponeFixedBucketBatchTableWrite",
    "PostponeFixedBucketWriteBuilder",
    "Predicate",
    "PredicateBuilder",
    "Progress",
    "ReadBuilder",
    "RowType",
    "Schema",
    "SchemaChange",
    "SchemaMode",
    "ShardTableUpdator",
    "Snapshot",
    "StreamReadBuilder",
    "StreamScan",
    "StreamTableCommit",
    "StreamTableUpdate",
    "StreamTableWrite",
    "StreamWriteBuilder",
    "SystemTable",
    "TableAlreadyExistException",
    "TableCommit",
    "TableNotExistException",
    "TableRead",
    "TableReplacedError",
    "TableScan",
    "TableSchema",
    "TableUpdate",
    "TableWrite",
    "Tag",
    "TagAlreadyExistException",
    "TagNotExistException",
    "UnsupportedError",
    "UpdateResult",
    "WhenMatched",
    "WhenNotMatched",
    "WriteMode",
    "__version__",
    "ingest",
    "lit",
    "open_table",
    "read_table",
    "source_col",
    "target_col",
    "write_table",
]
