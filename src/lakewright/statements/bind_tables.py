"""A statement with the names of our tables replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from sqlglot import exp

from lakewright.errors import ColumnNotExistException, NotFoundError, UnsupportedError
from lakewright.read.read_builder import ReadBuilder
from lakewright.read.time_travel import is_incremental
from lakewright.spec.identifier import quote_identifier
from lakewright.spec.predicate import Predicate
from lakewright.spec.system_columns import metadata_fields
from lakewright.spec.types import AtomicType, DataField
from lakewright.statements.pushdown_filters import filter_of
from lakewright.statements.spark_grammar import FragmentKind, ParsedFragment, read_piece
from lakewright.statements.sql_session import Session, nearest
from lakewright.statements.sql_text import Args, Fragment, Name
from lakewright.statements.table_lookup import Found, Lookup, Tables, place_of
from lakewright.statements.table_references import Reference, find_references, hint_places
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.open_table import pinned_builder
from lakewright.table.table_views import AuditLog, ReadableTable, SystemReadBuilder, SystemTable

# ---- Columns that a statement needs ----------------------------------------------------------------------------------
# A column whose name occurs nowhere in the statement, and that no star covers, is not read. What is not understood
# reads all columns.

_PATTERN_SIGNS = frozenset("*+?()[]|^")  # a name in backticks may be a pattern of columns
_NARROW = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "DATE", "FLOAT", "BIGINT", "DOUBLE", "TIME")


def columns_read(
    pieces: Sequence[ParsedFragment],
    reference: Reference,
    fields: Sequence[DataField],
    hidden: Sequence[DataField] = (),
) -> tuple[str, ...] | None:
    """Return the columns that have to be read of a reference, at least one; None: all.

    Hidden ones are read where a column of the statement has their name.
    """
    if any(_not_understood(piece) for piece in pieces) or _reads_all(pieces, reference):
        return None
    used = {name.lower() for piece in pieces for name in _names(piece)}
    needed = tuple(field.name for field in fields if field.name.lower() in used)
    named = tuple(field.name for field in hidden if field.name in used and _is_named(pieces, reference, field.name))
    if named:
        return (*needed, *named)
    if len(needed) == len(fields):
        return None
    return needed or _narrowest(fields)


def _is_named(pieces: Sequence[ParsedFragment], reference: Reference, name: str) -> bool:
    """Say whether a column of a statement may be this one of a reference."""
    own = (reference.alias or (reference.name.parts[-1] if reference.name.parts else "")).lower()
    for piece in pieces:
        for column in piece.tree.find_all(exp.Column):
            parts = [piece.spell_name(part).lower() for part in column.parts]
            if name in parts and (parts[0] == name or not own or parts[parts.index(name) - 1] == own):
                return True
    return False


def _narrowest(fields: Sequence[DataField]) -> tuple[str, ...]:
    """Return the column that is the cheapest to read, for a query that only counts rows."""
    roots = {field.name: field.type.root for field in fields if isinstance(field.type, AtomicType)}
    narrow = (name for root in _NARROW for name, own in roots.items() if own == root)
    return (next(narrow, fields[0].name),)


def _names(piece: ParsedFragment) -> Iterable[str]:
    for word in piece.words:
        # A setting of Spark makes names of what stands in double quotes.
        if not word.is_text or piece.fragment.text[word.start] == '"':
            yield word.text


def _not_understood(piece: ParsedFragment) -> bool:
    words = piece.words
    is_pattern = any(word.is_quoted and _PATTERN_SIGNS & set(word.text) for word in words)
    return is_pattern or any(word.text == "|>" or word.upper in {"IDENTIFIER", "TRANSFORM"} for word in words)


def _reads_all(pieces: Sequence[ParsedFragment], reference: Reference) -> bool:
    node = reference.node
    alias = node.args.get("alias")
    if (
        reference.piece.kind is FragmentKind.RELATION
        or node.args.get("pivots")
        or (alias is not None and alias.columns)
    ):
        return True
    select = node.find_ancestor(exp.Select)
    if select is None or any(_is_natural(join) for join in select.find_all(exp.Join)):
        return True
    name = (reference.alias or reference.name.parts[-1] if reference.name.parts else reference.alias or "").lower()
    return any(_covers(piece, star, reference, select, name) for piece in pieces for star in _stars(piece))


def _is_natural(join: exp.Expr) -> bool:
    return str(join.args.get("method") or "").upper() == "NATURAL"


def _stars(piece: ParsedFragment) -> Iterable[exp.Expr]:
    for star in piece.tree.find_all(exp.Star):
        if not (isinstance(star.parent, exp.Count) and star.parent.this is star):
            yield star


def _covers(piece: ParsedFragment, star: exp.Expr, reference: Reference, select: exp.Expr, name: str) -> bool:
    """Return whether a star may stand for columns of a reference: in its own SELECT, or with its name before it."""
    column = star.parent
    if isinstance(column, exp.Column):
        return not name or any(piece.spell_name(part).lower() == name for part in column.parts[:-1])
    return piece is reference.piece and star.find_ancestor(exp.Select) is select


# ---- Binding ---------------------------------------------------------------------------------------------------------
# fragments -> pieces with trees -> references by scope -> tables, columns and filters -> relations and splices
#
# An engine registers every `Relation` (its `builder()` reads it) and asks `Bound.text` for the text in which each
# name of ours is the name of such a relation. Invariant: the rest of the text is the user's own.


TableState: TypeAlias = tuple[FileStoreTable, int | None]  # a table, and the snapshot at which it is read


@dataclass(frozen=True, slots=True)
class BoundTable:
    """A table as a statement reads it, at one state."""

    name: str  # unique in the statement, for people to recognise
    table: ReadableTable
    snapshot_id: int | None  # None: the table's options name the state, or it has none
    columns: tuple[str, ...] | None = None  # None: all
    predicate: Predicate | None = None  # an extra: rows that it leaves out change no result

    def builder(self) -> ReadBuilder | SystemReadBuilder:
        """Return what reads the relation."""
        builder = self._state()
        if self.predicate is not None:
            builder = builder.with_filter(self.predicate)
        return builder if self.columns is None else builder.with_projection(self._choose_columns(self.columns))

    def _choose_columns(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Return the columns to name: of a log at least the kinds of its rows, so that they can be counted."""
        return columns or ((self.table.kind_column,) if isinstance(self.table, AuditLog) else columns)

    def _state(self) -> ReadBuilder | SystemReadBuilder:
        if self.snapshot_id is None or isinstance(self.table, SystemTable):
            return self.table.new_read_builder()
        return pinned_builder(self.table, self.snapshot_id)


