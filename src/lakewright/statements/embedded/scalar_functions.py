"""Functions on numbers, texts and times."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.spec import java_time_format
from lakewright.statements.embedded import dialect_casts
from lakewright.statements.embedded.dialect_values import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Binder,
    Function,
    TypedSql,
    bounded_decimal,
    duckdb_type,
    is_decimal,
    is_integral,
    is_moment,
    is_number,
    spark_type,
    text_literal,
)

# ---- Functions by template -------------------------------------------------------------------------------------------


def spark_name(name: str, values: Sequence[TypedSql]) -> str:
    """Return Spark's name of a call."""
    return f"{name}({', '.join(value.name for value in values)})"


def template(name: str, text: str, gives: pa.DataType, *takes: pa.DataType) -> Function:
    """Return the function of a text in which `{0}`, `{1}` ... stand for the arguments, which are cast to `takes`."""

    def function(binder: Binder, values: list[TypedSql]) -> TypedSql:
        if len(values) != len(takes):
            raise InvalidInputError(f"{name} takes {len(takes)} arguments, not {len(values)}")
        done = [binder.cast(value, kind) for value, kind in zip(values, takes, strict=True)]
        return TypedSql(text.format(*(one.sql for one in done)), gives, spark_name(name, values))

    return function


def with_arity(name: str, *choices: Function) -> Function:
    """Return a function that has several numbers of arguments, each with a choice of its own."""

    def function(binder: Binder, values: list[TypedSql]) -> TypedSql:
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


def literal_text(name: str, value: TypedSql, what: str) -> str:
    """Return the text of an argument that must be a literal, because it is translated."""
    if not isinstance(value.literal, str):
        raise InvalidInputError(f"{name}: {what} must be a text in quotes here, not {value.name}")
    return value.literal


# ---- Numbers and conditionals ----------------------------------------------------------------------------------------


def _number(binder: Binder, value: TypedSql, name: str) -> TypedSql:
    value = binder.cast(value, DOUBLE) if value.type in {STRING, NULL} else value
    if not is_number(value.type):
        raise InvalidInputError(f"{name} takes numbers, not {spark_type(value.type)}")
    return value


def _abs(binder: Binder, values: list[TypedSql]) -> TypedSql:
    value = _number(binder, values[0], "abs")
    return TypedSql(f"CAST(abs({value.sql}) AS {duckdb_type(value.type)})", value.type, spark_name("abs", values))


def _whole(name: str) -> Function:
    def function(binder: Binder, values: list[TypedSql]) -> TypedSql:
        if len(values) != 1:
            raise InvalidInputError(f"{name} takes 1 argument here, not {len(values)}")
        value = _number(binder, values[0], name)
        shown = f"{name.upper()}({values[0].name})"
        if is_integral(value.type):
            return TypedSql(f"CAST({value.sql} AS BIGINT)", LONG, shown)
        if not is_decimal(value.type):
            return TypedSql(f"CAST({name}({value.sql}) AS BIGINT)", LONG, shown)
        kind = bounded_decimal(value.type.precision - value.type.scale + 1, 0)
        return TypedSql(f"CAST({name}({value.sql}) AS {duckdb_type(kind)})", kind, shown)

    return function


def _round(name: str) -> Function:
    mode = "ROUND_HALF_UP" if name == "round" else "ROUND_HALF_EVEN"

    def function(binder: Binder, values: list[TypedSql]) -> TypedSql:
        value = _number(binder, values[0], name)
        digits = values[1].literal if len(values) > 1 else 0
        if not isinstance(digits, int):
            raise InvalidInputError(f"{name}: the number of digits must be a literal")
        shown = f"{name}({values[0].name}, {digits})"
        if is_decimal(value.type):
            scale = min(max(digits, 0), value.type.scale)
            if digits < 0:
                raise InvalidInputError(f"{name} of a decimal to tens does not run here")
            kind = bounded_decimal(value.type.precision - value.type.scale + scale + 1, scale)
            if scale == value.type.scale or name == "round":
                return TypedSql(value.with_type(kind).sql, kind, shown)
            call = binder.functions.call(dialect_casts.rounded_half_even, kind, [value], kind.precision, scale)
            return TypedSql(call, kind, shown)
        if is_integral(value.type):
            if digits >= 0:
                return value.with_name(shown)
            return TypedSql(
                binder.functions.call(dialect_casts.rounded_integer, value.type, [value], digits, mode),
                value.type,
                shown,
            )
        done = binder.functions.call(dialect_casts.rounded_double, value.type, [value], digits, mode)
        return TypedSql(done, value.type, shown)

    return function


