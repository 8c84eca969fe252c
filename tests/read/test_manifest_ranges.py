"""Manifests that a scan skips by the buckets, levels and row ids in the manifest list: it finds the same files."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakewright.formats import avro_columns
from lakewright.metadata import manifest_files as manifests_module
from lakewright.metadata.manifest_files import CACHE
from lakewright.metadata.table_store import TableStore
from lakewright.read.manifest_scan import entry_pruner, scan
from lakewright.read.pruning import ManifestRanges
from lakewright.spec.binary_row import encode_row
from lakewright.spec.manifest import DELETE, ManifestEntry, ManifestFile, SimpleStats
from lakewright.spec.predicate import TRUE, Predicate, PredicateBuilder
from lakewright.spec.snapshot import CommitKind, Snapshot
from support.effort import each_once, examples
from support.facts import data_file
from support.read_tables import new_table

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])


def snapshot_of(store: TableStore, written: Sequence[ManifestFile]) -> Snapshot:
    names = [store.manifests.write_list(files) for files in (written, [])]
    return Snapshot(1, 0, names[0][0], names[1][0], "u", 1, CommitKind.APPEND, 1, 3, None, names[0][1], names[1][1])


def unbounded(manifest: ManifestFile) -> ManifestFile:
    """Return a manifest of which the list records no bounds, so that it is read."""
    return replace(
        manifest, min_bucket=None, max_bucket=None, min_level=None, max_level=None, min_row_id=None, max_row_id=None
    )


def histories(chance: random.Random, store: TableStore, *, keyed: bool) -> list[list[ManifestEntry]]:
    """Return the entries of several manifests; files are deleted in later ones, or go up to another level."""
    types = [field.type for field in store.schema.trimmed_primary_key_fields]
    live: list[ManifestEntry] = []
    found: list[list[ManifestEntry]] = []
    for number in range(6):
        fresh = []
        for at in range(4):
            first = chance.randrange(40)
            keys = [encode_row([n], types) if keyed else bytes(12) for n in (first, first + 2)]
            file = replace(
                data_file(f"data-{number}-{at}", level=chance.choice([0, 0, 3]) if keyed else 0),
                min_key=keys[0],
                max_key=keys[1],
                key_stats=SimpleStats(keys[0], keys[1], (0,) if keyed else ()),
                first_row_id=None if keyed else (number * 4 + at) * 3,
            )
            buckets, total = ([chance.randrange(4)], 4) if keyed else ([0], -1)
            bucket = -2 if keyed and chance.random() < 0.2 else buckets[0]
            fresh.append(ManifestEntry(0, bytes(12), bucket, total, file))
        gone = chance.sample(live, min(len(live), 2))
        up = [replace(e, file=replace(e.file, level=5)) for e in gone[:1]] if keyed else []
        found.append([*(replace(entry, kind=DELETE) for entry in gone), *fresh, *up])
        live = [entry for entry in live if entry not in gone] + fresh + up
        if chance.random() < 0.5:  # of one bucket, or one level alone
            apart = [e for e in found[-1] if (e.bucket == 1 if chance.random() < 0.5 else e.file.level == 0)]
            found[-1] = [e for e in found[-1] if e not in apart]
            found.append(apart)
    return [entries for entries in found if entries]


def asked(chance: random.Random, store: TableStore, *, keyed: bool) -> Predicate:
    builder = PredicateBuilder(entry_pruner(store, TRUE).read_fields)
    name, value = ("k" if keyed else "_ROW_ID"), chance.randrange(80)
    return chance.choice([builder.equal, builder.less_than, builder.greater_or_equal])(name, value)


@pytest.mark.parametrize(("keyed", "columns"), each_once([False, True], [False, True]))
def test_skipped_manifests_hide_and_revive_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, keyed: bool, columns: bool
) -> None:
    if columns:
        monkeypatch.setattr(manifests_module, "_COLUMNS_MIN", 1)
        monkeypatch.setattr(avro_columns, "LANES_MIN", 0)
    options = {"bucket": "4", "deletion-vectors.enabled": "true"} if keyed else {"row-tracking.enabled": "true"}
    skipped = 0
    for seed in range(examples(25)):
        chance = random.Random(seed)
        store = new_table(tmp_path / str(seed), SCHEMA, [], options, primary_keys=["k"] if keyed else [])
        written = [store.manifests.write(some, schema_id=0)[0] for some in histories(chance, store, keyed=keyed)]
        bounded, plain = snapshot_of(store, written), snapshot_of(store, [unbounded(file) for file in written])
        for wanted in (TRUE, *(asked(chance, store, keyed=keyed) for _ in range(8))):
            CACHE.clear()
            found, expected = scan(store, bounded, wanted), scan(store, plain, wanted)
            assert found.entries == expected.entries, f"seed {seed}: {wanted}"
            assert keyed or found.funnel.files_total == expected.funnel.files_total, f"seed {seed}: {wanted}"
            skipped += expected.funnel.manifests_read - found.funnel.manifests_read
    assert skipped > 20


def test_buckets_are_asked_only_while_their_number_is_sure(tmp_path: Path) -> None:
    store = new_table(tmp_path, SCHEMA, [], {"bucket": "4", "bucket-key": "k"})
    one = PredicateBuilder(store.schema.fields).equal("k", 7)
    first = ManifestRanges.of(entry_pruner(store, one), store.schema)
    assert first.buckets is not None
    (bucket,) = first.buckets
    manifest = ManifestFile("m", 1, 1, 0, SimpleStats(), 0, bucket, bucket)
    assert first.may_match(manifest)
    assert not first.may_match(replace(manifest, min_bucket=bucket + 1, max_bucket=bucket + 1))
    assert first.may_match(replace(manifest, min_bucket=None, max_bucket=None))
    later = replace(store.schema, id=1)
    assert ManifestRanges.of(entry_pruner(store.with_schema(later), one), later).buckets is None
