"""Decoded manifests that this process keeps: the storage and the path of a file in, what it holds out.

The files are immutable, but a name may come again: a commit names its first manifest after the write job, so that a
repeated commit finds it; after a rollback, or in a table that was made anew at the same place, a later commit of the
job writes another file of that name. Names with a random uuid never come again, and lists have such names. So a file
with a random name is believed by its name; any other only under the state (the list) that it was read for, and for
another state its bytes are read and compared, which saves the decoding alone.

A storage is part of the key, and its credentials are part of the storage: who may not read a file does not get it from
here either. Whether a snapshot exists is never answered from here, so that an expired one is still missed.

Always holds: all values together take no more bytes than the last caller allowed; those that were not used for longest
go first.
"""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TypeAlias

Key: TypeAlias = tuple[Hashable, ...]

_RANDOM = re.compile(r"[a-z-]+-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-[0-9]+")
_STATES_MAX = 16  # for which a file is known to be the same


def is_random(name: str) -> bool:
    """Say whether a name contains a random uuid, so that no other file gets it.

    >>> is_random("manifest-90e50cd5-1d2a-4c67-8d3e-6b9f1c1e8a11-0")
    True
    >>> is_random("manifest-0d3a654d-d373-5200-8e24-b14c070c69e1-0")
    False
    """
    return _RANDOM.fullmatch(name) is not None


@dataclass(slots=True)
class _Kept:
    value: object
    memory: int
    size: int  # of the file
    digest: bytes  # of the file
    states: OrderedDict[str, None]  # under which the file is known to be this one

    def note(self, state: str | None) -> None:
        if state is not None:
            self.states[state] = None
            if len(self.states) > _STATES_MAX:
                self.states.popitem(last=False)


@dataclass(slots=True)
class ManifestCache:
    """Values by their keys, up to a number of bytes; any number of threads may use it."""

    size: int = 0  # of all values in memory, in bytes
    _kept: OrderedDict[Key, _Kept] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: Key, size: int | None, state: str | None) -> object | None:
        """Return what a file of a size holds; None: it is not here, or may be another one.

        `state` is the list that names the file, None where that is not known; it does not matter for random names.
        """
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or size not in {None, kept.size}:
                return None
            if state not in kept.states and not is_random(str(key[1]).rpartition("/")[2]):
                return None
            self._kept.move_to_end(key)
            return kept.value

    def get_same(self, key: Key, data: bytes, state: str | None) -> object | None:
        """Return what a file with these bytes holds; None: it is not here. From now on it is known in this state."""
        with self._lock:
            if key not in self._kept:
                return None
        digest = _digest(data)
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or kept.digest != digest:
                return None
            kept.note(state)
            self._kept.move_to_end(key)
            return kept.value

    def put(self, key: Key, data: bytes, state: str | None, kept: tuple[object, int], bytes_max: int) -> None:
        """Keep a value and its size in memory, unless it is too large, and drop others until all are small enough."""
        value, memory = kept
        if memory > bytes_max:
            return
        made = _Kept(value, memory, len(data), _digest(data), OrderedDict())
        made.note(state)
        with self._lock:
            before = self._kept.pop(key, None)
            self._kept[key] = made
            self.size += memory - (0 if before is None else before.memory)
            while self.size > bytes_max:
                self.size -= self._kept.popitem(last=False)[1].memory

    def drop(self, key: Key) -> None:
        """Drop the value of a file that is deleted."""
        with self._lock:
            kept = self._kept.pop(key, None)
            self.size -= 0 if kept is None else kept.memory

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._kept.clear()
            self.size = 0

    def after_fork(self) -> None:
        """Begin anew in a child process: a thread of the parent may have held the lock."""
        self._lock, self._kept, self.size = threading.Lock(), OrderedDict(), 0


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


CACHE = ManifestCache()
os.register_at_fork(after_in_child=CACHE.after_fork)
