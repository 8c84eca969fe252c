"""Names of tables in a query, by scope.

Invariant: a name that a CTE of its scope defines is no reference; names compare without regard to upper and
lower case there, as in Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from lakewright.statements.spark_grammar import FragmentKind, ParsedFragment
from lakewright.statements.sql_text import Fragment, Name
from lakewright.statements.token_cursor import TokenCursor

_HINT = re.compile(r"/\*\+(.*?)\*/", re.DOTALL)
_HINT_BEHIND = re.compile(r"\s*(/\*\+.*?\*/)", re.DOTALL)
_OPTIONS = re.compile(r"\bOPTIONS\s*\(((?:[^()'\"]|'[^']*'|\"[^\"]*\")*)\)\s*,?", re.IGNORECASE | re.DOTALL)
_VERSION_WORDS = {"VERSION", "SYSTEM_VERSION"}
_TIME_WORDS = {"TIMESTAMP", "SYSTEM_TIME"}
_BEHIND_TIME = frozenset(
    ") , ; AS WHERE JOIN INNER LEFT RIGHT FULL CROSS NATURAL ANTI SEMI ON USING GROUP HAVING ORDER SORT CLUSTER "
    "DISTRIBUTE LIMIT OFFSET UNION INTERSECT EXCEPT MINUS LATERAL WINDOW PIVOT UNPIVOT TABLESAMPLE SELECT QUALIFY WHEN "
    "SET INSERT |>".split()
)
FUNCTIONS = {
    "paimon_incremental_query": "incremental-between",
    "paimon_incremental_between_timestamp": "incremental-between-timestamp",
    "paimon_incremental_to_auto_tag": "incremental-to-auto-tag",
}


@dataclass(frozen=True, slots=True)
class Travel:
    """`VERSION AS OF` or `TIMESTAMP AS OF` behind a name."""

    is_time: bool
    value: Fragment


@dataclass(frozen=True, slots=True)
class TableFunctionCall:
    """A table function of ours, or IDENTIFIER(...), in place of a name."""

    name: str
    arguments: tuple[exp.Expr, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """A name in FROM, or a table function of ours there, before anything is looked up."""

    piece: ParsedFragment
    node: exp.Table
    name: Name  # of a function: the whole call, and its parts are empty
    start: int
    end: int  # behind the time travel
    alias: str | None
    alias_at: int | None  # where an alias has to be put; None: none may be put there
    travel: Travel | None = None
    call: TableFunctionCall | None = None
    options: Mapping[str, str] = field(default_factory=dict)  # of hints

    @property
    def select(self) -> exp.Expr | None:
        """The SELECT in whose FROM the name stands."""
        return self.node.find_ancestor(exp.Select)


def find_references(piece: ParsedFragment) -> list[Reference]:
    """Return the references of a slice in the order of their places."""
    found = [_reference(piece, node) for node in piece.tree.find_all(exp.Table) if node.find_ancestor(exp.Hint) is None]
    return sorted((one for one in found if one is not None), key=lambda one: one.start)


def hint_places(piece: ParsedFragment) -> dict[tuple[int, int], str]:
    """Return where hints with options stand, and what is left of each: the engine knows no such hint."""
    out = {}
    for start, text in _hints(piece):
        if _OPTIONS.search(text):
            left = _OPTIONS.sub("", text[3:-2]).strip().rstrip(",")
            out[start, start + len(text)] = f"/*+ {left} */" if left else ""
    return out


def _reference(piece: ParsedFragment, node: exp.Table) -> Reference | None:
    call = None
    if isinstance(node.this, exp.Func):
        if not (isinstance(node.this, exp.Anonymous) and _is_known(node.this)):
            return None
        call = TableFunctionCall(node.this.name.lower(), tuple(node.this.expressions))
        span = piece.span(node.this)
        name = None if span is None else Name((), piece.fragment.slice(span[0], _closing(piece, span[1])))
    else:
        name = piece.name(list(node.parts))
    if name is None or (len(name.parts) == 1 and node.args.get("version") is None and _is_cte(piece, node, name)):
        return None
    start, end = name.place.start - piece.fragment.start, name.place.end - piece.fragment.start
    alias = node.args.get("alias")
    own = alias.this if alias is not None and alias.this is not None else None
    travel, end = _travel(piece, end, own)
    return Reference(
        piece,
        node,
        name,
        start,
        end,
        alias=None if own is None else piece.spell_name(own),
        alias_at=_alias_place(piece, start, end, has_alias=own is not None),
        travel=travel,
        call=call,
        options={**_select_options(piece, node), **_own_options(piece, end, own)},
    )


def _is_known(call: exp.Anonymous) -> bool:
    return call.name.lower() in {*FUNCTIONS, "identifier"}


def _closing(piece: ParsedFragment, place: int) -> int:
    """Return the place behind the bracket that opens at a place or behind it."""
    depth = 0
    for word in piece.words[piece.word_at(place) :]:
        depth += (word.text == "(" and not word.is_text) - (word.text == ")" and not word.is_text)
        if depth == 0:
            return word.end
    return len(piece.fragment.text)


def _is_cte(piece: ParsedFragment, node: exp.Expr, name: Name) -> bool:
    """Return whether a CTE that the scope of a name sees is called so."""
    wanted = name.parts[0].lower()
    inside: exp.Expr = node
    above = node.parent
    while above is not None:
        with_ = above.args.get("with_")
        if (
            with_ is not None
            and with_ is not inside
            and any(_is_called(piece, cte, wanted) for cte in with_.expressions)
        ):
            return True
        if isinstance(above, exp.With):
            earlier = above.expressions if above.args.get("recursive") else _before(above.expressions, inside)
            if any(_is_called(piece, cte, wanted) for cte in earlier):
                return True
        inside, above = above, above.parent
    return False


def _before(ctes: list[exp.Expr], inside: exp.Expr) -> list[exp.Expr]:
    return ctes[: next(number for number, cte in enumerate(ctes) if cte is inside)]


def _is_called(piece: ParsedFragment, cte: exp.Expr, wanted: str) -> bool:
    alias = cte.args.get("alias")
    return alias is not None and alias.this is not None and piece.spell_name(alias.this).lower() == wanted


def _travel(piece: ParsedFragment, end: int, alias: exp.Expr | None) -> tuple[Travel | None, int]:
    """Return the time travel behind a name, and where it ends."""
    words, at = piece.words, piece.word_at(end)
    at += at < len(words) and words[at].upper == "FOR"
    phrase = [word.upper for word in words[at : at + 3]]
    if len(phrase) < 3 or phrase[1:] != ["AS", "OF"] or phrase[0] not in _VERSION_WORDS | _TIME_WORDS:  # noqa: PLR2004
        return None, end
    first = last = at + 3
    stop = None if alias is None else piece.span(alias)
    depth = 0
    while last < len(words):
        word = words[last]
        if depth == 0 and last > first and (word.upper in _BEHIND_TIME or (stop and word.start >= stop[0])):
            break
        depth += (word.upper == "(") - (word.upper == ")")
        last += 1
    if first >= len(words):
        raise piece.fragment.error("expected a version or a time", len(piece.fragment.text))
    place = words[last - 1].end
    return Travel(phrase[0] in _TIME_WORDS, piece.fragment.slice(words[first].start, place)), place


def _alias_place(piece: ParsedFragment, start: int, end: int, *, has_alias: bool) -> int | None:
    """Return where the alias of a name without one has to be put: behind it, and behind TABLESAMPLE (...)."""
    before = piece.words[piece.word_at(start) - 1] if piece.word_at(start) else None
    if has_alias or piece.kind is FragmentKind.RELATION or (before is not None and before.upper == "TABLE"):
        return None
    at = piece.word_at(end)
    while at < len(piece.words) and piece.words[at].upper in {"TABLESAMPLE", "REPEATABLE"}:
        end = _closing(piece, piece.words[at].end)
        at = piece.word_at(end)
    return end


# ---- hints -----------------------------------------------------------------------------------------------------------


def _hints(piece: ParsedFragment) -> Iterator[tuple[int, str]]:
    """Yield hints with their places; what stands in texts and quoted names is none."""
    taken = [(word.start, word.end) for word in piece.words if word.is_text or word.is_quoted]
    for found in _HINT.finditer(piece.fragment.text):
        if not any(start <= found.start() < end for start, end in taken):
            yield found.start(), found[0]


def _own_options(piece: ParsedFragment, end: int, alias: exp.Expr | None) -> dict[str, str]:
    """Return the options of hints right behind a name or its alias."""
    span = None if alias is None else piece.span(alias)
    behind = [end] if span is None else [end, span[1]]
    text = piece.fragment.text
    hints = list(_hints(piece))
    if (last := _HINT_BEHIND.match(piece.fragment.whole, piece.fragment.end)) is not None:
        # A slice ends with its last word: a hint behind that stands outside of it.
        text += last[0]
        hints.append((last.start(1) - piece.fragment.start, last[1]))
    out: dict[str, str] = {}
    for start, hint in hints:
        if any(place <= start and not text[place:start].strip() for place in behind):
            out |= _options_of(piece, start, hint)
    return out


def _select_options(piece: ParsedFragment, node: exp.Expr) -> dict[str, str]:
    """Return the options of the hint of the SELECT in whose FROM a name stands."""
    select = node.find_ancestor(exp.Select)
    hint = None if select is None else select.args.get("hint")
    if select is None or hint is None:
        return {}
    wanted = [one.sql() for one in hint.expressions]
    if not any(text.upper().startswith("OPTIONS") for text in wanted):
        return {}
    # The tree does not know where a hint stands: it is the last one behind a SELECT before the first thing in it.
    places = [span[0] for one in select.expressions for part in one.walk() if (span := piece.span(part)) is not None]
    before = [(start, text) for start, text in _hints(piece) if not places or start < min(places)]
    return _options_of(piece, *before[-1]) if before else {}


def _options_of(piece: ParsedFragment, start: int, hint: str) -> dict[str, str]:
    out: dict[str, str] = {}
    for found in _OPTIONS.finditer(hint):
        inside = piece.fragment.slice(start + found.start(1), start + found.end(1))
        cursor = TokenCursor(inside)
        while not cursor.is_done:
            key = cursor.string("an option in quotes, as in OPTIONS('scan.tag-name'='x')")
            cursor.expect("=")
            out[key] = cursor.string("the value of the option in quotes")
            if not cursor.is_done:
                cursor.expect(",")
    return out
