"""The grammar of INSERT, UPDATE, DELETE, MERGE and COPY INTO."""

from __future__ import annotations

from typing import TypeVar

import pytest

from lakewright.errors import SQLSyntaxError, UnsupportedError
from lakewright.statements.parser import parse_script, parse_statement
from lakewright.statements.statements import (
    Action,
    CopyIn,
    CopyOut,
    Delete,
    Insert,
    MergeInto,
    Query,
    Statement,
    Update,
    When,
)

S = TypeVar("S", bound=Statement)


def _parsed(kind: type[S], text: str) -> S:
    statement = parse_statement(text)
    assert isinstance(statement, kind)
    return statement


@pytest.mark.parametrize(
    ("text", "query", "overwrite"),
    [
        ("INSERT INTO t VALUES (1, 'a;b'), (2, DEFAULT)", "VALUES (1, 'a;b'), (2, DEFAULT)", False),
        ("insert into table t select * from s", "select * from s", False),
        ("INSERT OVERWRITE t TABLE s", "TABLE s", True),
        ("INSERT OVERWRITE TABLE t (SELECT 1)", "(SELECT 1)", True),
        ("INSERT INTO t FROM s SELECT a", "FROM s SELECT a", False),
    ],
)
def test_insert_keeps_its_query_as_written(text: str, query: str, *, overwrite: bool) -> None:
    found = _parsed(Insert, text)
    assert (found.table.parts, found.query.text, found.overwrite) == (("t",), query, overwrite)
    assert (found.columns, found.partition, found.by_name) == (None, None, False)


def test_insert_with_columns_partition_and_names() -> None:
    found = _parsed(Insert, "INSERT INTO c.d.`my t` (a, `b c`) SELECT 1, 2")
    assert (found.table.parts, found.columns) == (("c", "d", "my t"), ("a", "b c"))
    found = _parsed(Insert, "INSERT OVERWRITE d.t PARTITION (dt = date '2026-01-01', hh) SELECT 1, 2")
    assert {k: v and v.text for k, v in (found.partition or {}).items()} == {"dt": "date '2026-01-01'", "hh": None}
    assert _parsed(Insert, "INSERT INTO t BY NAME SELECT 1 AS a").by_name
    found = _parsed(Insert, "INSERT INTO t REPLACE WHERE a = 1 AND b IN (2, 3) SELECT * FROM s")
    assert found.replace_where is not None
    assert (found.replace_where.text, found.query.text) == ("a = 1 AND b IN (2, 3)", "SELECT * FROM s")


def test_common_table_expressions_before_insert_are_part_of_the_query_at_their_places() -> None:
    text = "SELECT 1;\nWITH x AS (SELECT 1 AS a),\n y AS (SELECT 2)\nINSERT INTO t SELECT * FROM x"
    found = parse_script(text)[1]
    assert isinstance(found, Insert)
    assert found.query.text.split() == "WITH x AS (SELECT 1 AS a), y AS (SELECT 2) SELECT * FROM x".split()
    assert found.query.whole[text.index("SELECT * FROM x") :] == "SELECT * FROM x"
    assert found.table.parts == ("t",)
    assert isinstance(parse_statement("WITH x AS (SELECT 1 AS a) SELECT a FROM x"), Query)


def test_update_and_delete() -> None:
    found = _parsed(
        Update,
        "UPDATE d.t AS x SET x.a = CASE WHEN b THEN 1 ELSE 2 END, s.f = concat('a', ',') WHERE a IN (SELECT 1, 2)",
    )
    assert found.alias == "x"
    assert [(one.path, one.value.text) for one in found.assignments] == [
        (("x", "a"), "CASE WHEN b THEN 1 ELSE 2 END"),
        (("s", "f"), "concat('a', ',')"),
    ]
    assert found.where is not None
    assert found.where.text == "a IN (SELECT 1, 2)"
    assert _parsed(Update, "UPDATE t SET a = DEFAULT").where is None
    deleted = _parsed(Delete, "DELETE FROM t x WHERE x.a = 1")
    assert (deleted.alias, deleted.where and deleted.where.text) == ("x", "x.a = 1")
    deleted = _parsed(Delete, "DELETE FROM t")
    assert (deleted.alias, deleted.where) == (None, None)


