"""Writes on Ray: every kind of table and mode, whatever blocks a dataset has, once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pyarrow as pa
import pytest
import ray
from ray.data import Dataset

import lakewright as lw
from lakewright.compact import distributed_compaction
from lakewright.engine.job_progress import Progress
from lakewright.errors import InvalidInputError, LakewrightError, LakewrightWarning, UnsupportedError
from lakewright.ray import WriteResult, dataset_write, read_table, write_table
from lakewright.ray.ray_engine import error_of_ours
from lakewright.spec.snapshot import CommitKind
from support.effort import some
from support.peers import PYTHON, Peers
from support.spark_writes import assert_tidy, new_table, rows_of, sorted_rows

pytestmark = pytest.mark.usefixtures("ray_session")

# Every key is there three times, in blocks of their own; the last one counts.
_ROWS = pa.table(
    {
        "text": [f"row {i}" for i in range(120)],
        "n": list(range(120)),
        "day": [f"2026-01-0{i % 40 % 3 + 1}" for i in range(120)],
        "id": [i % 40 for i in range(120)],
    }
)


def _dataset(rows: pa.Table = _ROWS, blocks: int = 3) -> Dataset:
    step = -(-rows.num_rows // blocks)
    return ray.data.from_arrow([rows.slice(start, step) for start in range(0, rows.num_rows, step)])


def _lazy(dataset: Dataset) -> Dataset:
    """Return a dataset whose blocks somebody has yet to make."""
    return dataset.map_batches(lambda rows: rows, batch_format="pyarrow", batch_size=None)


@pytest.fixture
def shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let several writers share even a few rows."""
    monkeypatch.setattr(dataset_write, "_ALONE_BYTES", 0)
    monkeypatch.setattr(dataset_write, "_SEND_BYTES", 1)
    monkeypatch.setattr(dataset_write, "_TASK_BYTES", 1)


# ---- kinds of tables -------------------------------------------------------------------------------------------------

_KINDS: dict[str, dict[str, Any]] = {
    "partitions": {"partitions": ["day"]},
    "keys": {"keys": ["id"], "options": {"bucket": "3"}},
    "dynamic": {"keys": ["id"], "options": {"bucket": "-1", "dynamic-bucket.initial-buckets": "2"}},
}


