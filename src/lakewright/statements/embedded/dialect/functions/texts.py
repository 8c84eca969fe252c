"""Functions on texts."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.statements.embedded.dialect.functions.templates import literal_text, named, template, with_arity
from lakewright.statements.embedded.dialect.types import BINARY, BOOLEAN, INT, STRING, text_literal
from lakewright.statements.embedded.dialect.values import Binder, Function, Value

# What the regular expressions of Java know and those of DuckDB do not, or mean otherwise.
_JAVA_ONLY = re.compile(
    r"\(\?[=!<>]|\\[1-9GZRhXkN]|[*+?}]\+|&&|\\p\{(?:Is|java|In|L[ul]?\}|Alpha|Punct)|\\Q|\(\?[a-z]*[xdU]"
)


def pattern(name: str, value: Value) -> str:
    """Return a regular expression that means the same in Java and in DuckDB, as a literal."""
    text = literal_text(name, value, "the pattern")
    if found := _JAVA_ONLY.search(text):
        raise UnsupportedError(f"{name}: {found[0]} in the pattern {text!r} does not run here")
    return text_literal(text)


def _regexp_like(binder: Binder, values: list[Value]) -> Value:
    text, wanted = values
    sql = f"regexp_matches({binder.cast(text, STRING).sql}, {pattern('rlike', wanted)})"
    return Value(sql, BOOLEAN, f"RLIKE({text.name}, {wanted.name})")


def _regexp_extract(binder: Binder, values: list[Value]) -> Value:
    group = values[2].literal if len(values) > 2 else 1  # noqa: PLR2004 - the third argument
    if not isinstance(group, int):
        raise InvalidInputError("regexp_extract: the number of the group must be a literal here")
    wanted = literal_text("regexp_extract", values[1], "the pattern")
    if not 0 <= group <= re.compile(wanted).groups:
        raise InvalidInputError(f"regexp_extract: the pattern {wanted!r} has no group {group}")
    sql = f"regexp_extract({binder.cast(values[0], STRING).sql}, {pattern('regexp_extract', values[1])}, {group})"
    return Value(sql, STRING, f"regexp_extract({values[0].name}, {values[1].name}, {group})")


def _regexp_replace(binder: Binder, values: list[Value]) -> Value:
    if len(values) != 3:  # noqa: PLR2004 - text, pattern, replacement
        raise InvalidInputError("regexp_replace takes 3 arguments here")
    new = literal_text("regexp_replace", values[2], "the replacement")
    parts = re.split(r"\\(.)|\$(\d)", new)
    text = ""
    for plain, escaped, group in zip(parts[::3], [*parts[1::3], None], [*parts[2::3], None], strict=True):
        text += plain.replace("\\", "\\\\") + (escaped or "") + (f"\\{group}" if group else "")
    sql = f"{binder.cast(values[0], STRING).sql}, {pattern('regexp_replace', values[1])}, {text_literal(text)}, 'g'"
    return Value(f"regexp_replace({sql})", STRING, f"{named('regexp_replace', values)[:-1]}, 1)")


def _split(binder: Binder, values: list[Value]) -> Value:
    if len(values) == 3 and values[2].literal != -1:  # noqa: PLR2004 - text, pattern, limit
        raise UnsupportedError("split with a limit does not run here")
    if re.compile(literal_text("split", values[1], "the pattern")).match(""):
        raise UnsupportedError("split with a pattern that fits an empty text does not run here")
    sql = f"string_split_regex({binder.cast(values[0], STRING).sql}, {pattern('split', values[1])})"
    return Value(sql, pa.list_(STRING), f"split({values[0].name}, {values[1].name}, -1)")


def _concat(binder: Binder, values: list[Value]) -> Value:
    name = named("concat", values)
    if values and all(pa.types.is_list(value.type) for value in values):
        values = binder.common(values)
        nulls = " OR ".join(f"{value.sql} IS NULL" for value in values)
        joined = f"list_concat({', '.join(value.sql for value in values)})"
        return Value(f"CASE WHEN {nulls} THEN NULL ELSE {joined} END", values[0].type, name)
    if values and all(value.type == BINARY for value in values):
        return Value(f"({' || '.join(value.sql for value in values)})", BINARY, name)
    texts = [binder.cast(value, STRING).sql for value in values]
    return Value(f"({' || '.join(texts)})" if texts else "''", STRING, name)


def _concat_ws(binder: Binder, values: list[Value]) -> Value:
    if any(pa.types.is_list(value.type) for value in values):
        if len(values) != 2:  # noqa: PLR2004 - the separator and one array
            raise UnsupportedError("concat_ws of an array and other values does not run here")
        sql = f"coalesce(array_to_string({values[1].sql}, {binder.cast(values[0], STRING).sql}), '')"
        return Value(sql, STRING, named("concat_ws", values))
    texts = [binder.cast(value, STRING).sql for value in values]
    sql = f"concat_ws({', '.join(texts)})" if len(texts) > 1 else "''"
    return Value(sql, STRING, named("concat_ws", values))


def _substring(binder: Binder, values: list[Value]) -> Value:
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
        return Value(backward if start.literal < 0 else forward, STRING, shown)
    null = f"{start.sql} IS NULL"
    return Value(f"CASE WHEN {null} THEN NULL WHEN {start.sql} < 0 THEN {backward} ELSE {forward} END", STRING, shown)


def _locate(binder: Binder, values: list[Value]) -> Value:
    wanted, text = (binder.cast(value, STRING).sql for value in values[:2])
    if len(values) == 2:  # noqa: PLR2004
        return Value(f"CAST(instr({text}, {wanted}) AS INTEGER)", INT, f"{named('locate', values)[:-1]}, 1)")
    start = binder.cast(values[2], INT).sql
    found = f"instr(substring({text}, {start}), {wanted})"
    sql = f"CASE WHEN {start} < 1 THEN 0 WHEN {found} = 0 THEN 0 ELSE {found} + {start} - 1 END"
    return Value(f"CAST({sql} AS INTEGER)", INT, named("locate", values))


def _trim(name: str) -> Function:
    words = {"trim": "BOTH ", "ltrim": "LEADING ", "rtrim": "TRAILING "}

    def function(binder: Binder, values: list[Value]) -> Value:
        texts = [binder.cast(value, STRING).sql for value in values]
        if len(values) == 1:
            return Value(f"{name}({texts[0]}, ' ')", STRING, named(name, values))
        shown = f"TRIM({words[name]}{values[0].name} FROM {values[1].name})"
        return Value(f"{name}({texts[1]}, {texts[0]})", STRING, shown)

    return function


def _cased(name: str, own: str) -> Function:
    """Return upper or lower; letters outside of ASCII may become several letters, which DuckDB does not know."""
    change = {"upper": str.upper, "lower": str.lower}[own]

    def function(binder: Binder, values: list[Value]) -> Value:
        text = binder.cast(values[0], STRING)
        exact = binder.functions.call(change, STRING, [text])
        plain = f"octet_length(encode({text.sql})) = length({text.sql})"
        return Value(f"CASE WHEN {plain} THEN {own}({text.sql}) ELSE {exact} END", STRING, named(name, values))

    return function


def _initcap(text: str) -> str:
    return re.sub(r"[^ ]+", lambda word: word[0][:1].upper() + word[0][1:].lower(), text)


def _length(name: str) -> Function:
    def function(binder: Binder, values: list[Value]) -> Value:
        value = values[0]
        sql = f"octet_length({value.sql})" if value.type == BINARY else f"length({binder.cast(value, STRING).sql})"
        return Value(f"CAST({sql} AS INTEGER)", INT, named(name, values))

    return function


def _renamed(value: Value, old: str, new: str) -> Value:
    return value.called(value.name.replace(old, new, 1))


def _sha2(binder: Binder, values: list[Value]) -> Value:
    if values[1].literal not in {0, 256}:
        raise UnsupportedError("sha2 with other than 256 bits does not run here")
    return Value(f"sha256({binder.cast(values[0], STRING).sql})", STRING, named("sha2", values))


def _pad(name: str) -> Function:
    text, cut = f"{name}({{0}}, greatest({{1}}, 0), ", "left({0}, greatest({1}, 0))"
    return with_arity(
        name,
        template(name, f"{text}' ')", STRING, STRING, INT),
        # DuckDB cannot pad with an empty text; Spark then only cuts.
        template(name, f"CASE WHEN {{2}} = '' THEN {cut} ELSE {text}{{2}}) END", STRING, STRING, INT, STRING),
    )


TEXTS: Mapping[str, Function] = {
    "upper": _cased("upper", "upper"),
    "ucase": _cased("ucase", "upper"),
    "lower": _cased("lower", "lower"),
    "lcase": _cased("lcase", "lower"),
    **{name: _length(name) for name in ("length", "char_length", "character_length", "len")},
    "octet_length": template("octet_length", "CAST(octet_length(encode({0})) AS INTEGER)", INT, STRING),
    **{name: _trim(name) for name in ("trim", "ltrim", "rtrim")},
    "btrim": template("btrim", "trim({0}, ' ')", STRING, STRING),
    "concat": _concat,
    "concat_ws": _concat_ws,
    "substring": _substring,
    "substr": lambda binder, values: _renamed(_substring(binder, values), "substring", "substr"),
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
    "initcap": lambda binder, values: Value(
        binder.functions.call(_initcap, STRING, [binder.cast(values[0], STRING)]), STRING, named("initcap", values)
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
