"""Local disks: the create-once race between processes, durability, links, and deletes that stay inside."""

from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.storage.local_storage import LocalStorage
from support.effort import is_thin

RACES = 600 if is_thin() else 20_000
RUNNERS = 4

# Each runner goes through the same names in the same order and waits for the slowest before each: shared memory holds
# how far everybody is.
RUNNER = """
import mmap, os, struct, sys
from lakewright.storage.local_storage import LocalStorage

directory, runner, runners, races = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
shared = mmap.mmap(os.open(directory + "/../progress", os.O_RDWR), 4 * runners)
progress = memoryview(shared).cast("i")
storage = LocalStorage(durable=False)
link, collisions = os.link, 0

def counting(*args, **kwargs):
    global collisions
    try:
        link(*args, **kwargs)
    except FileExistsError:
        collisions += 1
        raise

os.link = counting
won = bytearray(races)
mine = b"%d" % runner
for race in range(races):
    progress[runner] = race + 1
    while min(progress) <= race:
        os.sched_yield()
    won[race] = storage.create(f"{directory}/snapshot-{race}", mine)
sys.stdout.buffer.write(bytes(won) + struct.pack("<i", collisions))
"""


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.processes
def test_racing_processes_have_one_winner_each(tmp_path: Path) -> None:
    directory = tmp_path / "snapshot"
    directory.mkdir()
    (tmp_path / "progress").write_bytes(bytes(4 * RUNNERS))
    runners = [
        subprocess.Popen(
            [sys.executable, "-c", RUNNER, str(directory), str(runner), str(RUNNERS), str(RACES)],
            stdout=subprocess.PIPE,
        )
        for runner in range(RUNNERS)
    ]
    replies = [runner.communicate(timeout=300)[0] for runner in runners]
    assert [runner.returncode for runner in runners] == [0] * RUNNERS
    winners = [[runner for runner in range(RUNNERS) if replies[runner][race]] for race in range(RACES)]
    assert Counter(map(len, winners)) == {1: RACES}
    collisions = sum(int.from_bytes(reply[RACES:], "little") for reply in replies)
    assert collisions > 0  # they really met; how often depends on the load of the machine
    assert all(
        (directory / f"snapshot-{race}").read_bytes() == b"%d" % winners[race][0] for race in range(0, RACES, 50)
    )
    assert len(_names(directory)) == RACES  # no temporary file stays


def test_a_create_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "broken disk")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(OSError, match="broken disk"):
            LocalStorage().create(f"{tmp_path}/snapshot-1", b"1")
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", broken)
        with pytest.raises(OSError, match="broken disk"):
            LocalStorage().create(f"{tmp_path}/snapshot-1", b"1")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", broken)
        with pytest.raises(OSError, match="broken disk"):
            LocalStorage().replace(f"{tmp_path}/LATEST", b"1")
    assert _names(tmp_path) == []


def test_a_disk_without_hard_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(UnsupportedError, match="hard links"):
        LocalStorage().create(f"{tmp_path}/snapshot-1", b"1")
    assert _names(tmp_path) == []


