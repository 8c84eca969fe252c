"""How values show themselves: one line of text, and a small table in notebooks that escapes what it shows."""

from __future__ import annotations

import pydoc
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.display import GRID_ROWS, card
from lakewright.statements.embedded.embedded_context import show_as_grids


@pytest.fixture
def table(tmp_path: Path) -> lw.FileStoreTable:
    rows = {"day": ["a", "b"], "id": [1, 2], "n": [1.5, 2.5]}
    return lw.create_table_from(
        rows, "d.t", catalog=tmp_path, primary_keys=["day", "id"], partition_keys="day", options={"bucket": 1}
    )


def _facts(value: object) -> dict[str, str]:
    """Return the rows of the table that a notebook shows; markup that is not well formed fails."""
    shown = value._repr_html_()  # type: ignore[attr-defined]
    rows = ET.fromstring(shown).iter("tr")  # noqa: S314 - our own markup
    return dict(["".join(cell.itertext()) for cell in row] for row in rows)


def test_results_plans_and_snapshots_in_a_notebook(table: lw.FileStoreTable) -> None:
    written = lw.write_table({"day": ["a"], "id": [1], "n": [7.5]}, table)
    facts = _facts(written)
    assert (facts["snapshot id"], facts["rows"], facts["attempts"]) == ("2", "1", "1")
    assert facts["stages ms"].startswith("write: ")
    assert "replayed" not in facts
    plan = table.new_read_builder().with_filter("day = 'b'").new_scan().plan()
    assert _facts(plan)["files"] == "1"
    assert _facts(plan)["files of the snapshot"] == "3"
    snapshot = table.snapshot()
    assert _facts(snapshot)["commit kind"] == "APPEND"
    assert _facts(snapshot)["time"].endswith(" UTC")
    for result in (table.compact(full=True), table.delete("id = 2"), table.expire_snapshots(), table.verify()):
        assert _facts(result)
    explained = _facts(table.new_read_builder().explain())
    assert explained["snapshot id"] == "4"
    assert explained["split size avg"].endswith("KiB")


def test_a_verification_says_first_whether_the_table_is_sound(table: lw.FileStoreTable) -> None:
    sound = _facts(table.verify())
    assert next(iter(sound.items())) == ("is sound", "yes")
    assert sound["findings"] == "none"
    next(Path(table.table_path).rglob("*.parquet")).unlink()
    damaged = _facts(table.verify())
    assert damaged["is sound"] == "no"
    assert "error missing-file" in damaged["findings"]


def test_texts_are_escaped_and_long_ones_are_cut() -> None:
    shown = card("<i>", {"a": "<script>", "many": tuple(range(100)), "long": "x" * 5000, "when_millis": 1 << 62})
    assert "<script>" not in shown
    assert "<i>" not in shown
    assert "and 92 more" in shown
    assert len(shown) < 3000
    assert str(1 << 62) in shown


def test_one_line_of_text(table: lw.FileStoreTable) -> None:
    columns = "day STRING NOT NULL, id BIGINT NOT NULL, n DOUBLE"
    assert repr(table) == f"FileStoreTable(d.t: {columns}; primary key day, id; partitioned by day)"
    builder = table.new_read_builder().with_filter("id > 1").with_projection(["n"]).with_limit(5)
    assert repr(builder) == "ReadBuilder(d.t: n; filter id > 1; limit 5)"
    plan = table.new_read_builder().new_scan().plan()
    assert repr(plan).startswith("Plan(snapshot_id=1, splits=2, files=2, bytes=")


def test_help_tells_what_one_can_do_with_a_table(table: lw.FileStoreTable) -> None:
    text = pydoc.plain(pydoc.render_doc(table))
    for word in ("read_table", "write_table", "scan_polars", "merge", "rollback_to", "compact", "verify"):
        assert word in text.split("Method resolution order")[0]


def test_system_tables_are_grids(table: lw.FileStoreTable, tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    for _ in range(21):
        lw.write_table({"day": ["a"], "id": [1], "n": [7.5]}, table)
    shown = catalog.get_table("d.t$snapshots")._repr_html_()
    rows = list(ET.fromstring(shown).iter("tr"))  # noqa: S314 - our own markup
    assert next("".join(cell.itertext()) for cell in rows[0]) == "snapshot_id"
    assert len(rows) == 1 + GRID_ROWS
    assert ">20 of 2" in shown


def test_results_of_sql_are_grids_in_a_notebook() -> None:
    class Formatter:
        def __init__(self) -> None:
            self.type_printers: dict[type, Callable[[pa.Table], str]] = {}

        def for_type(self, kind: type, printer: Callable[[pa.Table], str]) -> None:
            self.type_printers[kind] = printer

    html = Formatter()
    shell = SimpleNamespace(display_formatter=SimpleNamespace(formatters={"text/html": html}))
    show_as_grids(SimpleNamespace(get_ipython=lambda: shell))
    shown = html.type_printers[pa.Table](pa.table({"<id>": [1, None], "text": ["a < b", None]}))
    cells = ["".join(cell.itertext()) for cell in ET.fromstring(shown).iter("td")]  # noqa: S314 - our own markup
    assert cells == ["1", "a < b", "null", "null"]
    show_as_grids(None)
    show_as_grids(SimpleNamespace(get_ipython=lambda: None))
    html.type_printers = {pa.Table: str}
    show_as_grids(SimpleNamespace(get_ipython=lambda: shell))
    assert html.type_printers == {pa.Table: str}
