"""`lakewright branch`, `tag`, `rollback` and `consumer` on a table."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.cli.main import main
from support.command_tables import code_of


def test_history_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64()})))
    table = catalog.get_table("d.t")

    def write(*numbers: int) -> None:
        for n in numbers:
            lw.write_table(pa.table({"n": [n]}), table)

    def run(command: str, *words: str) -> object:
        assert main([command, "d.t", *words, "--json", "-w", str(tmp_path)]) == 0, words
        return json.loads(capsys.readouterr().out)

    write(1, 2, 3)
    run("tag", "create", "v1", "--snapshot", "1")
    run("tag", "create", "late")
    run("tag", "rename", "late", "later")
    tags = run("tag")
    assert isinstance(tags, list)
    assert [(row["tag"], row["snapshot"]) for row in tags] == [("later", 3), ("v1", 1)]
    run("tag", "alter", "later", "--retain", "7d")
    later = run("tag", "describe", "later")
    assert isinstance(later, dict)
    assert (later["snapshot"], later["records"], later["retained"]) == (3, 3, "7 days, 0:00:00")
    run("tag", "alter", "later", "--snapshot", "2")
    assert table.store.tags.get("later").snapshot.id == 2
    run("tag", "alter", "later", "--snapshot", "3")
    run("branch", "create", "a", "--snapshot", "2")
    branch = run("branch", "describe", "a")
    assert isinstance(branch, dict)
    assert (branch["table"], branch["snapshot"]) == ("d.t$branch_a", 2)
    run("branch", "create", "b", "--tag", "v1")
    run("branch", "rename", "b", "c")
    run("branch", "drop", "c")
    assert run("branch") == [{"branch": "a"}]
    plan = run("rollback", "2", "--dry-run")
    assert plan == {"snapshot_id": 2, "snapshot_ids": [3], "tags": ["later"], "dry_run": True}
    assert table.store.snapshots.ids() == [1, 2, 3]
    run("rollback", "2", "--yes")
    assert (table.store.snapshots.ids(), table.list_tags()) == ([1, 2], ["v1"])
    assert run("rollback", "v1", "--as-latest") == {"snapshot_id": 3}
    assert lw.read_table(table)["n"].to_pylist() == [1]
    plan = run("branch", "fast-forward", "a", "--dry-run")
    assert isinstance(plan, dict)
    assert (plan["lost_snapshot_ids"], plan["has_loss"], plan["dry_run"]) == ([3], True, True)
    assert code_of(["branch", "fast-forward", "d.t", "a", "-w", str(tmp_path)]) == 1  # nobody answers
    assert lw.read_table(table)["n"].to_pylist() == [1]
    forwarded = run("branch", "fast-forward", "a", "--yes")
    assert isinstance(forwarded, dict)
    assert (forwarded["snapshot_ids"], forwarded["dry_run"]) == ([3], False)
    assert lw.read_table(table)["n"].to_pylist() == [1, 2]
    run("consumer", "reset", "me", "--next", "2")
    assert run("consumer") == [{"consumer": "me", "next_snapshot": 2}]
    assert run("consumer", "clear", "m.*") == {"cleared": ["me"]}
    for wrong in (
        ["branch", "d.t", "drop"],
        ["rollback", "d.t"],
        ["rollback", "d.t", "9"],
        ["tag", "d.t", "rename", "v1"],
    ):
        assert code_of([*wrong, "-w", str(tmp_path)]) == (1 if "9" in wrong else 2)
