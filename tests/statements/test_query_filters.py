"""Filters that a query hands to the reads of its tables leave out no row that matters."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.catalog.catalog import Catalog
from lakewright.statements.bind_tables import BoundStatement, bind
from lakewright.statements.embedded.embedded_context import SQLContext
from lakewright.statements.sql_text import Args, Fragment
from support.effort import examples
from support.lookup import Engine

COLUMNS = pa.schema(
    {"k": pa.int32(), "n": pa.int64(), "x": pa.float64(), "s": pa.string(), "d": pa.date32(), "p": pa.decimal128(8, 2)}
)
TIMES = pa.schema({"l": pa.timestamp("us", "UTC"), "z": pa.timestamp("us"), "f": pa.float32(), "b": pa.bool_()})


def bound(catalog: Catalog, text: str, args: Args | None = None) -> BoundStatement:
    return bind(SQLContext(catalog), Engine(), [Fragment(text, 0, len(text))], args or {})


def filters(found: BoundStatement) -> list[str | None]:
    return [None if one.predicate is None else str(one.predicate) for one in found.relations]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path_factory.mktemp("warehouse"))})
    made.create_database("default")
    chance = random.Random(3)
    for number, name in enumerate(("t", "u", "w")):
        made.create_table(f"default.{name}", COLUMNS)
        rows = [_row(chance) for _ in range(12 + number)]
        lw.write_table(pa.Table.from_pylist(rows, schema=COLUMNS), made.get_table(f"default.{name}"))
    made.create_table("default.times", TIMES)
    return made


def _row(chance: random.Random) -> dict[str, object]:
    small = chance.randint(0, 4)
    row: dict[str, object] = {
        "k": small,
        "n": chance.randint(0, 3),
        "x": chance.choice([0.0, -0.0, 1.5, 2.25]),
        "s": chance.choice(["", "a", "ab", "b"]),
        "d": dt.date(2024, 1, 1 + small),
        "p": Decimal(chance.randint(-3, 3)) / 2,
    }
    return {name: None if chance.random() < 0.2 else value for name, value in row.items()}


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("k = 1 AND 2 < n AND t.x <= 1.5", "k = 1 AND n > 2 AND x <= 1.5"),
        ("k = 1 OR (n = 2 AND upper(s) = 'A')", "k = 1 OR n = 2"),
        ("k = 1 OR upper(s) = 'A'", None),
        ("NOT (k = 1 AND upper(s) = 'A')", None),
        ("s LIKE 'a%' AND s NOT LIKE '%b'", "s LIKE 'a%' AND NOT (s LIKE '%b')"),
        (r"s LIKE 'a\\_%'", None),
        ('s = "a"', None),
        ("s = 'it''s'", None),
        ("s = 1 AND k = '1'", None),
        ("k IN (1, 2, NULL) AND n NOT IN (3)", "k IN (1, 2, NULL) AND NOT (n IN (3))"),
        ("k IN (SELECT 1)", None),
        ("k BETWEEN 1 AND 2.5", "k BETWEEN 1 AND 2"),
        ("d >= DATE '2024-01-02' AND d < '2024-01-04'", "d >= DATE '2024-01-02' AND d < DATE '2024-01-04'"),
        ("d > '2024-1-2' AND d < DATE '2024-02-30'", None),
        ("p = 1.25 AND p < 1.255", "p = 1.25"),
        ("p < 1000000 AND n = 1e3 AND n = 1L", None),
        ("x > 0.1 AND x < 9007199254740993", "x > 0.1"),
        ("k = :k AND s = :s AND d = :d AND n = :n", "k = 1 AND s = 'it\\'s' AND d = DATE '2024-01-02'"),
        ("k IS NULL AND s IS NOT NULL", "k IS NULL AND NOT (s IS NULL)"),
        ("k <=> 1 AND k = n AND k + 1 = 2 AND t.k.j = 1", None),
    ],
)
def test_comparisons_that_mean_the_same_are_said(catalog: Catalog, where: str, expected: str | None) -> None:
    args = {"k": 1, "s": "it's", "d": dt.date(2024, 1, 2), "n": 1.5}
    found = filters(bound(catalog, f"SELECT * FROM t WHERE {where}", args))  # noqa: S608 - texts of this test
    assert found == [expected if expected is None else expected.replace("\\'", "''")]


def test_times_and_flags(catalog: Catalog) -> None:
    text = "SELECT * FROM times WHERE l > '2024-01-01 00:00:00' AND z < '2024-01-01' AND f = 0.5 AND b"
    expected = (
        "l > TIMESTAMP '2024-01-01 00:00:00.000000Z' AND z < TIMESTAMP '2024-01-01 00:00:00.000000' AND f = 0.5 "
        "AND b = TRUE"
    )
    assert filters(bound(catalog, text)) == [expected]
    text = "SELECT * FROM times WHERE z > TIMESTAMP '2024-01-01 00:00:00' AND l IN ('2024-01-01') AND f < 100000000"
    assert filters(bound(catalog, text)) == [None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t LEFT JOIN u ON t.k = u.k AND u.n = 1 AND t.n = 2 WHERE t.n = 3 AND u.x IS NULL AND u.s = 'a'",
         ["n = 3", "n = 1 AND s = 'a'"]),
        ("t RIGHT JOIN u ON t.k = u.k AND u.n = 1 AND t.n = 2 WHERE u.n = 3 AND t.x IS NULL AND t.s = 'a'",
         ["n = 2 AND s = 'a'", "n = 3"]),
        ("t FULL JOIN u ON t.k = u.k AND u.n = 1 AND t.n = 2 WHERE u.n = 3 AND t.x IS NULL", [None, "n = 3"]),
        ("t ANTI JOIN u ON t.k = u.k AND u.n = 1 AND t.n = 2 WHERE t.s = 'a'", ["s = 'a'", "n = 1"]),
        ("t SEMI JOIN u ON t.k = u.k AND u.n = 1 AND t.n = 2", ["n = 2", "n = 1"]),
        ("t, u WHERE n = 1 AND t.n = 2", ["n = 2", None]),
        ("t x TABLESAMPLE (50 PERCENT) WHERE n = 1", [None]),
        ("t x(a, b, c, d, e, f) WHERE a = 1", [None]),
        ("t JOIN u USING (k) WHERE k = 1 AND u.n = 1", [None, "n = 1"]),
        ("t LATERAL VIEW explode(array(1)) e AS n WHERE n = 1 AND t.n = 2", ["n = 2"]),
        ("t JOIN (SELECT n FROM u WHERE n = 4) q ON t.n = q.n WHERE n = 1 AND t.k = 2", ["k = 2", "n = 4"]),
        ("t x LEFT JOIN (t y JOIN u z ON y.n = 1) ON z.k = x.k WHERE y.k = 1", [None, None, None]),
    ],
)  # fmt: skip
def test_joins_decide_which_conditions_hold_for_a_table(
    catalog: Catalog, text: str, expected: list[str | None]
) -> None:
    found = bound(catalog, f"SELECT 1 FROM {text}")  # noqa: S608 - texts of this test
    shown = filters(found)
    assert [one for one in shown if one is not None] == [one for one in expected if one is not None]


def test_a_filter_with_rejected_nulls_counts_negations(catalog: Catalog) -> None:
    text = "SELECT 1 FROM t LEFT JOIN u ON t.k = u.k WHERE NOT (u.n = 1 AND u.x = 1.5) AND NOT (u.s IS NULL OR u.n = 2)"
    assert filters(bound(catalog, text)) == [None, "NOT (n = 1 AND x = 1.5)"]


# ---- random queries, with and without the filters -----------------------------------------------------------------


def _comparison(chance: random.Random, alias: str) -> str:
    column = chance.choice(["k", "n", "x", "s", "d", "p"])
    choices = {
        "k": ["-1", "0", "2", "3", "5"],
        "n": ["0", "1", "2.5", "3"],
        "x": ["0", "0.0", "1.5", "2"],
        "s": ["''", "'a'", "'ab'"],
        "d": ["DATE '2024-01-02'", "DATE '2024-01-04'"],
        "p": ["0.5", "-1", "1.50"],
    }[column]
    one, other = chance.choice(choices), chance.choice(choices)
    match chance.randrange(7):
        case 0:
            return f"{alias}.{column} IS {chance.choice(['', 'NOT '])}NULL"
        case 1:
            return f"{alias}.{column} {chance.choice(['', 'NOT '])}IN ({one}, {other})"
        case 2:
            return f"{alias}.{column} {chance.choice(['', 'NOT '])}BETWEEN {one} AND {other}"
        case 3 if column == "s":
            return f"{alias}.s {chance.choice(['', 'NOT '])}LIKE {chance.choice(['_', 'a%', '%b', '%'])!r}"
        case _:
            return f"{alias}.{column} {chance.choice(['=', '<>', '<', '<=', '>', '>='])} {one}"


def _condition(chance: random.Random, aliases: list[str], depth: int = 2) -> str:
    if depth == 0 or chance.random() < 0.4:
        return _comparison(chance, chance.choice(aliases))
    inner = [_condition(chance, aliases, depth - 1) for _ in range(2)]
    return f"{chance.choice(['', '', 'NOT '])}({chance.choice([' AND ', ' AND ', ' OR ']).join(inner)})"


def _query(chance: random.Random) -> str:
    shown, text = ["a"], "t a"
    for alias, table in (("b", chance.choice("tuw")), ("c", chance.choice("tuw")))[: chance.randint(0, 2)]:
        kind = chance.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"])
        on = f"{chance.choice(shown)}.k = {alias}.k AND {_condition(chance, [*shown, alias])}"
        text += f" {kind} {table} {alias} ON {on}"
        shown += [] if kind.startswith(("SEMI", "ANTI")) else [alias]
    columns = ", ".join(f"{alias}.{column}" for alias in shown for column in COLUMNS.names)
    where = " AND ".join(_condition(chance, shown) for _ in range(chance.randint(1, 2)))
    return f"SELECT {columns} FROM {text} WHERE {where}"  # noqa: S608 - random text of this test


def _rows(connection: duckdb.DuckDBPyConnection, found: BoundStatement, *, filtered: bool) -> list[tuple[object, ...]]:
    names: dict[str, str] = {}
    for number, relation in enumerate(found.relations):
        builder = relation.builder() if filtered else relation.table.new_read_builder()
        names[relation.name] = f"r{number}_{int(filtered)}"
        connection.register(names[relation.name], builder.new_read().to_arrow())
    text = found.text(0, lambda relation: names[relation.name])
    return sorted(connection.execute(text).fetchall(), key=repr)


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        yield made


@pytest.mark.parametrize("seed", range(max(2, examples(8))))
def test_random_queries_give_the_same_rows_with_and_without_filters(
    catalog: Catalog, connection: duckdb.DuckDBPyConnection, seed: int
) -> None:
    chance, said = random.Random(seed), 0
    for _ in range(20):
        text = _query(chance)
        found = bound(catalog, text)
        said += sum(one.predicate is not None for one in found.relations)
        assert _rows(connection, found, filtered=True) == _rows(connection, found, filtered=False), text
    assert said > 10  # the test is worth something


def test_files_are_left_out(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("default")
    catalog.create_table("default.t", pa.schema({"k": pa.int64(), "n": pa.int64()}))
    for number in range(3):
        lw.write_table({"k": [number], "n": [number]}, catalog.get_table("default.t"))
    found = bound(catalog, "SELECT n FROM t WHERE k = 1")
    builder = found.relations[0].builder()
    assert len([file for split in builder.new_scan().plan().splits() for file in split.files]) == 1
