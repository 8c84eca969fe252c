"""Rows of the postpone bucket get real buckets."""

from __future__ import annotations

import itertools
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.committer import Committer
from lakewright.compact.compaction_job import compact_table
from lakewright.compact.postponed_rows import by_writer, distribute, postponed_rows
from lakewright.compact.rescale import rescale
from lakewright.compact.rewrite_output import BucketOutput
from lakewright.errors import CommitContentionError, InvalidInputError
from lakewright.formats.data_file_writer import FilePlan
from lakewright.metadata.table_store import TableStore
from lakewright.spec.manifest import EMPTY_ROW
from lakewright.spec.snapshot import CommitKind
from lakewright.spec.system_columns import DELETE, INSERT, keyed_table
from support.facts import data_file, entry
from support.golden import WAREHOUSE
from support.keyed_tables import COLUMNS, Change, changelog_of, keyed_store, live, read, stored_rows
from support.read_tables import golden_store

_clock = itertools.count(1_000)


def _postpone(store: TableStore, writer: int, rows: list[Change]) -> None:
    """Write rows as they come into the postpone bucket."""
    names = [field.name for field in COLUMNS]
    columns = list(zip(*(row[1:] for row in rows), strict=True))
    values = pa.table([pa.array(c, COLUMNS.field(n).type) for n, c in zip(names, columns, strict=True)], names=names)
    keyed = keyed_table(values, pa.array([-1] * len(rows), pa.int64()), pa.array([r[0] for r in rows], pa.int8()))
    output = BucketOutput(store, (EMPTY_ROW, -2), clock_ms=lambda: next(_clock))
    plan = replace(FilePlan.for_keyed_rows(store.schema, level=0), prefix=f"data--u-user-s-{writer}-w-")
    sink = output.open(plan)
    sink.write(keyed)
    message = CommitMessage(EMPTY_ROW, -2, -2, sink.finish(), table=store.identity, schema_id=0, write_id=output.stem)
    assert Committer(store).commit([message]) is not None


def test_rows_of_one_writer_keep_their_order(tmp_path: Path) -> None:
    store = keyed_store(tmp_path / "t", {"bucket": -2, "postpone.default-bucket-num": 3})
    _postpone(store, 0, [(INSERT, 5, 1, "a"), (INSERT, 1, 1, "a"), (INSERT, 5, 2, "b"), (INSERT, 9, 1, "a")])
    _postpone(store, 0, [(INSERT, 1, 3, "c"), (DELETE, 9, None, None)])
    _postpone(store, 1, [(INSERT, 7, 7, "w")])
    assert read(store) == {}
    result = distribute(store)
    assert read(store) == {5: (2, "b"), 1: (3, "c"), 7: (7, "w")}
    newest = store.snapshots.latest()
    assert newest is not None
    assert (newest.commit_kind, result.snapshot_id, result.files_before) == (CommitKind.COMPACT, newest.id, 3)
    assert {e.total_buckets for e in live(store)} == {3}
    assert all(e.bucket >= 0 and e.file.level == 0 for e in live(store))
    assert distribute(store).snapshot_id is None

    # Later rows are numbered after those of their bucket, and go into the buckets that are there.
    _postpone(store, 0, [(INSERT, k, 9, "later") for k in range(20)])
    distribute(store.with_schema(store.schema.with_options({"postpone.default-bucket-num": "7"})))
    assert read(store) == dict.fromkeys(range(20), (9, "later"))
    assert {e.total_buckets for e in live(store)} == {3}


def test_compacting_distributes_first(tmp_path: Path) -> None:
    store = keyed_store(tmp_path / "t", {"bucket": -2, "deletion-vectors.enabled": "true"})
    for number in range(3):
        _postpone(store, 0, [(INSERT, k, number, None) for k in range(number, number + 5)])
        result = compact_table(store)
        assert result.snapshot_id is not None
    assert read(store) == {**dict.fromkeys((0,), (0, None)), 1: (1, None), **dict.fromkeys(range(2, 7), (2, None))}
    assert all(e.file.level > 0 for e in live(store))


