"""Every storage call of a migration fails once, in every way: no file of the user is lost, the same call ends it."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakewright as lw
from contract.fault_enumerator import Operation, enumerate_faults
from lakewright.storage.storage import Storage
from support.effort import is_thin

pytestmark = pytest.mark.long
FILES = {"k=1/a": [1, 2], "k=2/b": [3]}


def place_of(catalog: lw.Catalog) -> tuple[Storage, str]:
    assert isinstance(catalog, lw.FileSystemCatalog)
    return catalog.storage, catalog.warehouse.removesuffix("/warehouse") + "/old"


def prepare(catalog: lw.Catalog) -> None:
    catalog.create_database("d")
    storage, source = place_of(catalog)
    for name, numbers in FILES.items():
        data = io.BytesIO()
        pq.write_table(pa.table({"n": numbers}), data)
        assert storage.create(f"{source}/{name}", data.getvalue())


def rows(catalog: lw.Catalog) -> list[int]:
    """Return the rows of the table; none if there is no table yet. No row may be neither there nor in its old file."""
    shown: list[int] = []
    if "t" in catalog.list_tables("d"):
        shown = lw.read_table(catalog.get_table("d.t"))["n"].to_pylist()
    storage, source = place_of(catalog)
    old = [pq.read_table(io.BytesIO(storage.read(info.path)))["n"].to_pylist() for info in storage.walk(source)]
    assert {1, 2, 3} <= {*shown, *(number for numbers in old for number in numbers)}
    return sorted(shown)


def again(catalog: lw.Catalog) -> None:
    storage, source = place_of(catalog)
    if list(storage.walk(source)):
        move(catalog)
    assert not list(storage.walk(source))


def move(catalog: lw.Catalog) -> None:
    lw.migrate(catalog, "d.t", place_of(catalog)[1])


def copy(catalog: lw.Catalog) -> None:
    lw.migrate(catalog, "d.t", place_of(catalog)[1], copy=True)


def test_every_fault_of_a_migration_keeps_every_file() -> None:
    report = enumerate_faults(Operation("migrate", prepare, move, again), rows, thin=is_thin())
    assert report.calls > 20
    assert report.failures == ()


def test_every_fault_of_a_copying_migration_keeps_every_file() -> None:
    report = enumerate_faults(Operation("migrate, copied", prepare, copy), rows, renames=False, thin=is_thin())
    assert report.calls > 20
    assert report.failures == ()
