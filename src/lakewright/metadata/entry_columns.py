"""The entries of large manifests as columns: Avro files in, entries of the chosen rows out.

Of a table with many files most plans need few: what decides about a file (its kind, partition, bucket, level and
statistics) is looked at for all entries together, and only entries that are left become objects. Always holds: the
entries are those that `Manifests.read` gives. Where that is not sure, because a file is damaged or unusual, the answer
is None, and the manifest is read entry by entry. Whatever is answered can become objects later without an error.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate, pairwise
from typing import Any, cast

import fastavro
import numpy as np

from lakewright.errors import CorruptTableError, UnsupportedError
from lakewright.formats.avro.columns import Column, Columns, Longs, Words, decode_columns
from lakewright.formats.avro.container import Block, decode_blocks, decode_header
from lakewright.formats.avro.schemas import FileSchema, branches, check_readable, file_schema, parsed
from lakewright.metadata.manifest_records import ENTRY_SCHEMA_SEQUENCES, ENTRY_VERSION
from lakewright.spec.datafile import EMPTY_ROW, EMPTY_STATS, DataFile, SimpleStats
from lakewright.spec.manifest import ADD, DELETE, ManifestEntry, ManifestFile

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

    def of_file(self, name: str) -> Column | None:
        """Return a column of the files by the name of its field; None: the manifests lack it."""
        return self.columns.fields.get(_FILE + name)

    def _texts_are_sound(self, *, names_are_ascii: bool) -> bool:
        """Say whether all texts of the files can be decoded."""
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
        for number, columns in _decoded(blocks, schema).items():
            entries = EntryColumns.of(columns, schema, canonical)
            if entries is not None and _counts(entries) == _recorded(manifests[number]):
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


def _decoded(blocks: Mapping[int, Sequence[Block]], schema: FileSchema) -> dict[int, Columns]:
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


def _recorded(manifest: ManifestFile) -> tuple[int, int]:
    return manifest.num_added_files, manifest.num_deleted_files


def _is_plain(columns: Columns) -> bool:
    """Say whether every entry adds or deletes a file, in the version that is known."""
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
    return parsed(found)


def _items(raw: bytes, coding: Any) -> tuple[Any, ...]:  # noqa: ANN401 - fastavro's own kind of schema
    """Return the items of an array."""
    return tuple(cast("list[Any]", fastavro.schemaless_reader(io.BytesIO(raw), coding, None)))
