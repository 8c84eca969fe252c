"""An append asks whether it was committed before by writing its marker: the answer must hold on every kind of store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakewright.commit.commit_changes import append_change
from lakewright.commit.commit_search import marker_of
from lakewright.errors import CommitContentionError
from lakewright.spec.snapshot import MAX_LONG
from support.commits import Hooked, committer, live_names, message, metadata_names, new_store, used_metadata_names


class Doubtful(Hooked):
    """A store whose every reply to a put got lost: what stands there afterwards tells who won, by its bytes alone."""

    def create(self, path: str, data: bytes) -> bool:
        return self.inner.create(path, data) or self.inner.read(path) == data


def test_a_replay_is_found_though_the_reply_to_its_marker_was_lost(tmp_path: Path) -> None:
    plain = new_store(tmp_path)
    mine = message(plain, "a")
    first = committer(plain).commit([mine])
    committer(plain).commit([message(plain, "b")])
    doubtful = replace(plain, storage=Doubtful(plain.storage))  # type: ignore[arg-type]
    assert committer(doubtful).commit([mine]) == first
    assert plain.snapshots.ids() == [1, 2]
    assert live_names(plain) == ["a", "b"]


def test_a_replay_leaves_no_metadata(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    mine = message(store, "a")
    for name in ("b", "c"):
        committer(store).commit([message(store, name)])
    first = committer(store).commit([mine])
    committer(store).commit([message(store, "d")])
    assert committer(store).commit([mine]) == first
    assert metadata_names(store) == used_metadata_names(store)


def test_a_marker_that_nobody_published_does_not_stop_the_commit(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    committer(store).commit([message(store, "b")])
    mine = message(store, "a")
    change = append_change([mine], store.options.bucket)
    marker = marker_of([mine], MAX_LONG, change, change.kind)
    store.storage.create(store.layout.manifest_file(f"manifest-{marker}-0"), b"of somebody who died")
    assert committer(store).commit([mine])
    assert live_names(store) == ["a", "b"]


class Failing(Hooked):
    """A store on which another committer of the same messages gets through, and which then fails once."""

    def create(self, path: str, data: bytes) -> bool:
        if "manifest-list-" in path and self.before:
            self.before.pop()()
            raise OSError("the disk is gone for a moment")
        return self.inner.create(path, data)


def test_a_twin_that_published_under_another_name_is_found_after_a_failure(tmp_path: Path) -> None:
    """A and B hold the same messages; B meets A's marker and publishes; A fails, and tries again: one snapshot."""
    plain = new_store(tmp_path)
    committer(plain).commit([message(plain, "b")])
    mine = message(plain, "a")
    failing = Failing(plain.storage)
    failing.before = [lambda: committer(plain).commit([mine])]
    with pytest.raises(CommitContentionError):
        committer(replace(plain, storage=failing)).commit([mine])  # type: ignore[arg-type]
    assert plain.snapshots.ids() == [1, 2]
    again = committer(plain).commit([mine])
    assert again is not None
    assert again.id == 2
    assert plain.snapshots.ids() == [1, 2]
    assert live_names(plain) == ["a", "b"]
