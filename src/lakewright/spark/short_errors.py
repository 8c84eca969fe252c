"""Errors of Spark jobs over tables, in a few lines.

Spark reports a file that is missing, or an error of this library in a task, with the stack traces of the JVM and of a
worker. While `install` is in effect the function of PySpark that converts such errors is wrapped, and what is about a
Paimon table becomes the error of this library. PySpark has no public place for that; this module can go when it has
one.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from lakewright import errors
from lakewright.errors import LakewrightError
from lakewright.spark.native_scan import missing_file_error

_IN_TASK = re.compile(r"\blakewright\.errors\.(\w+): (.+)")
_MISSING = re.compile(r"FILE_NOT_EXIST|FileNotFoundException|does not exist")
_PATH = re.compile(r"\b[a-z0-9]+:/[^\s'\"`,]+\.parquet")


def converting(convert: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap PySpark's function that makes an exception of an error of the JVM or of a server."""

    @functools.wraps(convert)
    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as PySpark has it
        converted = convert(*args, **kwargs)
        if isinstance(converted, LakewrightError):
            return converted
        parts = (getattr(converted, name, None) for name in ("_desc", "_stackTrace", "_message", "_stacktrace"))
        return error_in_text("\n".join(str(part) for part in parts if part)) or converted

    return call


def error_in_text(text: str) -> LakewrightError | None:
    r"""Return the error of this library that a text of Spark is about; None: it is about something else.

    >>> error_in_text("Traceback ...\nlakewright.errors.NotFoundError: d.t: snapshot 1 has expired\n\tat ...")
    NotFoundError('d.t: snapshot 1 has expired')
    """
    found = _IN_TASK.search(text)
    if found is not None:
        kind = getattr(errors, found[1], LakewrightError)
        return kind(found[2]) if issubclass(kind, LakewrightError) else None
    path = _PATH.search(text) if _MISSING.search(text) else None
    return None if path is None else missing_file_error(path[0])
