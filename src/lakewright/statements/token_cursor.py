"""A cursor over tokens; literals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from lakewright.errors import InvalidInputError, SQLSyntaxError, UnsupportedError
from lakewright.spec.argument_checks import suggest_name
from lakewright.statements.sql_text import DIALECT, Args, E, Fragment, Name, error_at

# ---- The cursor ------------------------------------------------------------------------------------------------------
# The words are sqlglot's tokens; a keyword of several words counts as several. Invariant: what does not fit
# is an error that shows the place and says what was expected there.

_OPENING = {"(": ")", "[": "]", "{": "}"}
_CHAINED = {"NOT", "AND", "OR", "+", "-", "*", "/", "%", "||"}
_SEPARATING = {",", "SELECT", "FROM", "WHERE", "ON", "SET", "WHEN", "THEN", "ELSE"}
_TEXTS = {TokenType.STRING, TokenType.RAW_STRING}
_NAME = re.compile(r"\w+")


class _Tokenizer(Spark.Tokenizer):
    """Spark's words; sqlglot's own tokenizer makes one text of everything after CALL, SHOW and other commands."""

    COMMANDS: ClassVar[set[TokenType]] = set()


def _tokens(text: str) -> list[Token]:
    return _Tokenizer(DIALECT).tokenize(text)


@dataclass(frozen=True, slots=True)
class Word:
    """One word, sign, name or literal of a statement."""

    kind: TokenType
    text: str  # without quotes
    start: int
    end: int  # exclusive
    comments: tuple[str, ...] = ()

    @property
    def upper(self) -> str:
        """The word in capitals, as keywords are compared; a quoted name or a text equals no keyword."""
        return "" if self.is_quoted or self.is_text else self.text.upper()

    @property
    def is_quoted(self) -> bool:
        """Whether it is a name in backticks."""
        return self.kind is TokenType.IDENTIFIER

    @property
    def is_text(self) -> bool:
        """Whether it is a text in quotes."""
        return self.kind in _TEXTS


def words_of(whole: str, start: int = 0, end: int | None = None) -> list[Word]:
    """Return the words of a slice of a text; places count from the start of the text."""
    stop = len(whole) if end is None else end
    try:
        tokens = _tokens(whole[start:stop])
    except SqlglotError as error:
        message = "a quote or a comment is not closed" if "tokeniz" in str(error) else str(error)
        raise error_at(SQLSyntaxError, message, whole, _find_unclosed(whole, start, stop)) from None
    return _with_quotes([word for token in _drop_added_tokens(tokens) for word in _split(token, whole, start)], whole)


def _drop_added_tokens(tokens: Iterable[Token]) -> list[Token]:
    """Leave out what sqlglot adds: the type behind a number such as `1L` has the place of the number."""
    out: list[Token] = []
    for token in tokens:
        if not out or (token.start, token.end) != (out[-1].start, out[-1].end):
            out.append(token)
    return out


def _with_quotes(words: Iterable[Word], whole: str) -> list[Word]:
    """Make one text of `'it''s'`, in which a doubled quote stands for the quote, as in Spark 4; sqlglot sees two."""
    out: list[Word] = []
    for word in words:
        last = out[-1] if out else None
        if last is not None and last.is_text and word.is_text and last.end == word.start:
            quote = whole[word.start]
            if quote in "'\"" and whole[last.end - 1] == quote:
                out[-1] = replace(last, text=f"{last.text}{quote}{word.text}", end=word.end)
                continue
        out.append(word)
    return out


def _split(token: Token, whole: str, base: int) -> list[Word]:
    start, end = token.start + base, token.end + base + 1
    comments = tuple(token.comments)
    if token.token_type in {*_TEXTS, TokenType.IDENTIFIER} or not any(map(str.isspace, token.text)):
        return [Word(token.token_type, token.text, start, end, comments)]
    found = re.finditer(r"\S+", whole[start:end])
    return [Word(TokenType.VAR, one[0], start + one.start(), start + one.end(), comments) for one in found]


def _find_unclosed(whole: str, start: int, end: int) -> int:
    """Return where the quote or comment that is not closed begins: the last place up to which the text can be read."""
    for mark in re.finditer(r"['\"`]|/\*", whole[start:end]):
        try:
            _tokens(whole[start : start + mark.start()] + " ")
        except SqlglotError:
            continue
        at = start + mark.start()
    return at


def nesting_depth(fragment: Fragment) -> int:
    """Return how deep a statement is nested: in brackets, in CASE, behind NOT, or as a chain of operators."""
    opened, deepest = [0], 0  # in each bracket or CASE that is open, how many operators follow each other there
    for word in words_of(fragment.whole, fragment.start, fragment.end):
        if word.is_text or word.is_quoted:
            continue
        if word.text in _OPENING or word.upper == "CASE":
            opened.append(0)
        elif (word.text in _OPENING.values() or word.upper == "END") and len(opened) > 1:
            opened.pop()
        elif word.upper in _CHAINED:
            opened[-1] += 1
        elif word.upper in _SEPARATING:
            opened[-1] = 0
        deepest = max(deepest, len(opened) - 1 + sum(opened))
    return deepest


class TokenCursor:
    """Reads the words of one statement from left to right."""

    def __init__(self, fragment: Fragment) -> None:
        self.fragment = fragment
        self.words = words_of(fragment.whole, fragment.start, fragment.end)
        self.at = 0

    # ---- looking

    @property
    def here(self) -> Word:
        """The next word; at the end an empty one."""
        if self.at < len(self.words):
            return self.words[self.at]
        return Word(TokenType.SENTINEL, "", self.fragment.end, self.fragment.end)

    @property
    def is_done(self) -> bool:
        """Whether all words are read."""
        return self.at >= len(self.words)

    def sees(self, *sequence: str) -> bool:
        """Return whether these keywords or signs come next."""
        ahead = self.words[self.at : self.at + len(sequence)]
        return len(ahead) == len(sequence) and all(
            word.upper == one.upper() for word, one in zip(ahead, sequence, strict=True)
        )

    def sees_any(self, *phrases: str) -> bool:
        """Return whether one of these phrases comes next; a phrase may have several words."""
        return any(self.sees(*phrase.split()) for phrase in phrases)

    # ---- reading

    def take(self) -> Word:
        """Read one word."""
        if self.is_done:
            raise self.unexpected_word("more")
        self.at += 1
        return self.words[self.at - 1]

    def accept(self, *sequence: str) -> bool:
        """Read these keywords or signs if they come next, and return whether they did."""
        found = self.sees(*sequence)
        self.at += len(sequence) if found else 0
        return found

    def expect(self, *sequence: str) -> None:
        """Read these keywords or signs; anything else is an error."""
        if not self.accept(*sequence):
            raise self.unexpected_word(" ".join(sequence))

    def expect_end(self) -> None:
        """Raise an error if a word is left."""
        if not self.is_done:
            raise self.unexpected_word("the end of the statement")

    def name(self, what: str = "a name") -> str:
        """Read a name of one part, plain or in backticks."""
        word = self.here
        if not word.is_quoted and (word.is_text or not _NAME.fullmatch(word.text)):
            raise self.unexpected_word(what)
        self.at += 1
        return word.text

    def qualified_name(self, what: str = "the name of a table") -> Name:
        """Read a name of one or more parts with dots between them."""
        start, parts = self.here.start, [self._part(what)]
        while self.accept("."):
            parts.append(self._part(what))
        return Name(tuple(parts), Fragment(self.fragment.whole, start, self.words[self.at - 1].end))

    def _part(self, what: str) -> str:
        """Read one part of a name; `t$branch_b` and `t$files` need no backticks."""
        text = self.name(what)
        while self.here.text == "$" and self.here.start == self.words[self.at - 1].end:
            self.at += 1
            text += f"${self.name(what)}"
        return text

    def string(self, what: str = "a text in quotes") -> str:
        """Read a text in quotes; texts side by side are one."""
        if not self.here.is_text:
            raise self.unexpected_word(what)
        text = self.take().text
        while self.here.is_text:
            text += self.take().text
        return text

    def integer(self, what: str = "a whole number") -> int:
        """Read a whole number without a sign."""
        if not self.here.text.isdigit() or self.here.is_text:
            raise self.unexpected_word(what)
        return int(self.take().text)

    def until(self, *phrases: str, what: str = "an expression") -> Fragment:
        """Read up to one of these phrases, or to the end, outside brackets and CASE ... END; return the slice.

        A phrase is one sign or some keywords: `cursor.until("WHERE")`, `cursor.until(",", "WHEN MATCHED")`.
        """
        start, depth = self.at, 0
        while not self.is_done and (depth or not self.sees_any(*phrases)):
            word = self.here
            if word.text in _OPENING or word.upper == "CASE":
                depth += 1
            elif word.text in _OPENING.values() or (word.upper == "END" and depth):
                depth -= 1
            if depth < 0:
                break
            self.at += 1
        if self.at == start:
            raise self.unexpected_word(what)
        return Fragment(self.fragment.whole, self.words[start].start, self.words[self.at - 1].end)

    def take_bracket(self) -> Fragment:
        """Read a bracket with everything in it, and return what stands between `(` and `)`."""
        self.expect("(")
        inside = self.here.start
        if self.sees(")"):
            self.at += 1
            return Fragment(self.fragment.whole, inside, inside)
        fragment = self.until(")")
        self.expect(")")
        return fragment

    def rest(self, what: str = "more") -> Fragment:
        """Read everything that is left."""
        return self.until(what=what)

    # ---- errors

    def unexpected_word(self, expected: str) -> SQLSyntaxError:
        """Return the error for a word that does not fit."""
        found = f"{self.here.text!r}" if self.here.text else "the end of the statement"
        return error_at(SQLSyntaxError, f"expected {expected}, found {found}", self.fragment.whole, self.here.start)

    def error(self, message: str, *, kind: type[E], word: Word | None = None) -> E:
        """Return an error at the next word, or at a word that was read before."""
        return error_at(kind, message, self.fragment.whole, (word or self.here).start)


# ---- Literals --------------------------------------------------------------------------------------------------------


def literal_text(fragment: Fragment, args: Args | None = None, *, what: str = "a value") -> str | None:
    """Return the text of a literal, or of the parameter that stands for one; None is NULL.

    A text is returned without quotes, a date, time or typed number as the text of its value; anything that had to be
    computed is an error.

    >>> literal_text(Fragment("DATE '2026-01-31'", 0, 17)), literal_text(Fragment("-5L", 0, 3))
    ('2026-01-31', '-5')
    """
    tree = fragment.tree
    if isinstance(tree, exp.Placeholder):
        return _parameter_text(fragment, tree, args or {})
    text = _text(tree)
    if text is None and not isinstance(tree, exp.Null):
        raise fragment.error(f"{what} must be a literal, such as 5, 'x' or DATE '2026-01-31'", kind=UnsupportedError)
    return text


def _text(tree: exp.Expr) -> str | None:
    match tree:
        case exp.Literal() | exp.RawString():
            return str(tree.this)
        case exp.Concat():
            parts = [_text(part) for part in tree.expressions]
            return None if None in parts else "".join(part for part in parts if part is not None)
        case exp.Boolean():
            return "true" if tree.this else "false"
        case exp.Neg():
            inner = _text(tree.this)
            return None if inner is None else f"-{inner}"
        case exp.Paren() | exp.Cast():  # a typed literal is read as a cast of its text
            return _text(tree.this)
        case _:
            return None


def _parameter_text(fragment: Fragment, marker: exp.Placeholder, args: Args) -> str | None:
    name = marker.args.get("this") or ""
    if isinstance(args, Mapping):
        if name not in args:
            hint = suggest_name(name, map(str, args)) if args else "args has no values"
            raise fragment.error(f"there is no value for :{name}; {hint}", kind=InvalidInputError)
        value = args[name]
    else:
        place = sum(word.text == "?" and not word.is_text for word in words_of(fragment.whole, 0, fragment.start))
        if name or place >= len(args):
            raise fragment.error("args has no value for this parameter", kind=InvalidInputError)
        value = args[place]
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)
