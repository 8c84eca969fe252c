"""What concurrent processes said they did, against what the table says happened.

Every process appends one line per operation to a log of its own: what it tried, how it ended, which snapshot it saw or
made. Afterwards the checker walks all snapshots: ids without gaps, each (user, identifier, kind) once, every
acknowledged commit found exactly once, every refused one absent, every read equal to the snapshot it named.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from lakewright.catalog.open import open_table
from lakewright.errors import CommitUnknownError
from lakewright.table import FileStoreTable

ACKNOWLEDGED = "acknowledged"
REFUSED = "refused"
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Event:
    """One operation of one process."""

    process: int
    kind: str  # "append" or "read"
    token: str  # of an append: the text that all of its rows carry
    rows: int
    outcome: str
    snapshot_id: int | None = None
    digest: str | None = None  # of a read
    error: str | None = None


def append_once(table: FileStoreTable, process: int, number: int, rows: int) -> Event:
    """Append rows that carry a token of their own, and tell how it ended."""
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
    text = sorted(map(repr, zip(rows["token"].to_pylist(), rows["n"].to_pylist(), strict=True)))
    return hashlib.sha256("\n".join(text).encode()).hexdigest()


def run_appends(location: str, options: dict[str, str], log: str, process: int, appends: int) -> None:
    """Be one process: append a number of times, read now and then, log everything."""
    table = open_table(location, options)
    with Path(log).open("w") as out:
        for number in range(appends):
            write_event(out.write, append_once(table, process, number, rows=3))
            if number % 5 == 0:
                write_event(out.write, read_once(table, process))
            out.flush()


def write_event(write: object, event: Event) -> None:
    """Append one event to a log."""
    assert callable(write)  # noqa: S101
    write(json.dumps(asdict(event)) + "\n")


def load_events(logs: Iterable[Path]) -> list[Event]:
    """Read logs back."""
    return [Event(**json.loads(line)) for log in logs for line in log.read_text().splitlines()]


def check_history(table: FileStoreTable, events: Iterable[Event]) -> list[str]:
    """Return what is wrong with a history; an empty list is a proof."""
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
    found = Counter(builder.new_read().to_arrow()["token"].to_pylist())
    for event in (e for e in events if e.kind == "append"):
        count = found.pop(event.token, 0)
        expected = {ACKNOWLEDGED: {event.rows}, REFUSED: {0}, UNKNOWN: {0, event.rows}}[event.outcome]
        if count not in expected:
            yield f"{event.token} was {event.outcome} and has {count} rows"
    yield from (f"{token} was never written by anyone" for token in found)


def _reads(table: FileStoreTable, events: list[Event]) -> Iterator[str]:
    digests: dict[int, str] = {}
    for event in (e for e in events if e.kind == "read" and e.snapshot_id is not None):
        assert event.snapshot_id is not None  # noqa: S101
        if event.snapshot_id not in digests:
            pinned = table.copy({"scan.snapshot-id": str(event.snapshot_id)}).new_read_builder()
            digests[event.snapshot_id] = digest(pinned.new_read().to_arrow())
        if event.digest != digests[event.snapshot_id]:
            yield f"process {event.process} read something else than snapshot {event.snapshot_id}"
