"""pypaimon's names with lakewright behind them: `import lakewright.pypaimon as pypaimon`, or `install()` once.

Where pypaimon is laxer than lakewright, these classes behave as pypaimon does and warn.
"""

from lakewright.catalog.filesystem import Database
from lakewright.commit.message.message import CommitMessage
from lakewright.commit.table_commit import BatchTableCommit, StreamTableCommit, TableCommit
from lakewright.errors import (
    BranchAlreadyExistException,
    BranchNotExistException,
    CatalogException,
    ColumnAlreadyExistException,
    ColumnNotExistException,
    DatabaseAlreadyExistException,
    DatabaseNotExistException,
    TableAlreadyExistException,
    TableNotExistException,
    TagAlreadyExistException,
    TagNotExistException,
)
from lakewright.pypaimon.catalog import Catalog, CatalogFactory, FileSystemCatalog
from lakewright.pypaimon.installer import install
from lakewright.pypaimon.table import FileStoreTable
from lakewright.read.builder import Plan, ReadBuilder, TableRead, TableScan
from lakewright.read.changes.stream import StreamReadBuilder
from lakewright.read.explain import ExplainResult, PruningStat
from lakewright.read.splits.split import DataSplit
from lakewright.spec.identifier import Identifier
from lakewright.spec.options import ConfigOption, CoreOptions, MergeEngine
from lakewright.spec.predicate.builder import PredicateBuilder
from lakewright.spec.predicate.predicate import Predicate
from lakewright.spec.schema.changes import Move, SchemaChange
from lakewright.spec.schema.declaration import Schema
from lakewright.spec.schema.table_schema import TableSchema
from lakewright.spec.snapshot import Snapshot, Tag
from lakewright.spec.types import ArrayType, AtomicType, DataField, MapType, MultisetType, RowType, VectorType
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
from lakewright.update.values import lit, source_col, target_col

__all__ = [
    "ArrayType",
    "AtomicType",
    "BatchTableCommit",
    "BatchTableUpdate",
    "BatchTableWrite",
    "BatchWriteBuilder",
    "BranchAlreadyExistException",
    "BranchNotExistException",
    "Catalog",
    "CatalogException",
    "CatalogFactory",
    "ColumnAlreadyExistException",
    "ColumnNotExistException",
    "CommitMessage",
    "ConfigOption",
    "CoreOptions",
    "DataField",
    "DataSplit",
    "Database",
    "DatabaseAlreadyExistException",
    "DatabaseNotExistException",
    "ExplainResult",
    "FileStoreTable",
    "FileSystemCatalog",
    "Identifier",
    "MapType",
    "MergeEngine",
    "Move",
    "MultisetType",
    "Plan",
    "PostponeFixedBucketBatchTableWrite",
    "PostponeFixedBucketWriteBuilder",
    "Predicate",
    "PredicateBuilder",
    "PruningStat",
    "ReadBuilder",
    "RowType",
    "Schema",
    "SchemaChange",
    "ShardTableUpdator",
    "Snapshot",
    "StreamReadBuilder",
    "StreamTableCommit",
    "StreamTableUpdate",
    "StreamTableWrite",
    "StreamWriteBuilder",
    "TableAlreadyExistException",
    "TableCommit",
    "TableNotExistException",
    "TableRead",
    "TableScan",
    "TableSchema",
    "TableUpdate",
    "TableWrite",
    "Tag",
    "TagAlreadyExistException",
    "TagNotExistException",
    "VectorType",
    "WhenMatched",
    "WhenNotMatched",
    "install",
    "lit",
    "source_col",
    "target_col",
]
