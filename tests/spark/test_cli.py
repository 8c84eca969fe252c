from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakewright as lw
from lakewright.cli import output
from lakewright.cli.main import main

# The commit is where this program dies: all data files are written, nothing is visible.
_DIES_BEFORE_THE_COMMIT = """
import os, signal, sys
from lakewright.cli.main import main
from lakewright import distributed
distributed._commit = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path / "w")})
    catalog.create_database("d")
    fields = [lw.DataField(0, "id", lw.AtomicType("BIGINT")), lw.DataField(1, "n", lw.AtomicType("INT"))]
    catalog.create_table("d.t", lw.Schema(fields, primary_keys=["id"], options={"bucket": "1"}))
    catalog.create_table("d.empty", lw.Schema(fields))
    for n in range(3):
        lw.write_table(pa.table({"id": [n, 9], "n": pa.array([n, n], pa.int32())}), catalog.get_table("d.t"))
    return str(tmp_path / "w")


def _ids(warehouse: str, name: str = "d.t") -> list[int]:
    rows = lw.read_table(lw.CatalogFactory.create({"warehouse": warehouse}).get_table(name))
    return sorted(row["id"] for row in rows.to_pylist())


# ---- without an engine -----------------------------------------------------------------------------------------------


def test_tables_are_listed(warehouse: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["tables", "--warehouse", warehouse]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:4] for line in lines] == [
        ["table", "primary_key", "partitions", "snapshot"],
        ["d.empty", "-", "-", "-"],
        ["d.t", "id", "-", "3"],
    ]
    monkeypatch.setenv("LAKEWRIGHT_WAREHOUSE", warehouse)
    assert main(["tables", "d", "--json"]) == 0
    assert [row["table"] for row in json.loads(capsys.readouterr().out)] == ["d.empty", "d.t"]


def test_tables_look_better_with_rich(
    warehouse: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")  # no colours
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["tables", "-w", warehouse]) == 0
    nicer = capsys.readouterr().out
    monkeypatch.setattr(output, "Console", None)  # as without the extra
    assert main(["tables", "-w", warehouse]) == 0
    assert capsys.readouterr().out.split() == nicer.split()


def test_a_table_is_described(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("d.t", f"{warehouse}/d.db/t"):
        assert main(["describe", name, "-w", warehouse, "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert (facts["primary_key"], facts["snapshot"], facts["options"]) == (["id"], 3, {"bucket": "1"})
        assert [c["type"] for c in facts["columns"]] == ["BIGINT NOT NULL", "INT"]
    assert main(["describe", "d.t", "-w", warehouse]) == 0
    assert "id      BIGINT NOT NULL" in capsys.readouterr().out


def test_snapshots_are_listed_newest_first(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snapshots", "d.t", "-w", warehouse, "-n", "2", "--json"]) == 0
    assert [(row["snapshot"], row["kind"]) for row in json.loads(capsys.readouterr().out)] == [
        (3, "APPEND"),
        (2, "APPEND"),
    ]
    assert main(["snapshots", "d.empty", "-w", warehouse]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "d.empty has no snapshot: nothing was written yet\n")


def test_a_table_is_kept_healthy(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    stray = Path(warehouse, "d.db", "t", "bucket-0", "data-11111111-1111-1111-1111-111111111111-0.parquet")
    stray.write_bytes(b"left behind")
    assert main(["compact", "d.t", "-w", warehouse, "--full"]) == 0
    assert "snapshot 4: 3 files became 1" in capsys.readouterr().out
    assert main(["expire", "d.t", "-w", warehouse, "--retain-max", "1", "--retain-min", "1", "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("would remove 3 snapshots (1 to 3)")
    assert main(["expire", "d.t", "-w", warehouse, "--retain-max", "1", "--retain-min", "1"]) == 0
    assert capsys.readouterr().out.startswith("removed 3 snapshots")
    for more, verb in (([], "found"), (["--delete"], "removed")):
        assert main(["remove-orphans", "d.t", "-w", warehouse, "--older-than", "0 ms", *more]) == 0
        said = capsys.readouterr()
        assert said.out.startswith(verb)
        assert stray.name in said.err
        assert stray.exists() == (verb == "found")
    assert _ids(warehouse) == [0, 1, 2, 9]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["describe", "d.nix"], "there is no table d.nix"),
        (["tables", "nix"], "there is no database nix"),
        (["ingest", "nix.csv", "--table", "d.t"], "there is no file"),
        (["ingest", "x.csv", "--table", "d.new"], "there is no table d.new"),
        (["expire", "d.t", "--retain-max", "0"], "at least one must stay"),
    ],
)
def test_what_is_refused_is_said_on_stderr(
    warehouse: str, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main([*arguments, "--warehouse", warehouse]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("lakewright: ")
    assert message in said.err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nix"],
        ["ingest", "x.csv"],
        ["ingest", "x.csv", "--table", "d.t", "--mode", "nix"],
        ["ingest", "x.csv", "--table", "d.t", "--option", "nix"],
        ["ingest", "x.csv", "--table", "d.t", "--primary-key", "a,"],
        ["expire", "d.t", "--older-than", "nix"],
    ],
)
def test_calls_that_are_not_understood_end_with_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: lakewright" in capsys.readouterr().err


def test_a_name_needs_a_warehouse(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKEWRIGHT_WAREHOUSE", raising=False)
    assert main(["describe", "d.t"]) == 1
    assert "--warehouse" in capsys.readouterr().err
    assert main(["ingest", "x.csv", "--table", "d.t"]) == 1
    assert "--warehouse" in capsys.readouterr().err


def test_ctrl_c_ends_with_130(
    warehouse: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(lw.FileSystemCatalog, "get_table", interrupted)
    assert main(["describe", "d.t", "-w", warehouse]) == 130
    assert capsys.readouterr().err == "lakewright: interrupted\n"


def test_a_signal_to_end_is_an_orderly_end(
    warehouse: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(lw.FileSystemCatalog, "get_table", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(SystemExit) as ended:
        main(["describe", "d.t", "-w", warehouse])
    assert ended.value.code == 143
    assert capsys.readouterr().err == "lakewright: told to end\n"
    assert signal.getsignal(signal.SIGTERM) is before


def test_without_pyspark_the_way_to_it_is_shown(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None; from lakewright.cli.main import main; "
        "print(main(['ingest', 'x.csv', '--table', 'd.t', '-w', sys.argv[1]]), main(['tables', '-w', sys.argv[1]]))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout == "1 0\n"
    assert "pip install 'lakewright[spark]'" in done.stderr


def test_the_module_runs_like_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "lakewright", "--help"], capture_output=True, text=True, check=True)
    assert "usage: lakewright" in done.stdout
    assert "remove-orphans" in done.stdout


# ---- on Spark --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("spark")
def test_a_dry_run_shows_the_plan_and_changes_nothing(
    warehouse: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("ID,n\n1,1\n")
    given = ["ingest", str(tmp_path / "a.csv"), "--table", "new.t", "-w", warehouse, "--dry-run"]
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
    given = ["ingest", str(tmp_path / "a.jsonl"), "--table", "d.t", "-w", warehouse, "--mode", "upsert"]
    assert main([*given, "--quiet", "--json"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    result = json.loads(said.out)
    assert (result["snapshot_id"], result["rows"], result["files"], result["replayed"]) == (4, 2, 1, False)
    assert _ids(warehouse) == [0, 1, 2, 7, 8, 9]
    assert spark.range(1).count() == 1


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
    assert _ids(warehouse, "d.empty") == list(range(100))
    assert main(["remove-orphans", "d.empty", "-w", warehouse, "--older-than", "0 ms", "--delete"]) == 0
    assert capsys.readouterr().out.startswith("removed 1 files")
    assert len(list(data.rglob("data-*.parquet"))) == 1
