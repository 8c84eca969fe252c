"""Every command works on a catalog of any kind, and what it prints holds no secret."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.cli.main import main
from support.rest_server import running_rest

SECRET = "a-very-secret-token"  # noqa: S105 - of this test


@dataclass(frozen=True)
class Place:
    """A catalog with the table `d.t` of two snapshots, and a directory for files."""

    options: Mapping[str, str]
    files: Path

    @property
    def arguments(self) -> list[str]:
        """The catalog as arguments of a command."""
        return [word for key, value in self.options.items() for word in ("--catalog-option", f"{key}={value}")]

    def run(self, *words: str) -> int:
        """Run a command on the catalog."""
        return main([*words, *self.arguments])


@pytest.fixture(params=["rest", "jdbc"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.delenv("LAKEWRIGHT_WAREHOUSE", raising=False)
    if request.param == "rest":
        with running_rest(str(tmp_path / "w"), token=SECRET) as server:
            yield _filled(Place(server.options, tmp_path))
        return
    options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/names.db", "warehouse": str(tmp_path / "w")}
    yield _filled(Place({**options, "jdbc.password": SECRET}, tmp_path))


def _filled(place: Place) -> Place:
    with lw.CatalogFactory.create(place.options) as catalog:
        catalog.create_database("d")
        schema = lw.Schema.from_pyarrow_schema(
            pa.schema({"id": pa.int64(), "n": pa.int64()}), primary_keys=["id"], options={"bucket": "1"}
        )
        catalog.create_table("d.t", schema)
        for n in range(2):
            lw.write_table(pa.table({"id": [n, 9], "n": [n, n]}), catalog.get_table("d.t"))
    return place


def rows_of(place: Place, name: str) -> list[dict[str, object]]:
    """Return the rows of a table, in order."""
    with lw.CatalogFactory.create(place.options) as catalog:
        rows: list[dict[str, object]] = lw.read_table(catalog.get_table(name)).sort_by("id").to_pylist()
        return rows


def test_commands_that_look_at_tables(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.run("tables", "--json") == 0
    assert [row["table"] for row in json.loads(capsys.readouterr().out)] == ["d.t"]
    assert place.run("describe", "d.t", "--json") == 0
    assert json.loads(capsys.readouterr().out)["snapshot"] == 2
    assert place.run("describe", "d.t$files", "--json") == 0
    capsys.readouterr()
    assert place.run("snapshots", "d.t", "--json") == 0
    assert [row["snapshot"] for row in json.loads(capsys.readouterr().out)] == [2, 1]


def test_commands_of_upkeep(place: Place) -> None:
    assert place.run("compact", "d.t", "--full") == 0
    assert place.run("expire", "d.t", "--retain-max", "1", "--retain-min", "1") == 0
    assert place.run("remove-orphans", "d.t", "--older-than", "2000-01-01") == 0
    assert rows_of(place, "d.t") == [{"id": 0, "n": 0}, {"id": 1, "n": 1}, {"id": 9, "n": 1}]


def test_an_ingest_upserts_and_creates(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    source = place.files / "more.csv"
    source.write_text("id,n\n9,5\n")
    assert place.run("ingest", str(source), "--table", "d.t", "--mode", "upsert") == 0
    assert rows_of(place, "d.t")[-1] == {"id": 9, "n": 5}
    assert place.run("ingest", str(source), "--table", "new.t", "--create", "--dry-run") == 0
    assert "append to new.t (new)" in capsys.readouterr().err
    assert place.run("ingest", str(source), "--table", "new.t", "--create") == 0
    assert rows_of(place, "new.t") == [{"id": 9, "n": 5}]


def test_a_path_is_not_written_past_the_catalog(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    with lw.CatalogFactory.create(place.options) as catalog:
        path = catalog.get_table("d.t").table_path
    source = place.files / "more.csv"
    source.write_text("id,n\n9,5\n")
    assert place.run("ingest", str(source), "--table", path) == 1
    assert place.run("compact", path) == 1
    assert capsys.readouterr().err.count("open the table by its name") == 2
    assert rows_of(place, "d.t")[-1] == {"id": 9, "n": 1}


@pytest.mark.parametrize("wrong", [("tables", "nothing"), ("describe", "d.nothing"), ("compact", "d.nothing")])
def test_nothing_secret_is_printed(place: Place, capsys: pytest.CaptureFixture[str], wrong: tuple[str, str]) -> None:
    assert place.run(*wrong, "--debug") == 1
    assert place.run("describe", "d.t") == 0
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err