def test_memory_is_bounded_by_writing_more_files(tmp_path: Path) -> None:
    store = keyed_store(tmp_path / "t", {"bucket": -2, "lakewright.merge-memory": "1 b", "file.format": "avro"})
    for number in range(4):
        _postpone(store, 0, [(INSERT, k, number, None) for k in range(5)])
    distribute(store)
    assert len(live(store)) == 4
    assert read(store) == dict.fromkeys(range(5), (3, None))


def test_the_changelog_of_input_holds_all_rows(tmp_path: Path) -> None:
    store = keyed_store(tmp_path / "t", {"bucket": -2, "changelog-producer": "input"})
    _postpone(store, 0, [(INSERT, 2, 1, "a"), (INSERT, 1, 1, "a"), (INSERT, 2, 2, "b")])
    distribute(store)
    (file,) = live(store)
    assert [row[:3] for row in stored_rows(store, file)] == [(1, INSERT, 1), (2, INSERT, 2)]
    assert [row[:3] for row in changelog_of(store, 2, 2)] == [(1, INSERT, 1), (0, INSERT, 2), (2, INSERT, 2)]


def test_rows_that_java_postponed_get_buckets(tmp_path: Path) -> None:
    golden = golden_store("pk.postpone")
    shutil.copytree(WAREHOUSE / "pk.db" / "postpone", tmp_path / "t")
    store = replace(golden, layout=replace(golden.layout, root=str(tmp_path / "t")))
    (file,) = live(store)
    want: dict[int, tuple[object, ...]] = {}
    for _, kind, k, *rest in stored_rows(store, file):
        if kind == DELETE:
            want.pop(k, None)
        else:
            want[k] = tuple(rest)
    distribute(store)
    assert want
    found = {k: tuple(rest) for e in live(store) for _, kind, k, *rest in stored_rows(store, e) if kind != DELETE}
    assert found == want


def test_tables_with_buckets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="bucket=-2"):
        distribute(keyed_store(tmp_path / "t"))


def test_files_are_ordered_within_their_writer() -> None:
    names = {"data--u-a-s-0-w-z-10.avro": 7, "data--u-a-s-0-w-z-9.avro": 7, "data--u-a-s-0-w-b-0.avro": 8}
    files = [replace(data_file(name), creation_time=made) for name, made in names.items()]
    other = replace(data_file("data--u-a-s-1-w-a-0.avro"), creation_time=1)
    groups = by_writer([files[0], other, files[2], files[1]])
    assert groups == ((files[1], files[0], files[2]), (other,))


@pytest.mark.parametrize(
    ("options", "buckets"),
    [
        ({}, 1),
        ({"postpone.default-bucket-num": "4"}, 4),
        ({"postpone.target-size-per-bucket": "600 b"}, 4),
        ({"postpone.target-size-per-bucket": "1000 b"}, 2),
    ],
)
def test_the_number_of_buckets_follows_options_and_sizes(tmp_path: Path, options: dict[str, str], buckets: int) -> None:
    store = keyed_store(tmp_path / "t", {"bucket": -2, **options})
    entries = [entry(f"data--u-a-s-{n}-w-x-0.avro", bucket=-2) for n in range(2)]  # a thousand bytes each
    (job,) = postponed_rows(store, entries)
    assert job.buckets == buckets
    there = replace(entry("data-x-0.parquet", bucket=1), total_buckets=6)
    (job,) = postponed_rows(store, [*entries, there])
    assert (job.buckets, dict(job.next_numbers)) == (6, {1: there.file.max_sequence_number + 1})


def test_rescaling_keeps_what_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = keyed_store(tmp_path / "t", {"bucket": -2})
    _postpone(store, 0, [(INSERT, k, 1, "a") for k in range(10)])
    distribute(store)
    _postpone(store, 0, [(INSERT, k, 2, "b") for k in range(5, 15)])
    rescale(store, 3)
    want = dict.fromkeys(range(5), (1, "a")) | dict.fromkeys(range(5, 15), (2, "b"))
    assert read(store) == want
    assert {e.total_buckets for e in live(store)} == {3}
    # Rows that come while it goes on are not overwritten either.
    _postpone(store, 0, [(INSERT, 1, 3, "c")])
    monkeypatch.setattr("lakewright.compact.rescale.distribute", lambda *_, **__: None)
    with pytest.raises(CommitContentionError, match="rescale again"):
        rescale(store, 2)
    assert any(e.bucket == -2 for e in live(store))