def test_merge_with_every_clause() -> None:
    found = _parsed(
        MergeInto,
        """MERGE WITH SCHEMA EVOLUTION INTO d.t USING (SELECT * FROM u WHERE x = 1) AS s (id, v) ON t.id = s.id
        WHEN MATCHED AND CASE WHEN s.v THEN true END THEN UPDATE SET t.v = s.v, n = t.n + 1
        WHEN MATCHED THEN DELETE
        WHEN NOT MATCHED BY TARGET AND s.v > 1 THEN INSERT (id, v) VALUES (s.id, greatest(s.v, 1))
        WHEN NOT MATCHED THEN INSERT *
        WHEN NOT MATCHED BY SOURCE AND t.n = 1 THEN UPDATE SET n = DEFAULT
        WHEN NOT MATCHED BY SOURCE THEN DELETE""",
    )
    assert found.evolve
    assert (found.source.text, found.source_alias, found.source_columns) == (
        "(SELECT * FROM u WHERE x = 1)",
        "s",
        ("id", "v"),
    )
    assert found.on.text == "t.id = s.id"
    shown = [
        (
            one.when,
            one.action,
            one.condition and one.condition.text,
            one.assignments and [(each.path, each.value.text) for each in one.assignments],
        )
        for one in found.clauses
    ]
    assert shown == [
        (
            When.MATCHED,
            Action.UPDATE,
            "CASE WHEN s.v THEN true END",
            [(("t", "v"), "s.v"), (("n",), "t.n + 1")],
        ),
        (When.MATCHED, Action.DELETE, None, None),
        (When.NOT_MATCHED, Action.INSERT, "s.v > 1", [(("id",), "s.id"), (("v",), "greatest(s.v, 1)")]),
        (When.NOT_MATCHED, Action.INSERT, None, None),
        (When.NOT_MATCHED_BY_SOURCE, Action.UPDATE, "t.n = 1", [(("n",), "DEFAULT")]),
        (When.NOT_MATCHED_BY_SOURCE, Action.DELETE, None, None),
    ]


@pytest.mark.parametrize(
    ("source", "text", "alias"),
    [("d.u", "d.u", None), ("u AS s", "u", "s"), ("VALUES (1, 2), (3, 4) s", "VALUES (1, 2), (3, 4)", "s")],
)
def test_sources_of_a_merge(source: str, text: str, alias: str | None) -> None:
    found = _parsed(MergeInto, f"MERGE INTO t USING {source} ON t.a = u.a WHEN MATCHED THEN UPDATE SET *")
    assert (found.source.text, found.source_alias) == (text, alias)


def test_copy_in_and_out() -> None:
    found = _parsed(
        CopyIn,
        "COPY INTO d.t (a, b) FROM '/in' FILE_FORMAT = (TYPE = CSV, SKIP_HEADER = 1 FIELD_DELIMITER = '|') "
        "PATTERN = '.*[.]csv' FORCE = true ON_ERROR = CONTINUE",
    )
    assert (found.table.parts, found.path, found.format, found.columns) == (("d", "t"), "/in", "csv", ("a", "b"))
    assert found.options == {"SKIP_HEADER": "1", "FIELD_DELIMITER": "|"}
    assert found.settings == {"PATTERN": ".*[.]csv", "FORCE": "true", "ON_ERROR": "CONTINUE"}
    out = _parsed(CopyOut, "COPY INTO '/out' FROM (SELECT a FROM t) FILE_FORMAT = (TYPE = 'parquet') OVERWRITE = TRUE")
    assert (out.path, out.query.text, out.format, out.settings) == (
        "/out",
        "SELECT a FROM t",
        "parquet",
        {"OVERWRITE": "TRUE"},
    )
    assert _parsed(CopyOut, "COPY INTO '/out' FROM d.t FILE_FORMAT = (TYPE = JSON)").query.text == "TABLE d.t"


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("INSERT t VALUES (1)", "expected INTO", 8),
        ("INSERT INTO t (a, A) VALUES (1)", "'A' is there twice", 19),
        ("INSERT INTO t 5", "expected a query or VALUES", 15),
        ("UPDATE t x SETT a = 1", "expected SET, found 'SETT'", 12),
        ("UPDATE t SET a 1", "expected =", 16),
        ("DELETE FROM t WHERE", "expected a condition", 20),
        ("DELETE FROM t WHERE a = 1) b", "expected the end of the statement", 26),
        ("MERGE INTO t USING s ON t.a = s.a", "expected WHEN MATCHED or WHEN NOT MATCHED", 34),
        ("MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN INSERT *", "expected UPDATE SET or DELETE", 53),
        ("MERGE INTO t USING s ON a = b WHEN NOT MATCHED THEN DELETE", "expected INSERT", 53),
        ("MERGE INTO t USING s ON a = b WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *", "expected assignments", 74),
        ("MERGE INTO t USING s ON a = b WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)", "2 columns and has 1", 74),
        (
            "MERGE INTO t USING s ON a = b WHEN MATCHED THEN DELETE WHEN MATCHED AND c THEN UPDATE SET *",
            "only the last clause of a kind may lack a condition",
            56,
        ),
        ("COPY INTO t FROM '/in' FILE_FORMAT = (TYPE = XML)", "TYPE = XML", 38),
        ("COPY INTO t FROM '/in' FILE_FORMAT = (TYPE = CSV) COLOR = red", "expected one of PATTERN", 51),
    ],
)
def test_what_does_not_fit_is_shown_with_its_place(text: str, message: str, column: int) -> None:
    with pytest.raises(SQLSyntaxError, match=message) as caught:
        parse_statement(text)
    assert caught.value.facts["column_number"] == column


@pytest.mark.parametrize(
    "text",
    [
        "INSERT OVERWRITE t PARTITION (a = 1) IF NOT EXISTS SELECT 1",
        "INSERT OVERWRITE DIRECTORY '/x' SELECT 1",
        "WITH s AS (SELECT 1) MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE",
    ],
)
def test_what_is_not_supported_is_refused_by_name(text: str) -> None:
    with pytest.raises(UnsupportedError):
        parse_statement(text)
