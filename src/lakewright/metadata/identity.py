"""Who a table is: the place and the birth certificate of one table, as one digest.

A commit message carries the identity of the table it was written for, so that it cannot be committed to another one. A
table that was dropped and made again at the same place has another schema-0, and is another table.
"""

from __future__ import annotations

import hashlib
import threading

from lakewright.errors import NotFoundError
from lakewright.metadata.store import TableStore

_KNOWN_MAX = 4096
_known: dict[tuple[object, ...], str] = {}
_lock = threading.Lock()


def table_identity(store: TableStore) -> str:
    """Return the identity of a table: the SHA-256 of its location and its first schema file, in hexadecimal."""
    # The schema's own time and columns are part of the key: a table made anew at this place has others.
    key = (store.layout.root, store.layout.branch, store.schema.id, store.schema.time_millis, store.schema.fields)
    found = _known.get(key)
    if found is None:
        found = _digest(store)
        with _lock:
            if len(_known) >= _KNOWN_MAX:
                _known.clear()
            _known[key] = found
    return found


def _digest(store: TableStore) -> str:
    path = store.layout.schema_file(0)
    try:
        first = store.storage.read(path)
    except FileNotFoundError:
        first = _root_schema(store)
    return hashlib.sha256(store.layout.branch_root.encode() + b"\0" + first).hexdigest()


def _root_schema(store: TableStore) -> bytes:
    """Return the first schema of the table itself: a branch keeps only those schemas that it was made with."""
    path = store.layout.for_branch("main").schema_file(0)
    try:
        return store.storage.read(path)
    except FileNotFoundError:
        raise NotFoundError(
            f"table {store.name}: its first schema is missing at {path}; was the table dropped?",
            table=store.name,
            path=path,
        ) from None