@pytest.mark.nightly
@pytest.mark.usefixtures("shared_out")
def test_files_go_to_external_paths(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    options = {
        "data-file.external-paths": f"file://{outside}/one,file://{outside}/two",
        "data-file.external-paths.strategy": "round-robin",
    }
    table = new_table(tmp_path / "w", keys=["id"], options={"bucket": "3", **options})
    write_table(_dataset(), table)
    assert lw.read_table(table).num_rows == 40
    assert not list((tmp_path / "w").rglob("data-*"))
    assert len(list(outside.rglob("data-*"))) == len(table.new_read_builder().explain(verbose=True).splits or ())


def test_a_few_rows_go_to_one_writer(tmp_path: Path) -> None:
    table = new_table(tmp_path, keys=["id"], options={"bucket": "3"})
    result = write_table(_dataset(), table)
    assert (result.rows, result.files, result.tasks, result.method) == (40, 3, 1, "to one writer")
    assert {row[3] for row in rows_of(table)} == {f"row {i}" for i in range(80, 120)}


def test_small_blocks_do_not_become_small_files(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    assert write_table(_dataset(blocks=12), table).files == 1


def test_a_large_block_is_written_by_several_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_write, "_TASK_BYTES", 1000)
    for number, dataset in enumerate((_dataset(blocks=1), ray.data.from_pandas(_ROWS.to_pandas()))):
        table = new_table(tmp_path, name=f"t{number}")
        assert write_table(dataset, table).tasks > 2
        assert rows_of(table) == sorted_rows(_ROWS.select(table.field_names))


def test_the_task_that_makes_a_block_writes_it(tmp_path: Path) -> None:
    table = new_table(tmp_path, partitions=["day"])
    result = write_table(_lazy(_dataset()), table, concurrency=2)
    assert (result.rows, result.tasks, result.files) == (120, 3, 9)
    assert rows_of(table) == sorted_rows(_ROWS.select(table.field_names))
    assert_tidy(table)


def _first_comes_last(mark: Path, **arguments: Any) -> Dataset:  # noqa: ANN401 - of Ray
    """Return a dataset of two blocks, of which the second one is ready first."""

    def wait(rows: pa.Table) -> pa.Table:
        if rows.column("n")[0].as_py() == 0:
            deadline = time.monotonic() + 10  # where Ray runs one of the two at a time, the second is never first
            while not mark.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
        else:
            mark.touch()
        return rows

    return _dataset(blocks=2).map_batches(wait, batch_format="pyarrow", batch_size=None, **arguments)


@pytest.mark.parametrize("way", some(["fused", "apart"], 1))
def test_rows_keep_the_order_of_the_dataset(tmp_path: Path, way: str) -> None:
    table = new_table(tmp_path, options={"row-tracking.enabled": "true", "target-file-row-num": "7"})
    # With resources of its own a step is not run in the task that writes.
    dataset = _first_comes_last(tmp_path / "second", **({"num_cpus": 0.5} if way == "apart" else {}))
    write_table(dataset, table)
    found = lw.read_table(table, columns=["_ROW_ID", "n"])
    assert found["n"].to_pylist() == found["_ROW_ID"].to_pylist() == list(range(120))
    assert not dataset.context.execution_options.preserve_order


@pytest.mark.nightly
@pytest.mark.usefixtures("shared_out")
def test_the_later_row_wins_whichever_block_is_ready_first(tmp_path: Path) -> None:
    table = new_table(tmp_path, keys=["id"], options={"bucket": "2"})
    dataset = _first_comes_last(tmp_path / "second")
    write_table(dataset, table)
    assert {row[3] for row in rows_of(table)} == {f"row {i}" for i in range(80, 120)}
    assert not dataset.context.execution_options.preserve_order


def test_blocks_may_be_of_any_kind(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    frame = pd.DataFrame({"n": [1, 2], "id": [10, 20], "text": ["a", None]}, index=[7, 8])
    write_table(ray.data.from_pandas(frame), table)
    write_table(ray.data.from_items([{"id": 30, "day": None}, {"id": 40, "day": "d"}]), table)
    assert rows_of(table) == [(10, None, 1, "a"), (20, None, 2, None), (30, None, None, None), (40, "d", None, None)]
    written = write_table(_dataset().map_batches(lambda rows: rows.slice(0, 0), batch_format="pyarrow"), table)
    assert (written.rows, written.files) == (0, 0)
    assert write_table(ray.data.from_items([]), table).rows == 0
    assert len(rows_of(table)) == 4


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_what_is_no_dataset_is_refused_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_write, "run_write", lambda *_: pytest.fail("something ran"))
    table = new_table(tmp_path, keys=["id"], options={"bucket": "2"})
    with pytest.raises(InvalidInputError, match=r"ray\.data\.from_arrow"):
        write_table(cast("Dataset", _ROWS), table)
    with pytest.raises(InvalidInputError, match="at least 1"):
        write_table(_dataset(), table, concurrency=0)


@pytest.mark.parametrize("kind", some(["append", "sink", "one writer", "many writers"], 1))
def test_nulls_are_refused_with_the_name_of_the_column(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    if kind == "many writers":
        request.getfixturevalue("shared_out")
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int64())])
    keyed = {} if kind in {"append", "sink"} else {"keys": ["id"], "options": {"bucket": "2"}}
    table = new_table(tmp_path, columns=columns, **cast("Any", keyed))
    rows = pa.table({"id": [1, 2, 3, None], "n": [1, 2, 3, 4]})
    dataset = _dataset(rows, blocks=2)
    with pytest.raises(InvalidInputError, match="'id'") as raised:
        write_table(_lazy(dataset) if kind == "sink" else dataset, table)
    assert type(raised.value) is InvalidInputError
    assert raised.value.column == "id"
    assert table.store.snapshots.latest_id() is None
    assert_tidy(table)


def test_errors_of_others_stay_theirs() -> None:
    assert error_of_ours(ValueError("x")) is None
    wrapped = RuntimeError("outer")
    wrapped.__cause__ = LakewrightError("inner")
    assert str(error_of_ours(wrapped)) == "inner"


# ---- the verb of builders --------------------------------------------------------------------------------------------


def test_builders_write_and_commit_datasets(tmp_path: Path) -> None:
    table = new_table(tmp_path, partitions=["day"])
    builder = table.new_batch_write_builder().with_commit_user("me")
    with builder.new_write() as writer:
        result = writer.write_ray(_dataset(), overwrite=False, concurrency=4, ray_remote_args={"num_cpus": 1})
    assert (result.rows, result.partitions) == (120, 3)
    assert table.store.snapshots.get(1).commit_user == "me"
    table.new_batch_write_builder().new_write().write_ray(_dataset(_ROWS.slice(0, 1)), overwrite=True)
    assert len(rows_of(table)) == 79
    static = table.copy({"dynamic-partition-overwrite": "false"}).new_batch_write_builder()
    static.overwrite({"day": "2026-01-02"}).new_write().write_ray(_dataset(_ROWS.slice(1, 1)))
    assert len(rows_of(table)) == 41
    part = table.new_batch_write_builder().new_write().with_write_type(["id", "day"])
    part.write_ray(_dataset(_ROWS.select(["id", "day"])))
    assert len(rows_of(table)) == 161
    with pytest.raises(UnsupportedError, match="batch write builder"):
        table.new_stream_write_builder().new_write().write_ray(_dataset())


@pytest.mark.nightly
def test_a_callback_hears_of_every_task(tmp_path: Path) -> None:
    for keys, options in (([], {}), (["id"], {"bucket": "2"})):
        heard: list[Progress] = []
        table = new_table(tmp_path, keys=keys, options=options, name=f"t{len(keys)}")
        result = write_table(_lazy(_dataset()), table, progress=heard.append)
        assert (heard[-1].rows, heard[-1].bytes) == (result.rows, result.bytes)
        assert [one.tasks_done for one in heard] == list(range(1, result.tasks + 1))
    bars = ray.data.DataContext.get_current().enable_progress_bars
    dataset = _dataset()
    write_table(dataset, table, progress=False)
    assert dataset.context.enable_progress_bars == bars


