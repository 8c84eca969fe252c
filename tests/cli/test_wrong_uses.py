"""Wrong uses of the command line: each is told in one line with what helps, and changes nothing."""

from __future__ import annotations

import hashlib
import io
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pytest

import lakewright as lw
from support.command_tables import code_of, command_warehouse
from support.warm_processes import LOADED

Call: TypeAlias = "Callable[[lw.FileStoreTable, lw.Catalog], object]"
_ROWS = pa.table({"id": [1], "n": pa.array([1], pa.int32())})
# The words behind `lakewright`, the exit code, and a part of what is said.
CASES: dict[str, tuple[str, int, str]] = {
    # Commands and options.
    "a command that is none": ("raed d.t", 2, "did you mean 'read'?"),
    "a word of a group that is none": ("table creat d.new", 2, "there is no command 'creat'; did you mean 'create'?"),
    "a group alone": ("table", 2, "needs one of list, create, describe"),
    "an option that is none": ("read d.t --limt 3", 2, "--limit"),
    "no table": ("read", 2, "missing argument 'TABLE' (see lakewright read --help)"),
    "two tables": ("describe d.t d.empty", 2, "unexpected extra argument (d.empty)"),
    "a number that is none": ("read d.t --limit many", 2, "'many' is not a number of rows"),
    "a negative number": ("read d.t --limit -3", 2, "'-3' is not a number of rows"),
    "a snapshot that is no number": ("read d.t --snapshot newest", 2, "'newest' is not a valid integer"),
    "a format that is none": ("read d.t --format xml", 2, "'xml' is not one of 'table', 'csv'"),
    "options that exclude each other": ("read d.t --snapshot 1 --tag v1", 2, "--snapshot and --tag exclude each other"),
    "a fast and full check": ("verify d.t --fast --full", 2, "--fast and --full exclude each other"),
    "an option without =": ("table create d.new --column 'a INT' --option bucket", 2, "'bucket' is not key=value"),
    "a list with a hole": ("read d.t --select id,,n", 2, "is not a list of names such as a,b"),
    "no action of a consumer": ("consumer d.t rest", 2, "'rest' is not one of 'list', 'reset', 'clear'"),
    # Where.
    "a catalog without a name": ("read d.t --catalog prod", 1, "add [catalogs.prod] there, or give --warehouse"),
    "a catalog in front of a table": ("read prod.d.t", 1, "there is no catalog 'prod'"),
    "a warehouse that is not there": ("tables -w nowhere", 1, "check the path (--warehouse or $LAKEWRIGHT_WAREHOUSE)"),
    "a table that is not there": ("read d.nix", 1, "table d.nix does not exist"),
    "a database that is not there": ("table list nix", 1, "database nix does not exist"),
    "a name with a dot": ("table create d.a.b --column 'a INT'", 1, "with a dot in it needs back-quotes"),
    "a name without a database": ("read t", 1, "a table is named database.table, not 't'"),
    "a path without a table": ("read ./nowhere/t", 1, "there is no table at"),
    "a system table that is none": ("read d.t$fils", 1, "there are $snapshots, $schemas"),
    "a branch that is not there": ("read d.t$branch_nix", 1, "the branch nix does not exist"),
    # Reading.
    "a column that is not there": ("read d.t --select id,prize", 1, "there is no column 'prize'; there are id, n"),
    "half a condition": ("read d.t --where 'id >'", 1, "expected a column or a literal, found the end"),
    "a condition on another type": ("read d.t --where \"id = 'x'\"", 1, "expected a number for column 'id'"),
    "a condition on no column": ("read d.t --where 'nr = 3'", 1, "there is no column 'nr'; did you mean 'n'?"),
    "a snapshot that is not there": ("read d.t --snapshot 77", 1, "the newest is 3"),
    "a tag that is not there": ("read d.t --tag v9", 1, "it has no tags"),
    "a time that is none": ("read d.t --at yesterday", 2, "nor an ISO time such as 2026-01-31T12:00:00Z"),
    "a time before the table": ("read d.t --at 1999-01-01", 1, "the earliest, 1, is of"),
    "a state twice": ("files d.t --tag v1 --at 1d", 2, "--tag and --at exclude each other"),
    "a file whose name says no format": ("read d.t -o rows.orc", 2, "end it with .csv, .json"),
    "a query into a file without a format": ("sql 'SELECT 1' -o rows.xls", 2, "or give --format"),
    "a file in no directory": ("read d.t -o nowhere/rows.csv", 2, "make it first"),
    "a directory as a file": ("read d.t -o .", 2, "name a file in it"),
    "a difference backwards": ("diff d.t 3 1", 2, "SNAP1 is the older one: lakewright diff d.t 1 3"),
    "a difference to nowhere": ("diff d.t 1 9", 1, "the newest is 3"),
    # Writing.
    "a file that is not there": ("import d.t nowhere.csv", 1, "there is no file, directory or pattern"),
    "a pattern without matches": ("import d.t 'x-*.csv'", 1, "there is no file, directory or pattern"),
    "stdin without a format": ("import d.t -", 2, "give --input-format csv"),
    "stdin in no format": ("import d.t - --input-format xls", 2, "is none of csv, tsv, json"),
    "a file without a format": ("import d.t rows.txt", 1, "does not say its format; give the format"),
    "a value of another type": (
        "import d.t wrong.csv",
        1,
        "wrong.csv, line 3: the column 'n' cannot take 'two'",
    ),
    "a field too many": ("import d.t wide.csv", 1, "wide.csv, line 2: the line has 3 fields, not 2"),
    "a column that the table lacks": ("import d.t other.csv", 1, "'nr'"),
    "half a record of json": ("import d.t half.jsonl", 1, "half.jsonl, line 2: the line is no json"),
    "parquet that is none": ("import d.t fake.parquet", 1, "it cannot be read as parquet"),
    "rows into a system table": ("import 'd.t$files' good.csv", 1, "can only be read; name the table itself"),
    "a table that --create would make": (
        "import d.nix good.csv",
        1,
        "create it first, or ask for it (create=True, --create)",
    ),
    "another separator": ("import d.t semi.csv", 1, "--source-option 'sep=;'"),
    "another encoding": ("import d.t latin.csv", 1, "--source-option encoding=latin1"),
    "an empty csv file": ("import d.t empty.csv", 1, "it is empty"),
    "a mode that is none": ("import d.t good.csv --mode replace", 2, "'replace' is not one of 'append', 'upsert'"),
    "keys to delete without keys": ("import d.empty good.csv --mode delete", 1, "primary key"),
    "good files and a bad one": ("import d.t good.csv wrong.csv", 1, "wrong.csv, line 3"),
    # Making and changing.
    "a table that is there": ("table create d.t --column 'a INT'", 1, "exists"),
    "a table of nothing": ("table create d.new", 2, "--column 'id BIGINT NOT NULL', repeated) or a file"),
    "a table in no database": ("table create nix.new --column 'a INT'", 1, "lakewright db create nix"),
    "a column without a type": ("table create d.new --column id", 1, "a column is written 'name TYPE'"),
    "a type that is none": ("table create d.new --column 'id NUMBER'", 1, "types are such as INT, BIGINT"),
    "a nested type that is none": ("table create d.new --column 'id ARRAY<'", 1, "column 'id'"),
    "a column twice": ("table create d.new --column 'a INT' --column 'a INT'", 1, "'a' is given twice"),
    "a key that is no column": ("table create d.new --column 'a INT' --primary-key b", 1, "'b'"),
    "an option that does not fit": ("table create d.new --column 'a INT' --option bucket=two", 1, "bucket"),
    "a change of nothing": ("table alter d.t", 2, "alter needs a change, such as --add-column"),
    "a key that goes": ("table alter d.t --drop-column id", 1, "id"),
    "a good and a bad change": ("table alter d.t --add-column 'x INT' --drop-column nix", 1, "nix"),
    "a type that loses values": ("table alter d.t --retype id=TINYINT --retype n=BOOLEAN", 1, "id"),
    "a new name that is taken": ("table rename d.t empty", 1, "exists"),
    "a drop without an answer": ("table drop d.t", 1, "--yes does it without asking"),
    "a database with tables": ("db drop d --yes", 1, "holds 2 tables (empty, t): drop them first, or give --cascade"),
    "a database that is there": ("db create d", 1, "--if-not-exists"),
    # History.
    "a rollback without an answer": ("rollback d.t 1", 1, "--yes does it without asking"),
    "a rollback to nowhere": ("rollback d.t 9 --yes", 1, "9"),
    "a rollback to nothing": ("rollback d.t", 2, "one of TARGET, --timestamp and --watermark"),
    "a tag of nothing": ("tag create d.t", 2, "missing argument 'NAME'"),
    "a tag without a change": ("tag alter d.t v1", 2, "alter needs --snapshot N or --retain AGE"),
    "a tag that is not there, described": ("tag describe d.t v9", 1, "v9"),
    "a branch of two states": (
        "branch create d.t b --tag v1 --snapshot 1",
        2,
        "--tag and --snapshot exclude each other",
    ),
    "a branch that is not there, described": ("branch describe d.t nix", 1, "the branch nix does not exist"),
    "less than nothing to keep": ("expire d.t --retain-max 1 --retain-min 2", 1, "the maximum cannot be below"),
    "a rollback to no time": ("rollback d.t --timestamp soon", 2, "nor an ISO time"),
    "a tag of no snapshot": ("tag create d.t v1 --snapshot 9", 1, "9"),
    "a tag that is not there goes": ("tag delete d.t v9", 1, "v9"),
    "an age without a unit": ("expire d.t --older-than 7", 2, "write an age such as 7d"),
    "a condition on rows": ("compact d.t --where 'n > 1'", 1, "partition"),
    # Secrets.
    "an option of a catalog without =": ("tables --catalog-option token:s3cr3t", 2, "what was given is not key=value"),
    "a secret at the wrong place": ("describe d.t token=s3cr3t", 2, "unexpected extra argument (token=***)"),
    "a secret in a URI": ("read s3x://me:s3cr3t@host/t", 1, "s3x"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the warehouse and the files that the cases name, once: every case leaves them as they are."""
    root = tmp_path_factory.mktemp("uses")
    command_warehouse(root)
    files = {
        "good.csv": "id,n\n1,1\n",
        "wrong.csv": "id,n\n1,1\n2,two\n",
        "wide.csv": "id,n\n1,1,1\n",
        "other.csv": "id,nr\n1,1\n",
        "rows.txt": "1",
        "semi.csv": "id;n\n1;1\n",
        "empty.csv": "",
        "half.jsonl": '{"id": 1, "n": 1}\n{"id": 2,\n',
        "fake.parquet": "PAR",
    }
    for name, text in files.items():
        (root / name).write_text(text)
    (root / "latin.csv").write_bytes("id,n\n1,ü\n".encode("latin1"))
    return root


@pytest.fixture
def place(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to the files, and name the warehouse."""
    monkeypatch.chdir(made)
    monkeypatch.setenv("LAKEWRIGHT_WAREHOUSE", str(made / "w"))
    return made


def _state(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_use_is_told_in_one_line_and_changes_nothing(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    words, code, remedy = CASES[name]
    before = _state(place)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert code_of([*shlex.split(words), "--quiet"]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("lakewright: ")
    assert said.err.count("\n") == 1
    assert remedy in said.err
    assert "defect" not in said.err
    assert "s3cr3t" not in said.err
    assert _state(place) == before


# The call, and a part of what is said; `table` is d.t, `catalog` its catalog.
HELPERS: dict[str, tuple[Call, str]] = {
    "read: a column": (lambda t, _: lw.read_table(t, columns=["id", "prize"]), "no column 'prize'; there are id, n"),
    "read: a condition": (lambda t, _: lw.read_table(t, filter="nr = 1"), "did you mean 'n'?"),
    "read: half a condition": (lambda t, _: lw.read_table(t, filter="n >"), "found the end"),
    "read: a snapshot": (lambda t, _: lw.read_table(t, snapshot_id=77), "the newest is 3"),
    "read: a tag": (lambda t, _: lw.read_table(t, tag="v9"), "it has no tags"),
    "read: a time": (lambda t, _: lw.read_table(t, timestamp="yesterday"), "ISO text such as"),
    "read: two states": (lambda t, _: lw.read_table(t, snapshot_id=1, tag="v1"), "tag"),
    "read: a limit": (lambda t, _: lw.read_table(t, limit=-1), "limit"),
    "read: no table": (lambda _, c: lw.read_table(f"{c.warehouse}/d.db/nix"), "there is no table at"),
    "write: a mode": (lambda t, _: lw.write_table(_ROWS, t, mode="replace"), "'upsert'"),  # type: ignore[arg-type]
    "write: a column": (lambda t, _: lw.write_table(_ROWS.append_column("x", [[1]]), t), "'x'"),
    "write: a type": (lambda t, _: lw.write_table(pa.table({"id": [1], "n": ["two"]}), t), "'n'"),
    "write: no key": (lambda t, _: lw.write_table(pa.table({"n": [1]}), t), "'id'"),
    "write: a partition": (lambda t, _: lw.write_table(_ROWS, t, "overwrite", partitions={"day": 1}), "day"),
    "write: delete without keys": (lambda _, c: lw.write_table(_ROWS, c.get_table("d.empty"), "delete"), "primary key"),
    "create: a name": (lambda _, c: lw.create_table_from(_ROWS, "t", catalog=c), "database.table"),
    "create: a table that is there": (lambda _, c: lw.create_table_from(_ROWS, "d.t", catalog=c), "exists"),
    "create: a key": (lambda _, c: lw.create_table_from(_ROWS, "d.x", catalog=c, primary_keys=["nr"]), "nr"),
    "create: an option": (
        lambda _, c: lw.create_table_from(_ROWS, "d.x", catalog=c, options={"bucket": "two"}),
        "bucket",
    ),
    "polars: a snapshot": (lambda t, _: lw.scan_polars(t, snapshot_id=77), "the newest is 3"),
    "polars: a tag": (lambda t, _: lw.scan_polars(t, tag="v9"), "it has no tags"),
    "polars: no table": (lambda _, c: lw.scan_polars(f"{c.warehouse}/d.db/nix"), "there is no table at"),
    "duckdb: a snapshot": (lambda t, _: lw.duckdb_relation(t, snapshot_id=77), "the newest is 3"),
    "duckdb: a time": (lambda t, _: lw.duckdb_relation(t, timestamp="1999-01-01"), "the earliest, 1, is of"),
    "duckdb: no table": (lambda _, c: lw.duckdb_relation(f"{c.warehouse}/d.db/nix"), "there is no table at"),
}


@pytest.mark.parametrize("name", HELPERS)
def test_a_wrong_call_is_told_in_one_line_and_changes_nothing(place: Path, name: str) -> None:
    call, remedy = HELPERS[name]
    catalog = lw.CatalogFactory.create({"warehouse": str(place / "w")})
    table = catalog.get_table("d.t")
    before = _state(place)
    with pytest.raises(lw.LakewrightError) as caught:
        call(table, catalog)
    assert remedy in str(caught.value)
    assert "\n" not in str(caught.value)
    assert _state(place) == before


@pytest.mark.processes
@pytest.mark.parametrize("name", ["a command that is none", "a value of another type"])
def test_a_process_ends_with_the_code_of_a_wrong_use(place: Path, name: str) -> None:
    words, code, remedy = CASES[name]
    before = _state(place)
    done = LOADED.run("from lakewright.cli.main import main; main()", *shlex.split(words), "--quiet")
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert remedy in done.err
    assert _state(place) == before
