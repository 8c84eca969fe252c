"""Spark with two workers on tables of a REST server, whose data tokens expire several times while the jobs run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyspark

from support.data_tokens import running_token_server

LIFE_SECONDS = 6.0
LIVES = 3
MASTER = "local-cluster[2,1,640]"
_WORK = Path(pyspark.__file__).parent / "work"  # where a local cluster leaves the logs of its executors


def test_two_workers_over_three_lives(tmp_path: Path) -> None:
    works = set(_WORK.glob("app-*"))
    with running_token_server(LIFE_SECONDS) as (server, _, sessions):
        said = {
            "master": MASTER,
            "options": server.options,
            "seconds": LIVES * LIFE_SECONDS,
            "source": str(tmp_path / "source"),
        }
        done = subprocess.run(
            [sys.executable, "-m", "support.token_program"],
            input=json.dumps(said).encode(),
            capture_output=True,
            check=False,
            timeout=900,
            cwd=Path(__file__).parent.parent,
        )
        for work in set(_WORK.glob("app-*")) - works:
            shutil.rmtree(work, ignore_errors=True)
        assert done.returncode == 0, done.stderr[-4000:].decode(errors="replace")
        facts = json.loads(done.stdout.splitlines()[-1])
        rounds = facts["rounds"]
        assert facts["counts"] == [rounds * 2000 + 100, 2000 - (rounds - 1)]
        assert sessions.refusals == []
        assert sessions.most_calls_per_life() == 1
        processes = {call.process for call in sessions.calls}
        assert len(processes) >= 3, "the driver and the workers of two executors"
        assert sum("/v1/config" in entry.request for entry in server.log) == 1
        calls = Counter(call.scope for call in sessions.calls)
        print(f"{facts['seconds']:.0f} s, {rounds} rounds, {len(processes)} processes, calls by table {dict(calls)}")
