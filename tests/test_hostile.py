"""Hostile names, manifests, messages, splits and links: nothing outside the table is read, written or deleted.

Every storage call is recorded and its path judged; beside the table lies another one whose files are a canary. What is
refused is refused with an error of ours.
"""

from __future__ import annotations

import json
import os
import posixpath
import random
import re
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import TypeAlias, TypeVar

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakewright as lw
from contract.faulty_storage import FaultyStorage, MemoryImage, MemoryStorage
from lakewright.catalog.catalog import Catalog
from lakewright.catalog.filesystem_catalog import FileSystemCatalog
from lakewright.commit.commit_message import VERSION
from lakewright.commit.message_encoding import encode_java
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit, DeletionFile
from lakewright.spec.manifest import (
    ADD,
    DELETION_VECTORS,
    DataFile,
    DeletionRange,
    IndexEntry,
    IndexFile,
    ManifestEntry,
)
from lakewright.spec.snapshot import Snapshot, tag_to_json, to_json
from lakewright.spec.snapshot import Tag as SnapshotTag
from lakewright.storage.storage import Storage
from lakewright.storage.table_layout import Layout
from support.effort import examples, is_thin
from support.java_splits import from_java, to_java

pytestmark = pytest.mark.long

Attack: TypeAlias = Callable[[Catalog], object]
T = TypeVar("T")

_PLACE = "a place for a name"
LATER_MILLIS = 10 * 24 * 60 * 60 * 1000

NAMES = [
    *("", ".", "..", "...", "../x", "../../x", "a/../b", "a/b", "/", "//", "/etc/passwd", "a/", "/a", "./a", "..\\x"),
    *("a\\b", "C:\\x", "C:x", "\\\\host\\share", "a\0b", "\0", "a\nb", "a\rb", "a\tb", "a\x1bb", "a\x7fb", "\x85x"),
    *("%2e%2e", "%2e%2e%2f", "..%2f", "%2F", "%00", "%", "%%", "%c0%ae%c0%ae/", "\uff0e\uff0e\uff0f", "\u2024\u2024"),
    *("\u202e.gnp", "\u2028", "\u200b", "\ufeff", "e\u0301", "\u00e9", "\U0001f4a3", "\ud800", "x\udfff", " ", "  x "),
    *("~", "~root", "$HOME", "$(id)", "`id`", ";id", "|id", "-rf", "--", "*", "?", "[a]", "{a}", "'", '"', "#", "&"),
    *("memory://other/x", "file:/etc/passwd", "file:///etc/passwd", "s3://bucket/key", "http://host/", "a?b#c", "a:b"),
    *("x" * 255, "x" * 256, "x" * 5000, "\u00e9" * 128, "\U0001f4a3" * 64, "a/" * 200 + "b", "../" * 50 + "b"),
    *("snapshot", "schema", "manifest", "bucket-0", "LATEST", "main", "123", "CON", "nul", "a.", "a ", ".a", "a$b"),
    *("t$branch_../../x", "t$snapshots", "a.b", "a`b", "`a`", "\u0130", "\u00df", "A", "a", "__DEFAULT_PARTITION__"),
]
HOSTILE_TEXT = st.text(st.sampled_from("./\\%:$`'\"\0\n\t~*?# ab0\u202e\uff0f\u00e9\U0001f4a3"), max_size=12) | st.text(
    max_size=300
)
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "p": ["a", "b", "a"]})


