"""Damaged files of whole tables: the same rows or an error that names the file, never other rows.

Every bit of the metadata files is flipped, and some bits of every kind of data file; files are also cut, zeroed, grown,
swapped and removed. What the format cannot notice is said here too, so that it is known: a snapshot, schema or tag file
that is gone looks as if it had expired, been rolled back or never been; a file that was swapped with a sound one of the
same size and counts is sound.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import random
import resource
import shutil
import struct
import sys
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

import lakewright as lw
from contract.faulty_storage import FaultyStorage, MemoryImage, MemoryStorage
from lakewright.catalog.catalog import Catalog
from lakewright.catalog.filesystem_catalog import FileSystemCatalog
from lakewright.formats import parquet_footer as parquet_pages
from lakewright.formats.format_registry import open_reader
from lakewright.metadata import snapshot_files
from lakewright.metadata.manifest_files import CACHE, ManifestCache
from lakewright.read.data_split import DataSplit
from lakewright.read.read_builder import ReadBuilder
from lakewright.spec.types import AtomicType, DataField
from support.effort import examples, is_thin, thinned
from support.golden import WAREHOUSE

pytestmark = pytest.mark.long

BITS_PER_DATA_FILE = examples(100)
VIEWED_BITS = examples(8)
CODECS = {
    "parquet": "none snappy gzip lz4 zstd",
    "orc": "none snappy zlib lz4 zstd",
    "avro": "none snappy deflate zstd",
}
# A file of these kinds that is gone is no damage that anybody could tell from an expiry, a rollback or a deleted tag.
MAY_GO = ("/schema/", "/snapshot/", "/tag/")
MEMORY_MAX = 3 << 29  # beyond what the process has when it begins to read


# Tables to damage: built in memory, mutated file by file, and read again in every way.

DAYS = (date(2026, 11, 1), date(2026, 11, 2))
DEFAULTS = {"table-default.lakewright.write-threads": "1"}
ARROW = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("day", pa.date32()),
        ("name", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("big", pa.decimal128(30, 4)),
        ("at", pa.timestamp("us")),
        ("tags", pa.list_(pa.string())),
        ("attrs", pa.map_(pa.string(), pa.int32())),
        ("place", pa.struct([("x", pa.float64()), ("y", pa.string())])),
        ("ok", pa.bool_()),
    ]
)
FILTER = "day = date '2026-11-01' and id < 350 and title = 'name-3'"
NOTICED, HARMLESS = "noticed", "harmless"
_numbers = itertools.count()

View = Callable[[Catalog], object]


@contextmanager
def replayable(seed: int) -> Iterator[None]:
    """Let a seed decide the names of files, so that a failing mutation can be repeated."""
    dice = random.Random(seed)

    def seeded_uuid() -> uuid.UUID:
        return uuid.UUID(int=dice.getrandbits(128), version=4)

    with mock.patch.object(uuid, "uuid4", seeded_uuid), mock.patch.object(os, "urandom", dice.randbytes):
        yield


def rows(start: int, count: int = 12) -> pa.Table:
    """Return rows with every kind of value and some nulls."""
    made = [
        {
            "id": number,
            "day": DAYS[number % 2],
            "name": None if number % 5 == 0 else f"name-{number % 7}",
            "price": Decimal(number * 125) / 100,
            "big": None if number % 4 == 0 else Decimal(10**20 + number) / 10000,
            "at": datetime(2026, 11, 1, 12, 0, number % 60, number * 1001 % 10**6),  # noqa: DTZ001 - no zone
            "tags": None if number % 3 == 0 else [f"t{n}" for n in range(number % 4)],
            "attrs": [(f"k{n}", n * number) for n in range(number % 3)],
            "place": {"x": number / 8, "y": None if number % 2 else "here"},
            "ok": number % 3 == 1,
        }
        for number in range(start, start + count)
    ]
    return pa.Table.from_pylist(made, schema=ARROW)


@dataclass(slots=True)
class Tally:
    """How many mutations there were, and what became of them."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def add(self, outcome: str, mutation: str = "") -> None:
        self.counts["silent" if outcome not in {NOTICED, HARMLESS} else outcome] += 1
        if outcome not in {NOTICED, HARMLESS}:
            self.failures.append(f"{mutation}: {outcome}")

    def __str__(self) -> str:
        return f"{self.total} mutations: " + ", ".join(f"{n} {what}" for what, n in sorted(self.counts.items()))


