"""`spark.catalog` under `install`: the calls that may be about catalogs, databases and tables that are installed.

Each function gets the context of the session, the method of PySpark and its arguments, and calls that method for what
is not ours.
"""

# ruff: noqa: ANN401, FBT001, FBT002, N803, PLR0913, PLR0917 - the names and signatures of PySpark

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from pyspark.sql import catalog as spark_catalog
from pyspark.sql.types import StructType

from lakewright.catalog.catalog import Catalog
from lakewright.errors import DatabaseNotExistException, LakewrightError, UnsupportedError
from lakewright.spark.installed_context import InstalledContext
from lakewright.spark.spark_types import fields_of
from lakewright.spec.identifier import quote_identifier
from lakewright.spec.schema import Schema
from lakewright.statements.catalog_commands import PROVIDER, shown_type
from lakewright.statements.sql_session import DEFAULT_DATABASE, has_database, matching
from lakewright.statements.sql_text import Name

Call: TypeAlias = Callable[..., Any]

# ---- whose it is -----------------------------------------------------------------------------------------------------


def _database(context: InstalledContext, text: str | None) -> tuple[str, str] | None:
    """Return the catalog and the database that a text names, as far as they are ours; None: the current ones."""
    if text is None:
        return (context.catalog_name, context.database) if context.is_current else None
    try:
        parts = context.name(text).parts
    except LakewrightError:
        return None
    if len(parts) > 1:
        return (parts[0], parts[1]) if parts[0] in context.catalogs else None
    if not context.is_current:
        return (parts[0], DEFAULT_DATABASE) if parts[0] in context.catalogs else None
    return context.catalog_name, parts[0]


def _table(context: InstalledContext, table: str, database: str | None = None) -> str | None:
    """Return the whole name of a Paimon table as SQL spells it; None: it is Spark's."""
    try:
        name = context.name(table if database is None else f"{database}.{table}")
    except LakewrightError:
        return None
    return _whole(context, name) if context.is_ours(name) else None


def _whole(context: InstalledContext, name: Name) -> str:
    missing = (context.catalog_name, context.database)[: 3 - len(name.parts)]
    return ".".join(map(quote_identifier, (*missing, *name.parts)))


def _by_table(statement: str) -> Call:
    """Return a call that runs a statement with the name of a Paimon table, and returns nothing."""

    def call(context: InstalledContext, original: Call, catalog: Any, tableName: str, *args: Any, **kwargs: Any) -> Any:
        whole = _table(context, tableName)
        if whole is None:
            return original(catalog, tableName, *args, **kwargs)
        context.sql(statement.format(whole))
        return None

    return call


def _ignoring(answer: object = None) -> Call:
    """Return a call that has nothing to do for Paimon tables."""

    def call(context: InstalledContext, original: Call, catalog: Any, tableName: str, *args: Any, **kwargs: Any) -> Any:
        if _table(context, tableName) is None:
            return original(catalog, tableName, *args, **kwargs)
        return answer

    return call


# ---- catalogs and databases ------------------------------------------------------------------------------------------


def _current_catalog(context: InstalledContext, original: Call, catalog: Any) -> Any:
    return context.catalog_name if context.is_current else original(catalog)


def _set_current_catalog(context: InstalledContext, original: Call, catalog: Any, catalogName: str) -> None:
    if catalogName in context.catalogs:
        context.use(catalog=catalogName)
        return
    original(catalog, catalogName)
    context.leave()


def _list_catalogs(context: InstalledContext, original: Call, catalog: Any, pattern: str | None = None) -> Any:
    own = [spark_catalog.CatalogMetadata(name, None) for name in matching(context.catalogs, pattern)]
    return [*original(catalog, pattern), *own]


def _current_database(context: InstalledContext, original: Call, catalog: Any) -> Any:
    return context.database if context.is_current else original(catalog)


