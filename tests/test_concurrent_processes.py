"""Processes append at once, eight of them at night: every commit is acknowledged, visible, and there once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import lakewright as lw
from contract.append_history import ACKNOWLEDGED, UNKNOWN, Event, check_history, load_events, run_appends
from support.append_races import race_appends, token_table
from support.s3 import S3Server


@pytest.mark.processes
def test_commits_of_processes_are_all_there_once_on_a_local_disk(tmp_path: Path) -> None:
    race_appends(lw.CatalogFactory.create({"warehouse": str(tmp_path / "warehouse")}), tmp_path)


@pytest.mark.processes
@pytest.mark.nightly
def test_commits_of_processes_are_all_there_once_on_s3(tmp_path: Path, s3_server: S3Server) -> None:
    options = {**s3_server.options, "warehouse": f"s3://{s3_server.make_bucket()}/race"}
    race_appends(lw.CatalogFactory.create(options), tmp_path)


def test_the_checker_notices_a_lost_a_doubled_and_a_misread_commit(tmp_path: Path) -> None:
    table = token_table(lw.CatalogFactory.create({"warehouse": str(tmp_path)}))
    log = tmp_path / "0.log"
    run_appends(table, str(log), 0, 3)
    events = load_events([log])
    assert [event.kind for event in events] == ["append", "read"] * 3
    assert check_history(table, events) == []
    other = Event(1, "append", "1/0", 3, ACKNOWLEDGED, 9)
    lost = [*events, other]
    assert check_history(table, lost) == ["1/0 was acknowledged and has 0 rows"]
    misread = "process 0 read something else than snapshot 2"
    early = [replace(event, snapshot_id=2) if event.snapshot_id == 3 else event for event in events]
    assert misread in check_history(table, early)
    doubtful = [*early, replace(other, outcome=UNKNOWN)]
    assert check_history(table, doubtful) == [misread]
    run_appends(table, str(log), 0, 1)
    assert "0/0 was acknowledged and has 6 rows" in check_history(table, events)
