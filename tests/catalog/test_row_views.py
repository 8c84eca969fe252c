"""Views of a table's rows: `$ro` without a merge, `$row_tracking` with ids, `$audit_log` and `$binlog` with changes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.errors import ColumnNotExistException
from lakewright.read.incremental import with_lists
from lakewright.read.projection import plan_projection
from lakewright.spec.arrow_types import from_arrow_schema

ROWS = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])


def catalog_of(warehouse: Path) -> lw.Catalog:
    catalog = lw.CatalogFactory.create({"warehouse": str(warehouse)})
    catalog.create_database("d")
    return catalog


def rows(**values: list[object]) -> pa.Table:
    return pa.table(values, schema=ROWS)


@pytest.mark.parametrize("options", [{}, {"merge-engine": "partial-update"}])
def test_read_optimized_shows_the_highest_level(tmp_path: Path, options: dict[str, str]) -> None:
    catalog = catalog_of(tmp_path)
    catalog.create_table(
        "d.t", lw.Schema.from_pyarrow_schema(ROWS, primary_keys=["k"], options={"bucket": "1", **options})
    )
    table = catalog.get_table("d.t")
    lw.write_table(rows(k=[1, 2], v=["a", "b"]), table)
    table.compact(full=True)
    last = table.snapshot()
    lw.write_table(rows(k=[2, 3], v=["B", "C"]), table.copy({"write-only": "true"}))
    view = catalog.get_table("d.t$ro")
    assert (view.name, view.field_names, list(view.primary_keys)) == ("d.t$ro", ["k", "v"], ["k"])
    assert lw.read_table(view) == rows(k=[1, 2], v=["a", "b"])
    assert lw.read_table(view, filter="v = 'b'", columns=["k"])["k"].to_pylist() == [2]
    assert lw.read_table(view, filter="v = 'B'").num_rows == 0
    table.compact(full=True)
    assert lw.read_table(catalog.get_table("d.t$ro")) == rows(k=[1, 2, 3], v=["a", "B", "C"])
    assert last is not None
    assert lw.read_table(catalog.get_table("d.t$ro"), snapshot_id=last.id) == rows(k=[1, 2], v=["a", "b"])
    assert lw.sql("SELECT v FROM d.`t$ro` WHERE k > 1 ORDER BY k", catalog=catalog)["v"].to_pylist() == ["B", "C"]


def test_read_optimized_of_a_table_without_a_key_is_the_table(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(ROWS))
    lw.write_table(rows(k=[1], v=["a"]), catalog.get_table("d.t"))
    assert lw.read_table(catalog.get_table("d.t$ro")) == rows(k=[1], v=["a"])


def test_rows_with_their_ids(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(ROWS, options={"row-tracking.enabled": "true"}))
    for number in (7, 8):
        lw.write_table(rows(k=[number], v=["x"]), catalog.get_table("d.t"))
    view = catalog.get_table("d.t$row_tracking")
    assert view.field_names == ["k", "v", "_ROW_ID", "_SEQUENCE_NUMBER"]
    found = lw.read_table(view)
    assert found.select(["k", "_ROW_ID", "_SEQUENCE_NUMBER"]).to_pydict() == {
        "k": [7, 8],
        "_ROW_ID": [0, 1],
        "_SEQUENCE_NUMBER": [1, 2],
    }
    assert lw.read_table(view, columns=["_ROW_ID"], filter="_ROW_ID = 1").to_pydict() == {"_ROW_ID": [1]}


@pytest.mark.parametrize("name", ["d.t$ro", "d.t$row_tracking", "d.t$audit_log"])
def test_views_are_never_written(tmp_path: Path, name: str) -> None:
    catalog = catalog_of(tmp_path)
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(ROWS, options={"row-tracking.enabled": "true"}))
    with pytest.raises(lw.UnsupportedError, match="read-only"):
        catalog.get_table(name).new_batch_write_builder()


def test_a_table_without_row_ids_has_no_view_of_them(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(ROWS))
    with pytest.raises(lw.UnsupportedError, match="does not track rows"):
        catalog.get_table("d.t$row_tracking")


def log_table(catalog: lw.Catalog, **options: str) -> lw.FileStoreTable:
    """Make a table with a changelog of three snapshots: a new row, a change of it beside a second row, a deletion."""
    schema = lw.Schema.from_pyarrow_schema(
        ROWS, primary_keys=["k"], options={"bucket": "1", "changelog-producer": "input", **options}
    )
    catalog.create_table("d.t", schema)
    table = catalog.get_table("d.t")
    for kinds, keys, values in (
        (["+I"], [1], ["a"]),
        (["-U", "+U", "+I"], [1, 1, 2], ["a", "b", "x"]),
        (["-D"], [2], ["x"]),
    ):
        lw.write_table(pa.table({"_row_kind": kinds, "k": pa.array(keys), "v": values}), table)
    return table


def test_the_binary_log_has_an_update_in_one_row(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    log_table(catalog)
    log = catalog.get_table("d.t$binlog")
    assert [str(field.type) for field in log.fields] == ["STRING", "ARRAY<BIGINT>", "ARRAY<STRING>"]
    assert lw.read_table(log).to_pylist() == [{"rowkind": "+I", "k": [1], "v": ["b"]}]
    changes = [
        {"rowkind": "+U", "k": [1, 1], "v": ["a", "b"]},
        {"rowkind": "+I", "k": [2], "v": ["x"]},
        {"rowkind": "-D", "k": [2], "v": ["x"]},
    ]
    assert lw.read_table(log, incremental=(1, 3)).to_pylist() == changes
    diff = lw.read_table(log, incremental=(1, 3), incremental_mode="diff").to_pylist()
    assert diff == changes[:1]
    assert lw.read_table(log, incremental=(1, 3), filter="k = 2", columns=["v"]).to_pydict() == {"v": [["x"], ["x"]]}
    query = "SELECT rowkind, v[1] AS now FROM paimon_incremental_query('d.`t$binlog`', 1, 3) WHERE size(v) = 2"
    assert lw.sql(query, catalog=catalog).to_pylist() == [{"rowkind": "+U", "now": "b"}]
    assert lw.sql("SELECT count(*) AS n FROM d.`t$binlog`", catalog=catalog)["n"].to_pylist() == [1]
    with pytest.raises(lw.UnsupportedError, match="v may differ in the two rows of an update"):
        lw.read_table(log, filter="v = 'b'")


@pytest.mark.parametrize("batch_rows", ["1", "2", "1024"])
def test_an_update_on_the_border_of_batches_is_one_row(tmp_path: Path, batch_rows: str) -> None:
    catalog = catalog_of(tmp_path)
    log_table(catalog, **{"read.batch-size": batch_rows})
    read = lw.read_table(catalog.get_table("d.t$binlog"), incremental=(1, 2))
    assert read.to_pydict() == {"rowkind": ["+U", "+I"], "k": [[1, 1], [2]], "v": [["a", "b"], ["x"]]}


def test_rows_of_changes_become_lists() -> None:
    """An old row without its new one stays alone, wherever batches end."""
    plain = plan_projection(from_arrow_schema(ROWS)).with_kinds("rowkind")
    kinds = ["-U", "+U", "-U", "-D", "+I", "+U", "-U"]
    batch = pa.RecordBatch.from_pydict({"rowkind": kinds, "k": range(7), "v": list("abcdefg")}, schema=plain.schema)
    lists = with_lists(batch, plain.in_lists())
    assert lists.column("rowkind").to_pylist() == ["+U", "-U", "-D", "+I", "+U", "-U"]
    assert lists.column("k").to_pylist() == [[0, 1], [2], [3], [4], [5], [6]]
    assert with_lists(batch.slice(1, 2), plain.in_lists()).column("v").to_pylist() == [["b"], ["c"]]
    assert with_lists(batch, plain.in_lists().with_columns([])).num_rows == 6


def test_logs_are_followed(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    table = log_table(catalog)
    for name, second in (
        ("audit_log", [("-U", 1, "a"), ("+U", 1, "b"), ("+I", 2, "x")]),
        ("binlog", [("+U", [1, 1], ["a", "b"]), ("+I", [2], ["x"])]),
    ):
        builder = catalog.get_table(f"d.t${name}").new_stream_read_builder()
        read, scan = builder.new_read(), builder.new_streaming_scan()
        scan.restore(2)
        plan = scan.plan()
        assert plan is not None
        assert [tuple(row.values()) for row in read.to_arrow(plan.splits()).to_pylist()] == second
    with pytest.raises(lw.UnsupportedError, match="read-only"):
        catalog.get_table("d.t$files").new_stream_read_builder()
    assert table.snapshot() is not None


def test_the_kind_of_a_row_is_a_column_of_the_log(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    log_table(catalog)
    log = catalog.get_table("d.t$audit_log")
    assert lw.read_table(log, columns=["v", "rowkind"]).to_pydict() == {"v": ["b"], "rowkind": ["+I"]}
    assert lw.read_table(log, columns=["v"], incremental=(2, 3)).to_pydict() == {"v": ["x"]}
    assert lw.read_table(log, columns="rowkind", incremental=(2, 3)).to_pydict() == {"rowkind": ["-D"]}
    with pytest.raises(lw.UnsupportedError, match="filter what was read, or use SQL"):
        lw.read_table(log, filter="rowkind = '-D'")
    with pytest.raises(ColumnNotExistException, match="kind"):
        lw.read_table(log, columns=["kind"])


@pytest.mark.parametrize("view", ["`t$snapshots`", "`t$ro`", "`t$binlog`", "sys.tables"])
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO {} VALUES (1)",
        "DELETE FROM {} WHERE 1 = 1",
        "UPDATE {} SET v = 'x'",
        "MERGE INTO {} t USING d.t s ON t.k = s.k WHEN MATCHED THEN DELETE",
        "ANALYZE TABLE {} COMPUTE STATISTICS",
        "ALTER TABLE {} ADD COLUMN x INT",
    ],
)
def test_statements_that_change_a_view_are_refused_by_name(tmp_path: Path, view: str, statement: str) -> None:
    catalog = catalog_of(tmp_path)
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(ROWS))
    with pytest.raises(lw.UnsupportedError, match="is a system table, which can only be read"):
        lw.SQLContext(catalog, database="d").sql(statement.format(view))