@dataclass(frozen=True, slots=True)
class BoundStatement:
    """Slices whose names are looked up."""

    pieces: tuple[ParsedFragment, ...]
    relations: tuple[BoundTable, ...]
    left: tuple[Name, ...]  # names that are none of ours: the engine has to know them
    _splices: tuple[Mapping[tuple[int, int], str | tuple[BoundTable, str]], ...]
    _tables: Tables

    def text(self, number: int, write: Callable[[BoundTable], str], *, escape_braces: bool = False) -> str:
        """Return the text of a slice in which `write` says how the engine names a relation."""
        changes = self.changes(number, write, escape_braces=escape_braces)
        return self.pieces[number].fragment.replace_at(changes, escape_braces=escape_braces)

    def changes(
        self, number: int, write: Callable[[BoundTable], str], *, escape_braces: bool = False
    ) -> dict[tuple[int, int], str]:
        """Return what stands in the places of names of ours in the text of a slice."""
        out = {}
        for place, new in self._splices[number].items():
            other = new if isinstance(new, str) else write(new[0]) + _escape_braces_if(new[1], escape_braces)
            out[place] = _escape_braces_if(other, escape_braces) if isinstance(new, str) else other
        return out

    def missing(self, name: Name) -> NotFoundError:
        """Return the error for a name among `left` that the engine does not know either."""
        return self._tables.missing(name)

    def missing_column(self, written: str, known: Sequence[str] = ()) -> ColumnNotExistException:
        """Return the error for a column that no table has; `known` are more columns that the engine knows."""
        own = [field.name for relation in self.relations for field in relation.table.fields]
        near = nearest(written.rpartition(".")[2], [*dict.fromkeys([*own, *known])])
        columns = "" if near else f"; there are {', '.join(dict.fromkeys(own))}" if own else ""
        message = f"there is no column {written!r}{near}{columns}"
        for piece in self.pieces:
            place = _place_of(piece, written.split("."))
            if place is not None:
                return piece.fragment.error(message, place, kind=ColumnNotExistException, column=written)
        return ColumnNotExistException(message, column=written)


