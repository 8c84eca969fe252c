"""Entries that are looked at as columns: a scan finds what it finds entry by entry."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakewright.errors import CorruptTableError
from lakewright.formats import avro_columns
from lakewright.formats.avro_columns import Longs
from lakewright.metadata import manifest_files as manifests_module
from lakewright.metadata.manifest_columns import EntryColumns, EntryList, SelectedEntries
from lakewright.metadata.manifest_files import CACHE
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit, DeletionFile
from lakewright.read.manifest_scan import ScanResult, scan
from lakewright.read.split_planning import plan_splits
from lakewright.spec.binary_row import encode_row
from lakewright.spec.manifest import DELETE, EMPTY_STATS, DataFile, ManifestEntry, ManifestFile, SimpleStats
from lakewright.spec.predicate import TRUE, Predicate, PredicateBuilder
from lakewright.spec.snapshot import CommitKind, Snapshot
from lakewright.spec.types import DataField, Value
from support.effort import examples, is_thin
from support.facts import data_file, data_files
from support.read_tables import new_table

NAMED_TYPES = {
    "p": pa.string(),
    "k": pa.int64(),
    "i": pa.int32(),
    "f": pa.float32(),
    "d": pa.float64(),
    "s": pa.string(),
    "b": pa.binary(),
    "day": pa.date32(),
    "ms": pa.timestamp("ms"),
    "us": pa.timestamp("us"),
}
SCHEMA = pa.schema(list(NAMED_TYPES.items()))
NUMBERS = itertools.count()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
FLOATS = [-math.inf, -1.5, -0.0, 0.0, 0.5, 3.0, math.inf, math.nan]
TEXTS = ["", "a", "abcdefg", "abcdefgh", "abcdefgh?", "abcdefgi", "abcdefghijklmnop", "abcdefghijklmnopq", "z?", "é"]
# Internal values, as bounds in manifests hold them, and the same as literals.
VALUES: dict[str, list[tuple[Any, Any]]] = {
    "p": [(text, text) for text in ("x", "y")],
    "k": [(n, n) for n in (-(2**63), -300, -1, 0, 1, 255, 256, 2**40, 2**63 - 1)],
    "i": [(n, n) for n in (-(2**31), -1, 0, 7, 2**31 - 1)],
    "f": [(x, x) for x in FLOATS],
    "d": [(x, x) for x in FLOATS],
    "s": [(text, text) for text in TEXTS],
    "b": [(text.encode(), text.encode()) for text in TEXTS],
    "day": [(n, date(1970, 1, 1) + timedelta(n)) for n in (-400, -1, 0, 20_000)],
    "ms": [(n * 10**6, EPOCH + timedelta(milliseconds=n)) for n in (-5, 0, 1, 10**12)],
    "us": [(n * 1000, EPOCH + timedelta(microseconds=n)) for n in (-1, 0, 999, 1000, 1001, 10**15)],
}


def bounds(chance: random.Random, name: str) -> tuple[Value, Value]:
    """Return a low and a high bound; either may be unknown."""
    two = sorted((chance.choice(VALUES[name])[0] for _ in range(2)), key=lambda v: (v != v, v))  # noqa: PLR0124 - NaN
    return two[0] if chance.random() < 0.9 else None, two[1] if chance.random() < 0.9 else None


def leaf(chance: random.Random, fields: Sequence[DataField]) -> Predicate:
    builder, name = PredicateBuilder(fields), chance.choice(list(NAMED_TYPES))
    some = [chance.choice(VALUES[name])[1] for _ in range(3)]
    comparisons = (builder.equal, builder.less_than, builder.less_or_equal, builder.greater_than)
    match chance.randrange(10):
        case 0:
            return builder.is_in(name, some)
        case 1:
            return builder.between(name, *some[:2])
        case 2:
            return chance.choice([builder.is_null, builder.is_not_null])(name)
        case _:
            return chance.choice([*comparisons, builder.greater_or_equal, builder.not_equal])(name, some[0])


def condition(chance: random.Random, fields: Sequence[DataField]) -> Predicate:
    first = leaf(chance, fields)
    match chance.randrange(6):
        case 0:
            return first & leaf(chance, fields)
        case 1:
            return first | leaf(chance, fields)
        case 2:
            return ~(first & leaf(chance, fields))
        case _:
            return first


def entries(chance: random.Random, store: TableStore, count: int) -> list[ManifestEntry]:
    """Return entries whose statistics have every form that one meets; some files are deleted again."""
    found: list[ManifestEntry] = []
    types, names = [f.type for f in store.schema.fields], [f.name for f in store.schema.fields]
    keys = store.schema.trimmed_primary_key_fields
    for number in range(count):
        rows = {name: bounds(chance, name) for name in names}
        both = [encode_row([rows[name][end] for name in names], types) for end in (0, 1)]
        key_rows = [encode_row([rows[f.name][end] for f in keys], [f.type for f in keys]) for end in (0, 1)]
        file = replace(
            data_file(f"data-{number}.{chance.choice(['parquet', 'orc'])}", level=chance.randrange(3)),
            value_stats=SimpleStats(both[0], both[1], (0,) * len(names)),
            key_stats=SimpleStats(key_rows[0], key_rows[1], (0,) * len(keys)) if keys else EMPTY_STATS,
            value_stats_cols=None,
            min_key=encode_row([number * 2], [keys[0].type]) if keys else bytes(12),
            max_key=encode_row([number * 2 + 1], [keys[0].type]) if keys else bytes(12),
        )
        if chance.random() < 0.2:
            file = replace(file, value_stats=EMPTY_STATS, value_stats_cols=chance.choice([None, ()]))
        partition = encode_row([chance.choice(["x", "y", None])], store.partition_types)
        found.append(ManifestEntry(0, partition, chance.randrange(2), 2, file))
    return [*found, *(replace(entry, kind=DELETE) for entry in chance.sample(found, 5))]


def modest(file: DataFile) -> DataFile:
    """Return a file whose numbers are not so large that they are left to the other decoder."""
    names = ("file_size", "row_count", "min_sequence_number", "max_sequence_number", "schema_id", "delete_row_count")
    numbers: dict[str, Any] = {name: (getattr(file, name) or 0) % 2**40 for name in (*names, "first_row_id")}
    counts = [tuple(n and n % 2**40 for n in stats.null_counts) for stats in (file.key_stats, file.value_stats)]
    key_stats, value_stats = (
        replace(file.key_stats, null_counts=counts[0]),
        replace(file.value_stats, null_counts=counts[1]),
    )
    return replace(file, **numbers, key_stats=key_stats, value_stats=value_stats, write_cols_sequences=None)


def fresh(directory: Path) -> Path:
    """Return a directory of one example's own."""
    return directory / str(next(NUMBERS))


