"""polars lazy frames; a module of its own because it imports polars."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
from polars.io.plugins import register_io_source

from lakewright.integrations.lazy_source import lazy_source
from lakewright.spec.argument_checks import PathLike, TimestampLike
from lakewright.spec.filters import pushed_from_polars
from lakewright.table.table_views import ReadableTable


def scan_polars(
    table: ReadableTable | PathLike,
    *,
    snapshot_id: int | None = None,
    tag: str | None = None,
    timestamp: TimestampLike | None = None,
) -> pl.LazyFrame:
    """Return a lazy frame of a table: the newest snapshot as of this call, or the state that an argument names.

    A query reads the columns it needs. Its filters leave out partitions, buckets and files by their statistics; what is
    no condition of a table (`pl.col("n") % 2 == 0`) polars applies to the rows. Rows come in batches, so that a query
    that polars can stream does not need memory for the whole table.

    >>> import tempfile, pyarrow as pa, lakewright as lw, polars as pl
    >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
    >>> catalog.create_database("d")
    >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"id": pa.int64(), "n": pa.int64()})))
    >>> table = catalog.get_table("d.t")
    >>> _ = lw.write_table({"id": [1, 2, 3], "n": [5, 6, 7]}, table)
    >>> lw.scan_polars(table).filter(pl.col("id") > 1).select(pl.col("n").sum()).collect().item()
    13
    """
    source = lazy_source(table, snapshot_id, tag, timestamp)
    schema = pl.DataFrame(pl.from_arrow(source.schema.empty_table())).schema
    predicates = source.predicates()

    def read(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        del batch_size  # a hint: batches are as the files have them
        # polars counts rows before it filters them.
        pushed = None if predicate is None or n_rows is not None else pushed_from_polars(predicate, predicates)
        for batch in source.batches(with_columns, pushed, n_rows):
            if batch.num_columns == 0:
                # polars makes an empty frame of such a batch; dropping its last column keeps the height of a frame.
                yield pl.select(pl.repeat(None, batch.num_rows).alias("rows")).drop("rows")
                continue
            rows = pl.DataFrame(pl.from_arrow(batch))
            yield rows if predicate is None else rows.filter(predicate)

    return register_io_source(read, schema=dict(schema), is_pure=True)
