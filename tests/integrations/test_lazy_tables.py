"""Lazy frames of polars and relations of DuckDB: the rows of the table, read with few columns and files."""

from __future__ import annotations

import datetime as dt
import gc
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Literal

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import lakewright as lw
from contract.faulty_storage import FaultyStorage
from lakewright.errors import TableNotExistException, TagNotExistException
from lakewright.integrations.duckdb_relation import Scan, TableDataset
from lakewright.integrations.lazy_source import lazy_source
from support.effort import thinned
from support.golden import expected
from support.read_tables import golden_store

SCHEMA = pa.schema(
    [("id", pa.int64()), ("day", pa.string()), ("x", pa.float64()), ("s", pa.string()), ("moment", pa.timestamp("us"))]
)
FILES = 4


def _rows(number: int) -> pa.Table:
    ids = range(number * 10, number * 10 + 10)
    moments = [dt.datetime(2026, 1, 1) + dt.timedelta(hours=i) for i in ids]  # noqa: DTZ001 - a column without a zone
    data = {
        "id": [None if i % 10 == 9 else i for i in ids],
        "day": [f"d{number % 2}"] * 10,
        "x": [math.nan if i % 7 == 3 else i / 4 for i in ids],
        "s": [None if i % 5 == 4 else f"text {i}" for i in ids],
        "moment": moments,
    }
    return pa.table(data, schema=SCHEMA)


