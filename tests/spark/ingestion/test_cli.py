from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakewright as lw
from lakewright.cli.main import main
from support.command_tables import command_warehouse, ids_of

# The commit is where this program dies: all data files are written, nothing is visible.
_DIES_BEFORE_THE_COMMIT = """
import os, signal, sys
from lakewright.cli.main import main
from lakewright.dml import distributed_write as write
write._commit = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    return command_warehouse(tmp_path)


@pytest.mark.usefixtures("spark")
def test_a_dry_run_shows_the_plan_and_changes_nothing(
    warehouse: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("ID,n\n1,1\n")
    given = ["ingest", str(tmp_path / "a.csv"), "--table", "new.t", "-w", warehouse, "--dry-run", "--engine", "spark"]
    assert main([*given, "--create", "--rename", "ID=id", "--primary-key", "id", "--option", "bucket=1"]) == 0
    said = capsys.readouterr()
    assert said.out == "nothing was written: this was a dry run\n"
    assert said.err.splitlines()[0] == "append to new.t (new) primary key (id)"
    assert "  renamed  id: was 'ID'" in said.err.splitlines()
    assert lw.CatalogFactory.create({"warehouse": warehouse}).list_databases() == ["d"]


def test_rows_are_ingested_and_the_session_stays(
    spark: SparkSession, warehouse: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 7, "n": 1}\n{"id": 8}\n')
    given = [
        "ingest",
        str(tmp_path / "a.jsonl"),
        "--table",
        "d.t",
        "-w",
        warehouse,
        "--mode",
        "upsert",
        "--engine",
        "spark",
    ]
    assert main([*given, "--quiet", "--json"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    result = json.loads(said.out)
    assert (result["snapshot_id"], result["rows"], result["files"], result["replayed"]) == (4, 2, 1, False)
    assert ids_of(warehouse) == [0, 1, 2, 7, 8, 9]
    assert spark.range(1).count() == 1


@pytest.mark.nightly
@pytest.mark.usefixtures("spark")
def test_a_job_that_was_killed_before_its_commit_commits_once(
    warehouse: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("id,n\n" + "".join(f"{n},{n}\n" for n in range(100)))
    given = ["ingest", str(tmp_path / "a.csv"), "--table", "d.empty", "-w", warehouse, "--job-id", "j"]
    child = [sys.executable, "-c", _DIES_BEFORE_THE_COMMIT, *given, "--master", "local[1]", "--memory", "512m"]
    done = subprocess.run(child, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == -9, done.stderr[-2000:]
    data = Path(warehouse, "d.db", "empty")
    assert len(list(data.rglob("data-*.parquet"))) == 1
    assert lw.open_table(str(data)).snapshot() is None

    assert main(given) == 0
    assert "snapshot 1: 100 rows in 1 file" in capsys.readouterr().out
    (tmp_path / "a.csv").unlink()
    assert main(given) == 0
    assert capsys.readouterr().out == "job 'j' was committed before as snapshot 1: nothing was written\n"
    assert ids_of(warehouse, "d.empty") == list(range(100))
    assert main(["remove-orphans", "d.empty", "-w", warehouse, "--older-than", "0 ms", "--delete"]) == 0
    assert capsys.readouterr().out.startswith("removed 1 file ")
    assert len(list(data.rglob("data-*.parquet"))) == 1
