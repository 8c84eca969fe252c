"""Writers that append to one table at once: how many commits a store can publish, in units of its latency.

    python -m bench.writers [--latency 0.1] [--seconds 20] [--writers 1 4 16 64]

Each writer is a thread with a handle of its own, on an object store in memory that waits before it answers. A commit is
one row. Printed are the commits in one latency, and how many publishes it took until one won.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa

import lakewright as lw
from contract.faulty_storage import FaultyStorage
from lakewright.catalog.filesystem_catalog import FileSystemCatalog
from lakewright.storage.object_storage import ObjectStorage

T = TypeVar("T")
_FREE = {"open_output", "write", "discard"}  # no requests while a file is small


class LateStorage(FaultyStorage):
    """A storage that waits before each answer."""

    latency = 0.0

    def run(self, verb: str, path: str, effect: Callable[[], T], half: Callable[[], object] | None = None) -> T:
        if verb not in _FREE:
            time.sleep(self.latency)
        return super().run(verb, path, effect, half)


def measure(writers: int, latency: float, seconds: float) -> str:
    """Let writers append for a while, and return a line of the table."""
    storage = LateStorage(ObjectStorage("memory://"))
    catalog = FileSystemCatalog(storage, f"memory:///writers-{writers}")
    catalog.create_database("d")
    options = {"commit.timeout": "10 min", "commit.max-retries": "1000"}
    schema = pa.schema([("id", pa.int64())])
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(schema, options=options))
    handles = [catalog.get_table("d.t") for _ in range(writers)]
    lw.write_table(pa.table({"id": [0]}), handles[0])
    storage.latency, ends, committed = latency, time.monotonic() + seconds, [0] * writers

    def append(writer: int) -> None:
        while time.monotonic() < ends:
            lw.write_table(pa.table({"id": [writer]}), handles[writer])
            committed[writer] += time.monotonic() < ends

    threads = [threading.Thread(target=append, args=(writer,)) for writer in range(writers)]
    storage.calls.clear()
    began = time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tries = sum(call.verb == "create" and "/snapshot/snapshot-" in call.path for call in storage.calls)
    won = catalog.get_table("d.t").store.snapshots.ids()[-1] - 1
    cpu = (time.process_time() - began) / won * 1000
    rate = sum(committed) * latency / seconds
    return f"| {writers} | {rate:.2f} | {tries / won:.1f} | {len(storage.calls) / won:.0f} | {cpu:.0f} |"


def main() -> None:
    """Measure each number of writers, and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency", type=float, default=0.1)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--writers", type=int, nargs="+", default=[1, 4, 16, 64])
    asked = parser.parse_args()
    print("| writers | commits in a latency | publishes of a commit | calls of a commit | cpu ms of a commit |")
    print("| --- | --- | --- | --- | --- |")
    for writers in asked.writers:
        print(measure(writers, asked.latency, asked.seconds), flush=True)


if __name__ == "__main__":
    main()
