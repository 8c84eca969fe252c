"""Following a table: what it held and every change after, nothing twice, nothing left out, and where it stops."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewright.errors import CorruptTableError, InvalidInputError, NotFoundError, UnsupportedError
from lakewright.metadata.table_store import TableStore
from lakewright.read.stream_read import StreamReadBuilder, StreamScan
from lakewright.read.table_scan import Plan
from lakewright.spec.snapshot import CommitKind, to_json
from lakewright.table.write_builder import BatchWriteBuilder
from support.golden import expected, expected_rows, in_order, spelled
from support.read_tables import append, golden_store, new_table

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
PRODUCED = sorted(name for name in expected() if name.startswith("changelog."))


@pytest.fixture
def store(tmp_path: Path) -> TableStore:
    return new_table(tmp_path, SCHEMA)


def add(store: TableStore, *ids: int) -> None:
    append(store, pa.table({"id": ids, "p": [str(n) for n in ids]}, schema=SCHEMA))


def overwrite(store: TableStore, *ids: int) -> None:
    builder = BatchWriteBuilder(store).overwrite()
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(pa.table({"id": ids, "p": [str(n) for n in ids]}, schema=SCHEMA))
        commit.commit(write.prepare_commit())


def with_options(store: TableStore, options: Mapping[str, str]) -> TableStore:
    return store.with_schema(store.schema.with_options(options))


def ids_of(store: TableStore, plan: Plan | None) -> list[int] | None:
    if plan is None:
        return None
    found: list[int] = StreamReadBuilder(store).new_read().to_arrow(plan.splits())["id"].to_pylist()
    return found


def take(store: TableStore, scan: StreamScan) -> list[list[int] | None]:
    """Return the ids of all plans up to the first that is not there yet."""
    plans = itertools.takewhile(lambda plan: plan is not None, iter(scan.plan, object()))
    return [ids_of(store, plan) for plan in plans]


def events(store: TableStore, plan: Plan) -> list[tuple[str, list[Any]]]:
    read = StreamReadBuilder(store).with_include_row_kind().new_read()
    table = read.to_arrow(plan.splits())
    return list(zip(table["_row_kind"].to_pylist(), spelled(table, store.schema.fields), strict=True))


def test_a_full_read_comes_first_and_every_commit_after_it(store: TableStore) -> None:
    scan = StreamReadBuilder(store).new_streaming_scan()
    assert (scan.plan(), scan.checkpoint()) == (None, None)
    add(store, 1, 2)
    add(store, 3)
    first = scan.plan()
    assert first is not None
    assert (first.snapshot_id, ids_of(store, first), scan.checkpoint()) == (2, [1, 2, 3], 3)
    assert scan.plan() is None
    add(store, 4)
    add(store, 5, 6)
    assert take(store, scan) == [[4], [5, 6]]
    assert scan.checkpoint() == 5
    again = StreamReadBuilder(store).new_streaming_scan()
    again.restore(4)
    assert take(store, again) == [[5, 6]]
    again.restore(None)
    assert take(store, again) == [[1, 2, 3, 4, 5, 6]]
    with pytest.raises(InvalidInputError, match="at least 1"):
        again.restore(0)


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ({"scan.mode": "latest-full"}, [[1, 2, 3], [4]]),
        ({"scan.mode": "full"}, [[1, 2, 3], [4]]),
        ({"scan.mode": "latest"}, [[4]]),
        ({"scan.snapshot-id": "2"}, [[2], [3], [4]]),
        ({"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}, [[1], [2], [3], [4]]),
        ({"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2"}, [[1, 2], [3], [4]]),
        ({"scan.tag-name": "two"}, [[2], [3], [4]]),
        ({"scan.mode": "from-snapshot-full", "scan.tag-name": "two"}, [[1, 2], [3], [4]]),
        ({"scan.snapshot-id": "4"}, [[4]]),
        ({"scan.timestamp-millis": "0"}, [[1], [2], [3], [4]]),
        ({"scan.mode": "from-timestamp", "scan.timestamp": "2000-01-01"}, [[1], [2], [3], [4]]),
        ({"scan.timestamp-millis": "4000000000000"}, [[4]]),
    ],
)
def test_modes_say_where_a_stream_begins(store: TableStore, options: dict[str, str], want: list[list[int]]) -> None:
    for n in (1, 2, 3):
        add(store, n)
    store.tags.create("two", store.snapshots.get(2))
    scan = StreamReadBuilder(with_options(store, options)).new_streaming_scan()
    found = take(store, scan)
    add(store, 4)
    assert found + take(store, scan) == want


def test_a_moment_names_the_first_snapshot_not_before_it(store: TableStore) -> None:
    for n in (1, 2, 3):
        add(store, n)
    for number, millis in ((1, 100), (2, 200), (3, 300)):
        _set_time(store, number, millis)
    for millis, want in ((100, [[1], [2], [3]]), (101, [[2], [3]]), (200, [[2], [3]]), (301, [])):
        scan = StreamReadBuilder(with_options(store, {"scan.timestamp-millis": str(millis)})).new_streaming_scan()
        assert take(store, scan) == want
    _expire(store, 1)
    scan = StreamReadBuilder(with_options(store, {"scan.timestamp-millis": "150"})).new_streaming_scan()
    with pytest.raises(NotFoundError, match="snapshots before 2, of 200 ms, have expired"):
        scan.plan()


def _set_time(store: TableStore, number: int, millis: int) -> None:
    body = json.loads(to_json(store.snapshots.get(number)))
    body.pop("checksum")
    store.storage.replace(store.layout.snapshot_file(number), json.dumps({**body, "timeMillis": millis}).encode())


def _expire(store: TableStore, number: int) -> None:
    store.storage.delete(store.layout.snapshot_file(number))
    store.snapshots.write_earliest_hint(number + 1)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"scan.mode": "latest-delta"}, UnsupportedError, "from-timestamp"),
        ({"incremental-between": "1,2"}, InvalidInputError, "no end"),
        ({"scan.mode": "from-timestamp"}, InvalidInputError, "scan.timestamp-millis"),
        ({"scan.snapshot-id": "9"}, NotFoundError, "not at 9; the newest is 1"),
        ({"scan.mode": "from-snapshot-full", "scan.snapshot-id": "9"}, NotFoundError, "Snapshot id .9. doesn.t exist"),
    ],
)
def test_beginnings_that_cannot_be(
    store: TableStore, options: dict[str, str], error: type[Exception], message: str
) -> None:
    add(store, 1)
    with pytest.raises(error, match=message):
        StreamReadBuilder(with_options(store, options)).new_streaming_scan().plan()


# Golden tables: what a stream tells leads to the rows of the table.


@pytest.mark.parametrize("name", [name for name in PRODUCED if name not in {"changelog.input", "changelog.decoupled"}])
@pytest.mark.parametrize("start", [1, 2, 3])
def test_a_produced_changelog_fits_the_state_it_goes_on_from(name: str, start: int) -> None:
    spec = expected()[name]
    store = golden_store(name, {"scan.mode": "from-snapshot-full", "scan.snapshot-id": str(start)})
    state: dict[Any, list[Any]] = {}
    scan = StreamReadBuilder(store).new_streaming_scan()
    while (plan := scan.plan()) is not None:
        for kind, row in events(store, plan):
            if kind in {"-U", "-D"}:
                assert state.pop(row[0]) == row
            else:
                assert row[0] not in state
                state[row[0]] = row
    # What no compaction has seen yet is told by the next one.
    told = [s for s in spec["snapshots"] if s["kind"] == "COMPACT"][-1]
    assert in_order(state.values()) == in_order(expected_rows(spec, told["rows"]))


@pytest.mark.parametrize("name", ["dv.pk_level0", "engine.first_row_level0"])
def test_rows_that_wait_for_a_compaction_are_told_once(name: str) -> None:
    def told(start: int) -> list[str]:
        store = golden_store(name, {"scan.mode": "from-snapshot-full", "scan.snapshot-id": str(start)})
        state: dict[Any, list[Any]] = {}
        for plan in iter(StreamReadBuilder(store).new_streaming_scan().plan, None):
            for kind, row in [] if plan is None else events(store, plan):
                if kind == "-D":
                    state.pop(row[0], None)
                elif name.startswith("dv") or row[0] not in state:
                    state[row[0]] = row
        return in_order(state.values())

    spec = expected()[name]
    assert told(3) == told(2) == told(1)
    assert told(3) != in_order(expected_rows(spec, spec["rows"])), "a batch read does not see these rows yet"


def test_a_stream_reads_changelogs_that_outlived_their_snapshots() -> None:
    store = golden_store("changelog.decoupled")
    scan = StreamReadBuilder(store).new_streaming_scan()
    scan.restore(1)
    plans = [plan for plan in iter(scan.plan, None) if plan is not None]
    assert [plan.snapshot_id for plan in plans] == [1, 2, 3]
    assert [len(events(store, plan)) for plan in plans] == [4, 4, 3]


@pytest.mark.parametrize("option", ["streaming-read-overwrite", "streaming-read-append-overwrite"])
def test_compactions_and_overwrites_are_passed_by(store: TableStore, option: str) -> None:
    add(store, 1)
    scan = StreamReadBuilder(store).new_streaming_scan()
    told = StreamReadBuilder(with_options(store, {option: "true"})).new_streaming_scan()
    assert take(store, scan) == take(store, told) == [[1]]
    overwrite(store, 7, 8)
    add(store, 9)
    assert take(store, scan) == [[9]]
    assert take(store, told) == [[7, 8], [9]]
    compacted = golden_store("append.unaware_compacted", {"scan.snapshot-id": "1"})
    follower = StreamReadBuilder(compacted).new_streaming_scan()
    kinds = [plan.snapshot.commit_kind for plan in iter(follower.plan, None) if plan is not None and plan.snapshot]
    assert kinds == [CommitKind.APPEND] * 3
    assert follower.checkpoint() == 5


def test_an_overwrite_of_a_keyed_table_is_told_as_a_difference() -> None:
    options = {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "1", "streaming-read-overwrite": "true"}
    store = golden_store("meta.overwrite_pk", options)
    spec = expected()["meta.overwrite_pk"]
    state: dict[Any, list[Any]] = {}
    for plan in iter(StreamReadBuilder(store).new_streaming_scan().plan, None):
        assert plan is not None
        for kind, row in events(store, plan):
            if kind in {"-U", "-D"}:
                assert state.pop(row[0]) == row
            else:
                state[row[0]] = row
        rows = next(s["rows"] for s in spec["snapshots"] if s["id"] == plan.snapshot_id)
        assert in_order(state.values()) == in_order(expected_rows(spec, rows))


# What a reader asks for.


def test_filters_columns_and_kinds(store: TableStore) -> None:
    add(store, 1, 2, 3)
    builder = StreamReadBuilder(store).with_filter("id > 1").with_projection(["p"]).with_include_row_kind()
    scan, read = builder.new_streaming_scan(), builder.new_read()
    assert [field.name for field in builder.read_type()] == ["_row_kind", "p"]
    builder.with_filter(builder.new_predicate_builder().less_than("id", 3))
    first = scan.plan()
    assert first is not None
    assert read.to_arrow(first.splits()).to_pylist() == [{"_row_kind": "+I", "p": "2"}, {"_row_kind": "+I", "p": "3"}]
    add(store, 1, 5)
    add(store, 0)
    second, third = scan.plan(), scan.plan()
    assert second is not None
    assert third is not None
    assert read.to_arrow(second.splits())["p"].to_pylist() == ["5"]
    assert third.splits() == []  # nothing of it can match, and the stream still moves on
    assert builder.with_include_row_kind(include=False).new_read().to_arrow(second.splits()).schema.names == ["p"]


def test_buckets_can_be_shared_out() -> None:
    name = "pk.dedup_deletes"
    options = {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "1"}

    def told(builder: StreamReadBuilder) -> list[str]:
        store = golden_store(name, options)
        plans = iter(builder.new_streaming_scan().plan, None)
        return in_order(itertools.chain.from_iterable(events(store, plan) for plan in plans if plan is not None))

    whole = told(StreamReadBuilder(golden_store(name, options)))
    even = told(StreamReadBuilder(golden_store(name, options)).with_buckets([0]))
    odd = told(StreamReadBuilder(golden_store(name, options)).with_bucket_filter(lambda bucket: bucket == 1))
    assert sorted(even + odd) == whole
    assert even
    assert odd


# Consumers.


class Enough(Exception):  # noqa: N818 - it ends a stream and is no error
    """Raised instead of waiting."""


def stop(_: float) -> None:
    raise Enough


def followed(store: TableStore, consumer: str, plans: int | None = None) -> list[list[int] | None]:
    """Follow a table as one process does: until there is nothing new, or until it dies with its last plan in hand."""
    got: list[list[int] | None] = []
    stream = StreamReadBuilder(store).with_consumer_id(consumer).new_streaming_scan().stream_sync(sleep=stop)
    with suppress(Enough):
        for plan in stream:
            got.append(ids_of(store, plan))
            if len(got) == plans:
                break
    return got


def test_a_consumer_goes_on_where_it_stopped_and_a_plan_is_never_lost(store: TableStore) -> None:
    add(store, 1)
    assert followed(store, "c", plans=1) == [[1]]
    assert store.consumers.list() == []  # the only plan was never finished
    assert followed(store, "c") == [[1]]
    assert store.consumers.next_snapshot("c") == 2
    for n in (2, 3, 4):
        add(store, n)
    assert followed(store, "c", plans=2) == [[2], [3]]
    assert store.consumers.next_snapshot("c") == 3
    assert followed(store, "c") == [[3], [4]]
    assert followed(store, "c") == []
    assert followed(store, "other") == [[1, 2, 3, 4]]
    assert store.consumers.all() == {"c": 5, "other": 5}


def test_a_consumer_moves_past_snapshots_without_events(store: TableStore) -> None:
    add(store, 1)
    followed(store, "c")
    overwrite(store, 2)
    assert followed(store, "c") == []
    assert store.consumers.next_snapshot("c") == 3


def test_the_consumer_may_come_from_the_options_and_its_progress_be_ignored(store: TableStore) -> None:
    add(store, 1)
    store.consumers.record("opt", 1)
    named = with_options(store, {"consumer-id": "opt", "scan.mode": "latest"})
    assert take(store, StreamReadBuilder(named).new_streaming_scan()) == [[1]]
    ignoring = with_options(named, {"consumer.ignore-progress": "true"})
    assert take(store, StreamReadBuilder(ignoring).new_streaming_scan()) == []
    with pytest.raises(InvalidInputError):
        StreamReadBuilder(store).with_consumer_id("a/b")
    with pytest.raises(InvalidInputError, match="poll_interval_ms"):
        StreamReadBuilder(store).with_poll_interval_ms(-1)


def test_a_caller_may_record_its_progress_itself(store: TableStore) -> None:
    add(store, 1)
    scan = StreamReadBuilder(store).with_consumer_id("c").new_streaming_scan()
    scan.plan()
    assert store.consumers.list() == []
    scan.notify_checkpoint_complete(scan.checkpoint())
    assert store.consumers.next_snapshot("c") == 2
    alone = StreamReadBuilder(store).new_streaming_scan()
    alone.notify_checkpoint_complete(9)
    assert store.consumers.list() == ["c"]


def test_a_golden_consumer_is_taken_up() -> None:
    store = golden_store("meta.consumer")
    scan = StreamReadBuilder(store).with_consumer_id("reader 1").new_streaming_scan()
    assert [plan.snapshot_id for plan in iter(scan.plan, None) if plan is not None] == [3, 4]


# Where a stream cannot go on.


def test_an_expired_snapshot_ends_the_stream_and_names_what_is_left(store: TableStore) -> None:
    for n in (1, 2, 3):
        add(store, n)
    scan = StreamReadBuilder(store).new_streaming_scan()
    scan.restore(1)
    _expire(store, 1)
    with pytest.raises(
        NotFoundError, match=r"snapshot 1 has expired.*earliest that is left is 2.*consumer id"
    ) as caught:
        scan.plan()
    assert caught.value.earliest_snapshot_id == 2
    assert scan.checkpoint() == 1
    scan.restore(caught.value.earliest_snapshot_id)
    assert take(store, scan) == [[2], [3]]


def test_a_rollback_ends_the_stream(store: TableStore) -> None:
    for n in (1, 2, 3):
        add(store, n)
    scan = StreamReadBuilder(store).new_streaming_scan()
    take(store, scan)
    for number in (3, 2):
        store.storage.delete(store.layout.snapshot_file(number))
    store.snapshots.write_latest_hint(1)
    with pytest.raises(NotFoundError, match="up to snapshot 3, but the newest is 1"):
        scan.plan()


def test_a_damaged_consumer_stops_the_stream_instead_of_starting_anew(store: TableStore) -> None:
    add(store, 1)
    store.consumers.record("c", 1)
    store.storage.replace(store.layout.consumer_file("c"), b"{}")
    with pytest.raises(CorruptTableError):
        StreamReadBuilder(store).with_consumer_id("c").new_streaming_scan()


# Waiting.


def test_waiting_is_done_only_where_nothing_is_new(store: TableStore) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise Enough
        add(store, len(waits))

    scan = StreamReadBuilder(store).with_poll_interval_ms(250).new_streaming_scan()
    stream = scan.stream_sync(sleep=wait)
    assert [ids_of(store, next(stream)) for _ in range(2)] == [[1], [2]]
    assert waits == [0.25] * 2
    with pytest.raises(Enough):
        next(stream)


def test_plans_can_be_awaited(store: TableStore) -> None:
    async def wait(_: float) -> None:
        if store.snapshots.latest_id() == 3:
            raise Enough
        add(store, (store.snapshots.latest_id() or 0) + 1)

    async def collect(plans: AsyncIterator[Plan]) -> list[list[int] | None]:
        got: list[list[int] | None] = []
        with suppress(Enough):
            async for plan in plans:
                got += [ids_of(store, plan)]
        return got

    scan = StreamReadBuilder(store).with_consumer_id("a").new_streaming_scan()
    assert asyncio.run(collect(scan.stream(sleep=wait))) == [[1], [2], [3]]
    assert store.consumers.next_snapshot("a") == 4
