"""The metadata of tables that Java, pypaimon and pypaimon-rust wrote."""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewright.metadata.manifest_records import manifest_facts
from lakewright.metadata.manifests import Manifests
from lakewright.metadata.refs import Tags, branches
from lakewright.metadata.snapshots import Snapshots
from lakewright.spec.datafile import DELETION_VECTORS
from lakewright.spec.manifest import ADD
from lakewright.spec.options import CoreOptions
from lakewright.spec.rows.binary_row import decode_row
from lakewright.spec.types import AtomicType, DataField, DataType, parse_type
from lakewright.spec.values import to_array
from lakewright.storage.layout import Layout
from lakewright.storage.local import LocalStorage
from support.golden import WAREHOUSE, expected, spelled

STORAGE = LocalStorage()
PEERS = Path(__file__).parent / "peer_tables"

golden = pytest.mark.skipif(not WAREHOUSE.exists(), reason="the golden tables are not here")
every_table = pytest.mark.parametrize("name", sorted(expected()) if WAREHOUSE.exists() else [])


def partition_types(spec: dict[str, Any]) -> tuple[DataType, ...]:
    types = {name: text for _, name, text in spec["columns"]}
    return tuple(parse_type(types[key]) for key in spec["partitionKeys"])


def spelled_partition(partition: bytes, types: tuple[DataType, ...]) -> list[Any]:
    fields = [DataField(n, f"p{n}", dtype) for n, dtype in enumerate(types)]
    values = decode_row(partition, types)
    columns = [to_array([value], field.type) for value, field in zip(values, fields, strict=True)]
    return spelled(pa.table(columns, [field.name for field in fields]), fields)[0] if fields else []


def opened(name: str, branch: str = "main") -> tuple[Snapshots, Manifests, Tags]:
    database, table = name.split(".")
    layout = Layout(str(WAREHOUSE / f"{database}.db" / table), branch)
    spec = expected()[name]
    store = Manifests(STORAGE, layout, partition_types(spec), CoreOptions.from_dict(spec["options"]))
    return Snapshots(STORAGE, layout), store, Tags(STORAGE, layout)


@golden
@every_table
def test_live_files_are_what_java_says(name: str) -> None:
    snapshots, store, _ = opened(name)
    latest = snapshots.latest()
    live = [] if latest is None else store.live(latest)
    found = [
        {
            "partition": spelled_partition(e.partition, store.partition_types),
            "bucket": e.bucket,
            "totalBuckets": e.total_buckets,
            "level": e.file.level,
            "file": e.file.file_name,
            "rows": e.file.row_count,
            "deletes": e.file.delete_row_count,
            "seq": [e.file.min_sequence_number, e.file.max_sequence_number],
            "schemaId": e.file.schema_id,
        }
        for e in live
    ]
    wanted = expected()[name].get("files", [])
    by_file = itemgetter("file", "level")
    assert sorted(found, key=by_file) == sorted(wanted, key=by_file)


@golden
@every_table
def test_snapshots_and_all_their_manifests_are_read(name: str) -> None:
    snapshots, store, tags = opened(name)
    wanted = [(s["id"], s["kind"], s["schemaId"], s["totalRecordCount"]) for s in expected()[name]["snapshots"]]
    found = [snapshots.get(number) for number in snapshots.ids()]
    assert [(s.id, s.commit_kind, s.schema_id, s.total_record_count) for s in found] == wanted
    for snapshot in found:
        rows = sum(e.file.row_count * (1 if e.kind == ADD else -1) for e in store.delta(snapshot))
        assert rows == snapshot.delta_record_count
        assert sum(e.file.row_count for e in store.live(snapshot)) == snapshot.total_record_count
        changelog = store.changelog(snapshot)
        assert sum(e.file.row_count for e in changelog) == (snapshot.changelog_record_count or 0)
        if snapshot.index_manifest is not None:
            for entry in store.read_index(snapshot.index_manifest):
                ranges = entry.file.deletion_ranges or ()
                assert entry.file.index_type != DELETION_VECTORS or len(ranges) == entry.file.row_count
    assert tags.list() == sorted(expected()[name].get("tags", {}))
    assert len(tags.all()) == len(tags.list())
    assert branches(STORAGE, store.layout) == sorted(expected()[name].get("branches", {}))


@golden
@every_table
def test_facts_of_manifests_are_those_java_wrote(name: str) -> None:
    snapshots, store, _ = opened(name)
    for number in snapshots.ids():
        for manifest in store.files_of(snapshots.get(number)):
            ours = manifest_facts(
                store.read(manifest),
                store.partition_types,
                name=manifest.file_name,
                size=manifest.file_size,
                schema_id=0,
            )
            assert ours == manifest


@golden
def test_tags_with_and_without_time_to_live() -> None:
    tags = opened("meta.tags")[2].all()
    assert Counter(tag.time_retained is None for tag in tags) == {True: 2, False: 1}
    assert all((tag.create_time is None) == (tag.time_retained is None) for tag in tags)


@golden
def test_a_branch_is_read_from_its_own_directory() -> None:
    snapshots, store, _ = opened("meta.branch", "b1")
    latest = snapshots.latest()
    assert latest is not None
    assert store.live(latest)


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
    snapshots, store = Snapshots(STORAGE, layout), Manifests(STORAGE, layout, types, CoreOptions.from_dict({}))
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
