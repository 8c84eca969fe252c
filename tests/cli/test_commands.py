from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import lakewright as lw
from lakewright.cli.main import main
from lakewright.spec.snapshot import snapshot_from_json, to_json
from support.command_tables import command_warehouse, ids_of
from support.warm_processes import LOADED


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    return command_warehouse(tmp_path)


# ---- without an engine -----------------------------------------------------------------------------------------------


def test_tables_are_listed(warehouse: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["tables", "--warehouse", warehouse]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:4] for line in lines] == [
        ["table", "primary_keys", "partition_keys", "snapshot"],
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
    monkeypatch.setitem(sys.modules, "rich.console", None)  # as without the package
    assert main(["tables", "-w", warehouse]) == 0
    assert capsys.readouterr().out.split() == nicer.split()


def test_a_table_is_described(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("d.t", f"{warehouse}/d.db/t"):
        assert main(["describe", name, "-w", warehouse, "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert (facts["primary_keys"], facts["snapshot"], facts["options"]) == (["id"], 3, {"bucket": "1"})
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
    assert ids_of(warehouse) == [0, 1, 2, 9]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["describe", "d.nix"], "table d.nix does not exist"),
        (["tables", "nix"], "database nix does not exist"),
        (["ingest", "nix.csv", "--table", "d.t"], "there is no file"),
        (["ingest", "x.csv", "--table", "d.new"], "table d.new does not exist"),
        (["expire", "d.t", "--retain-max", "0"], "retain_max"),
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
    said = capsys.readouterr().err
    assert "--help" in said
    assert said.count("\n") == 1


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

    monkeypatch.setattr(lw.Catalog, "get_table", interrupted)
    assert main(["describe", "d.t", "-w", warehouse]) == 130
    assert capsys.readouterr().err == "lakewright: interrupted\n"


def test_a_signal_to_end_is_an_orderly_end(
    warehouse: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(lw.Catalog, "get_table", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(SystemExit) as ended:
        main(["describe", "d.t", "-w", warehouse])
    assert ended.value.code == 143
    assert capsys.readouterr().err == "lakewright: told to end\n"
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.processes
def test_the_module_runs_like_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "lakewright", "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: lakewright")
    assert "remove-orphans" in done.stdout


# ---- what a shell meets ----------------------------------------------------------------------------------------------


def test_a_missing_warehouse_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["tables"], ["tables", "d"], ["describe", "d.t"], ["expire", "d.t"]):
        assert main([*arguments, "-w", str(tmp_path / "typo")]) == 1
        said = capsys.readouterr()
        assert (said.out, "there is no warehouse" in said.err) == ("", True)
    (tmp_path / "there").mkdir()
    assert main(["tables", "-w", str(tmp_path / "there")]) == 0
    assert "there are no tables" in capsys.readouterr().err


def test_a_table_that_cannot_be_read_does_not_hide_the_others(
    warehouse: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(warehouse, "d.db", "empty", "schema", "schema-0").write_text("{")
    assert main(["tables", "-w", warehouse, "--json"]) == 1
    said = capsys.readouterr()
    rows = {row["table"]: row for row in json.loads(said.out)}
    assert (rows["d.t"]["snapshot"], rows["d.t"]["error"]) == (3, None)
    assert "schema-0" in rows["d.empty"]["error"]
    assert said.err == "lakewright: 1 table of 2 cannot be read; see the column 'error'\n"
    assert main(["tables", "-w", warehouse]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 3


@pytest.mark.parametrize("view", ["files", "snapshots", "schemas", "options", "consumers", "audit_log"])
def test_system_tables_are_described(warehouse: str, capsys: pytest.CaptureFixture[str], view: str) -> None:
    for name in (f"d.t${view}", f"{warehouse}/d.db/t${view}"):
        assert main(["describe", name, "-w", warehouse, "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert (facts["table"], facts["system table of"]) == (f"d.t${view}", "d.t")
        assert facts["columns"]
    assert main(["describe", f"d.t${view}", "-w", warehouse]) == 0
    assert "column" in capsys.readouterr().out
    for command in ("snapshots", "compact", "expire", "remove-orphans"):
        assert main([command, f"d.t${view}", "-w", warehouse]) == 1
        assert "is a system table" in capsys.readouterr().err
    assert main(["describe", "d.t$nix", "-w", warehouse]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_an_unexpected_error_is_one_line_and_debug_shows_where(
    warehouse: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        message = "two\nlines"
        raise RuntimeError(message)

    monkeypatch.setattr(lw.Catalog, "get_table", broken)
    assert main(["describe", "d.t", "-w", warehouse]) == 1
    said = capsys.readouterr().err
    assert said.startswith("lakewright: RuntimeError: two lines")
    assert said.count("\n") == 1
    assert main(["describe", "d.t", "-w", warehouse, "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.processes
def test_a_reader_that_has_closed_the_pipe_is_not_a_failure(warehouse: str) -> None:
    done = LOADED.run(
        "import os, sys\n"
        "from lakewright.cli.main import main\n"
        "nobody_reads, pipe = os.pipe()\n"
        "os.close(nobody_reads)\n"
        "sys.stdout = os.fdopen(pipe, 'w')\n"
        "main()",
        *("describe", "d.t", "-w", warehouse),
    )
    assert (done.code, done.err) == (0, "")


# ---- expiry by age ---------------------------------------------------------------------------------------------------


def _aged(warehouse: str, days: int) -> None:
    """Make all snapshots but the newest look as old as this."""
    for n in (1, 2):
        path = Path(warehouse, "d.db", "t", "snapshot", f"snapshot-{n}")
        snapshot = snapshot_from_json(path.read_text(), path=str(path))
        path.write_text(to_json(replace(snapshot, time_millis=snapshot.time_millis - days * 86_400_000)))


@pytest.mark.parametrize("age", ["7d", "7 days", "168 h"])
def test_only_what_is_older_expires_whatever_the_maximum(
    warehouse: str, capsys: pytest.CaptureFixture[str], age: str
) -> None:
    given = ["expire", "d.t", "-w", warehouse, "--retain-max", "1", "--older-than", age]
    assert main(given) == 0
    assert capsys.readouterr().out == "removed 0 snapshots and 0 files\n"
    _aged(warehouse, 8)
    assert main(given) == 0
    assert capsys.readouterr().out.startswith("removed 1 snapshot (1 to 1) and ")


def test_a_maximum_among_the_options_of_the_table_takes_no_young_snapshot_either(
    warehouse: str, capsys: pytest.CaptureFixture[str]
) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": warehouse})
    limits = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    catalog.alter_table("d.t", [lw.SchemaChange.set_option(key, value) for key, value in limits.items()])
    assert main(["expire", "d.t", "-w", warehouse, "--older-than", "7d"]) == 0
    assert capsys.readouterr().out.startswith("removed 0 snapshots")
    assert main(["expire", "d.t", "-w", warehouse]) == 0
    assert capsys.readouterr().out.startswith("removed 2 snapshots (1 to 2)")


def test_an_iso_time_is_an_age_too(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    _aged(warehouse, 8)
    for when, removed in (("2020-01-01", 0), ((datetime.now(UTC) - timedelta(days=1)).isoformat(), 1)):
        assert main(["expire", "d.t", "-w", warehouse, "--retain-max", "1", "--older-than", when]) == 0
        assert capsys.readouterr().out.startswith(f"removed {removed} snapshot")
    for wrong in ("7", "3000-01-01", "soon"):
        with pytest.raises(SystemExit) as ended:
            main(["expire", "d.t", "-w", warehouse, "--older-than", wrong])
        assert ended.value.code == 2


def test_an_option_of_a_catalog_that_cannot_be_read_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["tables", "--catalog-option", "token:s3cr3t"])
    said = capsys.readouterr().err
    assert "'--catalog-option': what was given is not key=value" in said
    assert "s3cr3t" not in said


def test_without_a_catalog_both_ways_to_name_one_are_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAKEWRIGHT_WAREHOUSE", raising=False)
    assert main(["tables"]) == 1
    assert "no catalog is given: say where the databases are with --warehouse DIR (or $LAKEWRIGHT_WAREHOUSE)" in (
        said := capsys.readouterr().err
    )
    assert "--catalog-option metastore=rest" in said


def test_a_metastore_without_a_warehouse_is_a_catalog(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAKEWRIGHT_WAREHOUSE", raising=False)
    assert main(["tables", "--catalog-option", "metastore=hive"]) == 1
    assert "metastore 'hive' is not supported; use one of filesystem, rest, jdbc" in capsys.readouterr().err
