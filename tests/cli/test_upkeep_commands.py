"""Every verb of upkeep has a command, and a procedure where Java has one; what the commands of lifecycle do and say."""

from __future__ import annotations

import inspect
import io
import json
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.cli import cli_output
from lakewright.cli.cli_options import ENTRIES
from lakewright.cli.main import main
from lakewright.statements.call_statement import PROCEDURES
from lakewright.table.file_store_table import FileStoreTable
from support.command_tables import command_warehouse, ids_of

# Each verb of a table that keeps it in order: its command, and the procedures that do the same.
VERBS = {
    "compact": ("compact", ["compact", "compact_database"]),
    "compact_manifests": ("compact-manifests", ["compact_manifest"]),
    "materialize_deletion_vectors": ("materialize-deletion-vectors", ["materialize_deletion_vectors"]),
    "rescale": ("rescale", ["rescale"]),
    "expire_snapshots": ("expire", ["expire_snapshots"]),
    "expire_changelogs": ("expire-changelogs", ["expire_changelogs"]),
    "expire_partitions": ("expire-partitions", ["expire_partitions"]),
    "expire_tags": ("expire-tags", ["expire_tags"]),
    "create_due_tags": ("create-tags", ["trigger_tag_automatic_creation"]),
    "mark_partition_done": ("mark-done", ["mark_partition_done"]),
    "purge_files": ("purge", ["purge_files"]),
    "remove_orphan_files": ("remove-orphans", ["remove_orphan_files"]),
    "remove_unexisting_files": ("remove-unexisting", ["remove_unexisting_files"]),
    "analyze": ("analyze", []),
    "repair": ("repair", []),
    "report": ("report", []),
    "verify": ("verify", []),
}
# Verbs that write and change rows, that only look, or that open builders.
OTHERS = {
    *("copy", "refreshed", "snapshot", "comment", "row_type", "merge", "delete", "update", "upsert"),
    *("list_consumers", "reset_consumer", "clear_consumers", "expire_consumers"),
    "drop_global_index",
    *("rollback_to_watermark", "rollback_to_as_latest"),
    *("delete_by_row_id", "update_by_row_id", "statistics", "list_tags", "list_branches"),
    *("create_tag", "replace_tag", "rename_tag", "delete_tag"),
    *("create_branch", "rename_branch", "drop_branch", "fast_forward", "rollback_to", "rollback_to_timestamp"),
}


def test_every_verb_of_upkeep_has_a_command_and_a_procedure() -> None:
    methods = [name for name, _ in inspect.getmembers(FileStoreTable, inspect.isfunction) if not name.startswith("_")]
    assert {name for name in methods if not name.startswith("new_")} == VERBS.keys() | OTHERS
    commands = ENTRIES.keys()
    for verb, (command, procedures) in VERBS.items():
        assert command in commands, verb
        assert set(procedures) <= PROCEDURES.keys(), verb


def test_verbs_that_can_only_look_can_do_so_as_commands(capsys: pytest.CaptureFixture[str]) -> None:
    for verb, (command, _) in VERBS.items():
        with pytest.raises(SystemExit):
            main([command, "--help"])
        shown = capsys.readouterr().out
        assert "--json" in shown
        can_look = "dry_run" in inspect.signature(getattr(FileStoreTable, verb)).parameters
        assert ("--dry-run" in shown) == can_look, command


def test_a_table_is_analyzed_without_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lw.create_table_from({"id": [1, 2]}, "d.t", catalog=str(tmp_path))
    assert main(["analyze", "d.t", "--warehouse", str(tmp_path)]) == 0
    assert "snapshot 2: 2 rows" in capsys.readouterr().out


# ---- the lifecycle ---------------------------------------------------------------------------------------------------


@pytest.fixture
def days(tmp_path: Path) -> str:
    """Make `d.days`, with a partition of 2020 and one of 2999, and tags by day; return its warehouse."""
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path / "w")})
    catalog.create_database("d")
    columns = pa.schema({"day": pa.string(), "id": pa.int64()})
    options = {"tag.automatic-creation": "batch"}
    catalog.create_table("d.days", lw.Schema.from_pyarrow_schema(columns, partition_keys=["day"], options=options))
    lw.write_table(pa.table({"day": ["2020-01-01", "2999-01-01"], "id": [1, 2]}), catalog.get_table("d.days"))
    return str(tmp_path / "w")


