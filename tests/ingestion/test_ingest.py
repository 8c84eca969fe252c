"""Ingests in this process, and what both engines share: names of columns, and which files are a source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakewright as lw
from lakewright.commit.table_commit import BatchTableCommit
from lakewright.ingestion.bad_rows import BadRowSink
from lakewright.ingestion.ingest_plan import ColumnChange, ColumnRequest, map_columns
from lakewright.ingestion.ingest_sources import find_sources
from support.ingest_cases import FIELDS, WRONG, IngestCases, Load, MessyIngestCases, check_wrong_records, write_file


@pytest.fixture
def load() -> Load:
    return lw.ingest  # type: ignore[return-value]


class TestIngest(IngestCases):
    """In this process."""

    @pytest.mark.parametrize(("files", "message"), WRONG)
    def test_wrong_records_are_errors_and_nothing_is_committed(
        self, load: Load, orders: lw.FileStoreTable, tmp_path: Path, files: dict[str, str], message: str
    ) -> None:
        check_wrong_records(load, orders, tmp_path, files, message)

    def test_tables_are_found_by_name_and_by_path(self, orders: lw.FileStoreTable, catalog: lw.Catalog) -> None:
        for given in ("d.orders", orders.table_path):
            (found,) = find_sources(given, catalog=catalog)
            assert found.table is not None
            assert found.table.table_path == orders.table_path


class TestMessyFiles(MessyIngestCases):
    """In this process."""


# ---- names -----------------------------------------------------------------------------------------------------------


def _map(names: list[str], asked: ColumnRequest | None = None) -> tuple[dict[str, str], list[ColumnChange]]:
    found = map_columns(names, FIELDS, ["id"], asked or ColumnRequest(), name="d.t")
    return dict(found.pairs), list(found.changes)


def test_exact_names_come_before_names_that_differ_in_case() -> None:
    pairs, changes = _map(["id", "NAME", "price", "Price"], ColumnRequest(ignore_extra=True))
    assert pairs == {"id": "id", "NAME": "name", "price": "price"}
    assert [(c.kind, c.column) for c in changes] == [("renamed", "name"), ("ignored", "Price"), ("filled", "day")]


def test_renames_come_first() -> None:
    pairs, _ = _map(["key", "id", "name"], ColumnRequest(renames={"key": "id"}, ignore_extra=True))
    assert pairs == {"key": "id", "name": "name"}


def test_row_kinds_of_the_source_are_kept() -> None:
    pairs, _ = _map(["id", "_row_kind"])
    assert pairs == {"id": "id", "_row_kind": "_row_kind"}


@pytest.mark.parametrize(
    ("names", "asked", "message"),
    [
        (["id", "colour"], ColumnRequest(), "the source has the column 'colour', which the table lacks"),
        (["name"], ColumnRequest(), "the source lacks the column 'id'"),
        (["id", "PRICE", "Price"], ColumnRequest(), "'PRICE' and 'Price' of the source would both become 'price'"),
        (["id", "id"], ColumnRequest(), "two columns named 'id'"),
        (["id", "x"], ColumnRequest(renames={"x": "y"}), "'x' cannot become 'y'"),
        (["name"], ColumnRequest(keys_only=True), "the source lacks the column 'id'"),
    ],
)
def test_columns_that_have_no_place_are_refused(names: list[str], asked: ColumnRequest, message: str) -> None:
    with pytest.raises(lw.InvalidInputError, match=message):
        _map(names, asked)


def test_a_delete_needs_the_keys_alone() -> None:
    assert _map(["id"], ColumnRequest(keys_only=True)) == ({"id": "id"}, [])


# ---- sources ---------------------------------------------------------------------------------------------------------


def test_files_are_found_counted_and_their_format_guessed(tmp_path: Path) -> None:
    write_file(tmp_path / "a" / "1.csv.gz", "xx")
    write_file(tmp_path / "a" / "b" / "2.csv", "x")
    write_file(tmp_path / "a" / "_SUCCESS", "")
    (found,) = find_sources(str(tmp_path / "a"))
    assert (found.format, found.files, found.bytes) == ("csv", 2, 3)
    assert found.paths == (str(tmp_path / "a"), str(tmp_path / "a" / "b"))
    (found,) = find_sources(str(tmp_path / "a" / "**" / "*.csv"))
    assert (found.format, found.files) == ("csv", 1)


def test_names_that_look_like_patterns_are_taken_literally(tmp_path: Path) -> None:
    path = write_file(tmp_path / "a[1]*.parquet", "")
    (found,) = find_sources(path)
    assert found.paths == (str(tmp_path / r"a\[1\]\*.parquet"),)


def test_directories_named_column_value_give_columns(tmp_path: Path) -> None:
    write_file(tmp_path / "p" / "day=2026-01-01" / "h=1" / "x.orc", "")
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
        write_file(tmp_path / name, "id\n1\n")
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


def test_columns_that_no_table_can_have_are_named_together_and_can_be_left_out(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path / "warehouse")})
    rows = pa.table(
        {"id": [1], "took": pa.array([1], pa.duration("s")), "v": pa.array([None], pa.list_(pa.string(), 1))}
    )
    pq.write_table(rows, tmp_path / "a.parquet")
    with pytest.raises(lw.InvalidInputError, match=r"a\.parquet.*'took'.*'v'.*--columns"):
        lw.ingest(tmp_path / "a.parquet", "d.t", catalog=catalog, create=True)
    lw.ingest(tmp_path / "a.parquet", "d.t", catalog=catalog, create=True, columns=["id"])
    assert lw.read_table(catalog.get_table("d.t")).to_pylist() == [{"id": 1}]


def _bad_files(directory: Path) -> list[str]:
    return sorted(path.suffix for path in directory.iterdir())


def _job(directory: Path) -> dict[str, Any]:
    lw.create_table_from({"id": [0], "n": [0]}, "d.t", catalog=directory / "w")
    return {"catalog": {"warehouse": str(directory / "w")}, "bad_rows": str(directory / "bad"), "job_id": "j"}


def _kill(*_arguments: object, **_more: object) -> None:
    raise SystemExit


def test_bad_rows_are_written_once_by_a_job_that_was_killed_before_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_file(tmp_path / "a.csv", "id,n\n1,2\nbroken\n")
    job: dict[str, Any] = {
        "catalog": {"warehouse": str(tmp_path / "w")},
        "bad_rows": str(tmp_path / "bad"),
        "job_id": "j",
    }
    lw.create_table_from({"id": [0], "n": [0]}, "d.t", catalog=tmp_path / "w")
    with monkeypatch.context() as killed:
        killed.setattr(BatchTableCommit, "commit", _kill)
        killed.setattr(BadRowSink, "discard", lambda _sink: None)  # a process that is killed cleans nothing up
        with pytest.raises(SystemExit):
            lw.ingest(path, "d.t", **job)
    assert _bad_files(tmp_path / "bad") == [".part"]
    result = lw.ingest(path, "d.t", **job)
    assert (result.replayed, result.bad_rows) == (False, 1)
    assert _bad_files(tmp_path / "bad") == [".jsonl"]


def test_a_replay_reports_the_bad_rows_of_the_run_that_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_file(tmp_path / "a.csv", "id,n\n1,2\nbroken\n")
    job: dict[str, Any] = {
        "catalog": {"warehouse": str(tmp_path / "w")},
        "bad_rows": str(tmp_path / "bad"),
        "job_id": "j",
    }
    lw.create_table_from({"id": [0], "n": [0]}, "d.t", catalog=tmp_path / "w")
    with monkeypatch.context() as killed:
        killed.setattr(BadRowSink, "publish", _kill)
        with pytest.raises(SystemExit):
            lw.ingest(path, "d.t", **job)
    for _ in range(2):
        result = lw.ingest(path, "d.t", **job)
        assert (result.replayed, result.bad_rows) == (True, 1)
        assert result.bad_rows_file is not None
        assert "broken" in Path(result.bad_rows_file).read_text()
        assert _bad_files(tmp_path / "bad") == [".jsonl"]
