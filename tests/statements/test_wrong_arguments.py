"""Every argument of the calls that run SQL in this process, given values of wrong types, raises an error that names it.

They are loaded when first used and so stand outside of `__all__`, where tests/test_wrong_inputs.py does not look.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakewright as lw

_ROWS = pa.table({"a": [1]})
_NO_TEXT = [
    None,
    0,
    1.5,
    True,
    b"x",
    object(),
    [],
    ["a"],
    {},
    {"a": 1},
    set(),
    len,
    str,
    _ROWS,
    "",
    " ",
    "\0",
    "\ud800",
]
_NO_ARGS = [0, 1.5, True, b"x", "x", "", object(), {1: 2}, {"": 1}, set(), len, str, _ROWS, Path("x")]
_NO_ROWS = [
    None,
    0,
    1.5,
    True,
    b"x",
    "x",
    object(),
    [],
    (),
    [1],
    {1: 2},
    {"a": 1},
    {"a": [1], "b": []},
    set(),
    len,
    str,
]
_NO_CATALOG = [None, 0, 1.5, True, b"x", object(), [], ["a"], {}, {1: 2}, {"a": 1}, set(), len, str, _ROWS]
_WRONG = {
    "catalog": _NO_CATALOG,
    "database": [*_NO_TEXT, Path("x")],
    "text": [*_NO_TEXT, Path("x")],
    "script": _NO_TEXT,
    "args": _NO_ARGS,
    "name": [*_NO_TEXT, Path("x")],
    "data": _NO_ROWS,
    "frames": _NO_ROWS,
}
_RIGHT: dict[str, object] = {"text": "SELECT 1 AS one", "script": "SELECT 1 AS one", "name": "v", "data": _ROWS}


def _calls(place: Path) -> dict[str, Callable[..., Any]]:
    ctx = lw.SQLContext(place)
    return {
        "SQLContext": lw.SQLContext,
        "SQLContext.sql": ctx.sql,
        "SQLContext.script": ctx.script,
        "SQLContext.register": ctx.register,
        "lakewright.sql": lw.sql,
    }


@pytest.mark.parametrize(
    "call", ["SQLContext", "SQLContext.sql", "SQLContext.script", "SQLContext.register", "lakewright.sql"]
)
def test_a_wrong_argument_is_an_error_that_names_it(call: str, tmp_path: Path) -> None:
    function = _calls(tmp_path)[call]
    needed = {
        name: _RIGHT.get(name, tmp_path)
        for name, one in inspect.signature(function).parameters.items()
        if one.default is inspect.Parameter.empty and one.kind is not inspect.Parameter.VAR_KEYWORD
    }
    function(**needed)
    for argument in inspect.signature(function).parameters:
        for value in _WRONG[argument]:
            # Frames are given by names of their own.
            named = "data" if argument == "frames" else argument
            with pytest.raises(lw.LakewrightError, match=rf"\b{named}\b"):
                function(**{**needed, argument: value})


@pytest.mark.parametrize("value", [object(), {}, {"a": 1}, set(), [], [object()], len, Path("x"), "\ud800", _ROWS])
def test_a_wrong_value_of_a_parameter_is_an_error(value: object, tmp_path: Path) -> None:
    with pytest.raises(lw.InvalidInputError, match="a value in args takes"):
        lw.sql("SELECT :x AS x", {"x": value}, catalog=tmp_path)
    with pytest.raises(lw.InvalidInputError, match="a value in args takes"):
        lw.sql("SELECT ? AS x", [value], catalog=tmp_path)


def test_a_text_of_a_parameter_arrives_as_it_is(tmp_path: Path) -> None:
    given = "a'b\\n\0\u20ac\U0001f600\n"
    assert lw.sql("SELECT ? AS x", [given], catalog=tmp_path).to_pylist() == [{"x": given}]
