from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.errors import AlreadyExistsError, CorruptTableError, NotFoundError, UnsupportedError
from lakewright.metadata import manifest_records
from lakewright.metadata.manifest_files import Manifests, MergeLimits, Namer, may_contain_partitions, plan_merge
from lakewright.metadata.manifest_records import ENTRY_SCHEMA, ENTRY_SCHEMA_SEQUENCES, entry_record
from lakewright.spec.binary_row import decode_row, encode_row
from lakewright.spec.manifest import (
    ADD,
    DELETE,
    EMPTY_STATS,
    IndexEntry,
    IndexFile,
    ManifestEntry,
    ManifestFile,
    merge_entries,
)
from lakewright.spec.snapshot import CommitKind, Snapshot, to_json
from lakewright.spec.table_options import TableOptions
from lakewright.spec.types import AtomicType, DataType
from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.table_layout import Layout
from support.effort import examples
from support.facts import data_file, encode_records, entry, index_files, text_partition

TEXT = (AtomicType("STRING"),)
SERIAL = itertools.count()


def manifests(root: Path, types: tuple[DataType, ...] = (), **options: str) -> Manifests:
    settled = {name.replace("_", "-").replace("--", "."): value for name, value in options.items()}
    namer = Namer(lambda: uuid.UUID(int=next(SERIAL)))
    return Manifests(LocalStorage(durable=False), Layout(str(root)), types, TableOptions.from_dict(settled), namer)


def snapshot_of(store: Manifests, base: Sequence[ManifestFile], delta: Sequence[ManifestFile] = ()) -> Snapshot:
    names = [store.write_list(files) for files in (base, delta)]
    snapshot = Snapshot(
        1, 0, names[0][0], names[1][0], "user", 1, CommitKind.APPEND, 1, 3, None, names[0][1], names[1][1]
    )
    store.storage.replace(store.layout.snapshot_file(1), to_json(snapshot).encode())
    return snapshot


def test_entries_go_out_and_come_back(tmp_path: Path) -> None:
    store = manifests(tmp_path)
    entries = [entry("a"), entry("b", level=3), entry("a", kind=DELETE)]
    (manifest,) = store.write(entries, schema_id=0)
    assert store.read(manifest) == entries
    assert (manifest.num_added_files, manifest.num_deleted_files) == (2, 1)
    assert manifest.file_size == (tmp_path / "manifest" / manifest.file_name).stat().st_size


def test_names_count_up_for_each_kind(tmp_path: Path) -> None:
    store = manifests(tmp_path)
    unique = store.namer.name("x").removeprefix("x-").removesuffix("-0")
    names = [store.write([entry("a")], schema_id=0)[0].file_name for _ in range(2)]
    assert names == [f"manifest-{unique}-0", f"manifest-{unique}-1"]
    assert [store.write_list([])[0] for _ in range(2)] == [f"manifest-list-{unique}-0", f"manifest-list-{unique}-1"]
    assert store.write_index([]) == f"index-manifest-{unique}-0"


def test_a_name_is_never_written_twice(tmp_path: Path) -> None:
    for namer, outcome in ((Namer(lambda: uuid.UUID(int=1)), False), (Namer(lambda: uuid.UUID(int=1)), True)):
        store = replace(manifests(tmp_path), namer=namer)
        if outcome:
            with pytest.raises(AlreadyExistsError):
                store.write_list([])
        else:
            store.write_list([])


def test_no_entries_make_no_manifest_and_an_empty_list(tmp_path: Path) -> None:
    store = manifests(tmp_path)
    assert store.write([], schema_id=0) == []
    name, size = store.write_list([])
    assert store.read_list(name, size) == []
    assert store.read_list(name) == []