@dataclass(slots=True)
class World:
    """A warehouse with two tables: `d.t`, which is attacked, and `d.canary`, which nobody may touch."""

    memory: MemoryStorage
    image: MemoryImage = field(init=False)
    cases: int = 0
    refused: int = 0

    @classmethod
    def made(cls, name: str, **options: str) -> World:
        world = cls(MemoryStorage(name))
        world.memory.clear()
        catalog = FileSystemCatalog(world.memory, f"{world.memory.root}/w")
        catalog.create_database("d")
        for table in ("d.t", "d.canary"):
            catalog.create_table(
                table, lw.Schema.from_pyarrow_schema(ROWS.schema, partition_keys=["p"], options=options)
            )
            lw.write_table(ROWS, catalog.get_table(table))
        catalog.create_tag("d.t", "tagged")
        for outside in ("x", "x.parquet", "secret/x.parquet", "w/x", "w/d.db/x", "w/d.db/x.parquet"):
            world.memory.create(f"{world.memory.root}/{outside}", b"canary")
        world.image = world.memory.image()
        return world

    @property
    def root(self) -> str:
        return f"{self.memory.root}/w/d.db/t"

    def attack(self, act: Callable[[Catalog], object], *, inside: str | None = None) -> None:
        """Do something hostile; every path that is touched must be inside, and every error be one of ours."""
        self.cases += 1
        recorder = FaultyStorage(self.memory)
        try:
            act(FileSystemCatalog(recorder, f"{self.memory.root}/w"))
        except lw.LakewrightError:
            self.refused += 1
        allowed = inside or self.root
        for call in recorder.calls:
            if call.verb == "list_directories" and call.path == f"{self.memory.root}/w":
                continue  # the catalog looks for its databases
            assert is_inside(call.path, allowed), f"{call.verb} {call.path!r}"
        assert self.canaries() == {p: d for p, d in self.image.files.items() if not p.startswith(f"{self.root}/")}

    def canaries(self) -> dict[str, bytes]:
        """Return all files that are not the attacked table's."""
        return {p: d for p, d in self.memory.image().files.items() if not p.startswith(f"{self.root}/")}

    def table(self) -> lw.FileStoreTable:
        return FileSystemCatalog(self.memory, f"{self.memory.root}/w").get_table("d.t")

    def restore(self) -> None:
        self.memory.restore(self.image)


def is_inside(path: str, root: str) -> bool:
    """Say whether a path stays below a root however a file system reads it."""
    if not (path == root or path.startswith(f"{root}/")):
        return False
    rest = path[len(root) :]
    plain = posixpath.normpath(f"/r{rest}") == f"/r{rest}".rstrip("/")
    return plain and "\\" not in rest and not re.search(r"[\x00-\x1f\x7f]", rest) and encodes(rest)


