"""Upkeep beside writers that are at work: what they acknowledge is there, and what they are making is left alone."""

from __future__ import annotations

import datetime as dt
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.commit.committer import Committer
from lakewright.errors import TableNotExistException
from lakewright.storage.local_storage import LocalStorage

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False)])


@pytest.fixture
def catalog(tmp_path: Path) -> lw.Catalog:
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path), "lakewright.durable": "false"})
    made.create_database("d")
    return made


def _write(catalog: lw.Catalog, number: int, mode: Literal["append", "upsert", "overwrite"] | None = None) -> None:
    table = catalog.get_table("d.t")
    usual: Literal["append", "upsert"] = "upsert" if table.primary_keys else "append"
    lw.write_table(pa.table({"id": [number]}, schema=COLUMNS), table, mode=mode or usual)


def _made(catalog: lw.Catalog, *, keys: bool = False, options: Mapping[str, str] | None = None) -> lw.FileStoreTable:
    bucket = {"bucket": "1"} if keys else {}
    schema = lw.Schema.from_pyarrow_schema(
        COLUMNS, primary_keys=["id"] if keys else None, options={**bucket, **(options or {})}
    )
    catalog.create_table("d.t", schema)
    for number in (1, 2):
        _write(catalog, number)
    return catalog.get_table("d.t")


def _ids(catalog: lw.Catalog) -> list[int]:
    return sorted(lw.read_table(catalog.get_table("d.t"))["id"].to_pylist())


def _before_publishing(monkeypatch: pytest.MonkeyPatch, *actions: Callable[[], object]) -> None:
    """Do one thing before each of the next attempts to create a snapshot, when its files are written and checked."""
    create, left = LocalStorage.create, list(actions)

    def creating(self: LocalStorage, path: str, data: bytes) -> bool:
        if "/snapshot/snapshot-" in path and left:
            action, left[:] = left[0], left[1:]
            waiting, left[:] = left[:], []  # what the action commits itself is not disturbed
            action()
            left[:] = waiting
        return create(self, path, data)

    monkeypatch.setattr(LocalStorage, "create", creating)


def _remove_new_orphans(catalog: lw.Catalog) -> list[str]:
    time.sleep(0.01)
    return [*catalog.get_table("d.t").remove_orphan_files(older_than=dt.timedelta(milliseconds=1)).paths]


@pytest.mark.parametrize("keys", [False, True])
@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_purge_leaves_the_files_of_a_commit_under_way(
    catalog: lw.Catalog, monkeypatch: pytest.MonkeyPatch, keys: bool, lost: int
) -> None:
    table = _made(catalog, keys=keys)
    truncate = lambda: catalog.get_table("d.t").new_batch_write_builder().new_commit().truncate_table()  # noqa: E731
    _before_publishing(monkeypatch, *[truncate] * lost, table.purge_files)
    _write(catalog, 3)
    assert _ids(catalog) == [3]
    assert table.verify(snapshots="all").is_sound


def test_a_purge_removes_what_commits_named_however_young(catalog: lw.Catalog, tmp_path: Path) -> None:
    table = _made(catalog)
    table.create_tag("v1", 1)
    table.create_branch("b", tag="v1")
    _write(catalog, 3, mode="overwrite")
    stray = tmp_path / "d.db" / "t" / "bucket-0" / "data-of-a-writer-at-work-0.parquet"
    stray.write_bytes(b"x")
    table.purge_files()
    assert [path.name for path in (tmp_path / "d.db" / "t" / "bucket-0").iterdir()] == [stray.name]


@pytest.mark.parametrize("keys", [False, True])
@pytest.mark.parametrize("lost", [1, 2])
def test_a_commit_whose_files_are_removed_between_attempts_is_refused(
    catalog: lw.Catalog, monkeypatch: pytest.MonkeyPatch, keys: bool, lost: int
) -> None:
    _made(catalog, keys=keys)

    def disturb() -> None:
        catalog.get_table("d.t").new_batch_write_builder().new_commit().truncate_table()
        removed.extend(_remove_new_orphans(catalog))

    removed: list[str] = []
    truncate = lambda: catalog.get_table("d.t").new_batch_write_builder().new_commit().truncate_table()  # noqa: E731
    _before_publishing(monkeypatch, *[truncate] * (lost - 1), disturb)
    with pytest.raises(lw.LakewrightError, match=r"missing or cut: .*write the data again"):
        _write(catalog, 3)
    assert removed
    assert _ids(catalog) == []


