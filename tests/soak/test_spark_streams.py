"""Structured Streaming is killed at random moments and restarted; every row is in every table once."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

from support.stream_kills import WAYS, StreamRuns

KILLS = int(os.environ.get("LAKEWRIGHT_STREAM_KILLS", "20"))
FILES = 40 * KILLS
PAIRS = (("append_sink", "keyed_foreach"), ("keyed_sink", "append_foreach"))


def test_streams_are_killed_and_restarted(tmp_path: Path) -> None:
    dice = random.Random(20261115)
    started = time.perf_counter()
    runs = StreamRuns(tmp_path, tuple(WAYS), FILES)
    for number in range(KILLS):
        runs.start(2, PAIRS[number % 2])  # each kill hits an append table and one with keys, in both ways
        runs.kill_at(dice)
    killed = runs.batches()
    runs.drain(files_per_batch=FILES)
    runs.check()
    print(
        f"{KILLS} kills of two queries each, {runs.between} times between our commit and Spark's; "
        f"batches before the last run {killed}, {time.perf_counter() - started:.0f} s"
    )
    assert all(killed.values()), "a query died before it did anything, every time"
    assert runs.between, "no kill came between the two commits, so nothing was replayed"