def test_facts_of_a_manifest_cover_all_its_entries(tmp_path: Path) -> None:
    store = manifests(tmp_path, (AtomicType("STRING"), AtomicType("INT")))
    rows = [("b", 5), ("a", None), (None, None), ("c" * 200, -7)]
    encoded = [encode_row(row, store.partition_types) for row in rows]
    entries = [entry(f"f{n}", partition=row, bucket=n + 1, level=n) for n, row in enumerate(encoded)]
    entries[0] = replace(entries[0], file=replace(data_file("f0", 0, rows=10, schema_id=4), first_row_id=100))
    (manifest,) = store.write(entries, schema_id=9)
    stats = manifest.partition_stats
    assert decode_row(stats.min_values, store.partition_types) == ("a", -7)
    assert decode_row(stats.max_values, store.partition_types) == ("c" * 200, 5)
    assert stats.null_counts == (1, 2)
    assert (manifest.min_bucket, manifest.max_bucket, manifest.min_level, manifest.max_level) == (1, 4, 0, 3)
    assert manifest.schema_id == 4
    assert (manifest.min_row_id, manifest.max_row_id) == (None, None)
    (tracked,) = store.write(entries[:1], schema_id=9)
    assert (tracked.min_row_id, tracked.max_row_id) == (100, 109)


def test_an_unpartitioned_table_has_empty_partition_statistics(tmp_path: Path) -> None:
    (manifest,) = manifests(tmp_path).write([entry("a")], schema_id=0)
    assert manifest.partition_stats == EMPTY_STATS


def test_manifests_roll_at_the_target_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_records, "BLOCK_BYTES", 1000)
    store = manifests(tmp_path, manifest__target_file_size="3 kb", manifest__compression="null")
    entries = [entry(f"file-{n}") for n in range(100)]
    written = store.write(entries, schema_id=0)
    assert len(written) > 3
    assert [e for manifest in written for e in store.read(manifest)] == entries
    assert sum(manifest.num_added_files for manifest in written) == 100


def test_the_last_field_is_written_only_where_it_is_used(tmp_path: Path) -> None:
    store = manifests(tmp_path, manifest__compression="null")
    plain = entry("a")
    sequenced = replace(plain, file=replace(plain.file, write_cols=("a",), write_cols_sequences=(3,)))
    for entries, schema in ([plain], ENTRY_SCHEMA), ([plain, sequenced], ENTRY_SCHEMA_SEQUENCES):
        (manifest,) = store.write(entries, schema_id=0)
        assert store.read(manifest) == entries
        with (tmp_path / "manifest" / manifest.file_name).open("rb") as file:
            reader = fastavro.reader(file, reader_schema=schema)
            assert reader.metadata["avro.schema"] == json.dumps(schema, separators=(",", ":"))
            assert [r["_FILE"]["_FILE_NAME"] for r in reader] == ["a"] * len(entries)  # type: ignore[call-overload,index]


def test_keep_sees_the_place_of_each_entry_before_it_is_built(tmp_path: Path) -> None:
    store = manifests(tmp_path, TEXT)
    places = [(text_partition("x"), 0, 1, 0), (text_partition(None), 1, 1, 5)]
    (manifest,) = store.write(
        [entry(f"f{n}", partition=p, bucket=b, level=level) for n, (p, b, _, level) in enumerate(places)], schema_id=0
    )
    seen: list[tuple[bytes, int, int, int]] = []

    def keep(*place: object) -> bool:
        seen.append(place)  # type: ignore[arg-type]
        return place[1] == 1

    assert [e.file.file_name for e in store.read(manifest, keep=keep)] == ["f1"]
    assert seen == places


def test_sizes_and_counts_must_be_as_the_list_says(tmp_path: Path) -> None:
    store = manifests(tmp_path)
    (manifest,) = store.write([entry("a"), entry("b", kind=DELETE)], schema_id=0)
    for wrong in (
        replace(manifest, file_size=manifest.file_size + 1),
        replace(manifest, num_added_files=2),
        replace(manifest, num_added_files=0, num_deleted_files=2),
    ):
        with pytest.raises(CorruptTableError, match=manifest.file_name):
            store.read(wrong)
    name, size = store.write_list([manifest])
    with pytest.raises(CorruptTableError, match=name):
        store.read_list(name, size - 1)


