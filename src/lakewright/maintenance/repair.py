"""Repair: hints that are wrong, tags whose files are gone, what cut-short work on branches left, a damaged snapshot.

Nothing that can be read is removed: a tag goes only if its file, its manifests or all of its data files are gone, and
left-overs of branches only if they are older than a day, because a call may still be writing them. Each step is one
call of the storage that leaves a whole table, so that a repair that is cut short is finished by the next one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from lakewright.display.notebook import InNotebook
from lakewright.errors import CorruptTableError, NotFoundError, UnsupportedError
from lakewright.maintenance.branches import is_cut_short
from lakewright.maintenance.orphans import DAY_MILLIS
from lakewright.maintenance.unexisting import missing_files
from lakewright.metadata.refs import HIDDEN_BRANCH, branches
from lakewright.metadata.store import TableStore

HINT, TAG, BRANCH, SNAPSHOT = "hint", "tag", "branch", "snapshot"


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One thing that was wrong, and what was done about it, or would be."""

    kind: str  # "hint", "tag", "branch" or "snapshot"
    path: str
    message: str
    repaired: bool  # False: it is only reported, and the message says what to do


@dataclass(frozen=True, slots=True)
class RepairResult(InNotebook):
    """All that a repair found."""

    steps: tuple[RepairStep, ...]
    dry_run: bool

    @property
    def is_empty(self) -> bool:
        """Whether nothing was wrong."""
        return not self.steps


def repair(store: TableStore, *, dry_run: bool, now_millis: int | None = None) -> RepairResult:
    """Repair hints, tags and left-overs of branches; with `dry_run` only say what would be done."""
    if store.home.history is not None:
        raise UnsupportedError(
            f"{store.name}: a server owns its history, with its hints, tags and branches; nothing is repaired here",
            table=store.name,
        )
    store.check_same_table()
    now = int(time.time() * 1000) if now_millis is None else now_millis
    steps = [*_tags(store, dry_run=dry_run), *_branches(store, now - DAY_MILLIS, dry_run=dry_run)]
    return RepairResult((*_newest(store), *_hints(store, dry_run=dry_run), *steps), dry_run)


def _newest(store: TableStore) -> Iterator[RepairStep]:
    """Report a newest snapshot that cannot be read: only a person can say whether what it committed may be lost."""
    for snapshot_id in store.snapshots.ids()[-1:]:
        try:
            store.snapshots.get(snapshot_id)
        except CorruptTableError as error:
            yield RepairStep(SNAPSHOT, store.layout.snapshot_file(snapshot_id), error.message, repaired=False)
        except NotFoundError:
            return  # somebody rolled it back


def _hints(store: TableStore, *, dry_run: bool) -> Iterator[RepairStep]:
    ids = store.snapshots.ids()
    layout = store.layout
    for path, right in ((layout.latest_hint, ids[-1:]), (layout.earliest_hint, ids[:1])):
        try:
            text = store.storage.read(path).decode("ascii", "replace").strip()
        except FileNotFoundError:
            text = None
        wanted = str(right[0]) if right else None
        if text == wanted:
            continue
        name, was = path.rpartition("/")[2], "is missing" if text is None else f"says {text[:20]!r}"
        message = f"{name} {was}; {'the table has no snapshot' if wanted is None else f'it is {wanted}'}"
        if not dry_run and wanted is None:
            store.storage.delete(path)
        elif not dry_run and wanted is not None:
            store.storage.replace(path, wanted.encode())
        yield RepairStep(HINT, path, message, repaired=True)


def _tags(store: TableStore, *, dry_run: bool) -> Iterator[RepairStep]:
    for name in store.tags.list():
        found = _what_is_wrong(store, name)
        if found is None:
            continue
        reason, is_lost = found
        path = store.layout.tag_file(name)
        advice = "it is removed" if is_lost else "delete_tag removes it, if you do not need the rest"
        if is_lost and not dry_run:
            store.storage.delete(path)
        yield RepairStep(TAG, path, f"the tag {name!r}: {reason}; {advice}", repaired=is_lost)


def _what_is_wrong(store: TableStore, name: str) -> tuple[str, bool] | None:
    """Return why a tag cannot be read, and whether all of it is lost; None if it can be read."""
    try:
        snapshot = store.tags.get(name).snapshot
        entries = store.manifests.without_cache().live(snapshot)
        missing = missing_files(store, snapshot)
    except FileNotFoundError as error:
        return f"{error.filename or error} is missing", True
    except CorruptTableError as error:
        return f"it cannot be read ({error.message})", True
    except NotFoundError:
        return None  # somebody deleted it
    if not missing:
        return None
    return f"{len(missing)} of its {len(entries)} data files are missing", len(missing) == len(entries)


def _branches(store: TableStore, limit: int, *, dry_run: bool) -> Iterator[RepairStep]:
    layout, storage = store.layout, store.storage
    directories = [path.rstrip("/") for path in storage.list_directories(layout.branches_directory)]
    hidden = [path for path in directories if path.rpartition("/")[2].startswith(HIDDEN_BRANCH)]
    cut = [layout.for_branch(name) for name in branches(storage, layout)]
    cut = [branch for branch in cut if is_cut_short(store, branch)]
    for directory in (*hidden, *(branch.branch_root for branch in cut)):
        files = list(storage.walk(directory))
        if not files:
            if not dry_run:
                storage.prune_directory(directory, before_millis=limit)
            continue
        if any(info.modified_millis >= limit for info in files):
            message = f"{directory} is being made or removed, or was cut short less than a day ago; repair it later"
            yield RepairStep(BRANCH, directory, message, repaired=False)
            continue
        if not dry_run:
            storage.delete_directory(directory)
        yield RepairStep(BRANCH, directory, "work on a branch was cut short; what it left is removed", repaired=True)