@pytest.mark.usefixtures("shared_out")
def test_concurrency_bounds_the_writers(tmp_path: Path) -> None:
    table = new_table(tmp_path, keys=["id"], options={"bucket": "4"})
    assert write_table(_dataset(), table, concurrency=1).tasks == 1
    assert write_table(_dataset(), table, concurrency=2).tasks == 2


# ---- the commit ------------------------------------------------------------------------------------------------------


def test_answers_that_are_missing_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep = dataset_write.RayTableSink.on_write_complete

    def lose_the_first(self: dataset_write.RayTableSink, write_result: Any) -> None:  # noqa: ANN401 - Ray's own type
        keep(self, write_result)
        del self.answers[0]

    monkeypatch.setattr(dataset_write.RayTableSink, "on_write_complete", lose_the_first)
    table = new_table(tmp_path)
    with pytest.raises(LakewrightError, match="twice or not at all"):
        write_table(_lazy(_dataset()), table)
    assert_tidy(table)


def test_compactions_after_a_commit_run_on_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed_compaction, "run_task", lambda *_, **__: pytest.fail("it ran in the driver"))
    table = new_table(tmp_path, keys=["id"], options={"bucket": "2", "deletion-vectors.enabled": "true"})
    write_table(_dataset(), table)
    newest = table.store.snapshots.latest()
    assert newest is not None
    assert newest.commit_kind is CommitKind.COMPACT
    assert len(rows_of(table)) == 40  # level 0 is hidden, so somebody has compacted
    assert_tidy(table)


# ---- among peers -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peers]:
    """Start the process of the peers."""
    if not PYTHON.exists():
        pytest.skip("the peers' environment is not there: `make test` makes it")
    found = Peers(tmp_path_factory.mktemp("peers"))
    yield found
    found.close()


@pytest.mark.nightly
@pytest.mark.peers
@pytest.mark.usefixtures("shared_out")
@pytest.mark.parametrize("kind", ["partitions", "keys", "dynamic"])
def test_peers_read_what_ray_wrote(tmp_path: Path, peers: Peers, kind: str) -> None:
    table = new_table(tmp_path, **_KINDS[kind])
    write_table(_dataset(), table)
    rows = rows_of(table)
    assert len(rows) in {40, 120}
    for peer in ("rust", "pypaimon"):
        read = peers.read(peer, tmp_path / "warehouse", "d.t")
        assert read is not None, peer
        assert sorted_rows(read.select(table.field_names)) == rows, peer


def test_one_call_writes_datasets_with_the_workers(tmp_path: Path) -> None:
    table = new_table(tmp_path, keys=["id"], options={"bucket": "2"})
    first = lw.write_table(_dataset(), table, job_id="one")
    assert isinstance(first, WriteResult)
    assert lw.write_table(_dataset(), table.table_path, job_id="one").replayed
    with table.new_batch_write_builder().new_write() as writer:
        for call in (writer.write_arrow, writer.write_pandas):
            with pytest.raises(InvalidInputError, match=r"write_ray.*to_arrow_refs"):
                call(cast("Any", _dataset()))
    assert table.store.snapshots.latest_id() == first.snapshot_id


def test_an_upsert_never_takes_away_columns_that_the_dataset_lacks(tmp_path: Path) -> None:
    table = new_table(tmp_path, keys=["id"], options={"bucket": "2"})
    write_table(_dataset(), table, "upsert")
    before = rows_of(table)
    done = write_table(_dataset(pa.table({"id": [3, 1000], "n": [-1, -2]})), table, "upsert")
    assert (done.rows, done.snapshot_id) == (2, 2)
    now = {row[0]: row for row in rows_of(table)}
    assert now.pop(1000) == (1000, None, -2, None)
    assert now.pop(3)[2] == -1
    assert [row for row in before if row[0] != 3] == sorted(now.values(), key=repr)
    with pytest.raises(UnsupportedError, match="a column of row kinds"):
        write_table(_dataset(pa.table({"id": [3], "_row_kind": ["-D"]})), table, "upsert")
    assert write_table(ray.data.from_items([]), table, "upsert").rows == 0
    assert table.store.snapshots.latest_id() == 2


def test_options_that_cannot_be_ignored_are_refused_or_said_once(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    options = {"partition.end-input-to-done": "true"}
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"id": pa.int64()}), options=options))
    table, rows = catalog.get_table("d.t"), ray.data.from_arrow(pa.table({"id": [1]}))
    with pytest.warns(LakewrightWarning, match="a commit does nothing about 'partition.end-input-to-done'"):
        write_table(rows, table)
    write_table(rows, table)
    schema = table.schema.with_options({"query-auth.enabled": "true"})
    other = lw.FileStoreTable(table.identifier, table.store.with_schema(schema))
    for use in (lambda: read_table(other), lambda: write_table(rows, other)):
        with pytest.raises(UnsupportedError, match=r"'query-auth.enabled' = 'true' is not supported"):
            use()
