"""Errors of statements in this process show the user's own text, with the place."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakewright as lw


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> lw.SQLContext:
    context = lw.SQLContext(Path(tmp_path_factory.mktemp("places")))
    context.catalog.create_database("default")
    context.sql("CREATE TABLE orders (id INT, name STRING)")
    context.sql("CREATE TEMP VIEW v AS SELECT * FROM orders")
    return context


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id,\n  ^nosuch(name) FROM orders",
        "SELECT o.id FROM orders o JOIN orders p ON o.id = p.id WHERE ? = o.id AND ? = ^nosuch(o.id)",
        "SELECT default.orders.id FROM default.orders JOIN v USING (id) WHERE default.orders.id = ^nosuch(?, ?)",
        "SELECT id FROM v WHERE ^nosuch(id) = 1",
        "SELECT id FROM orders TIMESTAMP AS OF ^nosuch(1)",
        "CREATE TEMP VIEW w AS SELECT ^nosuch(id) FROM orders",
        "CREATE TABLE x AS SELECT id, ^nosuch(name) FROM orders",
        "INSERT INTO orders SELECT id, ^nosuch(name) FROM orders",
        "UPDATE orders SET name = ^nosuch(name) WHERE id > 1",
        "UPDATE orders SET name = ? WHERE id > (SELECT ^nosuch(id) FROM orders)",
        "DELETE FROM orders WHERE id = 1 AND ^nosuch(name)",
        "MERGE INTO orders USING (SELECT id, ^nosuch(1) AS z FROM v) s ON orders.id = s.id WHEN MATCHED THEN DELETE",
        "MERGE INTO orders t USING orders s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = ^nosuch(s.id)",
    ],
)
def test_a_caret_stands_below_what_is_wrong(ctx: lw.SQLContext, text: str) -> None:
    own = text.replace("^", "")
    before = text.partition("^")[0]
    with pytest.raises(lw.UnsupportedError, match="the function nosuch") as raised:
        ctx.sql(own, [1, 2][: own.count("?")])
    place = before.rpartition("\n")[2]
    shown = str(raised.value).split("\n", 1)[1]
    assert shown == f"{own.split(chr(10))[-1]}\n{' ' * len(place)}^"
    assert (raised.value.facts["line"], raised.value.facts["column_number"]) == (text.count("\n") + 1, len(place) + 1)


def test_without_a_place_the_statement_is_shown(ctx: lw.SQLContext) -> None:
    text = "DELETE FROM default.orders WHERE default.orders.id = nosuch(1)"
    with pytest.raises(lw.UnsupportedError, match="the function nosuch") as raised:
        ctx.script(f"SELECT 1;\n{text}")
    message = str(raised.value)
    assert message.endswith(f"in the statement on line 2\n{text}")
    assert message.count(text) == 1
