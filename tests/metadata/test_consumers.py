"""Consumers: positions are recorded, found, listed and forgotten; what cannot be understood is never guessed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakewright.errors import CorruptTableError, InvalidInputError
from lakewright.metadata.refs import Consumers
from lakewright.metadata.snapshot_files import Changelogs
from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.table_layout import Layout
from support.golden import WAREHOUSE


@pytest.fixture
def consumers(tmp_path: Path) -> Consumers:
    return Consumers(LocalStorage(durable=False), Layout(str(tmp_path)), sleep=lambda _: None)


def test_positions_are_recorded_found_listed_and_forgotten(consumers: Consumers) -> None:
    assert consumers.list() == []
    assert consumers.min_next_snapshot() is None
    assert consumers.next_snapshot("a") is None
    consumers.record("b 1", 7)
    consumers.record("a", 9)
    consumers.record("a", 12)
    assert consumers.list() == ["a", "b 1"]
    assert consumers.all() == {"a": 12, "b 1": 7}
    assert consumers.next_snapshot("a") == 12
    assert consumers.min_next_snapshot() == 7
    consumers.delete("b 1")
    consumers.delete("b 1")
    assert consumers.min_next_snapshot() == 12


def test_a_consumer_of_java_is_read() -> None:
    consumers = Consumers(LocalStorage(), Layout(str(WAREHOUSE / "meta.db" / "consumer")))
    assert consumers.all() == {"reader 1": 3}
    assert consumers.min_next_snapshot() == 3


@pytest.mark.parametrize("name", ["", "  ", "a/b", "..\\x", "a\0", "x" * 300])
def test_ids_that_cannot_be_files_are_refused(consumers: Consumers, name: str) -> None:
    for call in (consumers.next_snapshot, consumers.delete, lambda n: consumers.record(n, 1)):
        with pytest.raises(InvalidInputError):
            call(name)


def test_a_position_before_the_first_snapshot_is_refused(consumers: Consumers) -> None:
    with pytest.raises(InvalidInputError, match="count from 1"):
        consumers.record("a", 0)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"{}", b'{"nextSnapshot": 0}', b'{"nextSnapshot": true}', b'["x"]', b"{1}"]
)
def test_a_damaged_file_is_an_error_and_no_guess(consumers: Consumers, body: bytes, tmp_path: Path) -> None:
    consumers.record("good", 5)
    (tmp_path / "consumer" / "consumer-bad").write_bytes(body)
    with pytest.raises(CorruptTableError, match="consumer-bad"):
        consumers.next_snapshot("bad")
    with pytest.raises(CorruptTableError):
        consumers.min_next_snapshot()


def test_a_file_that_is_just_being_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "consumer" / "consumer-slow"
    path.parent.mkdir()
    path.write_bytes(b'{"nextSn')
    consumers = Consumers(
        LocalStorage(), Layout(str(tmp_path)), sleep=lambda _: void(path.write_bytes(b'{"nextSnapshot":4}\n'))
    )
    assert consumers.next_snapshot("slow") == 4


def void(_: object) -> None:
    """Forget a result."""


def test_consumers_that_recorded_nothing_for_long_are_forgotten(consumers: Consumers, tmp_path: Path) -> None:
    consumers.record("old", 1)
    consumers.record("new", 2)
    os.utime(tmp_path / "consumer" / "consumer-old", (1000, 1000))
    assert consumers.expire(older_than_millis=2_000_000) == ("old",)
    assert consumers.all() == {"new": 2}


def test_long_lived_changelogs_are_found(tmp_path: Path) -> None:
    changelogs = Changelogs(LocalStorage(), Layout(str(WAREHOUSE / "changelog.db" / "decoupled")))
    assert changelogs.ids() == [1]
    found = changelogs.find(1)
    assert found is not None
    assert (found.id, found.changelog_record_count) == (1, 4)
    assert changelogs.find(2) is None
    (tmp_path / "changelog").mkdir()
    body = Path(changelogs.layout.changelog_file(1)).read_bytes()
    (tmp_path / "changelog" / "changelog-7").write_bytes(body)
    with pytest.raises(CorruptTableError, match="the file of snapshot 1"):
        Changelogs(LocalStorage(), Layout(str(tmp_path))).find(7)
