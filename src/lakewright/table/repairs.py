"""The verbs of a table that bring it back in order when files were lost, or calls were cut short."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakewright.errors import naming
from lakewright.maintenance.global_indexes import DropIndexResult, drop_global_index
from lakewright.maintenance.repair import RepairResult, repair
from lakewright.maintenance.unexisting import UnexistingResult, remove_unexisting
from lakewright.spec import arguments
from lakewright.table.lifecycle import TableLifecycle


class TableRepairs(TableLifecycle):
    """The verbs of a table that repair it."""

    __slots__ = ()

    def repair(self, *, dry_run: bool = False) -> RepairResult:
        """Repair the hints LATEST and EARLIEST, tags whose files are gone, and what cut-short work on branches left.

        The result's `steps` say what was wrong and what was done, or with `dry_run` would be. A tag is removed only if
        nothing of it can be read any more. Data files are never touched: see `remove_unexisting_files`.

        >>> import tempfile, pathlib, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64()})))
        >>> table = catalog.get_table("d.t")
        >>> _ = lw.write_table(pa.table({"n": [1]}), table)
        >>> _ = pathlib.Path(table.table_path, "snapshot/LATEST").write_text("77")
        >>> [step.message for step in table.repair().steps if "LATEST" in step.message]
        ["LATEST says '77'; it is 1"]
        >>> table.repair().is_empty
        True
        """
        with naming(self.store.name):
            return repair(self.store, dry_run=arguments.flag("dry_run", dry_run))

    def remove_unexisting_files(self, *, dry_run: bool = True) -> UnexistingResult:
        """Take data files that do not exist off the newest snapshot, so that the rest of the table can be read.

        By default they are only listed: their rows are lost, so look for a copy first. With `dry_run=False` one commit
        removes them, and their deletion vectors. Of a primary-key table, rows that they had replaced come back.

        >>> import tempfile, pathlib, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64()})))
        >>> table = catalog.get_table("d.t")
        >>> for n in (1, 2):
        ...     _ = lw.write_table(pa.table({"n": [n]}), table)
        >>> next(pathlib.Path(table.table_path).glob("bucket-0/*")).unlink()
        >>> table.remove_unexisting_files().count
        1
        >>> table.remove_unexisting_files(dry_run=False).snapshot_id
        3
        >>> lw.read_table(table).num_rows
        1
        """
        with naming(self.store.name):
            store = self.store.refreshed()
            return remove_unexisting(store, dry_run=arguments.flag("dry_run", dry_run))

    def drop_global_index(
        self,
        index_column: str,
        index_type: str | None = None,
        *,
        partitions: Mapping[str, object] | Sequence[Mapping[str, object]] | None = None,
        dry_run: bool = False,
    ) -> DropIndexResult:
        """Drop the global indexes that another engine made of a column, in one commit; then the column can be updated.

        With `index_type` only those of a kind such as `btree`, with `partitions` only those of some partitions. An
        index of several columns goes as a whole. With `dry_run` nothing is changed: the result says what would go. A
        column without such an index is a NotFoundError.
        """
        with naming(self.store.name):
            kind = arguments.optional(arguments.text, "index_type", index_type)
            specs = arguments.optional(arguments.specs, "partitions", partitions)
            only_look = arguments.flag("dry_run", dry_run)
            name = arguments.text("index_column", index_column)
            return drop_global_index(self.store.refreshed(), name, kind, partitions=specs, dry_run=only_look)
