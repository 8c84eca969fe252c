from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.sql import SparkSession

import lakewright as lw
from lakewright.spark.fit import Change, Wish, fit
from lakewright.spark.ingest import IngestResult, pipeline
from lakewright.spark.inputs import find_sources
from lakewright.spark.parse import parsed
from lakewright.spark.types import spark_type

FIELDS = [
    lw.DataField(0, "id", lw.AtomicType("BIGINT", nullable=False)),
    lw.DataField(1, "name", lw.AtomicType("STRING")),
    lw.DataField(2, "price", lw.AtomicType("DECIMAL(10, 2)")),
    lw.DataField(3, "day", lw.AtomicType("DATE")),
]


@pytest.fixture
def catalog(tmp_path: Path) -> lw.FileSystemCatalog:
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path / "warehouse")})
    made.create_database("d")
    return made


@pytest.fixture
def orders(catalog: lw.FileSystemCatalog) -> lw.FileStoreTable:
    """Make a table with a primary key."""
    catalog.create_table("d.orders", lw.Schema(FIELDS, primary_keys=["id"], options={"bucket": "1"}))
    return catalog.get_table("d.orders")


@pytest.fixture
def log(catalog: lw.FileSystemCatalog) -> lw.FileStoreTable:
    """Make a partitioned append table."""
    catalog.create_table("d.log", lw.Schema(FIELDS, partition_keys=["day"]))
    return catalog.get_table("d.log")


