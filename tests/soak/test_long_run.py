"""Two tables in use for minutes: nothing is lost or there twice, and processes hold no more at the end than early on.

`LAKEWRIGHT_SOAK_MINUTES` says how long it runs, 20 if it is not set. How long operations take is printed, not judged:
it depends on what else the machine does.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path

import lakewright as lw
from contract.append_history import ACKNOWLEDGED
from contract.fault_enumerator import stray_files
from support import long_run
from support.long_run import MIB, Line, Worker

MINUTES = float(os.environ.get("LAKEWRIGHT_SOAK_MINUTES", "20"))
# What a process may hold more at the end: pools of memory and of threads fill up over the first minutes.
RESIDENT_MORE_MAX = 48 * MIB
HANDLES_MORE_MAX = 8
THREADS_MORE_MAX = 8


def test_nothing_is_lost_and_nothing_grows(tmp_path: Path) -> None:
    journals = tmp_path / "journals"
    journals.mkdir()
    log, keyed = long_run.make_tables(tmp_path / "warehouse")
    until = time.time() + MINUTES * 60
    one = Worker(log, keyed, "", 0, until)
    jobs = {
        "writer-0": (long_run.append, replace(one, number=0)),
        "writer-1": (long_run.append, replace(one, number=1)),
        "upserter-0": (long_run.upsert, replace(one, number=0)),
        "upserter-1": (long_run.upsert, replace(one, number=1)),
        "reader": (long_run.read, replace(one, number=2)),
        "keeper": (long_run.keep, replace(one, number=3)),
    }
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["lakewright.public"])
    running = []
    for name, (work, worker) in jobs.items():
        journal = str(journals / f"{name}.jsonl")
        running.append(processes.Process(target=work, args=(replace(worker, journal=journal),), name=name))
        running[-1].start()
    kills = _kill_again_and_again(replace(one, number=9), journals, processes.Process)
    assert kills
    for process in running:
        process.join(600)
    assert {process.name: process.exitcode for process in running} == dict.fromkeys(jobs, 0)
    lines = long_run.load(journals)
    _tell({name: lines[name] for name in jobs}, kills)
    _check_outcomes(lines)
    _check_rows(lw.open_table(log), lw.open_table(keyed), lines)
    for location in (log, keyed):
        table = lw.open_table(location)
        table.expire_snapshots(retain_max=1, retain_min=1)
        table.remove_orphan_files(older_than=int(time.time() * 1000))
        assert stray_files(table.store) == set()
        assert table.verify(full=True).findings == ()
    _check_growth({name: lines[name] for name in jobs})


def _kill_again_and_again(worker: Worker, journals: Path, process: type[BaseProcess]) -> int:
    """Let a writer run for a moment and kill it, until the time is over; return how often."""
    dice, kills = random.Random(20261118), 0
    while time.time() < worker.until:
        journal = str(journals / f"mortal-{kills}.jsonl")
        victim = process(target=long_run.append, args=(replace(worker, journal=journal),))
        victim.start()
        victim.join(dice.uniform(0.5, 5))
        if victim.is_alive() and victim.pid is not None:
            os.kill(victim.pid, signal.SIGKILL)
            kills += 1
        victim.join()
    return kills


def _check_outcomes(lines: Mapping[str, list[Line]]) -> None:
    """No read was wrong, no append and no upsert was refused."""
    bad = Counter(
        (line.name, line.outcome)
        for name in lines
        for line in lines[name]
        if line.outcome.startswith(("wrong", "refused"))
    )
    assert not bad


def _check_rows(log: lw.FileStoreTable, keyed: lw.FileStoreTable, lines: Mapping[str, list[Line]]) -> None:
    """Every acknowledged append is there once and whole, and no key is older than what was acknowledged for it."""
    rows = Counter(lw.read_table(log)["token"].to_pylist())
    appends = [line for name in lines for line in lines[name] if line.name == "append"]
    acknowledged = {line.token for line in appends if line.outcome == ACKNOWLEDGED}
    assert [token for token in acknowledged if rows[token] != long_run.ROWS] == [], "lost, or there twice"
    assert [token for token, count in rows.items() if count != long_run.ROWS] == [], "there in part, or twice"
    found = lw.read_table(keyed).to_pydict()
    versions = dict(zip(found["k"], found["version"], strict=True))
    for number in range(2):
        newest = max(int(line.token) for line in lines[f"upserter-{number}"] if line.outcome == ACKNOWLEDGED)
        keys = range(number * long_run.KEYS, (number + 1) * long_run.KEYS)
        assert min(versions[key] for key in keys) >= newest
    assert len(versions) == len(found["k"]) == 2 * long_run.KEYS


def _check_growth(lines: Mapping[str, list[Line]]) -> None:
    for what, more in (
        ("resident", RESIDENT_MORE_MAX),
        ("handles", HANDLES_MORE_MAX),
        ("threads", THREADS_MORE_MAX),
    ):
        for name in lines:
            early, late = long_run.growth(lines[name], what)
            assert late <= early + more, f"{what} of {name} grew from {early:,.0f} to {late:,.0f}"


def _tell(lines: Mapping[str, list[Line]], kills: int) -> None:
    """Print what was done, how long it took early and late, and what processes held."""
    print(f"\n{MINUTES:g} minutes, {kills} kills")
    by_name: dict[str, list[Line]] = defaultdict(list)
    for name in lines:
        for line in lines[name]:
            by_name[line.name].append(line)
    for name, found in by_name.items():
        found.sort(key=lambda line: line.at)
        half = max(len(found) // 2, 1)
        early, late = (statistics.median(line.ms for line in part) for part in (found[:half], found[-half:]))
        outcomes = ", ".join(f"{count} {text[:60]}" for text, count in Counter(x.outcome for x in found).items())
        print(f"  {name}: {outcomes}; median {early:.0f} ms in the first half, {late:.0f} ms in the second")
    for name in lines:
        held = {what: long_run.growth(lines[name], what) for what in ("resident", "handles", "threads")}
        resident = "{:.0f} to {:.0f} MiB".format(*(value / MIB for value in held["resident"]))
        print(f"  {name}: {resident}, files {held['handles']}, threads {held['threads']}")