def _arithmetic(name: str, sign: str) -> Function:
    def function(binder: Binder, values: list[TypedSql]) -> TypedSql:
        left, right = values
        return dialect_casts.calculate(binder, sign, left, right).with_name(spark_name(name, values))

    return function


def _pmod(binder: Binder, values: list[TypedSql]) -> TypedSql:
    rest = dialect_casts.calculate(binder, "%", *values)
    divisor = binder.cast(values[1], rest.type) if not is_decimal(rest.type) else values[1]
    again = dialect_casts.calculate(binder, "%", dialect_casts.calculate(binder, "+", rest, divisor), divisor)
    sql = f"CASE WHEN {rest.sql} < 0 THEN {again.with_type(rest.type).sql} ELSE {rest.sql} END"
    return TypedSql(sql, rest.type, spark_name("pmod", values))


def _try_divide(binder: Binder, values: list[TypedSql]) -> TypedSql:
    left, right = values
    safe = TypedSql(f"nullif({right.sql}, 0)", right.type, right.name)
    return dialect_casts.calculate(binder, "/", left, safe).with_name(spark_name("try_divide", values))


def _negative(binder: Binder, values: list[TypedSql]) -> TypedSql:
    value = _number(binder, values[0], "negative")
    return TypedSql(f"CAST(-({value.sql}) AS {duckdb_type(value.type)})", value.type, spark_name("negative", values))


def _extreme(name: str) -> Function:
    def function(binder: Binder, values: list[TypedSql]) -> TypedSql:
        done = binder.common(values)
        return TypedSql(f"{name}({', '.join(one.sql for one in done)})", done[0].type, spark_name(name, values))

    return function


def _logarithm(binder: Binder, values: list[TypedSql]) -> TypedSql:
    done = [binder.cast(value, DOUBLE).sql for value in values]
    checks = " OR ".join(f"{one} <= 0" for one in done)
    sql = f"ln({done[0]})" if len(done) == 1 else f"(ln({done[1]}) / ln({done[0]}))"
    return TypedSql(
        f"CASE WHEN {checks} THEN NULL ELSE {sql} END", DOUBLE, spark_name("ln" if len(done) == 1 else "LOG", values)
    )


# ---- choices


def _coalesce(name: str) -> Function:
    def function(binder: Binder, values: list[TypedSql]) -> TypedSql:
        done = binder.common(values)
        return TypedSql(f"coalesce({', '.join(one.sql for one in done)})", done[0].type, spark_name(name, values))

    return function


def _nullif(binder: Binder, values: list[TypedSql]) -> TypedSql:
    left, right = values
    one, other = binder.common([left, right])
    sql = f"CASE WHEN {one.sql} = {other.sql} THEN NULL ELSE {left.sql} END"
    return TypedSql(sql, left.type, spark_name("nullif", values))


def _nvl2(binder: Binder, values: list[TypedSql]) -> TypedSql:
    test, *rest = values
    one, other = binder.common(rest)
    sql = f"CASE WHEN {test.sql} IS NOT NULL THEN {one.sql} ELSE {other.sql} END"
    return TypedSql(sql, one.type, spark_name("nvl2", values))


def _if(binder: Binder, values: list[TypedSql]) -> TypedSql:
    test, *rest = values
    one, other = binder.common(rest)
    sql = f"CASE WHEN {binder.cast(test, BOOLEAN).sql} THEN {one.sql} ELSE {other.sql} END"
    return TypedSql(sql, one.type, f"(IF({', '.join(value.name for value in values)}))")