def test_records_of_other_kinds_or_versions_are_refused(tmp_path: Path) -> None:
    store = manifests(tmp_path)
    for changes, error in (({"_VERSION": 1}, UnsupportedError), ({"_KIND": 2}, CorruptTableError)):
        data = encode_records(ENTRY_SCHEMA, [entry_record(entry("a")) | changes], "null")
        store.storage.replace(store.layout.manifest_file("manifest-x"), data)
        with pytest.raises(error, match="manifest-x"):
            store.read(ManifestFile("manifest-x", len(data), 1, 0, EMPTY_STATS, 0))
    data = encode_records(ENTRY_SCHEMA, [entry_record(entry("a", partition=b"short"))], "null")
    store.storage.replace(store.layout.manifest_file("manifest-x"), data)
    with pytest.raises(CorruptTableError, match="manifest-x has an entry whose partition"):
        store.read(ManifestFile("manifest-x", len(data), 1, 0, EMPTY_STATS, 0))


def test_names_that_leave_the_directory_are_refused(tmp_path: Path) -> None:
    store = manifests(tmp_path)
    with pytest.raises(CorruptTableError, match=r"\.\./secret"):
        store.read(ManifestFile("../secret", 1, 1, 0, EMPTY_STATS, 0))


def test_live_files_are_base_then_delta_merged(tmp_path: Path) -> None:
    store = manifests(tmp_path)
    base = store.write([entry("a"), entry("b"), entry("c")], schema_id=0)
    more = store.write([entry("b", kind=DELETE), entry("d")], schema_id=0)
    delta = store.write([entry("a", kind=DELETE), entry("a", level=5)], schema_id=0)
    snapshot = snapshot_of(store, [*base, *more], delta)
    live = store.live(snapshot)
    assert [(e.file.file_name, e.file.level) for e in live] == [("c", 0), ("d", 0), ("a", 5)]
    assert store.files_of(snapshot) == [*base, *more, *delta]
    assert [e.kind for e in store.delta(snapshot)] == [DELETE, ADD]
    assert store.changelog(snapshot) == []
    kept = store.live(snapshot, keep=lambda _p, _b, _t, level: level == 5)
    assert [e.file.file_name for e in kept] == ["a"]
    assert store.live(snapshot, keep_manifest=lambda m: m != delta[0]) != live


def test_a_delete_without_its_add_is_a_damaged_table(tmp_path: Path) -> None:
    store = manifests(tmp_path)
    snapshot = snapshot_of(store, [], store.write([entry("ghost", kind=DELETE)], schema_id=0))
    with pytest.raises(CorruptTableError, match="ghost") as caught:
        store.live(snapshot)
    assert caught.value.snapshot_id == 1


def test_a_missing_manifest_says_whether_its_snapshot_expired(tmp_path: Path) -> None:
    store = manifests(tmp_path)
    (manifest,) = store.write([entry("a")], schema_id=0)
    snapshot = snapshot_of(store, [manifest])
    store.delete(manifest.file_name)
    with pytest.raises(CorruptTableError, match="is missing"):
        store.live(snapshot)
    store.storage.delete(store.layout.snapshot_file(1))
    with pytest.raises(NotFoundError, match=r"snapshot 1 of .* has expired"):
        store.live(snapshot)


@given(st.lists(index_files(), max_size=4))
@settings(max_examples=examples(30))
def test_index_entries_go_out_and_come_back(files: list[IndexFile]) -> None:
    store = MEMORY
    entries = [IndexEntry(ADD, text_partition("p"), n, file) for n, file in enumerate(files)]
    assert store.read_index(store.write_index(entries)) == entries


def test_an_index_manifest_holds_no_deletes(tmp_path: Path) -> None:
    store = manifests(tmp_path)
    name = store.write_index([IndexEntry(DELETE, bytes(12), 0, IndexFile("HASH", "index-0", 1, 1))])
    with pytest.raises(CorruptTableError, match=name):
        store.read_index(name)


