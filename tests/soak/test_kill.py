"""Processes are killed at random moments while they append; nothing acknowledged is lost, nothing is there in part."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import lakewright as lw
from contract.append_history import append_once
from contract.fault_enumerator import stray_files

KILLS = int(os.environ.get("LAKEWRIGHT_KILLS", "1000"))
ROWS = 3


def _append_for_ever(location: str, log: str, round_number: int) -> None:
    """Append until killed; an append is in the log only once it was acknowledged."""
    table = lw.open_table(location)
    with Path(log).open("a") as out:
        for number in range(10_000):
            event = append_once(table, round_number, number, ROWS)
            out.write(json.dumps([event.token, event.outcome]) + "\n")
            out.flush()
            os.fsync(out.fileno())


def test_kill_at_random_moments(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path / "warehouse")})
    catalog.create_database("d")
    fields = [lw.DataField(0, "token", lw.AtomicType("STRING")), lw.DataField(1, "n", lw.AtomicType("BIGINT"))]
    catalog.create_table("d.t", lw.Schema(fields))
    table = catalog.get_table("d.t")
    servers = multiprocessing.get_context("forkserver")
    servers.set_forkserver_preload(["lakewright.public", "contract.fault_enumerator", "contract.append_history"])
    dice = random.Random(20261115)
    started = time.perf_counter()
    for number in range(KILLS):
        log = tmp_path / f"{number}.log"
        worker = servers.Process(target=_append_for_ever, args=(table.table_path, str(log), number))
        worker.start()
        # Half of the kills fall into the first append, half into one of those after it.
        first = dice.random() < 0.5
        while worker.is_alive() and not (log.exists() and (first or log.stat().st_size)):
            time.sleep(0.001)
        worker.join(dice.uniform(0.0, 0.15))
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
    acknowledged = [
        token
        for log in tmp_path.glob("*.log")
        for token, outcome in map(json.loads, log.read_text().splitlines())
        if outcome == "acknowledged"
    ]
    rows = Counter(lw.read_table(table)["token"].to_pylist())
    assert [token for token in acknowledged if rows[token] != ROWS] == [], "acknowledged and lost, or there twice"
    assert [token for token, count in rows.items() if count != ROWS] == [], "there in part, or twice"
    lw.write_table(lw.read_table(table, limit=1), table)  # the next commit works
    table.remove_orphan_files(older_than=int(time.time() * 1000))
    assert stray_files(table.store) == set()
    print(f"{KILLS} kills, {len(acknowledged)} acknowledged, {time.perf_counter() - started:.0f} s")
    assert len(acknowledged) > KILLS // 4, "the processes died before they did anything"
