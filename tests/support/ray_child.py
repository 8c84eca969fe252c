"""A driver of its own, in a process that can be killed: writes one dataset as told by the JSON in its argument."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray
from ray import cloudpickle
from ray.data import Dataset

import lakewright as lw
from lakewright.ray import write_table
from lakewright.table.file_store_table import FileStoreTable
from support import traps
from support.spark_writes import new_table, rows_of
from support.traps import TrapStorage, trapped

cloudpickle.register_pickle_by_value(traps)
ROWS = 60
BLOCKS = 4


def arrow_rows(rows: int = ROWS) -> pa.Table:
    """Return the rows that every driver writes."""
    ids = range(rows)
    days, texts = [f"2026-01-0{i % 3 + 1}" for i in ids], [f"row {i}" for i in ids]
    return pa.table({"id": list(ids), "day": days, "n": [i * 2 for i in ids], "text": texts})


def dataset_of(rows: int = ROWS) -> Dataset:
    """Return them as a dataset of a few blocks."""
    table, step = arrow_rows(rows), -(-rows // BLOCKS)
    return ray.data.from_arrow([table.slice(start, step) for start in range(0, rows, step)])


def expected_rows(rows: int = ROWS) -> list[tuple[object, ...]]:
    """Return the rows of that dataset, sorted."""
    return sorted((tuple(row.values()) for row in arrow_rows(rows).to_pylist()), key=repr)


def table_for(mode: str, root: Path) -> FileStoreTable:
    """Make a table for a mode; an upsert finds old rows of its keys, an overwrite finds rows to replace."""
    if mode == "append":
        return new_table(root, partitions=["day"])
    table = new_table(root, keys=["id"], options={"bucket": "2"})
    old = range(ROWS) if mode == "upsert" else range(5, 2 * ROWS)
    lw.write_table(pa.table({"id": list(old), "text": ["old"] * len(old)}), table)
    return table


def shows_the_rows(table: FileStoreTable) -> bool:
    """Say whether the rows of the dataset are there; a mixture of old and new ones is a failure."""
    texts = {str(row[3]).split()[0] for row in rows_of(table)}
    assert len(texts) <= 1, "some rows are new and some are old"
    return texts == {"row"}


@contextmanager
def started_child(log: Path, **said: Any) -> Iterator[subprocess.Popen[bytes]]:  # noqa: ANN401 - what JSON can hold
    """Start a driver that joins the Ray of this process, and end it if it has not ended by itself."""
    said["address"] = ray.get_runtime_context().gcs_address
    command = [sys.executable, "-m", "support.ray_child", json.dumps(said)]
    with log.open("wb") as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=Path(__file__).parent.parent)
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def main() -> None:
    """Write the dataset."""
    said = json.loads(sys.argv[1])
    ray.init(address=said["address"], log_to_driver=False)
    table = trapped(lw.open_table(said["table"]), TrapStorage(**said["trap"]))
    write_table(dataset_of(), table, said["mode"], job_id=said["job_id"])


if __name__ == "__main__":
    main()
