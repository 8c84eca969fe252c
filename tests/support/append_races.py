"""Processes that append to one table at once, and the proof that nothing was lost, doubled or left behind."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

import lakewright as lw
from lakewright.testing.enumerator import stray_files
from lakewright.testing.history import ACKNOWLEDGED, check_history, load_events, run_appends
from support.effort import examples

PROCESSES = 2 + examples(6)
APPENDS = examples(25)
_PATIENCE_SECONDS = 600


def token_table(options: dict[str, str]) -> lw.FileStoreTable:
    """Make the table that the processes of a history append to."""
    catalog = lw.CatalogFactory.create(options)
    catalog.create_database("d")
    fields = [lw.DataField(0, "token", lw.AtomicType("STRING")), lw.DataField(1, "n", lw.AtomicType("BIGINT"))]
    catalog.create_table("d.t", lw.Schema(fields))
    table = catalog.get_table("d.t")
    assert isinstance(table, lw.FileStoreTable)
    return table


def race_appends(options: dict[str, str], logs: Path) -> None:
    """Let processes append; every commit must be acknowledged, visible, and there once."""
    table = token_table(options)
    spawn = multiprocessing.get_context("spawn")
    workers = [
        spawn.Process(target=run_appends, args=(table.table_path, options, str(logs / f"{n}.log"), n, APPENDS))
        for n in range(PROCESSES)
    ]
    started = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(_PATIENCE_SECONDS)
    print(f"{PROCESSES} x {APPENDS} appends in {time.perf_counter() - started:.1f} s")
    assert [worker.exitcode for worker in workers] == [0] * PROCESSES
    events = load_events(sorted(logs.glob("*.log")))
    appends = [event for event in events if event.kind == "append"]
    assert [event.error for event in appends if event.outcome != ACKNOWLEDGED] == []
    assert len(appends) == PROCESSES * APPENDS
    assert check_history(table, events) == []
    assert len(table.store.snapshots.ids()) == PROCESSES * APPENDS
    assert stray_files(table.store) == set()
