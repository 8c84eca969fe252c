"""The entries of large manifests as columns: Avro blocks in, entries of the chosen rows out.

Of a table with many files most plans need few: what decides about a file (its kind, partition, bucket, level and
statistics) is looked at for all entries together, and only entries that are left become objects. Always holds: the
entries are those that `Manifests.read` gives. Where that is not sure, because a file is damaged or unusual, the answer
is None, and the manifests are read one by one.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import fastavro
import numpy as np

from lakewright.errors import CorruptTableError, UnsupportedError
from lakewright.formats.avro.columns import Column, Columns, Longs, Mask, decode_columns
from lakewright.formats.avro.container import Block, decode_blocks, decode_header
from lakewright.formats.avro.schemas import FileSchema, branches, check_readable, file_schema, parsed
from lakewright.metadata.manifest_records import ENTRY_SCHEMA_SEQUENCES, ENTRY_VERSION
from lakewright.spec.datafile import EMPTY_ROW, EMPTY_STATS, DataFile, SimpleStats
from lakewright.spec.manifest import ADD, DELETE, FileIdentity, ManifestEntry, ManifestFile

_FILE = "_FILE."
_REQUIRED = ("_VERSION", "_KIND", "_PARTITION", "_BUCKET", "_TOTAL_BUCKETS", "_FILE._FILE_NAME", "_FILE._LEVEL")


@dataclass(frozen=True, slots=True)
class EntryColumns:
    """Entries of some manifests, in order."""

    columns: Columns
    schema: FileSchema
    partitions: tuple[bytes, ...]  # all that occur, in Java's form
    codes: Longs  # of each entry, the number of its partition

    @classmethod
    def of(
        cls, blocks: Sequence[Block], schema: FileSchema, canonical: Callable[[bytes], bytes]
    ) -> EntryColumns | None:
        """Decode blocks of manifests; None: read the manifests one by one."""
        columns = decode_columns(blocks, schema)
        if columns is None or not _is_plain(columns):
            return None
        known: dict[bytes, int] = {}
        numbers: dict[bytes, int] = {}
        codes = np.zeros(columns.count, np.int64)
        stored = columns.slices("_PARTITION", np.arange(columns.count))
        try:
            for raw in dict.fromkeys(stored):
                known[raw] = numbers.setdefault(canonical(raw), len(numbers))
        except CorruptTableError:
            return None
        if len(known) > 1:
            codes = np.fromiter(map(known.__getitem__, stored), np.int64, columns.count)
        return cls(columns, schema, tuple(numbers), codes)

    def __len__(self) -> int:
        return self.columns.count

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

    def of_file(self, name: str) -> Column | None:
        """Return a column of the files by the name of its field; None: the manifests lack it."""
        return self.columns.fields.get(_FILE + name)

    def kept(self, keep: Callable[[bytes, int, int, int], bool]) -> Mask:
        """Say of which entries a function of partition, bucket, total buckets and level is true."""
        keys = np.stack([self.codes, self.buckets, self.totals, self.levels], axis=1)
        places, of_place = np.unique(keys, axis=0, return_inverse=True)
        answers = [keep(self.partitions[code], *rest) for code, *rest in places.tolist()]
        return np.array(answers, np.bool_).take(of_place.reshape(-1))

    def live(self, rows: Longs) -> Longs | None:
        """Return those of some entries, all of their partitions, that add files which none deletes; None: unsure."""
        names = self.columns.slices(_FILE + "_FILE_NAME", rows)
        try:
            b"/".join(names).decode()
        except UnicodeDecodeError:
            return None
        is_add = self.kinds.take(rows) == ADD
        if len(set(names)) == len(names):
            return rows if is_add.all() else None
        often = {name for name, count in Counter(names).items() if count > 1}
        shared = np.fromiter((name in often for name in names), np.bool_, len(names))
        if not (is_add | shared).all():
            return None
        left: dict[FileIdentity, int] = {}
        doubtful = rows[shared]
        for row, entry in zip(doubtful.tolist(), self.entries(doubtful), strict=True):
            if entry.kind == ADD and left.setdefault(entry.identity, row) != row:
                return None
            if entry.kind == DELETE and left.pop(entry.identity, None) is None:
                return None
        return np.sort(np.concatenate([rows[~shared], np.fromiter(left.values(), np.int64, len(left))]))

    def entries(self, rows: Longs) -> list[ManifestEntry]:
        """Return entries as objects."""
        partitions = [self.partitions[code] for code in self.codes.take(rows).tolist()]
        kinds, buckets, totals = (some.take(rows).tolist() for some in (self.kinds, self.buckets, self.totals))
        return list(map(ManifestEntry, kinds, partitions, buckets, totals, self._files(rows)))

    def _files(self, rows: Longs) -> map[DataFile]:
        numbers, texts, lists = self._numbers, self._texts, self._lists
        return map(
            DataFile,
            texts("_FILE_NAME", rows),
            numbers("_FILE_SIZE", rows),
            numbers("_ROW_COUNT", rows),
            self.columns.slices(_FILE + "_MIN_KEY", rows),
            self.columns.slices(_FILE + "_MAX_KEY", rows),
            self._stats("_KEY_STATS", rows),
            self._stats("_VALUE_STATS", rows),
            numbers("_MIN_SEQUENCE_NUMBER", rows),
            numbers("_MAX_SEQUENCE_NUMBER", rows),
            numbers("_SCHEMA_ID", rows),
            numbers("_LEVEL", rows),
            (some or () for some in lists("_EXTRA_FILES", rows)),
            numbers("_CREATION_TIME", rows),
            numbers("_DELETE_ROW_COUNT", rows),
            self._bytes("_EMBEDDED_FILE_INDEX", rows),
            numbers("_FILE_SOURCE", rows),
            lists("_VALUE_STATS_COLS", rows),
            texts("_EXTERNAL_PATH", rows),
            numbers("_FIRST_ROW_ID", rows),
            lists("_WRITE_COLS", rows),
            lists("_WRITE_COLS_SEQUENCES", rows),
        )

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
    manifests: Sequence[ManifestFile], loaded: Iterable[bytes], canonical: Callable[[bytes], bytes]
) -> EntryColumns | None:
    """Return the entries of manifests whose bytes are given; None: read them one by one.

    All must have the same schema, and as many entries as their manifest list says.
    """
    blocks: list[Block] = []
    counts: list[int] = []
    schemas: set[bytes] = set()
    try:
        for data in loaded:
            header = decode_header(data)
            schemas.add(header.schema)
            some = list(decode_blocks(data, header))
            blocks += some
            counts.append(sum(block.count for block in some))
        if len(schemas) != 1:
            return None
        schema = file_schema(json.loads(schemas.pop()))
        check_readable(schema.record, ENTRY_SCHEMA_SEQUENCES)
    except (ValueError, UnsupportedError):
        return None
    columns = EntryColumns.of(blocks, schema, canonical)
    if columns is None:
        return None
    deleted = np.concatenate([np.zeros(1, np.int64), np.cumsum(columns.kinds == DELETE)])
    ends = np.cumsum([0, *counts])
    recorded = [(m.num_added_files + m.num_deleted_files, m.num_deleted_files) for m in manifests]
    return columns if recorded == list(zip(counts, np.diff(deleted[ends]).tolist(), strict=True)) else None


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
