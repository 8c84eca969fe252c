"""COPY INTO in this process: files into tables, and rows into files."""

from __future__ import annotations

import gzip
import json
import os
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakewright as lw

_BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture
def ctx(tmp_path: Path) -> lw.SQLContext:
    context = lw.SQLContext(tmp_path / "warehouse")
    context.catalog.create_database("default")
    context.sql("SET spark.sql.session.timeZone = Europe/Berlin")
    context.sql("CREATE TABLE t (id INT NOT NULL, name STRING, price DECIMAL(10, 2), day DATE, at TIMESTAMP)")
    return context


def _loaded(ctx: lw.SQLContext, text: str) -> int:
    return int(ctx.sql(text)["num_inserted_rows"][0].as_py())


def _rows(ctx: lw.SQLContext) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in ctx.sql("SELECT * FROM t ORDER BY id").to_pylist()]


def _snapshots(ctx: lw.SQLContext) -> int:
    snapshot = ctx.catalog.get_table("default.t").snapshot()
    return 0 if snapshot is None else snapshot.id


def _csv(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / "in" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_csv_is_loaded_by_place_and_each_file_once(ctx: lw.SQLContext, tmp_path: Path) -> None:
    first = '1,"a\\"b, c",1.50,2026-01-31,2026-01-31 12:00:00\n2,C:\\new,,,\n3,"",,,\n'
    path = _csv(tmp_path, "a.csv", f"id,x,y,z,w\n{first}")
    (tmp_path / "in" / "b.csv.gz").write_bytes(gzip.compress(b"h,h,h,h,h\n4,d,4.5,,\n"))
    _csv(tmp_path, "notes.txt", "no csv")
    copy = f"COPY INTO t FROM '{tmp_path}/in' FILE_FORMAT = (TYPE = CSV, SKIP_HEADER = 1) PATTERN = '.*[.]csv.*'"
    assert _loaded(ctx, copy) == 4
    at = datetime(2026, 1, 31, 12, tzinfo=_BERLIN)
    assert _rows(ctx) == [
        (1, 'a"b, c', Decimal("1.50"), date(2026, 1, 31), at),
        (2, "C:\\new", None, None, None),
        (3, "", None, None, None),
        (4, "d", Decimal("4.50"), None, None),
    ]
    assert (_snapshots(ctx), _loaded(ctx, copy), _snapshots(ctx)) == (2, 0, 2)
    assert (_loaded(ctx, f"{copy} FORCE = TRUE"), _snapshots(ctx)) == (4, 3)
    os.utime(path, (1, 1))
    assert _loaded(ctx, copy) == 3


def test_options_say_how_csv_is_written(ctx: lw.SQLContext, tmp_path: Path) -> None:
    path = _csv(tmp_path, "a.csv", "x'a''b'|7|31.01.2026\nNA|8|01.02.2026\n".replace("x'", "'"))
    layout = "FIELD_DELIMITER = '|', QUOTE = '\\'', ESCAPE = '\\'', NULL_IF = 'NA', DATE_FORMAT = 'dd.MM.yyyy'"
    assert _loaded(ctx, f"COPY INTO t (name, id, day) FROM '{path}' FILE_FORMAT = (TYPE = CSV, {layout})") == 2
    assert [row[:4] for row in _rows(ctx)] == [(7, "a'b", None, date(2026, 1, 31)), (8, None, None, date(2026, 2, 1))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,a,x,,\n", "line 3: the column 'price' cannot take 'x'"),
        ("1,a,1.234,,\n", "line 3: the column 'price' cannot take '1.234'"),
        (",a,1,,\n", "line 3: the column 'id' cannot take"),
        ("1,a\n", "line 3: the line has 2 fields, not 5"),
        ('1,"a""b",,,\n', "line 3: a value in quotes does not end.*ESCAPE"),
        ('1,"a,,,\n', "line 3: a value in quotes does not end"),
    ],
)
def test_a_wrong_csv_file_is_an_error_and_loads_nothing(
    ctx: lw.SQLContext, tmp_path: Path, text: str, message: str
) -> None:
    _csv(tmp_path, "a.csv", "5,e,,,\n")
    wrong = _csv(tmp_path, "b.csv", f'8,"h\n",,,\n{text}')
    copy = f"COPY INTO t FROM '{tmp_path}/in/*.csv' FILE_FORMAT = (TYPE = CSV)"
    with pytest.raises(lw.InvalidInputError, match=f"b.csv, {message}"):
        ctx.sql(copy)
    assert [row[0] for row in _rows(ctx)] == [5]
    with pytest.raises(lw.InvalidInputError, match=f"b.csv, {message}"):
        ctx.sql(f"{copy} FORCE = TRUE")
    wrong.write_text("6,f,,,\n")
    assert _loaded(ctx, copy) == 1


