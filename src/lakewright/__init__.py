"""Apache Paimon tables from Python, in one process or on a Spark cluster, installed by pip alone.

`import lakewright` itself loads nothing: the names of `lakewright.public` come when one of them is first used. Workers
of an engine import the package for every task, and need only a few of its modules.
"""

import importlib
from typing import TYPE_CHECKING

from lakewright.version import __version__ as __version__

if TYPE_CHECKING:
    from lakewright import variant as variant
    from lakewright.catalog.rest_catalog import RESTCatalog as RESTCatalog
    from lakewright.catalog.sql_catalog import JdbcCatalog as JdbcCatalog
    from lakewright.integrations.duckdb_relation import duckdb_relation as duckdb_relation
    from lakewright.integrations.polars_scan import scan_polars as scan_polars
    from lakewright.public import *  # noqa: F403
    from lakewright.public import __all__ as __all__
    from lakewright.statements.embedded.embedded_context import SQLContext as SQLContext
    from lakewright.statements.embedded.embedded_context import sql as sql
    from lakewright.statements.embedded.expression import expr as expr
else:
    # Not in `__all__`: they load an HTTP client, a database driver, a SQL parser or another library of frames, which
    # most programs do not need.
    _BY_KIND = {
        "RESTCatalog": "lakewright.catalog.rest_catalog",
        "JdbcCatalog": "lakewright.catalog.sql_catalog",
        "SQLContext": "lakewright.statements.embedded.embedded_context",
        "sql": "lakewright.statements.embedded.embedded_context",
        "expr": "lakewright.statements.embedded.expression",
        "scan_polars": "lakewright.integrations.polars_scan",
        "duckdb_relation": "lakewright.integrations.duckdb_relation",
    }
    # Classes of results and builders, and errors of one kind: programs seldom name them, and type checkers find them in
    # the modules of their topics.
    _BY_TOPIC = {
        "catalog.catalog": "Database",
        "catalog.database_compaction": "DatabaseCompaction",
        "catalog.listing": "PagedList",
        "commit.table_commit": "BatchTableCommit CommitContext CommitResult StreamTableCommit TableCommit WriteResult",
        "compact.compaction_rounds": "CompactResult ManifestsResult PartitionEstimate",
        "diagnosis": "Check Diagnosis",
        "dml.assignments": "ColumnRef LiteralValue",
        "dml.incremental_jobs": "TransformResult",
        "dml.merge": "MergeBuilder",
        "dml.row_changes": "UpdateResult",
        "engine.job_progress": "Progress ProgressCallback",
        "errors": "BranchAlreadyExistException BranchNotExistException CatalogServerError ColumnAlreadyExistException "
        "ColumnNotExistException DatabaseAlreadyExistException DatabaseNoPermissionException "
        "DatabaseNotEmptyException DatabaseNotExistException FullRefreshRequiredError TableAlreadyExistException "
        "TableNoPermissionException TableNotExistException TagAlreadyExistException TagNotExistException",
        "ingestion.copy_table": "CopyResult",
        "ingestion.ingest_plan": "ColumnChange IngestPlan IngestResult SourceReport",
        "ingestion.migrate_table": "MigrateResult",
        "maintenance.branches": "FastForwardResult",
        "maintenance.global_indexes": "DropIndexResult",
        "maintenance.orphan_files": "OrphanResult",
        "maintenance.partition_lifecycle": "PartitionExpireResult",
        "maintenance.repair": "RepairResult RepairStep UnexistingResult",
        "maintenance.rollback": "RollbackResult",
        "maintenance.snapshot_expiry": "ExpireResult PurgeResult",
        "maintenance.table_analysis": "AnalyzeResult",
        "maintenance.verify_findings": "Finding VerifyResult",
        "metadata.table_statistics": "ColumnStatistics TableStatistics",
        "metrics": "EventKind MetricsHook",
        "read.data_split": "DataSplit DeletionFile Row",
        "read.explain": "ExplainResult ExplainSplitInfo PruningStat",
        "read.read_builder": "ReadBuilder",
        "read.stream_read": "StreamReadBuilder StreamScan",
        "read.table_read": "TableRead",
        "read.table_scan": "Plan TableScan",
        "spec.argument_checks": "Distribution DurationLike IncrementalMode SchemaMode TimestampLike WriteMode",
        "spec.filters": "Filter",
        "spec.manifest": "DataFile ManifestEntry Partition SimpleStats",
        "spec.option_values": "ConfigOption",
        "spec.schema": "Position",
        "spec.snapshot": "CommitKind Snapshot Tag",
        "spec.table_options": "CoreOptions",
        "spec.table_schema": "BucketMode TableSchema",
        "table.table_views": "AuditLog ReadableTable SystemPlan SystemReadBuilder SystemSplit SystemTable "
        "SystemTableRead SystemTableScan",
        "table.update_builder": "BatchTableUpdate ShardTableUpdator StreamTableUpdate TableUpdate",
        "table.write_builder": "BatchTableWrite BatchWriteBuilder PostponeFixedBucketBatchTableWrite "
        "PostponeFixedBucketWriteBuilder StreamTableWrite StreamWriteBuilder TableWrite",
        "write.input_data": "ArrowData",
    }
    _BY_KIND |= {name: f"lakewright.{module}" for module, names in _BY_TOPIC.items() for name in names.split()}
    _EXTRAS = {"SQLContext": "sql", "sql": "sql", "expr": "sql", "scan_polars": "polars", "duckdb_relation": "duckdb"}

    def __getattr__(name: str) -> object:
        """Load all public names when the first one is asked for; catalogs on servers and SQL when they are named."""
        if name in _BY_KIND:
            return _load(name)
        if name == "variant":
            return importlib.import_module("lakewright.variant")
        if name.startswith("_") and name != "__all__":  # what Python and its tools look for in any module
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        public = importlib.import_module("lakewright.public")
        globals().update({known: getattr(public, known) for known in public.__all__}, __all__=public.__all__)
        if name not in globals():
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *importlib.import_module("lakewright.public").__all__, *_BY_KIND})

    def _load(name: str) -> object:
        try:
            return getattr(importlib.import_module(_BY_KIND[name]), name)
        except ModuleNotFoundError as cause:
            if cause.name not in {"sqlglot", "duckdb", "polars"}:
                raise
            errors, extra = importlib.import_module("lakewright.errors"), _EXTRAS[name]
            msg = f"lakewright.{name} needs the package {cause.name}: pip install 'lakewright[{extra}]'"
            raise errors.UnsupportedError(msg, extra=extra) from cause
