"""From locations to storages."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.faulty_storage import MemoryStorage
from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.object_storage import ObjectStorage
from lakewright.storage.storage_registry import open_storage


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/lake", "/lake"),
        ("/lake/", "/lake"),
        ("//lake//sales", "/lake/sales"),
        ("/lake/./a/../b", "/lake/b"),
        ("file:/lake", "/lake"),
        ("file:///lake/a b", "/lake/a b"),
        ("file://localhost/lake", "/lake"),
        ("/lake/a%20b", "/lake/a%20b"),
    ],
)
def test_local_locations_have_one_spelling(location: str, path: str) -> None:
    assert open_storage(location, {}) == (LocalStorage(), path)


def test_relative_locations_start_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_storage("lake/x", {}) == (LocalStorage(), f"{tmp_path}/lake/x")
    assert open_storage("../x", {}) == (LocalStorage(), f"{tmp_path.parent}/x")


def test_durability_is_an_option() -> None:
    assert open_storage("/x", {"lakewright.durable": "False"}) == (LocalStorage(durable=False), "/x")
    with pytest.raises(InvalidInputError, match=r"lakewright\.durable"):
        open_storage("/x", {"lakewright.durable": "maybe"})


@pytest.mark.parametrize(
    ("location", "url", "path"),
    [
        ("s3://lake/a/b", "s3://lake", "s3://lake/a/b"),
        ("s3a://lake/a/", "s3://lake", "s3://lake/a"),
        ("S3N://lake", "s3://lake", "s3://lake"),
        ("gs://lake/a", "gs://lake", "gs://lake/a"),
        ("az://files/a", "az://files", "az://files/a"),
        (
            "abfss://f@a.dfs.core.windows.net/x",
            "abfss://f@a.dfs.core.windows.net",
            "abfss://f@a.dfs.core.windows.net/x",
        ),
    ],
)
def test_object_locations_have_one_spelling(location: str, url: str, path: str) -> None:
    assert open_storage(location, {}) == (ObjectStorage(url), path)


@pytest.mark.parametrize("location", ["obs://lake/x", "ofs://name/x", "http://x/y", "ftp://x"])
def test_other_stores_are_refused_with_a_list_of_what_works(location: str) -> None:
    with pytest.raises(UnsupportedError, match="s3:"):
        open_storage(location, {})


@pytest.mark.parametrize(
    "location", ["", "s3://", "s3:///x", "s3://lake/a/../b", "s3://lake//b", "file:x", "file://host/x", "a\nb", "/a\0b"]
)
def test_what_names_no_place_is_refused(location: str) -> None:
    with pytest.raises(InvalidInputError):
        open_storage(location, {})


def test_keys_in_a_location_are_refused_and_not_shown() -> None:
    with pytest.raises(InvalidInputError) as raised:
        open_storage("s3://AKIA:hush@lake/x", {})
    assert "hush" not in str(raised.value)


def test_memory_is_opened_by_name() -> None:
    assert open_storage("memory://proof/lake/", {}) == (MemoryStorage("proof"), "memory://proof/lake")
    assert open_storage("memory://proof", {"lakewright.durable": "false"})[0] == MemoryStorage("proof", durable=False)