def test_merging_waits_for_enough_small_manifests(tmp_path: Path) -> None:
    store = manifests(tmp_path, manifest__merge_min_count="3")
    files = [store.write([entry(f"f{n}")], schema_id=n)[0] for n in range(3)]
    few = store.merge(files[:2])
    assert (few.files, few.written) == (tuple(files[:2]), ())
    merged = store.merge(files)
    assert merged.files == merged.written
    assert [e.file.file_name for e in store.read(merged.files[0])] == ["f0", "f1", "f2"]
    assert merged.files[0].num_added_files == 3


def test_a_minor_merge_keeps_deletes_whose_add_is_older(tmp_path: Path) -> None:
    store = manifests(tmp_path, manifest__merge_min_count="2")
    files = [
        store.write([entry("x")], schema_id=0)[0],
        store.write([entry("old", kind=DELETE), entry("x", kind=DELETE)], schema_id=0)[0],
    ]
    (merged,) = store.merge(files).files
    assert store.read(merged) == [entry("old", kind=DELETE)]


def test_a_full_merge_keeps_what_cannot_hold_a_deleted_file(tmp_path: Path) -> None:
    big, gone, other = (text_partition(name) for name in ("big", "gone", "other"))
    store = manifests(tmp_path, TEXT, manifest__full_compaction_threshold_size="1 b", manifest__target_file_size="1 kb")
    files = [
        replace(store.write([entry("k", partition=big)], schema_id=0)[0]),
        store.write([entry("a", partition=gone), entry("b", partition=gone)], schema_id=0)[0],
        store.write([entry("c", partition=other), entry("a", partition=gone, kind=DELETE)], schema_id=0)[0],
    ]
    assert all(file.file_size > 1024 for file in files)
    merged = store.merge(files)
    assert merged.files[0] == files[0]
    assert files[1] not in merged.files
    names = [e.file.file_name for file in merged.written for e in store.read(file)]
    assert names == ["b", "c"]
    assert all(file.num_deleted_files == 0 for file in merged.files)


def test_a_full_merge_of_one_manifest_is_not_worth_it(tmp_path: Path) -> None:
    store = manifests(tmp_path, manifest__full_compaction_threshold_size="1 b")
    files = store.write([entry("a")], schema_id=0)
    assert store.merge(files).written == ()


def test_a_failing_merge_leaves_nothing_behind(tmp_path: Path) -> None:
    store = manifests(tmp_path, manifest__merge_min_count="2", manifest__target_file_size="3 kb")
    files = [store.write([entry(f"f{n}")], schema_id=0)[0] for n in range(6)]
    store.delete(files[-1].file_name)
    before = set((tmp_path / "manifest").iterdir())
    with pytest.raises(CorruptTableError, match="missing"):
        store.merge(files)
    assert set((tmp_path / "manifest").iterdir()) == before


def sized(n: int, size: int, deletes: int = 0) -> ManifestFile:
    return ManifestFile(f"m{n}", size, 1, deletes, EMPTY_STATS, 0)


LIMITS = MergeLimits(target_bytes=100, count_min=3, full_bytes=1000)


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ([], []),
        ([10], [[10]]),
        ([10, 10], [[10], [10]]),
        ([10, 10, 10], [[10, 10, 10]]),
        ([100, 100], [[100], [100]]),
        ([10, 100, 10], [[10, 100], [10]]),
        ([60, 60, 10, 10, 10], [[60, 60], [10, 10, 10]]),
    ],
)
def test_neighbouring_small_manifests_are_grouped(sizes: list[int], groups: list[list[int]]) -> None:
    plan = plan_merge([sized(n, size) for n, size in enumerate(sizes)], LIMITS)
    assert [[f.file_size for f in group] for group in plan.groups] == groups
    assert not plan.full