def _decode(binder: Binder, values: list[TypedSql]) -> TypedSql:
    given, *rest = values
    pairs = list(zip(rest[::2], rest[1::2], strict=False))
    results = [result for _, result in pairs] + ([rest[-1]] if len(rest) % 2 else [TypedSql("NULL", NULL, "NULL")])
    done = binder.common(results)
    text = ""
    for (wanted, _), result in zip(pairs, done, strict=False):
        one, other = binder.common([given, wanted])
        text += f" WHEN {one.sql} IS NOT DISTINCT FROM {other.sql} THEN {result.sql}"
    return TypedSql(f"CASE{text} ELSE {done[-1].sql} END", done[-1].type, spark_name("decode", values))


def _equal_null(binder: Binder, values: list[TypedSql]) -> TypedSql:
    one, other = binder.common(values)
    return TypedSql(f"({one.sql} IS NOT DISTINCT FROM {other.sql})", BOOLEAN, spark_name("equal_null", values))


def _test(name: str, text: str) -> Function:
    return lambda _, values: TypedSql(text.format(values[0].sql), BOOLEAN, f"({values[0].name} {name})")


def _cast(name: str, kind: pa.DataType) -> Function:
    def function(binder: Binder, values: list[TypedSql]) -> TypedSql:
        if len(values) != 1:
            raise InvalidInputError(f"{name} takes 1 argument, not {len(values)}")
        return binder.cast(values[0], kind).with_name(f"CAST({values[0].name} AS {spark_type(kind)})")

    return function


def _double(name: str, text: str) -> Function:
    return template(name, text, DOUBLE, DOUBLE)


_PLAIN = "exp sin cos tan asin acos atan sinh cosh tanh cbrt degrees radians".split()
_CASTS = {
    "boolean": BOOLEAN,
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": INT,
    "bigint": LONG,
    "float": FLOAT,
    "double": DOUBLE,
    "string": STRING,
    "binary": pa.binary(),
    "date": DATE,
    "timestamp": TIMESTAMP,
    "decimal": pa.decimal128(10, 0),
}

NUMBERS: Mapping[str, Function] = {
    "abs": _abs,
    "ceil": _whole("ceil"),
    "ceiling": _whole("ceil"),
    "floor": _whole("floor"),
    "round": _round("round"),
    "bround": _round("bround"),
    "mod": _arithmetic("mod", "%"),
    "div": _arithmetic("div", "div"),
    "pmod": _pmod,
    "try_divide": _try_divide,
    "negative": _negative,
    "positive": lambda binder, values: _number(binder, values[0], "positive").with_name(f"(+ {values[0].name})"),
    "greatest": _extreme("greatest"),
    "least": _extreme("least"),
    "sqrt": _double("SQRT", "CASE WHEN {0} < 0 THEN CAST('NaN' AS DOUBLE) ELSE sqrt({0}) END"),
    **{name: _double(name.upper(), f"{name}({{0}})") for name in _PLAIN},
    "ln": _logarithm,
    "log": _logarithm,
    "log10": _double("LOG10", "CASE WHEN {0} <= 0 THEN NULL ELSE log10({0}) END"),
    "log2": _double("LOG2", "CASE WHEN {0} <= 0 THEN NULL ELSE log2({0}) END"),
    "power": template("POWER", "pow({0}, {1})", DOUBLE, DOUBLE, DOUBLE),
    "pow": template("pow", "pow({0}, {1})", DOUBLE, DOUBLE, DOUBLE),
    "atan2": template("ATAN2", "atan2({0}, {1})", DOUBLE, DOUBLE, DOUBLE),
    "sign": _double("sign", "CAST(sign({0}) AS DOUBLE)"),
    "signum": _double("SIGNUM", "CAST(sign({0}) AS DOUBLE)"),
    "pi": template("PI", "pi()", DOUBLE),
    "e": template("E", "exp(CAST(1 AS DOUBLE))", DOUBLE),
    "isnan": template("isnan", "coalesce(isnan({0}), FALSE)", BOOLEAN, DOUBLE),
    "nanvl": template("nanvl", "CASE WHEN isnan({0}) THEN {1} ELSE {0} END", DOUBLE, DOUBLE, DOUBLE),
    **{name: _coalesce(name) for name in ("coalesce", "nvl", "ifnull")},
    "nullif": _nullif,
    "nvl2": _nvl2,
    "if": _if,
    "iff": _if,
    "decode": _decode,
    "equal_null": _equal_null,
    "isnull": _test("IS NULL", "({0} IS NULL)"),
    "isnotnull": _test("IS NOT NULL", "({0} IS NOT NULL)"),
    **{name: _cast(name, kind) for name, kind in _CASTS.items()},
}