def _file(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def _rows(table: lw.FileStoreTable) -> list[dict[str, object]]:
    return sorted(lw.read_table(table).to_pylist(), key=lambda row: row["id"])


def _changes(result: IngestResult) -> list[str]:
    return [str(change) for source in result.plan.sources for change in source.changes]


# ---- names -----------------------------------------------------------------------------------------------------------


def _fit(names: list[str], wish: Wish | None = None) -> tuple[dict[str, str], list[Change]]:
    found = fit(names, FIELDS, ["id"], wish or Wish(), name="d.t")
    return dict(found.pairs), list(found.changes)


def test_exact_names_come_before_names_that_differ_in_case() -> None:
    pairs, changes = _fit(["id", "NAME", "price", "Price"], Wish(ignore_extra=True))
    assert pairs == {"id": "id", "NAME": "name", "price": "price"}
    assert [(c.kind, c.column) for c in changes] == [("renamed", "name"), ("ignored", "Price"), ("filled", "day")]


def test_renames_come_first() -> None:
    pairs, _ = _fit(["key", "id", "name"], Wish(renames={"key": "id"}, ignore_extra=True))
    assert pairs == {"key": "id", "name": "name"}


def test_row_kinds_of_the_source_are_kept() -> None:
    pairs, _ = _fit(["id", "_row_kind"])
    assert pairs == {"id": "id", "_row_kind": "_row_kind"}


@pytest.mark.parametrize(
    ("names", "wish", "message"),
    [
        (["id", "colour"], Wish(), "the source has the column 'colour', which the table lacks"),
        (["name"], Wish(), "the source lacks the column 'id'"),
        (["id", "PRICE", "Price"], Wish(), "'PRICE' and 'Price' of the source would both become 'price'"),
        (["id", "id"], Wish(), "two columns named 'id'"),
        (["id", "x"], Wish(renames={"x": "y"}), "'x' cannot become 'y'"),
        (["name"], Wish(keys_only=True), "the source lacks the column 'id'"),
    ],
)
def test_columns_that_have_no_place_are_refused(names: list[str], wish: Wish, message: str) -> None:
    with pytest.raises(lw.InvalidInputError, match=message):
        _fit(names, wish)


def test_a_delete_needs_the_keys_alone() -> None:
    assert _fit(["id"], Wish(keys_only=True)) == ({"id": "id"}, [])


# ---- sources ---------------------------------------------------------------------------------------------------------


def test_files_are_found_counted_and_their_format_guessed(tmp_path: Path) -> None:
    _file(tmp_path / "a" / "1.csv.gz", "xx")
    _file(tmp_path / "a" / "b" / "2.csv", "x")
    _file(tmp_path / "a" / "_SUCCESS", "")
    (found,) = find_sources(str(tmp_path / "a"))
    assert (found.format, found.files, found.bytes) == ("csv", 2, 3)
    assert found.paths == (str(tmp_path / "a"), str(tmp_path / "a" / "b"))
    (found,) = find_sources(str(tmp_path / "a" / "**" / "*.csv"))
    assert (found.format, found.files) == ("csv", 1)


def test_names_that_look_like_patterns_are_taken_literally(tmp_path: Path) -> None:
    path = _file(tmp_path / "a[1]*.parquet", "")
    (found,) = find_sources(path)
    assert found.paths == (str(tmp_path / r"a\[1\]\*.parquet"),)


def test_directories_named_column_value_give_columns(tmp_path: Path) -> None:
    _file(tmp_path / "p" / "day=2026-01-01" / "h=1" / "x.orc", "")
    (found,) = find_sources(str(tmp_path / "p"))
    assert (found.partition_columns, found.paths) == (("day", "h"), (str(tmp_path / "p"),))


@pytest.mark.parametrize(
    ("make", "given", "message"),
    [
        ([], "nix.csv", "there is no file"),
        ([], "*.csv", "there is no file"),
        (["_x.csv"], "_x.csv", "begin with '_'"),
        (["a/.x.csv"], "a", "holds no files"),
        (["a/x.csv", "a/y.parquet"], "a", "several formats"),
        (["a/x.csv", "a/README"], "a", "does not say its format"),
        (["a/d=1/x.csv", "a/x.csv"], "a", "mixes files inside and outside"),
        (["a/b/d=1/x.csv", "a/c/d=1/x.csv"], "a", "several roots"),
    ],
)
def test_sources_that_spark_would_misread_are_refused(
    make: list[str], given: str, message: str, tmp_path: Path
) -> None:
    for name in make:
        _file(tmp_path / name, "id\n1\n")
    with pytest.raises(lw.InvalidInputError, match=message):
        find_sources(str(tmp_path / given))


def test_what_is_no_source_is_refused() -> None:
    with pytest.raises(lw.InvalidInputError, match="a Table is no source"):
        find_sources(pa.table({"id": [1]}))
    with pytest.raises(lw.InvalidInputError, match="there is no source"):
        find_sources([])


def test_unknown_formats_are_refused() -> None:
    with pytest.raises(lw.InvalidInputError, match="the format 'xml' is none of"):
        find_sources("x", format="xml")


def test_tables_are_found_by_name_and_by_path(orders: lw.FileStoreTable, catalog: lw.FileSystemCatalog) -> None:
    for given in ("d.orders", orders.table_path):
        (found,) = find_sources(given, catalog=catalog)
        assert found.table is not None
        assert found.table.table_path == orders.table_path


# ---- text ------------------------------------------------------------------------------------------------------------


def _parse(spark: SparkSession, dtype: str, text: str | None) -> object:
    frame = spark.createDataFrame([(text,)], "x string")
    return frame.select(parsed("x", spark_type(lw.AtomicType(dtype)), target="x", formats={})).collect()[0][0]


def test_texts_become_values_of_the_table_exactly(spark: SparkSession) -> None:
    cases: list[tuple[str, str, object]] = [
        ("INT", " 7 ", 7),
        ("DECIMAL(10, 2)", "1.500", Decimal("1.50")),
        ("DECIMAL(10, 2)", "15E-1", Decimal("1.50")),
        ("DOUBLE", "-inf", float("-inf")),
        ("BOOLEAN", "true", True),
        ("DATE", "2026-01-31", date(2026, 1, 31)),
        ("TIMESTAMP(6)", "2026-01-31 10:00:00.123456", datetime(2026, 1, 31, 10, 0, 0, 123456)),  # noqa: DTZ001
        ("TIME(3)", "12:13:14.5", time(12, 13, 14, 500000)),
        ("STRING", "", ""),
    ]
    frame = spark.createDataFrame([tuple(text for _, text, _ in cases)], [f"c{i}" for i in range(len(cases))])
    columns = [
        parsed(f"c{i}", spark_type(lw.AtomicType(dtype)), target=f"c{i}", formats={})
        for i, (dtype, _, _) in enumerate(cases)
    ]
    assert list(frame.select(*columns).collect()[0]) == [value for _, _, value in cases]


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        ("INT", "2147483648"),
        ("DECIMAL(10, 2)", "1.505"),
        ("DECIMAL(10, 2)", "1505E-3"),
        ("DOUBLE", "1e400"),
        ("DATE", "2026-01-31 10:00:00"),
        ("TIMESTAMP(6)", "10:00:00"),
        ("TIMESTAMP(6)", "2026-01-31 10:00:00+01:00"),
        ("TIMESTAMP(6)", "2026-01-31 10:00:00.1234567"),
    ],
)
def test_a_text_that_would_lose_something_is_an_error(spark: SparkSession, dtype: str, text: str) -> None:
    with pytest.raises(Exception, match=r"the column 'x' cannot take the text") as caught:
        _parse(spark, dtype, text)
    assert text in str(caught.value)


