"""Which tables a text reads, and what an engine gets in the place of their names."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.catalog.catalog import Catalog
from lakewright.errors import BranchNotExistException, InvalidInputError, NotFoundError, SQLSyntaxError
from lakewright.statements.bind_tables import BoundStatement, BoundTable, bind
from lakewright.statements.embedded.embedded_context import SQLContext
from lakewright.statements.parser import parse_statement
from lakewright.statements.spark_grammar import FragmentKind
from lakewright.statements.sql_text import Args, Fragment
from support.lookup import DAY_MILLIS, Engine


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path_factory.mktemp("warehouse"))})
    columns = pa.schema({"a": pa.int64(), "b": pa.string(), "c": pa.float64()})
    for database in ("default", "other"):
        made.create_database(database)
        for table in ("t", "u"):
            made.create_table(f"{database}.{table}", columns)
            for number in range(2):
                lw.write_table({"a": [number], "b": ["x"], "c": [1.0]}, made.get_table(f"{database}.{table}"))
    made.get_table("default.t").create_tag("one", 1)
    parts = lw.Schema.from_pyarrow_schema(
        pa.schema({"day": pa.string(), "hour": pa.int32(), "n": pa.int64()}), partition_keys=["day", "hour"]
    )
    made.create_table("default.parts", parts)
    rows = {"day": ["2024-01-02", "2024-01-10"], "hour": [1, 2], "n": [1, 2]}
    lw.write_table(
        pa.table(rows, schema=pa.schema([("day", pa.string()), ("hour", pa.int32()), ("n", pa.int64())])),
        made.get_table("default.parts"),
    )
    return made


def bound(catalog: Catalog, text: str, args: Args | None = None, **settings: str) -> BoundStatement:
    return bind(SQLContext({"lake": catalog}), Engine(**settings), [parse_statement(text).text], args or {})


def rewritten(found: BoundStatement) -> str:
    return found.text(0, lambda relation: f"<{relation.name}>")


def states(found: BoundStatement) -> list[tuple[str, int | None, dict[str, str]]]:
    keys = ("scan.", "incremental")
    return [
        (one.table.name, one.snapshot_id, {k: v for k, v in one.table.options.values.items() if k.startswith(keys)})
        for one in found.relations
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a FROM t", "SELECT a FROM <t> AS `t`"),
        ("SELECT x.a FROM t x JOIN t AS y ON x.a = y.a", "SELECT x.a FROM <t> x JOIN <t> AS y ON x.a = y.a"),
        ("TABLE t", "TABLE <t>"),
        ("FROM t SELECT a", "FROM <t> AS `t` SELECT a"),
        ("(TABLE t) UNION ALL TABLE u", "(TABLE <t>) UNION ALL TABLE <u>"),
        ("SELECT * FROM v, lake.other.u", "SELECT * FROM v, <u> AS `u`"),
        ("SELECT * FROM V", "SELECT * FROM V"),
        ("SELECT * FROM spark_catalog.default.t", "SELECT * FROM spark_catalog.default.t"),
        ("SELECT * FROM parquet.`/x/y.z`, a.b.c.d", "SELECT * FROM parquet.`/x/y.z`, a.b.c.d"),
        ("SELECT lake.default.t.a, default.t.* FROM t", "SELECT `t`.a, `t`.* FROM <t> AS `t`"),
        (
            "SELECT default.t.a, other.t.b FROM t JOIN other.t WHERE 1 IN (SELECT t.a FROM other.t)",
            "SELECT `default.t`.a, `other.t`.b FROM <t> AS `default.t` JOIN <t_2> AS `other.t` WHERE 1 IN (SELECT t.a FROM <t_2> AS `t`)",  # noqa: E501
        ),
        ("SELECT Other.T.a FROM other.t", "SELECT `t`.a FROM <t> AS `t`"),
        ("SELECT * FROM range(3), explode(array(1)), VALUES (1)",) * 2,
        ("SELECT * FROM t LATERAL VIEW explode(b) x AS y", "SELECT * FROM <t> AS `t` LATERAL VIEW explode(b) x AS y"),
        ("SELECT * FROM t PIVOT (sum(a) FOR b IN ('x'))", "SELECT * FROM <t> AS `t` PIVOT (sum(a) FOR b IN ('x'))"),
        ("SELECT * FROM t TABLESAMPLE (2 ROWS) WHERE 1=1", "SELECT * FROM <t> TABLESAMPLE (2 ROWS) AS `t`  WHERE 1=1"),
        ("SELECT * FROM IDENTIFIER('other.t')", "SELECT * FROM <t> AS `t`"),
        ("SELECT * FROM (t JOIN u USING (a))", "SELECT * FROM (<t> AS `t` JOIN <u> AS `u` USING (a))"),
        ("SELECT 't', `t` FROM (SELECT 1 AS t)",) * 2,
        (
            "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a)",
            "SELECT a FROM <t> AS `t` WHERE EXISTS (SELECT 1 FROM <u> AS `u` WHERE u.a = t.a)",
        ),
        ("SELECT * FROM t$files f", "SELECT * FROM <t_files> f"),
    ],
)
def test_names_of_tables_are_replaced_and_keep_their_alias(catalog: Catalog, text: str, expected: str) -> None:
    assert rewritten(bound(catalog, text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", "WITH t AS (SELECT * FROM <t> AS `t`) SELECT * FROM t"),
        ("WITH T AS (SELECT 1) SELECT * FROM t, other.t", "WITH T AS (SELECT 1) SELECT * FROM t, <t> AS `t`"),
        ("WITH u AS (SELECT 1), t AS (SELECT * FROM u) SELECT * FROM t",) * 2,
        (
            "WITH t AS (SELECT * FROM u), u AS (SELECT 1) SELECT * FROM t",
            "WITH t AS (SELECT * FROM <u> AS `u`), u AS (SELECT 1) SELECT * FROM t",
        ),
        (
            "SELECT * FROM (WITH t AS (SELECT 1) SELECT * FROM t) x, t y",
            "SELECT * FROM (WITH t AS (SELECT 1) SELECT * FROM t) x, <t> y",
        ),
        ("WITH t AS (SELECT 1) SELECT * FROM (SELECT * FROM t WHERE 1 IN (SELECT 1 FROM t))",) * 2,
        ("WITH t AS (SELECT 1) SELECT * FROM t VERSION AS OF 1", "WITH t AS (SELECT 1) SELECT * FROM <t> AS `t`"),
    ],
)
def test_a_cte_of_the_scope_comes_first(catalog: Catalog, text: str, expected: str) -> None:
    assert rewritten(bound(catalog, text)) == expected


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("SELECT * FROM t VERSION AS OF 1", {"scan.version": "1"}),
        ("SELECT * FROM t FOR VERSION AS OF 'one' x", {"scan.version": "one"}),
        ("SELECT * FROM t FOR SYSTEM_VERSION AS OF 1 AS x", {"scan.version": "1"}),
        ("SELECT /*+ OPTIONS('scan.tag-name' = 'one') */ * FROM t x", {"scan.tag-name": "one"}),
        ("SELECT * FROM t /*+ OPTIONS('scan.snapshot-id'='1') */ x", {"scan.snapshot-id": "1"}),
        ("SELECT * FROM t /*+ OPTIONS('scan.snapshot-id'='1') */ ", {"scan.snapshot-id": "1"}),
        ("SELECT * FROM t AS x /*+ OPTIONS('scan.snapshot-id'='1') */ WHERE 1=1", {"scan.snapshot-id": "1"}),
        ("SELECT * FROM paimon_incremental_query('t', 1, 'one')", {"incremental-between": "1,one"}),
        ("SELECT * FROM paimon_incremental_query('default.t', '0', :to) x", {"incremental-between": "0,2"}),
    ],
)
def test_time_travel_and_options_of_a_reference(catalog: Catalog, text: str, options: dict[str, str]) -> None:
    found = bound(catalog, text, {"to": 2})
    assert states(found) == [("default.t", None, options)]
    assert "OPTIONS" not in rewritten(found)
    assert " OF " not in rewritten(found)


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("'2999-01-01 00:00:00'", 32472144000000),
        ("TIMESTAMP '2999-01-01'", None),
        ("now() - interval 1 day", DAY_MILLIS),
        ("32472144000", 32472144000000),
        (":at", 32472144000000),
    ],
)
def test_a_time_is_one_of_the_session_or_an_expression(catalog: Catalog, text: str, millis: int | None) -> None:
    query = f"SELECT * FROM t TIMESTAMP AS OF {text} x WHERE a > 1"  # noqa: S608 - texts of this test
    if millis in (None, DAY_MILLIS):
        with pytest.raises(NotFoundError, match="line 1, column 15"):  # before the first snapshot
            bound(catalog, query)
        return
    found = bound(catalog, query, {"at": "2999-01-01"})
    assert states(found)[0][2] == {"scan.timestamp-millis": str(millis)}
    assert rewritten(found) == "SELECT * FROM <t> x WHERE a > 1"


def test_settings_hold_for_all_tables_or_for_one(catalog: Catalog) -> None:
    text = "SELECT * FROM t, u, other.t AS o"
    of_one = {"lake.default.t.scan.snapshot-id": "1", "other.t.scan.snapshot-id": "2", "x.y.scan.snapshot-id": "3"}
    one = {"scan.snapshot-id": "1"}
    two = {"scan.snapshot-id": "2"}
    assert states(bound(catalog, text, **of_one)) == [
        ("default.t", None, one),
        ("default.u", 2, {}),
        ("other.t", None, two),
    ]
    every = {"scan.snapshot-id": "1", "*.*.u.scan.snapshot-id": "2"}
    assert [state[2] for state in states(bound(catalog, text, **every))] == [one, two, one]


def test_hints_that_are_none_of_ours_stay(catalog: Catalog) -> None:
    text = "SELECT /*+ OPTIONS('scan.snapshot-id'='1'), BROADCAST(t) */ a, '/*+ OPTIONS(1) */' FROM t"
    assert rewritten(bound(catalog, text)) == "SELECT /*+ BROADCAST(t) */ a, '/*+ OPTIONS(1) */' FROM <t> AS `t`"


def test_one_table_is_read_at_one_snapshot(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("default")
    catalog.create_table("default.t", pa.schema({"a": pa.int64(), "b": pa.int64()}))
    table = catalog.get_table("default.t")
    lw.write_table({"a": [1], "b": [1]}, table)
    catalog.alter_table("default.t", [lw.SchemaChange.add_column("c", lw.AtomicType("INT"))])
    found = bound(catalog, "SELECT x.*, (SELECT max(a) FROM t) FROM t x JOIN t y ON x.a = y.b")
    lw.write_table({"a": [2], "b": [1]}, table)
    assert {one.snapshot_id for one in found.relations} == {1}
    rows = [one.builder().new_read().to_arrow() for one in found.relations]
    assert [one.num_rows for one in rows] == [1] * len(rows)
    assert any("c" in one.column_names for one in rows)  # the columns of today
    pinned = bind(SQLContext({"lake": catalog}), Engine(), [Fragment("TABLE t", 0, 7)], {}, at=(table, 1))
    assert [one.snapshot_id for one in pinned.relations] == [1]


def columns_of(found: BoundStatement) -> dict[str, tuple[str, ...] | None]:
    return {one.name: one.columns for one in found.relations}


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT A FROM t", ("a",)),
        ("SELECT count(*) FROM t WHERE b = 'c'", ("b",)),
        ("SELECT count(*) FROM t", ("a",)),
        ('SELECT "c" FROM t', ("c",)),
        ("SELECT * FROM t", None),
        ("SELECT t.* FROM t", None),
        ("SELECT struct(*) FROM t", None),
        ("SELECT count(t.*) FROM t", None),
        ("SELECT a FROM t NATURAL JOIN v", None),
        ("SELECT a FROM t x(i, j, a)", None),
        ("SELECT x FROM t UNPIVOT (x FOR y IN (a))", None),
        ("SELECT v.* FROM t, v WHERE t.a = 1", ("a",)),
        ("SELECT `(b)?+.+` FROM t", None),
        ("SELECT * FROM (SELECT a FROM t)", ("a",)),
        ("FROM t |> WHERE a > 1", None),
    ],
)
def test_columns_that_a_statement_does_not_name_are_not_read(
    catalog: Catalog, text: str, columns: tuple[str, ...] | None
) -> None:
    assert columns_of(bound(catalog, text)) == {"t": columns}


def test_the_greatest_partition_is_a_literal(catalog: Catalog) -> None:
    text = "SELECT n FROM parts WHERE day = sys.max_pt('parts') OR day = max_pt('default.parts')"
    expected = "SELECT n FROM <parts> AS `parts` WHERE day = '2024-01-10' OR day = '2024-01-10'"
    assert rewritten(bound(catalog, text)) == expected


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("SELECT * FROM t VERSION AS OF 17", NotFoundError, "line 1, column 15"),
        ("SELECT 1,\n  * FROM t$branch_x", BranchNotExistException, r"line 2, column 10\)\n  \* FROM t\$branch_x"),
        ("SELECT * FROM `t$nothing`", NotFoundError, r"\$snapshots"),
        ("SELECT sys.max_pt('t')", InvalidInputError, "no partitions"),
        ("SELECT sys.max_pt('x.y')", NotFoundError, "x.y"),
        ("SELECT * FROM paimon_incremental_query('t', 1)", SQLSyntaxError, "3 arguments, not 2"),
        ("SELECT * FROM paimon_incremental_query('tt', 1, 2)", NotFoundError, "did you mean 't'"),
        ("SELECT * FROM t /*+ OPTIONS('scan.snapshot-id') */", SQLSyntaxError, "expected ="),
        ("SELECT * FROM t VERSION AS OF", SQLSyntaxError, "line 1"),
        ("SELECT * FROM t TIMESTAMP AS OF 'soon'", SQLSyntaxError, "'soon' is no time"),
        ("SELECT * FROM t TIMESTAMP AS OF ? WHERE a = ?", SQLSyntaxError, "by name"),
        ("SELECT * FROM paimon_incremental_query('t', ?, ?) WHERE a = ?", SQLSyntaxError, "by name"),
        ("SELECT FROM WHERE", SQLSyntaxError, "line 1"),
    ],
)
def test_wrong_texts_show_the_place(catalog: Catalog, text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        bound(catalog, text)


def test_a_name_that_nobody_knows_is_near_to_others(catalog: Catalog) -> None:
    found = bound(catalog, "SELECT * FROM t, oter.t, tt")
    assert [str(name) for name in found.left] == ["oter.t", "tt"]
    assert "did you mean 'other'" in str(found.missing(found.left[0]))
    assert "did you mean 't'" in str(found.missing(found.left[1]))


def test_slices_of_a_change_are_bound_together(catalog: Catalog) -> None:
    text = "MERGE INTO t USING u AS s ON t.a = s.a WHEN MATCHED AND s.b > (SELECT max(c) FROM other.t) THEN DELETE"
    source, condition = text.index("u AS"), text.index("s.b")
    fragments = [
        (Fragment(text, source, source + 1), FragmentKind.RELATION),
        (Fragment(text, condition, text.index(" THEN")), FragmentKind.EXPRESSION),
    ]
    found = bind(SQLContext({"lake": catalog}), Engine(), fragments, {})

    def name(relation: BoundTable) -> str:
        return f"<{relation.name}>"

    assert [found.text(number, name) for number in (0, 1)] == ["<u>", "s.b > (SELECT max(c) FROM <t> AS `t`)"]
    assert columns_of(found) == {"u": None, "t": ("b", "c")}