def test_json_is_loaded_by_name(ctx: lw.SQLContext, tmp_path: Path) -> None:
    path = _csv(tmp_path, "a.json", '{"name": "a", "id": 1, "price": 12345678.90, "more": 1}\n{"id": 2}\n')
    assert _loaded(ctx, f"COPY INTO t FROM '{path}' FILE_FORMAT = (TYPE = JSON)") == 2
    assert [row[:3] for row in _rows(ctx)] == [(1, "a", Decimal("12345678.90")), (2, None, None)]
    path.write_text('{"id": 3}\n{"id": 1.5}\n')
    with pytest.raises(lw.InvalidInputError, match=r"a\.json, line 2: the column 'id' cannot take '1.5'"):
        ctx.sql(f"COPY INTO t FROM '{path}' FILE_FORMAT = (TYPE = JSON)")
    path.write_text('[{"id": 3},\n {"id": 4}]\n')
    assert _loaded(ctx, f"COPY INTO t FROM '{path}' FILE_FORMAT = (TYPE = JSON, MULTI_LINE = TRUE)") == 2


def test_parquet_is_assigned_by_the_rules_of_insert(ctx: lw.SQLContext, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"NAME": [7, None], "id": pa.array([1, 2], pa.int64()), "more": [1, 2]}), path)
    copy = f"COPY INTO t FROM '{path}' FILE_FORMAT = (TYPE = PARQUET)"
    assert _loaded(ctx, copy) == 2
    assert [row[:3] for row in _rows(ctx)] == [(1, "7", None), (2, None, None)]
    for column, values, message in (
        ("id", pa.array([3, 1 << 40]), r"a\.parquet: the column 'id'"),
        ("price", pa.array(["1", "2"]), "'price'.* text is not parsed"),
        ("other", pa.array([1, 2]), "has no column of default.t; it has other"),
    ):
        pq.write_table(pa.table({column: values}), path)
        with pytest.raises(lw.LakewrightError, match=message):
            ctx.sql(copy)
    assert _snapshots(ctx) == 1


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        ("FILE_FORMAT = (TYPE = CSV, COLOUR = 'red')", "has no option COLOUR"),
        ("FILE_FORMAT = (TYPE = CSV, LINE_DELIMITER = 'x')", "'lineSep' of csv files does not work in this process"),
        ("FILE_FORMAT = (TYPE = JSON, SEP = 'x')", "'sep' of json files does not work in this process"),
        ("FILE_FORMAT = (TYPE = CSV) ON_ERROR = CONTINUE", "ON_ERROR = CONTINUE is not supported"),
        ("FILE_FORMAT = (TYPE = CSV) PURGE = TRUE", "PURGE is not supported"),
        ("FILE_FORMAT = (TYPE = CSV) PATTERN = '['", "PATTERN is no regular expression"),
        ("FILE_FORMAT = (TYPE = CSV, QUOTE = 'ab')", "one character each"),
    ],
)
def test_options_that_do_not_work_are_refused_by_name(
    ctx: lw.SQLContext, tmp_path: Path, tail: str, message: str
) -> None:
    path = _csv(tmp_path, "a.csv", "1,a,,,\n")
    with pytest.raises(lw.LakewrightError, match=message):
        ctx.sql(f"COPY INTO t FROM '{path}' {tail}")
    assert _snapshots(ctx) == 0


def test_paths_that_are_not_there_or_elsewhere_are_errors(ctx: lw.SQLContext, tmp_path: Path) -> None:
    with pytest.raises(lw.InvalidInputError, match="there is no file, directory or pattern"):
        ctx.sql(f"COPY INTO t FROM '{tmp_path}/none' FILE_FORMAT = (TYPE = CSV)")
    with pytest.raises(lw.UnsupportedError, match="not on this machine"):
        ctx.sql("COPY INTO t FROM 's3://b/a' FILE_FORMAT = (TYPE = CSV)")
    with pytest.raises(lw.UnsupportedError, match="not on this machine"):
        ctx.sql("COPY INTO 's3://b/a' FROM t FILE_FORMAT = (TYPE = CSV)")
    (tmp_path / "empty").mkdir()
    assert _loaded(ctx, f"COPY INTO t FROM '{tmp_path}/empty' FILE_FORMAT = (TYPE = CSV)") == 0


