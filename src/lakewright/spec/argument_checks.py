"""Checks of argument types for public verbs, with one error text each.

A value with only one possible meaning is accepted: a name for a list of names, a numpy integer for an integer, a `Path`
for a path, a `datetime` or ISO text for a time, a `timedelta` or text such as `7 days` for an age. Everything else is
an `InvalidInputError` that names the argument, says what it takes and shows what was given.

A time without a zone is a time in the local zone of the process, as in the option `scan.timestamp`.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from typing import Literal, TypeAlias, TypeVar

import numpy as np

from lakewright.errors import InvalidInputError, LakewrightError
from lakewright.spec.option_values import MAX_INT, MAX_LONG, option_text, parse_duration_millis

T = TypeVar("T")

TimestampLike: TypeAlias = int | str | datetime | date  # epoch milliseconds, ISO text, or a time of Python
Properties: TypeAlias = Mapping[str, str]  # what a snapshot records for its users
DurationLike: TypeAlias = str | timedelta | int  # text such as `7 days`, a duration of Python, or milliseconds
PathLike: TypeAlias = str | os.PathLike[str]
Names: TypeAlias = str | Iterable[str]  # one name stands for a list of one

# The words that an argument takes. Checks read them with `get_args`, so that they are defined only here.
WriteMode: TypeAlias = Literal["append", "overwrite", "upsert", "delete"]
SchemaMode: TypeAlias = Literal["merge"]
IncrementalMode: TypeAlias = Literal["auto", "delta", "changelog", "diff"]
BlobForm: TypeAlias = Literal["bytes", "lazy", "descriptor"]
Distribution: TypeAlias = Literal["auto", "none", "partition"]

_SHOWN_MAX = 60
_NAME_BYTES_MAX = 255
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_MILLISECOND = timedelta(milliseconds=1)


def describe_value(value: object) -> str:
    """Return a value as an error shows it: small plain values as they are, everything else by its type.

    >>> describe_value("a"), describe_value([1, 2, 3]), describe_value(None)
    ("'a'", 'list', 'None')
    """
    if value is None or isinstance(value, str | bytes | bool | int | float | date | timedelta):
        text = repr(value[:_SHOWN_MAX] if isinstance(value, str | bytes) else value) if _is_small(value) else "a number"
        return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 3]}..."
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def _is_small(value: object) -> bool:
    return not isinstance(value, int) or abs(value) < 10**_SHOWN_MAX


def argument_error(argument: str, expected: str, value: object) -> InvalidInputError:
    """Return the error for an argument with a value of the wrong kind."""
    return InvalidInputError(f"{argument} takes {expected}, not {describe_value(value)}", argument=argument)


def check_optional(convert: Callable[[str, object], T], argument: str, value: object) -> T | None:
    """Convert an argument unless it is None."""
    return None if value is None else convert(argument, value)


def check_text(argument: str, value: object) -> str:
    """Return a text that is not blank and that can be stored and shown.

    >>> check_text("tag_name", "v1")
    'v1'
    """
    if not isinstance(value, str):
        raise argument_error(argument, "a text", value)
    plain = str(value)
    if not plain.strip():
        raise argument_error(argument, "a text that is not blank", value)
    if "\0" in plain or any("\ud800" <= char <= "\udfff" for char in plain):
        raise argument_error(argument, "a text without null characters and lone surrogates", value)
    return plain


def plain_text(argument: str, value: object) -> str:
    """Return a text, which may be blank; its content is checked where it is used."""
    if not isinstance(value, str):
        raise argument_error(argument, "a text", value)
    return value


def remark(argument: str, value: object) -> str | None:
    """Return a text of any kind, such as a comment, or None."""
    return check_optional(plain_text, argument, value)


def check_int(argument: str, value: object, low: int = -MAX_LONG - 1, high: int = MAX_LONG) -> int:
    """Return a whole number within limits, of Python or numpy; True and False are not accepted.

    >>> check_int("limit", np.int32(3), low=0)
    3
    """
    limits = f" of at least {low}" if low > -MAX_LONG - 1 else ""
    if isinstance(value, bool | np.bool_) or not hasattr(type(value), "__index__"):
        raise argument_error(argument, f"a whole number{limits}", value)
    try:
        number = operator.index(value)  # type: ignore[arg-type] # it has the method
    except TypeError:  # an array of numpy with several elements
        raise argument_error(argument, f"a whole number{limits}", value) from None
    if not low <= number <= high:
        raise argument_error(
            argument, f"a whole number{limits}" if number < low else f"a whole number up to {high}", number
        )
    return number


def check_non_negative(argument: str, value: object) -> int:
    """Return a whole number of 0 or more."""
    return check_int(argument, value, 0)


def check_positive(argument: str, value: object) -> int:
    """Return a whole number of 1 or more that a Java int holds."""
    return check_int(argument, value, 1, MAX_INT)


def check_bool(argument: str, value: object) -> bool:
    """Return True or False; no other value is accepted."""
    if not isinstance(value, bool | np.bool_):
        raise argument_error(argument, "True or False", value)
    return bool(value)


def check_path(argument: str, value: object) -> str:
    """Return a path or a URI as text; `pathlib.Path` and its like are accepted."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    location = check_text(argument, value)
    if any(len(name.encode()) > _NAME_BYTES_MAX for name in location.split("/")):
        raise argument_error(argument, f"a path whose names have at most {_NAME_BYTES_MAX} bytes each", location)
    return location


