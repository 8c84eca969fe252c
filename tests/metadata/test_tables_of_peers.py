"""The metadata of tables that pypaimon and pypaimon-rust wrote."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from lakewright.metadata.manifest_files import Manifests
from lakewright.metadata.refs import Tags
from lakewright.metadata.snapshot_files import SnapshotFiles
from lakewright.spec.binary_row import decode_row
from lakewright.spec.table_options import TableOptions
from lakewright.spec.types import AtomicType
from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.table_layout import Layout

STORAGE = LocalStorage()
PEERS = Path(__file__).parent / "peer_tables"


@pytest.mark.parametrize(
    ("name", "kind", "values"),
    [
        ("pypaimon", "STRING", {"x": 2, "y": 2, None: 2}),
        ("rust", "STRING", {"x": 4, "y" * 12: 4, None: 4}),
        ("rust_timestamp", "TIMESTAMP(6)", {1000: 4, None: 4, 1700000000123456000: 4}),
    ],
)
def test_tables_of_the_peers_are_read(name: str, kind: str, values: dict[object, int]) -> None:
    types = (AtomicType(kind),)
    layout = Layout(str(PEERS / name))
    snapshots, store = SnapshotFiles(STORAGE, layout), Manifests(STORAGE, layout, types, TableOptions.from_dict({}))
    latest = snapshots.latest()
    assert latest is not None
    live = store.live(latest)
    assert Counter(decode_row(e.partition, types)[0] for e in live) == values
    # Equal partitions have equal bytes, whatever the writer made of a null.
    assert len({e.partition for e in live}) == len(values)
    assert sum(e.file.row_count for e in live) == latest.total_record_count


def test_tags_of_a_peer_are_read() -> None:
    tags = Tags(STORAGE, Layout(str(PEERS / "pypaimon")))
    assert tags.list() == ["one", "ttl"]
    assert tags.get("one").snapshot.id == 1
    kept = tags.get("ttl").time_retained
    assert kept is not None
    assert kept.total_seconds() == 3600
