"""The prompt of `lakewright sql`, with keys from a pipe instead of a terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import lakewright as lw
from lakewright.cli.sql_prompt import CompletionNames, Prompt, _Completer, _history, completions, help_text, is_complete
from support.fake_statements import FakeContext


@pytest.fixture
def context(tmp_path: Path) -> FakeContext:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path / "w")})
    catalog.create_database("sales")
    catalog.create_table("sales.orders", pa.schema({"order_id": pa.int64(), "customer": pa.string()}))
    made = FakeContext(catalog, "sales")
    made.answers["SELECT 1"] = pa.table({"one": [1]})
    return made


@pytest.fixture
def enter(context: FakeContext, capsys: pytest.CaptureFixture[str]) -> Callable[[str], tuple[str, str]]:
    """Return a function that types keys, and returns what was written to stdout and stderr."""

    def typed(keys: str) -> tuple[str, str]:
        with create_pipe_input() as source:
            source.send_text(keys)
            Prompt(context, quiet=True).run(source, DummyOutput(), InMemoryHistory())
        said = capsys.readouterr()
        return said.out, said.err

    return typed


Enter = Callable[[str], tuple[str, str]]
CTRL_C, CTRL_D = "\x03", "\x04"


def test_statements_of_several_lines(context: FakeContext, enter: Enter) -> None:
    context.answers["SELECT\n2"] = pa.table({"two": [2]})
    out, err = enter("SELECT\r2;\rSELECT 1;\r" + CTRL_D)
    assert out == "two\n  2\none\n  1\n"
    assert [line.partition(" in ")[0] for line in err.splitlines()] == ["1 row", "1 row"]


def test_keys_that_drop_the_input_and_end(context: FakeContext, enter: Enter) -> None:
    enter(f"SELECT 7{CTRL_C}SELECT 1;\r{CTRL_D}")
    assert [text for text, _ in context.asked] == ["SELECT 1"]


def test_a_statement_that_is_stopped(context: FakeContext, enter: Enter) -> None:
    def stopped() -> pa.Table:
        raise KeyboardInterrupt

    context.answers["SELECT 9"] = stopped
    out, err = enter("SELECT 9;\rSELECT 1;\rexit\r")
    assert out == "one\n  1\n"
    assert err.startswith("cancelled\n1 row in ")


def test_errors_do_not_end_the_prompt(context: FakeContext, enter: Enter) -> None:
    def broken() -> pa.Table:
        raise ZeroDivisionError

    context.answers["SELECT 9"] = broken
    out, err = enter("CALL sys.nothing();\rSELECT 9;\rSELECT 1;\r\\q\r")
    assert out == "one\n  1\n"
    assert "error: there is no procedure 'nothing'" in err
    assert "\nCALL sys.nothing();\n     ^\n" in err
    assert "error: ZeroDivisionError: " in err


def test_words_of_the_prompt(enter: Enter) -> None:
    out, err = enter("help\r\\timing\rSELECT 1;\rCLEAR CACHE;\rquit\r")
    assert "Statements end with ;" in out
    assert err == "timing is off\n1 row\ndone\n"


def test_what_tab_inserts(context: FakeContext) -> None:
    completer = _Completer(CompletionNames(context))
    (found,) = completer.get_completions(Document("SELECT * FROM ord"), CompleteEvent())
    assert (found.text, found.start_position) == ("orders", -3)


def test_entries_are_kept_for_the_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    history = _history()
    assert isinstance(history, FileHistory)
    path = tmp_path / "lakewright" / "sql-history"
    assert path.stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null/x")
    assert isinstance(_history(), InMemoryHistory)


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SELECT 1;", True),
        ("SELECT ';", False),
        ("SELECT 1; -- more", True),
        ("/* ; ", False),
        ("SELECT ';'", False),
        ("", True),
        ("\\timing", True),
        ("help", True),
    ],
)
def test_when_enter_runs_a_text(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("SEL", ["SELECT"]),
        ("sel", ["select"]),
        ("SELECT * FROM ", ["orders", "default.", "sales."]),
        ("SELECT * FROM sal", ["sales."]),
        ("SELECT * FROM sales.o", ["sales.orders"]),
        ("SELECT 1; SELECT * FROM orders WHERE cus", ["customer"]),
        ("SELECT o.cu", []),
        ("SELECT * FROM orders o WHERE o.cu", ["o.customer"]),
        ("USE sa", ["sales"]),
        ("CALL sys.rollback_to_t", ["sys.rollback_to_timestamp"]),
        ("CALL sys.rename_tag(", ["table => ", "tag => ", "target_tag => "]),
        ("CALL sys.rename_tag(table => 'x', ta", ["tag => ", "target_tag => "]),
        ("CALL sys.rename_tag(table => 'ta", []),
        ("CREATE TABLE t (a INT) TBLPROPERTIES ('merge-e", ["merge-engine"]),
        ("CREATE TABLE t (a INT) TBLPROPERTIES ('bucket'='1', 'merge-e", ["merge-engine"]),
        ("DESCRIBE PROCEDURE sys.comp", ["sys.compact", "sys.compact_database", "sys.compact_manifest"]),
    ],
)
def test_what_may_come_next(context: FakeContext, before: str, expected: list[str]) -> None:
    context.catalog.create_database("default", ignore_if_exists=True)
    assert completions(before, CompletionNames(context))[1] == expected


def test_a_catalog_that_fails_costs_only_its_names(context: FakeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object) -> list[str]:
        raise OSError

    names = CompletionNames(context)
    monkeypatch.setattr(type(context.catalog), "list_databases", fails)
    assert completions("USE ", names)[1] == []
    monkeypatch.undo()
    assert completions("USE ", names)[1] == []  # it is remembered for some seconds
    names.forget()
    assert completions("USE sa", names)[1] == ["sales"]


def test_help_is_wrapped_by_words() -> None:
    text = help_text(60)
    assert max(map(len, text.splitlines())) <= 60
    assert " ".join(help_text(1000).split()) == " ".join(text.split())
