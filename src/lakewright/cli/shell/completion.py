"""Completion of statements: the text before the cursor and the names of a catalog in, words that may come next out.

What always holds: a catalog that fails or is slow costs a prompt its names, never an error; names are remembered for
some seconds.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from lakewright.errors import LakewrightError
from lakewright.spec.options import CoreOptions
from lakewright.statements.procedures.registry import PROCEDURES
from lakewright.statements.session import Session
from lakewright.statements.text import Fragment, Name

T = TypeVar("T")

KEYWORDS = tuple(
    "ADD ALL ALTER AND AS ASC BETWEEN BY CALL CASE CAST COLUMN COLUMNS COMMENT COPY COUNT CREATE CROSS DATABASE "
    "DATABASES DELETE DESC DESCRIBE DISTINCT DROP ELSE END EXCEPT EXISTS EXPLAIN EXTENDED FALSE FIRST FROM FULL GROUP "
    "HAVING IF IN INNER INSERT INTERSECT INTO IS JOIN LEFT LIKE LIMIT MATCHED MERGE NOT NULL OF ON OPTIONS OR ORDER "
    "OUTER OVER OVERWRITE PARTITION PARTITIONED PARTITIONS PROCEDURE PROCEDURES RENAME REPLACE RIGHT SELECT SET SHOW "
    "TABLE TABLES TAG TAGS TBLPROPERTIES TEMPORARY THEN TIMESTAMP TO TRUE TRUNCATE UNION UNSET UPDATE USE USING VALUES "
    "VERSION VIEW WHEN WHERE WITH".split()
)
_WORD = re.compile(r"[\w.`$-]*$")
_TABLE_COMES = re.compile(
    r"\b(?:FROM|JOIN|INTO|UPDATE|TABLE|OVERWRITE|USING|DESCRIBE|DESC|TRUNCATE)\s+(?:(?:IF|NOT|EXISTS|TABLE|EXTENDED)\s+)*$",
    re.IGNORECASE,
)
_DATABASE_COMES = re.compile(
    r"\b(?:USE|DATABASE|SCHEMA|(?:TABLES|COLUMNS)\s+(?:IN|FROM))\s+(?:(?:IF|NOT|EXISTS)\s+)*$", re.IGNORECASE
)
_IN_CALL = re.compile(r"\bCALL\s+(?:\w+\.)?sys\.(\w+)\s*\((?P<inside>[^;]*)$", re.IGNORECASE)
_CALL_COMES = re.compile(r"\bCALL\s+$|\bPROCEDURE\s+$", re.IGNORECASE)
_OPTION_COMES = re.compile(r"\b(?:TBLPROPERTIES|OPTIONS)\s*\((?:[^()']|'[^']*')*'$", re.IGNORECASE)
_TABLE_NAMES = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE|TABLE|USING)\s+([\w.`$-]+)", re.IGNORECASE)
_REMEMBERED_SECONDS = 10.0
OPTION_KEYS = tuple(sorted(one.key() for one in vars(CoreOptions).values() if hasattr(one, "key")))


@dataclass
class Names:
    """The names of a session: databases, tables, columns; looked up when they are asked for."""

    session: Session
    clock: Callable[[], float] = time.monotonic
    _known: dict[object, tuple[float, object]] = field(default_factory=dict)

    def databases(self) -> list[str]:
        """Return the databases of the current catalog."""
        return self._remembered("databases", self.session.catalog.list_databases, [])

    def tables(self, database: str | None = None) -> list[str]:
        """Return the tables of a database, of the current one unless one is named."""
        name = database or self.session.database
        return self._remembered(("tables", name), lambda: self.session.catalog.list_tables(name), [])

    def columns(self, table: str) -> list[str]:
        """Return the columns of a table as it is named in a statement."""
        parts = tuple(part.strip("`") for part in table.split("."))
        name = Name(parts, Fragment(table, 0, len(table)))
        key = ("columns", self.session.database, parts)
        return self._remembered(key, lambda: list(self.session.table(name).field_names), [])

    def forget(self) -> None:
        """Look everything up again: a statement may have changed it."""
        self._known.clear()

    def _remembered(self, key: object, look: Callable[[], T], none: T) -> T:
        kept = self._known.get((self.session.catalog_name, key))
        if kept is not None and self.clock() - kept[0] < _REMEMBERED_SECONDS:
            return kept[1]  # type: ignore[return-value]
        found = none
        with suppress(LakewrightError, OSError):
            found = look()
        self._known[(self.session.catalog_name, key)] = (self.clock(), found)
        return found


def completions(before: str, names: Names) -> tuple[str, list[str]]:
    """Return the word that is being written, and the words that may stand there, in order."""
    text = before[before.rfind(";") + 1 :]
    word = (_WORD.search(text) or re.match("", text))[0]  # type: ignore[index]
    lead = text[: len(text) - len(word)]
    found = dict.fromkeys(one for one in _candidates(text, lead, word, names) if _fits(one, word))
    return word, [one for one in found if one != word]


def _fits(candidate: str, word: str) -> bool:
    return candidate.lower().startswith(word.lower().replace("`", ""))


def _candidates(text: str, lead: str, word: str, names: Names) -> Iterator[str]:
    call = _IN_CALL.search(lead)
    if _OPTION_COMES.search(lead):
        yield from OPTION_KEYS
    elif call is not None:
        yield from _arguments_of(call[1], call["inside"])
    elif _CALL_COMES.search(lead):
        yield from (f"sys.{name}" for name in PROCEDURES)
    elif _DATABASE_COMES.search(lead):
        yield from names.databases()
    elif _TABLE_COMES.search(lead):
        yield from _tables(word, names)
        yield from _cased(("TABLE", "DATABASE", "EXTENDED"), word)
    else:
        yield from _columns(text, word, names)
        yield from _cased(KEYWORDS, word)


def _arguments_of(procedure: str, inside: str) -> Iterator[str]:
    """Yield the arguments of a procedure that are not given yet, where one may stand."""
    known = PROCEDURES.get(procedure.lower())
    if known is not None and inside.count("'") % 2 == 0 and re.search(r"(^|,)\s*$", inside):
        given = {name.lower() for name in re.findall(r"(\w+)\s*=>", inside)}
        yield from (f"{one.name} => " for one in known.parameters if one.name.lower() not in given)


def _tables(word: str, names: Names) -> Iterator[str]:
    database, dot, _ = word.rpartition(".")
    if dot:
        yield from (f"{database}.{table}" for table in names.tables(database.strip("`")))
        return
    yield from names.tables()
    yield from (f"{one}." for one in names.databases())


def _columns(text: str, word: str, names: Names) -> Iterator[str]:
    """Yield the columns of the tables that the statement names; after `alias.`, with that."""
    if not word:
        return
    alias, dot, _ = word.rpartition(".")
    for table in dict.fromkeys(_TABLE_NAMES.findall(text)):
        yield from (f"{alias}{dot}{column}" for column in names.columns(table))


def _cased(words: Iterable[str], word: str) -> Iterator[str]:
    """Yield keywords once something is written, in its case."""
    if word:
        yield from (one.lower() if word.islower() else one for one in words)
