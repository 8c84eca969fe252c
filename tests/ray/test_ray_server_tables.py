"""Tables of REST servers and SQL catalogs on Ray: the catalog is asked by the driver, and one commit is made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import ray.data

import lakewright as lw
import lakewright.ray as lwr
from support.effort import some
from support.rest_server import running_rest

pytestmark = pytest.mark.usefixtures("ray_session")

COLUMNS = pa.schema({"id": pa.int64(), "n": pa.int64()})


@pytest.fixture(params=some(["rest", "jdbc"], 0))
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[lw.Catalog]:
    if request.param == "jdbc":
        uri = f"jdbc:sqlite:{tmp_path / 'names.db'}"
        options = {"metastore": "jdbc", "uri": uri, "warehouse": str(tmp_path), "lock.enabled": "true"}
        with lw.CatalogFactory.create(options) as opened:
            yield opened
        return
    with running_rest(str(tmp_path)) as server:
        yield lw.CatalogFactory.create(server.options)
        asked = [entry.request for entry in server.log if "/config" in entry.request]
        assert len(asked) == 1  # workers never ask for the configuration


def _rows(*ids: int) -> ray.data.Dataset:
    parts = [pa.table({"id": [number], "n": [number * 10]}, COLUMNS) for number in ids]
    return ray.data.from_arrow(parts)


@pytest.mark.parametrize("keys", some([[], ["id"]], 1), ids=str)
def test_a_dataset_goes_in_is_changed_and_comes_out(catalog: lw.Catalog, keys: list[str]) -> None:
    catalog.create_database("d")
    schema = lw.Schema.from_pyarrow_schema(COLUMNS, primary_keys=keys, options={"bucket": "2"} if keys else {})
    catalog.create_table("d.t", schema)
    table = catalog.get_table("d.t")
    assert lwr.write_table(_rows(1, 2, 3), table).snapshot_id == 1
    _rows(4).write_datasink(lwr.PaimonDatasink(table))
    lwr.delete(table, "id = 2")
    assert sorted(row["n"] for row in lwr.read_table(table).take_all()) == [10, 30, 40]
    newest = table.snapshot()
    assert newest is not None
    assert newest.id == 3
