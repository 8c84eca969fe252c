"""Filters written as SQL text.

or      := and (OR and)*
    and     := not (AND not)*
    not     := NOT not | test
    test    := '(' or ')' | operand | operand comparison operand | operand IS [NOT] NULL
             | operand [NOT] (IN (...) | BETWEEN operand AND operand | LIKE .. [ESCAPE ..])
    operand := column | number | 'text' | DATE 'text' | TIME 'text' | TIMESTAMP 'text' | X'hex' | TRUE | FALSE | NULL

A column is bare, `back-quoted` or "double-quoted"; dots lead into ROW fields. Keywords know no case. Only conditions
over two tables compare a column with a column. Every error says where in the text it stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NoReturn, TypeAlias

from lakewright.errors import ColumnNotExistException, InvalidInputError
from lakewright.spec.comparison import matches_value
from lakewright.spec.predicate import (
    FALSE,
    TRUE,
    ColumnName,
    Predicate,
    PredicateBuilder,
    and_predicates,
    format_column,
    or_predicates,
)
from lakewright.spec.types import AtomicType, DataField

DEPTH_MAX = 100
DIGITS_MAX = 400
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?(?![\w.]))
      | (?P<bytes>[xX]'(?:[^']*)')
      | (?P<text>'(?:[^']|'')*')
      | (?P<quoted>`(?:[^`]|``)+`|"(?:[^"]|"")+")
      | (?P<word>[^\W\d]\w*)
      | (?P<symbol><=|>=|<>|!=|==|[=<>(),.+-])
      | (?P<end>$)
    )""",
    re.VERBOSE,
)
_COMPARE: dict[str, tuple[str, Callable[[PredicateBuilder, ColumnName, object], Predicate]]] = {
    "=": ("equal", PredicateBuilder.equal),
    "==": ("equal", PredicateBuilder.equal),
    "<>": ("notEqual", PredicateBuilder.not_equal),
    "!=": ("notEqual", PredicateBuilder.not_equal),
    "<": ("lessThan", PredicateBuilder.less_than),
    "<=": ("lessOrEqual", PredicateBuilder.less_or_equal),
    ">": ("greaterThan", PredicateBuilder.greater_than),
    ">=": ("greaterOrEqual", PredicateBuilder.greater_or_equal),
}
_MIRROR = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_KEYWORDS = frozenset("AND OR NOT IN BETWEEN LIKE ESCAPE IS NULL TRUE FALSE".split())
_TYPED = {"DATE": {"DATE"}, "TIME": {"TIME"}, "TIMESTAMP": {"TIMESTAMP", "TIMESTAMP_LTZ"}}
_NUMBERS = frozenset("TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL".split())


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int  # counted from 1


@dataclass(frozen=True, slots=True)
class _Literal:
    value: object
    kind: str  # number, text, bytes, boolean, null, DATE, TIME or TIMESTAMP
    at: int


@dataclass(frozen=True, slots=True)
class _Column:
    name: ColumnName
    at: int


_Operand: TypeAlias = _Literal | _Column


def parse_predicate(text: str, fields: Sequence[DataField], zone: str = "UTC") -> Predicate:
    """Read a filter such as `id > 3 AND name LIKE 'a%'` against the columns of a schema.

    `zone` is the zone of times without one that are compared with columns WITH LOCAL TIME ZONE.

    >>> fields = [DataField(0, "id", AtomicType("INT")), DataField(1, "name", AtomicType("STRING"))]
    >>> str(parse_predicate("5 >= id and not (name is null or name in ('a', 'b'))", fields))
    "id <= 5 AND NOT (name IS NULL OR name IN ('a', 'b'))"
    """
    return _Parser(_tokens(text), PredicateBuilder(fields, zone)).parse()


def parse_condition(text: str, builder: PredicateBuilder) -> Predicate:
    """Read a condition on the columns of a builder, in which columns may be compared with each other."""
    return _Parser(_tokens(text), builder, pairs=True).parse()


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while True:
        match = _TOKEN.match(text, at)
        if match is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            what = "a closing quote" if text[at] in "'\"`" else "a column, a literal or an operator"
            _fail(at + 1, what, text[at : at + 20])
        kind = match.lastgroup or "end"
        tokens.append(_Token(kind, match[kind], match.start(kind) + 1))
        if kind == "end":
            return tokens
        at = match.end()


def _fail(at: int, expected: str, found: str) -> NoReturn:
    raise InvalidInputError(f"filter text, column {at}: expected {expected}, found {found or 'the end'}", position=at)