@pytest.mark.parametrize(
    "layout",
    [
        "TYPE = CSV",
        "TYPE = CSV, HEADER = TRUE, SEP = ';', ESCAPE = '\"', COMPRESSION = gzip",
        "TYPE = CSV, NULL_VALUE = '-'",
        "TYPE = JSON",
        "TYPE = JSON, COMPRESSION = bzip2",
        "TYPE = PARQUET",
        "TYPE = PARQUET, COMPRESSION = zstd",
    ],
)
def test_what_is_written_is_loaded_again_as_it_was(ctx: lw.SQLContext, tmp_path: Path, layout: str) -> None:
    ctx.sql(
        "INSERT INTO t VALUES (1, 'a\"b;, \\\\ c', 1.5, DATE'2026-01-31', TIMESTAMP'2026-07-01 12:00:00.123456'), "
        "(2, '', -0.01, NULL, TIMESTAMP'2026-01-01 00:00:00'), (3, ' x\\n', NULL, NULL, NULL), (4, '-', 1, NULL, NULL)"
    )
    before = _rows(ctx)
    out = tmp_path / "out"
    assert _loaded(ctx, f"COPY INTO '{out}' FROM t FILE_FORMAT = ({layout})") == 4
    ctx.sql("DELETE FROM t")
    assert _loaded(ctx, f"COPY INTO t FROM '{out}' FILE_FORMAT = ({layout})") == 4
    assert _rows(ctx) == before


def test_a_directory_is_replaced_only_when_asked_and_when_all_is_written(ctx: lw.SQLContext, tmp_path: Path) -> None:
    ctx.sql("INSERT INTO t (id) VALUES (1), (2)")
    out = tmp_path / "out"
    copy = f"COPY INTO '{out}' FROM (SELECT id, 1 / (id - :zero) AS x FROM t) FILE_FORMAT = (TYPE = JSON)"  # noqa: S608
    assert ctx.sql(copy, {"zero": 3})["num_affected_rows"][0].as_py() == 2
    with pytest.raises(lw.AlreadyExistsError, match="OVERWRITE = TRUE"):
        ctx.sql(copy, {"zero": 4})
    with pytest.raises(lw.InvalidInputError, match="division by zero"):
        ctx.sql(f"{copy} OVERWRITE = TRUE", {"zero": 1})
    (file,) = out.glob("part-*.json")
    assert [json.loads(line) for line in file.read_text().splitlines()] == [{"id": 1, "x": -0.5}, {"id": 2, "x": -1.0}]
    ctx.sql(f"{copy} OVERWRITE = TRUE", {"zero": 0})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "warehouse"]
    assert [path.suffix for path in out.glob("part-*")] == [".json"]
    table = tmp_path / "warehouse" / "default.db" / "t"
    with pytest.raises(lw.InvalidInputError, match="is a table"):
        ctx.sql(f"COPY INTO '{table}' FROM t FILE_FORMAT = (TYPE = JSON) OVERWRITE = TRUE")
    with pytest.raises(lw.UnsupportedError, match="SINGLE is not supported"):
        ctx.sql(f"COPY INTO '{out}' FROM t FILE_FORMAT = (TYPE = JSON) SINGLE = TRUE")


def test_json_has_nested_values_and_csv_refuses_them(ctx: lw.SQLContext, tmp_path: Path) -> None:
    ctx.register(
        "r",
        pa.table(
            {
                "m": pa.array([[('k"', Decimal("1.10"))]], pa.map_(pa.string(), pa.decimal128(4, 2))),
                "s": [{"a": None, "b": [1.5, float("nan")]}],
                "b": [b"\x00\xff"],
                "f": pa.array([0.1], pa.float32()),
            }
        ),
    )
    ctx.sql(f"COPY INTO '{tmp_path}/out' FROM r FILE_FORMAT = (TYPE = JSON)")
    (file,) = (tmp_path / "out").glob("part-*")
    assert file.read_text() == '{"m":{"k\\"":1.10},"s":{"b":[1.5,"NaN"]},"b":"AP8=","f":0.1}\n'
    with pytest.raises(lw.InvalidInputError, match="csv file cannot hold the column 'm'"):
        ctx.sql(f"COPY INTO '{tmp_path}/csv' FROM r FILE_FORMAT = (TYPE = CSV)")
    assert not (tmp_path / "csv").exists()
