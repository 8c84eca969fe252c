"""Listings in pages; the partitions of a snapshot with their counts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from lakewright.metadata.table_store import TableStore
from lakewright.spec import argument_checks
from lakewright.spec.manifest import ManifestEntry, Partition

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PagedList(Generic[T]):
    """One page of a listing; the token gets the next page, None: this is the last one."""

    elements: list[T]
    next_page_token: str | None = None


def page(names: Sequence[str], max_results: int | None, token: str | None, *, pattern: str | None) -> PagedList[str]:
    """Return the names after the token that match a pattern, at most `max_results` of them.

    In a pattern both `*` and `%` stand for any text.

    >>> page(["a", "b", "c"], 2, None, pattern=None)
    PagedList(elements=['a', 'b'], next_page_token='b')
    >>> page(["dt=1", "dt=20", "dt=21"], None, None, pattern="dt=2*").elements
    ['dt=20', 'dt=21']
    """
    max_results = argument_checks.check_optional(argument_checks.check_positive, "max_results", max_results)
    token = argument_checks.check_optional(argument_checks.check_text, "page_token", token)
    pattern = argument_checks.check_optional(argument_checks.check_text, "the pattern of names", pattern)
    like = None if pattern is None else re.compile(".*".join(map(re.escape, re.split("[*%]", pattern))), re.DOTALL)
    kept = [n for n in names if (token is None or n > token) and (like is None or like.fullmatch(n))]
    if max_results is None or len(kept) <= max_results:
        return PagedList(kept)
    return PagedList(kept[:max_results], kept[max_results - 1])


def partitions_of(store: TableStore) -> list[Partition]:
    """Return the partitions of the newest snapshot."""
    snapshot = store.snapshots.latest()
    places = [] if snapshot is None else store.manifests.live_columns(snapshot).counts(by_bucket=False)
    return [
        Partition(
            spec=store.partition_spec(place.partition),
            record_count=place.rows,
            file_size_in_bytes=place.file_bytes,
            file_count=place.files,
            last_file_creation_time=place.newest_millis or 0,
            total_buckets=place.total_buckets,
        )
        for place in places
    ]


def entries_by_partition(store: TableStore) -> dict[bytes, list[ManifestEntry]]:
    """Return the entries of all files of the newest snapshot, by their partition rows."""
    snapshot = store.snapshots.latest()
    grouped: dict[bytes, list[ManifestEntry]] = {}
    for entry in [] if snapshot is None else store.manifests.live(snapshot):
        grouped.setdefault(entry.partition, []).append(entry)
    return grouped
