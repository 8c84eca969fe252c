"""Tables that Java wrote read through Ray as Java reads them; at night the tasks of Ray read all of them."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from ray import cloudpickle

import lakewright as lw
from lakewright.errors import UnsupportedError
from lakewright.ray.dataset_read import TableDatasource, read_table
from support.golden import SAMPLE, WAREHOUSE, expected, expected_rows, in_order, normalised, sampled, spelled
from support.ray_rows import arrow_of


@pytest.fixture(scope="module")
def catalog() -> lw.Catalog:
    return lw.CatalogFactory.create({"warehouse": str(WAREHOUSE)})


def _check(rows: Callable[[lw.FileStoreTable], pa.Table], table: lw.FileStoreTable, name: str) -> None:
    spec = expected()[name]
    builder = table.new_read_builder()
    fields = builder.read_type()
    try:
        got = rows(table)
    except UnsupportedError:
        if not spec.get("mayRefuse"):
            raise
        return
    assert got.schema == builder.new_read().projection.schema
    unordered = [n for n, field in enumerate(fields) if field.name in spec.get("unorderedArrays", ())]
    want = in_order(normalised(expected_rows(spec, spec["rows"]), fields), unordered)
    assert in_order(spelled(got, fields), unordered) == want


def _by_tasks(table: lw.FileStoreTable) -> pa.Table:
    """Read with the tasks that Ray would run, in this process."""
    read = table.new_read_builder().new_read()
    source = TableDatasource(read, read.new_plan().splits())
    tasks = [cloudpickle.loads(cloudpickle.dumps(task)) for task in source.get_read_tasks(3)]
    assert all(task.schema == read.projection.schema for task in tasks)
    tables = [list(task()) for task in tasks]
    told = [task.metadata.num_rows for task in tasks]
    assert all(rows in {None, sum(map(len, some))} for rows, some in zip(told, tables, strict=True))
    return pa.concat_tables(block for some in tables for block in some)


@pytest.mark.usefixtures("ray_session")
@pytest.mark.parametrize("name", sampled(sorted(expected())))
def test_ray_reads_what_java_wrote(catalog: lw.Catalog, name: str) -> None:
    table = catalog.get_table(name)
    _check(_by_tasks, table, name)
    if name in SAMPLE:
        _check(lambda table: arrow_of(read_table(table)), table, name)
