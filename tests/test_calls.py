from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import lakewright as lw
from contract.fault_enumerator import stray_files
from lakewright.commit.commit_message import CommitMessage
from lakewright.engine.job_progress import Progress
from lakewright.table.write_builder import BatchTableWrite


@pytest.fixture
def table(tmp_path: Path) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    fields = [lw.DataField(0, "id", lw.AtomicType("INT")), lw.DataField(1, "s", lw.AtomicType("VARCHAR(5)"))]
    catalog.create_table("d.t", lw.Schema(fields))
    return catalog.get_table("d.t")


def test_a_result_tells_what_was_written(table: lw.FileStoreTable) -> None:
    result = lw.write_table(pa.table({"id": [1, 2]}), table)
    assert (result.snapshot_id, result.rows, result.files, result.partitions) == (1, 2, 1, 1)
    assert result.bytes > 0
    assert result.seconds > 0
    empty = lw.write_table(pa.table({"id": pa.array([], pa.int32())}), table)
    assert (empty.snapshot_id, empty.rows) == (None, 0)


def test_the_default_never_changes_the_schema(table: lw.FileStoreTable) -> None:
    with pytest.raises(lw.InvalidInputError, match="new"):
        lw.write_table(pa.table({"id": [1], "new": [1.5]}), table)
    assert table.snapshot() is None


def test_merge_adds_columns_and_widens_types(table: lw.FileStoreTable) -> None:
    lw.write_table(pa.table({"id": [1], "s": ["a"]}), table)
    lw.write_table(pl.DataFrame({"id": [2**40], "s": ["longer than five"], "new": [1.5]}), table, schema_mode="merge")
    merged = lw.open_table(table.table_path)
    assert [(field.name, str(field.type)) for field in merged.fields] == [
        ("id", "BIGINT"),
        ("s", "STRING"),
        ("new", "DOUBLE"),
    ]
    rows = sorted(lw.read_table(merged).to_pylist(), key=lambda row: row["id"])
    assert rows == [{"id": 1, "s": "a", "new": None}, {"id": 2**40, "s": "longer than five", "new": 1.5}]
    lw.write_table(pa.table({"id": pa.array([3], pa.int8())}), merged, schema_mode="merge")
    assert lw.open_table(table.table_path).schema.id == merged.schema.id, "a narrower input changes nothing"


def test_progress_is_reported_after_every_batch(table: lw.FileStoreTable) -> None:
    seen: list[Progress] = []
    batches = pa.table({"id": pa.array(range(10), pa.int32())}).to_batches(max_chunksize=4)
    lw.write_table(batches, table, progress=seen.append)
    assert [step.rows for step in seen] == [4, 8, 10]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"mode": "replace"}, lw.InvalidInputError),
        ({"mode": "upsert"}, lw.UnsupportedError),
        ({"mode": "delete"}, lw.UnsupportedError),
        ({"schema_mode": "replace"}, lw.InvalidInputError),
    ],
)
def test_wrong_modes_are_refused(table: lw.FileStoreTable, arguments: dict[str, str], error: type[Exception]) -> None:
    with pytest.raises(error):
        lw.write_table(pa.table({"id": [1]}), table, **arguments)  # type: ignore[arg-type]


def test_only_one_way_of_travelling_at_a_time(table: lw.FileStoreTable) -> None:
    lw.write_table(pa.table({"id": [1]}), table)
    with pytest.raises(lw.InvalidInputError, match="one of"):
        lw.read_table(table, snapshot_id=1, tag="x")
    assert lw.read_table(table, filter="id = 1", columns=["id"], limit=1, snapshot_id=1).to_pylist() == [{"id": 1}]
    with pytest.raises(lw.NotFoundError):
        lw.read_table(table, snapshot_id=7)


def test_a_failed_write_leaves_no_files(table: lw.FileStoreTable, tmp_path: Path) -> None:
    bad = [pa.record_batch({"id": pa.array([1], pa.int32())}), pa.record_batch({"id": pa.array(["x"])})]
    with pytest.raises(lw.InvalidInputError):
        lw.write_table(bad, table)
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.parent.name != "schema"] == []


def test_options_that_data_depends_on_cannot_be_laid_over(table: lw.FileStoreTable) -> None:
    with pytest.raises(lw.InvalidInputError, match="bucket"):
        table.copy({"bucket": "4"})
    with pytest.raises(lw.InvalidInputError, match=r"scan\.snapshot-id"):
        table.copy({"scan.snapshot-id": "first"})


