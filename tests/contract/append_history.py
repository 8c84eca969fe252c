"""What concurrent processes said they did, against what the table says happened.

Every process appends one line per operation to a log of its own: what it tried, how it ended, which snapshot it saw or
made. Afterwards the checker walks all snapshots: ids without gaps, each (user, identifier, kind) once, every
acknowledged commit found exactly once, every refused one absent, every read equal to the replay of what was
acknowledged up to the snapshot it named.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from lakewright.errors import CommitUnknownError
from lakewright.table.file_store_table import FileStoreTable

ACKNOWLEDGED = "acknowledged"
REFUSED = "refused"
UNKNOWN = "unknown"
READS = 3  # of each process, spread over its appends


@dataclass(frozen=True, slots=True)
class Event:
    """One operation of one process."""

    process: int
    kind: str  # "append" or "read"
    token: str  # of an append: the text in all of its rows
    rows: int
    outcome: str
    snapshot_id: int | None = None
    digest: str | None = None  # of a read
    error: str | None = None


def append_once(table: FileStoreTable, process: int, number: int, rows: int) -> Event:
    """Append rows with a token that no other append has, and return the outcome as an event."""
    token = f"{process}/{number}"
    data = pa.table({"token": [token] * rows, "n": list(range(rows))})
    builder = table.new_batch_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(data)
        messages = write.prepare_commit()
        try:
            result = commit.commit(messages)
        except CommitUnknownError as error:
            return Event(process, "append", token, rows, UNKNOWN, error=str(error))
        except Exception as error:  # noqa: BLE001 - the log is where it is judged
            return Event(process, "append", token, rows, REFUSED, error=repr(error))
    return Event(process, "append", token, rows, ACKNOWLEDGED, result.snapshot_id)


def read_once(table: FileStoreTable, process: int) -> Event:
    """Read the newest snapshot and log a digest of its rows."""
    builder = table.new_read_builder()
    plan = builder.new_scan().plan()
    rows = builder.new_read().to_arrow(plan.splits())
    return Event(process, "read", "", rows.num_rows, ACKNOWLEDGED, plan.snapshot_id, digest(rows))


def digest(rows: pa.Table) -> str:
    """Return a digest of rows that does not depend on their order."""
    return _digest(zip(rows["token"].to_pylist(), rows["n"].to_pylist(), strict=True))


def _digest(rows: Iterable[tuple[str, int]]) -> str:
    return hashlib.sha256("\n".join(sorted(map(repr, rows))).encode()).hexdigest()


def run_appends(table: FileStoreTable, log: str, process: int, appends: int) -> None:
    """Append a number of times, read now and then, and log every operation: the work of one process."""
    reads = min(READS, appends)
    with Path(log).open("w") as out:
        for number in range(appends):
            write_event(out.write, append_once(table, process, number, rows=3))
            if number * reads // appends != (number - 1) * reads // appends:
                write_event(out.write, read_once(table, process))
            out.flush()


def write_event(write: object, event: Event) -> None:
    """Append one event to a log."""
    assert callable(write)
    write(json.dumps(asdict(event)) + "\n")


def load_events(logs: Iterable[Path]) -> list[Event]:
    """Read logs back."""
    return [Event(**json.loads(line)) for log in logs for line in log.read_text().splitlines()]


def check_history(table: FileStoreTable, events: Iterable[Event]) -> list[str]:
    """Return the contradictions between a history and the table; none if the list is empty."""
    known = list(events)
    return [*_snapshots(table), *_commits(table, known), *_reads(table, known)]


def _snapshots(table: FileStoreTable) -> Iterator[str]:
    ids = table.store.snapshots.ids()
    if ids != list(range(1, len(ids) + 1)):
        yield f"the snapshot ids have gaps: {ids}"
    seen: Counter[tuple[str, int, str]] = Counter()
    for snapshot_id in ids:
        snapshot = table.store.snapshots.get(snapshot_id)
        seen[(snapshot.commit_user, snapshot.commit_identifier, snapshot.commit_kind)] += 1
    yield from (f"committed {count} times: {key}" for key, count in seen.items() if count > 1)


def _commits(table: FileStoreTable, events: list[Event]) -> Iterator[str]:
    builder = table.new_read_builder()
    rows = Counter(builder.new_read().to_arrow()["token"].to_pylist())
    for event in (e for e in events if e.kind == "append"):
        count = rows.pop(event.token, 0)
        expected = {ACKNOWLEDGED: {event.rows}, REFUSED: {0}, UNKNOWN: {0, event.rows}}[event.outcome]
        if count not in expected:
            yield f"{event.token} was {event.outcome} and has {count} rows"
    yield from (f"{token} was never written by anyone" for token in rows)


def _reads(table: FileStoreTable, events: list[Event]) -> Iterator[str]:
    doubts = any(event.outcome == UNKNOWN for event in events)
    digests = {0: _digest(())}  # before the first snapshot there is nothing
    for event in (e for e in events if e.kind == "read"):
        snapshot_id = event.snapshot_id or 0
        if snapshot_id not in digests:
            # Where an outcome is unknown only the table knows which rows the snapshot has.
            digests[snapshot_id] = _pinned(table, snapshot_id) if doubts else _replayed(events, snapshot_id)
        if event.digest != digests[snapshot_id]:
            yield f"process {event.process} read something else than snapshot {snapshot_id}"


def _pinned(table: FileStoreTable, snapshot_id: int) -> str:
    return digest(table.copy({"scan.snapshot-id": str(snapshot_id)}).new_read_builder().new_read().to_arrow())


def _replayed(events: list[Event], snapshot_id: int) -> str:
    """Return the digest of all rows that were acknowledged up to a snapshot."""
    done = (e for e in events if e.kind == "append" and e.outcome == ACKNOWLEDGED)
    return _digest((e.token, n) for e in done if (e.snapshot_id or 0) <= snapshot_id for n in range(e.rows))
