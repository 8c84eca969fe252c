"""A new table from data at hand.

columns of the data -> create the table -> write the rows in one commit -> failed? drop the table again
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

import pyarrow as pa

from lakewright.catalog.catalog import Catalog
from lakewright.catalog.catalog_registry import CatalogFactory
from lakewright.engine.job_progress import ProgressCallback
from lakewright.errors import CommitUnknownError, InvalidInputError, TableAlreadyExistException, with_table_name
from lakewright.ingestion.ingest_plan import create_table, find_target
from lakewright.spec import argument_checks
from lakewright.spec.argument_checks import PathLike
from lakewright.spec.arrow_types import from_arrow_schema
from lakewright.spec.schema import Schema
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.verbs import write_table
from lakewright.write.input_data import ArrowData, batches_of, stream_of, to_local_data


def create_table_from(  # noqa: PLR0913 - each argument is one choice of the caller
    data: ArrowData,
    name: PathLike,
    *,
    catalog: Catalog | Mapping[str, object] | PathLike | None = None,
    primary_keys: str | Sequence[str] = (),
    partition_keys: str | Sequence[str] = (),
    options: Mapping[str, object] | None = None,
    comment: str | None = None,
    progress: bool | ProgressCallback | None = None,
) -> FileStoreTable:
    """Create a table with the columns of some data, write the data into it in one commit, and return the table.

    `data` is Arrow data, a polars or pandas frame, a dict of columns, or a list of dicts that are rows. `name` is
    `db.table` of `catalog`, which is a catalog, its options, or the path of a warehouse; a database that does not exist
    is created. Without a catalog, `name` is a path that ends with `<database>.db/<table>`. A table that exists already
    is an error. If writing fails, the new table is dropped again, unless it is unknown whether the commit succeeded.

    >>> import tempfile, lakewright as lw
    >>> rows = {"id": [1, 2], "name": ["ann", "bo"]}
    >>> people = lw.create_table_from(rows, "d.people", catalog=tempfile.mkdtemp(), primary_keys="id")
    >>> people
    FileStoreTable(d.people: id BIGINT NOT NULL, name STRING; primary key id)
    >>> lw.read_table(people, filter="id = 2").to_pylist()
    [{'id': 2, 'name': 'bo'}]
    """
    place = argument_checks.check_path("name", name)
    schema, batches = _columns_and_batches(data, place)
    with with_table_name(place):
        declared = Schema(from_arrow_schema(schema), partition_keys, primary_keys, options, comment)
    target = find_target(place, _open_catalog(catalog), create=True)
    if target.table is not None or target.catalog is None or target.identifier is None:
        raise TableAlreadyExistException(
            f"{target.name} exists already: write into it with write_table, or choose another name", table=target.name
        )
    created = create_table(target.catalog, target.identifier, declared)
    try:
        write_table(list(batches) if _is_whole(data) else _stream(schema, batches), created.table, progress=progress)
    except BaseException as error:
        if not isinstance(error, CommitUnknownError):
            created.take_back()
        raise
    return created.table


def _open_catalog(catalog: Catalog | Mapping[str, object] | PathLike | None) -> Catalog | None:
    if isinstance(catalog, str | os.PathLike):
        return CatalogFactory.create({"warehouse": argument_checks.check_path("catalog", catalog)})
    if isinstance(catalog, Mapping):
        return CatalogFactory.create(catalog)
    if catalog is None or isinstance(catalog, Catalog):
        return catalog
    raise argument_checks.argument_error("catalog", "a catalog, its options, or the path of a warehouse", catalog)


def _columns_and_batches(data: object, name: str) -> tuple[pa.Schema, Iterator[pa.Table | pa.RecordBatch]]:
    """Return the columns of the data and its batches; a stream stays one."""
    if isinstance(data, str | bytes | os.PathLike):
        raise InvalidInputError(
            f"table {name}: a table is created from rows, not from {argument_checks.describe_value(data)}; "
            "lakewright.ingest(path, "
            "table, create=True) loads files",
            table=name,
        )
    with with_table_name(name):
        given = to_local_data(data, name)
        if not isinstance(given, pa.Table | pa.RecordBatch) and hasattr(given, "__arrow_c_stream__"):
            given = stream_of(given, name)
        batches = batches_of(given, name)
        if isinstance(given, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
            return given.schema, batches
        first = next(batches, None)
    if first is None:
        raise InvalidInputError(
            f"table {name}: the data has no columns; give at least one batch, or create the table with a Schema",
            table=name,
        )
    return first.schema, chain([first], batches)


def _is_whole(data: object) -> bool:
    return isinstance(data, list | tuple | pa.Table | pa.RecordBatch)


def _stream(schema: pa.Schema, batches: Iterable[pa.Table | pa.RecordBatch]) -> pa.RecordBatchReader:
    parts = (part for batch in batches for part in (batch.to_batches() if isinstance(batch, pa.Table) else [batch]))
    return pa.RecordBatchReader.from_batches(schema, parts)