@dataclass(slots=True)
class Specimen:
    """A table in memory, whole, with what each look at it shows.

    Views are reads of the whole table, each with the files that it touches. A probe looks at one file alone, the way
    every view does: the rows of a data file by its own split, a metadata file by the room that reads it.
    """

    name: str
    memory: MemoryStorage
    image: MemoryImage
    views: Mapping[str, View]
    shown: dict[str, object] = field(default_factory=dict)
    touched: dict[str, frozenset[str]] = field(default_factory=dict)
    probes: dict[str, list[tuple[str, Callable[[], object], object]]] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, memory: MemoryStorage, views: Mapping[str, View]) -> Specimen:
        """Look at a table that is whole."""
        made = cls(name, memory, memory.image(), views)
        for label, view in views.items():
            recorder = FaultyStorage(memory)
            made.shown[label] = view(catalog_of(recorder))
            made.touched[label] = frozenset(call.path for call in recorder.calls)
        return made

    def files(self, part: str = "") -> list[str]:
        """Return the paths of the files whose path contains a text, in order."""
        return sorted(path for path in self.image.files if part in path)

    def add_probe(self, path: str, label: str, look: Callable[[], object]) -> None:
        """Remember a look at one file."""
        self.probes.setdefault(path, []).append((label, look, look()))

    def probe(self, path: str, data: bytes | None) -> str:
        """Put other bytes at a path, look at that file in every way, and put the old bytes back."""
        with self._changed(path, data):
            outcomes = [_outcome(label, look, shown, path) for label, look, shown in self.probes[path]]
        return _worst(outcomes)

    def view(self, path: str, data: bytes | None, *, turn: int | None = None) -> str:
        """Put other bytes at a path (None: remove it), look at the table, and put the old bytes back.

        All views that touch the file look; with a turn only one of them does, unless it finds no harm.
        """
        labels = [label for label in self.views if path in self.touched[label]]
        at = 0 if turn is None else turn % max(1, len(labels))
        outcomes: list[str] = []
        with self._changed(path, data):
            for label in labels[at:] + labels[:at]:
                look = partial(self.views[label], catalog_of(self.memory))
                outcomes.append(_outcome(label, look, self.shown[label], path))
                if turn is not None and outcomes[-1] != HARMLESS:
                    break
        return _worst(outcomes)

    @contextmanager
    def _changed(self, path: str, data: bytes | None) -> Iterator[None]:
        if data is None:
            self.memory.delete(path)
        else:
            self.memory.replace(path, data)
        try:
            yield
        finally:
            self.memory.replace(path, self.image.files[path])


def _worst(outcomes: list[str]) -> str:
    bad = [outcome for outcome in outcomes if outcome not in {NOTICED, HARMLESS}]
    return bad[0] if bad else NOTICED if NOTICED in outcomes else HARMLESS


def _outcome(label: str, look: Callable[[], object], shown: object, path: str) -> str:
    try:
        seen = look()
    except lw.LakewrightError as error:
        named = path.rpartition("/")[2] in f"{error} {error.facts}"
        return NOTICED if named else f"{label} raised {error!r}, which does not name the file"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
        return f"{label} raised {error!r}"
    return HARMLESS if _equal(seen, shown) else f"{label} shows something else"


def _equal(a: object, b: object) -> bool:
    if isinstance(a, pa.Table) and isinstance(b, pa.Table):
        return bool(a.equals(b, check_metadata=False))
    return a == b


