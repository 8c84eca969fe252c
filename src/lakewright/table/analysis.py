"""Statistics of a table: what planners want to know of its rows and columns, counted once and kept by its snapshots."""

from __future__ import annotations

from lakewright.errors import naming
from lakewright.maintenance.statistics.analyze import AnalyzeResult, Columns, analyze_table
from lakewright.metadata.statistics import TableStatistics, read_statistics
from lakewright.read.scan import pick_snapshot
from lakewright.table.repairs import TableRepairs


class TableAnalysis(TableRepairs):
    """The verbs of a table that count its rows and values."""

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
