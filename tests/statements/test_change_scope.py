"""Which DELETE and UPDATE the verbs of the library take over, and that they leave the rows of the change query."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.dml.row_changes import PreparedChange
from lakewright.spec.snapshot import Snapshot
from lakewright.statements.change_statement import ChangeStatement
from lakewright.statements.embedded.embedded_changes import SourceQuery
from support.effort import each_once

ROWS = """(1, 'a', 1.5D, true, DATE '2026-01-01', 1.25), (2, 'b', DOUBLE('NaN'), false, DATE '2026-01-02', 2.5),
(3, NULL, -0.0D, NULL, NULL, NULL), (4, 'k', 4.0D, true, DATE '2026-02-01', 4.75)"""

TAKEN = [
    "DELETE FROM d.t WHERE k = 2",
    "DELETE FROM d.t",
    "DELETE FROM d.t x WHERE x.k IN (1, 3) AND NOT (s IS NULL)",
    "DELETE FROM d.t WHERE NOT (s = 'a' OR day >= DATE '2026-01-02')",
    "DELETE FROM d.t WHERE s LIKE '%a%' OR price BETWEEN 2 AND 4.75",
    "UPDATE d.t SET s = 'k' WHERE flag = true",
    "DELETE FROM d.t WHERE k > 2.5",
    "UPDATE d.t SET s = NULL, k = -7, flag = false, day = DATE '2027-01-01' WHERE k > 1",
]
LEFT = [
    "DELETE FROM d.t WHERE x > 1",  # NaN is above everything in Spark
    "DELETE FROM d.t WHERE k + 1 = 2",
    "DELETE FROM d.t WHERE k = (SELECT max(k) FROM d.t)",
    "DELETE FROM d.t WHERE k = 1 AND s || 'a' = 'aa'",
    "UPDATE d.t SET s = s || 'x' WHERE k = 1",
    "UPDATE d.t SET s = 5 WHERE k = 1",
    "UPDATE d.t SET price = 1.5 WHERE k = 1",
]


KINDS = ("append", "vectors", "keyed")


@pytest.fixture
def context(request: pytest.FixtureRequest, tmp_path: Path) -> lw.SQLContext:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    made = lw.SQLContext(catalog)
    options = {"append": "'bucket' = '-1'", "vectors": "'deletion-vectors.enabled' = 'true'", "keyed": "'bucket' = '1'"}
    keys = ", 'primary-key' = 'id'" if request.param == "keyed" else ""
    made.sql("CREATE DATABASE d")
    made.sql(
        "CREATE TABLE d.t (id INT NOT NULL, k INT, s STRING, x DOUBLE, flag BOOLEAN, day DATE, price DECIMAL(10, 2)) "
        f"TBLPROPERTIES ({options[request.param]}{keys})"
    )
    made.sql(f"INSERT INTO d.t SELECT col1, * FROM VALUES {ROWS}")  # noqa: S608 - our own rows
    return made


def _run(context: lw.SQLContext, text: str, monkeypatch: pytest.MonkeyPatch, *, by_query: bool) -> tuple[object, int]:
    """Run a statement; return its counts and the rows after it, and how many change queries it took."""
    queries: list[int] = []
    own = ChangeStatement.prepare

    def counted(self: ChangeStatement[SourceQuery], base: Snapshot | None) -> PreparedChange:
        queries.append(1)
        return own(self, base)

    monkeypatch.setattr(ChangeStatement, "prepare", counted)
    if by_query:
        monkeypatch.setattr(ChangeStatement, "verb", lambda _: None)
    counts = context.sql(text).to_pylist()
    rows: pa.Table = context.sql("SELECT * FROM d.t ORDER BY id")
    return (counts, str(rows.to_pylist())), len(queries)


# Which rows a statement changes is decided from its text; how, by the kind of the table.
@pytest.mark.parametrize(("text", "context"), [*each_once(TAKEN, KINDS), *each_once(LEFT, KINDS)], indirect=["context"])
def test_a_verb_leaves_the_rows_of_the_change_query(
    text: str, context: lw.SQLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = context.sql("SELECT * FROM d.t")
    plain, queries = _run(context, text, monkeypatch, by_query=False)
    assert (queries == 0) == (text in TAKEN)
    context.sql("TRUNCATE TABLE d.t")
    context.register("saved", start)
    context.sql("INSERT INTO d.t SELECT * FROM saved")
    assert _run(context, text, monkeypatch, by_query=True)[0] == plain
