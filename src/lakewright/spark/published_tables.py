"""Tables of Spark's own catalog that stand for Paimon tables, for tools that know SQL and nothing else.

publish(spark, {"warehouse": "/lake"}, "sales")
    spark.sql("SELECT count(*) FROM sales.orders")      # and any client of Spark's Thrift server

Spark forgets the options of a table whose data source is written in Python, so each table has a data source of its
own, which knows its place. Other sessions and servers find it in a generated module `pyspark_lakewright_...`: Spark
imports the modules of the path that begin with `pyspark_` once for each JVM.

Invariant: a statement sees the newest snapshot, and all columns of the table. Spark keeps the columns of the moment at
which the table was published; where they have changed since, reads and writes are refused until it is published again.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as sql

import pyspark_lakewright
from lakewright.catalog.catalog import Catalog
from lakewright.errors import AlreadyExistsError, InvalidInputError
from lakewright.spark.data_source import LakewrightSource, find_catalog
from lakewright.spark.source_options import FORMAT
from lakewright.spark.spark_features import DataSourceReader, DataSourceWriter, Feature, require
from lakewright.spark.spark_session import check_session
from lakewright.spark.spark_types import spark_schema
from lakewright.spec import argument_checks
from lakewright.spec.argument_checks import PathLike
from lakewright.spec.identifier import Identifier, quote_identifier
from lakewright.spec.option_checks import redact_secret
from lakewright.table.file_store_table import FileStoreTable

_ADDED_BY_SPARK = frozenset({"provider", "location", "path", "serialization.format"})
_MODULE = '''"""The data source of one table, written by lakewright.spark.publish."""

from lakewright.spark.published_tables import published_source

DefaultSource = published_source({name!r}, {options!r})
'''


def publish(
    spark: SparkSession,
    catalog: Catalog | Mapping[str, object] | str,
    database: str,
    tables: Sequence[str] | None = None,
    *,
    modules: PathLike | None = None,
) -> list[str]:
    """Make tables of a database, by default all, tables of Spark's own catalog, and return their names there.

    They take SELECT, INSERT INTO and INSERT OVERWRITE in every session, also through Spark's Thrift server, and show
    the newest snapshot. DELETE, UPDATE, MERGE and time travel need `lakewright.spark.SQLContext`: Spark refuses them
    for data sources that are written in Python. Publish a table again after its columns changed; until then
    statements on it are refused.

    `modules` is the directory for one generated module per table, by default where lakewright itself is installed. It
    must be on the Python path of every session that uses the tables, and of the processes that Spark starts. A JVM
    looks for these modules once: restart servers that run already. No secret is written there.
    """
    require(Feature.PYTHON_SOURCE, "publish")
    check_session(spark)
    source = find_catalog(catalog)
    directory = _module_directory(modules)
    options = _public_options(source)
    names = source.list_tables(database) if tables is None else argument_checks.check_names("tables", tables)
    found = [source.get_table(Identifier.create(database, name)) for name in names]
    for table in found:
        spark_schema(table.fields)  # refuses what Spark has no types for before anything is made
        _check_free(spark, database, table)
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {_qualified_name('spark_catalog', database)}")
    return [_publish(spark, database, table, options, directory) for table in found]


def published_source(name: str, fixed: Mapping[str, str]) -> type[LakewrightSource]:
    """Return the data source of one table; nothing is opened before Spark uses it."""

    class Published(LakewrightSource):
        def __init__(self, options: Mapping[str, str]) -> None:
            given = {key: value for key, value in options.items() if key.lower() not in _ADDED_BY_SPARK}
            super().__init__({**given, **fixed})

        @classmethod
        def name(cls) -> str:
            return name

        def reader(self, schema: sql.StructType) -> DataSourceReader:
            _check_columns(_column_texts(self.schema()), _column_texts(schema), fixed["table"])
            return super().reader(schema)

        def writer(self, schema: sql.StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's signature
            _check_columns(self.schema().fieldNames(), schema.fieldNames(), fixed["table"])
            return super().writer(schema, overwrite)

    return Published


def _column_texts(schema: sql.StructType) -> list[str]:
    return [f"{field.name} {field.dataType.simpleString()}" for field in schema.fields]


def _check_columns(has: Sequence[str], knows: Sequence[str], table: str) -> None:
    """Refuse a statement if Spark knows other columns than the table has by now: it would miss them silently."""
    if has != knows:
        raise InvalidInputError(
            f"{table}: its columns changed after it was published: Spark's catalog has ({', '.join(knows)}), the table "
            f"has ({', '.join(has)}); call lakewright.spark.publish again",
            table=table,
        )


def _publish(
    spark: SparkSession, database: str, table: FileStoreTable, options: Mapping[str, str], directory: Path
) -> str:
    """Write the module of one table, register its source in this session, and make Spark's table anew."""
    name = _source_name(table)
    fixed = {**options, "table": table.name}
    (directory / f"pyspark_{name}.py").write_text(_MODULE.format(name=name, options=fixed))
    _register(spark, published_source(name, fixed))
    quoted = _qualified_name("spark_catalog", database, table.identifier.get_table_name())
    spark.sql(f"DROP TABLE IF EXISTS {quoted}")  # Spark would keep the columns of the last time
    spark.sql(f"CREATE TABLE {quoted} USING {name}")
    return f"{database}.{table.identifier.get_table_name()}"


