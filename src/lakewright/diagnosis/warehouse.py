"""Checks of a storage: list, write, create-once, read, clock and delete, under a scratch name below a warehouse.

Always holds: only files below the scratch name, which nobody else has, are written and deleted.
"""

from __future__ import annotations

import errno
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from lakewright.diagnosis.checks import Check
from lakewright.errors import LakewrightError, NotFoundError
from lakewright.storage.base import Storage
from lakewright.storage.local import LocalStorage

SCRATCH = "_lakewright_doctor"
SKEW_SECONDS = 10.0  # a store may tell whole seconds, and a request takes time
SKEW_FAILED_SECONDS = 300.0
_FIRST, _SECOND = b"written first", b"written second, which must be refused"
_RIGHTS = {
    "list": "s3:ListBucket on the bucket (storage.objects.list, blobs/list)",
    "write": "s3:PutObject and s3:AbortMultipartUpload on the warehouse (storage.objects.create, blobs/write)",
    "read": "s3:GetObject on the warehouse (storage.objects.get, blobs/read)",
    "delete": "s3:DeleteObject on the warehouse (storage.objects.delete, blobs/delete)",
}
_FAILURES = (OSError, LakewrightError)


def check_storage(
    storage: Storage, warehouse: str, clock: Callable[[], float] = time.time, scratch: str | None = None
) -> Iterator[Check]:
    """Try what tables need of a storage, one step after the other."""
    place = f"{warehouse.rstrip('/')}/{SCRATCH}-{scratch or uuid.uuid4().hex}"
    path = f"{place}/once"
    if isinstance(storage, LocalStorage) and not Path(warehouse).is_dir():
        yield Check("storage.list", "failed", f"{warehouse} is no directory", "check the path, or create the directory")
        yield from _skipped("write", "create-once", "read", "clock", "delete")
        return
    try:
        count = sum(1 for _ in storage.list_directories(warehouse))
        yield Check("storage.list", "ok", f"{warehouse} can be listed, {count:,} directories are in it")
    except _FAILURES as error:
        yield _refused("list", f"{warehouse} cannot be listed", error)
        if _is_absent(error):
            yield from _skipped("write", "create-once", "read", "clock", "delete")
            return
    before = clock()
    try:
        if not storage.create(path, _FIRST):
            raise FileExistsError(f"{path} was said to exist before it was written")
    except _FAILURES as error:
        yield _refused("write", f"no file can be created below {warehouse}", error)
        yield from _skipped("create-once", "read", "clock", "delete")
        return
    after = clock()
    yield Check("storage.write", "ok", f"a file was written below {place}")
    yield _check_once(storage, path)
    yield _check_read(storage, path)
    yield _check_clock(storage, place, before, after)
    yield _check_delete(storage, place, path)


_NO_ONCE = (
    "the storage lacks conditional puts (If-None-Match: *), without which two writers can overwrite each other's "
    "commits: use a store that has them, or a REST or SQL catalog that decides who commits"
)


def _check_once(storage: Storage, path: str) -> Check:
    """Put the same file a second time: this must be refused, and the first content must stay."""
    name = "storage.create-once"
    try:
        again = storage.create(path, _SECOND)
    except _FAILURES as error:
        return Check(name, "failed", f"the second put raised {_words(error)} in place of a refusal", _NO_ONCE)
    if again:
        return Check(name, "failed", "a second put of the same name replaced the first", _NO_ONCE)
    return Check(name, "ok", "a second put of the same name was refused")


def _check_read(storage: Storage, path: str) -> Check:
    try:
        found = storage.read(path)
    except _FAILURES as error:
        return _refused("read", "a file that was written cannot be read", error)
    if found != _FIRST:
        return Check("storage.read", "failed", "a file holds other bytes than were written first", _NO_ONCE)
    return Check("storage.read", "ok", "the file holds what was written first")


def _check_clock(storage: Storage, place: str, before: float, after: float) -> Check:
    """Compare the clock of this machine with the time that the store gave the file."""
    name = "storage.clock"
    try:
        stamped = next((file.modified_millis / 1000 for file in storage.list(place)), None)
    except _FAILURES as error:
        return _refused("list", "the scratch file cannot be listed", error)
    if stamped is None:
        return Check(name, "failed", "a file that was written is not listed", "the store must list what it holds")
    skew = stamped - after if stamped > after else min(0.0, stamped - before)
    found = f"the clock of the store is {abs(skew):,.1f} s {'ahead of' if skew > 0 else 'behind'} this machine's"
    if abs(skew) <= SKEW_SECONDS:
        return Check(name, "ok", f"the clock of the store differs by less than {SKEW_SECONDS:.0f} s")
    remedy = "set the clock of this machine by NTP: the age of snapshots and orphans is told by both clocks"
    return Check(name, "failed" if abs(skew) > SKEW_FAILED_SECONDS else "warning", found, remedy)


def _check_delete(storage: Storage, place: str, path: str) -> Check:
    try:
        storage.delete(path)
        left = storage.exists(path)
        storage.delete_directory(place)
    except _FAILURES as error:
        check = _refused("delete", f"{path} cannot be deleted, and stays", error)
        return Check(check.name, check.status, check.found, f"{check.remedy}; then delete {place}")
    if left:
        return Check("storage.delete", "failed", f"{path} is there after it was deleted", f"delete {place} by hand")
    return Check("storage.delete", "ok", "the scratch file was deleted")


def _skipped(*steps: str) -> Iterator[Check]:
    return (Check(f"storage.{step}", "skipped", "nothing could be written") for step in steps)


def _refused(right: str, what: str, error: Exception) -> Check:
    remedy = f"grant {_RIGHTS[right]}, or on a disk the right of the directory; check the location and the credentials"
    if _is_absent(error):  # nobody has refused anything
        remedy = "check the endpoint, the region, the name of the bucket or container, and the network"
    return Check(f"storage.{right}", "failed", f"{what}: {_words(error)}", remedy)


def _is_absent(error: Exception) -> bool:
    """Say whether an error tells that a storage is not there or does not answer, so that no right can be tried."""
    return isinstance(error, NotFoundError) or (isinstance(error, OSError) and error.errno == errno.EIO)


def _words(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}"
