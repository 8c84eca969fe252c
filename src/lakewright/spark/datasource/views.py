"""Views for SQL: a catalog and a database in, a temp view of every table out.

    attach(spark, "/lake", "sales")
    spark.sql("SELECT region, sum(amount) FROM orders GROUP BY region")

What always holds: a view shows one snapshot of its table and nobody writes through it by accident. The views of a plain
`attach` read as fast as `read_table` and cannot be written; their snapshots are those of the moment of the call. Views
that are `writable` take INSERT INTO and INSERT OVERWRITE and are slower to read, because Spark cannot prune columns
of them; each is pinned to the snapshot of its first use, and not even an insert through it changes what it shows.
Attaching again moves every view to the newest snapshot.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from lakewright.catalog.base import Catalog
from lakewright.catalog.factory import CatalogFactory
from lakewright.errors import LakewrightError, LakewrightWarning
from lakewright.spark.datasource.format import bound_format
from lakewright.spark.jobs.capabilities import Feature, require
from lakewright.spark.jobs.types import spark_schema
from lakewright.spark.read.frame import read_table
from lakewright.spec import arguments
from lakewright.spec.identifier import Identifier
from lakewright.table.table import FileStoreTable

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def attach(
    spark: SparkSession,
    catalog: Catalog | Mapping[str, object] | str,
    database: str,
    *,
    tables: Sequence[str] | None = None,
    prefix: str = "",
    writable: bool = False,
) -> list[str]:
    """Make a temp view of every table of a database, or of those named, and return the views as SQL spells them.

    A view is called like its table, behind `prefix`, and replaces a view of that name. `catalog` is a catalog, the
    options of one as for `CatalogFactory.create`, or the path of a warehouse. A table that Spark cannot read is left
    out with a warning. Call it again to see newer snapshots.

    `writable` makes views that also take INSERT INTO and INSERT OVERWRITE, but read every column of the table. DELETE,
    UPDATE and MERGE are refused by Spark itself: call `lakewright.spark.delete`, `update` and `merge` with the table.
    """
    source = _catalog(catalog)
    if writable:
        require(Feature.PYTHON_SOURCE, "attach(writable=True)")
    names = source.list_tables(database) if tables is None else list(tables)
    views: dict[str, str] = {}
    for name in names:
        view = prefix + name
        if view.casefold() in views:
            _warn(f"{database}.{name} has no view of its own: Spark takes {view!r} and another table's name for one")
            continue
        try:
            table = source.get_table(Identifier.create(database, name))
            frame = _door(spark, table) if writable else _pinned(spark, table)
        except LakewrightError as error:
            _warn(f"{database}.{name} has no view: {error}")
            continue
        frame.createOrReplaceTempView(_quoted(view))
        views[view.casefold()] = view if _PLAIN_NAME.fullmatch(view) else _quoted(view)
    return list(views.values())


def _catalog(given: Catalog | Mapping[str, object] | str) -> Catalog:
    if isinstance(given, str | Mapping):
        return CatalogFactory.create({"warehouse": given} if isinstance(given, str) else given)
    expected = "a catalog, the options of one, or the path of a warehouse"
    return arguments.instance("catalog", given, Catalog, expected)  # type: ignore[type-abstract]


def _pinned(spark: SparkSession, table: FileStoreTable) -> DataFrame:
    # The selection costs nothing, and without it INSERT OVERWRITE would replace the files behind the plain scan.
    return read_table(spark, table).select("*")


def _door(spark: SparkSession, table: FileStoreTable) -> DataFrame:
    spark_schema(table.fields)  # refuses here, with an error of ours, what Spark has no types for
    return spark.read.format(bound_format(spark, table)).load()


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _warn(message: str) -> None:
    warnings.warn(message, LakewrightWarning, stacklevel=3)