def _json_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    """Run a command, and return its result."""
    assert main([*arguments, "--json", "--quiet"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    parsed = json.loads(said.out)
    assert isinstance(parsed, dict)
    return parsed


def test_a_partition_lives_and_goes(days: str, capsys: pytest.CaptureFixture[str]) -> None:
    marked = _json_of(capsys, "mark-done", "d.days", "-w", days, "--partition-spec", "day=2999-01-01")
    assert marked == {"partitions": [{"day": "2999-01-01"}]}
    assert Path(days, "d.db", "days", "day=2999-01-01", "_SUCCESS").is_file()
    expire = ("expire-partitions", "d.days", "-w", days, "--expiration-time", "30 d")
    for more, rows in (("--dry-run", [1, 2]), ("--quiet", [2])):
        assert _json_of(capsys, *expire, more)["partitions"] == [{"day": "2020-01-01"}]
        assert ids_of(days, "d.days") == rows


def test_tags_by_the_options_are_created_and_expire(days: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = lw.CatalogFactory.create({"warehouse": days}).get_table("d.days")
    for name in table.list_tags():
        table.delete_tag(name)
    (name,) = _json_of(capsys, "create-tags", "d.days", "-w", days)["tags"]  # type: ignore[misc]
    assert table.list_tags() == [name]
    table.create_tag("short", time_retained="1 ms")
    time.sleep(0.01)
    for more, left in (("--dry-run", [name, "short"]), ("--quiet", [name])):
        assert _json_of(capsys, "expire-tags", "d.days", "-w", days, more)["tags"] == ["short"]
        assert table.list_tags() == left


def test_buckets_and_changelogs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    warehouse = command_warehouse(tmp_path)
    assert _json_of(capsys, "rescale", "d.t", "2", "-w", warehouse)["rows"] == 4
    assert lw.CatalogFactory.create({"warehouse": warehouse}).get_table("d.t").options.bucket() == 2
    assert ids_of(warehouse) == [0, 1, 2, 9]
    assert main(["rescale", "d.t", "0", "-w", warehouse]) == 1
    assert "buckets" in capsys.readouterr().err
    assert main(["expire-changelogs", "d.t", "-w", warehouse, "--all"]) == 0
    assert capsys.readouterr().out == "removed 0 changelogs and 0 files\n"
    expired = _json_of(capsys, "expire", "d.t", "-w", warehouse, "--retain-max", "1", "--max-deletes", "1")
    assert (expired["snapshot_ids"], expired["left"]) == ([1], 2)


def test_a_purge_needs_the_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    warehouse = command_warehouse(tmp_path)
    assert main(["purge", "d.t", "-w", warehouse]) == 0
    assert capsys.readouterr().out.startswith("would remove (--delete does) all rows with 3 snapshots")
    assert ids_of(warehouse) == [0, 1, 2, 9]
    assert main(["purge", "d.t", "-w", warehouse, "--delete"]) == 0
    assert ids_of(warehouse) == []
    with pytest.raises(SystemExit) as ended:
        main(["purge", "d.t", "-w", warehouse, "--delete", "--dry-run"])
    assert ended.value.code == 2


# ---- what a terminal shows -------------------------------------------------------------------------------------------


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_only_a_terminal_sees_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_output, "_TICK_SECONDS", 0.001)

    def shown(stream: io.StringIO, *, quiet: bool = False) -> str:
        monkeypatch.setattr(sys, "stderr", stream)
        with cli_output.CommandOutput(quiet=quiet).progress("reading") as say:
            time.sleep(0.05)
            say("checked 7 files")
            time.sleep(0.05)
        return stream.getvalue()

    assert shown(io.StringIO()) == shown(_Terminal(), quiet=True) == ""
    lines = shown(_Terminal()).split("\r")
    assert lines[1] == "\x1b[Kreading (0 s)"
    assert lines[-2] == "\x1b[Kchecked 7 files (0 s)"
    assert lines[-1] == "\x1b[K"