# ---- Texts -----------------------------------------------------------------------------------------------------------

# What the regular expressions of Java know and those of DuckDB do not, or mean otherwise.
_JAVA_ONLY = re.compile(
    r"\(\?[=!<>]|\\[1-9GZRhXkN]|[*+?}]\+|&&|\\p\{(?:Is|java|In|L[ul]?\}|Alpha|Punct)|\\Q|\(\?[a-z]*[xdU]"
)


def pattern(name: str, value: TypedSql) -> str:
    """Return a regular expression that means the same in Java and in DuckDB, as a literal."""
    text = literal_text(name, value, "the pattern")
    if found := _JAVA_ONLY.search(text):
        raise UnsupportedError(f"{name}: {found[0]} in the pattern {text!r} does not run here")
    return text_literal(text)


def _regexp_like(binder: Binder, values: list[TypedSql]) -> TypedSql:
    text, wanted = values
    sql = f"regexp_matches({binder.cast(text, STRING).sql}, {pattern('rlike', wanted)})"
    return TypedSql(sql, BOOLEAN, f"RLIKE({text.name}, {wanted.name})")


def _regexp_extract(binder: Binder, values: list[TypedSql]) -> TypedSql:
    group = values[2].literal if len(values) > 2 else 1  # noqa: PLR2004 - the third argument
    if not isinstance(group, int):
        raise InvalidInputError("regexp_extract: the number of the group must be a literal here")
    wanted = literal_text("regexp_extract", values[1], "the pattern")
    if not 0 <= group <= re.compile(wanted).groups:
        raise InvalidInputError(f"regexp_extract: the pattern {wanted!r} has no group {group}")
    sql = f"regexp_extract({binder.cast(values[0], STRING).sql}, {pattern('regexp_extract', values[1])}, {group})"
    return TypedSql(sql, STRING, f"regexp_extract({values[0].name}, {values[1].name}, {group})")


def _regexp_replace(binder: Binder, values: list[TypedSql]) -> TypedSql:
    if len(values) != 3:  # noqa: PLR2004 - text, pattern, replacement
        raise InvalidInputError("regexp_replace takes 3 arguments here")
    new = literal_text("regexp_replace", values[2], "the replacement")
    parts = re.split(r"\\(.)|\$(\d)", new)
    text = ""
    for plain, escaped, group in zip(parts[::3], [*parts[1::3], None], [*parts[2::3], None], strict=True):
        text += plain.replace("\\", "\\\\") + (escaped or "") + (f"\\{group}" if group else "")
    sql = f"{binder.cast(values[0], STRING).sql}, {pattern('regexp_replace', values[1])}, {text_literal(text)}, 'g'"
    return TypedSql(f"regexp_replace({sql})", STRING, f"{spark_name('regexp_replace', values)[:-1]}, 1)")


def _split(binder: Binder, values: list[TypedSql]) -> TypedSql:
    if len(values) == 3 and values[2].literal != -1:  # noqa: PLR2004 - text, pattern, limit
        raise UnsupportedError("split with a limit does not run here")
    if re.compile(literal_text("split", values[1], "the pattern")).match(""):
        raise UnsupportedError("split with a pattern that fits an empty text does not run here")
    sql = f"string_split_regex({binder.cast(values[0], STRING).sql}, {pattern('split', values[1])})"
    return TypedSql(sql, pa.list_(STRING), f"split({values[0].name}, {values[1].name}, -1)")


def _concat(binder: Binder, values: list[TypedSql]) -> TypedSql:
    name = spark_name("concat", values)
    if values and all(pa.types.is_list(value.type) for value in values):
        values = binder.common(values)
        nulls = " OR ".join(f"{value.sql} IS NULL" for value in values)
        joined = f"list_concat({', '.join(value.sql for value in values)})"
        return TypedSql(f"CASE WHEN {nulls} THEN NULL ELSE {joined} END", values[0].type, name)
    if values and all(value.type == BINARY for value in values):
        return TypedSql(f"({' || '.join(value.sql for value in values)})", BINARY, name)
    texts = [binder.cast(value, STRING).sql for value in values]
    return TypedSql(f"({' || '.join(texts)})" if texts else "''", STRING, name)


