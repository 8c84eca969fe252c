"""The kinds of index files that lakewright knows: how many of them a bucket may have, and what checks their content.

Index files of other kinds are kept as they are. They are independent of each other, and their content is not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple

from lakewright.formats.deletion_vectors import check_deletion_vectors
from lakewright.formats.file_format import Input
from lakewright.formats.hash_index import check_hash_index
from lakewright.spec.manifest import DELETION_VECTORS, HASH, IndexFile


class IndexKind(NamedTuple):
    """One kind of index file."""

    # A bucket has one file of the kind at most, which a new file replaces: always, or only in tables with buckets.
    one_per_bucket: Literal["always", "with buckets"]
    # Yields what is wrong with the content of an open file; a mapping has the row counts of the data files by name.
    faults: Callable[[Input, IndexFile, Mapping[str, int], str], Iterator[str]]
    finding: str = "damaged-file"  # the kind of finding that verification makes of a fault, which has the remedy


INDEX_KINDS: Mapping[str, IndexKind] = {
    HASH: IndexKind("always", check_hash_index, finding="hash-index"),
    DELETION_VECTORS: IndexKind("with buckets", check_deletion_vectors, finding="deletion-vector"),
}


def is_one_per_bucket(index_type: str, *, bucketed: bool) -> bool:
    """Return whether a bucket has one index file of a kind at most, in a table with or without buckets."""
    kind = INDEX_KINDS.get(index_type)
    return kind is not None and (bucketed or kind.one_per_bucket == "always")
