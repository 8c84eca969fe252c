"""Row-level changes by Ray's workers: the rows and the counts of the embedded verbs, whatever happens in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import ray.data
from ray import cloudpickle
from ray.data import Dataset
from ray.exceptions import RayError

import lakewright as lw
import lakewright.ray as lwr
from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.committer import Committer
from lakewright.dml.merge import MergeBuilder
from lakewright.dml.row_changes import UpdateResult
from lakewright.errors import ColumnNotExistException, InvalidInputError, UnsupportedError
from lakewright.ray import row_joins
from lakewright.spec.argument_checks import WriteMode
from lakewright.spec.snapshot import Snapshot
from support import traps
from support.effort import examples, some
from support.row_changes import KINDS, SCHEMA, Model, Verbs, bag, frame, new_table
from support.spark_writes import assert_tidy
from support.traps import TrapStorage, trapped

cloudpickle.register_pickle_by_value(traps)
pytestmark = pytest.mark.usefixtures("ray_session")
STEPS = 5


def dataset_of(rows: pa.Table, step: int = 4) -> Dataset:
    """Return rows as a dataset of small blocks."""
    return ray.data.from_arrow([rows.slice(at, step) for at in range(0, max(1, rows.num_rows), step)])


class RayVerbs(Verbs):
    """The verbs of Ray, as the table takes them for a dataset, or as the engine's own calls."""

    def write(self, rows: pl.DataFrame, mode: WriteMode) -> None:
        lw.write_table(dataset_of(rows.to_arrow()), self.table, mode=mode)

    def compact(self, *, full: bool) -> None:
        lwr.compact(self.table, full=full)

    def delete(self, where: str) -> UpdateResult:
        return lwr.delete(self.table, where)

    def update(self, assignments: Mapping[str, object], where: str) -> UpdateResult:
        return lwr.update(self.table, assignments, where)

    def upsert(self, rows: pl.DataFrame, keys: Sequence[str] | None = None) -> UpdateResult:
        return self.table.upsert(dataset_of(rows.to_arrow()), keys)

    def merge(self, source: pl.DataFrame, on: Sequence[str]) -> MergeBuilder:
        return self.table.merge(dataset_of(source.to_arrow()), on)


@pytest.fixture(params=some(["in every task", "by hash"], 1))
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let even small sources be shared out by a hash of their keys, or let them go to every task as they do."""
    if request.param == "by hash":
        by_hash(monkeypatch)
    return str(request.param)


def by_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Share sources out by a hash of their keys, to several tasks."""
    monkeypatch.setattr(row_joins, "_SMALL_BYTES", -1)
    monkeypatch.setattr(row_joins, "_SHARE_BYTES", 400)
    monkeypatch.setattr(row_joins, "_SEND_BYTES", 200)


def keyed_or_not(root: Path, kind: str, files: int = 3) -> lw.FileStoreTable:
    """Make a table of a kind with a few files of ten rows."""
    table = new_table(kind, root)
    for first in range(0, files * 10, 10):
        ids = range(first, first + 10)
        columns = [list(ids), [i % 3 for i in ids], [i % 7 for i in ids], [f"a{i}" for i in ids], list(ids)]
        lw.write_table(pa.table(columns, schema=SCHEMA), table)
    return table


@pytest.mark.parametrize("seed", range(examples(2)))
@pytest.mark.parametrize("kind", some(list(KINDS), 4, 12))
@pytest.mark.usefixtures("way")
def test_rows_are_those_of_polars(tmp_path: Path, kind: str, seed: int) -> None:
    """Random changes leave exactly the rows that polars computes, each change in one snapshot, and no other file."""
    model = Model(kind, seed, RayVerbs(new_table(kind, tmp_path)))
    model.run(STEPS)
    assert_tidy(model.table)


