from __future__ import annotations

from pathlib import Path

import pytest

import lakewright as lw
from lakewright.errors import ColumnNotExistException, SQLSyntaxError, TableNotExistException
from lakewright.statements.parser import parse_script, parse_statement
from lakewright.statements.sql_text import Fragment
from lakewright.statements.statements import Native, Query
from lakewright.statements.token_cursor import TokenCursor


def cursor(text: str) -> TokenCursor:
    return TokenCursor(Fragment(text, 0, len(text)))


def test_a_script_is_split_at_semicolons_outside_texts_and_comments() -> None:
    script = "SELECT ';' -- one; two\n;\n; /* x; */ SELECT `a;b`; ;"
    assert [one.text.text for one in parse_script(script)] == ["SELECT ';'", "SELECT `a;b`"]


def test_the_words_of_a_command_are_read_one_by_one() -> None:
    assert [word.text for word in cursor("SHOW TABLES IN d").words] == ["SHOW", "TABLES", "IN", "d"]
    script = "CALL sys.create_tag('t', 'a;b'); SHOW TABLES"
    assert [one.text.text for one in parse_script(script)] == ["CALL sys.create_tag('t', 'a;b')", "SHOW TABLES"]


def test_a_doubled_quote_stands_for_the_quote() -> None:
    words = cursor("""'it''s' "a""b" 'x' 'y' '' 'a"''b'""").words
    assert [word.text for word in words] == ["it's", 'a"b', "x", "y", "", "a\"'b"]


def test_a_query_and_anything_else() -> None:
    assert isinstance(parse_statement("with a as (select 1) select * from a;"), Query)
    assert isinstance(parse_statement("CLEAR CACHE"), Native)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [("SELECT 'abc", 1, 8), ("SELECT 1;\n  SELECT 2", 2, 3), ("", 1, 1)],
)
def test_an_error_names_line_and_column(text: str, line: int, column: int) -> None:
    with pytest.raises(SQLSyntaxError) as caught:
        parse_statement(text) if text else parse_statement("  -- nothing")
    assert (caught.value.line, caught.value.column_number) == (line, column)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("SELECT id, FROM t GROUP", 10),
        ("SELECT id FROM t ORDER BY id,", 29),
        ("SELECT id, id, FROM t", 14),
        ("SELECT * FROM (SELECT id, FROM t)", 25),
        ("SELECT id,, id FROM t", 10),
        ("SELECT count(id,) FROM t", 16),
        ("SELECT id FROM t WHERE id IN (1,)", 32),
        ("SELECT id FROM t WHERE id IN ()", 24),
        ("SELECT id FROM t WHERE id = ", 27),
        ("SELECT id FROM t WHERE", 18),
        ("SELECT CAST(id, 1 AS INT) FROM t", 17),
        ("SELECT CASE WHEN id FROM t", 21),
        ("DELETE FROM t WHERE id IN (1,)", 29),
        ("INSERT INTO t VALUES (1,)", 24),
        ("INSERT INTO t VALUES (1),", 25),
    ],
)
def test_what_spark_cannot_read_is_a_syntax_error_in_plain_words(tmp_path: Path, text: str, column: int) -> None:
    context = lw.SQLContext(str(tmp_path))
    context.sql("CREATE DATABASE d")
    context.sql("CREATE TABLE d.t (id INT)")
    context.sql("USE d")
    with pytest.raises(SQLSyntaxError) as caught:
        context.sql(text)
    assert caught.value.column_number == column
    assert "sqlglot" not in str(caught.value)
    assert context.sql("SELECT 'a,)', `id` FROM t GROUP").num_rows == 0


def test_a_syntax_error_in_a_later_statement_shows_its_own_line() -> None:
    fragment = parse_script("SELECT 1;\nSELECT (a\n FROM t")[1].text
    with pytest.raises(SQLSyntaxError, match=r"line 3, column 2\)\n FROM t\n \^"):
        _ = fragment.tree


def test_an_expression_ends_at_a_phrase_outside_brackets_and_cases() -> None:
    words = cursor("f(a, WHEN) + CASE WHEN b THEN c END WHEN MATCHED THEN x")
    assert words.until("WHEN MATCHED").text == "f(a, WHEN) + CASE WHEN b THEN c END"
    assert words.accept("when", "matched", "then")
    assert words.name() == "x"
    words.expect_end()


def test_names_are_plain_or_in_backticks() -> None:
    name = cursor("a.`b c`.`t$snapshots`").qualified_name()
    assert name.parts == ("a", "b c", "t$snapshots")
    assert name.place.text == "a.`b c`.`t$snapshots`"
    assert cursor("a.t$branch_b$files").qualified_name().parts == ("a", "t$branch_b$files")
    with pytest.raises(SQLSyntaxError, match="expected the name of a table, found 'x'"):
        cursor("'x'").qualified_name()


def test_text_is_replaced_at_places_and_braces_are_doubled() -> None:
    fragment = Fragment("-- SELECT '{}' FROM t JOIN t", 3, 28)
    places = {(17, 18): "{a}", (24, 25): "{b}"}
    assert fragment.replace_at(places, escape_braces=True) == "SELECT '{{}}' FROM {a} JOIN {b}"


def test_a_missing_column_shows_the_place_in_the_users_text_and_the_nearest_name(tmp_path: Path) -> None:
    context = lw.SQLContext(str(tmp_path))
    context.sql("CREATE TABLE orders (id BIGINT, amount INT, day DATE)")
    with pytest.raises(ColumnNotExistException) as caught:
        context.sql("SELECT id\nFROM orders o WHERE o.amout = 1")
    assert str(caught.value) == (
        "there is no column 'o.amout'; did you mean 'amount'? (line 2, column 21)\n"
        "FROM orders o WHERE o.amout = 1\n                    ^"
    )
    with pytest.raises(TableNotExistException, match=r"did you mean 'orders'\?"):
        context.sql("SELECT 1 FROM oders")


def test_parameters_by_place_keep_their_values(tmp_path: Path) -> None:
    rows = lw.SQLContext(str(tmp_path)).sql("SELECT ? AS a, '?' AS b, ? AS c", args=[1, "x"])
    assert rows.to_pylist() == [{"a": 1, "b": "?", "c": "x"}]
