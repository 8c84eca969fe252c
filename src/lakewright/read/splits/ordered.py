"""The files of a plan of many files in reading order: chosen entries in, stretches of their files out.

Only what decides which files are read together is taken from the columns: partition, bucket, size and sequence number.
Objects are made page by page, when a file of a page is first asked for: making them one by one takes ten times as long.
"""

from __future__ import annotations

import threading
from bisect import bisect
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from lakewright.formats.avro.columns import Longs
from lakewright.metadata.entry_parts import ChosenEntries, distinct
from lakewright.spec.datafile import DataFile

BucketKey: TypeAlias = tuple[bytes, int, int]  # partition, bucket, total buckets
PAGE_FILES = 2_000
_PAGES_MAX = 8  # that are held; a split that was looked at holds its own files


@dataclass(frozen=True, slots=True)
class OrderedFiles:
    """Files, bucket by bucket in the order in which the manifests first name them."""

    entries: ChosenEntries
    order: Longs  # their positions among the entries
    sizes: Longs
    buckets: tuple[tuple[BucketKey, int, int], ...]  # each with the numbers of its first file and of the one after it
    _pages: dict[int, list[DataFile]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, entries: ChosenEntries, *, by_sequence: bool) -> OrderedFiles:
        """Put entries in order; those of one bucket by their sequence numbers, or as they are."""
        partitions, codes = entries.partitions()
        columns = codes, entries.buckets, entries.totals
        firsts, groups = distinct(columns)
        ranks = np.argsort(np.argsort(firsts)).take(groups)
        order = np.lexsort((entries.sequences, ranks)) if by_sequence else np.argsort(ranks, kind="stable")
        ends = np.cumsum(np.bincount(ranks, minlength=len(firsts))).tolist()
        keys = zip(*(column.take(np.sort(firsts)).tolist() for column in columns), strict=True)
        named = [(partitions[code], bucket, total) for code, bucket, total in keys]
        places = tuple(zip(named, [0, *ends], ends, strict=False))
        return cls(entries, order, entries.file_sizes.take(order), places)

    def bucket_at(self, number: int) -> BucketKey:
        """Return the bucket of a file."""
        return self.buckets[bisect(self.buckets, number, key=lambda bucket: bucket[1]) - 1][0]

    def files(self, start: int, stop: int) -> list[DataFile]:
        """Return the files from one number up to another."""
        found: list[DataFile] = []
        for number in range(start // PAGE_FILES, -(-stop // PAGE_FILES)):
            first = number * PAGE_FILES
            found += self._page(number)[max(0, start - first) : stop - first]
        return found

    def _page(self, number: int) -> list[DataFile]:
        with self._lock:
            page = self._pages.get(number)
            if page is None:
                positions = self.order[number * PAGE_FILES : (number + 1) * PAGE_FILES]
                page = self._pages[number] = [entry.file for entry in self.entries.at(positions)]
                if len(self._pages) > _PAGES_MAX:
                    del self._pages[next(iter(self._pages))]
            return page
