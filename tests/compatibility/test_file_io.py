"""`table.file_io` reads, writes, lists and deletes files of the table's storage."""

from __future__ import annotations

from pathlib import Path

import pyarrow.fs as pafs
import pytest

from lakewright import pypaimon
from lakewright.pypaimon import FileIO, LocalFileIO


@pytest.fixture
def file_io(tmp_path: Path) -> FileIO:
    return FileIO.get(str(tmp_path))


def test_the_table_has_one(tmp_path: Path) -> None:
    catalog = pypaimon.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d", True)  # noqa: FBT003 - pypaimon's signature
    catalog.create_table("d.t", pypaimon.Schema([pypaimon.DataField(0, "id", pypaimon.AtomicType("INT"))]))
    table = catalog.get_table("d.t")
    schema = f"{table.table_path}/schema"
    assert [status.base_name for status in table.file_io.list_status(schema)] == ["schema-0"]
    assert table.file_io.read_file_utf8(f"file://{schema}/schema-0").startswith("{")


def test_files_are_written_once_or_replaced(file_io: FileIO, tmp_path: Path) -> None:
    path = f"{tmp_path}/a/b.txt"
    assert file_io.try_to_write_atomic(path, "one")
    assert not file_io.try_to_write_atomic(path, "two")
    assert file_io.read_file_utf8(path) == "one"
    with pytest.raises(FileExistsError):
        file_io.write_file(path, "two")
    file_io.write_file(path, "two", overwrite=True)
    assert file_io.read_file_range(path, 1, -1) == b"wo"
    with file_io.new_output_stream(path) as stream:
        stream.write(b"three")
    with file_io.new_input_stream(path) as source:
        assert source.read() == b"three"
    with pytest.raises(RuntimeError, match="stop"):
        _write_and_fail(file_io, f"{tmp_path}/a/c.txt")
    assert not file_io.exists(f"{tmp_path}/a/c.txt")


def _write_and_fail(file_io: FileIO, path: str) -> None:
    with file_io.new_output_stream(path) as stream:
        stream.write(b"half")
        raise RuntimeError("stop")


def test_statuses_of_files_and_directories(file_io: FileIO, tmp_path: Path) -> None:
    file_io.write_file(f"{tmp_path}/a/b.txt", "four")
    file_io.mkdirs(f"{tmp_path}/a/c")
    status = file_io.get_file_status(f"{tmp_path}/a/b.txt")
    assert (status.base_name, status.size, status.type) == ("b.txt", 4, pafs.FileType.File)
    assert status.mtime == pytest.approx((tmp_path / "a" / "b.txt").stat().st_mtime, abs=0.01)
    assert file_io.is_dir(f"{tmp_path}/a")
    assert file_io.get_file_size(f"{tmp_path}/a/b.txt") == 4
    assert sorted(one.base_name for one in file_io.list_status(f"{tmp_path}/a")) == ["b.txt", "c"]
    assert [one.base_name for one in file_io.list_status(f"{tmp_path}/a/b.txt")] == ["b.txt"]
    assert file_io.list_status(f"{tmp_path}/nothing") == []
    assert file_io.exists_batch([f"{tmp_path}/a", f"{tmp_path}/z"]) == {f"{tmp_path}/a": True, f"{tmp_path}/z": False}
    with pytest.raises(FileNotFoundError, match="does not exist"):
        file_io.get_file_status(f"{tmp_path}/z")
    with pytest.raises(FileExistsError):
        file_io.mkdirs(f"{tmp_path}/a/b.txt")


def test_files_are_copied_moved_and_removed(tmp_path: Path) -> None:
    file_io = LocalFileIO()
    file_io.write_file(f"{tmp_path}/a/b.txt", "x")
    file_io.copy_files(f"{tmp_path}/a", f"{tmp_path}/copy")
    with pytest.raises(FileExistsError):
        file_io.copy_file(f"{tmp_path}/a/b.txt", f"{tmp_path}/copy/b.txt")
    assert file_io.rename(f"{tmp_path}/a/b.txt", f"{tmp_path}/a/c.txt")
    assert not file_io.rename(f"{tmp_path}/a/b.txt", f"{tmp_path}/a/d.txt")
    assert not file_io.rename(f"{tmp_path}/copy/b.txt", f"{tmp_path}/a/c.txt")
    assert file_io.rename(f"{tmp_path}/copy", f"{tmp_path}/moved")
    assert file_io.read_file_utf8(f"{tmp_path}/moved/b.txt") == "x"
    with pytest.raises(OSError, match="not empty"):
        file_io.delete(f"{tmp_path}/moved")
    assert file_io.delete(f"{tmp_path}/moved", recursive=True)
    assert not file_io.delete(f"{tmp_path}/moved")
    file_io.delete_quietly(f"{tmp_path}/a/c.txt")
    assert file_io.delete(f"{tmp_path}/a")
    assert not (tmp_path / "a").exists()
