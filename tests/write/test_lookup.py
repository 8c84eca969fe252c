"""Looking keys up in the index of dynamic buckets: every key that was written is found in its bucket, and no other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakewright.formats.hash_index import Hashes
from lakewright.spec.manifest import EMPTY_ROW
from lakewright.write.dynamic_buckets import NEW, DynamicRouter, HashFiles, KeyLookup
from support.bucket_tables import commit_index, keyed_store, new_task, with_kinds

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64()})


@pytest.mark.parametrize("kept", [0, 300, 1 << 20])
@pytest.mark.parametrize("per_bucket", [7, 40, 5000])
def test_each_hash_is_found_where_the_index_has_it(tmp_path: Path, per_bucket: int, kept: int) -> None:
    chance = np.random.default_rng(per_bucket)
    store = keyed_store(tmp_path, SCHEMA, (["k"], []), {"dynamic-bucket.target-row-num": str(per_bucket)})
    keys = chance.integers(0, 1 << 60, 300)
    router = DynamicRouter(new_task(store))
    router.route(with_kinds(pa.table([keys, keys], schema=SCHEMA)))
    commit_index(store, router.finish())
    snapshot = store.snapshots.latest()
    files = HashFiles.of_snapshot(store, snapshot)
    known = {
        hash_: bucket for bucket, some in files.read(files.of_partition(EMPTY_ROW)).items() for hash_ in some.tolist()
    }
    assert len(known) == 300
    lookup = KeyLookup(store, snapshot, kept_bytes_max=kept)
    edges = [-(1 << 31), (1 << 31) - 1, -1, 0]
    for count in (0, 1, 50, 1000):
        asked: Hashes = np.concatenate(
            [
                chance.choice([*known], count).astype(np.int32),
                chance.integers(-(1 << 31), 1 << 31, count).astype(np.int32),
                np.array(edges, np.int32),
            ]
        )
        chance.shuffle(asked)
        assert lookup.buckets(EMPTY_ROW, asked).tolist() == [known.get(hash_, NEW) for hash_ in asked.tolist()]
    assert lookup.buckets(b"elsewhere", np.array([1], np.int32)).tolist() == [NEW]
    assert KeyLookup(store, None).buckets(EMPTY_ROW, np.array([*known], np.int32)).tolist() == [NEW] * 300
