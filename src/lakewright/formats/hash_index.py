"""The hash index of dynamic buckets.

A file holds the distinct 32-bit hashes of the trimmed primary keys of one bucket, four bytes each, big endian, in any
order, with neither header nor checksum; the index manifest records how many there are. In memory they are the signed
numbers that the bucket function gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lakewright.errors import CorruptTableError
from lakewright.formats.file_format import Input
from lakewright.spec.manifest import IndexFile

Hashes: TypeAlias = npt.NDArray[np.int32]

_STORED = np.dtype(">i4")


def encode_hashes(hashes: Hashes) -> bytes:
    """Return the bytes of an index file that holds these hashes.

    >>> encode_hashes(np.array([-1, 2], np.int32)).hex()
    'ffffffff00000002'
    """
    return hashes.astype(_STORED).tobytes()


def decode_hashes(data: bytes, file: IndexFile, *, path: str) -> Hashes:
    """Return the hashes of an index file; `file` is its entry in the index manifest."""
    if len(data) % _STORED.itemsize or len(data) // _STORED.itemsize != file.row_count:
        raise CorruptTableError(
            f"the index file {path} has {len(data)} bytes, but {file.row_count} key hashes of {_STORED.itemsize} bytes "
            "are recorded; restore the file, or overwrite its partition",
            path=path,
            files=(file.file_name,),
        )
    return np.frombuffer(data, _STORED).astype(np.int32)


def check_hash_index(source: Input, file: IndexFile, _: Mapping[str, int], path: str) -> Iterator[str]:
    """Yield what is wrong with the content of an index file of hashes."""
    hashes = decode_hashes(source.read(), file, path=path)
    if len(np.unique(hashes)) != len(hashes):
        yield f"{path} has a hash twice"