def catalog_of(storage: MemoryStorage | FaultyStorage) -> Catalog:
    inner = storage.inner if isinstance(storage, FaultyStorage) else storage
    assert isinstance(inner, MemoryStorage)
    return FileSystemCatalog(storage, f"{inner.root}/w", DEFAULTS)


def new_memory(name: str) -> MemoryStorage:
    return MemoryStorage(f"{name}-{next(_numbers)}")


def _reading(name: str, **how: object) -> View:
    return lambda catalog: lw.read_table(catalog.get_table(name), **how)  # type: ignore[arg-type]


def make_history(name: str, options: Mapping[str, str], *, partitioned: bool) -> Specimen:
    """Make a table with five snapshots, two schemas and a tag, and every view of it."""
    memory = new_memory(name)
    table = f"d.{name}"
    with replayable(7):
        catalog = catalog_of(memory)
        catalog.create_database("d")
        keys = ["day"] if partitioned else []
        given = {"manifest.merge-min-count": "3", **options}
        catalog.create_table(table, lw.Schema.from_pyarrow_schema(ARROW, partition_keys=keys, options=given))
        for commit in range(3):
            lw.write_table(rows(commit * 100), catalog.get_table(table))
        catalog.create_tag(table, "first", 1)
        changes = [
            lw.SchemaChange.add_column("note", lw.AtomicType("STRING")),
            lw.SchemaChange.rename_column("name", "title"),
            lw.SchemaChange.update_column_type("price", lw.AtomicType("DECIMAL(20, 4)")),
        ]
        catalog.alter_table(table, changes)
        renamed = [*ARROW.names[:2], "title", *ARROW.names[3:]]
        for commit in (3, 4):
            lw.write_table(rows(commit * 100).rename_columns(renamed), catalog.get_table(table))
        catalog.get_table(table).store.snapshots.write_earliest_hint(1)
    views: dict[str, View] = {
        "latest": _reading(table),
        "filtered": _reading(table, filter=FILTER),
        "projected": _reading(table, columns=["id", "place", "note"]),
        **{f"snapshot {n}": _reading(table, snapshot_id=n) for n in range(1, 6)},
        "tag": _reading(table, tag="first"),
        "$files": _reading(f"{table}$files"),
        "$schemas": _reading(f"{table}$schemas"),
        "$snapshots": _reading(f"{table}$snapshots"),
        "earliest": lambda catalog: catalog.get_table(table).store.snapshots.earliest(),
    }
    made = Specimen.of(name, memory, views)
    opened = catalog_of(memory).get_table(table)
    for label, how in (("latest", {}), ("filtered", {"filter": FILTER}), ("snapshot 1", {"scan.snapshot-id": "1"})):
        _add_data_probes(made, opened, label, how)
    _add_metadata_probes(made, opened)
    return made


def _add_data_probes(specimen: Specimen, table: lw.FileStoreTable, label: str, how: Mapping[str, str]) -> None:
    """Look at every data file by a split of its own."""
    options = {key: value for key, value in how.items() if key != "filter"}
    builder = table.copy({"source.split.target-size": "1b", **options}).new_read_builder()
    if "filter" in how:
        builder = builder.with_filter(how["filter"])
    for split in builder.new_scan().plan().splits():
        (path,) = split.file_paths
        specimen.add_probe(path, label, partial(_read_split, builder, split))


def _read_split(builder: ReadBuilder, split: DataSplit) -> object:
    return builder.new_read().to_arrow([split])


