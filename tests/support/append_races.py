"""Processes that append to one table at once, and the proof that nothing was lost, doubled or left behind."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import lakewright as lw
from contract.append_history import ACKNOWLEDGED, check_history, load_events, run_appends
from contract.fault_enumerator import stray_files
from lakewright.catalog.catalog import Catalog
from support.effort import examples
from support.warm_processes import LOADED

PROCESSES = 2 + examples(6)
APPENDS = examples(25)
_PATIENCE_SECONDS = 600


def token_table(catalog: Catalog) -> lw.FileStoreTable:
    """Make the table that the processes of a history append to, in a database of its own."""
    database = f"d{uuid.uuid4().hex[:10]}"
    catalog.create_database(database)
    fields = [lw.DataField(0, "token", lw.AtomicType("STRING")), lw.DataField(1, "n", lw.AtomicType("BIGINT"))]
    catalog.create_table(f"{database}.t", lw.Schema(fields))
    return catalog.get_table(f"{database}.t")


def race_appends(catalog: Catalog, logs: Path, processes: int = PROCESSES, appends: int = APPENDS) -> None:
    """Let processes append; every commit must be acknowledged, visible, and there once."""
    table = token_table(catalog)
    started = time.perf_counter()
    calls = [(table, str(logs / f"{n}.log"), n, appends) for n in range(processes)]
    LOADED.run_together(run_appends, calls, seconds=_PATIENCE_SECONDS)
    print(f"{processes} x {appends} appends in {time.perf_counter() - started:.1f} s")
    events = load_events(sorted(logs.glob("*.log")))
    done = [event for event in events if event.kind == "append"]
    assert [event.error for event in done if event.outcome != ACKNOWLEDGED] == []
    assert len(done) == processes * appends
    assert check_history(table, events) == []
    assert len(table.store.snapshots.ids()) == processes * appends
    assert stray_files(table.store) == set()
