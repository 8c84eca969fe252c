"""Functions on dates and timestamps. A TIMESTAMP is shown, and cut into parts, in the time zone of the session."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from lakewright.errors import InvalidInputError
from lakewright.statements.embedded.dialect.functions import patterns
from lakewright.statements.embedded.dialect.functions.templates import literal_text, named, template
from lakewright.statements.embedded.dialect.types import (
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    duckdb_type,
    is_moment,
    text_literal,
)
from lakewright.statements.embedded.dialect.values import Binder, Function, Value

_DATES = {
    "year": "year({0})",
    "quarter": "quarter({0})",
    "month": "month({0})",
    "day": "day({0})",
    "dayofmonth": "day({0})",
    "dayofweek": "dayofweek({0}) + 1",
    "weekday": "isodow({0}) - 1",
    "dayofyear": "dayofyear({0})",
    "weekofyear": "week({0})",
}
_TIMES = {"hour": "hour({0})", "minute": "minute({0})", "second": "second({0})"}
_PARTS = {
    **{name: name for name in (*_DATES, *_TIMES)},
    **dict.fromkeys(("y", "years", "yr", "yrs"), "year"),
    **dict.fromkeys(("mon", "mons", "months"), "month"),
    **dict.fromkeys(("d", "days"), "day"),
    **dict.fromkeys(("w", "week", "weeks"), "weekofyear"),
    **dict.fromkeys(("dow", "dayofweek"), "dayofweek"),
    **dict.fromkeys(("qtr",), "quarter"),
    **dict.fromkeys(("doy",), "dayofyear"),
    **dict.fromkeys(("h", "hours", "hr", "hrs"), "hour"),
    **dict.fromkeys(("m", "min", "mins", "minutes"), "minute"),
}
_UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    "quarter": "quarter",
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    "week": "week",
}
_FINER = {
    **dict.fromkeys(("day", "dd"), "day"),
    **{unit: unit for unit in ("hour", "minute", "second", "millisecond", "microsecond")},
}
_SECONDS = pa.decimal128(8, 6)


def _date_part_of(name: str) -> Function:
    return template(name, f"CAST({_DATES[name]} AS INTEGER)", INT, DATE)


def _time_part_of(name: str) -> Function:
    def function(binder: Binder, values: list[Value]) -> Value:
        value = values[0] if is_moment(values[0].type) else binder.cast(values[0], TIMESTAMP)
        return Value(f"CAST({_TIMES[name].format(value.sql)} AS INTEGER)", INT, named(name, values))

    return function


def _date_part(binder: Binder, values: list[Value]) -> Value:
    written = literal_text("extract", values[0], "the part")
    part, shown = written.lower(), f"extract({written} FROM {values[1].name})"
    if part in {"second", "s", "sec", "seconds", "secs"}:
        value = values[1] if is_moment(values[1].type) else binder.cast(values[1], TIMESTAMP)
        micros = f"CAST(microsecond({value.sql}) AS DECIMAL(10,0))"
        return Value(f"CAST({micros} * CAST('0.000001' AS DECIMAL(7,6)) AS {duckdb_type(_SECONDS)})", _SECONDS, shown)
    if part not in _PARTS:
        raise InvalidInputError(f"extract does not know {part!r} here; it knows {', '.join(sorted(_PARTS))}")
    return TIMES[_PARTS[part]](binder, values[1:]).called(shown)


def _trunc(binder: Binder, values: list[Value]) -> Value:
    unit = _UNITS.get(literal_text("trunc", values[1], "the unit").lower())
    day = binder.cast(values[0], DATE).sql
    sql = f"CAST(date_trunc('{unit}', {day}) AS DATE)" if unit else "CAST(NULL AS DATE)"
    return Value(sql, DATE, named("trunc", values))


def _date_trunc(binder: Binder, values: list[Value]) -> Value:
    unit = (_UNITS | _FINER).get(literal_text("date_trunc", values[0], "the unit").lower())
    moment = binder.cast(values[1], TIMESTAMP).sql
    sql = f"CAST(date_trunc('{unit}', {moment}) AS TIMESTAMPTZ)" if unit else "CAST(NULL AS TIMESTAMPTZ)"
    return Value(sql, TIMESTAMP, named("date_trunc", values))


def _local(binder: Binder, value: Value) -> Value:
    """Return a moment as the clock of the session shows it."""
    value = binder.cast(value, TIMESTAMP) if value.type == STRING else value
    return binder.cast(value, TIMESTAMP_NTZ)


def _date_format(binder: Binder, values: list[Value]) -> Value:
    pattern = literal_text("date_format", values[1], "the pattern")
    patterns.tokens(pattern)
    sql = binder.functions.call(patterns.formatted, STRING, [_local(binder, values[0])], pattern)
    return Value(sql, STRING, named("date_format", values))


def _read(name: str, kind: pa.DataType) -> Function:
    def function(binder: Binder, values: list[Value]) -> Value:
        if len(values) == 1 or values[0].type != STRING:
            return binder.cast(values[0], kind).called(named(name, values))
        pattern = literal_text(name, values[1], "the pattern")
        patterns.check_readable(pattern)
        if kind == DATE:
            return Value(binder.functions.call(patterns.date_by, DATE, values[:1], pattern), DATE, named(name, values))
        local = Value(binder.functions.call(patterns.moment_of, TIMESTAMP_NTZ, values[:1], pattern), TIMESTAMP_NTZ, "")
        return binder.cast(local, kind).called(named(name, values))

    return function


def _unix_timestamp(binder: Binder, values: list[Value]) -> Value:
    name = named("unix_timestamp", values)
    if not values:
        return Value("CAST(floor(epoch(now())) AS BIGINT)", LONG, name)
    shown = name if len(values) > 1 else f"{name[:-1]}, yyyy-MM-dd HH:mm:ss)"
    pattern = values[1:] or [Value("", STRING, "", literal="yyyy-MM-dd HH:mm:ss")]
    moment = _read("unix_timestamp", TIMESTAMP)(binder, [values[0], *pattern])
    return binder.cast(moment, LONG).called(shown)


def _from_unixtime(binder: Binder, values: list[Value]) -> Value:
    pattern = literal_text("from_unixtime", values[1], "the pattern") if len(values) > 1 else "yyyy-MM-dd HH:mm:ss"
    patterns.tokens(pattern)
    moment = binder.cast(Value(f"to_timestamp({binder.cast(values[0], LONG).sql})", TIMESTAMP, ""), TIMESTAMP_NTZ)
    sql = binder.functions.call(patterns.formatted, STRING, [moment], pattern)
    return Value(sql, STRING, f"from_unixtime({values[0].name}, {pattern})")


def _months_between(binder: Binder, values: list[Value]) -> Value:
    if len(values) != 2:  # noqa: PLR2004 - the later and the earlier
        raise InvalidInputError("months_between takes 2 arguments here")
    moments = [_local(binder, value) for value in values]
    sql = binder.functions.call(patterns.months_between, DOUBLE, moments)
    return Value(sql, DOUBLE, f"{named('months_between', values)[:-1]}, true)")


def _shifted(name: str, text: str) -> Function:
    def function(binder: Binder, values: list[Value]) -> Value:
        zone = text_literal(literal_text(name, values[1], "the zone"))
        moment = binder.cast(values[0], TIMESTAMP).sql
        return Value(text.format(moment, zone), TIMESTAMP, named(name, values))

    return function


def _days(name: str, sign: str) -> Function:
    def function(binder: Binder, values: list[Value]) -> Value:
        if len(values) != 2 or values[1].type == LONG:  # noqa: PLR2004 - a date and days
            raise InvalidInputError(f"{name} takes a date and an INT here")
        day, count = binder.cast(values[0], DATE).sql, binder.cast(values[1], INT).sql
        return Value(f"({day} {sign} {count})", DATE, named(f"date_{'add' if sign == '+' else 'sub'}", values))

    return function


def _difference(binder: Binder, values: list[Value]) -> Value:
    if len(values) != 2:  # noqa: PLR2004 - the later and the earlier
        raise InvalidInputError("datediff takes 2 dates here")
    later, earlier = (binder.cast(value, DATE).sql for value in values)
    return Value(f"CAST({later} - {earlier} AS INTEGER)", INT, named("datediff", values))


def _now(name: str, text: str, kind: pa.DataType) -> Callable[[Binder, list[Value]], Value]:
    return template(name, text, kind)


TIMES: Mapping[str, Function] = {
    "current_date": _now("current_date", "CAST(now() AS DATE)", DATE),
    "curdate": _now("current_date", "CAST(now() AS DATE)", DATE),
    "current_timestamp": _now("current_timestamp", "now()", TIMESTAMP),
    "now": _now("now", "now()", TIMESTAMP),
    "current_timezone": lambda binder, _: Value(text_literal(binder.zone), STRING, "current_timezone()"),
    **{name: _date_part_of(name) for name in _DATES},
    **{name: _time_part_of(name) for name in _TIMES},
    "date_part": _date_part,
    "datepart": _date_part,
    "date_add": _days("date_add", "+"),
    "dateadd": _days("dateadd", "+"),
    "date_sub": _days("date_sub", "-"),
    "datediff": _difference,
    "date_diff": _difference,
    "add_months": template("add_months", "CAST({0} + to_months({1}) AS DATE)", DATE, DATE, INT),
    "months_between": _months_between,
    "last_day": template("last_day", "last_day({0})", DATE, DATE),
    "trunc": _trunc,
    "date_trunc": _date_trunc,
    "date_format": _date_format,
    "to_date": _read("to_date", DATE),
    "to_timestamp": _read("to_timestamp", TIMESTAMP),
    "to_timestamp_ntz": _read("to_timestamp_ntz", TIMESTAMP_NTZ),
    "unix_timestamp": _unix_timestamp,
    "to_unix_timestamp": _unix_timestamp,
    "from_unixtime": _from_unixtime,
    "make_date": template("make_date", "make_date({0}, {1}, {2})", DATE, INT, INT, INT),
    "timestamp_seconds": template("timestamp_seconds", "to_timestamp({0})", TIMESTAMP, LONG),
    "timestamp_millis": template("timestamp_millis", "make_timestamptz({0} * 1000)", TIMESTAMP, LONG),
    "timestamp_micros": template("timestamp_micros", "make_timestamptz({0})", TIMESTAMP, LONG),
    "unix_seconds": template("unix_seconds", "CAST(floor(epoch({0})) AS BIGINT)", LONG, TIMESTAMP),
    "unix_micros": template("unix_micros", "epoch_us({0})", LONG, TIMESTAMP),
    "unix_date": template("unix_date", "CAST({0} - DATE '1970-01-01' AS INTEGER)", INT, DATE),
    "date_from_unix_date": template("date_from_unix_date", "(DATE '1970-01-01' + {0})", DATE, INT),
    "from_utc_timestamp": _shifted("from_utc_timestamp", "(({0} AT TIME ZONE {1}) AT TIME ZONE 'UTC')"),
    "to_utc_timestamp": _shifted("to_utc_timestamp", "(({0} AT TIME ZONE 'UTC') AT TIME ZONE {1})"),
}
