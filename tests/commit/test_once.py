"""Work that is known by user and identifier alone is committed once, whoever does it and with whatever files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from contract.fault_enumerator import stray_files
from lakewright.commit.commit_loop import FilePublisher
from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.committer import Committer
from lakewright.engine.engine_job import remove_leftovers
from lakewright.metadata.authority import Outcome
from lakewright.metadata.table_store import TableStore
from lakewright.spec.manifest import ManifestEntry
from lakewright.spec.snapshot import CommitKind, SeenSnapshot, Snapshot
from lakewright.write.table_writer import WriteJob
from support.keyed_tables import keyed_store
from support.write_tables import new_store

_SCHEMA = pa.schema({"id": pa.int64()})


def _written(store: TableStore, *, overwrite: bool = False) -> list[CommitMessage]:
    with WriteJob.new(store, overwrite=overwrite).open_writer() as writer:
        column = store.schema.field_names[0]
        writer.write(pa.table({column: [1, 2, 3]}))
        return writer.prepare()


def _id(snapshot: Snapshot | None) -> int:
    assert snapshot is not None
    return snapshot.id


def test_the_second_of_two_finds_the_first(tmp_path: Path) -> None:
    for store in (new_store(tmp_path / "append", _SCHEMA), keyed_store(tmp_path / "keyed")):
        first, second = _written(store), _written(store)
        commits = [Committer(store, commit_user="job", once_since=SeenSnapshot()) for _ in range(2)]
        assert _id(commits[0].commit(first, 7)) == 1
        assert _id(commits[1].commit(second, 7)) == 1
        assert store.snapshots.latest_id() == 1
        remove_leftovers(store, second[0].write_id)
        assert stray_files(store) == set()  # the metadata of the second is gone too


def test_an_overwrite_and_an_append_of_one_job_are_one(tmp_path: Path) -> None:
    store = new_store(tmp_path, _SCHEMA)
    assert (
        _id(Committer(store, commit_user="job", once_since=SeenSnapshot()).overwrite(_written(store, overwrite=True)))
        == 1
    )
    found = Committer(store, commit_user="job", once_since=SeenSnapshot()).commit(_written(store))
    assert found is not None
    assert (found.id, found.commit_kind) == (1, CommitKind.OVERWRITE)


def test_other_users_and_identifiers_are_not_the_same_commit(tmp_path: Path) -> None:
    store = new_store(tmp_path, _SCHEMA)
    Committer(store, commit_user="job").commit(_written(store), 1)
    assert _id(Committer(store, commit_user="job", once_since=SeenSnapshot()).commit(_written(store), 2)) == 2
    assert _id(Committer(store, commit_user="other", once_since=SeenSnapshot()).commit(_written(store), 1)) == 3
    assert (
        _id(
            Committer(store, commit_user="job", once_since=SeenSnapshot.of(store.snapshots.latest())).commit(
                _written(store), 1
            )
        )
        == 4
    )  # not looked at again


class _Overtaken:
    """Publishes snapshots, but the first time only after somebody else has published."""

    def __init__(self, store: TableStore, overtake: Callable[[], object]) -> None:
        self._inner = FilePublisher(store.storage, store.layout)
        self._overtake: Callable[[], object] | None = overtake

    def publish(self, snapshot: Snapshot, base: Snapshot | None, entries: Sequence[ManifestEntry] = ()) -> Outcome:
        overtake, self._overtake = self._overtake, None
        if overtake is not None:
            overtake()
        return self._inner.publish(snapshot, base, entries)


def test_the_loser_of_a_race_finds_the_winner(tmp_path: Path) -> None:
    """Somebody publishes the same work after the last look, so that only the race for the snapshot tells."""
    store = new_store(tmp_path, _SCHEMA)
    ours, theirs = _written(store), _written(store)
    late = _Overtaken(store, lambda: Committer(store, commit_user="job", once_since=SeenSnapshot()).commit(theirs, 7))
    slow = Committer(store, commit_user="job", once_since=SeenSnapshot(), publisher=late, sleep=lambda _: None)
    assert _id(slow.commit(ours, 7)) == 1
    assert store.snapshots.latest_id() == 1
    remove_leftovers(store, ours[0].write_id)
    assert stray_files(store) == set()
    assert {e.file.file_name for e in store.manifests.live(store.snapshots.get(1))} == {
        file.file_name for message in theirs for file in message.new_files
    }
