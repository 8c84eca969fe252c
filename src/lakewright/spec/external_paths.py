"""Paths of data files outside the table.

A new file is at `<external path>/<partition directories>/<bucket directory>/<name>`. The strategy says which external
path it is: one after the other (`round-robin`; `specific-fs` takes only those of one file system), by weights
(`weight-robin`), or one after the other with four directories before the name that are made from its hash
(`entropy-inject`). Invariant: the path of a file depends only on the options, its place in the table, its name
and its number among the files of its writer, so that the same write gives the same paths.
"""

from __future__ import annotations

import bisect
import itertools
import struct
import zlib
from dataclasses import dataclass

from lakewright.errors import InvalidInputError
from lakewright.spec.option_values import ExternalPathStrategy
from lakewright.spec.table_options import TableOptions

_WORD = 0xFFFFFFFF
_HASH_DIRECTORIES = slice(12, 16), slice(16, 20), slice(20, 24), slice(24, 32)  # of the 32 bits of the hash


@dataclass(frozen=True, slots=True)
class ExternalPaths:
    """The directories outside the table that new data files go to."""

    directories: tuple[str, ...]
    strategy: ExternalPathStrategy
    weights: tuple[int, ...] = ()

    def path_of(self, bucket: str, name: str, number: int) -> str:
        """Return where a new file lies; `bucket` is the directory of its bucket relative to the table.

        >>> paths = ExternalPaths(("s3://a/x", "s3://b/y"), ExternalPathStrategy.ROUND_ROBIN)
        >>> [paths.path_of("p=1/bucket-0", f"data-7-{number}.orc", number) for number in range(2)]
        ['s3://a/x/p=1/bucket-0/data-7-0.orc', 's3://b/y/p=1/bucket-0/data-7-1.orc']
        """
        if self.weights:
            ends = list(itertools.accumulate(self.weights))
            chosen = bisect.bisect_right(ends, murmur3(name.encode()) * ends[-1] / (_WORD + 1))
        else:
            # Writers begin at different directories, so that those with one file each do not all choose the first.
            first = zlib.crc32(name.rpartition("-")[0].encode())
            chosen = (first + number) % len(self.directories)
        inner = (
            f"{bucket}/{_hash_directories(name)}" if self.strategy is ExternalPathStrategy.ENTROPY_INJECT else bucket
        )
        return f"{self.directories[chosen]}/{inner}/{name}"


def external_paths(options: TableOptions) -> ExternalPaths | None:
    """Return where the options put new data files; None: into the table. InvalidInputError for options that clash."""
    text = options.data_file_external_paths
    strategy = options.data_file_external_paths_strategy
    if text is None or not text.strip() or strategy is ExternalPathStrategy.NONE:
        return None
    given = [_normalize_path(path.strip()) for path in text.split(",") if path.strip()]
    weights = options.data_file_external_paths_weights
    if strategy is ExternalPathStrategy.SPECIFIC_FS:
        system = options.data_file_external_paths_specific_fs
        if system is None:
            raise _refusal(
                TableOptions.data_file_external_paths_specific_fs.key(), "must name a file system, such as s3"
            )
        given = [path for path in given if path.partition(":")[0].lower() == system]
    if not given:
        raise _refusal(TableOptions.data_file_external_paths.key(), "names no path that the strategy allows")
    if strategy is not ExternalPathStrategy.WEIGHT_ROBIN or not weights or len(given) == 1:
        return ExternalPaths(tuple(given), strategy)
    if len(weights) != len(given):
        key = TableOptions.data_file_external_paths_weights.key()
        raise _refusal(key, f"has {len(weights)} weights for {len(given)} external paths")
    return ExternalPaths(tuple(given), strategy, weights)


def murmur3(data: bytes) -> int:
    """Return the 32 bits of MurmurHash3 with the seed 0.

    >>> hex(murmur3(b"hello, world"))
    '0x149bbb7f'
    """
    mixed = 0
    whole = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        mixed = _rotate_left(mixed ^ _scramble_word(word), 13)
        mixed = (mixed * 5 + 0xE6546B64) & _WORD
    if len(data) > whole:
        mixed ^= _scramble_word(int.from_bytes(data[whole:], "little"))
    mixed ^= len(data)
    mixed = ((mixed ^ mixed >> 16) * 0x85EBCA6B) & _WORD
    mixed = ((mixed ^ mixed >> 13) * 0xC2B2AE35) & _WORD
    return mixed ^ mixed >> 16


def _scramble_word(word: int) -> int:
    return (_rotate_left((word * 0xCC9E2D51) & _WORD, 15) * 0x1B873593) & _WORD


def _rotate_left(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (32 - bits))) & _WORD


def _hash_directories(name: str) -> str:
    bits = f"{murmur3(name.encode()):032b}"
    return "/".join(bits[part] for part in _HASH_DIRECTORIES)


def _normalize_path(path: str) -> str:
    """Return an external path without a slash at the end; a local one as `file:/...`, which all readers know."""
    scheme, colon, rest = path.partition(":")
    if not colon or not scheme.isalnum() or not rest.startswith("/"):
        key = TableOptions.data_file_external_paths.key()
        raise _refusal(key, f"has {path!r}, which is no full path with its file system, such as s3://bucket/directory")
    return f"file:/{rest.strip('/')}" if scheme == "file" else path.rstrip("/")


def _refusal(option: str, why: str) -> InvalidInputError:
    return InvalidInputError(f"the option {option!r} {why}", option=option)
