"""Engines and optional libraries by the type of the data that a caller hands in; each is loaded on first use.

Frames of other libraries are recognised by their types, without importing the library:

    pandas                     becomes an Arrow table; named levels of the index are columns, others are dropped
    a dict, a list of dicts    are columns, and rows: a dict whose values are all lists or arrays is columns
    Spark                      goes to the verbs of `lakewright.spark`, whose workers hold the rows
    Ray                        goes to the verbs of `lakewright.ray`
    pandas on Spark            refused: `to_spark()` says what becomes of its index

Invariant: rows that the workers of an engine hold come into this process only if the caller fetches them.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from lakewright.errors import InvalidInputError, UnsupportedError


def _spark() -> ModuleType:
    from lakewright import spark  # noqa: PLC0415 - lazy

    return spark


def _ray() -> ModuleType:
    from lakewright import ray  # noqa: PLC0415 - lazy

    return ray


class _Engine(NamedTuple):
    """An engine whose workers hold the rows of its frames."""

    load: Callable[[], ModuleType]  # imports the module of the engine in this package, when one of its frames is given
    room: str  # the name of that module
    title: str
    frame: str  # what it calls its frames
    fetch: str  # how a user brings the rows into this process


_SPARK = _Engine(_spark, "spark", "Spark", "frame", "df.toArrow()")
_RAY = _Engine(_ray, "ray", "Ray", "dataset", "pa.concat_tables(ray.get(dataset.to_arrow_refs()))")
_FRAMES = {("pyspark.sql", "DataFrame"): _SPARK, ("ray.data", "Dataset"): _RAY}  # package and name of a type


def engine_verb(data: object, verb: str) -> Callable[..., Any] | None:
    """Return the verb of the engine whose frame this is; None where the data is in this process.

    A verb that the engine does not have yet is refused.
    """
    engine = _engine_of(data)
    if engine is None:
        return None
    function: Callable[..., Any] | None = getattr(engine.load(), verb, None)
    if function is None:
        raise UnsupportedError(
            f"lakewright.{engine.room} has no {verb!r} for a {engine.title} {engine.frame}; bring the rows into this "
            f"process with {engine.fetch} and give those, or write them with lakewright.{engine.room}.write_table"
        )
    return function


def refuse_pandas_on_spark(data: object) -> None:
    """Raise InvalidInputError for a frame of pyspark.pandas."""
    if _is_a(data, "pyspark.pandas", "DataFrame"):
        raise InvalidInputError(
            "a frame of pyspark.pandas has an index that Spark frames lack; give frame.to_spark(), or "
            "frame.to_spark(index_col='id') to keep the index as a column"
        )


def _engine_of(data: object) -> _Engine | None:
    refuse_pandas_on_spark(data)
    return next((engine for (package, name), engine in _FRAMES.items() if _is_a(data, package, name)), None)


def _is_a(data: object, package: str, name: str) -> bool:
    """Return whether the type of an object, or one that it derives from, is a type of this name in a package."""
    return any(base.__name__ == name and f"{base.__module__}.".startswith(f"{package}.") for base in type(data).__mro__)