def _set_current_database(context: InstalledContext, original: Call, catalog: Any, dbName: str) -> None:
    place = _database(context, dbName)
    if place is None:
        original(catalog, dbName)
        return
    if not has_database(context.catalogs[place[0]], place[1]):
        raise DatabaseNotExistException(f"there is no database {dbName!r} in {place[0]!r}", database=dbName)
    context.use(*place)


def _list_databases(context: InstalledContext, original: Call, catalog: Any, pattern: str | None = None) -> Any:
    if not context.is_current:
        return original(catalog, pattern)
    names = matching(context.catalog.list_databases(), pattern)
    return [_shown_database(context.catalog_name, context.catalog, name) for name in names]


def _get_database(context: InstalledContext, original: Call, catalog: Any, dbName: str) -> Any:
    place = _database(context, dbName)
    if place is None:
        return original(catalog, dbName)
    return _shown_database(place[0], context.catalogs[place[0]], place[1])


def _shown_database(name: str, catalog: Catalog, database: str) -> object:
    found = catalog.get_database(database)
    return spark_catalog.Database(database, name, found.comment, str(found.options.get("location", "")))


def _database_exists(context: InstalledContext, original: Call, catalog: Any, dbName: str) -> Any:
    place = _database(context, dbName)
    if place is None:
        return original(catalog, dbName)
    return has_database(context.catalogs[place[0]], place[1])


def _create_database(
    context: InstalledContext,
    original: Call,
    catalog: Any,
    dbName: str,
    ifNotExists: bool = False,
    properties: Mapping[str, str] | None = None,
) -> None:
    place = _database(context, dbName)
    if place is None:
        original(catalog, dbName, ifNotExists, properties)
    else:
        context.catalogs[place[0]].create_database(place[1], ifNotExists, properties)


def _drop_database(
    context: InstalledContext,
    original: Call,
    catalog: Any,
    dbName: str,
    ifExists: bool = False,
    cascade: bool = False,
) -> None:
    place = _database(context, dbName)
    if place is None:
        original(catalog, dbName, ifExists, cascade)
    else:
        context.catalogs[place[0]].drop_database(place[1], ifExists, cascade)


# ---- tables ----------------------------------------------------------------------------------------------------------


def _list_tables(
    context: InstalledContext,
    original: Call,
    catalog: Any,
    dbName: str | None = None,
    pattern: str | None = None,
) -> Any:
    place = _database(context, dbName)
    if place is None:
        return original(catalog, dbName, pattern)
    names = matching(context.catalogs[place[0]].list_tables(place[1]), pattern)
    views = [one for one in original(catalog, None, pattern) if one.isTemporary]
    return [*(_shown_table(context, *place, name) for name in names), *views]


def _list_views(
    context: InstalledContext,
    original: Call,
    catalog: Any,
    dbName: str | None = None,
    pattern: str | None = None,
) -> Any:
    place = _database(context, dbName)
    return original(catalog, None if place else dbName, pattern)


def _shown_table(context: InstalledContext, catalog: str, database: str, table: str) -> object:
    comment = context.catalogs[catalog].get_table(f"{quote_identifier(database)}.{quote_identifier(table)}").comment()
    return spark_catalog.Table(table, catalog, [database], comment, "MANAGED", isTemporary=False)


def _get_table(context: InstalledContext, original: Call, catalog: Any, tableName: str) -> Any:
    whole = _table(context, tableName)
    return original(catalog, tableName) if whole is None else _shown_table(context, *context.name(whole).parts)


def _table_exists(
    context: InstalledContext,
    original: Call,
    catalog: Any,
    tableName: str,
    dbName: str | None = None,
) -> Any:
    whole = _table(context, tableName, dbName)
    return original(catalog, tableName, dbName) if whole is None else context.has(context.name(whole))


def _list_columns(
    context: InstalledContext,
    original: Call,
    catalog: Any,
    tableName: str,
    dbName: str | None = None,
) -> Any:
    whole = _table(context, tableName, dbName)
    if whole is None:
        return original(catalog, tableName, dbName)
    table = context.changeable(context.name(whole))
    flags = (False, False) if "isCluster" in spark_catalog.Column._fields else (False,)
    return [
        spark_catalog.Column(  # isCluster came with PySpark 4.0
            one.name, one.description, shown_type(one.type), one.type.nullable, one.name in table.partition_keys, *flags
        )
        for one in table.fields
    ]