def encodes_at_all(text: str) -> bool:
    """Say whether a file can hold a text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def encodes(text: str) -> bool:
    """Say whether a text can be a path, as to its characters and the length of its parts."""
    return encodes_at_all(text) and all(len(part.encode()) <= 255 for part in text.split("/"))


def in_turn(number: int, ways: Sequence[T]) -> Sequence[T]:
    """Return the way of a name: one after the other by day, so that each way meets names of all kinds; all at night."""
    return [ways[number % len(ways)]] if is_thin() else ways


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    made = World.made("hostile")
    yield made
    made.memory.clear()


@pytest.fixture(autouse=True)
def _whole(world: World) -> Iterator[None]:
    before = world.cases
    world.restore()
    yield
    print(f"{world.cases - before} cases")


# Names that callers choose.


def _name_attacks(name: str) -> list[Attack]:
    wanted = lw.Schema.from_pyarrow_schema(ROWS.schema)
    return [
        lambda c: c.create_database(name),
        lambda c: c.get_database(name),
        lambda c: c.list_tables(name),
        lambda c: c.drop_database(name),
        lambda c: c.create_table(lw.Identifier("d", name), wanted),
        lambda c: c.create_table(lw.Identifier(name, "t"), wanted),
        lambda c: c.create_table(f"d.{name}", wanted),
        lambda c: c.rename_table("d.t", lw.Identifier("d", name)),
        lambda c: c.get_table(lw.Identifier("d", name)),
        lambda c: c.get_table(lw.Identifier("d", "t", branch=name)),
        lambda c: c.get_table(f"d.t$branch_{name}"),
    ]


def _keeps_to_one_component(world: World, catalog: Catalog, act: Attack) -> None:
    """Whatever a name made lies directly where things of its kind lie."""
    act(catalog)
    depth = {"schema-0": 5, "": 3}
    for path in set(world.memory.image().files) - set(world.image.files):
        rest = path[len(world.memory.root) + 1 :].split("/")
        assert rest[0] == "w"
        assert rest[1].endswith(".db")
        assert len(rest) == depth.get(rest[-1], len(rest))


def _attack_names(world: World, name: str) -> None:
    whole = f"{world.memory.root}/w"
    for act in _name_attacks(name):
        world.cases += 1
        recorder = FaultyStorage(world.memory)
        try:
            _keeps_to_one_component(world, FileSystemCatalog(recorder, whole), act)
        except lw.LakewrightError:
            world.refused += 1
        for call in recorder.calls:
            assert is_inside(call.path, whole), f"{call.verb} {call.path!r}"
        survivors = world.memory.image().files
        assert all(survivors.get(p) == d for p, d in world.image.files.items() if "/d.db/t/" not in p)
        if survivors != world.image.files:
            world.restore()
    tags: list[Attack] = [
        lambda c: c.create_tag("d.t", name),
        lambda c: c.get_tag("d.t", name),
        lambda c: c.delete_tag("d.t", name),
        lambda c: lw.read_table(c.get_table("d.t"), tag=name),
        lambda c: c.get_table("d.t").store.tags.rename("tagged", name),
        lambda c: c.get_table("d.t").copy({"scan.tag-name": name, "branch": name}).new_read_builder().new_scan().plan(),
    ]
    for act in tags:
        world.attack(act)
    world.restore()


def test_hostile_names_stay_in_their_directory(world: World) -> None:
    for name in NAMES:
        _attack_names(world, name)
    print(f"{world.cases} cases, {world.refused} refused")


@given(HOSTILE_TEXT)
@settings(max_examples=examples(40), derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_as_a_name_stays_in_its_directory(world: World, name: str) -> None:
    _attack_names(world, name)


def test_hostile_partition_values_and_column_names_make_one_directory(world: World) -> None:
    """Each value makes one directory below the table, and comes back as it was written."""
    values = [name for name in NAMES if encodes(name)]

    def write(catalog: Catalog) -> None:
        for value in values:
            try:
                lw.write_table(pa.table({"id": [7], "p": [value]}), catalog.get_table("d.t"))
            except lw.LakewrightError:
                world.refused += 1
                refused.add(value)

    refused: set[str] = set()
    world.cases += len(values) - 1
    world.attack(write)
    read = lw.read_table(world.table(), filter="id = 7")["p"].to_pylist()
    assert sorted(read) == sorted(value for value in values if value not in refused)
    assert all(len(value.encode()) > 80 for value in refused)
    for path in set(world.memory.image().files) - set(world.image.files):
        if "/bucket-" in path:
            assert len(path[len(world.root) + 1 :].split("/")) == 3
    world.restore()
    for name in values:

        def create(catalog: Catalog, name: str = name) -> None:
            rows = pa.table({"id": [1], name: ["v"]})
            schema = lw.Schema.from_pyarrow_schema(rows.schema, partition_keys=[name])
            catalog.drop_table("d.t")
            catalog.create_table("d.t", schema)
            lw.write_table(rows, catalog.get_table("d.t"))
            assert lw.read_table(catalog.get_table("d.t")).equals(rows)

        world.attack(create, inside=f"{world.memory.root}/w")
        world.restore()


# Options of a table that say where things lie.


def _planted(text: str, name: str) -> bytes:
    """Return JSON with a name in a place that was kept for it; also one that only JSON can spell."""
    return text.replace(json.dumps(_PLACE), json.dumps(name)).encode()


def test_options_with_hostile_paths_stay_in_the_table(world: World) -> None:
    for number, name in enumerate(NAMES):
        for key in in_turn(
            number, ("data-file.path-directory", "partition.default-name", "data-file.prefix", "branch")
        ):

            def alter(catalog: Catalog, key: str = key, name: str = name) -> None:
                held = _PLACE if not encodes_at_all(name) else name
                schema = replace(world.table().schema, id=1, options={key: held})
                assert isinstance(catalog, FileSystemCatalog)
                catalog.storage.create(f"{world.root}/schema/schema-1", _planted(schema.to_json(), name))
                table = catalog.get_table("d.t")
                lw.write_table(pa.table({"id": [5], "p": pa.array([None], pa.string())}), table)
                assert lw.read_table(table, filter="id = 5").num_rows == 1

            world.attack(alter)
            world.restore()


# Files of the table that name other files.


def _hostile_paths(world: World) -> list[str]:
    """Return paths to files that exist outside the table, in many spellings."""
    root = world.memory.root
    targets = [f"{root}/x.parquet", f"{root}/secret/x.parquet", f"{root}/w/d.db/x.parquet"]
    canary = next(path for path in world.image.files if "/canary/" in path and path.endswith(".parquet"))
    return [
        *targets,
        canary,
        *("/etc/passwd", "/x.parquet", "file:/x.parquet", "file:///x.parquet", "s3://other/x.parquet", "x.parquet"),
        *(f"{world.root}/../x.parquet", f"{world.root}/../canary/x.parquet", f"{world.root}/a/../../x.parquet"),
        *(
            f"{world.root}x/x.parquet",
            f"{world.root}/\0/x.parquet",
            f"{world.root}/./x.parquet",
            "",
            ".",
            "../x.parquet",
        ),
    ]


def _use(catalog: Catalog, verbs: Iterable[int] = range(8)) -> None:
    """Do what users do with a table, each whether or not the one before was refused."""
    table = catalog.get_table("d.t")
    known: list[Callable[[], object]] = [
        lambda: lw.read_table(table),
        lambda: table.remove_orphan_files(older_than=int(time.time() * 1000)),
        lambda: lw.read_table(table, tag="tagged"),
        lambda: lw.read_table(catalog.get_table("d.t$files")),
        lambda: lw.write_table(ROWS, table),
        lambda: lw.write_table(ROWS, table, mode="overwrite"),
        lambda: table.new_batch_write_builder().new_commit().truncate_table(),
        lambda: catalog.list_partitions_paged("d.t"),
    ]
    errors: list[lw.LakewrightError] = []
    for number in verbs:
        try:
            known[number]()
        except lw.LakewrightError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _use_in_turn(world: World) -> None:
    """Read the table and do one more thing, which differs from case to case."""
    other = random.Random(world.cases).randrange(1, 8)
    world.attack(lambda catalog: _use(catalog, (0, other)))


def _plant(world: World, store: TableStore, **facts: object) -> None:
    """Publish a snapshot, and a tag, that name whatever they are told to."""
    odd = next((fact for fact in facts.values() if isinstance(fact, str) and not encodes_at_all(fact)), "")
    held = {key: _PLACE if odd and fact == odd else fact for key, fact in facts.items()}
    snapshot = replace(_latest(store), id=2, **held)  # type: ignore[arg-type]
    world.memory.create(store.layout.snapshot_file(2), _planted(to_json(snapshot), odd))
    tag = tag_to_json(SnapshotTag("tagged", snapshot))
    world.memory.replace(store.layout.tag_file("tagged"), _planted(tag, odd))


def _latest(store: TableStore) -> Snapshot:
    found = store.snapshots.latest()
    assert found is not None
    return found


def _plant_entry(world: World, change: Callable[[ManifestEntry], ManifestEntry]) -> None:
    store = world.table().store
    first, *others = store.manifests.live(_latest(store))
    written = store.manifests.write([change(first), *others], schema_id=0)
    name, size = store.manifests.write_list(written)
    _plant(world, store, delta_manifest_list=name, delta_manifest_list_size=size)


def test_snapshots_that_name_hostile_files(world: World) -> None:
    members = ["base_manifest_list", "delta_manifest_list", "changelog_manifest_list", "index_manifest", "statistics"]
    for number, name in enumerate([*NAMES, *_hostile_paths(world)]):
        for member in in_turn(number, members):
            _plant(world, world.table().store, **{member: name, "base_manifest_list_size": None})
            _use_in_turn(world)
            world.restore()


def test_manifest_lists_that_name_hostile_manifests(world: World) -> None:
    for name in [*NAMES, *_hostile_paths(world)]:
        if not encodes_at_all(name):
            continue  # Avro has no such text
        store = world.table().store
        files = store.manifests.files_of(_latest(store))
        planted, size = store.manifests.write_list([replace(files[0], file_name=name), *files[1:]])
        _plant(world, store, delta_manifest_list=planted, delta_manifest_list_size=size)
        _use_in_turn(world)
        world.restore()


def test_manifests_that_name_hostile_data_files(world: World) -> None:
    for number, name in enumerate([*NAMES, *_hostile_paths(world)]):
        if not encodes_at_all(name):
            continue
        last = name.rpartition("/")[2]
        ways: list[dict[str, object]] = [
            {"file_name": name},
            {"extra_files": (name,)},
            {"file_name": last, "external_path": name},
            {"file_name": "x.parquet", "external_path": f"{name}/x.parquet"},
        ]
        for facts in in_turn(number, ways):
            _plant_entry(world, lambda e, facts=facts: replace(e, file=replace(e.file, **facts)))  # type: ignore[misc]
            _use_in_turn(world)
            world.restore()


@pytest.mark.parametrize(
    "facts",
    [
        {"file_size": -1},
        {"file_size": 2**62},
        {"row_count": -1},
        {"row_count": 2**62},
        {"schema_id": -1},
        {"schema_id": 2**62},
        {"level": -5},
        {"first_row_id": -7},
        {"write_cols": ("../x", "id")},
        {"value_stats_cols": ("no", "such")},
    ],
    ids=str,
)
def test_manifests_with_facts_out_of_bounds(world: World, facts: dict[str, object]) -> None:
    _plant_entry(world, lambda e: replace(e, file=replace(e.file, **facts)))  # type: ignore[arg-type]
    world.attack(_use)


@pytest.mark.parametrize("bucket", [-(2**31), -3, -2, -1, 7, 2**31 - 1])
def test_manifests_with_odd_buckets(world: World, bucket: int) -> None:
    _plant_entry(world, lambda e: replace(e, bucket=bucket, total_buckets=bucket))
    world.attack(_use)


def _deletion(store: TableStore, **facts: object) -> IndexEntry:
    entry = store.manifests.live(_latest(store))[0]
    ranges = (DeletionRange(entry.file.file_name, 1, 24, 1),)
    file = replace(IndexFile(DELETION_VECTORS, "index-0", 33, 1, ranges), **facts)  # type: ignore[arg-type]
    return IndexEntry(ADD, entry.partition, entry.bucket, file)


def test_index_manifests_that_name_hostile_files(world: World) -> None:
    for number, name in enumerate([*NAMES, *_hostile_paths(world)]):
        if not encodes_at_all(name):
            continue
        last = name.rpartition("/")[2]
        ways = [
            {"file_name": name},
            {"file_name": last, "external_path": name},
            {"file_name": "x.parquet", "external_path": f"{name}/x.parquet"},
        ]
        for facts in in_turn(number, ways):
            store = world.table().store
            _plant(world, store, index_manifest=store.manifests.write_index([_deletion(store, **facts)]))
            _use_in_turn(world)
            world.restore()


# Splits.


def _splits(world: World) -> list[DataSplit]:
    return world.table().new_read_builder().new_scan().plan().splits()


def _read_split(catalog: Catalog, data: bytes, *, java: bool) -> None:
    table = catalog.get_table("d.t")
    split = from_java(data, table.store.partition_types) if java else DataSplit.deserialize(data)
    table.new_read_builder().new_read().to_arrow([split])


def test_splits_with_hostile_paths(world: World) -> None:
    split = _splits(world)[0]
    file = split.files[0]
    for number, name in enumerate([*NAMES, *_hostile_paths(world)]):
        if not encodes_at_all(name):
            continue
        last = name.rpartition("/")[2]
        ways = [
            replace(split, file_paths=(name,)),
            replace(split, bucket_path=name),
            replace(split, deletion_files=(DeletionFile(name, 1, 24, 1),)),
            replace(split, files=(replace(file, file_name=name),)),
            replace(split, files=(replace(file, external_path=name),)),
            replace(split, files=(replace(file, file_name=last, external_path=name),)),
        ]
        for changed in in_turn(number, ways):
            for java in (False, True):
                if java and len(name) > 60_000:
                    continue
                data = to_java(changed) if java else changed.serialize()
                world.attack(lambda catalog, data=data, java=java: _read_split(catalog, data, java=java))  # type: ignore[misc]


@pytest.mark.parametrize("java", [False, True])
def test_splits_that_were_cut_or_changed(world: World, java: bool) -> None:
    split = replace(_splits(world)[0], deletion_files=(DeletionFile(f"{world.root}/index/i", 1, 24, 1),))
    data = to_java(split) if java else split.serialize()
    dice = random.Random(3)
    for _ in range(250):
        damaged = bytearray(data)
        damaged[dice.randrange(len(data))] = dice.randrange(256)
        cut = bytes(damaged[: dice.randrange(len(data))]) if dice.random() < 0.2 else bytes(damaged)
        world.attack(lambda catalog, cut=cut: _read_split(catalog, cut, java=java))  # type: ignore[misc]


# Commit messages.


def _message(world: World) -> lw.CommitMessage:
    with world.table().new_batch_write_builder().new_write() as write:
        write.write_arrow(ROWS.slice(0, 1))
        (made,) = write.prepare_commit()
    return made


def _framed(body: bytes) -> bytes:
    return struct.pack(">4sHI", b"LWCM", VERSION, len(body)) + sha256(body).digest() + body


def _forged(message: lw.CommitMessage, change: Callable[[dict[str, object]], object]) -> bytes:
    """Return a message that was changed by somebody who knows how to make the checksum right."""
    body = json.loads(message.serialize()[42:])
    change(body)
    return _framed(json.dumps(body, sort_keys=True, separators=(",", ":")).encode())


def _take(catalog: Catalog, data: bytes, *, java: bool) -> None:
    """Abort and commit a message, one after the other, whether or not the first is refused."""
    message = lw.CommitMessage.from_java(data) if java else lw.CommitMessage.deserialize(data)
    table = catalog.get_table("d.t")
    try:
        table.new_batch_write_builder().new_commit().abort([message])
    finally:
        table.new_batch_write_builder().new_commit().commit([message])


def _replace_file(body: dict[str, object], *, where: str, member: str, value: object) -> None:
    files = json.loads(json.dumps(body["new_files"]))
    files[0][member] = value
    body[where] = files


LISTS = ["new_files", "deleted_files", "changelog_files", "compact_before", "compact_after", "compact_changelog_files"]
INDEX_LISTS = ["new_index_files", "deleted_index_files", "compact_new_index_files", "compact_deleted_index_files"]


def _live_files_stay(world: World) -> None:
    """Whatever a message said, the table still reads as before or with what was added; nothing live was deleted."""
    assert lw.read_table(world.table(), tag="tagged").num_rows == 3


def test_our_messages_with_hostile_names(world: World) -> None:
    message = _message(world)
    ways = list(product(LISTS, ("file_name", "extra_files", "external_path")))
    for number, name in enumerate([*NAMES, *_hostile_paths(world)]):
        for where, member in in_turn(number, ways):
            value = [name] if member == "extra_files" else name
            data = _forged(message, partial(_replace_file, where=where, member=member, value=value))
            world.attack(lambda catalog, data=data: _take(catalog, data, java=False))  # type: ignore[misc]
    _live_files_stay(world)


def _damaged_messages(world: World) -> Iterator[bytes]:
    data = _message(world).serialize()
    dice = random.Random(4)
    for _ in range(300):
        damaged = bytearray(data)
        damaged[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        yield bytes(damaged)
        yield data[: dice.randrange(len(data))]


def test_our_messages_that_were_cut_or_altered(world: World) -> None:
    for data in _damaged_messages(world):
        with pytest.raises(lw.InvalidMessageError):
            lw.CommitMessage.deserialize(data)
        world.cases += 1


def _file_of(message: lw.CommitMessage, **facts: object) -> DataFile:
    return replace(message.new_files[0], **facts)  # type: ignore[arg-type]


def test_java_messages_with_hostile_names_sizes_and_counts(world: World) -> None:
    message = _message(world)
    names = [name for name in [*NAMES, *_hostile_paths(world)] if encodes_at_all(name)]
    facts: list[dict[str, object]] = [{"file_name": name} for name in names]
    facts += [{"extra_files": (name,)} for name in names]
    facts += [{"external_path": name} for name in names]
    facts += [{member: n} for member in ("file_size", "row_count") for n in (-1, 0, 2**62)]
    for number, changed in enumerate(facts):
        for where in in_turn(number, ("new_files", "compact_after", "deleted_files")):
            files = {"new_files": (), where: (_file_of(message, **changed),)}
            data = encode_java(replace(message, **files))  # type: ignore[arg-type]
            world.attack(lambda catalog, data=data: _take(catalog, data, java=True))  # type: ignore[misc]
    for number, name in enumerate(names):
        for where in in_turn(number, INDEX_LISTS):
            index = IndexFile(DELETION_VECTORS, name, 5, 1, (DeletionRange(name, 1, 2, 3),), name)
            data = encode_java(replace(message, new_files=(), **{where: (index,)}))  # type: ignore[arg-type]
            world.attack(lambda catalog, data=data: _take(catalog, data, java=True))  # type: ignore[misc]
    _live_files_stay(world)


def test_java_messages_that_were_cut_or_altered(world: World) -> None:
    data = _message(world).to_java()
    dice = random.Random(5)
    for _ in range(500):
        damaged = bytearray(data)
        at = dice.randrange(len(data) - 4)
        if dice.random() < 0.3:
            damaged[at : at + 4] = struct.pack(">i", dice.choice([-1, -(2**31), 2**31 - 1, 0, 1]))
        else:
            damaged[at] = dice.randrange(256)
        cut = bytes(damaged[: dice.randrange(len(data))]) if dice.random() < 0.2 else bytes(damaged)
        world.attack(lambda catalog, cut=cut: _take(catalog, cut, java=True))  # type: ignore[misc]
    _live_files_stay(world)


def test_messages_for_another_table_and_messages_made_by_hand(world: World) -> None:
    message = _message(world)
    catalog = FileSystemCatalog(world.memory, f"{world.memory.root}/w")
    with catalog.get_table("d.canary").new_batch_write_builder().new_write() as write:
        write.write_arrow(ROWS)
        foreign = write.prepare_commit()
        for act in ("abort", "commit"):
            with pytest.raises(lw.InvalidMessageError, match="written for table"):
                getattr(world.table().new_batch_write_builder().new_commit(), act)(foreign)
    world.image = MemoryImage({**world.image.files, **world.canaries()}, world.image.directories)
    for name in [*NAMES, *_hostile_paths(world)]:
        for facts in ({"file_name": name}, {"extra_files": (name,)}, {"external_path": name}):
            by_hand = replace(message, new_files=(_file_of(message, **facts),))
            for act in ("abort", "commit"):
                world.attack(
                    lambda c, m=by_hand, act=act: getattr(  # type: ignore[misc]
                        c.get_table("d.t").new_batch_write_builder().new_commit(), act
                    )([m])
                )
    _live_files_stay(world)


@pytest.mark.parametrize("claimed", ["now", "future", "never"])
def test_abort_keeps_live_files_whatever_a_message_claims(world: World, claimed: str) -> None:
    store = world.table().store
    live = store.manifests.live(_latest(store))
    old = int(time.time() * 1000) + LATER_MILLIS
    created = {"now": old, "future": 2**45, "never": None}[claimed]
    for entry in live:
        for names in ({}, {"file_name": "other.parquet", "extra_files": (entry.file.file_name,)}):
            file = replace(entry.file, creation_time=created, **names)  # type: ignore[arg-type]
            forged = lw.CommitMessage(entry.partition, entry.bucket, entry.total_buckets, new_files=(file,))
            commit = world.table().new_batch_write_builder().new_commit()
            commit._committer.clock = lambda: old
            commit.abort([forged])
    _live_files_stay(world)


def test_pickled_messages_and_splits_run_nothing(world: World) -> None:
    """What is unpickled of ours is a frame that is checked; its parts are text and numbers."""
    for value in (_message(world), _splits(world)[0]):
        maker, arguments = value.__reduce__()[:2]
        assert maker.__module__ in {"lakewright.commit.commit_message", "lakewright.read.data_split"}
        assert [type(argument) for argument in arguments] == [bytes]  # type: ignore[attr-defined]
        assert maker(*arguments) == value  # type: ignore[operator, misc]
        with pytest.raises(lw.InvalidMessageError):
            maker(arguments[0][:-1] + b"?")  # type: ignore[operator, index]


# Links on a disk.


@dataclass(frozen=True, slots=True)
class Disk:
    """A warehouse on disk beside a directory that nobody may touch."""

    catalog: Catalog
    root: Path
    outside: Path

    def outside_files(self) -> dict[str, bytes]:
        return {str(p.relative_to(self.outside)): p.read_bytes() for p in self.outside.rglob("*") if p.is_file()}


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path / "w"), "lakewright.durable": "false"})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(ROWS.schema, partition_keys=["p"]))
    lw.write_table(ROWS, catalog.get_table("d.t"))
    outside = tmp_path / "outside"
    for place in ("", "bucket-0", "p=a/bucket-0", "snapshot", "manifest"):
        (outside / place).mkdir(parents=True, exist_ok=True)
        (outside / place / "precious.parquet").write_bytes(b"precious")
        os.utime(outside / place / "precious.parquet", (1, 1))
    return Disk(catalog, tmp_path / "w" / "d.db" / "t", outside)


def _link_everywhere(disk: Disk) -> None:
    """Put links where a deleter looks: for directories, for files, deep and shallow."""
    links = {
        "p=linked": disk.outside / "p=a",
        "p=a/bucket-9": disk.outside / "bucket-0",
        "p=a/bucket-0/linked.parquet": disk.outside / "precious.parquet",
        "index": disk.outside,
        "statistics": disk.outside / "manifest",
        "changelog": disk.outside / "snapshot",
        "branch": disk.outside,
        "manifest/manifest-linked": disk.outside / "manifest" / "precious.parquet",
        "snapshot/snapshot-x": disk.outside / "snapshot" / "precious.parquet",
        "loop": disk.root,
    }
    for name, target in links.items():
        (disk.root / name).parent.mkdir(parents=True, exist_ok=True)
        (disk.root / name).symlink_to(target)


def test_orphan_removal_follows_no_link(disk: Disk) -> None:
    before = disk.outside_files()
    _link_everywhere(disk)
    removed = disk.catalog.get_table("d.t").remove_orphan_files(older_than=int(time.time() * 1000))
    assert removed.paths == ()
    assert disk.outside_files() == before
    assert lw.read_table(disk.catalog.get_table("d.t")).num_rows == 3


@pytest.mark.parametrize("name", ["manifest", "snapshot", "p=a", "p=a/bucket-0", "index"])
def test_orphan_removal_enters_no_linked_directory(disk: Disk, name: str) -> None:
    """Even one in the place of the table's own: what is behind a link belongs to somebody else."""
    before = disk.outside_files()
    real = disk.root / name
    moved = disk.outside.parent / "moved"
    if real.exists():
        real.rename(moved)
    else:
        moved.mkdir()
    (moved / "stray.parquet").write_bytes(b"stray")
    os.utime(moved / "stray.parquet", (1, 1))
    real.symlink_to(moved)
    removed = disk.catalog.get_table("d.t").remove_orphan_files(older_than=int(time.time() * 1000))
    assert removed.paths == ()
    assert (moved / "stray.parquet").exists()
    assert disk.outside_files() == before


