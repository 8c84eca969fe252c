"""Log lines, events of hooks and values of results: what each commit, retry, compaction and read tells."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.commit.commit_loop import publisher_of
from lakewright.commit.committer import Committer
from lakewright.formats import parquet_writer
from lakewright.metadata.authority import LostRace, Outcome
from lakewright.read import split_sharing
from lakewright.spec.manifest import ManifestEntry
from lakewright.spec.snapshot import Snapshot

COLUMNS = pa.schema({"id": pa.int64(), "n": pa.int64(), "s": pa.string()})
COMMIT_STAGES = ["look", "check", "plan", "manifests", "publish", "confirm"]


@pytest.fixture(autouse=True)
def _quiet_root(caplog: pytest.LogCaptureFixture) -> None:
    """Let the root logger be as in a program that set up nothing: another test of the process may have begun Ray."""
    caplog.set_level(logging.WARNING)


@pytest.fixture
def catalog(tmp_path: Path) -> lw.Catalog:
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    made.create_database("d")
    return made


@pytest.fixture
def events() -> Iterator[list[lw.MetricsEvent]]:
    seen: list[lw.MetricsEvent] = []
    lw.add_metrics_hook(seen.append)
    yield seen
    lw.remove_metrics_hook(seen.append)


def _table(catalog: lw.Catalog, name: str = "d.t", **options: str) -> lw.FileStoreTable:
    keys = ["id"] if options else None
    catalog.create_table(name, lw.Schema.from_pyarrow_schema(COLUMNS, primary_keys=keys, options=options))
    return catalog.get_table(name)


def _rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "n": [i * 2 for i in ids], "s": [f"s{i}" for i in ids]}, schema=COLUMNS)


def test_a_commit_tells_what_its_result_says(catalog: lw.Catalog, events: list[lw.MetricsEvent]) -> None:
    result = lw.write_table(_rows(1, 2, 3), _table(catalog))
    (event,) = events
    assert (event.kind, event.table, event.operation, event.snapshot_id) == ("commit", "d.t", "APPEND", 1)
    assert (event.rows, event.files, event.bytes) == (3, 1, result.bytes)
    assert event.attempts == result.attempts == 1
    assert list(result.stages_ms) == ["write", "flush", *COMMIT_STAGES]
    assert dict(event.stages_ms) == dict(result.stages_ms)
    assert 0 < sum(event.stages_ms[stage] for stage in COMMIT_STAGES) <= event.seconds * 1000 + 1


def test_a_line_of_the_log_has_the_fields(catalog: lw.Catalog, caplog: pytest.LogCaptureFixture) -> None:
    table = _table(catalog)
    with caplog.at_level(logging.INFO, "lakewright"):
        result = lw.write_table(_rows(1, 2), table)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("lakewright.commit", "INFO")
    text = record.getMessage()
    begin = f"commit table=d.t snapshot=1 operation=APPEND rows=2 files=1 bytes={result.bytes} attempts=1 write_ms="
    assert text.startswith(begin)
    assert all(f" {stage}_ms=" in text for stage in COMMIT_STAGES)
    fields = vars(record)["lakewright"]
    assert (fields["kind"], fields["rows"], fields["snapshot"]) == ("commit", 2, 1)


def test_a_program_without_logging_hears_nothing(
    catalog: lw.Catalog, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    lw.write_table(_rows(1), _table(catalog))
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")


def test_a_name_that_is_no_word_is_quoted() -> None:
    assert lw.MetricsEvent("commit", 'd.a "b"\n=').line().startswith('commit table="d.a \\"b\\"\\x0a=" rows=0')


class _Overtaken:
    """A publisher that loses the first races, and then gives up its place to the real one."""

    def __init__(self, committer: Committer, races: int) -> None:
        self.committer, self.races = committer, races

    def publish(self, snapshot: Snapshot, base: Snapshot | None, entries: Sequence[ManifestEntry] = ()) -> Outcome:
        if self.races:
            self.races -= 1
            return LostRace(snapshot.id)
        return publisher_of(self.committer.store).publish(snapshot, base, entries)


def test_lost_races_are_retries_and_the_result_counts_them(catalog: lw.Catalog, events: list[lw.MetricsEvent]) -> None:
    table = _table(catalog)
    lw.write_table(_rows(0), table)
    events.clear()
    builder = table.new_batch_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(_rows(1))
        committer = commit._committer
        committer.sleep = lambda _: None
        committer.publisher = _Overtaken(committer, 2)
        result = commit.commit(write.prepare_commit())
    assert [event.kind for event in events] == ["retry", "retry", "commit"]
    assert [event.details.get("why") for event in events[:2]] == ["lost the race"] * 2
    assert [event.attempts for event in events] == [1, 2, 3]
    assert (result.snapshot_id, result.attempts) == (2, 3)
    assert "wait" in result.stages_ms


def test_a_failed_commit_is_a_warning_without_the_text_of_the_error(
    catalog: lw.Catalog, events: list[lw.MetricsEvent], caplog: pytest.LogCaptureFixture
) -> None:
    table = _table(catalog).copy({"commit.max-retries": "2"})
    builder = table.new_batch_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(_rows(1))
        commit._committer.sleep = lambda _: None
        commit._committer.publisher = _Overtaken(commit._committer, 100)
        with pytest.raises(lw.CommitContentionError) as caught:
            commit.commit(write.prepare_commit())
    assert [event.kind for event in events] == ["retry", "retry", "failure"]
    assert (events[-1].attempts, events[-1].details) == (3, {"error": "CommitContentionError"})
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert caplog.records[0].getMessage().startswith("failure table=d.t operation=APPEND rows=0")
    assert str(caught.value) not in caplog.text


def test_a_compaction_tells_files_before_and_after(catalog: lw.Catalog, events: list[lw.MetricsEvent]) -> None:
    table = _table(catalog, bucket="1")
    for number in range(3):
        lw.write_table(_rows(1, number + 2), table)
    events.clear()
    result = table.compact(full=True)
    commit, compaction = events
    assert (commit.kind, commit.operation, commit.details) == ("commit", "COMPACT", {"removed_files": 3})
    assert (compaction.kind, compaction.files, compaction.details["files_before"]) == ("compaction", 1, 3)
    assert (compaction.rows, compaction.bytes, compaction.snapshot_id) == (result.rows, result.bytes, 4)
    assert list(result.stages_ms) == list(compaction.stages_ms) == ["plan", "rewrite", "commit"]
    assert table.compact(full=True).is_empty
    assert len(events) == 2


def test_row_level_changes_tell_of_their_preparation(catalog: lw.Catalog, events: list[lw.MetricsEvent]) -> None:
    table = _table(catalog)
    lw.write_table(_rows(1, 2, 3), table)
    result = table.delete("id = 2")
    assert list(result.stages_ms) == ["prepare", *COMMIT_STAGES]
    last = [event for event in events if event.kind == "commit"][-1]
    assert list(last.stages_ms) == ["prepare", *COMMIT_STAGES]


def test_streams_tell_each_commit_with_its_own_stages(catalog: lw.Catalog, events: list[lw.MetricsEvent]) -> None:
    builder = _table(catalog, bucket="1").new_stream_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        for identifier in (1, 2):
            write.write_arrow(_rows(identifier))
            result = commit.commit(write.prepare_commit(identifier), identifier)
            assert list(result.stages_ms) == ["write", "flush", *COMMIT_STAGES]
    assert [(event.kind, event.rows) for event in events] == [("commit", 1), ("commit", 1)]


def test_a_read_tells_columns_files_and_rows(catalog: lw.Catalog, events: list[lw.MetricsEvent]) -> None:
    table = _table(catalog)
    for first in (0, 10, 20):
        lw.write_table(_rows(*range(first, first + 10)), table)
    events.clear()
    lw.read_table(table, columns=["n"], filter="id >= 25")
    (event,) = events
    assert (event.kind, event.snapshot_id, event.rows, event.files) == ("read", 3, 5, 1)
    assert event.details["columns"] == ("id", "n")


def test_a_file_that_is_read_in_pieces_counts_once(
    catalog: lw.Catalog, events: list[lw.MetricsEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_writer, "_GROUP_ROWS_MAX", 10)
    monkeypatch.setattr(split_sharing, "PIECE_BYTES_MIN", 64)
    table = _table(catalog)
    written = lw.write_table(_rows(*range(100)), table)
    events.clear()
    table.new_read_builder().new_read().to_arrow(parallelism=4)
    (event,) = events
    assert (event.rows, event.files, event.bytes, event.details["splits"]) == (100, 1, written.bytes, 1)


def test_a_hook_that_fails_changes_nothing(catalog: lw.Catalog, caplog: pytest.LogCaptureFixture) -> None:
    def fails(_: lw.MetricsEvent) -> None:
        raise ValueError("token=hush")

    table = _table(catalog)
    lw.add_metrics_hook(fails)
    lw.add_metrics_hook(fails)
    try:
        assert lw.write_table(_rows(1), table).snapshot_id == 1
    finally:
        lw.remove_metrics_hook(fails)
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert said == ["a metrics hook failed: ValueError"]
    caplog.clear()
    assert lw.write_table(_rows(2), table).snapshot_id == 2
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_handler_that_fails_changes_nothing(catalog: lw.Catalog) -> None:
    class Fails(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise ValueError(record.name)

    logger, handler = logging.getLogger("lakewright"), Fails()
    table = _table(catalog)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        assert lw.write_table(_rows(1), table).snapshot_id == 1
        assert lw.read_table(table).num_rows == 1
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)


@pytest.mark.parametrize("wrong", [None, 3, "print"])
def test_a_hook_is_a_function(wrong: object) -> None:
    with pytest.raises(lw.InvalidInputError, match="a metrics hook is a function"):
        lw.add_metrics_hook(wrong)  # type: ignore[arg-type]
    with pytest.raises(lw.InvalidInputError, match="a metrics hook is a function"):
        lw.remove_metrics_hook(wrong)  # type: ignore[arg-type]
