"""Ingest on Spark: the steps are those of `lakewright.ingestion.run`; Spark's workers read, convert and write.

The task that reads a bad row finds it. If the caller asks for a file of bad rows, the sources are read twice: once for
these rows, which are sent to the driver, and once for the others, which the workers write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from lakewright.calls import ProgressCallback
from lakewright.catalog.base import Catalog
from lakewright.compact.job import RunTasks
from lakewright.ingestion.local import LOCAL_BYTES_MAX
from lakewright.ingestion.plan import Call, IngestResult, Target
from lakewright.ingestion.rows import BadRowSink, Conversion
from lakewright.ingestion.run import EngineResult, OpenedSource, run_call
from lakewright.ingestion.sources import FRAME, Source, SourceInput
from lakewright.spark.calls import write_table
from lakewright.spark.ingestion.frames import (
    LOAD_SETTINGS,
    SparkSource,
    bad_records,
    column,
    converted_rows,
    open_source,
    reading,
    union_frames,
)
from lakewright.spark.jobs.session import settings
from lakewright.spark.write.compaction import compacting_on
from lakewright.spark.write.shuffle import cluster
from lakewright.spec.arguments import Distribution, Path, SchemaMode, WriteMode
from lakewright.table.table import FileStoreTable
from lakewright.write.writer import WriteJob

# Without the last one Spark parses no times of day.
_SETTINGS = {**LOAD_SETTINGS, "spark.sql.timeType.enabled": "true"}
_BAD_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Reads and writes with the workers of a session."""

    spark: SparkSession
    concurrency: int | None = None
    distribution: Distribution | None = None
    progress: bool | ProgressCallback | None = None
    compactions: RunTasks | None = field(default=None)

    def open(self, source: Source, call: Call) -> Sequence[OpenedSource]:
        """Open a source; one whose files differ in their columns becomes several."""
        with reading(source.name):
            return open_source(self.spark, source, call)

    def describe_write(self, target: Target, parts: Sequence[tuple[OpenedSource, Conversion]], call: Call, /) -> str:
        """Return in words how the rows would be written, without running anything."""
        # A table that does not exist has no identity yet, and a plan needs none.
        write = WriteJob(target.store, "", "", overwrite=call.mode == "overwrite", keys_only=call.mode == "delete")
        frame = _frame(parts, call)
        return cluster(frame, write, concurrency=self.concurrency, distribution=self.distribution).way

    def write(
        self, table: FileStoreTable, parts: Sequence[tuple[OpenedSource, Conversion]], call: Call, bad: BadRowSink
    ) -> EngineResult:
        """Write the rows of all sources and commit them once."""
        frame = _frame(parts, call)
        with reading(" + ".join(dict.fromkeys(one.source.name for one, _ in parts)), bad.remedy):
            if not bad.raises:
                records = chain.from_iterable(bad_records(_own(opened), conversion) for opened, conversion in parts)
                while some := list(islice(records, _BAD_AT_ONCE)):
                    bad.add(some)
            result = write_table(
                frame,
                table,
                call.mode,
                partitions=call.overwritten_partition,
                concurrency=self.concurrency,
                job_id=call.job_id,
                progress=self.progress,
                distribution=self.distribution,
            )
        return EngineResult(result, _duplicates(frame, table.primary_keys, parts))


def _own(opened: OpenedSource) -> SparkSource:
    if not isinstance(opened, SparkSource):
        raise TypeError(f"{type(opened).__name__} was not opened by Spark")
    return opened


def _frame(parts: Sequence[tuple[OpenedSource, Conversion]], call: Call) -> DataFrame:
    """Return the rows of all sources under the names of the table."""
    return union_frames([_converted(_own(opened), conversion, call, len(parts)) for opened, conversion in parts])


def _converted(opened: SparkSource, conversion: Conversion, call: Call, parts: int) -> DataFrame:
    if parts > 1 or opened.text or call.bad_rows is not None or conversion.constants:
        return converted_rows(opened, conversion, skip_bad=call.bad_rows is not None)
    # No column has to be parsed, so Spark itself renames the columns, without Python workers.
    return opened.frame.select(*(column(name).alias(to) for name, to in conversion.pairs))


def _duplicates(frame: DataFrame, keys: Sequence[str], parts: Sequence[tuple[OpenedSource, Conversion]]) -> int | None:
    """Return how many rows had the key of another; None: there is no key, or counting would take too long.

    A job of its own reads the sources again for this, after the commit, which need not wait for it.
    """
    sizes = [one.source.bytes for one, _ in parts]
    if not keys or not set(keys) <= set(frame.columns) or any(s is None or s > LOCAL_BYTES_MAX for s in sizes):
        return None
    counted = frame.groupBy(*map(column, keys)).count().agg(F.sum(F.col("count") - 1)).head()
    return 0 if counted is None or counted[0] is None else int(counted[0])


def ingest(  # noqa: PLR0913 - each argument is one choice of the caller
    spark: SparkSession,
    source: SourceInput | DataFrame | Sequence[SourceInput | DataFrame],
    table: FileStoreTable | Path,
    *,
    mode: WriteMode = "append",
    catalog: Catalog | Mapping[str, object] | None = None,
    format: str | None = None,  # noqa: A002 - what every reader of files calls it
    reader_options: Mapping[str, object] | None = None,
    header: bool = True,
    columns: str | Sequence[str] | None = None,
    renames: Mapping[str, str] | None = None,
    ignore_extra: bool = False,
    partitions: Mapping[str, object] | None = None,
    create: bool = False,
    primary_keys: str | Sequence[str] = (),
    partition_keys: str | Sequence[str] = (),
    types: Mapping[str, str] | None = None,
    options: Mapping[str, object] | None = None,
    schema_mode: SchemaMode | None = None,
    bad_rows: str | None = None,
    concurrency: int | None = None,
    distribution: Distribution | None = None,
    job_id: str | None = None,
    dry_run: bool = False,
    progress: bool | ProgressCallback | None = None,
    say: Callable[[str], None] | None = None,
) -> IngestResult:
    """Load files, tables or frames, fit them to a table, write them with Spark's workers and commit once.

    `source` is a path, a pattern, a directory, a table (its path, or `db.t` of the catalog), a frame, or several of
    these; `table` is a table, its path, or `db.t` of `catalog`. With `create` a table that does not exist is created
    with the columns of the sources (`types` overrides some types), `primary_keys`, `partition_keys` and `options`.
    Columns are matched by name; `renames` come first. `ignore_extra` or `schema_mode="merge"` says what to do with
    those that the table lacks; `bad_rows` names a directory for rows that cannot be read; `say` gets the report.
    """
    given = locals() | {"source": _with_frames(source)}
    with settings(spark, _SETTINGS):
        return run_call(SparkEngine(spark, concurrency, distribution, progress, compacting_on(spark)), given)


def _with_frames(source: SourceInput | DataFrame | Sequence[SourceInput | DataFrame]) -> list[SourceInput]:
    several = source if isinstance(source, Sequence) and not isinstance(source, str) else [source]
    return [Source("frame", FRAME, frame=one) if isinstance(one, DataFrame) else one for one in several]