@pytest.mark.parametrize("what", ["manifest-", "manifest-list-"])
def test_a_commit_whose_kept_metadata_is_removed_between_attempts_is_refused(
    catalog: lw.Catalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str
) -> None:
    """A second attempt names manifests again that the first one wrote, also those that it merged from others."""
    _made(catalog, options={"manifest.merge-min-count": "2"})
    before: set[Path] = set()
    directory = tmp_path / "d.db" / "t" / "manifest"

    def disturb() -> None:
        ours = {path for path in directory.iterdir() if path.name.startswith(what)} - before
        _write(catalog, 4)
        assert ours
        for path in ours:
            path.unlink(missing_ok=True)

    before |= set(directory.iterdir())
    _before_publishing(monkeypatch, disturb)
    with pytest.raises(lw.LakewrightError, match="missing or cut"):
        _write(catalog, 3)
    assert _ids(catalog) == [1, 2, 4]


def test_a_commit_that_was_stopped_looks_at_its_files_again(
    catalog: lw.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process stops for an hour while it writes metadata: everything may have been removed by then."""
    table = _made(catalog)
    create, hours = LocalStorage.create, [0]
    removed: list[str] = []

    def stopped(self: LocalStorage, path: str, data: bytes) -> bool:
        if "/manifest/manifest-list-" in path and not removed:
            removed.extend(_remove_new_orphans(catalog))
            hours[0] = 1
        return create(self, path, data)

    with table.new_batch_write_builder().new_write() as write:
        messages = write.write_arrow(pa.table({"id": [3]}, schema=COLUMNS)).prepare_commit()
    committer = Committer(table.store, clock=lambda: time.time_ns() // 1_000_000 + hours[0] * 3_600_000)
    monkeypatch.setattr(LocalStorage, "create", stopped)
    with pytest.raises(lw.LakewrightError, match="missing or cut"):
        committer.commit(messages)
    assert removed
    assert _ids(catalog) == [1, 2]


@pytest.mark.parametrize("upkeep", ["remove_orphan_files", "purge_files", "repair"])
def test_a_branch_that_is_being_made_is_left_alone(
    catalog: lw.Catalog, monkeypatch: pytest.MonkeyPatch, upkeep: str
) -> None:
    table = _made(catalog)
    table.create_tag("v1")
    make, left = LocalStorage.make_directory, [None]

    def disturbed(self: LocalStorage, directory: str) -> None:
        make(self, directory)
        if "/.branch-" in directory and left:
            left.clear()
            getattr(catalog.get_table("d.t"), upkeep)()

    monkeypatch.setattr(LocalStorage, "make_directory", disturbed)
    if upkeep == "purge_files":  # the tag is gone, and with it the reason of the branch
        with pytest.raises(lw.NotFoundError):
            table.create_branch("b", tag="v1")
        assert table.list_branches() == []
        return
    table.create_branch("b", tag="v1")
    assert not left
    assert lw.read_table(catalog.get_table("d.t$branch_b")).num_rows == 2


@pytest.mark.parametrize("moment", ["make_directory", "rename_directory"])
def test_a_short_limit_beside_a_new_branch_gives_a_named_error(
    catalog: lw.Catalog, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    table = _made(catalog)
    table.create_tag("v1")
    inner, left = getattr(LocalStorage, moment), [None]

    def disturbed(self: LocalStorage, directory: str, *more: str) -> None:
        if moment == "make_directory":
            inner(self, directory, *more)
        if "/.branch-" in directory and left:
            left.clear()
            _remove_new_orphans(catalog)
        if moment != "make_directory":
            inner(self, directory, *more)

    monkeypatch.setattr(LocalStorage, moment, disturbed)
    with pytest.raises(lw.CommitContentionError, match="make the branch again"):
        table.create_branch("b", tag="v1")
    assert table.list_branches() == []
    table.create_branch("b", tag="v1")
    assert lw.read_table(catalog.get_table("d.t$branch_b")).num_rows == 2


@pytest.mark.parametrize("verb", ["write", "create"])
def test_a_drop_beside_a_write_or_a_creation_gives_a_named_error(
    catalog: lw.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    schema, left, fsync = lw.Schema.from_pyarrow_schema(COLUMNS), [None], os.fsync
    durable = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    if verb == "write":
        durable.create_table("d.t", schema)

    def dropping(descriptor: int) -> None:
        fsync(descriptor)
        if left and any(path.is_file() for path in (tmp_path / "d.db" / "t").rglob("*")):
            left.clear()
            catalog.drop_table("d.t")

    monkeypatch.setattr(os, "fsync", dropping)
    if verb == "create":
        durable.create_table("d.t", schema)
        assert durable.list_tables("d") == ["t"]
    else:
        with pytest.raises(TableNotExistException, match="dropped or renamed"):
            _write(durable, 1)
    assert not left


def test_a_drop_or_rename_beside_a_drop_says_that_there_is_no_table(
    catalog: lw.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = LocalStorage.rename_directory
    left: list[None] = []

    def disturbed(self: LocalStorage, source: str, target: str) -> None:
        if left:
            left.clear()
            catalog.drop_table("d.t")
        rename(self, source, target)

    monkeypatch.setattr(LocalStorage, "rename_directory", disturbed)
    verbs: list[Callable[[], None]] = [
        lambda: catalog.drop_table("d.t"),
        lambda: catalog.rename_table("d.t", "d.u"),
    ]
    for verb in verbs:
        catalog.create_table("d.t", COLUMNS)
        left.append(None)
        with pytest.raises(TableNotExistException):
            verb()
    catalog.create_table("d.t", COLUMNS)
    left.append(None)
    catalog.drop_table("d.t", ignore_if_not_exists=True)
    assert catalog.list_tables("d") == []


def test_in_a_sql_catalog_a_drop_beside_a_rename_frees_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/names.db", "warehouse": f"{tmp_path}/wh"}
    rename, left = LocalStorage.rename_directory, [None]
    with lw.CatalogFactory.create(options) as catalog, lw.CatalogFactory.create(options) as other:
        catalog.create_database("d")
        _made(catalog)

        def disturbed(self: LocalStorage, source: str, target: str) -> None:
            rename(self, source, target)
            if left:
                left.clear()
                other.drop_table("d.t")

        monkeypatch.setattr(LocalStorage, "rename_directory", disturbed)
        with pytest.raises(TableNotExistException):
            catalog.rename_table("d.t", "d.u")
        assert not list((tmp_path / "wh" / "d.db").iterdir())
        _made(catalog)
        assert _ids(catalog) == [1, 2]


@pytest.mark.parametrize("keys", [False, True])
@pytest.mark.parametrize("verb", ["delete", "update", "compact", "overwrite"])
def test_a_full_disk_names_the_file(catalog: lw.Catalog, keys: bool, verb: str) -> None:
    table = _made(catalog, keys=keys)
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    verbs: dict[str, Callable[[], object]] = {
        "delete": lambda: table.delete("id = 1"),
        "update": lambda: table.upsert(pa.table({"id": [1]})) if keys else table.update({"id": 3}, "id = 1"),
        "compact": lambda: table.compact(full=True),
        "overwrite": lambda: _write(catalog, 3, mode="overwrite"),
    }
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, limits[1]))  # as a full disk: a write fails, here with EFBIG
    try:
        with pytest.raises((OSError, lw.CommitContentionError), match=r"File too large: '.*/d.db/t/"):
            verbs[verb]()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert _ids(catalog) == [1, 2]


@pytest.mark.parametrize("number", [2**63 - 1, 2**63, 10**400])
def test_numbers_beyond_64_bits_are_damage(catalog: lw.Catalog, tmp_path: Path, number: int) -> None:
    table = _made(catalog)
    table.analyze()
    consumer = tmp_path / "d.db" / "t" / "consumer" / "consumer-c"
    consumer.parent.mkdir()
    consumer.write_text(json.dumps({"nextSnapshot": number}))
    with pytest.raises(lw.CorruptTableError, match="consumer-c"):
        lw.read_table(catalog.get_table("d.t$consumers"))
    with pytest.raises(lw.CorruptTableError, match="consumer-c"):
        table.new_stream_read_builder().with_consumer_id("c").new_streaming_scan().plan()
    (statistics,) = (tmp_path / "d.db" / "t" / "statistics").iterdir()
    found = json.loads(statistics.read_text())
    statistics.write_text(json.dumps({**found, "mergedRecordCount": 2 * number}))
    with pytest.raises(lw.CorruptTableError, match="holds no statistics"):
        lw.read_table(catalog.get_table("d.t$statistics"))
    statistics.unlink()
    for look in (table.statistics, lambda: lw.read_table(catalog.get_table("d.t$statistics"))):
        with pytest.raises(lw.CorruptTableError, match=r"is missing, though .* names it; write the statistics anew"):
            look()


@pytest.mark.parametrize("upkeep", ["remove_orphan_files", "repair"])
def test_an_empty_hidden_branch_goes_once_it_is_a_day_old(catalog: lw.Catalog, tmp_path: Path, upkeep: str) -> None:
    table = _made(catalog)
    old, new = (tmp_path / "d.db" / "t" / "branch" / f".branch-{name}" for name in ("old", "new"))
    for directory in (old, new):
        (directory / "tag").mkdir(parents=True)
    for directory in (old / "tag", old):
        os.utime(directory, (time.time() - 100_000,) * 2)
    getattr(table, upkeep)()
    assert (old.exists(), new.exists()) == (False, True)
