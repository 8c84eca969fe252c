"""Eight processes append at once: every commit is acknowledged, visible, and there once."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

import pytest

import lakewright as lw
from lakewright.testing.enumerator import stray_files
from lakewright.testing.history import ACKNOWLEDGED, check_history, load_events, run_appends

PROCESSES = 8
APPENDS = 25


def _race(options: dict[str, str], logs: Path) -> None:
    catalog = lw.CatalogFactory.create(options)
    catalog.create_database("d")
    fields = [lw.DataField(0, "token", lw.AtomicType("STRING")), lw.DataField(1, "n", lw.AtomicType("BIGINT"))]
    catalog.create_table("d.t", lw.Schema(fields))
    table = catalog.get_table("d.t")
    spawn = multiprocessing.get_context("spawn")
    workers = [
        spawn.Process(target=run_appends, args=(table.table_path, options, str(logs / f"{n}.log"), n, APPENDS))
        for n in range(PROCESSES)
    ]
    started = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(600)
    print(f"{PROCESSES} x {APPENDS} appends in {time.perf_counter() - started:.1f} s")
    assert [worker.exitcode for worker in workers] == [0] * PROCESSES
    events = load_events(sorted(logs.glob("*.log")))
    appends = [event for event in events if event.kind == "append"]
    assert [event.error for event in appends if event.outcome != ACKNOWLEDGED] == []
    assert len(appends) == PROCESSES * APPENDS
    assert check_history(table, events) == []
    assert len(table.store.snapshots.ids()) == PROCESSES * APPENDS
    assert stray_files(table.store) == set()


def test_local_disk(tmp_path: Path) -> None:
    _race({"warehouse": str(tmp_path / "warehouse")}, tmp_path)


@pytest.mark.s3
def test_s3(tmp_path: Path, s3_options: dict[str, str]) -> None:
    _race({**s3_options, "warehouse": f"{s3_options['warehouse']}/race"}, tmp_path)


def test_the_checker_notices_a_lost_and_a_doubled_commit(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    fields = [lw.DataField(0, "token", lw.AtomicType("STRING")), lw.DataField(1, "n", lw.AtomicType("BIGINT"))]
    catalog.create_table("d.t", lw.Schema(fields))
    table = catalog.get_table("d.t")
    log = tmp_path / "0.log"
    run_appends(table.table_path, {}, str(log), 0, 3)
    events = load_events([log])
    assert check_history(table, events) == []
    lost = [*events, events[0].__class__(1, "append", "1/0", 3, ACKNOWLEDGED, 9)]
    assert check_history(table, lost) == ["1/0 was acknowledged and has 0 rows"]
    run_appends(table.table_path, {}, str(log), 0, 1)
    assert "0/0 was acknowledged and has 6 rows" in check_history(table, events)
