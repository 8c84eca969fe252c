"""The columns of a frame under the names that a table gives them.

Spark resolves names as `spark.sql.caseSensitive` says: by default `ID` is `id`. Verbs that write a frame resolve its
columns, and the fields inside them, before anything is planned. A name that the table spells alike is meant exactly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql import types as sql

from lakewright.errors import InvalidInputError
from lakewright.formats.arrow_conform import rebuild_list, rebuild_struct
from lakewright.metadata.table_store import TableStore
from lakewright.read.projection import ROW_KIND
from lakewright.spark.spark_session import read_setting
from lakewright.spark.spark_types import arrow_schema_of
from lakewright.spec.system_columns import ROW_ID
from lakewright.spec.types import ArrayType, DataField, DataType, MapType, MultisetType, RowType

CASE_SENSITIVE = "spark.sql.caseSensitive"
_ELEMENT, _KEY, _VALUE = "element", "key", "value"

Path: TypeAlias = tuple[str, ...]  # of a column or a field inside it, as the frame spells it
Renames: TypeAlias = Mapping[Path, str]  # the names that differ, as the table spells them


def with_table_names(df: DataFrame, store: TableStore) -> DataFrame:
    """Return a frame whose columns, and the fields inside them, have the names that the table gives them."""
    if is_case_sensitive(df.sparkSession):
        return df
    _check_distinct(df.columns, store.name)
    renames = resolve_names(arrow_schema_of(df.schema), store)
    if not renames:
        return df
    fields = df.schema.fields
    names = [renames.get((field.name,), field.name) for field in fields]
    if all(len(path) == 1 for path in renames):
        return df.toDF(*names)
    # Columns are selected by their index, since names of the frame may be ambiguous to Spark.
    frame = df.toDF(*(f"c{at}" for at in range(len(fields))))
    columns = []
    for at, (field, name) in enumerate(zip(fields, names, strict=True)):
        dtype = _renamed_type(field.dataType, (field.name,), renames)
        column = F.col(f"c{at}") if dtype == field.dataType else F.col(f"c{at}").cast(dtype)
        columns.append(column.alias(name))
    return frame.select(*columns)


def table_names(spark: SparkSession, names: Sequence[str], store: TableStore) -> list[str]:
    """Return columns that a caller names as the table spells them."""
    if is_case_sensitive(spark):
        return list(names)
    known = store.schema.field_names
    return [_resolve_column(name, known, (), store.name) for name in names]


def is_case_sensitive(spark: SparkSession) -> bool:
    """Return whether names of columns that differ in case alone are different names to a session."""
    return str(read_setting(spark, CASE_SENSITIVE)).lower() == "true"


def resolve_names(given: pa.Schema, store: TableStore) -> Renames:
    """Return the names of a frame that the table spells in another case; an ambiguous one is an error."""
    fields = {field.name: field for field in store.schema.fields}
    for hidden in (ROW_KIND, ROW_ID.name):
        fields.setdefault(hidden, DataField(-1, hidden, ROW_ID.type))
    return dict(_renames(list(given), list(fields.values()), (), store.name))


def renamed_schema(schema: pa.Schema, renames: Renames) -> pa.Schema:
    """Return the columns of a frame under the names of the table."""
    if not renames:
        return schema
    named = [
        field.with_name(renames.get((field.name,), field.name)).with_type(
            _renamed_array(pa.array([], field.type), (field.name,), renames).type
        )
        for field in schema
    ]
    return pa.schema(named)


def renamed_batches(batches: Iterable[pa.RecordBatch], renames: Renames) -> Iterator[pa.RecordBatch]:
    """Yield batches of a frame under the names of the table."""
    if not renames:
        yield from batches
        return
    for batch in batches:
        names = [renames.get((name,), name) for name in batch.schema.names]
        columns = [
            _renamed_array(column, (name,), renames)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, names=names)


def _renames(
    given: Sequence[pa.Field], fields: Sequence[DataField], parent: Path, table: str
) -> Iterator[tuple[Path, str]]:
    """Yield the names that differ, of fields on one level and of those inside them."""
    known = {field.name: field.type for field in fields}
    _check_distinct([field.name for field in given], table, parent, known.keys())
    for field in given:
        path = (*parent, field.name)
        name = _resolve_column(field.name, list(known), parent, table)
        if name != field.name:
            yield path, name
        if name in known:
            yield from _inner_renames(field.type, known[name], path, table)


def _inner_renames(given: pa.DataType, dtype: DataType, path: Path, table: str) -> Iterator[tuple[Path, str]]:
    if isinstance(dtype, RowType) and pa.types.is_struct(given):
        yield from _renames(list(given), dtype.fields, path, table)
    elif isinstance(dtype, ArrayType) and pa.types.is_list(given):
        yield from _inner_renames(given.value_type, dtype.element, (*path, _ELEMENT), table)
    elif isinstance(dtype, MapType | MultisetType) and pa.types.is_map(given):
        yield from _inner_renames(given.key_type, dtype.key, (*path, _KEY), table)
        yield from _inner_renames(given.item_type, dtype.value, (*path, _VALUE), table)


def _resolve_column(name: str, known: Sequence[str], parent: Path, table: str) -> str:
    """Return a name as the table spells it; one that it does not have stays."""
    if name in known:
        return name
    found = [one for one in known if one.lower() == name.lower()]
    if len(found) > 1:
        raise InvalidInputError(
            f"table {table}: the column {_format_path(parent, name)} is {' or '.join(map(repr, found))} of the table; "
            "spell it as the table does",
            table=table,
            column=".".join((*parent, name)),
        )
    return found[0] if found else name


def _check_distinct(names: Sequence[str], table: str, parent: Path = (), known: Collection[str] = ()) -> None:
    """Refuse names that differ in case alone, unless the table has both."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name and not (name in known and other in known):
            raise InvalidInputError(
                f"table {table}: the frame has the columns {_format_path(parent, other)} and "
                f"{_format_path(parent, name)}, which are one name to Spark; drop or rename one, or "
                f"set {CASE_SENSITIVE} to true",
                table=table,
                column=".".join((*parent, name)),
            )


