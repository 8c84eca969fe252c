"""Tables to damage: built in memory, mutated file by file, and read again in every way.

A `Specimen` is a table with its files and what every view of it shows. A view that never touches a file cannot be
changed by it, so a mutation of a file is judged by the views that touch it.
"""

from __future__ import annotations

import itertools
import os
import random
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from unittest import mock

import pyarrow as pa

import lakewright as lw
from lakewright.catalog.base import Catalog
from lakewright.catalog.filesystem import FileSystemCatalog
from lakewright.testing.storage import FaultyStorage, MemoryImage, MemoryStorage

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


def _read_split(builder: lw.ReadBuilder, split: lw.DataSplit) -> object:
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