def check_one_of(argument: str, value: object, allowed: Iterable[str]) -> str:
    """Return a text that is one of those allowed."""
    choices = tuple(allowed)
    if not isinstance(value, str) or value not in choices:
        raise argument_error(argument, f"one of {', '.join(map(repr, choices))}", value)
    return value


def items(argument: str, value: object, expected: str) -> tuple[object, ...]:
    """Return the members of a list, tuple, array or generator; a set is not accepted, because it has no order."""
    if isinstance(value, AbstractSet | str | bytes | Mapping) or not isinstance(value, Iterable):
        raise argument_error(argument, expected, value)
    try:
        return tuple(value)
    except LakewrightError:
        raise
    except (TypeError, ValueError) as error:  # such as an array of numpy without dimensions
        raise argument_error(argument, expected, value) from error


def check_names(argument: str, value: object) -> tuple[str, ...]:
    """Return a list of names; a single name is accepted as a list of one.

    >>> check_names("columns", "ab"), check_names("columns", ["a", "b"])
    (('ab',), ('a', 'b'))
    """
    given = (value,) if isinstance(value, str) else items(argument, value, "a name or a list of names")
    for name in given:
        if not isinstance(name, str):
            raise argument_error(argument, "a name or a list of names", name)
    return tuple(map(str, given))


def path_of_names(argument: str, value: object) -> tuple[str, ...]:
    """Return the name of a column, or the names that lead to a field inside one: at least one name."""
    segments = check_names(argument, value)
    if not segments:
        raise argument_error(argument, "a name, or the list of names that leads into a column", value)
    return segments


def check_instances(argument: str, value: object, kind: type[T], expected: str) -> tuple[T, ...]:
    """Return a list of objects of one class; a single object is accepted as a list of one."""
    given = (value,) if isinstance(value, kind) else items(argument, value, f"a list of {expected}")
    return tuple(check_instance(f"{argument}", one, kind, f"a list of {expected}") for one in given)


def check_instance(argument: str, value: object, kind: type[T], expected: str) -> T:
    """Return an object of a class."""
    if not isinstance(value, kind):
        raise argument_error(argument, expected, value)
    return value


def check_callable(argument: str, value: object) -> Callable[..., object]:
    """Return a callable that is not a class."""
    if not callable(value) or isinstance(value, type):
        raise argument_error(argument, "a function", value)
    return value


def check_mapping(argument: str, value: object) -> dict[str, object]:
    """Return a mapping from names to anything."""
    if not isinstance(value, Mapping):
        raise argument_error(argument, "a mapping such as a dict", value)
    for key in value:
        if not isinstance(key, str):
            raise argument_error(argument, "a mapping with text as keys", key)
    return {str(key): given for key, given in value.items()}


def check_text_mapping(argument: str, value: object) -> dict[str, str]:
    """Return a mapping from text to text; numbers, booleans and paths become text as options do."""
    return {
        key: option_text(key, os.fspath(given) if isinstance(given, os.PathLike) else given)
        for key, given in check_mapping(argument, value).items()
    }


