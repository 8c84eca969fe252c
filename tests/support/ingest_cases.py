"""What an ingest must do on every engine: the same rows, the same changes of columns, the same errors."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import lakewright as lw
from lakewright.ingestion.ingest_plan import IngestResult

FIELDS = [
    lw.DataField(0, "id", lw.AtomicType("BIGINT", nullable=False)),
    lw.DataField(1, "name", lw.AtomicType("STRING")),
    lw.DataField(2, "price", lw.AtomicType("DECIMAL(10, 2)")),
    lw.DataField(3, "day", lw.AtomicType("DATE")),
]


class Load(Protocol):
    """An ingest on one of the engines."""

    def __call__(self, source: object, table: object, **more: object) -> IngestResult:
        """Take sources into a table."""


def write_file(path: Path, text: str) -> str:
    """Write a file and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def rows_of(table: lw.FileStoreTable) -> list[dict[str, object]]:
    """Return the rows of a table in the order of their ids."""
    return sorted(lw.read_table(table).to_pylist(), key=lambda row: row["id"])


def changes_of(result: IngestResult) -> list[str]:
    """Return what an ingest changed in the columns of its sources."""
    return [str(change) for source in result.plan.sources for change in source.changes]


def types_of(table: lw.FileStoreTable) -> dict[str, str]:
    """Return the types of the columns of a table."""
    return {f.name: str(f.type) for f in table.fields}


WRONG: list[tuple[dict[str, str], str]] = [
    ({"a.csv": "id,price\n1,cheap\n"}, r"a.csv.*'price' cannot take 'cheap' as DECIMAL\(10, 2\): .*not a number"),
    ({"a.csv": "id,price\n1\n"}, r"a.csv.* fields"),
    ({"a.csv": "id,price\n,1\n"}, r"a.csv.*'id' cannot take None.*NOT NULL"),
    ({"a.csv": "id,price\n1,1.005\n"}, "'price' cannot take '1.005'.*digits would be lost"),
    ({"a.csv": "id,day\n1,2026-02-30\n"}, "'day' cannot take '2026-02-30'"),
    ({"a.csv": "id\n9223372036854775808\n"}, "'id' cannot take '9223372036854775808'.*out of range"),
    ({"a.jsonl": '{"id": 1, "price": 1.234}\n'}, "'price' cannot take '1.234'.*digits would be lost"),
    ({"a.jsonl": '{"id": "x"}\n'}, "a.jsonl.*'id' cannot take 'x'"),
    ({"a.jsonl": '{"id": 1}\n{"id": 2\n'}, "a.jsonl"),
    ({"a.csv": ""}, "has no header line"),
    ({"a.csv": "id,id\n1,2\n"}, "two columns named 'id'"),
]


def check_wrong_records(
    load: Load, orders: lw.FileStoreTable, tmp_path: Path, files: dict[str, str], message: str
) -> None:
    """Check that records which do not fit are one error in one line, and that nothing is committed."""
    for name, text in files.items():
        write_file(tmp_path / "in" / name, text)
    with pytest.raises(lw.InvalidInputError, match=f"(?s){message}") as caught:
        load(str(tmp_path / "in"), orders)
    assert "\n" not in str(caught.value)
    assert orders.snapshot() is None
    assert list(Path(orders.table_path).rglob("*.parquet")) == []


class _Tables:
    """The tables that rows are ingested into."""

    @pytest.fixture
    def catalog(self, tmp_path: Path) -> lw.Catalog:
        made = lw.CatalogFactory.create({"warehouse": str(tmp_path / "warehouse")})
        made.create_database("d")
        return made

    @pytest.fixture
    def orders(self, catalog: lw.Catalog) -> lw.FileStoreTable:
        """Make a table with a primary key."""
        catalog.create_table("d.orders", lw.Schema(FIELDS, primary_keys=["id"], options={"bucket": "1"}))
        return catalog.get_table("d.orders")

    @pytest.fixture
    def log(self, catalog: lw.Catalog) -> lw.FileStoreTable:
        """Make a partitioned append table."""
        catalog.create_table("d.log", lw.Schema(FIELDS, partition_keys=["day"]))
        return catalog.get_table("d.log")