def _add_metadata_probes(specimen: Specimen, table: lw.FileStoreTable) -> None:
    """Look at every metadata file through the room that reads it."""
    store = table.store
    layout, manifests = store.layout, store.manifests
    for schema_id in store.schemas.ids():
        specimen.add_probe(layout.schema_file(schema_id), "schema", partial(store.schemas.get, schema_id))
    for hint in (layout.latest_hint, layout.earliest_hint):
        specimen.add_probe(hint, "latest", store.snapshots.latest_id)
        specimen.add_probe(hint, "earliest", store.snapshots.earliest_id)
    specimen.add_probe(layout.tag_file("first"), "tag", partial(store.tags.get, "first"))
    for snapshot_id in store.snapshots.ids():
        snapshot = store.snapshots.get(snapshot_id)
        specimen.add_probe(layout.snapshot_file(snapshot_id), "snapshot", partial(store.snapshots.get, snapshot_id))
        for name, size in (
            (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
            (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
        ):
            specimen.add_probe(layout.manifest_file(name), "list", partial(manifests.read_list, name, size))
        for manifest in manifests.files_of(snapshot):
            path = layout.manifest_file(manifest.file_name)
            if path not in specimen.probes:
                specimen.add_probe(path, "manifest", partial(manifests.read, manifest))


def make_single(name: str, data: pa.Table, options: Mapping[str, str]) -> Specimen:
    """Make a table with one commit, and look at its data files."""
    memory = new_memory(name)
    with replayable(11):
        catalog = catalog_of(memory)
        catalog.create_database("d")
        catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(data.schema, options=dict(options)))
        lw.write_table(data, catalog.get_table("d.t"))
    made = Specimen.of(name, memory, {"latest": _reading("d.t")})
    _add_data_probes(made, catalog_of(memory).get_table("d.t"), "latest", {})
    return made


def flipped(data: bytes, bit: int) -> bytes:
    """Return the same bytes but for one bit."""
    out = bytearray(data)
    out[bit // 8] ^= 1 << bit % 8
    return bytes(out)


def sampled_bits(data: bytes, count: int, dice: random.Random) -> list[int]:
    """Return some bits of a file, all of them if it has no more."""
    bits = len(data) * 8
    return list(range(bits)) if bits <= count else sorted(dice.sample(range(bits), count))


def rough_damage(data: bytes, others: Iterable[bytes], dice: random.Random) -> Iterator[tuple[str, bytes | None]]:
    """Yield what else happens to files: cut, zeroed, grown, replaced, gone."""
    yield "gone", None
    yield "empty", b""
    for _ in range(4):
        at = dice.randrange(len(data))
        yield f"cut at {at}", data[:at]
    yield "last byte lost", data[:-1]
    for size in (1, 16, 64, 512, 4096):
        start = dice.randrange(max(1, len(data) - size))
        zeroed = data[:start] + bytes(min(size, len(data) - start)) + data[start + size :]
        yield f"{size} bytes zeroed from {start}", zeroed
    yield "all zeros", bytes(len(data))
    yield "tail zeroed", data[: len(data) // 2] + bytes(len(data) - len(data) // 2)
    yield "garbage appended", data + dice.randbytes(40)
    yield "doubled", data + data
    yield "garbage", dice.randbytes(len(data))
    yield from (("swapped", other) for other in others)


@pytest.fixture(scope="module", autouse=True)
def _no_waiting() -> Iterator[None]:
    """Do not wait for a writer to finish a snapshot that is damaged, and read every file each time.

    A process does not see the damage of a manifest that it keeps decoded.
    """
    CACHE.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ManifestCache, "put", lambda *_: None)
        patch.setattr(snapshot_files, "BODY_WAIT_SECONDS", 0)
        patch.setattr(snapshot_files, "HINT_WAIT_SECONDS", 0)
        yield


@pytest.fixture(scope="module", params=["parquet", "orc", "avro", "buckets"])
def specimen(request: pytest.FixtureRequest) -> Specimen:
    if request.param == "buckets":
        return make_history("buckets", {"bucket": "2", "bucket-key": "id"}, partitioned=False)
    return make_history(request.param, {"file.format": request.param}, partitioned=True)


def _report(what: str, tally: Tally) -> None:
    print(f"{what}: {tally}")
    assert tally.failures == []


def _one_of_each_kind(specimen: Specimen) -> list[str]:
    """Return the first metadata file of every kind, and of the kinds of which there are few, all."""
    manifests = specimen.files("/manifest/")
    lists = [path for path in manifests if "/manifest-list-" in path]
    return [
        *specimen.files("/schema/"),
        *specimen.files("/snapshot/"),
        *specimen.files("/tag/"),
        *lists[:2],
        *[path for path in manifests if path not in lists][-1:],
    ]


def test_flipped_bits_of_metadata_files_are_noticed() -> None:
    specimen = make_history("metadata", {}, partitioned=True)
    tally = Tally()
    for path in _one_of_each_kind(specimen):
        data = specimen.image.files[path]
        for bit in thinned(range(len(data) * 8)):
            tally.add(specimen.probe(path, flipped(data, bit)), f"{path} bit {bit}")
    assert tally.counts[NOTICED] > 0.98 * tally.total
    _report("every bit of the metadata", tally)


def test_flipped_bits_of_any_file_are_noticed(specimen: Specimen) -> None:
    """Sampled bits of every file, seen by the file's own readers; some of them seen by whole reads of the table."""
    dice, tally = random.Random(5), Tally()
    for path in specimen.files():
        data = specimen.image.files[path]
        many = BITS_PER_DATA_FILE if "/bucket-" in path else examples(25)
        for bit in sampled_bits(data, many, dice):
            tally.add(specimen.probe(path, flipped(data, bit)), f"{path} bit {bit}")
        for turn, bit in enumerate(sampled_bits(data, VIEWED_BITS, dice)):
            tally.add(specimen.view(path, flipped(data, bit), turn=turn), f"{path} bit {bit}")
    assert tally.counts[NOTICED] > 0.7 * tally.total
    _report(f"flipped bits, {specimen.name}", tally)


def test_cut_zeroed_grown_swapped_or_missing_files_are_noticed(specimen: Specimen) -> None:
    dice, tally, known = random.Random(6), Tally(), Tally()
    for path in specimen.files():
        data = specimen.image.files[path]
        kind = path.split("/")[-2]
        others = [specimen.image.files[other] for other in specimen.files(f"/{kind}/") if other != path]
        found = list(enumerate(rough_damage(data, dice.sample(others, min(2, len(others))), dice)))
        for turn, (what, damaged) in dice.sample(found, examples(len(found))):
            outcome = specimen.view(path, damaged, turn=turn)
            gone = damaged is None and any(part in path for part in MAY_GO)
            swapped = what == "swapped" and damaged is not None and len(damaged) == len(data)
            (known if gone or swapped else tally).add(outcome, f"{path} {what}")
    print(f"known to be unnoticeable, {specimen.name}: {known}")
    _report(f"rough damage, {specimen.name}", tally)


@pytest.mark.parametrize("file_format", CODECS)
def test_a_flipped_bit_is_noticed_with_every_codec(file_format: str) -> None:
    """Whatever compresses the rows, also if nothing does, a flipped bit is noticed."""
    dice, tally = random.Random(7), Tally()
    for codec in CODECS[file_format].split():
        specimen = make_single(codec, rows(0, 40), {"file.format": file_format, "file.compression": codec})
        (path,) = specimen.files("/bucket-")
        data = specimen.image.files[path]
        for bit in sampled_bits(data, examples(250), dice):
            tally.add(specimen.probe(path, flipped(data, bit)), f"{codec} bit {bit}")
    _report(f"codecs of {file_format}", tally)


def _pages(data: bytes) -> list[tuple[int, int]]:
    """Return where the headers of all pages of a parquet file begin and end."""
    metadata = pq.read_metadata(pa.BufferReader(data))
    found = []
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = parquet_pages.ColumnChunk.of(metadata.row_group(group).column(column))
            at = chunk.start
            while at < chunk.start + chunk.byte_count:
                page = parquet_pages._page(data, at)
                found.append((at, page.start))
                at = page.start + page.byte_count
    return found


def test_flipped_bits_of_page_headers_are_noticed() -> None:
    """Checksums of pages do not cover their headers, which say how the bytes are to be understood."""
    tally = Tally()
    for dtype in (pa.int32(), pa.int64(), pa.string()):
        values = pa.array([number * 7 % 300 for number in range(1026)]).cast(dtype)
        specimen = make_single("pages", pa.table({"a": values}), {"parquet.page.size": "64b"})
        (path,) = specimen.files("/bucket-")
        data = specimen.image.files[path]
        pages = _pages(data)
        assert len(pages) > 2
        for start, end in (pages[0], pages[1], pages[-1]):
            for bit in thinned(range(start * 8, end * 8)):
                tally.add(specimen.probe(path, flipped(data, bit)), f"{dtype} header at {start} bit {bit}")
    _report("page headers", tally)


def test_flipped_bits_of_a_streamed_file_are_noticed() -> None:
    """Parquet files from a megabyte on are checked while they are streamed."""
    dice, tally = random.Random(8), Tally()
    numbers = np.random.default_rng(8)
    count = 120_000
    table = pa.table(
        {
            "a": pa.array(numbers.integers(0, 1 << 50, count)),
            "b": pa.array(numbers.integers(0, 9, count), mask=numbers.random(count) < 0.3),
            "c": pa.array(numbers.integers(0, 50, count)).cast(pa.string()),
            "d": pa.array(numbers.random(count)),
        }
    )
    specimen = make_single("large", table, {"parquet.page.size": "64kb"})
    (path,) = specimen.files("/bucket-")
    data = specimen.image.files[path]
    assert len(data) > 1 << 20
    bits = sampled_bits(data, 60, dice)
    for start, end in dice.sample(_pages(data), 6):
        bits += [start * 8 + bit for bit in sampled_bits(data[start:end], 20, dice)]
    for bit in thinned(bits):
        tally.add(specimen.probe(path, flipped(data, bit)), f"bit {bit}")
    _report("a large file", tally)


def test_the_harness_notices_what_nobody_checks() -> None:
    """A check that cannot fail proves nothing: with the seal taken away, flipped bits reach the rows."""
    specimen = make_single("unsealed", rows(0, 40), {"file.format": "orc", "file.compression": "none"})
    (path,) = specimen.files("/bucket-")
    data = specimen.image.files[path].replace(b"LWSEAL01", bytes(8))
    tally = Tally()
    for bit in sampled_bits(data[: len(data) // 2], 200, random.Random(9)):
        tally.add(specimen.probe(path, flipped(data, bit)), f"bit {bit}")
    print(f"without seal: {tally}")
    assert tally.counts["silent"] > 0


# Files of others carry no checksums of ours. What they let pass is measured, not promised.

OTHERS = ("append.unaware", "types.scalars_orc", "types.scalars_avro", "dv.append_bitmap32")


def _text(table: pa.Table) -> str:
    """Return rows as text, in which NaN equals NaN."""
    return str(table.schema) + repr(table.to_pylist())


def test_flipped_bits_in_tables_of_java_are_counted(tmp_path: Path) -> None:
    dice = random.Random(10)
    for name in OTHERS:
        database, table = name.split(".")
        root = tmp_path / f"{database}.db" / table
        shutil.copytree(WAREHOUSE / f"{database}.db" / table, root)
        whole = _text(lw.read_table(str(root)))
        outcomes = {"noticed": 0, "harmless": 0, "silent": 0}
        files = sorted(path for path in root.rglob("*") if path.is_file())
        for _ in range(examples(60)):
            path = dice.choice(files)
            data = path.read_bytes()
            path.write_bytes(flipped(data, dice.randrange(len(data) * 8)))
            try:
                outcomes["harmless" if _text(lw.read_table(str(root))) == whole else "silent"] += 1
            except lw.LakewrightError:
                outcomes["noticed"] += 1
            path.write_bytes(data)
        print(f"{name}, written by Java: {outcomes}")
        assert outcomes["noticed"] > 0


# Bombs: small files that say they are large. They are read by a child that may not have much memory.

ID = [{"name": "a", "type": "long"}]
NULLS = [{"name": "a", "type": {"type": "array", "items": "null"}}]
TEXT = [{"name": "a", "type": "string"}]
HUGE = 1 << 40


def _long(value: int) -> bytes:
    """Return a number of at least zero as Avro spells it."""
    value <<= 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _avro(count: int, body: bytes, codec: str, fields: object = ID) -> bytes:
    """Return a file of somebody else with one block, whose count and bytes are whatever they are said to be."""
    schema = json.dumps({"type": "record", "name": "record", "fields": fields})
    header = b"".join(
        _long(len(text)) + text.encode() for pair in (("avro.schema", schema), ("avro.codec", codec)) for text in pair
    )
    sync = bytes(range(16))
    return b"Obj\x01" + _long(2) + header + _long(0) + sync + _long(count) + _long(len(body)) + body + sync


def _zstd_bomb(size: int) -> bytes:
    """Return a frame without a content size that holds very many zeros."""
    packer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return b"".join([packer.compress(bytes(1 << 20)) for _ in range(size >> 20)]) + packer.flush()


def _deflate_bomb(size: int) -> bytes:
    packer = zlib.compressobj(1, wbits=-15)
    return b"".join([packer.compress(bytes(1 << 20)) for _ in range(size >> 20)]) + packer.flush()


BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "avro: a count of 2^40": ("avro", lambda: _avro(HUGE, bytes(100), "null")),
    "avro: a zstd frame of 1 GB": ("avro", lambda: _avro(1, _zstd_bomb(1 << 30), "zstandard")),
    "avro: a deflated block of 1 GB": ("avro", lambda: _avro(1, _deflate_bomb(1 << 30), "deflate")),
    "avro: a snappy block of 4 GB": ("avro", lambda: _avro(1, b"\xff\xff\xff\xff\x0f" + bytes(20), "snappy")),
    "avro: an array of 2^40 nulls": ("avro", lambda: _avro(1, _long(HUGE) + b"\0", "null", NULLS)),
    "avro: a text of 2^40 bytes": ("avro", lambda: _avro(1, _long(HUGE) + b"x", "null", TEXT)),
    "parquet: a footer of 4 GB": ("parquet", lambda: b"PAR1" + bytes(100) + struct.pack("<I", 0xFFFFFFFF) + b"PAR1"),
    "orc: a tail of 2 GB": (
        "orc",
        lambda: b"ORC" + bytes(100) + (ps := b"\x08\xff\xff\xff\xff\x07\x82\xf4\x03\x03ORC") + bytes([len(ps)]),
    ),
}


COSTLY = {"avro: a deflated block of 1 GB"}  # to make; the one of zstd is for every push


def _read_bomb(name: str) -> str:
    file_format, make = BOMBS[name]
    data = make()
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY_MAX
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    fields = [DataField(0, "a", AtomicType("BIGINT"))]
    try:
        list(open_reader(file_format, pa.BufferReader(data), path="bomb", size=len(data), fields=fields).batches())
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
        return f"{type(error).__name__}: {error}"
    return "it was read"


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc, and limits memory as Linux does")
@pytest.mark.processes
def test_headers_that_claim_huge_sizes_take_no_memory() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = {name: pool.apply_async(_read_bomb, (name,)) for name in BOMBS if name not in COSTLY or not is_thin()}
        outcomes = {name: result.get(timeout=50) for name, result in found.items()}
    for name, outcome in outcomes.items():
        print(f"{name}: {outcome[:160]}")
    assert {name: what for name, what in outcomes.items() if not what.startswith("CorruptTableError")} == {}
