"""Entries of large manifests as columns."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, TypeAlias, cast

import fastavro
import numpy as np
import pyarrow as pa

from lakewright.errors import CorruptTableError, UnsupportedError
from lakewright.formats.avro_columns import Columns, DecodedColumn, Longs, Mask, Words, decode_columns, digests_of
from lakewright.formats.avro_container import (
    Block,
    FileSchema,
    branches,
    check_readable,
    compile_schema,
    decode_blocks,
    decode_header,
    file_schema,
)
from lakewright.metadata.manifest_records import ENTRY_SCHEMA_SEQUENCES, ENTRY_VERSION
from lakewright.spec.manifest import (
    ADD,
    DELETE,
    EMPTY_ROW,
    EMPTY_STATS,
    DataFile,
    FileIdentity,
    ManifestEntry,
    ManifestFile,
    SimpleStats,
)

# ---- Entries of one manifest -----------------------------------------------------------------------------------------
# Of a table with many files most plans need few: what decides about a file (its kind, partition, bucket, level and
# statistics) is looked at for all entries together, and only entries that are left become objects. Invariant: the
# entries are those that `Manifests.read` gives. Where that is not sure, because a file is damaged or unusual, the
# answer is None, and the manifest is read entry by entry. Whatever is answered can become objects later without an
# error.

_FILE = "_FILE."
_REQUIRED = (
    *("_VERSION", "_KIND", "_PARTITION", "_BUCKET", "_TOTAL_BUCKETS"),
    *(_FILE + name for name in ("_FILE_NAME", "_FILE_SIZE", "_LEVEL", "_MIN_SEQUENCE_NUMBER")),
)
_TEXT_LISTS = ("_EXTRA_FILES", "_VALUE_STATS_COLS", "_WRITE_COLS")
_EMPTY_LIST = b"\0"  # an array of no items, as it is in a file


@dataclass(frozen=True, slots=True)
class EntryColumns:
    """The entries of a manifest, in order."""

    columns: Columns
    schema: FileSchema
    partitions: tuple[bytes, ...]  # all that occur, in Java's form
    codes: Longs  # of each entry, the number of its partition
    names: Words  # of each entry, a digest of the name of its file

    @classmethod
    def of(cls, columns: Columns, schema: FileSchema, canonical: Callable[[bytes], bytes]) -> EntryColumns | None:
        """Return the entries of a manifest that was decoded; None: read it entry by entry."""
        if not _is_plain(columns):
            return None
        names, is_ascii = columns.digests(_FILE + "_FILE_NAME")
        starts = columns.run_starts("_PARTITION")
        stored = columns.slices("_PARTITION", starts)
        numbers: dict[bytes, int] = {}
        try:
            known = {raw: numbers.setdefault(canonical(raw), len(numbers)) for raw in dict.fromkeys(stored)}
        except CorruptTableError:
            return None
        lengths = np.diff(np.append(starts, columns.count))
        codes = np.repeat(np.fromiter(map(known.__getitem__, stored), np.int64, len(stored)), lengths)
        made = cls(columns, schema, tuple(numbers), codes, names)
        return made if made._texts_are_sound(names_are_ascii=is_ascii) else None

    def __len__(self) -> int:
        return self.columns.count

    @property
    def size(self) -> int:
        """How many bytes of memory it takes."""
        return self.columns.size + self.codes.nbytes + self.names.nbytes + sum(map(len, self.partitions))

    @property
    def kinds(self) -> Longs:
        """ADD or DELETE."""
        return self.columns.fields["_KIND"].values

    @property
    def buckets(self) -> Longs:
        """The buckets."""
        return self.columns.fields["_BUCKET"].values

    @property
    def totals(self) -> Longs:
        """How many buckets there were."""
        return self.columns.fields["_TOTAL_BUCKETS"].values

    @property
    def levels(self) -> Longs:
        """The levels of the files."""
        return self.columns.fields[_FILE + "_LEVEL"].values

    @property
    def file_sizes(self) -> Longs:
        """The sizes of the files."""
        return self.columns.fields[_FILE + "_FILE_SIZE"].values

    @property
    def sequences(self) -> Longs:
        """The lowest sequence numbers of the files."""
        return self.columns.fields[_FILE + "_MIN_SEQUENCE_NUMBER"].values

    def of_file(self, name: str) -> DecodedColumn | None:
        """Return a column of the files by the name of its field; None: the manifests lack it."""
        return self.columns.fields.get(_FILE + name)

    def _texts_are_sound(self, *, names_are_ascii: bool) -> bool:
        """Return whether all texts of the files can be decoded."""
        rows = np.arange(len(self))
        try:
            if not names_are_ascii:
                self._texts("_FILE_NAME", rows)
            self._texts("_EXTERNAL_PATH", rows)
            for name in _TEXT_LISTS:
                column = self.of_file(name)
                if column is not None and column.sizes is not None:
                    self._lists(name, np.flatnonzero(column.sizes > len(_EMPTY_LIST)))
        except UnicodeDecodeError:
            return False
        return True

    def entries(self, rows: Longs) -> list[ManifestEntry]:
        """Return entries as objects."""
        partitions = [self.partitions[code] for code in self.codes.take(rows).tolist()]
        kinds, buckets, totals = (some.take(rows).tolist() for some in (self.kinds, self.buckets, self.totals))
        return list(map(ManifestEntry, kinds, partitions, buckets, totals, self._files(rows)))

    def _files(self, rows: Longs) -> map[DataFile]:
        return map(DataFile, *(self.facts(field.name, rows) for field in fields(DataFile)))

    def facts(self, name: str, rows: Longs) -> list[Any]:
        """Return one fact of the files of some entries, by the name that it has in a `DataFile`."""
        stored = f"_{name.upper()}"
        if name in {"min_key", "max_key"}:
            return [*self.columns.slices(_FILE + stored, rows)]
        if name in {"key_stats", "value_stats"}:
            return [*self._stats(stored, rows)]
        if name == "extra_files":
            return [some or () for some in self._lists(stored, rows)]
        if name in {"value_stats_cols", "write_cols", "write_cols_sequences"}:
            return self._lists(stored, rows)
        if name in {"file_name", "external_path"}:
            return self._texts(stored, rows)
        return self._bytes(stored, rows) if name == "embedded_file_index" else self._numbers(stored, rows)

    # The fields of files, as objects.

    def _numbers(self, name: str, rows: Longs) -> list[Any]:
        return self.columns.numbers(_FILE + name, rows)

    def _bytes(self, name: str, rows: Longs) -> list[Any]:
        """Return the bytes of a field; None where it is null, or where the manifests lack it."""
        column = self.of_file(name)
        if column is None or (column.valid is not None and not column.valid.any()):
            return [None] * len(rows)
        found: list[bytes | None] = [*self.columns.slices(_FILE + name, rows)]
        if column.valid is not None:
            for at in np.flatnonzero(~column.valid.take(rows)).tolist():
                found[at] = None
        return found

    def _texts(self, name: str, rows: Longs) -> list[Any]:
        return [None if raw is None else raw.decode() for raw in self._bytes(name, rows)]

    def _lists(self, name: str, rows: Longs) -> list[Any]:
        """Return the items of arrays as tuples."""
        stored = self._bytes(name, rows)
        coding = _array_coding(self.schema, name)
        known: dict[bytes | None, tuple[Any, ...] | None] = {None: None}
        for raw in set(stored) - {None}:
            known[raw] = _items(raw, coding)
        return [known[raw] for raw in stored]

    def _stats(self, name: str, rows: Longs) -> list[SimpleStats]:
        lows, highs = (self.columns.slices(f"{_FILE}{name}.{part}", rows) for part in ("_MIN_VALUES", "_MAX_VALUES"))
        counts = self._lists(f"{name}._NULL_COUNTS", rows)
        found = [
            SimpleStats(low, high, nulls or ()) if low != EMPTY_ROW or high != EMPTY_ROW or nulls else EMPTY_STATS
            for low, high, nulls in zip(lows, highs, counts, strict=True)
        ]
        present = self.columns.records.get(_FILE + name)
        if present is not None:
            for at in np.flatnonzero(~present.take(rows)).tolist():
                found[at] = EMPTY_STATS
        return found


def decode_entries(
    manifests: Sequence[ManifestFile], loaded: Sequence[bytes], canonical: Callable[[bytes], bytes]
) -> dict[int, EntryColumns]:
    """Return the entries of manifests whose bytes are given, by their numbers; those that lack: read entry by entry.

    Manifests with one schema are decoded together. Each has as many entries as its manifest list says.
    """
    found: dict[int, EntryColumns] = {}
    for stored, blocks in _by_schema(loaded).items():
        try:
            schema = file_schema(json.loads(stored))
            check_readable(schema.record, ENTRY_SCHEMA_SEQUENCES)
        except (ValueError, UnsupportedError):
            continue
        for number, columns in _decode_blocks(blocks, schema).items():
            entries = EntryColumns.of(columns, schema, canonical)
            if entries is not None and _counts(entries) == _recorded_counts(manifests[number]):
                found[number] = entries
    return found


def _by_schema(loaded: Sequence[bytes]) -> dict[bytes, dict[int, list[Block]]]:
    """Return the blocks of manifests by their schemas and numbers, without those that are damaged."""
    groups: dict[bytes, dict[int, list[Block]]] = {}
    for number, data in enumerate(loaded):
        try:
            header = decode_header(data)
            groups.setdefault(header.schema, {})[number] = list(decode_blocks(data, header))
        except (ValueError, UnsupportedError):
            continue
    return groups


def _decode_blocks(blocks: Mapping[int, Sequence[Block]], schema: FileSchema) -> dict[int, Columns]:
    """Return the columns of manifests with one schema, by their numbers; nothing where one by one is better."""
    together = decode_columns([block for some in blocks.values() for block in some], schema)
    if together is None:
        return {}
    counts = _slices(sum(block.count for block in some) for some in blocks.values())
    places = _slices(sum(len(block.data) for block in some) for some in blocks.values())
    parts = map(together.part, counts, places)
    return dict(zip(blocks, parts, strict=True))


def _slices(lengths: Iterator[int]) -> list[slice]:
    return [slice(start, end) for start, end in pairwise(accumulate(lengths, initial=0))]


def _counts(entries: EntryColumns) -> tuple[int, int]:
    deleted = int(np.count_nonzero(entries.kinds == DELETE))
    return len(entries) - deleted, deleted


def _recorded_counts(manifest: ManifestFile) -> tuple[int, int]:
    return manifest.num_added_files, manifest.num_deleted_files


def _is_plain(columns: Columns) -> bool:
    """Return whether every entry adds or deletes a file, in the version that is known."""
    masks = [columns.records.get(name) for name in ("", "_FILE")]
    masks += [columns.fields[name].valid for name in _REQUIRED]
    versions, kinds = columns.fields["_VERSION"].values, columns.fields["_KIND"].values
    is_known = (versions == ENTRY_VERSION) & ((kinds == ADD) | (kinds == DELETE))
    return bool(is_known.all()) and all(mask is None or mask.all() for mask in masks)


def _array_coding(schema: FileSchema, name: str) -> Any:  # noqa: ANN401 - fastavro's own kind of schema
    """Return how an array of a file's record is coded; None: the manifests lack it."""
    found: Any = schema.record
    for part in ("_FILE", *name.split(".")):
        members = {member["name"]: member["type"] for member in found["fields"]}
        if part not in members:
            return None
        (found,) = [branch for branch in branches(members[part]) if branch != "null"]
    return compile_schema(found)


