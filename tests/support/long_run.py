"""Processes that use two tables for a long time: what each of them did, how long it took, and what it held meanwhile.

One table takes appends, the other one has a primary key. Writers and upserters live for the whole run, another writer
is killed again and again, a reader checks what it reads, a keeper compacts, expires, tags and removes orphans. Every
process writes one line for each operation to a journal of its own.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

import lakewright as lw
from contract.append_history import ACKNOWLEDGED
from lakewright.spec.argument_checks import WriteMode

ROWS = 3  # of one append
KEYS = 200  # of one upserter
DONE, REFUSED = "done", "refused"
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Line:
    """One operation: when it ended, its name and outcome, its milliseconds, and what its process held afterwards."""

    at: float
    name: str
    outcome: str
    ms: float
    resident: int
    handles: int
    threads: int
    token: str = ""  # of an append: the text in its rows; of an upsert: the version of its rows


@dataclass(frozen=True, slots=True)
class Worker:
    """What one process needs to know: where the tables lie, its log, its number, and when it ends."""

    log: str
    keyed: str
    journal: str
    number: int
    until: float

    def left(self) -> bool:
        """Return whether there is time left; a process whose parent was killed ends too."""
        return time.time() < self.until and os.getppid() != 1

    def operate(self, name: str, act: Callable[[], str], token: str = "") -> None:
        """Run one operation and write its line, durably: a process may be killed at any moment."""
        begin = time.perf_counter()
        outcome = act()
        ms = (time.perf_counter() - begin) * 1000
        line = Line(time.time(), name, outcome, ms, *_held(), token)
        with Path(self.journal).open("a") as out:
            out.write(json.dumps(asdict(line)) + "\n")
            out.flush()
            os.fsync(out.fileno())


def make_tables(warehouse: Path) -> tuple[str, str]:
    """Make the two tables and return where they lie."""
    catalog = lw.CatalogFactory.create({"warehouse": str(warehouse)})
    catalog.create_database("d")
    log = [lw.DataField(0, "token", lw.AtomicType("STRING")), lw.DataField(1, "n", lw.AtomicType("BIGINT"))]
    catalog.create_table("d.log", lw.Schema(log))
    keyed = [lw.DataField(0, "k", lw.AtomicType("BIGINT", nullable=False))]
    keyed += [lw.DataField(1, "version", lw.AtomicType("BIGINT")), lw.DataField(2, "text", lw.AtomicType("STRING"))]
    catalog.create_table("d.keyed", lw.Schema(keyed, None, ["k"], {"bucket": "2"}))
    return catalog.get_table("d.log").table_path, catalog.get_table("d.keyed").table_path


def append(worker: Worker) -> None:
    """Append rows with a token that no other append has."""
    table = lw.open_table(worker.log)
    life = f"{worker.number}-{time.time_ns()}"
    number = 0
    while worker.left():
        number += 1
        token = f"{life}/{number}"
        data = pa.table({"token": [token] * ROWS, "n": list(range(ROWS))})
        worker.operate("append", lambda data=data: _write(table, data, "append"), token)  # type: ignore[misc]
        time.sleep(0.05)


def upsert(worker: Worker) -> None:
    """Write all keys of this process again, with a higher version each time."""
    table = lw.open_table(worker.keyed)
    keys = pa.array(range(worker.number * KEYS, (worker.number + 1) * KEYS), pa.int64())
    version = 0
    while worker.left():
        version += 1
        rows = {"k": keys, "version": [version] * KEYS, "text": [f"v{version}"] * KEYS}
        data = pa.table(rows)
        worker.operate("upsert", lambda data=data: _write(table, data, "upsert"), str(version))  # type: ignore[misc]
        time.sleep(0.1)


def _write(table: lw.FileStoreTable, data: pa.Table, mode: WriteMode) -> str:
    try:
        lw.write_table(data, table, mode=mode)
    except lw.CommitUnknownError:
        return "unknown"
    except lw.LakewrightError as error:
        return f"{REFUSED}: {error!r}"
    return ACKNOWLEDGED


def read(worker: Worker) -> None:
    """Read both tables, newest and older snapshots; an append is whole, a key is there once, versions never go back."""
    dice = random.Random(worker.number)
    log, keyed = lw.open_table(worker.log), lw.open_table(worker.keyed)
    seen: dict[int, int] = {}
    while worker.left():
        worker.operate("read appends", lambda: _read_log(log, None))
        worker.operate("read an older snapshot", lambda: _read_log(log, dice))
        worker.operate("read keys", lambda: _read_keys(keyed, seen))
        time.sleep(0.2)


def _read_log(table: lw.FileStoreTable, dice: random.Random | None) -> str:
    try:
        snapshot_id = None if dice is None else dice.choice(table.store.snapshots.ids() or [1])
        rows = lw.read_table(table, snapshot_id=snapshot_id)
    except lw.NotFoundError:
        return "expired" if dice is not None else "wrong: the newest snapshot is gone"
    counts = Counter(rows["token"].to_pylist())
    broken = [token for token, count in counts.items() if count != ROWS]
    return f"wrong: {broken[:5]} are there in part or twice" if broken else DONE


def _read_keys(table: lw.FileStoreTable, seen: dict[int, int]) -> str:
    rows = lw.read_table(table)
    keys, versions = rows["k"].to_pylist(), rows["version"].to_pylist()
    if len(set(keys)) != len(keys):
        return "wrong: a key is there twice"
    back = [key for key, version in zip(keys, versions, strict=True) if version < seen.get(key, 0)]
    seen.update(zip(keys, versions, strict=True))
    return f"wrong: older versions of {back[:5]} are back" if back else DONE


def keep(worker: Worker) -> None:
    """Compact, expire, tag and remove orphans, as operators do."""
    tables = [lw.open_table(worker.log), lw.open_table(worker.keyed)]
    while worker.left() and any(table.snapshot() is None for table in tables):
        time.sleep(0.1)  # the writers are still starting
    turn = 0
    while worker.left():
        turn += 1
        for table in tables:
            name, chores = table.name, _chores(table, turn)
            for verb, act in chores:
                worker.operate(f"{verb} {name}", lambda act=act: _kept(act))  # type: ignore[misc]
        time.sleep(1)


def _chores(table: lw.FileStoreTable, turn: int) -> Iterator[tuple[str, Callable[[], object]]]:
    yield "compact", lambda: table.compact(full=turn % 10 == 0)
    yield "expire", lambda: table.expire_snapshots(retain_max=20, retain_min=5)
    if turn % 5 == 0:
        yield "tag", lambda: table.create_tag(f"t{turn}", ignore_if_exists=True)
    if turn % 5 == 2:
        yield "delete the tags of", lambda: _delete_tags(table)
    if turn % 20 == 0:
        # Older than any write of this run takes: files of those that are running stay.
        yield "remove orphans of", lambda: table.remove_orphan_files(older_than=int((time.time() - 300) * 1000))


def _delete_tags(table: lw.FileStoreTable) -> None:
    for tag in table.list_tags():
        table.delete_tag(tag)


def _kept(act: Callable[[], object]) -> str:
    try:
        act()
    except (lw.CommitConflictError, lw.CommitContentionError) as error:
        return type(error).__name__  # writers go first
    return DONE


def load(journals: Path) -> dict[str, list[Line]]:
    """Return what every process wrote; a last line that a kill cut is left out."""
    found: dict[str, list[Line]] = {}
    for path in sorted(journals.glob("*.jsonl")):
        lines = path.read_text().split("\n")
        found[path.stem] = [Line(**json.loads(line)) for line in lines[:-1]]
    return found


def growth(lines: list[Line], what: str) -> tuple[float, float]:
    """Return the median of what a process held in the second tenth of its operations, and in the last."""
    tenth = max(len(lines) // 10, 1)
    values = [float(getattr(line, what)) for line in lines]
    return statistics.median(values[tenth : 2 * tenth] or values), statistics.median(values[-tenth:])


def _held() -> tuple[int, int, int]:
    """Return the resident bytes, open files and threads of this process."""
    status = Path("/proc/self/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return int(fields["VmRSS"].split()[0]) * 1024, len(list(Path("/proc/self/fd").iterdir())), int(fields["Threads"])
