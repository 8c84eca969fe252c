"""Changes with a job id are made once, and every later run returns the result of the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from contract.fault_enumerator import stray_files
from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.committer import Committer
from lakewright.dml.delete_update import delete, update
from lakewright.dml.row_changes import UpdateResult
from lakewright.engine.local_engine import LocalEngine
from lakewright.spec.snapshot import Snapshot

SCHEMA = pa.schema({"id": pa.int64(), "n": pa.int64()})
TRACKED = {"row-tracking.enabled": "true", "deletion-vectors.enabled": "true"}
NEW = pa.table({"id": [2, 9], "n": [20, 90]})
Verb = Callable[[lw.FileStoreTable, str], UpdateResult]
VERBS: dict[str, Verb] = {
    "delete": lambda table, job: table.delete("n > 1", job_id=job),
    "update": lambda table, job: table.update({"n": 7}, "id > 1", job_id=job),
    "upsert": lambda table, job: table.upsert(NEW, ["id"], job_id=job),
    "merge": lambda table, job: table.merge(NEW, "id").when_matched_delete().execute(job_id=job),
    "delete by id": lambda table, job: table.delete_by_row_id([0, 1], job_id=job),
    "update by id": lambda table, job: table.update_by_row_id(pa.table({"_ROW_ID": [1], "n": [5]}), job_id=job),
}


def new_table(root: Path, keys: list[str] | None = None) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": str(root)})
    catalog.create_database("d")
    options = {"bucket": "1"} if keys else TRACKED
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(SCHEMA, primary_keys=keys, options=options))
    table = catalog.get_table("d.t")
    lw.write_table(pa.table({"id": [1, 2, 3], "n": [1, 2, 3]}), table)
    return table


CASES = [("append", verb) for verb in VERBS] + [("keyed", verb) for verb in VERBS if "by id" not in verb]


def _counts(result: UpdateResult) -> tuple[object, ...]:
    return (
        result.snapshot_id,
        result.deleted,
        result.updated,
        result.inserted,
        result.method,
        result.files,
        result.bytes,
        result.written,
    )


@pytest.mark.parametrize(("kind", "verb"), CASES)
def test_a_second_run_changes_nothing_and_returns_the_first_result(tmp_path: Path, kind: str, verb: str) -> None:
    table = new_table(tmp_path, ["id"] if kind == "keyed" else None)
    first = VERBS[verb](table, "one")
    lw.write_table(pa.table({"id": [2, 50], "n": [2, 50]}), table)  # work for a run that does not know of the first
    rows, newest = lw.read_table(table), table.store.snapshots.latest_id()
    again = VERBS[verb](table, "one")
    assert _counts(again) == _counts(first)
    assert (first.replayed, again.replayed) == (False, True)
    assert table.store.snapshots.latest_id() == newest
    assert lw.read_table(table).equals(rows)
    if "by id" not in verb:
        assert VERBS[verb](table, "two").snapshot_id == (newest or 0) + 1
    with pytest.raises(lw.InvalidInputError, match="job id"):
        VERBS[verb](table, "")


@pytest.mark.parametrize(("kind", "verb"), CASES)
def test_of_two_runs_at_once_one_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, verb: str) -> None:
    table = new_table(tmp_path, ["id"] if kind == "keyed" else None)
    commit = Committer.commit
    faster: list[UpdateResult] = []

    def overtaken(
        committer: Committer,
        messages: Sequence[CommitMessage],
        *,
        operation: str | None = None,
        properties: dict[str, str] | None = None,
    ) -> Snapshot | None:
        monkeypatch.setattr(Committer, "commit", commit)
        faster.append(VERBS[verb](table, "one"))
        return commit(committer, messages, operation=operation, properties=properties)

    monkeypatch.setattr(Committer, "commit", overtaken)
    slower = VERBS[verb](table, "one")
    assert _counts(slower) == _counts(faster[0])
    assert (faster[0].snapshot_id, slower.replayed) == (2, True)
    assert table.store.snapshots.latest_id() == 2
    assert stray_files(table.store) == set()


def test_a_change_of_nothing_leaves_no_trace(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    assert table.delete("id = 77", job_id="one").is_empty
    assert table.delete("id = 1", job_id="one").deleted == 1


@pytest.mark.parametrize("keys", [None, ["id"]])
@pytest.mark.parametrize("threads", [1, 2])
def test_shares_in_threads_change_the_same_rows(tmp_path: Path, keys: list[str] | None, threads: int) -> None:
    table = new_table(tmp_path, keys)
    lw.write_table(pa.table({"id": [4, 5], "n": [4, 5]}), table)
    engine = LocalEngine(threads)
    assert delete(table.store, "id IN (1, 4)", workers=engine).deleted == 2
    assert update(table.store, {"n": 0}, "id > 2", workers=engine).updated == 2
    with pytest.raises(KeyError, match="nothing"):
        update(table.store, {"n": lambda rows: rows.column("nothing")}, "id > 2", workers=engine)
    assert not stray_files(table.store)
    rows = lw.read_table(table).sort_by("id")
    assert rows.to_pydict() == {"id": [2, 3, 5], "n": [2, 0, 0]}