def test_a_repeated_link_meets_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def lost_reply(source: str, target: str, *, follow_symlinks: bool) -> None:
        link(source, target, follow_symlinks=follow_symlinks)
        link(source, target, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(os, "link", lost_reply)
    assert LocalStorage().create(f"{tmp_path}/snapshot-1", b"1") is True


def _synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record what is synced, by path."""
    synced: list[str] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    return synced


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_everything_that_leads_to_a_file_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = _synced(monkeypatch)
    storage = LocalStorage()
    storage.create(f"{tmp_path}/t/snapshot/snapshot-1", b"1")
    assert [Path(path).suffix or path for path in synced] == [
        str(tmp_path),
        f"{tmp_path}/t",
        ".tmp",
        f"{tmp_path}/t/snapshot",
    ]
    synced.clear()
    output = storage.open_output(f"{tmp_path}/t/data")
    output.write(b"1")
    assert synced == []
    output.close()
    assert synced == [f"{tmp_path}/t/data", f"{tmp_path}/t"]
    synced.clear()
    storage.replace(f"{tmp_path}/t/tag-1", b"1")
    assert [Path(path).suffix or path for path in synced] == [".tmp", f"{tmp_path}/t"]


def test_a_throw_away_table_is_not_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fsync")
    storage = LocalStorage(durable=False)
    assert storage.create(f"{tmp_path}/a/b", b"1")
    storage.open_output(f"{tmp_path}/a/c").close()
    storage.replace(f"{tmp_path}/a/d", b"1")
    storage.rename_directory(f"{tmp_path}/a", f"{tmp_path}/e")
    storage.delete_directory(f"{tmp_path}/e")


def test_an_output_whose_close_fails_can_be_discarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = LocalStorage().open_output(f"{tmp_path}/data")
    output.write(b"1")

    def broken(_: int) -> None:
        raise OSError(errno.EIO, "broken disk")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(OSError, match="broken disk"):
            output.close()
    output.discard()
    assert _names(tmp_path) == []


def test_links_are_passed_over_and_never_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"1")
    table = tmp_path / "table"
    table.mkdir()
    (table / "file").write_bytes(b"1")
    (table / "directory-link").symlink_to(outside)
    (table / "file-link").symlink_to(outside / "precious")
    os.mkfifo(table / "pipe")
    storage = LocalStorage()
    assert [info.path for info in storage.list(str(table))] == [str(table / "file")]
    assert [info.path for info in storage.walk(str(table))] == [str(table / "file")]
    assert list(storage.list_directories(str(table))) == []
    storage.delete(str(table / "file-link"))
    storage.delete_directory(str(table))
    assert not table.exists()
    assert (outside / "precious").read_bytes() == b"1"


@pytest.mark.parametrize("directory", ["/", "//", "/lake/..", "/a/../b", "relative", "", "."])
def test_directories_that_cannot_be_meant_are_not_deleted(
    directory: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delattr("shutil.rmtree")
    with pytest.raises(InvalidInputError, match="refused"):
        LocalStorage().delete_directory(directory)


def test_a_linked_directory_is_not_deleted(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for spelling in ("link", "link/"):
        with pytest.raises(InvalidInputError, match="symbolic link"):
            LocalStorage().delete_directory(f"{tmp_path}/{spelling}")
    assert (tmp_path / "real").is_dir()


def test_a_rename_without_help_of_the_kernel_still_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "other")
    (tmp_path / "a").mkdir()
    (tmp_path / "empty").mkdir()
    storage = LocalStorage()
    with pytest.raises(FileExistsError):
        storage.rename_directory(f"{tmp_path}/a", f"{tmp_path}/empty")
    storage.rename_directory(f"{tmp_path}/a", f"{tmp_path}/b")
    assert _names(tmp_path) == ["b", "empty"]


def test_a_file_in_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    storage = LocalStorage()
    with pytest.raises(FileExistsError):
        storage.make_directory(f"{tmp_path}/file")
    with pytest.raises(OSError, match="Not a directory"):
        storage.create(f"{tmp_path}/file/x", b"1")
    assert storage.size(f"{tmp_path}/file/x") is None
    assert not storage.exists(str(tmp_path))
    storage.delete(f"{tmp_path}/file/x")


def test_the_longest_name_can_be_created(tmp_path: Path) -> None:
    name = "tag-" + "x" * 251
    assert LocalStorage().create(f"{tmp_path}/{name}", b"1")
    LocalStorage().replace(f"{tmp_path}/{name}", b"2")
    assert _names(tmp_path) == [name]


def test_paths_of_others_may_be_uris(tmp_path: Path) -> None:
    LocalStorage().create(f"file:{tmp_path}/x", b"1")
    assert LocalStorage().read(f"file://{tmp_path}/x") == b"1"


def test_large_writes_are_not_copied(tmp_path: Path) -> None:
    """What is larger than the gathering buffer goes to the file in order and at once."""
    output = LocalStorage(durable=False).open_output(f"{tmp_path}/x")
    output.write(b"small")
    output.write(bytes(100_000))
    assert (tmp_path / "x").stat().st_size == 100_005
    output.write(b"end")
    output.close()
    assert (tmp_path / "x").read_bytes() == b"small" + bytes(100_000) + b"end"


def test_a_storage_is_a_small_value() -> None:
    assert pickle.loads(pickle.dumps(LocalStorage(durable=False))) == LocalStorage(durable=False)  # noqa: S301 - ours