def _format_path(parent: Path, name: str) -> str:
    return repr(".".join((*parent, name)))


def _renamed_type(dtype: sql.DataType, path: Path, renames: Renames) -> sql.DataType:
    match dtype:
        case sql.StructType():
            return sql.StructType(
                [
                    sql.StructField(
                        renames.get((*path, field.name), field.name),
                        _renamed_type(field.dataType, (*path, field.name), renames),
                        field.nullable,
                        field.metadata,
                    )
                    for field in dtype.fields
                ]
            )
        case sql.ArrayType():
            return sql.ArrayType(_renamed_type(dtype.elementType, (*path, _ELEMENT), renames), dtype.containsNull)
        case sql.MapType():
            key = _renamed_type(dtype.keyType, (*path, _KEY), renames)
            return sql.MapType(key, _renamed_type(dtype.valueType, (*path, _VALUE), renames), dtype.valueContainsNull)
    return dtype


def _renamed_array(array: pa.Array, path: Path, renames: Renames) -> pa.Array:
    kinds, dtype = pa.types, array.type
    if kinds.is_struct(dtype):
        children = [_renamed_array(array.field(at), (*path, field.name), renames) for at, field in enumerate(dtype)]
        fields = [
            pa.field(renames.get((*path, field.name), field.name), child.type, field.nullable)
            for field, child in zip(dtype, children, strict=True)
        ]
        return rebuild_struct(array, pa.struct(fields), children)
    if kinds.is_map(dtype):
        keys = _renamed_array(array.keys, (*path, _KEY), renames)
        items = _renamed_array(array.items, (*path, _VALUE), renames)
        target = pa.map_(dtype.key_field.with_type(keys.type), dtype.item_field.with_type(items.type))
        entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
        return rebuild_list(array, target, entries)
    if kinds.is_list(dtype):
        values = _renamed_array(array.values, (*path, _ELEMENT), renames)
        return rebuild_list(array, pa.list_(dtype.value_field.with_type(values.type)), values)
    return array