class IngestCases(_Tables):
    """The cases that every engine runs at every push. Fixture: `load`, a `Load`."""

    def test_csv_is_read_with_the_types_of_the_table(
        self, load: Load, orders: lw.FileStoreTable, tmp_path: Path
    ) -> None:
        path = write_file(
            tmp_path / "o.csv", 'ID,name,price,extra\n1,"say ""hi"", you",1.5,x\n2,,,y\n9007199254740993,Ünï,-0.01,z\n'
        )
        said: list[str] = []
        result = load(path, orders, ignore_extra=True, say=said.append)
        assert (result.snapshot_id, result.rows, result.dry_run, result.replayed) == (1, 3, False, False)
        assert rows_of(orders) == [
            {"id": 1, "name": 'say "hi", you', "price": Decimal("1.50"), "day": None},
            {"id": 2, "name": None, "price": None, "day": None},
            {"id": 9007199254740993, "name": "Ünï", "price": Decimal("-0.01"), "day": None},
        ]
        assert changes_of(result) == [
            "renamed  id: was 'ID'",
            "ignored  extra: the table has no such column",
            "filled   day: with null",
        ]
        assert said[0].startswith("append to d.orders")
        assert [line.strip() for line in said[2:]] == changes_of(result)

    def test_json_lines_and_documents_are_read_with_the_types_of_the_table(
        self, load: Load, catalog: lw.Catalog, tmp_path: Path
    ) -> None:
        inside = lw.RowType(True, [lw.DataField(5, "zip", lw.AtomicType("INT"))])  # noqa: FBT003
        catalog.create_table("d.j", lw.Schema([*FIELDS, lw.DataField(4, "place", inside)]))
        table = catalog.get_table("d.j")
        lines = write_file(
            tmp_path / "a.jsonl", '{"id": 1, "price": 1.5, "day": "2026-01-31", "place": {"zip": 7}}\n{"id": 2}\n'
        )
        document = write_file(tmp_path / "b.json", '[\n {"id": 3,\n  "name": "x"}]\n')
        assert load([lines, document], table).rows == 3
        assert rows_of(table)[0] == {
            "id": 1,
            "name": None,
            "price": Decimal("1.50"),
            "day": date(2026, 1, 31),
            "place": {"zip": 7},
        }
        hidden = write_file(tmp_path / "c.jsonl", '{"id": 1, "place": {"zip": 7, "city": "x"}}\n')
        with pytest.raises(lw.InvalidInputError, match=r"the field 'place\.city'"):
            load(hidden, table)

    def test_several_sources_of_several_formats_are_one_commit(
        self, load: Load, orders: lw.FileStoreTable, tmp_path: Path
    ) -> None:
        pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "name": ["p"]}), tmp_path / "a.parquet")
        orc.write_table(pa.table({"id": pa.array([2], pa.int64()), "name": ["o"]}), tmp_path / "b.orc")
        write_file(tmp_path / "c.tsv", "id\tname\n3\tt\n")
        sources = [str(tmp_path / name) for name in ("a.parquet", "b.orc", "c.tsv")]
        result = load(sources, orders, mode="upsert")
        assert (result.snapshot_id, result.rows) == (1, 3)
        assert [row["name"] for row in rows_of(orders)] == ["p", "o", "t"]
        assert "widened  id: INT to BIGINT" in changes_of(result)

    def test_parquet_files_with_other_columns_hide_nothing(
        self, load: Load, orders: lw.FileStoreTable, tmp_path: Path
    ) -> None:
        pq.write_table(pa.table({"id": [1], "name": ["a"]}), tmp_path / "1.parquet")
        pq.write_table(pa.table({"id": [2], "colour": ["red"]}), tmp_path / "2.parquet")
        with pytest.raises(lw.InvalidInputError, match="'colour'"):
            load(str(tmp_path / "*.parquet"), orders)
        result = load(str(tmp_path / "*.parquet"), orders, schema_mode="merge")
        assert "added    colour: new column of the table, STRING" in changes_of(result)
        merged = lw.open_table(orders.table_path)
        assert [row["colour"] for row in rows_of(merged)] == [None, "red"]

    def test_names_of_directories_are_values(self, load: Load, log: lw.FileStoreTable, tmp_path: Path) -> None:
        write_file(tmp_path / "in" / "day=2026-01-31" / "name=007" / "a.csv", "id\n1\n")
        write_file(tmp_path / "in" / "day=__HIVE_DEFAULT_PARTITION__" / "name=008" / "a.csv", "id\n2\n")
        load(str(tmp_path / "in"), log)
        assert [(row["day"], row["name"]) for row in rows_of(log)] == [(date(2026, 1, 31), "007"), (None, "008")]

    def test_overwrite_and_delete(
        self, load: Load, log: lw.FileStoreTable, orders: lw.FileStoreTable, tmp_path: Path
    ) -> None:
        days = pa.array([date(2026, 1, 30), date(2026, 1, 31)])
        for table in (log, orders):
            lw.write_table(pa.table({"id": [1, 2], "day": days}), table)
        path = write_file(tmp_path / "a.csv", "id\n2\n")
        result = load(path, log, mode="overwrite", partitions={"day": "2026-01-30"})
        assert "filled   day: with '2026-01-30' for every row" in changes_of(result)
        assert [(row["id"], row["day"]) for row in lw.read_table(log).sort_by("day").to_pylist()] == [
            (2, date(2026, 1, 30)),
            (2, date(2026, 1, 31)),
        ]
        assert load(path, orders, mode="delete").rows == 1
        assert [row["id"] for row in rows_of(orders)] == [1]
        with pytest.raises(lw.InvalidInputError, match="'name' is no partition column"):
            load(path, log, partitions={"name": "x"})
        with pytest.raises(lw.InvalidInputError, match="yesterday"):
            load(path, log, partitions={"day": "yesterday"})

    def test_a_table_is_made_from_what_the_source_shows(self, load: Load, catalog: lw.Catalog, tmp_path: Path) -> None:
        path = write_file(tmp_path / "a.csv", "ID,price,when\n1,1.5,2026-01-31\n2,2,2026-02-01\n")

        def run(**more: object) -> IngestResult:
            wanted: dict[str, object] = {
                "create": True,
                "primary_keys": ["id"],
                "options": {"bucket": "2"},
                "types": {"price": "DECIMAL(8, 2)"},
                "renames": {"ID": "id"},
            }
            return load(path, "new.orders", catalog=catalog, **(wanted | more))

        dry = run(dry_run=True)
        assert (dry.snapshot_id, dry.plan.creates) == (None, True)
        assert dict(dry.plan.columns) == {"id": "BIGINT NOT NULL", "price": "DECIMAL(8, 2)", "when": "DATE"}
        assert catalog.list_databases() == ["d"]
        assert dry.plan.lines()[-4:-1] == ["  id     BIGINT NOT NULL", "  price  DECIMAL(8, 2)", "  when   DATE"]
        assert dry.plan.lines()[-1].startswith("rows would be written")

        assert run().rows == 2
        table = catalog.get_table("new.orders")
        assert (table.primary_keys, table.options.bucket()) == (["id"], 2)
        assert lw.read_table(table, filter="id = 1").to_pylist() == [
            {"id": 1, "price": Decimal("1.50"), "when": date(2026, 1, 31)}
        ]
        assert run(types=None).snapshot_id == 2  # it is there, and it is what was asked for
        for more, message in (
            ({"primary_keys": ["price"]}, "its primary key is"),
            ({"options": {"bucket": "3"}}, "its option 'bucket' is '2'"),
            ({"partition_keys": ["when"]}, "its partition is"),
        ):
            with pytest.raises(lw.InvalidInputError, match=message):
                run(**more)

    def test_a_job_is_committed_once_even_when_its_source_is_gone(
        self, load: Load, orders: lw.FileStoreTable, tmp_path: Path
    ) -> None:
        path = write_file(tmp_path / "a.csv", "id\n1\n")
        first = load(path, orders, job_id="monday")
        Path(path).unlink()
        again = load(path, orders, job_id="monday")
        assert (first.replayed, again.replayed, again.snapshot_id) == (False, True, first.snapshot_id)
        with pytest.raises(lw.InvalidInputError, match="there is no file"):
            load(path, orders, job_id="tuesday")

    def test_bad_rows_are_set_aside(self, load: Load, orders: lw.FileStoreTable, tmp_path: Path) -> None:
        good = "1,one,1.00,2026-01-01\n"
        bad = ["x,a,1.00,2026-01-01", "2,b,much,2026-01-01", "3,c", ",d,1.00,", "4,e,1.005,2026-01-01"]
        lines = ["id,name,price,day", good.strip(), *bad, '9,"two', 'lines",2.00,', "5,f,1.00,2026-13-01"]
        path = write_file(tmp_path / "a.csv", "\n".join(lines) + "\n")
        result = load(path, orders, bad_rows=str(tmp_path / "bad"))
        assert (result.rows, result.bad_rows) == (2, 6)
        assert [row["id"] for row in rows_of(orders)] == [1, 9]
        assert result.bad_rows_file is not None
        rows = [json.loads(line) for line in Path(result.bad_rows_file).read_text().splitlines()]
        assert {row["file"] for row in rows} == {path}
        assert sorted(row["column"] or "" for row in rows) == ["", "day", "id", "id", "price", "price"]
        numbers = {row["line"] for row in rows}
        assert numbers in ({3, 4, 5, 6, 7, 10}, {None})  # Spark has no lines
        assert result.to_dict()["bad_rows"] == 6

    def test_a_creation_that_fails_leaves_no_table(self, load: Load, catalog: lw.Catalog, tmp_path: Path) -> None:
        path = write_file(tmp_path / "e.jsonl", '{"id": 1, "at": "2026-01-01T00:00:00Z"}\n{"id": 2, "bro\n')
        with pytest.raises(lw.InvalidInputError, match=r"e\.jsonl"):
            load(path, "new.t", catalog=catalog, create=True)
        assert catalog.list_databases() == ["d"]
        types = {"at": "TIMESTAMP(6) WITH LOCAL TIME ZONE"}
        result = load(path, "new.t", catalog=catalog, create=True, bad_rows=str(tmp_path / "bad"), types=types)
        assert (result.rows, result.bad_rows) == (1, 1)
        assert types_of(catalog.get_table("new.t")) == {"id": "BIGINT", **types}

    def test_an_upsert_keeps_the_columns_that_the_source_lacks(
        self, load: Load, orders: lw.FileStoreTable, tmp_path: Path
    ) -> None:
        load(write_file(tmp_path / "a.csv", "id,name,price\n1,one,1.00\n"), orders)
        result = load(write_file(tmp_path / "b.csv", "id,price\n1,2.00\n2,3.00\n"), orders, mode="upsert")
        assert "kept     name: as it is; null in new rows" in changes_of(result)
        assert [(row["id"], row["name"], row["price"]) for row in rows_of(orders)] == [
            (1, "one", Decimal("2.00")),
            (2, None, Decimal("3.00")),
        ]