def test_a_job_is_committed_once(table: lw.FileStoreTable) -> None:
    rows = pa.table({"id": pa.array([1, 2], pa.int32())})
    first = lw.write_table(rows, table, job_id="monday")
    again = lw.write_table(pa.table({"id": ["not even looked at"]}), table, job_id="monday")
    assert (first.replayed, again.replayed) == (False, True)
    assert (again.snapshot_id, again.rows, again.files, again.bytes) == (1, 2, 1, first.bytes)
    assert lw.write_table(rows, table, job_id="tuesday").snapshot_id == 2
    assert lw.write_table(rows, table, "overwrite", job_id="wednesday").snapshot_id == 3
    assert lw.write_table(rows, table, "overwrite", job_id="wednesday").replayed
    assert lw.read_table(table).num_rows == 2
    for wrong in ("", 7):
        with pytest.raises(lw.InvalidInputError, match="job id"):
            lw.write_table(rows, table, job_id=wrong)  # type: ignore[arg-type]


def test_of_two_runs_of_a_job_at_once_one_commits(table: lw.FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"id": pa.array([1, 2], pa.int32())})
    prepare = BatchTableWrite.prepare_commit

    def overtaken(write: BatchTableWrite) -> list[CommitMessage]:
        monkeypatch.setattr(BatchTableWrite, "prepare_commit", prepare)
        assert lw.write_table(rows, table, job_id="monday").snapshot_id == 1
        return prepare(write)

    monkeypatch.setattr(BatchTableWrite, "prepare_commit", overtaken)
    slower = lw.write_table(rows, table, job_id="monday")
    assert (slower.snapshot_id, slower.rows, slower.replayed) == (1, 2, True)
    assert lw.read_table(table).num_rows == 2
    assert stray_files(table.store) == set()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"concurrency": 2}, "write-threads"),
        ({"partitions": {"id": 1}}, "overwrite replaces"),
        ({"mode": "overwrite", "partitions": {"id": 1}}, "not a partition column"),
        ({"mode": "overwrite", "partitions": ["id"]}, "mapping"),
    ],
)
def test_arguments_are_checked_before_the_data_is_taken(
    table: lw.FileStoreTable, arguments: dict[str, Any], said: str
) -> None:
    batches = pa.RecordBatchReader.from_batches(pa.schema({"id": pa.int32()}), map(pytest.fail, ["the data was taken"]))
    with pytest.raises(lw.InvalidInputError, match=said):
        lw.write_table(batches, table, **arguments)


def _nested(**more: object) -> pa.Table:
    user = {"name": "a", **more}
    entries = pa.map_(pa.string(), pa.struct([(name, pa.scalar(value).type) for name, value in user.items()]))
    columns = {"user": [user], "parts": [[user]], "named": pa.array([[("k", user)]], entries), "deep": [{"in": [user]}]}
    return pa.table({"id": [len(more)], **columns})


def test_a_merge_adds_and_widens_fields_inside_columns(tmp_path: Path) -> None:
    made = lw.create_table_from(_nested(), "d.t", catalog=tmp_path)
    lw.write_table(_nested(n=pa.scalar(5, pa.int32()).as_py(), email="e"), made, schema_mode="merge")
    rows = lw.read_table(made.refreshed()).sort_by("id").to_pylist()
    for row, user in zip(
        rows, ({"name": "a", "n": None, "email": None}, {"name": "a", "n": 5, "email": "e"}), strict=True
    ):
        assert (row["user"], row["parts"], row["named"], row["deep"]) == (user, [user], [("k", user)], {"in": [user]})

    small = pa.struct([("n", pa.int32())])
    made = lw.create_table_from(pa.table({"v": pa.array([{"n": 1}], small)}), "d.small", catalog=tmp_path)
    with pytest.raises(lw.InvalidInputError, match=r"ALTER TABLE d\.small ALTER COLUMN v\.n TYPE BIGINT"):
        lw.write_table(pa.table({"v": [{"n": 1 << 40}]}), made)
    lw.write_table(pa.table({"v": [{"n": 1 << 40}]}), made, schema_mode="merge")
    assert str(made.refreshed().fields[0].type) == "ROW<`n` BIGINT>"


@pytest.mark.parametrize(
    ("column", "path"),
    [
        ("user", "user.email"),
        ("parts", "parts.element.email"),
        ("named", "named.value.email"),
        ("deep", "deep.in.element.email"),
    ],
)
def test_an_unknown_field_inside_a_column_is_an_error_whose_statement_adds_it(
    tmp_path: Path, column: str, path: str
) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    made = lw.create_table_from(_nested(), "d.t", catalog=catalog)
    with pytest.raises(lw.InvalidInputError) as caught:
        lw.write_table(_nested(email="e").select([column]), made)
    assert caught.value.field == path
    statement = str(caught.value).partition(" or ")[2].partition(", or ")[0]
    assert statement == f"ALTER TABLE d.t ADD COLUMN {path} STRING"
    lw.SQLContext(catalog).sql(statement)
    lw.write_table(_nested(email="e").select([column]), made.refreshed())