def _concat_ws(binder: Binder, values: list[TypedSql]) -> TypedSql:
    if any(pa.types.is_list(value.type) for value in values):
        if len(values) != 2:  # noqa: PLR2004 - the separator and one array
            raise UnsupportedError("concat_ws of an array and other values does not run here")
        sql = f"coalesce(array_to_string({values[1].sql}, {binder.cast(values[0], STRING).sql}), '')"
        return TypedSql(sql, STRING, spark_name("concat_ws", values))
    texts = [binder.cast(value, STRING).sql for value in values]
    sql = f"concat_ws({', '.join(texts)})" if len(texts) > 1 else "''"
    return TypedSql(sql, STRING, spark_name("concat_ws", values))


def _substring(binder: Binder, values: list[TypedSql]) -> TypedSql:
    if len(values) not in {2, 3}:
        raise InvalidInputError(f"substring takes 2 or 3 arguments, not {len(values)}")
    text = values[0] if values[0].type == STRING else binder.cast(values[0], STRING)
    start = binder.cast(values[1], INT)
    length = binder.cast(values[2], INT) if len(values) == 3 else None  # noqa: PLR2004
    count = f"greatest({length.sql}, 0)" if length is not None else "2147483647"
    shown = f"substring({values[0].name}, {values[1].name}, {values[2].name if length else 2147483647})"
    forward = f"substring({text.sql}, greatest({start.sql}, 1), {count})"
    first = f"(CAST(length({text.sql}) AS BIGINT) + {start.sql})"
    backward = f"substring({text.sql}, greatest({first}, 0) + 1, greatest(least({first}, 0) + {count}, 0))"
    if isinstance(start.literal, int):
        return TypedSql(backward if start.literal < 0 else forward, STRING, shown)
    null = f"{start.sql} IS NULL"
    return TypedSql(
        f"CASE WHEN {null} THEN NULL WHEN {start.sql} < 0 THEN {backward} ELSE {forward} END", STRING, shown
    )


def _locate(binder: Binder, values: list[TypedSql]) -> TypedSql:
    wanted, text = (binder.cast(value, STRING).sql for value in values[:2])
    if len(values) == 2:  # noqa: PLR2004
        return TypedSql(f"CAST(instr({text}, {wanted}) AS INTEGER)", INT, f"{spark_name('locate', values)[:-1]}, 1)")
    start = binder.cast(values[2], INT).sql
    found = f"instr(substring({text}, {start}), {wanted})"
    sql = f"CASE WHEN {start} < 1 THEN 0 WHEN {found} = 0 THEN 0 ELSE {found} + {start} - 1 END"
    return TypedSql(f"CAST({sql} AS INTEGER)", INT, spark_name("locate", values))


def _trim(name: str) -> Function:
    words = {"trim": "BOTH ", "ltrim": "LEADING ", "rtrim": "TRAILING "}

    def function(binder: Binder, values: list[TypedSql]) -> TypedSql:
        texts = [binder.cast(value, STRING).sql for value in values]
        if len(values) == 1:
            return TypedSql(f"{name}({texts[0]}, ' ')", STRING, spark_name(name, values))
        shown = f"TRIM({words[name]}{values[0].name} FROM {values[1].name})"
        return TypedSql(f"{name}({texts[1]}, {texts[0]})", STRING, shown)

    return function


def _case_function(name: str, own: str) -> Function:
    """Return upper or lower; letters outside of ASCII may become several letters, which DuckDB does not know."""
    change = {"upper": str.upper, "lower": str.lower}[own]

    def function(binder: Binder, values: list[TypedSql]) -> TypedSql:
        text = binder.cast(values[0], STRING)
        exact = binder.functions.call(change, STRING, [text])
        plain = f"octet_length(encode({text.sql})) = length({text.sql})"
        return TypedSql(f"CASE WHEN {plain} THEN {own}({text.sql}) ELSE {exact} END", STRING, spark_name(name, values))

    return function