@pytest.mark.nightly
@pytest.mark.parametrize("way", ["in every task", "by hash"], indirect=True)
@pytest.mark.parametrize("kind", ["vectors", "keyed"])
def test_keys_of_other_types_match_as_embedded(tmp_path: Path, kind: str, way: str) -> None:  # noqa: ARG001 - a fixture
    """Wide integers, decimals and floats match the table's own integers; what does not fit matches nothing."""
    for number, keys in enumerate(
        (
            pa.array([3, 2**40, None, 25], pa.int64()),
            pa.array(["3.00", "4.50", None, "25.00"], pa.string()).cast(pa.decimal128(9, 2)),
        )
    ):
        ours, theirs = (keyed_or_not(tmp_path / f"{name}{number}", kind) for name in ("ours", "theirs"))
        source = pa.table({"key": keys, "n": pa.array([11, 12, 13, 14], pa.int64())})
        results = [
            table.merge(data, "t.id = s.key AND t.n <> s.n").when_matched_update({"n": lw.source_col("n")}).execute()
            for table, data in ((ours, dataset_of(source, 2)), (theirs, source))
        ]
        assert results[0].updated == results[1].updated == 2
        assert bag(frame(lw.read_table(ours))) == bag(frame(lw.read_table(theirs)))


def test_floats_match_by_value_on_every_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is one zero and one NaN, also where rows are shared out by a hash."""
    by_hash(monkeypatch)
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"x": pa.float64(), "n": pa.int64()})))
    table = catalog.get_table("d.t")
    lw.write_table(pa.table({"x": [0.0, float("nan"), 1.5, None], "n": [0, 0, 0, 0]}), table)
    source = pa.table({"x": [-0.0, -float("nan"), 1.5, None], "n": [1, 2, 3, 4]})
    merged = table.merge(dataset_of(source, 1), "x").when_matched_update({"n": lw.source_col("n")}).execute()
    assert merged.updated == 3
    assert sorted(lw.read_table(table)["n"].to_pylist()) == [0, 1, 2, 3]


@pytest.mark.usefixtures("way")
def test_mistakes_in_the_source_are_refused(tmp_path: Path) -> None:
    """Two rows for one, two new rows with one key, unknown columns: nothing is changed and nothing stays behind."""
    table = keyed_or_not(tmp_path, "keyed")
    before = table.store.snapshots.latest_id()
    twice = dataset_of(pa.table({"id": [2, 5, 2], "p": [0, 0, 0]}), 1)
    with pytest.raises(InvalidInputError, match="id = 2 is matched by 2 rows") as caught:
        table.merge(twice, "id").when_matched_delete().execute()
    assert caught.value.facts["times"] == 2
    new = dataset_of(pa.table({"id": [77, 78, 77], "p": [0, 1, 2]}), 1)
    with pytest.raises(InvalidInputError, match="several rows with the key id = 77"):
        table.merge(new, "id").when_not_matched_insert().execute()
    with pytest.raises(ColumnNotExistException, match="'nowhere'"):
        table.merge(new, "nowhere").when_matched_delete().execute()
    with pytest.raises(UnsupportedError, match="row kinds"):
        table.upsert(dataset_of(pa.table({"id": [1], "_row_kind": ["-D"]})))
    assert table.store.snapshots.latest_id() == before
    assert_tidy(table)


@pytest.mark.nightly
def test_blocks_of_different_types_are_one_source(tmp_path: Path) -> None:
    """Blocks of pandas and of Arrow, and blocks whose columns are all null, merge as their columns together do."""
    table = keyed_or_not(tmp_path, "plain")
    blocks = [{"id": 1, "name": None}, {"id": 2, "name": "two"}, {"id": 90, "name": None}]
    source = ray.data.from_items(blocks, override_num_blocks=3).map_batches(lambda rows: rows, batch_format="pandas")
    done = table.merge(source, "id").when_matched_update({"name": lw.source_col("name")}).execute()
    assert done.updated == 2
    found = {row["id"]: row["name"] for row in lw.read_table(table, filter="id < 4").to_pylist()}
    assert found == {0: "a0", 1: None, 2: "two", 3: "a3"}


@pytest.mark.parametrize(
    ("kind", "call", "name"),
    some([("keyed", "open_output", "data-"), ("plain", "open_output", "data-"), ("vectors", "create", "index-")], 0),
)
def test_a_worker_that_is_killed_is_replaced(tmp_path: Path, kind: str, call: str, name: str) -> None:
    table = keyed_or_not(tmp_path, kind)
    trap = TrapStorage(durable=False, call=call, name=name, deed="kill", marks=str(tmp_path / "marks"))
    source = dataset_of(pa.table({"id": [3, 17, 99], "p": [0, 0, 0]}))
    done = trapped(table, trap).merge(source, "id").when_matched_delete().when_not_matched_insert().execute()
    assert (tmp_path / "marks" / "0").exists()
    assert (done.deleted, done.inserted) == (2, 1)
    assert sorted(lw.read_table(table)["id"].to_pylist()) == [i for i in range(30) if i not in {3, 17}] + [99]
    assert_tidy(table)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["keyed", "plain", "evolution"])
def test_a_disk_that_fails_leaves_nothing(tmp_path: Path, kind: str) -> None:
    table = keyed_or_not(tmp_path, kind)
    trap = TrapStorage(durable=False, deed="fail", times=100, marks=str(tmp_path / "marks"))
    before = bag(frame(lw.read_table(table)))
    source = dataset_of(pa.table({"id": [3, 17, 99], "p": [0, 0, 0], "n": [1, 1, 1]}))
    builder = trapped(table, trap).merge(source, "id").when_matched_update({"n": lw.source_col("n")})
    with pytest.raises((RayError, OSError), match="the disk is away"):
        builder.when_not_matched_insert().execute()
    assert bag(frame(lw.read_table(table))) == before
    assert_tidy(table)


@pytest.mark.parametrize("kind", some(["keyed", "vectors"], 0))
def test_a_merge_that_lost_a_race_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The dataset runs once, and the rows that somebody else wrote meanwhile are matched."""
    table, runs = keyed_or_not(tmp_path, kind), tmp_path / "runs"
    commit, others = Committer.commit, [lambda: lw.write_table(pa.table({"id": [41], "p": [0]}), table)]

    def overtaken(self: Committer, messages: Sequence[CommitMessage], **more: Any) -> Snapshot | None:  # noqa: ANN401
        if others:
            others.pop()()
        return commit(self, messages, **more)

    def counted(rows: pa.Table) -> pa.Table:
        with runs.open("a") as file:
            file.write("x")
        return rows

    source = dataset_of(pa.table({"id": [2, 41], "p": [2, 0], "n": [7, 8]})).map_batches(
        counted, batch_format="pyarrow"
    )
    monkeypatch.setattr(Committer, "commit", overtaken)
    done = table.merge(source, "id").when_matched_update({"n": lw.source_col("n")}).when_not_matched_insert().execute()
    assert (done.updated, done.inserted, done.attempts) == (2, 0, 2)
    assert runs.read_text() == "x"
    assert_tidy(table)


def test_a_job_is_committed_once(tmp_path: Path) -> None:
    table = keyed_or_not(tmp_path, "plain")
    source = dataset_of(pa.table({"id": [2, 41], "n": [7, 8]}))
    first, again = (table.upsert(source, ["id"], job_id="one") for _ in range(2))
    assert (first.replayed, again.replayed) == (False, True)
    assert (again.updated, again.inserted) == (first.updated, first.inserted) == (1, 1)
    with pytest.raises(InvalidInputError, match="concurrency"):
        lwr.delete(table, "id = 1", concurrency=0)
    with pytest.raises(InvalidInputError, match="ray_remote_args"):
        lwr.update(table, {"n": pc.field("n")}, ray_remote_args=["num_cpus"])  # type: ignore[arg-type]