def _items(raw: bytes, coding: Any) -> tuple[Any, ...]:  # noqa: ANN401 - fastavro's own kind of schema
    """Return the items of an array."""
    return tuple(cast("list[Any]", fastavro.schemaless_reader(io.BytesIO(raw), coding, None)))


# ---- Entries of several manifests ------------------------------------------------------------------------------------
# A manifest is held as columns (`EntryColumns`) where it is large, and as objects (`EntryList`) where it is small or
# unusual. Both say for all of their entries what decides whether a file is read; a plan of many files chooses among
# the numbers of the entries, and makes objects of those that are left, when they are needed.

Keep: TypeAlias = Callable[[bytes, int, int, int], bool]  # partition, bucket, total buckets, level
_KEYS_MAX = 2**63
ENTRY_BYTES = 2_000  # what an entry takes as an object, about


class EntryList:
    """The entries of a manifest as objects, in order."""

    def __init__(self, items: Iterable[ManifestEntry]) -> None:
        self.items = tuple(items)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def size(self) -> int:
        """How many bytes of memory it takes, about."""
        return ENTRY_BYTES * (1 + len(self.items))

    @cached_property
    def partitions(self) -> tuple[bytes, ...]:
        """All partitions that occur."""
        return tuple(dict.fromkeys(entry.partition for entry in self.items))

    @cached_property
    def codes(self) -> Longs:
        """Of each entry, the number of its partition."""
        numbers = {partition: number for number, partition in enumerate(self.partitions)}
        return _longs(numbers[entry.partition] for entry in self.items)

    @cached_property
    def names(self) -> Words:
        """Of each entry, a digest of the name of its file."""
        return digests_of([entry.file.file_name.encode() for entry in self.items])

    @cached_property
    def kinds(self) -> Longs:
        """ADD or DELETE."""
        return _longs(entry.kind for entry in self.items)

    @cached_property
    def buckets(self) -> Longs:
        """The buckets."""
        return _longs(entry.bucket for entry in self.items)

    @cached_property
    def totals(self) -> Longs:
        """How many buckets there were."""
        return _longs(entry.total_buckets for entry in self.items)

    @cached_property
    def levels(self) -> Longs:
        """The levels of the files."""
        return _longs(entry.file.level for entry in self.items)

    @cached_property
    def file_sizes(self) -> Longs:
        """The sizes of the files."""
        return _longs(entry.file.file_size for entry in self.items)

    @cached_property
    def sequences(self) -> Longs:
        """The lowest sequence numbers of the files."""
        return _longs(entry.file.min_sequence_number for entry in self.items)

    def entries(self, rows: Longs) -> list[ManifestEntry]:
        """Return entries as objects."""
        return [self.items[row] for row in rows.tolist()]

    def facts(self, name: str, rows: Longs) -> list[Any]:
        """Return one fact of the files of some entries, by the name that it has in a `DataFile`."""
        return [getattr(self.items[row].file, name) for row in rows.tolist()]