def _initcap(text: str) -> str:
    return re.sub(r"[^ ]+", lambda word: word[0][:1].upper() + word[0][1:].lower(), text)


def _length(name: str) -> Function:
    def function(binder: Binder, values: list[TypedSql]) -> TypedSql:
        value = values[0]
        sql = f"octet_length({value.sql})" if value.type == BINARY else f"length({binder.cast(value, STRING).sql})"
        return TypedSql(f"CAST({sql} AS INTEGER)", INT, spark_name(name, values))

    return function


def _rename_value(value: TypedSql, old: str, new: str) -> TypedSql:
    return value.with_name(value.name.replace(old, new, 1))


def _sha2(binder: Binder, values: list[TypedSql]) -> TypedSql:
    if values[1].literal not in {0, 256}:
        raise UnsupportedError("sha2 with other than 256 bits does not run here")
    return TypedSql(f"sha256({binder.cast(values[0], STRING).sql})", STRING, spark_name("sha2", values))


def _pad(name: str) -> Function:
    text, cut = f"{name}({{0}}, greatest({{1}}, 0), ", "left({0}, greatest({1}, 0))"
    return with_arity(
        name,
        template(name, f"{text}' ')", STRING, STRING, INT),
        # DuckDB cannot pad with an empty text; Spark then only cuts.
        template(name, f"CASE WHEN {{2}} = '' THEN {cut} ELSE {text}{{2}}) END", STRING, STRING, INT, STRING),
    )


TEXTS: Mapping[str, Function] = {
    "upper": _case_function("upper", "upper"),
    "ucase": _case_function("ucase", "upper"),
    "lower": _case_function("lower", "lower"),
    "lcase": _case_function("lcase", "lower"),
    **{name: _length(name) for name in ("length", "char_length", "character_length", "len")},
    "octet_length": template("octet_length", "CAST(octet_length(encode({0})) AS INTEGER)", INT, STRING),
    **{name: _trim(name) for name in ("trim", "ltrim", "rtrim")},
    "btrim": template("btrim", "trim({0}, ' ')", STRING, STRING),
    "concat": _concat,
    "concat_ws": _concat_ws,
    "substring": _substring,
    "substr": lambda binder, values: _rename_value(_substring(binder, values), "substring", "substr"),
    "left": template("left", "left({0}, greatest({1}, 0))", STRING, STRING, INT),
    "right": template("right", "right({0}, greatest({1}, 0))", STRING, STRING, INT),
    "instr": template("instr", "CAST(instr({0}, {1}) AS INTEGER)", INT, STRING, STRING),
    **dict.fromkeys(("locate", "position", "charindex"), _locate),
    "replace": with_arity(
        "replace",
        template("replace", "replace({0}, {1}, '')", STRING, STRING, STRING),
        template("replace", "replace({0}, {1}, {2})", STRING, STRING, STRING, STRING),
    ),
    "translate": template("translate", "translate({0}, {1}, {2})", STRING, STRING, STRING, STRING),
    "lpad": _pad("lpad"),
    "rpad": _pad("rpad"),
    "repeat": template("repeat", "repeat({0}, greatest({1}, 0))", STRING, STRING, INT),
    "reverse": template("reverse", "reverse({0})", STRING, STRING),
    "ascii": template("ascii", "CAST(ascii({0}) AS INTEGER)", INT, STRING),
    "initcap": lambda binder, values: TypedSql(
        binder.functions.call(_initcap, STRING, [binder.cast(values[0], STRING)]), STRING, spark_name("initcap", values)
    ),
    "startswith": template("startswith", "starts_with({0}, {1})", BOOLEAN, STRING, STRING),
    "endswith": template("endswith", "ends_with({0}, {1})", BOOLEAN, STRING, STRING),
    "contains": template("contains", "contains({0}, {1})", BOOLEAN, STRING, STRING),
    "split": _split,
    **dict.fromkeys(("rlike", "regexp_like", "regexp"), _regexp_like),
    "regexp_extract": _regexp_extract,
    "regexp_replace": _regexp_replace,
    "md5": template("md5", "md5({0})", STRING, STRING),
    "sha2": _sha2,
    "sha1": template("sha1", "sha1({0})", STRING, STRING),
    "sha": template("sha", "sha1({0})", STRING, STRING),
    "base64": template("base64", "base64({0})", STRING, BINARY),
    "unbase64": template("unbase64", "from_base64({0})", BINARY, STRING),
    "hex": template("hex", "upper(hex({0}))", STRING, BINARY),
    "space": template("space", "repeat(' ', greatest({0}, 0))", STRING, INT),
    "bit_length": template("bit_length", "CAST(octet_length(encode({0})) * 8 AS INTEGER)", INT, STRING),
    "levenshtein": template("levenshtein", "CAST(levenshtein({0}, {1}) AS INTEGER)", INT, STRING, STRING),
}


