"""Dynamic buckets: index files are read lazily, written whole, and named as what a message builds upon."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from lakewright.errors import AlreadyExistsError, CommitConflictError, CorruptTableError, InvalidInputError
from lakewright.metadata.table_store import TableStore
from lakewright.spec.binary_row import encode_row
from lakewright.spec.bucket_hash import row_hashes
from lakewright.spec.manifest import EMPTY_ROW, HASH
from lakewright.write.bucket_assignment import Assigner
from lakewright.write.bucket_routing import IndexChange, RowGroup
from lakewright.write.dynamic_buckets import DynamicRouter, HashFiles, hash_file_path
from lakewright.write.write_task import PartitionBucket
from support.bucket_tables import commit_index, keyed_store, new_task, with_kinds
from support.read_tables import golden_store

SCHEMA = pa.schema([pa.field("p", pa.string()), pa.field("k", pa.int64()), pa.field("v", pa.int64())])
SMALL = {"dynamic-bucket.target-row-num": "10"}


@pytest.fixture
def store(tmp_path: Path) -> TableStore:
    return keyed_store(tmp_path, SCHEMA, (["p", "k"], ["p"]), SMALL)


def rows(keys: range | list[int], partition: str = "a") -> pa.Table:
    return with_kinds(pa.table([[partition] * len(keys), list(keys), list(keys)], schema=SCHEMA))


def part(name: str, store: TableStore) -> bytes:
    return encode_row((name,), store.partition_types)


def keys_by_place(groups: list[RowGroup]) -> dict[PartitionBucket, list[int]]:
    return {(g.partition, g.bucket): g.rows["k"].to_pylist() for g in groups}


def live(store: TableStore, partition: bytes) -> dict[int, list[int]]:
    files = HashFiles.newest(store)
    return {b: h.tolist() for b, h in files.read(files.of_partition(partition)).items()}


def new_names(changes: Mapping[PartitionBucket, IndexChange]) -> dict[PartitionBucket, list[str]]:
    return {place: [f.file_name for f in change.new_index_files] for place, change in changes.items()}


def test_new_keys_fill_buckets_and_known_keys_find_theirs(store: TableStore) -> None:
    a, b = part("a", store), part("b", store)
    router = DynamicRouter(new_task(store))
    mixed = pa.concat_tables([rows(range(15), "a"), rows(range(100, 103), "b"), rows([3, 20], "a")])
    assert keys_by_place(router.route(mixed)) == {
        (a, 0): [*range(10), 3],
        (a, 1): [10, 11, 12, 13, 14, 20],
        (b, 0): [100, 101, 102],
    }
    changes = router.finish()
    assert changes.keys() == {(a, 0), (a, 1), (b, 0)}
    assert all(change.hash_base == () for change in changes.values())
    commit_index(store, changes)
    assert {bucket: len(hashes) for bucket, hashes in live(store, a).items()} == {0: 10, 1: 6}

    again = DynamicRouter(new_task(store))
    assert keys_by_place(again.route(rows([14, 3, 77]))) == {(a, 0): [3], (a, 1): [14, 77]}
    later = again.finish()
    assert [len(later[a, n].new_index_files) for n in (0, 1)] == [0, 1]
    first = {names[0] for (where, _), names in new_names(changes).items() if where == a}
    assert all(change.hash_base == tuple(sorted(first)) for change in later.values())
    commit_index(store, later)
    assert {bucket: len(hashes) for bucket, hashes in live(store, a).items()} == {0: 10, 1: 7}


def test_two_writers_of_one_partition_do_not_both_commit(store: TableStore) -> None:
    one, two, other = (DynamicRouter(new_task(store)) for _ in range(3))
    one.route(rows(range(5)))
    two.route(rows(range(3, 8)))
    other.route(rows(range(5), "b"))
    commit_index(store, one.finish())
    commit_index(store, other.finish())  # another partition
    with pytest.raises(CommitConflictError):
        commit_index(store, two.finish())


def test_a_stream_builds_upon_its_own_commits_even_before_they_happen(store: TableStore) -> None:
    router = DynamicRouter(new_task(store))
    prepared = []
    for start in range(0, 12, 3):
        router.route(rows(range(start, start + 3)))
        prepared.append(router.finish())
    for changes in prepared:
        commit_index(store, changes)
    router.route(rows(range(12, 15)))
    commit_index(store, router.finish())
    assert {bucket: len(hashes) for bucket, hashes in live(store, part("a", store)).items()} == {0: 10, 1: 5}


def test_a_stream_reads_again_what_others_committed_in_between(store: TableStore) -> None:
    router = DynamicRouter(new_task(store))
    router.route(rows(range(8)))
    commit_index(store, router.finish())
    other = DynamicRouter(new_task(store))
    other.route(rows(range(8, 12)))
    commit_index(store, other.finish())
    a = part("a", store)
    assert keys_by_place(router.route(rows([11, 9, 50]))) == {(a, 0): [9], (a, 1): [11, 50]}
    commit_index(store, router.finish())
    assert {bucket: len(hashes) for bucket, hashes in live(store, a).items()} == {0: 10, 1: 3}


def test_an_overwrite_starts_from_nothing(store: TableStore) -> None:
    a = part("a", store)
    router = DynamicRouter(new_task(store))
    router.route(rows(range(25)))
    commit_index(store, router.finish())
    router = DynamicRouter(new_task(store, overwrite=True))
    assert keys_by_place(router.route(rows([24, 23]))) == {(a, 0): [24, 23]}
    router.route(rows([22]))
    changes = router.finish()
    assert changes[a, 0].hash_base is None
    assert changes[a, 0].new_index_files[0].row_count == 3


def test_index_files_lie_beside_the_data_where_the_table_says_so(tmp_path: Path) -> None:
    store = keyed_store(tmp_path, SCHEMA, (["p", "k"], ["p"]), {"index-file-in-data-file-dir": "true"})
    router = DynamicRouter(new_task(store))
    router.route(rows([1]))
    changes = router.finish()
    ((place, change),) = changes.items()
    assert hash_file_path(store, place, change.new_index_files[0]).startswith(f"{tmp_path}/p=a/bucket-0/index-")
    commit_index(store, changes)
    assert len(live(store, place[0])[0]) == 1


def test_an_index_file_that_cannot_be_written_takes_the_others_with_it(store: TableStore, tmp_path: Path) -> None:
    task = new_task(store)
    router = DynamicRouter(task)
    router.route(rows(range(30)))
    taken = tmp_path / "index" / f"index-{task.stem}-1"
    taken.parent.mkdir()
    taken.write_bytes(b"somebody else's")
    with pytest.raises(AlreadyExistsError, match="there already"):
        router.finish()
    assert list(taken.parent.iterdir()) == [taken]


def test_a_missing_index_file_is_damage(store: TableStore, tmp_path: Path) -> None:
    router = DynamicRouter(new_task(store))
    router.route(rows([1]))
    commit_index(store, router.finish())
    (path,) = (tmp_path / "index").iterdir()
    path.unlink()
    with pytest.raises(CorruptTableError, match=rf"{path.name} is missing"):
        DynamicRouter(new_task(store)).route(rows([1]))


def test_nobody_chooses_a_dynamic_bucket(store: TableStore) -> None:
    with pytest.raises(InvalidInputError, match="buckets are dynamic"):
        DynamicRouter(new_task(store)).route(rows([1]), bucket=0)


def test_nothing_in_nothing_out(store: TableStore) -> None:
    router = DynamicRouter(new_task(store))
    assert router.route(rows([])) == []
    assert router.finish() == {}
    assert router.total_buckets(EMPTY_ROW) is None


def test_several_assigners_of_one_commit_share_the_work(store: TableStore) -> None:
    a = part("a", store)
    table = rows(range(200))
    for keys in (table, pa.concat_tables([table, rows(range(200, 230))])):
        changes: dict[PartitionBucket, IndexChange] = {}
        for number in range(3):
            router = DynamicRouter(new_task(store), Assigner(number, 3))
            mine = keys.filter(pa.array(_assigner_of(keys, store) == number))
            assert {g.bucket % 3 for g in router.route(mine)} == {number}
            mine_changes = router.finish()
            assert not changes.keys() & mine_changes.keys()
            changes |= mine_changes
        commit_index(store, changes)
    assert sum(map(len, live(store, a).values())) == 230


def _assigner_of(table: pa.Table, store: TableStore) -> npt.NDArray[np.int32]:
    key = store.schema.field("k").type
    return np.abs(np.fmod(row_hashes([table["k"]], [key]), 3))


def test_keys_of_a_table_of_javas_go_to_javas_buckets() -> None:
    store = golden_store("pk.dynamic_bucket")
    snapshot = store.snapshots.latest()
    assert snapshot is not None
    assert snapshot.index_manifest is not None
    assert {e.file.index_type for e in store.manifests.read_index(snapshot.index_manifest)} == {HASH}
    values = pa.table({"k": pa.array([24, 35, 18, 39, 93], pa.int32())})
    groups = DynamicRouter(new_task(store)).route(with_kinds(values))
    found = {key: g.bucket for g in groups for key in g.rows["k"].to_pylist()}
    # The order in which Java got the keys is that of the first snapshot's delta.
    assert found == {24: 0, 35: 1, 18: 2, 39: 2, 93: 1}
