"""What follows a commit where the options of a table ask for it, and the verbs about data that grows old."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.cli.main import main
from lakewright.errors import (
    CatalogServerError,
    InvalidInputError,
    LakewrightError,
    LakewrightWarning,
    UnsupportedError,
)
from lakewright.maintenance import Upkeep
from lakewright.maintenance.orphan_files import DAY_MILLIS
from lakewright.spec.java_time_format import read_time
from lakewright.spec.snapshot import to_json
from lakewright.table.file_store_table import FileStoreTable
from support.scripted_http import Answer, scripted

COLUMNS = pa.schema({"day": pa.string(), "n": pa.int64()})


AT_ONCE = {"lakewright.expire.grace": "0 s"}


def make(tmp_path: Path, options: Mapping[str, str] | None = None) -> FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d", ignore_if_exists=True)
    schema = lw.Schema.from_pyarrow_schema(COLUMNS, partition_keys=["day"], options=dict(options or {}))
    catalog.create_table("d.t", schema, ignore_if_exists=False)
    table = catalog.get_table("d.t")
    assert isinstance(table, FileStoreTable)
    return table


def append(table: FileStoreTable, day: str = "2020-01-01", n: int = 1) -> None:
    lw.write_table(pa.table({"day": [day], "n": [n]}), table)


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({}, 6),
        ({"snapshot.num-retained.max": "2"}, 6),  # all are younger than the grace
        ({"snapshot.num-retained.min": "1", "snapshot.time-retained": "1 ms"}, 6),
        ({"snapshot.num-retained.max": "2", **AT_ONCE}, 2),
        ({"snapshot.num-retained.min": "3", "snapshot.num-retained.max": "4", **AT_ONCE}, 4),
        ({"snapshot.num-retained.max": "2", "write-only": "true", **AT_ONCE}, 6),
    ],
)
def test_snapshots_expire_after_commits_that_ask_for_it(tmp_path: Path, options: dict[str, str], left: int) -> None:
    table = make(tmp_path, options)
    for number in range(6):
        append(table, n=number)
    assert len(table.store.snapshots.ids()) == left
    assert sorted(lw.read_table(table)["n"].to_pylist()) == list(range(6))


def test_snapshots_expire_after_commits_once_they_are_older_than_the_grace(tmp_path: Path) -> None:
    table = make(tmp_path, {"snapshot.num-retained.max": "2", "lakewright.expire.grace": "30 min"})
    for number in range(6):
        append(table, n=number)
    snapshots = table.store.snapshots
    for snapshot_id in (1, 2, 3):  # written an hour ago
        aged = replace(snapshots.get(snapshot_id), time_millis=int(time.time() * 1000) - 3_600_000)
        table.store.storage.replace(table.store.layout.snapshot_file(snapshot_id), to_json(aged).encode())
    append(table, n=6)
    assert snapshots.ids() == [4, 5, 6, 7]
    table.expire_snapshots()  # obeys what it is asked for
    assert snapshots.ids() == [6, 7]


def test_a_table_is_maintained_beside_its_writers(tmp_path: Path) -> None:
    table = make(tmp_path, {"snapshot.num-retained.max": "1", "write-only": "true", **AT_ONCE})
    append(table)
    append(table, n=2)
    assert table.store.snapshots.ids() == [1, 2]  # writers leave the upkeep to others
    with Upkeep(table, "10 ms"):
        deadline = time.monotonic() + 30
        while table.store.snapshots.ids() != [2] and time.monotonic() < deadline:
            time.sleep(0.01)
        assert table.store.snapshots.ids() == [2]
        append(table, n=3)
    assert table.store.snapshots.ids() == [3]
    assert "lakewright-upkeep" not in {thread.name for thread in threading.enumerate()}


def test_upkeep_that_fails_is_an_error_at_the_end_of_its_block(tmp_path: Path) -> None:
    table = make(tmp_path, {"partition.expiration-time": "1 d", "write-only": "true"})
    append(table)
    broken = table.copy({"partition.timestamp-formatter": "QQ"})
    with pytest.raises(LakewrightError, match=r"d\.t: the expiry of partitions .*'QQ'"), Upkeep(broken):
        pass
    with pytest.raises(ZeroDivisionError), Upkeep(broken):  # an error of the block comes first
        raise ZeroDivisionError
    with pytest.raises(InvalidInputError, match="interval"):
        Upkeep(table, "soon")


def test_a_failure_after_a_commit_is_a_warning_that_names_the_table(tmp_path: Path) -> None:
    table = make(tmp_path, {"partition.expiration-time": "1 d", "partition.expiration-check-interval": "0 ms"})
    broken = table.copy({"partition.timestamp-formatter": "QQ"})
    with pytest.warns(LakewrightWarning, match="d.t: the commit is published, but the expiry of partitions .*'QQ'"):
        append(broken)
    assert lw.read_table(table)["n"].to_pylist() == [1]


@pytest.mark.parametrize(("most", "kept"), [("1", 1), ("3", 3), ("9", 4)])
def test_automatic_tags_beyond_the_limit_are_deleted_oldest_first(tmp_path: Path, most: str, kept: int) -> None:
    options = {"tag.automatic-creation": "process-time", "sink.process-time-zone": "UTC", "write-only": "true"}
    table = make(tmp_path, {**options, "tag.num-retained-max": most})
    for number in range(1, 5):
        append(table)
        snapshot = table.store.snapshots.get(number)
        path = table.store.layout.snapshot_file(number)
        table.store.storage.replace(path, to_json(replace(snapshot, time_millis=number * DAY_MILLIS)).encode())
    table.create_tag("own", 1)
    table.create_due_tags()
    days = ["1970-01-01", "1970-01-02", "1970-01-03", "1970-01-04"]  # that had ended
    assert table.list_tags() == [*days[-kept:], "own"]


def test_partitions_expire_after_commits(tmp_path: Path) -> None:
    table = make(tmp_path, {"partition.expiration-time": "1 d"})
    append(table, "2020-01-01")
    assert lw.read_table(table)["n"].to_pylist() == [1]  # the first look is an hour away
    append(table.copy({"end-input.check-partition-expire": "true"}), "2999-01-01", 2)
    assert lw.read_table(table)["n"].to_pylist() == [2]


def test_a_partition_that_is_written_to_does_not_expire_by_its_last_change(tmp_path: Path) -> None:
    table = make(tmp_path)
    for day in ("a", "b"):
        append(table, day)
    time.sleep(0.05)
    append(table, "b", 2)
    looked = table.expire_partitions(40, strategy="update-time", dry_run=True)
    expired = table.expire_partitions(40, strategy="update-time")
    assert {"day": "a"} in looked.partitions
    assert looked.snapshot_ids == ()
    assert {"day": "a"} in expired.partitions
    if {"day": "b"} not in expired.partitions:  # the machine was fast enough
        assert sorted(lw.read_table(table)["n"].to_pylist()) == [1, 2]


def test_limits_and_partitions_without_a_time(tmp_path: Path) -> None:
    table = make(tmp_path)
    for day in ("2020-01-03", "2020-01-01", "today", "2020-01-02"):
        append(table, day)
    expired = table.expire_partitions("1 d", max_expires=2)
    assert expired.partitions == ({"day": "2020-01-01"}, {"day": "2020-01-02"})
    assert (expired.left, expired.undated, len(expired.snapshot_ids)) == (1, 1, 1)
    assert table.expire_partitions("1 d", max_expires=0).partitions == ()


@pytest.mark.parametrize("pattern", ["QQ", "yyyyMMM", "yyyy-MM", "yyyyMd", "yyyy-MM-dd[", "yyyy-MM-dd'", "yyyy{MM}dd"])
def test_formats_that_are_refused_by_name(pattern: str) -> None:
    with pytest.raises(InvalidInputError, match=r"in the format|says no date"):
        read_time(pattern)


@pytest.mark.parametrize(
    ("actions", "error", "said"),
    [
        ("success-file,custom", UnsupportedError, r"'custom'.*custom="),
        ("success-file, done-partition", UnsupportedError, r"'done-partition'.*metastore"),
        ("success-file,dance", UnsupportedError, r"'dance'.*the actions are"),
        ("success-file,http-report", InvalidInputError, r"set 'partition.mark-done-action.http.url'"),
    ],
)
def test_marks_are_refused_by_their_action(tmp_path: Path, actions: str, error: type[Exception], said: str) -> None:
    table = make(tmp_path, {"partition.mark-done-action": actions})
    append(table)
    with pytest.raises(error, match=said):
        table.mark_partition_done({"day": "2020-01-01"})
    assert not list(Path(table.table_path).rglob("_SUCCESS"))


def reporting(tmp_path: Path, uri: str) -> FileStoreTable:
    """Return a table that reports to a server, with two partitions."""
    options = {
        "partition.mark-done-action": "http-report, success-file,mark-event",
        "partition.mark-done-action.http.url": uri,
        "partition.mark-done-action.http.params": "the word",
    }
    table = make(tmp_path, options)
    for day in ("a", "b"):
        append(table, day)
    return table


def test_a_server_is_told_about_a_partition_that_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakewright.maintenance.partition_lifecycle._PAUSE_SECONDS", 0.001)
    failures = Answer(503), Answer(fault="cut")
    with scripted() as server:
        server.will(*failures, Answer(200, {"result": "Success"}), Answer(200, {"result": "SUCCESS"}))
        table = reporting(tmp_path, f"{server.uri}/done?secret=1")
        table.mark_partition_done([{"day": "a"}, {"day": "b"}])
        bodies = [got.body for got in server.requests]
    said = {"table": "d.t", "path": table.table_path, "params": "the word"}
    assert bodies == [{"partition": "day=a/", **said}] * 3 + [{"partition": "day=b/", **said}]
    assert len(list(Path(table.table_path).rglob("_SUCCESS"))) == 2


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(200, {"result": "no"}), "its 'result' is 'no'"),
        (Answer(200, [1]), "no 'result'"),
        (Answer(200, b"<html>"), "no 'result'"),
        (Answer(404), "it answered 404"),
    ],
)
def test_a_server_that_takes_no_report_is_named(tmp_path: Path, answer: Answer, said: str) -> None:
    with scripted() as server:
        server.will(answer)
        table = reporting(tmp_path, f"{server.uri}/done?secret=1")
        with pytest.raises(CatalogServerError, match=said) as failed:
            table.mark_partition_done({"day": "b"})
        assert len(server.requests) == 1
    assert "day=b/" in str(failed.value)
    assert "secret" not in str(failed.value)
    assert not list(Path(table.table_path).rglob("_SUCCESS"))


def test_a_function_is_called_with_each_partition_that_is_done(tmp_path: Path) -> None:
    table, told = make(tmp_path, {"partition.mark-done-action": "custom"}), list[dict[str, str]]()
    for day in ("a", "b"):
        append(table, day)
    table.mark_partition_done([{"day": "a"}, {"day": "b"}], custom=told.append)
    assert told == [{"day": "a"}, {"day": "b"}]
    assert not list(Path(table.table_path).rglob("_SUCCESS"))


def test_old_rows_go_when_a_table_is_compacted(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    columns = pa.schema({"k": pa.int64(), "at": pa.int64()})
    options = {"bucket": "1", "record-level.expire-time": "1 d", "record-level.time-field": "at"}
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, primary_keys=["k"], options=options))
    table, now = catalog.get_table("d.t"), int(time.time())
    assert isinstance(table, FileStoreTable)
    lw.write_table(pa.table({"k": [1, 2, 3, 4], "at": [now, now - 99_999, None, (now - 99_999) * 1000]}), table)
    assert len(lw.read_table(table)) == 4
    table.compact(full=True)
    assert lw.read_table(table)["k"].to_pylist() == [1, 3]
    assert table.compact(full=True).is_empty


def test_purge_leaves_one_empty_snapshot(tmp_path: Path) -> None:
    table = make(tmp_path, {"changelog.num-retained.max": "9", "snapshot.num-retained.max": "2"})
    for number in range(4):
        append(table, n=number)
    table.create_tag("v")
    assert table.purge_files(dry_run=True).tags == ("v",)
    assert lw.read_table(table).num_rows == 4
    purged = table.purge_files()
    assert table.store.snapshots.ids() == [purged.snapshot_id]
    assert (table.store.changelogs.ids(), table.list_tags()) == ([], [])
    assert not list(Path(table.table_path).rglob("data-*"))
    append(table, n=7)
    assert lw.read_table(table)["n"].to_pylist() == [7]


def test_lifecycle_commands_change_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = make(tmp_path)
    append(table)
    table.create_tag("short", time_retained=1)
    time.sleep(0.005)
    place = ["--warehouse", str(tmp_path)]
    assert main(["mark-done", "d.t", *place, "--partition-spec", "day=2020-01-01"]) == 0
    assert main(["expire-partitions", "d.t", *place, "--expiration-time", "1 d", "--dry-run"]) == 0
    assert main(["expire-tags", "d.t", *place, "--json"]) == 0
    assert main(["expire-partitions", "d.t", *place, "--expiration-time", "1 d"]) == 0
    assert main(["purge", "d.t", *place, "--dry-run"]) == 0
    assert main(["purge", "d.t", *place, "--delete"]) == 0
    said = capsys.readouterr().out
    for words in (
        "marked 1 partition",
        "would remove 1 partition",
        '"short"',
        "removed 1 partition",
        "removed all rows",
    ):
        assert words in said
