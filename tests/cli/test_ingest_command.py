from __future__ import annotations

import json
from pathlib import Path

import pytest

import lakewright as lw
from lakewright.cli import load_commands as command
from lakewright.cli.main import main
from support.warm_processes import LOADED


@pytest.fixture
def given(tmp_path: Path) -> list[str]:
    """Return a call that makes a table with a key of a small file."""
    (tmp_path / "a.csv").write_text("id,code\n1,007\n2,008\n1,009\n")
    (tmp_path / "w").mkdir()
    return [
        "ingest",
        str(tmp_path / "a.csv"),
        "-t",
        "d.t",
        "-w",
        str(tmp_path / "w"),
        "--create",
        "--primary-key",
        "id",
    ]


def _rows(given: list[str]) -> list[dict[str, object]]:
    table = lw.CatalogFactory.create({"warehouse": given[5]}).get_table("d.t")
    rows: list[dict[str, object]] = lw.read_table(table).to_pylist()
    return rows


@pytest.mark.processes
def test_small_local_files_need_no_spark_and_the_engine_spark_names_its_extra(given: list[str]) -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None; from lakewright.cli.main import main\n"
        "print(main(sys.argv[1:]), main([*sys.argv[1:], '--engine', 'spark']))"
    )
    done = LOADED.run(program, *given)
    assert done.out.startswith("snapshot 1: 2 rows in 1 file")
    assert "1 row had the key of another" in done.out
    assert done.out.endswith("0 1\n")
    assert "pip install 'lakewright[spark]'" in done.err
    assert _rows(given) == [{"id": 1, "code": "009"}, {"id": 2, "code": "008"}]


@pytest.mark.parametrize(
    "more",
    [
        ["--engine", "spark"],
        ["--master", "local[1]"],
        ["--source-option", "samplingRatio=0.5"],
        ["--concurrency", "2"],
    ],
)
def test_spark_is_used_where_it_is_asked_for_or_needed(
    given: list[str], more: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[bool] = []

    def on_spark(*_: object, **__: object) -> None:
        used.append(True)
        message = "this is Spark"
        raise lw.UnsupportedError(message)

    monkeypatch.setattr(command, "_ingest_on_spark", on_spark)
    assert main([*given, *more]) == 1
    assert used
    assert main(given) == 0


def test_a_source_above_the_limit_goes_to_spark(given: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "LOCAL_BYTES_MAX", 8)
    monkeypatch.setattr(command, "_ingest_on_spark", lambda *_, **__: pytest.skip("as it should"))
    assert main([*given, "--engine", "local"]) == 0
    main(given)
    pytest.fail("it was not given to Spark")


def test_wrong_calls_are_refused_before_spark_starts(
    given: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(given) == 0
    monkeypatch.setattr(command, "_ingest_on_spark", lambda *_, **__: pytest.fail("Spark was started"))
    wrong = [
        (["--type", "code=BIGGER"], "BIGGER"),
        (["--type", "code=INT"], "has the column 'code' already"),
        (["--option", "bucket=7"], "its option 'bucket'"),
        (["--primary-key", "code"], "its primary key is"),
        (["--format", "xml"], "the format 'xml'"),
    ]
    for more, message in wrong:
        capsys.readouterr()
        assert main([*given, "--engine", "spark", *more]) == 1
        said = capsys.readouterr().err
        assert message in said
        assert said.count("\n") == 1


def test_bad_rows_are_set_aside_or_named(given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("id,code\n1,007\nx,008\n3,9,9\n")
    assert main([*given, "--type", "id=BIGINT", "--quiet"]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert f"{tmp_path}/a.csv, line 3: the column 'id' cannot take 'x' as BIGINT NOT NULL: " in said.err
    assert main([*given, "--type", "id=BIGINT", "--bad-rows", str(tmp_path / "bad"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["rows"], result["bad_rows"]) == (1, 2)
    lines = [json.loads(line)["line"] for line in Path(result["bad_rows_file"]).read_text().splitlines()]
    assert lines == [3, 4]


def test_a_header_that_looks_like_data_is_warned_of(
    given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("1,a\n2,b\n")
    given = [part for part in given if part not in {"--primary-key", "id"}]
    assert main([*given, "--dry-run"]) == 0
    assert "warning: the header looks like data" in capsys.readouterr().err
    assert main([*given, "--no-header"]) == 0
    assert _rows(given) == [{"c0": 1, "c1": "a"}, {"c0": 2, "c1": "b"}]


def test_a_job_is_done_once_without_spark(given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*given, "--job-id", "j"]) == 0
    (tmp_path / "a.csv").unlink()
    capsys.readouterr()
    assert main([*given, "--job-id", "j"]) == 0
    assert capsys.readouterr().out == "job 'j' was committed before as snapshot 1: nothing was written\n"
