"""A job id is remembered for as long as the table says, whatever becomes of the snapshot that the job committed."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.commit.committer import Committer
from lakewright.commit.job_ids import JobRun, earlier_of_job, recorded_batch
from lakewright.commit.table_commit import CommitResult
from lakewright.dml.row_changes import UpdateResult
from lakewright.spec.snapshot import SeenSnapshot

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())])


@pytest.fixture(params=[(), ("id",)], ids=["append", "keyed"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    options = {"bucket": "1"} if request.param else {}
    schema = lw.Schema.from_pyarrow_schema(SCHEMA, primary_keys=list(request.param), options=options)
    catalog.create_table("d.t", schema)
    table = catalog.get_table("d.t")
    assert isinstance(table, lw.FileStoreTable)
    return table


def write(table: lw.FileStoreTable, number: int, job_id: str | None = None) -> CommitResult:
    return lw.write_table(pa.table({"id": [number], "v": [number]}, schema=SCHEMA), table, job_id=job_id)


def ids(table: lw.FileStoreTable) -> list[int]:
    return sorted(lw.read_table(table)["id"].to_pylist())


def expire(table: lw.FileStoreTable) -> None:
    for number in (101, 102, 103):
        write(table, number)
    table.expire_snapshots(retain_max=1, retain_min=1)


def test_a_job_whose_snapshot_expired_is_replayed(table: lw.FileStoreTable) -> None:
    first = write(table, 1, "monday")
    expire(table)
    again = write(table, 1, "monday")
    assert (again.replayed, again.snapshot_id, again.rows) == (True, first.snapshot_id, 1)
    assert ids(table) == [1, 101, 102, 103]
    assert write(table, 2, "tuesday").replayed is False


@pytest.mark.parametrize("verb", ["delete", "update"])
def test_a_change_of_rows_whose_snapshot_expired_is_replayed(table: lw.FileStoreTable, verb: str) -> None:
    for number in (1, 2):
        write(table, number)

    def change() -> UpdateResult:
        return table.delete("id = 1", job_id="j") if verb == "delete" else table.update({"v": 9}, "id = 1", job_id="j")

    first = change()
    expire(table)
    write(table, 1)
    rows = lw.read_table(table).sort_by("id").to_pylist()
    again = change()
    assert (again.replayed, again.snapshot_id, again.deleted) == (True, first.snapshot_id, first.deleted)
    assert lw.read_table(table).sort_by("id").to_pylist() == rows


def test_a_job_that_was_begun_and_not_committed_can_run_after_an_expiry(table: lw.FileStoreTable) -> None:
    write(table, 0)
    JobRun.begin(table.store, "monday").committer(table.store)  # the process dies
    expire(table)
    assert write(table, 1, "monday").replayed is False
    assert write(table, 1, "monday").replayed is True


def test_a_job_that_died_after_its_commit_is_recorded_by_the_expiry(
    table: lw.FileStoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patch:
        patch.setattr("lakewright.metadata.job_records.JobRecords.complete", fail)
        first = write(table, 1, "monday")
    expire(table)
    assert write(table, 1, "monday").snapshot_id == first.snapshot_id
    assert ids(table) == [1, 101, 102, 103]


def test_a_job_is_unknown_where_others_expired_its_snapshots(table: lw.FileStoreTable) -> None:
    write(table, 0)
    JobRun.begin(table.store, "monday").committer(table.store)
    for number in (1, 2):
        write(table, number)
    for snapshot_id in (1, 2):  # by another implementation, which does not know the records
        table.store.storage.delete(table.store.layout.snapshot_file(snapshot_id))
    with pytest.raises(lw.CommitUnknownError, match=r"the job 'monday' committed.*have expired.*another job id"):
        write(table, 1, "monday")
    assert ids(table) == [0, 1, 2]


def test_a_long_run_commits_although_the_snapshot_that_it_began_on_expired(table: lw.FileStoreTable) -> None:
    write(table, 0)
    builder = table.new_batch_write_builder().with_job(JobRun.begin(table.store, "monday"))
    commit = builder.new_commit()
    expire(table)
    messages = builder.new_write().write_arrow(pa.table({"id": [7], "v": [7]}, schema=SCHEMA)).prepare_commit()
    commit.commit(messages)
    assert write(table, 7, "monday").replayed is True
    assert ids(table) == [0, 7, 101, 102, 103]


@pytest.mark.parametrize("expires", [False, True])
def test_a_job_that_was_rolled_back_runs_again(table: lw.FileStoreTable, *, expires: bool) -> None:
    write(table, 0)
    write(table, 1, "monday")
    table.rollback_to(1)
    if expires:
        expire(table)
    assert write(table, 1, "monday").replayed is False
    assert write(table, 1, "monday").replayed is True
    assert ids(table) == sorted([0, 1, *((101, 102, 103) if expires else ())])


def test_the_option_says_how_long_a_job_id_is_remembered(
    table: lw.FileStoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(table, 1, "monday")
    write(table, 2, "tuesday")
    expire(table)
    short = table.copy({"lakewright.job-id.retention": "2 d"})
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 3 * 24 * 3600 * 10**9)
    assert write(table, 1, "monday").replayed is True  # 90 days
    assert write(short, 1, "monday").replayed is False
    directory = table.store.layout.job_directory
    assert len(list(table.store.storage.names(directory))) == 2
    expire(short)
    assert list(table.store.storage.names(directory)) == []


def test_records_are_no_orphans_and_go_with_a_purge(table: lw.FileStoreTable) -> None:
    write(table, 1, "monday")
    JobRun.begin(table.store, "tuesday").committer(table.store)
    directory = table.store.layout.job_directory
    names = set(table.store.storage.names(directory))
    assert {name.partition("-")[0] for name in names} == {"begun", "done"}
    assert table.verify(snapshots="all").is_sound
    assert set(table.store.storage.names(directory)) == names
    table.purge_files()
    assert list(table.store.storage.names(directory)) == []
    assert write(table, 1, "monday").replayed is False


def test_a_look_writes_nothing(table: lw.FileStoreTable) -> None:
    assert earlier_of_job(table.store, "monday") is None
    assert list(table.store.storage.names(table.store.layout.job_directory)) == []


@pytest.mark.parametrize("is_killed", [False, True], ids=["", "the driver dies before it records the batch"])
def test_a_batch_of_a_stream_whose_snapshot_expired_is_recorded(table: lw.FileStoreTable, is_killed: bool) -> None:
    store = table.store
    since = SeenSnapshot.of(store.snapshots.latest())
    messages = (
        table.new_batch_write_builder()
        .new_write()
        .write_arrow(pa.table({"id": [1], "v": [1]}, schema=SCHEMA))
        .prepare_commit()
    )
    Committer(store, commit_user="stream/1", once_since=since).commit(messages, 7)
    for name in store.storage.names(store.layout.job_directory) if is_killed else ():
        store.storage.delete(f"{store.layout.job_directory}/{name}")
    expire(table)
    assert store.snapshots.of_user("stream/1") is None
    found = recorded_batch(store, "stream/1", 7)
    assert found is not None
    assert found.commit_identifier == 7
    assert recorded_batch(store, "stream/1", 8) is None


def test_a_job_that_another_implementation_rolled_back_runs_again(table: lw.FileStoreTable) -> None:
    write(table, 0)
    write(table, 1, "monday")
    directory = Path(table.store.layout.snapshot_directory)  # others know nothing of the records of jobs
    (directory / "snapshot-2").unlink()
    (directory / "LATEST").write_text("1")
    write(table, 2)  # takes the id of the snapshot that was removed
    assert write(table, 1, "monday").replayed is False
    assert ids(table) == [0, 1, 2]


@pytest.mark.parametrize("expires", [False, True])
def test_a_job_whose_rows_a_forward_brought_back_is_not_run_twice(table: lw.FileStoreTable, expires: bool) -> None:
    write(table, 1)
    write(table, 2, "monday")
    write(table, 3)
    table.create_branch("b", snapshot_id=3)  # begins after the snapshot of the job
    table.rollback_to(1)
    table.fast_forward("b", allow_loss=True)
    if expires:
        expire(table)
    with pytest.raises(lw.CommitUnknownError, match="'monday'"):
        write(table, 2, "monday")
    assert ids(table)[:3] == [1, 2, 3]


def test_a_job_whose_rows_a_forward_removed_is_not_taken_for_done(table: lw.FileStoreTable) -> None:
    write(table, 1)
    table.create_branch("b", snapshot_id=1)
    warehouse = Path(table.table_path).parents[1]
    other = lw.CatalogFactory.create({"warehouse": warehouse}).get_table("d.t$branch_b")
    assert isinstance(other, lw.FileStoreTable)
    for number in (11, 12, 13):
        write(other, number)
    other.expire_snapshots(retain_max=1, retain_min=1)
    write(table, 2, "monday")
    table.fast_forward("b", allow_loss=True)
    with pytest.raises(lw.CommitUnknownError, match="'monday'"):
        write(table, 2, "monday")
    assert ids(table) == [1, 11, 12, 13]
