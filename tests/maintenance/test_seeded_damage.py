"""Seeded damage: each of many kinds is done to a copy of a sound table, and verification names it and the file.

Metadata is rewritten as a writer would write it, with everything but the damage in order, so that a finding can only
come from the damage. One of each kind runs per push; at night 500 do.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import lakewright as lw
from lakewright.formats.deletion_vectors import encode_deletion_vectors
from lakewright.maintenance.verify_findings import KINDS, VerifyResult
from lakewright.maintenance.verify_table import verify_table
from lakewright.metadata.table_store import TableStore
from lakewright.spec.binary_row import encode_row
from lakewright.spec.manifest import (
    ADD,
    DELETE,
    DELETION_VECTORS,
    HASH,
    DataFile,
    IndexEntry,
    IndexFile,
    ManifestEntry,
    ManifestFile,
    SimpleStats,
)
from lakewright.spec.snapshot import Snapshot, to_json
from lakewright.spec.types import AtomicType
from support.effort import is_thin
from support.verify_tables import make_table

DAMAGES = 500
OLD_SECONDS = 1_600_000_000


@dataclass(frozen=True)
class Subject:
    """A copy of a sound table."""

    root: Path

    @property
    def store(self) -> TableStore:
        return lw.open_table(str(self.root)).store

    @property
    def newest(self) -> Snapshot:
        found = self.store.snapshots.latest()
        assert found is not None
        return found

    def files(self, pattern: str) -> list[Path]:
        return sorted(path for path in self.root.glob(pattern) if path.is_file())

    def data_files(self) -> list[Path]:
        """Return the data files that the newest snapshot needs."""
        return sorted(Path(self.path_of(entry)) for entry in self.store.manifests.live(self.newest))

    def path_of(self, entry: ManifestEntry) -> str:
        directory = self.store.partition_directory(entry.partition)
        return self.store.layout.data_file(directory, entry.bucket, entry.file)

    def write_snapshot(self, **changes: object) -> Snapshot:
        snapshot = replace(self.newest, **changes)  # type: ignore[arg-type]
        self.store.storage.replace(self.store.layout.snapshot_file(snapshot.id), to_json(snapshot).encode())
        return snapshot

    def rewrite_delta(self, change: Callable[[list[ManifestEntry]], list[ManifestEntry]]) -> None:
        """Replace the entries of the newest commit; its counts are made right again."""
        store, newest = self.store, self.newest
        before = store.manifests.delta(newest)
        after = change(list(before))
        files = store.manifests.write(after, schema_id=store.schema.id)
        name, size = store.manifests.write_list(files)
        delta = _rows(after)
        total = (newest.total_record_count or 0) - _rows(before) + delta
        self.write_snapshot(
            delta_manifest_list=name, delta_manifest_list_size=size, delta_record_count=delta, total_record_count=total
        )

    def change_file(self, dice: random.Random, change: Callable[[DataFile], DataFile]) -> str:
        """Change what the newest commit says about one file that it adds, and return the path of the file."""
        chosen: list[str] = []

        def changed(entries: list[ManifestEntry]) -> list[ManifestEntry]:
            at = dice.choice([n for n, entry in enumerate(entries) if entry.kind == ADD])
            chosen.append(self.path_of(entries[at]))
            entries[at] = replace(entries[at], file=change(entries[at].file))
            return entries

        self.rewrite_delta(changed)
        return chosen[0]

    def rewrite_list(self, change: Callable[[ManifestFile], ManifestFile]) -> str:
        """Change what the delta list says about its last manifest, and return the path of that manifest."""
        store, newest = self.store, self.newest
        files = store.manifests.read_list(newest.delta_manifest_list)
        name, size = store.manifests.write_list([*files[:-1], change(files[-1])])
        self.write_snapshot(delta_manifest_list=name, delta_manifest_list_size=size)
        return store.layout.manifest_file(files[-1].file_name)

    def rewrite_index(self, change: Callable[[list[IndexEntry]], list[IndexEntry]]) -> None:
        store, newest = self.store, self.newest
        assert newest.index_manifest is not None
        self.write_snapshot(
            index_manifest=store.manifests.write_index(change(store.manifests.read_index(newest.index_manifest)))
        )


def _rows(entries: list[ManifestEntry]) -> int:
    return sum(entry.file.row_count if entry.kind == ADD else -entry.file.row_count for entry in entries)


Found = tuple[set[str], str]  # the kinds that fit, and the file, or a part of its path
Damage = Callable[[Subject, random.Random], Found]
UNREADABLE = {"damaged-file", "damaged-metadata", "missing-column", "row-count"}
ANY = ("append", "orc", "avro", "partitioned", "keyed", "vectors", "tracked")
KEYED = ("keyed", "keyed-partitioned", "vectors", "dynamic")


def _flip(path: Path, dice: random.Random) -> None:
    """Flip a bit that somebody reads.

    In JSON that is one of a name or value, but the name of the checksum. In parquet it is one of the footer: no reader
    of ours uses the first magic, the index of pages and some members of page headers, and no checksum covers them.
    """
    data = bytearray(path.read_bytes())
    places: Sequence[int] = [n for n in range(data.find(b'"checksum"')) if data[n : n + 1].isalnum()]
    places = places or range(len(data))
    if path.suffix == ".parquet":
        places = range(len(data) - 8 - int.from_bytes(data[-8:-4], "little"), len(data))
    bit = dice.choice(places) * 8 + dice.randrange(8)
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def _cut(path: Path, dice: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: dice.randrange(path.stat().st_size)])


def _on(pattern: str, how: Callable[[Path, random.Random], object], kinds: set[str]) -> Damage:
    """Return a damage of any file that a pattern finds and the newest snapshot needs."""

    def damage(subject: Subject, dice: random.Random) -> Found:
        files = subject.data_files() if pattern == "data" else subject.files(pattern)
        if pattern.startswith("manifest/"):
            newest = subject.newest
            lists = {newest.base_manifest_list, newest.delta_manifest_list}
            store = subject.store
            manifests = {m.file_name for m in store.manifests.files_of(newest)}
            files = [path for path in files if path.name in lists | manifests | {newest.index_manifest}]
        path = dice.choice(files)
        how(path, dice)
        return kinds, str(path)

    return damage


def _gone(path: Path, _dice: random.Random) -> None:
    path.unlink()


def _swap(subject: Subject, dice: random.Random) -> Found:
    files = subject.data_files()
    one, other = dice.sample(files, 2)
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    return {"wrong-size", "row-count", "column-statistics", "key-range", "wrong-bucket", *UNREADABLE}, str(one)


def _gap(subject: Subject, dice: random.Random) -> Found:
    path = dice.choice(sorted(subject.files("snapshot/snapshot-*"), key=lambda p: int(p.name[9:]))[1:-1])
    path.unlink()
    return {"snapshot-gap"}, str(path)


def _orphan(subject: Subject, dice: random.Random) -> Found:
    place = dice.choice(["manifest/manifest-x-0", "index/index-x-0", "statistics/stat-x-0", "bucket-0/data-x.parquet"])
    path = subject.root / place
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(dice.randbytes(20))
    os.utime(path, (OLD_SECONDS, OLD_SECONDS))
    return {"orphan"}, str(path)


def _consumer(subject: Subject, dice: random.Random) -> Found:
    path = subject.root / "consumer" / "consumer-c"
    path.parent.mkdir(exist_ok=True)
    path.write_text(dice.choice(["", "{", '{"nextSnapshot": "x"}', '{"next": 1}']))
    return {"damaged-consumer"}, str(path)


def _branch(subject: Subject, _dice: random.Random) -> Found:
    for path in subject.files("branch/branch-dev/schema/*"):
        path.unlink()
    return {"damaged-branch"}, "branch-dev"


def _row_count(subject: Subject, dice: random.Random) -> Found:
    more = dice.choice([-1, 1, 1000])
    return {"row-count"}, subject.change_file(dice, lambda f: replace(f, row_count=f.row_count + more))


def _file_size(subject: Subject, dice: random.Random) -> Found:
    more = dice.choice([-1, 1, 1000])
    return {"wrong-size"}, subject.change_file(dice, lambda f: replace(f, file_size=f.file_size + more))


def _bounds(subject: Subject, dice: random.Random) -> Found:
    """Record other bounds of the column `id`, which is the first."""
    low, high = dice.choice([(3000, 4000), (-50, 10**6), (2, 1)])

    def changed(file: DataFile) -> DataFile:
        stats = SimpleStats(encode_row([low], [AtomicType("BIGINT")]), encode_row([high], [AtomicType("BIGINT")]), (0,))
        return replace(file, value_stats=stats, value_stats_cols=("id",))

    return {"column-statistics", "wide-statistics"}, subject.change_file(dice, changed)


def _nulls(subject: Subject, dice: random.Random) -> Found:
    def changed(file: DataFile) -> DataFile:
        counts = file.value_stats.null_counts
        return replace(file, value_stats=replace(file.value_stats, null_counts=((counts[0] or 0) + 3, *counts[1:])))

    return {"column-statistics"}, subject.change_file(dice, changed)


def _key_range(subject: Subject, dice: random.Random) -> Found:
    key = encode_row([dice.choice([-7, 10**9])], [AtomicType("BIGINT", nullable=False)])
    which = dice.choice(["min_key", "max_key"])
    path = subject.change_file(dice, lambda f: replace(f, **{which: key}))  # type: ignore[arg-type]
    return {"key-range", "overlapping-levels"}, path


def _sequence(subject: Subject, dice: random.Random) -> Found:
    more = dice.choice([1, 17])
    change = dice.choice(
        [
            lambda f: replace(f, max_sequence_number=f.max_sequence_number + more),
            lambda f: replace(f, min_sequence_number=f.min_sequence_number - more),
        ]
    )
    return {"sequence-range"}, subject.change_file(dice, change)


def _delete_count(subject: Subject, dice: random.Random) -> Found:
    return {"delete-count"}, subject.change_file(dice, lambda f: replace(f, delete_row_count=dice.choice([1, 5])))


def _file_schema(subject: Subject, dice: random.Random) -> Found:
    subject.change_file(dice, lambda f: replace(f, schema_id=dice.choice([7, 99])))
    return {"missing-schema"}, "schema-"


def _snapshot_schema(subject: Subject, dice: random.Random) -> Found:
    wrong = dice.choice([7, 99])
    subject.write_snapshot(schema_id=wrong)
    return {"missing-schema"}, f"schema-{wrong}"


def _totals(subject: Subject, dice: random.Random) -> Found:
    newest, more = subject.newest, dice.choice([-1, 1, 100])
    which = dice.choice(["total_record_count", "delta_record_count"])
    subject.write_snapshot(**{which: getattr(newest, which) + more})
    return {"snapshot-totals"}, f"snapshot-{newest.id}"


def _double_add(subject: Subject, dice: random.Random) -> Found:
    chosen: list[str] = []

    def changed(entries: list[ManifestEntry]) -> list[ManifestEntry]:
        again = dice.choice([entry for entry in entries if entry.kind == ADD])
        chosen.append(subject.path_of(again))
        return [*entries, again]

    subject.rewrite_delta(changed)
    return {"double-add"}, chosen[0]


def _deleted_unknown(subject: Subject, dice: random.Random) -> Found:
    def changed(entries: list[ManifestEntry]) -> list[ManifestEntry]:
        one = dice.choice([entry for entry in entries if entry.kind == ADD])
        return [*entries, replace(one, kind=DELETE, file=replace(one.file, file_name="data-none-0.parquet"))]

    subject.rewrite_delta(changed)
    return {"deleted-unknown"}, "data-none-0.parquet"


def _counts(subject: Subject, dice: random.Random) -> Found:
    more = dice.choice([1, 3])
    return {"manifest-counts"}, subject.rewrite_list(lambda m: replace(m, num_added_files=m.num_added_files + more))


def _manifest_bounds(subject: Subject, dice: random.Random) -> Found:
    change = dice.choice([{"min_bucket": 5, "max_bucket": 6}, {"min_level": 7, "max_level": 9}, {"schema_id": -1}])
    path = subject.rewrite_list(lambda m: replace(m, **change))  # type: ignore[arg-type]
    return {"manifest-bounds", "missing-schema"}, path


def _manifest_size(subject: Subject, dice: random.Random) -> Found:
    more = dice.choice([-1, 1])
    return {"wrong-size"}, subject.rewrite_list(lambda m: replace(m, file_size=m.file_size + more))


def _lost_base(subject: Subject, dice: random.Random) -> Found:
    store, newest = subject.store, subject.newest
    before = store.snapshots.get(newest.id - 1)
    live = store.manifests.live(before)
    live.remove(dice.choice(live))
    name, size = store.manifests.write_list(store.manifests.write(live, schema_id=store.schema.id))
    subject.write_snapshot(base_manifest_list=name, base_manifest_list_size=size)
    return {"lost-entries"}, name


def _overlap(subject: Subject, dice: random.Random) -> Found:
    """Add a copy of a file under another name, both at one level above 0."""
    chosen: list[str] = []

    def changed(entries: list[ManifestEntry]) -> list[ManifestEntry]:
        at = dice.choice([n for n, entry in enumerate(entries) if entry.kind == ADD])
        one = entries[at] = replace(entries[at], file=replace(entries[at].file, level=3))
        copy = replace(one, file=replace(one.file, file_name=f"copy-{one.file.file_name}"))
        shutil.copy(subject.path_of(one), subject.path_of(copy))
        chosen.append(one.file.file_name)
        return [*entries, copy]

    subject.rewrite_delta(changed)
    return {"overlapping-levels"}, chosen[0]


def _vector(subject: Subject, dice: random.Random) -> Found:
    """Write a vector beyond the file, of another file, or with another cardinality than is recorded."""
    store = subject.store
    what = dice.choice(["beyond", "cardinality", "place", "dangling"])
    entry = dice.choice(store.manifests.live(subject.newest))
    data_file = "data-none-0.parquet" if what == "dangling" else entry.file.file_name
    rows = [entry.file.row_count + 3] if what == "beyond" else [0]
    data, ranges = encode_deletion_vectors({data_file: rows})
    path = store.layout.index_file("index-damage-0")
    store.storage.create(path, data)
    if what != "beyond":
        change = {"cardinality": {"cardinality": 9}, "place": {"offset": 4}, "dangling": {}}[what]
        ranges = (replace(ranges[0], **change),)  # type: ignore[arg-type]
    file = IndexFile(DELETION_VECTORS, "index-damage-0", len(data), 1, ranges)
    new = IndexEntry(ADD, entry.partition, entry.bucket, file)
    place = entry.partition, entry.bucket
    subject.write_snapshot(index_manifest=store.manifests.write_index([]))
    subject.rewrite_index(lambda entries: [*(e for e in entries if (e.partition, e.bucket) != place), new])
    return {"dangling-vector"} if what == "dangling" else {"deletion-vector"}, path


def _index_file(how: Callable[[Path, random.Random], object], kinds: set[str], index_type: str) -> Damage:
    def damage(subject: Subject, dice: random.Random) -> Found:
        store, newest = subject.store, subject.newest
        assert newest.index_manifest is not None
        entries = store.manifests.read_index(newest.index_manifest)
        names = [e.file.file_name for e in entries if e.file.index_type == index_type and e.file.file_size > 1]
        path = subject.root / "index" / dice.choice(names)
        how(path, dice)
        return kinds, str(path)

    return damage


def _hash_lacks(subject: Subject, dice: random.Random) -> Found:
    found = _index_file(lambda _path, _dice: None, {"hash-index"}, HASH)(subject, dice)
    path = Path(found[1])
    hashes = np.frombuffer(path.read_bytes(), ">i4").copy()
    hashes[dice.randrange(len(hashes))] ^= 1 << 20
    path.write_bytes(hashes.tobytes())
    return {"hash-index"}, "bucket-"


def _hash_entry(subject: Subject, dice: random.Random) -> Found:
    subject.rewrite_index(lambda entries: [e for e in entries if e is not dice.choice(entries)][:-1])
    return {"hash-index"}, "bucket-"


def _row_id(subject: Subject, dice: random.Random) -> Found:
    subject.change_file(dice, lambda f: replace(f, first_row_id=dice.choice([0, 1, 10**6])))
    return {"row-ids"}, "/data-"  # two files have the id, and one of them is named


def _next_row_id(subject: Subject, dice: random.Random) -> Found:
    subject.write_snapshot(next_row_id=dice.randrange(3))
    return {"row-ids"}, "/data-"


def _move(subject: Subject, dice: random.Random, change: Callable[[ManifestEntry], ManifestEntry]) -> str:
    """Place a file of the newest commit elsewhere, in the metadata and on disk."""
    chosen: list[str] = []

    def changed(entries: list[ManifestEntry]) -> list[ManifestEntry]:
        at = dice.choice([n for n, entry in enumerate(entries) if entry.kind == ADD])
        moved = change(entries[at])
        target = Path(subject.path_of(moved))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(subject.path_of(entries[at]), target)
        chosen.append(str(target))
        entries[at] = moved
        return entries

    subject.rewrite_delta(changed)
    return chosen[0]


def _bucket(subject: Subject, dice: random.Random) -> Found:
    if dice.random() < 0.3:
        return {"wrong-bucket"}, _move(subject, dice, lambda e: replace(e, bucket=e.total_buckets + 2))
    return {"wrong-bucket"}, _move(subject, dice, lambda e: replace(e, bucket=(e.bucket + 1) % e.total_buckets))


def _partition(subject: Subject, dice: random.Random) -> Found:
    elsewhere = encode_row([dice.choice(["q", None, "p9"])], [AtomicType("STRING")])
    return {"wrong-partition"}, _move(subject, dice, lambda e: replace(e, partition=elsewhere))


def _key_order(subject: Subject, dice: random.Random) -> Found:
    """Write the rows of a file in another order, with sizes and counts in order."""
    chosen: list[str] = []

    def changed(entries: list[ManifestEntry]) -> list[ManifestEntry]:
        big = [n for n, entry in enumerate(entries) if entry.kind == ADD and entry.file.row_count > 1]
        at = dice.choice(big)
        path = subject.path_of(entries[at])
        rows = pq.read_table(path)
        pq.write_table(rows.take(list(range(len(rows)))[::-1]), path)
        chosen.append(path)
        entries[at] = replace(entries[at], file=replace(entries[at].file, file_size=Path(path).stat().st_size))
        return entries

    subject.rewrite_delta(changed)
    return {"key-order"}, chosen[0]


def _outside(subject: Subject, dice: random.Random) -> Found:
    name = dice.choice(["../../secret", "/etc/passwd", "a/b"])
    subject.change_file(dice, lambda f: replace(f, file_name=name))
    return {"outside-table"}, f"snapshot-{subject.newest.id}"


def _statistics(subject: Subject, dice: random.Random) -> Found:
    if dice.random() < 0.5:
        subject.write_snapshot(statistics="stat-none-0")
        return {"missing-file"}, "stat-none-0"
    path = subject.root / "statistics" / "stat-x-0"
    path.parent.mkdir(exist_ok=True)
    path.write_text(dice.choice(["{", "[]", '{"schemaId": 0}', '{"schemaId": 0, "snapshotId": 99}']))
    subject.write_snapshot(statistics="stat-x-0")
    return {"statistics"}, str(path)


def _extra(subject: Subject, dice: random.Random) -> Found:
    path = subject.change_file(dice, lambda f: replace(f, extra_files=("gone.index",)))
    return {"missing-file"}, f"{path.rpartition('/')[0]}/gone.index"


CATALOGUE: dict[str, tuple[tuple[str, ...], Damage]] = {
    "data file missing": (ANY, _on("data", _gone, {"missing-file"})),
    "data file cut": (ANY, _on("data", _cut, {"wrong-size"})),
    "data file with a flipped bit": (
        ANY,
        _on("data", _flip, {"column-statistics", "key-range", "key-copies", "row-kinds", *UNREADABLE}),
    ),
    "data files swapped": (("append", "keyed", "orc"), _swap),
    "metadata file missing": (ANY, _on("manifest/*", _gone, {"missing-metadata"})),
    "metadata file cut": (ANY, _on("manifest/*", _cut, {"wrong-size", "damaged-metadata"})),
    "metadata file with a flipped bit": (ANY, _on("manifest/*", _flip, {"damaged-metadata"})),
    "snapshot with a flipped bit": (ANY, _on("snapshot/snapshot-*", _flip, {"damaged-metadata"})),
    "snapshot cut": (ANY, _on("snapshot/snapshot-*", _cut, {"damaged-metadata"})),
    "gap in snapshots": (ANY, _gap),
    "schema missing": (ANY, _on("schema/schema-0", _gone, {"missing-schema", "schema-gap"})),
    "schema with a flipped bit": (ANY, _on("schema/schema-0", _flip, {"damaged-metadata"})),
    "tag cut": (ANY, _on("tag/*", _cut, {"damaged-tag"})),
    "consumer damaged": (ANY, _consumer),
    "branch without schema": (ANY, _branch),
    "orphan": (("append", "keyed"), _orphan),
    "wrong row count": (ANY, _row_count),
    "wrong size": (ANY, _file_size),
    "wrong bounds": (("append", "avro", "keyed", "dynamic"), _bounds),
    "wrong null count": (("append", "orc", "avro", "keyed"), _nulls),
    "wrong key range": (("keyed", "vectors", "dynamic"), _key_range),
    "wrong sequence range": (KEYED, _sequence),
    "wrong delete count": (KEYED, _delete_count),
    "wrong schema of a file": (ANY, _file_schema),
    "wrong schema of a snapshot": (ANY, _snapshot_schema),
    "wrong totals": (ANY, _totals),
    "double add": (ANY, _double_add),
    "deletion of an unknown file": (ANY, _deleted_unknown),
    "wrong counts of a manifest": (ANY, _counts),
    "wrong bounds of a manifest": (ANY, _manifest_bounds),
    "wrong size of a manifest": (ANY, _manifest_size),
    "lost base": (("append", "orc", "partitioned", "tracked"), _lost_base),
    "overlapping level": (KEYED, _overlap),
    "wrong vector": (("vectors", "keyed"), _vector),
    "index file missing": (("dynamic",), _index_file(_gone, {"missing-file"}, HASH)),
    "index lacks a key": (("dynamic",), _hash_lacks),
    "index entry missing": (("dynamic",), _hash_entry),
    "duplicate row id": (("tracked",), _row_id),
    "wrong next row id": (("tracked",), _next_row_id),
    "wrong bucket": (("bucketed", "keyed"), _bucket),
    "wrong partition": (("partitioned",), _partition),
    "wrong key order": (("keyed", "vectors", "dynamic"), _key_order),
    "file outside the table": (ANY, _outside),
    "wrong statistics of the table": (ANY, _statistics),
    "side file missing": (ANY, _extra),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return how a sound table of a shape is found; each is made once."""
    made: dict[str, Path] = {}

    def of(shape: str) -> Path:
        if shape not in made:
            made[shape] = Path(make_table(tmp_path_factory.mktemp("sound"), shape).table_path)
        return made[shape]

    return of