EntryPart: TypeAlias = EntryColumns | EntryList


def kept_entries(part: EntryPart, keep: Keep | None) -> list[ManifestEntry]:
    """Return the entries of a manifest as objects: all, or those for which a function returns True."""
    if isinstance(part, EntryList):
        return [e for e in part.items if keep is None or keep(e.partition, e.bucket, e.total_buckets, e.file.level)]
    return part.entries(_rows(part, keep))


def _rows(part: EntryPart, keep: Keep | None) -> Longs:
    return np.arange(len(part)) if keep is None else np.flatnonzero(_keep_mask(part, keep))


@dataclass(frozen=True, slots=True)
class PlaceCounts:
    """What the files of one partition, or of one bucket of it, hold together."""

    partition: bytes
    bucket: int | None  # None: of the whole partition
    rows: int
    file_bytes: int
    files: int
    newest_millis: int | None  # when the newest file was made; None: no file says it
    total_buckets: int  # as the last file says


@dataclass(frozen=True, slots=True)
class SelectedEntries:
    """Some entries of manifests, in order."""

    parts: tuple[EntryPart, ...]
    rows: tuple[Longs, ...]  # of each part, the numbers of its chosen entries, which rise

    @classmethod
    def of(cls, entries: Sequence[ManifestEntry]) -> SelectedEntries:
        """Return entries that are objects already."""
        return cls((EntryList(entries),), (np.arange(len(entries)),))

    def __len__(self) -> int:
        return sum(map(len, self.rows))

    def narrow(self, choose: Callable[[EntryPart, Longs], Longs]) -> SelectedEntries:
        """Return those that are left where each part chooses among its own."""
        return SelectedEntries(self.parts, tuple(map(choose, self.parts, self.rows)))

    def where(self, mask: Mask) -> SelectedEntries:
        """Return those of them that a mask says."""
        ends = np.cumsum([len(rows) for rows in self.rows])[:-1]
        return SelectedEntries(
            self.parts, tuple(rows[some] for rows, some in zip(self.rows, np.split(mask, ends), strict=True))
        )

    def entries(self) -> list[ManifestEntry]:
        """Return all of them as objects."""
        return [entry for part, rows in zip(self.parts, self.rows, strict=True) for entry in part.entries(rows)]

    def facts(self, name: str) -> list[Any]:
        """Return one fact of all files, by the name that it has in a `DataFile`."""
        return [fact for part, rows in zip(self.parts, self.rows, strict=True) for fact in part.facts(name, rows)]

    def at(self, positions: Longs) -> list[ManifestEntry]:
        """Return those at some positions, of all that are chosen, as objects."""
        ends = np.cumsum([len(rows) for rows in self.rows])
        places = np.searchsorted(ends, positions, side="right")
        order = np.argsort(places, kind="stable")
        made: list[ManifestEntry] = []
        for place in np.unique(places).tolist():
            rows = self.rows[place]
            inside = positions[places == place] - (int(ends[place]) - len(rows))
            made += self.parts[place].entries(rows.take(inside))
        found = [made[0]] * len(made) if made else []
        for entry, position in zip(made, order.tolist(), strict=True):
            found[position] = entry
        return found

    @property
    def buckets(self) -> Longs:
        """The buckets."""
        return self._take_joined([part.buckets for part in self.parts])

    @property
    def totals(self) -> Longs:
        """How many buckets there were."""
        return self._take_joined([part.totals for part in self.parts])

    @property
    def file_sizes(self) -> Longs:
        """The sizes of the files."""
        return self._take_joined([part.file_sizes for part in self.parts])

    @property
    def sequences(self) -> Longs:
        """The lowest sequence numbers of the files."""
        return self._take_joined([part.sequences for part in self.parts])

    def partitions(self) -> tuple[list[bytes], Longs]:
        """Return all partitions of the manifests, and of each chosen entry the number of its own."""
        numbers: dict[bytes, int] = {}
        codes = []
        for part in self.parts:
            here = _longs(numbers.setdefault(partition, len(numbers)) for partition in part.partitions)
            codes.append(here.take(part.codes) if len(here) else part.codes)
        return list(numbers), self._take_joined(codes)

    def counts(self, *, by_bucket: bool) -> list[PlaceCounts]:
        """Return what the files of each partition hold, or of each bucket, in the order in which they first occur."""
        partitions, codes = self.partitions()
        columns = {
            "partition": codes,
            "bucket": self.buckets if by_bucket else np.zeros(len(codes), np.int64),
            "rows": pa.array(self.facts("row_count"), pa.int64()),
            "bytes": self.file_sizes,
            "time": pa.array(self.facts("creation_time"), pa.int64()),
            "total": self.totals,
        }
        wanted = [("rows", "sum"), ("bytes", "sum"), ("bytes", "count"), ("time", "max"), ("total", "last")]
        # Only one thread keeps the order.
        grouped = pa.table(columns).group_by(["partition", "bucket"], use_threads=False).aggregate(wanted)
        found = (grouped.column(name).to_pylist() for name in ("partition", "bucket", *map("_".join, wanted)))
        return [
            PlaceCounts(partitions[code], bucket if by_bucket else None, *rest)
            for code, bucket, *rest in zip(*found, strict=True)
        ]

    def _take_joined(self, columns: Sequence[Longs]) -> Longs:
        taken = [column.take(rows) for column, rows in zip(columns, self.rows, strict=True)]
        return np.concatenate([np.zeros(0, np.int64), *taken])


