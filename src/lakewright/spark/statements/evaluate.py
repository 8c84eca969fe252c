"""Text over frames: slices of a statement whose names are looked up in, a frame that Spark evaluates out.

What always holds: parameters are bound, never pasted. Those by place (`?`) become parameters by name, because the text
that Spark gets has the slices in another order, and some of them twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from lakewright.spark.read.frame import frame_of
from lakewright.statements.parse.cursor import words_of
from lakewright.statements.query.bind import Bound, Relation, bind
from lakewright.statements.query.places import Kind
from lakewright.statements.query.tables import Lookup
from lakewright.statements.session import Session
from lakewright.statements.text import Args, Fragment
from lakewright.table.table import FileStoreTable

_NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"

Written: TypeAlias = Callable[[str | Fragment], str]  # how own text, or a slice, is written for Spark


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Evaluates slices of one statement with a Spark session."""

    session: Session
    lookup: Lookup
    spark: SparkSession
    statement: Fragment
    args: Args

    def bind(
        self, fragments: Sequence[tuple[Fragment, Kind]], at: tuple[FileStoreTable, int | None] | None = None
    ) -> Bound:
        """Look up the tables of some slices; `at` is a table whose snapshot is given."""
        return bind(self.session, self.lookup, fragments, self.args, at)

    def query(self, query: Fragment, at: tuple[FileStoreTable, int | None] | None = None) -> DataFrame:
        """Return the rows of a query."""
        return self.run(self.bind([(query, Kind.QUERY)], at), lambda written: written(query))

    def run(
        self, bound: Bound, compose: Callable[[Written], str], frames: Mapping[str, DataFrame] | None = None
    ) -> DataFrame:
        """Return the rows of text that `compose` makes of slices, over their relations and more frames by name."""
        every = {**frames_of(self.spark, bound.relations), **(frames or {})}
        numbers = {piece.fragment: number for number, piece in enumerate(bound.pieces)}

        def written(part: str | Fragment) -> str:
            if isinstance(part, str):
                return part.replace("{", "{{").replace("}", "}}") if every else part
            return self._named(bound.text(numbers[part], placeholder, escape_braces=bool(every)), part)

        try:
            return evaluated(self.spark, compose(written), self._named_args(), every)
        except AnalysisException as error:
            explain_missing(bound, error)
            raise

    def _named(self, text: str, part: Fragment) -> str:
        """Return text in which parameters by place are parameters by name."""
        if isinstance(self.args, Mapping) or "?" not in text:
            return text
        before = words_of(part.whole, self.statement.start, part.start)
        number = sum(word.text == "?" and not word.is_text for word in before)
        out, last = [], 0
        for word in words_of(text):
            if word.text == "?" and not word.is_text:
                out += [text[last : word.start], f":lw_{number}"]
                number, last = number + 1, word.end
        return "".join([*out, text[last:]])

    def _named_args(self) -> Args:
        if isinstance(self.args, Mapping):
            return self.args
        return {f"lw_{number}": value for number, value in enumerate(self.args)}


def evaluated(spark: SparkSession, text: str, args: Args, frames: Mapping[str, DataFrame] | None = None) -> DataFrame:
    """Return the rows of text over frames, which it names in braces."""
    given = cast("dict[str, object]", args) or None
    return spark.sql(text, args=given, **(frames or {}))


def frames_of(spark: SparkSession, relations: Sequence[Relation]) -> dict[str, DataFrame]:
    """Return the rows of relations as frames, by the names that `placeholder` gives them."""
    return {_key(relation): frame_of(spark, relation.builder()) for relation in relations}


def placeholder(relation: Relation) -> str:
    """Return how the text of a statement names the frame of a relation."""
    return "{" + _key(relation) + "}"


def _key(relation: Relation) -> str:
    return f"{relation.name}_rows"  # no name of an argument of spark.sql


def explain_missing(bound: Bound, error: AnalysisException) -> None:
    """Raise an error of ours if Spark does not know a name that is none of ours either."""
    condition = error.getCondition() if hasattr(error, "getCondition") else error.getErrorClass()
    if condition != _NOT_FOUND:
        return
    said = str((error.getMessageParameters() or {}).get("relationName", "")).lower()
    for name in bound.left:
        if said == ".".join(f"`{part.replace('`', '``')}`" for part in name.parts).lower():
            raise bound.missing(name) from None
