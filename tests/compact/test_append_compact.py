"""Append tables compacted: the rows stay, with their order or their ids, and what was deleted is gone."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakewright.commit.committer import Committer
from lakewright.compact import compaction_job
from lakewright.compact.compaction_job import compact_table
from lakewright.compact.compaction_plan import CompactTask, plan_append
from lakewright.compact.keyed_compaction import run_task
from lakewright.compact.rewrite_output import fold_vectors
from lakewright.dml.delete_update import delete
from lakewright.dml.row_ids import delete_by_row_id, update_by_row_id
from lakewright.errors import CommitConflictError
from lakewright.metadata.table_store import TableStore
from lakewright.read.projection import ROW_TRACKING_FIELDS
from lakewright.read.read_builder import ReadBuilder
from lakewright.read.stream_read import StreamReadBuilder
from lakewright.spec.manifest import APPEND, COMPACT, IndexFile, ManifestEntry
from lakewright.spec.schema import SchemaChange
from lakewright.spec.snapshot import CommitKind, Snapshot
from lakewright.spec.types import AtomicType
from lakewright.table.write_builder import BatchWriteBuilder
from support.effort import each_once, every_second
from support.golden import WAREHOUSE, expected, in_order, spelled
from support.read_tables import append, golden_store, new_table

COLUMNS = pa.schema({"k": pa.int64(), "v": pa.string(), "p": pa.int32()})
VECTORS = {"deletion-vectors.enabled": "true"}
BITMAP64 = {**VECTORS, "deletion-vectors.bitmap64": "true"}
TRACKED = {"row-tracking.enabled": "true"}
EVOLUTION = {**TRACKED, "data-evolution.enabled": "true"}
LARGE = {"compaction.small-file-ratio": "0.000001"}  # no file is small
BUCKETED = {"bucket": "2", "bucket-key": "k"}


def _rows(keys: Sequence[int], part: int = 0) -> pa.Table:
    return pa.table({"k": keys, "v": [f"v{k}" for k in keys], "p": [part] * len(keys)}, COLUMNS)


def _filled(root: Path, options: dict[str, str], commits: int = 3, partitions: Sequence[str] = ()) -> TableStore:
    store = new_table(root, COLUMNS, partitions, options)
    for number in range(commits):
        append(store, _rows(range(number * 10, number * 10 + 10), number % 2))
    return store


def _in_buckets(store: TableStore) -> dict[int, list[object]]:
    """Return the keys of each bucket in the order of its rows."""
    builder, keys = ReadBuilder(store), dict[int, list[object]]()
    for split in builder.new_scan().plan().splits():
        keys.setdefault(split.bucket, []).extend(builder.new_read().to_arrow([split])["k"].to_pylist())
    return keys


def _read(store: TableStore) -> pa.Table:
    """Return the rows in the order of the plan, with their ids where there are any."""
    names = [field.name for field in store.schema.fields]
    if store.options.row_tracking_enabled:
        names += [field.name for field in ROW_TRACKING_FIELDS]
    builder = ReadBuilder(store).with_projection(names)
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())


def _bag(store: TableStore, *, numbers: bool = True) -> list[str]:
    rows = _read(store)
    return sorted(map(repr, (rows if numbers else rows.drop_columns(["_SEQUENCE_NUMBER"])).to_pylist()))


def _newest(store: TableStore) -> Snapshot:
    found = store.snapshots.latest()
    assert found is not None
    return found


def _live(store: TableStore) -> list[ManifestEntry]:
    return store.manifests.live(_newest(store))


def _index(store: TableStore) -> list[IndexFile]:
    name = _newest(store).index_manifest
    return [] if name is None else [entry.file for entry in store.manifests.read_index(name)]


def _masked(store: TableStore) -> dict[str, int | None]:
    return {r.data_file: r.cardinality for file in _index(store) for r in file.deletion_ranges or ()}


def _on_disk(root: Path) -> set[str]:
    return {path.name for path in root.rglob("*") if path.is_file() and path.name.startswith(("data-", "index-"))}


def _named(store: TableStore) -> set[str]:
    """Return the data and index files that any snapshot names."""
    names: set[str] = set()
    for number in store.snapshots.ids():
        snapshot = store.snapshots.get(number)
        names |= {entry.file.file_name for entry in store.manifests.delta(snapshot)}
        if snapshot.index_manifest is not None:
            found = store.manifests.read_index(snapshot.index_manifest)
            names |= {snapshot.index_manifest, *(entry.file.file_name for entry in found)}
    return names


UNREADABLE = {"track.blob", "types.orc_far_timestamps", "append.no_snapshot"}
APPEND_TABLES = sorted(name for name, spec in expected().items() if not spec["primaryKeys"] and name not in UNREADABLE)


@pytest.mark.parametrize("name", every_second(APPEND_TABLES))
def test_tables_that_java_wrote_keep_their_rows(name: str, tmp_path: Path) -> None:
    golden = golden_store(name)
    database, table = name.split(".")
    shutil.copytree(WAREHOUSE / f"{database}.db" / table, tmp_path / "t")
    store = replace(golden, layout=replace(golden.layout, root=str(tmp_path / "t")))
    evolves = store.options.data_evolution_enabled
    fields = [*store.schema.fields]
    if store.options.row_tracking_enabled:
        fields += ROW_TRACKING_FIELDS[: 1 if evolves else 2]
    loose = [number for number, field in enumerate(fields) if str(field.type).startswith("ARRAY")]
    before = in_order(spelled(_read(store), fields), loose)
    result = compact_table(store, full=True)
    assert in_order(spelled(_read(store), fields), loose) == before
    assert _masked(store) == {}
    if not result.is_empty:
        assert _newest(store).commit_kind is CommitKind.COMPACT
        assert compact_table(store, full=True).is_empty


def test_small_files_become_one(tmp_path: Path) -> None:
    store = _filled(tmp_path / "t", {}, commits=4)
    before = _read(store)
    assert compact_table(store).is_empty
    append(store, _rows([99]))
    result = compact_table(store)
    (entry,) = _live(store)
    assert (result.snapshot_id, result.buckets, result.files_before, result.files_after) == (6, 1, 5, 1)
    assert (result.rows, result.bytes) == (41, entry.file.file_size)
    assert (entry.bucket, entry.total_buckets, entry.file.file_source, entry.file.level) == (0, -1, COMPACT, 0)
    assert (entry.file.min_sequence_number, entry.file.max_sequence_number) == (0, 40)
    assert _read(store).slice(0, 40).equals(before)
    assert _newest(store).total_record_count == 41


def test_files_of_different_partitions_are_not_merged(tmp_path: Path) -> None:
    store = _filled(tmp_path / "t", {"compaction.min.file-num": "2"}, commits=4, partitions=["p"])
    before = _bag(store)
    assert compact_table(store, partitions=[{"p": 1}]).files_before == 2
    assert compact_table(store).files_before == 2
    assert len({entry.partition for entry in _live(store)}) == len(_live(store)) == 2
    assert _bag(store) == before


@pytest.mark.parametrize(("kind", "options"), each_once([{}, BUCKETED, TRACKED], [VECTORS, BITMAP64]))
def test_deleted_rows_are_gone_for_good(kind: dict[str, str], options: dict[str, str], tmp_path: Path) -> None:
    store = _filled(tmp_path / "t", {**kind, **options})
    delete(store, "k in (1, 2, 3, 12)")
    before = _bag(store)
    ordered = _in_buckets(store)
    result = compact_table(store, full=True)
    assert _bag(store) == before
    if kind is BUCKETED:
        assert _in_buckets(store) == ordered
    assert _masked(store) == {}
    assert result.rows == sum(entry.file.row_count for entry in _live(store)) == 26
    # Where buckets are counted an index file stays, empty; elsewhere none is left.
    assert all(file.row_count == 0 and file.file_size == 1 for file in _index(store))
    assert bool(_index(store)) == (kind is BUCKETED)
    delete(store, "k = 4")
    assert len(_bag(store)) == 25


def test_other_vectors_of_an_index_file_are_copied(tmp_path: Path) -> None:
    store = _filled(tmp_path / "t", {**BITMAP64, **LARGE}, partitions=["p"])
    delete(store, "k in (1, 2, 3, 21)")  # in two files of one partition
    masked = _masked(store)
    assert sorted(masked.values(), key=str) == [1, 3]
    before = _bag(store)
    old = _index(store)
    compact_table(store)
    assert _bag(store) == before
    (left,) = _masked(store).items()
    assert left in masked.items()
    assert left[1] == 1
    assert not {file.file_name for file in _index(store)} & {file.file_name for file in old}


def test_a_file_without_a_live_row_leaves_nothing(tmp_path: Path) -> None:
    store = _filled(tmp_path / "t", VECTORS, commits=1)
    snapshot = _newest(store)
    delete(store, "k < 9")
    delete(store, "k = 9")
    if _live(store):  # otherwise the delete took the file away itself
        compact_table(store)
    assert _live(store) == []
    assert _newest(store).id > snapshot.id
    append(store, _rows([5]))
    assert _read(store).num_rows == 1


def test_numbers_of_a_bucket_stay_below_those_that_follow(tmp_path: Path) -> None:
    """Some writers give a whole file one number; the files that follow have the next ones."""
    store = new_table(tmp_path / "t", COLUMNS, (), {"bucket": "1", "bucket-key": "k", "compaction.min.file-num": "3"})
    for number in range(3):
        with BatchWriteBuilder(store).new_write() as write:
            write.write_arrow(_rows(range(number * 10, number * 10 + 10)))
            (message,) = write.prepare_commit()
        files = tuple(replace(f, min_sequence_number=number, max_sequence_number=number) for f in message.new_files)
        Committer(store).commit([replace(message, new_files=files)])
    compact_table(store.with_schema(store.schema.with_options({"target-file-row-num": "20"})))
    ranges = [(e.file.min_sequence_number, e.file.max_sequence_number) for e in _live(store)]
    assert ranges == [(0, 2), (2, 2)]
    assert _read(store)["k"].to_pylist() == list(range(30))


def test_moved_rows_carry_their_ids(tmp_path: Path) -> None:
    store = _filled(tmp_path / "t", TRACKED)
    before = _read(store)
    compact_table(store, full=True)
    (entry,) = _live(store)
    assert entry.file.write_cols == ("k", "v", "p", "_ROW_ID", "_SEQUENCE_NUMBER")
    assert entry.file.first_row_id is None
    assert entry.file.file_source == COMPACT
    assert (entry.file.min_sequence_number, entry.file.max_sequence_number) == (1, 3)
    assert _newest(store).next_row_id == 30
    assert _read(store).equals(before)
    append(store, _rows([77]))
    compact_table(store, full=True)
    after = _read(store)
    assert after.slice(0, 30).equals(before)
    assert after.slice(30).select(["_ROW_ID", "_SEQUENCE_NUMBER"]).to_pylist() == [
        {"_ROW_ID": 30, "_SEQUENCE_NUMBER": 5}
    ]
    # The columns of the ids have bounds, which a filter may use.
    builder = ReadBuilder(store).with_projection(["k", "_ROW_ID"]).with_filter("_ROW_ID = 30")
    assert builder.new_read().to_arrow(builder.new_scan().plan().splits())["k"].to_pylist() == [77]


def test_groups_become_files_with_all_columns(tmp_path: Path) -> None:
    store = _filled(tmp_path / "t", EVOLUTION)
    update_by_row_id(store, pa.table({"_ROW_ID": [3, 14], "v": ["x", "y"]}))
    assert len(_live(store)) == 5
    before = _read(store).drop_columns(["_SEQUENCE_NUMBER"])
    result = compact_table(store, full=True)
    (entry,) = _live(store)
    file = entry.file
    assert (result.files_before, file.first_row_id, file.row_count) == (5, 0, 30)
    assert (file.write_cols, file.file_source) == (None, APPEND)
    assert (file.min_sequence_number, file.max_sequence_number) == (1, 4)
    assert _newest(store).commit_kind is CommitKind.COMPACT
    assert _newest(store).next_row_id == 30
    assert _read(store).drop_columns(["_SEQUENCE_NUMBER"]).equals(before)
    # And goes on from there.
    update_by_row_id(store, pa.table({"_ROW_ID": [3], "v": ["z"]}))
    append(store, _rows([50]))
    assert _read(store).sort_by("_ROW_ID").select(["k", "v"]).to_pylist()[3] == {"k": 3, "v": "z"}
    assert _read(store).sort_by("_ROW_ID")["_ROW_ID"].to_pylist() == list(range(31))


@pytest.mark.parametrize("rows", [1_000_000, 7], ids=["one", "several"])
def test_vectors_move_with_the_rows_of_their_groups(rows: int, tmp_path: Path) -> None:
    store = _filled(tmp_path / "t", {**EVOLUTION, **VECTORS})
    update_by_row_id(store, pa.table({"_ROW_ID": [3, 14, 25], "v": ["x", "y", "z"]}))
    delete_by_row_id(store, [0, 3, 6, 7, 19, 20, 29])
    before = _bag(store, numbers=False)
    some = store.with_schema(store.schema.with_options({"target-file-row-num": str(rows)}))
    compact_table(some, full=True)
    assert _bag(store, numbers=False) == before
    files = sorted((e.file.first_row_id, e.file.row_count) for e in _live(store))
    assert files == ([(0, 30)] if rows > 30 else [(0, 7), (7, 7), (14, 7), (21, 7), (28, 2)])
    assert sum(count or 0 for count in _masked(store).values()) == 7
    assert set(_masked(store)) <= {e.file.file_name for e in _live(store)}
    delete_by_row_id(store, [21])
    assert _read(store).num_rows == 22


def test_rows_get_the_columns_that_came_later(tmp_path: Path) -> None:
    old = _filled(tmp_path / "t", TRACKED)
    change = SchemaChange.add_column("w", AtomicType("INT"))
    old.schemas.evolve([change], has_snapshot=True, time_millis=2)
    newest = old.schemas.latest()
    assert newest is not None
    store = old.with_schema(newest)
    append(store, _rows([99]).append_column("w", pa.array([7], pa.int32())))
    before = _bag(store)
    compact_table(old, full=True)  # by a handle that does not know the column
    assert _bag(store) == before
    assert [entry.file.schema_id for entry in _live(store)] == [1]


def test_files_are_as_large_as_asked_for(tmp_path: Path) -> None:
    store = new_table(tmp_path / "t", COLUMNS, (), {"target-file-size": "40 kb", "compaction.min.file-num": "2"})
    rng = random.Random(3)
    for number in range(12):
        keys = range(number * 200, number * 200 + 200)
        texts = [rng.randbytes(40).hex() for _ in keys]
        append(store, pa.table({"k": keys, "v": texts, "p": [0] * 200}, COLUMNS))
    before = _bag(store)
    compact_table(store, full=True)
    sizes = sorted(entry.file.file_size for entry in _live(store))
    assert len(sizes) < 8
    assert all(size > 28 << 10 for size in sizes[2:])
    assert all(size < 48 << 10 for size in sizes)
    assert _bag(store) == before


def test_tasks_travel_as_bytes(tmp_path: Path) -> None:
    store = _filled(tmp_path / "t", {**EVOLUTION, **VECTORS})
    delete_by_row_id(store, [2])
    (task,) = plan_append(store, _newest(store), full=True)
    assert CompactTask.deserialize(task.serialize()) == task
    assert [r.cardinality for index in task.vectors for r in index.deletion_ranges or ()] == [1]


def _interfere(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> list[int]:
    """Let something happen between plan and commit of the first round."""
    plan = plan_append
    rounds: list[int] = []

    def overtaken(found: TableStore, snapshot: Snapshot, **choice: object) -> list[CompactTask]:
        tasks = plan(found, snapshot, **choice)  # type: ignore[arg-type]
        rounds.append(snapshot.id)
        if len(rounds) == 1:
            with monkeypatch.context() as patch:
                patch.setattr(compaction_job, "plan_append", plan)
                act()
        return tasks

    monkeypatch.setattr(compaction_job, "plan_append", overtaken)
    return rounds


@pytest.mark.parametrize(
    ("act", "kind"),
    each_once(["delete", "delete again", "compact", "overwrite"], [{}, BUCKETED, TRACKED, EVOLUTION]),
)
def test_an_overtaken_compaction_is_planned_again(
    act: str, kind: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _filled(tmp_path / "t", {**kind, **VECTORS})
    if act == "delete again":
        delete(store, "k = 2")
    left = set(_read(store)["k"].to_pylist()) - ({3} if act.startswith("delete") else set())

    def interfere() -> None:
        if act == "compact":
            compact_table(store, full=True)
        elif act == "overwrite":
            Committer(store).truncate()
            append(store, _rows([1]))
            append(store, _rows([2]))
        else:
            delete(store, "k = 3")

    rounds = _interfere(monkeypatch, interfere)
    compact_table(store, full=True)
    assert len(rounds) == 2
    assert set(_read(store)["k"].to_pylist()) == ({1, 2} if act == "overwrite" else left)
    assert _on_disk(tmp_path / "t") <= _named(store)


def test_columns_changed_meanwhile_are_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = _filled(tmp_path / "t", EVOLUTION)

    def interfere() -> None:
        update_by_row_id(store, pa.table({"_ROW_ID": [3], "v": ["new"]}))

    rounds = _interfere(monkeypatch, interfere)
    compact_table(store, full=True)
    assert len(rounds) == 2
    assert _read(store).sort_by("_ROW_ID")["v"].to_pylist()[3] == "new"
    assert len(_live(store)) == 1


def test_appends_do_not_disturb_a_compaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = _filled(tmp_path / "t", TRACKED)
    rounds = _interfere(monkeypatch, lambda: append(store, _rows([44])))
    compact_table(store, full=True)
    assert len(rounds) == 1
    assert _read(store).sort_by("_ROW_ID")["_ROW_ID"].to_pylist() == list(range(31))


@pytest.mark.parametrize("options", [{}, EVOLUTION], ids=["plain", "evolution"])
def test_streams_do_not_see_compactions(options: dict[str, str], tmp_path: Path) -> None:
    store = _filled(tmp_path / "t", options)
    stream = StreamReadBuilder(store).with_projection(["k"])
    scan, told = stream.new_streaming_scan(), []
    for step in range(3):
        while (plan := scan.plan()) is not None:
            told += stream.new_read().to_arrow(plan.splits())["k"].to_pylist()
        compact_table(store, full=True)
        append(store, _rows([100 + step]))
    assert told == [*range(30), 100, 101]
    assert [s.commit_kind for s in map(store.snapshots.get, store.snapshots.ids())].count(CommitKind.COMPACT) == 3


def test_two_plans_of_one_snapshot_conflict(tmp_path: Path) -> None:
    store = _filled(tmp_path / "t", VECTORS)
    delete(store, "k = 3")
    tasks = plan_append(store, _newest(store), full=True)
    newest = _newest(store)
    ours, theirs = (fold_vectors(store, newest, [run_task(store, task) for task in tasks]) for _ in range(2))
    Committer(store).commit(theirs)
    with pytest.raises(CommitConflictError, match="gone"):
        Committer(store).commit(ours)
    assert _read(store).num_rows == 29


def test_a_compaction_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = _filled(tmp_path / "t", {**VECTORS, **LARGE})
    delete(store, "k in (1, 2, 3, 12)")
    before = _on_disk(tmp_path / "t")

    def fail(*_: object) -> None:
        raise OSError("no more")

    monkeypatch.setattr("lakewright.compact.rewrite_output.pack_records", fail)
    with pytest.raises(OSError, match="no more"):
        compact_table(store)
    assert _on_disk(tmp_path / "t") == before