def snapshot_of(store: TableStore, written: Sequence[ManifestFile]) -> Snapshot:
    names = [store.manifests.write_list(files) for files in (written, [])]
    return Snapshot(1, 0, names[0][0], names[1][0], "u", 1, CommitKind.APPEND, 1, 3, None, names[0][1], names[1][1])


def as_columns(
    store: TableStore, snapshot: Snapshot, predicate: Predicate, monkeypatch: pytest.MonkeyPatch
) -> ScanResult:
    CACHE.clear()
    with monkeypatch.context() as patch:
        patch.setattr(manifests_module, "_COLUMNS_MIN", 1)
        patch.setattr(avro_columns, "LANES_MIN", 0)
        return scan(store, snapshot, predicate, list_partitions=True)


def facts(result: ScanResult) -> tuple[object, ...]:
    return result.entries, result.funnel, result.partitions


@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
def test_a_scan_of_columns_finds_the_files_of_a_scan_of_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, keyed: bool
) -> None:
    options = {"bucket": "2"} | ({} if keyed else {"bucket-key": "k"})
    left_out = 0
    for seed in range(examples(20)):
        chance = random.Random(seed)
        store = new_table(fresh(tmp_path), SCHEMA, ["p"], options, primary_keys=["p", "k"] if keyed else [])
        made = entries(chance, store, 60)
        written = [store.manifests.write(some, schema_id=0)[0] for some in (made[:25], made[25:40], made[40:])]
        snapshot = snapshot_of(store, written)
        for wanted in (TRUE, *(condition(chance, store.schema.fields) for _ in range(10 if is_thin() else 40))):
            expected = scan(store, snapshot, wanted, list_partitions=True)
            found = as_columns(store, snapshot, wanted, monkeypatch)
            assert isinstance(expected.found, tuple)
            assert facts(found) == facts(expected), f"seed {seed}: {wanted}"
            both = mixed(store, snapshot, wanted, written[1], monkeypatch)
            assert facts(both) == facts(expected)
            if wanted == TRUE:
                assert kinds_of_parts(found) == [EntryColumns, EntryColumns, EntryColumns]
                assert kinds_of_parts(both) == [EntryColumns, EntryList, EntryColumns]
            assert splits_of(store, snapshot, found.found) == splits_of(store, snapshot, expected.entries)
            left_out += expected.funnel.files_after_bucket - expected.funnel.files_after_stats
    assert left_out > 50


def mixed(
    store: TableStore, snapshot: Snapshot, wanted: Predicate, as_objects: ManifestFile, monkeypatch: pytest.MonkeyPatch
) -> ScanResult:
    """Scan where one manifest is kept as objects, and the others as columns."""
    CACHE.clear()
    store.manifests.read(as_objects)
    with monkeypatch.context() as patch:
        patch.setattr(manifests_module, "_COLUMNS_MIN", 1)
        patch.setattr(avro_columns, "LANES_MIN", 0)
        return scan(store, snapshot, wanted, list_partitions=True)