def live_entries(parts: Sequence[EntryPart], keep: Keep | None, *, all_are_here: bool) -> SelectedEntries | None:
    """Return the entries that add files which none deletes, of those that are kept; None: something is wrong.

    Where not `all_are_here`, a file may be deleted that none adds. Nearly always a name occurs once; only names that
    occur more often are looked at as objects.
    """
    kept = [_rows(part, keep) for part in parts]
    chosen = SelectedEntries(tuple(parts), tuple(kept))
    names = np.concatenate([np.zeros(0, np.uint64), *map(_names, parts, kept)])
    is_add = np.concatenate([np.zeros(0, np.bool_), *map(_adds, parts, kept)])
    ordered = np.sort(names)
    often = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    shared = np.isin(names, often) if len(often) else np.zeros(len(names), np.bool_)
    if all_are_here and not (is_add | shared).all():
        return None
    is_live = is_add & ~shared
    left: dict[FileIdentity, int] = {}
    doubtful = np.flatnonzero(shared)
    for position, entry in zip(doubtful.tolist(), chosen.at(doubtful), strict=True):
        if entry.kind == ADD:
            if left.setdefault(entry.identity, position) != position:
                return None
        elif left.pop(entry.identity, None) is None and all_are_here:
            return None
    is_live[list(left.values())] = True
    return chosen if is_live.all() else chosen.where(is_live)


