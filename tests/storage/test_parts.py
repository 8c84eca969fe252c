"""Large objects are uploaded in parts: side by side, in bounded memory, and whole or not at all."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from lakewright.storage import object as object_module
from lakewright.storage.object import ObjectStorage
from lakewright.storage.object_client import PARTS_AT_ONCE
from support.part_store import PartStore, running_part_store

PART = 64 * 1024
PARTS = 40
DIES = """
import json, os, sys
from lakewright.storage import object as object_module
object_module.PART_BYTES = 65536
output = object_module.ObjectStorage("s3://b", json.loads(sys.argv[1])).open_output("s3://b/x")
for _ in range(20):
    output.write(bytes(65537))
os._exit(9)
"""


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[PartStore]:
    monkeypatch.setattr(object_module, "PART_BYTES", PART)
    with running_part_store() as running:
        yield running


def upload(store: PartStore) -> None:
    """Write an object as a writer of data files does."""
    output = ObjectStorage("s3://b", store.options).open_output("s3://b/x")
    try:
        for _ in range(PARTS):
            output.write(bytes(PART))
        output.close()
    except BaseException:
        output.discard()
        raise


def test_parts_are_sent_side_by_side_and_few_are_held(store: PartStore) -> None:
    store.wait_seconds = 0.1
    upload(store)
    assert store.objects == {"/b/x": PARTS * PART}
    assert 1 < store.under_way_max <= PARTS_AT_ONCE


@pytest.mark.parametrize("part", [1, 20, PARTS - 1, PARTS])
def test_if_a_part_is_refused_nothing_is_left(store: PartStore, part: int) -> None:
    store.refused = frozenset({part})
    with pytest.raises(OSError, match="s3://b/x"):
        upload(store)
    assert (store.objects, store.uploads) == ({}, set())
    assert store.aborted >= 1


def test_if_the_end_is_refused_nothing_is_left(store: PartStore) -> None:
    store.refuses_end = True
    with pytest.raises(OSError, match="s3://b/x"):
        upload(store)
    assert (store.objects, store.uploads) == ({}, set())
    assert store.aborted == 1


def test_if_the_process_dies_nothing_is_visible(store: PartStore) -> None:
    """The parts stay until a rule of the bucket removes them: nobody is left who could (docs/storage.md)."""
    command = [sys.executable, "-c", DIES, json.dumps(store.options)]
    died = subprocess.run(command, capture_output=True, text=True, check=False)
    assert died.returncode == 9, died.stderr
    assert store.objects == {}
    assert (len(store.uploads), store.aborted) == (1, 0)
    assert ObjectStorage("s3://b", store.options).size("s3://b/x") is None