def _create_table(
    context: InstalledContext,
    original: Call,
    catalog: Any,
    tableName: str,
    path: str | None = None,
    source: str | None = None,
    schema: StructType | None = None,
    description: str | None = None,
    **options: str,
) -> Any:
    name = context.name(tableName)
    if not context.is_ours(name, creates=True):
        return original(catalog, tableName, path, source, schema, description, **options)
    if path is not None or source not in (None, PROVIDER) or schema is None:
        raise UnsupportedError(
            f"{tableName} is a table of a Paimon catalog: give its schema, and neither path nor source"
        )
    own, identifier = context.resolve(name)
    own.create_table(identifier, Schema(fields_of(schema), [], [], dict(options), description))
    return context.query_table(tableName)


def _properties(context: InstalledContext, original: Call, catalog: Any, tableName: str) -> Any:
    whole = _table(context, tableName)
    if whole is None:
        return original(catalog, tableName)
    return dict(context.changeable(context.name(whole)).schema.options)


def _create_table_text(
    context: InstalledContext,
    original: Call,
    catalog: Any,
    tableName: str,
    asSerde: bool = False,
) -> Any:
    whole = _table(context, tableName)
    if whole is None:
        return original(catalog, tableName, asSerde)
    return context.sql(f"SHOW CREATE TABLE {whole}").collect()[0][0]


def _list_partitions(context: InstalledContext, original: Call, catalog: Any, tableName: str) -> Any:
    whole = _table(context, tableName)
    if whole is None:
        return original(catalog, tableName)
    made: Any = spark_catalog.TablePartition  # since PySpark 4.2, as the call
    return [made(row[0]) for row in context.sql(f"SHOW PARTITIONS {whole}").collect()]


def _drop_table(
    context: InstalledContext,
    original: Call,
    catalog: Any,
    tableName: str,
    ifExists: bool = False,
    purge: bool = False,
) -> None:
    whole = _table(context, tableName)
    if whole is None:
        original(catalog, tableName, ifExists, purge)
        return
    context.sql(f"DROP TABLE {'IF EXISTS ' if ifExists else ''}{whole}")


def _cache_table(context: InstalledContext, original: Call, catalog: Any, tableName: str, *args: Any) -> None:
    if _table(context, tableName) is not None:
        raise UnsupportedError(
            f"{tableName} is not cached under its name, because each statement reads the newest snapshot: keep the "
            f'frame instead, spark.table("{tableName}").cache()',
            table=tableName,
        )
    original(catalog, tableName, *args)


CATALOG_CALLS: dict[str, Call] = {
    "currentCatalog": _current_catalog,
    "setCurrentCatalog": _set_current_catalog,
    "listCatalogs": _list_catalogs,
    "currentDatabase": _current_database,
    "setCurrentDatabase": _set_current_database,
    "listDatabases": _list_databases,
    "getDatabase": _get_database,
    "databaseExists": _database_exists,
    "createDatabase": _create_database,
    "dropDatabase": _drop_database,
    "listTables": _list_tables,
    "listViews": _list_views,
    "getTable": _get_table,
    "tableExists": _table_exists,
    "listColumns": _list_columns,
    "createTable": _create_table,
    "getTableProperties": _properties,
    "getCreateTableString": _create_table_text,
    "listPartitions": _list_partitions,
    "dropTable": _drop_table,
    "truncateTable": _by_table("TRUNCATE TABLE {}"),
    "analyzeTable": _by_table("ANALYZE TABLE {} COMPUTE STATISTICS"),
    "cacheTable": _cache_table,
    "isCached": _ignoring(answer=False),
    "uncacheTable": _ignoring(),
    "refreshTable": _ignoring(),
    "recoverPartitions": _ignoring(),
}