def _names(part: EntryPart, rows: Longs) -> Words:
    return part.names.take(rows)


def _adds(part: EntryPart, rows: Longs) -> Mask:
    return np.asarray(part.kinds.take(rows) == ADD)


def _keep_mask(part: EntryPart, keep: Keep) -> Mask:
    """Say of which entries a function of partition, bucket, total buckets and level is true."""
    columns = part.codes, part.buckets, part.totals, part.levels
    firsts, places = distinct(columns)
    rows = zip(*(column.take(firsts).tolist() for column in columns), strict=True)
    answers = [keep(part.partitions[code], *rest) for code, *rest in rows]
    return np.array(answers, np.bool_).take(places)


def distinct(columns: Sequence[Longs]) -> tuple[Longs, Longs]:
    """Return where each combination of values first occurs, and for each row which of these it has."""
    keys = np.zeros(len(columns[0]), np.int64)
    spans = 1
    for column in columns:
        low = int(column.min(initial=0))
        span = int(column.max(initial=0)) - low + 1
        spans *= span
        if spans >= _KEYS_MAX:  # only damage brings about numbers so large
            _, firsts, places = np.unique(np.stack(columns, axis=1), axis=0, return_index=True, return_inverse=True)
            return firsts, places.reshape(-1)
        keys = keys * span + (column - low)
    _, firsts, places = np.unique(keys, return_index=True, return_inverse=True)
    return firsts, places


def _longs(values: Iterable[int]) -> Longs:
    return np.fromiter(values, np.int64)