# ---- from sources to snapshots ---------------------------------------------------------------------------------------


def test_csv_is_read_with_the_types_of_the_table(
    spark: SparkSession, orders: lw.FileStoreTable, tmp_path: Path
) -> None:
    path = _file(
        tmp_path / "o.csv", 'ID,name,price,extra\n1,"say ""hi"", you",1.5,x\n2,,,y\n9007199254740993,Ünï,-0.01,z\n'
    )
    said: list[str] = []
    result = pipeline(spark, path, orders, ignore_extra=True, say=said.append)
    assert (result.snapshot_id, result.rows, result.dry_run, result.replayed) == (1, 3, False, False)
    assert _rows(orders) == [
        {"id": 1, "name": 'say "hi", you', "price": Decimal("1.50"), "day": None},
        {"id": 2, "name": None, "price": None, "day": None},
        {"id": 9007199254740993, "name": "Ünï", "price": Decimal("-0.01"), "day": None},
    ]
    assert _changes(result) == [
        "renamed  id: was 'ID'",
        "ignored  extra: the table has no such column",
        "filled   day: with null",
    ]
    assert said[0].startswith("append to d.orders")
    assert [line.strip() for line in said[2:]] == _changes(result)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.csv": "id,price\n1,cheap\n"}, "the column 'price' cannot take the text 'cheap' as decimal.*a.csv"),
        ({"a.csv": "id,price\n1\n"}, r"Malformed CSV record: 1 \(in file:.*a.csv\)"),
        ({"a.csv": "id,price\n1,1\n", "b.csv": "price,id\n2,2\n"}, "CSV header does not conform.*b.csv.*of their own"),
        ({"a.csv": "id,price\n,1\n"}, "'id'.*NOT NULL"),
        ({"a.jsonl": '{"id": 1, "price": 1.234}\n'}, "the column 'price' cannot take the number 1.234"),
        ({"a.jsonl": '{"id": "x"}\n'}, r"Cannot parse the field name 'id'.*a.jsonl"),
        ({"a.jsonl": '{"id": 1\n'}, "Malformed records"),
        ({"a.csv": ""}, "has no header line"),
    ],
    ids=["value", "short", "header", "null", "digits", "kind", "broken", "empty"],
)
def test_wrong_records_are_errors_and_nothing_is_committed(
    spark: SparkSession, orders: lw.FileStoreTable, tmp_path: Path, files: dict[str, str], message: str
) -> None:
    for name, text in files.items():
        _file(tmp_path / "in" / name, text)
    with pytest.raises(lw.InvalidInputError, match=message):
        pipeline(spark, str(tmp_path / "in"), orders)
    assert orders.snapshot() is None
    assert list(Path(orders.table_path).rglob("*.parquet")) == []


def test_json_lines_and_documents_are_read_with_the_types_of_the_table(
    spark: SparkSession, catalog: lw.FileSystemCatalog, tmp_path: Path
) -> None:
    inside = lw.RowType(True, [lw.DataField(5, "zip", lw.AtomicType("INT"))])  # noqa: FBT003
    catalog.create_table("d.j", lw.Schema([*FIELDS, lw.DataField(4, "place", inside)]))
    table = catalog.get_table("d.j")
    lines = _file(
        tmp_path / "a.jsonl", '{"id": 1, "price": 1.5, "day": "2026-01-31", "place": {"zip": 7}}\n{"id": 2}\n'
    )
    document = _file(tmp_path / "b.json", '[\n {"id": 3,\n  "name": "x"}]\n')
    assert pipeline(spark, [lines, document], table).rows == 3
    assert _rows(table)[0] == {
        "id": 1,
        "name": None,
        "price": Decimal("1.50"),
        "day": date(2026, 1, 31),
        "place": {"zip": 7},
    }
    hidden = _file(tmp_path / "c.jsonl", '{"id": 1, "place": {"zip": 7, "city": "x"}}\n')
    with pytest.raises(lw.InvalidInputError, match="the field 'city' in the column 'place'"):
        pipeline(spark, hidden, table)


def test_several_sources_of_several_formats_are_one_commit(
    spark: SparkSession, orders: lw.FileStoreTable, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "name": ["p"]}), tmp_path / "a.parquet")
    orc.write_table(pa.table({"id": pa.array([2], pa.int64()), "name": ["o"]}), tmp_path / "b.orc")
    _file(tmp_path / "c.tsv", "id\tname\n3\tt\n")
    sources = [str(tmp_path / name) for name in ("a.parquet", "b.orc", "c.tsv")]
    result = pipeline(spark, sources, orders, mode="upsert")
    assert (result.snapshot_id, result.rows) == (1, 3)
    assert [row["name"] for row in _rows(orders)] == ["p", "o", "t"]
    assert "widened  id: int to bigint" in _changes(result)


