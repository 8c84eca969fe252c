"""Contracts as test classes: every implementation of a protocol, such as `Storage`, must pass its contract.

Subclass a suite in a test module and give it the fixtures it names.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.storage.storage import Storage


class StorageContract:
    """The contract of a storage. Fixtures: `storage`, and `root`, a location of it that is empty at the start."""

    large_bytes = 20 * 1024 * 1024  # more than any storage keeps in memory before it sends

    def test_create_puts_a_whole_file_once(self, storage: Storage, root: str) -> None:
        """The first caller wins, in a directory that did not exist."""
        path = f"{root}/new/directory/snapshot-1"
        assert storage.create(path, b"first") is True
        assert storage.create(path, b"second") is False
        assert storage.create(path, b"first") is False
        assert storage.read(path) == b"first"
        assert [info.path for info in storage.list(f"{root}/new/directory")] == [path]

    def test_create_lets_one_of_many_win(self, storage: Storage, root: str) -> None:
        """Threads that race for one name give one winner, whose bytes stay."""
        for race in range(20):
            path = f"{root}/race-{race}"
            wins = _race(storage, path, runners=4)
            assert len(wins) == 1
            assert storage.read(path) == b"runner %d" % wins[0]

    def test_an_output_is_complete_once_closed(self, storage: Storage, root: str) -> None:
        """Bytes, memory views and Arrow buffers are appended in order."""
        output = storage.open_output(f"{root}/a/data-1")
        assert output.tell() == 0
        assert not output.closed
        assert output.write(b"one") == 3
        output.write(memoryview(b"two"))  # type: ignore[arg-type]
        output.write(pa.py_buffer(b"three"))
        output.flush()
        assert output.tell() == 11
        output.close()
        assert output.closed
        output.close()
        output.discard()
        assert storage.read(f"{root}/a/data-1") == b"onetwothree"
        assert storage.size(f"{root}/a/data-1") == 11
        assert storage.exists(f"{root}/a/data-1")

    def test_a_large_output_is_complete_once_closed(self, storage: Storage, root: str) -> None:
        """Large files are written in parts and read in parts without a change."""
        piece = bytes(range(256)) * 1001
        pieces = self.large_bytes // len(piece) + 1
        output = storage.open_output(f"{root}/large")
        for _ in range(pieces):
            output.write(piece)
        output.write(piece * 8)
        output.close()
        size = len(piece) * (pieces + 8)
        assert storage.size(f"{root}/large") == size
        with storage.open_input(f"{root}/large") as file:
            for start in (size - 10, 0, 5, 70_000, size // 2, 300_000, 299_999, size - 200_000):
                file.seek(start)
                length = min(1000, size - start)
                first = start % len(piece)
                assert file.read(1000) == (piece * 2)[first : first + length]
            file.seek(3)
            assert file.read(size) == (piece * (pieces + 8))[3:]

    def test_an_empty_file_is_a_file(self, storage: Storage, root: str) -> None:
        """A file without bytes exists and reads as empty."""
        storage.open_output(f"{root}/empty").close()
        assert storage.size(f"{root}/empty") == 0
        assert storage.read(f"{root}/empty") == b""
        with storage.open_input(f"{root}/empty") as file:
            assert file.read() == b""

    def test_an_output_replaces_nothing(self, storage: Storage, root: str) -> None:
        """An existing file is refused when the output is opened or closed, and stays as it was."""
        assert storage.create(f"{root}/taken", b"mine")

        def write() -> None:
            output = storage.open_output(f"{root}/taken")
            try:
                output.write(b"theirs")
                output.close()
            finally:
                output.discard()

        _refuses(FileExistsError, write)
        assert storage.read(f"{root}/taken") == b"mine"

    def test_a_discarded_output_leaves_nothing(self, storage: Storage, root: str) -> None:
        """Nothing stays at the path of a small or a large output that is discarded."""
        for name, size in (("small", 10), ("large", self.large_bytes)):
            output = storage.open_output(f"{root}/{name}")
            output.write(bytes(size))
            output.discard()
            assert output.closed
            output.discard()
            assert not storage.exists(f"{root}/{name}")
        assert list(storage.walk(root)) == []

    def test_what_is_not_there_is_a_file_not_found(self, storage: Storage, root: str) -> None:
        """Reading raises FileNotFoundError; size, listings and deletes do not."""
        _refuses(FileNotFoundError, lambda: storage.read(f"{root}/absent"))
        _refuses(FileNotFoundError, lambda: storage.open_input(f"{root}/absent"))
        assert storage.size(f"{root}/absent") is None
        assert not storage.exists(f"{root}/absent")
        assert list(storage.list(f"{root}/absent")) == []
        assert list(storage.list_directories(f"{root}/absent")) == []
        assert list(storage.walk(f"{root}/absent")) == []
        storage.delete(f"{root}/absent")
        storage.delete_directory(f"{root}/absent")

    def test_an_input_reaches_any_byte(self, storage: Storage, root: str) -> None:
        """Seeks from the start, from the position and from the end; reads past the end are short."""
        storage.create(f"{root}/file", b"0123456789")
        with storage.open_input(f"{root}/file") as file:
            assert file.readable()
            assert file.seekable()
            assert file.read(3) == b"012"
            assert file.tell() == 3
            file.seek(-2, io.SEEK_END)
            assert file.read(10) == b"89"
            file.seek(0)
            file.seek(4, io.SEEK_CUR)
            assert file.read() == b"456789"
            assert file.read(1) == b""
        assert file.closed

    def test_arrow_reads_and_writes_through_the_storage(self, storage: Storage, root: str) -> None:
        """Pyarrow accepts inputs and outputs as file objects."""
        table = pa.table({"n": list(range(50_000)), "text": [f"row {n}" for n in range(50_000)]})
        output = storage.open_output(f"{root}/data.parquet")
        pq.write_table(table, output, row_group_size=20_000)
        output.close()
        with storage.open_input(f"{root}/data.parquet") as file:
            assert pq.read_table(file).equals(table)

    def test_replace_puts_whatever_was_there(self, storage: Storage, root: str) -> None:
        """The bytes of the second call stay."""
        for text in (b"1", b"22", b""):
            storage.replace(f"{root}/hints/LATEST", text)
            assert storage.read(f"{root}/hints/LATEST") == text

    def test_listings_show_one_level(self, storage: Storage, root: str) -> None:
        """Files and directories directly inside, by name, with sizes; a longer name is another directory."""
        for name in ("t/a", "t/b", "t/x/c", "t/x/y/d", "t/z/e", "tt/f"):
            storage.create(f"{root}/{name}", name.encode())
        assert [(info.path, info.size) for info in storage.list(f"{root}/t")] == [
            (f"{root}/t/a", 3),
            (f"{root}/t/b", 3),
        ]
        assert all(info.modified_millis > 1_500_000_000_000 for info in storage.list(f"{root}/t"))
        assert sorted(storage.names(f"{root}/t")) == ["a", "b"]
        assert {name for name in storage.names(f"{root}/t", after="a") if name > "a"} == {"b"}
        assert list(storage.names(f"{root}/absent")) == []
        assert list(storage.list_directories(f"{root}/t")) == [f"{root}/t/x", f"{root}/t/z"]
        assert list(storage.list_directories(f"{root}/t/z")) == []
        walked = {info.path: info.size for info in storage.walk(f"{root}/t")}
        assert walked == {f"{root}/{name}": len(name) for name in ("t/a", "t/b", "t/x/c", "t/x/y/d", "t/z/e")}

    def test_a_made_directory_is_listed_and_empty(self, storage: Storage, root: str) -> None:
        """A listing of the parent shows an empty directory; making it again is no error."""
        storage.make_directory(f"{root}/w/empty.db")
        storage.make_directory(f"{root}/w/empty.db")
        assert list(storage.list_directories(f"{root}/w")) == [f"{root}/w/empty.db"]
        assert list(storage.list(f"{root}/w/empty.db")) == []
        assert list(storage.walk(f"{root}/w")) == []
        storage.delete_directory(f"{root}/w/empty.db")
        assert list(storage.list_directories(f"{root}/w")) == []

    def test_delete_removes_one_file(self, storage: Storage, root: str) -> None:
        """Other files stay, and a file of the same name can be created again."""
        storage.create(f"{root}/a", b"1")
        storage.create(f"{root}/ab", b"2")
        storage.delete(f"{root}/a")
        assert not storage.exists(f"{root}/a")
        assert storage.read(f"{root}/ab") == b"2"
        assert storage.create(f"{root}/a", b"3")

    def test_take_removes_one_file_and_returns_it(self, storage: Storage, root: str) -> None:
        """What was there is returned once; a file that is absent is None, and a durable deletion is one too."""
        storage.create(f"{root}/a", b"1")
        storage.create(f"{root}/b", b"2")
        assert (storage.take(f"{root}/a"), storage.take(f"{root}/a")) == (b"1", None)
        assert [info.path for info in storage.list(root)] == [f"{root}/b"]
        storage.delete(f"{root}/b", durable=True)
        storage.delete(f"{root}/b", durable=True)
        assert list(storage.list(root)) == []

    def test_delete_directory_removes_what_is_below(self, storage: Storage, root: str) -> None:
        """A directory whose name has the other as a prefix stays."""
        for name in ("t/a", "t/x/b", "t/x/y/c", "tt/d", "t.db/e"):
            storage.create(f"{root}/{name}", b"1")
        storage.make_directory(f"{root}/t/empty")
        storage.delete_directory(f"{root}/t")
        assert sorted(info.path for info in storage.walk(root)) == [f"{root}/t.db/e", f"{root}/tt/d"]
        assert list(storage.list_directories(root)) == [f"{root}/t.db", f"{root}/tt"]

    def test_prune_directory_removes_what_holds_no_file(self, storage: Storage, root: str) -> None:
        """Directories with a file somewhere below them stay, and so does the file."""
        storage.create(f"{root}/t/x/a", b"1")
        storage.make_directory(f"{root}/t/empty/inner")
        storage.prune_directory(f"{root}/t")
        assert [info.path for info in storage.walk(root)] == [f"{root}/t/x/a"]
        if storage.renames_atomically:
            assert list(storage.list_directories(f"{root}/t")) == [f"{root}/t/x"]
        storage.delete(f"{root}/t/x/a")
        storage.prune_directory(f"{root}/t")
        storage.prune_directory(f"{root}/absent")
        if storage.renames_atomically:
            assert list(storage.list_directories(root)) == []

    def test_delete_directory_refuses_to_climb(self, storage: Storage, root: str) -> None:
        """A path with `..` is an error."""
        storage.create(f"{root}/t/a", b"1")
        _refuses(InvalidInputError, lambda: storage.delete_directory(f"{root}/x/../t"))
        assert storage.exists(f"{root}/t/a")

    def test_rename_directory_moves_everything(self, storage: Storage, root: str) -> None:
        """All files move; a target that exists and a source that does not are errors."""
        for name in ("t/a", "t/x/b", "taken/c"):
            storage.create(f"{root}/{name}", name.encode())
        _refuses(FileExistsError, lambda: storage.rename_directory(f"{root}/t", f"{root}/taken"))
        _refuses(FileNotFoundError, lambda: storage.rename_directory(f"{root}/absent", f"{root}/other"))
        storage.make_directory(f"{root}/hollow")
        _refuses(FileExistsError, lambda: storage.rename_directory(f"{root}/t", f"{root}/hollow"))
        storage.rename_directory(f"{root}/t", f"{root}/moved")
        assert storage.read(f"{root}/moved/a") == b"t/a"
        assert storage.read(f"{root}/moved/x/b") == b"t/x/b"
        assert list(storage.list_directories(root)) == [f"{root}/hollow", f"{root}/moved", f"{root}/taken"]

    def test_a_second_name_keeps_a_file_or_is_refused(self, storage: Storage, root: str) -> None:
        """A file lives until its last name is deleted; a name that is taken, and a file that is absent, are errors."""
        storage.create(f"{root}/a", b"1")
        storage.create(f"{root}/taken", b"2")
        try:
            storage.link(f"{root}/a", f"{root}/x/b")
        except UnsupportedError:
            assert storage.identity(f"{root}/a") is None
            return
        _refuses(FileExistsError, lambda: storage.link(f"{root}/a", f"{root}/taken"))
        _refuses(FileNotFoundError, lambda: storage.link(f"{root}/absent", f"{root}/c"))
        same = storage.identity(f"{root}/a")
        assert same == storage.identity(f"{root}/x/b") != storage.identity(f"{root}/taken")
        storage.delete(f"{root}/a")
        assert storage.read(f"{root}/x/b") == b"1"
        assert storage.identity(f"{root}/a") is None

    def test_names_come_back_as_they_went(self, storage: Storage, root: str) -> None:
        """Spaces, escapes, other scripts and the special characters of URLs may be in a name."""
        names = ["dt=a b%2Fc%3Ad", "日本=é", "trail ", "100%25", "a+b&c=d;e~f@g,h!", "%5B%5D", "a#b?c*"]
        for name in names:
            assert storage.create(f"{root}/{name}/bucket-0/file {name}", name.encode())
        assert set(storage.list_directories(root)) == {f"{root}/{name}" for name in names}
        for name in names:
            path = f"{root}/{name}/bucket-0/file {name}"
            assert [info.path for info in storage.walk(f"{root}/{name}")] == [path]
            assert [info.path for info in storage.list(f"{root}/{name}/bucket-0")] == [path]
            assert storage.read(path) == name.encode()
            storage.delete(path)
            assert not storage.exists(path)


def _race(storage: Storage, path: str, runners: int) -> list[int]:
    """Let threads create one file at the same time and return the numbers of those that won."""
    barrier = threading.Barrier(runners)
    wins: list[int] = []

    def attempt(runner: int) -> None:
        barrier.wait()
        if storage.create(path, b"runner %d" % runner):
            wins.append(runner)

    _together([partial(attempt, runner) for runner in range(runners)])
    return wins


def _refuses(error: type[Exception], call: Callable[[], object]) -> None:
    """Check that a call raises."""
    try:
        call()
    except error:
        return
    raise AssertionError(f"no {error.__name__} was raised")


def _together(calls: list[Callable[[], None]]) -> None:
    """Make calls at the same time and raise what any of them raised."""
    failures: list[BaseException] = []

    def guarded(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as failure:  # noqa: BLE001 - raised again below, in the thread that can be seen
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