class _Parser:
    """Reads tokens from left to right; each method consumes what its rule describes."""

    def __init__(self, tokens: list[_Token], builder: PredicateBuilder, *, pairs: bool = False) -> None:
        self._tokens = tokens
        self._next = 0
        self._depth = 0
        self._builder = builder
        self._pairs = pairs  # columns may be compared with columns

    def parse(self) -> Predicate:
        predicate = self._or()
        if self._peek().kind != "end":
            self._fail_expected("AND, OR or the end")
        return predicate

    def _or(self) -> Predicate:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            self._fail_expected(f"at most {DEPTH_MAX} nested levels")
        parts = [self._and()]
        while self._take("OR"):
            parts.append(self._and())
        self._depth -= 1
        return parts[0] if len(parts) == 1 else or_predicates(parts)

    def _and(self) -> Predicate:
        parts = [self._not()]
        while self._take("AND"):
            parts.append(self._not())
        return parts[0] if len(parts) == 1 else and_predicates(parts)

    def _not(self) -> Predicate:
        negations = 0
        while self._take("NOT"):
            negations += 1
        predicate = self._test()
        return ~predicate if negations % 2 else predicate

    def _test(self) -> Predicate:
        if self._take("("):
            predicate = self._or()
            self._need(")")
            return predicate
        start = self._peek()
        left = self._operand()
        try:
            return self._condition(left)
        except ColumnNotExistException as error:
            raise ColumnNotExistException(f"filter text, column {start.at}: {error.message}", **error.facts) from None

    def _condition(self, left: _Operand) -> Predicate:
        token = self._peek()
        if token.text in _COMPARE:
            self._next += 1
            return self._comparison(left, token, self._operand())
        if self._take("IS"):
            negated = self._take("NOT")
            self._need("NULL")
            name = self._column(left).name
            return self._builder.is_not_null(name) if negated else self._builder.is_null(name)
        negated = self._take("NOT")
        if self._take("IN"):
            return self._in(self._column(left), negated=negated)
        if self._take("BETWEEN"):
            return self._between(self._column(left), negated=negated)
        if self._take("LIKE"):
            like = self._builder.like(self._column(left).name, self._pattern())
            return ~like if negated else like
        if negated:
            self._fail_expected("IN, BETWEEN or LIKE")
        return self._alone(left)

    def _alone(self, operand: _Operand) -> Predicate:
        """Read an operand that is a condition by itself: TRUE, FALSE, or a BOOLEAN column."""
        if isinstance(operand, _Literal):
            if operand.kind == "boolean":
                return TRUE if operand.value else FALSE
            return self._fail_expected("a comparison")
        dtype = self._builder.resolve(operand.name)[1]
        if isinstance(dtype, AtomicType) and dtype.root == "BOOLEAN":
            return self._builder.equal(operand.name, literal=True)
        return self._fail_expected("a comparison")

    def _comparison(self, left: _Operand, symbol: _Token, right: _Operand) -> Predicate:
        match left, right:
            case _Column(), _Literal():
                return self._compare(symbol.text, left, right)
            case _Literal(), _Column():
                return self._compare(_MIRROR.get(symbol.text, symbol.text), right, left)
            case _Column(), _Column() if self._pairs:
                return self._builder.compare_columns(_COMPARE[symbol.text][0], left.name, right.name)
            case _Literal(), _Literal() if left.kind == right.kind and left.kind in {"number", "text"}:
                # Generated filters often begin with `1 = 1`.
                return TRUE if matches_value(_COMPARE[symbol.text][0], (right.value,), left.value) else FALSE
            case _Column(), _Column():
                name = format_column(right.name)
                shown = name.replace("'", "''")
                raise InvalidInputError(
                    f"filter text, column {symbol.at}: expected a literal, found the column {name!r}; double "
                    f"quotes and bare words name columns, text stands in single quotes: '{shown}'",
                    position=symbol.at,
                )
            case _:
                _fail(symbol.at, "a comparison of a column with a literal", symbol.text)

    def _compare(self, symbol: str, column: _Column, literal: _Literal) -> Predicate:
        return _COMPARE[symbol][1](self._builder, column.name, self._fit_literal(column, literal))

    def _in(self, column: _Column, *, negated: bool) -> Predicate:
        self._need("(")
        values: list[object] = []
        while not self._take(")"):
            if values:
                self._need(",")
            values.append(self._fit_literal(column, self._literal()))
        members = self._builder.is_not_in if negated else self._builder.is_in
        return members(column.name, values)

    def _between(self, column: _Column, *, negated: bool) -> Predicate:
        first = self._operand()
        self._need("AND")
        second = self._operand()
        if self._pairs and (isinstance(first, _Column) or isinstance(second, _Column)):
            at_least = self._comparison(column, _Token("symbol", ">=", column.at), first)
            inside = and_predicates((at_least, self._comparison(column, _Token("symbol", "<=", column.at), second)))
            return ~inside if negated else inside
        lower, upper = (self._fit_literal(column, self._need_literal(operand)) for operand in (first, second))
        between = self._builder.not_between if negated else self._builder.between
        return between(column.name, lower, upper)

    def _pattern(self) -> str:
        r"""Read a pattern and its ESCAPE; the result escapes with `\` whatever the text used."""
        literal = self._literal()
        if literal.kind != "text":
            _fail(literal.at, "a pattern in quotes", str(literal.value))
        pattern = str(literal.value)
        if not self._take("ESCAPE"):
            return pattern
        escape = self._literal()
        if escape.kind != "text" or len(str(escape.value)) != 1:
            _fail(escape.at, "one character in quotes", str(escape.value))
        mark = str(escape.value)
        if mark == "\\":
            return pattern
        pieces = re.findall(rf"{re.escape(mark)}.|.", pattern, re.DOTALL)
        return "".join("\\" + p[1:] if p[0] == mark and len(p) > 1 else p.replace("\\", "\\\\") for p in pieces)

    def _fit_literal(self, column: _Column, literal: _Literal) -> object:
        """Return a literal for a column: text may also hold dates, times, numbers and truth values."""
        dtype = self._builder.resolve(column.name)[1]
        root = dtype.root if isinstance(dtype, AtomicType) else ""
        if literal.kind in _TYPED and root not in _TYPED[literal.kind] | (
            {"TIMESTAMP", "TIMESTAMP_LTZ"} if literal.kind == "DATE" else set()
        ):
            _fail(literal.at, f"a literal for column {format_column(column.name)!r} of type {dtype}", literal.kind)
        if literal.kind == "text" and root in _NUMBERS:
            try:
                return Decimal(str(literal.value).strip().lower().replace("snan", "?"))
            except ArithmeticError:
                _fail(
                    literal.at,
                    f"a number for column {format_column(column.name)!r} of type {dtype}",
                    repr(literal.value),
                )
        return literal.value

    def _column(self, operand: _Operand) -> _Column:
        if isinstance(operand, _Literal):
            _fail(operand.at, "a column", str(operand.value))
        return operand

    def _literal(self) -> _Literal:
        return self._need_literal(self._operand())

    def _need_literal(self, operand: _Operand) -> _Literal:
        if isinstance(operand, _Column):
            _fail(operand.at, "a literal", format_column(operand.name))
        return operand

    def _operand(self) -> _Operand:
        token = self._peek()
        self._next += 1
        match token.kind:
            case "number":
                return _Literal(_number(token.text, token.at), "number", token.at)
            case "text":
                return _Literal(token.text[1:-1].replace("''", "'"), "text", token.at)
            case "bytes":
                return _Literal(_hex(token), "bytes", token.at)
            case "symbol" if token.text in {"+", "-"} and self._peek().kind == "number":
                self._next += 1
                return _Literal(_number(token.text + self._tokens[self._next - 1].text, token.at), "number", token.at)
            case "word" | "quoted":
                return self._word(token)
            case _:
                self._next -= 1
                return self._fail_expected("a column or a literal")

    def _word(self, token: _Token) -> _Operand:
        upper = token.text.upper() if token.kind == "word" else ""
        if upper in {"TRUE", "FALSE"}:
            return _Literal(upper == "TRUE", "boolean", token.at)
        if upper == "NULL":
            return _Literal(None, "null", token.at)
        if upper in _TYPED and self._peek().kind == "text":
            self._next += 1
            return _Literal(self._tokens[self._next - 1].text[1:-1], upper, token.at)
        if upper in _KEYWORDS:
            self._next -= 1
            return self._fail_expected("a column or a literal")
        parts = [_name(token)]
        while self._take("."):
            part = self._peek()
            if part.kind not in {"word", "quoted"}:
                self._fail_expected("the name of a field")
            self._next += 1
            parts.append(_name(part))
        if token.kind == "word" and self._peek().text == "(":
            raise InvalidInputError(
                f"filter text, column {token.at}: the function {token.text!r} cannot be used in a filter; compare "
                "columns with literals (=, <>, <, IN, BETWEEN, LIKE, IS NULL), or filter the rows after reading them",
                position=token.at,
            )
        return _Column(self._name(tuple(parts)), token.at)

    def _name(self, parts: tuple[str, ...]) -> ColumnName:
        """Return the column with just these names; if there is none, the text is understood as builders do it."""
        try:
            self._builder.resolve(parts)
        except ColumnNotExistException:
            return ".".join(parts)
        return parts

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self, word: str) -> bool:
        token = self._peek()
        if token.kind in {"word", "symbol"} and token.text.upper() == word:
            self._next += 1
            return True
        return False

    def _need(self, word: str) -> None:
        if not self._take(word):
            self._fail_expected(word)

    def _fail_expected(self, what: str) -> NoReturn:
        token = self._peek()
        _fail(token.at, what, token.text)


def _name(token: _Token) -> str:
    if token.kind == "word":
        return token.text
    quote = token.text[0]
    return token.text[1:-1].replace(quote * 2, quote)


def _number(text: str, at: int) -> int | Decimal:
    if len(text) > DIGITS_MAX:
        _fail(at, f"a number of at most {DIGITS_MAX} characters", text[:20])
    return int(text) if text.lstrip("+-").isdigit() else Decimal(text)


def _hex(token: _Token) -> bytes:
    try:
        return bytes.fromhex(token.text[2:-1])
    except ValueError:
        _fail(token.at, "pairs of hexadecimal digits", token.text)
