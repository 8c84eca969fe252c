"""Which bytes a read of BLOB columns asks for, and in which forms values come and go."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.formats.blob_values import BlobType
from lakewright.spec.blob_descriptors import BlobDescriptor
from lakewright.storage.local_storage import LocalStorage

OPTIONS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
COLUMNS = pa.schema({"id": pa.int64(), "b": pa.large_binary()})


@dataclass(frozen=True)
class NotingStorage(LocalStorage):
    """A local disk that notes which files are opened, and how many bytes are read of them."""

    reads: list[tuple[str, int]] = field(default_factory=list, compare=False)

    def open_input(self, path: str, *, size: int | None = None, end_bytes: int = 0) -> BinaryIO:
        """Open a file whose reads are noted."""
        return _NotedFile(LocalStorage.open_input(self, path, size=size, end_bytes=end_bytes), path, self.reads)  # type: ignore[return-value]


class _NotedFile(io.RawIOBase):
    def __init__(self, source: BinaryIO, path: str, reads: list[tuple[str, int]]) -> None:
        super().__init__()
        self._source, self._path, self._reads = source, path, reads

    def read(self, size: int | None = -1, /) -> bytes:
        data = self._source.read() if size is None or size < 0 else self._source.read(size)
        self._reads.append((self._path, len(data)))
        return data

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._source.seek(offset, whence)

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._source.tell()

    def size(self) -> int:
        place = self._source.tell()
        end = self._source.seek(0, io.SEEK_END)
        self._source.seek(place)
        return end


def new_table(root: Path, **options: str) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": str(root)})
    catalog.create_database("d")
    given = {**OPTIONS, **{key.replace("_", "-"): value for key, value in options.items()}}
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, options=given))
    return catalog.get_table("d.t")


def noting(table: lw.FileStoreTable) -> tuple[lw.FileStoreTable, Callable[[], int]]:
    """Return a table, and a function that returns how many bytes of `.blob` files were read since the last call."""
    storage = NotingStorage()
    noted = replace(table, store=replace(table.store, storage=storage))

    def count() -> int:
        read = sum(size for path, size in storage.reads if path.endswith(".blob"))
        storage.reads.clear()
        return read

    return noted, count


def values(count: int, size: int) -> list[bytes]:
    return [bytes([n % 251]) * size for n in range(count)]


def test_only_values_that_are_asked_for_are_read(tmp_path: Path) -> None:
    table, read_bytes = noting(new_table(tmp_path))
    lw.write_table(pa.table({"id": range(100), "b": pa.array(values(100, 100_000), pa.large_binary())}), table)
    assert lw.read_table(table, columns=["id"]).num_rows == 100
    assert lw.read_table(table, columns=["id"], filter="id > 3", limit=2).num_rows == 2
    assert read_bytes() == 0
    found = lw.read_table(table, filter="id IN (7, 70)").to_pylist()
    assert [row["b"] for row in found] == [bytes([7]) * 100_000, bytes([70]) * 100_000]
    assert 200_000 <= read_bytes() < 210_000
    lazy = lw.read_table(table, blobs="lazy")["b"].to_pylist()
    assert read_bytes() < 10_000
    with lazy[50].open() as file:
        file.seek(-10, io.SEEK_END)
        assert file.read() == bytes([50]) * 10


def test_values_come_as_bytes_objects_or_descriptors(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    lw.write_table([{"id": 1, "b": b"one"}, {"id": 2, "b": None}, {"id": 3, "b": b""}], table)
    lazy = lw.read_table(table, blobs="lazy").sort_by("id")["b"]
    assert lazy.type == BlobType()
    blobs = lazy.to_pylist()
    assert [blob and blob.read() for blob in blobs] == [b"one", None, b""]
    assert pickle.loads(pickle.dumps(blobs[0])).read() == b"one"  # noqa: S301
    described = lw.read_table(table, blobs="descriptor").sort_by("id")["b"].to_pylist()
    assert [None if data is None else BlobDescriptor.deserialize(data).length for data in described] == [3, None, 0]
    same = lw.read_table(table.copy({"blob-as-descriptor": "true"})).sort_by("id")["b"].to_pylist()
    assert same == described
    with pytest.raises(lw.InvalidInputError, match="'bytes', 'lazy', 'descriptor'"):
        lw.read_table(table, blobs="files")  # type: ignore[arg-type]
    with pytest.raises(lw.InvalidInputError, match="only be tested for null"):
        lw.read_table(table, filter="b = X'00'")


def test_a_value_is_written_from_any_source(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    file = tmp_path / "a.bin"
    file.write_bytes(b"0123456789")
    given: list[Any] = [
        lw.Blob.from_path(file),
        lw.Blob.from_path(file, offset=2, length=3),
        lw.Blob.from_uri(file.as_uri(), offset=8),
        lw.Blob.from_file(io.BytesIO(b"a file object")),
        BlobDescriptor(f"file:{file}", 1, 1).serialize(),
        b"bytes",
        None,
    ]
    wanted = [b"0123456789", b"234", b"89", b"a file object", b"1", b"bytes", None]
    lw.write_table({"id": list(range(7)), "b": given}, table)
    assert lw.read_table(table).sort_by("id")["b"].to_pylist() == wanted
    copied = lw.create_table_from(lw.read_table(table, blobs="lazy"), str(tmp_path / "d.db" / "copy"), options=OPTIONS)
    assert lw.read_table(copied).sort_by("id")["b"].to_pylist() == wanted
    with pytest.raises(lw.NotFoundError, match=r"none\.bin"):
        lw.write_table([{"id": 9, "b": lw.Blob.from_path(tmp_path / "none.bin")}], table)
    with pytest.raises(lw.InvalidInputError, match="3 fewer"):
        lw.write_table([{"id": 9, "b": lw.Blob.from_path(file, offset=5, length=8)}], table)
    assert lw.read_table(table, columns=["id"]).num_rows == 7


def test_files_roll_and_end_with_the_normal_file(tmp_path: Path) -> None:
    table = new_table(tmp_path, **{"blob.target-file-size": "100 b", "target-file-row-num": "4"})
    sizes = [10, 17, 24, 31, 38, 45, 80]
    lw.write_table({"id": list(range(7)), "b": [b"x" * size for size in sizes]}, table)
    files = [entry.file for entry in table.store.manifests.live(table.store.snapshots.latest())]  # type: ignore[arg-type]
    blobs = sorted((f.first_row_id, f.row_count) for f in files if f.file_name.endswith(".blob"))
    assert blobs == [(0, 4), (4, 2), (6, 1)]
    assert lw.read_table(table).sort_by("id")["b"].to_pylist() == [b"x" * size for size in sizes]


def test_stored_descriptors_refer_to_files_that_stay(tmp_path: Path) -> None:
    table = new_table(tmp_path, **{"blob-descriptor-field": "b"})
    file = tmp_path / "a.bin"
    file.write_bytes(b"0123456789")
    lw.write_table([{"id": 1, "b": lw.Blob.from_path(file, 2, 3)}, {"id": 2, "b": None}], table)
    assert not list(tmp_path.rglob("*.blob"))
    assert lw.read_table(table).sort_by("id")["b"].to_pylist() == [b"234", None]
    with pytest.raises(lw.InvalidInputError, match=r"'b'.*descriptor"):
        lw.write_table([{"id": 3, "b": b"bytes"}], table)
    file.unlink()
    assert lw.read_table(table, blobs="lazy").num_rows == 2
    with pytest.raises(lw.NotFoundError, match=r"a\.bin, which does not exist"):
        lw.read_table(table)


@pytest.mark.parametrize("form", ["bytes", "lazy"])
def test_a_difference_has_the_values_of_both_states(tmp_path: Path, form: Any) -> None:  # noqa: ANN401 - a literal
    table = new_table(tmp_path)
    lw.write_table({"id": [1, 2], "b": [b"one", b"two"]}, table)
    table.update({"b": lw.lit(b"new")}, where="id = 2")
    with pytest.raises(lw.UnsupportedError, match="updates some columns of older rows"):
        lw.read_table(table, incremental=(1, 2), incremental_mode="delta")
    changes = lw.read_table(table, incremental=(1, 2), incremental_mode="diff", row_kinds=True, blobs=form)
    found = {(r["_row_kind"], r["id"], r["b"].read() if form == "lazy" else r["b"]) for r in changes.to_pylist()}
    assert found == {("-D", 2, b"two"), ("+I", 2, b"new")}


def test_an_update_is_seen_beside_files_with_higher_numbers(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    lw.write_table({"id": [1, 2], "b": [b"one", b"two"]}, table)
    builder = table.new_batch_write_builder()
    with builder.new_write() as write:
        write.write_arrow(pa.table({"id": [3], "b": pa.array([b"three"], pa.large_binary())}))
        messages = write.prepare_commit()
    numbered = [
        replace(m, new_files=tuple(replace(f, min_sequence_number=9, max_sequence_number=9) for f in m.new_files))
        for m in messages
    ]
    builder.new_commit().commit(numbered)
    table.update({"b": lw.lit(b"new")}, where="id = 3")
    assert lw.read_table(table).sort_by("id")["b"].to_pylist() == [b"one", b"two", b"new"]
