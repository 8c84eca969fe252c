"""The names that `import lakewright` offers, loaded when a program first uses one of them.

Classes of results and builders, and errors of one kind, are in the modules of their topics; `lakewright` finds them by
name too.
"""

from lakewright.catalog.catalog import Catalog
from lakewright.catalog.catalog_registry import CatalogFactory
from lakewright.catalog.database_compaction import compact_database
from lakewright.catalog.filesystem_catalog import FileSystemCatalog
from lakewright.commit.commit_message import CommitMessage
from lakewright.diagnosis import diagnose
from lakewright.dml.assignments import lit, source_col, target_col
from lakewright.errors import (
    AlreadyExistsError,
    CommitConflictError,
    CommitContentionError,
    CommitUnknownError,
    CorruptTableError,
    CredentialsError,
    InvalidInputError,
    InvalidMessageError,
    LakewrightError,
    LakewrightWarning,
    NotAuthorizedError,
    NotFoundError,
    TableReplacedError,
    UnsupportedError,
)
from lakewright.formats.blob_values import Blob
from lakewright.ingestion.copy_table import copy_table
from lakewright.ingestion.create_table_from import create_table_from
from lakewright.ingestion.local_ingest import ingest
from lakewright.ingestion.migrate_table import migrate
from lakewright.metrics import MetricsEvent, add_metrics_hook, remove_metrics_hook
from lakewright.spec.identifier import Identifier
from lakewright.spec.merge_engine import MergeEngine
from lakewright.spec.predicate import Predicate, PredicateBuilder
from lakewright.spec.schema import Move, Schema, SchemaChange
from lakewright.spec.types import ArrayType, AtomicType, DataField, MapType, MultisetType, RowType, VectorType
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.open_table import open_table
from lakewright.table.update_builder import WhenMatched, WhenNotMatched
from lakewright.table.verbs import read_table, transform, write_table
from lakewright.version import __version__

__all__ = [
    "AlreadyExistsError",
    "ArrayType",
    "AtomicType",
    "Blob",
    "Catalog",
    "CatalogFactory",
    "CommitConflictError",
    "CommitContentionError",
    "CommitMessage",
    "CommitUnknownError",
    "CorruptTableError",
    "CredentialsError",
    "DataField",
    "FileStoreTable",
    "FileSystemCatalog",
    "Identifier",
    "InvalidInputError",
    "InvalidMessageError",
    "LakewrightError",
    "LakewrightWarning",
    "MapType",
    "MergeEngine",
    "MetricsEvent",
    "Move",
    "MultisetType",
    "NotAuthorizedError",
    "NotFoundError",
    "Predicate",
    "PredicateBuilder",
    "RowType",
    "Schema",
    "SchemaChange",
    "TableReplacedError",
    "UnsupportedError",
    "VectorType",
    "WhenMatched",
    "WhenNotMatched",
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
    "transform",
    "write_table",
]
