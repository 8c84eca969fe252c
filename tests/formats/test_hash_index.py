from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.errors import CorruptTableError
from lakewright.formats.hash_index import decode_hashes, encode_hashes
from lakewright.spec.bucket_hash import row_hashes
from lakewright.spec.manifest import HASH, IndexFile
from lakewright.spec.scalars import to_array
from support.golden import expected
from support.read_tables import golden_store

_INT32 = st.integers(-(2**31), 2**31 - 1)


def _facts(data: bytes, rows: int) -> IndexFile:
    return IndexFile(HASH, "index-a-0", len(data), rows)


@given(st.sets(_INT32, max_size=50))
def test_what_was_encoded_comes_back(numbers: set[int]) -> None:
    data = encode_hashes(np.array(list(numbers), np.int32))
    assert data == b"".join(n.to_bytes(4, "big", signed=True) for n in numbers)
    decoded = decode_hashes(data, _facts(data, len(numbers)), path="index/index-a-0")
    assert decoded.dtype == np.int32
    assert decoded.tolist() == list(numbers)


@pytest.mark.parametrize(("size", "rows"), [(4, 2), (8, 1), (7, 2), (0, 1), (4, 0)])
def test_a_file_of_another_length_than_recorded_is_damage(size: int, rows: int) -> None:
    with pytest.raises(CorruptTableError, match=r"index/index-a-0 .* key hashes") as caught:
        decode_hashes(bytes(size), _facts(bytes(size), rows), path="index/index-a-0")
    assert caught.value.files == ("index-a-0",)


def test_java_keeps_the_hash_of_every_key_in_the_file_of_its_bucket() -> None:
    store = golden_store("pk.dynamic_bucket")
    snapshot = store.snapshots.latest()
    assert snapshot is not None
    assert snapshot.index_manifest is not None
    found: dict[int, int] = {}
    for entry in store.manifests.read_index(snapshot.index_manifest):
        path = store.layout.index_file(entry.file)
        hashes = decode_hashes(store.storage.read(path), entry.file, path=path)
        found |= dict.fromkeys(hashes.tolist(), entry.bucket)
    pool = expected()["pk.dynamic_bucket"]["pool"]
    key = store.schema.field("k").type
    hashes = row_hashes([to_array([row[0] for row in pool], key)], [key])
    assert found.keys() == set(hashes.tolist())
    assert sorted(found.values()) == [0] * 5 + [1] * 5 + [2] * 5 + [3] * 3