def test_drops_follow_no_link(disk: Disk) -> None:
    before = disk.outside_files()
    _link_everywhere(disk)
    disk.catalog.drop_table("d.t")
    assert not disk.root.exists()
    assert disk.outside_files() == before
    (disk.root.parent / "linked").symlink_to(disk.outside)
    disk.catalog.drop_database("d", cascade=True)
    assert disk.outside_files() == before


def test_a_table_or_database_that_is_a_link_is_not_dropped(disk: Disk) -> None:
    warehouse = disk.root.parent.parent
    elsewhere = disk.outside / "e.db"
    disk.root.parent.rename(elsewhere)
    before = disk.outside_files()
    disk.catalog.create_database("d")
    disk.root.symlink_to(elsewhere / "t")
    (warehouse / "e.db").symlink_to(elsewhere)
    for name in ("d.t", "e.t"):
        assert lw.read_table(disk.catalog.get_table(name)).num_rows == 3
        with pytest.raises(lw.InvalidInputError, match="link"):
            disk.catalog.drop_table(name)
        with pytest.raises(lw.InvalidInputError, match="link"):
            disk.catalog.rename_table(name, "d.other")
        assert lw.read_table(disk.catalog.get_table(name)).num_rows == 3
    with pytest.raises(lw.NotFoundError):
        disk.catalog.drop_database("e", cascade=True)
    assert disk.outside_files() == before
    assert sorted(path.name for path in warehouse.iterdir()) == ["d.db", "e.db"]


def _storage(catalog: Catalog) -> Storage:
    assert isinstance(catalog, FileSystemCatalog)
    return catalog.storage


def test_the_recorder_notices_a_path_outside(world: World) -> None:
    """A check that cannot fail proves nothing."""
    for path in (f"{world.root}/../x", f"{world.memory.root}/x", f"{world.root}x", f"{world.root}/a\\b"):
        with pytest.raises(AssertionError):
            world.attack(lambda catalog, path=path: _storage(catalog).exists(path))  # type: ignore[misc]
    with pytest.raises(AssertionError):
        world.attack(lambda catalog: _storage(catalog).delete(f"{world.memory.root}/w/x"), inside=world.memory.root)
    assert Layout(world.root).root == world.root


def test_what_is_planted_is_read_as_far_as_it_is_harmless(world: World) -> None:
    """A case that fails for another reason proves nothing either: without a hostile name all of this is a table."""
    _plant_entry(world, lambda entry: entry)
    _use(FileSystemCatalog(world.memory, f"{world.memory.root}/w"), (0, 1, 2, 3, 7))
    world.restore()
    store = world.table().store
    _plant(world, store, index_manifest=store.manifests.write_index([]))
    _use(FileSystemCatalog(world.memory, f"{world.memory.root}/w"))
