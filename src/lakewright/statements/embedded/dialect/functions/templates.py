"""Functions whose translation is a text: the types of the arguments, the type of the result, and the call in DuckDB."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakewright.errors import InvalidInputError
from lakewright.statements.embedded.dialect.values import Binder, Function, Value


def named(name: str, values: Sequence[Value]) -> str:
    """Return Spark's name of a call."""
    return f"{name}({', '.join(value.name for value in values)})"


def template(name: str, text: str, gives: pa.DataType, *takes: pa.DataType) -> Function:
    """Return the function of a text in which `{0}`, `{1}` ... stand for the arguments, which are cast to `takes`."""

    def function(binder: Binder, values: list[Value]) -> Value:
        if len(values) != len(takes):
            raise InvalidInputError(f"{name} takes {len(takes)} arguments, not {len(values)}")
        done = [binder.cast(value, kind) for value, kind in zip(values, takes, strict=True)]
        return Value(text.format(*(one.sql for one in done)), gives, named(name, values))

    return function


def with_arity(name: str, *choices: Function) -> Function:
    """Return a function that has several numbers of arguments, each with a choice of its own."""

    def function(binder: Binder, values: list[Value]) -> Value:
        errors: list[InvalidInputError] = []
        for choice in choices:
            try:
                return choice(binder, values)
            except InvalidInputError as error:
                if " arguments, not " not in error.message:
                    raise
                errors.append(error)
        raise InvalidInputError(f"{name} does not take {len(values)} arguments")

    return function


def literal_text(name: str, value: Value, what: str) -> str:
    """Return the text of an argument that must be a literal, because it is translated."""
    if not isinstance(value.literal, str):
        raise InvalidInputError(f"{name}: {what} must be a text in quotes here, not {value.name}")
    return value.literal