def check_partition_specs(argument: str, value: object) -> tuple[dict[str, object], ...]:
    """Return partition specs such as `{"day": "2026-01-01"}`; a single one is accepted as a list of one.

    >>> check_partition_specs("partitions", {"day": 1})
    ({'day': 1},)
    """
    expected = 'a partition such as {"day": "2026-01-01"} or a list of them'
    given = (value,) if isinstance(value, Mapping) else items(argument, value, expected)
    for spec in given:
        if not isinstance(spec, Mapping):
            raise argument_error(argument, expected, spec)
    return tuple(check_mapping(argument, spec) for spec in given)


def to_epoch_millis(argument: str, value: object) -> int:
    """Return a time in epoch milliseconds: those, a `datetime`, or ISO text; without a zone it is a local time.

    >>> to_epoch_millis("timestamp", "2026-01-09 12:00:00+00:00"), to_epoch_millis("timestamp", 5)
    (1767960000000, 5)
    """
    expected = "epoch milliseconds, a datetime or ISO text such as '2026-01-31 12:00:00'"
    if isinstance(value, str) and not re.fullmatch(r"\s*[-+]?[0-9]*\s*", value):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            raise argument_error(argument, expected, value) from None
    if isinstance(value, date):
        try:
            time = value.timetz() if isinstance(value, datetime) else datetime.min.time()
            day = value.date() if isinstance(value, datetime) else value  # taken apart, as pandas' times differ
            return check_int(argument, (datetime.combine(day, time).astimezone() - _EPOCH) // _MILLISECOND, 0)
        except (ValueError, OverflowError, OSError, TypeError):  # before the year 1, NaT of pandas
            raise argument_error(argument, expected, value) from None
    if isinstance(value, str):
        raise argument_error(argument, expected, value)
    return check_int(argument, value, 0)


def to_duration_millis(argument: str, value: object) -> int:
    """Return a duration in milliseconds, at least one: a `timedelta`, text such as `7 days`, or milliseconds.

    >>> to_duration_millis("time_retained", "7 days"), to_duration_millis("time_retained", timedelta(seconds=1))
    (604800000, 1000)
    """
    expected = "a duration of at least 1 ms, such as '7 days' or a timedelta"
    if isinstance(value, str):
        try:
            millis = parse_duration_millis(value)
        except InvalidInputError:
            raise argument_error(argument, expected, value) from None
    elif isinstance(value, timedelta):
        try:
            millis = value // _MILLISECOND
        except (ValueError, TypeError):  # NaT of pandas
            raise argument_error(argument, expected, value) from None
    else:
        millis = check_int(argument, value)
    if not 1 <= millis <= MAX_LONG:
        raise argument_error(argument, expected, value)
    return millis


def to_past_epoch_millis(argument: str, value: object, now_millis: int) -> int:
    """Return a time in epoch milliseconds, given as a time or as an age before now.

    >>> to_past_epoch_millis("older_than", "7 days", 1_000_000_000)
    395200000
    """
    if isinstance(value, timedelta) or (isinstance(value, str) and _is_duration(value)):
        return max(0, now_millis - to_duration_millis(argument, value))
    try:
        return to_epoch_millis(argument, value)
    except InvalidInputError:
        expected = "epoch milliseconds, a datetime, ISO text, or an age such as '7 days' or a timedelta"
        raise argument_error(argument, expected, value) from None


def _is_duration(value: str) -> bool:
    """Return whether a text is a duration with a unit: a bare number could be a time or a duration."""
    try:
        parse_duration_millis(value)
    except InvalidInputError:
        return False
    return not value.strip().isdecimal()


def suggest_name(name: object, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the nearest name that is known, else all of them.

    >>> suggest_name("ID", ["id", "name"]), suggest_name("x", ["id", "name"])
    ("did you mean 'id'?", 'there are id, name')
    """
    choices = list(known)
    given = name if isinstance(name, str) else describe_value(name)
    folded = [choice for choice in choices if choice.casefold() == given.casefold()]
    close = folded or get_close_matches(given[:200], choices, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there are {', '.join(choices[:20])}{', ...' if len(choices) > 20 else ''}" if choices else "there are none"  # noqa: PLR2004