def test_sources_that_disagree_about_a_type_are_refused(spark: SparkSession, catalog: lw.FileSystemCatalog) -> None:
    catalog.create_table("d.n", lw.Schema([lw.DataField(0, "n", lw.AtomicType("DOUBLE"))]))
    frames = [spark.createDataFrame([(1,)], "n int"), spark.createDataFrame([(1.5,)], "n double")]
    with pytest.raises(lw.InvalidInputError, match="the sources disagree about the column 'n'"):
        pipeline(spark, frames, catalog.get_table("d.n"))


def test_parquet_files_with_other_columns_hide_nothing(
    spark: SparkSession, orders: lw.FileStoreTable, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"id": [1], "name": ["a"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"id": [2], "colour": ["red"]}), tmp_path / "2.parquet")
    with pytest.raises(lw.InvalidInputError, match="'colour'"):
        pipeline(spark, str(tmp_path / "*.parquet"), orders)
    result = pipeline(spark, str(tmp_path / "*.parquet"), orders, schema_mode="merge")
    assert "added    colour: new column of the table" in _changes(result)
    merged = lw.open_table(orders.table_path)
    assert [row["colour"] for row in _rows(merged)] == [None, "red"]


def test_names_of_directories_are_values(spark: SparkSession, log: lw.FileStoreTable, tmp_path: Path) -> None:
    _file(tmp_path / "in" / "day=2026-01-31" / "name=007" / "a.csv", "id\n1\n")
    _file(tmp_path / "in" / "day=__HIVE_DEFAULT_PARTITION__" / "name=008" / "a.csv", "id\n2\n")
    pipeline(spark, str(tmp_path / "in"), log)
    assert [(row["day"], row["name"]) for row in _rows(log)] == [(date(2026, 1, 31), "007"), (None, "008")]
    assert spark.conf.get("spark.sql.sources.partitionColumnTypeInference.enabled") == "true"


def test_another_table_is_a_source(
    spark: SparkSession, orders: lw.FileStoreTable, log: lw.FileStoreTable, catalog: lw.FileSystemCatalog
) -> None:
    lw.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), orders)
    assert pipeline(spark, "d.orders", "d.log", catalog=catalog, columns=["id", "name"]).rows == 2
    assert [row["name"] for row in _rows(log)] == ["a", "b"]


def test_overwrite_and_delete(
    spark: SparkSession, log: lw.FileStoreTable, orders: lw.FileStoreTable, tmp_path: Path
) -> None:
    days = pa.array([date(2026, 1, 30), date(2026, 1, 31)])
    for table in (log, orders):
        lw.write_table(pa.table({"id": [1, 2], "day": days}), table)
    path = _file(tmp_path / "a.csv", "id\n2\n")
    result = pipeline(spark, path, log, mode="overwrite", partitions={"day": "2026-01-30"})
    assert "filled   day: with '2026-01-30' for every row" in _changes(result)
    assert [(row["id"], row["day"]) for row in lw.read_table(log).sort_by("day").to_pylist()] == [
        (2, date(2026, 1, 30)),
        (2, date(2026, 1, 31)),
    ]
    assert pipeline(spark, path, orders, mode="delete").rows == 1
    assert [row["id"] for row in _rows(orders)] == [1]
    with pytest.raises(lw.InvalidInputError, match="'name' is no partition column"):
        pipeline(spark, path, log, partitions={"name": "x"})
    with pytest.raises(lw.InvalidInputError, match="yesterday"):
        pipeline(spark, path, log, partitions={"day": "yesterday"})


# ---- new tables, dry runs, job ids -----------------------------------------------------------------------------------


