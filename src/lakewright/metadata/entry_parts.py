"""The entries of several manifests: parts in, one for each manifest, the live entries of all of them out.

A manifest is held as columns (`EntryColumns`) where it is large, and as objects (`EntryList`) where it is small or
unusual. Both say for all of their entries what decides whether a file is read; a plan of many files chooses among the
numbers of the entries, and makes objects of those that are left, when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from lakewright.formats.avro.columns import Longs, Mask, Words, digests_of
from lakewright.metadata.entry_columns import EntryColumns
from lakewright.spec.manifest import ADD, FileIdentity, ManifestEntry

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
    return np.arange(len(part)) if keep is None else np.flatnonzero(_kept(part, keep))


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
class ChosenEntries:
    """Some entries of manifests, in order."""

    parts: tuple[EntryPart, ...]
    rows: tuple[Longs, ...]  # of each part, the numbers of its chosen entries, which rise

    @classmethod
    def of(cls, entries: Sequence[ManifestEntry]) -> ChosenEntries:
        """Return entries that are objects already."""
        return cls((EntryList(entries),), (np.arange(len(entries)),))

    def __len__(self) -> int:
        return sum(map(len, self.rows))

    def narrowed(self, choose: Callable[[EntryPart, Longs], Longs]) -> ChosenEntries:
        """Return those that are left where each part chooses among its own."""
        return ChosenEntries(self.parts, tuple(map(choose, self.parts, self.rows)))

    def where(self, mask: Mask) -> ChosenEntries:
        """Return those of them that a mask says."""
        ends = np.cumsum([len(rows) for rows in self.rows])[:-1]
        return ChosenEntries(
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
        return self._joined([part.buckets for part in self.parts])

    @property
    def totals(self) -> Longs:
        """How many buckets there were."""
        return self._joined([part.totals for part in self.parts])

    @property
    def file_sizes(self) -> Longs:
        """The sizes of the files."""
        return self._joined([part.file_sizes for part in self.parts])

    @property
    def sequences(self) -> Longs:
        """The lowest sequence numbers of the files."""
        return self._joined([part.sequences for part in self.parts])

    def partitions(self) -> tuple[list[bytes], Longs]:
        """Return all partitions of the manifests, and of each chosen entry the number of its own."""
        numbers: dict[bytes, int] = {}
        codes = []
        for part in self.parts:
            here = _longs(numbers.setdefault(partition, len(numbers)) for partition in part.partitions)
            codes.append(here.take(part.codes) if len(here) else part.codes)
        return list(numbers), self._joined(codes)

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

    def _joined(self, columns: Sequence[Longs]) -> Longs:
        taken = [column.take(rows) for column, rows in zip(columns, self.rows, strict=True)]
        return np.concatenate([np.zeros(0, np.int64), *taken])


def live_entries(parts: Sequence[EntryPart], keep: Keep | None, *, all_are_here: bool) -> ChosenEntries | None:
    """Return the entries that add files which none deletes, of those that are kept; None: something is wrong.

    Where not `all_are_here`, a file may be deleted that none adds. Nearly always a name occurs once; only names that
    occur more often are looked at as objects.
    """
    kept = [_rows(part, keep) for part in parts]
    chosen = ChosenEntries(tuple(parts), tuple(kept))
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


def _kept(part: EntryPart, keep: Keep) -> Mask:
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
