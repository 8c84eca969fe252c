"""Index files: an index file that a state needs in, findings about its vectors or hashes out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations

import numpy as np

from lakewright.errors import CorruptTableError, LakewrightError
from lakewright.formats.deletion_vectors import read_deletion_vector
from lakewright.formats.hash_index import Hashes, decode_hashes
from lakewright.metadata.store import TableStore
from lakewright.spec.datafile import DELETION_VECTORS, HASH
from lakewright.spec.manifest import IndexEntry
from lakewright.verify.findings import Finding, finding, is_damage
from lakewright.verify.states import IndexNeeded


def check_ranges(needed: IndexNeeded) -> Iterator[Finding]:
    """Yield what is wrong with the recorded places of deletion vectors, without opening the file."""
    rows = dict(needed.rows)
    for vector in needed.file.deletion_ranges or ():
        end = vector.offset + vector.length
        if vector.offset < 1 or vector.length < 0 or end > needed.file.file_size:
            text = f"{needed.path}: the deletion vector of {vector.data_file} lies outside of the file"
            yield finding("deletion-vector", needed.path, text)
        elif (vector.cardinality or 0) > rows.get(vector.data_file, vector.cardinality or 0):
            text = f"{needed.path}: the deletion vector of {vector.data_file} deletes {vector.cardinality} rows"
            yield finding("deletion-vector", needed.path, f"{text}, and the file has {rows[vector.data_file]}")


def check_index_file(store: TableStore, needed: IndexNeeded) -> list[Finding]:
    """Return what is wrong with the content of an index file; it is opened."""
    file, path = needed.file, needed.path
    out: list[Finding] = []
    try:
        if file.index_type == HASH:
            hashes = decode_hashes(store.storage.read(path), file, path=path)
            if len(np.unique(hashes)) != len(hashes):
                out.append(finding("hash-index", path, f"{path} has a hash twice"))
        elif file.index_type == DELETION_VECTORS:
            out += _check_vectors(store, needed)
    except LakewrightError as error:
        out.append(finding("damaged-file", path, error.message))
    except OSError as error:
        if not is_damage(error):
            raise
        out.append(finding("missing-file", path, f"{path} cannot be read: {error}"))
    return out


def _check_vectors(store: TableStore, needed: IndexNeeded) -> Iterator[Finding]:
    rows, path = dict(needed.rows), needed.path
    source = store.storage.open_input(path)
    try:
        if source.read(1) != b"\x01":
            yield finding("damaged-file", path, f"{path} does not begin like a file of deletion vectors")
        for vector in needed.file.deletion_ranges or ():
            try:
                positions = read_deletion_vector(source, vector, path=path)
            except CorruptTableError as error:
                yield finding("deletion-vector", path, error.message)
                continue
            last = int(positions[-1]) if len(positions) else -1
            if last >= rows.get(vector.data_file, last + 1):
                text = f"{path} deletes row {last} of {vector.data_file}, which has {rows[vector.data_file]}"
                yield finding("deletion-vector", path, text)
    finally:
        source.close()


def check_hashes_apart(store: TableStore, entries: Iterable[IndexEntry]) -> list[Finding]:
    """Return the index files of one partition that share a hash: a key has one bucket in a partition."""
    partitions: dict[bytes, list[tuple[str, Hashes]]] = defaultdict(list)
    for entry in entries:
        if entry.file.index_type != HASH:
            continue
        directory = store.layout.bucket_directory(store.partition_directory(entry.partition), entry.bucket)
        path = store.layout.index_file(entry.file, directory)
        try:
            partitions[entry.partition].append((path, decode_hashes(store.storage.read(path), entry.file, path=path)))
        except (LakewrightError, FileNotFoundError):
            continue  # the check of the file itself reports it
    return [
        finding("hash-index", path, f"{path} and {other} share the hash of a key, which has one bucket")
        for files in partitions.values()
        for (other, one), (path, two) in combinations(files, 2)
        if len(np.intersect1d(one, two))
    ]
