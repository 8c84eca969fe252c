"""`lakewright read`, `import`, `diff`, `files`, `schemas`, `partitions` and `explain`."""

from __future__ import annotations

import io
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import lakewright as lw
from lakewright.cli import cli_results
from lakewright.cli.cli_results import write_batches
from lakewright.cli.main import main
from support.command_tables import code_of, command_warehouse, ids_of


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    place = command_warehouse(tmp_path)
    monkeypatch.setenv("LAKEWRIGHT_WAREHOUSE", place)
    monkeypatch.chdir(tmp_path)
    return place


def _rows(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    assert main(["read", "d.t", *words, "--json"]) == 0
    rows: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return rows


# ---- read ------------------------------------------------------------------------------------------------------------


def test_rows_and_columns_are_chosen(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _rows(capsys) == [{"id": 0, "n": 0}, {"id": 1, "n": 1}, {"id": 2, "n": 2}, {"id": 9, "n": 2}]
    assert _rows(capsys, "--where", "id > 1", "--select", "n") == [{"n": 2}, {"n": 2}]
    assert _rows(capsys, "--limit", "1") == [{"id": 0, "n": 0}]
    assert _rows(capsys, "--snapshot", "1") == [{"id": 0, "n": 0}, {"id": 9, "n": 0}]
    lw.CatalogFactory.create({"warehouse": warehouse}).get_table("d.t").create_tag("v2", 2)
    assert len(_rows(capsys, "--tag", "v2")) == 3
    assert len(_rows(capsys, "--at", "2999-01-01")) == 4
    assert len(_rows(capsys, "--at", "0s")) == 4
    assert main(["read", "d.t$snapshots", "--select", "snapshot_id", "--format", "csv"]) == 0
    assert capsys.readouterr().out == "snapshot_id\r\n1\r\n2\r\n3\r\n"


def test_a_time_without_a_zone_is_utc(
    warehouse: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the times that are printed; the zone of the user does not matter."""
    newest = lw.CatalogFactory.create({"warehouse": warehouse}).get_table("d.t").snapshot()
    assert newest is not None
    at = datetime.fromtimestamp(newest.time_millis / 1000 + 1, UTC).replace(tzinfo=None).isoformat()
    for zone in ("America/New_York", "Asia/Tokyo"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        try:
            assert len(_rows(capsys, "--at", at)) == 4
            assert main(["files", "d.t", "--at", at, "--json"]) == 0
            assert len(json.loads(capsys.readouterr().out)) > 0
        finally:
            monkeypatch.delenv("TZ")
            time.tzset()


@pytest.mark.usefixtures("warehouse")
def test_names_in_back_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", "create", "d.c", "--column", "`a,b` INT", "--column", "c INT"]) == 0
    capsys.readouterr()
    assert main(["read", "d.c", "--select", "c, `a,b`", "--format", "csv"]) == 0
    assert capsys.readouterr().out == 'c,"a,b"\r\n'


@pytest.mark.usefixtures("warehouse")
def test_a_catalog_without_a_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAKEWRIGHT_WAREHOUSE")
    (tmp_path / "lakewright.toml").write_text('default = "dev"\n[catalogs.dev]\nwarehose = "w"\n')
    assert main(["tables"]) == 1
    assert "the catalog 'dev' of" in (said := capsys.readouterr().err)
    assert "(its options: warehose)" in said


def test_every_format_to_a_file(warehouse: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = lw.read_table(f"{warehouse}/d.db/t").to_pylist()
    for name in ("rows.parquet", "rows.arrow", "rows.csv", "rows.jsonl", "rows.json", "rows.txt"):
        assert main(["read", "d.t", "-o", name]) == 0
        said = capsys.readouterr()
        assert (said.out, said.err) == ("", f"4 rows in {name}\n")
    assert pq.read_table("rows.parquet").to_pylist() == expected
    assert pa.ipc.open_file("rows.arrow").read_all().to_pylist() == expected
    assert json.loads(Path("rows.json").read_text()) == expected
    assert [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()] == expected
    assert Path("rows.csv").read_text().splitlines()[0] == "id,n"
    assert Path("rows.txt").read_text().splitlines()[0].split() == ["id", "n"]
    assert [path.name for path in tmp_path.iterdir() if ".part-" in path.name] == []


def test_a_read_that_fails_leaves_the_file_as_it_was(warehouse: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("rows.csv").write_text("before")
    monkeypatch.setattr(cli_results, "write_batches", lambda *_: 1 / 0)
    assert main(["read", "d.t", "-o", "rows.csv"]) == 1
    assert Path("rows.csv").read_text() == "before"
    assert sorted(path.name for path in Path().iterdir()) == ["rows.csv", "w"]
    assert ids_of(warehouse) == [0, 1, 2, 9]


def test_rows_are_written_as_they_come() -> None:
    """No batch waits for another: the writer takes one batch at a time."""
    waiting: list[int] = []
    batches = 20

    def rows() -> object:
        for n in range(batches):
            waiting.append(n)
            yield pa.record_batch({"n": [n]})

    written: list[int] = []

    class Out(io.BytesIO):
        def write(self, data: bytes) -> int:  # type: ignore[override]
            written.append(len(waiting))
            return super().write(data)

        def writelines(self, lines: object) -> None:
            for line in lines:  # type: ignore[attr-defined]
                self.write(line)

    for form in ("jsonl", "csv", "json"):
        waiting.clear()
        written.clear()
        write_batches(pa.schema({"n": pa.int64()}), rows(), form, Out())  # type: ignore[arg-type]
        assert set(range(1, batches + 1)) <= set(written), form


def test_people_see_the_first_rows(
    warehouse: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_results, "ROWS_MAX", 2)
    assert main(["read", f"{warehouse}/d.db/t"]) == 0
    said = capsys.readouterr()
    assert said.out == "id  n\n 0  0\n 1  1\n"
    assert said.err == "... more rows\n"


def test_a_plan_is_shown(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "d.t", "--where", "id = 7777", "--json", "--verbose"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["snapshot_id"], plan["file_count"], plan["splits"]) == (3, 0, [])
    assert main(["explain", "d.t", "--snapshot", "1", "-w", warehouse]) == 0
    assert "Snapshot:           1" in capsys.readouterr().out


# ---- import ----------------------------------------------------------------------------------------------------------


def test_every_format_is_imported_in_one_commit(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = pa.table({"id": pa.array([20, 21], pa.int64()), "n": pa.array([1, 2], pa.int32())})
    pq.write_table(rows, "a.parquet")
    orc.write_table(rows, "b.orc")
    with pa.ipc.new_file("c.arrow", rows.schema) as file:
        file.write_table(rows)
    with pa.OSFile("d.arrows", "wb") as out, pa.ipc.new_stream(out, rows.schema) as stream:
        stream.write_table(rows)
    Path("e.csv").write_text("n,id\n1,20\n2,21\n")
    Path("f.json").write_text('[{"id": 20, "n": 1}, {"id": 21, "n": 2}]')
    Path("g.jsonl").write_text('{"id": 20, "n": 1}\n{"id": 21, "n": 2}\n')
    files = ["a.parquet", "b.orc", "c.arrow", "d.arrows", "e.csv", "f.json", "g.jsonl"]
    assert main(["import", "d.empty", *files, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["snapshot_id"], result["rows"]) == (1, 14)
    assert ids_of(warehouse, "d.empty") == sorted([20, 21] * 7)
    assert main(["write", "d.empty", "*.csv", "--mode", "overwrite", "-q"]) == 0
    assert ids_of(warehouse, "d.empty") == [20, 21]


@pytest.mark.parametrize(
    ("form", "text"), [("csv", b"id,n\n0,5\n"), ("jsonl", b'{"id": 0, "n": 5}\n'), ("json", b'[{"id": 0, "n": 5}]')]
)
def test_stdin_is_a_source(
    warehouse: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, form: str, text: bytes
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["import", "d.t", "-", "--input-format", form, "--mode", "upsert"]) == 0
    assert "from stdin (" in capsys.readouterr().err
    assert _rows(capsys, "--where", "id = 0") == [{"id": 0, "n": 5}]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.replace(b"5", b'"x"'))))
    assert main(["import", "d.t", "-", "--input-format", form, "-q"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("lakewright: stdin")
    assert "'n' cannot take" in said
    assert ids_of(warehouse) == [0, 1, 2, 9]


def test_keys_are_deleted(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("gone.csv").write_text("id\n1\n9\n")
    assert main(["import", "d.t", "gone.csv", "--mode", "delete", "-q"]) == 0
    assert ids_of(warehouse) == [0, 2]
    capsys.readouterr()


def test_an_import_makes_a_table(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("new.csv").write_text("id,name\n1,Ada\n")
    words = ["import", "d.new", "new.csv", "--create", "--primary-key", "id", "-q"]
    assert main([*words, "--dry-run"]) == 0
    assert code_of(["describe", "d.new"]) == 1
    assert main([*words, "--job-id", "once"]) == 0
    assert main([*words, "--job-id", "once"]) == 0
    assert "was committed before as snapshot 1" in capsys.readouterr().out
    assert ids_of(warehouse, "d.new") == [1]


# ---- diff ------------------------------------------------------------------------------------------------------------


def test_the_difference_of_two_snapshots(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = lw.CatalogFactory.create({"warehouse": warehouse}).get_table("d.t")
    lw.write_table(pa.table({"id": [0]}), table, "delete")
    assert main(["diff", "d.t", "1", "4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["added"], found["removed"], found["changed"], found["is_cut"]) == (2, 1, 1, False)
    by_key = {(row["id"], row["_row_kind"]): row["n"] for row in found["rows"]}
    assert by_key == {(0, "-D"): 0, (1, "+I"): 1, (2, "+I"): 2, (9, "-U"): 0, (9, "+U"): 2}
    table.create_tag("v1", 1)
    assert main(["diff", "d.t", "v1", "4", "--limit", "1"]) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 2
    assert said.err == "2 rows added, 1 removed, 1 changed\n"
    assert main(["diff", "d.t", "2", "2"]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "no row changed\n")
    assert main(["diff", "d.t", "0", "1", "--format", "jsonl", "-q"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_the_difference_of_an_append_table(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = lw.CatalogFactory.create({"warehouse": warehouse}).get_table("d.empty")
    lw.write_table(pa.table({"id": [1, 2], "n": pa.array([1, 2], pa.int32())}), table)
    table.delete("id = 1")
    lw.write_table(pa.table({"id": [3], "n": pa.array([3], pa.int32())}), table)
    assert main(["diff", "d.empty", "1", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["added"], found["removed"], found["changed"]) == (1, 1, 0)
    assert sorted((row["_row_kind"], row["id"]) for row in found["rows"]) == [("+I", 3), ("-D", 1)]


# ---- facts -----------------------------------------------------------------------------------------------------------


def test_files_schemas_and_partitions(warehouse: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["files", "d.t", "--json"]) == 0
    assert [row["record_count"] for row in json.loads(capsys.readouterr().out)] == [2, 2, 2]
    assert main(["files", "d.t", "--snapshot", "1"]) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 2
    assert said.err.startswith("1 file, 2 records, ")
    assert main(["files", "d.t", "-n", "1"]) == 0
    assert "... 2 more rows; --limit shows more, --json all" in capsys.readouterr().err
    assert main(["partitions", "d.t"]) == 0
    assert capsys.readouterr().err == "d.t has no partitions: it is not partitioned\n"
    catalog = lw.CatalogFactory.create({"warehouse": warehouse})
    catalog.alter_table("d.t", [lw.SchemaChange.set_option("s3.secret-key", "s3cr3t")])
    assert main(["schemas", "d.t"]) == 0
    text = capsys.readouterr().out
    assert main(["schemas", "d.t", "--json"]) == 0
    text += capsys.readouterr().out
    assert main(["describe", "d.t", "--json"]) == 0
    text += capsys.readouterr().out
    assert "s3cr3t" not in text
    assert text.count("***") == 3