def test_a_table_is_made_from_what_the_source_shows(
    spark: SparkSession, catalog: lw.FileSystemCatalog, tmp_path: Path
) -> None:
    path = _file(tmp_path / "a.csv", "ID,price,when\n1,1.5,2026-01-31\n2,2,2026-02-01\n")

    def run(**more: object) -> IngestResult:
        wanted: dict[str, object] = {
            "create": True,
            "primary_key": ["id"],
            "options": {"bucket": "2"},
            "types": {"price": "DECIMAL(8, 2)"},
            "renames": {"ID": "id"},
        }
        return pipeline(spark, path, "new.orders", catalog=catalog, **(wanted | more))  # type: ignore[arg-type]

    dry = run(dry_run=True)
    assert (dry.snapshot_id, dry.plan.creates) == (None, True)
    assert dict(dry.plan.columns) == {"id": "INT NOT NULL", "price": "DECIMAL(8, 2)", "when": "DATE"}
    assert catalog.list_databases() == ["d"]
    assert dry.plan.lines()[-4:] == [
        "  id     INT NOT NULL",
        "  price  DECIMAL(8, 2)",
        "  when   DATE",
        "rows would be written as blocks to 1 task, by bucket",
    ]

    assert run().rows == 2
    table = catalog.get_table("new.orders")
    assert (table.primary_keys, table.options.bucket()) == (["id"], 2)
    assert lw.read_table(table, filter="id = 1").to_pylist() == [
        {"id": 1, "price": Decimal("1.50"), "when": date(2026, 1, 31)}
    ]
    assert run(types=None).snapshot_id == 2  # it is there, and it is what was asked for
    for more, message in (
        ({"primary_key": ["price"]}, "its primary key is"),
        ({"options": {"bucket": "3"}}, "its option 'bucket' is '2'"),
        ({"partition_by": ["when"]}, "its partition is"),
    ):
        with pytest.raises(lw.InvalidInputError, match=message):
            run(**more)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"primary_key": ["nix"]}, "nix"),
        ({"types": {"nix": "INT"}}, "there is no column 'nix' to give a type"),
        ({"types": {"id": "BIGGER"}}, "BIGGER"),
        ({"mode": "upsert"}, "has no primary key"),
        ({"schema_mode": "nix"}, "schema_mode 'nix'"),
    ],
)
def test_a_table_that_cannot_be_is_refused(
    spark: SparkSession, catalog: lw.FileSystemCatalog, more: dict[str, object], message: str
) -> None:
    frame = spark.createDataFrame([(1,)], "id int")
    with pytest.raises(lw.LakewrightError, match=message):
        pipeline(spark, frame, "d.new", catalog=catalog, create=True, **more)  # type: ignore[arg-type]
    assert catalog.list_tables("d") == []


def test_a_table_that_is_not_there_is_named(spark: SparkSession, catalog: lw.FileSystemCatalog) -> None:
    with pytest.raises(lw.NotFoundError, match=r"there is no table d.nix .*create"):
        pipeline(spark, spark.range(1), "d.nix", catalog=catalog)
    with pytest.raises(lw.InvalidInputError, match="cannot be made"):
        pipeline(spark, spark.range(1), f"{catalog.warehouse}/nix", create=True)


def test_a_table_can_be_made_by_its_path(spark: SparkSession, catalog: lw.FileSystemCatalog) -> None:
    assert pipeline(spark, spark.range(2), f"{catalog.warehouse}/e.db/t", create=True).rows == 2
    assert lw.read_table(catalog.get_table("e.t")).num_rows == 2


def test_a_job_is_committed_once_even_when_its_source_is_gone(
    spark: SparkSession, orders: lw.FileStoreTable, tmp_path: Path
) -> None:
    path = _file(tmp_path / "a.csv", "id\n1\n")
    first = pipeline(spark, path, orders, job_id="monday")
    Path(path).unlink()
    again = pipeline(spark, path, orders, job_id="monday")
    assert (first.replayed, again.replayed, again.snapshot_id) == (False, True, first.snapshot_id)
    with pytest.raises(lw.InvalidInputError, match="there is no file"):
        pipeline(spark, path, orders, job_id="tuesday")


def test_types_that_never_fit_are_refused_before_the_write(
    spark: SparkSession, orders: lw.FileStoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakewright.spark.ingest.write_table", _never)
    with pytest.raises(lw.InvalidInputError, match="'id' is BIGINT"):
        pipeline(spark, spark.createDataFrame([("x",)], "id string"), orders)
    with pytest.raises(lw.UnsupportedError, match="has no primary key"):
        pipeline(spark, spark.range(1), lw.open_table(_append_table(orders)), mode="upsert")


def _append_table(beside: lw.FileStoreTable) -> str:
    warehouse = Path(beside.table_path).parent.parent
    catalog = lw.CatalogFactory.create({"warehouse": str(warehouse)})
    catalog.create_table("d.plain", lw.Schema([lw.DataField(0, "id", lw.AtomicType("BIGINT"))]))
    return catalog.get_table("d.plain").table_path


def _never(*_: object, **__: object) -> Callable[[], None]:
    pytest.fail("the write was started")
