"""What processes do to one SQL catalog at once."""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import pyarrow as pa

import lakewright as lw
from lakewright.catalog.sql_catalog import LockSettings, SqlLock
from lakewright.catalog.sql_drivers import parse_address
from lakewright.errors import TableAlreadyExistException

COLUMNS = pa.schema([("id", pa.int64()), ("v", pa.string())])


def rows_of(*ids: int) -> pa.Table:
    """Return rows with these ids."""
    return pa.table({"id": pa.array(ids, pa.int64()), "v": [f"v{i}" for i in ids]})


def create_one(options: dict[str, str], number: int, results: str) -> None:
    """Create the table that others create at the same time, and append a row to it."""
    warnings.simplefilter("ignore", lw.LakewrightWarning)
    catalog = lw.CatalogFactory.create(options)
    try:
        catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, options={"comment": str(number)}))
        outcome = "created"
    except TableAlreadyExistException:
        outcome = "exists"
    Path(results, str(number)).write_text(outcome)
    lw.write_table(rows_of(number), catalog.get_table("d.t"))


def hold_many_times(options: dict[str, str], flag: str, times: int) -> None:
    """Hold the lock again and again; a file that only one process may have made shows that nobody else holds it."""
    lock = SqlLock(parse_address(options), "jdbc.d.t", LockSettings(check_max_sleep_millis=100))
    for _ in range(times):
        with lock.held():
            Path(flag).touch(exist_ok=False)
            time.sleep(0.002)
            Path(flag).unlink()