class MessyIngestCases(_Tables):
    """Files and texts of every kind: code that the engines share reads them."""

    has_time = True  # whether the engine has values of type TIME

    def test_another_table_is_a_source(
        self, load: Load, orders: lw.FileStoreTable, log: lw.FileStoreTable, catalog: lw.Catalog
    ) -> None:
        lw.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), orders)
        assert load("d.orders", "d.log", catalog=catalog, columns=["id", "name"]).rows == 2
        assert [row["name"] for row in rows_of(log)] == ["a", "b"]

    def test_types_are_guessed_only_where_the_text_comes_back(
        self, load: Load, catalog: lw.Catalog, tmp_path: Path
    ) -> None:
        cases = {
            "n": (["1", "-20"], "BIGINT"),
            "zero": (["00123", "7"], "STRING"),
            "plus": (["+49", "1"], "STRING"),
            "huge": (["12345678901234567890", "1"], "STRING"),
            "exp": (["1e5", "2"], "STRING"),
            "money": (["1.10", "22.00"], "DECIMAL(18, 2)"),
            "ragged": (["1.10", "2"], "STRING"),
            "real": (["1.5", "2"], "DOUBLE"),
            "fine": (["0.12345678901234567", "2"], "STRING"),
            "flag": (["true", "false"], "BOOLEAN"),
            "Flag": (["True", "False"], "STRING"),
            "day": (["2026-01-31", "2026-02-01"], "DATE"),
            "noday": (["2026-02-30", "2026-02-01"], "STRING"),
            "at": (["2026-01-31 10:00:00", "2026-02-01 11:30:00"], "TIMESTAMP(6)"),
            "instant": (["2026-01-31T10:00:00Z", "2026-02-01T11:30:00Z"], "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
            "zoned": (["2026-01-31T10:00:00+01:00", "2026-02-01T11:30:00Z"], "STRING"),
            "none": (["", ""], "STRING"),
            "some": (["", "5"], "BIGINT"),
        }
        lines = [",".join(cases), *(",".join(texts[row] for texts, _ in cases.values()) for row in (0, 1))]
        path = write_file(tmp_path / "a.csv", "\n".join(lines) + "\n")
        load(path, "d.new", catalog=catalog, create=True)
        table = catalog.get_table("d.new")
        assert types_of(table) == {name: dtype for name, (_, dtype) in cases.items()}
        rows = lw.read_table(table).to_pylist()
        assert [rows[0][name] for name in ("zero", "money", "some")] == ["00123", Decimal("1.10"), None]

    def test_a_csv_file_without_a_header_keeps_its_first_row(
        self, load: Load, catalog: lw.Catalog, tmp_path: Path
    ) -> None:
        path = write_file(tmp_path / "a.csv", "5,abc\n6,def\n")
        load(path, "d.new", catalog=catalog, create=True, header=False)
        load(path, "d.new", catalog=catalog, header=False)
        table = catalog.get_table("d.new")
        assert types_of(table) == {"c0": "BIGINT", "c1": "STRING"}
        assert sorted(lw.read_table(table)["c0"].to_pylist()) == [5, 5, 6, 6]
        with pytest.raises(lw.InvalidInputError, match="have 3 fields"):
            load(write_file(tmp_path / "b.csv", "5,abc,1\n"), "d.new", catalog=catalog, header=False)
        with pytest.warns(lw.LakewrightWarning, match="the header looks like data"):
            load(path, "d.lost", catalog=catalog, create=True)

    def test_new_columns_get_types_as_at_creation_and_as_the_caller_says(
        self, load: Load, catalog: lw.Catalog, tmp_path: Path
    ) -> None:
        load(
            write_file(tmp_path / "a.jsonl", '{"id": 1}\n'), "d.new", catalog=catalog, create=True, primary_keys=["id"]
        )
        more = write_file(tmp_path / "b.jsonl", '{"id": 2, "n": 5, "p": 1.5, "o": {"k": true}}\n{"id": 2, "p": 2}\n')
        result = load(more, "d.new", catalog=catalog, schema_mode="merge", types={"p": "DECIMAL(10, 2)"})
        assert [change for change in changes_of(result) if change.startswith("added")] == [
            "added    n: new column of the table, BIGINT",
            "added    p: new column of the table, DECIMAL(10, 2)",
            "added    o: new column of the table, ROW<`k` BOOLEAN>",
        ]
        table = catalog.get_table("d.new")
        assert types_of(table) == {
            "id": "BIGINT NOT NULL",
            "n": "BIGINT",
            "p": "DECIMAL(10, 2)",
            "o": "ROW<`k` BOOLEAN>",
        }
        assert result.duplicates == 1
        assert rows_of(table)[1] == {"id": 2, "n": None, "p": Decimal("2.00"), "o": None}
        with pytest.raises(lw.InvalidInputError, match="has the column 'p' already, as DECIMAL"):
            load(more, "d.new", catalog=catalog, schema_mode="merge", types={"p": "INT"})

    def test_messy_csv_files_are_one_source(self, load: Load, catalog: lw.Catalog, tmp_path: Path) -> None:
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "1.csv").write_bytes(b'\xef\xbb\xbfid,text\r\n1,"two\nlines"\r\n2,""\r\n3,\r\n')
        (tmp_path / "in" / "2.csv").write_text("Text,ID,more\n\u00fc,4,x\n")
        (tmp_path / "in" / "3.csv").write_text("")
        result = load(str(tmp_path / "in"), "d.new", catalog=catalog, create=True)
        assert result.rows == 4
        table = catalog.get_table("d.new")
        assert [row["text"] for row in rows_of(table)] == ["two\nlines", "", None, "\u00fc"]
        assert [row["more"] for row in rows_of(table)] == [None, None, None, "x"]

    def test_other_encodings_are_read_when_they_are_named(
        self, load: Load, catalog: lw.Catalog, tmp_path: Path
    ) -> None:
        (tmp_path / "a.csv").write_bytes("id;name\n1;M\u00fcller\n".encode("latin1"))
        options = {"sep": ";", "encoding": "ISO-8859-1"}
        load(str(tmp_path / "a.csv"), "d.new", catalog=catalog, create=True, reader_options=options)
        assert rows_of(catalog.get_table("d.new")) == [{"id": 1, "name": "M\u00fcller"}]

    def test_numbers_of_json_keep_their_digits(self, load: Load, catalog: lw.Catalog, tmp_path: Path) -> None:
        numbers = '"id": 9007199254740993, "huge": 123456789012345678901, "text": 1.10'
        record = f'{{{numbers}, "o": {{"z": [1, 2], "a": 0.5}}, "b": true}}'
        path = write_file(tmp_path / "a.jsonl", f'{record}\n{{"id": 2, "text": "x", "later": null}}\n')
        load(path, "d.new", catalog=catalog, create=True)
        table = catalog.get_table("d.new")
        assert types_of(table) == {
            "id": "BIGINT",
            "huge": "STRING",
            "text": "STRING",
            "o": "ROW<`a` DOUBLE, `z` ARRAY<BIGINT>>",
            "b": "BOOLEAN",
            "later": "STRING",
        }
        assert rows_of(table)[1] == {
            "id": 9007199254740993,
            "huge": "123456789012345678901",
            "text": "1.10",
            "o": {"a": 0.5, "z": [1, 2]},
            "b": True,
            "later": None,
        }

    def test_texts_become_values_of_every_type(self, load: Load, catalog: lw.Catalog, tmp_path: Path) -> None:
        cases: list[tuple[str, str, object]] = [
            ("INT", " 7 ", 7),
            ("TINYINT", "-128", -128),
            ("DECIMAL(10, 2)", "1.500", Decimal("1.50")),
            ("DECIMAL(10, 2)", "15E-1", Decimal("1.50")),
            ("DOUBLE", "-inf", float("-inf")),
            ("FLOAT", "0.5", 0.5),
            ("BOOLEAN", "YES", True),
            ("DATE", "2026-1-5", date(2026, 1, 5)),
            ("TIMESTAMP(6)", "2026-01-31 10:00:00.123456", datetime(2026, 1, 31, 10, 0, 0, 123456)),  # noqa: DTZ001
            ("TIMESTAMP(3)", "2026-01-31T9:00", datetime(2026, 1, 31, 9)),  # noqa: DTZ001
            (
                "TIMESTAMP(6) WITH LOCAL TIME ZONE",
                "2026-01-31T10:00:00+01:00",
                datetime(2026, 1, 31, 9, tzinfo=UTC),
            ),
            ("TIME(3)", "12:13:14.5", time(12, 13, 14, 500000)),
            ("VARCHAR(3)", "abc", "abc"),
            ("BYTES", "abc", b"abc"),
        ]
        cases = [case for case in cases if self.has_time or not case[0].startswith("TIME(")]
        fields = [lw.DataField(i, f"c{i}", lw.AtomicType(dtype)) for i, (dtype, _, _) in enumerate(cases)]
        catalog.create_table("d.all", lw.Schema(fields))
        path = write_file(tmp_path / "a.csv", ",".join(text for _, text, _ in cases) + "\n")
        load(path, "d.all", catalog=catalog, header=False)
        row = lw.read_table(catalog.get_table("d.all")).to_pylist()[0]
        assert list(row.values()) == [value for _, _, value in cases]

    def test_bad_records_of_json_and_parquet_are_set_aside(
        self, load: Load, orders: lw.FileStoreTable, tmp_path: Path
    ) -> None:
        lines = ['{"id": 1}', "{nope", '{"id": 2, "price": "much"}', '{"id": 3, "name": "x"}', '{"id": null}']
        path = write_file(tmp_path / "a.jsonl", "\n".join(lines) + "\n")
        result = load(path, orders, bad_rows=str(tmp_path / "bad"))
        assert (result.bad_rows, [row["id"] for row in rows_of(orders)]) == (3, [1, 3])
        table = pa.table({"id": [4, None, 5], "price": pa.array([Decimal("1.00"), Decimal("1.00"), Decimal("1.125")])})
        pq.write_table(table, tmp_path / "a.parquet")
        result = load(str(tmp_path / "a.parquet"), orders, bad_rows=str(tmp_path / "bad"))
        assert (result.bad_rows, [row["id"] for row in rows_of(orders)]) == (2, [1, 3, 4])

    def test_parquet_files_of_several_types_are_one_source(
        self, load: Load, catalog: lw.Catalog, tmp_path: Path
    ) -> None:
        (tmp_path / "in").mkdir()
        pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "x": ["a"]}), tmp_path / "in" / "1.parquet")
        pq.write_table(pa.table({"id": [1 << 40], "y": [1.5]}), tmp_path / "in" / "2.parquet")
        load(str(tmp_path / "in"), "d.new", catalog=catalog, create=True)
        table = catalog.get_table("d.new")
        assert types_of(table) == {"id": "BIGINT", "x": "STRING", "y": "DOUBLE"}
        assert rows_of(table) == [{"id": 1, "x": "a", "y": None}, {"id": 1 << 40, "x": None, "y": 1.5}]

    def test_sources_of_an_upsert_that_differ_in_their_columns_are_refused(
        self, load: Load, catalog: lw.Catalog, tmp_path: Path
    ) -> None:
        (tmp_path / "names.csv").write_text("id,name\n1,tea\n")
        (tmp_path / "prices.csv").write_text("id,price\n1,5.00\n")
        sources = [str(tmp_path / "names.csv"), str(tmp_path / "prices.csv")]
        with pytest.raises(lw.InvalidInputError, match="ingest them one after the other"):
            load(sources, "d.new", catalog=catalog, mode="upsert", create=True, primary_keys=["id"])
        assert catalog.list_tables("d") == []  # refused before the table was made

    def test_types_that_the_format_lacks_are_widened(self, load: Load, catalog: lw.Catalog, tmp_path: Path) -> None:
        columns = {"id": pa.array([1], pa.uint32()), "note": pa.nulls(1), "b": pa.array([b"x"], pa.large_binary())}
        (tmp_path / "in").mkdir()
        pq.write_table(pa.table(columns), tmp_path / "in" / "1.parquet")
        pq.write_table(pa.table({**columns, "note": [5]}), tmp_path / "in" / "2.parquet")
        load(str(tmp_path / "in"), "d.new", catalog=catalog, create=True)
        table = catalog.get_table("d.new")
        assert types_of(table) == {"id": "BIGINT", "note": "BIGINT", "b": "BYTES"}
        load(str(tmp_path / "in" / "1.parquet"), "d.new", catalog=catalog, schema_mode="merge")
        assert sorted(lw.read_table(table)["note"].to_pylist(), key=str) == [5, None, None]
        load(str(tmp_path / "in" / "1.parquet"), "d.alone", catalog=catalog, create=True)
        assert types_of(catalog.get_table("d.alone"))["note"] == "STRING"

    def test_fields_inside_columns_are_added_where_the_call_asks_for_it(
        self, load: Load, catalog: lw.Catalog, tmp_path: Path
    ) -> None:
        first = write_file(tmp_path / "a.jsonl", '{"id": 1, "user": {"name": "a"}, "parts": [{"n": 1}]}\n')
        load(first, "d.new", catalog=catalog, create=True)
        text = '{"id": 2, "user": {"name": "b", "email": "e"}, "parts": [{"n": 2, "unit": {"si": true}}]}\n'
        more = write_file(tmp_path / "b.jsonl", text)
        with pytest.raises(
            lw.InvalidInputError, match=r"'user\.email'.*ALTER TABLE d\.new ADD COLUMN user\.email STRING"
        ):
            load(more, "d.new", catalog=catalog)
        result = load(more, "d.new", catalog=catalog, schema_mode="merge")
        assert [change for change in changes_of(result) if change.startswith("added")] == [
            "added    user.email: new field of the column, STRING",
            "added    parts.element.unit: new field of the column, ROW<`si` BOOLEAN>",
        ]
        assert result.plan.columns["user"] == "ROW<`name` STRING, `email` STRING>"
        assert rows_of(catalog.get_table("d.new")) == [
            {"id": 1, "user": {"name": "a", "email": None}, "parts": [{"n": 1, "unit": None}]},
            {"id": 2, "user": {"name": "b", "email": "e"}, "parts": [{"n": 2, "unit": {"si": True}}]},
        ]
        columns = {"id": [3], "user": [{"name": "c", "age": 5}]}
        pq.write_table(pa.table(columns), tmp_path / "c.parquet")
        load(str(tmp_path / "c.parquet"), "d.new", catalog=catalog, schema_mode="merge")
        assert rows_of(catalog.get_table("d.new"))[2]["user"] == {"name": "c", "email": None, "age": 5}

    def test_the_report_says_which_side_is_widened(self, load: Load, catalog: lw.Catalog, tmp_path: Path) -> None:
        pq.write_table(pa.table({"id": pa.array([1], pa.int32())}), tmp_path / "1.parquet")
        pq.write_table(pa.table({"id": pa.array([1], pa.int64())}), tmp_path / "2.parquet")
        load(str(tmp_path / "1.parquet"), "d.new", catalog=catalog, create=True)
        narrow = load(str(tmp_path / "2.parquet"), "d.new", catalog=catalog)
        assert changes_of(narrow) == ["narrowed id: BIGINT to INT; a value that does not fit is an error"]
        wide = load(str(tmp_path / "2.parquet"), "d.new", catalog=catalog, schema_mode="merge")
        assert changes_of(wide) == ["widened  id: INT to BIGINT, in the table"]
        assert dict(wide.plan.columns) == types_of(catalog.get_table("d.new")) == {"id": "BIGINT"}

    def test_records_with_other_fields_decide_no_type(self, load: Load, catalog: lw.Catalog, tmp_path: Path) -> None:
        for name, bad in (("short", "only,two"), ("long", "a,b,c,d")):
            path = write_file(tmp_path / f"{name}.csv", f"id,name,n\n1,x,2\n2,y,3\n{bad}\n")
            result = load(path, f"d.{name}", catalog=catalog, create=True, bad_rows=str(tmp_path / "bad"))
            assert (result.rows, result.bad_rows) == (2, 1)
            assert types_of(catalog.get_table(f"d.{name}")) == {"id": "BIGINT", "name": "STRING", "n": "BIGINT"}
        lines = write_file(tmp_path / "a.jsonl", '{"id": 1, "n": 2}\n{"id": "x", "n"\n')
        load(lines, "d.lines", catalog=catalog, create=True, bad_rows=str(tmp_path / "bad"))
        assert types_of(catalog.get_table("d.lines")) == {"id": "BIGINT", "n": "BIGINT"}

    def test_new_columns_hold_the_decimals_and_times_of_all_files(
        self, load: Load, catalog: lw.Catalog, tmp_path: Path
    ) -> None:
        (tmp_path / "in").mkdir()
        for at, (dtype, unit) in enumerate(((pa.decimal128(8, 2), "ms"), (pa.decimal128(12, 4), "us"))):
            moment = pa.array([datetime(2026, 1, 1)], pa.timestamp(unit))  # noqa: DTZ001 - without a zone
            rows = pa.table({"id": [at], "v": pa.array([Decimal("1.25")], dtype), "at": moment})
            pq.write_table(rows, tmp_path / "in" / f"{at}.parquet")
        load(str(tmp_path / "in"), "d.new", catalog=catalog, create=True)
        table = catalog.get_table("d.new")
        assert types_of(table) == {"id": "BIGINT", "v": "DECIMAL(12, 4)", "at": "TIMESTAMP(6)"}
        assert [row["v"] for row in rows_of(table)] == [Decimal("1.2500")] * 2

    def test_a_separator_that_was_not_named_is_noticed(self, load: Load, catalog: lw.Catalog, tmp_path: Path) -> None:
        with pytest.warns(lw.LakewrightWarning, match=r"one column, 'id;name'; if ';' separates the fields"):
            load(write_file(tmp_path / "a.csv", "id;name\n1;x\n"), "d.a", catalog=catalog, create=True)
        path = write_file(tmp_path / "b.csv", "id\tname\n1\tx\n")
        with pytest.raises(lw.InvalidInputError, match=r"b\.csv.*'id\\tname', with tabs.*'sep': '\\t'"):
            load(path, "d.b", catalog=catalog, create=True)
        load(path, "d.b", catalog=catalog, create=True, reader_options={"sep": "\\t"})
        assert types_of(catalog.get_table("d.b")) == {"id": "BIGINT", "name": "STRING"}

    def test_a_header_that_repeats_a_name_is_an_error(self, load: Load, catalog: lw.Catalog, tmp_path: Path) -> None:
        path = write_file(tmp_path / "dup.csv", "id,id\n1,2\n")
        with pytest.raises(lw.InvalidInputError, match=r"dup\.csv.*two columns named 'id'.*--no-header"):
            load(path, "d.new", catalog=catalog, create=True)
        load(path, "d.new", catalog=catalog, create=True, header=False, types={"c0": "STRING", "c1": "STRING"})