def _place_of(piece: ParsedFragment, parts: Sequence[str]) -> int | None:
    """Return where a name stands in a slice, which may be written in part only; None: nowhere."""
    words = [word.text.lower() if not word.is_text else "" for word in piece.words]
    for length in range(len(parts), 0, -1):
        spelled = ".".join(parts[-length:]).lower().replace(".", " . ").split(" ")
        for at in range(len(words) - len(spelled) + 1):
            if words[at : at + len(spelled)] == spelled:
                return piece.words[at].start
    return None


def bind(
    session: Session,
    lookup: Lookup,
    fragments: Sequence[Fragment | tuple[Fragment, FragmentKind]],
    args: Args,
    at: TableState | None = None,
) -> BoundStatement:
    """Look up the tables of some slices of one statement; `at` is a table whose snapshot is given."""
    pieces = tuple(read_piece(*one) if isinstance(one, tuple) else read_piece(one) for one in fragments)
    tables = Tables(session, lookup, args, {} if at is None else {place_of(at[0]): at[1]})
    found: list[tuple[Reference, Found]] = []
    left: list[Name] = []
    for reference in (one for piece in pieces for one in find_references(piece)):
        table = tables.find(reference)
        left += [reference.name] if table is None else []
        found += [] if table is None else [(reference, table)]
    relations = _relations(pieces, found, lookup.zone if found else "UTC", args)
    splices = tuple(_splices(piece, found, relations, tables) for piece in pieces)
    unique = {id(relation): relation for relation in relations}
    return BoundStatement(pieces, tuple(unique.values()), tuple(left), splices, tables)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What an engine evaluates slices of one statement with."""

    session: Session
    lookup: Lookup
    statement: Fragment
    args: Args

    def bind(self, fragments: Sequence[tuple[Fragment, FragmentKind]], at: TableState | None = None) -> BoundStatement:
        """Look up the tables of some slices; `at` is a table whose snapshot is given."""
        return bind(self.session, self.lookup, fragments, self.args, at)


def _relations(
    pieces: Sequence[ParsedFragment], found: Sequence[tuple[Reference, Found]], zone: str, args: Args
) -> list[BoundTable]:
    """Return the relation of each reference; references that read the same share one."""
    out: list[BoundTable] = []
    known: list[BoundTable] = []
    fields = {id(reference.node): one.fields for reference, one in found}
    for reference, one in found:
        hidden = metadata_fields(one.table.schema) if isinstance(one.table, FileStoreTable) else ()
        columns = columns_read(pieces, reference, one.fields, hidden)
        is_state = isinstance(one.table, FileStoreTable) and not is_incremental(one.table.store.options)
        predicate = filter_of(reference, fields, args, zone) if is_state else None
        fresh = BoundTable("", one.table, one.snapshot_id, columns, predicate)
        same = next((other for other in known if replace(other, name="") == fresh), None)
        if same is None:
            same = replace(fresh, name=_unique(one.full_name[-1], (other.name for other in known)))
            known.append(same)
        out.append(same)
    return out


def _unique(name: str, taken: Iterable[str]) -> str:
    """Return a plain name that is not taken."""
    plain = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
    plain = plain if plain[:1].isalpha() else f"t{plain}"
    used, number, out = {one.lower() for one in taken}, 1, plain
    while out.lower() in used:
        number += 1
        out = f"{plain}_{number}"
    return out


def _splices(
    piece: ParsedFragment, found: Sequence[tuple[Reference, Found]], relations: Sequence[BoundTable], tables: Tables
) -> dict[tuple[int, int], str | tuple[BoundTable, str]]:
    """Return what is put in the place of names, hints and calls of ours in a slice."""
    out: dict[tuple[int, int], str | tuple[BoundTable, str]] = dict(hint_places(piece))
    qualifiers: dict[tuple[int, tuple[str, ...]], str] = {}
    for (reference, one), relation in zip(found, relations, strict=True):
        if reference.piece is not piece:
            continue
        alias = reference.alias or _alias(reference, one, found)
        if reference.alias is None:
            scope, names = id(reference.select), tuple(part.lower() for part in one.full_name)
            qualifiers |= {(scope, names): alias, (scope, names[1:]): alias}
        place, later = reference.alias_at, reference.alias_at != reference.end
        own = "" if place is None or later else f" AS {quote_identifier(alias)}"
        out[reference.start, reference.end] = relation, own
        if place is not None and later:
            out[place, place] = f" AS {quote_identifier(alias)} "
    out |= _qualifier_replacements(piece, qualifiers)
    for call in piece.tree.find_all(exp.Anonymous):
        place_of_call = _call_place(piece, call)
        if place_of_call is not None and call.name.lower() == "max_pt":
            out[place_of_call] = tables.max_partition(piece, call)
        elif place_of_call is not None and isinstance(call.parent, exp.Dot) and call.parent.this.name.lower() == "sys":
            message = f"there is no function sys.{call.name}, only sys.max_pt; columns of BLOB are not supported"
            raise piece.fragment.slice(*place_of_call).error(message, kind=UnsupportedError)
    return out


def _alias(reference: Reference, one: Found, found: Sequence[tuple[Reference, Found]]) -> str:
    """Return the alias of a reference without one: its name, with the database if another of its SELECT has it too."""
    name = (reference.name.parts or one.full_name)[-1]
    for other, table in found:
        is_near = other is not reference and other.alias is None and other.select is reference.select
        if is_near and table.full_name != one.full_name and table.full_name[-1].lower() == name.lower():
            return ".".join(one.full_name if table.full_name[1:] == one.full_name[1:] else one.full_name[1:])
    return name


def _qualifier_replacements(
    piece: ParsedFragment, qualifiers: Mapping[tuple[int, tuple[str, ...]], str]
) -> dict[tuple[int, int], str]:
    """Return what is put in the place of `db.t` in `db.t.a`: a relation is known by its alias alone."""
    out = {}
    for column in piece.tree.find_all(exp.Column) if qualifiers else ():
        parts = column.parts[:-1]
        for length in (3, 2):
            names = tuple(piece.spell_name(part).lower() for part in parts[:length])
            alias = _alias_in_scope(column, names, qualifiers) if len(names) == length else None
            if alias is not None and (name := piece.name(parts[:length])) is not None:
                start = name.place.start - piece.fragment.start
                out[start, start + len(name.place.text)] = quote_identifier(alias)
                break
    return out


def _alias_in_scope(
    column: exp.Expr, names: tuple[str, ...], qualifiers: Mapping[tuple[int, tuple[str, ...]], str]
) -> str | None:
    """Return the alias of a table with this name in the SELECT of a column, or in one around it."""
    scope = column.find_ancestor(exp.Select)
    while scope is not None:
        if (id(scope), names) in qualifiers:
            return qualifiers[id(scope), names]
        scope = scope.find_ancestor(exp.Select)
    return None


def _call_place(piece: ParsedFragment, call: exp.Expr) -> tuple[int, int] | None:
    """Return the place of a call with the schema `sys` before it."""
    span = piece.span(call)
    if span is None:
        return None
    number = piece.word_at(span[0])
    words = piece.words
    if number > 1 and words[number - 1].text == "." and words[number - 2].upper == "SYS":
        start = words[number - 2].start
    else:
        start = span[0]
    depth, at = 0, number + 1
    while at < len(words):
        depth += (words[at].text == "(" and not words[at].is_text) - (words[at].text == ")" and not words[at].is_text)
        if depth == 0:
            return start, words[at].end
        at += 1
    return None


def escape_braces(text: str) -> str:
    """Return text whose braces are doubled, as `str.format` wants them."""
    return text.replace("{", "{{").replace("}", "}}")


def _escape_braces_if(text: str, escape: bool) -> str:  # noqa: FBT001 - handed through
    return escape_braces(text) if escape else text