@pytest.fixture(scope="module", params=["append", "keyed"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> lw.FileStoreTable:
    """Return a table of four files in two partitions that is only read; `keyed` merges two versions of some rows."""
    return _made(tmp_path_factory.mktemp("lazy"), keyed=request.param == "keyed")


def _made(warehouse: Path, *, keyed: bool) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": str(warehouse)})
    catalog.create_database("d")
    options = {"bucket": "1", "write-only": "true"} if keyed else {}
    made = lw.Schema.from_pyarrow_schema(SCHEMA, ["day"], ["day", "moment"] if keyed else None, options)
    catalog.create_table("d.t", made)
    found = catalog.get_table("d.t")
    for number in range(FILES):
        lw.write_table(_rows(number), found)
    if keyed:
        lw.write_table(_rows(0), found)
    return found


def _opened(table: lw.FileStoreTable) -> tuple[lw.FileStoreTable, FaultyStorage]:
    storage = FaultyStorage(table.store.storage)
    return replace(table, store=replace(table.store, storage=storage)), storage


def _data_files(storage: FaultyStorage) -> set[str]:
    return {call.path for call in storage.calls if "/bucket-" in call.path}


POLARS = [
    pl.col("id") > 12,
    (pl.col("id") > 12) & (pl.col("id") % 2 == 0),
    (pl.col("x") > 5.5) & pl.col("s").is_not_null(),
    pl.col("x").is_nan(),
    pl.col("id").is_in([3, 14, 99]) | pl.col("s").is_null(),
    ~(pl.col("id") < 20),
    pl.col("day") == "d1",
    pl.col("s").str.contains("2$"),
    pl.col("moment") >= dt.datetime(2026, 1, 2, 3),  # noqa: DTZ001 - as the column
    pl.col("id").is_null() & (pl.col("x") <= 100),
    pl.lit(value=False) & (pl.col("id") > 3),
]


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_polars_counts_rows_without_columns(
    table: lw.FileStoreTable, engine: Literal["in-memory", "streaming"]
) -> None:
    rows = lw.read_table(table).num_rows
    indices = lw.scan_polars(table).with_row_index().select("index").collect(engine=engine)
    assert indices.to_series().to_list() == list(range(rows))
    constant = lw.scan_polars(table).with_columns(one=pl.lit(1)).select("one")
    assert constant.sum().collect(engine=engine).item() == rows


def test_arrow_and_duckdb_count_rows_without_columns(table: lw.FileStoreTable) -> None:
    rows = lw.read_table(table).num_rows
    relation = lw.duckdb_relation(table)
    assert relation.project("1 AS one").aggregate("count(one)").fetchall() == [(rows,)]
    assert relation.aggregate("count(*)").fetchall() == [(rows,)]
    read = table.new_read_builder().with_projection([])
    assert sum(batch.num_rows for batch in read.new_read().to_arrow_batch_reader()) == rows
    assert lw.read_table(table, columns=[]).num_rows == rows


@pytest.mark.parametrize("condition", POLARS, ids=str)
def test_polars_reads_what_it_would_filter_itself(table: lw.FileStoreTable, condition: pl.Expr) -> None:
    eager = pl.DataFrame(pl.from_arrow(lw.read_table(table)))
    lazy = lw.scan_polars(table).filter(condition)
    assert lazy.collect().sort("moment").equals(eager.filter(condition).sort("moment"), null_equal=True)
    assert (
        lazy.select("s", "moment")
        .collect()
        .sort("moment")
        .equals(eager.filter(condition).select("s", "moment").sort("moment"))
    )


CONDITIONS = [
    "id > 12",
    "id > 12 AND id % 2 = 0",
    "x > 5.5 AND s IS NOT NULL",
    "id IN (3, 14, 99)",
    "id IN (3, 14, NULL)",
    "id NOT IN (3, 14)",
    "NOT id < 20",
    "day = 'd1' AND s LIKE '%2'",
    "s LIKE 'text 1%'",
    "moment >= TIMESTAMP '2026-01-02 03:00:00'",
    "id IS NULL AND x <= 100",
    "id = 3 OR s IS NULL",
    "id BETWEEN 5 AND 15",
    "x = 1.5",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_duckdb_reads_what_it_would_filter_itself(table: lw.FileStoreTable, condition: str) -> None:
    eager = lw.read_table(table)
    with duckdb.connect() as connection:
        lazy = lw.duckdb_relation(table, connection)
        query = f"SELECT s, moment FROM {{}} WHERE {condition} ORDER BY moment"  # noqa: S608 - conditions of this test
        wanted = connection.sql(query.format("eager")).fetchall()
        assert connection.sql(query.format("lazy")).fetchall() == wanted
        assert lazy.filter(condition).count("*").fetchall() == [(len(wanted),)]
    assert eager.num_rows == FILES * 10


def test_only_the_files_of_a_query_are_opened(table: lw.FileStoreTable) -> None:
    counted, storage = _opened(table)
    late = dt.datetime(2026, 1, 2, 10)  # noqa: DTZ001 - as the column
    lw.scan_polars(counted).filter((pl.col("moment") >= late) & (pl.col("id") % 2 == 0)).collect()
    assert len(_data_files(storage)) == 1
    counted, storage = _opened(table)
    with duckdb.connect() as connection:
        found = lw.duckdb_relation(counted, connection).filter("day = 'd1' AND id > 32").project("id").fetchall()
    assert sorted(found) == [(33,), (34,), (35,), (36,), (37,), (38,)]
    assert all("day=d1" in path for path in _data_files(storage))
    counted, storage = _opened(table)
    assert lw.scan_polars(counted).filter(pl.col("day") == "d7").collect().is_empty()
    assert _data_files(storage) == set()


def test_only_the_columns_of_a_query_are_read(table: lw.FileStoreTable) -> None:
    asked: list[tuple[str, ...] | None] = []
    source = lazy_source(table)

    class Recording(TableDataset):
        def scanner(
            self,
            columns: Sequence[str] | None = None,
            filter: pc.Expression | None = None,  # noqa: A002 - as of Arrow
            **more: object,
        ) -> Scan | ds.Scanner:
            asked.append(None if columns is None else tuple(columns))
            return super().scanner(columns, filter, **more)

    dataset = Recording(source)
    with duckdb.connect() as connection:
        connection.sql("SELECT sum(x) FROM dataset WHERE id % 3 = 1").fetchall()
    assert [sorted(columns or ()) for columns in asked] == [["id", "x"]]
    assert source.batches(["x"]).schema.names == ["x"]
    assert lw.scan_polars(table).select("x").collect().columns == ["x"]
    assert dataset.schema.names == SCHEMA.names


@pytest.mark.parametrize("keyed", [False, True])
def test_a_lazy_frame_shows_the_snapshot_of_its_call(tmp_path: Path, *, keyed: bool) -> None:
    table = _made(tmp_path, keyed=keyed)
    lazy, relation = lw.scan_polars(table), lw.duckdb_relation(table)
    before = FILES * 10
    table.create_tag("before")
    lw.write_table(_rows(7), table)
    assert lazy.select(pl.len()).collect().item() == before
    assert relation.count("*").fetchall() == [(before,)]
    assert lw.scan_polars(table).select(pl.len()).collect().item() == before + 10
    assert lw.scan_polars(table, tag="before").select(pl.len()).collect().item() == before
    assert lw.scan_polars(table, snapshot_id=1).select(pl.len()).collect().item() == 10
    assert lw.duckdb_relation(table.table_path, snapshot_id=1).count("*").fetchall() == [(10,)]
    with pytest.raises(lw.NotFoundError):
        lw.scan_polars(table, snapshot_id=99)
    with pytest.raises(TagNotExistException):
        lw.duckdb_relation(table, tag="none")
    with pytest.raises(lw.InvalidInputError, match="not 2"):
        lw.scan_polars(table, snapshot_id=1, tag="before")


def test_limits_count_before_filters(table: lw.FileStoreTable) -> None:
    assert lw.scan_polars(table).head(3).collect().height == 3
    after = lw.scan_polars(table).filter(pl.col("id") >= 0).head(4).collect()
    assert after.height == 4
    first = lw.scan_polars(table).head(15).filter(pl.col("id") >= 0).collect()
    assert first.height <= 14  # of fifteen rows one or two have no id


def test_tables_that_were_never_written_and_system_tables(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(SCHEMA))
    empty = catalog.get_table("d.t")
    assert lw.scan_polars(empty).collect().columns == SCHEMA.names
    assert lw.duckdb_relation(empty).fetchall() == []
    lw.write_table(_rows(0), empty)
    snapshots = catalog.get_table("d.t$snapshots")
    assert (
        lw.scan_polars(snapshots).filter(pl.col("snapshot_id") == 1).select("commit_kind").collect().item() == "APPEND"
    )
    assert lw.duckdb_relation(snapshots).filter("snapshot_id = 2").fetchall() == []
    log = catalog.get_table("d.t$audit_log")
    assert set(lw.scan_polars(log).select("rowkind").collect()["rowkind"]) == {"+I"}


@pytest.mark.parametrize("wrong", [None, 5, "no/such/table", object()])
def test_what_is_no_table_is_refused(wrong: object) -> None:
    for call in (lw.scan_polars, lw.duckdb_relation):
        with pytest.raises((lw.InvalidInputError, lw.NotFoundError)):
            call(wrong)  # type: ignore[arg-type]
    with pytest.raises(lw.InvalidInputError, match="connection"):
        lw.duckdb_relation("x", "here")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", thinned(sorted(expected())[::8]))
def test_golden_tables_have_the_same_rows(name: str) -> None:
    table = lw.open_table(golden_store(name).layout.root)
    try:
        rows = lw.read_table(table)
    except lw.UnsupportedError:
        pytest.skip("not readable")
    with duckdb.connect() as connection:
        assert lw.duckdb_relation(table, connection).count("*").fetchall() == [(rows.num_rows,)]
    assert lw.scan_polars(table).collect().equals(pl.DataFrame(pl.from_arrow(rows)), null_equal=True)


def _reads(query: Callable[[], object]) -> list[tuple[object, int]]:
    """Return the columns and the number of files of the reads that a query makes, as metrics tell them."""
    events: list[lw.MetricsEvent] = []
    lw.add_metrics_hook(events.append)
    try:
        query()
    finally:
        lw.remove_metrics_hook(events.append)
    return [(event.details["columns"], event.files) for event in events if event.kind == "read"]


def test_metrics_tell_that_only_the_needed_columns_and_files_are_read(tmp_path: Path) -> None:
    table = lw.create_table_from(_rows(0), "d.t", catalog=tmp_path)
    for number in (1, 2, 3):
        lw.write_table(_rows(number), table)
    query = lw.scan_polars(table).filter(pl.col("id") >= 30).select("x")
    assert _reads(query.collect) == [(("id", "x"), 1)]
    relation = lw.duckdb_relation(table)
    assert _reads(relation.filter("id >= 30").project("x").fetchall) == [(("id", "x"), 1)]
    assert _reads(lw.scan_polars(table).select("s").collect) == [(("s",), 4)]


PRICES = [
    pa.table({"price": [*map(Decimal, some), None]}, schema=pa.schema({"price": pa.decimal128(10, 2)}))
    for some in [["-5", "-0.01"], ["0", "9.99"], ["10", "19.99"], ["20", "30.25"], ["30.26", "99999999.99"]]
]


@pytest.fixture(scope="module")
def prices(tmp_path_factory: pytest.TempPathFactory) -> lw.FileStoreTable:
    """Return a table with a file for each part of `PRICES`."""
    table = lw.create_table_from(PRICES[0], "d.t", catalog=tmp_path_factory.mktemp("prices"))
    for more in PRICES[1:]:
        lw.write_table(more, table)
    return table


@pytest.mark.parametrize(
    ("condition", "files"),
    [
        (pl.col("price") > Decimal("30.25"), 1),
        (pl.col("price") == Decimal(-5), 1),
        (pl.col("price") >= Decimal("9.994"), 3),
        (pl.col("price") < Decimal("0.001"), 2),
        (pl.col("price") > Decimal("1e20"), 0),
        (pl.col("price") < 0, 1),
    ],
    ids=str,
)
def test_decimals_of_polars_choose_files(prices: lw.FileStoreTable, condition: pl.Expr, files: int) -> None:
    wanted = pl.DataFrame(pl.from_arrow(pa.concat_tables(PRICES))).filter(condition)
    found: list[pl.DataFrame] = []
    reads = _reads(lambda: found.append(lw.scan_polars(prices).filter(condition).collect()))
    assert found[0].equals(wanted)
    # Before its version 2 polars casts the column, so that all files are read.
    assert [count for _, count in reads] == [files if int(pl.__version__.partition(".")[0]) >= 2 else len(PRICES)]


def test_variables_are_names_in_duckdb(tmp_path: Path) -> None:
    """A table and a read builder are Arrow streams, which DuckDB finds by the name of the variable."""
    orders = lw.create_table_from({"id": [1, 2, 3], "n": [5, 6, 7]}, "d.t", catalog=tmp_path)
    chosen = orders.new_read_builder().with_filter("id > 1").with_projection(["n"])
    lazy = lw.duckdb_relation(orders)
    assert duckdb.execute("SELECT sum(n) FROM orders WHERE id > 1").fetchall() == [(13,)]
    assert duckdb.execute("SELECT sum(n) FROM chosen").fetchall() == [(13,)]
    assert duckdb.execute("SELECT sum(n) FROM lazy WHERE id > 1").fetchall() == [(13,)]
    del chosen, lazy  # DuckDB alone has used them


def test_a_query_of_a_few_rows_reads_few_files(tmp_path: Path) -> None:
    """Neither DuckDB nor polars reads on when a query has its rows, and metrics count the files that were opened."""
    table = lw.create_table_from({"id": range(1000)}, "d.t", catalog=tmp_path)
    for number in range(1, 20):
        lw.write_table({"id": range(number * 1000, number * 1000 + 1000)}, table)

    def limited() -> None:
        with duckdb.connect() as connection:
            assert len(lw.duckdb_relation(table, connection).limit(3).fetchall()) == 3
        gc.collect()  # the event of a read that was left comes when nobody holds it any more

    assert max(files for _, files in _reads(limited)) <= 8
    assert _reads(lw.scan_polars(table).head(3).collect) == [(("id",), 1)]
    assert _reads(lw.scan_polars(table).head(1500).collect) == [(("id",), 2)]
    assert _reads(lw.scan_polars(table).tail(3).collect) == [(("id",), 20)]


def test_an_error_inside_a_query_says_what_to_do(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    table = lw.create_table_from({"id": [1]}, "d.t", catalog=catalog)
    frame, relation = lw.scan_polars(table), lw.duckdb_relation(table)
    catalog.alter_table("d.t", [lw.SchemaChange.rename_column("id", "key")], ignore_if_not_exists=False)
    assert frame.collect().columns == relation.columns == ["id"]  # a query keeps the columns of its snapshot
    assert relation.fetchall() == [(1,)]
    lw.write_table({"key": [2]}, catalog.get_table("d.t"))
    catalog.get_table("d.t").expire_snapshots(retain_max=1, retain_min=1)
    with pytest.raises(lw.NotFoundError, match="expired"):
        frame.collect()
    with pytest.raises(duckdb.Error, match="expired"):
        relation.fetchall()
    catalog.drop_table("d.t")
    for engine in ("in-memory", "streaming"):
        with pytest.raises(TableNotExistException, match="dropped or renamed"):
            frame.collect(engine=engine)
    with pytest.raises(duckdb.Error, match="dropped or renamed"):
        relation.fetchall()
