"""`lakewright sql`: statements and scripts, formats of results, exit codes, errors."""

from __future__ import annotations

import io
import json
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakewright as lw
from lakewright import variant
from lakewright.cli.cli_results import csv_lines, json_rows, render_table
from lakewright.cli.main import main
from lakewright.cli.sql_command import argument, engine_message, rows_of
from lakewright.spark import frame_operations
from support.fake_statements import FakeContext

ROWS = pa.table(
    {
        "id": pa.array([1, 2, None], pa.int64()),
        "price": pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(10, 2)),
        "name": ['a, "b"', "", None],
    }
)


class Place:
    """A warehouse with a table, and the context that the command made."""

    def __init__(self, warehouse: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.warehouse = warehouse
        self.context: FakeContext | None = None
        self.answers: dict[str, pa.Table] = {"SELECT 1": pa.table({"one": [1]}), "SELECT rows": ROWS}
        monkeypatch.setattr("lakewright.statements.embedded.embedded_context.SQLContext", self._made)

    def _made(self, catalog: lw.Catalog, database: str) -> FakeContext:
        self.context = FakeContext(catalog, database)
        self.context.answers.update(self.answers)
        return self.context

    def run(self, *words: str) -> int:
        """Run the command, and return its exit code."""
        return main(["sql", "-w", self.warehouse, *words])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path / "w")})
    catalog.create_database("d")
    catalog.create_table("d.t", pa.schema({"id": pa.int64(), "name": pa.string()}))
    return Place(str(tmp_path / "w"), monkeypatch)


# ---- what runs -------------------------------------------------------------------------------------------------------


def test_statements_show_their_rows(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.run("SELECT rows; SELECT 1;", "--database", "d") == 0
    lines = ["  id  price  name", '   1   1.50  a, "b"', "   2   NULL", "NULL  -2.25  NULL", "one", "  1"]
    assert capsys.readouterr().out.splitlines() == lines
    assert place.context is not None
    assert place.context.database == "d"


def test_scripts_come_from_files_and_stdin(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = tmp_path / "one.sql", tmp_path / "two.sql"
    one.write_text("SELECT 1;\n-- a comment\nSELECT 1")
    two.write_text("SELECT rows")
    assert place.run("-f", str(one), "--file", str(two), "--format", "csv") == 0
    assert capsys.readouterr().out.startswith("id,price,name\r\n")
    assert place.context is not None
    assert [text for text, _ in place.context.asked] == ["SELECT 1", "SELECT 1", "SELECT rows"]
    for words in ((), ("-f", "-")):
        monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 1;"))
        assert place.run(*words) == 0
        assert capsys.readouterr().out == "one\n  1\n"
    assert place.run("-f", str(tmp_path / "three.sql")) == 1
    assert "three.sql cannot be read" in capsys.readouterr().err


def test_values_of_parameters(place: Place) -> None:
    assert place.run("SELECT 1", "--arg", "n=5", "--arg", "day=2026-01-31", "--arg", "to=DATE '2026-01-31'") == 0
    assert place.context is not None
    assert place.context.asked[0][1] == {"n": 5, "day": "2026-01-31", "to": date(2026, 1, 31)}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-5", -5),
        ("0", 0),
        ("1.50", Decimal("1.50")),
        ("TRUE", True),
        ("null", None),
        ("'null'", "null"),
        ("0123", "0123"),
        ("a b", "a b"),
        ("it's", "it's"),
        ("", ""),
        ("TIMESTAMP '2026-01-31 10:00:00'", datetime(2026, 1, 31, 10)),  # noqa: DTZ001 - a time without a zone
    ],
)
def test_an_argument_is_a_constant_or_a_text(text: str, value: object) -> None:
    assert argument(text) == value


# ---- errors ----------------------------------------------------------------------------------------------------------


