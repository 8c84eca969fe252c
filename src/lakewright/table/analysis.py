"""Looking at a table: statistics that its snapshots keep, a page about it, and proof that its files are sound."""

from __future__ import annotations

from typing import Literal

from lakewright.errors import naming
from lakewright.maintenance.statistics.analyze import AnalyzeResult, Columns, analyze_table
from lakewright.metadata.statistics import TableStatistics, read_statistics
from lakewright.read.scan import pick_snapshot
from lakewright.report.gather import gather
from lakewright.report.page import write_report
from lakewright.spec import arguments
from lakewright.spec.arguments import Path
from lakewright.table.repairs import TableRepairs
from lakewright.verify.arguments import check_depth
from lakewright.verify.findings import VerifyResult
from lakewright.verify.run import verify_table


class TableAnalysis(TableRepairs):
    """The verbs of a table that look at it: they count its rows and values, draw it and verify it."""

    __slots__ = ()

    def analyze(self, columns: Columns = None) -> AnalyzeResult:
        """Count the rows of the newest snapshot and record them, with their bytes, in one ANALYZE snapshot.

        `columns` names columns to count as well, or is `"all"`: distinct values (exact up to 16,000, else within about
        one percent), nulls, bounds, lengths. Nested values have no statistics. Later snapshots keep what was recorded
        until the schema changes; `statistics()` and `db.t$statistics` show it, and `explain` uses it.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> catalog.create_table("d.t", pa.schema({"n": pa.int64(), "s": pa.string()}))
        >>> table = catalog.get_table("d.t")
        >>> _ = lw.write_table(pa.table({"n": [1, 1, 7], "s": ["a", None, "bcd"]}), table)
        >>> result = table.analyze("all")
        >>> result.snapshot_id, result.rows, result.columns["n"].distinct_count, result.columns["n"].max
        (2, 3, 2, '7')
        """
        with naming(self.store.name):
            return analyze_table(self.store.refreshed(), columns)

    def statistics(self) -> TableStatistics | None:
        """Return the statistics that the newest snapshot has, or the one that `scan.` options name; None for none."""
        with naming(self.store.name):
            snapshot = pick_snapshot(self.store)
            self.store.check_same_table()
            return read_statistics(self.store, snapshot)

    def report(self, path: Path | None = None, *, orphans: bool = False) -> str:
        """Return a page about the table in HTML: its history, partitions, buckets and files, and what to do about them.

        With a `path` the page is written there too, in place of a file of that name. It needs no network, no script
        and no data file: metadata alone is read. With `orphans` it also counts the files that nothing names, for which
        the whole table is listed.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64()})))
        >>> page = catalog.get_table("d.t").report()
        >>> page.splitlines()[0], "nothing was written yet" in page
        ('<!DOCTYPE html>', True)
        """
        with naming(self.store.name):
            target = arguments.optional(arguments.path, "path", path)
            counts_orphans = arguments.flag("orphans", orphans)
            return write_report(gather(self.store.refreshed(), orphans=counts_orphans), target)

    def verify(
        self,
        full: bool = False,  # noqa: FBT001, FBT002 - read as verify(True) or verify(full=True)
        snapshots: Literal["latest", "all"] = "latest",
        *,
        fast: bool = False,
    ) -> VerifyResult:
        """Prove that the files of the table hold what its metadata says; damage is a finding and raises nothing.

        Without `full`, data files are opened and their rows counted; with `full`, all rows are read, and statistics,
        keys, sequence numbers, buckets and checksums proven; with `fast`, no data file is opened. `snapshots` is
        `latest`, the newest snapshot of this branch, or `all`: every snapshot, tag, changelog and branch, and files
        that nothing names. `result.is_sound` says whether no finding is an error.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64()})))
        >>> table = catalog.get_table("d.t")
        >>> _ = lw.write_table(pa.table({"n": [1, 2]}), table)
        >>> result = table.verify(full=True, snapshots="all")
        >>> result.is_sound, result.rows, result.findings
        (True, 2, ())
        """
        with naming(self.store.name):
            depth, states = check_depth(full, fast=fast, snapshots=snapshots)
            return verify_table(self.store.refreshed(), depth=depth, states=states)
