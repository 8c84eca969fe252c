from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from lakewright.errors import CorruptTableError, InvalidInputError, TagAlreadyExistException, TagNotExistException
from lakewright.metadata.refs import Tags, branches
from lakewright.spec.snapshot import CommitKind, Snapshot, Tag, to_json
from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.table_layout import Layout

ONE = Snapshot(1, 0, "b", "d", "user", 1, CommitKind.APPEND, 1000)
TWO = Snapshot(2, 0, "b", "d", "user", 1, CommitKind.APPEND, 2000)
NOON = datetime(2026, 11, 15, 12, 0)  # noqa: DTZ001 - the format wants the wall clock


@pytest.fixture
def tags(tmp_path: Path) -> Tags:
    made = Tags(LocalStorage(durable=False), Layout(str(tmp_path)))
    for snapshot in (ONE, TWO):
        made.storage.create(made.layout.snapshot_file(snapshot.id), to_json(snapshot).encode())
    return made


def test_tags_are_created_found_listed_and_deleted(tags: Tags) -> None:
    assert tags.list() == []
    assert tags.create("v2", TWO) == Tag("v2", TWO)
    tags.create("v 1/ü".replace("/", "-"), ONE, time_retained_millis=1500, create_time=NOON)
    assert tags.list() == ["v 1-ü", "v2"]
    assert tags.get("v 1-ü") == Tag("v 1-ü", ONE, NOON, timedelta(milliseconds=1500))
    assert [tag.snapshot.id for tag in tags.all()] == [1, 2]
    tags.delete("v2")
    assert tags.list() == ["v 1-ü"]


def test_an_existing_tag_is_never_overwritten_by_creating_it(tags: Tags) -> None:
    tags.create("v", ONE)
    with pytest.raises(TagAlreadyExistException, match="'v' already"):
        tags.create("v", TWO)
    assert tags.create("v", TWO, ignore_if_exists=True).snapshot == ONE
    assert tags.get("v").snapshot == ONE


def test_a_missing_tag_is_told_with_those_there_are(tags: Tags) -> None:
    with pytest.raises(TagNotExistException, match="it has no tags"):
        tags.get("v")
    tags.create("a", ONE)
    tags.create("b", ONE)
    for call in (tags.get, tags.delete, lambda name: tags.rename(name, "w"), lambda name: tags.replace(name, ONE)):
        with pytest.raises(TagNotExistException, match="its tags are a, b") as caught:
            call("v")
        assert caught.value.tags == ("a", "b")


def test_renaming_keeps_everything_and_takes_no_other_tag_away(tags: Tags) -> None:
    tags.create("a", ONE, time_retained_millis=1000, create_time=NOON)
    tags.create("b", TWO)
    with pytest.raises(TagAlreadyExistException):
        tags.rename("a", "b")
    tags.rename("a", "c")
    assert tags.list() == ["b", "c"]
    assert tags.get("c") == Tag("c", ONE, NOON, timedelta(seconds=1))


def test_a_tag_can_be_replaced(tags: Tags) -> None:
    tags.create("a", ONE)
    tags.replace("a", TWO, time_retained_millis=1000, create_time=NOON)
    assert tags.get("a") == Tag("a", TWO, NOON, timedelta(seconds=1))


def test_a_tag_that_expires_begins_now_unless_told(tags: Tags) -> None:
    before = datetime.now()  # noqa: DTZ005
    tag = tags.create("a", ONE, time_retained_millis=1000)
    assert tag.create_time is not None
    assert before <= tag.create_time <= datetime.now()  # noqa: DTZ005
    assert tags.get("a") == tag


@pytest.mark.parametrize("name", ["", " ", "a/b", "..", "a\\b", "a\0b", "x" * 300])
def test_hostile_names_are_refused(tags: Tags, name: str) -> None:
    with pytest.raises(InvalidInputError):
        tags.create(name, ONE)
    with pytest.raises(InvalidInputError):
        tags.get(name)


def test_a_negative_time_is_refused(tags: Tags) -> None:
    with pytest.raises(InvalidInputError, match="-1 ms"):
        tags.create("a", ONE, time_retained_millis=-1)


def test_a_damaged_tag_is_named(tags: Tags, tmp_path: Path) -> None:
    tags.create("a", ONE)
    (tmp_path / "tag" / "tag-a").write_text("{")
    with pytest.raises(CorruptTableError, match="tag-a"):
        tags.get("a")


def test_branches_are_the_directories_named_so(tmp_path: Path) -> None:
    storage, layout = LocalStorage(), Layout(str(tmp_path))
    assert branches(storage, layout) == []
    for name in ("branch-b", "branch-a", "other", "branch-"):
        (tmp_path / "branch" / name).mkdir(parents=True)
    assert branches(storage, layout) == ["a", "b"]