def test_a_full_merge_is_due_once_enough_is_unsettled() -> None:
    assert not plan_merge([sized(0, 5000), sized(1, 99)], LIMITS).full
    assert plan_merge([sized(0, 5000, deletes=1)], LIMITS).full
    assert plan_merge([sized(n, 99) for n in range(11)], LIMITS).full


def test_partitions_are_looked_for_in_the_bounds_of_a_manifest(tmp_path: Path) -> None:
    store = manifests(tmp_path, TEXT)
    entries = [entry(p, partition=text_partition(p)) for p in ("b", "d")]
    stats = store.write(entries, schema_id=0)[0].partition_stats
    assert [may_contain_partitions(stats, {(p,)}, TEXT) for p in ("a", "b", "c", "d", "e", None)] == [
        False,
        True,
        True,
        True,
        False,
        False,
    ]
    assert not may_contain_partitions(stats, set(), TEXT)
    assert may_contain_partitions(EMPTY_STATS, {("a",)}, TEXT)
    assert may_contain_partitions(EMPTY_STATS, {()}, ())


@st.composite
def histories(draw: st.DrawFn) -> list[list[ManifestEntry]]:
    """Return what a table's commits added and deleted: never a file twice, never one that is not live."""
    live: dict[str, ManifestEntry] = {}
    commits = []
    names = itertools.count()
    for _ in range(draw(st.integers(1, 8))):
        gone = draw(st.lists(st.sampled_from(sorted(live)), unique=True, max_size=4)) if live else []
        changes = [replace(live.pop(name), kind=DELETE) for name in gone]
        for partition in draw(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=4)):
            added = entry(f"f{next(names)}", partition=text_partition(partition), level=draw(st.integers(0, 2)))
            live[added.file.file_name] = added
            changes.append(added)
        commits.append(changes)
    return commits


class MemoryStore:
    """Just enough of a storage for manifests, without the price of a disk."""

    requests_at_once = 1

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def read(self, path: str) -> bytes:
        return self.files[path]

    def create(self, path: str, data: bytes) -> bool:
        return self.files.setdefault(path, data) is data

    def delete(self, path: str) -> None:
        self.files.pop(path, None)


MEMORY = replace(manifests(Path("/t"), TEXT), storage=MemoryStore())  # type: ignore[arg-type]


class SlowStorage(LocalStorage):
    """Answers, as an object store does, after a while: once two are asking."""

    both = Barrier(2, timeout=60)

    @property
    def requests_at_once(self) -> int:
        return 8

    def read(self, path: str) -> bytes:
        self.both.wait()
        return super().read(path)


def test_a_slow_store_is_asked_for_several_files_at_once(tmp_path: Path) -> None:
    store = replace(manifests(tmp_path), storage=SlowStorage(durable=False))
    first, second = (store.write([entry(name)], schema_id=0)[0] for name in "ab")
    found = store.live(snapshot_of(store, [first], [second]))
    assert [e.file.file_name for e in found] == ["a", "b"]


@given(histories(), st.integers(1, 4), st.sampled_from([1, 4000, 2**40]), st.sampled_from([1, 3000, 2**40]))
@settings(max_examples=examples(60))
def test_merging_never_changes_the_live_files(
    commits: list[list[ManifestEntry]], count_min: int, full_bytes: int, target_bytes: int
) -> None:
    options = {
        "manifest.merge-min-count": str(count_min),
        "manifest.full-compaction-threshold-size": f"{full_bytes} b",
        "manifest.target-file-size": f"{target_bytes} b",
    }
    store = replace(MEMORY, options=TableOptions.from_dict(options))
    expected: list[ManifestEntry] = []
    base: tuple[ManifestFile, ...] = ()
    for changes in commits:
        base = store.merge((*base, *store.write(changes, schema_id=0))).files
        expected = merge_entries([*expected, *changes])
        found = merge_entries([e for manifest in base for e in store.read(manifest)])
        assert sorted(e.file.file_name for e in found) == sorted(e.file.file_name for e in expected)
        assert {e.identity for e in found} == {e.identity for e in expected}
        assert all(e.kind == ADD for e in found)