def kinds_of_parts(result: ScanResult) -> list[type]:
    return [type(part) for part in result.found.parts] if isinstance(result.found, SelectedEntries) else []


def splits_of(
    store: TableStore, snapshot: Snapshot, found: tuple[ManifestEntry, ...] | SelectedEntries
) -> list[DataSplit]:
    """Return the splits of a plan, some of them small and some of several files."""
    store = store.with_schema(store.schema.with_options({"source.split.target-size": "12 mb"}))
    gone = {(entry.partition, entry.file.file_name): DeletionFile("index", 1, 2, 3) for entry in _entries(found)[::7]}
    return plan_splits(store, snapshot.id, found, gone)


def _entries(found: tuple[ManifestEntry, ...] | SelectedEntries) -> Sequence[ManifestEntry]:
    return found.entries() if isinstance(found, SelectedEntries) else found


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.lists(data_files().map(modest), min_size=1, max_size=6, unique_by=lambda file: file.file_name))
def test_entries_made_of_columns_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[DataFile]
) -> None:
    store = new_table(fresh(tmp_path), SCHEMA)
    snapshot = snapshot_of(
        store, store.manifests.write([ManifestEntry(0, bytes(12), 0, 1, f) for f in files], schema_id=0)
    )
    expected = store.manifests.live(snapshot)
    CACHE.clear()
    monkeypatch.setattr(manifests_module, "_COLUMNS_MIN", 1)
    monkeypatch.setattr(avro_columns, "LANES_MIN", 0)
    assert store.manifests.live(snapshot) == expected == [ManifestEntry(0, bytes(12), 0, 1, file) for file in files]
    monkeypatch.undo()


def test_few_entries_are_left_out_of_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 5,000 files only those that a filter needs become objects."""
    store = new_table(tmp_path, pa.schema([("k", pa.int64())]))
    types = [f.type for f in store.schema.fields]
    many = []
    for number in range(5_000):
        row = [encode_row([number * 10 + end], types) for end in (0, 9)]
        file = replace(
            data_file(f"data-{number}"), value_stats=SimpleStats(row[0], row[1], (0,)), value_stats_cols=None
        )
        many.append(ManifestEntry(0, bytes(12), 0, -1, file))
    snapshot = snapshot_of(store, store.manifests.write(many, schema_id=0))
    monkeypatch.setattr(avro_columns, "LANES_MIN", 10)  # the blocks of so few files are few
    made: list[int] = []
    plain = EntryColumns.entries

    def counted(self: EntryColumns, rows: Longs) -> list[ManifestEntry]:
        made.append(len(rows))
        return plain(self, rows)

    monkeypatch.setattr(EntryColumns, "entries", counted)
    found = scan(store, snapshot, PredicateBuilder(store.schema.fields).equal("k", 31_234))
    assert [entry.file.file_name for entry in found.entries] == ["data-3123"]
    assert made == [1]
    assert found.funnel.files_total == found.funnel.files_after_bucket == 5_000
    assert found.funnel.files_after_stats == 1


@pytest.mark.parametrize("damage", ["twice", "never added", "count"])
def test_damage_is_named_as_in_small_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    store = new_table(tmp_path, SCHEMA)
    entry = ManifestEntry(0, bytes(12), 0, 1, data_file("data-1"))
    other = replace(entry, file=data_file("data-2"), kind=DELETE)
    written = store.manifests.write(
        [entry, {"twice": entry, "never added": other, "count": entry}[damage]], schema_id=0
    )
    if damage == "count":
        written = [replace(written[0], num_added_files=1, num_deleted_files=1)]
    snapshot = snapshot_of(store, written)
    message = {"twice": "data-1 twice", "never added": "deletes the data file data-2", "count": "adds 2 files"}[damage]
    with pytest.raises(CorruptTableError, match=message):
        as_columns(store, snapshot, TRUE, monkeypatch)


@pytest.mark.parametrize(
    ("name", "highest", "found"),
    [
        ("s", "b?", "b\U0001f600"),  # the mark may stand for a lost surrogate, and every surrogate is above it
        ("ms", -500 * 10**6, EPOCH + timedelta(milliseconds=500)),  # ORC moves the last second before 1970
    ],
)
def test_a_bound_that_may_be_below_the_data_leaves_no_file_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, highest: Value, found: object
) -> None:
    store = new_table(tmp_path, pa.schema([(name, NAMED_TYPES[name])]))
    row = encode_row([highest], [f.type for f in store.schema.fields])
    file = replace(data_file("data-1.orc"), value_stats=SimpleStats(row, row, (0,)), value_stats_cols=None)
    snapshot = snapshot_of(store, store.manifests.write([ManifestEntry(0, bytes(12), 0, -1, file)], schema_id=0))
    wanted = PredicateBuilder(store.schema.fields).equal(name, found)
    assert [entry.file for entry in scan(store, snapshot, wanted).entries] == [file]
    assert [entry.file for entry in as_columns(store, snapshot, wanted, monkeypatch).entries] == [file]