def _check_free(spark: SparkSession, database: str, table: FileStoreTable) -> None:
    """Refuse to replace a table of Spark's catalog that is not a published one."""
    name = table.identifier.get_table_name()
    if not spark.catalog.databaseExists(_qualified_name("spark_catalog", database)):
        return
    # Unlike DESCRIBE, this does not load the source of the table, whose module may be gone.
    place, pattern = _qualified_name("spark_catalog", database), name.replace("\\", "\\\\").replace("'", "\\'")
    listed = spark.sql(f"SHOW TABLE EXTENDED IN {place} LIKE '{pattern}'").collect()
    for row in listed:
        kinds = re.findall(r"^Provider: (.*)$", row.information, re.MULTILINE)
        if row.isTemporary or kinds == [_source_name(table)]:
            continue
        raise AlreadyExistsError(
            f"Spark's own catalog has a table {database}.{row.tableName} already, of the kind "
            f"{', '.join(kinds) or 'VIEW'}; drop or rename it, or leave this table out",
            table=table.name,
        )


def _register(spark: SparkSession, source: type[LakewrightSource]) -> None:
    try:
        spark.dataSource.register(source)
    except PySparkException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":  # PySpark 4.0, if it has found the module
            raise


def _source_name(table: FileStoreTable) -> str:
    """Return the name of the data source of a table, which is also a part of the name of a module."""
    plain = re.sub(r"[^0-9a-z]+", "_", table.name.lower())
    return f"{FORMAT}_{plain}_{hashlib.sha256(table.table_path.encode()).hexdigest()[:8]}"


def _public_options(catalog: Catalog) -> dict[str, str]:
    """Return the options by which other processes find the catalog; refuse secrets, which a module must not hold."""
    options = dict(catalog.options)
    for key, value in options.items():
        if redact_secret(key, value) != value:
            raise InvalidInputError(
                f"the option {key!r} of the catalog is a secret, and publish writes the options into a module that "
                "others can read: give it by the environment, or name a function in 'credentials'",
                option=key,
            )
    if "warehouse" not in options and "metastore" not in options:
        raise InvalidInputError(
            "publish needs a catalog that other processes can open by its options: make it with CatalogFactory.create"
        )
    if not options.get("metastore") and "://" not in options["warehouse"]:
        options["warehouse"] = str(Path(options["warehouse"]).absolute())  # servers run in other directories
    return options


def _module_directory(given: PathLike | None) -> Path:
    """Return where the modules go: on the path of this process, so that those it starts can find them."""
    own = Path(pyspark_lakewright.__file__).parent.parent
    directory = own if given is None else Path(argument_checks.check_path("modules", given)).absolute()
    if str(directory) not in map(str, map(Path, sys.path)) or not directory.is_dir():
        raise InvalidInputError(
            f"the directory {directory} is not on the Python path, so Spark would not find modules in it: create it, "
            "and add it to PYTHONPATH before Python and Spark's servers start",
            path=str(directory),
        )
    return directory


def _qualified_name(*names: str) -> str:
    return ".".join(map(quote_identifier, names))