# ---- Dates and timestamps --------------------------------------------------------------------------------------------

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
    def function(binder: Binder, values: list[TypedSql]) -> TypedSql:
        value = values[0] if is_moment(values[0].type) else binder.cast(values[0], TIMESTAMP)
        return TypedSql(f"CAST({_TIMES[name].format(value.sql)} AS INTEGER)", INT, spark_name(name, values))

    return function


def _date_part(binder: Binder, values: list[TypedSql]) -> TypedSql:
    written = literal_text("extract", values[0], "the part")
    part, shown = written.lower(), f"extract({written} FROM {values[1].name})"
    if part in {"second", "s", "sec", "seconds", "secs"}:
        value = values[1] if is_moment(values[1].type) else binder.cast(values[1], TIMESTAMP)
        micros = f"CAST(microsecond({value.sql}) AS DECIMAL(10,0))"
        return TypedSql(
            f"CAST({micros} * CAST('0.000001' AS DECIMAL(7,6)) AS {duckdb_type(_SECONDS)})", _SECONDS, shown
        )
    if part not in _PARTS:
        raise InvalidInputError(f"extract does not know {part!r} here; it knows {', '.join(sorted(_PARTS))}")
    return TIMES[_PARTS[part]](binder, values[1:]).with_name(shown)


def _trunc(binder: Binder, values: list[TypedSql]) -> TypedSql:
    unit = _UNITS.get(literal_text("trunc", values[1], "the unit").lower())
    day = binder.cast(values[0], DATE).sql
    sql = f"CAST(date_trunc('{unit}', {day}) AS DATE)" if unit else "CAST(NULL AS DATE)"
    return TypedSql(sql, DATE, spark_name("trunc", values))


def _date_trunc(binder: Binder, values: list[TypedSql]) -> TypedSql:
    unit = (_UNITS | _FINER).get(literal_text("date_trunc", values[0], "the unit").lower())
    moment = binder.cast(values[1], TIMESTAMP).sql
    sql = f"CAST(date_trunc('{unit}', {moment}) AS TIMESTAMPTZ)" if unit else "CAST(NULL AS TIMESTAMPTZ)"
    return TypedSql(sql, TIMESTAMP, spark_name("date_trunc", values))


def _local(binder: Binder, value: TypedSql) -> TypedSql:
    """Return a moment as the clock of the session shows it."""
    value = binder.cast(value, TIMESTAMP) if value.type == STRING else value
    return binder.cast(value, TIMESTAMP_NTZ)


def _date_format(binder: Binder, values: list[TypedSql]) -> TypedSql:
    pattern = literal_text("date_format", values[1], "the pattern")
    java_time_format.tokens(pattern)
    sql = binder.functions.call(java_time_format.format_moment, STRING, [_local(binder, values[0])], pattern)
    return TypedSql(sql, STRING, spark_name("date_format", values))


def _read(name: str, kind: pa.DataType) -> Function:
    def function(binder: Binder, values: list[TypedSql]) -> TypedSql:
        if len(values) == 1 or values[0].type != STRING:
            return binder.cast(values[0], kind).with_name(spark_name(name, values))
        pattern = literal_text(name, values[1], "the pattern")
        java_time_format.check_readable(pattern)
        if kind == DATE:
            return TypedSql(
                binder.functions.call(java_time_format.date_by, DATE, values[:1], pattern),
                DATE,
                spark_name(name, values),
            )
        local = TypedSql(
            binder.functions.call(java_time_format.moment_of, TIMESTAMP_NTZ, values[:1], pattern), TIMESTAMP_NTZ, ""
        )
        return binder.cast(local, kind).with_name(spark_name(name, values))

    return function