def _damaged(root: Path, name: str, seed: int, target: Path) -> tuple[Found, VerifyResult]:
    shutil.copytree(root, target)
    subject = Subject(target)
    store = subject.store
    found = CATALOGUE[name][1](subject, random.Random(seed))
    result = verify_table(store, depth="full", states="all")
    shutil.rmtree(target)
    return found, result


def test_verification_finds_every_kind_of_damage(sound: Callable[[str], Path], tmp_path: Path) -> None:
    names = list(CATALOGUE)
    tally: Counter[str] = Counter()
    missed = []
    # Per push each kind is done to one of its shapes, which differ from kind to kind.
    turns = [at + len(names) * (at % len(CATALOGUE[name][0])) for at, name in enumerate(names)]
    numbers = turns if is_thin() else range(DAMAGES)
    for number in numbers:
        name = names[number % len(names)]
        shapes = CATALOGUE[name][0]
        shape = shapes[number // len(names) % len(shapes)]
        (kinds, path), result = _damaged(sound(shape), name, number, tmp_path / "d.db" / f"t{number}")
        fits = [f for f in result.findings if f.kind in kinds and path in f.path]
        severe = any(KINDS[kind][0] != "error" for kind in kinds) or not result.is_sound
        tally[name] += bool(fits and severe)
        if not (fits and severe):
            missed.append((number, name, shape, kinds, path, [(f.kind, f.path) for f in result.findings]))
    print(f"{sum(tally.values())} of {len(numbers)} found: {dict(tally)}")
    assert missed == []