def test_an_error_of_a_statement(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.run("SELECT 1;\nCALL sys.compct('d.t')") == 1
    said = capsys.readouterr()
    assert said.out == ""  # nothing runs if a statement cannot be read
    assert said.err.splitlines()[-2:] == ["CALL sys.compct('d.t')", "     ^"]
    assert place.run("SELECT 1; SELECT other") == 1
    said = capsys.readouterr()
    assert said.out == "one\n  1\n"
    assert said.err.startswith("lakewright: statement 2 of 2, on line 1: no answer (line 1, column 11)\n")


@pytest.mark.parametrize(
    "words",
    [
        ("SELECT 1", "-f", "x.sql"),
        ("SELECT 1", "--format", "xml"),
        ("SELECT 1", "--limit", "-1"),
        ("SELECT 1", "--arg", "x"),
        ("SELECT 1", "--remote", "sc://x"),
        ("SELECT 1", "--output", "/nowhere/at/all.csv"),
    ],
)
def test_wrong_arguments(place: Place, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        place.run(*words)
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith("(see lakewright sql --help)\n")
    assert place.context is None


def test_without_the_packages(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "lakewright.statements.embedded.embedded_context", None)
    assert place.run("SELECT 1") == 1
    assert "pip install 'lakewright[sql]'" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "lakewright.spark.spark_sql_context", None)
    assert place.run("SELECT 1", "--engine", "spark") == 1
    assert "pip install 'lakewright[spark,sql]'" in capsys.readouterr().err


def test_errors_of_engines_are_short() -> None:
    text = "[UNRESOLVED] no column `x`; line 1 pos 7;\n'Project ['x]\n+- Relation"
    assert engine_message(ValueError(text)) == "[UNRESOLVED] no column `x`; line 1 pos 7"
    assert engine_message(ValueError("a\n\nJVM stacktrace:\nb")) == "a"
    assert engine_message(ValueError()) == "ValueError"


# ---- formats ---------------------------------------------------------------------------------------------------------


def test_the_last_result_is_the_one_of_a_script(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.run("SELECT 1; SELECT rows", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [
        {"id": 1, "price": "1.50", "name": 'a, "b"'},
        {"id": 2, "price": None, "name": ""},
        {"id": None, "price": "-2.25", "name": None},
    ]
    assert place.run("SELECT 1; SELECT rows", "--format", "jsonl", "--limit", "1") == 0
    assert capsys.readouterr().out == '{"id": 1, "price": "1.50", "name": "a, \\"b\\""}\n'
    assert place.run("SELECT 1; CLEAR CACHE", "--format", "json") == 0
    assert capsys.readouterr().out == "[]\n"


def test_csv_is_exact() -> None:
    assert "".join(csv_lines(ROWS)) == 'id,price,name\r\n1,1.50,"a, ""b"""\r\n2,,""\r\n,-2.25,\r\n'
    assert list(csv_lines(pa.table({}))) == []
    values = pa.table({"a,b": ["x\r\ny"], "f": [1e20], "b": [True], "l": [[1, None]], "d": [date(2026, 1, 31)]})
    assert list(csv_lines(values))[1] == '"x\r\ny",1e+20,true,"[1, null]",2026-01-31\r\n'


def test_values_in_json() -> None:
    nano = pa.array([1_500_000_001], pa.timestamp("ns"))
    zoned = pa.array([datetime(2026, 1, 31, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    maps = pa.array([[("k", Decimal("1.0"))]], pa.map_(pa.string(), pa.decimal128(3, 1)))
    structs = pa.array([{"x": b"\xff", "y": float("-inf")}])
    variants = variant.from_json(['{"a":[1.5,null]}'])
    (row,) = json_rows(pa.table({"n": nano, "z": zoned, "m": maps, "s": structs, "v": variants}))
    assert row == {
        "n": "1970-01-01 00:00:01.500000001",
        "z": "2026-01-31 00:00:00+00:00",
        "m": {"k": "1.0"},
        "s": {"x": "ff", "y": "-Infinity"},
        "v": {"a": [1.5, None]},
    }


@pytest.mark.parametrize("form", ["parquet", "arrow", "csv"])
def test_a_result_in_a_file(place: Place, tmp_path: Path, form: str) -> None:
    path = tmp_path / f"result.{form}"
    assert place.run("SELECT rows", "--output", str(path)) == 0  # its name says the format
    match form:
        case "parquet":
            assert pq.read_table(path).equals(ROWS)
        case "arrow":
            assert pa.ipc.open_file(path).read_all().equals(ROWS)
        case _:
            assert path.read_bytes() == "".join(csv_lines(ROWS)).encode()
    before = path.read_bytes()
    assert place.run("SELECT other", "--format", form, "--output", str(path)) == 1
    assert path.read_bytes() == before
    assert place.run("SELECT 1", "--format", "table", "--output", str(path)) == 0
    assert path.read_text() == "one\n  1\n"


def test_two_columns_of_one_name(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.answers["SELECT two"] = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    assert place.run("SELECT two", "--json") == 1
    assert "two columns 'a', which json cannot hold" in capsys.readouterr().err
    assert place.run("SELECT two", "--format", "csv") == 0
    assert capsys.readouterr().out == "a,a\r\n1,2\r\n"


# ---- for people ------------------------------------------------------------------------------------------------------


def test_rows_beyond_the_limit_are_counted(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.answers["SELECT many"] = pa.table({"n": range(1200)})
    assert place.run("SELECT many") == 0
    said = capsys.readouterr()
    assert (len(said.out.splitlines()), said.err) == (1001, "... 200 more rows\n")
    assert place.run("SELECT many", "--limit", "3", "-q") == 0
    assert capsys.readouterr().err == ""
    assert render_table(ROWS, is_cut=True).left_out == ["... more rows"]


def test_a_wide_table_is_cut_to_a_width() -> None:
    wide = pa.table({f"column_{n}": ["x" * 30] for n in range(6)})
    found = render_table(wide, width=40)
    assert all(len(line) <= 40 for line in found.lines)
    assert found.lines[1].count("…") == 4
    assert found.left_out == ["... 2 more columns: column_4, column_5"]
    two = render_table(pa.table({"id": [1], "text": ["y" * 100]}), width=30)
    assert two.lines[1] == f" 1  {'y' * 25}…"
    assert render_table(pa.table({"a": ["漢字漢字"]}), width=5).lines[1] == "漢字…"


def test_control_characters_are_not_shown() -> None:
    assert render_table(pa.table({"a": ["x\n\x1b[31mred\u202e"]})).lines[1] == r"x\n\x1b[31mred\u202e"


class Frame:
    """A frame of an engine: rows that are fetched when asked for."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def limit(self, rows: int) -> Frame:
        return Frame(self.table.slice(0, rows))


def test_of_a_frame_no_more_rows_are_fetched_than_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_operations, "to_arrow", lambda frame: frame.table)
    table, is_cut = rows_of(Frame(ROWS), 2)
    assert (table.num_rows, is_cut) == (2, True)
    assert rows_of(Frame(ROWS), 3) == (ROWS, False)
    assert rows_of(Frame(ROWS)) == (ROWS, False)