def _unix_timestamp(binder: Binder, values: list[TypedSql]) -> TypedSql:
    name = spark_name("unix_timestamp", values)
    if not values:
        return TypedSql("CAST(floor(epoch(now())) AS BIGINT)", LONG, name)
    shown = name if len(values) > 1 else f"{name[:-1]}, yyyy-MM-dd HH:mm:ss)"
    pattern = values[1:] or [TypedSql("", STRING, "", literal="yyyy-MM-dd HH:mm:ss")]
    moment = _read("unix_timestamp", TIMESTAMP)(binder, [values[0], *pattern])
    return binder.cast(moment, LONG).with_name(shown)


def _from_unixtime(binder: Binder, values: list[TypedSql]) -> TypedSql:
    pattern = literal_text("from_unixtime", values[1], "the pattern") if len(values) > 1 else "yyyy-MM-dd HH:mm:ss"
    java_time_format.tokens(pattern)
    moment = binder.cast(TypedSql(f"to_timestamp({binder.cast(values[0], LONG).sql})", TIMESTAMP, ""), TIMESTAMP_NTZ)
    sql = binder.functions.call(java_time_format.format_moment, STRING, [moment], pattern)
    return TypedSql(sql, STRING, f"from_unixtime({values[0].name}, {pattern})")


def _months_between(binder: Binder, values: list[TypedSql]) -> TypedSql:
    if len(values) != 2:  # noqa: PLR2004 - the later and the earlier
        raise InvalidInputError("months_between takes 2 arguments here")
    moments = [_local(binder, value) for value in values]
    sql = binder.functions.call(java_time_format.months_between, DOUBLE, moments)
    return TypedSql(sql, DOUBLE, f"{spark_name('months_between', values)[:-1]}, true)")


def _shift_zone(name: str, text: str) -> Function:
    def function(binder: Binder, values: list[TypedSql]) -> TypedSql:
        zone = text_literal(literal_text(name, values[1], "the zone"))
        moment = binder.cast(values[0], TIMESTAMP).sql
        return TypedSql(text.format(moment, zone), TIMESTAMP, spark_name(name, values))

    return function


def _days(name: str, sign: str) -> Function:
    def function(binder: Binder, values: list[TypedSql]) -> TypedSql:
        if len(values) != 2 or values[1].type == LONG:  # noqa: PLR2004 - a date and days
            raise InvalidInputError(f"{name} takes a date and an INT here")
        day, count = binder.cast(values[0], DATE).sql, binder.cast(values[1], INT).sql
        return TypedSql(f"({day} {sign} {count})", DATE, spark_name(f"date_{'add' if sign == '+' else 'sub'}", values))

    return function


def _difference(binder: Binder, values: list[TypedSql]) -> TypedSql:
    if len(values) != 2:  # noqa: PLR2004 - the later and the earlier
        raise InvalidInputError("datediff takes 2 dates here")
    later, earlier = (binder.cast(value, DATE).sql for value in values)
    return TypedSql(f"CAST({later} - {earlier} AS INTEGER)", INT, spark_name("datediff", values))


def _now(name: str, text: str, kind: pa.DataType) -> Callable[[Binder, list[TypedSql]], TypedSql]:
    return template(name, text, kind)


TIMES: Mapping[str, Function] = {
    "current_date": _now("current_date", "CAST(now() AS DATE)", DATE),
    "curdate": _now("current_date", "CAST(now() AS DATE)", DATE),
    "current_timestamp": _now("current_timestamp", "now()", TIMESTAMP),
    "now": _now("now", "now()", TIMESTAMP),
    "current_timezone": lambda binder, _: TypedSql(text_literal(binder.zone), STRING, "current_timezone()"),
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
    "from_utc_timestamp": _shift_zone("from_utc_timestamp", "(({0} AT TIME ZONE {1}) AT TIME ZONE 'UTC')"),
    "to_utc_timestamp": _shift_zone("to_utc_timestamp", "(({0} AT TIME ZONE 'UTC') AT TIME ZONE {1})"),
}
